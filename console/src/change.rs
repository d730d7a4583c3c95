//! `duly cancel`, `duly requeue`, `duly reschedule`, `duly purge`, `duly pause` and `duly resume`.

use clap::Args;
use duly::{Data, Error, ErrorKind, Filter, Queue, Requeued, State};

use crate::confirm::Yes;
use crate::jobs::JobState;
use crate::matches::{Act, Matches, act_on_all};
use crate::show::printable;
use crate::target::{By, One, Which};
use crate::when::{When, described};
use crate::{DONE, FAILED, Output, USAGE, invalid};

/// The filter, if there is one. Errors: `InvalidArgument` if jobs are named, too.
fn by_filter(matches: &Matches, are_named: bool) -> Result<Option<Filter>, Error> {
    let filter = matches.filter()?;
    if filter.is_some() && are_named {
        return Err(invalid("either name the jobs or give a filter, not both"));
    }
    Ok(filter)
}

/// Remove jobs, by id or key, or all that match; a worker that runs one loses it
#[derive(Debug, Args)]
#[command(after_help = "\
example: duly cancel mail --only ready --name newsletter.send")]
pub(crate) struct Cancel {
    #[command(flatten)]
    one: One,
    /// The jobs' ids
    #[arg(conflicts_with = "key")]
    ids: Vec<String>,
    /// The business key of the job, instead of its id
    #[arg(long)]
    key: Option<String>,
    /// Only jobs in this state; may be given more than once
    #[arg(long, value_enum)]
    only: Vec<JobState>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    matches: Matches,
}

impl Cancel {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let only: Vec<State> = self.only.iter().map(|state| (*state).into()).collect();
        if let Some(filter) = by_filter(&self.matches, !self.ids.is_empty() || self.key.is_some())? {
            if only.is_empty() {
                return Err(invalid("say in which state: --only delayed, ready, reserved or failed"));
            }
            let filter = (&self.matches, &filter);
            return act_on_all(Act::Cancel, &self.one, &only, filter, self.yes, &mut output).await;
        }
        if self.ids.is_empty() && self.key.is_none() {
            return Err(invalid("say which jobs: their ids, --key, or --only with --name or another filter"));
        }
        let queue = self.one.open(&output).await?;
        let names = only.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(" or ");
        let key = self.key.as_deref().unwrap_or("");
        let ids = self.ids.iter().map(|id| ("id", id.as_str())).chain([("key", key), ("state", &names)]);
        output.acting.begin(self.one.action("cancel", &ids.collect::<Vec<_>>()));
        let (mut status, mut done) = (DONE, 0);
        for (which, is_key) in self.ids.iter().map(|id| (id, false)).chain(self.key.iter().map(|key| (key, true))) {
            let cancelled = match (is_key, only.is_empty()) {
                (false, true) => queue.cancel(which).await,
                (false, false) => queue.cancel_only(which, &only).await,
                (true, true) => queue.cancel_key(which).await,
                (true, false) => queue.cancel_key_only(which, &only).await,
            };
            match cancelled {
                Ok(Some(cancelled)) => {
                    done += 1;
                    let was = cancelled.was.as_str();
                    output.line(&format!("{} is cancelled; it was {was}", printable(&cancelled.id)));
                }
                Ok(None) => {
                    status = status.max(FAILED);
                    let why = match (only.is_empty(), is_key) {
                        (true, true) => By::Key(which).absence(&self.one.queue),
                        (true, false) => format!("there is no job {}", printable(which)),
                        (false, _) => format!("there is no job {} in such a state", printable(which)),
                    };
                    output.complain(&why);
                }
                // What this one is says nothing of the others.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => {
                    status = status.max(if error.kind() == ErrorKind::NotFound { FAILED } else { USAGE });
                    let state = error.job_state().map(|state| format!("it is {}", state.as_str()));
                    let why = state.unwrap_or_else(|| error.to_string());
                    output.complain(&format!("{} is not cancelled: {why}", printable(which)));
                }
                Err(error) => return Err(error),
            }
            output.acting.done_to(done);
        }
        Ok(status)
    }
}

/// Run failed jobs again, with their failures forgotten
#[derive(Debug, Args)]
#[command(after_help = "\
examples:
  duly requeue mail --name mail.send --error 'timed out'
  duly requeue mail --since 2026-12-01T02:00:00Z --until 2026-12-01T03:00:00Z")]
pub(crate) struct Requeue {
    #[command(flatten)]
    one: One,
    /// The jobs' ids
    #[arg(conflicts_with = "all")]
    ids: Vec<String>,
    /// All failed jobs of the queue
    #[arg(long)]
    all: bool,
    /// Other data for this one job, as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "all")]
    data: Option<String>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    matches: Matches,
}

impl Requeue {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        if self.data.is_some() && self.ids.len() != 1 {
            return Err(invalid("--data is for one job: give its id"));
        }
        if let Some(filter) = by_filter(&self.matches, !self.ids.is_empty() || self.all)? {
            let filter = (&self.matches, &filter);
            return act_on_all(Act::Requeue, &self.one, &[State::Failed], filter, self.yes, &mut output).await;
        }
        if self.ids.is_empty() && !self.all {
            return Err(invalid("say which jobs: their ids, --all, or --name or another filter"));
        }
        let data = self.data.as_deref().map(|data| Data::from_json(data, usize::MAX)).transpose()?;
        let queue = self.one.open(&output).await?;
        if self.all {
            let asked = queue.extent(State::Failed).await?;
            let failed = asked.jobs();
            let question = format!("Run all {failed} failed jobs of {} again?", self.one.queue);
            if failed > 0 && !self.yes.agrees(&question, &mut output).await? {
                return Ok(FAILED);
            }
            output.acting.begin(self.one.action("requeue --all", &[]));
            let requeued = queue.requeue_extent(&asked).await?;
            output.acting.done_to(requeued);
            output.line(&format!("{requeued} of {failed} failed jobs are ready again"));
            if failed > 0 {
                say_what_is_left(&queue, State::Failed, &mut output).await;
            }
            if requeued < failed {
                output
                    .complain("the others were not run again: other jobs have their keys, or somebody else was first");
                return Ok(FAILED);
            }
            return Ok(DONE);
        }
        let ids: Vec<_> = self.ids.iter().map(|id| ("id", id.as_str())).collect();
        output.acting.begin(self.one.action("requeue", &ids));
        let (mut status, mut done) = (DONE, 0);
        let outcomes = match data {
            Some(data) => vec![queue.requeue_with(&self.ids[0], data).await?],
            None => queue.requeue(&self.ids).await?,
        };
        for (id, outcome) in self.ids.iter().zip(outcomes) {
            let id = printable(id);
            match outcome {
                Requeued::Ready => {
                    done += 1;
                    output.line(&format!("{id} is ready again"));
                }
                Requeued::Duplicate { id: other } => {
                    status = FAILED;
                    let other = printable(&other);
                    output.complain(&format!("{id} stays in failed: its key belongs to {other} now"));
                }
                _ => {
                    status = FAILED;
                    output.complain(&format!("there is no failed job {id}"));
                }
            }
        }
        output.acting.done_to(done);
        Ok(status)
    }
}

/// Change when a waiting job is due, or all that match are
#[derive(Debug, Args)]
#[command(after_help = "\
example: duly reschedule mail --name newsletter.send --delay 1h")]
pub(crate) struct Reschedule {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    matches: Matches,
}

impl Reschedule {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let when = self.when.moment()?.ok_or_else(|| invalid("say when: --delay SPAN, --at TIME or --now"))?;
        if let Some(filter) = by_filter(&self.matches, self.which.is_given())? {
            // A time is none of a ready job: it is due.
            let states = if self.matches.has_times() { &[State::Delayed][..] } else { &[State::Delayed, State::Ready] };
            let filter = (&self.matches, &filter);
            return act_on_all(Act::Reschedule(when), &self.one, states, filter, self.yes, &mut output).await;
        }
        let (queue, by) = (self.one.open(&output).await?, self.which.by()?);
        let due = described(when);
        output.acting.begin(self.one.action("reschedule", &[&self.which.fields()[..], &[("due", &*due)]].concat()));
        let id = match by {
            By::Id(id) => queue.reschedule(id, when).await?,
            By::Key(key) => queue.reschedule_key(key, when).await?,
        };
        output.line(&format!("{} has another due time", printable(&id)));
        Ok(DONE)
    }
}

/// Remove all jobs of a queue that are in one state, or those of them that match
#[derive(Debug, Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    one: One,
    /// State of the jobs to remove
    #[arg(value_enum)]
    state: JobState,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    matches: Matches,
}

impl Purge {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        if let Some(filter) = self.matches.filter()? {
            let filter = (&self.matches, &filter);
            return act_on_all(Act::Cancel, &self.one, &[self.state.into()], filter, self.yes, &mut output).await;
        }
        let queue = self.one.open(&output).await?;
        let (state, name) = (State::from(self.state), &self.one.queue);
        let asked = queue.extent(state).await?;
        let count = asked.jobs();
        let question = format!("Remove all {count} {} jobs of {name}?{}", state.as_str(), if_others_come(state));
        if count > 0 && !self.yes.agrees(&question, &mut output).await? {
            return Ok(FAILED);
        }
        output.acting.begin(self.one.action("purge", &[("state", state.as_str())]));
        let removed = queue.purge_extent(&asked).await?;
        output.acting.done_to(removed);
        output.line(&format!("{removed} {} jobs of {name} are removed", state.as_str()));
        if count > 0 {
            say_what_is_left(&queue, state, &mut output).await;
        }
        Ok(DONE)
    }
}

/// Which jobs a yes is about where others come before it. Of failed jobs it is about those that had failed when it was asked.
fn if_others_come(state: State) -> String {
    let first = match state {
        State::Failed => return String::new(),
        State::Delayed => "are due first",
        State::Ready => "are to run first",
        State::Reserved => "have the leases that end first",
    };
    format!(" If others come before you answer, as many of all of them are removed: those that {first}.")
}

async fn say_what_is_left(queue: &Queue, state: State, output: &mut Output<'_>) {
    // All is done, and a server that goes away now takes nothing of it back.
    let Ok(counts) = queue.counts().await else { return };
    let left = counts.of(state);
    if left > 0 {
        output.complain(&format!("jobs that are left in {}: {left}", state.as_str()));
    }
}

#[derive(Debug, Args)]
pub(crate) struct SetPaused {
    #[command(flatten)]
    one: One,
}

impl SetPaused {
    pub(crate) async fn run(&self, is_paused: bool, mut output: Output<'_>) -> Result<u8, Error> {
        let (queue, name) = (self.one.open_for_settings(&mut output).await?, &self.one.queue);
        output.acting.begin(self.one.action(if is_paused { "pause" } else { "resume" }, &[]));
        if is_paused {
            queue.pause().await?;
            output.line(&format!("{name} is paused"));
        } else {
            queue.resume().await?;
            output.line(&format!("{name} hands out jobs again"));
        }
        Ok(DONE)
    }
}
