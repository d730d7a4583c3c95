<?php

declare(strict_types=1);

namespace App;

use Illuminate\Contracts\Queue\Job;

/** A handler that is named by a text, and has to delete its job. */
class Plain
{
    /** @param array<string, mixed> $data */
    public function fire(Job $job, array $data): void
    {
        note("plain {$data['order']} attempt {$job->attempts()}");
        if ($job->attempts() > 1 || ($data['deletes'] ?? true)) {
            $job->delete();
        }
    }
}
