//! TLS and unix sockets.

use super::fixture::{AT_ONCE, Certificates, TestServer, bulk, connect, eventually, free_port, run_set_once};
use crate::connection::{Connection, Settings};
use crate::value::error::ErrorKind;

pub(super) fn tls_server(certificates: &Certificates, ask_client: &str) -> (TestServer, u16) {
    let port = free_port();
    let path = |name| certificates.path(name).to_str().unwrap().to_owned();
    let server = TestServer::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &path("server.pem"),
        "--tls-key-file",
        &path("server.key"),
        "--tls-ca-cert-file",
        &path("ca.pem"),
        "--tls-auth-clients",
        ask_client,
    ]);
    // It listens on its plain port first.
    eventually("it listens for TLS", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    (server, port)
}

#[tokio::test]
async fn own_authority_is_trusted_and_nothing_else() {
    let certificates = Certificates::make();
    let (_server, port) = tls_server(&certificates, "no");
    let ca = certificates.path("ca.pem");
    let good = connect(&format!("rediss://localhost:{port}?ca={}", ca.display()));
    assert_eq!(run_set_once(&good, "k", "v").await.unwrap(), bulk("v"));
    let mut settings = Settings::new(&format!("rediss://localhost:{port}"));
    settings.ca_file = Some(ca.clone());
    let good = Connection::new(settings).unwrap();
    assert_eq!(run_set_once(&good, "k", "v").await.unwrap(), bulk("v"));
    assert!(!good.wait_for_wake(0, b"w", std::time::Duration::from_millis(20)).await.unwrap().is_woken());

    if let Ok(stranger) = Connection::new(Settings::new(&format!("rediss://localhost:{port}"))) {
        let error = run_set_once(&stranger, "k", "v").await.unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

#[tokio::test]
async fn client_certificate_is_shown_when_asked_for() {
    let certificates = Certificates::make();
    let (_server, port) = tls_server(&certificates, "yes");
    let path = |name| certificates.path(name).display().to_string();
    let url = format!("rediss://localhost:{port}?ca={}", path("ca.pem"));
    let good = connect(&format!("{url}&cert={}&key={}", path("server.pem"), path("server.key")));
    assert_eq!(run_set_once(&good, "k", "v").await.unwrap(), bulk("v"));
    let error = run_set_once(&connect(&url), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error}");
    assert!(error.to_string().contains("?cert="), "{error}");
}

#[tokio::test]
async fn unix_socket() {
    let server = TestServer::start_raw(["--port", "0", "--unixsocket", "s.sock"].map(str::to_owned).to_vec(), 0);
    server.wait_ready();
    let path = server.dir.path().join("s.sock");
    let connection = connect(&format!("unix://{}?db=1", path.display()));
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    assert!(!connection.wait_for_wake(0, b"w", std::time::Duration::from_millis(10)).await.unwrap().is_woken());
}

/// The refusal of a certificate, which must come at once, also when the client had worked before.
async fn distrust(connection: &Connection) -> String {
    let started = std::time::Instant::now();
    let error = run_set_once(connection, "k", "v").await.unwrap_err();
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error}");
    assert!(!error.is_transient());
    let text = error.to_string();
    assert!(text.contains("certificate of localhost") || text.contains("certificate of 127.0.0.1"), "{text}");
    // Names of Rust's types, as `UnknownIssuer` or `Other(OtherError(...))`.
    let debug_words = text
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| word.starts_with(char::is_uppercase) && word.contains(char::is_lowercase))
        .filter(|word| word.chars().skip(1).any(char::is_uppercase));
    assert_eq!(debug_words.collect::<Vec<_>>(), Vec::<&str>::new(), "{text}");
    text
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_reported_in_words() {
    let certificates = Certificates::make();
    let (_server, port) = tls_server(&certificates, "no");
    let ca = certificates.path("ca.pem").display().to_string();
    let text = distrust(&connect(&format!("rediss://:c4n4ry@127.0.0.1:{port}?ca={ca}"))).await;
    assert!(text.contains("for another host") && text.contains("localhost") && !text.contains("c4n4ry"), "{text}");

    let stranger = Certificates::make();
    let ca = stranger.path("ca.pem").display().to_string();
    let text = distrust(&connect(&format!("rediss://localhost:{port}?ca={ca}"))).await;
    assert!(text.contains("no authority that is trusted here") && text.contains("?ca="), "{text}");
}

#[tokio::test]
async fn an_expired_certificate_and_one_of_tomorrow_are_reported_in_words() {
    for (dates, words) in [
        ("-startdate 20200101000000Z -enddate 20200102000000Z", "has expired"),
        ("-startdate 20990101000000Z -enddate 20990102000000Z", "not valid yet"),
    ] {
        let certificates = Certificates::make();
        certificates.sign_server(dates);
        let (_server, port) = tls_server(&certificates, "no");
        let ca = certificates.path("ca.pem").display().to_string();
        let text = distrust(&connect(&format!("rediss://localhost:{port}?ca={ca}"))).await;
        assert!(text.contains(words) && text.contains("clock"), "{text}");
    }
}

#[tokio::test]
async fn a_self_signed_certificate_as_its_own_authority_is_refused_with_how_to_make_one() {
    let certificates = Certificates::make();
    certificates.self_signed("");
    let (_server, port) = tls_server(&certificates, "no");
    let own = certificates.path("server.pem").display().to_string();
    let text = distrust(&connect(&format!("rediss://localhost:{port}?ca={own}"))).await;
    assert!(text.contains("an authority's own") && text.contains("basicConstraints=critical,CA:FALSE"), "{text}");

    // As the text says.
    certificates.self_signed("-addext basicConstraints=critical,CA:FALSE");
    let (_other, port) = tls_server(&certificates, "no");
    let good = connect(&format!("rediss://localhost:{port}?ca={own}"));
    assert_eq!(run_set_once(&good, "k", "v").await.unwrap(), bulk("v"));
}

#[tokio::test]
async fn a_certificate_that_turns_bad_is_not_waited_for() {
    let certificates = Certificates::make();
    let (mut server, port) = tls_server(&certificates, "no");
    let ca = certificates.path("ca.pem").display().to_string();
    let connection = connect(&format!("rediss://localhost:{port}?ca={ca}"));
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    server.kill();
    certificates.self_signed("");
    server.restart();
    server.wait_ready();
    distrust(&connection).await;
}

#[tokio::test]
async fn a_renewed_authority_is_read_by_the_next_connection() {
    let (certificates, renewed) = (Certificates::make(), Certificates::make());
    let (mut server, port) = tls_server(&certificates, "yes");
    let path = |name: &str| certificates.path(name).display().to_string();
    let url = format!("rediss://localhost:{port}?ca={}", path("ca.pem"));
    let connection = connect(&format!("{url}&cert={}&key={}", path("server.pem"), path("server.key")));
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    server.kill();
    for name in ["ca.pem", "server.pem", "server.key"] {
        std::fs::rename(renewed.path(name), certificates.path(name)).unwrap();
    }
    server.restart();
    server.wait_ready();
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));

    // A file that is just being written is no reason to forget the last good one.
    std::fs::write(certificates.path("ca.pem"), "half of a").unwrap();
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
}
