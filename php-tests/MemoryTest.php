<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Worker;

final class MemoryTest extends ServerTestCase
{
    public function testTwentyThousandJobsNeedNoMoreMemoryThanTheFirst(): void
    {
        $this->rounds(2000);
        [$php, $process] = [memory_get_usage(), self::residentBytes()];
        $this->rounds(9000);
        $half = self::residentBytes();
        $this->rounds(9000);
        self::assertLessThan($php + 65536, memory_get_usage());
        self::assertLessThan($process + (8 << 20), self::residentBytes());
        self::assertLessThan($half + (4 << 20), self::residentBytes());
    }

    public function testErrorsNeedNoMemory(): void
    {
        $this->queue->push(1, id: 'a');
        $provoke = function (int $times): void {
            for (; $times > 0; $times--) {
                $this->thrownBy(\RuntimeException::class, fn () => $this->queue->push(1, id: 'a'));
                $this->thrownBy(\InvalidArgumentException::class, fn () => $this->queue->push(NAN));
            }
        };
        $provoke(200);
        $before = memory_get_usage();
        $provoke(1000);
        self::assertLessThan($before + 32768, memory_get_usage());
    }

    public function testMessagesNeedNoMemoryWhenTheyAreGone(): void
    {
        $topic = $this->client->topic('logs');
        $topic->subscribe('a');
        $read = function (int $times) use ($topic): void {
            for (; $times > 0; $times--) {
                $topic->publishAll([['text' => str_repeat('x', 100)], [1], null]);
                $topic->ack('a', $topic->pull('a', lease: 60));
                $this->thrownBy(\InvalidArgumentException::class, fn () => $topic->publishAll([[1], NAN]));
                $topic->info();
            }
        };
        $read(200);
        $before = memory_get_usage();
        $read(1000);
        self::assertLessThan($before + 32768, memory_get_usage());
    }

    public function testAnIterableNeedsNoMemoryWhenItIsPushed(): void
    {
        $push = function (int $times): void {
            for (; $times > 0; $times--) {
                $this->queue->pushMany((static fn () => yield ['data' => 1, 'id' => 'a', 'onDuplicate' => 'keep'])());
                $this->queue->pushMany(new \ArrayIterator([['data' => 1, 'id' => 'a', 'onDuplicate' => 'keep']]));
                try {
                    $this->queue->pushMany(new \ArrayIterator([1]));
                } catch (\InvalidArgumentException) {
                }
            }
        };
        $push(50);
        $before = memory_get_usage();
        $push(500);
        self::assertLessThan($before + 32768, memory_get_usage());
    }

    public function testAWorkerNeedsNoMemoryWhenItIsGone(): void
    {
        $work = function (int $times): void {
            for (; $times > 0; $times--) {
                $this->queue->push(1, name: 'n');
                $worker = new Worker($this->client, ['q'], maxJobs: 1);
                $worker->on('n', static fn () => null)->run();
            }
        };
        $work(5);
        $before = memory_get_usage();
        $work(50);
        self::assertLessThan($before + 16384, memory_get_usage());
    }

    private function rounds(int $rounds): void
    {
        $data = ['order' => 42, 'text' => str_repeat('x', 200), 'empty' => new \stdClass()];
        for (; $rounds > 0; $rounds--) {
            $this->queue->push($data, name: 'order.close', headers: ['a' => 'b']);
            $job = $this->queue->reserve();
            $job->data();
            $job->headers;
            $job->ack();
        }
    }

    private static function residentBytes(): int
    {
        return 4096 * (int) explode(' ', (string) file_get_contents('/proc/self/statm'))[1];
    }
}
