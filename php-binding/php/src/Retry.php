<?php

declare(strict_types=1);

namespace Duly;

/**
 * Thrown by a handler: the run failed, and the job is to run again after so many seconds and not when its policy says.
 *
 * A job without retries left goes to `failed` all the same.
 */
final class Retry extends \RuntimeException
{
    /** @param int|float|null $after seconds; the policy says if null */
    public function __construct(
        public readonly int|float|null $after = null,
        string $message = 'the handler asked for another run',
        ?\Throwable $previous = null,
    ) {
        parent::__construct($message, 0, $previous);
    }
}
