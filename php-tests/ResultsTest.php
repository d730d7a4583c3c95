<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Exception\JobFailedException;
use Duly\Exception\NoResultException;
use Duly\Exception\TimeoutException;
use Duly\NewJob;

final class ResultsTest extends ServerTestCase
{
    public function testWhatAHandlerReturnsIsTheResult(): void
    {
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], log: "say");
            $worker->on("sum", fn (array $data): array => ["sum" => array_sum($data)])
                ->on("nothing", function (): void { })
                ->on("by hand", function (array $data, Duly\Job $job): string {
                    $job->ack("by hand");
                    return "not this";
                })
                ->on("closure", fn (): \Closure => fn () => 1)
                ->on("large", fn (): string => str_repeat("x", 1 << 20))
                ->on("stop", fn () => $worker->stop());
            $worker->run();
        ');
        $ask = function (string $name, int|float|null $resultTtl = 60): mixed {
            $id = $this->queue->push([1, 2, 3.5], name: $name, maxRetries: 0, resultTtl: $resultTtl);
            return $this->queue->waitResult($id, timeout: 10);
        };
        self::assertSame(['sum' => 6.5], $ask('sum'));
        self::assertNull($ask('nothing'));
        self::assertSame('by hand', $ask('by hand'));
        $refused = ['closure' => 'the result is an object that JSON has nothing of', 'large' => 'maxDataBytes'];
        foreach ($refused as $name => $said) {
            $error = $this->thrownBy(JobFailedException::class, fn () => $ask($name));
            self::assertStringContainsString($said, $error->getMessage());
        }
        // What nobody wants is not looked at.
        $this->thrownBy(NoResultException::class, fn () => $ask('closure', null));
        $this->queue->push(1, name: 'stop');
        self::assertSame(0, $program->end());
        self::assertSame([5, 2], [$this->queue->counts()->totals['acked'], $this->queue->counts()->failed]);
    }

    public function testAWaitWithoutAResultEndsWithItsTimeout(): void
    {
        $this->queue->pushMany([['data' => 1, 'id' => 'a', 'resultTtl' => 60], new NewJob(2, resultTtl: 1.5)]);
        $before = hrtime(true);
        $error = $this->thrownBy(TimeoutException::class, fn () => $this->queue->waitResult('a', 0.2));
        self::assertGreaterThanOrEqual(0.2, (hrtime(true) - $before) / 1e9);
        self::assertStringContainsString('not done yet', $error->getMessage());
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->waitResult('a', -1));
        [$job, $second] = $this->queue->reserveMany(2);
        self::assertSame([60.0, 1.5], [$job->resultTtl, $second->resultTtl]);
        $this->thrownBy(InvalidArgumentException::class, fn () => $job->ack(NAN));
        self::assertFalse($job->settled);
        $job->ack(['a' => (object) ['b' => 1]]);
        self::assertTrue($job->settled);
        self::assertSame(['a' => ['b' => 1]], $this->queue->waitResult('a'));
        self::assertEquals((object) ['a' => (object) ['b' => 1]], $this->queue->waitResult('a', assoc: false));
    }

    public function testASignalHandlerRunsWhileAResultIsAwaited(): void
    {
        $id = $this->queue->push(1, resultTtl: 60);
        $program = $this->program('
            pcntl_signal(SIGTERM, function () { throw new DomainException("mine"); });
            say("waiting");
            try {
                $client->queue("q")->waitResult("' . $id . '");
            } catch (DomainException $error) {
                say("caught " . $error->getMessage());
            }
        ');
        $program->hear('waiting');
        $this->server->untilSomebodyWaits();
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        self::assertStringContainsString('caught mine', $program->said());
    }
}
