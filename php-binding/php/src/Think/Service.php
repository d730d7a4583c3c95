<?php

declare(strict_types=1);

namespace Duly\Think;

/** Makes duly a part of a ThinkPHP application: `app('duly')`, `duly()`, the facade, and the commands `duly:...`. */
class Service extends \think\Service
{
    public function register(): void
    {
        $this->app->bind('duly', Duly::class);
        if (!$this->app->config->has('duly')) {
            // Until somebody publishes a file of the application's own.
            $this->app->config->load(__DIR__ . '/config.php', 'duly');
        }
    }

    public function boot(): void
    {
        $this->commands([
            Command\Work::class,
            Command\Failed::class,
            Command\Retry::class,
            Command\Forget::class,
            Command\Flush::class,
            Command\Install::class,
        ]);
    }
}
