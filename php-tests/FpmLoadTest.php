<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use PHPUnit\Framework\TestCase;

/** Very many requests that push, to four processes of php-fpm: `DULY_FPM_REQUESTS`. */
final class FpmLoadTest extends TestCase
{
    private const CHILDREN = 4;
    private const AT_ONCE = 8;
    /** How much more private memory a process may have at the end than after a tenth of the requests, in KiB. */
    private const MAY_GROW_KIB = 1024;

    private Server $server;
    private Fpm $fpm;
    /** @var array<string, int> what was answered with 200: the number of the request by the id of the job */
    private array $journal = [];
    private int $unanswered = 0;

    protected function setUp(): void
    {
        $this->server = new Server();
        $folder = $this->server->folder();
        file_put_contents("{$folder}/push.php", '<?php
            try {
                $number = (int) $_SERVER["QUERY_STRING"];
                echo (new Duly\Client(deadline: 60))->queue("q")->push(["number" => $number]);
            } catch (Throwable $error) {
                http_response_code(500);
                echo $error->getMessage();
            }
        ');
        $url = "php_admin_value[duly.url] = {$this->server->url()}";
        $this->fpm = new Fpm($folder, self::CHILDREN, $url, 'php_admin_value[duly.prefix] = f:');
    }

    protected function tearDown(): void
    {
        $this->fpm->stop();
        $this->server->close();
    }

    public function testNoPushIsLostThatWasAnsweredAndTheProcessesDoNotGrow(): void
    {
        $requests = (int) (getenv('DULY_FPM_REQUESTS') ?: 5_000);
        $areThere = fn (): bool => count($this->fpm->children()) === self::CHILDREN;
        Server::until($areThere, 'the processes are not there');
        $before = $this->fpm->children();
        $this->push(0, intdiv($requests, 3), static fn () => null);
        // While requests run, all processes are replaced, and each ends the request that it has.
        $this->push(intdiv($requests, 3), intdiv($requests, 2), fn () => $this->fpm->signal(SIGUSR2));
        Server::until(function () use ($before): bool {
            $now = $this->fpm->children();
            return count($now) === self::CHILDREN && array_intersect($before, $now) === [];
        }, 'the processes are not replaced');
        $children = $this->fpm->children();
        $this->push(intdiv($requests, 2), intdiv($requests * 6, 10), static fn () => null);
        $early = array_map(self::privateKib(...), $children);
        // It opens its log again, and goes on with the same processes.
        $this->push(intdiv($requests * 6, 10), $requests, fn () => $this->fpm->signal(SIGUSR1));
        self::assertSame($children, $this->fpm->children());
        $late = array_map(self::privateKib(...), $children);
        fprintf(
            STDERR,
            "\n%d requests, %d answered with 200, %d without an answer; private KiB %s, at the end %s\n",
            $requests,
            count($this->journal),
            $this->unanswered,
            implode(' ', $early),
            implode(' ', $late),
        );
        foreach ($late as $child => $kib) {
            self::assertLessThan($early[$child] + self::MAY_GROW_KIB, $kib);
        }
        self::assertLessThan($requests / 100, $this->unanswered);
        $this->assertNothingIsLost($requests);
    }

    /** Sends these requests, several at once, and calls this when a fifth of them is sent. */
    private function push(int $from, int $to, callable $meanwhile): void
    {
        $open = [];
        for ($number = $from; $number < $to || $open !== []; $number++) {
            if ($number === $from + intdiv($to - $from, 5)) {
                $meanwhile();
            }
            if ($number < $to) {
                $open[$number] = $this->fpm->ask('push', (string) $number);
            }
            if ($number < $to && count($open) < self::AT_ONCE) {
                continue;
            }
            $readable = $open;
            $none = null;
            if (stream_select($readable, $none, $none, 60) === 0) {
                self::fail('php-fpm does not answer');
            }
            foreach ($readable as $asked => $stream) {
                unset($open[$asked]);
                [$status, $body] = $this->fpm->answer($stream);
                if ($status === 200) {
                    self::assertMatchesRegularExpression('/^[0-9A-Za-z_-]{16}$/', $body);
                    $this->journal[$body] = $asked;
                } else {
                    self::assertSame(0, $status, $body);
                    $this->unanswered++;
                }
            }
        }
    }

    /** Compares the journal with the queue. */
    private function assertNothingIsLost(int $requests): void
    {
        $queue = (new Client($this->server->url(), 'f:'))->queue('q');
        $numbers = [];
        $journal = $this->journal;
        while (($jobs = $queue->reserveMany(1_000)) !== []) {
            foreach ($jobs as $job) {
                $number = $job->data()['number'];
                self::assertSame($number, $journal[$job->id] ?? $number);
                unset($journal[$job->id]);
                $numbers[] = $number;
            }
            $queue->ackMany($jobs);
        }
        self::assertSame([], $journal, 'lost');
        self::assertSame($numbers, array_unique($numbers), 'pushed twice');
        self::assertLessThanOrEqual($requests, count($numbers));
    }

    private static function privateKib(int $pid): int
    {
        $memory = (string) file_get_contents("/proc/{$pid}/smaps_rollup");
        preg_match('/^Private_Dirty: +(\d+) kB/m', $memory, $found);
        return (int) $found[1];
    }
}
