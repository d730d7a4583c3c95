<?php

declare(strict_types=1);

namespace App;

use Duly\Client;
use Duly\Queue;

/** Notes each run, and whether the server says that it may run. Some fail at first, and are sent again. */
final class WatchedHandler
{
    private ?Queue $queue = null;

    /** @param array<string, string> $settings */
    public function __construct(private array $settings, private Received $received)
    {
    }

    public function __invoke(Watched $message): void
    {
        $this->queue ??= (new Client($this->settings['url'], $this->settings['prefix']))->queue('default');
        $order = $message->order;
        $id = $this->received->id;
        $state = $this->queue->find($id)?->state;
        note($state === 'reserved' ? "run {$order}" : "after {$order} {$state}");
        usleep(1000 * ($order % 7));
        if ($order % 50 === 0 && !str_contains($id, '~')) {
            throw new \DomainException('once');
        }
    }
}
