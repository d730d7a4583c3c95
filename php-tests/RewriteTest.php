<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Exception\LeaseLostException;
use Duly\Job;
use Duly\RetryPolicy;

/** A failure may change the job, and may be an exception. */
final class RewriteTest extends ServerTestCase
{
    public function testAFailureMayChangeTheJob(): void
    {
        $this->queue->push(['step' => 1], id: 'a', key: 'k', headers: ['h' => 'v'], maxRetries: 1);
        $job = $this->reserved();
        self::assertSame(0.0, $job->fail('half', retryAfter: 0, data: ['step' => 2], attempts: 4, maxRetries: 9));
        self::assertTrue($job->settled);
        $again = $this->reserved();
        self::assertSame(['step' => 2], $again->data());
        self::assertSame([5, 9, 'half', 1], [$again->attempts, $again->maxRetries, $again->error, $again->returns]);
        self::assertSame(['a', 'k', ['h' => 'v']], [$again->id, $again->key, $again->headers]);
        // The policy decides with the changed numbers.
        self::assertNull($again->fail('enough', maxRetries: 0));
        self::assertSame('{"step":2}', $this->queue->find('a')?->raw);
    }

    public function testNullLeavesTheDataAndRawNullIsNull(): void
    {
        $this->queue->push(['a' => 1], id: 'a');
        $this->reserved()->fail('x', retryAfter: 0, data: null, raw: null, attempts: null, maxRetries: null);
        $job = $this->reserved();
        self::assertSame(['{"a":1}', 1], [$job->raw, $job->attempts]);
        $job->fail('x', retryAfter: 0, raw: 'null');
        $job = $this->reserved();
        self::assertSame('null', $job->raw);
        $job->fail('x', retryAfter: 0, raw: '{"a" : 1.50}');
        self::assertSame('{"a" : 1.50}', $this->reserved()->raw);
    }

    public function testTheAnswerIsTheWait(): void
    {
        $this->queue->push(1, maxRetries: 2, retry: RetryPolicy::list([30]));
        $job = $this->reserved();
        self::assertSame(30.0, $job->fail('x'));
        self::assertSame('delayed', $this->queue->find($job->id)?->state);
    }

    public function testWhatFailCannotTakeIsRefusedAndTheJobIsStillHeld(): void
    {
        $this->queue->push(1);
        $job = $this->reserved();
        $wrong = [
            fn () => $job->fail('x', data: NAN), fn () => $job->fail('x', raw: '{'), fn () => $job->fail(5),
            fn () => $job->fail('x', data: 1, raw: '1'), fn () => $job->fail('x', attempts: -1),
            fn () => $job->fail('x', maxRetries: 1 << 32), fn () => $job->fail('x', retryAfter: '5'),
            fn () => $job->fail('x', retryAfter: -1), fn () => $job->fail('x', final: true, counted: false),
            fn () => $job->fail('x', final: true, retryAfter: 1), fn () => $job->fail(new \stdClass()),
        ];
        foreach ($wrong as $call) {
            $this->thrownBy(InvalidArgumentException::class, $call);
            self::assertFalse($job->settled);
        }
        $this->thrownBy(\Error::class, fn () => $job->fail('x', nonsense: 1));
        $job->ack();
        $this->thrownBy(LeaseLostException::class, fn () => $job->fail('x', data: 2));
    }

    public function testAnExceptionIsKeptAsItsClassMessageAndPlace(): void
    {
        $expected = [
            'DomainException: no answer' => new \DomainException('no answer'),
            "TypeError: bad \u{fffd} bytes" => new \TypeError("bad \xff bytes"),
            'LogicException' => new \LogicException(),
            'RuntimeException@anonymous: mine' => new class ('mine') extends \RuntimeException {
            },
            "not \u{fffd} UTF-8" => "not \xff UTF-8",
        ];
        $this->queue->push(1, id: 'a', maxRetries: 100);
        foreach ($expected as $text => $error) {
            $this->reserved()->fail($error, retryAfter: 0);
            $place = $error instanceof \Throwable ? " at {$error->getFile()}:{$error->getLine()}" : '';
            self::assertSame($text . $place, $this->queue->find('a')?->error);
        }
    }

    private function reserved(): Job
    {
        $job = $this->queue->reserve();
        self::assertNotNull($job);
        return $job;
    }
}
