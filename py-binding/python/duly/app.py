"""Tasks: functions that are pushed by calling them, and run by the workers of the same app."""

from __future__ import annotations

import copy
import functools
import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, overload

from duly import aio
from duly._core import Client, Job
from duly.errors import InvalidArgumentError
from duly.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from typing_extensions import Unpack

    from duly._core import Queue, RetryPolicy
    from duly.middleware import Middleware

P = ParamSpec("P")
R = TypeVar("R")

_DELIVERY = ("delay", "at", "id", "key", "on_duplicate")
_running: ContextVar[Job] = ContextVar("duly_job")


class Options(TypedDict, total=False):
    """How a task's jobs are pushed: what `Queue.push` takes, and the queue."""

    queue: str
    delay: float | timedelta
    at: datetime | float
    id: str
    key: str
    on_duplicate: str
    durability: str
    priority: int
    max_retries: int
    retry: RetryPolicy
    timeout: float | timedelta
    headers: Mapping[str, str]
    result_ttl: float | timedelta


def current_job() -> Job:
    """Give the job that is being run: its id, attempt, token, headers. For code that a task calls.

    Raises:
        LookupError: outside of a task.

    """
    try:
        return _running.get()
    except LookupError:
        raise LookupError("current_job() is for code that a task runs: here no job is running") from None


class Task(Generic[P, R]):
    """A function whose calls can be pushed. Called directly, it is the function.

    A job's data is an object with the function's arguments by name, so producers in every language can push it:
    `{"order_id": 42}` under the task's name.
    """

    def __init__(self, app: App, function: Callable[P, R], name: str, options: Options) -> None:
        """Use `App.task`, which makes these."""
        self.app = app
        self.name = name
        self._function = function
        self._options = options
        self._signature = _checked_signature(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return self._function(*args, **kwargs)

    def using(self, **options: Unpack[Options]) -> Task[P, R]:
        """Give the same task with other options: `close_order.using(delay=1800, key="close:42").push(order_id=42)`."""
        _check_options(options)
        task = copy.copy(self)
        task._options = {**self._options, **options}
        return task

    def push(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Push a job that calls the function with these arguments, and give its id."""
        queue, options = self._target()
        return self.app.client.queue(queue).push(self._data(*args, **kwargs), name=self.name, **options)

    delay = push
    """The same in Celery's word: a call of the function, as a job."""

    async def apush(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Push from asyncio code."""
        queue, options = self._target()
        return await self.app.async_client.queue(queue).push(self._data(*args, **kwargs), name=self.name, **options)

    def wait_result(self, job_id: str, *, timeout: float | timedelta | None = None) -> Any:
        """Give what the job of this id returned, as soon as it is done: `Queue.wait_result`."""
        return self.app.client.queue(self.queue).wait_result(job_id, timeout=timeout)

    async def await_result(self, job_id: str, *, timeout: float | timedelta | None = None) -> Any:
        """Wait for it in asyncio code."""
        return await self.app.async_client.queue(self.queue).wait_result(job_id, timeout=timeout)

    def _target(self) -> tuple[str, dict[str, Any]]:
        options: dict[str, Any] = dict(self._options)
        self.app._notice(self.queue, is_pushed=True)
        return options.pop("queue"), options

    def _data(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        return dict(self._signature.bind(*args, **kwargs).arguments)

    @property
    def queue(self) -> str:
        """The name of the queue that its jobs go to."""
        return self._options["queue"]

    def handler(self) -> Callable[[Job], Any]:
        """Give what a worker calls with the job."""
        if inspect.iscoroutinefunction(self._function):
            run_async: Callable[..., Any] = self._function

            async def handle_async(job: Job) -> Any:
                call = self._call(job)
                return None if call is None else await run_async(**call)

            return handle_async

        def handle(job: Job) -> Any:
            call = self._call(job)
            return None if call is None else self._function(**call)  # type: ignore[call-arg]

        return handle

    def _call(self, job: Job) -> dict[str, Any] | None:
        """Give the arguments; None when there are none that fit, and the job has failed for good."""
        _running.set(job)
        data = job.data
        try:
            if not isinstance(data, dict):
                raise TypeError(f"the data must be an object with the arguments by name, not {type(data).__name__}")
            self._signature.bind(**data)
        except TypeError as error:
            # It fails the same way each time.
            job.fail(f"the data does not fit the task {self.name}: {error}", final=True)
            return None
        return data


class App:
    """Tasks, the client that pushes them, and the workers that run them.

    ```python
    app = duly.App("redis://127.0.0.1:6379")

    @app.task("order.close", queue="orders", max_retries=5)
    def close_order(order_id: int) -> None: ...

    close_order.using(delay=1800, key="close:42").push(order_id=42)
    ```

    `duly worker shop.tasks:app` runs them.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        queue: str = "default",
        middleware: Sequence[Middleware] = (),
        **settings: Any,
    ) -> None:
        """Take what `duly.Client` takes, the queue of tasks that name none, and its workers' hooks. Nothing is sent."""
        self.client = Client(url, **settings)
        self.async_client = aio.Client(url, **settings)
        self.tasks: dict[str, Task[Any, Any]] = {}
        self._queue = self.client.queue(queue).name
        self._middleware = tuple(middleware)
        self._notice: Callable[..., None] = _notice_nothing

    @overload
    def task(self, name: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, name: str | None = None, /, **options: Unpack[Options]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, name: Any = None, /, **options: Unpack[Options]) -> Any:
        """Make a task of a function. Without a name it is the function's own, with its module.

        Raises:
            InvalidArgumentError: for a name that is taken, or a function whose arguments have no names.

        """
        if callable(name):
            return self.task()(name)
        _check_options(options)
        for option in _DELIVERY:
            if option in options:
                raise InvalidArgumentError(f"{option} belongs to one push: task.using({option}=...).push(...)")

        def register(function: Callable[P, R]) -> Task[P, R]:
            full_name = name or f"{function.__module__}.{function.__qualname__}"
            if full_name in self.tasks:
                raise InvalidArgumentError(f"there is a task {full_name!r} already: give this one another name")
            task = Task(self, function, full_name, {"queue": self._queue, **options})
            self.client.queue(task.queue)  # refuses a wrong name
            self.tasks[full_name] = task
            return task

        return register

    def queue(self, name: str | None = None) -> Queue:
        """Give a queue of the app's client; the default one without a name."""
        queue = self.client.queue(name or self._queue)
        self._notice(queue.name)
        return queue

    def queues(self) -> list[str]:
        """Give the names of all queues that tasks go to, in the order in which they were registered."""
        return list(dict.fromkeys(task.queue for task in self.tasks.values())) or [self._queue]

    def worker(self, queues: Mapping[str, int] | Iterable[str] | None = None, **settings: Any) -> Worker:
        """Give a worker that runs the app's tasks, by default from all of their queues; settings as `duly.Worker`'s."""
        settings.setdefault("middleware", self._middleware)
        worker = Worker(self.client, self.queues() if queues is None else queues, **settings)
        for name, task in self.tasks.items():
            worker.on(name, task.handler())
        return worker

    def __repr__(self) -> str:
        """Name the tasks."""
        return f"<duly.App with the tasks {', '.join(self.tasks) or '(none)'}>"


def _notice_nothing(_queue: str, *, is_pushed: bool = False) -> None:
    """Do nothing: a test of the app sets what hears of its queues."""


def _checked_signature(function: Callable[..., Any]) -> inspect.Signature:
    if not callable(function):
        raise InvalidArgumentError("a task must be a function")
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidArgumentError(
                f"the argument {parameter} of a task must have a name: a job's data is an object with the arguments"
            )
    return signature


def _check_options(options: Mapping[str, Any]) -> None:
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise InvalidArgumentError(f"a task has no option {', '.join(sorted(unknown))}")
