<?php

declare(strict_types=1);

namespace Duly;

/**
 * Settings of the process that a handler changes for its own run: they are as before when the next run begins.
 *
 * @internal of `Duly\Worker`
 */
final class Leftovers
{
    /** PHP's time limit for a run, if it can be set. */
    private ?string $timeLimit = null;
    private ?string $memoryLimit = null;
    /** Whether alarms are only those of handlers: the program has none, and no handler for them. */
    private bool $clearsAlarms = false;
    /** How many output buffers the program has. */
    private int $buffers;

    /** Notes what holds before the first run. */
    public function __construct(private Log $log)
    {
        $this->buffers = ob_get_level();
        if (function_exists('ini_get') && function_exists('ini_set')) {
            $this->timeLimit = (string) ini_get('max_execution_time');
            $this->memoryLimit = (string) ini_get('memory_limit');
        }
        $mayAlarm = function_exists('pcntl_alarm') && Signals::areHeard();
        $isFree = $mayAlarm && pcntl_signal_get_handler(SIGALRM) === SIG_DFL;
        if ($isFree && !WorkerEngine::blocksAlarm()) {
            $left = pcntl_alarm(0);
            $this->clearsAlarms = $left === 0;
            $left === 0 || pcntl_alarm($left);
        }
    }

    /** Puts that back. */
    public function clear(): void
    {
        // Each writes what it holds, as at the end of a program.
        for ($left = ob_get_level() - $this->buffers; $left > 0; $left--) {
            try {
                @ob_end_flush();
            } catch (\Throwable $error) {
                $this->log($error);
            }
        }
        // One that cannot be closed stays, and that was said; one of the program's may be gone.
        $this->buffers = ob_get_level();
        // A limit of the program is one for each run.
        if ($this->timeLimit !== null && ($this->timeLimit !== '0' || ini_get('max_execution_time') !== '0')) {
            ini_set('max_execution_time', $this->timeLimit);
        }
        if ($this->memoryLimit !== null && ini_get('memory_limit') !== $this->memoryLimit) {
            try {
                gc_collect_cycles();
                gc_mem_caches();
                // Refused while more than that is used, and tried again after the next run.
                @ini_set('memory_limit', $this->memoryLimit);
            } catch (\Throwable $error) {
                // A destructor, or an error handler that throws also at what is silenced.
                $this->log($error);
            }
        }
        if ($this->clearsAlarms) {
            WorkerEngine::clearAlarm();
            if (pcntl_signal_get_handler(SIGALRM) !== SIG_DFL) {
                pcntl_signal(SIGALRM, SIG_DFL);
            }
        }
    }

    private function log(\Throwable $error): void
    {
        ($this->log)('error', 'what the last job left behind threw ' . Failures::location($error));
    }
}
