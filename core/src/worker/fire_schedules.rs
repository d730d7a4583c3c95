//! Fires the schedules of each queue when they are due, beside the fetch loop, so that busy handlers hold up none.
//!
//! Of all workers of a queue one has promised to come back for the next slot, and the others look shortly after: who has promised may
//! be dead. A promise saves calls and decides nothing, because the script fires each slot once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::desk::{Beside, Desk};
use super::event::BesideJobs;
use crate::connection::Backoff;
use crate::process::{alarm, host};
use crate::queue::Part;

/// How long after a moment that another worker has promised to look, and up to as much again.
const MARGIN: Duration = Duration::from_millis(250);
/// What a beat says of the next moment is as exact as this.
const BEAT: Duration = Duration::from_millis(20);

/// A task for each queue, until the worker is over.
pub(super) fn watch(queues: &[Part], desk: &Arc<Desk>) -> JoinSet<()> {
    let mut lanes = JoinSet::new();
    for (lane, queue) in queues.iter().enumerate() {
        lanes.spawn(keep_time(lane, queue.clone(), Arc::clone(desk)));
    }
    lanes
}

async fn keep_time(lane: usize, queue: Part, desk: Arc<Desk>) {
    let mut over = std::pin::pin!(desk.until_over());
    let mut promise = 0;
    let mut backoff = Backoff::default();
    let mut beside = Beside::of(&desk, queue.name(), BesideJobs::Schedules);
    // Nothing until a beat says that there are schedules.
    let mut look_at: Option<Instant> = None;
    loop {
        let rings = async {
            match look_at {
                Some(at) => alarm::at(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut over => return,
            () = desk.schedules_changed(lane) => {}
            () = rings => {}
        }
        if let Some(fires_at) = desk.take_schedule(lane) {
            // Where another worker has promised, it is to have the time to do it.
            let latest = fires_at + if promise > 0 { BEAT } else { 2 * MARGIN };
            if look_at.is_some_and(|known| known <= latest) {
                continue;
            }
        }
        look_at = loop {
            let looked = tokio::select! {
                () = &mut over => return,
                looked = queue.fire_some_due(promise) => looked,
            };
            let looked = match looked {
                Ok(looked) => looked,
                Err(error) if error.is_of_the_server() => {
                    beside.failed(&error);
                    backoff.rest().await;
                    break Some(Instant::now());
                }
                Err(error) => return desk.fails(error),
            };
            beside.worked();
            promise = looked.promised;
            if looked.is_unfinished && !looked.has_fired {
                // Others were first; or somebody else has written what no call can fire.
                backoff.rest().await;
            } else {
                backoff = Backoff::default();
            }
            if !looked.is_unfinished {
                let wait = looked.next_in.map(|next_in| if promise > 0 { next_in } else { next_in + late() });
                break wait.map(|wait| Instant::now() + wait);
            }
        };
    }
}

fn late() -> Duration {
    MARGIN.mul_f64(1.0 + host::random_fraction())
}
