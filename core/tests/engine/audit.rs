//! An audit finds exactly what is broken, mends it so that every job runs once, and says nothing about a healthy queue in use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::Server;
use duly::{AuditOptions, AuditReport, Invariant, NewJob, OnDuplicate, Queue, ReserveOptions, State};

fn job(id: &str) -> NewJob {
    NewJob::new(&serde_json::json!({"id": id})).unwrap().id(id)
}

/// A queue with a job in each state and some more that are ready: `d` delayed (level 3, key `k`), `r` reserved, `f` failed,
/// `a`, `b`, `c` ready.
async fn queue_with_all(server: &Server) -> Queue {
    let queue = server.queue("orders");
    queue.push(job("f").max_retries(0)).await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("no").await.unwrap();
    queue.push(job("r")).await.unwrap();
    let held = queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(3600))).await.unwrap();
    assert_eq!(held[0].id(), "r");
    queue.push(job("d").key("k").priority(3).delay(Duration::from_secs(3600))).await.unwrap();
    for id in ["a", "b", "c"] {
        queue.push(job(id)).await.unwrap();
    }
    // A cancelled job leaves a stale entry; its id is used again.
    queue.push(job("x")).await.unwrap();
    queue.cancel("x").await.unwrap();
    queue.push(job("x")).await.unwrap();
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
    queue
}

fn found(report: &AuditReport) -> Vec<(Invariant, &str, bool)> {
    report.findings.iter().map(|one| (one.invariant, one.id.as_str(), one.repaired)).collect()
}

/// Every job runs exactly once: how often each id was reserved when all are due and requeued.
async fn run_all(queue: &Queue) -> BTreeMap<String, u32> {
    queue.requeue_all().await.unwrap();
    for delayed in queue.peek(State::Delayed, 0, 100).await.unwrap() {
        queue.reschedule(&delayed.envelope.id, duly::When::Now).await.unwrap();
    }
    let mut runs = BTreeMap::new();
    loop {
        let jobs = queue.reserve(&ReserveOptions::new().max(3)).await.unwrap();
        if jobs.is_empty() {
            break;
        }
        for job in &jobs {
            *runs.entry(job.id().to_owned()).or_insert(0) += 1;
            assert!(job.ack().await.is_ok());
        }
    }
    runs
}

/// Damages a fresh queue with `redis-cli` lines (`@` stands for the queue's keys), and checks finding, repair and the runs.
async fn check(damage: &[&str], expected: &[(Invariant, &str)], not_run: &[&str]) {
    check_with(damage, expected, not_run, "HLEN @meta").await;
}

fn redis_line(server: &Server, line: &str) {
    let line = line.replace('@', "duly:{orders}:").replace("\\t", "\t");
    let words: Vec<&str> = line.split(' ').collect();
    let said = server.redis_cli(&words);
    assert!(!said.contains("ERR") && !said.contains("WRONGTYPE"), "{line}: {said}");
}

/// The same, with a line of its own between the repair and the runs.
async fn check_with(damage: &[&str], expected: &[(Invariant, &str)], not_run: &[&str], before_run: &str) {
    let server = Server::start();
    let queue = queue_with_all(&server).await;
    for line in damage {
        redis_line(&server, line);
    }
    let sees: Vec<_> = expected.iter().map(|&(invariant, id)| (invariant, id, false)).collect();
    let report = queue.audit(AuditOptions::new()).await.unwrap();
    assert_eq!(found(&report), sees, "{damage:?} {report:?}");

    let mends: Vec<_> = expected.iter().map(|&(invariant, id)| (invariant, id, true)).collect();
    let report = queue.audit(AuditOptions::new().repair(true)).await.unwrap();
    assert_eq!(found(&report), mends, "{damage:?} {report:?}");
    let report = queue.audit(AuditOptions::new()).await.unwrap();
    assert!(report.is_clean(), "{damage:?} {report:?}");

    redis_line(&server, before_run);
    let runs = run_all(&queue).await;
    let all = ["a", "b", "c", "d", "f", "x"].into_iter().chain(runs.contains_key("r").then_some("r"));
    let wanted: BTreeMap<String, u32> = all.filter(|id| !not_run.contains(id)).map(|id| (id.to_owned(), 1)).collect();
    assert_eq!(runs, wanted, "{damage:?}");
    let report = queue.audit(AuditOptions::new()).await.unwrap();
    assert!(report.is_clean(), "{damage:?} {report:?}");
}

#[tokio::test]
async fn an_entry_without_a_record_is_removed() {
    check(&["HDEL @jobs d", "HDEL @keys k"], &[(Invariant::Record, "d")], &["d"]).await;
    check(&["HDEL @jobs f", "HDEL @returned f"], &[(Invariant::Record, "f")], &["f"]).await;
    check(&["HDEL @jobs r"], &[(Invariant::Record, "r")], &["r"]).await;
    check(&["HDEL @jobs b"], &[(Invariant::Record, "b")], &["b"]).await;
}

#[tokio::test]
async fn an_orphan_is_ready_again() {
    check(&["LREM @ready:5 0 b"], &[(Invariant::OneState, "b")], &[]).await;
    check(&["DEL @delayed"], &[(Invariant::OneState, "d")], &[]).await;
}

#[tokio::test]
async fn an_orphan_that_cannot_be_decoded_fails() {
    let server = Server::start();
    let queue = queue_with_all(&server).await;
    server.redis_cli(&["HSET", "duly:{orders}:jobs", "odd", "{broken"]);
    let report = queue.audit(AuditOptions::new().repair(true)).await.unwrap();
    assert_eq!(found(&report)[0], (Invariant::OneState, "odd", true));
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
    assert_eq!(queue.find("odd").await.unwrap().unwrap().job.state, State::Failed);
}

#[tokio::test]
async fn a_broken_lease_is_reclaimed() {
    check(&["ZREM @reserved r"], &[(Invariant::Lease, "r")], &[]).await;
    check(&["HDEL @leases r"], &[(Invariant::Lease, "r")], &[]).await;
}

#[tokio::test]
async fn a_job_in_two_states_stays_in_one() {
    check(&["ZADD @delayed 1 r"], &[(Invariant::OneState, "r")], &[]).await;
    check(&["ZADD @failed 1 d", "HDEL @keys k"], &[(Invariant::OneState, "d"), (Invariant::Key, "d")], &[]).await;
    check(&["RPUSH @ready:5 r"], &[(Invariant::OneState, "r")], &[]).await;
    check(&["RPUSH @ready:5 b"], &[(Invariant::OneState, "b")], &[]).await;
    check(&["RPUSH @ready:3 b"], &[(Invariant::OneState, "b")], &[]).await;
}

#[tokio::test]
async fn wrong_stale_counts_are_put_right() {
    check(&["HSET @stale 5:b 1", "HINCRBY @meta stale_entries 1"], &[(Invariant::Stale, "b")], &[]).await;
    check(&["HSET @meta stale_entries 0"], &[(Invariant::Stale, "")], &[]).await;
    check(&["HSET @stale 5:nobody 2", "HINCRBY @meta stale_entries 2"], &[(Invariant::Stale, "nobody")], &[]).await;
}

#[tokio::test]
async fn what_others_wrote_among_the_stale_counts_counts_for_nothing_and_goes() {
    let server = Server::start();
    let queue = queue_with_all(&server).await;
    // The job `x` has a stale entry. What is in the place of its count, and of that of `b`, is no number from 1 on.
    for line in ["HSET @stale junk 5 x:y 7 : 1 5:nobody 1.5 3:nobody -2 5:b abc 5:x 01", "HSET @meta stale_entries 14"]
    {
        redis_line(&server, line);
    }
    let expected = [(Invariant::OneState, "x"), (Invariant::Stale, "")];
    let report = queue.audit(AuditOptions::new()).await.unwrap();
    assert_eq!(found(&report), expected.map(|(invariant, id)| (invariant, id, false)), "{report:?}");
    let said = &report.findings[1].detail;
    assert_eq!(
        said,
        "14 stale entries are noted, and there are 0; 7 of the fields that count them were not written by duly"
    );
    let report = queue.audit(AuditOptions::new().repair(true)).await.unwrap();
    assert_eq!(found(&report), expected.map(|(invariant, id)| (invariant, id, true)), "{report:?}");
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
    assert_eq!(server.redis_cli(&["HGETALL", "duly:{orders}:stale"]), "5:x\n1\n");
    assert_eq!(queue.counts().await.unwrap().ready, 4);
    assert!(run_all(&queue).await.values().all(|&runs| runs == 1));
}

#[tokio::test]
async fn a_total_of_stale_entries_that_is_no_number_is_put_right() {
    check(&["HSET @meta stale_entries abc"], &[(Invariant::Stale, "")], &[]).await;
    check(
        &["HSET @meta stale_entries 1.5", "HSET @stale 5:nobody 2"],
        &[(Invariant::Stale, "nobody"), (Invariant::Stale, "")],
        &[],
    )
    .await;
}

#[tokio::test]
async fn keys_point_to_the_jobs_that_carry_them() {
    check(&["HSET @keys gone nobody"], &[(Invariant::Key, "nobody")], &[]).await;
    check(&["HSET @keys other a"], &[(Invariant::Key, "a")], &[]).await;
    check(&["HDEL @keys k"], &[(Invariant::Key, "d")], &[]).await;
}

#[tokio::test]
async fn what_came_back_belongs_to_a_job_and_can_be_read() {
    check(&["HSET @returned nobody 1;1;x"], &[(Invariant::Returned, "nobody")], &[]).await;
    check(&["HSET @returned a rubbish"], &[(Invariant::Returned, "a")], &[]).await;
}

#[tokio::test]
async fn levels_and_members_are_put_right() {
    check(&["HSET @meta levels 5"], &[(Invariant::Levels, "")], &[]).await;
    check(
        &["ZREM @delayed d\\t3", "ZADD @delayed 9e12 d\\t7"],
        &[(Invariant::Member, "d"), (Invariant::Levels, "")],
        &[],
    )
    .await;
    // It has been ready, too: its entry stays one that does not count.
    check(
        &[
            "RPUSH @ready:3 d",
            "HSET @stale 3:d 1",
            "HINCRBY @meta stale_entries 1",
            "ZREM @delayed d\\t3",
            "ZADD @delayed 9e12 d\\t5",
        ],
        &[(Invariant::Member, "d")],
        &[],
    )
    .await;
    // Of several, one stays; and of a job that is gone, none.
    let several = ["ZADD @delayed 9e12 d", "ZADD @delayed 9e12 d\\t5"];
    let without = [&["ZREM @delayed d\\t3"], &several[..]].concat();
    check(&without, &[(Invariant::Member, "d"), (Invariant::Member, "d")], &[]).await;
    let gone = [&["HDEL @jobs d", "HDEL @keys k"], &several[..]].concat();
    check(&gone, &[(Invariant::Record, "d"), (Invariant::Record, "d"), (Invariant::Record, "d")], &["d"]).await;
}

/// The names of `b` and `r` get limits: `b` is parked, `r` has a place.
const LIMITED: &[&str] = &[
    "HSET @meta limits 1;1;;mail parked 1",
    "HSET @jobs b 5;5;0;4;mail{\"data\":1} r 5;5;0;4;mail{\"data\":1}",
    "LREM @ready:5 0 b",
    "ZADD @parked 68169720922113 b",
    "ZADD @places 1 r",
];

async fn check_limited(damage: &[&str], expected: &[(Invariant, &str)], not_run: &[&str]) {
    // The holder of the one place goes last, or what is parked would not run.
    let lines: Vec<&str> = LIMITED.iter().chain(damage).copied().collect();
    check_with(&lines, expected, not_run, "HSET @meta limits 1;9;;mail").await;
}

#[tokio::test]
async fn what_limits_of_names_keep_is_put_right() {
    check_limited(&[], &[], &[]).await;
    check_limited(&["HDEL @jobs b"], &[(Invariant::Record, "b")], &["b"]).await;
    check_limited(&["RPUSH @ready:5 b"], &[(Invariant::OneState, "b")], &[]).await;
    check_limited(&["ZADD @delayed 1 b"], &[(Invariant::OneState, "b")], &[]).await;
    check_limited(&["ZREM @places r"], &[(Invariant::Place, "r")], &[]).await;
    check_limited(&["ZADD @places 2 r"], &[(Invariant::Place, "r")], &[]).await;
    check_limited(&["ZADD @places 1 a"], &[(Invariant::Place, "a")], &[]).await;
    check_limited(&["ZADD @places 1 nobody"], &[(Invariant::Place, "nobody")], &[]).await;
    check_limited(&["HDEL @leases r"], &[(Invariant::Lease, "r")], &[]).await;
    check_limited(&["ZADD @parked 156130651144193 b"], &[(Invariant::Place, "b")], &[]).await;
    check_limited(&["ZREM @parked b"], &[(Invariant::OneState, "b")], &[]).await;
    // At a level that nobody looks at: 12.5 * 2^42 + 1.
    let lower = ["HSET @jobs b 2;5;0;4;mail{\"data\":1}", "ZADD @parked 54975581388801 b"];
    check_limited(&lower, &[(Invariant::Levels, "")], &[]).await;
}

#[tokio::test]
async fn a_note_that_cannot_be_read_stops_nobody() {
    let server = Server::start();
    let queue = queue_with_all(&server).await;
    server.redis_cli(&["HSET", "duly:{orders}:returned", "a", "rubbish"]);
    let jobs = queue.reserve(&ReserveOptions::new().max(10)).await.unwrap();
    assert_eq!(jobs.iter().map(duly::Job::id).collect::<Vec<_>>(), ["b", "c", "x"]);
    assert_eq!(queue.find("a").await.unwrap().unwrap().job.state, State::Failed);
}

#[tokio::test]
async fn long_lists_are_read_in_pages() {
    let server = Server::start();
    let queue = server.queue("orders");
    let jobs = (0..2300).map(|number| job(&format!("j{number}")));
    queue.push_many(jobs, |_| {}).await.unwrap();
    for number in 0..1200 {
        queue.cancel(&format!("j{}", number * 2)).await.unwrap();
    }
    server.redis_cli(&["HDEL", "duly:{orders}:jobs", "j1401"]);
    let report = queue.audit(AuditOptions::new().repair(true)).await.unwrap();
    assert_eq!(found(&report), [(Invariant::Record, "j1401", true)]);
    assert_eq!(report.entries, 2299, "that of the first job went with it");
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
    assert_eq!(run_all(&queue).await.len(), 1149);
    assert_eq!(queue.counts().await.unwrap().ready, 0);
}

#[tokio::test]
async fn an_audit_of_a_queue_in_use_finds_nothing() {
    let server = Server::start();
    let audited = server.queue("orders");
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut tasks = tokio::task::JoinSet::new();
    for producer in 0..2 {
        let (queue, stopped) = (server.queue("orders"), stopped.clone());
        tasks.spawn(async move {
            for round in 0_u64.. {
                let batch = (0..50).map(|number| {
                    let id = format!("p{producer}-{round}-{number}");
                    let job = job(&id).priority(u8::from(number % 7 == 0) * 2 + 3);
                    let job = if number % 5 == 0 { job.delay(Duration::from_millis(number)) } else { job };
                    if number % 3 == 0 { job.key(id) } else { job }
                });
                queue.push_batch(batch.collect()).await.unwrap();
                queue.cancel(&format!("p{producer}-{round}-7")).await.unwrap();
                let _ =
                    queue.reschedule(&format!("p{producer}-{round}-8"), duly::When::After(duly::Millis::new(20))).await;
                if *stopped.borrow() {
                    return;
                }
            }
        });
    }
    for worker in 0..2_u64 {
        let (queue, stopped) = (server.queue("orders"), stopped.clone());
        tasks.spawn(async move {
            while !*stopped.borrow() {
                let jobs = queue.reserve(&ReserveOptions::new().max(40)).await.unwrap();
                let (acked, others) = jobs.split_at(jobs.len() * 3 / 4);
                queue.ack_all(acked).await.unwrap();
                for (number, job) in (worker..).zip(others) {
                    let settled = match number % 3 {
                        0 => job.release(Duration::ZERO).await,
                        1 => job.settle(duly::Outcome::FailNow, "no").await.map(|_| ()),
                        _ => job.ack().await,
                    };
                    // It may have been cancelled.
                    assert!(settled.is_ok() || job.envelope.id.ends_with("-7"));
                }
            }
        });
    }
    for _ in 0..2 {
        let report = audited.audit(AuditOptions::new().repair(true)).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert!(report.jobs > 0);
    }
    stop.send(true).unwrap();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert!(audited.audit(AuditOptions::new()).await.unwrap().is_clean());
}

#[tokio::test]
async fn an_audit_names_a_key_that_somebody_else_wrote() {
    let server = Server::start();
    let queue = queue_with_all(&server).await;
    for name in ["jobs", "ready:5", "delayed", "reserved", "leases", "failed", "returned", "keys", "stale", "meta"] {
        let (key, aside) = (format!("duly:{{orders}}:{name}"), format!("duly:{{orders}}:aside:{name}"));
        server.redis_cli(&["RENAME", &key, &aside]);
        server.redis_cli(&["SET", &key, "x"]);
        let error = queue.audit(AuditOptions::new()).await.unwrap_err();
        assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{name}: {error}");
        assert!(error.to_string().contains(&format!("'{key}'")), "{name}: {error}");
        server.redis_cli(&["DEL", &key]);
        server.redis_cli(&["RENAME", &aside, &key]);
    }
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
}

/// Audits with repair while something goes on; says what they found.
async fn audited_beside(queue: &Queue, audits: usize, mut go_on: impl AsyncFnMut(u64)) -> Vec<AuditReport> {
    let is_over = AtomicBool::new(false);
    let meanwhile = async {
        let mut rounds = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            go_on(rounds).await;
            rounds += 1;
        }
        rounds
    };
    let audit = async {
        let mut reports = Vec::new();
        for _ in 0..audits {
            reports.push(queue.audit(AuditOptions::new().repair(true)).await.unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
        reports
    };
    let (rounds, reports) = tokio::join!(meanwhile, audit);
    assert!(rounds > audits as u64 / 2, "only {rounds} rounds");
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
    reports
}

fn assert_clean(reports: &[AuditReport]) {
    for report in reports {
        assert!(report.is_clean(), "{report:?}");
    }
}

/// Pushes `k` ready and delayed in turn, so that it is replaced each time.
async fn push_and_withdraw(queue: &Queue, round: u64, size: u64) {
    let replaced = |job: NewJob| job.id("k").key("k").on_duplicate(OnDuplicate::Replace);
    let data = "x".repeat(usize::try_from(size).unwrap());
    // A rhythm in which each page and each look finds it elsewhere.
    let pause = |part| tokio::time::sleep(Duration::from_micros(round % part * 300));
    queue.push(replaced(NewJob::new(&data).unwrap())).await.unwrap();
    pause(7).await;
    queue.push(replaced(NewJob::new(&data).unwrap().delay(Duration::from_secs(3600)))).await.unwrap();
    pause(5).await;
}

#[tokio::test]
async fn jobs_that_are_pushed_and_withdrawn_meanwhile_are_no_defects() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push_many((0..2000).map(|number| job(&format!("j{number}"))), |_| {}).await.unwrap();
    for number in (0..1000).step_by(3) {
        queue.cancel(&format!("j{number}")).await.unwrap();
    }
    assert_clean(&audited_beside(&queue, 2, async |round| push_and_withdraw(&queue, round, round % 97).await).await);
}

/// Of equal size, and with an older entry deep in the list that does not count: none of its entries is made to count again.
#[tokio::test]
async fn a_job_that_is_withdrawn_beside_its_older_entry_runs_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(job("k").key("k")).await.unwrap();
    queue.push_many((0..1500).map(|number| job(&format!("j{number}"))), |_| {}).await.unwrap();
    assert_clean(&audited_beside(&queue, 6, async |round| push_and_withdraw(&queue, round, 10).await).await);
    let runs = run_all(&queue).await;
    assert_eq!((runs.len(), runs.values().max()), (1501, Some(&1)));
}

/// Of each an entry stays, so ids repeat, and one page looks like another.
#[tokio::test]
async fn jobs_that_were_replaced_in_turn_are_no_defects() {
    let server = Server::start();
    let queue = server.queue("orders");
    // Behind it the entries stay.
    queue.push(job("first")).await.unwrap();
    for _ in 0..75 {
        let replaced = |n: usize| job(&format!("j{n}")).on_duplicate(OnDuplicate::Replace);
        queue.push_many((0..150).map(replaced), |_| {}).await.unwrap();
    }
    let report = queue.audit(AuditOptions::new().repair(true)).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert!(report.entries > 10_000, "{report:?}");
    let others = |round: u64| (0..200).map(move |number| job(&format!("other{round}-{number}")));
    let reports = audited_beside(&queue, 2, async |round| match round {
        0..3 => queue.push_many(others(round), |_| {}).await.map(|_| ()).unwrap(),
        _ => tokio::time::sleep(Duration::from_millis(1)).await,
    });
    assert_clean(&reports.await);
    let runs = run_all(&queue).await;
    assert_eq!((0..150).filter(|n| runs.get(&format!("j{n}")) == Some(&1)).count(), 150);
}

/// More entries that do not count than one page has, while there are more of them and less.
#[tokio::test]
async fn the_number_of_stale_entries_is_right_beside_traffic() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push_many((0..2100).map(|number| job(&format!("j{number}"))), |_| {}).await.unwrap();
    for number in 1000..2100 {
        queue.cancel(&format!("j{number}")).await.unwrap();
    }
    let reports = audited_beside(&queue, 5, async |round| {
        queue.cancel(&format!("j{}", 999 - round % 900)).await.unwrap();
        let jobs = queue.reserve(&ReserveOptions::new()).await.unwrap();
        queue.ack_all(&jobs).await.unwrap();
        queue.push(job(&format!("j{}", 999 - round % 900))).await.unwrap();
    });
    assert_clean(&reports.await);
    let left = queue.counts().await.unwrap().ready;
    assert_eq!(run_all(&queue).await.len() as u64, left);
    assert_eq!(queue.counts().await.unwrap().ready, 0);
}

#[tokio::test]
async fn an_audit_that_fails_behind_a_mend_says_how_many_there_were() {
    let server = Server::start();
    let queue = server.client().partitioned_queue("orders", 2).unwrap();
    queue.push_many((0..20).map(|number| job(&format!("j{number}"))), |_| {}).await.unwrap();
    let lost = server.redis_cli(&["LLEN", "duly:{orders/0}:ready:5"]);
    server.redis_cli(&["DEL", "duly:{orders/0}:ready:5", "duly:{orders/1}:keys"]);
    server.redis_cli(&["SET", "duly:{orders/1}:keys", "x"]);
    let error = queue.audit(AuditOptions::new().repair(true)).await.unwrap_err().to_string();
    let says = format!("{0} of {0} findings were mended before that", lost.trim());
    assert!(error.contains(&says) && !error.contains("nothing was changed"), "{error}");
}
