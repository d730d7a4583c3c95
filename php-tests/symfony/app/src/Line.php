<?php

declare(strict_types=1);

namespace App;

/** A line that is written with others. */
final class Line
{
    public function __construct(public int $number)
    {
    }
}
