<?php

declare(strict_types=1);

namespace App;

use Illuminate\Contracts\Queue\Job;

/** Notes each run, and whether the server says that it may run. */
class Watched
{
    public function __construct(private Config $config)
    {
    }

    /** @param array{order: int} $data */
    public function fire(Job $job, array $data): void
    {
        static $queue = null;
        $settings = $this->config['queue.connections.duly'];
        $queue ??= (new \Duly\Client($settings['url'], $settings['prefix']))->queue('default');
        $order = $data['order'];
        $state = $queue->find($job->getJobId())?->state;
        note($state === 'reserved' ? "run {$order}" : "after {$order} {$state}");
        usleep(1000 * ($order % 7));
        if ($order % 50 === 0 && $job->attempts() === 1) {
            throw new \DomainException('once');
        }
        $job->delete();
    }
}
