<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Consumer;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\LeaseLostException;
use Duly\Interruption;
use Duly\Job;
use Duly\RetryPolicy;

/** What the drivers of frameworks stand on. */
final class ConsumerTest extends ServerTestCase
{
    public function testSeveralJobsAreOutAndAreSettledInAnyOrder(): void
    {
        foreach (['a', 'b', 'c', 'd', 'e'] as $id) {
            $this->queue->push($id, id: $id, retry: RetryPolicy::fixed(3600));
        }
        $consumer = new Consumer($this->client, 'q', concurrency: 5);
        $jobs = [];
        while (count($jobs) < 5) {
            $job = $consumer->next(10);
            self::assertInstanceOf(Job::class, $job);
            $jobs[$job->data()] = $job;
        }
        self::assertNull($jobs['a']->leaseEndsAt);
        self::assertSame(5, $this->queue->counts()->reserved);
        $jobs['d']->ack();
        self::assertTrue($jobs['d']->settled && $jobs['d']->acked);
        self::assertNull($jobs['b']->fail('no', final: true));
        self::assertSame(3600.0, $jobs['a']->fail(new \DomainException('later')));
        self::assertFalse($jobs['a']->acked);
        $jobs['e']->release(after: 3600, reason: 'not yet');
        self::assertFalse($jobs['c']->settled);
        self::assertSame([true, false], $this->queue->ackMany([$jobs['c'], $jobs['d']]));
        $this->thrownBy(LeaseLostException::class, fn () => $jobs['d']->ack());
        $consumer->close();
        $counts = $this->queue->counts();
        self::assertSame([0, 2, 1], [$counts->reserved, $counts->delayed, $counts->failed]);
        self::assertSame(2, $counts->totals['acked']);
        self::assertStringStartsWith('DomainException: later at ', $this->queue->find('a')->error);
        self::assertSame([1, 0], [$this->queue->find('a')->attempts, $this->queue->find('e')->attempts]);
        $report = ['acked' => 2, 'expired' => 0, 'failed' => 2, 'lost' => 0, 'released' => 1];
        self::assertSame($report, $consumer->report());
        self::assertNull($consumer->next());
    }

    public function testADriverCountsAttemptsAndStoresWhatItKnows(): void
    {
        $id = $this->queue->push(1, maxRetries: 0, headers: ['tenant' => 'acme']);
        $consumer = new Consumer($this->client, 'q');
        $consumer->next(10)->release(reason: 'busy', counted: true);
        $job = $consumer->next(10);
        self::assertSame([2, 1, 'busy'], [$job->attempt, $job->attempts, $job->error]);
        $job->fail('no', final: true, headers: ['error' => 'IoError'], name: 'mail');
        $consumer->close();
        $failed = $this->queue->find($id);
        self::assertSame([2, 'mail'], [$failed->attempts, $failed->name]);
        self::assertSame(['error' => 'IoError', 'tenant' => 'acme'], $failed->headers);
        self::assertSame(0, $this->queue->clear());
    }

    public function testMoreThanMayBeOutAreNotGiven(): void
    {
        $this->queue->push(1);
        $this->queue->push(2);
        $consumer = new Consumer($this->client, ['q' => 2, 'other' => 1]);
        $first = $consumer->next(10);
        self::assertNull($consumer->next(0.05));
        $first->ack();
        self::assertSame(2, $consumer->next(10)?->data());
    }

    public function testAResultIsKept(): void
    {
        $id = $this->queue->push(1, resultTtl: 60);
        $consumer = new Consumer($this->client, ['q']);
        $consumer->next(10)->ack(['total' => 9.5]);
        self::assertSame(['total' => 9.5], $this->queue->waitResult($id, timeout: 10));
    }

    public function testALeaseIsRenewedAsLongAsSomebodyHoldsTheJob(): void
    {
        $this->queue->push(1, id: 'a');
        $consumer = new Consumer($this->client, ['q'], lease: 0.3);
        $job = $consumer->next(10);
        usleep(900_000);
        self::assertNull($this->queue->reserve());
        self::assertSame('reserved', $this->queue->find('a')->state);
        unset($job); // nobody holds it
        $again = $this->queue->reserve(wait: 10);
        self::assertSame([1, 0], [$again->attempt, $again->attempts]);
    }

    public function testOneReservedJobMayBeRenewedToo(): void
    {
        $this->queue->push(1, id: 'a');
        $job = $this->queue->reserve(lease: 0.3, renew: true);
        self::assertNull($job->leaseEndsAt);
        usleep(900_000);
        self::assertNull($this->queue->reserve());
        $job->ack();
        $this->queue->push(2, id: 'b');
        $job = $this->queue->reserve(lease: 0.3, renew: true);
        unset($job); // nobody holds it
        self::assertSame('b', $this->queue->reserve(wait: 10)?->id);
    }

    public function testATimeoutEndsTheRunAndIsSaid(): void
    {
        $policy = RetryPolicy::fixed(3600);
        $this->queue->push(1, id: 'own', timeout: 0.2, retry: $policy);
        $this->queue->push(2, id: 'of the consumer', retry: $policy);
        $heard = [];
        $onInterrupt = static function (Job $job, Interruption $why) use (&$heard): void {
            $heard[$job->id] = $why;
        };
        $consumer = new Consumer(
            $this->client,
            ['q'],
            concurrency: 2,
            timeout: \DateInterval::createFromDateString('400 milliseconds'),
            onInterrupt: $onInterrupt,
        );
        $jobs = [$consumer->next(10), $consumer->next(10)];
        self::assertNull($jobs[1]->interrupted);
        Server::until(static function () use ($consumer, &$heard): bool {
            $consumer->next(0.05);
            return count($heard) === 2;
        }, 'it is not called');
        self::assertSame(['own' => Interruption::TimedOut, 'of the consumer' => Interruption::TimedOut], $heard);
        foreach ($jobs as $job) {
            self::assertFalse($job->settled);
            self::assertSame('timed_out', $job->interrupted);
            $error = $this->thrownBy(LeaseLostException::class, static fn () => $job->ack());
            self::assertStringContainsString('its time is over', $error->getMessage());
        }
        $texts = array_column($consumer->events(), 'text', 'id');
        self::assertStringContainsString('longer than its timeout', $texts['own']);
        self::assertSame([], $consumer->events());
        self::assertSame(2, $this->queue->counts()->delayed);
        self::assertSame(1, $this->queue->find('own')->attempts);
    }

    public function testAJobThatIsCancelledMeanwhileIsLost(): void
    {
        $this->queue->push(1, id: 'a');
        $consumer = new Consumer($this->client, ['q'], lease: 0.3);
        $job = $consumer->next(10);
        $this->queue->cancel('a');
        Server::until(static fn (): bool => $consumer->events() !== [], 'nothing happens');
        $this->thrownBy(LeaseLostException::class, static fn () => $job->ack());
        self::assertSame(1, $consumer->report()['lost']);
    }

    public function testWhatOnInterruptThrowsEndsTheWait(): void
    {
        $this->queue->push(1, timeout: 0.1);
        $throws = static fn () => throw new \DomainException('mine');
        $consumer = new Consumer($this->client, ['q'], onInterrupt: $throws);
        $job = $consumer->next(10);
        $error = $this->thrownBy(\DomainException::class, static fn () => $consumer->next(30));
        self::assertSame('mine', $error->getMessage());
        unset($job);
    }

    public function testAllHearThatTheirTimeIsOverAlsoIfOnInterruptThrows(): void
    {
        $this->queue->pushMany([new \Duly\NewJob(1, timeout: 0.1), new \Duly\NewJob(2, timeout: 0.1)]);
        $heard = [];
        $throws = static function (Job $job) use (&$heard): never {
            $heard[] = $job->data();
            throw new \DomainException("mine {$job->data()}");
        };
        $consumer = new Consumer($this->client, ['q'], concurrency: 2, onInterrupt: $throws);
        $jobs = [$consumer->next(10), $consumer->next(10)];
        Server::until(fn (): bool => $this->queue->counts()->reserved === 0, 'they run on');
        foreach ([1, 2] as $number) {
            $error = $this->thrownBy(\DomainException::class, static fn () => $consumer->next(30));
            self::assertSame("mine {$number}", $error->getMessage());
        }
        self::assertSame([1, 2], $heard);
        unset($jobs);
    }

    public function testWhatWasFetchedAheadAndWhatIsOutGoesBackUncounted(): void
    {
        $this->queue->pushMany(array_fill(0, 50, new \Duly\NewJob(1)));
        $consumer = new Consumer($this->client, ['q'], prefetch: 20);
        // It learns that these are short.
        for ($count = 0; $count < 20; $count++) {
            $consumer->next(10)->ack();
        }
        $out = $consumer->next(10);
        $consumer->close();
        $this->thrownBy(LeaseLostException::class, static fn () => $out->ack());
        $counts = $this->queue->counts();
        self::assertSame([0, 30], [$counts->reserved, $counts->ready]);
        foreach ($this->queue->peek('ready') as $job) {
            self::assertSame(0, $job->attempts);
        }
    }

    public function testAJobThatIsLeftOutByAProcessThatEndsGoesBack(): void
    {
        $this->queue->push(1, id: 'a');
        $program = $this->program('
            $consumer = new Duly\Consumer($client, ["q"], lease: 60);
            $job = $consumer->next(10);
            say("has {$job->id}");
        ');
        self::assertSame(0, $program->end());
        self::assertSame("has a\n", $program->said());
        self::assertSame(1, $this->queue->reserve()?->attempt);
    }

    public function testAKilledProcessLosesNothing(): void
    {
        $this->queue->pushMany(array_fill(0, 20, new \Duly\NewJob(1)));
        $program = $this->program('
            $consumer = new Duly\Consumer($client, ["q"], concurrency: 3, lease: 0.5);
            $jobs = [$consumer->next(10), $consumer->next(10), $consumer->next(10)];
            $jobs[1]->ack();
            $jobs[1] = $consumer->next(10);
            say("out");
            sleep(60);
        ');
        $program->hear('out');
        Server::until(fn (): bool => ($this->queue->counts()->totals['acked'] ?? 0) === 1, 'the ack is not sent');
        $program->signal(SIGKILL);
        $program->end();
        $taken = [];
        Server::until(function () use (&$taken): bool {
            $taken = [...$taken, ...$this->queue->reserveMany(20, lease: 60)];
            return count($taken) === 19;
        }, 'they do not come back');
        self::assertSame(1, $this->queue->counts()->totals['acked']);
    }

    public function testItsStreamIsReadableWhenThereIsAJob(): void
    {
        $consumer = new Consumer($this->client, ['q'], concurrency: 2);
        $stream = $consumer->stream();
        self::assertIsResource($stream);
        $isReadable = static function (float $seconds) use ($stream): bool {
            $read = [$stream];
            $none = null;
            return stream_select($read, $none, $none, 0, (int) ($seconds * 1e6)) === 1;
        };
        Server::until(static function () use ($consumer): bool {
            $consumer->next();
            $consumer->events();
            return true;
        }, '');
        self::assertFalse($isReadable(0.2));
        $this->queue->push('x');
        self::assertTrue($isReadable(10));
        $job = $consumer->next();
        self::assertSame('x', $job?->data());
        self::assertNull($consumer->next());
        self::assertFalse($isReadable(0.2));
        $job->ack();
        $consumer->stop();
        self::assertTrue($isReadable(10));
        self::assertNull($consumer->next());
    }

    public function testTheObjectOfAForkedChildDoesNothing(): void
    {
        $this->queue->push(1, id: 'a');
        $this->queue->push(2, id: 'b');
        $program = $this->program('
            $consumer = new Duly\Consumer($client, ["q"], concurrency: 2);
            $job = $consumer->next(10);
            if (pcntl_fork() === 0) {
                $refused = "";
                try {
                    $job->ack();
                } catch (Duly\Exception\LeaseLostException $error) {
                    $refused = $error->getMessage();
                }
                say("child " . json_encode([$consumer->next(0.1), $consumer->events(), $job->settled]));
                say($refused);
                $consumer->close();
                exit(0);
            }
            pcntl_wait($status);
            say("parent " . $consumer->next(10)->id);
            $job->ack();
            $consumer->close();
        ');
        self::assertSame(0, $program->end());
        self::assertStringContainsString("child [null,[],false]\n", $program->said());
        self::assertStringContainsString('settle it there', $program->said());
        self::assertStringContainsString("parent b\n", $program->said());
        self::assertSame([1, 1], [$this->queue->counts()->totals['acked'], $this->queue->counts()->ready]);
    }

    public function testSignalHandlersRunWhileItWaits(): void
    {
        $program = $this->program('
            $consumer = new Duly\Consumer($client, ["q"]);
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, fn () => throw new DomainException("told"));
            say("waits");
            try {
                $consumer->next(60);
            } catch (DomainException $error) {
                say($error->getMessage());
            }
        ');
        $program->hear('waits');
        $program->signal(SIGTERM);
        $program->hear('told', 0.5 + 5.0);
        self::assertSame(0, $program->end());
    }

    public function testAnOutageIsSaidAndWaitedOut(): void
    {
        $server = new Server();
        $client = new \Duly\Client($server->url());
        $consumer = new Consumer($client, ['q']);
        self::assertNull($consumer->next());
        $server->kill();
        $said = '';
        Server::until(static function () use ($consumer, &$said): bool {
            self::assertNull($consumer->next(0.05));
            $said .= implode("\n", array_column($consumer->events(), 'text'));
            return str_contains($said, 'redis.sock');
        }, 'nothing is said');
        $server->start();
        $client->queue('q')->push('back');
        self::assertSame('back', $consumer->next(30)?->data());
        $consumer->close();
        $server->close();
    }

    public function testWrongArgumentsAreRefused(): void
    {
        $new = fn (mixed ...$arguments): \Closure => fn () => new Consumer($this->client, ...$arguments);
        foreach (
            [
                'queues' => $new([]),
                'names' => $new(['q', 'q' => 1]),
                'no name' => $new(5),
                'concurrency' => $new(['q'], concurrency: 0),
                'a negative one' => $new(['q'], concurrency: -1),
                'lease' => $new(['q'], lease: 0.01),
                'a text' => $new(['q'], lease: '10'),
                'timeout' => $new(['q'], timeout: 0),
                'prefetch' => $new(['q'], prefetch: 1001),
                'callable' => $new(['q'], onInterrupt: 'no such function'),
            ] as $call
        ) {
            $this->thrownBy(InvalidArgumentException::class, $call);
        }
        $consumer = new Consumer($this->client, ['q']);
        $this->thrownBy(InvalidArgumentException::class, static fn () => $consumer->next(-1));
    }
}
