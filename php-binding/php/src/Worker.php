<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\LeaseLostException;

/**
 * Reserves jobs of some queues, one at a time, and runs their handlers until it is told to stop.
 *
 * The lease of the running job is renewed from a native thread, whatever the handler is doing, up to the job's own
 * timeout. A handler that returns has its job acked; one that throws has it failed, and the job's policy decides.
 * A job that its handler acked, failed or released itself is left alone.
 *
 * A list of queues is a strict order, the first queue first; `['orders' => 3, 'mail' => 1]` gives each queue a weight.
 *
 * With pcntl, the first SIGTERM, SIGINT or SIGQUIT lets the running job finish within the grace and then ends `run`.
 * A second one, or the end of the grace, ends the process at once; the job comes back when its lease ends. A signal
 * cuts a `sleep()` of the handler short, as PHP does everywhere.
 */
final class Worker
{
    private const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT'];
    /** No wait is longer, so that `stop` is seen soon. */
    private const LONGEST_WAIT_S = 0.5;
    private const FIRST_PAUSE_S = 0.1;
    private const LONGEST_PAUSE_S = 2.0;

    /** @var array<string, callable> */
    private array $handlers = [];
    /** @var ?callable */
    private $failureHook = null;
    /** @var callable */
    private $log;
    private bool $stopAsked = false;
    private float $pause = self::FIRST_PAUSE_S;

    /**
     * @param list<string>|array<string, int> $queues names, or weights (1 to 1,000) by name
     * @param float $lease seconds without a renewal after which another worker may take the job
     * @param float $grace seconds that the running job has after the first signal
     * @param ?int $maxJobs `run` returns after so many jobs: a supervisor then starts a fresh process
     * @param ?callable $log gets one line of text at a time; `error_log` if null
     */
    public function __construct(
        private Client $client,
        private array $queues,
        private float $lease = 10.0,
        private float $grace = 30.0,
        private ?int $maxJobs = null,
        ?callable $log = null,
    ) {
        if ($queues === []) {
            throw new InvalidArgumentException('a worker needs at least one queue');
        }
        if (!($grace >= 0.0 && $grace <= 86400.0)) {
            throw new InvalidArgumentException('grace must be 0 to 86,400 seconds');
        }
        if ($maxJobs !== null && $maxJobs < 1) {
            throw new InvalidArgumentException('maxJobs must be 1 or more, or null for no limit');
        }
        foreach ($queues as $key => $value) {
            $client->queue(is_int($value) ? (string) $key : $value); // refuses a wrong name
        }
        $this->log = $log ?? static function (string $line): void {
            error_log($line);
        };
    }

    /**
     * Sets what runs the jobs of this name; an empty name stands for jobs without one.
     *
     * @param callable(mixed, Job): void $handler gets the data, with JSON objects as arrays, and the job
     */
    public function on(string $name, callable $handler): static
    {
        $this->handlers[$name] = $handler;
        return $this;
    }

    /**
     * Sets what is called with a job whose handler threw, and what it threw, before the failure is stored. It may give
     * arguments of `Job::fail` by name that it wants changed, such as `['data' => ..., 'maxRetries' => 9]`, or null.
     *
     * @param callable(Job, \Throwable): ?array<string, mixed> $hook
     */
    public function onFailure(callable $hook): static
    {
        $this->failureHook = $hook;
        return $this;
    }

    /** Asks `run` to return after the running job. From a handler or a signal handler. */
    public function stop(): void
    {
        $this->stopAsked = true;
    }

    /**
     * Works until `stop`, a signal, or `maxJobs`. Lost connections are survived.
     *
     * @throws ExceptionInterface an error that no waiting heals, such as a wrong password
     */
    public function run(): void
    {
        $keeper = new LeaseKeeper($this->client, $this->lease);
        $left = $this->maxJobs;
        $restore = $this->catchSignals();
        try {
            while (!$this->stopAsked && $left !== 0) {
                $job = $this->next();
                if ($job === null) {
                    continue;
                }
                if ($this->stopAsked) {
                    $this->settle($job, static fn () => $job->release());
                    break;
                }
                $this->runOne($keeper, $job);
                $left = $left === null ? null : $left - 1;
            }
        } finally {
            $this->stopAsked = false;
            $restore();
        }
    }

    private function next(): ?Job
    {
        try {
            $jobs = $this->client->reserveFrom($this->queues, wait: self::LONGEST_WAIT_S, lease: $this->lease);
        } catch (ExceptionInterface $error) {
            if (!$error->isTransient()) {
                throw $error;
            }
            if ($this->pause === self::FIRST_PAUSE_S) {
                ($this->log)("no jobs for now, the worker keeps trying: {$error->getMessage()}");
            }
            $this->sleep($this->pause * random_int(500, 1000) / 1000);
            $this->pause = min($this->pause * 2, self::LONGEST_PAUSE_S);
            return null;
        }
        if ($this->pause !== self::FIRST_PAUSE_S) {
            ($this->log)('the server answers again');
            $this->pause = self::FIRST_PAUSE_S;
        }
        return $jobs[0] ?? null;
    }

    private function runOne(LeaseKeeper $keeper, Job $job): void
    {
        $handler = $this->handlers[$job->name ?? ''] ?? null;
        if ($handler === null) {
            $name = $job->name === null ? 'jobs without a name' : "the name '{$job->name}'";
            $this->settle($job, static fn () => $job->fail("this worker has no handler for {$name}"));
            return;
        }
        $keeper->hold($job);
        $thrown = null;
        try {
            $handler($job->data(), $job);
        } catch (\Throwable $error) {
            $thrown = $error;
        }
        try {
            if ($thrown !== null) {
                $this->fail($job, $thrown);
            } elseif (!$job->settled) {
                $this->settle($job, static fn () => $job->ack());
            }
        } finally {
            $keeper->letGo($job);
            // Settling has said so already; only emptied, to let the list not grow.
            $keeper->lost();
        }
    }

    private function fail(Job $job, \Throwable $thrown): void
    {
        $text = self::describe($thrown);
        $named = "job '{$job->id}' of queue '{$job->queue->name}'";
        if ($job->settled) {
            ($this->log)("{$named} was settled, then its handler threw {$text}");
            return;
        }
        $changes = [];
        try {
            $changes = $this->changes($job, $thrown);
        } catch (\Throwable $error) {
            // The job has failed all the same.
            ($this->log)("onFailure for {$named} threw " . self::describe($error));
        }
        if ($job->settled) {
            return;
        }
        $this->settle($job, function () use ($job, $named, $text, $changes): void {
            try {
                $job->fail(...$changes + ['error' => $text]);
            } catch (\Error | \InvalidArgumentException | \LengthException $error) {
                ($this->log)("onFailure gave for {$named} what fail does not take: " . self::describe($error));
                $job->fail($text);
            }
        });
    }

    /** @return array<string, mixed> */
    private function changes(Job $job, \Throwable $thrown): array
    {
        return $this->failureHook === null ? [] : ($this->failureHook)($job, $thrown) ?? [];
    }

    private static function describe(\Throwable $error): string
    {
        // A message may hold any bytes, and an error text must be UTF-8.
        $text = json_encode($error::class . ': ' . $error->getMessage(), JSON_INVALID_UTF8_SUBSTITUTE);
        return json_decode((string) $text);
    }

    /** A job that cannot be settled comes back when its lease ends: that is a line in the log, and no reason to stop. */
    private function settle(Job $job, callable $verb): void
    {
        try {
            $verb();
        } catch (LeaseLostException $error) {
            ($this->log)("another worker may run the job again: {$error->getMessage()}");
        } catch (ExceptionInterface $error) {
            ($this->log)("the job comes back when its lease ends: {$error->getMessage()}");
        }
    }

    /** Sleeps in slices: a signal between the look at `stopAsked` and the sleep must not wait for its end. */
    private function sleep(float $seconds): void
    {
        $until = hrtime(true) + (int) ($seconds * 1e9);
        while (!$this->stopAsked && ($left = $until - hrtime(true)) > 0) {
            usleep((int) (min($left, 1e8) / 1e3) + 1);
        }
    }

    /** @return callable(): void what puts the program's own handlers back */
    private function catchSignals(): callable
    {
        if (!function_exists('pcntl_signal')) {
            return static function (): void {
            };
        }
        $async = pcntl_async_signals(true);
        $before = [];
        foreach (self::SIGNALS as $name) {
            $signal = (int) constant($name);
            $before[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, $this->onSignal(...));
        }
        $before[SIGALRM] = pcntl_signal_get_handler(SIGALRM);
        return static function () use ($async, $before): void {
            if (pcntl_signal_get_handler(SIGALRM) !== $before[SIGALRM]) {
                pcntl_alarm(0);
            }
            foreach ($before as $signal => $handler) {
                pcntl_signal($signal, $handler);
            }
            pcntl_async_signals($async);
        };
    }

    private function onSignal(int $signal): void
    {
        if ($this->stopAsked) {
            ($this->log)('the worker ends at once; a running job comes back when its lease ends');
            exit(128 + $signal);
        }
        $this->stopAsked = true;
        pcntl_signal(SIGALRM, $this->onSignal(...));
        pcntl_alarm(max(1, (int) ceil($this->grace)));
    }
}
