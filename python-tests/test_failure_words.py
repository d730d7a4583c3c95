"""A failure is found from the log alone, without the job's data; with the job all is kept."""

from __future__ import annotations

import logging
import logging.config
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, Literal

import duly
import pytest
from support import Server, StartProgram, running, until


def fail_with(
    handler: Any,
    client: duly.Client,
    log_errors: Literal["location", "full"] = "location",
    *,
    result_ttl: float | None = None,
    middleware: tuple[duly.Middleware, ...] = (),
) -> tuple[str, str]:
    """Give the job's id and the error that is kept with it."""
    worker = duly.Worker(client, ["q"], log_errors=log_errors, middleware=middleware)
    worker.on("close", handler)
    queue = client.queue("q")
    job_id = queue.push("secret data", name="close", max_retries=0, result_ttl=result_ttl)
    with running(worker):
        until(lambda: queue.counts().failed == 1, "it did not fail")
    found = queue.find(job_id)
    assert found is not None
    return job_id, found.error


def line_of(caplog: pytest.LogCaptureFixture, job_id: str) -> str:
    (record,) = [record for record in caplog.records if job_id in record.message and record.name == "duly.worker"]
    return record.getMessage()


def raise_in_a_library(job: duly.Job) -> None:
    textwrap.fill(job.data, width=-1)  # MY LINE


def test_the_users_own_line_is_named_before_that_of_a_library(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    job_id, error = fail_with(raise_in_a_library, client)
    own = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "# MY LINE" in line)
    line = line_of(caplog, job_id)
    assert f"job {job_id} (close, attempt 1) of queue q failed for good: ValueError at {__file__}:{own}" in line
    assert re.search(r"in raise_in_a_library \(raised at .*textwrap\.py:\d+ in _wrap_chunks\)$", line)
    assert "invalid width" not in line
    assert error.startswith("ValueError: invalid width")


class Before(duly.Middleware):
    """A worker with hooks calls handlers in another way."""

    def before(self, job: duly.Job) -> None: ...


def ask_an_empty_iterator(_job: duly.Job) -> None:
    next(iter([]))  # AN EMPTY ONE


@pytest.mark.parametrize("middleware", [(), (Before(),)])
def test_an_iterator_without_a_next_one_is_named(
    client: duly.Client, caplog: pytest.LogCaptureFixture, middleware: tuple[duly.Middleware, ...]
) -> None:
    job_id, error = fail_with(ask_an_empty_iterator, client, middleware=middleware)
    own = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "# AN EMPTY ONE" in line)
    assert f"failed for good: StopIteration at {__file__}:{own}" in line_of(caplog, job_id)
    assert error.startswith("StopIteration\n")


@pytest.mark.parametrize("package", ["shop", "dulyshop"])
@pytest.mark.parametrize("kind", ["handler", "task"])
def test_the_own_line_of_an_app_that_pip_installed_beside_duly_is_named(
    package: str, kind: str, program: StartProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    (site / package).mkdir(parents=True)
    (site / "duly").symlink_to(Path(duly.__file__).parent)
    jobs = site / package / "jobs.py"
    jobs.write_text("import json\ndef close(text): json.loads(text)\ndef handle(job): close(job.data)\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    worker = program(f"""
        import functools
        from {package} import jobs
        app = duly.App(URL, prefix=PREFIX, queue="q")
        close = app.task("close", max_retries=0)(jobs.close)
        worker = app.worker(max_jobs=1)
        if "{kind}" == "handler":
            worker = duly.Worker(app.client, ["q"], max_jobs=1)
            worker.on("close", functools.partial(jobs.handle))
            app.queue().push("bad", name="close", max_retries=0)
        else:
            close.push("bad")
        worker.run()
    """)
    status, _, err = worker.end()
    assert status == 0, err
    assert re.search(rf"failed for good: JSONDecodeError at {jobs}:2 in close \(raised at .*decoder\.py:", err), err


def load() -> None:
    try:
        raise KeyError("secret key")
    except KeyError as error:
        raise LookupError("secret lookup") from error


def test_causes_are_kept_and_logged(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    def handle(_job: duly.Job) -> None:
        try:
            load()
        except LookupError:
            raise ValueError("secret value")  # noqa: B904 - implicitly chained, as it happens

    job_id, error = fail_with(handle, client)
    line = line_of(caplog, job_id)
    where = rf"{re.escape(__file__)}:\d+ in"
    causes = rf"while handling LookupError at {where} load, caused by KeyError at {where} load$"
    assert re.search(rf"ValueError at {where} handle, {causes}", line)
    assert "secret" not in line
    said = [one for one in error.splitlines() if not one.startswith("  at ")]
    assert said == [
        "ValueError: secret value",
        "while handling LookupError: secret lookup",
        "caused by KeyError: 'secret key'",
    ]
    assert error.count("  at ") >= 3


def test_an_outcome_keeps_its_cause(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    def handle(_job: duly.Job) -> None:
        raise duly.Fail("the bank refuses") from ValueError("secret")

    job_id, error = fail_with(handle, client)
    assert error.splitlines()[0] == "the bank refuses"
    assert "caused by ValueError: secret" in error
    assert "caused by ValueError" in line_of(caplog, job_id)
    assert "secret" not in caplog.text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups")
def test_members_of_a_group_are_kept_and_logged(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    group: Any = vars(__import__("builtins"))["ExceptionGroup"]

    async def handle(_job: duly.Job) -> None:
        raise group("secret group", [ValueError("secret 1"), group("x", [KeyError("secret 2")])])

    job_id, error = fail_with(handle, client)
    line = line_of(caplog, job_id)
    assert "ExceptionGroup of ValueError; ExceptionGroup of KeyError at " in line
    assert "secret" not in line
    assert "1 of 2: ValueError: secret 1" in error
    assert "1 of 1: KeyError: 'secret 2'" in error


def test_an_error_of_duly_says_more_than_its_class(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    other = client.queue("other")
    first = other.push(1, id="first")
    job_id, _ = fail_with(lambda _job: other.push(1, id=first), client)
    line = line_of(caplog, job_id)
    assert "DuplicateError (push on queue 'other'" in line
    assert f"at {__file__}:" in line


class ShopError(duly.InvalidArgumentError):
    """An error of the program."""


def test_what_a_programs_own_kind_of_dulys_errors_says_is_left_out(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(job: duly.Job) -> None:
        raise ShopError(f"no order for {job.data}")

    job_id, error = fail_with(handle, client)
    assert "no order for secret data" in error
    line = line_of(caplog, job_id)
    assert f"failed for good: ShopError at {__file__}:" in line
    assert "secret" not in line


def test_what_is_too_large_is_found_from_the_log(
    server: Server, prefix: str, client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    small = duly.Client(server.url, prefix=prefix, max_data_bytes=100)
    job_id, _ = fail_with(lambda _job: small.queue("other").push("x" * 1000), client)
    line = line_of(caplog, job_id)
    assert "TooLargeError (push on queue 'other'" in line
    assert f"at {__file__}:" in line


def compiled(source: str, filename: str, module: dict[str, Any]) -> Any:
    """Give the function `f` of a module whose lines have the path of its source where it was built, as Cython's do."""
    exec(compile(source, filename, "exec"), module)
    return module["f"]


def test_the_own_line_is_found_beside_compiled_libraries(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    site = str(Path(pytest.__file__).parent / "fast.so")
    library = compiled("def f():\n    raise ValueError('x')\n", "fast/fast.pyx", {"__name__": "fast", "__file__": site})
    own = compiled("def f(g):\n    g()\n", "shop/jobs.pyx", {"__name__": "shop", "__file__": "/app/shop/jobs.so"})
    job_id, _ = fail_with(lambda _job: own(library), client)
    assert "ValueError at shop/jobs.pyx:2 in f (raised at fast/fast.pyx:2 in f)" in line_of(caplog, job_id)


def test_what_an_error_of_duly_says_of_data_is_left_out(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    job_id, error = fail_with(lambda job: {job.data: {1}}, client, result_ttl=60)
    assert "secret data" in error  # the path of what is no JSON
    line = line_of(caplog, job_id)
    assert "InvalidArgumentError (invalid_argument" in line
    assert "secret" not in line


def test_a_plain_result_that_is_no_json_is_named(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    job_id, _ = fail_with(lambda _job: {1}, client, result_ttl=60)
    assert "InvalidArgumentError (result is of type set, which JSON does not have" in line_of(caplog, job_id)


def test_who_asks_for_it_has_messages_and_places_in_the_log(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    job_id, error = fail_with(raise_in_a_library, client, "full")
    assert line_of(caplog, job_id).endswith(error)
    assert "ValueError: invalid width" in error
    assert re.search(r"  at .*textwrap\.py:\d+ in fill\n  at .* in raise_in_a_library$", error)


def test_a_deep_recursion_does_not_crowd_out_its_cause(client: duly.Client) -> None:
    def deeper(number: int) -> None:
        if number == 0:
            raise ValueError("deep")
        deeper(number - 1)

    def handle(_job: duly.Job) -> None:
        try:
            deeper(200)
        except ValueError as error:
            raise LookupError("outer") from error

    _, error = fail_with(handle, client)
    assert "caused by ValueError: deep" in error
    assert re.search(r"  and \d+ more$", error)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups")
def test_a_member_of_a_group_that_is_raised_while_the_group_is_handled_keeps_its_words(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    group_of: Any = vars(__import__("builtins"))["ExceptionGroup"]

    def handle(_job: duly.Job) -> None:
        try:
            raise group_of("two", [ValueError("declined"), KeyError("k")])
        except group_of as group:
            raise group.exceptions[0]  # noqa: B904 - as it is often written

    job_id, error = fail_with(handle, client)
    assert error.startswith("ValueError: declined\n")
    assert "while handling ExceptionGroup: two (2 sub-exceptions)" in error
    assert "2 of 2: KeyError: 'k'" in error
    line = line_of(caplog, job_id)
    assert "failed for good: ValueError at " in line
    assert "while handling ExceptionGroup of KeyError; and 1 more at " in line


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups")
def test_groups_without_end_are_told_in_part(client: duly.Client, caplog: pytest.LogCaptureFixture) -> None:
    group: Any = vars(__import__("builtins"))["ExceptionGroup"]

    def deep(_job: duly.Job) -> None:
        error: Exception = ValueError("innermost")
        for _ in range(3000):
            error = group("one", [error])
        raise error

    def wide(_job: duly.Job) -> None:
        error: Exception = ValueError("innermost")
        for _ in range(30):
            error = group("one", [error, error])
        raise error

    for handle in (deep, wide):
        job_id, error = fail_with(handle, client)
        assert error.startswith("ExceptionGroup: one (")
        assert len(error) < 20_000
        assert len(line_of(caplog, job_id)) < 5000
        client.queue("q").purge("failed")


def test_a_config_that_switches_off_other_loggers_does_not_silence_a_worker(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("duly.worker").disabled = True
    job_id, _ = fail_with(raise_in_a_library, client)
    assert line_of(caplog, job_id)


def test_a_job_that_configures_logging_does_not_silence_its_worker(
    client: duly.Client, caplog: pytest.LogCaptureFixture
) -> None:
    def configure(_job: duly.Job) -> None:
        logging.config.dictConfig({"version": 1})  # as `django.setup()` does
        assert logging.getLogger("duly.worker").disabled
        raise ValueError("it has failed, too")

    job_id, _ = fail_with(configure, client)
    assert "ValueError at " in line_of(caplog, job_id)
