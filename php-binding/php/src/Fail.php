<?php

declare(strict_types=1);

namespace Duly;

/** Thrown by a handler to move the job to `failed` now, whatever retries are left. */
final class Fail extends \RuntimeException
{
    public function __construct(string $message = 'the handler gave up', ?\Throwable $previous = null)
    {
        parent::__construct($message, 0, $previous);
    }
}
