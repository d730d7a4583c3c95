//! A queue that is split over several, because one server node cannot carry it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::operate::{
    AuditOptions, AuditReport, Cancelled, Counts, Found, JobView, Limits, NameLimits, Requeued, State, WorkerInfo,
    merged,
};
use crate::process::host;
use crate::queue::{
    Client, Job, MAX_BATCH, NewJob, PushSummary, Pushed, Queue, QueueWeight, ReserveOptions, Selection, Settlement,
    reserve_several,
};
use crate::script::crc16;
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::rate::Rate;
use crate::value::time::{Millis, When};

/// The most parts that a queue may have.
pub const MAX_PARTITIONS: u16 = 256;

/// A queue in parts, each with its own hash tag, so that a cluster spreads them over its nodes. It has the methods of a
/// [`Queue`].
///
/// A job's part is chosen by its key, or else by its id (CRC-16 modulo the number of parts), so all clients must use the
/// same number; to change it, drain the queue first. The costs: priorities and order hold within a part only. A reserve may
/// check every part before it finds a job, and an idle worker has a blocked connection for each. Counts and operations on
/// all jobs make one call for each part, one after the other, so their sum is no snapshot. A job that is not where it should
/// be is searched in all parts. A job with a key and an id of your own is found by its id with one call for each part, and
/// such an id is unique within a part only.
#[derive(Debug, Clone)]
pub struct Partitions {
    name: String,
    parts: Vec<QueueWeight>,
}

impl Client {
    /// The queue of this name in this many parts (1 to 256): `{name/0}`, `{name/1}`, ... Nothing is sent.
    ///
    /// Errors: `InvalidArgument`.
    pub fn partitioned_queue(&self, name: &str, count: u16) -> Result<Partitions, Error> {
        name::check_queue(name)?;
        if count == 0 || count > MAX_PARTITIONS {
            return Err(Error::invalid(format!("a queue has 1 to {MAX_PARTITIONS} partitions, not {count}")));
        }
        let part = |number| QueueWeight::new(Queue::new(self.clone(), &format!("{name}/{number}")), 1);
        Ok(Partitions { name: name.to_owned(), parts: (0..count).map(part).collect() })
    }
}

impl Client {
    /// The queue of this name, which may be one of the parts of a partitioned queue (`orders/0`): a worker serves both.
    pub(crate) fn queue_or_part(&self, name: &str) -> Result<Queue, Error> {
        check_queue_or_part(name)?;
        Ok(Queue::new(self.clone(), name))
    }
}

/// Errors: `InvalidArgument`.
pub(crate) fn check_queue_or_part(name: &str) -> Result<(), Error> {
    match name.rsplit_once('/') {
        // As `partitioned_queue` spells them: `orders/007` would be a queue of its own.
        Some((whole, part)) if part.parse().is_ok_and(|n: u16| n < MAX_PARTITIONS && n.to_string() == part) => {
            name::check_queue(whole)
        }
        _ => name::check_queue(name),
    }
}

impl Partitions {
    /// The name of the whole.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parts. Each is a queue of its own.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &Queue> {
        self.parts.iter().map(|part| &part.queue)
    }

    fn part_index(&self, text: &str) -> usize {
        usize::from(crc16(text.as_bytes())) % self.parts.len()
    }

    fn part_of(&self, text: &str) -> &Queue {
        &self.parts[self.part_index(text)].queue
    }

    /// The part where an id should be, then the others.
    fn likely_parts(&self, id: &str) -> impl Iterator<Item = &Queue> {
        let first = self.part_index(id);
        let (before, from) = self.parts.split_at(first);
        from.iter().chain(before).map(|part| &part.queue)
    }

    /// Where a new job goes; an id is made so that the job is found by it.
    fn assign(&self, job: NewJob) -> Result<(usize, NewJob), Error> {
        let client = &self.parts[0].queue.client;
        let by_key = job.given_key().map(|key| self.part_index(key));
        if let Some(id) = job.given_id() {
            return Ok((by_key.unwrap_or_else(|| self.part_index(id)), job));
        }
        loop {
            let id = client.shared.ids.next(host::now())?;
            let part = self.part_index(id.as_str());
            if by_key.is_none_or(|by_key| by_key == part) {
                return Ok((part, job.with_made_id(id)));
            }
        }
    }

    /// See [`Queue::push`].
    pub async fn push(&self, job: NewJob) -> Result<Pushed, Error> {
        let (part, job) = self.assign(job).map_err(|error| error.during("push").in_queue(&self.name))?;
        self.parts[part].queue.push(job).await
    }

    /// See [`Queue::push_batch`]; one call a part at least, and when one fails the parts before it have theirs.
    pub async fn push_batch(&self, jobs: Vec<NewJob>) -> Result<Vec<Pushed>, Error> {
        let in_push = |error: Error| error.during("push").in_queue(&self.name);
        if jobs.len() > MAX_BATCH {
            let message = format!("a batch has at most {MAX_BATCH} jobs: use push_many, which cuts it up");
            return Err(in_push(Error::new(ErrorKind::TooLarge, message)));
        }
        let mut by_part: Vec<(Vec<usize>, Vec<NewJob>)> = self.parts.iter().map(|_| Default::default()).collect();
        let count = jobs.len();
        for (at, job) in jobs.into_iter().enumerate() {
            let (part, job) = self.assign(job).map_err(in_push)?;
            by_part[part].0.push(at);
            by_part[part].1.push(job);
        }
        let mut in_order: Vec<Option<Pushed>> = vec![None; count];
        for (part, (indexes, jobs)) in self.parts.iter().zip(by_part).filter(|(_, (indexes, _))| !indexes.is_empty()) {
            let outcomes = part.queue.push_batch(jobs).await;
            let outcomes =
                outcomes.map_err(|error| match error.batch_index().and_then(|index| indexes.get(index)) {
                    Some(&index) => error.at_index(index),
                    None => error,
                })?;
            for (at, pushed) in indexes.into_iter().zip(outcomes) {
                in_order[at] = Some(pushed);
            }
        }
        Ok(in_order.into_iter().flatten().collect())
    }

    /// See [`Queue::push_many`].
    pub async fn push_many<I>(&self, jobs: I, mut progress: impl FnMut(&[Pushed])) -> Result<PushSummary, Error>
    where
        I: IntoIterator<Item = NewJob>,
    {
        let mut summary = PushSummary::default();
        let mut jobs = jobs.into_iter();
        loop {
            let batch: Vec<NewJob> = jobs.by_ref().take(MAX_BATCH).collect();
            if batch.is_empty() {
                return Ok(summary);
            }
            let outcomes = self.push_batch(batch).await.map_err(|error| error.after_jobs(summary.total()))?;
            summary.add(&outcomes);
            progress(&outcomes);
        }
    }

    /// See [`Queue::reserve`]; the parts in a new random order each time.
    pub async fn reserve(&self, options: &ReserveOptions) -> Result<Vec<Job>, Error> {
        reserve_several(&self.parts, Selection::Weighted, options).await
    }

    /// See [`Queue::settle_all`]; the jobs may be of any part.
    pub async fn settle_all(&self, settlements: &[Settlement<'_>]) -> Result<Vec<bool>, Error> {
        let mut settled = vec![false; settlements.len()];
        for part in self.parts() {
            let of_part = |one: &&Settlement<'_>| one.job.queue().name() == part.name();
            let indexes: Vec<usize> = (0..settlements.len()).filter(|&at| of_part(&&settlements[at])).collect();
            if !indexes.is_empty() {
                let batch: Vec<_> = settlements.iter().filter(of_part).cloned().collect();
                for (at, flag) in indexes.into_iter().zip(part.settle_all(&batch).await?) {
                    settled[at] = flag;
                }
            }
        }
        Ok(settled)
    }

    /// See [`Queue::ack_all`]; the jobs may be of any part.
    pub async fn ack_all(&self, jobs: &[Job]) -> Result<Vec<bool>, Error> {
        let done: Vec<_> = jobs.iter().map(Settlement::done).collect();
        self.settle_all(&done).await
    }

    /// See [`Queue::extend_all`]; the jobs may be of any part.
    pub async fn extend_all(&self, jobs: &[Job], lease: Duration) -> Result<Vec<bool>, Error> {
        let mut held = vec![false; jobs.len()];
        for part in self.parts() {
            let indexes: Vec<usize> = (0..jobs.len()).filter(|&at| jobs[at].queue().name() == part.name()).collect();
            if !indexes.is_empty() {
                let batch: Vec<Job> = indexes.iter().map(|&at| jobs[at].clone()).collect();
                for (at, flag) in indexes.into_iter().zip(part.extend_all(&batch, lease).await?) {
                    held[at] = flag;
                }
            }
        }
        Ok(held)
    }

    /// See [`Queue::cancel`].
    pub async fn cancel(&self, id: &str) -> Result<Option<Cancelled>, Error> {
        for part in self.likely_parts(id) {
            if let Some(cancelled) = part.cancel(id).await? {
                return Ok(Some(cancelled));
            }
        }
        Ok(None)
    }

    /// See [`Queue::cancel_key`].
    pub async fn cancel_key(&self, key: &str) -> Result<Option<Cancelled>, Error> {
        self.part_of(key).cancel_key(key).await
    }

    /// See [`Queue::reschedule`].
    pub async fn reschedule(&self, id: &str, when: When) -> Result<String, Error> {
        for part in self.likely_parts(id) {
            if part.find(id).await?.is_some() {
                return part.reschedule(id, when).await;
            }
        }
        self.part_of(id).reschedule(id, when).await
    }

    /// See [`Queue::reschedule_key`].
    pub async fn reschedule_key(&self, key: &str, when: When) -> Result<String, Error> {
        self.part_of(key).reschedule_key(key, when).await
    }

    /// See [`Queue::requeue`].
    pub async fn requeue(&self, ids: &[String]) -> Result<Vec<Requeued>, Error> {
        let mut outcomes = vec![Requeued::Absent; ids.len()];
        let mut indexes: Vec<Vec<usize>> = vec![Vec::new(); self.parts.len()];
        for (at, id) in ids.iter().enumerate() {
            indexes[self.part_index(id)].push(at);
        }
        for (part, indexes) in self.parts().zip(indexes).filter(|(_, indexes)| !indexes.is_empty()) {
            let batch: Vec<String> = indexes.iter().map(|&at| ids[at].clone()).collect();
            for (at, outcome) in indexes.into_iter().zip(part.requeue(&batch).await?) {
                outcomes[at] = outcome;
            }
        }
        for (id, outcome) in ids.iter().zip(&mut outcomes).filter(|(_, outcome)| **outcome == Requeued::Absent) {
            for part in self.likely_parts(id).skip(1) {
                if let Some(found) = part.requeue(std::slice::from_ref(id)).await?.pop()
                    && found != Requeued::Absent
                {
                    *outcome = found;
                    break;
                }
            }
        }
        Ok(outcomes)
    }

    /// See [`Queue::requeue_all`].
    pub async fn requeue_all(&self) -> Result<u64, Error> {
        let mut requeued = 0;
        for part in self.parts() {
            requeued += part.requeue_all().await?;
        }
        Ok(requeued)
    }

    /// See [`Queue::purge`].
    pub async fn purge(&self, state: State) -> Result<u64, Error> {
        let mut removed = 0;
        for part in self.parts() {
            removed += part.purge(state).await?;
        }
        Ok(removed)
    }

    /// See [`Queue::pause`].
    pub async fn pause(&self) -> Result<(), Error> {
        for part in self.parts() {
            part.pause().await?;
        }
        Ok(())
    }

    /// See [`Queue::resume`].
    pub async fn resume(&self) -> Result<(), Error> {
        for part in self.parts() {
            part.resume().await?;
        }
        Ok(())
    }

    /// See [`Queue::promote`].
    pub async fn promote(&self) -> Result<u64, Error> {
        let mut moved = 0;
        for part in self.parts() {
            moved += part.promote().await?;
        }
        Ok(moved)
    }

    /// See [`Queue::reclaim`].
    pub async fn reclaim(&self) -> Result<u64, Error> {
        let mut taken = 0;
        for part in self.parts() {
            taken += part.reclaim().await?;
        }
        Ok(taken)
    }

    /// See [`Queue::keep_failed`]; each part keeps its share of `max`, rounded up.
    pub async fn keep_failed(&self, max: u64, age: Duration) -> Result<(), Error> {
        for part in self.parts() {
            part.keep_failed(max.div_ceil(self.parts.len() as u64), age).await?;
        }
        Ok(())
    }

    /// See [`Queue::set_limits`]. The parts know nothing of each other, so each keeps to its share, rounded down: all together
    /// never exceed the limits, and stay below them while the work is spread unevenly. Errors: `InvalidArgument` also where a
    /// share is less than one job.
    pub async fn set_limits(&self, limits: &Limits) -> Result<(), Error> {
        let parts = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        let shares = Limits {
            concurrency: limits.concurrency.map(|most| most / parts),
            rate: rate_by(limits.rate, |jobs| jobs / parts),
            names: names_by(&limits.names, |most| most / parts),
        };
        for part in self.parts() {
            part.set_limits(&shares).await?;
        }
        Ok(())
    }

    /// See [`Queue::limits`]: of all parts together, as the first part has its share.
    pub async fn limits(&self) -> Result<Limits, Error> {
        let Some(first) = self.parts().next() else { return Ok(Limits::new()) };
        let share = first.limits().await?;
        let parts = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        Ok(Limits {
            concurrency: share.concurrency.map(|most| most.saturating_mul(parts)),
            rate: rate_by(share.rate, |jobs| jobs.saturating_mul(parts)),
            names: names_by(&share.names, |most| most.saturating_mul(parts)),
        })
    }

    /// See [`Queue::counts`]: summed up; paused only if every part is; the oldest and the next of all parts.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let mut all: Option<Counts> = None;
        for part in self.parts() {
            let counts = part.counts().await?;
            match &mut all {
                None => all = Some(counts),
                Some(all) => all.add(counts),
            }
        }
        all.ok_or_else(|| Error::new(ErrorKind::Internal, "a queue has at least one partition"))
    }

    /// See [`Queue::peek`]; part after part.
    pub async fn peek(&self, state: State, offset: usize, limit: usize) -> Result<Vec<JobView>, Error> {
        let mut page = Vec::new();
        let mut skip = offset;
        for part in self.parts() {
            let counts = part.counts().await?;
            let count = usize::try_from(counts.of(state)).unwrap_or(usize::MAX);
            if skip >= count {
                skip -= count;
                continue;
            }
            page.extend(part.peek(state, skip, limit - page.len()).await?);
            skip = 0;
            if page.len() >= limit {
                break;
            }
        }
        Ok(page)
    }

    /// See [`Queue::workers`]: those of all parts, each once.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let mut all = Vec::new();
        for part in self.parts() {
            merged(&mut all, part.workers().await?);
        }
        Ok(all)
    }

    /// See [`Queue::wait_result`].
    pub async fn wait_result(&self, id: &str, timeout: Option<Duration>) -> Result<Data, Error> {
        for part in self.likely_parts(id) {
            if !part.is_gone(id).await? {
                return part.wait_result(id, timeout).await;
            }
        }
        self.part_of(id).wait_result(id, timeout).await
    }

    /// See [`Queue::find`].
    pub async fn find(&self, id: &str) -> Result<Option<Found>, Error> {
        for part in self.likely_parts(id) {
            if let Some(found) = part.find(id).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// See [`Queue::find_key`].
    pub async fn find_key(&self, key: &str) -> Result<Option<Found>, Error> {
        self.part_of(key).find_key(key).await
    }

    /// See [`Queue::audit`].
    pub async fn audit(&self, options: AuditOptions) -> Result<AuditReport, Error> {
        let mut all = AuditReport::default();
        for part in self.parts() {
            all.add(part.audit(options).await?);
        }
        Ok(all)
    }

    /// See [`Queue::set_clock`].
    pub async fn set_clock(&self, now: Millis) -> Result<(), Error> {
        for part in self.parts() {
            part.set_clock(now).await?;
        }
        Ok(())
    }
}

fn names_by(names: &BTreeMap<String, NameLimits>, share: impl Fn(u32) -> u32) -> BTreeMap<String, NameLimits> {
    let of = |limits: &NameLimits| {
        let mut limits = limits.clone();
        limits.concurrency = limits.concurrency.map(&share);
        limits.rate = rate_by(limits.rate, &share);
        limits
    };
    names.iter().map(|(name, limits)| (name.clone(), of(limits))).collect()
}

fn rate_by(rate: Option<Rate>, share: impl Fn(u32) -> u32) -> Option<Rate> {
    rate.map(|rate| Rate { jobs: share(rate.jobs), ..rate })
}

#[cfg(test)]
mod tests {
    use super::check_queue_or_part;

    #[test]
    fn a_part_has_one_spelling() {
        for name in ["orders", "orders/0", "orders/7", "orders/255"] {
            assert!(check_queue_or_part(name).is_ok(), "{name}");
        }
        for name in ["orders/007", "orders/+1", "orders/-1", "orders/", "orders/256", "orders/1/2", "/1"] {
            assert!(check_queue_or_part(name).is_err(), "{name}");
        }
    }
}
