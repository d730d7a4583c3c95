//! Search finds what a look at every job finds, whatever happens meanwhile; and what acts on its finds does so once.

mod ready;

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::server::Server;
use crate::{
    AuditOptions, Client, ErrorKind, Filter, Job, JobView, Matching, Millis, NewJob, OnDuplicate, Queue,
    ReserveOptions, State, When,
};

fn client(server: &Server) -> Client {
    Client::builder().url(&server.url()).build().unwrap()
}

fn queue_of(server: &Server, name: &str) -> Queue {
    client(server).queue(name).unwrap()
}

/// How often the server has executed this command.
fn executed(server: &mut Server, command: &str) -> u64 {
    let stats: String = redis::from_redis_value(server.command(&["INFO", "commandstats"])).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

const STATES: [State; 4] = [State::Delayed, State::Ready, State::Reserved, State::Failed];

fn job(number: u64) -> NewJob {
    NewJob::new(&number).unwrap()
}

fn replaced(n: u64) -> NewJob {
    job(n).id(format!("j{n}")).key(format!("k{n}")).on_duplicate(OnDuplicate::Replace)
}

/// One of these, in turn.
fn of<T: Copy>(all: &[T], number: u64) -> T {
    all[usize::try_from(number).unwrap() % all.len()]
}

fn hours(count: u64) -> Duration {
    Duration::from_secs(3600 * count)
}

async fn reserved(queue: &Queue, most: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    loop {
        let more =
            queue.reserve(&ReserveOptions::new().max((most - jobs.len()).min(1000)).lease(hours(1))).await.unwrap();
        jobs.extend(more.clone());
        if more.is_empty() || jobs.len() == most {
            return jobs;
        }
    }
}

/// All pages, with what happens between two of them.
async fn searched(
    queue: &Queue,
    state: State,
    filter: &Filter,
    limit: usize,
    mut between: impl AsyncFnMut(),
) -> Vec<JobView> {
    let (mut jobs, mut cursor) = (Vec::new(), None);
    loop {
        let page = queue.search(state, filter, cursor.as_deref(), limit).await.unwrap();
        assert!(page.jobs.len() <= limit && page.looked_at <= 10_000, "{page:?}");
        jobs.extend(page.jobs);
        cursor = page.cursor;
        if cursor.is_none() {
            return jobs;
        }
        between().await;
    }
}

async fn all_ids(queue: &Queue, state: State, filter: &Filter, limit: usize) -> Vec<String> {
    searched(queue, state, filter, limit, async || ()).await.into_iter().map(|job| job.envelope.id).collect()
}

/// All that match are looked for.
async fn matching(queue: &Queue, state: State, filter: Filter) -> Matching {
    let mut found = queue.matching(state, filter).unwrap();
    while found.look().await.unwrap() {}
    found
}

async fn fail(jobs: &[Job], error: &str) {
    for job in jobs {
        job.fail(error).await.unwrap();
    }
}

/// 300 jobs in all states, in one way and another.
async fn of_all_kinds(queue: &Queue) {
    for number in 0..300_u64 {
        let name = of(&["mail.send", "order.close", ""], number);
        let mut job = job(number).priority(of(&[3, 4, 5, 6], number)).max_retries(0);
        if !name.is_empty() {
            job = job.name(name);
        }
        if number % 5 < 3 {
            job = job.key(format!("{}:{number}", of(&["close", "closed", "pay"], number)));
        }
        if number % 2 == 0 {
            // Many are due at the same time.
            job = job.when(When::At(Millis::from_secs(4_000_000_000 + number / 50)));
        }
        queue.push(job).await.unwrap();
    }
    let jobs = reserved(queue, 90).await;
    for (number, job) in jobs[..60].iter().enumerate() {
        job.fail(["Timeout: 1 s", "Refused: no"][number % 2]).await.unwrap();
    }
}

#[tokio::test]
async fn a_search_finds_what_a_look_at_every_job_finds() {
    let server = Server::start();
    let (whole, parts) = (queue_of(&server, "orders"), client(&server).partitioned_queue("shops", 3).unwrap());
    for queue in [&whole, &parts] {
        of_all_kinds(queue).await;
        let late = Millis::from_secs(4_000_000_003);
        let since = Millis::from_secs(4_000_000_001);
        let filters: [(Filter, Holds); 9] = [
            (Filter::new(), |_| true),
            (Filter::new().name("mail.send"), |job| job.envelope.name.as_deref() == Some("mail.send")),
            (Filter::new().name("mail"), |_| false),
            (Filter::new().key_prefix("close"), |job| {
                job.envelope.key.as_ref().is_some_and(|key| key.starts_with("close"))
            }),
            (Filter::new().key_prefix("close:"), |job| {
                job.envelope.key.as_ref().is_some_and(|key| key.starts_with("close:"))
            }),
            (Filter::new().error("Timeout"), |job| job.envelope.error.contains("Timeout")),
            (Filter::new().priority(4), |job| job.envelope.priority == 4),
            (Filter::new().priority(4).name("order.close"), |job| {
                job.envelope.priority == 4 && job.envelope.name.as_deref() == Some("order.close")
            }),
            (Filter::new().older_than(hours(1)), |_| false),
        ];
        for state in STATES {
            let mut all = Vec::new();
            for offset in (0..300).step_by(100) {
                all.extend(queue.peek(state, offset, 100).await.unwrap());
            }
            assert!(!all.is_empty(), "{state:?}");
            for (filter, holds) in &filters {
                for limit in [1000, 7] {
                    let found = all_ids(queue, state, filter, limit).await;
                    let expected: BTreeSet<_> =
                        all.iter().filter(|job| holds(job)).map(|job| job.envelope.id.clone()).collect();
                    assert_eq!(found.len(), expected.len(), "{state:?} {filter:?} {limit}");
                    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "{state:?} {filter:?} {limit}");
                }
                let found = matching(queue, state, filter.clone()).await;
                let expected: BTreeSet<_> = all.iter().filter(|job| holds(job)).map(|job| &*job.envelope.id).collect();
                assert_eq!(found.ids().collect::<BTreeSet<_>>(), expected, "{state:?} {filter:?}");
                assert_eq!(
                    (found.len(), found.looked_at()),
                    (expected.len(), all.len() as u64),
                    "{state:?} {filter:?}"
                );
            }
        }
        let due: Vec<_> = all_due(queue).await;
        let between = Filter::new().since(since).until(late);
        let found = all_ids(queue, State::Delayed, &between, 7).await;
        let expected = due.iter().filter(|(at, _)| *at >= since && *at < late).count();
        assert!(expected > 20 && expected < due.len());
        assert_eq!(found.len(), expected);
    }
}

type Holds = fn(&JobView) -> bool;

async fn all_due(queue: &Queue) -> Vec<(Millis, String)> {
    let jobs = queue.peek(State::Delayed, 0, 300).await.unwrap();
    jobs.into_iter().map(|job| (job.at.unwrap(), job.envelope.id)).collect()
}

#[tokio::test]
async fn jobs_that_are_due_together_are_found_once_while_others_of_them_are_cancelled() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    let due = When::At(Millis::from_secs(4_000_000_000));
    // Ids of all lengths, in no order, and not all in one script's order of letters.
    let ids: Vec<_> =
        (0..600_u64).map(|n| format!("{}{}", of(&["B", "a", "ß", "-", "aa"], n), n * 7919 % 600)).collect();
    queue.push_many(ids.iter().map(|id| job(1).id(id).when(due)), |_| ()).await.unwrap();
    let mut seen = Vec::new();
    let mut cursor = None;
    let mut gone = HashSet::new();
    loop {
        let page = queue.search(State::Delayed, &Filter::new(), cursor.as_deref(), 17).await.unwrap();
        seen.extend(page.jobs.iter().map(|job| job.envelope.id.clone()));
        let Some(next) = page.cursor else { break };
        cursor = Some(next);
        // The one at which the page ended, and one that is still to come.
        let last = page.jobs.last().unwrap().envelope.id.clone();
        assert!(queue.cancel(&last).await.unwrap().is_some());
        let ahead = ids.iter().find(|id| !seen.contains(id) && !gone.contains(*id));
        if let Some(ahead) = ahead {
            queue.cancel(ahead).await.unwrap();
            gone.insert(ahead.clone());
        }
    }
    let once: HashSet<_> = seen.iter().cloned().collect();
    assert_eq!(once.len(), seen.len(), "some came twice");
    let expected: HashSet<_> = ids.into_iter().filter(|id| !gone.contains(id)).collect();
    assert_eq!(once, expected);
}

#[tokio::test]
async fn a_search_goes_on_from_cursors_of_jobs_that_are_gone() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..300).map(replaced), |_| ()).await.unwrap();
    // `5;260-0;<;255>`, `5;0-0;j1` and `5;900-0;gone`.
    let cursors = [
        ("ready-0-353b3236302d303b3bff", 260),
        ("ready-0-353b302d303b6a31", 0),
        ("ready-0-353b3930302d303b676f6e65", 300),
    ];
    for (cursor, left) in cursors {
        let page = queue.search(State::Ready, &Filter::new(), Some(cursor), 500).await.unwrap();
        assert_eq!(page.jobs.len(), left, "{cursor}");
    }
}

#[tokio::test]
async fn failed_jobs_are_run_again_by_name_and_error_once() {
    let server = Server::start();
    let queue = client(&server).partitioned_queue("mail", 2).unwrap();
    let push = |number: u64, name| job(number).name(name).key(format!("k{number}")).max_retries(0);
    queue.push_many((0..600).map(|n| push(n, of(&["send", "read"], n))), |_| ()).await.unwrap();
    for job in reserved(&queue, 600).await {
        job.fail(if job.envelope.data.as_str().ends_with('4') { "Refused" } else { "Timeout" }).await.unwrap();
    }
    // Another job has the key of one of them now.
    queue.push(push(0, "other")).await.unwrap();
    let filter = Filter::new().name("send").error("Timeout");
    let mut found = matching(&queue, State::Failed, filter.clone()).await;
    let mut late = matching(&queue, State::Failed, filter).await;
    assert_eq!((found.len(), late.len()), (240, 240));
    let mut requeued = 0;
    while !found.is_empty() {
        requeued += found.requeue().await.unwrap();
    }
    assert_eq!(requeued, 239);
    let mut again = 0;
    while !late.is_empty() {
        again += late.requeue().await.unwrap();
    }
    assert_eq!(again, 0, "a second click does nothing twice");
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.failed), (240, 361));
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
}

#[tokio::test]
async fn what_has_left_its_state_is_not_cancelled_and_not_rescheduled() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..450).map(|n| job(n).id(n.to_string())), |_| ()).await.unwrap();
    let mut found = matching(&queue, State::Ready, Filter::new()).await;
    let mut moved = matching(&queue, State::Ready, Filter::new()).await;
    let running = reserved(&queue, 100).await;
    let mut rescheduled = 0;
    while !moved.is_empty() {
        rescheduled += moved.reschedule(When::After(Millis::from_secs(3600))).await.unwrap();
    }
    assert_eq!(rescheduled, 350);
    let mut cancelled = 0;
    while !found.is_empty() {
        cancelled += found.cancel().await.unwrap();
    }
    assert_eq!(cancelled, 0);
    assert!(queue.ack_all(&running).await.unwrap().into_iter().all(|acked| acked));
    let mut delayed = matching(&queue, State::Delayed, Filter::new()).await;
    while !delayed.is_empty() {
        cancelled += delayed.cancel().await.unwrap();
    }
    assert_eq!(cancelled, 350);
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.delayed, counts.ready, counts.reserved), (0, 0, 0));
}

#[tokio::test]
async fn failed_jobs_come_in_groups_that_can_be_run_again() {
    let server = Server::start();
    let queue = queue_of(&server, "mail");
    queue.push_many((0..90).map(|n| job(n).name(of(&["send", "read"], n)).max_retries(0)), |_| ()).await.unwrap();
    for (number, job) in reserved(&queue, 90).await.iter().enumerate() {
        let error = match number % 3 {
            0 => format!("ConnectionError: host {number}\n  at /srv/mail.py:11 in send\n  at /srv/app.py:3 in run"),
            1 => format!("App\\NoMail: order {number} at /srv/app/Mail.php:7"),
            _ => format!("no order {number}"),
        };
        job.fail(&error).await.unwrap();
    }
    let mut groups = queue.failure_groups();
    while groups.look().await.unwrap() {}
    assert_eq!((groups.looked_at(), groups.others()), (90, 0));
    let groups = groups.largest();
    assert_eq!(groups.len(), 6, "{groups:?}");
    assert!(groups.iter().all(|group| group.count == 15 && group.first <= group.last));
    let kind = "ConnectionError at /srv/mail.py:11 in send";
    let one = groups.iter().find(|group| group.kind == kind && group.name.as_deref() == Some("read")).unwrap();
    assert!(one.error.starts_with("ConnectionError: host "), "{one:?}");
    assert!(queue.find(&one.id).await.unwrap().is_some());
    let mut found = matching(&queue, State::Failed, Filter::new().name("read").group(kind)).await;
    assert_eq!(found.len(), 15);
    assert_eq!(found.requeue().await.unwrap(), 15);
    assert_eq!(queue.counts().await.unwrap().failed, 75);
}

#[tokio::test]
async fn a_call_of_a_search_reads_a_bounded_part() {
    let mut server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..12_000).map(|n| job(n).delay(hours(1))), |_| ()).await.unwrap();
    let before = (executed(&mut server, "evalsha"), executed(&mut server, "hget"));
    let nothing = Filter::new().name("none");
    let page = queue.search(State::Delayed, &nothing, None, 100).await.unwrap();
    assert_eq!((page.jobs.len(), page.looked_at), (0, 10_000));
    let (calls, read) = (executed(&mut server, "evalsha") - before.0, executed(&mut server, "hget") - before.1);
    assert!(calls <= 21 && read <= 20_100, "{calls} calls, {read} reads");
    let page = queue.search(State::Delayed, &nothing, page.cursor.as_deref(), 100).await.unwrap();
    assert_eq!((page.looked_at, page.cursor), (2_000, None));

    let large = queue_of(&server, "large");
    let text = "x".repeat(900_000);
    for _ in 0..30 {
        large.push(NewJob::new(&text).unwrap().max_retries(0)).await.unwrap();
    }
    let mut found = large.matching(State::Ready, Filter::new()).unwrap();
    let mut looks = 1;
    while found.look().await.unwrap() {
        looks += 1;
    }
    assert_eq!(found.len(), 30);
    assert!(looks >= 6, "27 MB were read with {looks} calls");
    // So does a page, also of what does not match; the next one goes on where it ended.
    for filter in [nothing, Filter::new().key_prefix("k"), Filter::new().priority(1), Filter::new().unnamed()] {
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let before = executed(&mut server, "evalsha");
            let page = large.search(State::Ready, &filter, cursor.as_deref(), 100).await.unwrap();
            pages.push((page.looked_at, executed(&mut server, "evalsha") - before));
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages, [(10, 2), (10, 2), (10, 2), (0, 1)], "{filter:?}");
    }
    // A search by error reads no records, but errors.
    let failing = queue_of(&server, "failing");
    failing.push_many((0..1600).map(|n| job(n).max_retries(0)), |_| ()).await.unwrap();
    for _ in 0..4 {
        fail(&reserved(&failing, 400).await, &"e".repeat(8000)).await;
    }
    let page = failing.search(State::Failed, &Filter::new().error("none"), None, 100).await.unwrap();
    assert_eq!((page.looked_at, page.jobs.len(), page.cursor.is_some()), (1500, 0, true));
}

#[tokio::test]
async fn a_call_that_removes_what_matches_reads_a_bounded_part_and_each_record_once() {
    let mut server = Server::start();
    let queue = queue_of(&server, "large");
    let text = "x".repeat(900_000);
    for _ in 0..30 {
        queue.push(NewJob::new(&text).unwrap()).await.unwrap();
    }
    let mut found = matching(&queue, State::Ready, Filter::new()).await;
    let taken = reserved(&queue, 7).await;
    let read = executed(&mut server, "hget");
    let (mut calls, mut removed) = (0, 0);
    while !found.is_empty() {
        removed += found.cancel().await.unwrap();
        calls += 1;
    }
    let read = executed(&mut server, "hget") - read;
    assert_eq!((calls, removed, taken.len()), (6, 23, 7), "five records of 900 KB are as much as a call reads");
    assert_eq!(read, 30 + calls, "one read a record, and one of what the call before has answered");
    assert_eq!((queue.counts().await.unwrap().ready, queue.counts().await.unwrap().reserved), (0, 7));
}

#[tokio::test]
async fn what_cannot_be_searched_for_is_an_error_and_ids_of_any_bytes_are_passed_by() {
    let mut server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..30).map(|n| job(n).delay(hours(1))), |_| ()).await.unwrap();
    let now = Millis::from_secs(1);
    let wrong = [
        (State::Ready, Filter::new().since(now), None, 10),
        (State::Delayed, Filter::new().priority(10), None, 10),
        (State::Delayed, Filter::new().name(""), None, 10),
        (State::Delayed, Filter::new(), None, 0),
        (State::Delayed, Filter::new(), None, 1001),
        (State::Delayed, Filter::new(), Some("1-"), 10),
        (State::Delayed, Filter::new(), Some("0-zz"), 10),
        (State::Delayed, Filter::new(), Some("0-é1"), 10),
        (State::Delayed, Filter::new(), Some("no"), 10),
        (State::Delayed, Filter::new(), Some("0-393b61"), 10_000),
        (State::Ready, Filter::new(), Some("0-6e616e3b61"), 10),
        // `5;40` and `5;1-2-3;a`
        (State::Ready, Filter::new(), Some("0-353b3430"), 10),
        (State::Ready, Filter::new(), Some("0-353b312d322d333b61"), 10),
    ];
    for (state, filter, cursor, limit) in wrong {
        let error = queue.search(state, &filter, cursor, limit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(error.operation(), Some("search"), "{error}");
    }
    let error = matching(&queue, State::Delayed, Filter::new()).await.requeue().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");

    // Not UTF-8, and in the middle of the others.
    let at = queue.peek(State::Delayed, 14, 1).await.unwrap()[0].at.unwrap();
    let odd = "redis.call('ZADD', 'duly:{orders}:delayed', ARGV[1], '\\255;\\0') \
               redis.call('HSET', 'duly:{orders}:jobs', '\\255;\\0', '{}') return {}";
    server.command(&["EVAL", odd, "0", &at.get().to_string()]);
    let found = all_ids(&queue, State::Delayed, &Filter::new(), 1).await;
    assert_eq!(found.len(), 31);
    assert_eq!(found.into_iter().collect::<HashSet<_>>().len(), 31);
}

/// What a search by error finds of jobs that come again, and of one whose record nobody can read.
#[tokio::test]
async fn a_number_of_failures_is_no_text_of_an_error() {
    let mut server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push(job(1).max_retries(0)).await.unwrap();
    fail(&reserved(&queue, 1).await, "gone").await;
    assert!(all_ids(&queue, State::Failed, &Filter::new().error("1"), 10).await.is_empty());
    assert_eq!(all_ids(&queue, State::Failed, &Filter::new().error("gone"), 10).await.len(), 1);
    let id = queue.peek(State::Failed, 0, 1).await.unwrap()[0].envelope.id.clone();
    server.command(&["HSET", "duly:{orders}:jobs", &id, "no record"]);
    let page = queue.search(State::Failed, &Filter::new(), None, 10).await.unwrap();
    assert!(page.jobs[0].undecodable.is_some());
    assert!(all_ids(&queue, State::Failed, &Filter::new().priority(5), 10).await.is_empty());
}

/// A newer version's record, for example: neither its age nor its name is known, and it is not acted on by these.
#[tokio::test]
async fn what_cannot_be_read_is_neither_old_nor_without_a_name() {
    let mut server = Server::start();
    let queue = queue_of(&server, "orders");
    for id in ["named", "unnamed", "newer"] {
        let job = job(1).id(id);
        queue.push(if id == "named" { job.name("x") } else { job }).await.unwrap();
    }
    server.command(&["HSET", "duly:{orders}:jobs", "newer", "{\"v\":99,\"data\":1}"]);
    let old = Filter::new().older_than(Duration::ZERO);
    for (filter, expected) in [(old, vec!["unnamed", "named"]), (Filter::new().unnamed(), vec!["unnamed"])] {
        assert_eq!(all_ids(&queue, State::Ready, &filter, 10).await, expected);
        assert_eq!(matching(&queue, State::Ready, filter).await.ids().collect::<Vec<_>>(), expected);
    }
    assert_eq!(all_ids(&queue, State::Ready, &Filter::new(), 10).await.len(), 3);
}

#[tokio::test]
async fn a_job_that_has_become_ready_is_not_rescheduled_as_a_delayed_one() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    for number in 0..3 {
        queue.push(job(number).id(number.to_string()).delay(hours(1))).await.unwrap();
    }
    let mut found = matching(&queue, State::Delayed, Filter::new()).await;
    queue.reschedule("1", When::Now).await.unwrap();
    assert_eq!(found.reschedule(When::After(Millis::from_secs(60))).await.unwrap(), 2);
    assert_eq!(all_ids(&queue, State::Ready, &Filter::new(), 10).await, ["1"]);
}

#[tokio::test]
async fn a_job_that_is_found_in_two_states_is_counted_once() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    for number in 0..3 {
        queue.push(job(number).id(number.to_string()).delay(hours(1))).await.unwrap();
    }
    let delayed = matching(&queue, State::Delayed, Filter::new()).await;
    queue.reschedule("1", When::Now).await.unwrap();
    let mut both = [delayed, matching(&queue, State::Ready, Filter::new()).await];
    assert_eq!(both.iter().map(Matching::len).sum::<usize>(), 4);
    assert_eq!((Matching::count_once(&both), Matching::count_once(&both[..1]), Matching::count_once(&[])), (3, 3, 0));
    let mut cancelled = 0;
    for found in &mut both {
        cancelled += found.cancel().await.unwrap();
    }
    assert_eq!(cancelled, 3);
}

#[tokio::test]
async fn a_job_that_came_again_and_again_is_in_a_page_once() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push(job(1).id("other")).await.unwrap();
    for _ in 0..60 {
        queue.push(job(1).id("same")).await.unwrap();
        queue.cancel("same").await.unwrap();
    }
    queue.push(job(1).id("same")).await.unwrap();
    assert_eq!(all_ids(&queue, State::Ready, &Filter::new(), 30).await, ["same", "other"]);
}

/// A look ends beside a producer that is quicker than it.
#[tokio::test]
async fn what_comes_after_the_look_has_begun_is_not_looked_for() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..1200).map(|n| job(n).delay(hours(1))), |_| ()).await.unwrap();
    let mut found = queue.matching(State::Delayed, Filter::new()).unwrap();
    while found.look().await.unwrap() {
        queue.push_many((0..600).map(|n| job(n).delay(hours(2))), |_| ()).await.unwrap();
    }
    assert_eq!(found.len(), 1200);
}

/// A worker renews its leases meanwhile, and they are behind all others then.
#[tokio::test]
async fn no_job_is_missed_whose_lease_is_renewed_while_reserved_ones_are_looked_for() {
    let server = Server::start();
    let queue = client(&server).partitioned_queue("orders", 2).unwrap();
    queue.push_many((0..2500).map(|n| job(n).key(format!("k{n}"))), |_| ()).await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.extend(reserved(&queue, 500).await);
    }
    let late = Filter::new().until(Millis::from_secs(9_000_000_000));
    for (round, filter) in [Filter::new(), late].into_iter().enumerate() {
        let mut found = queue.matching(State::Reserved, filter).unwrap();
        while found.look().await.unwrap() {
            // All that were not found yet, and always the same ones: it ends all the same.
            assert!(found.looked_at() < 25_000, "it does not end");
            let known: HashSet<_> = found.ids().collect();
            let new = jobs.iter().filter(|job| !known.contains(job.id()) || job.id().ends_with('7'));
            let new: Vec<_> = new.take(1000).cloned().collect();
            queue.extend_all(&new, hours(2 + round as u64)).await.unwrap();
        }
        assert_eq!(found.len(), 2500);
    }
    let none = matching(&queue, State::Reserved, Filter::new().until(Millis::from_secs(1))).await;
    assert_eq!((none.len(), none.looked_at()), (0, 0));
}

/// Where the leases end is asked for while others are acked.
#[tokio::test]
async fn no_reserved_job_is_missed_beside_others_that_end() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..600).map(|n| job(n).name("long")), |_| ()).await.unwrap();
    let mut long = reserved(&queue, 500).await;
    long.extend(reserved(&queue, 100).await);
    let others = queue_of(&server, "orders");
    let busy = tokio::spawn(async move {
        loop {
            others.push_many((0..3).map(job), |_| ()).await.unwrap();
            let jobs = others.reserve(&ReserveOptions::new().max(3).lease(Duration::from_secs(60))).await.unwrap();
            others.ack_all(&jobs).await.unwrap();
        }
    });
    for round in 0..20 {
        let mut found = queue.matching(State::Reserved, Filter::new().name("long")).unwrap();
        while found.look().await.unwrap() {
            let known: HashSet<_> = found.ids().collect();
            let new: Vec<_> = long.iter().filter(|job| !known.contains(job.id())).cloned().collect();
            queue.extend_all(&new, hours(2 + round)).await.unwrap();
        }
        assert_eq!(found.len(), 600, "{round}");
    }
    busy.abort();
}

#[tokio::test]
async fn a_large_group_behind_very_many_small_ones_is_counted() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.keep_failed(20_000, hours(24)).await.unwrap();
    queue.push_many((0..11_000).map(|n| job(n).max_retries(0)), |_| ()).await.unwrap();
    for number in 0_u64..22 {
        let jobs = reserved(&queue, 500).await;
        let letter = |digit: u8| char::from(b'k' + digit - b'0');
        let ends = jobs.iter().map(|job| async move {
            let word: String = job.envelope.data.as_str().bytes().map(letter).collect();
            job.fail(&if number < 21 { format!("nobody named {word}") } else { "no database".to_owned() }).await
        });
        futures_util::future::try_join_all(ends).await.unwrap();
    }
    let failed = queue.counts().await.unwrap().failed;
    let mut groups = queue.failure_groups();
    while groups.look().await.unwrap() {}
    let others = groups.others();
    let groups = groups.largest();
    assert_eq!((groups[0].kind.as_str(), groups[0].count), ("no database", 500));
    assert!(others > 0);
    assert_eq!(groups.iter().map(|group| group.count).sum::<u64>() + others, failed);
}
