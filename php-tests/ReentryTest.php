<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\LeaseLostException;
use Duly\NewJob;
use Duly\RetryPolicy;

/** PHP code that runs in the middle of a call of duly may do what it likes to what the call was given. */
final class ReentryTest extends ServerTestCase
{
    public function testADateMayFreeTheItemThatItIsIn(): void
    {
        $junk = [];
        foreach (['item', 'retry', 'data'] as $freed) {
            $values = ['item' => null, 'retry' => RetryPolicy::fixed(7), 'data' => ['text' => str_repeat('d', 100)]];
            $at = self::date(static function () use (&$item, &$values, &$junk, $freed): void {
                $freed === 'item' ? $item = null : $values[$freed] = null;
                for ($number = 0; $number < 500; $number++) {
                    $junk[] = [str_repeat('z', 100), $number, [$number], new \stdClass()];
                }
            });
            $item = [
                'at' => $at,
                'id' => $freed,
                'name' => str_repeat('n', 30),
                'headers' => ['h' => str_repeat('h', 60)],
                'retry' => &$values['retry'],
                'data' => &$values['data'],
            ];
            unset($at);
            $this->queue->pushMany([&$item]);
            $found = $this->queue->find($freed);
            self::assertSame(['text' => str_repeat('d', 100)], $found->data());
            self::assertSame([str_repeat('n', 30), ['h' => str_repeat('h', 60)]], [$found->name, $found->headers]);
        }
        self::assertCount(1500, $junk);
    }

    public function testAnIteratorMayFreeWhatItGave(): void
    {
        $jobs = static function (): iterable {
            $job = ['data' => ['a' => 1], 'id' => 'a', 'at' => self::date(static function () use (&$job): void {
                $job = null;
            })];
            yield $job;
            yield new NewJob(2, id: 'b');
        };
        self::assertSame(2, $this->queue->pushMany($jobs())->created);
        self::assertSame(['a' => 1], $this->queue->find('a')->data());
    }

    public function testAnObjectIsConstructedOnce(): void
    {
        $error = $this->thrownBy(\Error::class, fn () => $this->client->__construct());
        self::assertStringContainsString('constructed already', $error->getMessage());
        $program = $this->program('
            pcntl_signal(SIGALRM, function () use ($client) {
                try {
                    $client->__construct("redis://127.0.0.1:1");
                } catch (Error $error) {
                    say($error->getMessage());
                }
            });
            pcntl_alarm(1);
            say(count($client->reserveFrom(["q"], wait: 1.5)) . " jobs");
        ');
        self::assertSame(0, $program->end());
        self::assertSame("the object is constructed already\n0 jobs\n", $program->said());
    }

    public function testAFailureThatComesBackToItsEngineEndsOneRun(): void
    {
        $this->queue->pushMany([['data' => 1, 'id' => 'a'], ['data' => 2, 'id' => 'b']]);
        $engine = new \Duly\WorkerEngine($this->client, ['q'], 10, 30, 5);
        self::assertSame('a', $engine->next(5)?->id);
        $data = self::serialized(static fn (): ?string => $engine->next(5)?->id);
        // The run that it was about is over: it was done when the engine was asked for the next one.
        $this->thrownBy(LeaseLostException::class, fn () => $engine->fail('no', data: $data));
        self::assertNull($engine->interruption());
        $engine->done();
        $engine->stop();
        self::assertTrue($engine->ended(5));
        self::assertSame(2, $engine->report()['acked']);
        self::assertSame(['acked' => 2], array_intersect_key(
            $this->queue->counts()->totals,
            ['acked' => 0, 'retried' => 0, 'failed' => 0],
        ));
    }

    public function testAFatalErrorInAResultLeavesTheEngineUsable(): void
    {
        $this->queue->push(1, id: 'a', resultTtl: 60);
        $program = $this->program('
            class Large implements JsonSerializable {
                public function jsonSerialize(): mixed
                {
                    ini_set("memory_limit", "16M");
                    return str_repeat("x", 64 << 20);
                }
            }
            $engine = new Duly\WorkerEngine($client, ["q"], 10, 30, 5);
            register_shutdown_function(function () use ($engine) {
                ini_set("memory_limit", "64M");
                say("shut down " . var_export($engine->interruption(), true));
                $engine->fail("a fatal error", retryAfter: 60);
                $engine->done();
                $engine->stop();
                say($engine->ended(5) ? "ended" : "not ended");
            });
            $engine->next(5);
            $engine->fail("no", data: new Large());
            say("not reached");
        ');
        self::assertSame(255, $program->end());
        self::assertStringContainsString("shut down NULL\nended\n", $program->said());
        self::assertStringNotContainsString('not reached', $program->said());
        self::assertSame('a fatal error', $this->queue->find('a')->error);
    }

    public function testAFatalErrorInADateOrAnIteratorEndsTheRequestAndNothingElse(): void
    {
        $calls = [
            'push(1, at: new Endless())',
            'pushMany([["data" => 1, "at" => new Endless()]])',
            'pushMany((function () { yield ["data" => 1]; (new Endless())->format(""); })())',
            'push(new Endless())',
        ];
        foreach ($calls as $call) {
            $program = $this->program('
                class Endless extends DateTime implements JsonSerializable {
                    public function format(string $format): string {
                        ini_set("memory_limit", "16M");
                        return str_repeat("x", 64 << 20);
                    }
                    public function jsonSerialize(): mixed { return $this->format(""); }
                }
                register_shutdown_function(function () use ($client) {
                    ini_set("memory_limit", "64M");
                    $client->ping();
                    say("alive");
                });
                $client->queue("q")->' . $call . ';
                say("not reached");
            ');
            self::assertSame(255, $program->end(), $call);
            self::assertStringContainsString('Allowed memory size', $program->said());
            self::assertStringEndsWith("alive\n", $program->said());
        }
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testWhatADestructorThrowsEndsAPushOfManyBeforeItPushes(): void
    {
        // PHP code of the first job (`format`) frees what is in it, and duly holds it last.
        $calls = [
            'a copy of what had references' => '
                $item = ["at" => new Freeing(), "data" => &$held];
                $jobs = [$item, ["data" => 2]];',
            'what a reference pointed to' => '
                $held = ["at" => new Freeing(), "data" => $held];
                $jobs = [&$held, ["data" => 2]];',
            'what an iterator gave' => '
                $jobs = new class implements IteratorAggregate {
                    public function getIterator(): Iterator {
                        yield ["at" => new Freeing(), "data" => &$GLOBALS["held"]];
                        yield ["data" => 2];
                    }
                };',
        ];
        $ends = ['throw new DomainException("destroyed")' => 'DomainException: destroyed', 'exit(3)' => ''];
        foreach ($calls as $what => $call) {
            foreach ($ends as $end => $said) {
                $program = $this->program(self::FREEING . "
                    \$held = new Dying(static function () { {$end}; });
                    {$call}
                    try {
                        \$client->queue('q')->pushMany(\$jobs);
                        say('pushed');
                    } catch (DomainException \$error) {
                        say(\$error::class . ': ' . \$error->getMessage());
                    }
                ");
                self::assertSame($said === '' ? 3 : 0, $program->end(), $what);
                self::assertSame($said, trim($program->said()), $what);
                self::assertSame(0, $this->queue->counts()->ready, $what);
            }
        }
    }

    public function testAFatalErrorInADestructorLeavesNothingBehind(): void
    {
        $calls = [
            'a job that is refused' => '
                $held = ["at" => new Freeing(), "data" => $held, "maxRetries" => -1];
                $jobs[] = &$held;',
            'a job that is pushed' => '$jobs[] = ["at" => new Freeing(), "data" => &$held];',
        ];
        foreach ($calls as $what => $call) {
            $program = $this->program(self::FREEING . '
                function resident(): int {
                    return 4096 * (int) explode(" ", file_get_contents("/proc/self/statm"))[1];
                }
                register_shutdown_function(function () use ($client) {
                    $client->ping();
                    say(resident() < $GLOBALS["before"] + (50 << 20) ? "alive" : "100 MB of jobs are left");
                });
                $held = new Dying(static fn () => trigger_error("the end", E_USER_ERROR));
                $jobs = array_fill(0, 200, ["data" => str_repeat("x", 500_000)]);
                ' . $call . '
                $before = resident();
                $client->queue("q")->pushMany($jobs);
                say("not reached");
            ');
            self::assertSame(255, $program->end(60), $what);
            self::assertStringContainsString('Fatal error: the end', $program->said(), $what);
            self::assertStringEndsWith("alive\n", $program->said(), $what);
            self::assertSame(0, $this->queue->counts()->ready, $what);
        }
    }

    /** An object whose end is PHP code, and a date that frees `$held` when it is read. */
    private const FREEING = '
        final class Dying implements JsonSerializable {
            public function __construct(private Closure $end) {}
            public function jsonSerialize(): mixed { return 1; }
            public function __destruct() { ($this->end)(); }
        }
        final class Freeing extends DateTime {
            public function format(string $format): string {
                $GLOBALS["held"] = null;
                return parent::format($format);
            }
        }
    ';

    private static function date(\Closure $before): \DateTime
    {
        $date = new class extends \DateTime {
            public ?\Closure $before = null;

            public function format(string $format): string
            {
                $before = $this->before;
                $this->before = null;
                $before === null || $before();
                return parent::format($format);
            }
        };
        $date->before = $before;
        return $date;
    }

    private static function serialized(\Closure $make): \JsonSerializable
    {
        return new class ($make) implements \JsonSerializable {
            public function __construct(private \Closure $make)
            {
            }

            public function jsonSerialize(): mixed
            {
                return ($this->make)();
            }
        };
    }
}
