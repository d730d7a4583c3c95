<?php

declare(strict_types=1);

namespace Duly\Think\Command;

use Duly\Cli;
use Duly\Links;
use Duly\Log;
use Duly\Think\Work as Processes;
use think\console\Command;
use think\console\Input;
use think\console\input\Option;
use think\console\Output;

/** `php think duly:work`: `duly-worker` for the jobs of this application. */
class Work extends Command
{
    /** Options that `duly-worker` has, too, and their settings in `config/duly.php`. */
    private const PASSED_ON = [
        'processes', 'max-jobs', 'memory', 'lease', 'grace', 'timeout', 'prefetch', 'name',
    ];
    /** What it needs besides `Duly\Supervisor`'s functions. */
    public const NEEDED = ['pcntl_exec'];

    protected function configure(): void
    {
        $this->setName('duly:work')
            ->setDescription('Run the jobs of duly; SIGHUP replaces the processes one by one, with the new code')
            ->addOption('queue', null, Option::VALUE_REQUIRED, 'Queues in their order: orders,mail or orders=3,mail=1')
            ->addOption('processes', null, Option::VALUE_REQUIRED, 'Number of processes')
            ->addOption('max-jobs', null, Option::VALUE_REQUIRED, 'Replace a process after so many jobs')
            ->addOption('memory', null, Option::VALUE_REQUIRED, 'Replace a process that uses more than so many MiB')
            ->addOption('lease', null, Option::VALUE_REQUIRED, 'Seconds after which the jobs of a dead worker go on')
            ->addOption('grace', null, Option::VALUE_REQUIRED, 'Seconds that running jobs may go on after a signal')
            ->addOption('timeout', null, Option::VALUE_REQUIRED, 'Seconds that a job without a timeout may run')
            ->addOption('prefetch', null, Option::VALUE_REQUIRED, 'The most jobs that wait in a process')
            ->addOption('name', null, Option::VALUE_REQUIRED, 'Name of the workers')
            ->addOption('tries', null, Option::VALUE_REQUIRED, 'How often a job of think-queue may run; 0: no limit')
            ->addOption('delay', null, Option::VALUE_REQUIRED, 'Seconds until such a job that threw runs again');
    }

    protected function execute(Input $input, Output $output): int
    {
        if (!extension_loaded('duly')) {
            $output->error('the PHP extension duly is not loaded: php think duly:install says how to get it');
            return Cli::WRONG_USE;
        }
        $needed = json_encode($this->whatProcessesNeed($input), JSON_THROW_ON_ERROR);
        $arguments = [Links::kept(dirname(__DIR__) . '/bootstrap.php'), ...$this->arguments($input)];
        if (function_exists('pcntl_exec')) {
            // The processes are forked: what this one has loaded of the application would be old after a reload.
            $program = Links::kept(dirname(__DIR__, 4) . '/bin/duly-worker');
            $environment = [Processes::VARIABLE => $needed] + getenv();
            pcntl_exec(PHP_BINARY, [...self::optionsOfPhp(), $program, ...$arguments], $environment);
            $output->error('PHP cannot start itself as ' . PHP_BINARY);
            return Cli::ERROR;
        }
        $_ENV[Processes::VARIABLE] = $needed; // a panel may have disabled putenv
        return (new Cli(needed: self::NEEDED))->main($arguments);
    }

    /** @return array<string, mixed> */
    private function whatProcessesNeed(Input $input): array
    {
        $jobs = [];
        foreach (['tries', 'delay'] as $name) {
            if ($input->getOption($name) !== null) {
                $jobs[$name] = (int) $input->getOption($name);
            }
        }
        return [
            // By their links: the processes of a later deployment are made from what these lead to by then.
            'root' => rtrim(Links::kept($this->app->getRootPath()), '/') . '/',
            'autoload' => Links::kept($this->autoloader()),
            'app' => $this->app::class,
            'namespace' => $this->app->getNamespace(),
            'jobs' => $jobs,
        ];
    }

    private function autoloader(): string
    {
        $usual = $this->app->getRootPath() . 'vendor/autoload.php';
        $composer = 'Composer\Autoload\ClassLoader';
        if (is_file($usual) || !class_exists($composer, false)) {
            return $usual;
        }
        // The application has its packages elsewhere.
        return dirname((string) (new \ReflectionClass($composer))->getFileName(), 2) . '/autoload.php';
    }

    /** @return list<string> */
    private function arguments(Input $input): array
    {
        $arguments = [];
        foreach (array_filter(explode(',', (string) $input->getOption('queue'))) as $queue) {
            $arguments[] = "--queue={$queue}";
        }
        foreach (self::PASSED_ON as $name) {
            $value = $input->getOption($name) ?? ($name === 'processes' ? $this->processes() : null);
            if ($value !== null) {
                $arguments[] = "--{$name}={$value}";
            }
        }
        return $arguments;
    }

    private function processes(): int
    {
        return (int) $this->app->config->get('duly.worker.processes', 1);
    }

    /**
     * What stood before the script: `php -d memory_limit=1G think duly:work`.
     *
     * @return list<string>
     */
    private static function optionsOfPhp(): array
    {
        $line = explode("\0", (string) @file_get_contents('/proc/self/cmdline'));
        $script = array_search($_SERVER['argv'][0] ?? '', $line, true);
        if (is_int($script)) {
            return array_slice($line, 1, max($script - 1, 0));
        }
        // Outside open_basedir, or a system without it.
        $why = '/proc/self/cmdline does not show them: set in php.ini what `php -d` would set';
        Log::write("duly-worker: options of PHP before the script, if there are any, are not passed on: {$why}");
        return [];
    }
}
