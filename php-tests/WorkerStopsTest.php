<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;

/** A worker that is to stop while code of its program runs that is no run of a job: it gets the grace, and no more. */
final class WorkerStopsTest extends ServerTestCase
{
    private const LOOPS = 'say("begin"); while (true) { usleep(1000); }';
    /** As a query that gets no answer: PHP waits on after a signal. */
    private const READS = 'say("begin"); [$mine] = $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        fgets($mine);';

    public function testAHookForAJobOfAnotherWorkerThatDoesNotEndEndsTheProcess(): void
    {
        $hang = [
            'loop' => [self::LOOPS, 'grace: 0.2', [SIGTERM]],
            'read' => [self::READS, 'grace: 0.2', [SIGINT]],
            'second_signal' => [self::READS, 'grace: 600', [SIGTERM, SIGINT]],
        ];
        $programs = [];
        foreach ($hang as $name => [$hook, $settings, $signals]) {
            $this->failByHand($name);
            $code = '$worker->onFailed(function () { ' . $hook . ' })->run(); say("returned");';
            $programs[$name] = $this->worker($name, $code, $settings);
        }
        foreach ($hang as $name => [, , $signals]) {
            $programs[$name]->hear('begin');
            array_map($programs[$name]->signal(...), $signals);
        }
        foreach ($programs as $name => $program) {
            self::assertSame(124, $program->end(), "{$name}: {$program->said()}");
            $said = 'duly: job a (n, attempt 1) of queue q; its on_failed hook does not end: this process does, with '
                . "exit code 124\n";
            self::assertStringEndsWith($said, $program->said(), $name);
            self::assertSame(1, substr_count($program->said(), 'does not end'));
            $claimed = "{$this->prefix}{$name}:{q}:unheard";
            self::assertSame('0', $this->server->command('ZSCORE', $claimed, 'a'), "{$name}: another worker calls it");
        }
        $next = $this->worker('loop', '$worker->onFailed(fn (Duly\Job $job) => say("heard of {$job->id}"))->run();');
        $next->hear('heard of a');
        $next->signal(SIGTERM);
        self::assertSame(0, $next->end());
    }

    public function testAHookThatStopsCutIsCalledHoweverOften(): void
    {
        $this->failByHand('often');
        for ($cut = 0; $cut < 4; $cut++) {
            $program = $this->worker('often', '
                $worker->onFailed(function () use ($client) {
                    say("begin");
                    while ($client->queue("gate")->counts()->ready === 0) {
                        usleep(1000);
                    }
                })->run();
            ', 'grace: 0');
            $program->hear('begin');
            $program->signal(SIGTERM);
            $claimed = "{$this->prefix}often:{q}:unheard";
            Server::until(fn () => $this->server->command('ZSCORE', $claimed, 'a') === '0', 'it is not given back');
            $gate = (new Client($this->server->url(), "{$this->prefix}often:"))->queue('gate');
            $gate->push(1);
            self::assertSame(0, $program->end(), $program->said());
            $said = "the onFailed hook for job 'a' (n, attempt 1) of queue 'q' went on behind the grace: another "
                . 'worker calls it, too';
            self::assertStringContainsString($said, $program->said());
            $gate->purge('ready');
        }
        $next = $this->worker('often', '$worker->onFailed(fn (Duly\Job $job) => say("heard of {$job->id}"))->run();');
        $next->hear('heard of a');
        $next->signal(SIGTERM);
        self::assertSame(0, $next->end());
    }

    /**
     * Its own one, in the run that has failed.
     *
     * @dataProvider endsOfAHook
     */
    public function testAFailureWhoseHookOutlivesItsRunIsOne(
        string $hook,
        string $settings,
        ?float $timeout,
        int $code,
    ): void {
        $client = new Client($this->server->url(), "{$this->prefix}own:");
        $queue = $client->queue('q');
        $queue->push(1, id: 'a', name: 'f', maxRetries: 0, timeout: $timeout);
        $program = $this->worker('own', '
            $worker->on("f", fn () => throw new DomainException("first"));
            $worker->onFailed(function () use ($client) { ' . $hook . ' })->run();
        ', $settings);
        $program->hear('begin');
        if ($timeout === null) {
            $program->signal(SIGTERM);
            Server::until(fn () => $queue->find('a')?->state === 'failed', 'it has not failed');
        } elseif ($code === 0) {
            $until = microtime(true) + 3 * $timeout;
            Server::until(fn () => microtime(true) > $until, 'the timeout is not over');
            self::assertSame('reserved', $queue->find('a')?->state, 'another worker calls the hook meanwhile');
        }
        $client->queue('gate')->push(1);
        if ($code === 0) {
            $program->hear("job 'a' (f, attempt 1) of queue 'q' failed for good: DomainException at ");
            $program->hear('but what becomes of the job was decided before');
            $timeout === null || $program->signal(SIGTERM);
        }
        self::assertSame($code, $program->end(), $program->said());
        self::assertSame(1, substr_count($program->said(), 'begin'));
        if ($timeout === null || $code === 124) {
            // Nobody knows whether the hook has done what it was to do.
            $hears = $this->worker('own', '$worker->onFailed(fn () => say("begin again"))->run();');
            $hears->hear('begin again');
            $hears->hear('job a (f, attempt 1) of queue q failed for good');
            $hears->signal(SIGTERM);
            self::assertSame(0, $hears->end());
        }
        self::assertSame(0, $this->server->command('ZCARD', "{$this->prefix}own:{q}:unheard"));
        self::assertNull($this->server->command('HGET', "{$this->prefix}own:{q}:meta", 'unheard_last'));
        if ($code === 124) {
            $said = 'duly: job a (f, attempt 1) of queue q; what becomes of it is decided, but a hook behind it or its '
                . 'handler does not end: this process does, with exit code 124';
            self::assertStringContainsString($said, $program->said());
        }
        $found = $queue->find('a');
        self::assertSame(['failed', 1], [$found?->state, $found?->attempts]);
        self::assertStringStartsWith('DomainException: first', (string) $found?->error);
    }

    /** @return array<string, array{string, string, ?float, int}> */
    public static function endsOfAHook(): array
    {
        $waits = 'static $calls = 0; say($calls++ === 0 ? "begin" : "begin again");
            while ($client->queue("gate")->counts()->ready === 0) { usleep(1000); }';
        return [
            'it ends behind the grace' => [$waits, 'grace: 0', null, 0],
            'it ends behind the timeout' => [$waits, 'grace: 600', 0.5, 0],
            'it does not end behind the grace' => [self::READS, 'grace: 0', null, 124],
            'it does not end behind the timeout' => [self::READS, 'grace: 600', 0.5, 124],
        ];
    }

    public function testWhatIsDoneIsAckedThoughItsAfterHookOutlivesTheRun(): void
    {
        $client = new Client($this->server->url(), "{$this->prefix}done:");
        foreach (['grace: 0' => null, 'grace: 600' => 0.5] as $settings => $timeout) {
            $client->queue('q')->push(1, id: 'a', name: 'f', maxRetries: 0, resultTtl: 60, timeout: $timeout);
            $program = $this->worker('done', '
                $worker->on("f", fn () => "result")->onFailed(fn () => say("onFailed"));
                $worker->after(function () use ($client) {
                    say("begin");
                    while ($client->queue("gate")->counts()->ready === 0) { usleep(1000); }
                })->run();
            ', $settings);
            $program->hear('begin');
            $timeout === null && $program->signal(SIGTERM);
            self::assertSame('result', $client->queue('q')->waitResult('a', timeout: 20));
            $client->queue('gate')->push(1);
            $program->hear('but what becomes of the job was decided before');
            $timeout === null || $program->signal(SIGTERM);
            self::assertSame(0, $program->end(), $program->said()); // no job was given back
            self::assertStringNotContainsString('onFailed', $program->said());
            self::assertNull($client->queue('q')->find('a'));
            $client->queue('gate')->purge('ready');
        }
    }

    public function testAHookForAJobOfAnotherWorkerMayEndWithinTheGrace(): void
    {
        foreach (['first', 'second'] as $id) {
            $this->failByHand('grace', $id);
        }
        $program = $this->worker('grace', '
            $worker->onFailed(function (Duly\Job $job) use ($client) {
                say("begin {$job->id}");
                $client->queue("gate")->reserve(wait: 20)?->ack();
                say("end {$job->id}");
            })->run();
        ', 'grace: 600, lease: 1');
        $program->hear('begin first');
        $program->signal(SIGTERM);
        Program::untilSignalsHaveCome($program->pid());
        // It stays a worker of the queue, and keeps the claim, until the hook has ended.
        $beats = [];
        Server::until(function () use (&$beats): bool {
            $beat = $this->server->command('ZRANGE', "{$this->prefix}grace:{q}:workers", '0', '-1', 'WITHSCORES');
            $beats[serialize($beat)] = true;
            return $beat === [] || count($beats) > 3;
        }, 'it does not beat');
        (new Client($this->server->url(), "{$this->prefix}grace:"))->queue('gate')->push(1);
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringContainsString('end first', $program->said());
        self::assertStringNotContainsString('begin second', $program->said(), 'it begins none when it stops');
        $claimed = "{$this->prefix}grace:{q}:unheard";
        self::assertSame(['second'], $this->server->command('ZRANGE', $claimed, '0', '-1'));
        self::assertLessThan(1000 * (time() + 2), (int) $this->server->command('ZSCORE', $claimed, 'second'));
    }

    public function testCodeBesideTheRunsThatDoesNotEndEndsTheProcess(): void
    {
        $fails = '$worker->on("n", fn () => throw new DomainException())->run();';
        $hang = [
            'report' => ['report: function () { ' . self::LOOPS . ' }', $fails],
            'log' => ['log: function () { ' . self::READS . ' }', $fails],
            'destructor' => ['log: "say"', '
                class Guarded extends Exception {
                    public function __construct(private object $guard = new Guard()) {}
                }
                class Guard { public function __destruct() { ' . self::LOOPS . ' } }
                $worker->on("n", fn () => throw new Guarded())->run();
            '],
            'exit' => ['log: "say"', '
                $worker->onFailed(function () { ' . self::LOOPS . ' })->on("n", function () { exit(5); })->run();
            '],
        ];
        $programs = [];
        foreach ($hang as $name => [$settings, $code]) {
            $queue = (new Client($this->server->url(), "{$this->prefix}{$name}:"))->queue('q');
            $queue->push(1, id: 'a', name: 'n', maxRetries: 0);
            $program = new Program($this->server, "{$this->prefix}{$name}:", '
                $worker = new Duly\Worker($client, ["q"], grace: 0.2, ' . $settings . ');
            ' . $code);
            $programs[$name] = $program;
        }
        foreach ($programs as $program) {
            $program->hear('begin');
            $program->signal(SIGTERM);
        }
        foreach ($programs as $name => $program) {
            self::assertSame(124, $program->end(), "{$name}: {$program->said()}");
            $said = 'duly: code beside the handlers does not end, such as a logger: this process does, with exit code '
                . "124\n";
            self::assertStringEndsWith($said, $program->said(), $name);
        }
    }

    /** Nobody asks it to stop, and it takes no more jobs. */
    public function testCodeBehindTheLastRunThatDoesNotEndEndsTheProcess(): void
    {
        $hang = [
            'report' => 'report: function () { ' . self::LOOPS . ' }',
            'log' => 'log: function () { ' . self::READS . ' }',
        ];
        $programs = [];
        foreach ($hang as $name => $settings) {
            $queue = (new Client($this->server->url(), "{$this->prefix}last{$name}:"))->queue('q');
            $queue->push(1, name: 'n', maxRetries: 0);
            $programs[$name] = new Program($this->server, "{$this->prefix}last{$name}:", '
                $worker = new Duly\Worker($client, ["q"], grace: 0.2, maxJobs: 1, ' . $settings . ');
                $worker->on("n", fn () => throw new DomainException())->run();
            ');
        }
        foreach ($programs as $name => $program) {
            $program->hear('begin');
            self::assertSame(124, $program->end(), "{$name}: {$program->said()}");
            $said = 'duly: code beside the handlers does not end, such as a logger: this process does, with exit code '
                . "124\n";
            self::assertStringEndsWith($said, $program->said(), $name);
        }
    }

    public function testAShutdownFunctionThatDoesNotEndEndsTheProcess(): void
    {
        $hang = 'function () { ' . self::READS . ' }';
        $programs = [
            'behind' => '$worker->on("n", function () use ($hang) {
                register_shutdown_function($hang);
                exit(5);
            })->run();',
            'before' => 'register_shutdown_function($hang); $worker->on("n", fn () => exit(5))->run();',
            'grace' => 'register_shutdown_function($hang); $worker->on("n", function () use ($client) {
                say("runs");
                $client->queue("gate")->reserve(wait: 60);
            })->run();',
        ];
        $started = [];
        foreach ($programs as $name => $code) {
            $own = new Client($this->server->url(), "{$this->prefix}{$name}:");
            $own->queue('q')->push(1, id: 'a', name: 'n', maxRetries: 0);
            $started[$name] = new Program($this->server, "{$this->prefix}{$name}:", '
                $worker = new Duly\Worker($client, ["q"], lease: 600, grace: 0, log: "say");
                $hang = ' . $hang . ';
                ' . $code);
        }
        $started['grace']->hear('runs');
        $started['grace']->signal(SIGTERM);
        foreach ($started as $name => $program) {
            self::assertSame(124, $program->end(), "{$name}: {$program->said()}");
            $said = 'a shutdown function or a destructor does not end: this process does, with exit code 124';
            self::assertStringContainsString($said, $program->said(), $name);
            $job = (new Client($this->server->url(), "{$this->prefix}{$name}:"))->queue('q')->find('a');
            $expected = ['behind' => 'failed', 'before' => 'reserved', 'grace' => 'ready'][$name];
            self::assertSame($expected, $job?->state, $name);
        }
        $said = 'duly: job a (n, attempt 1) of queue q; a shutdown';
        self::assertStringContainsString($said, $started['before']->said());
    }

    /** The exception that it keeps has the engine in its trace. */
    public function testNobodyWatchesAProgramWhoseWorkerHasReturned(): void
    {
        $this->queue->push(1, name: 'n');
        $program = new Program($this->server, $this->prefix, '
            class Late { public function __destruct() { throw new LogicException("late"); } }
            $kept = new WeakMap(); // until the object of the job is gone: when the worker waits for the next one
            $worker = new Duly\Worker($client, ["q"], log: "say");
            $worker->on("n", function (int $data, Duly\Job $job) use ($kept) { $kept[$job] = new Late(); });
            try {
                $worker->run();
            } catch (LogicException $late) {
                say("returned");
            }
            do {
                usleep(1000);
                $threads = array_map(fn (string $file) => @file_get_contents($file), glob("/proc/self/task/*/comm"));
            } while (in_array("duly-watchdog\n", $threads, true));
        ', '-dzend.exception_ignore_args=0');
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringContainsString("returned\n", $program->said());
    }

    private function failByHand(string $prefix, string $id = 'a'): void
    {
        $queue = (new Client($this->server->url(), "{$this->prefix}{$prefix}:"))->queue('q');
        $queue->push(1, id: $id, name: 'n');
        $queue->reserve()?->fail('by hand', final: true);
    }

    private function worker(string $prefix, string $code, string $settings = 'grace: 30'): Program
    {
        return new Program($this->server, "{$this->prefix}{$prefix}:", '
            $worker = new Duly\Worker($client, ["q"], ' . $settings . ', log: "say");
            $worker->on("n", fn () => null);
            ' . $code);
    }
}
