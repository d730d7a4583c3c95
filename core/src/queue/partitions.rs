//! A partitioned queue: one that has several parts, because one server node cannot carry it: which part a job is in, and calls for
//! the parts that several jobs are in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::process::host;
use crate::queue::registration::Registration;
use crate::queue::{Client, Job, NewJob, Part, Partitioned, Queue, Whole};
use crate::script::crc16;
use crate::value::error::Error;
use crate::value::name;

/// The most parts that a queue may have.
pub const MAX_PARTITIONS: u16 = 256;

/// A call for one part.
type PartCall<'a, T> = Pin<Box<dyn Future<Output = Result<Vec<T>, Error>> + Send + 'a>>;

impl Client {
    /// The queue of this name in this many parts (1 to 256): `{name/0}`, `{name/1}`, ... See [`Queue`] for what that costs. Nothing
    /// is sent.
    ///
    /// Errors: `InvalidArgument`.
    pub fn partitioned_queue(&self, name: &str, count: u16) -> Result<Queue, Error> {
        name::check_queue(name)?;
        if count == 0 || count > MAX_PARTITIONS {
            return Err(Error::invalid(format!("a queue has 1 to {MAX_PARTITIONS} partitions, not {count}")));
        }
        let part = |number| Part::new(self.clone(), &format!("{name}/{number}"), Registration::of_part_of(count));
        let queue = Partitioned { name: name.to_owned(), parts: (0..count).map(part).collect() };
        Ok(Queue { whole: Whole::Partitioned(Arc::new(queue)) })
    }

    /// The queue of this name, which may be one of the parts of a partitioned queue (`orders/0`): a worker serves both.
    pub(crate) fn queue_or_part(&self, name: &str) -> Result<Part, Error> {
        self.queue_or_part_of(name, 1)
    }

    /// The same, of a queue that is known to have so many parts; 1 if it has none.
    pub(crate) fn queue_or_part_of(&self, name: &str, partitions: u16) -> Result<Part, Error> {
        check_queue_or_part(name)?;
        let registration = if partitions == 1 { Registration::of(name) } else { Registration::of_part_of(partitions) };
        Ok(Part::new(self.clone(), name, registration))
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

impl Queue {
    pub(crate) fn first_and_others(&self) -> (&Part, &[Part]) {
        let parts = self.each_part();
        (&parts[0], &parts[1..])
    }

    pub(crate) fn part_index(&self, key_or_id: &str) -> usize {
        match self.each_part().len() {
            1 => 0,
            count => usize::from(crc16(key_or_id.as_bytes())) % count,
        }
    }

    /// Where the job with this key is; where the one with this id is, unless it has a key that says otherwise.
    pub(crate) fn part_of(&self, key_or_id: &str) -> &Part {
        &self.each_part()[self.part_index(key_or_id)]
    }

    /// The likely part of the job with this id, then the others.
    pub(crate) fn parts_by_id(&self, id: &str) -> impl Iterator<Item = &Part> {
        let (before, from) = self.each_part().split_at(self.part_index(id));
        from.iter().chain(before)
    }

    /// The index of the part where a new job goes; an id is made so that the job is found by it.
    pub(crate) fn assign(&self, job: NewJob) -> Result<(usize, NewJob), Error> {
        let parts = self.each_part();
        if parts.len() == 1 {
            return Ok((0, job));
        }
        let by_key = job.given_key().map(|key| self.part_index(key));
        if let Some(id) = job.given_id() {
            return Ok((by_key.unwrap_or_else(|| self.part_index(id)), job));
        }
        loop {
            let id = parts[0].client.shared.ids.next(host::now())?;
            let part = self.part_index(id.as_str());
            if by_key.is_none_or(|by_key| by_key == part) {
                return Ok((part, job.with_made_id(id)));
            }
        }
    }

    /// The part that a reserved job came from.
    pub(crate) fn index_of_job(&self, job: &Job) -> Option<usize> {
        self.each_part().iter().position(|part| part.name() == job.part().name())
    }

    /// Makes a call for each part that has some of these items, with those; gives one answer for each item, in the items' order, and
    /// `missing` for the items of no part.
    pub(crate) async fn by_part<'a, I, T: Clone>(
        &'a self,
        items: Vec<I>,
        index_of: impl Fn(&I) -> Option<usize>,
        missing: T,
        call: impl Fn(&'a Part, Vec<I>) -> PartCall<'a, T>,
    ) -> Result<Vec<T>, Error> {
        let mut answers = vec![missing; items.len()];
        let mut of_parts: Vec<(Vec<usize>, Vec<I>)> = self.each_part().iter().map(|_| Default::default()).collect();
        for (at, item) in items.into_iter().enumerate() {
            if let Some(part) = index_of(&item) {
                of_parts[part].0.push(at);
                of_parts[part].1.push(item);
            }
        }
        for (part, (indexes, items)) in self.each_part().iter().zip(of_parts) {
            if indexes.is_empty() {
                continue;
            }
            let answered = call(part, items).await;
            let in_whole = |error: Error| match error.batch_index().and_then(|index| indexes.get(index)) {
                Some(&index) => error.at_index(index),
                None => error,
            };
            for (at, answer) in std::iter::zip(&indexes, answered.map_err(in_whole)?) {
                answers[*at] = answer;
            }
        }
        Ok(answers)
    }
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
