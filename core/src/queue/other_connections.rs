//! Other connections than a worker's or a program's own, for what must not wait behind a large call there: renewals.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Part;
use super::client::{Client, Shared};
use super::registration::Registration;
use crate::value::error::Error;

/// The queues of a worker have them in common, and the locks of a client. Whoever needs them last closes them.
#[derive(Default)]
pub(crate) struct OtherConnections(Mutex<Weak<Shared>>);

impl OtherConnections {
    /// This queue over other connections, which are there for as long as what is given here.
    ///
    /// Errors: `InvalidArgument` if its client is closed.
    pub(crate) fn queue(&self, of: &Part) -> Result<Part, Error> {
        Ok(Part::new(self.client(&of.client)?, of.name(), Registration::none()))
    }

    /// The same, of a client.
    pub(crate) fn client(&self, of: &Client) -> Result<Client, Error> {
        // Nothing that is done under the lock can panic, so a poisoned one is still whole.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match last.upgrade() {
            Some(shared) => Client { shared },
            None => of.for_worker(of.shared.listener.clone())?,
        };
        *last = Arc::downgrade(&client.shared);
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn queues_have_them_in_common_until_nobody_needs_them() {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let others = OtherConnections::default();
        let (a, b) = (client.queue_or_part("a").unwrap(), client.queue_or_part("b").unwrap());
        let (of_a, of_b) = (others.queue(&a).unwrap(), others.queue(&b).unwrap());
        assert!(Arc::ptr_eq(&of_a.client.shared, &of_b.client.shared));
        assert!(!Arc::ptr_eq(&of_a.client.shared, &client.shared));
        drop((of_a, of_b));
        assert!(others.0.lock().unwrap().upgrade().is_none());
    }
}
