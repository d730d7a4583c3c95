<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\InvalidArgumentException;
use Duly\RetryPolicy;

final class OperatorsTest extends ServerTestCase
{
    public function testCancelSaysWhatItRemoved(): void
    {
        $id = $this->queue->push(1, key: 'k', delay: 60);
        self::assertSame(['id' => $id, 'was' => 'delayed'], $this->queue->cancelKey('k'));
        self::assertNull($this->queue->cancelKey('k'));
        $this->queue->push(1, id: 'a');
        self::assertSame(['id' => 'a', 'was' => 'ready'], $this->queue->cancel('a'));
        self::assertNull($this->queue->cancel('a'));
    }

    public function testRescheduleByIdAndByKey(): void
    {
        $id = $this->queue->push(1, key: 'k', delay: 60);
        self::assertSame($id, $this->queue->rescheduleKey('k', delay: 600));
        self::assertGreaterThan(590, $this->queue->counts()['nextDueIn']);
        self::assertSame($id, $this->queue->reschedule($id));
        self::assertSame($id, $this->queue->reserve()->id);
    }

    public function testFailedJobsGoRoundAgain(): void
    {
        foreach (['a', 'b', 'c'] as $id) {
            $this->queue->push(1, id: $id);
            $this->queue->reserve()->fail('broken', final: true);
        }
        self::assertSame(3, $this->queue->counts()['failed']);
        self::assertSame(['ready', 'absent'], $this->queue->requeue(['a', 'none']));
        self::assertSame(2, $this->queue->requeueAll());
        self::assertSame(3, $this->queue->purge('ready'));
        self::assertSame(0, array_sum(array_intersect_key($this->queue->counts(), ['ready' => 1, 'failed' => 1])));
    }

    public function testAPausedQueueHandsOutNothing(): void
    {
        $this->queue->push(1);
        $this->queue->pause();
        self::assertTrue($this->queue->counts()['paused']);
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
            $counts['delayed'], $counts['ready'], $counts['reserved'], $counts['failed'],
        ]);
        self::assertSame(3, $counts['totals']['pushed']);
        self::assertEqualsWithDelta(30, $counts['nextLeaseEndIn'], 5);
        self::assertSame(['next'], array_column($this->queue->peek('ready'), 'id'));
        self::assertSame([], $this->queue->peek('ready', offset: 1, limit: 5));
        $found = $this->queue->findKey('k');
        self::assertSame(['now', 'reserved', $job->token], [$found['id'], $found['state'], $found['token']]);
        self::assertIsString($found['why']);
        self::assertNull($this->queue->find('none'));
        self::assertNull($this->queue->findKey('none'));
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->peek('lost'));
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->peek('ready', limit: -1));
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
