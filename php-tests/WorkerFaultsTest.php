<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\RetryPolicy;

/** What must end, what hangs, what dies: with real processes, signals and servers. */
final class WorkerFaultsTest extends ServerTestCase
{
    private const HANGS = '
        [$mine] = $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        say("begin");
        fgets($mine); // as a query that gets no answer: PHP waits on after a signal
        say("no end");
    ';

    public function testWhatAHandlerSaysBehindItsTimeoutNoLongerCounts(): void
    {
        foreach (range(0, 9) as $number) {
            $this->queue->push($number, id: "j{$number}", name: 'n', timeout: 0.1, maxRetries: 0);
        }
        $program = $this->worker('
            $worker->on("n", function (int $number, Duly\Job $job) {
                try {
                    sleep(30);
                } catch (Duly\Exception\JobInterruptedException) {
                    try {
                        match ($number % 3) {
                            0 => $job->ack(),
                            1 => $job->release(),
                            2 => $job->fail("no", retryAfter: 0),
                        };
                        say("taken");
                    } catch (Duly\Exception\LeaseLostException $error) {
                        say("refused: {$error->getMessage()}");
                    }
                }
            });
            $worker->run();
        ', 'maxJobs: 10');
        self::assertSame(0, $program->end());
        self::assertStringNotContainsString('taken', $program->said());
        $why = "the run of job 'j3' was interrupted (timed_out): its outcome no longer counts";
        self::assertStringContainsString("refused: {$why}", $program->said());
        $totals = $this->totals() + ['acked' => 0, 'released' => 0];
        self::assertSame([10, 0, 0], [$totals['failed'], $totals['acked'], $totals['released']]);
    }

    public function testATimeoutInterruptsAHandlerThatSleeps(): void
    {
        $this->queue->push('long', id: 'a', name: 'n', timeout: 0.3, maxRetries: 0);
        $this->queue->push('short', id: 'b', name: 'n', timeout: 5);
        $program = $this->worker('
            $worker->on("n", function (string $data, Duly\Job $job) {
                try {
                    sleep($data === "long" ? 30 : 0);
                    say("end $data");
                } catch (Exception $error) {
                    say("taken for a failure of its own");
                } catch (Duly\Exception\JobInterruptedException $error) {
                    say("$error->reason {$error->getKind()} {$error->getQueue()} {$error->getJobId()}");
                    throw $error;
                } finally {
                    say("cleaned $data");
                }
            });
            $worker->run();
        ', 'maxJobs: 2');
        $started = microtime(true);
        self::assertSame(0, $program->end());
        self::assertLessThan(20, microtime(true) - $started);
        self::assertStringContainsString("timed_out interrupted q a\ncleaned long\n", $program->said());
        self::assertStringContainsString("end short\ncleaned short\n", $program->said());
        self::assertSame('ran longer than its timeout of 0.3 s', $this->queue->find('a')?->error);
        self::assertSame([1, 1], [$this->totals()['failed'], $this->totals()['acked']]);
    }

    public function testAJobThatTimedOutIsRetriedByItsPolicy(): void
    {
        $this->queue->push(1, name: 'n', timeout: 0.2, retry: RetryPolicy::fixed(0.05));
        $program = $this->worker('
            $worker->on("n", function ($data, Duly\Job $job) {
                while ($job->attempt === 1) {
                    usleep(1000);
                }
                say("run {$job->attempt} after {$job->error}");
            });
            $worker->run();
        ', 'maxJobs: 2');
        self::assertSame(0, $program->end());
        self::assertStringContainsString('run 2 after ran longer than its timeout', $program->said());
    }

    public function testAProcessWhoseHandlerCannotBeInterruptedEnds(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', timeout: 1, maxRetries: 0);
        $program = $this->worker('$worker->on("n", function () {' . self::HANGS . '}); $worker->run();');
        $program->hear('begin');
        self::assertSame(124, $program->end());
        self::assertStringContainsString('the handler does not end', $program->said());
        self::assertStringNotContainsString('no end', $program->said());
        self::assertSame('ran longer than its timeout of 1 s', $this->queue->find('a')?->error);
    }

    public function testWithoutPcntlTheProcessEndsAtOnce(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', timeout: 0.2, maxRetries: 0);
        $option = '-ddisable_functions=pcntl_signal,pcntl_signal_dispatch,pcntl_async_signals';
        $program = $this->worker('$worker->on("n", fn () => sleep(30)); $worker->run();', 'grace: 30', $option);
        self::assertSame(124, $program->end());
        self::assertSame('failed', $this->queue->find('a')?->state);
    }

    public function testAWorkerThatItsProgramStopsEndsInAnOutage(): void
    {
        $this->queue->push('data', name: 'n');
        $program = $this->worker('
            $isAsked = false;
            pcntl_signal(SIGUSR1, function () use ($worker, &$isAsked) {
                $isAsked = true;
                $worker->stop();
            });
            $worker->on("n", function () use (&$isAsked) {
                say("begin");
                while (!$isAsked) {
                    usleep(1000);
                }
                say("end");
            });
            $worker->run();
        ', 'lease: 30');
        $program->hear('begin');
        $this->server->signal(SIGSTOP);
        try {
            $program->signal(SIGUSR1);
            self::assertSame(0, $program->end());
        } finally {
            $this->server->signal(SIGCONT);
        }
        self::assertStringContainsString('the server has not confirmed that, and the worker ends', $program->said());
    }

    /** @dataProvider ends */
    public function testAWorkerThatIsEndedInAnOutageNamesTheJob(string $hooks, string $outcome, bool $isStopped): void
    {
        $this->queue->push('data', id: 'a', name: 'n', timeout: 60);
        $program = $this->worker($hooks . '
            $isAsked = false;
            pcntl_signal(SIGUSR1, function () use (&$isAsked) {
                $isAsked = true;
            });
            $worker->on("n", function () use ($end, &$isAsked) {
                say("begin");
                while (!$isAsked) {
                    usleep(1000);
                }
                $end();
            });
            $worker->run();
        ', 'lease: 30');
        $program->hear('begin');
        $this->server->signal(SIGSTOP);
        try {
            // One stop is not asked for twice: by the signal, and by the end.
            $isStopped && $program->signal(SIGTERM);
            $program->signal(SIGUSR1);
            self::assertSame(3, $program->end());
        } finally {
            $this->server->signal(SIGCONT);
        }
        self::assertStringContainsString($outcome, $program->said());
        self::assertStringContainsString('the server has not confirmed that, and the worker ends', $program->said());
    }

    /** @return iterable<array{string, string, bool}> */
    public static function ends(): iterable
    {
        $hook = '$end = fn () => null; $worker->after(fn () => exit(3));';
        yield 'its handler' => ['$end = fn () => exit(3);', 'failed', false];
        yield 'a hook' => [$hook, 'is done; then', false];
        yield 'a hook behind a signal' => [$hook, 'is done; then', true];
    }

    /** @dataProvider settled */
    public function testAWorkerThatIsEndedBehindTheEndOfItsJobEndsAtOnce(string $handler, int $code): void
    {
        $this->queue->push('data', id: 'a', name: 'n', timeout: 0.5);
        $program = $this->worker('
            $worker->on("n", function ($data, Duly\Job $job): void {
                ' . $handler . '
            });
            $worker->run();
        ', 'grace: 60');
        self::assertSame($code, $program->end(10), $program->said()); // far less than the last words of an outage
        self::assertStringNotContainsString('does not end', $program->said());
    }

    /** @return iterable<array{string, int}> */
    public static function settled(): iterable
    {
        yield 'acked' => ['$job->ack(); exit(3);', 3];
        yield 'released' => ['$job->release(60); exit(3);', 3];
        yield 'its time was over' => ['
            try {
                sleep(30);
            } catch (Duly\Exception\JobInterruptedException) {
                exit(3);
            }', 3];
    }

    public function testOnFailedHearsOfJobsThatNoRunHereFailed(): void
    {
        $this->queue->push('data', id: 'dead', name: 'n', maxRetries: 0);
        self::assertNotNull($this->queue->reserve(lease: 0.001));
        $this->queue->push('data', id: 'long', name: 'n', timeout: 0.2, maxRetries: 0);
        $program = $this->worker('
            $worker->on("n", fn () => sleep(30));
            $left = 2;
            $worker->onFailed(function ($job, $error) use ($worker, &$left) {
                $text = $error::class . " {$error->getMessage()}";
                say("reported {$job->id}, {$job->attempt}, {$job->data()}: {$text}");
                if (--$left === 0) {
                    $worker->stop();
                }
            });
            $worker->run();
        ');
        self::assertSame(0, $program->end());
        $class = \Duly\Exception\JobFailedException::class;
        $said = $program->said();
        self::assertStringContainsString("reported dead, 1, data: {$class} lease ended", $said);
        self::assertStringContainsString('reported long, 1, data: ', $said);
        self::assertStringContainsString('failed for good: its worker died', $said);
        self::assertSame(2, substr_count($said, 'reported '));
    }

    public function testOnFailedIsCalledByAnIdleWorkerWhileAnotherRunsALongJob(): void
    {
        $this->queue->push(1, id: 'long', name: 'n');
        $hook = '$worker->onFailed(fn (Duly\Job $job) => say("heard of {$job->id}"));';
        $run = '$worker->on("n", function () { say("begin"); sleep(600); })->run();';
        $busy = $this->worker($hook . $run, 'lease: 1');
        $busy->hear('begin');
        foreach (['a', 'b', 'c'] as $id) {
            $this->queue->push(1, id: $id, name: 'n');
            $this->queue->reserve()?->fail('by hand', final: true);
        }
        $idle = $this->worker($hook . $run, 'lease: 1');
        foreach (['a', 'b', 'c'] as $id) {
            $idle->hear("heard of {$id}");
        }
        self::assertStringNotContainsString('heard of', $busy->said());
        $busy->signal(SIGKILL);
        $idle->signal(SIGTERM);
        self::assertSame(0, $idle->end());
    }

    public function testFailedJobsWhoseIdsAreNotUtf8AreHeardOfOnceEach(): void
    {
        // Another program put them in; people read the same id.
        foreach (["\xff1", "\xfe1"] as $id) {
            $this->server->command('HSET', "{$this->prefix}{q}:jobs", $id, '{"data":1}');
            $this->server->command('RPUSH', "{$this->prefix}{q}:ready:5", $id);
        }
        $program = $this->worker('
            $worker->onFailed(fn ($job, $error) => say("reported {$job->id}: {$error->getMessage()}"));
            $worker->on("n", fn () => null)->run();
        ');
        $left = fn (): bool => $this->server->command('ZCARD', "{$this->prefix}{q}:unheard") === 0
            && substr_count($program->said(), 'reported') > 0;
        Server::until($left, 'their hooks are not called');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        $said = $program->said();
        self::assertSame(2, substr_count($said, "reported \u{fffd}1: undecodable record: its id is not UTF-8"), $said);
        self::assertSame(2, substr_count($said, 'failed for good'), $said);
    }

    public function testALostLeaseInterruptsTheHandler(): void
    {
        $this->queue->push(1, id: 'a', name: 'n');
        $program = $this->worker('
            $worker->on("n", function () {
                say("begin");
                sleep(30);
            });
            $worker->after(fn () => say("after"))->onFailure(fn () => say("failure"))->onFailed(fn () => say("failed"));
            $worker->run();
        ', 'lease: 3, maxJobs: 1');
        $program->hear('begin');
        $this->queue->cancel('a');
        self::assertSame(0, $program->end());
        self::assertSame(
            "begin\njob 'a' (n, attempt 1) of queue 'q' was interrupted at PROGRAM:13\n"
            . 'job a (n, attempt 1) of queue q is interrupted: '
            . "its lease was lost: it was cancelled, or another worker may run it\n",
            (string) preg_replace('~/\S+\.php~', 'PROGRAM', $program->said()),
        );
    }

    public function testAZombieIsRefusedAndHarmsNothing(): void
    {
        $this->queue->push(1, id: 'a', name: 'n');
        $program = $this->worker('
            $worker->on("n", function () use ($client) {
                say("begin");
                $client->queue("gate")->reserve(wait: 20)?->ack();
            });
            $worker->run();
        ', 'lease: 2, maxJobs: 1');
        $program->hear('begin');
        $program->signal(SIGSTOP);
        $job = $this->queue->reserve(wait: 20);
        self::assertSame('a', $job?->id);
        $this->client->queue('gate')->push(1);
        $program->signal(SIGCONT);
        self::assertSame(0, $program->end());
        self::assertMatchesRegularExpression('/lease was lost|lease of job a .* ended/', $program->said());
        self::assertSame(0, $this->totals()['acked'] ?? 0);
        $job->ack();
        self::assertSame([1, 1], [$this->totals()['acked'], $this->totals()['reclaimed']]);
    }

    public function testAJobWhoseHandlerEndsTheProcessHasFailedAndIsNamed(): void
    {
        $fatal = 'ini_set("memory_limit", "8M"); str_repeat("x", 1 << 24);';
        $ends = [
            'exit' => ['exit;', 0, 'exit was called', 'its handler ended the process by exit', 'RuntimeException'],
            'status' => ['exit(7);', 7, 'exit was called', 'its handler ended the process by exit', 'RuntimeException'],
            'fatal' => [$fatal, 255, 'Allowed memory size', 'a fatal error at', 'ErrorException'],
        ];
        foreach ($ends as $name => [$end, $status, $stored, $said, $class]) {
            $this->queue->push(1, id: $name, name: 'n', maxRetries: 1, retry: RetryPolicy::fixed(0));
            $run = function () use ($end): Program {
                return $this->worker('
                    $worker->onFailed(fn (Duly\Job $job, Throwable $thrown) => say("{$job->id} by " . $thrown::class));
                    $worker->on("n", function () {' . $end . '})->run();
                ');
            };
            $program = $run();
            self::assertSame($status, $program->end());
            $named = "job '{$name}' (n, attempt 1) of queue 'q' failed; it runs again in 0 s: {$said}";
            self::assertStringContainsString($named, $program->said());
            self::assertStringNotContainsString("{$name} by", $program->said());
            $program = $run();
            self::assertSame($status, $program->end());
            $named = "job '{$name}' (n, attempt 2) of queue 'q' failed for good: {$said}";
            self::assertStringContainsString($named, $program->said());
            self::assertStringContainsString("{$name} by {$class}", $program->said());
            $error = (string) $this->queue->find($name)?->error;
            self::assertStringStartsWith("the process ended during the run: {$stored}", $error);
        }
    }

    public function testAJobThatPrintsWhatCannotBeWrittenIsDone(): void
    {
        foreach (['a', 'b'] as $id) {
            $this->queue->push(1, id: $id, name: 'n');
        }
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], maxJobs: 2);
            $worker->on("n", function () {
                echo "printed";
            });
            fclose(STDOUT);
            $output = fopen("/dev/full", "w"); // has its number
            $worker->run();
            fwrite(STDERR, ignore_user_abort() ? "goes on" : "as it was before");
            exit(0); // PHP says 255 where something could not be printed
        ');
        self::assertSame(0, $program->end(), $program->said());
        self::assertSame(2, $this->totals()['acked']);
        self::assertSame(1, substr_count($program->said(), 'what is printed cannot be written'), $program->said());
        self::assertStringContainsString('as it was before', $program->said());
    }

    public function testTheLastTimeoutIsHeardByOnFailed(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', timeout: 0.2, maxRetries: 1, retry: RetryPolicy::fixed(0));
        $program = $this->worker('
            $worker->onFailed(function (Duly\Job $job, Throwable $thrown) {
                say("heard of {$job->id} at attempt {$job->attempt}: {$thrown->getMessage()}");
            });
            $worker->on("n", fn () => sleep(30))->run();
        ');
        $program->hear('heard of a at attempt 2: ran longer than its timeout');
        $program->signal(SIGTERM);
        $program->end();
        self::assertSame(1, substr_count($program->said(), 'heard of'));
    }

    public function testAnExceptionThatCannotBeReadIsAFailureAsOthersAre(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $this->queue->push(1, id: 'b', name: 'array', maxRetries: 0);
        $program = $this->program('
            class Unreadable extends Exception {
                public function __construct(mixed $message) { $this->message = $message; }
                public function __toString(): string { throw new Error("no text"); }
            }
            $worker = new Duly\Worker($client, ["q"], maxJobs: 2, log: "say");
            $worker->on("n", fn () => throw new Unreadable(new Unreadable("")));
            $worker->on("array", function () {
                set_error_handler(fn (int $is, string $said) => throw new ErrorException($said, 0, $is));
                throw new Unreadable(["many", "errors"]);
            });
            $worker->onFailed(fn (Duly\Job $job) => say("onFailed {$job->id}"))->run();
        ');
        self::assertSame(0, $program->end(), $program->said());
        foreach (['a' => 'n', 'b' => 'array'] as $id => $name) {
            $said = "job '{$id}' ({$name}, attempt 1) of queue 'q' failed for good: Unreadable at ";
            self::assertStringContainsString($said, $program->said());
            self::assertStringContainsString("onFailed {$id}\n", $program->said());
            $found = $this->queue->find($id);
            self::assertSame(['failed', 1], [$found?->state, $found?->attempts]);
            self::assertStringStartsWith('Unreadable at /', (string) $found?->error);
        }
    }

    public function testAJobThatWasRequeuedAndFailsOnceMoreIsHeardOfOnceMore(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', timeout: 0.2, maxRetries: 0);
        $program = $this->worker('
            $runs = 0;
            $worker->onFailed(function (Duly\Job $job, Throwable $thrown) {
                say("heard of: {$thrown->getMessage()}");
                $job->queue->requeue($job->id);
            });
            $worker->on("n", function (mixed $data, Duly\Job $job) use (&$runs) {
                match (++$runs) {
                    1 => sleep(30),
                    2 => $job->fail("the second", final: true),
                    3 => say("done"),
                };
            })->run();
        ');
        $program->hear('done');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        self::assertSame(2, substr_count($program->said(), 'heard of'), $program->said());
    }

    public function testARunThatTimesOutInAHookIsLoggedOnce(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', timeout: 0.2, retry: RetryPolicy::fixed(60));
        $program = $this->worker('
            $worker->onFailure(function () {
                $until = microtime(true) + 0.6;
                while (microtime(true) < $until) {
                    usleep(1000);
                }
            });
            $worker->on("n", fn () => throw new DomainException("mine"))->run();
        ', 'maxJobs: 1');
        self::assertSame(0, $program->end());
        self::assertStringContainsString('it ran longer than its timeout, which counts as a failure', $program->said());
        self::assertStringNotContainsString('failed; it runs again', $program->said());
        self::assertSame(1, $this->queue->find('a')?->attempts);
    }

    public function testWhatAHandlerDoesToSignalsIsGoneWhenTheNextJobBegins(): void
    {
        $deeds = [
            'pcntl_signal(SIGTERM, fn () => say("its own")); pcntl_signal(SIGURG, fn () => say("its own"));',
            'pcntl_signal(SIGTERM, SIG_IGN); pcntl_signal(SIGURG, SIG_DFL);',
            'pcntl_sigprocmask(SIG_BLOCK, [SIGTERM, SIGURG]);',
            'pcntl_async_signals(false);',
        ];
        foreach ($deeds as $deed) {
            $this->queue->push('first', name: 'first');
            $this->queue->push('second', id: 'a', name: 'long', timeout: 0.3, maxRetries: 0);
            $this->queue->push('third', id: 'b', name: 'long');
            $program = $this->worker('
                $worker->on("first", function () { ' . $deed . ' });
                $worker->on("long", function (string $data) {
                    say("begin $data");
                    while (true) {
                        usleep(1000);
                    }
                });
                $worker->run();
                say("ended");
            ', 'grace: 0.2');
            $program->hear('begin third');
            $program->signal(SIGTERM);
            self::assertSame(142, $program->end(), $deed);
            self::assertStringNotContainsString('its own', $program->said());
            self::assertSame('ran longer than its timeout of 0.3 s', $this->queue->find('a')?->error);
            self::assertSame([1, 1], [$this->queue->purge('ready'), $this->queue->purge('failed')]);
        }
    }

    public function testAPoisonJobThatKillsItsProcessEndsInFailed(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 1, retry: RetryPolicy::fixed(0));
        for ($run = 1; $run <= 3; $run++) { // the first crash is not counted
            $program = $this->worker('
                $worker->on("n", function () { posix_kill(getmypid(), SIGKILL); });
                $worker->run();
            ', 'lease: 1');
            self::assertSame(-SIGKILL, $program->end());
        }
        self::assertNull($this->queue->reserve(wait: 3));
        self::assertSame('failed', $this->queue->find('a')?->state);
    }

    public function testARunSurvivesARestartOfTheServer(): void
    {
        $this->withServer(function (Server $server, Program $program, Client $client): void {
            $client->queue('q')->push('first', name: 'n', id: 'a');
            $program->hear('begin first');
            $server->command('SAVE');
            $server->kill();
            usleep(300000);
            $server->start();
            $client->queue('gate')->push(1);
            $client->queue('q')->push('second', name: 'n');
            $client->queue('gate')->push(1);
            self::assertSame(0, $program->end());
            self::assertSame(1, substr_count($program->said(), 'begin first'));
            self::assertSame(1, substr_count($program->said(), 'begin second'));
            self::assertSame(2, $client->queue('q')->counts()->totals['acked']);
        });
    }

    public function testAServerThatIsStoppedForAWhileCostsNothingButTime(): void
    {
        $this->withServer(function (Server $server, Program $program, Client $client): void {
            $client->queue('gate')->pushMany([['data' => 1], ['data' => 2]]);
            $client->queue('q')->push('first', name: 'n');
            $program->hear('end first');
            $server->signal(SIGSTOP);
            $program->hear('the worker keeps trying');
            $server->signal(SIGCONT);
            $program->hear('the server answers again');
            $client->queue('q')->push('second', name: 'n');
            self::assertSame(0, $program->end());
            self::assertSame(1, substr_count($program->said(), 'begin first'));
            self::assertSame(1, substr_count($program->said(), 'the worker keeps trying'));
            self::assertSame(2, $client->queue('q')->counts()->totals['acked']);
        });
    }

    public function testAWorkerOutlivesKilledConnectionsAndAServerThatTakesNoWrites(): void
    {
        $this->withServer(function (Server $server, Program $program, Client $client): void {
            $work = function (string $data) use ($program, $client): void {
                $client->queue('gate')->push(1);
                $client->queue('q')->push($data, name: 'n');
                $program->hear("end {$data}");
            };
            $server->command('CLIENT', 'KILL', 'TYPE', 'normal');
            $work('first');
            $server->command('REPLICAOF', '127.0.0.1', '1');
            $errors = fn (): string => (string) $server->command('INFO', 'errorstats');
            Server::until(fn (): bool => str_contains($errors(), 'errorstat_READONLY'), 'it does not try');
            $server->command('REPLICAOF', 'NO', 'ONE');
            $work('second');
            self::assertSame(0, $program->end());
        });
    }

    public function testWorkersBehindSlowLinesOutliveARestartOfTheServerAndKilledConnections(): void
    {
        $server = new Server();
        try {
            $lines = new SlowLines($server, 'slow', 'near', 'far');
            $client = new Client($server->url(), 'w:');
            $workers = [];
            foreach ($lines->urls as $url) {
                $name = 'q' . count($workers);
                $behind = 'new Duly\Client(' . var_export($url, true) . ', "w:")';
                $workers[$name] = $this->gated($server, $behind, $name);
                $client->queue($name)->push('first', name: 'n');
            }
            foreach ($workers as $program) {
                $program->hear('begin first');
            }
            $server->command('SAVE');
            $server->kill();
            $server->start();
            $client->queue('gate')->pushMany([['data' => 1], ['data' => 2], ['data' => 3]]);
            foreach ($workers as $program) {
                $program->hear('end first');
            }
            $server->command('CLIENT', 'KILL', 'TYPE', 'normal');
            $client->queue('gate')->pushMany([['data' => 1], ['data' => 2], ['data' => 3]]);
            foreach ($workers as $name => $program) {
                $client->queue($name)->push('second', name: 'n');
            }
            foreach ($workers as $name => $program) {
                self::assertSame(0, $program->end(60), $program->said());
                self::assertSame(1, substr_count($program->said(), 'begin first'), $program->said());
                self::assertSame(1, substr_count($program->said(), 'begin second'), $program->said());
                self::assertSame(2, $client->queue($name)->counts()->totals['acked']);
            }
        } finally {
            $server->close();
        }
    }

    /** A server of its own, and a worker of two jobs, each of which waits for one in the queue `gate`. */
    private function withServer(callable $test): void
    {
        $server = new Server();
        try {
            $url = var_export($server->url(), true);
            $program = $this->gated($server, "new Duly\\Client({$url}, 'w:', commandTimeout: 0.5, deadline: 1)", 'q');
            $test($server, $program, new Client($server->url(), 'w:'));
        } finally {
            $server->signal(SIGCONT);
            $server->close();
        }
    }

    /** A worker with this client, which runs two such jobs of the queue. */
    private function gated(Server $server, string $behind, string $queue): Program
    {
        return new Program($server, 'w:', '
            $worker = new Duly\Worker(' . $behind . ', ["' . $queue . '"], log: "say", maxJobs: 2);
            $worker->on("n", function (string $data) use ($client) {
                say("begin $data");
                do {
                    try {
                        $open = $client->queue("gate")->reserve(wait: 20);
                    } catch (Duly\Exception\ExceptionInterface $error) {
                        usleep(10000);
                        continue;
                    }
                } while (!isset($open));
                $open->ack();
                say("end $data");
            });
            $worker->run();
        ');
    }

    private function worker(string $code, string $settings = 'grace: 30', string ...$options): Program
    {
        return new Program($this->server, $this->prefix, '
            $worker = new Duly\Worker($client, ["q"], ' . $settings . ', log: "say");
            ' . $code, ...$options);
    }

    /** @return array<string, int> */
    private function totals(): array
    {
        return $this->queue->counts()->totals;
    }
}
