//! The queues, and the topics, that a client was asked for lately: each is the same one every time, so that what it knows (the levels in use, and whether
//! there are limits; see `part.rs`) is not learnt anew, and calls of many callers travel together.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use crate::queue::part::PartShared;

/// Names can be many: between so many and twice as many are kept, those that were asked for last.
const MOST: usize = 256;

#[derive(Default)]
pub(crate) struct KnownQueues {
    lately: HashMap<String, Arc<PartShared>>,
    before: HashMap<String, Arc<PartShared>>,
}

impl KnownQueues {
    /// The queue of this name, made now if it is not known.
    pub(crate) fn get(&mut self, name: &str, make: impl FnOnce() -> Arc<PartShared>) -> Arc<PartShared> {
        if let Some(known) = self.lately.get(name) {
            return Arc::clone(known);
        }
        let known = self.before.remove(name).unwrap_or_else(make);
        if self.lately.len() >= MOST {
            self.before = mem::take(&mut self.lately);
        }
        self.lately.insert(name.to_owned(), Arc::clone(&known));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::registration::Registration;
    use crate::script::{Clock, Levels};

    fn make(name: &str) -> Arc<PartShared> {
        PartShared::new("duly:", name.to_owned(), Clock::Server, Levels::one(5), Registration::none())
    }

    #[test]
    fn a_queue_that_is_asked_for_again_and_again_stays_the_same() {
        let mut known = KnownQueues::default();
        let first = known.get("q", || make("q"));
        for number in 0..10 * MOST {
            let name = format!("q{number}");
            known.get(&name, || make(&name));
            assert!(Arc::ptr_eq(&known.get("q", || make("q")), &first));
        }
        assert!(known.lately.len() + known.before.len() <= 2 * MOST);
    }

    #[test]
    fn a_queue_that_nobody_asks_for_is_forgotten() {
        let mut known = KnownQueues::default();
        let first = Arc::downgrade(&known.get("q", || make("q")));
        for number in 0..2 * MOST {
            let name = format!("q{number}");
            known.get(&name, || make(&name));
        }
        assert!(first.upgrade().is_none());
    }
}
