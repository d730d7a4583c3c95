//! `Queue::pushMany` and what it gives: `Duly\PushSummary`.

use duly::Pushed;
use duly::blocking::{Interrupt, LongPush};
use ext_php_rs::convert::IntoZval as _;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;

use crate::convert::{Text, utf8};
use crate::error::{Fault, Pushing};
use crate::iterate::each;
use crate::new_job::NewJob;
use crate::record::{record, signed};
use crate::waiting::Signals;

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
    /// Of the batches so far, with the ids of their jobs.
    fn of(so_far: &LongPush, ids: Option<Vec<String>>) -> Self {
        let duly::PushSummary { created, kept, replaced, duplicates, .. } = *so_far.summary();
        Self {
            created: signed(created),
            kept: signed(kept),
            replaced: signed(replaced),
            duplicates: signed(duplicates),
            ids,
        }
    }
}

/// Takes jobs from an iterable a batch at a time, so that a generator of millions needs no memory. `push` gets a batch, and how
/// many jobs went before.
pub fn push_many(
    jobs: &Zval,
    ids: bool,
    durability: Option<Text>,
    mut push: impl FnMut(Vec<duly::NewJob>, u64) -> Result<Vec<Pushed>, Fault>,
) -> Result<PushSummary, Fault> {
    let durability = utf8("durability", durability)?.map(|word| word.parse()).transpose()?;
    let mut so_far = LongPush::new(ids);
    let mut batch = Vec::new();
    let mut flush = |batch: &mut Vec<duly::NewJob>, so_far: &mut LongPush| -> Result<(), Fault> {
        let pushed = push(std::mem::take(batch), so_far.total());
        so_far.add(&pushed.map_err(|fault| with_summary(fault, so_far))?);
        Signals.check()
    };
    let walked = each(jobs, |item| {
        let job = NewJob::from_item(item).map_err(|fault| match fault {
            Fault::Duly(error) => with_summary(so_far.refused(batch.len(), error).into(), &so_far),
            other => other,
        })?;
        batch.push(job.durability_unless_given(durability));
        if batch.len() == duly::MAX_BATCH { flush(&mut batch, &mut so_far) } else { Ok(()) }
    })?;
    walked.ok_or_else(|| Fault::invalid("jobs must be an iterable of Duly\\NewJob or arrays"))?;
    if !batch.is_empty() {
        flush(&mut batch, &mut so_far)?;
    }
    let counts = PushSummary::of(&so_far, None);
    Ok(PushSummary { ids: so_far.into_ids(), ..counts })
}

/// The error of a batch, or of one of its jobs, with what became of the batches before.
fn with_summary(fault: Fault, so_far: &LongPush) -> Fault {
    match fault {
        Fault::Duly(error) => {
            let pushed = PushSummary::of(so_far, so_far.ids().map(<[_]>::to_vec));
            let index = error.batch_index().map_or(so_far.total(), |index| index as u64);
            // A value that cannot be made leaves null: the exception must be thrown all the same.
            let pushed = pushed.into_zval(false).unwrap_or_else(|_| Zval::null());
            Fault::Pushing(Box::new(Pushing { error, index: signed(index), pushed }))
        }
        other => other,
    }
}
