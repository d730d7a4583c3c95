<?php

declare(strict_types=1);

namespace Duly\Tests;

/** What a page says one may see: the texts in the first columns of its tables, as people search for them. */
final class Symptoms
{
    private const FOLDER = __DIR__ . '/../docs/php/';

    /**
     * The texts in backticks that are a whole cell of a first column.
     *
     * @return list<string> `…` in them stands for anything
     */
    public static function on(string $page, string $section = ''): array
    {
        $text = (string) file_get_contents(self::FOLDER . $page);
        if ($section !== '') {
            $text = explode("\n## ", explode("\n## {$section}\n", $text)[1])[0];
        }
        preg_match_all('/^\| `([^`]+)` \|/m', $text, $found);
        return $found[1];
    }

    public static function areSaidBy(string $text, string $said): bool
    {
        $parts = array_map(static fn (string $part): string => preg_quote($part, '~'), explode('…', $text));
        return preg_match('~' . implode('.*', $parts) . '~', $said) === 1;
    }
}
