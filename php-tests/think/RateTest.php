<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Rates;

/** think-queue's worker on its own Redis driver, on this connector and on one that does nothing, and `duly:work`. */
final class RateTest extends ThinkTestCase
{
    use Rates;

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
        $this->compare(self::WAYS, 'queue:work, duly');
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
        return $this->rateOf($this->start(...$command), $before, $count + 1);
    }
}
