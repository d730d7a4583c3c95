//! What a job takes of the server's memory: 200 bytes of JSON data, ids made by duly, defaults for the rest.

use std::time::Duration;

use duly::NewJob;

use crate::RUNS;
use crate::cycle::count;
use crate::engine::plain_job;
use crate::figure::Figure;
use crate::server::{Failure, Server};

const JOBS: usize = 100_000;

pub(crate) async fn measure(server: &mut Server) -> Result<(), Failure> {
    let delay = Duration::from_secs(36_000);
    let jobs = [
        ("engine.mem_ready_bytes", plain_job()?),
        ("engine.mem_delayed_bytes", plain_job()?.delay(delay)),
        ("engine.mem_ready_bytes.named", plain_job()?.name("order.close")),
        ("engine.mem_delayed_bytes.named", plain_job()?.name("order.close").delay(delay)),
    ];
    for (metric, job) in jobs {
        let mut figure = Figure::default();
        for _ in 0..RUNS {
            figure.add(bytes_a_job(server, &job).await?);
        }
        figure.print(metric, "bytes");
    }
    Ok(())
}

async fn bytes_a_job(server: &mut Server, job: &NewJob) -> Result<f64, Failure> {
    server.flush()?;
    let queue = server.client()?.queue("memory")?;
    // What a queue takes once (its meta, the scripts) is not what a job takes.
    queue.push(job.clone()).await?;
    let before = server.memory()?;
    queue.push_many(std::iter::repeat_n(job.clone(), JOBS), |_| ()).await?;
    Ok((server.memory()? - before) / count(JOBS))
}
