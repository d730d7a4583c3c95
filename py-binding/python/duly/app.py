"""Tasks: functions that are pushed by calling them, and run by the workers of the same app."""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, cast, overload

from duly import middleware as _middleware
from duly._core import Client, NewJob, Schedule, _async_sibling
from duly._failures import count_as_own
from duly._handlers import CATCH_ALL
from duly._lifespan import Lifespan, Resources
from duly._misuse import check_function, is_coroutine_function
from duly._program import Registration, module_of
from duly._runs import BadCall, running
from duly.errors import InvalidArgumentError
from duly.pushed import AsyncPushed, Pushed
from duly.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from os import PathLike
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from duly._core import Job, Queue, RetryPolicy, SyncReport
    from duly.middleware import Middleware
    from duly.worker import AnyHandler, AnyStart, WorkerSettings

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_DELIVERY = ("delay", "at", "id", "key", "on_duplicate")


class TaskOptions(TypedDict, total=False):
    """Options for all jobs of a task: the queue, and options of `Queue.push`."""

    queue: str
    durability: str
    priority: int
    max_retries: int
    retry: RetryPolicy
    timeout: float | timedelta
    headers: Mapping[str, str]
    expires: float | timedelta | datetime
    result_ttl: float | timedelta


class Options(TaskOptions, total=False):
    """Options for one job of a task: the queue, and options of `Queue.push`."""

    delay: float | timedelta
    at: datetime | float
    id: str
    key: str
    on_duplicate: Literal["refuse", "keep", "replace"]


class ScheduleOptions(TypedDict, total=False):
    """When a task is pushed by itself: the arguments of `duly.Schedule`."""

    cron: str
    every: float | timedelta
    tz: str
    anchor: datetime | float
    start: datetime | float
    until: datetime | float
    count: int
    jitter: float | timedelta
    catch_up: Literal["latest", "skip"] | int
    grace: float | timedelta
    overlap: Literal["allow", "skip", "replace"]


class ClientSettings(TypedDict, total=False):
    """The settings of `duly.Client` except its URL."""

    prefix: str
    username: str | None
    password: str | None
    ca_file: str | PathLike[str] | None
    client_cert_file: str | PathLike[str] | None
    client_key_file: str | PathLike[str] | None
    connect_timeout: float | timedelta | None
    command_timeout: float | timedelta | None
    deadline: float | timedelta | None
    allow_eviction: bool
    max_data_bytes: int
    durability: str | None
    fail_fast: bool | None
    manual_clock: bool


def current_job() -> Job:
    """Return the job that is running, with its id, attempt, token and headers, for code that a task calls.

    Raises:
        LookupError: no job is running here.

    """
    try:
        return running.get()
    except LookupError:
        raise LookupError("current_job() is for code that a task runs: here no job is running") from None


class Task(Generic[P, R]):
    """A function whose calls can be pushed as jobs. Calling the task directly calls the function.

    A job's data is an object with the function's arguments by name, so producers in every language can push it:
    `{"order_id": 42}` under the task's name.
    """

    def __init__(self, app: App, function: Callable[P, R], name: str, options: Options) -> None:
        """Use `App.task`, which creates tasks."""
        self.app = app
        self.name = name
        self._function = function
        self._options = options
        self._signature = _checked_signature(function)
        self.schedule: Schedule | None = None
        self._registration: Registration | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now."""
        return self._function(*args, **kwargs)

    def using(self, **options: Unpack[Options]) -> Task[P, R]:
        """Return the same task with other options: `close_order.using(delay=1800, key="close:42").push(order_id=42)`.

        Raises:
            InvalidArgumentError: an option is unknown, or its value is wrong.

        """
        self.app._check_options(options)
        task = copy.copy(self)
        task._options = {**self._options, **options}
        return task

    @overload
    def push(self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> Pushed[T]: ...

    @overload
    def push(self: Task[P, T], *args: P.args, **kwargs: P.kwargs) -> Pushed[T]: ...

    def push(self, *args: P.args, **kwargs: P.kwargs) -> Pushed[Any]:
        """Push a job that calls the function with these arguments, and return its id.

        The id is a `str` that knows its queue: `job_id.wait()`, `job_id.find()`, `job_id.cancel()`.
        """
        name, options = self._target()
        queue = self.app.client.queue(name)
        return Pushed(queue.push(self._data(*args, **kwargs), name=self.name, **options), queue)

    @overload
    def delay(self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> Pushed[T]: ...

    @overload
    def delay(self: Task[P, T], *args: P.args, **kwargs: P.kwargs) -> Pushed[T]: ...

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Pushed[Any]:
        """Do the same as `push`, under Celery's name for it: the job is due now.

        The arguments are the function's: `task.delay(30)` calls the function with 30. To push a job that is due later,
        use `task.using(delay=30).push(...)`.
        """
        return self.push(*args, **kwargs)

    @overload
    async def apush(self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> AsyncPushed[T]: ...

    @overload
    async def apush(self: Task[P, T], *args: P.args, **kwargs: P.kwargs) -> AsyncPushed[T]: ...

    async def apush(self, *args: P.args, **kwargs: P.kwargs) -> AsyncPushed[Any]:
        """Push from asyncio code. The methods of the id are awaited too: `await job_id.wait()`."""
        name, options = self._target()
        queue = self.app.async_client.queue(name)
        return AsyncPushed(await queue.push(self._data(*args, **kwargs), name=self.name, **options), queue)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return the job that `push` would push, to push many at once.

        ```python
        app.queue(close_order.queue).push_many(close_order.job(order_id=number) for number in range(1000))
        ```
        """
        _queue, options = self._target()
        return NewJob(self._data(*args, **kwargs), name=self.name, **options)

    @overload
    def wait_result(
        self: Task[P, Coroutine[Any, Any, T]], job_id: str, *, timeout: float | timedelta | None = None
    ) -> T: ...

    @overload
    def wait_result(self: Task[P, T], job_id: str, *, timeout: float | timedelta | None = None) -> T: ...

    def wait_result(self, job_id: str, *, timeout: float | timedelta | None = None) -> Any:
        """Wait until the job of this id is done and return its result: see `Queue.wait_result`.

        An id from `push` knows its queue; a plain `str` is looked up in the task's queue.
        """
        return self.app.client.queue(self._queue_of(job_id)).wait_result(str(job_id), timeout=timeout)

    @overload
    async def await_result(
        self: Task[P, Coroutine[Any, Any, T]], job_id: str, *, timeout: float | timedelta | None = None
    ) -> T: ...

    @overload
    async def await_result(self: Task[P, T], job_id: str, *, timeout: float | timedelta | None = None) -> T: ...

    async def await_result(self, job_id: str, *, timeout: float | timedelta | None = None) -> Any:
        """Do the same as `wait_result` in asyncio code."""
        return await self.app.async_client.queue(self._queue_of(job_id)).wait_result(str(job_id), timeout=timeout)

    def _queue_of(self, job_id: str) -> str:
        return job_id.queue.name if isinstance(job_id, (Pushed, AsyncPushed)) else self.queue

    def _target(self) -> tuple[str, dict[str, Any]]:
        options: dict[str, Any] = dict(self._options)
        self.app._notice(self.queue, is_pushed=True)
        return options.pop("queue"), options

    def _data(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        return dict(self._signature.bind(*args, **kwargs).arguments)

    @property
    def queue(self) -> str:
        """The name of the queue that its jobs are pushed to."""
        return self._options["queue"]

    def handler(self) -> Callable[[Job], Any]:
        """Return the function that a worker calls with the job."""
        if is_coroutine_function(self._function):
            run_async: Callable[..., Any] = self._function

            async def handle_async(job: Job) -> Any:
                return await run_async(**self._call(job))

            return handle_async

        def handle(job: Job) -> Any:
            return self._function(**self._call(job))  # type: ignore[call-arg]

        return handle

    def _call(self, job: Job) -> dict[str, Any]:
        """Give the arguments.

        Raises:
            BadCall: they do not fit. The next attempt may meet a worker of another version.

        """
        data = job.data
        try:
            if not isinstance(data, dict):
                raise TypeError(f"the data must be an object with the arguments by name, not {type(data).__name__}")
            self._signature.bind(**data)
        except TypeError as error:
            raise BadCall(f"the data does not fit the task {self.name}: {error}") from None
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
        owner: str | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        """Take the arguments of `duly.Client`, the queue of tasks that set none, and the hooks of the app's workers.

        The owner is whose schedules those of the tasks are: a name that no other program has. Nothing is sent.
        """
        self.tasks: dict[str, Task[Any, Any]] = {}  # first: a half-made app is printed, too
        try:
            self.client = Client(url, **settings)
            self.async_client = _async_sibling(self.client)
            self._queue = self.client.queue(queue).name
            self._middleware = tuple(_middleware.check(middleware))
            self._owner = owner
        except BaseException:
            # A report that shows the variables of every frame (pytest, Sentry) must not show a password.
            del url, settings
            raise
        self._notice: Callable[..., None] = _notice_nothing
        self._lifespan = Lifespan()
        self._otherwise: Callable[[Job], Any] | None = None
        self._otherwise_registration: Registration | None = None
        self._workers: weakref.WeakKeyDictionary[Worker, dict[str, Callable[[Job], Any]]] = weakref.WeakKeyDictionary()
        """With the handlers that they have from the app."""
        self.resources = Resources()
        """What functions that are given to `on_start` have made for tasks: `app.resources.http`."""

    @overload
    def task(self, name: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        name: str | None = None,
        /,
        *,
        schedule: str | ScheduleOptions | None = None,
        **options: Unpack[TaskOptions],
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        name: Any = None,
        /,
        *,
        schedule: str | ScheduleOptions | None = None,
        **options: Unpack[TaskOptions],
    ) -> Any:
        """Make a task of a function. Without a name the task has the function's own, with its module.

        With a schedule, a cron pattern or the arguments of `duly.Schedule`, it is also pushed by itself, without
        arguments: `@app.task(schedule={"cron": "0 3 * * *", "tz": "Europe/Berlin"})`. The app then needs an owner. The
        schedule has the task's name, and is stored when a worker of the app starts, or by `sync_schedules`.

        Raises:
            InvalidArgumentError: the name is taken, an argument of the function has no name, or an option is wrong.
            TypeError: neither the task nor the function has a name.

        """
        if callable(name):
            return self.task()(name)
        for option in _DELIVERY:
            if option in options:
                raise InvalidArgumentError(f"{option} belongs to one push: task.using({option}=...).push(...)")
        self._check_options(options, name)

        def register(function: Callable[P, R]) -> Task[P, R]:
            full_name = name or _full_name(function)
            known, registration = self.tasks.get(full_name), Registration.of(function)
            replaces = known is None or registration.replaces(known._registration)
            if replaces is None:
                raise InvalidArgumentError(f"there is a task {full_name!r} already: give this one another name")
            NewJob(name=full_name).check()
            task = Task(self, function, full_name, cast("Options", {"queue": self._queue, **options}))
            if schedule is not None:
                task.schedule = self._schedule(task, schedule, options)
            task._registration = registration
            if replaces:
                self.tasks[full_name] = task
            if replaces and known is not None:
                self._replace(full_name, task.handler())
            count_as_own(function)
            return task

        return register

    def on_start(self, function: AnyStart) -> AnyStart:
        """Call this function in each worker of the app before its first job: see `Worker.on_start`.

        ```python
        @app.on_start
        async def connect() -> None:
            app.resources.http = httpx.AsyncClient()
        ```
        """
        return self._lifespan.add(function, "an on_start function", self._lifespan.starts)  # type: ignore[no-any-return]

    def on_stop(self, function: AnyStart) -> AnyStart:
        """Call this function in each worker of the app after its last job: see `Worker.on_stop`."""
        return self._lifespan.add(function, "an on_stop function", self._lifespan.stops)  # type: ignore[no-any-return]

    def otherwise(self, function: AnyHandler) -> AnyHandler:
        """Run the jobs that are of no task of the app with this function. It takes the job: `@app.otherwise`.

        Raises:
            InvalidArgumentError: there is one, or the function does not take the job.

        """
        check_function(function, "the function of otherwise", "the job")
        registration = Registration.of(function)
        is_first = self._otherwise in (None, function)
        replaces = is_first or registration.replaces(self._otherwise_registration)
        if replaces is None:
            raise InvalidArgumentError("there is a function for jobs of no task already: an app has one")
        if replaces:
            self._otherwise, self._otherwise_registration = function, registration
            if not is_first:
                self._replace(CATCH_ALL, function)
        count_as_own(function)
        return function

    def _schedule(self, task: Task[Any, Any], schedule: str | ScheduleOptions, options: Mapping[str, Any]) -> Schedule:
        if self._owner is None:
            raise InvalidArgumentError(f"the schedule of {task.name!r} needs an owner: duly.App(owner='...')")
        try:
            task._signature.bind()
        except TypeError as error:
            message = f"{task.name!r} is pushed without arguments by its schedule: give them defaults ({error})"
            raise InvalidArgumentError(message) from None
        given = {"cron": schedule} if isinstance(schedule, str) else dict(schedule)
        unknown = given.keys() - ScheduleOptions.__annotations__.keys()
        if unknown:
            raise InvalidArgumentError(f"a schedule has no option {', '.join(sorted(unknown))}")
        of_job = {name: value for name, value in options.items() if name not in ("queue", "durability")}
        return Schedule(NewJob({}, name=task.name, **of_job), **given)

    def sync_schedules(self) -> dict[str, SyncReport]:
        """Make the schedules that the app owns those of its tasks, and return what that did, by queue.

        Workers of the app do it when they start. Schedules in queues that no task has any more are left there.

        Raises:
            InvalidArgumentError: the app has no owner, or a name belongs to somebody else.

        """
        if self._owner is None:
            raise InvalidArgumentError("the app has no owner of schedules: duly.App(owner='...')")
        return {
            queue: self.client.queue(queue).schedules.sync(owner, wanted)
            for queue, owner, wanted in self._own_schedules()
        }

    def _own_schedules(self) -> list[tuple[str, str, dict[str, Schedule]]]:
        """Return the schedules that the app owns: queue, owner, and all of them in that queue."""
        if self._owner is None:
            return []
        of_queue: dict[str, dict[str, Schedule]] = {queue: {} for queue in self.queues()}
        for task in self.tasks.values():
            if task.schedule is not None:
                of_queue[task.queue][task.name] = task.schedule
        return [(queue, self._owner, wanted) for queue, wanted in of_queue.items()]

    def queue(self, name: str | None = None) -> Queue:
        """Return a queue of the app's client; without a name the default one."""
        queue = self.client.queue(name or self._queue)
        self._notice(queue.name)
        return queue

    def queues(self) -> list[str]:
        """Return the names of all queues that tasks are pushed to, in the order in which the tasks were registered."""
        return list(dict.fromkeys(task.queue for task in self.tasks.values())) or [self._queue]

    def _check_options(self, options: Mapping[str, Any], name: str | None = None) -> None:
        """Refuse now what every push would refuse."""
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            raise InvalidArgumentError(f"a task has no option {', '.join(sorted(unknown))}")
        of_job = dict(options)
        self.client.queue(of_job.pop("queue", self._queue))
        NewJob(name=name, **of_job).check()

    def worker(
        self, queues: Mapping[str, int] | Iterable[str] | None = None, **settings: Unpack[WorkerSettings]
    ) -> Worker:
        """Return a worker that runs the app's tasks, by default from all of their queues.

        The settings are those of `duly.Worker`.
        """
        settings.setdefault("middleware", self._middleware)
        worker = Worker(self.client, self.queues() if queues is None else queues, **settings)
        handlers = {name: worker.on(name, task.handler()) for name, task in self.tasks.items()}
        if self._otherwise is not None:
            handlers[CATCH_ALL] = worker.on(CATCH_ALL, self._otherwise)
        self._workers[worker] = handlers
        worker._schedules = self._own_schedules
        worker._lifespan = self._lifespan
        worker.resources = self.resources
        return worker

    def _replace(self, name: str, handler: Callable[[Job], Any]) -> None:
        """Give workers that were made before the copy of a handler that is kept."""
        for worker, handlers in list(self._workers.items()):
            if name in handlers and worker._handlers.get(name) is handlers[name]:
                worker._handlers[name] = handlers[name] = handler

    def close(self) -> None:
        """Close the app's client: its connections end, and later calls are refused.

        `with app:` closes it at the end. Workers have connections of their own and keep running. Use `aclose()` for an
        app that pushed from asyncio code, too.
        """
        self.client.close()

    async def aclose(self) -> None:
        """Close the app's clients, that of asyncio code and the other. `async with app:` does it at the end."""
        await self.async_client.close()
        self.client.close()

    def __enter__(self) -> Self:
        """Give the app, which is closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Give the app, which is closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()

    def __repr__(self) -> str:
        """Name the tasks."""
        return f"<duly.App with the tasks {', '.join(self.tasks) or '(none)'}>"


def _notice_nothing(_queue: str, *, is_pushed: bool = False) -> None:
    """Do nothing: a test of the app sets what hears of its queues."""


def _full_name(function: Callable[..., Any]) -> str:
    check_function(function, "a task")
    try:
        return f"{module_of(function)}.{function.__qualname__}"
    except AttributeError:
        kind = type(function).__name__
        raise TypeError(f'a {kind} has no name of its own: give the task one, app.task("name")(function)') from None


def _checked_signature(function: Callable[..., Any]) -> inspect.Signature:
    check_function(function, "a task")
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidArgumentError(
                f"the argument {parameter} of a task must have a name: a job's data is an object with the arguments"
            )
    return signature
