<?php

declare(strict_types=1);

namespace App;

/** A message; its steps say what its handler does. */
final class Close
{
    /** @param list<string> $do */
    public function __construct(public int $order, public array $do = [])
    {
    }
}
