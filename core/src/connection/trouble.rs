//! The meaning of one failed attempt: the error to report if it was the last one, and what to do before the next.

use super::address::Address;
use crate::value::error::{Error, ErrorKind};

/// One failed attempt.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// Boxed: this is the `Err` of everything here, and must not make every `Ok` large.
    pub(super) error: Box<Error>,
    pub(super) next: Next,
    /// The bytes may have reached the server and no answer came back.
    pub(super) may_have_run: bool,
    /// A client that has never worked should hear this at once: the address or the password is likely wrong.
    pub(super) final_when_new: bool,
    /// Nobody's leases can be renewed meanwhile.
    pub(super) outage: Option<Away>,
}

/// What a server does for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Away {
    /// Anything, as far as is known.
    ForAll,
    /// What writes; calls that only read are answered.
    ForWrites,
}

/// The step before the same call is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: the answer would be the same.
    GiveUp,
    /// The link is fine, the server is not ready.
    Wait,
    /// The same, and perhaps another server has the queue by now.
    AskAgain,
    /// The link, or the server behind it, is the wrong one by now.
    Reconnect,
    /// The slot lives elsewhere from now on (cluster).
    Moved { slot: u16, to: Option<Address> },
    /// The slot is moving and this call belongs to its next home (cluster).
    Ask { to: Option<Address> },
}

impl Trouble {
    /// The server answered: no, and it would say no again.
    pub(super) fn refused(error: Error) -> Self {
        Self { error: Box::new(error), next: Next::GiveUp, may_have_run: false, final_when_new: true, outage: None }
    }

    /// The same, of all writes as far as is known: its disk is full, or a permission was withdrawn while jobs run.
    pub(super) fn writes_refused(error: Error) -> Self {
        Self { outage: Some(Away::ForWrites), ..Self::refused(error) }
    }

    /// The server answered: not now.
    pub(super) fn not_now(error: Error) -> Self {
        Self { next: Next::Wait, final_when_new: false, outage: Some(Away::ForAll), ..Self::refused(error) }
    }

    /// The server answered, and the answer means that we talk to the wrong one, or as nobody.
    pub(super) fn wrong_server(error: Error) -> Self {
        Self { next: Next::Reconnect, outage: Some(Away::ForAll), ..Self::refused(error) }
    }

    /// No connection came to be, so nothing was sent.
    pub(super) fn no_connection(error: Error) -> Self {
        Self::wrong_server(error)
    }

    /// What a new connection was refused for: a wrong setting to a client that has never worked, an outage to others.
    pub(super) fn of_a_new_connection(self) -> Self {
        match self.next {
            Next::GiveUp => Self::wrong_server(*self.error),
            _ => self,
        }
    }

    /// The connection was lost, or fell silent, after the call went out.
    pub(super) fn no_answer(error: Error) -> Self {
        Self { may_have_run: true, final_when_new: false, ..Self::no_connection(error) }
    }

    pub(super) fn redirected(next: Next) -> Self {
        let error = Error::new(ErrorKind::Busy, "the cluster is moving this queue from one server to another");
        Self { next, final_when_new: false, ..Self::refused(error) }
    }
}
