<?php

declare(strict_types=1);

namespace Duly\Tests;

use PHPUnit\Framework\TestCase;

/** The stubs say what the extension declares: read under other names and compared by reflection. */
final class StubsTest extends TestCase
{
    /** @return list<string> the extension's classes without `Duly\` */
    private static function declared(): array
    {
        $names = (new \ReflectionExtension('duly'))->getClassNames();
        // Those that are registered by hand come after the list of the module was made, so look at all.
        foreach ([...get_declared_classes(), ...get_declared_interfaces()] as $name) {
            if (str_starts_with($name, 'Duly\\') && (new \ReflectionClass($name))->isInternal()) {
                $names[] = $name;
            }
        }
        $names = array_values(array_unique(array_map(static fn (string $name): string => substr($name, 5), $names)));
        sort($names);
        return $names;
    }

    public static function setUpBeforeClass(): void
    {
        $code = (string) file_get_contents(__DIR__ . '/../php-binding/duly.stubs.php');
        $code = str_replace('namespace Duly', 'namespace Stub\Duly', substr($code, strlen('<?php')), $replaced);
        self::assertSame(2, $replaced);
        eval($code);
    }

    public function testTheSameClassesAreThere(): void
    {
        $stubs = [];
        foreach ([...get_declared_classes(), ...get_declared_interfaces()] as $name) {
            if (str_starts_with($name, 'Stub\Duly\\')) {
                $stubs[] = substr($name, strlen('Stub\Duly\\'));
            }
        }
        sort($stubs);
        self::assertSame(self::declared(), $stubs);
        self::assertCount(49 + 3 + 1 + 26, $stubs);
    }

    /** @return iterable<string, array{string}> */
    public static function classes(): iterable
    {
        foreach (self::declared() as $name) {
            yield $name => [$name];
        }
    }

    /** @dataProvider classes */
    public function testTheStubIsAsTheClass(string $name): void
    {
        $real = new \ReflectionClass("Duly\\{$name}");
        $stub = new \ReflectionClass("Stub\\Duly\\{$name}");
        self::assertSame($real->isFinal(), $stub->isFinal());
        self::assertSame($real->isInterface(), $stub->isInterface());
        self::assertSame(self::name($real->getParentClass() ?: null), self::name($stub->getParentClass() ?: null));
        self::assertSame(self::interfaces($real), self::interfaces($stub));
        self::assertSame(self::properties($real), self::properties($stub));
        self::assertSame(self::methods($real), self::methods($stub));
        foreach (self::methods($stub) as $method) {
            $this->compare($real->getMethod($method), $stub->getMethod($method));
        }
        self::assertNotFalse($stub->getDocComment());
        self::assertSame($real->isEnum(), $stub->isEnum());
        if ($real->isEnum()) {
            $cases = static fn (string $enum): array => array_column($enum::cases(), 'value', 'name');
            self::assertSame($cases($real->name), $cases($stub->name));
        }
    }

    public function testTheStubExplainsEveryOptionOfAPush(): void
    {
        $push = new \ReflectionMethod('Stub\Duly\Queue', 'push');
        foreach ($push->getParameters() as $option) {
            $said = self::explained($push, $option->getName());
            self::assertStringContainsString('Default: ', $said, $option->getName());
            if (in_array($option->getName(), ['delay', 'timeout', 'resultTtl'], true)) {
                self::assertStringContainsString('seconds', $said);
            }
        }
        self::assertStringContainsString('0 goes first', self::explained($push, 'priority'));
    }

    /** @dataProvider explainedMethods */
    public function testTheStubExplainsEveryParameter(string $class, string $method): void
    {
        $stub = new \ReflectionMethod("Stub\\Duly\\{$class}", $method);
        self::assertGreaterThan(0, $stub->getNumberOfParameters());
        foreach ($stub->getParameters() as $parameter) {
            self::assertNotSame('', self::explained($stub, $parameter->getName()));
        }
    }

    /** @return iterable<string, array{string, string}> */
    public static function explainedMethods(): iterable
    {
        $methods = [
            'Client' => ['__construct', 'queue', 'partitions', 'topic', 'reserveFrom', 'lock', 'withLock'],
            'Queue' => [
                'reserve', 'reserveMany', 'cancel', 'reschedule', 'requeue', 'find', 'peek', 'keepFailed', 'setLimits',
            ],
            'Job' => ['fail', 'release', 'lock', 'progress', 'extend'],
        ];
        foreach ($methods as $class => $names) {
            foreach ($names as $name) {
                yield "{$class}::{$name}" => [$class, $name];
            }
        }
    }

    /** What is said behind `@param` of this parameter, in one line. */
    private static function explained(\ReflectionMethod $method, string $parameter): string
    {
        $said = preg_replace('/\s*\n\s*\* ?/', "\n", (string) $method->getDocComment());
        $pattern = '/^@param \S.*?\s(?:\.\.\.)?\$' . $parameter . '\b(.+?)(?=^@|^\/|\z)/ms';
        self::assertSame(1, preg_match($pattern, (string) $said, $found), "{$method->name}: {$parameter}");
        return trim(str_replace("\n", ' ', $found[1]));
    }

    private function compare(\ReflectionMethod $real, \ReflectionMethod $stub): void
    {
        $where = "{$real->class}::{$real->name}";
        self::assertSame(\Reflection::getModifierNames($real->getModifiers()), \Reflection::getModifierNames(
            $stub->getModifiers(),
        ), $where);
        $this->compareTypes($real->getReturnType(), $stub->getReturnType(), "{$where}, what it returns");
        self::assertSame($real->getNumberOfParameters(), $stub->getNumberOfParameters(), $where);
        foreach ($real->getParameters() as $index => $parameter) {
            $other = $stub->getParameters()[$index];
            $at = "{$where}, \${$parameter->name}";
            self::assertSame($parameter->name, $other->name, $at);
            self::assertSame($parameter->isOptional(), $other->isOptional(), $at);
            self::assertSame($parameter->isVariadic(), $other->isVariadic(), $at);
            self::assertSame(self::attributes($parameter), self::attributes($other), $at);
            if ($parameter->isDefaultValueAvailable()) {
                self::assertSame($parameter->getDefaultValue(), $other->getDefaultValue(), $at);
            }
            $this->compareTypes($parameter->getType(), $other->getType(), $at);
        }
    }

    /**
     * The extension says `mixed` where it takes several types and checks them itself; the stub must be as exact
     * there.
     */
    private function compareTypes(?\ReflectionType $real, ?\ReflectionType $stub, string $where): void
    {
        self::assertSame($real === null, $stub === null, $where);
        if ((string) $real !== 'mixed') {
            self::assertSame((string) $real, str_replace('Stub\\', '', (string) $stub), $where);
        }
    }

    /** @return list<string> */
    private static function attributes(\ReflectionParameter $parameter): array
    {
        $name = static fn (\ReflectionAttribute $attribute): string => $attribute->getName();
        return array_map($name, $parameter->getAttributes());
    }

    private static function name(?\ReflectionClass $class): ?string
    {
        return $class === null ? null : str_replace('Stub\\', '', $class->name);
    }

    /** @return list<string> */
    private static function interfaces(\ReflectionClass $class): array
    {
        $names = array_map(self::name(...), array_values($class->getInterfaces()));
        sort($names);
        return $names;
    }

    /** @return array<string, string> public ones; those of exceptions are protected and private matter */
    private static function properties(\ReflectionClass $class): array
    {
        $found = [];
        foreach ($class->getProperties(\ReflectionProperty::IS_PUBLIC) as $property) {
            $type = str_replace('Stub\\', '', (string) $property->getType());
            $found[$property->name] = ($property->isReadOnly() ? 'readonly ' : '') . $type;
        }
        ksort($found);
        return $found;
    }

    /** @return list<string> without the constructors of classes that PHP cannot make */
    private static function methods(\ReflectionClass $class): array
    {
        $own = [];
        foreach ($class->getMethods() as $method) {
            $inherited = $method->class !== $class->name;
            $barred = $method->name === '__construct' && !$inherited && $method->getNumberOfParameters() === 0;
            if (!$inherited && !$barred) {
                $own[] = $method->name;
            }
        }
        sort($own);
        return $own;
    }
}
