<?php

declare(strict_types=1);

namespace Duly\Tests;

/** An application of a framework in a folder of its own, made from one of the tests' folders, and its programs. */
abstract class App
{
    protected string $folder;

    /** @param string $skeleton the folder that it is a copy of */
    public function __construct(string $skeleton, protected string $prefix)
    {
        $this->folder = sys_get_temp_dir() . '/duly-app-' . bin2hex(random_bytes(6));
        self::copyTree($skeleton, $this->folder);
        mkdir("{$this->folder}/runtime");
    }

    /** What starts its programs, before their arguments. */
    abstract protected function program(): string;

    /** Code that makes it ready, before that of `evaluate`. */
    abstract protected function boot(): string;

    /** What its log has. */
    abstract public function log(): string;

    /** Makes it use this server. */
    abstract public function moveTo(Server $server): void;

    /**
     * The folder with a framework, which the environment names; or the one that Composer has made beside the tests, or
     * that of the system. Null if there is none.
     */
    protected static function vendorOf(string $variable, string $here, ?string $system = null): ?string
    {
        $named = getenv($variable);
        if ($named !== false && $named !== '') {
            if (!is_file("{$named}/autoload.php")) {
                throw new \RuntimeException("{$variable} is {$named}, which has no autoload.php");
            }
            return $named;
        }
        foreach ([$here, $system] as $folder) {
            if ($folder !== null && is_file("{$folder}/autoload.php")) {
                return $folder;
            }
        }
        return null;
    }

    public function folder(): string
    {
        return $this->folder;
    }

    /** Writes a file of the application. */
    public function write(string $file, string $code): void
    {
        $path = "{$this->folder}/{$file}";
        is_dir(dirname($path)) || mkdir(dirname($path), recursive: true);
        file_put_contents($path, $code);
    }

    /** Changes a file of the application. */
    public function replace(string $file, string $old, string $new): void
    {
        $code = (string) file_get_contents("{$this->folder}/{$file}");
        if (!str_contains($code, $old)) {
            throw new \RuntimeException("{$file} has no {$old}");
        }
        file_put_contents("{$this->folder}/{$file}", str_replace($old, $new, $code));
    }

    /** Starts one of its programs beside the test. */
    public function start(string ...$arguments): Running
    {
        $command = [PHP_BINARY, '-d', 'display_errors=stderr', $this->program(), ...$arguments];
        return new Running($command, $this->folder);
    }

    /** Runs one of its programs, and gives what it says. */
    public function run(string ...$arguments): string
    {
        $running = $this->start(...$arguments);
        $running->end();
        return $running->said();
    }

    /** Runs code in the application, and gives what it prints. */
    public function evaluate(string $code): string
    {
        $file = "{$this->folder}/code" . bin2hex(random_bytes(4)) . '.php';
        file_put_contents($file, "<?php\n{$this->boot()}\n{$code}\n");
        $running = new Running([PHP_BINARY, '-d', 'display_errors=stderr', $file], $this->folder);
        $running->end(120.0);
        return $running->said();
    }

    /** @return list<string> the lines that handlers have written */
    public function notes(): array
    {
        return @file("{$this->folder}/runtime/notes", FILE_IGNORE_NEW_LINES) ?: [];
    }

    /** Waits until handlers have written lines that begin so, in any order, so often. */
    public function hear(string $line, float $seconds = 30.0, int $times = 1): void
    {
        $count = fn (): int => count(preg_grep('/^' . preg_quote($line, '/') . '/', $this->notes()) ?: []);
        try {
            Server::until(static fn (): bool => $count() >= $times, '', $seconds);
        } catch (\RuntimeException) {
            $notes = implode("\n", $this->notes());
            $but = "{$notes}\nand the log:\n{$this->log()}";
            throw new \RuntimeException("no handler has written '{$line}', but:\n{$but}");
        }
    }

    /** Removes the folder. Processes whose supervisor was killed may write for a moment. */
    public function remove(): void
    {
        Server::until(function (): bool {
            self::removeTree($this->folder);
            return !is_dir($this->folder);
        }, "{$this->folder} cannot be removed", 10.0);
    }

    private static function removeTree(string $folder): void
    {
        foreach (array_diff(@scandir($folder) ?: [], ['.', '..']) as $name) {
            $path = "{$folder}/{$name}";
            // What a link means is not the application's.
            is_dir($path) && !is_link($path) ? self::removeTree($path) : @unlink($path);
        }
        @rmdir($folder);
    }

    private static function copyTree(string $from, string $to): void
    {
        mkdir($to);
        foreach (array_diff(scandir($from) ?: [], ['.', '..']) as $name) {
            $call = is_dir("{$from}/{$name}") ? self::copyTree(...) : copy(...);
            $call("{$from}/{$name}", "{$to}/{$name}");
        }
    }
}
