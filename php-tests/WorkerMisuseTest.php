<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Exception\InvalidArgumentException;
use Duly\Job;
use Duly\Release;
use Duly\Retry;
use Duly\Worker;

/** Mistakes in a program that would stay silent, and do harm later. */
final class WorkerMisuseTest extends ServerTestCase
{
    public function testClassesOfAnotherVersionThanTheExtensionAreRefused(): void
    {
        $folder = sys_get_temp_dir() . '/duly-classes-' . bin2hex(random_bytes(6));
        $source = dirname(__DIR__) . '/php-binding';
        mkdir("{$folder}/bin", recursive: true);
        exec('cp -r ' . escapeshellarg("{$source}/php") . ' ' . escapeshellarg($folder));
        copy("{$source}/bin/duly-worker", "{$folder}/bin/duly-worker");
        foreach (['Version', 'Worker'] as $class) {
            $file = "{$folder}/php/src/{$class}.php";
            $code = (string) file_get_contents($file);
            file_put_contents($file, str_replace("CLASSES = '" . phpversion('duly') . "'", "CLASSES = '9.9.9'", $code));
        }
        $new = "require '{$folder}/php/src/Worker.php'; new Duly\\Worker(new Duly\\Client(), ['q']);";
        foreach (["{$folder}/bin/duly-worker " . __FILE__, '-r ' . escapeshellarg($new)] as $program) {
            exec(PHP_BINARY . " {$program} 2>&1", $said, $status);
            self::assertNotSame(0, $status);
            $text = 'the extension duly is ' . phpversion('duly') . ', and these classes are of 9.9.9';
            self::assertStringContainsString($text, implode("\n", $said));
            $said = [];
        }
        exec('rm -r ' . escapeshellarg($folder));
    }

    public function testFunctionsThatYieldAreRefused(): void
    {
        $worker = $this->worker();
        $yields = static function (): \Generator {
            yield 1;
        };
        $object = new class {
            public function __invoke(): \Generator
            {
                yield 1;
            }

            public static function run(): \Generator
            {
                yield 1;
            }
        };
        foreach ([$yields, $object, [$object, 'run'], $object::class . '::run', $object->run(...)] as $callable) {
            $refused = [
                "the handler for the name 'n'" => static fn () => $worker->on('n', $callable),
                'the handler for jobs without a name' => static fn () => $worker->on('', $callable),
                'the before hook' => static fn () => $worker->before($callable),
                'the after hook' => static fn () => $worker->after($callable),
                'the onFailure hook' => static fn () => $worker->onFailure($callable),
                'the onFailed hook' => static fn () => $worker->onFailed($callable),
                'log' => fn () => new Worker($this->client, ['q'], log: $callable),
                'report' => fn () => new Worker($this->client, ['q'], report: $callable),
            ];
            foreach ($refused as $what => $call) {
                $error = $this->thrownBy(InvalidArgumentException::class, $call);
                self::assertStringStartsWith("{$what} must not yield", $error->getMessage());
            }
        }
        // Nothing of it was taken.
        $this->thrownBy(InvalidArgumentException::class, $worker->run(...));
    }

    public function testAGeneratorThatAHandlerGivesIsAFailure(): void
    {
        $lines = [];
        $ran = 0;
        $yields = static function () use (&$ran): \Generator {
            $ran++;
            yield 'secret';
        };
        $worker = $this->worker(3, $lines)->on('n', static fn () => $yields())->on('result', static fn () => $yields());
        $worker->on('hooked', static function () use (&$ran): void {
            $ran++;
        })->before(static fn (Job $job) => $job->name === 'hooked' ? $yields() : null);
        $ids = [];
        foreach (['n', 'result', 'hooked'] as $name) {
            $ids[] = $this->queue->push(1, name: $name, maxRetries: 0, resultTtl: $name === 'result' ? 60 : null);
        }
        $report = $worker->run();
        self::assertSame([0, 3, 0], [$report['acked'], $report['failed'], $ran]);
        foreach (['the handler', 'the handler', 'the before hook'] as $at => $what) {
            self::assertStringContainsString("failed for good: {$what} gave a generator", $lines[$at]);
            self::assertStringContainsString('gave a generator', (string) $this->queue->find($ids[$at])?->error);
        }
    }

    public function testAGeneratorThatAHookGivesIsSaid(): void
    {
        $lines = [];
        $yields = static fn () => (static fn () => yield 1)();
        $worker = $this->worker(2, $lines)->on('works', static fn () => 1);
        $worker->on('fails', static fn () => throw new \DomainException());
        $worker->after($yields)->onFailure($yields)->onFailed($yields);
        $this->queue->push(1, id: 'a', name: 'works');
        $this->queue->push(1, id: 'b', name: 'fails', maxRetries: 0);
        $report = $worker->run();
        self::assertSame([1, 1], [$report['acked'], $report['failed']]);
        foreach (['after' => 'a (works', 'onFailure' => 'b (fails', 'onFailed' => 'b (fails'] as $hook => $job) {
            $job = str_replace(' ', "' ", $job);
            $said = "{$hook} for job '{$job}, attempt 1) of queue 'q': the {$hook} hook gave a generator";
            self::assertStringContainsString($said, implode("\n", $lines));
        }
    }

    public function testANameHasOneHandler(): void
    {
        $worker = $this->worker();
        foreach (["the name 'n'" => 'n', "the name '5'" => '5', 'jobs without a name' => ''] as $said => $name) {
            $worker->on((string) $name, static fn () => 1);
            $second = static fn () => $worker->on((string) $name, static fn () => 2);
            $error = $this->thrownBy(InvalidArgumentException::class, $second);
            self::assertStringContainsString("a handler for {$said} already", $error->getMessage());
        }
    }

    public function testWhatIsAddedToACopyOfAWorkerIsNotAddedToTheOther(): void
    {
        $calls = [];
        $notes = static function (string $what) use (&$calls): \Closure {
            return static function () use ($what, &$calls): void {
                $calls[] = $what;
            };
        };
        $first = $this->worker(2)->on('both', $notes('both'))->before($notes('before both'));
        $second = clone $first;
        $first->on('n', $notes('first'))->before($notes('before first'));
        $second->on('n', static fn () => throw new \DomainException())->restartOn([\DomainException::class]);
        foreach (['n', 'both', 'n', 'both', 'both'] as $name) {
            $this->queue->push(1, name: $name, maxRetries: 0);
        }
        self::assertSame(2, $first->run()['acked']);
        self::assertSame(['before both', 'before first', 'first', 'before both', 'before first', 'both'], $calls);
        self::assertSame(1, $second->run()['failed'], 'it ends at the exception');
        self::assertSame(2, $second->run()['acked']);
        self::assertSame(['before both', 'before both', 'both', 'before both', 'both'], array_slice($calls, 6));
    }

    /** It was not asked to stop, has no job, and may run while the other one does. */
    public function testACopyOfAWorkerThatRunsDoesNotRun(): void
    {
        $ran = [];
        $worker = $this->worker(1);
        $worker->on('outer', function (int $data, Job $job) use ($worker, &$ran): void {
            $this->queue->push(2, name: 'inner');
            $worker->stop();
            $copy = clone $worker;
            $copy->on('inner', static function (int $data) use (&$ran): void {
                $ran[] = $data;
            })->run();
            $ran[] = $data;
            $job->extend(10);
        });
        $this->queue->push(1, name: 'outer');
        self::assertSame([1, [2, 1]], [$worker->run()['acked'], $ran]);
    }

    public function testANameThatNoJobCanHaveHasNoHandler(): void
    {
        foreach ([str_repeat('n', 129), "a\n", "\xff"] as $name) {
            $this->thrownBy(InvalidArgumentException::class, fn () => $this->worker()->on($name, static fn () => 1));
        }
    }

    public function testRestartOnRefusesWhatIsNoException(): void
    {
        $refused = [
            ['there is no class int', 5],
            ['there is no class null', null],
            ['there is no class stdClass', new \stdClass()],
            ["there is no class 'No\\Such\\Exception'", 'No\Such\Exception'],
            ["there is no class ''", ''],
            ["'stdClass' is none", \stdClass::class],
        ];
        foreach ($refused as [$said, $class]) {
            $call = fn () => $this->worker()->restartOn([\PDOException::class, $class]);
            $error = $this->thrownBy(InvalidArgumentException::class, $call);
            self::assertStringContainsString($said, $error->getMessage());
        }
    }

    public function testRestartOnMeansOneClassAndNotAllOfItsShortName(): void
    {
        eval('namespace Acme {
            class Exception extends \Exception {}
            class PDOException extends Exception {}
            class RuntimeException extends \Exception {}
            interface Gone extends \Throwable {}
            class GoneAway extends \Exception implements Gone {}
        }
        namespace Other { class PDOException extends \Exception {} }');
        $ends = function (string $named, string $thrown): bool {
            $this->queue->pushMany(array_fill(0, 2, ['data' => 1, 'name' => 'n', 'maxRetries' => 0]));
            $worker = $this->worker(2)->restartOn([$named]);
            $failed = $worker->on('n', static fn () => throw new $thrown('gone'))->run()['failed'];
            $this->queue->purge('ready');
            return $failed === 1;
        };
        self::assertFalse($ends('Acme\Exception', 'DomainException'));
        self::assertTrue($ends('Acme\Exception', 'Acme\PDOException'));
        self::assertFalse($ends('Acme\PDOException', 'Other\PDOException'));
        self::assertTrue($ends('PDOException', 'Other\PDOException'));
        self::assertTrue($ends('pdoexception', 'Other\PDOException'));
        self::assertFalse($ends('RuntimeException', 'Acme\RuntimeException'));
        self::assertTrue($ends('RuntimeException', 'UnexpectedValueException'));
        self::assertTrue($ends('Acme\Gone', 'Acme\GoneAway'));
        self::assertTrue($ends('Throwable', 'DomainException'));
    }

    /** @param list<string> $lines */
    private function worker(?int $maxJobs = null, array &$lines = []): Worker
    {
        $log = static function (string $line) use (&$lines): void {
            $lines[] = $line;
        };
        return new Worker($this->client, ['q'], maxJobs: $maxJobs, log: $log);
    }

    public function testAParameterByReferenceChangesNothingOfTheWorkers(): void
    {
        $lines = [];
        $worker = $this->worker(2, $lines)->on('works', static function (mixed &$data, ?Job &$job): void {
            $data = $job = null;
        })->on('fails', static function (mixed &$data, ?Job &$job): void {
            $data = $job = null;
            throw new \DomainException();
        });
        $called = [];
        foreach (['before', 'after', 'onFailure', 'onFailed'] as $hook) {
            $worker->{$hook}(static function (mixed &$job, mixed &$thrown = null) use (&$called, $hook): void {
                $called[] = "{$hook} " . ($job instanceof Job ? $job->name : 'none');
                $job = $thrown = null;
            });
            $worker->{$hook}(static function (mixed &$job) use (&$called, $hook): void {
                $called[] = "{$hook} " . ($job instanceof Job ? $job->name : 'none');
            });
        }
        $this->queue->push([1], name: 'works');
        $this->queue->push([1], id: 'a', name: 'fails', maxRetries: 0);
        $report = $worker->run();
        self::assertSame([1, 1], [$report['acked'], $report['failed']]);
        $twice = static fn (string $what): array => [$what, $what];
        self::assertSame([
            ...$twice('before works'), ...$twice('after works'),
            ...$twice('before fails'), ...$twice('onFailure fails'), ...$twice('onFailed fails'),
        ], $called);
        self::assertStringContainsString("job 'a' (fails, attempt 1) of queue 'q' failed for good: Domain", $lines[0]);
    }

    public function testAWorkerIsNotRunInAHandlerOfItsOwn(): void
    {
        $lines = [];
        $worker = $this->worker(2, $lines);
        $other = $this->worker(1)->on('inner', static fn () => null);
        $worker->on('same', static fn () => $worker->run())->on('other', fn () => $other->run());
        $this->queue->push(1, name: 'same', maxRetries: 0);
        $this->queue->push(1, name: 'other');
        $this->queue->push(1, name: 'inner', delay: 0.001);
        $report = $worker->run();
        self::assertSame([1, 1], [$report['acked'], $report['failed']]);
        self::assertStringContainsString('failed for good: Duly\Exception\InvalidArgumentException at ', $lines[0]);
        self::assertSame(0, $this->queue->counts()->ready);
    }

    public function testATimeThatIsNoneIsRefusedWhereItIsWritten(): void
    {
        foreach ([-1, NAN, INF, 4e9] as $after) {
            foreach ([Release::class, Retry::class] as $class) {
                $error = $this->thrownBy(InvalidArgumentException::class, static fn () => new $class($after));
                self::assertStringStartsWith('after: seconds must be', $error->getMessage());
            }
        }
        $lines = [];
        $failures = 0;
        $worker = $this->worker(1, $lines)->on('n', static fn () => throw new Release(-5));
        $worker->onFailure(static function () use (&$failures): void {
            $failures++;
        });
        $this->queue->push(1, name: 'n', maxRetries: 0);
        $worker->run();
        self::assertSame(1, $failures);
        self::assertStringContainsString(' at ' . __FILE__ . ':' . (__LINE__ - 7), $lines[0]);
    }

    public function testADateWithAFormatOfItsOwnIsNamed(): void
    {
        $date = new class extends \DateTimeImmutable {
            public function format(string $format): string
            {
                return 'tomorrow';
            }
        };
        $error = $this->thrownBy(InvalidArgumentException::class, fn () => $this->queue->push(1, at: $date));
        self::assertStringContainsString("has a format() of its own, which must know 'U.u'", $error->getMessage());
    }
}
