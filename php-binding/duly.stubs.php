<?php

/**
 * What the duly extension declares, for editors and static analysis. Never loaded: the extension is the real thing.
 *
 * php-tests/StubsTest.php compares this with the extension. Spans and times are seconds.
 */

declare(strict_types=1);

namespace Duly {
    /**
     * The way to the queues of one server.
     *
     * Nothing is sent before the first call. Clients with the same arguments share their connections, also from one
     * request of php-fpm to the next. Safe to use after a fork.
     */
    final class Client
    {
        /**
         * @param ?string $url `redis://`, `rediss://` or `unix://`; if null the environment's `DULY_URL`, else
         *     `redis://127.0.0.1:6379`
         * @param ?string $prefix in front of all keys; `duly:` if null
         * @param ?string $username wins over the URL's
         * @param ?string $password wins over the URL's
         * @param ?string $caFile PEM file of the authorities to trust, for `rediss://`
         * @param ?string $clientCertFile PEM file, together with `clientKeyFile`
         * @param ?string $clientKeyFile PEM file
         * @param int|float|null $connectTimeout of one attempt to connect; 3 if null
         * @param int|float|null $commandTimeout of one attempt to get an answer; 5 if null
         * @param int|float|null $deadline of a whole call with its retries; 15 if null
         * @param bool $allowEviction also push to a server that may evict keys, and so lose jobs
         * @param ?int $maxDataBytes the largest data of a job; 1 MiB if null
         * @param ?string $durability what a push waits for: `none` (if null), `fsync` or `replicas:<n>`
         * @param bool $manualClock for tests: time stands still until `Queue::setClock`
         *
         * @throws Exception\InvalidArgumentException
         */
        public function __construct(
            ?string $url = null,
            ?string $prefix = null,
            ?string $username = null,
            #[\SensitiveParameter]
            ?string $password = null,
            ?string $caFile = null,
            ?string $clientCertFile = null,
            ?string $clientKeyFile = null,
            int|float|null $connectTimeout = null,
            int|float|null $commandTimeout = null,
            int|float|null $deadline = null,
            bool $allowEviction = false,
            ?int $maxDataBytes = null,
            ?string $durability = null,
            bool $manualClock = false,
        ) {
        }

        /**
         * The queue of this name, 1 to 128 bytes. Nothing is sent.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function queue(string $name): Queue
        {
        }

        /**
         * Leases the next job of these queues; a later queue gets a turn when the earlier ones are empty.
         *
         * @param list<Queue> $queues of this client
         * @param int|float|null $wait how long to wait for one; 0 if null
         * @param int|float|null $lease how long it may run without a renewal; 10 if null
         *
         * @return ?Job null when there is none until the wait is over
         *
         * @throws Exception\ExceptionInterface
         */
        public function reserveFrom(
            array $queues,
            int|float|null $wait = null,
            int|float|null $lease = null,
        ): ?Job {
        }

        /**
         * One round trip to the server.
         *
         * @throws Exception\ExceptionInterface
         */
        public function ping(): void
        {
        }
    }

    /** A queue of a client: `Client::queue` makes it. */
    final class Queue
    {
        /** The queue's name. */
        public readonly string $name;

        /**
         * Puts a job in, due at once unless `delay` or `at` says when.
         *
         * @param mixed $data what `json_encode` makes of it travels; refused are closures, resources, NaN, and text
         *     that is not UTF-8
         * @param ?string $name which handler runs it, 1 to 128 bytes
         * @param int|float|null $delay seconds until it is due
         * @param int|float|\DateTimeInterface|null $at when it is due, instead of `delay`; numbers are unix seconds
         * @param ?string $id its id, 1 to 128 bytes; one is made if null
         * @param ?string $key business key, 1 to 256 bytes: the queue holds one live job with it
         * @param ?int $priority 0 (first) to 9 (last); 5 if null
         * @param ?int $maxRetries how many retries it may have; 5 if null
         * @param ?RetryPolicy $retry how long to wait before each retry; 5 s, 10 s, 15 s, ... if null
         * @param int|float|null $timeout longest run in seconds: its lease is not renewed beyond
         * @param ?array<string, string> $headers travel with it, such as `traceparent`
         * @param ?string $onDuplicate `refuse` (if null), `keep` or `replace` the job that has this id or key
         * @param ?string $rawJson data that is JSON already, kept byte for byte; `data` is null then
         *
         * @return string the id; with `onDuplicate: 'keep'` that of the job that stays
         *
         * @throws Exception\DuplicateException the id or key is taken; `getJobId` says by which job
         * @throws Exception\ExceptionInterface
         */
        public function push(
            mixed $data,
            ?string $name = null,
            int|float|null $delay = null,
            int|float|\DateTimeInterface|null $at = null,
            ?string $id = null,
            ?string $key = null,
            ?int $priority = null,
            ?int $maxRetries = null,
            ?RetryPolicy $retry = null,
            int|float|null $timeout = null,
            ?array $headers = null,
            ?string $onDuplicate = null,
            ?string $rawJson = null,
        ): string {
        }

        /**
         * Puts any number of jobs in, 1,000 at a time: a generator of millions needs no memory.
         *
         * @param iterable<NewJob|array<string, mixed>> $jobs an array holds the arguments of `NewJob` by name
         * @param bool $ids also give the ids, in the order of the jobs
         *
         * @return array{created: int, kept: int, replaced: int, duplicates: int, ids?: list<string>}
         *
         * @throws Exception\ExceptionInterface
         */
        public function pushMany(iterable $jobs, bool $ids = false): array
        {
        }

        /**
         * Leases the next job. A signal's handler runs during the wait and may end it by an exception.
         *
         * @param int|float|null $wait how long to wait for one; 0 if null
         * @param int|float|null $lease how long it may run without a renewal; 10 if null
         *
         * @return ?Job null when there is none until the wait is over
         *
         * @throws Exception\ExceptionInterface
         */
        public function reserve(int|float|null $wait = null, int|float|null $lease = null): ?Job
        {
        }

        /**
         * Leases up to `max` jobs, 1 to 1,000; waits for the first only.
         *
         * @return list<Job>
         *
         * @throws Exception\ExceptionInterface
         */
        public function reserveMany(
            int $max,
            int|float|null $wait = null,
            int|float|null $lease = null,
        ): array {
        }

        /**
         * Acks many jobs.
         *
         * @param array<Job> $jobs
         *
         * @return list<bool> false where the lease was lost
         *
         * @throws Exception\ExceptionInterface
         */
        public function ackMany(array $jobs): array
        {
        }

        /**
         * Removes the job with this id in whatever state it is. A worker that is running it cannot ack it any more.
         *
         * @return ?array{id: string, was: string} null if there is no such job
         *
         * @throws Exception\ExceptionInterface
         */
        public function cancel(string $id): ?array
        {
        }

        /**
         * Removes the live job that holds this business key.
         *
         * @return ?array{id: string, was: string} null if there is none
         *
         * @throws Exception\ExceptionInterface
         */
        public function cancelKey(string $key): ?array
        {
        }

        /**
         * Gives a waiting job another due time, now if neither is given.
         *
         * @return string its id
         *
         * @throws Exception\NotFoundException
         * @throws Exception\ExceptionInterface
         */
        public function reschedule(
            string $id,
            int|float|null $delay = null,
            int|float|\DateTimeInterface|null $at = null,
        ): string {
        }

        /**
         * The same for the live job that holds this business key.
         *
         * @return string its id
         *
         * @throws Exception\NotFoundException
         * @throws Exception\ExceptionInterface
         */
        public function rescheduleKey(
            string $key,
            int|float|null $delay = null,
            int|float|\DateTimeInterface|null $at = null,
        ): string {
        }

        /**
         * Sends failed jobs round again, with no failures counted.
         *
         * @param array<string> $ids
         *
         * @return list<string> for each `ready`, `duplicate` (its key belongs to another job now) or `absent`
         *
         * @throws Exception\ExceptionInterface
         */
        public function requeue(array $ids): array
        {
        }

        /**
         * Sends all failed jobs round again.
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function requeueAll(): int
        {
        }

        /**
         * Removes all jobs that are `delayed`, `ready` or `failed`.
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function purge(string $state): int
        {
        }

        /**
         * Hands out no more jobs until `resume`.
         *
         * @throws Exception\ExceptionInterface
         */
        public function pause(): void
        {
        }

        /**
         * Hands out jobs again.
         *
         * @throws Exception\ExceptionInterface
         */
        public function resume(): void
        {
        }

        /**
         * Moves due jobs to ready by hand; every reserve does so by itself.
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function promote(): int
        {
        }

        /**
         * Takes back jobs whose lease is over by hand; every reserve does so by itself.
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function reclaim(): int
        {
        }

        /**
         * How many failed jobs the queue keeps, and for how long.
         *
         * @throws Exception\ExceptionInterface
         */
        public function keepFailed(int $max, int|float $age): void
        {
        }

        /**
         * How many jobs are in each state, and what comes next.
         *
         * @return array{delayed: int, ready: int, reserved: int, failed: int, paused: bool, oldestReadyAge: ?float,
         *     nextDueIn: ?float, nextLeaseEndIn: ?float, totals: array<string, int>}
         *
         * @throws Exception\ExceptionInterface
         */
        public function counts(): array
        {
        }

        /**
         * One page of the jobs that are `delayed`, `ready`, `reserved` or `failed`.
         *
         * @return list<array{id: string, state: string, at: ?float, name: ?string, key: ?string, raw: string,
         *     attempts: int, maxRetries: int, timeout: ?float, headers: array<string, string>, returns: int,
         *     error: string, priority: int, pushedAt: int, undecodable: ?string}>
         *
         * @throws Exception\ExceptionInterface
         */
        public function peek(string $state, int $offset = 0, int $limit = 100): array
        {
        }

        /**
         * Where the job with this id is: what `peek` gives, with the `token` of its lease and `why` it is not running.
         *
         * @return ?array<string, mixed> null if there is no such job
         *
         * @throws Exception\ExceptionInterface
         */
        public function find(string $id): ?array
        {
        }

        /**
         * The same for the live job that holds this business key.
         *
         * @return ?array<string, mixed> null if there is none
         *
         * @throws Exception\ExceptionInterface
         */
        public function findKey(string $key): ?array
        {
        }

        /**
         * For tests, with a client made with `manualClock: true`: sets the clock to these unix seconds.
         *
         * @throws Exception\ExceptionInterface
         */
        public function setClock(int|float $now): void
        {
        }
    }

    /** A reserved job: what was pushed, and the lease under which it may be run. */
    final class Job
    {
        public readonly string $id;
        /** The data exactly as it was pushed, as JSON. */
        public readonly string $raw;
        /** Which handler runs it. */
        public readonly ?string $name;
        /** The business key. */
        public readonly ?string $key;
        /** 0 (first) to 9 (last). */
        public readonly int $priority;
        /** Which run this is, 1 for the first. */
        public readonly int $attempt;
        /** Failures so far. */
        public readonly int $attempts;
        /** How many retries it may have. */
        public readonly int $maxRetries;
        /** The text of the last failure, or the empty string. */
        public readonly string $error;
        /** The fencing token of this lease: larger than that of every earlier lease of this job. */
        public readonly int $token;
        /** The queue's name. */
        public readonly string $queue;
        /** The longest run in seconds, if one is set. */
        public readonly ?float $timeout;
        /** When it was pushed, in unix seconds by the producer's clock. */
        public readonly int $pushedAt;
        /** @var array<string, string> what travels with the job */
        public readonly array $headers;
        /** Whether it was acked, failed or released through this object: a worker then leaves it alone. */
        public readonly bool $settled;

        /**
         * The data as `json_decode` gives it: JSON objects as arrays, or as objects with `assoc: false`.
         *
         * @throws Exception\CorruptException PHP cannot decode it; it is unharmed in `raw`
         */
        public function data(bool $assoc = true): mixed
        {
        }

        /**
         * Done: the job leaves the queue.
         *
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function ack(): void
        {
        }

        /**
         * Failed: the job's policy decides between another run later and `failed`.
         *
         * @param int|float|null $retryAfter seconds until the next run, instead of the policy's
         * @param bool $counted false: the count of failures stays
         * @param bool $final true: no more runs
         *
         * @return string what became of it: `retry` or `failed`
         *
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function fail(
            string $error,
            int|float|null $retryAfter = null,
            bool $counted = true,
            bool $final = false,
        ): string {
        }

        /**
         * Gives it back, not counted as a failure, to be reserved again at once or after so many seconds.
         *
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function release(int|float|null $after = null): void
        {
        }

        /**
         * Sets the lease to end so many seconds from now; 10 if null.
         *
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function extend(int|float|null $lease = null): void
        {
        }
    }

    /** A job for `Queue::pushMany`. */
    final class NewJob
    {
        /**
         * The arguments of `Queue::push`, which documents them.
         *
         * @param ?array<string, string> $headers
         *
         * @throws Exception\InvalidArgumentException
         */
        public function __construct(
            mixed $data,
            ?string $name = null,
            int|float|null $delay = null,
            int|float|\DateTimeInterface|null $at = null,
            ?string $id = null,
            ?string $key = null,
            ?int $priority = null,
            ?int $maxRetries = null,
            ?RetryPolicy $retry = null,
            int|float|null $timeout = null,
            ?array $headers = null,
            ?string $onDuplicate = null,
            ?string $rawJson = null,
        ) {
        }
    }

    /** How long to wait before each retry. */
    final class RetryPolicy
    {
        /**
         * The step times the number of failures. `linear(5)`, which is the default of all jobs: 5, 10, 15, ...
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function linear(int|float $step): RetryPolicy
        {
        }

        /**
         * Always the same wait.
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function fixed(int|float $delay): RetryPolicy
        {
        }

        /**
         * Base, then each time so many times longer, never longer than the cap; with jitter a random part of that.
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function exponential(
            float $base,
            float $factor = 2.0,
            float $cap = 3600.0,
            bool $jitter = true,
        ): RetryPolicy {
        }

        /**
         * These waits in turn; the last one repeats.
         *
         * @param array<int|float> $delays
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function list(array $delays): RetryPolicy
        {
        }
    }

    /**
     * Renews the leases of the jobs that it holds from a native thread, whatever PHP is doing meanwhile, until they are
     * let go, their timeout is over, or this object is gone. `Worker` uses it.
     */
    final class LeaseKeeper
    {
        /**
         * Every renewal sets leases to `lease` seconds, 10 if null; it renews every third of that. No thread runs
         * before the first `hold`.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function __construct(Client $client, int|float|null $lease = null)
        {
        }

        /**
         * Renews this job's lease from now on.
         *
         * @throws Exception\ExceptionInterface
         */
        public function hold(Job $job): void
        {
        }

        /** Renews this job's lease no more. */
        public function letGo(Job $job): void
        {
        }

        /**
         * The ids of jobs whose lease turned out to be lost since the last call: cancelled, or taken by another worker.
         *
         * @return list<string>
         */
        public function lost(): array
        {
        }
    }
}

namespace Duly\Exception {
    /** What every exception of duly is. The message names operation, queue and job, and never the data. */
    interface ExceptionInterface extends \Throwable
    {
        /** The kind in snake_case, the same in all languages: `lease_lost`. */
        public function getKind(): string;

        /** Whether trying again can help. */
        public function isTransient(): bool;

        /** Which call failed: `push`, `reserve`, ... */
        public function getOperation(): ?string;

        /** The queue's name, where there is one. */
        public function getQueue(): ?string;

        /** The id of the job, where there is one. */
        public function getJobId(): ?string;
    }

    /** An argument is refused before anything is sent; the message says what is right. */
    class InvalidArgumentException extends \InvalidArgumentException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The data is larger than `maxDataBytes`, or another field than its limit. */
    class TooLargeException extends \LengthException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** A job with this id or business key is there already; `getJobId` names it. */
    class DuplicateException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The lease of this job ended or was taken away: another worker may run it. */
    class LeaseLostException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** There is no such job. */
    class NotFoundException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server cannot be reached. Transient. */
    class UnreachableException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server did not answer in time. Transient. */
    class TimeoutException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server refuses the user name or the password. */
    class AuthenticationFailedException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server's user may not do this. */
    class PermissionDeniedException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server is a replica, or takes no writes for now. Transient. */
    class ReadOnlyException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server is loading, or busy with a script. Transient. */
    class BusyException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server is out of memory or disk. Transient. */
    class StorageFullException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server may evict keys, which loses jobs; `allowEviction: true` accepts that. */
    class EvictionPolicyException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server is too old, or cannot do this. */
    class UnsupportedException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The job is in, but not as durable as `durability` asks for. */
    class NotDurableException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** A record or the data of a job cannot be decoded. */
    class CorruptException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** A newer duly wrote this. */
    class FormatTooNewException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The server's answer makes no sense. Transient. */
    class ProtocolException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The embedded server cannot be started. */
    class EmbeddedException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** The call was interrupted. */
    class InterruptedException extends \RuntimeException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }

    /** A defect of duly; please report it. */
    class InternalException extends \LogicException implements ExceptionInterface
    {
        public function getKind(): string
        {
        }

        public function isTransient(): bool
        {
        }

        public function getOperation(): ?string
        {
        }

        public function getQueue(): ?string
        {
        }

        public function getJobId(): ?string
        {
        }
    }
}
