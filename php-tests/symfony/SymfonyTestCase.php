<?php

declare(strict_types=1);

namespace Duly\Tests\Symfony;

use Duly\Tests\App;
use Duly\Tests\AppTestCase;
use Duly\Tests\Running;

/** A test with Symfony's Messenger. */
abstract class SymfonyTestCase extends AppTestCase
{
    /** Why a test was not run. */
    public const WITHOUT = 'not run without Symfony: DULY_SYMFONY_VENDOR names a folder with autoload.php and '
        . 'symfony/messenger, -redis-messenger, -console and -event-dispatcher, unless Debian\'s are installed';

    protected function missing(): ?string
    {
        return SymfonyApp::vendor() === null ? self::WITHOUT : null;
    }

    protected function makeApp(): App
    {
        return new SymfonyApp($this->server, $this->prefix);
    }

    protected function consume(string $transport, string ...$options): Running
    {
        return $this->start('messenger:consume', $transport, ...$options);
    }
}
