//! The whole life of jobs (push, reserve, ack), by the engine and by the raw commands beneath it.

use futures_util::future::try_join_all;

use crate::RUNS;
use crate::engine::Engine;
use crate::figure::Figure;
use crate::floor::{Commands, Scripts};
use crate::server::{Failure, Phase, Server};

/// Jobs in one run, a multiple of every batch times every number of calls in flight.
const JOBS: usize = 20_000;
const NAMES: [&str; 3] = ["push", "reserve", "ack"];

/// A way to give jobs their life. Each call takes the given number of jobs; a reserve that gets fewer fails.
pub(crate) trait Way {
    /// Jobs under a lease.
    type Held;
    /// On a server that was just emptied.
    async fn begin(&self) -> Result<(), Failure> {
        Ok(())
    }
    async fn push(&self, jobs: usize) -> Result<(), Failure>;
    /// Until all that was pushed can be reserved.
    async fn until_due(&self) -> Result<(), Failure>;
    async fn reserve(&self, jobs: usize) -> Result<Self::Held, Failure>;
    async fn ack(&self, held: Self::Held) -> Result<(), Failure>;
}

/// How a life is lived: jobs in a call, calls in flight on one connection.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    batch: usize,
    in_flight: usize,
}

const BATCH100: Shape = Shape { name: "batch100", batch: 100, in_flight: 1 };
const SINGLE: Shape = Shape { name: "single", batch: 1, in_flight: 50 };

#[derive(Default)]
struct Life {
    whole: Figure,
    server_us: [Figure; 3],
    jobs_per_s: [Figure; 3],
}

impl Life {
    fn add(&mut self, phases: [Phase; 3]) {
        let jobs = count(JOBS);
        self.whole.add(phases.iter().map(|phase| phase.server_us).sum::<f64>() / jobs);
        for (at, phase) in phases.iter().enumerate() {
            self.server_us[at].add(phase.server_us / jobs);
            self.jobs_per_s[at].add(jobs / phase.seconds);
        }
    }

    /// Prints the server's CPU time; gives the throughput of the three phases.
    fn print(self, what: &str) -> [Figure; 3] {
        self.whole.print(what, "us");
        for (figure, name) in self.server_us.into_iter().zip(NAMES) {
            figure.print(&format!("{what}.{name}"), "us");
        }
        self.jobs_per_s
    }
}

pub(crate) async fn measure(server: &mut Server) -> Result<(), Failure> {
    let ready = Engine::ready(server)?;
    let delayed = Engine::delayed(server)?;
    let noted = Engine::with_history(server)?;
    let commands = Commands::connect(server.url()).await?;
    let scripts = Scripts::connect(server.url()).await?;
    for shape in [BATCH100, SINGLE] {
        let mut lives: [Life; 5] = Default::default();
        for run in 0..=RUNS {
            // One after the other, so that whatever slows the machine slows all of them.
            let phases = [
                live(&ready, server, shape).await?,
                live(&noted, server, shape).await?,
                live(&delayed, server, shape).await?,
                live(&commands, server, shape).await?,
                live(&scripts, server, shape).await?,
            ];
            if run > 0 {
                // The first only warms up.
                lives.iter_mut().zip(phases).for_each(|(life, phases)| life.add(phases));
            }
        }
        let name = shape.name;
        let [of_ready, of_noted, of_delayed, of_commands, of_scripts] = lives;
        let [push, reserve, ack] = of_ready.print(&format!("engine.server_us_per_job.{name}"));
        of_noted.print(&format!("engine.server_us_per_job.{name}.history"));
        history_times_of_none(&noted, &ready, server, shape)
            .await?
            .print(&format!("engine.history_times_of_none.{name}"), "times");
        of_delayed.print(&format!("engine.server_us_per_job.{name}.delayed"));
        of_commands.print(&format!("floor.server_us_per_job.{name}"));
        of_scripts.print(&format!("floor.script_server_us_per_job.{name}"));
        if shape.batch == 1 {
            push.print("engine.jobs_per_s.push", "jobs/s");
        } else {
            reserve.print("engine.jobs_per_s.reserve100", "jobs/s");
            ack.print("engine.jobs_per_s.ack100", "jobs/s");
        }
    }
    throughput(server).await
}

/// In pairs, and in many: they differ by a tenth, as much as is measured.
async fn history_times_of_none(
    noted: &Engine,
    ready: &Engine,
    server: &mut Server,
    shape: Shape,
) -> Result<Figure, Failure> {
    let whole = |phases: [Phase; 3]| phases.iter().map(|phase| phase.server_us).sum::<f64>();
    let mut times = Figure::default();
    for pair in 0..4 * RUNS {
        let (with, without);
        if pair % 2 == 0 {
            with = whole(live(noted, server, shape).await?);
            without = whole(live(ready, server, shape).await?);
        } else {
            without = whole(live(ready, server, shape).await?);
            with = whole(live(noted, server, shape).await?);
        }
        times.add(with / without);
    }
    Ok(times)
}

/// The long pushes and the long promote.
async fn throughput(server: &mut Server) -> Result<(), Failure> {
    const LONG: usize = 50_000;
    let (mut push_many, mut promote) = (Figure::default(), Figure::default());
    for run in 0..=RUNS {
        server.flush()?;
        let ready = Engine::ready(server)?;
        let started = server.start()?;
        ready.push_many(LONG).await?;
        let pushed = server.end(&started)?;
        server.flush()?;
        let delayed = Engine::delayed(server)?;
        delayed.push_many(LONG).await?;
        delayed.until_due().await?;
        let started = server.start()?;
        delayed.promote(LONG).await?;
        let promoted = server.end(&started)?;
        if run > 0 {
            push_many.add(count(LONG) / pushed.seconds);
            promote.add(count(LONG) / promoted.seconds);
        }
    }
    push_many.print("engine.jobs_per_s.push_many", "jobs/s");
    promote.print("engine.jobs_per_s.promote", "jobs/s");
    Ok(())
}

async fn live<W: Way>(way: &W, server: &mut Server, shape: Shape) -> Result<[Phase; 3], Failure> {
    server.flush()?;
    way.begin().await?;
    // The first call of each kind brings the script to the server.
    way.push(1).await?;
    way.until_due().await?;
    way.ack(way.reserve(1).await?).await?;

    let calls_of_each = JOBS / shape.batch / shape.in_flight;
    let callers = 0..shape.in_flight;
    let started = server.start()?;
    try_join_all(callers.clone().map(|_| async {
        for _ in 0..calls_of_each {
            way.push(shape.batch).await?;
        }
        Ok::<_, Failure>(())
    }))
    .await?;
    let push = server.end(&started)?;

    way.until_due().await?;
    let started = server.start()?;
    let held = try_join_all(callers.map(|_| async {
        let mut held = Vec::with_capacity(calls_of_each);
        for _ in 0..calls_of_each {
            held.push(way.reserve(shape.batch).await?);
        }
        Ok::<_, Failure>(held)
    }))
    .await?;
    let reserve = server.end(&started)?;

    let started = server.start()?;
    try_join_all(held.into_iter().map(|held| async {
        for jobs in held {
            way.ack(jobs).await?;
        }
        Ok::<_, Failure>(())
    }))
    .await?;
    let ack = server.end(&started)?;
    Ok([push, reserve, ack])
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}
