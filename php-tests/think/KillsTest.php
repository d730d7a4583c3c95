<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Server;

/** Workers of both commands on one queue, killed at random. */
final class KillsTest extends ThinkTestCase
{
    private const COMMANDS = [['queue:work', '--sleep=1'], ['queue:work', '--queue=other,default'], ['duly:work']];

    public function testNothingIsLostAndNothingRunsAfterItsAck(): void
    {
        $jobs = (int) (getenv('DULY_KILL_JOBS') ?: 2_000);
        $seed = (int) (getenv('DULY_KILL_SEED') ?: random_int(1, 1_000_000));
        mt_srand($seed);
        $this->app->replace('config/queue.php', "'lease' => 1", "'lease' => 2");
        $this->app->replace('config/duly.php', "'lease' => 1", "'lease' => 2");
        $push = "think\\facade\\Queue::push('Watched', \$order);";
        $this->app->evaluate("foreach (range(1, {$jobs}) as \$order) { {$push} }");
        $workers = array_map(fn (array $command): Running => $this->start(...$command), self::COMMANDS);
        $kills = 0;
        $isDone = fn (): bool => ($this->totals()['acked'] ?? 0) >= $jobs;
        $until = microtime(true) + 60 + $jobs / 20;
        while (!$isDone()) {
            self::assertLessThan($until, microtime(true), "seed {$seed}: " . json_encode($this->queue->counts()));
            $next = microtime(true) + mt_rand(50, 500) / 1000;
            Server::until(static fn (): bool => microtime(true) > $next || $isDone(), '');
            $victim = mt_rand(0, count($workers) - 1);
            $workers[$victim]->kill();
            $workers[$victim] = $this->start(...self::COMMANDS[$victim]);
            $kills++;
        }
        array_map(static fn (Running $worker) => $worker->kill(), $workers);
        $runs = preg_grep('/^run /', $this->app->notes()) ?: [];
        fprintf(STDERR, "\n%d jobs, %d runs, %d kills, seed %d\n", $jobs, count($runs), $kills, $seed);
        self::assertCount($jobs, array_unique($runs), "lost, seed {$seed}");
        self::assertSame([], preg_grep('/^after /', $this->app->notes()), "seed {$seed}");
        $counts = $this->queue->counts();
        self::assertSame([0, 0, 0, 0], [$counts->ready, $counts->delayed, $counts->reserved, $counts->failed]);
        self::assertSame($jobs, $counts->totals['acked']);
        self::assertGreaterThan(0, $kills);
    }
}
