<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Kills;

/** Workers of both commands on one queue, killed at random. */
final class KillsTest extends ThinkTestCase
{
    use Kills;

    private const COMMANDS = [['queue:work', '--sleep=1'], ['queue:work', '--queue=other,default'], ['duly:work']];

    public function testNothingIsLostAndNothingRunsAfterItsAck(): void
    {
        $this->app->replace('config/queue.php', "'lease' => 1", "'lease' => 2");
        $this->app->replace('config/duly.php', "'lease' => 1", "'lease' => 2");
        $this->killAtRandom(self::COMMANDS, fn (int $jobs) => $this->app->evaluate(
            "foreach (range(1, {$jobs}) as \$order) { think\\facade\\Queue::push('Watched', \$order); }",
        ));
    }
}
