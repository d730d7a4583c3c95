//! A push of many jobs as the skins make it: they read the jobs from iterables of their languages, a batch at a time.

use crate::queue::{PushSummary, Pushed};
use crate::value::error::{Error, pushed_before};

/// How a long push goes.
#[derive(Debug, Default)]
pub struct LongPush {
    summary: PushSummary,
    ids: Option<Vec<String>>,
}

impl LongPush {
    /// One that begins, and keeps the ids if asked to.
    pub fn new(keep_ids: bool) -> Self {
        Self { summary: PushSummary::default(), ids: keep_ids.then(Vec::new) }
    }

    /// A batch was pushed.
    pub fn add(&mut self, pushed: &[Pushed]) {
        self.summary.add(pushed);
        if let Some(ids) = &mut self.ids {
            ids.extend(pushed.iter().map(|pushed| pushed.id().to_owned()));
        }
    }

    /// How the batches so far went.
    pub fn summary(&self) -> &PushSummary {
        &self.summary
    }

    /// The id of the job that is in the queue now, for each job so far; nothing unless they are kept.
    pub fn ids(&self) -> Option<&[String]> {
        self.ids.as_deref()
    }

    /// The same at the end, which may be very many.
    pub fn into_ids(self) -> Option<Vec<String>> {
        self.ids
    }

    /// How many jobs the batches so far had.
    pub fn total(&self) -> u64 {
        self.summary.total()
    }

    /// Says how many jobs are pushed, for an exception of the language that ends the push; nothing if none are.
    pub fn said_before(&self, queue: &str) -> Option<String> {
        let total = self.total();
        (total > 0).then(|| format!("push_many on queue '{queue}': {}", pushed_before(total)))
    }

    /// The error of a job at this index of the next batch, which the language refused itself.
    #[must_use]
    pub fn refused(&self, index: usize, error: Error) -> Error {
        error.at_index(index).after_jobs(self.total())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_and_ids_are_kept_in_order() {
        let id = |id: &str| id.to_owned();
        let pushed = [
            Pushed::Created { id: id("a") },
            Pushed::Kept { id: id("b") },
            Pushed::Replaced { id: id("c"), replaced: id("b") },
            Pushed::Duplicate { id: id("a") },
            Pushed::Created { id: id("d") },
        ];
        let mut push = LongPush::new(true);
        push.add(&pushed[..3]);
        push.add(&pushed[3..]);
        let summary = PushSummary { created: 2, kept: 1, replaced: 1, duplicates: 1 };
        assert_eq!((push.summary(), push.total()), (&summary, 5));
        assert_eq!(push.ids().unwrap(), ["a", "b", "c", "a", "d"]);
        assert_eq!(LongPush::new(false).ids(), None);
    }

    #[test]
    fn what_ends_a_push_is_told_how_many_jobs_are_pushed() {
        let mut push = LongPush::new(false);
        assert_eq!(push.said_before("q"), None);
        push.add(&[Pushed::Created { id: "a".to_owned() }]);
        let said = push.said_before("q");
        assert_eq!(said.as_deref(), Some("push_many on queue 'q': 1 job of the batches before is pushed"));
    }

    #[test]
    fn a_refused_job_is_named_by_its_index_among_all() {
        let mut push = LongPush::new(false);
        let said = |error: Error| (error.to_string(), error.batch_index());
        let refused = push.refused(2, Error::invalid("no"));
        assert_eq!(said(refused), ("no (at index 2; 0 jobs of the batches before are pushed)".to_owned(), Some(2)));
        push.add(&[Pushed::Created { id: "a".to_owned() }]);
        let refused = push.refused(2, Error::invalid("no"));
        assert_eq!(said(refused), ("no (at index 3; 1 job of the batches before is pushed)".to_owned(), Some(3)));
        let of_the_batch = Error::invalid("no").after_jobs(1);
        assert_eq!(said(of_the_batch), ("no (1 job of the batches before is pushed)".to_owned(), None));
        assert_eq!(said(Error::invalid("no").after_jobs(0)), ("no".to_owned(), None));
    }
}
