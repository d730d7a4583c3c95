<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\InvalidArgumentException;
use Duly\Exception\JobInterruptedException;
use Duly\Exception\TooLargeException;

/**
 * What jobs and failures are called in the log: without a word of a job's data, which messages of exceptions may hold.
 *
 * @internal of `Duly\Worker`
 */
final class Failures
{
    /** That are named in the log. */
    private const MOST_CAUSES = 8;
    /** An exception may be its own cause, and other chains may be very long. */
    private const MOST_WALKED = 1000;
    /** In no path. */
    private const NOBODYS = "\0";
    /** Methods of `Runs` that call handlers and hooks. */
    private const BEGINNINGS = ['run', 'reportEvents'];

    public static function job(Job $job): string
    {
        $name = $job->name ?? 'no name';
        return "job '{$job->id}' ({$name}, attempt {$job->attempt}) of queue '{$job->queue->name}'";
    }

    /** Of an exception and its causes: `DomainException at own.php:3 (thrown at vendor/x.php:7); caused by ...`. */
    public static function location(\Throwable $error): string
    {
        $errors = array_slice(self::withCauses($error), 0, 1 + self::MOST_CAUSES);
        return self::utf8(implode('; caused by ', array_map(self::named(...), $errors)));
    }

    /**
     * The exception and its causes, each once.
     *
     * @return non-empty-list<\Throwable>
     */
    public static function withCauses(\Throwable $error): array
    {
        $found = [spl_object_id($error) => $error];
        while (count($found) < self::MOST_WALKED && ($error = $error->getPrevious()) !== null) {
            if (isset($found[spl_object_id($error)])) {
                break;
            }
            $found[spl_object_id($error)] = $error;
        }
        return array_values($found);
    }

    /** Where an interrupted handler was, or by what else it ended. */
    public static function interruption(\Throwable $thrown): string
    {
        if (!$thrown instanceof JobInterruptedException) {
            return 'was interrupted, then threw ' . self::location($thrown);
        }
        $place = self::ownLine($thrown) ?? self::ownLine($thrown, self::NOBODYS);
        return $place === null ? 'was interrupted' : self::utf8("was interrupted at {$place}");
    }

    private static function named(\Throwable $error): string
    {
        $thrown = "{$error->getFile()}:{$error->getLine()}";
        $own = self::ownLine($error) ?? $thrown;
        return get_debug_type($error) . " at {$own}" . ($own === $thrown ? '' : " (thrown at {$thrown})");
    }

    /**
     * The innermost line of the user's own code in this run; null if there is none, as in a handler of a package.
     *
     * @param string $packages what the paths of other people's code have in them; `NOBODYS` for no path
     */
    private static function ownLine(\Throwable $error, string $packages = '/vendor/'): ?string
    {
        $frames = [['file' => $error->getFile(), 'line' => $error->getLine()], ...$error->getTrace()];
        foreach ($frames as $frame) {
            if (($frame['class'] ?? '') === Runs::class && in_array($frame['function'] ?? '', self::BEGINNINGS, true)) {
                break; // behind it is the line that runs the worker
            }
            $file = $frame['file'] ?? ''; // none where PHP itself calls, as `array_map` does
            if ($file !== '' && !str_contains($file, $packages) && !str_starts_with($file, __DIR__ . '/')) {
                return $file . ':' . ($frame['line'] ?? 0);
            }
        }
        return null;
    }

    public static function reason(\Throwable $error): string
    {
        return self::ownWords($error) ?? self::location($error);
    }

    /** What the log may say when the worker, and not its handler, made a run fail; null for a handler. */
    public static function ownWords(\Throwable $error): ?string
    {
        // Not by the class: what a `jsonSerialize` of the result throws may be of any.
        $maker = $error->getTrace()[0] ?? [];
        return match ([$maker['class'] ?? '', $maker['function'] ?? '', $error::class]) {
            [Handlers::class, 'noHandler', Retry::class],
            [Misuse::class, 'refuseUnrun', \LogicException::class],
            [WorkerEngine::class, 'keep', TooLargeException::class] => self::utf8($error->getMessage()),
            // The message says at which key, and the keys of a result are data as well.
            [WorkerEngine::class, 'keep', InvalidArgumentException::class]
                => "what the handler gave cannot be JSON; the job's error says where",
            default => null,
        };
    }

    /** A message may hold any bytes, and an error text must be UTF-8. */
    public static function utf8(string $text): string
    {
        return json_decode((string) json_encode($text, JSON_INVALID_UTF8_SUBSTITUTE));
    }
}
