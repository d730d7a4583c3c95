//! One reserve from several queues.

use std::time::{Duration, Instant};

use crate::support::{Server, eventually};
use duly::{Client, ErrorKind, Millis, NewJob, QueueWeight, ReserveOptions, Selection, When};

fn job() -> NewJob {
    NewJob::new(&1).unwrap()
}

fn queues(client: &Client, names: &[(&str, u32)]) -> Vec<QueueWeight> {
    names.iter().map(|&(name, weight)| QueueWeight::new(client.queue(name).unwrap(), weight)).collect()
}

#[tokio::test]
async fn strict_empties_the_first_queue_first_and_fills_up_from_the_next() {
    let server = Server::start();
    let client = server.client();
    let queues = queues(&client, &[("high", 1), ("low", 1)]);
    for name in ["low", "low", "high"] {
        client.queue(name).unwrap().push(job()).await.unwrap();
    }
    let jobs = client.reserve_from(&queues, Selection::Strict, &ReserveOptions::new().max(2)).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.queue().name()).collect::<Vec<_>>(), ["high", "low"]);
    let jobs = client.reserve_from(&queues, Selection::Strict, &ReserveOptions::new().max(2)).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.queue().name()).collect::<Vec<_>>(), ["low"]);
    jobs[0].ack().await.unwrap();
    assert!(client.reserve_from(&queues, Selection::Strict, &ReserveOptions::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn strict_empties_the_first_queue_also_where_one_call_cannot() {
    let server = Server::start();
    let client = server.client();
    let queues = queues(&client, &[("high", 1), ("low", 1)]);
    client.queue("low").unwrap().push_many((0..1000).map(|_| job()), |_| {}).await.unwrap();

    // More than one call leases.
    client.queue("high").unwrap().push_many((0..700).map(|_| job()), |_| {}).await.unwrap();
    assert_eq!(reserved_from(&client, &queues, 600).await, [("high", 600)]);
    assert_eq!(reserved_from(&client, &queues, 600).await, [("high", 100), ("low", 500)]);

    // More bytes than one reserve gives.
    let large = || NewJob::new(&"x".repeat(1_000_000)).unwrap();
    client.queue("high").unwrap().push_many((0..6).map(|_| large()), |_| {}).await.unwrap();
    assert_eq!(reserved_from(&client, &queues, 10).await, [("high", 5)]);
    assert_eq!(reserved_from(&client, &queues, 10).await, [("high", 1), ("low", 9)]);

    // Nothing but what cannot be decoded.
    client.queue("high").unwrap().push(job().id("broken")).await.unwrap();
    client.queue("high").unwrap().push(job()).await.unwrap();
    server.redis_cli(&["HSET", "duly:{high}:jobs", "broken", "nonsense"]);
    assert_eq!(reserved_from(&client, &queues, 1).await, [("high", 1)]);
}

/// How many jobs of each queue one strict reserve gives, in the order in which they came.
async fn reserved_from<'a>(client: &Client, queues: &'a [QueueWeight], max: usize) -> Vec<(&'a str, usize)> {
    let jobs = client.reserve_from(queues, Selection::Strict, &ReserveOptions::new().max(max)).await.unwrap();
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for job in jobs {
        let name = queues.iter().map(|one| one.queue.name()).find(|name| *name == job.queue().name()).unwrap();
        match counted.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => counted.push((name, 1)),
        }
    }
    counted
}

#[tokio::test]
async fn weights_decide_how_often_a_queue_goes_first() {
    let server = Server::start();
    let client = server.client();
    let queues = queues(&client, &[("a", 3), ("b", 1)]);
    for one in &queues {
        one.queue.push_many((0..400).map(|_| job()), |_| {}).await.unwrap();
    }
    let mut from_a = 0;
    for _ in 0..400 {
        let jobs = client.reserve_from(&queues, Selection::Weighted, &ReserveOptions::new()).await.unwrap();
        from_a += u32::from(jobs[0].queue().name() == "a");
    }
    // 300 expected, standard deviation 8.7.
    assert!((250..=350).contains(&from_a), "{from_a}");
}

#[tokio::test]
async fn a_wait_ends_with_a_push_to_any_queue() {
    let server = Server::start();
    let client = server.client();
    let queues = queues(&client, &[("a", 1), ("b", 1), ("c", 1)]);
    for name in ["c", "a", "b"] {
        let producer = server.queue(name);
        let mut soonest = Duration::MAX;
        for _ in 0..3 {
            let options = wait(20);
            let waits = client.reserve_from(&queues, Selection::Strict, &options);
            let push = async {
                until_somebody_waits(&server, 1).await;
                producer.push(job()).await.unwrap();
                Instant::now()
            };
            let (jobs, pushed) = tokio::join!(waits, push);
            soonest = soonest.min(pushed.elapsed());
            let jobs = jobs.unwrap();
            assert_eq!(jobs[0].queue().name(), name);
            jobs[0].ack().await.unwrap();
        }
        // Who only looks again now and then takes 0.8 s each time.
        assert!(soonest < Duration::from_millis(500), "{name}: {soonest:?}");
    }
}

#[tokio::test]
async fn a_promise_is_given_up_when_another_queue_answers_first() {
    let server = Server::start();
    let client = server.client();
    let queues = queues(&client, &[("a", 1), ("b", 1)]);
    let a = client.queue("a").unwrap();
    let later = a.push(job().delay(Duration::from_secs(3600))).await.unwrap().id().to_owned();
    let options = wait(20);
    let waits = client.reserve_from(&queues, Selection::Strict, &options);
    let producer = server.queue("b");
    let push = async {
        until_somebody_waits(&server, 1).await;
        assert_ne!(server.redis_cli(&["HGET", "duly:{a}:meta", "timer"]).trim(), "");
        producer.push(job()).await.unwrap();
    };
    let (jobs, ()) = tokio::join!(waits, push);
    assert_eq!(jobs.unwrap()[0].queue().name(), "b");
    assert_eq!(server.redis_cli(&["HGET", "duly:{a}:meta", "timer"]).trim(), "");
    a.reschedule(&later, When::After(Millis::ZERO)).await.unwrap();
    let late = client.reserve_from(&queues, Selection::Strict, &wait(20)).await.unwrap();
    assert_eq!(late[0].queue().name(), "a");
}

#[tokio::test]
async fn an_error_of_one_queue_costs_the_others_neither_promises_nor_wake_ups() {
    let server = Server::start();
    let client = server.client();
    let both = queues(&client, &[("a", 1), ("b", 1)]);
    let options = wait(20);

    // Waiting is not possible at `b`: what was promised at `a` is given up.
    client.queue("a").unwrap().push(job().delay(Duration::from_secs(60))).await.unwrap();
    server.redis_cli(&["SET", "duly:{b}:wake", "foreign"]);
    let error = client.reserve_from(&both, Selection::Strict, &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(server.redis_cli(&["HGET", "duly:{a}:meta", "timer"]).trim(), "");

    // A wake-up was taken at `c`, which then cannot be read: it is left for somebody else.
    let alone = queues(&client, &[("c", 1)]);
    let waits = client.reserve_from(&alone, Selection::Strict, &options);
    let breaks = async {
        until_somebody_waits(&server, 1).await;
        server.redis_cli(&["SET", "duly:{c}:jobs", "foreign"]);
        server.redis_cli(&["LPUSH", "duly:{c}:wake", "1"]);
    };
    let (error, ()) = tokio::join!(waits, breaks);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(server.redis_cli(&["LLEN", "duly:{c}:wake"]).trim(), "1");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let server = Server::start();
    let client = server.client();
    let now = ReserveOptions::new();
    for queues in
        [vec![], queues(&client, &[("a", 0)]), queues(&client, &[("a", 1001)]), queues(&server.client(), &[("a", 1)])]
    {
        let refused = client.reserve_from(&queues, Selection::Weighted, &now).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
}

fn wait(seconds: u64) -> ReserveOptions {
    ReserveOptions::new().wait(Duration::from_secs(seconds))
}

/// Until so many connections are blocked.
async fn until_somebody_waits(server: &Server, count: usize) {
    let blocked = format!("blocked_clients:{count}");
    eventually("somebody waits", async || server.redis_cli(&["INFO", "clients"]).contains(&blocked)).await;
}

#[tokio::test]
async fn a_split_queue_has_the_weight_of_one_and_its_parts_take_turns() {
    let server = Server::start();
    let client = server.client();
    let (split, plain) = (client.partitioned_queue("split", 4).unwrap(), client.queue("plain").unwrap());
    for queue in [&split, &plain] {
        queue.push_many((0..200).map(|_| job()), |_| {}).await.unwrap();
    }
    let queues = [QueueWeight::new(split, 1), QueueWeight::new(plain, 1)];
    let mut names = Vec::new();
    for selection in [Selection::Weighted, Selection::Strict] {
        for _ in 0..100 {
            let jobs = client.reserve_from(&queues, selection, &ReserveOptions::new()).await.unwrap();
            names.push(jobs[0].queue().name().to_owned());
        }
    }
    // A fair coin gives fewer than 30 of 100 once in 60,000 times; a weight for each part would give 20.
    let of_plain = names[..100].iter().filter(|name| *name == "plain").count();
    assert!((30..=70).contains(&of_plain), "{of_plain} of 100");
    let mut of_parts = names.split_off(100);
    of_parts.sort();
    of_parts.dedup();
    assert_eq!(of_parts, ["split/0", "split/1", "split/2", "split/3"]);
}
