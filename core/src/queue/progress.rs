//! Progress: how far a run has come, noted by its handler and shown to whoever looks at the job.

use crate::format::envelope::cut;
use crate::queue::Part;
use crate::queue::job::Job;
use crate::script::{Declared, Digits, JobKeys, NoteProgress};
use crate::value::error::Error;
use crate::value::time::Millis;

/// The most bytes of the text that are kept.
pub const MAX_PROGRESS_TEXT_BYTES: usize = 1024;

/// How far a run has come.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f64,
    /// The text that the handler gave; may be empty.
    pub text: String,
    /// When the handler reported it, by the server's clock.
    pub at: Millis,
}

impl Job {
    /// Notes how far this run has come, for [`Queue::find`](crate::Queue::find) and [`Queue::peek`](crate::Queue::peek): a
    /// fraction from 0 to 1, and a text (cut to 1 KiB).
    ///
    /// It is shown while this lease is held, and for an hour at most. Errors: `InvalidArgument` for another number; `LeaseLost`.
    pub async fn progress(&self, fraction: f64, text: &str) -> Result<(), Error> {
        self.part().note_progress(self, fraction, text).await
    }
}

impl Part {
    pub(crate) async fn note_progress(&self, job: &Job, fraction: f64, text: &str) -> Result<(), Error> {
        let about = |error: Error| self.during("progress")(error).of_job(job.id());
        if !is_fraction(fraction) {
            return Err(about(Error::invalid(format!("progress is a number from 0 to 1, not {fraction}"))));
        }
        let note = NoteProgress {
            token: Digits(job.token()),
            // Minus zero is zero.
            fraction: (fraction + 0.0).to_string(),
            text: cut(text, MAX_PROGRESS_TEXT_BYTES).to_owned(),
            progress_count: JobKeys::one(job.id()),
        };
        let held = self.run(note.with([job.id()])).await.map_err(about)?;
        if held == [true] { Ok(()) } else { Err(self.lease_lost("progress", job)) }
    }
}

/// Not a number is none.
fn is_fraction(fraction: f64) -> bool {
    (0.0..=1.0).contains(&fraction)
}

impl Progress {
    /// From `<token>;<fraction>;<ms>;<text>`.
    pub(crate) fn read(noted: &str) -> Option<Self> {
        let mut parts = noted.splitn(4, ';').skip(1);
        // Rust reads `nan` and `inf`, too; duly writes neither.
        let fraction = parts.next()?.parse().ok().filter(|&fraction| is_fraction(fraction))?;
        let at = Millis::new(parts.next()?.parse().ok()?);
        Some(Self { fraction, at, text: parts.next()?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::envelope::Envelope;
    use crate::queue::client::Client;
    use crate::value::data::Data;
    use crate::value::error::ErrorKind;

    const NO_FRACTIONS: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 1.1];

    #[tokio::test]
    async fn what_is_no_fraction_is_refused_before_it_is_sent() {
        // Nobody listens there.
        let queue = Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap();
        let envelope = Envelope::new("j1", Data::from_json("1", 10).unwrap());
        let job = Job::granted(envelope, 0, 16, &queue, false);
        for fraction in NO_FRACTIONS {
            assert_eq!(job.progress(fraction, "").await.unwrap_err().kind(), ErrorKind::InvalidArgument, "{fraction}");
        }
    }

    #[test]
    fn what_is_no_fraction_is_not_read() {
        for fraction in NO_FRACTIONS.map(|fraction| fraction.to_string()).iter().map(String::as_str).chain(["", "half"])
        {
            assert_eq!(Progress::read(&format!("16;{fraction};5;text")), None, "{fraction}");
        }
        let read = Progress::read("16;0.5;5;a;b").unwrap();
        assert_eq!((read.fraction, read.at, read.text.as_str()), (0.5, Millis::new(5), "a;b"));
    }
}
