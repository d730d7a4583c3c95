<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\UnsupportedException;

// For programs without an autoloader, for which this file is the only one to name.
// phpcs:disable PSR1.Files.SideEffects
if (extension_loaded('duly')) {
    $files = ['Exception/JobInterruptedException', 'Retry', 'Release', 'Fail'];
    $files = [...$files, 'Exits', 'Failures', 'Handlers', 'Hooks', 'Leftovers', 'Log', 'Misuse', 'RestartOn'];
    $files = [...$files, 'Run', 'Runs', 'Signals', 'Supervised', 'Supervisor', 'Telemetry', 'Unprintable',
        'Version'];
    foreach ($files as $file) {
        // An autoloader may have loaded it under another path.
        class_exists('Duly\\' . strtr($file, '/', '\\'), false) || require_once __DIR__ . "/{$file}.php";
    }
}

/**
 * Runs the jobs of some queues, one at a time, until it is stopped.
 *
 * A native thread fetches the jobs, renews their leases while the handler runs, and sends the outcomes to the server.
 * If the handler returns, the job is acked. If it throws, the job fails and its retry policy decides, unless it throws
 * `Duly\Retry`, `Duly\Release` or `Duly\Fail`. A job that its handler acked, failed or released itself is not settled
 * again.
 *
 * A list of queues is a strict order, the first queue first; `['orders' => 3, 'mail' => 1]` gives each queue a weight.
 *
 * A run that is longer than its job's timeout, or whose lease is lost, is interrupted: with pcntl, a
 * `JobInterruptedException` is thrown in the handler, also out of a `sleep()`. If the handler does not end within five
 * seconds, because it is in a query for example, or if there is no pcntl, the process ends with exit code 124, and its
 * supervisor starts another one.
 *
 * With pcntl, the first SIGTERM, SIGINT or SIGQUIT lets the running job finish within the grace and then ends `run`.
 * A second one, or the end of the grace, interrupts the handler, gives the job back without counting a failure, and
 * ends the process with 128 and the signal's number (SIGALRM for the end of the grace). A signal cuts a `sleep()` of
 * the handler short, as PHP does everywhere. Other code that runs then has the same grace: an `onFailed` hook for a job
 * that failed elsewhere, a logger, a destructor. If it does not end within five seconds after that, the process ends
 * with exit code 124.
 *
 * Hooks are called around every run, in the same order in every language: `before` hooks in the order in which they
 * were added; the handler; then, in the opposite order, `after` hooks if it returned, also if it acked the job itself.
 * If it threw: `onFailure` hooks, then the decision (retry or `failed`), then `onFailed` hooks if it is `failed`. A
 * `before` hook that throws ends the run as if the handler had thrown. An interrupted run calls neither `after` nor
 * `onFailure`, because its job is already settled. Nor does a run whose handler released or failed the job itself.
 *
 * `onFailed` is called for every job that enters `failed`, also if its worker died, it timed out, or `Job::fail` was
 * called: by any worker of the queue, between two runs, at least once, and usually once. If this worker did not run
 * the job, or its last run was interrupted, the hook gets a `JobFailedException`. Give all workers of a queue the same
 * hooks.
 *
 * When a run is over, the worker resets what its handler did to the worker's signals (handlers of its own, blocked
 * signals), to alarms (`pcntl_alarm`, unless the program has an alarm or a handler for SIGALRM when `run` begins), to
 * PHP's time limit (`set_time_limit`), to `memory_limit` and to output buffers: it is not for the next job. Everything
 * else of the process stays as a handler leaves it, such as error handlers, the time zone and the working directory.
 */
final class Worker
{
    /** No wait is longer, so that `stop` is seen soon. */
    private const LONGEST_WAIT_S = 0.5;
    /** The same while the engine ends. */
    private const LAST_WAIT_S = 0.05;
    /** The version of this class; that of `Version` may be the one before, in a process that is started after an update. */
    private const CLASSES = '0.1.0';

    private Log $log;
    private RestartOn $restartOn;
    private Runs $runs;
    private bool $stopAsked = false;
    /** Whether it was `stop` that has asked, of which the engine does not know yet. */
    private bool $tellsEngine = false;
    /** @var array<string, array{string, string, array<string, Schedule>}> queue, owner and schedules */
    private array $schedules = [];
    /** The runs in this process, one of which may end it. */
    private static ?Exits $running = null;
    private static bool $watchesExit = false;

    /**
     * @param Client $client the server
     * @param list<string>|array<string, int> $queues names in a strict order, or weights (1 to 1,000) by name
     * @param float $lease after how many seconds other workers may take the jobs of this worker if it dies, 0.1 to
     *     86,400. Default: 10
     * @param float $grace how many seconds the running job may go on after the first signal, 0 to 86,400. Default: 30
     * @param ?int $maxJobs `run` returns after so many jobs, 1 or more, so that a supervisor starts a fresh process.
     *     Default: no limit
     * @param ?callable(string, string): void $log gets each line of the log, and its level. Default: stderr
     * @param ?int $memory `run` returns after a job when PHP uses more than so many MiB, 1 or more. Default: no limit
     * @param ?object $logger a PSR-3 logger (`Psr\Log\LoggerInterface`); gets the lines with queue, id, name and
     *     attempt. Default: none
     * @param ?string $name the worker's name in `Queue::workers`, 1 to 128 bytes. Default: none
     * @param bool $logDone whether the PSR-3 logger also gets a debug line for each job that is done. Default:
     *     false
     * @param ?callable(\Throwable, Job): mixed $report gets each exception of a handler, as the exception handler of a
     *     framework does; the log then has no line about that failure, unless it throws. Default: none, failures are
     *     logged
     * @param int|float|null $timeout the longest run in seconds of jobs that have no timeout of their own. Default: no
     *     limit
     * @param ?int $prefetch the most jobs that wait in this process besides the one that runs, 0 to 1,000. Default: as
     *     many as run within 50 ms
     */
    public function __construct(
        private Client $client,
        private array $queues,
        private float $lease = 10.0,
        private float $grace = 30.0,
        private ?int $maxJobs = null,
        ?callable $log = null,
        private ?int $memory = null,
        ?object $logger = null,
        private ?string $name = null,
        bool $logDone = false,
        ?callable $report = null,
        private int|float|null $timeout = null,
        private ?int $prefetch = null,
    ) {
        $mismatch = Version::mismatch(self::CLASSES);
        if ($mismatch !== null) {
            throw new UnsupportedException($mismatch);
        }
        $this->check();
        $log === null || Misuse::refuseGenerator('log', $log);
        $report === null || Misuse::refuseGenerator('report', $report);
        $this->restartOn = new RestartOn();
        $this->log = new Log($log, $logger);
        $this->runs = new Runs(new Handlers(), $this->log, $report, $this->restartOn, $logDone);
    }

    /** A copy has the handlers and hooks that the worker had, and does not run. */
    public function __clone()
    {
        $this->restartOn = clone $this->restartOn;
        $this->runs = $this->runs->copy($this->restartOn);
        $this->stopAsked = $this->tellsEngine = false;
    }

    /**
     * Sets the handler of the jobs of this name; an empty name means jobs without a name.
     *
     * @param callable(mixed, Job): mixed $handler gets the data, with JSON objects as arrays, and the job; its return
     *     value is the job's result
     *
     * @throws InvalidArgumentException there is a handler for this name already, no job can have the name, or the
     *     handler yields: calling it would only make a generator
     */
    public function on(string $name, callable $handler): static
    {
        $this->runs->handlers->handle($name, $handler);
        return $this;
    }

    /**
     * Sets the handler of the jobs for whose name there is none, and of jobs without a name unless there is one.
     *
     * @param callable(mixed, Job): mixed $handler see `on`
     *
     * @throws InvalidArgumentException there is such a handler already, or the handler yields
     */
    public function otherwise(callable $handler): static
    {
        $this->runs->handlers->handleOthers($handler);
        return $this;
    }

    /**
     * Adds a hook that is called before the handler; if it throws, the handler does not run.
     *
     * @param callable(Job): mixed $hook
     */
    public function before(callable $hook): static
    {
        $this->runs->handlers->hook('before', $hook);
        return $this;
    }

    /**
     * Adds a hook that is called when the handler has returned: just before the ack, or after the handler's own `ack`.
     * It is not called if the handler called `release` or `fail`.
     *
     * @param callable(Job): mixed $hook
     */
    public function after(callable $hook): static
    {
        $this->runs->handlers->hook('after', $hook);
        return $this;
    }

    /**
     * Adds a hook that is called with a job whose handler threw, and the exception, before the failure is stored. It
     * may return arguments of `Job::fail` to change, such as `['maxRetries' => 9, 'headers' => ['by' => 'shop']]`, or
     * null.
     *
     * @param callable(Job, \Throwable): ?array<string, mixed> $hook
     */
    public function onFailure(callable $hook): static
    {
        $this->runs->handlers->hook('onFailure', $hook);
        return $this;
    }

    /**
     * Adds a hook that is called for each job that goes to `failed`, or is already there. If the handler ended the
     * process by `exit` or a fatal error, the hook gets a `\RuntimeException` or an `\ErrorException`.
     *
     * @param callable(Job, \Throwable): mixed $hook
     */
    public function onFailed(callable $hook): static
    {
        $this->runs->handlers->hook('onFailed', $hook);
        return $this;
    }

    /**
     * Makes `run` return after a handler threw one of these, or an exception with one of them as a cause. The
     * supervisor then starts a fresh process, with a fresh database connection. The job is retried by its policy.
     *
     * A class of one of PHP's extensions also means classes of the same short name: `\PDOException::class` also means
     * `think\db\exception\PDOException`, which think-orm throws without PHP's own exception as its cause, and classes
     * that extend that one. Classes of namespaces, your own classes, and PHP's general ones (`\RuntimeException`) mean
     * just themselves and what extends them.
     *
     * @param list<class-string> $classes exceptions, or interfaces of exceptions
     *
     * @throws InvalidArgumentException one of them is no class, or no exception
     */
    public function restartOn(array $classes): static
    {
        $this->restartOn->add($classes);
        return $this;
    }

    /**
     * Makes the schedules of an owner in a queue those of this array when `run` begins: see `Schedules::sync`. Further
     * calls for this owner and queue add to them. While the server cannot take them, `run` tries again beside the jobs.
     *
     * @param string $owner whose schedules: a name that no other program has
     * @param array<string, Schedule> $schedules by name
     * @param ?string $queue default: the worker's first queue
     *
     * @throws InvalidArgumentException what `Schedules::sync` refuses without asking the server
     */
    public function schedules(string $owner, array $schedules, ?string $queue = null): static
    {
        $queue ??= $this->queues()[0];
        // Two calls for one owner add up: each would remove what the other has stored.
        [, , $before] = $this->schedules["{$queue} {$owner}"] ?? [$queue, $owner, []];
        $all = [$queue, $owner, $schedules + $before];
        $this->check([$all]);
        $this->schedules["{$queue} {$owner}"] = $all;
        return $this;
    }

    /**
     * Makes `run` return after the running job. Call it from a handler or a signal handler. While the server is away,
     * the outcomes of the last jobs are sent again for 8 s, or for 2 s after a second call behind the last run.
     */
    public function stop(): void
    {
        $this->stopAsked = $this->tellsEngine = true;
    }

    /**
     * As `stop`, but the last outcomes wait for the server until somebody stops the worker.
     *
     * @internal for `Duly\Think`
     */
    public function retire(): void
    {
        $this->stopAsked = true;
    }

    /**
     * Changes settings of the constructor, by their names.
     *
     * @internal for `duly-worker`
     * @param array<string, mixed> $settings
     */
    public function change(array $settings): void
    {
        foreach ($settings as $name => $value) {
            $this->{$name} = $value;
        }
        $this->check();
    }

    /**
     * @internal for `duly-worker`
     * @return list<string>
     */
    public function queues(): array
    {
        $name = static fn (int|string $key, int|string $value): string => (string) (is_int($value) ? $key : $value);
        return array_map($name, array_keys($this->queues), array_values($this->queues));
    }

    /**
     * Runs jobs until `stop`, a signal, `maxJobs`, `memory` or an exception of `restartOn`. Waits out server outages.
     *
     * @return array<string, int> how many jobs are `acked`, `failed`, `released`, `lost` and `expired`, without those
     *     that their handlers have settled by a call
     *
     * @throws ExceptionInterface a permanent error, such as a wrong password at the start, or it runs already
     */
    public function run(): array
    {
        Misuse::refuseWhileLoading();
        try {
            return $this->serve();
        } catch (ExceptionInterface $error) {
            Supervised::tell(Supervised::FATAL);
            throw $error;
        }
    }

    /**
     * Whether the running job is settled by the engine, whatever its handler throws: it goes back, or is another one's.
     *
     * @internal for `Duly\Think`
     */
    public function isInterrupted(): bool
    {
        return $this->runs->isInterrupted();
    }

    /**
     * Why the running job has failed, should the process end before its run does.
     *
     * @internal for `Duly\Think`
     * @param array<string, mixed> $options further arguments of `Job::fail`
     */
    public function fails(\Throwable $why, array $options): void
    {
        $this->runs->run->failure = [$why, ['error' => $why] + $options];
    }

    /**
     * Whether a worker runs in this process.
     *
     * @internal for `duly-worker`
     */
    public static function isRunning(): bool
    {
        return self::$running !== null;
    }

    /** @return array<string, int> */
    private function serve(): array
    {
        $this->runs->handlers->refuseNone();
        $this->runs->refuseRunning();
        $leftovers = new Leftovers($this->log);
        $outer = self::$running;
        $goesOn = Unprintable::goOn();
        // A signal that comes now waits for its handler: the engine fetches at once, and a process that dies by the
        // signal would leave its job to the lease.
        Signals::hold();
        try {
            $patience = Signals::areHeard() ? Supervision::patience() : 0.0;
            $settings = [$this->queues, $this->lease, $this->grace, $patience, $this->name, $this->maxJobs];
            $more = ['schedules' => array_values($this->schedules), 'timeout' => $this->timeout];
            $engine = new WorkerEngine($this->client, ...$settings, ...$more, prefetch: $this->prefetch);
            $this->runs->begin($engine);
            $exits = new Exits($this->runs, $engine);
            self::$running = $exits;
            self::watchExit();
            // At a signal the engine is stopped as well.
            $signals = new Signals($engine, $this->retire(...), $this->runs->interrupt(...));
            Supervised::ready($this->grace, implode(', ', $this->queues()));
        } catch (\Throwable $error) {
            $this->runs->end();
            self::$running = $outer;
            Unprintable::restore($goesOn);
            throw $error;
        } finally {
            Signals::hold(false);
        }
        try {
            $this->work($engine, $signals, $leftovers);
            $this->runs->lookAtOutput();
            $engine->done();
            $this->tell($engine, $signals);
            $engine->isOver() || $engine->retire(); // for its memory, or an exception of restartOn
            do {
                $this->tell($engine, $signals);
                $leftovers->clear();
                $signals->arm();
                // The hooks of jobs that failed elsewhere are other workers' by now.
                $this->runs->reportEvents($engine);
                $ended = $engine->ended(self::LAST_WAIT_S);
            } while (!$ended);
            $this->runs->reportEvents($engine);
        } catch (\Throwable $error) {
            // A destructor that throws, or the engine's own end.
            $exits->endsBy($error);
            throw $error;
        } finally {
            $this->runs->end();
            $this->stopAsked = $this->tellsEngine = false;
            self::$running = $outer;
            Unprintable::restore($goesOn);
            $signals->restore();
        }
        $code = $engine->exitCode($signals->came());
        if ($code !== 0) {
            WorkerEngine::mustEnd();
            exit($code);
        }
        return $engine->report();
    }

    /** @param list<array{string, string, array<string, Schedule>}> $schedules */
    private function check(array $schedules = []): void
    {
        if ($this->memory !== null && $this->memory < 1) {
            throw new InvalidArgumentException('memory must be 1 MiB or more, or null for no limit');
        }
        $settings = [$this->queues, $this->lease, $this->grace, $this->name, $this->maxJobs, $schedules];
        $settings = [...$settings, $this->timeout, $this->prefetch];
        WorkerEngine::check($this->client, ...$settings);
    }

    private function tell(WorkerEngine $engine, Signals $signals): void
    {
        // Behind a signal, which has stopped the engine, this asks for the same.
        if ($this->tellsEngine && $signals->came() === []) {
            $engine->stop();
        }
        $this->tellsEngine = false;
    }

    private function work(WorkerEngine $engine, Signals $signals, Leftovers $leftovers): void
    {
        $memory = $this->memory === null ? PHP_INT_MAX : $this->memory * 1024 * 1024;
        while (!$this->stopAsked) {
            // The wait for the next run, and that, begin as the first did.
            if (WorkerEngine::touched()) {
                $leftovers->clear();
                $signals->arm();
            }
            // Ends the run before, too.
            $job = $engine->next(self::LONGEST_WAIT_S);
            if ($job === null) {
                $this->runs->reportEvents($engine);
                $this->runs->lookAtOutput();
                if ($engine->isOver()) {
                    return;
                }
                continue;
            }
            if ($this->stopAsked) {
                $engine->release();
                return;
            }
            if (!$this->runs->run($engine, $job)) {
                return;
            }
            if ($memory !== PHP_INT_MAX && memory_get_usage(true) > $memory) {
                $this->runs->log('info', "this worker ends: PHP's memory is more than {$this->memory} MiB", $job);
                return;
            }
        }
    }

    /** A handler that ends the process, by `exit` or a fatal error, has failed. Once a process. */
    private static function watchExit(): void
    {
        if (self::$watchesExit) {
            return;
        }
        self::$watchesExit = true;
        register_shutdown_function(static function (): void {
            self::$running?->exits();
        });
    }
}
