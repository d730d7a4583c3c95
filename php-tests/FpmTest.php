<?php

declare(strict_types=1);

namespace Duly\Tests;

use PHPUnit\Framework\TestCase;

/** php-fpm with the extension, asked over its socket as a web server does. One process unless a test says otherwise. */
final class FpmTest extends TestCase
{
    private Server $server;
    private string $folder;
    private Fpm $fpm;

    protected function setUp(): void
    {
        $this->server = new Server();
        $this->folder = $this->server->folder();
        $this->script('push', 'echo $client->queue("q")->push($_SERVER["QUERY_STRING"]), " ", getmypid();');
        $this->script('exit', '$client->queue("q")->push(1); echo "before"; exit(1);');
        $this->script('fatal', '$client->queue("q")->push(1); echo "before"; none();');
        $this->script('held', '
            $GLOBALS["engine"] = new Duly\WorkerEngine($client, ["q"], 10, 30, 5);
            echo $GLOBALS["engine"]->next(10) ? "held" : "none";
            exit;
        ');
        file_put_contents("{$this->folder}/unrelated.php", '<?php usleep(50000); echo getmypid();');
        file_put_contents("{$this->folder}/try.php", '<?php
            $began = hrtime(true);
            try {
                (new Duly\Client())->queue("q")->push(1);
                $what = "pushed";
            } catch (Duly\Exception\UnreachableException | Duly\Exception\TimeoutException $error) {
                $what = str_contains($error->getMessage(), "circuit breaker") ? "refused" : "waited";
            }
            $seconds = (hrtime(true) - $began) / 1e9;
            usleep(50000);
            echo $what, " ", getmypid(), " ", $seconds;
        ');
        $children = $this->getName() === 'testAServerThatIsGoneCostsEachProcessOneDeadline' ? 4 : 1;
        $url = "php_admin_value[duly.url] = {$this->server->url()}";
        $this->fpm = new Fpm($this->folder, $children, $url, 'php_admin_value[duly.prefix] = f:');
    }

    protected function tearDown(): void
    {
        $this->fpm->stop();
        $this->server->close();
    }

    public function testRequestsShareOneConnection(): void
    {
        [, $pid] = explode(' ', $this->request('push', 'a'));
        $before = $this->connectionsReceived();
        for ($number = 0; $number < 5; $number++) {
            [$id, $same] = explode(' ', $this->request('push', "b{$number}"));
            self::assertSame($pid, $same);
            self::assertSame(16, strlen($id));
        }
        // Each look at the number is a connection itself.
        self::assertSame($before + 1, $this->connectionsReceived());
    }

    public function testAServerThatCameBackBetweenTwoRequestsIsUsedAgain(): void
    {
        [, $pid] = explode(' ', $this->request('push', 'a'));
        $this->server->kill();
        $this->server->start();
        [$id, $same] = explode(' ', $this->request('push', 'b'));
        self::assertSame([16, $pid], [strlen($id), $same]);
    }

    public function testAnExitAndAFatalErrorDoNoHarmToTheNextRequest(): void
    {
        [, $pid] = explode(' ', $this->request('push', 'a'));
        self::assertSame('before', $this->request('exit'));
        self::assertStringStartsWith('before', $this->request('fatal'));
        self::assertSame('held', $this->request('held'));
        [$id, $same] = explode(' ', $this->request('push', 'b'));
        self::assertSame([16, $pid], [strlen($id), $same]);
        self::assertStringNotContainsString('exited on signal', (string) file_get_contents("{$this->folder}/fpm.log"));
    }

    public function testAServerThatIsGoneCostsEachProcessOneDeadline(): void
    {
        $answers = $this->fromAll(4, 'try', 'pushed');
        self::assertCount(4, $answers);
        $this->server->kill();
        // All at once: each process waits for its deadline, which is 2 s in a request, and no longer; a page that has
        // nothing to do with it waits for one of them at most.
        $began = hrtime(true);
        $open = array_map(fn () => $this->fpm->ask('try'), range(1, 4));
        $answers = $this->fpm->bodies([...$open, 'unrelated' => $this->fpm->ask('unrelated')]);
        self::assertGreaterThan(0, (int) $answers['unrelated']);
        self::assertLessThan(5.0, (hrtime(true) - $began) / 1e9);
        unset($answers['unrelated']);
        $waited = 0;
        foreach ($answers as $answer) {
            [$what, , $seconds] = explode(' ', $answer);
            self::assertContains($what, ['waited', 'refused'], $answer);
            self::assertLessThan(5.0, (float) $seconds);
            $waited += $what === 'waited' ? 1 : 0;
        }
        self::assertGreaterThan(0, $waited);
        // The next ones are refused at once, but for a probe a second.
        self::assertCount(4, $this->fromAll(4, 'try', 'refused'));
        self::assertGreaterThan(0, (int) $this->request('unrelated'));
        $this->server->start();
        self::assertCount(4, $this->fromAll(4, 'try', 'pushed'));
    }

    public function testTheFirstJobOfThePage(): void
    {
        // The page's line for the pool is that of this test.
        [$pool] = Pages::blocks('first-job.md', 'text');
        $line = explode("\n", trim(str_replace('redis://127.0.0.1:6379', $this->server->url(), $pool)))[1];
        self::assertStringContainsString($line, (string) file_get_contents("{$this->folder}/fpm.conf"));
        file_put_contents("{$this->folder}/index.php", Pages::code('first-job.md', '$_GET'));
        self::assertSame("order 7 closes in 3 s unless it is paid\n", $this->request('index', 'order=7'));
        $orders = (new \Duly\Client($this->server->url(), 'f:'))->queue('orders');
        self::assertSame(['order' => 7], $orders->find(key: 'close:7')?->data());
        self::assertSame("order 7 is paid\n", $this->request('index', 'order=7&paid=1'));
        self::assertNull($orders->find(key: 'close:7'));
    }

    public function testALeaseIsNotKeptBeyondItsRequest(): void
    {
        $this->request('push', 'a');
        self::assertSame('held', $this->request('held'));
        // The run has failed at once: its process ended it, and its lease would end later.
        $job = (new \Duly\Client($this->server->url(), 'f:'))->queue('q')->reserve(wait: 5);
        self::assertSame([2, 1], [$job?->attempt, $job?->attempts]);
    }

    private function script(string $name, string $code): void
    {
        $url = var_export($this->server->url(), true);
        file_put_contents("{$this->folder}/{$name}.php", "<?php \$client = new Duly\\Client({$url}, 'f:'); {$code}");
    }

    /**
     * Asks until so many processes have answered so.
     *
     * @return array<string, string> answers by process
     */
    private function fromAll(int $processes, string $script, string $what): array
    {
        $answers = [];
        Server::until(function () use ($processes, $script, $what, &$answers): bool {
            foreach ($this->requests($processes, $script) as $answer) {
                [$said, $pid] = explode(' ', $answer);
                if ($said === $what) {
                    $answers[$pid] = $answer;
                }
            }
            return count($answers) === $processes;
        }, "not all processes have {$what}", 40);
        return $answers;
    }

    /** @return list<string> the answers to so many requests at once */
    private function requests(int $count, string $script): array
    {
        $open = array_map(fn () => $this->fpm->ask($script), array_fill(0, $count, null));
        return array_values($this->fpm->bodies($open));
    }

    /** The body of the answer. */
    private function request(string $script, string $query = ''): string
    {
        return $this->fpm->answer($this->fpm->ask($script, $query))[1];
    }

    private function connectionsReceived(): int
    {
        preg_match('/total_connections_received:(\d+)/', $this->server->command('INFO', 'stats'), $found);
        return (int) $found[1];
    }
}
