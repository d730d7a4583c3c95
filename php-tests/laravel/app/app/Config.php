<?php

declare(strict_types=1);

namespace App;

/**
 * The configuration, by its whole keys. What is missing is null.
 *
 * @extends \ArrayObject<string, mixed>
 */
final class Config extends \ArrayObject
{
    public function offsetGet(mixed $key): mixed
    {
        return $this->offsetExists($key) ? parent::offsetGet($key) : null;
    }
}
