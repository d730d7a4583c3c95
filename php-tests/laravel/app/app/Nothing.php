<?php

declare(strict_types=1);

namespace App;

use Illuminate\Contracts\Queue\Job;

/** Does nothing, and says how long it took when it has done the last one. */
class Nothing
{
    private static ?float $since = null;
    private static int $count = 0;

    public function fire(Job $job, mixed $data): void
    {
        $job->delete();
        self::$since ??= microtime(true);
        self::$count++;
        if ($data['last'] ?? false) {
            note(sprintf('%d jobs in %.6f s', self::$count, microtime(true) - self::$since));
        }
    }
}
