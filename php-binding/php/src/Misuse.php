<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\InvalidArgumentException;

/**
 * Mistakes that would stay silent: a generator that nobody runs is no work done.
 *
 * @internal of `Duly\Worker`
 */
final class Misuse
{
    /** Refuses to run a worker where `duly-worker` only wants to know it: a stop of that one would not end this one. */
    public static function refuseWhileLoading(): void
    {
        // Nobody else has it loaded, and that of an earlier release may not know.
        if (class_exists(Cli::class, false) && method_exists(Cli::class, 'loadsWorker') && Cli::loadsWorker()) {
            throw new InvalidArgumentException('duly-worker runs the worker that this file returns: leave out `run()`');
        }
    }

    /** Refuses a function that only makes a generator when it is called. */
    public static function refuseGenerator(string $what, callable $function): void
    {
        try {
            $yields = (new \ReflectionFunction(\Closure::fromCallable($function)))->isGenerator();
        } catch (\TypeError) {
            return; // one that can be called from where it was written, and not from here
        }
        if ($yields) {
            throw new InvalidArgumentException("{$what} must not yield: a call makes a generator that nobody runs");
        }
    }

    /** Whether the first parameter of a function is by reference. */
    public static function takesReference(callable $function): bool
    {
        try {
            $parameters = (new \ReflectionFunction(\Closure::fromCallable($function)))->getParameters();
        } catch (\TypeError) {
            return true; // one that can be called from where it was written: a variable is right for both
        }
        return $parameters !== [] && $parameters[0]->isPassedByReference();
    }

    /** What a function gave, unless that is work that was not done. The message has nothing of the data. */
    public static function refuseUnrun(string $what, mixed $given): mixed
    {
        if ($given instanceof \Generator) {
            throw new \LogicException(
                "{$what} gave a generator, which nobody runs, so its work was not done: loop over it, or do not yield"
            );
        }
        return $given;
    }
}
