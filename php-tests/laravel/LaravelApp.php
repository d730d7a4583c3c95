<?php

declare(strict_types=1);

namespace Duly\Tests\Laravel;

use Duly\Tests\App;
use Duly\Tests\Server;

/** The queue of Laravel with its own worker, and the driver of `examples/drivers/laravel`. */
final class LaravelApp extends App
{
    public function __construct(Server $server, string $prefix)
    {
        parent::__construct(__DIR__ . '/app', $prefix);
        $this->moveTo($server);
    }

    /** The folder with Laravel in it: the one that the environment names, or Debian's. */
    public static function vendor(): ?string
    {
        return self::vendorOf('DULY_LARAVEL_VENDOR', __DIR__ . '/vendor', self::system());
    }

    /** Debian has each part of Laravel with an `autoload.php` of its own, found by PHP's include path. */
    private static function system(): ?string
    {
        foreach (['Queue', 'Events', 'Redis', 'Bus'] as $part) {
            if (stream_resolve_include_path("Illuminate/{$part}/autoload.php") === false) {
                return null;
            }
        }
        return __DIR__ . '/debian';
    }

    public function moveTo(Server $server): void
    {
        $settings = [
            'vendor' => self::vendor(),
            'driver' => dirname(__DIR__, 2) . '/examples/drivers/laravel',
            'url' => $server->url(),
            'prefix' => $this->prefix,
        ];
        $this->write('settings.php', '<?php return ' . var_export($settings, true) . ';');
    }

    protected function program(): string
    {
        return 'work';
    }

    protected function boot(): string
    {
        return "\$app = require 'boot.php'; \$queue = \$app['queue']->connection();";
    }

    public function log(): string
    {
        return (string) @file_get_contents("{$this->folder}/runtime/log");
    }
}
