<?php

declare(strict_types=1);

namespace Duly;

/**
 * The program `duly-worker`.
 *
 * @internal
 */
final class Cli
{
    /** Is the file that gives a worker being loaded? */
    private static bool $loads = false;

    public const WRONG_USE = 2;
    public const ERROR = 1;
    private const HELP = <<<'TEXT'
        Runs workers: duly-worker <bootstrap.php> [options]

        bootstrap.php returns a Duly\Worker, or a function that takes the given options as an array of worker settings
        (queues, lease, grace, maxJobs, memory, ...) and returns one. Each worker process loads Composer's autoloader
        and this file, so a process that is replaced runs the new code. Where a link leads to the newest release, call
        duly-worker by the path with the link.

          -q, --queue NAME[=WEIGHT]  serve this queue; repeat it for several: in this order, or all with weights
              --processes N          number of worker processes (default 1)
              --max-jobs N           replace a worker after so many jobs (default: never)
              --memory MiB           replace a worker after a job when PHP uses more than so many MiB (default: never)
              --lease SECONDS        seconds after which other workers may take the jobs of a worker that died, 0.1 to
                                     86,400 (default 10)
              --name NAME            name of the workers in Queue::workers
              --grace SECONDS        how long running jobs may go on after a signal, 0 to 86,400 (default 30)
              --timeout SECONDS      longest run of jobs without a timeout of their own (default: no limit)
              --prefetch N           most jobs that wait in a worker besides the one that runs, 0 to 1,000 (default: as
                                     many as run within 50 ms)
          -h, --help                 this text
              --version              the version of duly

        Options that are not given stay as bootstrap.php has set them. A worker that ends is replaced; if it died within
        10 s, or ended before it was ready, after a pause that grows to 10 s. A worker with a permanent error, such as a
        wrong password, stops all workers: another one would fail too. After ten seconds it is replaced, too.

        SIGTERM, SIGINT, SIGQUIT  running jobs may finish within the grace; a second signal ends the grace
        SIGHUP, SIGUSR2           workers finish their job and are replaced one by one, with the new code and new log
                                  files; in a terminal, SIGHUP ends them
        Without PHP's pcntl and posix, one worker runs in this process and is not replaced.

        Exit codes (of this program: the largest of those with which its workers ended after the signal):
            0  stopped by a signal, all handlers ended; of a worker also: replaced by --max-jobs, --memory, restartOn
            1  a permanent error, such as a wrong password; a fatal error of PHP is 255
            2  a wrong option, no such file, no extension, or a bootstrap.php that returns no worker
          124  a handler or its hook had to end (timeout, lost lease, end of the grace) and could not be interrupted;
               or other code (a logger) did not end after the grace, or a shutdown function when PHP ended
          137  a worker had to be killed
          142  the grace ended before the handler, and its job was given back
          143  the same after a second SIGTERM (130 after SIGINT, 131 after SIGQUIT)

        TEXT;

    /**
     * @param ?string $autoload the file of Composer's autoloader, which each worker process loads
     * @param list<string> $needed functions of PHP without which there is no supervisor, besides those that it calls
     */
    public function __construct(private ?string $autoload = null, private array $needed = [])
    {
    }

    /** Is a worker wanted only to be run later? */
    public static function loadsWorker(): bool
    {
        return self::$loads;
    }

    /** @param list<string> $arguments without the program's name */
    public function main(array $arguments): int
    {
        if (in_array('-h', $arguments, true) || in_array('--help', $arguments, true)) {
            fwrite(STDOUT, self::HELP);
            return 0;
        }
        if (!extension_loaded('duly')) {
            return $this->refuse('the PHP extension duly is not loaded: php -d extension=/path/to/duly.so, or php.ini');
        }
        $mismatch = Version::mismatch();
        if ($mismatch !== null) {
            return $this->refuse($mismatch);
        }
        if (in_array('--version', $arguments, true)) {
            fwrite(STDOUT, 'duly ' . phpversion('duly') . "\n");
            return 0;
        }
        try {
            [$file, $processes, $settings] = Options::parse($arguments);
        } catch (\UnexpectedValueException $error) {
            return $this->refuse("{$error->getMessage()}; see duly-worker --help");
        }
        $missing = implode(', ', Supervisor::missing($this->needed));
        if ($missing !== '') {
            $this->say("PHP has no {$missing}: one worker runs in this process, and nobody replaces it");
            return $this->work($file, $settings, function (Worker $worker): void {
                $this->say(Supervisor::serving(implode(', ', $worker->queues()), 1));
            });
        }
        $grace = $settings['grace'] ?? 0.0;
        $folder = Links::folder();
        $work = function () use ($file, $settings, $folder): int {
            // The one in which this program was started may be that of an old release.
            function_exists('chdir') && @chdir($folder);
            return $this->work($file, $settings);
        };
        return (new Supervisor($work, $processes, $grace, $this->say(...)))->run();
    }

    /**
     * @param array<string, mixed> $settings
     * @param ?callable(Worker): void $begins is called before the worker runs
     */
    private function work(string $file, array $settings, ?callable $begins = null): int
    {
        $process = getmypid();
        // What the file prints may be written or not: its worker does not depend on it either.
        Unprintable::goOn();
        self::$loads = true;
        try {
            $worker = $this->load($file, $settings);
        } catch (\Throwable $error) {
            Supervised::tell(Supervised::REFUSED);
            return $this->refuse("{$file} gives no worker: " . get_debug_type($error) . ": {$error->getMessage()}");
        } finally {
            self::$loads = false;
        }
        if (getmypid() !== $process) {
            return $this->refuse("a process that {$file} has forked serves nothing: nobody would stop it");
        }
        $begins !== null && $begins($worker);
        try {
            $worker->run();
        } catch (\Throwable $error) {
            // If it is not duly's, it is of a logger, which may do better in a fresh process.
            $this->say(Supervisor::whyItEnds($error));
            return self::ERROR;
        }
        return 0;
    }

    /** @param array<string, mixed> $settings */
    private function load(string $file, array $settings): Worker
    {
        if ($this->autoload !== null) {
            require_once $this->autoload;
        }
        $worker = (static fn (): mixed => require $file)();
        if (!$worker instanceof Worker && is_callable($worker)) {
            $worker = $worker($settings);
        }
        if (!$worker instanceof Worker) {
            throw new \UnexpectedValueException('it must return a Duly\Worker, not ' . get_debug_type($worker));
        }
        $worker->change($settings);
        return $worker;
    }

    private function refuse(string $why): int
    {
        $this->say($why);
        return self::WRONG_USE;
    }

    private function say(string $line): void
    {
        Log::write("duly-worker: {$line}");
    }
}
