<?php

declare(strict_types=1);

namespace App;

/** A message whose runs are watched. */
final class Watched
{
    public function __construct(public int $order)
    {
    }
}
