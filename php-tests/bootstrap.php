<?php

declare(strict_types=1);

// Without the extension every test would fail with "class not found"; say once what is wrong instead.
if (!extension_loaded('duly')) {
    fwrite(STDERR, "the duly extension is not loaded; run: make test ARGS=php\n");
    exit(2);
}

require __DIR__ . '/../php-binding/php/src/Worker.php';
require __DIR__ . '/../php-binding/php/src/Web.php';
require __DIR__ . '/Server.php';
require __DIR__ . '/Program.php';
require __DIR__ . '/ServerTestCase.php';
require __DIR__ . '/RecordingLogger.php';
require __DIR__ . '/Pages.php';
require __DIR__ . '/Symptoms.php';
require __DIR__ . '/Unexpected.php';

require __DIR__ . '/Running.php';
require __DIR__ . '/SlowLines.php';
require __DIR__ . '/Fpm.php';
require __DIR__ . '/App.php';
require __DIR__ . '/AppTestCase.php';
require __DIR__ . '/Kills.php';
require __DIR__ . '/Rates.php';
require __DIR__ . '/Signatures.php';

// Those of a framework need what they name only where there is one.
spl_autoload_register(static function (string $class): void {
    foreach (['Think' => 'think', 'Laravel' => 'laravel', 'Symfony' => 'symfony'] as $namespace => $folder) {
        if (str_starts_with($class, "Duly\\Tests\\{$namespace}\\")) {
            require __DIR__ . "/{$folder}/" . substr($class, strlen("Duly\\Tests\\{$namespace}\\")) . '.php';
        }
    }
});
