//! The list of queues, and queues as a whole.

use futures_util::future::join_all;
use serde::Serialize;

use crate::queue::{Client, Part, Queue, listed_name, unlisted_name};
use crate::script::{
    Contents, ContentsReply, Declared, Delete, DeleteReply, ListQueues, ListReply, ListedQueue, Unregister,
    said_of_queue, said_of_queues, two_numbers, unexpected, use_of_queue, uses_of_queues,
};
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::time::Millis;

/// The most queues of one page.
pub const MAX_QUEUES: usize = 1000;
/// A queue that is empty is forgotten when it was not used for so long: 30 days.
const FORGOTTEN_AFTER_MS: u64 = 30 * 24 * 3600 * 1000;
/// How many queues one call looks into, to see whether they can be forgotten.
const MOST_LOOKED_INTO: usize = 100;

/// A queue that was used.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// In how many parts it is, as those who used it said; 0 if it is not partitioned.
    pub partitions: u16,
    /// When it was last used by the server's clock, as far as is noted: each client notes it at its first use and then every few minutes.
    pub last_used: Millis,
}

/// A page of the queues of a server, by name.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QueuePage {
    /// The queues, fewer than were asked for if some of them were forgotten just now.
    pub queues: Vec<QueueInfo>,
    /// Where the next page begins; `None` behind the last one.
    pub cursor: Option<String>,
}

impl Client {
    /// The queues that were used under this client's prefix, by name: pushed to, reserved from, or changed in any other way. One is listed
    /// with the first call of any client that changes it.
    ///
    /// `limit`: 1 to 1,000. `cursor`: that of the page before; `None` for the first page. A queue that is empty and was not used for 30 days
    /// is forgotten by this call, 100 at most.
    ///
    /// Errors: `InvalidArgument`.
    pub async fn queues(&self, limit: usize, cursor: Option<&str>) -> Result<QueuePage, Error> {
        if limit == 0 || limit > MAX_QUEUES {
            return Err(Error::invalid(format!("limit must be 1 to {MAX_QUEUES}, not {limit}")).during("queues"));
        }
        Part::listed(self).await;
        let list = Part::list_of_queues(self.clone());
        let page = ListQueues { after: cursor.unwrap_or_default().to_owned(), most: limit };
        let ListReply { now, queues } = list.run(page.with([]).during("queues")).await.map_err(Error::of_all_queues)?;
        let cursor = (queues.len() == limit).then(|| queues.last().map(|last| last.name.clone())).flatten();
        let is_old = |queue: &ListedQueue| now.saturating_sub(queue.last_used).get() > FORGOTTEN_AFTER_MS;
        let (old, mut used): (Vec<_>, Vec<_>) = queues.into_iter().partition(is_old);
        let (looked_into, rest) = old.split_at(old.len().min(MOST_LOOKED_INTO));
        let kept = join_all(looked_into.iter().map(|queue| self.forget_if_empty(&list, queue))).await;
        for (queue, kept) in looked_into.iter().zip(kept) {
            if kept {
                used.push(queue.clone());
            }
        }
        used.extend_from_slice(rest);
        used.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(QueuePage { queues: used.iter().map(info).collect(), cursor })
    }

    /// How many partitions the listed queues of this name have, 0 for the one that has none: none, one number, or two.
    ///
    /// Errors: `InvalidArgument`.
    #[doc(hidden)] // for the API
    pub async fn partitions_of(&self, name: &str) -> Result<Vec<u16>, Error> {
        name::check_queue(name).map_err(|error| error.during("queues"))?;
        Part::listed(self).await;
        let list = Part::list_of_queues(self.clone());
        let partitioned = format!("{name}/");
        let uses = uses_of_queues(&list.shared.keys, [name, &partitioned]);
        let said = said_of_queues(list.command("queues", uses).await.map_err(Error::of_all_queues)?);
        let said = said.ok_or_else(|| unexpected("what the list says of a queue").during("queues"))?;
        let info_of = |(listed, used): (&str, Option<String>)| {
            let (last_used, partitions) = two_numbers(&used?).ok()?;
            Some(info(&ListedQueue {
                name: listed.to_owned(),
                used: String::new(),
                last_used: Millis::new(last_used),
                partitions,
            }))
        };
        let listed = [name, &*partitioned].into_iter().zip(said).filter_map(info_of);
        Ok(listed.map(|info| info.partitions).collect())
    }

    /// Takes a queue off the list if there is nothing in it. Is it still there? Yes, where nobody can say: the others are listed.
    async fn forget_if_empty(&self, list: &Part, queue: &ListedQueue) -> bool {
        let info = info(queue);
        let whole = match info.partitions {
            0 => self.queue(&info.name),
            partitions => self.partitioned_queue(&info.name, partitions),
        };
        // A name that is none was put there by somebody else.
        let Ok(whole) = whole else { return true };
        if whole.contents("queues").await.ok() != Some(ContentsReply::default()) {
            return true;
        }
        let unregister = Unregister { name: queue.name.clone(), used: queue.used.clone() };
        list.run(unregister.with([]).during("queues")).await.unwrap_or(0) == 0
    }
}

fn info(listed: &ListedQueue) -> QueueInfo {
    let (name, is_partitioned) = unlisted_name(&listed.name);
    let partitions = if is_partitioned { u16::try_from(listed.partitions).unwrap_or(u16::MAX).max(1) } else { 0 };
    QueueInfo { name: name.to_owned(), partitions, last_used: listed.last_used }
}

impl Queue {
    /// Removes the queue with all that it has: its jobs, which must be so many in all states together, its limits, its totals. Jobs that
    /// workers run meanwhile end without effect. `jobs` is the confirmation: with 0 only an empty queue is removed. A client that goes on
    /// using the queue makes it anew, and lists it again within some minutes.
    ///
    /// The parts of a partitioned queue are removed one after the other, each only if it has what it had when all were counted.
    ///
    /// Errors: `InvalidArgument` if there are other jobs than so many, or schedules, which would push new ones: remove those first. Nothing
    /// was removed then, but of a partitioned queue perhaps some parts, as the message says.
    pub async fn delete(&self, jobs: u64) -> Result<(), Error> {
        let list = Part::list_of_queues(self.client().clone());
        let listed = listed_name(&self.each_part()[0].shared).unwrap_or_default();
        let held: Vec<_> = self.each_part().iter().map(Part::hold_registration).collect();
        // Whoever uses the queue from now on lists it anew, and it stays on the list.
        let used = said_of_queue(list.command("delete", use_of_queue(&list.shared.keys, &listed)).await?);
        self.delete_parts(jobs).await?;
        drop(held);
        let unregistered = list.run(Unregister { name: listed, used }.with([]).during("delete")).await;
        unregistered
            .map(|_| ())
            .map_err(|error| error.partly_done("the queue was removed before that, and only its name is still listed"))
    }

    async fn delete_parts(&self, jobs: u64) -> Result<(), Error> {
        let mut of_parts = Vec::new();
        if let parts @ [_, _, ..] = self.each_part() {
            for part in parts {
                of_parts.push(part.contents("delete").await?);
            }
            let total = sum(&of_parts);
            if total != (ContentsReply { jobs, schedules: 0 }) {
                return Err(self.during("delete")(behind_parts(not_so_many(Some(jobs), total), 0)));
            }
        } else {
            of_parts.push(ContentsReply { jobs, schedules: 0 });
        }
        for (index, (part, expected)) in self.each_part().iter().zip(of_parts).enumerate() {
            self.delete_part(part, expected.jobs).await.map_err(|error| behind_parts(error, index))?;
        }
        Ok(())
    }

    async fn delete_part(&self, part: &Part, expected: u64) -> Result<(), Error> {
        let DeleteReply::Kept(there) = part.run(Delete { expected }.with([])).await? else { return Ok(()) };
        let refused = match self.each_part() {
            [_] => not_so_many(Some(expected), there),
            _ => not_so_many(None, self.contents("delete").await?),
        };
        Err(self.during("delete")(refused))
    }

    async fn contents(&self, operation: &'static str) -> Result<ContentsReply, Error> {
        let mut of_parts = Vec::new();
        for part in self.each_part() {
            of_parts.push(part.contents(operation).await?);
        }
        Ok(sum(&of_parts))
    }
}

impl Part {
    async fn contents(&self, operation: &'static str) -> Result<ContentsReply, Error> {
        self.run(Contents {}.with([]).during(operation)).await
    }
}

fn sum(parts: &[ContentsReply]) -> ContentsReply {
    ContentsReply {
        jobs: parts.iter().map(|part| part.jobs).sum(),
        schedules: parts.iter().map(|part| part.schedules).sum(),
    }
}

/// `expected`: nothing if there were so many, and others came meanwhile.
fn not_so_many(expected: Option<u64>, there: ContentsReply) -> Error {
    let ContentsReply { jobs, schedules } = there;
    if schedules > 0 {
        let schedules = if schedules == 1 { "a schedule".to_owned() } else { format!("{schedules} schedules") };
        return Error::invalid(format!("the queue has {schedules}, and would get new jobs: remove what fires first"));
    }
    let there = if jobs == 1 { "a job".to_owned() } else { format!("{jobs} jobs") };
    let not = expected.map_or_else(|| ", as it changed meanwhile".to_owned(), |expected| format!(", not {expected}"));
    Error::invalid(format!(
        "the queue has {there} (ready, delayed, reserved and failed together){not}: to remove it with them, give their number as `jobs`"
    ))
}

/// It came when so many parts were removed.
fn behind_parts(error: Error, parts: usize) -> Error {
    match parts {
        0 if error.kind() == ErrorKind::InvalidArgument => error.adding("nothing was removed"),
        0 => error,
        1 => error.partly_done("one of its parts was removed before that, with its jobs"),
        _ => error.partly_done(&format!("{parts} of its parts were removed before that, with their jobs")),
    }
}
