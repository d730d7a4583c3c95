<?php

declare(strict_types=1);

// phpcs:disable PSR1.Files.SideEffects
// Composer loads this file in every program: those without ThinkPHP get no function.
if (class_exists(\think\Container::class) && !function_exists('duly')) {
    /**
     * A queue by its name; without a name `Duly\Think\Duly`, whose methods also are those of the default queue.
     *
     * @return ($queue is null ? Duly\Think\Duly : Duly\Queue)
     */
    function duly(?string $queue = null): Duly\Think\Duly|Duly\Queue
    {
        $duly = \think\Container::getInstance()->make(Duly\Think\Duly::class);
        return $queue === null ? $duly : $duly->queue($queue);
    }

    // Before think's own shutdown function: if all memory is used up, that would use it up again, and no other function
    // were called, such as the one that says what became of a job.
    PHP_SAPI === 'cli' && register_shutdown_function(static function (): void {
        if (str_starts_with(error_get_last()['message'] ?? '', 'Allowed memory size')) {
            ini_set('memory_limit', (string) (memory_get_usage(true) + (16 << 20)));
        }
    });
}
