<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\NewJob;
use Duly\Queue;
use Duly\Worker;

/** A partitioned queue. What its verbs do is the engine's affair; here each is called once in PHP. */
final class PartitionsTest extends ServerTestCase
{
    private Queue $parts;

    protected function setUp(): void
    {
        parent::setUp();
        $this->parts = $this->client->partitions('orders', 4);
    }

    public function testAQueueThatIsNotSplitHasNoParts(): void
    {
        self::assertSame([], $this->client->queue('mail')->parts);
    }

    public function testJobsAreSpreadOverThePartsAndComeBack(): void
    {
        self::assertSame('orders', $this->parts->name);
        $summary = $this->parts->pushMany(array_map(static fn (int $n) => new NewJob($n), range(1, 200)), ids: true);
        self::assertSame([200, 200], [$summary->created, count(array_unique($summary->ids ?? []))]);
        self::assertSame(['orders/0', 'orders/1', 'orders/2', 'orders/3'], array_column($this->parts->parts, 'name'));
        foreach ($this->parts->parts as $part) {
            self::assertGreaterThan(10, $part->counts()->ready);
        }
        self::assertSame(200, $this->parts->counts()->ready);
        self::assertCount(100, $this->parts->peek('ready', offset: 50));
        self::assertCount(150, $this->parts->peek('ready', offset: 50, limit: 1000));
        $jobs = $this->parts->reserveMany(200, lease: 30);
        $data = array_map(static fn ($job) => $job->data(), $jobs);
        sort($data);
        self::assertSame(range(1, 200), $data);
        self::assertSame(array_fill(0, 200, true), $this->parts->ackMany($jobs));
        self::assertTrue($jobs[0]->settled);
        self::assertNull($this->parts->reserve());
        self::assertSame(200, $this->parts->counts()->totals['acked']);
    }

    public function testAWorkerServesTheParts(): void
    {
        $this->parts->pushMany(array_map(static fn (int $n) => new NewJob($n, name: 'count'), range(1, 40)));
        $ran = [];
        $parts = array_column($this->parts->parts, 'name');
        $worker = new Worker($this->client, $parts, maxJobs: 40, log: static fn () => null);
        $worker->on('count', static function (int $n) use (&$ran): void {
            $ran[] = $n;
        });
        $worker->run();
        sort($ran);
        self::assertSame(range(1, 40), $ran);
        self::assertSame(40, $this->parts->counts()->totals['acked']);
    }

    public function testAJobIsFoundByItsIdAndByItsKey(): void
    {
        $id = $this->parts->push(['order' => 42], key: 'close:42', delay: 60);
        self::assertSame($id, $this->parts->find(key: 'close:42')?->id);
        self::assertSame(['order' => 42], $this->parts->find($id)?->data());
        self::assertSame($id, $this->parts->reschedule(key: 'close:42', delay: 600));
        self::assertGreaterThan(590, $this->parts->counts()->nextDueIn);
        self::assertSame('delayed', $this->parts->cancel(key: 'close:42')?->was);
        self::assertNull($this->parts->find($id));
    }

    public function testOperatorsVerbsReachEveryPart(): void
    {
        foreach (['a', 'b', 'c', 'd', 'e', 'f'] as $id) {
            $this->parts->push(1, id: $id);
        }
        $this->parts->pause();
        self::assertTrue($this->parts->counts()->paused);
        self::assertNull($this->parts->reserve());
        $this->parts->resume();
        $this->parts->keepFailed(100, 3600);
        while (($job = $this->parts->reserve()) !== null) {
            $job->fail('no use', final: true);
        }
        $outcomes = array_column($this->parts->requeue('a', 'none', 'f'), 'outcome', 'id');
        self::assertSame(['a' => 'ready', 'none' => 'absent', 'f' => 'ready'], $outcomes);
        self::assertSame(4, $this->parts->requeueAll());
        self::assertTrue($this->parts->audit()->clean);
        self::assertSame(6, $this->parts->audit(repair: true)->jobs);
        self::assertSame([0, 0], [$this->parts->promote(), $this->parts->reclaim()]);
        self::assertSame(6, $this->parts->purge('ready'));
    }

    public function testTheClockOfATestIsThatOfEveryPart(): void
    {
        $client = new \Duly\Client($this->server->url(), $this->prefix, manualClock: true);
        $parts = $client->partitions('timed', 3);
        $parts->setClock(1790000000);
        foreach (['a', 'b', 'c', 'd', 'e'] as $id) {
            $parts->push(1, id: $id, delay: 60);
        }
        self::assertSame(0, $parts->promote());
        $parts->setClock(new \DateTimeImmutable('@1790000060'));
        self::assertSame(5, $parts->promote());
    }

    public function testNamesAndNumbersThatAreNoneAreRefused(): void
    {
        $wrong = [['orders', 0], ['orders', -1], ['orders', 257], ['orders', PHP_INT_MAX], ['', 4], ['a/b', 4]];
        foreach ($wrong as [$name, $count]) {
            $this->thrownBy(InvalidArgumentException::class, fn () => $this->client->partitions($name, $count));
        }
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->parts->cancel());
    }
}
