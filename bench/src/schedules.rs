//! Ten thousand schedules: what it costs to fire them, and how late a worker does.

use std::time::{Duration, Instant};

use duly::worker::{Job, Worker};
use duly::{Millis, NewJob, Schedule};
use serde_json::Value;

use crate::RUNS;
use crate::cycle::count;
use crate::engine::plain_job;
use crate::figure::{Figure, median};
use crate::server::{Failure, Server};

const SCHEDULES: usize = 10_000;
/// So many fire in a second of the second part.
const A_SECOND: usize = 200;

pub(crate) async fn measure(server: &mut Server) -> Result<(), Failure> {
    all_at_once(server).await?;
    spread(server).await?;
    server.flush()
}

fn list(schedule: impl Fn(usize) -> Result<Schedule, Failure>) -> Result<Vec<(String, Schedule)>, Failure> {
    (0..SCHEDULES).map(|number| Ok((format!("schedule{number}"), schedule(number)?))).collect()
}

/// All of them are due at the same moment, and one program fires them.
async fn all_at_once(server: &mut Server) -> Result<(), Failure> {
    let (mut puts, mut same, mut fires, mut cpu) =
        (Figure::default(), Figure::default(), Figure::default(), Figure::default());
    for _ in 0..RUNS {
        server.flush()?;
        let queue = duly::Client::builder().url(server.url()).manual_clock().build()?.queue("schedules")?;
        queue.set_clock(Millis::from_secs(1_800_000_000)).await?;
        let hourly = list(|_| Ok(Schedule::cron("0 * * * *", plain_job()?.name("n"))?.tz("Europe/Berlin")?))?;
        let started = Instant::now();
        queue.schedules().sync("bench", &hourly).await?;
        puts.add(started.elapsed().as_secs_f64() * 1e6 / count(SCHEDULES));
        let started = Instant::now();
        queue.schedules().sync("bench", &hourly).await?;
        same.add(started.elapsed().as_secs_f64() * 1e6 / count(SCHEDULES));
        queue.set_clock(Millis::from_secs(1_800_003_600)).await?;
        let phase = server.start()?;
        if queue.schedules().fire_due().await? != SCHEDULES as u64 {
            return Err("some schedules did not fire".into());
        }
        let phase = server.end(&phase)?;
        fires.add(phase.seconds * 1e6 / count(SCHEDULES));
        cpu.add(phase.server_us / count(SCHEDULES));
    }
    puts.print("schedules.us_per_new_one", "us");
    same.print("schedules.us_per_unchanged_one", "us");
    fires.print("schedules.us_per_fire", "us");
    cpu.print("schedules.server_us_per_fire", "us");
    Ok(())
}

/// They fire one after the other, and a worker runs their jobs.
async fn spread(server: &mut Server) -> Result<(), Failure> {
    server.flush()?;
    let client = server.client()?;
    let queue = client.queue("schedules")?;
    let period = Duration::from_secs((SCHEDULES / A_SECOND) as u64);
    let gap = Duration::from_millis(1000 / A_SECOND as u64);
    let spread = list(|number| {
        let anchor = Millis::from_duration(gap * u32::try_from(number).unwrap_or(0))?;
        Ok(Schedule::every(period, NewJob::new(&number)?.name("n"))?.anchor(anchor)?)
    })?;
    queue.schedules().sync("bench", &spread).await?;
    let worker = Worker::builder(client)
        .queue("schedules", 1)
        .concurrency(10)
        .handler("n", |_: Job<Value>, _| async { Ok::<(), String>(()) })
        .build()?;
    worker.run_until(tokio::time::sleep(Duration::from_secs(10))).await?;
    let mut late = Vec::new();
    let mut begun = None;
    for (name, _) in &spread {
        for fire in queue.schedules().get(name).await?.map(|view| view.fires).unwrap_or_default() {
            begun = Some(begun.map_or(fire.at, |at: Millis| at.min(fire.at)));
            late.push(fire);
        }
    }
    // What was due before the worker began is late by that.
    let from = begun.unwrap_or_default().saturating_add(Millis::from_secs(1));
    let mut late: Vec<f64> = late
        .into_iter()
        .filter(|fire| fire.slot > from)
        .map(|fire| fire.at.saturating_sub(fire.slot).as_seconds() * 1e3)
        .collect();
    late.sort_by(f64::total_cmp);
    let rank = |share: usize| late.get(late.len() * share / 100).copied().unwrap_or_default();
    let figures = [("p50", median(&late)), ("p99", rank(99)), ("max", late.last().copied().unwrap_or_default())];
    for (name, value) in figures {
        let mut figure = Figure::default();
        figure.add(value);
        figure.print(&format!("schedules.lateness_{name}_ms.of_{}", late.len()), "ms");
    }
    Ok(())
}
