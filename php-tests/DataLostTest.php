<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Worker;

/** A server that has lost its data is noticed, and the call is made all the same. */
final class DataLostTest extends ServerTestCase
{
    private const LOST = 'the server has lost what it kept of orders';

    public function testAProducerSaysSoInTheErrorLogAndNothingIsThrown(): void
    {
        $empty = "exec('redis-cli -s {$this->server->folder()}/redis.sock FLUSHALL');";
        $program = $this->program('
            set_error_handler(static fn (int $kind, string $text) => throw new ErrorException($text));
            $queue = $client->queue("orders");
            $queue->push(1);
            ' . $empty . '
            $queue->push(2);
            $queue->push(3);
            say("ready: " . $queue->counts()->ready);
        ');
        $program->hear('ready: 2');
        self::assertSame(1, substr_count($program->said(), self::LOST), $program->said());
    }

    public function testAWorkerSaysSo(): void
    {
        $logger = new RecordingLogger();
        $worker = new Worker($this->client, ['orders'], maxJobs: 1, log: $logger->line(...));
        $worker->on('empty', fn () => exec("redis-cli -s {$this->server->folder()}/redis.sock FLUSHALL"));
        $this->client->queue('orders')->push(1, name: 'empty');
        $worker->run();
        self::assertStringContainsString(self::LOST, implode("\n", $logger->lines));
    }
}
