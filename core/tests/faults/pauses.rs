//! However a server says no, nobody asks it again and again without a pause: calls and connections are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::dials;
use crate::support::meter::Meter;
use crate::support::{self, Server};
use duly::worker::{Ended, Engine, WorkerSettings};
use duly::{
    Client, LockOptions, NewJob, PullOptions, QueueWeight, ReserveOptions, Schedule, Selection, SubscribeOptions,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long they are counted, or longer on a busy machine; and how many there may be, half of which are usual. Without pauses they were
/// tens of thousands.
const COUNTED: Duration = Duration::from_secs(3);
const MOST: usize = 45;
const LONG: Duration = Duration::from_secs(60);

/// How the server says no.
#[derive(Debug, Clone, Copy, PartialEq)]
enum No {
    /// Nothing listens.
    IsGone,
    HangsUp,
    /// To scripts and waits.
    Says(&'static str),
    /// To every command, also to the first ones of a connection.
    SaysAlways(&'static str),
    SaysAndHangsUp(&'static str),
    IsReplica,
    /// Works, and hangs up on who waits for wake-ups.
    HangsUpOnWaits,
    /// What is behind the gate says it itself.
    ByItself,
}

impl No {
    /// Is it an error to who calls?
    fn is_final(self) -> bool {
        matches!(self, No::Says(said) if said.starts_with("MISCONF") || said.starts_with("OOM"))
    }
}

const ALL: [No; 11] = [
    No::IsGone,
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

/// A port before a server that works, until it says no.
struct Gate {
    port: u16,
    says_no: watch::Sender<bool>,
    calls: Arc<AtomicUsize>,
}

impl Gate {
    async fn before(server: u16, no: No) -> Self {
        let (port, listener) = loop {
            let port = support::free_port();
            // Another program may be quicker.
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
                break (port, listener);
            }
        };
        let (says_no, calls) = (watch::Sender::new(false), Arc::new(AtomicUsize::new(0)));
        let (mut said, counted) = (says_no.subscribe(), Arc::clone(&calls));
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    _ = said.wait_for(|said| *said), if no == No::IsGone => return,
                    accepted = listener.accept() => accepted,
                };
                let (from, to_client) = accepted.unwrap().0.into_split();
                let commands = Commands { from, unread: Vec::new(), calls: Arc::clone(&counted) };
                if *said.borrow() {
                    tokio::spawn(answer(commands, to_client, no, server));
                } else {
                    let mut said = said.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            () = pass_on(commands, to_client, No::ByItself, server) => {}
                            _ = said.wait_for(|said| *said), if no != No::ByItself => {}
                        }
                    });
                }
            }
        });
        Self { port, says_no, calls }
    }

    fn client(&self) -> Client {
        Client::builder().url(&format!("redis://127.0.0.1:{}", self.port)).build().unwrap()
    }

    /// Connects and calls so far.
    fn count(&self) -> (usize, usize) {
        (dials::to(self.port), self.calls.load(Ordering::SeqCst))
    }
}

async fn answer(mut commands: Commands, mut to_client: OwnedWriteHalf, no: No, server: u16) {
    match no {
        No::IsGone | No::HangsUp => {}
        No::HangsUpOnWaits | No::ByItself => pass_on(commands, to_client, no, server).await,
        _ => {
            while let Some(command) = commands.next().await {
                let sent = to_client.write_all(command.reply(no).as_bytes()).await;
                if sent.is_err() || matches!(no, No::SaysAndHangsUp(_)) {
                    return;
                }
            }
        }
    }
}

async fn pass_on(mut commands: Commands, mut to_client: OwnedWriteHalf, no: No, server: u16) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let (mut replies, mut to_server) = server.into_split();
    // It ends when the server has heard that nothing more comes.
    tokio::spawn(async move { copy(&mut replies, &mut to_client).await });
    while let Some(command) = commands.next().await {
        let hangs_up = no == No::HangsUpOnWaits && command.is_wait();
        if hangs_up || to_server.write_all(&command.bytes).await.is_err() {
            break;
        }
    }
}

/// What a client sends, of which calls and waits are counted.
struct Commands {
    from: OwnedReadHalf,
    unread: Vec<u8>,
    calls: Arc<AtomicUsize>,
}

struct Command {
    words: Vec<String>,
    bytes: Vec<u8>,
}

impl Commands {
    async fn next(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = take_command(&mut self.unread) {
                self.calls.fetch_add(usize::from(command.is_call() || command.is_wait()), Ordering::SeqCst);
                return Some(command);
            }
            if !matches!(self.from.read_buf(&mut self.unread).await, Ok(1..)) {
                return None;
            }
        }
    }
}

impl Command {
    fn name(&self) -> String {
        self.words[0].to_ascii_uppercase()
    }

    fn is_call(&self) -> bool {
        // The check of a new connection has no keys.
        self.name().starts_with("EVAL") && self.words[2] != "0"
    }

    fn is_wait(&self) -> bool {
        ["BLPOP", "BRPOPLPUSH"].contains(&&*self.name())
    }

    fn reply(&self, no: No) -> String {
        match (no, &*self.name()) {
            (No::SaysAlways(error) | No::SaysAndHangsUp(error), _) => format!("-{error}\r\n"),
            (No::Says(error), _) if self.is_call() || self.is_wait() => format!("-{error}\r\n"),
            (_, "INFO") => {
                let role = if no == No::IsReplica { "slave" } else { "master" };
                let text = format!("redis_version:7.0.0\r\nrole:{role}\r\n");
                format!("${}\r\n{text}\r\n", text.len())
            }
            (_, "EVALSHA") => "-NOSCRIPT none\r\n".to_owned(),
            (_, "EVAL") => "$0\r\n\r\n".to_owned(),
            (_, "CLIENT") if self.words[1] == "ID" => ":7\r\n".to_owned(),
            (_, "CLIENT") if self.words[1] == "UNBLOCK" => ":0\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        }
    }
}

/// One whole `*n $len word ...` from the front.
fn take_command(unread: &mut Vec<u8>) -> Option<Command> {
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
    Some(Command { words, bytes: unread.drain(..at).collect() })
}

fn engine(client: &Client, queue: &str) -> Engine {
    Engine::start(client, WorkerSettings::new(vec![(queue.to_owned(), 1)])).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_refusal_is_asked_again_without_a_pause() {
    let server = Server::start();
    let mut engines = Vec::new();
    for no in ALL {
        let gate = Gate::before(server.port(), no).await;
        gate.says_no.send_replace(true);
        let engine = engine(&gate.client(), "orders");
        engines.push((no, gate, engine));
    }
    tokio::time::sleep(COUNTED).await;
    let mut too_many = Vec::new();
    for (no, gate, engine) in &engines {
        let (connects, calls) = gate.count();
        println!("{no:?}: {connects} connects, {calls} calls");
        assert!(connects > 0, "{no:?}: it never came");
        assert!(engine.ended_within(Duration::ZERO).is_none(), "{no:?}: it gave up");
        if connects > MOST || calls > MOST {
            too_many.push(format!("{no:?}: {connects} connects, {calls} calls"));
        }
    }
    assert!(too_many.is_empty(), "{too_many:#?}");
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Who {
    Worker,
    Producer,
    WaitsForAResult,
    WaitsForJobs,
    WaitsForALock,
    WaitsForMessages,
    /// A worker of a paused queue with a schedule that is due again and again.
    FiresSchedules,
}

/// All but the producer wait for an element of a list when the server says no.
const WHO: [Who; 7] = [
    Who::Worker,
    Who::Producer,
    Who::WaitsForAResult,
    Who::WaitsForJobs,
    Who::WaitsForALock,
    Who::WaitsForMessages,
    Who::FiresSchedules,
];

impl Who {
    fn is_worker(self) -> bool {
        matches!(self, Self::Worker | Self::FiresSchedules)
    }

    /// How often it may connect, and call: whoever fires schedules does so beside all that a worker does.
    fn most(self) -> usize {
        if self == Self::FiresSchedules { 2 * MOST } else { MOST }
    }

    /// Asks the server for something, and is asking when it says no.
    async fn asks(self, gate: &Gate, others: &Client, queue: &str) -> JoinHandle<Result<(), duly::Error>> {
        let client = gate.client();
        let own = client.queue(queue).unwrap();
        let job = || NewJob::new(&1).unwrap().result_ttl(LONG);
        let id = own.push(job()).await.unwrap().id().to_owned();
        let mut says_no = gate.says_no.subscribe();
        match self {
            Who::Worker => {
                own.cancel(&id).await.unwrap();
                let engine = engine(&client, queue);
                tokio::spawn(async move { engine.ended().await.map(drop) })
            }
            Who::Producer => tokio::spawn(async move {
                says_no.wait_for(|says_no| *says_no).await.unwrap();
                // The gate may let the first one pass while it shuts.
                own.push(job()).await?;
                own.push(job()).await.map(drop)
            }),
            Who::WaitsForAResult => tokio::spawn(async move { own.wait_result(&id, Some(LONG)).await.map(drop) }),
            Who::WaitsForJobs => tokio::spawn(async move {
                own.cancel(&id).await?;
                let queues = [own, client.queue("others")?].map(|queue| QueueWeight::new(queue, 1));
                client.reserve_from(&queues, Selection::Strict, &ReserveOptions::new().wait(LONG)).await.map(drop)
            }),
            Who::WaitsForALock => {
                let held = others.lock(queue, &LockOptions::new().ttl(2 * LONG)).await.unwrap();
                let lock = queue.to_owned();
                tokio::spawn(async move {
                    let waited = client.lock(&lock, &LockOptions::new().wait(LONG)).await.map(drop);
                    drop(held);
                    waited
                })
            }
            Who::WaitsForMessages => {
                let topic = client.topic(queue).unwrap();
                topic.subscribe("m", &SubscribeOptions::new()).await.unwrap();
                tokio::spawn(async move { topic.pull("m", &PullOptions::new().wait(LONG)).await.map(drop) })
            }
            Who::FiresSchedules => {
                own.cancel(&id).await.unwrap();
                own.pause().await.unwrap();
                let often = Schedule::every(Duration::from_millis(300), job()).unwrap();
                own.schedules().put("often", &often).await.unwrap();
                let engine = engine(&client, queue);
                support::eventually("it fires", || async {
                    own.schedules().get("often").await.unwrap().is_some_and(|view| view.fired > 0)
                })
                .await;
                tokio::spawn(async move { engine.ended().await.map(drop) })
            }
        }
    }
}

/// Some of each kind have worked with the server, and go on asking when it says no.
async fn ask_on(server: &Server, kinds: &[No], says_no: impl FnOnce()) {
    let mut asking = Vec::new();
    let others = server.client();
    for &no in kinds {
        for who in WHO {
            let gate = Gate::before(server.port(), no).await;
            let asks = who.asks(&gate, &others, &format!("orders{}", asking.len())).await;
            asking.push((no, who, gate, asks));
        }
    }
    Meter::of(server).until("all that wait do", |meter| meter.blocked() == (WHO.len() - 1) * kinds.len()).await;
    let before: Vec<_> = asking.iter().map(|(_, _, gate, _)| gate.count()).collect();
    let begun = std::time::Instant::now();
    says_no();
    for (_, _, gate, _) in &asking {
        gate.says_no.send_replace(true);
    }
    let has_come = |(asking, before): (&(No, Who, Gate, JoinHandle<_>), &(usize, usize))| asking.2.count() != *before;
    support::eventually("each has asked", || async { asking.iter().zip(&before).all(has_come) }).await;
    tokio::time::sleep(COUNTED).await;
    // A busy machine takes longer until each has asked.
    let times = (begun.elapsed().as_millis() + COUNTED.as_millis() / 2) / COUNTED.as_millis();
    let times = usize::try_from(times).unwrap();
    let mut too_many = Vec::new();
    for (&(no, who, ref gate, ref asks), before) in asking.iter().zip(before) {
        let count = gate.count();
        let (connects, calls) = (count.0 - before.0, count.1 - before.1);
        let said = format!("{who:?}, {no:?}: {connects} connects, {calls} calls");
        println!("{said}");
        if who.is_worker() || !no.is_final() && (who, no) != (Who::Producer, No::HangsUpOnWaits) {
            assert!(!asks.is_finished(), "{said}: it gave up");
        }
        if connects.max(calls) > times * who.most() {
            too_many.push(said);
        }
    }
    assert!(too_many.is_empty(), "{too_many:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_answered_before_asks_no_more_often() {
    ask_on(&Server::start(), &ALL, || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_answered_by_a_primary_asks_no_more_often_when_it_is_a_replica() {
    let server = Server::start();
    ask_on(&server, &[No::ByItself], || drop(server.redis_cli(&["REPLICAOF", "127.0.0.1", "1"]))).await;
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
