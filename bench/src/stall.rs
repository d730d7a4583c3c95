//! A million jobs due at the same moment: how long does the server keep another client waiting while a worker takes them?

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use duly::{MAX_BATCH, Millis, ReserveOptions, When};

use crate::RUNS;
use crate::engine::plain_job;
use crate::figure::Figure;
use crate::server::{Failure, Server};

const JOBS: usize = 1_000_000;

/// One filling; each run takes its share of it, with the largest calls there are.
pub(crate) async fn measure(server: &mut Server) -> Result<(), Failure> {
    server.flush()?;
    // Time stands still while the queue is filled, however long that takes, and then all are due.
    let queue = duly::Client::builder().url(server.url()).manual_clock().build()?.queue("stall")?;
    let due = Millis::from_secs(1_800_000_000);
    queue.set_clock(due.saturating_sub(Millis::from_secs(1))).await?;
    let job = plain_job()?.when(When::At(due));
    queue.push_many(std::iter::repeat_n(job, JOBS), |_| ()).await?;
    queue.set_clock(due).await?;
    server.watch_slow_calls()?;

    let options = ReserveOptions::new().max(MAX_BATCH).lease(Duration::from_secs(600));
    let (mut waits, mut scripts) = (Figure::default(), Figure::default());
    for _ in 0..RUNS {
        let other = OtherClient::start(server.url())?;
        let mut taken = 0;
        while taken < JOBS / RUNS {
            let jobs = queue.reserve(&options).await?;
            taken += jobs.len();
            if jobs.is_empty() || queue.ack_all(&jobs).await?.contains(&false) {
                return Err("the queue of a million jobs lost some".into());
            }
        }
        waits.add(other.stop()?.as_secs_f64() * 1e3);
        scripts.add(server.slowest_script()?.as_secs_f64() * 1e3);
    }
    waits.print("engine.longest_call_ms", "ms");
    scripts.print("engine.longest_call_ms.by_server", "ms");
    server.flush()
}

/// Pings on a thread of its own, without a pause, and remembers the longest wait.
struct OtherClient {
    stop: Arc<AtomicBool>,
    longest_us: Arc<AtomicU64>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl OtherClient {
    fn start(url: &str) -> Result<Self, Failure> {
        let address = url.strip_prefix("redis://").ok_or("the URL of the server must begin with redis://")?;
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let longest_us = Arc::new(AtomicU64::new(0));
        let (until, longest) = (Arc::clone(&stop), Arc::clone(&longest_us));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                let sent = Instant::now();
                socket.write_all(b"PING\r\n")?;
                socket.read_exact(&mut [0; 7])?;
                let waited = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
                longest.fetch_max(waited, Ordering::Relaxed);
            }
            Ok(())
        });
        Ok(Self { stop, longest_us, thread })
    }

    fn stop(self) -> Result<Duration, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the other client panicked")??;
        Ok(Duration::from_micros(self.longest_us.load(Ordering::Relaxed)))
    }
}
