<?php

declare(strict_types=1);

namespace Duly\Tests;

/** The examples of the pages in docs/php, for tests that follow a page as its readers do. */
final class Pages
{
    public const ROOT = __DIR__ . '/..';

    /**
     * The blocks of a page in this language, with this checkout where the page assumes one.
     *
     * @return list<string>
     */
    public static function blocks(string $page, string $language): array
    {
        $text = (string) file_get_contents(self::ROOT . "/docs/php/{$page}");
        preg_match_all("/^```{$language}\n(.*?)^```$/ms", $text, $found);
        return str_replace('/srv/duly', (string) realpath(self::ROOT), $found[1]);
    }

    /** The block in PHP that has this text. */
    public static function code(string $page, string $text): string
    {
        $found = array_filter(self::blocks($page, 'php'), static fn (string $block) => str_contains($block, $text));
        if (count($found) !== 1) {
            throw new \RuntimeException("{$page} has not one block with {$text}");
        }
        return reset($found);
    }
}
