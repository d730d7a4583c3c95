//! Servers that die, forget their scripts, or freeze in the middle of the work.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::proxy::{Fault, Proxy};
use crate::support::slow_line::{Line, SlowLine, over_each_line};
use crate::support::verbs::{self, Verb, assert_kind, new_job, summary};
use crate::support::{self, Server};
use duly::{ClientBuilder, Durability, ErrorKind, NewJob, OnDuplicate, Queue, ReserveOptions, State};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Not `everysec`: while its disk is busy with an fsync, the server then answers before it has written to its file at all
/// (for up to two seconds), and a kill loses what was answered. With `no` it has always written before it answers.
const AOF: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

fn ids(jobs: &[duly::Job]) -> Vec<String> {
    jobs.iter().map(|job| job.id().to_owned()).collect()
}

/// Streams of calls of every kind run while the server is killed; what was answered must hold afterwards.
#[tokio::test]
async fn a_server_killed_in_the_middle_of_each_verb_loses_nothing_that_was_answered() {
    let mut server = Server::start_with(&AOF);
    let client = server.client();
    // A queue each, so that who reserves gets its own job.
    let queues = KINDS.map(|kind| client.queue(kind).unwrap());
    let done = tokio::task::LocalSet::new();
    let stop = std::rc::Rc::new(std::cell::Cell::new(false));
    let results = done
        .run_until(async {
            let stream = |at: usize| {
                let (queue, kind, stop) = (queues[at].clone(), KINDS[at], std::rc::Rc::clone(&stop));
                tokio::task::spawn_local(async move {
                    let mut calls = 0;
                    while !stop.get() {
                        one_life(kind, &queue, calls).await;
                        calls += 1;
                    }
                    calls
                })
            };
            let streams: Vec<_> = (0..KINDS.len()).map(stream).collect();
            for _ in 0..2 {
                let pushed = |totals: &[(String, u64)]| totals.iter().map(|(_, total)| total).sum::<u64>();
                for queue in &queues {
                    let seen = pushed(&queue.counts().await.unwrap().totals);
                    support::eventually("the streams flow", || async {
                        pushed(&queue.counts().await.unwrap().totals) > seen + 20
                    })
                    .await;
                }
                server.redis_cli(&["SCRIPT", "FLUSH"]);
                server.kill();
                server.restart();
            }
            stop.set(true);
            let mut calls = Vec::new();
            for stream in streams {
                calls.push(stream.await.unwrap());
            }
            calls
        })
        .await;
    assert!(results.iter().all(|&calls| calls > 0), "{results:?}");
    // Each life ends with its job gone: nothing is left over.
    for queue in queues {
        let counts = queue.counts().await.unwrap();
        let left = (counts.delayed, counts.ready, counts.reserved, counts.failed);
        assert_eq!(left, (0, 0, 0, 0), "{queue:?} {:?}", counts.totals);
    }
}

const KINDS: [&str; 6] = ["cancel", "replace", "reschedule", "ack", "requeue", "release"];

/// The life of one job by verbs of one kind, each answer checked.
async fn one_life(kind: &str, queue: &Queue, call: usize) {
    let id = format!("{kind}-{call}");
    let hour = Duration::from_secs(3600);
    queue.push(new_job(&id).key(&*id).delay(if kind == "cancel" { hour } else { Duration::ZERO })).await.unwrap();
    match kind {
        "cancel" => {
            assert_eq!(queue.cancel(&id).await.unwrap().unwrap().was, State::Delayed);
        }
        "replace" => {
            let replacing = new_job(&format!("{id}b")).key(&*id).on_duplicate(duly::OnDuplicate::Replace);
            let pushed = queue.push(replacing).await.unwrap();
            assert!(matches!(pushed, duly::Pushed::Replaced { replaced, .. } if replaced == id));
            assert!(queue.cancel_key(&id).await.unwrap().is_some());
        }
        "reschedule" => {
            queue.reschedule(&id, duly::When::After(duly::Millis::from_secs(60))).await.unwrap();
            assert_eq!(queue.find(&id).await.unwrap().unwrap().job.state, State::Delayed);
            assert!(queue.cancel(&id).await.unwrap().is_some());
        }
        _ => {
            let jobs = queue.reserve(&ReserveOptions::new().lease(hour)).await.unwrap();
            assert_eq!(ids(&jobs).join(" "), id);
            match kind {
                "ack" => jobs[0].ack().await.unwrap(),
                "requeue" => {
                    jobs[0].settle(duly::Outcome::FailNow, "no").await.unwrap();
                    assert_eq!(queue.requeue(std::slice::from_ref(&id)).await.unwrap(), [duly::Requeued::Ready]);
                    assert!(queue.cancel(&id).await.unwrap().is_some());
                }
                _ => {
                    jobs[0].extend(hour).await.unwrap();
                    jobs[0].release(Duration::ZERO).await.unwrap();
                    let again = queue.reserve(&ReserveOptions::new().lease(hour)).await.unwrap();
                    assert_eq!(ids(&again), [id]);
                    again[0].ack().await.unwrap();
                }
            }
            let counts = queue.counts().await.unwrap();
            assert_eq!((counts.ready, counts.reserved, counts.failed), (0, 0, 0));
        }
    }
}

/// How far a verb had come when the server was killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// The server had received it, and had not looked at it.
    NotExecuted,
    /// It was executed, and half of what it did was on its way to the disk.
    HalfWritten,
    /// It was executed and written, and not answered.
    NotAnswered,
}

#[tokio::test]
async fn a_server_killed_before_it_executes_a_verb_does_it_once_when_it_is_back() {
    kill_in_the_middle_of_each_verb(Moment::NotExecuted).await;
}

#[tokio::test]
async fn a_server_killed_while_it_writes_what_a_verb_did_does_it_once_when_it_is_back() {
    kill_in_the_middle_of_each_verb(Moment::HalfWritten).await;
}

#[tokio::test]
async fn a_server_killed_before_it_answers_a_verb_does_it_once_when_it_is_back() {
    kill_in_the_middle_of_each_verb(Moment::NotAnswered).await;
}

/// The verb is called once; that it is sent again, and what it answers then, is duly's own affair.
async fn kill_in_the_middle_of_each_verb(moment: Moment) {
    let (mut server, undisturbed) = (Server::start_with(&AOF), Server::start());
    for &verb in verbs::ALL.iter().chain(verbs::OF_THE_JOB) {
        let name = format!("{verb:?}");
        let control = undisturbed.queue(&name);
        let expected = verb.run(&control, &verb.prepare(&control).await).await.unwrap();

        let proxy = Proxy::before(server.port()).await;
        let client = proxy.builder().build().unwrap();
        client.ping().await.unwrap();
        let queue = client.queue(&name).unwrap();
        let prepared = verb.prepare(&queue).await;
        // The server has forgotten all scripts: those calls that a verb makes before its own are to be one each.
        queue.counts().await.unwrap();
        queue.schedules().list(0, 1).await.unwrap();
        // It waits until the queue is on the list: nothing else is written beside the verb.
        client.queues(1, None).await.unwrap();
        let (_, before) = server.append_only_file();
        if moment == Moment::NotExecuted {
            server.signal("-STOP");
            if verb == Verb::Delete {
                proxy.only(b"{queues}"); // it looks there first
            }
            proxy.next(Fault::PassRequest);
        } else {
            proxy.next_behind(verb.calls_before(), Fault::LoseReply);
        }
        let call = tokio::spawn({
            let queue = queue.clone();
            async move { verb.run(&queue, &prepared).await }
        });
        proxy.happened().await;
        server.kill();
        let (file, after) = server.append_only_file();
        assert_eq!(after > before, moment != Moment::NotExecuted, "{verb:?}");
        if moment == Moment::HalfWritten {
            std::fs::File::options().write(true).open(file).unwrap().set_len(before.midpoint(after)).unwrap();
        }
        server.restart();
        proxy.reopen();
        let answer = call.await.unwrap().unwrap_or_else(|error| panic!("{verb:?}: {error}"));
        if moment != Moment::NotAnswered || !verb.counts_what_it_moved() {
            assert_eq!(answer, expected, "{verb:?}");
        }
        assert_eq!(steady(&server, &name), steady(&undisturbed, &name), "{verb:?}");
    }
}

#[tokio::test]
async fn a_server_killed_before_it_answers_does_each_verb_once_behind_a_slow_line() {
    over_each_line(kill_in_the_middle_of_all_verbs).await;
}

/// The same of all verbs at once, as each waits for a line of its own.
async fn kill_in_the_middle_of_all_verbs(line: Line) {
    let (mut server, undisturbed) = (Server::start_with(&AOF), Server::start());
    let all = || verbs::ALL.iter().chain(verbs::OF_THE_JOB).copied();
    // All verbs, and who kills the server.
    let together = Arc::new(Barrier::new(all().count() + 1));
    let mut calls = JoinSet::new();
    for verb in all() {
        let name = format!("{verb:?}");
        let control = undisturbed.queue(&name);
        let expected = verb.run(&control, &verb.prepare(&control).await).await.unwrap();

        let (line, together) = (SlowLine::before(server.port(), line), Arc::clone(&together));
        calls.spawn(async move {
            let proxy = Proxy::before(line.port()).await;
            let client = proxy.builder().build().unwrap();
            let queue = client.queue(&name).unwrap();
            let prepared = verb.prepare(&queue).await;
            queue.counts().await.unwrap();
            queue.schedules().list(0, 1).await.unwrap();
            together.wait().await;
            proxy.next_behind(verb.calls_before(), Fault::LoseReply);
            let call = tokio::spawn(async move { verb.run(&queue, &prepared).await });
            proxy.happened().await;
            together.wait().await;
            together.wait().await;
            proxy.reopen();
            let answer = call.await.unwrap().unwrap_or_else(|error| panic!("{verb:?}: {error}"));
            if !verb.counts_what_it_moved() {
                assert_eq!(answer, expected, "{verb:?}");
            }
        });
    }
    together.wait().await; // all are prepared
    together.wait().await; // all were executed, and none has an answer
    server.kill();
    server.restart();
    together.wait().await;
    calls.join_all().await;
    for verb in all() {
        let name = format!("{verb:?}");
        assert_eq!(steady(&server, &name), steady(&undisturbed, &name), "{verb:?} over {line:?}");
    }
}

/// Of a client of this server, behind a line if there is one.
fn builder_behind(server: &Server, line: Option<Line>) -> ClientBuilder {
    line.map_or_else(|| server.builder(), |line| SlowLine::before(server.port(), line).builder())
}

/// All that is kept of a queue, without what differs from run to run: ids that duly made, and times but for how many tens
/// of minutes they are from now.
fn steady(server: &Server, queue: &str) -> Vec<String> {
    let now = i128::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let steady = |word: &str| match (word.parse::<i128>(), word.len()) {
        (Ok(time), digits @ (10 | 13 | 16)) => {
            let ms = [time * 1000, time, time / 1000][(digits - 10) / 3];
            format!("now{:+}", (ms - now + 300_000).div_euclid(600_000))
        }
        (Err(_), 16) => "made".to_owned(),
        _ => word.to_owned(),
    };
    let lines = server.dump(":call:").into_iter().filter(|line| line.contains(&format!("{{{queue}}}")));
    lines
        .map(|line| {
            let words = line.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric());
            words
                .map(|word| {
                    let end = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric()).len();
                    steady(&word[..end]) + &word[end..]
                })
                .collect()
        })
        .collect()
}

#[tokio::test]
async fn each_verb_works_after_a_restart_between_two_calls() {
    let mut server = Server::start_with(&AOF);
    let client = server.client();
    let mut prepared = Vec::new();
    for &verb in verbs::ALL {
        prepared.push(verb.prepare(&client.queue(&format!("{verb:?}")).unwrap()).await);
    }
    let before = server.dump(":call:");
    server.kill();
    server.restart();
    assert_eq!(server.dump(":call:"), before, "the append-only file has all that was answered");
    for (verb, prepared) in verbs::ALL.iter().zip(&prepared) {
        verb.run(&client.queue(&format!("{verb:?}")).unwrap(), prepared).await.unwrap();
    }
}

#[tokio::test]
async fn scripts_forgotten_before_every_call_change_no_answer() {
    let server = Server::start();
    for &verb in verbs::ALL {
        let (plain, flushed) = (server.queue(&format!("plain-{verb:?}")), server.queue(&format!("flushed-{verb:?}")));
        let prepared = verb.prepare(&plain).await;
        let expected = verb.run(&plain, &prepared).await.unwrap();
        let prepared = verb.prepare(&flushed).await;
        server.redis_cli(&["SCRIPT", "FLUSH"]);
        assert_eq!(verb.run(&flushed, &prepared).await.unwrap(), expected, "{verb:?}");
        assert_eq!(summary(&flushed).await, summary(&plain).await, "{verb:?}");
    }
}

#[tokio::test]
async fn a_frozen_server_is_a_timeout_for_every_verb_within_the_deadline() {
    let server = Server::start();
    let client = server
        .builder()
        .command_timeout(Duration::from_secs(1))
        .deadline(Duration::from_secs(3))
        .fail_fast(false)
        .build()
        .unwrap();
    let mut tasks = Vec::new();
    for &verb in verbs::ALL {
        let name = format!("{verb:?}");
        tasks.push((verb, client.queue(&name).unwrap(), verb.prepare(&server.queue(&name)).await));
    }
    support::eventually("it is connected", || async { client.ping().await.is_ok() }).await;
    server.signal("-STOP");
    let started = Instant::now();
    let calls = tasks.into_iter().map(|(verb, queue, prepared)| {
        tokio::spawn(async move {
            let error = verb.run(&queue, &prepared).await.unwrap_err();
            assert_kind(&error, ErrorKind::Timeout);
            (verb, queue)
        })
    });
    let calls: Vec<_> = calls.collect();
    let mut ended = Vec::new();
    for call in calls {
        ended.push(call.await.unwrap());
    }
    let took = started.elapsed();
    server.signal("-CONT");
    assert!(took < Duration::from_secs(30), "{took:?}");
    // What was frozen on its way is executed by now, or never: either way the queue is whole and serves.
    for (verb, queue) in ended {
        let queue = server.queue(queue.name());
        let counts = queue.counts().await.unwrap();
        let all = counts.delayed + counts.ready + counts.reserved + counts.failed;
        assert!(all <= if matches!(verb, Verb::PushBatch | Verb::PushMany) { 20 } else { 1 }, "{verb:?}: {counts:?}");
        queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_waiting_reserve_survives_a_killed_and_a_frozen_server() {
    a_reserve_waits(None).await;
    over_each_line(|line| a_reserve_waits(Some(line))).await;
}

async fn a_reserve_waits(line: Option<Line>) {
    let mut server = Server::start_with(&AOF);
    let queue = builder_behind(&server, line).build().unwrap().queue("orders").unwrap();
    let other = server.queue("orders");
    for fault in ["killed", "frozen"] {
        let waiting = queue.clone();
        let wait =
            tokio::spawn(async move { waiting.reserve(&ReserveOptions::new().wait(Duration::from_secs(300))).await });
        support::eventually("it waits", || async {
            server.redis_cli(&["INFO", "clients"]).contains("blocked_clients:1")
        })
        .await;
        if fault == "killed" {
            server.kill();
            server.restart();
        } else {
            server.signal("-STOP");
            server.signal("-CONT");
        }
        other.push(new_job(fault)).await.unwrap();
        let jobs = wait.await.unwrap().unwrap();
        assert_eq!(ids(&jobs), [fault]);
        jobs[0].ack().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_unreachable_within_the_deadline_and_the_message_says_what_to_do() {
    let mut server = Server::start();
    let queue = server
        .builder()
        .connect_timeout(Duration::from_millis(100))
        .deadline(Duration::from_millis(300))
        .build()
        .unwrap()
        .queue("orders")
        .unwrap();
    let prepared = Verb::Ack.prepare(&server.queue("orders")).await;
    support::eventually("it is connected", || async { queue.counts().await.is_ok() }).await;
    server.kill();
    let started = Instant::now();
    for verb in [Verb::Push, Verb::Reserve, Verb::Ack, Verb::Extend, Verb::Cancel] {
        let error = verb.run(&queue, &prepared).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout), "{error}");
        verbs::assert_keeps_secrets(&error);
    }
    let error = queue.reserve(&ReserveOptions::new().wait(Duration::from_millis(500))).await.unwrap_err();
    assert_kind(&error, ErrorKind::Unreachable);
    // By the usual deadline it would be a minute and a half.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());

    let new = server.client();
    let error = new.ping().await.unwrap_err();
    assert_kind(&error, ErrorKind::Unreachable);
    let text = error.to_string();
    assert!(text.contains(&server.port().to_string()) && text.contains("embedded:"), "{text}");
}

#[tokio::test]
async fn pushes_that_were_answered_are_there_after_kill_and_restart() {
    pushes_flow(None, 100).await;
    over_each_line(|line| pushes_flow(Some(line), 3)).await;
}

/// Until the server is killed behind so many of them.
async fn pushes_flow(line: Option<Line>, least: usize) {
    let mut server = Server::start_with(&AOF);
    let client = builder_behind(&server, line).deadline(Duration::from_secs(12)).build().unwrap();
    let queue = client.queue("orders").unwrap();
    let killed = Arc::new(AtomicBool::new(false));
    let is_killed = Arc::clone(&killed);
    let pushing = tokio::spawn(async move {
        let (mut answered, mut unanswered) = (HashSet::new(), 0);
        loop {
            match queue.push(NewJob::new(&1).unwrap()).await {
                Ok(pushed) => drop(answered.insert(pushed.id().to_owned())),
                Err(_) => unanswered += 1,
            }
            if is_killed.load(Ordering::Relaxed) && unanswered > 0 {
                return (answered, unanswered);
            }
        }
    });
    support::eventually("pushes flow", || async {
        server.redis_cli(&["HLEN", "duly:{orders}:jobs"]).trim().parse().is_ok_and(|pushed: usize| pushed >= least)
    })
    .await;
    server.kill();
    killed.store(true, Ordering::Relaxed);
    let (answered, unanswered) = pushing.await.unwrap();
    server.restart();
    let queue = server.queue("orders");
    let mut found = HashSet::new();
    loop {
        let jobs = queue.reserve(&ReserveOptions::new().max(1000)).await.unwrap();
        if jobs.is_empty() {
            break;
        }
        found.extend(ids(&jobs));
    }
    assert!(answered.is_subset(&found), "lost: {:?}", answered.difference(&found).collect::<Vec<_>>());
    assert!(found.len() <= answered.len() + unanswered, "a push may be in without an answer, and no other");
}

/// Frozen first, so that the push is under way for certain.
#[tokio::test]
async fn an_embedded_server_killed_in_the_middle_of_a_push_is_revived_for_that_push() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("embedded:{}", folder.path().display());
    let client = duly::Client::builder().url(&url).command_timeout(Duration::from_secs(1)).build().unwrap();
    for durability in [Durability::None, Durability::Replicas { count: 1 }] {
        client.queue("warm").unwrap().push(new_job("first").on_duplicate(OnDuplicate::Replace)).await.unwrap();
        let pid: u32 = std::fs::read_to_string(folder.path().join("server.pid")).unwrap().trim().parse().unwrap();
        support::signal(pid, "-STOP");
        let queue = client.queue(&format!("orders-{}", durability != Durability::None)).unwrap();
        let push = tokio::spawn({
            let queue = queue.clone();
            async move { queue.push(new_job("a").durability(durability)).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await; // sent by now, or else it is sent to the dead one
        support::signal(pid, "-KILL");
        let pushed = push.await.unwrap();
        match durability {
            Durability::None => assert_eq!(pushed.unwrap().id(), "a"),
            // It has no replicas; so much is known only once it was revived.
            _ => assert_kind(&pushed.unwrap_err(), ErrorKind::NotDurable),
        }
        assert_eq!(queue.counts().await.unwrap().ready, 1);
    }
}
