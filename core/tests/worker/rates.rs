//! What workers count of runs, beside what is known of them.

use std::time::Duration;

use crate::support::{Server, eventually};
use duly::worker::{Consumer, Job, Worker, WorkerSettings};
use duly::{Millis, NewJob, Outcome, Queue, RateWindow, Rates, RetryPolicy};
use serde_json::Value;

const AN_HOUR: Duration = Duration::from_secs(3600);
const TAKES: Duration = Duration::from_millis(20);

fn job(name: Option<&str>) -> NewJob {
    let job = NewJob::new(&1).unwrap().max_retries(1).retry(RetryPolicy::Fixed { delay: Millis::ZERO });
    name.into_iter().fold(job, NewJob::name)
}

/// Done, failed, retried, released.
fn ends(rates: &Rates, name: Option<&str>) -> [u64; 4] {
    let of = rates.names.iter().find(|of| of.name.as_deref() == name && !of.others);
    of.map_or([0; 4], |of| [of.counts.done, of.counts.failed, of.counts.retried, of.counts.released])
}

async fn rates(queue: &Queue) -> Rates {
    queue.rates(AN_HOUR).await.unwrap()
}

#[tokio::test]
async fn each_run_is_counted_once_by_its_outcome_with_its_times() {
    let server = Server::start();
    let (client, queue) = (server.client(), server.queue("orders"));
    for _ in 0..3 {
        queue.push(job(Some("good")).delay(Duration::from_millis(1))).await.unwrap();
    }
    queue.push(job(Some("bad"))).await.unwrap();
    queue.push(job(Some("good")).id("my-own")).await.unwrap();
    let worker = Worker::builder(client)
        .queue("orders", 1)
        .handler("good", |_: Job<Value>, _| async {
            tokio::time::sleep(TAKES).await;
            Ok::<(), String>(())
        })
        .handler("bad", |_: Job<Value>, _| async { Err::<(), _>("no".to_owned()) });
    let stop = async {
        let is_over = || async {
            let counts = queue.counts().await.unwrap();
            counts.failed == 1 && counts.delayed + counts.ready + counts.reserved == 0
        };
        eventually("all jobs have ended", is_over).await;
    };
    worker.build().unwrap().run_until(stop).await.unwrap();
    // What had not been reported is reported as it leaves.
    let rates = rates(&queue).await;
    assert_eq!((ends(&rates, Some("good")), ends(&rates, Some("bad"))), ([4, 0, 0, 0], [0, 1, 1, 0]));
    assert_eq!((rates.total.runs(), rates.total.run.count()), (6, 6));
    let by_window = |of: fn(&RateWindow) -> u64| rates.windows.iter().map(of).sum::<u64>();
    assert_eq!((by_window(|one| one.counts.done), by_window(|one| one.counts.failed)), (4, 1));
    // First runs of jobs with an id that duly made.
    assert_eq!(rates.total.wait.count(), 4);
    let good = rates.names.iter().find(|of| of.name.as_deref() == Some("good")).unwrap();
    assert!(good.counts.run.quantile(0.5) >= Some(TAKES.mul_f64(0.9)), "{:?}", good.counts.run.quantile(0.5));
    assert!(good.counts.run.mean() >= Some(TAKES));
    let (total, names) = queue.run_totals().await.unwrap();
    assert_eq!((total, names), (rates.total, rates.names));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_counts_whatever_its_owner_says() {
    let server = Server::start();
    let queue = server.queue("orders");
    let consumer = Consumer::start(&server.client(), WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    for _ in 0..3 {
        queue.push(job(None)).await.unwrap();
    }
    for ended in 0..3 {
        let delivery = consumer.next(AN_HOUR).await.unwrap().expect("a job");
        match ended {
            0 => delivery.job().ack().await.unwrap(),
            1 => delivery.release(AN_HOUR).unwrap(),
            _ => drop(delivery.settle(Outcome::Done, "", None).unwrap()),
        }
    }
    consumer.close(Some(AN_HOUR)).await.unwrap();
    assert_eq!(ends(&rates(&queue).await, None), [2, 0, 0, 1]);
}
