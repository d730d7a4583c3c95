<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Server;

/** An application of ThinkPHP in a folder of its own, and the programs of its `think`. */
final class ThinkApp
{
    /** think-queue's own table of failed jobs. */
    private const FAILED_JOBS = 'CREATE TABLE failed_jobs (id INTEGER PRIMARY KEY, connection TEXT, queue TEXT,
        payload TEXT, exception TEXT, fail_time TEXT)';
    private const VARIABLE = 'DULY_THINK_VENDOR';

    private string $folder;

    public function __construct(Server $server, private string $prefix)
    {
        $this->folder = sys_get_temp_dir() . '/duly-think-' . bin2hex(random_bytes(6));
        self::copyTree(__DIR__ . '/app', $this->folder);
        mkdir("{$this->folder}/runtime");
        mkdir("{$this->folder}/vendor");
        $source = var_export(dirname(__DIR__, 2) . '/php-binding/php/src/', true);
        $loads = 'static function (string $class): void {
            $roots = ["Duly\\\\" => ' . $source . ', "app\\\\" => __DIR__ . "/../app/"];
            foreach ($roots as $prefix => $root) {
                $file = $root . strtr(substr($class, strlen($prefix)), "\\\\", "/") . ".php";
                if (str_starts_with($class, $prefix) && is_file($file)) {
                    require $file;
                }
            }
        }';
        $vendor = var_export(self::vendor() . '/autoload.php', true);
        $code = "<?php\nrequire_once {$vendor};\nspl_autoload_register({$loads});\n";
        $code .= "require_once {$source} . 'Think/helper.php';\n";
        file_put_contents("{$this->folder}/vendor/autoload.php", $code);
        $services = '[\think\queue\Service::class, \Duly\Think\Service::class]';
        file_put_contents("{$this->folder}/vendor/services.php", "<?php return {$services};\n");
        $database = new \PDO("sqlite:{$this->folder}/runtime/orders.db");
        $database->exec(self::FAILED_JOBS);
        $database->exec('CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, token INTEGER DEFAULT 0)');
        $this->moveTo($server);
    }

    /** The folder with ThinkPHP in it, which the environment names or Composer has made here; null if there is none. */
    public static function vendor(): ?string
    {
        $here = __DIR__ . '/vendor';
        $folder = getenv(self::VARIABLE) ?: (is_file("{$here}/autoload.php") ? $here : null);
        if ($folder !== null && !is_file("{$folder}/autoload.php")) {
            throw new \RuntimeException(self::VARIABLE . " is {$folder}, which has no autoload.php");
        }
        return $folder;
    }

    /** The application finds the server by think's `.env`. */
    public function moveTo(Server $server): void
    {
        $lines = ["DULY_URL = \"{$server->url()}\"", "DULY_PREFIX = \"{$this->prefix}\""];
        file_put_contents("{$this->folder}/.env", implode("\n", $lines) . "\n");
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
        file_put_contents("{$this->folder}/{$file}", str_replace($old, $new, $code));
    }

    /** Starts `php think ...` beside the test. */
    public function start(string ...$arguments): Running
    {
        return new Running([PHP_BINARY, '-d', 'display_errors=stderr', 'think', ...$arguments], $this->folder);
    }

    /** Runs `php think ...`, and gives what it says. */
    public function run(string ...$arguments): string
    {
        $running = $this->start(...$arguments);
        $running->end();
        return $running->said();
    }

    /** Runs code in the application, and gives what it prints. */
    public function evaluate(string $code): string
    {
        $boot = "require 'vendor/autoload.php'; \$app = new think\\App(getcwd()); \$app->initialize();";
        $file = "{$this->folder}/code" . bin2hex(random_bytes(4)) . '.php';
        file_put_contents($file, "<?php\n{$boot}\n{$code}\n");
        $running = new Running([PHP_BINARY, '-d', 'display_errors=stderr', $file], $this->folder);
        $running->end();
        return $running->said();
    }

    /** @return list<string> the lines that handlers have written */
    public function notes(): array
    {
        return @file("{$this->folder}/runtime/notes", FILE_IGNORE_NEW_LINES) ?: [];
    }

    /** What think's log has. */
    public function log(): string
    {
        return implode('', array_map('file_get_contents', glob("{$this->folder}/runtime/log/*.log") ?: []));
    }

    /** Waits until handlers have written these lines, in any order, each so often. */
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
            is_dir("{$folder}/{$name}") ? self::removeTree("{$folder}/{$name}") : @unlink("{$folder}/{$name}");
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
