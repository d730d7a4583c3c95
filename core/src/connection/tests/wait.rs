//! Waiting for a wake-up.

use std::time::{Duration, Instant};

use super::fixture::{TestServer, connect, eventually, free_port};
use crate::connection::Connection;
use crate::value::error::ErrorKind;

const LONG: Duration = Duration::from_secs(60);

fn blocked(server: &TestServer) -> usize {
    let clients = server.cli(&["INFO", "clients"]);
    let line = clients.lines().find(|line| line.starts_with("blocked_clients:")).unwrap();
    line.trim().rsplit(':').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_wakes() {
    let server = TestServer::start(&[]);
    let connection = connect(&server.url());
    for _ in 0..3 {
        let waiter = tokio::spawn({
            let connection = connection.clone();
            async move { connection.wait_for_wake(0, b"w", LONG).await }
        });
        eventually("the waiter is blocked", || blocked(&server) == 1);
        server.cli(&["RPUSH", "w", "1"]);
        assert!(waiter.await.unwrap().unwrap().is_woken());
    }
    server.cli(&["RPUSH", "w", "1"]);
    assert!(connection.wait_for_wake(0, b"w", LONG).await.unwrap().is_woken(), "one that is there already");
    let listed = server.cli(&["CLIENT", "LIST"]);
    assert_eq!(
        listed.matches(" name=duly").count(),
        2,
        "one for verbs, one that waits, used again and again: {listed}"
    );
}

#[tokio::test]
async fn the_timer_is_exact_and_leaves_nothing_that_eats() {
    // The server's own timer is a second coarse then.
    let server = TestServer::start(&["--hz", "1"]);
    let (connection, other) = (connect(&server.url()), connect(&server.url()));
    // The first wait also connects.
    connection.wait_for_wake(0, b"w", Duration::from_millis(20)).await.unwrap();
    let mut late = Vec::new();
    for _ in 0..12 {
        let started = Instant::now();
        assert!(!connection.wait_for_wake(0, b"w", Duration::from_millis(30)).await.unwrap().is_woken());
        late.push(started.elapsed().checked_sub(Duration::from_millis(30)).unwrap());
    }
    // By the server's timer hardly one in three would be so early. A busy machine makes some late.
    let in_time = late.iter().filter(|late| **late < Duration::from_millis(300)).count();
    assert!(in_time >= 8, "{late:?}");
    eventually("nobody is blocked", || blocked(&server) == 0);
    server.cli(&["RPUSH", "w", "1"]);
    assert!(other.wait_for_wake(0, b"w", LONG).await.unwrap().is_woken());
    assert_eq!(server.cli(&["CLIENT", "LIST"]).matches(" name=duly").count(), 4, "lines are used again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_waiter_eats_nothing() {
    let server = TestServer::start(&[]);
    let (connection, other) = (connect(&server.url()), connect(&server.url()));
    let waiter = tokio::spawn({
        let connection = connection.clone();
        async move { connection.wait_for_wake(0, b"w", LONG).await }
    });
    eventually("the waiter is blocked", || blocked(&server) == 1);
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    eventually("nobody is blocked", || blocked(&server) == 0);
    server.cli(&["RPUSH", "w", "1"]);
    assert!(other.wait_for_wake(0, b"w", LONG).await.unwrap().is_woken());
}

#[tokio::test]
async fn an_element_that_came_to_a_dropped_waiter_is_given_back() {
    let server = TestServer::start(&[]);
    let connection = connect(&server.url());
    for (token, has_lifetime) in [("token", false), ("9000ms", true)] {
        come_to_a_dropped_waiter(&server, &connection, token).await;
        eventually("the element is back", || server.cli(&["LRANGE", "w", "0", "-1"]) == token);
        let life_ms: i64 = server.cli(&["PTTL", "w"]).parse().unwrap();
        assert_eq!((1..=9000).contains(&life_ms), has_lifetime, "{token}: {life_ms}");
        server.cli(&["DEL", "w"]);
    }
}

async fn come_to_a_dropped_waiter(server: &TestServer, connection: &Connection, token: &str) {
    {
        let mut waiting = std::pin::pin!(connection.wait_for_wake(0, b"w", LONG));
        // This runtime has one thread: between the polls the waiter cannot read what arrives.
        while blocked(server) == 0 {
            tokio::select! {
                biased;
                _ = &mut waiting => panic!("nothing woke it"),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
        server.cli(&["RPUSH", "w", token]);
        eventually("the waiter's connection has the element", || blocked(server) == 0);
    }
}

#[tokio::test]
async fn a_lost_line_says_look_and_a_foreign_key_is_named_corrupt() {
    let mut server = TestServer::start(&[]);
    let connection = connect(&server.url());
    server.cli(&["SET", "text", "x"]);
    let error = connection.wait_for_wake(0, b"text", LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let mut waiting = std::pin::pin!(connection.wait_for_wake(0, b"w", LONG));
    while blocked(&server) == 0 {
        tokio::select! {
            _ = &mut waiting => panic!("nothing woke it"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
    server.kill();
    assert!(waiting.await.unwrap().is_woken());
}

#[tokio::test]
async fn a_wait_without_a_server_is_refused() {
    let connection = connect(&format!("redis://127.0.0.1:{}", free_port()));
    let error = connection.wait_for_wake(0, b"w", LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
}
