<?php

declare(strict_types=1);

// The parts of Symfony that Messenger needs, put together as the framework does. Gives the application.

// What is newer than an older Symfony: PHP's deprecations are none of ours.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
$settings = require __DIR__ . '/settings.php';
require_once "{$settings['vendor']}/autoload.php";
spl_autoload_register(static function (string $class) use ($settings): void {
    foreach (['App\\Messenger\\' => $settings['driver'], 'App\\' => __DIR__ . '/src'] as $prefix => $folder) {
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

return new App\Kernel($settings);
