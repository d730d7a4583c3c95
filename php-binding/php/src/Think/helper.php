<?php

declare(strict_types=1);

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
}
