<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Client;
use Duly\Consumer;
use Duly\Exception\ExceptionInterface;
use Duly\Exception\LeaseLostException;
use Duly\Failures;
use Duly\NewJob;
use Duly\Queue;
use think\App;
use think\queue\event\JobExceptionOccurred;
use think\queue\event\JobProcessed;
use think\queue\event\WorkerStopping;

/**
 * duly as a connection of think-queue: `'type' => \Duly\Think\Connector::class` in `config/queue.php`.
 *
 * Settings: `queue` (default), `url`, `prefix`, `client` (as in `config/duly.php`, which counts where they are left
 * out), `after_commit`, `unsettled` (`retry` or `ack`), `retry_after`, `lease`, `timeout`, `block_for`, `prefetch`.
 */
final class Connector extends \think\queue\Connector
{
    /** think-queue decides about retries; what reaches this number is no retry that it has wanted. */
    private const MAX_RETRIES = 99_999;
    /** So soon a signal is seen. */
    private const SLICE_S = 0.25;
    /** The alarm of think-queue comes first. Where a run holds it up, duly takes the job back behind it. */
    private const BEHIND_THE_ALARM_S = 5.0;
    /** How long the end of a worker waits for the last outcomes. */
    private const FAREWELL_S = 2.0;
    private const ENDED = 'the process ended during its run';

    private ?Client $client = null;
    private ?Consumer $consumer = null;
    /** @var list<string> the queues of the consumer */
    private array $served = [];
    private ?QueueWorker $worker = null;
    /** The job that its worker runs. */
    private ?Job $current = null;
    private bool $listens = false;
    private float $reportedAt = 0.0;

    /** @param array<string, mixed> $settings */
    public function __construct(private array $settings)
    {
        foreach (['lease', 'timeout', 'prefetch'] as $name) {
            if (is_numeric($settings[$name] ?? null)) {
                $this->settings[$name] = +$settings[$name]; // `env()` gives text
            }
        }
    }

    /** @param array<string, mixed>|null $config */
    public static function __make($config): self
    {
        return new self($config ?? []);
    }

    /** @param ?string $queue */
    public function size($queue = null): int
    {
        $counts = $this->queue($queue)->counts();
        return $counts->ready + $counts->delayed + $counts->reserved;
    }

    /**
     * @param object|string $job
     * @param mixed $data
     * @param ?string $queue
     *
     * @return string the id
     */
    public function push($job, $data = '', $queue = null): string
    {
        return $this->send($queue, $this->options($job, $data));
    }

    /**
     * @param string $payload
     * @param ?string $queue
     * @param array<string, mixed> $options of `Duly\Queue::push`, such as `key` and `priority`
     *
     * @return string the id
     */
    public function pushRaw($payload, $queue = null, array $options = []): string
    {
        return $this->send($queue, $options + self::optionsOf((string) $payload));
    }

    /**
     * @param int|float|string|\DateTimeInterface|\DateInterval $delay
     * @param object|string $job
     * @param mixed $data
     * @param ?string $queue
     *
     * @return string the id
     */
    public function later($delay, $job, $data = '', $queue = null): string
    {
        return $this->send($queue, Delay::option($delay) + $this->options($job, $data));
    }

    /**
     * @param iterable<object|string>|object|string $jobs
     * @param mixed $data
     * @param ?string $queue
     */
    public function bulk($jobs, $data = '', $queue = null): void
    {
        $jobs = is_object($jobs) && !is_iterable($jobs) ? [$jobs] : $jobs;
        $new = [];
        foreach (is_iterable($jobs) ? $jobs : [$jobs] as $job) {
            $new[] = new NewJob(...$this->options($job, $data));
        }
        $this->dispatch(fn () => $this->queue($queue)->pushMany($new));
    }

    /**
     * Waits on all queues of its worker at once, whichever is asked for, until there is a job or the worker is to end.
     * Other callers, such as a handler, get a job of the queue that they ask for, and wait for `block_for` seconds.
     *
     * @param ?string $queue
     */
    public function pop($queue = null): ?Job
    {
        $worker = QueueWorker::calling($this->app, $this->worker);
        // Also a worker that a handler runs: the handler's own job goes on.
        if ($worker === null || $this->current?->isRunning() === true) {
            $wait = (float) ($this->settings['block_for'] ?? 0);
            $job = $this->queue($queue)->reserve($wait, $this->settings['lease'] ?? null, renew: true);
            return $job === null ? null : $this->jobOf($job);
        }
        $this->worker = $worker;
        $this->listen();
        $this->finish();
        // What the program did between two jobs, such as a listener of events: those of jobs are ended by the jobs.
        if ($worker->isLoop && !$worker->isInner) {
            OpenTransactions::end($this->app, static fn (): string => 'what ran behind the last job');
        }
        if ($worker->isLoop && function_exists('pcntl_alarm')) {
            pcntl_alarm(0); // that of the job before, which would end an idle worker
        }
        $consumer = $this->consumer($worker);
        $until = microtime(true) + ($worker->isLoop ? INF : 1.0);
        do {
            $job = $this->next($consumer, max(0.0, min(self::SLICE_S, $until - microtime(true))));
            if ($job !== null) {
                return $this->current = $this->jobOf($job);
            }
            if ($worker->isLoop && $worker->isToEnd()) {
                // It would do so after a sleep of three seconds.
                $worker->worker->stop();
            }
        } while (microtime(true) < $until);
        return null;
    }

    private function jobOf(\Duly\Job $reserved): Job
    {
        return new Job($this->app, $reserved, (string) $this->connection);
    }

    private function next(Consumer $consumer, float $wait): ?\Duly\Job
    {
        try {
            $job = $consumer->next($wait);
        } catch (ExceptionInterface $error) {
            // It is over for this one, as by a wrong password. The next call makes another.
            $this->consumer = null;
            throw $error;
        }
        $this->report($consumer, $job === null);
        return $job;
    }

    private function consumer(QueueWorker $worker): Consumer
    {
        // The same for nearly every job.
        if ($this->consumer === null || $worker->queues !== $this->served) {
            $this->consumer?->close(self::FAREWELL_S);
            $this->served = $worker->queues;
            $options = array_filter([
                'lease' => $this->settings['lease'] ?? null,
                'timeout' => self::behindTheAlarm($worker) ?? $this->settings['timeout'] ?? null,
                'prefetch' => $worker->isLoop ? $this->settings['prefetch'] ?? null : 0,
            ], static fn (mixed $value): bool => $value !== null);
            $this->consumer = new Consumer($this->client(), $this->served, ...$options);
        }
        return $this->consumer;
    }

    /** Null where nothing ends a run: a job that goes on would run twice. */
    private static function behindTheAlarm(QueueWorker $worker): ?float
    {
        $isEnded = $worker->timeout !== null && extension_loaded('pcntl');
        return $isEnded ? $worker->timeout + self::BEHIND_THE_ALARM_S : null;
    }

    private function client(): Client
    {
        return $this->client ??= self::clientOf($this->app, $this->settings);
    }

    /**
     * Whether this is the type of a connection of think-queue.
     *
     * @internal of `Duly\Think`
     *
     * @param array<string, mixed> $settings of a connection
     */
    public static function isOf(array $settings): bool
    {
        return ltrim((string) ($settings['type'] ?? ''), '\\') === self::class;
    }

    /**
     * @internal of `Duly\Think`
     *
     * @param array<string, mixed> $settings of a connection
     */
    public static function hasItsOwnServer(array $settings): bool
    {
        return array_intersect_key($settings, ['url' => 0, 'prefix' => 0, 'client' => 0]) !== [];
    }

    /**
     * @internal of `Duly\Think`
     *
     * @param array<string, mixed> $settings of a connection
     */
    public static function clientOf(App $app, array $settings): Client
    {
        $own = array_intersect_key($settings, ['url' => 0, 'prefix' => 0, 'client' => 0]);
        return $own === []
            ? $app->make(Duly::class)->client()
            : Duly::clientOf($own + $app->config->get('duly', []));
    }

    private function queue(?string $queue): Queue
    {
        return $this->client()->queue($this->name($queue));
    }

    private function name(?string $queue): string
    {
        return $queue ?: $this->settings['queue'] ?? 'default';
    }

    /** @return array<string, mixed> the arguments of `Duly\Queue::push` */
    private function options(mixed $job, mixed $data): array
    {
        $payload = $this->createPayloadArray($job, $data);
        $json = json_encode($payload);
        if ($json === false) {
            throw new \InvalidArgumentException('Unable to create payload: ' . json_last_error_msg());
        }
        return self::named($json, Payload::name($job), Payload::timeoutOf($payload));
    }

    /** @return array<string, mixed> the same of a payload that is written already */
    private static function optionsOf(string $json): array
    {
        $payload = json_decode($json, true);
        return self::named($json, Payload::nameOf($payload), Payload::timeoutOf($payload));
    }

    /** @return array<string, mixed> */
    private static function named(string $json, ?string $name, ?float $timeout): array
    {
        $options = ['raw' => $json, 'maxRetries' => self::MAX_RETRIES];
        $options += $name === null ? [] : ['name' => $name];
        return $options + ($timeout === null ? [] : ['timeout' => $timeout]);
    }

    /**
     * @param ?string $queue
     * @param array<string, mixed> $options
     */
    private function send($queue, array $options): string
    {
        if (!$this->waitsForCommit()) {
            return $this->queue($queue)->push(...$options);
        }
        // Its caller gets the id before it is pushed.
        $options += ['id' => bin2hex(random_bytes(12))];
        $this->dispatch(fn () => $this->queue($queue)->push(...$options));
        return $options['id'];
    }

    private function waitsForCommit(): bool
    {
        return (bool) ($this->settings['after_commit'] ?? false);
    }

    private function dispatch(callable $push): void
    {
        $this->waitsForCommit() ? $this->app->make(Duly::class)->afterCommit($push) : $push();
    }

    /** Hears what becomes of the jobs that this connector has given to its worker. */
    private function listen(): void
    {
        if ($this->listens) {
            return;
        }
        $this->listens = true;
        $this->app->event->listen(JobProcessed::class, function (JobProcessed $event): void {
            $event->job === $this->current && $this->finish();
        });
        $this->app->event->listen(JobExceptionOccurred::class, static function (JobExceptionOccurred $event): void {
            $event->job instanceof Job && $event->exception instanceof \Throwable
                && $event->job->because($event->exception);
        });
        $this->app->event->listen(WorkerStopping::class, function (WorkerStopping $event): void {
            // It kills itself with this status when its job has run for too long.
            $this->end((int) $event->status === 1 ? 'it ran longer than its timeout' : self::ENDED);
        });
        register_shutdown_function(fn () => $this->end(self::ENDED));
    }

    /** The worker is done with the job that it had. A handler that neither deletes nor releases it leaves it to us. */
    private function finish(): void
    {
        if ($this->current !== null) {
            Unsettled::settle($this->app, $this->current, $this->settings);
        }
        $this->current = null;
    }

    /** The process ends, perhaps in the middle of a run: by `exit`, a fatal error, or think-queue's alarm. */
    private function end(string $why): void
    {
        [$job, $consumer] = [$this->current, $this->consumer];
        $this->current = $this->consumer = null;
        $isLast = false;
        try {
            $before = $consumer?->report();
            try {
                // It is not given back like one that nobody has run: it may end the next process, too.
                $isLast = $job?->endsWithProcess() === false && $job->failFor($why);
            } catch (LeaseLostException) {
                // It runs elsewhere, or its time was over for duly, too.
            }
            $consumer?->close(self::FAREWELL_S); // it may still have to say so
            $consumer === null || $this->report($consumer, true);
            $isLast && $this->lastFailed($job, $why, $before ?? [], $consumer?->report() ?? []);
        } catch (\Throwable $error) {
            $this->app->log->record("duly: the worker ends: {$error->getMessage()}", 'error');
        }
    }

    /**
     * Its last run has ended the process. What the server has not answered may not be stored, and the job runs again.
     *
     * @param array<string, int> $before what the consumer had reported
     * @param array<string, int> $after
     */
    private function lastFailed(Job $job, string $why, array $before, array $after): void
    {
        if (($after['failed'] ?? 0) > ($before['failed'] ?? 0)) {
            $job->failedWithProcess($why);
        } elseif (($after['lost'] ?? 0) === ($before['lost'] ?? 0)) { // or else an event has said so
            $named = Failures::job($job->reserved);
            $text = "{$named} has failed for the last time, and failed() is not called: the server has not answered";
            $this->app->log->record("duly: {$text} that this is stored ({$why})", 'error');
        }
    }

    private function report(Consumer $consumer, bool $isIdle): void
    {
        $now = microtime(true);
        if (!$isIdle && $now < $this->reportedAt + self::SLICE_S) {
            return;
        }
        $this->reportedAt = $now;
        foreach ($consumer->events() as $event) {
            $this->app->log->record("duly: {$event['text']}", (string) $event['level']);
        }
    }
}
