//! Servers that are restarted, lose what they had, refuse a name, or have a replica that is away.

use std::time::Duration;

use super::{FAILED, READY, data, drain, orders, package, peek, send, thinkphp, work};
use crate::support;
use crate::support::Server;
use crate::support::proxy::{Fault, Proxy};
use duly::{Bridge, BridgeReport, Durability, ErrorKind, OldQueue, State};

#[tokio::test]
async fn it_follows_old_producers_and_waits_out_a_restart() {
    let (old, mut new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let following =
        tokio::spawn(
            async move { Bridge::new(&from, &to, thinkphp()).follow(async { drop(stopped.await) }, |_| {}).await },
        );
    for number in 0..3 {
        send(&old, READY, [package(number, "")]);
        support::eventually("it comes over", || async {
            data(&new.client(), State::Ready).await == orders(0..=number)
        })
        .await;
        if number == 1 {
            new.redis_cli(&["SAVE"]);
            new.restart();
        }
    }
    stop.send(()).unwrap();
    assert_eq!(following.await.unwrap().unwrap().moved(), 3);
}

/// A failover of the old server, or a restart from an old snapshot: its jobs come again, and the bridge goes on.
#[tokio::test]
async fn an_old_server_that_lost_its_last_writes_or_the_bridges_hash_does_not_stop_the_bridge() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    let queue = to.queue("orders").unwrap();
    let run = || async { Bridge::new(&from, &to, thinkphp()).drain(|_| {}).await };
    queue.keep_failed(1, Duration::from_secs(3600)).await.unwrap();
    send(&old, FAILED, (0..2).map(|number| package(number, "")));
    // A batch stays in flight.
    assert!(!run().await.unwrap().is_complete());
    let key = format!("{{{FAILED}}}:duly:");
    let (list, hash) = (format!("{key}in_flight"), format!("{key}state"));
    let then = |name: &str| old.redis_cli(&["COPY", name, &format!("{name}:then")]);
    let back = |name: &str| old.redis_cli(&["COPY", &format!("{name}:then"), name, "REPLACE"]);
    then(&list);
    then(&hash);
    queue.keep_failed(100, Duration::from_secs(3600)).await.unwrap();
    assert!(run().await.unwrap().is_complete());
    send(&old, FAILED, [package(2, "")]);
    assert!(run().await.unwrap().is_complete());
    // Its last writes are lost: the first batch is there again, under its sequence.
    back(&list);
    back(&hash);
    assert_eq!(run().await.unwrap().moved(), 2);
    assert_eq!(peek(&to, State::Failed).await.len(), 5);
    // The hash alone is lost.
    back(&list);
    old.redis_cli(&["DEL", &hash]);
    assert_eq!(run().await.unwrap().moved(), 2);
}

/// A batch that was stored, and whose end the old server has not heard of, comes again.
#[tokio::test]
async fn a_batch_counts_once_behind_an_outage() {
    let (old, new) = (Server::start(), Server::start());
    send(&old, READY, (0..3).map(|number| package(number, "")));
    let proxy = Proxy::before(old.port()).await;
    let deadline = Duration::from_millis(500);
    let from = proxy.builder().deadline(deadline).command_timeout(deadline).build().unwrap();
    support::eventually("it connects", || async { from.ping().await.is_ok() }).await;
    let to = new.client();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let following =
        tokio::spawn(
            async move { Bridge::new(&from, &to, thinkphp()).follow(async { drop(stopped.await) }, |_| {}).await },
        );
    let list = format!("{{{READY}}}:duly:in_flight");
    support::eventually("they come over", || async { data(&new.client(), State::Ready).await.len() == 3 }).await;
    support::eventually("the batch has ended", || async { old.redis_cli(&["EXISTS", &list]).trim() == "0" }).await;
    // From here on each call is lost for a while, that which ends the next batch too.
    send(&old, READY, (3..6).map(|number| package(number, "")));
    proxy.next_after(1, Fault::LoseRequest);
    support::eventually("all are over", || async { data(&new.client(), State::Ready).await.len() == 6 }).await;
    support::eventually("it goes on", || async { old.redis_cli(&["EXISTS", &list]).trim() == "0" }).await;
    stop.send(()).unwrap();
    let report = following.await.unwrap().unwrap();
    assert_eq!((report.moved(), report.queues["orders"]), (6, [6, 0, 0]), "{report}");
}

/// The token of a lock follows the clock of duly's server: that of another one may be ahead, or it was set back.
#[tokio::test]
async fn a_bridge_whose_token_is_smaller_says_both_and_what_to_do() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    let run = || async { Bridge::new(&from, &to, thinkphp()).drain(|_| {}).await };
    assert!(run().await.unwrap().is_complete());
    send(&old, READY, [package(0, "")]);
    let state = format!("{{{READY}}}:duly:state");
    let ahead = "9000000000000000";
    old.redis_cli(&["HSET", &state, "token", ahead]);
    let refused = run().await.unwrap_err();
    let said = refused.to_string();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{said}");
    assert!(said.contains(ahead) && said.contains("the clock of duly's server is"), "{said}");
    assert!(said.contains(&format!("HDEL {state} token")), "{said}");
    // What it says helps.
    old.redis_cli(&["HDEL", &state, "token"]);
    assert_eq!(run().await.unwrap().moved(), 1);
    // The way back is refused by duly's own server.
    new.redis_cli(&["HSET", "duly:{orders}:departed", "token", ahead]);
    let refused = Bridge::new(&from, &to, thinkphp()).back().unwrap().drain(|_| {}).await.unwrap_err();
    assert!(refused.to_string().contains("HDEL duly:{orders}:departed token"), "{refused}");
    new.redis_cli(&["HDEL", "duly:{orders}:departed", "token"]);
    // One that comes while another one runs.
    let run_away = |_: &BridgeReport| drop(old.redis_cli(&["HSET", &state, "token", ahead]));
    send(&old, READY, [package(1, "")]);
    let refused = Bridge::new(&from, &to, thinkphp()).drain(run_away).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LeaseLost, "{refused}");
    assert!(refused.to_string().contains("has taken over") && refused.to_string().contains(ahead), "{refused}");
}

/// It was killed behind the call that stored them. The queue looks as if it had been used by nobody.
#[tokio::test]
async fn jobs_that_were_done_come_no_second_time_into_a_queue_that_was_deleted() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    send(&old, READY, (0..3).map(|number| package(number, "")));
    let list = format!("{{{READY}}}:duly:in_flight");
    let keep = |_: &BridgeReport| drop(old.redis_cli(&["COPY", &list, "kept", "REPLACE"]));
    assert!(Bridge::new(&from, &to, thinkphp()).drain(keep).await.unwrap().is_complete());
    let mut done = Vec::new();
    work(&to, &mut done).await;
    assert_eq!(done, orders(0..3));
    to.queue("orders").unwrap().delete(0).await.unwrap();
    old.redis_cli(&["COPY", "kept", &list]);
    assert!(drain(&from, &to, thinkphp()).await.is_complete());
    work(&to, &mut done).await;
    assert_eq!(done.len(), 3, "{done:?}");
}

/// Where the clock of an old server that took over is behind, a part of a batch has a later sequence than the batch.
#[tokio::test]
async fn a_part_that_knows_a_later_batch_sends_no_other_part_again() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    let workerman = || OldQueue::workerman("", &["orders", "bills", "mail"]).unwrap();
    drain(&from, &to, workerman()).await;
    let lane = old.redis_cli(&["HGET", "{redis-queue}-delayed:duly:state", "lane"]);
    new.redis_cli(&["HSET", "duly:{mail}:adopted", lane.trim(), "8000000000000000"]);
    for (order, queue) in ["bills", "mail", "orders", "bills", "mail", "orders"].into_iter().enumerate() {
        let package = package(order, &format!(r#","queue":"{queue}""#));
        old.redis_cli(&["ZADD", "{redis-queue}-delayed", "1690000000", &package]);
    }
    let report = drain(&from, &to, workerman()).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!(report.queues, ["bills", "mail", "orders"].map(|queue| (queue.to_owned(), [2, 0, 0])).into());
    for queue in ["bills", "mail", "orders"] {
        assert_eq!(to.queue(queue).unwrap().counts().await.unwrap().ready, 2, "{queue}");
    }
}

/// A replica that restarts is away for a moment: what it has not confirmed is in flight still.
#[tokio::test]
async fn a_bridge_that_follows_waits_for_a_replica_that_is_away() {
    let (old, new) = (Server::start(), Server::start_with(&["--repl-diskless-sync-delay", "0"]));
    let from = old.client();
    let (deadline, durability) = (Duration::from_secs(1), Durability::Replicas { count: 1 });
    let to = new.builder().durability(durability).deadline(deadline).build().unwrap();
    send(&old, READY, [package(0, "")]);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (tells, mut told) = tokio::sync::mpsc::unbounded_channel();
    let following = tokio::spawn(async move {
        let progress = move |report: &BridgeReport| drop(tells.send(report.trouble.clone()));
        Bridge::new(&from, &to, thinkphp()).follow(async { drop(stopped.await) }, progress).await
    });
    while told.recv().await.expect("it has ended").is_none() {}
    let list = format!("{{{READY}}}:duly:in_flight");
    assert_eq!(old.redis_cli(&["LLEN", &list]).trim(), "1");
    let replica = Server::start();
    replica.redis_cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    while told.recv().await.expect("it has ended").is_some() {}
    support::eventually("it is in flight no more", || async { old.redis_cli(&["LLEN", &list]).trim() == "0" }).await;
    stop.send(()).unwrap();
    assert_eq!(following.await.unwrap().unwrap().moved(), 1);
    assert_eq!(data(&new.client(), State::Ready).await, orders([0]));
}
