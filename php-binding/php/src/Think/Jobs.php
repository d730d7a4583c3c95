<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Exception\CorruptException;
use Duly\Exception\JobInterruptedException;
use Duly\Failures;
use Duly\RestartOn;
use Duly\Worker;
use think\App;
use think\exception\Handle;

/**
 * Runs the jobs of `duly:work`: those of think-queue as its own worker does, and all others by their names.
 *
 * @internal of `Duly\Think`
 */
final class Jobs
{
    private ?\think\queue\Worker $queueWorker = null;
    private RestartOn $restartOn;
    /** The job of think-queue that runs. */
    private ?Job $current = null;
    /** @var ?array{\Duly\Job, array<string, mixed>} the last one whose run failed, and what think-queue has decided */
    private ?array $failed = null;
    /** The last job that went to `failed`. */
    private ?\Duly\Job $hasFailed = null;
    /** This process; in one that a handler forks, nothing is done to what they share. */
    private int $owner;

    /**
     * @param array<string, mixed> $settings `tries`, `delay` and `restart_on` of `config/duly.php`, and the
     *     `connection` of think-queue to which its jobs belong, if there is one
     */
    public function __construct(private App $app, private Worker $worker, private array $settings)
    {
        $this->restartOn = new RestartOn();
        $this->restartOn->add($settings['restart_on'] ?? []);
        $this->owner = (int) getmypid();
        register_shutdown_function($this->endWithProcess(...)); // before that of the worker
    }

    /** The handler of all names. */
    public function run(mixed $data, \Duly\Job $job): mixed
    {
        $isOpen = false;
        try {
            $result = $this->call($data, $job);
        } finally {
            $isOpen = $this->endTransactions($job);
        }
        if ($isOpen && !$job->settled) {
            throw new \LogicException('the handler has left a transaction open, which is rolled back');
        }
        return $result;
    }

    private function endTransactions(\Duly\Job $job): bool
    {
        if (getmypid() !== $this->owner) {
            return false;
        }
        $run = static fn (): string => Failures::job($job);
        try {
            return OpenTransactions::end($this->app, $run);
        } catch (JobInterruptedException $interrupted) { // once in a run
            OpenTransactions::end($this->app, $run);
            throw $interrupted;
        }
    }

    private function call(mixed $data, \Duly\Job $job): mixed
    {
        if (Payload::isOf($data, $job)) {
            $this->runOfThinkQueue($job);
            return null;
        }
        [$handler, $method] = $this->handler($job);
        if (Handler::isOfThinkQueue($handler, $method)) {
            $this->runOfThinkQueue($job);
            return null;
        }
        try {
            return Handler::call($this->app, $handler, $method, $job, $data);
        } catch (\Throwable $thrown) {
            $this->endIfNecessary($thrown);
            throw $thrown;
        }
    }

    /** The failures of all jobs: to the application, and with what finds the job and the line into the log. */
    public function report(\Throwable $thrown, \Duly\Job $job): void
    {
        [$level, $words] = $this->hasFailed === $job ? ['error', 'failed for good'] : ['warning', 'failed'];
        $text = Failures::job($job) . " {$words}: " . Failures::reason($thrown);
        $this->app->log->record("duly: {$text}", $level);
        $this->app->make(Handle::class)->report($thrown);
    }

    /** A job is in `failed`: its handler may have a method for that, `failed($data, $error)`, as in think-queue. */
    public function failed(\Duly\Job $job, \Throwable $error): void
    {
        $this->hasFailed = $job;
        try {
            $data = $job->data();
        } catch (CorruptException) {
            return; // no handler has seen it
        }
        if (($this->failed[0] ?? null) === $job || Payload::isOf($data, $job) || $job->name === null) {
            return; // think-queue has called it
        }
        [$class] = HandlerNames::resolve($this->app, $job->name);
        if (!method_exists($class, 'failed')) {
            return;
        }
        try {
            $this->app->make($class, [$data], true)->failed($data, $error);
        } finally {
            $this->endTransactions($job);
        }
    }

    /** @return array{object, string} */
    private function handler(\Duly\Job $job): array
    {
        [$class, $method] = HandlerNames::resolve($this->app, $job->name ?? '');
        if ($job->name === null || !class_exists($class)) {
            $name = $job->name === null ? 'jobs without a name' : "the name '{$job->name}'";
            $where = "jobs of config/duly.php, or the class {$class}";
            throw new \LogicException("this application has no handler for {$name}: it needs an entry in {$where}");
        }
        $handler = $this->app->make($class, [$job->data()], true);
        $method ??= method_exists($handler, 'handle') ? 'handle' : 'fire';
        if (!method_exists($handler, $method)) {
            throw new \LogicException("{$class} has no method {$method}()");
        }
        return [$handler, $method];
    }

    /** The process ends, perhaps in the middle of a run: what the job cannot say itself, the worker decides. */
    private function endWithProcess(): void
    {
        $job = $this->current;
        try {
            if ($job?->endsWithProcess() === false && $job->hasFailed()) {
                $this->worker->fails($this->note($job) ?? self::marked(), $job->outcome());
            }
        } catch (\Throwable) {
            // Its lease is lost, or the server is away: the worker says so.
        }
    }

    private function runOfThinkQueue(\Duly\Job $reserved): void
    {
        $job = new Job($this->app, $reserved, $this->settings['connection'] ?? 'duly', $this->worker);
        $this->current = $job;
        try {
            ['tries' => $tries, 'delay' => $delay] = $this->settings + ['tries' => 0, 'delay' => 0];
            $this->queueWorker()->process($job->getConnection(), $job, $tries, $delay);
        } catch (\Throwable $thrown) {
            foreach (Failures::withCauses($thrown) as $error) {
                if ($error instanceof JobInterruptedException) {
                    throw $error;
                }
            }
            if ($this->worker->isInterrupted()) {
                throw $thrown;
            }
            $this->endIfNecessary($thrown);
            $why = $this->note($job) ?? $thrown;
            if ($why !== $thrown) { // by `failed()`, or a listener
                $text = 'behind the failure of ' . Failures::job($reserved) . ': ' . Failures::location($thrown);
                $this->app->log->record("duly: {$text}", 'error');
            }
            if ($why !== $thrown || !$job->isUnsettled()) { // a failure is reported when it is stored
                $this->app->make(Handle::class)->report($thrown);
            }
            throw $why;
        } finally {
            $this->current = null;
        }
        if ($this->worker->isInterrupted()) {
            return; // it goes back, or is another one's, though its handler has caught that
        }
        $isFailed = $job->hasFailed() && $job->isUnsettled();
        if ($isFailed || $job->wish() !== null) {
            throw $this->note($job) ?? self::marked();
        }
        Unsettled::settle($this->app, $job, $this->settings);
    }

    /** Notes what think-queue has decided of a run that failed, without the job: that holds its handler. Gives why. */
    private function note(Job $job): ?\Throwable
    {
        $this->failed = [$job->reserved, $job->outcome()];
        return $job->why();
    }

    private static function marked(): \LogicException
    {
        return new \LogicException('its handler has marked it as failed');
    }

    /**
     * What think-queue has decided of a run that threw; the worker stores it, also when the server is away for a while.
     * Data that PHP cannot decode is the same in each run.
     *
     * @return array<string, mixed> arguments of `Duly\Job::fail`
     */
    public function outcome(\Duly\Job $job): array
    {
        try {
            $job->data();
        } catch (CorruptException) {
            return ['final' => true];
        }
        return ($this->failed[0] ?? null) === $job ? $this->failed[1] : [];
    }

    private function queueWorker(): \think\queue\Worker
    {
        if (!class_exists(\think\queue\Worker::class)) {
            throw new \LogicException('the job was pushed by think-queue, which this application does not have');
        }
        if ($this->queueWorker === null) {
            $this->app->event->listen(\think\queue\event\JobExceptionOccurred::class, static function ($event): void {
                $event->job instanceof Job && $event->exception instanceof \Throwable
                    && $event->job->because($event->exception);
            });
            $this->app->event->listen(\think\queue\event\JobFailed::class, function ($event): void {
                if (!isset($this->settings['connection'])) {
                    return; // `queue:retry` has none to push it to
                }
                // As `queue:work` does.
                $job = $event->job;
                $log = [$event->connection, $job->getQueue(), $job->getRawBody(), $event->exception];
                $this->app->make('queue.failer')->log(...$log);
            });
        }
        return $this->queueWorker ??= $this->app->make(\think\queue\Worker::class);
    }

    private function endIfNecessary(\Throwable $thrown): void
    {
        if (GoneAway::means($thrown) || $this->restartOn->means($thrown)) {
            $this->app->log->record('duly: this worker ends, for a fresh one to go on', 'info');
            $this->worker->retire();
        }
    }
}
