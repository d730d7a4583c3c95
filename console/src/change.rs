//! `duly cancel`, `duly requeue`, `duly reschedule`, `duly purge`, `duly pause` and `duly resume`.

use clap::Args;
use duly::{Error, Requeued, State};

use crate::confirm::Yes;
use crate::jobs::JobState;
use crate::show::printable;
use crate::target::{By, One, Which};
use crate::when::When;
use crate::{DONE, FAILED, Output, invalid};

/// Remove a job; a worker that runs it loses it
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    one: One,
    /// The jobs' ids
    #[arg(required_unless_present = "key", conflicts_with = "key")]
    ids: Vec<String>,
    /// The business key of the job, instead of its id
    #[arg(long)]
    key: Option<String>,
    /// Only a job in this state; may be given more than once
    #[arg(long, value_enum)]
    only: Vec<JobState>,
}

impl Cancel {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let queue = self.one.open().await?;
        let only: Vec<State> = self.only.iter().map(|state| (*state).into()).collect();
        let mut status = DONE;
        for (which, is_key) in self.ids.iter().map(|id| (id, false)).chain(self.key.iter().map(|key| (key, true))) {
            let cancelled = match (is_key, only.is_empty()) {
                (false, true) => queue.cancel(which).await?,
                (false, false) => queue.cancel_only(which, &only).await?,
                (true, true) => queue.cancel_key(which).await?,
                (true, false) => queue.cancel_key_only(which, &only).await?,
            };
            if let Some(cancelled) = cancelled {
                output.line(&format!("{} is cancelled; it was {}", printable(&cancelled.id), cancelled.was.as_str()));
            } else {
                status = FAILED;
                let of = if only.is_empty() { "" } else { " in such a state" };
                output.complain(&format!("there is no job {}{of}", printable(which)));
            }
        }
        Ok(status)
    }
}

/// Run failed jobs again, with their failures forgotten
#[derive(Debug, Args)]
pub(crate) struct Requeue {
    #[command(flatten)]
    one: One,
    /// The jobs' ids
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All failed jobs of the queue
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    yes: Yes,
}

impl Requeue {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let queue = self.one.open().await?;
        if self.all {
            let failed = queue.counts().await?.failed;
            let question = format!("Run all {failed} failed jobs of {} again?", self.one.queue);
            if failed > 0 && !self.yes.agrees(&question, &mut output)? {
                return Ok(FAILED);
            }
            // What fails meanwhile was not asked for.
            let requeued = if failed == 0 { 0 } else { queue.requeue_all().await? };
            output.line(&format!("{requeued} of {failed} failed jobs are ready again"));
            if requeued < failed {
                output.complain("the others stay in failed: other jobs have their keys, or somebody else was first");
                return Ok(FAILED);
            }
            return Ok(DONE);
        }
        let mut status = DONE;
        for (id, outcome) in self.ids.iter().zip(queue.requeue(&self.ids).await?) {
            let id = printable(id);
            match outcome {
                Requeued::Ready => output.line(&format!("{id} is ready again")),
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
        Ok(status)
    }
}

/// Change when a waiting job is due
#[derive(Debug, Args)]
pub(crate) struct Reschedule {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    when: When,
}

impl Reschedule {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let when = self.when.moment()?.ok_or_else(|| invalid("say when: --delay SPAN, --at TIME or --now"))?;
        let queue = self.one.open().await?;
        let id = match self.which.by()? {
            By::Id(id) => queue.reschedule(id, when).await?,
            By::Key(key) => queue.reschedule_key(key, when).await?,
        };
        output.line(&format!("{} has another due time", printable(&id)));
        Ok(DONE)
    }
}

/// Remove all jobs of a queue that are in one state
#[derive(Debug, Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    one: One,
    /// Which ones
    #[arg(value_enum)]
    state: JobState,
    #[command(flatten)]
    yes: Yes,
}

impl Purge {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let queue = self.one.open().await?;
        let (state, name) = (State::from(self.state), &self.one.queue);
        let count = queue.counts().await?.of(state);
        let question = format!("Remove all {count} {} jobs of {name}?", state.as_str());
        if count > 0 && !self.yes.agrees(&question, &mut output)? {
            return Ok(FAILED);
        }
        // What comes meanwhile was not asked for.
        let removed = if count == 0 { 0 } else { queue.purge(state).await? };
        output.line(&format!("{removed} {} jobs of {name} are removed", state.as_str()));
        Ok(DONE)
    }
}

#[derive(Debug, Args)]
pub(crate) struct SetPaused {
    #[command(flatten)]
    one: One,
}

impl SetPaused {
    pub(crate) async fn run(&self, is_paused: bool, mut output: Output<'_>) -> Result<u8, Error> {
        let (queue, name) = (self.one.open().await?, &self.one.queue);
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
