//! However a server says no, nobody asks it again and again without a pause: calls and connections of one worker are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{self, Server};
use duly::worker::{Ended, Engine, WorkerSettings};
use duly::{Client, NewJob};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long they are counted, or longer on a busy machine; and how many there may be, half of which are usual. Without pauses they were
/// tens of thousands.
const COUNTED: Duration = Duration::from_secs(3);
const MOST: usize = 45;

/// How the server says no.
#[derive(Debug, Clone, Copy)]
enum No {
    HangsUp,
    /// To scripts and waits.
    Says(&'static str),
    /// To every command, also to the first ones of a connection.
    SaysAlways(&'static str),
    SaysAndHangsUp(&'static str),
    IsReplica,
    /// Says yes to scripts, and hangs up on who waits for wake-ups.
    HangsUpOnWaits,
}

#[derive(Default)]
struct Counted {
    connects: AtomicUsize,
    calls: AtomicUsize,
}

async fn serve(no: No) -> (u16, Arc<Counted>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let counted = Arc::new(Counted::default());
    let counts = Arc::clone(&counted);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            counts.connects.fetch_add(1, Ordering::SeqCst);
            match no {
                No::HangsUp => drop(client),
                _ => drop(tokio::spawn(answer(client, no, Arc::clone(&counts)))),
            }
        }
    });
    (port, counted)
}

async fn answer(mut client: TcpStream, no: No, counts: Arc<Counted>) {
    let mut unread = Vec::new();
    loop {
        while let Some(words) = take_command(&mut unread) {
            let first = words[0].to_ascii_uppercase();
            // The check of a new connection has no keys.
            let is_call = first.starts_with("EVAL") && words[2] != "0";
            let is_wait = first == "BLPOP";
            counts.calls.fetch_add(usize::from(is_call || is_wait), Ordering::SeqCst);
            let reply = match (no, first.as_str()) {
                (No::SaysAlways(error) | No::SaysAndHangsUp(error), _) => format!("-{error}\r\n"),
                (No::Says(error), _) if is_call || is_wait => format!("-{error}\r\n"),
                (No::HangsUpOnWaits, "BLPOP") => return,
                // An idle queue: none ready, and none due.
                (No::HangsUpOnWaits, _) if is_call => {
                    "*6\r\n$4\r\nnone\r\n$0\r\n\r\n$0\r\n\r\n:-1\r\n:0\r\n:0\r\n".to_owned()
                }
                (_, "INFO") => {
                    let role = if matches!(no, No::IsReplica) { "slave" } else { "master" };
                    let text = format!("redis_version:7.0.0\r\nrole:{role}\r\n");
                    format!("${}\r\n{text}\r\n", text.len())
                }
                (_, "EVALSHA") => "-NOSCRIPT none\r\n".to_owned(),
                (_, "EVAL") => "$0\r\n\r\n".to_owned(),
                (_, "CLIENT") if words[1] == "ID" => ":7\r\n".to_owned(),
                (_, "CLIENT") if words[1] == "UNBLOCK" => ":0\r\n".to_owned(),
                _ => "+OK\r\n".to_owned(),
            };
            if client.write_all(reply.as_bytes()).await.is_err() || matches!(no, No::SaysAndHangsUp(_)) {
                return;
            }
        }
        if !matches!(client.read_buf(&mut unread).await, Ok(1..)) {
            return;
        }
    }
}

/// One whole `*n $len word ...` from the front.
fn take_command(unread: &mut Vec<u8>) -> Option<Vec<String>> {
    let line = |at: usize| {
        let end = unread[at..].windows(2).position(|pair| pair == b"\r\n")? + at;
        let number = std::str::from_utf8(&unread[at + 1..end]).unwrap().parse::<usize>().unwrap();
        Some((number, end + 2))
    };
    let (count, mut at) = line(0).filter(|_| !unread.is_empty())?;
    let mut words = Vec::new();
    for _ in 0..count {
        if at >= unread.len() {
            return None;
        }
        let (length, begin) = line(at)?;
        words.push(String::from_utf8_lossy(unread.get(begin..begin + length + 2)?.strip_suffix(b"\r\n")?).into_owned());
        at = begin + length + 2;
    }
    unread.drain(..at);
    Some(words)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_refusal_is_asked_again_without_a_pause() {
    let cases = [
        No::HangsUp,
        No::Says("MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk."),
        No::Says("MISCONF Errors writing to the AOF file: No space left on device"),
        No::Says("OOM command not allowed when used memory > 'maxmemory'."),
        No::Says("READONLY You can't write against a read only replica."),
        No::Says("CLUSTERDOWN The cluster is down"),
        No::SaysAlways("LOADING Redis is loading the dataset in memory"),
        No::SaysAndHangsUp("ERR max number of clients reached"),
        No::IsReplica,
        No::HangsUpOnWaits,
    ];
    let mut engines = Vec::new();
    for no in cases {
        let (port, counted) = serve(no).await;
        let client = Client::builder().url(&format!("redis://127.0.0.1:{port}")).build().unwrap();
        let engine = Engine::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
        engines.push((no, counted, engine));
    }
    tokio::time::sleep(COUNTED).await;
    let mut too_many = Vec::new();
    for (no, counted, engine) in &engines {
        let (connects, calls) = (counted.connects.load(Ordering::SeqCst), counted.calls.load(Ordering::SeqCst));
        println!("{no:?}: {connects} connects, {calls} calls");
        assert!(connects > 0, "{no:?}: it never came");
        assert!(engine.ended_within(Duration::ZERO).is_none(), "{no:?}: it gave up");
        if connects > MOST || calls > MOST {
            too_many.push(format!("{no:?}: {connects} connects, {calls} calls"));
        }
    }
    assert!(too_many.is_empty(), "{too_many:#?}");
}

/// Its renewals pause as its other calls do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_holds_a_lease_asks_no_more_often() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
    (settings.concurrency, settings.lease) = (2, Duration::from_secs(6));
    let engine = Engine::start(&server.client(), settings).unwrap();
    let executor = engine.executor();
    let run = tokio::time::timeout(Duration::from_secs(20), executor.next()).await.expect("a run").unwrap();

    server.redis_cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    server.redis_cli(&["CONFIG", "RESETSTAT"]);
    tokio::time::sleep(COUNTED).await;
    let stats = server.redis_cli(&["INFO", "commandstats"]);
    let calls: usize = stats.lines().filter(|line| line.starts_with("cmdstat_eval")).map(calls_in).sum();
    println!("{calls} calls");
    assert!(calls > 0 && calls <= 2 * MOST, "{stats}");

    server.redis_cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    executor.finish(&run, Ended::DONE).unwrap();
    support::eventually("it is settled", || async { queue.counts().await.unwrap().reserved == 0 }).await;
    assert_eq!(queue.counts().await.unwrap().ready, 0);
}

/// Of a line such as `cmdstat_eval:calls=3,usec=10,…,rejected_calls=2,failed_calls=1`.
fn calls_in(line: &str) -> usize {
    let number = |name: &str| -> usize {
        let (_, rest) = line.split_once(name).unwrap();
        rest.split(',').next().unwrap().trim().parse().unwrap()
    };
    number(":calls=") + number("rejected_calls=")
}
