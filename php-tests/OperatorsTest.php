<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\NotFoundException;
use Duly\RetryPolicy;
use Duly\State;

final class OperatorsTest extends ServerTestCase
{
    public function testAFullQueueRefusesAPush(): void
    {
        foreach ([0, -1, PHP_INT_MAX] as $most) {
            $refused = $this->thrownBy(
                \Duly\Exception\InvalidArgumentException::class,
                fn () => $this->queue->setLimits(maxLength: $most),
            );
            $said = "maxLength must be a whole number from 1 to 1000000000, not $most";
            self::assertSame($said, $refused->getMessage());
        }
        $this->queue->setLimits(maxLength: 2);
        self::assertSame(2, $this->queue->limits()->maxLength);
        $this->queue->push(1);
        $this->queue->push(2, delay: 60);
        $full = $this->thrownBy(\Duly\Exception\QueueFullException::class, fn () => $this->queue->push(3));
        self::assertTrue($full->isTransient());
        self::assertStringContainsString('nothing was stored', $full->getMessage());
        $this->queue->reserve()->ack();
        $this->queue->push(3);
        $this->queue->setLimits();
        self::assertNull($this->queue->limits()->maxLength);
    }

    public function testCancelSaysWhatItRemoved(): void
    {
        $id = $this->queue->push(1, key: 'k', delay: 60);
        $cancelled = $this->queue->cancel(key: 'k');
        self::assertSame([$id, 'delayed'], [$cancelled->id, $cancelled->was]);
        self::assertNull($this->queue->cancel(key: 'k'));
        $this->queue->push(1, id: 'a');
        self::assertSame('ready', $this->queue->cancel('a')->was);
        self::assertNull($this->queue->cancel('a'));
    }

    public function testAJobInAnotherStateIsKeptAndTheExceptionHasTheState(): void
    {
        $id = $this->queue->push(1, key: 'k');
        foreach (['delayed', State::Delayed, ['reserved', State::Failed]] as $only) {
            $error = $this->thrownBy(NotFoundException::class, fn () => $this->queue->cancel(key: 'k', only: $only));
            self::assertSame([$id, 'ready'], [$error->getJobId(), $error->getJobState()]);
        }
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->cancel($id, only: []));
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->cancel($id, only: [5]));
        self::assertSame('ready', $this->queue->cancel($id, only: [State::Ready, 'delayed'])?->was);
        self::assertNull($this->queue->cancel($id, only: 'ready'));
        self::assertNull((new NotFoundException('of a program'))->getJobState());
    }

    public function testRescheduleByIdAndByKey(): void
    {
        $id = $this->queue->push(1, key: 'k', delay: 60);
        self::assertSame($id, $this->queue->reschedule(key: 'k', delay: 600));
        self::assertGreaterThan(590, $this->queue->counts()->nextDueIn);
        self::assertSame($id, $this->queue->reschedule($id, delay: 0));
        self::assertSame($id, $this->queue->reserve()->id);
    }

    public function testAWaitEndsWhenTheRateOfANameLetsTheNextJobStart(): void
    {
        $this->queue->setLimits(names: ['mail' => ['concurrency' => 9, 'rate' => [1, 0.3]]]);
        self::assertSame(['mail' => ['concurrency' => 9, 'rate' => [1.0, 0.3]]], $this->queue->limits()->names);
        for ($n = 0; $n < 5; $n++) {
            $this->queue->push($n, name: 'mail');
        }
        $began = microtime(true);
        self::assertNotNull($this->queue->reserve());
        $took = [];
        for ($n = 0; $n < 4; $n++) {
            $asked = microtime(true);
            self::assertNotNull($this->queue->reserve(wait: 20));
            $took[] = microtime(true) - $asked;
        }
        // Who only looks again now and then takes 0.8 s for each; a busy machine is late for some.
        self::assertLessThan(0.7, min(array_slice($took, 1)));
        self::assertGreaterThanOrEqual(1.19, microtime(true) - $began);
    }

    public function testFailedJobsGoRoundAgain(): void
    {
        foreach (['a', 'b', 'c'] as $id) {
            $this->queue->push(1, id: $id);
            $this->queue->reserve()->fail('broken', final: true);
        }
        self::assertSame(3, $this->queue->counts()->failed);
        $requeued = $this->queue->requeue('a', 'none');
        self::assertSame(['a', 'none'], array_column($requeued, 'id'));
        self::assertSame(['ready', 'absent'], array_column($requeued, 'outcome'));
        self::assertSame([null, null], array_column($requeued, 'holder'));
        self::assertSame(2, $this->queue->requeueAll());
        self::assertSame(3, $this->queue->purge('ready'));
        $counts = $this->queue->counts();
        self::assertSame([0, 0], [$counts->ready, $counts->failed]);
    }

    public function testAPausedQueueHandsOutNothing(): void
    {
        $this->queue->push(1);
        $this->queue->pause();
        self::assertTrue($this->queue->counts()->paused);
        self::assertNull($this->queue->reserve());
        $this->queue->resume();
        self::assertNotNull($this->queue->reserve());
    }

    public function testCountsPeekAndFindAgree(): void
    {
        $this->queue->push(1, delay: 60, id: 'later');
        $this->queue->push(2, id: 'now', key: 'k');
        $this->queue->push(3, id: 'next');
        $job = $this->queue->reserve(lease: 30);
        $counts = $this->queue->counts();
        self::assertSame([1, 1, 1, 0], [
            $counts->delayed, $counts->ready, $counts->reserved, $counts->failed,
        ]);
        self::assertSame(3, $counts->totals['pushed']);
        self::assertEqualsWithDelta(30, $counts->nextLeaseEndIn, 5);
        self::assertSame(['next'], array_column($this->queue->peek('ready'), 'id'));
        self::assertSame([], $this->queue->peek('ready', offset: 1, limit: 5));
        $found = $this->queue->find(key: 'k');
        self::assertSame(['now', 'reserved', $job->token], [$found->id, $found->state, $found->token]);
        self::assertIsString($found->why);
        self::assertNull($this->queue->find('none'));
        self::assertNull($this->queue->find(key: 'none'));
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->peek('lost'));
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->peek('ready', limit: -1));
    }

    public function testADuplicateThatIsToGoRoundAgainNamesWhoHasItsKey(): void
    {
        $this->queue->push(1, id: 'old', key: 'k');
        $this->queue->reserve()->fail('x', final: true);
        $this->queue->push(1, id: 'new', key: 'k');
        [$requeued] = $this->queue->requeue('old');
        self::assertSame(['old', 'duplicate', 'new'], [$requeued->id, $requeued->outcome, $requeued->holder]);
        self::assertSame([], $this->queue->requeue());
    }

    public function testAViewHasWhatAJobHas(): void
    {
        $id = $this->queue->push(
            ['order' => 42],
            name: 'n',
            key: 'k',
            priority: 3,
            maxRetries: 7,
            timeout: 2.5,
            headers: ['h' => 'v'],
        );
        $this->queue->reserve()->fail('once', retryAfter: 0);
        $common = ['id', 'raw', 'name', 'key', 'priority', 'attempts', 'maxRetries', 'error', 'headers', 'returns',
            'timeout', 'pushedAt'];
        $of = static fn (object $one): array => array_map(static fn (string $name) => $one->{$name}, $common);
        [$view] = $this->queue->peek('ready');
        $found = $this->queue->find($id);
        $job = $this->queue->reserve();
        self::assertSame($of($job), $of($view));
        self::assertSame($of($job), $of($found));
        self::assertSame([$id, 1, 'once', 2.5], [$job->id, $job->returns, $job->error, $job->timeout]);
        foreach ([$job, $view, $found] as $one) {
            self::assertSame(['order' => 42], $one->data());
            self::assertSame(42, $one->data(assoc: false)->order);
        }
        self::assertSame('ready', $view->state);
        self::assertNull($view->at);
        self::assertNull($view->undecodable);
        self::assertSame([42], array_values(json_decode($view->package, true)['data']));
        self::assertEqualsWithDelta(microtime(true), $found->now, 5);
        self::assertNull($found->token);
        self::assertSame($job->token, $this->queue->find($id)->token);
    }

    public function testWhatIsToldCanNotBeWritten(): void
    {
        $this->queue->push(1, id: 'a');
        $reported = [
            $this->queue->counts(), $this->queue->peek('ready')[0], $this->queue->find('a'), $this->queue->audit(),
            $this->queue->requeue('a')[0], $this->queue->pushMany([]), $this->queue, $this->queue->reserve(),
            $this->queue->cancel('a'), $this->client->partitions('p', 1),
        ];
        foreach ($reported as $one) {
            $name = (string) array_key_first(get_object_vars($one));
            $before = $one->{$name};
            $this->thrownBy(\Throwable::class, function () use ($one, $name): void {
                $one->{$name} = 'changed';
            });
            self::assertEquals($before, $one->{$name});
            self::assertTrue((new \ReflectionClass($one))->isFinal());
        }
    }

    public function testTheClockOfATestMovesJobs(): void
    {
        $client = new Client($this->server->url(), $this->prefix, manualClock: true);
        $queue = $client->queue('timed');
        $queue->setClock(1790000000);
        $queue->push(1, delay: 60, retry: RetryPolicy::list([1, 5]));
        self::assertSame(0, $queue->promote());
        $queue->setClock(1790000060.5);
        self::assertSame(1, $queue->promote());
        $queue->reserve(lease: 10);
        $queue->setClock(1790000071);
        self::assertSame(1, $queue->reclaim());
    }

    public function testTheQueueKeepsAsManyFailedJobsAsItIsTold(): void
    {
        $this->queue->keepFailed(1, 3600);
        foreach (['a', 'b'] as $id) {
            $this->queue->push(1, id: $id);
            $this->queue->reserve()->fail('x', final: true);
        }
        self::assertSame(['b'], array_column($this->queue->peek('failed'), 'id'));
    }

    public function testARetryPolicySaysWhatItWouldDo(): void
    {
        $policy = RetryPolicy::linear(5);
        self::assertSame([5.0, 10.0, 15.0], [$policy->delay(1), $policy->delay(2), $policy->delay(3)]);
        self::assertSame([5.0, null], [$policy->decide(1, 1), $policy->decide(2, 1)]);
        $random = RetryPolicy::exponential(10);
        self::assertSame($random->delay(3, seed: 42), $random->delay(3, seed: 42));
        self::assertSame(3600.0, RetryPolicy::exponential(10, jitter: false)->delay(20));
        self::assertSame(10.5, RetryPolicy::exponential(10, jitter: false, cap: 10.5)->delay(20));
        $this->thrownBy(InvalidArgumentException::class, fn () => $policy->delay(-1));
        $this->thrownBy(InvalidArgumentException::class, fn () => $policy->decide(1, -1));
    }

    public function testRetryPoliciesAreChecked(): void
    {
        $refused = [
            fn () => RetryPolicy::linear(-1),
            fn () => RetryPolicy::list([]),
            fn () => RetryPolicy::fixed('1'),
            fn () => RetryPolicy::exponential(1.0, factor: 0.0),
        ];
        foreach ($refused as $make) {
            $this->thrownBy(InvalidArgumentException::class, $make);
        }
    }
}
