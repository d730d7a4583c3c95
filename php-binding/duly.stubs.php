<?php

/**
 * What the extension duly declares, for editors and static analysis. This file is never loaded.
 *
 * php-tests/StubsTest.php compares it with the extension. Durations and times are in seconds, as int or float.
 */

declare(strict_types=1);

namespace Duly {
    /**
     * A client of the server that holds the queues. Safe to use after a fork.
     *
     * The first call connects; creating a client sends nothing. Clients with the same arguments share their
     * connections, also from one php-fpm request to the next. The connections of 16 unused clients are kept.
     */
    final class Client
    {
        /**
         * @param ?string $url `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://`, `redis+cluster://`, or
         *     `embedded:` for a private server. Default: the environment variable `DULY_URL`, or else `duly.url` of
         *     php.ini, or else `redis://127.0.0.1:6379`
         * @param ?string $prefix the beginning of all keys, at most 128 of the characters `A-Z a-z 0-9 . _ : -`.
         *     Default: `duly.prefix` of php.ini, or else `duly:`
         * @param ?string $username overrides the one in the URL
         * @param ?string $password overrides the one in the URL
         * @param ?string $caFile PEM file of the certificate authorities to trust, for TLS. Default: the system's
         * @param ?string $clientCertFile PEM file of the client's certificate, for TLS; only with `clientKeyFile`
         * @param ?string $clientKeyFile PEM file of its private key
         * @param int|float|null $connectTimeout the longest attempt to connect, in seconds, up to 600. Default: 3
         * @param int|float|null $commandTimeout how many seconds an attempt of a call waits without receiving a byte,
         *     up to 600. Default: 5
         * @param int|float|null $deadline for how many seconds a call is retried while the server is away, up to 600.
         *     Default: the environment variable `DULY_DEADLINE`, or else `duly.deadline` of php.ini, or else 15 on the
         *     command line and 2 in web requests
         * @param bool $allowEviction accept a server that may evict keys, and with them jobs. Default: false, which
         *     throws EvictionPolicyException
         * @param ?int $maxDataBytes the largest data of a job, as bytes of JSON, 1 to 2^53 - 1. Default: 1048576
         *     (1 MiB)
         * @param ?string $durability when a push returns that does not set its own: `none` (the server has the job in
         *     memory), `wait:<n>` (so many replicas have it, 1 to 4,294,967,295) or `fsync` (the server's disk has it).
         *     The confirmation may take up to `commandTimeout` and `deadline`; then NotDurableException. Default:
         *     `none`
         * @param bool $manualClock for tests: the clock stands still until `Queue::setClock`. Default: false
         * @param ?bool $failFast after a call has waited for its whole deadline in vain, the next calls throw
         *     UnreachableException at once, and about one a second probes whether the server is back. Default: true if
         *     the deadline is at most 5
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
         * Returns a queue. Sends nothing.
         *
         * @param string $name 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`
         *
         * @throws Exception\InvalidArgumentException
         */
        public function queue(string $name): Queue
        {
        }

        /**
         * Returns a queue in parts, which a cluster spreads over its nodes. Sends nothing.
         *
         * If its jobs have keys, an id of your own is unique only within its part.
         *
         * @param string $name 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`
         * @param int $count how many parts, 1 to 256; the same in all programs
         *
         * @throws Exception\InvalidArgumentException
         */
        public function partitions(string $name, int $count): Queue
        {
        }

        /**
         * Leases jobs of several queues, and waits for all of the queues at once.
         *
         * @param array<int|string, string|int> $queues a list is a strict order, `['orders', 'mail']`: a later queue
         *     gets a turn only when the earlier ones are empty. Weights (1 to 1,000), `['orders' => 3, 'mail' => 1]`,
         *     share the turns: a queue of weight 3 comes before one of weight 1 three times out of four
         * @param int $max the most jobs to return, 1 to 1,000; fewer when their records make up 4 MiB. Default: 1
         * @param int|float|null $wait how many seconds to wait for the first job, a year at most. Default: 0
         * @param int|float|null $lease for how many seconds the jobs are yours without `extend`, 0.001 to 86,400.
         *     Default: 10
         *
         * @return list<Job> empty if there are none
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
         * Takes the lock of this name, or waits until it is free. A native thread renews it, also while PHP is in a
         * query, until it is released or the object is gone.
         *
         * @param string $name 1 to 128 of the characters A-Z a-z 0-9 . _ : -
         * @param int|float|null $ttl how many seconds others wait if the holder dies, 0.1 to 86,400. Default: 30
         * @param int|float|null $wait how many seconds to wait for it, a year at most. Default: 0
         *
         * @throws Exception\LockedException another one holds it when the wait is over
         * @throws Exception\ExceptionInterface
         */
        public function lock(string $name, int|float|null $ttl = null, int|float|null $wait = null): Lock
        {
        }

        /**
         * Takes the lock as `lock` does, calls `$run` with it, and releases it, whatever that throws. `$run` must not
         * yield, nor return a generator: its code would run without the lock.
         *
         * @template T
         * @param string $name 1 to 128 of the characters A-Z a-z 0-9 . _ : -
         * @param callable(Lock): T $run what runs while the lock is held
         * @param int|float|null $ttl how many seconds others wait if the holder dies, 0.1 to 86,400. Default: 30
         * @param int|float|null $wait how many seconds to wait for it, a year at most. Default: 0
         *
         * @return T what it returns
         *
         * @throws Exception\LockedException another one holds it when the wait is over
         * @throws Exception\LeaseLostException it was lost before `$run` ended
         * @throws Exception\InvalidArgumentException `$run` gave a generator
         * @throws Exception\ExceptionInterface
         */
        public function withLock(
            string $name,
            callable $run,
            int|float|null $ttl = null,
            int|float|null $wait = null,
        ): mixed {
        }

        /**
         * Returns a topic. Sends nothing.
         *
         * @param string $name 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`
         *
         * @throws Exception\InvalidArgumentException
         */
        public function topic(string $name): Topic
        {
        }

        /**
         * Returns a page of the queues that were used under this client's prefix, by name. A queue is listed with the
         * first call of any client that pushes to it, reserves from it, or changes it in another way. One that is empty
         * and was not used for 30 days is forgotten by this call.
         *
         * @param int $limit the most queues of the page, 1 to 1,000. Default: 100
         * @param string|null $cursor that of the page before. Default: the first page
         *
         * @throws Exception\ExceptionInterface
         */
        public function queues(int $limit = 100, ?string $cursor = null): QueuePage
        {
        }

        /**
         * Returns a page of the topics that were used under this client's prefix, by name. A topic is listed with the
         * first message or subscription of any client. One without messages and subscriptions that was not used for
         * 30 days is forgotten by this call.
         *
         * @param int $limit the most topics of the page, 1 to 1,000. Default: 100
         * @param string|null $cursor that of the page before. Default: the first page
         *
         * @throws Exception\ExceptionInterface
         */
        public function topics(int $limit = 100, ?string $cursor = null): TopicPage
        {
        }

        /**
         * Returns the names of the topics that this member has subscribed to.
         *
         * @return list<string> sorted; empty if there are none
         *
         * @throws Exception\ExceptionInterface
         */
        public function topicsOf(string $member): array
        {
        }

        /**
         * Pulls from all topics of a member, and waits for all of them at once. Signal handlers run during the wait,
         * and may end it by an exception.
         *
         * @param int $max the most messages of all topics together, 1 to 1,000; fewer when they make up 4 MiB. Default:
         *     100
         * @param int|float|null $wait how many seconds to wait for the first message, a year at most. Default: 0
         * @param int|float|null $lease how many seconds the member has for its acks, 0.001 to 86,400. That of its last
         *     pull counts for all that it has pulled. Default: 30
         *
         * @return list<Message> empty if there are none
         *
         * @throws Exception\NotFoundException the member has subscribed to no topic; or, once for each topic, it is no
         *     member any more without having unsubscribed
         * @throws Exception\CutOffException a subscription has lost messages that it had not read, and no other topic
         *     has messages
         * @throws Exception\ExceptionInterface
         */
        public function pull(
            string $member,
            int $max = 100,
            int|float|null $wait = null,
            int|float|null $lease = null,
        ): array {
        }

        /**
         * Makes one round trip to the server.
         *
         * @throws Exception\ExceptionInterface
         */
        public function ping(): void
        {
        }

        /**
         * Says how it reaches its server, with the password.
         *
         * @internal of the extension `duly_console`, and may change with every version
         *
         * @throws Exception\InvalidArgumentException if the client was closed
         */
        public function settings(): string
        {
        }

        /**
         * Closes the connections as soon as no queue, job or other client with the same settings uses them. Later
         * calls on this object throw.
         */
        public function close(): void
        {
        }
    }

    /**
     * Gives the jobs of some queues to a program that runs them as it likes, several at once if it likes: what the
     * driver of a framework stands on. `Duly\Worker` is for handlers of your own.
     *
     * A native thread fetches jobs, renews their leases while PHP runs handlers, and sends what becomes of them. `ack`,
     * `fail` and `release` of these jobs make no call to the server each. A job that nobody holds any more goes back,
     * not counted. After a fork the child's object gives nothing.
     *
     * The thread ends neither a handler nor the process. When the time of a job is over, its run has failed and
     * settling it throws LeaseLostException.
     */
    final class Consumer
    {
        /**
         * Nothing is fetched before `next` or `stream` is called.
         *
         * @param array<int|string, string|int>|string $queues a queue, or several as in `Client::reserveFrom`
         * @param int $concurrency how many jobs may be out at once, 1 or more. Default: 1
         * @param int|float|\DateInterval|null $lease after how many seconds other workers may take the jobs if this
         *     process dies, 0.1 to 86,400. Default: 10
         * @param int|float|\DateInterval|null $grace for how many seconds jobs that are out may be settled after
         *     `stop`, 0 to 86,400. Default: 30
         * @param int|float|\DateInterval|null $timeout the longest run of jobs that have no timeout of their own.
         *     Default: no limit
         * @param ?string $name the worker's name in `Queue::workers`, 1 to 128 bytes. Default: none
         * @param ?int $prefetch the most jobs that wait in this process besides those that are out, 0 to 1,000.
         *     Default: as many as run within 50 ms
         * @param ?callable(Job, Interruption): mixed $onInterrupt is called in `next`, `events` and `close` for each
         *     job that is out and whose run is of no use any more: its time is over, its lease is lost, or the grace
         *     has ended. If it leads back to this object, as a method of whoever has it does, `close` it: PHP does not
         *     find that circle. Default: none
         *
         * @throws Exception\InvalidArgumentException
         */
        public function __construct(
            Client $client,
            array|string $queues,
            int $concurrency = 1,
            int|float|\DateInterval|null $lease = null,
            int|float|\DateInterval|null $grace = null,
            int|float|\DateInterval|null $timeout = null,
            ?string $name = null,
            ?int $prefetch = null,
            ?callable $onInterrupt = null,
        ) {
        }

        /**
         * Returns the next job, whether or not the ones before are settled. While `concurrency` jobs are out it waits
         * until one is settled. Signal handlers run during the wait, and may end it by an exception.
         *
         * @param int|float|null $wait how many seconds to wait. Default: 0, which takes what one call to the queues
         *     brings within 1 s; once `stream` was called, only what is here
         *
         * @return ?Job null if there is none, and always once it was stopped
         *
         * @throws Exception\ExceptionInterface what waiting does not cure, such as a wrong password at the start.
         *     Outages are waited out
         */
        public function next(int|float|null $wait = null): ?Job
        {
        }

        /**
         * Returns a stream for `stream_select` and event loops. It is readable when a job can be taken, when something
         * has happened (`events`), and always once the consumer was stopped. Take jobs by `next()` until it returns
         * null, then read the events. Do not read from the stream. Only on the command line.
         *
         * @return resource
         *
         * @throws Exception\ExceptionInterface
         */
        public function stream(): mixed
        {
        }

        /**
         * Returns what happened since the last call: outages, lost leases, jobs whose time is over.
         *
         * @return list<array{level: string, text: string, queue?: string, id?: string, name?: ?string, attempt?: int}>
         *     lines for a log, without job data; `level` is a level of PSR-3
         */
        public function events(): array
        {
        }

        /** Gives no more jobs. What was fetched ahead goes back; what is out may be settled within the grace. */
        public function stop(): void
        {
        }

        /**
         * Stops, and returns when the server knows what became of all jobs.
         *
         * @param int|float|null $within how many seconds to wait for jobs that are out, which signal handlers may
         *     settle. Then they go back, not counted. Default: 0
         *
         * @throws Exception\ExceptionInterface
         */
        public function close(int|float|null $within = null): void
        {
        }

        /** @return array<string, int> how many jobs are `acked`, `failed`, `released`, `lost` and `expired` so far */
        public function report(): array
        {
        }
    }

    /** The state of a job. Accepted wherever the string is. */
    enum State: string
    {
        case Delayed = 'delayed';
        case Ready = 'ready';
        case Reserved = 'reserved';
        case Failed = 'failed';
    }

    /** What a push does if another job has its id or key. Accepted wherever the string is. */
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

    /**
     * A queue. Created by `Client::queue` or `Client::partitions`.
     *
     * A queue is partitioned when one cluster node cannot carry it. A job's part is chosen by its key, or else by
     * its id, so all programs must use the same number of parts; to change it, drain the queue first. Priorities and
     * order hold within a part only, an idle worker has a blocked connection for each part, and counts and operations
     * on all jobs make one call for each part.
     */
    final class Queue
    {
        /** The queue's name. */
        public readonly string $name;

        /** @var list<Queue> the parts of a partitioned queue, each a queue of its own; empty if it has none */
        public readonly array $parts;

        /** The schedules of the queue: jobs that come again and again. */
        public readonly Schedules $schedules;

        /**
         * Pushes a job and returns its id.
         *
         * @param mixed $data what the handler gets, as `json_encode` writes it; at most the client's `maxDataBytes`
         *     (1 MiB). Refused are closures, resources, NaN, text that is not UTF-8, and objects without public
         *     properties, unless they are a `stdClass` or JsonSerializable. Default: null
         * @param ?string $name selects the handler that runs the job, 1 to 128 bytes. Default: the handler of jobs
         *     without a name
         * @param int|float|\DateInterval|null $delay how many seconds until the job is due, 0 to 100 years, or an
         *     interval that begins now. Default: 0
         * @param int|float|\DateTimeInterface|null $at when the job is due, instead of `delay`; a number is unix
         *     seconds. A time in the past means now. Default: none
         * @param ?string $id an id of your own, 1 to 128 bytes. If the jobs of a partitioned queue have keys, it is
         *     unique only within its part. Default: a new one of 16 characters
         * @param ?string $key a business key such as `close:42`, 1 to 256 bytes, to find or cancel the job by. Only one
         *     job of the queue has it at a time, until that job is done, cancelled or failed for good. Default: none
         * @param ?int $priority 0 to 9, where 0 goes first. Default: 5
         * @param ?int $maxRetries how often the job may run again after a failure, 0 to 4,294,967,295. Default: 5
         * @param ?RetryPolicy $retry how long to wait before each retry. Default: `RetryPolicy::linear(5)`, so 5, 10,
         *     15, ... seconds
         * @param int|float|null $timeout the longest run in seconds, 0.001 to 100 years. A longer run is interrupted
         *     and counts as a failure. Default: none
         * @param ?array<string, string> $headers strings that travel with the job, such as `traceparent`: at most 64,
         *     names of 1 to 128 bytes, values of at most 4,096 bytes. Default: none, or the trace of the current span
         *     if the program uses OpenTelemetry
         * @param int|float|null $resultTtl for how many seconds the handler's return value is kept for `waitResult`,
         *     0.001 to 100 years. Default: it is not kept
         * @param OnDuplicate|string|null $onDuplicate what to do if another job has this id or key: `refuse` throws
         *     DuplicateException, `keep` leaves that job and returns its id, `replace` cancels it in whatever state it
         *     is. Default: `refuse`
         * @param ?string $raw the data as JSON, kept byte for byte, instead of `data`. Default: none
         * @param ?string $durability when the push returns: `none` (the server has the job in memory), `wait:<n>` (so
         *     many replicas have it, 1 to 4,294,967,295) or `fsync` (the server's disk has it). Default: the client's
         * @param int|float|\DateInterval|\DateTimeInterface|null $expires drops the job if no run of it has started by
         *     then: seconds or an interval that begins now, or a time; later than the job is due. The push asks the
         *     server for its time. Default: never
         *
         * @return string the id; with `onDuplicate: 'keep'` that of the job that stays
         *
         * @throws Exception\InvalidArgumentException an argument is wrong. Nothing was sent
         * @throws Exception\TooLargeException the data is too large. Nothing was sent
         * @throws Exception\DuplicateException another job has this id or key; `getJobId` returns its id
         * @throws Exception\StorageFullException the server has no room. Nothing was stored
         * @throws Exception\QueueFullException the queue has as many jobs as its limits let it take. Nothing was stored
         * @throws Exception\NotDurableException the job is stored, but not as safely as `durability` asks
         * @throws Exception\TimeoutException no answer came in time; the job may be stored
         * @throws Exception\UnreachableException the server cannot be reached; the job is not stored
         * @throws Exception\ExceptionInterface
         */
        public function push(
            #[\SensitiveParameter] mixed $data = null,
            ?string $name = null,
            int|float|\DateInterval|null $delay = null,
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
            int|float|\DateInterval|\DateTimeInterface|null $expires = null,
        ): string {
        }

        /**
         * Pushes any number of jobs, 1,000 with each call to the server; a generator of millions needs no memory.
         *
         * A duplicate is counted and throws nothing. Other exceptions say which job was refused (`getIndex`), and how
         * the batches before it went (`getPushed`): those are stored, and more of its own batch if the message says so.
         * What a generator itself throws comes out as it is; of the jobs that it has yielded until then, each full
         * thousand is stored.
         *
         * @param iterable<NewJob|array<string, mixed>> $jobs an array holds the arguments of `NewJob` by name
         * @param bool $ids return the ids too, in the order of the jobs. Default: false
         * @param ?string $durability for jobs that do not set their own. Default: the client's
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
         * Leases the next job. Signal handlers run during the wait, and may end it by an exception.
         *
         * @param int|float|null $wait how many seconds to wait for a job, a year at most. Default: 0
         * @param int|float|null $lease for how many seconds the job is yours without `extend`, 0.001 to 86,400.
         *     Default: 10
         * @param bool $renew a native thread renews the lease, also while PHP is in a query: until the job is settled,
         *     nobody holds the object any more, or the job's own `timeout` is over. Default: false
         *
         * @return ?Job null if there is none
         *
         * @throws Exception\ExceptionInterface
         */
        public function reserve(
            int|float|null $wait = null,
            int|float|null $lease = null,
            bool $renew = false,
        ): ?Job {
        }

        /**
         * Leases several jobs.
         *
         * @param int $max the most jobs to return, 1 to 1,000; fewer when their records make up 4 MiB
         * @param int|float|null $wait how many seconds to wait for the first job, a year at most. Default: 0
         * @param int|float|null $lease for how many seconds the jobs are yours without `extend`, 0.001 to 86,400.
         *     Default: 10
         *
         * @return list<Job> empty if there are none
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
         * Acks many jobs with few calls.
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
         * Removes a job by its id or its business key, in whatever state it is. A worker that is running it can no
         * longer ack it.
         *
         * @param ?string $id the job's id; give this or `key`. Default: none
         * @param ?string $key the job's key. Default: none
         * @param State|string|list<State|string>|null $only a state, or several: a job in another state is not touched.
         *     Default: any state
         *
         * @return ?Cancelled null if there is no such job
         *
         * @throws Exception\NotFoundException the job is in a state that is not in `only`: `getJobState` says in which
         * @throws Exception\ExceptionInterface
         */
        public function cancel(
            ?string $id = null,
            ?string $key = null,
            State|string|array|null $only = null,
        ): ?Cancelled {
        }

        /**
         * Changes when a delayed or ready job is due, by its id or its business key.
         *
         * @param ?string $id the job's id; give this or `key`
         * @param ?string $key the job's key
         * @param int|float|\DateInterval|null $delay how many seconds from now until it is due, 0 to 100 years, or an
         *     interval; give this or `at`
         * @param int|float|\DateTimeInterface|null $at when it is due; a number is unix seconds
         *
         * @return string its id
         *
         * @throws Exception\NotFoundException there is no such job, or it is not waiting
         * @throws Exception\ExceptionInterface
         */
        public function reschedule(
            ?string $id = null,
            ?string $key = null,
            int|float|\DateInterval|null $delay = null,
            int|float|\DateTimeInterface|null $at = null,
        ): string {
        }

        /**
         * Runs these failed jobs again, with their failures forgotten.
         *
         * @param string ...$ids their ids
         *
         * @return list<Requeued>
         *
         * @throws Exception\ExceptionInterface
         */
        public function requeue(string ...$ids): array
        {
        }

        /**
         * Runs all failed jobs again, with their failures forgotten.
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function requeueAll(): int
        {
        }

        /**
         * Removes all jobs in a state, as many as there are now.
         *
         * @param State|string $state purging `reserved` takes the jobs from their workers, as `cancel` does: runs are
         *     interrupted, and acks refused
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function purge(State|string $state): int
        {
        }

        /**
         * Empties the queue: removes all jobs that are delayed or ready. Jobs that workers have stay, and run to their
         * end; `purge('reserved')` before this takes those, too. Failed jobs stay.
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function clear(): int
        {
        }

        /**
         * Removes the queue with all that it has: its jobs in all states, its limits, its totals. Jobs that workers run
         * meanwhile end without effect. A client that goes on using the queue makes it anew, and lists it again within
         * some minutes.
         *
         * @param int $jobs the number of the jobs in all states together, as a confirmation. Default: 0, only an empty
         *     queue
         *
         * @throws Exception\InvalidArgumentException the queue has other jobs than so many, or schedules; nothing was
         *     removed
         * @throws Exception\ExceptionInterface
         */
        public function delete(#[\SensitiveParameter] int $jobs = 0): void
        {
        }

        /**
         * Hands out no more jobs until `resume`. Pushing goes on, and running jobs may finish.
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
         * Moves due jobs to ready by hand; every reserve does this by itself.
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function promote(): int
        {
        }

        /**
         * Takes back jobs whose lease has ended by hand; every reserve does this by itself.
         *
         * @return int how many
         *
         * @throws Exception\ExceptionInterface
         */
        public function reclaim(): int
        {
        }

        /**
         * Sets how many failed jobs the queue keeps, and for how long.
         *
         * Whenever another job fails, up to 100 of the oldest beyond that are removed. Keep more than may fail at once:
         * `onFailed` is not called for a job that was removed before a worker heard of it.
         *
         * @param int $max the most jobs to keep, 0 or more. Until it is set: 10,000
         * @param int|float $age for how many seconds to keep them, 0 to 100 years. Until it is set: 180 days
         *
         * @throws Exception\ExceptionInterface
         */
        public function keepFailed(int $max, int|float $age): void
        {
        }

        /**
         * Limits how many jobs run at once, and how many start in a period, over all workers together.
         *
         * The limits apply from the next reserve on; running jobs are not stopped. Jobs that are held back keep their
         * order. The new limits replace all earlier ones, so `setLimits()` removes them. Each part of a partitioned
         * queue keeps to its share, rounded down, so a limit is as many jobs at least as the queue has parts.
         *
         * @param ?int $concurrency the most jobs at once, 1 to 1,000,000. Default: no limit
         * @param array{int, int|float}|null $rate how many jobs (1 to 1,000,000) may start in how many seconds (0.001
         *     to 86,400): `[100, 1.0]`. After a pause that many may start at once, and as many more follow in the same
         *     time. Default: no limit
         * @param array<string, array{concurrency?: int|null, rate?: array{int, int|float}|null}>|null $names limits of
         *     single job names, at most 100: `['mail.send' => ['concurrency' => 5, 'rate' => [100, 60.0]]]`. They do
         *     not hold back jobs of other names. Default: none
         * @param ?int $maxLength how many jobs the queue takes, 1 to 1,000,000,000. A push of more throws
         *     `QueueFullException`, and nothing of its call is stored. Failed jobs do not count. Jobs that come back
         *     from a worker, are requeued or come over a bridge are never refused; a schedule skips a slot. Default:
         *     no limit
         *
         * @throws Exception\ExceptionInterface
         */
        public function setLimits(
            ?int $concurrency = null,
            ?array $rate = null,
            ?array $names = null,
            ?int $maxLength = null,
        ): void {
        }

        /**
         * Returns the limits that are set.
         *
         * @throws Exception\ExceptionInterface
         */
        public function limits(): Limits
        {
        }

        /**
         * Returns how many jobs are in each state, and what comes next.
         *
         * @throws Exception\ExceptionInterface
         */
        public function counts(): Counts
        {
        }

        /**
         * Returns a page of the jobs that are `delayed`, `ready`, `reserved` or `failed`, without changing them.
         *
         * @param State|string $state which jobs
         * @param int $offset how many jobs to skip, 0 to 4,294,967,295. Default: 0
         * @param int $limit the most jobs to return, 1 to 1,000. Default: 100
         *
         * @return list<JobView>
         *
         * @throws Exception\ExceptionInterface
         */
        public function peek(State|string $state, int $offset = 0, int $limit = 100): array
        {
        }

        /**
         * Returns a page of the jobs that are `delayed`, `ready`, `reserved` or `failed` and match, without changing
         * them. Of all that is given, each must hold. It checks 10,000 jobs at most, and reads about 8 MiB of
         * records, those that do not match counted: so a page may be empty that is not the last one. `$cursor` of the
         * page says where to go on, and is null after the last one. A job that moves meanwhile may be in two pages,
         * or in none; one that was moved away and back before may be in two.
         *
         * @param State|string $state which jobs
         * @param ?string $name jobs of this name. Default: of any
         * @param ?string $keyPrefix jobs whose key begins so, such as `close:`. Default: with any key or none
         * @param ?string $error jobs whose last failure has this in its text, in the same case. Default: any
         * @param ?int $priority jobs of this priority, 0 to 9. Default: of any
         * @param int|float|\DateInterval|null $olderThan jobs that were pushed so long ago or longer, in seconds.
         *     Default: any
         * @param int|float|\DateTimeInterface|null $since jobs that are due, whose lease ends or that failed then or
         *     later, as a date or unix seconds. Not of ready jobs. Default: at any time
         * @param int|float|\DateTimeInterface|null $until the same, before then. Default: at any time
         * @param int $limit the most jobs to return, 1 to 1,000. Default: 100
         * @param ?string $cursor where to begin: what the page before has given. Default: at the beginning
         *
         * @throws Exception\ExceptionInterface
         */
        public function search(
            State|string $state,
            ?string $name = null,
            ?string $keyPrefix = null,
            #[\SensitiveParameter] ?string $error = null,
            ?int $priority = null,
            int|float|\DateInterval|null $olderThan = null,
            int|float|\DateTimeInterface|null $since = null,
            int|float|\DateTimeInterface|null $until = null,
            int $limit = 100,
            ?string $cursor = null,
        ): SearchPage {
        }

        /**
         * Returns where a job is and why it is not running, by its id or its business key.
         *
         * @param ?string $id the job's id; give this or `key`. Default: none
         * @param ?string $key the job's key. Default: none
         *
         * @return ?Found null if there is no such job
         *
         * @throws Exception\ExceptionInterface
         */
        public function find(?string $id = null, ?string $key = null): ?Found
        {
        }

        /**
         * Returns the workers that are alive: host, start time, and what each runs. A worker that dies disappears
         * after about 30 s, one that stops at once.
         *
         * @return list<WorkerInfo>
         *
         * @throws Exception\ExceptionInterface
         */
        public function workers(): array
        {
        }

        /**
         * Returns what the runs of the last time came to: how many jobs are done, how long they wait and run. Workers
         * count it, and report it up to 10 s later. By the minute up to 8 hours, else by ten minutes.
         *
         * @param float|int|\DateInterval|null $within how far back, in seconds or as an interval, more than 0 and
         *                                              at most 3 days; null: an hour
         *
         * @throws Exception\ExceptionInterface
         */
        public function rates(float|int|\DateInterval|null $within = null): Rates
        {
        }

        /**
         * Keeps a history of the queue: what happened to its last jobs, for `trace`. An event takes 20 bytes
         * on the server in a batch, about 60 and the host's name in a call of its own, and a job has three to five. The
         * server works a tenth longer for batches of a hundred, a quarter for single calls. Each part of a partitioned
         * queue keeps its share. Off until this is called.
         *
         * @param ?int $jobs of about how many jobs, 0 to 1,000,000; 0 switches the history off, and what was kept goes;
         *                   null: 1,000
         * @param float|int|\DateInterval|null $age for how many seconds, or as an interval, 0.001 s to 100 years;
         *                                           null: 24 h
         *
         * @throws Exception\ExceptionInterface
         */
        public function keepHistory(
            #[\SensitiveParameter] ?int $jobs = null,
            float|int|\DateInterval|null $age = null,
        ): void {
        }

        /**
         * Returns the life of a job: when and by whom it was pushed, each of its runs, and what became of it; also of a
         * job that is gone, as long as the history keeps it. Without a history what the stored job tells.
         *
         * @param string $id the job's id
         *
         * @return ?Trace null if nothing is known of it
         *
         * @throws Exception\ExceptionInterface
         */
        public function trace(string $id): ?Trace
        {
        }

        /**
         * Waits until the job is done and returns its result.
         *
         * @param int|float|null $timeout how many seconds to wait, a year at most. Default: as long as it takes
         * @param bool $assoc whether JSON objects become arrays (true) or objects. Default: true
         *
         * @throws Exception\JobFailedException the job has failed for good
         * @throws Exception\NoResultException there will be no result: the job was cancelled, purged or pushed without
         *     `resultTtl`, or its result has expired
         * @throws Exception\TimeoutException the job is not done yet
         * @throws Exception\ExceptionInterface
         */
        public function waitResult(string $id, int|float|null $timeout = null, bool $assoc = true): mixed
        {
        }

        /**
         * Checks the queue's invariants while it is in use.
         *
         * @param bool $repair whether to repair what is broken. Default: false
         *
         * @throws Exception\ExceptionInterface
         */
        public function audit(bool $repair = false): AuditReport
        {
        }

        /**
         * For tests: sets the clock of a client created with `manualClock: true`; a number is unix seconds.
         *
         * @throws Exception\ExceptionInterface
         */
        public function setClock(int|float|\DateTimeInterface $now): void
        {
        }
    }

    /**
     * What Job, JobView and Found have in common. The extension has no such trait; it only avoids repetition here.
     *
     * @internal
     */
    trait DescribesItself
    {
        public readonly string $id;
        /** The data as JSON, byte for byte as it was pushed. */
        public readonly string $raw;
        /** Selects the handler that runs it. */
        public readonly ?string $name;
        /** The business key. */
        public readonly ?string $key;
        /** 0 (first) to 9 (last). */
        public readonly int $priority;
        /** How often it has failed so far. */
        public readonly int $attempts;
        /** How often it may run again after a failure. */
        public readonly int $maxRetries;
        /** The text of the last failure; empty if there was none. */
        public readonly string $error;
        /** @var array<string, string> strings that travel with the job */
        public readonly array $headers;
        /** How often the job came back after a worker had started it: failed, released, or its lease ended. */
        public readonly int $returns;
        /** The longest run in seconds; null if there is no limit. */
        public readonly ?float $timeout;
        /** When it is dropped unless a run of it has started, in unix seconds; null if never. */
        public readonly ?float $expires;
        /** For how many seconds its result is kept; null if it is not kept. */
        public readonly ?float $resultTtl;
        /** When it was pushed, in unix seconds by the producer's clock. */
        public readonly int $pushedAt;

        /**
         * The data as `json_decode` gives it.
         *
         * @param bool $assoc whether JSON objects become arrays (true) or objects. Default: true
         *
         * @throws Exception\CorruptException PHP cannot decode it; `raw` has it unchanged
         */
        public function data(bool $assoc = true): mixed
        {
        }

        /**
         * The fields of its package that duly does not know, each as `json_decode` gives it: another program, or
         * another queue, has written them.
         *
         * @param bool $assoc whether JSON objects become arrays (true) or objects. Default: true
         *
         * @return array<string, mixed>
         *
         * @throws Exception\CorruptException PHP cannot decode one of them
         */
        public function extra(bool $assoc = true): array
        {
        }
    }

    /** A reserved job. One call settles it: `ack`, `fail` or `release`. */
    final class Job
    {
        use DescribesItself;

        /** The complete JSON package, as an export or an older consumer reads it. */
        public readonly string $package;
        /** The number of this attempt, 1 for the first: one more than `attempts`. */
        public readonly int $attempt;
        /**
         * Whether an earlier lease of this job ended without an answer, since it was pushed or requeued. Then its
         * handler may have run before, to any point, also where `attempt` is 1 and `returns` is 0.
         */
        public readonly bool $redelivered;
        /**
         * The fencing token of this lease: greater than that of every earlier lease of this job. Jobs that were fetched
         * together have the same token, so compare the id too: `WHERE id = :id AND token < :token`.
         */
        public readonly int $token;
        /** The queue that the job came from; for a partitioned queue, the part. */
        public readonly Queue $queue;
        /**
         * When the lease ends, in unix seconds by this host's clock. Null if it is renewed: in a worker, in a
         * consumer, and with `renew`.
         */
        public readonly ?float $leaseEndsAt;
        /** Whether it was acked, failed or released through this object; a worker then does not settle it again. */
        public readonly bool $settled;
        /** Whether it was acked through this object. */
        public readonly bool $acked;
        /**
         * Why its run is over though nothing was said of it: `timed_out`, `lease_lost` or `stopped`; null if it may go
         * on. Only of a job of a consumer: in a worker the handler gets a `JobInterruptedException`.
         */
        public readonly ?string $interrupted;

        /**
         * Marks the job as done: it leaves the queue. The result is kept if the producer asked for it (`resultTtl`).
         *
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function ack(#[\SensitiveParameter] mixed $result = null): void
        {
        }

        /**
         * Marks the run as failed: the job's policy decides between a retry and `failed`.
         *
         * @param string|\Throwable $error kept with the job, at most 8 KiB; an exception as `DomainException: message
         *     at file:line`, followed by its causes
         * @param int|float|null $retryAfter seconds until the retry, 0 to 100 years. Default: the job's policy decides
         * @param bool $counted whether this failure counts as an attempt. Default: true
         * @param bool $final true: to `failed` now, whatever retries are left. Default: false
         * @param mixed $data new data of the job. Default: null, which leaves it unchanged
         * @param ?int $attempts the number of failures before this one, 0 to 4,294,967,295. Default: unchanged
         * @param ?int $maxRetries how many retries the job may have, 0 to 4,294,967,295. Default: unchanged
         * @param ?string $raw new data of the job, as JSON; `'null'` makes it null. Default: unchanged
         * @param ?array<string, string> $headers strings that the job gets besides those it has, such as the class of
         *     the error; one of the same name is replaced. Default: none
         * @param ?string $name a new name of the job. Default: unchanged
         *
         * @return ?float the seconds until the retry; null if the job is in `failed` now
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
            #[\SensitiveParameter] ?array $headers = null,
            ?string $name = null,
        ): ?float {
        }

        /**
         * Gives the job back: no failure is counted, unless it is `counted`.
         *
         * @param int|float|null $after how many seconds until it may run again, 0 to 100 years. Default: 0, at once
         * @param ?string $reason is kept with the job as its last error, at most 8 KiB. Default: that stays
         * @param bool $counted whether this run counts as an attempt, as in Laravel and think-queue. The job then waits
         *     after those that are ready; it never goes to `failed`, whatever retries are left. Default: false
         *
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function release(int|float|null $after = null, ?string $reason = null, bool $counted = false): void
        {
        }

        /**
         * Takes a lock for this run, as `Client::lock` does.
         *
         * If another one holds it when the wait is over, this throws `Duly\Release`: in a handler the job goes back,
         * not counted, and runs again later. `Lock::$waited` then says for how long it has met the lock taken.
         *
         * @param string $name 1 to 128 of the characters A-Z a-z 0-9 . _ : -
         * @param int|float $retryAfter how many seconds until the next run, 0 to 100 years
         * @param int|float|null $ttl how many seconds others wait if the holder dies, 0.1 to 86,400. Default: 30
         * @param int|float|null $wait how many seconds to wait for it, a year at most. Default: 0
         *
         * @throws \RuntimeException a `Duly\Release`
         * @throws Exception\ExceptionInterface
         */
        public function lock(
            string $name,
            int|float $retryAfter,
            int|float|null $ttl = null,
            int|float|null $wait = null,
        ): Lock {
        }

        /**
         * Reports how far the run has come; `find` and `peek` show it while this lease is held.
         *
         * @param int|float $fraction from 0 to 1
         * @param ?string $text cut to 1 KiB. Default: none
         *
         * @throws Exception\InvalidArgumentException the fraction is not from 0 to 1
         * @throws Exception\LeaseLostException another worker may run it
         * @throws Exception\ExceptionInterface
         */
        public function progress(int|float $fraction, ?string $text = null): void
        {
        }

        /**
         * Tells the server that the run starts: should this process die from now on, the run counts. For owners of a
         * `Consumer` whose jobs must not run twice. Without it, the first death of a process does not count for a job
         * with retries: the job may only have been fetched ahead. A lease that is over, while nobody has taken the job,
         * goes on for 10 s; `extend` sets another time.
         *
         * @throws Exception\LeaseLostException another worker may run the job, or it was settled: do not run it
         * @throws Exception\ExceptionInterface
         */
        public function noteStart(): void
        {
        }

        /**
         * Sets when the lease ends, counted from now.
         *
         * @param int|float|null $lease how many seconds from now, 0.001 to 86,400. Default: 10
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
         * Takes the arguments of `Queue::push`, which explains them.
         *
         * @param ?array<string, string> $headers
         *
         * @throws Exception\InvalidArgumentException
         */
        public function __construct(
            #[\SensitiveParameter] mixed $data = null,
            ?string $name = null,
            int|float|\DateInterval|null $delay = null,
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
            int|float|\DateInterval|\DateTimeInterface|null $expires = null,
        ) {
        }
    }

    /** A job that is pushed again and again, by a cron pattern or at an interval. */
    final class Schedule
    {
        /** The pattern, as it is stored. */
        public readonly ?string $cron;
        /** The time zone of the pattern. */
        public readonly ?string $tz;
        /** The interval in seconds. */
        public readonly ?float $every;
        /** The moment from which the interval is counted, in unix seconds. */
        public readonly ?float $anchor;
        /** No slot before this moment, in unix seconds. */
        public readonly ?float $start;
        /** No slot after this moment, in unix seconds. */
        public readonly ?float $until;
        /** The most slots that fire. */
        public readonly ?int $count;
        /** Up to how many seconds after its slot it fires. */
        public readonly float $jitter;
        /** `latest`, `skip`, or a number. */
        public readonly string $catchUp;
        /** How many seconds old a slot may be that still fires under `skip`. */
        public readonly float $grace;
        /** `allow`, `skip` or `replace`. */
        public readonly string $overlap;

        /**
         * Give `cron` or `every`.
         *
         * @param NewJob $job the job of each slot, without an id, a delay, `onDuplicate` and `durability`
         * @param ?string $cron five fields (minute, hour, day, month, weekday) or six (seconds in front), with names,
         *     lists, ranges, steps, `L`, `#` and `W`; or `@hourly`, `@daily` or `@midnight`, `@weekly`, `@monthly`,
         *     `@yearly` or `@annually`
         * @param int|float|null $every the interval in seconds, 0.1 s to 100 years, instead of `cron`
         * @param ?string $tz the time zone of the pattern, such as `Europe/Berlin`. A fixed time in a gap runs at the
         *     first moment after it, and once if a clock shows it twice; patterns with `*`, ranges or steps follow the
         *     clock. Default: `UTC`
         * @param int|float|\DateTimeInterface|null $anchor a moment from which the interval is counted. Default: 0
         * @param int|float|\DateTimeInterface|null $start no slot before this moment
         * @param int|float|\DateTimeInterface|null $until no slot after this moment
         * @param ?int $count the most slots that fire, 1 or more
         * @param int|float|null $jitter fires up to so many seconds after each slot, at most 24 h and always before the
         *     next slot; the same span for every worker. Default: 0
         * @param int|string|null $catchUp which slots fire that were missed while no worker was alive: `latest` (the
         *     newest), `skip` (the newest if it is not older than `grace`), or a number from 1 to 100 (so many of the
         *     newest). Default: `latest`
         * @param int|float|null $grace see `catchUp`; in seconds. Default: 60
         * @param ?string $overlap what happens while the job of an earlier slot is delayed, ready or running: `allow`
         *     (both run), `skip` (no new job) or `replace` (the earlier one is cancelled). Default: `allow`
         *
         * @throws Exception\InvalidArgumentException
         */
        public function __construct(
            NewJob $job,
            ?string $cron = null,
            int|float|null $every = null,
            ?string $tz = null,
            int|float|\DateTimeInterface|null $anchor = null,
            int|float|\DateTimeInterface|null $start = null,
            int|float|\DateTimeInterface|null $until = null,
            ?int $count = null,
            int|float|null $jitter = null,
            int|string|null $catchUp = null,
            int|float|null $grace = null,
            ?string $overlap = null,
        ) {
        }

        /**
         * The next slots after this moment, in unix seconds: a preview.
         *
         * @param int $count 1 to 1,000
         *
         * @return list<float>
         *
         * @throws Exception\InvalidArgumentException
         */
        public function next(int|float|\DateTimeInterface $after, int $count = 5): array
        {
        }
    }

    /** A slot that fired. Times are unix seconds by the server's clock. */
    final class Fire
    {
        /** The slot. */
        public readonly float $slot;
        /** When it fired. */
        public readonly float $at;
        /** `pushed`, `skipped` (an earlier job was still in the queue) or `replaced` (that one was cancelled). */
        public readonly string $outcome;
        /** The id of its job, `<name>@<slot>`. */
        public readonly string $jobId;
    }

    /** A schedule as it is stored. Times are unix seconds by the server's clock. */
    final class ScheduleView
    {
        public readonly string $name;
        /** What it does; null if this version cannot read it. */
        public readonly ?Schedule $schedule;
        /** The owner, if `sync` put it. */
        public readonly ?string $owner;
        public readonly bool $paused;
        /** The next slot; null if it is paused or over. */
        public readonly ?float $next;
        /** The last slot that was due. */
        public readonly ?float $last;
        /** How many slots fired. */
        public readonly int $fired;
        /** When it was put. */
        public readonly float $madeAt;
        /** When it was last changed, paused or resumed. */
        public readonly float $changedAt;
        /** @var list<Fire> the last twenty slots that fired, the oldest first; only from `get` */
        public readonly array $fires;
    }

    /** What `sync` did. */
    final class SyncReport
    {
        /** @var list<string> names of new schedules */
        public readonly array $created;
        /** @var list<string> those that were others; their next slots are computed anew */
        public readonly array $changed;
        /** @var list<string> those that keep their next slots */
        public readonly array $unchanged;
        /** @var list<string> those of the owner that were not in the array */
        public readonly array $removed;
    }

    /** The schedules of a queue. Workers of the queue fire them; while none is alive, nothing fires. */
    final class Schedules
    {
        /**
         * Stores a schedule under this name, in place of the one that has it. Nothing fires at once: the first slot is
         * the first one in the future. A schedule that is the same keeps its next slot.
         *
         * @param string $name 1 to 96 bytes; the ids of its jobs are `<name>@<slot>`
         *
         * @return string `created`, `changed` or `unchanged`
         *
         * @throws Exception\InvalidArgumentException an argument is wrong, or there is no slot in the future
         * @throws Exception\ExceptionInterface
         */
        public function put(string $name, Schedule $schedule): string
        {
        }

        /**
         * Removes a schedule. Jobs that it has pushed stay.
         *
         * @return bool whether there was one
         *
         * @throws Exception\ExceptionInterface
         */
        public function remove(string $name): bool
        {
        }

        /**
         * A schedule with its last twenty fires, or null.
         *
         * @throws Exception\ExceptionInterface
         */
        public function get(string $name): ?ScheduleView
        {
        }

        /**
         * A page of the schedules in the order in which they fire; those paused or over come last.
         *
         * @return list<ScheduleView>
         *
         * @throws Exception\ExceptionInterface
         */
        public function list(int $offset = 0, int $limit = 100): array
        {
        }

        /**
         * Fires no more until `resume`.
         *
         * @return bool whether there is a schedule of this name
         *
         * @throws Exception\ExceptionInterface
         */
        public function pause(string $name): bool
        {
        }

        /**
         * Fires again from the first slot in the future on.
         *
         * @return bool whether there is a schedule of this name
         *
         * @throws Exception\ExceptionInterface
         */
        public function resume(string $name): bool
        {
        }

        /**
         * Pushes a job of the schedule now. That moves none of its slots.
         *
         * @return string the job's id
         *
         * @throws Exception\NotFoundException there is no schedule of this name
         * @throws Exception\DuplicateException an earlier job is still in the queue, and the overlap is `skip`
         * @throws Exception\ExceptionInterface
         */
        public function runNow(string $name): string
        {
        }

        /**
         * The next slots of a schedule in unix seconds; none if it is paused or over.
         *
         * @param int $count 1 to 100
         *
         * @return list<float>
         *
         * @throws Exception\NotFoundException there is no schedule of this name
         * @throws Exception\ExceptionInterface
         */
        public function next(string $name, int $count = 5): array
        {
        }

        /**
         * Makes the schedules of an owner those of this array: puts new and changed ones, and removes those of the
         * owner that are not in it. Schedules of other owners, and those made by `put`, are left alone. Unchanged ones
         * keep their next slots, so this may run at each start of each process.
         *
         * @param string $owner whose schedules, such as the name of the program: 1 to 128 bytes
         * @param array<string, Schedule> $schedules by name
         *
         * @throws Exception\InvalidArgumentException a schedule is wrong, or its name belongs to somebody else
         * @throws Exception\ExceptionInterface
         */
        public function sync(string $owner, array $schedules): SyncReport
        {
        }

        /**
         * Fires what is due. Workers do this by themselves; it is for programs that reserve by hand, and for tests.
         *
         * @return int how many slots pushed a job
         *
         * @throws Exception\ExceptionInterface
         */
        public function fireDue(): int
        {
        }
    }

    /** The result of `pushMany`. */
    final class PushSummary
    {
        /** Jobs that are new in the queue. */
        public readonly int $created;
        /** Jobs that were not pushed, because another job has their id or key and was kept. */
        public readonly int $kept;
        /** Jobs that replaced another job. */
        public readonly int $replaced;
        /** Jobs that were refused because another has their id or key. */
        public readonly int $duplicates;
        /** @var ?list<string> for each job, the id that is in the queue now; null unless asked for with `ids: true` */
        public readonly ?array $ids;
    }

    /** A job that was removed, and the state it was in. */
    final class Cancelled
    {
        public readonly string $id;
        /** `delayed`, `ready`, `reserved` or `failed`. */
        public readonly string $was;
    }

    /** What `requeue` did with a failed job. */
    final class Requeued
    {
        public readonly string $id;
        /** `ready`, `duplicate` (its key belongs to another job now) or `absent`. */
        public readonly string $outcome;
        /** If the outcome is `duplicate`: the job that has the key now. */
        public readonly ?string $holder;
    }

    /** A queue that was used. */
    final class QueueInfo
    {
        public readonly string $name;
        /** In how many parts it is, as those who used it said; 0 if it is not partitioned. */
        public readonly int $partitions;
        /**
         * When it was last used, in unix seconds by the server's clock. Each client notes it at its first use and then
         * every few minutes.
         */
        public readonly float $lastUsed;
    }

    /** A page of queues, by name. */
    final class QueuePage
    {
        /** @var list<QueueInfo> fewer than were asked for if some of them were forgotten just now */
        public readonly array $queues;
        /** Where the next page begins; null after the last one. */
        public readonly ?string $cursor;
    }

    /** A topic that was used. */
    final class ListedTopic
    {
        public readonly string $name;
        /**
         * When a client has last published or subscribed, in unix seconds by the server's clock. Each client notes it
         * at its first use and then every few minutes.
         */
        public readonly float $lastUsed;
    }

    /** A page of topics, by name. */
    final class TopicPage
    {
        /** @var list<ListedTopic> fewer than were asked for if some of them were forgotten just now */
        public readonly array $topics;
        /** Where the next page begins; null after the last one. */
        public readonly ?string $cursor;
    }

    /** How many jobs are in each state, and what comes next. Times are in seconds. */
    final class Counts
    {
        public readonly int $delayed;
        public readonly int $ready;
        public readonly int $reserved;
        public readonly int $failed;
        /** Is the queue paused? One with partitions is if some of them are: their jobs are not handed out. */
        public readonly bool $paused;
        /**
         * For how many seconds the oldest ready job could have run: since the end of the delay of its push. By the
         * clock of its producer; retries and reschedules do not change it. Null if no job is ready.
         */
        public readonly ?float $oldestReadyAge;
        /** How long until the next delayed job is due, 0 if it is overdue; null if no job is delayed. */
        public readonly ?float $nextDueIn;
        /**
         * For how many seconds the first delayed job is due that no reserve has made ready: no worker asks, or the
         * queue is paused. Null while none is due.
         */
        public readonly ?float $overdue;
        /** How long until the next lease ends, 0 if it is over; null if no job is reserved. */
        public readonly ?float $nextLeaseEndIn;
        /** @var array<string, int> totals over the queue's life, for information only */
        public readonly array $totals;
        /** Which limit holds jobs back right now, of the queue or of names; null if none does. */
        public readonly ?string $held;
    }

    /** A lock that is held, and renewed until it is released or the object is gone. */
    final class Lock
    {
        public readonly string $name;
        /** The fencing token, greater than that of every earlier holder: `WHERE id = :id AND fence < :token`. */
        public readonly int $token;
        /** How many seconds it was waited for: by this call; of `Job::lock`, since the job first met it taken. */
        public readonly float $waited;

        /** Whether it is held, by what the server has said; false as soon as it may have ended there. */
        public function isHeld(): bool
        {
        }

        /**
         * Releases it, and wakes one who waits for it.
         *
         * @return bool whether it was held until now
         *
         * @throws Exception\ExceptionInterface
         */
        public function release(): bool
        {
        }
    }

    /**
     * A topic. Created by `Client::topic`; it exists from its first message or subscription on.
     *
     * Every subscription gets every message, at its own pace. The members of a subscription share it: each message goes
     * to one of them, and comes again if it is not acked within its lease. What all subscriptions have read is removed.
     */
    final class Topic
    {
        public readonly string $name;

        /**
         * Publishes a message. It is published once, also if the call has to be sent again.
         *
         * @param mixed $data what members get, as `json_encode` writes it; at most the client's `maxDataBytes` (1 MiB).
         *     Refused is what `Queue::push` refuses
         * @param ?string $raw the data as JSON, kept byte for byte, instead of `data`. Default: none
         *
         * @throws Exception\InvalidArgumentException an argument is wrong. Nothing was sent
         * @throws Exception\TooLargeException the data is too large. Nothing was sent
         * @throws Exception\StorageFullException the server has no room. Nothing was stored
         * @throws Exception\TimeoutException no answer came in time; the message may be published
         * @throws Exception\ExceptionInterface
         */
        public function publish(
            #[\SensitiveParameter] mixed $data = null,
            #[\SensitiveParameter] ?string $raw = null,
        ): Published {
        }

        /**
         * Publishes a message for each value, in order: all of them or none.
         *
         * @param array<mixed> $data 1 to 1,000 values, each as the data of `publish`; more than one make up at most
         *     4 MiB
         *
         * @throws Exception\InvalidArgumentException there are none or too many, or one is wrong. Nothing was sent
         * @throws Exception\TooLargeException one, or all together, is too large. Nothing was sent
         * @throws Exception\StorageFullException the server has no room. Nothing was stored
         * @throws Exception\TimeoutException no answer came in time; the messages may be published
         * @throws Exception\ExceptionInterface
         */
        public function publishAll(#[\SensitiveParameter] array $data): Published
        {
        }

        /**
         * Makes a member of a subscription. A subscription that exists stays where it is, whatever `from` says.
         *
         * @param string $member 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`
         * @param ?string $subscription the subscription, which several members may share; each message goes to one of
         *     them. Default: one of its own, under the member's name
         * @param string $from where a new subscription begins: `latest` (with the next message) or `earliest` (with
         *     the oldest one that is still here). Default: `latest`
         *
         * @return bool whether the subscription is new
         *
         * @throws Exception\InvalidArgumentException an argument is wrong, or the member has another subscription to
         *     this topic
         * @throws Exception\ExceptionInterface
         */
        public function subscribe(string $member, ?string $subscription = null, string $from = 'latest'): bool
        {
        }

        /**
         * Ends a membership. What the member has pulled and not acked goes to the others of its subscription, which
         * ends with its last member.
         *
         * @return bool whether it was a member
         *
         * @throws Exception\ExceptionInterface
         */
        public function unsubscribe(string $member): bool
        {
        }

        /**
         * Pulls messages, oldest first; before all others those that were not acked within their lease. Signal handlers
         * run during the wait, and may end it by an exception.
         *
         * @param int $max the most messages to return, 1 to 1,000; fewer when they make up 4 MiB. Default: 100
         * @param int|float|null $wait how many seconds to wait for the first message, a year at most. Default: 0
         * @param int|float|null $lease how many seconds the member has for its acks, 0.001 to 86,400. That of its last
         *     pull counts for all that it has pulled. Default: 30
         *
         * @return list<Message> empty if there are none
         *
         * @throws Exception\NotFoundException it is no member: subscribe first
         * @throws Exception\CutOffException its subscription has lost messages that it had not read: subscribe again
         * @throws Exception\CorruptException there is only a message that is not JSON: ack the id that it names to pass
         *     over it
         * @throws Exception\ExceptionInterface
         */
        public function pull(
            string $member,
            int $max = 100,
            int|float|null $wait = null,
            int|float|null $lease = null,
        ): array {
        }

        /**
         * Acks messages: this subscription has read them. Acking again changes nothing.
         *
         * It is the subscription that this client has pulled from as that member, and no newer one of its name; where
         * it has not pulled, the one that the member has now.
         *
         * @param array<Message|string> $messages messages of this topic, or their ids
         *
         * @return int how many of them the subscription had pulled and not acked
         *
         * @throws Exception\NotFoundException it is no member: subscribe first
         * @throws Exception\CutOffException its subscription has lost messages that it had not read: subscribe again
         * @throws Exception\InvalidArgumentException one is no message, or is of another topic
         * @throws Exception\ExceptionInterface
         */
        public function ack(string $member, #[\SensitiveParameter] array $messages): int
        {
        }

        /**
         * Returns how much is here, which subscriptions there are, and how far each is.
         *
         * @throws Exception\ExceptionInterface
         */
        public function info(): TopicInfo
        {
        }

        /**
         * Returns the members: the subscription of each, how far behind it is, and for how long it was silent. Those of
         * a subscription that was cut off are among them.
         *
         * @return list<Member> by name
         *
         * @throws Exception\ExceptionInterface
         */
        public function members(): array
        {
        }

        /**
         * Sets how many messages the topic keeps, and for how long, from the next message on. Older ones are removed. A
         * subscription that had not read all of them is cut off.
         *
         * @param int|float|null $age how many seconds messages are kept, 1 to 315,360,000 (10 years). Default: 604,800
         *     (7 days)
         * @param ?int $messages how many messages are kept, 1 or more. Default: 1,000,000
         * @param ?int $bytes how many bytes of messages are kept, 1 or more; the last message stays, however large it
         *     is. Default: 100,000,000
         *
         * @throws Exception\InvalidArgumentException
         * @throws Exception\ExceptionInterface
         */
        public function setBounds(
            int|float|null $age = null,
            #[\SensitiveParameter] ?int $messages = null,
            ?int $bytes = null,
        ): void {
        }

        /**
         * Removes the topic with its messages, subscriptions and bounds. Its members get NotFoundException then.
         *
         * @throws Exception\ExceptionInterface
         */
        public function delete(): void
        {
        }
    }

    /** The answer of a publish. */
    final class Published
    {
        /** @var list<string> the id of each message, in order */
        public readonly array $ids;
        /** The last of the ids; of `publish`, the only one. */
        public readonly string $id;
        /** @var list<string> the subscriptions that this cut off: they had not read what the topic's bounds removed */
        public readonly array $cutOff;
    }

    /** A message that a member has pulled. It comes again if it is not acked within its lease. */
    final class Message
    {
        /** Unique in its topic: when it was published in ms since 1970, a hyphen, and its number in the topic. */
        public readonly string $id;
        /** The name of its topic. */
        public readonly string $topic;
        /** The data exactly as it was published, as JSON. */
        public readonly string $raw;
        /** When it was published, in unix seconds by the server's clock. */
        public readonly float $publishedAt;
        /** How often it was pulled, including this time. */
        public readonly int $deliveries;

        /**
         * Returns the data as `json_decode` does: arrays, or objects with `assoc: false`.
         *
         * @throws Exception\CorruptException PHP cannot decode it, for example half of a surrogate pair. See `$raw`
         */
        public function data(bool $assoc = true): mixed
        {
        }

        /**
         * Acks the message: its subscription has read it. `Topic::ack` acks many with one call.
         *
         * @return bool whether it was not acked before
         *
         * @throws Exception\NotFoundException who pulled it is no member any more
         * @throws Exception\CutOffException its subscription has lost messages that it had not read: subscribe again
         * @throws Exception\ExceptionInterface
         */
        public function ack(): bool
        {
        }
    }

    /** What a topic has. Times are unix seconds by the server's clock, spans are seconds. */
    final class TopicInfo
    {
        /** How many messages were ever published. They are numbered from 1. */
        public readonly int $published;
        /** How many are here: those that not all subscriptions have read. */
        public readonly int $messages;
        /** How many bytes of data these have. The server needs some more for each. */
        public readonly int $bytes;
        /** When the oldest of them was published; null if there is none. */
        public readonly ?float $oldestAt;
        /** How long messages are kept. */
        public readonly float $maxAge;
        /** How many messages are kept. */
        public readonly int $maxMessages;
        /** How many bytes of messages are kept. */
        public readonly int $maxBytes;
        /** @var list<Subscription> by name */
        public readonly array $subscriptions;
        /** @var list<CutOff> subscriptions that were cut off and have not subscribed again; by name */
        public readonly array $cutOff;
    }

    /** How far a subscription is. */
    final class Subscription
    {
        public readonly string $name;
        /** It has read all messages up to this number. */
        public readonly int $read;
        /** How many messages it has not pulled yet. */
        public readonly int $unread;
        /** How many messages its members have pulled and not acked. */
        public readonly int $pulled;
        /** @var list<Member> by name */
        public readonly array $members;
    }

    /** A member of a subscription. */
    final class Member
    {
        public readonly string $name;
        /** The name of its subscription. */
        public readonly string $subscription;
        /** How many seconds ago it subscribed or pulled. */
        public readonly float $silentFor;
        /** How many messages it has pulled and not acked. */
        public readonly int $pulled;
        /** How many messages its subscription has not read: not pulled yet, or pulled and not acked. Lost ones count. */
        public readonly int $behind;
        /** Whether its subscription has lost messages that it had not read, and nobody has subscribed to it again. */
        public readonly bool $isCutOff;
    }

    /** A subscription that lost messages which it had not read. */
    final class CutOff
    {
        public readonly string $name;
        /** When, in unix seconds by the server's clock. */
        public readonly float $at;
        /** The number of the first message that it lost. */
        public readonly int $first;
        /** The number of the last one. */
        public readonly int $last;
    }

    /** The limits of a queue. */
    final class Limits
    {
        /** The most jobs that are reserved at once. */
        public readonly ?int $concurrency;
        /** @var array{float, float}|null how many jobs may start in how many seconds */
        public readonly ?array $rate;
        /** @var array<string, array{concurrency?: int, rate?: array{float, float}}> the limits of single job names */
        public readonly array $names;
        /** How many jobs the queue takes. */
        public readonly ?int $maxLength;
    }

    /** How far a run has come. */
    final class Progress
    {
        /** From 0 to 1. */
        public readonly float $fraction;
        /** The text that the handler gave; may be empty. */
        public readonly string $text;
        /** When the handler reported it, in unix seconds by the server's clock. */
        public readonly float $at;
    }

    /**
     * The life of a job. Without a history (`Queue::keepHistory`) the events are those that the stored job tells.
     */
    final class Trace
    {
        public readonly string $id;
        /** The job, if it is still in the queue. */
        public readonly ?JobView $job;
        /** Does the queue keep a history? */
        public readonly bool $kept;
        /**
         * Do the events begin with the push? If not, earlier ones are no longer kept, were not noted, or the stored
         * job tells all of them.
         */
        public readonly bool $complete;
        /** @var list<TraceEvent> what happened to the job, the first first */
        public readonly array $events;
        /** @var list<TraceRun> the runs among these events, the first first */
        public readonly array $runs;
    }

    /** One thing that happened to a job. */
    final class TraceEvent
    {
        /** When, in unix seconds by the server's clock. */
        public readonly float $at;
        /**
         * What happened: `pushed`, `promoted` (its delay was over), `reserved`, `started`, `done`, `retried`,
         * `released`, `given_back` (by its worker, before it started), `lease_ended`, `failed`, `cancelled`,
         * `rescheduled`, `requeued`, `purged`, `replaced`, `trimmed` (from `failed`), `departed` and `came_back` (by a
         * bridge), or `repaired` (by an audit).
         */
        public readonly string $what;
        /** The language of the process that did it: `rust`, `python` or `php`. Empty if nobody knows. */
        public readonly string $language;
        /** The number of that process. */
        public readonly int $pid;
        /** The host of that process. */
        public readonly string $host;
        /** When the job was due since then, in unix seconds, if it had to wait. */
        public readonly ?float $due;
        /** The token of the lease. */
        public readonly ?int $token;
        /** Which attempt the run is, from 1 on. */
        public readonly ?int $attempt;
        /** How many seconds the run took, as its worker says. */
        public readonly ?float $took;
        /** The first 200 bytes of the error. */
        public readonly ?string $error;
        /**
         * What else there is to say: who pushed it if that was a `schedule` or a `bridge`; the state that it was in;
         * the job that replaced it.
         */
        public readonly ?string $detail;
    }

    /** One run of a job, as its events tell it. Times are unix seconds by the server's clock. */
    final class TraceRun
    {
        /** Which attempt, from 1 on; like `token` and `reservedAt` null if the beginning is no longer kept. */
        public readonly ?int $attempt;
        /** The token of its lease. */
        public readonly ?int $token;
        /** The language of the process that ran it: `rust`, `python` or `php`. Empty if nobody knows. */
        public readonly string $language;
        /** The number of that process. */
        public readonly int $pid;
        /** The host of that process. */
        public readonly string $host;
        /** When the worker got the job. */
        public readonly ?float $reservedAt;
        /** When the run started; null if nobody knows, as of one that goes on or whose worker died. */
        public readonly ?float $startedAt;
        /** When the server heard of its end. */
        public readonly ?float $endedAt;
        /** What came of it, as `TraceEvent::$what` says it; null as long as it goes on. */
        public readonly ?string $outcome;
        /** The first 200 bytes of its error. */
        public readonly ?string $error;
        /** The class of its error, such as `RuntimeException`. */
        public readonly ?string $errorClass;
    }

    /**
     * What the runs of a queue came to in a span of time. Workers count it. One that is killed takes with it what it
     * has not reported yet. Runs of jobs that were reserved by hand are not counted.
     */
    final class Rates
    {
        /** Where the first window begins, in unix seconds by the server's clock. */
        public readonly float $since;
        /** How many seconds a window is: 60, or 600 if more than 8 hours were asked for.. */
        public readonly float $step;
        /** @var list<RateWindow> the windows in which a run ended, the oldest first */
        public readonly array $windows;
        /** All of these windows. */
        public readonly RunCounts $total;
        /** @var list<NameRates> by the name of the job, the busiest first; kept for each ten minutes */
        public readonly array $names;
    }

    /** What the runs came to that ended in one window of time. */
    final class RateWindow
    {
        /** Where it begins, in unix seconds by the server's clock. */
        public readonly float $start;
        public readonly RunCounts $counts;
    }

    /** What the runs of jobs with one name came to. */
    final class NameRates
    {
        /** The name; null for jobs without one, and for those of `others`. */
        public readonly ?string $name;
        /** Are these the runs of all other names together? Of a queue 200 names are counted each by itself. */
        public readonly bool $others;
        public readonly RunCounts $counts;
    }

    /** What runs came to. */
    final class RunCounts
    {
        /** Runs after which the job was done. */
        public readonly int $done;
        /** Runs after which it went to `failed`. */
        public readonly int $failed;
        /** Runs that failed and are tried again. */
        public readonly int $retried;
        /** Runs after which it was given back without a failure. */
        public readonly int $released;
        /**
         * How long jobs had been due when their first run began: by the clock of the host that pushed them, and that
         * of the worker. Not of jobs with an id of your own. A job that was rescheduled or requeued counts from its
         * first due time.
         */
        public readonly Spread $wait;
        /** How long the runs took. */
        public readonly Spread $run;
    }

    /** How long something took, in seconds; p50, p95 and p99 are at most 10 % off. Null if nothing was counted. */
    final class Spread
    {
        /** How many times were counted. */
        public readonly int $count;
        public readonly ?float $mean;
        /** Half of them took no longer. */
        public readonly ?float $p50;
        /** 95 of 100 took no longer. */
        public readonly ?float $p95;
        /** 99 of 100 took no longer. */
        public readonly ?float $p99;
    }

    /** A worker that is alive. Times are unix seconds of its host's clock. */
    final class WorkerInfo
    {
        /** The worker's own id, new at each start. */
        public readonly string $id;
        /** The host on which it runs. */
        public readonly string $host;
        /** Its process id there. */
        public readonly int $pid;
        /** `rust`, `python` or `php`. */
        public readonly string $language;
        /** The version of duly. */
        public readonly string $version;
        /** The name given to the worker (`new Worker(name: ...)`). */
        public readonly ?string $name;
        /** @var list<string> all queues that it serves */
        public readonly array $queues;
        /** How many handlers it runs at once. */
        public readonly int $concurrency;
        /** When it started. */
        public readonly float $startedAt;
        /** @var list<RunningJob> the jobs of this queue that it runs, at most 20; up to 10 s old */
        public readonly array $running;
    }

    /** A job that a worker is running. */
    final class RunningJob
    {
        public readonly string $id;
        /** The job's name. */
        public readonly ?string $name;
        /** When this run began. */
        public readonly float $startedAt;
    }

    /**
     * What JobView and Found have in common. The extension has no such trait; it only avoids repetition here.
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
        /** Due time, end of the lease or time of failure, in unix seconds by the server's clock; null if ready. */
        public readonly ?float $at;
        /** How far its run has come, if it is reserved and its handler has reported that. */
        public readonly ?Progress $progress;
        /** Why the record could not be decoded; null if it could. The data of such a job is null. */
        public readonly ?string $undecodable;
    }

    /** A job as `peek` shows it. */
    final class JobView
    {
        use LookedAt;
    }

    /** A page of the jobs that a search found. */
    final class SearchPage
    {
        /** @var list<JobView> */
        public readonly array $jobs;
        /** How many jobs were read for this page. */
        public readonly int $lookedAt;
        /** Where the next page begins; null after the last one. */
        public readonly ?string $cursor;
    }

    /** Where one job is and why it is not running. */
    final class Found
    {
        use LookedAt;

        /** The token of its lease if it is reserved. */
        public readonly ?int $token;
        /** The server's time of this answer, in unix seconds. */
        public readonly float $now;
        /** One sentence: why it waits, or which worker has it. */
        public readonly string $why;
    }

    /** One broken invariant. */
    final class Finding
    {
        /** The name of the invariant, such as `record` or `one_state`. */
        public readonly string $invariant;
        /** The job; empty if the finding is about the queue as a whole. */
        public readonly string $id;
        /** What is wrong. */
        public readonly string $detail;
        /** Whether it was repaired. */
        public readonly bool $repaired;
    }

    /** What an audit found, and how much it checked. */
    final class AuditReport
    {
        /** @var list<Finding> */
        public readonly array $findings;
        /** How many records were checked. */
        public readonly int $jobs;
        /** How many entries of ready lists were checked. */
        public readonly int $entries;
        /** How many things looked wrong at first; nearly always jobs that were just changing state. */
        public readonly int $suspects;
        /** How many calls were made. */
        public readonly int $pages;
        /** Whether nothing is broken. */
        public readonly bool $clean;
    }

    /** The command `duly` without its program (bin/duly of the Composer package). */
    final class Console
    {
        /**
         * Runs a command: `['counts', 'orders']`, or `['bridge', '--help']`. It writes to the output and the error
         * output of the process. Without `--url` it takes `DULY_URL`; it does not read php.ini.
         *
         * SIGINT, SIGTERM and SIGHUP, where the program has a handler, end it: between two calls to the server it
         * stops, and says how much was done; a question is not answered. Then the handler is called. `web`, `top`,
         * `bridge` and `bench` take these signals themselves, and it is not called.
         *
         * @param list<string> $arguments what stands behind the name of the program
         *
         * @return int the exit status: 0 if all went well, 1 if not, 2 for a wrong command line; 130, 143 and 129 after
         *     SIGINT, SIGTERM and SIGHUP
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function run(array $arguments): int
        {
        }
    }

    /**
     * How long to wait before each retry, in seconds, at most 100 years. The default is `linear(5)`: 5, 10, 15, 20, 25.
     *
     * From the 11th failure on, a wait is at least one second, whatever the policy says.
     */
    final class RetryPolicy
    {
        /**
         * Waits the step after the first failure, twice that after the second, and so on. `linear(5)`: 5, 10, 15, ...
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function linear(int|float $step): RetryPolicy
        {
        }

        /**
         * Waits the same time after every failure.
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function fixed(int|float $delay): RetryPolicy
        {
        }

        /**
         * Waits the base, then `factor` (1 to 1,000) times longer each time, up to `cap` (default: an hour). With
         * jitter, each wait is random between zero and that.
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
         * Waits as the list says; the last one repeats.
         *
         * @param array<int|float> $delays 1 to 100 of them
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function list(array $delays): RetryPolicy
        {
        }

        /**
         * Returns the wait in seconds after this many failures, 1 or more; the same seed gives the same jitter.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function delay(int $failures, int $seed = 0): float
        {
        }

        /**
         * Returns the wait in seconds of a job that has failed this often; null if it goes to `failed`.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function decide(int $failures, int $maxRetries, int $seed = 0): ?float
        {
        }
    }

    /**
     * The page of `duly web` for a web application. It is in the extension `duly_console`.
     *
     * @internal of `Duly\Web`, and may change with every version
     */
    final class WebEngine
    {
        /**
         * Shows the queues of this client; `hideData`: without data, headers and results for those who may only look.
         *
         * @throws Exception\InvalidArgumentException if the client was closed
         * @throws Exception\UnsupportedException if the extensions `duly` and `duly_console` are of different versions
         */
        public function __construct(Client $client, bool $hideData)
        {
        }

        /** Returns how many bytes of a body are read. */
        public static function mostBodyBytes(): int
        {
        }

        /**
         * Answers one request.
         *
         * @param list<string> $headers names and values
         * @param list<string> $actions what the user may do
         *
         * @return list<string> the status, the body, and names and values of headers
         *
         * @throws Exception\InvalidArgumentException
         */
        public function handle(
            string $method,
            string $uri,
            string $mount,
            #[\SensitiveParameter] array $headers,
            string $body,
            array $actions,
            ?string $user,
            string $peer,
            bool $secure,
        ): array {
        }

        /**
         * Returns what was done since the last call of this: a line for each action.
         *
         * @return list<string>
         */
        public function lines(): array
        {
        }
    }

    /**
     * The decisions of a supervisor of worker processes.
     *
     * @internal of `Duly\Supervisor`, and may change with every version
     */
    final class Supervision
    {
        /**
         * Begins without a process. A terminal sends SIGHUP when it goes away.
         *
         * @param int $processes 1 to 10,000
         * @param float $grace 0 to 86,400 seconds
         *
         * @throws Exception\InvalidArgumentException
         */
        public function __construct(int $processes, float $grace, bool $hasTerminal)
        {
        }

        /** Returns the seconds that a handler may go on after it was interrupted, before its process ends. */
        public static function patience(): float
        {
        }

        /**
         * Returns the signals that stop a worker.
         *
         * @return list<int>
         */
        public static function stopSignals(): array
        {
        }

        /**
         * Returns the signals at which a supervisor replaces its processes one after the other.
         *
         * @return list<int>
         */
        public static function reloadSignals(): array
        {
        }

        /** Returns a slot whose process is to be started now; null if there is none. */
        public function start(): ?int
        {
        }

        /** Notes that the process of this slot has started, with this id. */
        public function started(int $slot, int $pid): void
        {
        }

        /** Notes that the system gives no process for this slot. */
        public function notStarted(int $slot): void
        {
        }

        /** Notes that the process of this slot is ready, with its grace; returns true for the first one of all. */
        public function ready(int $slot, float $grace): bool
        {
        }

        /** Notes why the process of this slot ends: `fatal` or `refused`. */
        public function ends(int $slot, string $why): void
        {
        }

        /**
         * Notes how the process of this slot has ended.
         *
         * @param int $status its exit code, or the negative number of the signal that killed it
         */
        public function ended(int $slot, int $status): void
        {
        }

        /** Notes a signal to the supervisor. */
        public function signal(int $signal): void
        {
        }

        /**
         * Returns what is to be logged: all since the last call of this.
         *
         * @return list<string>
         */
        public function lines(): array
        {
        }

        /**
         * Returns what is to be sent now: slots, and the numbers of signals to their processes.
         *
         * @return list<array{int, int}>
         */
        public function signals(): array
        {
        }

        /** Returns the code with which the supervisor ends, when it does. */
        public function exitCode(): ?int
        {
        }
    }

    /**
     * The engine of `Duly\Worker`: its native threads fetch jobs, renew leases and send outcomes while PHP is busy.
     *
     * It runs one job at a time. It belongs to the process that created it: in a forked child it does nothing, and the
     * child may create its own.
     *
     * @internal of `Duly\Worker`, and may change with every version
     */
    final class WorkerEngine
    {
        /**
         * Starts it. When a run must end (see `interruption`) the process gets SIGURG until the run has ended, and
         * when it has not after `patience` seconds the process ends with exit code 124. The same if a signal came (see
         * `listen`), the grace is over, and PHP does not come back to this object.
         *
         * @param array<int|string, string|int> $queues as for `Client::reserveFrom`
         * @param int|float $grace how long the current run may go on after `stop`
         * @param ?list<array{string, string, array<string, Schedule>}> $schedules queue, owner and schedules, to be
         *     stored
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
            ?int $maxJobs = null,
            ?array $schedules = null,
            int|float|null $timeout = null,
            ?int $prefetch = null,
        ) {
        }

        /**
         * Throws if a worker cannot be started with these settings; starts nothing.
         *
         * @param array<int|string, string|int> $queues as for `Client::reserveFrom`, and parts of partitioned queues
         * @param ?list<array{string, string, array<string, Schedule>}> $schedules as of the constructor
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function check(
            Client $client,
            array $queues,
            int|float $lease,
            int|float $grace,
            ?string $name = null,
            ?int $maxJobs = null,
            ?array $schedules = null,
            int|float|null $timeout = null,
            ?int $prefetch = null,
        ): void {
        }

        /**
         * Throws if no job can have this name.
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function checkName(string $name): void
        {
        }

        /**
         * Throws if no job can wait so many seconds.
         *
         * @throws Exception\InvalidArgumentException
         */
        public static function checkAfter(int|float $after): void
        {
        }

        /**
         * Waits up to so many seconds for the next job. The previous run is done then, unless it was ended otherwise.
         *
         * Unblocks SIGTERM, SIGINT, SIGQUIT and SIGURG if the previous job has blocked them, unless `patience` is 0.
         * Returns null if there is no job within the wait, if there are `events`, or if there will be none (`isOver`).
         *
         * @throws Exception\ExceptionInterface
         */
        public function next(float $wait): ?Job
        {
        }

        /**
         * Keeps the handler's result, if the producer asked for it. Returns whether the handler has settled the job
         * itself; null in a process that the handler has forked.
         */
        public function keep(#[\SensitiveParameter] mixed $result): ?bool
        {
        }

        /** Ends the current run as was noted, or else as done; does nothing if it has ended before. */
        public function done(): void
        {
        }

        /**
         * Notes that the current run failed, with the arguments of `Job::fail`; `done` ends it.
         *
         * @param ?array<string, string> $headers
         *
         * @return ?float the seconds until the retry; null if the job goes to `failed`
         *
         * @throws Exception\InvalidArgumentException
         * @throws Exception\LeaseLostException it is decided already, because the run was interrupted
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
            #[\SensitiveParameter] ?array $headers = null,
            ?string $name = null,
        ): ?float {
        }

        /**
         * Ends the current run and gives its job back without counting a failure.
         *
         * @throws Exception\InvalidArgumentException
         */
        public function release(int|float|null $after = null, ?string $reason = null): void
        {
        }

        /** Returns why the current run must end: `timed_out`, `lease_lost` or `stopped`; null if it need not. */
        public function interruption(): ?string
        {
        }

        /** Returns what a job did that was interrupted for this reason, or null if there is no such reason. */
        public static function describe(string $interruption): ?string
        {
        }

        /**
         * Returns what the handler itself made of this job by one of its verbs, and after how many seconds it runs
         * again.
         *
         * @return ?array{'ack'|'retry'|'failed'|'release', ?float}
         */
        public static function said(Job $job): ?array
        {
        }

        /**
         * Returns what the log says of an outcome behind the name of the job: how loudly, and the words.
         *
         * @param 'ack'|'release'|'failed' $outcome
         * @param ?float $after seconds until the job runs again; null after a failure for good
         *
         * @return array{string, string}
         */
        public static function says(string $outcome, ?float $after = null): array
        {
        }

        /**
         * Returns the exit code of a worker that has stopped after these signals: 0 unless the grace ended before a
         * handler did.
         *
         * @param list<int> $signals
         */
        public function exitCode(array $signals): int
        {
        }

        /**
         * Returns the events since the last call: `level` and `text`; for an event about a job also `queue`, `id`,
         * `name` and `attempt`; for a failed job whose hooks have not been called yet also the job, `failed`, and its
         * `error`.
         *
         * @return list<array<string, int|string|Job|null>>
         */
        public function events(): array
        {
        }

        /**
         * Confirms that the hooks of this failed job, which `events` returned, were called. Returns false if another
         * worker calls them, too, because the engine had ended before.
         */
        public function heard(Job $job): bool
        {
        }

        /**
         * Returns whether this worker is to call the hooks of this failed job, which `events` returned. Ask just before
         * that: when the engine ends, other workers get the jobs whose hooks were not begun.
         */
        public function mayCallHooks(Job $job): bool
        {
        }

        /** Starts no more jobs; the current run may finish within the grace. The second call ends the grace. */
        public function stop(): void
        {
        }

        /** Stops it as this process ends by itself: a request to stop before or behind it asks for nothing more. */
        public function stopToExit(): void
        {
        }

        /** Starts no more jobs, and ends when the current run has, however long that takes, until `stop` is called. */
        public function retire(): void
        {
        }

        /** Ends the watch over this process: what it does from now on may take as long as it likes. */
        public function leave(): void
        {
        }

        /** Returns whether there will be no more jobs. */
        public function isOver(): bool
        {
        }

        /**
         * Waits up to so many seconds, and returns whether the engine has sent all outcomes and ended.
         *
         * @throws Exception\ExceptionInterface the error that ended the engine
         */
        public function ended(int|float|null $wait = null): bool
        {
        }

        /**
         * Returns how many jobs are `acked`, `failed`, `released`, `lost` and `expired` so far.
         *
         * @return array<string, int>
         */
        public function report(): array
        {
        }

        /**
         * Lets the engines of this process stop at these signals too, also while PHP is in a query and cannot handle
         * them. PHP must have handlers for them, which are called as before.
         *
         * @param list<int> $signals
         *
         * @return bool whether PHP has a handler for each of them
         */
        public static function listen(array $signals): bool
        {
        }

        /** Returns whether SIGALRM is blocked. */
        public static function blocksAlarm(): bool
        {
        }

        /** Ends the current run as one that worked if its result was kept; otherwise gives its job back, uncounted. */
        public function abandon(): void
        {
        }

        /** Whether a handler has called a function whose effect is to end with its run, since this was asked before. */
        public static function touched(): bool
        {
        }

        /** Clears an alarm that `pcntl_alarm` may have set since the last call of this. */
        public static function clearAlarm(): void
        {
        }

        /** Returns how many of these signals have come so far. */
        public static function came(): int
        {
        }

        /** Notes that the run has worked and hooks are called: its job is done, however long they take. */
        public function worked(): void
        {
        }

        /** Notes that PHP ends, and that the worker says its last words, behind which it calls `mustEnd`. */
        public function leaves(): void
        {
        }

        /** Ends this process in five seconds, if shutdown functions or destructors of the program keep it. */
        public static function mustEnd(): void
        {
        }

        /** Lets this process get SIGTERM when its parent has died; false if the system cannot do that. */
        public static function followParent(int $parent): bool
        {
        }
    }
}

namespace Duly\Exception {
    /** Implemented by every exception of duly. The message names operation, queue and job, and never the data. */
    interface ExceptionInterface extends \Throwable
    {
        /** The kind of error in snake_case, the same in all languages: `lease_lost`. */
        public function getKind(): string;

        /** Whether the same call may succeed later. */
        public function isTransient(): bool;

        /** Which call failed: `push`, `reserve`, ... */
        public function getOperation(): ?string;

        /** The queue's name, where there is one. */
        public function getQueue(): ?string;

        /** The id of the job, where there is one. */
        public function getJobId(): ?string;

        /** The state of that job, in a `NotFoundException` where the state does not allow the call. */
        public function getJobState(): ?string;

        /**
         * For `pushMany`: the index of the refused job, from 0; if a batch failed, that of its first job which is not
         * known to be pushed, of a queue with partitions that of its first one.
         */
        public function getIndex(): ?int;

        /** For `pushMany`: how the batches before went. */
        public function getPushed(): ?\Duly\PushSummary;
    }

    /** An argument is wrong; the message says what is allowed. Nothing was sent. */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The server is of another kind than the URL says: with or without TLS, a sentinel, part of a cluster or none. */
    class WrongServerException extends \InvalidArgumentException implements ExceptionInterface
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The data is larger than `maxDataBytes`, or another field exceeds its limit. Nothing was sent. */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** Another job has this id or business key; `getJobId` returns its id. */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /**
     * The lease is lost (it ended and the job was taken back, or the job was cancelled): another worker may run it. Or
     * a lock is no longer held.
     */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** Another one holds the lock. Wait for it, or try again later. */
    class LockedException extends \RuntimeException implements ExceptionInterface
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** There is no such job, or its state does not allow the operation. */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** A subscription has lost messages that it had not read, by the topic's bounds. Subscribe again. */
    class CutOffException extends \RuntimeException implements ExceptionInterface
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The server's user (ACL) may not do this; the message names the missing permissions. */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The server is a replica, or accepts no writes at the moment. Transient. */
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The queue has as many jobs as its limits let it take. Transient. */
    class QueueFullException extends \RuntimeException implements ExceptionInterface
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The server may evict keys, and with them jobs; `allowEviction: true` accepts that. */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The server is too old, or lacks a feature. */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The job is stored, but not as safely as `durability` asks. */
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The queue was written by a newer version of duly. */
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** The server's answer is not a valid reply. Transient. */
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
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

        public function getJobState(): ?string
        {
        }

        public function getIndex(): ?int
        {
        }

        public function getPushed(): ?\Duly\PushSummary
        {
        }
    }

    /** A bug in duly; please report it. */
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

        public function getJobState(): ?string
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
