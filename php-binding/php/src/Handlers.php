<?php

declare(strict_types=1);

namespace Duly;

use Duly\Exception\InvalidArgumentException;

/**
 * The handlers and hooks that a worker was given.
 *
 * @internal of `Duly\Worker`
 */
final class Handlers
{
    /** @var list<callable> */
    public array $before = [];
    /** @var list<callable> the last one that was added is the first, as in the lists below */
    public array $after = [];
    /** @var list<callable> */
    public array $onFailure = [];
    /** @var list<callable> */
    public array $onFailed = [];
    /** @var array<string, array{callable, bool}> by their names, and whether each takes the data by reference */
    private array $handlers = [];
    /** @var ?array{callable, bool} of the jobs for whose name there is no handler */
    private ?array $otherwise = null;

    /** @param callable $handler of the jobs of this name; of those without one, if it is empty */
    public function handle(string $name, callable $handler): void
    {
        $named = $name === '' ? 'jobs without a name' : "the name '{$name}'";
        $name === '' || WorkerEngine::checkName($name);
        if (isset($this->handlers[$name])) {
            throw new InvalidArgumentException("there is a handler for {$named} already: a name has one handler");
        }
        Misuse::refuseGenerator("the handler for {$named}", $handler);
        $this->handlers[$name] = [$handler, Misuse::takesReference($handler)];
    }

    /** @param callable $handler of the jobs for whose name there is no handler */
    public function handleOthers(callable $handler): void
    {
        if ($this->otherwise !== null) {
            throw new InvalidArgumentException('there is a handler for all other names already: a worker has one');
        }
        Misuse::refuseGenerator('the handler for all other names', $handler);
        $this->otherwise = [$handler, Misuse::takesReference($handler)];
    }

    /** @param 'before'|'after'|'onFailure'|'onFailed' $kind */
    public function hook(string $kind, callable $hook): void
    {
        Misuse::refuseGenerator("the {$kind} hook", $hook);
        $kind === 'before' ? $this->before[] = $hook : array_unshift($this->{$kind}, $hook);
    }

    public function refuseNone(): void
    {
        if ($this->handlers === [] && $this->otherwise === null) {
            throw new InvalidArgumentException('a worker needs at least one handler: $worker->on(name, callable)');
        }
    }

    /**
     * Gives the handler of the jobs of this name, and whether it takes the data by reference.
     *
     * @return array{callable, bool}
     *
     * @throws Retry there is none: a worker that has one may get the job, during a deployment
     */
    public function of(?string $name): array
    {
        return $this->handlers[$name ?? ''] ?? $this->otherwise ?? throw self::noHandler($name);
    }

    private static function noHandler(?string $name): Retry
    {
        $name = $name === null ? 'jobs without a name' : "the name '{$name}'";
        return new Retry(message: "this worker has no handler for {$name}");
    }
}
