<?php

declare(strict_types=1);

namespace Duly;

/**
 * Paths by the links by which a program was called. PHP resolves links: a program that was called as
 * `current/vendor/bin/duly-worker` finds itself in `releases/7`. After the next deployment `current` is another folder,
 * and `releases/7` may be gone, so what is kept for later is the path with the link.
 *
 * @internal
 */
final class Links
{
    /** The current folder, as the shell or the path of the program names it. */
    public static function folder(): string
    {
        $real = (string) getcwd();
        $named = (string) getenv('PWD');
        return str_starts_with($named, '/') && realpath($named) === $real ? $named : self::kept($real);
    }

    /** A path that does not depend on the current folder. */
    public static function absolute(string $path): string
    {
        return str_starts_with($path, '/') ? $path : self::folder() . '/' . preg_replace('#^(\./+)+#', '', $path);
    }

    /** The same file or folder by the links in the path of the program; as it is, if that does not lead there. */
    public static function kept(string $path): string
    {
        $real = realpath($path);
        $script = $_SERVER['argv'][0] ?? '';
        // A relative one has links only in what the shell calls the current folder.
        $isNamed = str_starts_with($script, '/') || realpath((string) getenv('PWD')) === getcwd();
        if ($real === false || !$isNamed) {
            return $real === false ? $path : $real;
        }
        $given = self::absolute($script);
        $target = (string) realpath($given);
        // What is left, without the end that both have, are two names of one folder.
        while ($given !== $target && basename($given) !== '' && basename($given) === basename($target)) {
            [$given, $target] = [dirname($given), dirname($target)];
        }
        if (!str_starts_with("{$real}/", rtrim($target, '/') . '/')) {
            return $real;
        }
        $kept = rtrim($given, '/') . substr($real, strlen(rtrim($target, '/')));
        return realpath($kept) === $real ? $kept : $real;
    }
}
