<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Queue;
use PHPUnit\Framework\TestCase;

/** A test with a queue of its own on the shared server. */
abstract class ServerTestCase extends TestCase
{
    private static int $prefixes = 0;

    protected Server $server;
    protected string $prefix;
    protected Client $client;
    protected Queue $queue;

    protected function setUp(): void
    {
        $this->server = Server::shared();
        $this->prefix = 't' . ++self::$prefixes . ':';
        $this->client = new Client($this->server->url(), $this->prefix);
        $this->queue = $this->client->queue('q');
    }

    protected function program(string $code): Program
    {
        return new Program($this->server, $this->prefix, $code);
    }

    /** Runs what must throw this class, and gives the exception. */
    protected function thrownBy(string $class, callable $call): \Throwable
    {
        try {
            $call();
        } catch (\Throwable $error) {
            self::assertInstanceOf($class, $error, $error->getMessage());
            return $error;
        }
        self::fail("it did not throw {$class}");
    }
}
