//! Renews the leases of what a worker holds, three times a lease.

use std::convert::Infallible;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::appetite::Appetite;
use super::desk::{Desk, Outage};
use crate::queue::{MAX_BATCH, MAX_LEASE, OtherConnections, Part};
use crate::value::error::Error;

/// A renewal that has waited so long for its answer may be behind a large call or a large answer on the same connection, and is
/// sent over another one as well.
const HELD_UP: Duration = Duration::from_millis(500);
/// With short leases earlier: after this part of a lease.
const PART_OF_LEASE: u32 = 6;

/// Never ends. The desk hears of kept and lost leases, and of outages: while all handlers are busy, nobody else calls.
pub(super) async fn leases(desk: &Arc<Desk>, queues: Vec<Part>, lease: Duration) -> Infallible {
    // Each queue by itself: one whose node is away must not hold up the others.
    let mut lanes = JoinSet::new();
    let others = Arc::new(OtherConnections::default());
    for (lane, queue) in queues.into_iter().enumerate() {
        lanes.spawn(of_queue(Arc::clone(desk), lane, queue, lease, Arc::clone(&others)));
    }
    match lanes.join_next().await {
        Some(Ok(never)) => match never {},
        Some(Err(panicked)) => resume_unwind(panicked.into_panic()),
        None => pending().await,
    }
}

async fn of_queue(
    desk: Arc<Desk>,
    lane: usize,
    queue: Part,
    lease: Duration,
    others: Arc<OtherConnections>,
) -> Infallible {
    let every = lease / 3;
    let mut next = tokio::time::Instant::now() + every;
    let mut beside = None;
    let mut appetite = Appetite::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = desk.needs_renewal(lane) => {}
        }
        next = tokio::time::Instant::now() + every;
        let mut is_held_up = false;
        // Where the answer takes most of a lease to come, one of the usual length would be unsure by then, and nothing would start.
        let lease_time = lease.saturating_add(appetite.lateness()).min(MAX_LEASE);
        for held in desk.begin_renewal(lane, Instant::now(), lease_time).chunks(MAX_BATCH) {
            let (asked_at, outage) = (Instant::now(), Outage::of_call(&desk));
            let has_failed = AtomicBool::new(false);
            // An outage is not the end of a lease: whoever holds it when the server is back goes on. And it is over when this
            // call is answered, not when there is nothing left to renew.
            let keep_trying = |error: &Error| {
                // No earlier success is asked for, as elsewhere: a worker that holds leases has had one.
                let goes_on = error.is_of_the_server();
                if goes_on {
                    has_failed.store(true, Ordering::Relaxed);
                    outage.failed(error);
                }
                goes_on
            };
            let first = queue.extend_leases_until(held, lease_time, &keep_trying);
            let passes = async {
                tokio::time::sleep(HELD_UP.min(lease / PART_OF_LEASE)).await;
                // What has failed is in an outage, and behind no large call.
                if has_failed.load(Ordering::Relaxed) {
                    return pending().await;
                }
                is_held_up = true;
                match renew_beside(&mut beside, &others, &queue, held, lease_time).await {
                    Ok(kept) => kept,
                    Err(_) => pending().await,
                }
            };
            let kept = tokio::select! {
                kept = first => kept,
                kept = passes => Ok(kept),
            };
            if let Ok(kept) = kept {
                // An outage says nothing of the line.
                if !has_failed.load(Ordering::Relaxed) {
                    appetite.learn_lateness(asked_at.elapsed(), lease);
                }
                desk.renewed(lane, held, &kept, asked_at, lease_time);
            }
        }
        // Also if there was nothing to renew.
        if !is_held_up {
            beside = None;
        }
    }
}

/// Renews over another connection than the queue's own, which is kept in `beside`. Whatever happens to that one it is tried again,
/// until the other way has been heard: that may take longer than a lease.
async fn renew_beside(
    beside: &mut Option<Part>,
    others: &OtherConnections,
    queue: &Part,
    held: &[(String, u64)],
    lease: Duration,
) -> Result<Vec<bool>, Error> {
    let other = match beside {
        Some(other) => other,
        None => beside.insert(others.queue(queue)?),
    };
    other.extend_leases_until(held, lease, &Error::is_of_the_server).await
}
