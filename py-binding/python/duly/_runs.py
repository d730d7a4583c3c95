"""What happens around a handler, the same in threads and on the event loop: hooks, outcomes, spans and the log.

The handler itself is called in `_threads.py`, or in `_event_loop.py`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import nullcontext, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple

from duly._cut_short import make_up_for
from duly._failures import brief, describe, where, where_written
from duly._misuse import UnrunError, refuse_unrun
from duly.errors import LeaseLostError
from duly.middleware import Failure, WrongChangeError, overridden
from duly.outcomes import JobInterrupted, Release, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from duly._core import Executor, Job, WorkerEvent
    from duly.middleware import Hook, Middleware

log = logging.getLogger("duly.worker")

running: ContextVar[Job] = ContextVar("duly_job")
"""The job of this run, in the context of the run."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
PAUSE_S = 0.2
"""Before a thread or the event loop goes on after an error that no handler raised: it may come again at once."""
_LOGGED_S = 60.0
"""So long a last failure is known that is in the log; later it may be another one of the same job."""
_MOST_LOGGED = 1000
PLAIN = frozenset({dict, list, str, int, float, bool, tuple, type(None)})
"""Types of results that are no coroutine and no generator; of others that is looked at."""


class Ending(NamedTuple):
    """How a run ended, for `settle`."""

    why: str = ""
    """What it logs of a failure."""
    heard: bool = False
    """The job fails for good, and the hooks of that were called."""


class Run:
    """One run of a handler, and how far it is.

    Another thread's exception may be raised between any two steps, and behind each call before its result is stored.
    So what says that a step was taken is changed by the same call into C code that takes it.
    """

    __slots__ = ("context", "endings", "job", "raised", "results", "todo")

    def __init__(self) -> None:
        """Begin without a job."""
        self.job: Any = None
        """A `Job`; None before the first."""
        self.context = Context()
        self.todo: Iterator[Job] = iter(())
        """Gives the job to the handler, or to the hooks before it."""
        self.results: dict[int, Any] = {}
        """Under 0: what the handler returned, until the hooks behind it are called."""
        self.raised: BaseException | None = None
        """What was raised first. If the handler has begun and has not returned, that is why."""
        self.endings: list[Ending | None] | None = None
        """How it ended: None if it worked."""

    def prepare(self, job: Job, context: Context) -> None:
        """Take a job: nothing has begun. The job comes last, so that no other run is taken for its one."""
        self.todo = iter((job,))
        self.results = {}
        self.raised = self.endings = None
        self.context = context
        self.job = job

    @property
    def has_begun(self) -> bool:
        """True once the handler, or a hook before it, was called."""
        return length_hint(self.todo) == 0


def about(job: Job) -> dict[str, Any]:
    """Give the fields of a log record; never the data."""
    return {"queue": job.queue.name, "id": job.id, "job_name": job.name, "attempt": job.attempt}


def log_safely(
    level: int,
    what: str,
    *args: Any,
    fields: dict[str, Any] | None = None,
    logger: logging.Logger = log,
    raised: BaseException | None = None,
) -> None:
    """Log it; what the program's own logging raises must end neither a run nor a thread of the worker."""
    # `logging.config.dictConfig`, at the start or in a job, switches off the loggers that are there already.
    logger.disabled = False
    try:
        try:
            logger.log(level, what, *args, extra=fields, stacklevel=2, exc_info=raised)
        except KeyError:
            # A record factory of the program sets one of the fields.
            logger.log(level, what, *args, stacklevel=2, exc_info=raised)
    except BaseException as error:  # noqa: BLE001 - filters and handlers may raise anything
        pass_on(error)
        with suppress(BaseException):
            sys.stderr.write(f"duly: {what % args} (logging it raised {brief(error)})\n")


def pass_on(error: BaseException) -> None:
    """Raise Ctrl-C and the like on the main thread, where tests run jobs; those of a worker run on other threads."""
    if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
        raise error


def until_it_returns(step: Callable[[], None], who: str, logger: logging.Logger = log) -> None:
    """Call it until it returns, whatever is raised in it or here: of the program's code, or late by another thread."""
    while True:
        try:
            _go_on(step, who, logger)
            return
        except BaseException:  # noqa: BLE001 - raised in the lines of `_go_on`, which is busy with another one
            pass


def _go_on(step: Callable[[], None], who: str, logger: logging.Logger) -> None:
    while True:
        try:
            step()
            return
        except BaseException as error:  # noqa: BLE001 - its thread must not end
            log_safely(logging.ERROR, "%s goes on after %s", who, brief(error), logger=logger)
            time.sleep(PAUSE_S)


def context_of(job: Job) -> Context:
    """Give a context for one run: what the run sets in it is gone with it."""
    token = running.set(job)
    context = copy_context()
    running.reset(token)
    return context


def _name_of_program(name: str | None) -> str:
    """Tell where a name comes from that only one program knows."""
    if name is None or not name.startswith("__main__."):
        return ""
    what = (
        "a program has pushed its own task, which has no name of its own; give it one, such as @app.task('close_order')"
    )
    return f": {what}"


def check_result(job: Job, result: Any) -> None:
    """Refuse a coroutine or a generator as the result of a handler: nothing was run."""
    if type(result) not in PLAIN:
        refuse_unrun(result, f"the handler of {job.name!r}")


class NoHandler(Retry):
    """No handler of this worker has the job's name."""


class ForkedChild(BaseException):
    """A process that a `before` hook has forked came back from it: it runs no handler."""


class BadCall(Retry):
    """The data does not fit the arguments of the task: the producer may have another version of it."""


_IN_OUR_WORDS = (NoHandler, BadCall, UnrunError, WrongChangeError)
"""What these say has nothing of the data."""


class Runs:
    """The hooks of a worker, and what they surround."""

    def __init__(self, middleware: Sequence[Middleware], *, log_errors: str = "location") -> None:
        """Take the hooks in their order; the log has the texts of exceptions (`full`) or only their locations."""
        self._is_full = log_errors == "full"
        log.disabled = False  # see `log_safely`; `is_bare` asks it
        self._before = overridden(middleware, "before")
        self._after = overridden(middleware, "after")[::-1]
        self._on_failure = overridden(middleware, "on_failure")[::-1]
        self._on_failed = overridden(middleware, "on_failed")[::-1]
        # A child that a handler forked, and that comes back from it, calls no hook: the run is the parent's.
        self._pid = os.getpid()
        # Last failures that are in the log, whose hooks are called later, here or by another worker; and since when.
        self._logged: dict[tuple[str | None, str | None, int | None], float] = {}
        # A program that has not imported it has no spans.
        self._traced = "opentelemetry.trace" in sys.modules

    @property
    def is_bare(self) -> bool:
        """True if there is nothing to do around a handler that works."""
        return not (self._before or self._after or self._traced or log.isEnabledFor(logging.DEBUG))

    @property
    def is_forked(self) -> bool:
        """True in a child that a handler forked."""
        return os.getpid() != self._pid

    def span(self, job: Job) -> AbstractContextManager[None]:
        """Run the handler in this."""
        if not self._traced:
            return nullcontext()
        from duly import _telemetry

        return _telemetry.span(job)

    def before(self, job: Job) -> bool:
        """Call the hooks before the handler; True if one of them has settled the job: then the handler does not run."""
        for hook in self._before:
            given = hook.call(job)
            if self.is_forked:
                raise ForkedChild
            refuse_unrun(given, hook.label)
            if job.settled:
                return True
        return False

    def no_handler(self, job: Job) -> None:
        """Run a job whose name has no handler here: a worker that has one may get it, during a deployment."""
        raise NoHandler(f"this worker has no handler for the name {job.name!r}{_name_of_program(job.name)}")

    def worked(self, job: Job) -> None:
        """Call the hooks after a handler that worked. A job that was settled otherwise than by an ack did not."""
        if self._after and not self.is_forked and (not job.settled or job.acked):
            self._call(self._after, job)

    def failed(self, job: Job, raised: BaseException) -> Ending | None:
        """Note what becomes of a job whose run raised; give what `settle` needs of it, whatever the hooks do.

        None if its handler had settled it before: what it said then is what became of it.
        """
        if self.is_forked:
            return Ending()
        try:
            return self._failed(job, raised)
        except BaseException as error:  # noqa: BLE001 - neither the job nor its executor may be lost by it
            pass_on(error)
            why = f"{brief(raised)}; {brief(error)} was raised while that was stored"
            with suppress(LeaseLostError):
                self._store(job, raised, why)
            return Ending(why)

    def _store(self, job: Job, raised: BaseException, why: str) -> None:
        """Store it without the hooks, as what was raised says if that can be."""
        with suppress(BaseException):
            if isinstance(raised, Release):
                job.release(raised.after, reason=raised.reason)
            else:
                job.fail(**{**Failure(raised)._arguments(), "error": why})
        if not job.settled:
            job.fail(why)

    def _failed(self, job: Job, raised: BaseException) -> Ending | None:
        heard = False
        if job.settled:
            what = "job %s (%s, attempt %d) of queue %s was settled, and then its handler raised: %s"
            self._log_error(what, job, raised)
            return None
        try:
            if isinstance(raised, Release):
                refused = _release(job, raised)
                if refused is not None and not job.settled:
                    refused = _release(job, raised)  # another thread's exception comes once
                if refused is None or job.settled:
                    return Ending(raised.reason)
                raised = refused
            failure = Failure(raised)
            text = failure.error
            self._call(self._on_failure, job, failure)
            if self.is_forked:
                return Ending()
            if job.acked:
                what = "job %s (%s, attempt %d) of queue %s was acked by an on_failure hook; its handler had raised: %s"
                self._log_error(what, job, raised)
            if not job.settled and self._fail(job, failure, text) is None:
                self.failed_for_good(job, str(failure.error))
                heard = True
        except LeaseLostError:
            # It was interrupted meanwhile, and is settled: the engine's event says so, but not what was raised.
            if not isinstance(raised, LeaseLostError):
                what = "job %s (%s, attempt %d) of queue %s was interrupted behind its failure: %s"
                self._log_error(what, job, raised)
        return Ending(self._why(raised), heard)

    def interrupted(self, job: Job, raised: BaseException, by: type[BaseException] = JobInterrupted) -> Ending:
        """Log where a run was interrupted: why is in the log already. Nothing is left to say when it is settled."""
        place = where(raised)
        if place and isinstance(raised, by) and not self.is_forked:
            what = "job %s (%s, attempt %d) of queue %s was interrupted at %s"
            who = (job.id, job.name or "no name", job.attempt, job.queue.name)
            log_safely(logging.WARNING, what, *who, place, fields=about(job))
        return Ending()

    def _why(self, raised: BaseException) -> str:
        if self._is_full:
            return describe(raised)
        return str(raised) if isinstance(raised, _IN_OUR_WORDS) else brief(raised)

    def _log_error(self, what: str, job: Job, raised: BaseException, *begins: str) -> None:
        who = (*begins, job.id, job.name or "no name", job.attempt, job.queue.name)
        log_safely(logging.ERROR, what, *who, self._why(raised), fields=about(job))

    def _fail(self, job: Job, failure: Failure, text: str) -> float | None:
        try:
            return job.fail(**failure._arguments())
        except LeaseLostError:
            raise
        except (TypeError, ValueError) as error:
            what = "%s gave for job %s (%s, attempt %d) of queue %s what job.fail refuses, and is left out: %s"
            self._log_error(what, job, error, " or ".join(hook.label for hook in self._on_failure) or "the handler")
        failure.error = text
        with suppress(TypeError, ValueError):
            return job.fail(**Failure(failure.raised)._arguments())  # what the handler has said stays
        return job.fail(text)

    def failed_for_good(self, job: Job, error: str) -> None:
        """Call the hooks of a job that goes to `failed`, or is there already."""
        self._call(self._on_failed, job, error)

    def end(self, executor: Executor, run: Run, by: type[BaseException] = JobInterrupted) -> None:
        """End a run whose handler has begun, and has returned or raised. What was raised in here: call it again.

        In the context of the run. `by`: what is raised in a run to interrupt it.
        """
        job: Job = run.job
        executor.leave()
        if run.raised is not None:
            make_up_for(run.raised)
        endings = run.endings
        if endings is None:
            endings = run.endings = []
        if run.results and not endings:
            self._keep(executor, job, run, endings)
        goes_on = executor.leave()
        if not endings:
            raised = run.raised or RuntimeError("what it raised is not known")
            how = self.failed if goes_on else partial(self.interrupted, by=by)
            endings.extend(map(how, (job,), (raised,)))
        elif run.results:
            run.results.clear()
            if goes_on:
                self.worked(job)
        self.settle(executor, job, endings[0])
        run.raised = None  # with it go the frames, and what these keep

    def _keep(self, executor: Executor, job: Job, run: Run, endings: list[Ending | None]) -> None:
        """Keep what the handler returned. If that cannot be kept, it is as if the handler had raised."""
        is_checked = False
        given = iter(run.results.values())
        try:
            check_result(job, run.results[0])
            is_checked = True
            endings.extend(map(executor.keep, given))
        except BaseException as error:
            if is_checked:
                is_refused = length_hint(given) == 0 and not endings
            else:
                # Code of the result raises the same whenever it is looked at.
                is_refused = isinstance(error, UnrunError) or type(run.raised) is type(error)
            if not is_refused:
                raise
            run.raised = error
            run.results.clear()

    def settle(self, executor: Executor, job: Job, ending: Ending | None = None) -> None:
        """End the run, and log what becomes of the job, and why it failed. None: its handler has returned."""
        why = "its handler said so" if ending is None else ending.why
        try:
            outcome = executor.end(ending is not None and ending.heard)
        except BaseException as error:  # noqa: BLE001 - the executor must go on
            self._log_error("the run of job %s (%s, attempt %d) of queue %s ended with an error: %s", job, error)
            return
        if outcome is None:
            return
        what, after = outcome
        level, words = executor.says(what, after)
        said = f"job %s (%s, attempt %d) of queue %s {words}"
        who = [job.id, job.name or "no name", job.attempt, job.queue.name]
        if what in {"retry", "failed"} or (what == "release" and ending is not None and why):
            said += ": %s"
            who.append(why)
        log_safely(_LEVELS[level], said, *who, fields=about(job))
        if what == "failed" and (ending is None or not ending.heard):
            if len(self._logged) >= _MOST_LOGGED:
                self._logged.clear()
            self._logged[job.queue.name, job.id, job.attempt] = time.monotonic()

    def has_logged(self, event: WorkerEvent) -> bool:
        """Give whether the log has this last failure, because it was a run of this worker that said so. Once."""
        logged_at = self._logged.pop((event.queue, event.id, event.attempt), None)
        return logged_at is not None and time.monotonic() - logged_at < _LOGGED_S

    def _call(self, hooks: Sequence[Hook], job: Job, *more: Any) -> None:
        for hook in hooks:
            try:
                refuse_unrun(hook.call(job, *more), hook.label)
            except BaseException as error:  # noqa: BLE001 - whatever it raises, `sys.exit` too, it changes nothing
                pass_on(error)
                if not self.is_forked:
                    self._log_hook(hook, job, error)
            if self.is_forked:
                return

    def _log_hook(self, hook: Hook, job: Job, raised: BaseException) -> None:
        what = "%s raised for job %s (%s, attempt %d) of queue %s: %s"
        place = where(raised)
        if not place or isinstance(raised, _IN_OUR_WORDS):
            what += f", at {place or where_written(hook.written)}".replace("%", "%%")
        self._log_error(what, job, raised, hook.label)


def _release(job: Job, raised: Release) -> BaseException | None:
    """Give the job back, or say why that makes no sense: a subclass may set any `after`."""
    try:
        job.release(raised.after, reason=raised.reason)
    except LeaseLostError:
        raise
    except Exception as error:  # noqa: BLE001 - `after` may be code
        error.__cause__ = raised
        return error
    return None
