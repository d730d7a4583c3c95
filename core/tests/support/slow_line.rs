//! A TCP proxy that is a slow line: so many bytes a second each way, each of them late by the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::{Client, ClientBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// What a line is like.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    pub bytes_per_s: u32,
    pub latency: Duration,
}

impl Line {
    /// 10 Mbit/s, 50 ms there and back.
    pub const TEN_MEGABIT: Self = Self { bytes_per_s: 1_250_000, latency: Duration::from_millis(25) };
    /// 150 KB/s, as over a busy mobile network.
    pub const MOBILE: Self = Self { bytes_per_s: 150_000, latency: Duration::from_millis(50) };
    /// 32 KB/s, as over an uplink that is shared with others.
    pub const MODEM: Self = Self { bytes_per_s: 32_000, latency: Duration::from_millis(20) };
    /// The other side of the earth.
    pub const FAR: Self = Self { bytes_per_s: 12_500_000, latency: Duration::from_millis(150) };

    /// The conditions under which faults are tested, beside a line that is none.
    pub const STANDING: [Self; 3] = [Self::MOBILE, Self::TEN_MEGABIT, Self::FAR];
}

/// Runs this over each of these lines, all at once: they wait most of the time.
pub async fn over_each_line<F: Future<Output = ()> + Send + 'static>(test: impl Fn(Line) -> F) {
    Line::STANDING.map(test).into_iter().collect::<JoinSet<()>>().join_all().await;
}

/// Stands between clients and a server.
pub struct SlowLine {
    port: u16,
    up: Pace,
    down: Pace,
    /// How many new connections are closed at once.
    refuses: Arc<AtomicUsize>,
}

/// So much is carried at once.
const CHUNK: usize = 4096;
/// The kernel holds little more, or most of a call would be on its way at once.
const BUFFER: u32 = 64 * 1024;

impl SlowLine {
    /// All connections together have this line. It ends with the runtime.
    pub fn before(target: u16, line: Line) -> Self {
        Self::that_breaks(target, line, usize::MAX)
    }

    /// The same, and each connection breaks when so many bytes came from the server.
    pub fn that_breaks(target: u16, line: Line, after: usize) -> Self {
        Self::new(target, line, (usize::MAX, after))
    }

    /// The same, and each connection breaks when so many bytes came from the client.
    pub fn that_takes(target: u16, line: Line, most: usize) -> Self {
        Self::new(target, line, (most, usize::MAX))
    }

    fn new(target: u16, line: Line, breaks_after: (usize, usize)) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(BUFFER).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener: TcpListener = socket.listen(1024).unwrap();
        let port = listener.local_addr().unwrap().port();
        let up = Pace::new(line.bytes_per_s);
        let down = Pace::new(line.bytes_per_s);
        let (to_server, to_client) = (up.clone(), down.clone());
        let refuses = Arc::new(AtomicUsize::new(0));
        let to_refuse = Arc::clone(&refuses);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if to_refuse.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    continue;
                }
                let (up, down) = (up.clone(), down.clone());
                tokio::spawn(async move {
                    let socket = TcpSocket::new_v4().unwrap();
                    socket.set_recv_buffer_size(BUFFER).unwrap();
                    let Ok(server) = socket.connect(([127, 0, 0, 1], target).into()).await else { return };
                    carry(client, server, up, down, line.latency, breaks_after);
                });
            }
        });
        Self { port, up: to_server, down: to_client, refuses }
    }

    /// How many bytes it has taken to the server.
    pub fn sent(&self) -> usize {
        self.up.taken.load(Ordering::Relaxed)
    }

    /// How many bytes it has taken from the server.
    pub fn received(&self) -> usize {
        self.down.taken.load(Ordering::Relaxed)
    }

    /// The next connection is closed at once.
    pub fn refuse_one(&self) {
        self.refuses.fetch_add(1, Ordering::Relaxed);
    }

    /// Has it refused as many connections as was asked for?
    pub fn has_refused(&self) -> bool {
        self.refuses.load(Ordering::Relaxed) == 0
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn builder(&self) -> ClientBuilder {
        Client::builder().url(&self.url())
    }
}

/// When the line is free again.
#[derive(Clone)]
struct Pace {
    free_at: Arc<Mutex<Instant>>,
    taken: Arc<AtomicUsize>,
    bytes_per_s: u32,
}

impl Pace {
    fn new(bytes_per_s: u32) -> Self {
        Self { free_at: Arc::new(Mutex::new(Instant::now())), taken: Arc::default(), bytes_per_s }
    }

    async fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        let needs = Duration::from_secs(1) * u32::try_from(bytes).unwrap() / self.bytes_per_s;
        let until = {
            let mut free_at = self.free_at.lock().unwrap();
            *free_at = (*free_at).max(Instant::now()) + needs;
            *free_at
        };
        tokio::time::sleep_until(until).await;
    }
}

/// What carries a connection; it breaks when all are aborted.
type Tasks = Arc<Mutex<Vec<AbortHandle>>>;

fn carry(client: TcpStream, server: TcpStream, up: Pace, down: Pace, latency: Duration, breaks_after: (usize, usize)) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let tasks = Tasks::default();
    one_way(from_client, to_server, up, latency, breaks_after.0, &tasks);
    one_way(from_server, to_client, down, latency, breaks_after.1, &tasks);
}

fn one_way(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    pace: Pace,
    latency: Duration,
    breaks_after: usize,
    tasks: &Tasks,
) {
    let (sender, mut on_the_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let all = Arc::clone(tasks);
    let reads = tokio::spawn(async move {
        let mut chunk = vec![0; CHUNK];
        let mut carried = 0;
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            carried += count;
            if carried > breaks_after {
                all.lock().unwrap().drain(..).for_each(|task| task.abort());
                return;
            }
            pace.take(count).await;
            if sender.send((Instant::now() + latency, chunk[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    let writes = tokio::spawn(async move {
        while let Some((at, bytes)) = on_the_way.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    tasks.lock().unwrap().extend([reads.abort_handle(), writes.abort_handle()]);
}
