<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\AuthenticationFailedException;
use Duly\Exception\InvalidArgumentException;
use Duly\Job;
use Duly\RetryPolicy;
use Duly\Worker;

final class WorkerTest extends ServerTestCase
{
    public function testItRunsJobsAndAcksThem(): void
    {
        $this->queue->push(['order' => 42], name: 'close');
        $this->queue->push('bare');
        $program = $this->worker('
            $worker->on("close", function (mixed $data, Duly\Job $job) { say("close {$data["order"]} {$job->name}"); })
                ->on("", function (mixed $data) use ($worker) { say("no name: $data"); $worker->stop(); });
            $worker->run();
            say("ended");
        ');
        self::assertSame(0, $program->end());
        self::assertSame("close 42 close\nno name: bare\nended\n", $program->said());
        self::assertSame([2, 0], [$this->totals()['acked'], $this->totals()['released'] ?? 0]);
    }

    public function testAHandlerThatThrowsIsTriedAgain(): void
    {
        $this->queue->push(1, name: 'n', retry: RetryPolicy::fixed(0.05));
        $program = $this->worker('
            $worker->on("n", function (mixed $data, Duly\Job $job) use ($worker) {
                say("run {$job->attempt} after \'{$job->error}\'");
                if ($job->attempt === 1) {
                    throw new DomainException("no \xff answer");
                }
                $worker->stop();
            });
            $worker->run();
        ');
        self::assertSame(0, $program->end());
        self::assertMatchesRegularExpression(
            "/^run 1 after ''\njob '\\w+' \\(n, attempt 1\\) of queue 'q' failed; it runs again in 0.05 s: "
            . "DomainException at .*:\d+\nrun 2 after 'DomainException: no \u{fffd} answer at .*:\d+'\n$/",
            $program->said(),
        );
        self::assertSame([1, 1], [$this->totals()['retried'], $this->totals()['acked']]);
    }

    public function testAJobThatFailsForGoodAndOneWithoutAHandlerAreKept(): void
    {
        $this->queue->push(1, name: 'bad', maxRetries: 0, id: 'a');
        $this->queue->push(1, name: 'unknown', maxRetries: 0, id: 'b');
        $this->worker('
            $worker->on("bad", function () { throw new TypeError("wrong"); });
            $worker->run();
        ', 'maxJobs: 2')->end();
        self::assertStringStartsWith('TypeError: wrong at ', $this->queue->find('a')->error);
        self::assertSame("this worker has no handler for the name 'unknown'", $this->queue->find('b')->error);
    }

    public function testAHandlerMayTakeAllOtherNames(): void
    {
        foreach (['known', 'unknown', null] as $name) {
            $this->queue->push(1, name: $name);
        }
        $ran = [];
        $worker = (new Worker($this->client, ['q'], maxJobs: 3))
            ->otherwise(static function (mixed $data, Job $job) use (&$ran): void {
                $ran[] = ['other', $job->name];
            });
        $second = static fn () => $worker->otherwise(static fn () => 1);
        $this->thrownBy(InvalidArgumentException::class, $second);
        (clone $worker)->on('known', static function (mixed $data, Job $job) use (&$ran): void {
            $ran[] = ['own', $job->name];
        })->run();
        self::assertSame([['own', 'known'], ['other', 'unknown'], ['other', null]], $ran);
    }

    public function testAWorkerHasATimeoutForJobsWithoutOneAndMayFetchNothingAhead(): void
    {
        $policy = RetryPolicy::fixed(3600);
        $this->queue->push(1, id: 'a', name: 'n', retry: $policy);
        $this->queue->push(2, id: 'b', name: 'n', retry: $policy, timeout: 60);
        $program = $this->worker('
            $worker->on("n", function (mixed $data): void {
                say("run {$data}");
                usleep(1_000_000);
                say("end {$data}");
            });
            $worker->run();
        ', 'timeout: 0.3, prefetch: 0, maxJobs: 2');
        $program->hear('run 1');
        self::assertSame('ready', $this->queue->find('b')->state);
        $program->end();
        self::assertStringNotContainsString('end 1', $program->said());
        self::assertStringContainsString('end 2', $program->said());
        self::assertSame([1, 1], [$this->queue->find('a')->attempts, $this->totals()['acked']]);
        foreach ([['timeout' => 0], ['prefetch' => -1], ['prefetch' => 1001]] as $settings) {
            $this->thrownBy(InvalidArgumentException::class, fn () => new Worker($this->client, ['q'], ...$settings));
        }
    }

    public function testAJobThatItsHandlerSettledIsLeftAlone(): void
    {
        foreach (['ack', 'release', 'fail', 'ack and throw', 'ackMany'] as $name) {
            $this->queue->push(1, name: $name, id: $name, retry: RetryPolicy::fixed(60));
        }
        $program = $this->worker('
            $worker->on("ack", fn (mixed $data, Duly\Job $job) => $job->ack());
            $worker->on("release", fn (mixed $data, Duly\Job $job) => $job->release(after: 60));
            $worker->on("fail", fn (mixed $data, Duly\Job $job) => $job->fail("mine", final: true));
            $worker->on("ackMany", fn (mixed $data, Duly\Job $job) => $client->queue("q")->ackMany([$job]));
            $worker->on("ack and throw", function (mixed $data, Duly\Job $job) {
                $job->ack();
                throw new DomainException("too late");
            });
            $worker->run();
        ', 'maxJobs: 5');
        self::assertSame(0, $program->end());
        self::assertMatchesRegularExpression(
            "/^job 'ack and throw' \(ack and throw, attempt 1\) of queue 'q' was settled, "
            . "then its handler threw DomainException at .*:\d+\n/m",
            $program->said(),
        );
        self::assertSame('delayed', $this->queue->find('release')->state);
        self::assertSame('mine', $this->queue->find('fail')->error);
        self::assertSame(3, $this->totals()['acked']);
    }

    public function testWhatItsHandlerMadeOfAJobIsLogged(): void
    {
        foreach (['ack', 'release', 'retry', 'fail', 'fail and throw', 'swallow'] as $name) {
            $timeout = $name === 'swallow' ? 0.3 : null;
            $this->queue->push(1, name: $name, id: $name, maxRetries: 1, timeout: $timeout);
        }
        $program = $this->worker('
            $worker->on("ack", fn (mixed $data, Duly\Job $job) => $job->ack());
            $worker->on("release", fn (mixed $data, Duly\Job $job) => $job->release(after: 60));
            $worker->on("retry", fn (mixed $data, Duly\Job $job) => $job->fail("secret", retryAfter: 60));
            $worker->on("fail", fn (mixed $data, Duly\Job $job) => $job->fail("secret", final: true));
            $worker->on("fail and throw", function (mixed $data, Duly\Job $job) {
                $job->fail("secret", final: true);
                throw new DomainException("secret");
            });
            $worker->on("swallow", function () {
                try {
                    while (true) {
                        usleep(1000);
                    }
                } catch (Duly\Exception\JobInterruptedException) {
                }
            });
            $worker->run();
        ', 'maxJobs: 6, logDone: true, logger: new class {
            public function log(string $level, string $text): void { fwrite(STDERR, "$level: $text\n"); }
        }');
        self::assertSame(0, $program->end());
        $said = $program->said();
        $lines = explode("\n", $said);
        $of = static fn (string $id): string => implode("\n", preg_grep("/^\w+: job '?{$id}'? \(/", $lines));
        $about = static fn (string $id): string => "job '{$id}' ({$id}, attempt 1) of queue 'q'";
        self::assertSame("debug: {$about('ack')} is done", $of('ack'));
        $released = "info: {$about('release')} was released by its handler; it runs again in 60 s";
        self::assertSame($released, $of('release'));
        self::assertSame("warning: {$about('retry')} failed; it runs again in 60 s: its handler said so", $of('retry'));
        // Once, though `onFailed` is called later.
        self::assertSame("error: {$about('fail')} failed for good: its handler said so", $of('fail'));
        self::assertStringContainsString('was settled, then its handler threw DomainException', $of('fail and throw'));
        self::assertStringContainsString('failed for good: its handler said so', $of('fail and throw'));
        self::assertSame(1, substr_count($of('fail and throw'), 'failed for good'), $said);
        self::assertStringContainsString('is interrupted: it ran longer than its timeout', $of('swallow'));
        self::assertSame(1, substr_count($said, 'is done'), $said);
        self::assertStringNotContainsString('secret', $said);
    }

    public function testTheFirstSignalLetsTheRunningJobFinish(): void
    {
        foreach ([SIGTERM, SIGINT, SIGQUIT] as $signal) {
            $this->queue->push('first', name: 'n');
            $this->queue->push('second', name: 'n');
            $program = $this->worker('
                $worker->on("n", function (mixed $data) use ($client) {
                    say("begin $data");
                    $client->queue("gate")->reserve(wait: 20)->ack();
                    say("end $data");
                });
                $worker->run();
                say("ended, handler: " . var_export(pcntl_signal_get_handler(SIGTERM), true));
            ');
            $program->hear('begin first');
            $program->signal($signal);
            Program::untilSignalsHaveCome($program->pid());
            self::assertSame("begin first\n", $program->said());
            $this->client->queue('gate')->push(1);
            self::assertSame(0, $program->end());
            self::assertSame("begin first\nend first\nended, handler: 0\n", $program->said());
            self::assertSame(1, $this->queue->purge('ready'));
        }
    }

    public function testASignalEndsAnIdleWorkerWithinHalfASecond(): void
    {
        $program = $this->worker('$worker->on("n", fn () => null); say("ready"); $worker->run(); say("ended");');
        $program->hear('ready');
        $this->server->untilSomebodyWaits();
        $sent = microtime(true);
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        self::assertLessThan(20.0, microtime(true) - $sent);
        self::assertStringContainsString('ended', $program->said());
    }

    public function testTheSecondSignalEndsTheProcessAndTheJobComesBack(): void
    {
        $this->queue->push(1, id: 'a', name: 'n');
        $program = $this->worker('
            $worker->on("n", function () {
                say("begin");
                while (true) {
                    usleep(1000);
                }
            });
            $worker->run();
        ', 'lease: 1');
        $program->hear('begin');
        $program->signal(SIGTERM);
        Program::untilSignalsHaveCome($program->pid());
        $program->signal(SIGTERM);
        self::assertSame(128 + SIGTERM, $program->end());
        $job = $this->queue->reserve(wait: 5);
        // It is given back at once, and not counted.
        self::assertSame(['a', 1], [$job->id, $job->attempt]);
        self::assertSame(['released' => 1], array_intersect_key($this->totals(), ['released' => 0, 'reclaimed' => 0]));
    }

    public function testTheEndOfTheGraceEndsTheProcess(): void
    {
        $this->queue->push(1, name: 'n');
        $program = $this->worker('
            $worker->on("n", function () {
                say("begin");
                while (true) {
                    usleep(1000);
                }
            });
            $worker->run();
        ', 'grace: 0.5');
        $program->hear('begin');
        $program->signal(SIGTERM);
        self::assertSame(128 + SIGALRM, $program->end());
    }

    public function testALeaseIsRenewedWhileTheHandlerSleeps(): void
    {
        $this->queue->push(1, name: 'n');
        $program = $this->worker('
            $worker->on("n", function () { say("begin"); sleep(2); });
            $worker->run();
        ', 'lease: 1.0, maxJobs: 1');
        $program->hear('begin');
        self::assertNull($this->queue->reserve(wait: 1.5));
        self::assertSame(0, $program->end());
        self::assertSame("begin\n", $program->said());
        self::assertSame([1, 0], [$this->totals()['acked'], $this->totals()['reclaimed'] ?? 0]);
    }

    public function testAJobThatWasTakenAwayIsSaidAndNotFatal(): void
    {
        $this->queue->push(1, name: 'n', id: 'a');
        $this->queue->push(2, name: 'n', id: 'b');
        $program = $this->worker('
            $worker->on("n", fn (mixed $data, Duly\Job $job) => $client->queue("q")->cancel("a"));
            $worker->run();
        ', 'maxJobs: 2');
        self::assertSame(0, $program->end());
        $reported = 'the lease of job a (n, attempt 1) of queue q ended before';
        self::assertStringContainsString($reported, $program->said());
        self::assertSame(1, $this->totals()['acked']);
    }

    public function testTheJobOfAKilledWorkerRunsAgain(): void
    {
        $this->queue->push(1, name: 'n');
        $first = $this->worker('
            $worker->on("n", function () { say("begin"); sleep(30); });
            $worker->run();
        ', 'lease: 1');
        $first->hear('begin');
        $first->signal(SIGKILL);
        self::assertSame(-SIGKILL, $first->end());
        $second = $this->worker('
            $worker->on("n", function (mixed $data, Duly\Job $job) { say("again, run {$job->attempt}"); });
            $worker->run();
        ', 'maxJobs: 1');
        self::assertSame(0, $second->end());
        // The first crash is charged to nobody: it is not known that the job had started.
        self::assertSame("again, run 1\n", $second->said());
    }

    public function testAProcessThatAHandlerForksHandlesSignalsAsIfThereWereNoWorker(): void
    {
        $this->queue->push(1, name: 'n');
        $program = $this->worker('
            $worker->on("n", function () {
                $child = pcntl_fork();
                if ($child === 0) {
                    // A signal just before a sleep does not end it: short ones.
                    for ($naps = 0; $naps < 6000; $naps++) {
                        usleep(10_000);
                    }
                    posix_kill(getmypid(), SIGKILL);
                }
                posix_kill($child, SIGTERM);
                pcntl_waitpid($child, $status);
                say("ended by " . (pcntl_wifsignaled($status) ? pcntl_wtermsig($status) : "exit"));
            });
            $worker->run();
        ', 'maxJobs: 1');
        self::assertSame(0, $program->end());
        self::assertSame("ended by 15\n", $program->said());
    }

    public function testAWorkerThatEndedByASignalAndAnExceptionMayRunAgain(): void
    {
        $this->queue->push('first', id: 'a', name: 'n', maxRetries: 0);
        $program = $this->worker('
            $isTooNew = function () use ($client): bool {
                usleep(1000);
                try {
                    $client->queue("q")->cancel("none");
                    return false;
                } catch (Duly\Exception\FormatTooNewException) {
                    return true;
                }
            };
            $worker = new Duly\Worker($client, ["q"], log: fn () => null, maxJobs: 1);
            $worker->on("n", function (string $data) use ($isTooNew) {
                if ($data === "first") {
                    say("begin");
                    while (!$isTooNew());
                    posix_kill(getmypid(), SIGTERM);
                    throw new DomainException();
                }
                say("ran $data");
            });
            try {
                $worker->run();
            } catch (Duly\Exception\FormatTooNewException) {
                say("ended by the format");
            }
            while ($isTooNew());
            $client->queue("q")->cancel("a");
            $client->queue("q")->push("second", name: "n");
            $worker->run();
            say("ended");
        ');
        $program->hear('begin');
        $format = $this->server->command('HGET', "{$this->prefix}{q}:meta", 'format');
        $this->server->command('HSET', "{$this->prefix}{q}:meta", 'format', '99');
        $program->hear('ended by the format');
        $this->server->command('HSET', "{$this->prefix}{q}:meta", 'format', $format);
        self::assertSame(0, $program->end(), $program->said());
        self::assertSame("begin\nended by the format\nran second\nended\n", $program->said());
    }

    public function testAHandlerMaySetSignalHandlersOfItsOwnForATime(): void
    {
        $this->queue->push(1, name: 'n');
        $program = $this->worker('
            $worker->on("n", function () {
                $before = pcntl_signal_get_handler(SIGTERM);
                pcntl_signal(SIGTERM, fn () => say("its own"));
                posix_kill(getmypid(), SIGTERM);
                pcntl_signal(SIGTERM, $before);
                say("begin");
                while (true) {
                    usleep(1000);
                }
            });
            $worker->run();
        ', 'grace: 0.2');
        $program->hear("its own\nbegin");
        $program->signal(SIGTERM);
        self::assertSame(142, $program->end());
        self::assertSame(1, $this->queue->counts()->ready);
    }

    public function testALostServerIsSaidOnceAndSurvived(): void
    {
        $server = new Server();
        try {
            $program = new Program($server, 'w:', '
                $short = new Duly\Client(' . var_export($server->url(), true) . ', "w:");
                $worker = new Duly\Worker($short, ["other", "q"], log: "say", maxJobs: 2);
                $worker->on("n", function (mixed $data) { say("ran $data"); });
                $before = getrusage();
                say("ready");
                $worker->run();
                $used = getrusage();
                say("used " . ($used["ru_utime.tv_sec"] - $before["ru_utime.tv_sec"]));
            ');
            $program->hear('ready');
            $server->kill();
            $program->hear('the worker keeps trying');
            usleep(700000);
            $server->start();
            $queue = (new Client($server->url(), 'w:'))->queue('q');
            $queue->push('after all', name: 'n');
            // Of all queues: one that ended before would not say it of the other queue.
            $program->hear('the server answers again');
            $queue->push('the last', name: 'n');
            self::assertSame(0, $program->end());
            self::assertSame(1, substr_count($program->said(), 'keeps trying'), $program->said());
            self::assertSame(1, substr_count($program->said(), 'the server answers again'));
            self::assertStringContainsString("ran after all\n", $program->said());
            self::assertStringContainsString("\nused 0\n", $program->said());
        } finally {
            $server->close();
        }
    }

    public function testAnErrorThatNoWaitingHealsIsThrown(): void
    {
        $worker = new Worker(new Client($this->server->url(), password: 'wrong'), ['q'], log: static fn () => null);
        $worker->on('n', static fn () => null);
        $this->thrownBy(AuthenticationFailedException::class, fn () => $worker->run());
    }

    public function testEarlierQueuesGoFirst(): void
    {
        $this->queue->push('later', name: 'n');
        $this->client->queue('urgent')->push('sooner', name: 'n');
        $ran = [];
        $worker = new Worker($this->client, ['urgent', 'q'], maxJobs: 2);
        $worker->on('n', function (mixed $data) use (&$ran): void {
            $ran[] = $data;
        })->run();
        self::assertSame(['sooner', 'later'], $ran);
    }

    public function testQueuesMayHaveWeights(): void
    {
        foreach (['often', 'rarely'] as $name) {
            $this->client->queue($name)->pushMany(array_fill(0, 100, ['data' => $name]));
        }
        $ran = ['often' => 0, 'rarely' => 0];
        $worker = new Worker($this->client, ['often' => 3, 'rarely' => 1], maxJobs: 100);
        $worker->on('', function (mixed $data) use (&$ran): void {
            $ran[$data]++;
            // A weight is the chance of a queue at each fetch; of longer jobs one or two are fetched at a time.
            usleep(26000);
        })->run();
        // 75 and 25 are expected; the chance to be this far off is less than one in ten thousand.
        self::assertGreaterThan($ran['rarely'], $ran['often']);
        self::assertGreaterThan(0, $ran['rarely']);
    }

    public function testAFailureHookChangesWhatIsStored(): void
    {
        $this->queue->push(['done' => 0], name: 'n', maxRetries: 1, retry: RetryPolicy::fixed(0.05));
        $ran = [];
        $worker = $this->quick(3)->on('n', function (array $data, Job $job) use (&$ran): void {
            $ran[] = [$data['done'], $job->attempts, $job->maxRetries, $job->error];
            throw new \DomainException("after {$data['done']}");
        });
        $worker->onFailure(fn (Job $job, \Throwable $error): array => [
            'data' => ['done' => $job->data()['done'] + 10],
            'maxRetries' => 7,
            'error' => strtoupper($error->getMessage()),
        ])->run();
        self::assertSame([[0, 0, 1, ''], [10, 1, 7, 'AFTER 0'], [20, 2, 7, 'AFTER 10']], $ran);
    }

    public function testAFailureHookThatGivesNothingOrThrowsOrIsWrongChangesNothing(): void
    {
        $hooks = [
            'nothing' => static fn () => null,
            'throws' => static fn () => throw new \LogicException('mine'),
            'no array' => static fn () => 'text',
            'unknown name' => static fn () => ['nonsense' => 1],
            'a list' => static fn () => ['text'],
            'wrong type' => static fn () => ['attempts' => 'many'],
            'refused' => static fn () => ['data' => NAN],
            'contrary' => static fn () => ['final' => true, 'counted' => false],
        ];
        foreach ($hooks as $name => $hook) {
            $this->queue->push(1, id: $name, name: 'n', maxRetries: 0);
            $lines = [];
            $log = static function (string $line) use (&$lines): void {
                if (!str_contains($line, 'failed for good')) {
                    $lines[] = $line;
                }
            };
            $worker = $this->quick(1, $log)->on('n', static fn () => throw new \DomainException('broken'));
            $worker->onFailure($hook)->run();
            self::assertStringStartsWith('DomainException: broken at ', $this->queue->find($name)?->error, $name);
            self::assertCount($name === 'nothing' ? 0 : 1, $lines, $name);
            $named = $name === 'nothing' ? '' : "'{$name}' (n, attempt 1) of queue 'q'";
            self::assertStringContainsString($named, $lines[0] ?? '');
        }
    }

    public function testAJobThatTheFailureHookSettledIsLeftAlone(): void
    {
        $this->queue->push(1, id: 'a', name: 'n');
        $worker = $this->quick(1)->on('n', static fn () => throw new \DomainException('broken'));
        $worker->onFailure(static fn (Job $job) => $job->release(after: 60))->run();
        self::assertSame(['delayed', 0], [$this->queue->find('a')?->state, $this->queue->find('a')?->attempts]);
    }

    /** @param ?callable $log fails the test if null, but for failures */
    private function quick(int $maxJobs, ?callable $log = null): Worker
    {
        $log ??= static fn (string $line) => str_contains($line, ' failed') ?: self::fail($line);
        return new Worker($this->client, ['q'], maxJobs: $maxJobs, log: $log);
    }

    public function testWrongSettingsAreRefused(): void
    {
        $invalid = InvalidArgumentException::class;
        $this->thrownBy($invalid, fn () => new Worker($this->client, []));
        $this->thrownBy($invalid, fn () => new Worker($this->client, ['']));
        $this->thrownBy($invalid, fn () => new Worker($this->client, ['x y' => 1]));
        $this->thrownBy($invalid, fn () => (new Worker($this->client, ['q' => 0]))->run());
        $this->thrownBy($invalid, fn () => new Worker($this->client, ['q'], grace: -1));
        $this->thrownBy($invalid, fn () => new Worker($this->client, ['q'], maxJobs: 0));
        $this->thrownBy($invalid, fn () => new Worker($this->client, ['q'], lease: 0));
        $this->thrownBy($invalid, fn () => new Worker($this->client, ['q'], name: ''));
        $this->thrownBy($invalid, fn () => (new Worker($this->client, ['q']))->run());
    }

    public function testItReservesNoMoreJobsThanItMayRun(): void
    {
        foreach (range(1, 40) as $number) {
            $this->queue->push($number, name: 'n');
        }
        $worker = new Worker($this->client, ['q'], maxJobs: 20);
        $left = 20;
        $atLast = 0;
        $worker->on('n', function () use (&$left, &$atLast): void {
            $left--;
            // The acks of those before may still be on their way.
            for ($until = microtime(true) + 20; $left === 0 && microtime(true) < $until; usleep(1000)) {
                $atLast = $this->queue->counts()->reserved;
                if ($atLast === 1) {
                    return;
                }
            }
        });
        self::assertSame(20, $worker->run()['acked']);
        self::assertSame(1, $atLast);
        self::assertSame(20, $this->queue->counts()->ready);
    }

    public function testItWorksWithoutPcntl(): void
    {
        $this->queue->push(1, name: 'n');
        $program = $this->worker('
            $worker->on("n", fn () => say("ran"));
            $worker->run();
        ', 'maxJobs: 1', '-ddisable_functions=pcntl_signal,pcntl_signal_dispatch,pcntl_async_signals');
        self::assertSame(0, $program->end());
        self::assertSame("ran\n", $program->said());
    }

    private function worker(
        string $code,
        string $settings = 'grace: 30',
        string $option = '-dmemory_limit=64M',
    ): Program {
        return new Program($this->server, $this->prefix, '
            $worker = new Duly\Worker($client, ["q"], ' . $settings . ', log: "say");
            ' . $code, $option);
    }

    /** @return array<string, int> */
    private function totals(): array
    {
        return $this->queue->counts()->totals;
    }
}
