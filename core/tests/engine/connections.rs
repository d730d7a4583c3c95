//! What it costs a server that somebody waits.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::support::Server;
use crate::support::meter::Meter;
use duly::{NewJob, QueueWeight, ReserveOptions, Selection};

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
    // Now and then one looks.
    meter.until("nearly all wait at once", |meter| meter.blocked() >= 290).await;
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

#[tokio::test]
async fn who_waits_for_several_queues_waits_with_one_connection() {
    let server = Server::start();
    let client = server.client();
    let queues: Vec<_> = (0..8).map(|n| QueueWeight::new(client.queue(&format!("q{n}")).unwrap(), 1)).collect();
    let mut meter = Meter::of(&server);
    let before = meter.dialed();
    let options = ReserveOptions::new().wait(Duration::from_secs(60));
    for round in 0..24 {
        let pushed = &queues[round * 3 % 8].queue;
        let push = async {
            meter.until("it waits", |meter| meter.blocked() > 0).await;
            assert!(meter.blocked() <= 1);
            pushed.push(NewJob::new(&round).unwrap()).await.unwrap();
        };
        let (jobs, ()) = tokio::join!(client.reserve_from(&queues, Selection::Strict, &options), push);
        let jobs = jobs.unwrap();
        assert_eq!((jobs.len(), jobs[0].queue().name()), (1, pushed.name()));
        jobs[0].ack().await.unwrap();
    }
    let dialed = meter.dialed() - before;
    assert!(dialed <= 4, "{dialed} connections for 24 jobs");
}
