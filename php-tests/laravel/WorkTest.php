<?php

declare(strict_types=1);

namespace Duly\Tests\Laravel;

use Duly\Tests\Server;

/** The driver of `examples/drivers/laravel` under Laravel's own worker. */
final class WorkTest extends LaravelTestCase
{
    public function testJobsThatLaravelPushesRun(): void
    {
        $said = $this->app->evaluate('
            use App\{Close, Plain};
            $ids = [$queue->push(new Close(1)), $queue->later(1, new Close(2))];
            $ids[] = $queue->push(Plain::class, ["order" => 3]);
            $queue->bulk([new Close(4), (new Close(5))->delay(1)]);
            $ids[] = $queue->pushOn("default", new Close(6));
            $ids[] = $queue->laterOn("default", new DateInterval("PT1S"), new Close(7));
            $ids[] = $queue->later((new DateTime())->modify("+1 second"), new Close(8));
            $raw = json_encode(["job" => "App\\\\Plain", "data" => ["order" => 9]]);
            $ids[] = $queue->pushRaw($raw, null, ["key" => "k"]);
            echo $queue->size(), " ", $queue->pendingSize(), " ", $queue->delayedSize(), " ", $queue->reservedSize();
            echo " ", count(array_unique($ids)), " ";
            echo time() - $queue->creationTimeOfOldestPendingJob() < 60 ? "new" : "old";
        ');
        self::assertSame('9 5 4 0 7 new', $said);
        self::assertSame('App\Plain', $this->queue->find(key: 'k')?->name);
        $this->start('duly');
        foreach ([1, 2, 4, 5, 6, 7, 8] as $order) {
            $this->app->hear("ran {$order} attempt 1 duly");
        }
        $this->app->hear('plain 3 attempt 1');
        $this->app->hear('plain 9 attempt 1');
        $this->untilAcked(9);
    }

    public function testAQueueIsCleared(): void
    {
        $this->app->evaluate('
            $queue->push(new App\Close(1));
            $queue->later(60, new App\Close(2));
            note($queue->clear(null) . " cleared, " . $queue->size() . " left");
        ');
        self::assertContains('2 cleared, 0 left', $this->app->notes());
    }

    public function testADelayedJobIsNeverEarlyAndNotLate(): void
    {
        $this->start('duly');
        $this->app->evaluate('$queue->push(new App\Close(0));');
        $this->app->hear('ran 0');
        $at = microtime(true) + 1.2;
        $this->queue->push(raw: '{"job":"App\\\\Plain","data":{"order":1}}', at: $at);
        $this->app->hear('plain 1');
        $late = microtime(true) - $at;
        self::assertGreaterThan(0.0, $late);
        self::assertLessThan(0.9, $late, 'it waits for the job, and not for the second after which it asks again');
    }

    public function testLaravelDecidesAboutRetries(): void
    {
        $this->app->evaluate('
            use App\{Close, Plain};
            $queue->push(new Close(1, ["throw-once not yet"]));
            $queue->push(new Close(2, ["release 1"]));
            $queue->push(new Close(3, ["throw no such order"]));
            $queue->push(new Close(4, ["throw only once"], tries: 1));
            $queue->push(new Close(5, ["fail it is void"]));
            $queue->push(Plain::class, ["order" => 6, "deletes" => false]);
        ');
        $this->start('duly', '--tries=2', '--backoff=1');
        $this->app->hear('ran 1 attempt 2');
        $this->app->hear('ran 2 attempt 2');
        $this->app->hear('plain 6 attempt 2');
        foreach (['3 no such order', '4 only once', '5 it is void'] as $failed) {
            $this->app->hear("failed {$failed}");
        }
        Server::until(fn (): bool => $this->queue->counts()->failed === 3, 'they are not in failed');
        $this->untilAcked(3);
        $errors = [];
        foreach ($this->queue->peek('failed') as $job) {
            $errors[$job->attempts][] = strstr($job->error, ' at ', true);
        }
        sort($errors[1]);
        self::assertSame(['DomainException: it is void', 'DomainException: only once'], $errors[1]);
        self::assertSame(['DomainException: no such order'], $errors[2]);
        self::assertCount(2, preg_grep('/^run 3/', $this->app->notes()) ?: []);
        self::assertCount(1, preg_grep('/^failed default DomainException: no such order/', $this->app->notes()) ?: []);
    }

    public function testAFailedJobKeepsItsErrorAlsoWhileItWaitsForARetry(): void
    {
        $this->app->evaluate('$queue->push(new App\Close(1, ["throw not yet"]));');
        $this->start('duly', '--tries=5', '--backoff=3600');
        Server::until(fn (): bool => $this->queue->counts()->delayed === 1, 'it is not retried');
        self::assertStringStartsWith('DomainException: not yet at ', $this->queue->peek('delayed')[0]->error);
    }

    public function testAJobOfAKilledWorkerRunsAgain(): void
    {
        $this->app->evaluate('
            $queue->push(new App\Close(1, ["hang-once 60"], tries: 2));
            $queue->push(new App\Close(2));
        ');
        $first = $this->start('duly');
        $this->app->hear('run 1 attempt 1');
        $first->kill();
        $this->start('duly');
        $this->app->hear('ran 1');
        $this->app->hear('ran 2 attempt 1');
        $this->untilAcked(2);
    }

    public function testAJobWithOneTryDoesNotRunAgainAfterAKill(): void
    {
        $this->app->evaluate('$queue->push(new App\Close(1, ["hang-once 60"], tries: 1));');
        $first = $this->start('duly');
        $this->app->hear('run 1 attempt 1');
        $first->kill();
        $this->start('duly');
        // As with Laravel's own drivers: `failed` is called, which lets go of what the job holds for itself.
        $this->app->hear('failed 1 App\Close has been attempted too many times');
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        self::assertStringContainsString('MaxAttempts', $this->queue->peek('failed')[0]->error);
        self::assertCount(1, preg_grep('/^run 1/', $this->app->notes()) ?: []);
    }

    public function testAJobWithOneTryWhoseStartCannotBeNotedKeepsItsTry(): void
    {
        $this->useServerThatKeepsData();
        $this->app->replace('boot.php', "'lease' => 1", "'lease' => 30");
        putenv('DULY_DEADLINE=8'); // longer than that job may take
        $work = $this->start('duly');
        putenv('DULY_DEADLINE');
        // Of short jobs the next ones are fetched ahead; on a busy machine they may not be short enough.
        for ($slow = 1; $slow === 1 || $this->queue->counts()->reserved < 2; $slow += 2) {
            self::assertLessThan(20, $slow, 'it fetches nothing ahead');
            $next = $slow + 1;
            $this->app->evaluate("
                for (\$n = 100; \$n < 130; \$n++) {
                    \$queue->push(new App\\Close(\$n));
                }
                \$queue->push(new App\\Close({$slow}, ['sleep 2']));
                \$queue->push(new App\\Close({$next}, [], tries: 1, timeout: 1));
            ");
            $this->app->hear("run {$slow} attempt 1");
        }
        $this->server->kill();
        Server::until(fn (): bool => str_contains($this->app->log(), 'noteStart'), 'the start is noted', 30.0);
        $this->server->start();
        $this->app->hear("ran {$next} attempt 1");
        $work->kill();
        $this->server->close();
    }

    public function testAJobWithOneTryIsReleasedAllTheSame(): void
    {
        $this->app->evaluate('$queue->push(new App\Close(1, ["release 0"], tries: 1));');
        $this->start('duly');
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        self::assertCount(1, preg_grep('/^run 1/', $this->app->notes()) ?: []);
        self::assertStringContainsString('MaxAttempts', $this->queue->peek('failed')[0]->error);
    }

    public function testARunThatEndsItsProcessCounts(): void
    {
        $this->app->evaluate('$queue->push(new App\Close(1, ["exit-once"]));');
        self::assertSame(3, $this->start('duly', '--tries=2')->end());
        self::assertStringContainsString('the process ended', $this->queue->peek('ready')[0]->error);
        $this->start('duly', '--tries=2');
        $this->app->hear('ran 1 attempt 2');
    }

    public function testAJobThatLaravelHasNotPushedFailsAlone(): void
    {
        $this->queue->push('text', id: 'text', maxRetries: 1);
        $this->queue->push(['order' => 1], id: 'array', name: 'order.close');
        $this->queue->push(raw: '{"job":"App\\\\Plain","data":{"order":1}}');
        $this->start('duly', '--tries=0');
        $this->app->hear('plain 1');
        $this->untilAcked(1);
        foreach (['text', 'array'] as $id) {
            $job = $this->queue->find($id);
            self::assertSame('failed', $job?->state);
            self::assertStringContainsString('no payload of Laravel', $job->error);
        }
    }

    /** @return iterable<string, array{string}> */
    public static function timeouts(): iterable
    {
        yield 'text' => ['"soon"'];
        yield 'a list' => ['[60]'];
        yield 'a number that is too large' => ['1e30'];
    }

    /** @dataProvider timeouts */
    public function testAJobWhoseTimeoutIsNoNumberFailsAlone(string $timeout): void
    {
        $raw = '{"job":"App\\\\Plain","timeout":' . $timeout . ',"data":{"order":1}}';
        $this->queue->push(raw: $raw, id: 'wrong');
        $this->app->evaluate('
            $queue->pushRaw(' . var_export($raw, true) . ', null, ["id" => "pushed"]);
            $queue->push(App\Plain::class, ["order" => 2]);
        ');
        $work = $this->start('duly', '--tries=0');
        $this->app->hear('plain 2');
        $this->untilAcked(1);
        self::assertTrue($work->isRunning());
        foreach (['wrong', 'pushed'] as $id) {
            $job = $this->queue->find($id);
            self::assertSame('failed', $job?->state);
            self::assertStringContainsString('no payload of Laravel: its timeout is no number', $job->error);
        }
        self::assertSame(['plain 2 attempt 1'], array_values(preg_grep('/^plain/', $this->app->notes()) ?: []));
    }

    public function testDataThatPhpCannotDecodeFailsAlone(): void
    {
        $this->queue->push(raw: '{"job":"App\\\\Plain","data":{"order":1,"text":"\ud83d"}}', id: 'half', maxRetries: 9);
        $this->app->evaluate('$queue->push(App\Plain::class, ["order" => 2]);');
        $work = $this->start('duly', '--tries=0');
        $this->app->hear('plain 2');
        $this->untilAcked(1);
        self::assertTrue($work->isRunning());
        $job = $this->queue->find('half');
        self::assertSame(['failed', 1], [$job?->state, $job?->attempts]);
        self::assertStringContainsString('no payload of Laravel: PHP cannot decode the data', $job->error);
    }

    public function testADelayThatIsOverIsNone(): void
    {
        $said = $this->app->evaluate('
            $inverted = new DateInterval("PT5S");
            $inverted->invert = 1;
            $negative = DateInterval::createFromDateString("-5 seconds");
            foreach ([-5, -1.5, "-5", $inverted, $negative, new DateTime("-1 hour")] as $delay) {
                $queue->later($delay, App\Plain::class, ["order" => 1]);
                $queue->bulk([(new App\Close(2))->delay($delay)]);
            }
            $queue->later("60", App\Plain::class, ["order" => 3]);
            $queue->later(new DateInterval("PT60S"), App\Plain::class, ["order" => 4]);
            echo $queue->pendingSize(), " ", $queue->delayedSize();
        ');
        self::assertSame('12 2', $said);
    }

    public function testAJobThatTakesLongerThanItsLeaseRunsOnce(): void
    {
        $this->app->evaluate('$queue->push(new App\Close(1, ["sleep 2.5"]));');
        $this->start('duly');
        $this->start('duly');
        $this->app->hear('ran 1 attempt 1');
        $this->untilAcked(1);
        self::assertCount(1, preg_grep('/^run 1/', $this->app->notes()) ?: []);
    }

    public function testATimeoutEndsTheWorkerAndTheRunCounts(): void
    {
        $this->app->evaluate('$queue->push(new App\Close(1, ["hang-once 60"]));');
        $work = $this->start('duly', '--timeout=1', '--tries=2');
        self::assertSame(-SIGKILL, $work->end());
        // Before its lease would have ended, which nobody renews any more.
        self::assertSame([1, 0], [$this->queue->counts()->ready, $this->queue->counts()->reserved]);
        self::assertSame('the worker was ended during its run', $this->queue->peek('ready')[0]->error);
        $this->start('duly', '--timeout=1', '--tries=2');
        $this->app->hear('ran 1 attempt 2');
        $this->untilAcked(1);
    }

    public function testATimeoutOfTheLastTryFailsTheJob(): void
    {
        $this->app->evaluate('$queue->push(new App\Close(1, ["hang-once 60"]));');
        self::assertSame(-SIGKILL, $this->start('duly', '--timeout=1', '--tries=1')->end());
        $this->app->hear('failed 1');
        self::assertSame(1, $this->queue->counts()->failed);
        self::assertMatchesRegularExpression('/TimeoutExceeded|MaxAttempts/', $this->queue->peek('failed')[0]->error);
    }

    public function testAJobWithoutALimitHasNone(): void
    {
        $raw = ['job' => 'App\\Plain', 'timeout' => 0, 'data' => ['order' => 1]];
        $this->app->evaluate('$queue->pushRaw(' . var_export(json_encode($raw), true) . ');');
        self::assertSame(100 * 365 * 24 * 3600.0, $this->queue->peek('ready')[0]->timeout);
    }

    public function testABulkWaitsForTheCommitToo(): void
    {
        $said = $this->app->evaluate('
            $app->singleton("db.transactions", fn () => new Illuminate\Database\DatabaseTransactionsManager());
            $transactions = $app["db.transactions"];
            $late = $app["queue"]->connection("late");
            $transactions->begin("shop", 1);
            $late->bulk([new App\Close(1), (new App\Close(2))->delay(60)]);
            $queue->bulk([(new App\Close(3))->afterCommit(), new App\Close(4)]);
            echo $queue->pendingSize(), $queue->delayedSize();
            $transactions->rollback("shop", 0);
            echo $queue->size();
            $transactions->begin("shop", 1);
            $late->bulk([new App\Close(5), (new App\Close(6))->delay(60)]);
            $transactions->commit("shop", 1, 0);
            echo $queue->pendingSize(), $queue->delayedSize();
        ');
        self::assertSame('10' . '1' . '21', $said);
    }

    public function testAWorkerThatAHandlerRunsLeavesItsJobAlone(): void
    {
        $this->app->write('app/Works.php', '<?php
            namespace App;
            class Works
            {
                public function fire($job, array $data)
                {
                    note("works attempt {$job->attempts()}");
                    $worker = array_column(debug_backtrace(), "object");
                    $is = static fn ($object) => $object instanceof \Illuminate\Queue\Worker;
                    [$worker] = array_values(array_filter($worker, $is));
                    $worker->runNextJob("duly", "default", new \Illuminate\Queue\WorkerOptions());
                    $job->delete();
                }
            }
        ');
        $this->app->evaluate('$queue->push("App\Works", []); $queue->push(App\Plain::class, ["order" => 2]);');
        $this->start('duly');
        $this->untilAcked(2);
        self::assertSame(['works attempt 1', 'plain 2 attempt 1'], $this->app->notes());
    }

    /** @return iterable<string, array{string}> */
    public static function connections(): iterable
    {
        yield 'the same connection' => ['duly'];
        yield 'another one of duly' => ['late'];
        yield 'one of another driver' => ['redis'];
    }

    /** @dataProvider connections */
    public function testAWorkerThatAHandlerRunsUntilItsQueueIsEmptyLeavesItsJobAlone(string $connection): void
    {
        $this->app->write('app/Empties.php', '<?php
            namespace App;
            use Illuminate\Container\Container;
            use Illuminate\Queue\{Worker, WorkerOptions};
            class Empties
            {
                public function fire($job, array $data)
                {
                    note("empties attempt {$job->attempts()}");
                    $app = Container::getInstance();
                    $handler = $app[\Illuminate\Contracts\Debug\ExceptionHandler::class];
                    $worker = new Worker($app["queue"], $app["events"], $handler, static fn (): bool => false);
                    [$options, $options->stopWhenEmpty, $options->sleep] = [new WorkerOptions(), true, 0];
                    $status = $worker->daemon($data["connection"], "other", $options);
                    $state = $job->reserved->queue->find($job->getJobId())?->state;
                    note("the worker ended with {$status}, the job is {$state}");
                    $job->delete();
                }
            }
        ');
        $this->app->evaluate("
            \$app['queue']->connection('{$connection}')->push(App\Plain::class, ['order' => 1], 'other');
            \$queue->push('App\Empties', ['connection' => '{$connection}']);
            \$queue->push(App\Plain::class, ['order' => 2]);
        ");
        $this->start('duly', '--tries=3');
        $this->untilAcked(2);
        $notes = ['empties attempt 1', 'plain 1 attempt 1', 'the worker ended with 0, the job is reserved'];
        self::assertSame([...$notes, 'plain 2 attempt 1'], $this->app->notes());
    }

    public function testAWorkerThatFailedRunsLeavesItsJobAlone(): void
    {
        $this->app->write('app/Cleans.php', '<?php
            namespace App;
            class Cleans
            {
                public function fire($job, array $data)
                {
                    note("cleans attempt {$job->attempts()}");
                    throw new \DomainException("no such order");
                }

                public function failed(array $data, \Throwable $error)
                {
                    $worker = array_column(debug_backtrace(), "object");
                    $is = static fn ($object) => $object instanceof \Illuminate\Queue\Worker;
                    [$worker] = array_values(array_filter($worker, $is));
                    $worker->runNextJob("duly", "other", new \Illuminate\Queue\WorkerOptions());
                    note("cleaned {$error->getMessage()}");
                }
            }
        ');
        $this->app->evaluate('
            $queue->push(App\Plain::class, ["order" => 1], "other");
            $queue->push("App\Cleans", []);
            $queue->push(App\Plain::class, ["order" => 2]);
        ');
        $this->start('duly');
        $this->untilAcked(1);
        $notes = ['cleans attempt 1', 'plain 1 attempt 1', 'cleaned no such order'];
        $notes[] = 'failed default DomainException: no such order';
        self::assertSame([...$notes, 'plain 2 attempt 1'], $this->app->notes());
        self::assertStringStartsWith('DomainException: no such order', $this->queue->peek('failed')[0]->error);
    }

    public function testAHandlerThatTakesAJobGetsOneOfTheQueueThatItAsksFor(): void
    {
        $this->app->write('app/Pops.php', '<?php
            namespace App;
            class Pops
            {
                public function fire($job, array $data)
                {
                    global $app;
                    $queue = \Illuminate\Container\Container::getInstance()["queue"]->connection();
                    $other = $queue->pop("other");
                    note("popped {$other->getJobId()} of {$other->getQueue()}");
                    $other->delete();
                    $queue->pop("other") === null && $job->delete();
                }
            }
        ');
        $this->client->queue('other')->push(raw: '{"job":"App\\\\Plain","data":{"order":9}}', id: 'of-other');
        $this->app->evaluate('$queue->push("App\Pops", []); $queue->push(new App\Close(1));');
        $this->start('duly');
        $this->app->hear('ran 1');
        $this->untilAcked(2);
        self::assertSame('popped of-other of other', $this->app->notes()[0]);
        self::assertSame(1, $this->client->queue('other')->counts()->totals['acked']);
    }

    public function testNumbersMayBeText(): void
    {
        $this->does();
        $this->app->replace('boot.php', "['lease' => 1, 'retry_after' => 0.2]", "[
            'lease' => '1', 'retry_after' => '3600', 'block_for' => '0.5', 'timeout' => '60', 'prefetch' => '2',
        ]");
        $this->app->evaluate('
            foreach (["\$job->release(\'3600\');", ""] as $n => $code) {
                $queue->push("App\\Does", ["n" => $n, "code" => $code]);
            }
            $queue->push(new App\Close(1));
        ');
        $this->start('duly', '--tries=3');
        $this->app->hear('ran 1');
        Server::until(fn (): bool => $this->queue->counts()->delayed === 2, 'they do not wait');
        self::assertSame('', $this->app->log());
        foreach ($this->queue->peek('delayed') as $job) {
            self::assertGreaterThan(microtime(true) + 3000, $job->at);
        }
    }

    public function testAServerThatComesBackIsUsedAgain(): void
    {
        $this->useServerThatKeepsData();
        $this->app->evaluate('$queue->push(new App\Close(1));');
        $work = $this->start('duly');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
        $this->app->evaluate('$queue->later(1, new App\Close(2, ["sleep 1"]));');
        $this->server->kill();
        $work->hear('redis.sock');
        $this->server->start();
        $this->app->hear('ran 2');
        $this->untilAcked(2);
        self::assertTrue($work->isRunning());
        $work->kill();
        $this->server->close();
    }

    public function testSigtermEndsAnIdleWorkerSoonAndABusyOneBehindItsJob(): void
    {
        $work = $this->start('duly');
        $this->app->evaluate('$queue->push(new App\Close(0));');
        $this->app->hear('ran 0');
        $this->untilAcked(1);
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end(10.0));
        $this->app->evaluate('$queue->push(new App\Close(1, ["sleep 1"])); $queue->push(new App\Close(2));');
        $work = $this->start('duly');
        $this->app->hear('run 1');
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end(10.0));
        self::assertSame(2, $this->totals()['acked']);
        $counts = $this->queue->counts();
        self::assertSame([1, 0], [$counts->ready, $counts->reserved]);
        self::assertSame(0, $this->queue->peek('ready')[0]->attempts);
    }

    public function testTheFirstQueueGoesFirstAndTheOthersAreWaitedFor(): void
    {
        $this->app->evaluate('
            $queue->pushOn("low", new App\Close(3));
            $queue->pushOn("high", new App\Close(1));
            $queue->pushOn("high", new App\Close(2));
        ');
        $this->start('duly', '--queue=high,low');
        $this->app->hear('ran 3');
        self::assertSame([1, 2, 3], array_map(
            static fn (string $line): int => (int) explode(' ', $line)[1],
            array_values(preg_grep('/^run/', $this->app->notes()) ?: []),
        ));
        $this->client->queue('low')->push(raw: '{"job":"App\\\\Plain","data":{"order":4}}');
        $this->app->hear('plain 4');
    }
}
