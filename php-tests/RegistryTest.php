<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Exception\LeaseLostException;
use Duly\Worker;

final class RegistryTest extends ServerTestCase
{
    public function testAWorkerIsListedWithWhatItRunsUntilItStops(): void
    {
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q", "mail"], lease: 1, log: "say", name: "nightly");
            $worker->on("wait", function (mixed $data, Duly\Job $job) use ($client): void {
                $job->progress(0.4, "4 of 10");
                while ($client->queue("q")->find(key: "go on") === null) {
                    usleep(5000);
                }
            });
            $worker->run();
        ');
        $id = $this->queue->push(['secret' => 42], name: 'wait');
        $runs = fn (): bool => ($this->queue->workers()[0]->running ?? []) !== [];
        Server::until($runs, 'nobody says that it runs');
        [$worker] = $this->queue->workers();
        self::assertSame(['nightly', 'php', phpversion('duly')], [$worker->name, $worker->language, $worker->version]);
        self::assertSame([gethostname(), ['q', 'mail'], 1], [$worker->host, $worker->queues, $worker->concurrency]);
        self::assertSame($program->pid(), $worker->pid);
        self::assertEqualsWithDelta(microtime(true), $worker->startedAt, 60);
        [$run] = $worker->running;
        self::assertSame([$id, 'wait'], [$run->id, $run->name]);
        self::assertGreaterThanOrEqual($worker->startedAt - 1, $run->startedAt);
        $progress = $this->queue->find($id)->progress;
        self::assertSame([0.4, '4 of 10'], [$progress->fraction, $progress->text]);
        self::assertEqualsWithDelta(microtime(true), $progress->at, 60);
        $this->queue->push(1, key: 'go on', delay: 3600);
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        self::assertSame([], $this->queue->workers());
    }

    public function testAWorkerThatIsKilledIsLeftOutAfterItsTime(): void
    {
        $program = $this->program('
            (new Duly\Worker($client, ["q"], lease: 1, log: "say"))->on("n", fn () => null)->run();
        ');
        Server::until(fn (): bool => count($this->queue->workers()) === 1, 'it is not listed');
        self::assertNull($this->queue->workers()[0]->name);
        $program->signal(SIGKILL);
        // With the lease that is usual it would be half a minute.
        Server::until(fn (): bool => $this->queue->workers() === [], 'it is listed for ever', 20);
    }

    public function testWhatMakesNoSenseIsRefused(): void
    {
        $this->thrownBy(InvalidArgumentException::class, fn () => new Worker($this->client, ['q'], name: "a\nb"));
        $this->queue->push(1);
        $job = $this->queue->reserve();
        foreach ([-0.1, 1.1, NAN, INF, '0.5', true] as $wrong) {
            $this->thrownBy(InvalidArgumentException::class, fn () => $job->progress($wrong));
        }
        $this->thrownBy(InvalidArgumentException::class, fn () => $job->progress(1, "\xff"));
        $job->progress(1);
        self::assertSame('', $this->queue->peek('reserved')[0]->progress->text);
        $job->ack();
        $this->thrownBy(LeaseLostException::class, fn () => $job->progress(1));
    }
}
