//! The outcome of a run. It is noted while handler and hooks run, and sent when they have ended: so the lease is
//! renewed meanwhile, there is one outcome, and the hooks know whether a failure is the last one before it is sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::executor::Ended;
use crate::format::envelope::Envelope;
use crate::queue::{Decided, Job, Settlement};
use crate::value::data::Data;
use crate::value::error::{Error, ErrorKind};
use crate::value::retry::{Next, Outcome};

/// Of one run. What is said first counts.
#[derive(Debug, Default)]
pub(crate) struct RunOutcome {
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// By the handler, or by who runs it.
    said: Option<Outcome>,
    ended: Option<Ended>,
    /// The engine has it; whoever still holds the job has nothing to say.
    is_over: bool,
}

impl RunOutcome {
    /// Notes what is to become of the job, which a failure hook may have changed, and gives what that comes to.
    ///
    /// Errors: `LeaseLost` when that is decided already, `InvalidArgument` and `TooLarge` for a change that cannot be stored.
    pub(crate) fn note(
        &self,
        job: &Job,
        was_interrupted: bool,
        outcome: Outcome,
        error: String,
        mut changed: Option<Envelope>,
    ) -> Result<Next, Error> {
        let operation = match outcome {
            Outcome::Done => "ack",
            Outcome::Release { .. } => "release",
            _ => "fail",
        };
        let about = |error: Error| job.part().during(operation)(error).of_job(job.id());
        let mut noted = self.lock();
        if noted.ended.is_some() || noted.is_over || was_interrupted {
            let said =
                "it is decided already what becomes of this job: by its handler, or because its run was interrupted";
            return Err(about(Error::new(ErrorKind::LeaseLost, said)));
        }
        if let Some(changed) = &mut changed {
            changed.error.clone_from(&error);
        }
        let next = job.what_becomes(outcome, changed.as_ref()).map_err(about)?;
        noted.ended = Some(Ended::Outcome { outcome, error, rewritten: changed.map(Box::new), result: None });
        noted.said = Some(outcome);
        Ok(next)
    }

    /// Notes that the job is done, and what it gives. Errors: as of `note`.
    pub(crate) fn note_done(&self, job: &Job, was_interrupted: bool, result: Option<Data>) -> Result<(), Error> {
        self.note(job, was_interrupted, Outcome::Done, String::new(), None)?;
        self.lock().ended = Some(Ended::done(result));
        Ok(())
    }

    /// What was noted, for the case that the run is interrupted before its end.
    pub(crate) fn decided(&self, job: &Job) -> Option<Decided> {
        let noted = self.lock();
        let Some(Ended::Outcome { outcome, error, rewritten, result }) = &noted.ended else { return None };
        let (rewritten, result) = (rewritten.as_deref().cloned(), result.clone());
        Decided::of(&Settlement { job, outcome: *outcome, error, rewritten, result }).ok()
    }

    /// Notes what the handler gave, if nothing was said before.
    pub(crate) fn keep(&self, result: Option<Data>) {
        self.lock().ended.get_or_insert_with(|| Ended::done(result));
    }

    /// The outcome that was noted, unless that came to nothing because the run was interrupted.
    pub(crate) fn said(&self, was_interrupted: impl FnOnce() -> bool) -> Option<Outcome> {
        self.lock().said.filter(|_| !was_interrupted())
    }

    /// Gives what was noted, at the end of the run; nobody says anything after that.
    pub(crate) fn close(&self, was_interrupted: impl FnOnce() -> bool) -> Option<Ended> {
        let mut noted = self.lock();
        noted.said = noted.said.filter(|_| !was_interrupted());
        noted.is_over = true;
        noted.ended.take()
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Client;

    fn job(max_retries: u32) -> Job {
        let queue = Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap();
        let mut envelope = Envelope::new("a", Data::from_json("1", 10).unwrap());
        envelope.max_attempts = max_retries;
        Job::granted(envelope, 0, 16, &queue, false)
    }

    fn fail(outcome: &RunOutcome, job: &Job, changed: Option<Envelope>) -> Result<bool, ErrorKind> {
        let next = outcome.note(job, false, Outcome::FAILURE, "no answer".to_owned(), changed);
        next.map(Next::is_last).map_err(|error| error.kind())
    }

    #[tokio::test]
    async fn what_a_hook_changes_decides_whether_it_was_the_last_run() {
        let changed = |job: &Job, max_retries| Envelope { max_attempts: max_retries, ..job.envelope.clone() };
        for (max_retries, after_hook, is_last) in
            [(1, None, false), (0, None, true), (0, Some(1), false), (1, Some(0), true)]
        {
            let (outcome, job) = (RunOutcome::default(), job(max_retries));
            assert_eq!(fail(&outcome, &job, after_hook.map(|max| changed(&job, max))), Ok(is_last));
            let Some(Ended::Outcome { error, rewritten, .. }) = outcome.close(|| false) else { panic!("it was noted") };
            assert_eq!((error.as_str(), rewritten.is_some()), ("no answer", after_hook.is_some()));
            assert!(rewritten.is_none_or(|changed| changed.error == "no answer"), "a record has its last error");
        }
    }

    #[tokio::test]
    async fn what_is_said_first_counts() {
        let (outcome, job) = (RunOutcome::default(), job(0));
        let refused = Envelope { key: Some("another".to_owned()), ..job.envelope.clone() };
        assert_eq!(fail(&outcome, &job, Some(refused)), Err(ErrorKind::InvalidArgument), "which changes nothing");
        assert_eq!(fail(&outcome, &job, None), Ok(true));
        outcome.keep(None);
        assert_eq!(outcome.note_done(&job, false, None).unwrap_err().kind(), ErrorKind::LeaseLost);
        assert_eq!(outcome.said(|| false), Some(Outcome::FAILURE));
        assert_eq!(outcome.said(|| true), None);
        assert!(matches!(outcome.close(|| false), Some(Ended::Outcome { outcome: Outcome::FAILURE, .. })));
        assert_eq!(outcome.said(|| false), Some(Outcome::FAILURE), "also behind the run");
        assert_eq!(fail(&outcome, &job, None), Err(ErrorKind::LeaseLost), "it is over");
    }

    #[tokio::test]
    async fn an_interrupted_run_has_nothing_to_say() {
        let (outcome, job) = (RunOutcome::default(), job(0));
        let refused = outcome.note(&job, true, Outcome::FAILURE, String::new(), None).unwrap_err();
        assert_eq!((refused.kind(), refused.operation()), (ErrorKind::LeaseLost, Some("fail")));
        assert!(outcome.close(|| true).is_none());
    }
}
