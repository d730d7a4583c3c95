<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;

/** The history of a queue: the life of a job. */
final class HistoryTest extends ServerTestCase
{
    public function testTheLifeOfAJobIsKnownWhenItIsGone(): void
    {
        $this->queue->keepHistory();
        $id = $this->queue->push(['order' => 42]);
        $this->queue->reserve()->fail('RuntimeException: no such order', final: true);
        $trace = $this->queue->trace($id);
        self::assertSame(['failed', ['order' => 42]], [$trace->job->state, $trace->job->data()]);
        $this->queue->purge('failed');
        $trace = $this->queue->trace($id);
        self::assertSame([$id, true, null], [$trace->id, $trace->kept, $trace->job]);
        self::assertSame(['pushed', 'reserved', 'failed', 'purged'], array_column($trace->events, 'what'));
        [$pushed] = $trace->events;
        self::assertSame(['php', getmypid(), gethostname()], [$pushed->language, $pushed->pid, $pushed->host]);
        self::assertEqualsWithDelta(microtime(true), $pushed->at, 60);
        self::assertNull($pushed->due);
        [$run] = $trace->runs;
        self::assertSame([1, 'failed', 'RuntimeException'], [$run->attempt, $run->outcome, $run->errorClass]);
        self::assertSame($run->reservedAt, $run->startedAt);
        self::assertGreaterThanOrEqual($run->startedAt, $run->endedAt);
        self::assertNull($this->queue->trace('nobody'));
        $this->queue->keepHistory(0);
        self::assertNull($this->queue->trace($id));
    }

    public function testARunOfAWorkerIsToldWithHowLongItTook(): void
    {
        $this->queue->keepHistory(100, new \DateInterval('PT1H'));
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], log: "say");
            $worker->on("wait", fn () => usleep(30_000));
            $worker->run();
        ');
        $id = $this->queue->push(1, name: 'wait');
        Server::until(fn (): bool => $this->queue->find($id) === null, 'nobody runs it');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        [$run] = $this->queue->trace($id)->runs;
        self::assertSame(['done', 'php', $program->pid()], [$run->outcome, $run->language, $run->pid]);
        self::assertGreaterThan(0.029, $run->endedAt - $run->startedAt);
        self::assertGreaterThan(0.029, $this->queue->trace($id)->events[2]->took);
    }

    public function testAnIntervalIsASpan(): void
    {
        self::assertSame(60.0, $this->queue->rates(new \DateInterval('PT2H'))->step);
        self::assertSame(600.0, $this->queue->rates(new \DateInterval('P1D'))->step);
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->rates(new \DateInterval('P4D')));
        $this->queue->keepHistory(age: new \DateInterval('P1D'));
        $this->queue->push(1, id: 'a');
        self::assertTrue($this->queue->trace('a')->kept);
    }

    public function testBoundsThatMakeNoSenseAreRefused(): void
    {
        foreach ([[-1], [1_000_001], [1, 0], [1, -1.0]] as $wrong) {
            $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->keepHistory(...$wrong));
        }
        $this->queue->push(1, id: 'a');
        self::assertFalse($this->queue->trace('a')->kept);
    }
}
