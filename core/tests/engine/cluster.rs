//! A queue in a cluster: its keys share a slot, and no job is lost while that slot moves from node to node.
//!
//! What goes wrong here in others is in field reports: a script that touches an undeclared key dies half-way, and one that
//! takes a body that has not arrived yet for a deleted one drops the job. Ours declare every key, so the server answers
//! TRYAGAIN before anything has moved, and the client comes again.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::meter::Meter;
use crate::support::{self, Server};
use duly::worker::{Failure, Job, Worker};
use duly::{
    AuditOptions, Bridge, Client, ClientBuilder, Error, LockOptions, NewJob, OldQueue, OnDuplicate, PullOptions, Queue,
    ReserveOptions, RetryPolicy, Selection, State, SubscribeOptions,
};
use serde_json::json;
use tokio::sync::Notify;

const HOUR: Duration = Duration::from_secs(3600);

struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    fn start() -> Self {
        // No port is given twice: another test may be looking for free ones just now.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let first = NEXT.fetch_add(3, Ordering::Relaxed);
        let node = |number| Server::start_at(support::cluster_port(first + number), &["--cluster-enabled", "yes"]);
        let nodes: Vec<Server> = (0..3).map(node).collect();
        let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&addresses)
            .args(["--cluster-yes", "--cluster-replicas", "0"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let cluster = Self { nodes };
        let until = Instant::now() + Duration::from_secs(20);
        while !cluster.nodes.iter().all(|node| node.redis_cli(&["cluster", "info"]).contains("cluster_state:ok")) {
            assert!(Instant::now() < until, "the cluster did not form");
        }
        cluster
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder().url(&format!("redis+cluster://127.0.0.1:{}", self.nodes[0].port()))
    }

    fn client(&self) -> Client {
        self.builder().deadline(Duration::from_secs(30)).build().unwrap()
    }

    fn slot(&self, key: &str) -> String {
        self.nodes[0].redis_cli(&["cluster", "keyslot", key]).trim().to_owned()
    }

    fn owner(&self, slot: &str) -> usize {
        let slot: usize = slot.parse().unwrap();
        let serves = |node: &Server| {
            let myself = node.redis_cli(&["cluster", "nodes"]);
            let myself = myself.lines().find(|line| line.contains("myself")).unwrap().to_owned();
            myself.split_whitespace().skip(8).filter(|range| !range.starts_with('[')).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                (first.parse::<usize>().unwrap()..=last.parse::<usize>().unwrap()).contains(&slot)
            })
        };
        self.nodes.iter().position(serves).unwrap()
    }

    /// Moves a slot as `redis-cli --cluster reshard` does, one key at a time so that there is a half-way to be caught in.
    fn move_slot(&self, slot: &str, to: usize) {
        let from = self.owner(slot);
        if from != to {
            self.begin_move(slot, from, to);
            self.move_keys(slot, from, to);
            self.end_move(slot, from, to);
        }
    }

    fn id(&self, node: usize) -> String {
        self.nodes[node].redis_cli(&["cluster", "myid"]).trim().to_owned()
    }

    fn begin_move(&self, slot: &str, from: usize, to: usize) {
        self.nodes[to].redis_cli(&["cluster", "setslot", slot, "importing", &self.id(from)]);
        self.nodes[from].redis_cli(&["cluster", "setslot", slot, "migrating", &self.id(to)]);
    }

    fn move_keys(&self, slot: &str, from: usize, to: usize) {
        loop {
            let keys = self.nodes[from].redis_cli(&["cluster", "getkeysinslot", slot, "1"]);
            let Some(key) = keys.lines().next().filter(|key| !key.is_empty()) else { break };
            let port = self.nodes[to].port().to_string();
            self.nodes[from].redis_cli(&["migrate", "127.0.0.1", &port, key, "0", "5000"]);
        }
    }

    fn end_move(&self, slot: &str, from: usize, to: usize) {
        let to_id = self.id(to);
        for node in [to, from].into_iter().chain(0..self.nodes.len()) {
            self.nodes[node].redis_cli(&["cluster", "setslot", slot, "node", &to_id]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_while_its_slot_moves_between_nodes() {
    const JOBS: usize = 600;
    let cluster = Cluster::start();
    let slot = cluster.slot("duly:{orders}:jobs");

    let (so_far, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
    let (done_so_far, to_do) = (Arc::clone(&so_far), Arc::clone(&all));
    let producer = cluster.client().queue("orders").unwrap();
    let pushing = tokio::spawn(async move {
        let mut pushed = HashSet::new();
        let mut order = 0;
        // Until the slot has moved, on a machine that is slow with that.
        while order < JOBS || done_so_far.load(Ordering::Relaxed) < 2 {
            order += 1;
            // Some due later, some with keys and priorities: all keys of the queue come into being on the way.
            let mut job = NewJob::new(&json!({ "order_id": order })).unwrap();
            if order % 3 == 0 {
                job = job.delay(Duration::from_millis(50)).key(format!("close:{order}"));
            }
            if order % 5 == 0 {
                job = job.priority(2);
            }
            pushed.insert(producer.push(job).await.unwrap().id().to_owned());
        }
        to_do.store(pushed.len(), Ordering::Relaxed);
        pushed
    });
    let worker = cluster.client().queue("orders").unwrap();
    let working = tokio::spawn(async move {
        let mut done = HashSet::new();
        let mut twice = 0;
        let until = Instant::now() + Duration::from_secs(50);
        while done.len() < all.load(Ordering::Relaxed) && Instant::now() < until {
            let jobs = worker.reserve(&ReserveOptions::new().max(20).wait(Duration::from_millis(200))).await.unwrap();
            for job in &jobs {
                if job.ack().await.is_ok() && !done.insert(job.id().to_owned()) {
                    twice += 1;
                }
            }
        }
        (done, twice)
    });

    let moves = tokio::task::spawn_blocking(move || {
        let mut moves = 0;
        while !pushing.is_finished() && moves < 12 {
            moves += 1;
            cluster.move_slot(&slot, moves % 3);
            so_far.store(moves, Ordering::Relaxed);
        }
        (moves, pushing, cluster)
    });
    let (moves, pushing, _cluster) = moves.await.unwrap();
    let pushed = pushing.await.unwrap();
    let (done, twice) = working.await.unwrap();
    assert_eq!(pushed.difference(&done).count(), 0, "lost in {moves} moves");
    assert_eq!(twice, 0, "acked twice in {moves} moves");
}

/// How many jobs of each queue have run.
type Runs = Arc<Mutex<HashMap<String, usize>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_holds_up_no_queue_of_the_others() {
    const JOBS: usize = 1000;
    const OTHERS: usize = 10;
    let cluster = Cluster::start();
    let owner = |queue: &str| cluster.owner(&cluster.slot(&format!("duly:{{{queue}}}:jobs")));
    let on = |node: usize| (0..1000).map(|n| format!("q{n}")).find(|queue| owner(queue) == node).unwrap();
    let (silent, other) = (on(1), on(2));
    let producer = cluster.client();
    for selection in [Selection::Strict, Selection::Weighted] {
        let (runs, stop) = (Runs::default(), Arc::new(Notify::new()));
        let (ran, stopped) = (Arc::clone(&runs), Arc::clone(&stop));
        let worker =
            Worker::builder(cluster.client()).queue(&silent, 1).queue(&other, 1).selection(selection).any_handler(
                move |job: Job<usize>, _| {
                    let ran = Arc::clone(&ran);
                    async move {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        *ran.lock().unwrap().entry(job.queue().name().to_owned()).or_default() += 1;
                        Ok::<(), Failure>(())
                    }
                },
            );
        let of = |queue: &str| runs.lock().unwrap().get(queue).copied().unwrap_or_default();
        let push = async |queue: &str, jobs: usize| {
            let jobs = std::iter::repeat_n(NewJob::new(&1).unwrap(), jobs);
            producer.queue(queue).unwrap().push_many(jobs, |_| ()).await.unwrap();
        };
        push(&silent, JOBS).await;
        let working = tokio::spawn(worker.run_until(async move { stopped.notified().await }));
        support::eventually("the worker is busy with the first queue", || async { of(&silent) > 50 }).await;
        cluster.nodes[1].signal("-STOP");
        push(&other, OTHERS).await;
        // Before the others take the node for dead, and the cluster for broken.
        let within = Duration::from_secs(10);
        support::eventually_within(within, "the other queue is served", || async { of(&other) == OTHERS }).await;
        assert!(of(&silent) < JOBS, "nothing was left to do there");
        cluster.nodes[1].signal("-CONT");
        support::eventually("the first one is served again", || async { of(&silent) == JOBS }).await;
        stop.notify_one();
        working.await.unwrap().unwrap();
    }
}

/// Their names lie in slots of different nodes, and one moves while it is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_held_waited_for_and_moved_on_every_node() {
    let cluster = Cluster::start();
    let (first, second) = (cluster.client(), cluster.client());
    let mut nodes = HashSet::new();
    for name in (0..12).map(|number| format!("stock:{number}")) {
        let slot = cluster.slot(&format!("duly:{{{name}}}:lock"));
        nodes.insert(cluster.owner(&slot));
        let lock = first.lock(&name, &LockOptions::new().ttl(Duration::from_secs(5))).await.unwrap();
        let (waiting, of_it) = (second.clone(), name.clone());
        let waiter = tokio::spawn(async move {
            waiting.lock(&of_it, &LockOptions::new().wait(Duration::from_secs(60))).await.unwrap()
        });
        cluster.move_slot(&slot, (cluster.owner(&slot) + 1) % 3);
        assert!(lock.is_held() && lock.release().await.unwrap());
        let next = waiter.await.unwrap();
        assert!(next.token() > lock.token() && next.release().await.unwrap());
    }
    assert_eq!(nodes.len(), 3);
}

/// A big queue in the same slot may take longer to move than the lock is to live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_renewed_while_its_slot_moves() {
    let cluster = Cluster::start();
    let ttl = Duration::from_secs(2);
    let lock = cluster.client().lock("stock", &LockOptions::new().ttl(ttl)).await.unwrap();
    let slot = cluster.slot("duly:{stock}:lock");
    let from = cluster.owner(&slot);
    let to = (from + 1) % 3;
    let outlives_its_time = || async { tokio::time::timeout(ttl * 3 / 2, lock.lost()).await.is_err() };
    cluster.begin_move(&slot, from, to);
    assert!(outlives_its_time().await, "it is on the server that it leaves");
    cluster.move_keys(&slot, from, to);
    assert!(outlives_its_time().await, "it is on the server to which it moves");
    cluster.end_move(&slot, from, to);
    assert!(lock.release().await.unwrap());
}

/// The waits that another one ended were dropped with their connections, and made anew each second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_pulls_from_topics_of_all_nodes_over_the_same_connections() {
    let cluster = Cluster::start();
    let client = cluster.client();
    let names: Vec<_> = (0..6).map(|number| format!("t{number}")).collect();
    let topics: Vec<_> = names.iter().map(|name| client.topic(name).unwrap()).collect();
    for topic in &topics {
        topic.subscribe("m", &SubscribeOptions::new()).await.unwrap();
        for number in 0..10 {
            topic.publish(&number).await.unwrap();
        }
    }
    assert_eq!(client.topics_of("m").await.unwrap(), names);
    let listed = client.topics(1000, None).await.unwrap().topics;
    assert!(listed.iter().map(|topic| &topic.name).eq(&names), "{listed:?}");
    let options = PullOptions::new().max(25);
    let mut seen = Vec::new();
    for most in [25, 25, 10, 0] {
        let pulled = client.pull("m", &options).await.unwrap();
        assert_eq!(pulled.len(), most, "one bound for all slots");
        for message in &pulled {
            seen.push((message.topic().to_owned(), message.data.deserialize::<u32>().unwrap()));
            message.ack().await.unwrap();
        }
    }
    for name in &names {
        let of_topic = seen.iter().filter(|(topic, _)| topic == name).map(|(_, number)| *number);
        assert!(of_topic.eq(0..10), "{name}: {seen:?}");
    }

    let mut meters: Vec<_> = cluster.nodes.iter().map(Meter::of).collect();
    let blocked = |meters: &mut Vec<Meter>| meters.iter_mut().map(Meter::blocked).sum::<usize>();
    let options = options.wait(Duration::from_secs(60));
    let waiting = tokio::spawn(async move {
        let mut seen = Vec::new();
        for _ in 0..6 {
            let pulled = client.pull("m", &options).await.unwrap();
            for message in &pulled {
                message.ack().await.unwrap();
            }
            seen.extend(pulled.into_iter().map(|message| message.topic().to_owned()));
        }
        seen
    });
    let mut dialed = None;
    for topic in &topics {
        support::eventually("it waits on each slot", || std::future::ready(blocked(&mut meters) == 6)).await;
        let now: u64 = meters.iter_mut().map(Meter::dialed).sum();
        assert_eq!(*dialed.get_or_insert(now), now, "no connection was made");
        topic.publish(&1).await.unwrap();
    }
    assert_eq!(waiting.await.unwrap(), names);
}

/// Each pull of all topics waited for it until its deadline, and what the others gave was dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_holds_up_no_topic_of_the_others() {
    let cluster = Cluster::start();
    let on = |kind: &str, node: usize| {
        let owner = |name: &str| cluster.owner(&cluster.slot(&format!("duly:{{{name}}}:topic")));
        (0..1000).map(|n| format!("{kind}{n}")).find(|name| owner(name) == node).unwrap()
    };
    // The list of its topics is on one that answers, and on the one that does not.
    for (turn, list) in [2, 1].into_iter().enumerate() {
        let client = cluster.client();
        let member = on("m", list);
        let topic = |node: usize| client.topic(&on(&format!("turn-{turn}-"), node)).unwrap();
        let (silent, other) = (topic(1), topic(2));
        for topic in [&silent, &other] {
            topic.subscribe(&member, &SubscribeOptions::new()).await.unwrap();
        }
        let options = PullOptions::new().wait(Duration::from_secs(60));
        let pull = async || {
            let pulled = client.pull(&member, &options).await.unwrap();
            for message in &pulled {
                assert_eq!(message.deliveries, 1);
                message.ack().await.unwrap();
            }
            pulled.iter().map(|message| message.data.deserialize::<u32>().unwrap()).collect::<Vec<_>>()
        };
        other.publish(&0).await.unwrap();
        assert_eq!(pull().await, [0]);
        silent.publish(&100).await.unwrap();
        cluster.nodes[1].signal("-STOP");
        let began = Instant::now();
        for number in 1..=20 {
            other.publish(&number).await.unwrap();
            assert_eq!(pull().await, [number]);
        }
        assert!(began.elapsed() < Duration::from_secs(10), "it was held up for {:?}", began.elapsed());
        cluster.nodes[1].signal("-CONT");
        assert_eq!(pull().await, [100], "the call that was under way is not lost");
        other.publish(&21).await.unwrap();
        assert_eq!(pull().await, [21]);
    }
}

/// The slot begins to move behind the first batch, and has moved when this is over.
async fn drain_while_it_moves(cluster: &Cluster, slot: &str, bridge: Bridge) {
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    let mut is_first = true;
    let drained = bridge.drain(|_| {
        if std::mem::take(&mut is_first) {
            cluster.begin_move(slot, from, to);
        }
    });
    let error = drained.await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    cluster.move_keys(slot, from, to);
    cluster.end_move(slot, from, to);
}

/// The list of what is in flight goes and comes back in one call, and a server that a slot leaves refuses a key that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bridge_loses_no_job_while_the_slot_of_the_old_key_moves() {
    const JOBS: usize = 1200;
    let cluster = Cluster::start();
    let client = cluster.client();
    let slot = cluster.slot("tasks");
    let from = cluster.owner(&slot);
    let numbers: Vec<String> = (0..JOBS).map(|number| number.to_string()).collect();
    let push: Vec<&str> = ["RPUSH", "tasks"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    cluster.nodes[from].redis_cli(&push);
    let bridge = || Bridge::new(&client, &client, OldQueue::list("tasks", true, "orders").unwrap());
    drain_while_it_moves(&cluster, &slot, bridge()).await;
    let report = bridge().drain(|_| {}).await.unwrap();
    assert!(report.is_complete(), "{report}");
    let mut found = Vec::new();
    let queue = client.queue("orders").unwrap();
    for page in 0..2 {
        found.extend(
            queue
                .peek(State::Ready, page * 1000, 1000)
                .await
                .unwrap()
                .into_iter()
                .map(|job| job.envelope.data.as_str().parse::<usize>().unwrap()),
        );
    }
    assert_eq!(found, (0..JOBS).collect::<Vec<_>>());
}

async fn call(queue: &Queue, name: &str) -> Result<(), Error> {
    match name {
        "replace" => {
            let new = NewJob::new(&2).unwrap().key("search").delay(HOUR).on_duplicate(OnDuplicate::Replace);
            queue.push(new).await.map(drop)
        }
        "requeue" => queue.requeue(&["failed".to_owned()]).await.map(drop),
        "reserve" => queue.reserve(&ReserveOptions::new().max(9)).await.map(drop),
        "promote" => queue.promote().await.map(drop),
        _ => queue.purge(State::Failed).await.map(drop),
    }
}

/// Of a queue all of whose keys are there, so that the server that its slot leaves would begin each of these calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_done_whole_or_not_at_all_while_the_slot_of_its_queue_moves() {
    let cluster = Cluster::start();
    let client = cluster.client();
    let hasty = cluster.builder().deadline(Duration::from_millis(300)).build().unwrap();
    for name in ["replace", "requeue", "reserve", "promote", "purge"] {
        let queue = client.queue(name).unwrap();
        let job = |id: &str| NewJob::new(&1).unwrap().id(id);
        queue.push(job("failed").max_retries(0)).await.unwrap();
        queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0).fail("no bank").await.unwrap();
        let again = RetryPolicy::Fixed { delay: duly::Millis::new(1) };
        queue.push(job("back").retry(again)).await.unwrap();
        queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0).fail("later").await.unwrap();
        queue.push(job("stale")).await.unwrap();
        queue.reschedule("stale", duly::When::After(duly::Millis::from_secs(7200))).await.unwrap();
        queue.push(job("held")).await.unwrap();
        queue.reserve(&ReserveOptions::new().lease(HOUR)).await.unwrap().remove(0);
        queue.push(job("only").key("search").delay(HOUR)).await.unwrap();
        let slot = cluster.slot(&format!("duly:{{{name}}}:jobs"));
        let from = cluster.owner(&slot);
        let to = (from + 1) % 3;
        cluster.begin_move(&slot, from, to);
        let before = cluster.nodes[from].dump("");
        let refused = call(&hasty.queue(name).unwrap(), name).await.unwrap_err();
        assert!(refused.is_transient(), "{name}: {refused}");
        assert_eq!(cluster.nodes[from].dump(""), before, "{name}");
        cluster.move_keys(&slot, from, to);
        cluster.end_move(&slot, from, to);
        call(&queue, name).await.unwrap();
        let report = queue.audit(AuditOptions::new()).await.unwrap();
        assert!(report.is_clean(), "{name}: {report:?}");
    }
}

/// As above, the other way: of a queue all of whose keys are there, so that nothing else stops the call before it begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bridge_back_loses_no_job_while_the_slot_of_the_queue_moves() {
    let cluster = Cluster::start();
    let client = cluster.client();
    let queue = client.queue("orders").unwrap();
    let job = |number: usize| NewJob::new(&number).unwrap().name("order.close");
    queue.push(job(0).max_retries(0)).await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0).fail("no bank").await.unwrap();
    let delayed = |number| job(number).delay(Duration::from_secs(3600));
    queue.push_many((0..600).map(delayed).collect::<Vec<_>>(), |_| {}).await.unwrap();
    queue.push_many((0..600).map(job).collect::<Vec<_>>(), |_| {}).await.unwrap();
    queue.push(job(600).key("last")).await.unwrap();
    queue.push(job(601).id("stale")).await.unwrap();
    queue.reschedule("stale", duly::When::After(duly::Millis::from_secs(7200))).await.unwrap();
    let bridge = || Bridge::new(&client, &client, OldQueue::thinkphp("orders").unwrap()).back().unwrap();
    drain_while_it_moves(&cluster, &cluster.slot("duly:{orders}:jobs"), bridge()).await;
    bridge().drain(|_| {}).await.unwrap();
    let keys = [("LLEN", "redis:queue:ready"), ("ZCARD", "redis:queue:delay"), ("LLEN", "redis:queue:failed")];
    let counts = keys.map(|(length, key)| {
        let node = &cluster.nodes[cluster.owner(&cluster.slot(key))];
        node.redis_cli(&[length, key]).trim().to_owned()
    });
    assert_eq!(counts, ["601", "601", "1"]);
}
