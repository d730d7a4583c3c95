<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\RetryPolicy;

/** What a handler or a hook does to its process: no other job, and no worker, is to suffer from it. */
final class WorkerEndsTest extends ServerTestCase
{
    private const WORKER = __DIR__ . '/../php-binding/php/src/Worker.php';

    public function testAnIdleWorkerHearsSignalsWhateverAHandlerDidToThem(): void
    {
        $deeds = [
            'pcntl_signal(SIGTERM, fn () => say("its own"));',
            'pcntl_signal(SIGTERM, SIG_IGN);',
            'pcntl_sigprocmask(SIG_BLOCK, [SIGTERM]);',
            'pcntl_async_signals(false);',
            'pcntl_signal(SIGTERM, SIG_DFL);',
        ];
        foreach ($deeds as $number => $deed) {
            $this->queue->push(1, name: 'n');
            $program = $this->worker('
                $worker->on("n", function () { ' . $deed . ' });
                $worker->run();
                say("ended");
            ');
            // The worker sends the ack when it waits for the next job.
            $isAcked = fn (): bool => ($this->queue->counts()->totals['acked'] ?? 0) === $number + 1;
            Server::until($isAcked, 'it is not acked');
            $program->signal(SIGTERM);
            self::assertSame(0, $program->end(5), $deed);
            self::assertSame("ended\n", $program->said(), $deed);
        }
    }

    public function testATimeLimitIsThatOfOneRun(): void
    {
        foreach (['0', '600'] as $limit) {
            $this->queue->push(1, name: 'sets');
            $this->queue->push(1, name: 'says');
            $program = $this->worker('
                $worker->on("sets", fn () => set_time_limit(1));
                $worker->on("says", fn () => say("limit " . ini_get("max_execution_time")));
                $worker->run();
            ', 'maxJobs: 2', "-dmax_execution_time={$limit}");
            self::assertSame(0, $program->end());
            self::assertSame("limit {$limit}\n", $program->said());
        }
    }

    public function testATimeLimitOfARunIsNotThatOfTheHooksBehindIt(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $program = $this->worker('
            $worker->on("n", function () { set_time_limit(1); while (true); });
            $worker->onFailed(function () {
                // By the clock of the processor, which the limit is counted by, and not much longer: a busy machine
                // takes some times as long.
                $used = fn () => getrusage()["ru_utime.tv_sec"] + getrusage()["ru_utime.tv_usec"] / 1e6;
                for ($until = $used() + 1.2; $used() < $until;);
                say("the hook has ended");
            })->run();
        ');
        self::assertSame(255, $program->end(60), $program->said());
        self::assertStringContainsString('the hook has ended', $program->said());
    }

    public function testAlarmsAndTheMemoryLimitAreThoseOfOneRun(): void
    {
        $this->queue->push(1, name: 'sets');
        $this->queue->push(1, name: 'says');
        $program = $this->worker('
            $worker->on("sets", function () {
                pcntl_signal(SIGALRM, fn () => say("rang"));
                pcntl_alarm(600);
                ini_set("memory_limit", "900M");
            });
            $worker->on("says", function () {
                say(json_encode([pcntl_alarm(0), pcntl_signal_get_handler(SIGALRM), ini_get("memory_limit")]));
            });
            $worker->run();
        ', 'maxJobs: 2', '-dmemory_limit=500M');
        self::assertSame(0, $program->end());
        self::assertSame("[0,0,\"500M\"]\n", $program->said());
    }

    public function testOutputBuffersAreThoseOfOneRun(): void
    {
        foreach (['opens', 'says', 'throws', 'says'] as $name) {
            $this->queue->push(1, name: $name, maxRetries: 0);
        }
        $program = $this->worker('
            ob_start(null, 0, PHP_OUTPUT_HANDLER_FLUSHABLE);
            $worker->on("opens", function () { ob_start(); ob_start(); echo "kept;"; });
            $worker->on("throws", function () {
                ob_start(fn () => throw new LogicException("secret"));
                ob_start(fn (string $text) => "<{$text}>");
                echo "lost;";
            });
            $worker->on("says", function () { say("level " . ob_get_level() . " with " . ob_get_contents()); });
            $worker->run();
        ', 'maxJobs: 4');
        self::assertSame(0, $program->end(), $program->said());
        self::assertSame(2, substr_count($program->said(), 'level 1 with kept;'), $program->said());
        self::assertStringContainsString('what the last job left behind threw LogicException at ', $program->said());
        self::assertStringNotContainsString('secret', $program->said());
    }

    public function testAnOutputBufferThatCannotBeClosedIsSaidOnce(): void
    {
        foreach (['opens', 'n', 'n', 'n'] as $name) {
            $this->queue->push(1, name: $name);
        }
        $program = $this->worker('
            set_error_handler(fn (int $is, string $said) => throw new ErrorException($said, 0, $is));
            $worker->on("opens", function () { ob_start(null, 0, 0); });
            $worker->on("n", fn () => null)->run();
        ', 'maxJobs: 4');
        self::assertSame(0, $program->end(), $program->said());
        self::assertSame(1, substr_count($program->said(), 'what the last job left behind threw ErrorException at '));
        self::assertSame(4, $this->queue->counts()->totals['acked']);
    }

    public function testTheProgramsOwnAlarmIsLeftAlone(): void
    {
        $this->queue->push(1, name: 'n');
        $program = $this->worker('
            pcntl_alarm(600);
            $worker->on("n", fn () => null);
            $worker->run();
            say("left " . (pcntl_alarm(0) > 0 ? "yes" : "no"));
        ', 'maxJobs: 1');
        self::assertSame(0, $program->end());
        self::assertSame("left yes\n", $program->said());
    }

    public function testAWorkerGoesOnWithoutStandardError(): void
    {
        for ($job = 0; $job < 3; $job++) {
            $this->queue->push(1, name: 'n', maxRetries: 0);
        }
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], maxJobs: 3);
            $worker->on("n", function () {
                is_resource(STDERR) && fclose(STDERR);
                throw new DomainException("broken");
            });
            say(json_encode($worker->run()));
        ');
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringContainsString('"failed":3', $program->said());
        self::assertSame(3, $this->queue->counts()->failed);
    }

    public function testADestructorOfAnExceptionThatThrowsEndsNoWorker(): void
    {
        foreach (['n', 'hooked', 'last'] as $name) {
            $this->queue->push(1, id: $name, name: $name, maxRetries: 0);
        }
        $program = $this->worker('
            class Guard { public function __destruct() { throw new LogicException("secret"); } }
            class Guarded extends Exception {
                private $guard;
                public function __construct() { parent::__construct("mine"); $this->guard = new Guard(); }
            }
            $worker->on("n", fn () => throw new Guarded());
            $worker->on("hooked", fn () => throw new DomainException());
            $hook = function (Duly\Job $job) {
                if ($job->name === "hooked") {
                    throw new Guarded();
                }
            };
            $worker->onFailure($hook)->onFailed($hook);
            $worker->on("last", fn () => say("the last one ran"));
            $worker->run();
        ', 'maxJobs: 3');
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringContainsString('the last one ran', $program->said());
        $said = "a destructor of an exception for job 'n' (n, attempt 1) of queue 'q' threw LogicException at";
        self::assertStringContainsString($said, $program->said());
        self::assertSame(3, substr_count($program->said(), 'a destructor of an exception'));
        self::assertStringNotContainsString('secret', $program->said());
        self::assertStringStartsWith('Guarded: mine', (string) $this->queue->find('n')?->error);
        self::assertStringStartsWith('DomainException', (string) $this->queue->find('hooked')?->error);
    }

    public function testAHookThatEndsTheProcessIsNamedAndTheFirstErrorStays(): void
    {
        $fatal = 'ini_set("memory_limit", "8M"); str_repeat("x", 1 << 24);';
        foreach (['exit(5);' => ' by exit', $fatal => ', in '] as $end => $how) {
            foreach (['onFailure', 'onFailed'] as $hook) {
                $id = md5($end . $hook);
                $this->queue->push(1, id: $id, name: 'n', maxRetries: 0);
                $program = $this->worker('
                    $worker->on("n", fn () => throw new DomainException("the first error"));
                    $worker->onFailed(fn ($job, $thrown) => say("onFailed by " . $thrown::class));
                    $worker->' . $hook . '(function () { say("called;"); ' . $end . ' });
                    $worker->run();
                ');
                self::assertSame($end === $fatal ? 255 : 5, $program->end(), $program->said());
                $said = $program->said();
                self::assertSame(1, substr_count($said, 'called;'), $said);
                $line = "/failed for good: DomainException at .*; then .*{$hook} hook/";
                self::assertMatchesRegularExpression($line, $said);
                self::assertStringContainsString($end === $fatal ? ", in the {$hook} hook" : 'by exit', $said);
                // Those behind the one that ended the process are not called: it may have run for the same reason.
                $others = $hook === 'onFailure' ? 1 : 0;
                self::assertSame($others, substr_count($said, 'onFailed by DomainException'), $said);
                $error = (string) $this->queue->find($id)?->error;
                self::assertStringStartsWith('DomainException: the first error', $error);
            }
        }
    }

    public function testWhatOnFailureChangedIsKeptWhenOnFailedEndsTheProcess(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $program = $this->worker('
            $worker->on("n", fn () => throw new DomainException("the first error"));
            $worker->onFailure(fn () => ["data" => "changed"])->onFailed(function () { exit(5); })->run();
        ');
        self::assertSame(5, $program->end(), $program->said());
        $failed = $this->queue->peek('failed')[0];
        self::assertSame(['a', 'changed'], [$failed->id, $failed->data()]);
        self::assertStringStartsWith('DomainException: the first error', $failed->error);
    }

    public function testABeforeHookThatEndsTheProcessIsNamed(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', retry: RetryPolicy::fixed(60));
        $program = $this->worker('$worker->on("n", fn () => 1)->before(function () { exit(5); })->run();');
        self::assertSame(5, $program->end());
        $said = 'failed; it runs again in 60 s: the before hook ended the process by exit';
        self::assertStringContainsString($said, $program->said());
        self::assertSame('delayed', $this->queue->find('a')?->state);
    }

    public function testWorkThatIsDoneStaysDoneWhenAnAfterHookEndsTheProcess(): void
    {
        foreach (['exit(5);', 'ini_set("memory_limit", "8M"); str_repeat("x", 1 << 24);'] as $end) {
            $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0, resultTtl: 60);
            $program = $this->worker('
                $worker->on("n", fn () => "result")->onFailed(fn () => say("onFailed"));
                $worker->after(function () { ' . $end . ' })->run();
            ');
            $program->end();
            self::assertStringContainsString("of queue 'q' is done; then ", $program->said());
            self::assertStringContainsString('the after hook', $program->said());
            self::assertStringNotContainsString('failed', $program->said());
            self::assertSame('result', $this->queue->waitResult('a', timeout: 5));
        }
    }

    public function testAReportOrALoggerThatEndsTheProcessChangesNothing(): void
    {
        $ends = [
            'report: function () { exit(5); }, log: "say"' => 'was settled before report ended the process by exit',
            'log: function ($line) { say($line); exit(5); }' => 'failed; it runs again in 60 s',
        ];
        foreach ($ends as $setting => $said) {
            $this->queue->push(1, id: 'a', name: 'n', retry: RetryPolicy::fixed(60));
            $program = $this->program('
                $worker = new Duly\Worker($client, ["q"], ' . $setting . ');
                $worker->on("n", fn () => throw new DomainException("mine"))->run();
            ');
            self::assertSame(5, $program->end());
            self::assertStringContainsString($said, $program->said());
            self::assertStringNotContainsString('again in  s', $program->said());
            $found = $this->queue->find('a');
            self::assertSame(['delayed', 1], [$found?->state, $found?->attempts]);
            self::assertStringStartsWith('DomainException: mine', (string) $found?->error);
            $this->queue->cancel('a');
        }
    }

    public function testAHookThatEndsTheProcessForAJobOfAnotherWorkerEndsOneProcess(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        self::assertNotNull($this->queue->reserve(lease: 0.001));
        $code = '$worker->on("n", fn () => $worker->stop())->onFailed(function () { exit(5); })->run();';
        $program = $this->worker($code);
        self::assertSame(5, $program->end());
        $said = "of queue 'q' failed for good before the onFailed hook ended the process by exit";
        self::assertStringContainsString($said, $program->said());
        $this->queue->push(1, name: 'n');
        self::assertSame(0, $this->worker($code)->end());
    }

    public function testAForkedProcessThatComesBackFromAHandlerTakesNoPartInTheWork(): void
    {
        $this->queue->push(1, name: 'n', maxRetries: 0);
        $this->queue->push(2, name: 'n', maxRetries: 0);
        $program = $this->worker('
            $worker->on("n", function (int $data) {
                $child = pcntl_fork();
                if ($child === 0) {
                    return $data === 1 ? null : throw new DomainException("secret");
                }
                pcntl_waitpid($child, $status);
                say("the child ended with " . pcntl_wexitstatus($status));
            });
            $worker->after(fn () => say("after in " . getmypid()));
            $worker->run();
        ', 'maxJobs: 2');
        self::assertSame(0, $program->end());
        $said = $program->said();
        self::assertStringContainsString('the child ended with 0', $said);
        self::assertStringContainsString('the child ended with 255', $said);
        self::assertSame(2, substr_count($said, 'after in'));
        $line = "a process that the handler of job '[^']+' \\(n, attempt 1\\) of queue 'q' has forked ends: it threw";
        self::assertMatchesRegularExpression("/{$line} DomainException at/", $said);
        self::assertStringNotContainsString('secret', $said);
        self::assertStringNotContainsString('runs again', $said);
        self::assertSame(2, $this->queue->counts()->totals['acked']);
    }

    public function testAProcessThatEndsForAHandlerThatDoesNotNamesItsJob(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', timeout: 0.2, maxRetries: 0);
        $option = '-ddisable_functions=pcntl_signal,pcntl_signal_dispatch,pcntl_async_signals';
        $program = $this->worker('$worker->on("n", fn () => sleep(30)); $worker->run();', 'grace: 30', $option);
        self::assertSame(124, $program->end());
        $said = 'duly: job a (n, attempt 1) of queue q; the handler does not end: this process does';
        self::assertStringContainsString($said, $program->said());
    }

    private function worker(string $code, string $settings = 'grace: 30', string ...$options): Program
    {
        return new Program($this->server, $this->prefix, '
            $worker = new Duly\Worker($client, ["q"], ' . $settings . ', log: "say");
            ' . $code, ...$options);
    }

    /** @dataProvider endsOfTheChain */
    public function testAShutdownFunctionThatEndsTheOthersHidesNoFailure(string $function, string $handler): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $program = $this->worker("
            register_shutdown_function({$function});
            \$worker->on('n', {$handler});
            \$worker->run();
        ", 'grace: 30', '-dmemory_limit=32M');
        $program->end();
        $view = $this->queue->find('a');
        self::assertSame(['failed', 'the process ended during the run'], [$view?->state, $view?->error]);
        $said = 'duly: job a (n, attempt 1) of queue q: the process ended during its run, which counts as failed';
        self::assertStringContainsString($said, $program->said());
    }

    /** @return array<string, array{string, string}> */
    public static function endsOfTheChain(): array
    {
        $memory = 'function () { $all = []; while (true) { $all[] = $GLOBALS["all"][] = str_repeat("x", 8000); } }';
        return [
            'exit' => ['fn () => exit(1)', 'fn () => exit(3)'],
            'exception' => ['fn () => throw new Exception("no")', 'fn () => exit(3)'],
            'fatal error' => ['fn () => str_repeat("x", 50_000_000)', $memory],
        ];
    }

    public function testARunThatHasWorkedIsDoneWhateverShutdownFunctionEndsTheOthers(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $program = $this->worker('
            register_shutdown_function(fn () => exit(1));
            $worker->on("n", fn () => null)->after(fn () => exit(2));
            $worker->run();
        ');
        $program->end();
        self::assertSame(1, $this->queue->counts()->totals['acked']);
        self::assertStringNotContainsString('which counts as failed', $program->said());
    }

    public function testAProcessEndsThoughNobodyReadsWhatItSays(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', timeout: 0.2, maxRetries: 0);
        $program = $this->program('
            $code = "<?php require " . var_export(' . var_export(self::WORKER, true) . ', true) . ";" . \'
                $client = new Duly\Client($argv[1], $argv[2]);
                $worker = new Duly\Worker($client, ["q"]);
                $worker->on("n", function () {
                    [$mine] = $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
                    stream_set_blocking(STDERR, false);
                    while (@fwrite(STDERR, str_repeat("x", 4096)));
                    stream_set_blocking(STDERR, true);
                    fgets($mine);
                })->run();
            \';
            $arguments = ' . var_export([$this->server->url(), $this->prefix], true) . ';
            $off = "-ddisable_functions=pcntl_signal,pcntl_signal_dispatch,pcntl_async_signals";
            file_put_contents($file = __FILE__ . ".worker", $code);
            $process = proc_open([PHP_BINARY, $off, $file, ...$arguments], [2 => ["pipe", "w"]], $pipes);
            while (($status = proc_get_status($process))["running"]) {
                usleep(2000);
            }
            say("it ended with {$status["exitcode"]}");
        ');
        self::assertSame(0, $program->end());
        self::assertSame("it ended with 124\n", $program->said());
    }

    public function testWhatADestructorThrowsBehindARunHarmsNoJob(): void
    {
        foreach (['result', 'garbage'] as $kind) {
            $this->queue->push(1, id: 'a', name: $kind, maxRetries: 1);
            $this->queue->push(1, name: 'n');
            $program = $this->worker('
                class Throws
                {
                    public ?object $self = null;
                    public function __destruct()
                    {
                        throw new LogicException("late");
                    }
                }
                $worker->on("result", fn () => new Throws());
                $worker->on("garbage", function () {
                    $object = new Throws();
                    $object->self = $object;
                    ini_set("memory_limit", "900M");
                });
                $worker->on("n", fn () => null);
                say(json_encode($worker->run()));
            ', 'maxJobs: 2', '-dmemory_limit=500M');
            self::assertSame(0, $program->end(), $program->said());
            $report = '{"acked":2,"expired":0,"failed":0,"lost":0,"released":0}';
            self::assertStringContainsString($report, $program->said());
            self::assertStringContainsString('threw LogicException at ', $program->said());
        }
    }

    public function testAnExceptionThatEndsTheWorkerBehindARunHarmsNoJob(): void
    {
        foreach ([true, false] as $works) {
            $id = $this->queue->push(1, name: 'n', maxRetries: 0);
            $log = new RecordingLogger();
            $engine = new \Duly\WorkerEngine($this->client, ['q'], 10, 30, 5);
            $lines = new \Duly\Log($log->line(...), null);
            $runs = new \Duly\Runs(new \Duly\Handlers(), $lines, null, new \Duly\RestartOn(), false);
            $exits = new \Duly\Exits($runs, $engine);
            $thrown = new \LogicException('from anywhere');
            $runs->handlers->handle('n', static function () use ($works, $exits, $thrown): void {
                $works || $exits->endsBy($thrown);
            });
            $runs->begin($engine);
            $job = $engine->next(5);
            self::assertNotNull($job);
            $runs->run($engine, $job);
            $works && $exits->endsBy($thrown);
            self::assertSame($works ? null : 'failed', $this->queue->find($id)?->state);
            $works || self::assertStringContainsString("job '{$id}' (n, attempt 1)", $log->lines[0]);
        }
    }

    public function testAJobThatHasNotBegunGoesBackWhenTheWorkerEndsBeforeIt(): void
    {
        foreach (['throw new LogicException("late");' => 255, 'exit(5);' => 5] as $end => $code) {
            $first = $this->queue->push(1, name: 'n');
            $second = $this->queue->push(2, name: 'n');
            $program = $this->worker('
                final class Ends
                {
                    public function __destruct()
                    {
                        ' . $end . '
                    }
                }
                $kept = new WeakMap(); // of each job, until its object is gone: when the next job comes
                $worker->on("n", function (int $data, Duly\Job $job) use ($kept) {
                    $kept[$job] = new Ends();
                    say("ran {$data}");
                });
                $worker->run();
            ');
            self::assertSame($code, $program->end(), $program->said());
            self::assertStringNotContainsString('ran 2', $program->said());
            self::assertNull($this->queue->find($first));
            $job = $this->queue->find($second);
            self::assertSame(['ready', 0], [$job?->state, $job?->attempts]);
            $this->queue->cancel($second);
        }
    }

    public function testAnAlarmThatWasBlockedIsOfOneRun(): void
    {
        $this->queue->push(1, name: 'blocks');
        $this->queue->push(1, name: 'unblocks');
        $program = $this->worker('
            $worker->on("blocks", function () {
                pcntl_sigprocmask(SIG_BLOCK, [SIGALRM]);
                posix_kill(getmypid(), SIGALRM);
            });
            $worker->on("unblocks", function () {
                pcntl_sigprocmask(SIG_BLOCK, [SIGUSR1], $before);
                pcntl_sigprocmask(SIG_SETMASK, []);
                say(in_array(SIGALRM, $before, true) ? "blocked" : "free");
            });
            $worker->run();
        ', 'maxJobs: 2');
        self::assertSame(0, $program->end(), $program->said());
        self::assertSame("free\n", $program->said());
    }

    public function testAProcessThatAHookHasForkedLeavesTheJobToItsParent(): void
    {
        $this->queue->push(1, name: 'n', maxRetries: 3, retry: \Duly\RetryPolicy::fixed(60));
        $program = $this->worker('
            $worker->onFailure(function () {
                $child = pcntl_fork();
                $child === 0 || pcntl_waitpid($child, $status);
            });
            $worker->onFailed(fn () => say("onFailed"));
            $worker->on("n", fn () => throw new DomainException())->run();
        ', 'maxJobs: 1');
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringNotContainsString('onFailed', $program->said());
        self::assertStringNotContainsString('failed for good', $program->said());
        self::assertSame(1, substr_count($program->said(), 'failed; it runs again in 60 s'));
    }
}
