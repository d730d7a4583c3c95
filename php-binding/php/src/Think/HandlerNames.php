<?php

declare(strict_types=1);

namespace Duly\Think;

use think\App;

/**
 * Finds the class and the method of a handler by the name of a job.
 *
 * @internal of `Duly\Think`
 */
final class HandlerNames
{
    /**
     * A name of `jobs` in `config/duly.php`, a class, or its short name in `app\job`: `order.close` is
     * `app\job\order\Close`. The method may follow an `@`.
     *
     * @return array{string, ?string} the class, and the method if the name says it
     */
    public static function resolve(App $app, string $name): array
    {
        $listed = $app->config->get('duly.jobs', [])[$name] ?? null;
        [$class, $method] = explode('@', is_string($listed) ? $listed : $name, 2) + [1 => null];
        if (!str_contains($class, '\\')) {
            $class = $app->parseClass('job', $class);
        }
        return [$class, $method];
    }
}
