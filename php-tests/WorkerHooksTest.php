<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Fail;
use Duly\Job;
use Duly\Release;
use Duly\Retry;
use Duly\RetryPolicy;
use Duly\Worker;

/** Hooks, outcomes, and reasons to return. */
final class WorkerHooksTest extends ServerTestCase
{
    /** @var list<string> */
    private array $said = [];

    public function testHooksRunInTheirOrder(): void
    {
        $this->queue->push('works', name: 'n');
        $this->hooked(1)->run();
        self::assertSame(['before 1', 'before 2', 'handler', 'after 2', 'after 1'], $this->said);

        $this->said = [];
        $this->queue->push('retried', name: 'n', retry: RetryPolicy::fixed(60));
        $this->hooked(1)->run();
        self::assertSame(['before 1', 'before 2', 'handler', 'failure 2', 'failure 1'], $this->said);

        $this->said = [];
        $this->queue->push('failed', name: 'n', maxRetries: 0);
        $this->hooked(1)->run();
        self::assertSame(
            ['before 1', 'before 2', 'handler', 'failure 2', 'failure 1', 'failed 2', 'failed 1'],
            $this->said,
        );
    }

    public function testAfterHooksRunUnlessTheHandlerGaveTheJobBackOrFailedIt(): void
    {
        $settle = [
            'returns' => static fn () => null,
            'acks' => static fn (Job $job) => $job->ack(),
            'acks many' => static fn (Job $job) => $job->queue->ackMany([$job]),
            'releases' => static fn (Job $job) => $job->release(60),
            'retries' => static fn (Job $job) => $job->fail('not now', retryAfter: 60),
            'gives up' => static fn (Job $job) => $job->fail('never', final: true),
        ];
        $worker = $this->worker(count($settle));
        foreach ($settle as $name => $how) {
            $this->queue->push(1, name: $name);
            $worker->on($name, static fn (mixed $data, Job $job) => $how($job));
        }
        $worker->after(function (Job $job): void {
            $this->said[] = $job->name;
        });
        $worker->onFailure(function (): void {
            $this->said[] = 'failure';
        })->run();
        self::assertSame(['returns', 'acks', 'acks many'], $this->said);
    }

    public function testABeforeHookThatThrowsEndsTheRunAsAFailure(): void
    {
        $this->queue->push('works', id: 'a', name: 'n', maxRetries: 0);
        $worker = $this->worker(1)->before(static fn () => throw new \DomainException('not now'));
        $worker->before(fn () => $this->said[] = 'another');
        $worker->on('n', fn () => $this->said[] = 'handler')->onFailure(function (): void {
            $this->said[] = 'failure';
        });
        $worker->run();
        self::assertSame(['failure'], $this->said);
        self::assertStringStartsWith('DomainException: not now at ', $this->queue->find('a')?->error);
    }

    public function testABeforeHookThatSettlesTheJobKeepsTheHandlerFromRunning(): void
    {
        foreach (['released', 'failed', 'acked'] as $id) {
            $this->queue->push($id, id: $id, name: 'n');
        }
        $worker = $this->worker(3)->before(static fn (Job $job) => match ($job->id) {
            'released' => $job->release(3600),
            'failed' => $job->fail('not now', final: true),
            default => $job->ack(),
        });
        $worker->before(fn () => $this->said[] = 'another');
        $worker->on('n', fn () => $this->said[] = 'handler');
        $worker->run();
        self::assertSame([], $this->said);
        self::assertSame(
            ['delayed', 'failed', null],
            array_map(fn (string $id) => $this->queue->find($id)?->state, ['released', 'failed', 'acked']),
        );
    }

    public function testAHookThatThrowsAfterTheHandlerIsSaidAndChangesNothing(): void
    {
        $lines = [];
        $log = static function (string $line) use (&$lines): void {
            $lines[] = $line;
        };
        $this->queue->push(1, id: 'a', name: 'n');
        $this->queue->push(2, id: 'b', name: 'n', maxRetries: 0);
        $worker = $this->worker(2, $log)->on('n', static fn (int $data) => $data === 1 ?: throw new \DomainException());
        $late = new \LogicException('late');
        $worker->after(static fn () => throw $late);
        $worker->onFailed(static fn () => throw $late)->run();
        self::assertSame([1, 1], [$this->totals()['acked'], $this->totals()['failed']]);
        $threw = "threw LogicException at {$late->getFile()}:{$late->getLine()}";
        self::assertSame("after for job 'a' (n, attempt 1) of queue 'q' {$threw}", $lines[0]);
        self::assertSame("onFailed for job 'b' (n, attempt 1) of queue 'q' {$threw}", $lines[1]);
    }

    public function testAHandlerSaysWhatBecomesOfItsJob(): void
    {
        $outcomes = [
            'retry' => new Retry(after: 60, message: 'busy'),
            'policy' => new Retry(),
            'gave up' => new Fail(),
            'no retries left' => new Retry(after: 60),
            'release' => new Release(after: 60),
            'fail' => new Fail('pointless'),
            'at once' => new Release(),
        ];
        foreach (array_keys($outcomes) as $name) {
            $retries = $name === 'no retries left' ? 0 : 3;
            $this->queue->push($name, id: md5($name), name: 'n', retry: RetryPolicy::fixed(7), maxRetries: $retries);
        }
        $seen = [];
        $worker = $this->worker(count($outcomes));
        $worker->on('n', static function (string $name, Job $job) use ($outcomes, $worker): void {
            throw $outcomes[$name];
        });
        $worker->onFailure(static function (Job $job, \Throwable $thrown) use (&$seen): void {
            $seen[] = $job->data();
        })->run();
        $now = time();
        $found = [];
        foreach (array_keys($outcomes) as $name) {
            $job = $this->queue->find(md5($name));
            $in = $job?->state === 'delayed' ? (int) round(((float) $job->at - $now) / 7) * 7 : null;
            $found[$name] = [$job?->state, $in, $job?->attempts, $job?->error];
        }
        self::assertSame([
            'retry' => ['delayed', 63, 1, 'busy'],
            'policy' => ['delayed', 7, 1, 'the handler asked for another run'],
            'gave up' => ['failed', null, 1, 'the handler gave up'],
            'no retries left' => ['failed', null, 1, 'the handler asked for another run'],
            'release' => ['delayed', 63, 0, ''],
            'fail' => ['failed', null, 1, 'pointless'],
            'at once' => ['ready', null, 0, ''],
        ], $found);
        self::assertNotContains('release', $seen);
        self::assertContains('fail', $seen);
    }

    public function testAnExceptionOfThinkOrmEndsTheWorkerAsThatOfPhpDoes(): void
    {
        eval('namespace think\db\exception {
            class DbException extends \Exception {}
            class PDOException extends DbException {}
            class DataNotFound extends DbException {}
            class Gone extends PDOException {}
        }');
        $runs = function (string $class): int {
            $this->queue->pushMany(array_fill(0, 2, ['data' => 1, 'name' => 'n', 'maxRetries' => 0]));
            $runs = 0;
            $worker = $this->worker(2)->restartOn([\PDOException::class]);
            $worker->on('n', static function () use ($class, &$runs): void {
                $runs++;
                throw new \DomainException('wrapped', 0, new $class('gone away'));
            })->run();
            $this->queue->purge('ready');
            return $runs;
        };
        self::assertSame(1, $runs('think\db\exception\PDOException'));
        self::assertSame(1, $runs('think\db\exception\Gone'));
        self::assertSame(2, $runs('think\db\exception\DataNotFound'));
    }

    public function testAnExceptionOfRestartOnEndsTheWorkerAndTheJobIsRetried(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', retry: RetryPolicy::fixed(60));
        $this->queue->push(2, id: 'b', name: 'n');
        $worker = $this->worker(null)->restartOn([\UnderflowException::class]);
        $gone = new \LogicException('wrapped', 0, new \UnderflowException('the database has gone away'));
        $worker->on('n', static fn () => throw $gone)->run();
        self::assertSame(['delayed', 1], [$this->queue->find('a')?->state, $this->queue->find('a')?->attempts]);
        self::assertSame(['ready', 0], [$this->queue->find('b')?->state, $this->queue->find('b')?->attempts]);
    }

    public function testWhatAFailureHookGivesTakesNothingFromAFail(): void
    {
        $this->queue->push(1, name: 'gives up', id: 'a', retry: RetryPolicy::fixed(0));
        $this->queue->push(1, name: 'retries', id: 'b', retry: RetryPolicy::fixed(0));
        $failed = $ran = $lines = [];
        $worker = $this->worker(2, static function (string $line) use (&$lines): void {
            $lines[] = $line;
        });
        $worker->on('gives up', static function (mixed $data, Job $job) use (&$ran): never {
            $ran[] = $job->id;
            throw new Fail('no such order');
        });
        $worker->on('retries', static function (mixed $data, Job $job) use (&$ran): never {
            $ran[] = $job->id;
            throw new Retry(after: 3600);
        });
        $worker->onFailure(static fn (Job $job): array => $job->id === 'a' ? ['retryAfter' => 60] : ['final' => true]);
        $worker->onFailed(static function (Job $job) use (&$failed): void {
            $failed[] = $job->id;
        })->run();
        self::assertSame([['a', 'b'], ['a']], [$ran, $failed]);
        self::assertSame('failed', $this->queue->find('a')?->state);
        self::assertStringStartsWith('no such order', $this->queue->find('a')->error);
        self::assertSame('delayed', $this->queue->find('b')?->state);
        self::assertGreaterThan(microtime(true) + 3000, $this->queue->find('b')->at);
        self::assertCount(2, preg_grep('/onFailure gave for .* what fail does not take/', $lines) ?: []);
    }

    public function testDataOfOnFailureThatIsTooLargeIsAPlainFailure(): void
    {
        $client = new Client($this->server->url(), $this->prefix, maxDataBytes: 1000);
        $this->queue->push(1, name: 'n', id: 'a', maxRetries: 0);
        $failed = [];
        $worker = new Worker($client, ['q'], maxJobs: 1, log: static fn () => null);
        $worker->on('n', static fn () => throw new \DomainException('mine'));
        $worker->onFailure(static fn (): array => ['data' => str_repeat('x', 1000)]);
        $worker->onFailed(static function (Job $job) use (&$failed): void {
            $failed[] = $job->id;
        })->run();
        self::assertSame(['a'], $failed);
        self::assertSame(['failed', '1'], [$this->queue->find('a')?->state, $this->queue->find('a')?->raw]);
        self::assertStringContainsString('DomainException', (string) $this->queue->find('a')?->error);
    }

    public function testTheWorkerReturnsAfterTheJobThatTookTooMuchMemory(): void
    {
        $this->queue->pushMany(array_fill(0, 20, ['data' => 1, 'name' => 'n']));
        $kept = [];
        $worker = new Worker($this->client, ['q'], memory: 64, log: static fn () => null);
        $worker->on('n', static function () use (&$kept): void {
            $kept[] = str_repeat('x', 10 << 20);
        })->run();
        self::assertContains(count($kept), [5, 6]);
        self::assertSame([count($kept), 20 - count($kept)], [$this->totals()['acked'], $this->queue->counts()->ready]);
    }

    public function testTheTraceOfTheProducerIsContinued(): void
    {
        $program = $this->program('
            eval(\'
                namespace OpenTelemetry\API\Trace {
                    class Span {
                        public static bool $valid = true;
                        public static function getCurrent(): self { return new self(); }
                        public function getContext(): self { return $this; }
                        public function isValid(): bool { return self::$valid; }
                        public function getTraceId(): string { return str_repeat("a1", 16); }
                        public function getSpanId(): string { return str_repeat("b2", 8); }
                        public function getTraceFlags(): int { return 1; }
                        public function getTraceState(): ?State { return new State(); }
                    }
                    class State {
                        public static string $text = "shop=42";
                        public function __toString(): string { return self::$text; }
                    }
                }
                namespace OpenTelemetry\API\Trace\Propagation {
                    class TraceContextPropagator {
                        public string $parent = "";
                        public static function getInstance(): self { return new self(); }
                        public function extract(array $carrier): self {
                            $this->parent = $carrier["traceparent"] . " " . ($carrier["tracestate"] ?? "-");
                            return $this;
                        }
                        public function activate(): self { say("in $this->parent"); return $this; }
                        public function detach(): void { say("out"); }
                    }
                }
            \');
            $queue = $client->queue("q");
            $queue->push(1, name: "n");
            $queue->push(1, name: "n", headers: ["traceparent" => "given"]);
            OpenTelemetry\API\Trace\State::$text = "";
            $queue->push(1, name: "n");
            OpenTelemetry\API\Trace\Span::$valid = false;
            $queue->push(1, name: "n");
            $worker = new Duly\Worker($client, ["q"], maxJobs: 4);
            $worker->on("n", fn () => say("handler"))->run();
        ');
        self::assertSame(0, $program->end());
        $parent = '00-' . str_repeat('a1', 16) . '-' . str_repeat('b2', 8) . '-01';
        $traces = ["{$parent} shop=42", 'given -', "{$parent} -"];
        $runs = array_map(fn (string $trace): string => "in {$trace}\nhandler\nout\n", $traces);
        self::assertSame(implode('', $runs) . "handler\n", $program->said());
    }

    private function hooked(int $maxJobs): Worker
    {
        $worker = $this->worker($maxJobs);
        foreach ([1, 2] as $number) {
            $say = function (string $word) use ($number): callable {
                return function () use ($word, $number): void {
                    $this->said[] = "{$word} {$number}";
                };
            };
            $worker->before($say('before'))->after($say('after'));
            $worker->onFailure($say('failure'))->onFailed($say('failed'));
        }
        return $worker->on('n', function (string $data): void {
            $this->said[] = 'handler';
            if ($data !== 'works') {
                throw new \DomainException($data);
            }
        });
    }

    private function worker(?int $maxJobs, ?callable $log = null): Worker
    {
        return new Worker($this->client, ['q'], maxJobs: $maxJobs, log: $log ?? static fn () => null);
    }

    /** @return array<string, int> */
    private function totals(): array
    {
        return $this->queue->counts()->totals;
    }
}
