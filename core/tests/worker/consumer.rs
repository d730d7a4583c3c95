//! A consumer, whose owner pulls jobs, runs them as it likes, and settles them in any order.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{self, Server};
use duly::worker::{
    Consumer, Delivery, Failure, Interruption, Job, Middleware, Worker, WorkerEvent, WorkerReport, WorkerSettings,
};
use duly::{Client, ErrorKind, Millis, NewJob, Next, Outcome, Queue, ReserveOptions, RetryPolicy, State};
use tokio::sync::Notify;

const A_WHILE: Duration = Duration::from_secs(60);
const AT_ONCE: Duration = Duration::ZERO;
/// How long the one look at the queues of who does not wait may take.
const LOOK: Duration = Duration::from_secs(1);
const AGAIN: RetryPolicy = RetryPolicy::Fixed { delay: Millis::ZERO };

fn settings(concurrency: usize) -> WorkerSettings {
    let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    (settings.concurrency, settings.lease) = (concurrency, Duration::from_secs(1));
    settings
}

fn with(change: impl FnOnce(&mut WorkerSettings)) -> WorkerSettings {
    let mut settings = settings(1);
    change(&mut settings);
    settings
}

struct Pulling {
    server: Server,
    queue: Queue,
    consumer: Consumer,
}

impl Pulling {
    fn new(settings: WorkerSettings) -> Self {
        let server = Server::start();
        let consumer = Consumer::start(&server.client(), settings).unwrap();
        Self { queue: server.queue("orders"), server, consumer }
    }

    async fn push(&self, count: usize) -> Vec<String> {
        let jobs = (0..count).map(|n| NewJob::new(&n).unwrap().retry(AGAIN));
        let pushed = self.queue.push_batch(jobs.collect()).await.unwrap();
        pushed.iter().map(|one| one.id().to_owned()).collect()
    }

    async fn next(&self) -> Delivery {
        self.consumer.next(A_WHILE).await.unwrap().expect("a job")
    }

    /// Without a wait. Whoever asks a machine that is busy for longer than one look may take asks again.
    fn next_at_once(&self) -> Option<Delivery> {
        loop {
            let began = Instant::now();
            let delivery = tokio::task::block_in_place(|| self.consumer.next_within(AT_ONCE)).unwrap();
            if delivery.is_some() || began.elapsed() < LOOK {
                return delivery;
            }
        }
    }

    async fn close(&self) -> WorkerReport {
        self.consumer.close(None).await.unwrap()
    }
}

fn refused(settled: Result<(), duly::Error>) -> (ErrorKind, String) {
    let error = settled.expect_err("it was settled");
    (error.kind(), error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_out_at_once_and_are_settled_in_any_order_by_any_thread() {
    let it = Pulling::new(settings(3));
    let ids = it.push(4).await;
    let mut out = Vec::new();
    for id in &ids[..3] {
        out.push(it.next().await);
        assert_eq!(out.last().unwrap().job().id(), id);
    }
    assert!(it.consumer.next(Duration::from_millis(50)).await.unwrap().is_none(), "three are out");
    assert!(it.consumer.next(AT_ONCE).await.unwrap().is_none());
    let last = out.pop().unwrap();
    let (settled, fourth) = tokio::join!(
        tokio::task::spawn_blocking(move || {
            last.ack(None).unwrap();
            last
        }),
        it.next()
    );
    assert_eq!((settled.unwrap().said(), fourth.job().id()), (Some(Outcome::Done), &*ids[3]));
    fourth.release(A_WHILE).unwrap();
    out.pop().unwrap().ack(None).unwrap();
    let Next::RetryAfter { attempts: 1, .. } = out[0].fail("no answer").unwrap() else { panic!("it is retried") };
    assert_eq!(out[0].interrupted(), None);
    let report = it.close().await;
    assert_eq!((report.acked, report.failed, report.released, report.lost), (2, 1, 1, 0));
    let counts = it.queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.delayed, counts.reserved), (1, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_fetched_before_somebody_asks_and_one_that_does_not_wait_gets_what_is_there() {
    let it = Pulling::new(settings(10));
    let ids = it.push(2).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(it.queue.counts().await.unwrap().ready, 2);
    for id in ids {
        let delivery = it.next_at_once().expect("it is there");
        assert_eq!(delivery.job().id(), id);
        delivery.ack(None).unwrap();
    }
    assert!(it.consumer.next(AT_ONCE).await.unwrap().is_none());
    // What was known of the queue a moment ago does not count.
    for _ in 0..20 {
        it.push(1).await;
        it.next_at_once().expect("it is there").ack(None).unwrap();
    }
    assert_eq!(it.close().await.acked, 22);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_fetched_ahead_and_nobody_takes_goes_back_uncounted() {
    let it = Pulling::new(settings(1));
    it.push(300).await;
    let mut acked = 0;
    while it.queue.counts().await.unwrap().reserved < 5 {
        it.next().await.ack(None).unwrap();
        acked += 1;
    }
    // Nobody asks any more.
    support::eventually("all are back", || async {
        let counts = it.queue.counts().await.unwrap();
        counts.reserved == 0 && counts.ready == 300 - acked
    })
    .await;
    // And they stay there.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(it.queue.counts().await.unwrap().ready, 300 - acked);
    let jobs = it.queue.reserve(&ReserveOptions::new().max(300)).await.unwrap();
    assert!(jobs.iter().all(|job| (job.attempt(), job.returns) == (1, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_fetched_ahead_than_is_allowed() {
    let it = Pulling::new(with(|settings| settings.prefetch = Some(0)));
    it.push(50).await;
    for _ in 0..20 {
        let delivery = it.next().await;
        assert_eq!(it.queue.counts().await.unwrap().reserved, 1);
        delivery.ack(None).unwrap();
        support::eventually("it is acked", || async { it.queue.counts().await.unwrap().reserved == 0 }).await;
    }
    let refused =
        |change: fn(&mut WorkerSettings)| Consumer::start(&it.server.client(), with(change)).err().unwrap().to_string();
    assert!(refused(|settings| settings.prefetch = Some(1001)).contains("prefetch is 0 to 1000 jobs, not 1001"));
    assert!(refused(|settings| settings.timeout = Some(AT_ONCE)).contains("a timeout must be longer than 0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_its_time_settling_is_refused_and_the_job_is_run_again() {
    let it = Pulling::new(with(|settings| settings.timeout = Some(Duration::from_millis(200))));
    let own = NewJob::new(&1).unwrap().timeout(Duration::from_millis(1500)).retry(AGAIN);
    for (job, lasts) in [(own, 1500), (NewJob::new(&2).unwrap().retry(AGAIN), 200)] {
        let id = it.queue.push(job).await.unwrap().id().to_owned();
        let began = std::time::Instant::now();
        let hung = it.next().await;
        assert_eq!(hung.job().id(), id);
        // It holds its place no longer than its time, which is longer than a lease.
        let again = it.next().await;
        assert!(began.elapsed() >= Duration::from_millis(lasts), "{:?}", began.elapsed());
        assert_eq!((again.job().id(), again.job().attempt()), (&*id, 2));
        assert_eq!(hung.interrupted(), Some(Interruption::TimedOut));
        assert_eq!(hung.until_interrupted().await, Interruption::TimedOut);
        let (kind, said) = refused(hung.ack(None));
        assert_eq!(kind, ErrorKind::LeaseLost);
        assert!(said.contains("its time is over"), "{said}");
        assert_eq!(hung.said(), None);
        again.ack(None).unwrap();
        assert!(again.job().envelope.error.starts_with("ran longer than its timeout of "));
    }
    let report = it.close().await;
    assert_eq!((report.acked, report.failed), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_is_decided() {
    let it = Pulling::new(settings(2));
    it.push(2).await;
    let (settled, cancelled) = (it.next().await, it.next().await);
    settled.ack(None).unwrap();
    let (kind, said) = refused(settled.fail("too late").map(|_| ()));
    assert!(kind == ErrorKind::LeaseLost && said.contains("it is decided already"), "{said}");
    it.queue.cancel(cancelled.job().id()).await.unwrap().expect("it is there");
    assert_eq!(tokio::time::timeout(A_WHILE, cancelled.until_interrupted()).await.unwrap(), Interruption::LeaseLost);
    assert_eq!(refused(cancelled.ack(None)).0, ErrorKind::LeaseLost);
    let mut events = Vec::new();
    while let Some(event) = it.consumer.event_within(AT_ONCE) {
        events.push(event);
    }
    let [WorkerEvent::Interrupted { run, why: Interruption::LeaseLost, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!(run, cancelled.number());
    let report = it.close().await;
    assert_eq!((report.acked, report.lost), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_stored_decides_nothing() {
    let it = Pulling::new(settings(1));
    it.push(1).await;
    let delivery = it.next().await;
    let mut changed = delivery.job().envelope.clone();
    changed.key = Some("another".to_owned());
    let error = delivery.settle(Outcome::FAILURE, "no", Some(changed)).unwrap_err();
    assert_eq!((error.kind(), delivery.said()), (ErrorKind::InvalidArgument, None));
    let mut changed = delivery.job().envelope.clone();
    (changed.attempts, changed.max_attempts) = (7, 20);
    delivery.settle(Outcome::FAILURE, "no", Some(changed)).unwrap();
    let again = it.next().await;
    assert_eq!((again.job().attempt(), &*again.job().envelope.error), (9, "no"));
    again.ack(None).unwrap();
}

/// For owners whose jobs must not run twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_noted_counts_when_the_process_dies() {
    for (is_noted, attempt) in [(false, 1), (true, 2)] {
        let it = Pulling::new(with(|settings| settings.lease = A_WHILE));
        let ids = it.push(1).await;
        let delivery = it.next().await;
        if is_noted {
            delivery.job().note_start().await.unwrap();
        }
        // As if it had died a minute ago.
        it.server.redis_cli(&["zadd", "duly:{orders}:reserved", "1", &ids[0]]);
        let again = it.queue.reserve(&ReserveOptions::new()).await.unwrap().pop().expect("the job");
        assert_eq!((again.id(), again.attempt()), (&*ids[0], attempt));
        assert_eq!(refused(delivery.job().note_start().await).0, ErrorKind::LeaseLost);
        again.ack().await.unwrap();
    }
}

/// Or a job that did not run would have failed in an outage.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_run_begins_when_its_start_is_noted() {
    let it = Pulling::new(with(|settings| settings.timeout = Some(Duration::from_secs(1))));
    let longer = Duration::from_secs(2);
    it.push(1).await;
    let delivery = it.next().await;
    it.server.signal("-STOP");
    let noted = {
        let noting = delivery.note_start();
        tokio::pin!(noting);
        // A second one that is given up changes nothing.
        let (first, second) = tokio::join!(
            tokio::time::timeout(longer, &mut noting),
            tokio::time::timeout(Duration::from_millis(100), delivery.note_start())
        );
        assert!(first.is_err() && second.is_err());
        it.server.signal("-CONT");
        noting.await
    };
    noted.unwrap();
    assert_eq!(delivery.interrupted(), None);
    // What the server knows is no news, and the time goes on.
    let is_over = async {
        while delivery.interrupted().is_none() {
            let _ = delivery.note_start().await;
        }
    };
    tokio::time::timeout(A_WHILE, is_over).await.expect("its time is over");
    assert_eq!(delivery.interrupted(), Some(Interruption::TimedOut));
    let (kind, said) = refused(delivery.note_start().await);
    assert!(kind == ErrorKind::LeaseLost && said.contains("its time is over"), "{said}");
    // The same behind an attempt that has failed or was given up, and of one that is decided.
    let again = it.next().await;
    it.server.signal("-STOP");
    assert!(tokio::time::timeout(longer, again.note_start()).await.is_err());
    it.server.signal("-CONT");
    assert_eq!(again.interrupted(), None);
    again.ack(None).unwrap();
    let (kind, said) = refused(again.note_start().await);
    assert!(kind == ErrorKind::LeaseLost && said.contains("it is decided already"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_dropped_goes_back_uncounted() {
    let it = Pulling::new(settings(1));
    let ids = it.push(1).await;
    drop(it.next().await);
    let again = it.next().await;
    assert_eq!((again.job().id(), again.job().attempt(), &*again.job().envelope.error), (&*ids[0], 1, ""));
    again.ack(None).unwrap();
    let report = it.close().await;
    assert_eq!((report.acked, report.failed, report.released), (1, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_gives_back_what_is_out_behind_its_time_and_what_was_fetched_ahead() {
    let it = Pulling::new(settings(2));
    it.push(300).await;
    let mut acked = 0;
    while it.queue.counts().await.unwrap().reserved < 5 {
        it.next().await.ack(None).unwrap();
        acked += 1;
    }
    let (late, in_time) = (it.next().await, it.next().await);
    it.consumer.stop();
    it.consumer.stop();
    assert!(it.consumer.next(A_WHILE).await.unwrap().is_none(), "it was stopped");
    in_time.ack(None).unwrap();
    let report = it.consumer.close(Some(Duration::from_millis(100))).await.unwrap();
    let (kind, said) = refused(late.ack(None));
    assert!(kind == ErrorKind::LeaseLost && said.contains("its consumer was closed"), "{said}");
    assert_eq!((report.acked, report.failed), (acked + 1, 0));
    assert_eq!(it.consumer.close(None).await.unwrap(), report);
    assert!(it.consumer.next(A_WHILE).await.unwrap().is_none());
    let counts = it.queue.counts().await.unwrap();
    assert_eq!((counts.reserved, counts.ready), (0, 300 - acked - 1));
    let jobs = it.queue.reserve(&ReserveOptions::new().max(300)).await.unwrap();
    assert!(jobs.iter().all(|job| job.attempt() == 1));
    assert_eq!(jobs.iter().map(|job| job.returns).sum::<u32>(), 1, "one had begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_out_may_be_settled_though_its_consumer_is_gone() {
    let Pulling { server: _server, queue, consumer } = Pulling::new(settings(1));
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    let delivery = consumer.next(A_WHILE).await.unwrap().expect("a job");
    drop(consumer);
    delivery.ack(None).unwrap();
    drop(delivery);
    support::eventually("it is acked", || async { queue.counts().await.unwrap().reserved == 0 }).await;
    support::eventually("its engine has left", || async { queue.workers().await.unwrap().is_empty() }).await;
}

/// As the end of a program does it: nothing is out any more, but that is no hurry.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_stopped_and_closed_outlasts_an_outage() {
    let Pulling { server, queue, consumer } = Pulling::new(settings(1));
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    let delivery = consumer.next(A_WHILE).await.unwrap().expect("a job");
    server.signal("-STOP");
    delivery.ack(None).unwrap();
    consumer.stop();
    drop(delivery);
    let closing = consumer.close(Some(AT_ONCE));
    tokio::pin!(closing);
    assert!(tokio::time::timeout(Duration::from_secs(4), &mut closing).await.is_err(), "it gives up");
    server.signal("-CONT");
    assert_eq!(closing.await.unwrap().acked, 1);
    assert_eq!(queue.counts().await.unwrap().reserved, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_given_up_asks_for_nothing() {
    let it = Pulling::new(settings(1));
    for _ in 0..3 {
        let given_up = tokio::time::timeout(Duration::from_millis(20), it.consumer.next(A_WHILE)).await;
        assert!(given_up.is_err());
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    it.push(1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(it.queue.counts().await.unwrap().ready, 1);
    it.next().await.ack(None).unwrap();
}

fn is_readable(fd: RawFd, wait_ms: i32) -> bool {
    let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: there is one entry, which lives until the call returns.
    unsafe { libc::poll(&raw mut one, 1, wait_ms) == 1 }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_sign_is_readable_when_there_is_something_to_take_or_to_read() {
    let it = Pulling::new(settings(2));
    let fd = it.consumer.sign().unwrap();
    let take = || it.consumer.next_within(AT_ONCE).unwrap();
    assert!(is_readable(fd, 0), "there may be something");
    assert!(take().is_none());
    assert!(!is_readable(fd, 50));
    it.push(3).await;
    assert!(is_readable(fd, 10_000) && is_readable(fd, 0), "until nothing is there");
    let mut out = Vec::new();
    while let Some(delivery) = take() {
        out.push(delivery);
    }
    while out.len() < 2 {
        assert!(is_readable(fd, 10_000));
        out.extend(take());
    }
    assert!(take().is_none() && !is_readable(fd, 50), "all are out");
    it.queue.cancel(out[1].job().id()).await.unwrap();
    assert!(is_readable(fd, 10_000), "it is an event");
    while out.len() < 3 {
        assert!(is_readable(fd, 10_000), "the third comes in its place");
        out.extend(take());
    }
    for delivery in &out {
        _ = delivery.ack(None);
    }
    assert!(take().is_none());
    it.consumer.stop();
    assert!(is_readable(fd, 0) && take().is_none() && is_readable(fd, 0), "it stays so");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waiting_does_not_cure_is_an_error_of_the_next_question() {
    let server = Server::start();
    let client = Client::builder().url(&server.url()).password("wrong").build().unwrap();
    let consumer = Consumer::start(&client, settings(1)).unwrap();
    for _ in 0..2 {
        assert_eq!(consumer.next(A_WHILE).await.err().unwrap().kind(), ErrorKind::AuthenticationFailed);
    }
    assert_eq!(consumer.close(None).await.unwrap_err().kind(), ErrorKind::AuthenticationFailed);
}

struct Hears(Arc<Notify>);

impl Middleware for Hears {
    fn on_failed(&self, job: &duly::Job, _error: &str) {
        assert_eq!(job.envelope.name.as_deref(), Some("of the consumer"));
        self.0.notify_one();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_hear_of_what_fails_for_good_in_it_and_it_hears_of_nothing() {
    let it = Pulling::new(settings(1));
    let fail = async || {
        it.queue.push(NewJob::new(&1).unwrap().name("of the consumer").max_retries(0)).await.unwrap();
        let Next::Failed { .. } = it.next().await.fail("no").unwrap() else { panic!("it has no retries") };
    };
    fail().await;
    support::eventually("it has failed", || async { it.queue.counts().await.unwrap().failed == 1 }).await;
    // A beat or two.
    assert!(it.consumer.event_within(Duration::from_millis(1500)).is_none());
    let (heard, stop) = (Arc::new(Notify::new()), Notify::new());
    let worker = Worker::builder(it.server.client())
        .queue("orders", 1)
        .handler("of a worker", |_: Job<u8>, _| async { Ok::<_, Failure>(()) })
        .middleware(Hears(Arc::clone(&heard)))
        .build()
        .unwrap();
    let until_heard = async {
        heard.notified().await;
        stop.notify_one();
    };
    let (report, ()) = tokio::join!(worker.run_until(stop.notified()), async {
        tokio::time::timeout(A_WHILE, until_heard).await.expect("it hears of it");
    });
    report.unwrap();
    let failed = it.queue.peek(State::Failed, 0, 10).await.unwrap();
    assert_eq!(failed.len(), 1);
}
