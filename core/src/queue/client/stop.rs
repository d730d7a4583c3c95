//! Ends the calls of a command for which a signal has come.

use std::sync::Arc;

use tokio::sync::watch;

use crate::value::error::{Error, ErrorKind};

/// Ends what the clients do that were made with it: between two calls, so that the verb knows how much was done.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<Phase>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    GoesOn,
    NoMoreCalls,
    AtOnce,
}

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::GoesOn)))
    }
}

impl Stop {
    /// The call that is under way ends as it would; the next one fails with `Interrupted`, and is not sent.
    pub fn before_next_call(&self) {
        self.0.send_replace(Phase::NoMoreCalls);
    }

    /// The call that is under way fails as well; it may have been executed.
    pub fn at_once(&self) {
        self.0.send_replace(Phase::AtOnce);
    }

    /// Is anything to end?
    pub fn is_set(&self) -> bool {
        *self.0.borrow() != Phase::GoesOn
    }

    pub(super) async fn bound<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.is_set() {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted").during(operation));
        }
        let mut phases = self.0.subscribe();
        let at_once = async { _ = phases.wait_for(|phase| *phase == Phase::AtOnce).await };
        tokio::select! {
            answered = call => answered,
            () = at_once => {
                let why = "interrupted before the server answered; this call may have been executed";
                Err(Error::new(ErrorKind::Interrupted, why).during(operation))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_call_that_is_under_way_ends_unless_all_ends_at_once() {
        let stop = Stop::default();
        assert_eq!(stop.bound("purge", ready(Ok(1))).await.unwrap(), 1);
        let under_way = stop.bound("purge", async {
            stop.before_next_call();
            tokio::task::yield_now().await;
            Ok(2)
        });
        assert_eq!(under_way.await.unwrap(), 2);
        let next = stop.bound("purge", ready(Ok(3))).await.unwrap_err();
        assert_eq!((next.kind(), next.to_string().contains("may have been")), (ErrorKind::Interrupted, false));
        let stop = Stop::default();
        let silent = async {
            stop.at_once();
            pending().await
        };
        let cut: Error = stop.bound::<u8>("purge", silent).await.unwrap_err();
        assert!(cut.to_string().contains("may have been executed"), "{cut}");
    }
}
