<?php

declare(strict_types=1);

namespace Duly;

/**
 * Thrown by a handler to fail the run and retry the job after so many seconds, instead of when its policy says.
 *
 * A job without retries left still goes to `failed`.
 */
final class Retry extends \RuntimeException
{
    /**
     * @param int|float|null $after seconds until the retry, 0 to 100 years. Default: the job's policy decides
     *
     * @throws Exception\InvalidArgumentException `after` is no such time
     */
    public function __construct(
        public readonly int|float|null $after = null,
        string $message = 'the handler asked for another run',
        ?\Throwable $previous = null,
    ) {
        $after === null || WorkerEngine::checkAfter($after);
        parent::__construct($message, 0, $previous);
    }
}
