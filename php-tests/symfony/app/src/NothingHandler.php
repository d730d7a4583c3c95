<?php

declare(strict_types=1);

namespace App;

/** Does nothing, and says how long it took when it has done the last one. */
final class NothingHandler
{
    private ?float $since = null;
    private int $count = 0;

    public function __invoke(Nothing $message): void
    {
        $this->since ??= microtime(true);
        $this->count++;
        if ($message->isLast) {
            note(sprintf('%d jobs in %.6f s', $this->count, microtime(true) - $this->since));
        }
    }
}
