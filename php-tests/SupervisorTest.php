<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Supervisor;
use Duly\WorkerInfo;

/** `duly-worker`: the real program with real children. */
final class SupervisorTest extends ServerTestCase
{
    private const PROGRAM = __DIR__ . '/../php-binding/bin/duly-worker';
    private const HANDLER = 'function (mixed $data) use ($client) {
        say("begin $data in " . getmypid() . ";");
        if ($data !== "quick") {
            $client->queue("gate")->reserve(wait: 20)?->ack();
        }
        say("end $data");
    }';

    public function testItReplacesAChildThatWasKilledAndItsJobRunsAgain(): void
    {
        $this->queue->push('slow', name: 'n');
        $program = $this->supervise(self::HANDLER, '--processes=2', '--lease', '3');
        $program->hear('begin slow');
        $killed = $this->lastPid($program);
        posix_kill($killed, SIGKILL);
        $program->hear("duly-worker: worker process {$killed} was killed by signal 9 after ");
        Server::until(fn () => substr_count($program->said(), 'begin slow') === 2, 'it does not run again');
        self::assertNotSame($killed, $this->lastPid($program));
        $this->client->queue('gate')->push(1);
        $program->hear('end slow');
        Server::until(fn () => count($this->childrenOf($program->pid())) === 2, 'it was not replaced');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testAMomentWithoutDescriptorsDoesNotEndIt(): void
    {
        // Also where the application makes an exception of each warning.
        $first = $this->server->folder() . '/first.php';
        $code = 'set_error_handler(fn (int $level, string $text) => throw new ErrorException($text));';
        file_put_contents($first, "<?php {$code}");
        $program = $this->start([$this->bootstrap(self::HANDLER)], '-d', "auto_prepend_file={$first}");
        $program->hear('serving q with 1 process');
        [$child] = $this->childrenOf($program->pid());
        $limit = static fn (int $files) => shell_exec("prlimit --pid {$program->pid()} --nofile={$files}:");
        $limit(3);
        posix_kill($child, SIGKILL);
        $program->hear('the system gives no process; trying again');
        $limit(1000);
        $this->queue->push('quick', name: 'n');
        $program->hear('end quick');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testItPassesSignalsAndLetsWhatRunsFinish(): void
    {
        foreach ([SIGTERM, SIGINT, SIGQUIT] as $signal) {
            $this->queue->push('slow', name: 'n');
            $this->queue->push('other', name: 'n');
            $program = $this->supervise(self::HANDLER, '--processes', '2');
            $program->hear('begin slow');
            $program->hear('begin other');
            $program->signal($signal);
            $program->hear('stopping: jobs that run may go on for 30 s');
            $this->client->queue('gate')->push(1);
            $this->client->queue('gate')->push(1);
            self::assertSame(0, $program->end());
            $program->hear('end slow');
            $program->hear('end other');
        }
    }

    public function testASecondSignalCutsHandlersShortAndSaysWhichItWas(): void
    {
        $this->queue->push('slow', name: 'n');
        foreach ([[SIGTERM, SIGTERM], [SIGINT, SIGINT], [SIGQUIT, SIGQUIT], [SIGTERM, SIGINT]] as [$first, $second]) {
            $program = $this->supervise(self::HANDLER);
            $program->hear('begin slow');
            $program->signal($first);
            $program->hear('stopping');
            Program::untilSignalsHaveCome($this->lastPid($program));
            $program->signal($second);
            self::assertSame(128 + $second, $program->end());
            self::assertSame(1, $this->queue->counts()->ready);
        }
    }

    public function testTheEndOfTheGraceCutsHandlersShort(): void
    {
        $this->queue->push('slow', name: 'n');
        $program = $this->supervise(self::HANDLER, '--grace=0.5');
        $program->hear('begin slow');
        $program->signal(SIGINT);
        self::assertSame(128 + SIGALRM, $program->end());
        self::assertSame(1, $this->queue->counts()->ready);
    }

    public function testAChildThatIsStillStartingGetsSigtermWhateverCame(): void
    {
        foreach (['pcntl_signal(SIGTERM, function (): never { exit("it was SIGTERM"); });', ''] as $handles) {
            $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
            file_put_contents($file, "<?php {$handles} echo 'starting'; while (true) { usleep(1000); }");
            foreach ([SIGTERM, SIGINT, SIGQUIT] as $signal) {
                $program = $this->start([$file]);
                $program->hear('starting');
                $program->signal($signal);
                self::assertSame(0, $program->end());
                self::assertSame($handles !== '', str_contains($program->said(), 'it was SIGTERM'));
            }
        }
    }

    public function testAChildThatHangsEndsByItselfWhenTheGraceIsOver(): void
    {
        $this->queue->push('slow', id: 'a', name: 'n');
        // As in a query that gets no answer: PHP sees no signal before it ends.
        $program = $this->supervise('function () {
            $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            say("begin");
            fgets($pair[0]);
        }', '--grace=0.2');
        $program->hear('begin');
        $program->signal(SIGTERM);
        self::assertSame(124, $program->end());
        // Given back at once, and not counted.
        $job = $this->queue->reserve();
        self::assertSame(['a', 1], [$job?->id, $job?->attempt]);
    }

    public function testAChildThatIsStoppedIsKilled(): void
    {
        $this->queue->push('slow', name: 'n');
        $program = $this->supervise(self::HANDLER, '--grace=0', '--lease=0.5');
        $program->hear('begin slow');
        posix_kill($this->lastPid($program), SIGSTOP);
        $program->signal(SIGTERM);
        self::assertSame(128 + SIGKILL, $program->end());
        $line = '/worker process \d+ did not end within its grace and is killed; its jobs come back/';
        self::assertMatchesRegularExpression($line, $program->said());
        self::assertNotNull($this->queue->reserve(wait: 20));
    }

    public function testAChildThatDoesNotHandleTheEndOfTheGraceEndsByItself(): void
    {
        $this->queue->push('slow', name: 'n');
        $program = $this->supervise('function () {
            say("begin");
            while (true) {
                try {
                    usleep(1000);
                } catch (Throwable) {
                    say("never mind");
                }
            }
        }', '--grace=0.2');
        $program->hear('begin');
        $program->signal(SIGTERM);
        self::assertSame(124, $program->end());
        self::assertSame(1, substr_count($program->said(), 'never mind'));
        self::assertSame(1, $this->queue->counts()->ready);
    }

    public function testAHandlerThatCatchesTheEndOfTheGraceAndReturnsWasCutShortAllTheSame(): void
    {
        $this->queue->push('slow', name: 'n');
        $program = $this->supervise('function () {
            try {
                say("begin");
                while (true) {
                    usleep(1000);
                }
            } catch (Throwable) {
                say("never mind");
            }
        }', '--grace=0.2');
        $program->hear('begin');
        $program->signal(SIGTERM);
        self::assertSame(128 + SIGALRM, $program->end());
        self::assertStringContainsString('never mind', $program->said());
        self::assertSame(1, $this->queue->counts()->ready);
    }

    public function testItRecyclesByCountAndMemory(): void
    {
        $this->queue->pushMany(array_fill(0, 6, ['data' => 'quick', 'name' => 'n']));
        $program = $this->supervise(self::HANDLER, '--max-jobs', '2');
        Server::until(fn () => substr_count($program->said(), 'end quick') === 6, 'not all jobs ran');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        preg_match_all('/ in (\d+);/', $program->said(), $found);
        self::assertSame([2, 2, 2], array_values(array_count_values($found[1])));
        self::assertStringNotContainsString('ended with', $program->said());

        $this->queue->pushMany(array_fill(0, 4, ['data' => 'quick', 'name' => 'n']));
        $program = $this->supervise('function () {
            static $kept = [];
            $kept[] = str_repeat("x", 40 << 20);
            say("in " . getmypid() . ";");
        }', '--memory', '64');
        Server::until(fn () => preg_match_all('/in \d+;/', $program->said()) === 4, 'not all jobs ran');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        preg_match_all('/in (\d+);/', $program->said(), $found);
        self::assertSame([2, 2], array_values(array_count_values($found[1])));
    }

    public function testAChildWhoseShutdownFunctionDoesNotEndIsReplaced(): void
    {
        $program = $this->supervise('function (string $data) {
            say("ran {$data};");
            if ($data === "first") {
                [$GLOBALS["mine"]] = $GLOBALS["pair"] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
                register_shutdown_function(fn () => fgets($GLOBALS["mine"]));
            }
        }', '--max-jobs=1');
        $this->queue->push('first', name: 'n');
        $program->hear('ran first;');
        $this->queue->push('second', name: 'n');
        $program->hear('ran second;');
        $said = 'duly: a shutdown function or a destructor does not end: this process does, with exit code 124';
        self::assertStringContainsString($said, $program->said());
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testAPoisonJobEndsInFailedAndOthersRun(): void
    {
        $this->queue->push('poison', id: 'a', name: 'n', maxRetries: 1, retry: \Duly\RetryPolicy::fixed(0));
        $program = $this->supervise('function ($data) {
            say("begin $data");
            if ($data === "poison") {
                posix_kill(getmypid(), SIGKILL);
            }
        }', '--lease', '1');
        Server::until(fn () => $this->queue->find('a')?->state === 'failed', 'it did not fail');
        $this->queue->push('good', name: 'n');
        $program->hear('begin good');
        self::assertSame(3, substr_count($program->said(), 'begin poison')); // the first crash is not counted
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testChildrenDoNotOutliveIt(): void
    {
        $program = $this->supervise(self::HANDLER, '--processes', '2');
        Server::until(fn () => count($this->childrenOf($program->pid())) === 2, 'there are no children');
        $children = $this->childrenOf($program->pid());
        $program->signal(SIGKILL);
        $gone = fn (): bool => array_filter($children, fn (int $pid) => posix_kill($pid, 0)) === [];
        Server::until($gone, 'the children go on');
        self::assertSame(-SIGKILL, $program->end());
    }

    public function testOptionsSayWhichQueues(): void
    {
        $this->client->queue('mail')->push('quick', name: 'n');
        $program = $this->supervise(self::HANDLER, '-q', 'orders=3', '--queue=mail=1');
        $program->hear('end quick');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testAFunctionGetsTheOptions(): void
    {
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        file_put_contents($file, '<?php return function (array $options): Duly\Worker {
            fwrite(STDOUT, json_encode($options) . "\n");
            $worker = new Duly\Worker(new Duly\Client(' . var_export($this->server->url(), true) . '), ["q"]);
            return $worker->on("n", fn () => null);
        };');
        $program = $this->start([$file, '--lease=5', '-q', 'a', '-q', 'b', '--max-jobs', '3']);
        $program->hear('{"lease":5,"maxJobs":3,"queues":["a","b"]}');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testWhatIsWrongIsSaidAndGivesTheCodeTwo(): void
    {
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        file_put_contents($file, '<?php return 5;');
        $wrong = [
            'there is no option \'--frob\'' => [$file, '--frob', '1'],
            '--processes must be 1 or more, not \'0\'' => [$file, '--processes', '0'],
            '--grace needs a value' => [$file, '--grace'],
            '--lease must be seconds, not \'soon\'' => [$file, '--lease=soon'],
            'give all queues a weight, or none' => [$file, '-q', 'a=1', '-q', 'b'],
            'the queue \'a\' is given twice: once is enough' => [$file, '-q', 'a', '--queue', 'a=3'],
            'the queue \'b\' is given twice: once is enough' => [$file, '-q', 'b=2', '-q', 'a=3', '-q', 'b=1'],
            'the queue \'7\' is given twice: once is enough' => [$file, '-q', '7', '-q', '7'],
            'there is no file \'/no/such.php\'' => ['/no/such.php'],
            'which file makes the worker' => ['--processes', '2'],
            'it must return a Duly\Worker, not int' => [$file, '--processes', '2'],
        ];
        $runs = $this->bootstrap('fn () => null)->run(');
        $wrong['duly-worker runs the worker that this file returns: leave out `run()`'] = [$runs, '--processes', '2'];
        foreach ($wrong as $said => $arguments) {
            $program = $this->start($arguments);
            self::assertSame(2, $program->end(), $said);
            self::assertStringContainsString($said, $program->said());
        }
        $program = $this->start([$file], '-n');
        self::assertSame(2, $program->end());
        self::assertStringContainsString('the PHP extension duly is not loaded', $program->said());
    }

    public function testAFileThatForksServesNothing(): void
    {
        $file = $this->bootstrap('fn () => null');
        $code = substr((string) file_get_contents($file), strlen('<?php'));
        file_put_contents($file, '<?php pcntl_fork() === 0 || exit(0); ' . $code);
        $program = $this->start([$file]);
        $program->hear('has forked serves nothing: nobody would stop it');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        self::assertSame([], $this->queue->workers());
    }

    public function testAnErrorThatNoWaitingHealsStopsAll(): void
    {
        $url = var_export($this->server->url(), true);
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        file_put_contents($file, "<?php
            \$worker = new Duly\\Worker(new Duly\\Client({$url}, password: 'no'), ['q']);
            return \$worker->on('n', fn () => null);
        ");
        $program = $this->start([$file, '--processes', '2']);
        self::assertSame(1, $program->end());
        $said = $program->said();
        self::assertStringContainsString('AuthenticationFailedException', $said);
        $all = 'met a permanent error, which every other one would meet, too: all stop';
        self::assertSame(1, substr_count($said, $all), $said);
        self::assertStringNotContainsString('another one starts', $said);

        $alone = $this->start([$file], '-ddisable_functions=pcntl_fork');
        self::assertSame(1, $alone->end());
        self::assertStringContainsString('AuthenticationFailedException', $alone->said());
    }

    public function testAPasswordThatIsBeingChangedEndsNoSupervisor(): void
    {
        $user = 'app' . getmypid();
        $acl = fn (string ...$words): string => $this->server->command('ACL', ...$words);
        $acl('SETUSER', $user, 'on', '>old', '~*', '&*', '+@all');
        $client = var_export($this->server->url(), true) . ', ' . var_export($this->prefix, true);
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        file_put_contents($file, "<?php
            \$client = new Duly\\Client({$client}, username: '{$user}', password: 'old');
            return (new Duly\\Worker(\$client, ['q']))
                ->on('n', function (string \$data): void { fwrite(STDOUT, \"end {\$data}\\n\"); });
        ");
        $program = $this->start([$file, '--processes', '2', '--max-jobs', '1']);
        $ids = fn (): array => array_map(fn (WorkerInfo $worker): string => $worker->id, $this->queue->workers());
        Server::until(fn (): bool => count($ids()) === 2, 'they do not serve');
        $first = $ids();
        $this->queue->push('one', name: 'n');
        $program->hear('end one');
        // A process that has not come in yet would find a wrong password at its start.
        $others = fn (): bool => count($ids()) === 2 && array_diff($ids(), $first) !== [];
        Server::until($others, 'the successor does not serve');
        $acl('SETUSER', $user, 'resetpass', '>new');
        // By those that are connected, whose successors are not let in.
        $this->queue->push('two', name: 'n');
        $this->queue->push('three', name: 'n');
        $program->hear('ended with exit code 1 after ');
        $acl('SETUSER', $user, 'resetpass', '>old');
        $this->queue->push('four', name: 'n');
        foreach (['two', 'three', 'four'] as $job) {
            $program->hear("end {$job}");
        }
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testTheOthersMayFinishWhatTheyRunWhenAnErrorStopsAll(): void
    {
        $this->queue->push('slow', name: 'n');
        $client = var_export($this->server->url(), true) . ', ' . var_export($this->prefix, true);
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        // The first process finds that the job is not running yet; the other one has a wrong password when it is.
        file_put_contents($file, "<?php
            function say(string \$line): void { fwrite(STDOUT, \$line . \"\\n\"); }
            \$client = new Duly\\Client({$client});
            \$lock = fopen(__FILE__, 'r');
            if (!flock(\$lock, LOCK_EX | LOCK_NB)) {
                while (\$client->queue('q')->counts()->reserved === 0) {
                    usleep(10000);
                }
                return new Duly\\Worker(new Duly\\Client({$client}, password: 'no'), ['q']);
            }
            \$GLOBALS['lock'] = \$lock;
            return (new Duly\\Worker(\$client, ['q']))->on('n', " . self::HANDLER . ');
        ');
        $program = $this->start([$file, '--processes', '2']);
        $program->hear('begin slow');
        $program->hear('all stop');
        $this->client->queue('gate')->push(1);
        self::assertSame(1, $program->end());
        self::assertStringContainsString('end slow', $program->said());
    }

    public function testAHandlerThatExitsWithOneIsNoReasonToStopAll(): void
    {
        $this->queue->push(1, name: 'n', maxRetries: 0);
        $this->queue->push(2, name: 'n');
        $program = $this->supervise('function (int $data) { $data === 1 ? exit(1) : say("end $data"); }');
        $program->hear('ended with exit code 1 after ');
        $program->hear('end 2');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testABootstrapThatExitsWithZeroIsStartedAgainAfterPausesThatGrow(): void
    {
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        file_put_contents($file, '<?php file_put_contents(__FILE__ . ".starts", ".", FILE_APPEND); die("no data");');
        $program = $this->start([$file]);
        $line = '/worker process \d+ ended before it was ready after [\d.]+ s; another one starts in ([\d.]+) s/';
        Server::until(fn (): bool => preg_match_all($line, $program->said()) >= 5, 'it is not said');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        preg_match_all($line, $program->said(), $found);
        foreach (array_map('floatval', $found[1]) as $n => $pause) {
            // Half of it is drawn.
            self::assertEqualsWithDelta(0.075 * 2 ** $n, $pause, 0.025 * 2 ** $n + 0.05);
        }
        // One may have been started just before the signal.
        self::assertContains((int) filesize("{$file}.starts") - count($found[1]), [0, 1], $program->said());
    }

    public function testAClockThatIsSetBackHoldsUpNoReplacement(): void
    {
        $clock = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        // An hour earlier each time that somebody looks.
        file_put_contents($clock, '<?php namespace Duly;
            function microtime(bool $asFloat = false): float { static $looks = 0; return 1e9 - 3600 * $looks++; }
            function time(): int { return (int) microtime(true); }
        ');
        $file = $this->bootstrap('fn () => posix_kill(getmypid(), SIGKILL)');
        $this->queue->push(1, name: 'n', maxRetries: 0);
        $program = $this->start([$file], "-dauto_prepend_file={$clock}");
        $program->hear('was killed by signal 9 after ');
        Server::until(fn () => count($this->childrenOf($program->pid())) === 1, 'it was not replaced');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testNoExitStatusOfAHandlerStopsAll(): void
    {
        foreach ([121, 2] as $status) {
            $this->queue->push($status, name: 'n', id: "exit {$status}", maxRetries: 0);
            $program = $this->supervise('fn (int $status) => $status === 0 ? say("end 0") : exit($status)');
            $program->hear("job 'exit {$status}' (n, attempt 1) of queue 'q' failed for good: its handler ended");
            $program->hear("ended with exit code {$status} after ");
            $this->queue->push(0, name: 'n');
            $program->hear('end 0');
            $program->signal(SIGTERM);
            self::assertSame(0, $program->end());
        }
    }

    public function testItReplacesOneWorkerAfterTheOtherAtHupAndUsr2(): void
    {
        foreach ([SIGHUP, SIGUSR2] as $signal) {
            $this->queue->push('slow', name: 'n');
            $program = $this->supervise(self::HANDLER, '--processes', '2');
            $program->hear('begin slow');
            Server::until(fn () => count($this->queue->workers()) === 2, 'not both are there');
            $before = $this->childrenOf($program->pid());
            $program->signal($signal);
            // Sent to all of its processes, as by systemctl kill.
            array_map(static fn (int $pid): bool => posix_kill($pid, $signal), $before);
            $program->hear('reloading: one worker process after the other ends after its jobs');
            $this->client->queue('gate')->push(1);
            $program->hear('end slow');
            $replaced = fn (): bool => array_intersect($before, $this->childrenOf($program->pid())) === []
                && count($this->childrenOf($program->pid())) === 2;
            Server::until($replaced, 'they are not replaced');
            $this->queue->push('quick', name: 'n');
            $program->hear('end quick');
            self::assertStringNotContainsString('ended with', $program->said());
            $program->signal(SIGTERM);
            self::assertSame(0, $program->end());
        }
    }

    public function testCodeThatIsBrokenWhenItIsReloadedStopsNobodyElse(): void
    {
        $client = var_export($this->server->url(), true) . ', ' . var_export($this->prefix, true);
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        $code = "<?php return (new Duly\\Worker(new Duly\\Client({$client}), ['q']))"
            . '->on("n", function (): void { fwrite(STDOUT, "ran in " . getmypid() . ";"); });';
        file_put_contents($file, $code);
        $program = $this->start([$file, '--processes=2']);
        Server::until(fn () => count($this->queue->workers()) === 2, 'not both are there');
        file_put_contents($file, '<?php return 5;');
        $program->signal(SIGUSR2);
        $ended = fn (): int => substr_count($program->said(), 'ended with exit code 2 after ');
        Server::until(fn () => $ended() === 2, 'no other one starts');
        $this->queue->push(1, name: 'n');
        $program->hear('ran in');
        file_put_contents($file, $code);
        Server::until(fn () => count($this->queue->workers()) === 2, 'it does not come back');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
    }

    public function testAnExceptionThatEndsAWorkerIsNoReasonToStopAll(): void
    {
        $url = var_export($this->server->url(), true) . ', ' . var_export($this->prefix, true);
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        file_put_contents($file, "<?php
            pcntl_signal(SIGUSR1, fn () => throw new OverflowException('a secret'));
            \$worker = new Duly\\Worker(new Duly\\Client({$url}), ['q']);
            return \$worker->on('other', fn () => null);
        ");
        $program = $this->start([$file]);
        Server::until(fn () => count($this->queue->workers()) === 1, 'no worker starts');
        posix_kill($this->queue->workers()[0]->pid, SIGUSR1);
        $program->hear("the worker ends: OverflowException at {$file}:2");
        $program->hear('ended with exit code 1 after ');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        // The message of an exception may hold the data of a job.
        self::assertStringNotContainsString('a secret', $program->said());
    }

    public function testItSaysOnceWhatIsServed(): void
    {
        $this->queue->pushMany(array_fill(0, 3, ['data' => 'quick', 'name' => 'n']));
        $program = $this->supervise(self::HANDLER, '--processes=2', '-q', 'q=3', '-q', '7=1', '--max-jobs=1');
        Server::until(fn () => substr_count($program->said(), 'end quick') === 3, 'not all jobs ran');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        $line = "duly-worker: serving q, 7 with 2 processes; Ctrl-C stops\n";
        self::assertSame(1, substr_count($program->said(), $line), $program->said());
        self::assertSame(1, substr_count($program->said(), 'serving'));
    }

    public function testWithoutPcntlOneWorkerRunsInTheForeground(): void
    {
        $this->queue->push('quick', name: 'n');
        $this->queue->push('quick', name: 'n');
        $off = '-ddisable_functions=pcntl_fork,pcntl_signal,pcntl_signal_dispatch,pcntl_async_signals';
        $program = $this->start([$this->bootstrap(self::HANDLER), '--max-jobs=2'], $off);
        self::assertSame(0, $program->end());
        self::assertStringContainsString(': one worker runs in this process', $program->said());
        self::assertSame(2, substr_count($program->said(), "in {$this->lastPid($program)};"));
        self::assertStringContainsString("serving q with 1 process; Ctrl-C stops\n", $program->said());
    }

    public function testAProgramSupervisesWorkersOfItsOwn(): void
    {
        $this->queue->push('quick', name: 'n');
        $program = $this->program('
            $before = pcntl_signal_get_handler(SIGTERM);
            $supervisor = new Duly\Supervisor(function () use ($client): void {
                $worker = new Duly\Worker($client, ["q"], grace: 40);
                $worker->on("n", fn (string $data) => say("$data in " . getmypid() . ";"))->run();
            }, 2, log: fn (string $line) => say("log: $line"));
            say("status " . $supervisor->run());
            say(pcntl_signal_get_handler(SIGTERM) === $before ? "as before" : "signals are lost");
        ');
        $program->hear('quick in ');
        $killed = $this->lastPid($program);
        posix_kill($killed, SIGKILL);
        $program->hear("log: worker process {$killed} was killed by signal 9 after ");
        Server::until(fn () => count($this->childrenOf($program->pid())) === 2, 'it was not replaced');
        $program->signal(SIGHUP);
        $program->hear('log: reloading');
        $this->queue->push('again', name: 'n');
        $program->hear('again in ');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        $said = $program->said();
        self::assertSame(1, substr_count($said, "log: serving q with 2 processes; Ctrl-C stops\n"), $said);
        self::assertStringContainsString('stopping: jobs that run may go on for 40 s', $said);
        self::assertStringContainsString("status 0\nas before\n", $said);
    }

    public function testWhatIsNoWorkerSaysWhenItIsReady(): void
    {
        $program = $this->program('
            Duly\Supervisor::ready(); // not supervised: nothing
            $supervisor = new Duly\Supervisor(function (): int {
                $ends = false;
                pcntl_signal(SIGINT, function () use (&$ends): void { $ends = true; });
                Duly\Supervisor::ready(grace: 50);
                say("begin in " . getmypid() . ";");
                while (!$ends) {
                    usleep(10_000);
                }
                return 7;
            }, grace: 1, log: say(...));
            say("status " . $supervisor->run());
        ');
        $program->hear('begin in ');
        $program->hear('ready with 1 process; Ctrl-C stops');
        $program->signal(SIGINT);
        $program->hear('jobs that run may go on for 50 s');
        self::assertSame(0, $program->end());
        self::assertStringContainsString("status 7\n", $program->said());
    }

    /** @testWith [""]
     *           ["throw new LogicException('the disk is full');"]
     */
    public function testAnExceptionOfAProcessIsNotCaughtByWhatHasStartedIt(string $logThrows): void
    {
        $program = $this->program('
            $log = function (string $line): void { say("log: $line"); ' . $logThrows . ' };
            try {
                $fails = fn () => throw new DomainException("s3cret");
                exit((new Duly\Supervisor($fails, log: $log))->run());
            } catch (Throwable $error) {
                say("caught it in " . getmypid());
            }
        ');
        $program->hear('the worker ends: DomainException at ');
        $program->hear('ended with exit code 255 after ');
        $program->signal(SIGTERM);
        self::assertSame(0, $program->end());
        self::assertStringNotContainsString('caught it', $program->said());
        self::assertStringNotContainsString('s3cret', $program->said());
    }

    public function testAPermanentErrorOfAProgramsOwnWorkerStopsAll(): void
    {
        $program = $this->program('
            $work = fn () => (new Duly\Worker($client, ["q"]))->run(); // it has no handler
            exit((new Duly\Supervisor($work, 2, log: say(...)))->run());
        ');
        self::assertSame(1, $program->end());
        self::assertMatchesRegularExpression('/the worker ends: .*InvalidArgumentException: /', $program->said());
        self::assertStringContainsString('all stop', $program->said());
    }

    public function testWrongArgumentsOfASupervisorAreRefused(): void
    {
        $none = static fn (): int => 0;
        $processes = 'a supervisor has 1 to 10000 processes';
        foreach ([[-1, 0.0], [0, 0.0], [10_001, 0.0]] as $wrong) {
            $error = $this->thrownBy(InvalidArgumentException::class, fn () => new Supervisor($none, ...$wrong));
            self::assertStringContainsString($processes, $error->getMessage());
        }
        foreach ([-1.0, NAN, INF, 86_401.0] as $grace) {
            $error = $this->thrownBy(InvalidArgumentException::class, fn () => new Supervisor($none, 1, $grace));
            self::assertStringContainsString('grace', $error->getMessage());
        }
    }

    private function supervise(string $handler, string ...$arguments): Program
    {
        return $this->start([$this->bootstrap($handler), ...$arguments]);
    }

    private function bootstrap(string $handler): string
    {
        $file = $this->server->folder() . '/' . bin2hex(random_bytes(6)) . '.php';
        $client = var_export($this->server->url(), true) . ', ' . var_export($this->prefix, true);
        file_put_contents($file, "<?php
            function say(string \$line): void { fwrite(STDOUT, \$line . \"\\n\"); }
            \$client = new Duly\\Client({$client});
            return (new Duly\\Worker(\$client, ['q']))->on('n', {$handler});
        ");
        return $file;
    }

    /** @param list<string> $arguments */
    private function start(array $arguments, string ...$options): Program
    {
        $all = var_export([...$options, self::PROGRAM, ...$arguments], true);
        return $this->program('pcntl_exec(PHP_BINARY, ' . $all . ');');
    }

    private function lastPid(Program $program): int
    {
        preg_match_all('/ in (\d+);/', $program->said(), $found);
        return (int) end($found[1]);
    }

    /** @return list<int> */
    private function childrenOf(int $pid): array
    {
        $children = (string) @file_get_contents("/proc/{$pid}/task/{$pid}/children");
        return array_map('intval', preg_split('/\s+/', $children, -1, PREG_SPLIT_NO_EMPTY) ?: []);
    }
}
