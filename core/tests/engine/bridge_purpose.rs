//! A batch in flight is gone on with for what it was made for, and for nothing else: another target does not know what the first one has.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::Server;
use crate::support::proxy::{Fault, Proxy};
use duly::{Bridge, BridgeReport, Client, Error, ErrorKind, NewJob, OldQueue, ReserveOptions, ScoreUnit, State};

const READY: &str = "redis:queue:ready";
const STATE: &str = "{redis:queue:ready}:duly:state";

fn thinkphp(to: &str) -> OldQueue {
    OldQueue::thinkphp(to).unwrap()
}

fn package(number: usize) -> String {
    format!(r#"{{"id":"{number}","time":1690000000,"delay":0,"attempts":0,"data":{number}}}"#)
}

async fn drain(bridge: &Bridge) -> Result<BridgeReport, Error> {
    bridge.drain(|_| {}).await
}

async fn data(client: &Client, queue: &str, state: State) -> Vec<String> {
    let jobs = client.queue(queue).unwrap().peek(state, 0, 1000).await.unwrap();
    jobs.into_iter().map(|job| job.envelope.data.as_str().to_owned()).collect()
}

/// Fails with what the user must change, and moves nothing.
async fn refused(bridge: &Bridge, what: &[&str]) -> String {
    let error = drain(bridge).await.unwrap_err();
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{said}");
    for part in what.iter().chain(&["in flight from a bridge with other options", "with the options that it had"]) {
        assert!(said.contains(part), "{said}");
    }
    // `follow` does not wait for that to pass.
    let followed = bridge.follow(std::future::pending(), |_| {}).await.unwrap_err();
    assert_eq!(followed.to_string(), said);
    said
}

/// Puts a bridge's own keys beside one of the old queue away, or back.
fn own_keys(old: &Server, [from, to]: [&str; 2]) {
    for own in ["in_flight", "state"] {
        let key = |end| format!("{{{READY}}}:duly:{own}{end}");
        old.redis_cli(&["COPY", &key(from), &key(to), "REPLACE"]);
    }
}

/// A bridge that was killed behind the call that stored its batch of three jobs.
async fn interrupted(old: &Server, to: &Client) {
    for entry in [package(0), package(1), "no package".to_owned()] {
        old.redis_cli(&["LPUSH", READY, &entry]);
    }
    let bridge = Bridge::new(&old.client(), to, thinkphp("orders"));
    let report = bridge.drain(|_| own_keys(old, ["", ":then"])).await.unwrap();
    assert!(report.is_complete(), "{report}");
    own_keys(old, [":then", ""]);
    assert_eq!(data(to, "orders", State::Ready).await, ["0", "1"]);
}

#[tokio::test]
async fn a_batch_that_comes_over_goes_to_no_other_target() {
    let (old, new, third) = (Server::start(), Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    interrupted(&old, &to).await;
    let with = |to: &Client, old: OldQueue| Bridge::new(&from, to, old);
    let of = "3 jobs of the key 'redis:queue:ready' are in flight";
    let said = refused(&with(&to, thinkphp("mail")), &[of, "queue: 'orders' there, 'mail' here"]).await;
    assert!(said.contains("HDEL {redis:queue:ready}:duly:state made_for sequence"), "{said}");
    let parts = with(&to, thinkphp("orders")).partitions(2).unwrap();
    refused(&parts, &["partitions: '1' there, '2' here"]).await;
    let prefix = new.builder().prefix("shop:").build().unwrap();
    refused(&with(&prefix, thinkphp("orders")), &["prefix: 'duly:' there, 'shop:' here"]).await;
    let list = OldQueue::list(READY, false, "orders").unwrap();
    refused(&with(&to, list), &["from: 'thinkphp' there, 'list' here"]).await;
    let (first, other) = (format!("127.0.0.1:{}", new.port()), format!("127.0.0.1:{}", third.port()));
    let where_to = format!("server: {first} there, {other} here");
    refused(&with(&third.client(), thinkphp("orders")), &[&where_to]).await;
    // One that has lost its data is another one, as far as anybody can tell.
    new.redis_cli(&["RENAME", "duly:{bridge}:target", "kept"]);
    let without_data = format!("server: another one than this at {first}, or this has lost its data");
    refused(&with(&to, thinkphp("orders")), &[&without_data]).await;
    new.redis_cli(&["RENAME", "kept", "duly:{bridge}:target"]);
    assert_eq!(third.client().queue("orders").unwrap().counts().await.unwrap().ready, 0);
    // With the options that it had, and under another address of that server.
    let same = Client::builder().url(&format!("redis://localhost:{}", new.port())).build().unwrap();
    let report = drain(&with(&same, thinkphp("orders"))).await.unwrap();
    assert_eq!((report.moved(), report.is_complete()), (3, true), "{report}");
    assert_eq!(data(&to, "orders", State::Ready).await, ["0", "1"]);
    assert_eq!(data(&to, "orders", State::Failed).await.len(), 1);
    // Now there is nothing in flight, and any target is right.
    old.redis_cli(&["LPUSH", READY, &package(3)]);
    assert_eq!(drain(&with(&third.client(), thinkphp("mail"))).await.unwrap().moved(), 1);
}

/// Else each of two bridges would have something in flight that stops the other one.
#[tokio::test]
async fn a_bridge_that_is_refused_for_one_key_has_moved_nothing_of_another() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    interrupted(&old, &to).await;
    // This key comes first.
    old.redis_cli(&["ZADD", "redis:queue:delay", "1690000000", &package(7)]);
    refused(&Bridge::new(&from, &to, thinkphp("mail")), &[]).await;
    assert_eq!(old.redis_cli(&["ZCARD", "redis:queue:delay"]).trim(), "1");
    let report = drain(&Bridge::new(&from, &to, thinkphp("orders"))).await.unwrap();
    assert_eq!((report.moved(), report.is_complete()), (4, true), "{report}");

    // The other way, of two queues.
    let workerman = |prefix: &str| OldQueue::workerman(prefix, &["mail", "orders"]).unwrap();
    old.redis_cli(&["SET", "{redis-queue}-waitingorders", "foreign"]);
    assert!(drain(&Bridge::new(&from, &to, workerman("")).back().unwrap()).await.is_err());
    to.queue("mail").unwrap().push(NewJob::new(&1).unwrap()).await.unwrap();
    let other = Bridge::new(&from, &to, workerman("other")).back().unwrap();
    refused(&other, &[]).await;
    assert!(other.give_back().await.is_err());
    assert_eq!(data(&to, "mail", State::Ready).await, ["1"]);
    old.redis_cli(&["DEL", "{redis-queue}-waitingorders"]);
    assert!(drain(&Bridge::new(&from, &to, workerman("")).back().unwrap()).await.unwrap().is_complete());
}

/// What the error says for the case that the first target is gone.
#[tokio::test]
async fn a_batch_whose_target_is_gone_can_go_to_another_one() {
    let (old, new, third) = (Server::start(), Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    interrupted(&old, &to).await;
    // Of two partitions one may know its sequence: that is the queue of another part of the batch.
    for bridge in [
        Bridge::new(&from, &third.client(), thinkphp("orders")),
        Bridge::new(&from, &to, thinkphp("orders")).partitions(2).unwrap(),
    ] {
        refused(&bridge, &[]).await;
        old.redis_cli(&["HDEL", STATE, "made_for", "sequence"]);
        assert_eq!(drain(&bridge).await.unwrap().moved(), 3);
        own_keys(&old, [":then", ""]);
    }
    assert_eq!(third.client().queue("orders").unwrap().counts().await.unwrap().ready, 2);
    assert_eq!(to.partitioned_queue("orders", 2).unwrap().counts().await.unwrap().ready, 2);
}

#[tokio::test]
async fn options_that_decide_nothing_may_differ() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    interrupted(&old, &to).await;
    let named = thinkphp("orders").name("order.close").unwrap();
    assert_eq!(drain(&Bridge::new(&from, &to, named)).await.unwrap().moved(), 3);
}

#[tokio::test]
async fn a_batch_of_scores_keeps_their_unit() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    let sorted = |unit| OldQueue::sorted_set("later", unit, "orders").unwrap();
    old.redis_cli(&["ZADD", "later", "1690000000000", "1"]);
    new.redis_cli(&["SET", "duly:{orders}:delayed", "foreign"]);
    assert!(drain(&Bridge::new(&from, &to, sorted(ScoreUnit::Millis))).await.is_err());
    new.redis_cli(&["DEL", "duly:{orders}:delayed"]);
    let said = refused(&Bridge::new(&from, &to, sorted(ScoreUnit::Seconds)), &["unit: 'ms' there, 's' here"]).await;
    assert!(said.starts_with("1 job of the key 'later' is in flight") || said.contains(": 1 job of"), "{said}");
    assert_eq!(drain(&Bridge::new(&from, &to, sorted(ScoreUnit::Millis))).await.unwrap().moved(), 1);
}

/// Jobs are on their way back to an old server that does not take them.
async fn interrupted_back(old: &Server, new: &Client) {
    let queue = new.queue("orders").unwrap();
    for number in 0..3 {
        queue.push(NewJob::new(&number).unwrap().name("order.close")).await.unwrap();
    }
    old.redis_cli(&["SET", READY, "foreign"]);
    let bridge = Bridge::new(&old.client(), new, thinkphp("orders")).back().unwrap();
    assert!(drain(&bridge).await.is_err());
    old.redis_cli(&["DEL", READY]);
    assert_eq!(queue.counts().await.unwrap().ready, 0);
}

#[tokio::test]
async fn a_batch_that_goes_back_goes_to_no_other_queue_and_is_given_back_by_no_other_bridge() {
    let (old, new, third) = (Server::start(), Server::start(), Server::start());
    let (to, from) = (old.client(), new.client());
    interrupted_back(&old, &from).await;
    let back = |to: &Client, old: OldQueue| Bridge::new(to, &from, old).back().unwrap();
    let keys =
        |ready| OldQueue::thinkphp_with_keys("orders", ready, "redis:queue:delay", "redis:queue:failed").unwrap();
    let (first, other) = (format!("127.0.0.1:{}", old.port()), format!("127.0.0.1:{}", third.port()));
    let where_to = format!("server: {first} there, {other} here");
    let said = refused(
        &back(&third.client(), thinkphp("orders")),
        &["3 jobs of the queue 'orders' are in flight", &where_to, "HDEL duly:{orders}:departed made_for"],
    )
    .await;
    for (bridge, what) in [
        (back(&third.client(), thinkphp("orders")), where_to.as_str()),
        (back(&to, keys("mine")), "ready: 'redis:queue:ready' there, 'mine' here"),
        (back(&to, OldQueue::think_queue(&["orders"]).unwrap()), "from: 'thinkphp' there, 'think-queue' here"),
    ] {
        refused(&bridge, &[what]).await;
        let given = bridge.give_back().await.unwrap_err();
        assert_eq!(given.kind(), ErrorKind::InvalidArgument, "{given}");
        assert!(given.to_string().contains(what), "{given}");
    }
    assert_eq!(from.queue("orders").unwrap().counts().await.unwrap().ready, 0);
    assert_eq!(third.redis_cli(&["EXISTS", READY]).trim(), "0");
    // With the options that it had.
    let given = back(&to, thinkphp("orders")).give_back().await.unwrap();
    assert_eq!((given.given, given.published), (3, 0), "{said}");
    // Now there is nothing on its way, and any old queue is right.
    assert_eq!(drain(&back(&third.client(), keys("mine"))).await.unwrap().moved(), 3);
    assert_eq!(third.redis_cli(&["LLEN", "mine"]).trim(), "3");
}

/// What the error says for the case that the old server is gone.
#[tokio::test]
async fn a_batch_whose_old_server_is_gone_can_be_given_back() {
    let (old, new, third) = (Server::start(), Server::start(), Server::start());
    let from = new.client();
    interrupted_back(&old, &from).await;
    let bridge = Bridge::new(&third.client(), &from, thinkphp("orders")).back().unwrap();
    assert!(bridge.give_back().await.is_err());
    new.redis_cli(&["HDEL", "duly:{orders}:departed", "made_for"]);
    assert_eq!(bridge.give_back().await.unwrap().given, 3);
    assert_eq!(data(&from, "orders", State::Ready).await, ["0", "1", "2"]);
}

fn forget_locks(server: &Server) {
    for lock in server.redis_cli(&["--raw", "KEYS", "duly:{bridge:*}:lock"]).lines() {
        server.redis_cli(&["DEL", lock]);
    }
}

/// Stops at its second batch until the test lets it go on.
fn at_the_second_batch() -> (impl FnMut(&BridgeReport) + Send, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (tells, is_there) = mpsc::channel();
    let (goes_on, may_go_on) = mpsc::channel::<()>();
    let mut batches = 0;
    let progress = move |_: &BridgeReport| {
        batches += 1;
        if batches == 2 {
            tells.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
    };
    (progress, is_there, goes_on)
}

async fn wait_for(arrived: mpsc::Receiver<()>) {
    tokio::task::spawn_blocking(move || arrived.recv_timeout(Duration::from_secs(30)).unwrap()).await.unwrap();
}

/// A bridge was frozen with a batch in its hands, and its token was deleted, as an error once said; the one that went on has a smaller
/// token, by a clock that was set back. Then the first one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_bridge_that_goes_on_beside_another_one_stores_no_batch_again() {
    let (old, new) = (Server::start(), Server::start());
    let script =
        format!("for i = 0, 1199 do redis.call('LPUSH', '{READY}', '{{\"id\":\"x\",\"data\":'..i..'}}') end return 1");
    old.redis_cli(&["EVAL", &script, "0"]);
    let proxy = Proxy::before(new.port()).await;
    let frozen =
        proxy.builder().deadline(Duration::from_secs(60)).command_timeout(Duration::from_secs(60)).build().unwrap();
    frozen.ping().await.unwrap();
    // Until new connections are let through.
    proxy.only(b"duly:{orders}:adopted");
    proxy.next(Fault::LoseRequest);
    let from = old.client();
    let first = tokio::spawn(async move { drain(&Bridge::new(&from, &frozen, thinkphp("orders"))).await });
    proxy.happened().await;
    let token = old.redis_cli(&["HGET", STATE, "token"]).trim().to_owned();
    forget_locks(&new);
    old.redis_cli(&["HDEL", STATE, "token"]);
    let (progress, arrived, goes_on) = at_the_second_batch();
    let (from, to) = (old.client(), new.client());
    let second = tokio::spawn(async move { Bridge::new(&from, &to, thinkphp("orders")).drain(progress).await });
    wait_for(arrived).await;
    old.redis_cli(&["HSET", STATE, "token", &token]);
    proxy.reopen();
    // The second one is fenced, and the first one ends it or is refused itself: what counts is that each job comes once.
    let first = first.await.unwrap();
    goes_on.send(()).unwrap();
    let second = second.await.unwrap();
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    forget_locks(&new);
    old.redis_cli(&["HDEL", STATE, "token"]);
    drain(&Bridge::new(&old.client(), &new.client(), thinkphp("orders"))).await.unwrap();
    let mut done = Vec::new();
    let queue = new.queue("orders");
    loop {
        let jobs = queue.reserve(&ReserveOptions::new().max(1000)).await.unwrap();
        if jobs.is_empty() {
            break;
        }
        done.extend(jobs.iter().map(|job| job.envelope.data.as_str().parse::<usize>().unwrap()));
        for job in jobs {
            job.ack().await.unwrap();
        }
    }
    done.sort_unstable();
    let first_wrong = done.iter().enumerate().find(|(at, number)| at != *number);
    assert_eq!((done.len(), first_wrong), (1200, None));
}

/// The same, the other way.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_bridge_back_that_goes_on_beside_another_one_sends_no_batch_again() {
    let (old, new) = (Server::start(), Server::start());
    let queue = new.queue("orders");
    for some in (0..1200).collect::<Vec<_>>().chunks(600) {
        queue
            .push_many(some.iter().map(|number| NewJob::new(number).unwrap()).collect::<Vec<_>>(), |_| {})
            .await
            .unwrap();
    }
    let proxy = Proxy::before(old.port()).await;
    let frozen =
        proxy.builder().deadline(Duration::from_secs(60)).command_timeout(Duration::from_secs(60)).build().unwrap();
    frozen.ping().await.unwrap();
    proxy.next(Fault::LoseRequest);
    let from = new.client();
    let back = |to: &Client, from: &Client| Bridge::new(to, from, thinkphp("orders")).back().unwrap();
    let bridge = back(&frozen, &from);
    let first = tokio::spawn(async move { drain(&bridge).await });
    proxy.happened().await;
    let departed = "duly:{orders}:departed";
    let token = new.redis_cli(&["HGET", departed, "token"]).trim().to_owned();
    forget_locks(&new);
    new.redis_cli(&["HDEL", departed, "token"]);
    let (progress, arrived, goes_on) = at_the_second_batch();
    let bridge = back(&old.client(), &new.client());
    let second = tokio::spawn(async move { bridge.drain(progress).await });
    wait_for(arrived).await;
    new.redis_cli(&["HSET", departed, "token", &token]);
    proxy.reopen();
    let first = first.await.unwrap();
    goes_on.send(()).unwrap();
    let second = second.await.unwrap();
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    forget_locks(&new);
    new.redis_cli(&["HDEL", departed, "token"]);
    drain(&back(&old.client(), &new.client())).await.unwrap();
    let entries = old.redis_cli(&["--raw", "LRANGE", READY, "0", "-1"]);
    let number = |line: &str| line.split_once(r#""data":"#)?.1.split([',', '}']).next()?.parse::<usize>().ok();
    let mut done: Vec<usize> = entries.lines().filter_map(number).collect();
    done.sort_unstable();
    let first_wrong = done.iter().enumerate().find(|(at, number)| at != *number);
    assert_eq!((done.len(), first_wrong), (1200, None));
}
