<?php

declare(strict_types=1);

namespace app\job;

use think\queue\Job;

/** Notes each run, and whether the server says that it may run. */
class Watched
{
    public function fire(Job $job, mixed $data): void
    {
        $state = duly()->find($job->getJobId())?->state;
        note($state === 'reserved' ? "run {$data}" : "after {$data} {$state}");
        usleep(1000 * ($data % 7));
        if ($data % 50 === 0 && $job->attempts() === 1) {
            throw new \DomainException('once');
        }
        $job->delete();
    }
}
