<?php

declare(strict_types=1);

namespace Duly\Think\Facade;

use think\Facade;

/**
 * The facade of `Duly\Think\Duly`.
 *
 * @method static \Duly\Client client()
 * @method static \Duly\Queue queue(?string $name = null)
 * @method static mixed transaction(callable $run, ?string $connection = null)
 * @method static void afterCommit(callable $call)
 * @method static string push(mixed $data = null, ?string $name = null, mixed ...$options)
 */
class Duly extends Facade
{
    protected static function getFacadeClass(): string
    {
        return 'duly';
    }
}
