<?php

declare(strict_types=1);

// The parts of Laravel that its queue needs, put together as an application does. Gives the container.

use App\Queue\DulyConnector;
use Illuminate\Container\Container;
use Illuminate\Contracts\Bus\Dispatcher as Bus;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Events\Dispatcher as Events;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\Connectors\RedisConnector;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\QueueManager;
use Illuminate\Redis\RedisManager;

// What is newer than an older Laravel: PHP's deprecations are none of ours.
error_reporting(E_ALL & ~E_DEPRECATED);
$settings = require __DIR__ . '/settings.php';
require_once "{$settings['vendor']}/autoload.php";
spl_autoload_register(static function (string $class) use ($settings): void {
    foreach (['App\\Queue\\' => $settings['driver'], 'App\\' => __DIR__ . '/app'] as $prefix => $folder) {
        $file = "{$folder}/" . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
            return;
        }
    }
});

/** Writes a line that the test reads; whole, also if several processes write. */
function note(string $line): void
{
    file_put_contents(__DIR__ . '/runtime/notes', "{$line}\n", FILE_APPEND | LOCK_EX);
}

/** How often an order was begun, this time included. */
function runs(int $order): int
{
    return count(preg_grep("/^run {$order} /", file(__DIR__ . '/runtime/notes') ?: []) ?: []);
}

$app = Container::setInstance(new Container());
$app->instance(Illuminate\Contracts\Container\Container::class, $app);
$app->alias('config', App\Config::class);
$app->singleton('events', static fn () => new Dispatcher($app));
$app->alias('events', Events::class);
$app->singleton(Bus::class, static fn () => new Illuminate\Bus\Dispatcher($app));
$app->singleton(ExceptionHandler::class, App\Handler::class);
$app->singleton('redis', static fn () => new RedisManager($app, 'phpredis', [
    'default' => ['host' => substr($settings['url'], strlen('unix://')), 'port' => 0, 'prefix' => 'l:'],
]));
$duly = ['driver' => 'duly', 'url' => $settings['url'], 'prefix' => $settings['prefix']];
$app->instance('config', new App\Config([
    'queue.default' => 'duly',
    'queue.connections.duly' => ['lease' => 1, 'retry_after' => 0.2] + $duly,
    'queue.connections.late' => ['after_commit' => true] + $duly,
    'queue.connections.kills' => ['lease' => 2] + $duly,
    'queue.connections.redis' => ['driver' => 'redis', 'queue' => 'default', 'retry_after' => 60],
]));
$app->singleton('queue', static fn () => new QueueManager($app));
$app['queue']->addConnector('duly', static fn () => new DulyConnector());
$app['queue']->addConnector('redis', static fn () => new RedisConnector($app['redis']));
$app['events']->listen(JobFailed::class, static function (JobFailed $event): void {
    note("failed {$event->job->getQueue()} " . get_class($event->exception) . ": {$event->exception->getMessage()}");
});
return $app;
