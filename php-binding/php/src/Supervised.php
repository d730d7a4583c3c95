<?php

declare(strict_types=1);

namespace Duly;

/**
 * What a process says to the supervisor that has started it.
 *
 * @internal of `Duly\Supervisor`
 */
final class Supervised
{
    /** It ends for an error that another one would meet too: a handler may end it with any exit code. */
    public const FATAL = 'fatal';
    /** It ends because there is no worker. */
    public const REFUSED = 'refused';

    /** @var ?array{int, resource} the process, and the line on which it speaks */
    private static ?array $line = null;

    /** @param resource $line of this process, which a supervisor has just forked */
    public static function begin($line): void
    {
        self::$line = [(int) getmypid(), $line];
    }

    /** Says that it is ready, with the grace of its worker and the names of its queues: `ready 30 orders, mail`. */
    public static function ready(float $grace, string $queues): void
    {
        self::tell("ready {$grace} {$queues}");
    }

    /** Says something; a process without a supervisor, or one that such a process has forked, says nothing. */
    public static function tell(string $words): void
    {
        if (self::$line !== null && self::$line[0] === getmypid() && is_resource(self::$line[1])) {
            @fwrite(self::$line[1], "{$words}\n"); // one that is gone needs to know nothing
        }
    }
}
