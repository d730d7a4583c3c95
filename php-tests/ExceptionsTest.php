<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\AuthenticationFailedException;
use Duly\Exception\DuplicateException;
use Duly\Exception\ExceptionInterface;
use Duly\Exception\InvalidArgumentException;
use Duly\Exception\NotFoundException;
use Duly\Exception\TooLargeException;
use Duly\Exception\UnreachableException;
use Duly\Queue;

final class ExceptionsTest extends ServerTestCase
{
    private const PARENTS = [
        'InvalidArgument' => \InvalidArgumentException::class,
        'WrongServer' => \InvalidArgumentException::class,
        'TooLarge' => \LengthException::class,
        'Duplicate' => \RuntimeException::class,
        'LeaseLost' => \RuntimeException::class,
        'NotFound' => \RuntimeException::class,
        'CutOff' => \RuntimeException::class,
        'Unreachable' => \RuntimeException::class,
        'Timeout' => \RuntimeException::class,
        'AuthenticationFailed' => \RuntimeException::class,
        'PermissionDenied' => \RuntimeException::class,
        'ReadOnly' => \RuntimeException::class,
        'Busy' => \RuntimeException::class,
        'StorageFull' => \RuntimeException::class,
        'QueueFull' => \RuntimeException::class,
        'EvictionPolicy' => \RuntimeException::class,
        'Unsupported' => \RuntimeException::class,
        'NotDurable' => \RuntimeException::class,
        'Corrupt' => \RuntimeException::class,
        'FormatTooNew' => \RuntimeException::class,
        'Protocol' => \RuntimeException::class,
        'Embedded' => \RuntimeException::class,
        'Interrupted' => \RuntimeException::class,
        'Internal' => \LogicException::class,
    ];
    private const TRANSIENT = ['Unreachable', 'Timeout', 'ReadOnly', 'Busy', 'StorageFull', 'QueueFull', 'Protocol'];

    public function testEachKindHasAClassWithTheInterfaceAndAParentOfSpl(): void
    {
        foreach (self::PARENTS as $short => $parent) {
            $class = "Duly\\Exception\\{$short}Exception";
            self::assertTrue(is_subclass_of($class, ExceptionInterface::class), $class);
            self::assertSame($parent, get_parent_class($class));
            // Made by hand, as a test of one's own code does.
            $error = new $class('text');
            self::assertSame('text', $error->getMessage());
            self::assertSame(strtolower((string) preg_replace('/\B[A-Z]/', '_$0', $short)), $error->getKind());
            self::assertSame(in_array($short, self::TRANSIENT, true), $error->isTransient(), $class);
            self::assertNull($error->getOperation());
            self::assertNull($error->getQueue());
            self::assertNull($error->getJobId());
        }
    }

    public function testADuplicateNamesTheJobThatIsThere(): void
    {
        $id = $this->queue->push(1, key: 'k');
        $error = $this->thrownBy(DuplicateException::class, fn () => $this->queue->push(2, key: 'k'));
        self::assertInstanceOf(ExceptionInterface::class, $error);
        self::assertSame($id, $error->getJobId());
        self::assertSame('duplicate', $error->getKind());
        self::assertSame('push', $error->getOperation());
        self::assertSame('q', $error->getQueue());
        self::assertFalse($error->isTransient());
        self::assertNull($error->getPrevious());
        self::assertSame(0, $error->getCode());
        self::assertSame(__FILE__, $error->getFile());
        self::assertStringContainsString($id, (string) $error);
    }

    public function testNotFoundAndTooLarge(): void
    {
        $error = $this->thrownBy(NotFoundException::class, fn () => $this->queue->reschedule('none', delay: 1));
        self::assertSame('none', $error->getJobId());
        $data = str_repeat('x', 1 << 20);
        $error = $this->thrownBy(TooLargeException::class, fn () => $this->queue->push($data));
        self::assertLessThan(500, strlen($error->getMessage()));
    }

    public function testAnUnreachableServerIsNamedWithoutThePassword(): void
    {
        $client = new Client('redis://:secret@127.0.0.1:1', deadline: 0.3);
        $error = $this->thrownBy(UnreachableException::class, fn () => $client->queue('orders')->push(1));
        self::assertTrue($error->isTransient());
        self::assertSame('unreachable', $error->getKind());
        self::assertStringContainsString('127.0.0.1:1', $error->getMessage());
        self::assertStringContainsString("'orders'", $error->getMessage());
        self::assertStringNotContainsString('secret', (string) $error);
    }

    public function testTracesHaveNoArguments(): void
    {
        $before = ini_set('zend.exception_ignore_args', '0');
        $wrong = [
            fn () => new Client('redis://h', password: 's3cr3t', deadline: -1),
            fn () => new Client('http://u:s3cr3t@h'),
            fn () => $this->queue->push(['card' => 's3cr3t'], delay: -1),
        ];
        foreach ($wrong as $call) {
            $error = $this->thrownBy(InvalidArgumentException::class, $call);
            self::assertStringNotContainsString('s3cr3t', $error . print_r($error->getTrace(), true));
        }
        // Those of others are as the program wants them.
        $other = (static fn (string $argument): \Exception => new \Exception())('kept');
        self::assertSame(['kept'], $other->getTrace()[0]['args']);
        ini_set('zend.exception_ignore_args', $before);
    }

    public function testAWrongPasswordIsNotTransient(): void
    {
        $client = new Client($this->server->url(), username: 'nobody', password: 'wrong');
        $error = $this->thrownBy(AuthenticationFailedException::class, fn () => $client->ping());
        self::assertFalse($error->isTransient());
        self::assertStringNotContainsString('wrong', $error->getMessage());
    }

    public function testAnErrorCanBeCaughtByItsSplParent(): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->client->queue("a\nb");
    }

    public function testAWrongArgumentNamesWhatIsRight(): void
    {
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push(1, priority: 11));
        self::assertStringContainsString('0 to 9, where 0 runs first', $error->getMessage());
    }

    /** @return iterable<string, array{string, callable(Queue): mixed}> */
    public static function wrongArguments(): iterable
    {
        $seconds = '(int or float), not string';
        $delay = '(int or float) or a DateInterval, not string';
        $push = "push on queue 'q'";
        yield 'delay, a text' => ["{$push}: delay must be seconds {$delay}", fn ($q) => $q->push(1, delay: '5')];
        yield 'delay, negative' => ["{$push}: delay: seconds must be 0 or more", fn ($q) => $q->push(1, delay: -1)];
        yield 'at, a text' => ["at must be unix seconds (int or float) or", fn ($q) => $q->push(1, at: 'now')];
        yield 'at, negative' => ["at: ", fn ($q) => $q->push(1, at: -1)];
        yield 'both' => ['give delay or at, not both', fn ($q) => $q->push(1, delay: 1, at: time())];
        yield 'timeout' => ['timeout: seconds must be 0 or more', fn ($q) => $q->push(1, timeout: NAN)];
        yield 'priority' => ['0 to 9, where 0 runs first', fn ($q) => $q->push(1, priority: -1)];
        yield 'priority, far off' => ['0 to 9, where 0 runs first', fn ($q) => $q->push(1, priority: 256)];
        yield 'maxRetries' => ['maxRetries must be a whole number from 0 to', fn ($q) => $q->push(1, maxRetries: -1)];
        yield 'onDuplicate' => ["'refuse', 'keep' or 'replace'", fn ($q) => $q->push(1, onDuplicate: 'maybe')];
        yield 'header' => ['headers must be', fn ($q) => $q->push(1, headers: ['a' => 1])];
        yield 'key' => ['key must be text in UTF-8', fn ($q) => $q->push(1, key: "\xff")];
        yield 'one of many' => ["pushMany on queue 'q': id must be a string, not int", fn ($q) => $q->pushMany([
            ['data' => 1, 'id' => 7],
        ])];
        yield 'wait' => ["wait must be seconds {$seconds}", fn ($q) => $q->reserve(wait: '5')];
        yield 'wait, negative' => ['wait: seconds must be 0 or more', fn ($q) => $q->reserve(wait: -1)];
        yield 'lease' => ["lease must be seconds {$seconds}", fn ($q) => $q->reserve(lease: '5')];
        yield 'max' => ['max must be a whole number from 0 to 1000, not 1001', fn ($q) => $q->reserveMany(1001)];
        yield 'limit' => ['limit must be a whole number from 0', fn ($q) => $q->peek('ready', limit: -1)];
        yield 'offset' => ['offset must be a whole number from 0', fn ($q) => $q->peek('ready', offset: -1)];
        yield 'state' => ['delayed, ready, reserved or failed', fn ($q) => $q->peek('lost')];
        yield 'no job' => ['name the job by its id or by key', fn ($q) => $q->cancel()];
        yield 'two jobs' => ['name the job by its id or by key', fn ($q) => $q->find('a', key: 'b')];
        yield 'no time' => ['say when: give delay or at', fn ($q) => $q->reschedule('a')];
        yield 'a list of ids' => ['id must be a string, not array', fn ($q) => $q->requeue(['a'])];
        yield 'named ids' => ['spread a list', fn ($q) => $q->requeue(ids: ['a'])];
        $names = static fn (mixed $names): \Closure => fn ($q) => $q->setLimits(names: $names);
        yield 'limits of names' => ['names is an array such as', $names(['mail' => 5])];
        yield 'kind of limit' => ['names is an array such as', $names(['mail' => ['most' => 1]])];
        yield 'rate of a name' => ['names is an array such as', $names(['mail' => ['rate' => 5]])];
        yield 'half a rate' => ['rate is a list of two', $names(['mail' => ['rate' => [5]]])];
        $negative = $names(['mail' => ['concurrency' => -1]]);
        yield 'limit of a name' => ['concurrency must be a whole number from', $negative];
        yield 'age' => ['age: seconds must be 0 or more', fn ($q) => $q->keepFailed(1, -1)];
        yield 'now' => ['now must be unix seconds', fn ($q) => $q->setClock('now')];
    }

    /** @dataProvider wrongArguments */
    public function testAWrongArgumentIsNamedWithWhatIsRight(string $message, callable $call): void
    {
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $call($this->queue));
        self::assertInstanceOf(ExceptionInterface::class, $error);
        self::assertSame('invalid_argument', $error->getKind());
        self::assertStringContainsString($message, $error->getMessage());
        self::assertStringNotContainsString("\xff", $error->getMessage());
    }
}
