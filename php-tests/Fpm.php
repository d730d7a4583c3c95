<?php

declare(strict_types=1);

namespace Duly\Tests;

/** php-fpm with a fixed number of processes, asked over its socket as a web server does: a FastCGI request each. */
final class Fpm
{
    private const BEGIN = 1;
    private const END = 3;
    private const PARAMS = 4;
    private const STDIN = 5;
    private const STDOUT = 6;

    /** @var resource */
    private $process;

    /** @param string $folder gets its files and has the scripts */
    public function __construct(private string $folder, int $children, string ...$lines)
    {
        $user = posix_getpwuid(posix_geteuid())['name'] ?? '';
        $more = implode("\n", $lines);
        file_put_contents("{$folder}/fpm.conf", <<<INI
            [global]
            error_log = {$folder}/fpm.log
            process_control_timeout = 10s
            [www]
            user = {$user}
            listen = {$folder}/fpm.sock
            pm = static
            pm.max_children = {$children}
            php_admin_flag[log_errors] = on
            php_admin_value[error_log] = {$folder}/php.log
            {$more}
            INI);
        $null = ['file', '/dev/null', 'w'];
        $command = [self::binary(), '-F', '-R', '-y', "{$folder}/fpm.conf"];
        $process = proc_open($command, [1 => $null, 2 => $null], $pipes);
        if ($process === false) {
            throw new \RuntimeException('php-fpm cannot be started');
        }
        $this->process = $process;
        try {
            // The file is there a little before somebody listens.
            $listens = static fn (): bool => @stream_socket_client("unix://{$folder}/fpm.sock") !== false;
            Server::until($listens, 'php-fpm does not listen', 10);
        } catch (\RuntimeException $error) {
            $this->stop();
            throw $error;
        }
    }

    public function stop(): void
    {
        proc_terminate($this->process, SIGTERM);
        proc_close($this->process);
    }

    /** Such as SIGUSR2, behind which its processes are new ones. */
    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    /** @return list<int> its processes that answer requests */
    public function children(): array
    {
        $pid = proc_get_status($this->process)['pid'];
        $list = trim((string) @file_get_contents("/proc/{$pid}/task/{$pid}/children"));
        return $list === '' ? [] : array_map('intval', explode(' ', $list));
    }

    /**
     * Begins a request, which does not wait for anything.
     *
     * @return resource what `answer` takes. It is readable when there is something of the answer
     */
    public function ask(string $script, string $query = '')
    {
        $stream = stream_socket_client("unix://{$this->folder}/fpm.sock", $code, $message, 30);
        if ($stream === false) {
            throw new \RuntimeException("php-fpm takes no connection: {$message}");
        }
        $params = '';
        $all = [
            'SCRIPT_FILENAME' => "{$this->folder}/{$script}.php",
            'REQUEST_METHOD' => 'GET',
            'QUERY_STRING' => $query,
            'GATEWAY_INTERFACE' => 'CGI/1.1',
        ];
        foreach ($all as $name => $value) {
            $params .= chr(strlen($name)) . pack('N', strlen($value) | 0x80000000) . $name . $value;
        }
        $sent = self::record(self::BEGIN, "\0\1\0\0\0\0\0\0") . self::record(self::PARAMS, $params);
        fwrite($stream, $sent . self::record(self::PARAMS, '') . self::record(self::STDIN, ''));
        return $stream;
    }

    /**
     * Waits for the whole answer.
     *
     * @param resource $stream
     *
     * @return array{int, string} status and body; status 0 if the connection ended before the answer did
     */
    public function answer($stream): array
    {
        $bytes = (string) stream_get_contents($stream);
        fclose($stream);
        $output = '';
        $isWhole = false;
        for ($at = 0; $at + 8 <= strlen($bytes); $at += 8 + $head['length'] + $head['padding']) {
            $head = unpack('Cversion/Ctype/nid/nlength/Cpadding', $bytes, $at);
            $output .= $head['type'] === self::STDOUT ? substr($bytes, $at + 8, $head['length']) : '';
            $isWhole = $isWhole || $head['type'] === self::END;
        }
        [$headers, $body] = explode("\r\n\r\n", $output, 2) + [1 => ''];
        $status = preg_match('/^Status: (\d+)/m', $headers, $found) === 1 ? (int) $found[1] : 200;
        return $isWhole ? [$status, $body] : [0, "no answer: {$output}"];
    }

    /**
     * Waits for several answers. A process of php-fpm takes no other request before its answer was read.
     *
     * @template TKey of array-key
     *
     * @param array<TKey, resource> $asked
     *
     * @return array<TKey, string> the bodies, in the order in which they came
     */
    public function bodies(array $asked): array
    {
        $bodies = [];
        while ($asked !== []) {
            $readable = $asked;
            $none = null;
            if (stream_select($readable, $none, $none, 60) === 0) {
                throw new \RuntimeException('php-fpm does not answer');
            }
            foreach ($readable as $key => $stream) {
                $bodies[$key] = $this->answer($stream)[1];
                unset($asked[$key]);
            }
        }
        return $bodies;
    }

    private static function record(int $type, string $content): string
    {
        return pack('CCnnCC', 1, $type, 1, strlen($content), 0, 0) . $content;
    }

    private static function binary(): string
    {
        $name = 'php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        foreach ([...explode(':', (string) getenv('PATH')), '/usr/sbin', '/usr/local/sbin'] as $folder) {
            if (is_executable("{$folder}/{$name}")) {
                return "{$folder}/{$name}";
            }
        }
        return 'php-fpm';
    }
}
