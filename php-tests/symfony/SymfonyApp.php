<?php

declare(strict_types=1);

namespace Duly\Tests\Symfony;

use Duly\Tests\App;
use Duly\Tests\Server;

/** Symfony's Messenger with its own worker, and the transport of `examples/drivers/messenger`. */
final class SymfonyApp extends App
{
    public function __construct(Server $server, string $prefix)
    {
        parent::__construct(__DIR__ . '/app', $prefix);
        $this->moveTo($server);
    }

    /** The folder with Messenger in it: the one that the environment names, or Debian's. */
    public static function vendor(): ?string
    {
        return self::vendorOf('DULY_SYMFONY_VENDOR', __DIR__ . '/vendor', self::system());
    }

    /** Debian has each part of Symfony with an `autoload.php` of its own, found by PHP's include path. */
    private static function system(): ?string
    {
        foreach (['Messenger', 'Messenger/Bridge/Redis', 'Console', 'EventDispatcher'] as $part) {
            if (stream_resolve_include_path("Symfony/Component/{$part}/autoload.php") === false) {
                return null;
            }
        }
        return __DIR__ . '/debian';
    }

    public function moveTo(Server $server): void
    {
        $settings = [
            'vendor' => self::vendor(),
            'driver' => dirname(__DIR__, 2) . '/examples/drivers/messenger',
            'url' => $server->url(),
            'prefix' => $this->prefix,
        ];
        $this->write('settings.php', '<?php return ' . var_export($settings, true) . ';');
    }

    protected function program(): string
    {
        return 'console';
    }

    protected function boot(): string
    {
        return "\$app = require 'boot.php'; use App\\{Close, Line, Nothing, Watched};";
    }

    public function log(): string
    {
        return (string) @file_get_contents("{$this->folder}/runtime/log");
    }
}
