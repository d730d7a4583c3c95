<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Exception\LeaseLostException;
use Duly\Exception\LockedException;
use Duly\Lock;

/** Locks as PHP programs use them; what locks are is in conformance/scenarios/lock.json. */
final class LockTest extends ServerTestCase
{
    private function isTaken(): bool
    {
        try {
            return !$this->client->lock('a')->release();
        } catch (LockedException) {
            return true;
        }
    }

    public function testOneHoldsIt(): void
    {
        $lock = $this->client->lock('a');
        self::assertTrue($lock->isHeld());
        self::assertSame('a', $lock->name);
        $error = $this->thrownBy(LockedException::class, fn () => $this->client->lock('a'));
        self::assertSame("lock 'a': another one holds it: wait for it, or try again later", $error->getMessage());
        self::assertSame(['locked', null, false], [$error->getKind(), $error->getQueue(), $error->isTransient()]);
        self::assertTrue($lock->release());
        self::assertFalse($lock->release());
        self::assertGreaterThan($lock->token, $this->client->lock('a', wait: 5)->token);
        self::assertFalse($this->isTaken(), 'an object that is gone gives it up');
    }

    public function testOneOfAClosedClientIsReleased(): void
    {
        $closing = new \Duly\Client($this->server->url(), $this->prefix);
        $lock = $closing->lock('a');
        $closing->close();
        self::assertSame([true, true, false], [$lock->isHeld(), $lock->release(), $lock->release()]);
        self::assertTrue($this->client->lock('a')->release());
    }

    public function testAClosureRunsWithIt(): void
    {
        $result = $this->client->withLock('a', function (Lock $lock): string {
            self::assertTrue($lock->isHeld() && $this->isTaken());
            return 'done';
        });
        self::assertSame('done', $result);
        self::assertFalse($this->isTaken());
        $throws = fn () => throw new \DomainException('of its own');
        $error = $this->thrownBy(\DomainException::class, fn () => $this->client->withLock('a', $throws));
        self::assertSame('of its own', $error->getMessage());
        self::assertFalse($this->isTaken());
        self::assertNull($this->client->withLock('a', fn (Lock $lock) => $lock->release() ? null : 1, ttl: 5));
    }

    /** Its body would run when the lock is free. */
    public function testAClosureThatYieldsIsRefusedAndTheLockIsFree(): void
    {
        $ran = false;
        $yields = static function () use (&$ran): \Generator {
            $ran = true;
            yield 1;
        };
        foreach ([$yields, static fn () => $yields()] as $run) {
            $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->client->withLock('a', $run));
            $said = 'run gave a generator, whose code would run without the lock: loop over it in run, or do not yield';
            self::assertSame($said, $error->getMessage());
            self::assertFalse($this->isTaken());
        }
        self::assertFalse($ran);
        // One that has begun ends before the lock does.
        $begun = function (): iterable {
            $generator = (function (): \Generator {
                try {
                    yield 1;
                } finally {
                    $ended = $this->isTaken() ? 'with the lock' : 'without it';
                    throw new \DomainException($ended);
                }
            })();
            $generator->current();
            return $generator;
        };
        $error = $this->thrownBy(\DomainException::class, fn () => $this->client->withLock('a', $begun));
        self::assertSame('with the lock', $error->getMessage());
        self::assertFalse($this->isTaken());
    }

    public function testAClosureThatLostItIsSaid(): void
    {
        $lose = function (Lock $lock): void {
            $this->server->command('DEL', "{$this->prefix}{a}:lock");
            Server::until(static fn (): bool => !$lock->isHeld(), 'it does not notice');
        };
        $error = $this->thrownBy(LeaseLostException::class, fn () => $this->client->withLock('a', $lose, ttl: 0.3));
        self::assertStringContainsString('lost before the block ended', $error->getMessage());
    }

    public function testItIsRenewedWhilePhpIsBusy(): void
    {
        $lock = $this->client->lock('a', ttl: 2);
        shell_exec('sleep 3');
        self::assertTrue($lock->isHeld() && $this->isTaken());
    }

    public function testAProgramThatEndsGivesItUpAndOneThatIsKilledLeavesItToItsTime(): void
    {
        $program = $this->program('$lock = $client->lock("a"); say("held"); fgets(STDIN);');
        self::assertSame(0, $program->end());
        self::assertFalse($this->isTaken());
        $program = $this->program('$lock = $client->lock("a"); $client->withLock("b", function () { exit(3); });');
        self::assertSame(3, $program->end());
        self::assertFalse($this->isTaken());
        self::assertTrue($this->client->lock('b')->release());
        $program = $this->program('$lock = $client->lock("a", ttl: 0.5); say("held"); sleep(600);');
        $program->hear('held');
        self::assertTrue($this->isTaken());
        $program->signal(SIGKILL);
        self::assertTrue($this->client->lock('a', wait: 60)->release());
    }

    public function testAForkedChildDoesNotHoldItsParentsLock(): void
    {
        $program = $this->program('
            $lock = $client->lock("a");
            $child = pcntl_fork();
            if ($child === 0) {
                say($lock->isHeld() || $lock->release() ? "wrong" : "not held");
                exit;
            }
            pcntl_waitpid($child, $status);
            say($lock->release() ? "released" : "lost");
        ');
        self::assertSame(0, $program->end());
        self::assertSame("not held\nreleased\n", $program->said());
    }

    public function testWrongArgumentsAreRefused(): void
    {
        foreach ([['ttl' => 0], ['ttl' => 'long'], ['wait' => -1], ['wait' => NAN]] as $wrong) {
            $this->thrownBy(InvalidArgumentException::class, fn () => $this->client->lock('a', ...$wrong));
        }
        $this->thrownBy(InvalidArgumentException::class, fn () => $this->client->withLock('a', 'no function'));
        self::assertFalse($this->isTaken());
    }

    public function testAJobThatMeetsItTakenRunsLaterAndIsToldHowLongItHasWaited(): void
    {
        $lock = $this->client->lock('stock');
        $id = $this->queue->push(1, name: 'count', maxRetries: 0);
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], log: say(...), maxJobs: 99);
            $worker->on("count", function (mixed $data, Duly\Job $job) use ($worker): void {
                $lock = $job->lock("stock", retryAfter: 0.05);
                say($lock->waited > 0 ? "has waited" : "has not waited");
                $worker->stop();
            })->run();
        ');
        $program->hear("runs again in 0.05 s: waits for the lock 'stock' since ");
        // The line may be written before the outcome is stored.
        $error = fn (): string => (string) $this->queue->find($id)?->error;
        Server::until(fn () => str_contains($error(), "waits for the lock 'stock' since "), 'the reason is not stored');
        $lock->release();
        self::assertSame(0, $program->end());
        self::assertStringContainsString('has waited', $program->said());
        self::assertNull($this->queue->find($id));
    }
}
