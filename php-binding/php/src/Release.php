<?php

declare(strict_types=1);

namespace Duly;

/**
 * Thrown by a handler to give the job back without counting a failure, because something that it needs is busy or
 * missing.
 */
final class Release extends \RuntimeException
{
    /**
     * @param int|float $after seconds until it may run again, 0 to 100 years. Default: 0, at once
     * @param string $reason is logged, and kept with the job as its last error. Default: that stays
     *
     * @throws Exception\InvalidArgumentException `after` is no such time
     */
    public function __construct(public readonly int|float $after = 0, public readonly string $reason = '')
    {
        WorkerEngine::checkAfter($after);
        parent::__construct($reason === '' ? 'the handler gave the job back' : $reason);
    }
}
