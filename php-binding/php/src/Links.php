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
    /** The most links that are followed, as in Linux. */
    private const MOST_LINKS = 40;

    /** The current folder, as the shell or the path of the program names it. */
    public static function folder(): string
    {
        return self::namedFolder() ?? self::kept((string) getcwd());
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
        if ($real === false || !str_starts_with($script, '/') && self::namedFolder() === null) {
            return $real === false ? $path : $real;
        }
        $given = self::absolute($script);
        $target = (string) realpath($given);
        for ($links = 0; $links < self::MOST_LINKS; $links++) {
            $kept = self::by($given, $target, $real);
            if ($kept !== null || !is_link($given) || !function_exists('readlink')) {
                return $kept ?? $real;
            }
            // The program may be a link itself, such as one in /usr/local/bin.
            $to = (string) readlink($given);
            $given = str_starts_with($to, '/') ? $to : dirname($given) . "/{$to}";
        }
        return $real;
    }

    /** The current folder, as the shell names it; null if there is no shell, or it has named another one. */
    private static function namedFolder(): ?string
    {
        $named = (string) getenv('PWD');
        return str_starts_with($named, '/') && realpath($named) === getcwd() ? $named : null;
    }

    /** The same file as `$real`, where `$given` leads to `$target`; null if that says nothing of it. */
    private static function by(string $given, string $target, string $real): ?string
    {
        // What is left, without the end that both have, are two names of one folder.
        while ($given !== $target && basename($given) !== '' && basename($given) === basename($target)) {
            [$given, $target] = [dirname($given), dirname($target)];
        }
        $target = rtrim($target, '/');
        if (!str_starts_with("{$real}/", "{$target}/")) {
            return null;
        }
        $kept = rtrim($given, '/') . substr($real, strlen($target));
        return realpath($kept) === $real ? $kept : null;
    }
}
