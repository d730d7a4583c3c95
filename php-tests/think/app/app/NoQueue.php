<?php

declare(strict_types=1);

namespace app;

use think\queue\Connector;

/** A connector that gives jobs without a queue: what is left is the time of think-queue's own worker. */
class NoQueue extends Connector
{
    private const JOBS = 5_000;

    private int $given = 0;

    /** @param mixed $config */
    public static function __make($config): self
    {
        return new self();
    }

    /** @param ?string $queue */
    public function size($queue = null): int
    {
        return 0;
    }

    /**
     * @param mixed $job
     * @param mixed $data
     * @param ?string $queue
     */
    public function push($job, $data = '', $queue = null): void
    {
    }

    /**
     * @param mixed $payload
     * @param ?string $queue
     */
    public function pushRaw($payload, $queue = null, array $options = []): void
    {
    }

    /**
     * @param mixed $delay
     * @param mixed $job
     * @param mixed $data
     * @param ?string $queue
     */
    public function later($delay, $job, $data = '', $queue = null): void
    {
    }

    /** @param ?string $queue */
    public function pop($queue = null): ?NoQueueJob
    {
        $isLast = ++$this->given === self::JOBS + 1;
        return $this->given > self::JOBS + 1 ? null : new NoQueueJob($this->app, $isLast ? ['last' => true] : '');
    }
}
