<?php

declare(strict_types=1);

namespace App;

use App\Messenger\DulyReceivedStamp;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Middleware\StackInterface;

/** Knows the id of the job that is handled. */
final class Received implements MiddlewareInterface
{
    public string $id = '';

    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        $this->id = $envelope->last(DulyReceivedStamp::class)?->job->id ?? '';
        return $stack->next()->handle($envelope, $stack);
    }
}
