"""The command `duly`: runs workers of an app; all its other commands are the same in every language."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import logging.config
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from duly._core import Supervision, WorkerEngine, _console, _occupy_standard_streams
from duly._misuse import importing, refuse_while_importing
from duly._runs import log_safely
from duly._supervised import FATAL, REFUSED, is_fatal, join, say
from duly.app import App
from duly.errors import DulyError, InvalidArgumentError
from duly.supervisor import FAILED, STOPS, USAGE, Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_STATUS = """\
signals:
  SIGTERM, SIGINT, SIGQUIT: running jobs may finish within the grace; a second signal ends the grace.
  SIGHUP, SIGUSR2 (with --processes 2 or more, --max-jobs, --max-memory or --reload): the processes finish their jobs
    and are replaced one by one, with the new code and new log files; in a terminal, SIGHUP ends them.
  SIGHUP stops a single process as SIGTERM does.

exit status:
    0  stopped by a signal, all handlers ended; or after --max-jobs or --max-memory
    1  a permanent error, such as a wrong password
    2  a wrong command line, or an app that cannot be imported or has no task
  124  a handler, or a hook after it, had to end (timeout, lost lease, end of the grace) and could not be interrupted
  137  a process had to be killed
  142  the grace ended before a handler, and its job was given back
  143  the same after a second SIGTERM (130 after SIGINT, 131 after SIGQUIT)
With --processes 2 or more, --max-jobs, --max-memory or --reload, a process that ends is replaced, and the status is the
largest of those with which processes ended after the signal.
"""

_HERE = str(Path(__file__).parent) + os.sep
_IMPORT = str(Path(importlib.__file__).parent) + os.sep
_LEVELS = ("debug", "info", "warning", "error")
_PATIENCE_S = Supervision.patience()
"""A handler that goes on for so long after it was interrupted ends its process. Behind its worker, so do threads."""

_LAST_WORDS_S = 1.0
"""How long the last line of the log may take."""


class UsageError(Exception):
    """What was typed cannot be done; the text says what to do."""


class AppError(UsageError):
    """The app cannot be imported, or has nothing to run."""


def _end_at_last(status: int) -> None:
    """End the process if threads keep it: Python waits for those that are no daemons, and for those of pools."""
    time.sleep(_PATIENCE_S)
    names = sorted(thread.name for thread in threading.enumerate() if _holds_up(thread))
    what = "the worker has ended, and %s: the process ends with status %d without waiting any longer"
    who = f"these threads go on: {', '.join(names)}" if names else "functions of atexit go on"

    def say_it() -> None:
        log_safely(logging.WARNING, what, who, status)
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()

    # A handler of the log, or who reads standard error, may be what is stuck.
    with suppress(BaseException):
        says = threading.Thread(target=say_it, name="duly-last-words", daemon=True)
        says.start()
        says.join(_LAST_WORDS_S)
    os._exit(status)


def _holds_up(thread: threading.Thread) -> bool:
    return thread is not threading.main_thread() and not (thread.daemon and thread.name.startswith("duly-"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit status. Without arguments they are those of the process, which ends with it."""
    if arguments is not None:
        return _run(arguments)
    _occupy_standard_streams()
    status = _run(sys.argv[1:])
    if sys.argv[1:2] == ["worker"]:
        threading.Thread(target=_end_at_last, args=(status,), name="duly-end", daemon=True).start()
    return status


def _run(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] != "worker":
        # The same in every language: it reads its arguments, and takes Ctrl-C, itself. What is ignored stays so.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return _console(list(arguments))
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        status: int = given.run(given)
    except (DulyError, UsageError) as error:
        if getattr(given, "supervised", False) and is_fatal(error):
            say(REFUSED if isinstance(error, AppError) else FATAL)
        print(f"duly: {error}", file=sys.stderr)  # noqa: T201 - a command speaks
        return USAGE if isinstance(error, UsageError | InvalidArgumentError) else FAILED
    except BrokenPipeError:
        return FAILED
    return status


class _Parser(argparse.ArgumentParser):
    """What it does not understand may be a URL, and its password is nobody's to read."""

    def error(self, message: str) -> NoReturn:
        super().error(re.sub(r"(\w://[^\s:/@]*:)[^\s]*@", r"\1***@", message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("duly")
    commands = parser.add_subparsers(required=True, metavar="command")

    worker = commands.add_parser(
        "worker",
        help="run the tasks of an app",
        description="Runs the tasks of an app until it is stopped.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    worker.add_argument("app", help="where the duly.App is: module:attribute, such as shop.tasks:app")
    worker.add_argument(
        "-q",
        "--queues",
        help="orders,mail (in this order) or orders=3,mail=1 (weights); default: all queues of the app's tasks",
    )
    worker.add_argument(
        "-c", "--concurrency", type=_whole, default=1, help="handlers at once in each process, 1 to 10,000 (default 1)"
    )
    worker.add_argument("-p", "--processes", type=_whole, default=1, help="number of processes (default 1)")
    worker.add_argument("--name", help="name of the worker in `queue.workers()`")
    worker.add_argument(
        "--grace", type=_seconds, default=30.0, help="seconds for running jobs after a signal, 0 to 86,400 (default 30)"
    )
    worker.add_argument(
        "--lease",
        type=_seconds,
        default=10.0,
        help="seconds after which other workers may take the jobs of a worker that died, 0.1 to 86,400 (default 10)",
    )
    worker.add_argument(
        "--max-jobs",
        type=_whole,
        help="replace a process after so many jobs, when the last ones have ended (default: never)",
    )
    worker.add_argument(
        "--max-memory",
        type=_whole,
        metavar="MIB",
        help="replace a process that uses more than so many MiB, when its running jobs have ended (default: never)",
    )
    worker.add_argument(
        "--prefetch",
        type=_whole_or_none,
        help="the most jobs that wait in a process for a handler, 0 to 1,000 (default: as many as run in 50 ms)",
    )
    worker.add_argument("--reload", action="store_true", help="for development: restart when a Python file changes")
    logs = worker.add_argument_group(
        "logging", "if the app's module configures logging (basicConfig, dictConfig), only --log-config overrides it"
    )
    logs.add_argument(
        "--log-level", choices=_LEVELS, help="the lowest level to log (default info, or as the app configured it)"
    )
    logs.add_argument(
        "--log-config", metavar="FILE", help="configure logging from this file: JSON (dictConfig) or INI (fileConfig)"
    )
    logs.add_argument("--no-logging", action="store_true", help="do not configure logging: the app does it")
    logs.add_argument(
        "--log-errors",
        choices=("location", "full"),
        default="location",
        help="failures: class, line and causes (location, default), or also messages (may hold data) and tracebacks",
    )
    worker.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    worker.set_defaults(run=_worker, folder="")
    return parser


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more, not {text!r}")
    return number


def _whole_or_none(text: str) -> int:
    return 0 if text == "0" else _whole(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, not {text!r}")
    return seconds


@contextmanager
def _ready_to_stop() -> Iterator[None]:
    """Let the signals that stop end the process quietly until something else handles them: nothing has begun yet.

    Not by an exception: what is being imported might catch it, and a thread that it started go on. Nor by Python's own
    handler, which a module that waits for a database in C code would hold up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPS}
    WorkerEngine.leave_at(STOPS)
    # A supervisor starts its processes with these blocked.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _worker(given: argparse.Namespace) -> int:
    refuse_while_importing("run one more")
    if not hasattr(signal, "pthread_sigmask"):
        raise UsageError("workers do not run on this system (Windows): use Linux, macOS or WSL")
    if given.no_logging and (given.log_config or given.log_level):
        raise UsageError("--no-logging goes with neither --log-config nor --log-level")
    with _ready_to_stop():
        return _work(given)


def _configure_logging(given: argparse.Namespace) -> None:
    """Do what the app's module has not done itself: it was imported before."""
    if given.no_logging:
        return
    if given.log_config is not None:
        _read_log_config(given.log_config, Path(given.folder) / given.log_config)
    elif not logging.getLogger().hasHandlers():
        line = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(level=(given.log_level or "info").upper(), format=line)
    if given.log_level is not None:
        logging.getLogger("duly").setLevel(given.log_level.upper())


def _read_log_config(file: str, path: Path) -> None:
    try:
        if path.suffix != ".json":
            logging.config.fileConfig(path, disable_existing_loggers=False)
            return
        config = json.loads(path.read_text("utf-8"))
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, **config})
    except Exception as error:
        cause = "".join(f": {cause}" for cause in [error.__cause__] if cause is not None)
        raise UsageError(f"--log-config {file} cannot be used: {type(error).__name__}: {error}{cause}") from error


def _is_of_several(given: argparse.Namespace) -> bool:
    """Tell whether processes are replaced, which a supervisor does."""
    return given.processes > 1 or given.reload or given.max_jobs is not None or given.max_memory is not None


@contextmanager
def _folder_kept() -> Iterator[None]:
    """Come back to the current folder: what is imported may go to its own, and processes start here."""
    try:
        folder = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
    except OSError:  # it is gone
        yield
        return
    known = os.fstat(folder)
    try:
        yield
    finally:
        # What is imported may have closed it, and another file may have its number.
        with suppress(OSError):
            if os.path.samestat(os.fstat(folder), known):
                os.fchdir(folder)
                os.close(folder)


def _work(given: argparse.Namespace) -> int:
    command = [*_interpreter(), *_again(given), "--supervised"]
    # The app may go to another folder while it is imported.
    with suppress(OSError):  # this one is gone, which `_import_app` says
        given.folder = str(Path.cwd())
    if not given.supervised and _is_of_several(given):
        # Each process imports the app anew (no fork: nothing of the parent can be half-way), so a wrong one shows here.
        with _folder_kept():
            _import_app(given.app)
        _configure_logging(given)
        return _Supervisor(command, given.processes, grace=given.grace, reload=given.reload).run()
    join()
    app = _import_app(given.app)
    _configure_logging(given)
    queues = _queues(given.queues)
    for name in queues or ():
        # Of a partitioned queue the parts are served: orders/0, orders/1.
        if name.partition("/")[0] not in app.queues():
            log_safely(logging.WARNING, "no task of the app goes to the queue %s: is its name right?", name)
    try:
        worker = app.worker(
            queues,
            concurrency=given.concurrency,
            lease=given.lease,
            grace=given.grace,
            max_jobs=given.max_jobs,
            max_memory=given.max_memory,
            name=given.name,
            prefetch=given.prefetch,
            log_errors=given.log_errors,
        )
    except InvalidArgumentError as error:
        raise UsageError(str(error)) from error
    worker._patience = _PATIENCE_S
    names = ", ".join(app.queues() if queues is None else queues)
    log_safely(logging.INFO, "serving %s with %d tasks; Ctrl-C stops", names, len(app.tasks))
    worker.run()
    return worker._ending.status


class _Supervisor(Supervisor):
    """That of `duly worker`, whose processes let signals in at once: see `_ready_to_stop`."""

    _holds_signals = True


_BEGIN = """import sys
sys.path[0] or sys.path.pop(0)
sys.path.append({!r})
from duly.cli import main
sys.exit(main())"""
"""Not `-m duly`: a `queue.py` in the current folder would stand in for Python's own. `_import_app` adds the folder.
The folder of this package comes last: it may be the current one."""


def _interpreter() -> list[str]:
    """Give the command line of this Python, with its own options (-O, -W, -X), up to the arguments of `duly`."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined] # as multiprocessing does
    return [sys.executable, *flags, "-c", _BEGIN.format(str(Path(__file__).absolute().parent.parent))]


def _again(given: argparse.Namespace) -> list[str]:
    words = [
        "worker",
        given.app,
        "-c",
        str(given.concurrency),
        "--grace",
        str(given.grace),
        "--lease",
        str(given.lease),
    ]
    words += ["--log-errors", given.log_errors]
    if given.log_level is not None:
        words += ["--log-level", given.log_level]
    if given.log_config is not None:
        words += [f"--log-config={given.log_config}"]
    if given.no_logging:
        words += ["--no-logging"]
    if given.name is not None:
        words += [f"--name={given.name}"]
    if given.max_jobs is not None:
        words += ["--max-jobs", str(given.max_jobs)]
    if given.max_memory is not None:
        words += ["--max-memory", str(given.max_memory)]
    if given.prefetch is not None:
        words += ["--prefetch", str(given.prefetch)]
    return words if given.queues is None else [*words, f"--queues={given.queues}"]


def _import_app(where: str) -> App:
    module, _, attribute = where.partition(":")
    if not module or module.startswith(".") or "/" in module:
        raise AppError(f"{where!r} names no module: give the app as module:attribute, such as shop.tasks:app")
    try:
        here = str(Path.cwd())
    except OSError as error:
        what = "start `duly worker` in a folder that stays, or by the name of the link to the newest release"
        raise AppError(f"the current folder is gone: {what}") from error
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with importing(where):
            found = _find(module, attribute or "app")
    except AppError:
        raise
    except (Exception, SystemExit) as error:  # whatever a module raises
        raise AppError(f"the app {where} cannot be imported: {_what_and_where(error)}") from error
    if not isinstance(found, App):
        raise AppError(f"{where} is a {type(found).__name__}, not a duly.App")
    if not found.tasks:
        raise AppError(
            f"the app {where} has no task: import the modules with its tasks there, or make some (@app.task)"
        )
    return found


def _find(module: str, attribute: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise AppError(f"there is no module {error.name!r} here: give the app as module:attribute") from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise AppError(f"{module} has no {name!r}: give the app as module:attribute")
        found = getattr(found, name)
    return found


def _what_and_where(error: BaseException) -> str:
    """Give `ValueError: what it says`, and below where it was raised, the innermost line first."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    locations = [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in frames
        if not frame.filename.startswith((_HERE, _IMPORT, "<frozen importlib"))
    ]
    said = str(error)
    if isinstance(error, SyntaxError):
        said = error.msg
        if error.filename is not None:
            locations.insert(0, f"{error.filename}:{error.lineno}")
    what = f"{type(error).__qualname__}: {said}" if said else type(error).__qualname__
    return "".join([what, *(f"\n  at {location}" for location in locations)])


def _queues(text: str | None) -> Mapping[str, int] | list[str] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    weights = {name: weight for name, sign, weight in (part.partition("=") for part in parts) if sign}
    if not weights:
        return parts
    if len(weights) != len(parts) or not all(weight.isdecimal() for weight in weights.values()):
        raise UsageError(f"--queues {text}: either names (orders,mail) or weights for all of them (orders=3,mail=1)")
    return {name: int(weight) for name, weight in weights.items()}
