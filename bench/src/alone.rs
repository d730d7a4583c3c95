//! One call at a time: what a single push, reserve and ack takes, round trip and all.

use std::time::{Duration, Instant};

use duly::ReserveOptions;
use duly::blocking::{Client, Uninterrupted};

use crate::RUNS;
use crate::cycle::count;
use crate::engine::{data, plain_job};
use crate::figure::{Figure, median};
use crate::floor;
use crate::server::{Failure, Server};

const CALLS: usize = 1_000;

/// The blocking facade, on which the Python and PHP skins are built.
pub(crate) fn through_the_facade(server: &mut Server) -> Result<(), Failure> {
    server.flush()?;
    let client = Client::new(duly::Client::builder().url(server.url()))?;
    let queue = client.queue("alone")?;
    let never = &mut Uninterrupted;
    let options = ReserveOptions::new().lease(Duration::from_secs(600));
    let mut figures: [Figure; 3] = Default::default();
    for run in 0..=RUNS {
        let mut elapsed = [Duration::ZERO; 3];
        let jobs = (0..CALLS).map(|_| plain_job()).collect::<Result<Vec<_>, _>>()?;
        let started = Instant::now();
        for job in jobs {
            queue.push(job, never)?;
        }
        elapsed[0] = started.elapsed();
        let mut held = Vec::with_capacity(CALLS);
        let started = Instant::now();
        for _ in 0..CALLS {
            held.append(&mut queue.reserve(&options, never)?);
        }
        elapsed[1] = started.elapsed();
        let started = Instant::now();
        for job in &held {
            job.ack(never)?;
        }
        elapsed[2] = started.elapsed();
        if held.len() != CALLS {
            return Err("some jobs were not reserved".into());
        }
        if run > 0 {
            figures.iter_mut().zip(elapsed).for_each(|(figure, took)| figure.add(us(took) / count(CALLS)));
        }
    }
    for (figure, verb) in figures.into_iter().zip(["push", "reserve", "ack"]) {
        figure.print(&format!("skin.rust_us_per_{verb}"), "us");
    }
    Ok(())
}

/// A push beside a SET of as many bytes by the same client library, in turns.
pub(crate) async fn beside_set(server: &mut Server) -> Result<(), Failure> {
    server.flush()?;
    let queue = server.client()?.queue("alone")?;
    let mut connection = floor::connect(server.url()).await?;
    let value = data();
    let mut figure = Figure::default();
    for run in 0..=RUNS {
        let (mut pushes, mut sets) = (Vec::with_capacity(CALLS), Vec::with_capacity(CALLS));
        for at in 0..CALLS {
            let job = plain_job()?;
            let started = Instant::now();
            queue.push(job).await?;
            pushes.push(us(started.elapsed()));
            let mut set = redis::cmd("SET");
            set.arg(format!("{at:016x}")).arg(&value);
            let started = Instant::now();
            set.exec_async(&mut connection).await?;
            sets.push(us(started.elapsed()));
        }
        pushes.sort_by(f64::total_cmp);
        sets.sort_by(f64::total_cmp);
        if run > 0 {
            figure.add(median(&pushes) / median(&sets));
        }
    }
    figure.print("engine.push_over_set", "x");
    Ok(())
}

fn us(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}
