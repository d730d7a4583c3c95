<?php

declare(strict_types=1);

namespace Duly\Tests;

final class ForkTest extends ServerTestCase
{
    public function testParentAndChildBothGoOnAfterAFork(): void
    {
        $program = $this->program('
            $queue = $client->queue("q");
            $queue->push("before");
            $engine = new Duly\WorkerEngine($client, ["q"], 1, 30, 5);
            $job = $engine->next(10);
            $child = pcntl_fork();
            if ($child === 0) {
                // The engine is the parent\'s. This process may have its own.
                $inert = [$engine->next(0), $engine->isOver(), $engine->interruption(), $engine->ended(0)];
                $engine->fail("not mine");
                $engine->stop();
                $queue->push("child", name: "other");
                $own = new Duly\WorkerEngine($client, ["q"], 1, 30, 5);
                $right = $inert === [null, true, null, true] && $own->next(10)->name === "other";
                $own->done();
                $own->stop();
                exit($right && $own->ended(10) ? 4 : 1);
            }
            pcntl_waitpid($child, $status);
            say("the child ended with " . pcntl_wexitstatus($status));
            $queue->push("parent");
            $engine->next(10);
            $engine->done();
            $engine->stop();
            say("ended: " . var_export($engine->ended(10), true) . ", " . json_encode($engine->report()));
        ');
        self::assertSame(0, $program->end(), $program->said());
        self::assertSame(
            "the child ended with 4\nended: true, {\"acked\":2,\"expired\":0,\"failed\":0,\"lost\":0,\"released\":0}\n",
            $program->said(),
        );
        $totals = $this->queue->counts()->totals;
        self::assertSame([3, 3], [$totals['pushed'], $totals['acked']]);
    }

    public function testAHandlerMayForkAndItsChildMayExit(): void
    {
        $this->queue->push(1, name: 'n');
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], maxJobs: 1, log: "say");
            $worker->on("n", function () {
                $child = pcntl_fork();
                if ($child === 0) {
                    exit(3);
                }
                pcntl_waitpid($child, $status);
                say("the child ended with " . pcntl_wexitstatus($status));
            });
            $worker->run();
        ');
        self::assertSame(0, $program->end());
        self::assertSame("the child ended with 3\n", $program->said());
        self::assertSame(1, $this->queue->counts()->totals['acked']);
    }
}
