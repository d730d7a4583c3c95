//! A TCP proxy that loses or holds back what goes between duly and its server, call by call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::{Client, ClientBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// What happens to the next script call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Executed; the answer is lost with the connection.
    LoseReply,
    /// Lost with the connection before the server sees it.
    LoseRequest,
    /// The client's connection ends, and the call reaches the server only at [`Proxy::deliver`].
    HoldRequest,
    /// Executed; the answer reaches the client only at [`Proxy::deliver`].
    HoldReply,
    /// None: it goes on to the server, and whoever waits for it hears so.
    PassRequest,
}

/// Stands between one client and the server.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: u16,
    /// `None` lets one call through.
    faults: Mutex<VecDeque<Option<Fault>>>,
    /// Faults are for calls with these bytes; for all if there are none.
    of_calls: Mutex<&'static [u8]>,
    happened: Notify,
    open: watch::Sender<bool>,
    deliver: watch::Sender<bool>,
    delivered: Notify,
    /// State of the random numbers, and the chance of a fault in a thousand calls.
    random: AtomicU64,
    per_mille: AtomicU64,
    lost_replies: AtomicUsize,
    lost_requests: AtomicUsize,
}

impl Proxy {
    pub async fn before(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target,
            faults: Mutex::default(),
            of_calls: Mutex::default(),
            happened: Notify::new(),
            open: watch::Sender::new(true),
            deliver: watch::Sender::new(false),
            delivered: Notify::new(),
            random: AtomicU64::new(1),
            per_mille: AtomicU64::new(0),
            lost_replies: AtomicUsize::new(0),
            lost_requests: AtomicUsize::new(0),
        });
        let carrying = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, Arc::clone(&carrying)));
            }
        });
        Self { port, shared }
    }

    pub fn builder(&self) -> ClientBuilder {
        Client::builder().url(&format!("redis://127.0.0.1:{}", self.port))
    }

    /// The next script call meets this fault; the client's new connections wait until [`Proxy::reopen`].
    pub fn next(&self, fault: Fault) {
        self.next_behind(0, fault);
    }

    /// The same behind so many script calls that go through.
    pub fn next_behind(&self, calls: usize, fault: Fault) {
        self.shared.open.send_replace(false);
        self.next_after(calls, fault);
    }

    /// So many script calls go through, and the one after them meets this fault. New connections are let through.
    pub fn next_after(&self, calls: usize, fault: Fault) {
        let mut faults = self.shared.faults.lock().unwrap();
        faults.extend(std::iter::repeat_n(None, calls));
        faults.push_back(Some(fault));
    }

    /// From now on faults are for calls with these bytes; with those of a key of the list of queues, for the calls of that.
    pub fn only(&self, of_calls: &'static [u8]) {
        *self.shared.of_calls.lock().unwrap() = of_calls;
    }

    /// Returns when the fault has happened; for [`Fault::LoseReply`] the call has been executed by then.
    pub async fn happened(&self) {
        self.shared.happened.notified().await;
    }

    /// Lets new connections through.
    pub fn reopen(&self) {
        self.shared.open.send_replace(true);
    }

    /// Sends what was held back, and waits until the server has answered it (to nobody).
    pub async fn deliver(&self) {
        self.shared.deliver.send_replace(true);
        let delivered = tokio::time::timeout(Duration::from_secs(60), self.shared.delivered.notified()).await;
        delivered.expect("the server has not answered what was held back, or nothing was");
    }

    /// From now on, so many of a thousand chunks with script calls lose their request or their reply.
    pub fn lose_at_random(&self, seed: u64, per_mille: u64) {
        self.shared.random.store(seed | 1, Ordering::SeqCst);
        self.shared.per_mille.store(per_mille, Ordering::SeqCst);
    }

    /// Replies and requests lost so far.
    pub fn lost(&self) -> (usize, usize) {
        (self.shared.lost_replies.load(Ordering::SeqCst), self.shared.lost_requests.load(Ordering::SeqCst))
    }
}

impl Shared {
    fn is_for(&self, asked: &[u8]) -> bool {
        let of_calls = *self.of_calls.lock().unwrap();
        let has = |all: &[u8], some: &[u8]| some.is_empty() || all.windows(some.len()).any(|bytes| bytes == some);
        has(asked, of_calls) && (is_ours(asked) || has(of_calls, b"{queues}"))
    }

    fn draw(&self) -> Option<Fault> {
        if let Some(planned) = self.faults.lock().unwrap().pop_front() {
            return planned;
        }
        let per_mille = self.per_mille.load(Ordering::SeqCst);
        if per_mille == 0 {
            return None;
        }
        // xorshift64
        let mut x = self.random.load(Ordering::SeqCst);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, Ordering::SeqCst);
        (x % 1000 < per_mille).then_some(if x & (1 << 40) == 0 { Fault::LoseReply } else { Fault::LoseRequest })
    }
}

async fn carry(mut client: TcpStream, shared: Arc<Shared>) {
    let mut open = shared.open.subscribe();
    let _ = open.wait_for(|open| *open).await;
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", shared.target)).await else { return };
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut fault = None;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                if shared.is_for(&asked[..count]) {
                    fault = fault.or_else(|| shared.draw());
                }
                match fault {
                    Some(Fault::LoseRequest) => {
                        shared.lost_requests.fetch_add(1, Ordering::SeqCst);
                        shared.happened.notify_one();
                        return;
                    }
                    Some(Fault::HoldRequest) => {
                        drop(client);
                        shared.happened.notify_one();
                        hold(&shared, server, &asked[..count]).await;
                        return;
                    }
                    _ => {}
                }
                if server.write_all(&asked[..count]).await.is_err() { return }
                if fault == Some(Fault::PassRequest) {
                    fault = None;
                    shared.happened.notify_one();
                }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if fault == Some(Fault::LoseReply) && !answered.starts_with(b"-NOSCRIPT") {
                    shared.lost_replies.fetch_add(1, Ordering::SeqCst);
                    shared.happened.notify_one();
                    return;
                }
                if fault == Some(Fault::HoldReply) && !answered.starts_with(b"-NOSCRIPT") {
                    fault = None;
                    shared.happened.notify_one();
                    let mut deliver = shared.deliver.subscribe();
                    let _ = deliver.wait_for(|deliver| *deliver).await;
                    shared.delivered.notify_one();
                }
                if client.write_all(&answered[..count]).await.is_err() { return }
            }
        }
    }
}

/// Is there a script call of a queue among these bytes? The introduction of a new connection evaluates a text of its own, and the call
/// that puts a queue or topic on its list is made beside the queue's own, before or behind it.
fn is_ours(bytes: &[u8]) -> bool {
    let is_script = |word: &&[u8]| matches!(*word, b"\nEVAL\r" | b"\nEVALS");
    let calls = bytes.windows(6).filter(is_script).count();
    let of_the_list =
        bytes.windows(20).filter(|word| matches!(*word, b"{queues}:queues_used" | b"{topics}:queues_used")).count();
    calls > of_the_list && !bytes.windows(7).any(|word| word == b"SETNAME")
}

async fn hold(shared: &Shared, mut server: TcpStream, held: &[u8]) {
    let mut deliver = shared.deliver.subscribe();
    let _ = deliver.wait_for(|deliver| *deliver).await;
    let mut answer = vec![0; 65_536];
    if server.write_all(held).await.is_ok() && server.read(&mut answer).await.is_ok() {
        assert!(!answer.starts_with(b"-"), "{}", String::from_utf8_lossy(&answer[..80]));
    }
    shared.delivered.notify_one();
}
