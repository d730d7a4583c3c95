<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Server;

/** `php think duly:work`. */
final class WorkTest extends ThinkTestCase
{
    public function testNumbersOfTheConfigurationMayBeText(): void
    {
        $text = "'lease' => '1', 'grace' => '5', 'retry_after' => '0.2', 'memory' => '256', 'max_jobs' => '100', "
            . "'timeout' => '60', 'prefetch' => '2', 'processes' => '1', 'tries' => '2', 'delay' => '0', 'name' => '7'";
        $this->app->replace('config/duly.php', "'lease' => 1, 'grace' => 5, 'retry_after' => 0.2", $text);
        $this->queue->push(['order' => 1], name: 'order.named');
        $this->start('duly:work');
        $this->app->hear('handled 1');
        $this->untilAcked(1);
    }

    public function testItRunsJobsOfThinkQueueAndOfAllOtherPrograms(): void
    {
        $this->app->evaluate('
            use think\facade\Queue;
            Queue::push("Close", ["order" => 1]);
            Queue::later(new DateInterval("PT1S"), app\job\Close::class, ["order" => 2]);
            Queue::push(new app\job\Command(3));
            Queue::bulk(["close", "app\job\Close@fire"], ["order" => 4]);
            duly()->push(["order" => 5], name: "order.named");
        ');
        // Such as a Python program.
        $this->queue->push(['order' => 6], name: 'shop.orderClose');
        $this->queue->push(['order' => 7], name: 'app\job\Handled');
        $work = $this->start('duly:work', '--processes=2');
        $this->app->hear('ran 2 attempt 1');
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
        $said = preg_replace('/ pid \d+/', '', $this->app->notes());
        foreach (['ran 1 attempt 1', 'command 3 duly', 'handled 5 5 order.named attempt 1 duly'] as $line) {
            self::assertContains($line, $said);
        }
        self::assertCount(2, array_keys($said, 'ran 4 attempt 1', true));
        self::assertContains('shop 6 6 shop.orderClose attempt 1 duly', $said);
        self::assertContains('handled 7 7 app\job\Handled attempt 1 duly', $said);
        self::assertSame([8, 0], [$this->totals()['acked'], $this->totals()['failed'] ?? 0]);
    }

    public function testAJobOfThinkQueueIsRetriedReleasedAndFailedAsThinkQueueDoesIt(): void
    {
        $this->app->evaluate('
            use think\facade\Queue;
            Queue::push("Close", ["order" => 1, "do" => ["throw-once not yet", "delete"]]);
            Queue::push("Close", ["order" => 2, "do" => ["release 0"]]);
            Queue::push("Close", ["order" => 3, "do" => ["throw no such order"]]);
            Queue::push("Close", ["order" => 4, "do" => ["nothing"]]);
        ');
        $this->start('duly:work', '--tries=2');
        $this->app->hear('ran 1 attempt 2');
        $this->app->hear('ran 2 attempt 2');
        $this->app->hear('failed 3 no such order');
        $this->app->hear('failed 4 Close has been attempted too many times');
        Server::until(fn (): bool => $this->queue->counts()->failed === 2, 'they are not in failed');
        $errors = array_map(static fn ($job): string => $job->error, $this->queue->peek('failed'));
        sort($errors);
        self::assertStringStartsWith('DomainException: no such order at ', $errors[0]);
        self::assertStringContainsString('MaxAttemptsExceededException', $errors[1]);
        self::assertStringContainsString('[0]not yet', $this->app->log());
        self::assertStringContainsString('neither deleted nor released it: it runs again in 0.2 s', $this->app->log());
        // think-queue's own table has them, too.
        $count = '$all = app("queue.failer")->all(); echo count($all), " ", $all[0]["queue"];';
        self::assertSame('2 default', $this->app->evaluate($count));
    }

    public function testHandlersAskByExceptionsAndFailuresAreReported(): void
    {
        foreach (['release', 'retry', 'fail', 'validate'] as $order => $then) {
            $this->queue->push(compact('order', 'then'), name: 'order.named', maxRetries: $then === 'validate' ? 0 : 5);
        }
        $this->queue->push(1, name: 'no.such', maxRetries: 0);
        $this->start('duly:work');
        $this->app->hear('handled 0 0 order.named attempt 1 duly', times: 2);
        $this->app->hear('handled 1 1 order.named attempt 2 duly');
        $this->app->hear('failed 2 there is no such order');
        $this->app->hear('failed 3');
        $counts = fn (): int => $this->queue->counts()->failed;
        Server::until(static fn (): bool => $counts() === 3, 'they are not in failed');
        Server::until(fn (): bool => substr_count($this->app->log(), 'no.such') > 0, 'it is not in the log');
        $log = $this->app->log();
        self::assertStringContainsString('[0]there is no such order', $log);
        // think reports no failed validation, which is the client's fault in a request.
        self::assertMatchesRegularExpression('/job .* failed for good: think.exception.ValidateException at /', $log);
        self::assertStringContainsString("this application has no handler for the name 'no.such'", $log);
        self::assertStringContainsString('the class app\job\no\Such', $log);
    }

    /** @dataProvider exceptionsOfALostConnection */
    public function testALostDatabaseConnectionEndsTheProcessAndAFreshOneGoesOn(string $thrown): void
    {
        $this->app->replace('app/job/Handled.php', "new \PDOException('MySQL server has gone away')", $thrown);
        $this->queue->push(['order' => 1, 'then' => 'gone'], name: 'order.named', retry: \Duly\RetryPolicy::fixed(0.1));
        $this->app->replace('app/job/Handled.php', '{$job->attempt} "', '{$job->attempt} " . getmypid() . " "');
        $this->start('duly:work');
        $this->app->hear('handled 1 1 order.named attempt 2');
        $pids = array_map(static fn (string $note): string => explode(' ', $note)[6], $this->app->notes());
        self::assertCount(2, array_unique($pids), implode("\n", $this->app->notes()));
    }

    /** @return list<list<string>> */
    public static function exceptionsOfALostConnection(): array
    {
        $ofPhp = "new \PDOException('MySQL server has gone away')";
        return [[$ofPhp], ["new \\think\\db\\exception\\PDOException({$ofPhp})"]];
    }

    public function testAReloadRunsTheNewCode(): void
    {
        $this->queue->push(['order' => 1], name: 'order.named');
        $work = $this->start('duly:work', '--processes=2');
        $this->app->hear('handled 1 1');
        $this->app->replace('app/job/Handled.php', 'note("handled', 'note("newly');
        // It is loaded before any handler.
        $this->app->replace('app/common.php', '"{$line}\n"', '"{$line} new\n"');
        $work->signal(SIGHUP);
        $work->hear('reloading');
        $order = 1;
        $goesNewly = function () use (&$order): bool {
            $this->queue->push(['order' => ++$order], name: 'order.named');
            $isNew = static fn (string $note): bool => preg_match('/^newly .* new$/', $note) === 1;
            return count(array_filter(array_slice($this->app->notes(), -5), $isNew)) === 5;
        };
        Server::until($goesNewly, 'the old code goes on');
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
    }

    public function testAJobThatKillsItsProcessComesBackAndCountsAsAnAttempt(): void
    {
        $this->app->evaluate('think\facade\Queue::push("Close", ["order" => 1, "do" => ["fatal"]]);');
        $this->start('duly:work', '--tries=2');
        $this->app->hear('failed 1 Close has been attempted too many times');
        // The first lease that ends may be that of a job that had not started: it is not counted.
        self::assertCount(3, preg_grep('/^run 1/', $this->app->notes()) ?: []);
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
    }

    public function testAJobObjectHasItsOwnTimeoutAndTries(): void
    {
        $this->app->evaluate('think\facade\Queue::push(new app\job\Slow(1));');
        $this->start('duly:work');
        $this->app->hear('slow 1');
        $this->app->hear('slow 1 has failed');
        // The next run fails before it begins, as behind a kill.
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        self::assertSame(['slow 1', 'slow 1 has failed'], $this->app->notes());
        self::assertStringContainsString('it ran longer than its timeout', $this->app->log());
    }

    public function testTheServerMayBeAway(): void
    {
        $this->useServerThatKeepsData();
        $work = $this->start('duly:work');
        $this->queue->push(['order' => 1], name: 'order.named');
        $this->app->hear('handled 1 1');
        $this->queue->push(['order' => 2], name: 'order.named', delay: 1);
        $this->server->kill();
        $work->hear('redis.sock');
        $this->server->start();
        $this->app->hear('handled 2 2');
        self::assertSame(2, $this->totals()['acked']);
        $this->server->close();
    }

    /** @dataProvider endsOfAnOpenTransaction */
    public function testATransactionThatARunLeavesOpenTakesNoRowOfOthersWithIt(string $how, string $command): void
    {
        $this->app->write('app/job/Books.php', '<?php
            namespace app\job;
            use think\facade\Db;
            class Books
            {
                public function handle(int $order, string $how): void
                {
                    Db::startTrans();
                    try {
                        Db::table("orders")->insert(["id" => $order]);
                        note("books {$order}");
                        while ($how === "hangs") {
                            usleep(1000);
                        }
                        $how === "throws" && throw new \TypeError("not caught");
                        if ($how !== "forgets") {
                            Db::commit();
                        }
                    } catch (\Exception $error) {
                        Db::rollback();
                        throw $error;
                    }
                }
                public function fire(\think\queue\Job $job, array $data): void
                {
                    $this->handle($data["order"], $data["how"]);
                    $job->delete();
                }
                public function failed(array $data): void
                {
                    Db::table("orders")->insert(["id" => $data["order"] + 10]);
                    Db::startTrans();
                    Db::table("orders")->insert(["id" => $data["order"] + 20]);
                }
            }
        ');
        $this->app->write('app/job/Whole.php', '<?php
            namespace app\job;
            class Whole
            {
                public function __construct(private int $order, private string $how)
                {
                }
                public function handle(): void
                {
                    (new Books())->handle($this->order, $this->how);
                }
            }
        ');
        foreach ([$how, 'commits'] as $order => $does) {
            $this->queue->push(['order' => $order, 'how' => $does], name: 'books', maxRetries: 0, timeout: 1);
        }
        $this->app->evaluate("foreach (['{$how}', 'commits'] as \$order => \$how) {
            think\\facade\\Queue::push('Books', ['order' => \$order + 2, 'how' => \$how]);
            think\\facade\\Queue::push(new app\\job\\Whole(\$order + 4, \$how));
        }");
        $work = $this->start($command, '--tries=1', '--timeout=1');
        $this->app->hear('books 5');
        Server::until(fn (): bool => $this->queue->counts()->reserved === 0, 'they do not end');
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
        $rows = $this->app->evaluate('echo json_encode(think\facade\Db::table("orders")->order("id")->column("id"));');
        // What is written about the failure stays.
        self::assertSame($how === 'hangs' ? '[1,3,5,10]' : '[1,3,5,10,12]', $rows);
        $kept = $this->app->evaluate('echo count(app("queue.failer")->all());');
        // think-queue has no row of the one that another program pushed, where duly runs it.
        $all = $command === 'duly:work' ? '2' : '3';
        self::assertSame($how === 'hangs' ? '0' : $all, $kept);
        $log = $this->app->log();
        self::assertGreaterThanOrEqual(3, substr_count($log, 'left a transaction of the database sqlite open'));
        self::assertStringNotContainsString('the last job left', $log);
        self::assertSame($how === 'hangs' ? 1 : 3, $this->queue->counts()->failed);
    }

    /**
     * Or the job would be gone and its rows, too, if the commit fails.
     *
     * @dataProvider bothWorkers
     */
    public function testADeleteWithinATransactionHoldsWhenThatHasEnded(string $command): void
    {
        $this->pays();
        $this->app->evaluate("
            think\\facade\\Db::execute('CREATE TABLE paid
                (id INTEGER PRIMARY KEY, of INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)');
            foreach (['commits', 'rolls back', 'throws inside', 'cannot commit', 'retries'] as \$order => \$how) {
                think\\facade\\Queue::push('Pays', ['order' => \$order, 'how' => \$how]);
            }
        ");
        $this->start($command, '--tries=1');
        Server::until(fn (): bool => $this->readyDelayedReserved() === [0, 1, 0], 'they do not end');
        self::assertSame([1, 3], [$this->totals()['acked'], $this->queue->counts()->failed]);
        // A Duly\Retry is counted, too, and has another run.
        self::assertSame(1, $this->queue->peek('delayed')[0]->attempts);
        self::assertSame(array_fill(0, 5, '[true,"reserved"]'), $this->app->notes());
        $rows = $this->app->evaluate('echo json_encode(think\facade\Db::table("orders")->column("id"));');
        self::assertSame('[0]', $rows);
        self::assertSame('3', $this->app->evaluate('echo count(app("queue.failer")->all());'));
    }

    /** @dataProvider endsOfAProcessBehindACommit */
    public function testAJobThatEndsItsProcessBehindItsCommitIsDone(string $command, string $how): void
    {
        $this->pays();
        $push = fn (string $how) => $this->app->evaluate("
            think\\facade\\Queue::push('Pays', ['order' => 1, 'how' => '{$how}']);
        ");
        $push($how);
        $work = $this->start($command, '--tries=2', '--timeout=1');
        $this->untilAcked(1);
        $command === 'queue:work' && $work->end();
        self::assertSame(['[true,"reserved"]'], $this->app->notes());
        $rows = $this->app->evaluate('echo json_encode(think\facade\Db::table("orders")->column("id"));');
        self::assertSame('[1]', $rows);
        self::assertSame([0, 0, 0], $this->readyDelayedReserved());
    }

    /** @return array<string, array{string, string}> */
    public static function endsOfAProcessBehindACommit(): array
    {
        return [
            'exit' => ['duly:work', 'exits'],
            'all memory' => ['duly:work', 'fills the memory'],
            "exit under think-queue's worker" => ['queue:work', 'exits'],
            "all memory under think-queue's worker" => ['queue:work', 'fills the memory'],
            "the alarm of think-queue's worker" => ['queue:work', 'hangs'],
        ];
    }

    /** @dataProvider bothWorkers */
    public function testAJobThatEndsItsProcessBeforeItsCommitCounts(string $command): void
    {
        $this->pays();
        $this->app->evaluate("think\\facade\\Queue::push('Pays', ['order' => 1, 'how' => 'exits inside']);");
        $work = $this->start($command, '--tries=1');
        $state = $command === 'queue:work' ? 'ready' : 'delayed';
        $attempts = fn (): ?int => ($this->queue->peek($state)[0] ?? null)?->attempts;
        Server::until(static fn (): bool => $attempts() === 1, 'it is not counted');
        self::assertStringContainsString('the process ended during', $this->queue->peek($state)[0]->error);
        if ($command === 'queue:work') {
            self::assertSame(3, $work->end());
            $this->start($command, '--tries=1');
            Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        }
        self::assertSame(['[true,"reserved"]'], $this->app->notes());
    }

    /** @dataProvider bothWorkers */
    public function testAJobWhoseFailedEndsTheProcessHasFailedAllTheSame(string $command): void
    {
        $this->app->write('app/job/Refuses.php', '<?php
            namespace app\job;
            class Refuses
            {
                public function fire($job, $data)
                {
                    note("runs");
                    throw new \DomainException("no");
                }
                public function failed($data, $error)
                {
                    exit(3);
                }
            }
        ');
        $this->app->evaluate('think\facade\Queue::push("Refuses", 1);');
        $this->start($command, '--tries=1');
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        self::assertStringStartsWith('DomainException: no at ', $this->queue->peek('failed')[0]->error);
        self::assertSame(['runs'], $this->app->notes());
    }

    /** @dataProvider bothWorkers */
    public function testAWorkerWithinATransactionLeavesThatAlone(string $command): void
    {
        $this->app->write('app/job/Outer.php', '<?php
            namespace app\job;
            use think\facade\{Console, Db};
            class Outer
            {
                public function handle(): void
                {
                    Db::transaction(function () {
                        Db::table("orders")->insert(["id" => 1]);
                        Console::call("queue:work", ["acks", "--once", "--queue", "other"]);
                    });
                }
            }
        ');
        $this->app->evaluate('
            use think\facade\{Console, Db, Queue};
            foreach ([1, 2] as $order) {
                Queue::push("Close", ["order" => $order], "other");
            }
            duly()->push(1, name: "outer");
            // Also in a program that is no worker.
            Db::transaction(function () {
                Db::table("orders")->insert(["id" => 2]);
                Console::call("queue:work", ["--once", "--queue", "other"]);
            });
        ');
        $this->start($command);
        $this->untilAcked(1);
        self::assertCount(2, preg_grep('/^ran /', $this->app->notes()) ?: []);
        $rows = $this->app->evaluate('echo json_encode(think\facade\Db::table("orders")->order("id")->column("id"));');
        self::assertSame('[1,2]', $rows);
        self::assertStringNotContainsString('a transaction of the database', $this->app->log());
    }

    /** @dataProvider bothWorkers */
    public function testATransactionThatAListenerLeavesOpenTakesNoRowOfTheNextJobWithIt(string $command): void
    {
        $this->app->write('app/event.php', '<?php
            return ["listen" => ["think\queue\event\JobProcessed" => [fn () => think\facade\Db::startTrans()]]];
        ');
        $this->pays();
        $this->app->evaluate("foreach ([1, 2] as \$order) {
            think\\facade\\Queue::push('Pays', ['order' => \$order, 'how' => 'commits']);
        }");
        $work = $this->start($command);
        $this->untilAcked(2);
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
        $rows = $this->app->evaluate('echo json_encode(think\facade\Db::table("orders")->order("id")->column("id"));');
        self::assertSame('[1,2]', $rows);
    }

    /** A handler that deletes its job within a transaction. */
    private function pays(): void
    {
        $this->app->write('app/job/Pays.php', '<?php
            namespace app\job;
            use think\facade\Db;
            class Pays
            {
                public function fire(\think\queue\Job $job, array $data): void
                {
                    $how = $data["how"];
                    Db::execute("PRAGMA foreign_keys = ON");
                    if ($how === "rolls back") {
                        Db::startTrans();
                        $this->pay($job, $data["order"]);
                        Db::rollback();
                        throw new \DomainException("no");
                    }
                    Db::transaction(function () use ($job, $data, $how) {
                        $this->pay($job, $data["order"]);
                        $how === "throws inside" && throw new \DomainException("no");
                        $how === "cannot commit" && Db::execute("INSERT INTO paid (of) VALUES (99)");
                        $how === "retries" && throw new \Duly\Retry(after: 60);
                        $how === "exits inside" && exit(3);
                    });
                    $how === "exits" && exit(3);
                    while ($how === "hangs") {
                        usleep(1000);
                    }
                    $how === "fills the memory" && ini_set("memory_limit", "48M");
                    $all = [];
                    while ($how === "fills the memory") {
                        $all[] = str_repeat("x", 64);
                    }
                }
                private function pay(\think\queue\Job $job, int $order): void
                {
                    Db::table("orders")->insert(["id" => $order]);
                    $job->delete();
                    note(json_encode([$job->isDeleted(), duly()->find($job->getJobId())->state]));
                }
            }
        ');
    }

    /** @return array<string, array{string}> */
    public static function bothWorkers(): array
    {
        return ["duly's" => ['duly:work'], "think-queue's" => ['queue:work']];
    }

    /** @return list<int> */
    private function readyDelayedReserved(): array
    {
        $counts = $this->queue->counts();
        return [$counts->ready, $counts->delayed, $counts->reserved];
    }

    /** @return array<string, array{string, string}> */
    public static function endsOfAnOpenTransaction(): array
    {
        return [
            'an interruption' => ['hangs', 'duly:work'],
            'a TypeError' => ['throws', 'duly:work'],
            'no commit' => ['forgets', 'duly:work'],
            "a TypeError under think-queue's worker" => ['throws', 'queue:work'],
            "no commit under think-queue's worker" => ['forgets', 'queue:work'],
        ];
    }

    public function testQueueRetryFindsTheConnectionWhateverItsNameIs(): void
    {
        $this->app->replace('config/queue.php', "'default' => 'duly'", "'default' => 'shop'");
        $this->app->replace('config/queue.php', "'duly' => [", "'shop' => [");
        $this->app->evaluate('think\facade\Queue::push("Close", ["order" => 1, "do" => ["throw no"]]);');
        $this->start('duly:work', '--tries=1');
        $this->app->hear('failed 1');
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        $this->app->run('queue:retry', '1');
        Server::until(fn (): bool => $this->queue->counts()->failed === 2, 'the copy does not run');
        self::assertSame('shop', $this->app->evaluate('echo app("queue.failer")->all()[0]["connection"];'));
    }

    public function testMemoryWithoutALimitIsNone(): void
    {
        $worker = '(fn () => $this->memory)->bindTo($worker, $worker::class)()';
        $code = '$worker = Duly\Think\Work::of($app, [], []); echo json_encode(' . $worker . ');';
        self::assertSame('128', $this->app->evaluate($code));
        $this->app->replace('config/duly.php', "'grace' => 5", "'grace' => 5, 'memory' => null");
        self::assertSame('null', $this->app->evaluate($code));
    }

    /** @dataProvider limitsOfAProcess */
    public function testAProcessIsReplacedAtItsLimit(string $limit): void
    {
        $this->app->replace('app/job/Handled.php', '{$job->attempt} "', '{$job->attempt} " . getmypid() . " "');
        $this->start('duly:work', $limit);
        foreach ([1, 2, 3] as $order) {
            $this->queue->push(['order' => $order], name: 'order.named');
            $this->app->hear("handled {$order} ");
        }
        $pids = array_map(static fn (string $note): string => explode(' ', $note)[6], $this->app->notes());
        self::assertCount(3, array_unique($pids), implode("\n", $this->app->notes()));
    }

    /** @return list<list<string>> */
    public static function limitsOfAProcess(): array
    {
        return [['--max-jobs=1'], ['--memory=1']];
    }

    public function testTheOptionsOfTheWorkersReachThem(): void
    {
        $options = ['--prefetch=2', '--name=night', '--timeout=1', '--lease=20', '--grace=5', '--queue=default,other'];
        $hangs = '(static function (): string { while (true) { usleep(1000); } })()';
        $this->app->replace('app/job/Handled.php', "'closed'", $hangs);
        for ($order = 1; $order <= 5; $order++) {
            $this->queue->push(['order' => $order], name: 'order.named', maxRetries: 0);
        }
        $this->client->queue('other')->push(['order' => 6], name: 'order.named', maxRetries: 0);
        $this->start('duly:work', ...$options);
        $this->app->hear('handled 1 1');
        // One that runs, and what waits behind it.
        self::assertLessThanOrEqual(3, $this->queue->counts()->reserved);
        $worker = $this->queue->workers()[0];
        self::assertStringContainsString('night', $worker->name);
        // Each ends at the timeout of the worker, because it has none of its own.
        Server::until(fn (): bool => $this->queue->counts()->failed === 5, 'they are not in failed');
        self::assertStringContainsString('ran longer than its timeout', $this->queue->peek('failed')[0]->error);
        $other = $this->client->queue('other');
        Server::until(static fn (): bool => $other->counts()->failed === 1, 'the second queue is not served');
    }

    public function testWrongOptionsAreSaid(): void
    {
        $work = $this->start('duly:work', '--processes=none');
        self::assertSame(2, $work->end());
        self::assertStringContainsString("--processes must be 1 or more, not 'none'", $work->said());
    }
}
