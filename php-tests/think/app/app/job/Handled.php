<?php

declare(strict_types=1);

namespace app\job;

use think\Config;

/** A handler whose arguments come from the container and from the data. */
class Handled
{
    public function handle(int $order, \Duly\Job $job, Config $config, array $data, string $then = 'ack'): string
    {
        note("handled {$order} {$data['order']} {$job->name} attempt {$job->attempt} " . $config->get('queue.default'));
        return match ($then) {
            'release' => $job->attempts === 0 && $job->returns === 0 ? throw new \Duly\Release(0.1) : 'released before',
            'retry' => $job->attempt === 1 ? throw new \Duly\Retry(0.1) : 'failed before',
            'fail' => throw new \Duly\Fail('there is no such order'),
            'gone' => $job->attempt === 1 ? throw new \PDOException('MySQL server has gone away') : 'connected again',
            'validate' => throw new \think\exception\ValidateException(['order' => 'no number']),
            default => 'closed',
        };
    }

    public function failed(mixed $data, \Throwable $error): void
    {
        note("failed {$data['order']} {$error->getMessage()}");
    }
}
