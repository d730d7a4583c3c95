//! The floor of latencies on this machine: what anybody sees who waits on Redis, or for a timer, with nothing else to do.

use std::thread;
use std::time::{Duration, Instant};

use crate::RUNS;
use crate::figure::Figure;
use crate::server::{Failure, Server};

const LIST: &str = "floor:wake";
const JOBS: u32 = 100;

/// Prints `worker.floor_idle_*` (LPUSH by one connection until another one's BLPOP has returned) and
/// `worker.floor_lateness_*` (a sleep until a moment and one PING, less the moment).
pub(crate) fn measure(server: &mut Server) -> Result<(), Failure> {
    let mut idle = Percentiles::default();
    let mut lateness = Percentiles::default();
    for run in 0..RUNS {
        idle.add(pushes(server.url())?);
        lateness.add(sleeps(server.url(), run)?);
        server.flush()?;
    }
    idle.print("worker.floor_idle");
    lateness.print("worker.floor_lateness");
    Ok(())
}

fn pushes(url: &str) -> Result<Vec<f64>, Failure> {
    let began = Instant::now();
    let mut waiter = redis::Client::open(url)?.get_connection()?;
    let waiting = thread::spawn(move || {
        let mut late_ms = Vec::new();
        for _ in 0..JOBS {
            let (_, pushed_ns): (String, u64) = redis::cmd("BLPOP").arg(LIST).arg(10).query(&mut waiter)?;
            late_ms.push(began.elapsed().saturating_sub(Duration::from_nanos(pushed_ns)).as_secs_f64() * 1e3);
        }
        Ok::<_, redis::RedisError>(late_ms)
    });
    let mut pusher = redis::Client::open(url)?.get_connection()?;
    for number in 0..JOBS {
        thread::sleep(spread(number, Duration::from_millis(3), Duration::from_millis(12)));
        let now_ns = u64::try_from(began.elapsed().as_nanos())?;
        redis::cmd("LPUSH").arg(LIST).arg(now_ns).exec(&mut pusher)?;
    }
    Ok(waiting.join().map_err(|_| "the waiter panicked")??)
}

fn sleeps(url: &str, run: usize) -> Result<Vec<f64>, Failure> {
    let mut connection = redis::Client::open(url)?.get_connection()?;
    let mut late_ms = Vec::new();
    for number in 0..JOBS {
        let pause = spread(number + u32::try_from(run)?, Duration::from_millis(3), Duration::from_millis(17));
        let due = Instant::now() + pause;
        thread::sleep(pause);
        redis::cmd("PING").exec(&mut connection)?;
        late_ms.push(due.elapsed().as_secs_f64() * 1e3);
    }
    Ok(late_ms)
}

/// Pauses of all lengths between two, each as often as the others.
fn spread(number: u32, least: Duration, most: Duration) -> Duration {
    least + most.saturating_sub(least) * (number * 61 % JOBS) / JOBS
}

/// Of several runs.
#[derive(Default)]
struct Percentiles {
    p50: Figure,
    p99: Figure,
    max: Figure,
}

impl Percentiles {
    fn add(&mut self, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        for (figure, index) in [
            (&mut self.p50, values.len() / 2),
            (&mut self.p99, (values.len() * 99).div_ceil(100) - 1),
            (&mut self.max, values.len() - 1),
        ] {
            figure.add(values[index]);
        }
    }

    fn print(self, metric: &str) {
        self.p50.print(&format!("{metric}_p50_ms"), "ms");
        self.p99.print(&format!("{metric}_p99_ms"), "ms");
        self.max.print(&format!("{metric}_max_ms"), "ms");
    }
}
