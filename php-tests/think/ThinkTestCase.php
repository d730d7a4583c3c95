<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\App;
use Duly\Tests\AppTestCase;

/** A test with an application of ThinkPHP. ThinkPHP is in no registry that tests can rely on, so somebody must name it. */
abstract class ThinkTestCase extends AppTestCase
{
    /** Why a test was not run. */
    public const WITHOUT = 'not run without ThinkPHP: DULY_THINK_VENDOR names a folder with autoload.php, '
        . 'topthink/framework 8 and topthink/think-queue 3, unless composer install in php-tests/think has made it';

    protected function missing(): ?string
    {
        return ThinkApp::vendor() === null ? self::WITHOUT : null;
    }

    protected function makeApp(): App
    {
        return new ThinkApp($this->server, $this->prefix);
    }
}
