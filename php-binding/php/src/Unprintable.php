<?php

declare(strict_types=1);

namespace Duly;

/**
 * PHP ends a script whose output cannot be written, as on a full disk, unless it is told to go on.
 *
 * @internal of workers and their supervisor
 */
final class Unprintable
{
    /** Tells PHP to go on; gives what `restore` takes. */
    public static function goOn(): ?int
    {
        return \PHP_SAPI === 'cli' && function_exists('ignore_user_abort') ? ignore_user_abort(true) : null;
    }

    /** As it was before `goOn`. */
    public static function restore(?int $before): void
    {
        $before === null || ignore_user_abort((bool) $before);
    }
}
