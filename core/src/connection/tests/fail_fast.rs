//! The circuit breaker: behind an outage calls fail at once, and one now and then probes.

use std::time::Duration;

use super::fixture::{TestServer, bulk, run_set_once, run_text};
use crate::connection::{Connection, Settings};
use crate::value::error::{Error, ErrorKind};

fn for_requests(url: &str, fail_fast: Option<bool>) -> Connection {
    let mut settings = Settings::new(url);
    settings.deadline = Duration::from_millis(1500);
    settings.fail_fast = fail_fast;
    Connection::new(settings).unwrap()
}

fn is_at_once(error: &Error) -> bool {
    error.kind() == ErrorKind::Unreachable && error.to_string().contains("circuit breaker open")
}

/// Calls until one is answered.
async fn until_answered(connection: &Connection) {
    let started = std::time::Instant::now();
    while let Err(error) = run_set_once(connection, "k", "v").await {
        assert!(started.elapsed() < Duration::from_secs(60), "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn behind_a_call_that_waited_in_vain_the_next_fail_at_once_until_a_probe_is_answered() {
    let mut server = TestServer::start(&[]);
    let connection = for_requests(&server.url(), None);
    run_set_once(&connection, "k", "v").await.unwrap();
    server.kill();
    let first = run_set_once(&connection, "k", "v").await.unwrap_err();
    assert!(!is_at_once(&first), "{first}");
    for _ in 0..100 {
        let next = run_set_once(&connection, "k", "v").await.unwrap_err();
        assert!(is_at_once(&next), "{next}");
        assert!(next.to_string().contains("next probe in") && next.to_string().contains("last:"), "{next}");
    }
    server.restart();
    until_answered(&connection).await;
    for _ in 0..100 {
        assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_costs_one_call_at_a_time() {
    let server = TestServer::start(&[]);
    let connection = for_requests(&server.url(), None);
    run_set_once(&connection, "k", "v").await.unwrap();
    server.signal("-STOP");
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap_err().kind(), ErrorKind::Timeout);
    // Many requests at once, when it is time for a probe: only one of them waits.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move { run_set_once(&connection, "k", "v").await.unwrap_err() })
        })
        .collect();
    let mut waited = 0;
    for call in calls {
        waited += u32::from(!is_at_once(&call.await.unwrap()));
    }
    assert_eq!(waited, 1);
    server.signal("-CONT");
    until_answered(&connection).await;
}

#[tokio::test]
async fn what_a_server_refuses_is_no_outage_and_long_deadlines_have_no_breaker() {
    let server = TestServer::start(&[]);
    let (connection, patient) = (for_requests(&server.url(), None), for_requests(&server.url(), Some(false)));
    for _ in 0..3 {
        let error = run_text(&connection, "return redis.call('NOSUCH', KEYS[1])", "k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    run_set_once(&patient, "k", "v").await.unwrap();
    // The port of one that is killed may be another test's before long.
    server.signal("-STOP");
    for _ in 0..3 {
        let error = run_set_once(&patient, "k", "v").await.unwrap_err();
        assert!(!is_at_once(&error), "{error}");
    }
    let mut settings = Settings::new("redis://localhost");
    assert!(!settings.fails_fast(), "15 s are for workers and commands");
    settings.deadline = Duration::from_secs(5);
    assert!(settings.fails_fast());
}

#[tokio::test]
async fn a_primary_that_became_a_replica_is_an_outage_too() {
    let server = TestServer::start(&[]);
    let connection = for_requests(&server.url(), None);
    run_set_once(&connection, "k", "v").await.unwrap();
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    // A last attempt that is cut short by the deadline may have been executed.
    let kind = run_set_once(&connection, "k", "v").await.unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::ReadOnly | ErrorKind::Timeout), "{kind:?}");
    let next = run_set_once(&connection, "k", "v").await.unwrap_err();
    assert!(is_at_once(&next), "{next}");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    until_answered(&connection).await;
}

#[test]
fn endless_timeouts_are_none() {
    let server = TestServer::start(&[]);
    let mut settings = Settings::new(&server.url());
    settings.command_timeout = Duration::MAX;
    settings.connect_timeout = Duration::MAX;
    let connection = Connection::new(settings).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
        assert!(connection.wait_for_wake(0, b"w", Duration::from_millis(5)).await.is_ok());
    });
}

/// As a dead host or a firewall: the first client of a process waits until its connection times out, and the next calls do not.
#[tokio::test]
async fn a_host_that_swallows_connections_from_the_beginning_costs_one_wait() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts: when the queue of connections is full, the next ones get no answer.
    let mut waiting = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        waiting.push(stream);
    }
    let connection = for_requests(&format!("redis://{address}"), None);
    let first = run_set_once(&connection, "k", "v").await.unwrap_err();
    assert!(!is_at_once(&first), "{first}");
    let next = run_set_once(&connection, "k", "v").await.unwrap_err();
    assert!(is_at_once(&next), "{next}");
}
