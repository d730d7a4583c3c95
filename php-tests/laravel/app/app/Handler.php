<?php

declare(strict_types=1);

namespace App;

use Illuminate\Contracts\Debug\ExceptionHandler;

/** Writes what is reported to it into the log. */
final class Handler implements ExceptionHandler
{
    public function report(\Throwable $e): void
    {
        $line = get_class($e) . ": {$e->getMessage()}\n";
        file_put_contents(dirname(__DIR__) . '/runtime/log', $line, FILE_APPEND | LOCK_EX);
    }

    public function shouldReport(\Throwable $e): bool
    {
        return true;
    }

    /** @param mixed $request */
    public function render($request, \Throwable $e): never
    {
        throw $e;
    }

    /** @param mixed $output */
    public function renderForConsole($output, \Throwable $e): void
    {
    }
}
