//! The history of a queue: what happened to its last jobs, also to those that are gone.

use std::time::Duration;

use crate::support::{Server, eventually, verbs::at_once};
use duly::worker::{Failure, Job, Worker};
use duly::{
    Client, DEFAULT_HISTORY_AGE, ErrorKind, Happening, Limits, Millis, NewJob, OnDuplicate, Outcome, Overlap, Queue,
    ReserveOptions, Schedule, State, Trace, When,
};
use tokio::sync::oneshot;

const SECOND: Duration = Duration::from_secs(1);

fn job(id: &str) -> NewJob {
    NewJob::new(&1).unwrap().id(id)
}

async fn trace(queue: &Queue, id: &str) -> Trace {
    queue.trace(id).await.unwrap().unwrap_or_else(|| panic!("nothing is known of {id}"))
}

async fn happenings(queue: &Queue, id: &str) -> Vec<&'static str> {
    trace(queue, id).await.events.iter().map(|event| event.what.as_str()).collect()
}

async fn take(queue: &Queue) -> duly::Job {
    queue.reserve(&ReserveOptions::new()).await.unwrap().pop().expect("a ready job")
}

/// A client whose clock a test moves, and a queue of it that keeps a history.
async fn at_a_still_clock(server: &Server) -> (Client, Queue) {
    let client = server.builder().manual_clock().build().unwrap();
    let queue = client.queue("q").unwrap();
    queue.set_clock(Millis::new(1_800_000_000_000)).await.unwrap();
    queue.keep_history(1_000, DEFAULT_HISTORY_AGE).await.unwrap();
    (client, queue)
}

#[tokio::test]
async fn without_a_history_a_trace_tells_what_the_stored_job_does_and_nothing_is_noted() {
    let server = Server::start();
    let queue = server.queue("q");
    assert_eq!(queue.history().await.unwrap(), None);
    assert!(queue.trace("a").await.unwrap().is_none());
    queue.push(job("a").delay(SECOND * 60)).await.unwrap();
    let known = trace(&queue, "a").await;
    assert!(!known.is_kept && known.job.is_some());
    let [pushed] = &known.events[..] else { panic!("{:?}", known.events) };
    assert_eq!((pushed.what, pushed.due), (Happening::Pushed, known.job.unwrap().at));
    queue.reschedule("a", When::Now).await.unwrap();
    let held = take(&queue).await;
    let runs = trace(&queue, "a").await.runs();
    assert_eq!(runs[0].language, "", "no worker has it");
    assert_eq!((runs.len(), runs[0].token, runs[0].attempt), (1, Some(held.token()), Some(1)));
    let now = queue.find("a").await.unwrap().unwrap().now;
    assert!(now.saturating_sub(runs[0].reserved_at.unwrap()) < Millis::from_secs(60), "the token says when");
    held.settle(Outcome::FailNow, "ValueError: no").await.unwrap();
    let last = trace(&queue, "a").await.events.pop().unwrap();
    assert_eq!((last.what, last.error.as_deref()), (Happening::Failed, Some("ValueError: no")));
    queue.purge(State::Failed).await.unwrap();
    assert!(queue.trace("a").await.unwrap().is_none());
    assert_eq!(server.redis_cli(&["exists", "duly:{q}:history"]).trim(), "0");
    assert_eq!(server.redis_cli(&["hexists", "duly:{q}:meta", "limits"]).trim(), "0");
}

#[tokio::test]
async fn a_start_is_noted_once_for_each_run() {
    let server = Server::start();
    let (_client, queue) = at_a_still_clock(&server).await;
    queue.push(job("a").retry(at_once())).await.unwrap();
    for outcome in [Outcome::FAILURE, Outcome::Release { after: Millis::new(0), counted: false }, Outcome::FailNow] {
        let held = take(&queue).await;
        held.note_start().await.unwrap();
        held.note_start().await.unwrap();
        held.settle(outcome, "no").await.unwrap();
    }
    let known = happenings(&queue, "a").await;
    assert_eq!(known.iter().filter(|what| **what == "started").count(), 3, "{known:?}");
}

#[tokio::test]
async fn the_life_of_a_job_is_known_when_it_is_gone() {
    let server = Server::start();
    let (client, queue) = at_a_still_clock(&server).await;
    assert_eq!(queue.history().await.unwrap().map(|kept| (kept.jobs, kept.age)), Some((1_000, DEFAULT_HISTORY_AGE)));
    queue.push(job("a").delay(SECOND).retry(at_once())).await.unwrap();
    queue.set_clock(Millis::new(1_800_000_002_000)).await.unwrap();
    let held = take(&queue).await;
    let first = held.token();
    held.settle(Outcome::FAILURE, "ValueError: \tno\nat line 2").await.unwrap();
    queue.set_clock(Millis::new(1_800_000_003_000)).await.unwrap();
    let held = take(&queue).await;
    assert_eq!(trace(&queue, "a").await.runs()[1].outcome, None);
    assert!(trace(&queue, "a").await.job.is_some());
    queue.set_clock(Millis::new(1_800_000_003_500)).await.unwrap();
    held.ack().await.unwrap();

    // Another client reads the same.
    let other = server.builder().manual_clock().build().unwrap().queue("q").unwrap();
    let known = trace(&other, "a").await;
    assert!(known.is_kept && known.job.is_none());
    let words: Vec<_> = known.events.iter().map(|event| (event.what.as_str(), event.at.get() % 100_000)).collect();
    let expected = [
        ("pushed", 0),
        ("promoted", 2_000),
        ("reserved", 2_000),
        ("retried", 2_000),
        ("reserved", 3_000),
        ("done", 3_500),
    ];
    assert_eq!(words, expected);
    assert_eq!(known.events[0].due, Some(Millis::new(1_800_000_001_000)));
    for event in &known.events {
        assert_eq!((event.language.as_str(), event.pid), ("rust", std::process::id()));
        assert!(!event.host.is_empty());
    }
    let runs = known.runs();
    assert_eq!((runs.len(), runs[0].token, runs[1].token), (2, Some(first), Some(held.token())));
    assert_eq!((runs[0].attempt, runs[1].attempt), (Some(1), Some(2)));
    assert_eq!((runs[0].outcome, runs[1].outcome), (Some(Happening::Retried), Some(Happening::Done)));
    assert_eq!(runs[0].error.as_deref(), Some("ValueError:  no at line 2"), "a history has a line an event");
    assert_eq!((runs[0].error_class(), runs[1].error_class()), (Some("ValueError"), None));
    let moments = [runs[1].reserved_at.unwrap(), runs[1].started_at.unwrap(), runs[1].ended_at.unwrap()];
    assert_eq!(moments.map(|at| at.get() % 100_000), [3_000, 3_000, 3_500], "by hand: it starts at once");
    assert_eq!(client.queue("other").unwrap().history().await.unwrap(), None, "each queue has its own");
}

#[tokio::test]
async fn a_workers_runs_are_told_with_how_long_they_took() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("q").unwrap();
    queue.keep_history(100, DEFAULT_HISTORY_AGE).await.unwrap();
    for id in ["a", "b", "fails"] {
        queue
            .push(job(id).name(if id == "fails" { "fail" } else { "wait" }).max_retries(1).retry(at_once()))
            .await
            .unwrap();
    }
    queue.push(job("unhandled").name("nobody").max_retries(0)).await.unwrap();
    let worker = Worker::builder(client.clone())
        .queue("q", 1)
        .handler("wait", |_job: Job<serde_json::Value>, _context| async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok::<(), Failure>(())
        })
        .handler(
            "fail",
            |_job: Job<serde_json::Value>, _context| async move { Err::<(), Failure>("no such order".into()) },
        )
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await });
    eventually("all have run", async || {
        let counts = queue.counts().await.unwrap();
        counts.ready + counts.reserved + counts.delayed == 0
    })
    .await;
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    for id in ["a", "b"] {
        let runs = trace(&queue, id).await.runs();
        let [run] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!(run.outcome, Some(Happening::Done));
        let (started, ended) = (run.started_at.unwrap(), run.ended_at.unwrap());
        assert!(ended.saturating_sub(started) >= Millis::new(29), "{run:?}");
        assert!(started >= run.reserved_at.unwrap().saturating_sub(Millis::new(2)), "{run:?}");
    }
    let runs = trace(&queue, "fails").await.runs();
    let outcomes: Vec<_> = runs.iter().map(|run| (run.attempt.unwrap(), run.outcome)).collect();
    assert_eq!(outcomes, [(1, Some(Happening::Retried)), (2, Some(Happening::Failed))], "{runs:?}");
    assert!(runs.iter().all(|run| run.error.as_deref().is_some_and(|error| error.contains("no such order"))));
    assert_eq!(trace(&queue, "unhandled").await.events.last().unwrap().what, Happening::Failed);
}

#[tokio::test]
async fn a_worker_that_died_shows_in_the_trace() {
    let server = Server::start();
    let (_, queue) = at_a_still_clock(&server).await;
    queue.push(job("a").max_retries(1)).await.unwrap();
    for second in [0, 60] {
        take(&queue).await;
        queue.set_clock(Millis::new(1_800_000_000_000 + (second + 60) * 1_000)).await.unwrap();
        queue.reclaim().await.unwrap();
    }
    let expected = ["pushed", "reserved", "lease_ended", "reserved", "lease_ended", "failed"];
    assert_eq!(happenings(&queue, "a").await, expected);
    let runs = trace(&queue, "a").await.runs();
    assert_eq!(runs.iter().map(|run| run.attempt.unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert!(runs.iter().all(|run| run.outcome == Some(Happening::LeaseEnded)));
    assert!(runs[1].error.as_deref().unwrap().starts_with("lease ended"), "{:?}", runs[1]);
    // The same in a reserve that takes it back.
    queue.push(job("b")).await.unwrap();
    take(&queue).await;
    queue.set_clock(Millis::new(1_800_000_300_000)).await.unwrap();
    take(&queue).await;
    assert_eq!(happenings(&queue, "b").await, ["pushed", "reserved", "lease_ended", "reserved"]);
}

#[tokio::test]
async fn what_operators_do_is_part_of_it() {
    let server = Server::start();
    let (_, queue) = at_a_still_clock(&server).await;
    queue.push(job("moved").delay(SECOND)).await.unwrap();
    queue.reschedule("moved", When::After(Millis::from_secs(60))).await.unwrap();
    queue.reschedule("moved", When::Now).await.unwrap();
    queue.cancel("moved").await.unwrap();
    assert_eq!(happenings(&queue, "moved").await, ["pushed", "rescheduled", "rescheduled", "cancelled"]);
    let events = trace(&queue, "moved").await.events;
    assert_eq!(events[1].due, Some(Millis::new(1_800_000_060_000)));
    assert_eq!((events[2].due, events[3].detail.as_deref()), (None, Some("ready")));

    queue.push(job("old").key("k")).await.unwrap();
    queue.push(job("new").key("k").on_duplicate(OnDuplicate::Replace)).await.unwrap();
    assert_eq!(happenings(&queue, "old").await, ["pushed", "replaced"]);
    assert_eq!(trace(&queue, "old").await.events[1].detail.as_deref(), Some("new"));
    let held = take(&queue).await;
    held.settle(Outcome::Release { after: Millis::ZERO, counted: false }, "").await.unwrap();
    take(&queue).await.settle(Outcome::FailNow, "no").await.unwrap();
    queue.requeue(&["new".to_owned()]).await.unwrap();
    queue.purge(State::Ready).await.unwrap();
    let expected = ["pushed", "reserved", "released", "reserved", "failed", "requeued", "purged"];
    assert_eq!(happenings(&queue, "new").await, expected);
    assert_eq!(trace(&queue, "new").await.runs().len(), 2);

    // `failed` is bounded, and says whom it let go.
    queue.keep_failed(1, SECOND * 3_600).await.unwrap();
    for id in ["first", "second"] {
        queue.push(job(id)).await.unwrap();
        take(&queue).await.settle(Outcome::FailNow, "no").await.unwrap();
    }
    assert_eq!(happenings(&queue, "first").await, ["pushed", "reserved", "failed", "trimmed"]);
    queue.push(job("due").delay(SECOND)).await.unwrap();
    queue.set_clock(Millis::new(1_800_000_002_000)).await.unwrap();
    assert_eq!(queue.promote().await.unwrap(), 1);
    assert_eq!(happenings(&queue, "due").await, ["pushed", "promoted"]);
}

#[tokio::test]
async fn jobs_of_schedules_and_batches_are_in_it() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("q").unwrap();
    queue.keep_history(10_000, DEFAULT_HISTORY_AGE).await.unwrap();
    let every = Schedule::every(SECOND, NewJob::new(&1).unwrap()).unwrap().overlap(Overlap::Skip);
    queue.schedules().put("tick", &every).await.unwrap();
    let worker = Worker::builder(client.clone())
        .queue("q", 1)
        .handler("other", |_job: Job<serde_json::Value>, _context| async move { Ok::<(), Failure>(()) })
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(async move { worker.run_until(async { drop(stopped.await) }).await });
    eventually("it has fired", async || queue.schedules().get("tick").await.unwrap().unwrap().fired > 0).await;
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    let fires = queue.schedules().get("tick").await.unwrap().unwrap();
    let events = trace(&queue, &fires.fires[0].job_id).await.events;
    assert_eq!((events[0].what, events[0].detail.as_deref()), (Happening::Pushed, Some("schedule")));

    // Both kinds of pushes, in one entry a call: more than a page of the trace.
    queue.push_batch((0..1_000).map(|at| job(&format!("own-{at}"))).collect()).await.unwrap();
    let made = queue.push_batch((0..1_000).map(|_| NewJob::new(&1).unwrap()).collect()).await.unwrap();
    for _ in 0..1_100 {
        queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    }
    queue.cancel("own-999").await.unwrap();
    assert_eq!(happenings(&queue, "own-0").await, ["pushed"]);
    assert_eq!(happenings(&queue, "own-999").await, ["pushed", "cancelled"], "in pages");
    assert_eq!(happenings(&queue, made[999].id()).await, ["pushed"]);
}

#[tokio::test]
async fn a_history_is_bounded_by_number_and_by_age() {
    let server = Server::start();
    let (_, queue) = at_a_still_clock(&server).await;
    queue.keep_history(100, SECOND * 60).await.unwrap();
    for round in 0..30 {
        queue.push_batch((0..100).map(|at| job(&format!("{round}-{at}"))).collect()).await.unwrap();
        queue.purge(State::Ready).await.unwrap();
    }
    // Two hundred events a round, of which five hundred are kept.
    assert!(queue.trace("26-0").await.unwrap().is_none());
    assert_eq!(happenings(&queue, "28-0").await, ["pushed", "purged"]);
    let entries: u64 = server.redis_cli(&["llen", "duly:{q}:history"]).trim().parse().unwrap();
    assert!(entries <= 12, "{entries} elements, two for each hundred events");
    queue.set_clock(Millis::new(1_800_000_061_000)).await.unwrap();
    assert!(queue.trace("29-0").await.unwrap().is_none(), "too old, though it is still there");
    for _ in 0..2 {
        queue.push_batch((0..100).map(|_| NewJob::new(&1).unwrap()).collect()).await.unwrap();
    }
    queue.purge(State::Ready).await.unwrap();
    queue.push(job("new")).await.unwrap();
    let entries: u64 = server.redis_cli(&["llen", "duly:{q}:history"]).trim().parse().unwrap();
    assert!(entries <= 8, "{entries} elements: the old ones are gone");
    assert_eq!(happenings(&queue, "new").await, ["pushed"]);

    // Single ones behind large ones, and the other way round.
    for at in 0..1_200 {
        queue.push(job(&format!("single-{at}"))).await.unwrap();
    }
    queue.purge(State::Ready).await.unwrap();
    let entries: u64 = server.redis_cli(&["llen", "duly:{q}:history"]).trim().parse().unwrap();
    assert!(entries <= 6, "{entries} elements hold 1,200 events, more than are kept");
}

#[tokio::test]
async fn it_is_switched_on_and_off_while_clients_run() {
    let server = Server::start();
    let queue = server.queue("q");
    let other = server.queue("q");
    queue.push(job("before")).await.unwrap();
    take(&queue).await.ack().await.unwrap();
    other.keep_history(1_000, DEFAULT_HISTORY_AGE).await.unwrap();
    queue.push(job("a")).await.unwrap();
    take(&queue).await.ack().await.unwrap();
    assert_eq!(happenings(&queue, "a").await, ["pushed", "reserved", "done"]);
    assert!(queue.trace("before").await.unwrap().is_none());

    // Beside limits: either goes, and the other stays.
    queue.set_limits(&Limits::new().concurrency(1)).await.unwrap();
    queue.push(job("b")).await.unwrap();
    queue.push(job("c")).await.unwrap();
    let held = take(&queue).await;
    assert!(queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty(), "the limit holds");
    held.ack().await.unwrap();
    queue.set_limits(&Limits::new()).await.unwrap();
    take(&queue).await.ack().await.unwrap();
    assert_eq!(happenings(&queue, "b").await, ["pushed", "reserved", "done"]);
    assert_eq!(happenings(&queue, "c").await, ["pushed", "reserved", "done"]);
    queue.set_limits(&Limits::new().concurrency(1)).await.unwrap();
    other.keep_history(0, DEFAULT_HISTORY_AGE).await.unwrap();
    assert_eq!(queue.history().await.unwrap(), None);
    assert!(queue.trace("b").await.unwrap().is_none());
    assert_eq!(queue.limits().await.unwrap(), Limits::new().concurrency(1));
    queue.set_limits(&Limits::new()).await.unwrap();
    queue.push(job("d")).await.unwrap();
    take(&queue).await.ack().await.unwrap();
    assert!(queue.trace("d").await.unwrap().is_none());
    assert_eq!(server.redis_cli(&["exists", "duly:{q}:history"]).trim(), "0");
    assert_eq!(server.redis_cli(&["hexists", "duly:{q}:meta", "limits"]).trim(), "0", "a plain queue again");

    // Limits of a name that go with their last job.
    other.keep_history(1_000, DEFAULT_HISTORY_AGE).await.unwrap();
    let one = duly::NameLimits::new().concurrency(1);
    queue.set_limits(&Limits::new().name("n", one)).await.unwrap();
    queue.push(job("e").name("n")).await.unwrap();
    let held = take(&queue).await;
    queue.set_limits(&Limits::new()).await.unwrap();
    held.ack().await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap();
    assert_eq!(server.redis_cli(&["hget", "duly:{q}:meta", "limits"]).trim(), "");
    queue.push(job("f")).await.unwrap();
    assert_eq!(happenings(&queue, "f").await, ["pushed"], "the history outlives limits");
    queue.purge(State::Ready).await.unwrap();
    queue.delete(0).await.unwrap();
    assert_eq!(server.redis_cli(&["exists", "duly:{q}:history", "duly:{q}:meta"]).trim(), "0");
}

#[tokio::test]
async fn a_queue_in_parts_keeps_a_history_in_each() {
    let server = Server::start();
    let client = server.client();
    let queue = client.partitioned_queue("many", 4).unwrap();
    queue.keep_history(1_000, DEFAULT_HISTORY_AGE).await.unwrap();
    assert_eq!(queue.history().await.unwrap().unwrap().jobs, 1_000);
    for at in 0..20 {
        queue.push(job(&format!("job-{at}"))).await.unwrap();
    }
    while let Some(held) = queue.reserve(&ReserveOptions::new()).await.unwrap().pop() {
        held.ack().await.unwrap();
    }
    for at in 0..20 {
        assert_eq!(happenings(&queue, &format!("job-{at}")).await, ["pushed", "reserved", "done"]);
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_what_others_wrote_stops_nobody() {
    let server = Server::start();
    let queue = server.queue("q");
    for (jobs, age) in [(1_000_001, SECOND), (1, Duration::ZERO)] {
        let refused = queue.keep_history(jobs, age).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    }
    assert_eq!(queue.trace("").await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    queue.keep_history(10, SECOND * 60).await.unwrap();
    queue.push(job("a")).await.unwrap();
    server.redis_cli(&[
        "rpush",
        "duly:{q}:history",
        "nonsense",
        "1;x",
        "9;9;9;\nQ",
        "\tR\tno-semicolon",
        "b",
        "x\tR\t1;",
        "b",
    ]);
    queue.push(job("b")).await.unwrap();
    assert_eq!(happenings(&queue, "b").await, ["pushed"]);
    server.redis_cli(&["hset", "duly:{q}:meta", "history", "many"]);
    queue.push(job("c")).await.unwrap();
    take(&queue).await.ack().await.unwrap();
    // Another type: the job goes its way, and nothing is noted.
    queue.keep_history(10, SECOND * 60).await.unwrap();
    server.redis_cli(&["del", "duly:{q}:history"]);
    server.redis_cli(&["set", "duly:{q}:history", "x"]);
    queue.push(job("d")).await.unwrap();
    take(&queue).await.ack().await.unwrap();
    assert_eq!(queue.trace("d").await.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Elements of the list.
fn length(server: &Server) -> u64 {
    server.redis_cli(&["llen", "duly:{q}:history"]).trim().parse().unwrap()
}

#[tokio::test]
async fn one_that_is_larger_than_a_cut_is_bounded_too_and_is_cut_between_calls() {
    let server = Server::start();
    let (_, queue) = at_a_still_clock(&server).await;
    queue.keep_history(600, SECOND * 60).await.unwrap();
    // Each replaces the one before: two events a call.
    for round in 0..6_000 {
        let replacing = job(&format!("job-{round}")).key("k").on_duplicate(OnDuplicate::Replace);
        queue.push(replacing).await.unwrap();
    }
    let most = length(&server);
    assert!(
        most <= 2 * (3_000 + 600),
        "{most} elements hold more than 3,000 events and what may come until the next look"
    );
    assert!(queue.trace("job-100").await.unwrap().is_none());
    assert_eq!(happenings(&queue, "job-5998").await, ["pushed", "replaced"]);
    // A lower bound, and a long silence: a cut that takes several calls leaves a list that can be read.
    queue.keep_history(1, SECOND * 60).await.unwrap();
    queue.push_batch((0..100).map(|_| NewJob::new(&1).unwrap()).collect()).await.unwrap();
    assert_eq!(happenings(&queue, "job-5998").await, ["pushed", "replaced"], "not all of it is cut at once");
    for _ in 0..5 {
        queue.push_batch((0..100).map(|_| NewJob::new(&1).unwrap()).collect()).await.unwrap();
        assert!(queue.trace("nobody").await.unwrap().is_none());
    }
    assert!(length(&server) <= 4, "{}", length(&server));
}

#[tokio::test]
async fn a_history_that_begins_again_under_old_ones_is_read() {
    let server = Server::start();
    let queue = server.queue("q");
    for lost in [true, false] {
        queue.keep_history(2_000, DEFAULT_HISTORY_AGE).await.unwrap();
        for _ in 0..1_200 {
            queue.push(NewJob::new(&1).unwrap()).await.unwrap();
        }
        queue.purge(State::Ready).await.unwrap();
        server.redis_cli(&["del", "duly:{q}:meta"]);
        queue.keep_history(2_000, DEFAULT_HISTORY_AGE).await.unwrap();
        queue.push(job(&format!("new-{lost}"))).await.unwrap();
        assert_eq!(happenings(&queue, &format!("new-{lost}")).await, ["pushed"]);
        assert_eq!(length(&server), 2, "what was there under other numbers is gone");
        // And with something of another program in front.
        server.redis_cli(&["lpush", "duly:{q}:history", "1", "2"]);
        assert_eq!(happenings(&queue, &format!("new-{lost}")).await, ["pushed"]);
        queue.purge(State::Ready).await.unwrap();
        queue.keep_history(0, DEFAULT_HISTORY_AGE).await.unwrap();
    }
    // The head is in the middle of a call, and there is more than one page of it.
    queue.keep_history(5_000, DEFAULT_HISTORY_AGE).await.unwrap();
    for round in 0..1_500 {
        queue.push(job(&format!("job-{round}")).key("k").on_duplicate(OnDuplicate::Replace)).await.unwrap();
    }
    server.redis_cli(&["ltrim", "duly:{q}:history", "4", "-1"]);
    assert!(queue.trace("nobody").await.unwrap().is_none());
    assert_eq!(happenings(&queue, "job-1400").await, ["pushed", "replaced"]);
    assert_eq!(happenings(&queue, "job-3").await, ["pushed", "replaced"]);
}

#[tokio::test]
async fn an_older_client_that_takes_away_limits_does_not_switch_it_off_for_long() {
    let server = Server::start();
    let queue = server.queue("q");
    queue.keep_history(100, DEFAULT_HISTORY_AGE).await.unwrap();
    queue.push(job("a")).await.unwrap();
    server.redis_cli(&["hdel", "duly:{q}:meta", "limits"]);
    assert_eq!(queue.history().await.unwrap(), None, "nobody new notes anything just now");
    // Who knows of it puts it right.
    queue.push(job("b")).await.unwrap();
    assert!(queue.history().await.unwrap().is_some());
    assert_eq!(happenings(&queue, "b").await, ["pushed"]);
}

#[tokio::test]
async fn each_end_is_told_once_and_no_run_goes_on_for_ever() {
    let server = Server::start();
    let (_, queue) = at_a_still_clock(&server).await;
    queue.push(job("a")).await.unwrap();
    queue.push(job("b")).await.unwrap();
    let held = queue.reserve(&ReserveOptions::new().max(2)).await.unwrap();
    let twice = [held[0].clone(), held[1].clone(), held[0].clone()];
    assert_eq!(queue.ack_all(&twice).await.unwrap(), [true; 3]);
    assert_eq!(happenings(&queue, "a").await, ["pushed", "reserved", "done"]);
    assert_eq!(happenings(&queue, "b").await, ["pushed", "reserved", "done"]);
    // A lease that an audit takes back.
    queue.push(job("c")).await.unwrap();
    take(&queue).await;
    server.redis_cli(&["hdel", "duly:{q}:leases", "c"]);
    queue.audit(duly::AuditOptions::new().repair(true)).await.unwrap();
    take(&queue).await.ack().await.unwrap();
    let runs = trace(&queue, "c").await.runs();
    let outcomes: Vec<_> = runs.iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [Some(Happening::LeaseEnded), Some(Happening::Done)], "{runs:?}");
}

#[tokio::test]
async fn where_the_beginning_is_gone_a_trace_says_so_and_makes_up_nothing() {
    let server = Server::start();
    let (_, queue) = at_a_still_clock(&server).await;
    queue.keep_history(1, SECOND * 3_600).await.unwrap();
    // So many events that all that was noted before is gone.
    let pass_by = async |queue: &Queue| {
        for _ in 0..12 {
            let jobs = (0..100).map(|_| NewJob::new(&1).unwrap().priority(9)).collect();
            for pushed in queue.push_batch(jobs).await.unwrap() {
                queue.cancel(pushed.id()).await.unwrap();
            }
        }
    };
    queue.push(job("long").max_retries(9).retry(at_once())).await.unwrap();
    assert!(trace(&queue, "long").await.is_complete);
    let held = take(&queue).await;
    pass_by(&queue).await;
    held.settle(Outcome::FAILURE, "ValueError: no").await.unwrap();
    let known = trace(&queue, "long").await;
    assert!(known.is_kept && !known.is_complete);
    let [run] = &known.runs()[..] else { panic!("{known:?}") };
    assert_eq!((run.attempt, run.token, run.reserved_at, run.started_at), (None, None, None, None));
    assert_eq!((run.outcome, run.error_class()), (Some(Happening::Retried), Some("ValueError")));
    assert_eq!(run.pid, std::process::id());
    // All of it is gone: the stored job tells, and says how often it has failed.
    queue.reschedule("long", When::After(Millis::from_secs(60))).await.unwrap();
    pass_by(&queue).await;
    let known = trace(&queue, "long").await;
    assert_eq!(known.events.iter().map(|event| event.what.as_str()).collect::<Vec<_>>(), ["pushed", "retried"]);
    assert!(known.is_kept && !known.is_complete, "a push that the stored job tells of is no beginning");
    assert!(known.runs().is_empty(), "{known:?}");
    queue.cancel("long").await.unwrap();
    // Cancelled while it ran, and while it did not.
    for (id, state) in [("ran", State::Reserved), ("waited", State::Ready)] {
        queue.push(job(id)).await.unwrap();
        let _held = if state == State::Reserved { Some(take(&queue).await) } else { None };
        pass_by(&queue).await;
        queue.cancel(id).await.unwrap();
        let known = trace(&queue, id).await;
        let outcomes: Vec<_> = known.runs().iter().map(|run| (run.outcome, run.language.clone())).collect();
        let expected =
            if state == State::Reserved { vec![(Some(Happening::Cancelled), String::new())] } else { vec![] };
        assert_eq!((outcomes, known.is_complete), (expected, false), "{id}");
    }
}

#[tokio::test]
async fn the_last_life_of_a_job_is_read_from_the_end() {
    let server = Server::start();
    let queue = server.queue("q");
    let far = || std::time::Instant::now() + SECOND * 60;
    let last_life = async |id: &str, most: usize| {
        let (trace, is_cut) = queue.last_life(id, most, far()).await.unwrap();
        let events = trace.iter().flat_map(|trace| &trace.events).map(|event| event.what.as_str()).collect::<Vec<_>>();
        (events.join(" "), trace.is_some_and(|trace| trace.is_complete), is_cut)
    };
    assert_eq!(last_life("a", 9).await, (String::new(), false, false), "without a history");
    queue.keep_history(5_000, DEFAULT_HISTORY_AGE).await.unwrap();
    queue.push(job("early")).await.unwrap();
    queue.cancel("early").await.unwrap();
    let in_between = async || {
        for at in 0..700 {
            queue.push(job(&format!("between-{at}")).key("k").on_duplicate(OnDuplicate::Replace)).await.unwrap();
        }
        queue.push_batch((0..1_000).map(|at| job(&format!("{at}-{}", "x".repeat(100)))).collect()).await.unwrap();
        queue.purge(State::Ready).await.unwrap();
    };
    in_between().await;
    queue.push(job("early")).await.unwrap();
    queue.push(job("moved").delay(SECOND * 60)).await.unwrap();
    for _ in 0..300 {
        queue.reschedule("moved", When::After(Millis::from_secs(60))).await.unwrap();
    }
    queue.push(job("long").priority(0)).await.unwrap();
    let held = take(&queue).await;
    in_between().await;
    held.ack().await.unwrap();
    assert_eq!(last_life("long", 9).await, ("pushed reserved done".to_owned(), true, false));
    assert_eq!(last_life("early", 9).await, ("pushed purged".to_owned(), true, false), "of two lives the last");
    assert_eq!(happenings(&queue, "early").await, ["pushed", "cancelled", "pushed", "purged"]);
    let moved = ["rescheduled"; 9].join(" ");
    assert_eq!(last_life("moved", 9).await, (moved, false, true), "the newest");
    assert_eq!(last_life("nobody", 9).await, (String::new(), false, false));
    assert_eq!(last_life("between-0", 9).await.0, "pushed replaced");
    // Time is over.
    let (trace, is_cut) = queue.last_life("long", 9, std::time::Instant::now()).await.unwrap();
    assert!(trace.is_none() && is_cut);
    // Nothing is read of what is no longer there, and nothing twice.
    server.redis_cli(&["ltrim", "duly:{q}:history", "1001", "-1"]);
    assert_eq!(last_life("long", 9).await, ("pushed reserved done".to_owned(), true, false));
    assert_eq!(last_life("between-0", 9).await.0, "pushed replaced");
    assert_eq!(last_life("nobody", 9).await, (String::new(), false, false));
}

#[tokio::test]
async fn a_trace_reads_many_calls_at_once_and_few_large_ones() {
    let server = Server::start();
    let queue = server.queue("q");
    queue.keep_history(100_000, DEFAULT_HISTORY_AGE).await.unwrap();
    let reads = async |id: &str| {
        server.redis_cli(&["config", "resetstat"]);
        assert!(queue.trace(id).await.unwrap().is_none());
        let stats = server.redis_cli(&["info", "commandstats"]);
        let calls = |name: &str| {
            let line =
                stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls="))?.split(',').next());
            line.map_or(0, |calls| calls.parse::<u32>().unwrap())
        };
        (calls("lrange") + calls("lindex"), calls("evalsha"))
    };
    queue.trace("nobody").await.unwrap();
    for _ in 0..2_500 {
        queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    }
    let (commands, calls) = reads("nobody").await;
    // One of the calls finds the job.
    assert!(calls <= 4 && commands <= 6 * calls, "{commands} reads in {calls} calls");
    queue.keep_history(0, DEFAULT_HISTORY_AGE).await.unwrap();
    queue.keep_history(100_000, DEFAULT_HISTORY_AGE).await.unwrap();
    for round in 0..30 {
        let long = |at| job(&format!("{round}-{at:03}-{}", "x".repeat(100)));
        queue.push_batch((0..1_000).map(long).collect()).await.unwrap();
    }
    // 3.2 MB: about six calls of 512 KiB, and in each no more than two batches behind that.
    let (_, calls) = reads("nobody").await;
    assert!((6..=9).contains(&calls), "{calls} calls");
}

#[tokio::test]
async fn the_class_of_an_error_is_no_word_of_a_sentence() {
    let server = Server::start();
    let (_, queue) = at_a_still_clock(&server).await;
    for (error, class) in [
        ("ValueError: no", Some("ValueError")),
        ("app.errors.Late: no", Some("app.errors.Late")),
        ("\\App\\NoStock: no", Some("\\App\\NoStock")),
        ("KeyError", Some("KeyError")),
        ("my_error: x", Some("my_error")),
        ("Could not find it", None),
        ("Order 42 is unknown: no", None),
        ("3.5 percent", None),
    ] {
        let id = queue.push(NewJob::new(&1).unwrap()).await.unwrap().id().to_owned();
        take(&queue).await.settle(Outcome::FailNow, error).await.unwrap();
        assert_eq!(trace(&queue, &id).await.runs()[0].error_class(), class, "{error}");
    }
}
