//! Pages of ready jobs, of which others are taken, come back and come behind them meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use super::super::server::Server;
use super::{all_ids, hours, job, of, queue_of, replaced, reserved, searched};
use crate::{
    AuditOptions, Filter, Invariant, Job, Millis, OnDuplicate, Outcome, Queue, ReserveOptions, Settlement, State, When,
};

#[tokio::test]
async fn no_ready_job_is_missed_while_others_are_taken_and_pushed() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    for number in 0..900 {
        queue.push(job(number).priority(of(&[0, 1, 2], number)).id(number.to_string())).await.unwrap();
    }
    let (mut taken, mut pushed) = (HashSet::new(), 900);
    let found = searched(&queue, State::Ready, &Filter::new(), 50, async || {
        taken.extend(reserved(&queue, 10).await.iter().map(|job| job.id().to_owned()));
        for _ in 0..5 {
            queue.push(job(pushed).priority(of(&[0, 1, 2], pushed)).id(pushed.to_string())).await.unwrap();
            pushed += 1;
        }
    })
    .await;
    let found: HashSet<_> = found.into_iter().map(|job| job.envelope.id).collect();
    let missed: Vec<_> =
        (0..900).map(|n: u64| n.to_string()).filter(|id| !found.contains(id) && !taken.contains(id)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// What leaves the end of a list moves all others nearer to it; which of them, and whether others come, makes no difference.
#[tokio::test]
async fn no_ready_job_is_missed_while_delayed_ones_replace_others() {
    let server = Server::start();
    for (round, (replaced, pushed)) in [(0, 0), (1, 0), (30, 0), (150, 0), (1, 7), (9, 2)].into_iter().enumerate() {
        let queue = queue_of(&server, &format!("orders{round}"));
        queue.push_many((0..3000).map(|n| job(n).id(n.to_string())), |_| ()).await.unwrap();
        // They are pushed before a page, and replaced behind it.
        let (mut number, mut waiting) = (0, Vec::new());
        let push = |n: u64| job(n).key(format!("k{n}")).on_duplicate(OnDuplicate::Replace);
        let found = searched(&queue, State::Ready, &Filter::new(), 100, async || {
            assert!(number < 6000, "it does not end");
            number += 100;
            if waiting.is_empty() {
                waiting.extend(number..number + replaced);
                queue.push_many(waiting.iter().map(|&n| push(n)), |_| ()).await.unwrap();
            } else {
                queue.push_many(waiting.drain(..).rev().map(|n| push(n).delay(hours(1))), |_| ()).await.unwrap();
            }
            queue.push_many((0..pushed).map(job), |_| ()).await.unwrap();
        })
        .await;
        let found: HashSet<_> = found.into_iter().map(|job| job.envelope.id).collect();
        let missed: Vec<_> = (0..3000).map(|n: u64| n.to_string()).filter(|id| !found.contains(id)).collect();
        assert!(missed.is_empty(), "{replaced} {pushed}: {missed:?}");
    }
}

/// The keys of the jobs that all pages have, with what happens between two of them.
async fn keys_of_pages(queue: &Queue, limit: usize, mut between: impl AsyncFnMut(usize)) -> HashSet<String> {
    let (mut found, mut cursor) = (HashSet::new(), None);
    for page_number in 0.. {
        assert!(page_number < 200, "it does not end");
        let page = queue.search(State::Ready, &Filter::new(), cursor.as_deref(), limit).await.unwrap();
        found.extend(page.jobs.into_iter().filter_map(|job| job.envelope.key));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
        between(page_number).await;
    }
    found
}

/// Those that are there when the search begins, and the last one of a page among them, whether it has an older entry or not.
#[tokio::test]
async fn no_ready_job_is_missed_when_those_of_a_page_are_replaced() {
    let server = Server::start();
    for (round, (jobs, limit, gone)) in
        [(300, 50, 60), (300, 50, 1), (3000, 500, 600), (1200, 50, 130)].into_iter().enumerate()
    {
        for has_older in [false, true] {
            let queue = queue_of(&server, &format!("orders{round}{has_older}"));
            if has_older {
                // An entry of each that no longer counts, at the head.
                queue.push_many((0..jobs).map(replaced), |_| ()).await.unwrap();
            }
            queue.push_many((0..jobs).map(replaced), |_| ()).await.unwrap();
            let first = jobs - limit as u64 - gone.min(jobs - limit as u64) / 2;
            let withdrawn = first..(first + gone).min(jobs);
            let found = keys_of_pages(&queue, limit, async |page_number| {
                if page_number == 0 {
                    let later = withdrawn.clone().rev().map(|n| replaced(n).delay(hours(1)));
                    queue.push_many(later, |_| ()).await.unwrap();
                }
            });
            let found = found.await;
            let stayed = (0..jobs).filter(|n| !withdrawn.contains(n)).map(|n| format!("k{n}"));
            let missed: Vec<_> = stayed.filter(|key| !found.contains(key)).collect();
            assert!(missed.is_empty(), "{jobs} {limit} {gone} {has_older}: {missed:?}");
        }
    }
}

/// Workers take jobs as quickly as others come.
#[tokio::test]
async fn pages_of_ready_jobs_end_beside_workers_and_producers() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..120).map(replaced), |_| ()).await.unwrap();
    let mut next = 120;
    keys_of_pages(&queue, 50, async |_| {
        assert_eq!(reserved(&queue, 40).await.len(), 40);
        queue.push_many((next..next + 40).map(replaced), |_| ()).await.unwrap();
        next += 40;
    })
    .await;
}

/// A record that nobody can read does not say in which list its job is.
#[tokio::test]
async fn no_ready_job_is_missed_when_unreadable_ones_are_cancelled() {
    let mut server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..300).map(replaced), |_| ()).await.unwrap();
    for n in 250..280 {
        server.command(&["HSET", "duly:{orders}:jobs", &format!("j{n}"), "{broken"]);
    }
    let found = keys_of_pages(&queue, 100, async |page_number| {
        for n in (250..280).filter(|_| page_number == 0) {
            assert!(queue.cancel(&format!("j{n}")).await.unwrap().is_some());
        }
    });
    let found = found.await;
    let missed: Vec<_> = (0..250).map(|n| format!("k{n}")).filter(|key| !found.contains(key)).collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert_eq!(queue.counts().await.unwrap().ready, 270);
    // Their keys are not known, either: those are left.
    let report = queue.audit(AuditOptions::new()).await.unwrap();
    assert!(report.findings.iter().all(|one| one.invariant == Invariant::Key), "{report:?}");
    assert_eq!(reserved(&queue, 300).await.len(), 270);
}

/// Released, or behind the end of their lease, or by an audit: to the head, so that the list grows at the side that is looked at last.
#[tokio::test]
async fn no_ready_job_is_missed_when_others_come_back_to_the_head() {
    let mut server = Server::start();
    for (name, level) in [("released", 5), ("ended", 3), ("broken", 5), ("uncounted", 5)] {
        let queue = queue_of(&server, name);
        queue.push_many((0..400).map(|n| replaced(n).priority(level)), |_| ()).await.unwrap();
        let lease = if name == "ended" { Duration::from_millis(1) } else { hours(1) };
        let running = queue.reserve(&ReserveOptions::new().max(150).lease(lease)).await.unwrap();
        assert_eq!(running.len(), 150);
        if name == "uncounted" {
            server.command(&["HSET", "duly:{uncounted}:meta", "put_first", "200"]);
        }
        let found = keys_of_pages(&queue, 50, async |page_number| {
            if page_number > 0 {
                return;
            }
            match name {
                "ended" => {
                    let mut taken = 0;
                    while taken < 150 {
                        taken += queue.reclaim().await.unwrap();
                    }
                }
                "broken" => {
                    server.command(&["DEL", &format!("duly:{{{name}}}:leases")]);
                    assert_eq!(queue.audit(AuditOptions::new().repair(true)).await.unwrap().findings.len(), 150);
                }
                _ => {
                    for job in &running {
                        job.release(Duration::ZERO).await.unwrap();
                    }
                }
            }
            // Then nobody knows how many have come back.
            if name == "uncounted" {
                server.command(&["HDEL", "duly:{uncounted}:meta", "put_first"]);
            }
        });
        let found = found.await;
        let missed: Vec<_> = (150..400).map(|n| format!("k{n}")).filter(|key| !found.contains(key)).collect();
        assert!(missed.is_empty(), "{name}: {missed:?}");
        assert_eq!(queue.counts().await.unwrap().ready, 400);
    }
}

/// What was released is taken again, and comes back again: in the list that is looked at, and in another one.
#[tokio::test]
async fn pages_of_ready_jobs_end_beside_workers_that_give_back_what_they_take() {
    let server = Server::start();
    for (name, level, jobs, limit, taken) in
        [("few", 5, 300, 20, 60), ("many", 5, 6000, 500, 2500), ("others", 3, 4500, 500, 1500)]
    {
        let queue = queue_of(&server, name);
        queue.push_many((0..jobs).map(replaced), |_| ()).await.unwrap();
        if level != 5 {
            queue.push_many((0..taken).map(|n| job(n).priority(level)), |_| ()).await.unwrap();
        }
        let mut running = Vec::<Job>::new();
        let found = keys_of_pages(&queue, limit, async |page_number| {
            assert!(page_number < 20, "{name}");
            let all = std::mem::take(&mut running);
            let back = all.iter().map(|job| Settlement { outcome: Outcome::GIVEN_BACK, ..Settlement::done(job) });
            queue.settle_all(&back.collect::<Vec<_>>()).await.unwrap();
            running = reserved(&queue, usize::try_from(taken).unwrap()).await;
        });
        let found = found.await;
        let stay = if level == 5 { taken..jobs } else { 0..jobs };
        let missed: Vec<_> = stay.map(|n| format!("k{n}")).filter(|key| !found.contains(key)).collect();
        assert!(missed.is_empty(), "{name}: {missed:?}");
    }
}

/// Those come to no head.
#[tokio::test]
async fn pages_of_ready_jobs_get_on_beside_workers_that_release_with_a_delay() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..5000).map(replaced), |_| ()).await.unwrap();
    let mut pages = 0;
    let found = keys_of_pages(&queue, 500, async |page_number| {
        pages = page_number + 1;
        let jobs = if page_number < 3 { reserved(&queue, 900).await } else { Vec::new() };
        let later = jobs.iter().map(|job| job.release(Duration::from_secs(3600)));
        futures_util::future::try_join_all(later).await.unwrap();
    });
    let found = found.await;
    // As many as are left, and not all of the list again and again.
    assert_eq!((found.len(), pages), (2300, 4));
}

/// An audit reads a list from its end: what leaves it there is no more than what comes.
#[tokio::test]
async fn where_one_job_replaces_two_a_ready_list_is_not_shorter() {
    let mut server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..6).map(replaced), |_| ()).await.unwrap();
    let both = job(1).id("j4").key("k5").on_duplicate(OnDuplicate::Replace);
    queue.push(both).await.unwrap();
    let length: i64 = redis::from_redis_value(server.command(&["LLEN", "duly:{orders}:ready:5"])).unwrap();
    assert_eq!((length, queue.counts().await.unwrap().ready), (6, 5));
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
    assert_eq!(reserved(&queue, 10).await.len(), 5);
}

#[tokio::test]
async fn pages_of_ready_jobs_end_though_more_are_pushed_between_two_than_one_has() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    queue.push_many((0..500).map(replaced), |_| ()).await.unwrap();
    let mut next = 500;
    let found = keys_of_pages(&queue, 100, async |page_number| {
        assert!(page_number < 10);
        queue.push_many((next..next + 1100).map(job), |_| ()).await.unwrap();
        next += 1100;
    });
    assert_eq!(found.await.len(), 500);
}

#[tokio::test]
async fn a_job_that_has_left_a_ready_list_is_not_found_in_it() {
    let server = Server::start();
    let queue = queue_of(&server, "orders");
    for number in 0..20 {
        queue.push(job(number).id(number.to_string()).key(format!("k{number}"))).await.unwrap();
    }
    queue.cancel("3").await.unwrap();
    queue.reschedule("4", When::After(Millis::from_secs(60))).await.unwrap();
    queue.push(job(5).id("5").key("k5").priority(2).on_duplicate(OnDuplicate::Replace)).await.unwrap();
    queue.reschedule("6", When::After(Millis::from_secs(60))).await.unwrap();
    queue.reschedule("6", When::Now).await.unwrap();
    let mut found = all_ids(&queue, State::Ready, &Filter::new(), 1000).await;
    found.sort_by_key(|id| id.parse::<u32>().unwrap());
    let expected: Vec<_> = (0..20).filter(|n| ![3, 4].contains(n)).map(|n| n.to_string()).collect();
    found.dedup();
    assert_eq!(found, expected);
    assert_eq!(all_ids(&queue, State::Ready, &Filter::new().priority(2), 1000).await, ["5"]);
}
