<?php

declare(strict_types=1);

namespace Duly\Tests;

/** A step of a scenario did not do what it says. */
final class Unexpected extends \Exception
{
}
