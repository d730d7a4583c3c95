<?php

declare(strict_types=1);

namespace Duly\Tests\Symfony;

use Duly\Tests\Kills;

/** Messenger's workers on one queue, killed at random. */
final class KillsTest extends SymfonyTestCase
{
    use Kills;

    private const COMMAND = ['messenger:consume', 'kills'];

    public function testNothingIsLostAndNothingRunsAfterItsAck(): void
    {
        $this->killAtRandom([self::COMMAND, self::COMMAND, self::COMMAND], fn (int $jobs) => $this->app->evaluate(
            "foreach (range(1, {$jobs}) as \$order) { \$app->send(new Watched(\$order), 'kills'); }",
        ));
    }

    /** Messages that were sent again are acked twice. */
    private function isDone(int $jobs): bool
    {
        $counts = $this->queue->counts();
        return $counts->ready + $counts->delayed + $counts->reserved === 0 && $counts->totals['acked'] >= $jobs;
    }
}
