<?php

declare(strict_types=1);

namespace App;

use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;

/** Does what a message says. */
final class CloseHandler
{
    public function __invoke(Close $message): void
    {
        note("run {$message->order} pid " . getmypid());
        $isFirst = runs($message->order) === 1;
        foreach ($message->do as $step) {
            [$verb, $value] = explode(' ', $step, 2) + [1 => ''];
            if ($verb === 'fork' && pcntl_fork() === 0) {
                match ($value) {
                    '' => exit(0),
                    'return' => null,
                    'throw' => throw new \DomainException('in the child'),
                    'fail' => throw new UnrecoverableMessageHandlingException('in the child'),
                };
                return;
            }
            match ($verb) {
                'sleep' => $this->sleep((float) $value),
                'throw' => throw new \DomainException($value),
                'throw-once' => $isFirst ? throw new \DomainException($value) : null,
                'hang-once' => $isFirst ? $this->sleep((float) $value) : null,
                'fail' => throw new UnrecoverableMessageHandlingException($value),
                'exit' => exit(3),
                'fork' => $this->wait(),
                'die' => posix_kill(posix_getpid(), SIGKILL),
            };
        }
        note("ran {$message->order}");
    }

    private function wait(): void
    {
        pcntl_wait($status);
        note('the child ended with ' . pcntl_wexitstatus($status));
    }

    private function sleep(float $seconds): void
    {
        $until = microtime(true) + $seconds;
        while (($left = $until - microtime(true)) > 0) {
            usleep((int) min(1e5, $left * 1e6));
        }
    }
}
