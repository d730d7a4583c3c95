//! The way over from other queues: nothing is lost and nothing is doubled, wherever it breaks off.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use duly::{
    Bridge, BridgeReport, Client, Durability, ErrorKind, JobView, NewJob, OldQueue, ReserveOptions, ScoreUnit, State,
};

const READY: &str = "redis:queue:ready";
const DELAYED: &str = "redis:queue:delay";
const FAILED: &str = "redis:queue:failed";

fn package(number: usize, more: &str) -> String {
    format!(
        r#"{{"id":"1690000000.5.{number}","time":1690000000,"delay":0,"attempts":0,"data":{{"order":{number}}}{more}}}"#
    )
}

/// As `Queue.php` does it: new ones come in at the left.
fn send(server: &Server, key: &str, packages: impl IntoIterator<Item = String>) {
    for package in packages {
        server.redis_cli(&["LPUSH", key, &package]);
    }
}

fn thinkphp() -> OldQueue {
    OldQueue::thinkphp("orders").unwrap()
}

async fn drain(from: &Client, to: &Client, old: OldQueue) -> BridgeReport {
    Bridge::new(from, to, old).drain(|_| {}).await.unwrap()
}

async fn peek(client: &Client, state: State) -> Vec<JobView> {
    client.queue("orders").unwrap().peek(state, 0, 1000).await.unwrap()
}

async fn data(client: &Client, state: State) -> Vec<String> {
    peek(client, state).await.into_iter().map(|job| job.envelope.data.as_str().to_owned()).collect()
}

fn orders(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!(r#"{{"order":{number}}}"#)).collect()
}

#[tokio::test]
async fn jobs_come_over_in_order_with_their_times_attempts_and_errors() {
    let (old, new) = (Server::start(), Server::start());
    // Two equal packages are two jobs, and an id that comes twice is none.
    send(&old, READY, [0, 1, 1, 2].map(|number| package(number, "")));
    old.redis_cli(&["ZADD", DELAYED, "4102444800", &package(3, "")]);
    old.redis_cli(&["ZADD", DELAYED, "1690000000.25", &package(4, "")]);
    let why = r#","attempts":6,"max_attempts":5,"error":"no bank","shop":7"#;
    send(&old, FAILED, [package(5, why), "no package".to_owned()]);
    let (from, to) = (old.client(), new.client());

    let dry = Bridge::new(&from, &to, thinkphp()).count().await.unwrap();
    assert_eq!((dry.moved(), dry.unreadable, dry.queues["orders"]), (8, 1, [5, 1, 2]));
    assert_eq!(new.redis_cli(&["DBSIZE"]).trim(), "0");

    let report = drain(&from, &to, thinkphp()).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!(report.queues, BTreeMap::from([("orders".to_owned(), [5, 1, 2])]));
    assert!(report.to_string().ends_with("counts before and after agree: nothing is left"), "{report}");

    // What is due already was taken before those that were ready.
    assert_eq!(data(&to, State::Ready).await, orders([4, 0, 1, 1, 2]));
    let delayed = peek(&to, State::Delayed).await.remove(0);
    assert_eq!((delayed.envelope.data.as_str(), delayed.at.unwrap().get()), (r#"{"order":3}"#, 4_102_444_800_000));
    let failed = peek(&to, State::Failed).await;
    let one = failed.iter().find(|job| job.envelope.attempts == 6).unwrap();
    assert_eq!((one.envelope.error.as_str(), one.envelope.time), ("no bank", 1_690_000_000));
    assert_eq!(one.envelope.headers["old-id"], "1690000000.5.5");
    assert_eq!((one.envelope.unknown[0].name.as_str(), one.envelope.unknown[0].value.as_str()), ("shop", "7"));
    assert!(
        failed.iter().any(|job| job.package() == b"no package" && job.envelope.error.contains("could not read it"))
    );
    assert_eq!(drain(&from, &to, thinkphp()).await.moved(), 0);
}

/// Takes and finishes all jobs that are ready, as workers do that do not wait for the bridge.
async fn work(client: &Client, done: &mut Vec<String>) {
    for queue in ["orders", "mail", "bills"] {
        let queue = client.queue(queue).unwrap();
        let jobs = queue.reserve(&ReserveOptions::new().max(1000)).await.unwrap();
        for job in &jobs {
            // Of a payload what is in it.
            let data = job.envelope.data.as_str();
            let data = data.split_once(r#""data":"#).map_or(data, |(_, data)| &data[..data.len() - 1]);
            done.push(data.to_owned());
        }
        assert!(queue.ack_all(&jobs).await.unwrap().into_iter().all(|acked| acked));
    }
}

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

#[tokio::test]
async fn payloads_are_kept_whole_and_what_workers_have_is_left_to_them() {
    let server = Server::start();
    let payload = |order: usize, more: &str| {
        format!(
            r#"{{"job":"app\\job\\Close@fire","maxTries":3,"data":{{"order":{order}}},"attempts":{order},"id":"same"{more}}}"#
        )
    };
    let now = server.clock() / 1_000_000;
    server.redis_cli(&["RPUSH", "{queues:orders}", &payload(0, ""), &payload(1, "")]);
    server.redis_cli(&["ZADD", "{queues:orders}:delayed", "4102444800", &payload(2, "")]);
    let (over, held) = ((now - 5).to_string(), (now + 3600).to_string());
    server.redis_cli(&["ZADD", "{queues:orders}:reserved", &over, &payload(3, ""), &held, &payload(4, "")]);
    server.redis_cli(&["RPUSH", "app_queues:orders", &payload(5, r#","uuid":"u-5""#)]);
    let client = server.client();
    let report = drain(&client, &client, OldQueue::think_queue(&["orders"]).unwrap()).await;
    assert_eq!((report.moved(), report.is_complete()), (4, false), "{report}");
    assert!(report.to_string().contains("1 job is with workers of the old queue"), "{report}");
    drain(&client, &client, OldQueue::laravel("app_", &["orders"]).unwrap()).await;
    let ready = peek(&client, State::Ready).await;
    assert_eq!(ready.iter().map(|job| job.envelope.attempts).collect::<Vec<_>>(), [3, 0, 1, 5]);
    for job in &ready {
        let order = job.envelope.attempts as usize;
        let more = if order == 5 { r#","uuid":"u-5""# } else { "" };
        assert_eq!(job.envelope.data.as_str(), payload(order, more));
        assert_eq!(job.envelope.name.as_deref(), Some(r"app\job\Close@fire"));
        assert_eq!(
            (job.envelope.max_attempts, &*job.envelope.headers["old-id"]),
            (2, if order == 5 { "u-5" } else { "same" })
        );
    }
    assert_eq!(server.redis_cli(&["ZCARD", "{queues:orders}:reserved"]).trim(), "1");
}

/// Laravel adds an entry to `:notify` for each job, and its workers take one off with each job.
#[tokio::test]
async fn notices_of_laravel_go_with_their_jobs() {
    let server = Server::start();
    let client = server.client();
    let push = |order: usize| {
        server.redis_cli(&["RPUSH", "queues:orders", &format!(r#"{{"job":"close","data":{order}}}"#)]);
        server.redis_cli(&["RPUSH", "queues:orders:notify", "1"]);
    };
    let laravel = || OldQueue::laravel("", &["orders"]).unwrap();
    // One is there already of a job that an earlier bridge has taken over.
    server.redis_cli(&["RPUSH", "queues:orders:notify", "1"]);
    (0..3).for_each(push);
    Bridge::new(&client, &client, laravel()).count().await.unwrap();
    assert_eq!(server.redis_cli(&["LLEN", "queues:orders:notify"]).trim(), "4");
    assert!(drain(&client, &client, laravel()).await.is_complete());
    assert_eq!(server.redis_cli(&["LLEN", "queues:orders:notify"]).trim(), "0");

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let to = client.clone();
    let following =
        tokio::spawn(
            async move { Bridge::new(&to, &to, laravel()).follow(async { drop(stopped.await) }, |_| {}).await },
        );
    for order in 3..6 {
        push(order);
        support::eventually("its notice is gone", || async {
            server.redis_cli(&["LLEN", "queues:orders:notify"]).trim() == "0"
        })
        .await;
    }
    stop.send(()).unwrap();
    assert_eq!(following.await.unwrap().unwrap().moved(), 3);
}

/// gmq loses jobs whose ids stay.
#[tokio::test]
async fn ids_without_a_job_are_dropped_and_counted() {
    let server = Server::start();
    let client = server.client();
    let fields = ["id", "r1", "topic", "orders", "TTR", "30", "body", "1", "status", "2", "consume_num", "0"];
    server.redis_cli(&[&["HMSET", "gmq:jobpool:r1"][..], &fields].concat());
    server.redis_cli(&["LPUSH", "gmq:readyqueue:orders", "gone", "r1", "r1"]);
    server.redis_cli(&["ZADD", "gmq:bucket:0", "4102444800", "gone too"]);
    let gmq = || OldQueue::gmq(&["orders"], 1, 1).unwrap();
    let report = drain(&client, &client, gmq()).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!((report.moved(), report.lanes.iter().map(|lane| lane.dropped).sum::<u64>()), (1, 3), "{report}");
    let said = report.to_string();
    assert!(said.contains("3 entries of the old queue name no job any more, and were dropped"), "{report}");
    assert!(said.ends_with("counts before and after agree: nothing is left"), "{report}");
    // Another bridge counts its own.
    server.redis_cli(&["LPUSH", "gmq:readyqueue:orders", "gone"]);
    let report = drain(&client, &client, gmq()).await;
    assert_eq!(
        (report.is_complete(), report.lanes.iter().map(|lane| lane.dropped).sum::<u64>()),
        (true, 1),
        "{report}"
    );
}

#[tokio::test]
async fn the_counts_of_dulys_queue_are_compared_with_what_was_stored() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    to.queue("orders").unwrap().push(NewJob::new(&0).unwrap()).await.unwrap();
    send(&old, READY, (0..3).map(|number| package(number, "")));
    let report = drain(&from, &to, thinkphp()).await;
    assert!(report.is_complete(), "{report}");
    let said = report.to_string();
    assert!(said.contains("the queue 'orders' had counted 1 pushed job before, and counts 4 now"), "{report}");
    send(&old, READY, [package(3, "")]);
    // As a failover does it: what came over is not there any more.
    let lose = |_: &BridgeReport| drop(new.redis_cli(&["HSET", "duly:{orders}:stats", "pushed", "4"]));
    let report = Bridge::new(&from, &to, thinkphp()).drain(lose).await.unwrap();
    assert!(!report.is_complete(), "{report}");
    assert!(report.to_string().contains("1 job was stored in the queue 'orders', which does not count it"), "{report}");
}

#[tokio::test]
async fn shared_keys_are_parted_by_the_queue_of_the_package() {
    let server = Server::start();
    let of = |queue: &str, order: usize| package(order, &format!(r#","queue":"{queue}""#));
    send(&server, "{redis-queue}-waitingorders", [of("orders", 0)]);
    for (queue, order) in [("orders", 1), ("mail", 2), ("not a name", 3)] {
        server.redis_cli(&["ZADD", "{redis-queue}-delayed", "1690000000", &of(queue, order)]);
    }
    send(&server, "{redis-queue}-failed", [of("mail", 4)]);
    let client = server.client();
    let report = drain(&client, &client, OldQueue::workerman("", &["orders", "mail"]).unwrap()).await;
    assert!(report.is_complete(), "{report}");
    let counts = [("default", [1, 0, 0]), ("mail", [1, 0, 1]), ("orders", [2, 0, 0])];
    assert_eq!(report.queues, counts.map(|(queue, counts)| (queue.to_owned(), counts)).into());
}

#[tokio::test]
async fn any_list_and_any_sorted_set_come_over() {
    let server = Server::start();
    server.redis_cli(&["RPUSH", "tasks", r#"["mail",{"to":1}]"#, "plain text"]);
    server.redis_cli(&["ZADD", "later", "4102444800000000000", "7"]);
    let client = server.client();
    drain(&client, &client, OldQueue::list("tasks", true, "orders").unwrap().name("old.task").unwrap()).await;
    drain(&client, &client, OldQueue::sorted_set("later", ScoreUnit::Nanos, "orders").unwrap()).await;
    assert_eq!(data(&client, State::Ready).await, [r#"["mail",{"to":1}]"#, r#""plain text""#]);
    assert_eq!(peek(&client, State::Ready).await[0].envelope.name.as_deref(), Some("old.task"));
    // They do not say when they were pushed.
    assert!(client.queue("orders").unwrap().counts().await.unwrap().oldest_ready_age.is_some());
    assert_eq!(peek(&client, State::Delayed).await[0].at.unwrap().get(), 4_102_444_800_000);
}

/// The queue would let the oldest go.
#[tokio::test]
async fn more_failed_jobs_than_the_queue_keeps_wait() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("orders").unwrap();
    queue.keep_failed(2, Duration::from_secs(3600)).await.unwrap();
    send(&server, FAILED, (0..2).map(|number| package(number, "")));
    // Nobody can read one of these, and the others are healthy.
    send(&server, READY, (3..6).map(|number| package(number, "")));
    send(&server, READY, ["no package".to_owned()]);
    let report = drain(&client, &client, thinkphp()).await;
    assert!(!report.is_complete(), "{report}");
    let said = report.to_string();
    assert!(said.contains("the jobs of 'redis:queue:failed' wait: 2 failed jobs come"), "{report}");
    assert!(said.contains("and the queue 'orders' keeps 1 more: raise that with keep_failed"), "{report}");
    assert_eq!(data(&client, State::Ready).await, orders([3, 4, 5]));
    assert!(said.ends_with("not all was moved"), "{report}");
    // What has come over is counted, and what waits is left.
    send(&server, READY, [package(6, ""), "no package".to_owned(), "nor this".to_owned()]);
    let report = drain(&client, &client, thinkphp()).await;
    let counts = |report: &BridgeReport| {
        let of = |key: &str| report.lanes.iter().find(|lane| lane.key == key).unwrap();
        [READY, FAILED].map(|key| (of(key).before, of(key).moved, of(key).left, of(key).in_flight))
    };
    assert_eq!((report.moved(), report.queues["orders"]), (1, [1, 0, 0]), "{report}");
    assert_eq!(counts(&report), [(3, 1, 2, 2), (2, 0, 2, 2)], "{report}");
    assert_eq!(drain(&client, &client, thinkphp()).await.moved(), 0);
    queue.keep_failed(9, Duration::from_secs(3600)).await.unwrap();
    let report = drain(&client, &client, thinkphp()).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!(counts(&report), [(2, 2, 0, 0), (2, 2, 0, 0)], "{report}");
    assert_eq!(peek(&client, State::Failed).await.len(), 5);
}

/// A key of several queues, of which one has no room.
#[tokio::test]
async fn a_full_failed_of_one_queue_holds_up_no_other_queue_of_its_key() {
    let server = Server::start();
    let client = server.client();
    let queues = ["orders", "mail", "bills"];
    let full = client.queue("bills").unwrap();
    full.keep_failed(1, Duration::from_secs(3600)).await.unwrap();
    // Bills come before mail and orders, in the order in which parts are stored.
    for number in 0..9 {
        let more = format!(r#","queue":"{}""#, queues[number % 3]);
        send(&server, "{redis-queue}-failed", [package(number, &more)]);
    }
    let workerman = || OldQueue::workerman("", &queues).unwrap();
    let report = drain(&client, &client, workerman()).await;
    assert_eq!((report.moved(), report.is_complete()), (6, false), "{report}");
    assert!(report.to_string().contains("3 failed jobs come, and the queue 'bills' keeps 1 more"), "{report}");
    let lane = report.lanes.iter().find(|lane| lane.key.ends_with("failed")).unwrap();
    assert_eq!((lane.before, lane.moved, lane.left, lane.in_flight), (9, 6, 3, 3), "{report}");
    for queue in ["orders", "mail"] {
        assert_eq!(client.queue(queue).unwrap().counts().await.unwrap().failed, 3, "{queue}");
    }
    full.keep_failed(9, Duration::from_secs(3600)).await.unwrap();
    let report = drain(&client, &client, workerman()).await;
    assert_eq!((report.moved(), report.is_complete()), (3, true), "{report}");
    assert_eq!(full.counts().await.unwrap().failed, 3);
}

#[tokio::test]
async fn payloads_without_a_limit_of_tries_are_retried_without_end_and_go_back_so() {
    let server = Server::start();
    let client = server.client();
    let payload = |tries: &str| format!(r#"{{"job":"close","maxTries":{tries},"attempts":7,"id":"a","data":{tries}}}"#);
    for tries in ["0", "null", "1", "3"] {
        server.redis_cli(&["RPUSH", "{queues:orders}", &payload(tries)]);
        server.redis_cli(&["RPUSH", "queues:orders", &payload(tries)]);
    }
    drain(&client, &client, OldQueue::think_queue(&["orders"]).unwrap()).await;
    drain(&client, &client, OldQueue::laravel("", &["orders"]).unwrap()).await;
    let ready = peek(&client, State::Ready).await;
    let retries: Vec<_> = ready.iter().map(|job| job.envelope.max_attempts).collect();
    assert_eq!(retries, [[u32::MAX, 5, 0, 2], [u32::MAX, 5, 0, 2]].concat());
    // A job of duly's own whose retries have no end is written as think-queue writes that.
    let queue = client.queue("orders").unwrap();
    queue.purge(State::Ready).await.unwrap();
    for retries in [u32::MAX, 5, 0, u32::MAX - 1] {
        queue.push(NewJob::new(&0).unwrap().name("close").max_retries(retries)).await.unwrap();
    }
    Bridge::new(&client, &client, OldQueue::think_queue(&["orders"]).unwrap())
        .back()
        .unwrap()
        .drain(|_| {})
        .await
        .unwrap();
    let raw = server.redis_cli(&["--raw", "LRANGE", "{queues:orders}", "0", "-1"]);
    let tries = raw.lines().filter_map(|line| line.split_once(r#""maxTries":"#)?.1.split(',').next());
    assert_eq!(tries.collect::<Vec<_>>(), ["0", "null", "1", "4294967295"]);
}

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

#[tokio::test]
async fn a_score_that_is_no_time_goes_to_failed_with_its_job() {
    let server = Server::start();
    let client = server.client();
    // Milliseconds in a queue of seconds, too.
    for (number, score) in ["inf", "-inf", "1790000000000", "0"].into_iter().enumerate() {
        server.redis_cli(&["ZADD", DELAYED, score, &package(number, "")]);
    }
    let report = drain(&client, &client, thinkphp()).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!((report.queues["orders"], report.unreadable), ([1, 0, 3], 3));
    for job in peek(&client, State::Failed).await {
        assert!(job.envelope.error.contains("is no time before the year 2200"), "{}", job.envelope.error);
        assert!(job.envelope.headers["old-id"].starts_with("1690000000.5."));
    }
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

/// As gmq writes them: `mq/job.go` and `mq/bucket.go`.
#[tokio::test]
async fn jobs_of_gmq_come_over_with_their_hashes() {
    let server = Server::start();
    let client = server.client();
    let job = |id: &str, topic: &str, body: &str, status: &str, runs: &str| {
        let key = format!("gmq:jobpool:{id}");
        let fields = ["id", id, "topic", topic, "delay", "0", "TTR", "30", "body", body, "status", status];
        server.redis_cli(&[&["HMSET", &*key][..], &fields, &["consume_num", runs]].concat());
    };
    let now = server.clock() / 1_000_000;
    job("r1", "orders", r#"{"order":1}"#, "2", "0");
    job("r2", "orders", "plain text", "2", "0");
    server.redis_cli(&["LPUSH", "gmq:readyqueue:orders", "r1", "r2", "r1"]);
    job("d1", "orders", "[1]", "1", "0");
    job("d2", "mail", "[2]", "1", "0");
    server.redis_cli(&["ZADD", "gmq:bucket:0", "4102444800", "d1", "4102444801", "gone"]);
    server.redis_cli(&["ZADD", "gmq:bucket:2", "4102444800", "d2"]);
    // One that a consumer has, one whose time is over, and one that is ready again.
    job("t1", "orders", "[3]", "3", "1");
    job("t2", "orders", "[4]", "3", "2");
    let (held, over) = ((now + 60).to_string(), (now - 5).to_string());
    server.redis_cli(&["ZADD", "gmq:bucket:TTR:B", &held, "t1", &over, "t2", &over, "r2"]);
    let gmq = || OldQueue::gmq(&["orders", "mail"], 3, 3).unwrap();
    let dry = Bridge::new(&client, &client, gmq()).count().await.unwrap();
    assert_eq!(dry.moved(), 6, "the ready list has one twice: {dry}");
    assert!(dry.to_string().contains("2 entries of the old queue name no job any more, and would be dropped"), "{dry}");
    let report = drain(&client, &client, gmq()).await;
    assert_eq!(report.moved(), 5, "{report}");
    assert!(report.to_string().contains("1 job is with workers of the old queue"), "{report}");
    assert_eq!(report.queues["mail"], [0, 1, 0]);
    let ready = peek(&client, State::Ready).await;
    let seen: Vec<_> = ready.iter().map(|job| (&*job.envelope.headers["old-id"], job.envelope.data.as_str())).collect();
    assert_eq!(seen, [("t2", "[4]"), ("r1", r#"{"order":1}"#), ("r2", r#""plain text""#)]);
    assert_eq!((ready[0].envelope.attempts, &*ready[0].envelope.headers["ttr"]), (2, "30"));
    assert_eq!(peek(&client, State::Delayed).await[0].at.unwrap().get(), 4_102_444_800_000);
    assert_eq!(server.redis_cli(&["--raw", "KEYS", "gmq:jobpool:*"]).trim(), "gmq:jobpool:t1");
}

/// R4's Go twin puts what it has done into its list of failed ones: there may be more than the queue keeps.
#[tokio::test]
async fn a_full_failed_holds_up_no_other_key_and_no_healthy_job() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("orders").unwrap();
    queue.keep_failed(1, Duration::from_secs(3600)).await.unwrap();
    send(&server, FAILED, (0..3).map(|number| package(number, "")));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let to = client.clone();
    let following =
        tokio::spawn(
            async move { Bridge::new(&to, &to, thinkphp()).follow(async { drop(stopped.await) }, |_| {}).await },
        );
    for number in 3..6 {
        send(&server, READY, [package(number, "")]);
        support::eventually("it comes over", || async { data(&client, State::Ready).await == orders(3..=number) })
            .await;
    }
    stop.send(()).unwrap();
    let report = following.await.unwrap().unwrap();
    assert_eq!((report.moved(), report.is_complete()), (3, false), "{report}");
    queue.keep_failed(3, Duration::from_secs(3600)).await.unwrap();
    let report = drain(&client, &client, thinkphp()).await;
    assert_eq!((report.moved(), report.is_complete()), (3, true), "{report}");
}

#[tokio::test]
async fn jobs_come_into_the_partitions_of_a_queue_once_and_go_back_from_them() {
    let (old, new) = (Server::start(), Server::start());
    let (from, to) = (old.client(), new.client());
    send(&old, READY, (0..9).map(|number| package(number, "")));
    let bridge = || Bridge::new(&from, &to, thinkphp()).partitions(3).unwrap();
    assert!(Bridge::new(&from, &to, thinkphp()).partitions(0).is_err());
    // A bridge that dies behind its first batch leaves it in flight: it comes again.
    let list = format!("{{{READY}}}:duly:in_flight");
    let keep = |_: &BridgeReport| drop(old.redis_cli(&["COPY", &list, "kept", "REPLACE"]));
    assert!(bridge().drain(keep).await.unwrap().is_complete());
    let queue = to.partitioned_queue("orders", 3).unwrap();
    for part in 0..3 {
        assert_eq!(to.partitioned_queue("orders", 3).unwrap().counts().await.unwrap().ready, 9, "{part}");
        assert_eq!(new.redis_cli(&["HLEN", &format!("duly:{{orders/{part}}}:jobs")]).trim(), "3");
    }
    old.redis_cli(&["COPY", "kept", &list]);
    let report = bridge().drain(|_| {}).await.unwrap();
    assert_eq!((report.is_complete(), queue.counts().await.unwrap().ready), (true, 9), "{report}");
    for job in queue.peek(State::Ready, 0, 9).await.unwrap() {
        assert!(queue.find(&job.envelope.id).await.unwrap().is_some());
    }
    let report = bridge().back().unwrap().drain(|_| {}).await.unwrap();
    assert_eq!((report.is_complete(), report.moved()), (true, 9), "{report}");
    assert_eq!(old.redis_cli(&["LLEN", READY]).trim(), "9");
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

/// A cluster needs the two in one slot: then what the bridge keeps of them has one name.
#[test]
fn two_keys_of_which_a_bridge_keeps_its_state_in_one_are_refused() {
    let refused = OldQueue::thinkphp_with_keys("orders", "q", "{q}", "f").unwrap_err();
    assert!(refused.to_string().contains("its state of '{q}' and of 'q' in one key"), "{refused}");
}
