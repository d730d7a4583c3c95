//! Verbs for all jobs of a queue, beside those who go on putting jobs in.

use std::time::Duration;

use crate::support::Server;
use crate::support::proxy::{Fault, Proxy};
use duly::{Error, Filter, Millis, NewJob, Outcome, Queue, ReserveOptions, Settlement, State, When};

async fn push(queue: &Queue, count: usize) {
    let jobs = (0..count).map(|_| NewJob::from_json("1").unwrap());
    queue.push_many(jobs, |_| ()).await.unwrap();
}

/// What a broken handler does: each of so many jobs fails, and is not retried.
async fn fail(queue: &Queue, count: usize) {
    let jobs = queue.reserve(&ReserveOptions::new().max(count)).await.unwrap();
    assert_eq!(jobs.len(), count);
    let all: Vec<_> =
        jobs.iter().map(|job| Settlement { outcome: Outcome::FailNow, ..Settlement::done(job) }).collect();
    assert!(queue.settle_all(&all).await.unwrap().into_iter().all(|settled| settled));
}

#[tokio::test]
async fn a_purge_removes_no_more_than_there_were_when_it_began() {
    let server = Server::start();
    let (proxy, direct) = (Proxy::before(server.port()).await, server.queue("orders"));
    let queue = proxy.builder().build().unwrap().queue("orders").unwrap();
    push(&direct, 1).await;
    assert_eq!(direct.purge(State::Ready).await.unwrap(), 1); // now the server knows the scripts
    push(&direct, 600).await;
    // The second of its three calls has removed 500 when as many come.
    proxy.next_after(1, Fault::HoldReply);
    let purge = tokio::spawn(async move { queue.purge(State::Ready).await });
    proxy.happened().await;
    push(&direct, 500).await;
    proxy.deliver().await;
    assert_eq!(purge.await.unwrap().unwrap(), 600);
    assert_eq!(direct.counts().await.unwrap().ready, 500);
}

#[tokio::test]
async fn an_error_says_how_many_jobs_it_was_done_to_before() {
    let server = Server::start();
    let (proxy, direct) = (Proxy::before(server.port()).await, server.queue("orders"));
    let client = proxy.builder().deadline(Duration::from_secs(1)).fail_fast(false).build().unwrap();
    let queue = client.queue("orders").unwrap();
    // Now the server knows the scripts.
    assert_eq!(queue.promote().await.unwrap() + queue.reclaim().await.unwrap(), 0);
    push(&direct, 1).await;
    fail(&direct, 1).await;
    assert_eq!(queue.requeue_all().await.unwrap() + queue.purge(State::Ready).await.unwrap(), 2);

    let of_error = async |calls: usize, ended: &mut (dyn Future<Output = Result<u64, Error>> + Send + Unpin)| {
        proxy.next_behind(calls, Fault::LoseRequest);
        let error = ended.await.unwrap_err();
        proxy.happened().await;
        proxy.reopen();
        queue.counts().await.unwrap(); // it is connected again
        assert!(error.is_transient() && error.is_partly_done(), "{error}");
        let text = error.to_string();
        text[..text.find(" before that").unwrap()].rsplit_once("; ").unwrap().1.to_owned()
    };
    let delayed = (0..600).map(|_| NewJob::from_json("1").unwrap().delay(Duration::from_millis(1)));
    direct.push_many(delayed, |_| ()).await.unwrap();
    server.let_pass(Duration::from_millis(1)).await;
    assert_eq!(of_error(1, &mut Box::pin(queue.promote())).await, "500 jobs were made ready");
    direct.promote().await.unwrap();

    // Longer than the reserve takes, which would take some back.
    let lease = Duration::from_secs(3);
    assert_eq!(direct.reserve(&ReserveOptions::new().max(600).lease(lease)).await.unwrap().len(), 600);
    server.let_pass(lease).await;
    assert_eq!(of_error(1, &mut Box::pin(queue.reclaim())).await, "500 jobs were taken back");
    direct.reclaim().await.unwrap();

    for _ in 0..3 {
        fail(&direct, 200).await;
    }
    server.let_pass(Duration::from_millis(1)).await;
    assert_eq!(of_error(2, &mut Box::pin(queue.requeue_all())).await, "500 jobs were made ready");
    assert_eq!(direct.requeue_all().await.unwrap(), 100);
    assert_eq!(of_error(2, &mut Box::pin(queue.purge(State::Ready))).await, "500 jobs were removed");
    let asked = queue.extent(State::Ready).await.unwrap();
    assert_eq!(asked.jobs(), 100);
    proxy.next_behind(0, Fault::LoseRequest);
    let error = queue.purge_extent(&asked).await.unwrap_err();
    assert!(!error.is_partly_done(), "{error}");
    proxy.happened().await;
    proxy.reopen();
    queue.counts().await.unwrap();
    // It looks how many there are before.
    proxy.next_behind(0, Fault::LoseRequest);
    let error = queue.purge(State::Ready).await.unwrap_err();
    assert!(error.operation() == Some("purge") && !error.is_partly_done(), "{error}");
}

/// Those that stay in `failed`, as their key belongs to another job, are removed by somebody else meanwhile.
#[tokio::test]
async fn no_failed_job_is_passed_over_while_others_leave_before_it() {
    let server = Server::start();
    let (proxy, direct) = (Proxy::before(server.port()).await, server.queue("orders"));
    let queue = proxy.builder().build().unwrap().queue("orders").unwrap();
    push(&direct, 1).await;
    fail(&direct, 1).await;
    assert_eq!(direct.requeue_all().await.unwrap() + direct.purge(State::Ready).await.unwrap(), 2); // now the server knows the scripts
    let keyed = |n: usize| NewJob::from_json("1").unwrap().key(format!("k{n}"));
    direct.push_many((0..500).map(keyed), |_| ()).await.unwrap();
    fail(&direct, 500).await;
    direct.push_many((0..500).map(keyed), |_| ()).await.unwrap();
    let taken = direct.reserve(&ReserveOptions::new().max(500).lease(Duration::from_secs(3600))).await.unwrap();
    push(&direct, 800).await;
    for _ in 0..4 {
        fail(&direct, 200).await;
    }
    server.let_pass(Duration::from_millis(1)).await; // it is past their moment
    let stay = direct.peek(State::Failed, 0, 500).await.unwrap();
    // Its second call tries to run the first 500 again.
    proxy.next_after(1, Fault::HoldReply);
    let requeue = tokio::spawn(async move { queue.requeue_all().await });
    proxy.happened().await;
    for job in &stay {
        assert!(direct.cancel(&job.envelope.id).await.unwrap().is_some());
    }
    proxy.deliver().await;
    assert_eq!((requeue.await.unwrap().unwrap(), taken.len()), (800, 500));
    assert_eq!((direct.counts().await.unwrap().ready, direct.counts().await.unwrap().failed), (800, 0));
}

#[tokio::test]
async fn what_fails_anew_is_not_sent_round_again_by_the_same_call() {
    let server = Server::start();
    let (proxy, direct) = (Proxy::before(server.port()).await, server.queue("orders"));
    let queue = proxy.builder().build().unwrap().queue("orders").unwrap();
    push(&direct, 1).await;
    fail(&direct, 1).await;
    assert_eq!(direct.requeue_all().await.unwrap(), 1); // now the server knows the scripts
    push(&direct, 599).await;
    for _ in 0..3 {
        fail(&direct, 200).await;
    }
    server.let_pass(Duration::from_millis(1)).await; // it is past their moment
    // 500 are ready again after its second call, and fail.
    proxy.next_after(1, Fault::HoldReply);
    let requeue = tokio::spawn(async move { queue.requeue_all().await });
    proxy.happened().await;
    fail(&direct, 250).await;
    fail(&direct, 250).await;
    proxy.deliver().await;
    assert_eq!(requeue.await.unwrap().unwrap(), 600);
    assert_eq!((direct.counts().await.unwrap().ready, direct.counts().await.unwrap().failed), (100, 500));
}

#[tokio::test]
async fn large_jobs_are_sent_round_again_a_few_at_a_time() {
    let server = Server::start();
    let queue = server.queue("orders");
    let data = format!("\"{}\"", "x".repeat(900_000));
    let ids: Vec<String> = (0..12).map(|number| format!("j{number}")).collect();
    for id in &ids {
        queue.push(NewJob::from_json(data.as_str()).unwrap().id(id).key(id)).await.unwrap();
    }
    for _ in 0..3 {
        fail(&queue, 4).await;
    }
    let requeued = queue.requeue(&[&ids[..], &["none".to_owned()]].concat()).await.unwrap();
    assert!(requeued[..12].iter().all(|outcome| *outcome == duly::Requeued::Ready), "{requeued:?}");
    assert_eq!(requeued[12], duly::Requeued::Absent);
    assert_eq!(queue.purge(State::Ready).await.unwrap(), 12);
    assert_eq!(queue.push(NewJob::from_json("1").unwrap().key("j11")).await.unwrap().id().len(), 16);
}

#[tokio::test]
async fn jobs_that_match_and_are_sent_round_again_are_counted_beside_an_error() {
    let server = Server::start();
    let (proxy, direct) = (Proxy::before(server.port()).await, server.queue("orders"));
    let client = proxy.builder().deadline(Duration::from_millis(500)).fail_fast(false).build().unwrap();
    let queue = client.queue("orders").unwrap();
    let data = format!("\"{}\"", "x".repeat(900_000));
    for _ in 0..3 {
        for _ in 0..4 {
            direct.push(NewJob::from_json(data.as_str()).unwrap()).await.unwrap();
        }
        fail(&direct, 4).await;
    }
    let mut found = queue.matching(State::Failed, Filter::new()).unwrap();
    while found.look().await.unwrap() {}
    assert_eq!(direct.requeue(&["none".to_owned()]).await.unwrap(), [duly::Requeued::Absent]); // now the server knows the script
    proxy.next_behind(1, Fault::LoseRequest);
    let first = found.requeue().await.unwrap();
    assert_eq!((first + found.len() as u64, found.is_empty()), (12, false));
    assert!(found.requeue().await.unwrap_err().is_transient());
    proxy.reopen();
    let mut requeued = first;
    while !found.is_empty() {
        requeued += found.requeue().await.unwrap();
    }
    assert_eq!((requeued, direct.counts().await.unwrap().ready), (12, 12));
}

#[tokio::test]
async fn jobs_that_match_and_are_moved_are_counted_beside_one_that_cannot_be() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 1).await; // the first of the list leaves no entry behind
    let job = |id: &str| NewJob::from_json("1").unwrap().id(id).name("mail");
    queue.push_batch(["a", "b", "c"].map(job).into()).await.unwrap();
    let mut found = queue.matching(State::Ready, Filter::new().name("mail")).unwrap();
    while found.look().await.unwrap() {}
    // To this nothing can be added.
    server.redis_cli(&["HSET", "duly:{orders}:stale", "5:b", "x"]);
    let later = When::After(Millis::from_secs(3600));
    assert_eq!((found.reschedule(later).await.unwrap(), found.len()), (2, 1));
    found.reschedule(later).await.unwrap_err();
    assert_eq!(found.ids().collect::<Vec<_>>(), ["b"]);
    server.redis_cli(&["HDEL", "duly:{orders}:stale", "5:b"]);
    assert_eq!((found.reschedule(later).await.unwrap(), found.is_empty()), (1, true));
    assert_eq!(queue.counts().await.unwrap().delayed, 3);
}

#[tokio::test]
async fn a_reserved_job_whose_lease_is_renewed_is_looked_at_once() {
    let server = Server::start();
    let queue = server.queue("orders");
    push(&queue, 3).await;
    let jobs = queue.reserve(&ReserveOptions::new().max(3).lease(Duration::from_secs(30))).await.unwrap();
    let mut found = queue.matching(State::Reserved, Filter::new()).unwrap();
    assert!(found.look().await.unwrap());
    assert_eq!((found.looked_at(), found.len()), (3, 3));
    jobs[1].extend(Duration::from_secs(60)).await.unwrap();
    push(&queue, 1).await;
    queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(60))).await.unwrap();
    while found.look().await.unwrap() {}
    assert_eq!((found.looked_at(), found.len()), (4, 4));
}

/// How many scripts the server has run.
fn script_calls(server: &Server) -> u64 {
    let line = |info: &str, name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":calls=").map(str::to_owned));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    };
    let info = server.redis_cli(&["INFO", "commandstats"]);
    line(&info, "cmdstat_evalsha") + line(&info, "cmdstat_eval")
}

#[tokio::test]
async fn large_outcomes_are_told_a_few_megabytes_at_a_time() {
    let server = Server::start();
    let queue = server.queue("orders");
    let jobs = (0..12).map(|_| NewJob::from_json("1").unwrap().result_ttl(Duration::from_secs(60)));
    queue.push_many(jobs, |_| ()).await.unwrap();
    let jobs = queue.reserve(&ReserveOptions::new().max(12)).await.unwrap();
    let result = duly::Data::from_json(format!("\"{}\"", "x".repeat(900_000)).into_bytes(), 1 << 20).unwrap();
    let all: Vec<_> =
        jobs.iter().map(|job| Settlement { result: Some(result.clone()), ..Settlement::done(job) }).collect();
    let before = script_calls(&server);
    assert_eq!(queue.settle_all(&all).await.unwrap(), [true; 12]);
    assert!(script_calls(&server) - before >= 3, "11 MB in one call");
}

/// As a failover to a server does whose clock is behind: what has failed then is no later than what fails now.
#[tokio::test]
async fn a_clock_that_is_set_back_hides_no_failed_job_and_lets_none_go_before_older_ones() {
    let server = Server::start();
    let queue = server.builder().manual_clock().build().unwrap().queue("orders").unwrap();
    let at = Millis::from_secs(1_800_000_000);
    queue.set_clock(at).await.unwrap();
    queue.keep_failed(5, Duration::from_secs(86_400)).await.unwrap();
    push(&queue, 5).await;
    fail(&queue, 5).await;
    queue.set_clock(Millis::from_secs(1_800_000_000 - 3600)).await.unwrap();
    let new = queue.push(NewJob::from_json("2").unwrap()).await.unwrap().id().to_owned();
    fail(&queue, 1).await;
    let found = queue.find(&new).await.unwrap().expect("the oldest one goes, and not the new one");
    assert_eq!((found.job.state, found.job.at), (State::Failed, Some(at)));
    assert_eq!(queue.requeue_all().await.unwrap(), 5);
    fail(&queue, 5).await;
    let asked = queue.extent(State::Failed).await.unwrap();
    assert_eq!(queue.requeue_extent(&asked).await.unwrap(), 5);
    fail(&queue, 5).await;
    let asked = queue.extent(State::Failed).await.unwrap();
    assert_eq!(queue.purge_extent(&asked).await.unwrap(), 5);
    // What another program has put there is not followed.
    push(&queue, 2).await;
    fail(&queue, 1).await;
    let failed = queue.peek(State::Failed, 0, 1).await.unwrap();
    server.redis_cli(&["ZADD", "duly:{orders}:failed", "inf", &failed[0].envelope.id]);
    fail(&queue, 1).await;
    assert_eq!(queue.requeue_all().await.unwrap(), 1);
}
