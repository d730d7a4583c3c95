<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\LeaseLostException;
use Duly\Job;
use Duly\NewJob;
use Duly\RetryPolicy;
use Duly\Worker;

final class PushReserveAckTest extends ServerTestCase
{
    public function testAJobGoesInAndComesOut(): void
    {
        $id = $this->queue->push(['order' => 42], name: 'order.close', headers: ['trace' => 'abc']);
        $job = $this->queue->reserve();
        self::assertNotNull($job);
        self::assertSame($id, $job->id);
        self::assertSame(['order' => 42], $job->data());
        self::assertSame('{"order":42}', $job->raw);
        self::assertSame('order.close', $job->name);
        self::assertNull($job->key);
        self::assertSame(5, $job->priority);
        self::assertSame(1, $job->attempt);
        self::assertSame(0, $job->attempts);
        self::assertSame(5, $job->maxRetries);
        self::assertSame('', $job->error);
        self::assertSame(['trace' => 'abc'], $job->headers);
        self::assertSame('q', $job->queue->name);
        self::assertSame(1, $job->queue->counts()->reserved);
        self::assertNull($job->timeout);
        self::assertEqualsWithDelta(time(), $job->pushedAt, 2);
        self::assertFalse($job->settled);
        $job->ack();
        self::assertTrue($job->settled);
        self::assertNull($this->queue->reserve());
    }

    public function testAJobSaysWhenItsLeaseEnds(): void
    {
        $this->queue->pushMany(array_fill(0, 4, ['data' => 1, 'name' => 'n']));
        $before = microtime(true);
        $jobs = [$this->queue->reserve(lease: 100), $this->queue->reserveMany(1, lease: 100)[0]];
        $jobs[] = $this->client->reserveFrom(['q'], lease: 100)[0];
        foreach ($jobs as $job) {
            self::assertGreaterThanOrEqual($before + 100, $job?->leaseEndsAt);
            self::assertLessThanOrEqual(microtime(true) + 100, $job->leaseEndsAt);
            $job->extend(300);
            self::assertGreaterThanOrEqual($before + 300, $job->leaseEndsAt);
            self::assertLessThanOrEqual(microtime(true) + 300, $job->leaseEndsAt);
        }
        $ends = 0;
        $worker = new Worker($this->client, ['q'], maxJobs: 1);
        $worker->on('n', static function (mixed $data, Job $job) use (&$ends): void {
            $ends = $job->leaseEndsAt;
        })->run();
        self::assertNull($ends);
    }

    public function testALateAckIsRefused(): void
    {
        $this->queue->push(1, id: 'a');
        $first = $this->queue->reserve();
        $first->release();
        $second = $this->queue->reserve();
        self::assertGreaterThan($first->token, $second->token);
        $error = $this->thrownBy(LeaseLostException::class, fn () => $first->ack());
        self::assertSame('a', $error->getJobId());
        $second->ack();
    }

    public function testFailSaysWhatBecomesOfTheJob(): void
    {
        $this->queue->push(1, maxRetries: 1, retry: RetryPolicy::fixed(0));
        self::assertSame(0.0, $this->queue->reserve()->fail('first'));
        $job = $this->queue->reserve();
        self::assertSame([2, 'first'], [$job->attempt, $job->error]);
        self::assertNull($job->fail('second'));
        self::assertTrue($job->settled);
        self::assertSame('second', $this->queue->peek('failed')[0]->error);
    }

    public function testAFinalFailureIsFinal(): void
    {
        $this->queue->push(1);
        self::assertNull($this->queue->reserve()->fail('no use', final: true));
        self::assertSame(1, $this->queue->counts()->failed);
    }

    public function testManyJobsComeFromAGenerator(): void
    {
        $jobs = (static function (): iterable {
            for ($number = 0; $number < 2500; $number++) {
                yield new NewJob($number, key: 'k' . $number % 2000, onDuplicate: 'keep');
            }
        })();
        $summary = $this->queue->pushMany($jobs, ids: true);
        self::assertSame([2000, 500], [$summary->created, $summary->kept]);
        self::assertCount(2500, $summary->ids);
        $reserved = $this->queue->reserveMany(300);
        self::assertCount(300, $reserved);
        self::assertSame(array_fill(0, 300, true), $this->queue->ackMany($reserved));
        self::assertTrue($reserved[299]->settled && $reserved[299]->acked);
        self::assertTrue($reserved[0]->settled);
        self::assertSame(array_fill(0, 300, false), $this->queue->ackMany($reserved));
    }

    public function testAGeneratorThatThrowsEndsThePush(): void
    {
        $jobs = (static function (): iterable {
            yield new NewJob(1);
            throw new \DomainException('mine');
        })();
        $error = $this->thrownBy(\DomainException::class, fn () => $this->queue->pushMany($jobs));
        self::assertSame('mine', $error->getMessage());
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testOfAGeneratorThatThrowsEachFullThousandIsPushed(): void
    {
        $read = 0;
        $jobs = (static function () use (&$read): iterable {
            while ($read < 2300) {
                $read++;
                yield new NewJob($read);
            }
            throw new \DomainException('mine');
        })();
        $error = $this->thrownBy(\DomainException::class, fn () => $this->queue->pushMany($jobs));
        self::assertSame('mine', $error->getMessage());
        self::assertSame([2300, 2000], [$read, $this->queue->counts()->ready]);
    }

    public function testAJobOfManyMayBeAnArrayOfArguments(): void
    {
        $this->queue->pushMany([
            ['data' => [1], 'name' => 'n', 'priority' => 0, 'headers' => ['a' => 'b'], 'key' => null],
            ['raw' => '1.0', 'retry' => RetryPolicy::fixed(1), 'maxRetries' => 1, 'timeout' => 2.5, 'id' => 'x'],
            ['data' => null, 'delay' => 60, 'key' => 'k'],
        ]);
        $job = $this->queue->reserve();
        self::assertSame([[1], 'n', 0, ['a' => 'b']], [$job->data(), $job->name, $job->priority, $job->headers]);
        $job = $this->queue->reserve();
        self::assertSame(['1.0', 1, 2.5, 'x'], [$job->raw, $job->maxRetries, $job->timeout, $job->id]);
        self::assertSame('null', $this->queue->find(key: 'k')->raw);
        $wrong = [
            [], ['name' => 'n'], [1], ['data' => 1, 'nonsense' => 1], ['data' => 1, 'name' => 5],
            ['data' => 1, 'priority' => '5'], ['data' => 1, 'retry' => 5], ['data' => 1, 'headers' => 'a'],
            ['data' => NAN], ['data' => 1, "\xff" => 1],
        ];
        foreach ($wrong as $job) {
            $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->pushMany([$job]));
        }
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testAPushOfManySaysHowFarItCame(): void
    {
        $jobs = static function (int $refused, array $job): iterable {
            for ($number = 0; $number < 2500; $number++) {
                yield $number === $refused ? $job : ['data' => $number];
            }
        };
        $large = str_repeat('x', 1 << 20);
        $wrong = [
            [1203, ['data' => NAN], 1000, 'the data cannot be JSON'],
            [1204, ['data' => $large], 1000, 'at index 1204; 1000 jobs of the batches before are pushed'],
            [2001, ['data' => 1, 'key' => ''], 2000, 'at index 2001'],
            [0, ['data' => 1, 'prio' => 1], 0, "a job has no argument 'prio' (at index 0; 0 jobs"],
        ];
        foreach ($wrong as [$index, $job, $pushed, $message]) {
            $call = fn () => $this->queue->pushMany($jobs($index, $job), ids: true);
            $error = $this->thrownBy(ExceptionInterface::class, $call);
            assert($error instanceof ExceptionInterface);
            self::assertStringContainsString($message, $error->getMessage());
            self::assertSame([$index, $pushed], [$error->getIndex(), $error->getPushed()?->created]);
            self::assertCount($pushed, $error->getPushed()->ids);
            self::assertSame($pushed, $this->queue->purge('ready'));
        }
        $error = $this->thrownBy(ExceptionInterface::class, fn () => $this->queue->push(NAN));
        assert($error instanceof ExceptionInterface);
        self::assertSame([null, null], [$error->getIndex(), $error->getPushed()]);
    }

    public function testOnlyNewJobsArePushedMany(): void
    {
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->pushMany([new NewJob(1), 'x']));
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->pushMany(7));
    }

    public function testPing(): void
    {
        $this->client->ping();
        $this->addToAssertionCount(1);
    }
}
