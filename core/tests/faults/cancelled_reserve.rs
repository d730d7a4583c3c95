//! A reserve whose caller goes away while its call is on its way: nobody has the jobs, so they must come back at once, and
//! not when their lease ends, which would count as a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::proxy::{Fault, Proxy};
use crate::support::slow_line::{Line, SlowLine};
use crate::support::{self, Server};
use duly::{Client, NewJob, QueueWeight, ReserveOptions, Selection};
use tokio::task::JoinSet;

/// The ways to reserve.
#[derive(Debug, Clone, Copy)]
enum Way {
    AtOnce,
    Waiting,
    InTwoCalls,
    FromSeveral,
    FromPartitions,
}

async fn reserve(client: &Client, way: Way) -> usize {
    let options = ReserveOptions::new().max(10).lease(Duration::from_secs(3600));
    let queue = client.queue("orders").unwrap();
    let jobs = match way {
        Way::AtOnce => queue.reserve(&options).await,
        Way::Waiting => queue.reserve(&options.wait(Duration::from_secs(60))).await,
        Way::InTwoCalls => queue.reserve(&options.max(1000)).await,
        Way::FromSeveral => {
            let queues = [QueueWeight::new(client.queue("empty").unwrap(), 1), QueueWeight::new(queue, 1)];
            client.reserve_from(&queues, Selection::Strict, &options.wait(Duration::from_secs(60))).await
        }
        Way::FromPartitions => client.partitioned_queue("orders", 1).unwrap().reserve(&options).await,
    };
    jobs.unwrap().len()
}

async fn cancelled(way: Way, jobs: usize, calls_before: usize) {
    cancelled_behind(None, way, jobs, calls_before).await;
}

async fn cancelled_behind(line: Option<Line>, way: Way, jobs: usize, calls_before: usize) {
    let server = Server::start();
    let line = line.map(|line| SlowLine::before(server.port(), line));
    let name = if matches!(way, Way::FromPartitions) { "orders/0" } else { "orders" };
    let direct = server.client();
    let pushed = (0..jobs).map(|number| NewJob::new(&number).unwrap().key(format!("k{number}")));
    match way {
        Way::FromPartitions => {
            direct.partitioned_queue("orders", 1).unwrap().push_many(pushed, |_| {}).await.unwrap();
        }
        _ => {
            direct.queue("orders").unwrap().push_many(pushed, |_| {}).await.unwrap();
        }
    }
    // The server must know the script: asking it for one that it does not know is a call too.
    assert!(direct.queue("warm").unwrap().reserve(&ReserveOptions::new()).await.unwrap().is_empty());
    let proxy = Proxy::before(line.as_ref().map_or(server.port(), SlowLine::port)).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.next_after(calls_before, Fault::HoldReply);
    let caller = tokio::spawn({
        let client = client.clone();
        async move { reserve(&client, way).await }
    });
    proxy.happened().await; // the server has leased the jobs; the caller does not know yet
    let leased = server.redis_cli(&["HLEN", &format!("duly:{{{name}}}:leases")]);
    assert_ne!(leased.trim(), "0", "{way:?}");
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    proxy.deliver().await;

    support::eventually("all are ready again", || async {
        server.redis_cli(&["HLEN", &format!("duly:{{{name}}}:leases")]).trim() == "0"
    })
    .await;
    // Each was given back, and has neither failed nor come back from a run.
    assert_eq!(
        server.redis_cli(&["HGET", &format!("duly:{{{name}}}:stats"), "released"]).trim(),
        leased.trim(),
        "{way:?}"
    );
    assert_eq!(server.redis_cli(&["EXISTS", &format!("duly:{{{name}}}:returned")]).trim(), "0", "{way:?}");
    let ready = server.redis_cli(&["LLEN", &format!("duly:{{{name}}}:ready:5")]);
    assert_eq!(ready.trim(), jobs.to_string(), "{way:?}");
    if !matches!(way, Way::FromPartitions) {
        let again = direct.queue("orders").unwrap().reserve(&ReserveOptions::new().max(1000)).await.unwrap();
        let mut order: Vec<usize> = again.iter().map(|job| job.envelope.data.deserialize().unwrap()).collect();
        if matches!(way, Way::InTwoCalls) {
            order.sort_unstable(); // each call's jobs come back by themselves
        }
        assert_eq!(order, (0..jobs).collect::<Vec<_>>(), "{way:?}");
        assert!(again.iter().all(|job| job.attempt() == 1), "{way:?}");
    }
}

#[tokio::test]
async fn a_reserve_that_does_not_wait_gives_its_jobs_back() {
    cancelled(Way::AtOnce, 3, 0).await;
}

#[tokio::test]
async fn a_reserve_that_waits_gives_its_jobs_back() {
    cancelled(Way::Waiting, 3, 0).await;
}

#[tokio::test]
async fn a_reserve_of_two_calls_gives_back_what_either_leased() {
    cancelled(Way::InTwoCalls, 700, 1).await;
}

#[tokio::test]
async fn a_reserve_from_several_queues_gives_its_jobs_back() {
    cancelled(Way::FromSeveral, 3, 1).await;
}

#[tokio::test]
async fn a_reserve_from_partitions_gives_its_jobs_back() {
    cancelled(Way::FromPartitions, 3, 0).await;
}

#[tokio::test]
async fn a_reserve_behind_a_slow_line_gives_its_jobs_back() {
    let ways = [
        (Way::AtOnce, 3, 0),
        (Way::Waiting, 3, 0),
        (Way::InTwoCalls, 700, 1),
        (Way::FromSeveral, 3, 1),
        (Way::FromPartitions, 3, 0),
    ];
    let all = Line::STANDING.into_iter().flat_map(|line| ways.map(|way| (line, way)));
    // All at once: they wait for their lines.
    let all: JoinSet<()> =
        all.map(|(line, (way, jobs, calls_before))| cancelled_behind(Some(line), way, jobs, calls_before)).collect();
    all.join_all().await;
}

/// Interrupted as soon as somebody says so, and says that it was.
struct When(Arc<(AtomicBool, tokio::sync::Notify)>);

impl duly::blocking::Interrupt for When {
    type Error = duly::Error;

    fn check(&mut self) -> Result<(), duly::Error> {
        if self.0.0.load(Ordering::Acquire) {
            self.0.1.notify_one();
            return Err(duly::Error::new(duly::ErrorKind::Interrupted, "stop"));
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_reserve_that_is_interrupted_gives_its_jobs_back() {
    for wait in [Duration::ZERO, Duration::from_secs(60)] {
        let server = Server::start();
        let direct = server.queue("orders");
        direct.push_batch((0..3).map(|number| NewJob::new(&number).unwrap()).collect()).await.unwrap();
        // The server must know the script: asking it for one that it does not know is a call too.
        assert!(server.queue("warm").reserve(&ReserveOptions::new()).await.unwrap().is_empty());
        let proxy = Proxy::before(server.port()).await;
        let client = duly::blocking::Client::new(proxy.builder()).unwrap();
        let interrupt = Arc::new((AtomicBool::new(false), tokio::sync::Notify::new()));
        proxy.next_after(0, Fault::HoldReply);
        let caller = {
            let interrupt = Arc::clone(&interrupt);
            std::thread::spawn(move || {
                let options = ReserveOptions::new().max(10).wait(wait).lease(Duration::from_secs(3600));
                let reserved = client.queue("orders").unwrap().reserve(&options, &mut When(interrupt));
                // What was not given back within the second that it takes is by the next call of the process.
                for _ in 0..100 {
                    client.ping(&mut duly::blocking::Uninterrupted).unwrap();
                    std::thread::sleep(Duration::from_millis(10));
                }
                reserved.map(|jobs| jobs.len())
            })
        };
        proxy.happened().await; // the server has leased the jobs; the caller does not know yet
        assert_eq!(direct.counts().await.unwrap().reserved, 3);
        interrupt.0.store(true, Ordering::Release);
        interrupt.1.notified().await;
        proxy.deliver().await;
        support::eventually("all are ready again", || async { direct.counts().await.unwrap().ready == 3 }).await;
        assert_eq!(caller.join().unwrap().unwrap_err().kind(), duly::ErrorKind::Interrupted);
        // Nobody had begun them.
        assert_eq!(server.redis_cli(&["EXISTS", "duly:{orders}:returned"]).trim(), "0");
    }
}
