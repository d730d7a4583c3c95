<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;

/** A test with an application of a framework. */
abstract class AppTestCase extends ServerTestCase
{
    protected App $app;
    /** @var list<Running> */
    private array $running = [];

    /** Why it cannot be made here, or null. */
    abstract protected function missing(): ?string;

    abstract protected function makeApp(): App;

    protected function setUp(): void
    {
        $missing = $this->missing();
        if ($missing !== null) {
            self::markTestSkipped($missing);
        }
        parent::setUp();
        $this->queue = $this->client->queue('default');
        $this->app = $this->makeApp();
    }

    protected function tearDown(): void
    {
        foreach ($this->running as $program) {
            $program->kill();
        }
        isset($this->app) && $this->app->remove();
    }

    /** Starts a program of the application, which ends with the test at last. */
    protected function start(string ...$arguments): Running
    {
        return $this->running[] = $this->app->start(...$arguments);
    }

    /** Starts a program at a server that refuses it, and then would let it in. */
    protected function startRefused(string ...$arguments): Running
    {
        $this->server = new Server();
        $this->server->command('CONFIG', 'SET', 'requirepass', 'secret');
        $this->app->moveTo($this->server);
        $program = $this->start(...$arguments);
        Server::until(fn (): bool => str_contains($this->app->log(), 'NOAUTH'), 'it is not refused');
        $redis = new \Redis();
        $redis->connect(substr($this->server->url(), strlen('unix://')));
        $redis->auth('secret');
        $redis->config('SET', 'requirepass', '');
        return $program;
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

    /** Waits until so many jobs are done. */
    protected function untilAcked(int $count): void
    {
        Server::until(fn (): bool => ($this->totals()['acked'] ?? 0) >= $count, "it does not come to {$count} acks");
        self::assertSame($count, $this->totals()['acked']);
    }
}
