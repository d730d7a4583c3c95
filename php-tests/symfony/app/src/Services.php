<?php

declare(strict_types=1);

namespace App;

use Psr\Container\ContainerInterface;

/** Services by name, each made when it is first asked for. */
final class Services implements ContainerInterface
{
    /** @var array<string, mixed> */
    private array $made = [];

    /** @param array<string, \Closure> $factories */
    public function __construct(private array $factories)
    {
    }

    public function get(string $id): mixed
    {
        return $this->made[$id] ??= $this->factories[$id]();
    }

    public function has(string $id): bool
    {
        return isset($this->factories[$id]);
    }
}
