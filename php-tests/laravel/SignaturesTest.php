<?php

declare(strict_types=1);

namespace Duly\Tests\Laravel;

use Duly\Tests\Signatures;
use PHPUnit\Framework\TestCase;

/** The methods of Laravel that the driver stands on, as data: checked also where there is no Laravel. */
final class SignaturesTest extends TestCase
{
    use Signatures;

    private const WITHOUT = LaravelTestCase::WITHOUT;
    private const SOURCE = __DIR__ . '/../../examples/drivers/laravel';

    public function testTheMethodsOfTheDriverFitThoseOfLaravel(): void
    {
        self::assertFits(self::SOURCE . '/DulyQueue.php', 'Illuminate\Contracts\Queue\Queue');
        self::assertFits(self::SOURCE . '/DulyQueue.php', 'Illuminate\Queue\Queue');
        self::assertFits(self::SOURCE . '/DulyJob.php', 'Illuminate\Queue\Jobs\Job');
        self::assertFits(self::SOURCE . '/DulyConnector.php', 'Illuminate\Queue\Connectors\ConnectorInterface');
    }

    private static function folder(): string
    {
        return __DIR__;
    }

    private static function framework(): ?string
    {
        return LaravelApp::vendor();
    }
}
