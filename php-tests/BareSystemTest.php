<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\UnsupportedException;
use Duly\Supervisor;

/** `duly-worker` where a hosting panel has disabled functions of PHP, and as the first process of a container. */
final class BareSystemTest extends ServerTestCase
{
    private const PROGRAM = __DIR__ . '/../php-binding/bin/duly-worker';
    private const SOURCES = __DIR__ . '/../php-binding/php/src';
    /** What BaoTa's panel disables of pcntl, if nobody changes it. */
    private const OF_A_PANEL = 'pcntl_alarm,pcntl_fork,pcntl_waitpid,pcntl_wait,pcntl_wifexited,pcntl_wifstopped,'
        . 'pcntl_wifsignaled,pcntl_wifcontinued,pcntl_wexitstatus,pcntl_wtermsig,pcntl_wstopsig,pcntl_signal,'
        . 'pcntl_signal_dispatch,pcntl_get_last_error,pcntl_strerror,pcntl_sigprocmask,pcntl_sigwaitinfo,'
        . 'pcntl_sigtimedwait,pcntl_exec,pcntl_getpriority,pcntl_setpriority';

    public function testTheSupervisorNamesAllFunctionsThatItNeeds(): void
    {
        $needed = Supervisor::NEEDED;
        sort($needed);
        self::assertSame(self::functionsIn('Supervisor.php'), $needed);
    }

    public function testAWorkerRunsWithoutAnyOfTheFunctions(): void
    {
        $files = array_map('basename', glob(self::SOURCES . '/*.php') ?: []);
        $functions = array_unique(array_merge(...array_map(self::functionsIn(...), $files)));
        self::assertContains('pcntl_alarm', $functions);
        foreach ([...$functions, self::OF_A_PANEL] as $disabled) {
            $this->queue->push(1, name: 'n');
            $program = $this->start(['--max-jobs=1'], PHP_BINARY, "-ddisable_functions={$disabled}");
            $program->hear('ran');
            if ($disabled === 'pcntl_alarm' || str_contains($disabled, '_abort')) {
                $program->signal(SIGTERM); // which only a handler could miss; without the others there is a supervisor
            }
            self::assertSame(0, $program->end(), "{$disabled}: {$program->said()}");
            self::assertStringNotContainsString('Fatal', $program->said());
        }
    }

    public function testAllFunctionsThatAreMissingAreNamedAtOnce(): void
    {
        $this->queue->push(1, name: 'n');
        $missing = 'pcntl_wtermsig, pcntl_signal_get_handler, stream_socket_pair';
        $disabled = '-ddisable_functions=' . str_replace(' ', '', $missing);
        $program = $this->start(['--max-jobs=1'], PHP_BINARY, $disabled);
        self::assertSame(0, $program->end());
        $line = "duly-worker: PHP has no {$missing}: one worker runs in this process, and nobody replaces it\n";
        self::assertStringContainsString($line, $program->said());

        $worker = var_export(self::SOURCES . '/Worker.php', true);
        $code = "require {$worker}; new Duly\\Supervisor(fn () => 0);";
        $php = escapeshellarg(PHP_BINARY) . " -ddisplay_errors=1 {$disabled}";
        $said = (string) shell_exec("{$php} -r " . escapeshellarg($code) . ' 2>&1');
        $why = "a supervisor needs PHP's pcntl and posix: there is no {$missing}";
        self::assertStringContainsString(UnsupportedException::class . ": {$why}", $said);
    }

    public function testAsTheFirstProcessOfAContainerItWaitsForThoseWhoseParentHasEnded(): void
    {
        $first = ['/usr/bin/unshare', '--user', '--map-root-user', '--pid', '--fork', '--kill-child'];
        exec(implode(' ', $first) . ' true 2>&1', $refused, $status);
        if ($status !== 0) {
            self::markTestSkipped('not run: this system gives no namespace of processes: ' . implode(' ', $refused));
        }
        $program = $this->start(['--max-jobs=3'], ...$first, ...[PHP_BINARY]);
        $program->hear('serving q');
        foreach (range(1, 4) as $n) {
            $this->queue->push($n, name: 'background');
        }
        // Its own are still its own: one that has ended is replaced, and its exit code is known.
        $this->queue->push(5, name: 'exits', maxRetries: 0);
        $program->hear('ended with exit code 7 after ');
        $this->queue->push(6, name: 'n');
        $program->hear('ran');
        [$supervisor] = self::childrenOf($program->pid());
        Server::until(static fn (): bool => count(self::childrenOf($supervisor)) === 1, 'zombies stay');
        posix_kill($supervisor, SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testWhatProcessesOfADaemonPrintIsNothingTheySayToTheirSupervisor(): void
    {
        $program = $this->program('
            array_map(fclose(...), [STDIN, STDOUT, STDERR]);
            exit((new Duly\Supervisor(function () use ($client): void {
                $worker = new Duly\Worker($client, ["q"]);
                $worker->on("dies", function (): void {
                    echo "fatal error in order 12\n";
                    exit(1);
                });
                $worker->on("n", fn () => print("ready 86400\n"))->run();
            }, 1, 1))->run());
        ');
        $this->queue->push(1, name: 'dies', maxRetries: 0);
        $this->queue->push(2, name: 'n');
        Server::until(fn (): bool => ($this->queue->counts()->totals['acked'] ?? 0) === 1, 'all have stopped');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testASupervisorWhoseLogCannotBePrintedGoesOn(): void
    {
        $program = $this->program('
            fclose(STDOUT);
            $output = fopen("/dev/full", "w"); // has its number
            $log = function (string $line): void { echo $line, "\n"; };
            $supervisor = new Duly\Supervisor(function () use ($client): void {
                echo "begins";
                (new Duly\Worker($client, ["q"]))->on("n", fn () => null)->run();
            }, 1, log: $log);
            $supervisor->run();
            fwrite(STDERR, ignore_user_abort() ? "goes on" : "as it was before");
            exit(0); // PHP says 255 where something could not be printed
        ');
        $this->queue->push(1, name: 'n');
        Server::until(fn (): bool => ($this->queue->counts()->totals['acked'] ?? 0) === 1, 'no process serves');
        $program->signal(SIGHUP); // is logged
        Server::until(fn (): bool => count($this->queue->workers()) === 1, 'it has ended');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringContainsString('as it was before', $program->said());
    }

    /** @param list<string> $arguments */
    private function start(array $arguments, string ...$before): Program
    {
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        $client = var_export($this->server->url(), true) . ', ' . var_export($this->prefix, true);
        file_put_contents($file, "<?php
            return (new Duly\\Worker(new Duly\\Client({$client}), ['q']))
                ->on('n', fn () => fwrite(STDOUT, \"ran\\n\"))
                ->on('background', fn () => exec('true > /dev/null 2>&1 &'))
                ->on('exits', fn () => exit(7));
        ");
        $program = array_shift($before);
        $all = var_export([...$before, self::PROGRAM, $file, ...$arguments], true);
        return $this->program("pcntl_exec('{$program}', {$all});");
    }

    /** @return list<string> the functions that it calls and that a panel may disable */
    private static function functionsIn(string $file): array
    {
        $code = (string) file_get_contents(self::SOURCES . "/{$file}");
        $names = array_column(array_filter(\PhpToken::tokenize($code), static fn (\PhpToken $token): bool
            => $token->is(T_STRING)
            && preg_match('/^(pcntl|posix|stream_socket)_|_abort(ed)?$/', $token->text) === 1), 'text');
        $names = array_values(array_unique($names));
        sort($names);
        return $names;
    }

    /** @return list<int> */
    private static function childrenOf(int $pid): array
    {
        $children = (string) @file_get_contents("/proc/{$pid}/task/{$pid}/children");
        return array_map('intval', preg_split('/\s+/', $children, -1, PREG_SPLIT_NO_EMPTY) ?: []);
    }
}
