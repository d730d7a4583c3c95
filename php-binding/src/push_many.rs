//! `Queue::pushMany` and what it gives: `Duly\PushSummary`.

use duly::Pushed;
use duly::blocking::Interrupt;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ExecutorGlobals;

use crate::convert::{Text, utf8};
use crate::error::Fault;
use crate::interrupt::Signals;
use crate::new_job::NewJob;
use crate::record::record;

record! {
    /// How a long push went.
    PushSummary = "Duly\\PushSummary" {
        /// Jobs that are new in the queue.
        created: i64,
        /// Jobs that were not pushed because another stays in their place.
        kept: i64,
        /// Jobs that took another's place.
        replaced: i64,
        /// Jobs that were refused because another has their id or key.
        duplicates: i64,
        /// The id of the job that is in the queue now, for each job; null unless asked for.
        ids: Option<Vec<String>>,
    }
}

/// Takes jobs from an iterable a batch at a time, so that a generator of millions needs no memory.
pub fn push_many(
    jobs: &Zval,
    ids: bool,
    durability: Option<Text>,
    mut push: impl FnMut(Vec<duly::NewJob>) -> Result<Vec<Pushed>, Fault>,
) -> Result<PushSummary, Fault> {
    let durability = utf8("durability", durability)?.map(|word| word.parse()).transpose()?;
    // Not by reference: a generator expression must do.
    let mut jobs = jobs.shallow_clone();
    let mut iterable =
        jobs.iterable().ok_or_else(|| Fault::invalid("jobs must be an iterable of Duly\\NewJob or arrays"))?;
    let mut items = iterable.iter().ok_or_else(|| Fault::invalid("jobs cannot be iterated"))?;
    let mut summary = PushSummary { created: 0, kept: 0, replaced: 0, duplicates: 0, ids: ids.then(Vec::new) };
    loop {
        let mut batch = Vec::new();
        for (_, item) in items.by_ref().take(duly::MAX_BATCH) {
            batch.push(NewJob::from_item(&item)?.durability_unless_given(durability));
        }
        if ExecutorGlobals::has_exception() {
            return Err(Fault::Thrown);
        }
        if batch.is_empty() {
            return Ok(summary);
        }
        for pushed in push(batch)? {
            match &pushed {
                Pushed::Created { .. } => summary.created += 1,
                Pushed::Kept { .. } => summary.kept += 1,
                Pushed::Replaced { .. } => summary.replaced += 1,
                _ => summary.duplicates += 1,
            }
            if let Some(ids) = &mut summary.ids {
                ids.push(pushed.id().to_owned());
            }
        }
        Signals.check()?;
    }
}
