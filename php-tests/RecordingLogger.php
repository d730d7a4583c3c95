<?php

declare(strict_types=1);

namespace Duly\Tests;

/** A PSR-3 logger, and a `log` of lines, that keep what they get. */
final class RecordingLogger
{
    /** @var list<array{string, string, array<string, mixed>}> */
    public array $records = [];
    /** @var list<string> */
    public array $lines = [];

    /** @param array<string, mixed> $context */
    public function log(string $level, string $message, array $context): void
    {
        $this->records[] = [$level, $message, $context];
    }

    public function line(string $line): void
    {
        $this->lines[] = $line;
    }
}
