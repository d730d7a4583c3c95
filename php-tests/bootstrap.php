<?php

declare(strict_types=1);

// Without the extension every test would fail with "class not found"; say once what is wrong instead.
if (!extension_loaded('duly')) {
    fwrite(STDERR, "the duly extension is not loaded; run: make test ARGS=php\n");
    exit(2);
}

require __DIR__ . '/../php-binding/php/src/Worker.php';
require __DIR__ . '/Server.php';
require __DIR__ . '/Program.php';
require __DIR__ . '/ServerTestCase.php';
require __DIR__ . '/RecordingLogger.php';
require __DIR__ . '/Pages.php';
require __DIR__ . '/Symptoms.php';
require __DIR__ . '/Unexpected.php';

// Those of ThinkPHP's package need what they name only where there is a ThinkPHP.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Duly\\Tests\\Think\\')) {
        require __DIR__ . '/think/' . substr($class, strlen('Duly\\Tests\\Think\\')) . '.php';
    }
});
