<?php

declare(strict_types=1);

namespace Duly\Tests;

/**
 * How many jobs that do nothing one process runs in a second, in several ways: on the same server, one after the other,
 * three times, of which the best counts.
 */
trait Rates
{
    /**
     * @param array<string, list<string>> $ways the arguments of `rate` by what is printed; the first one is 1
     * @param string $ours which one must be so many times faster than the first as `DULY_RATE_AT_LEAST` says
     */
    private function compare(array $ways, string $ours): void
    {
        $rates = [];
        for ($round = 0; $round < 3; $round++) {
            foreach ($ways as $way => $arguments) {
                $rates[$way] = max($rates[$way] ?? 0.0, $this->rate(...$arguments));
            }
        }
        $first = $rates[array_key_first($ways)];
        foreach ($rates as $way => $rate) {
            fprintf(STDERR, "\n%-28s %6.0f jobs/s, %.1f times", $way, $rate, $rate / $first);
        }
        fwrite(STDERR, "\n");
        // The tests have a build without optimizations, whose figures say nothing.
        self::assertGreaterThan((float) (getenv('DULY_RATE_AT_LEAST') ?: 0), $rates[$ours] / $first);
    }

    /** What a worker does that has run `<count> jobs in <seconds> s`, as its last handler notes. */
    private function rateOf(Running $work, int $notesBefore, int $count): float
    {
        $isDone = fn (): bool => count($this->app->notes()) > $notesBefore || !$work->isRunning();
        Server::until($isDone, 'they are not run', 120.0);
        Server::until(fn (): bool => $this->queue->counts()->reserved === 0, 'the last outcome is not sent');
        $work->kill();
        $notes = $this->app->notes();
        self::assertSame(1, preg_match('/^(\d+) jobs in ([\d.]+) s$/', end($notes) ?: '', $found), $work->said());
        self::assertSame($count, (int) $found[1]);
        return $found[1] / $found[2];
    }
}
