<?php

declare(strict_types=1);

namespace Duly\Think;

use think\App;
use think\queue\Worker;

/**
 * The worker of think-queue that asks a connector for a job. It asks for one queue after the other, and tells neither
 * which others it serves, nor its timeout, nor that it is to end: all that is in the call of its loop.
 *
 * @internal of `Duly\Think\Connector`
 */
final class QueueWorker
{
    /** `pop` of the connector, the worker's `getNextJob`, and its loop; a subclass may add some. */
    private const FRAMES = 8;
    private const RESTART_KEY = 'think:queue:restart';
    /** How often the cache is asked for `queue:restart`, in seconds. */
    private const ASKS_EVERY_S = 1.0;

    /** Whether it began within a transaction, which is then its caller's. */
    public readonly bool $isInner;
    private mixed $restart;
    private float $askedAt;

    /**
     * @param list<string> $queues in their order
     * @param ?float $timeout of jobs without one of their own, in seconds
     * @param bool $isLoop whether it asks again when there is no job
     */
    private function __construct(
        public readonly Worker $worker,
        public readonly array $queues,
        public readonly ?float $timeout,
        public readonly bool $isLoop,
        private App $app,
    ) {
        $this->isInner = OpenTransactions::areThere($app);
        $this->restart = $this->restartAsked();
        $this->askedAt = microtime(true);
    }

    /** The one that is calling; null for other programs. */
    public static function calling(App $app, ?self $known): ?self
    {
        // This call, that of `pop`, and what has called `pop`.
        $caller = debug_backtrace(DEBUG_BACKTRACE_PROVIDE_OBJECT | DEBUG_BACKTRACE_IGNORE_ARGS, 3)[2] ?? [];
        $worker = $caller['object'] ?? null;
        if (!$worker instanceof Worker || $caller['function'] !== 'getNextJob') {
            return null; // such as a handler that takes a job itself
        }
        if ($known?->worker === $worker && $known->isLoop) {
            return $known; // what was given to its loop is read once
        }
        foreach (debug_backtrace(DEBUG_BACKTRACE_PROVIDE_OBJECT, self::FRAMES) as $frame) {
            $isWorker = ($frame['object'] ?? null) === $worker;
            if (!$isWorker || !in_array($frame['function'], ['daemon', 'runNextJob'], true)) {
                continue;
            }
            $isLoop = $frame['function'] === 'daemon';
            $given = $frame['args'] ?? [];
            $timeout = (float) ($isLoop ? $given[6] ?? 60 : 0);
            return new self($worker, explode(',', (string) $given[1]), $timeout > 0 ? $timeout : null, $isLoop, $app);
        }
        return null;
    }

    /** Whether it ends as soon as it gets to that: behind a signal, or `php think queue:restart`. */
    public function isToEnd(): bool
    {
        if ($this->worker->shouldQuit) {
            return true;
        }
        if (microtime(true) - $this->askedAt < self::ASKS_EVERY_S) {
            return false;
        }
        $this->askedAt = microtime(true);
        return $this->restartAsked() != $this->restart;
    }

    private function restartAsked(): mixed
    {
        return $this->app->cache->get(self::RESTART_KEY);
    }
}
