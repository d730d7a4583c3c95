<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\JobFailedException;
use Duly\Exception\JobInterruptedException;
use Duly\Exception\LeaseLostException;

/**
 * The handlers and hooks of a worker, and what becomes of each run of them.
 *
 * @internal of `Duly\Worker`
 */
final class Runs
{
    /** What may be used to say that all memory was used up. */
    private const LAST_BYTES = 16 << 20;
    private const HANDLER = 'handler';
    /** How long the last words of a process that ends in a handler may take. */
    private const FAREWELL_S = 2.0;
    private const FATAL = E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR;

    /** @var array<string, callable> */
    private array $handlers = [];
    /** @var array<string, bool> whether the handler takes the data by reference */
    private array $takesReference = [];
    /** @var ?callable of the jobs for whose name there is no handler */
    private $otherwise = null;
    private bool $otherwiseTakesReference = false;
    /** @var list<callable> */
    private array $before = [];
    /** @var list<callable> the last one that was added is the first, as in the lists below */
    private array $after = [];
    /** @var list<callable> */
    private array $onFailure = [];
    /** @var list<callable> */
    private array $onFailed = [];
    private ?Job $job = null;
    /** What of the program runs: the handler, or one of the hooks by its name. */
    private string $phase = self::HANDLER;
    /** Whether the run has worked, and is to be acked unless its handler has settled it. */
    private bool $isDone = false;
    /** @var ?array{\Throwable, array<string, mixed>} why the run failed, and the arguments of `Job::fail` */
    private ?array $failure = null;
    /** @var ?array{wait: ?float} when the job that failed runs again, as soon as that is decided */
    private ?array $decided = null;
    /** Whether the engine knows what becomes of the job. */
    private bool $isReported = false;
    /** The failed job of another run whose `onFailed` hooks are called. */
    private ?Job $failedElsewhere = null;
    /** Whether an exception may be thrown in what runs. */
    private bool $interruptible = false;
    /** The process that runs it. */
    private int $owner = 0;
    private ?WorkerEngine $engine = null;

    /** @param ?callable $report */
    public function __construct(
        private Log $log,
        private $report,
        private RestartOn $restartOn,
        private bool $logDone,
    ) {
    }

    /** The same handlers and hooks for another worker. */
    public function copy(RestartOn $restartOn): self
    {
        $copy = new self($this->log, $this->report, $restartOn, $this->logDone);
        $all = ['handlers', 'takesReference', 'otherwise', 'otherwiseTakesReference'];
        foreach ([...$all, 'before', 'after', 'onFailure', 'onFailed'] as $name) {
            $copy->{$name} = $this->{$name};
        }
        return $copy;
    }

    /** @param callable $handler of the jobs of this name; of those without one, if it is empty */
    public function handle(string $name, callable $handler): void
    {
        $named = $name === '' ? 'jobs without a name' : "the name '{$name}'";
        $name === '' || WorkerEngine::checkName($name);
        if (isset($this->handlers[$name])) {
            throw new InvalidArgumentException("there is a handler for {$named} already: a name has one handler");
        }
        Misuse::refuseGenerator("the handler for {$named}", $handler);
        $this->handlers[$name] = $handler;
        $this->takesReference[$name] = Misuse::takesReference($handler);
    }

    /** @param callable $handler of the jobs for whose name there is no handler */
    public function handleOthers(callable $handler): void
    {
        if ($this->otherwise !== null) {
            throw new InvalidArgumentException('there is a handler for all other names already: a worker has one');
        }
        Misuse::refuseGenerator('the handler for all other names', $handler);
        $this->otherwise = $handler;
        $this->otherwiseTakesReference = Misuse::takesReference($handler);
    }

    /** @param 'before'|'after'|'onFailure'|'onFailed' $kind */
    public function hook(string $kind, callable $hook): void
    {
        Misuse::refuseGenerator("the {$kind} hook", $hook);
        $kind === 'before' ? $this->before[] = $hook : array_unshift($this->{$kind}, $hook);
    }

    public function refuseNoHandlers(): void
    {
        if ($this->handlers === [] && $this->otherwise === null) {
            throw new InvalidArgumentException('a worker needs at least one handler: $worker->on(name, callable)');
        }
    }

    /** Refuses a second run of the same worker, in a handler of the first. */
    public function refuseRunning(): void
    {
        if ($this->engine !== null && !$this->isForked()) {
            throw new InvalidArgumentException('this worker runs already: make another one to run jobs in a handler');
        }
    }

    /** Begins: until `end`, these are the runs of an engine in this process. */
    public function begin(WorkerEngine $engine): void
    {
        $this->engine = $engine;
        $this->owner = (int) getmypid();
        $this->forget();
    }

    public function end(): void
    {
        $this->engine?->leave();
        $this->engine = null;
        $this->owner = 0;
        $this->forget();
    }

    private function forget(): void
    {
        $this->job = $this->failedElsewhere = null;
        $this->isDone = $this->isReported = false;
        $this->failure = $this->decided = null;
    }

    /** Gives whether the worker may go on. A run that is done is left to the next call of the engine. */
    public function run(WorkerEngine $engine, Job $job): bool
    {
        $this->isDone = false;
        $this->failure = null;
        $this->decided = null;
        $this->isReported = false;
        $this->job = $job;
        $goesOn = $this->callHandler($engine, $job);
        $this->job = null;
        return $goesOn;
    }

    private function callHandler(WorkerEngine $engine, Job $job): bool
    {
        $scope = $data = $result = null;
        $given = $job; // which a parameter by reference may change
        try {
            try {
                $this->interruptible = true;
                $scope = Telemetry::continue($job);
                $this->phase = 'before';
                foreach ($this->before as $hook) {
                    Misuse::refuseUnrun('the before hook', $hook($given));
                    if ($this->isForked()) {
                        return false; // the job is its parent's
                    }
                    $given = $job;
                }
                $this->phase = self::HANDLER;
                $name = $job->name;
                $handler = $this->handlers[$name ?? ''] ?? $this->otherwise ?? throw self::noHandler($name);
                if ($this->takesReference[$name ?? ''] ?? $this->otherwiseTakesReference) {
                    $data = $job->data();
                    $result = $handler($data, $given);
                } else {
                    $result = $handler($job->data(), $given); // of which nobody else holds a copy
                }
                $isOurs = $engine->keep(Misuse::refuseUnrun('the handler', $result));
            } finally {
                $this->interruptible = false;
                $scope?->detach();
            }
        } catch (\Throwable $thrown) {
            $goesOn = $this->isForked() ? $this->endForked($job, $thrown) : $this->onThrown($engine, $job, $thrown);
            $this->failure = null;
            $this->letGo($thrown, $job, 'an exception');
            $this->letGoOfRun($result, $data, $given, $job);
            return $goesOn;
        }
        if (!$isOurs) {
            return false; // a process that the handler has forked: the job is its parent's
        }
        $this->isDone = true;
        $this->letGoOfRun($result, $data, $given, $job);
        if ($this->after !== [] && (!$job->settled || $job->acked) && $engine->interruption() === null) {
            $engine->worked();
            $this->callHooks('after', $this->after, $job);
        }
        if ($this->logDone) {
            $this->log('debug', Failures::job($job) . ' is done', $job);
        }
        return true;
    }

    /** Whether this is a process that the handler has forked: the job is its parent's. */
    private function isForked(): bool
    {
        return \getmypid() !== $this->owner;
    }

    private function endForked(Job $job, \Throwable $thrown): never
    {
        $this->log('error', 'a process that the handler of ' . Failures::job($job) . ' has forked ends: it threw '
            . Failures::location($thrown), $job, $thrown);
        exit(255); // as PHP does when nobody catches an exception
    }

    private function letGoOfRun(mixed &$result, mixed &$data, mixed &$given, Job $job): void
    {
        $this->letGo($result, $job, 'the result');
        $this->letGo($data, $job, 'the data');
        if ($given !== $job) {
            $this->letGo($given, $job, 'what a handler has put in place of the job');
        }
    }

    /** Gives up a value where what its destructors throw is caught: it is no reason for a worker to end. */
    private function letGo(mixed &$value, Job $job, string $what): void
    {
        while ($value !== null) {
            try {
                $value = null;
            } catch (\Throwable $value) {
                $text = "a destructor of {$what} for " . Failures::job($job);
                $text .= ' threw ' . Failures::location($value);
                $what = 'an exception';
                $this->log('error', $text, $job, $value);
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
        if ($engine->interruption() !== null) {
            // It is settled, and the engine's event says so; but not where the handler was.
            $this->log('warning', Failures::job($job) . ' ' . Failures::interruption($thrown), $job, $thrown);
            $engine->done();
            return true;
        }
        if ($job->settled) {
            $text = Failures::job($job) . ' was settled, then its handler threw ' . Failures::location($thrown);
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
            $engine->release($thrown->after, $thrown->reason);
            $this->isReported = true;
            $text = Failures::job($job) . " was released by its handler; it runs again in {$thrown->after} s";
            $text .= $thrown->reason === '' ? '' : ": {$thrown->reason}";
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
                [$given, $cause] = [$job, $thrown];
                $changed = (Misuse::refuseUnrun('the onFailure hook', $hook($given, $cause)) ?? []) + $changed;
            } catch (\Throwable $error) {
                // The job has failed all the same.
                $this->logHook('onFailure', $job, $error);
                $this->letGo($error, $job, 'an exception');
            }
            if ($this->isForked()) {
                return; // a process that the hook has forked leaves the job to its parent
            }
            if ($job->settled) {
                $this->logSettled($job, $thrown);
                return;
            }
        }
        $this->settle($engine, $job, $thrown, $changed);
    }

    /**
     * Notes a failure; what is refused of it makes it a plain one, of an exception that cannot be read at last without
     * its message. Gives the wait for the next run.
     *
     * @param array<string, mixed> $failure the arguments of `Job::fail`
     */
    private function note(WorkerEngine $engine, Job $job, \Throwable $thrown, array $failure): ?float
    {
        foreach ([$failure, ['error' => $thrown]] as $given) {
            try {
                return $engine->fail(...$given);
            } catch (LeaseLostException $lost) {
                throw $lost;
            } catch (\Throwable $error) {
                // A message may be an object or an array, of which PHP warns, and an error handler throws that.
                $isHandlers = $given === ($this->failure[1] ?? $given) || $given === ['error' => $thrown];
                $what = ($isHandlers ? 'the handler threw for ' : 'onFailure gave for ') . Failures::job($job);
                $this->log('error', "{$what} what fail does not take: " . Failures::location($error), $job, $error);
                $this->letGo($error, $job, 'an exception');
            }
        }
        return $engine->fail(Failures::location($thrown));
    }

    /** @param array<string, mixed> $failure the arguments of `Job::fail` */
    private function settle(WorkerEngine $engine, Job $job, \Throwable $thrown, array $failure): void
    {
        try {
            $wait = $this->note($engine, $job, $thrown, $failure);
        } catch (LeaseLostException) {
            // It was interrupted meanwhile, and is settled: the engine's event says so, but not what the handler threw.
            $text = Failures::job($job) . ' was interrupted behind its failure: ' . Failures::reason($thrown);
            $this->log('warning', $text, $job, $thrown);
            return;
        }
        $this->decided = ['wait' => $wait];
        $isLast = $wait === null;
        if ($isLast) {
            $this->callHooks('onFailed', $this->onFailed, $job, $thrown);
        }
        $engine->done();
        if ($this->isForked()) {
            return;
        }
        if ($job->settled) {
            $this->logSettled($job, $thrown);
            return;
        }
        $this->isReported = true;
        $report = $this->report === null ? [] : [fn (Job $job) => ($this->report)($thrown, $job)];
        if ($this->callHooks('report', $report, $job) && $report !== []) {
            return;
        }
        $what = $isLast ? 'failed for good' : "failed; it runs again in {$wait} s";
        $why = Failures::reason($thrown);
        $this->log($isLast ? 'error' : 'warning', Failures::job($job) . " {$what}: {$why}", $job, $thrown);
    }

    /**
     * Gives whether none of them threw.
     *
     * @param list<callable> $hooks
     */
    private function callHooks(string $kind, array $hooks, Job $job, mixed ...$arguments): bool
    {
        $areWell = true;
        foreach ($hooks as $hook) {
            try {
                $this->phase = $kind;
                $given = [$job, ...$arguments];
                Misuse::refuseUnrun($kind === 'report' ? $kind : "the {$kind} hook", $hook(...$given));
            } catch (\Throwable $error) {
                $areWell = false;
                $this->logHook($kind, $job, $error);
                $this->letGo($error, $job, 'an exception');
            }
            if ($this->isForked()) {
                return true;
            }
        }
        return $areWell;
    }

    private function logSettled(Job $job, \Throwable $thrown): void
    {
        $text = Failures::job($job) . ' was settled by a hook behind its failure: ' . Failures::reason($thrown);
        $this->log('warning', $text, $job, $thrown);
    }

    private function logHook(string $kind, Job $job, \Throwable $error): void
    {
        $words = Failures::ownWords($error);
        $what = $words === null ? ' threw ' . Failures::location($error) : ": {$words}";
        $this->log('error', "{$kind} for " . Failures::job($job) . $what, $job, $error);
    }

    /** The engine's signal, which may also come a moment too late. */
    public function interrupt(): void
    {
        $why = $this->interruptible ? $this->engine?->interruption() : null;
        if ($why !== null && $this->job !== null) {
            $this->interruptible = false;
            throw new JobInterruptedException($why, $this->job->queue->name, $this->job->id);
        }
    }

    public function log(string $level, string $text, Job $job, ?\Throwable $error = null): void
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
    public function reportEvents(WorkerEngine $engine): void
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
                $this->failedElsewhere = $job;
                $error = new JobFailedException((string) ($event['error'] ?? ''));
                $this->callHooks('onFailed', $this->onFailed, $job, $error);
                $this->failedElsewhere = null;
                if (!$engine->heard($job)) {
                    $text = ' went on behind the grace: another worker calls it, too';
                    $this->log('warning', 'the onFailed hook for ' . Failures::job($job) . $text, $job);
                }
                if ($this->isForked()) {
                    return;
                }
            }
        }
    }

    /** The process ends while something of the program runs, by `exit` or a fatal error: that is a failure. */
    public function exits(): void
    {
        $engine = $this->engine;
        // The job is not that of a process that its handler has forked.
        if ($engine === null || $this->isForked()) {
            return;
        }
        $engine->leaves();
        $error = error_get_last();
        // That of the run, if the run has set one.
        $maySet = function_exists('ini_set');
        $maySet && ini_set('max_execution_time', '0');
        $culprit = match ($this->phase) {
            self::HANDLER => 'its handler',
            'report', 'log' => $this->phase,
            default => "the {$this->phase} hook",
        };
        if ($error !== null && ($error['type'] & self::FATAL) !== 0) {
            // What is used up is not given back before the process is gone.
            $maySet && ini_set('memory_limit', (string) (memory_get_usage(true) + self::LAST_BYTES));
            $thrown = new \ErrorException($error['message'], 0, $error['type'], $error['file'], $error['line']);
            // The message may hold the job's data.
            $why = "a fatal error at {$error['file']}:{$error['line']} ended the process";
            $why .= $this->phase === self::HANDLER ? '' : ", in {$culprit}";
        } else {
            $thrown = new \RuntimeException('exit was called');
            $why = "{$culprit} ended the process by exit";
        }
        $this->breakOff($engine, $thrown, $why);
        // Other shutdown functions may follow.
        WorkerEngine::mustEnd();
    }

    /** The worker ends by an exception that none of its runs has caught, such as that of a destructor. */
    public function endsBy(\Throwable $thrown): void
    {
        if ($this->engine !== null && !$this->isForked()) {
            $this->breakOff($this->engine, $thrown, 'the worker ended: ' . Failures::location($thrown));
        }
    }

    /** Settles what runs, says so, and gives back what was fetched. */
    private function breakOff(WorkerEngine $engine, \Throwable $thrown, string $why): void
    {
        $say = null;
        try {
            if ($this->job !== null) {
                $say = $this->exitsIn($engine, $this->job, $thrown, $why);
            } elseif ($this->failedElsewhere !== null) {
                $job = $this->failedElsewhere;
                $engine->heard($job); // as one whose hook threw: the next worker would end by it, too
                $say = fn () => $this->log('error', Failures::job($job) . " failed for good before {$why}", $job);
            } else {
                $engine->abandon();
            }
        } catch (\Throwable) {
            // The engine has ended before, and nobody is left to hear why.
        }
        $this->leave($engine);
        $say === null || $say();
    }

    /**
     * Settles the job whose run ended the process.
     *
     * @return callable(): void what is left to do when the engine has sent that
     */
    private function exitsIn(WorkerEngine $engine, Job $job, \Throwable $thrown, string $why): callable
    {
        $named = Failures::job($job);
        if ($this->isReported || $job->settled || $engine->interruption() !== null) {
            return fn () => $this->log('error', "{$named} was settled before {$why}", $job);
        }
        if ($this->isDone) {
            $engine->done();
            return fn () => $this->log('error', "{$named} is done; then {$why}", $job);
        }
        $text = Failures::utf8("the process ended during the run: {$thrown->getMessage()}");
        if ($thrown instanceof \ErrorException) {
            $text .= Failures::utf8(" at {$thrown->getFile()}:{$thrown->getLine()}");
        }
        [$reason, $failure] = $this->failure ?? [$thrown, ['error' => $text]];
        $wait = $this->decided === null
            ? $this->note($engine, $job, $reason, $failure)
            : $this->decided['wait'];
        $engine->done();
        $isLast = $wait === null;
        $what = $isLast ? 'failed for good' : "failed; it runs again in {$wait} s";
        $why = $reason === $thrown ? $why : Failures::reason($reason) . "; then {$why}";
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
