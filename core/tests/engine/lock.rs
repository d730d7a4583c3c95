//! Locks: one holder at a time, whatever is late, lost or dead.

use std::time::Duration;

use crate::support::meter::Meter;
use crate::support::proxy::{Fault, Proxy};
use crate::support::{self, Server};
use duly::{Client, ErrorKind, Lock, LockOptions};

const MINUTE: Duration = Duration::from_secs(60);

fn ttl(ms: u64) -> LockOptions {
    LockOptions::new().ttl(Duration::from_millis(ms))
}

/// What waits as long as a test may take.
fn waits() -> LockOptions {
    LockOptions::new().wait(MINUTE)
}

async fn take(client: &Client) -> Lock {
    client.lock("a", &LockOptions::new()).await.unwrap()
}

async fn is_taken(client: &Client) -> bool {
    match client.lock("a", &LockOptions::new()).await {
        Ok(lock) => !lock.release().await.unwrap(),
        Err(error) => error.kind() == ErrorKind::Locked,
    }
}

/// Holds it as a process does that has died.
fn hold_dead(server: &Server, ms: u64) {
    let until = (server.clock() / 1000 + ms).to_string();
    let held = ["HSET", "duly:{a}:lock", "owner", "0123456789abcdef", "token", "7", "until", &until, "ttl"];
    server.redis_cli(&[&held[..], &[&ms.to_string()]].concat());
}

#[tokio::test]
async fn a_release_that_is_dropped_before_it_was_polled_gives_it_up() {
    let server = Server::start();
    let lock = server.client().lock("a", &LockOptions::new().ttl(Duration::from_secs(600))).await.unwrap();
    drop(lock.release());
    assert!(!lock.is_held());
    let next = server.client().lock("a", &LockOptions::new().wait(Duration::from_secs(60))).await.unwrap();
    assert!(next.release().await.unwrap() && !lock.release().await.unwrap());
}

#[tokio::test]
async fn one_holds_it_and_its_successor_has_a_greater_token() {
    let server = Server::start();
    let (first, second) = (server.client(), server.client());
    let lock = take(&first).await;
    assert!(lock.is_held() && lock.name() == "a");
    let refused = second.lock("a", &LockOptions::new()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    let text = refused.to_string();
    assert!(text.starts_with("lock 'a': another one holds it") && refused.queue().is_none(), "{text}");
    second.lock("b", &LockOptions::new()).await.unwrap().release().await.unwrap();
    assert!(lock.release().await.unwrap());
    assert!(!lock.is_held() && !lock.release().await.unwrap());
    let next = take(&second).await;
    assert!(next.token() > lock.token());
    drop(next);
    support::eventually("a dropped lock is given up", || async { !is_taken(&first).await }).await;
}

#[tokio::test]
async fn what_is_no_name_and_no_time_is_refused_before_it_is_sent() {
    let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
    for name in ["", "a b", "a}", "a/b", &"a".repeat(129)] {
        let refused = client.lock(name, &LockOptions::new()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name}");
    }
    for wrong in [Duration::ZERO, Duration::from_millis(99), Duration::from_secs(24 * 3600 + 1)] {
        let refused = client.lock("a", &LockOptions::new().ttl(wrong)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{wrong:?}");
    }
}

#[tokio::test]
async fn who_waits_is_woken_and_does_not_ask_again_and_again() {
    let server = Server::start();
    let mut meter = Meter::of(&server);
    let lock = take(&server.client()).await;
    let waiting = server.client();
    let waiter = tokio::spawn(async move { waiting.lock("a", &waits()).await.unwrap() });
    meter.until("it waits", |meter| meter.blocked() == 1).await;
    let asked = meter.calls("hmget");
    lock.release().await.unwrap();
    let next = waiter.await.unwrap();
    // The release, the look behind the wake-up, and perhaps one that fell between.
    assert!(meter.calls("hmget") - asked <= 3);
    assert!(next.token() > lock.token());
}

#[tokio::test]
async fn the_lock_of_a_dead_holder_is_free_when_its_time_is_over() {
    let server = Server::start();
    hold_dead(&server, 1500);
    let client = server.client();
    assert!(is_taken(&client).await);
    let lock = client.lock("a", &waits()).await.unwrap();
    assert!(lock.token() > 7 && lock.is_held());
}

#[tokio::test]
async fn a_clock_that_is_set_back_makes_no_lock_longer() {
    let server = Server::start();
    hold_dead(&server, 1500);
    let in_an_hour = server.redis_cli(&["HGET", "duly:{a}:lock", "until"]).trim().parse::<u64>().unwrap() + 3_600_000;
    server.redis_cli(&["HSET", "duly:{a}:lock", "until", &in_an_hour.to_string()]);
    drop(server.client().lock("a", &waits()).await.unwrap());
}

/// In the runtime of the test nothing runs meanwhile.
#[tokio::test]
async fn it_is_renewed_while_the_program_is_busy() {
    let server = Server::start();
    let lock = server.client().lock("a", &ttl(300)).await.unwrap();
    let ends = || server.redis_cli(&["HGET", "duly:{a}:lock", "until"]);
    let mut seen = vec![ends()];
    while seen.len() < 6 {
        std::thread::sleep(Duration::from_millis(2));
        let end = ends();
        if seen.last() != Some(&end) {
            seen.push(end);
        }
    }
    assert!(lock.is_held(), "{seen:?}");
    assert!(is_taken(&server.client()).await);
    assert!(lock.release().await.unwrap());
}

#[tokio::test]
async fn who_has_lost_it_knows_and_leaves_the_next_holder_alone() {
    let server = Server::start();
    let lock = server.client().lock("a", &ttl(1500)).await.unwrap();
    server.redis_cli(&["DEL", "duly:{a}:lock"]);
    let next = take(&server.client()).await;
    assert!(next.token() > lock.token());
    tokio::time::timeout(MINUTE, lock.lost()).await.unwrap();
    assert!(!lock.is_held() && !lock.release().await.unwrap());
    drop(lock);
    assert!(is_taken(&server.client()).await && next.release().await.unwrap());
}

#[tokio::test]
async fn a_lock_is_lost_when_the_server_is_silent_for_its_time_to_live() {
    let server = Server::start();
    let lock = server.client().lock("a", &ttl(400)).await.unwrap();
    server.signal("-STOP");
    tokio::time::timeout(MINUTE, lock.lost()).await.unwrap();
    assert!(!lock.is_held());
    server.signal("-CONT");
    // It is given up as soon as the server answers, or its time to live is over.
    drop(server.client().lock("a", &waits()).await.unwrap());
}

#[tokio::test]
async fn a_call_whose_answer_is_lost_is_sent_again_and_finds_what_it_has_done() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.next_after(0, Fault::LoseReply);
    let lock = take(&client).await;
    proxy.happened().await;
    let token = server.redis_cli(&["HGET", "duly:{a}:lock", "token"]);
    assert_eq!(token.trim(), lock.token().to_string());
    proxy.only(b"lock_wake");
    proxy.next_after(0, Fault::LoseReply);
    assert!(lock.release().await.unwrap(), "it was held until it was released");
    proxy.happened().await;
    assert!(!is_taken(&server.client()).await);
}

#[tokio::test]
async fn a_late_copy_takes_no_lock_for_who_has_given_it_up() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.next_after(0, Fault::HoldRequest);
    let lock = take(&client).await;
    proxy.happened().await;
    lock.release().await.unwrap();
    proxy.deliver().await;
    assert!(!is_taken(&server.client()).await);
}

/// Its first copy comes when the lock is free again.
#[tokio::test]
async fn a_late_copy_takes_no_lock_for_who_was_told_that_it_is_taken() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    let held = take(&server.client()).await;
    proxy.next_after(0, Fault::HoldRequest);
    assert_eq!(client.lock("a", &LockOptions::new()).await.unwrap_err().kind(), ErrorKind::Locked);
    proxy.happened().await;
    held.release().await.unwrap();
    proxy.deliver().await;
    assert!(!is_taken(&server.client()).await);
}

#[tokio::test]
async fn an_answer_that_comes_when_the_time_to_live_is_over_is_no_lock() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.next_after(0, Fault::HoldReply);
    let asked = tokio::spawn(async move { client.lock("a", &ttl(100)).await });
    proxy.happened().await;
    let second = server.client().lock("a", &waits()).await.unwrap();
    proxy.deliver().await;
    assert_eq!(asked.await.unwrap().unwrap_err().kind(), ErrorKind::Locked);
    assert!(second.is_held() && second.release().await.unwrap());
    assert!(!is_taken(&server.client()).await);
}

#[tokio::test]
async fn a_wait_ends_when_its_time_is_over() {
    let server = Server::start();
    let lock = take(&server.client()).await;
    let began = std::time::Instant::now();
    let wait = LockOptions::new().wait(Duration::from_millis(300));
    assert_eq!(server.client().lock("a", &wait).await.unwrap_err().kind(), ErrorKind::Locked);
    assert!((Duration::from_millis(300)..MINUTE).contains(&began.elapsed()));
    assert!(lock.release().await.unwrap());
}

#[tokio::test]
async fn a_call_that_got_no_answer_is_given_up_in_the_background() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let deadline = Duration::from_millis(300);
    let client = proxy.builder().deadline(deadline).command_timeout(deadline).build().unwrap();
    client.ping().await.unwrap();
    proxy.next_after(0, Fault::HoldReply);
    assert_eq!(client.lock("a", &LockOptions::new()).await.unwrap_err().kind(), ErrorKind::Timeout);
    support::eventually("it is given up", || async { !is_taken(&server.client()).await }).await;
}

#[tokio::test]
async fn a_release_that_is_dropped_or_refused_goes_on_in_the_background() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    let lock = take(&client).await;
    proxy.only(b"lock_wake");
    proxy.next_after(0, Fault::HoldReply);
    tokio::select! {
        _ = lock.release() => panic!("it is held back"),
        () = proxy.happened() => {}
    }
    assert!(!lock.is_held() && !lock.release().await.unwrap());
    support::eventually("it is given up", || async { !is_taken(&server.client()).await }).await;

    let client = server.client();
    let lock = take(&client).await;
    client.close().await;
    assert!(lock.is_held() && lock.release().await.unwrap(), "its connections are its own");
    assert!(!lock.release().await.unwrap() && !is_taken(&server.client()).await);
}

#[tokio::test]
async fn a_holder_outlives_a_broken_connection() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let lock = proxy.builder().build().unwrap().lock("a", &ttl(3000)).await.unwrap();
    let end = || server.redis_cli(&["HGET", "duly:{a}:lock", "until"]);
    proxy.only(b"3000");
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        proxy.next_after(0, fault);
        proxy.happened().await;
        let before = end();
        support::eventually("it is renewed", || async { end() != before }).await;
        assert!(lock.is_held());
    }
    assert!(lock.release().await.unwrap());
}

#[tokio::test]
async fn who_gives_up_waiting_holds_nothing() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.next_after(0, Fault::HoldReply);
    let asking = client.clone();
    let asked = tokio::spawn(async move { asking.lock("a", &LockOptions::new()).await });
    proxy.happened().await;
    support::eventually("it is taken", || async { is_taken(&server.client()).await }).await;
    asked.abort();
    support::eventually("it is given up", || async { !is_taken(&server.client()).await }).await;
}

#[tokio::test]
async fn nothing_of_a_lock_stays_for_ever() {
    let server = Server::start();
    let lock = take(&server.client()).await;
    let lives = |key: &str| server.redis_cli(&["PTTL", key]).trim().parse::<i64>().unwrap();
    assert!((60_000..=90_000).contains(&lives("duly:{a}:lock")));
    lock.release().await.unwrap();
    assert!((1..=60_000).contains(&lives("duly:{a}:lock")) && lives("duly:{a}:lock_wake") <= 3000);
    let keys = server.redis_cli(&["KEYS", "*"]);
    assert_eq!(keys.lines().count(), 2, "{keys}");
}

#[tokio::test]
async fn a_full_server_lets_holders_renew_and_release() {
    let server = Server::start();
    let lock = server.client().lock("a", &ttl(300)).await.unwrap();
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let end = server.redis_cli(&["HGET", "duly:{a}:lock", "until"]);
    support::eventually("it is renewed", || async { server.redis_cli(&["HGET", "duly:{a}:lock", "until"]) != end })
        .await;
    let refused = server.client().lock("b", &LockOptions::new()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert!(lock.is_held() && lock.release().await.unwrap());
}

#[tokio::test]
async fn what_another_program_left_under_its_key_is_named() {
    let server = Server::start();
    server.redis_cli(&["SET", "duly:{a}:lock", "x"]);
    let refused = server.client().lock("a", &LockOptions::new()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.to_string().contains("'duly:{a}:lock' holds a string"), "{refused}");
    server.redis_cli(&["DEL", "duly:{a}:lock"]);
    server.redis_cli(&["SET", "duly:{a}:lock_wake", "x"]);
    assert!(take(&server.client()).await.release().await.unwrap());
}

#[tokio::test]
async fn a_claim_is_that_of_one_until_its_time_is_over_or_it_is_taken_back() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let (client, other) = (proxy.builder().build().unwrap(), server.client());
    client.ping().await.unwrap();
    assert_eq!(client.claim("no name", MINUTE).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // The call is sent again, and finds what it has done.
    proxy.next_after(0, Fault::LoseReply);
    let claim = client.claim("a", MINUTE).await.unwrap().expect("nobody had it");
    proxy.happened().await;
    assert!(other.claim("a", MINUTE).await.unwrap().is_none() && is_taken(&other).await);
    claim.take_back().await;
    // Nobody renews it, and nobody gives it up when it is dropped.
    drop(other.claim("a", Duration::from_millis(500)).await.unwrap().expect("it was taken back"));
    assert!(other.claim("a", MINUTE).await.unwrap().is_none());
    support::eventually("its time is over", || async { !is_taken(&other).await }).await;
}

#[tokio::test]
async fn who_gives_up_a_claim_before_its_answer_claims_nothing() {
    let server = Server::start();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    proxy.next_after(0, Fault::HoldReply);
    let asking = client.clone();
    let asked = tokio::spawn(async move { asking.claim("a", MINUTE).await });
    proxy.happened().await;
    support::eventually("it is claimed", || async { is_taken(&server.client()).await }).await;
    asked.abort();
    support::eventually("it is taken back", || async { !is_taken(&server.client()).await }).await;
}
