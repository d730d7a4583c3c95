//! Jobs that match a filter: which, looking for them, and acting on them.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use duly::{Error, Filter, Matching, Millis, State};

use crate::confirm::Yes;
use crate::target::One;
use crate::when::described;
use crate::{DONE, FAILED, Output, invalid};

/// Which jobs: all that is given must hold.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which jobs (all that is given must hold)")]
pub(crate) struct Matches {
    /// Jobs of this name
    #[arg(long)]
    name: Option<String>,
    /// Jobs without a name
    #[arg(long, conflicts_with = "name")]
    unnamed: bool,
    /// Jobs whose key begins so
    #[arg(long, value_name = "TEXT")]
    key_prefix: Option<String>,
    /// Jobs whose last failure has this in its text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Jobs of this priority, 0 to 9
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Jobs that were pushed so long ago or longer, such as 2h
    #[arg(long, value_parser = crate::when::span, value_name = "SPAN")]
    older_than: Option<Duration>,
    /// Jobs that failed, are due, or whose lease ends at this time or later, such as 2026-12-01T06:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<jiff::Timestamp>,
    /// Jobs that failed, are due, or whose lease ends before this time
    #[arg(long, value_name = "TIME")]
    until: Option<jiff::Timestamp>,
    /// Jobs that failed in this way, as `duly failed` shows it
    #[arg(long, value_name = "KIND")]
    group: Option<String>,
}

impl Matches {
    pub(crate) fn has_times(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// As the log of actions has it.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let time = |at: &Option<jiff::Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        vec![
            ("name", text(&self.name)),
            ("unnamed", if self.unnamed { "1".to_owned() } else { String::new() }),
            ("key_prefix", text(&self.key_prefix)),
            ("error", text(&self.error)),
            ("priority", self.priority.map(|priority| priority.to_string()).unwrap_or_default()),
            ("older_than", self.older_than.map(|age| format!("{}s", age.as_secs_f64())).unwrap_or_default()),
            ("since", time(&self.since)),
            ("until", time(&self.until)),
            ("group", text(&self.group)),
        ]
    }

    /// Nothing if none is given.
    pub(crate) fn filter(&self) -> Result<Option<Filter>, Error> {
        let mut filter = Filter::new();
        filter = self.name.iter().fold(filter, Filter::name);
        if self.unnamed {
            filter = filter.unnamed();
        }
        filter = self.key_prefix.iter().fold(filter, Filter::key_prefix);
        filter = self.error.iter().fold(filter, Filter::error);
        filter = self.group.iter().fold(filter, Filter::group);
        filter = self.priority.iter().fold(filter, |filter, priority| filter.priority(*priority));
        filter = self.older_than.iter().fold(filter, |filter, age| filter.older_than(*age));
        if let Some(at) = self.since {
            filter = filter.since(moment(at)?);
        }
        if let Some(at) = self.until {
            filter = filter.until(moment(at)?);
        }
        Ok((filter != Filter::new()).then_some(filter))
    }
}

fn moment(at: jiff::Timestamp) -> Result<Millis, Error> {
    u64::try_from(at.as_millisecond()).map(Millis::new).map_err(|_| invalid("jobs have times after 1970"))
}

/// What is done to all that match.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Requeue,
    Cancel,
    Reschedule(duly::When),
}

impl Act {
    fn question(self, count: usize, states: &str, queue: &str) -> String {
        let jobs = format!("{count} {states} {} of {queue}", if count == 1 { "job" } else { "jobs" });
        match self {
            Self::Requeue => format!("Run {jobs} again?"),
            Self::Cancel => format!("Remove {jobs}?"),
            Self::Reschedule(_) => format!("Change when {jobs} {} due?", if count == 1 { "is" } else { "are" }),
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Requeue => "are ready again",
            Self::Cancel => "are removed",
            Self::Reschedule(_) => "have another due time",
        }
    }

    /// As the log of actions has it.
    fn verb(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Cancel => "cancel",
            Self::Reschedule(_) => "reschedule",
        }
    }

    /// The next ones; gives to how many it was done.
    async fn next(self, found: &mut Matching) -> Result<u64, Error> {
        match self {
            Self::Requeue => found.requeue().await,
            Self::Cancel => found.cancel().await,
            Self::Reschedule(when) => found.reschedule(when).await,
        }
    }
}

/// Looks for all jobs of these states that match, asks, and acts on them.
pub(crate) async fn act_on_all(
    act: Act,
    one: &One,
    states: &[State],
    (matches, filter): (&Matches, &Filter),
    yes: Yes,
    output: &mut Output<'_>,
) -> Result<u8, Error> {
    let queue = &one.open(output).await?;
    let states = in_their_order(states);
    let mut all = Vec::new();
    for state in &states {
        let mut found = queue.matching(*state, filter.clone())?;
        loop {
            let looked = found.look().await;
            if looked.is_err() {
                end_progress(output);
            }
            if !looked? {
                break;
            }
            progress(&format!("{} of {} jobs match", found.len(), found.looked_at()), output);
        }
        all.push(found);
    }
    end_progress(output);
    let total = Matching::count_once(&all);
    let names = states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(" or ");
    if total == 0 {
        output.line(&format!("no {names} job of {} matches", queue.name()));
        return Ok(DONE);
    }
    if !yes.agrees(&act.question(total, &names, queue.name()), output).await? {
        return Ok(FAILED);
    }
    let fields = matches.fields();
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let due = if let Act::Reschedule(when) = act { described(when) } else { String::new() };
    output.acting.begin(one.action(act.verb(), &[&[("state", &*names)], &fields[..], &[("due", &*due)]].concat()));
    let mut done = 0;
    for found in &mut all {
        while !found.is_empty() {
            done += match act.next(found).await {
                Ok(some) => some,
                Err(error) => {
                    end_progress(output);
                    output.line(&format!("{done} of {total} jobs {}", act.done()));
                    return Err(error);
                }
            };
            output.acting.done_to(done);
            progress(&format!("{done} of {total} {}", act.done()), output);
        }
    }
    end_progress(output);
    let done = done.min(total as u64);
    output.line(&format!("{done} of {total} jobs {}", act.done()));
    if done < total as u64 {
        let why = match act {
            Act::Requeue => "the others were not run again: other jobs have their keys, or somebody else was first",
            _ => "the others have left that state meanwhile",
        };
        output.complain(why);
        return Ok(FAILED);
    }
    Ok(DONE)
}

/// In the order in which a job goes through them.
pub(crate) const EVERY: [State; 4] = [State::Delayed, State::Ready, State::Reserved, State::Failed];

/// The states that were asked for, each once, in the order in which a job goes through them: so a search finds a job that moves on meanwhile.
/// One that comes back, as a retry does, may be missed in any order.
pub(crate) fn in_their_order(states: &[State]) -> Vec<State> {
    EVERY.into_iter().filter(|state| states.contains(state)).collect()
}

/// Only on a terminal, where the next line takes its place.
pub(crate) fn progress(text: &str, output: &mut Output<'_>) {
    if std::io::stderr().is_terminal() {
        _ = write!(output.err, "\r{text}\x1b[K");
        _ = output.err.flush();
    }
}

pub(crate) fn end_progress(output: &mut Output<'_>) {
    progress("", output);
}
