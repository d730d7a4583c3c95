<?php

declare(strict_types=1);

namespace Duly;

/**
 * The arguments of `duly-worker`.
 *
 * @internal
 */
final class Options
{
    private const SHORT = ['-q' => '--queue'];

    /** @var list<array{string, ?int}> names and weights */
    private array $queues = [];
    private ?string $file = null;
    private int $processes = 1;
    /** @var array<string, mixed> */
    private array $settings = [];

    private function __construct()
    {
    }

    /**
     * @param list<string> $arguments
     * @return array{string, int, array<string, mixed>} the file, how many processes, and settings of a worker
     */
    public static function parse(array $arguments): array
    {
        $options = new self();
        while ($arguments !== []) {
            $argument = (string) array_shift($arguments);
            if ($argument === '' || $argument[0] !== '-') {
                $options->takeFile($argument);
                continue;
            }
            [$name, $value] = explode('=', $argument, 2) + [1 => null];
            // After a short option the value is the next argument, whatever is in it.
            $value ??= array_shift($arguments);
            $name = self::SHORT[$name] ?? $name;
            $options->take($name, $value);
        }
        if ($options->file === null) {
            throw new \UnexpectedValueException('which file makes the worker? name your bootstrap.php');
        }
        if ($options->queues !== []) {
            $options->settings['queues'] = $options->queues();
        }
        return [$options->file, $options->processes, $options->settings];
    }

    private function takeFile(string $file): void
    {
        if ($this->file !== null) {
            throw new \UnexpectedValueException("one file makes the worker: '{$this->file}' or '{$file}'?");
        }
        // Its links stay: each process loads what they lead to by then.
        $path = Links::absolute($file);
        if (!is_file($path) || !is_readable($path)) {
            throw new \UnexpectedValueException("there is no file '{$file}' that can be read");
        }
        $this->file = $path;
    }

    private function take(string $name, ?string $value): void
    {
        match ($name) {
            '--queue' => $this->queues[] = self::queue(self::given($name, $value)),
            '--processes' => $this->processes = self::whole($name, $value),
            '--max-jobs' => $this->settings['maxJobs'] = self::whole($name, $value),
            '--memory' => $this->settings['memory'] = self::whole($name, $value),
            '--lease' => $this->settings['lease'] = self::seconds($name, $value),
            '--name' => $this->settings['name'] = self::given($name, $value),
            '--grace' => $this->settings['grace'] = self::seconds($name, $value),
            '--timeout' => $this->settings['timeout'] = self::seconds($name, $value),
            '--prefetch' => $this->settings['prefetch'] = self::whole($name, $value, 0),
            default => throw new \UnexpectedValueException("there is no option '{$name}'"),
        };
    }

    /** @return list<string>|array<string, int> */
    private function queues(): array
    {
        foreach (array_count_values(array_column($this->queues, 0)) as $name => $times) {
            if ($times > 1) {
                throw new \UnexpectedValueException("the queue '{$name}' is given twice: once is enough");
            }
        }
        $weights = array_column($this->queues, 1, 0);
        $given = count(array_filter($weights, 'is_int'));
        if ($given !== 0 && $given !== count($weights)) {
            throw new \UnexpectedValueException('give all queues a weight, or none: --queue orders=3 --queue mail=1');
        }
        return $given === 0 ? array_column($this->queues, 0) : $weights;
    }

    /** @return array{string, ?int} */
    private static function queue(string $value): array
    {
        [$name, $weight] = explode('=', $value, 2) + [1 => null];
        return [$name, $weight === null ? null : self::whole("the weight of --queue {$name}", $weight)];
    }

    private static function given(string $name, ?string $value): string
    {
        return $value ?? throw new \UnexpectedValueException("{$name} needs a value");
    }

    private static function whole(string $name, ?string $value, int $least = 1): int
    {
        $range = ['options' => ['min_range' => $least]];
        $number = filter_var(self::given($name, $value), FILTER_VALIDATE_INT, $range);
        if ($number === false) {
            throw new \UnexpectedValueException("{$name} must be {$least} or more, not '{$value}'");
        }
        return $number;
    }

    private static function seconds(string $name, ?string $value): float
    {
        $number = filter_var(self::given($name, $value), FILTER_VALIDATE_FLOAT, ['options' => ['min_range' => 0]]);
        if ($number === false) {
            throw new \UnexpectedValueException("{$name} must be seconds, not '{$value}'");
        }
        return $number;
    }
}
