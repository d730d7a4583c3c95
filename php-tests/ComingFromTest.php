<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use PHPUnit\Framework\TestCase;

/** From old queues of PHP and back, with their own client, phpredis, as `Queue.php` and think-queue use it. */
final class ComingFromTest extends TestCase
{
    private const PROGRAM = __DIR__ . '/../php-binding/bin/duly';

    private Server $server;
    private \Redis $redis;
    private int $sent = 0;

    protected function setUp(): void
    {
        $this->server = new Server();
        $this->redis = new \Redis();
        $this->redis->connect($this->server->folder() . '/redis.sock');
    }

    protected function tearDown(): void
    {
        $this->redis->close();
        $this->server->close();
    }

    public function testPackagesOfQueuePhpComeOverAndItsConsumerTakesWhatGoesBack(): void
    {
        $this->send(['order_id' => 1, 'name' => '中文/x']);
        $this->send(['order_id' => 2], 3600);
        $keys = ['--from', 'thinkphp', '--to', 'orders'];
        $said = $this->bridge('drain', ...$keys);
        self::assertStringContainsString('counts before and after agree: nothing is left', $said);
        $queue = (new Client($this->server->url()))->queue('orders');
        [$ready] = $queue->peek('ready');
        self::assertSame(['order_id' => 1, 'name' => '中文/x'], $ready->data());
        self::assertSame([1, 1], [$queue->counts()->ready, $queue->counts()->delayed]);

        $queue->push(['order_id' => 3], name: 'order.close');
        $this->bridge('drain', '--back', ...$keys);
        self::assertSame([1, 3], [$this->consume(false), $this->consume(false)]);
        // What is due in the far future for its poller: it fails once, and is due again.
        self::assertSame(1, $this->poll(time() + 7200));
        self::assertSame(2, $this->consume(true));
        $this->bridge('drain', ...$keys);
        $again = array_values(array_filter($queue->peek('delayed'), static fn ($job) => $job->attempts === 1));
        self::assertSame([['order_id' => 2], 'no bank'], [$again[0]->data(), $again[0]->error]);
    }

    public function testPayloadsOfThinkQueueComeOverAndItsWorkerTakesWhatGoesBack(): void
    {
        $payload = json_encode([
            'job' => 'app\job\Close@fire',
            'maxTries' => null,
            'timeout' => null,
            'data' => ['order_id' => 1],
            'id' => 'abc',
            'attempts' => 0,
        ]);
        $this->redis->rPush('{queues:orders}', $payload);
        $this->redis->zAdd('{queues:orders}:delayed', time() + 3600, $payload);
        $from = ['--from', 'think-queue', '--queue', 'orders'];
        $this->bridge('drain', ...$from);
        $queue = (new Client($this->server->url()))->queue('orders');
        [$ready] = $queue->peek('ready');
        self::assertSame(['app\job\Close@fire', $payload], [$ready->name, $ready->raw]);
        $this->bridge('drain', '--back', ...$from);
        $taken = json_decode($this->redis->lPop('{queues:orders}'), true);
        unset($taken['id']);
        self::assertSame(array_diff_key(json_decode($payload, true), ['id' => 0]), $taken);
        self::assertSame(1, $this->redis->zCard('{queues:orders}:delayed'));
    }

    public function testPackagesOfWorkermanComeOverAndItsConsumerTakesWhatGoesBack(): void
    {
        foreach (['orders', 'mail'] as $number => $queue) {
            $fields = ['id' => '1', 'time' => time(), 'delay' => 0, 'attempts' => 0];
            $package = json_encode([...$fields, 'queue' => $queue, 'data' => $number]);
            $this->redis->lPush("{redis-queue}-waiting$queue", $package);
            $this->redis->zAdd('{redis-queue}-delayed', time() + 3600, $package);
        }
        $from = ['--from', 'workerman', '--queue', 'orders', '--queue', 'mail'];
        $this->bridge('drain', ...$from);
        $client = new Client($this->server->url());
        foreach (['orders', 'mail'] as $number => $queue) {
            $counts = $client->queue($queue)->counts();
            self::assertSame([1, 1], [$counts->ready, $counts->delayed]);
            self::assertSame($number, $client->queue($queue)->peek('ready')[0]->data());
        }
        $client->queue('mail')->push(['to' => 'Ada'], name: 'run');
        $this->bridge('drain', '--back', ...$from);
        [, $first] = $this->redis->brPop(['{redis-queue}-waitingmail'], 1);
        [, $second] = $this->redis->brPop(['{redis-queue}-waitingmail'], 1);
        self::assertSame([1, ['to' => 'Ada']], [json_decode($first, true)['data'], json_decode($second, true)['data']]);
        self::assertSame('mail', json_decode($second, true)['queue']);
        self::assertSame(2, $this->redis->zCard('{redis-queue}-delayed'));
    }

    public function testPayloadsOfLaravelComeOverWithTheirNoticesAndTheirCommandsCanBeRead(): void
    {
        $command = (object) ['order' => 42];
        $payload = json_encode([
            'uuid' => 'u-1',
            'displayName' => 'App\Jobs\Close',
            'job' => 'Illuminate\Queue\CallQueuedHandler@call',
            'maxTries' => null,
            'data' => ['commandName' => 'App\Jobs\Close', 'command' => serialize($command)],
            'attempts' => 0,
        ]);
        $push = "redis.call('rpush', KEYS[1], ARGV[1]) redis.call('rpush', KEYS[2], 1)";
        $key = 'shop_database_queues:orders';
        $this->redis->eval($push, [$key, "$key:notify", $payload], 2);
        $this->redis->zAdd("$key:delayed", time() + 3600, $payload);
        $this->bridge('drain', '--from', 'laravel', '--queue', 'orders', '--key-prefix', 'shop_database_');
        $queue = (new Client($this->server->url()))->queue('orders');
        [$ready] = $queue->peek('ready');
        self::assertSame(['Illuminate\Queue\CallQueuedHandler@call', $payload], [$ready->name, $ready->raw]);
        self::assertEquals($command, unserialize($ready->data()['data']['command']));
        self::assertSame([1, 0], [$queue->counts()->delayed, $this->redis->exists("$key:notify")]);
    }

    private function send(mixed $data, int $delay = 0): void
    {
        $now = time();
        $id = microtime(true) . '.' . ++$this->sent;
        $package = json_encode(['id' => $id, 'time' => $now, 'delay' => $delay, 'attempts' => 0, 'data' => $data]);
        if ($delay === 0) {
            $this->redis->lPush('redis:queue:ready', $package);
        } else {
            $this->redis->zAdd('redis:queue:delay', $now + $delay, $package);
        }
    }

    /** One turn of its poller. This client does not know that form of a limit, so it means nothing. */
    private function poll(int $now): int
    {
        $moved = 0;
        $due = $this->redis->zRevRangeByScore('redis:queue:delay', (string) $now, '-inf', ['LIMIT', 0, 128]);
        foreach ($due as $package) {
            if ($this->redis->zRem('redis:queue:delay', $package) === 1) {
                $key = json_decode($package, true) ? 'redis:queue:ready' : 'redis:queue:failed';
                $this->redis->lPush($key, $package);
                $moved++;
            }
        }
        return $moved;
    }

    /** One job of its consumer. Gives its order. */
    private function consume(bool $fails): int
    {
        [, $text] = $this->redis->brPop(['redis:queue:ready'], 1);
        $package = json_decode($text, true);
        if ($fails) {
            $package['max_attempts'] = 5;
            $package['error'] = 'no bank';
            $due = time() + 5 * ++$package['attempts'];
            $again = json_encode($package, JSON_UNESCAPED_UNICODE | JSON_PRETTY_PRINT);
            $this->redis->zAdd('redis:queue:delay', $due, $again);
        }
        return $package['data']['order_id'];
    }

    private function bridge(string ...$arguments): string
    {
        $words = [PHP_BINARY, self::PROGRAM, 'bridge', ...$arguments, '--url', $this->server->url()];
        exec(implode(' ', array_map(escapeshellarg(...), $words)) . ' 2>&1', $lines, $status);
        $said = implode("\n", $lines);
        self::assertSame(0, $status, $said);
        return $said;
    }
}
