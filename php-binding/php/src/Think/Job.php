<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\JobInterruptedException;
use Duly\Exception\LeaseLostException;
use Duly\Fail;
use Duly\Failures;
use Duly\Release;
use Duly\Retry;
use think\App;
use think\exception\Handle;
use think\helper\Arr;

/**
 * A job of duly as handlers of think-queue know it: `fire(Job $job, $data)`.
 *
 * think-queue decides about retries. Its `release` counts an attempt; a job that it fails ends in duly's `failed` with
 * the reason. What could not be stored is not decided: only `$reserved->settled` says so.
 */
final class Job extends \think\queue\Job
{
    /** Why the job is released, if its handler threw. */
    private ?\Throwable $thrown = null;
    /** Whether its handler wants no other run. */
    private bool $isFinal = false;
    /** Seconds after which think-queue lets it run again, if its handler threw. */
    private float $after = 0.0;
    /** Whether another worker may run it: nothing more can be said of it here. */
    private bool $isLost = false;
    /** Whether its worker has interrupted it: what becomes of it is decided, as if the process had been killed. */
    private bool $isInterrupted = false;
    /** Whether its handler, or what that has for a failure, runs just now. */
    private bool $isRunning = false;
    /** Whether it was deleted within a transaction: the end of its run decides whether that holds. */
    private bool $isDoneAtEnd = false;
    /** Why it fails for good, as soon as think-queue has said that. */
    private ?\Throwable $failure = null;
    /** The process whose job it is. */
    private int $owner;
    /** Whether a handler runs it by a worker of its own: transactions that were open before are that handler's. */
    private bool $isInner;
    /** @var array<string, mixed> */
    private array $payload;
    /** Whether think-queue pushed it. */
    private bool $isOfThinkQueue;
    /** @var ?array{string, string} the class and the method of its handler */
    private ?array $parsed = null;

    /**
     * @param \Duly\Job $reserved what duly has reserved
     * @param string $connection the connection of `config/queue.php`
     * @param bool $isOfWorker whether a worker of duly runs it, which stores what becomes of a run that threw
     */
    public function __construct(
        App $app,
        public readonly \Duly\Job $reserved,
        string $connection,
        private bool $isOfWorker = false,
    ) {
        $this->app = $app;
        $this->connection = $connection;
        $this->queue = $reserved->queue->name;
        $data = $reserved->data();
        $this->isOfThinkQueue = Payload::isOf($data, $reserved);
        $this->payload = Payload::decoded($data, $reserved);
        $this->isInner = OpenTransactions::areThere($app);
        $this->owner = (int) getmypid();
    }

    /**
     * @param ?string $name
     * @param mixed $default
     */
    public function payload($name = null, $default = null): mixed
    {
        return $name === null || $name === '' ? $this->payload : Arr::get($this->payload, $name, $default);
    }

    public function getJobId(): string
    {
        return $this->reserved->id;
    }

    public function attempts(): int
    {
        return $this->reserved->attempt;
    }

    public function getRawBody(): string
    {
        return Payload::of($this->reserved);
    }

    /**
     * The job is done; within a transaction of the database, when its run has ended (see `decide`). think-queue deletes
     * a failed job, too, just before it tells why: that waits for the reason.
     */
    public function delete(): void
    {
        if (!$this->hasFailed() || $this->reserved->settled) {
            $this->isDoneAtEnd = $this->isRunning && OpenTransactions::areThere($this->app);
            $this->isDoneAtEnd || $this->store(fn () => $this->reserved->ack());
        }
        parent::delete();
    }

    /** @param \Throwable $e */
    public function failed($e): void
    {
        $this->isDoneAtEnd = false;
        $wasRunning = $this->isRunning;
        $this->isRunning = true;
        $this->failure = $e;
        try {
            parent::failed($e);
        } catch (\Throwable $thrown) {
            // The worker of think-queue reports only what the hook has thrown.
            $this->isOfWorker || $this->app->make(Handle::class)->report($e);
            throw $thrown;
        } finally {
            $this->isRunning = $wasRunning;
            $this->isForked() && $this->endForked();
            // Or think-queue's row of the failure would be rolled back with what the hook left open.
            $this->endTransactions();
            $this->markAsFailed();
            $this->isOfWorker && !$wasRunning || $this->fail();
        }
    }

    /**
     * The job runs again, which counts as an attempt. It takes the place of a `delete()` within a transaction: that may
     * have been rolled back, and nobody says so.
     *
     * @param int|float|string|\DateTimeInterface|\DateInterval $delay seconds, or when
     */
    public function release($delay = 0): void
    {
        $this->isDoneAtEnd = false;
        $this->after = Delay::seconds($delay);
        if ($this->thrown === null && !$this->isInterrupted) {
            $this->again('it was released by its handler', $this->after);
        } elseif (!$this->isOfWorker) {
            $this->fail();
        }
        parent::release();
    }

    /** It runs again after so many seconds, which counts; think-queue decides whether that is one run too many. */
    public function again(string $why, float $after): void
    {
        $this->store(fn () => $this->reserved->release($after, $why, counted: true));
    }

    /** Its run has failed; at 0, a job that another program pushed waits as its policy says. */
    public function failFor(string|\Throwable $why, float $after): void
    {
        $options = $this->retry($after);
        $this->store(fn () => $this->reserved->fail($why, ...$options));
    }

    /** Stores that its run has failed, as think-queue has decided. */
    public function fail(): void
    {
        $why = $this->why();
        $options = $this->outcome();
        try {
            $this->store(fn () => $this->reserved->fail($why ?? 'its handler has marked it as failed', ...$options));
        } catch (\Throwable $refused) {
            $isRefused = !$refused instanceof ExceptionInterface || $refused instanceof InvalidArgumentException;
            if (!$isRefused) {
                throw $refused;
            }
            // A message may be an array, of which PHP warns; the `--delay` of think-queue may be too long.
            unset($options['retryAfter']);
            $text = $why === null ? 'its delay is out of range' : Failures::location($why);
            $this->store(fn () => $this->reserved->fail($text, ...$options));
        }
    }

    /**
     * What think-queue has decided of a run that failed, as arguments of `Duly\Job::fail`.
     *
     * @return array<string, mixed>
     */
    public function outcome(): array
    {
        return $this->hasFailed() ? ['final' => true] : $this->retry($this->after);
    }

    /** Why its run has failed: what its handler threw, also if the hook for that threw something else. */
    public function why(): ?\Throwable
    {
        return $this->failure ?? $this->thrown;
    }

    /** @return array<string, mixed> */
    private function retry(float $after): array
    {
        $job = $this->reserved;
        if (!$this->isOfThinkQueue) {
            return $after > 0.0 ? ['retryAfter' => $after] : []; // it says itself how many retries it has
        }
        // think-queue has counted already, and wants another run.
        $more = $job->attempts < $job->maxRetries ? [] : ['maxRetries' => $job->attempts + 1];
        return ['retryAfter' => $after] + $more;
    }

    /** @param \Closure(): mixed $call */
    private function store(\Closure $call): void
    {
        try {
            $call();
        } catch (LeaseLostException $lost) {
            $this->isLost = !$this->reserved->settled;
            throw $lost;
        }
    }

    /** @internal of `Duly\Think` */
    public function because(\Throwable $thrown): void
    {
        $this->thrown = $thrown;
    }

    /** Whether it is not stored yet what becomes of it. */
    public function isUnsettled(): bool
    {
        return !$this->reserved->settled && !$this->isLost;
    }

    /** @internal of `Duly\Think` */
    public function isRunning(): bool
    {
        return $this->isRunning;
    }

    /**
     * Also runs a `handle` as `duly:work` does; then the job is done when that returns.
     *
     * `Duly\Release`, `Duly\Retry` and `Duly\Fail` mean the same in all handlers.
     */
    public function fire(): void
    {
        $hasReturned = $leftOpen = false;
        $this->isRunning = true;
        try {
            $this->hasTimeout() || throw new Fail('the timeout of its payload is no number of seconds');
            $handler = $this->getResolvedJob();
            [, $method] = $this->getParsedJob();
            if (method_exists($handler, $method)) {
                parent::fire();
            } else {
                Handler::call($this->app, $handler, 'handle', $this->reserved, $this->payload('data'));
                $this->isDeletedOrReleased() || $this->delete();
            }
            $hasReturned = true;
        } catch (Release $release) {
            $this->store(fn () => $this->reserved->release($release->after, $release->reason));
            parent::release();
        } catch (Retry $retry) {
            if (!$this->isOfThinkQueue && $this->reserved->attempts >= $this->reserved->maxRetries) {
                throw $retry; // none is left: think-queue fails it
            }
            $this->failFor($retry, (float) ($retry->after ?? 0));
            parent::release();
        } catch (Fail $fail) {
            $this->isFinal = true;
            throw $fail;
        } catch (JobInterruptedException $interrupted) {
            $this->isInterrupted = true;
            throw $interrupted;
        } finally {
            $this->isRunning = false;
            $this->isForked() && $this->endForked();
            // Now, or what think-queue writes about the failure would be rolled back with what the handler left open.
            $leftOpen = $this->endTransactions();
            $this->decide($hasReturned && !$leftOpen);
        }
        if ($leftOpen && $hasReturned && !$this->reserved->settled) {
            throw new \LogicException('the handler has left a transaction open, which is rolled back');
        }
    }

    /**
     * Its process ends, perhaps in the middle of its run. Gives whether duly knows what becomes of it; else the run has
     * failed.
     */
    public function endsWithProcess(): bool
    {
        if ($this->isForked()) {
            return true;
        }
        $this->decide(!OpenTransactions::areThere($this->app));
        if ($this->failure !== null && $this->isUnsettled()) {
            $this->markAsFailed();
            $this->fail();
        }
        return !$this->isUnsettled();
    }

    /**
     * Whether a delete within a transaction holds: if its handler has returned and left none open, or its process ends
     * behind the commit. Nobody says whether another transaction was committed or rolled back.
     */
    private function decide(bool $isDone): void
    {
        if ($this->isDoneAtEnd) {
            $this->isDoneAtEnd = $this->deleted = false;
            $isDone && $this->store(fn () => $this->reserved->ack());
            $this->deleted = $isDone;
        }
    }

    private function endTransactions(): bool
    {
        return !$this->isRunning && !$this->isInner
            && OpenTransactions::end($this->app, fn (): string => Failures::job($this->reserved));
    }

    private function isForked(): bool
    {
        return getmypid() !== $this->owner;
    }

    /** A process that the handler has forked, and that comes back from it: the job is its parent's. */
    private function endForked(): never
    {
        $named = Failures::job($this->reserved);
        $this->app->log->record("duly: a process that the handler of {$named} has forked ends: it came back", 'error');
        exit(255); // as PHP does when nobody catches an exception
    }

    /**
     * What is no whole number would end each worker, which gives it to its alarm before it runs the job.
     *
     * @return int|null seconds
     */
    public function timeout()
    {
        $timeout = $this->hasTimeout() ? parent::timeout() : null;
        return $timeout === null ? null : (int) ceil((float) $timeout);
    }

    private function hasTimeout(): bool
    {
        $timeout = $this->payload('timeout') ?? 0;
        return is_bool($timeout) || is_numeric($timeout) && (float) $timeout < PHP_INT_MAX;
    }

    public function isDeleted(): bool
    {
        return parent::isDeleted() || $this->reserved->acked;
    }

    /** Or failed by its handler: think-queue, too, leaves it alone. */
    public function isReleased(): bool
    {
        $isSettled = $this->isLost || $this->reserved->settled;
        return parent::isReleased() || $isSettled && !$this->isDeleted() && !$this->hasFailed();
    }

    /** Whether nothing is left to say of it, whatever its handler throws. */
    private function isOver(): bool
    {
        return $this->isInterrupted || $this->isLost || $this->reserved->settled;
    }

    /** @return int|null */
    public function maxTries()
    {
        return match (true) {
            $this->isOver() => 0, // no limit: its next run begins with the check
            $this->isFinal => 1,
            default => parent::maxTries(),
        };
    }

    /** @return int|null */
    public function timeoutAt()
    {
        return $this->isOver() ? null : parent::timeoutAt();
    }

    /** @return array{string, string} */
    protected function getParsedJob(): array
    {
        if ($this->parsed === null) {
            [$class, $method] = HandlerNames::resolve($this->app, (string) $this->payload['job']);
            $this->parsed = [$class, $method ?? 'fire'];
        }
        return $this->parsed;
    }
}
