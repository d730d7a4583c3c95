//! `duly actions`, and how a command gets into that log.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use duly::{Client, ClientBuilder, Error, ErrorKind, MAX_ACTIONS};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::show::{Shown, escaped, moment};
use crate::target::Target;
use crate::{DONE, Output};

/// How long an entry may take. What was done is done, and nobody waits for long to hear of it.
const LONGEST: Duration = Duration::from_secs(2);
/// What of a field is written.
const MOST_OF_FIELD: usize = 128;

/// Show what was done lately by this command and by `duly web`: when, who, what, and what became of it
#[derive(Debug, Args)]
#[command(after_help = "\
The server keeps the newest 1,000 actions of a prefix: cancel, requeue, reschedule, purge, pause, resume, limits, history, delete, those on
schedules, repairs and bridges. Pushes are not among them; `duly history` says how to keep who pushed a job.")]
pub(crate) struct Actions {
    #[command(flatten)]
    target: Target,
    /// Show so many, the newest ones
    #[arg(long, default_value_t = 50, value_parser = limit)]
    limit: usize,
    #[command(flatten)]
    shown: Shown,
}

fn limit(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|limit| (1..=MAX_ACTIONS).contains(limit))
        .ok_or_else(|| format!("it is 1 to {MAX_ACTIONS}"))
}

impl Actions {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let actions = self.target.client()?.actions(self.limit, 0).await?;
        if self.shown.json {
            output.json(&actions.iter().map(value_of).collect::<Vec<_>>())?;
        } else if actions.is_empty() {
            output.line("nothing was done under this prefix");
        } else {
            let row = |action: &duly::Action| {
                vec![moment(action.at), action.who.clone(), action.what.clone(), action.outcome.clone()]
            };
            output.table(&["AT (UTC)", "WHO", "WHAT", "OUTCOME"], actions.iter().map(row).collect());
        }
        Ok(DONE)
    }
}

fn value_of(action: &duly::Action) -> Value {
    json!({"at": action.at.as_seconds(), "who": action.who, "what": action.what, "outcome": action.outcome})
}

/// A verb with the fields that are given: `pause queue=orders`.
pub(crate) fn described(verb: &str, fields: &[(&str, &str)]) -> String {
    let mut text = verb.to_owned();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let value = escaped(value.chars().take(MOST_OF_FIELD));
        text.extend([" ", name, "=", &value]);
    }
    text
}

/// With how many jobs it was done to.
pub(crate) fn outcome_of(outcome: &str, done: u64) -> String {
    format!("{outcome} ({done} {})", if done == 1 { "job" } else { "jobs" })
}

/// What an action came to that was to be done to so many jobs, 1 or more.
pub(crate) fn outcome_of_some(done: u64, wanted: u64) -> String {
    match done {
        0 => "not done".to_owned(),
        _ => outcome_of(if done < wanted { "done in part" } else { "done" }, done),
    }
}

/// Puts an action into the log. Gives why it is not there.
pub(crate) async fn note(client: &Client, who: &str, what: &str, outcome: &str) -> Result<(), String> {
    let failed = match timeout(LONGEST, client.note_action(who, what, outcome)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the server does not answer".to_owned(),
    };
    Err(unnoted(&failed))
}

const ENDED_BEFORE: &str = "a signal has ended the command before";

fn unnoted(why: &str) -> String {
    format!("this is not in the log of actions, `duly actions`: {why}")
}

/// Who runs the command: `ann@host`. Below `sudo` it is who has called that.
pub(crate) fn operator() -> String {
    let named = |name: &&str| std::env::var(name).ok().filter(|user| !user.is_empty());
    // SAFETY: it takes and changes nothing, and cannot fail.
    let number = || format!("uid {}", unsafe { libc::getuid() });
    let user = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(named).unwrap_or_else(number);
    format!("{user}@{}", duly::host_name())
}

/// What a command does, from the moment on at which it begins to.
pub(crate) struct Action {
    /// A client of its own: a signal that ends the command's calls does not end this one.
    builder: ClientBuilder,
    what: String,
    /// To how many jobs it was done.
    done: Option<u64>,
}

impl Action {
    pub(crate) fn new(target: &Target, verb: &str, fields: &[(&str, &str)]) -> Self {
        Self { builder: target.builder().deadline(LONGEST), what: described(verb, fields), done: None }
    }
}

/// What the command has begun to do, if it has.
#[derive(Clone, Default)]
pub(crate) struct Acting {
    begun: Rc<RefCell<Option<Action>>>,
    /// A signal has ended it, and nobody waits for the server any more.
    is_cut_off: Rc<Cell<bool>>,
}

impl Acting {
    pub(crate) fn begin(&self, action: Action) {
        self.begun.replace(Some(action));
    }

    /// See `is_cut_off`.
    pub(crate) fn cut_off(&self) {
        self.is_cut_off.set(true);
    }

    /// It was done to so many jobs until now.
    pub(crate) fn done_to(&self, jobs: u64) {
        if let Some(action) = &mut *self.begun.borrow_mut() {
            action.done = Some(jobs);
        }
    }

    /// The command has ended: notes what it has done. Gives why that could not be noted.
    pub(crate) async fn end(&self, ended: Option<&Result<u8, Error>>) -> Result<(), String> {
        let Some(Action { builder, what, done }) = self.begun.take() else { return Ok(()) };
        let Some(ended) = ended.filter(|_| !self.is_cut_off.get()) else { return Err(unnoted(ENDED_BEFORE)) };
        let is_unreachable = ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unreachable);
        let outcome = match (ended, done) {
            // Where no call was executed there is nothing to note, and nowhere.
            (Err(_), None | Some(0)) if is_unreachable => return Ok(()),
            (Err(error), None | Some(0)) => error.to_string(),
            (Err(error), Some(done)) => format!("{}: {error}", outcome_of("done in part", done)),
            (Ok(_), Some(0)) => "not done".to_owned(),
            (Ok(status), done) => {
                let word = if *status == DONE { "done" } else { "done in part" };
                done.map_or_else(|| word.to_owned(), |done| outcome_of(word, done))
            }
        };
        match builder.build() {
            Ok(client) => note(&client, &operator(), &what, &outcome).await,
            Err(error) => Err(unnoted(&error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_one_line_without_what_is_not_given() {
        let fields = [("queue", "orders"), ("name", ""), ("id", "a\nb\u{1b}")];
        assert_eq!(described("cancel", &fields), "cancel queue=orders id=a\\nb\\u{1b}");
        assert_eq!(described("cancel", &[("id", &"x".repeat(500))]).len(), "cancel id=".len() + MOST_OF_FIELD);
        assert_eq!([1, 2].map(|jobs| outcome_of("done", jobs)), ["done (1 job)", "done (2 jobs)"]);
        let some = [0, 1, 2].map(|jobs| outcome_of_some(jobs, 2));
        assert_eq!(some, ["not done", "done in part (1 job)", "done (2 jobs)"]);
    }
}
