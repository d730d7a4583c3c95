"""OpenTelemetry: the trace of whoever pushed a job goes on in its handler.

Imported only in programs that have imported OpenTelemetry themselves.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from duly._core import __version__
from duly.outcomes import Release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._core import Job

_w3c = TraceContextTextMapPropagator()


def headers() -> dict[str, str]:
    """Give `traceparent`, and `tracestate` if there is one, of the current span; nothing outside of one."""
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    return carrier


@contextmanager
def span(job: Job) -> Iterator[None]:
    """Run the job in a span that continues its producer's, with the attributes of the semantic conventions."""
    queue = job.queue.name
    about: dict[str, str | int] = {
        "messaging.system": "duly",
        "messaging.destination.name": queue,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": job.id,
        "duly.job.attempt": job.attempt,
    }
    if job.name is not None:
        about["duly.job.name"] = job.name
    with trace.get_tracer("duly", __version__).start_as_current_span(
        f"process {queue}",
        context=_w3c.extract(job.headers),
        kind=trace.SpanKind.CONSUMER,
        attributes=about,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield
        except Release:
            raise
        except BaseException as error:
            kind = type(error).__qualname__
            try:
                current.record_exception(error)
            except BaseException:  # noqa: BLE001 - code of an exception, which may do anything, but not take its place
                current.add_event("exception", {"exception.type": kind})
            current.set_attribute("error.type", kind)
            current.set_status(trace.Status(trace.StatusCode.ERROR))
            raise
