<?php

declare(strict_types=1);

namespace Duly;

/**
 * What runs in a worker, and what has become of it so far: for its process may end in the middle.
 *
 * @internal of `Duly\Worker`
 */
final class Run
{
    public const HANDLER = 'handler';

    public ?Job $job = null;
    /** What of the program runs: the handler, or one of the hooks by its name. */
    public string $phase = self::HANDLER;
    /** Whether the run has worked, and is to be acked unless its handler has settled it. */
    public bool $isDone = false;
    /** @var ?array{\Throwable, array<string, mixed>} why the run failed, and the arguments of `Job::fail` */
    public ?array $failure = null;
    /** @var ?array{wait: ?float} when the job that failed runs again, as soon as that is decided */
    public ?array $decided = null;
    /** Whether the engine knows what becomes of the job. */
    public bool $isReported = false;
    /** The failed job of another run whose `onFailed` hooks are called. */
    public ?Job $failedElsewhere = null;
    /** The process that runs it. */
    private int $owner = 0;

    /** The worker begins, in this process. */
    public function begin(): void
    {
        $this->owner = (int) getmypid();
        $this->forget();
    }

    /** The worker ends. */
    public function end(): void
    {
        $this->owner = 0;
        $this->forget();
    }

    /** The run of this job begins. */
    public function of(Job $job): void
    {
        $this->isDone = false;
        $this->failure = null;
        $this->decided = null;
        $this->isReported = false;
        $this->job = $job;
    }

    /** Whether this is a process that a handler or a hook has forked: the job is its parent's. */
    public function isForked(): bool
    {
        return \getmypid() !== $this->owner;
    }

    private function forget(): void
    {
        $this->job = $this->failedElsewhere = null;
        $this->isDone = $this->isReported = false;
        $this->failure = $this->decided = null;
    }
}
