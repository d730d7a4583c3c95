//! Copies of calls that arrive late, and calls that were given up: neither wins over a newer one.

use std::sync::Arc;
use std::time::Duration;

use super::{behind, reserve};
use crate::support;
use crate::support::proxy::{Fault, Proxy};
use crate::support::verbs::{Verb, new_job, summary};
use crate::support::{Server, verbs};
use duly::{ErrorKind, NewJob, OnDuplicate, Pushed, Queue, ReserveOptions, State};

#[tokio::test]
async fn a_late_copy_of_a_call_does_nothing_once_the_call_was_answered() {
    let server = Server::start();
    let direct = server.client();
    for &verb in verbs::ALL {
        // A proxy each: what is held back belongs to one connection.
        let (proxy, client) = behind(&server).await;
        let undisturbed = direct.queue(&format!("undisturbed-{verb:?}")).unwrap();
        let prepared = verb.prepare(&undisturbed).await;
        verb.run(&undisturbed, &prepared).await.unwrap();

        let name = format!("disturbed-{verb:?}");
        let prepared = verb.prepare(&direct.queue(&name).unwrap()).await;
        let queue = client.queue(&name).unwrap();
        proxy.next_behind(verb.calls_before(), Fault::HoldRequest);
        let call = {
            let queue = queue.clone();
            tokio::spawn(async move { verb.run(&queue, &prepared).await })
        };
        proxy.happened().await;
        proxy.reopen();
        call.await.unwrap().unwrap();
        proxy.deliver().await;
        assert_eq!(summary(&queue).await, summary(&undisturbed).await, "{verb:?}");
    }
}

#[tokio::test]
async fn a_late_copy_of_a_push_that_was_given_up_does_nothing_after_the_next_call() {
    let server = Server::start();
    server.queue("warm").push(NewJob::new(&1).unwrap()).await.unwrap();
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().deadline(Duration::from_secs(2)).fail_fast(false).build().unwrap();
    client.ping().await.unwrap();
    let queue = client.queue("orders").unwrap();
    proxy.next(Fault::HoldRequest);
    let error = queue.push(NewJob::new(&1).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "it may have been sent: {error}");
    proxy.reopen();
    let id = queue.push(NewJob::new(&2).unwrap()).await.unwrap().id().to_owned();
    proxy.deliver().await;
    let waiting = queue.peek(State::Ready, 0, 10).await.unwrap();
    assert_eq!(waiting.iter().map(|job| job.envelope.id.as_str()).collect::<Vec<_>>(), [id]);
}

/// What a verb did that found nothing to do, and what happens before a late copy of it arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Idle {
    Cancel,
    Purge,
    Requeue,
    Reschedule,
    Push,
}

#[tokio::test]
async fn a_late_copy_of_a_call_that_found_nothing_to_do_does_nothing() {
    let server = Server::start();
    for idle in [Idle::Cancel, Idle::Purge, Idle::Requeue, Idle::Reschedule, Idle::Push] {
        let (proxy, client) = behind(&server).await;
        let (queue, other) = (client.queue(&format!("{idle:?}")).unwrap(), server.queue(&format!("{idle:?}")));
        let run = move |queue: Queue| async move {
            match idle {
                Idle::Cancel => assert!(queue.cancel_key("k").await.unwrap().is_none()),
                Idle::Purge => assert_eq!(queue.purge(State::Ready).await.unwrap(), 0),
                Idle::Requeue => {
                    queue.requeue(&["a".to_owned()]).await.unwrap();
                }
                Idle::Reschedule => drop(queue.reschedule("a", duly::When::After(duly::Millis::new(3_600_000))).await),
                Idle::Push => {
                    let kept = queue.push(new_job("b").key("k").on_duplicate(OnDuplicate::Keep)).await.unwrap();
                    assert!(matches!(kept, Pushed::Kept { .. }));
                }
            }
        };
        // The server must know the script: a late copy of an unknown one does nothing anyway.
        let warm = server.queue(&format!("warm-{idle:?}"));
        if idle == Idle::Push {
            warm.push(new_job("a").key("k")).await.unwrap();
            other.push(new_job("a").key("k")).await.unwrap();
        }
        run(warm).await;
        proxy.next(Fault::HoldRequest);
        let call = tokio::spawn(run(queue));
        proxy.happened().await;
        proxy.reopen();
        call.await.unwrap();
        match idle {
            Idle::Push => drop(other.cancel("a").await.unwrap().unwrap()),
            _ => drop(other.push(new_job("a").key("k")).await.unwrap()),
        }
        if idle == Idle::Requeue {
            reserve(&other).await[0].settle(duly::Outcome::FailNow, "no").await.unwrap();
        }
        let before = summary(&other).await;
        proxy.deliver().await;
        assert_eq!(summary(&other).await, before, "{idle:?}");
    }
}

#[tokio::test]
async fn a_late_copy_of_a_reserve_that_found_nothing_leases_nothing_to_nobody() {
    let server = Server::start();
    // Answered when it was sent again; and given up, with another reserve behind it.
    for deadline in [Duration::from_secs(15), Duration::from_secs(2)] {
        let given_up = deadline < Duration::from_secs(10);
        let direct = server.queue(&format!("orders-{given_up}"));
        let proxy = Proxy::before(server.port()).await;
        let client = proxy.builder().deadline(deadline).fail_fast(false).build().unwrap();
        let queue = client.queue(direct.name()).unwrap();
        // The second call does not renew the client's answers any more.
        for _ in 0..2 {
            assert!(reserve(&queue).await.is_empty());
        }
        proxy.next(Fault::HoldRequest);
        let asked = {
            let queue = queue.clone();
            tokio::spawn(async move { queue.reserve(&ReserveOptions::new()).await })
        };
        proxy.happened().await;
        if given_up {
            assert_eq!(asked.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
            proxy.reopen();
            assert!(reserve(&queue).await.is_empty());
        } else {
            proxy.reopen();
            assert!(asked.await.unwrap().unwrap().is_empty());
        }
        direct.push(new_job("a")).await.unwrap();
        proxy.deliver().await;
        assert_eq!(direct.counts().await.unwrap().ready, 1, "given up: {given_up}");
    }
}

#[tokio::test]
async fn a_late_copy_does_not_undo_what_was_said_after_it() {
    let server = Server::start();
    for verb in [Verb::Pause, Verb::Resume, Verb::KeepFailed, Verb::SetLimits] {
        let (proxy, client) = behind(&server).await;
        let queue = client.queue(&format!("{verb:?}")).unwrap();
        // The server must know the script: a late copy of an unknown one does nothing anyway.
        let warm = server.queue(&format!("warm-{verb:?}"));
        verb.run(&warm, &verb.prepare(&warm).await).await.unwrap();
        let prepared = Arc::new(verb.prepare(&server.queue(&format!("{verb:?}"))).await);
        proxy.next(Fault::HoldRequest);
        let call = {
            let (queue, prepared) = (queue.clone(), Arc::clone(&prepared));
            tokio::spawn(async move { verb.run(&queue, &prepared).await })
        };
        proxy.happened().await;
        proxy.reopen();
        call.await.unwrap().unwrap();
        match verb {
            Verb::Pause => queue.resume().await.unwrap(),
            Verb::Resume => queue.pause().await.unwrap(),
            Verb::SetLimits => queue.set_limits(&duly::Limits::new()).await.unwrap(),
            _ => queue.keep_failed(1000, Duration::from_secs(1)).await.unwrap(),
        }
        let before = server.dump(":call:");
        proxy.deliver().await;
        assert_eq!(server.dump(":call:"), before, "{verb:?}");
    }
}

/// A call of another queue that is on its way for seconds: the next call of this client goes through another slot than the
/// last one of `queue`. It waits for a replica that there is not.
async fn busy_slot(server: &Server, client: &duly::Client) -> tokio::task::JoinHandle<()> {
    let queue = client.queue("busy").unwrap();
    let call = tokio::spawn(async move {
        let job = new_job("busy").durability(duly::Durability::Replicas { count: 1 });
        drop(queue.push(job).await);
    });
    let direct = server.queue("busy");
    support::eventually("the call of the other queue is on its way", || async {
        direct.counts().await.unwrap().ready == 1
    })
    .await;
    call
}

#[tokio::test]
async fn a_call_that_was_given_up_does_not_win_over_a_newer_one_that_uses_another_slot() {
    let server = Server::start();
    for verb in [Verb::Pause, Verb::Resume, Verb::KeepFailed, Verb::SetLimits, Verb::Cancel, Verb::Reschedule] {
        let (proxy, client) = behind(&server).await;
        let queue = client.queue(&format!("{verb:?}")).unwrap();
        let direct = server.queue(queue.name());
        // The server must know the script: a late copy of an unknown one does nothing anyway.
        let warm = server.queue(&format!("warm-{verb:?}"));
        drop(verb.run(&warm, &verb.prepare(&warm).await).await.unwrap());
        let prepared = verb.prepare(&direct).await;
        proxy.next(Fault::HoldRequest);
        let given_up = {
            let queue = queue.clone();
            tokio::spawn(async move { verb.run(&queue, &prepared).await })
        };
        proxy.happened().await;
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
        proxy.reopen();
        let busy = busy_slot(&server, &client).await;
        match verb {
            Verb::Pause => queue.resume().await.unwrap(),
            Verb::Resume => queue.pause().await.unwrap(),
            Verb::SetLimits => queue.set_limits(&duly::Limits::new()).await.unwrap(),
            Verb::KeepFailed => queue.keep_failed(1000, Duration::from_secs(1)).await.unwrap(),
            // The job is cancelled and comes again, or is to run now after all.
            Verb::Cancel => drop(queue.push(new_job("a").on_duplicate(OnDuplicate::Replace)).await.unwrap()),
            _ => drop(queue.reschedule("a", duly::When::Now).await.unwrap()),
        }
        busy.abort();
        let before = server.dump(":call:");
        proxy.deliver().await;
        assert_eq!(server.dump(":call:"), before, "{verb:?}");
        let is_named = |key: &String| key.contains(&format!("{{{verb:?}}}:call")) && key.contains("=1 superseded");
        assert!(server.dump("").iter().any(is_named), "{verb:?} used the same slot");
        server.client().queue("busy").unwrap().purge(State::Ready).await.unwrap();
    }
}

#[tokio::test]
async fn a_reserve_that_was_given_up_leases_nothing_to_nobody_whatever_was_called_of_another_queue() {
    let server = Server::start();
    let direct = server.queue("orders");
    let proxy = Proxy::before(server.port()).await;
    let client = proxy.builder().deadline(Duration::from_secs(2)).fail_fast(false).build().unwrap();
    let (queue, other) = (client.queue("orders").unwrap(), client.queue("other").unwrap());
    // The second call to each does not renew the client's answers any more.
    for queue in [&queue, &other, &queue, &other] {
        assert!(reserve(queue).await.is_empty());
    }
    proxy.next(Fault::HoldRequest);
    assert_eq!(queue.reserve(&ReserveOptions::new()).await.unwrap_err().kind(), ErrorKind::Timeout);
    proxy.reopen();
    assert!(reserve(&other).await.is_empty());
    assert!(reserve(&queue).await.is_empty());
    direct.push(new_job("a")).await.unwrap();
    proxy.deliver().await;
    assert_eq!(direct.counts().await.unwrap().ready, 1);
}

/// The call is given up, and the schedule is removed by another one before its copy comes.
#[tokio::test]
async fn a_late_copy_of_a_put_does_not_bring_a_schedule_back() {
    let server = Server::start();
    let (proxy, client) = behind(&server).await;
    let queue = client.queue("orders").unwrap();
    let yearly = duly::Schedule::cron("@yearly", NewJob::new(&1).unwrap()).unwrap();
    proxy.next_behind(1, Fault::HoldRequest);
    let put = tokio::spawn({
        let (queue, yearly) = (queue.clone(), yearly.clone());
        async move { queue.schedules().put("a", &yearly).await.unwrap() }
    });
    proxy.happened().await;
    proxy.reopen();
    put.await.unwrap();
    assert!(queue.schedules().remove("a").await.unwrap());
    proxy.deliver().await;
    assert!(queue.schedules().get("a").await.unwrap().is_none());
}
