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

    /** What is decided about the children. */
    private Supervision $supervision;
    /** @var array<int, array{pid: int, line: resource, word: ?string}> by their slots */
    private array $children = [];
    /** @var list<int> the signals that came */
    private array $came = [];

    /**
     * @param \Closure(callable(string): void): int $child what a child does, and its exit code. By what it gets it says
     *     that it is ready, with the grace of its worker and the names of its queues (`ready 30 orders`), and what the
     *     constants above are for
     * @param \Closure(string): void $say
     */
    public function __construct(
        private \Closure $child,
        private int $processes,
        float $grace,
        private \Closure $say,
    ) {
        $hasTerminal = defined('STDIN') && is_resource(STDIN) && posix_isatty(STDIN);
        $this->supervision = new Supervision($processes, $grace, $hasTerminal);
    }

    /** Gives the exit code. */
    public function run(): int
    {
        pcntl_async_signals(true);
        foreach ([...self::SIGNALS, ...self::RELOAD] as $signal) {
            pcntl_signal($signal, function (int $signal): void {
                $this->came[] = $signal;
            });
        }
        // Only to end the sleep.
        pcntl_signal(SIGCHLD, static fn () => null);
        while (($code = $this->supervision->exitCode()) === null) {
            while (($slot = $this->supervision->start()) !== null) {
                $this->start($slot);
            }
            $this->send();
            if ($this->came === []) {
                usleep(self::LOOK_US);
            }
            array_map($this->hear(...), array_keys($this->children));
            while (($signal = array_shift($this->came)) !== null) {
                $this->handle($signal);
            }
            $this->reap();
        }
        return $code;
    }

    private function handle(int $signal): void
    {
        $means = $this->supervision->signal($signal);
        if ($means === 'reload') {
            ($this->say)('reloading: one worker after the other ends after its job, and a fresh one takes its place');
        } elseif ($means === 'stop') {
            $grace = $this->supervision->grace();
            ($this->say)("stopping: jobs that run may end within {$grace} s; a second signal ends that now");
        }
    }

    /** Children are in groups of their own: Ctrl-C in a terminal reaches them only through this. */
    private function send(): void
    {
        foreach ($this->supervision->signals() as [$slot, $signal]) {
            $pid = $this->children[$slot]['pid'];
            if ($signal === SIGKILL) {
                ($this->say)("worker {$pid} does not end: it is killed, its job comes back when its lease ends");
            }
            posix_kill($pid, $signal);
        }
    }

    private function start(int $slot): void
    {
        $pair = @stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
        // A signal that comes now waits, for the child to have handlers of its own.
        pcntl_sigprocmask(SIG_BLOCK, [...self::SIGNALS, ...self::RELOAD]);
        $parent = posix_getpid();
        $pid = $pair === false ? -1 : pcntl_fork(); // without a free descriptor there is none
        if ($pid === 0 && $pair !== false) {
            $this->beChild($parent, $pair);
        }
        pcntl_sigprocmask(SIG_UNBLOCK, [...self::SIGNALS, ...self::RELOAD]);
        if ($pid > 0 && $pair !== false) {
            fclose($pair[1]);
            stream_set_blocking($pair[0], false);
            $this->children[$slot] = ['pid' => $pid, 'line' => $pair[0], 'word' => null];
        } else {
            ($this->say)('the system gives no process; trying again');
            $this->supervision->notStarted($slot);
        }
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

    private function hear(int $slot): void
    {
        while (is_string($line = fgets($this->children[$slot]['line']))) {
            [$word, $grace, $queues] = explode(' ', trim($line), 3) + [1 => '0', 2 => ''];
            if ($word !== 'ready') {
                $this->children[$slot]['word'] = $word;
                $this->supervision->ends($slot, $word);
            } elseif ($this->supervision->ready($slot, (float) $grace)) {
                ($this->say)(Cli::serving($queues, $this->processes));
            }
        }
    }

    private function reap(): void
    {
        foreach ($this->children as $slot => ['pid' => $pid, 'line' => $line]) {
            if (pcntl_waitpid($pid, $status, WNOHANG) !== $pid) {
                continue;
            }
            $this->hear($slot);
            $word = $this->children[$slot]['word'];
            unset($this->children[$slot]);
            fclose($line);
            $status = pcntl_wifsignaled($status) ? -pcntl_wtermsig($status) : pcntl_wexitstatus($status);
            $this->ended($pid, $slot, $status, $word);
        }
    }

    /** @param int $status its exit code, or the negative number of the signal that killed it */
    private function ended(int $pid, int $slot, int $status, ?string $word): void
    {
        [$means, $after] = $this->supervision->ended($slot, $status);
        $pause = round($after, 1);
        if ($means === 'stop_all' && $word === self::FATAL) { // what was refused, the child has said
            $why = 'met a permanent error, which the other workers would meet too';
            ($this->say)("worker {$pid} {$why}: all stop");
        } elseif ($means === 'replace' && $status !== 0) {
            $code = $status > 0 ? $status : 128 - $status;
            ($this->say)("worker {$pid} ended with {$code}; another one starts in {$pause} s");
        } elseif ($means === 'replace') {
            // Such as a bootstrap that says `die('no database')`.
            ($this->say)("worker {$pid} ended before it was ready; another one starts in {$pause} s");
        }
    }
}
