//! The way over from other queues: nothing is lost and nothing is doubled, wherever it breaks off.

mod broken_off;
mod full_failed;
mod servers;

use std::collections::BTreeMap;

use crate::support::{self, Server};
use duly::{Bridge, BridgeReport, Client, JobView, NewJob, OldQueue, ReserveOptions, ScoreUnit, State};

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

/// A cluster needs the two in one slot: then what the bridge keeps of them has one name.
#[test]
fn two_keys_of_which_a_bridge_keeps_its_state_in_one_are_refused() {
    let refused = OldQueue::thinkphp_with_keys("orders", "q", "{q}", "f").unwrap_err();
    assert!(refused.to_string().contains("its state of '{q}' and of 'q' in one key"), "{refused}");
}
