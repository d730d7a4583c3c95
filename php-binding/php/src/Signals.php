<?php

declare(strict_types=1);

namespace Duly;

/**
 * The signals of a process while a worker runs in it: they stop the worker, and interrupt its handler.
 *
 * @internal of `Duly\Worker`
 */
final class Signals
{
    /** @var list<int> those that came and stop the worker */
    private array $came = [];
    /** Whether the engine sees signals by itself. */
    private bool $listens = false;
    /** How many signals the engine had seen before. */
    private int $cameBefore = 0;
    /** @var array<int, callable> what is set for each signal during a run */
    private array $armed = [];
    /** @var list<int> those of them at which the engine stops */
    private array $stopSignals = [];
    /** @var array<int, callable|int> the program's own handlers */
    private array $before = [];
    private bool $async = false;

    /** Whether PHP has what a worker needs to hear them: `disable_functions` may name any function. */
    public static function areHeard(): bool
    {
        $needed = ['pcntl_signal', 'pcntl_signal_get_handler', 'pcntl_async_signals'];
        return array_filter($needed, function_exists(...)) === $needed;
    }

    /** Has signals wait for the handlers that are set next. */
    public static function hold(bool $hold = true): void
    {
        if (function_exists('pcntl_sigprocmask')) {
            pcntl_sigprocmask($hold ? SIG_BLOCK : SIG_UNBLOCK, Supervision::stopSignals());
        }
    }

    /**
     * @param \Closure(): void $onStop called for each signal that stops the worker, before the engine is
     * @param \Closure(): void $interrupt called when the engine wants the handler to end
     */
    public function __construct(private WorkerEngine $engine, private \Closure $onStop, \Closure $interrupt)
    {
        if (!self::areHeard()) {
            return;
        }
        $this->async = pcntl_async_signals(true);
        $owner = getmypid();
        $onSignal = function (int $signal) use ($owner): void {
            if (getmypid() === $owner) {
                $this->onSignal($signal);
                return;
            }
            // A process that a handler has forked is no worker: as if this had never been set there.
            pcntl_signal($signal, $this->before[$signal]);
            function_exists('posix_kill') ? posix_kill(getmypid(), $signal) : exit(128 + $signal);
        };
        $this->stopSignals = Supervision::stopSignals();
        $this->armed = array_fill_keys($this->stopSignals, $onSignal);
        $this->armed[SIGURG] = $interrupt;
        foreach ($this->armed as $signal => $handler) {
            $this->before[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, $handler);
        }
        // The grace begins with the signal also when PHP is in a query, and sees it only at its end.
        $this->cameBefore = WorkerEngine::came();
        $this->listens = WorkerEngine::listen($this->stopSignals);
    }

    /** Sets the worker's handlers again, where a handler of a job has set its own. */
    public function arm(): void
    {
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

    /** Puts the program's own handlers back. */
    public function restore(): void
    {
        if ($this->armed === []) {
            return;
        }
        $this->armed = [];
        foreach ($this->before as $signal => $handler) {
            pcntl_signal($signal, $handler);
        }
        pcntl_async_signals($this->async);
    }

    /** @return list<int> those that came and stop the worker */
    public function came(): array
    {
        return $this->came;
    }

    private function onSignal(int $signal): void
    {
        ($this->onStop)();
        $this->came[] = $signal;
        // A handler that has set handlers of its own, and put these back, has removed the engine's: `listen` sets them
        // anew.
        if (
            !$this->listens
            || WorkerEngine::listen([$signal])
            || WorkerEngine::came() < $this->cameBefore + \count($this->came)
        ) {
            $this->engine->stop();
        }
    }
}
