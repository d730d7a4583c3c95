<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Exception\InvalidArgumentException;
use Duly\NewJob;
use Duly\Schedule;
use Duly\Worker;
use think\App;

/**
 * The schedules of an application, as `schedules` of `config/duly.php` describes them.
 *
 * @internal of `Duly\Think`
 */
final class OwnSchedules
{
    private const OWNER = 'think';
    private const LIKE = "'nightly' => ['job' => ['name' => 'report.nightly'], 'cron' => '0 3 * * *']";
    /** A job is pushed again and again, each time with an id of its own and when its slot is due. */
    private const NOT_OF_A_SCHEDULE = ['id', 'delay', 'at', 'onDuplicate', 'durability'];

    /**
     * Makes a worker bring them. A queue that it serves and that has none gets an empty list, so that what was taken
     * out of the file goes. Another queue without an entry may have those of another application. Without the setting
     * the worker brings and removes nothing.
     *
     * @throws InvalidArgumentException with the name of the first entry that is wrong
     */
    public static function giveTo(Worker $worker, App $app): void
    {
        $given = $app->config->get('duly.schedules');
        if ($given === null) {
            return;
        }
        if (!is_array($given)) {
            throw self::wrong('', 'must be an array with owner and list, not ' . get_debug_type($given));
        }
        self::refuseUnknown('', $given, ['owner', 'list']);
        [$owner, $list] = [$given['owner'] ?? self::OWNER, $given['list'] ?? []];
        if (!is_string($owner)) {
            throw self::wrong('.owner', 'must be a text, not ' . get_debug_type($owner));
        }
        if (!is_array($list)) {
            throw self::wrong('.list', 'must be an array: [' . self::LIKE . '], not ' . get_debug_type($list));
        }
        $queue = $app->config->get('duly.queue', 'default');
        $give = static function (string $of, array $schedules, string $queue) use ($worker, $owner): void {
            try {
                $worker->schedules($owner, $schedules, $queue);
            } catch (InvalidArgumentException $error) {
                throw self::wrong($of, $error->getMessage(), $error);
            }
        };
        foreach ($worker->queues() as $served) {
            // A part of a queue has none of its own.
            str_contains($served, '/') || $give('', [], $served);
        }
        foreach ($list as $name => $entry) {
            $of = ".list.{$name}";
            if (is_int($name)) {
                throw self::wrong($of, 'it needs a name: ' . self::LIKE);
            }
            $schedule = self::schedule($of, $entry);
            $give($of, [$name => $schedule], $entry['queue'] ?? $queue);
        }
    }

    private static function schedule(string $of, mixed $entry): Schedule
    {
        if (!is_array($entry)) {
            throw self::wrong($of, 'must be an array: ' . self::LIKE . ', not ' . get_debug_type($entry));
        }
        $arguments = array_diff(self::parameters(Schedule::class), ['job']);
        self::refuseUnknown($of, $entry, ['job', 'queue', ...$arguments]);
        if (!is_string($entry['queue'] ?? '')) {
            throw self::wrong("{$of}.queue", 'must be the name of a queue, not ' . get_debug_type($entry['queue']));
        }
        $job = $entry['job'] ?? null;
        if (!is_array($job) || !is_string($job['name'] ?? null) || $job['name'] === '') {
            $named = "'job' => ['name' => 'order.close']";
            throw self::wrong($of, "it needs a job with a name, which finds its class: {$named}");
        }
        self::refuseUnknown("{$of}.job", $job, array_diff(self::parameters(NewJob::class), self::NOT_OF_A_SCHEDULE));
        unset($entry['job'], $entry['queue']);
        try {
            return new Schedule(new NewJob(...$job), ...$entry);
        } catch (\Throwable $error) { // also PHP's own, for a value of a wrong type
            $why = preg_replace('/^.*\(\): Argument #\d+ \(\$(\w+)\)/', '$1', $error->getMessage());
            throw self::wrong($of, (string) $why, $error);
        }
    }

    /**
     * @param array<mixed> $given
     * @param array<string> $known
     */
    private static function refuseUnknown(string $of, array $given, array $known): void
    {
        $unknown = array_diff(array_keys($given), $known);
        if ($unknown !== []) {
            $names = implode("', '", $unknown);
            throw self::wrong($of, "it has no '{$names}', but " . implode(', ', $known));
        }
    }

    /**
     * @param class-string $class
     *
     * @return list<string> the names of the constructor's parameters
     */
    private static function parameters(string $class): array
    {
        return array_column((new \ReflectionMethod($class, '__construct'))->getParameters(), 'name');
    }

    private static function wrong(string $of, string $why, ?\Throwable $error = null): InvalidArgumentException
    {
        return new InvalidArgumentException("config/duly.php: schedules{$of}: {$why}", previous: $error);
    }
}
