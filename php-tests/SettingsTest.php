<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\InvalidArgumentException;

/** What php.ini says where a program says nothing. */
final class SettingsTest extends ServerTestCase
{
    public function testPhpIniNamesServerPrefixAndDeadline(): void
    {
        $settings = ["duly.url={$this->server->url()}", "duly.prefix={$this->prefix}"];
        self::assertSame('', $this->said('(new Duly\Client())->queue("q")->push("from php.ini");', $settings));
        self::assertSame('from php.ini', $this->queue->reserve()?->data());
        $code = '
            try {
                ini_set("duly.deadline", "0.25");
                (new Duly\Client())->ping();
            } catch (Duly\Exception\UnreachableException $error) {
                echo $error->getKind();
            }
        ';
        self::assertSame('unreachable', $this->said($code, ['duly.url=redis://127.0.0.1:1', 'duly.deadline=60']));
    }

    public function testTheArgumentAndTheEnvironmentComeFirst(): void
    {
        $wrong = ['duly.url=redis://127.0.0.1:1', 'duly.prefix=other:'];
        $url = var_export($this->server->url(), true);
        $prefix = var_export($this->prefix, true);
        self::assertSame('', $this->said("(new Duly\\Client({$url}, {$prefix}))->queue('q')->push(1);", $wrong));
        $code = "putenv('DULY_URL=' . {$url}); (new Duly\\Client(prefix: {$prefix}))->queue('q')->push(1);";
        self::assertSame('', $this->said($code, $wrong));
        self::assertSame(2, $this->queue->counts()->ready);
    }

    public function testAScriptCannotSendTheJobsOfOthersElsewhere(): void
    {
        $code = 'var_dump(ini_set("duly.url", "x"), ini_set("duly.prefix", "x"), ini_set("duly.deadline", "1"));';
        self::assertSame("bool(false)\nbool(false)\nstring(0) \"\"\n", $this->said($code, []));
    }

    public function testPhpinfoShowsThemWithoutThePassword(): void
    {
        $settings = ['duly.url="redis://user:s3cr3t@host:6380/2?password=s3cr3t"', 'duly.prefix=shop:'];
        $said = $this->said('phpinfo(INFO_MODULES);', $settings);
        self::assertStringContainsString("duly.url => redis://***@host:6380/2 => redis://***@host:6380/2\n", $said);
        self::assertStringContainsString("duly.prefix => shop: => shop:\n", $said);
        self::assertStringContainsString('version => ' . phpversion('duly') . "\n", $said);
        self::assertStringContainsString("duly.deadline => no value => no value\n", $said);
        self::assertStringNotContainsString('s3cr3t', $said);
        // The host was forgotten.
        $said = $this->said('phpinfo(INFO_MODULES);', ['duly.url="redis://user:s3cr3t"']);
        self::assertStringContainsString("duly.url => redis://*** => redis://***\n", $said);
    }

    public function testAWrongDeadlineIsRefused(): void
    {
        foreach (['soon', '0', '-1'] as $wrong) {
            $code = 'try { new Duly\Client(); } catch (Exception $error) { echo $error->getMessage(); }';
            $said = $this->said($code, ["duly.deadline={$wrong}"]);
            self::assertStringContainsString('duly.deadline in php.ini', $said);
        }
    }

    public function testAClosedClientIsOfNoUseAndItsConnectionEnds(): void
    {
        $server = new Server();
        try {
            $client = new Client($server->url(), 'c:');
            $same = new Client($server->url(), 'c:');
            $queue = $client->queue('q');
            $queue->push(1);
            self::assertSame(1, self::connectionsTo($server));
            $client->close();
            $client->close();
            $error = $this->thrownBy(InvalidArgumentException::class, fn () => $client->ping());
            self::assertSame('the client was closed: make a new one', $error->getMessage());
            $this->thrownBy(InvalidArgumentException::class, fn () => $client->queue('q'));
            self::assertSame(1, $queue->counts()->ready);
            $same->ping();
            unset($queue);
            self::assertSame(1, self::connectionsTo($server));
            $same->close();
            Server::until(static fn (): bool => self::connectionsTo($server) === 0, 'the connection stays open');
            (new Client($server->url(), 'c:'))->ping();
            self::assertSame(1, self::connectionsTo($server));
        } finally {
            $server->close();
        }
    }

    public function testOfClientsThatNobodyHasAnyMoreAFewAreKept(): void
    {
        $server = new Server();
        try {
            for ($number = 0; $number < 60; $number++) {
                (new Client($server->url(), "many{$number}:", password: null))->ping();
            }
            Server::until(static fn (): bool => self::connectionsTo($server) <= 17, 'connections stay open');
            // The last ones are still there.
            $before = self::connectionsReceived($server);
            (new Client($server->url(), 'many59:'))->ping();
            self::assertSame($before + 1, self::connectionsReceived($server));
            // Many at once, as on a page about all tenants.
            $held = [];
            for ($number = 0; $number < 40; $number++) {
                $held[] = $client = new Client($server->url(), "held{$number}:");
                $client->ping();
            }
            unset($held, $client);
            (new Client($server->url(), 'held39:'))->ping();
            Server::until(static fn (): bool => self::connectionsTo($server) <= 17, 'connections stay open');
        } finally {
            $server->close();
        }
    }

    /** Without the one that asks. */
    private static function connectionsTo(Server $server): int
    {
        preg_match('/connected_clients:(\d+)/', (string) $server->command('INFO', 'clients'), $found);
        return (int) $found[1] - 1;
    }

    private static function connectionsReceived(Server $server): int
    {
        preg_match('/total_connections_received:(\d+)/', (string) $server->command('INFO', 'stats'), $found);
        return (int) $found[1];
    }

    /** @param list<string> $settings */
    private function said(string $code, array $settings): string
    {
        $options = [];
        foreach ($settings as $setting) {
            array_push($options, '-d', $setting);
        }
        $streams = [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]];
        $environment = array_diff_key(getenv(), ['DULY_URL' => 0, 'DULY_DEADLINE' => 0]);
        $process = proc_open([PHP_BINARY, ...$options, '-r', $code], $streams, $pipes, null, $environment);
        self::assertIsResource($process);
        $said = (string) stream_get_contents($pipes[1]);
        proc_close($process);
        return $said;
    }
}
