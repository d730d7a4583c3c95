//! Handlers that settle their job with its own verbs, and work on: the engine has nothing to add.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{self, Server};
use duly::worker::{
    Ended, Engine, Executor, Interruption, Job, Run, Worker, WorkerEvent, WorkerReport, WorkerSettings,
};
use duly::{ErrorKind, NewJob, Queue};
use tokio::sync::Notify;

const A_WHILE: Duration = Duration::from_secs(60);

/// A worker with two executors, whose runs the test makes.
struct Working {
    _server: Server,
    queue: Queue,
    engine: Engine,
    executors: [Executor; 2],
}

impl Working {
    fn new() -> Self {
        let server = Server::start();
        let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        (settings.concurrency, settings.lease) = (2, Duration::from_secs(1));
        let engine = Engine::start(&server.client(), settings).unwrap();
        let executors = [engine.executor(), engine.executor()];
        Self { queue: server.queue("orders"), _server: server, engine, executors }
    }

    async fn run(&self, executor: usize, job: NewJob) -> Run {
        self.queue.push(job).await.unwrap();
        tokio::time::timeout(A_WHILE, self.executors[executor].next()).await.expect("a run").unwrap()
    }

    async fn interrupted(&self, run: &Run) -> Interruption {
        tokio::time::timeout(A_WHILE, self.executors[0].interrupted(run)).await.expect("it is interrupted")
    }

    async fn until_renewed(&self, run: &Run) {
        let lease_end = async || self.queue.find(run.job.id()).await.unwrap().unwrap().job.at;
        let before = lease_end().await;
        support::eventually("its lease is renewed", || async { lease_end().await != before }).await;
    }

    /// What became of it all, and what was reported.
    async fn end(self) -> (WorkerReport, Vec<WorkerEvent>) {
        self.engine.stop();
        let report = tokio::time::timeout(A_WHILE, self.engine.ended()).await.expect("it ends").unwrap();
        (report, std::iter::from_fn(|| self.engine.event_within(Duration::ZERO)).collect())
    }
}

fn job(data: u8) -> NewJob {
    NewJob::new(&data).unwrap().max_retries(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn its_lease_is_over_but_not_lost() {
    let it = Working::new();
    let (settled, other) = (it.run(0, job(1)).await, it.run(1, job(2)).await);
    settled.job.ack().await.unwrap();
    it.until_renewed(&other).await;
    it.until_renewed(&other).await;
    assert_eq!(it.executors[0].was_interrupted(&settled), None);
    assert_eq!(it.executors[0].finish(&settled, Ended::failed("too late")).unwrap(), None);
    assert!(it.executors[1].finish(&other, Ended::DONE).unwrap().is_some());
    let (report, events) = it.end().await;
    assert_eq!((report.acked, report.failed, report.lost), (1, 0, 0));
    assert!(events.is_empty(), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_its_run_and_changes_nothing() {
    let it = Working::new();
    let run = it.run(0, job(1).timeout(Duration::from_secs(1))).await;
    run.job.release(A_WHILE).await.unwrap();
    assert_eq!(it.interrupted(&run).await, Interruption::TimedOut);
    it.executors[0].finish(&run, Ended::SettledByHandler).unwrap();
    let counts = it.queue.counts().await.unwrap();
    assert_eq!((counts.delayed, counts.failed), (1, 0));
    let (report, events) = it.end().await;
    assert_eq!((report.failed, report.released, report.lost), (0, 0, 0));
    let [WorkerEvent::Interrupted { was_settled: true, .. }] = events[..] else { panic!("{events:?}") };
    assert!(events[0].to_string().contains("but what becomes of the job was decided before"), "{}", events[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verb_that_is_refused_ends_the_run_without_an_outcome() {
    let it = Working::new();
    let run = it.run(0, job(1)).await;
    it.queue.cancel(run.job.id()).await.unwrap().expect("it is there");
    assert_eq!(run.job.ack().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert!(!run.job.is_settled());
    assert_eq!(it.executors[0].was_interrupted(&run), Some(Interruption::LeaseLost));
    assert_eq!(it.executors[0].finish(&run, Ended::failed("the ack was refused")).unwrap(), None);
    let (report, events) = it.end().await;
    assert_eq!((report.failed, report.lost), (0, 1));
    let reported = events.iter().filter(|event| matches!(event, WorkerEvent::LeaseLost { .. }));
    let interrupted = events.iter().filter(|event| matches!(event, WorkerEvent::Interrupted { .. }));
    assert_eq!(reported.count() + interrupted.count(), 1, "once, by whoever saw it first: {events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_learned_at_the_very_end_is_told_too() {
    let server = Server::start();
    let queue = server.queue("orders");
    for round in 0..10 {
        queue.push(job(round)).await.unwrap();
        let (reported, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let (counts, of_queue, stops) = (Arc::clone(&reported), queue.clone(), Arc::clone(&stop));
        let worker = Worker::builder(server.client())
            .queue("orders", 1)
            .any_handler(move |job: Job<u8>, _| {
                let (queue, stop) = (of_queue.clone(), Arc::clone(&stops));
                async move {
                    queue.cancel(job.id()).await?;
                    stop.notify_one();
                    Ok::<_, duly::Error>(())
                }
            })
            .on_event(move |event| {
                if matches!(event, WorkerEvent::LeaseLost { .. }) {
                    counts.fetch_add(1, Ordering::SeqCst);
                }
            });
        let report = worker.build().unwrap().run_until(stop.notified()).await.unwrap();
        assert_eq!((report.lost, reported.load(Ordering::SeqCst)), (1, 1), "round {round}");
    }
}
