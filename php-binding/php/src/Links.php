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

    /** The current folder, as the shell or the command line names it. */
    public static function folder(): string
    {
        return self::namedFolder() ?? self::kept((string) getcwd());
    }

    /** A path that does not depend on the current folder. */
    public static function absolute(string $path): string
    {
        return str_starts_with($path, '/') ? $path : self::below(self::folder(), $path);
    }

    /**
     * The same file or folder by the links in the path of the program, or in one among its arguments, such as that of
     * the bootstrap file; as it is, if none of these leads there.
     */
    public static function kept(string $path): string
    {
        $real = @realpath($path); // outside open_basedir it is false
        if ($real === false) {
            return $path;
        }
        // The link that leads nearest to it, and where it leads.
        [$link, $folder] = ['', ''];
        foreach (self::given() as $path) {
            for (; $path !== dirname($path); $path = dirname($path)) {
                // Folders above may be outside open_basedir: that is no error.
                $leadsTo = @is_link($path) ? (string) @realpath($path) : '';
                if (strlen($leadsTo) > strlen($folder) && str_starts_with("{$real}/", "{$leadsTo}/")) {
                    [$link, $folder] = [$path, $leadsTo];
                }
            }
        }
        return $link . substr($real, strlen($folder));
    }

    /** The current folder, as the shell names it by a link; null if there is no shell, or it has named another one. */
    private static function namedFolder(): ?string
    {
        $named = (string) getenv('PWD');
        // A name without links says nothing that the path of the program does not say better.
        $isByLink = str_starts_with($named, '/') && $named !== getcwd() && @realpath($named) === getcwd();
        return $isByLink ? $named : null;
    }

    /** @return iterable<string> the paths in the command line, and those to which the links in them lead */
    private static function given(): iterable
    {
        $arguments = $_SERVER['argv'] ?? [];
        $named = self::namedFolder();
        $folder = $named ?? (string) getcwd();
        foreach ([...$arguments, (string) $named] as $path) {
            if ($path !== '' && $path[0] !== '/') {
                $path = self::below($folder, $path); // not `absolute`, which asks for these
            }
            for ($links = 0; $links < self::MOST_LINKS && $path !== ''; $links++) {
                yield $path;
                $path = self::followed($path);
            }
        }
    }

    private static function below(string $folder, string $path): string
    {
        return "{$folder}/" . preg_replace('#^(\./+)+#', '', $path);
    }

    /** Where the last link in a path leads, such as one in /usr/local/bin, or its folder; '' if there is none. */
    private static function followed(string $path): string
    {
        for ($link = $path; $link !== dirname($link); $link = dirname($link)) {
            if (@is_link($link)) {
                try {
                    $to = (string) (new \SplFileInfo($link))->getLinkTarget(); // readlink may be disabled
                } catch (\RuntimeException) {
                    return '';
                }
                $to = $to === '' || str_starts_with($to, '/') ? $to : dirname($link) . "/{$to}";
                return $to === '' ? '' : $to . substr($path, strlen($link));
            }
        }
        return '';
    }
}
