<?php

declare(strict_types=1);

namespace Duly\Tests;

/** `duly`: the real program. */
final class ConsoleTest extends ServerTestCase
{
    private const PROGRAM = __DIR__ . '/../php-binding/bin/duly';

    public function testBridgeTakesOverTheJobsOfThinkPhpAndCountsShowsThem(): void
    {
        $package = '{"id":"1690000000.5.1","time":1690000000,"delay":0,"attempts":0,"data":{"order":42}}';
        $this->server->command('LPUSH', "{$this->prefix}old", $package);
        $this->server->command('ZADD', "{$this->prefix}later", '4102444800', $package);
        $keys = ['--ready', "{$this->prefix}old", '--delayed', "{$this->prefix}later"];
        [$status, $said] = $this->duly('bridge', 'drain', '--from', 'thinkphp', '--to', 'q', ...$keys);
        self::assertSame(0, $status, $said);
        self::assertStringContainsString('counts before and after agree: nothing is left', $said);
        $job = $this->queue->reserve();
        self::assertSame([['order' => 42], '1690000000.5.1'], [$job?->data(), $job?->headers['old-id'] ?? null]);
        self::assertSame([0, "q: delayed 1  ready 0  reserved 1  failed 0\n"], $this->duly('counts', 'q'));
    }

    public function testAWrongCommandLineSaysWhatThereIs(): void
    {
        [$status, $said] = $this->duly('bridge', 'all', '--from', 'thinkphp');
        self::assertSame(2, $status);
        self::assertStringContainsString('[possible values: dry-run, drain, follow, give-back]', $said);
    }

    public function testAnArgumentThatIsNoTextIsRefused(): void
    {
        $command = [PHP_BINARY, self::PROGRAM, 'find', 'orders', "\xff"];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
        self::assertStringContainsString('invalid UTF-8', (string) stream_get_contents($pipes[2]));
        self::assertSame(2, proc_close($process));
    }

    /** @return iterable<string, array{int, int}> */
    public static function signals(): iterable
    {
        yield 'SIGINT' => [SIGINT, 130];
        yield 'SIGTERM' => [SIGTERM, 0];
        yield 'SIGHUP' => [SIGHUP, 0];
    }

    /** @dataProvider signals */
    public function testAPageEndsByASignalWithItsExitStatus(int $signal, int $status): void
    {
        $web = $this->started('web', '--listen', '127.0.0.1:0');
        $web->hear('http://127.0.0.1:');
        $web->signal($signal);
        self::assertSame($status, $web->end(), $web->said());
    }

    /** @dataProvider signals */
    public function testAPageStaysWhereASignalIsIgnored(int $ignored): void
    {
        [$other, $status] = $ignored === SIGINT ? [SIGTERM, 0] : [SIGINT, 130];
        $target = ['--listen', '127.0.0.1:0', '--url', $this->server->url()];
        $command = ['sh', '-c', "trap '' {$ignored}; exec \"\$@\"", 'sh', PHP_BINARY, self::PROGRAM, 'web', ...$target];
        $web = new Running($command, __DIR__);
        $web->hear('http://127.0.0.1:');
        $web->signal($ignored);
        Program::untilSignalsHaveCome($web->pid());
        $web->signal($other);
        self::assertSame($status, $web->end(), $web->said());
        $program = $this->program("
            pcntl_signal({$ignored}, SIG_IGN);
            say('ends with ' . Duly\\Console::run(" . var_export(['web', ...$target], true) . "));
            posix_kill(getmypid(), {$ignored});
            pcntl_signal({$ignored}, SIG_DFL);
            posix_kill(getmypid(), {$ignored});
        ");
        $program->hear('http://127.0.0.1:');
        $program->signal($ignored);
        Program::untilSignalsHaveCome($program->pid());
        $program->signal($other);
        self::assertSame(-$ignored, $program->end(), $program->said());
        self::assertStringEndsWith("ends with {$status}\n", $program->said());
    }

    /** @dataProvider signals */
    public function testABridgeThatFollowsReportsAtASignalAndTheNextOneBegins(int $signal): void
    {
        $options = ['--from', 'list', '--ready', "{$this->prefix}old", '--to', 'q'];
        $this->server->command('LPUSH', "{$this->prefix}old", '1');
        $bridge = $this->started('bridge', 'follow', ...$options);
        Server::until(fn (): bool => $this->queue->counts()->ready === 1, 'it does not come over');
        $bridge->signal($signal);
        self::assertSame(0, $bridge->end(), $bridge->said());
        self::assertMatchesRegularExpression('/old.* 1 /', $bridge->said());
        [$status, $said] = $this->duly('bridge', 'drain', ...$options);
        self::assertSame(0, $status, $said);
    }

    public function testEachCommandOfAProgramHearsOfSignalsAndItsOwnHandlersAreBackBehindThem(): void
    {
        $web = var_export(['web', '--listen', '127.0.0.1:0', '--url', $this->server->url()], true);
        $program = $this->program("
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, fn () => say('handled'));
            foreach ([1, 2] as \$run) {
                say(\"run {\$run} ends with \" . Duly\\Console::run({$web}));
                posix_kill(getmypid(), SIGTERM);
                say('and then');
            }
            posix_kill(getmypid(), SIGINT);
            say('not killed');
        ");
        foreach ([1, 2] as $run) {
            Server::until(fn (): bool => substr_count($program->said(), 'http://') === $run, 'it has no page');
            $program->signal(SIGTERM);
            $program->hear("run {$run} ends with 0\nhandled\nand then\n");
        }
        self::assertSame(-SIGINT, $program->end(), $program->said());
        self::assertStringEndsWith("and then\n", $program->said());
    }

    /** @return iterable<string, array{int, int}> */
    public static function signalsOfPrograms(): iterable
    {
        yield 'SIGINT' => [SIGINT, 130];
        yield 'SIGTERM' => [SIGTERM, 143];
        yield 'SIGHUP' => [SIGHUP, 129];
    }

    /** @dataProvider signalsOfPrograms */
    public function testASignalEndsACommandOfAProgramAndThenItsHandlerIsCalled(int $signal, int $status): void
    {
        $this->queue->pushMany(array_fill(0, 20_000, ['data' => 1]));
        $target = ['--yes', '--url', $this->server->url(), '--prefix', $this->prefix];
        $cancel = var_export(['cancel', 'q', '--only', 'ready', '--priority', '5', ...$target], true);
        $program = $this->program("
            pcntl_async_signals(true);
            pcntl_signal({$signal}, fn () => say('handled'));
            \$status = Duly\\Console::run({$cancel});
            say(\"ends with {\$status}\");
        ");
        Server::until(fn (): bool => $this->queue->counts()->ready < 20_000, 'nothing is removed');
        $program->signal($signal);
        self::assertSame(0, $program->end(), $program->said());
        $said = $program->said();
        self::assertStringEndsWith("handled\nends with {$status}\n", $said);
        self::assertStringContainsString('interrupted', $said);
        $left = $this->queue->counts()->ready;
        self::assertGreaterThan(0, $left);
        self::assertStringContainsString((20_000 - $left) . ' of 20000 jobs are removed', $said);
    }

    public function testASignalThatNobodyHandlesEndsTheProgram(): void
    {
        $this->queue->pushMany(array_fill(0, 5_000, ['data' => 1]));
        $target = ['--yes', '--url', $this->server->url(), '--prefix', $this->prefix];
        $cancel = var_export(['cancel', 'q', '--only', 'ready', '--priority', '5', ...$target], true);
        $program = $this->program("say('ends with ' . Duly\\Console::run({$cancel}));");
        Server::until(fn (): bool => $this->queue->counts()->ready < 5_000, 'nothing is removed');
        $program->signal(SIGTERM);
        self::assertSame(-SIGTERM, $program->end(), $program->said());
        self::assertGreaterThan(0, $this->queue->counts()->ready);
    }

    private function started(string ...$arguments): Running
    {
        $target = ['--url', $this->server->url(), '--prefix', $this->prefix];
        return new Running([PHP_BINARY, self::PROGRAM, ...$arguments, ...$target], __DIR__);
    }

    /** @return array{int, string} */
    private function duly(string ...$arguments): array
    {
        $target = ['--url', $this->server->url(), '--prefix', $this->prefix];
        $command = implode(' ', array_map(escapeshellarg(...), [PHP_BINARY, self::PROGRAM, ...$arguments, ...$target]));
        exec("{$command} 2>&1", $lines, $status);
        return [$status, implode("\n", $lines) . "\n"];
    }
}
