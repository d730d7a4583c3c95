<?php

declare(strict_types=1);

namespace app\job;

/** A job object that never ends. */
class Slow
{
    public int $tries = 1;
    public int $timeout = 1;

    public function __construct(private int $order)
    {
    }

    public function handle(): void
    {
        note("slow {$this->order}");
        while (true) {
            usleep(100_000);
        }
    }

    public function failed(): void
    {
        note("slow {$this->order} has failed");
    }
}
