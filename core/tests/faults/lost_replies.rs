//! A network that loses, repeats and delays: every verb is done once, whatever becomes of its request and its reply.

mod late_copies;

use std::time::Duration;

use crate::support::proxy::{Fault, Proxy};
use crate::support::slow_line::{Line, SlowLine};
use crate::support::verbs::{self, Verb, new_job, summary};
use crate::support::{self, Server};
use duly::{ErrorKind, Limits, NewJob, OnDuplicate, Pushed, Queue, ReserveOptions, State};
use tokio::task::JoinSet;

async fn behind(server: &Server) -> (Proxy, duly::Client) {
    behind_port(server.port()).await
}

async fn behind_port(port: u16) -> (Proxy, duly::Client) {
    let proxy = Proxy::before(port).await;
    let client = proxy.builder().build().unwrap();
    client.ping().await.unwrap();
    (proxy, client)
}

/// Runs a verb whose reply is lost; `meanwhile` happens between its execution and its being sent again.
async fn lose_reply<T: Send + 'static>(
    proxy: &Proxy,
    calls_before: usize,
    verb: impl Future<Output = T> + Send + 'static,
    meanwhile: impl Future<Output = ()>,
) -> T {
    proxy.next_behind(calls_before, Fault::LoseReply);
    let call = tokio::spawn(verb);
    proxy.happened().await;
    meanwhile.await;
    proxy.reopen();
    call.await.unwrap()
}

async fn reserve(queue: &Queue) -> Vec<duly::Job> {
    queue.reserve(&ReserveOptions::new().lease(Duration::from_secs(600))).await.unwrap()
}

#[tokio::test]
async fn every_verb_whose_reply_is_lost_is_done_once_and_answers_as_the_first_time() {
    let server = Server::start();
    let (direct, (proxy, client)) = (server.client(), behind(&server).await);
    for &verb in verbs::ALL {
        lose_the_reply(verb, "orders", &direct, &proxy, &client).await;
    }
}

#[tokio::test]
async fn every_verb_whose_reply_is_lost_behind_a_slow_line_is_done_once() {
    let server = Server::start();
    let mut all = JoinSet::new();
    for (number, line) in Line::STANDING.into_iter().enumerate() {
        for &verb in verbs::ALL {
            // A line each: all of them wait for theirs at once.
            let (direct, port) = (server.client(), SlowLine::before(server.port(), line).port());
            all.spawn(async move {
                let (proxy, client) = behind_port(port).await;
                lose_the_reply(verb, &format!("line{number}"), &direct, &proxy, &client).await;
            });
        }
    }
    all.join_all().await;
}

/// `name`: with which the names of its queues begin.
async fn lose_the_reply(verb: Verb, name: &str, direct: &duly::Client, proxy: &Proxy, client: &duly::Client) {
    let undisturbed = direct.queue(&format!("{name}-undisturbed-{verb:?}")).unwrap();
    let prepared = verb.prepare(&undisturbed).await;
    let expected = verb.run(&undisturbed, &prepared).await.unwrap();

    let name = format!("{name}-disturbed-{verb:?}");
    let prepared = verb.prepare(&direct.queue(&name).unwrap()).await;
    let queue = client.queue(&name).unwrap();
    let run = {
        let queue = queue.clone();
        async move { verb.run(&queue, &prepared).await }
    };
    let answer = lose_reply(proxy, verb.calls_before(), run, async {}).await.unwrap();
    if !verb.counts_what_it_moved() {
        assert_eq!(answer, expected, "{verb:?}");
    }
    assert_eq!(summary(&queue).await, summary(&undisturbed).await, "{verb:?}");
}

#[tokio::test]
async fn every_verb_whose_request_is_lost_is_done_once() {
    let server = Server::start();
    let direct = server.client();
    let (proxy, client) = behind(&server).await;
    for &verb in verbs::ALL {
        let undisturbed = direct.queue(&format!("undisturbed-{verb:?}")).unwrap();
        let prepared = verb.prepare(&undisturbed).await;
        let expected = verb.run(&undisturbed, &prepared).await.unwrap();

        let name = format!("disturbed-{verb:?}");
        let prepared = verb.prepare(&direct.queue(&name).unwrap()).await;
        let queue = client.queue(&name).unwrap();
        proxy.next_behind(verb.calls_before(), Fault::LoseRequest);
        proxy.reopen();
        assert_eq!(verb.run(&queue, &prepared).await.unwrap(), expected, "{verb:?}");
        assert_eq!(summary(&queue).await, summary(&undisturbed).await, "{verb:?}");
    }
}

#[tokio::test]
async fn a_push_is_one_job_and_one_run_also_when_it_was_reserved_acked_or_cancelled_meanwhile() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    for (how, unique) in [
        ("reserved", false),
        ("reserved", true),
        ("acked", false),
        ("acked", true),
        ("cancelled", false),
        ("cancelled", true),
        ("failed", true),
        ("released", true),
    ] {
        let name = format!("{how}-{unique}");
        let (queue, other) = (client.queue(&name).unwrap(), server.queue(&name));
        let job = if unique { new_job("a").key("k") } else { NewJob::new(&1).unwrap() };
        let run = {
            let queue = queue.clone();
            async move { queue.push(job).await }
        };
        let meanwhile = async {
            match how {
                "reserved" => drop(reserve(&other).await),
                "acked" => reserve(&other).await[0].ack().await.unwrap(),
                "failed" => drop(reserve(&other).await[0].settle(duly::Outcome::FailNow, "no").await.unwrap()),
                "released" => reserve(&other).await[0].release(Duration::ZERO).await.unwrap(),
                _ => {
                    let id = other.peek(State::Ready, 0, 1).await.unwrap().remove(0).envelope.id;
                    other.cancel(&id).await.unwrap().unwrap();
                }
            }
        };
        let pushed = lose_reply(&proxy, 0, run, Box::pin(meanwhile)).await.unwrap();
        assert!(matches!(pushed, Pushed::Created { .. }), "{name}: {pushed:?}");
        let counts = queue.counts().await.unwrap();
        let expected = match how {
            "reserved" => (0, 1, 0),
            "failed" => (0, 0, 1),
            "released" => (1, 0, 0),
            _ => (0, 0, 0),
        };
        assert_eq!((counts.ready, counts.reserved, counts.failed), expected, "{name}");
        let runs = reserve(&queue).await.len();
        assert_eq!(runs, usize::from(how == "released"), "{name}");
    }
}

#[tokio::test]
async fn a_replacing_push_does_not_replace_twice() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    let (queue, other) = (client.queue("orders").unwrap(), server.queue("orders"));
    other.push(new_job("old").key("k")).await.unwrap();
    let replacing = |id: &str| new_job(id).key("k").on_duplicate(OnDuplicate::Replace);
    let run = {
        let (queue, job) = (queue.clone(), replacing("a"));
        async move { queue.push(job).await }
    };
    let pushed = Box::pin(lose_reply(&proxy, 0, run, async {
        other.push(replacing("b")).await.unwrap();
    }))
    .await
    .unwrap();
    assert!(matches!(pushed, Pushed::Replaced { replaced, .. } if replaced == "old"));
    assert_eq!(reserve(&queue).await.iter().map(duly::Job::id).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn a_reserve_sent_again_gives_the_same_lease_and_not_a_second_job() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    let (queue, other) = (client.queue("orders").unwrap(), server.queue("orders"));
    other.push(new_job("a")).await.unwrap();
    other.push(new_job("b")).await.unwrap();
    let run = {
        let queue = queue.clone();
        async move { reserve(&queue).await }
    };
    let jobs = lose_reply(&proxy, 0, run, async {}).await;
    assert_eq!(jobs.iter().map(|job| (job.id(), job.attempt())).collect::<Vec<_>>(), [("a", 1)]);
    assert_eq!(other.counts().await.unwrap().reserved, 1);
    jobs[0].ack().await.unwrap();
}

#[tokio::test]
async fn a_reserve_sent_again_leaves_out_what_was_cancelled_or_lost_meanwhile() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    let (queue, other) = (client.queue("orders").unwrap(), server.queue("orders"));
    for id in ["a", "b", "c"] {
        other.push(new_job(id)).await.unwrap();
    }
    // `b` is cancelled; `c` too, and pushed anew and leased to the other client.
    let options = ReserveOptions::new().max(3).lease(Duration::from_secs(600));
    let run = {
        let queue = queue.clone();
        async move { queue.reserve(&options).await.unwrap() }
    };
    let mut theirs = Vec::new();
    let meanwhile = async {
        other.cancel("b").await.unwrap().unwrap();
        other.cancel("c").await.unwrap().unwrap();
        other.push(new_job("c")).await.unwrap();
        theirs = reserve(&other).await;
    };
    let jobs = lose_reply(&proxy, 0, run, Box::pin(meanwhile)).await;
    assert_eq!(jobs.iter().map(duly::Job::id).collect::<Vec<_>>(), ["a"]);
    assert_eq!(theirs.iter().map(duly::Job::id).collect::<Vec<_>>(), ["c"]);
    theirs[0].ack().await.unwrap();
}

#[tokio::test]
async fn settling_again_does_not_touch_the_next_lease_of_the_job() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    // What the first client said, and what the second then does with the same job under its own lease.
    for (verb, answer) in [(Verb::Release, "[true]"), (Verb::Ack, "[true]"), (Verb::FailForGood, "[true]")] {
        let name = format!("{verb:?}");
        let (queue, other) = (client.queue(&name).unwrap(), server.queue(&name));
        let prepared = verb.prepare(&queue).await;
        let run = {
            let queue = queue.clone();
            async move { verb.run(&queue, &prepared).await }
        };
        let mut theirs = Vec::new();
        let meanwhile = async {
            match verb {
                Verb::Ack => drop(other.push(new_job("a")).await.unwrap()),
                Verb::FailForGood => drop(other.requeue(&["a".to_owned()]).await.unwrap()),
                _ => {}
            }
            theirs = reserve(&other).await;
        };
        let said = Box::pin(lose_reply(&proxy, 0, run, meanwhile)).await.unwrap();
        assert_eq!(said, answer, "{verb:?}");
        assert_eq!(other.counts().await.unwrap().reserved, 1, "{verb:?}");
        theirs[0].ack().await.unwrap();
        assert!(reserve(&queue).await.is_empty(), "{verb:?}");
    }
}

#[tokio::test]
async fn extending_again_after_the_lease_went_to_another_is_refused() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    let (queue, other) = (client.queue("orders").unwrap(), server.queue("orders"));
    other.push(new_job("a")).await.unwrap();
    let job = reserve(&queue).await.remove(0);
    let extending = job.clone();
    let run = async move { extending.extend(Duration::from_millis(1)).await };
    let mut theirs = Vec::new();
    let extended = lose_reply(&proxy, 0, run, async {
        theirs = other.reserve(&ReserveOptions::new().wait(Duration::from_secs(5))).await.unwrap();
    })
    .await;
    assert_eq!(extended.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(job.ack().await.unwrap_err().kind(), ErrorKind::LeaseLost);
    theirs[0].ack().await.unwrap();
}

#[tokio::test]
async fn a_refusal_behind_an_attempt_without_an_answer_does_not_say_that_nothing_was_stored() {
    let server = Server::start();
    server.queue("warm").push(NewJob::new(&1).unwrap()).await.unwrap();
    let (proxy, client) = behind(&server).await;
    let queue = client.queue("orders").unwrap();
    proxy.next(Fault::HoldRequest);
    let push = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.push(NewJob::new(&1).unwrap()).await })
    };
    proxy.happened().await;
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    proxy.reopen();
    let error = push.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("may have been executed"), "{error}");
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "0"]);
    proxy.deliver().await;
    assert_eq!(queue.counts().await.unwrap().ready, 1);
}

#[tokio::test]
async fn a_push_that_comes_again_after_the_servers_clock_jumped_is_stored_and_counted_once() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    for (how, jobs) in [("plain", 3), ("delayed", 3), ("keyed", 1)] {
        let (queue, other) = (client.queue(how).unwrap(), server.queue(how));
        let job = move |number: usize| {
            let job = NewJob::new(&number).unwrap();
            match how {
                "delayed" => job.delay(Duration::from_secs(3600)),
                "keyed" => job.key("k"),
                _ => job,
            }
        };
        let run = {
            let queue = queue.clone();
            async move { queue.push_batch((0..jobs).map(job).collect()).await }
        };
        let memory = format!("duly:{{{how}}}:call:*");
        let meanwhile = async {
            if how == "plain" {
                assert_eq!(reserve(&other).await.len(), 1);
            }
            let key = server.redis_cli(&["KEYS", &memory]);
            for key in key.lines() {
                server.redis_cli(&["DEL", key]);
            }
        };
        let pushed = lose_reply(&proxy, 0, run, Box::pin(meanwhile)).await.unwrap();
        assert!(pushed.iter().all(|one| matches!(one, Pushed::Created { .. })), "{how}: {pushed:?}");
        let counts = other.counts().await.unwrap();
        assert!(counts.totals.contains(&("pushed".to_owned(), jobs as u64)), "{how}: {:?}", counts.totals);
        let expected = match how {
            "plain" => (0, jobs - 1, 1),
            "delayed" => (jobs, 0, 0),
            _ => (0, jobs, 0),
        };
        let found = [counts.delayed, counts.ready, counts.reserved].map(|count| usize::try_from(count).unwrap());
        assert_eq!(found, <[usize; 3]>::from(expected), "{how}");
        let entries = server.redis_cli(&["LLEN", &format!("duly:{{{how}}}:ready:5")]);
        assert_eq!(entries.trim(), expected.1.to_string(), "{how}");
    }
}

#[tokio::test]
async fn a_trace_whose_beginning_is_cut_while_it_is_read_has_no_hole() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    let (queue, other) = (client.queue("orders").unwrap(), server.queue("orders"));
    other.keep_history(10_000, duly::DEFAULT_HISTORY_AGE).await.unwrap();
    other.push(NewJob::new(&1).unwrap().id("a")).await.unwrap();
    for _ in 0..1_500 {
        other.push(NewJob::new(&1).unwrap()).await.unwrap();
    }
    reserve(&other).await[0].ack().await.unwrap();
    assert!(queue.trace("a").await.unwrap().unwrap().is_complete);
    let run = async move { queue.trace("a").await };
    // Behind the first page.
    let meanwhile = async { drop(server.redis_cli(&["LTRIM", "duly:{orders}:history", "2400", "-1"])) };
    let trace = lose_reply(&proxy, 2, run, meanwhile).await.unwrap().unwrap();
    let events: Vec<_> = trace.events.iter().map(|event| event.what.as_str()).collect();
    assert_eq!((events, trace.is_complete), (vec!["reserved", "done"], false));
}

#[tokio::test]
async fn a_push_that_comes_again_when_it_is_in_and_the_queue_is_full_is_not_refused() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    let (queue, other) = (client.queue("orders").unwrap(), server.queue("orders"));
    other.set_limits(&Limits::new().max_length(3)).await.unwrap();
    // So that its client knows that there are limits.
    queue.push(NewJob::new(&0).unwrap()).await.unwrap();
    reserve(&other).await[0].ack().await.unwrap();
    let run = async move { queue.push_batch((0..3).map(|number| NewJob::new(&number).unwrap()).collect()).await };
    let meanwhile = async {
        // One of them is done, and another job has its room.
        reserve(&other).await[0].ack().await.unwrap();
        other.push(NewJob::new(&4).unwrap()).await.unwrap();
        for key in server.redis_cli(&["KEYS", "duly:{orders}:call:*"]).lines() {
            server.redis_cli(&["DEL", key]);
        }
    };
    let pushed = lose_reply(&proxy, 0, run, Box::pin(meanwhile)).await.unwrap();
    assert!(pushed.iter().all(|one| matches!(one, Pushed::Created { .. })), "{pushed:?}");
}

/// What waits for replicas goes by another way, and comes again as other calls do.
#[tokio::test]
async fn a_durable_push_that_comes_again_after_the_servers_clock_jumped_is_stored_and_counted_once() {
    let server = Server::start_with(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start();
    replica.redis_cli(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    support::eventually("a replica follows", || async { server.redis_cli(&["WAIT", "1", "100"]).trim() == "1" }).await;
    let (proxy, client) = behind(&server).await;
    let (queue, other) = (client.queue("orders").unwrap(), server.queue("orders"));
    let job = |number: usize| NewJob::new(&number).unwrap().durability(duly::Durability::Replicas { count: 1 });
    // So that the connection is there, and the script is known.
    queue.push(job(0)).await.unwrap();
    reserve(&other).await[0].ack().await.unwrap();
    let run = {
        let queue = queue.clone();
        async move { queue.push_batch((1..4).map(job).collect()).await }
    };
    let meanwhile = async {
        // With one of the jobs gone, those that are in would be stored again with it.
        reserve(&other).await[0].ack().await.unwrap();
        for key in server.redis_cli(&["KEYS", "duly:{orders}:call:*"]).lines() {
            server.redis_cli(&["DEL", key]);
        }
    };
    let pushed = lose_reply(&proxy, 0, run, Box::pin(meanwhile)).await.unwrap();
    assert!(pushed.iter().all(|one| matches!(one, Pushed::Created { .. })), "{pushed:?}");
    let counts = other.counts().await.unwrap();
    assert_eq!(counts.ready, 3, "the job that was done comes again");
    assert!(counts.totals.contains(&("pushed".to_owned(), 5)), "{:?}", counts.totals);
    assert_eq!(server.redis_cli(&["LLEN", "duly:{orders}:ready:5"]).trim(), "3");
}

#[tokio::test]
async fn a_slot_whose_fire_is_lost_repeated_or_late_fires_once() {
    let server = Server::start();
    let direct = server.client();
    let (proxy, client) = behind(&server).await;
    for (number, fault) in [Fault::LoseReply, Fault::LoseRequest, Fault::HoldRequest].into_iter().enumerate() {
        let name = format!("q{number}");
        let (queue, near) = (client.queue(&name).unwrap(), direct.queue(&name).unwrap());
        let job = NewJob::new(&1).unwrap();
        let soon = duly::Schedule::every(Duration::from_millis(100), job).unwrap().count(1);
        near.schedules().put("once", &soon).await.unwrap();
        let due = near.schedules().next("once", 1).await.unwrap()[0];
        support::eventually("it is due", || async {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
            now > u128::from(due.get())
        })
        .await;
        queue.counts().await.unwrap();
        // Behind the look at what is due.
        proxy.next_behind(1, fault);
        let fire = tokio::spawn(async move { queue.schedules().fire_due().await.unwrap() });
        proxy.happened().await;
        if fault == Fault::HoldRequest {
            assert_eq!(near.schedules().fire_due().await.unwrap(), 1, "another one fires it meanwhile");
        }
        proxy.reopen();
        fire.await.unwrap();
        if fault == Fault::HoldRequest {
            proxy.deliver().await;
        }
        let counts = near.counts().await.unwrap();
        assert_eq!((counts.ready, near.schedules().get("once").await.unwrap().unwrap().fired), (1, 1), "{fault:?}");
    }
}

async fn listed(client: &duly::Client) -> Vec<String> {
    client.queues(10, None).await.unwrap().queues.into_iter().map(|queue| queue.name).collect()
}

#[tokio::test]
async fn a_queue_that_is_pushed_to_while_it_is_deleted_stays_on_the_list() {
    let server = Server::start();
    let (others, (proxy, mine)) = (server.client(), behind(&server).await);
    // The server knows the scripts by now: what is held back is one call.
    others.queue("another").unwrap().delete(0).await.unwrap();
    let queue = mine.queue("orders").unwrap();
    queue.push(new_job("a")).await.unwrap();
    assert_eq!(listed(&mine).await, ["orders"]);
    proxy.only(b"{queues}:queues\r");
    proxy.next(Fault::HoldRequest);
    let deletes = tokio::spawn(async move { queue.delete(1).await });
    proxy.happened().await;
    others.queue("orders").unwrap().push(new_job("b")).await.unwrap();
    assert_eq!(listed(&others).await, ["orders"]);
    proxy.deliver().await;
    assert_eq!(listed(&others).await, ["orders"], "the call that comes late");
    proxy.reopen();
    deletes.await.unwrap().unwrap();
    assert_eq!(listed(&others).await, ["orders"], "and the same call, sent again");
}

#[tokio::test]
async fn a_queue_whose_delete_was_given_up_is_listed_with_its_next_use() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    let queue = client.queue("orders").unwrap();
    proxy.next(Fault::HoldRequest);
    tokio::select! {
        deleted = queue.delete(0) => panic!("{deleted:?}"),
        () = proxy.happened() => {}
    }
    proxy.reopen();
    queue.push(new_job("a")).await.unwrap();
    assert_eq!(listed(&client).await, ["orders"]);
}

#[tokio::test]
async fn a_durable_push_that_cannot_be_asked_about_is_not_said_to_be_in() {
    let server = Server::start();
    let direct = server.queue("orders");
    direct.set_limits(&Limits::new().max_length(1)).await.unwrap();
    direct.push(new_job("first")).await.unwrap();
    let proxy = Proxy::before(server.port()).await;
    let short = Duration::from_secs(1);
    let client = proxy.builder().deadline(short).command_timeout(Duration::from_millis(100)).build().unwrap();
    let queue = client.queue("orders").unwrap();
    assert_eq!(queue.push(new_job("knows the length now")).await.unwrap_err().kind(), ErrorKind::QueueFull);
    direct.set_limits(&Limits::new().max_length(2)).await.unwrap();
    // The server answers, without a confirmation by a replica; asked once more what became of the job, it does not.
    proxy.next_after(1, Fault::LoseRequest);
    (0..100).for_each(|_| proxy.next_after(0, Fault::LoseRequest));
    let durable = new_job("second").durability(duly::Durability::Replicas { count: 1 });
    let error = queue.push(durable).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("has executed this call"), "{error}");
    assert_eq!(direct.counts().await.unwrap().ready, 2);
}

#[tokio::test]
async fn behind_a_push_without_an_answer_the_others_of_a_batch_are_not_sent() {
    let server = Server::start();
    let (direct, proxy) = (server.queue("orders"), Proxy::before(server.port()).await);
    let client =
        proxy.builder().deadline(Duration::from_secs(1)).fail_fast(false).max_data_bytes(4_000_000).build().unwrap();
    let queue = client.queue("orders").unwrap();
    queue.push(new_job("knows the server")).await.unwrap();
    // Each of these takes a call.
    let jobs = || (0..3).map(|number| NewJob::new(&(number, "x".repeat(3_000_000))).unwrap().max_retries(number));
    proxy.next(Fault::LoseReply);
    let error = queue.push_batch(jobs().collect()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unreachable), "{error}");
    proxy.reopen();
    client.ping().await.unwrap();
    assert_eq!(direct.counts().await.unwrap().ready, 2, "the first one was executed");
    // What had no answer may be in.
    let queue_of_two = client.queue("two").unwrap();
    queue_of_two.push(new_job("knows it")).await.unwrap();
    proxy.next_behind(1, Fault::LoseReply);
    let error = queue_of_two.push_batch(jobs().take(2).collect()).await.unwrap_err();
    assert_eq!((error.is_transient(), error.batch_index()), (false, Some(1)), "{error}");
    if error.kind() == ErrorKind::Timeout {
        assert!(
            error.to_string().contains("the first 1 of the 2 jobs of this batch is pushed, and perhaps others"),
            "{error}"
        );
    }
    proxy.reopen();
    client.ping().await.unwrap();
    // Of several callers: whoever stood behind in the same round hears so.
    proxy.next(Fault::LoseReply);
    let outcomes = futures_util::future::join_all(jobs().map(|job| queue.push(job))).await;
    let said: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().unwrap_err().to_string()).collect();
    assert!(said.last().unwrap().contains("not sent, because the push before it had no success"), "{said:?}");
    proxy.reopen();
    client.ping().await.unwrap();
    assert_eq!(direct.counts().await.unwrap().ready, 3, "{said:?}");
}
