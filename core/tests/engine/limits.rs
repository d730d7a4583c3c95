//! Limits of a queue and of job names over several workers, one of which is killed: never more at once than the limit, never
//! faster than the rate, and no place lost.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{self, Server};
use duly::worker::{Job, Worker};
use duly::{Client, ErrorKind, Limits, NameLimits, NewJob, OnDuplicate, Queue, ReserveOptions, State};
use serde_json::Value;
use tokio::sync::watch;

/// Takes all places and is killed with them.
#[tokio::test]
async fn holder_process() {
    let Ok(url) = std::env::var("DULY_TEST_HOLDER") else { return };
    let queue = Client::builder().url(&url).build().unwrap().queue("orders").unwrap();
    let jobs = queue.reserve(&ReserveOptions::new().max(9).lease(Duration::from_secs(1))).await.unwrap();
    println!("\nreserved {}", jobs.len());
    std::future::pending::<()>().await;
}

fn kill_a_holder(server: &Server, holds: usize) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "limits::holder_process", "--nocapture", "--test-threads", "1"])
        .env("DULY_TEST_HOLDER", server.url())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let reserved = lines.map_while(Result::ok).find(|line| line.starts_with("reserved "));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(reserved, Some(format!("reserved {holds}")));
}

/// What the handlers of all workers see.
#[derive(Default)]
struct Seen {
    running: AtomicUsize,
    most: AtomicUsize,
    starts: Mutex<Vec<Instant>>,
}

/// Three workers of four executors each work the queue off.
async fn work_off(server: &Server, queue: &Queue, run: Duration) -> (usize, Vec<Instant>) {
    let seen = Arc::new(Seen::default());
    let (stop, stopped) = watch::channel(false);
    let workers = (0..3).map(|_| {
        let (seen, mut stopped) = (Arc::clone(&seen), stopped.clone());
        let worker = Worker::builder(server.client()).queue("orders", 1).concurrency(4);
        let worker = worker.handler("work", move |_: Job<Value>, _| {
            let seen = Arc::clone(&seen);
            async move {
                seen.starts.lock().unwrap().push(Instant::now());
                let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
                seen.most.fetch_max(running, Ordering::SeqCst);
                tokio::time::sleep(run).await;
                seen.running.fetch_sub(1, Ordering::SeqCst);
                Ok::<(), String>(())
            }
        });
        tokio::spawn(async move {
            let stop = async {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            worker.build().unwrap().run_until(stop).await.unwrap()
        })
    });
    let workers: Vec<_> = workers.collect();
    until_empty(queue).await;
    stop.send(true).unwrap();
    for worker in workers {
        worker.await.unwrap();
    }
    let starts = seen.starts.lock().unwrap().clone();
    (seen.most.load(Ordering::SeqCst), starts)
}

async fn until_empty(queue: &Queue) {
    let is_empty = || async {
        let counts = queue.counts().await.unwrap();
        counts.ready + counts.reserved + counts.delayed == 0
    };
    support::eventually("all jobs are done", is_empty).await;
}

async fn push(queue: &Queue, count: usize) {
    queue.push_many((0..count).map(|_| NewJob::new(&1).unwrap().name("work")), |_| {}).await.unwrap();
}

#[tokio::test]
async fn several_workers_together_keep_to_the_limit_and_a_killed_one_gives_its_places_back() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.set_limits(&Limits::new().concurrency(3)).await.unwrap();
    push(&queue, 120).await;
    kill_a_holder(&server, 3);
    assert!(queue.counts().await.unwrap().held.is_some());
    let began = Instant::now();
    let (most, starts) = work_off(&server, &queue, Duration::from_millis(5)).await;
    assert_eq!((most, starts.len()), (3, 120));
    // 40 rounds of 5 ms, after the dead one's lease: nobody waits a second for a place that is free.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn several_workers_together_keep_to_the_rate() {
    keep_to_the_rate(Limits::new().rate(20, Duration::from_millis(400))).await;
}

#[tokio::test]
async fn several_workers_together_keep_to_the_rate_of_a_name() {
    let rate = NameLimits::new().rate(20, Duration::from_millis(400));
    keep_to_the_rate(Limits::new().name("work", rate)).await;
}

/// 20 in 400 ms.
async fn keep_to_the_rate(limits: Limits) {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.set_limits(&limits).await.unwrap();
    push(&queue, 80).await;
    let began = Instant::now();
    let (_, starts) = work_off(&server, &queue, Duration::from_millis(1)).await;
    let took = began.elapsed();
    assert_eq!(starts.len(), 80);
    // A burst of 20 and then one each 20 ms: 60 of them take 1.2 s.
    assert!(took >= Duration::from_millis(1180), "{took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test]
async fn a_worker_keeps_no_places_for_jobs_that_it_does_not_run() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.set_limits(&Limits::new().concurrency(50)).await.unwrap();
    push(&queue, 400).await;
    let watched = queue.clone();
    let watch = tokio::spawn(async move {
        let mut most = 0;
        loop {
            let counts = watched.counts().await.unwrap();
            most = most.max(counts.reserved);
            if counts.ready + counts.reserved == 0 {
                return most;
            }
        }
    });
    work_off(&server, &queue, Duration::from_millis(2)).await;
    let most = watch.await.unwrap();
    // Three workers of four executors, and none fetches ahead.
    assert!(most <= 12, "{most} were reserved at once");
}

/// Two names have limits and a third has none: none is exceeded, and what is held back holds up nobody.
#[tokio::test]
async fn several_workers_together_keep_to_the_limits_of_names_and_a_killed_one_gives_its_places_back() {
    const NAMES: [(&str, u32); 3] = [("mail", 2), ("sms", 1), ("free", 12)];
    let server = Server::start();
    let queue = server.queue("orders");
    let one = |most| NameLimits::new().concurrency(most);
    queue.set_limits(&Limits::new().name("mail", one(2)).name("sms", one(1))).await.unwrap();
    let named = |name, count| (0..count).map(move |_| NewJob::new(&1).unwrap().name(name));
    queue.push_many(named("mail", 60), |_| {}).await.unwrap();
    queue.push_many(named("sms", 30).chain(named("free", 120)), |_| {}).await.unwrap();
    // Of the nine it asks for, two are of the first name, one of the second.
    kill_a_holder(&server, 9);
    assert!(queue.counts().await.unwrap().held.unwrap().contains("'mail'"));

    let seen = Arc::new([Seen::default(), Seen::default(), Seen::default()]);
    let (stop, stopped) = watch::channel(false);
    let workers = (0..3).map(|_| {
        let mut worker = Worker::builder(server.client()).queue("orders", 1).concurrency(4);
        for (place, (name, _)) in NAMES.into_iter().enumerate() {
            let seen = Arc::clone(&seen);
            worker = worker.handler(name, move |_: Job<Value>, _| {
                let seen = Arc::clone(&seen);
                async move {
                    let seen = &seen[place];
                    seen.starts.lock().unwrap().push(Instant::now());
                    seen.most.fetch_max(seen.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    seen.running.fetch_sub(1, Ordering::SeqCst);
                    Ok::<(), String>(())
                }
            });
        }
        let mut stopped = stopped.clone();
        let stop = async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        tokio::spawn(async move { worker.build().unwrap().run_until(stop).await.unwrap() })
    });
    let began = Instant::now();
    let workers: Vec<_> = workers.collect();
    until_empty(&queue).await;
    let took = began.elapsed();
    stop.send(true).unwrap();
    for worker in workers {
        worker.await.unwrap();
    }
    let ended = |place: usize| *seen[place].starts.lock().unwrap().iter().max().unwrap();
    for (place, (name, most)) in NAMES.into_iter().enumerate() {
        let at_once = seen[place].most.load(Ordering::SeqCst);
        assert!(at_once <= usize::try_from(most).unwrap(), "{at_once} jobs of {name} at once");
        assert!(at_once > 1 || most == 1, "no two jobs of {name} ran at once");
    }
    let runs: Vec<_> = seen.iter().map(|seen| seen.starts.lock().unwrap().len()).collect();
    assert_eq!(runs, [60, 30, 120]);
    // They were pushed last and passed by.
    assert!(ended(2) < ended(0) && ended(2) < ended(1), "what no limit holds back waited");
    // 30 rounds of 5 ms, after the dead one's lease: nobody waits a second for a place that is free.
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(queue.audit(duly::AuditOptions::new()).await.unwrap().is_clean());
}

/// What a killed process started counts, the job comes back, and who waits is there when the rate lets the next one start: not
/// when it happens to look again, and without asking in between.
#[tokio::test]
async fn who_waits_for_the_rate_of_a_name_is_there_in_time() {
    const ROUNDS: u32 = 6;
    let server = Server::start();
    let queue = server.queue("orders");
    let per = Duration::from_millis(300);
    queue.set_limits(&Limits::new().name("work", NameLimits::new().rate(1, per))).await.unwrap();
    push(&queue, 9).await;
    let began = Instant::now();
    kill_a_holder(&server, 1);
    let calls_before = calls(&server);
    let mut soonest = Duration::MAX;
    for round in 0..ROUNDS {
        let asked = Instant::now();
        let jobs = queue.reserve(&ReserveOptions::new().max(9).wait(Duration::from_secs(20))).await.unwrap();
        assert_eq!(jobs.len(), 1, "one start in a time");
        // The first one's time began when the holder started.
        soonest = if round == 0 { soonest } else { soonest.min(asked.elapsed()) };
    }
    assert!(began.elapsed() >= per * ROUNDS, "{:?}", began.elapsed());
    // Who only looks again now and then takes 0.8 s for each.
    assert!(soonest < Duration::from_millis(700), "{soonest:?}");
    // Two looks a round and one more where it was a little early or a lease ended meanwhile.
    let calls = calls(&server) - calls_before;
    assert!(calls <= 4 * ROUNDS, "{calls} calls");
    assert!(queue.audit(duly::AuditOptions::new()).await.unwrap().is_clean());
}

fn calls(server: &Server) -> u32 {
    let stats = server.redis_cli(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    line.split(',').next().unwrap().parse().unwrap()
}

/// Who frees the place wakes somebody who promises to be there when the rate opens.
#[tokio::test]
async fn a_place_that_is_freed_before_the_rate_opens_is_taken_when_it_does() {
    let server = Server::start();
    let queue = server.queue("orders");
    let both = NameLimits::new().concurrency(1).rate(1, Duration::from_millis(500));
    queue.set_limits(&Limits::new().name("work", both)).await.unwrap();
    push(&queue, 2).await;
    let began = Instant::now();
    let first = queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(60))).await.unwrap().remove(0);
    let waiter = server.queue("orders");
    let waiting =
        tokio::spawn(
            async move { waiter.reserve(&ReserveOptions::new().wait(Duration::from_secs(20))).await.unwrap() },
        );
    // It waits for a place, of which nobody knows when it will be free.
    support::eventually("a job is parked", || async { parked(&server) > 0 }).await;
    first.ack().await.unwrap();
    assert_eq!(waiting.await.unwrap().len(), 1);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(500), "{took:?}");
}

fn parked(server: &Server) -> usize {
    server.redis_cli(&["ZCARD", "duly:{orders}:parked"]).trim().parse().unwrap()
}

/// Taking a limit away brings everything back, also while workers are busy, and leaves nothing behind on the server.
#[tokio::test]
async fn limits_of_names_come_and_go_while_workers_run() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 300).await;
    let changed = queue.clone();
    let change = tokio::spawn(async move {
        for round in 0_u32..40 {
            let limits = Limits::new().name("other", NameLimits::new().concurrency(1));
            let limits = match round % 3 {
                0 => limits.name("work", NameLimits::new().concurrency(1 + round % 2)),
                1 => limits,
                _ => Limits::new(),
            };
            changed.set_limits(&limits).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        changed.set_limits(&Limits::new()).await.unwrap();
    });
    let (_, starts) = work_off(&server, &queue, Duration::from_millis(2)).await;
    change.await.unwrap();
    assert_eq!(starts.len(), 300);
    assert!(queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty());
    assert_eq!(server.redis_cli(&["EXISTS", "duly:{orders}:parked", "duly:{orders}:places"]).trim(), "0");
    assert_eq!(server.redis_cli(&["HEXISTS", "duly:{orders}:meta", "limits"]).trim(), "0");
}

#[tokio::test]
async fn of_many_tasks_that_push_at_once_as_many_succeed_as_fit() {
    let server = Server::start();
    let queue = server.queue("q");
    queue.set_limits(&Limits::new().max_length(25)).await.unwrap();
    // Their pushes go together in a call.
    let pushes: Vec<_> = (0..100).map(|_| queue.push(NewJob::new(&1).unwrap())).collect();
    let outcomes = futures_util::future::join_all(pushes).await;
    let refused: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert_eq!(refused.len(), 75);
    assert!(refused.iter().all(|error| error.kind() == ErrorKind::QueueFull && error.is_transient()), "{refused:?}");
    assert_eq!(queue.counts().await.unwrap().ready, 25);
    // A batch is stored whole or not at all.
    queue.purge(State::Ready).await.unwrap();
    let batch = |count: usize| (0..count).map(|_| NewJob::new(&1).unwrap()).collect::<Vec<_>>();
    queue.push_batch(batch(20)).await.unwrap();
    let refused = queue.push_batch(batch(6)).await.unwrap_err();
    assert!(refused.to_string().contains("25 jobs"), "{refused}");
    assert_eq!(queue.counts().await.unwrap().ready, 20);
    queue.push_batch(batch(5)).await.unwrap();
    let refused = queue.push_many(batch(2_500), |_| ()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
}

#[tokio::test]
async fn a_length_goes_with_the_limits_that_an_older_client_takes_away() {
    let server = Server::start();
    let queue = server.queue("q");
    let push = async || queue.push(NewJob::new(&1).unwrap()).await;
    let length = async || queue.limits().await.unwrap().max_length;
    for (kept_before, kept_after) in [(false, false), (true, false), (false, true)] {
        queue.purge(State::Ready).await.unwrap();
        queue.keep_history(u64::from(kept_before), duly::DEFAULT_HISTORY_AGE).await.unwrap();
        queue.set_limits(&Limits::new().max_length(1)).await.unwrap();
        push().await.unwrap();
        assert_eq!(push().await.unwrap_err().kind(), ErrorKind::QueueFull);
        server.redis_cli(&["hdel", "duly:{q}:meta", "limits"]);
        assert_eq!(length().await, None);
        if kept_after {
            queue.keep_history(1, duly::DEFAULT_HISTORY_AGE).await.unwrap();
        }
        for _ in 0..3 {
            push().await.unwrap();
        }
        assert_eq!(length().await, None);
    }
}

/// One job each, in this order, of as many tasks at once.
async fn push_at_once(queue: &Queue, jobs: Vec<NewJob>) -> Vec<Result<duly::Pushed, duly::Error>> {
    futures_util::future::join_all(jobs.into_iter().map(|job| queue.push(job))).await
}

#[tokio::test]
async fn of_many_pushes_at_once_a_full_queue_takes_the_first_and_refuses_the_others_in_a_few_calls() {
    let server = Server::start();
    let queue = server.queue("q");
    queue.set_limits(&Limits::new().max_length(50)).await.unwrap();
    let numbered = |from: usize| (from..from + 300).map(|number| NewJob::new(&number).unwrap()).collect::<Vec<_>>();
    let before = calls(&server);
    let outcomes = push_at_once(&queue, numbered(0)).await;
    let made = calls(&server) - before;
    // One that goes first, in either shape; the others together, and once more those that fit.
    assert!(made <= 5, "{made} calls");
    let stored: Vec<_> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(stored, (0..300).map(|number| number < 50).collect::<Vec<_>>(), "in the order in which they came");
    let held = queue.reserve(&ReserveOptions::new().max(100)).await.unwrap();
    let numbers: Vec<u64> = held.iter().map(|job| job.envelope.data.as_str().parse().unwrap()).collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    // Full: nothing fits, and nothing more is asked.
    let before = calls(&server);
    let outcomes = push_at_once(&queue, numbered(0)).await;
    assert!(calls(&server) - before <= 3);
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::QueueFull)));
}

#[tokio::test]
async fn what_takes_no_room_gets_into_a_full_queue_among_pushes_that_do_not() {
    let server = Server::start();
    let queue = server.queue("q");
    let new = || NewJob::new(&1).unwrap();
    queue.push(new().id("a").key("k")).await.unwrap();
    queue.push(new().id("b")).await.unwrap();
    queue.set_limits(&Limits::new().max_length(3)).await.unwrap();
    let keep = || new().on_duplicate(duly::OnDuplicate::Keep);
    let jobs = vec![new(), keep().id("b"), new(), keep().id("own"), keep().key("k"), keep().id("c")];
    let before = calls(&server);
    let outcomes = push_at_once(&queue, jobs).await;
    assert!(calls(&server) - before <= 4);
    let said: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().map(|pushed| pushed.id().to_owned())).collect();
    let is_full = |at: usize| said[at].as_ref().is_err_and(|error| error.kind() == ErrorKind::QueueFull);
    assert!(said[0].is_ok(), "the first has the room: {said:?}");
    assert_eq!((said[1].as_deref().ok(), said[4].as_deref().ok()), (Some("b"), Some("a")), "{said:?}");
    assert!(is_full(2) && is_full(3) && is_full(5), "{said:?}");
    // A replacement needs no room, and whoever comes behind it none that it would free.
    let replace = |id: &str| new().id(id).on_duplicate(duly::OnDuplicate::Replace);
    let outcomes = push_at_once(&queue, vec![new(), replace("b"), replace("d"), replace("a").key("k")]).await;
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true], "{outcomes:?}");
    assert_eq!(queue.counts().await.unwrap().ready, 3);
    // Of many keys: each job that comes takes the key of the one before.
    let chain: Vec<_> = (0..20).map(|at| replace(&format!("chain-{at}")).key("k")).collect();
    assert!(push_at_once(&queue, chain).await.iter().all(Result::is_ok));
    assert_eq!(queue.counts().await.unwrap().ready, 3);
}

#[tokio::test]
async fn the_error_of_a_batch_that_was_stored_in_part_says_so() {
    let server = Server::start();
    let queue = server.client().partitioned_queue("many", 4).unwrap();
    queue.set_limits(&Limits::new().max_length(120)).await.unwrap();
    let (mut in_last, mut number) = (0, 0);
    while in_last < 25 {
        let id = queue.push(NewJob::new(&number).unwrap()).await.unwrap().id().to_owned();
        number += 1;
        if server.redis_cli(&["hexists", "duly:{many/3}:jobs", &id]).trim() == "1" {
            in_last += 1;
        } else {
            queue.cancel(&id).await.unwrap();
        }
    }
    let batch = |count: usize| (0..count).map(|_| NewJob::new(&1).unwrap()).collect::<Vec<_>>();
    let refused = queue.push_batch(batch(60)).await.unwrap_err();
    let stored = queue.counts().await.unwrap().ready - 25;
    assert!(stored > 0 && stored < 60, "{stored}");
    assert_eq!((refused.kind(), refused.is_partly_done()), (ErrorKind::QueueFull, true));
    let says = format!("{stored} of the 60 jobs of this batch are pushed, of some partitions");
    assert!(refused.to_string().contains(&says), "{refused}");
    assert!(!refused.to_string().contains("nothing was stored"), "{refused}");
    // Nor does a batch of one queue that takes two calls.
    let queue = server.queue("q");
    queue.set_limits(&Limits::new().max_length(2)).await.unwrap();
    let other = |id: &str| NewJob::new(&1).unwrap().id(id);
    let two_ways = vec![other("a"), other("b"), other("c").on_duplicate(duly::OnDuplicate::Keep)];
    let refused = queue.push_batch(two_ways).await.unwrap_err();
    assert!(refused.to_string().contains("the first 2 of the 3 jobs of this batch are pushed"), "{refused}");
    assert_eq!((refused.is_transient(), refused.batch_index()), (false, Some(2)), "the same batch would double them");
    // What the batches before had is no part of this one.
    queue.set_limits(&Limits::new().max_length(1_010)).await.unwrap();
    let refused = queue.push_many(batch(1_500), |_| ()).await.unwrap_err();
    assert!(!refused.is_transient(), "{refused}");
    let refused = refused.to_string();
    assert!(refused.contains("nothing of this batch was stored"), "{refused}");
    assert!(refused.contains("1000 jobs of the batches before are pushed"), "{refused}");
}

#[tokio::test]
async fn nothing_of_a_batch_is_stored_behind_a_call_that_is_refused() {
    let server = Server::start();
    let queue = server.queue("q");
    // Two calls, because they have more than 4 MiB.
    let batch = || (0..1_000).map(|number| NewJob::new(&(number, "x".repeat(6_000))).unwrap()).collect::<Vec<_>>();
    let of_first_call = 4 * 1024 * 1024 / 6_050;
    for room in [500, 900] {
        queue.set_limits(&Limits::new().max_length(room)).await.unwrap();
        let refused = queue.push_batch(batch()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull, "{refused}");
        let stored = queue.counts().await.unwrap().ready;
        if stored == 0 {
            assert!((room, refused.is_transient()) == (500, true) && !refused.is_partly_done(), "{refused}");
            continue;
        }
        assert!((room, stored.abs_diff(of_first_call) < 20) == (900, true), "{stored}");
        assert!(refused.to_string().contains(&format!("the first {stored} of the 1000 jobs")), "{refused}");
        let jobs = queue.reserve(&ReserveOptions::new().max(1_000)).await.unwrap();
        let number = |job: &duly::Job| serde_json::from_str::<(u64, String)>(job.envelope.data.as_str()).unwrap().0;
        let numbers: Vec<_> = jobs.iter().map(number).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn what_is_stored_but_not_durable_is_named_and_counted() {
    let server = Server::start();
    let client = || server.builder().command_timeout(Duration::from_millis(500)).build().unwrap().queue("q").unwrap();
    let new = || NewJob::new(&1).unwrap();
    let durable = || new().durability(duly::Durability::Replicas { count: 1 });
    let queue = client();
    let ready = async || queue.counts().await.unwrap().ready;
    let error = queue.push(durable()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(queue.find(error.job_id().unwrap()).await.unwrap().is_some(), "{error}");
    let error = queue.push_batch(vec![new(), durable(), durable()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(error.to_string().contains("all 3 jobs of this batch are pushed"), "{error}");
    assert_eq!(ready().await, 4);
    // What stores nothing has nothing to confirm: also the first call of a client that does not know yet that the queue has limits.
    queue.set_limits(&Limits::new().max_length(5)).await.unwrap();
    assert_eq!(client().push(durable()).await.unwrap_err().kind(), ErrorKind::NotDurable);
    assert_eq!(ready().await, 5);
    for job in [durable(), durable().id("own")] {
        let error = client().push(job).await.unwrap_err();
        assert_eq!((error.kind(), error.job_id()), (ErrorKind::QueueFull, None), "{error}");
    }
    assert_eq!(ready().await, 5);
    queue.set_limits(&Limits::new()).await.unwrap();
    assert_eq!(queue.push(durable().id("a")).await.unwrap_err().kind(), ErrorKind::NotDurable);
    let error = queue.push(durable().id("a")).await.unwrap_err();
    assert_eq!((error.kind(), error.job_id()), (ErrorKind::Duplicate, Some("a")), "{error}");
    let keyed = queue.push(durable().key("k")).await.unwrap_err();
    let stored = queue.find(keyed.job_id().unwrap()).await.unwrap().unwrap();
    assert_eq!(stored.job.envelope.key.as_deref(), Some("k"), "{keyed}");
    let error = queue.push_batch(vec![durable().id("a"), durable(), durable().id("b")]).await.unwrap_err();
    assert!(error.to_string().contains("all 3 jobs of this batch are pushed"), "{error}");
    // The others are pushed all the same, and what ends the batch is said.
    let parts = server.client().partitioned_queue("parts", 4).unwrap();
    let error = parts.push_batch((0..40).map(|_| durable()).collect()).await.unwrap_err();
    assert_eq!((error.kind(), parts.counts().await.unwrap().ready), (ErrorKind::NotDurable, 40), "{error}");
    assert!(error.to_string().contains("all 40 jobs of this batch are pushed"), "{error}");
    let error = queue.push_many(vec![durable()], |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("nothing behind this batch is pushed"), "{error}");
    let room = queue.counts().await.unwrap().ready + 2;
    queue.set_limits(&Limits::new().max_length(room)).await.unwrap();
    let error = queue.push_batch(vec![durable(), durable(), new()]).await.unwrap_err();
    assert_eq!((error.kind(), error.batch_index()), (ErrorKind::QueueFull, Some(2)), "{error}");
    queue.set_limits(&Limits::new()).await.unwrap();
    // Whoever keeps a job relies on it as well.
    let error = queue.push(durable().id("a").on_duplicate(OnDuplicate::Keep)).await.unwrap_err();
    assert_eq!((error.kind(), error.job_id()), (ErrorKind::NotDurable, Some("a")), "{error}");
}

#[tokio::test]
async fn behind_a_push_that_is_not_confirmed_no_other_of_its_batch_is_waited_for() {
    let server = Server::start();
    let client = server.builder().command_timeout(Duration::from_secs(1)).build().unwrap();
    let waits = || {
        let info = server.redis_cli(&["INFO", "commandstats"]);
        let of_wait = info.lines().find_map(|line| line.trim().strip_prefix("cmdstat_wait:calls="));
        of_wait.map_or(0, |rest| rest.split_once(',').unwrap().0.parse::<u64>().unwrap())
    };
    let durable = |number: usize| {
        let policy = [OnDuplicate::Keep, OnDuplicate::Replace][number % 2];
        let job = NewJob::new(&number).unwrap().key(format!("k{number}")).on_duplicate(policy);
        job.durability(duly::Durability::Replicas { count: 1 })
    };
    let queue = client.queue("q").unwrap();
    queue.push(durable(100)).await.unwrap_err(); // brings the script to the server
    let before = waits();
    // Each takes a call of its own.
    let error = queue.push_batch((0..8).map(durable).collect()).await.unwrap_err();
    assert_eq!((error.kind(), queue.counts().await.unwrap().ready), (ErrorKind::NotDurable, 9), "{error}");
    assert_eq!((error.batch_index(), waits() - before), (Some(8), 1), "the next one");
    let parts = client.partitioned_queue("parts", 4).unwrap();
    let error = parts.push_batch((0..40).map(durable).collect()).await.unwrap_err();
    assert_eq!((error.kind(), parts.counts().await.unwrap().ready), (ErrorKind::NotDurable, 40), "{error}");
    assert_eq!((error.batch_index(), waits() - before), (Some(40), 2));
    // Of many callers: those that are sent together wait once.
    let outcomes = futures_util::future::join_all((200..230).map(|number| queue.push(durable(number)))).await;
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().unwrap_err().kind() == ErrorKind::NotDurable));
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().unwrap_err().job_id().is_some()));
    assert_eq!(queue.counts().await.unwrap().ready, 39);
    assert!(waits() - before <= 5, "{}", waits() - before);
    // Those that nobody asked to be safe are only pushed, and what asks for less is waited for.
    let plain = NewJob::new(&1).unwrap().key("plain").on_duplicate(OnDuplicate::Replace);
    let stricter = durable(301).durability(duly::Durability::Replicas { count: 2 });
    let before = waits();
    let error = queue.push_batch(vec![stricter, durable(302), durable(304), plain]).await.unwrap_err();
    assert!(error.to_string().contains("all 4 jobs of this batch are pushed"), "{error}");
    assert_eq!(waits() - before, 2);
    let error = queue.push_many(vec![durable(0)], |_| ()).await.unwrap_err();
    assert_eq!((error.batch_index(), error.to_string().contains("at index")), (Some(1), false), "{error}");
    // What ends a batch behind it is said as it is.
    let room = queue.counts().await.unwrap().ready + 1;
    queue.set_limits(&Limits::new().max_length(room)).await.unwrap();
    let error = queue.push_batch(vec![durable(401), durable(402)]).await.unwrap_err();
    assert_eq!((error.kind(), error.batch_index()), (ErrorKind::QueueFull, Some(1)), "{error}");
    // What is refused is not waited for, nor what is pushed with it twice.
    let before = waits();
    assert_eq!(queue.push(durable(500)).await.unwrap_err().kind(), ErrorKind::QueueFull);
    assert_eq!(waits() - before, 0);
    queue.set_limits(&Limits::new().max_length(room + 10)).await.unwrap();
    let outcomes = futures_util::future::join_all((600..630).map(|number| queue.push(durable(number)))).await;
    let kind = |outcome: &Result<_, duly::Error>| outcome.as_ref().err().map(duly::Error::kind);
    let stored = outcomes.iter().filter(|outcome| kind(outcome) == Some(ErrorKind::NotDurable));
    assert_eq!((stored.count(), queue.counts().await.unwrap().ready), (10, room + 10));
    assert!(waits() - before <= 4, "{}", waits() - before);
}

#[tokio::test]
async fn a_length_is_shared_by_the_parts_and_heard_of_by_clients_that_push_already() {
    let server = Server::start();
    let client = server.client();
    let queue = client.partitioned_queue("many", 4).unwrap();
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    let refused = queue.set_limits(&Limits::new().max_length(3)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let other = server.client().partitioned_queue("many", 4).unwrap();
    other.set_limits(&Limits::new().max_length(40)).await.unwrap();
    assert_eq!(queue.limits().await.unwrap().max_length, Some(40));
    let mut stored = 1;
    for _ in 0..200 {
        match queue.push(NewJob::new(&1).unwrap()).await {
            Ok(_) => stored += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::QueueFull),
        }
    }
    assert_eq!(stored, 40, "each part is full");
    // A worker goes on as before, and fetches ahead.
    while let Some(job) = queue.reserve(&ReserveOptions::new()).await.unwrap().pop() {
        job.ack().await.unwrap();
    }
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
}
