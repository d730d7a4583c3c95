//! Renews the leases of what a worker holds, three times a lease.

use std::convert::Infallible;
use std::time::Duration;

use super::desk::Desk;
use crate::queue::{MAX_BATCH, Queue};

/// Never ends. Lost leases are told to the desk.
pub(super) async fn leases(desk: &Desk, queues: &[Queue], lease: Duration) -> Infallible {
    let every = lease / 3;
    let mut next = tokio::time::Instant::now() + every;
    loop {
        tokio::time::sleep_until(next).await;
        next = tokio::time::Instant::now() + every;
        for (lane, queue) in queues.iter().enumerate() {
            for held in desk.leases(lane).chunks(MAX_BATCH) {
                // An outage is not the end of a lease: whoever holds it when the server is back goes on.
                let Ok(flags) = queue.extend_leases(held, lease).await else { continue };
                let lost: Vec<_> = held.iter().zip(flags).filter(|(_, kept)| !kept).map(|(it, _)| it.clone()).collect();
                if !lost.is_empty() {
                    desk.lost(lane, &lost);
                }
            }
        }
    }
}
