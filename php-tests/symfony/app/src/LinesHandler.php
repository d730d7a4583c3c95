<?php

declare(strict_types=1);

namespace App;

use Symfony\Component\Messenger\Handler\Acknowledger;
use Symfony\Component\Messenger\Handler\BatchHandlerInterface;
use Symfony\Component\Messenger\Handler\BatchHandlerTrait;

/** Takes ten messages at once. */
final class LinesHandler implements BatchHandlerInterface
{
    use BatchHandlerTrait;

    public function __invoke(Line $message, ?Acknowledger $ack = null): mixed
    {
        return $this->handle($message, $ack);
    }

    /** @param array<int, array{Line, Acknowledger}> $jobs */
    private function process(array $jobs): void
    {
        note('batch of ' . count($jobs));
        foreach ($jobs as [, $ack]) {
            $ack->ack(true);
        }
    }
}
