//! Servers that die, freeze or forget, and networks that lose replies.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::fixture::{AT_ONCE, LossyProxy, TestServer, bulk, connect, connect_briefly, run_set_once, run_text};
use crate::value::error::ErrorKind;

#[tokio::test]
async fn forgotten_scripts_are_sent_again_as_text() {
    let server = TestServer::start(&[]);
    let connection = connect(&server.url());
    for round in ["a", "b", "c"] {
        assert_eq!(run_set_once(&connection, round, "v").await.unwrap(), bulk("v"));
        server.cli(&["SCRIPT", "FLUSH"]);
    }
    assert!(!server.cli(&["INFO", "commandstats"]).contains("cmdstat_script|load"));
}

#[tokio::test]
async fn killed_server_is_ridden_out_between_calls() {
    let mut server = TestServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let connection = connect(&server.url());
    run_set_once(&connection, "k", "v").await.unwrap();
    for _ in 0..3 {
        server.kill();
        server.restart();
        let restarted = Instant::now();
        assert_eq!(run_set_once(&connection, "k", "other").await.unwrap(), bulk("v"));
        assert!(restarted.elapsed() < AT_ONCE, "{:?}", restarted.elapsed());
    }
}

#[tokio::test]
async fn killed_server_is_ridden_out_during_calls() {
    let mut server = TestServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let connection = connect(&server.url());
    run_set_once(&connection, "first", "v").await.unwrap();
    server.signal("-STOP");
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let connection = connection.clone();
            tokio::spawn(async move { run_set_once(&connection, &format!("k{number}"), "v").await })
        })
        .collect();
    // Lets the calls be written to the frozen server's socket.
    tokio::task::yield_now().await;
    server.kill();
    server.restart();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), bulk("v"));
    }
}

#[tokio::test]
async fn server_that_stays_away_is_unreachable_when_nothing_was_sent() {
    let mut server = TestServer::start(&[]);
    let connection = connect_briefly(&server.url(), Duration::from_secs(2));
    run_set_once(&connection, "k", "v").await.unwrap();
    server.kill();
    // This call may or may not notice in time that the connection is gone.
    run_set_once(&connection, "k", "v").await.unwrap_err();
    let started = Instant::now();
    let error = run_set_once(&connection, "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn lost_reply_is_asked_for_again() {
    let server = TestServer::start(&[]);
    let proxy = LossyProxy::before(server.port).await;
    let connection = connect(&proxy.url());
    run_set_once(&connection, "warm", "v").await.unwrap();
    proxy.lose_replies(1);
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    assert_eq!(server.cli(&["GET", "k:runs"]), "2");
}

#[tokio::test]
async fn reply_lost_for_good_is_a_timeout_and_not_unreachable() {
    let server = TestServer::start(&[]);
    let proxy = LossyProxy::before(server.port).await;
    let connection = connect_briefly(&proxy.url(), Duration::from_secs(3));
    proxy.lose_replies(usize::MAX);
    let error = run_set_once(&connection, "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("may have been executed"), "{error}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn frozen_server_is_a_timeout_within_the_deadline() {
    let server = TestServer::start(&[]);
    let connection = connect_briefly(&server.url(), Duration::from_secs(2));
    run_set_once(&connection, "k", "v").await.unwrap();
    server.signal("-STOP");
    let started = Instant::now();
    let error = run_set_once(&connection, "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    server.signal("-CONT");
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
}

#[tokio::test]
async fn busy_script_is_waited_for() {
    let server = TestServer::start(&["--lua-time-limit", "50"]);
    let connection = connect(&server.url());
    run_set_once(&connection, "k", "v").await.unwrap();
    let port = server.port;
    let slow = tokio::task::spawn_blocking(move || {
        super::fixture::cli(port, &["EVAL", "while redis.call('TIME')[1] - ARGV[1] < 2 do end", "0", &now_seconds()])
    });
    let result = run_set_once(&connection, "k", "v").await;
    slow.await.unwrap();
    assert_eq!(result.unwrap(), bulk("v"));
}

fn now_seconds() -> String {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().to_string()
}

#[tokio::test]
async fn callers_on_one_broken_connection_dial_once() {
    let server = TestServer::start(&[]);
    let proxy = LossyProxy::before(server.port).await;
    let connection = connect(&proxy.url());
    run_set_once(&connection, "k", "v").await.unwrap();
    assert_eq!(proxy.accepted.load(Ordering::SeqCst), 1);
    // The first reply cuts the connection under all fifty.
    proxy.lose_replies(1);
    let calls: Vec<_> = (0..50)
        .map(|number| {
            let connection = connection.clone();
            tokio::spawn(async move { run_set_once(&connection, &format!("k{number}"), "v").await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), bulk("v"));
    }
    assert_eq!(proxy.accepted.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn changed_password_is_ridden_out_once_it_had_worked() {
    let server = TestServer::start(&["--requirepass", "old"]);
    let proxy = LossyProxy::before(server.port).await;
    let connection = connect(&format!("redis://:old@127.0.0.1:{}", proxy.port));
    run_set_once(&connection, "k", "v").await.unwrap();
    server.cli(&["-a", "old", "CONFIG", "SET", "requirepass", "new"]);
    server.cli(&["-a", "new", "CLIENT", "KILL", "TYPE", "normal"]);
    let waiting = connection.clone();
    let call = tokio::spawn(async move { run_set_once(&waiting, "k", "v").await });
    // The third connection is made when the second was refused.
    while proxy.accepted.load(Ordering::SeqCst) < 3 && !call.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.cli(&["-a", "new", "CONFIG", "SET", "requirepass", "old"]);
    assert_eq!(call.await.unwrap().unwrap(), bulk("v"));
}

#[tokio::test]
async fn nothing_is_global() {
    // A second client on another runtime, while the first one's runtime is gone: as in a child after a fork.
    let server = TestServer::start(&[]);
    let url = server.url();
    let in_thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { run_text(&connect(&url), "return 1", "k").await })
    });
    assert_eq!(in_thread.join().unwrap().unwrap(), redis::Value::Int(1));
    assert_eq!(run_set_once(&connect(&server.url()), "k", "v").await.unwrap(), bulk("v"));
}

#[tokio::test]
async fn a_caller_that_is_not_polled_while_it_dials_holds_nobody_up() {
    let server = TestServer::start(&[]);
    let connection = connect(&server.url());
    let mut first = Box::pin(run_set_once(&connection, "k", "v"));
    // As `select!` does with the branch that is not ready.
    std::future::poll_fn(|context| {
        assert!(first.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    assert_eq!(run_set_once(&connection, "other", "v").await.unwrap(), bulk("v"));
    assert_eq!(first.await.unwrap(), bulk("v"));
}

#[tokio::test]
async fn the_future_of_a_call_is_small() {
    // It is moved about on every call; connecting, which is rare and large, must not be part of it.
    let connection = connect("redis://127.0.0.1:1");
    let script = super::fixture::set_once();
    let call = super::fixture::set_once_call(&script, "k", "v");
    let size = size_of_val(&connection.run("push", &call));
    assert!(size < 4_000, "{size} bytes");
    let size = size_of_val(&connection.wait_for_wake(0, b"w", Duration::ZERO));
    assert!(size < 4_000, "{size} bytes");
}
