"""The engine of duly, compiled. Use it through `duly` and `duly.aio`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, final

from typing_extensions import disjoint_base

from duly._calls import Call

__version__: str

_Json: TypeAlias = Any
_Span: TypeAlias = float | timedelta
_State: TypeAlias = Literal["delayed", "ready", "reserved", "failed"]
_StrPath: TypeAlias = str | PathLike[str]

class _NameLimits(TypedDict, total=False):
    concurrency: int
    rate: tuple[int, float]

class _NewNameLimits(TypedDict, total=False):
    concurrency: int | None
    rate: tuple[int, _Span] | None

@final
class Client:
    """The way to the queues of one server. Nothing is sent until the first call; safe among threads and after a fork.

    Without a URL it is the environment's `DULY_URL`, else `redis://127.0.0.1:6379`. Also `rediss://` (TLS), `unix://`,
    `redis+sentinel://`, `redis+cluster://`, and `embedded:` for a private server. `durability`, of a push that
    does not say its own: `"none"` (if None), `"wait:2"` for two replicas, or `"fsync"` for the server's disk; it is
    confirmed within `command_timeout` (5 s) and `deadline` (15 s), or NotDurableError.

    `deadline`, in seconds: how long a call is tried again while the server is away (if None the environment's
    `DULY_DEADLINE`, else 15). Set 2 or so where somebody waits for the answer, as in a web request. `fail_fast`: once a
    call has waited for its whole deadline in vain, the next ones raise UnreachableError at once, and one a second
    probes whether the server is back; if None, where the deadline is at most 5 s.
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

    def close(self) -> None:
        """Close the connections of this client and its queues; later calls raise InvalidArgumentError.

        `with duly.Client() as client:` does it at the end. A worker has connections of its own and goes on.
        """

    def __enter__(self) -> Client: ...
    def __exit__(self, *_raised: object) -> None: ...
    def queue(self, name: str) -> Queue:
        """Give the queue of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`."""

    def partitions(self, name: str, count: int) -> Partitions:
        """Give the queue of this name in 1 to 256 parts, `name/0`, `name/1`, ...; all clients must agree in `count`."""

    def reserve_from(
        self,
        queues: Mapping[str, int] | Iterable[str],
        *,
        max: int = 1,
        wait: _Span | None = None,
        lease: _Span | None = None,
    ) -> list[Job]:
        """Lease up to `max` jobs (1 to 1,000) of several queues, and wait for all of them at once.

        A list is a strict order: a later queue gets a turn only when the earlier ones are empty. A mapping gives
        weights (1 to 1,000): a queue of weight 3 comes before one of weight 1 three times out of four.
        """

@disjoint_base
class Queue:
    """One queue of a client. Made by `client.queue(name)`; safe to share among threads."""

    @property
    def name(self) -> str: ...
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
        result_ttl: _Span | None = None,
        on_duplicate: Literal["refuse", "keep", "replace"] = "refuse",
        durability: str | None = None,
        raw: bytes | None = None,
    ) -> str:
        """Put a job in and give its id.

        Args:
            data: what the handler gets: None, bool, int of at most 64 bits, finite float, str, list, tuple, or dict
                whose keys are str; as JSON at most the client's `max_data_bytes` (1 MiB). Default: None.
            name: which handler runs it, 1 to 128 bytes. Default: the handler of jobs without a name.
            delay: how long it waits before it is due, in seconds or as a timedelta, 0 to 100 years. Default: 0.
            at: when it is due, instead of `delay`: a datetime with a time zone, or unix seconds. A moment that is over
                means now.
            id: an id of your own, 1 to 128 bytes. Default: a new one of 16 characters.
            key: a name in your business, such as "close:42", 1 to 256 bytes. Only one job of the queue has it at a
                time, until it is done, cancelled or failed for good. Default: none.
            priority: 0 to 9, and 0 goes first. Default: 5.
            max_retries: how often it runs again after failures, 0 to 4,294,967,295. Default: 5.
            retry: how long it waits before each retry. Default: `RetryPolicy.linear(5)`, so 5, 10, 15, ... seconds.
            timeout: the longest run, in seconds or as a timedelta, 0.001 s to 100 years. A run that takes longer is
                interrupted and has failed. Default: none.
            headers: texts that go with it, such as a trace: at most 64, names of 1 to 128 bytes, values of at most
                4,096. Default: none, or the trace of the current span in a program that uses OpenTelemetry.
            result_ttl: how long what the handler returns is kept for `wait_result`, in seconds or as a timedelta,
                0.001 s to 100 years. Default: it is not kept.
            on_duplicate: what to do when another job has the id or key: "refuse" raises DuplicateError, "keep" leaves
                that job and gives its id, "replace" cancels it in whatever state it is. Default: "refuse".
            durability: how sure the push must be before it returns: "none" (the server has it in memory), "wait:2"
                (two replicas have it), "fsync" (the server's disk has it). Default: the client's.
            raw: the bytes of a JSON text, instead of `data`.

        Raises:
            InvalidArgumentError: an argument is refused; of data the message names the path. Nothing was sent.
            TooLargeError: the data is too large. Nothing was sent.
            DuplicateError: another job has this id or key; its id is in `job_id`.
            StorageFullError: the server has no room. Nothing was stored.
            NotDurableError: it is in, but not as safe as `durability` asks for.
            DulyTimeoutError: no answer came in time; it may be in.
            UnreachableError: the server cannot be reached; it is not in.

        """

    def push_many(self, jobs: Iterable[NewJob], *, ids: bool = False, durability: str | None = None) -> PushSummary:
        """Put any number of jobs in, a thousand with each call to the server. Holds one batch in memory.

        A duplicate is counted and is no error. When a call fails, the batches before it are in. `durability` is for
        jobs that do not say their own.
        """

    def reserve(self, *, wait: _Span | None = None, lease: _Span | None = None) -> Job | None:
        """Lease one job for `lease` (default 10 s); None if there is none until `wait` (default 0) is over."""

    def reserve_many(self, max: int, *, wait: _Span | None = None, lease: _Span | None = None) -> list[Job]:
        """Lease up to `max` jobs (1 to 1,000); an empty list if there is none until `wait` is over."""

    def ack_many(self, jobs: Sequence[ReservedJob]) -> list[bool]:
        """Ack many jobs with few calls; True where the lease was still held."""

    def cancel(self, id: str | None = None, *, key: str | None = None) -> Cancelled | None:
        """Remove a job in whatever state it is; None if there is no such job."""

    def reschedule(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        delay: _Span | None = None,
        at: datetime | float | None = None,
    ) -> str:
        """Give a delayed or ready job another due time; gives its id. Raises NotFoundError."""

    def requeue(self, *ids: str) -> list[Requeued]:
        """Send failed jobs round again, with their failures forgotten."""

    def requeue_all(self) -> int:
        """Send all failed jobs round again; gives how many."""

    def purge(self, state: _State) -> int:
        """Remove all jobs that are delayed, ready or failed; gives how many."""

    def pause(self) -> None:
        """Hand out no more jobs until `resume`. Jobs still come in, and what runs may finish."""

    def resume(self) -> None:
        """Hand out jobs again."""

    def promote(self) -> int:
        """Move due jobs to ready by hand; gives how many. Every reserve does it by itself."""

    def reclaim(self) -> int:
        """Take back leases that are over by hand; gives how many. Every reserve does it by itself."""

    def keep_failed(self, max: int, age: _Span) -> None:
        """Set how many failed jobs the queue keeps (default 10,000) and for how long (seconds or timedelta; 180 days).

        The oldest go first, at most 100 whenever another job fails.
        """

    def set_limits(
        self,
        *,
        concurrency: int | None = None,
        rate: tuple[int, _Span] | None = None,
        names: Mapping[str, _NewNameLimits | _NameLimits] | None = None,
    ) -> None:
        """Limit how many jobs run at once, and how many start in so many seconds, in all workers together.

        The next reserve keeps to it; what runs is let run. A job that a limit holds back stays in its place. What was
        set before is replaced: `set_limits()` takes all away. A rate lets as many jobs start at once after a rest.

        `names={"mail.send": {"concurrency": 5, "rate": (100, 60)}}` limits jobs of one name, by one of the two or both:
        those of other names pass by.
        """

    def limits(self) -> Limits:
        """Give the limits that are set."""

    def counts(self) -> Counts:
        """Count the jobs in each state, and say what comes next."""

    def peek(self, state: _State, *, offset: int = 0, limit: int = 100) -> list[JobView]:
        """Look at up to `limit` jobs (1 to 1,000) of a state without touching them."""

    def find(self, id: str | None = None, *, key: str | None = None) -> Found | None:
        """Say where a job is and why it is not running; None if there is no such job."""

    def workers(self) -> list[WorkerInfo]:
        """Give the workers that are alive: where, since when, and what each runs."""

    def wait_result(self, id: str, *, timeout: _Span | None = None) -> _Json:
        """Give what the job returned, as soon as it is done; without a timeout wait as long as that takes.

        Raises:
            JobFailedError: it has failed for good.
            NoResultError: there is none and there will be none: cancelled, pushed without `result_ttl`, kept no longer.
            DulyTimeoutError: it is not done yet.

        """

    def audit(self, *, repair: bool = False) -> AuditReport:
        """Check the queue's invariants while it is in use, and mend what is broken if asked to."""

    def set_clock(self, now: datetime | float) -> None:
        """For tests: move the clock of a client made with `manual_clock=True`."""

@final
class Partitions(Queue):
    """A queue that is split over several, because one node of a cluster cannot carry it; made by `client.partitions`.

    Its verbs are those of `Queue`. A job's part follows from its key, or else from its id. Priorities and the order of
    age hold within a part only; a job that is not there is looked for in every part; `counts` and the verbs for all
    jobs make a call a part. The `queue` of a job that came from it is the part.
    """

    @property
    def parts(self) -> list[Queue]:
        """The parts. Each is a queue of its own."""

@final
class NewJob:
    """A job for `Queue.push_many`. Its data is converted when it is made; the arguments are those of `Queue.push`."""

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
        result_ttl: _Span | None = None,
        on_duplicate: Literal["refuse", "keep", "replace"] = "refuse",
        durability: str | None = None,
        raw: bytes | None = None,
    ) -> NewJob: ...
    def check(self) -> None:
        """Raise what every push of it would raise: InvalidArgumentError."""

@disjoint_base
class ReservedJob:
    """What a reserved job of a sync or an asyncio queue says of itself."""

    @property
    def id(self) -> str: ...
    @property
    def data(self) -> Any:
        """What was pushed, decoded at the first look; the same object each time."""

    @property
    def raw(self) -> bytes:
        """What was pushed, byte for byte."""

    @property
    def name(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def attempts(self) -> int:
        """Failures so far."""

    @property
    def max_retries(self) -> int: ...
    @property
    def error(self) -> str:
        """The text of the last failure; empty if there was none."""

    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def returns(self) -> int:
        """How often it came back from a worker that had started it: failed, released, or its lease ended."""

    @property
    def result_ttl(self) -> float | None:
        """For how many seconds its result is kept; None when none is."""

    @property
    def timeout(self) -> float | None:
        """The longest run, in seconds."""

    @property
    def pushed_at(self) -> int:
        """When it was pushed, in unix seconds, by the clock of the host that pushed it."""

    @property
    def attempt(self) -> int:
        """Which run this is, 1 for the first."""

    @property
    def token(self) -> int:
        """The fencing token of this lease, greater than that of every earlier lease of this job."""

    @property
    def queue(self) -> Any:
        """The queue that it came from."""

    @property
    def settled(self) -> bool:
        """True once it was acked, failed or released through this object."""

    @property
    def acked(self) -> bool:
        """True once it was acked through this object."""

@final
class Job(ReservedJob):
    """A reserved job. One verb settles it: ack, fail or release. Each raises LeaseLostError when the lease is over.

    In a handler of a `duly.Worker` they send nothing: what they say is noted, and told when the handler has ended.
    They raise LeaseLostError there if the run is known to be interrupted, or the job was settled before; a lease that
    is lost later is logged.
    """

    @property
    def queue(self) -> Queue:
        """The queue that it came from."""

    def ack(self, result: _Json = None) -> None:
        """Done: the job leaves the queue; the result is kept if the producer asked for it (`result_ttl`)."""

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
    ) -> float | None:
        """Failed: give the wait in seconds until it runs again, or None when it is in failed now.

        The job's policy decides, unless `retry_after` says when, `counted=False` keeps the number of failures, or
        `final=True` allows no further run. `data` (None is data too), `attempts` (failures before this one) and
        `max_retries` change the job before that is decided.
        """

    def release(self, after: _Span | None = None) -> None:
        """Give it back, at once or after a while, without counting a failure."""

    def progress(self, fraction: float, text: str = "") -> None:
        """Note how far the run has come, from 0 to 1, with a text, for `find` and `peek`."""

    def extend(self, lease: _Span | None = None) -> None:
        """Set the lease to end this long from now (default 10 s)."""

@disjoint_base
class JobView:
    """A job as somebody who looks at it sees it."""

    @property
    def id(self) -> str: ...
    @property
    def data(self) -> Any:
        """What was pushed, decoded."""

    @property
    def raw(self) -> bytes:
        """What was pushed, byte for byte."""

    @property
    def package(self) -> bytes:
        """The complete JSON package, as an export or an older consumer reads it; if undecodable the stored bytes."""

    @property
    def name(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def attempts(self) -> int:
        """Failures so far."""

    @property
    def max_retries(self) -> int: ...
    @property
    def error(self) -> str:
        """The text of the last failure; empty if there was none."""

    @property
    def headers(self) -> dict[str, str]: ...
    @property
    def returns(self) -> int:
        """How often it came back from a worker that had started it: failed, released, or its lease ended."""

    @property
    def result_ttl(self) -> float | None:
        """For how many seconds its result is kept; None when none is."""

    @property
    def timeout(self) -> float | None:
        """The longest run, in seconds."""

    @property
    def pushed_at(self) -> int:
        """When it was pushed, in unix seconds, by the clock of the host that pushed it."""

    @property
    def state(self) -> _State: ...
    @property
    def at(self) -> float | None:
        """Due time, end of the lease, or time of failure, in unix seconds of the server; None for a ready job."""

    @property
    def progress(self) -> Progress | None:
        """How far its run has come, if it is reserved and its handler told."""

    @property
    def undecodable(self) -> str | None:
        """Why the record could not be decoded, if so; the data is None then."""

@final
class Progress:
    """How far a run has come."""

    @property
    def fraction(self) -> float:
        """From 0 to 1."""

    @property
    def text(self) -> str:
        """What its handler says of it; perhaps nothing."""

    @property
    def at(self) -> float:
        """When it said so, in unix seconds by the server's clock."""

@final
class WorkerInfo:
    """A worker that is alive. Times are unix seconds of its host's clock."""

    @property
    def id(self) -> str:
        """Its own, made when it started."""

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
        """The name that it was given."""

    @property
    def queues(self) -> list[str]:
        """All queues that it serves."""

    @property
    def concurrency(self) -> int: ...
    @property
    def started_at(self) -> float: ...
    @property
    def running(self) -> list[RunningJob]:
        """What it runs of this queue, at most 20 jobs; as it was when it last told, up to 10 s ago."""

@final
class RunningJob:
    """A job that a worker runs."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def started_at(self) -> float:
        """When this run began."""

@final
class Found(JobView):
    """Where one job is and why it is not running."""

    @property
    def token(self) -> int | None:
        """The token of its lease, when it is reserved."""

    @property
    def now(self) -> float:
        """The server's time of this answer, in unix seconds."""

    @property
    def why(self) -> str:
        """One sentence: why it waits, or who has it."""

@final
class Counts:
    """How many jobs are where, and what comes next. Spans are in seconds."""

    @property
    def delayed(self) -> int: ...
    @property
    def ready(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def paused(self) -> bool: ...
    @property
    def oldest_ready_age(self) -> float | None:
        """How long ago, in seconds by the producer's clock, the oldest ready job was pushed; its delay counts."""

    @property
    def next_due_in(self) -> float | None: ...
    @property
    def next_lease_end_in(self) -> float | None: ...
    @property
    def totals(self) -> dict[str, int]:
        """Totals over the queue's life. They inform; nothing relies on them."""
    @property
    def held(self) -> str | None:
        """Which limit holds jobs back just now, of the queue or of names; None while none does."""

@final
class Limits:
    """The limits of a queue; made by `queue.limits()`."""

    @property
    def concurrency(self) -> int | None:
        """The most jobs that are reserved at once."""
    @property
    def rate(self) -> tuple[int, float] | None:
        """How many jobs start in how many seconds."""
    @property
    def names(self) -> dict[str, _NameLimits]:
        """The limits of single job names, such as `{"mail.send": {"concurrency": 5, "rate": (100, 60.0)}}`."""

@final
class PushSummary:
    """How a long push went."""

    @property
    def created(self) -> int: ...
    @property
    def kept(self) -> int: ...
    @property
    def replaced(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def ids(self) -> list[str] | None:
        """The id of the job that is in the queue now, for each job; None unless asked for with `ids=True`."""

@final
class Cancelled:
    """A job that is no more, and the state it was in."""

    @property
    def id(self) -> str: ...
    @property
    def was(self) -> _State: ...

@final
class Requeued:
    """What became of a failed job that was to go round again."""

    @property
    def id(self) -> str: ...
    @property
    def outcome(self) -> Literal["ready", "duplicate", "absent"]: ...
    @property
    def holder(self) -> str | None:
        """The job that holds the key now, of a duplicate."""

@final
class Finding:
    """One broken invariant."""

    @property
    def invariant(self) -> str:
        """Which one, in one word such as `record` or `one_state`."""

    @property
    def id(self) -> str:
        """The job; empty when it is about the queue as a whole."""

    @property
    def detail(self) -> str:
        """What is wrong."""

    @property
    def repaired(self) -> bool:
        """True if it was mended."""

@final
class AuditReport:
    """What an audit found, and how much it looked at."""

    @property
    def findings(self) -> list[Finding]: ...
    @property
    def jobs(self) -> int:
        """Records that were looked at."""

    @property
    def entries(self) -> int:
        """Entries of ready lists that were looked at."""

    @property
    def suspects(self) -> int:
        """What looked wrong at first, nearly all of it jobs that were on the move."""

    @property
    def pages(self) -> int:
        """Calls that were made."""

    @property
    def clean(self) -> bool:
        """True if nothing is broken."""

@final
class RetryPolicy:
    """How long to wait before each retry. Without one: `linear(5)`, so 5, 10, 15, 20, 25 seconds."""

    @staticmethod
    def linear(step: _Span) -> RetryPolicy:
        """Wait `step` after the first failure, twice that after the second, and so on."""

    @staticmethod
    def fixed(delay: _Span) -> RetryPolicy:
        """Wait the same after every failure."""

    @staticmethod
    def exponential(base: _Span, *, factor: float = 2.0, cap: _Span | None = None, jitter: bool = True) -> RetryPolicy:
        """Wait `base`, then `factor` times longer each time, up to `cap` (an hour); with jitter, zero up to that."""

    @staticmethod
    def list(delays: Sequence[_Span]) -> RetryPolicy:
        """Wait as the list says; the last one repeats."""

    def delay(self, failures: int, *, seed: int = 0) -> float:
        """Give the wait in seconds after so many failures; the same seed gives the same jitter."""

    def decide(self, failures: int, max_retries: int, *, seed: int = 0) -> float | None:
        """Give the wait in seconds of a job that failed so often, or None if it goes to failed."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class WorkerReport:
    """What a worker did."""

    @property
    def acked(self) -> int:
        """Jobs that are done."""

    @property
    def failed(self) -> int:
        """Runs that failed, whether the job is retried or not."""

    @property
    def released(self) -> int:
        """Jobs given back: not started before the stop, not finished within the grace, or by their handlers' will."""

    @property
    def lost(self) -> int:
        """Jobs whose lease was over before they were settled."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class WorkerEngine:
    """What `duly.Worker` is made of: fetches, renews leases and tells outcomes on a native thread."""

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
        patience: float | None = None,
        heeded: int | None = None,
    ) -> WorkerEngine:
        """Start it. With `heeded`, it stops at each signal behind the first so many (see `listen`).

        With `patience`, a run that must end while Python does not run for so many seconds, because C code holds the
        GIL, ends the process with exit code 124.
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
    ) -> None:
        """Raise InvalidArgumentError if these settings are out of range; starts nothing."""

    def executor(self) -> Executor:
        """Give a new place in which a handler runs."""

    def stop(self) -> None:
        """Start nothing more, and let what runs end within the grace; a second call ends the grace."""

    @staticmethod
    def listen(signals: Sequence[int]) -> int:
        """Count these signals from now on, which must have handlers; gives how many came before."""

    @staticmethod
    def leave_at(signals: Sequence[int]) -> None:
        """Have these signals end the process at once, quietly, also in C code, until they get other handlers."""

    def heed(self) -> None:
        """Stop at the signals that came since, once for each."""

    def event(self, wait: float) -> WorkerEvent | None:
        """Give the next event; None within the wait, or when the engine has ended."""

    def failed(self, event: WorkerEvent) -> tuple[Job, str] | None:
        """Give the job that failed while no hook was there to be called, and its error; None for any other event."""

    def heard(self, event: WorkerEvent) -> None:
        """Say that the hooks of the job that this event is about were called."""

    def ended(self, wait: float) -> WorkerReport | None:
        """Give what it did, when it has ended; None within the wait. Raises what it ended with."""

    def report(self) -> WorkerReport:
        """Give what it did so far."""

@final
class Executor:
    """A place of a worker in which one handler at a time runs, in a thread or on an event loop."""

    @property
    def number(self) -> int:
        """By which events name it."""

    @property
    def job(self) -> Job | None:
        """The job that runs in it."""

    @property
    def interrupted(self) -> str | None:
        """Why the run was interrupted: timed_out, lease_lost or stopped."""

    def next(self) -> Job | None:
        """Wait for the next job, to run in this thread; None when there will be none. A run not ended has failed."""

    def keep(self, result: _Json) -> None:
        """Note what the handler gave, if the producer wants it and the job was not settled by its handler."""

    def done(self, result: _Json) -> Job | None:
        """End the run, done with this result or as its job noted, and give the next job as `next` does."""

    def end(self, heard: bool = False) -> tuple[str, float | None] | None:
        """End the run, done or as its job noted: ack, retry, failed or release, and the wait; None if interrupted.

        `heard`: should the job have failed for good, its hooks were called.
        """

    def take(self) -> Job | None:
        """Give the next job if there is one now, to run on an event loop. A run not ended has failed."""

    def enter(self) -> bool:
        """Let this thread be interrupted from now on; False if the run was interrupted before."""

    def leave(self) -> bool:
        """Interrupt the thread no more, its handler has ended; False if the run was interrupted."""

    def interrupt(self, run: int, exception: type[BaseException]) -> bool:
        """Raise the exception in the thread that runs this run; False if there is none."""

@final
class WorkerEvent:
    """What the engine tells of itself."""

    @property
    def text(self) -> str: ...
    @property
    def is_warning(self) -> bool:
        """Whether somebody should look at it, or it is just good to know."""

    @property
    def is_error(self) -> bool:
        """Whether a job is lost unless somebody cares for it."""

    @property
    def queue(self) -> str | None: ...
    @property
    def id(self) -> str | None:
        """Which job it is about."""

    @property
    def name(self) -> str | None:
        """The job's name."""

    @property
    def attempt(self) -> int | None:
        """Which attempt it was, from 1; 0 if its record could not be read."""

    @property
    def executor(self) -> int | None:
        """Which executor was interrupted."""

    @property
    def run(self) -> int | None:
        """Which of its runs."""

    @property
    def why(self) -> str | None:
        """Why: timed_out, lease_lost or stopped."""

@final
class AsyncClient:
    """The asyncio twin of `Client`."""

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

    def close(self) -> Call[None]:
        """Close the connections of this client and its queues; later calls raise InvalidArgumentError.

        `async with duly.aio.Client() as client:` does it at the end.
        """

    def __aenter__(self) -> Call[AsyncClient]: ...
    def __aexit__(self, *_raised: object) -> Call[None]: ...
    def queue(self, name: str) -> AsyncQueue:
        """Give the queue of this name."""

    def partitions(self, name: str, count: int) -> AsyncPartitions:
        """Give the queue of this name in 1 to 256 parts, `name/0`, `name/1`, ...; all clients must agree in `count`."""

    def reserve_from(
        self,
        queues: Mapping[str, int] | Iterable[str],
        *,
        max: int = 1,
        wait: _Span | None = None,
        lease: _Span | None = None,
    ) -> Call[list[AsyncJob]]:
        """Lease up to `max` jobs (1 to 1,000) of several queues, and wait for all of them at once.

        A list is a strict order: a later queue gets a turn only when the earlier ones are empty. A mapping gives
        weights (1 to 1,000): a queue of weight 3 comes before one of weight 1 three times out of four.
        """

@disjoint_base
class AsyncQueue:
    """The asyncio twin of `Queue`: each call gives a `Call`."""

    @property
    def name(self) -> str: ...
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
        result_ttl: _Span | None = None,
        on_duplicate: Literal["refuse", "keep", "replace"] = "refuse",
        durability: str | None = None,
        raw: bytes | None = None,
    ) -> Call[str]:
        """Put a job in and give its id.

        Args:
            data: what the handler gets: None, bool, int of at most 64 bits, finite float, str, list, tuple, or dict
                whose keys are str; as JSON at most the client's `max_data_bytes` (1 MiB). Default: None.
            name: which handler runs it, 1 to 128 bytes. Default: the handler of jobs without a name.
            delay: how long it waits before it is due, in seconds or as a timedelta, 0 to 100 years. Default: 0.
            at: when it is due, instead of `delay`: a datetime with a time zone, or unix seconds. A moment that is over
                means now.
            id: an id of your own, 1 to 128 bytes. Default: a new one of 16 characters.
            key: a name in your business, such as "close:42", 1 to 256 bytes. Only one job of the queue has it at a
                time, until it is done, cancelled or failed for good. Default: none.
            priority: 0 to 9, and 0 goes first. Default: 5.
            max_retries: how often it runs again after failures, 0 to 4,294,967,295. Default: 5.
            retry: how long it waits before each retry. Default: `RetryPolicy.linear(5)`, so 5, 10, 15, ... seconds.
            timeout: the longest run, in seconds or as a timedelta, 0.001 s to 100 years. A run that takes longer is
                interrupted and has failed. Default: none.
            headers: texts that go with it, such as a trace: at most 64, names of 1 to 128 bytes, values of at most
                4,096. Default: none, or the trace of the current span in a program that uses OpenTelemetry.
            result_ttl: how long what the handler returns is kept for `wait_result`, in seconds or as a timedelta,
                0.001 s to 100 years. Default: it is not kept.
            on_duplicate: what to do when another job has the id or key: "refuse" raises DuplicateError, "keep" leaves
                that job and gives its id, "replace" cancels it in whatever state it is. Default: "refuse".
            durability: how sure the push must be before it returns: "none" (the server has it in memory), "wait:2"
                (two replicas have it), "fsync" (the server's disk has it). Default: the client's.
            raw: the bytes of a JSON text, instead of `data`.

        Raises:
            InvalidArgumentError: an argument is refused; of data the message names the path. Nothing was sent.
            TooLargeError: the data is too large. Nothing was sent.
            DuplicateError: another job has this id or key; its id is in `job_id`.
            StorageFullError: the server has no room. Nothing was stored.
            NotDurableError: it is in, but not as safe as `durability` asks for.
            DulyTimeoutError: no answer came in time; it may be in.
            UnreachableError: the server cannot be reached; it is not in.

        """

    def push_many(
        self, jobs: Iterable[NewJob], *, ids: bool = False, durability: str | None = None
    ) -> Call[PushSummary]:
        """Put any number of jobs in, a thousand with each call to the server; reads the iterable before that.

        A duplicate is counted and is no error. When a call fails, the batches before it are in. `durability` is for
        jobs that do not say their own.
        """

    def reserve(self, *, wait: _Span | None = None, lease: _Span | None = None) -> Call[AsyncJob | None]:
        """Lease one job for `lease` (default 10 s); None if there is none until `wait` (default 0) is over."""

    def reserve_many(self, max: int, *, wait: _Span | None = None, lease: _Span | None = None) -> Call[list[AsyncJob]]:
        """Lease up to `max` jobs (1 to 1,000); an empty list if there is none until `wait` is over."""

    def ack_many(self, jobs: Sequence[ReservedJob]) -> Call[list[bool]]:
        """Ack many jobs with few calls; True where the lease was still held."""

    def cancel(self, id: str | None = None, *, key: str | None = None) -> Call[Cancelled | None]:
        """Remove a job in whatever state it is; None if there is no such job."""

    def reschedule(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        delay: _Span | None = None,
        at: datetime | float | None = None,
    ) -> Call[str]:
        """Give a delayed or ready job another due time; gives its id. Raises NotFoundError."""

    def requeue(self, *ids: str) -> Call[list[Requeued]]:
        """Send failed jobs round again, with their failures forgotten."""

    def requeue_all(self) -> Call[int]:
        """Send all failed jobs round again; gives how many."""

    def purge(self, state: _State) -> Call[int]:
        """Remove all jobs that are delayed, ready or failed; gives how many."""

    def pause(self) -> Call[None]:
        """Hand out no more jobs until `resume`. Jobs still come in, and what runs may finish."""

    def resume(self) -> Call[None]:
        """Hand out jobs again."""

    def promote(self) -> Call[int]:
        """Move due jobs to ready by hand; gives how many. Every reserve does it by itself."""

    def reclaim(self) -> Call[int]:
        """Take back leases that are over by hand; gives how many. Every reserve does it by itself."""

    def keep_failed(self, max: int, age: _Span) -> Call[None]:
        """Set how many failed jobs the queue keeps (default 10,000) and for how long (seconds or timedelta; 180 days).

        The oldest go first, at most 100 whenever another job fails.
        """

    def set_limits(
        self,
        *,
        concurrency: int | None = None,
        rate: tuple[int, _Span] | None = None,
        names: Mapping[str, _NewNameLimits | _NameLimits] | None = None,
    ) -> Call[None]:
        """Limit how many jobs run at once, and how many start in so many seconds, in all workers together.

        The next reserve keeps to it; what runs is let run. A job that a limit holds back stays in its place. What was
        set before is replaced: `set_limits()` takes all away. A rate lets as many jobs start at once after a rest.

        `names={"mail.send": {"concurrency": 5, "rate": (100, 60)}}` limits jobs of one name, by one of the two or both:
        those of other names pass by.
        """

    def limits(self) -> Call[Limits]:
        """Give the limits that are set."""

    def counts(self) -> Call[Counts]:
        """Count the jobs in each state, and say what comes next."""

    def peek(self, state: _State, *, offset: int = 0, limit: int = 100) -> Call[list[JobView]]:
        """Look at up to `limit` jobs (1 to 1,000) of a state without touching them."""

    def find(self, id: str | None = None, *, key: str | None = None) -> Call[Found | None]:
        """Say where a job is and why it is not running; None if there is no such job."""

    def workers(self) -> Call[list[WorkerInfo]]:
        """Give the workers that are alive: where, since when, and what each runs."""

    def wait_result(self, id: str, *, timeout: _Span | None = None) -> Call[_Json]:
        """Give what the job returned, as soon as it is done."""

    def audit(self, *, repair: bool = False) -> Call[AuditReport]:
        """Check the queue's invariants while it is in use, and mend what is broken if asked to."""

    def set_clock(self, now: datetime | float) -> Call[None]:
        """For tests: move the clock of a client made with `manual_clock=True`."""

@final
class AsyncPartitions(AsyncQueue):
    """The asyncio twin of `Partitions`."""

    @property
    def parts(self) -> list[AsyncQueue]:
        """The parts. Each is a queue of its own."""

@final
class AsyncJob(ReservedJob):
    """The asyncio twin of `Job`."""

    @property
    def queue(self) -> AsyncQueue:
        """The queue that it came from."""

    def ack(self, result: _Json = None) -> Call[None]:
        """Done: the job leaves the queue; the result is kept if the producer asked for it (`result_ttl`)."""

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
    ) -> Call[float | None]:
        """Failed: give the wait in seconds until it runs again, or None when it is in failed now.

        The job's policy decides, unless `retry_after` says when, `counted=False` keeps the number of failures, or
        `final=True` allows no further run. `data` (None is data too), `attempts` (failures before this one) and
        `max_retries` change the job before that is decided.
        """

    def release(self, after: _Span | None = None) -> Call[None]:
        """Give it back, at once or after a while, without counting a failure."""

    def progress(self, fraction: float, text: str = "") -> Call[None]:
        """Note how far the run has come, from 0 to 1, with a text, for `find` and `peek`."""

    def extend(self, lease: _Span | None = None) -> Call[None]:
        """Set the lease to end this long from now (default 10 s)."""
