<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Log;
use Duly\Worker;
use think\App;

/**
 * What the processes of `duly:work` are made from: a fresh application for each, so that a reload runs the new code.
 *
 * @internal of `Duly\Think`
 */
final class Work
{
    /** The environment variable by which the command tells its processes what they need; `duly-worker` has no such option. */
    public const VARIABLE = 'DULY_THINK_WORK';

    /** @param array<string, mixed> $given `root`, `autoload`, `app`, `namespace`, `tries` and `delay` */
    public function __construct(private array $given)
    {
    }

    public static function ofEnvironment(): self
    {
        $given = json_decode((string) ($_ENV[self::VARIABLE] ?? getenv(self::VARIABLE)), true);
        if (!is_array($given)) {
            throw new \LogicException('this file is for php think duly:work, which says what it needs');
        }
        return new self($given);
    }

    public function loadClasses(): void
    {
        require_once $this->given['autoload'];
    }

    /** @param array<string, mixed> $settings of the command line, by the names of the arguments of `Duly\Worker` */
    public function worker(array $settings): Worker
    {
        $class = $this->given['app'];
        $app = new $class($this->given['root']);
        assert($app instanceof App);
        $app->setNamespace($this->given['namespace']);
        $app->initialize();
        return self::of($app, $settings, $this->given['jobs']);
    }

    /**
     * @param array<string, mixed> $settings arguments of `Duly\Worker`
     * @param array<string, mixed> $options `tries` and `delay` of jobs of think-queue
     */
    public static function of(App $app, array $settings, array $options): Worker
    {
        $configured = $app->config->get('duly.worker', []);
        foreach (['memory', 'max_jobs', 'timeout', 'prefetch'] as $number) {
            if (is_numeric($configured[$number] ?? null)) {
                $configured[$number] = +$configured[$number]; // `env()` gives text
            }
        }
        $settings += array_filter([
            'queues' => $configured['queues'] ?? [$app->config->get('duly.queue', 'default')],
            'memory' => array_key_exists('memory', $configured) ? $configured['memory'] : 128,
            'maxJobs' => $configured['max_jobs'] ?? null,
            'lease' => isset($configured['lease']) ? (float) $configured['lease'] : null,
            'grace' => isset($configured['grace']) ? (float) $configured['grace'] : null,
            'name' => $configured['name'] ?? null,
            'timeout' => $configured['timeout'] ?? null,
            'prefetch' => $configured['prefetch'] ?? null,
        ], static fn (mixed $value): bool => $value !== null);
        $jobs = null;
        $worker = new Worker(
            $app->make(Duly::class)->client(),
            ...$settings,
            log: static fn (string $line) => Log::write(date('Y-m-d H:i:s') . ' ' . $line),
            logger: new AppLog($app),
            report: static function (\Throwable $thrown, \Duly\Job $job) use (&$jobs): void {
                $jobs?->report($thrown, $job);
            },
        );
        OwnSchedules::giveTo($worker, $app);
        $options = array_filter($options, 'is_scalar') + ['connection' => self::connection($app)];
        $jobs = new Jobs($app, $worker, $options + $configured);
        return $worker->otherwise($jobs->run(...))->onFailure($jobs->outcome(...))->onFailed($jobs->failed(...));
    }

    /** The connection of think-queue whose jobs these are: to it `queue:retry` pushes what has failed. Null for none. */
    private static function connection(App $app): ?string
    {
        $all = $app->config->get('queue.connections', []);
        $default = (string) $app->config->get('queue.default');
        foreach ([$default => $all[$default] ?? []] + $all as $name => $settings) {
            if (Connector::isOf($settings) && !Connector::hasItsOwnServer($settings)) {
                return (string) $name;
            }
        }
        return null;
    }
}
