<?php

declare(strict_types=1);

namespace Duly;

/**
 * Where a worker says what happens: a PSR-3 logger, a callable that gets lines, or stderr. Never a job's data.
 *
 * What these throw, on a full disk for example, is written to stderr with the line that they did not take: no job and
 * no worker depends on a log.
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
        $thrown = null;
        try {
            $this->logger?->log($level, $message, $context);
        } catch (\Throwable $error) {
            $thrown = Failures::location($error);
        }
        if ($level === 'debug') {
            return;
        }
        try {
            ($this->line)($message, $level);
        } catch (\Throwable $error) {
            $thrown ??= Failures::location($error);
        }
        $thrown === null || self::toStderr("{$message} (the logger threw {$thrown})", $level);
    }

    /** Writes a line to standard error, if there is one: it may be closed, and a worker goes on. */
    public static function write(string $line): void
    {
        try {
            if (defined('STDERR') && is_resource(STDERR)) {
                @fwrite(STDERR, "{$line}\n");
            } elseif (!defined('STDERR') || (string) ini_get('error_log') !== '') {
                // Never to a standard error that was closed: its number may be that of a connection by now.
                error_log($line);
            }
        } catch (\Throwable) {
            // An error handler that throws also at what is silenced.
        }
    }

    private static function toStderr(string $line, string $level): void
    {
        // Where there is no standard error, as in a web server, PHP's own log has the time. Not by `date`: where PHP
        // takes the time zones from the system it opens a file, and crashes without a free descriptor, also in UTC.
        self::write(defined('STDERR') ? gmdate(DATE_ATOM) . ' duly[' . getmypid() . "] {$level}: {$line}" : $line);
    }
}
