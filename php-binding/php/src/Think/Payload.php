<?php

declare(strict_types=1);

namespace Duly\Think;

use Duly\Job;

/**
 * What think-queue writes of a job: `{"job": handler, "maxTries": ..., "timeout": ..., "data": ...}`. It is the data of
 * the jobs that `think\facade\Queue` pushes; other programs push plain data and a name.
 *
 * @internal of `Duly\Think`
 */
final class Payload
{
    private const LONGEST_NAME = 128;
    /** The longest timeout that duly takes: 100 years. */
    private const LONGEST_RUN_S = 3_153_600_000.0;

    /** Whether think-queue pushed this job, here or on its own Redis driver, from which the bridge brought it. */
    public static function isOf(mixed $data, Job $job): bool
    {
        return is_array($data) && is_string($data['job'] ?? null) && array_key_exists('data', $data)
            && (array_key_exists('maxTries', $data) || $data['job'] === $job->name);
    }

    /**
     * The name that operators and limits see: the handler, or the class of a job object. A long one is none.
     *
     * @param mixed $job as `Queue::push` takes it
     */
    public static function name(mixed $job): ?string
    {
        $name = is_object($job) ? $job::class : (string) $job;
        return $name === '' || strlen($name) > self::LONGEST_NAME ? null : $name;
    }

    /** The same of a payload that is written already. */
    public static function nameOf(mixed $payload): ?string
    {
        $command = $payload['data']['commandName'] ?? null;
        return self::name(is_string($command) ? $command : ($payload['job'] ?? ''));
    }

    /**
     * In seconds; null if it says none, so that what its worker says counts. 0 means no limit, whatever that says.
     */
    public static function timeoutOf(mixed $payload): ?float
    {
        $timeout = $payload['timeout'] ?? null;
        if (!is_numeric($timeout)) {
            return null;
        }
        return $timeout > 0 ? (float) $timeout : self::LONGEST_RUN_S;
    }

    /**
     * What `think\queue\Job::payload` gives, with our id and the failures so far.
     *
     * @return array<string, mixed>
     */
    public static function decoded(mixed $data, Job $job): array
    {
        $ours = ['id' => $job->id, 'attempts' => $job->attempts];
        if (self::isOf($data, $job)) {
            return $ours + $data;
        }
        $timeout = $job->timeout === null ? null : (int) ceil($job->timeout);
        $tries = $job->maxRetries + 1;
        return $ours + ['job' => $job->name ?? '', 'maxTries' => $tries, 'timeout' => $timeout, 'data' => $data];
    }

    /** The same as text, `getRawBody`. */
    public static function of(Job $job): string
    {
        $ours = ',"id":' . self::json($job->id) . ',"attempts":' . $job->attempts . '}';
        if (self::isOf($job->data(), $job)) {
            // The bytes stay as they are; of two members of one name the last one counts.
            return substr(rtrim($job->raw), 0, -1) . $ours;
        }
        $timeout = $job->timeout === null ? 'null' : (string) (int) ceil($job->timeout);
        $tries = $job->maxRetries + 1;
        return '{"job":' . self::json($job->name ?? '') . ",\"maxTries\":{$tries},\"timeout\":{$timeout},\"data\":"
            . $job->raw . $ours;
    }

    private static function json(string $text): string
    {
        return json_encode($text, JSON_THROW_ON_ERROR);
    }
}
