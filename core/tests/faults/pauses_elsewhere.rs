//! Where sentinels or a cluster say which server it is, nobody asks all of them again and again without a pause: connections are counted.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::dials;
use crate::support::meter::Meter;
use crate::support::{self, Server};
use duly::worker::{Engine, WorkerSettings};
use duly::{Client, LockOptions, NewJob, ReserveOptions};

/// How long they are counted, and how many connections there may be to one port in that time: some half are usual. Without pauses they
/// were tens of thousands.
const COUNTED: Duration = Duration::from_secs(3);
const MOST: usize = 150;
const LONG: Duration = Duration::from_secs(60);

/// A sentinel that watches one server.
struct Sentinel {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Sentinel {
    async fn of(server: &Server) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), support::free_port());
        let file = folder.path().join("sentinel.conf");
        let watched = format!("port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {} 1\n", server.port());
        std::fs::write(&file, watched).unwrap();
        let process =
            Command::new(support::server_program()).arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn();
        support::eventually("the sentinel listens", || async {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        Self { process: process.unwrap(), port, _folder: folder }
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A worker, a producer, and some that wait, all of which have worked, go on asking when all that they ask are gone.
async fn ask_on(server: &mut Server, url: &str, ports: &[u16], goes: impl FnOnce(&mut Server)) {
    let client = || Client::builder().url(url).deadline(LONG).fail_fast(false).build().unwrap();
    let queue = client().queue("orders").unwrap();
    let job = || NewJob::new(&1).unwrap().result_ttl(LONG);
    let engine = Engine::start(&client(), WorkerSettings::new(vec![("busy".to_owned(), 1)])).unwrap();
    let id = queue.push(job()).await.unwrap().id().to_owned();
    let (waits, reserves, locks) = (client(), client(), client());
    reserves.ping().await.unwrap();
    let held = client().lock("l", &LockOptions::new().ttl(LONG)).await.unwrap();
    let asking = [
        tokio::spawn(async move { waits.queue("orders").unwrap().wait_result(&id, Some(LONG)).await.map(drop) }),
        tokio::spawn(async move {
            let options = ReserveOptions::new().wait(LONG);
            reserves.queue("empty").unwrap().reserve(&options).await.map(drop)
        }),
        tokio::spawn(async move { locks.lock("l", &LockOptions::new().wait(LONG)).await.map(drop) }),
    ];
    Meter::of(server).until("all that wait do", |meter| meter.blocked() == 4).await;

    goes(server);
    let before: Vec<_> = ports.iter().map(|&port| dials::to(port)).collect();
    let pushes = tokio::spawn(async move { queue.push(job()).await.map(drop) });
    tokio::time::sleep(COUNTED).await;
    for (&port, before) in ports.iter().zip(before) {
        let connects = dials::to(port) - before;
        println!("{connects} connects");
        assert!(connects > 0, "nobody came");
        assert!(connects <= MOST, "{connects} connects");
    }
    assert!(asking.iter().chain([&pushes]).all(|asks| !asks.is_finished()), "one gave up");
    assert!(engine.ended_within(Duration::ZERO).is_none(), "the worker gave up");
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_a_sentinel_that_is_gone_asks_with_pauses() {
    let mut server = Server::start();
    let mut sentinel = Sentinel::of(&server).await;
    let (url, port) = (format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port), sentinel.port);
    ask_on(&mut server, &url, &[port], |server| {
        sentinel.kill();
        server.kill();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_a_sentinel_whose_server_is_gone_asks_with_pauses() {
    let mut server = Server::start();
    let sentinel = Sentinel::of(&server).await;
    let (url, ports) = (format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port), [server.port(), sentinel.port]);
    ask_on(&mut server, &url, &ports, Server::kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_a_cluster_that_is_gone_asks_with_pauses() {
    let mut server = Server::start_at(support::cluster_port(0), &["--cluster-enabled", "yes"]);
    server.redis_cli(&["cluster", "addslotsrange", "0", "16383"]);
    support::eventually("it is up", || async { server.redis_cli(&["cluster", "info"]).contains("state:ok") }).await;
    let (url, port) = (format!("redis+cluster://127.0.0.1:{}", server.port()), server.port());
    ask_on(&mut server, &url, &[port], Server::kill).await;
}
