<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\DuplicateException;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\JobInterruptedException;
use Duly\Exception\NotDurableException;
use Duly\Exception\TooLargeException;
use Duly\Interruption;
use Duly\NewJob;
use Duly\OnDuplicate;
use Duly\RetryPolicy;
use Duly\State;

final class NamedArgumentsTest extends ServerTestCase
{
    public function testPushTakesEveryOptionByName(): void
    {
        $id = $this->queue->push(
            onDuplicate: 'keep',
            headers: ['h' => 'v'],
            timeout: 30,
            retry: RetryPolicy::exponential(1.5, jitter: false, cap: 60),
            maxRetries: 7,
            priority: 2,
            key: 'close:42',
            id: 'mine',
            delay: 0.25,
            name: 'order.close',
            data: [1],
        );
        self::assertSame('mine', $id);
        $found = $this->queue->find('mine');
        self::assertSame('delayed', $found->state);
        self::assertSame('order.close', $found->name);
        self::assertSame('close:42', $found->key);
        self::assertSame(2, $found->priority);
        self::assertSame(7, $found->maxRetries);
        self::assertSame(30.0, $found->timeout);
        self::assertSame(['h' => 'v'], $found->headers);
        self::assertSame('[1]', $found->raw);
    }

    public function testOneOptionLeavesTheOthersAtTheirDefaults(): void
    {
        $this->queue->push(1, raw: null);
        $this->queue->push(null, raw: '[1]');
        $this->queue->push(1, key: 'k');
        $this->queue->pushMany([new NewJob(1, headers: ['a' => 'b'])]);
        self::assertSame(['1', '[1]', '1', '1'], array_column($this->queue->peek('ready'), 'raw'));
        self::assertSame([5, 5, 5, 5], array_column($this->queue->peek('ready'), 'priority'));
    }

    public function testAnArrayOfArgumentsIsSpread(): void
    {
        $this->queue->push(...['data' => 1, 'name' => 'n', 'priority' => 0]);
        $job = $this->queue->reserve();
        self::assertSame(['n', 0], [$job->name, $job->priority]);
    }

    public function testTheClientTakesItsSettingsByName(): void
    {
        $client = new Client(
            url: $this->server->url(),
            maxDataBytes: 10,
            prefix: $this->prefix,
            connectTimeout: 1,
            commandTimeout: 2.5,
            deadline: 4,
            allowEviction: true,
            durability: 'none',
        );
        $this->thrownBy(TooLargeException::class, fn () => $client->queue('q')->push('0123456789'));
        $client->queue('q')->push(1);
        self::assertSame(1, $this->queue->counts()->ready);
    }

    public function testDurabilityIsAWordAtTheClientAndAtEachPush(): void
    {
        $client = new Client($this->server->url(), $this->prefix, durability: 'wait:1', commandTimeout: 0.2);
        $queue = $client->queue('q');
        $this->thrownBy(NotDurableException::class, fn () => $queue->push(1));
        $queue->push(2, durability: 'none');
        $jobs = [['data' => 3], new NewJob(4)];
        self::assertSame(2, $queue->pushMany($jobs, durability: 'none')->created);
        $durable = [['data' => 5, 'durability' => 'wait:1']];
        $error = $this->thrownBy(NotDurableException::class, fn () => $queue->pushMany($durable, durability: 'none'));
        assert($error instanceof NotDurableException);
        self::assertSame(1, $error->getIndex(), 'the next one: this one is pushed');
        $this->thrownBy(InvalidArgumentException::class, fn () => $queue->push(1, durability: 'disk'));
        self::assertSame(5, $queue->counts()->ready);
    }

    public function testAnEnumIsTakenWhereItsWordIs(): void
    {
        $this->queue->push(1, id: 'a', onDuplicate: OnDuplicate::Keep);
        self::assertSame('a', $this->queue->push(2, id: 'a', onDuplicate: OnDuplicate::Keep));
        $this->queue->pushMany([['data' => 3, 'id' => 'a', 'onDuplicate' => OnDuplicate::Replace]]);
        self::assertSame(['3'], array_column($this->queue->peek(State::Ready), 'raw'));
        self::assertSame(State::Ready, State::from((string) $this->queue->find('a')?->state));
        self::assertSame(1, $this->queue->purge(State::Ready));
        foreach ([5, State::Ready, new \stdClass()] as $wrong) {
            $call = fn () => $this->queue->push(1, onDuplicate: $wrong);
            $error = $this->thrownBy(InvalidArgumentException::class, $call);
            self::assertStringContainsString('must be a Duly\OnDuplicate or its word', $error->getMessage());
        }
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->peek(OnDuplicate::Keep));
        $interrupted = new JobInterruptedException('timed_out', 'q', 'a');
        self::assertSame(Interruption::TimedOut, $interrupted->getInterruption());
    }

    public function testMessagesNameOptionsAsPhpSpellsThem(): void
    {
        $this->queue->push(1, id: 'a');
        $duplicate = $this->thrownBy(DuplicateException::class, fn () => $this->queue->push(1, id: 'a'));
        self::assertStringContainsString('onDuplicate', $duplicate->getMessage());
        $lease = $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->reserve(lease: 1e12));
        self::assertStringContainsString('24 h', $lease->getMessage());
    }

    public function testWrongSettingsAreRefused(): void
    {
        $invalid = InvalidArgumentException::class;
        $this->thrownBy($invalid, fn () => new Client('ftp://host'));
        $this->thrownBy($invalid, fn () => new Client(durability: 'perhaps'));
        foreach ([0, -1, 2 ** 53, PHP_INT_MAX, PHP_INT_MIN] as $bytes) {
            $error = $this->thrownBy($invalid, fn () => new Client(maxDataBytes: $bytes));
            self::assertStringContainsString('is 1 to 9007199254740991', $error->getMessage());
        }
        self::assertInstanceOf(Client::class, new Client(maxDataBytes: 2 ** 53 - 1));
        $this->thrownBy($invalid, fn () => new Client(clientCertFile: '/x'));
        $this->thrownBy($invalid, fn () => new Client(deadline: '5'));
        $this->thrownBy($invalid, fn () => new Client(connectTimeout: 0));
        $this->thrownBy($invalid, fn () => new Client(commandTimeout: -1));
        $this->thrownBy($invalid, fn () => new Client(durability: 'wait:0'));
        $this->thrownBy($invalid, fn () => new Client(prefix: '{'));
        $this->thrownBy($invalid, fn () => $this->client->queue(''));
    }

    public function testTheEnvironmentNamesTheServer(): void
    {
        $code = '(new Duly\Client(prefix: $argv[1]))->queue("q")->push("from the environment");';
        $streams = [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]];
        $environment = ['DULY_URL' => $this->server->url()] + getenv();
        $process = proc_open([PHP_BINARY, '-r', $code, $this->prefix], $streams, $pipes, null, $environment);
        self::assertSame('', stream_get_contents($pipes[1]));
        self::assertSame(0, proc_close($process));
        self::assertSame('from the environment', $this->queue->reserve()->data());
    }
}
