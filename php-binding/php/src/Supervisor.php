<?php

declare(strict_types=1);

namespace Duly;

/**
 * Keeps worker processes running: replaces those that end, passes signals on, and kills those that hang.
 *
 * @internal of `duly-worker`
 */
final class Supervisor
{
    /** What a child says of an error that another one would meet too: a handler may end it with any exit code. */
    public const FATAL = 'fatal';
    /** What a child says when there is no worker. */
    public const REFUSED = 'refused';
    private const SIGNALS = [SIGTERM, SIGINT, SIGQUIT];
    /** At these all children are replaced, one by one: a fresh one has the new code, and opens its log files anew. */
    private const RELOAD = [SIGHUP, SIGUSR2];
    /** How often the loop looks around, if no signal wakes it. */
    private const LOOK_US = 200_000;

    /** @var array<int, array{slot: int, since: float, line: resource, isReady: bool, word: ?string}> by process id */
    private array $children = [];
    private bool $reloadAsked = false;
    /** @var list<int> the process ids of children that are to be replaced */
    private array $old = [];
    /** @var ?array{int, float} which of them was asked to end, and when */
    private ?array $leaving = null;
    /** @var array<int, float> when to start the child of a slot */
    private array $due = [];
    /** @var array<int, int> how many children of a slot have died young, one after the other */
    private array $youngDeaths = [];
    private bool $everReady = false;
    private float $began;
    private bool $oneEndedWell = false;
    /** @var list<float> when they were asked to stop */
    private array $asked = [];
    private bool $isKilled = false;
    private int $code = 0;
    private bool $hasTerminal;

    /**
     * @param \Closure(callable(string): void): int $child what a child does, and its exit code. By what it gets it says
     *     that it is ready, with the grace of its worker and the names of its queues (`ready 30 orders`), and what the
     *     constants above are for
     * @param \Closure(string): void $say
     */
    public function __construct(
        private \Closure $child,
        private int $processes,
        private float $grace,
        private \Closure $say,
    ) {
        $this->began = self::now();
        $this->hasTerminal = defined('STDIN') && is_resource(STDIN) && posix_isatty(STDIN);
    }

    /** Gives the exit code. */
    public function run(): int
    {
        pcntl_async_signals(true);
        foreach (self::SIGNALS as $signal) {
            pcntl_signal($signal, $this->onSignal(...));
        }
        foreach (self::RELOAD as $signal) {
            pcntl_signal($signal, $this->onReload(...));
        }
        // Only to end the sleep.
        pcntl_signal(SIGCHLD, static fn () => null);
        $this->due = array_fill(0, $this->processes, 0.0);
        $this->youngDeaths = array_fill(0, $this->processes, 0);
        while ($this->children !== [] || !$this->stops()) {
            $this->startDue();
            usleep(self::LOOK_US);
            $this->listen();
            $this->reap();
            $this->reload();
            if ($this->isKillTime()) {
                ($this->say)('some workers do not end: they are killed, their jobs come back when their leases end');
                foreach (array_keys($this->children) as $pid) {
                    posix_kill($pid, SIGKILL);
                }
                $this->isKilled = true;
            }
        }
        return $this->code;
    }

    /** A terminal that goes away sends SIGHUP, too, and its programs are to end. */
    private function onReload(int $signal): void
    {
        if ($signal === SIGHUP && $this->hasTerminal) {
            $this->onSignal(SIGTERM);
            return;
        }
        $this->reloadAsked = true;
    }

    /** Replaces one child after the other: the next when its successor is ready, so that broken code stops nothing. */
    private function reload(): void
    {
        if ($this->stops()) {
            return;
        }
        if ($this->reloadAsked) {
            $this->reloadAsked = false;
            $this->old = array_keys($this->children);
            ($this->say)('reloading: one worker after the other ends after its job, and a fresh one takes its place');
        }
        if ($this->leaving !== null && isset($this->children[$this->leaving[0]])) {
            [$pid, $since] = $this->leaving;
            if (Supervision::timeLeft($this->grace, self::now() - $since, null) === 0.0) {
                ($this->say)("worker {$pid} does not end: it is killed, its job comes back when its lease ends");
                posix_kill($pid, SIGKILL);
                $this->leaving = null;
            }
            return;
        }
        $this->leaving = null;
        $ready = array_filter($this->children, static fn (array $child): bool => $child['isReady']);
        $old = array_values(array_intersect($this->old, array_keys($this->children)));
        if ($old === [] || count($ready) < $this->processes) {
            $this->old = $old;
            return;
        }
        $this->leaving = [$old[0], self::now()];
        $this->old = array_slice($old, 1);
        posix_kill($old[0], SIGTERM);
    }

    /** In seconds, by a clock that nobody sets. */
    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    private function stops(): bool
    {
        return $this->asked !== [];
    }

    private function onSignal(int $signal): void
    {
        $this->asked[] = self::now();
        $this->listen();
        $this->send($signal);
        if (count($this->asked) === 1) {
            ($this->say)("stopping: jobs that run may end within {$this->grace} s; a second signal ends that now");
        }
    }

    /** Children are in groups of their own: Ctrl-C in a terminal reaches them only through this. */
    private function send(int $signal): void
    {
        foreach ($this->children as $pid => $child) {
            // A worker that is still starting handles none yet, and by SIGQUIT it would dump its core.
            posix_kill($pid, $child['isReady'] ? $signal : SIGTERM);
        }
    }

    private function isKillTime(): bool
    {
        if ($this->asked === [] || $this->isKilled) {
            return false;
        }
        $ago = array_map(static fn (float $at): float => self::now() - $at, $this->asked);
        return Supervision::timeLeft($this->grace, $ago[0], $ago[1] ?? null) === 0.0;
    }

    private function startDue(): void
    {
        foreach ($this->due as $slot => $at) {
            if (!$this->stops() && self::now() >= $at) {
                unset($this->due[$slot]);
                $this->start($slot);
            }
        }
    }

    private function start(int $slot): void
    {
        $pair = @stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
        if ($pair === false) {
            // No descriptor is free.
            $this->startLater($slot);
            return;
        }
        // A signal that comes now waits, for the child to have handlers of its own and for its parent to know the
        // child.
        pcntl_sigprocmask(SIG_BLOCK, [...self::SIGNALS, ...self::RELOAD]);
        if ($this->stops()) {
            // It came just before, and this child would never hear of it.
            pcntl_sigprocmask(SIG_UNBLOCK, [...self::SIGNALS, ...self::RELOAD]);
            return;
        }
        $parent = posix_getpid();
        $pid = pcntl_fork();
        if ($pid === 0) {
            $this->beChild($parent, $pair);
        }
        if ($pid > 0) {
            fclose($pair[1]);
            stream_set_blocking($pair[0], false);
            $since = self::now();
            $child = ['slot' => $slot, 'since' => $since, 'line' => $pair[0], 'isReady' => false, 'word' => null];
            $this->children[$pid] = $child;
        } else {
            $this->startLater($slot);
        }
        pcntl_sigprocmask(SIG_UNBLOCK, [...self::SIGNALS, ...self::RELOAD]);
    }

    private function startLater(int $slot): void
    {
        ($this->say)('the system gives no process; trying again');
        $this->due[$slot] = self::now() + Supervision::afterNoProcess();
    }

    /** @param array<int, resource> $pair */
    private function beChild(int $parent, array $pair): never
    {
        foreach ([...self::SIGNALS, SIGCHLD] as $signal) {
            pcntl_signal($signal, SIG_DFL);
        }
        foreach (self::RELOAD as $signal) {
            // They are for the supervisor, also when they are sent to all its processes.
            pcntl_signal($signal, static fn () => null);
        }
        posix_setpgid(0, 0);
        fclose($pair[0]);
        foreach ($this->children as $child) {
            fclose($child['line']);
        }
        WorkerEngine::followParent($parent);
        // A worker that runs says its last words first.
        register_shutdown_function(static fn () => Worker::isRunning() || WorkerEngine::mustEnd());
        pcntl_sigprocmask(SIG_UNBLOCK, [...self::SIGNALS, ...self::RELOAD]);
        exit(($this->child)(static function (string $words) use ($pair): void {
            fwrite($pair[1], "{$words}\n");
        }));
    }

    private function listen(): void
    {
        foreach (array_keys($this->children) as $pid) {
            $this->hear($pid);
        }
    }

    private function hear(int $pid): void
    {
        while (is_string($line = fgets($this->children[$pid]['line']))) {
            [$word, $grace, $queues] = explode(' ', trim($line), 3) + [1 => '0', 2 => ''];
            if ($word !== 'ready') {
                $this->children[$pid]['word'] = $word;
                continue;
            }
            $this->children[$pid]['isReady'] = true;
            if (!$this->everReady && !$this->stops()) {
                ($this->say)(Cli::serving($queues, $this->processes));
            }
            $this->everReady = true;
            $this->grace = max($this->grace, (float) $grace);
        }
    }

    private function reap(): void
    {
        foreach ($this->children as $pid => $child) {
            if (pcntl_waitpid($pid, $status, WNOHANG) !== $pid) {
                continue;
            }
            $this->hear($pid);
            ['word' => $word, 'isReady' => $wasReady] = $this->children[$pid];
            // A signal that comes between reads the lines of all children.
            unset($this->children[$pid]);
            fclose($child['line']);
            $status = pcntl_wifsignaled($status) ? -pcntl_wtermsig($status) : pcntl_wexitstatus($status);
            $this->ended($pid, $child['slot'], $status, $word, $wasReady, self::now() - $child['since']);
        }
    }

    /** @param int $status its exit code, or the negative number of the signal that killed it */
    private function ended(int $pid, int $slot, int $status, ?string $word, bool $wasReady, float $lived): void
    {
        // What was wrong the child has said; the others would say the same.
        $isFatal = $word === self::FATAL || ($word === self::REFUSED && !$this->everReady);
        $beganAfter = self::now() - $lived - $this->began;
        $before = [$this->youngDeaths[$slot], $beganAfter, $this->oneEndedWell, $this->stops()];
        $then = Supervision::afterExit($status, $isFatal, $wasReady, $lived, ...$before);
        $this->oneEndedWell = $this->oneEndedWell || ($status === 0 && $wasReady);
        if ($then['code'] !== null) {
            $this->code = max($this->code, $then['code']);
            if (!$this->stops()) {
                if ($word === self::FATAL) {
                    $why = 'met a permanent error, which the other workers would meet too';
                    ($this->say)("worker {$pid} {$why}: all stop");
                }
                $this->asked[] = self::now();
                $this->send(SIGTERM);
            }
            return;
        }
        $this->youngDeaths[$slot] = $then['youngDeaths'];
        $this->due[$slot] = self::now() + $then['after'];
        $pause = round($then['after'], 1);
        if ($status !== 0) {
            $code = $status > 0 ? $status : 128 - $status;
            ($this->say)("worker {$pid} ended with {$code}; another one starts in {$pause} s");
        } elseif (!$wasReady) {
            // Such as a bootstrap that says `die('no database')`.
            ($this->say)("worker {$pid} ended before it was ready; another one starts in {$pause} s");
        }
    }
}
