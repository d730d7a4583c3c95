//! The last script in the append-only file may be there by half when a machine dies, and some servers execute what is there of
//! it at their next start. An audit must then be able to mend the queue, wherever the script was cut.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::support::reads::READS;
use crate::support::torn::{Again, Written, is, shown, writing};
use crate::support::{Server, eventually};
use crate::{torn_bridge, torn_topics};
use duly::worker::{Context, Failure, Job, Worker};
use duly::{
    AuditOptions, Limits, LockOptions, NameLimits, NewJob, OnDuplicate, Outcome, Queue, ReserveOptions, RetryPolicy,
    Schedule, Settlement, State, When,
};

fn new_job() -> NewJob {
    NewJob::from_json("1").unwrap()
}

async fn reserve(queue: &Queue, max: usize, lease_ms: u64) -> Vec<duly::Job> {
    queue.reserve(&ReserveOptions::new().max(max).lease(Duration::from_millis(lease_ms))).await.unwrap()
}

/// Every script that changes jobs, with several jobs where that makes a difference.
async fn use_jobs(queue: &Queue) {
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
    queue.purge(State::Reserved).await.unwrap();
    // All that the queue lets run at once, and how much is kept of what failed.
    queue.set_limits(&Limits::new().concurrency(3).name("mail", NameLimits::new().concurrency(2))).await.unwrap();
    queue.keep_failed(2, Duration::from_secs(3600)).await.unwrap();
    // With what happens from here on, and without it.
    queue.keep_history(20, Duration::from_secs(3600)).await.unwrap();
    queue.push_batch((0..4).map(|_| new_job().max_retries(0).name("mail")).collect()).await.unwrap();
    let jobs = reserve(queue, 3, 60_000).await;
    jobs[0].progress(0.5, "half").await.unwrap();
    for job in jobs {
        job.settle(Outcome::FailNow, "no").await.unwrap();
    }
    queue.set_limits(&Limits::new()).await.unwrap();
    for job in reserve(queue, 9, 60_000).await {
        job.ack().await.unwrap();
    }
    queue.keep_history(0, Duration::from_secs(3600)).await.unwrap();
    queue.push(new_job().delay(Duration::from_millis(1))).await.unwrap();
    eventually("it is due", async || queue.promote().await.unwrap() == 1).await;
    // Somebody waits for it.
    queue.push(new_job().id("awaited").result_ttl(Duration::from_secs(60))).await.unwrap();
    queue.cancel("awaited").await.unwrap();
    let often = Schedule::every(Duration::from_millis(100), new_job().priority(1)).unwrap();
    queue.schedules().put("often", &often.overlap(duly::Overlap::Replace)).await.unwrap();
    eventually("it has fired twice", async || {
        queue.schedules().fire_due().await.unwrap();
        queue.schedules().get("often").await.unwrap().unwrap().fired > 1
    })
    .await;
    queue.schedules().remove("often").await.unwrap();
    queue.push(new_job().max_retries(0).id("unheard")).await.unwrap();
    reserve(queue, 9, 1).await;
    eventually("its lease is over", async || queue.reclaim().await.unwrap() > 0).await;
}

/// A worker that reports that it is alive, fires schedules, and hears of jobs that failed.
async fn use_worker(server: &Server) {
    let worker = Worker::builder(server.client())
        .queue("orders", 1)
        .lease(Duration::from_secs(1))
        .handler("none", |_: Job<serde_json::Value>, _: Context| async { Ok::<(), Failure>(()) })
        .build()
        .unwrap();
    let is_heard = || async {
        let meta = server.redis_cli(&["HGETALL", "duly:{orders}:meta"]);
        let exists = server.redis_cli(&["EXISTS", "duly:{orders}:unheard"]);
        !meta.contains("unheard:") && exists.trim() == "0"
    };
    assert!(!is_heard().await);
    worker.run_until(eventually("it has heard of all", is_heard)).await.unwrap();
}

/// What is beside the jobs of a queue.
async fn use_the_rest(server: &Server) {
    let client = server.client();
    // Two take a lock one after the other, and the first one needs it for longer than it has asked for.
    let options = LockOptions::new().ttl(Duration::from_secs(1)).wait(Duration::from_secs(60));
    let lock = client.lock("nightly", &options).await.unwrap();
    let until = || server.redis_cli(&["HGET", "duly:{nightly}:lock", "until"]);
    let first = until();
    eventually("it is renewed", async || until() != first).await;
    let (released, taken) = tokio::join!(lock.release(), client.lock("nightly", &options));
    assert!(released.unwrap());
    taken.unwrap().release().await.unwrap();

    torn_topics::use_all(&client.topic("logs").unwrap()).await;
    client.topic("logs").unwrap().delete().await.unwrap();
    client.note_action("ann", "pause queue=old", "done").await.unwrap();

    torn_bridge::fill_old(server);
    torn_bridge::over(&client).await;
    torn_bridge::there_and_back(server, &client).await;
    torn_bridge::back(&client).await;

    // Of format 1, with limits.
    let old = [
        "HSET",
        "duly:{old}:meta",
        "format",
        "1",
        "levels",
        "5",
        "limits",
        "4;100;60000000",
        "names",
        "1;5;mail",
        "rate_at",
        "17;5",
    ];
    server.redis_cli(&old);
    client.queue("old").unwrap().push(new_job()).await.unwrap();
    // With what an audit mends.
    server.redis_cli(&["HSET", "duly:{broken}:jobs", "a", "{\"data\":1}"]);
    client.queue("broken").unwrap().audit(AuditOptions::new().repair(true)).await.unwrap();

    let gone = client.queue("gone").unwrap();
    gone.push_batch(vec![new_job(), new_job().priority(2)]).await.unwrap();
    gone.delete(2).await.unwrap();
    server.redis_cli(&["ZADD", "duly:{queues}:queues", "0", "used-long-ago"]);
    server.redis_cli(&["HSET", "duly:{queues}:queues_used", "used-long-ago", "1000 0"]);
    assert!(client.queues(1000, None).await.unwrap().queues.iter().all(|queue| queue.name != "used-long-ago"));
}

/// Every script that writes.
async fn use_all(server: &Server) {
    use_jobs(&server.queue("orders")).await;
    use_worker(server).await;
    use_the_rest(server).await;
}

#[tokio::test]
async fn an_audit_mends_a_script_that_was_cut_anywhere() {
    let server = writing();
    use_all(&server).await;
    assert_eq!(not_called(&server), BTreeSet::new(), "scripts that write, and that no test of cut scripts calls");
    let written = Written::by(&server);
    let mut again = Again::start();
    let queues = ["orders", "old", "gone"].map(|name| again.server.queue(name));
    let (mut broken, mut unmended) = (0, Vec::new());
    let mut cuts = written.cuts(0);
    cuts.retain(|&cut| queues.iter().any(|queue| is_of(&written.0[cut], queue.name())));
    for &cut in &cuts {
        again.replay(&written, cut);
        for queue in queues.iter().filter(|queue| is_of(&written.0[cut], queue.name())) {
            let first = queue.audit(AuditOptions::new().repair(true)).await.unwrap();
            broken += usize::from(!first.is_clean());
            let second = queue.audit(AuditOptions::new()).await.unwrap();
            if !second.is_clean() {
                unmended.push(format!("behind {:?}: {first:?}, then {second:?}", shown(&written.0[cut])));
            }
        }
    }
    let total = cuts.len();
    assert!(total > 300 && broken > 60, "{broken} of {total} cuts left something broken");
    assert!(unmended.is_empty(), "{} of {total}:\n{}", unmended.len(), unmended.join("\n"));
}

fn is_of(command: &[Vec<u8>], queue: &str) -> bool {
    command.get(1).is_some_and(|key| String::from_utf8_lossy(key).contains(&format!("{{{queue}}}")))
}

/// The limits of a queue are there, whatever was cut: those from before, or the new ones.
#[tokio::test]
async fn no_limit_is_lost_with_a_script_that_was_cut() {
    let server = writing();
    let old = ["HSET", "duly:{orders}:meta", "format", "1", "levels", "5", "limits", "4;0;0", "names", "1;2;mail"];
    server.redis_cli(&old);
    let first = Written::by(&server).0.len();
    let queue = server.queue("orders");
    queue.push_batch(vec![new_job().name("mail"), new_job().name("mail"), new_job().name("mail")]).await.unwrap();
    let jobs = reserve(&queue, 9, 60_000).await;
    queue.set_limits(&Limits::new().concurrency(4)).await.unwrap();
    for job in jobs {
        job.ack().await.unwrap();
    }
    // The last one of a name that has no limit any more.
    for job in reserve(&queue, 9, 60_000).await {
        job.ack().await.unwrap();
    }
    reserve(&queue, 9, 60_000).await;
    let written = Written::by(&server);
    let mut again = Again::start();
    for cut in written.cuts(first) {
        again.replay(&written, cut);
        let queue = again.server.queue("orders");
        queue.push_batch((0..6).map(|_| new_job()).collect()).await.unwrap();
        let limits = queue.limits().await.unwrap();
        assert_eq!(limits.concurrency, Some(4), "behind {:?}", shown(&written.0[cut]));
    }
}

/// A job that failed without a hook is still unheard, until somebody has heard of it.
#[tokio::test]
async fn no_failed_job_stays_unheard_behind_a_script_that_was_cut() {
    let server = writing();
    let queue = server.queue("orders");
    queue.push(new_job().max_retries(0).id("unheard")).await.unwrap();
    reserve(&queue, 9, 1).await;
    eventually("its lease is over", async || queue.reclaim().await.unwrap() > 0).await;
    let first = Written::by(&server).0.len();
    use_worker(&server).await;
    let written = Written::by(&server);
    let is_claim =
        |command: &Vec<Vec<u8>>| is(command, "ZADD") && command[1] == b"duly:{orders}:unheard" && command[2] != b"0";
    let claimed = written.0.iter().position(is_claim).unwrap();
    let (mut again, mut cuts) = (Again::start(), written.cuts(first));
    cuts.retain(|cut| *cut < claimed);
    assert!(cuts.len() > 1, "{}", cuts.len());
    for cut in cuts {
        again.replay(&written, cut);
        use_worker(&again.server).await; // finds it unheard
    }
}

/// What an audit does not look at is in the tests of cut scripts of schedules, topics and bridges; and of these nothing that is cut does harm.
const HARMLESS: &[(&str, &str)] = &[
    ("lock", "a lock that is held ends with its time, and one without a lifetime gets it with its next use"),
    ("renew_lock", "it is held as before, or longer"),
    ("unlock", "a lock that was given up by half ends with its time"),
    ("beat", "a worker reports again in a few seconds"),
    ("progress", "one write"),
    ("wake_waiters", "who waits looks again within a second"),
    ("due_schedules", "one write, which is a hint"),
    ("queues/register", "a queue without a time was not used for long, and says so again"),
    ("queues/unregister", "what is left is on no list"),
    ("note_action", "one entry too many is there until the next action"),
    ("topic/note", "one write"),
    ("topic/forget", "one write"),
    ("topic/bound", "the next publish looks at the age of messages"),
    ("topic/delete", "one write"),
];

/// Of a script with all that it includes.
fn writes(lua: &Path, text: &str) -> bool {
    let calls = text.split("call('").skip(1).filter_map(|behind| behind.split('\'').next());
    let included = text.lines().filter_map(|line| line.trim_start().strip_prefix("--- include: "));
    let included = included.flat_map(|names| names.split(", "));
    let part = |name: &str| std::fs::read_to_string(lua.join("lib").join(format!("{name}.lua"))).unwrap();
    calls.into_iter().any(|command| !READS.contains(&command))
        || included.into_iter().any(|name| writes(lua, &part(name)))
}

/// All scripts on the disk that write, but those that this server has been called for.
fn not_called(server: &Server) -> BTreeSet<String> {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let mut missing = BTreeSet::new();
    for folder in ["", "bridge/", "queues/", "topic/"] {
        for file in std::fs::read_dir(lua.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|end| end == "lua")
                && writes(&lua, &std::fs::read_to_string(&path).unwrap())
            {
                missing.insert(format!("{folder}{}", path.file_stem().unwrap().to_str().unwrap()));
            }
        }
    }
    let folders = std::fs::read_dir(&lua).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(folders, 4, "a folder of scripts that this test does not know");
    for (name, reason) in HARMLESS {
        assert!(missing.contains(*name), "there is no script {name} that writes ({reason})");
    }
    for called in server.scripts() {
        missing.remove(&called);
    }
    missing
}
