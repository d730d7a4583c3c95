<?php

declare(strict_types=1);

namespace Duly\Tests;

/**
 * The methods of a framework that a driver stands on, as data in `signatures.php`: compared with the driver's files,
 * which are not loaded, and with the framework where there is one.
 */
trait Signatures
{
    /** The folder of `signatures.php`. */
    abstract private static function folder(): string;

    /** The folder with the framework, or null. */
    abstract private static function framework(): ?string;

    /** @return array<string, array<string, string>> */
    private static function known(): array
    {
        return require static::folder() . '/signatures.php';
    }

    /** @return iterable<string, array{string}> */
    public static function classes(): iterable
    {
        foreach (array_keys(self::known()) as $class) {
            yield $class => [$class];
        }
    }

    /** @dataProvider classes */
    public function testTheSignaturesAreThoseOfTheFramework(string $class): void
    {
        $vendor = static::framework();
        if ($vendor === null) {
            self::markTestSkipped(self::WITHOUT);
        }
        require_once "{$vendor}/autoload.php";
        $real = new \ReflectionClass($class);
        foreach (self::known()[$class] as $name => $expected) {
            $method = $real->getMethod($name);
            $parameters = array_map(
                static fn (\ReflectionParameter $parameter): string => $parameter->getName()
                    . ($parameter->isOptional() ? '?' : ''),
                $method->getParameters(),
            );
            $found = ($method->isAbstract() ? 'abstract ' : '') . implode(', ', $parameters);
            self::assertContains($found, explode(' | ', $expected), "{$class}::{$name}");
        }
    }

    /** Fails where a file declares a method with other parameters than its parent, or lacks an abstract one. */
    private static function assertFits(string $file, string $parent): void
    {
        $own = self::methodsIn((string) file_get_contents($file));
        foreach (self::known()[$parent] as $name => $parameters) {
            $isAbstract = str_starts_with($parameters, 'abstract ');
            self::assertTrue(!$isAbstract || isset($own[$name]), "{$file} must have {$name}");
            if (isset($own[$name]) && $name !== '__construct') {
                $either = array_map(
                    static fn (string $one): string => str_replace('abstract ', '', $one),
                    explode(' | ', $parameters),
                );
                self::assertContains($own[$name], $either, "{$file}: {$name}");
            }
        }
    }

    /** @return array<string, string> the parameters of the methods that a file declares */
    private static function methodsIn(string $code): array
    {
        $methods = [];
        $code = (string) preg_replace('/#\[.*?\]/', '', $code);
        preg_match_all('/ function (\w+)\(((?:[^()]|\([^()]*\))*)\)/', $code, $found, PREG_SET_ORDER);
        foreach ($found as [, $name, $parameters]) {
            preg_match_all('/\$(\w+)( =)?/', $parameters, $each, PREG_SET_ORDER);
            $named = array_map(static fn (array $one): string => $one[1] . (isset($one[2]) ? '?' : ''), $each);
            $methods[$name] = implode(', ', $named);
        }
        return $methods;
    }
}
