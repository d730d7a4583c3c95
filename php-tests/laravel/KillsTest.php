<?php

declare(strict_types=1);

namespace Duly\Tests\Laravel;

use Duly\Tests\Kills;

/** Laravel's workers on one queue, killed at random. */
final class KillsTest extends LaravelTestCase
{
    use Kills;

    private const COMMANDS = [['kills', '--tries=0'], ['kills', '--tries=0', '--queue=other,default']];

    public function testNothingIsLostAndNothingRunsAfterItsAck(): void
    {
        $this->killAtRandom(self::COMMANDS, fn (int $jobs) => $this->app->evaluate(
            "foreach (range(1, {$jobs}) as \$order) { \$queue->push(App\\Watched::class, ['order' => \$order]); }",
        ));
    }
}
