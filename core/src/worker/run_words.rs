//! What a worker's log says of a run that has ended, in every language: how loudly, and the words behind the name of the job.

use super::event::EventLevel;
use crate::value::retry::Next;
use crate::value::time::Millis;

/// The outcome as a word: `ack`, `retry`, `failed` or `release`; and after how long the job runs again.
pub fn outcome_of(next: Next) -> (&'static str, Option<Millis>) {
    match next {
        Next::Ack => ("ack", None),
        Next::RetryAfter { after, .. } => ("retry", Some(after)),
        Next::Failed { .. } => ("failed", None),
        Next::ReleaseAfter(after) => ("release", Some(after)),
    }
}

/// What the log says of an outcome. A failure without another run is one for good.
pub fn words_of(outcome: &str, after: Option<Millis>) -> (EventLevel, String) {
    match (outcome, after) {
        ("ack", _) => (EventLevel::Debug, "is done".to_owned()),
        ("release", after) => {
            let after = after.unwrap_or(Millis::ZERO);
            (EventLevel::Info, format!("was released by its handler; it runs again in {after} s"))
        }
        (_, Some(after)) => (EventLevel::Warning, format!("failed; it runs again in {after} s")),
        (_, None) => (EventLevel::Error, "failed for good".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_what_becomes_of_a_job_and_how_loudly() {
        let after = Millis::new(2500);
        let table = [
            (Next::Ack, "ack", "debug", "is done"),
            (Next::RetryAfter { after, attempts: 1 }, "retry", "warning", "failed; it runs again in 2.5 s"),
            (Next::Failed { attempts: 1 }, "failed", "error", "failed for good"),
            (Next::ReleaseAfter(after), "release", "info", "was released by its handler; it runs again in 2.5 s"),
        ];
        for (next, outcome, level, words) in table {
            let (word, after) = outcome_of(next);
            let (loud, said) = words_of(word, after);
            assert_eq!((word, loud.as_str(), &*said), (outcome, level, words));
        }
    }
}
