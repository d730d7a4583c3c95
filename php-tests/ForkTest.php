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
            $keeper = new Duly\LeaseKeeper($client, 1.0);
            $job = $queue->reserve();
            $keeper->hold($job);
            $child = pcntl_fork();
            $queue->push($child === 0 ? "child" : "parent");
            if ($child === 0) {
                $queue->ackMany($queue->reserveMany(0 + 1));
                $keeper->letGo($job);
                exit(4);
            }
            pcntl_waitpid($child, $status);
            say("the child ended with " . pcntl_wexitstatus($status));
            $job->ack();
            $queue->push("after");
        ');
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringContainsString('the child ended with 4', $program->said());
        $totals = $this->queue->counts()->totals;
        self::assertSame([4, 2], [$totals['pushed'], $totals['acked']]);
    }
}
