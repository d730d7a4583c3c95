<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Server;

/**
 * How many jobs that do nothing one process runs in a second: think-queue's worker on its own Redis driver, on this
 * connector and on one that does nothing either, and `duly:work`; on the same server, one after the other, three times.
 */
final class RateTest extends ThinkTestCase
{
    private const JOBS = 5_000;
    /** The connection of `Queue::push`, and the command. */
    private const WAYS = [
        'queue:work, Redis driver' => ['redis', 'queue:work', 'redis', '--quiet'],
        'queue:work, duly' => ['duly', 'queue:work', 'duly', '--quiet'],
        'queue:work, no queue at all' => ['none', 'queue:work', 'none', '--quiet'],
        'duly:work, think-queue' => ['duly', 'duly:work'],
        'duly:work, by name' => ['', 'duly:work'],
    ];

    public function testItIsFasterThanTheDriverOfThinkQueue(): void
    {
        if (!extension_loaded('redis')) {
            self::markTestSkipped('the driver of think-queue needs the extension redis');
        }
        $rates = [];
        for ($round = 0; $round < 3; $round++) {
            foreach (self::WAYS as $way => $arguments) {
                $rates[$way] = max($rates[$way] ?? 0.0, $this->rate(...$arguments));
            }
        }
        $first = $rates['queue:work, Redis driver'];
        foreach ($rates as $way => $rate) {
            fprintf(STDERR, "\n%-28s %6.0f jobs/s, %.1f times", $way, $rate, $rate / $first);
        }
        fwrite(STDERR, "\n");
        // The tests have a build without optimizations, whose figures say nothing.
        $atLeast = (float) (getenv('DULY_RATE_AT_LEAST') ?: 0);
        self::assertGreaterThan($atLeast, $rates['queue:work, duly'] / $first);
    }

    private function rate(string $connection, string ...$command): float
    {
        $count = self::JOBS;
        $before = count($this->app->notes());
        $push = $connection === ''
            ? "\$job = fn (array \$data) => ['data' => \$data, 'name' => 'app\\job\\Nothing@handle'];
                duly()->pushMany([...array_fill(0, {$count}, \$job([])), \$job(['last' => true])]);"
            : "\$queue = think\\facade\\Queue::connection('{$connection}');
                \$queue->bulk(array_fill(0, {$count}, 'Nothing'));
                \$queue->push('Nothing', ['last' => true]);";
        $connection === 'none' || $this->app->evaluate($push);
        $work = $this->start(...$command);
        Server::until(fn (): bool => count($this->app->notes()) > $before, 'they are not run', 120.0);
        Server::until(fn (): bool => $this->queue->counts()->reserved === 0, 'the last outcome is not sent');
        $work->kill();
        $notes = $this->app->notes();
        self::assertSame(1, preg_match('/^(\d+) jobs in ([\d.]+) s$/', end($notes) ?: '', $found));
        self::assertSame($count + 1, (int) $found[1]);
        return $found[1] / $found[2];
    }
}
