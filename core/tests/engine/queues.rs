//! The list of queues, and queues that are deleted.

use std::time::Duration;

use duly::{Client, ErrorKind, Millis, NewJob, QueueInfo, ReserveOptions};
use serde_json::json;

use super::support::proxy::{Fault, Proxy};
use super::support::{Server, eventually};

async fn names(client: &Client) -> Vec<String> {
    client.queues(1000, None).await.unwrap().queues.into_iter().map(|queue| queue.name).collect()
}

async fn push(client: &Client, queue: &str) {
    client.queue(queue).unwrap().push(NewJob::new(&json!(1)).unwrap()).await.unwrap();
}

#[tokio::test]
async fn an_error_about_all_queues_names_none() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    drop(server);
    let error = client.queues(10, None).await.unwrap_err();
    assert_eq!(error.queue(), None);
    assert!(error.to_string().starts_with("queues: connection to "), "{error}");
}

#[tokio::test]
async fn queues_are_listed_by_name_in_pages() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    for number in (0..25).rev() {
        push(&client, &format!("q{number:02}")).await;
    }
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.queues(10, cursor.as_deref()).await.unwrap();
        assert!(page.queues.len() <= 10);
        found.extend(page.queues.into_iter().map(|queue| queue.name));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..25).map(|number| format!("q{number:02}")).collect();
    assert_eq!(found, expected);
    let other = server.builder().prefix("other:").build().unwrap();
    assert!(names(&other).await.is_empty(), "each prefix has a list of its own");
}

#[tokio::test]
async fn a_queue_is_listed_by_whoever_waits_for_its_jobs() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    client.queue("worked").unwrap().reserve(&ReserveOptions::new()).await.unwrap();
    client.queue("looked-at").unwrap().counts().await.unwrap();
    assert_eq!(names(&client).await, ["worked"]);
}

#[tokio::test]
async fn a_partitioned_queue_is_listed_once_beside_one_of_the_same_name() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    push(&client, "orders").await;
    let partitioned = client.partitioned_queue("orders", 4).unwrap();
    partitioned.push_batch((0..20).map(|number| NewJob::new(&number).unwrap()).collect()).await.unwrap();
    let listed = |queues: &[QueueInfo]| queues.iter().map(|q| (q.name.clone(), q.partitions)).collect::<Vec<_>>();
    let both = [("orders".to_owned(), 0), ("orders".to_owned(), 4)];
    assert_eq!(listed(&client.queues(10, None).await.unwrap().queues), both);
    let fewer = server.builder().build().unwrap();
    fewer.partitioned_queue("orders", 2).unwrap().push(NewJob::new(&1).unwrap()).await.unwrap();
    assert_eq!(listed(&fewer.queues(10, None).await.unwrap().queues), both, "the larger number stays");
    assert_eq!(partitioned.delete(3).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    partitioned.delete(21).await.unwrap();
    assert_eq!(listed(&client.queues(10, None).await.unwrap().queues), both[..1]);
    assert_eq!(client.queue("orders").unwrap().counts().await.unwrap().ready, 1);
}

#[tokio::test]
async fn a_queue_that_is_empty_and_was_not_used_for_thirty_days_is_forgotten() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    for queue in ["empty", "full", "recent", "scheduled"] {
        push(&client, queue).await;
        if queue != "full" {
            client.queue(queue).unwrap().purge(duly::State::Ready).await.unwrap();
        }
    }
    let job = NewJob::new(&1).unwrap();
    let schedule = duly::Schedule::cron("0 0 1 1 *", job).unwrap();
    client.queue("scheduled").unwrap().schedules().put("a", &schedule).await.unwrap();
    assert_eq!(names(&client).await.len(), 4);
    for queue in ["empty", "full", "scheduled"] {
        server.redis_cli(&["HSET", "duly:{queues}:queues_used", queue, "1000 0"]);
    }
    assert_eq!(names(&client).await, ["full", "recent", "scheduled"]);
    assert_eq!(names(&client).await, ["full", "recent", "scheduled"]);
    assert_eq!(server.redis_cli(&["HLEN", "duly:{queues}:queues_used"]).trim(), "3");
}

#[tokio::test]
async fn a_list_that_cannot_be_written_stops_no_queue() {
    let server = Server::start();
    server.redis_cli(&["SET", "duly:{queues}:queues", "somebody's"]);
    let client = server.builder().build().unwrap();
    push(&client, "orders").await;
    assert_eq!(client.queue("orders").unwrap().counts().await.unwrap().ready, 1);
    assert_eq!(client.queues(10, None).await.unwrap_err().kind(), ErrorKind::Corrupt);
    server.redis_cli(&["DEL", "duly:{queues}:queues"]);
    // Another client lists it at its first call; this one a few minutes later.
    let other = server.builder().build().unwrap();
    push(&other, "orders").await;
    assert_eq!(names(&client).await, ["orders"]);
}

#[tokio::test]
async fn a_deleted_queue_leaves_nothing_behind_but_memories_with_a_lifetime() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    let queue = client.queue("orders").unwrap();
    let limits = duly::Limits::new().concurrency(1).name("n", duly::NameLimits::new().concurrency(1));
    queue.set_limits(&limits).await.unwrap();
    for (priority, key) in [(2, "a"), (5, "b"), (9, "c")] {
        let job = NewJob::new(&1).unwrap().name("n").priority(priority).key(key).max_retries(0);
        queue.push(job).await.unwrap();
    }
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    job.settle(duly::Outcome::FailNow, "no").await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap();
    queue.delete(3).await.unwrap();
    let left = || async { server.redis_cli(&["KEYS", "duly:*"]) };
    eventually("nothing is left but the memory", || async {
        left().await.lines().all(|key| key.starts_with("duly:{orders}:call:"))
    })
    .await;
    assert!(names(&client).await.is_empty());
}

#[tokio::test]
async fn a_full_server_says_what_is_in_a_queue_and_deletes_it() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    push(&client, "orders").await;
    assert_eq!(names(&client).await, ["orders"]);
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let queue = client.queue("orders").unwrap();
    let error = queue.delete(2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    queue.delete(1).await.unwrap();
    assert_eq!(queue.counts().await.unwrap().ready, 0);
}

#[tokio::test]
async fn a_queue_is_listed_again_when_its_client_hears_that_the_server_has_lost_its_data() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    push(&client, "orders").await;
    assert_eq!(names(&client).await, ["orders"]);
    server.redis_cli(&["FLUSHALL"]);
    push(&client, "orders").await;
    assert_eq!(names(&client).await, ["orders"]);
}

#[tokio::test]
async fn a_queue_into_which_nobody_can_look_hides_no_other() {
    let server = Server::start();
    let client = server.builder().build().unwrap();
    for queue in ["broken", "used"] {
        push(&client, queue).await;
    }
    assert_eq!(names(&client).await, ["broken", "used"]);
    server.redis_cli(&["HSET", "duly:{queues}:queues_used", "broken", "1000 0"]);
    server.redis_cli(&["SET", "duly:{broken}:jobs", "somebody's"]);
    assert_eq!(names(&client).await, ["broken", "used"]);
}

/// Else its client would spare the leases of dead workers, as behind an outage of the server, each time that it lists a queue.
#[tokio::test]
async fn a_list_that_its_user_may_not_write_is_no_outage() {
    let server = Server::start();
    let rules = ["ACL", "SETUSER", "u", "on", ">s3cr3t", "~duly:{orders}:*", "~duly:session:*", "&*", "+@all"];
    server.redis_cli(&rules);
    let client = server.builder().username("u").password("s3cr3t").build().unwrap();
    push(&client, "orders").await;
    let others = server.queue("orders");
    others.reserve(&ReserveOptions::new().lease(Duration::from_millis(100))).await.unwrap().remove(0);
    // Behind the call that was to list the queue.
    assert_eq!(client.queues(10, None).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(client.topic("news").unwrap().publish(&1).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    eventually("the lease is over", || async {
        others.counts().await.unwrap().next_lease_end_in == Some(Millis::ZERO)
    })
    .await;
    assert_eq!(client.queue("orders").unwrap().reserve(&ReserveOptions::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_partitioned_queue_that_changes_while_it_is_deleted_says_what_is_left() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    let put =
        |part: &str, id: &str| server.redis_cli(&["HSET", &format!("duly:{{orders/{part}}}:jobs"), id, "a record"]);
    for part in ["0", "1", "2"] {
        put(part, "a");
    }
    let queue = client.partitioned_queue("orders", 3).unwrap();
    // The server knows the script by now: each look is one call. Held is the answer of that into the last part.
    queue.delete(9).await.unwrap_err();
    proxy.next_after(2, Fault::HoldReply);
    let deletes = tokio::spawn({
        let queue = queue.clone();
        async move { queue.delete(3).await }
    });
    proxy.happened().await;
    put("2", "b");
    proxy.deliver().await;
    let error = deletes.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    assert!(text.contains("has 2 jobs") && text.contains("2 of its parts were removed"), "{text}");
    queue.delete(2).await.unwrap();
    assert_eq!(server.redis_cli(&["EXISTS", "duly:{orders/2}:jobs"]).trim(), "0");
}

#[tokio::test]
async fn a_partitioned_queue_that_is_deleted_in_part_says_which_part_is_gone() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().deadline(Duration::from_secs(1)).fail_fast(false).build().unwrap();
    let queue = client.partitioned_queue("orders", 3).unwrap();
    for part in ["0", "1", "2"] {
        server.redis_cli(&["HSET", &format!("duly:{{orders/{part}}}:jobs"), "a", "a record"]);
    }
    client.ping().await.unwrap();
    // What counts has no such key.
    proxy.only(b"{orders/1}:rates");
    proxy.next(Fault::LoseRequest);
    let error = queue.delete(3).await.unwrap_err();
    proxy.happened().await;
    proxy.reopen();
    assert!(error.is_partly_done(), "{error}");
    assert!(error.to_string().contains("one of its parts was removed before that, with its jobs"), "{error}");
    assert_eq!(server.redis_cli(&["EXISTS", "duly:{orders/0}:jobs", "duly:{orders/1}:jobs"]).trim(), "1");
}
