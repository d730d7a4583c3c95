<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Signatures;
use PHPUnit\Framework\TestCase;

/** The methods of ThinkPHP that the package stands on, as data: checked also where there is no ThinkPHP. */
final class SignaturesTest extends TestCase
{
    use Signatures;

    private const WITHOUT = ThinkTestCase::WITHOUT;
    private const SOURCE = __DIR__ . '/../../php-binding/php/src/Think';
    /** Of the package, and what they extend. */
    private const CHILDREN = [
        'Connector' => 'think\queue\Connector',
        'Job' => 'think\queue\Job',
        'Service' => 'think\Service',
        'Facade/Duly' => 'think\Facade',
        'Command/Work' => 'think\console\Command',
        'Command/Install' => 'think\console\Command',
        'Command/Failed' => 'think\console\Command',
        'Command/Retry' => 'think\console\Command',
        'Command/Forget' => 'think\console\Command',
        'Command/Flush' => 'think\console\Command',
    ];

    /** @return iterable<string, array{string, string}> */
    public static function children(): iterable
    {
        foreach (self::CHILDREN as $file => $parent) {
            yield $file => [$file, $parent];
        }
    }

    /** @dataProvider children */
    public function testTheMethodsOfThePackageFitThoseOfThinkPhp(string $file, string $parent): void
    {
        self::assertFits(self::SOURCE . "/{$file}.php", $parent);
        $own = self::methodsIn((string) file_get_contents(self::SOURCE . "/{$file}.php"));
        // In some versions of think-queue a connector has these, and its own must stay.
        foreach (['setConnectorName', 'getConnectorName', 'setConnection', 'getConnection'] as $reserved) {
            self::assertArrayNotHasKey($reserved, $own);
        }
    }

    public function testComposerIsToldOfTheServiceAndTheConfiguration(): void
    {
        $composer = json_decode((string) file_get_contents(self::SOURCE . '/../../../composer.json'), true);
        $extra = $composer['extra']['think'];
        foreach ($extra['services'] as $service) {
            self::assertFileExists(self::SOURCE . '/' . substr($service, strlen('Duly\Think\\')) . '.php');
        }
        self::assertSame(['duly'], array_keys($extra['config']));
        foreach ([...$extra['config'], ...$composer['autoload']['files']] as $file) {
            self::assertFileExists(self::SOURCE . "/../../../{$file}");
        }
    }

    private static function folder(): string
    {
        return __DIR__;
    }

    private static function framework(): ?string
    {
        return ThinkApp::vendor();
    }
}
