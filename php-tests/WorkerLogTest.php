<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Exception\TooLargeException;
use Duly\Fail;
use Duly\Job;
use Duly\Retry;
use Duly\RetryPolicy;
use Duly\Worker;

/** What a worker says of its jobs: enough to find a failure, and never their data. */
final class WorkerLogTest extends ServerTestCase
{
    public function testNoLineHasWhatAnExceptionSays(): void
    {
        $logger = new RecordingLogger();
        $worker = new Worker($this->client, ['q'], maxJobs: 4, logger: $logger, log: $logger->line(...));
        $throw = static fn (mixed $data) => throw new \DomainException("saw {$data}");
        $worker->on('throws', $throw)->after(static fn (Job $job) => $throw($job->data()));
        $worker->on('settles', static function (string $data, Job $job) use ($throw): void {
            $job->ack();
            $throw($data);
        });
        $worker->on('works', static fn () => null);
        $worker->on('hooked', static fn () => throw new \DomainException('broken'));
        $worker->onFailed(static fn (Job $job) => $throw($job->data()));
        $worker->onFailure(static fn (Job $job) => $job->name === 'hooked' ? ['data' => ['secret' => NAN]] : null);
        $worker->onFailure(static fn (Job $job) => $throw($job->data()));
        foreach (['throws', 'settles', 'works', 'hooked'] as $name) {
            $this->queue->push('secret', id: $name, name: $name, maxRetries: 0);
        }
        $worker->run();
        $said = implode("\n", $logger->lines);
        foreach (['onFailure for', 'onFailed for', 'after for', 'was settled', 'what fail does not take'] as $line) {
            self::assertStringContainsString($line, $said);
        }
        self::assertStringNotContainsString('secret', $said . implode("\n", array_column($logger->records, 1)));
        foreach ($logger->records as [$level, $message, $context]) {
            self::assertSame($level !== 'debug', isset($context['exception']), $message);
        }
    }

    public function testReasonsThatAreDulysOwnAreSaid(): void
    {
        $lines = [];
        $log = static function (string $line) use (&$lines): void {
            $lines[] = $line;
        };
        $odd = static fn (string $class) => new class ($class) implements \JsonSerializable {
            public function __construct(private string $class)
            {
            }

            public function jsonSerialize(): never
            {
                throw new $this->class('secret');
            }
        };
        $worker = new Worker($this->client, ['q'], maxJobs: 7, log: $log);
        $worker->on('large', static fn () => str_repeat('secret', 1 << 18));
        $worker->on('no JSON', static fn () => ['secret' => NAN]);
        $worker->on('odd', static fn (string $class) => $odd($class));
        $worker->on('retry', static fn () => throw new Retry(message: 'secret'));
        $expected = [
            [null, 1, "job '%s' (no name, attempt 1) of queue 'q' failed for good: this worker has no handler for "
                . 'jobs without a name'],
            ['nope', 1, "job '%s' (nope, attempt 1) of queue 'q' failed for good: this worker has no handler for "
                . "the name 'nope'"],
            ['large', 1, ': the result has 1572866 bytes and the limit is'],
            ['no JSON', 1, "failed for good: what the handler gave cannot be JSON; the job's error says where"],
            ['odd', InvalidArgumentException::class, 'failed for good: ' . InvalidArgumentException::class . ' at '],
            ['odd', TooLargeException::class, 'failed for good: ' . TooLargeException::class . ' at '],
            ['retry', 1, 'failed for good: ' . Retry::class . ' at '],
        ];
        $ids = [];
        foreach ($expected as [$name, $data]) {
            $ids[] = $this->queue->push($data, name: $name, maxRetries: 0, resultTtl: 60);
        }
        $worker->run();
        // A machine that is slow gives prefetched jobs back, and says so.
        $isFailure = static fn (string $line) => str_contains($line, ' failed for good: ');
        $lines = array_values(array_filter($lines, $isFailure));
        self::assertCount(count($expected), $lines);
        foreach ($expected as $at => [, , $said]) {
            self::assertStringContainsString(sprintf($said, $ids[$at]), $lines[$at]);
        }
        self::assertStringNotContainsString('secret', implode("\n", $lines));
        self::assertStringContainsString("at 'secret'", (string) $this->queue->find($ids[3])?->error);
    }

    public function testAReportThatThrowsHidesNoFailure(): void
    {
        $logger = new RecordingLogger();
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $report = static fn () => throw new \UnexpectedValueException('secret');
        $worker = new Worker($this->client, ['q'], maxJobs: 1, logger: $logger, report: $report);
        $worker->on('n', static fn () => throw new \DomainException('secret'))->run();
        $job = "job 'a' (n, attempt 1) of queue 'q'";
        [$ofReport, $ofHandler] = array_column($logger->records, 1);
        self::assertStringStartsWith("report for {$job} threw UnexpectedValueException at ", $ofReport);
        self::assertStringStartsWith("{$job} failed for good: DomainException at ", $ofHandler);
        self::assertInstanceOf(\DomainException::class, $logger->records[1][2]['exception']);
        self::assertStringNotContainsString('secret', $ofReport . $ofHandler);
    }

    public function testAFailureWhoseHookSettlesTheJobIsLogged(): void
    {
        foreach (['onFailure', 'onFailed'] as $hook) {
            $logger = new RecordingLogger();
            $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
            $worker = new Worker($this->client, ['q'], maxJobs: 1, logger: $logger);
            $worker->on('n', static fn () => throw new \DomainException('secret'));
            $worker->{$hook}(static fn (Job $job) => $job->ack())->run();
            $said = "job 'a' (n, attempt 1) of queue 'q' was settled by a hook behind its failure: DomainException at ";
            self::assertStringStartsWith($said, $logger->records[0][1] ?? 'nothing');
            self::assertCount(1, $logger->records);
            self::assertNull($this->queue->find('a'));
        }
    }

    public function testAFailureWhoseOnFailureHookOutlivesTheTimeoutIsLogged(): void
    {
        $logger = new RecordingLogger();
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0, timeout: 0.2);
        $worker = new Worker($this->client, ['q'], maxJobs: 1, logger: $logger);
        $worker->on('n', static fn () => throw new \DomainException('secret'));
        $worker->onFailure(fn () => Server::until(fn () => $this->queue->find('a')?->state === 'failed', 'it goes on'));
        $worker->run();
        $said = implode("\n", array_column($logger->records, 1));
        $line = "job 'a' (n, attempt 1) of queue 'q' was interrupted behind its failure: DomainException at ";
        self::assertStringContainsString($line, $said);
        self::assertStringNotContainsString('secret', $said);
    }

    public function testAnAnonymousClassIsNamedWithoutTheBytesBehindItsName(): void
    {
        $lines = [];
        $log = static function (string $line) use (&$lines): void {
            $lines[] = $line;
        };
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $worker = new Worker($this->client, ['q'], maxJobs: 1, log: $log);
        $worker->on('n', static fn () => throw new class ('no') extends \DomainException {
        });
        $worker->onFailed(static fn () => throw new class ('no') extends \Exception {
        })->run();
        self::assertStringContainsString('threw Exception@anonymous at ' . __FILE__, $lines[0]);
        self::assertStringContainsString('failed for good: DomainException@anonymous at ' . __FILE__, $lines[1]);
        $stored = (string) $this->queue->find('a')?->error;
        self::assertStringStartsWith('DomainException@anonymous: no at ' . __FILE__, $stored);
        self::assertStringNotContainsString("\0", $stored . implode('', $lines));
    }

    public function testALineIsLoggedWhenNoFileCanBeOpened(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], maxJobs: 1);
            $worker->on("n", function () {
                posix_setrlimit(POSIX_RLIMIT_NOFILE, 3, 3);
                throw new DomainException();
            })->run();
        ');
        self::assertSame(0, $program->end(), $program->said());
        $line = '/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 duly\[\d+\] error: job \'a\' .* failed for good: Domain/m';
        self::assertMatchesRegularExpression($line, $program->said());
    }

    public function testALoggerGetsTheContextAndNeverTheData(): void
    {
        $logger = new RecordingLogger();
        $this->queue->push('secret', id: 'a', name: 'works');
        $this->queue->push('secret', id: 'b', name: 'fails', maxRetries: 0);
        $worker = new Worker($this->client, ['q'], maxJobs: 2, logger: $logger, logDone: true);
        $error = new \DomainException('broken');
        $worker->on('works', static fn () => null)->on('fails', static fn () => throw $error)->run();
        $context = ['queue' => 'q', 'id' => 'a', 'name' => 'works', 'attempt' => 1];
        $other = ['queue' => 'q', 'id' => 'b', 'name' => 'fails', 'attempt' => 1, 'exception' => $error];
        $place = "{$error->getFile()}:{$error->getLine()}";
        self::assertSame([
            ['debug', "job 'a' (works, attempt 1) of queue 'q' is done", $context],
            ['error', "job 'b' (fails, attempt 1) of queue 'q' failed for good: DomainException at {$place}", $other],
        ], $logger->records);
        $this->thrownBy(InvalidArgumentException::class, fn () => new Worker($this->client, ['q'], logger: $this));
    }

    public function testAFailureIsFoundFromTheLogAlone(): void
    {
        $package = realpath($this->server->folder()) . '/vendor/package.php';
        mkdir(dirname($package));
        file_put_contents($package, '<?php return [
            static fn ($data) => throw new RangeException("saw {$data}"),
            static fn (callable $ownCode) => $ownCode(),
        ];');
        [$throw, $callBack] = require $package;
        unlink($package) && rmdir(dirname($package));
        $first = __LINE__ + 2;
        $handlers = [
            'package' => $throw,
            'own' => static fn (string $data) => $throw($data),
            'called back' => static fn (string $data) => $callBack(
                static fn () => array_map($throw, [$data]),
            ),
            'duly' => fn () => (new Worker($this->client, ['q']))->on('', static fn () => yield 1),
            'caused' => static function (string $data) use ($throw): void {
                try {
                    $throw($data);
                } catch (\RangeException $cause) {
                    throw new Fail($data, $cause);
                }
            },
            'often caused' => static fn (string $data) => throw array_reduce(
                range(1, 12),
                static fn (?\Throwable $cause) => new \LogicException($data, 0, $cause),
            ),
        ];
        $logger = new RecordingLogger();
        $worker = new Worker($this->client, ['q'], maxJobs: count($handlers), logger: $logger);
        foreach ($handlers as $name => $handler) {
            $this->queue->push('secret', name: $name, maxRetries: 0);
            $worker->on($name, $handler);
        }
        $worker->run();
        $why = static fn (array $record): string => explode(' failed for good: ', $record[1])[1];
        $why = array_map($why, $logger->records);
        $at = static fn (int $line): string => 'at ' . __FILE__ . ':' . ($first + $line);
        $thrown = "(thrown at {$package}:2)";
        self::assertSame("RangeException at {$package}:2", $why[0], 'not the line that runs the worker');
        self::assertSame("RangeException {$at(1)} {$thrown}", $why[1]);
        self::assertSame("RangeException {$at(3)} {$thrown}", $why[2]);
        $misuse = preg_quote(InvalidArgumentException::class . " {$at(5)} (thrown at ", '~');
        self::assertMatchesRegularExpression("~^{$misuse}\\S+/Misuse\.php:\\d+\\)$~", $why[3]);
        self::assertSame(Fail::class . " {$at(10)}; caused by RangeException {$at(8)} {$thrown}", $why[4]);
        self::assertSame(implode('; caused by ', array_fill(0, 9, "LogicException {$at(15)}")), $why[5]);

        $this->queue->push('secret', id: 'elsewhere', maxRetries: 0);
        $this->queue->reserve()?->fail('by hand');
        $worker = new Worker($this->client, ['q'], log: $logger->line(...));
        // The last one that is added is the first. The other wants something that can be called, and gets a job.
        $worker->on('n', $throw)->onFailed($callBack)->onFailed(static fn () => $worker->stop())->run();
        $threw = "onFailed for job 'elsewhere' (no name, attempt 1) of queue 'q' threw TypeError at {$package}:3";
        self::assertContains($threw, $logger->lines);
    }

    public function testCausesThatFormACircleAreNamedOnceAndTheWorkerGoesOn(): void
    {
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $this->queue->push(2, name: 'n', maxRetries: 0);
        $this->queue->push(3, name: 'n');
        $program = $this->program('
            $worker = new Duly\Worker($client, ["q"], maxJobs: 3, log: "say");
            $worker->on("n", function (int $data) {
                $last = $data === 1 ? new RangeException() : new UnderflowException();
                $thrown = new LogicException("", 0, new DomainException("", 0, $last));
                (new ReflectionProperty(Exception::class, "previous"))->setValue($last, $thrown);
                throw $thrown;
            });
            $worker->restartOn([UnderflowException::class, PDOException::class]);
            say(json_encode($worker->run()));
        ');
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringContainsString('"failed":2', $program->said(), 'the second ends it, by a cause');
        $at = 'at \S+\.php:\d+';
        $line = "LogicException {$at}; caused by DomainException {$at}; caused by RangeException {$at}\n";
        self::assertMatchesRegularExpression("~^job 'a' .* failed for good: {$line}~", $program->said());
        self::assertStringContainsString('caused by RangeException', (string) $this->queue->find('a')?->error);
    }

    public function testAJobThatIsDoneIsLoggedOnlyWhenAskedFor(): void
    {
        $logger = new RecordingLogger();
        $this->queue->push(1, name: 'n');
        $worker = new Worker($this->client, ['q'], maxJobs: 1, logger: $logger);
        $worker->on('n', static fn () => null)->run();
        self::assertSame([], $logger->records);
    }

    public function testAFailureIsReportedOnceWhereAFrameworkReportsIt(): void
    {
        $logger = new RecordingLogger();
        $this->queue->push(1, id: 'a', name: 'n', maxRetries: 0);
        $this->queue->push(1, id: 'b', name: 'n');
        $reported = [];
        $report = static function (\Throwable $thrown, Job $job) use (&$reported): void {
            $reported[] = [$job->id, $thrown->getMessage()];
            if ($job->id === 'b') {
                throw new \LogicException('a report that fails');
            }
        };
        $worker = new Worker($this->client, ['q'], maxJobs: 2, logger: $logger, report: $report);
        $worker->on('n', static fn () => throw new \DomainException('mine'))->run();
        self::assertSame([['a', 'mine'], ['b', 'mine']], $reported);
        self::assertSame(['failed', 'delayed'], [$this->queue->find('a')?->state, $this->queue->find('b')?->state]);
        self::assertCount(2, $logger->records);
        self::assertStringStartsWith("report for job 'b' (n, attempt 1) of queue 'q' threw", $logger->records[0][1]);
        self::assertStringStartsWith("job 'b' (n, attempt 1) of queue 'q' failed; it runs", $logger->records[1][1]);
    }

    public function testTheStoredErrorHasThePlacesOfAllCauses(): void
    {
        $cause = new \UnderflowException('the database has gone away');
        $errors = [
            'a' => new \DomainException("no \xff order", 0, $cause),
            'b' => new Fail('given up', $cause),
            'c' => new \DomainException(),
        ];
        foreach (array_keys($errors) as $id) {
            $this->queue->push($id, id: $id, name: 'n', maxRetries: 0);
        }
        $worker = new Worker($this->client, ['q'], maxJobs: 3, log: static fn () => null);
        $worker->on('n', static fn (string $id) => throw $errors[$id])->run();
        $at = static fn (\Throwable $error): string => "{$error->getFile()}:{$error->getLine()}";
        $caused = "; caused by UnderflowException: the database has gone away at {$at($cause)}";
        self::assertSame([
            "DomainException: no \u{fffd} order at {$at($errors['a'])}{$caused}",
            "given up{$caused}",
            "DomainException at {$at($errors['c'])}",
        ], array_map(fn (string $id): ?string => $this->queue->find($id)?->error, ['a', 'b', 'c']));
        $this->queue->requeue('c');
        $this->queue->reserve()?->fail($errors['a'], final: true);
        self::assertStringEndsWith($caused, (string) $this->queue->find('c')?->error);
    }

    public function testWhatTheEngineTellsOfAJobHasTheSameContext(): void
    {
        $logger = new RecordingLogger();
        $this->queue->push('secret', id: 'a', name: 'long', maxRetries: 0, timeout: 0.1);
        $worker = new Worker($this->client, ['q'], maxJobs: 1, logger: $logger);
        $worker->on('long', static function (): void {
            while (true) {
                usleep(1000);
            }
        })->run();
        $reported = 'job a (long, attempt 1) of queue q is interrupted: '
            . 'it ran longer than its timeout and has no retries left: it goes to `failed`';
        $context = ['attempt' => 1, 'id' => 'a', 'name' => 'long', 'queue' => 'q'];
        // That it is in `failed` is reported once, by whichever worker hears of it first: this one, or one after it.
        $until = microtime(true) + 20;
        for ($rounds = 0; count($logger->records) < 3 && microtime(true) < $until || $rounds < 3; $rounds++) {
            $this->queue->push(1, name: 'short');
            (new Worker($this->client, ['q'], maxJobs: 1, logger: $logger))->on('short', static fn () => null)->run();
            usleep(20_000);
        }
        self::assertCount(3, $logger->records);
        [$level, $text, $about] = array_shift($logger->records);
        self::assertStringStartsWith("job 'a' (long, attempt 1) of queue 'q' was interrupted at ", $text);
        self::assertStringContainsString(__FILE__, $text);
        self::assertSame(['warning', 'a'], [$level, $about['id']]);
        self::assertSame(['warning', $reported, $context], $logger->records[0]);
        [$level, $text, $about] = $logger->records[1];
        self::assertSame(['error', $context], [$level, $about]);
        self::assertStringContainsString('failed for good', $text);
    }

    public function testALoggerThatThrowsChangesNothingAndItsLineIsOnStandardError(): void
    {
        foreach (['fails', 'works', 'works'] as $name) {
            $this->queue->push(1, name: $name, retry: RetryPolicy::fixed(60));
        }
        $program = $this->program('
            $full = new class {
                public function log(): void
                {
                    throw new OverflowException("the disk is full");
                }
            };
            $worker = new Duly\Worker($client, ["q"], logger: $full, logDone: true, maxJobs: 3);
            $worker->after(fn () => throw new LogicException());
            $worker->on("works", fn () => say("works"))->on("fails", fn () => throw new DomainException());
            say(json_encode($worker->run()));
        ');
        self::assertSame(0, $program->end(), $program->said());
        self::assertStringContainsString('{"acked":2,"expired":0,"failed":1,"lost":0,"released":0}', $program->said());
        self::assertMatchesRegularExpression(
            "~ duly\\[\\d+\\] warning: job '\\S+' \\(fails, attempt 1\\) of queue 'q' failed; it runs again in 60 s: "
            . "DomainException at /\\S+ \\(the logger threw OverflowException at /~",
            $program->said(),
        );
        $counts = $this->queue->counts();
        self::assertSame([0, 1, 0], [$counts->ready, $counts->delayed, $counts->reserved]);
    }
}
