<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\CorruptException;
use Duly\Exception\InvalidArgumentException;
use Duly\NewJob;

final class ConversionTest extends ServerTestCase
{
    /** @return iterable<string, array{mixed, string}> */
    public static function kept(): iterable
    {
        yield 'null' => [null, 'null'];
        yield 'true' => [true, 'true'];
        yield 'an empty array is a list' => [[], '[]'];
        yield 'an empty object' => [new \stdClass(), '{}'];
        yield 'nested empties' => [['a' => [], 'b' => new \stdClass(), 'c' => [[]]], '{"a":[],"b":{},"c":[[]]}'];
        yield 'a whole float stays a float' => [1.0, '1.0'];
        yield 'a float' => [0.1, '0.1'];
        yield 'minus zero' => [-0.0, '-0.0'];
        yield 'above 2^53' => [9007199254740993, '9007199254740993'];
        yield 'the largest int' => [PHP_INT_MAX, '9223372036854775807'];
        yield 'an emoji' => ['😀', '"😀"'];
        yield 'a slash' => ['a/b', '"a/b"'];
        yield 'a null byte' => ["\0", '"\u0000"'];
        yield 'a list' => [[1, 'two', 3.5], '[1,"two",3.5]'];
        yield 'holes make an object' => [[1 => 'a', 3 => 'b'], '{"1":"a","3":"b"}'];
        yield 'a number in a string stays one' => ['42', '"42"'];
        yield 'an object without properties' => [new class {
        }, '{}'];
        yield 'public properties' => [new class {
            public int $a = 1;
            private int $b = 2;
        }, '{"a":1}'];
        yield 'an empty ArrayObject' => [new \ArrayObject(), '{}'];
        yield 'a JsonSerializable of nothing' => [new class implements \JsonSerializable {
            private int $secret = 1;

            public function jsonSerialize(): mixed
            {
                return new \stdClass();
            }
        }, '{}'];
        yield 'a JsonSerializable' => [new class implements \JsonSerializable {
            public function jsonSerialize(): mixed
            {
                return ['x' => 1];
            }
        }, '{"x":1}'];
    }

    /** @dataProvider kept */
    public function testDataTravelsAsExactJson(mixed $data, string $json): void
    {
        $this->queue->push($data);
        $this->queue->pushMany([new NewJob($data)]);
        self::assertSame([$json, $json], array_column($this->queue->peek('ready'), 'raw'));
        $job = $this->queue->reserve();
        self::assertSame($json, $job->raw);
        self::assertEquals(json_decode($json, true), $job->data());
        self::assertEquals(json_decode($json), $job->data(assoc: false));
    }

    /** @return iterable<string, array{callable(): mixed}> */
    public static function refused(): iterable
    {
        yield 'not UTF-8' => [static fn () => "\xff"];
        yield 'not UTF-8, deep inside' => [static fn () => ['a' => [['b' => "\xc3"]]]];
        yield 'a key that is not UTF-8' => [static fn () => ["\xff" => 1]];
        yield 'NaN' => [static fn () => NAN];
        yield 'INF' => [static fn () => [-INF]];
        yield 'a resource' => [static fn () => STDIN];
        yield 'a resource inside' => [static fn () => ['a' => STDIN]];
        yield 'recursion' => [static function (): array {
            $array = [];
            $array['self'] = &$array;
            return $array;
        }];
        yield 'an object that holds itself' => [static function (): \stdClass {
            $object = new \stdClass();
            $object->self = $object;
            return $object;
        }];
        yield 'too deep' => [static function (): array {
            $array = [];
            for ($depth = 0; $depth < 600; $depth++) {
                $array = [$array];
            }
            return $array;
        }];
        yield 'a closure' => [static fn () => static fn () => 1];
        yield 'a closure inside' => [static fn () => ['job' => ['call' => static fn () => 1]]];
        yield 'only private properties' => [static fn () => new class {
            private int $secret = 1;
        }];
        yield 'only protected ones, deep inside' => [static fn () => [['a' => new class {
            protected int $secret = 1;
        }]]];
        $hidden = static fn (): object => new class {
            private int $secret = 1;
        };
        yield 'hidden ones that jsonSerialize gives' => [static fn () => self::serialized($hidden)];
        yield 'the same deep inside' => [static fn () => [
            'a' => self::serialized(static fn () => ['b' => self::serialized($hidden)]),
        ]];
        yield 'a JsonSerializable of itself that is hidden' => [static fn () => new class implements \JsonSerializable {
            private int $secret = 1;

            public function jsonSerialize(): static
            {
                return $this;
            }
        }];
        yield 'a list of PHP whose values are hidden' => [static fn () => new \SplObjectStorage()];
        yield 'an heir of one' => [static fn () => new class extends \SplQueue {
        }];
        yield 'a generator' => [static fn () => (static fn () => yield 1)()];
    }

    /** @dataProvider refused */
    public function testWhatIsNoJsonIsRefusedAndNothingIsSent(callable $data): void
    {
        $value = $data();
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push($value));
        self::assertStringContainsString('the data', $error->getMessage());
        $this->thrownBy(InvalidArgumentException::class, fn () => new NewJob($value));
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testAnExceptionOfJsonSerializeComesThroughAsItIs(): void
    {
        $data = new class implements \JsonSerializable {
            public function jsonSerialize(): mixed
            {
                throw new \DomainException('mine');
            }
        };
        $error = $this->thrownBy(\DomainException::class, fn () => $this->queue->push(['x' => $data]));
        self::assertSame('mine', $error->getMessage());
        self::assertNull($error->getPrevious());
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testPhpCodeThatRunsDuringAPushMayEndTheProcess(): void
    {
        $exit = 'new class implements JsonSerializable { public function jsonSerialize(): mixed { exit(7); } }';
        $calls = [
            "\$queue->push({$exit});",
            '$queue->pushMany((function () { yield new Duly\NewJob(1); exit(7); })());',
            '$queue->pushMany((function () { ini_set("memory_limit", "16M"); yield str_repeat("x", 64 << 20); })());',
        ];
        foreach ($calls as $index => $call) {
            $program = $this->program('
                $queue = $client->queue("q");
                register_shutdown_function(function () use ($queue) { say("ready: " . $queue->counts()->ready); });
                ' . $call . '
                say("not reached");
            ');
            self::assertSame($index === 2 ? 255 : 7, $program->end(), $program->said());
            self::assertStringEndsWith("ready: 0\n", $program->said());
            self::assertStringNotContainsString('not reached', $program->said());
        }
    }

    public function testJsonSerializeMayUseTheQueue(): void
    {
        $data = new class ($this->queue) implements \JsonSerializable {
            public function __construct(private \Duly\Queue $queue)
            {
            }

            public function jsonSerialize(): mixed
            {
                return $this->queue->push('inner');
            }
        };
        $this->queue->push($data);
        self::assertSame(2, $this->queue->counts()->ready);
    }

    public function testAnExceptionOfJsonInsideJsonSerializeIsTheUsersOwn(): void
    {
        $data = new class implements \JsonSerializable {
            public function jsonSerialize(): mixed
            {
                return json_encode(NAN, JSON_THROW_ON_ERROR);
            }
        };
        $this->thrownBy(\JsonException::class, fn () => $this->queue->push(['x' => $data]));
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testDataIsAlsoRefusedWhereDebugBacktraceIsDisabled(): void
    {
        $program = new Program($this->server, $this->prefix, '
            try {
                $client->queue("q")->push(NAN);
            } catch (Duly\Exception\InvalidArgumentException $error) {
                say($error->getMessage());
            }
        ', '-ddisable_functions=debug_backtrace');
        self::assertSame(0, $program->end());
        self::assertStringContainsString('the data cannot be JSON', $program->said());
    }

    public function testTheLastErrorOfJsonStaysTheUsersOwn(): void
    {
        json_decode('{');
        $this->queue->push(['fine' => 1]);
        self::assertSame(['fine' => 1], $this->queue->reserve()->data());
        self::assertSame(JSON_ERROR_SYNTAX, json_last_error());
        json_decode('1');
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push(NAN));
        $this->queue->push(raw: '"\ud800"');
        $this->thrownBy(CorruptException::class, fn () => $this->queue->reserve()->data());
        self::assertSame(JSON_ERROR_NONE, json_last_error());
    }

    public function testRawJsonTravelsByteForByte(): void
    {
        $this->queue->push(null, raw: '{"a" : 1.50}');
        self::assertSame('{"a" : 1.50}', $this->queue->reserve()->raw);
    }

    /** @return iterable<string, array{mixed}> */
    public static function malformed(): iterable
    {
        yield 'empty' => [''];
        yield 'cut short' => ['{"a":'];
        yield 'two values' => ['1 2'];
        yield 'not UTF-8' => ["\"\xff\""];
        yield 'NaN' => ['NaN'];
        yield 'not a string' => [5];
        yield 'an array' => [[1]];
    }

    /** @dataProvider malformed */
    public function testMalformedRawJsonIsRefused(mixed $json): void
    {
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push(null, raw: $json));
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testDataAndRawJsonTogetherAreRefused(): void
    {
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push(1, raw: '1'));
    }

    public function testDataThatPhpCannotDecodeIsAnErrorAndNotNull(): void
    {
        $this->queue->push(null, raw: '"\ud800"');
        $job = $this->queue->reserve();
        $error = $this->thrownBy(CorruptException::class, fn () => $job->data());
        self::assertStringContainsString("'raw'", $error->getMessage());
        self::assertSame('"\ud800"', $job->raw);
    }

    public function testArgumentsOfTheWrongTypeAreRefused(): void
    {
        $invalid = InvalidArgumentException::class;
        $this->thrownBy($invalid, fn () => $this->queue->push(1, delay: '5'));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, delay: -1));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, delay: NAN));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, delay: 1, at: time()));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, at: new \stdClass()));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, priority: 10));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, maxRetries: -1));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, headers: ['a' => 1]));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, onDuplicate: 'maybe'));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, id: ''));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, timeout: 'long'));
        $this->thrownBy($invalid, fn () => $this->queue->push(1, at: new class {
            public function format(): string
            {
                return '1';
            }
        }));
        $this->thrownBy(\TypeError::class, fn () => $this->queue->push(1, name: []));
        $this->thrownBy(\Error::class, fn () => $this->queue->push(1, nonsense: 1));
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testADelayMayBeADateInterval(): void
    {
        $fromText = \DateInterval::createFromDateString(...);
        $this->queue->push(1, id: 'a', delay: new \DateInterval('PT1H'));
        $this->queue->pushMany([new NewJob(2, id: 'b', delay: $fromText('90 minutes'))]);
        $this->queue->push(3, id: 'c');
        $this->queue->reschedule('c', delay: $fromText('2 minutes 500 milliseconds'));
        foreach (['a' => 3600.0, 'b' => 5400.0, 'c' => 120.5] as $id => $after) {
            $found = $this->queue->find($id);
            self::assertEqualsWithDelta($after, $found->at - $found->now, 30.0, $id);
        }
        $past = new \DateInterval('PT1S');
        $past->invert = 1;
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push(1, delay: $past));
    }

    public function testTextThatIsNotUtf8IsRefusedEverywhere(): void
    {
        $bad = "\xff";
        $calls = [
            fn () => $this->queue->push(1, headers: [$bad => 'a']),
            fn () => $this->queue->push(1, headers: ['a' => $bad]),
            fn () => $this->queue->push(1, name: $bad),
            fn () => $this->queue->push(1, key: $bad),
            fn () => $this->queue->push(1, id: $bad),
            fn () => $this->queue->push(1, onDuplicate: $bad),
            fn () => $this->queue->requeue('a', $bad),
            fn () => $this->queue->cancel($bad),
            fn () => $this->queue->cancel(key: $bad),
            fn () => $this->queue->reschedule($bad, delay: 1),
            fn () => $this->queue->find(key: $bad),
            fn () => $this->queue->peek($bad),
            fn () => $this->queue->purge($bad),
            fn () => $this->queue->pushMany([['data' => 1, 'key' => $bad]]),
            fn () => $this->client->queue($bad),
            fn () => $this->client->partitions($bad, 2),
            fn () => $this->client->reserveFrom([$bad]),
            fn () => $this->client->reserveFrom([$bad => 1]),
            fn () => new Client($bad),
            fn () => new Client(prefix: $bad),
            fn () => new Client(username: $bad),
            fn () => new Client(password: $bad),
            fn () => new Client(caFile: $bad),
            fn () => new Client(durability: $bad),
        ];
        foreach ($calls as $call) {
            $error = $this->thrownBy(InvalidArgumentException::class, $call);
            self::assertStringContainsString('UTF-8', $error->getMessage());
            self::assertStringNotContainsString($bad, $error->getMessage());
        }
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testKeysOfListsDoNotMatter(): void
    {
        $this->queue->pushMany(["\xff" => new NewJob(1, id: 'a')]);
        $this->queue->pushMany((static fn () => yield "\xff" => new NewJob(1, id: 'b'))());
        $job = $this->queue->reserve();
        self::assertSame([true], $this->queue->ackMany(["\xff" => $job]));
        self::assertSame('b', $this->client->reserveFrom(["\xff" => 'q'])[0]->id);
    }

    public function testTheErrorNamesThePlace(): void
    {
        $data = ['orders' => [['id' => 1], ['id' => NAN]]];
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push($data));
        self::assertStringContainsString("'orders.1.id'", $error->getMessage());
        $object = (object) ['call' => strlen(...)];
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push($object));
        self::assertStringContainsString("'call'", $error->getMessage());
    }

    public function testADueTimeMayBeADateTime(): void
    {
        $at = new \DateTimeImmutable('+1 hour');
        $this->queue->push(1, id: 'a', at: $at);
        $this->queue->push(1, id: 'b', at: $at->getTimestamp() + 0.5);
        self::assertEqualsWithDelta((float) $at->format('U.u'), $this->queue->find('a')->at, 0.002);
        self::assertEqualsWithDelta($at->getTimestamp() + 0.5, $this->queue->find('b')->at, 0.002);
    }

    private static function serialized(\Closure $gives): \JsonSerializable
    {
        return new class ($gives) implements \JsonSerializable {
            public function __construct(private \Closure $gives)
            {
            }

            public function jsonSerialize(): mixed
            {
                return ($this->gives)();
            }
        };
    }
}
