//! Jobs that were leased for a caller who is gone before he has them: a task that was cancelled, a future that was dropped.
//! They are given back at once, so that they need not wait for the end of their lease and count a failure.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::process::runtime::leave_behind;
use crate::queue::job::Job;
use crate::queue::{MAX_BATCH, Part};
use crate::script::{GrantedJob, Outcomes, Verb};
use crate::value::error::Error;

/// A call that goes on, as a task of its own, when its caller drops it half-way: what it brings is then dropped too, and
/// knows what that means. Until then it is the caller who polls it, so that an answer costs no hop between tasks.
pub(crate) struct Outlive<F>
where
    F: Future + Send + 'static,
{
    call: Option<Pin<Box<F>>>,
    begun: bool,
}

impl<F> Outlive<F>
where
    F: Future + Send + 'static,
{
    pub(crate) fn new(call: F) -> Self {
        Self { call: Some(Box::pin(call)), begun: false }
    }
}

impl<F> Future for Outlive<F>
where
    F: Future + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.begun = true;
        let Some(call) = &mut self.call else { return Poll::Pending };
        let answer = std::task::ready!(call.as_mut().poll(context));
        self.call = None;
        Poll::Ready(answer)
    }
}

impl<F> Drop for Outlive<F>
where
    F: Future + Send + 'static,
{
    fn drop(&mut self) {
        if let Some(call) = self.call.take().filter(|_| self.begun) {
            leave_behind(async move { drop(call.await) });
        }
    }
}

/// What a script call granted to one caller.
pub(crate) struct Granted {
    pub(crate) token: u64,
    pub(crate) behind_token: u64,
    pub(crate) jobs: Vec<GrantedJob>,
    /// This caller was not reached: the call was for others, had no room for more, or did not reach what is ready. Who got something
    /// must have it at once, so who got nothing looks again by himself.
    pub(crate) is_unfinished: bool,
    pub(crate) queue: Part,
}

impl Drop for Granted {
    fn drop(&mut self) {
        let mut outcomes = Outcomes::default();
        for job in &self.jobs {
            release(&mut outcomes, job.id_bytes(), self.token);
        }
        give_back(&self.queue, outcomes);
    }
}

/// Decoded jobs that their caller has not yet, because he waits for more.
#[derive(Default)]
pub(crate) struct Unclaimed {
    jobs: Vec<Job>,
}

impl Unclaimed {
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn extend(&mut self, more: Vec<Job>) {
        if self.jobs.is_empty() {
            self.jobs = more;
        } else {
            self.jobs.extend(more);
        }
    }

    /// The caller has them.
    pub(crate) fn claim(mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        for of_one_part in self.jobs.chunk_by(are_of_one_part) {
            let mut outcomes = Outcomes::default();
            for job in of_one_part {
                release(&mut outcomes, job.id(), job.token());
            }
            give_back(of_one_part[0].part(), outcomes);
        }
    }
}

impl Job {
    /// Gives back jobs that were reserved and that nobody has begun: at the heads of their lists, in their order, and as if they
    /// had not been reserved.
    #[doc(hidden)] // for the skins
    pub async fn give_back(jobs: &[Self]) -> Result<(), Error> {
        let mut outcome = Ok(());
        for of_one_part in jobs.chunk_by(are_of_one_part) {
            for batch in of_one_part.chunks(MAX_BATCH) {
                let mut outcomes = Outcomes::default();
                for job in batch {
                    release(&mut outcomes, job.id(), job.token());
                }
                // The others go back, whatever became of these.
                outcome = batch[0].part().settle_outcomes("release", &outcomes).await.map(drop).and(outcome);
            }
        }
        outcome
    }
}

fn are_of_one_part(one: &Job, other: &Job) -> bool {
    Arc::ptr_eq(&one.part().shared, &other.part().shared)
}

fn release(outcomes: &mut Outcomes, id: impl AsRef<[u8]>, token: u64) {
    outcomes.other(Verb::Unstarted, id, token, None, 0, "", None);
}

fn give_back(queue: &Part, outcomes: Outcomes) {
    if outcomes.len() == 0 {
        return;
    }
    // Outside a runtime, or if the call fails, the end of the lease gives them back.
    let queue = queue.clone();
    leave_behind(async move { drop(queue.settle_outcomes("release", &outcomes).await) });
}
