<?php

declare(strict_types=1);

namespace Duly\Tests;

/**
 * Workers of one queue, killed at random: `DULY_KILL_JOBS`, `DULY_KILL_SEED`. Handlers note `run <job>`, or
 * `after <job> <state>` where the server does not say that the job is reserved.
 */
trait Kills
{
    /**
     * @param list<list<string>> $commands
     * @param callable(int): mixed $push so many
     */
    private function killAtRandom(array $commands, callable $push): void
    {
        $jobs = (int) (getenv('DULY_KILL_JOBS') ?: 2_000);
        $seed = (int) (getenv('DULY_KILL_SEED') ?: random_int(1, 1_000_000));
        mt_srand($seed);
        $push($jobs);
        $workers = array_map(fn (array $command): Running => $this->start(...$command), $commands);
        $kills = 0;
        $isDone = fn (): bool => $this->isDone($jobs);
        $until = microtime(true) + 60 + $jobs / 20;
        while (!$isDone()) {
            self::assertLessThan($until, microtime(true), "seed {$seed}: " . json_encode($this->queue->counts()));
            $next = microtime(true) + mt_rand(50, 500) / 1000;
            Server::until(static fn (): bool => microtime(true) > $next || $isDone(), '');
            $victim = mt_rand(0, count($workers) - 1);
            $children = self::childrenOf($workers[$victim]->pid());
            if ($children !== [] && mt_rand(0, 2) > 0) {
                // Without a word to its supervisor, which replaces it.
                posix_kill($children[mt_rand(0, count($children) - 1)], SIGKILL);
            } else {
                $workers[$victim]->kill();
                $workers[$victim] = $this->start(...$commands[$victim]);
            }
            $kills++;
        }
        array_map(static fn (Running $worker) => $worker->kill(), $workers);
        $runs = preg_grep('/^run /', $this->app->notes()) ?: [];
        fprintf(STDERR, "\n%d jobs, %d runs, %d kills, seed %d\n", $jobs, count($runs), $kills, $seed);
        self::assertCount($jobs, array_unique($runs), "lost, seed {$seed}");
        self::assertSame([], preg_grep('/^after /', $this->app->notes()), "seed {$seed}");
        $counts = $this->queue->counts();
        self::assertSame([0, 0, 0, 0], [$counts->ready, $counts->delayed, $counts->reserved, $counts->failed]);
        self::assertGreaterThan(0, $kills);
    }

    /** @return list<int> the processes that a supervisor has */
    private static function childrenOf(int $pid): array
    {
        $found = implode(' ', array_map('file_get_contents', glob("/proc/{$pid}/task/*/children") ?: []));
        return array_map('intval', preg_split('/\s+/', $found, -1, PREG_SPLIT_NO_EMPTY) ?: []);
    }

    /** Whether all of so many jobs were done. */
    private function isDone(int $jobs): bool
    {
        return ($this->totals()['acked'] ?? 0) >= $jobs;
    }
}
