//! TLS and unix sockets.

use super::fixture::{Certificates, TestServer, bulk, connect, free_port, run_set_once};
use crate::connection::{Connection, Settings};
use crate::error::ErrorKind;

fn tls_server(certificates: &Certificates, ask_client: &str) -> (TestServer, u16) {
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
    assert!(!good.wait_for_wake(0, b"w", std::time::Duration::from_millis(20)).await.unwrap());

    // The certificate is for localhost, not for this address.
    let wrong_name = connect(&format!("rediss://127.0.0.1:{port}?ca={}", ca.display()));
    let error = run_set_once(&wrong_name, "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("certificate"), "{error}");

    if let Ok(stranger) = Connection::new(Settings::new(&format!("rediss://localhost:{port}"))) {
        let error = run_set_once(&stranger, "k", "v").await.unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

#[tokio::test]
async fn client_certificate_is_shown_when_asked_for() {
    let certificates = Certificates::make();
    let (server, port) = tls_server(&certificates, "yes");
    let path = |name| certificates.path(name).display().to_string();
    let url = format!("rediss://localhost:{port}?ca={}", path("ca.pem"));
    let good = connect(&format!("{url}&cert={}&key={}", path("server.pem"), path("server.key")));
    assert_eq!(run_set_once(&good, "k", "v").await.unwrap(), bulk("v"));
    run_set_once(&connect(&url), "k", "v").await.unwrap_err();
    // TLS spoken to a port without it.
    let error = run_set_once(&connect(&format!("rediss://localhost:{}?ca={}", server.port, path("ca.pem"))), "k", "v")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn unix_socket() {
    let server = TestServer::start_raw(["--port", "0", "--unixsocket", "s.sock"].map(str::to_owned).to_vec(), 0);
    server.wait_ready();
    let path = server.dir.path().join("s.sock");
    let connection = connect(&format!("unix://{}?db=1", path.display()));
    assert_eq!(run_set_once(&connection, "k", "v").await.unwrap(), bulk("v"));
    assert!(!connection.wait_for_wake(0, b"w", std::time::Duration::from_millis(10)).await.unwrap());
}
