//! What cancelled jobs leave in a ready list hides no other job; and no call reads more than it may.

use std::collections::BTreeSet;
use std::time::Duration;

use super::server::Server;
use crate::{AuditOptions, Client, Filter, NewJob, OnDuplicate, Queue, ReserveOptions, State};

fn queue_of(server: &Server) -> Queue {
    Client::builder().url(&server.url()).build().unwrap().queue("orders").unwrap()
}

fn number_of(server: &mut Server, words: &[&str]) -> u64 {
    redis::from_redis_value(server.command(words)).unwrap()
}

fn entries(server: &mut Server) -> (u64, u64) {
    (number_of(server, &["LLEN", "duly:{orders}:ready:5"]), number_of(server, &["HLEN", "duly:{orders}:stale"]))
}

fn executed(server: &mut Server, command: &str) -> u64 {
    let stats: String = redis::from_redis_value(server.command(&["INFO", "commandstats"])).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Pushes `first`, then so many that are gone when all are pushed, and `last`: their entries are left between the two.
async fn with_gone_between(queue: &Queue, count: usize) {
    queue.push(NewJob::new("a").unwrap().id("first")).await.unwrap();
    queue.push_many((0..count).map(|n| NewJob::new(&n).unwrap().name("gone")), |_| ()).await.unwrap();
    queue.push(NewJob::new("z").unwrap().id("last")).await.unwrap();
    let mut gone = queue.matching(State::Ready, Filter::new().name("gone")).unwrap();
    while gone.look().await.unwrap() {}
    while !gone.is_empty() {
        gone.cancel().await.unwrap();
    }
}

async fn shown(queue: &Queue, offset: usize, limit: usize) -> Vec<String> {
    let page = queue.peek(State::Ready, offset, limit).await.unwrap();
    page.into_iter().map(|job| job.envelope.id).collect()
}

async fn is_clean(queue: &Queue) -> bool {
    queue.audit(AuditOptions::new()).await.unwrap().is_clean()
}

#[tokio::test]
async fn the_oldest_ready_job_is_seen_behind_cancelled_ones() {
    let mut server = Server::start();
    let queue = queue_of(&server);
    with_gone_between(&queue, 30).await;
    assert_eq!(entries(&mut server), (32, 30));
    assert_eq!(shown(&queue, 1, 5).await, ["last"]);
    assert_eq!(shown(&queue, 2, 5).await, <[String; 0]>::default(), "jobs are counted, not entries");
    // With the first one all go that stand behind it.
    queue.cancel("first").await.unwrap();
    assert_eq!(entries(&mut server), (1, 0));
    assert!(queue.counts().await.unwrap().oldest_ready_age.is_some());
    assert!(is_clean(&queue).await);
}

/// What no longer counts has an entry at the head and one further on.
#[tokio::test]
async fn an_entry_that_does_not_count_yet_further_on_stays_counted() {
    let server = Server::start();
    let queue = queue_of(&server);
    let push = async |id: &str| _ = queue.push(NewJob::new(id).unwrap().id(id)).await.unwrap();
    push("first").await;
    for id in ["x", "x", "live", "x"] {
        push(id).await;
        if id == "x" {
            queue.cancel("x").await.unwrap();
        }
    }
    push("x").await;
    queue.cancel("first").await.unwrap();
    assert_eq!(shown(&queue, 0, 5).await, ["live", "x"]);
    assert!(is_clean(&queue).await);
    let jobs = queue.reserve(&ReserveOptions::new().max(5)).await.unwrap();
    assert_eq!(jobs.iter().map(crate::Job::id).collect::<Vec<_>>(), ["live", "x"]);
}

/// In whatever order others are cancelled.
#[tokio::test]
async fn the_oldest_ready_job_is_seen_among_jobs_that_are_cancelled_in_any_order() {
    let mut server = Server::start();
    let queue = queue_of(&server);
    queue.push_many((0..3001).map(|n| NewJob::new(&n).unwrap().id(n.to_string())), |_| ()).await.unwrap();
    // 1,733 and 3,001 have no factor in common: each number comes once.
    for number in (0..3001).map(|n: usize| n * 1733 % 3001).filter(|&number| number != 2000) {
        queue.cancel(&number.to_string()).await.unwrap();
    }
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.oldest_ready_age.is_some()), (1, true));
    assert_eq!(entries(&mut server), (1001, 1000), "none that does not count is at the head");
    assert!(is_clean(&queue).await);
}

/// Pages of a search go on from the end of a list, so nothing may leave it there.
#[tokio::test]
async fn a_search_whose_finds_are_cancelled_page_by_page_finds_all() {
    let server = Server::start();
    let queue = queue_of(&server);
    queue.push_many((0..1000).map(|n| NewJob::new(&n).unwrap()), |_| ()).await.unwrap();
    let mut cursor = None;
    loop {
        let page = queue.search(State::Ready, &Filter::new(), cursor.as_deref(), 100).await.unwrap();
        for job in page.jobs {
            assert!(queue.cancel(&job.envelope.id).await.unwrap().is_some());
        }
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(queue.counts().await.unwrap().ready, 0);
}

#[tokio::test]
async fn behind_more_cancelled_jobs_than_a_call_passes_by_a_ready_job_is_seen() {
    let mut server = Server::start();
    let queue = queue_of(&server);
    with_gone_between(&queue, 20_000).await;
    queue.cancel("first").await.unwrap();
    let (left, stale) = entries(&mut server);
    assert!((18_500..=19_001).contains(&left) && stale == left - 1, "{left} entries, {stale} do not count");
    let read = executed(&mut server, "lrange");
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.oldest_ready_age.is_some()), (1, true));
    let read = executed(&mut server, "lrange") - read;
    assert!(read <= 50, "{read} reads of a hundred");

    // What is of another level comes before it or behind it.
    queue.push(NewJob::new("later").unwrap().id("later").priority(7)).await.unwrap();
    let calls = executed(&mut server, "evalsha");
    assert_eq!(shown(&queue, 0, 10).await, ["last", "later"]);
    let calls = executed(&mut server, "evalsha") - calls;
    assert!((5..=11).contains(&calls), "{calls} calls");
    assert_eq!(shown(&queue, 0, 1).await, ["last"]);
    queue.push(NewJob::new("urgent").unwrap().id("urgent").priority(3)).await.unwrap();
    assert_eq!(shown(&queue, 0, 10).await, ["urgent", "last", "later"]);
    assert_eq!(shown(&queue, 0, 2).await, ["urgent", "last"]);
    assert_eq!(queue.cancel("urgent").await.unwrap().map(|_| ()), Some(()));
    let page = queue.search(State::Ready, &Filter::new(), None, 10).await.unwrap();
    assert_eq!((page.jobs.len(), page.looked_at), (1, 1), "{page:?}");
    let job = queue.reserve(&ReserveOptions::new().max(2)).await.unwrap();
    assert_eq!(job.len(), 2);
    assert!(is_clean(&queue).await);
}

#[tokio::test]
async fn a_job_that_came_again_behind_very_many_cancelled_ones_is_shown_once() {
    let mut server = Server::start();
    let queue = queue_of(&server);
    queue.push(NewJob::new("a").unwrap().id("first")).await.unwrap();
    let gone = |from: usize, count: usize| (from..from + count).map(|n| NewJob::new(&n).unwrap().name("gone"));
    queue.push_many(gone(0, 4000), |_| ()).await.unwrap();
    queue.push(NewJob::new("early").unwrap().id("early")).await.unwrap();
    queue.push_many(gone(0, 3000), |_| ()).await.unwrap();
    for id in ["late", "other"] {
        queue.push(NewJob::new(id).unwrap().id(id)).await.unwrap();
    }
    let mut found = queue.matching(State::Ready, Filter::new().name("gone")).unwrap();
    while found.look().await.unwrap() {}
    while !found.is_empty() {
        found.cancel().await.unwrap();
    }
    // Both leave an entry, one that the first call passes by and one that the second finds; and both come again.
    for id in ["early", "late"] {
        queue.cancel(id).await.unwrap();
        queue.push(NewJob::new(id).unwrap().id(id)).await.unwrap();
    }
    assert_eq!(shown(&queue, 0, 10).await, ["first", "other", "early", "late"]);
    queue.cancel("first").await.unwrap();
    assert_eq!(shown(&queue, 0, 10).await, ["other", "early", "late"]);
    assert!(entries(&mut server).1 > 5_000);
    assert!(is_clean(&queue).await);
}

/// Sixteen letters and digits are not always an id that was made with a time.
#[tokio::test]
async fn a_job_whose_id_only_looks_like_one_of_dulys_has_no_age_by_it() {
    let mut server = Server::start();
    let queue = queue_of(&server);
    let made = queue.push(NewJob::new(&1).unwrap()).await.unwrap().id().to_owned();
    for record in ["no record", "{\"data\":1}"] {
        for (id, is_known) in [("0000000000000042", false), ("zzzzzzzzzzzzzzzz", false), (made.as_str(), true)] {
            server.command(&["DEL", "duly:{orders}:ready:5", "duly:{orders}:jobs"]);
            server.command(&["RPUSH", "duly:{orders}:ready:5", id]);
            server.command(&["HSET", "duly:{orders}:jobs", id, record]);
            let age = queue.counts().await.unwrap().oldest_ready_age;
            assert_eq!(age.is_some(), is_known, "{id} {record}: {age:?}");
            assert!(age.is_none_or(|age| age < crate::Millis::from_secs(60)), "{id} {record}: {age:?}");
        }
    }
}

/// Each read is deep in the list, and holds the server up.
#[tokio::test]
async fn a_page_of_one_job_passes_many_cancelled_ones_by_with_few_reads() {
    let mut server = Server::start();
    let queue = queue_of(&server);
    with_gone_between(&queue, 10_000).await;
    queue.cancel("first").await.unwrap();
    for n in 0..300 {
        queue.push(NewJob::new(&n).unwrap().id(n.to_string())).await.unwrap();
    }
    let counted = |server: &mut Server| ["lrange", "hget", "hmget"].map(|command| executed(server, command));
    let before = counted(&mut server);
    assert_eq!(shown(&queue, 0, 1).await, ["last"]);
    let after = counted(&mut server);
    let [lists, single, many] = [0, 1, 2].map(|n| after[n] - before[n]);
    assert!(lists <= 110 && many <= 110, "{lists} reads of the list, {many} of what no longer counts");
    // Behind the first call it is asked of each whether the job has come again.
    assert!(single <= entries(&mut server).1 - 1_990, "{single} single reads");
    // Whatever its size, a page has no more jobs than were asked for, and goes on where it ended.
    assert_eq!(shown(&queue, 0, 3).await, ["last", "0", "1"]);
    assert_eq!(shown(&queue, 0, 150).await[147..], ["146", "147", "148"]);
    server.command(&["DEL", "duly:{orders}:ready:5", "duly:{orders}:stale"]);
    queue.push(NewJob::new(&1).unwrap().id("plain")).await.unwrap();
    let before = counted(&mut server);
    assert_eq!(shown(&queue, 0, 1).await, ["plain"]);
    let after = counted(&mut server);
    assert_eq!([0, 1, 2].map(|n| after[n] - before[n]), [1, 2, 0], "none is stale");
}

/// A hundred of 41 KB are 4 MiB: nobody notes them as large.
#[tokio::test]
async fn what_a_purge_and_a_reclaim_read_is_bounded_where_no_job_is_large() {
    let mut server = Server::start();
    let queue = queue_of(&server);
    let text = "x".repeat(41_000);
    let push = async || queue.push_many((0..500).map(|_| NewJob::new(&text).unwrap()), |_| ()).await.unwrap();
    push().await;
    let before = executed(&mut server, "evalsha");
    assert_eq!(queue.purge(State::Ready).await.unwrap(), 500);
    let calls = executed(&mut server, "evalsha") - before;
    assert!((4..=8).contains(&calls), "20 MB with {calls} calls");

    push().await;
    let mut leased = 0;
    while leased < 500 {
        let some = ReserveOptions::new().max(100).lease(Duration::from_secs(3600));
        leased += queue.reserve(&some).await.unwrap().len();
    }
    let end_all = "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, id) end";
    server.command(&["EVAL", end_all, "1", "duly:{orders}:reserved"]);
    let before = executed(&mut server, "evalsha");
    assert_eq!(queue.reclaim().await.unwrap(), 500);
    let calls = executed(&mut server, "evalsha") - before;
    assert!(calls >= 4, "20 MB with {calls} calls");
}

/// Far behind the first job, and more entries than a call passes by.
#[tokio::test]
async fn a_job_whose_stale_entry_was_jumped_over_is_on_a_page() {
    let server = Server::start();
    let queue = queue_of(&server);
    let push = |n: usize| NewJob::new(&n).unwrap().id(format!("j{n}")).on_duplicate(OnDuplicate::Replace);
    queue.push_many((0..3500).map(push), |_| ()).await.unwrap();
    queue.push(push(2600)).await.unwrap();
    queue.push_many((3500..3700).map(push), |_| ()).await.unwrap();
    for limit in [50, 100, 500, 1000] {
        let mut seen = BTreeSet::new();
        for offset in (0..3800).step_by(limit) {
            seen.extend(shown(&queue, offset, limit).await);
        }
        let missed: Vec<_> = (0..3700).map(|n| format!("j{n}")).filter(|id| !seen.contains(id)).collect();
        assert!(missed.is_empty(), "{limit}: {missed:?}");
    }
}

/// Each of its jobs may take entries away that no longer count: of all together not more than one call may.
#[tokio::test]
async fn a_batch_that_replaces_takes_no_more_entries_away_than_one_call_may() {
    let mut server = Server::start();
    let queue = queue_of(&server);
    with_gone_between(&queue, 5000).await;
    let replaced = |id: &str| NewJob::new(&1).unwrap().id(id).on_duplicate(OnDuplicate::Replace);
    queue.push_many((0..150).map(|n| replaced(&format!("j{n}"))), |_| ()).await.unwrap();
    let before = entries(&mut server).0;
    let all = ["first".to_owned()].into_iter().chain((0..49).map(|n| format!("j{n}")));
    queue.push_many(all.map(|id| replaced(&id)), |_| ()).await.unwrap();
    let after = entries(&mut server).0;
    assert!((before - 1_001..=before + 50).contains(&after), "{before} {after}");
    assert!(is_clean(&queue).await);
}
