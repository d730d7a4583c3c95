//! Ends what takes too long: a run whose timeout is over, and all that runs when the grace is.
//!
//! Beside the fetch loop, which may be waiting for a server that does not answer.

use std::convert::Infallible;
use std::future::pending;

use super::desk::Desk;
use crate::process::alarm;

/// Never ends.
pub(super) async fn watch(desk: &Desk) -> Infallible {
    loop {
        let next = desk.end_overdue();
        let rings = async {
            match next {
                Some(at) => alarm::at(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = rings => {}
            () = desk.timer_is_late() => {}
        }
    }
}
