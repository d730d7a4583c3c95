<?php

declare(strict_types=1);

namespace Duly;

/**
 * The version of these classes. A package that is newer than the extension that PHP has loaded calls what is not there.
 *
 * @internal
 */
final class Version
{
    /** That of Cargo.toml. */
    public const CLASSES = '0.1.0';

    /**
     * What is wrong; null if the extension is of the same version.
     *
     * @param string $classes the version of those that ask: this class may be loaded from the release before theirs
     */
    public static function mismatch(string $classes = self::CLASSES): ?string
    {
        $extension = (string) phpversion('duly');
        return $extension === $classes ? null : "the extension duly is {$extension}, and these classes are of "
            . "{$classes}: install the same version of both, and restart what runs PHP";
    }
}
