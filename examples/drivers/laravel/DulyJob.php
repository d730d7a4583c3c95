<?php

declare(strict_types=1);

namespace App\Queue;

use Duly\Exception\CorruptException;
use Duly\Exception\ExceptionInterface;
use Duly\Exception\LeaseLostException;
use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;

/** A job of duly as Laravel's worker knows it. Its `release` counts as an attempt, as with Laravel's own drivers. */
final class DulyJob extends Job implements JobContract
{
    /** The exit code with which PHP ends for an exception. */
    private const UNCAUGHT = 255;

    /** @var ?array<string, mixed> */
    private ?array $decoded = null;
    /** What is wrong with its payload, if Laravel cannot run it. */
    private ?string $fault = null;
    private ?\Throwable $thrown = null;
    /** Why it fails for good, as soon as Laravel has said that. */
    private ?\Throwable $failure = null;
    private bool $isLost = false;
    /** Whether its handler runs just now, or what that has for a failure. */
    private bool $isRunning = false;
    /** The process whose job it is. */
    private int $owner;

    public function __construct(Container $container, public readonly \Duly\Job $reserved, string $connectionName)
    {
        $this->owner = (int) getmypid();
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $reserved->queue->name;
    }

    public function getJobId(): string
    {
        return $this->reserved->id;
    }

    public function getRawBody(): string
    {
        return $this->reserved->raw;
    }

    /**
     * The worker asks for it a dozen times.
     *
     * @return array<string, mixed>
     */
    public function payload(): array
    {
        if ($this->decoded === null) {
            $data = [];
            try {
                $data = $this->reserved->data();
                $this->fault = self::faultOf($data);
            } catch (CorruptException $error) {
                $this->fault = $error->getMessage();
            }
            // The worker names each job, and sets its alarm, before it runs it.
            $named = ['job' => $this->reserved->name ?? 'a job of another program'];
            $this->decoded = $this->fault === null ? $data : $named;
        }
        return $this->decoded;
    }

    /**
     * A job with one try must not run twice, also if its worker dies: then Laravel finds that this run has counted.
     * False if it is another worker's by now.
     */
    public function mayStart(): bool
    {
        try {
            (int) ($this->payload()['maxTries'] ?? 0) === 1 && $this->reserved->noteStart();
            return true;
        } catch (LeaseLostException) {
            return false;
        } catch (ExceptionInterface $error) {
            try {
                $this->reserved->release(); // not started: it keeps its try
            } catch (LeaseLostException) {
                // It has gone back already, as at the end of the process.
            }
            throw $error;
        }
    }

    public function attempts(): int
    {
        return $this->reserved->attempt;
    }

    public function fire(): void
    {
        $this->payload();
        if ($this->fault !== null) {
            $this->fail(new \UnexpectedValueException("its data is no payload of Laravel: {$this->fault}"));
            return;
        }
        $this->isRunning = true;
        try {
            parent::fire();
        } catch (\Throwable $thrown) {
            $this->thrown = $thrown; // a listener may keep Laravel's event from us
            throw $thrown;
        } finally {
            $this->isRunning = false;
            $this->endIfForked();
        }
    }

    /** A process that the handler has forked, and that comes back from it: the job is its parent's. */
    private function endIfForked(): void
    {
        if (getmypid() !== $this->owner) {
            $job = $this->getJobId();
            error_log("duly: a process that the handler of job '{$job}' has forked ends: it came back");
            exit(self::UNCAUGHT);
        }
    }

    /** The job is done. A failed one is deleted, too, before Laravel says why: that waits for the reason. */
    public function delete(): void
    {
        if (!$this->hasFailed()) {
            $this->settle(fn () => $this->reserved->ack());
        }
        parent::delete();
    }

    /** @param \DateTimeInterface|\DateInterval|int|float|string $delay */
    public function release($delay = 0): void
    {
        $seconds = is_numeric($delay) ? +$delay : $this->secondsUntil($delay);
        $this->failFor($this->thrown ?? 'it was released', max(0, $seconds));
        parent::release($delay);
    }

    /**
     * Also called by Laravel's alarm in the middle of a run, which must get to the end of the process.
     *
     * @param ?\Throwable $e
     */
    public function fail($e = null): void
    {
        $isOver = $this->isLost || $this->reserved->settled || $this->reserved->interrupted !== null;
        if (!$isOver) {
            parent::fail($e);
            return;
        }
        // For the worker, which then goes on with no chain. It is over, or runs elsewhere: its `failed` is not called.
        $this->markAsFailed();
        try {
            $this->isUnsettled() && $this->note($e ?? 'its handler failed it', ['final' => true]);
        } catch (LeaseLostException $lost) {
            $this->container->make(ExceptionHandler::class)->report($lost);
        }
    }

    public function isDeleted(): bool
    {
        return parent::isDeleted() || $this->reserved->acked;
    }

    /** Or failed by its handler: Laravel, too, leaves it alone. */
    public function isReleased(): bool
    {
        return parent::isReleased() || !$this->isUnsettled() && !$this->isDeleted() && !$this->hasFailed();
    }

    /** @param ?\Throwable $e */
    protected function failed($e): void
    {
        $wasRunning = $this->isRunning;
        $this->isRunning = true;
        $this->failure = $e;
        try {
            $this->fault === null && parent::failed($e);
        } finally {
            $this->isRunning = $wasRunning;
            $this->endIfForked();
            $this->failForGood();
        }
    }

    /** Laravel, or its handler, has marked it as failed. */
    public function failForGood(): void
    {
        $this->note($this->failure ?? $this->thrown ?? 'its handler failed it', ['final' => true]);
    }

    public function because(\Throwable $thrown): void
    {
        $this->thrown = $thrown;
    }

    public function isRunning(): bool
    {
        return $this->isRunning;
    }

    public function isUnsettled(): bool
    {
        return !$this->reserved->settled && !$this->isLost;
    }

    /** It comes again after so many seconds, and this run counts. */
    public function failFor(string|\Throwable $why, int|float $after): void
    {
        $job = $this->reserved;
        $more = $job->attempts < $job->maxRetries ? [] : ['maxRetries' => $job->attempts + 1];
        $this->note($why, ['retryAfter' => $after, ...$more]);
    }

    /** @param array<string, mixed> $options of `Duly\Job::fail` */
    private function note(string|\Throwable $why, array $options): void
    {
        try {
            $this->settle(fn () => $this->reserved->fail($why, ...$options));
        } catch (\ErrorException $error) {
            // Its message is an array, of which PHP warns, and Laravel throws that.
            $text = $why instanceof \Throwable ? $why::class . " at {$why->getFile()}:{$why->getLine()}" : throw $error;
            $this->settle(fn () => $this->reserved->fail($text, ...$options));
        }
    }

    private static function faultOf(mixed $data): ?string
    {
        $timeout = $data['timeout'] ?? 0;
        return match (true) {
            !is_array($data) || !is_string($data['job'] ?? null) => 'it names no job',
            // It would end each worker.
            !is_bool($timeout) && !is_numeric($timeout), (float) $timeout >= PHP_INT_MAX => 'its timeout is no number',
            default => null,
        };
    }

    private function settle(\Closure $call): void
    {
        if ($this->isLost) {
            return; // it was said already
        }
        try {
            $call();
        } catch (LeaseLostException $error) {
            $this->isLost = true;
            throw $error; // Laravel reports it
        }
    }
}
