<?php

declare(strict_types=1);

namespace Duly\Tests\Symfony;

use Duly\Tests\Server;

/** The transport of `examples/drivers/messenger` under Symfony's own `messenger:consume`. */
final class ConsumeTest extends SymfonyTestCase
{
    public function testMessagesThatAreDispatchedAreHandled(): void
    {
        $said = $this->app->evaluate('
            use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
            $app->dispatch(new Close(1));
            $id = $app->dispatch(new Close(2), delayMs: 1000)->last(TransportMessageIdStamp::class)->getId();
            echo $app->transport("orders")->getMessageCount(), " ", $id;
        ');
        [$count, $id] = explode(' ', $said);
        self::assertSame('2', $count);
        $job = $this->queue->find($id);
        self::assertSame(['App\Close', 'delayed'], [$job?->name, $job?->state]);
        $this->consume('orders');
        $this->app->hear('ran 1');
        $this->app->hear('ran 2');
        $this->untilAcked(2);
        self::assertSame('0', $this->app->evaluate('echo $app->transport("orders")->getMessageCount();'));
    }

    public function testADelayedMessageIsNeverEarlyAndNotLate(): void
    {
        $this->consume('orders');
        $this->app->evaluate('$app->dispatch(new Close(0));');
        $this->app->hear('ran 0');
        $this->untilAcked(1);
        $data = $this->app->evaluate('
            use Symfony\Component\Messenger\{Envelope, Transport\Serialization\PhpSerializer};
            echo json_encode((new PhpSerializer())->encode(new Envelope(new Close(1))));
        ');
        $at = microtime(true) + 1.2;
        $this->queue->push(raw: $data, at: $at);
        $this->app->hear('run 1');
        $late = microtime(true) - $at;
        self::assertGreaterThan(0.0, $late);
        self::assertLessThan(0.9, $late, 'it waits for the message, and not for the second of its sleep');
    }

    public function testMessengerDecidesAboutRetries(): void
    {
        $this->app->evaluate('
            $app->dispatch(new Close(1, ["throw-once not yet"]));
            $app->dispatch(new Close(2, ["throw no such order"]));
            $app->dispatch(new Close(3, ["fail it is void"]));
        ');
        $this->consume('orders');
        $this->app->hear('ran 1');
        $failed = $this->client->queue('failed');
        Server::until(static fn (): bool => $failed->counts()->ready === 2, 'they are not in the failure transport');
        // Each retry is a message of its own.
        $this->untilAcked(2 + 3 + 1);
        self::assertCount(3, preg_grep('/^run 2/', $this->app->notes()) ?: []);
        self::assertCount(1, preg_grep('/^run 3/', $this->app->notes()) ?: []);
        self::assertSame(0, $this->queue->counts()->failed);
    }

    public function testWhatMessengerGivesUpWithoutAFailureTransportIsKeptAsFailed(): void
    {
        $this->app->evaluate('$app->send(new Close(1, ["throw no such order"]), "kept");');
        $this->consume('kept');
        $kept = $this->client->queue('kept');
        Server::until(static fn (): bool => $kept->counts()->failed === 1, 'it is not in failed');
        self::assertSame('DomainException: no such order', $kept->peek('failed')[0]->error);
    }

    public function testWhatIsNoMessageIsKeptAsFailed(): void
    {
        $noEnvelope = base64_encode(serialize(5));
        $wrong = [['body' => 'no message'], 'no object', ['body' => ['a' => 1]], ['body' => $noEnvelope]];
        foreach ($wrong as $at => $data) {
            $this->queue->push($data, maxRetries: 3);
            $work = $this->consume('orders');
            Server::until(fn (): bool => $this->queue->counts()->failed === $at + 1, 'it is not in failed');
            $error = $this->queue->peek('failed')[$at]->error;
            self::assertStringContainsString('MessageDecodingFailedException', $error);
            self::assertNotSame(0, $work->end());
        }
    }

    public function testAMessageOfAKilledWorkerIsHandledAgain(): void
    {
        $this->app->evaluate('$app->dispatch(new Close(1, ["hang-once 60"])); $app->dispatch(new Close(2));');
        $first = $this->consume('orders');
        $this->app->hear('run 1');
        $first->kill();
        $this->consume('orders');
        $this->app->hear('ran 1');
        $this->app->hear('ran 2');
        $this->untilAcked(2);
    }

    public function testARetryThatWasSentBeforeAKillIsSentOnce(): void
    {
        $this->app->evaluate('$app->dispatch(new Close(1, ["throw-once x"]));');
        $this->app->evaluate('
            use Symfony\Component\Messenger\Stamp\{DelayStamp, RedeliveryStamp};
            [$envelope] = $app->transport("orders")->get();
            $retry = $envelope->with(new RedeliveryStamp(1), new DelayStamp(3600000));
            $app->transport("orders")->send($retry);
            posix_kill(posix_getpid(), SIGKILL); // before it is rejected
        ');
        $this->consume('orders');
        $this->app->hear('run 1');
        $this->untilAcked(1);
        self::assertSame([0, 1, 0], [
            $this->queue->counts()->ready, $this->queue->counts()->delayed, $this->queue->counts()->reserved,
        ]);
    }

    /** @return iterable<string, array{string, int}> */
    public static function ends(): iterable
    {
        // Its own word: each of four runs counts. By a signal nobody knows who was it in the first one.
        yield 'exit' => ['exit', 4];
        yield 'SIGKILL' => ['die', 5];
    }

    /** @dataProvider ends */
    public function testAMessageThatEndsItsProcessDoesNotDoSoForEver(string $step, int $runs): void
    {
        $this->app->evaluate("\$app->dispatch(new Close(1, ['{$step}']));");
        for ($run = 1; $run <= $runs; $run++) {
            $work = $this->consume('orders');
            $this->app->hear('run 1', times: $run);
            $work->end();
        }
        $this->consume('orders');
        Server::until(fn (): bool => $this->queue->counts()->failed === 1, 'it is not in failed');
        self::assertCount($runs, preg_grep('/^run 1/', $this->app->notes()) ?: []);
    }

    public function testAMessageThatTakesLongerThanItsLeaseIsHandledOnce(): void
    {
        $this->app->evaluate('$app->dispatch(new Close(1, ["sleep 2.5"]));');
        $this->consume('orders');
        $this->consume('orders');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
        self::assertCount(1, preg_grep('/^run 1/', $this->app->notes()) ?: []);
    }

    public function testBehindItsTimeoutOthersHandleAMessageAndALateWordIsRefused(): void
    {
        $this->app->evaluate('$app->send(new Close(1, ["hang-once 3"]), "timed");');
        $first = $this->consume('timed');
        $this->app->hear('run 1');
        $this->consume('timed');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
        $this->app->hear('ran 1', times: 2);
        Server::until(fn (): bool => str_contains($this->app->log(), 'its time is over'), 'it is not in the log');
        self::assertTrue($first->isRunning());
        self::assertSame(1, $this->totals()['acked']);
    }

    /** @return iterable<string, array{string}> */
    public static function lateThrows(): iterable
    {
        yield 'that would be retried' => ['throw late'];
        yield 'that would go to the failure transport' => ['fail late'];
    }

    /** @dataProvider lateThrows */
    public function testAMessageThatWasCancelledIsSentNowhere(string $step): void
    {
        $steps = "['hang-once 2', '{$step}']";
        $this->app->evaluate("\$app->dispatch(new Close(1, {$steps})); \$app->dispatch(new Close(2));");
        $work = $this->consume('orders');
        $this->app->hear('run 1');
        $this->queue->cancel($this->queue->peek('reserved')[0]->id);
        $this->app->hear('ran 2');
        $this->untilAcked(1);
        $counts = $this->queue->counts();
        self::assertSame([0, 0, 0, 0], [$counts->ready, $counts->delayed, $counts->reserved, $counts->failed]);
        self::assertSame(0, $this->client->queue('failed')->counts()->ready);
        self::assertCount(1, preg_grep('/^run 1/', $this->app->notes()) ?: []);
        self::assertStringContainsString('is not sent again', $this->app->log());
        self::assertTrue($work->isRunning());
    }

    public function testAMessageWhoseTimeIsOverIsNotSentAgain(): void
    {
        $orders = "\$make('orders', 'default'";
        $this->app->replace('src/Kernel.php', "{$orders})", "{$orders}, ['timeout' => 1])");
        $this->app->evaluate('$app->dispatch(new Close(1, ["hang-once 2", "throw-once late"]));');
        $this->consume('orders');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
        // The retry would be a message of its own.
        self::assertStringContainsString('is not sent again', $this->app->log());
        $counts = $this->queue->counts();
        self::assertSame([0, 0, 0, 0], [$counts->ready, $counts->delayed, $counts->reserved, $counts->failed]);
        self::assertCount(2, preg_grep('/^run 1/', $this->app->notes()) ?: []);
    }

    public function testAnIdleTransportDelaysNoMessageOfAnother(): void
    {
        // One whose wait is an hour; and another idle one before it.
        self::assertSame('0 1 0 0 1', $this->app->evaluate('
            $app->dispatch(new Close(1));
            $app->dispatch(new Close(2));
            foreach (["kept", "orders", "kept", "patient", "orders"] as $name) {
                $envelopes = $app->transport($name)->get();
                $found[] = count($envelopes);
                array_map($app->transport($name)->ack(...), $envelopes);
            }
            echo implode(" ", $found);
        '));
    }

    public function testAnIdleTransportDelaysNoMessageOfAnotherKind(): void
    {
        $this->app->evaluate('$app->send(new Close(1), "redis"); $app->send(new Close(2), "redis");');
        // The idle one would wait for an hour.
        $work = $this->consume('patient', 'redis');
        $this->app->hear('ran 1');
        $this->app->hear('ran 2');
        self::assertTrue($work->isRunning());
    }

    public function testTheLastTransportWaitsForMessages(): void
    {
        $this->app->evaluate('$app->send(new Close(1), "redis");');
        $work = $this->consume('redis', 'kept', 'patient', '--sleep=3600');
        $this->app->hear('ran 1');
        $this->app->evaluate('$app->send(new Close(2), "patient");');
        $this->app->hear('ran 2');
        self::assertTrue($work->isRunning());
    }

    public function testAPermanentErrorIsOverWhenItsCauseIs(): void
    {
        $this->server = new Server();
        $this->server->command('CONFIG', 'SET', 'requirepass', 'secret');
        $this->app->moveTo($this->server);
        $said = $this->app->evaluate('
            $transport = $app->transport("orders");
            try {
                $transport->get();
            } catch (Symfony\Component\Messenger\Exception\TransportException $error) {
                echo get_class($error->getPrevious()), " ";
            }
            $redis = new Redis();
            $redis->connect(' . var_export(substr($this->server->url(), strlen('unix://')), true) . ');
            $redis->auth("secret");
            $redis->config("SET", "requirepass", "");
            $app->dispatch(new Close(1));
            echo count($transport->get());
        ');
        self::assertStringEndsWith(' 1', $said);
        $this->server->close();
    }

    public function testNumbersMayBeText(): void
    {
        $options = "'lease' => '2', 'timeout' => '60', 'prefetch' => '2', 'concurrency' => '2', 'wait' => '0.5', ";
        $options .= "'max_lost_runs' => '5'";
        $this->app->replace('src/Kernel.php', "'default', ['lease' => 2]", "'default', [{$options}]");
        $this->app->evaluate('$app->send(new Close(1), "kills");');
        self::assertSame(5, $this->queue->peek('ready')[0]->maxRetries);
        $this->consume('kills');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
    }

    public function testABatchHandlerGetsManyMessagesAtOnce(): void
    {
        $this->app->evaluate('foreach (range(1, 25) as $number) { $app->send(new Line($number), "batches"); }');
        $this->consume('batches');
        $this->app->hear('batch of 5');
        $batches = $this->client->queue('batches');
        Server::until(static fn (): bool => ($batches->counts()->totals['acked'] ?? 0) === 25, 'they are not acked');
        self::assertSame(['batch of 10', 'batch of 10', 'batch of 5'], $this->app->notes());
    }

    public function testARunThatEndsByAFatalErrorLeavesMemoryToWhatFollows(): void
    {
        $this->app->replace('src/CloseHandler.php', 'exit(3)', '(static function (): void {
            register_shutdown_function(fn () => note("shut down with " . strlen(str_repeat("x", 64 << 20))));
            ini_set("memory_limit", "256M");
            set_time_limit(1);
            while (true) {
            }
        })()');
        $this->app->evaluate('$app->dispatch(new Close(1, ["exit"]));');
        self::assertSame(255, $this->consume('orders')->end());
        self::assertContains('shut down with ' . (64 << 20), $this->app->notes());
        $counts = $this->queue->counts();
        self::assertSame([0, 1], [$counts->reserved, $counts->ready + $counts->delayed]);
    }

    public function testAServerThatComesBackIsUsedAgain(): void
    {
        $this->useServerThatKeepsData();
        $this->app->evaluate('$app->dispatch(new Close(1));');
        $work = $this->consume('orders');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
        $this->app->evaluate('$app->dispatch(new Close(2, ["sleep 1"]), delayMs: 1000);');
        $this->server->kill();
        Server::until(fn (): bool => str_contains($this->app->log(), 'redis.sock'), 'it is not in the log');
        $this->server->start();
        $this->app->hear('ran 2');
        $this->untilAcked(2);
        self::assertTrue($work->isRunning());
        $work->kill();
        $this->server->close();
    }

    public function testWhatIsNotConfirmedWhenTheProcessEndsIsInTheLog(): void
    {
        $this->useServerThatKeepsData();
        $this->app->replace('src/CloseHandler.php', "exit(3)", '(static function (): void {
            while (!is_file("runtime/stopped")) {
                usleep(1000);
            }
            exit(3);
        })()');
        $this->app->evaluate('$app->dispatch(new Close(1, ["exit"]));');
        $work = $this->consume('orders');
        $this->app->hear('run 1');
        $this->server->kill();
        $this->app->write('runtime/stopped', '');
        self::assertSame(3, $work->end(60.0));
        self::assertStringContainsString('the server has not confirmed that', $this->app->log());
        $this->server->close();
    }

    public function testAProcessThatAHandlerForksEndsWithoutAWord(): void
    {
        $this->app->evaluate('$app->dispatch(new Close(1, ["fork"]));');
        $work = $this->consume('orders');
        $this->app->hear('ran 1');
        $this->untilAcked(1);
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
        self::assertStringNotContainsString('forked', $this->app->log() . $work->said());
    }

    /** @return iterable<string, array{string, string}> */
    public static function forks(): iterable
    {
        yield 'it comes back' => ['orders', 'fork return'];
        yield 'it throws, and is to be retried' => ['orders', 'fork throw'];
        yield 'it throws for the last time' => ['kept', 'fork throw'];
        yield 'it goes to the failure transport' => ['orders', 'fork fail'];
    }

    /** @dataProvider forks */
    public function testAProcessThatComesBackFromAHandlerEndsAndTheMessageIsItsParents(string $on, string $step): void
    {
        $this->app->evaluate("\$app->send(new Close(1, ['{$step}']), '{$on}');");
        $work = $this->consume($on);
        $this->app->hear('the child ended with 255');
        $this->app->hear('ran 1');
        $queue = $this->client->queue($on === 'orders' ? 'default' : $on);
        Server::until(static fn (): bool => ($queue->counts()->totals['acked'] ?? 0) === 1, 'it is not acked');
        $counts = $queue->counts();
        $left = [$counts->ready, $counts->delayed, $counts->reserved, $counts->failed];
        self::assertSame([0, 0, 0, 0], $left);
        self::assertSame(0, $this->client->queue('failed')->counts()->ready);
        self::assertTrue($work->isRunning());
        self::assertSame(1, substr_count($this->app->log(), 'has forked ends'), $this->app->log());
    }

    public function testSigtermEndsAnIdleWorkerSoonAndABusyOneBehindItsMessage(): void
    {
        $work = $this->consume('orders');
        $this->app->evaluate('$app->dispatch(new Close(0));');
        $this->app->hear('ran 0');
        $this->untilAcked(1);
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end(10.0));
        $this->app->evaluate('$app->dispatch(new Close(1, ["sleep 1"])); $app->dispatch(new Close(2));');
        $work = $this->consume('orders');
        $this->app->hear('run 1');
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end(10.0));
        self::assertSame(2, $this->totals()['acked']);
        $counts = $this->queue->counts();
        self::assertSame([1, 0], [$counts->ready, $counts->reserved]);
        self::assertSame(0, $this->queue->peek('ready')[0]->attempts);
    }
}
