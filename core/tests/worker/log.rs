//! What a worker logs says which job it is about, and never what that holds.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{self, Server};
use duly::NewJob;
use duly::worker::{Context, Failure, Job, Worker, WorkerEvent};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context as Around, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Each event as one line: what it says, and the fields of the spans around it.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, around: Around<'_, S>) {
        let mut line = Line(String::new());
        attributes.record(&mut line);
        around.span(id).unwrap().extensions_mut().insert(line);
    }

    fn on_event(&self, event: &Event<'_>, around: Around<'_, S>) {
        if !event.metadata().target().starts_with("duly") {
            return;
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        for span in around.event_scope(event).into_iter().flatten() {
            line.0.push_str(&span.extensions().get::<Line>().unwrap().0);
        }
        self.0.lock().unwrap().push(line.0);
    }
}

#[tokio::test]
async fn warnings_name_the_job_and_never_its_data() {
    let lines = Lines::default();
    // A filter that hides what is only good to know must not hide what a warning is about.
    let subscriber = tracing_subscriber::registry().with(lines.clone().with_filter(LevelFilter::WARN));
    let _guard = crate::listen(subscriber);
    let server = Server::start();
    let queue = server.queue("orders");
    let push = |name: &str| NewJob::new(&"secret").unwrap().name(name).max_retries(0);
    let fails = queue.push(push("fails")).await.unwrap().id().to_owned();
    let long = queue.push(push("long").timeout(Duration::from_millis(30))).await.unwrap().id().to_owned();
    let worker = Worker::builder(server.client())
        .queue("orders", 1)
        .handler("fails", |job: Job<Value>, _: Context| async move { Err::<(), Failure>(job.data.to_string().into()) })
        .handler("long", |_: Job<Value>, _: Context| std::future::pending::<Result<(), Failure>>());
    let both = support::eventually("both failed", || async {
        queue.counts().await.unwrap().failed == 2 && lines.0.lock().unwrap().len() == 3
    });
    worker.run_until(both).await.unwrap();
    let lines = lines.0.lock().unwrap();
    assert_eq!(lines.len(), 3, "that its time is over, and that this was its last failure, are two lines: {lines:?}");
    for (line, (id, name)) in lines.iter().zip([(&fails, "fails"), (&long, "long"), (&long, "long")]) {
        for field in [format!("id=\"{id}\""), format!("name=\"{name}\""), "queue=\"orders\"".to_owned()] {
            assert!(line.contains(&field), "{field}: {line}");
        }
        assert!(line.contains("attempt=1"), "{line}");
        assert!(!line.contains("secret"), "{line}");
    }
}

#[tokio::test]
async fn a_worker_says_that_the_server_has_lost_its_data() {
    let server = Server::start();
    let queue = server.queue("orders");
    let lost = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&lost);
    let worker = Worker::builder(server.client())
        .queue("orders", 1)
        .queue("mail", 1)
        .handler("any", |_: Job<Value>, _: Context| async { Ok::<(), Failure>(()) })
        .on_event(move |event| {
            if let WorkerEvent::DataLost { queue } = event {
                noted.lock().unwrap().push(queue.clone());
            }
        });
    let all_done = async || {
        queue.push(NewJob::new(&1).unwrap().name("any")).await.unwrap();
        let is_acked = |(name, count): &(String, u64)| name == "acked" && *count > 0;
        support::eventually("it ran", || async { queue.counts().await.unwrap().totals.iter().any(is_acked) }).await;
    };
    let emptied = async {
        all_done().await;
        assert_eq!(*lost.lock().unwrap(), Vec::<String>::new());
        server.redis_cli(&["FLUSHALL"]);
        // Nobody pushes: it finds out where it looks for jobs.
        support::eventually("it says so", || async { lost.lock().unwrap().len() == 2 }).await;
        all_done().await;
    };
    Box::pin(worker.run_until(emptied)).await.unwrap();
    let mut lost = lost.lock().unwrap().clone();
    lost.sort();
    assert_eq!(lost, ["mail", "orders"]);
}
