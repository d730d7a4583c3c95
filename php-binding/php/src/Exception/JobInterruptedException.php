<?php

declare(strict_types=1);

namespace Duly\Exception;

use Duly\Interruption;
use Duly\PushSummary;

/**
 * Thrown in a handler that must end: it is longer than its job's timeout, its lease is lost, or the grace is over.
 *
 * The job is settled by then, so there is nothing to do but to clean up and leave. It is an `\Error` so that a
 * handler's `catch (\Exception)` around its own work does not take it for a failure of that. A process whose handler
 * does not end within five seconds ends with exit code 124.
 */
final class JobInterruptedException extends \Error implements ExceptionInterface
{
    private const MESSAGES = [
        'timed_out' => 'ran longer than its timeout',
        'lease_lost' => 'lost its lease: it was cancelled, or another worker may run it',
        'stopped' => 'is interrupted, because the grace of its worker is over',
    ];

    /** @param string $reason `timed_out`, `lease_lost` or `stopped` */
    public function __construct(public readonly string $reason, private string $queue, private string $jobId)
    {
        $what = self::MESSAGES[$reason] ?? 'is interrupted';
        parent::__construct("job '{$jobId}' of queue '{$queue}' {$what}");
    }

    public function getInterruption(): Interruption
    {
        return Interruption::from($this->reason);
    }

    public function getKind(): string
    {
        return 'interrupted';
    }

    public function isTransient(): bool
    {
        return false;
    }

    public function getOperation(): ?string
    {
        return 'run';
    }

    public function getQueue(): ?string
    {
        return $this->queue;
    }

    public function getJobId(): ?string
    {
        return $this->jobId;
    }

    public function getIndex(): ?int
    {
        return null;
    }

    public function getPushed(): ?PushSummary
    {
        return null;
    }
}
