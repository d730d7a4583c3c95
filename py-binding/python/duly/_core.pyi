"""The engine of duly, compiled. Use it through `duly` and `duly.aio`."""

from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict, final, type_check_only

from typing_extensions import Self, disjoint_base

from duly._calls import Call, LockCall
from duly._places import Places

__version__: str
_MAX_BATCH: int

_Json: TypeAlias = Any
_Span: TypeAlias = float | timedelta
_State: TypeAlias = Literal["delayed", "ready", "reserved", "failed"]
# Where a class has a method `list`.
_Slots: TypeAlias = list[float]
_StrPath: TypeAlias = str | PathLike[str]
_Interruption: TypeAlias = Literal["timed_out", "lease_lost", "stopped"]

class _NameLimits(TypedDict, total=False):
    concurrency: int
    rate: tuple[int, float]

class _NewNameLimits(TypedDict, total=False):
    concurrency: int | None
    rate: tuple[int, _Span] | None

@final
class Client:
    """A client of the server that holds the queues. Safe to share between threads, and to use after a fork.

    The first call connects; to create a client sends nothing.

    Args:
        url: `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://`, `redis+cluster://`, or `embedded:` for a
            private server. Default: the environment variable `DULY_URL`, or else `redis://127.0.0.1:6379`.
        prefix: the beginning of all keys, at most 128 of the characters `A-Z a-z 0-9 . _ : -`. Default: "duly:".
        username: overrides the one in the URL.
        password: overrides the one in the URL.
        ca_file: PEM file of the certificate authorities to trust, for TLS. Default: the system's.
        client_cert_file: PEM file of the client's certificate, for TLS; only together with `client_key_file`.
        client_key_file: PEM file of its private key.
        connect_timeout: the longest attempt to connect, in seconds or as a timedelta, up to 10 minutes. Default: 3 s.
        command_timeout: how long an attempt of a call waits without receiving a byte, in seconds or as a timedelta, up
            to 10 minutes. Default: 5 s.
        deadline: how long a call is retried while the server is away, in seconds or as a timedelta, up to 10 minutes.
            Default: the environment variable `DULY_DEADLINE`, or else 2 s in a process that answers web requests
            (decided at the first call), and 15 s elsewhere.
        allow_eviction: accept a server that may evict keys, and with them jobs. Default: False, which raises
            EvictionPolicyError.
        max_data_bytes: the largest data of a job, as bytes of JSON, 1 to 2^53 - 1. Default: 1,048,576 (1 MiB).
        durability: when a push returns that does not set its own: "none" (the server has the job in memory),
            "wait:<n>" (so many replicas have it, 1 to 4,294,967,295), "fsync" (the server's disk has it). The
            confirmation may take up to `command_timeout` and `deadline`; then NotDurableError. Default: "none".
        fail_fast: after a call has waited for its whole deadline in vain, the next calls raise UnreachableError at
            once, and about one a second probes whether the server is back. Default: True if the deadline is at most 5
            s.
        manual_clock: for tests: the clock stands still until `Queue.set_clock`. Default: False.

    """

    def __new__(
        cls,
        url: str | None = None,
        *,
        prefix: str = "duly:",
        username: str | None = None,
        password: str | None = None,
        ca_file: _StrPath | None = None,
        client_cert_file: _StrPath | None = None,
        client_key_file: _StrPath | None = None,
        connect_timeout: _Span | None = None,
        command_timeout: _Span | None = None,
        deadline: _Span | None = None,
        allow_eviction: bool = False,
        max_data_bytes: int = 1048576,
        durability: str | None = None,
        fail_fast: bool | None = None,
        manual_clock: bool = False,
    ) -> Client: ...
    def ping(self) -> None:
        """Make one round trip to the server."""

    def topic(self, name: str) -> Topic:
        """Return the topic of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing."""

    def queues(self, limit: int = 100, cursor: str | None = None) -> QueuePage:
        """Return a page of the queues that were used under this client's prefix, by name.

        A queue is listed with the first call of any client that pushes to it, reserves from it, or changes it in
        another way. One that is empty and was not used for 30 days is forgotten by this call.

        Args:
            limit: the most queues of the page, 1 to 1,000.
            cursor: that of the page before. Default: the first page.

        """

    def topics(self, limit: int = 100, cursor: str | None = None) -> TopicPage:
        """Return a page of the topics that were used under this client's prefix, by name.

        A topic is listed with the first message or subscription of any client. One without messages and subscriptions
        that was not used for 30 days is forgotten by this call.

        Args:
            limit: the most topics of the page, 1 to 1,000.
            cursor: that of the page before. Default: the first page.

        """

    def topics_of(self, member: str) -> list[str]:
        """Return the names of the topics that this member has subscribed to."""

    def pull(
        self, member: str, *, max: int = 100, wait: _Span | None = None, lease: _Span | None = None
    ) -> list[Message]:
        """Return messages from all topics of a member, at most `max` together, and wait for all of the topics at once.

        Arguments and errors are those of `Topic.pull`. If it is cut off from one topic, CutOffError is raised when no
        other has messages; so is the error of a server of a cluster that does not answer. NotFoundError is raised once
        for each topic of which it is no member any more without having unsubscribed.
        """

    def lock(self, name: str, *, ttl: _Span | None = None, wait: _Span | None = None) -> Lock:
        """Take the lock of this name, or wait until it is free, and return it.

        `with client.lock("stock:42", wait=10) as lock:` (`async with` in `duly.aio`) releases it at the end. It is
        renewed by a native thread until then, also while Python is busy. Raises LockedError if another one holds it
        when the wait is over.

        Args:
            name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
            ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
            wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.

        """

    def close(self) -> None:
        """Close the connections of this client and its queues; later calls raise InvalidArgumentError.

        `with duly.Client() as client:` (`async with` in `duly.aio`) closes it at the end. A worker has connections of
        its own and keeps running.
        """

    def __enter__(self) -> Client: ...
    def __exit__(self, *_raised: object) -> None: ...
    def queue(self, name: str) -> Queue:
        """Return the queue of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing."""

    def partitions(self, name: str, count: int) -> Queue:
        """Return a queue in 1 to 256 parts, `name/0`, `name/1`, ...; all clients must use the same `count`."""

    def reserve_from(
        self,
        queues: Mapping[str, int] | Iterable[str],
        *,
        max: int = 1,
        wait: _Span | None = None,
        lease: _Span | None = None,
    ) -> list[Job]:
        """Lease jobs of several queues, and wait for all of the queues at once.

        Args:
            queues: a list is a strict order: a later queue gets a turn only when the earlier ones are empty. A dict
                gives weights (1 to 1,000): a queue of weight 3 comes before one of weight 1 three times out of four.
            max: the most jobs to return, 1 to 1,000; fewer when their records make up 4 MiB. Default: 1.
            wait: how long to wait for the first job, in seconds or as a timedelta, a year at most. Default: 0.
            lease: how long the jobs are yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
                10 s.

        """

@final
class Queue:
    """A queue. Created by `client.queue(name)` or `client.partitions(name, count)`; safe to share between threads.

    A queue is partitioned when one cluster node cannot carry it. A job's part is chosen by its key, or else by its
    id. Priorities and order hold within a part only. Operations on one job search every part if it is not where it
    should be; `counts` and operations on all jobs make one call for each part. The `queue` of a job from a
    partitioned queue is the part.
    """

    @property
    def name(self) -> str: ...
    @property
    def parts(self) -> list[Queue]:
        """The parts of a partitioned queue, each a queue of its own; empty if it is not partitioned."""

    @property
    def schedules(self) -> Schedules:
        """The schedules of the queue: jobs that come again and again."""

    def push(
        self,
        data: _Json = None,
        *,
        name: str | None = None,
        delay: _Span | None = None,
        at: datetime | float | None = None,
        id: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        max_retries: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: _Span | None = None,
        headers: Mapping[str, str] | None = None,
        expires: _Span | datetime | None = None,
        result_ttl: _Span | None = None,
        on_duplicate: Literal["refuse", "keep", "replace"] = "refuse",
        durability: str | None = None,
        raw: bytes | None = None,
    ) -> str:
        """Push a job and return its id.

        Args:
            data: what the handler gets: None, bool, int of at most 64 bits, finite float, str, list, tuple, or dict
                whose keys are str; as JSON at most the client's `max_data_bytes` (1 MiB). Default: None.
            name: selects the handler that runs the job, 1 to 128 bytes. Default: the handler of jobs without a name.
            delay: how long until the job is due, in seconds or as a timedelta, 0 to 100 years. Default: 0.
            at: when the job is due, instead of `delay`: a datetime with a time zone, or unix seconds. A time in the
                past means now. Default: none.
            id: an id of your own, 1 to 128 bytes. If the jobs of a partitioned queue have keys, it is unique only
                within its part. Default: a new one of 16 characters.
            key: a business key such as "close:42", 1 to 256 bytes, to find or cancel the job by. Only one job of the
                queue has it at a time, until that job is done, cancelled or failed for good. Default: none.
            priority: 0 to 9, where 0 goes first. Default: 5.
            max_retries: how often the job may run again after a failure, 0 to 4,294,967,295. Default: 5.
            retry: how long to wait before each retry. Default: `RetryPolicy.linear(5)`, so 5, 10, 15, ... seconds.
            timeout: the longest run, in seconds or as a timedelta, 0.001 s to 100 years. A longer run is interrupted
                and counts as a failure. Default: none.
            headers: strings that travel with the job, such as a trace: at most 64, names of 1 to 128 bytes, values of
                at most 4,096 bytes. Default: none, or the trace of the current span if the program uses OpenTelemetry.
            expires: drops the job if no run of it has started by then: a span from now, in seconds or as a timedelta,
                or a datetime with a time zone; later than the job is due. The push asks the server for its time.
                Default: never.
            result_ttl: how long the handler's return value is kept for `wait_result`, in seconds or as a timedelta,
                0.001 s to 100 years. Default: it is not kept.
            on_duplicate: what to do if another job has this id or key: "refuse" raises DuplicateError, "keep" leaves
                that job and returns its id, "replace" cancels it in whatever state it is. Default: "refuse".
            durability: when the push returns: "none" (the server has the job in memory), "wait:<n>" (so many
                replicas have it, 1 to 4,294,967,295), "fsync" (the server's disk has it). Default: the client's.
            raw: the data as bytes of JSON, kept byte for byte, instead of `data`. Default: none.

        Raises:
            InvalidArgumentError: an argument is wrong; for data the message names the path. Nothing was sent.
            TooLargeError: the data is too large. Nothing was sent.
            DuplicateError: another job has this id or key; its id is in `job_id`.
            StorageFullError: the server has no room. Nothing was stored.
            QueueFullError: the queue has as many jobs as its limits let it take. Nothing was stored.
            NotDurableError: the job is stored, but not as safely as `durability` asks.
            DulyTimeoutError: no answer came in time; the job may be stored.
            UnreachableError: the server cannot be reached; the job is not stored.

        """

    def push_many(self, jobs: Iterable[NewJob], *, ids: bool = False, durability: str | None = None) -> PushSummary:
        """Push any number of jobs, a thousand with each call to the server. Holds one such batch in memory.

        A duplicate is counted and raises no error. If a call fails, the batches before it are stored. So they are if
        the iterable raises: its exception comes out, and since Python 3.11 a note of it says how many jobs are pushed.

        Args:
            jobs: any iterable of `NewJob`, also a generator.
            ids: return the ids too, in the order of the jobs. Default: False.
            durability: for jobs that do not set their own. Default: the client's.

        """

    def reserve(self, *, wait: _Span | None = None, lease: _Span | None = None, renew: bool = False) -> Job | None:
        """Lease the next job; return None if there is none.

        Args:
            wait: how long to wait for a job, in seconds or as a timedelta, a year at most. Default: 0.
            lease: how long the job is yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
                10 s.
            renew: renew the lease natively, three times a lease, also while Python is busy: until the job is settled or
                garbage collected, or its `timeout` is over. Default: False.

        """

    def reserve_many(self, max: int, *, wait: _Span | None = None, lease: _Span | None = None) -> list[Job]:
        """Lease several jobs; return an empty list if there are none.

        Args:
            max: the most jobs to return, 1 to 1,000; fewer when their records make up 4 MiB.
            wait: how long to wait for the first job, in seconds or as a timedelta, a year at most. Default: 0.
            lease: how long the jobs are yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
                10 s.

        """

    def ack_many(self, jobs: Sequence[ReservedJob]) -> list[bool]:
        """Ack many jobs with few calls; True for each job whose lease was still held."""

    def cancel(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        only: _State | Iterable[_State] | None = None,
    ) -> Cancelled | None:
        """Remove a job by its id or its key, in whatever state it is; return None if there is no such job.

        Args:
            id: the job's id. Give this or `key`.
            key: the job's key.
            only: a state, or a list of states. A job in another state is not touched. Default: any state.

        Raises:
            NotFoundError: the job is in a state that is not in `only`: `job_state` of the error says in which.

        """

    def reschedule(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        delay: _Span | None = None,
        at: datetime | float | None = None,
    ) -> str:
        """Change when a delayed or ready job is due, by its id or its key, and return its id.

        Args:
            id: the job's id. Give this or `key`.
            key: the job's key.
            delay: how long from now until it is due, in seconds or as a timedelta, 0 to 100 years. Give this or `at`.
            at: when it is due: a datetime with a time zone, or unix seconds. A time in the past means now.

        Raises:
            NotFoundError: there is no such job, or it is not waiting.

        """

    def requeue(self, *ids: str) -> list[Requeued]:
        """Run these failed jobs again, with their failures forgotten."""

    def requeue_all(self) -> int:
        """Run all failed jobs again, with their failures forgotten; return how many."""

    def purge(self, state: _State) -> int:
        """Remove all jobs in a state, as many as there are now; return how many.

        Args:
            state: "delayed", "ready", "reserved" or "failed". Purging "reserved" takes the jobs from their workers, as
                `cancel` does: runs are interrupted, and acks refused.

        """

    def clear(self) -> int:
        """Empty the queue: remove all jobs that are delayed or ready; return how many.

        Jobs that workers have stay, and run to their end; `purge("reserved")` before this takes those, too. Failed jobs
        stay.
        """

    def delete(self, jobs: int = 0) -> None:
        """Remove the queue with all that it has: its jobs in all states, its limits, its totals.

        Raises InvalidArgumentError, and removes nothing, if the queue has other jobs than so many, or schedules. Jobs
        that workers run meanwhile end without effect. A client that goes on using the queue makes it anew, and lists
        it again within some minutes.

        Args:
            jobs: the number of the jobs in all states together, as a confirmation. Default: 0, only an empty queue.

        """

    def pause(self) -> None:
        """Hand out no more jobs until `resume`. Pushing goes on, and running jobs may finish."""

    def resume(self) -> None:
        """Hand out jobs again."""

    def promote(self) -> int:
        """Move due jobs to ready by hand; return how many. Every reserve does this by itself."""

    def reclaim(self) -> int:
        """Take back jobs whose lease has ended by hand; return how many. Every reserve does this by itself."""

    def keep_failed(self, max: int, age: _Span) -> None:
        """Set how many failed jobs the queue keeps, and for how long.

        Whenever another job fails, up to 100 of the oldest beyond that are removed. Keep more than may fail at once:
        `on_failed` is not called for a job that was removed before a worker heard of it.

        Args:
            max: the most jobs to keep, 0 to 2^53 - 1. Until it is set: 10,000.
            age: how long to keep them, in seconds or as a timedelta, 0 to 100 years. Until it is set: 180 days.

        """

    def set_limits(
        self,
        *,
        concurrency: int | None = None,
        rate: tuple[int, _Span] | None = None,
        names: Mapping[str, _NewNameLimits | _NameLimits] | None = None,
        max_length: int | None = None,
    ) -> None:
        """Limit how many jobs run at once, and how many start in a period, over all workers together.

        The limits apply from the next reserve on; running jobs are not stopped. Jobs that are held back keep their
        order. The new limits replace all earlier ones: `set_limits()` removes them. Each part of a partitioned queue
        keeps to its share, rounded down, so a limit is as many jobs at least as the queue has parts.

        Args:
            concurrency: the most jobs at once, 1 to 1,000,000. Default: no limit.
            rate: `(jobs, seconds)`: how many jobs (1 to 1,000,000) may start in how long (0.001 s to 24 h). After a
                pause that many may start at once, and as many in the period behind it. Default: no limit.
            names: limits of single job names, at most 100, such as `{"mail.send": {"concurrency": 5, "rate": (100,
                60)}}`. They do not hold back jobs of other names. Default: none.
            max_length: how many jobs the queue takes, 1 to 1,000,000,000. A push of more raises QueueFullError, and
                nothing of its call is stored. Failed jobs do not count. Jobs that come back from a worker, are requeued
                or come over a bridge are never refused; a schedule skips a slot. Default: no limit.

        """

    def limits(self) -> Limits:
        """Return the limits that are set."""

    def counts(self) -> Counts:
        """Count the jobs in each state, and say what comes next."""

    def peek(self, state: _State, *, offset: int = 0, limit: int = 100) -> list[JobView]:
        """Return a page of the jobs in a state, without changing them.

        Args:
            state: "delayed", "ready", "reserved" or "failed".
            offset: how many jobs to skip, 0 to 4,294,967,295. Default: 0.
            limit: the most jobs to return, 1 to 1,000. Default: 100.

        """

    def search(
        self,
        state: _State,
        *,
        name: str | None = None,
        key_prefix: str | None = None,
        error: str | None = None,
        priority: int | None = None,
        older_than: _Span | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> SearchPage:
        """Return a page of the jobs in a state that match a filter, without changing them.

        Of all that is given, each must hold. It checks 10,000 jobs at most, and reads about 8 MiB of records, those
        that do not match counted: so a page may be empty that is not the last one. `cursor` of the page says where to
        go on, and is None after the last one. A job that moves meanwhile may be in two pages, or in none;
        one that was moved away and back before may be in two.

        Args:
            state: "delayed", "ready", "reserved" or "failed".
            name: jobs of this name.
            key_prefix: jobs whose key begins so, such as "close:".
            error: jobs whose last failure has this in its text, in the same case.
            priority: jobs of this priority, 0 to 9.
            older_than: jobs that were pushed so long ago or longer, in seconds or as a timedelta.
            since: jobs that are due, whose lease ends or that failed then or later: a datetime with a time zone, or
                unix seconds. Not of ready jobs.
            until: the same, before then.
            limit: the most jobs to return, 1 to 1,000. Default: 100.
            cursor: where to begin: what the page before has given. Default: at the beginning.

        """

    def find(self, id: str | None = None, *, key: str | None = None) -> Found | None:
        """Return where a job is and why it is not running; None if there is no such job."""

    def workers(self) -> list[WorkerInfo]:
        """Return the workers that are alive: host, start time, and what each runs."""

    def rates(self, within: _Span | None = None) -> Rates:
        """Return what the runs of the last time came to: how many jobs are done, how long they wait and run.

        Workers count it, and report it up to 10 s later. By the minute up to 8 hours, else by ten minutes.

        Args:
            within: how far back, in seconds or as a timedelta, more than 0 and at most 3 days. Default: an hour.

        """

    def keep_history(self, jobs: int | None = None, age: _Span | None = None) -> None:
        """Keep a history of the queue: what happened to its last jobs, for `trace`.

        An event takes 20 bytes on the server in a batch, about 60 and the host's name in a call of its own, and a job
        has three to five. The server works a tenth longer for batches of a hundred, a quarter for single calls. Each
        part of a partitioned queue keeps its share. Off until this is called.

        Args:
            jobs: of about how many jobs, 0 to 1,000,000; 0 switches the history off, and what was kept goes. Default:
                1,000.
            age: for how long, in seconds or as a timedelta, 0.001 s to 100 years. Default: 24 h.

        """

    def trace(self, id: str) -> Trace | None:
        """Return the life of a job: when and by whom it was pushed, each of its runs, and what became of it.

        Also of a job that is gone, as long as the history keeps it (`keep_history`). Without a history what the stored
        job tells. None if nothing is known of it.
        """

    def wait_result(self, id: str, *, timeout: _Span | None = None) -> _Json:
        """Wait until the job is done and return its result.

        Args:
            id: the job's id.
            timeout: how long to wait, in seconds or as a timedelta, a year at most. Default: as long as it takes.

        Raises:
            JobFailedError: the job has failed for good.
            NoResultError: there will be no result: the job was cancelled, purged or pushed without `result_ttl`, or its
                result has expired.
            DulyTimeoutError: the job is not done yet.

        """

    def audit(self, *, repair: bool = False) -> AuditReport:
        """Check the queue's invariants while it is in use, and repair what is broken if `repair=True`."""

    def set_clock(self, now: datetime | float) -> None:
        """For tests: set the clock of a client created with `manual_clock=True`."""

@final
class NewJob:
    """A job for `Queue.push_many`, with the arguments of `Queue.push`. Its data is converted when it is created."""

    def __new__(
        cls,
        data: _Json = None,
        *,
        name: str | None = None,
        delay: _Span | None = None,
        at: datetime | float | None = None,
        id: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        max_retries: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: _Span | None = None,
        headers: Mapping[str, str] | None = None,
        expires: _Span | datetime | None = None,
        result_ttl: _Span | None = None,
        on_duplicate: Literal["refuse", "keep", "replace"] = "refuse",
        durability: str | None = None,
        raw: bytes | None = None,
    ) -> NewJob: ...
    def check(self) -> None:
        """Raise InvalidArgumentError now if every push of this job would."""

@disjoint_base
class ReservedJob:
    """What a reserved job of a sync and of an asyncio queue have in common."""

    @property
    def id(self) -> str: ...
    @property
    def data(self) -> Any:
        """The data that was pushed, decoded on first access; the same object each time."""

    @property
    def raw(self) -> bytes:
        """The data that was pushed, byte for byte."""

    @property
    def package(self) -> bytes:
        """The complete JSON package, as an export or an older consumer reads it."""

    @property
    def name(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def attempts(self) -> int:
        """How often it has failed so far."""

    @property
    def max_retries(self) -> int: ...
    @property
    def error(self) -> str:
        """The text of the last failure; empty if there was none."""

    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def extra(self) -> MappingProxyType[str, Any]:
        """The fields of its package that duly does not know, decoded: another program or queue has written them."""

    @property
    def returns(self) -> int:
        """How often the job came back after a worker had started it: failed, released, or its lease ended."""

    @property
    def redelivered(self) -> bool:
        """Whether an earlier lease of this job ended without an answer, since it was pushed or requeued.

        Then its handler may have run before, to any point, also where `attempt` is 1 and `returns` is 0.
        """

    @property
    def expires(self) -> float | None:
        """When it is dropped unless a run of it has started, in unix seconds; None if never."""

    @property
    def result_ttl(self) -> float | None:
        """For how many seconds its result is kept; None if it is not kept."""

    @property
    def timeout(self) -> float | None:
        """The longest run, in seconds; None if there is no limit."""

    @property
    def pushed_at(self) -> int:
        """When it was pushed, in unix seconds by the clock of the host that pushed it."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, 1 for the first: one more than `attempts`."""

    @property
    def token(self) -> int:
        """The fencing token of this lease, greater than that of every earlier lease of this job.

        Jobs that were fetched together have the same token, so compare the id too: `WHERE id = :id AND token < :token`.
        """

    @property
    def queue(self) -> Any:
        """The queue that the job came from."""

    @property
    def settled(self) -> bool:
        """True once it was acked, failed or released through this object."""

    @property
    def acked(self) -> bool:
        """True once it was acked through this object."""

    @property
    def interrupted(self) -> _Interruption | None:
        """Why its run is over though nothing was said of it: timed_out, lease_lost or stopped; None if it may go on.

        Only of a job of a worker or a consumer.
        """

@final
class Job(ReservedJob):
    """A reserved job. One call settles it: ack, fail or release. Each raises LeaseLostError if the lease is lost.

    In a handler of a `duly.Worker` these calls send nothing: the outcome is noted, and sent when the handler has ended.
    There they raise LeaseLostError if the run was interrupted or the job is already settled; a lease that is lost later
    is logged. For a job of a `duly.Consumer` it is the same, but what they say is sent soon, not at the end of a run.
    """

    @property
    def queue(self) -> Queue:
        """The queue that the job came from."""

    def ack(self, result: _Json = None) -> None:
        """Mark the job as done: it leaves the queue. The result is kept if the producer asked for it (`result_ttl`)."""

    def fail(
        self,
        error: str | BaseException,
        *,
        retry_after: _Span | None = None,
        counted: bool = True,
        final: bool = False,
        data: _Json = ...,
        attempts: int | None = None,
        max_retries: int | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> float | None:
        """Mark the run as failed; return the seconds until the retry, or None if the job is in `failed` now.

        Args:
            error: the text or the exception that is kept with the job, at most 8 KiB.
            retry_after: the wait before the retry, in seconds or as a timedelta, 0 to 100 years. Default: the job's
                policy decides.
            counted: whether this failure counts as an attempt. Default: True.
            final: move the job to `failed` now, whatever retries are left. Default: False.
            data: new data of the job; None is data too. Default: unchanged.
            attempts: the number of failures before this one, 0 to 4,294,967,295. Default: unchanged.
            max_retries: how many retries the job may have, 0 to 4,294,967,295. Default: unchanged.
            headers: strings that the job gets besides those it has, such as the class of the error; one of the same
                name is replaced. Default: none.
            name: a new name of the job. Default: unchanged.

        """

    def release(self, after: _Span | None = None, *, reason: str = "", counted: bool = False) -> None:
        """Give the job back: no failure is counted, unless it is `counted`.

        Args:
            after: how long until it may run again, in seconds or as a timedelta, 0 to 100 years. Default: 0, at once.
            reason: a text that is kept with the job as its last error, at most 8 KiB. Default: that stays.
            counted: whether this run counts as an attempt, as in Laravel and think-queue. The job then waits after
                those that are ready; it never goes to `failed`, whatever retries are left. Default: False.

        """

    def lock(self, name: str, *, retry_after: _Span, ttl: _Span | None = None, wait: _Span | None = None) -> _LockOfRun:
        """Take a lock for this run, as `Client.lock` does, and return it.

        If another one holds it when the wait is over, this raises `duly.Release`: in a handler the job goes back, not
        counted, and runs again after `retry_after`. `Lock.waited` then says for how long it has met the lock taken.
        In an `async def` handler it is `async with job.lock(...) as lock:`, and `lock` is a `duly.aio.Lock`.

        Args:
            name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
            retry_after: the wait before the next run, in seconds or as a timedelta, 0 to 100 years.
            ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
            wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.

        """

    def progress(self, fraction: float, text: str = "") -> None:
        """Report how far the run has come, from 0 to 1, with a text of at most 1 KiB, for `find` and `peek`."""

    def note_start(self) -> None:
        """Tell the server that the run starts: should this process die from now on, the run counts.

        For owners of a `Consumer` whose jobs must not run twice. Without it, the first death of a process does not
        count for a job with retries: the job may only have been fetched ahead.
        A lease that is over, while nobody has taken the job, goes on for 10 s; `extend` sets another time.

        Raises:
            LeaseLostError: another worker may run the job, or it was settled: do not run it.

        """

    def extend(self, lease: _Span | None = None) -> None:
        """Set the lease to end this long from now, 0.001 s to 24 h (default 10 s)."""

@disjoint_base
class JobView:
    """A job as `peek` shows it."""

    @property
    def id(self) -> str: ...
    @property
    def data(self) -> Any:
        """The data that was pushed, decoded."""

    @property
    def raw(self) -> bytes:
        """The data that was pushed, byte for byte."""

    @property
    def package(self) -> bytes:
        """The complete JSON package, as an export or an older consumer reads it; the stored bytes if undecodable."""

    @property
    def name(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def attempts(self) -> int:
        """How often it has failed so far."""

    @property
    def max_retries(self) -> int: ...
    @property
    def error(self) -> str:
        """The text of the last failure; empty if there was none."""

    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def extra(self) -> MappingProxyType[str, Any]:
        """The fields of its package that duly does not know, decoded: another program or queue has written them."""

    @property
    def returns(self) -> int:
        """How often the job came back after a worker had started it: failed, released, or its lease ended."""

    @property
    def expires(self) -> float | None:
        """When it is dropped unless a run of it has started, in unix seconds; None if never."""

    @property
    def result_ttl(self) -> float | None:
        """For how many seconds its result is kept; None if it is not kept."""

    @property
    def timeout(self) -> float | None:
        """The longest run, in seconds; None if there is no limit."""

    @property
    def pushed_at(self) -> int:
        """When it was pushed, in unix seconds by the clock of the host that pushed it."""

    @property
    def state(self) -> _State: ...
    @property
    def at(self) -> float | None:
        """Due time, end of the lease or time of failure, in unix seconds by the server's clock; None if ready."""

    @property
    def progress(self) -> Progress | None:
        """How far its run has come, if it is reserved and its handler has reported that."""

    @property
    def undecodable(self) -> str | None:
        """Why the record could not be decoded; None if it could. The data of such a job is None."""

@final
class Progress:
    """How far a run has come."""

    @property
    def fraction(self) -> float:
        """From 0 to 1."""

    @property
    def text(self) -> str:
        """The text that the handler gave; may be empty."""

    @property
    def at(self) -> float:
        """When the handler reported it, in unix seconds by the server's clock."""

@final
class Schedule:
    """A job that is pushed again and again, by a cron pattern or at an interval.

    Args:
        job: the job of each slot: a `NewJob` without an id, a delay, `on_duplicate` and `durability`.
        cron: five fields (minute, hour, day, month, weekday) or six (seconds in front), with names, lists, ranges,
            steps, `L`, `#` and `W`; or "@hourly", "@daily" or "@midnight", "@weekly", "@monthly", "@yearly" or
            "@annually".
        every: the interval, in seconds or as a timedelta, 0.1 s to 100 years; instead of `cron`.
        tz: the time zone of the pattern, such as "Europe/Berlin". A fixed time in a gap runs at the first moment after
            it, and once if a clock shows it twice; patterns with `*`, ranges or steps follow the clock. Default: "UTC".
        anchor: a moment from which the interval is counted: a datetime with a time zone, or unix seconds. Default: 0.
        start: no slot before this moment. Default: none.
        until: no slot after this moment. Default: none.
        count: the most slots that fire, 1 or more. Default: no limit.
        jitter: fires up to this long after each slot, in seconds or as a timedelta, at most 24 h and always before the
            next slot; the same span for every worker. Default: 0.
        catch_up: which slots fire that were missed while no worker was alive: "latest" (the newest), "skip" (the newest
            if it is not older than `grace`), or a number from 1 to 100 (so many of the newest). Default: "latest".
        grace: see `catch_up`; in seconds or as a timedelta. Default: 60.
        overlap: what happens while the job of an earlier slot is delayed, ready or running: "allow" (both run), "skip"
            (no new job), "replace" (the earlier one is cancelled). Default: "allow".

    """

    def __new__(
        cls,
        job: NewJob,
        *,
        cron: str | None = None,
        every: _Span | None = None,
        tz: str | None = None,
        anchor: float | datetime | None = None,
        start: float | datetime | None = None,
        until: float | datetime | None = None,
        count: int | None = None,
        jitter: _Span = 0,
        catch_up: Literal["latest", "skip"] | int = "latest",
        grace: _Span = 60,
        overlap: Literal["allow", "skip", "replace"] = "allow",
    ) -> Self: ...
    @property
    def cron(self) -> str | None:
        """The pattern, as it is stored."""

    @property
    def tz(self) -> str | None:
        """The time zone of the pattern."""

    @property
    def every(self) -> float | None:
        """The interval in seconds."""

    @property
    def anchor(self) -> float | None:
        """The moment from which the interval is counted, in unix seconds."""

    @property
    def start(self) -> float | None:
        """No slot before this moment, in unix seconds."""

    @property
    def until(self) -> float | None:
        """No slot after this moment, in unix seconds."""

    @property
    def count(self) -> int | None:
        """The most slots that fire."""

    @property
    def jitter(self) -> float:
        """Up to how many seconds after its slot it fires."""

    @property
    def catch_up(self) -> str:
        """`latest`, `skip`, or a number."""

    @property
    def grace(self) -> float:
        """How many seconds old a slot may be that still fires under `skip`."""

    @property
    def overlap(self) -> str:
        """`allow`, `skip` or `replace`."""

    def next(self, after: float | datetime, count: int = 5) -> list[float]:
        """Return the next slots after this moment, at most 1,000, in unix seconds: a preview."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]

@final
class Fire:
    """A slot that fired. Times are unix seconds by the server's clock."""

    @property
    def slot(self) -> float:
        """The slot."""

    @property
    def at(self) -> float:
        """When it fired."""

    @property
    def outcome(self) -> str:
        """`pushed`, `skipped` (an earlier job was still in the queue) or `replaced` (that one was cancelled)."""

    @property
    def job_id(self) -> str:
        """The id of its job, `<name>@<slot>`."""

@final
class ScheduleView:
    """A schedule as it is stored. Times are unix seconds by the server's clock."""

    @property
    def name(self) -> str: ...
    @property
    def schedule(self) -> Schedule | None:
        """The definition; None if this version cannot read it."""

    @property
    def owner(self) -> str | None:
        """The owner, if `sync` put it."""

    @property
    def paused(self) -> bool: ...
    @property
    def next(self) -> float | None:
        """The next slot; None if it is paused or over."""

    @property
    def last(self) -> float | None:
        """The last slot that was due."""

    @property
    def fired(self) -> int:
        """How many slots fired."""

    @property
    def made_at(self) -> float:
        """When it was put."""

    @property
    def changed_at(self) -> float:
        """When it was last changed, paused or resumed."""

    @property
    def fires(self) -> list[Fire]:
        """The last twenty slots that fired, the oldest first; only from `get`."""

@final
class SyncReport:
    """The changes that `sync` made: the names of schedules."""

    @property
    def created(self) -> list[str]: ...
    @property
    def changed(self) -> list[str]: ...
    @property
    def unchanged(self) -> list[str]: ...
    @property
    def removed(self) -> list[str]: ...

@final
class Schedules:
    """The schedules of a queue. Workers of the queue fire them; while none is alive, nothing fires."""

    @property
    def name(self) -> str:
        """The name of the queue."""

    def put(self, name: str, schedule: Schedule) -> Literal["created", "changed", "unchanged"]:
        """Store a schedule under this name, in place of the one that has it.

        Nothing fires at once: the first slot is the first one in the future. A schedule that is the same keeps its next
        slot.

        Args:
            name: 1 to 96 bytes. The ids of its jobs are `<name>@<slot>`.
            schedule: what to push, and when.

        Raises:
            InvalidArgumentError: an argument is wrong, or there is no slot in the future.
            TooLargeError: the data of the job is too large.

        """

    def remove(self, name: str) -> bool:
        """Remove a schedule; return whether there was one. Jobs that it has pushed stay."""

    def get(self, name: str) -> ScheduleView | None:
        """Return a schedule with its last twenty fires, or None."""

    def list(self, offset: int = 0, limit: int = 100) -> list[ScheduleView]:
        """Return a page of the schedules in the order in which they fire; those paused or over come last."""

    def pause(self, name: str) -> bool:
        """Fire no more until `resume`; return whether there is a schedule of this name."""

    def resume(self, name: str) -> bool:
        """Fire again from the first slot in the future on; return whether there is a schedule of this name."""

    def run_now(self, name: str) -> str:
        """Push a job of the schedule now and return its id. That moves none of its slots.

        Raises:
            NotFoundError: there is no schedule of this name.
            DuplicateError: an earlier job is still in the queue, and the schedule's overlap is "skip".

        """

    def next(self, name: str, count: int = 5) -> _Slots:
        """Return the next slots of a schedule, at most 100, in unix seconds; none if it is paused or over.

        Raises:
            NotFoundError: there is no schedule of this name.

        """

    def sync(self, owner: str, schedules: Mapping[str, Schedule]) -> SyncReport:
        """Make the schedules of an owner those of this mapping.

        New and changed ones are put, and those of the owner that are not in the mapping are removed. Schedules of other
        owners, and those made by `put`, are left alone. Unchanged ones keep their next slots, so this may run at each
        start of each process.

        Args:
            owner: whose schedules, such as the name of the program: 1 to 128 bytes.
            schedules: the schedules by name.

        Raises:
            InvalidArgumentError: a schedule is wrong, or its name belongs to somebody else. Nothing was changed.

        """

    def fire_due(self) -> int:
        """Fire what is due, and return how many slots pushed a job.

        Workers do this by themselves. It is for programs that reserve by hand, and for tests.
        """

@final
class AsyncSchedules:
    """The asyncio version of `Schedules`: each method returns a `Call`."""

    @property
    def name(self) -> str:
        """The name of the queue."""

    def put(self, name: str, schedule: Schedule) -> Call[Literal["created", "changed", "unchanged"]]:
        """Store a schedule under this name, in place of the one that has it.

        Nothing fires at once: the first slot is the first one in the future. A schedule that is the same keeps its next
        slot.

        Args:
            name: 1 to 96 bytes. The ids of its jobs are `<name>@<slot>`.
            schedule: what to push, and when.

        Raises:
            InvalidArgumentError: an argument is wrong, or there is no slot in the future.
            TooLargeError: the data of the job is too large.

        """

    def remove(self, name: str) -> Call[bool]:
        """Remove a schedule; return whether there was one. Jobs that it has pushed stay."""

    def get(self, name: str) -> Call[ScheduleView | None]:
        """Return a schedule with its last twenty fires, or None."""

    def list(self, offset: int = 0, limit: int = 100) -> Call[list[ScheduleView]]:
        """Return a page of the schedules in the order in which they fire; those paused or over come last."""

    def pause(self, name: str) -> Call[bool]:
        """Fire no more until `resume`; return whether there is a schedule of this name."""

    def resume(self, name: str) -> Call[bool]:
        """Fire again from the first slot in the future on; return whether there is a schedule of this name."""

    def run_now(self, name: str) -> Call[str]:
        """Push a job of the schedule now and return its id. That moves none of its slots.

        Raises:
            NotFoundError: there is no schedule of this name.
            DuplicateError: an earlier job is still in the queue, and the schedule's overlap is "skip".

        """

    def next(self, name: str, count: int = 5) -> Call[_Slots]:
        """Return the next slots of a schedule, at most 100, in unix seconds; none if it is paused or over.

        Raises:
            NotFoundError: there is no schedule of this name.

        """

    def sync(self, owner: str, schedules: Mapping[str, Schedule]) -> Call[SyncReport]:
        """Make the schedules of an owner those of this mapping.

        New and changed ones are put, and those of the owner that are not in the mapping are removed. Schedules of other
        owners, and those made by `put`, are left alone. Unchanged ones keep their next slots, so this may run at each
        start of each process.

        Args:
            owner: whose schedules, such as the name of the program: 1 to 128 bytes.
            schedules: the schedules by name.

        Raises:
            InvalidArgumentError: a schedule is wrong, or its name belongs to somebody else. Nothing was changed.

        """

    def fire_due(self) -> Call[int]:
        """Fire what is due, and return how many slots pushed a job.

        Workers do this by themselves. It is for programs that reserve by hand, and for tests.
        """

@final
class Trace:
    """The life of a job.

    Without a history (`Queue.keep_history`) the events are those that the stored job tells.
    """

    @property
    def id(self) -> str: ...
    @property
    def job(self) -> JobView | None:
        """The job, if it is still in the queue."""

    @property
    def kept(self) -> bool:
        """Whether the queue keeps a history."""

    @property
    def complete(self) -> bool:
        """Whether the events begin with the push.

        If not, earlier ones are no longer kept, were not noted, or the stored job tells all of them.
        """

    @property
    def events(self) -> list[TraceEvent]:
        """What happened to the job, the first first."""

    @property
    def runs(self) -> list[TraceRun]:
        """The runs among these events, the first first."""

@final
class TraceEvent:
    """One thing that happened to a job."""

    @property
    def at(self) -> float:
        """When, in unix seconds by the server's clock."""

    @property
    def what(self) -> str:
        """What happened, one of these words.

        `pushed`, `promoted` (its delay was over), `reserved`, `started`, `done`, `retried`, `released`, `given_back`
        (by its worker, before it started), `lease_ended`, `failed`, `cancelled`, `rescheduled`, `requeued`, `purged`,
        `replaced`, `trimmed` (from `failed`), `departed` and `came_back` (by a bridge), `repaired` (by an audit).
        """

    @property
    def language(self) -> str:
        """The language of the process that did it: `rust`, `python` or `php`. Empty if nobody knows."""

    @property
    def pid(self) -> int:
        """The number of that process."""

    @property
    def host(self) -> str:
        """The host of that process."""

    @property
    def due(self) -> float | None:
        """When the job was due since then, in unix seconds, if it had to wait."""

    @property
    def token(self) -> int | None:
        """The token of the lease."""

    @property
    def attempt(self) -> int | None:
        """Which attempt the run is, from 1 on."""

    @property
    def took(self) -> float | None:
        """How many seconds the run took, as its worker says."""

    @property
    def error(self) -> str | None:
        """The first 200 bytes of the error."""

    @property
    def detail(self) -> str | None:
        """What else there is to say.

        Who pushed it if that was a `schedule` or a `bridge`; the state that it was in; the job that replaced it.
        """

@final
class TraceRun:
    """One run of a job, as its events tell it. Times are unix seconds by the server's clock."""

    @property
    def attempt(self) -> int | None:
        """Which attempt, from 1 on; like `token` and `reserved_at` None if the beginning is no longer kept."""

    @property
    def token(self) -> int | None:
        """The token of its lease."""

    @property
    def language(self) -> str:
        """The language of the process that ran it: `rust`, `python` or `php`. Empty if nobody knows."""

    @property
    def pid(self) -> int:
        """The number of that process."""

    @property
    def host(self) -> str:
        """The host of that process."""

    @property
    def reserved_at(self) -> float | None:
        """When the worker got the job."""

    @property
    def started_at(self) -> float | None:
        """When the run started; None if nobody knows, as of one that goes on or whose worker died."""

    @property
    def ended_at(self) -> float | None:
        """When the server heard of its end."""

    @property
    def outcome(self) -> str | None:
        """What came of it, as `TraceEvent.what` says it; None as long as it goes on."""

    @property
    def error(self) -> str | None:
        """The first 200 bytes of its error."""

    @property
    def error_class(self) -> str | None:
        """The class of its error, such as `ValueError`."""

@final
class Rates:
    """What the runs of a queue came to in a span of time.

    Workers count it. One that is killed takes with it what it has not reported yet. Runs of jobs that were reserved by
    hand are not counted.
    """

    @property
    def since(self) -> float:
        """Where the first window begins, in unix seconds by the server's clock."""

    @property
    def step(self) -> float:
        """How many seconds a window is: 60, or 600 if more than 8 hours were asked for."""

    @property
    def windows(self) -> list[RateWindow]:
        """The windows in which a run ended, the oldest first."""

    @property
    def total(self) -> RunCounts:
        """All of these windows."""

    @property
    def names(self) -> list[NameRates]:
        """By the name of the job, the busiest first. Names are kept for each ten minutes, and begin where these do."""

@final
class RateWindow:
    """What the runs came to that ended in one window of time."""

    @property
    def start(self) -> float:
        """Where it begins, in unix seconds by the server's clock."""

    @property
    def counts(self) -> RunCounts: ...

@final
class NameRates:
    """What the runs of jobs with one name came to."""

    @property
    def name(self) -> str | None:
        """The name; None for jobs without one, and for those of `others`."""

    @property
    def others(self) -> bool:
        """Are these the runs of all other names together? Of a queue 200 names are counted each by itself."""

    @property
    def counts(self) -> RunCounts: ...

@final
class RunCounts:
    """What runs came to."""

    @property
    def done(self) -> int:
        """Runs after which the job was done."""

    @property
    def failed(self) -> int:
        """Runs after which it went to `failed`."""

    @property
    def retried(self) -> int:
        """Runs that failed and are tried again."""

    @property
    def released(self) -> int:
        """Runs after which it was given back without a failure."""

    @property
    def wait(self) -> Spread:
        """How long jobs had been due when their first run began.

        By the clock of the host that pushed them, and that of the worker. Not of jobs with an id of your own. A job
        that was rescheduled or requeued counts from its first due time.
        """

    @property
    def run(self) -> Spread:
        """How long the runs took."""

@final
class Spread:
    """How long something took, in seconds; p50, p95 and p99 are at most 10 % off. None if nothing was counted."""

    @property
    def count(self) -> int:
        """How many times were counted."""

    @property
    def mean(self) -> float | None: ...
    @property
    def p50(self) -> float | None:
        """Half of them took no longer."""

    @property
    def p95(self) -> float | None:
        """95 of 100 took no longer."""

    @property
    def p99(self) -> float | None:
        """99 of 100 took no longer."""

@final
class WorkerInfo:
    """A worker that is alive. Times are unix seconds of its host's clock."""

    @property
    def id(self) -> str:
        """The worker's own id, new at each start."""

    @property
    def host(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def language(self) -> str:
        """`rust`, `python` or `php`."""

    @property
    def version(self) -> str:
        """The version of duly."""

    @property
    def name(self) -> str | None:
        """The name given to the worker (`Worker(name=...)`)."""

    @property
    def queues(self) -> list[str]:
        """All queues that it serves."""

    @property
    def concurrency(self) -> int: ...
    @property
    def started_at(self) -> float: ...
    @property
    def running(self) -> list[RunningJob]:
        """The jobs of this queue that it runs, at most 20, as of its last report, up to 10 s ago."""

@final
class RunningJob:
    """A job that a worker is running."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def started_at(self) -> float:
        """When this run began."""

@final
class SearchPage:
    """A page of the jobs that a search found."""

    @property
    def jobs(self) -> list[JobView]: ...
    @property
    def looked_at(self) -> int:
        """How many jobs were read for this page."""

    @property
    def cursor(self) -> str | None:
        """Where the next page begins; None after the last one."""

@final
class Found(JobView):
    """Where one job is and why it is not running."""

    @property
    def token(self) -> int | None:
        """The token of its lease if it is reserved."""

    @property
    def now(self) -> float:
        """The server's time of this answer, in unix seconds."""

    @property
    def why(self) -> str:
        """One sentence: why it waits, or which worker has it."""

@final
class Counts:
    """How many jobs are in each state, and what comes next. Times are in seconds."""

    @property
    def delayed(self) -> int: ...
    @property
    def ready(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def paused(self) -> bool:
        """Is the queue paused? One with partitions is if some of them are: their jobs are not handed out."""

    @property
    def oldest_ready_age(self) -> float | None:
        """For how many seconds the oldest ready job could have run: since the end of the delay of its push.

        By the clock of its producer; retries and reschedules do not change it. None if no job is ready.
        """

    @property
    def next_due_in(self) -> float | None:
        """How long until the next delayed job is due, 0 if it is overdue; None if no job is delayed."""

    @property
    def overdue(self) -> float | None:
        """For how long the first delayed job is due that no reserve has made ready; None while none is due.

        No worker asks, or the queue is paused.
        """

    @property
    def next_lease_end_in(self) -> float | None:
        """How long until the next lease ends, 0 if it is over; None if no job is reserved."""

    @property
    def totals(self) -> dict[str, int]:
        """Totals over the queue's life, for information only."""
    @property
    def held(self) -> str | None:
        """Which limit holds jobs back right now, of the queue or of names; None if none does."""

@disjoint_base
class Lock:
    """A lock that is held, and renewed by a native thread until it is released.

    `with client.lock("stock:42") as lock:` releases it at the end, and raises LeaseLostError there if it was lost
    before. One that is dropped is released soon after; one whose process dies is free after its `ttl`.
    """

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def token(self) -> int:
        """The fencing token, greater than that of every earlier holder: `WHERE id = :id AND fence < :token`."""

    @property
    def held(self) -> bool:
        """Whether it is held, by what the server has said; False as soon as it may have ended there."""

    @property
    def waited(self) -> float:
        """How many seconds it was waited for: by this call; of `Job.lock`, since the job first met it taken."""

    def release(self) -> bool:
        """Release it, and wake one who waits for it; return whether it was held until now."""

    def __enter__(self) -> Self: ...
    def __exit__(self, raised: object = None, *_more: object) -> None: ...

@type_check_only
class _LockOfRun(Lock):
    """What `Job.lock` gives: a `Lock`, and in an `async def` handler a `LockCall`."""

    def __aenter__(self) -> Coroutine[Any, Any, AsyncLock]: ...
    def __aexit__(self, *_raised: object) -> Coroutine[Any, Any, None]: ...
    def __await__(self) -> Generator[Any, None, AsyncLock]: ...

@final
class AsyncLock:
    """The asyncio version of `Lock`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def token(self) -> int:
        """The fencing token, greater than that of every earlier holder: `WHERE id = :id AND fence < :token`."""

    @property
    def held(self) -> bool:
        """Whether it is held, by what the server has said; False as soon as it may have ended there."""

    @property
    def waited(self) -> float:
        """How many seconds it was waited for: by this call; of `Job.lock`, since the job first met it taken."""

    def release(self) -> Call[bool]:
        """Release it, and wake one who waits for it; return whether it was held until now."""

    def __aenter__(self) -> Call[Self]: ...
    def __aexit__(self, raised: object = None, *_more: object) -> Call[None]: ...

@final
class Topic:
    """A topic: messages that every subscription gets, each at its own pace.

    Created by `client.topic(name)`; safe to share between threads. A message stays until all subscriptions have read
    it, within the bounds of the topic. A subscription that has not read what goes beyond them is cut off: its members
    get CutOffError until they subscribe again.
    """

    @property
    def name(self) -> str: ...
    def publish(self, data: _Json = None, *, raw: bytes | None = None) -> Published:
        """Publish a message and return what was published.

        It is published once however often the call has to be sent; after a DulyTimeoutError it may have been.

        Args:
            data: what can be the data of a job; as JSON at most the client's `max_data_bytes` (1 MiB). Default:
                None.
            raw: the data as bytes of JSON, kept byte for byte, instead of `data`. Default: none.

        Raises:
            InvalidArgumentError: the data cannot be JSON. Nothing was sent.
            TooLargeError: the data is too large. Nothing was sent.
            StorageFullError: the server has no room. Nothing was stored.

        """

    def publish_all(self, data: Iterable[_Json]) -> Published:
        """Publish 1 to 1,000 messages of at most 4 MiB together, in order and without others between.

        Raises what `publish` raises; then none is published.
        """

    def subscribe(
        self, member: str, *, subscription: str | None = None, from_: Literal["latest", "earliest"] = "latest"
    ) -> bool:
        """Make a member, and return whether its subscription is new; one that is there stays where it is.

        Args:
            member: its name, 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
            subscription: a name that other members use, too: each message goes to one of them. Default: the member's
                name, so a subscription of its own.
            from_: where a new subscription begins: "latest", so with the next message, or "earliest", with the oldest
                one that is still there. Default: "latest".

        Raises:
            InvalidArgumentError: an argument is wrong, or the member has another subscription to this topic.

        """

    def unsubscribe(self, member: str) -> bool:
        """End a membership, and return whether there was one.

        What the member has pulled and not acked goes to the others of its subscription. With the last member the
        subscription ends.
        """

    def pull(
        self, member: str, *, max: int = 100, wait: _Span | None = None, lease: _Span | None = None
    ) -> list[Message]:
        """Return messages for a member, oldest first; a message that is not acked within its lease comes again.

        Args:
            member: its name.
            max: the most messages to return, 1 to 1,000; fewer when they make up about 4 MiB. Default: 100.
            wait: how long to wait if there are none, in seconds or as a timedelta, a year at most. Default: 0.
            lease: how long the member has for its acks, in seconds or as a timedelta, 0.001 s to 24 h. That of its last
                pull counts for all that it has pulled. Default: 30 s.

        Raises:
            NotFoundError: it has not subscribed.
            CorruptError: there is only a message that is not JSON; ack the id that it names to pass over it.
                What else was pulled comes first, and the next pull raises it.
            CutOffError: messages went that its subscription had not read. The text says which; subscribe again.

        """

    def ack(self, member: str, *messages: Message | AsyncMessage | str) -> int:
        """Note that a member has read messages; return how many of them its subscription had pulled and not acked.

        It is the subscription that this client has pulled from as that member, and no newer one of its name; where it
        has not pulled, the one that the member has now. It may be repeated. Raises what `pull` raises.

        Args:
            member: its name.
            messages: the messages, or their ids.

        """

    def info(self) -> TopicInfo:
        """Return how much is there, who reads it, and how far each is."""

    def members(self) -> list[SubscriptionMember]:
        """Return its members, by name: the subscription of each, how far behind it is, and for how long it was silent.

        Those of a subscription that was cut off are among them.
        """

    def set_bounds(self, *, age: _Span | None = None, messages: int | None = None, bytes: int | None = None) -> None:
        """Set how many messages the topic keeps, and for how long, from the next message on.

        Older messages are removed. A subscription that had not read all of them is cut off.

        Args:
            age: how long a message is kept, in seconds or as a timedelta, 1 s to 10 years. Default: 7 days.
            messages: how many are kept, at least 1. Default: 1,000,000.
            bytes: how many bytes of data are kept, at least 1; the last message stays. Default: 100,000,000.

        """

    def delete(self) -> None:
        """Remove the topic with its messages, subscriptions and bounds."""

@final
class Message:
    """A message that was pulled. Until it is acked within its lease it is pulled again."""

    @property
    def id(self) -> str:
        """When it was published in ms, and its number in the topic: `1790000000000-42`."""

    @property
    def topic(self) -> str:
        """The name of its topic."""

    @property
    def data(self) -> Any:
        """The published data, decoded."""

    @property
    def raw(self) -> bytes:
        """The published data, byte for byte."""

    @property
    def published_at(self) -> float:
        """When it was published, in unix seconds by the server's clock."""

    @property
    def deliveries(self) -> int:
        """How often it was pulled, this time counted."""

    def ack(self) -> bool:
        """Note that it was read; return whether it was not acked before. `Topic.ack` takes many at once."""

@final
class AsyncTopic:
    """The asyncio version of `Topic`: each method returns a `Call`."""

    @property
    def name(self) -> str: ...
    def publish(self, data: _Json = None, *, raw: bytes | None = None) -> Call[Published]:
        """Publish a message and return what was published.

        It is published once however often the call has to be sent; after a DulyTimeoutError it may have been.

        Args:
            data: what can be the data of a job; as JSON at most the client's `max_data_bytes` (1 MiB). Default:
                None.
            raw: the data as bytes of JSON, kept byte for byte, instead of `data`. Default: none.

        Raises:
            InvalidArgumentError: the data cannot be JSON. Nothing was sent.
            TooLargeError: the data is too large. Nothing was sent.
            StorageFullError: the server has no room. Nothing was stored.

        """

    def publish_all(self, data: Iterable[_Json]) -> Call[Published]:
        """Publish 1 to 1,000 messages of at most 4 MiB together, in order and without others between.

        Raises what `publish` raises; then none is published.
        """

    def subscribe(
        self, member: str, *, subscription: str | None = None, from_: Literal["latest", "earliest"] = "latest"
    ) -> Call[bool]:
        """Make a member, and return whether its subscription is new; one that is there stays where it is.

        Args:
            member: its name, 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
            subscription: a name that other members use, too: each message goes to one of them. Default: the member's
                name, so a subscription of its own.
            from_: where a new subscription begins: "latest", so with the next message, or "earliest", with the oldest
                one that is still there. Default: "latest".

        Raises:
            InvalidArgumentError: an argument is wrong, or the member has another subscription to this topic.

        """

    def unsubscribe(self, member: str) -> Call[bool]:
        """End a membership, and return whether there was one.

        What the member has pulled and not acked goes to the others of its subscription. With the last member the
        subscription ends.
        """

    def pull(
        self, member: str, *, max: int = 100, wait: _Span | None = None, lease: _Span | None = None
    ) -> Call[list[AsyncMessage]]:
        """Return messages for a member, oldest first; a message that is not acked within its lease comes again.

        Args:
            member: its name.
            max: the most messages to return, 1 to 1,000; fewer when they make up about 4 MiB. Default: 100.
            wait: how long to wait if there are none, in seconds or as a timedelta, a year at most. Default: 0.
            lease: how long the member has for its acks, in seconds or as a timedelta, 0.001 s to 24 h. That of its last
                pull counts for all that it has pulled. Default: 30 s.

        Raises:
            NotFoundError: it has not subscribed.
            CorruptError: there is only a message that is not JSON; ack the id that it names to pass over it.
                What else was pulled comes first, and the next pull raises it.
            CutOffError: messages went that its subscription had not read. The text says which; subscribe again.

        """

    def ack(self, member: str, *messages: Message | AsyncMessage | str) -> Call[int]:
        """Note that a member has read messages; return how many of them its subscription had pulled and not acked.

        It is the subscription that this client has pulled from as that member, and no newer one of its name; where it
        has not pulled, the one that the member has now. It may be repeated. Raises what `pull` raises.

        Args:
            member: its name.
            messages: the messages, or their ids.

        """

    def info(self) -> Call[TopicInfo]:
        """Return how much is there, who reads it, and how far each is."""

    def members(self) -> Call[list[SubscriptionMember]]:
        """Return its members, by name: the subscription of each, how far behind it is, and for how long it was silent.

        Those of a subscription that was cut off are among them.
        """

    def set_bounds(
        self, *, age: _Span | None = None, messages: int | None = None, bytes: int | None = None
    ) -> Call[None]:
        """Set how many messages the topic keeps, and for how long, from the next message on.

        Older messages are removed. A subscription that had not read all of them is cut off.

        Args:
            age: how long a message is kept, in seconds or as a timedelta, 1 s to 10 years. Default: 7 days.
            messages: how many are kept, at least 1. Default: 1,000,000.
            bytes: how many bytes of data are kept, at least 1; the last message stays. Default: 100,000,000.

        """

    def delete(self) -> Call[None]:
        """Remove the topic with its messages, subscriptions and bounds."""

@final
class AsyncMessage:
    """The asyncio version of `Message`."""

    @property
    def id(self) -> str:
        """When it was published in ms, and its number in the topic: `1790000000000-42`."""

    @property
    def topic(self) -> str:
        """The name of its topic."""

    @property
    def data(self) -> Any:
        """The published data, decoded."""

    @property
    def raw(self) -> bytes:
        """The published data, byte for byte."""

    @property
    def published_at(self) -> float:
        """When it was published, in unix seconds by the server's clock."""

    @property
    def deliveries(self) -> int:
        """How often it was pulled, this time counted."""

    def ack(self) -> Call[bool]:
        """Note that it was read; return whether it was not acked before. `Topic.ack` takes many at once."""

@final
class Published:
    """The answer of a publish."""

    @property
    def ids(self) -> list[str]:
        """The id of each message, in order: when it was published in ms, and its number in the topic."""

    @property
    def id(self) -> str | None:
        """The id of the last message, which is the only one of `publish`."""

    @property
    def cut_off(self) -> list[str]:
        """Subscriptions that were cut off by it: they had not read what the bounds of the topic removed."""

@final
class TopicInfo:
    """The state of a topic, by the server's clock. Times are in seconds."""

    @property
    def published(self) -> int:
        """How many messages were ever published; they are numbered from 1."""

    @property
    def messages(self) -> int:
        """How many are there: what not all subscriptions have read."""

    @property
    def bytes(self) -> int:
        """Their bytes, without what the server needs for each."""

    @property
    def oldest_at(self) -> float | None:
        """When the oldest of them was published, in unix seconds."""

    @property
    def max_age(self) -> float:
        """How long a message is kept at most."""

    @property
    def max_messages(self) -> int:
        """How many are kept at most."""

    @property
    def max_bytes(self) -> int:
        """How many bytes are kept at most."""

    @property
    def subscriptions(self) -> list[Subscription]:
        """How far each subscription is, by name."""

    @property
    def cut_off(self) -> list[CutOff]:
        """Subscriptions that lost messages which they had not read, until they subscribe again; by name."""

@final
class Subscription:
    """How far a subscription is."""

    @property
    def name(self) -> str: ...
    @property
    def read(self) -> int:
        """It has read all messages up to this number."""

    @property
    def unread(self) -> int:
        """How many it has not pulled yet."""

    @property
    def pulled(self) -> int:
        """How many its members have pulled and not acked."""

    @property
    def members(self) -> list[SubscriptionMember]:
        """Its members, by name."""

@final
class SubscriptionMember:
    """A member of a subscription."""

    @property
    def name(self) -> str: ...
    @property
    def subscription(self) -> str:
        """The name of its subscription."""

    @property
    def silent_for(self) -> float:
        """How long ago it subscribed or pulled, in seconds."""

    @property
    def pulled(self) -> int:
        """How many messages it has pulled and not acked."""

    @property
    def behind(self) -> int:
        """How many messages its subscription has not read: not pulled yet, or pulled and not acked. Lost ones count."""

    @property
    def is_cut_off(self) -> bool:
        """Whether its subscription has lost messages that it had not read, and nobody has subscribed to it again."""

@final
class CutOff:
    """A subscription that has lost messages."""

    @property
    def name(self) -> str: ...
    @property
    def at(self) -> float:
        """When, in unix seconds."""

    @property
    def first(self) -> int:
        """The number of the first message that it has lost."""

    @property
    def last(self) -> int:
        """That of the last one."""

@final
class Limits:
    """The limits of a queue, as `queue.limits()` returns them."""

    @property
    def concurrency(self) -> int | None:
        """The most jobs that are reserved at once."""
    @property
    def rate(self) -> tuple[int, float] | None:
        """How many jobs may start in how many seconds."""
    @property
    def names(self) -> dict[str, _NameLimits]:
        """The limits of single job names, such as `{"mail.send": {"concurrency": 5, "rate": (100, 60.0)}}`."""
    @property
    def max_length(self) -> int | None:
        """How many jobs the queue takes."""

@final
class PushSummary:
    """The result of `push_many`."""

    @property
    def created(self) -> int:
        """Jobs that are new in the queue."""

    @property
    def kept(self) -> int:
        """Jobs that were not pushed, because another job has their id or key and was kept."""

    @property
    def replaced(self) -> int:
        """Jobs that replaced another job."""

    @property
    def duplicates(self) -> int:
        """Jobs that were refused, because another job has their id or key."""

    @property
    def ids(self) -> list[str] | None:
        """For each job, the id of the job that is in the queue now; None unless asked for with `ids=True`."""

@final
class Cancelled:
    """A job that was removed, and the state it was in."""

    @property
    def id(self) -> str: ...
    @property
    def was(self) -> _State:
        """The state it was in; a worker may still be running a job that was reserved."""

@final
class Requeued:
    """The answer of `requeue` for one failed job."""

    @property
    def id(self) -> str: ...
    @property
    def outcome(self) -> Literal["ready", "duplicate", "absent"]:
        """`ready`, `duplicate` (another job has its key now; it stays failed) or `absent` (no such failed job)."""

    @property
    def holder(self) -> str | None:
        """If the outcome is "duplicate": the job that has the key now."""

@final
class QueueInfo:
    """A queue that was used."""

    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> int:
        """In how many parts it is, as those who used it said; 0 if it is not partitioned."""

    @property
    def last_used(self) -> float:
        """When it was last used, in unix seconds by the server's clock.

        Each client notes it at its first use and then every few minutes.
        """

@final
class QueuePage:
    """A page of queues, by name."""

    @property
    def queues(self) -> list[QueueInfo]:
        """The queues, fewer than were asked for if some of them were forgotten just now."""

    @property
    def cursor(self) -> str | None:
        """Where the next page begins; None after the last one."""

@final
class ListedTopic:
    """A topic that was used."""

    @property
    def name(self) -> str: ...
    @property
    def last_used(self) -> float:
        """When a client has last published or subscribed, in unix seconds by the server's clock.

        Each client notes it at its first use and then every few minutes.
        """

@final
class TopicPage:
    """A page of topics, by name."""

    @property
    def topics(self) -> list[ListedTopic]:
        """The topics, fewer than were asked for if some of them were forgotten just now."""

    @property
    def cursor(self) -> str | None:
        """Where the next page begins; None after the last one."""

@final
class Finding:
    """One broken invariant."""

    @property
    def invariant(self) -> str:
        """The name of the invariant, such as `record` or `one_state`."""

    @property
    def id(self) -> str:
        """The job; empty if the finding is about the queue as a whole."""

    @property
    def detail(self) -> str:
        """The defect in words."""

    @property
    def repaired(self) -> bool:
        """True if it was repaired."""

@final
class AuditReport:
    """The result of an audit, and how much it checked."""

    @property
    def findings(self) -> list[Finding]: ...
    @property
    def jobs(self) -> int:
        """How many records were checked."""

    @property
    def entries(self) -> int:
        """How many entries of ready lists were checked."""

    @property
    def suspects(self) -> int:
        """How many things looked wrong at first; nearly always jobs that were just changing state."""

    @property
    def pages(self) -> int:
        """How many calls were made."""

    @property
    def clean(self) -> bool:
        """True if nothing is broken."""

@final
class RetryPolicy:
    """How long to wait before each retry, at most 100 years. The default is `linear(5)`: 5, 10, 15, 20, 25 seconds.

    From the 11th failure on, a wait is at least one second, whatever the policy says.
    """

    @staticmethod
    def linear(step: _Span) -> RetryPolicy:
        """Wait `step` after the first failure, twice that after the second, and so on."""

    @staticmethod
    def fixed(delay: _Span) -> RetryPolicy:
        """Wait the same time after every failure."""

    @staticmethod
    def exponential(base: _Span, *, factor: float = 2.0, cap: _Span | None = None, jitter: bool = True) -> RetryPolicy:
        """Wait `base`, then `factor` (1 to 1,000) times longer each time, up to `cap` (default: an hour).

        With jitter, each wait is random between zero and that.
        """

    @staticmethod
    def list(delays: Sequence[_Span]) -> RetryPolicy:
        """Wait as the list says (1 to 100 entries); the last one repeats."""

    def delay(self, failures: int, *, seed: int = 0) -> float:
        """Return the wait in seconds after this many failures; the same seed gives the same jitter."""

    def decide(self, failures: int, max_retries: int, *, seed: int = 0) -> float | None:
        """Return the wait in seconds of a job that has failed this often, or None if it goes to `failed`."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class WorkerReport:
    """The work of a worker in numbers, as `Worker.run` returns it."""

    @property
    def acked(self) -> int:
        """Jobs that are done."""

    @property
    def failed(self) -> int:
        """Runs that failed, whether the job is retried or not."""

    @property
    def released(self) -> int:
        """Jobs given back: not started before the stop, not finished within the grace, or by their handlers."""

    @property
    def lost(self) -> int:
        """Jobs whose lease ended before they were settled."""

    @property
    def expired(self) -> int:
        """Jobs that expired before a run of them started, and are dropped."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class WorkerEngine:
    """The engine of `duly.Worker`: fetches jobs, renews leases and sends outcomes on a native thread."""

    def __new__(
        cls,
        client: Client,
        queues: Mapping[str, int] | Iterable[str],
        *,
        concurrency: float,
        lease: _Span,
        grace: _Span,
        max_jobs: float | None = None,
        name: str | None = None,
        prefetch: float | None = None,
        timeout: _Span | None = None,
        schedules: list[tuple[str, str, dict[str, Schedule]]] = ...,
        patience: float | None = None,
        signals_seen: int | None = None,
    ) -> WorkerEngine:
        """Start it. With `signals_seen`, it stops at each signal after the first so many (see `listen`).

        With `patience`: if a run must end and Python cannot run for so many seconds, because C code holds the GIL, the
        process ends with exit code 124.
        """

    @staticmethod
    def check(
        client: Client,
        queues: Mapping[str, int] | Iterable[str],
        *,
        concurrency: float,
        lease: _Span,
        grace: _Span,
        max_jobs: float | None = None,
        name: str | None = None,
        prefetch: float | None = None,
        timeout: _Span | None = None,
    ) -> None:
        """Raise InvalidArgumentError if these settings are wrong; starts nothing."""

    def executor(self) -> Executor:
        """Return a new executor, in which one handler at a time runs."""

    def stop(self) -> None:
        """Start no more jobs, and let running ones finish within the grace; a second call ends the grace."""

    def retire(self) -> None:
        """Start no more jobs, and end when the running ones have, however long they take."""

    @staticmethod
    def listen(signals: Sequence[int]) -> int:
        """Count these signals from now on, which must have handlers; return how many came before."""

    @staticmethod
    def leave_at(signals: Sequence[int]) -> None:
        """Let these signals end the process at once and quietly, also in C code, until they get other handlers."""

    def handle_signals(self) -> None:
        """Handle the signals that came since the last call: stop once for each."""

    def event(self, wait: float) -> WorkerEvent | None:
        """Return the next event; None if there is none within the wait, or if the engine has ended."""

    def failed(self, event: WorkerEvent) -> tuple[Job, str] | None:
        """Return the failed job whose hooks are to be called now, and its error.

        None for any other event, and if the engine has ended: then another worker calls them.
        """

    def heard(self, event: WorkerEvent) -> None:
        """Confirm that the hooks of the job of this event were called."""

    def leave_hooks(self, event: WorkerEvent) -> None:
        """Leave the job of this event to another worker: its hooks were not called to their end."""

    def ended(self, wait: float) -> WorkerReport | None:
        """Return its report once it has ended; None if it has not within the wait. Raises the error that ended it."""

    def exit_code(self, signals: Sequence[int], is_stuck: bool) -> int:
        """Return the exit status of a worker that stopped after these signals; `is_stuck`: a handler did not end."""

    def report(self) -> WorkerReport:
        """Return what it has done so far."""

@final
class WebEngine:
    """The page of `duly web` for a web application, which calls it for each request."""

    def __new__(cls, client: Client | AsyncClient, *, hide_data: bool) -> WebEngine:
        """Show the queues of this client; `hide_data`: without data, headers and results to those who may only look."""

    @staticmethod
    def most_body_bytes() -> int:
        """Return how many bytes of a body are to be given at the most; with more it is refused."""

    def handle(
        self,
        method: str,
        uri: str,
        *,
        mount: str,
        headers: list[tuple[str, str]],
        body: bytes,
        actions: list[str],
        user: str | None,
        peer: str,
        secure: bool,
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Answer one request: the status, the headers and the body. `actions`: what the user may do."""

    def lines(self) -> list[str]:
        """Return what was done since the last call of this: a line for each action."""

@final
class Supervision:
    """What a supervisor of worker processes does next; it starts them and sends the signals itself.

    A process slot has one process at a time; when that ends, the next one starts in the same slot.
    """

    def __new__(
        cls, processes: int, *, grace: float | timedelta, has_terminal: bool, await_changes: bool
    ) -> Supervision:
        """Begin without a process, in a supervisor that has loaded the app itself.

        `has_terminal`: it was started in a terminal, which sends SIGHUP when it goes away. `await_changes`: processes
        start again when a file has changed.
        """

    @staticmethod
    def patience() -> float:
        """Return the seconds that a handler may go on after it was interrupted, before its process ends."""

    @staticmethod
    def stop_signals() -> list[int]:
        """Return the signals that stop a worker."""

    @staticmethod
    def reload_signals() -> list[int]:
        """Return the signals at which a supervisor replaces its processes one after the other."""

    def start(self) -> int | None:
        """Return a slot whose process is to be started now; None if there is none."""

    def started(self, slot: int, pid: int) -> None:
        """Note that the process of this slot has started, with this id."""

    def not_started(self, slot: int, why: str) -> None:
        """Note that the system gives no process for this slot, and why."""

    def ready(self, slot: int) -> bool:
        """Note that the process of this slot is ready for jobs; return True for the first one of all."""

    def ends(self, slot: int, why: str) -> None:
        """Note why the process of this slot ends: `fatal` or `refused`."""

    def ended(self, slot: int, status: int) -> None:
        """Note how the process of this slot has ended: its exit status, or the negative number of a signal."""

    def signal(self, number: int) -> None:
        """Note a signal to the supervisor."""

    def lines(self) -> list[tuple[int, str]]:
        """Return what is to be logged: all since the last call of this, each with its level in `logging`."""

    def code_changed(self) -> None:
        """Note that a file has changed: all processes start again."""

    def signals(self) -> list[tuple[int, int]]:
        """Return what is to be sent now: slots, and the numbers of signals to their processes."""

    def wait(self) -> float | None:
        """Return the seconds until something is to be done without a signal or a word; None if there is nothing."""

    def exit_code(self) -> int | None:
        """Return the exit status of the supervisor, when it ends."""

@final
class Executor:
    """Runs one handler at a time, in a thread or on an event loop. A worker has `concurrency` of them."""

    @property
    def number(self) -> int:
        """Its number, as events give it."""

    @property
    def job(self) -> Job | None:
        """The job that it runs."""

    @property
    def interrupted(self) -> str | None:
        """Why the run was interrupted: timed_out, lease_lost or stopped; None if it was not."""

    def next(self) -> Job | None:
        """Wait for the next job and return it; None if there will be no more. A run that was not ended has failed."""

    def keep(self, result: _Json) -> None:
        """Keep the handler's result, if the producer wants it and the handler has not settled the job.

        Hooks may follow: what becomes of the job is known.
        """

    def done(self, result: _Json) -> Job | None:
        """End the run as done with this result, or as the handler settled it; return the next job as `next` does."""

    def end(self, heard: bool = False) -> tuple[str, float | None] | None:
        """End the run as done or as the handler settled it; return the outcome and the wait.

        The outcome is ack, retry, failed or release. Returns None if the run was interrupted. `heard`: if the job has
        failed for good, its hooks were called.
        """

    @staticmethod
    def says(outcome: str, after: float | None) -> tuple[str, str]:
        """Return how loudly a log says an outcome, `debug` to `error`, and its words behind the name of the job."""

    def take(self) -> Job | None:
        """Return the next job if there is one now, to run on an event loop. A run that was not ended has failed."""

    def enter(self) -> bool:
        """Allow interruptions of this thread from now on; False if the run was already interrupted."""

    def leave(self) -> bool:
        """Allow no more interruptions, as the handler has ended; False if the run was interrupted."""

    def handles(self, run: int, exception: type[BaseException]) -> bool:
        """Return whether the thread of this run is in an `except` or `finally` to which such an exception has led."""

    def runs(self, run: int) -> bool:
        """Return whether this thread is in that run."""

    def interrupt(self, run: int, exception: type[BaseException], places: Places | None) -> bool | None:
        """Raise the exception in the thread of this run; False if there is no such thread.

        None, and nothing is raised, while the thread is where it could do harm: ask again soon. `places` is what is
        known of Python's code, a `duly._places.Places`; None raises it wherever the thread is.
        """

@final
class WorkerEvent:
    """An event of the engine, which the worker logs."""

    @property
    def text(self) -> str: ...
    @property
    def is_warning(self) -> bool:
        """Whether it needs attention, rather than being for information."""

    @property
    def is_error(self) -> bool:
        """Whether a job is lost unless somebody acts."""

    @property
    def is_claimed(self) -> bool:
        """Whether hooks are to be called for its job, unless another worker does that."""

    @property
    def queue(self) -> str | None: ...
    @property
    def id(self) -> str | None:
        """The id of the job that it is about."""

    @property
    def name(self) -> str | None:
        """The job's name."""

    @property
    def attempt(self) -> int | None:
        """The number of the attempt, from 1; 0 if the record could not be read."""

    @property
    def executor(self) -> int | None:
        """The executor whose run was interrupted."""

    @property
    def run(self) -> int | None:
        """The number of that run."""

    @property
    def why(self) -> _Interruption | None:
        """Why that run was interrupted."""

@final
class PullEngine:
    """The engine of a consumer: fetches jobs for who asks, renews leases and sends outcomes on a native thread."""

    def __new__(
        cls,
        client: Client | AsyncClient,
        queues: Mapping[str, int] | Iterable[str],
        *,
        concurrency: float,
        lease: _Span,
        grace: _Span,
        timeout: _Span | None,
        name: str | None,
        prefetch: float | None,
    ) -> PullEngine: ...
    def take(self) -> Any:
        """Return a job that is here, without a wait; None if there is none."""

    def next(self, wait: _Span | None = None) -> Any:
        """Return the next job; None if there is none within the wait (None: for ever), or if there will be none."""

    def next_async(self, wait: _Span | None = None) -> Call[Any]:
        """Do the same for asyncio."""

    @staticmethod
    def number(job: ReservedJob) -> int:
        """Return the number by which events name this job, which came from here."""

    def event(self, wait: float) -> WorkerEvent | None:
        """Return the next event; None if there is none within the wait, or if it has ended."""

    def stop(self) -> None:
        """Give nothing more, and give back what was fetched ahead."""

    @property
    def is_stopping(self) -> bool:
        """True once it was stopped, or has ended by itself."""

    @property
    def is_over(self) -> bool:
        """True once it has ended."""

    def close(self, within: _Span | None = None) -> WorkerReport:
        """Stop it, wait for what is out within this time (default: the grace), and end it."""

    def close_async(self, within: _Span | None = None) -> Call[WorkerReport]:
        """Do the same for asyncio."""

    def events(self) -> int:
        """Return a file descriptor that is readable while there is something to take."""

    def report(self) -> WorkerReport:
        """Return what it has done so far."""

@final
class AsyncClient:
    """The asyncio version of `Client`, with the same arguments."""

    def __new__(
        cls,
        url: str | None = None,
        *,
        prefix: str = "duly:",
        username: str | None = None,
        password: str | None = None,
        ca_file: _StrPath | None = None,
        client_cert_file: _StrPath | None = None,
        client_key_file: _StrPath | None = None,
        connect_timeout: _Span | None = None,
        command_timeout: _Span | None = None,
        deadline: _Span | None = None,
        allow_eviction: bool = False,
        max_data_bytes: int = 1048576,
        durability: str | None = None,
        fail_fast: bool | None = None,
        manual_clock: bool = False,
    ) -> AsyncClient: ...
    def ping(self) -> Call[None]:
        """Make one round trip to the server."""

    def topic(self, name: str) -> AsyncTopic:
        """Return the topic of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing."""

    def queues(self, limit: int = 100, cursor: str | None = None) -> Call[QueuePage]:
        """Return a page of the queues that were used under this client's prefix, by name.

        A queue is listed with the first call of any client that pushes to it, reserves from it, or changes it in
        another way. One that is empty and was not used for 30 days is forgotten by this call.

        Args:
            limit: the most queues of the page, 1 to 1,000.
            cursor: that of the page before. Default: the first page.

        """

    def topics(self, limit: int = 100, cursor: str | None = None) -> Call[TopicPage]:
        """Return a page of the topics that were used under this client's prefix, by name.

        A topic is listed with the first message or subscription of any client. One without messages and subscriptions
        that was not used for 30 days is forgotten by this call.

        Args:
            limit: the most topics of the page, 1 to 1,000.
            cursor: that of the page before. Default: the first page.

        """

    def topics_of(self, member: str) -> Call[list[str]]:
        """Return the names of the topics that this member has subscribed to."""

    def pull(
        self, member: str, *, max: int = 100, wait: _Span | None = None, lease: _Span | None = None
    ) -> Call[list[AsyncMessage]]:
        """Return messages from all topics of a member, at most `max` together, and wait for all of the topics at once.

        Arguments and errors are those of `Topic.pull`. If it is cut off from one topic, CutOffError is raised when no
        other has messages; so is the error of a server of a cluster that does not answer. NotFoundError is raised once
        for each topic of which it is no member any more without having unsubscribed.
        """

    def lock(self, name: str, *, ttl: _Span | None = None, wait: _Span | None = None) -> LockCall:
        """Take the lock of this name, or wait until it is free, and return it.

        `with client.lock("stock:42", wait=10) as lock:` (`async with` in `duly.aio`) releases it at the end. It is
        renewed by a native thread until then, also while Python is busy. Raises LockedError if another one holds it
        when the wait is over.

        Args:
            name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
            ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
            wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.

        """

    def close(self) -> Call[None]:
        """Close the connections of this client and its queues; later calls raise InvalidArgumentError.

        `with duly.Client() as client:` (`async with` in `duly.aio`) closes it at the end. A worker has connections of
        its own and keeps running.
        """

    def __aenter__(self) -> Call[AsyncClient]: ...
    def __aexit__(self, *_raised: object) -> Call[None]: ...
    def queue(self, name: str) -> AsyncQueue:
        """Return the queue of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. Sends nothing."""

    def partitions(self, name: str, count: int) -> AsyncQueue:
        """Return a queue in 1 to 256 parts, `name/0`, `name/1`, ...; all clients must use the same `count`."""

    def reserve_from(
        self,
        queues: Mapping[str, int] | Iterable[str],
        *,
        max: int = 1,
        wait: _Span | None = None,
        lease: _Span | None = None,
    ) -> Call[list[AsyncJob]]:
        """Lease jobs of several queues, and wait for all of the queues at once.

        Args:
            queues: a list is a strict order: a later queue gets a turn only when the earlier ones are empty. A dict
                gives weights (1 to 1,000): a queue of weight 3 comes before one of weight 1 three times out of four.
            max: the most jobs to return, 1 to 1,000; fewer when their records make up 4 MiB. Default: 1.
            wait: how long to wait for the first job, in seconds or as a timedelta, a year at most. Default: 0.
            lease: how long the jobs are yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
                10 s.

        """

@final
class AsyncQueue:
    """The asyncio version of `Queue`: each method returns a `Call`."""

    @property
    def name(self) -> str: ...
    @property
    def parts(self) -> list[AsyncQueue]:
        """The parts of a partitioned queue, each a queue of its own; empty if it is not partitioned."""

    @property
    def schedules(self) -> AsyncSchedules:
        """The schedules of the queue: jobs that come again and again."""

    def push(
        self,
        data: _Json = None,
        *,
        name: str | None = None,
        delay: _Span | None = None,
        at: datetime | float | None = None,
        id: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        max_retries: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: _Span | None = None,
        headers: Mapping[str, str] | None = None,
        expires: _Span | datetime | None = None,
        result_ttl: _Span | None = None,
        on_duplicate: Literal["refuse", "keep", "replace"] = "refuse",
        durability: str | None = None,
        raw: bytes | None = None,
    ) -> Call[str]:
        """Push a job and return its id.

        Args:
            data: what the handler gets: None, bool, int of at most 64 bits, finite float, str, list, tuple, or dict
                whose keys are str; as JSON at most the client's `max_data_bytes` (1 MiB). Default: None.
            name: selects the handler that runs the job, 1 to 128 bytes. Default: the handler of jobs without a name.
            delay: how long until the job is due, in seconds or as a timedelta, 0 to 100 years. Default: 0.
            at: when the job is due, instead of `delay`: a datetime with a time zone, or unix seconds. A time in the
                past means now. Default: none.
            id: an id of your own, 1 to 128 bytes. If the jobs of a partitioned queue have keys, it is unique only
                within its part. Default: a new one of 16 characters.
            key: a business key such as "close:42", 1 to 256 bytes, to find or cancel the job by. Only one job of the
                queue has it at a time, until that job is done, cancelled or failed for good. Default: none.
            priority: 0 to 9, where 0 goes first. Default: 5.
            max_retries: how often the job may run again after a failure, 0 to 4,294,967,295. Default: 5.
            retry: how long to wait before each retry. Default: `RetryPolicy.linear(5)`, so 5, 10, 15, ... seconds.
            timeout: the longest run, in seconds or as a timedelta, 0.001 s to 100 years. A longer run is interrupted
                and counts as a failure. Default: none.
            headers: strings that travel with the job, such as a trace: at most 64, names of 1 to 128 bytes, values of
                at most 4,096 bytes. Default: none, or the trace of the current span if the program uses OpenTelemetry.
            expires: drops the job if no run of it has started by then: a span from now, in seconds or as a timedelta,
                or a datetime with a time zone; later than the job is due. The push asks the server for its time.
                Default: never.
            result_ttl: how long the handler's return value is kept for `wait_result`, in seconds or as a timedelta,
                0.001 s to 100 years. Default: it is not kept.
            on_duplicate: what to do if another job has this id or key: "refuse" raises DuplicateError, "keep" leaves
                that job and returns its id, "replace" cancels it in whatever state it is. Default: "refuse".
            durability: when the push returns: "none" (the server has the job in memory), "wait:<n>" (so many
                replicas have it, 1 to 4,294,967,295), "fsync" (the server's disk has it). Default: the client's.
            raw: the data as bytes of JSON, kept byte for byte, instead of `data`. Default: none.

        Raises:
            InvalidArgumentError: an argument is wrong; for data the message names the path. Nothing was sent.
            TooLargeError: the data is too large. Nothing was sent.
            DuplicateError: another job has this id or key; its id is in `job_id`.
            StorageFullError: the server has no room. Nothing was stored.
            QueueFullError: the queue has as many jobs as its limits let it take. Nothing was stored.
            NotDurableError: the job is stored, but not as safely as `durability` asks.
            DulyTimeoutError: no answer came in time; the job may be stored.
            UnreachableError: the server cannot be reached; the job is not stored.

        """

    def push_many(
        self, jobs: Iterable[NewJob], *, ids: bool = False, durability: str | None = None
    ) -> Call[PushSummary]:
        """Push any number of jobs, a thousand with each call to the server. Reads the whole iterable first.

        A duplicate is counted and raises no error. If a call fails, the batches before it are stored. If the iterable
        raises, nothing is pushed.

        Args:
            jobs: any iterable of `NewJob`, also a generator.
            ids: return the ids too, in the order of the jobs. Default: False.
            durability: for jobs that do not set their own. Default: the client's.

        """

    def reserve(
        self, *, wait: _Span | None = None, lease: _Span | None = None, renew: bool = False
    ) -> Call[AsyncJob | None]:
        """Lease the next job; return None if there is none.

        Args:
            wait: how long to wait for a job, in seconds or as a timedelta, a year at most. Default: 0.
            lease: how long the job is yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
                10 s.
            renew: renew the lease natively, three times a lease, also while Python is busy: until the job is settled or
                garbage collected, or its `timeout` is over. Default: False.

        """

    def reserve_many(self, max: int, *, wait: _Span | None = None, lease: _Span | None = None) -> Call[list[AsyncJob]]:
        """Lease several jobs; return an empty list if there are none.

        Args:
            max: the most jobs to return, 1 to 1,000; fewer when their records make up 4 MiB.
            wait: how long to wait for the first job, in seconds or as a timedelta, a year at most. Default: 0.
            lease: how long the jobs are yours without `extend`, in seconds or as a timedelta, 0.001 s to 24 h. Default:
                10 s.

        """

    def ack_many(self, jobs: Sequence[ReservedJob]) -> Call[list[bool]]:
        """Ack many jobs with few calls; True for each job whose lease was still held."""

    def cancel(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        only: _State | Iterable[_State] | None = None,
    ) -> Call[Cancelled | None]:
        """Remove a job by its id or its key, in whatever state it is; return None if there is no such job.

        Args:
            id: the job's id. Give this or `key`.
            key: the job's key.
            only: a state, or a list of states. A job in another state is not touched. Default: any state.

        Raises:
            NotFoundError: the job is in a state that is not in `only`: `job_state` of the error says in which.

        """

    def reschedule(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        delay: _Span | None = None,
        at: datetime | float | None = None,
    ) -> Call[str]:
        """Change when a delayed or ready job is due, by its id or its key, and return its id.

        Args:
            id: the job's id. Give this or `key`.
            key: the job's key.
            delay: how long from now until it is due, in seconds or as a timedelta, 0 to 100 years. Give this or `at`.
            at: when it is due: a datetime with a time zone, or unix seconds. A time in the past means now.

        Raises:
            NotFoundError: there is no such job, or it is not waiting.

        """

    def requeue(self, *ids: str) -> Call[list[Requeued]]:
        """Run these failed jobs again, with their failures forgotten."""

    def requeue_all(self) -> Call[int]:
        """Run all failed jobs again, with their failures forgotten; return how many."""

    def purge(self, state: _State) -> Call[int]:
        """Remove all jobs in a state, as many as there are now; return how many.

        Args:
            state: "delayed", "ready", "reserved" or "failed". Purging "reserved" takes the jobs from their workers, as
                `cancel` does: runs are interrupted, and acks refused.

        """

    def clear(self) -> Call[int]:
        """Empty the queue: remove all jobs that are delayed or ready; return how many.

        Jobs that workers have stay, and run to their end; `purge("reserved")` before this takes those, too. Failed jobs
        stay.
        """

    def delete(self, jobs: int = 0) -> Call[None]:
        """Remove the queue with all that it has: its jobs in all states, its limits, its totals.

        Raises InvalidArgumentError, and removes nothing, if the queue has other jobs than so many, or schedules. Jobs
        that workers run meanwhile end without effect. A client that goes on using the queue makes it anew, and lists
        it again within some minutes.

        Args:
            jobs: the number of the jobs in all states together, as a confirmation. Default: 0, only an empty queue.

        """

    def pause(self) -> Call[None]:
        """Hand out no more jobs until `resume`. Pushing goes on, and running jobs may finish."""

    def resume(self) -> Call[None]:
        """Hand out jobs again."""

    def promote(self) -> Call[int]:
        """Move due jobs to ready by hand; return how many. Every reserve does this by itself."""

    def reclaim(self) -> Call[int]:
        """Take back jobs whose lease has ended by hand; return how many. Every reserve does this by itself."""

    def keep_failed(self, max: int, age: _Span) -> Call[None]:
        """Set how many failed jobs the queue keeps, and for how long.

        Whenever another job fails, up to 100 of the oldest beyond that are removed. Keep more than may fail at once:
        `on_failed` is not called for a job that was removed before a worker heard of it.

        Args:
            max: the most jobs to keep, 0 to 2^53 - 1. Until it is set: 10,000.
            age: how long to keep them, in seconds or as a timedelta, 0 to 100 years. Until it is set: 180 days.

        """

    def set_limits(
        self,
        *,
        concurrency: int | None = None,
        rate: tuple[int, _Span] | None = None,
        names: Mapping[str, _NewNameLimits | _NameLimits] | None = None,
        max_length: int | None = None,
    ) -> Call[None]:
        """Limit how many jobs run at once, and how many start in a period, over all workers together.

        The limits apply from the next reserve on; running jobs are not stopped. Jobs that are held back keep their
        order. The new limits replace all earlier ones: `set_limits()` removes them. Each part of a partitioned queue
        keeps to its share, rounded down, so a limit is as many jobs at least as the queue has parts.

        Args:
            concurrency: the most jobs at once, 1 to 1,000,000. Default: no limit.
            rate: `(jobs, seconds)`: how many jobs (1 to 1,000,000) may start in how long (0.001 s to 24 h). After a
                pause that many may start at once, and as many in the period behind it. Default: no limit.
            names: limits of single job names, at most 100, such as `{"mail.send": {"concurrency": 5, "rate": (100,
                60)}}`. They do not hold back jobs of other names. Default: none.
            max_length: how many jobs the queue takes, 1 to 1,000,000,000. A push of more raises QueueFullError, and
                nothing of its call is stored. Failed jobs do not count. Jobs that come back from a worker, are requeued
                or come over a bridge are never refused; a schedule skips a slot. Default: no limit.

        """

    def limits(self) -> Call[Limits]:
        """Return the limits that are set."""

    def counts(self) -> Call[Counts]:
        """Count the jobs in each state, and say what comes next."""

    def peek(self, state: _State, *, offset: int = 0, limit: int = 100) -> Call[list[JobView]]:
        """Return a page of the jobs in a state, without changing them.

        Args:
            state: "delayed", "ready", "reserved" or "failed".
            offset: how many jobs to skip, 0 to 4,294,967,295. Default: 0.
            limit: the most jobs to return, 1 to 1,000. Default: 100.

        """

    def search(
        self,
        state: _State,
        *,
        name: str | None = None,
        key_prefix: str | None = None,
        error: str | None = None,
        priority: int | None = None,
        older_than: _Span | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Call[SearchPage]:
        """Return a page of the jobs in a state that match a filter, without changing them.

        Of all that is given, each must hold. It checks 10,000 jobs at most, and reads about 8 MiB of records, those
        that do not match counted: so a page may be empty that is not the last one. `cursor` of the page says where to
        go on, and is None after the last one. A job that moves meanwhile may be in two pages, or in none;
        one that was moved away and back before may be in two.

        Args:
            state: "delayed", "ready", "reserved" or "failed".
            name: jobs of this name.
            key_prefix: jobs whose key begins so, such as "close:".
            error: jobs whose last failure has this in its text, in the same case.
            priority: jobs of this priority, 0 to 9.
            older_than: jobs that were pushed so long ago or longer, in seconds or as a timedelta.
            since: jobs that are due, whose lease ends or that failed then or later: a datetime with a time zone, or
                unix seconds. Not of ready jobs.
            until: the same, before then.
            limit: the most jobs to return, 1 to 1,000. Default: 100.
            cursor: where to begin: what the page before has given. Default: at the beginning.

        """

    def find(self, id: str | None = None, *, key: str | None = None) -> Call[Found | None]:
        """Return where a job is and why it is not running; None if there is no such job."""

    def workers(self) -> Call[list[WorkerInfo]]:
        """Return the workers that are alive: host, start time, and what each runs."""

    def rates(self, within: _Span | None = None) -> Call[Rates]:
        """Return what the runs of the last time came to: how many jobs are done, how long they wait and run.

        Workers count it, and report it up to 10 s later. By the minute up to 8 hours, else by ten minutes.

        Args:
            within: how far back, in seconds or as a timedelta, more than 0 and at most 3 days. Default: an hour.

        """

    def keep_history(self, jobs: int | None = None, age: _Span | None = None) -> Call[None]:
        """Keep a history of the queue: what happened to its last jobs, for `trace`.

        An event takes 20 bytes on the server in a batch, about 60 and the host's name in a call of its own, and a job
        has three to five. The server works a tenth longer for batches of a hundred, a quarter for single calls. Each
        part of a partitioned queue keeps its share. Off until this is called.

        Args:
            jobs: of about how many jobs, 0 to 1,000,000; 0 switches the history off, and what was kept goes. Default:
                1,000.
            age: for how long, in seconds or as a timedelta, 0.001 s to 100 years. Default: 24 h.

        """

    def trace(self, id: str) -> Call[Trace | None]:
        """Return the life of a job: when and by whom it was pushed, each of its runs, and what became of it.

        Also of a job that is gone, as long as the history keeps it (`keep_history`). Without a history what the stored
        job tells. None if nothing is known of it.
        """

    def wait_result(self, id: str, *, timeout: _Span | None = None) -> Call[_Json]:
        """Wait until the job is done and return its result.

        Args:
            id: the job's id.
            timeout: how long to wait, in seconds or as a timedelta, a year at most. Default: as long as it takes.

        Raises:
            JobFailedError: the job has failed for good.
            NoResultError: there will be no result: the job was cancelled, purged or pushed without `result_ttl`, or its
                result has expired.
            DulyTimeoutError: the job is not done yet.

        """

    def audit(self, *, repair: bool = False) -> Call[AuditReport]:
        """Check the queue's invariants while it is in use, and repair what is broken if `repair=True`."""

    def set_clock(self, now: datetime | float) -> Call[None]:
        """For tests: set the clock of a client created with `manual_clock=True`."""

@final
class AsyncJob(ReservedJob):
    """The asyncio version of `Job`."""

    @property
    def queue(self) -> AsyncQueue:
        """The queue that the job came from."""

    def ack(self, result: _Json = None) -> Call[None]:
        """Mark the job as done: it leaves the queue. The result is kept if the producer asked for it (`result_ttl`)."""

    def fail(
        self,
        error: str | BaseException,
        *,
        retry_after: _Span | None = None,
        counted: bool = True,
        final: bool = False,
        data: _Json = ...,
        attempts: int | None = None,
        max_retries: int | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Call[float | None]:
        """Mark the run as failed; return the seconds until the retry, or None if the job is in `failed` now.

        Args:
            error: the text or the exception that is kept with the job, at most 8 KiB.
            retry_after: the wait before the retry, in seconds or as a timedelta, 0 to 100 years. Default: the job's
                policy decides.
            counted: whether this failure counts as an attempt. Default: True.
            final: move the job to `failed` now, whatever retries are left. Default: False.
            data: new data of the job; None is data too. Default: unchanged.
            attempts: the number of failures before this one, 0 to 4,294,967,295. Default: unchanged.
            max_retries: how many retries the job may have, 0 to 4,294,967,295. Default: unchanged.
            headers: strings that the job gets besides those it has, such as the class of the error; one of the same
                name is replaced. Default: none.
            name: a new name of the job. Default: unchanged.

        """

    def release(self, after: _Span | None = None, *, reason: str = "", counted: bool = False) -> Call[None]:
        """Give the job back: no failure is counted, unless it is `counted`.

        Args:
            after: how long until it may run again, in seconds or as a timedelta, 0 to 100 years. Default: 0, at once.
            reason: a text that is kept with the job as its last error, at most 8 KiB. Default: that stays.
            counted: whether this run counts as an attempt, as in Laravel and think-queue. The job then waits after
                those that are ready; it never goes to `failed`, whatever retries are left. Default: False.

        """

    def lock(self, name: str, *, retry_after: _Span, ttl: _Span | None = None, wait: _Span | None = None) -> LockCall:
        """Take a lock for this run, as `Client.lock` does, and return it.

        If another one holds it when the wait is over, this raises `duly.Release`: in a handler the job goes back, not
        counted, and runs again after `retry_after`. `Lock.waited` then says for how long it has met the lock taken.
        In an `async def` handler it is `async with job.lock(...) as lock:`, and `lock` is a `duly.aio.Lock`.

        Args:
            name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
            retry_after: the wait before the next run, in seconds or as a timedelta, 0 to 100 years.
            ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
            wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.

        """

    def progress(self, fraction: float, text: str = "") -> Call[None]:
        """Report how far the run has come, from 0 to 1, with a text of at most 1 KiB, for `find` and `peek`."""

    def note_start(self) -> Call[None]:
        """Tell the server that the run starts: should this process die from now on, the run counts.

        For owners of a `Consumer` whose jobs must not run twice. Without it, the first death of a process does not
        count for a job with retries: the job may only have been fetched ahead.
        A lease that is over, while nobody has taken the job, goes on for 10 s; `extend` sets another time.

        Raises:
            LeaseLostError: another worker may run the job, or it was settled: do not run it.

        """

    def extend(self, lease: _Span | None = None) -> Call[None]:
        """Set the lease to end this long from now, 0.001 s to 24 h (default 10 s)."""

# Private to `_push_many.py`.

@final
class _LongPush:
    def __new__(cls, queue: Queue, *, ids: bool, durability: str | None) -> _LongPush: ...
    def push(self, jobs: list[NewJob]) -> None: ...
    def said_before(self) -> str | None: ...
    def summary(self) -> PushSummary: ...

def _push_all(queue: AsyncQueue, jobs: list[NewJob], *, ids: bool, durability: str | None) -> Call[PushSummary]: ...
def _console(arguments: list[str]) -> int: ...
def _occupy_standard_streams() -> None: ...
def _serves_requests() -> bool: ...
def _async_sibling(client: Client) -> AsyncClient: ...
def _give_back(jobs: list[AsyncJob]) -> None: ...
def _give_up(lock: AsyncLock) -> None: ...
