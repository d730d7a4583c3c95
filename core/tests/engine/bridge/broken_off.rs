//! A bridge that dies between any two calls.

use std::time::Duration;

use super::{READY, data, orders, package, send, thinkphp, work};
use crate::support;
use crate::support::Server;
use crate::support::proxy::{Fault, Proxy};
use duly::{Bridge, ErrorKind, OldQueue, State};

/// What lies in an old queue whose bridge breaks off: 1,200 jobs each, which are three batches or more.
#[derive(Debug, Clone, Copy)]
enum Full {
    Thinkphp,
    /// In a key that three queues share: each batch has three parts.
    Workerman,
    /// Half of them in a bucket, half in a ready list, and each with a hash.
    Gmq,
    /// A third each ready, due, and with a worker that was killed long ago; the payload is the data.
    ThinkQueue,
    /// The same, and notices.
    Laravel,
}

impl Full {
    const JOBS: usize = 1200;

    fn queue(self) -> OldQueue {
        match self {
            Self::Thinkphp => thinkphp(),
            Self::Workerman => OldQueue::workerman("", &["orders", "mail", "bills"]).unwrap(),
            Self::Gmq => OldQueue::gmq(&["orders"], 1, 1).unwrap(),
            Self::ThinkQueue => OldQueue::think_queue(&["orders"]).unwrap(),
            Self::Laravel => OldQueue::laravel("", &["orders"]).unwrap(),
        }
    }

    fn fill(self, server: &Server) {
        let each = match self {
            Self::Thinkphp => {
                r#"redis.call('LPUSH', 'redis:queue:ready', '{"id":"'..i..'","time":1690000000,"attempts":0,"data":{"order":'..i..'}}')"#
            }
            Self::Workerman => {
                r#"local queue = ({'orders', 'mail', 'bills'})[i % 3 + 1]
                redis.call('ZADD', '{redis-queue}-delayed', 1690000000 + i,
                    '{"id":"'..i..'","queue":"'..queue..'","time":1690000000,"attempts":0,"data":{"order":'..i..'}}')"#
            }
            Self::Gmq => {
                r#"local waits = i % 2 == 0
                redis.call('HMSET', 'gmq:jobpool:'..i, 'id', i, 'topic', 'orders', 'TTR', '30',
                    'body', '{"order":'..i..'}', 'status', waits and '1' or '2', 'consume_num', '0')
                if waits then redis.call('ZADD', 'gmq:bucket:0', 1690000000 + i, i)
                else redis.call('LPUSH', 'gmq:readyqueue:orders', i) end"#
            }
            Self::ThinkQueue => &PAYLOADS.replace("KEY", "{queues:orders}"),
            Self::Laravel => &PAYLOADS.replace("KEY", "queues:orders"),
        };
        let script = format!("for i = 0, {} do {each} end return 'full'", Self::JOBS - 1);
        assert_eq!(server.redis_cli(&["EVAL", &script, "0"]).trim(), "full");
    }
}

const PAYLOADS: &str = r#"local payload = '{"job":"close","attempts":0,"id":"same","data":{"order":'..i..'}}'
    if i % 3 == 0 then redis.call('RPUSH', 'KEY', payload) redis.call('RPUSH', 'KEY:notify', '1')
    else redis.call('ZADD', i % 3 == 1 and 'KEY:delayed' or 'KEY:reserved', 1690000000 + i, payload) end"#;

/// A bridge whose call to one of the two servers is lost, with or without its effect, and that ends with it; and then another one. The
/// jobs are done meanwhile, so that no id could tell that they were here.
async fn break_off(full: Full, at_old: bool, fault: Fault, calls: usize) {
    // On a busy machine a call before that one may have taken too long, and the bridge broken off there.
    for _ in 0..5 {
        if broke_off(full, at_old, fault, calls).await {
            return;
        }
    }
    panic!("no call was lost: {full:?}, at the old server: {at_old}, {fault:?} behind {calls} calls");
}

/// Says whether the call was lost.
async fn broke_off(full: Full, at_old: bool, fault: Fault, calls: usize) -> bool {
    let which = format!("{full:?}, at the old server: {at_old}, {fault:?} behind {calls} calls");
    let (old, new) = (Server::start(), Server::start());
    full.fill(&old);
    let proxy = Proxy::before(if at_old { old.port() } else { new.port() }).await;
    let deadline = Duration::from_secs(1);
    let broken = proxy.builder().deadline(deadline).command_timeout(deadline).build().unwrap();
    support::eventually("it connects", || async { broken.ping().await.is_ok() }).await;
    let (from, to) = if at_old { (broken, new.client()) } else { (old.client(), broken) };
    proxy.next_behind(calls, fault);
    let first = Bridge::new(&from, &to, full.queue()).drain(|_| {}).await;
    let has_ended = first.is_ok();
    let mut done = Vec::new();
    work(&new.client(), &mut done).await;
    // As if its process had ended; nobody waits here until its locks end by themselves.
    drop((first, from, to));
    support::eventually("another one ends", || async {
        for lock in new.redis_cli(&["--raw", "KEYS", "duly:{bridge:*}:lock"]).lines() {
            new.redis_cli(&["DEL", lock]);
        }
        let drained = Bridge::new(&old.client(), &new.client(), full.queue()).drain(|_| {}).await;
        drained.inspect_err(|error| eprintln!("{which}: {error}")).is_ok()
    })
    .await;
    work(&new.client(), &mut done).await;
    work(&new.client(), &mut done).await;
    done.sort();
    let mut all = orders(0..Full::JOBS);
    all.sort();
    assert_eq!(done, all, "{which}");
    assert!(!has_ended || proxy.lost() != (0, 0), "it makes fewer calls: {which}");
    proxy.lost() != (0, 0)
}

async fn break_off_each(full: Full, at: impl IntoIterator<Item = (bool, usize)>) {
    for both in at.into_iter().collect::<Vec<_>>().chunks(2) {
        let mut breaking = tokio::task::JoinSet::new();
        for &(at_old, calls) in both {
            for fault in [Fault::LoseRequest, Fault::LoseReply] {
                breaking.spawn(break_off(full, at_old, fault, calls));
            }
        }
        breaking.join_all().await;
    }
}

/// Of the old server one call says that it does not know the script, three ask for batches of other bridges, and then one asks for a batch
/// of each key in turn: the last of the third batch is ended by the fourteenth.
#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_dies_between_any_two_calls_loses_and_doubles_nothing() {
    let at_old = (0..16).map(|calls| (true, calls));
    break_off_each(Full::Thinkphp, at_old.chain((0..10).map(|calls| (false, calls)))).await;
}

/// Of duly's server it wants five locks first, and then the counts of three queues, and nine parts.
#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_dies_between_the_parts_of_a_batch_loses_and_doubles_nothing() {
    let at_new = (6..20).map(|calls| (false, calls));
    break_off_each(Full::Workerman, at_new.chain([1, 2, 6, 7, 11, 16].map(|calls| (true, calls)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_of_gmq_that_dies_between_two_calls_loses_and_doubles_nothing() {
    let at_old = (2..13).map(|calls| (true, calls));
    break_off_each(Full::Gmq, at_old.chain((4..10).map(|calls| (false, calls)))).await;
}

/// Of the old server one call says that it does not know the script, three ask for batches of other bridges, and then one asks for a batch of
/// each of three keys in turn, which is ended by the next one. Of duly's server it wants three locks first, and then three batches.
#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_of_payloads_that_dies_between_two_calls_loses_and_doubles_nothing() {
    for full in [Full::ThinkQueue, Full::Laravel] {
        let at_old = (1..10).map(|calls| (true, calls));
        break_off_each(full, at_old.chain((4..10).map(|calls| (false, calls)))).await;
    }
}

#[tokio::test]
async fn one_bridge_at_a_time_and_a_late_copy_of_a_dead_one_moves_nothing() {
    let (old, new) = (Server::start(), Server::start());
    let proxy = Proxy::before(old.port()).await;
    let from = proxy.builder().build().unwrap();
    from.ping().await.unwrap();
    send(&old, READY, [package(0, "")]);
    proxy.next_after(0, Fault::HoldRequest);
    let to = new.client();
    let dead = tokio::spawn(async move { Bridge::new(&from, &to, thinkphp()).drain(|_| {}).await.map(drop) });
    proxy.happened().await;
    let refused = Bridge::new(&old.client(), &new.client(), thinkphp()).drain(|_| {}).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(refused.to_string().contains("another bridge of the key '"), "{refused}");
    dead.abort();
    support::eventually("it has given up its lock", || async {
        Bridge::new(&old.client(), &new.client(), thinkphp()).drain(|_| {}).await.is_ok()
    })
    .await;
    send(&old, READY, [package(1, "")]);
    proxy.deliver().await;
    assert_eq!(old.redis_cli(&["LLEN", READY]).trim(), "1", "it is the old queue's");
    assert_eq!(data(&new.client(), State::Ready).await, orders([0]));
}
