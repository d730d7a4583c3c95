//! Why a run of a Rust handler failed: what is stored with the job, and what the log may say of it.

use std::any::type_name;
use std::error::Error as StdError;
use std::fmt::Write;
use std::panic::Location;
use std::time::Duration;

use crate::value::retry::Outcome;
use crate::value::time::Millis;

/// So many causes are enough, also where they form a circle.
const MOST_CAUSES: usize = 32;

/// Why a run failed, and what happens to its job. Errors, `anyhow::Error` and texts become an ordinary failure, so `?` works in
/// handlers. The stored text is that of the error and of its causes (`source`), with `: ` between them.
///
/// The worker logs the error's type and the line of the `?`, or of the call of one of the functions below. It does not log the text,
/// which may hold data, unless [`WorkerBuilder::log_errors`](super::WorkerBuilder::log_errors) says so.
///
/// It is no error itself, which is what lets every error become one (as in `anyhow`).
#[derive(Debug, Clone)]
pub struct Failure {
    /// The outcome of the run.
    pub outcome: Outcome,
    /// The error text.
    pub error: String,
    pub(super) origin: Origin,
}

/// What a worker logs of the errors with which its handlers fail.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogErrors {
    /// The error's type, and the line where it became a failure.
    #[default]
    Location,
    /// The text of the error and of its causes as well, which may hold data.
    Full,
}

/// What the log says of a failure: no part of it holds data.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    kind: Option<&'static str>,
    location: Option<String>,
    /// What duly itself says of it.
    words: Option<String>,
}

impl Origin {
    pub(super) const fn of_panic(location: Option<String>) -> Self {
        Self { kind: Some("panic"), location, words: None }
    }

    /// The error's type; of a text there is none.
    pub(super) fn kind(&self) -> Option<&'static str> {
        self.kind
    }

    /// File, line and column.
    pub(super) fn location(&self) -> Option<&str> {
        self.location.as_deref()
    }

    pub(super) fn words(&self) -> Option<&str> {
        self.words.as_deref()
    }

    fn of<E>(caller: &Location<'_>) -> Self {
        let kind = Some(type_name::<E>()).filter(|kind| !matches!(*kind, "&str" | "alloc::string::String"));
        // A handler that returns an error of its own is called by this folder's files, which make it a failure; a function that is
        // handed to `map_err`, by the standard library. Neither line says anything.
        let own = file!().trim_end_matches("failure.rs");
        let is_known = !caller.file().starts_with("/rustc/") && !caller.file().starts_with(own);
        Self { kind, location: is_known.then(|| caller.to_string()), words: None }
    }
}

impl<'a, E: Into<Box<dyn StdError + Send + Sync + 'a>>> From<E> for Failure {
    #[track_caller]
    fn from(error: E) -> Self {
        Self::new(Outcome::FAILURE, error)
    }
}

impl Failure {
    #[track_caller]
    fn new<'a, E: Into<Box<dyn StdError + Send + Sync + 'a>>>(outcome: Outcome, error: E) -> Self {
        Self { outcome, origin: Origin::of::<E>(Location::caller()), error: with_causes(&*error.into()) }
    }

    /// No handler failed, but duly: with this text, and these words for the log.
    pub(super) fn of_duly(error: String, words: String) -> Self {
        let origin = Origin { words: Some(words), ..Origin::default() };
        Self { outcome: Outcome::FAILURE, error, origin }
    }

    /// Did the run fail, or does the handler only give the job back?
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.outcome, Outcome::Retry { .. } | Outcome::FailNow)
    }

    /// Counted; the next run is after this long and not when the policy says.
    #[track_caller]
    pub fn retry_after<'a>(after: Duration, error: impl Into<Box<dyn StdError + Send + Sync + 'a>>) -> Self {
        Self::new(Outcome::Retry { after: Some(millis(after)), counted: true }, error)
    }

    /// Not counted: what was needed is taken or not there yet. Another run after this long.
    pub fn release_after(after: Duration) -> Self {
        let outcome = Outcome::Release { after: millis(after), counted: false };
        Self { outcome, error: String::new(), origin: Origin::default() }
    }

    /// Further runs are pointless: to `failed` now, whatever retries are left.
    #[track_caller]
    pub fn fail_now<'a>(error: impl Into<Box<dyn StdError + Send + Sync + 'a>>) -> Self {
        Self::new(Outcome::FailNow, error)
    }
}

fn millis(span: Duration) -> Millis {
    Millis::from_duration(span).unwrap_or(crate::value::time::MAX_DELAY)
}

/// Many errors end with the text of their cause already, which is not repeated.
fn with_causes(error: &(dyn StdError + Send + Sync)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..MOST_CAUSES {
        let Some(error) = cause else { break };
        let said = error.to_string();
        if !text.ends_with(&said) {
            // A text takes whatever is written.
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}
