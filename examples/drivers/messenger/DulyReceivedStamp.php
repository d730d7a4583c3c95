<?php

declare(strict_types=1);

namespace App\Messenger;

use Duly\Job;
use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** The job that a message came in. */
final class DulyReceivedStamp implements NonSendableStampInterface
{
    /** Whether the message was sent on: to be retried, or to the failure transport. */
    public bool $isHandedOn = false;
    /** The process whose message it is. */
    public readonly int $owner;

    public function __construct(public readonly Job $job)
    {
        $this->owner = (int) getmypid();
    }
}
