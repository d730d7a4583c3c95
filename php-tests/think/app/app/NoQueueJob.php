<?php

declare(strict_types=1);

namespace app;

use think\App;
use think\queue\Job;

/** See `NoQueue`. */
class NoQueueJob extends Job
{
    public function __construct(App $app, private mixed $data)
    {
        $this->app = $app;
        $this->connection = 'none';
        $this->queue = 'default';
    }

    public function getJobId(): string
    {
        return '1';
    }

    public function attempts(): int
    {
        return 1;
    }

    public function getRawBody(): string
    {
        return (string) json_encode(['job' => 'Nothing', 'maxTries' => null, 'timeout' => null, 'data' => $this->data]);
    }
}
