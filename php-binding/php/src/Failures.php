<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\InvalidArgumentException;
use Duly\Exception\TooLargeException;

/**
 * What jobs and failures are called in the log: without a word of a job's data, which messages of exceptions may hold.
 *
 * @internal of `Duly\Worker`
 */
final class Failures
{
    public static function job(Job $job): string
    {
        $name = $job->name ?? 'no name';
        return "job '{$job->id}' ({$name}, attempt {$job->attempt}) of queue '{$job->queue->name}'";
    }

    public static function location(\Throwable $error): string
    {
        return self::utf8($error::class . " at {$error->getFile()}:{$error->getLine()}");
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
            [Runs::class, 'noHandler', Retry::class],
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
