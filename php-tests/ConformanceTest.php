<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\ExceptionInterface;
use Duly\Found;
use Duly\Job;
use Duly\JobView;
use Duly\Lock;
use Duly\Message;
use Duly\NameRates;
use Duly\Published;
use Duly\NewJob;
use Duly\PushSummary;
use Duly\Queue;
use Duly\QueuePage;
use Duly\Rates;
use Duly\RateWindow;
use Duly\Release;
use Duly\RetryPolicy;
use Duly\RunCounts;
use Duly\Schedule;
use Duly\ScheduleView;
use Duly\Spread;
use Duly\SyncReport;
use Duly\TopicPage;
use PHPUnit\Framework\TestCase;

/** Runs the scenarios of conformance/scenarios; what they mean is written in conformance/README.md. */
final class ConformanceTest extends TestCase
{
    private const FOLDER = __DIR__ . '/../conformance/scenarios';
    private const START_S = 1790000000;
    private const ON_TOPIC = [
        'publish', 'subscribe', 'unsubscribe', 'pull', 'read', 'topic', 'members', 'bound',
    ];
    private const ON_JOB = ['ack', 'fail', 'release', 'extend', 'progress', 'note_start'];
    private const ON_SCHEDULES = [
        'remove_schedule' => 'remove', 'get_schedule' => 'get', 'pause_schedule' => 'pause',
        'resume_schedule' => 'resume', 'run_schedule' => 'runNow', 'next_slots' => 'next', 'list_schedules' => 'list',
        'fire_due' => 'fireDue',
    ];
    private const TOTALS = [
        'pushed', 'acked', 'retried', 'released', 'failed', 'reclaimed', 'cancelled', 'requeued', 'purged', 'trimmed',
        'expired',
    ];

    private static int $number = 0;

    private string $prefix;
    /** @var array<string, mixed> */
    private array $settings;
    /** @var array<string, Client> */
    private array $clients = [];
    private Client $client;
    private Queue $queue;
    /** @var array<string, mixed> */
    private array $kept = [];
    private float $now = self::START_S;

    /** @return iterable<string, array{array<string, mixed>}> */
    public static function scenarios(): iterable
    {
        foreach (glob(self::FOLDER . '/*.json') ?: [] as $file) {
            // Objects stay objects: `{}` and `[]` are not the same expectation.
            foreach (json_decode((string) file_get_contents($file), false, 512, JSON_THROW_ON_ERROR) as $scenario) {
                yield basename($file, '.json') . '/' . $scenario->name => [$scenario];
            }
        }
    }

    /** @dataProvider scenarios */
    public function testScenario(\stdClass $scenario): void
    {
        self::allow($scenario, ['name', 'steps', 'why', 'max_data_bytes']);
        $this->prefix = 'c' . self::$number++ . ':';
        $this->settings = isset($scenario->max_data_bytes) ? ['maxDataBytes' => $scenario->max_data_bytes] : [];
        $this->advance(0);
        foreach ($scenario->steps as $index => $step) {
            try {
                $this->step($step);
            } catch (Unexpected $error) {
                $text = substr((string) json_encode($step), 0, 300);
                self::fail('step ' . ($index + 1) . ", {$text}: {$error->getMessage()}");
            }
        }
        self::assertNotEmpty($scenario->steps);
    }

    private function step(\stdClass $step): void
    {
        self::allow($step, ['do', 'args', 'client', 'as', 'expect', 'error', 'job_id', 'job_state', 'says']);
        $name = $step->client ?? 'a';
        $this->client = $this->clients[$name] ??= $this->newClient();
        $this->queue = $this->client->queue('q');
        try {
            $result = $this->verb($step->do, get_object_vars($this->resolve($step->args ?? new \stdClass())));
        } catch (ExceptionInterface $error) {
            $this->checkError($step, $error);
            return;
        } catch (\Error $error) {
            throw new Unexpected("unknown or wrong argument: {$error->getMessage()}");
        }
        if (isset($step->error)) {
            throw new Unexpected('it gave ' . json_encode($this->shown($result)) . " and should fail: {$step->error}");
        }
        if (isset($step->as)) {
            $this->kept[$step->as] = $result;
        }
        if (property_exists($step, 'expect')) {
            $this->match($this->shown($this->resolve($step->expect)), $this->shown($result), 'the result');
        }
    }

    /** Each has connections of its own: the extension shares them between clients with the same arguments. */
    private function newClient(): Client
    {
        $settings = ['deadline' => 15 + count($this->clients), 'manualClock' => true] + $this->settings;
        return new Client(Server::shared()->url(), $this->prefix, ...$settings);
    }

    private function checkError(\stdClass $step, ExceptionInterface $error): void
    {
        if ($error->getKind() !== ($step->error ?? null)) {
            throw new Unexpected("it failed with {$error->getKind()}: {$error->getMessage()}");
        }
        if (isset($step->job_id) && $error->getJobId() !== $this->resolve($step->job_id)) {
            throw new Unexpected("the error's job id is {$error->getJobId()}");
        }
        if ($error->getJobState() !== ($step->job_state ?? $error->getJobState())) {
            throw new Unexpected("the error's job state is {$error->getJobState()}");
        }
        if (!str_contains($error->getMessage(), $step->says ?? '')) {
            throw new Unexpected("the message does not say '{$step->says}': {$error->getMessage()}");
        }
    }

    /** @param array<string, mixed> $arguments */
    private function verb(string $verb, array $arguments): mixed
    {
        $known = match (true) {
            in_array($verb, self::ON_JOB, true) => function () use ($verb, $arguments): mixed {
                $job = $arguments['job'];
                unset($arguments['job']);
                if (isset($arguments['headers'])) {
                    $arguments['headers'] = (array) $arguments['headers'];
                }
                $job->{self::camel($verb)}(...self::camelCase($arguments));
                return null;
            },
            $verb === 'set_limits' => function () use ($arguments): void {
                $names = array_map(get_object_vars(...), get_object_vars($arguments['names'] ?? new \stdClass()));
                $this->queue->setLimits(...['names' => $names] + self::camelCase($arguments));
            },
            $verb === 'requeue' => fn (): array => array_column($this->queue->requeue(...$arguments['ids']), 'outcome'),
            $verb === 'queue' => function () use ($arguments): void {
                $this->client->queue(...$arguments);
            },
            $verb === 'push' => fn (): string => $this->queue->push(...$this->pushed($arguments)),
            $verb === 'push_many' => fn (): PushSummary => $this->pushMany(...$arguments),
            $verb === 'lock' => fn (): Lock => $this->client->lock(...$arguments),
            $verb === 'unlock' => fn (): bool => $arguments['lock']->release(),
            $verb === 'lock_for_job' => fn (): ?Lock => self::lockForJob(...self::camelCase($arguments)),
            in_array($verb, self::ON_TOPIC, true) => fn (): mixed => $this->onTopic($verb, ...$arguments),
            $verb === 'pull_all' => fn (): array => $this->client->pull(...$arguments),
            $verb === 'queues' => fn (): QueuePage => $this->client->queues(...$arguments),
            $verb === 'topics' => fn (): TopicPage => $this->client->topics(...$arguments),
            $verb === 'topics_of' => fn (): array => $this->client->topicsOf(...$arguments),
            isset(self::ON_SCHEDULES[$verb]) =>
                fn (): mixed => $this->queue->schedules->{self::ON_SCHEDULES[$verb]}(...$arguments),
            $verb === 'put_schedule' => fn (): string =>
                $this->queue->schedules->put($arguments['name'], $this->schedule($arguments['schedule'])),
            $verb === 'sync_schedules' => fn (): SyncReport => $this->queue->schedules->sync(
                $arguments['owner'],
                array_map($this->schedule(...), get_object_vars($arguments['schedules'])),
            ),
            $verb === 'advance' => fn () => $this->advance(...$arguments),
            $verb === 'redis' => fn (): string => $this->redis(...$arguments),
            // All others are methods of the queue, by the same name.
            method_exists($this->queue, self::camel($verb)) =>
                fn (): mixed => $this->queue->{self::camel($verb)}(...self::camelCase($arguments)),
            default => throw new Unexpected("unknown verb {$verb}"),
        };
        return $known();
    }

    /**
     * @param array<string, mixed> $arguments
     * @return array<string, mixed>
     */
    private function pushed(array $arguments): array
    {
        $arguments = $arguments + ['raw' => '1'];
        if (isset($arguments['retry'])) {
            $arguments['retry'] = self::policy($arguments['retry']);
        }
        if (isset($arguments['headers'])) {
            $arguments['headers'] = (array) $arguments['headers'];
        }
        return self::camelCase($arguments);
    }

    private function schedule(\stdClass $arguments): Schedule
    {
        $given = get_object_vars($arguments);
        $job = new NewJob(...$this->pushed(get_object_vars($given['job'] ?? new \stdClass())));
        unset($given['job']);
        return new Schedule($job, ...self::camelCase($given));
    }

    private static function policy(\stdClass $wire): RetryPolicy
    {
        $kind = (string) array_key_first((array) $wire);
        $settings = (array) $wire->{$kind} + ($kind === 'exponential' ? ['jitter' => false] : []);
        return RetryPolicy::{$kind}(...$settings);
    }

    /**
     * @param list<\stdClass> $jobs
     */
    private function pushMany(array $jobs, int $times = 1): PushSummary
    {
        $numbered = function () use ($jobs, $times): iterable {
            for ($number = 0; $number < $times; $number++) {
                foreach ($jobs as $job) {
                    $fields = (array) $job;
                    foreach (array_intersect(['raw', 'id', 'key'], array_keys($fields)) as $name) {
                        $fields[$name] = str_replace('{i}', (string) $number, $fields[$name]);
                    }
                    yield new NewJob(...$this->pushed($fields));
                }
            }
        };
        return $this->queue->pushMany($numbered());
    }

    private static function lockForJob(Job $job, string $name, int|float $retryAfter, mixed ...$more): ?Lock
    {
        try {
            return $job->lock($name, $retryAfter, ...$more);
        } catch (Release $release) {
            $job->release($release->after, $release->reason);
            return null;
        }
    }

    private function onTopic(string $verb, string $topic, mixed ...$arguments): mixed
    {
        $topic = $this->client->topic($topic);
        return match ($verb) {
            'publish' => $topic->publishAll(...$arguments),
            'read' => $topic->ack(...$arguments),
            'topic' => $topic->info(...$arguments),
            'bound' => $topic->setBounds(...$arguments),
            default => $topic->{$verb}(...$arguments),
        };
    }

    private function advance(int|float $seconds): void
    {
        $this->now += $seconds;
        $this->redis(['HSET', '{q}:meta', 'clock', (string) (int) round($this->now * 1000)]);
    }

    /** @param list<string> $command */
    private function redis(array $command): string
    {
        $socket = substr(Server::shared()->url(), strlen('unix://'));
        $spelled = array_map(
            fn (string $word): string => (str_starts_with($word, '{q}:') ? $this->prefix : '') . $word,
            $command,
        );
        $streams = [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]];
        $process = proc_open(['redis-cli', '-e', '-s', $socket, ...$spelled], $streams, $pipes);
        $printed = rtrim((string) stream_get_contents($pipes[1]));
        return proc_close($process) === 0 ? $printed : throw new Unexpected($printed);
    }

    private function resolve(mixed $value): mixed
    {
        if (is_string($value) && str_starts_with($value, '$')) {
            $path = explode('.', substr($value, 1));
            $name = array_shift($path);
            if (!array_key_exists($name, $this->kept)) {
                throw new Unexpected("unknown reference {$value}");
            }
            $found = $this->kept[$name];
            foreach ($path as $part) {
                $shown = is_array($found) ? $found : (array) $this->shown($found);
                $found = $shown[$part] ?? throw new Unexpected("unknown reference {$value}");
            }
            return $found;
        }
        if ($value instanceof \stdClass && array_keys((array) $value) === ['repeat', 'times']) {
            return str_repeat($value->repeat, $value->times);
        }
        if (is_array($value)) {
            return array_map($this->resolve(...), $value);
        }
        return $value instanceof \stdClass ? (object) array_map($this->resolve(...), (array) $value) : $value;
    }

    /** What a verb gave in the words of the scenarios: snake_case, and maps as objects. */
    private function shown(mixed $value): mixed
    {
        if (is_array($value)) {
            return array_map($this->shown(...), $value);
        }
        if (!is_object($value) || $value instanceof \stdClass) {
            return $value;
        }
        if ($value instanceof Published) {
            return (object) ['count' => count($value->ids), 'cut_off' => $value->cutOff];
        }
        if ($value instanceof Message) {
            return (object) [
                'topic' => $value->topic,
                'id' => $value->id,
                'data' => $value->data(false),
                'deliveries' => $value->deliveries,
            ];
        }
        $isOfRates = $value instanceof Rates || $value instanceof RateWindow || $value instanceof NameRates;
        if ($isOfRates || $value instanceof RunCounts) {
            return (object) array_map($this->shown(...), get_object_vars($value));
        }
        if ($value instanceof Spread) {
            $rounded = static fn (int|float|null $one): int|float|null => is_float($one) ? round($one, 3) : $one;
            return (object) array_map($rounded, get_object_vars($value));
        }
        $shown = [];
        if ($value instanceof ScheduleView) {
            $of = $value->schedule;
            $shown = ['cron' => $of?->cron, 'tz' => $of?->tz, 'every' => $of?->every];
        }
        foreach (get_object_vars($value) as $name => $one) {
            $word = strtolower((string) preg_replace('/[A-Z]/', '_$0', $name));
            $shown[$word] = match ($word) {
                'waited' => (int) $one, // in whole seconds so that one that was not waited for has waited 0
                'headers' => (object) $one,
                'progress', 'running', 'queues', 'topics', 'jobs', 'subscriptions', 'cut_off', 'fires', 'events',
                'runs', 'job' => $this->shown($one),
                'names' => (object) array_map(static fn (array $limits): object => (object) $limits, $one),
                'totals' => (object) ($one + array_fill_keys(self::TOTALS, 0)),
                default => $one,
            };
        }
        if ($value instanceof Job || $value instanceof JobView || $value instanceof Found) {
            $shown['extra'] = (object) $value->extra(false);
        }
        return (object) $shown;
    }

    private function match(mixed $expected, mixed $found, string $where): void
    {
        $isNumber = static fn (mixed $value): bool => is_int($value) || is_float($value);
        $unless = static fn (bool $holds) => $holds ?: throw new Unexpected(
            "{$where} is " . json_encode($found) . ' and should be ' . json_encode($expected),
        );
        if (is_array($expected)) {
            $unless(is_array($found) && count($found) === count($expected));
            foreach ($expected as $index => $one) {
                $this->match($one, $found[$index], "{$where}[{$index}]");
            }
        } elseif (!$expected instanceof \stdClass) {
            $unless($isNumber($expected) && $isNumber($found) ? $expected == $found : $expected === $found);
        } elseif (is_string($found)) {
            $unless(array_keys((array) $expected) === ['contains'] && str_contains($found, $expected->contains));
        } elseif ($isNumber($found)) {
            $unless(array_keys((array) $expected) === ['greater_than'] && $found > $expected->greater_than);
        } else {
            $unless(is_array($found) || $found instanceof \stdClass);
            $fields = (array) $found + (is_array($found) ? ['length' => count($found)] : []);
            foreach ((array) $expected as $name => $one) {
                $unless(array_key_exists($name, $fields));
                $this->match($one, $fields[$name], "{$where}.{$name}");
            }
        }
    }

    /** @param list<string> $words */
    private static function allow(\stdClass $given, array $words): void
    {
        $unknown = array_diff(array_keys((array) $given), $words);
        if ($unknown !== []) {
            throw new Unexpected('unknown words ' . implode(', ', $unknown));
        }
    }

    private static function camel(string $name): string
    {
        return lcfirst(str_replace('_', '', ucwords($name, '_')));
    }

    /**
     * @param array<string, mixed> $arguments
     * @return array<string, mixed>
     */
    private static function camelCase(array $arguments): array
    {
        return array_combine(array_map(self::camel(...), array_keys($arguments)), $arguments);
    }
}
