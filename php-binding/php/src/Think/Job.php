<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Exception\CorruptException;
use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\LeaseLostException;
use Duly\Fail;
use Duly\Failures;
use Duly\Release;
use Duly\Retry;
use Duly\Worker;
use think\App;
use think\exception\Handle;
use think\helper\Arr;
use think\queue\event\JobFailed;

/**
 * A job of duly as handlers of think-queue know it: `fire(Job $job, $data)`.
 *
 * think-queue decides about retries. Its `release` counts an attempt; a job that it fails ends in duly's `failed` with
 * the reason. What could not be stored is not decided: only `$reserved->settled` says so.
 */
final class Job extends \think\queue\Job
{
    /** What its handler threw. */
    private ?\Throwable $thrown = null;
    /** Whether its handler wants no other run. */
    private bool $isFinal = false;
    /** Seconds after which think-queue lets it run again, if its handler threw. */
    private float $after = 0.0;
    /** Whether another worker may run it: nothing more can be said of it here. */
    private bool $isLost = false;
    /** Whether its handler, or what that has for a failure, runs just now. */
    private bool $isRunning = false;
    /** Whether it was deleted within a transaction: the end of its run decides whether that holds. */
    private bool $isDoneAtEnd = false;
    /** What its handler has thrown to run again, and what its worker has not stored yet. */
    private Release|Retry|null $wish = null;
    /** Why it fails for good, as soon as think-queue has said that. */
    private ?\Throwable $failure = null;
    /** The process whose job it is. */
    private int $owner;
    /** Whether a handler runs it by a worker of its own: transactions that were open before are that handler's. */
    private bool $isInner;
    /** Why PHP cannot decode its data, if so: it fails without a run. */
    private ?CorruptException $fault = null;
    /** @var array<string, mixed> */
    private array $payload;
    /** Whether think-queue pushed it. */
    private bool $isOfThinkQueue;
    /** @var ?array{string, string} the class and the method of its handler */
    private ?array $parsed = null;

    /**
     * @param \Duly\Job $reserved what duly has reserved
     * @param string $connection the connection of `config/queue.php`
     * @param ?Worker $worker of duly that runs it, and stores what becomes of a run that threw, also behind an outage
     */
    public function __construct(
        App $app,
        public readonly \Duly\Job $reserved,
        string $connection,
        private ?Worker $worker = null,
    ) {
        $this->app = $app;
        $this->connection = $connection;
        $this->queue = $reserved->queue->name;
        $data = null;
        try {
            $data = $reserved->data();
        } catch (CorruptException $fault) {
            $this->fault = $fault; // thrown in `pop` it would end the turn of each worker, and no run would count
        }
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
        return $this->fault === null ? Payload::of($this->reserved) : $this->reserved->raw;
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

    /**
     * Behind an interruption, or the loss of its lease, it has not failed: it runs again, or elsewhere.
     *
     * @param \Throwable $e
     */
    public function failed($e): void
    {
        $this->isDoneAtEnd = false;
        if ($this->isLost || $this->isInterrupted()) {
            $this->worker !== null || $this->fail(); // is refused, as other late outcomes are
            return;
        }
        $wasRunning = $this->isRunning;
        $this->isRunning = true;
        $this->failure = $e;
        try {
            $this->fault === null && parent::failed($e); // which gets the data
        } catch (\Throwable $thrown) {
            // The worker of think-queue reports only what the hook has thrown.
            $this->worker !== null || $this->app->make(Handle::class)->report($e);
            throw $thrown;
        } finally {
            $this->isRunning = $wasRunning;
            $this->isForked() && $this->endForked();
            // Or think-queue's row of the failure would be rolled back with what the hook left open.
            $this->endTransactions();
            $this->markAsFailed();
            $this->worker !== null || $this->fail();
        }
    }

    /**
     * The job runs again, which counts as an attempt. It takes the place of a `delete()` within a transaction: that may
     * have been rolled back, and nobody says so. Behind `failed()` the job has failed.
     *
     * @param int|float|string|\DateTimeInterface|\DateInterval $delay seconds, or when
     */
    public function release($delay = 0): void
    {
        $this->isDoneAtEnd = false;
        $this->after = Delay::seconds($delay);
        if ($this->thrown === null && $this->failure === null && !$this->isInterrupted()) {
            $this->again('it was released by its handler', $this->after);
        } elseif ($this->worker === null) {
            $this->fail();
        }
        parent::release();
    }

    /** It runs again after so many seconds, which counts; think-queue decides whether that is one run too many. */
    public function again(string $why, float $after): void
    {
        $this->store(fn () => $this->reserved->release($after, $why, counted: true));
    }

    /**
     * Its run has failed. Without a time the job runs again at once, or, if another program pushed it, when its policy
     * says. Gives whether none of its runs is left.
     */
    public function failFor(string|\Throwable $why, int|float|null $after = null): bool
    {
        $options = $this->retry($after);
        return $this->store(fn () => $this->reserved->fail($why, ...$options)) === null;
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
        return match (true) {
            $this->hasFailed() => ['final' => true, 'retryAfter' => null], // as a `Duly\Retry` has one
            $this->wish instanceof Retry => $this->retry($this->wish->after),
            default => $this->retry($this->after > 0.0 ? $this->after : null),
        };
    }

    /** Why its run has failed: what its handler threw, also if the hook for that threw something else. */
    public function why(): ?\Throwable
    {
        return $this->failure ?? $this->wish ?? $this->thrown;
    }

    /** @return array<string, mixed> */
    private function retry(int|float|null $after): array
    {
        $job = $this->reserved;
        if (!$this->isOfThinkQueue) {
            return $after === null ? [] : ['retryAfter' => $after]; // it says itself how many retries it has
        }
        // think-queue has counted already, and wants another run.
        $more = $job->attempts < $job->maxRetries ? [] : ['maxRetries' => $job->attempts + 1];
        return ['retryAfter' => $after ?? 0] + $more;
    }

    /** @param \Closure(): mixed $call */
    private function store(\Closure $call): mixed
    {
        try {
            return $call();
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
        try {
            $this->run();
        } catch (\Throwable $thrown) {
            $this->thrown = $thrown; // a listener of the application may keep think-queue's event from us
            throw $thrown;
        }
    }

    private function run(): void
    {
        $hasReturned = $leftOpen = false;
        $this->isRunning = true;
        try {
            $this->fault === null || throw new Fail($this->fault->getMessage(), $this->fault);
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
        } catch (Release | Retry $wish) {
            $isLast = !$this->isOfThinkQueue && $this->reserved->attempts >= $this->reserved->maxRetries;
            if ($isLast && $wish instanceof Retry) {
                throw $wish; // think-queue fails it
            }
            $this->worker === null ? $this->grant($wish) : $this->wish = $wish;
            parent::release();
        } catch (Fail $fail) {
            $this->isFinal = true;
            throw $fail;
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

    private function grant(Release|Retry $wish): void
    {
        $wish instanceof Retry
            ? $this->failFor($wish, $wish->after)
            : $this->store(fn () => $this->reserved->release($wish->after, $wish->reason));
    }

    /** @internal of `Duly\Think` */
    public function wish(): Release|Retry|null
    {
        return $this->wish;
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
        if (($this->failure !== null || $this->hasFailed()) && $this->isUnsettled()) {
            $this->markAsFailed();
            $this->worker !== null || $this->fail();
        } elseif ($this->wish !== null && $this->isUnsettled()) {
            $this->grant($this->wish);
        }
        return !$this->isUnsettled();
    }

    /** Its last run has ended its process: says so as think-queue says it of a job that has failed. */
    public function failedWithProcess(string $why): void
    {
        $this->app->log->record('duly: ' . Failures::job($this->reserved) . " failed for good: {$why}", 'error');
        $this->isRunning = false;
        $this->endTransactions();
        $this->markAsFailed();
        $error = new \RuntimeException($why);
        try {
            $this->fault === null && parent::failed($error);
        } finally {
            $this->endTransactions();
            $this->app->event->trigger(new JobFailed($this->connection, $this, $error));
        }
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
        return $this->isLost || $this->wish !== null || $this->reserved->settled || $this->isInterrupted();
    }

    /** Whether duly has decided what becomes of it, as if the process had been killed: its handler may throw anything. */
    private function isInterrupted(): bool
    {
        return $this->worker?->isInterrupted() ?? $this->reserved->interrupted !== null;
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
