//! `Queue::pushMany` and what it gives: `Duly\PushSummary`.

use duly::Pushed;
use duly::blocking::Interrupt;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;

use crate::convert::{Text, utf8};
use crate::error::{Fault, Pushing};
use crate::interrupt::Signals;
use crate::iterate::each;
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

impl PushSummary {
    /// How many jobs it is about.
    pub fn total(&self) -> i64 {
        self.created + self.kept + self.replaced + self.duplicates
    }

    fn add(&mut self, outcomes: &[Pushed]) {
        for pushed in outcomes {
            match pushed {
                Pushed::Created { .. } => self.created += 1,
                Pushed::Kept { .. } => self.kept += 1,
                Pushed::Replaced { .. } => self.replaced += 1,
                _ => self.duplicates += 1,
            }
            if let Some(ids) = &mut self.ids {
                ids.push(pushed.id().to_owned());
            }
        }
    }

    /// The error of a job at this place behind those that are counted here.
    fn error_at(&self, index: usize, fault: Fault) -> Fault {
        match fault {
            Fault::Duly(error) => {
                let index = self.total() + i64::try_from(index).unwrap_or_default();
                Fault::Pushing(Box::new(Pushing { error, index, pushed: self.clone() }))
            }
            fault => fault,
        }
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
    let mut summary = PushSummary { created: 0, kept: 0, replaced: 0, duplicates: 0, ids: ids.then(Vec::new) };
    let mut batch = Vec::new();
    let mut flush = |batch: &mut Vec<duly::NewJob>, summary: &mut PushSummary| -> Result<(), Fault> {
        let outcomes = push(std::mem::take(batch)).map_err(|fault| {
            let index = if let Fault::Duly(error) = &fault { error.batch_index() } else { None };
            summary.error_at(index.unwrap_or_default(), fault)
        })?;
        summary.add(&outcomes);
        Signals.check()
    };
    let walked = each(jobs, |item| {
        let job = NewJob::from_item(item).map_err(|fault| summary.error_at(batch.len(), fault))?;
        batch.push(job.durability_unless_given(durability));
        if batch.len() == duly::MAX_BATCH { flush(&mut batch, &mut summary) } else { Ok(()) }
    })?;
    walked.ok_or_else(|| Fault::invalid("jobs must be an iterable of Duly\\NewJob or arrays"))?;
    if !batch.is_empty() {
        flush(&mut batch, &mut summary)?;
    }
    Ok(summary)
}
