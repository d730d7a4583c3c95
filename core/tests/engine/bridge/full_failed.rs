//! More failed jobs than a queue keeps.

use std::time::Duration;

use super::{FAILED, READY, data, drain, orders, package, peek, send, thinkphp};
use crate::support;
use crate::support::Server;
use duly::{Bridge, BridgeReport, OldQueue, State};

/// The queue would let the oldest go.
#[tokio::test]
async fn more_failed_jobs_than_the_queue_keeps_wait() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("orders").unwrap();
    queue.keep_failed(2, Duration::from_secs(3600)).await.unwrap();
    send(&server, FAILED, (0..2).map(|number| package(number, "")));
    // Nobody can read one of these, and the others are healthy.
    send(&server, READY, (3..6).map(|number| package(number, "")));
    send(&server, READY, ["no package".to_owned()]);
    let report = drain(&client, &client, thinkphp()).await;
    assert!(!report.is_complete(), "{report}");
    let said = report.to_string();
    assert!(said.contains("the jobs of 'redis:queue:failed' wait: 2 failed jobs come"), "{report}");
    assert!(said.contains("and the queue 'orders' keeps 1 more: raise that with keep_failed"), "{report}");
    assert_eq!(data(&client, State::Ready).await, orders([3, 4, 5]));
    assert!(said.ends_with("not all was moved"), "{report}");
    // What has come over is counted, and what waits is left.
    send(&server, READY, [package(6, ""), "no package".to_owned(), "nor this".to_owned()]);
    let report = drain(&client, &client, thinkphp()).await;
    let counts = |report: &BridgeReport| {
        let of = |key: &str| report.lanes.iter().find(|lane| lane.key == key).unwrap();
        [READY, FAILED].map(|key| (of(key).before, of(key).moved, of(key).left, of(key).in_flight))
    };
    assert_eq!((report.moved(), report.queues["orders"]), (1, [1, 0, 0]), "{report}");
    assert_eq!(counts(&report), [(3, 1, 2, 2), (2, 0, 2, 2)], "{report}");
    assert_eq!(drain(&client, &client, thinkphp()).await.moved(), 0);
    queue.keep_failed(9, Duration::from_secs(3600)).await.unwrap();
    let report = drain(&client, &client, thinkphp()).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!(counts(&report), [(2, 2, 0, 0), (2, 2, 0, 0)], "{report}");
    assert_eq!(peek(&client, State::Failed).await.len(), 5);
}

/// A key of several queues, of which one has no room.
#[tokio::test]
async fn a_full_failed_of_one_queue_holds_up_no_other_queue_of_its_key() {
    let server = Server::start();
    let client = server.client();
    let queues = ["orders", "mail", "bills"];
    let full = client.queue("bills").unwrap();
    full.keep_failed(1, Duration::from_secs(3600)).await.unwrap();
    // Bills come before mail and orders, in the order in which parts are stored.
    for number in 0..9 {
        let more = format!(r#","queue":"{}""#, queues[number % 3]);
        send(&server, "{redis-queue}-failed", [package(number, &more)]);
    }
    let workerman = || OldQueue::workerman("", &queues).unwrap();
    let report = drain(&client, &client, workerman()).await;
    assert_eq!((report.moved(), report.is_complete()), (6, false), "{report}");
    assert!(report.to_string().contains("3 failed jobs come, and the queue 'bills' keeps 1 more"), "{report}");
    let lane = report.lanes.iter().find(|lane| lane.key.ends_with("failed")).unwrap();
    assert_eq!((lane.before, lane.moved, lane.left, lane.in_flight), (9, 6, 3, 3), "{report}");
    for queue in ["orders", "mail"] {
        assert_eq!(client.queue(queue).unwrap().counts().await.unwrap().failed, 3, "{queue}");
    }
    full.keep_failed(9, Duration::from_secs(3600)).await.unwrap();
    let report = drain(&client, &client, workerman()).await;
    assert_eq!((report.moved(), report.is_complete()), (3, true), "{report}");
    assert_eq!(full.counts().await.unwrap().failed, 3);
}

/// R4's Go twin puts what it has done into its list of failed ones: there may be more than the queue keeps.
#[tokio::test]
async fn a_full_failed_holds_up_no_other_key_and_no_healthy_job() {
    let server = Server::start();
    let client = server.client();
    let queue = client.queue("orders").unwrap();
    queue.keep_failed(1, Duration::from_secs(3600)).await.unwrap();
    send(&server, FAILED, (0..3).map(|number| package(number, "")));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let to = client.clone();
    let following =
        tokio::spawn(
            async move { Bridge::new(&to, &to, thinkphp()).follow(async { drop(stopped.await) }, |_| {}).await },
        );
    for number in 3..6 {
        send(&server, READY, [package(number, "")]);
        support::eventually("it comes over", || async { data(&client, State::Ready).await == orders(3..=number) })
            .await;
    }
    stop.send(()).unwrap();
    let report = following.await.unwrap().unwrap();
    assert_eq!((report.moved(), report.is_complete()), (3, false), "{report}");
    queue.keep_failed(3, Duration::from_secs(3600)).await.unwrap();
    let report = drain(&client, &client, thinkphp()).await;
    assert_eq!((report.moved(), report.is_complete()), (3, true), "{report}");
}
