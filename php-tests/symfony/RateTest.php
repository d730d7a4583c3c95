<?php

declare(strict_types=1);

namespace Duly\Tests\Symfony;

use Duly\Tests\Rates;

/** Messenger's worker on its own Redis transport, and on duly. */
final class RateTest extends SymfonyTestCase
{
    use Rates;

    private const JOBS = 5_000;

    public function testItIsFasterThanTheTransportOfSymfony(): void
    {
        if (!extension_loaded('redis')) {
            self::markTestSkipped('the transport of Symfony needs the extension redis');
        }
        $ways = ['Messenger, Redis transport' => ['redis'], 'Messenger, duly' => ['orders']];
        $this->compare($ways, 'Messenger, duly');
    }

    private function rate(string $transport): float
    {
        $count = self::JOBS;
        $before = count($this->app->notes());
        $this->app->evaluate("
            for (\$number = 0; \$number < {$count}; \$number++) {
                \$app->send(new Nothing(), '{$transport}');
            }
            \$app->send(new Nothing(isLast: true), '{$transport}');
        ");
        return $this->rateOf($this->start('messenger:consume', $transport), $before, $count + 1);
    }
}
