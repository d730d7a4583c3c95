//! Events that a client notices and that no call's answer reports.

use std::fmt;
use std::sync::Arc;

/// Something that the user of a client may want to log or act on.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// The server has none of what it kept of this queue (or lock, or topic) some minutes ago. Reported by each client that used the queue
    /// within the last five minutes, at its next call, once each time that it happens; the call itself is made as always.
    DataLost {
        /// The queue's name; of a partitioned queue that of the part.
        queue: String,
    },
}

impl fmt::Display for ClientEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::DataLost { queue } = self;
        write!(
            f,
            "the server has lost what it kept of {queue}: somebody emptied its database (a FLUSHDB, the clear of a cache), or it \
             started again without its data, or its clock was set forward. Unless it was the clock, the jobs pushed before are gone: \
             give duly a server of its own that keeps its data, and push again what is missing"
        )
    }
}

type Hears = dyn Fn(&ClientEvent) + Send + Sync;

/// The listener for events; the log, if there is none.
#[derive(Clone, Default)]
pub(crate) struct Listener(Option<Arc<Hears>>);

impl Listener {
    pub(crate) fn new(hears: impl Fn(&ClientEvent) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hears)))
    }

    pub(crate) fn hear(&self, event: &ClientEvent) {
        if let Some(hears) = &self.0 {
            hears(event);
        } else {
            tracing::warn!("{event}");
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener" } else { "nobody" })
    }
}
