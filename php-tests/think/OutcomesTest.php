<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Server;

/** What becomes of jobs whose handlers fail, release or settle them in unusual ways. */
final class OutcomesTest extends ThinkTestCase
{
    /** The code of each is in its data. */
    private const HANDLER = '
        public function fire(TYPE$job, $data)
        {
            note("run {$data["n"]} attempt " . $job->attempts());
            eval($data["code"]);
        }
        public function failed($data, $error)
        {
            note("failed {$data["n"]} " . $error::class);
            eval($data["failed"] ?? "");
        }
    ';

    protected function setUp(): void
    {
        parent::setUp();
        $write = fn (string $class, string $code) => $this->app
            ->write("app/job/{$class}.php", "<?php namespace app\\job; class {$class} { {$code} }");
        $write('Does', str_replace('TYPE', '', self::HANDLER));
        $write('Typed', str_replace('TYPE', '\think\queue\Job ', self::HANDLER));
        $handle = str_replace('fire(TYPE$job, $data)', 'handle(\Duly\Job $job, array $data)', self::HANDLER);
        $write('Handles', str_replace('$job->attempts()', '$job->attempt', $handle));
    }

    /** @return array<string, array{string}> */
    public static function bothWorkers(): array
    {
        return ["duly's" => ['duly:work'], "think-queue's" => ['queue:work']];
    }

    private function push(int $n, string $code, string $failed = ''): void
    {
        $data = var_export(compact('n', 'code', 'failed'), true);
        $this->app->evaluate("think\\facade\\Queue::push('Does', {$data});");
    }

    /** @param list<int> $counts of ready, delayed, reserved and failed jobs */
    private function untilCounts(array $counts, int $acked): void
    {
        $now = function (): array {
            $counts = $this->queue->counts();
            return [$counts->ready, $counts->delayed, $counts->reserved, $counts->failed];
        };
        try {
            Server::until(static fn (): bool => $now() === $counts, '', 30.0);
        } catch (\RuntimeException) {
            self::assertSame($counts, $now(), implode("\n", $this->app->notes()) . $this->app->log());
        }
        self::assertSame($acked, $this->totals()['acked'] ?? 0, implode("\n", $this->app->notes()));
    }

    /** @return list<string> */
    private function errors(): array
    {
        $failed = $this->queue->peek('failed');
        $errors = array_map(static fn (\Duly\JobView $job): string => (string) $job->error, $failed);
        sort($errors);
        return $errors;
    }

    /** @dataProvider decisions */
    public function testAFailureIsStoredThoughTheServerIsAwayForLongerThanACall(string $tries, string $code): void
    {
        $this->untilTheServerIsBack($tries, $code);
        $this->untilCounts([0, 0, 0, $tries === '1' ? 1 : 0], $tries === '1' ? 0 : 1);
        self::assertCount($tries === '1' ? 1 : 2, preg_grep('/^run/', $this->app->notes()) ?: []);
        $error = str_contains($code, 'markAs') ? 'marked it as failed' : 'DomainException: no at ';
        $tries === '1' && self::assertStringContainsString($error, $this->errors()[0]);
        $this->server->close();
    }

    /** Runs a job whose code meets a server that is away. */
    private function untilTheServerIsBack(string $tries, string $code): void
    {
        $this->useServerThatKeepsData();
        $client = "'client' => ['deadline' => 1, 'commandTimeout' => 1], 'url'";
        $this->app->replace('config/duly.php', "'url'", $client);
        $this->push(1, 'note("stop"); while (!is_file("runtime/stopped")) { usleep(1000); } ' . $code);
        $this->start('duly:work', "--tries={$tries}");
        $this->app->hear('stop');
        $this->server->signal(SIGSTOP);
        $this->app->write('runtime/stopped', '');
        $until = microtime(true) + 6.0; // longer than two calls
        Server::until(static fn (): bool => microtime(true) > $until, '');
        $this->server->signal(SIGCONT);
    }

    /** @return array<string, array{string, string}> */
    public static function decisions(): array
    {
        $again = '$job->attempts() > 1 ? $job->delete() : ';
        return [
            'for good' => ['1', 'throw new \DomainException("no");'],
            'to run again' => ['0', $again . 'throw new \DomainException("no");'],
            'a release' => ['0', $again . '$job->release();'],
            'what is marked' => ['1', '$job->markAsFailed();'],
        ];
    }

    public function testAReleaseIsNoFailureThoughTheServerIsAwayForLongerThanACall(): void
    {
        $released = '$job->reserved->returns > 0 ? $job->delete() : throw new \Duly\Release();';
        $this->untilTheServerIsBack('1', $released);
        $this->untilCounts([0, 0, 0, 0], 1);
        self::assertSame(['run 1 attempt 1', 'stop', 'run 1 attempt 1', 'stop'], $this->app->notes());
        $this->server->close();
    }

    /** @dataProvider bothWorkers */
    public function testWhatCannotBeStoredOfAFailureMakesItNoSuccess(string $command): void
    {
        $unreadable = 'throw new class extends \Exception { protected $message = ["a"]; };';
        $this->push(1, $unreadable);
        $this->push(2, '$job->release(4000000000);');
        $this->push(3, 'try { $job->release(4000000000); } catch (\InvalidArgumentException) { $job->delete(); }');
        $this->push(4, '$job->delete();');
        $this->start($command, '--tries=1');
        $this->app->hear('run 4');
        $this->untilCounts([0, 0, 0, 2], 2);
        self::assertContains('failed 2 Duly\Exception\InvalidArgumentException', $this->app->notes());
        self::assertStringContainsString('seconds must be', implode("\n", $this->errors()));
    }

    /** @dataProvider bothWorkers */
    public function testAJobThatIsMarkedAsFailedIsInFailed(string $command): void
    {
        $this->push(1, '$job->markAsFailed();');
        $this->push(2, '$job->markAsFailed(); $job->delete();');
        $this->push(3, '$job->markAsFailed(); throw new \DomainException("marked");');
        $this->push(4, '$job->delete();');
        $this->start($command);
        $this->app->hear('run 4');
        $this->untilCounts([0, 0, 0, 3], 1);
        $errors = $this->errors();
        self::assertStringStartsWith('DomainException: marked at ', $errors[0]);
        self::assertStringContainsString('marked it as failed', $errors[1]);
    }

    /** @dataProvider bothWorkers */
    public function testAJobThatIsMarkedAsFailedIsInFailedThoughItsProcessEnds(string $command): void
    {
        $this->push(1, '$job->markAsFailed(); exit(3);');
        $this->start($command);
        $this->untilCounts([0, 0, 0, 1], 0);
        self::assertStringContainsString('marked it as failed', $this->errors()[0]);
        self::assertSame(['run 1 attempt 1'], $this->app->notes());
    }

    public function testAFailedJobIsLetGo(): void
    {
        $this->app->write('app/job/Held.php', '<?php
            namespace app\job;
            class Held
            {
                public function fire(\think\queue\Job $job, $data)
                {
                    throw new \DomainException("no");
                }
                public function __destruct()
                {
                    note("let go");
                }
            }
        ');
        $this->app->evaluate("think\\facade\\Queue::push('Held', 1);");
        $this->push(2, '$job->delete();');
        $this->start('duly:work', '--tries=1');
        $this->app->hear('run 2');
        $this->untilCounts([0, 0, 0, 1], 1);
        self::assertSame(['let go', 'run 2 attempt 1'], $this->app->notes());
    }

    /** @dataProvider endsOfAProcess */
    public function testAJobOfAnotherProgramThatEndsItsProcessHasTheRunsThatItSays(string $code, int $maxRetries): void
    {
        $data = ['n' => 1, 'code' => $code];
        $retry = \Duly\RetryPolicy::fixed(0);
        $this->queue->push($data, name: 'handles', maxRetries: $maxRetries, retry: $retry);
        for ($run = 0; $run <= $maxRetries; $run++) {
            self::assertSame(0, $this->queue->counts()->failed);
            $this->start('queue:work', '--timeout=1')->end();
        }
        $this->untilCounts([0, 0, 0, 1], 0);
        self::assertCount($maxRetries + 1, preg_grep('/^run/', $this->app->notes()) ?: []);
        self::assertMatchesRegularExpression('/the process ended|ran longer/', $this->errors()[0]);
    }

    /** @return array<string, array{string, int}> */
    public static function endsOfAProcess(): array
    {
        $hangs = 'while (true) { usleep(1000); }';
        return ['exit' => ['exit(3);', 0], 'exit twice' => ['exit(3);', 1], 'the alarm' => [$hangs, 0]];
    }

    /** @dataProvider bothWorkers */
    public function testAReleaseCountsAlsoForAJobOfAnotherProgram(string $command): void
    {
        $data = ['n' => 1, 'code' => '$job->release();'];
        $this->queue->push($data, name: 'typed', maxRetries: 1, retry: \Duly\RetryPolicy::fixed(0));
        $data = ['n' => 2, 'code' => ''];
        $this->queue->push($data, name: 'typed', maxRetries: 1, retry: \Duly\RetryPolicy::fixed(0));
        $this->start($command);
        $this->untilCounts([0, 0, 0, 2], 0);
        foreach ([1, 2] as $n) {
            self::assertCount(2, preg_grep("/^run {$n}/", $this->app->notes()) ?: []);
            $failed = 'failed ' . $n . ' think\queue\exception\MaxAttemptsExceededException';
            self::assertContains($failed, $this->app->notes());
        }
    }

    /** @dataProvider bothWorkers */
    public function testARetryOfAJobOfAnotherProgramNeedsOneThatIsLeft(string $command): void
    {
        $this->queue->push(['n' => 1, 'code' => 'throw new \Duly\Retry(after: 0);'], name: 'handles', maxRetries: 1);
        $this->start($command);
        $this->untilCounts([0, 0, 0, 1], 0);
        self::assertSame('failed 1 Duly\Retry', $this->app->notes()[2]);
    }

    /** @dataProvider bothWorkers */
    public function testACallBehindADeleteInATransactionTakesItsPlace(string $command): void
    {
        $rolledBack = '\think\facade\Db::startTrans(); $job->delete(); \think\facade\Db::rollback();';
        $committed = '\think\facade\Db::transaction(fn () => $job->delete());';
        $this->push(1, "{$rolledBack} \$job->release(3600);");
        $this->push(2, "{$committed} \$job->release(3600);");
        $this->push(3, "{$rolledBack} \$job->failed(new \DomainException('no'));");
        $this->start($command);
        $this->untilCounts([0, 2, 0, 1], 0);
        self::assertStringNotContainsString('lease is lost', $this->app->log());
        self::assertStringNotContainsString('decided already', $this->app->log());
    }

    /** @dataProvider bothWorkers */
    public function testAJobThatIsSettledBeforeItsHandlerThrowsHasNotFailed(string $command): void
    {
        $this->push(1, '$job->reserved->ack(); throw new \DomainException("behind 1");');
        $this->push(2, '$job->release(3600); throw new \DomainException("behind 2");');
        $this->push(3, '$job->delete(); throw new \DomainException("behind 3");');
        $this->push(4, '$job->reserved->release(3600); throw new \DomainException("behind 4");');
        $data = ['n' => 5, 'code' => '$job->ack(); throw new \DomainException("behind 5");'];
        $this->queue->push($data, name: 'handles', maxRetries: 0);
        $this->start($command, '--tries=1');
        $this->app->hear('run 5');
        $this->untilCounts([0, 2, 0, 0], 3);
        self::assertCount(0, preg_grep('/^failed/', $this->app->notes()) ?: []);
        self::assertSame('0', $this->app->evaluate('echo count(app("queue.failer")->all());'));
        $log = $this->app->log();
        self::assertStringNotContainsString('lease is lost', $log);
        self::assertStringNotContainsString('decided already', $log);
        foreach (range(1, 5) as $n) {
            self::assertStringContainsString($command === 'duly:work' ? 'then its handler threw' : "behind {$n}", $log);
        }
    }

    /** @dataProvider bothWorkers */
    public function testAHandlerThatSettlesItsJobByHandIsNoError(string $command): void
    {
        $codes = ['$job->ack();', '$job->fail("by hand", final: true);', '$job->release(3600);'];
        foreach ($codes as $n => $code) {
            $this->queue->push(compact('n', 'code'), name: 'handles', maxRetries: 0);
        }
        // Jobs run one after the other: when this one does, all is said of those before it.
        $this->queue->push(['n' => 3, 'code' => ''], name: 'handles');
        $this->start($command);
        $this->app->hear('run 3');
        $this->untilCounts([0, 1, 0, 1], 2);
        self::assertStringNotContainsString('lease is lost', $this->app->log());
        self::assertStringNotContainsString('decided already', $this->app->log());
    }

    public function testWhatAListenerThrowsHidesNoFailure(): void
    {
        $listener = 'fn () => throw new \RuntimeException("no table")';
        $this->app->write('app/event.php', "<?php
            return ['listen' => ['think\\queue\\event\\JobFailed' => [{$listener}]]];
        ");
        $this->push(1, 'throw new \DomainException("no");');
        $this->start('duly:work', '--tries=1');
        $this->untilCounts([0, 0, 0, 1], 0);
        Server::until(fn (): bool => str_contains($this->app->log(), "]no\n"), 'it is not reported');
        self::assertMatchesRegularExpression('/behind the failure of job .*: RuntimeException at /', $this->app->log());
        self::assertStringContainsString(']no table', $this->app->log());
        self::assertMatchesRegularExpression('/job .* failed for good: DomainException at /', $this->app->log());
        self::assertStringStartsWith('DomainException: no at ', $this->errors()[0]);
    }

    /** @dataProvider bothWorkers */
    public function testATransactionOfAFiberThatOutlivesItsRunTouchesNoLaterJob(string $command): void
    {
        $this->push(1, '
            $GLOBALS["fiber"] = new \Fiber(fn () => duly()->transaction(function () {
                duly()->afterCommit(fn () => note("wrong"));
                \think\facade\Db::table("orders")->insert(["id" => 1]);
                \Fiber::suspend();
            }));
            $GLOBALS["fiber"]->start();
        ');
        $this->push(2, '
            duly()->afterCommit(fn () => note("called at once"));
            \think\facade\Queue::connection("late")->push("Does", ["n" => 9]);
            $job->delete();
        ');
        $this->push(3, '
            \think\facade\Db::transaction(function () {
                \think\facade\Db::table("orders")->insert(["id" => 3]);
                $GLOBALS["fiber"] = null;
                \think\facade\Db::table("orders")->insert(["id" => 4]);
            });
            $job->delete();
        ');
        $this->start($command, '--tries=1');
        $this->untilCounts([0, 0, 0, 1], 2);
        self::assertContains('called at once', $this->app->notes());
        self::assertNotContains('wrong', $this->app->notes());
        self::assertSame(1, $this->client->queue('late')->counts()->ready);
        $ids = $this->app->evaluate('echo json_encode(think\facade\Db::table("orders")->order("id")->column("id"));');
        self::assertSame('[3,4]', $ids);
    }

    /** @dataProvider interruptions */
    public function testAJobThatIsInterruptedHasNotFailedWhateverItsHandlerDoes(string $does): void
    {
        $this->push(1, 'if (is_file("runtime/again")) { $job->delete(); return; } touch("runtime/again");
            try { while (true) { usleep(1000); } } catch (\Throwable $e) { ' . $does . ' }');
        $work = $this->start('duly:work', '--tries=1', '--grace=0');
        $this->app->hear('run 1');
        $work->signal(SIGTERM);
        $work->end();
        self::assertSame(['run 1 attempt 1'], $this->app->notes());
        self::assertSame('0', $this->app->evaluate('echo count(app("queue.failer")->all());'));
        self::assertStringNotContainsString('neither deleted nor released', $this->app->log());
        self::assertSame([1, 0], [$this->queue->counts()->ready, $this->queue->peek('ready')[0]->attempts ?? null]);
        $this->start('duly:work', '--tries=1');
        $this->untilCounts([0, 0, 0, 0], 1);
        self::assertSame(['run 1 attempt 1', 'run 1 attempt 1'], $this->app->notes());
    }

    /** @return array<string, array{string}> */
    public static function interruptions(): array
    {
        return [
            'the interruption' => ['throw $e;'],
            'one that it has caused' => ['throw new \RuntimeException("x", 0, $e);'],
            'another one' => ['throw new \RuntimeException("x");'],
            'nothing' => [''],
            'it says that it has failed' => ['$job->failed($e);'],
            'and deletes it' => ['$job->failed($e); $job->delete();'],
            'it marks it as failed' => ['$job->markAsFailed();'],
            'it releases it' => ['$job->release();'],
        ];
    }

    /** @return iterable<string, array{string, string}> */
    public static function lateWords(): iterable
    {
        $words = ['throw new \RuntimeException("late");', '$job->failed(new \RuntimeException("late"));'];
        foreach (self::bothWorkers() as [$command]) {
            foreach ($words as $code) {
                yield "{$command}, {$code}" => [$command, $code];
            }
        }
    }

    /** @dataProvider lateWords */
    public function testAJobWhoseLeaseIsLostHasNotFailedWhateverItsHandlerSays(string $command, string $code): void
    {
        $waits = 'while (!is_file("runtime/lost")) { try { usleep(1000); } catch (\Throwable) { } }';
        $this->push(1, "{$waits} {$code}");
        $this->push(2, '$job->delete();');
        $work = $this->start($command, '--tries=1');
        $this->app->hear('run 1');
        $this->queue->cancel($this->queue->peek('reserved')[0]->id);
        $until = microtime(true) + 2.0; // its lease is one second
        Server::until(static fn (): bool => microtime(true) > $until, '');
        $this->app->write('runtime/lost', '');
        $this->app->hear('run 2');
        $this->untilCounts([0, 0, 0, 0], 1);
        self::assertTrue($work->isRunning());
        self::assertCount(0, preg_grep('/^failed/', $this->app->notes()) ?: []);
        self::assertSame('0', $this->app->evaluate('echo count(app("queue.failer")->all());'));
    }

    /** @dataProvider ownFailures */
    public function testAFailureOfAJobOfAnotherProgramIsToldOnceWhoeverHasSaidIt(string $code, string $failed): void
    {
        $this->queue->push(['n' => 9], name: 'handles');
        $other = $this->queue->reserve(lease: 60);
        $data = ['n' => 1, 'code' => $code, 'failed' => $failed];
        $this->queue->push($data, name: 'typed', maxRetries: 0);
        $this->start('duly:work', '--processes=1');
        $this->untilCounts([0, 0, 1, 1], 0);
        self::assertStringStartsWith('DomainException: no at ', $this->errors()[0]);
        // `failed()` is called in the order of the failures: when it was called for this one, no earlier one comes.
        $other->fail('elsewhere', final: true);
        $this->app->hear('failed 9');
        $notes = ['run 1 attempt 1', 'failed 1 DomainException', 'failed 9 Duly\Exception\JobFailedException'];
        self::assertSame($notes, $this->app->notes());
        self::assertSame(1, preg_match_all('/job .* failed for good: DomainException at /', $this->app->log()));
        self::assertStringNotContainsString('lease is lost', $this->app->log());
    }

    /** @return array<string, array{string, string}> */
    public static function ownFailures(): array
    {
        $fails = '$job->failed(new \DomainException("no"));';
        return [
            'by its handler' => [$fails, ''],
            'by its handler, which deletes it, too' => ["{$fails} \$job->delete();", ''],
            'by its handler, which releases it, too' => ["{$fails} \$job->release();", ''],
            'by its handler, which throws, too' => ["{$fails} throw new \RuntimeException('x');", ''],
            'by what it throws, and failed() ends the process' => ['throw new \DomainException("no");', 'exit(4);'],
            'by its handler, and failed() ends the process' => [$fails, 'exit(4);'],
        ];
    }

    /** @dataProvider lastEnds */
    public function testTheLastRunOfAJobOfAnotherProgramMayEndItsProcessAndItsFailureIsTold(string $code): void
    {
        $begins = '\think\facade\Db::startTrans();';
        $failed = '\think\facade\Db::table("orders")->insert(["id" => 1]);';
        $data = ['n' => 1, 'code' => $begins . $code, 'failed' => $failed];
        $this->queue->push($data, name: 'handles', maxRetries: 0);
        $this->start('queue:work', '--timeout=1')->end();
        $this->untilCounts([0, 0, 0, 1], 0);
        self::assertSame(['run 1 attempt 1', 'failed 1 RuntimeException'], $this->app->notes());
        $line = '/job .* failed for good: (the process ended|it ran longer)/';
        self::assertMatchesRegularExpression($line, $this->app->log());
        $rows = 'echo count(app("queue.failer")->all()), think\facade\Db::table("orders")->count();';
        self::assertSame('11', $this->app->evaluate($rows));
    }

    /** @return array<string, array{string}> */
    public static function lastEnds(): array
    {
        $full = 'ini_set("memory_limit", "64M"); while (true) { $data[] = str_repeat("x", 1 << 20); }';
        return ['exit' => ['exit(3);'], 'all memory' => [$full], 'the alarm' => ['while (true) { usleep(1000); }']];
    }

    public function testAFailureThatIsNotStoredWhenTheProcessEndsIsNotTold(): void
    {
        $this->useServerThatKeepsData();
        $code = 'note("stop"); while (!is_file("runtime/stopped")) { usleep(1000); } exit(3);';
        $this->queue->push(['n' => 1, 'code' => $code], name: 'handles', maxRetries: 0);
        $work = $this->start('queue:work');
        $this->app->hear('stop');
        $this->server->kill();
        $this->app->write('runtime/stopped', '');
        self::assertSame(3, $work->end());
        self::assertSame(['run 1 attempt 1', 'stop'], $this->app->notes());
        self::assertStringNotContainsString('failed for good', $this->app->log());
        $line = "/job .* of queue 'default' has failed for the last time, .*: the server has not answered/";
        self::assertMatchesRegularExpression($line, $this->app->log());
        self::assertStringContainsString('the server has not confirmed that', $this->app->log());
        self::assertSame('0', $this->app->evaluate('echo count(app("queue.failer")->all());'));
        $this->server->close();
    }

    public function testFailedOfAJobOfAnotherProgramIsCalledOnceThoughItsHandlerEndsTheProcess(): void
    {
        $this->queue->push(['n' => 9], name: 'handles');
        $other = $this->queue->reserve(lease: 60);
        $this->queue->push(['n' => 1, 'code' => 'exit(3);'], name: 'typed', maxRetries: 0);
        $this->start('duly:work');
        $this->untilCounts([0, 0, 1, 1], 0);
        $other->fail('elsewhere', final: true);
        $this->app->hear('failed 9');
        $notes = ['run 1 attempt 1', 'failed 1 RuntimeException', 'failed 9 Duly\Exception\JobFailedException'];
        self::assertSame($notes, $this->app->notes());
    }

    public function testWhatIsDecidedOfAFailureStaysIfItsMessageIsNoText(): void
    {
        $thrown = 'new class extends \Exception { protected $message = ["a"]; }';
        $this->push(1, "throw {$thrown};");
        $data = ['n' => 2, 'code' => "throw new \\Duly\\Fail('no', {$thrown});"];
        $this->queue->push($data, name: 'handles', maxRetries: 3, retry: \Duly\RetryPolicy::fixed(0));
        $this->push(3, "throw {$thrown};");
        $this->start('duly:work', '--tries=1');
        $this->untilCounts([0, 0, 0, 3], 0);
        self::assertSame(
            ['run 1 attempt 1', 'run 2 attempt 1', 'run 3 attempt 1'],
            array_values(preg_grep('/^run/', $this->app->notes()) ?: []),
        );
    }

    /** @dataProvider bothWorkers */
    public function testAListenerThatKeepsAnEventToItselfHidesNoError(string $command): void
    {
        foreach (['false', 'throw new \RuntimeException("mine")'] as $n => $does) {
            $this->app->write('app/event.php', "<?php
                return ['listen' => ['think\\queue\\event\\JobExceptionOccurred' => [fn () => {$does}]]];
            ");
            $this->push($n, 'throw new \DomainException("no");');
            $work = $this->start($command, '--delay=3600');
            $this->untilCounts([0, $n + 1, 0, 0], 0);
            self::assertStringStartsWith('DomainException: no at ', (string) $this->queue->peek('delayed')[$n]->error);
            $work->kill();
        }
    }

    /** @dataProvider bothWorkers */
    public function testARetryOfAJobOfAnotherProgramWaitsAsItSays(string $command): void
    {
        $policy = \Duly\RetryPolicy::fixed(3600);
        $codes = ['new \Duly\Retry(after: 0)', 'new \Duly\Retry(after: 60)', 'new \Duly\Retry()'];
        foreach ($codes as $n => $code) {
            $data = ['n' => $n, 'code' => "if (\$job->attempts() === 1) { throw {$code}; } \$job->delete();"];
            $this->queue->push($data, name: 'typed', maxRetries: 1, retry: $policy);
        }
        $data = ['n' => 3, 'code' => 'throw new \Duly\Retry(after: 60);'];
        $this->queue->push($data, name: 'typed', maxRetries: 0);
        $this->start($command);
        $this->untilCounts([0, 2, 0, 1], 1);
        $minutes = static fn (\Duly\JobView $job): int => (int) round(($job->at - microtime(true)) / 60);
        $due = array_map($minutes, $this->queue->peek('delayed'));
        sort($due);
        self::assertSame([1, 60], $due);
        self::assertStringNotContainsString('does not take', $this->app->log());
    }

    /** @dataProvider bothWorkers */
    public function testAProcessThatAHandlerForksEndsWithoutAWord(string $command): void
    {
        $this->push(1, 'pcntl_fork() === 0 ? exit(0) : pcntl_wait($status); $job->delete();');
        $work = $this->start($command);
        $this->untilCounts([0, 0, 0, 0], 1);
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
        self::assertStringNotContainsString('forked', $this->app->log() . $work->said());
    }

    /** @dataProvider bothWorkers */
    public function testDataThatPhpCannotDecodeFailsAlone(string $command): void
    {
        $payload = '{"job":"Does","maxTries":null,"timeout":null,"data":{"n":1,"text":"\ud83d"}}';
        $this->queue->push(raw: $payload, id: 'a', name: 'Does', maxRetries: 9999);
        $this->queue->push(raw: '"\ud83d"', id: 'b', name: 'handles', maxRetries: 9999);
        $this->queue->push(raw: '["\ud83d"]', id: 'c', maxRetries: 9999);
        $this->push(2, '$job->delete();');
        $work = $this->start($command);
        $this->app->hear('run 2');
        $this->untilCounts([0, 0, 0, 3], 1);
        foreach ($this->errors() as $error) {
            self::assertStringContainsString('PHP cannot decode the data of this job', $error);
        }
        foreach (['a', 'b', 'c'] as $id) {
            self::assertSame(1, $this->queue->find($id)?->attempts);
        }
        self::assertSame(['run 2 attempt 1'], $this->app->notes());
        self::assertTrue($work->isRunning());
        self::assertStringNotContainsString('onFailed for', $this->app->log());
        if ($command === 'queue:work') {
            $rows = 'echo json_encode(array_column(app("queue.failer")->all(), "payload"));';
            self::assertSame(['["\ud83d"]', '"\ud83d"', $payload], json_decode($this->app->evaluate($rows)));
        }
    }

    public function testEachFailureIsToldOnceAndFoundInTheLog(): void
    {
        $throws = 'throw new \DomainException("no");';
        $second = 'throw new \RuntimeException("second");';
        $this->queue->push(['n' => 9], name: 'handles');
        $other = $this->queue->reserve(lease: 60);
        $this->push(1, $throws);
        $this->push(2, $throws, $second);
        $ids = array_map(static fn (\Duly\JobView $job): string => $job->id, $this->queue->peek('ready'));
        foreach (['handles', 'typed'] as $name) {
            foreach (['', $second] as $failed) {
                $data = ['n' => count($ids) + 1, 'code' => $throws, 'failed' => $failed];
                $ids[] = $this->queue->push($data, name: $name, maxRetries: 0);
            }
        }
        $this->start('duly:work', '--tries=1');
        $this->untilCounts([0, 0, 1, 6], 0);
        // `failed()` is called in the order of the failures: when it was called for this one, no earlier one comes.
        $other->fail('elsewhere', final: true);
        $this->app->hear('failed 9');
        foreach (range(1, 6) as $n) {
            self::assertCount(1, preg_grep("/^failed {$n} DomainException/", $this->app->notes()) ?: []);
        }
        foreach ($ids as $id) {
            $log = $this->app->log();
            self::assertSame(1, preg_match_all("/job '{$id}'.* failed.*: DomainException at .*:\\d+/", $log), $log);
        }
        self::assertSame(3, substr_count($this->app->log(), 'RuntimeException at '));
    }
}
