"""Code that runs around every handler of a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from duly._core import Job
from duly._failures import describe
from duly._misuse import check_hook, refuse_unrun
from duly.errors import InvalidArgumentError
from duly.outcomes import Fail, Retry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

FailureHook: TypeAlias = Callable[[Job, BaseException], "Mapping[str, Any] | None"]
"""Returns the changes to the failure, such as `{"data": ...}`, or None."""


class WrongChangeError(TypeError):
    """A hook wants to change what a failure has not. Its text has nothing of the data."""


class Failure:
    """A run that failed, before the failure is stored. An `on_failure` hook may change every attribute but `raised`."""

    raised: BaseException
    """The exception that the handler raised."""
    error: str
    """The text that is kept with the job."""
    retry_after: float | timedelta | None
    """The wait until the retry, in seconds or as a timedelta; None leaves it to the policy."""
    counted: bool
    """Whether this failure counts."""
    final: bool
    """Whether the job goes to `failed` now, whatever retries are left."""
    data: Any
    """New data of the job; `...` leaves it unchanged."""
    attempts: int | None
    """The number of failures before this one; None leaves it unchanged."""
    max_retries: int | None
    """How many retries the job may have; None leaves it unchanged."""
    headers: Mapping[str, str] | None
    """Strings that the job gets besides the headers that it has; None adds none."""
    name: str | None
    """A new name of the job; None leaves it unchanged."""

    __slots__ = (
        "attempts",
        "counted",
        "data",
        "error",
        "final",
        "headers",
        "max_retries",
        "name",
        "raised",
        "retry_after",
    )

    def __init__(self, raised: BaseException) -> None:
        """Take what the handler raised."""
        self.raised = raised
        self.retry_after = raised.after if isinstance(raised, Retry) else None
        self.counted = raised.counted if isinstance(raised, Retry) else True
        self.final = isinstance(raised, Fail)
        self.data = ...
        self.attempts = self.max_retries = None
        self.headers = self.name = None
        self.error = describe(raised)

    def change(self, changes: Mapping[str, Any]) -> None:
        """Set several attributes at once.

        Raises:
            TypeError: it is no mapping, or names what no failure has.

        """
        allowed = [name for name in self.__slots__ if name != "raised"]
        if not isinstance(changes, Mapping):
            raise WrongChangeError(f"the changes to a failure must be a dict or None, not {type(changes).__name__}")
        for name in changes:
            if name not in allowed:
                # Not every name is shown: it may be the job's data that is given by mistake.
                meant = get_close_matches(str(name), allowed, 1)
                hint = f"; {name!r} may mean {meant[0]!r}" if meant else ""
                raise WrongChangeError(f"a failure has only {', '.join(allowed)} to change{hint}")
        for name, value in changes.items():
            setattr(self, name, value)

    def _arguments(self) -> dict[str, Any]:
        """Those of `job.fail`."""
        given: dict[str, Any] = {"retry_after": self.retry_after, "counted": self.counted, "final": self.final}
        if self.final:
            given = {"final": True}
        if self.data is not ...:
            given["data"] = self.data
        given |= {"error": self.error, "headers": self.headers, "name": self.name}
        return {**given, "attempts": self.attempts, "max_retries": self.max_retries}


class Middleware:
    """Hooks that a worker calls around every run: override the ones that you need. By default they do nothing.

    The order is the same in every language: `before` hooks in the given order; the handler; then, in the opposite
    order, `after` hooks if it returned. If it raised: `on_failure` hooks, then the decision (retry or `failed`), then
    `on_failed` hooks if it is `failed`. A `before` that raises ends the run as if the handler had raised; the handler
    and later `before` hooks do not run. Exceptions of the other hooks are logged and change nothing. If the handler
    raises `duly.Release`, or the run is interrupted, neither `after` nor `on_failure` is called.

    `on_failed` is called for every job that enters `failed`, also if its worker died, it timed out, or `job.fail` was
    called: by any worker of the queue, within about ten seconds, in a thread of its own, at least once, and usually
    once. Give all workers of a queue the same hooks.

    Hooks are methods and plain functions. Around a coroutine they run on the event loop, so they must not block for
    long.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse a hook of one object: only those of its class are called."""
        if name in HOOKS:
            raise _no_method(type(self), name)
        super().__setattr__(name, value)

    def before(self, job: Job) -> None:
        """Do something before the handler runs."""

    def after(self, job: Job) -> None:
        """Do something when the handler has returned, before the job is acked."""

    def on_failure(self, job: Job, failure: Failure) -> None:
        """Change the failure, and the job, before the failure is stored."""

    def on_failed(self, job: Job, error: str) -> None:
        """Do something for a job that goes to `failed`: it has no retries left, or failed for good."""


def _no_method(kind: type, name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} must be a method of a class that extends duly.Middleware; set on an object of {kind.__qualname__} it "
        "would never be called"
    )


def check(middleware: Iterable[Middleware]) -> list[Middleware]:
    """Return them as a list.

    Raises:
        InvalidArgumentError: one is no middleware, or has a hook that is no plain function, takes other arguments,
            or is not of its class.

    """
    if not hasattr(middleware, "__iter__"):
        raise InvalidArgumentError("middleware must be a list of objects of classes that extend duly.Middleware")
    checked = list(middleware)
    for one in checked:
        if not isinstance(one, Middleware):
            raise InvalidArgumentError("middleware must be objects of classes that extend duly.Middleware")
        for name, takes in HOOKS.items():
            if name in getattr(one, "__dict__", ()):
                raise _no_method(type(one), name)
            check_hook(getattr(one, name), _label(one, name), *takes)
    return checked


class OnFailure(Middleware):
    """The `on_failure` of a worker's constructor."""

    def __init__(self, hook: FailureHook) -> None:
        """Take the function.

        Raises:
            InvalidArgumentError: it is no plain function that takes the job and the exception.

        """
        check_hook(hook, "on_failure", "the job", "the exception")
        self.hook = hook

    def on_failure(self, job: Job, failure: Failure) -> None:
        """Let the hook say what it wants changed."""
        changes = self.hook(job, failure.raised)
        refuse_unrun(changes, "the hook on_failure")
        failure.change(changes or {})


class Hook(NamedTuple):
    """One hook, and what it is called in the log."""

    call: Callable[..., Any]
    label: str
    written: Callable[..., Any]
    """The user's function."""


def overridden(middleware: Sequence[Middleware], name: str) -> list[Hook]:
    """Give the hooks of this name that do something."""
    hooks = []
    for one in middleware:
        if getattr(type(one), name) is not getattr(Middleware, name):
            call = getattr(one, name)
            hooks.append(Hook(call, f"the hook {_label(one, name)}", one.hook if isinstance(one, OnFailure) else call))
    return hooks


def _label(one: Middleware, name: str) -> str:
    return name if isinstance(one, OnFailure) else f"{type(one).__qualname__}.{name}"


HOOKS = {
    "before": ("the job",),
    "after": ("the job",),
    "on_failure": ("the job", "the failure"),
    "on_failed": ("the job", "the error"),
}
"""What each takes."""
