<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\InvalidArgumentException;
use Duly\NewJob;
use Duly\Schedule;

/** What PHP adds to schedules: conversions, what is refused, and workers that bring theirs. */
final class SchedulesTest extends ServerTestCase
{
    public function testAWorkerBringsItsSchedulesAndRunsThem(): void
    {
        $program = new Program($this->server, $this->prefix, '
            $worker = new Duly\Worker($client, ["q"], log: "say");
            $often = new Duly\Schedule(new Duly\NewJob(["a" => 1], name: "tick"), every: 0.1);
            $worker->on("tick", function (array $data) use ($worker) { say("tick {$data["a"]}"); $worker->stop(); })
                ->schedules("shop", ["often" => $often]);
            $worker->run();
        ');
        self::assertSame(0, $program->end());
        self::assertSame("tick 1\n", $program->said());
        self::assertSame('shop', $this->queue->schedules->get('often')?->owner);
        self::assertSame(['often'], $this->queue->schedules->sync('shop', [])->removed);
    }

    private const TICKS = '
        $log = fn (string $line, string $level) => say("$level: $line");
        $worker = new Duly\Worker($client, ["q"], log: $log);
        $often = new Duly\Schedule(new Duly\NewJob(name: "tick"), every: 0.1);
        $worker->on("tick", function () use ($worker) { say("tick"); $worker->stop(); });
        $worker->on("now", fn () => say("now"))->schedules("shop", ["often" => $often]);
        $worker->run();
    ';

    public function testAWorkerThatStartsInAnOutageStoresItsSchedulesLater(): void
    {
        $server = new Server();
        try {
            $server->kill();
            $program = new Program($server, 'duly:', self::TICKS);
            $program->hear('warning: the schedules cannot be stored now');
            $server->start();
            self::assertSame(0, $program->end());
            self::assertSame(1, substr_count($program->said(), 'the schedules cannot be stored now'));
            self::assertStringContainsString("warning: the schedules are stored\n", $program->said());
            self::assertStringContainsString("tick\n", $program->said());
        } finally {
            $server->close();
        }
    }

    public function testAWorkerOfAFullServerRunsJobsBeforeItCanStoreItsSchedules(): void
    {
        $server = new Server();
        try {
            (new Client($server->url(), 'duly:'))->queue('q')->push(null, name: 'now');
            $server->command('CONFIG', 'SET', 'maxmemory', '1');
            $program = new Program($server, 'duly:', self::TICKS);
            $program->hear('now');
            $server->command('CONFIG', 'SET', 'maxmemory', '0');
            $program->hear('warning: the schedules are stored');
            self::assertSame(0, $program->end());
        } finally {
            $server->close();
        }
    }

    public function testASignalStopsAWorkerWhoseSchedulesGetNoAnswer(): void
    {
        $file = sys_get_temp_dir() . '/duly-' . bin2hex(random_bytes(6));
        $silent = stream_socket_server("unix://{$file}");
        self::assertNotFalse($silent);
        $started = microtime(true);
        try {
            $silentClient = '$client = new Duly\Client(' . var_export("unix://{$file}", true) . ');';
            $program = new Program($this->server, '', $silentClient . self::TICKS);
            $connection = stream_socket_accept($silent, 60);
            self::assertNotFalse($connection);
            $program->signal(SIGTERM);
            self::assertSame(0, $program->end());
            self::assertLessThan(8, microtime(true) - $started);
        } finally {
            unlink($file);
        }
    }

    public function testTwoCallsForOneOwnerAddUp(): void
    {
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], log: "say");
            $schedule = fn (string $name) => new Duly\Schedule(new Duly\NewJob(name: $name), every: 0.1);
            $worker->on("b", fn () => $worker->stop());
            $worker->schedules("shop", ["a" => $schedule("a")])->schedules("shop", ["b" => $schedule("b")]);
            $worker->on("a", fn () => null)->run();
        ');
        self::assertSame(0, $program->end());
        self::assertSame(['a', 'b'], $this->queue->schedules->sync('shop', [])->removed);
    }

    public function testAScheduleTakesAndGivesTheTypesOfPhp(): void
    {
        $at = new \DateTimeImmutable('2026-11-23T12:00:00Z');
        $schedule = new Schedule(
            new NewJob(),
            every: 60,
            anchor: $at,
            start: $at,
            until: $at->modify('+2 minutes'),
            count: 9,
            jitter: 5,
            catchUp: 3,
            grace: 3600,
            overlap: 'replace',
        );
        self::assertSame([60.0, 5.0, 3600.0], [$schedule->every, $schedule->jitter, $schedule->grace]);
        self::assertSame([9, '3', 'replace'], [$schedule->count, $schedule->catchUp, $schedule->overlap]);
        self::assertSame([null, null], [$schedule->cron, $schedule->tz]);
        $slots = array_map(fn (int $seconds): float => (float) ($at->getTimestamp() + $seconds), [0, 60, 120]);
        self::assertSame($slots, $schedule->next($at->modify('-1 day')));
        $nightly = new Schedule(new NewJob(), cron: '0 3 * * mon', tz: 'europe/berlin');
        self::assertSame(['0 3 * * MON', 'Europe/Berlin'], [$nightly->cron, $nightly->tz]);
    }

    /** @dataProvider wrong */
    public function testWhatMakesNoSenseIsRefused(\Closure $wrong): void
    {
        $this->expectException(InvalidArgumentException::class);
        $wrong(new NewJob());
    }

    /** @return iterable<string, array{\Closure}> */
    public static function wrong(): iterable
    {
        yield 'nothing' => [fn (NewJob $job) => new Schedule($job)];
        yield 'both' => [fn (NewJob $job) => new Schedule($job, cron: '@daily', every: 1)];
        yield 'a pattern' => [fn (NewJob $job) => new Schedule($job, cron: 'often')];
        yield 'a zone' => [fn (NewJob $job) => new Schedule($job, cron: '@daily', tz: 'Mars/Base')];
        yield 'a zone of an interval' => [fn (NewJob $job) => new Schedule($job, every: 1, tz: 'UTC')];
        yield 'an interval' => [fn (NewJob $job) => new Schedule($job, every: 0)];
        yield 'a count' => [fn (NewJob $job) => new Schedule($job, every: 1, count: -1)];
        yield 'no count' => [fn (NewJob $job) => new Schedule($job, every: 1, count: 0)];
        yield 'a jitter' => [fn (NewJob $job) => new Schedule($job, every: 1, jitter: 86_401)];
        yield 'an overlap' => [fn (NewJob $job) => new Schedule($job, every: 1, overlap: 'maybe')];
        yield 'catching up' => [fn (NewJob $job) => new Schedule($job, every: 1, catchUp: 'all')];
        yield 'a job with an id' => [fn () => new Schedule(new NewJob(id: 'a'), every: 1)];
    }

    public function testAListIsOfNamesAndSchedules(): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->queue->schedules->sync('shop', ['a' => 1]);
    }
}
