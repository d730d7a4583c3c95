<?php

declare(strict_types=1);

namespace Duly\Tests;

/** A PHP program that runs beside the test. It has `$client` and `say(...)`, which the test hears line by line. */
final class Program
{
    /** @var resource */
    private $process;
    /** @var array<int, resource> */
    private array $pipes = [];
    /** Everything that it has said. */
    private string $said = '';

    public function __construct(Server $server, string $prefix, string $code, string ...$options)
    {
        $start = '
            function say(string $line): void { fwrite(STDOUT, $line . "\n"); }
            require ' . var_export(dirname(__DIR__) . '/php-binding/php/src/Worker.php', true) . ';
            $client = new Duly\Client(' . var_export($server->url(), true) . ', ' . var_export($prefix, true) . ');
        ';
        $file = $server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        file_put_contents($file, "<?php\n{$start}\n{$code}\n");
        $streams = [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]];
        $process = proc_open([PHP_BINARY, '-d', 'display_errors=1', ...$options, ...[$file]], $streams, $this->pipes);
        if ($process === false) {
            throw new \RuntimeException('php cannot be started');
        }
        $this->process = $process;
        stream_set_blocking($this->pipes[1], false);
    }

    public function __destruct()
    {
        if (proc_get_status($this->process)['running']) {
            proc_terminate($this->process, SIGKILL);
        }
    }

    /** Waits until it has said this, and fails with what it said instead. */
    public function hear(string $text, float $seconds = 60.0): void
    {
        try {
            Server::until(fn (): bool => str_contains($this->said(), $text), '', $seconds);
        } catch (\RuntimeException) {
            throw new \RuntimeException("it did not say '{$text}' but: {$this->said}");
        }
    }

    public function said(): string
    {
        return $this->said .= stream_get_contents($this->pipes[1]);
    }

    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    /** Waits until no signal to a process, this one or a child of its, is on the way: two that come at once are one. */
    public static function untilSignalsHaveCome(int $pid): void
    {
        $status = fn (): string => (string) @file_get_contents("/proc/{$pid}/status");
        $none = fn (): bool => preg_match('/^(Shd|Sig)Pnd:.*[1-9a-f]/m', $status()) === 0;
        Server::until($none, 'a signal does not arrive');
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    /** Waits for its end; its exit code, or minus the signal that ended it. */
    public function end(float $seconds = 25.0): int
    {
        $code = null;
        $ended = function () use (&$code): bool {
            $status = proc_get_status($this->process);
            $this->said();
            $code = $status['signaled'] ? -$status['termsig'] : $status['exitcode'];
            return !$status['running'];
        };
        Server::until($ended, 'the program does not end', $seconds);
        $this->said();
        return (int) $code;
    }
}
