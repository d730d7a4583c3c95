<?php

declare(strict_types=1);

namespace Duly\Tests\Think;

use Duly\Tests\Running;
use Duly\Tests\Server;

/** `php think duly:work` after a deployment by a link. */
final class ReloadTest extends ThinkTestCase
{
    public function testAReloadRunsTheReleaseToWhichTheLinkLeads(): void
    {
        $old = $this->app->folder();
        [$new, $gone, $current] = ["{$old}-new", "{$old}-gone", "{$old}-current"];
        try {
            symlink($old, $current);
            $work = new Running([PHP_BINARY, "{$current}/think", 'duly:work', '--processes=1'], '/');
            $this->queue->push(['order' => 1], name: 'order.named');
            $this->app->hear('handled 1 1');
            exec("cp -r {$old} {$new} && rm {$new}/runtime/notes");
            $handler = "{$new}/app/job/Handled.php";
            $code = str_replace('note("handled', 'note("newly', (string) file_get_contents($handler));
            file_put_contents($handler, $code);
            unlink($current);
            symlink($new, $current);
            $work->signal(SIGHUP);
            $this->untilItRunsIn($new);
            // The next one starts without the old release.
            rename($old, $gone);
            $pid = fn (): ?int => ($this->queue->workers()[0] ?? null)?->pid;
            $before = $pid();
            posix_kill((int) $before, SIGKILL);
            Server::until(static fn (): bool => !in_array($pid(), [null, $before], true), 'no other one starts');
            $this->untilItRunsIn($new);
            $work->signal(SIGTERM);
            self::assertSame(0, $work->end(), $work->said());
        } finally {
            is_dir($gone) && rename($gone, $old);
            exec("rm -rf {$new} {$current}");
        }
    }

    /** As a panel has it, and as cron starts it. */
    public function testItRunsWithoutPutenvAndWhereNobodyNamesTheFolder(): void
    {
        $work = $this->without('putenv,readlink,chdir', 'duly:work');
        $this->queue->push(['order' => 1], name: 'order.named');
        $this->app->hear('handled 1 ');
        $work->signal(SIGTERM);
        self::assertSame(0, $work->end(), $work->said());
    }

    /** The processes of a supervisor in this one would have what it has loaded of an old release. */
    public function testWithoutPcntlExecOneWorkerRunsWhichNobodyReplaces(): void
    {
        foreach (['pcntl_exec', 'pcntl_wtermsig, pcntl_exec'] as $order => $missing) {
            $work = $this->without("putenv, {$missing}", 'duly:work', '--processes=2', '--max-jobs=1');
            $this->queue->push(['order' => $order], name: 'order.named');
            self::assertSame(0, $work->end(), $work->said());
            $this->app->hear("handled {$order} ");
            $why = "PHP has no {$missing}: one worker runs in this process, and nobody replaces it";
            self::assertStringContainsString("duly-worker: {$why}", $work->said());
            $install = $this->without($missing, 'duly:install');
            self::assertSame(0, $install->end());
            $why = "PHP has no {$missing}: duly:work runs one process only, which nobody replaces";
            self::assertStringContainsString($why, $install->said());
        }
    }

    public function testOptionsOfPhpArePassedOnOrTheirLossIsSaid(): void
    {
        $note = 'options of PHP before the script, if there are any, are not passed on';
        foreach (['' => false, implode(':', array_diff(glob('/*') ?: [], ['/proc'])) => true] as $allowed => $isLost) {
            $this->queue->push(['order' => 1], name: 'order.named');
            $php = [PHP_BINARY, '-d', 'memory_limit=77M', '-d', "open_basedir={$allowed}"];
            $work = new Running([...$php, 'think', 'duly:work'], $this->app->folder());
            $work->hear('serving default');
            self::assertSame($isLost, str_contains($work->said(), $note), $work->said());
            $options = (string) file_get_contents("/proc/{$work->pid()}/cmdline");
            self::assertSame(!$isLost, str_contains($options, 'memory_limit=77M'));
            $work->signal(SIGTERM);
            self::assertSame(0, $work->end(), $work->said());
        }
    }

    /** A command of the application, by a PHP that has these functions not. */
    private function without(string $functions, string ...$arguments): Running
    {
        $php = ['/usr/bin/env', '-u', 'PWD', PHP_BINARY, "-ddisable_functions={$functions}"];
        return new Running([...$php, 'think', ...$arguments], $this->app->folder());
    }

    /** Pushes jobs until the handler there has run one that was not there before. */
    private function untilItRunsIn(string $folder): void
    {
        $count = static fn (): int
            => count(preg_grep('/^newly /', @file("{$folder}/runtime/notes") ?: []) ?: []);
        $before = $count();
        Server::until(function () use ($count, $before): bool {
            $this->queue->counts()->ready > 0 || $this->queue->push(['order' => 2], name: 'order.named');
            return $count() > $before;
        }, 'the old release goes on');
    }
}
