<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\App;
use Duly\Tests\Server;

/** An application of ThinkPHP in a folder of its own, and the programs of its `think`. */
final class ThinkApp extends App
{
    /** think-queue's own table of failed jobs. */
    private const FAILED_JOBS = 'CREATE TABLE failed_jobs (id INTEGER PRIMARY KEY, connection TEXT, queue TEXT,
        payload TEXT, exception TEXT, fail_time TEXT)';

    public function __construct(Server $server, string $prefix)
    {
        parent::__construct(__DIR__ . '/app', $prefix);
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
        return self::vendorOf('DULY_THINK_VENDOR', __DIR__ . '/vendor');
    }

    /** The application finds the server by think's `.env`. */
    public function moveTo(Server $server): void
    {
        $lines = ["DULY_URL = \"{$server->url()}\"", "DULY_PREFIX = \"{$this->prefix}\""];
        file_put_contents("{$this->folder}/.env", implode("\n", $lines) . "\n");
    }

    protected function program(): string
    {
        return 'think';
    }

    protected function boot(): string
    {
        return "require 'vendor/autoload.php'; \$app = new think\\App(getcwd()); \$app->initialize();";
    }

    public function log(): string
    {
        return implode('', array_map('file_get_contents', glob("{$this->folder}/runtime/log/*.log") ?: []));
    }
}
