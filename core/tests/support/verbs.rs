//! Every verb that changes a queue, as something that a test can prepare, run, and compare with an undisturbed run.

use std::time::Duration;

use duly::{
    Error, ErrorKind, Job, Limits, Millis, NameLimits, NewJob, OnDuplicate, Outcome, Queue, ReserveOptions,
    RetryPolicy, Schedule, Settlement, State, When,
};
use serde_json::json;

use super::eventually;

macro_rules! verbs {
    ($($verb:ident)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Verb { $($verb,)* Progress }

        use Verb::{$($verb,)* Progress};

        /// What any client can say that knows the queue, or the lease.
        pub const ALL: &[Verb] = &[$($verb),*];
    };
}

verbs! {
    Push PushDelayed PushKeyed PushReplacing ReplaceReserved PushBatch PushMany Reserve Ack AckWithResult Fail FailAtOnce FailForGood
    Release ReleaseCounted Extend Cancel CancelKey CancelReserved CancelOnly Reschedule RescheduleReady Requeue RequeueAll PurgeReady
    PurgeDelayed PurgeReserved PurgeFailed Pause Resume Promote Reclaim ReclaimForGood KeepFailed SetLimits KeepHistory
    PutSchedule ChangeSchedule RemoveSchedule PauseSchedule ResumeSchedule Delete
}

/// What goes through the client that reserved the job, whichever queue is passed to [`Verb::run`].
pub const OF_THE_JOB: &[Verb] = &[Progress];

/// What a prepared verb works on.
#[derive(Default)]
pub struct Prepared {
    pub job: Option<Job>,
    /// How many jobs there are, for the verb that asks for their number.
    pub jobs: u64,
}

pub fn new_job(id: &str) -> NewJob {
    NewJob::new(&json!({ "canary": "s3cr3t-canary" })).unwrap().id(id)
}

fn in_an_hour() -> Duration {
    Duration::from_secs(3600)
}

fn lease(lease: Duration) -> ReserveOptions {
    ReserveOptions::new().lease(lease)
}

impl Verb {
    /// Does this verb give work back or end it? Those must go on when the server has no memory left.
    pub fn lets_workers_finish(self) -> bool {
        matches!(
            self,
            Reserve
                | Ack
                | AckWithResult
                | Fail
                | FailAtOnce
                | FailForGood
                | Release
                | ReleaseCounted
                | Extend
                | Cancel
                | CancelKey
                | CancelReserved
                | CancelOnly
                | Progress
                | Pause
                | Resume
                | KeepFailed
                | SetLimits
        )
    }

    /// Does it store something new beside or in place of what is there? A server without memory must refuse it.
    pub fn makes_a_full_server_grow(self) -> bool {
        matches!(
            self,
            Push | PushReplacing
                | ReplaceReserved
                | PushDelayed
                | PushKeyed
                | PushBatch
                | PushMany
                | PutSchedule
                | KeepHistory
        )
    }

    /// Brings a fresh queue to where the verb has something to do.
    pub async fn prepare(self, queue: &Queue) -> Prepared {
        let mut job = None;
        match self {
            Push | PushDelayed | PushKeyed | PushBatch | PushMany | Pause | KeepFailed | SetLimits | KeepHistory
            | PutSchedule => {}
            ChangeSchedule | RemoveSchedule | PauseSchedule => put_schedule(queue, "0 0 1 1 *").await,
            ResumeSchedule => {
                put_schedule(queue, "0 0 1 1 *").await;
                queue.schedules().pause("a").await.unwrap();
            }
            PushReplacing => {
                queue.push(new_job("old").key("k").delay(in_an_hour())).await.unwrap();
            }
            Reserve | PurgeReady | RescheduleReady | Delete => {
                queue.push(new_job("a")).await.unwrap();
            }
            Cancel | CancelOnly | Reschedule | PurgeDelayed => {
                queue.push(new_job("a").delay(in_an_hour())).await.unwrap();
            }
            CancelKey => {
                queue.push(new_job("a").key("k")).await.unwrap();
            }
            Ack | Fail | FailForGood | Release | ReleaseCounted | Extend | CancelReserved | ReplaceReserved
            | PurgeReserved | Progress => {
                queue.push(new_job("a").key("k")).await.unwrap();
                job = queue.reserve(&lease(in_an_hour())).await.unwrap().pop();
            }
            FailAtOnce => {
                queue.push(new_job("a").key("k").retry(at_once())).await.unwrap();
                job = queue.reserve(&lease(in_an_hour())).await.unwrap().pop();
            }
            AckWithResult => {
                queue.push(new_job("a").key("k").result_ttl(in_an_hour())).await.unwrap();
                job = queue.reserve(&lease(in_an_hour())).await.unwrap().pop();
            }
            Requeue | RequeueAll | PurgeFailed => {
                queue.push(new_job("a")).await.unwrap();
                let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
                job.settle(Outcome::FailNow, "no").await.unwrap();
            }
            Resume => queue.pause().await.unwrap(),
            Promote => {
                queue.push(new_job("a").delay(Duration::from_millis(1))).await.unwrap();
                eventually("the job is due", || async {
                    queue.counts().await.unwrap().next_due_in == Some(Millis::ZERO)
                })
                .await;
            }
            Reclaim | ReclaimForGood => {
                let retries = if self == Reclaim { 5 } else { 0 };
                queue.push(new_job("a").max_retries(retries)).await.unwrap();
                queue.reserve(&lease(Duration::from_millis(1))).await.unwrap();
                eventually("the lease is over", || async {
                    queue.counts().await.unwrap().next_lease_end_in == Some(Millis::ZERO)
                })
                .await;
            }
        }
        Prepared { job, jobs: 1 }
    }

    /// Runs the verb through this queue; gives its answer as text, without what differs from run to run.
    pub async fn run(self, queue: &Queue, prepared: &Prepared) -> Result<String, Error> {
        let settle = |outcome: Outcome| async move {
            let job = prepared.job.as_ref().unwrap();
            queue
                .settle_all(&[Settlement { job, outcome, error: "no", rewritten: None, result: None }])
                .await
                .map(|flags| format!("{flags:?}"))
        };
        match self {
            Push => queue.push(new_job("a")).await.map(|pushed| format!("{pushed:?}")),
            PushDelayed => {
                // Without an id of its own it takes the other script.
                let job = NewJob::new(&json!(1)).unwrap().delay(in_an_hour());
                queue.push(job).await.map(|_| "created".to_owned())
            }
            PushKeyed => queue.push(new_job("a").key("k").priority(2)).await.map(|pushed| format!("{pushed:?}")),
            PushReplacing => {
                let job = new_job("a").key("k").on_duplicate(OnDuplicate::Replace);
                queue.push(job).await.map(|pushed| format!("{pushed:?}"))
            }
            ReplaceReserved => {
                let job = new_job("a").on_duplicate(OnDuplicate::Replace);
                queue.push(job).await.map(|pushed| format!("{pushed:?}"))
            }
            PushBatch => {
                let jobs = (0..20).map(|_| NewJob::new(&json!("s3cr3t-canary")).unwrap()).collect();
                queue.push_batch(jobs).await.map(|pushed| pushed.len().to_string())
            }
            PushMany => {
                // They disagree in what to do with a duplicate, so these are two calls.
                let jobs = (0..20).map(|n| match n / 10 {
                    0 => new_job(&n.to_string()),
                    _ => new_job(&n.to_string()).on_duplicate(OnDuplicate::Keep),
                });
                queue.push_many(jobs, |_| {}).await.map(|summary| format!("{summary:?}"))
            }
            Reserve => {
                let jobs = queue.reserve(&lease(in_an_hour()).max(10)).await?;
                Ok(jobs.iter().map(|job| format!("{} {}", job.id(), job.attempt())).collect::<Vec<_>>().join(","))
            }
            Ack => settle(Outcome::Done).await,
            AckWithResult => {
                let job = prepared.job.as_ref().unwrap();
                let result = job.result("s3cr3t-canary").unwrap();
                let settled = queue.settle_all(&[Settlement { result, ..Settlement::done(job) }]).await?;
                // What was left, as far as it can be seen at once.
                let left =
                    Box::pin(queue.wait_result("a", Some(Duration::ZERO))).await.map(|result| result.as_str().len());
                Ok(format!("{settled:?} {:?}", left.map_err(|error| error.kind())))
            }
            Fail | FailAtOnce => settle(Outcome::FAILURE).await,
            FailForGood => settle(Outcome::FailNow).await,
            Release => settle(Outcome::Release { after: Millis::ZERO, counted: false }).await,
            ReleaseCounted => settle(Outcome::Release { after: Millis::ZERO, counted: true }).await,
            Extend => {
                let jobs = std::slice::from_ref(prepared.job.as_ref().unwrap());
                queue.extend_all(jobs, 2 * in_an_hour()).await.map(|held| format!("{held:?}"))
            }
            Cancel | CancelReserved => queue.cancel("a").await.map(|cancelled| format!("{cancelled:?}")),
            CancelOnly => queue.cancel_only("a", &[State::Delayed]).await.map(|cancelled| format!("{cancelled:?}")),
            CancelKey => queue.cancel_key("k").await.map(|cancelled| format!("{cancelled:?}")),
            Reschedule => queue.reschedule("a", When::Now).await,
            RescheduleReady => queue.reschedule("a", When::After(Millis::from_secs(3600))).await,
            Requeue => queue.requeue(&["a".to_owned()]).await.map(|outcomes| format!("{outcomes:?}")),
            RequeueAll => queue.requeue_all().await.map(|count| count.to_string()),
            PurgeReady => queue.purge(State::Ready).await.map(|count| count.to_string()),
            PurgeDelayed => queue.purge(State::Delayed).await.map(|count| count.to_string()),
            PurgeReserved => queue.purge(State::Reserved).await.map(|count| count.to_string()),
            PurgeFailed => queue.purge(State::Failed).await.map(|count| count.to_string()),
            Pause => queue.pause().await.map(|()| String::new()),
            Resume => queue.resume().await.map(|()| String::new()),
            Promote => queue.promote().await.map(|count| count.to_string()),
            Reclaim | ReclaimForGood => queue.reclaim().await.map(|count| count.to_string()),
            KeepFailed => queue.keep_failed(7, in_an_hour()).await.map(|()| String::new()),
            KeepHistory => queue.keep_history(7, in_an_hour()).await.map(|()| String::new()),
            SetLimits => queue
                .set_limits(&Limits::new().concurrency(9).name("n", NameLimits::new().concurrency(9)))
                .await
                .map(|()| String::new()),
            PutSchedule => queue.schedules().put("a", &schedule("@yearly")).await.map(|put| format!("{put:?}")),
            ChangeSchedule => queue.schedules().put("a", &schedule("0 0 2 1 *")).await.map(|put| format!("{put:?}")),
            RemoveSchedule => queue.schedules().remove("a").await.map(|there| there.to_string()),
            PauseSchedule => queue.schedules().pause("a").await.map(|there| there.to_string()),
            ResumeSchedule => queue.schedules().resume("a").await.map(|there| there.to_string()),
            Delete => queue.delete(prepared.jobs).await.map(|()| String::new()),
            Progress => prepared.job.as_ref().unwrap().progress(0.5, "half").await.map(|()| String::new()),
        }
    }

    /// Script calls that it makes before the one that changes something.
    pub fn calls_before(self) -> usize {
        let reads_first = matches!(
            self,
            RequeueAll
                | PurgeReady
                | PurgeDelayed
                | PurgeReserved
                | PurgeFailed
                | PutSchedule
                | ChangeSchedule
                | RemoveSchedule
                | PauseSchedule
                | ResumeSchedule
        );
        usize::from(reads_first)
    }

    /// Does it only say how much this very call moved? Then it may be repeated without a number, and says 0 the second time.
    pub fn counts_what_it_moved(self) -> bool {
        matches!(self, Promote | Reclaim | ReclaimForGood)
    }
}

fn schedule(pattern: &str) -> Schedule {
    Schedule::cron(pattern, NewJob::new(&json!("s3cr3t-canary")).unwrap()).unwrap()
}

async fn put_schedule(queue: &Queue, pattern: &str) {
    queue.schedules().put("a", &schedule(pattern)).await.unwrap();
}

/// Where jobs are and how often each thing was done: the same after a disturbed run as after an undisturbed one.
pub async fn summary(queue: &Queue) -> String {
    let counts = queue.counts().await.unwrap();
    let mut totals = counts.totals.clone();
    totals.sort();
    let schedules = queue.schedules().list(0, 10).await.unwrap();
    let schedules: Vec<_> = schedules.iter().map(|view| (&view.name, view.next, view.is_paused, view.fired)).collect();
    format!(
        "delayed {} ready {} reserved {} failed {} paused {} {totals:?} {schedules:?}",
        counts.delayed, counts.ready, counts.reserved, counts.failed, counts.paused
    )
}

/// A policy that tries again at once.
pub fn at_once() -> RetryPolicy {
    RetryPolicy::Fixed { delay: Millis::ZERO }
}

/// No error may show a job's data or a password.
pub fn assert_keeps_secrets(error: &Error) {
    let mut texts = vec![format!("{error}"), format!("{error:?}"), format!("{error:#?}")];
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        texts.push(format!("{inner} {inner:?}"));
        source = inner.source();
    }
    for text in texts {
        assert!(!text.contains("s3cr3t"), "{text}");
    }
}

/// Asserts the kind, and that the message is one lower-case line that keeps secrets.
#[track_caller]
pub fn assert_kind(error: &Error, kind: ErrorKind) {
    assert_eq!(error.kind(), kind, "{error}");
    assert_keeps_secrets(error);
    assert!(!error.to_string().contains('\n'), "{error}");
}
