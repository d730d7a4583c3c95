<?php

declare(strict_types=1);

namespace Duly\Tests\Laravel;

use Duly\Tests\Rates;

/** Laravel's worker on its own Redis driver, and on duly. */
final class RateTest extends LaravelTestCase
{
    use Rates;

    private const JOBS = 5_000;

    public function testItIsFasterThanTheDriverOfLaravel(): void
    {
        if (!extension_loaded('redis')) {
            self::markTestSkipped('the driver of Laravel needs the extension redis');
        }
        $this->compare(['Laravel, Redis driver' => ['redis'], 'Laravel, duly' => ['duly']], 'Laravel, duly');
    }

    private function rate(string $connection): float
    {
        $count = self::JOBS;
        $before = count($this->app->notes());
        $this->app->evaluate("
            \$queue = \$app['queue']->connection('{$connection}');
            \$queue->bulk(array_fill(0, {$count}, App\\Nothing::class));
            \$queue->push(App\\Nothing::class, ['last' => true]);
        ");
        return $this->rateOf($this->start($connection), $before, $count + 1);
    }
}
