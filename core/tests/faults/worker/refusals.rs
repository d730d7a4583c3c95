//! What a server refuses: what ends a worker, and what is an outage for one that has worked.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{is_trouble, job, start, until};
use crate::support::Server;
use duly::worker::{Engine, WorkerSettings};
use duly::{Client, Schedule};

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_in_place_of_the_wake_ups_ends_it() {
    let server = Server::start();
    server.redis_cli(&["set", "duly:{orders}:wake", "x"]);
    let worker = start(&server.client(), |worker| worker);
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    assert_eq!(worker.notes.count(is_trouble), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_that_only_schedules_touch_ends_it_too() {
    let server = Server::start();
    let queue = server.queue("orders");
    let every = Schedule::every(Duration::from_secs(1), job("count")).unwrap();
    queue.schedules().put("often", &every).await.unwrap();
    let worker = start(&server.client(), |worker| worker);
    until("it fires", async || worker.notes.runs.load(Ordering::SeqCst) > 0).await;
    server.eval("redis.call('SET', 'duly:{orders}:schedule_due', 'foreign') return {}", &[]);
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("duly:{orders}:schedule_due"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_queues_that_are_waited_for_together_the_one_with_a_foreign_key_is_named() {
    let server = Server::start();
    server.redis_cli(&["set", "duly:{third}:wake", "x"]);
    let worker = start(&server.client(), |worker| worker.queue("second", 1).queue("third", 1).queue("fourth", 1));
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("duly:{third}:wake"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_hears_with_which_error_an_engine_ended() {
    let server = Server::start();
    let client = Client::builder().url(&server.url()).password("wrong").build().unwrap();
    let engine = Engine::start(&client, WorkerSettings::new(vec![("orders".to_owned(), 1)])).unwrap();
    for _ in 0..2 {
        assert_eq!(engine.ended().await.unwrap_err().kind(), duly::ErrorKind::AuthenticationFailed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_ends_it() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(job("count")).await.unwrap();
    let client = Client::builder().url(&server.url()).password("wrong").build().unwrap();
    let worker = start(&client, |worker| worker);
    let error = worker.running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), duly::ErrorKind::AuthenticationFailed, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_was_changed_is_an_outage_for_a_worker_that_has_worked() {
    let server = Server::start();
    server.redis_cli(&["config", "set", "requirepass", "old"]);
    let cli =
        |password: &str, words: &[&str]| server.redis_cli(&[&["-a", password, "--no-auth-warning"], words].concat());
    let client = Client::builder().url(&server.url()).password("old").build().unwrap();
    let queue = Client::builder().url(&server.url()).password("old").build().unwrap().queue("orders").unwrap();
    let worker = start(&client, |worker| worker);
    queue.push(job("count")).await.unwrap();
    until("the first job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 1).await;
    cli("old", &["config", "set", "requirepass", "new"]);
    cli("new", &["client", "kill", "type", "normal"]);
    // Longer than a call of the worker tries: first it says so, and ends only if it does not go on.
    until("it reports", async || worker.notes.count(is_trouble) == 1 || worker.running.is_finished()).await;
    assert!(!worker.running.is_finished(), "it ended");
    let reported = worker.notes.events.lock().unwrap().iter().find(|event| is_trouble(event)).cloned();
    assert!(reported.unwrap().to_string().contains("password"));
    cli("new", &["config", "set", "requirepass", "old"]);
    until("a job is pushed", async || queue.push(job("count")).await.is_ok()).await;
    until("the second job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 2).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_that_were_taken_away_are_an_outage_for_a_worker_that_has_worked() {
    let server = Server::start();
    server.redis_cli(&["acl", "setuser", "u", "on", ">p", "~duly:*", "+@all"]);
    let client = Client::builder().url(&server.url()).username("u").password("p").build().unwrap();
    let queue = server.queue("orders");
    let worker = start(&client, |worker| worker);
    for round in 1..=2 {
        queue.push(job("count")).await.unwrap();
        until("the job runs", async || worker.notes.runs.load(Ordering::SeqCst) == round).await;
        until("it waits", async || server.redis_cli(&["client", "list"]).contains("cmd=blpop")).await;
    }
    server.redis_cli(&["acl", "setuser", "u", "-evalsha", "-eval", "-blpop"]);
    server.redis_cli(&["client", "kill", "user", "u"]);
    until("it reports", async || worker.notes.count(is_trouble) == 1 || worker.running.is_finished()).await;
    assert!(!worker.running.is_finished(), "it ended");
    server.redis_cli(&["acl", "setuser", "u", "+@all"]);
    queue.push(job("count")).await.unwrap();
    until("the third job runs", async || worker.notes.runs.load(Ordering::SeqCst) == 3).await;
    worker.stop().await;
}
