//! A URL that names the wrong kind of server: TLS or not, sentinel, cluster, or no Redis at all.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::fixture::{AT_ONCE, Certificates, TestServer, cluster_port, connect_patiently, run_set_once};
use super::secure::tls_server;
use crate::value::error::{Error, ErrorKind};

/// What a new client hears, which must be soon and must not show its password.
async fn refusal(url: &str) -> Error {
    let started = Instant::now();
    // Far below the deadline, and below what one connection may take.
    let error = run_set_once(&connect_patiently(url), "k", "v").await.unwrap_err();
    assert!(started.elapsed() < AT_ONCE * 2, "{url}: {:?}", started.elapsed());
    assert!(!format!("{error} {error:?}").contains("c4n4ry"), "{error:?}");
    error
}

#[track_caller]
fn assert_says(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "'{word}' is not in: {error}");
    }
}

/// Answers every connection with these bytes after it was sent something, and closes it.
async fn answering(bytes: &'static [u8]) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 4096];
                let _ = client.read(&mut asked).await;
                let _ = client.write_all(bytes).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn the_error_of_tls_to_a_plain_port_names_redis() {
    let certificates = Certificates::make();
    let ca = certificates.path("ca.pem").display().to_string();
    for arguments in [&[][..], &["--requirepass", "right"]] {
        let server = TestServer::start(arguments);
        for host in ["127.0.0.1", "localhost"] {
            let error = refusal(&format!("rediss://:c4n4ry@{host}:{}?ca={ca}", server.port)).await;
            assert_says(&error, ErrorKind::WrongServer, &["does not speak TLS", "redis://"]);
        }
    }
    let sentinel = TestServer::start(&["--sentinel"]);
    let error = refusal(&format!("rediss+sentinel://127.0.0.1:{}/main?ca={ca}", sentinel.port)).await;
    assert_says(&error, ErrorKind::WrongServer, &["does not speak TLS", "redis+sentinel://"]);
}

#[tokio::test]
async fn the_error_of_plain_text_to_a_tls_port_names_rediss() {
    let certificates = Certificates::make();
    for ask_client in ["no", "yes"] {
        let (_server, port) = tls_server(&certificates, ask_client);
        let error = refusal(&format!("redis://:c4n4ry@localhost:{port}")).await;
        assert_says(&error, ErrorKind::WrongServer, &["seems to speak TLS", "rediss://"]);
        let error = refusal(&format!("redis+cluster://localhost:{port}")).await;
        assert_says(&error, ErrorKind::WrongServer, &["seems to speak TLS", "rediss+cluster://"]);
    }
}

#[tokio::test]
async fn what_is_not_redis_is_named_so() {
    let certificates = Certificates::make();
    let ca = certificates.path("ca.pem").display().to_string();
    for greeting in [
        &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"ERROR\r\n",
        b"J\x00\x00\x00\x0a8.0.36\x00",
    ] {
        let port = answering(greeting).await;
        for url in [
            format!("redis://:c4n4ry@127.0.0.1:{port}"),
            format!("rediss://:c4n4ry@127.0.0.1:{port}?ca={ca}"),
            format!("redis+cluster://127.0.0.1:{port}"),
            format!("redis+sentinel://127.0.0.1:{port}/main"),
        ] {
            assert_says(&refusal(&url).await, ErrorKind::Protocol, &["not Redis", &port.to_string()]);
        }
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_is_unreachable() {
    let port = answering(b"").await;
    let error = refusal(&format!("redis://:c4n4ry@127.0.0.1:{port}")).await;
    assert_says(&error, ErrorKind::Unreachable, &["closed a new connection"]);
}

#[tokio::test]
async fn a_server_that_says_nothing_may_be_overloaded() {
    // Accepted by the kernel; nobody reads.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for scheme in ["redis", "rediss"] {
        let url = format!("{scheme}://:c4n4ry@127.0.0.1:{port}");
        let connection = super::fixture::connect_briefly(&url, Duration::from_secs(2));
        let error = run_set_once(&connection, "k", "v").await.unwrap_err();
        assert_says(&error, ErrorKind::Unreachable, &["says nothing"]);
    }
}

#[tokio::test]
async fn sentinels_clusters_and_plain_servers_are_told_apart() {
    let plain = TestServer::start(&[]);
    let sentinel = TestServer::start(&["--sentinel"]);
    let node = TestServer::start_at(cluster_port(), &["--cluster-enabled", "yes"]);
    let at = |server: &TestServer| format!("127.0.0.1:{}", server.port);

    let error = refusal(&format!("redis+cluster://{}", at(&plain))).await;
    assert_says(&error, ErrorKind::WrongServer, &["no cluster", "redis:// instead of redis+cluster://"]);
    let error = refusal(&format!("redis+cluster://{}", at(&sentinel))).await;
    assert_says(&error, ErrorKind::WrongServer, &["no cluster", "redis+sentinel://"]);
    for server in [&plain, &node] {
        let error = refusal(&format!("redis+sentinel://{}/main", at(server))).await;
        assert_says(&error, ErrorKind::WrongServer, &["no sentinel", "26379"]);
    }
    for url in [format!("redis://{}", at(&sentinel)), format!("redis://:c4n4ry@{}", at(&sentinel))] {
        let error = refusal(&url).await;
        assert_says(&error, ErrorKind::WrongServer, &["is a sentinel", "redis+sentinel://host:port/master-name"]);
    }
}
