<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\NewJob;

final class ExpiryTest extends ServerTestCase
{
    public function testAnExpiryIsASpanOrATime(): void
    {
        $given = [60, 60.5, new \DateInterval('PT1M'), new \DateTimeImmutable('+1 minute'), new \DateTime('+1 minute')];
        foreach ($given as $expires) {
            $id = $this->queue->push(1, expires: $expires);
            self::assertEqualsWithDelta(microtime(true) + 60, $this->queue->find($id)->expires, 30);
        }
        $this->queue->pushMany([['data' => 1, 'expires' => 60], new NewJob(1, expires: 60), new NewJob(1)]);
        $jobs = $this->queue->reserveMany(10);
        self::assertCount(8, $jobs);
        self::assertSame(7, count(array_filter($jobs, fn ($job): bool => $job->expires !== null)));
        self::assertNull(end($jobs)->expires);
    }

    /** @dataProvider noTimes */
    public function testWhatIsNoTimeIsRefused(mixed $expires): void
    {
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push(1, expires: $expires));
        self::assertStringContainsString('expires', $error->getMessage());
        self::assertSame(0, $this->queue->counts()->ready);
    }

    /** @return iterable<string, list<mixed>> */
    public static function noTimes(): iterable
    {
        yield 'text' => ['soon'];
        yield 'bool' => [true];
        yield 'negative' => [-1];
        yield 'nothing' => [0];
        yield 'past' => [new \DateTimeImmutable('-1 minute')];
    }

    public function testAWorkerLogsWhatItDrops(): void
    {
        $late = $this->queue->push(1, name: 'late', expires: 0.05);
        $hasExpired = fn (): bool => str_starts_with($this->queue->find($late)->why, 'expired');
        Server::until($hasExpired, 'it does not expire', 20);
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], log: "say");
            $worker->on("late", fn () => print("it ran\n"))->on("stop", fn () => $worker->stop());
            $worker->run();
        ');
        $isCounted = fn (): bool => ($this->queue->counts()->totals['expired'] ?? 0) === 1;
        Server::until($isCounted, 'it is not counted', 20);
        $this->queue->push(1, name: 'stop');
        self::assertSame(0, $program->end());
        self::assertStringContainsString("{$late} (late, attempt 1) of queue q expired before", $program->said());
    }
}
