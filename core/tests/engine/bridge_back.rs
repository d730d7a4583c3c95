//! The way back: what duly has goes into the keys of another queue, once, wherever it breaks off.

use std::time::Duration;

use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use duly::{Bridge, BridgeReport, Client, Error, ErrorKind, NewJob, OldQueue, ReserveOptions, RetryPolicy, State};

const READY: &str = "redis:queue:ready";
const DELAYED: &str = "redis:queue:delay";
const FAILED: &str = "redis:queue:failed";

fn thinkphp() -> OldQueue {
    OldQueue::thinkphp("orders").unwrap()
}

fn think_queue() -> OldQueue {
    OldQueue::think_queue(&["orders"]).unwrap()
}

async fn back(old: &Client, new: &Client, queue: OldQueue) -> Result<BridgeReport, Error> {
    Bridge::new(old, new, queue).back().unwrap().drain(|_| {}).await
}

async fn push(client: &Client, orders: impl IntoIterator<Item = usize>) {
    let queue = client.queue("orders").unwrap();
    let job = |order| NewJob::new(&serde_json::json!({ "order": order })).unwrap().name("order.close");
    let jobs: Vec<NewJob> = orders.into_iter().map(job).collect();
    for some in jobs.chunks(1000) {
        queue.push_many(some.to_vec(), |_| {}).await.unwrap();
    }
}

fn list(server: &Server, key: &str) -> Vec<serde_json::Value> {
    let entries = server.redis_cli(&["--raw", "LRANGE", key, "0", "-1"]);
    entries.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn order_of(package: &serde_json::Value) -> usize {
    package["data"]["order"].as_u64().unwrap().try_into().unwrap()
}

/// What a consumer of `Queue.php` takes with `BRPOP`, one after the other.
fn consume(server: &Server, done: &mut Vec<usize>) {
    done.extend(list(server, READY).iter().rev().map(order_of));
    server.redis_cli(&["DEL", READY]);
}

#[tokio::test]
async fn jobs_go_back_in_order_with_their_times_attempts_and_errors() {
    let (old, new) = (Server::start(), Server::start());
    let (to, from) = (old.client(), new.client());
    let queue = from.queue("orders").unwrap();
    push(&from, 0..3).await;
    // It has failed once, is due again in an hour, and has a key.
    let again = RetryPolicy::Fixed { delay: duly::Millis::from_secs(3600) };
    let job = NewJob::new(&serde_json::json!({"order": 3})).unwrap().key("close:3").retry(again).name("order.close");
    queue.push(job).await.unwrap();
    let fails = queue.reserve(&ReserveOptions::new().max(4)).await.unwrap();
    for job in fails {
        if job.envelope.key.is_some() {
            job.fail("no bank").await.unwrap();
        } else {
            job.release(Duration::ZERO).await.unwrap();
        }
    }
    let last = NewJob::new(&serde_json::json!({"order": 4})).unwrap().max_retries(0);
    queue.push(last).await.unwrap();
    let jobs = queue.reserve(&ReserveOptions::new().max(9)).await.unwrap();
    for job in jobs {
        if order_of(&serde_json::json!({"data": job.envelope.data.deserialize::<serde_json::Value>().unwrap()})) == 4 {
            job.fail("never").await.unwrap();
        } else {
            job.release(Duration::ZERO).await.unwrap();
        }
    }

    let dry = Bridge::new(&to, &from, thinkphp()).back().unwrap().count().await.unwrap();
    assert_eq!((dry.moved(), dry.queues[READY], dry.queues[DELAYED]), (5, [3, 0, 0], [0, 1, 0]), "{dry}");
    assert_eq!(old.redis_cli(&["DBSIZE"]).trim(), "0");
    let report = back(&to, &from, thinkphp()).await.unwrap();
    assert!(report.is_complete(), "{report}");
    assert!(report.to_string().ends_with("counts before and after agree: nothing is left"), "{report}");
    let packages = list(&old, READY);
    assert_eq!(packages.iter().rev().map(order_of).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((packages[0]["attempts"].as_u64(), packages[0]["name"].as_str()), (Some(0), Some("order.close")));
    let delayed = old.redis_cli(&["--raw", "ZRANGE", DELAYED, "0", "-1", "WITHSCORES"]);
    let (package, score) = delayed.trim().split_once('\n').unwrap();
    let package: serde_json::Value = serde_json::from_str(package).unwrap();
    assert_eq!(
        (order_of(&package), package["attempts"].as_u64(), package["error"].as_str()),
        (3, Some(1), Some("no bank"))
    );
    let now = old.clock() / 1_000_000;
    let score: u64 = score.trim().parse().unwrap();
    assert!((now + 3500..now + 3602).contains(&score), "{score} {now}");
    let failed = list(&old, FAILED);
    assert_eq!((failed.len(), order_of(&failed[0]), failed[0]["error"].as_str()), (1, 4, Some("never")));

    // Nothing of them is left: the key is free.
    assert_eq!(queue.audit(duly::AuditOptions::default()).await.unwrap().findings.len(), 0);
    queue.push(NewJob::new(&1).unwrap().key("close:3")).await.unwrap();
    queue.cancel_key("close:3").await.unwrap();
    // And over again, as they were.
    let report = Bridge::new(&to, &from, thinkphp()).drain(|_| {}).await.unwrap();
    assert_eq!((report.is_complete(), report.queues["orders"]), (true, [3, 1, 1]), "{report}");
    let failed = queue.peek(State::Failed, 0, 9).await.unwrap();
    assert_eq!((failed[0].envelope.attempts, &*failed[0].envelope.error), (1, "never"));
}

#[tokio::test]
async fn payloads_of_think_queue_go_back_as_they_came_and_others_become_some() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("orders").unwrap();
    let payload = r#"{"job":"app\/job\/Close@fire","maxTries":null,"timeout":null,"data":{"order": 1.50},"id":"abc","attempts":2,"more":[1]}"#;
    server.redis_cli(&["RPUSH", "{queues:orders}", payload, payload]);
    // Two equal ones are two members of a sorted set, too.
    server.redis_cli(&["ZADD", "{queues:orders}:delayed", "4102444800", payload]);
    Bridge::new(&client, &client, think_queue()).drain(|_| {}).await.unwrap();
    server.redis_cli(&["ZADD", "{queues:orders}:delayed", "4102444800", payload]);
    Bridge::new(&client, &client, think_queue()).drain(|_| {}).await.unwrap();
    let mine = NewJob::new(&serde_json::json!({"order": 2})).unwrap().name("app\\job\\Mail").max_retries(2);
    queue.push(mine.timeout(Duration::from_millis(1500))).await.unwrap();
    let report = back(&client, &client, think_queue()).await.unwrap();
    assert!(report.is_complete(), "{report}");
    let raw = server.redis_cli(&["--raw", "LRANGE", "{queues:orders}", "0", "-1"]);
    let lines: Vec<&str> = raw.lines().collect();
    assert_eq!(lines.len(), 3, "{raw}");
    for line in &lines[..2] {
        let id = serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
        assert_eq!(*line, payload.replace("abc", &id));
    }
    let mine: serde_json::Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!((mine["job"].as_str(), mine["maxTries"].as_u64()), (Some("app\\job\\Mail"), Some(3)));
    assert_eq!((mine["timeout"].as_u64(), mine["attempts"].as_u64(), order_of(&mine)), (Some(2), Some(0), 2));
    assert_eq!(server.redis_cli(&["ZCARD", "{queues:orders}:delayed"]).trim(), "2");

    // Without a name no consumer of think-queue knows what to do; the bridge goes on when it is told.
    queue.push(NewJob::new(&7).unwrap()).await.unwrap();
    let refused = back(&client, &client, think_queue()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("1 ready job of 'orders': a job has no name"), "{refused}");
    assert!(refused.to_string().contains("--name"), "{refused}");
    assert_eq!(queue.counts().await.unwrap().ready, 1);
    let dry = Bridge::new(&client, &client, think_queue()).back().unwrap().count().await.unwrap();
    assert!(dry.to_string().contains("1 job would stay in duly: a job has no name"), "{dry}");
    assert_eq!(dry.moved(), 0, "{dry}");
    let report = back(&client, &client, think_queue().name("app\\job\\Any").unwrap()).await.unwrap();
    assert_eq!((report.moved(), report.is_complete()), (1, true), "{report}");
    // A failed job stays: think-queue has none in Redis.
    queue.push(NewJob::new(&8).unwrap().max_retries(0)).await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0).fail("x").await.unwrap();
    let report = back(&client, &client, think_queue()).await.unwrap();
    assert!(!report.is_complete());
    assert!(report.to_string().contains("1 job stays in duly: the other queue keeps no failed jobs"), "{report}");
    assert!(Bridge::new(&client, &client, OldQueue::laravel("", &["orders"]).unwrap()).back().is_err());
}

#[tokio::test]
async fn jobs_of_two_queues_go_back_into_shared_keys_of_workerman() {
    let server = Server::start();
    let client = server.client();
    for queue in ["orders", "mail"] {
        let queue = client.queue(queue).unwrap();
        queue.push(NewJob::new(&1).unwrap()).await.unwrap();
        queue.push(NewJob::new(&2).unwrap().delay(Duration::from_secs(60))).await.unwrap();
    }
    let workerman = || OldQueue::workerman("", &["orders", "mail"]).unwrap();
    let report = back(&client, &client, workerman()).await.unwrap();
    assert!(report.is_complete(), "{report}");
    for queue in ["orders", "mail"] {
        let package = list(&server, &format!("{{redis-queue}}-waiting{queue}")).remove(0);
        assert_eq!((package["queue"].as_str(), package["data"].as_u64()), (Some(queue), Some(1)));
    }
    assert_eq!(server.redis_cli(&["ZCARD", "{redis-queue}-delayed"]).trim(), "2");
    let report = Bridge::new(&client, &client, workerman()).drain(|_| {}).await.unwrap();
    assert_eq!((report.queues["orders"], report.queues["mail"]), ([1, 1, 0], [1, 1, 0]), "{report}");
}

/// As `bridge::break_off`, the other way.
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
    push(&new.client(), 0..JOBS).await;
    let proxy = Proxy::before(if at_old { old.port() } else { new.port() }).await;
    let deadline = Duration::from_secs(1);
    let broken = proxy.builder().deadline(deadline).command_timeout(deadline).build().unwrap();
    support::eventually("it connects", || async { broken.ping().await.is_ok() }).await;
    let (to, from) = if at_old { (broken, new.client()) } else { (old.client(), broken) };
    proxy.next_behind(calls, fault);
    let first = back(&to, &from, thinkphp()).await;
    let has_ended = first.is_ok();
    let mut done = Vec::new();
    consume(&old, &mut done);
    drop((first, to, from));
    support::eventually("another one ends", || async {
        for lock in new.redis_cli(&["--raw", "KEYS", "duly:{bridge:*}:lock"]).lines() {
            new.redis_cli(&["DEL", lock]);
        }
        back(&old.client(), &new.client(), thinkphp()).await.is_ok()
    })
    .await;
    consume(&old, &mut done);
    done.sort_unstable();
    assert_eq!(done, (0..JOBS).collect::<Vec<_>>(), "at the old server: {at_old}, {fault:?} behind {calls} calls");
    let is_lost = proxy.lost() != (0, 0);
    assert!(!has_ended || is_lost, "it makes fewer calls: at the old server: {at_old}, {fault:?} behind {calls} calls");
    is_lost
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_back_that_dies_between_any_two_calls_loses_and_doubles_nothing() {
    for calls in 0..17 {
        let mut breaking = tokio::task::JoinSet::new();
        for fault in [Fault::LoseRequest, Fault::LoseReply] {
            breaking.spawn(break_off(false, fault, calls));
            // A call that says that the script is not known, and three batches.
            if calls < 4 {
                breaking.spawn(break_off(true, fault, calls));
            }
        }
        breaking.join_all().await;
    }
}

#[tokio::test]
async fn a_late_copy_of_a_dead_bridge_back_takes_out_and_puts_in_nothing() {
    // Which calls they are: of the old server those that publish, of duly's all up to those that take jobs out.
    for (at_old, calls) in (0..2).map(|calls| (true, calls)).chain((0..13).map(|calls| (false, calls))) {
        let (old, new) = (Server::start(), Server::start());
        push(&new.client(), [0]).await;
        let proxy = Proxy::before(if at_old { old.port() } else { new.port() }).await;
        let broken = proxy.builder().build().unwrap();
        broken.ping().await.unwrap();
        let (to, from) = if at_old { (broken, new.client()) } else { (old.client(), broken) };
        proxy.next_after(calls, Fault::HoldRequest);
        let dead = tokio::spawn(async move { back(&to, &from, thinkphp()).await.map(drop) });
        proxy.happened().await;
        if at_old {
            // On a busy machine the other one may have connected again and ended by now.
            if let Err(refused) = back(&old.client(), &new.client(), thinkphp()).await {
                assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
            }
        }
        dead.abort();
        support::eventually("it has given up its lock", || async {
            for lock in new.redis_cli(&["--raw", "KEYS", "duly:{bridge:*}:lock"]).lines() {
                new.redis_cli(&["DEL", lock]);
            }
            back(&old.client(), &new.client(), thinkphp()).await.is_ok()
        })
        .await;
        let mut done = Vec::new();
        consume(&old, &mut done);
        push(&new.client(), [1]).await;
        proxy.deliver().await;
        consume(&old, &mut done);
        assert_eq!(done, [0], "at the old server: {at_old}, behind {calls} calls");
        let ready = new.client().queue("orders").unwrap().peek(State::Ready, 0, 9).await.unwrap();
        assert_eq!(ready.len(), 1, "at the old server: {at_old}, behind {calls} calls");
    }
}

#[tokio::test]
async fn it_follows_producers_of_duly_and_waits_out_restarts() {
    let (mut old, new) = (Server::start(), Server::start());
    let (to, from) = (old.client(), new.client());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let following = tokio::spawn(async move {
        let bridge = Bridge::new(&to, &from, thinkphp()).back().unwrap();
        bridge.follow(async { drop(stopped.await) }, |_| {}).await
    });
    for order in 0..3 {
        push(&new.client(), [order]).await;
        support::eventually("it goes back", || async { list(&old, READY).len() == order + 1 }).await;
        if order == 1 {
            old.redis_cli(&["SAVE"]);
            old.restart();
        }
    }
    stop.send(()).unwrap();
    assert_eq!(following.await.unwrap().unwrap().moved(), 3);
}

/// A failover of duly's server: what it had given out is there again, and goes back again.
#[tokio::test]
async fn a_duly_server_that_lost_its_last_writes_does_not_stop_the_way_back() {
    let (old, new) = (Server::start(), Server::start());
    let (to, from) = (old.client(), new.client());
    push(&from, 0..2).await;
    // A batch stays on its way.
    old.redis_cli(&["SET", READY, "foreign"]);
    assert!(back(&to, &from, thinkphp()).await.is_err());
    old.redis_cli(&["DEL", READY]);
    let [list, hash] = ["departing", "departed"].map(|name| format!("duly:{{orders}}:{name}"));
    for key in [&list, &hash] {
        new.redis_cli(&["COPY", key, &format!("{key}:then")]);
    }
    assert_eq!(back(&to, &from, thinkphp()).await.unwrap().moved(), 2);
    push(&from, [2]).await;
    assert_eq!(back(&to, &from, thinkphp()).await.unwrap().moved(), 1);
    for key in [&list, &hash] {
        new.redis_cli(&["COPY", &format!("{key}:then"), key, "REPLACE"]);
    }
    assert_eq!(back(&to, &from, thinkphp()).await.unwrap().moved(), 2);
    let mut done = Vec::new();
    consume(&old, &mut done);
    assert_eq!(done, [0, 1, 2, 0, 1]);
}

/// A foreign type where the batch goes: it stays on its way, as when the bridge is killed in between.
async fn park(old: &Server, to: &Client, from: &Client) {
    old.redis_cli(&["SET", READY, "foreign"]);
    old.redis_cli(&["SET", DELAYED, "foreign"]);
    assert!(back(to, from, thinkphp()).await.is_err());
    old.redis_cli(&["DEL", READY, DELAYED]);
}

#[tokio::test]
async fn what_a_killed_bridge_back_left_on_its_way_is_shown_and_can_be_given_back() {
    let (old, new) = (Server::start(), Server::start());
    let (to, from) = (old.client(), new.client());
    let queue = from.queue("orders").unwrap();
    let job = |order: usize| NewJob::new(&serde_json::json!({ "order": order })).unwrap();
    queue.push(job(0).key("close:0").priority(2)).await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0).fail("no bank").await.unwrap();
    queue.promote().await.unwrap();
    let due = queue.peek(State::Delayed, 0, 9).await.unwrap().remove(0).at;
    for state in ["delayed", "ready"] {
        park(&old, &to, &from).await;
        push(&from, [7]).await;
        let bridge = || Bridge::new(&to, &from, thinkphp()).back().unwrap();
        let dry = bridge().count().await.unwrap();
        let flying: Vec<_> = dry.lanes.iter().filter(|lane| lane.in_flight > 0).collect();
        assert_eq!((flying.len(), flying[0].state.as_str(), flying[0].in_flight), (1, state, 1), "{dry}");
        assert!(
            dry.to_string().contains("1 job is in flight from a bridge that was interrupted: run it again with"),
            "{dry}"
        );
        let over = Bridge::new(&to, &from, thinkphp()).count().await.unwrap();
        assert!(over.to_string().contains("1 job of 'orders' is on its way to another queue"), "{over}");

        let given = bridge().give_back().await.unwrap();
        assert_eq!((given.given, given.published), (1, 0));
        assert_eq!(bridge().give_back().await.unwrap(), duly::GivenBack::default());
        if state == "delayed" {
            let job = queue.peek(State::Delayed, 0, 9).await.unwrap().remove(0);
            assert_eq!((job.at, job.envelope.attempts, &*job.envelope.error), (due, 1, "no bank"));
            assert_eq!(queue.find_key("close:0").await.unwrap().unwrap().job.envelope.id, job.envelope.id);
            queue.cancel_key("close:0").await.unwrap();
        }
        // It is the first again.
        let ready = queue.peek(State::Ready, 0, 9).await.unwrap();
        assert_eq!(ready.len(), if state == "delayed" { 1 } else { 2 });
        assert_eq!(queue.audit(duly::AuditOptions::default()).await.unwrap().findings.len(), 0);
        push(&from, [8]).await;
        queue.purge(State::Ready).await.unwrap();
        push(&from, [9]).await;
    }
    // Then all go, once.
    let report = back(&to, &from, thinkphp()).await.unwrap();
    assert_eq!((report.is_complete(), report.moved()), (true, 1), "{report}");
    assert_eq!(list(&old, READY).iter().map(order_of).collect::<Vec<_>>(), [9]);
}

/// It was killed behind the call that put the batch into the old queue.
#[tokio::test]
async fn a_batch_that_the_old_queue_has_is_not_given_back() {
    let (old, new) = (Server::start(), Server::start());
    let (to, from) = (old.client(), new.client());
    push(&from, 0..3).await;
    let copy = |way: [&str; 2]| {
        for name in ["departing", "departed"] {
            let keys = way.map(|end| format!("duly:{{orders}}:{name}{end}"));
            new.redis_cli(&["COPY", &keys[0], &keys[1], "REPLACE"]);
        }
    };
    let bridge = Bridge::new(&to, &from, thinkphp()).back().unwrap();
    bridge.drain(|_| copy(["", ":then"])).await.unwrap();
    copy([":then", ""]);
    let given = bridge.give_back().await.unwrap();
    assert_eq!((given.given, given.published), (0, 3));
    assert_eq!(from.queue("orders").unwrap().counts().await.unwrap().ready, 0);
    assert_eq!(list(&old, READY).len(), 3);
    assert!(Bridge::new(&to, &from, thinkphp()).give_back().await.is_err(), "it is the way over");
}

#[tokio::test]
async fn a_job_without_a_name_that_comes_meanwhile_leaves_no_other_on_its_way() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("orders").unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let to = client.clone();
    let following = tokio::spawn(async move {
        let bridge = Bridge::new(&to, &to, think_queue()).back().unwrap();
        bridge.follow(async { drop(stopped.await) }, |_| {}).await
    });
    push(&client, [0]).await;
    support::eventually("it goes back", || async { server.redis_cli(&["LLEN", "{queues:orders}"]).trim() == "1" })
        .await;
    let jobs = (1..4).map(|order| {
        let job = NewJob::new(&serde_json::json!({ "order": order })).unwrap();
        if order == 2 { job } else { job.name("order.close") }
    });
    queue.push_many(jobs.collect::<Vec<_>>(), |_| {}).await.unwrap();
    let refused = following.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    drop(stop);
    let ready = queue.peek(State::Ready, 0, 9).await.unwrap();
    let order = |job: &duly::JobView| {
        order_of(&serde_json::from_str(&format!(r#"{{"data":{}}}"#, job.envelope.data.as_str())).unwrap())
    };
    assert_eq!(ready.iter().map(order).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(server.redis_cli(&["EXISTS", "duly:{orders}:departing"]).trim(), "0");
    let report = back(&client, &client, think_queue().name("order.other").unwrap()).await.unwrap();
    assert_eq!((report.moved(), report.is_complete()), (3, true), "{report}");
}

/// What it says at the end compares what there was with what has gone.
#[tokio::test]
async fn the_counts_of_the_way_back_are_compared() {
    let (old, new) = (Server::start(), Server::start());
    let (to, from) = (old.client(), new.client());
    push(&from, 0..3).await;
    let queue = from.queue("orders").unwrap();
    let bridge = Bridge::new(&to, &from, thinkphp()).back().unwrap();
    // Somebody takes two away while it runs.
    queue.pause().await.unwrap();
    let before = bridge.count().await.unwrap();
    assert_eq!(before.moved(), 3);
    let mut is_first = true;
    push(&from, 3..700).await;
    let report = bridge
        .drain(|_| {
            if std::mem::take(&mut is_first) {
                new.redis_cli(&["LTRIM", "duly:{orders}:ready:5", "2", "-1"]);
            }
        })
        .await
        .unwrap();
    assert_eq!((report.moved(), report.is_complete()), (698, false), "{report}");
    assert!(
        report.to_string().ends_with("duly was in use meanwhile: moved and left are not what was there before"),
        "{report}"
    );
}

/// A part of a queue has a `/` in its name, which a lock has not; and a lock's name is no longer than that of a queue.
#[tokio::test]
async fn bridges_back_of_two_queues_are_in_nobodys_way() {
    let server = Server::start();
    let client = server.client();
    let of = |queue: &str| OldQueue::think_queue(&[queue]).unwrap();
    let long = "q".repeat(128);
    for (follows, parts) in [("orders:1", "orders"), (&*long, "q")] {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (bridge, queue) =
            (Bridge::new(&client, &client, of(follows)).back().unwrap(), client.queue(follows).unwrap());
        queue.push(NewJob::new(&1).unwrap().name("order.close")).await.unwrap();
        let following = tokio::spawn(async move { bridge.follow(async { drop(stopped.await) }, |_| {}).await });
        support::eventually("it goes back", || async { queue.counts().await.unwrap().ready == 0 }).await;
        let other = Bridge::new(&client, &client, of(parts)).partitions(2).unwrap().back().unwrap();
        assert!(other.drain(|_| {}).await.unwrap().is_complete());
        stop.send(()).unwrap();
        assert_eq!(following.await.unwrap().unwrap().moved(), 1);
    }
}

#[tokio::test]
async fn what_is_given_back_is_counted_also_if_an_answer_was_lost() {
    let mut lost = 0;
    for calls in 0..12 {
        let (old, new) = (Server::start(), Server::start());
        let (to, from) = (old.client(), new.client());
        push(&from, 0..3).await;
        park(&old, &to, &from).await;
        let proxy = Proxy::before(new.port()).await;
        let broken = proxy.builder().build().unwrap();
        broken.ping().await.unwrap();
        proxy.next_after(calls, Fault::LoseReply);
        let given = Bridge::new(&to, &broken, thinkphp()).back().unwrap().give_back().await.unwrap();
        assert_eq!((given.given, given.published), (3, 0), "behind {calls} calls");
        lost += proxy.lost().0;
    }
    assert!(lost >= 4, "{lost}");
}
