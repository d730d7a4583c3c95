<?php

declare(strict_types=1);

namespace App\Queue;

use Duly\Client;
use Illuminate\Queue\Connectors\ConnectorInterface;

/**
 * In the `boot` of a service provider:
 *
 *     Queue::extend('duly', fn () => new DulyConnector());
 */
final class DulyConnector implements ConnectorInterface
{
    /**
     * @param array<string, mixed> $config `driver`, and at will `url`, `prefix`, `queue`, `lease`, `timeout` (the
     *     longest run of jobs without their own), `prefetch`, `block_for`, `retry_after`, `after_commit`
     */
    public function connect(array $config): DulyQueue
    {
        return new DulyQueue(new Client($config['url'] ?? null, $config['prefix'] ?? null), $config);
    }
}
