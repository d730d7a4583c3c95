<?php

declare(strict_types=1);

namespace Duly\Tests;

/** Slow lines to a server, by the program that carries those of the Python tests; they end with this. */
final class SlowLines
{
    private const PROGRAM = '/python-tests/slow_lines.py';

    private Running $program;
    /** @var list<string> of the server behind each line */
    public readonly array $urls;

    /** @param string ...$lines `slow`, `near` or `far` */
    public function __construct(Server $server, string ...$lines)
    {
        $root = dirname(__DIR__);
        $python = is_executable("{$root}/.venv/bin/python") ? "{$root}/.venv/bin/python" : 'python3';
        $command = [$python, $root . self::PROGRAM, "{$server->folder()}/redis.sock", ...array_values($lines)];
        $this->program = new Running($command, $root);
        $this->program->hear("\n");
        $ports = explode(' ', trim($this->program->said()));
        $this->urls = array_map(static fn (string $port): string => "redis://127.0.0.1:{$port}", $ports);
    }
}
