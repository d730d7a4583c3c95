<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\CorruptException;
use Duly\NewJob;

/**
 * Any text of JSON comes back as PHP's own `json_decode` reads it, to the byte and to the bit.
 *
 * `DULY_DATA_CASES` says how many texts, `DULY_DATA_SEED` takes other ones than the usual.
 */
final class DataTextsTest extends ServerTestCase
{
    private const DEEPEST = 512;
    private const SPACES = ['', '', '', ' ', "\n", "\t\r\n "];
    private const KEYS = [
        '""', '"a"', '"\u0061"', '"a"', '"b"', '"\u0000"', '"\u0000a"', '"é"', '"1"', '"-0"', '"_empty_"',
    ];
    private const STRINGS = [
        '\ud83d\ude00', '\ud800', '\udfff', '\ude00\ud83d', '\u0000', '\u2028', '\"', '\\\\', '\/', '\b\f\n\r\t',
        'a', 'é', '订', '😀', "\u{2028}", "\x7f", "\u{feff}", '0',
    ];
    private const NUMBERS = [
        '-0', '0', '-0.0', '0e0', '1E2', '1e+2', '5e-324', '2e-324', '1.7976931348623157e308', '1e400', '-1e400', '0.1',
        '9007199254740993', '9223372036854775807', '9223372036854775808', '9223372036854775809',
        '18446744073709551615', '18446744073709551616',
    ];

    public function testAnyTextComesBackAsPhpsOwnJsonReadsIt(): void
    {
        $seed = (int) (getenv('DULY_DATA_SEED') ?: 24301);
        $cases = (int) (getenv('DULY_DATA_CASES') ?: 2000);
        mt_srand($seed);
        [$read, $refused] = [0, 0];
        for ($first = 0; $first < $cases; $first += 1000) {
            $texts = [];
            while (count($texts) < min(1000, $cases - $first)) {
                $texts[] = mt_rand(1, 50) === 1 ? self::deep() : self::value(0);
            }
            $values = [[], []];
            $jobs = array_map(static fn (string $text) => new NewJob(raw: $text), $texts);
            foreach ($this->thereAndBack($jobs) as $at => $job) {
                self::assertSame($texts[$at], $job->raw, "seed {$seed}");
                foreach ([false, true] as $assoc) {
                    try {
                        $value = json_decode($texts[$at], $assoc, 1024, JSON_THROW_ON_ERROR);
                    } catch (\JsonException) {
                        $this->thrownBy(CorruptException::class, static fn () => $job->data($assoc));
                        $refused++;
                        continue;
                    }
                    // Types, signs of zero and the order of keys are seen in it, too.
                    self::assertSame(serialize($value), serialize($job->data($assoc)), "seed {$seed}: {$job->raw}");
                    $values[(int) $assoc][] = $value;
                    $read++;
                }
            }
            foreach ($values as $assoc => $some) {
                $some = array_values(array_filter($some, static fn ($value) => self::encoded($value) !== false));
                $jobs = array_map(static fn ($value) => new NewJob($value), $some);
                foreach ($this->thereAndBack($jobs) as $at => $job) {
                    $value = json_decode((string) self::encoded($some[$at]), (bool) $assoc, 1024);
                    $back = $job->data((bool) $assoc);
                    self::assertSame(serialize($value), serialize($back), "seed {$seed}: {$job->raw}");
                }
            }
        }
        self::assertGreaterThan($cases, $read);
        self::assertGreaterThan(0, $refused);
    }

    /**
     * @param list<NewJob> $jobs
     * @return list<\Duly\Job>
     */
    private function thereAndBack(array $jobs): array
    {
        $this->queue->pushMany($jobs);
        $back = [];
        while (count($back) < count($jobs)) {
            $taken = $this->queue->reserveMany(1000);
            self::assertNotSame([], $taken);
            $this->queue->ackMany($taken);
            array_push($back, ...$taken);
        }
        return $back;
    }

    private static function encoded(mixed $value): string|false
    {
        return json_encode($value, JSON_PRESERVE_ZERO_FRACTION);
    }

    private static function deep(): string
    {
        $text = self::one(['1', '""', 'null']);
        for ($left = mt_rand(0, 1) === 1 ? self::DEEPEST : mt_rand(0, self::DEEPEST); $left > 0; $left--) {
            $text = mt_rand(0, 1) === 1 ? "[{$text}]" : '{' . self::one(self::KEYS) . ":{$text}}";
        }
        return $text;
    }

    private static function value(int $depth): string
    {
        $text = match (mt_rand(0, $depth < 5 ? 4 : 2)) {
            0 => self::number(),
            1 => self::string(),
            2 => self::one(['null', 'true', 'false']),
            3 => '[' . self::members(static fn () => self::value($depth + 1)) . ']',
            4 => '{' . self::members(static fn () => self::space() . self::one([...self::KEYS, self::string()])
                . ':' . self::value($depth + 1)) . '}',
        };
        return self::space() . $text . self::space();
    }

    private static function members(\Closure $member): string
    {
        $members = [];
        for ($left = mt_rand(0, 3); $left > 0; $left--) {
            $members[] = $member();
        }
        return $members === [] ? self::space() : implode(',', $members);
    }

    private static function number(): string
    {
        $digits = static fn (int $most): string => implode('', array_map(
            static fn () => (string) mt_rand(0, 9),
            range(1, mt_rand(1, $most)),
        ));
        return self::one(['', '-']) . match (mt_rand(0, 2)) {
            0 => ltrim(self::one(self::NUMBERS), '-'),
            1 => mt_rand(1, 9) . $digits(400),
            2 => mt_rand(0, 1_000_000) . '.' . $digits(40) . self::one(['', 'e5', 'E-300', 'e+300']),
        };
    }

    private static function string(): string
    {
        $text = '';
        for ($left = mt_rand(0, 5); $left > 0; $left--) {
            $text .= self::one(self::STRINGS);
        }
        return "\"{$text}\"";
    }

    private static function space(): string
    {
        return self::one(self::SPACES);
    }

    /** @param list<string> $of */
    private static function one(array $of): string
    {
        return $of[mt_rand(0, count($of) - 1)];
    }
}
