<?php

/**
 * Receives the files of a topic into a folder, as receive.py does, and beside receivers in Python.
 *
 *     php examples/files/receive.php --topic=logs --name=archive folder
 *
 * The folder has the same files, so either program goes on where the other one was killed.
 */

declare(strict_types=1);

namespace Duly\Examples;

use Duly\Client;
use Duly\Exception\CutOffException;
use Duly\Exception\NotFoundException;
use Duly\Topic;

/** A file that is on its way. */
final class Part
{
    /** @var array<int, array{int, int, string}> offset, size and SHA-256 by number */
    private array $rows = [];
    private string $unlisted = '';
    /** @var resource */
    private mixed $part;
    /** @var resource */
    private mixed $list;

    /** Reads what an earlier process has left, and believes only what agrees with its checksum. */
    public function __construct(private readonly string $path)
    {
        $this->part = opened("{$path}.part", 'c+');
        $listed = is_file("{$path}.chunks") ? (array) file("{$path}.chunks") : [];
        foreach ($listed as $line) {
            if (preg_match('/^(\d{1,12}) (\d{1,18}) (\d{1,8}) ([0-9a-f]{64})$/', trim((string) $line), $found)) {
                $row = [(int) $found[2], (int) $found[3], $found[4]];
                if ($this->isThere($row)) {
                    $this->rows[(int) $found[1]] = $row;
                }
            }
        }
        // Begins with a new line, so that ours does not go on at the end of a torn one.
        $this->list = opened("{$path}.chunks", 'a');
    }

    /** @param array{int, int, string} $row */
    private function isThere(array $row): bool
    {
        fseek($this->part, $row[0]);
        return hash('sha256', $row[1] === 0 ? '' : (string) stream_get_contents($this->part, $row[1])) === $row[2];
    }

    /**
     * Writes a chunk at its place; it is on the disk after `sync`.
     *
     * @param array<string, mixed> $message
     */
    public function write(array $message): bool
    {
        $content = @gzuncompress((string) base64_decode($message['data'], true));
        if ($content === false || hash('sha256', $content) !== $message['sha256']) {
            return false;
        }
        fseek($this->part, $message['offset']);
        writeAll($this->part, $content);
        $row = [$message['offset'], strlen($content), $message['sha256']];
        $this->rows[$message['number']] = $row;
        $this->unlisted .= "{$message['number']} " . implode(' ', $row) . "\n";
        return true;
    }

    public function sync(): void
    {
        if ($this->unlisted === '') {
            return;
        }
        synced($this->part);
        writeAll($this->list, "\n{$this->unlisted}");
        synced($this->list);
        $this->unlisted = '';
    }

    /**
     * The chunks that are still to come; those that were damaged on the disk are among them.
     *
     * @param array<string, mixed> $end
     *
     * @return list<int>
     */
    public function missing(array $end): array
    {
        $all = $end['chunks'] === 0 ? [] : range(0, $end['chunks'] - 1);
        $missing = array_values(array_diff($all, array_keys($this->rows)));
        if ($missing !== []) {
            return $missing;
        }
        ftruncate($this->part, $end['size']);
        fflush($this->part);
        if (hash_file('sha256', "{$this->path}.part") === $end['sha256']) {
            return [];
        }
        $damaged = array_keys(array_filter($this->rows, fn (array $row): bool => !$this->isThere($row)));
        sort($damaged);
        $damaged = $damaged ?: $all;
        $this->rows = array_diff_key($this->rows, array_flip($damaged));
        return $damaged;
    }

    public function close(): void
    {
        $this->sync();
        synced($this->part);
        fclose($this->part);
        fclose($this->list);
    }
}

/** Receives files into a folder, under a name that only this folder has. */
final class Receiver
{
    private const LEASE = 30;
    // What the process before has pulled and not acked comes at once.
    private float $lease = 0.001;
    private readonly Topic $topic;
    private readonly Topic $replies;
    /** @var array<string, Part> */
    private array $parts = [];
    /** @var resource */
    private mixed $lock;

    public function __construct(
        Client $client,
        string $topic,
        private readonly string $name,
        private readonly string $folder,
    ) {
        $this->topic = $client->topic($topic);
        $this->replies = $client->topic("{$topic}.replies");
        if (!is_dir($folder)) {
            mkdir($folder, recursive: true);
        }
        $this->lock = opened("{$folder}/.lock", 'c');
        flock($this->lock, LOCK_EX);
        $this->topic->subscribe($name);
    }

    public function runOnce(float $wait): void
    {
        try {
            $wait = $this->lease === (float) self::LEASE ? $wait : 0;
            $messages = $this->topic->pull($this->name, wait: $wait, lease: $this->lease);
            $this->lease = self::LEASE;
            $handled = [];
            foreach ($messages as $message) {
                $data = $message->data();
                if (preg_match('/^[0-9a-f]{32}$/D', $data['file']) === 1) {
                    if ($data['kind'] !== 'chunk') {
                        $this->ack($handled);
                        $handled = [];
                    }
                    match ($data['kind']) {
                        'chunk' => $this->write($data),
                        'end' => $this->end($data),
                        'gone' => $this->forget($data['file']),
                        default => null,
                    };
                }
                $handled[] = $message;
            }
            $this->ack($handled);
        } catch (CutOffException | NotFoundException) {
            // What is missing is asked for at the end of each file.
            $this->topic->subscribe($this->name, from: 'earliest');
        }
    }

    /** @param list<\Duly\Message> $messages */
    private function ack(array $messages): void
    {
        array_map(static fn (Part $part) => $part->sync(), $this->parts);
        if ($messages !== []) {
            $this->topic->ack($this->name, $messages);
        }
    }

    /** @param array<string, mixed> $message */
    private function write(array $message): void
    {
        $path = "{$this->folder}/.{$message['file']}";
        if (is_file("{$path}.done")) {
            return;
        }
        $this->parts[$message['file']] ??= new Part($path);
        if (!$this->parts[$message['file']]->write($message)) {
            fwrite(STDERR, "{$this->name}: chunk {$message['number']} is not what was sent\n");
        }
    }

    /** @param array<string, mixed> $end */
    private function end(array $end): void
    {
        $file = $end['file'];
        $path = "{$this->folder}/.{$file}";
        if (preg_match('/^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$/D', $end['name']) !== 1) {
            fwrite(STDERR, "{$this->name}: {$end['name']} cannot be the name of a file here\n");
            return;
        }
        if (!is_file("{$path}.done")) {
            $part = $this->parts[$file] ?? new Part($path);
            $missing = $part->missing($end);
            if ($missing !== []) {
                $this->parts[$file] = $part;
                foreach (array_chunk($missing, 10_000) as $chunks) {
                    $this->reply('again', $file, ['chunks' => $chunks]);
                }
                return;
            }
            $part->close();
            unset($this->parts[$file]);
            $done = opened("{$path}.done.new", 'w');
            writeAll($done, json_encode(['name' => $end['name']], JSON_THROW_ON_ERROR));
            synced($done);
            fclose($done);
            renamed("{$path}.done.new", "{$path}.done");
        }
        if (is_file("{$path}.part")) {
            $name = json_decode((string) file_get_contents("{$path}.done"), true)['name'];
            renamed("{$path}.part", "{$this->folder}/{$name}");
            echo "{$this->name}: received {$name}\n";
        }
        @unlink("{$path}.chunks");
        $this->reply('have', $file);
    }

    private function forget(string $file): void
    {
        unset($this->parts[$file]);
        foreach (['done', 'part', 'chunks'] as $kind) {
            @unlink("{$this->folder}/.{$file}.{$kind}");
        }
    }

    /** @param array<string, mixed> $more */
    private function reply(string $kind, string $file, array $more = []): void
    {
        $this->replies->publish(['kind' => $kind, 'file' => $file, 'receiver' => $this->name] + $more);
    }
}

/** @return resource */
function opened(string $path, string $mode): mixed
{
    return fopen($path, $mode) ?: throw new \RuntimeException("cannot open {$path}");
}

/** @param resource $file */
function writeAll(mixed $file, string $content): void
{
    if (fwrite($file, $content) !== strlen($content)) {
        throw new \RuntimeException('cannot write: is the disk full?');
    }
}

/** @param resource $file */
function synced(mixed $file): void
{
    if (!fflush($file) || !fsync($file)) {
        throw new \RuntimeException('cannot write: is the disk full?');
    }
}

function renamed(string $from, string $to): void
{
    if (!rename($from, $to)) {
        throw new \RuntimeException("cannot rename {$from}");
    }
}

$options = getopt('', ['topic:', 'name:', 'url:'], $rest);
$folder = $argv[$rest] ?? null;
if (!isset($options['name']) || $folder === null) {
    fwrite(STDERR, "usage: receive.php --name=NAME [--topic=files] [--url=URL] FOLDER\n");
    exit(2);
}
$url = $options['url'] ?? (getenv('DULY_URL') ?: 'embedded:');
$receiver = new Receiver(new Client($url), $options['topic'] ?? 'files', $options['name'], $folder);
while (true) {
    $receiver->runOnce(wait: 1);
}
