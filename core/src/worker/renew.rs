//! Renews the leases of what a worker holds, three times a lease.

use std::convert::Infallible;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::desk::{Desk, Outage};
use super::past::is_of_the_server;
use crate::queue::{MAX_BATCH, Queue};
use crate::value::error::Error;

/// Never ends. Kept and lost leases are told to the desk, and outages too: while all handlers are busy, nobody else calls.
pub(super) async fn leases(desk: &Arc<Desk>, queues: Vec<Queue>, lease: Duration) -> Infallible {
    // Each queue by itself: one whose node is away must not hold up the others.
    let mut lanes = JoinSet::new();
    for (lane, queue) in queues.into_iter().enumerate() {
        lanes.spawn(of_queue(Arc::clone(desk), lane, queue, lease));
    }
    match lanes.join_next().await {
        Some(Ok(never)) => match never {},
        Some(Err(panicked)) => resume_unwind(panicked.into_panic()),
        None => pending().await,
    }
}

async fn of_queue(desk: Arc<Desk>, lane: usize, queue: Queue, lease: Duration) -> Infallible {
    let every = lease / 3;
    let mut next = tokio::time::Instant::now() + every;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = desk.needs_renewal(lane) => {}
        }
        next = tokio::time::Instant::now() + every;
        for held in desk.leases(lane).chunks(MAX_BATCH) {
            let (asked_at, outage) = (Instant::now(), Outage::of_call(&desk));
            // An outage is not the end of a lease: whoever holds it when the server is back goes on. And it is over when this
            // call is answered, not when there is nothing left to renew.
            let keep_trying = |error: &Error| {
                // Who holds leases has worked.
                let goes_on = is_of_the_server(error);
                if goes_on {
                    outage.failed(error);
                }
                goes_on
            };
            if let Ok(kept) = queue.extend_leases_until(held, lease, &keep_trying).await {
                desk.renewed(lane, held, &kept, asked_at);
            }
        }
    }
}
