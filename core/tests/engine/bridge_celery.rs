//! Tasks of Celery come over, and what only Celery can run stays there: python-tests/test_coming_from.py has the same with its own code.

use std::time::Duration;

use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use duly::{Bridge, BridgeReport, Client, ErrorKind, OldQueue, ReserveOptions, State};

/// Body: `[[], {}, embed]` with a chain or without, in base64.
fn message(number: usize, is_chained: bool) -> String {
    let body = if is_chained {
        "W1tdLCB7fSwgeyJjYWxsYmFja3MiOiBudWxsLCAiZXJyYmFja3MiOiBudWxsLCAiY2hhaW4iOiBbeyJ0YXNrIjogIm4ifV0sICJjaG9yZCI6IG51bGx9XQ=="
    } else {
        "W1tdLCB7fSwgeyJjYWxsYmFja3MiOiBudWxsLCAiZXJyYmFja3MiOiBudWxsLCAiY2hhaW4iOiBudWxsLCAiY2hvcmQiOiBudWxsfV0="
    };
    format!(
        r#"{{"body":"{body}","content-encoding":"utf-8","content-type":"application/json","headers":{{"task":"close","id":"t-{number}","eta":null,"expires":null,"retries":0,"timelimit":[null,null]}},"properties":{{"priority":0,"body_encoding":"base64","delivery_info":{{"exchange":"","routing_key":"orders"}}}}}}"#
    )
}

fn is_chained(number: usize) -> bool {
    number % 3 == 1
}

fn celery() -> OldQueue {
    OldQueue::celery("", &["orders"], Duration::from_secs(60)).unwrap()
}

async fn drain(from: &Client, to: &Client) -> BridgeReport {
    Bridge::new(from, to, celery()).drain(|_| {}).await.unwrap()
}

fn send(server: &Server, numbers: impl IntoIterator<Item = usize>) {
    let messages: Vec<String> = numbers.into_iter().map(|number| message(number, is_chained(number))).collect();
    for some in messages.chunks(200) {
        let all: Vec<&str> = ["LPUSH", "orders"].into_iter().chain(some.iter().map(String::as_str)).collect();
        server.redis_cli(&all);
    }
}

/// The ids of what lies in the old list, the oldest first.
fn left(server: &Server) -> Vec<usize> {
    let entries = server.redis_cli(&["--raw", "LRANGE", "orders", "0", "-1"]);
    let id = |line: &str| line.split_once(r#""id":"t-"#)?.1.split_once('"')?.0.parse().ok();
    entries.lines().rev().filter_map(id).collect()
}

async fn work(client: &Client, done: &mut Vec<usize>) {
    let queue = client.queue("orders").unwrap();
    for job in queue.reserve(&ReserveOptions::new().max(1000)).await.unwrap() {
        done.push(job.envelope.headers["old-id"][2..].parse().unwrap());
        job.ack().await.unwrap();
    }
}

/// As in `bridge::break_off`, of jobs of which some stay.
async fn break_off(at_old: bool, fault: Fault, calls: usize) {
    // On a busy machine a call before that one may have taken too long, and the bridge broken off there.
    for _ in 0..5 {
        if broke_off(at_old, fault, calls).await {
            return;
        }
    }
    panic!("no call was lost: at the old server: {at_old}, {fault:?} behind {calls} calls");
}

/// Says whether the call was lost.
async fn broke_off(at_old: bool, fault: Fault, calls: usize) -> bool {
    const JOBS: usize = 1100; // three batches
    let (old, new) = (Server::start(), Server::start());
    send(&old, 0..JOBS);
    let proxy = Proxy::before(if at_old { old.port() } else { new.port() }).await;
    let deadline = Duration::from_secs(1);
    let broken = proxy.builder().deadline(deadline).command_timeout(deadline).build().unwrap();
    support::eventually("it connects", || async { broken.ping().await.is_ok() }).await;
    let (from, to) = if at_old { (broken, new.client()) } else { (old.client(), broken) };
    proxy.next_behind(calls, fault);
    let first = Bridge::new(&from, &to, celery()).drain(|_| {}).await;
    let has_ended = first.is_ok();
    let mut done = Vec::new();
    work(&new.client(), &mut done).await;
    drop((first, from, to));
    support::eventually("another one ends", || async {
        for lock in new.redis_cli(&["--raw", "KEYS", "duly:{bridge:*}:lock"]).lines() {
            new.redis_cli(&["DEL", lock]);
        }
        Bridge::new(&old.client(), &new.client(), celery()).drain(|_| {}).await.is_ok()
    })
    .await;
    work(&new.client(), &mut done).await;
    work(&new.client(), &mut done).await;
    done.sort_unstable();
    let mut left = left(&old);
    left.sort_unstable();
    let (stay, come): (Vec<usize>, Vec<usize>) = (0..JOBS).partition(|&number| is_chained(number));
    assert_eq!(done, come, "at the old server: {at_old}, {fault:?} behind {calls} calls");
    assert_eq!(left, stay, "at the old server: {at_old}, {fault:?} behind {calls} calls");
    let is_lost = proxy.lost() != (0, 0);
    assert!(!has_ended || is_lost, "it makes fewer calls: at the old server: {at_old}, {fault:?} behind {calls} calls");
    is_lost
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_is_neither_lost_nor_doubled_wherever_the_bridge_dies() {
    // Of the old server one call says that it does not know the script, eleven ask for batches of other bridges, and then one asks for a batch
    // of each of eleven keys in turn: the list is the second one. Of duly's server the bridge wants eleven locks first.
    let at_old = [2, 13, 14, 24, 25, 35, 36, 46, 47, 57, 58].map(|calls| (true, calls));
    for both in at_old.into_iter().chain([12, 13, 14, 15, 16].map(|calls| (false, calls))).collect::<Vec<_>>().chunks(2)
    {
        let mut breaking = tokio::task::JoinSet::new();
        for &(at_old, calls) in both {
            for fault in [Fault::LoseRequest, Fault::LoseReply] {
                breaking.spawn(break_off(at_old, fault, calls));
            }
        }
        breaking.join_all().await;
    }
}

#[tokio::test]
async fn what_stays_keeps_its_order_and_what_comes_later_comes_over() {
    let server = Server::start();
    let client = server.client();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (from, to) = (client.clone(), client.clone());
    send(&server, 0..30);
    let following =
        tokio::spawn(
            async move { Bridge::new(&from, &to, celery()).follow(async { drop(stopped.await) }, |_| {}).await },
        );
    let stay = |to| (0..to).filter(|&number| is_chained(number)).collect::<Vec<_>>();
    support::eventually("the others are over", || async { left(&server) == stay(30) }).await;
    // A worker of Celery takes one of those that stay, and producers go on.
    server.redis_cli(&["RPOP", "orders"]);
    send(&server, 30..60);
    support::eventually("the next ones are over", || async {
        let mut now = left(&server);
        now.sort_unstable();
        now == stay(60)[1..]
    })
    .await;
    stop.send(()).unwrap();
    let report = following.await.unwrap().unwrap();
    assert_eq!(report.moved(), 40, "{report}");
    assert_eq!(report.stays().values().sum::<u64>(), 19, "{report}");
    let report = drain(&client, &client).await;
    assert_eq!((report.moved(), report.is_complete(), report.stays().len()), (0, false, 1), "{report}");
    assert!(report.to_string().contains("19 jobs stay in the old queue: the task is part of a workflow"), "{report}");
    assert_eq!(client.queue("orders").unwrap().peek(State::Ready, 0, 1000).await.unwrap().len(), 40);
    assert_eq!(server.redis_cli(&["--raw", "KEYS", "*orders}:duly:*"]).trim(), "{orders}:duly:state");
}

/// What a worker has is left to it until its time is over; then the task comes over, or stays as it is.
#[tokio::test]
async fn unacked_tasks_come_over_when_their_time_is_over() {
    let server = Server::start();
    let client = server.client();
    let now = server.clock() / 1_000_000;
    let held = [("a", 90, 0), ("b", 80, 1), ("c", 70, 2), ("d", 10, 3), ("e", 75, 4)];
    for (tag, seconds, number) in held {
        server.redis_cli(&["ZADD", "unacked_index", &(now - seconds).to_string(), tag]);
        // The queue of the last one is another.
        let key = if number == 4 { "mail" } else { "orders" };
        let entry = format!(r#"[{}, "", "{key}"]"#, message(number, is_chained(number)));
        server.redis_cli(&["HSET", "unacked", tag, &entry]);
    }
    // Its worker has acked it, and died in between.
    server.redis_cli(&["ZADD", "unacked_index", &(now - 100).to_string(), "gone"]);
    let dry = Bridge::new(&client, &client, celery()).count().await.unwrap();
    assert_eq!((dry.moved(), dry.stays().values().sum::<u64>()), (2, 2), "{dry}");
    for moved in [2, 0] {
        let report = drain(&client, &client).await;
        assert_eq!((report.moved(), report.stays().values().sum::<u64>()), (moved, 2), "{report}");
        assert_eq!(server.redis_cli(&["--raw", "ZRANGE", "unacked_index", "0", "-1"]).trim(), "b\ne\nd");
        assert_eq!(server.redis_cli(&["HLEN", "unacked"]).trim(), "3");
    }
    assert!(dry.to_string().contains("1 job would stay in the old queue: the task is of the queue 'mail'"), "{dry}");
}

#[tokio::test]
async fn what_cannot_be_taken_over_truthfully_stays_with_its_reason() {
    let server = Server::start();
    let client = server.client();
    let plain = message(0, false);
    let body = |args: &str| plain.replace("W1tdLCB7fSwgey", &format!("{args}W1tdLCB7fSwgey"));
    let wrong = [
        (plain.replace("application/json", "application/x-python-serialize"), "not JSON"),
        (plain.replace(r#""task":"close","#, ""), "the protocol of version 1"),
        (plain.replace(r#""base64""#, "null"), "not in base64"),
        (plain.replace(r#""eta":null"#, r#""eta":"2026-01-01T00:00:00""#), "no time with a time zone"),
        (plain.replace(r#""retries":0"#, r#""compression":"application/x-gzip""#), "is compressed"),
        (body("W10="), "not in base64"),
        ("no message".to_owned(), "not as kombu writes it"),
    ];
    for (message, _) in &wrong {
        server.redis_cli(&["LPUSH", "orders", message]);
    }
    // Its time is over: Celery's worker would drop it.
    server.redis_cli(&[
        "LPUSH",
        "orders\u{6}\u{16}3",
        &plain.replace(r#""expires":null"#, r#""expires":"2026-01-01T00:00:00+00:00""#),
    ]);
    let report = drain(&client, &client).await;
    for (message, reason) in &wrong {
        assert!(report.stays().keys().any(|said| said.contains(reason)), "{reason}: {report}");
        assert!(server.redis_cli(&["--raw", "LRANGE", "orders", "0", "-1"]).contains(message.as_str()));
    }
    assert_eq!(report.queues["orders"], [0, 0, 1], "{report}");
    let failed = client.queue("orders").unwrap().peek(State::Failed, 0, 10).await.unwrap();
    assert!(failed[0].envelope.error.starts_with("it had expired in the old queue at 2026-01-01"));
    assert!(report.to_string().contains(r"orders\u{6}\u{16}3"), "{report}");
}

/// A bridge that is killed keeps no more tasks from Celery's workers than one batch has.
#[tokio::test]
async fn what_stays_is_where_workers_take_it_all_the_while() {
    const JOBS: usize = 2600;
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    send(&old, 0..JOBS);
    let mut most = 0;
    let report = Bridge::new(&from, &to, celery())
        .drain(|report| {
            let seen: usize = old.redis_cli(&["LLEN", "orders"]).trim().parse().unwrap();
            most = most.max(JOBS - seen - usize::try_from(report.moved()).unwrap());
            // A worker takes some of them, which are the oldest.
        })
        .await
        .unwrap();
    assert!(most <= 500, "{most} are in no queue");
    let stay = (0..JOBS).filter(|&number| is_chained(number)).collect::<Vec<_>>();
    let mut left = left(&old);
    left.sort_unstable();
    assert_eq!((left, report.moved()), (stay.clone(), (JOBS - stay.len()) as u64));
    assert_eq!(report.stays().values().sum::<u64>(), stay.len() as u64, "{report}");
}

/// Its workers run all the while, and take what stays.
#[tokio::test]
async fn workers_that_take_what_stays_hold_up_no_bridge() {
    const JOBS: usize = 2600;
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    send(&old, 0..JOBS);
    let mut taken = 0;
    let report = Bridge::new(&from, &to, celery())
        .drain(|_| {
            let before: usize = old.redis_cli(&["LLEN", "orders"]).trim().parse().unwrap();
            // The oldest is one that stays, as soon as there is one.
            if old.redis_cli(&["--raw", "LINDEX", "orders", "-1"]).contains(r#""id":"t-"#) && before < 2000 {
                old.redis_cli(&["EVAL", "for i = 1, 7 do redis.call('RPOP', 'orders') end return 1", "0"]);
                taken += 7;
            }
        })
        .await
        .unwrap();
    let stay = (0..JOBS).filter(|&number| is_chained(number)).count();
    assert_eq!(usize::try_from(report.moved()).unwrap(), JOBS - stay, "{report}");
    assert_eq!(left(&old).len(), stay - taken);
    assert_eq!(report.stays().values().sum::<u64>(), (stay - taken) as u64, "{report}");
}

/// By the server's clock, in seconds.
fn now(server: &Server) -> i64 {
    i64::try_from(server.clock() / 1_000_000).unwrap()
}

fn expiring(number: usize, at: i64) -> String {
    let at = jiff::Timestamp::from_second(at).unwrap();
    message(number, false).replace(r#""expires":null"#, &format!(r#""expires":"{at}""#))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_expires_while_its_batch_waits_for_room_comes_over_once() {
    let (old, new) = (Server::start(), Server::start());
    let queue = new.queue("orders");
    queue.keep_failed(1, Duration::from_secs(3600)).await.unwrap();
    let expires_at = now(&new) + 3;
    let tasks = [message(0, false), expiring(3, 1), expiring(6, 2), expiring(9, expires_at)];
    let all: Vec<&str> = ["LPUSH", "orders"].into_iter().chain(tasks.iter().map(String::as_str)).collect();
    old.redis_cli(&all);
    let report = drain(&old.client(), &new.client()).await;
    assert!(!report.is_complete(), "{report}");
    let mut done = Vec::new();
    work(&new.client(), &mut done).await;
    support::eventually("it expires", || async { now(&new) > expires_at }).await;
    queue.keep_failed(10, Duration::from_secs(3600)).await.unwrap();
    let report = drain(&old.client(), &new.client()).await;
    assert!(report.is_complete(), "{report}");
    work(&new.client(), &mut done).await;
    let counts = queue.counts().await.unwrap();
    assert_eq!((done, counts.failed), (vec![0], 3), "{report}");
}

/// Only this bridge calls it.
#[tokio::test]
async fn a_user_who_may_not_keep_tasks_in_their_list_hears_so_before_the_first_batch() {
    let (old, new) = (Server::start(), Server::start());
    send(&old, 0..3);
    old.redis_cli(&["ACL", "SETUSER", "few", "on", ">p", "~*", "+@all", "-lset"]);
    let from = old.builder().username("few").password("p").build().unwrap();
    let refused = Bridge::new(&from, &new.client(), celery()).drain(|_| {}).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{refused}");
    assert!(refused.to_string().contains("lset"), "{refused}");
    assert_eq!(left(&old), [0, 1, 2]);
    assert_eq!(old.redis_cli(&["--raw", "KEYS", "*permissions*"]).trim(), "");
    // It is no matter of the others.
    old.redis_cli(&["LPUSH", "redis:queue:ready", r#"{"id":"1","data":1}"#]);
    let other = OldQueue::thinkphp("orders").unwrap();
    assert_eq!(Bridge::new(&from, &new.client(), other).drain(|_| {}).await.unwrap().moved(), 1);
}
