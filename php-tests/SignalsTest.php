<?php

declare(strict_types=1);

namespace Duly\Tests;

final class SignalsTest extends ServerTestCase
{
    public function testAHandlerRunsWhileAJobIsAwaited(): void
    {
        $program = $this->program('
            pcntl_signal(SIGTERM, function () { say("handled " . hrtime(true)); });
            say("waiting");
            var_dump($client->queue("q")->reserve(wait: 30));
            say("over");
        ');
        $program->hear('waiting');
        $this->server->untilSomebodyWaits();
        $sent = hrtime(true);
        $program->signal(SIGTERM);
        $program->hear('handled');
        preg_match('/handled (\d+)/', $program->said(), $found);
        self::assertLessThan(15.0, ((int) $found[1] - $sent) / 1e9);
        // A handler that returns lets the wait go on.
        self::assertStringNotContainsString('over', $program->said());
        $this->queue->push('for the one who waits');
        $program->hear('over');
        self::assertSame(0, $program->end());
        self::assertStringContainsString('Duly\Job', $program->said());
    }

    public function testAHandlerThatThrowsEndsTheWaitWithItsException(): void
    {
        foreach (['pcntl_async_signals(true);', ''] as $async) {
            $program = $this->program($async . '
                pcntl_signal(SIGTERM, function () { throw new DomainException("mine"); });
                say("waiting");
                try {
                    $client->queue("q")->reserve(wait: 30);
                } catch (DomainException $error) {
                    say("caught " . $error->getMessage() . " " . var_export($error->getPrevious(), true));
                }
                $client->ping();
                say("alive");
            ');
            $program->hear('waiting');
            $this->server->untilSomebodyWaits();
            $program->signal(SIGTERM);
            self::assertSame(0, $program->end());
            self::assertStringContainsString("caught mine NULL\nalive", $program->said());
        }
    }

    public function testAHandlerThatExitsEndsTheProcess(): void
    {
        foreach (['pcntl_async_signals(true);', ''] as $async) {
            $program = $this->program($async . '
                register_shutdown_function(function () use ($client) { $client->ping(); say("shut down"); });
                pcntl_signal(SIGTERM, function () { exit(3); });
                say("waiting");
                try {
                    $client->queue("q")->reserve(wait: 30);
                } finally {
                    say("not reached");
                }
            ');
            $program->hear('waiting');
            $this->server->untilSomebodyWaits();
            $program->signal(SIGTERM);
            self::assertSame(3, $program->end());
            self::assertSame("waiting\nshut down\n", $program->said());
        }
    }

    public function testAHandlerWithAFatalErrorEndsTheProcess(): void
    {
        $program = $this->program('
            ini_set("memory_limit", "16M");
            pcntl_signal(SIGTERM, function () { str_repeat("x", 64 << 20); });
            say("waiting");
            $client->queue("q")->reserve(wait: 30);
            say("not reached");
        ');
        $program->hear('waiting');
        $this->server->untilSomebodyWaits();
        $program->signal(SIGTERM);
        self::assertSame(255, $program->end());
        self::assertStringContainsString('Allowed memory size', $program->said());
        self::assertStringNotContainsString('not reached', $program->said());
    }

    public function testAHandlerMayUseTheQueue(): void
    {
        $program = $this->program('
            pcntl_signal(SIGTERM, function () use ($client) { $client->queue("q")->push("by the handler"); });
            say("waiting");
            $job = $client->queue("q")->reserve(wait: 10);
            say("got " . $job->data());
        ');
        $program->hear('waiting');
        $this->server->untilSomebodyWaits();
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        self::assertStringContainsString('got by the handler', $program->said());
    }
}
