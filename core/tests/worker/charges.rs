//! Who pays when a worker dies: the job that it ran, and no other that it held.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::process::Process;
use crate::support::proxy::{Fault, Proxy};
use crate::support::slow_line::{Line, SlowLine};
use crate::support::{self, Server};
use duly::worker::{Context, Ended, Engine, Executor, Failure, Job, Run, Worker, WorkerSettings};
use duly::{Client, JobView, Millis, NewJob, Queue, ReserveOptions, RetryPolicy, State};

const LEASE: Duration = Duration::from_millis(800);
const A_WHILE: Duration = Duration::from_secs(60);
const POISON: &str = "poison";

fn engine(client: &Client, concurrency: usize) -> Engine {
    let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    (settings.concurrency, settings.lease) = (concurrency, LEASE);
    Engine::start(client, settings).unwrap()
}

async fn next(executor: &Executor) -> Run {
    tokio::time::timeout(A_WHILE, executor.next()).await.expect("a run").unwrap()
}

fn job(id: &str, max_retries: u32) -> NewJob {
    NewJob::new(&1).unwrap().id(id).max_retries(max_retries)
}

async fn push(queue: &Queue, jobs: impl IntoIterator<Item = NewJob> + Send) {
    let jobs: Vec<_> = jobs.into_iter().collect();
    queue.push_many(jobs, |_| {}).await.unwrap();
}

async fn found(queue: &Queue, id: &str) -> JobView {
    queue.find(id).await.unwrap().expect("the job is there").job
}

/// What is kept beside a job, as it is written.
fn note(server: &Server, id: &str) -> String {
    server.redis_cli(&["hget", "duly:{orders}:returned", id]).trim().to_owned()
}

/// A process of its own, which ends when it begins to run the poison.
#[tokio::test]
async fn worker_process() {
    let Ok(url) = std::env::var("DULY_TEST_URL") else { return };
    let concurrency = std::env::var("DULY_TEST_WORKER").unwrap().parse().unwrap();
    let worker = Worker::builder(Client::builder().url(&url).build().unwrap())
        .queue("orders", 1)
        .lease(LEASE)
        .concurrency(concurrency)
        .any_handler(|job: Job<u32>, _: Context| async move {
            if job.data > 1 {
                tokio::time::sleep(Duration::from_millis(u64::from(job.data))).await;
            }
            if job.id() == POISON {
                std::process::abort();
            }
            Ok::<(), Failure>(())
        });
    worker.run().await.unwrap();
}

/// One worker until it dies; it does not when nothing is left to do.
async fn one_life(server: &Server, concurrency: u32) -> bool {
    one_life_at(server, &server.url(), concurrency).await
}

async fn one_life_at(server: &Server, url: &str, concurrency: u32) -> bool {
    let mut process = Process::start_at(url, "charges::worker_process", &concurrency.to_string());
    let queue = server.queue("orders");
    loop {
        if process.child.try_wait().unwrap().is_some() {
            return true;
        }
        let counts = queue.counts().await.unwrap();
        if counts.ready + counts.delayed + counts.reserved == 0 {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The jobs that the worker that has just died had said of that they start.
fn marked(server: &Server) -> BTreeSet<String> {
    let notes = server.redis_cli(&["hgetall", "duly:{orders}:returned"]);
    let notes: Vec<_> = notes.lines().collect();
    notes.chunks_exact(2).filter(|note| is_started(note[1])).map(|note| note[0].to_owned()).collect()
}

/// A zero before the number of failures is the mark.
fn is_started(note: &str) -> bool {
    note.split(';').next().is_some_and(|failures| failures.len() > 1 && failures.starts_with('0'))
}

/// `DULY_POISON_JOBS` says among how many others. Of those without retries some may be about to start where it kills its worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_workers_fails_alone() {
    let jobs = std::env::var("DULY_POISON_JOBS").map_or(2000, |number| number.parse().unwrap());
    for (concurrency, max_retries) in [(1, 1), (4, 2)] {
        let server = Server::start();
        let queue = server.queue("orders");
        let innocent = |n: u64| job(&format!("j{n}"), [1, 0, 5][usize::try_from(n % 3).unwrap()]);
        let (before, after) = ((0..jobs / 2).map(innocent), (jobs / 2..jobs).map(innocent));
        push(&queue, before.chain([job(POISON, max_retries)]).chain(after)).await;
        let (mut deaths, mut started) = (0, BTreeSet::new());
        while one_life(&server, concurrency).await {
            started.extend(marked(&server));
            deaths += 1;
            assert!(deaths < 20, "it goes on for ever");
        }
        assert_eq!(deaths, max_retries + 2, "with {concurrency} handlers");
        let poison = found(&queue, POISON).await;
        assert_eq!((poison.state, poison.envelope.attempts), (State::Failed, max_retries + 1));
        let failed = failed_but(&queue, POISON).await;
        for job in &failed {
            assert_eq!((job.envelope.max_attempts, job.envelope.attempts), (0, 1), "{job:?}");
            assert!(job.envelope.error.contains("worker died, outcome unknown"), "{job:?}");
            assert!(started.contains(&job.envelope.id), "its worker had not said that it starts: {job:?}");
        }
        assert_eq!(total(&queue, "acked").await, jobs - failed.len() as u64);
        println!(
            "{concurrency} handlers: {deaths} workers died of a job with {max_retries} retries; {} others without retries failed as well",
            failed.len()
        );
    }
}

async fn failed_but(queue: &Queue, id: &str) -> Vec<JobView> {
    let mut failed = Vec::new();
    loop {
        let page = queue.peek(State::Failed, failed.len(), 1000).await.unwrap();
        if page.is_empty() {
            failed.retain(|job: &JobView| job.envelope.id != id);
            return failed;
        }
        failed.extend(page);
    }
}

/// An innocent job may run beside it and be charged once; its last run has no suspect beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_workers_slowly_fails_alone() {
    let server = Server::start();
    let queue = server.queue("orders");
    let after = |id: &str, ms: u32| NewJob::new(&ms).unwrap().id(id).max_retries(1);
    push(&queue, [after(POISON, 300)].into_iter().chain((0..8).map(|n| after(&format!("long{n}"), 700)))).await;
    let mut deaths = 0;
    while one_life(&server, 4).await {
        deaths += 1;
        assert!(deaths < 20, "it goes on for ever");
    }
    let failed = queue.peek(State::Failed, 0, 10).await.unwrap();
    let failed: Vec<_> = failed.iter().map(|view| &*view.envelope.id).collect();
    assert_eq!((failed, deaths), (vec![POISON], 3));
    assert_eq!(total(&queue, "acked").await, 8);
}

async fn poison_behind(line: Line) {
    let server = Server::start();
    let (queue, line) = (server.queue("orders"), SlowLine::before(server.port(), line));
    let innocent = |n: u64| job(&format!("j{n}"), if n.is_multiple_of(2) { 1 } else { 5 });
    push(&queue, (0..50).map(innocent).chain([job(POISON, 1)]).chain((50..100).map(innocent))).await;
    let mut deaths = 0;
    while one_life_at(&server, &line.url(), 4).await {
        deaths += 1;
        assert!(deaths < 20, "it goes on for ever");
    }
    let failed = queue.peek(State::Failed, 0, 10).await.unwrap();
    let failed: Vec<_> = failed.iter().map(|view| &*view.envelope.id).collect();
    assert_eq!((failed, deaths), (vec![POISON], 3));
    assert_eq!(total(&queue, "acked").await, 100);
}

/// The same among short jobs, with workers behind slow lines.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_workers_behind_a_slow_line_fails_alone() {
    tokio::join!(poison_behind(Line::MOBILE), poison_behind(Line::TEN_MEGABIT), poison_behind(Line::FAR));
}

async fn total(queue: &Queue, name: &str) -> u64 {
    let totals = queue.counts().await.unwrap().totals;
    totals.iter().find(|(counted, _)| counted == name).map_or(0, |(_, total)| *total)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_retries_never_starts_twice() {
    const JOBS: usize = 4000;
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, (0..JOBS).map(|n| job(&format!("j{n}"), 0))).await;
    let mut runs = BTreeMap::<String, usize>::new();
    let note_run = |run: &Run, runs: &mut BTreeMap<String, usize>| {
        *runs.entry(run.job.id().to_owned()).or_default() += 1;
        assert_eq!((run.job.attempt(), run.job.returns), (1, 0));
    };
    let dies = engine(&server.client(), 1);
    let executor = dies.executor();
    while runs.len() < JOBS / 2 {
        // By the end it fetches many ahead.
        let run = next(&executor).await;
        note_run(&run, &mut runs);
        executor.finish(&run, Ended::DONE).unwrap();
    }
    drop(dies);
    let held: BTreeSet<String> =
        queue.peek(State::Reserved, 0, 1000).await.unwrap().into_iter().map(|view| view.envelope.id).collect();
    let lives = engine(&server.client(), 1);
    let executor = lives.executor();
    loop {
        tokio::select! {
            run = executor.next() => {
                let run = run.unwrap();
                note_run(&run, &mut runs);
                executor.finish(&run, Ended::DONE).unwrap();
            }
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                let counts = queue.counts().await.unwrap();
                if counts.ready + counts.reserved == 0 {
                    break;
                }
            }
        }
    }

    assert!(runs.values().all(|&runs| runs == 1), "{runs:?}");
    let failed = queue.peek(State::Failed, 0, 1000).await.unwrap();
    assert!(!failed.is_empty());
    for view in &failed {
        assert!(held.contains(&view.envelope.id), "{view:?} was not in the worker that died");
        assert!(view.envelope.error.contains("worker died, outcome unknown"), "{view:?}");
    }
    assert!(failed.len() < held.len(), "what was fetched ahead and not to start yet comes back");
    assert_eq!(total(&queue, "acked").await + failed.len() as u64, JOBS as u64);
}

/// A worker runs the next job, and dies with the ack.
async fn done_but_not_acked(server: &Server) -> Run {
    let proxy = Proxy::before(server.port()).await;
    let dies = engine(&proxy.builder().build().unwrap(), 1);
    let executor = dies.executor();
    let run = next(&executor).await;
    proxy.next(Fault::LoseRequest);
    executor.finish(&run, Ended::DONE).unwrap();
    proxy.happened().await;
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_done_when_its_worker_died_runs_again_and_is_charged_at_most_once_for_that() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, [job("again", 5)]).await;
    // The server did not know of the first run. Of the others it did.
    for charged in [0, 0, 1] {
        let run = done_but_not_acked(&server).await;
        assert_eq!((run.job.attempt(), run.job.returns), (charged + 1, charged));
    }
    let lives = engine(&server.client(), 1);
    let executor = lives.executor();
    let run = next(&executor).await;
    assert_eq!((run.job.attempt(), run.job.returns), (3, 2));
    executor.finish(&run, Ended::DONE).unwrap();
    lives.stop();
    assert_eq!(lives.ended().await.unwrap().acked, 1);
    assert_eq!((total(&queue, "acked").await, total(&queue, "reclaimed").await), (1, 3));

    push(&queue, [job("once", 0)]).await;
    done_but_not_acked(&server).await;
    support::eventually("it has failed", || async {
        queue.reclaim().await.unwrap();
        queue.counts().await.unwrap().failed == 1
    })
    .await;
    let once = found(&queue, "once").await;
    assert_eq!((once.state, once.envelope.attempts), (State::Failed, 1));
    assert!(once.envelope.error.contains("worker died, outcome unknown"), "{}", once.envelope.error);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_knows_of_a_start_before_the_handler_does_where_it_must() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, [job("plain", 1)]).await;
    let first = engine(&server.client(), 1);
    let executor = first.executor();
    let run = next(&executor).await;
    assert_eq!(note(&server, "plain"), "", "nothing is noted of a job that has not been in a crash");
    drop(first);
    drop(run);

    let second = engine(&server.client(), 1);
    let executor = second.executor();
    let run = next(&executor).await;
    assert_eq!((run.job.attempt(), run.job.returns), (1, 0), "the first worker that died is not charged");
    assert!(note(&server, "plain").starts_with("00;00;"), "{}", note(&server, "plain"));
    drop(second);

    let third = engine(&server.client(), 1);
    let executor = third.executor();
    let run = next(&executor).await;
    assert_eq!((run.job.attempt(), run.job.returns), (2, 1), "the second is");
    push(&queue, [job("once", 0)]).await;
    executor.finish(&run, Ended::DONE).unwrap();
    let run = next(&executor).await;
    assert_eq!((run.job.id(), note(&server, "once").as_str()), ("once", "00;0;"));
    executor.finish(&run, Ended::DONE).unwrap();
    third.stop();
    assert_eq!(third.ended().await.unwrap().acked, 2);
    assert_eq!(server.redis_cli(&["exists", "duly:{orders}:returned"]).trim(), "0");
}

/// What a worker held that died before it started any of them.
async fn suspects(server: &Server, count: u32) {
    let queue = server.queue("orders");
    push(&queue, (0..count).map(|n| job(&format!("j{n}"), 1))).await;
    die_with(server, count).await;
}

async fn die_with(server: &Server, count: u32) {
    let queue = server.queue("orders");
    let dead = engine(&server.client(), count as usize);
    support::eventually("all are fetched", || async { queue.counts().await.unwrap().reserved == u64::from(count) })
        .await;
    drop(dead);
    support::eventually("all have come back", || async {
        queue.reclaim().await.unwrap();
        queue.counts().await.unwrap().ready == u64::from(count)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_runs_of_suspects_do_not_wait_for_each_other() {
    let server = Server::start();
    suspects(&server, 3).await;
    let engine = engine(&server.client(), 3);
    let executors: Vec<_> = (0..3).map(|_| engine.executor()).collect();
    let mut runs = Vec::new();
    for executor in &executors {
        runs.push(next(executor).await);
    }
    let names: BTreeSet<_> = runs.iter().map(|run| run.job.id().to_owned()).collect();
    assert_eq!(names.len(), 3);
}

/// Each runs alone, as it has no retry left, and the executors that it leaves free are for other jobs.
#[tokio::test(flavor = "multi_thread")]
async fn suspects_that_wait_for_each_other_hold_up_no_other_job_and_use_up_no_rate() {
    let server = Server::start();
    let queue = server.queue("orders");
    let at_once = RetryPolicy::Fixed { delay: Millis::ZERO };
    push(&queue, (0..4).map(|n| job(&format!("j{n}"), 1).retry(at_once.clone()))).await;
    for failed in queue.reserve(&ReserveOptions::new().max(4)).await.unwrap() {
        failed.fail("once").await.unwrap();
    }
    die_with(&server, 4).await;
    let engine = engine(&server.client(), 4);
    let [first, second] = [engine.executor(), engine.executor()];
    let mut long = next(&first).await;
    for n in 0..30 {
        push(&queue, [job(&format!("other{n}"), 5)]).await;
        let run = next(&second).await;
        assert!(run.job.id().starts_with("other"), "{} runs beside {}", run.job.id(), long.job.id());
        second.finish(&run, Ended::DONE).unwrap();
    }
    // For as long as the first has run by then; each time costs a start.
    support::eventually("they are given back", || async { queue.counts().await.unwrap().delayed == 3 }).await;
    let released = total(&queue, "released").await;
    assert!(released <= 9, "given back {released} times");
    for _ in 0..3 {
        first.finish(&long, Ended::DONE).unwrap();
        long = next(&first).await;
        assert!(long.job.id().starts_with('j'));
    }
    first.finish(&long, Ended::DONE).unwrap();
    support::eventually("all are done", || async { total(&queue, "acked").await == 34 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stop_gives_back_unstarted_has_not_come_back_from_a_run() {
    let server = Server::start();
    suspects(&server, 5).await;
    let queue = server.queue("orders");
    push(&queue, [job("once", 0), job("plain", 1)]).await;
    let engine = engine(&server.client(), 7);
    support::eventually("the starts that may be noted are", || async {
        let noted = note(&server, "once").starts_with("00;");
        noted && queue.counts().await.unwrap().reserved == 7
    })
    .await;
    engine.stop();
    assert_eq!(engine.ended().await.unwrap().released, 7);
    assert_eq!((note(&server, "once").as_str(), note(&server, "plain").as_str()), ("0;0;", ""));
    for n in 0..5 {
        assert!(note(&server, &format!("j{n}")).starts_with("0;00;"), "{n}");
    }
}

#[tokio::test]
async fn what_is_reserved_by_hand_has_started() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, [job(POISON, 1)]).await;
    for runs in 1..=2 {
        let options = ReserveOptions::new().lease(Duration::from_millis(1)).wait(A_WHILE);
        let jobs = queue.reserve(&options).await.unwrap();
        assert_eq!((jobs[0].attempt(), jobs[0].returns), (runs, runs - 1));
    }
    support::eventually("it has failed", || async {
        queue.reclaim().await.unwrap();
        found(&queue, POISON).await.state == State::Failed
    })
    .await;
}
