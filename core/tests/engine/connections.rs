//! What it costs a server that somebody waits.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::support::Server;
use crate::support::meter::Meter;
use duly::{NewJob, ReserveOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_wait_keep_their_connections() {
    const WAITERS: u64 = 300;
    let server = Server::start();
    let queue = server.queue("q");
    let job = NewJob::new(&1).unwrap().result_ttl(Duration::from_secs(60));
    let id = queue.push(job).await.unwrap().id().to_owned();
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (queue, id) = (queue.clone(), id.clone());
        waiters.spawn(async move { queue.wait_result(&id, None).await });
    }
    let mut meter = Meter::of(&server);
    meter.until("all wait", |meter| meter.blocked() == 300).await;
    let (dialed, looks) = (meter.dialed(), meter.calls("evalsha"));
    meter.until("each has looked three times more", |meter| meter.calls("evalsha") >= looks + 3 * WAITERS).await;
    let more = meter.dialed() - dialed;
    assert!(more <= WAITERS / 10, "{more} new connections");

    let jobs = queue.reserve(&ReserveOptions::new()).await.unwrap();
    jobs[0].ack_with(&7).await.unwrap();
    while let Some(result) = waiters.join_next().await {
        assert_eq!(result.unwrap().unwrap().deserialize::<u32>().unwrap(), 7);
    }
    meter.until("connections that nobody needs are closed", |meter| meter.connected() <= 5).await;
}
