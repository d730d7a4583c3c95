<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Job;
use Duly\NewJob;
use Duly\Queue;
use Duly\RetryPolicy;

/** Arguments and properties behave as those of PHP's own final classes. */
final class ArgumentsTest extends ServerTestCase
{
    /** @return iterable<string, array{string, callable(Client, Queue): mixed}> */
    public static function wrong(): iterable
    {
        yield 'a text' => [
            'Duly\Client::__construct(): Argument #14 ($manualClock) must be of type bool, string given',
            static fn () => new Client(password: 's3cr3t', manualClock: 's3cr3t'),
        ];
        yield 'a password' => [
            'Duly\Client::__construct(): Argument #4 ($password) must be of type ?string, array given',
            static fn () => new Client(password: ['s3cr3t']),
        ];
        yield 'an object' => [
            'Duly\Queue::push(): Argument #9 ($retry) must be of type ?Duly\RetryPolicy, stdClass given',
            static fn (Client $client, Queue $queue) => $queue->push(['s3cr3t'], retry: new \stdClass()),
        ];
        yield 'null' => [
            'Duly\Queue::pushMany(): Argument #2 ($ids) must be of type bool, null given',
            static fn (Client $client, Queue $queue) => $queue->pushMany(['s3cr3t'], null),
        ];
        yield 'a list' => [
            'Duly\Queue::ackMany(): Argument #1 ($jobs) must be of type array, string given',
            static fn (Client $client, Queue $queue) => $queue->ackMany('s3cr3t'),
        ];
        yield 'a static method' => [
            'Duly\RetryPolicy::exponential(): Argument #2 ($factor) must be of type float, string given',
            static fn () => RetryPolicy::exponential(1, '2'),
        ];
        yield 'a first-class callable' => [
            'Duly\Queue::queue(): Argument #1 ($name) must be of type string, int given',
            static fn (Client $client) => $client->queue(...)(5),
        ];
    }

    /** @dataProvider wrong */
    public function testATypeErrorNamesMethodArgumentAndTypeAndShowsNoValue(string $message, callable $call): void
    {
        $before = ini_set('zend.exception_ignore_args', '0');
        try {
            $error = $this->thrownBy(\TypeError::class, fn () => $call($this->client, $this->queue));
        } finally {
            ini_set('zend.exception_ignore_args', (string) $before);
        }
        self::assertSame(str_replace('Duly\Queue::queue', 'Duly\Client::queue', $message), $error->getMessage());
        self::assertSame([], self::given($error));
    }

    public function testATraceFromWithinShowsNoPasswordAndNoData(): void
    {
        $data = new class implements \JsonSerializable {
            public string $password = 's3cr3t';

            public function jsonSerialize(): mixed
            {
                throw new \DomainException('mine');
            }
        };
        $before = ini_set('zend.exception_ignore_args', '0');
        $unknown = ['url' => 's3cr3t', 'unknown' => 1];
        foreach ([fn () => $this->queue->push([$data]), static fn () => new Client(...$unknown)] as $call) {
            self::assertSame([], self::given($this->thrownBy(\Throwable::class, $call)));
        }
        ini_set('zend.exception_ignore_args', (string) $before);
    }

    public function testAnIntIsAFloatToo(): void
    {
        self::assertSame(9.0, RetryPolicy::exponential(1, 3, jitter: false)->delay(3));
    }

    public function testPropertiesAreReadonly(): void
    {
        $this->queue->push(['a' => 1], headers: ['h' => 'v']);
        $job = $this->queue->reserve();
        $error = 'Cannot modify readonly property Duly\Job::$';
        $wrong = [
            "{$error}id" => static fn () => $job->id = 'other',
            "{$error}headers" => static fn () => $job->headers['h'] = 'other',
            "{$error}attempts" => static fn () => $job->attempts++,
            "{$error}raw" => static function () use ($job): void {
                $raw = &$job->raw;
                $raw = 'other';
            },
            'Cannot unset readonly property Duly\Job::$id' => static function () use ($job): void {
                unset($job->id);
            },
            'Cannot create dynamic property Duly\Job::$mine' => static fn () => $job->mine = 1,
        ];
        foreach ($wrong as $message => $call) {
            $thrown = $this->thrownBy(\Error::class, $call);
            self::assertSame([\Error::class, $message], [$thrown::class, $thrown->getMessage()]);
        }
        self::assertSame([['h' => 'v'], 0, '{"a":1}'], [$job->headers, $job->attempts, $job->raw]);
        // What an object in a property does is its own affair.
        $this->thrownBy(\Error::class, static fn () => $job->queue->name = 'other');
        self::assertSame('q', $job->queue->name);
        self::assertTrue(isset($job->id, $job->queue->name));
        self::assertFalse(isset($job->mine));
        self::assertSame($job->id, get_object_vars($job)['id']);
        self::assertSame($job->id, (clone $job)->id);
    }

    public function testReflectionKnowsTypes(): void
    {
        $type = static fn (string $name): string => (string) (new \ReflectionProperty(Job::class, $name))->getType();
        self::assertSame(
            ['string', '?string', 'int', 'array', '?float', 'Duly\Queue', 'bool'],
            array_map($type, ['id', 'name', 'attempt', 'headers', 'timeout', 'queue', 'settled']),
        );
        self::assertTrue((new \ReflectionProperty(Job::class, 'id'))->isReadOnly());
    }

    public function testOnlyDulyMakesJobs(): void
    {
        $error = $this->thrownBy(\Error::class, static fn () => new Job());
        self::assertStringContainsString('private Duly\Job::__construct()', $error->getMessage());
        $this->thrownBy(\Error::class, static fn () => new \Duly\Counts());
        new NewJob(1);
    }

    /** @return list<mixed> what the trace shows of the arguments of duly and of what it calls */
    private static function given(\Throwable $error): array
    {
        $shown = [];
        foreach ($error->getTrace() as $frame) {
            if (str_contains($frame['function'], '{closure}')) {
                break;
            }
            foreach ($frame['args'] ?? [] as $value) {
                if (!$value instanceof \SensitiveParameterValue && $value !== null) {
                    $shown[] = get_debug_type($value);
                }
            }
        }
        return $shown;
    }
}
