//! Locks in handlers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{self, Server};
use duly::worker::{Context, Failure, Job, Worker};
use duly::{LockOptions, NewJob};

#[tokio::test]
async fn a_job_that_meets_a_taken_lock_goes_back_uncounted_and_is_told_how_long_it_has_waited() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    let held = client.lock("stock", &LockOptions::new()).await.unwrap();
    let waited = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&waited);
    let worker = Worker::builder(client.clone())
        .queue("orders", 1)
        .any_handler(move |job: Job<u64>, _: Context| {
            let noted = Arc::clone(&noted);
            async move {
                let lock = job.lock("stock", &LockOptions::new(), Duration::from_millis(20)).await?;
                assert!(lock.is_held());
                noted.lock().unwrap().push((job.attempt(), lock.waited()));
                Ok::<_, Failure>(())
            }
        })
        .build()
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { worker.run_until(async move { _ = stopped.await }).await.unwrap() });
    let id = queue.push(NewJob::new(&42).unwrap().max_retries(0)).await.unwrap().id().to_owned();
    support::eventually("it goes back", || async {
        let found = queue.find(&id).await.unwrap();
        found.is_some_and(|found| found.job.envelope.error.starts_with("waits for the lock 'stock' since "))
    })
    .await;
    held.release().await.unwrap();
    support::eventually("it runs", || async { !waited.lock().unwrap().is_empty() }).await;
    stop.send(()).unwrap();
    let report = running.await.unwrap();
    assert!(report.acked == 1 && report.failed == 0 && report.released >= 1, "{report:?}");
    let waited = waited.lock().unwrap().clone();
    assert!(waited.len() == 1 && waited[0].0 == 1 && waited[0].1 > Duration::ZERO, "{waited:?}");
    // The handler dropped it.
    support::eventually("it is free", || async { client.lock("stock", &LockOptions::new()).await.is_ok() }).await;
}
