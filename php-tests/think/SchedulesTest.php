<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\NewJob;
use Duly\Schedule;
use Duly\Tests\Server;

/** The schedules of `config/duly.php`, which `php think duly:work` brings. */
final class SchedulesTest extends ThinkTestCase
{
    private const OFTEN = "'often' => ['job' => ['name' => 'order.named', 'data' => ['order' => 1]], 'every' => 0.1]";

    public function testAWorkerBringsAndFiresThem(): void
    {
        $nightly = "'nightly' => [
            'job' => ['name' => 'order.named', 'key' => 'n', 'maxRetries' => 2], 'queue' => 'other',
            'cron' => '0 3 * * *', 'tz' => 'Asia/Shanghai', 'catchUp' => 3, 'overlap' => 'skip', 'jitter' => 60,
        ]";
        $this->configure("'owner' => 'shop', 'list' => [" . self::OFTEN . ", {$nightly}]");
        $this->start('duly:work', '--processes=2');
        $this->app->hear('handled 1 1 order.named attempt 1', times: 3);
        $often = $this->queue->schedules->get('often');
        self::assertSame(['shop', 0.1], [$often?->owner, $often?->schedule?->every]);
        $stored = $this->client->queue('other')->schedules->get('nightly');
        self::assertSame('shop', $stored?->owner);
        $schedule = $stored->schedule;
        self::assertSame(['0 3 * * *', 'Asia/Shanghai'], [$schedule?->cron, $schedule?->tz]);
        self::assertSame(['3', 'skip', 60.0], [$schedule->catchUp, $schedule->overlap, $schedule->jitter]);
    }

    public function testWhatTheFileNoLongerHasGoesAndNothingElse(): void
    {
        $daily = new Schedule(new NewJob(name: 'order.named'), cron: '@daily');
        $this->queue->schedules->put('by hand', $daily);
        $this->queue->schedules->sync('billing', ['of others' => $daily]);
        $hourly = "'hourly' => ['job' => ['name' => 'order.named'], 'cron' => '@hourly']";
        $this->configure("'list' => [" . self::OFTEN . ", {$hourly}]");
        $work = $this->start('duly:work');
        $this->app->hear('handled 1 1');
        self::assertSame('think', $this->queue->schedules->get('hourly')?->owner);
        $this->app->replace('config/duly.php', self::OFTEN . ',', '');
        $work->signal(SIGHUP);
        Server::until(fn (): bool => $this->names() === ['by hand', 'hourly', 'of others'], 'it does not go');
        // Also the last one.
        $this->app->replace('config/duly.php', $hourly, '');
        $work->signal(SIGHUP);
        Server::until(fn (): bool => $this->names() === ['by hand', 'of others'], 'the last one does not go');
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
    }

    public function testWithoutTheSettingNothingIsRemoved(): void
    {
        $this->queue->schedules->sync('think', ['old' => new Schedule(new NewJob(name: 'order.named'), every: 0.1)]);
        $this->start('duly:work');
        Server::until(fn (): bool => $this->queue->counts()->delayed > 0, 'it does not fire');
        self::assertSame(['old'], $this->names());
    }

    public function testAQueueThatItNeitherServesNorNamesIsLeftAlone(): void
    {
        $daily = new Schedule(new NewJob(name: 'order.named'), cron: '@daily');
        $this->queue->schedules->sync('think', ['of another application' => $daily]);
        $mail = $this->client->queue('mail')->schedules;
        $mail->sync('think', ['old' => $daily]);
        $this->configure("'list' => []");
        $this->start('duly:work', '--queue=mail');
        Server::until(static fn (): bool => $mail->list() === [], 'it is not removed');
        self::assertSame(['of another application'], $this->names());
        $code = '$worker = Duly\Think\Work::of($app, ["queues" => ["mail"]], []);
            echo json_encode(array_values((fn () => $this->schedules)->bindTo($worker, $worker::class)()));';
        self::assertSame('[["mail","think",[]]]', $this->app->evaluate($code));
    }

    public function testThePublishedFileHasAnOwnerAndNoSchedules(): void
    {
        $code = '$worker = Duly\Think\Work::of($app, [], []);
            echo json_encode(array_values((fn () => $this->schedules)->bindTo($worker, $worker::class)()));';
        self::assertSame('[]', $this->app->evaluate($code));
        copy(dirname(__DIR__, 2) . '/php-binding/php/src/Think/config.php', "{$this->app->folder()}/config/duly.php");
        self::assertSame('[["default","think",[]]]', $this->app->evaluate($code));
        // The example in it, too.
        $this->app->replace('config/duly.php', "// 'nightly'", "'nightly'");
        self::assertStringContainsString('"nightly":', $this->app->evaluate($code));
    }

    /** @dataProvider wrong */
    public function testAWrongEntryIsRefusedAtTheStart(string $settings, string $said): void
    {
        $this->configure($settings);
        $work = $this->start('duly:work', '--processes=2');
        self::assertSame(2, $work->end());
        self::assertStringContainsString("config/duly.php: schedules{$said}", $work->said());
        self::assertSame([], $this->names());
    }

    public function testAWrongEntryAtAReloadIsSaidAndTheOtherProcessesGoOn(): void
    {
        $this->configure("'list' => [" . self::OFTEN . ']');
        $work = $this->start('duly:work', '--processes=2');
        $this->app->hear('handled 1 1');
        $this->app->replace('config/duly.php', self::OFTEN, "'nightly' => '@daily'");
        $work->signal(SIGHUP);
        $work->hear('config/duly.php: schedules.list.nightly: must be an array');
        $this->app->hear('handled 1 1', times: count($this->app->notes()) + 5);
        self::assertSame(['often'], $this->names());
        $this->app->replace('config/duly.php', "'nightly' => '@daily'", '');
        Server::until(fn (): bool => $this->names() === [], 'the mended file does not count', 60.0);
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end());
    }

    /** @return iterable<string, array{string, string}> */
    public static function wrong(): iterable
    {
        $like = "'nightly' => ['job' => ['name' => 'report.nightly'], 'cron' => '0 3 * * *']";
        $job = "'job' => ['name' => 'order.named']";
        $entry = static fn (string $entry): string => "'list' => [" . self::OFTEN . ", 'nightly' => {$entry}]";
        yield 'no list' => [
            "'nightly' => [{$job}, 'cron' => '@daily']",
            ": it has no 'nightly', but owner, list",
        ];
        yield 'an owner' => ["'owner' => 7", '.owner: must be a text, not int'];
        yield 'an empty owner' => ["'owner' => ''", ': an owner'];
        yield 'a list' => ["'list' => '@daily'", ".list: must be an array: [{$like}], not string"];
        yield 'no name' => ["'list' => [[{$job}, 'cron' => '@daily']]", ".list.0: it needs a name: {$like}"];
        yield 'a pattern alone' => [$entry("'@daily'"), ".list.nightly: must be an array: {$like}, not string"];
        yield 'a setting' => [
            $entry("[{$job}, 'crom' => '@daily']"),
            ".list.nightly: it has no 'crom', but job, queue, cron, every, tz, anchor, start, until, count, jitter, "
                . 'catchUp, grace, overlap',
        ];
        $needs = ".list.nightly: it needs a job with a name, which finds its class: 'job' => ['name' => 'order.close']";
        yield 'no job' => [$entry("['cron' => '@daily']"), $needs];
        yield 'the name alone' => [$entry("['job' => 'order.named', 'cron' => '@daily']"), $needs];
        yield 'a job without a name' => [$entry("['job' => ['data' => 1], 'cron' => '@daily']"), $needs];
        yield 'a setting of the job' => [
            $entry("['job' => ['name' => 'order.named', 'id' => 'a'], 'cron' => '@daily']"),
            ".list.nightly.job: it has no 'id', but data, name, key, priority, maxRetries, retry, timeout, headers, "
                . 'resultTtl, raw',
        ];
        yield 'a value of the job' => [
            $entry("['job' => ['name' => 'order.named', 'priority' => 10], 'cron' => '@daily']"),
            '.list.nightly: a priority must be 0 to 9',
        ];
        yield 'nothing that says when' => [$entry("[{$job}]"), '.list.nightly: give cron or every, one of them'];
        yield 'a pattern' => [$entry("[{$job}, 'cron' => 'often']"), ".list.nightly: 'often' is no cron pattern"];
        yield 'a type' => [
            $entry("[{$job}, 'cron' => 7]"),
            '.list.nightly: cron must be of type ?string, int given',
        ];
        yield 'a zone' => [
            $entry("[{$job}, 'cron' => '@daily', 'tz' => 'Mars/Base']"),
            ".list.nightly: 'Mars/Base' is no time zone",
        ];
        yield 'a queue' => [
            $entry("[{$job}, 'cron' => '@daily', 'queue' => 'a b']"),
            '.list.nightly: a queue name must have',
        ];
        yield 'no queue' => [
            $entry("[{$job}, 'cron' => '@daily', 'queue' => 7]"),
            '.list.nightly.queue: must be the name of a queue, not int',
        ];
    }

    /** Adds settings to `schedules` of the application. */
    private function configure(string $settings): void
    {
        $queue = "'queue' => 'default',";
        $this->app->replace('config/duly.php', $queue, "{$queue} 'schedules' => [{$settings}],");
    }

    /** @return list<string> of all schedules that are stored in the queue */
    private function names(): array
    {
        $names = array_map(static fn ($schedule): string => $schedule->name, $this->queue->schedules->list());
        sort($names);
        return $names;
    }
}
