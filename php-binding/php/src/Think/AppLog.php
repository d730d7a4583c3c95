<?php

declare(strict_types=1);

namespace Duly\Think;

use think\App;

/**
 * think's log for a worker: without the fields, which think puts into the text where that has braces.
 *
 * @internal of `Duly\Think`
 */
final class AppLog
{
    public function __construct(private App $app)
    {
    }

    /** @param array<string, mixed> $context */
    public function log(string $level, string $message, array $context = []): void
    {
        $this->app->log->record("duly: {$message}", $level);
    }
}
