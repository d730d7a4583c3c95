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
     * request of php-fpm to the next. Of clients that no object has any more, 16 are kept. Safe to use after a fork.
     */
    final class Client
    {
        /**
         * @param ?string $url `redis://`, `rediss://`, `unix://`, `redis+sentinel://`, `redis+cluster://` or
         *     `embedded:`; if null the environment's `DULY_URL`, else `duly.url` of php.ini, else
         *     `redis://127.0.0.1:6379`
         * @param ?string $prefix in front of all keys; `duly.prefix` of php.ini if null, else `duly:`
         * @param ?string $username wins over the URL's
         * @param ?string $password wins over the URL's
         * @param ?string $caFile PEM file of the authorities to trust, for `rediss://`
         * @param ?string $clientCertFile PEM file, together with `clientKeyFile`
         * @param ?string $clientKeyFile PEM file
         * @param int|float|null $connectTimeout of one attempt to connect; 3 if null
         * @param int|float|null $commandTimeout of one attempt to get an answer; 5 if null
         * @param int|float|null $deadline of a whole call with its retries; if null the environment's `DULY_DEADLINE`,
         *     else `duly.deadline` of php.ini, else 15 on the command line and 2 in requests
         * @param bool $allowEviction also push to a server that may evict keys, and so lose jobs
         * @param ?int $maxDataBytes the largest data of a job; 1 MiB if null
         * @param ?string $durability what a push that does not say it itself waits for: `none` (if null), `wait:<n>`
         *     (replicas) or `fsync` (the server's disk), for `commandTimeout` and `deadline` at the most
         * @param bool $manualClock for tests: time stands still until `Queue::setClock`
         * @param ?bool $failFast whether calls fail at once while the server is away, and one at a time probes; where
         *     the deadline is at most 5 if null
         *
         * @throws Exception\InvalidArgumentException
         */
        public function __construct(
            #[\SensitiveParameter] ?string $url = null,
            ?string $prefix = null,
            ?string $username = null,
            #[\SensitiveParameter] ?string $password = null,
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
            ?bool $failFast = null,
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
         * The queue of this name in 1 to 256 parts, which a cluster spreads over its nodes. Nothing is sent.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function partitions(string $name, int $count): Partitions
        {
        }

        /**
         * Leases up to `max` jobs, 1 to 1,000, of several queues, and waits for all of them at once.
         *
         * @param array<int|string, string|int> $queues names in a strict order, `['orders', 'mail']`: a later queue
         *     has a turn when the earlier ones are empty. Or weights (1 to 1,000), `['orders' => 3, 'mail' => 1]`: a
         *     queue of weight 3 comes before one of weight 1 three times out of four
         * @param int|float|null $wait how long to wait for one; 0 if null
         * @param int|float|null $lease how long they may run without a renewal; 10 if null
         *
         * @return list<Job> empty when there is none until the wait is over
         *
         * @throws Exception\ExceptionInterface
         */
        public function reserveFrom(
            array $queues,
            int $max = 1,
            int|float|null $wait = null,
            int|float|null $lease = null,
        ): array {
        }

        /**
         * One round trip to the server.
         *
         * @throws Exception\ExceptionInterface
         */
        public function ping(): void
        {
        }

        /**
         * Lets go of the connections, which end as soon as no queue, job or other client with the same settings uses
         * them. This object is of no use any more.
         */
        public function close(): void
        {
        }
    }

    /** Where a job is. Taken wherever its word is. */
    enum State: string
    {
        case Delayed = 'delayed';
        case Ready = 'ready';
        case Reserved = 'reserved';
        case Failed = 'failed';
    }

    /** What a push does where there is a job with its id or key already. Taken wherever its word is. */
    enum OnDuplicate: string
    {
        case Refuse = 'refuse';
        case Keep = 'keep';
        case Replace = 'replace';
    }

    /** Why a run was interrupted. */
    enum Interruption: string
    {
        case TimedOut = 'timed_out';
        case LeaseLost = 'lease_lost';
        case Stopped = 'stopped';
    }

    /** A queue of a client: `Client::queue` makes it. */
    final class Queue
    {
        use Verbs;
    }

    /**
     * A queue in parts, because one node cannot carry it: `Client::partitions` makes it.
     *
     * A job's part follows from its key, or else from its id, so all programs must agree in the number of parts; to
     * change it, drain the queue first. Priorities and the order of age hold within a part only, an idle worker has a
     * blocked connection for each part, and counts and the verbs for all jobs make a call a part.
     */
    final class Partitions
    {
        use Verbs;

        /** @var list<Queue> the parts; each is a queue of its own */
        public readonly array $parts;
    }

    /**
     * What Queue and Partitions both have. The extension has no such trait: it is here to say it once.
     *
     * @internal
     */
    trait Verbs
    {
        /** The queue's name. */
        public readonly string $name;

        /**
         * Puts a job in, due at once unless `delay` or `at` says when.
         *
         * @param mixed $data what `json_encode` makes of it travels; refused are closures, resources, NaN, text that
         *     is not UTF-8, and objects without public properties, unless they are a `stdClass` or JsonSerializable
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
         * @param int|float|null $resultTtl for how many seconds what its handler returns is kept, for `waitResult`
         * @param ?string $onDuplicate `refuse` (if null), `keep` or `replace` the job that has this id or key
         * @param ?string $raw data that is JSON already, kept byte for byte, in place of `data`
         * @param ?string $durability `none`, `wait:<n>` or `fsync`, instead of the client's
         *
         * @return string the id; with `onDuplicate: 'keep'` that of the job that stays
         *
         * @throws Exception\DuplicateException the id or key is taken; `getJobId` says by which job
         * @throws Exception\ExceptionInterface
         */
        public function push(
            #[\SensitiveParameter] mixed $data = null,
            ?string $name = null,
            int|float|null $delay = null,
            int|float|\DateTimeInterface|null $at = null,
            ?string $id = null,
            ?string $key = null,
            ?int $priority = null,
            ?int $maxRetries = null,
            ?RetryPolicy $retry = null,
            int|float|null $timeout = null,
            #[\SensitiveParameter] ?array $headers = null,
            int|float|null $resultTtl = null,
            OnDuplicate|string|null $onDuplicate = null,
            #[\SensitiveParameter] ?string $raw = null,
            ?string $durability = null,
        ): string {
        }

        /**
         * Puts any number of jobs in, 1,000 at a time: a generator of millions needs no memory. Where it ends with an
         * exception, that says which job was refused (`getIndex`), and how those before went (`getPushed`).
         *
         * @param iterable<NewJob|array<string, mixed>> $jobs an array holds the arguments of `NewJob` by name
         * @param bool $ids also give the ids, in the order of the jobs
         * @param ?string $durability of jobs that do not say their own; the client's if null
         *
         * @throws Exception\ExceptionInterface
         */
        public function pushMany(
            #[\SensitiveParameter] iterable $jobs,
            bool $ids = false,
            ?string $durability = null,
        ): PushSummary {
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
        public function ackMany(#[\SensitiveParameter] array $jobs): array
        {
        }

        /**
         * Removes a job, named by its id or its business key, in whatever state it is. A worker that is running it can
         * not ack it any more.
         *
         * @return ?Cancelled null if there is no such job
         *
         * @throws Exception\ExceptionInterface
         */
        public function cancel(?string $id = null, ?string $key = null): ?Cancelled
        {
        }

        /**
         * Gives a waiting job, named by its id or its business key, another due time.
         *
         * @return string its id
         *
         * @throws Exception\NotFoundException
         * @throws Exception\ExceptionInterface
         */
        public function reschedule(
            ?string $id = null,
            ?string $key = null,
            int|float|null $delay = null,
            int|float|\DateTimeInterface|null $at = null,
        ): string {
        }

        /**
         * Sends failed jobs round again, with their failures forgotten.
         *
         * @return list<Requeued>
         *
         * @throws Exception\ExceptionInterface
         */
        public function requeue(string ...$ids): array
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
        public function purge(State|string $state): int
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
         * Limits how many jobs run at once, and how many start in so many seconds, in all workers together.
         *
         * The next reserve keeps to it; what runs is let run. A job that a limit holds back stays in its place.
         * What was set before is replaced, so `setLimits()` takes all limits away. A rate lets as many jobs start at
         * once after a rest. Limits of a name, one of them or both, hold back jobs of that name only: others pass by.
         *
         * @param array{int, int|float}|null $rate how many jobs, in how many seconds: `[100, 1.0]`
         * @param array<string, array{concurrency?: int|null, rate?: array{int, int|float}|null}>|null $names such as
         *     `['mail.send' => ['concurrency' => 5, 'rate' => [100, 60.0]]]`
         *
         * @throws Exception\ExceptionInterface
         */
        public function setLimits(?int $concurrency = null, ?array $rate = null, ?array $names = null): void
        {
        }

        /**
         * The limits that are set.
         *
         * @throws Exception\ExceptionInterface
         */
        public function limits(): Limits
        {
        }

        /**
         * How many jobs are in each state, and what comes next.
         *
         * @throws Exception\ExceptionInterface
         */
        public function counts(): Counts
        {
        }

        /**
         * One page of the jobs that are `delayed`, `ready`, `reserved` or `failed`.
         *
         * @return list<JobView>
         *
         * @throws Exception\ExceptionInterface
         */
        public function peek(State|string $state, int $offset = 0, int $limit = 100): array
        {
        }

        /**
         * Where a job is, named by its id or its business key, and why it is not running.
         *
         * @return ?Found null if there is no such job
         *
         * @throws Exception\ExceptionInterface
         */
        public function find(?string $id = null, ?string $key = null): ?Found
        {
        }

        /**
         * The workers that are alive: where, since when, and what each runs. One that dies is left out after 30 s as a
         * rule, one that stops at once.
         *
         * @return list<WorkerInfo>
         *
         * @throws Exception\ExceptionInterface
         */
        public function workers(): array
        {
        }

        /**
         * What the job's handler returned: at once when it is done, or as soon as it is.
         *
         * @param int|float|null $timeout how many seconds to wait; as long as it takes if null
         * @param bool $assoc JSON objects as arrays, or as objects
         *
         * @throws Exception\JobFailedException the job has failed for good
         * @throws Exception\NoResultException there will be none: the job was cancelled, purged or pushed without
         *     `resultTtl`, or its result was kept no longer
         * @throws Exception\TimeoutException it is not done yet
         * @throws Exception\ExceptionInterface
         */
        public function waitResult(string $id, int|float|null $timeout = null, bool $assoc = true): mixed
        {
        }

        /**
         * Checks the queue's invariants while it is in use, and mends what is broken if asked to.
         *
         * @throws Exception\ExceptionInterface
         */
        public function audit(bool $repair = false): AuditReport
        {
        }

        /**
         * For tests, with a client made with `manualClock: true`: sets the clock; numbers are unix seconds.
         *
         * @throws Exception\ExceptionInterface
         */
        public function setClock(int|float|\DateTimeInterface $now): void
        {
        }
    }

    /**
     * What a job says of itself in Job, JobView and Found. The extension has no such trait: it is here to say it once.
     *
     * @internal
     */
    trait DescribesItself
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
        /** Failures so far. */
        public readonly int $attempts;
        /** How many retries it may have. */
        public readonly int $maxRetries;
        /** The text of the last failure, or the empty string. */
        public readonly string $error;
        /** @var array<string, string> what travels with the job */
        public readonly array $headers;
        /** How often it came back from a worker that had started it: failed, released, or its lease ended. */
        public readonly int $returns;
        /** The longest run in seconds, if one is set. */
        public readonly ?float $timeout;
        /** For how many seconds its result is kept; null when none is. */
        public readonly ?float $resultTtl;
        /** When it was pushed, in unix seconds by the producer's clock. */
        public readonly int $pushedAt;

        /**
         * The data as `json_decode` gives it: JSON objects as arrays, or as objects with `assoc: false`.
         *
         * @throws Exception\CorruptException PHP cannot decode it; it is unharmed in `raw`
         */
        public function data(bool $assoc = true): mixed
        {
        }
    }

    /** A reserved job: what was pushed, and the lease under which it may be run. */
    final class Job
    {
        use DescribesItself;

        /** Which run this is, 1 for the first. */
        public readonly int $attempt;
        /**
         * The fencing token of this lease: larger than that of every earlier lease of this job. Jobs that were fetched
         * together have the same, so a comparison needs the id beside it: `WHERE id = :id AND token < :token`.
         */
        public readonly int $token;
        /** The queue that it came from; of a queue in parts, the part. */
        public readonly Queue $queue;
        /**
         * When the lease ends, in unix seconds by this host's clock, seen from when the job arrived or from the call of
         * `extend`. Null in a worker, whose engine renews the lease for as long as the handler runs.
         */
        public readonly ?float $leaseEndsAt;
        /** Whether it was acked, failed or released through this object: a worker then leaves it alone. */
        public readonly bool $settled;
        /** Whether it was acked through this object. */
        public readonly bool $acked;

        /**
         * Done: the job leaves the queue.
         *
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function ack(#[\SensitiveParameter] mixed $result = null): void
        {
        }

        /**
         * Failed: the job's policy decides between another run later and `failed`.
         *
         * `data` or `raw`, `attempts` and `maxRetries` change the job before that is decided.
         *
         * @param string|\Throwable $error an exception is kept as `DomainException: what it says at file:line`, with
         *     its causes behind it
         * @param int|float|null $retryAfter seconds until the next run, instead of the policy's
         * @param bool $counted false: the count of failures stays
         * @param bool $final true: no more runs
         * @param mixed $data the job's data from now on; null leaves it as it is
         * @param ?int $attempts failures before this one
         * @param ?int $maxRetries how many retries it may have from now on
         * @param ?string $raw the job's data from now on, as JSON; `'null'` makes it null
         *
         * @return ?float the wait in seconds until it runs again; null when it is in `failed` now
         *
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function fail(
            #[\SensitiveParameter] string|\Throwable $error,
            int|float|null $retryAfter = null,
            bool $counted = true,
            bool $final = false,
            #[\SensitiveParameter] mixed $data = null,
            ?int $attempts = null,
            ?int $maxRetries = null,
            #[\SensitiveParameter] ?string $raw = null,
        ): ?float {
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
         * Notes how far the run has come, for `find` and `peek`: it is shown while this lease is held.
         *
         * @param int|float $fraction from 0 to 1
         * @param string $text cut to 1 KiB
         *
         * @throws Exception\InvalidArgumentException for another number
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function progress(int|float $fraction, ?string $text = null): void
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
            #[\SensitiveParameter] mixed $data = null,
            ?string $name = null,
            int|float|null $delay = null,
            int|float|\DateTimeInterface|null $at = null,
            ?string $id = null,
            ?string $key = null,
            ?int $priority = null,
            ?int $maxRetries = null,
            ?RetryPolicy $retry = null,
            int|float|null $timeout = null,
            #[\SensitiveParameter] ?array $headers = null,
            int|float|null $resultTtl = null,
            OnDuplicate|string|null $onDuplicate = null,
            #[\SensitiveParameter] ?string $raw = null,
            ?string $durability = null,
        ) {
        }
    }

    /** How a long push went. */
    final class PushSummary
    {
        /** Jobs that are new in the queue. */
        public readonly int $created;
        /** Jobs that were not pushed because another stays in their place. */
        public readonly int $kept;
        /** Jobs that took another's place. */
        public readonly int $replaced;
        /** Jobs that were refused because another has their id or key. */
        public readonly int $duplicates;
        /** @var ?list<string> the job that is in the queue now, for each job; null unless asked for with `ids: true` */
        public readonly ?array $ids;
    }

    /** A job that is no more, and the state it was in. */
    final class Cancelled
    {
        public readonly string $id;
        /** `delayed`, `ready`, `reserved` or `failed`. */
        public readonly string $was;
    }

    /** What became of a failed job that was to go round again. */
    final class Requeued
    {
        public readonly string $id;
        /** `ready`, `duplicate` (its key belongs to another job now) or `absent`. */
        public readonly string $outcome;
        /** The job that holds the key now, of a duplicate. */
        public readonly ?string $holder;
    }

    /** How many jobs are where, and what comes next. */
    final class Counts
    {
        public readonly int $delayed;
        public readonly int $ready;
        public readonly int $reserved;
        public readonly int $failed;
        public readonly bool $paused;
        /** How long ago the oldest ready job was pushed, by the producer's clock; its delay counts. */
        public readonly ?float $oldestReadyAge;
        public readonly ?float $nextDueIn;
        public readonly ?float $nextLeaseEndIn;
        /** @var array<string, int> over the queue's life; they inform, and nothing relies on them */
        public readonly array $totals;
        /** Which limit holds jobs back just now, of the queue or of names; null while none does. */
        public readonly ?string $held;
    }

    /** The limits of a queue. */
    final class Limits
    {
        /** The most jobs that are reserved at once. */
        public readonly ?int $concurrency;
        /** @var array{float, float}|null how many jobs start in how many seconds */
        public readonly ?array $rate;
        /** @var array<string, array{concurrency?: int, rate?: array{float, float}}> the limits of single job names */
        public readonly array $names;
    }

    /** How far a run has come. */
    final class Progress
    {
        /** From 0 to 1. */
        public readonly float $fraction;
        /** What its handler says of it; perhaps nothing. */
        public readonly string $text;
        /** When it said so, in unix seconds by the server's clock. */
        public readonly float $at;
    }

    /** A worker that is alive. Times are unix seconds of its host's clock. */
    final class WorkerInfo
    {
        /** Its own, made when it started. */
        public readonly string $id;
        /** The host on which it runs. */
        public readonly string $host;
        /** Its process there. */
        public readonly int $pid;
        /** `rust`, `python` or `php`. */
        public readonly string $language;
        /** The version of duly. */
        public readonly string $version;
        /** The name that it was given. */
        public readonly ?string $name;
        /** @var list<string> all queues that it serves */
        public readonly array $queues;
        /** How many handlers it runs at once. */
        public readonly int $concurrency;
        /** When it started. */
        public readonly float $startedAt;
        /** @var list<RunningJob> what it runs of this queue, at most 20; as it was when it last told, up to 10 s ago */
        public readonly array $running;
    }

    /** A job that a worker runs. */
    final class RunningJob
    {
        public readonly string $id;
        /** Its handler's name. */
        public readonly ?string $name;
        /** When this run began. */
        public readonly float $startedAt;
    }

    /**
     * What JobView and Found both have. The extension has no such trait: it is here to say it once.
     *
     * @internal
     */
    trait LookedAt
    {
        use DescribesItself;

        /** The complete JSON package, as an export or an older consumer reads it; the stored bytes if it is `undecodable`. */
        public readonly string $package;
        /** `delayed`, `ready`, `reserved` or `failed`. */
        public readonly string $state;
        /** Due time, end of the lease, or time of failure, in unix seconds of the server; null for a ready job. */
        public readonly ?float $at;
        /** How far its run has come, if it is reserved and its handler told. */
        public readonly ?Progress $progress;
        /** Why the record could not be decoded, if so; the data is null then. */
        public readonly ?string $undecodable;
    }

    /** A job as somebody who looks at it sees it. */
    final class JobView
    {
        use LookedAt;
    }

    /** Where one job is and why it is not running. */
    final class Found
    {
        use LookedAt;

        /** The token of its lease, when it is reserved. */
        public readonly ?int $token;
        /** The server's time of this answer, in unix seconds. */
        public readonly float $now;
        /** One sentence: why it waits, or who has it. */
        public readonly string $why;
    }

    /** One broken invariant. */
    final class Finding
    {
        /** Which one, in one word such as `record` or `one_state`. */
        public readonly string $invariant;
        /** The job; empty when it is about the queue as a whole. */
        public readonly string $id;
        /** What is wrong. */
        public readonly string $detail;
        /** Whether it was mended. */
        public readonly bool $repaired;
    }

    /** What an audit found, and how much it looked at. */
    final class AuditReport
    {
        /** @var list<Finding> */
        public readonly array $findings;
        /** Records that were looked at. */
        public readonly int $jobs;
        /** Entries of ready lists that were looked at. */
        public readonly int $entries;
        /** What looked wrong at first, nearly all of it jobs that were on the move. */
        public readonly int $suspects;
        /** Calls that were made. */
        public readonly int $pages;
        /** Whether nothing is broken. */
        public readonly bool $clean;
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
         * Base, then each time so many times longer, up to the cap (an hour if null); with jitter a random part.
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function exponential(
            int|float $base,
            float $factor = 2.0,
            int|float|null $cap = null,
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

        /**
         * The wait in seconds after this many failures, 1 or more; the same seed gives the same jitter.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function delay(int $failures, int $seed = 0): float
        {
        }

        /**
         * The wait in seconds of a job that failed so often; null if it goes to `failed`.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function decide(int $failures, int $maxRetries, int $seed = 0): ?float
        {
        }
    }

    /**
     * The engine of `Duly\Worker`: its native threads fetch, renew leases and settle, whatever PHP is doing meanwhile.
     *
     * It runs one job at a time. It belongs to the process that made it: in a forked child it does nothing, and the
     * child may make its own.
     *
     * @internal of `Duly\Worker`, and may change with every version
     */
    final class WorkerEngine
    {
        /**
         * Starts it. When a run must end (see `interruption`) the process gets SIGURG until the run has ended, and
         * when it has not after `patience` seconds the process ends with exit code 124.
         *
         * @param array<int|string, string|int> $queues as for `Client::reserveFrom`
         * @param int|float $grace how long the current run may go on after `stop`
         *
         * @throws Exception\ExceptionInterface
         */
        public function __construct(
            Client $client,
            array $queues,
            int|float $lease,
            int|float $grace,
            int|float $patience,
            ?string $name = null,
        ) {
        }

        /**
         * Refuses what a worker cannot be started with; starts nothing.
         *
         * @param array<int|string, string|int> $queues as for `Client::reserveFrom`, and parts of partitioned queues
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function check(
            Client $client,
            array $queues,
            int|float $lease,
            int|float $grace,
            ?string $name = null,
        ): void {
        }

        /**
         * The next job, waited for so many seconds. The run before is done with that, if it was not ended otherwise.
         *
         * Lets SIGTERM, SIGINT, SIGQUIT and SIGURG through, if the job before has blocked them, unless `patience` is 0.
         * Null when there is none within the wait, when there are `events`, and when there will be none (`isOver`).
         *
         * @throws Exception\ExceptionInterface
         */
        public function next(float $wait): ?Job
        {
        }

        /** Keeps what the handler gave, if the producer wants it. */
        public function keep(#[\SensitiveParameter] mixed $result): void
        {
        }

        /** The current run is done; nothing when it has ended before. */
        public function done(): void
        {
        }

        /**
         * The current run failed; with the arguments of `Job::fail`. Sends nothing itself.
         *
         * @return ?float the wait in seconds until it runs again; null when it goes to `failed`
         *
         * @throws Exception\InvalidArgumentException
         */
        public function fail(
            #[\SensitiveParameter] string|\Throwable $error,
            int|float|null $retryAfter = null,
            bool $counted = true,
            bool $final = false,
            #[\SensitiveParameter] mixed $data = null,
            ?int $attempts = null,
            ?int $maxRetries = null,
            #[\SensitiveParameter] ?string $raw = null,
        ): ?float {
        }

        /**
         * Whether the job would go to `failed` with that.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function isLast(
            #[\SensitiveParameter] string|\Throwable $error,
            int|float|null $retryAfter = null,
            bool $counted = true,
            bool $final = false,
            #[\SensitiveParameter] mixed $data = null,
            ?int $attempts = null,
            ?int $maxRetries = null,
            #[\SensitiveParameter] ?string $raw = null,
        ): bool {
        }

        /**
         * Gives the job of the current run back, not counted as a failure.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function release(int|float|null $after = null): void
        {
        }

        /** Why the current run must end: `timed_out`, `lease_lost` or `stopped`. */
        public function interruption(): ?string
        {
        }

        /**
         * What happened since the last call: `level` and `text`; if it is about a job also `queue`, `id`, `name` and
         * `attempt`; of a job that failed while no hook was called also the job, `failed`, and its `error`.
         *
         * @return list<array<string, int|string|Job|null>>
         */
        public function events(): array
        {
        }

        /** The hooks of this failed job, of which `events` told, were called. */
        public function heard(Job $job): void
        {
        }

        /** Starts nothing more; the current run may go on for the grace. The second call ends the grace. */
        public function stop(): void
        {
        }

        /** Whether there will be no more jobs. */
        public function isOver(): bool
        {
        }

        /**
         * Whether the engine has told the server all that it had to tell, waited for so many seconds.
         *
         * @throws Exception\ExceptionInterface that with which the engine ended
         */
        public function ended(int|float|null $wait = null): bool
        {
        }

        /**
         * How many jobs are `acked`, `failed`, `released` and `lost` so far.
         *
         * @return array<string, int>
         */
        public function report(): array
        {
        }

        /**
         * Has the engines of this process stop at these signals too, also while PHP is in a query and sees none. PHP
         * must have handlers for them, which are called as before.
         *
         * @param list<int> $signals
         *
         * @return bool whether PHP has a handler for each of them
         */
        public static function heed(array $signals): bool
        {
        }

        /** How many of these signals have come so far. */
        public static function came(): int
        {
        }

        /** Has this process get SIGTERM when its parent is gone; false where the system cannot do that. */
        public static function followParent(int $parent): bool
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

        /** The place of the refused job among those of a `pushMany`, from 0; of a whole batch that of its first. */
        public function getIndex(): ?int;

        /** How the batches before went, of a `pushMany`. */
        public function getPushed(): ?\Duly\PushSummary;
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The job whose result was waited for has failed for good; the message ends with its last error. */
    class JobFailedException extends \RuntimeException implements ExceptionInterface
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** There is no result and there will be none. */
    class NoResultException extends \RuntimeException implements ExceptionInterface
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
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

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }
}
