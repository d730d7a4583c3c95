//! What a worker logs says which job it is about, and never what that holds.

use std::error::Error;
use std::fmt::{self, Debug, Display, Formatter, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{self, Server};
use duly::worker::{Context, Failure, Job, LogErrors, Worker, WorkerEvent};
use duly::{Millis, NewJob, Outcome, State};
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
    Box::pin(worker.run_until(both)).await.unwrap();
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

/// An error with a cause, as they come from layers of a program.
#[derive(Debug)]
struct Cause(&'static str, Option<Box<Cause>>);

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.1.as_deref()?)
    }
}

fn close() -> Result<(), Cause> {
    let refused = Cause("secret: refused", None);
    let charge = Cause("cannot charge", Some(Box::new(refused)));
    Err(Cause("cannot close", Some(Box::new(charge))))
}

async fn failing(job: Job<String>, _: Context) -> Result<(), Failure> {
    match &*job.data {
        "passes on" => close()?,
        "says" => return Err(Failure::fail_now("secret")),
        "panics" => panic!("secret"),
        "fails itself" => {
            job.fail("secret").await?;
        }
        "retries itself" => {
            let outcome = Outcome::Retry { after: Some(Millis::from_secs(60)), counted: false };
            job.settle(outcome, "secret").await?;
        }
        _ => {
            job.ack().await?;
            close()?;
        }
    }
    Ok(())
}

/// The lines that a worker logs of these jobs, and the errors that were stored.
async fn failures(pushed: &[&str], log_errors: LogErrors) -> (Vec<String>, Vec<String>) {
    let lines = Lines::default();
    let _guard = crate::listen(tracing_subscriber::registry().with(lines.clone().with_filter(LevelFilter::WARN)));
    let server = Server::start();
    let queue = server.queue("orders");
    for data in pushed {
        let name = if matches!(*data, "plain" | "misfit" | "unknown") { data } else { "any" };
        queue.push(NewJob::new(data).unwrap().name(name).max_retries(0)).await.unwrap();
    }
    let worker = Worker::builder(server.client())
        .queue("orders", 1)
        .log_errors(log_errors)
        .handler("any", failing)
        .handler("misfit", |_: Job<Vec<u8>>, _: Context| async { Ok::<(), Failure>(()) })
        .handler("plain", |_: Job<String>, _: Context| async { close() });
    // Of a job that its handler sends to `failed` a worker hears as of one that failed elsewhere.
    let lines_of = |data: &&str| 1 + usize::from(*data == "fails itself");
    let most: usize = pushed.iter().map(lines_of).sum();
    let all = support::eventually("all failed", || async { lines.all().len() == most });
    worker.run_until(all).await.unwrap();
    let failed = queue.peek(State::Failed, 0, 10).await.unwrap();
    (lines.all(), failed.into_iter().map(|view| view.envelope.error).collect())
}

#[tokio::test]
async fn a_failure_is_found_from_the_log_alone() {
    let (lines, errors) =
        failures(&["passes on", "says", "panics", "acks", "plain", "misfit", "unknown"], LogErrors::Location).await;
    let own = |text: &str| {
        let line = include_str!("log.rs").lines().position(|line| line.contains(text)).unwrap() + 1;
        format!("location=\"core/tests/worker/log.rs:{line}:")
    };
    let close = "error_type=\"worker::log::Cause\"";
    for (line, found) in lines.iter().zip([
        [close, &own("=> close()?,")],
        ["failed", &own("Failure::fail_now(")],
        ["error_type=\"panic\"", &own("=> panic!(")],
        [close, &own(" close()?;")],
        [close, "name=\"plain\""],
        ["name=\"misfit\"", "the data does not fit alloc::vec::Vec<u8>"],
        ["name=\"unknown\"", "no handler for the name 'unknown'"],
    ]) {
        assert!(found.iter().all(|word| line.contains(word)), "{found:?}: {line}");
        assert!(!line.contains("secret"), "{line}");
    }
    assert!(!lines[4].contains("location="), "nobody knows where it was made: {}", lines[4]);
    let causes = "cannot close: cannot charge: secret: refused";
    assert_eq!(errors[..4], [causes, "secret", "panicked: secret", causes], "the oldest first");
}

#[tokio::test]
async fn a_failure_that_its_handler_set_is_logged() {
    let (lines, _) = failures(&["fails itself", "retries itself"], LogErrors::Location).await;
    let said: Vec<_> = lines.iter().filter(|line| line.contains("its handler said so")).collect();
    assert!(said[0].contains("failed for good") && said[1].contains("failed; it runs again in 60 s"), "{lines:?}");
    assert!(said.len() == 2 && !lines.iter().any(|line| line.contains("secret")), "{lines:?}");
}

#[tokio::test]
async fn the_log_has_the_messages_of_errors_if_it_is_asked_for_them() {
    let (lines, _) = failures(&["passes on", "panics"], LogErrors::Full).await;
    assert!(lines[0].contains("cannot close: cannot charge: secret: refused"), "{lines:?}");
    assert!(lines[1].contains("panicked: secret"), "{lines:?}");
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
