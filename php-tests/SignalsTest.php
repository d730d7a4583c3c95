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

    public function testAJobWhoseReserveWasInterruptedGoesBack(): void
    {
        // The answer comes before the call looks for signals, which it does ten times a second.
        foreach (['reserve()', 'reserve(renew: true)', 'reserve(wait: 5)', 'reserveMany(5)', 'from'] as $way) {
            $call = $way === 'from' ? '$client->reserveFrom(["q"], lease: 600)' : '$queue->'
                . preg_replace('/\(,? ?/', '(lease: 600, ', str_replace('(5)', '(max: 5)', $way), 1);
            $program = $this->program('
                pcntl_async_signals(true);
                pcntl_signal(SIGUSR1, function () { throw new DomainException(); });
                $queue = $client->queue("q");
                $pause = function (): void {
                    $stream = stream_socket_client(' . var_export($this->server->url(), true) . ');
                    fwrite($stream, "CLIENT PAUSE 80\r\n");
                    fgets($stream);
                };
                for ($interrupted = 0, $tries = 0; $interrupted < 3 && $tries < 50; $tries++) {
                    $queue->purge("reserved");
                    $queue->purge("ready");
                    $queue->push(1, maxRetries: 0);
                    $pause();
                    $jobs = $kill = null;
                    try {
                        $kill = proc_open(["sh", "-c", "sleep 0.02; kill -USR1 " . getmypid()], [], $pipes);
                        $jobs = ' . $call . ';
                        sleep(10);
                    } catch (DomainException) {
                        if ($jobs === null) {
                            $counts = $queue->counts();
                            say("reserved {$counts->reserved}, ready {$counts->ready}");
                            $interrupted++;
                        }
                    }
                    $kill === null || proc_close($kill); // the signal may come before it is known
                }
            ');
            self::assertSame(0, $program->end(60), $program->said());
            self::assertSame(str_repeat("reserved 0, ready 1\n", 3), $program->said(), $way);
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
