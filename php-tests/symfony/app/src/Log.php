<?php

declare(strict_types=1);

namespace App;

use Psr\Log\AbstractLogger;

/** A log of lines. */
final class Log extends AbstractLogger
{
    public function __construct(private string $file)
    {
    }

    /**
     * @param mixed $level
     * @param string|\Stringable $message
     * @param array<string, mixed> $context
     */
    public function log($level, $message, array $context = []): void
    {
        file_put_contents($this->file, "{$level} {$message}\n", FILE_APPEND | LOCK_EX);
    }
}
