//! A partitioned queue behaves as one queue does, but for the order of jobs in different parts.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::Server;
use duly::blocking::{self, Uninterrupted};
use duly::{AuditOptions, ErrorKind, Limits, NameLimits, NewJob, Requeued, ReserveOptions, Selection, State, When};

fn job() -> NewJob {
    NewJob::new(&1).unwrap()
}

#[tokio::test]
async fn jobs_are_spread_counted_and_all_reserved() {
    let server = Server::start();
    let queue = server.client().partitioned_queue("orders", 4).unwrap();
    let summary = queue.push_many((0..1500).map(|_| job()), |_| {}).await.unwrap();
    assert_eq!(summary.created, 1500);
    for part in queue.parts() {
        let ready = part.counts().await.unwrap().ready;
        assert!((250..500).contains(&ready), "{} has {ready}", part.name());
    }
    assert_eq!(server.redis_cli(&["EXISTS", "duly:{orders/3}:jobs"]).trim(), "1");
    assert_eq!(queue.counts().await.unwrap().ready, 1500);
    let mut seen = BTreeSet::new();
    for offset in (0..1500).step_by(100) {
        seen.extend(queue.peek(State::Ready, offset, 100).await.unwrap().into_iter().map(|job| job.envelope.id));
    }
    assert_eq!(seen.len(), 1500);
    let mut run = BTreeSet::new();
    while run.len() < 1500 {
        let jobs = queue.reserve(&ReserveOptions::new().max(400)).await.unwrap();
        assert!(!jobs.is_empty());
        assert!(queue.extend_all(&jobs, Duration::from_secs(60)).await.unwrap().into_iter().all(|held| held));
        assert!(queue.ack_all(&jobs).await.unwrap().into_iter().all(|settled| settled));
        run.extend(jobs.iter().map(|job| job.id().to_owned()));
    }
    assert_eq!(run, seen);
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
}

#[tokio::test]
async fn a_job_is_found_by_id_and_by_key() {
    let server = Server::start();
    let queue = server.client().partitioned_queue("orders", 7).unwrap();
    for number in 0..20 {
        let key = format!("close:{number}");
        let made = queue.push(job().key(&key)).await.unwrap().id().to_owned();
        let refused = queue.push(job().key(&key)).await.unwrap_err();
        assert_eq!((refused.kind(), refused.job_id()), (ErrorKind::Duplicate, Some(made.as_str())));
        assert_eq!(queue.find(&made).await.unwrap().unwrap().job.envelope.key.as_deref(), Some(key.as_str()));
        assert_eq!(queue.find_key(&key).await.unwrap().unwrap().job.envelope.id, made);
        let own = format!("own-{number}");
        queue.push(job().id(&own).key(format!("own:{number}"))).await.unwrap();
        queue.reschedule(&own, When::After(duly::Millis::from_secs(100))).await.unwrap();
        assert_eq!(queue.find(&own).await.unwrap().unwrap().job.state, State::Delayed);
        assert_eq!(queue.cancel(&own).await.unwrap().unwrap().id, own);
        assert_eq!(queue.cancel_key(&key).await.unwrap().unwrap().id, made);
        assert!(queue.cancel(&made).await.unwrap().is_none());
    }
    assert_eq!(queue.reschedule("nobody", When::Now).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(queue.counts().await.unwrap().of(State::Ready), 0);
}

#[tokio::test]
async fn verbs_for_all_jobs_reach_every_part() {
    let server = Server::start();
    let queue = server.client().partitioned_queue("orders", 3).unwrap();
    let ids: Vec<String> = (0..12).map(|number| format!("j{number}")).collect();
    queue.push_batch(ids.iter().map(|id| job().id(id).key(format!("k{id}")).max_retries(0)).collect()).await.unwrap();
    queue.pause().await.unwrap();
    assert!(queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty());
    assert!(queue.counts().await.unwrap().paused);
    queue.resume().await.unwrap();
    for job in queue.reserve(&ReserveOptions::new().max(20)).await.unwrap() {
        job.fail("no").await.unwrap();
    }
    assert_eq!(queue.counts().await.unwrap().failed, 12);
    assert_eq!(queue.requeue(&ids[..5]).await.unwrap(), vec![Requeued::Ready; 5]);
    assert_eq!(queue.requeue_all().await.unwrap(), 7);
    assert_eq!(queue.purge(State::Ready).await.unwrap(), 12);
}

#[tokio::test]
async fn a_queue_with_a_part_that_is_paused_says_so() {
    let server = Server::start();
    let queue = server.client().partitioned_queue("orders", 3).unwrap();
    let paused = async || queue.counts().await.map(|counts| (counts.paused, counts.paused_parts)).unwrap();
    assert_eq!(paused().await, (false, 0));
    queue.pause().await.unwrap();
    assert_eq!(paused().await, (true, 3));
    // As a resume leaves it that ends behind two parts.
    for part in &queue.parts()[..2] {
        part.resume().await.unwrap();
    }
    assert_eq!(paused().await, (true, 1));
    queue.resume().await.unwrap();
    assert_eq!(paused().await, (false, 0));
    let one = server.client().queue("plain").unwrap();
    one.pause().await.unwrap();
    assert_eq!(one.counts().await.unwrap().paused_parts, 1);
}

#[tokio::test]
async fn each_part_keeps_to_its_share_of_the_limits() {
    let server = Server::start();
    let queue = server.client().partitioned_queue("orders", 3).unwrap();
    let mail = |most| NameLimits::new().concurrency(most).rate(2 * most, Duration::from_secs(1));
    let limits = Limits::new().concurrency(6).rate(30, Duration::from_secs(60)).name("mail", mail(3));
    queue.set_limits(&limits).await.unwrap();
    assert_eq!(queue.limits().await.unwrap(), limits);
    queue.push_many((0..60).map(|_| job()), |_| {}).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..9 {
        held.extend(queue.reserve(&ReserveOptions::new().max(20)).await.unwrap());
    }
    assert_eq!(held.len(), 6);
    assert!(queue.counts().await.unwrap().held.is_some());
    let refused = queue.set_limits(&Limits::new().concurrency(2)).await.unwrap_err();
    assert!(
        refused.to_string().contains("each of the queue's 3 parts keeps to its share: a limit is 3 jobs at least"),
        "{refused}"
    );
    assert!(queue.set_limits(&Limits::new().name("mail", mail(2))).await.is_err(), "a part would get none");
}

#[tokio::test]
async fn a_wait_ends_with_a_push_to_any_part() {
    let server = Server::start();
    let queue = server.client().partitioned_queue("orders", 3).unwrap();
    let options = ReserveOptions::new().wait(Duration::from_secs(5));
    queue.push(job().delay(Duration::from_millis(100))).await.unwrap();
    assert_eq!(queue.reserve(&options).await.unwrap().len(), 1);
}

#[test]
fn the_blocking_twin_says_the_same() {
    let server = Server::start();
    let client = blocking::Client::new(server.builder()).unwrap();
    let queue = client.partitioned_queue("orders", 2).unwrap();
    let pushed = queue.push(job(), &mut Uninterrupted).unwrap();
    let jobs = queue.reserve(&ReserveOptions::new(), &mut Uninterrupted).unwrap();
    assert_eq!(jobs[0].reserved().id(), pushed.id());
    jobs[0].ack(&mut Uninterrupted).unwrap();
    assert_eq!(queue.counts(&mut Uninterrupted).unwrap().reserved, 0);
    let weights = [(client.queue("a").unwrap(), 1), (client.queue("b").unwrap(), 1)];
    weights[1].0.push(job(), &mut Uninterrupted).unwrap();
    let options = ReserveOptions::new();
    let jobs = client.reserve_from(&weights, duly::Selection::Strict, &options, &mut Uninterrupted).unwrap();
    assert_eq!(jobs[0].queue().name(), "b");
    jobs[0].ack(&mut Uninterrupted).unwrap();
    assert!(client.partitioned_queue("a/b", 2).is_err());
    assert!(client.partitioned_queue("a", 0).is_err());
}

#[test]
fn an_iterator_of_a_long_blocking_push_may_call_duly_itself() {
    let server = Server::start();
    let client = blocking::Client::new(server.builder()).unwrap();
    let (plain, parted) = (client.queue("plain").unwrap(), client.partitioned_queue("orders", 2).unwrap());
    let other = client.queue("other").unwrap();
    let jobs = || {
        (0..1500).map(|number| {
            if number % 1000 == 0 {
                other.push(job(), &mut Uninterrupted).unwrap();
            }
            job()
        })
    };
    assert_eq!(plain.push_many(jobs(), |_| (), &mut Uninterrupted).unwrap().created, 1500);
    assert_eq!(parted.push_many(jobs(), |_| (), &mut Uninterrupted).unwrap().created, 1500);
    assert_eq!(other.counts(&mut Uninterrupted).unwrap().ready, 4);
}

#[test]
fn a_job_of_a_plain_queue_is_not_taken_for_one_of_a_split_queue_of_its_name() {
    let server = Server::start();
    let client = blocking::Client::connect(&server.url()).unwrap();
    let (split, plain) = (client.partitioned_queue("orders", 3).unwrap(), client.queue("orders").unwrap());
    plain.push(NewJob::new(&1).unwrap(), &mut Uninterrupted).unwrap();
    let queues = [(split, 1), (plain, 1)];
    let options = ReserveOptions::new();
    let jobs = client.reserve_from(&queues, Selection::Strict, &options, &mut Uninterrupted).unwrap();
    assert!(jobs[0].queue().parts().is_empty());
    jobs[0].ack(&mut Uninterrupted).unwrap();
}
