<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use PHPUnit\Framework\TestCase;

/** Follows pages of docs/php that lead through more than one block. */
final class PagesTest extends TestCase
{
    private string $folder;
    /** @var list<resource> */
    private array $running = [];

    protected function setUp(): void
    {
        $this->folder = sys_get_temp_dir() . '/duly-pages-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
    }

    protected function tearDown(): void
    {
        foreach ($this->running as $process) {
            @posix_kill(-proc_get_status($process)['pid'], SIGKILL);
            proc_close($process);
        }
        exec('rm -rf ' . escapeshellarg($this->folder));
    }

    public function testTheFirstJob(): void
    {
        $page = 'first-job.md';
        file_put_contents("{$this->folder}/index.php", Pages::code($page, '$_GET'));
        file_put_contents("{$this->folder}/bootstrap.php", Pages::code($page, 'return $worker'));
        [$worker, $web, $customers] = Pages::blocks($page, 'bash');

        [$work, $said] = $this->start($worker);
        self::hears($said, 'serving orders with 1 process');
        [, $served] = $this->start($web);
        self::hears($served, '127.0.0.1:' . $this->port() . ') started');
        exec("{\n{$this->here($customers)}} 2>/dev/null", $answers, $status);
        self::assertSame(0, $status);
        $closes = static fn (int $order): string => "order {$order} closes in 3 s unless it is paid";
        self::assertSame([$closes(42), $closes(43), 'order 43 is paid'], $answers);

        self::hears($said, 'closed order 42');
        $orders = (new Client("embedded:{$this->folder}/server"))->queue('orders');
        $both = ['acked' => 0, 'cancelled' => 0];
        $totals = static fn (): array => array_intersect_key($orders->counts()->totals, $both);
        Server::until(static fn (): bool => ($totals()['acked'] ?? 0) === 1, 'the order is not acked');
        self::assertSame(['acked' => 1, 'cancelled' => 1], $totals());

        // Ctrl-C ends the worker, and what is overdue then runs at once.
        posix_kill(-proc_get_status($work)['pid'], SIGINT);
        Server::until(static fn (): bool => !proc_get_status($work)['running'], 'Ctrl-C does not end the worker');
        $orders->push(['order' => 44], name: 'order.close');
        [, $said] = $this->start($worker);
        self::hears($said, 'closed order 44');
        self::assertStringNotContainsString('closed order 43', (string) file_get_contents($said));
    }

    public function testTheTestOfThePageAboutTesting(): void
    {
        $code = Pages::code('testing.md', 'extends TestCase');
        $start = "<?php\n\nrequire '" . realpath(Pages::ROOT) . "/php-binding/php/src/Worker.php';\n";
        file_put_contents("{$this->folder}/CloseOrderTest.php", str_replace("<?php\n", $start, $code));
        preg_match('~<php>.*?</php>~', (string) file_get_contents(Pages::ROOT . '/docs/php/testing.md'), $settings);
        $xml = "<phpunit>{$settings[0]}</phpunit>";
        file_put_contents("{$this->folder}/phpunit.xml", $this->here($xml));
        exec("cd {$this->folder} && env -u DULY_URL phpunit -c phpunit.xml CloseOrderTest.php 2>&1", $lines);
        self::assertStringContainsString('OK (1 test, 2 assertions)', implode("\n", $lines));
        self::assertDirectoryExists("{$this->folder}-tests");
        exec("rm -rf {$this->folder}-tests");
    }

    public function testComposerInstallsTheClassesAsThePageSays(): void
    {
        if (exec('command -v composer') === '') {
            self::markTestSkipped('not run without Composer');
        }
        $commands = array_filter(
            Pages::blocks('installing.md', 'sh'),
            static fn (string $block): bool => str_contains($block, 'composer require'),
        );
        self::assertCount(1, $commands);
        // Nothing is asked of the network: the package comes from the checkout.
        file_put_contents("{$this->folder}/composer.json", '{"repositories": {"packagist.org": false}}');
        $environment = "COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_HOME={$this->folder}/home";
        $script = "{$this->folder}/commands.sh";
        file_put_contents($script, "set -e\n" . reset($commands));
        exec("cd {$this->folder} && {$environment} bash {$script} 2>&1", $lines, $status);
        self::assertSame(0, $status, implode("\n", $lines));
        self::assertSame('duly ' . phpversion('duly'), end($lines));
    }

    /** A text of a page for this folder and a free port. */
    private function here(string $text): string
    {
        return str_replace(['/tmp/shop', '8080'], [$this->folder, (string) $this->port()], $text);
    }

    private function port(): int
    {
        static $port = null;
        if ($port === null) {
            $socket = stream_socket_server('tcp://127.0.0.1:0') ?: self::fail('there is no free port');
            $port = (int) substr((string) strrchr((string) stream_socket_get_name($socket, false), ':'), 1);
            fclose($socket);
        }
        return $port;
    }

    /** @return array{resource, string} the process, which leads a group, and the file with what it says */
    private function start(string $commands): array
    {
        $output = "{$this->folder}/said" . count($this->running);
        $streams = [['file', '/dev/null', 'r'], ['file', $output, 'w'], ['redirect', 1]];
        $process = proc_open(['setsid', 'bash', '-c', $this->here($commands)], $streams, $pipes, $this->folder);
        self::assertIsResource($process);
        return [$this->running[] = $process, $output];
    }

    private static function hears(string $file, string $text): void
    {
        $said = static fn (): string => (string) file_get_contents($file);
        try {
            Server::until(static fn (): bool => str_contains($said(), $text), '', 30);
        } catch (\RuntimeException) {
            self::fail("'{$text}' was not said, but: {$said()}");
        }
    }
}
