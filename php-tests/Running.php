<?php

declare(strict_types=1);

namespace Duly\Tests;

/** A program that runs beside a test, and what it says. */
final class Running
{
    /** @var resource */
    private $process;
    /** @var array<int, resource> */
    private array $pipes = [];
    private string $said = '';

    /** @param list<string> $command */
    public function __construct(array $command, string $folder)
    {
        $streams = [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]];
        $process = proc_open($command, $streams, $this->pipes, $folder);
        if ($process === false) {
            throw new \RuntimeException('it cannot be started');
        }
        $this->process = $process;
        stream_set_blocking($this->pipes[1], false);
    }

    public function __destruct()
    {
        $this->kill();
    }

    /** Ends it, whatever it does. The processes of `duly:work` end when their supervisor is gone. */
    public function kill(): void
    {
        if ($this->isRunning()) {
            proc_terminate($this->process, SIGKILL);
            $this->end();
        }
    }

    public function said(): string
    {
        return $this->said .= stream_get_contents($this->pipes[1]);
    }

    public function hear(string $text, float $seconds = 30.0): void
    {
        try {
            Server::until(fn (): bool => str_contains($this->said(), $text), '', $seconds);
        } catch (\RuntimeException) {
            throw new \RuntimeException("it did not say '{$text}' but: {$this->said}");
        }
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    public function isRunning(): bool
    {
        return proc_get_status($this->process)['running'];
    }

    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    /** Waits for its end; its exit code, or minus the signal that ended it. */
    public function end(float $seconds = 30.0): int
    {
        $code = null;
        $ended = function () use (&$code): bool {
            $status = proc_get_status($this->process);
            $this->said();
            $code = $status['signaled'] ? -$status['termsig'] : $status['exitcode'];
            return !$status['running'];
        };
        try {
            Server::until($ended, '', $seconds);
        } catch (\RuntimeException) {
            throw new \RuntimeException("it does not end; it has said: {$this->said}");
        }
        $this->said();
        return (int) $code;
    }
}
