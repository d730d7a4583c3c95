//! The last script in the append-only file may be there by half when a machine dies, and some servers execute what is there of
//! it at their next start. An audit must then be able to mend the queue, wherever the script was cut.

use std::time::Duration;

use crate::support::Server;
use duly::{
    AuditOptions, Limits, NameLimits, NewJob, OnDuplicate, Outcome, Queue, ReserveOptions, RetryPolicy, Settlement,
    State, When,
};

type Command = Vec<Vec<u8>>;

fn new_job() -> NewJob {
    NewJob::from_json("1").unwrap()
}

async fn reserve(queue: &Queue, max: usize, lease_ms: u64) -> Vec<duly::Job> {
    queue.reserve(&ReserveOptions::new().max(max).lease(Duration::from_millis(lease_ms))).await.unwrap()
}

/// Every script that writes, with several jobs where that makes a difference.
async fn use_all(queue: &Queue) {
    queue.push_batch(vec![new_job(), new_job()]).await.unwrap();
    queue.push(new_job().delay(Duration::from_secs(60))).await.unwrap();
    let keyed = |id: &str| new_job().id(id).key(id).priority(3);
    queue.push_batch(vec![keyed("a"), keyed("b"), keyed("c"), keyed("d"), keyed("e")]).await.unwrap();
    queue.push(new_job().id("later").key("later").delay(Duration::from_secs(60))).await.unwrap();
    queue.push(keyed("a").on_duplicate(OnDuplicate::Replace)).await.unwrap();
    queue.push(new_job().key("later").on_duplicate(OnDuplicate::Replace)).await.unwrap();
    queue.cancel("b").await.unwrap();
    queue.reschedule("c", When::After(duly::Millis::new(60_000))).await.unwrap();
    queue.reschedule("c", When::Now).await.unwrap();
    let jobs = reserve(queue, 4, 60_000).await;
    jobs[0].ack().await.unwrap();
    let again = Outcome::Retry { after: Some(duly::Millis::new(1)), counted: true };
    let outcomes = [Outcome::FailNow, again, Outcome::GIVEN_BACK];
    let all: Vec<_> =
        jobs[1..].iter().zip(outcomes).map(|(job, outcome)| Settlement { outcome, ..Settlement::done(job) }).collect();
    queue.settle_all(&all).await.unwrap();
    queue.requeue_all().await.unwrap();
    queue.push(new_job().id("last").key("last").max_retries(0).priority(0)).await.unwrap();
    queue.push(new_job().id("kept").priority(0).result_ttl(Duration::from_secs(60))).await.unwrap();
    queue.push(new_job().priority(0).retry(RetryPolicy::Fixed { delay: duly::Millis::new(1) })).await.unwrap();
    let jobs = reserve(queue, 3, 1).await;
    tokio::time::sleep(Duration::from_millis(5)).await; // their leases are over
    queue.reclaim().await.unwrap();
    drop(jobs);
    let jobs = reserve(queue, 2, 60_000).await;
    for job in &jobs {
        job.extend(Duration::from_secs(50)).await.unwrap();
        job.ack_with(&7).await.unwrap();
    }
    queue.set_limits(&Limits::new().name("mail", NameLimits::new().concurrency(1))).await.unwrap();
    queue.push_batch(vec![new_job().name("mail"), new_job().name("mail"), new_job().name("mail")]).await.unwrap();
    let jobs = reserve(queue, 20, 60_000).await;
    queue.cancel(jobs[0].id()).await.unwrap();
    for job in &jobs[1..] {
        job.release(Duration::ZERO).await.unwrap();
    }
    reserve(queue, 2, 60_000).await;
    queue.pause().await.unwrap();
    queue.resume().await.unwrap();
    queue.purge(State::Ready).await.unwrap();
    queue.purge(State::Delayed).await.unwrap();
}

/// The commands of an append-only file, in order.
fn commands(file: &[u8]) -> Vec<Command> {
    let mut rest = file;
    let line = |rest: &mut &[u8]| {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let text = String::from_utf8(rest[..end].to_vec()).unwrap();
        *rest = &rest[end + 2..];
        text
    };
    let mut all = Vec::new();
    while !rest.is_empty() {
        let head = line(&mut rest);
        if head.starts_with('#') {
            continue; // an annotation
        }
        let count: usize = head.strip_prefix('*').unwrap().parse().unwrap();
        let mut words = Vec::new();
        for _ in 0..count {
            let length: usize = line(&mut rest).strip_prefix('$').unwrap().parse().unwrap();
            words.push(rest[..length].to_vec());
            rest = &rest[length + 2..];
        }
        all.push(words);
    }
    all
}

fn is(command: &Command, word: &str) -> bool {
    command[0].eq_ignore_ascii_case(word.as_bytes())
}

#[tokio::test]
async fn an_audit_mends_a_script_that_was_cut_anywhere() {
    let server =
        Server::start_with(&["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no"]);
    use_all(&server.queue("orders")).await;
    let written = commands(&std::fs::read(server.append_only_file().0).unwrap());
    let restarted = Server::start();
    let client = redis::Client::open(restarted.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let queue = restarted.queue("orders");
    let (mut cuts, mut broken, mut inside, mut unmended) = (0, 0, false, Vec::new());
    for (at, command) in written.iter().enumerate() {
        inside = (inside || is(command, "MULTI")) && !is(command, "EXEC");
        if !inside || is(command, "MULTI") || is(&written[at + 1], "EXEC") {
            continue;
        }
        // All before this script, and this script up to here.
        let mut replay = redis::pipe();
        replay.cmd("FLUSHALL");
        for command in written[..=at].iter().filter(|command| !is(command, "MULTI") && !is(command, "EXEC")) {
            let cmd = replay.cmd(&String::from_utf8_lossy(&command[0]));
            for word in &command[1..] {
                cmd.arg(word);
            }
        }
        let _: redis::Value = replay.query(&mut connection).unwrap();
        cuts += 1;
        let first = queue.audit(AuditOptions::new().repair(true)).await.unwrap();
        broken += usize::from(!first.is_clean());
        let second = queue.audit(AuditOptions::new()).await.unwrap();
        if !second.is_clean() {
            let shown: Vec<_> = command.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            unmended.push(format!("behind {shown:?}: {first:?}, then {second:?}"));
        }
    }
    assert!(cuts > 80 && broken > 20, "{broken} of {cuts} cuts left something broken");
    assert!(unmended.is_empty(), "{} of {cuts}:\n{}", unmended.len(), unmended.join("\n"));
}
