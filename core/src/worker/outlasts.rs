//! The calls that went well with a queue before. A wrong setting at the start of a worker is an outage for one that has worked: a password
//! that is being changed, a certificate that was not renewed in time, a permission that was taken away by mistake. It is reported,
//! and tried again.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::value::error::{Error, ErrorKind};

#[derive(Default)]
pub(super) struct Past {
    called: AtomicBool,
    waited: AtomicBool,
}

impl Past {
    pub(super) fn has_called(&self) {
        self.called.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_waited(&self) {
        self.waited.store(true, Ordering::Relaxed);
    }

    /// May a call that failed like this go well later?
    pub(super) fn calls_again(&self, error: &Error) -> bool {
        error.is_transient() || (self.called.load(Ordering::Relaxed) && error.is_of_the_server())
    }

    /// The same for a wait for wake-ups. Whoever may call may lack the permission to wait.
    pub(super) fn waits_again(&self, error: &Error) -> bool {
        let of_waits = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported);
        let went_well = if of_waits { &self.waited } else { &self.called };
        error.is_transient() || (went_well.load(Ordering::Relaxed) && error.is_of_the_server())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_new_worker_is_waited_out_by_one_that_has_worked() {
        let past = Past::default();
        let error = |kind| Error::new(kind, "no");
        let both = |kind| (past.calls_again(&error(kind)), past.waits_again(&error(kind)));
        assert_eq!(both(ErrorKind::Unreachable), (true, true));
        assert_eq!(both(ErrorKind::AuthenticationFailed), (false, false));
        past.has_called();
        assert_eq!(both(ErrorKind::AuthenticationFailed), (true, true));
        assert_eq!(both(ErrorKind::PermissionDenied), (true, false), "it never could wait");
        past.has_waited();
        assert_eq!(both(ErrorKind::PermissionDenied), (true, true));
        assert_eq!(both(ErrorKind::Corrupt), (false, false), "of the queue, and not of the server");
        assert_eq!(both(ErrorKind::FormatTooNew), (false, false));
        assert_eq!(both(ErrorKind::WrongServer), (true, true), "it has TLS now, or is part of a cluster");
        assert_eq!(both(ErrorKind::InvalidArgument), (false, false), "what is asked for is wrong each time");
    }
}
