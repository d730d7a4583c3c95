<?php

declare(strict_types=1);

namespace App;

/** A message about nothing. */
final class Nothing
{
    public function __construct(public bool $isLast = false)
    {
    }
}
