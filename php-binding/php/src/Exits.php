<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\ExceptionInterface;

/**
 * The end of a worker in the middle of a run, by `exit`, a fatal error or an exception: settles what runs, and says so.
 *
 * @internal of `Duly\Worker`
 */
final class Exits
{
    /** What may be used to say that all memory was used up. */
    private const LAST_BYTES = 16 << 20;
    /** How long a process that ends in a handler waits for its engine, which gives up after 8 s, or 12 s with large results. */
    private const FAREWELL_S = 14.0;
    private const FATAL = E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR;

    private Run $run;

    public function __construct(private Runs $runs, private WorkerEngine $engine)
    {
        $this->run = $runs->run;
    }

    /** The process ends while something of the program runs, by `exit` or a fatal error: that is a failure. */
    public function exits(): void
    {
        // The job is not that of a process that its handler has forked.
        if ($this->run->isForked()) {
            return;
        }
        $this->engine->leaves();
        $error = error_get_last();
        // That of the run, if the run has set one.
        $maySet = function_exists('ini_set');
        $maySet && ini_set('max_execution_time', '0');
        $culprit = match ($this->run->phase) {
            Run::HANDLER => 'its handler',
            'report', 'log' => $this->run->phase,
            default => "the {$this->run->phase} hook",
        };
        if ($error !== null && ($error['type'] & self::FATAL) !== 0) {
            // What is used up is not given back before the process is gone.
            $isFull = str_starts_with($error['message'], 'Allowed memory size');
            $maySet && $isFull && ini_set('memory_limit', (string) (memory_get_usage(true) + self::LAST_BYTES));
            $thrown = new \ErrorException($error['message'], 0, $error['type'], $error['file'], $error['line']);
            // The message may hold the job's data.
            $why = "a fatal error at {$error['file']}:{$error['line']} ended the process";
            $why .= $this->run->phase === Run::HANDLER ? '' : ", in {$culprit}";
        } elseif ($this->couldNotPrint()) {
            $thrown = new \RuntimeException('what was printed could not be written');
            $why = "{$culprit} printed what could not be written, and PHP ended the process";
        } else {
            $thrown = new \RuntimeException('exit was called');
            $why = "{$culprit} ended the process by exit";
        }
        try {
            $this->breakOff($thrown, $why);
        } finally {
            // Other shutdown functions may follow.
            WorkerEngine::mustEnd();
        }
    }

    /** Has PHP ended the process because an output could not be written? */
    private function couldNotPrint(): bool
    {
        $goesOn = function_exists('ignore_user_abort') && ignore_user_abort() !== 0;
        return !$goesOn && function_exists('connection_aborted') && connection_aborted() === 1;
    }

    /** The worker ends by an exception that none of its runs has caught, such as that of a destructor. */
    public function endsBy(\Throwable $thrown): void
    {
        if (!$this->run->isForked()) {
            $this->breakOff($thrown, 'the worker ended: ' . Failures::location($thrown));
        }
    }

    /** Settles what runs, says so, and gives back what was fetched. */
    private function breakOff(\Throwable $thrown, string $why): void
    {
        $say = null;
        try {
            if ($this->run->job !== null) {
                $say = $this->exitsIn($this->run->job, $thrown, $why);
            } elseif ($this->run->failedElsewhere !== null) {
                $job = $this->run->failedElsewhere;
                $this->engine->heard($job); // as one whose hook threw: the next worker would end by it, too
                $text = Failures::job($job) . " failed for good before {$why}";
                $say = fn () => $this->runs->log('error', $text, $job);
            } else {
                $this->engine->abandon();
            }
        } catch (\Throwable) {
            // The engine has ended before, and nobody is left to hear why.
        }
        $this->leave();
        try {
            $say === null || $say();
        } finally {
            $this->runs->reportLast($this->engine);
        }
    }

    /**
     * Settles the job whose run ended the process.
     *
     * @return callable(): void what is left to do when the engine has sent that
     */
    private function exitsIn(Job $job, \Throwable $thrown, string $why): callable
    {
        $named = Failures::job($job);
        if ($this->run->isReported || $job->settled || $this->engine->interruption() !== null) {
            $this->engine->done();
            return fn () => $this->runs->log('error', "{$named} was settled before {$why}", $job);
        }
        if ($this->run->isDone) {
            $this->engine->done();
            return fn () => $this->runs->log('error', "{$named} is done; then {$why}", $job);
        }
        $text = Failures::utf8("the process ended during the run: {$thrown->getMessage()}");
        if ($thrown instanceof \ErrorException) {
            $text .= Failures::utf8(" at {$thrown->getFile()}:{$thrown->getLine()}");
        }
        [$reason, $failure] = $this->run->failure ?? [$thrown, ['error' => $text]];
        $wait = $this->run->decided === null
            ? $this->runs->note($this->engine, $job, $reason, $failure)
            : $this->run->decided['wait'];
        $this->engine->done();
        $why = $reason === $thrown ? $why : Failures::reason($reason) . "; then {$why}";
        $isCalled = $this->run->phase === 'onFailed';
        return function () use ($job, $reason, $why, $wait, $isCalled): void {
            $this->runs->hooks->logOutcome('failed', $wait, $why, $job);
            if ($wait === null && !$isCalled) {
                $this->runs->hooks->call('onFailed', $this->runs->handlers->onFailed, $job, $reason);
            }
        };
    }

    /** Gives back what was fetched, as far as that is possible at once. */
    private function leave(): void
    {
        try {
            $this->engine->stopToExit();
            $this->engine->ended(self::FAREWELL_S);
        } catch (ExceptionInterface) {
            // It was said, or nobody is left to hear it.
        }
    }
}
