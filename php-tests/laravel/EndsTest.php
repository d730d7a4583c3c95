<?php

declare(strict_types=1);

namespace Duly\Tests\Laravel;

use Duly\Tests\Server;

/** How runs end under Laravel's own worker: settled, failed, late, or with their process. */
final class EndsTest extends LaravelTestCase
{
    public function testAProcessThatAHandlerForksEndsWithoutAWord(): void
    {
        $this->does();
        $code = 'pcntl_fork() === 0 ? exit(0) : pcntl_wait($status); $job->delete();';
        $data = var_export(['n' => 1, 'code' => $code], true);
        $this->app->evaluate("\$queue->push('App\\Does', {$data});");
        $work = $this->start('duly');
        $this->untilAcked(1);
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
        self::assertSame('', $this->app->log());
        self::assertStringNotContainsString('forked', $work->said());
    }

    public function testAProcessThatComesBackFromAHandlerEnds(): void
    {
        $this->app->write('app/Forks.php', '<?php
            namespace App;
            class Forks
            {
                public function fire($job, array $data)
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
        $this->app->evaluate('$queue->push("App\Forks", []); $queue->push(new App\Close(1));');
        $this->start('duly');
        $this->app->hear('the child ended with 255');
        $this->app->hear('ran 1');
        $this->untilAcked(2);
    }

    public function testAProcessThatComesBackFromFailedEnds(): void
    {
        $this->app->write('app/Forks.php', '<?php
            namespace App;
            class Forks
            {
                public function fire($job, array $data)
                {
                    throw new \DomainException("no");
                }
                public function failed(array $data, \Throwable $error)
                {
                    $child = pcntl_fork();
                    if ($child === 0) {
                        return;
                    }
                    pcntl_waitpid($child, $status);
                    note("the child ended with " . pcntl_wexitstatus($status));
                }
            }
        ');
        $this->app->evaluate('$queue->push("App\Forks", []); $queue->push(new App\Close(1));');
        $work = $this->start('duly', '--tries=1');
        $this->app->hear('the child ended with 255');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
        self::assertSame(1, $this->queue->counts()->failed);
        self::assertCount(1, preg_grep('/^failed default/', $this->app->notes()) ?: []);
        self::assertStringContainsString('has forked ends: it came back', $work->said());
    }

    public function testAJobThatIsSettledBeforeItsHandlerThrowsHasNotFailed(): void
    {
        $this->does();
        $this->app->evaluate('
            foreach ([\'$job->reserved->ack();\', \'$job->release(3600);\', \'$job->delete();\'] as $n => $code) {
                $queue->push("App\\Does", ["n" => $n, "code" => "$code throw new \\DomainException(\'behind $n\');"]);
            }
            $queue->push(new App\Close(1));
        ');
        $this->start('duly', '--tries=1');
        $this->app->hear('ran 1');
        $this->untilAcked(3);
        $counts = $this->queue->counts();
        self::assertSame([0, 1, 0, 0], [$counts->ready, $counts->delayed, $counts->reserved, $counts->failed]);
        self::assertCount(0, preg_grep('/^failed/', $this->app->notes()) ?: [], implode("\n", $this->app->notes()));
        self::assertSame(3, preg_match_all('/DomainException: behind/', $this->app->log()), $this->app->log());
        self::assertStringNotContainsString('LeaseLost', $this->app->log());
    }

    public function testAJobWhoseFailedEndsTheProcessHasFailedAllTheSame(): void
    {
        $this->does();
        $this->app->evaluate('
            $code = "throw new \\DomainException(\'no\');";
            $queue->push("App\\Does", ["n" => 1, "code" => $code, "failed" => "exit(4);"]);
        ');
        self::assertSame(4, $this->start('duly', '--tries=1')->end());
        self::assertSame(1, $this->queue->counts()->failed);
        self::assertStringStartsWith('DomainException: no at ', $this->queue->peek('failed')[0]->error);
        self::assertSame(['run 1', 'failed 1'], $this->app->notes());
    }

    public function testWhatCannotBeStoredOfAFailureMakesItNoSuccess(): void
    {
        $this->does();
        $this->app->evaluate('
            $unreadable = \'throw new class extends \\Exception { protected $message = ["a"]; };\';
            // As Laravel does in an application.
            $strict = \'set_error_handler(fn ($level, $text) => throw new \\ErrorException($text));\';
            foreach (["{$strict} {$unreadable}", \'$job->release(4000000000);\'] as $n => $code) {
                $queue->push("App\\Does", ["n" => $n, "code" => $code]);
            }
            $queue->push(new App\Close(1));
        ');
        $this->start('duly', '--tries=1');
        $this->app->hear('ran 1');
        Server::until(fn (): bool => $this->queue->counts()->failed === 2, 'they are not in failed');
        $this->untilAcked(1);
        $errors = array_map(static fn ($job): string => $job->error, $this->queue->peek('failed'));
        sort($errors);
        self::assertStringContainsString('seconds must be', $errors[0]);
        self::assertStringStartsWith('Exception@anonymous', $errors[1]);
    }

    public function testAJobThatIsMarkedAsFailedIsInFailed(): void
    {
        $this->does();
        $this->app->evaluate('
            $marks = \'$job->markAsFailed();\';
            foreach (["", \'$job->delete();\', "throw new \\DomainException(\'marked\');"] as $n => $code) {
                $queue->push("App\\Does", ["n" => $n, "code" => "{$marks} {$code}"]);
            }
            $queue->push(new App\Close(1));
        ');
        $this->start('duly');
        $this->app->hear('ran 1');
        Server::until(fn (): bool => $this->queue->counts()->failed === 3, 'they are not in failed');
        $this->untilAcked(1);
    }

    /** @return iterable<string, array{string, int, int}> */
    public static function settled(): iterable
    {
        yield 'released' => ['$job->release(3600);', 1, 0];
        yield 'deleted' => ['$job->delete();', 0, 1];
        yield 'acked' => ['$job->reserved->ack();', 0, 1];
    }

    /** @dataProvider settled */
    public function testTheAlarmBehindWhatHasBecomeOfAJobIsNoFailure(string $code, int $delayed, int $acked): void
    {
        $this->does();
        $data = var_export(['n' => 1, 'code' => "{$code} while (true) { usleep(1000); }"], true);
        $this->app->evaluate("\$queue->push('App\\Does', {$data});");
        self::assertSame(-SIGKILL, $this->start('duly', '--tries=1', '--timeout=1')->end());
        self::assertSame(['run 1'], $this->app->notes());
        $counts = $this->queue->counts();
        self::assertSame([0, $delayed, 0, 0], [$counts->ready, $counts->delayed, $counts->reserved, $counts->failed]);
        self::assertSame($acked, $this->totals()['acked'] ?? 0);
        self::assertStringNotContainsString('LeaseLost', $this->app->log());
    }

    public function testAJobWhoseLeaseIsLostHasNotFailedWhateverItsHandlerThrows(): void
    {
        $this->does();
        $code = 'while (!is_file("runtime/lost")) { usleep(1000); } throw new \RuntimeException("late");';
        $data = var_export(['n' => 1, 'code' => $code], true);
        $this->app->evaluate("\$queue->push('App\\Does', {$data}); \$queue->push(new App\\Close(2));");
        $this->start('duly', '--tries=1');
        $this->app->hear('run 1');
        $this->queue->cancel($this->queue->peek('reserved')[0]->id);
        $until = microtime(true) + 2.0; // its lease is one second
        Server::until(static fn (): bool => microtime(true) > $until, '');
        $this->app->write('runtime/lost', '');
        $this->app->hear('ran 2');
        self::assertCount(0, preg_grep('/^failed/', $this->app->notes()) ?: []);
        self::assertStringContainsString('LeaseLost', $this->app->log());
    }

    public function testAJobThatIsFailedByItsHandlerBehindTheLossOfItsLeaseIsNoSuccess(): void
    {
        $this->app->write('app/Chained.php', '<?php
            namespace App;
            class Chained implements \Illuminate\Contracts\Queue\ShouldQueue
            {
                use \Illuminate\Queue\InteractsWithQueue;
                public function handle(): void
                {
                    note("run 1");
                    while (!is_file("runtime/lost")) {
                        usleep(1000);
                    }
                    $this->fail(new \DomainException("late"));
                }
                public function dispatchNextJobInChain(): void
                {
                    note("the next one of the chain");
                }
                public function failed(\Throwable $error): void
                {
                    note("failed 1");
                }
            }
        ');
        $this->app->evaluate('$queue->push(new App\Chained()); $queue->push(new App\Close(2));');
        $work = $this->start('duly', '--tries=3');
        $this->app->hear('run 1');
        $this->queue->cancel($this->queue->peek('reserved')[0]->id);
        $until = microtime(true) + 2.0; // its lease is one second
        Server::until(static fn (): bool => microtime(true) > $until, '');
        $this->app->write('runtime/lost', '');
        $this->app->hear('ran 2');
        self::assertSame('run 1', $this->app->notes()[0]);
        self::assertStringStartsWith('run 2', $this->app->notes()[1]);
        self::assertStringContainsString('LeaseLost', $this->app->log());
        self::assertTrue($work->isRunning());
    }

    /** @return iterable<string, array{string}> */
    public static function listeners(): iterable
    {
        yield 'ends the event' => ['false'];
        yield 'throws' => ['throw new \RuntimeException("mine")'];
    }

    /** @dataProvider listeners */
    public function testAListenerThatKeepsAnEventToItselfHidesNoError(string $does): void
    {
        $this->does();
        $event = 'Illuminate\Queue\Events\JobExceptionOccurred::class';
        $listens = "\$app['events']->listen({$event}, static fn () => {$does});\nreturn \$app;";
        $this->app->replace('boot.php', 'return $app;', $listens);
        $data = var_export(['n' => 1, 'code' => 'throw new \DomainException("no");'], true);
        $this->app->evaluate("\$queue->push('App\\Does', {$data});");
        $this->start('duly', '--tries=2', '--backoff=3600');
        Server::until(fn (): bool => $this->queue->counts()->delayed === 1, 'it does not wait');
        self::assertStringStartsWith('DomainException: no at ', $this->queue->peek('delayed')[0]->error);
    }

    public function testARunThatEndsByAFatalErrorLeavesMemoryToWhatFollows(): void
    {
        $this->app->write('app/Slow.php', '<?php
            namespace App;
            class Slow
            {
                public function fire($job, array $data)
                {
                    register_shutdown_function(fn () => note("shut down with " . strlen(str_repeat("x", 64 << 20))));
                    ini_set("memory_limit", "256M");
                    set_time_limit(1);
                    while (true) {
                    }
                }
            }
        ');
        $this->app->evaluate('$queue->push("App\Slow", []);');
        self::assertSame(255, $this->start('duly')->end());
        self::assertSame(['shut down with ' . (64 << 20)], $this->app->notes());
        self::assertStringContainsString('the process ended', $this->queue->peek('ready')[0]->error);
    }

    public function testAPermanentErrorIsOverWhenItsCauseIs(): void
    {
        $work = $this->startRefused('duly');
        $this->app->evaluate('$queue->push(new App\Close(1));');
        $this->app->hear('ran 1');
        self::assertTrue($work->isRunning());
        $work->kill();
        $this->server->close();
    }

    public function testALateOutcomeIsRefusedAndTheWorkerGoesOn(): void
    {
        $this->app->evaluate('$queue->push(new App\Close(1, ["sleep 1.5", "throw late"]));');
        $work = $this->start('duly');
        $this->app->hear('run 1');
        $this->queue->cancel($this->queue->peek('reserved')[0]->id);
        Server::until(fn (): bool => str_contains($this->app->log(), 'LeaseLost'), 'nothing is reported');
        $this->app->evaluate('$queue->push(new App\Close(2));');
        $this->app->hear('ran 2');
        self::assertTrue($work->isRunning());
        self::assertSame(0, $this->queue->counts()->failed);
    }

    public function testWhatIsNotConfirmedWhenTheProcessEndsIsSaid(): void
    {
        $this->useServerThatKeepsData();
        $this->does();
        $code = 'while (!is_file("runtime/stopped")) { usleep(1000); } exit(3);';
        $data = var_export(['n' => 1, 'code' => $code], true);
        $this->app->evaluate("\$queue->push('App\\Does', {$data});");
        $work = $this->start('duly');
        $this->app->hear('run 1');
        $this->server->kill();
        $this->app->write('runtime/stopped', '');
        self::assertSame(3, $work->end());
        self::assertStringContainsString('the server has not confirmed that', $work->said());
        $this->server->close();
    }
}
