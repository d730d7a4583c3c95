<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\JobFailedException;
use Duly\Exception\JobInterruptedException;
use Duly\Exception\LeaseLostException;

/**
 * What happens around a handler: hooks, outcomes, spans and the log.
 *
 * @internal of `Duly\Worker`
 */
final class Runs
{
    /** So long a last failure is known that is in the log; later it may be another one of the same job. */
    private const LOGGED_S = 60.0;
    private const MOST_LOGGED = 1000;

    public readonly Run $run;
    public readonly Hooks $hooks;
    /** Whether an exception may be thrown in what runs. */
    private bool $interruptible = false;
    private ?WorkerEngine $engine = null;
    /**
     * Last failures that are in the log, and whose hooks are called later, here or by another worker; and since when.
     *
     * @var array<string, float>
     */
    private array $logged = [];
    private bool $printsInVain = false;

    /** @param ?callable $report */
    public function __construct(
        public readonly Handlers $handlers,
        private Log $log,
        private $report,
        private RestartOn $restartOn,
        private bool $logDone,
    ) {
        $this->run = new Run();
        $this->hooks = new Hooks($log, $this->run);
    }

    /** The same for another worker. */
    public function copy(RestartOn $restartOn): self
    {
        return new self(clone $this->handlers, $this->log, $this->report, $restartOn, $this->logDone);
    }

    /** Refuses a second run of the same worker, in a handler of the first. */
    public function refuseRunning(): void
    {
        if ($this->engine !== null && !$this->run->isForked()) {
            throw new InvalidArgumentException('this worker runs already: make another one to run jobs in a handler');
        }
    }

    /** Says once that what handlers print goes nowhere. */
    public function lookAtOutput(): void
    {
        if (!$this->printsInVain && function_exists('connection_aborted') && connection_aborted() === 1) {
            $this->printsInVain = true;
            // Not to the log, which may print.
            Log::write('duly: what is printed cannot be written: it is lost until this process ends, which goes on');
        }
    }

    /** Begins: until `end`, these are the runs of an engine in this process. */
    public function begin(WorkerEngine $engine): void
    {
        $this->engine = $engine;
        $this->run->begin();
    }

    public function end(): void
    {
        $this->engine?->leave();
        $this->engine = null;
        $this->run->end();
    }

    /** Gives whether the worker may go on. A run that is done is left to the next call of the engine. */
    public function run(WorkerEngine $engine, Job $job): bool
    {
        $this->run->of($job);
        $goesOn = $this->callHandler($engine, $job);
        $this->run->job = null;
        return $goesOn;
    }

    private function callHandler(WorkerEngine $engine, Job $job): bool
    {
        $scope = $data = $result = null;
        $isSettledBefore = false;
        $given = $job; // which a parameter by reference may change
        try {
            try {
                $this->interruptible = true;
                $scope = Telemetry::continue($job);
                $this->run->phase = 'before';
                foreach ($this->handlers->before as $hook) {
                    Misuse::refuseUnrun('the before hook', $hook($given));
                    if ($this->run->isForked()) {
                        return false; // the job is its parent's
                    }
                    $given = $job;
                    if ($job->settled) {
                        $isSettledBefore = true;
                        break;
                    }
                }
                $this->run->phase = Run::HANDLER;
                [$handler, $takesReference] = $this->handlers->of($job->name);
                if ($isSettledBefore) {
                    // A hook has said what becomes of it.
                } elseif ($takesReference) {
                    $data = $job->data();
                    $result = $handler($data, $given);
                } else {
                    $result = $handler($job->data(), $given); // of which nobody else holds a copy
                }
                $isSettled = $engine->keep($result === null ? null : Misuse::refuseUnrun('the handler', $result));
            } finally {
                $this->interruptible = false;
                $scope?->detach();
            }
        } catch (\Throwable $thrown) {
            $goesOn = $this->run->isForked() ? $this->endForked($job, $thrown) : $this->failed($engine, $job, $thrown);
            $this->run->failure = null;
            $this->hooks->letGo($thrown, $job, 'an exception');
            $this->letGoOfRun($result, $data, $given, $job);
            return $goesOn;
        }
        if ($isSettled === null) {
            return false; // a process that the handler has forked: the job is its parent's
        }
        $this->run->isDone = true;
        if ($result !== null || $data !== null || $given !== $job) {
            $this->letGoOfRun($result, $data, $given, $job);
        }
        if ($this->logDone || $this->handlers->after !== []) {
            $this->worked($engine, $job);
        }
        if ($isSettled) {
            $this->logSaid($job);
        }
        return true;
    }

    private function endForked(Job $job, \Throwable $thrown): never
    {
        $text = 'a process that the handler of ' . Failures::job($job) . ' has forked ends: it threw ';
        $this->hooks->log('error', $text . Failures::location($thrown), $job, $thrown);
        exit(255); // as PHP does when nobody catches an exception
    }

    private function letGoOfRun(mixed &$result, mixed &$data, mixed &$given, Job $job): void
    {
        $this->hooks->letGo($result, $job, 'the result');
        $this->hooks->letGo($data, $job, 'the data');
        if ($given !== $job) {
            $this->hooks->letGo($given, $job, 'what a handler has put in place of the job');
        }
    }

    /** Calls the hooks after a handler that worked. A job that was settled otherwise than by an ack did not. */
    private function worked(WorkerEngine $engine, Job $job): void
    {
        if ($this->handlers->after !== [] && (!$job->settled || $job->acked) && $engine->interruption() === null) {
            $engine->worked();
            $this->hooks->call('after', $this->handlers->after, $job);
        }
        if ($this->logDone && (!$job->settled || $job->acked) && $engine->interruption() === null) {
            $this->hooks->logOutcome('ack', null, '', $job);
        }
    }

    /** Logs what a handler has made of its job, but for an ack. */
    private function logSaid(Job $job): void
    {
        [$outcome, $after] = WorkerEngine::said($job) ?? ['ack', null];
        if ($outcome !== 'ack') {
            $this->hooks->logOutcome($outcome, $after, $outcome === 'release' ? '' : 'its handler said so', $job);
        }
        if ($outcome === 'failed' && $after === null) {
            if (count($this->logged) >= self::MOST_LOGGED) {
                $this->logged = [];
            }
            $this->logged["{$job->queue->name} {$job->id} {$job->attempt}"] = hrtime(true) / 1e9;
        }
    }

    /**
     * Gives whether the log has this last failure, because it was a run of this worker that said so. Once.
     *
     * @param array<string, mixed> $event
     */
    private function hasLogged(array $event): bool
    {
        $key = implode(' ', [$event['queue'] ?? '', $event['id'] ?? '', $event['attempt'] ?? '']);
        $loggedAt = $this->logged[$key] ?? null;
        unset($this->logged[$key]);
        return $loggedAt !== null && hrtime(true) / 1e9 - $loggedAt < self::LOGGED_S;
    }

    /** Notes what becomes of a job whose run threw; gives whether the worker may go on. */
    private function failed(WorkerEngine $engine, Job $job, \Throwable $thrown): bool
    {
        if ($engine->interruption() !== null) {
            // It is settled, and the engine's event says so; but not where the handler was.
            $text = Failures::job($job) . ' ' . Failures::interruption($thrown);
            $this->hooks->log('warning', $text, $job, $thrown);
            $engine->done();
            return true;
        }
        if ($job->settled) {
            $text = Failures::job($job) . ' was settled, then its handler threw ' . Failures::location($thrown);
            $this->hooks->log('warning', $text, $job, $thrown);
            $this->logSaid($job);
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
            $this->run->isReported = true;
            $this->hooks->logOutcome('release', $thrown->after, $thrown->reason, $job);
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
        $this->run->failure = [$thrown, $failure];
        foreach ($this->handlers->onFailure as $hook) {
            try {
                $this->run->phase = 'onFailure';
                [$given, $cause] = [$job, $thrown];
                $changed = (Misuse::refuseUnrun('the onFailure hook', $hook($given, $cause)) ?? []) + $changed;
            } catch (\Throwable $error) {
                // The job has failed all the same.
                $this->hooks->logHook('onFailure', $job, $error);
                $this->hooks->letGo($error, $job, 'an exception');
            }
            if ($this->run->isForked()) {
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
     * Notes a failure. What is refused of it leaves what the handler has said, then a plain failure. An exception that
     * cannot be read goes without its message, and the rest stays. Gives the wait for the next run.
     *
     * @param array<string, mixed> $failure the arguments of `Job::fail`
     */
    public function note(WorkerEngine $engine, Job $job, \Throwable $thrown, array $failure): ?float
    {
        $handlers = $this->run->failure[1] ?? $failure;
        $plain = ['error' => $thrown];
        $text = ['error' => Failures::location($thrown)];
        $refused = [];
        foreach ([$failure, $handlers, $plain, $text + $failure, $text + $handlers] as $given) {
            if (in_array($given, $refused, true)) {
                continue;
            }
            try {
                return $engine->fail(...$given);
            } catch (LeaseLostException $lost) {
                throw $lost;
            } catch (\Throwable $error) {
                // A message may be an object or an array, of which PHP warns, and an error handler throws that.
                $refused[] = $given;
                $isHooks = $failure !== $handlers && in_array($given, [$failure, $text + $failure], true);
                $what = ($isHooks ? 'onFailure gave for ' : 'the handler threw for ') . Failures::job($job);
                $what .= ' what fail does not take: ' . Failures::location($error);
                $this->hooks->log('error', $what, $job, $error);
                $this->hooks->letGo($error, $job, 'an exception');
            }
        }
        return $engine->fail(...$text);
    }

    /** @param array<string, mixed> $failure the arguments of `Job::fail` */
    private function settle(WorkerEngine $engine, Job $job, \Throwable $thrown, array $failure): void
    {
        try {
            $wait = $this->note($engine, $job, $thrown, $failure);
        } catch (LeaseLostException) {
            // It was interrupted meanwhile, and is settled: the engine's event says so, but not what the handler threw.
            $text = Failures::job($job) . ' was interrupted behind its failure: ' . Failures::reason($thrown);
            $this->hooks->log('warning', $text, $job, $thrown);
            return;
        }
        $this->run->decided = ['wait' => $wait];
        if ($wait === null) {
            $this->hooks->call('onFailed', $this->handlers->onFailed, $job, $thrown);
        }
        $engine->done();
        if ($this->run->isForked()) {
            return;
        }
        if ($job->settled) {
            $this->logSettled($job, $thrown);
            return;
        }
        $this->run->isReported = true;
        $report = $this->report === null ? [] : [fn (Job $job) => ($this->report)($thrown, $job)];
        if ($this->hooks->call('report', $report, $job) && $report !== []) {
            return;
        }
        $this->hooks->logOutcome('failed', $wait, Failures::reason($thrown), $job, $thrown);
    }

    private function logSettled(Job $job, \Throwable $thrown): void
    {
        $text = Failures::job($job) . ' was settled by a hook behind its failure: ' . Failures::reason($thrown);
        $this->hooks->log('warning', $text, $job, $thrown);
    }

    public function isInterrupted(): bool
    {
        return $this->engine?->interruption() !== null;
    }

    /** The engine's signal, which may also come a moment too late. */
    public function interrupt(): void
    {
        $why = $this->interruptible ? $this->engine?->interruption() : null;
        $job = $this->run->job;
        if ($why !== null && $job !== null) {
            $this->interruptible = false;
            throw new JobInterruptedException($why, $job->queue->name, $job->id);
        }
    }

    public function log(string $level, string $text, Job $job): void
    {
        $this->hooks->log($level, $text, $job);
    }

    /** What the engine has to say when the process ends by its handler: hooks are called by other workers. */
    public function reportLast(WorkerEngine $engine): void
    {
        foreach ($engine->events() as $event) {
            ($event['failed'] ?? null) instanceof Job || $this->hooks->logEvent($event);
        }
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
            if (!$job instanceof Job || !$this->hasLogged($event)) {
                $this->hooks->logEvent($event);
            }
            if ($job instanceof Job) {
                $this->run->failedElsewhere = $job;
                $error = new JobFailedException((string) ($event['error'] ?? ''));
                $this->hooks->call('onFailed', $this->handlers->onFailed, $job, $error);
                $this->run->failedElsewhere = null;
                if (!$engine->heard($job)) {
                    $text = ' went on behind the grace: another worker calls it, too';
                    $this->log('warning', 'the onFailed hook for ' . Failures::job($job) . $text, $job);
                }
                if ($this->run->isForked()) {
                    return;
                }
            }
        }
    }
}
