<?php

declare(strict_types=1);

namespace Duly\Think;

use think\App;

/**
 * What becomes of a job whose handler has neither deleted nor released it. Its own Redis driver runs such a job again
 * after a minute, without a word.
 *
 * @internal of `Duly\Think`
 */
final class Unsettled
{
    private const RETRY_AFTER_S = 60;

    /** @param array<string, mixed> $settings `unsettled`: `retry` or `ack`; `retry_after` in seconds */
    public static function settle(App $app, Job $job, array $settings): void
    {
        if (!$job->isUnsettled()) {
            return;
        }
        if ($job->hasFailed()) {
            $job->fail(); // it was marked so, and nobody has said why
            return;
        }
        $isDone = ($settings['unsettled'] ?? 'retry') === 'ack';
        $after = Delay::seconds($settings['retry_after'] ?? self::RETRY_AFTER_S);
        $then = $isDone ? 'it counts as done' : "it runs again in {$after} s";
        $named = "job '{$job->getJobId()}' ({$job->getName()}) of queue '{$job->getQueue()}'";
        $app->log->record("duly: the handler of {$named} neither deleted nor released it: {$then}", 'warning');
        if ($isDone) {
            $job->delete();
        } else {
            $job->again('its handler neither deleted nor released it', $after);
        }
    }
}
