//! The trace of whoever pushed a job goes on in its handler. Needs the feature `opentelemetry`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::Server;
use duly::worker::{Context, Failure, Job, Worker};
use duly::{NewJob, Queue, State};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::Value;
use tokio::sync::Notify;
use tracing::Instrument;
use tracing::subscriber::DefaultGuard;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

/// What this thread's spans export; the tests run on one thread each.
fn spans() -> (InMemorySpanExporter, SdkTracerProvider, DefaultGuard) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let guard = crate::listen(tracing_subscriber::registry().with(layer));
    (exporter, provider, guard)
}

async fn headers(queue: &Queue) -> Vec<BTreeMap<String, String>> {
    let views = queue.peek(State::Ready, 0, 100).await.unwrap();
    views.into_iter().map(|view| view.envelope.headers).collect()
}

fn traceparent(context: &SpanContext) -> String {
    format!("00-{:032x}-{:016x}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags().to_u8())
}

fn one(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

#[tokio::test]
async fn push_adds_the_current_span_unless_a_trace_is_given() {
    let server = Server::start();
    let queue = server.queue("q");
    let _spans = spans();
    let given = format!("00-{}-{}-01", "1".repeat(32), "2".repeat(16));
    let producer = tracing::info_span!("producer");
    let ours = traceparent(producer.context().span().span_context());
    async {
        queue.push(NewJob::new(&1).unwrap()).await.unwrap();
        queue.push(NewJob::new(&2).unwrap().header("mine", "kept")).await.unwrap();
        queue.push(NewJob::new(&3).unwrap().header("traceparent", &given)).await.unwrap();
        queue.push_batch(vec![NewJob::new(&4).unwrap()]).await.unwrap();
    }
    .instrument(producer)
    .await;
    queue.push(NewJob::new(&5).unwrap()).await.unwrap();
    let mut with_mine = one("traceparent", &ours);
    with_mine.insert("mine".to_owned(), "kept".to_owned());
    assert_eq!(
        headers(&queue).await,
        [
            one("traceparent", &ours),
            with_mine,
            one("traceparent", &given),
            one("traceparent", &ours),
            BTreeMap::default()
        ]
    );
}

#[tokio::test]
async fn push_adds_a_span_of_opentelemetry_without_tracing_and_its_state() {
    let server = Server::start();
    let queue = server.queue("q");
    let state = TraceState::from_key_value([("vendor", "value")]).unwrap();
    let producer = SpanContext::new(TraceId::from(7), SpanId::from(8), TraceFlags::SAMPLED, true, state);
    {
        let context = opentelemetry::Context::new().with_remote_span_context(producer.clone());
        let _active = context.attach();
        queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    }
    let mut expected = one("traceparent", &traceparent(&producer));
    expected.insert("tracestate".to_owned(), "vendor=value".to_owned());
    assert_eq!(headers(&queue).await, [expected]);
}

#[tokio::test]
async fn a_worker_continues_the_trace() {
    let server = Server::start();
    let queue = server.queue("q");
    let (exporter, _provider, _guard) = spans();
    let producer = tracing::info_span!("producer");
    let parent = producer.context().span().span_context().clone();
    let mut ids = Vec::new();
    for data in ["works", "fails", "gives back"] {
        let job = NewJob::new(&data).unwrap().name("handle").max_retries(0);
        ids.push(queue.push(job).instrument(producer.clone()).await.unwrap().id().to_owned());
    }

    let ended = Arc::new(Notify::new());
    let last = Arc::clone(&ended);
    let worker = Worker::builder(server.client())
        .queue("q", 1)
        .handler("handle", move |job: Job<Value>, _: Context| {
            let last = Arc::clone(&last);
            async move {
                let inner = tracing::info_span!("inner").in_scope(|| tracing::Span::current().context());
                assert!(inner.has_active_span());
                match job.data.as_str() {
                    Some("fails") => Err(Failure::from("no")),
                    Some("gives back") => {
                        last.notify_one();
                        Err(Failure::release_after(std::time::Duration::from_secs(3600)))
                    }
                    _ => Ok(()),
                }
            }
        })
        .build()
        .unwrap();
    let report = worker.run_until(ended.notified()).await.unwrap();
    assert_eq!((report.acked, report.failed, report.released), (1, 1, 1));

    let finished = exporter.get_finished_spans().unwrap();
    let runs: Vec<&SpanData> = finished.iter().filter(|span| span.name == "process q").collect();
    assert_eq!(runs.len(), 3);
    for (run, id) in runs.iter().zip(&ids) {
        assert_eq!(run.span_kind, SpanKind::Consumer);
        assert_eq!((run.span_context.trace_id(), run.parent_span_id), (parent.trace_id(), parent.span_id()));
        let said = |key: &str| {
            run.attributes.iter().find(|pair| pair.key.as_str() == key).map(|pair| pair.value.as_str().into_owned())
        };
        for (key, value) in [
            ("messaging.system", "duly"),
            ("messaging.destination.name", "q"),
            ("messaging.operation.name", "process"),
            ("messaging.operation.type", "process"),
            ("messaging.message.id", id),
            ("duly.job.name", "handle"),
            ("duly.job.attempt", "1"),
        ] {
            assert_eq!(said(key).as_deref(), Some(value), "{key}");
        }
    }
    let failed = |run: &SpanData| {
        let kind = run.attributes.iter().find(|pair| pair.key.as_str() == "error.type");
        (matches!(run.status, Status::Error { .. }), kind.map(|pair| pair.value.to_string()))
    };
    assert_eq!(failed(runs[0]), (false, None));
    assert_eq!(failed(runs[1]), (true, Some("_OTHER".to_owned())));
    assert_eq!(failed(runs[2]), (false, None));
    let inner = finished.iter().find(|span| span.name == "inner").unwrap();
    assert_eq!(inner.span_context.trace_id(), parent.trace_id());
}
