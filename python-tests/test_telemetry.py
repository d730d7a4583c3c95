"""The trace of whoever pushed a job goes on in its handler, in programs that use OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator

import duly
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support import StartProgram, empty, running, until

exporter = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter
    exporter.clear()


def test_push_adds_the_current_span_unless_a_trace_is_given(queue: duly.Queue) -> None:
    given = f"00-{'1' * 32}-{'2' * 16}-01"
    with trace.get_tracer("test").start_as_current_span("producer") as span:
        context = span.get_span_context()
        queue.push(1)
        queue.push(2, headers={"mine": "kept"})
        queue.push(3, headers={"traceparent": given})
        queue.push_many([duly.NewJob(4)])
    queue.push(5)
    traces = {view.data: view.headers for view in queue.peek("ready")}
    ours = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert traces == {
        1: {"traceparent": ours},
        2: {"traceparent": ours, "mine": "kept"},
        3: {"traceparent": given},
        4: {"traceparent": ours},
        5: {},
    }


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_a_worker_continues_the_trace(
    kind: str, client: duly.Client, queue: duly.Queue, spans: InMemorySpanExporter
) -> None:
    seen: list[int] = []
    worker = duly.Worker(client, ["q"])

    def handle(job: duly.Job) -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)
        if job.data == "fails":
            raise ValueError

    async def handle_async(job: duly.Job) -> None:
        handle(job)

    worker.on("handle", handle if kind == "thread" else handle_async)
    with trace.get_tracer("test").start_as_current_span("producer") as span:
        producer = span.get_span_context()
        works = queue.push("works", name="handle")
        queue.push("fails", name="handle", max_retries=0)
    with running(worker):
        until(lambda: empty(queue), "jobs are left")
    assert seen == [producer.trace_id] * 2
    worked, failed = (span for span in spans.get_finished_spans() if span.name == "process q")
    check(worked, producer)
    assert worked.status.status_code is trace.StatusCode.UNSET
    assert dict(worked.attributes or {}) == {
        "messaging.system": "duly",
        "messaging.destination.name": "q",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": works,
        "duly.job.name": "handle",
        "duly.job.attempt": 1,
    }
    check(failed, producer)
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "ValueError"


def test_an_exception_that_cannot_be_described_is_the_error_of_its_job_and_of_its_span(
    client: duly.Client, queue: duly.Queue, spans: InMemorySpanExporter
) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise SystemExit

    worker = duly.Worker(client, ["q"])

    @worker.on(None)
    def handle(_job: duly.Job) -> None:
        raise MuteError

    queue.push(1, max_retries=0)
    with running(worker):
        until(lambda: empty(queue), "the job stays")
    (view,) = queue.peek("failed")
    assert "MuteError" in view.error
    (span,) = (span for span in spans.get_finished_spans() if span.name == "process q")
    assert span.status.status_code is trace.StatusCode.ERROR
    assert str((span.attributes or {})["error.type"]).endswith("MuteError")


def check(span: ReadableSpan, producer: trace.SpanContext) -> None:
    assert span.kind is trace.SpanKind.CONSUMER
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (producer.trace_id, producer.span_id)


def test_it_is_not_imported_by_duly(program: StartProgram) -> None:
    code = """
    import sys
    queue = duly.Client(URL, prefix=PREFIX).queue("q")
    queue.push(1)
    worker = duly.Worker(duly.Client(URL, prefix=PREFIX), ["q"])
    worker.on(None, lambda job: worker.stop())
    assert worker.run().acked == 1
    print([name for name in sys.modules if name.startswith("opentelemetry")])
    """
    assert program(code).ends_well() == "[]\n"


def test_jobs_are_pushed_though_opentelemetry_is_broken(program: StartProgram) -> None:
    code = """
        import logging, sys
        from unittest.mock import MagicMock
        logging.basicConfig()
        sys.modules["opentelemetry"] = sys.modules["opentelemetry.trace"] = MagicMock()
        queue = duly.Client(URL, prefix=PREFIX).queue("q")
        for number in range(3):
            queue.push(number)
        print(queue.counts().ready)
    """
    status, out, err = program(code).end()
    assert (status, out) == (0, "3\n"), err
    assert err.count("OpenTelemetry gives no trace") == 1
