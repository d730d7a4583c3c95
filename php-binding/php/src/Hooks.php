<?php

declare(strict_types=1);

namespace Duly;

/**
 * Calls the hooks of a worker, and says what goes wrong in them: no job and no worker depends on a hook or a destructor.
 *
 * @internal of `Duly\Worker`
 */
final class Hooks
{
    public function __construct(private Log $log, private Run $run)
    {
    }

    /**
     * Gives whether none of them threw.
     *
     * @param list<callable> $hooks
     */
    public function call(string $kind, array $hooks, Job $job, mixed ...$arguments): bool
    {
        $areWell = true;
        foreach ($hooks as $hook) {
            try {
                $this->run->phase = $kind;
                $given = [$job, ...$arguments];
                Misuse::refuseUnrun($kind === 'report' ? $kind : "the {$kind} hook", $hook(...$given));
            } catch (\Throwable $error) {
                $areWell = false;
                $this->logHook($kind, $job, $error);
                $this->letGo($error, $job, 'an exception');
            }
            if ($this->run->isForked()) {
                return true;
            }
        }
        return $areWell;
    }

    /** Logs what a hook threw. */
    public function logHook(string $kind, Job $job, \Throwable $error): void
    {
        $words = Failures::ownWords($error);
        $what = $words === null ? ' threw ' . Failures::location($error) : ": {$words}";
        $this->log('error', "{$kind} for " . Failures::job($job) . $what, $job, $error);
    }

    /** Gives up a value where what its destructors throw is caught: it is no reason for a worker to end. */
    public function letGo(mixed &$value, Job $job, string $what): void
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

    public function log(string $level, string $text, Job $job, ?\Throwable $error = null): void
    {
        $context = [
            'queue' => $job->queue->name,
            'id' => $job->id,
            'name' => $job->name,
            'attempt' => $job->attempt,
        ];
        $phase = $this->run->phase;
        $this->run->phase = 'log';
        ($this->log)($level, $text, $error === null ? $context : $context + ['exception' => $error]);
        $this->run->phase = $phase;
    }

    /** Logs what has become of a job, in the words of every language. */
    public function logOutcome(string $outcome, ?float $after, string $why, Job $job, ?\Throwable $error = null): void
    {
        [$level, $words] = WorkerEngine::says($outcome, $after);
        $this->log($level, Failures::job($job) . " {$words}" . ($why === '' ? '' : ": {$why}"), $job, $error);
    }

    /**
     * Logs an event of the engine, which may be about no job.
     *
     * @param array<string, mixed> $event
     */
    public function logEvent(array $event): void
    {
        $left = ['level' => 0, 'text' => 0, 'failed' => 0, 'error' => 0];
        ($this->log)($event['level'], $event['text'], array_diff_key($event, $left));
    }
}
