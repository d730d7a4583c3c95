<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\JobFailedException;
use Duly\Exception\JobInterruptedException;
use Duly\Exception\TooLargeException;

// For programs without an autoloader, for which this file is the only one to name.
// phpcs:disable PSR1.Files.SideEffects
if (extension_loaded('duly')) {
    $files = ['Exception/JobInterruptedException', 'Log', 'Misuse', 'Leftovers', 'RestartOn'];
    $files = [...$files, 'Retry', 'Release', 'Fail', 'Trace'];
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
 * A second one, or the end of the grace, interrupts the handler, gives the job back uncounted, and ends the process
 * with 128 and the signal's number (SIGALRM for the end of the grace). A signal cuts a `sleep()` of the handler
 * short, as PHP does everywhere.
 *
 * Hooks are called around every run, in the same order in every language: `before` hooks in the order in which they
 * were added; the handler; then, in the opposite order, `after` hooks if it returned, also if it acked the job itself.
 * If it threw: `onFailure` hooks, then the decision (retry or `failed`), then `onFailed` hooks if it is `failed`. A
 * `before` hook that throws ends the run as if the handler had thrown. An interrupted run calls neither `after` nor
 * `onFailure`, because its job is already settled. Nor does a run whose handler released or failed the job itself.
 *
 * `onFailed` is called for every job that enters `failed`, also if its worker died, it timed out, or `Job::fail` was
 * called: by any worker of the queue, between two runs, at least once, and usually once. If this worker did not run
 * the job, the hook gets a `JobFailedException`. Give all workers of a queue the same hooks.
 *
 * When a run is over, the worker resets what its handler did to the worker's signals (handlers of its own, blocked
 * signals), to alarms (`pcntl_alarm`, unless the program has an alarm or a handler for SIGALRM when `run` begins), to
 * PHP's time limit (`set_time_limit`) and to `memory_limit`: it is not for the next job. Everything else of the process
 * stays as a handler leaves it, such as error handlers, output buffers, the time zone and the working directory.
 */
final class Worker
{
    /** SIGALRM, which PHP knows by name only with pcntl. */
    private const ALARM = 14;
    private const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT'];
    /** No wait is longer, so that `stop` is seen soon. */
    private const LONGEST_WAIT_S = 0.5;
    /** The same while the engine ends. */
    private const LAST_WAIT_S = 0.05;
    /** How long an interrupted handler may take to clean up. */
    private const PATIENCE_S = 5.0;
    /** How long the last words of a process that ends in a handler may take. */
    private const FAREWELL_S = 2.0;
    /** What may be used to say that all memory was used up. */
    private const LAST_BYTES = 16 << 20;
    private const MOST_HEARD = 100;
    private const HANDLER = 'handler';
    private const FATAL = E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR;

    /** @var array<string, callable> */
    private array $handlers = [];
    /** @var list<callable> */
    private array $before = [];
    /** @var list<callable> the last one that was added is the first, as in the lists below */
    private array $after = [];
    /** @var list<callable> */
    private array $onFailure = [];
    /** @var list<callable> */
    private array $onFailed = [];
    /** @var array<string, true> queue and id of jobs whose hooks were called before the server reported them */
    private array $heard = [];
    private RestartOn $restartOn;
    private Log $log;
    /** @var ?callable */
    private $report;
    private ?WorkerEngine $engine = null;
    private ?Job $job = null;
    /** What of the program runs: the handler, or one of the hooks by its name. */
    private string $phase = self::HANDLER;
    /** Whether the run has worked, and is to be acked unless its handler has settled it. */
    private bool $isDone = false;
    /** @var ?array{\Throwable, array<string, mixed>} why the run failed, and the arguments of `Job::fail` */
    private ?array $failure = null;
    /** Whether the engine knows what becomes of the job. */
    private bool $isReported = false;
    /** The failed job of another run whose `onFailed` hooks are called. */
    private ?Job $toldOf = null;
    private ?Leftovers $leftovers = null;
    /** Whether an exception may be thrown in what runs. */
    private bool $interruptible = false;
    private bool $stopAsked = false;
    private int $signals = 0;
    private int $signal = 0;
    /** Whether the handler was interrupted because the worker stops. */
    private bool $cutShort = false;
    /** Whether the engine sees signals by itself. */
    private bool $listens = false;
    /** How many signals the engine had seen before. */
    private int $cameBefore = 0;
    /** @var array<int, callable> what is set for each signal during a run */
    private array $armed = [];
    /** @var list<int> those of them at which the engine stops */
    private array $stopSignals = [];
    /** The worker that runs in this process, and whose job fails if the process ends. */
    private static ?self $running = null;
    private static bool $watchesExit = false;
    /** The process that runs it. */
    private int $owner = 0;

    /**
     * @param Client $client the server
     * @param list<string>|array<string, int> $queues names in a strict order, or weights (1 to 1,000) by name
     * @param float $lease how many seconds after a worker died others may take its jobs, 0.1 to 86,400
     * @param float $grace how many seconds the running job may go on after the first signal, 0 to 86,400
     * @param ?int $maxJobs `run` returns after so many jobs, so that a supervisor starts a fresh process. Default: no
     *     limit
     * @param ?callable(string, string): void $log gets each line of the log, and its level. Default: stderr
     * @param ?int $memory `run` returns after a job when PHP uses more than so many MiB. Default: no limit
     * @param ?object $logger a PSR-3 logger (`Psr\Log\LoggerInterface`); gets the lines with queue, id, name and
     *     attempt
     * @param ?string $name the worker's name in `Queue::workers`, 1 to 128 bytes. Default: none
     * @param bool $logDone whether the PSR-3 logger also gets a debug line for each job that is done
     * @param ?callable(\Throwable, Job): mixed $report gets each exception of a handler, as the exception handler of a
     *     framework does; the log then has no line about that failure
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
        private bool $logDone = false,
        ?callable $report = null,
    ) {
        $this->check();
        $log === null || Misuse::refuseGenerator('log', $log);
        $report === null || Misuse::refuseGenerator('report', $report);
        $this->log = new Log($log, $logger);
        $this->report = $report;
        $this->restartOn = new RestartOn();
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
        $named = $name === '' ? 'jobs without a name' : "the name '{$name}'";
        $name === '' || WorkerEngine::checkName($name);
        if (isset($this->handlers[$name])) {
            throw new InvalidArgumentException("there is a handler for {$named} already: a name has one handler");
        }
        Misuse::refuseGenerator("the handler for {$named}", $handler);
        $this->handlers[$name] = $handler;
        return $this;
    }

    /**
     * Adds a hook that is called before the handler; if it throws, the handler does not run.
     *
     * @param callable(Job): mixed $hook
     */
    public function before(callable $hook): static
    {
        Misuse::refuseGenerator('the before hook', $hook);
        $this->before[] = $hook;
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
        Misuse::refuseGenerator('the after hook', $hook);
        array_unshift($this->after, $hook);
        return $this;
    }

    /**
     * Adds a hook that is called with a job whose handler threw, and the exception, before the failure is stored. It
     * may return arguments of `Job::fail` to change, such as `['data' => ..., 'maxRetries' => 9]`, or null.
     *
     * @param callable(Job, \Throwable): ?array<string, mixed> $hook
     */
    public function onFailure(callable $hook): static
    {
        Misuse::refuseGenerator('the onFailure hook', $hook);
        array_unshift($this->onFailure, $hook);
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
        Misuse::refuseGenerator('the onFailed hook', $hook);
        array_unshift($this->onFailed, $hook);
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

    /** Makes `run` return after the running job. Call it from a handler or a signal handler. */
    public function stop(): void
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

    /** @internal for `duly-worker` */
    public function grace(): float
    {
        return $this->grace;
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
     * @return array<string, int> how many jobs are `acked`, `failed`, `released` and `lost`
     *
     * @throws ExceptionInterface a permanent error, such as a wrong password at the start
     */
    public function run(): array
    {
        if ($this->handlers === []) {
            throw new InvalidArgumentException('a worker needs at least one handler: $worker->on(name, callable)');
        }
        $patience = function_exists('pcntl_signal') ? self::PATIENCE_S : 0.0;
        $settings = [$this->queues, $this->lease, $this->grace, $patience, $this->name];
        [$this->listens, $this->signals, $this->cutShort] = [false, 0, false];
        $this->leftovers = new Leftovers();
        // A signal that comes now waits for its handler: the engine fetches at once, and a process that dies by the
        // signal would leave its job to the lease.
        self::holdSignals();
        $outer = self::$running;
        try {
            $engine = new WorkerEngine($this->client, ...$settings);
            $this->engine = $engine;
            self::$running = $this;
            $this->owner = (int) getmypid();
            self::watchExit();
            $restore = $this->catchSignals();
        } finally {
            self::holdSignals(false);
        }
        try {
            $this->work($engine);
            $engine->done();
            if (!$engine->isOver()) {
                $engine->stop();
            }
            do {
                $this->arm();
                // The engine waits a moment for the hooks of failed jobs that it has reported.
                $this->reportEvents($engine);
                $ended = $engine->ended(self::LAST_WAIT_S);
            } while (!$ended);
            $this->reportEvents($engine);
        } catch (\Throwable $error) {
            // A logger that throws, or the engine's own end.
            $this->leave($engine);
            throw $error;
        } finally {
            $this->engine = null;
            $this->job = null;
            $this->stopAsked = false;
            self::$running = $outer;
            $restore();
        }
        $signal = $this->signals > 1 ? $this->signal : self::ALARM;
        $this->signals = 0;
        if ($this->cutShort) {
            $this->cutShort = false;
            exit(128 + $signal);
        }
        return $engine->report();
    }

    private function check(): void
    {
        if ($this->maxJobs !== null && $this->maxJobs < 1) {
            throw new InvalidArgumentException('maxJobs must be 1 or more, or null for no limit');
        }
        if ($this->memory !== null && $this->memory < 1) {
            throw new InvalidArgumentException('memory must be 1 MB or more, or null for no limit');
        }
        WorkerEngine::check($this->client, $this->queues, $this->lease, $this->grace, $this->name);
    }

    private function work(WorkerEngine $engine): void
    {
        $left = $this->maxJobs ?? PHP_INT_MAX;
        $memory = $this->memory === null ? PHP_INT_MAX : $this->memory * 1024 * 1024;
        while (!$this->stopAsked && $left > 0) {
            $this->arm();
            // Ends the run before, too.
            $job = $engine->next(self::LONGEST_WAIT_S);
            if ($job === null) {
                $this->reportEvents($engine);
                if ($engine->isOver()) {
                    return;
                }
                continue;
            }
            if ($this->stopAsked) {
                $engine->release();
                return;
            }
            $left--;
            if (!$this->runOne($engine, $job)) {
                return;
            }
            if ($memory !== PHP_INT_MAX && memory_get_usage(true) > $memory) {
                $this->log('info', "this worker ends: PHP's memory is more than {$this->memory} MB", $job);
                return;
            }
        }
    }

    /** Gives whether the worker may go on. A run that is done is left to the next call of the engine. */
    private function runOne(WorkerEngine $engine, Job $job): bool
    {
        $this->isDone = false;
        $this->failure = null;
        $this->isReported = false;
        $this->job = $job;
        if (\count($this->heard) > self::MOST_HEARD) {
            $this->heard = []; // another worker has reported these
        }
        $goesOn = $this->handle($engine, $job);
        $this->job = null;
        return $goesOn;
    }

    private function handle(WorkerEngine $engine, Job $job): bool
    {
        $scope = null;
        try {
            try {
                $this->interruptible = true;
                $scope = Trace::continue($job);
                $this->phase = 'before';
                foreach ($this->before as $hook) {
                    Misuse::refuseUnrun('the before hook', $hook($job));
                }
                $this->phase = self::HANDLER;
                $name = $job->name;
                $handler = $this->handlers[$name ?? ''] ?? throw self::noHandler($name);
                $result = $handler($job->data(), $job);
                if ($result instanceof \Generator) {
                    Misuse::refuseUnrun('the handler', $result);
                }
                $engine->keep($result);
            } finally {
                $this->interruptible = false;
                $scope?->detach();
            }
        } catch (\Throwable $thrown) {
            $goesOn = $this->isForked() ? $this->endForked($job, $thrown) : $this->onThrown($engine, $job, $thrown);
            $this->failure = null;
            $this->letGo($thrown, $job);
            return $goesOn;
        }
        if (\getmypid() !== $this->owner) {
            return false; // forked
        }
        $this->isDone = true;
        if ($this->after !== [] && (!$job->settled || $job->acked) && $engine->interruption() === null) {
            $this->callHooks('after', $this->after, $job);
        }
        if ($this->logDone) {
            $this->log('debug', self::named($job) . ' is done', $job);
        }
        return true;
    }

    /** Whether this is a process that the handler has forked: the job is its parent's. */
    private function isForked(): bool
    {
        return getmypid() !== $this->owner;
    }

    private function endForked(Job $job, \Throwable $thrown): never
    {
        $this->log('error', 'a process that the handler of ' . self::named($job) . ' has forked ends: it threw '
            . self::place($thrown), $job, $thrown);
        exit(255); // as PHP does when nobody catches an exception
    }

    /** Gives up an exception where what its destructors throw is caught: it is no reason for a worker to end. */
    private function letGo(?\Throwable &$thrown, Job $job): void
    {
        while ($thrown !== null) {
            try {
                $thrown = null;
            } catch (\Throwable $thrown) {
                $text = 'a destructor of an exception for ' . self::named($job) . ' threw ' . self::place($thrown);
                $this->log('error', $text, $job, $thrown);
            }
        }
    }

    private static function noHandler(?string $name): Retry
    {
        $name = $name === null ? 'jobs without a name' : "the name '{$name}'";
        return new Retry(message: "this worker has no handler for {$name}");
    }

    private function onThrown(WorkerEngine $engine, Job $job, \Throwable $thrown): bool
    {
        $why = $engine->interruption();
        if ($why !== null) {
            // It is settled, and the engine's event says so.
            $this->cutShort = $why === 'stopped';
            if ($why === 'timed_out' && !$job->settled && $engine->isLast($thrown)) {
                $this->callHooks('onFailed', $this->onFailed, $job, $thrown);
                $this->heard["{$job->queue->name} {$job->id}"] = true;
            }
            $engine->done();
            return true;
        }
        if ($job->settled) {
            $text = self::named($job) . ' was settled, then its handler threw ' . self::place($thrown);
            $this->log('warning', $text, $job, $thrown);
        } elseif ($thrown instanceof Release) {
            $this->release($engine, $job, $thrown);
        } else {
            $this->fail($engine, $job, $thrown);
        }
        if ($this->restartOn->means($thrown)) {
            $this->log('info', 'this worker ends, for a fresh one to go on', $job);
            return false;
        }
        return true;
    }

    private function release(WorkerEngine $engine, Job $job, Release $thrown): void
    {
        try {
            $engine->release($thrown->after);
            $this->isReported = true;
            $text = self::named($job) . " was released by its handler; it runs again in {$thrown->after} s";
            $this->log('info', $text, $job);
        } catch (ExceptionInterface $error) {
            $this->fail($engine, $job, $error);
        }
    }

    private function fail(WorkerEngine $engine, Job $job, \Throwable $thrown): void
    {
        $failure = ['error' => $thrown];
        if ($thrown instanceof Fail) {
            $failure['final'] = true;
        } elseif ($thrown instanceof Retry && $thrown->after !== null) {
            $failure['retryAfter'] = $thrown->after;
        }
        $changed = $failure;
        $this->failure = [$thrown, $failure];
        foreach ($this->onFailure as $hook) {
            try {
                $this->phase = 'onFailure';
                $changed = (Misuse::refuseUnrun('the onFailure hook', $hook($job, $thrown)) ?? []) + $changed;
            } catch (\Throwable $error) {
                // The job has failed all the same.
                $this->logHook('onFailure', $job, $error);
                $this->letGo($error, $job);
            }
            if ($job->settled) {
                return;
            }
        }
        try {
            $this->settle($engine, $job, $thrown, $changed);
        } catch (\Error | \InvalidArgumentException | \LengthException $error) {
            $named = self::named($job);
            $what = $changed === $failure ? "the handler threw for {$named}" : "onFailure gave for {$named}";
            $this->log('error', "{$what} what fail does not take: " . self::place($error), $job, $error);
            $this->letGo($error, $job);
            $this->settle($engine, $job, $thrown, ['error' => $thrown]);
        }
    }

    /** @param array<string, mixed> $failure the arguments of `Job::fail` */
    private function settle(WorkerEngine $engine, Job $job, \Throwable $thrown, array $failure): void
    {
        $isLast = $engine->isLast(...$failure);
        if ($isLast) {
            $this->callHooks('onFailed', $this->onFailed, $job, $thrown);
        }
        if ($job->settled) {
            return;
        }
        $wait = $engine->fail(...$failure);
        $this->isReported = true;
        if ($this->report !== null) {
            $this->callHooks('report', [fn (Job $job) => ($this->report)($thrown, $job)], $job);
            return;
        }
        $what = $isLast ? 'failed for good' : "failed; it runs again in {$wait} s";
        $why = self::reason($thrown);
        $this->log($isLast ? 'error' : 'warning', self::named($job) . " {$what}: {$why}", $job, $thrown);
    }

    /** @param list<callable> $hooks */
    private function callHooks(string $kind, array $hooks, Job $job, mixed ...$arguments): void
    {
        foreach ($hooks as $hook) {
            try {
                $this->phase = $kind;
                Misuse::refuseUnrun($kind === 'report' ? $kind : "the {$kind} hook", $hook($job, ...$arguments));
            } catch (\Throwable $error) {
                $this->logHook($kind, $job, $error);
                $this->letGo($error, $job);
            }
        }
    }

    private function logHook(string $kind, Job $job, \Throwable $error): void
    {
        $words = self::ownWords($error);
        $what = $words === null ? ' threw ' . self::place($error) : ": {$words}";
        $this->log('error', "{$kind} for " . self::named($job) . $what, $job, $error);
    }

    private static function named(Job $job): string
    {
        $name = $job->name ?? 'no name';
        return "job '{$job->id}' ({$name}, attempt {$job->attempt}) of queue '{$job->queue->name}'";
    }

    /** For a line of the log: what an exception says may hold the job's data. */
    private static function place(\Throwable $error): string
    {
        return self::utf8($error::class . " at {$error->getFile()}:{$error->getLine()}");
    }

    private static function reason(\Throwable $error): string
    {
        return self::ownWords($error) ?? self::place($error);
    }

    /** What a line of the log may say when this worker, and not its handler, made a run fail; null for a handler. */
    private static function ownWords(\Throwable $error): ?string
    {
        // Not by the class: what a `jsonSerialize` of the result throws may be of any.
        $maker = $error->getTrace()[0] ?? [];
        return match ([$maker['class'] ?? '', $maker['function'] ?? '', $error::class]) {
            [self::class, 'noHandler', Retry::class],
            [Misuse::class, 'refuseUnrun', \LogicException::class],
            [WorkerEngine::class, 'keep', TooLargeException::class] => self::utf8($error->getMessage()),
            // The message says at which key, and the keys of a result are data as well.
            [WorkerEngine::class, 'keep', InvalidArgumentException::class]
                => "what the handler gave cannot be JSON; the job's error says where",
            default => null,
        };
    }

    /** A message may hold any bytes, and an error text must be UTF-8. */
    private static function utf8(string $text): string
    {
        return json_decode((string) json_encode($text, JSON_INVALID_UTF8_SUBSTITUTE));
    }

    private function log(string $level, string $text, Job $job, ?\Throwable $error = null): void
    {
        $context = [
            'queue' => $job->queue->name,
            'id' => $job->id,
            'name' => $job->name,
            'attempt' => $job->attempt,
        ];
        $phase = $this->phase;
        $this->phase = 'log';
        ($this->log)($level, $text, $error === null ? $context : $context + ['exception' => $error]);
        $this->phase = $phase;
    }

    /** What the engine has to say. */
    private function reportEvents(WorkerEngine $engine): void
    {
        foreach ($engine->events() as $event) {
            // Its worker died, its time was over, or whoever held it said so.
            $job = $event['failed'] ?? null;
            if ($job instanceof Job && !$engine->mayCallHooks($job)) {
                continue; // another worker reports it
            }
            $left = ['level' => 0, 'text' => 0, 'failed' => 0, 'error' => 0];
            ($this->log)($event['level'], $event['text'], array_diff_key($event, $left));
            if ($job instanceof Job) {
                $named = "{$job->queue->name} {$job->id}";
                if (!isset($this->heard[$named])) {
                    $this->toldOf = $job;
                    $error = new JobFailedException((string) ($event['error'] ?? ''));
                    $this->callHooks('onFailed', $this->onFailed, $job, $error);
                    $this->toldOf = null;
                }
                unset($this->heard[$named]);
                $engine->heard($job);
            }
        }
    }

    /** @internal has signals wait for the handlers that `run` sets */
    public static function holdSignals(bool $hold = true): void
    {
        if (function_exists('pcntl_sigprocmask')) {
            pcntl_sigprocmask($hold ? SIG_BLOCK : SIG_UNBLOCK, array_map('constant', self::SIGNALS));
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
        $owner = getmypid();
        $onSignal = function (int $signal) use ($owner, &$before): void {
            if (getmypid() === $owner) {
                $this->onSignal($signal);
                return;
            }
            // A process that a handler has forked is no worker: as if this had never been set there.
            pcntl_signal($signal, $before[$signal]);
            function_exists('posix_kill') ? posix_kill(getmypid(), $signal) : exit(128 + $signal);
        };
        $this->stopSignals = array_map('constant', self::SIGNALS);
        $this->armed = array_fill_keys($this->stopSignals, $onSignal);
        $this->armed[SIGURG] = $this->interrupt(...);
        foreach ($this->armed as $signal => $handler) {
            $before[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, $handler);
        }
        // The grace begins with the signal also when PHP is in a query, and sees it only at its end.
        $this->cameBefore = WorkerEngine::came();
        $this->listens = WorkerEngine::listen($this->stopSignals);
        return function () use ($async, $before): void {
            $this->armed = [];
            foreach ($before as $signal => $handler) {
                pcntl_signal($signal, $handler);
            }
            pcntl_async_signals($async);
        };
    }

    /**
     * What a handler has set for signals, alarms, and the time and memory that PHP may use, was for its own run: the
     * wait for the next one, and that, begin as the first did.
     */
    private function arm(): void
    {
        $this->leftovers?->clear();
        foreach ($this->armed as $signal => $handler) {
            if (pcntl_signal_get_handler($signal) !== $handler) {
                pcntl_signal($signal, $handler);
                $this->listens = WorkerEngine::listen(array_intersect([$signal], $this->stopSignals)) && $this->listens;
            }
        }
        if ($this->armed !== [] && !pcntl_async_signals()) {
            pcntl_async_signals(true);
        }
    }

    private function onSignal(int $signal): void
    {
        $this->stopAsked = true;
        $this->signals++;
        $this->signal = $signal;
        // A handler that has set handlers of its own, and put these back, has removed the engine's: `listen` sets them
        // anew.
        if (
            !$this->listens
            || WorkerEngine::listen([$signal])
            || WorkerEngine::came() < $this->cameBefore + $this->signals
        ) {
            $this->engine?->stop();
        }
    }

    /** The engine's signal, which may also come a moment too late. */
    private function interrupt(): void
    {
        $why = $this->interruptible ? $this->engine?->interruption() : null;
        if ($why !== null && $this->job !== null) {
            $this->interruptible = false;
            throw new JobInterruptedException($why, $this->job->queue->name, $this->job->id);
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

    private function exits(): void
    {
        $engine = $this->engine;
        // The job is not that of a process that its handler has forked.
        if ($engine === null || $this->isForked()) {
            return;
        }
        $error = error_get_last();
        $culprit = match ($this->phase) {
            self::HANDLER => 'its handler',
            'report', 'log' => $this->phase,
            default => "the {$this->phase} hook",
        };
        if ($error !== null && ($error['type'] & self::FATAL) !== 0) {
            // What is used up is not given back before the process is gone.
            ini_set('memory_limit', (string) (memory_get_usage(true) + self::LAST_BYTES));
            $thrown = new \ErrorException($error['message'], 0, $error['type'], $error['file'], $error['line']);
            // The message may hold the job's data.
            $why = "a fatal error at {$error['file']}:{$error['line']} ended the process";
            $why .= $this->phase === self::HANDLER ? '' : ", in {$culprit}";
        } else {
            $thrown = new \RuntimeException('exit was called');
            $why = "{$culprit} ended the process by exit";
        }
        $say = null;
        try {
            if ($this->job !== null) {
                $say = $this->exitsIn($engine, $this->job, $thrown, $why);
            } elseif ($this->toldOf !== null) {
                $job = $this->toldOf;
                $engine->heard($job); // as one whose hook threw: the next worker would end by it, too
                $say = fn () => $this->log('error', self::named($job) . " failed for good before {$why}", $job);
            }
        } catch (\Throwable) {
            // The engine has ended before, and nobody is left to hear why.
        }
        $this->leave($engine);
        try {
            $say === null || $say();
        } catch (\Throwable) {
            // A logger that throws, and nobody is left to hear it.
        }
    }

    /**
     * Settles the job whose run ended the process.
     *
     * @return callable(): void what is left to do when the engine has sent that
     */
    private function exitsIn(WorkerEngine $engine, Job $job, \Throwable $thrown, string $why): callable
    {
        $named = self::named($job);
        if ($this->isReported || $job->settled || $engine->interruption() !== null) {
            return fn () => $this->log('error', "{$named} was settled before {$why}", $job);
        }
        if ($this->isDone) {
            $engine->done();
            return fn () => $this->log('error', "{$named} is done; then {$why}", $job);
        }
        $text = self::utf8("the process ended during the run: {$thrown->getMessage()}");
        if ($thrown instanceof \ErrorException) {
            $text .= self::utf8(" at {$thrown->getFile()}:{$thrown->getLine()}");
        }
        [$reason, $failure] = $this->failure ?? [$thrown, ['error' => $text]];
        try {
            $isLast = $engine->isLast(...$failure);
            $wait = $engine->fail(...$failure);
        } catch (\Error | \InvalidArgumentException | \LengthException) {
            // A `Retry` whose time is none.
            $isLast = $engine->isLast($reason);
            $wait = $engine->fail($reason);
        }
        $what = $isLast ? 'failed for good' : "failed; it runs again in {$wait} s";
        $why = $reason === $thrown ? $why : self::reason($reason) . "; then {$why}";
        $isCalled = $this->phase === 'onFailed';
        return function () use ($job, $reason, $named, $what, $why, $isLast, $isCalled): void {
            $this->log($isLast ? 'error' : 'warning', "{$named} {$what}: {$why}", $job);
            if ($isLast && !$isCalled) {
                $this->callHooks('onFailed', $this->onFailed, $job, $reason);
            }
        };
    }

    /** Gives back what was fetched, as far as that is possible at once. */
    private function leave(WorkerEngine $engine): void
    {
        try {
            $engine->stop();
            $engine->stop();
            $engine->ended(self::FAREWELL_S);
        } catch (ExceptionInterface) {
            // It was said, or nobody is left to hear it.
        }
    }
}
