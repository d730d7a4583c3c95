//! A worker whose renewals do not come through: jobs that wait in it for a handler are run by others meanwhile.

use std::time::Duration;

use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use duly::worker::{Ended, Engine, Run, WorkerEvent, WorkerSettings};
use duly::{Client, NewJob, ReserveOptions, State};

const LEASE: Duration = Duration::from_secs(1);
const A_WHILE: Duration = Duration::from_secs(60);

/// Five handlers may run at once; who asks for runs is the test.
fn engine(client: &Client) -> Engine {
    let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    (settings.concurrency, settings.lease) = (5, LEASE);
    Engine::start(client, settings).unwrap()
}

async fn next(executor: &duly::worker::Executor) -> Run {
    tokio::time::timeout(A_WHILE, executor.next()).await.expect("a run").unwrap()
}

/// A worker that has fetched five jobs and begun one, and whose calls get no answer since.
struct CutOff {
    server: Server,
    proxy: Proxy,
    queue: duly::Queue,
    engine: Engine,
    executor: duly::worker::Executor,
    run: Run,
}

impl CutOff {
    async fn new() -> Self {
        let server = Server::start();
        let proxy = Proxy::before(server.port()).await;
        let queue = server.queue("orders");
        queue.push_many((0..5).map(|n| NewJob::new(&n).unwrap()), |_| {}).await.unwrap();
        let engine = engine(&proxy.builder().build().unwrap());
        let executor = engine.executor();
        let run = next(&executor).await;
        support::eventually("all are fetched", || async { queue.counts().await.unwrap().reserved == 5 }).await;
        proxy.next(Fault::LoseRequest);
        proxy.happened().await;
        Self { server, proxy, queue, engine, executor, run }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_ran_while_it_was_cut_off_is_not_started() {
    let CutOff { server: _server, proxy, queue, engine, executor, run } = CutOff::new().await;

    let mut acked = 0;
    while acked < 5 {
        let jobs = queue.reserve(&ReserveOptions::new().max(5).wait(A_WHILE)).await.unwrap();
        acked += queue.ack_all(&jobs).await.unwrap().len();
    }
    executor.finish(&run, Ended::DONE).unwrap();
    let stale = tokio::time::timeout(Duration::from_millis(200), executor.next()).await;
    assert!(stale.is_err(), "it started a job that another worker has acked: {stale:?}");

    proxy.reopen();
    let id = queue.push(NewJob::new(&6).unwrap()).await.unwrap().id().to_owned();
    assert_eq!(next(&executor).await.job.id(), id);
    assert_eq!(engine.report().lost, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_took_while_it_was_cut_off_is_started_when_a_renewal_says_that_it_is_ours() {
    let CutOff { server, proxy, queue, engine: _engine, executor, run } = CutOff::new().await;
    // On the server they stay ours, which the worker cannot know.
    for view in queue.peek(State::Reserved, 0, 10).await.unwrap() {
        server.redis_cli(&["zadd", "duly:{orders}:reserved", "9999999999999", &view.envelope.id]);
    }
    executor.finish(&run, Ended::DONE).unwrap();
    tokio::time::sleep(LEASE).await; // no renewal came through since before it began
    let unsure = tokio::time::timeout(Duration::from_millis(100), executor.next()).await;
    assert!(unsure.is_err(), "{unsure:?}");
    proxy.reopen();
    for _ in 0..4 {
        executor.finish(&next(&executor).await, Ended::DONE).unwrap();
    }
    support::eventually("all are acked", || async { queue.counts().await.unwrap().reserved == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_only_renewals_see_is_told_once_and_so_is_its_end() {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    server.queue("orders").push(NewJob::new(&1).unwrap()).await.unwrap();
    let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    settings.lease = Duration::from_secs(9); // the server is away for less than that
    let engine = Engine::start(&server.client(), settings).unwrap();
    let executor = engine.executor();
    let run = next(&executor).await;

    server.kill();
    let reported = tokio::time::timeout(A_WHILE, engine.event()).await.expect("it says that the server is away");
    assert!(matches!(reported, WorkerEvent::Trouble { .. }), "{reported}");
    server.restart();
    let reported = tokio::time::timeout(A_WHILE, engine.event()).await.expect("it says that the server is back");
    assert!(matches!(reported, WorkerEvent::Recovered { .. }), "{reported}");

    executor.finish(&run, Ended::DONE).unwrap();
    engine.stop();
    let report = engine.ended().await.unwrap();
    assert_eq!((report.acked, report.lost), (1, 0));
    assert!(engine.event_within(Duration::ZERO).is_none());
}
