<?php

declare(strict_types=1);

namespace app\job;

use think\Config;

/** A job object, as think-queue serializes it. */
class Command
{
    public int $tries = 2;
    public int $timeout = 5;

    public function __construct(private int $order)
    {
    }

    public function handle(Config $config): void
    {
        note("command {$this->order} " . $config->get('queue.default'));
    }
}
