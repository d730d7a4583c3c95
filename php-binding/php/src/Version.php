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

    /** What is wrong; null if the extension is of the same version. */
    public static function mismatch(): ?string
    {
        $extension = (string) phpversion('duly');
        return $extension === self::CLASSES ? null : "the extension duly is {$extension}, and these classes are of "
            . self::CLASSES . ': install the same version of both, and restart what runs PHP';
    }
}
