<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use PHPUnit\Framework\TestCase;

/** The methods of ThinkPHP that the package stands on, as data: checked also where there is no ThinkPHP. */
final class SignaturesTest extends TestCase
{
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
        $own = self::methodsIn((string) file_get_contents(self::SOURCE . "/{$file}.php"));
        $known = self::signatures()[$parent];
        foreach ($known as $name => $parameters) {
            $isAbstract = str_starts_with($parameters, 'abstract ');
            $parameters = $isAbstract ? substr($parameters, strlen('abstract ')) : $parameters;
            self::assertTrue(!$isAbstract || isset($own[$name]), "{$file} must have {$name}");
            if (isset($own[$name]) && $name !== '__construct') {
                self::assertSame($parameters, $own[$name], $name);
            }
        }
        // In some versions of think-queue a connector has these, and its own must stay.
        foreach (['setConnectorName', 'getConnectorName', 'setConnection', 'getConnection'] as $reserved) {
            self::assertArrayNotHasKey($reserved, $own);
        }
    }

    /** @return iterable<string, array{string}> */
    public static function classes(): iterable
    {
        foreach (array_keys(self::signatures()) as $class) {
            yield $class => [$class];
        }
    }

    /** @dataProvider classes */
    public function testTheSignaturesAreThoseOfThinkPhp(string $class): void
    {
        $vendor = ThinkApp::vendor();
        if ($vendor === null) {
            self::markTestSkipped(ThinkTestCase::WITHOUT);
        }
        require_once "{$vendor}/autoload.php";
        $real = new \ReflectionClass($class);
        foreach (self::signatures()[$class] as $name => $expected) {
            $method = $real->getMethod($name);
            $parameters = array_map(
                static fn (\ReflectionParameter $parameter): string => $parameter->getName()
                    . ($parameter->isOptional() ? '?' : ''),
                $method->getParameters(),
            );
            $found = ($method->isAbstract() ? 'abstract ' : '') . implode(', ', $parameters);
            self::assertSame($expected, $found, "{$class}::{$name}");
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

    /** @return array<string, array<string, string>> */
    private static function signatures(): array
    {
        return require __DIR__ . '/signatures.php';
    }

    /** @return array<string, string> the parameters of the methods that a file declares, which is not loaded */
    private static function methodsIn(string $code): array
    {
        $methods = [];
        preg_match_all('/ function (\w+)\(((?:[^()]|\([^()]*\))*)\)/', $code, $found, PREG_SET_ORDER);
        foreach ($found as [, $name, $parameters]) {
            preg_match_all('/\$(\w+)( =)?/', $parameters, $each, PREG_SET_ORDER);
            $named = array_map(static fn (array $one): string => $one[1] . (isset($one[2]) ? '?' : ''), $each);
            $methods[$name] = implode(', ', $named);
        }
        return $methods;
    }
}
