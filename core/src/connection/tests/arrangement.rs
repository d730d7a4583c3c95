//! Sentinels and clusters.

use std::process::Command;
use std::time::{Duration, Instant};

use super::fixture::{
    AT_ONCE, TestServer, bulk, cli, cluster_port, connect, connect_briefly, connect_patiently, eventually, free_port,
    run_set_once, run_text, slot_of, spares,
};
use crate::connection::topology::Topology;
use crate::value::error::ErrorKind;

struct Replicated {
    primary: TestServer,
    replica: TestServer,
    sentinel: TestServer,
}

impl Replicated {
    fn start() -> Self {
        let primary = TestServer::start(&[]);
        let replica = TestServer::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
        // Before the sentinel looks: it asks for replicas at once, and then only every ten seconds.
        eventually("the replica is in sync", || primary.cli(&["INFO", "replication"]).contains("state=online"));
        let sentinel = TestServer::start(&["--sentinel"]);
        let port = primary.port.to_string();
        sentinel.cli(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "1"]);
        sentinel.cli(&["SENTINEL", "SET", "main", "down-after-milliseconds", "500"]);
        eventually("the sentinel knows the replica", || {
            sentinel.cli(&["SENTINEL", "MASTER", "main"]).contains("num-slaves\n1")
        });
        Self { primary, replica, sentinel }
    }

    fn fail_over(&self) {
        eventually("the failover starts", || self.sentinel.cli(&["SENTINEL", "FAILOVER", "main"]) == "OK");
    }
}

fn is_primary(server: &TestServer) -> bool {
    server.cli(&["INFO", "replication"]).contains("role:master")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_by_sentinel_is_followed() {
    let servers = Replicated::start();
    let Replicated { primary, replica, sentinel } = &servers;
    let dead = free_port();
    let url = format!("redis+sentinel://127.0.0.1:{dead},127.0.0.1:{}/main", sentinel.port);
    let connection = connect_patiently(&url);
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    servers.fail_over();
    // Calls all the way through it: none may fail.
    let started = Instant::now();
    let mut number = 0;
    while !is_primary(replica) || is_primary(primary) {
        number += 1;
        run_set_once(&connection, &format!("k{number}"), "v").await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(90), "the failover does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(run_set_once(&connection, "after", "v").await.unwrap(), bulk("v"));
    assert_eq!(replica.cli(&["GET", "after"]), "v");

    let error = run_set_once(&connect(&url.replace("/main", "/other")), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("knows no master named 'other'"), "{error}");
}

/// What is written to the old primary after that is forgotten when it becomes a replica, some ten seconds later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primary_is_left_before_it_is_demoted() {
    left_before_it_is_demoted(&Replicated::start()).await;
}

/// The sentinels announce it only when each other replica follows the new primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primary_is_left_although_a_replica_does_not_answer() {
    let servers = Replicated::start();
    let primary = servers.primary.port.to_string();
    let other = TestServer::start(&["--replicaof", "127.0.0.1", &primary, "--replica-priority", "200"]);
    eventually("it is in sync", || servers.primary.cli(&["INFO", "replication"]).matches("state=online").count() == 2);
    // It looks for replicas every ten seconds only, or when the primary is announced to it anew.
    servers.sentinel.cli(&["SENTINEL", "RESET", "main"]);
    eventually("the sentinel knows both", || {
        servers.sentinel.cli(&["SENTINEL", "MASTER", "main"]).contains("num-slaves\n2")
    });
    other.signal("-STOP");
    left_before_it_is_demoted(&servers).await;
    other.signal("-CONT");
}

async fn left_before_it_is_demoted(servers: &Replicated) {
    let connection = connect(&format!("redis+sentinel://127.0.0.1:{}/main", servers.sentinel.port));
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    let waiting = tokio::spawn({
        let connection = connection.clone();
        async move { connection.wait_for_wake(0, b"w", Duration::from_secs(60)).await }
    });
    eventually("it waits", || servers.primary.cli(&["CLIENT", "LIST"]).contains("cmd=blpop"));
    servers.fail_over();
    eventually("the replica is promoted", || is_primary(&servers.replica));
    let mut number = 0;
    while servers.replica.cli(&["EXISTS", &format!("k{number}")]) == "0" {
        number += 1;
        assert_eq!(run_set_once(&connection, &format!("k{number}"), "v").await.unwrap(), bulk("v"));
        assert!(is_primary(&servers.primary), "it was demoted, and left only then");
    }
    assert!(waiting.await.unwrap().unwrap().is_woken(), "those that wait there look again");
    assert!(is_primary(&servers.primary));
}

/// Its client makes no call meanwhile, and hears of it by the sentinel only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_calls_a_server_that_has_taken_over_spares_leases() {
    let mut servers = Replicated::start();
    let connection = connect_patiently(&format!("redis+sentinel://127.0.0.1:{}/main", servers.sentinel.port));
    let Topology::Sentinel(sentinels) = &connection.0.topology else { panic!("another arrangement") };
    assert!(!spares(&connection, "k").await, "the first call of all");
    servers.primary.kill();
    eventually("the replica is promoted", || is_primary(&servers.replica));
    eventually("the client has left the old primary", || sentinels.believed().is_none());
    assert!(spares(&connection, "k").await);
}

fn start_cluster() -> Vec<TestServer> {
    let nodes: Vec<_> = (0..3)
        .map(|_| TestServer::start_at(cluster_port(), &["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]))
        .collect();
    let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
    let output = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(addresses)
        .args(["--cluster-yes"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    for node in &nodes {
        eventually("the cluster is up", || node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
    }
    nodes
}

fn owner_of(nodes: &[TestServer], slot: u16) -> usize {
    let listed = nodes[0].cli(&["CLUSTER", "NODES"]);
    let owner = listed.lines().find(|line| {
        line.split(' ').skip(8).any(|range| match range.split_once('-') {
            Some((first, last)) => {
                first.parse::<u16>().is_ok_and(|first| first <= slot)
                    && last.parse::<u16>().is_ok_and(|last| slot <= last)
            }
            None => range.parse() == Ok(slot),
        })
    });
    let address = owner.unwrap().split(' ').nth(1).unwrap().split('@').next().unwrap().to_owned();
    nodes.iter().position(|node| address.ends_with(&format!(":{}", node.port))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moving_slot_is_followed() {
    let nodes = start_cluster();
    let connection = connect(&format!("redis+cluster://127.0.0.1:{}", nodes[1].port));
    for queue in ["{a}", "{b}", "{c}", "{d}", "{e}"] {
        assert_eq!(run_set_once(&connection, queue, "v").await.unwrap(), bulk("v"), "{queue}");
    }

    let slot = slot_of("{a}");
    let from = owner_of(&nodes, slot);
    let to = (from + 1) % 3;
    let id = |node: usize| nodes[node].cli(&["CLUSTER", "MYID"]);
    let slot_text = slot.to_string();
    nodes[to].cli(&["CLUSTER", "SETSLOT", &slot_text, "IMPORTING", &id(from)]);
    nodes[from].cli(&["CLUSTER", "SETSLOT", &slot_text, "MIGRATING", &id(to)]);

    // Still there: answered by the old owner. Not there yet: ASK sends it to the new one.
    assert_eq!(run_set_once(&connection, "{a}", "other").await.unwrap(), bulk("v"));
    let get_or_set = "redis.call('SET', KEYS[1], 'new', 'NX') return redis.call('GET', KEYS[1])";
    assert_eq!(run_text(&connection, get_or_set, "{a}:new").await.unwrap(), bulk("new"));
    assert_eq!(nodes[from].cli(&["CLUSTER", "COUNTKEYSINSLOT", &slot_text]), "2");
    assert_eq!(nodes[to].cli(&["CLUSTER", "COUNTKEYSINSLOT", &slot_text]), "1", "written by ASKING");

    // Half of its keys moved: TRYAGAIN, until the move is over.
    let to_port = nodes[to].port.to_string();
    nodes[from].cli(&["MIGRATE", "127.0.0.1", &to_port, "{a}", "0", "2000"]);
    let torn = tokio::spawn({
        let connection = connection.clone();
        async move { run_set_once(&connection, "{a}", "other").await }
    });
    nodes[from].cli(&["MIGRATE", "127.0.0.1", &to_port, "{a}:runs", "0", "2000"]);
    for node in [to, from, (from + 2) % 3] {
        nodes[node].cli(&["CLUSTER", "SETSLOT", &slot_text, "NODE", &id(to)]);
    }
    assert_eq!(torn.await.unwrap().unwrap(), bulk("v"));
    // MOVED, and later straight to the new owner.
    assert_eq!(run_set_once(&connection, "{a}", "other").await.unwrap(), bulk("v"));
    assert_eq!(cli(nodes[to].port, &["GET", "{a}:runs"]), "4");
    assert!(!connection.wait_for_wake(slot, b"{a}:w", Duration::from_millis(10)).await.unwrap().is_woken());

    let plain = connect(&nodes[from].url());
    let error = run_set_once(&plain, "{a}", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongServer);
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_nodes_cut_nobody_off_from_a_living_owner() {
    let nodes = start_cluster();
    let connection = connect_briefly(&format!("redis+cluster://127.0.0.1:{}", nodes[0].port), Duration::from_secs(4));
    let queues = ["{a}", "{b}", "{c}", "{d}", "{e}", "{f}"];
    for queue in queues {
        run_set_once(&connection, queue, "v").await.unwrap();
    }
    let owner = owner_of(&nodes, slot_of("{a}"));
    for node in &nodes {
        // The owner must not think that it is alone.
        node.cli(&["CONFIG", "SET", "cluster-node-timeout", "60000"]);
    }
    for _ in 0..2 {
        // A call without an answer puts the map in doubt.
        for node in &nodes {
            node.signal("-STOP");
        }
        run_set_once(&connection, "{a}", "v").await.unwrap_err();
        nodes[owner].signal("-CONT");
        assert_eq!(run_set_once(&connection, "{a}", "v").await.unwrap(), bulk("v"));
    }
    for node in &nodes {
        node.signal("-CONT");
    }
}

#[tokio::test]
async fn a_silent_sentinel_cuts_nobody_off_from_the_others() {
    let servers = Replicated::start();
    // The kernel accepts for it, and nobody ever answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("redis+sentinel://127.0.0.1:{port},127.0.0.1:{}/main", servers.sentinel.port);
    // Who waited for it alone would wait for as long as a connection may take: for nearly all the deadline.
    let connection = connect_patiently(&url);
    let started = Instant::now();
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_away_keeps_nobody_from_the_others() {
    let nodes = start_cluster();
    let mut settings = crate::connection::Settings::new(&format!("redis+cluster://127.0.0.1:{}", nodes[0].port));
    settings.deadline = Duration::from_secs(3);
    settings.fail_fast = Some(true);
    let connection = crate::connection::Connection::new(settings).unwrap();
    let queues = ["{a}", "{b}", "{c}", "{d}", "{e}", "{f}"];
    for queue in queues {
        run_set_once(&connection, queue, "v").await.unwrap();
    }
    let owner = owner_of(&nodes, slot_of("{a}"));
    let other = queues.into_iter().find(|queue| owner_of(&nodes, slot_of(queue)) != owner).unwrap();
    for node in &nodes {
        node.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        node.cli(&["CONFIG", "SET", "cluster-node-timeout", "60000"]);
    }
    nodes[owner].signal("-STOP");
    run_set_once(&connection, "{a}", "v").await.unwrap_err();
    let error = run_set_once(&connection, "{a}", "v").await.unwrap_err();
    assert!(error.to_string().contains("circuit breaker open"), "{error}");
    assert_eq!(run_set_once(&connection, other, "v").await.unwrap(), bulk("v"));
    nodes[owner].signal("-CONT");
}

/// The first of them has found the lost connection, and made a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_calls_a_node_after_an_outage_spares_leases_of_all_its_slots() {
    let mut nodes = start_cluster();
    let connection = connect_patiently(&format!("redis+cluster://127.0.0.1:{}", nodes[0].port));
    let owner = owner_of(&nodes, slot_of("{a}"));
    let keys = ["{b}", "{c}", "{d}", "{e}", "{f}", "{g}", "{h}"];
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        keys.into_iter().partition(|key| owner_of(&nodes, slot_of(key)) == owner);
    for key in keys.iter().chain(&["{a}"]) {
        assert!(!spares(&connection, key).await, "{key}");
    }
    nodes[owner].kill();
    nodes[owner].restart();
    eventually("the cluster is up", || {
        nodes.iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    });
    assert!(spares(&connection, "{a}").await);
    assert!(spares(&connection, there[0]).await, "{there:?}");
    assert!(!spares(&connection, elsewhere[0]).await, "{elsewhere:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_permissions_are_found_on_every_node() {
    let nodes = start_cluster();
    for node in &nodes {
        node.cli(&["ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-rpush"]);
    }
    for node in &nodes {
        let connection = connect(&format!("redis+cluster://u:p@127.0.0.1:{}", node.port));
        for queue in ["{a}", "{b}", "{c}", "{d}", "{e}", "{f}"] {
            let error = run_set_once(&connection, queue, "v").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            assert!(error.to_string().contains("`+rpush`"), "{error}");
        }
    }
}
