from __future__ import annotations

import pickle
import re
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import duly
import pytest
from duly.errors import BY_KIND
from support import Server

ROOT = Path(__file__).resolve().parent.parent


def test_every_exception_is_a_duly_error_and_has_its_natural_parent() -> None:
    parents = {
        duly.InvalidArgumentError: ValueError,
        duly.WrongServerError: duly.InvalidArgumentError,
        duly.TooLargeError: ValueError,
        duly.NotFoundError: LookupError,
        duly.UnreachableError: ConnectionError,
        duly.DulyTimeoutError: TimeoutError,
        duly.AuthenticationFailedError: PermissionError,
        duly.PermissionDeniedError: PermissionError,
        duly.DulyInterruptedError: InterruptedError,
        duly.InternalError: RuntimeError,
    }
    for error in BY_KIND.values():
        assert issubclass(error, duly.DulyError)
        assert issubclass(error, parents.get(error, Exception))
        assert getattr(duly, error.__name__) is error
        assert str(error("what it says")) == "what it says"


def test_every_kind_of_the_core_has_its_class_in_both_languages() -> None:
    core = (ROOT / "core/src/value/error.rs").read_text()
    kinds = dict(re.findall(r'Self::(\w+) => "(\w+)"', core))
    assert len(kinds) > 20
    assert set(BY_KIND) == set(kinds.values())
    of_php = (ROOT / "php-binding/shared/src/error.rs").read_text()
    assert set(re.findall(r"\(ErrorKind::(\w+), \"", of_php)) == set(kinds)
    documented = (ROOT / "docs/errors.md").read_text()
    assert [kind for kind in kinds.values() if f"`{kind}`" not in documented] == []


def test_an_error_survives_pickling() -> None:
    error = duly.DuplicateError("taken", kind="duplicate", transient=False, operation="push", queue="q", job_id="a")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is duly.DuplicateError
    assert (str(copy), copy.operation, copy.queue, copy.job_id) == ("taken", "push", "q", "a")


def test_a_duplicate_names_the_job_that_is_there(queue: duly.Queue) -> None:
    first = queue.push(1, key="k")
    with pytest.raises(duly.DuplicateError) as caught:
        queue.push(2, key="k")
    assert caught.value.job_id == first
    assert (caught.value.kind, caught.value.transient, caught.value.operation) == ("duplicate", False, "push")
    assert queue.push(2, key="k", on_duplicate="keep") == first
    assert queue.push(2, key="k", on_duplicate="replace") != first


def test_a_job_in_another_state_is_kept_and_the_error_has_the_state(queue: duly.Queue) -> None:
    job_id = queue.push(1, key="k")
    for only in ("delayed", ["delayed", "failed"], ("reserved",), {"failed"}):
        with pytest.raises(duly.NotFoundError) as caught:
            queue.cancel(key="k", only=only)  # type: ignore[arg-type] # mypy widens the words of the list
        assert (caught.value.job_id, caught.value.job_state) == (job_id, "ready")
        assert pickle.loads(pickle.dumps(caught.value)).job_state == "ready"
    with pytest.raises(duly.InvalidArgumentError, match="a state is delayed, ready, reserved or failed"):
        queue.cancel(job_id, only="waiting")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="only must be a state or a list of states, not int"):
        queue.cancel(job_id, only=5)  # type: ignore[arg-type]
    cancelled = queue.cancel(job_id, only=iter(["delayed", "ready"]))  # type: ignore[arg-type]
    assert cancelled is not None
    assert queue.cancel(job_id, only="ready") is None


def test_a_late_ack_is_refused(queue: duly.Queue) -> None:
    job_id = queue.push(1)
    job = queue.reserve()
    assert job is not None
    cancelled = queue.cancel(job_id)
    assert cancelled is not None
    assert (cancelled.id, cancelled.was) == (job_id, "reserved")
    with pytest.raises(duly.LeaseLostError) as caught:
        job.ack()
    assert (caught.value.job_id, caught.value.queue, caught.value.operation) == (job_id, "q", "ack")
    assert not job.settled


def test_an_outage_is_transient_and_has_its_cause(own_server: Server) -> None:
    own_server.kill()
    client = duly.Client(own_server.url, deadline=0.3, connect_timeout=0.2)
    with pytest.raises(duly.UnreachableError) as caught:
        client.queue("q").push(1)
    assert caught.value.transient
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "http://x"},
        {"url": "nonsense"},
        {"prefix": "{"},
        {"connect_timeout": 0},
        {"command_timeout": -1},
        {"deadline": True},
        {"durability": "sometimes"},
        {"durability": "wait:0"},
        {"client_cert_file": "/x"},
    ],
)
def test_wrong_settings_are_refused_when_the_client_is_made(settings: dict[str, object]) -> None:
    with pytest.raises(duly.InvalidArgumentError):
        duly.Client(**{"url": "redis://localhost", **settings})  # type: ignore[arg-type]


def test_a_password_is_never_shown() -> None:
    client = duly.Client("redis://user:secret@127.0.0.1:1", deadline=0.2, connect_timeout=0.2)
    with pytest.raises(duly.DulyError) as caught:
        client.ping()
    assert "secret" not in repr(caught.value) + repr(caught.value.__cause__) + repr(client)


@pytest.mark.parametrize(
    "wrong",
    [{"dead_line": 2}, {"deadline": "soon"}, {"queue": "a queue"}, {"middleware": [5]}, {"url": "redis://:secret@"}],
)
def test_a_report_with_local_variables_does_not_show_the_password_of_an_app(wrong: dict[str, Any]) -> None:
    with pytest.raises((duly.InvalidArgumentError, TypeError)) as caught:
        duly.App(**{"url": "redis://shop:secret@127.0.0.1", "password": "secret", **wrong})
    assert caught.value.__traceback__ is not None
    own = caught.value.__traceback__.tb_next  # the frame of this test has the password, of course
    report = traceback.TracebackException(caught.type, caught.value, own, capture_locals=True)
    text = "".join(report.format())
    assert "self = <duly.App with the tasks (none)>" in text
    assert "secret" not in text


@pytest.mark.parametrize("arguments", [{}, {"id": "a", "key": "b"}])
def test_a_job_is_named_by_id_or_by_key(queue: duly.Queue, arguments: dict[str, str]) -> None:
    for verb in (queue.cancel, queue.find):
        with pytest.raises(duly.InvalidArgumentError):
            verb(**arguments)  # type: ignore[arg-type] # mypy thinks that a text may be any argument
    with pytest.raises(duly.InvalidArgumentError):
        queue.reschedule(**arguments, delay=1)  # type: ignore[arg-type]
    with pytest.raises(duly.InvalidArgumentError):
        queue.reschedule("a")


def test_durability_is_a_word_at_the_client_and_at_each_push(server: Server, prefix: str) -> None:
    client = duly.Client(server.url, prefix=prefix, durability="wait:1", command_timeout=1)
    queue = client.queue("q")
    with pytest.raises(duly.NotDurableError):
        queue.push(1, id="a")
    assert queue.push(2, durability="none")
    assert queue.push_many([duly.NewJob(3), duly.NewJob(4)], durability="none").created == 2
    with pytest.raises(duly.NotDurableError):
        queue.push_many([duly.NewJob(5, durability="wait:1")], durability="none")
    assert queue.counts().ready == 5
    for call in (lambda: queue.push(1, durability="disk"), lambda: queue.push_many([], durability="wait:0")):
        with pytest.raises(duly.InvalidArgumentError, match="wait:<n>"):
            call()


def test_a_confirmation_is_awaited_no_longer_than_the_deadline(server: Server, prefix: str) -> None:
    queue = duly.Client(server.url, prefix=prefix, durability="wait:1", deadline=1).queue("q")
    started = time.monotonic()
    with pytest.raises(duly.NotDurableError):
        queue.push(1)
    assert time.monotonic() - started < 12


def test_a_lease_has_the_bounds_of_a_lease(queue: duly.Queue) -> None:
    for lease in (1e12, 0, -1, timedelta(hours=25)):
        with pytest.raises(duly.InvalidArgumentError, match="24 h"):
            queue.reserve(lease=lease)
