<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\InvalidArgumentException;

/**
 * The exceptions after which a worker ends, for a fresh process to go on.
 *
 * @internal of `Duly\Worker`
 */
final class RestartOn
{
    /** Their exceptions mean nothing by their short names: every library has a `RuntimeException`. */
    private const GENERAL = ['Core', 'SPL'];

    /** @var list<class-string> */
    private array $classes = [];
    /** @var array<string, true> short names, in small letters, of classes of PHP's extensions */
    private array $names = [];

    /** @param array<mixed> $classes */
    public function add(array $classes): void
    {
        $added = array_map(self::reflect(...), array_values($classes));
        foreach ($added as $class) {
            $this->classes[] = $class->getName();
            $isOfExtension = $class->isInternal() && !in_array($class->getExtensionName(), self::GENERAL, true);
            if ($isOfExtension && !$class->inNamespace()) {
                $this->names[strtolower($class->getName())] = true;
            }
        }
    }

    /** Whether it, or a cause of it, is one of them. */
    public function means(\Throwable $thrown): bool
    {
        foreach (Failures::withCauses($thrown) as $error) {
            foreach ($this->classes as $class) {
                if ($error instanceof $class) {
                    return true;
                }
            }
            if ($this->names === []) {
                continue;
            }
            foreach ([$error::class, ...array_values(class_parents($error))] as $class) {
                if (isset($this->names[self::shortName($class)])) {
                    return true;
                }
            }
        }
        return false;
    }

    /** @return \ReflectionClass<object> */
    private static function reflect(mixed $class): \ReflectionClass
    {
        if (!is_string($class) || (!class_exists($class) && !interface_exists($class))) {
            $given = is_string($class) ? "'{$class}'" : get_debug_type($class);
            throw new InvalidArgumentException(
                "restartOn needs names of classes, such as \\PDOException::class: there is no class {$given}"
            );
        }
        $reflection = new \ReflectionClass($class);
        // Any exception may implement an interface.
        if (!$reflection->isInterface() && !$reflection->isSubclassOf(\Throwable::class)) {
            throw new InvalidArgumentException("restartOn needs classes of exceptions, and '{$class}' is none");
        }
        return $reflection;
    }

    private static function shortName(string $class): string
    {
        return strtolower(substr((string) strrchr("\\{$class}", '\\'), 1));
    }
}
