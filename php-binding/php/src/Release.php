<?php

declare(strict_types=1);

namespace Duly;

/**
 * Thrown by a handler: what it needs is taken or not there yet. The job is given back, which does not count as a
 * failure.
 */
final class Release extends \RuntimeException
{
    /** @param int|float $after seconds until it may run again */
    public function __construct(public readonly int|float $after = 0)
    {
        parent::__construct('the handler gave the job back');
    }
}
