<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\UnsupportedException;

/**
 * Keeps worker processes running: replaces those that end, passes signals on, and kills those that hang. `duly-worker`
 * is made of it; it is for programs that start processes of their own, such as the command of a framework.
 *
 * A process that ends is replaced; if it died within 10 s, or ended before it was ready, after a pause that grows to
 * 10 s. SIGTERM, SIGINT and SIGQUIT are passed on, a second one too; what has not ended fifteen seconds after the
 * grace, or after the second signal, is killed. At SIGHUP and SIGUSR2 the processes are replaced one by one. One with a
 * permanent error, such as a wrong password at the start, stops all. As the first process of a container it also waits
 * for all other children, most of them processes whose parent has ended, so that none stays as a zombie.
 */
final class Supervisor
{
    /**
     * The functions of PHP that it needs, and that may be missing.
     *
     * @internal
     */
    public const NEEDED = [
        'pcntl_fork', 'pcntl_waitpid', 'pcntl_wifsignaled', 'pcntl_wtermsig', 'pcntl_wexitstatus', 'pcntl_signal',
        'pcntl_signal_get_handler', 'pcntl_async_signals', 'pcntl_sigprocmask', 'posix_kill', 'posix_getpid',
        'posix_setpgid', 'posix_isatty', 'stream_socket_pair',
    ];
    /**
     * All processes share opcache's memory, and it goes by the first one's clock when it decides whether to look for a
     * changed file. With these settings it looks each time, also where a link leads.
     */
    private const OPCACHE = [
        'opcache.validate_timestamps' => '1', 'opcache.revalidate_freq' => '0', 'opcache.revalidate_path' => '1',
    ];
    /** The exit code of a child with a permanent error. */
    private const ERROR = 1;
    /** The exit code with which PHP ends for an exception. */
    private const UNCAUGHT = 255;
    /** How often the loop looks around, if no signal wakes it. */
    private const LOOK_US = 200_000;

    /** What is decided about the children. */
    private Supervision $supervision;
    /** @var array<int, array{pid: int, line: resource}> by their slots */
    private array $children = [];
    /** @var list<int> the signals that came */
    private array $came = [];

    private \Closure $child;
    private \Closure $say;

    /**
     * @param callable(): (int|null) $child runs in each process, and returns its exit code (null is 0). A `Duly\Worker`
     *     that runs in it says by itself that it is ready; anything else calls `Supervisor::ready`
     * @param int $processes how many, 1 to 10,000
     * @param float $grace how long running jobs may go on after a signal, 0 to 86,400 seconds; the workers in the
     *     processes say theirs, if it is longer
     * @param ?callable(string): void $log gets a line for all that happens. Default: standard error
     *
     * @throws InvalidArgumentException one of these is wrong
     * @throws UnsupportedException PHP has no pcntl or no posix
     */
    public function __construct(
        callable $child,
        private int $processes = 1,
        float $grace = 30.0,
        ?callable $log = null,
    ) {
        $missing = implode(', ', self::missing());
        if ($missing !== '') {
            throw new UnsupportedException("a supervisor needs PHP's pcntl and posix: there is no {$missing}");
        }
        // What it needs itself is loaded now: the files may be gone by then.
        array_map(class_exists(...), [Log::class, Supervised::class, Unprintable::class]);
        $this->child = $child(...);
        $this->say = self::guarded($log);
        $hasTerminal = defined('STDIN') && is_resource(STDIN) && posix_isatty(STDIN);
        $this->supervision = new Supervision($processes, $grace, $hasTerminal);
    }

    /**
     * Says, in a process that a supervisor has started, that it is ready for jobs; does nothing in any other.
     * `Worker::run` does so by itself. Anything else calls it when it handles signals: before, it is ended by SIGTERM
     * whatever signal the supervisor gets, and no reload goes on to the next process.
     *
     * @param float $grace how long running jobs may go on after a signal, in seconds, if that is longer than the
     *     supervisor's
     */
    public static function ready(float $grace = 0.0): void
    {
        Supervised::ready($grace, '');
    }

    /**
     * Runs until a signal stops it.
     *
     * @return int the exit code: the largest of those with which the processes ended after the signal
     */
    public function run(): int
    {
        $async = pcntl_async_signals(true);
        $goesOn = Unprintable::goOn();
        $before = [];
        foreach ([...self::signals(), SIGCHLD] as $signal) {
            $before[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, function (int $signal): void {
                if ($signal !== SIGCHLD) { // which only ends the sleep
                    $this->came[] = $signal;
                }
            });
        }
        try {
            return $this->supervise();
        } finally {
            foreach ($before as $signal => $handler) {
                pcntl_signal($signal, $handler);
            }
            Unprintable::restore($goesOn);
            pcntl_async_signals($async);
        }
    }

    /**
     * The functions that it needs, and PHP does not have.
     *
     * @internal
     * @param list<string> $more that its program needs
     * @return list<string>
     */
    public static function missing(array $more = []): array
    {
        $needed = [...self::NEEDED, ...$more];
        return array_values(array_filter($needed, static fn (string $name): bool => !function_exists($name)));
    }

    /** A log that throws must not end the supervisor, or let a child go on as if it were the parent. */
    private static function guarded(?callable $log): \Closure
    {
        return static function (string $line) use ($log): void {
            try {
                $log === null ? Log::write("duly: {$line}") : $log($line);
            } catch (\Throwable $error) {
                $where = "{$error->getFile()}:{$error->getLine()}";
                Log::write("duly: {$line} (the supervisor's log threw " . get_debug_type($error) . " at {$where})");
            }
        };
    }

    private function supervise(): int
    {
        while (($code = $this->supervision->exitCode()) === null) {
            while (($slot = $this->supervision->start()) !== null) {
                $this->start($slot);
            }
            $this->send();
            $this->log();
            if ($this->came === []) {
                usleep(self::LOOK_US);
            }
            array_map($this->hear(...), array_keys($this->children));
            while (($signal = array_shift($this->came)) !== null) {
                $this->supervision->signal($signal);
            }
            $this->reap();
        }
        $this->log();
        return $code;
    }

    private function log(): void
    {
        foreach ($this->supervision->lines() as $line) {
            ($this->say)($line);
        }
    }

    /** Children are in groups of their own: Ctrl-C in a terminal reaches them only through this. */
    private function send(): void
    {
        foreach ($this->supervision->signals() as [$slot, $signal]) {
            posix_kill($this->children[$slot]['pid'], $signal);
        }
    }

    private function start(int $slot): void
    {
        // A signal that comes now waits, for the child to have handlers of its own.
        pcntl_sigprocmask(SIG_BLOCK, self::signals());
        $parent = posix_getpid();
        try {
            $pair = @stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
            $pid = $pair === false ? -1 : @pcntl_fork(); // without a free descriptor there is none
        } catch (\Throwable) {
            [$pair, $pid] = [false, -1]; // the application makes an exception of each warning
        }
        if ($pid === 0 && $pair !== false) {
            $this->beChild($parent, $pair);
        }
        pcntl_sigprocmask(SIG_UNBLOCK, self::signals());
        if ($pid > 0 && $pair !== false) {
            fclose($pair[1]);
            stream_set_blocking($pair[0], false);
            $this->children[$slot] = ['pid' => $pid, 'line' => $pair[0]];
            $this->supervision->started($slot, $pid);
        } else {
            $this->supervision->notStarted($slot);
        }
    }

    /** @param array<int, resource> $pair */
    private function beChild(int $parent, array $pair): never
    {
        foreach ([...Supervision::stopSignals(), SIGCHLD] as $signal) {
            pcntl_signal($signal, SIG_DFL);
        }
        foreach (Supervision::reloadSignals() as $signal) {
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
        $isRunning = static fn (): bool => class_exists(Worker::class, false) && Worker::isRunning();
        register_shutdown_function(static fn () => $isRunning() || WorkerEngine::mustEnd());
        Supervised::begin($pair[1]);
        self::forgetFiles();
        pcntl_sigprocmask(SIG_UNBLOCK, self::signals());
        try {
            $code = (int) ($this->child)();
        } catch (\Throwable $error) {
            // It must not be caught by what has called `run`: that is the parent's.
            ($this->say)(self::whyItEnds($error));
            $code = $error instanceof ExceptionInterface ? self::ERROR : self::UNCAUGHT;
        }
        exit($code);
    }

    /** Lets a process load the files that there are now, and not what has been noted about them. */
    private static function forgetFiles(): void
    {
        clearstatcache(true);
        foreach (function_exists('ini_set') ? self::OPCACHE : [] as $name => $value) {
            ini_set($name, $value);
        }
    }

    /**
     * What a log says when the first process is ready.
     *
     * @internal
     */
    public static function serving(string $queues, int $processes): string
    {
        $served = $queues === '' ? 'ready' : "serving {$queues}";
        return "{$served} with {$processes} " . ($processes === 1 ? 'process' : 'processes') . '; Ctrl-C stops';
    }

    /**
     * What a log may say of an exception that ends a worker: the message of one that is not duly's may hold data.
     *
     * @internal
     */
    public static function whyItEnds(\Throwable $error): string
    {
        $isOurs = $error instanceof ExceptionInterface;
        $why = $isOurs ? ": {$error->getMessage()}" : " at {$error->getFile()}:{$error->getLine()}";
        return 'the worker ends: ' . get_debug_type($error) . $why;
    }

    private function hear(int $slot): void
    {
        while (is_string($line = fgets($this->children[$slot]['line']))) {
            [$word, $grace, $queues] = explode(' ', trim($line), 3) + [1 => '0', 2 => ''];
            if ($word !== 'ready') {
                $this->supervision->ends($slot, $word);
            } elseif ($this->supervision->ready($slot, (float) $grace)) {
                ($this->say)(self::serving($queues, $this->processes));
            }
        }
    }

    private function reap(): void
    {
        $slots = array_flip(array_map(static fn (array $child): int => $child['pid'], $this->children));
        // The first process of a container is the parent of all whose own has ended: of any.
        foreach (posix_getpid() === 1 ? [-1] : array_keys($slots) as $which) {
            while (($pid = pcntl_waitpid($which, $status, WNOHANG)) > 0) {
                isset($slots[$pid]) && $this->ended($slots[$pid], $status);
            }
        }
    }

    private function ended(int $slot, int $status): void
    {
        $this->hear($slot);
        fclose($this->children[$slot]['line']);
        unset($this->children[$slot]);
        $status = pcntl_wifsignaled($status) ? -pcntl_wtermsig($status) : pcntl_wexitstatus($status);
        $this->supervision->ended($slot, $status);
    }

    /** @return list<int> those that it handles */
    private static function signals(): array
    {
        return [...Supervision::stopSignals(), ...Supervision::reloadSignals()];
    }
}
