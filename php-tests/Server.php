<?php

declare(strict_types=1);

namespace Duly\Tests;

/** A redis-server on a unix socket in a folder of its own. */
final class Server
{
    private static ?self $shared = null;

    private string $folder;
    /** @var ?resource */
    private $process = null;

    /** @var list<string> further options of the program */
    private array $options;

    public function __construct(string ...$options)
    {
        $this->options = array_values($options);
        $this->folder = sys_get_temp_dir() . '/duly-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $this->start();
    }

    /** One for the whole run; tests keep apart by their prefixes. */
    public static function shared(): self
    {
        if (self::$shared === null) {
            self::$shared = new self();
            $owner = getmypid();
            register_shutdown_function(static function () use ($owner): void {
                // A forked child must not end its parent's server.
                if (getmypid() === $owner) {
                    self::$shared?->close();
                }
            });
        }
        return self::$shared;
    }

    /** Waits until the condition holds; it is asked again and again: the longer it takes, the rarer. */
    public static function until(callable $condition, string $otherwise, float $seconds = 60.0): void
    {
        $began = microtime(true);
        while (!$condition()) {
            $waited = microtime(true) - $began;
            if ($waited > $seconds) {
                throw new \RuntimeException($otherwise);
            }
            usleep((int) (1e6 * min(max($waited / 8, 0.002), 0.02)));
        }
    }

    public function folder(): string
    {
        return $this->folder;
    }

    public function url(): string
    {
        return "unix://{$this->folder}/redis.sock";
    }

    public function start(): void
    {
        $null = ['file', '/dev/null', 'w'];
        $program = getenv('DULY_TEST_SERVER') ?: 'redis-server';
        $command = [$program, '--port', '0', '--unixsocket', "{$this->folder}/redis.sock", '--save', ''];
        $command = [...$command, '--dir', $this->folder, ...$this->options];
        $process = proc_open($command, [1 => $null, 2 => $null], $pipes);
        if ($process === false) {
            throw new \RuntimeException('redis-server cannot be started');
        }
        $this->process = $process;
        self::until($this->answers(...), 'redis-server does not answer');
    }

    public function kill(): void
    {
        if ($this->process !== null) {
            proc_terminate($this->process, SIGKILL);
            proc_close($this->process);
            $this->process = null;
        }
    }

    /** Such as SIGSTOP. */
    public function signal(int $signal): void
    {
        if ($this->process !== null) {
            proc_terminate($this->process, $signal);
        }
    }

    public function close(): void
    {
        $this->kill();
        // With --appendonly there is a folder in it.
        array_map('unlink', glob("{$this->folder}/*/*") ?: []);
        array_map('rmdir', glob("{$this->folder}/*", GLOB_ONLYDIR) ?: []);
        array_map('unlink', glob("{$this->folder}/*") ?: []);
        rmdir($this->folder);
    }

    /** Sends a command and gives the reply: text, whole number, list, or null. */
    public function command(string ...$words): mixed
    {
        $stream = stream_socket_client($this->url(), $code, $message, 5);
        if ($stream === false) {
            throw new \RuntimeException("no connection: {$message}");
        }
        $sent = '*' . count($words) . "\r\n";
        foreach ($words as $word) {
            $sent .= '$' . strlen($word) . "\r\n{$word}\r\n";
        }
        fwrite($stream, $sent);
        try {
            return self::reply($stream);
        } finally {
            fclose($stream);
        }
    }

    /** @param resource $stream */
    private static function reply($stream): mixed
    {
        $line = substr((string) fgets($stream), 0, -2);
        $rest = substr($line, 1);
        switch ($line[0] ?? '') {
            case '+':
                return $rest;
            case ':':
                return (int) $rest;
            case '$':
                return $rest === '-1' ? null : substr((string) stream_get_contents($stream, (int) $rest + 2), 0, -2);
            case '*':
                $list = [];
                for ($left = (int) $rest; $left > 0; $left--) {
                    $list[] = self::reply($stream);
                }
                return $rest === '-1' ? null : $list;
            default:
                throw new \RuntimeException("the server said: {$line}");
        }
    }

    /** Waits until somebody is blocked at the server. */
    public function untilSomebodyWaits(): void
    {
        $blocked = fn (): bool => !str_contains((string) $this->command('INFO', 'clients'), "blocked_clients:0\r");
        self::until($blocked, 'nobody waits for a job');
    }

    private function answers(): bool
    {
        try {
            $stream = @stream_socket_client($this->url(), $code, $message, 1);
            if ($stream === false) {
                return false;
            }
            fwrite($stream, "PING\r\n");
            $answer = fgets($stream);
            fclose($stream);
            return $answer === "+PONG\r\n";
        } catch (\Throwable) {
            return false;
        }
    }
}
