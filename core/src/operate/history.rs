//! The history of a queue: what happened to its last jobs, also to those that are gone. Off unless switched on; then each script notes
//! what it does, two elements for each kind of event of a call, whatever the number of its jobs (`lua/lib/history`).

use std::time::{Duration, Instant};

use crate::operate::inspect::{Found, JobView};
use crate::queue::{Part, Queue, TOKENS_A_MS};
use crate::script::{Declared, KeepHistory, Trace as TraceScript};
use crate::value::error::Error;
use crate::value::name;
use crate::value::state::State;
use crate::value::time::Millis;

/// Of how many jobs a history keeps what happened, unless it says otherwise.
pub const DEFAULT_HISTORY_JOBS: u64 = 1_000;
/// How long a history keeps what happened, unless it says otherwise: a day.
pub const DEFAULT_HISTORY_AGE: Duration = Duration::from_secs(24 * 3600);

/// The life of a job has as many events: pushed, made ready, reserved, done, and one for good measure.
const EVENTS_A_JOB: u64 = 5;
/// With more a call of the trace would go on for ever.
const MAX_JOBS: u64 = 1_000_000;
/// So many elements are read at first where a history is read from its end, and so many at the most.
const FIRST_SPAN: u64 = 200;
const LONGEST_SPAN: u64 = 2_000;
/// The token of what was fetched ahead is a multiple of it.
const AHEAD: u64 = 16;

/// How much a history keeps.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Of about how many jobs: five events each.
    pub jobs: u64,
    /// For how long.
    pub age: Duration,
}

/// What happens to jobs.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Happening {
    /// It was pushed; [`TraceEvent::due`] says for when, if it was delayed.
    Pushed,
    /// Its delay was over, and it was made ready.
    Promoted,
    /// A worker got it, [`TraceEvent::token`] with its lease.
    Reserved,
    /// Its worker said that its run was about to start. Only of jobs without retries, of such as were there when a worker died, and by
    /// [`note_start`](crate::Job::note_start).
    Started,
    /// Its run came to a good end, and it is gone.
    Done,
    /// Its run failed, or asked for another try, and it is tried again.
    Retried,
    /// Its handler gave it back.
    Released,
    /// Its worker gave it back before it had started.
    GivenBack,
    /// Its lease ended: its worker died, hung or lost the server. A failure follows if it has no retries left.
    LeaseEnded,
    /// It failed for good.
    Failed,
    /// It was cancelled, and is gone.
    Cancelled,
    /// It expired before a run of it began, and is gone.
    Expired,
    /// It was rescheduled.
    Rescheduled,
    /// It had failed, and was made ready again.
    Requeued,
    /// It was purged, and is gone.
    Purged,
    /// Another job took its place, and it is gone; [`TraceEvent::detail`] has the id of that one.
    Replaced,
    /// It had failed, and went because `failed` is bounded.
    Trimmed,
    /// A bridge took it to another queue.
    Departed,
    /// A bridge put it back.
    CameBack,
    /// An audit mended it; [`TraceEvent::detail`] says how.
    Repaired,
}

impl Happening {
    const ALL: [(Self, char, &'static str); 20] = [
        (Self::Pushed, 'P', "pushed"),
        (Self::Promoted, 'Q', "promoted"),
        (Self::Reserved, 'R', "reserved"),
        (Self::Started, 'S', "started"),
        (Self::Done, 'A', "done"),
        (Self::Retried, 'T', "retried"),
        (Self::Released, 'B', "released"),
        (Self::GivenBack, 'U', "given_back"),
        (Self::LeaseEnded, 'L', "lease_ended"),
        (Self::Failed, 'F', "failed"),
        (Self::Cancelled, 'C', "cancelled"),
        (Self::Expired, 'V', "expired"),
        (Self::Rescheduled, 'M', "rescheduled"),
        (Self::Requeued, 'N', "requeued"),
        (Self::Purged, 'X', "purged"),
        (Self::Replaced, 'O', "replaced"),
        (Self::Trimmed, 'Z', "trimmed"),
        (Self::Departed, 'E', "departed"),
        (Self::CameBack, 'K', "came_back"),
        (Self::Repaired, 'H', "repaired"),
    ];

    /// Its name in every language, such as `lease_ended`.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(happening, ..)| *happening == self).map_or("", |(.., name)| name)
    }

    fn read(letter: &str) -> Option<Self> {
        // A retry that counts no failure.
        let letter = if letter == "G" { "T" } else { letter };
        Self::ALL.iter().find(|(_, known, _)| letter.strip_prefix(*known) == Some("")).map(|(happening, ..)| *happening)
    }

    /// Is a job gone behind it?
    #[doc(hidden)] // for the command
    pub fn ends_job(self) -> bool {
        matches!(
            self,
            Self::Done
                | Self::Cancelled
                | Self::Purged
                | Self::Replaced
                | Self::Trimmed
                | Self::Departed
                | Self::Expired
        )
    }

    /// Does it end the run of a job?
    fn ends_run(self) -> bool {
        matches!(
            self,
            Self::Done
                | Self::Retried
                | Self::Released
                | Self::LeaseEnded
                | Self::Failed
                | Self::Cancelled
                | Self::Purged
                | Self::Replaced
        )
    }
}

/// One thing that happened to a job.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, by the server's clock; of a push that no history tells of by the clock of its host, in whole seconds.
    pub at: Millis,
    /// What.
    pub what: Happening,
    /// The language of the process whose call it was: `rust`, `python` or `php`. Empty if nobody knows, as where the queue keeps no history.
    pub language: String,
    /// The number of that process.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// When the job is due since then, if it waits.
    pub due: Option<Millis>,
    /// Of the lease.
    pub token: Option<u64>,
    /// Which attempt the run is, from 1 on; of a job whose history nobody keeps, how many have failed.
    pub attempt: Option<u32>,
    /// How long the run took, as its worker says.
    pub took: Option<Duration>,
    /// The beginning of the error.
    pub error: Option<String>,
    /// What else there is to say: who pushed it if it was a `schedule` or a `bridge`, the state it was in, the job that replaced it.
    pub detail: Option<String>,
}

/// One run of a job, as its events tell it.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRun {
    /// Which attempt, from 1 on. Like the token and the time of its reserve it is not known if the history no longer has its beginning.
    pub attempt: Option<u32>,
    /// The token of its lease.
    pub token: Option<u64>,
    /// The process that ran it: language, number and host.
    pub language: String,
    /// See `language`.
    pub pid: u32,
    /// See `language`.
    pub host: String,
    /// When the worker got the job, by the server's clock.
    pub reserved_at: Option<Millis>,
    /// When the run started. Nobody knows that of one whose worker died before it had said so, nor of one that still goes on.
    pub started_at: Option<Millis>,
    /// When the server heard of its end.
    pub ended_at: Option<Millis>,
    /// What came of it; nothing as long as it goes on.
    pub outcome: Option<Happening>,
    /// The beginning of its error.
    pub error: Option<String>,
}

/// Is it the end of a run, by what it says itself?
fn was_running(event: &TraceEvent) -> bool {
    match event.what {
        // The stored job tells it, and of how many runs it is the last.
        _ if event.language.is_empty() => false,
        Happening::Cancelled | Happening::Purged => event.detail.as_deref() == Some(State::Reserved.as_str()),
        // Of what was replaced nobody has noted the state.
        Happening::Replaced => false,
        _ => true,
    }
}

impl TraceRun {
    /// The run that begins with this event, or, if that is another one, whose beginning is not known.
    fn of(event: &TraceEvent) -> Self {
        let is_begin = event.what == Happening::Reserved;
        // Others end what its worker no longer does.
        let is_its_worker = is_begin
            || matches!(event.what, Happening::Done | Happening::Retried | Happening::Released | Happening::Failed);
        Self {
            attempt: event.attempt.filter(|_| is_begin),
            token: event.token.filter(|_| is_begin),
            language: if is_its_worker { event.language.clone() } else { String::new() },
            pid: if is_its_worker { event.pid } else { 0 },
            host: if is_its_worker { event.host.clone() } else { String::new() },
            reserved_at: Some(event.at).filter(|_| is_begin),
            // What was not fetched ahead starts at once.
            started_at: event.token.filter(|token| is_begin && token % AHEAD != 0).map(|_| event.at),
            ended_at: None,
            outcome: None,
            error: None,
        }
    }

    fn end_with(&mut self, event: &TraceEvent) {
        self.ended_at = Some(event.at);
        self.outcome = Some(event.what);
        self.error.clone_from(&event.error);
        if let Some(took) = event.took {
            let took = Millis::from_duration(took).unwrap_or(Millis::ZERO);
            self.started_at = Some(event.at.saturating_sub(took));
        }
    }

    /// The class of its error, such as `ValueError`, if there is one.
    pub fn error_class(&self) -> Option<&str> {
        let class = self.error.as_deref()?.split(':').next()?;
        let is_class = class.starts_with(|c: char| c.is_alphabetic() || "_\\".contains(c))
            && class.chars().all(|c| c.is_alphanumeric() || "._\\".contains(c));
        is_class.then_some(class)
    }
}

/// The life of a job.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct Trace {
    /// Its id.
    pub id: String,
    /// The job, if it is still in the queue.
    pub job: Option<JobView>,
    /// Does the queue keep a history? Without one the events are those that the stored job tells.
    pub is_kept: bool,
    /// Do the events begin with the push? Otherwise earlier ones are no longer kept, or were not noted, or the stored job tells them.
    pub is_complete: bool,
    /// What happened, the first first.
    pub events: Vec<TraceEvent>,
}

impl Trace {
    /// The runs among these events, the first first.
    pub fn runs(&self) -> Vec<TraceRun> {
        let mut runs: Vec<TraceRun> = Vec::new();
        for event in &self.events {
            let open = runs.last_mut().filter(|run| run.outcome.is_none());
            match (event.what, open) {
                (Happening::Reserved, open) => {
                    // Nobody has told of its end, and it cannot go on.
                    if let Some(run) = open {
                        run.outcome = Some(Happening::LeaseEnded);
                    }
                    runs.push(TraceRun::of(event));
                }
                (Happening::Started, Some(run)) => run.started_at = Some(event.at),
                // It never ran.
                (Happening::GivenBack | Happening::Expired, Some(_)) => _ = runs.pop(),
                // A lease that an audit has ended, and what it did else, is no end of a run.
                (Happening::Repaired, Some(run)) if event.detail.as_deref() == Some("reclaim") => {
                    run.ended_at = Some(event.at);
                    run.outcome = Some(Happening::LeaseEnded);
                }
                (what, Some(run)) if what.ends_run() => run.end_with(event),
                (what, None) if what.ends_run() && was_running(event) => {
                    let lost = runs
                        .last_mut()
                        .filter(|run| what == Happening::Failed && run.outcome == Some(Happening::LeaseEnded));
                    if let Some(run) = lost {
                        // The lease of its last run has ended, which is why it failed.
                        run.error.clone_from(&event.error);
                    } else {
                        // Its beginning is no longer kept.
                        let mut run = TraceRun::of(event);
                        run.end_with(event);
                        runs.push(run);
                    }
                }
                _ => {}
            }
        }
        runs
    }
}

impl Queue {
    /// Keeps a history of this queue: what happened to its last jobs, about so many, and how far back a trace tells of them (default 1,000 jobs and
    /// 24 h; at most 1,000,000 jobs). What is older goes as new events come. No jobs: none is kept any more, and what was kept goes.
    ///
    /// An event takes 20 bytes on the server in a batch, about 60 and the host's name in a call of its own, and a job has three to five. The
    /// server works a tenth longer for batches of a hundred, a quarter for single calls; a queue without a history pays nothing.
    /// [`Queue::trace`] reads it. Each part of a partitioned queue keeps its share. Errors: `InvalidArgument`.
    ///
    /// ```no_run
    /// # async fn doc(orders: duly::Queue) -> Result<(), duly::Error> {
    /// orders.keep_history(duly::DEFAULT_HISTORY_JOBS, duly::DEFAULT_HISTORY_AGE).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn keep_history(&self, jobs: u64, age: Duration) -> Result<(), Error> {
        let about = self.during("keep_history");
        let age = Millis::from_duration(age).map_err(&about)?;
        if jobs > MAX_JOBS {
            return Err(about(Error::invalid(format!("a history is of at most {MAX_JOBS} jobs"))));
        }
        if jobs > 0 && age == Millis::ZERO {
            return Err(about(Error::invalid(
                "a history keeps events for a millisecond at least; no jobs switch it off",
            )));
        }
        let share = jobs.div_ceil(self.each_part().len() as u64);
        for (number, part) in self.each_part().iter().enumerate() {
            let keep = KeepHistory { history_events: share * EVENTS_A_JOB, history_age_ms: age.get() };
            let ended = part.run(keep.with([])).await;
            ended.map_err(|error| self.behind_parts(number, error))?;
        }
        Ok(())
    }

    /// How much the history keeps; nothing if there is none. Of a partitioned queue that of all parts together, as the first part has its
    /// share.
    #[doc(hidden)] // for the command
    pub async fn history(&self) -> Result<Option<HistoryBounds>, Error> {
        let (first, others) = self.first_and_others();
        let reply = first.run(TraceScript::bounds().with([]).during("trace")).await?;
        let parts = others.len() as u64 + 1;
        // Their shares were rounded up.
        Ok(bounds(&reply.kept).map(|bounds| HistoryBounds { jobs: (bounds.jobs * parts).min(MAX_JOBS), ..bounds }))
    }

    /// The life of a job: when and by whom it was pushed, each of its runs with its worker, and what became of it; also
    /// of one that is gone, as long as the history keeps it ([`Queue::keep_history`]). Without a history what the stored job tells. `None` if
    /// nothing is known of it.
    pub async fn trace(&self, id: &str) -> Result<Option<Trace>, Error> {
        name::check_id(id).map_err(self.during("trace"))?;
        let mut known = None;
        for part in self.parts_by_id(id) {
            if is_known(&mut known, part.trace(id).await?) {
                break;
            }
        }
        Ok(known)
    }

    /// The last life of a job under this id, and of that so many events at the most, the newest: the history is read from its end, and until
    /// a moment. Gives the trace, and whether there is more in the history that was not read.
    #[doc(hidden)] // for the command
    pub async fn last_life(
        &self,
        id: &str,
        most_events: usize,
        until: Instant,
    ) -> Result<(Option<Trace>, bool), Error> {
        name::check_id(id).map_err(self.during("trace"))?;
        let (mut known, mut is_cut) = (None, false);
        for part in self.parts_by_id(id) {
            let (trace, is_more) = part.last_life(id, most_events, until).await?;
            is_cut |= is_more;
            if is_known(&mut known, trace) {
                break;
            }
        }
        Ok((known, is_cut))
    }
}

/// Its id may have been in several parts: where the job itself is counts, and nothing more is asked then.
fn is_known(known: &mut Option<Trace>, trace: Trace) -> bool {
    if !trace.events.is_empty() && (known.is_none() || trace.job.is_some()) {
        *known = Some(trace);
    }
    known.as_ref().is_some_and(|known| known.job.is_some())
}

/// What a part of the history says of a job.
#[derive(Default)]
struct Told {
    events: Vec<TraceEvent>,
    is_kept: bool,
    /// The number of the first call that was read.
    first: Option<u64>,
    calls: u32,
    /// Time was over before its end.
    is_cut: bool,
}

impl Part {
    async fn trace(&self, id: &str) -> Result<Trace, Error> {
        // Before its history: what happens meanwhile is in that.
        let found = self.find(crate::script::By::Id, id).await.map_err(|error| error.during("trace"))?;
        let told = self.read_history(id, 0, 0, None).await?;
        self.as_trace(id, found, told.events, told.is_kept).await
    }

    /// From the call with the number `start` on, and before that with the number `stop`, 0 for the end.
    async fn read_history(&self, id: &str, start: u64, stop: u64, until: Option<Instant>) -> Result<Told, Error> {
        let (mut told, mut start) = (Told::default(), Some(start));
        // Each goes further than the one before, or there is nothing more that can be told.
        while let Some(number) = start {
            if until.is_some_and(|until| Instant::now() >= until) {
                told.is_cut = true;
                break;
            }
            let reply = self.run(TraceScript { job_id: id.to_owned(), start: number, stop }.with([])).await?;
            if told.calls > 0 && reply.first != Some(number) {
                // Cut meanwhile: between what was read and this there is a hole.
                told.events.clear();
            }
            told.calls += 1;
            told.is_kept = !reply.kept.is_empty();
            told.first = told.first.or(reply.first);
            told.events.extend(reply.events.iter().filter_map(read));
            start = reply.next.filter(|&next| next > number);
        }
        Ok(told)
    }

    async fn last_life(&self, id: &str, most_events: usize, until: Instant) -> Result<(Trace, bool), Error> {
        let found = self.find(crate::script::By::Id, id).await.map_err(|error| error.during("trace"))?;
        let bounds = self.run(TraceScript::bounds().with([])).await?;
        let (head, mut stop) = (bounds.first.unwrap_or(1), bounds.end);
        let (mut span, mut events, mut is_cut) = (FIRST_SPAN, Vec::new(), false);
        let is_push = |event: &TraceEvent| event.what == Happening::Pushed;
        while stop > head && !events.iter().any(is_push) && events.len() <= most_events {
            let start = stop.saturating_sub(span).max(head);
            let told = self.read_history(id, start, stop, Some(until)).await?;
            is_cut = told.is_cut;
            if is_cut {
                break;
            }
            events.splice(0..0, told.events);
            // One that begins in the middle of a call.
            stop = told.first.unwrap_or(start);
            span = if told.calls == 1 { (span * 2).min(LONGEST_SPAN) } else { (span / 2).max(FIRST_SPAN) };
        }
        events.drain(..events.iter().rposition(is_push).unwrap_or(0));
        is_cut |= events.len() > most_events;
        events.drain(..events.len().saturating_sub(most_events));
        let trace = self.as_trace(id, found, events, !bounds.kept.is_empty()).await?;
        Ok((trace, is_cut))
    }

    async fn as_trace(
        &self,
        id: &str,
        found: Option<Found>,
        mut events: Vec<TraceEvent>,
        is_kept: bool,
    ) -> Result<Trace, Error> {
        let is_complete = events.first().is_some_and(|first| first.what == Happening::Pushed);
        if events.is_empty()
            && let Some(found) = &found
        {
            events = told_by(&found.job, found.token);
            self.add_worker(id, &mut events).await?;
        }
        Ok(Trace { id: id.to_owned(), job: found.map(|found| found.job), is_kept, is_complete, events })
    }
}

impl TraceScript {
    /// Where the history begins and ends, and how much is kept.
    fn bounds() -> Self {
        Self { job_id: String::new(), start: 0, stop: 0 }
    }
}

impl Part {
    /// Who runs it, as its worker has reported.
    async fn add_worker(&self, id: &str, events: &mut [TraceEvent]) -> Result<(), Error> {
        let Some(event) = events.last_mut().filter(|event| event.what == Happening::Reserved) else { return Ok(()) };
        let workers = self.workers().await.map_err(|error| error.during("trace"))?;
        if let Some(worker) = workers.into_iter().find(|worker| worker.running.iter().any(|run| run.id == id)) {
            (event.language, event.pid, event.host) = (worker.language, worker.pid, worker.host);
        }
        Ok(())
    }
}

fn bounds(kept: &str) -> Option<HistoryBounds> {
    let (events, age_ms) = kept.split_once(';')?;
    let age = Duration::from_millis(age_ms.parse().ok()?);
    Some(HistoryBounds { jobs: events.parse::<u64>().ok()?.div_ceil(EVENTS_A_JOB), age })
}

/// An event as the server keeps it: the ms, who made the call, and `<letter>⇥<id>⇥<what else>`. Nothing of one that a later version
/// noted and ours does not know.
fn read([at, origin, line]: &[String; 3]) -> Option<TraceEvent> {
    let mut columns = line.splitn(3, '\t');
    let what = Happening::read(columns.next()?)?;
    let detail = columns.nth(1).unwrap_or_default();
    let mut words = origin.splitn(3, ' ');
    let mut event = TraceEvent {
        at: Millis::new(at.parse().ok()?),
        what,
        language: words.next().unwrap_or_default().to_owned(),
        pid: words.next().and_then(|pid| pid.parse().ok()).unwrap_or_default(),
        host: words.next().unwrap_or_default().to_owned(),
        due: None,
        token: None,
        attempt: None,
        took: None,
        error: None,
        detail: None,
    };
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let due = |text: &str| text.parse().ok().map(Millis::new);
    let (first, behind) = detail.split_once(';').unwrap_or((detail, ""));
    match what {
        Happening::Pushed => (event.due, event.detail) = (due(first), text(behind)),
        Happening::Reserved => {
            event.token = first.parse().ok();
            event.attempt = Some(behind.parse::<u32>().unwrap_or(0).saturating_add(1));
        }
        Happening::Done => event.took = first.parse().ok().map(Duration::from_millis),
        Happening::Retried | Happening::Released | Happening::GivenBack | Happening::Failed => {
            event.took = first.parse().ok().map(Duration::from_millis);
            let (at, error) = behind.split_once(';').unwrap_or((behind, ""));
            (event.due, event.error) = (due(at), text(error));
        }
        Happening::Rescheduled => event.due = due(first),
        _ => event.detail = text(detail),
    }
    Some(event)
}

/// What a stored job tells of its life where there is no history.
fn told_by(job: &JobView, token: Option<u64>) -> Vec<TraceEvent> {
    let event = |what, at| TraceEvent {
        at,
        what,
        language: String::new(),
        pid: 0,
        host: String::new(),
        due: None,
        token: None,
        attempt: None,
        took: None,
        error: None,
        detail: None,
    };
    let envelope = &job.envelope;
    let failures = envelope.attempts;
    let error = (!envelope.error.is_empty()).then(|| envelope.error.clone());
    let pushed_at = Millis::new(envelope.time.saturating_mul(1_000));
    let due = if job.state == State::Delayed { job.at } else { None };
    // The time of a retry is not that of the push.
    let is_first = failures == 0 && job.returns == 0;
    let mut events = vec![TraceEvent { due: due.filter(|_| is_first), ..event(Happening::Pushed, pushed_at) }];
    match (job.state, token, job.at) {
        (State::Reserved, Some(token), _) => events.push(TraceEvent {
            token: Some(token),
            attempt: Some(failures.saturating_add(1)),
            ..event(Happening::Reserved, Millis::new(token / TOKENS_A_MS))
        }),
        (State::Failed, _, Some(at)) => {
            events.push(TraceEvent { attempt: Some(failures), error, ..event(Happening::Failed, at) });
        }
        // When it came back nobody has written down.
        (State::Delayed | State::Ready, _, _) if !is_first => {
            // A return that is not counted is a release, or the end of a lease.
            let (what, attempt, detail) = match failures {
                0 => (Happening::Released, None, "or requeued, or its lease ended; when is not known"),
                _ => (Happening::Retried, Some(failures), "when is not known"),
            };
            events.push(TraceEvent { due, attempt, error, detail: Some(detail.to_owned()), ..event(what, pushed_at) });
        }
        _ => {}
    }
    events
}
