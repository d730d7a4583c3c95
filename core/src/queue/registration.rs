//! A queue is put on the list of queues when a client uses it first, and again every few minutes while it is used, because
//! another client may have deleted it; a topic on the list of topics.
//!
//! The call that does so is made beside another call, and nobody waits for it: a list that cannot be written stops no queue. One that had no
//! effect is made again a few minutes later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::host;
use crate::queue::client::Client;
use crate::queue::part::{Part, PartShared};
use crate::script::{Declared, Register};

/// Under this name the list of queues lies, where others have that of a queue.
const QUEUES: &str = "queues";
/// That of topics.
const TOPICS: &str = "topics";
/// So often it is noted that a queue is in use: a little less than the time between two calls that have the server remember the client for longer.
const EVERY_MS: u64 = 240_000;
/// Ends the name of a partitioned queue on the list: one that is not partitioned may have the same name.
const PARTITIONED: char = '/';

/// How a queue is put on the list, and when its client last did that.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The name of the list.
    list: &'static str,
    /// How many partitions it has, as far as is known; 0 if it is not partitioned. `None`: it is on no list.
    partitions: Option<usize>,
    /// By this host's clock in ms; 0 for never.
    noted_at: AtomicU64,
}

impl Registration {
    const fn new(list: &'static str, partitions: Option<usize>) -> Self {
        Self { list, partitions, noted_at: AtomicU64::new(0) }
    }

    /// For what is neither a queue nor a topic.
    pub(crate) const fn none() -> Self {
        Self::new(QUEUES, None)
    }

    /// For a topic.
    pub(crate) const fn of_topic() -> Self {
        Self::new(TOPICS, Some(0))
    }

    /// For one part of so many.
    pub(crate) fn of_part_of(partitions: u16) -> Self {
        Self::new(QUEUES, Some(partitions.into()))
    }

    /// For the queue of this name, or the part of one: then there are at least so many as its number says.
    pub(crate) fn of(queue_or_part: &str) -> Self {
        let number = queue_or_part.split_once(PARTITIONED).and_then(|(_, number)| number.parse::<usize>().ok());
        Self::new(QUEUES, Some(number.map_or(0, |number| number + 1)))
    }

    /// Is it time to note that the queue is used? If so, that is noted here.
    fn is_due(&self) -> bool {
        let (now, noted) = (host::now().get(), self.noted_at.load(Ordering::Relaxed));
        let is_due = now.abs_diff(noted) >= EVERY_MS;
        is_due && self.noted_at.compare_exchange(noted, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// It is not on the list, as far as this client knows.
    pub(super) fn forget(&self) {
        self.noted_at.store(0, Ordering::Relaxed);
    }
}

/// Its name on the list.
pub(crate) fn listed_name(shared: &PartShared) -> Option<String> {
    let partitions = shared.registration.partitions?;
    let whole = shared.name.split(PARTITIONED).next().unwrap_or_default();
    Some(if partitions == 0 { whole.to_owned() } else { format!("{whole}{PARTITIONED}") })
}

/// The name of the queue that is so listed, and whether it is partitioned.
pub(crate) fn unlisted_name(listed: &str) -> (&str, bool) {
    listed.strip_suffix(PARTITIONED).map_or((listed, false), |name| (name, true))
}

impl Part {
    /// What keeps the list of queues.
    pub(crate) fn list_of_queues(client: Client) -> Self {
        Self::beside_queues(client, QUEUES)
    }

    /// What keeps the list of topics.
    pub(crate) fn list_of_topics(client: Client) -> Self {
        Self::beside_queues(client, TOPICS)
    }

    /// The queue or topic is used: puts it on the list if this client has not done so in the last minutes. Waits for nothing.
    #[cold]
    pub(crate) fn note_use(&self) {
        if !self.shared.registration.is_due() {
            return;
        }
        let Some(name) = listed_name(&self.shared) else { return };
        let (client, shared) = (self.client.clone(), Arc::clone(&self.shared));
        let partitions = shared.registration.partitions.unwrap_or(0);
        // None while somebody waits for all of them to end.
        let registering = Arc::clone(&client.shared.registering).try_read_owned().ok();
        tokio::spawn(async move {
            let _registering = registering;
            let register = Register { name, partitions };
            if Self::beside_queues(client, shared.registration.list).run(register.with([])).await.is_err() {
                shared.registration.forget();
            }
        });
    }

    /// Waits until all queues and topics are on their lists that this client has used before.
    pub(crate) async fn listed(client: &Client) {
        drop(client.shared.registering.write().await);
    }

    /// The queue or topic is being deleted: until this is dropped, its client does not list it again by the calls that do so. The next use does.
    pub(crate) fn hold_registration(&self) -> RegistrationHold<'_> {
        self.shared.registration.is_due();
        RegistrationHold(self)
    }
}

/// See [`Part::hold_registration`].
pub(crate) struct RegistrationHold<'a>(&'a Part);

impl Drop for RegistrationHold<'_> {
    fn drop(&mut self) {
        self.0.shared.registration.forget();
        self.0.client.shared.session.renew_next(self.0.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Clock, Levels};

    #[test]
    fn a_queue_and_a_partitioned_one_have_two_names_on_the_list() {
        let listed = |name: &str, registration| {
            listed_name(&PartShared::new("duly:", name.to_owned(), Clock::Server, Levels::one(5), registration))
        };
        assert_eq!(listed("orders", Registration::of("orders")).as_deref(), Some("orders"));
        assert_eq!(listed("orders/3", Registration::of("orders/3")).as_deref(), Some("orders/"));
        assert_eq!(listed("orders/3", Registration::of_part_of(8)).as_deref(), Some("orders/"));
        assert_eq!(listed("stock", Registration::none()), None, "a lock is no queue");
        assert_eq!(listed("logs", Registration::of_topic()).as_deref(), Some("logs"));
        assert_eq!(unlisted_name("orders"), ("orders", false));
        assert_eq!(unlisted_name("orders/"), ("orders", true));
    }

    #[test]
    fn one_part_says_that_there_are_those_before_it() {
        assert_eq!(Registration::of("orders/3").partitions, Some(4));
        assert_eq!(Registration::of("orders").partitions, Some(0));
    }

    #[test]
    fn a_queue_is_noted_once_in_a_while() {
        let registration = Registration::of("orders");
        assert!(registration.is_due());
        assert!(!registration.is_due());
        registration.forget();
        assert!(registration.is_due());
        let minutes_ago = |minutes: u64| host::now().get() - minutes * 60_000;
        registration.noted_at.store(minutes_ago(5), Ordering::Relaxed);
        assert!(registration.is_due(), "the client renews its memory");
        registration.noted_at.store(minutes_ago(3), Ordering::Relaxed);
        assert!(!registration.is_due());
    }
}
