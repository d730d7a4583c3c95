<?php

declare(strict_types=1);

namespace Duly\Think;

use think\App;

/**
 * Calls a handler with what it asks for.
 *
 * @internal of `Duly\Think`
 */
final class Handler
{
    /**
     * The method gets `$data`, the members of the data by their names, the job, and everything else from the container:
     * `handle(int $order_id, Duly\Job $job, Mailer $mailer)`.
     */
    public static function call(App $app, object $handler, string $method, \Duly\Job $job, mixed $data): mixed
    {
        // The container tries the first one for each parameter that has a class.
        $given = ['job' => $job, 'data' => $data];
        $members = is_array($data) && !array_is_list($data) ? $data : [];
        return $app->invokeMethod([$handler, $method], $given + $members);
    }

    /** Whether a method takes a job as handlers of think-queue do: `fire(think\queue\Job $job, $data)`. */
    public static function isOfThinkQueue(object $handler, string $method): bool
    {
        $first = (new \ReflectionMethod($handler, $method))->getParameters()[0] ?? null;
        $type = $first?->getType();
        return $type instanceof \ReflectionNamedType && is_a($type->getName(), \think\queue\Job::class, true);
    }
}
