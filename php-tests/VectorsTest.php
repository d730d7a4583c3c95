<?php

declare(strict_types=1);

namespace Duly\Tests;

use Duly\Client;
use Duly\Exception\ExceptionInterface;
use Duly\RetryPolicy;

/** Runs the vectors of conformance/vectors, each through the server: see docs/wire-format.md. */
final class VectorsTest extends ServerTestCase
{
    /** What a record without anything of its own says. */
    private const EMPTY = [
        'data' => '1', 'error' => '', 'attempts' => 0, 'max_attempts' => 5, 'time' => 0, 'name' => null, 'key' => null,
        'priority' => 5, 'timeout' => null, 'headers' => [],
    ];

    /** @return iterable<string, array{array<string, mixed>}> */
    private static function vectors(string $file): iterable
    {
        $json = (string) file_get_contents(__DIR__ . "/../conformance/vectors/{$file}.json");
        foreach (json_decode($json, true, 512, JSON_THROW_ON_ERROR)['vectors'] as $number => $vector) {
            yield "{$number} {$vector['name']}" => [$vector];
        }
    }

    /** @return iterable<string, array{array<string, mixed>}> */
    public static function packages(): iterable
    {
        return self::vectors('packages');
    }

    /** @return iterable<string, array{array<string, mixed>}> */
    public static function records(): iterable
    {
        return self::vectors('records');
    }

    /** @return iterable<string, array{array<string, mixed>}> */
    public static function data(): iterable
    {
        return self::vectors('data');
    }

    /** @return iterable<string, array{array<string, mixed>}> */
    public static function retries(): iterable
    {
        return self::vectors('retry');
    }

    /**
     * @param array<string, mixed> $vector
     * @dataProvider packages
     */
    public function testPackage(array $vector): void
    {
        $id = $vector['decodes_to']['id'] ?? '';
        $this->check($vector, $id === '' ? 'x' : $id, self::given($vector, 'package'));
    }

    /**
     * @param array<string, mixed> $vector
     * @dataProvider records
     */
    public function testRecord(array $vector): void
    {
        if ($vector['came_back'] === '') {
            // An empty value says the same as none: nothing was kept.
            unset($vector['error']);
            $vector += ['decodes_to' => self::EMPTY];
        }
        if ($vector['came_back'] !== null) {
            $this->server->command('HSET', "{$this->prefix}{q}:returned", $vector['id'], $vector['came_back']);
        }
        $this->check($vector, $vector['id'], self::given($vector, 'record'));
    }

    /**
     * @param array<string, mixed> $vector
     * @dataProvider data
     */
    public function testData(array $vector): void
    {
        $raw = self::given($vector, 'data');
        if (isset($vector['error'])) {
            $push = fn () => $this->queue->push(null, raw: $raw);
            self::assertSame($vector['error'], $this->thrownBy(ExceptionInterface::class, $push)->getKind());
            return;
        }
        $this->queue->push(null, raw: $raw);
        self::assertSame($raw, $this->queue->reserve()->raw);
    }

    /**
     * @param array<string, mixed> $vector
     * @dataProvider retries
     */
    public function testRetry(array $vector): void
    {
        $queue = (new Client($this->server->url(), $this->prefix, manualClock: true))->queue('q');
        $queue->setClock($now = 1790000000.0);
        $kind = (string) array_key_first($vector['policy']);
        $settings = $vector['policy'][$kind] + ($kind === 'exponential' ? ['jitter' => false] : []);
        $policy = RetryPolicy::{$kind}(...$settings);
        $queue->push(1, id: 'a', retry: $policy, maxRetries: $vector['max_retries']);
        foreach ($vector['waits'] as $wait) {
            self::assertEqualsWithDelta($wait, $queue->reserve()->fail('x'), 0.0005);
            // One that waits for nothing is ready, and has no due time.
            self::assertEqualsWithDelta($wait, ($queue->find('a')->at ?? $now) - $now, 0.0005);
            $queue->setClock($now += $wait);
        }
        self::assertNull($queue->reserve()->fail('x'));
    }

    /**
     * Stores the record as somebody else would have, and reads it by the usual way.
     *
     * @param array<string, mixed> $vector
     */
    private function check(array $vector, string $id, string $record): void
    {
        $this->server->command('HSET', "{$this->prefix}{q}:jobs", $id, $record);
        $this->server->command('RPUSH', "{$this->prefix}{q}:ready:5", $id);
        $job = $this->queue->reserve();
        if (isset($vector['error'])) {
            self::assertNull($job);
            if ($vector['error'] === 'format_too_new') {
                [$view] = $this->queue->peek('delayed');
                self::assertSame($record, $view->package, 'it is left to newer workers');
                return;
            }
            [$view] = $this->queue->peek('failed');
            self::assertSame($id, $view->id);
            // What is kept beside the record is written anew when the job fails, and can be read from then on.
            self::assertTrue($view->undecodable !== null || str_starts_with($view->error, 'undecodable record: '));
            if ($view->undecodable !== null) {
                self::assertSame($record, $view->package, 'nothing is lost');
            }
            return;
        }
        self::assertNotNull($job, (string) json_encode(array_column($this->queue->peek('failed'), 'undecodable')));
        $expected = $vector['decodes_to'];
        self::assertSame(self::text($expected['data']), $job->raw);
        self::assertSame(self::text($expected['error']), $job->error);
        // A record without a time takes it from an id that looks like one of duly's own, and a package may have any id.
        self::assertSame($expected['time'] === 0 ? $job->pushedAt : $expected['time'], $job->pushedAt);
        self::assertSame($expected['attempts'], $job->attempts);
        self::assertSame($expected['max_attempts'], $job->maxRetries);
        self::assertSame($expected['name'], $job->name);
        self::assertSame($expected['key'], $job->key);
        self::assertSame($expected['priority'], $job->priority);
        self::assertEquals($expected['timeout'], $job->timeout);
        self::assertEquals($expected['result_ttl'] ?? null, $job->resultTtl);
        self::assertEquals($expected['expires'] ?? null, $job->expires);
        self::assertEquals($expected['headers'], $job->headers);
    }

    /** @param array<string, mixed> $vector */
    private static function given(array $vector, string $field): string
    {
        $coded = $vector["{$field}_base64"] ?? null;
        return $coded === null ? self::text($vector[$field]) : (string) base64_decode($coded, true);
    }

    /** @param string|list<string|array{repeat: string, times: int}> $parts */
    private static function text(string|array $parts): string
    {
        $spelled = array_map(
            static fn (string|array $part): string =>
                is_string($part) ? $part : str_repeat($part['repeat'], $part['times']),
            (array) $parts,
        );
        return implode('', $spelled);
    }
}
