<?php

declare(strict_types=1);

namespace Duly\Exception;

use Duly\Interruption;
use Duly\PushSummary;
use Duly\WorkerEngine;

/**
 * Thrown in a handler that must end: its job's timeout is over, its lease is lost, or the worker's grace is over.
 *
 * The job is already settled, so the handler should only clean up and return. It is an `\Error` so that a `catch
 * (\Exception)` in the handler does not catch it. A process whose handler does not end within five seconds ends with
 * exit code 124.
 */
final class JobInterruptedException extends \Error implements ExceptionInterface
{
    /** @param string $reason `timed_out`, `lease_lost` or `stopped` */
    public function __construct(public readonly string $reason, private string $queue, private string $jobId)
    {
        $what = WorkerEngine::describe($reason) ?? 'is interrupted';
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

    public function getJobState(): ?string
    {
        return null;
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
