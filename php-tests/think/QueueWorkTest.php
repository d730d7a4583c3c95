<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Client;
use Duly\Tests\Running;
use Duly\Tests\Server;

/** The connector under think-queue's own worker: `php think queue:work`. */
final class QueueWorkTest extends ThinkTestCase
{
    public function testHandlersThatAreThereRunAsBefore(): void
    {
        $said = $this->app->evaluate('
            use think\facade\Queue;
            $ids = [Queue::push("Close", ["order" => 1]), Queue::later(1, app\job\Close::class, ["order" => 2])];
            Queue::push(new app\job\Command(3));
            Queue::bulk(["close", "app\job\Close@fire"], ["order" => 4]);
            $ids[] = Queue::pushRaw(json_encode(["job" => "Close", "maxTries" => null, "data" => ["order" => 5]]));
            $ids[] = Queue::later((new DateTime())->modify("+1 second"), "Close", ["order" => 6]);
            $ids[] = Queue::laterOn("default", new DateInterval("PT1S"), "Close", ["order" => 7]);
            queue("Close", ["order" => 8]);
            echo Queue::size(), " ", count(array_unique(array_filter($ids)));
        ');
        self::assertSame('9 5', $said);
        // Such as a Python program.
        $this->queue->push(['order' => 9], name: 'order.named');
        $work = $this->start('queue:work');
        foreach ([1, 2, 4, 5, 6, 7, 8] as $order) {
            $this->app->hear("ran {$order} attempt 1");
        }
        $this->app->hear('handled 9 9 order.named attempt 1 duly');
        $this->app->hear('command 3 duly');
        $this->app->hear('ran 4 attempt 1', times: 2);
        Server::until(fn (): bool => ($this->totals()['acked'] ?? 0) === 10, 'they are not acked');
        self::assertSame('0', $this->app->evaluate('echo think\facade\Queue::size();'));
        self::assertStringContainsString('Processed:  Close', $work->said());
    }

    public function testADelayedJobIsNeverEarlyAndNotLate(): void
    {
        $this->start('queue:work', '--sleep=3');
        $this->app->evaluate('think\facade\Queue::push("Close", ["order" => 0]);');
        $this->app->hear('ran 0');
        $job = '{"job":"Close","maxTries":null,"timeout":null,"data":{"order":1}}';
        $at = microtime(true) + 1.2;
        $this->queue->push(raw: $job, name: 'Close', at: $at);
        $this->app->hear('ran 1');
        $late = microtime(true) - $at;
        self::assertGreaterThan(0.0, $late);
        self::assertLessThan(1.0, $late, 'it waits for the job, and not for its sleep of three seconds');
    }

    public function testAJobWhoseTimeoutIsNoNumberFailsAlone(): void
    {
        // As another program may push it.
        $this->queue->push(raw: '{"job":"Close","maxTries":3,"timeout":"soon","data":{"order":1}}', name: 'Close');
        $this->app->evaluate('
            use think\facade\Queue;
            $ago = new DateInterval("PT1S");
            $ago->invert = 1;
            Queue::later($ago, "Close", ["order" => 2, "do" => ["delete"]]);
        ');
        foreach (['queue:work', 'duly:work'] as $at => $command) {
            $work = $this->start($command);
            Server::until(fn (): bool => $this->queue->counts()->failed === $at + 1, 'it is not in failed');
            $at === 0 && $this->app->hear('ran 2');
            $work->signal(SIGTERM);
            self::assertSame(0, $work->end());
            $this->queue->push(raw: '{"job":"Close","maxTries":3,"timeout":[],"data":{"order":3}}', name: 'Close');
        }
        self::assertStringContainsString('is no number', $this->queue->peek('failed')[0]->error);
    }

    public function testAFractionOfASecondIsATimeout(): void
    {
        $job = '{"job":"Close","maxTries":1,"timeout":0.5,"data":{"order":1}}';
        foreach (['queue:work', 'duly:work'] as $at => $command) {
            $this->queue->push(raw: $job, name: 'Close');
            $work = $this->start($command);
            $this->untilAcked($at + 1);
            $work->signal(SIGTERM);
            self::assertSame(0, $work->end());
        }
    }

    public function testNumbersOfAConnectionMayBeText(): void
    {
        $text = "'lease' => '1', 'timeout' => '60', 'prefetch' => '2', 'block_for' => '0.1', 'retry_after' => '0.2'";
        $this->app->replace('config/queue.php', "'lease' => 1, 'retry_after' => 0.2", $text);
        $this->app->evaluate('think\facade\Queue::push("Close", ["order" => 1]);');
        $this->start('queue:work', '--timeout=0');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
    }

    public function testADelayThatIsOverIsNone(): void
    {
        $this->app->evaluate('
            use think\facade\Queue;
            $inverted = new DateInterval("PT5S");
            $inverted->invert = 1;
            foreach ([$inverted, DateInterval::createFromDateString("-5 seconds"), -5, "-5"] as $order => $delay) {
                Queue::later($delay, "Close", $order);
            }
            Queue::later(DateInterval::createFromDateString("1 hour -5 seconds"), "Close", 4);
        ');
        self::assertSame([4, 1, 0], $this->readyDelayedReserved());
    }

    public function testThinkQueueDecidesAboutRetries(): void
    {
        $this->app->evaluate('
            use think\facade\Queue;
            Queue::push("Close", ["order" => 1, "do" => ["throw-once not yet", "delete"]]);
            Queue::push("Close", ["order" => 2, "do" => ["release 0"]]);
            Queue::push("Close", ["order" => 3, "do" => ["throw no such order"]]);
            Queue::push("Close", ["order" => 4, "do" => ["nothing"]]);
            Queue::push("Close", ["order" => 5, "do" => ["delete", "throw after its end"]]);
        ');
        // What another program pushed has the retries that this says.
        $this->queue->push(['order' => 6, 'then' => 'fail'], name: 'order.named');
        $policy = \Duly\RetryPolicy::fixed(0.1);
        $this->queue->push(['order' => 7, 'then' => 'validate'], name: 'order.named', maxRetries: 1, retry: $policy);
        $this->start('queue:work', '--tries=2');
        $this->app->hear('ran 1 attempt 2');
        $this->app->hear('ran 2 attempt 2');
        $this->app->hear('failed 3 no such order');
        $this->app->hear('failed 4 Close has been attempted too many times');
        $this->app->hear('failed 6 there is no such order');
        $this->app->hear('failed 7');
        Server::until(fn (): bool => $this->queue->counts()->failed === 4, 'they are not in failed');
        self::assertSame(3, $this->totals()['acked']);
        $errors = [];
        foreach ($this->queue->peek('failed') as $job) {
            $errors[] = $job->error;
        }
        $all = implode("\n", $errors);
        self::assertStringContainsString('DomainException: no such order at ', $all);
        self::assertStringContainsString('MaxAttemptsExceededException', $all);
        self::assertStringContainsString('there is no such order', $all);
        self::assertStringContainsString('ValidateException', $all);
        self::assertCount(2, preg_grep('/^handled 7/', $this->app->notes()) ?: []);
        self::assertStringContainsString('neither deleted nor released it: it runs again in 0.2 s', $this->app->log());
        $count = 'echo count(app("queue.failer")->all());';
        self::assertSame('4', $this->app->evaluate($count));
    }

    public function testAHandlerThatSaysNothingMayMeanThatItIsDone(): void
    {
        $push = 'think\facade\Queue::connection("acks")->push("Close", ["order" => 1, "do" => ["nothing"]]);';
        $this->app->evaluate($push);
        $this->start('queue:work', 'acks');
        $this->app->hear('ran 1');
        $acks = $this->client->queue('acks');
        Server::until(static fn (): bool => ($acks->counts()->totals['acked'] ?? 0) === 1, 'it is not acked');
        self::assertStringContainsString('it counts as done', $this->app->log());
    }

    public function testALongJobRunsOnceBesideAnotherWorker(): void
    {
        $this->app->replace('config/queue.php', "'lease' => 1", "'lease' => 3");
        $this->start('queue:work');
        $this->start('queue:work');
        $this->app->evaluate('think\facade\Queue::push("Close", ["order" => 1, "do" => ["sleep 6", "delete"]]);');
        $this->app->hear('ran 1 attempt 1');
        self::assertCount(1, preg_grep('/^run 1/', $this->app->notes()) ?: [], 'its lease of 3 s is renewed');
        Server::until(fn (): bool => ($this->totals()['acked'] ?? 0) === 1, 'it is not acked');
    }

    public function testTheJobOfAKilledWorkerRunsAgain(): void
    {
        $this->app->evaluate('
            foreach (range(1, 5) as $order) {
                think\facade\Queue::push("Close", ["order" => $order, "do" => ["hang-once 60", "delete"]]);
            }
        ');
        $work = $this->start('queue:work');
        $this->app->hear('run 1 attempt 1');
        $work->signal(SIGKILL);
        $work->end();
        $this->app->replace('app/job/Close.php', "'hang-once' => ", "'hang-once' => true || ");
        $this->start('queue:work');
        foreach (range(1, 5) as $order) {
            $this->app->hear("ran {$order}");
        }
        Server::until(fn (): bool => ($this->totals()['acked'] ?? 0) === 5, 'they are not acked');
        self::assertSame(0, $this->queue->counts()->failed);
    }

    public function testAJobThatEndsItsProcessByExitCounts(): void
    {
        $this->app->evaluate('think\facade\Queue::push("Close", ["order" => 1, "do" => ["exit"]]);');
        foreach ([1, 2] as $attempt) {
            self::assertSame(3, $this->start('queue:work', '--tries=2')->end());
            $this->app->hear("run 1 attempt {$attempt}");
            self::assertSame('the process ended during its run', $this->queue->peek('ready')[0]->error);
        }
        $this->start('queue:work', '--tries=2');
        $this->app->hear('failed 1 Close has been attempted too many times');
    }

    public function testAJobThatHangsIsEndedByItsTimeoutAndCounts(): void
    {
        $this->app->evaluate('
            think\facade\Queue::push("Close", ["order" => 1, "do" => ["hang-once 60", "delete"]]);
        ');
        $work = $this->start('queue:work', '--timeout=1');
        $this->app->hear('run 1 attempt 1');
        $work->end();
        // By think-queue's alarm: duly's own decision would come five seconds later.
        self::assertSame([1, 0, 0], $this->readyDelayedReserved());
        self::assertSame('it ran longer than its timeout', $this->queue->peek('ready')[0]->error);
        $this->start('queue:work', '--timeout=1');
        $this->app->hear('ran 1 attempt 2');
    }

    /** @return list<int> */
    private function readyDelayedReserved(): array
    {
        $counts = $this->queue->counts();
        return [$counts->ready, $counts->delayed, $counts->reserved];
    }

    public function testAJobWithoutALimitRunsOnceHoweverLongThatTakes(): void
    {
        $job = ['job' => 'Close', 'maxTries' => null, 'timeout' => 0];
        $job['data'] = ['order' => 1, 'do' => ['sleep 2', 'delete']];
        $this->app->evaluate('think\facade\Queue::pushRaw(' . var_export(json_encode($job), true) . ');');
        self::assertSame(100 * 365 * 24 * 3600.0, $this->queue->peek('ready')[0]->timeout);
        $this->start('queue:work', '--timeout=1');
        $this->untilAcked(1);
        self::assertContains('ran 1 attempt 1', $this->app->notes());
    }

    public function testWithoutAnAlarmAJobRunsOnceHoweverLongThatTakes(): void
    {
        // As where PHP has no pcntl.
        $this->app->write('app/common.php', str_replace('<?php', '<?php
            namespace think\queue {
                function extension_loaded(string $name): bool { return $name !== "pcntl"; }
            }
            namespace Duly\Think {
                function extension_loaded(string $name): bool { return $name !== "pcntl"; }
            }
            namespace {', (string) file_get_contents($this->app->folder() . '/app/common.php')) . '}');
        $this->app->evaluate('think\facade\Queue::push("Close", ["order" => 1, "do" => ["sleep 2", "delete"]]);');
        $this->start('queue:work', '--timeout=1');
        $this->untilAcked(1);
        self::assertContains('ran 1 attempt 1', $this->app->notes());
    }

    public function testAWorkerThatAHandlerRunsLeavesItsJobAlone(): void
    {
        $this->app->write('app/job/Works.php', '<?php
            namespace app\job;
            class Works
            {
                public function fire($job, $data)
                {
                    note("works attempt " . $job->attempts());
                    \think\facade\Console::call("queue:work", ["--once"]);
                    $job->delete();
                }
            }
        ');
        $this->app->evaluate('
            foreach (["Works", "Close"] as $order => $job) {
                think\facade\Queue::push($job, ["order" => $order]);
            }
        ');
        $this->start('queue:work', '--tries=5');
        $this->untilAcked(2);
        self::assertSame(1, count(preg_grep('/^works/', $this->app->notes())));
        self::assertContains('ran 1 attempt 1', $this->app->notes());
        self::assertStringNotContainsString('neither deleted nor released', $this->app->log());
    }

    public function testAHandlerThatTakesAJobGetsOneOfTheQueueThatItAsksFor(): void
    {
        $this->app->write('app/job/Pops.php', '<?php
            namespace app\job;
            class Pops
            {
                public function fire($job, $data)
                {
                    $other = \think\facade\Queue::pop("other");
                    note("popped " . $other->getJobId() . " of " . $other->getQueue());
                    $other->delete();
                    \think\facade\Queue::pop("other") === null && $job->delete();
                }
            }
        ');
        $this->client->queue('other')->push(raw: '{"job":"Close","maxTries":null,"data":{"order":9}}', id: 'of-other');
        $this->app->evaluate('
            foreach (["Pops", "Close"] as $order => $job) {
                think\facade\Queue::push($job, ["order" => $order]);
            }
        ');
        $this->start('queue:work', '--tries=1');
        $this->app->hear('ran 1 attempt 1');
        $this->untilAcked(2);
        self::assertSame('popped of-other of other', $this->app->notes()[0]);
        self::assertSame(1, $this->client->queue('other')->counts()->totals['acked']);
        self::assertStringNotContainsString('neither deleted nor released', $this->app->log());
    }

    public function testAPermanentErrorIsOverWhenItsCauseIs(): void
    {
        $work = $this->startRefused('queue:work');
        $this->queue = (new Client($this->server->url(), $this->prefix))->queue('default');
        $this->queue->push(['order' => 1], name: 'order.named');
        $this->app->hear('handled 1');
        self::assertTrue($work->isRunning());
        $work->kill();
        $this->server->close();
    }

    public function testAProcessThatComesBackFromAHandlerEnds(): void
    {
        $this->app->write('app/job/Forks.php', '<?php
            namespace app\job;
            class Forks
            {
                public function fire($job, $data)
                {
                    $child = pcntl_fork();
                    if ($child === 0) {
                        return;
                    }
                    pcntl_waitpid($child, $status);
                    note("the child ended with " . pcntl_wexitstatus($status));
                    $job->delete();
                }
            }
        ');
        $this->app->evaluate('
            think\facade\Queue::push("Forks", 1);
            think\facade\Queue::push("Close", ["order" => 2]);
        ');
        $this->start('queue:work');
        $this->app->hear('the child ended with 255');
        $this->app->hear('ran 2 attempt 1');
        $this->untilAcked(2);
        self::assertStringContainsString('has forked ends: it came back', $this->app->log());
    }

    /** @dataProvider bothWorkers */
    public function testAProcessThatComesBackFromFailedEnds(string $command): void
    {
        $this->app->write('app/job/Forks.php', '<?php
            namespace app\job;
            use think\facade\Db;
            class Forks
            {
                public function fire($job, $data)
                {
                    throw new \DomainException("no");
                }
                public function failed($data, $error)
                {
                    Db::startTrans();
                    $child = pcntl_fork();
                    if ($child === 0) {
                        return;
                    }
                    pcntl_waitpid($child, $status);
                    note("the child ended with " . pcntl_wexitstatus($status));
                    Db::commit();
                }
            }
        ');
        $this->app->evaluate('
            think\facade\Queue::push("Forks", 1);
            think\facade\Queue::push("Close", ["order" => 2]);
        ');
        $work = $this->start($command, '--tries=1');
        $this->app->hear('the child ended with 255');
        $this->app->hear('ran 2 attempt 1');
        $this->untilAcked(1);
        self::assertSame(1, $this->queue->counts()->failed);
        self::assertSame('1', $this->app->evaluate('echo count(app("queue.failer")->all());'));
        self::assertStringContainsString('has forked ends: it came back', $this->app->log());
        self::assertStringNotContainsString('a transaction of the database', $this->app->log());
    }

    /** @return array<string, array{string}> */
    public static function bothWorkers(): array
    {
        return ["duly's" => ['duly:work'], "think-queue's" => ['queue:work']];
    }

    /** @dataProvider endsByMemory */
    public function testAJobThatUsesUpAllMemoryCounts(string $hook): void
    {
        $this->app->write('app/job/Fills.php', '<?php
            namespace app\job;
            class Fills
            {
                public static $all = [];
                public function fire($job, $data)
                {
                    note("fills");
                    ini_set("memory_limit", "48M");
                    ' . $hook . '
                    while (true) {
                        self::$all[] = str_repeat("x", 64);
                    }
                }
            }
        ');
        $this->app->evaluate('think\facade\Queue::push("Fills", 1);');
        $work = $this->start('queue:work');
        self::assertSame(255, $work->end());
        self::assertSame([1, 0, 0], $this->readyDelayedReserved());
        self::assertSame('the process ended during its run', $this->queue->peek('ready')[0]->error);
    }

    /** @return array<string, array{string}> */
    public static function endsByMemory(): array
    {
        return ['alone' => ['']];
    }

    public function testAnIdleWorkerOutlivesTheTimeoutOfItsLastJob(): void
    {
        $work = $this->start('queue:work', '--timeout=1');
        $this->app->evaluate('think\facade\Queue::push("Close", ["order" => 1]);');
        $this->app->hear('ran 1');
        $end = microtime(true) + 1.5;
        Server::until(static fn (): bool => microtime(true) > $end || !$work->isRunning(), '');
        self::assertTrue($work->isRunning());
    }

    public function testItWaitsOnAllItsQueuesAtOnce(): void
    {
        $this->start('queue:work', '--queue=first,second,third', '--sleep=3');
        $push = fn (string $queue, int $order) => $this->client->queue($queue)
            ->push(['order' => $order], name: 'order.named');
        $push('second', 0);
        $this->app->hear('handled 0');
        foreach (['third', 'first', 'second', 'third'] as $order => $queue) {
            $at = microtime(true);
            $push($queue, $order + 1);
            $this->app->hear('handled ' . $order + 1);
            self::assertLessThan(1.0, microtime(true) - $at, $queue);
        }
    }

    public function testASignalEndsAnIdleWorkerWithinHalfASecond(): void
    {
        $work = $this->start('queue:work', '--queue=first,second');
        $this->client->queue('second')->push(['order' => 0], name: 'order.named');
        $this->app->hear('handled 0');
        $at = microtime(true);
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
        self::assertLessThan(0.5 + 0.5, microtime(true) - $at, 'half a second, and its end on a busy machine');
        self::assertSame(0, $this->client->queue('second')->counts()->reserved);
    }

    public function testASignalLetsTheRunningJobFinish(): void
    {
        $work = $this->start('queue:work');
        $this->app->evaluate('
            think\facade\Queue::push("Close", ["order" => 1, "do" => ["sleep 1", "delete"]]);
            think\facade\Queue::push("Close", ["order" => 2]);
        ');
        $this->app->hear('run 1');
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
        self::assertContains('ran 1 attempt 1', $this->app->notes());
        $counts = $this->queue->counts();
        self::assertSame([0, 1, 1], [$counts->reserved, $counts->ready, $counts->totals['acked']]);
        self::assertSame(0, $this->queue->peek('ready')[0]->attempts, 'it was fetched ahead at most');
    }

    public function testARestartEndsAnIdleWorker(): void
    {
        $work = $this->start('queue:work');
        $this->queue->push(['order' => 0], name: 'order.named');
        $this->app->hear('handled 0');
        $this->app->run('queue:restart');
        self::assertSame(0, $work->end(3.0));
    }

    public function testTheServerMayBeAway(): void
    {
        $this->useServerThatKeepsData();
        $work = $this->start('queue:work');
        $this->queue->push(['order' => 1], name: 'order.named');
        $this->app->hear('handled 1');
        $this->queue->push(['order' => 2], name: 'order.named', delay: 1);
        $this->server->kill();
        Server::until(fn (): bool => str_contains($this->app->log(), 'redis.sock'), 'it is not in the log');
        $this->server->start();
        $this->app->hear('handled 2');
        Server::until(fn (): bool => ($this->totals()['acked'] ?? 0) === 2, 'they are not acked');
        self::assertTrue($work->isRunning());
        $work->kill();
        $this->server->close();
    }

    public function testOneJobAndNoOtherIsTakenIfOnlyOneIsAskedFor(): void
    {
        $this->app->evaluate('
            think\facade\Queue::push("Close", ["order" => 1]);
            think\facade\Queue::push("Close", ["order" => 2]);
        ');
        $this->app->run('queue:work', '--once');
        self::assertCount(2, $this->app->notes());
        $counts = $this->queue->counts();
        self::assertSame([1, 1, 0], [$counts->totals['acked'], $counts->ready, $counts->reserved]);
    }

    public function testAWorkerForOneJobServesTheQueuesThatItIsGiven(): void
    {
        $this->app->evaluate('
            use think\facade\{Console, Queue};
            foreach (["first", "second"] as $order => $queue) {
                Queue::push("Close", ["order" => $order], $queue);
            }
            foreach (["second", "first"] as $queue) {
                Console::call("queue:work", ["--once", "--queue", $queue]);
            }
        ');
        $ran = array_values(preg_grep('/^ran/', $this->app->notes()) ?: []);
        self::assertSame(['ran 1 attempt 1', 'ran 0 attempt 1'], $ran);
    }

    public function testTheNewestFailuresAreListedFirstAndOnlyFailuresAreForgotten(): void
    {
        foreach (['first', 'second', 'third'] as $id) {
            $this->queue->push(1, id: $id);
            $this->queue->reserve()->fail('no', final: true);
        }
        $listed = $this->app->run('duly:failed', '--limit=2');
        self::assertStringNotContainsString('first', $listed);
        self::assertLessThan(strpos($listed, 'second'), strpos($listed, 'third'));
        $this->queue->requeue('third');
        self::assertStringContainsString("no queue has 'third'", $this->app->run('duly:forget', 'third'));
        self::assertSame('ready', $this->queue->find('third')?->state);
    }

    public function testFailedJobsOfAConnectionWithAPrefixOfItsOwnAreFoundThere(): void
    {
        $apart = (new Client($this->server->url(), "{$this->prefix}apart:"))->queue('default');
        foreach (['here' => $this->queue, 'there' => $apart] as $id => $queue) {
            $queue->push(1, id: $id);
            $queue->reserve()->fail('no', final: true);
        }
        $listed = $this->app->run('duly:failed');
        self::assertStringContainsString('here', $listed);
        self::assertStringContainsString('default (apart)', $listed);
        self::assertStringContainsString("'there' runs again", $this->app->run('duly:retry', 'there'));
        self::assertSame('ready', $apart->find('there')?->state);
        self::assertStringContainsString("'here' is removed", $this->app->run('duly:forget', 'here'));
        self::assertSame(0, $this->queue->counts()->failed);
    }

    public function testFailedJobsRunAgainAsTheyWere(): void
    {
        $data = '{"order":1.0,"text":"a\/b","big":12345678901234567890,"do":["throw no"]}';
        $raw = '{"job":"Close","maxTries":1,"timeout":null,"data":' . $data . '}';
        $id = $this->queue->push(raw: $raw, name: 'Close');
        $this->start('queue:work');
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        self::assertStringContainsString($id, $this->app->run('duly:failed'));
        self::assertStringContainsString("'{$id}' runs again", $this->app->run('duly:retry', $id));
        $this->app->hear('failed 1', times: 2);
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        self::assertSame($raw, $this->queue->peek('failed')[0]->raw);
        self::assertSame(1, $this->queue->peek('failed')[0]->attempts);
        // think-queue's own command pushes a copy.
        $this->app->run('queue:retry', '1');
        Server::until(fn (): bool => $this->queue->counts()->failed === 2, 'the copy does not run');
        self::assertStringContainsString("'{$id}' is removed", $this->app->run('duly:forget', $id));
        self::assertStringContainsString("no queue has 'nobody'", $this->app->run('duly:forget', 'nobody'));
        self::assertStringContainsString('1 failed jobs run again', $this->app->run('duly:retry', 'all'));
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'the copy does not run');
        self::assertStringContainsString('1 failed jobs are removed', $this->app->run('duly:flush'));
        self::assertStringContainsString('no job has failed', $this->app->run('duly:failed'));
    }

    public function testBothWorkersMayServeOneQueue(): void
    {
        $this->app->evaluate('
            foreach (range(1, 50) as $order) {
                think\facade\Queue::push("Close", ["order" => $order, "do" => ["sleep 0.02", "delete"]]);
            }
        ');
        $this->start('queue:work');
        $this->start('duly:work');
        Server::until(fn (): bool => ($this->totals()['acked'] ?? 0) === 50, 'they are not acked');
        $runs = preg_grep('/^run /', $this->app->notes()) ?: [];
        $pids = array_map(static fn (string $note): string => explode(' ', $note)[5], $runs);
        self::assertCount(2, array_unique($pids));
        self::assertCount(50, $pids);
    }
}
