//! Search: the jobs of a state that match a filter, page after page.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use crate::format::record::CameBack;
use crate::operate::failure_groups;
use crate::operate::inspect::JobView;
use crate::process::host;
use crate::queue::{MAX_BATCH, Part, Queue};
use crate::script::{self, Declared, Key, PeekedReply, Search, SearchReply};
use crate::value::error::Error;
use crate::value::name::MAX_PRIORITY;
use crate::value::state::State;
use crate::value::time::Millis;

/// How many entries one call looks at, so that it holds up no other for more than a few milliseconds.
const LOOK: usize = 500;

/// How many entries one page looks at.
const LOOK_OF_PAGE: u64 = 20 * LOOK as u64;

/// How many bytes of records and errors one page reads, and then up to 4 MiB more.
const BYTES_OF_PAGE: u64 = 8 << 20;

/// Which jobs: those of which all holds that is set. An empty one matches every job.
///
/// ```
/// let filter = duly::Filter::new().name("mail.send").error("timed out");
/// assert_ne!(filter, duly::Filter::default());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub(crate) name: Option<String>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) older_than: Option<Duration>,
    pub(crate) since: Option<Millis>,
    pub(crate) until: Option<Millis>,
    pub(crate) group: Option<String>,
    pub(crate) is_unnamed: bool,
}

impl Filter {
    /// A filter that matches every job.
    pub fn new() -> Self {
        Self::default()
    }

    /// Jobs of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Jobs without a name.
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        self.is_unnamed = true;
        self
    }

    /// Jobs whose key begins so, such as `close:`.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = Some(prefix.into());
        self
    }

    /// Jobs whose last failure has this text in it, in the same case.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Jobs of this priority, 0 to 9.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Jobs that were pushed at least so long ago, by the clocks of the hosts, in whole seconds.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// Jobs that are due, whose lease ends or that failed then or later ([`JobView::at`]), by the server's clock. Not of ready jobs.
    #[must_use]
    pub fn since(mut self, at: Millis) -> Self {
        self.since = Some(at);
        self
    }

    /// Jobs that are due, whose lease ends or that failed before then. Not of ready jobs.
    #[must_use]
    pub fn until(mut self, before: Millis) -> Self {
        self.until = Some(before);
        self
    }

    /// Jobs whose last failure is of this kind, as [`FailureGroup::kind`](crate::FailureGroup::kind) has it.
    #[must_use]
    pub fn group(mut self, kind: impl Into<String>) -> Self {
        self.group = Some(kind.into());
        self
    }

    /// Errors: `InvalidArgument`.
    pub(crate) fn check(&self, state: State) -> Result<(), Error> {
        if self.priority.is_some_and(|priority| priority > MAX_PRIORITY) {
            return Err(Error::invalid(format!("a priority is 0 to {MAX_PRIORITY}")));
        }
        if state == State::Ready && (self.since.is_some() || self.until.is_some()) {
            return Err(Error::invalid("a ready job has no time to search by"));
        }
        let texts =
            [("name", &self.name), ("key prefix", &self.key_prefix), ("error", &self.error), ("group", &self.group)];
        match texts.iter().find(|(_, text)| text.as_deref() == Some("")) {
            Some((what, _)) => Err(Error::invalid(format!("an empty {what}: nothing was searched"))),
            None => Ok(()),
        }
    }

    /// The job that the script gave, if it matches as far as the script does not say that, too.
    fn full(&self, state: State, job: &PeekedReply) -> Option<JobView> {
        let job = JobView::new(state, job);
        // Of what cannot be read, a newer version's for example, neither age nor name is known.
        let is_known = job.undecodable.is_none();
        let is_old = |age| Duration::from_secs(job.envelope.time).saturating_add(age) <= host::now().to_duration();
        let matches = self.older_than.is_none_or(|age| is_known && is_old(age))
            && self.is_of_group(&job.envelope.error)
            && (!self.is_unnamed || (is_known && job.envelope.name.is_none()));
        matches.then_some(job)
    }

    fn is_of_group(&self, error: &str) -> bool {
        self.group.as_ref().is_none_or(|kind| failure_groups::kind_of(error) == *kind)
    }

    /// Does what the script gave match? It has the whole record only if [`Filter::needs_record`].
    pub(crate) fn matches(&self, state: State, job: &PeekedReply) -> bool {
        if self.needs_record() {
            return self.full(state, job).is_some();
        }
        self.group.is_none() || self.is_of_group(&error_of(job))
    }

    pub(crate) fn needs_record(&self) -> bool {
        self.older_than.is_some() || self.is_unnamed
    }
}

/// What a page of a search found.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct SearchPage {
    /// The jobs that match.
    pub jobs: Vec<JobView>,
    /// How many jobs were looked at for this page.
    pub looked_at: u64,
    /// Where the next page begins: to be passed on. Nothing when all of the state was looked at.
    pub cursor: Option<String>,
}

impl Queue {
    /// The jobs of a state that match a filter, at most `limit` (1 to 1,000), from the beginning or from where another page ended
    /// ([`SearchPage::cursor`]). It changes nothing. Jobs come as [`Queue::peek`] gives them, but of the ready ones of each priority
    /// the last comes first. While jobs move, a job may be in two pages, and one that moves itself in two or in none.
    ///
    /// For a page it looks at 10,000 jobs at most, 500 in each script call, and reads about 8 MiB of records, those that do not match
    /// counted: so a page may be empty that is not the last one.
    ///
    /// Errors: `InvalidArgument` for a limit, a filter or a cursor that cannot be.
    pub async fn search(
        &self,
        state: State,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        let during = self.during("search");
        if limit == 0 || limit > MAX_BATCH {
            return Err(during(Error::invalid(format!("a page has 1 to {MAX_BATCH} jobs"))));
        }
        filter.check(state).map_err(&during)?;
        let mut at = Some(Cursor::read(cursor, state, self.each_part().len()).map_err(&during)?);
        let mut page = SearchPage { jobs: Vec::new(), looked_at: 0, cursor: None };
        let (mut known, mut bytes, mut passed) = (HashSet::new(), 0, 0);
        while let Some(cursor) = &at
            && page.jobs.len() < limit
            && page.looked_at + passed < LOOK_OF_PAGE
            && bytes < BYTES_OF_PAGE
        {
            let step = self.search_on(state, filter, cursor, limit - page.jobs.len(), false).await?;
            page.looked_at += step.looked_at;
            passed += step.passed;
            bytes += step.bytes;
            for job in step.found.iter().filter_map(|job| filter.full(state, job)) {
                // A ready list may have entries of one job that no longer count.
                if known.insert((cursor.part, job.envelope.id.clone())) {
                    page.jobs.push(job);
                }
            }
            at = step.next;
        }
        page.cursor = at.map(|at| at.text(state));
        Ok(page)
    }

    /// Just behind the last job of this state and part, if they are in the order of a time.
    pub(crate) async fn end_of(&self, state: State, at: &Cursor) -> Result<Option<Millis>, Error> {
        let set = match state {
            State::Ready => return Ok(None),
            State::Delayed => Key::Delayed,
            State::Reserved => Key::Reserved,
            State::Failed => Key::Failed,
        };
        let part = &self.each_part()[at.part];
        let look = script::last_of(&part.shared.keys, set);
        let last = part.command("search", look).await.and_then(script::with_times);
        let last = last.map_err(self.during("search"))?;
        let at = last.first().and_then(|&(_, at)| u64::try_from(at).ok());
        Ok(at.map(|at| Millis::new(at.saturating_add(1))))
    }

    /// One call. `limit`: at most so many jobs.
    pub(crate) async fn search_on(
        &self,
        state: State,
        filter: &Filter,
        at: &Cursor,
        limit: usize,
        is_brief: bool,
    ) -> Result<Step, Error> {
        let reply = self.each_part()[at.part].search(state, filter, at.within.clone(), limit, is_brief).await?;
        let next = match reply.next {
            Some(within) => Some(Cursor { part: at.part, within }),
            None => Some(Cursor::of_part(at.part + 1)).filter(|at| at.part < self.each_part().len()),
        };
        Ok(Step { found: reply.jobs, looked_at: reply.looked_at, passed: reply.passed, bytes: reply.bytes, next })
    }
}

impl Part {
    async fn search(
        &self,
        state: State,
        filter: &Filter,
        cursor: Vec<u8>,
        limit: usize,
        is_brief: bool,
    ) -> Result<SearchReply, Error> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let moment = |at: Option<Millis>| at.map(|at| at.get().to_string()).unwrap_or_default();
        let search = Search {
            state: state.as_str(),
            cursor,
            limit,
            look: LOOK,
            brief: usize::from(is_brief),
            name_is: text(&filter.name),
            key_begins: text(&filter.key_prefix),
            error_has: text(&filter.error),
            level_is: filter.priority.map(|priority| priority.to_string()).unwrap_or_default(),
            at_from: moment(filter.since),
            at_until: moment(filter.until),
        };
        self.run(search.with([])).await
    }
}

/// The text of the last failure; empty if there was none, or if it cannot be read.
pub(crate) fn error_of(job: &PeekedReply) -> String {
    CameBack::decode(&job.came_back).map(|came_back| came_back.error).unwrap_or_default()
}

/// What one call found.
pub(crate) struct Step {
    /// What matches as far as the script says that.
    pub(crate) found: Vec<PeekedReply>,
    pub(crate) looked_at: u64,
    /// Entries of a ready list that no longer count.
    pub(crate) passed: u64,
    /// That were read.
    pub(crate) bytes: u64,
    pub(crate) next: Option<Cursor>,
}

/// Where a search goes on: in which part, and what the script says of where in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) part: usize,
    within: Vec<u8>,
}

impl Cursor {
    /// At the beginning of it.
    pub(crate) fn of_part(part: usize) -> Self {
        Self { part, within: Vec::new() }
    }

    pub(crate) fn is_at_beginning(&self) -> bool {
        self.within.is_empty()
    }

    /// As text, `<state>-<part>-<hexadecimal>`: an id may be any bytes. The same place of another state is another one.
    fn text(&self, state: State) -> String {
        let mut text = format!("{}-{}-", state.as_str(), self.part);
        for byte in &self.within {
            // Writing to a String cannot fail.
            _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Errors: `InvalidArgument`.
    fn read(text: Option<&str>, state: State, parts: usize) -> Result<Self, Error> {
        let Some(text) = text else { return Ok(Self::default()) };
        if let Some(Ok(other)) = text.split_once('-').map(|(word, _)| State::parse(word))
            && other != state
        {
            return Err(Error::invalid(format!(
                "this cursor belongs to a search of {} jobs, and this is one of {} jobs: begin without a cursor",
                other.as_str(),
                state.as_str()
            )));
        }
        let read = || {
            let (part, within) = text.strip_prefix(state.as_str())?.strip_prefix('-')?.split_once('-')?;
            let part = part.parse().ok().filter(|&part| part < parts)?;
            let within = of_hexadecimal(within)?;
            (within.is_empty() || is_of(&within, state)).then_some(Self { part, within })
        };
        read().ok_or_else(|| Error::invalid("a cursor is what the page before has given, of the same queue and state"))
    }
}

fn of_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect())
}

/// As `search.lua` writes it: `<score>;<member>`, with `p` in front for a parked job, or in a ready list
/// `<level>;<how many are left>-<how many were put first so far>;<id behind them>`.
fn is_of(within: &[u8], state: State) -> bool {
    let Some(semicolon) = within.iter().position(|&byte| byte == b';') else { return false };
    let (Ok(head), rest) = (std::str::from_utf8(&within[..semicolon]), &within[semicolon + 1..]) else { return false };
    let is_score = |text: &str| text.parse::<f64>().is_ok_and(|score| !score.is_nan());
    match (state, head.strip_prefix('p')) {
        (State::Ready, Some(score)) => is_score(score),
        (State::Ready, None) => {
            let is_level = head.len() == 1 && head.as_bytes()[0].is_ascii_digit();
            let Some(end) = rest.iter().position(|&byte| byte == b';') else { return false };
            let is_number = |digits: &[u8]| (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
            let mut numbers = rest[..end].split(|&byte| byte == b'-').map(is_number);
            is_level && numbers.by_ref().take(2).eq([true, true]) && numbers.next().is_none()
        }
        (_, None) => is_score(head),
        (_, Some(_)) => false,
    }
}
