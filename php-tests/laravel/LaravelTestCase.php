<?php

declare(strict_types=1);

namespace Duly\Tests\Laravel;

use Duly\Tests\App;
use Duly\Tests\AppTestCase;

/** A test with Laravel's queue. */
abstract class LaravelTestCase extends AppTestCase
{
    /** Why a test was not run. */
    public const WITHOUT = 'not run without Laravel: DULY_LARAVEL_VENDOR names a folder with autoload.php and '
        . 'laravel/framework, unless Debian\'s php-illuminate-queue, -redis, -events and -bus are installed';

    protected function missing(): ?string
    {
        return LaravelApp::vendor() === null ? self::WITHOUT : null;
    }

    protected function makeApp(): App
    {
        return new LaravelApp($this->server, $this->prefix);
    }

    /** A handler whose code is in its data. */
    protected function does(): void
    {
        $this->app->write('app/Does.php', '<?php
            namespace App;
            class Does
            {
                public function fire($job, array $data)
                {
                    note("run {$data["n"]}");
                    eval($data["code"]);
                }
                public function failed(array $data, \Throwable $error)
                {
                    note("failed {$data["n"]}");
                    eval($data["failed"] ?? "");
                }
            }
        ');
    }
}
