<?php

declare(strict_types=1);

namespace App\Queue;

use Duly\Client;
use Duly\Consumer;
use Duly\Exception\ExceptionInterface;
use Duly\Exception\LeaseLostException;
use Duly\NewJob;
use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\WorkerStopping;
use Illuminate\Queue\Queue;
use Illuminate\Queue\Worker;

/** A connection of Laravel's queue: Laravel's worker runs the jobs, duly keeps and gives them. */
final class DulyQueue extends Queue implements ClearableQueue, QueueContract
{
    /** Laravel decides about retries. What reaches this number is no retry that it has wanted. */
    private const MAX_RETRIES = 99_999;
    /** Laravel's alarm comes first. Where a run holds it up, duly takes the job back behind it. */
    private const BEHIND_THE_ALARM_S = 5;
    /** Of a job that has no limit: 100 years, the longest that duly takes. */
    private const LONGEST_RUN_S = 3_153_600_000;
    /** How long the end of a worker waits for the last outcomes to be sent. */
    private const FAREWELL_S = 2.0;
    /** What may be used to say that all memory was used up. */
    private const LAST_BYTES = 16 << 20;

    private ?Consumer $consumer = null;
    /** @var list<string> the queues of the consumer, the first one first */
    private array $served = [];
    private bool $listens = false;
    /** The job that the worker has. */
    private ?DulyJob $current = null;

    /** @param array<string, mixed> $settings of the connection in `config/queue.php` */
    public function __construct(private Client $client, private array $settings)
    {
        foreach (['lease', 'timeout', 'prefetch', 'block_for', 'retry_after'] as $name) {
            if (is_numeric($settings[$name] ?? null)) {
                $this->settings[$name] = +$settings[$name]; // `env()` gives text
            }
        }
        $this->dispatchAfterCommit = $settings['after_commit'] ?? false;
    }

    /** @param ?string $queue */
    public function size($queue = null): int
    {
        return $this->pendingSize($queue) + $this->delayedSize($queue) + $this->reservedSize($queue);
    }

    /** @param ?string $queue */
    public function pendingSize($queue = null): int
    {
        return $this->queue($queue)->counts()->ready;
    }

    /** @param ?string $queue */
    public function delayedSize($queue = null): int
    {
        return $this->queue($queue)->counts()->delayed;
    }

    /** @param ?string $queue */
    public function reservedSize($queue = null): int
    {
        return $this->queue($queue)->counts()->reserved;
    }

    /** @param ?string $queue */
    public function creationTimeOfOldestPendingJob($queue = null): ?int
    {
        return ($this->queue($queue)->peek('ready', limit: 1)[0] ?? null)?->pushedAt;
    }

    /**
     * For `queue:clear`: what runs goes on.
     *
     * @param ?string $queue
     */
    public function clear($queue): int
    {
        return $this->queue($queue)->clear();
    }

    /**
     * @param object|string $job
     * @param mixed $data
     * @param ?string $queue
     */
    public function push($job, $data = '', $queue = null): mixed
    {
        $payload = $this->createPayload($job, $this->name($queue), $data);
        $push = fn (string $payload, ?string $queue): string => $this->pushRaw($payload, $queue);
        return $this->enqueueUsing($job, $payload, $queue, null, $push);
    }

    /**
     * @param string $payload
     * @param ?string $queue
     * @param array<string, mixed> $options further arguments of `Duly\Queue::push`, such as `key` and `priority`
     */
    public function pushRaw($payload, $queue = null, array $options = []): string
    {
        return $this->queue($queue)->push(...$options, ...self::optionsOf($payload));
    }

    /**
     * @param \DateTimeInterface|\DateInterval|int|float $delay
     * @param object|string $job
     * @param mixed $data
     * @param ?string $queue
     */
    public function later($delay, $job, $data = '', $queue = null): mixed
    {
        $payload = $this->createPayload($job, $this->name($queue), $data, $delay);
        $push = fn (string $payload, ?string $queue): string => $this->pushRaw($payload, $queue, self::due($delay));
        return $this->enqueueUsing($job, $payload, $queue, $delay, $push);
    }

    /**
     * @param iterable<object|string>|object|string $jobs
     * @param mixed $data
     * @param ?string $queue
     */
    public function bulk($jobs, $data = '', $queue = null): void
    {
        $new = [];
        $jobs = is_iterable($jobs) ? $jobs : [$jobs];
        $jobs = is_array($jobs) ? $jobs : iterator_to_array($jobs, false);
        if (array_filter($jobs, $this->shouldDispatchAfterCommit(...)) !== []) {
            foreach ($jobs as $job) {
                isset($job->delay)
                    ? $this->later($job->delay, $job, $data, $queue)
                    : $this->push($job, $data, $queue);
            }
            return;
        }
        foreach ($jobs as $job) {
            $payload = $this->createPayload($job, $this->name($queue), $data, $job->delay ?? null);
            $new[] = new NewJob(...isset($job->delay) ? self::due($job->delay) : [], ...self::optionsOf($payload));
        }
        $this->queue($queue)->pushMany($new);
    }

    /**
     * Laravel's worker asks for each of its queues. The first one waits, and for all that it has asked for so far.
     * Other callers, such as a handler, get a job of the queue that they ask for.
     *
     * @param ?string $queue
     * @param int $index which of its queues that is
     */
    public function pop($queue = null, $index = 0): ?DulyJob
    {
        $caller = debug_backtrace(DEBUG_BACKTRACE_PROVIDE_OBJECT | DEBUG_BACKTRACE_IGNORE_ARGS, 2)[1]['object'] ?? null;
        // The worker, too, if a handler lets it run another job: that of the handler goes on.
        if (!$caller instanceof Worker || $this->current?->isRunning() === true) {
            $job = $this->queue($queue)->reserve(lease: $this->settings['lease'] ?? null, renew: true);
            return $job === null ? null : new DulyJob($this->container, $job, $this->connectionName);
        }
        $this->giveUp('its handler neither deleted nor released it', $this->settings['retry_after'] ?? 60);
        $consumer = $this->consumer($this->name($queue));
        $wait = $index === 0 ? $this->settings['block_for'] ?? 1.0 : 0.0;
        do {
            try {
                $job = $consumer->next($wait);
            } catch (ExceptionInterface $error) {
                // It is over for this one, as by a wrong password. The next call makes another.
                $this->consumer = null;
                throw $error;
            }
            if ($job === null) {
                self::report($consumer);
                return null;
            }
            $next = new DulyJob($this->container, $job, $this->connectionName);
            // One whose start cannot be noted goes back.
        } while (!$next->mayStart());
        return $this->current = $next;
    }

    private function consumer(string $queue): Consumer
    {
        if ($this->consumer !== null && in_array($queue, $this->served, true)) {
            return $this->consumer;
        }
        $this->listen();
        $this->consumer?->close(self::FAREWELL_S);
        $this->served = array_values(array_unique([...$this->served, $queue]));
        $settings = array_intersect_key($this->settings, ['lease' => 0, 'timeout' => 0, 'prefetch' => 0]);
        return $this->consumer = new Consumer($this->client, $this->served, ...$settings);
    }

    private function listen(): void
    {
        if ($this->listens) {
            return;
        }
        $this->listens = true;
        $events = $this->container->make('events');
        // The worker releases a job behind this, without a reason.
        $events->listen(JobExceptionOccurred::class, static function (JobExceptionOccurred $event): void {
            $event->job instanceof DulyJob && $event->job->because($event->exception);
        });
        // It kills its process when a job runs for too long, just behind this event. A worker that a handler runs
        // stops, too, and does not end the handler's job.
        $events->listen(WorkerStopping::class, function (): void {
            if ($this->current?->isRunning() !== true || self::isKilled()) {
                $this->end('the worker was ended during its run');
            }
        });
        register_shutdown_function(fn () => $this->end('the process ended during its run'));
    }

    /** Whether the alarm ends the process. The status does not say so: applications choose it. */
    private static function isKilled(): bool
    {
        foreach (debug_backtrace(DEBUG_BACKTRACE_PROVIDE_OBJECT | DEBUG_BACKTRACE_IGNORE_ARGS) as $call) {
            if ($call['function'] === 'kill' && ($call['object'] ?? null) instanceof Worker) {
                return true;
            }
        }
        return false;
    }

    /** In the middle of a run this is `exit`, a fatal error or the alarm. */
    private function end(string $why): void
    {
        if (str_starts_with(error_get_last()['message'] ?? '', 'Allowed memory size')) {
            ini_set('memory_limit', (string) (memory_get_usage(true) + self::LAST_BYTES));
        }
        $this->giveUp($why, 0);
        $this->consumer?->close(self::FAREWELL_S);
        $this->consumer === null || self::report($this->consumer); // such as what is not confirmed
        $this->consumer = null;
        $this->served = [];
    }

    private static function report(Consumer $consumer): void
    {
        foreach ($consumer->events() as $event) {
            error_log("duly: {$event['text']}"); // outages, lost leases
        }
    }

    /** A job that nobody has settled may do the same again, so that this run counts. */
    private function giveUp(string $why, int|float $retryAfter): void
    {
        $job = $this->current;
        $this->current = null;
        try {
            if ($job?->isUnsettled() === true) {
                $job->hasFailed() ? $job->failForGood() : $job->failFor($why, $retryAfter);
            }
        } catch (LeaseLostException) {
            // Another worker has it.
        }
    }

    private function queue(?string $queue): \Duly\Queue
    {
        return $this->client->queue($this->name($queue));
    }

    private function name(?string $queue): string
    {
        return $queue ?: $this->settings['queue'] ?? 'default';
    }

    /** @return array<string, mixed> the arguments of `Duly\Queue::push` */
    private static function optionsOf(string $payload): array
    {
        $known = json_decode($payload, true);
        $options = ['raw' => $payload, 'maxRetries' => self::MAX_RETRIES];
        $name = $known['displayName'] ?? $known['job'] ?? '';
        if (is_string($name) && $name !== '' && strlen($name) <= 128) {
            $options['name'] = $name; // for those who look at the queue
        }
        $timeout = $known['timeout'] ?? null;
        if (is_numeric($timeout) || $timeout === false) {
            // 0 means no limit, whatever its worker says.
            $behind = $timeout > 0 ? $timeout + self::BEHIND_THE_ALARM_S : self::LONGEST_RUN_S;
            $options['timeout'] = min($behind, self::LONGEST_RUN_S);
        }
        return $options;
    }

    /** @return array<string, mixed> */
    private static function due(mixed $delay): array
    {
        if ($delay instanceof \DateTimeInterface) {
            return ['at' => $delay];
        }
        // What is over is now, as with Laravel's own drivers.
        if ($delay instanceof \DateInterval) {
            $now = new \DateTimeImmutable();
            return ['delay' => $now->add($delay) > $now ? $delay : 0];
        }
        return ['delay' => is_numeric($delay) ? max(0, +$delay) : $delay];
    }
}
