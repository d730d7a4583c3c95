//! To act on all jobs that match a filter: first they are looked for, then something is done to them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::operate::search::{Cursor, Filter};
use crate::queue::{Part, Queue};
use crate::script::{By, Cancel, CancelReply, Declared, Requeue, RequeueReply};
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::state::State;
use crate::value::time::{Millis, When};

/// How many jobs one call acts on, so that it holds up no other for more than a few milliseconds.
const ACT: usize = 100;

/// How many reschedules are under way at once.
const AT_ONCE: usize = 50;

/// How often those are looked for, too, whose leases were renewed meanwhile: a lease lasts longer than all of these looks.
const MOST_ROUNDS: usize = 5;

/// The jobs of a state that match a filter, by their ids: 100 to 200 bytes of memory each.
///
/// Nothing is done twice: who acts on jobs that somebody else has requeued or cancelled meanwhile, or that have run, leaves them alone.
/// A job that has left the state and come back to it since it was found is acted on, whatever its error is now, and so is a new one of
/// the same id.
///
/// ```no_run
/// # async fn doc(mails: duly::Queue) -> Result<(), duly::Error> {
/// use duly::{Filter, State};
///
/// let mut found = mails.matching(State::Failed, Filter::new().name("mail.send").error("timed out"))?;
/// while found.look().await? {}
/// println!("{} jobs", found.len());
/// while !found.is_empty() {
///     println!("{} are ready again, {} are left", found.requeue().await?, found.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Matching {
    queue: Queue,
    state: State,
    filter: Filter,
    /// Where to look on; nothing when all was looked at.
    at: Option<Cursor>,
    /// By which time jobs were there when the look at this part began: what comes meanwhile is no part of it, or it might not end.
    until: Option<Millis>,
    /// The end of the round before: the leases that end from then on were renewed, or given, since that one began.
    since: Option<Millis>,
    /// Of this part.
    rounds: usize,
    looked_at: u64,
    known: HashSet<(usize, Arc<str>)>,
    /// With the index of their part.
    ids: VecDeque<(usize, Arc<str>)>,
}

impl Queue {
    /// The jobs of a state that match a filter, none of which is looked for yet: [`Matching::look`] does that.
    ///
    /// Errors: `InvalidArgument` for a filter that cannot be.
    pub fn matching(&self, state: State, filter: Filter) -> Result<Matching, Error> {
        filter.check(state).map_err(self.during("search"))?;
        Ok(Matching {
            queue: self.clone(),
            state,
            filter,
            at: Some(Cursor::default()),
            until: None,
            since: None,
            rounds: 0,
            looked_at: 0,
            known: HashSet::new(),
            ids: VecDeque::new(),
        })
    }

    /// Those of a form. Nothing if it is none of this queue.
    #[doc(hidden)] // for the page
    pub fn matching_of(&self, state: State, text: &str) -> Option<Matching> {
        let mut found = self.matching(state, Filter::new()).ok()?;
        let mut lines = text.lines();
        found.looked_at = lines.next()?.parse().ok()?;
        for line in lines {
            let (part, id) = line.split_once(' ')?;
            let part = part.parse().ok().filter(|part| *part < self.each_part().len())?;
            name::check_id(id).ok()?;
            found.ids.push_back((part, Arc::from(id)));
        }
        found.at = None;
        Some(found)
    }
}

/// A job, as a form has it.
fn line(part: usize, id: &str) -> String {
    format!("{part} {id}\n")
}

/// How long a text is when a browser sends it.
fn encoded_bytes(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'\n' => 6, // as two
        b' ' => 1,
        _ if byte.is_ascii_alphanumeric() || b"*-._".contains(&byte) => 1,
        _ => 3,
    };
    text.bytes().map(of).sum()
}

impl Matching {
    /// Looks at the next 500 jobs. Says whether there may be more to look at.
    pub async fn look(&mut self) -> Result<bool, Error> {
        let Some((at, since, until)) = self.next_to_look_at().await? else { return Ok(false) };
        let is_brief = !self.filter.needs_record();
        let mut filter = self.filter.clone();
        filter.since = filter.since.into_iter().chain(since).max();
        filter.until = filter.until.into_iter().chain(until).min();
        let step = self.queue.search_on(self.state, &filter, &at, usize::MAX >> 16, is_brief).await?;
        (self.since, self.until) = (since, until);
        // Later rounds look at renewed leases, whose jobs the first one has counted: they count only what they find.
        let is_first_round = self.rounds == 0;
        if is_first_round {
            self.looked_at += step.looked_at;
        }
        for job in step.found.into_iter().filter(|job| self.filter.matches(self.state, job)) {
            let job = (at.part, Arc::from(job.id));
            if self.known.insert(job.clone()) {
                self.ids.push_back(job);
                self.looked_at += u64::from(!is_first_round);
            }
        }
        self.at = match step.next {
            Some(next) if next.part == at.part => Some(next),
            _ if self.state == State::Reserved && self.until.is_some() => {
                self.rounds += 1;
                Some(Cursor::of_part(at.part))
            }
            next => next,
        };
        if self.at.is_none() {
            self.known = HashSet::new();
        }
        Ok(self.at.is_some())
    }

    /// Where to look on, from when on and until when. A lease that is renewed goes behind all others, and its job may be one that was not
    /// looked at yet: so what is behind the end of a round is another one.
    async fn next_to_look_at(&mut self) -> Result<Option<(Cursor, Option<Millis>, Option<Millis>)>, Error> {
        while let Some(at) = self.at.clone() {
            if !at.is_at_beginning() {
                return Ok(Some((at, self.since, self.until)));
            }
            let end = if self.rounds <= MOST_ROUNDS { self.queue.end_of(self.state, &at).await? } else { None };
            if self.rounds == 0 {
                return Ok(Some((at, None, end)));
            }
            if end > self.until {
                return Ok(Some((at, self.until, end)));
            }
            self.rounds = 0;
            self.at = Some(Cursor::of_part(at.part + 1)).filter(|at| at.part < self.queue.each_part().len());
        }
        self.known = HashSet::new();
        Ok(None)
    }

    /// Forgets those that were found last, so that no more are left than this, whose ids are no longer in a form than so many bytes. Gives
    /// whether there were any.
    #[doc(hidden)] // for the page
    pub fn keep_first(&mut self, most: usize, most_bytes: usize) -> bool {
        let before = self.ids.len();
        let mut bytes = 0;
        let fits = |(part, id): &&(usize, Arc<str>)| {
            bytes += encoded_bytes(&line(*part, id));
            bytes <= most_bytes
        };
        let kept = self.ids.iter().take(most).take_while(fits).count();
        self.ids.truncate(kept);
        kept < before
    }

    /// For a form that asks; [`Queue::matching_of`] reads it.
    #[doc(hidden)] // for the page
    pub fn to_text(&self) -> String {
        self.ids.iter().fold(format!("{}\n", self.looked_at), |text, (part, id)| text + &line(*part, id))
    }

    /// How many jobs were looked at. A reserved job counts once, however often its lease is renewed meanwhile; one that is reserved meanwhile
    /// counts if it matches.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// How many jobs were found that nothing was done to yet.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// How many jobs that are of all of these together. One that has gone from a state to another one between two looks is in both.
    pub fn count_once(all: &[Self]) -> usize {
        match all {
            [one] => one.len(),
            all => all.iter().flat_map(|found| &found.ids).collect::<HashSet<_>>().len(),
        }
    }

    /// The ids of those.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.ids.iter().map(|(_, id)| &**id)
    }

    /// Runs the next 100 of these failed jobs again, or as many as have 4 MiB of records, with their failures forgotten; gives how many are
    /// ready now. A job whose key belongs to another job now stays in `failed`.
    ///
    /// Errors: `InvalidArgument` if these are no failed jobs. After any error the same jobs are the next ones.
    pub async fn requeue(&mut self) -> Result<u64, Error> {
        self.only_in(&[State::Failed], "requeue")?;
        let (part, ids) = self.next(ACT);
        let Some(part) = part else { return Ok(0) };
        let replies = part.run(Requeue::as_they_are().with(ids.iter().map(|id| id.as_bytes()))).await?;
        let answered: Vec<_> =
            replies.into_iter().take(ids.len()).take_while(|reply| !matches!(reply, RequeueReply::Later)).collect();
        self.forget(answered.len());
        Ok(answered.iter().filter(|reply| matches!(reply, RequeueReply::Requeued)).count() as u64)
    }

    /// Removes the next 100 jobs, or as many as have 4 MiB of records, if they still are in that state; gives how many. A worker that
    /// runs one loses it.
    ///
    /// After an error the same jobs are the next ones.
    pub async fn cancel(&mut self) -> Result<u64, Error> {
        let (part, ids) = self.next(ACT);
        let Some(part) = part else { return Ok(0) };
        let cancel = Cancel { by: By::Id, only: self.state.as_str().to_owned() };
        let replies = part.run(cancel.with(ids.iter().map(|id| &**id))).await?;
        let (mut looked_at, mut removed, mut awaited) = (0, 0, Vec::new());
        for reply in replies.into_iter().take(ids.len()) {
            match reply {
                CancelReply::Removed { id, is_awaited, .. } => {
                    removed += 1;
                    awaited.extend(is_awaited.then_some(id));
                }
                CancelReply::Kept { .. } | CancelReply::Absent => {}
                CancelReply::Later => break,
            }
            looked_at += 1;
        }
        if !awaited.is_empty() {
            part.wake_waiters("cancel", &awaited).await;
        }
        self.forget(looked_at);
        Ok(removed)
    }

    /// Changes when the next 50 of these delayed or ready jobs are due; gives of how many. If some of the calls fail, their jobs are the next
    /// ones again.
    ///
    /// Errors: `InvalidArgument` if these are no such jobs, or for a time that cannot be; that of the first call if all of them fail. After
    /// any error the same jobs are the next ones.
    pub async fn reschedule(&mut self, when: When) -> Result<u64, Error> {
        self.only_in(&[State::Delayed, State::Ready], "reschedule")?;
        let (part, ids) = self.next(AT_ONCE);
        let Some(part) = part else { return Ok(0) };
        let calls = ids.iter().map(|id| part.reschedule(By::Id, id, when, Some(self.state)));
        let replies = futures_util::future::join_all(calls).await;
        let asked: Vec<_> = self.ids.drain(..ids.len()).collect();
        let (mut moved, mut answered, mut refused) = (0, 0, None);
        // From the end, as those that failed go back to the front.
        for (job, reply) in asked.into_iter().zip(replies).rev() {
            match reply {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    self.ids.push_front(job);
                    refused = Some(error);
                }
                Ok(Some(_)) => (moved, answered) = (moved + 1, answered + 1),
                // It has left that state meanwhile.
                Ok(None) | Err(_) => answered += 1,
            }
        }
        match refused {
            Some(error) if answered == 0 => Err(error),
            _ => Ok(moved),
        }
    }

    fn only_in(&self, states: &[State], operation: &'static str) -> Result<(), Error> {
        if states.contains(&self.state) {
            return Ok(());
        }
        let names: Vec<_> = states.iter().map(|state| state.as_str()).collect();
        let message =
            format!("these jobs are {}, and only {} ones can be {operation}d", self.state.as_str(), names.join(" or "));
        Err(self.queue.during(operation)(Error::invalid(message)))
    }

    /// The next jobs that are in one part.
    fn next(&self, at_most: usize) -> (Option<Part>, Vec<Arc<str>>) {
        let Some((first, _)) = self.ids.front() else { return (None, Vec::new()) };
        let ids = self.ids.iter().take(at_most).take_while(|(part, _)| part == first).map(|(_, id)| id.clone());
        (Some(self.queue.each_part()[*first].clone()), ids.collect())
    }

    fn forget(&mut self, count: usize) {
        self.ids.drain(..count);
    }
}

impl std::fmt::Debug for Matching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matching").field("state", &self.state).field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Client;

    #[test]
    fn a_form_holds_the_jobs_that_were_found() {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let queue = client.partitioned_queue("mail", 4).unwrap();
        let of = |text: &str| queue.matching_of(State::Failed, text);
        let text = "70\n0 a\n3 b <c> \u{8ba2}\n3 d\n";
        // Browsers end lines in their own way.
        let mut found = of(&text.replace('\n', "\r\n")).unwrap();
        assert_eq!((found.looked_at(), found.to_text().as_str()), (70, text));
        assert_eq!(found.ids().collect::<Vec<_>>(), ["a", "b <c> \u{8ba2}", "d"]);
        assert!(!found.keep_first(3, 1000) && found.keep_first(2, 1000) && found.keep_first(2, 10));
        assert_eq!(found.to_text(), "70\n0 a\n");
        for wrong in ["", "x", "1\na", "1\n4 a", "1\n-1 a", "1\n0 ", "1\n0 a\u{7}"] {
            assert!(of(wrong).is_none(), "{wrong:?}");
        }
        assert_eq!(encoded_bytes(&line(3, "b <c> \u{8ba2}")), "3+b+%3Cc%3E+%E8%AE%A2%0D%0A".len());
    }
}
