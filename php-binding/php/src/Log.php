<?php

declare(strict_types=1);

namespace Duly;

/**
 * Where a worker says what happens: a PSR-3 logger, a callable that gets lines, or stderr. Never a job's data.
 *
 * @internal
 */
final class Log
{
    /** @var callable */
    private $line;

    public function __construct(?callable $line, private ?object $logger)
    {
        if ($logger !== null && !is_callable([$logger, 'log'])) {
            throw new Exception\InvalidArgumentException('logger must be a PSR-3 logger: it has no method log');
        }
        $this->line = $line ?? ($logger === null ? self::toStderr(...) : static fn () => null);
    }

    /** @param array<string, mixed> $context of the PSR-3 logger; the message says what matters by itself */
    public function __invoke(string $level, string $message, array $context = []): void
    {
        $this->logger?->log($level, $message, $context);
        if ($level !== 'debug') {
            ($this->line)($message, $level);
        }
    }

    private static function toStderr(string $line, string $level): void
    {
        if (!defined('STDERR')) {
            error_log($line);
            return;
        }
        $at = date(DATE_ATOM);
        $pid = getmypid();
        // Standard error may be closed; a worker goes on.
        @fwrite(STDERR, "{$at} duly[{$pid}] {$level}: {$line}\n");
    }
}
