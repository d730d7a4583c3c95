<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Client;
use Duly\Tests\Server;
use Duly\Tests\ServerTestCase;

/** A test with an application of ThinkPHP. ThinkPHP is in no registry that tests can rely on, so somebody must name it. */
abstract class ThinkTestCase extends ServerTestCase
{
    /** Why a test was not run. */
    public const WITHOUT = 'not run without ThinkPHP: DULY_THINK_VENDOR names a folder with autoload.php, '
        . 'topthink/framework 8 and topthink/think-queue 3, unless composer install in php-tests/think has made it';

    protected ThinkApp $app;
    /** @var list<Running> */
    private array $running = [];

    protected function setUp(): void
    {
        if (ThinkApp::vendor() === null) {
            self::markTestSkipped(self::WITHOUT);
        }
        parent::setUp();
        $this->queue = $this->client->queue('default');
        $this->app = new ThinkApp($this->server, $this->prefix);
    }

    protected function tearDown(): void
    {
        foreach ($this->running as $program) {
            $program->kill();
        }
        isset($this->app) && $this->app->remove();
    }

    /** Starts `php think ...`, which ends with the test at last. */
    protected function start(string ...$arguments): Running
    {
        return $this->running[] = $this->app->start(...$arguments);
    }

    /** A server that may be killed and started again: the one that tests share has no disk. */
    protected function useServerThatKeepsData(): void
    {
        $this->server = new Server('--appendonly', 'yes', '--appendfsync', 'always');
        $this->client = new Client($this->server->url(), $this->prefix);
        $this->queue = $this->client->queue('default');
        $this->app->moveTo($this->server);
    }

    /** @return array<string, int> */
    protected function totals(): array
    {
        return $this->queue->counts()->totals;
    }
}
