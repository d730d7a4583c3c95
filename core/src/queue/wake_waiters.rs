//! Wakes those who wait for the result of a job that has ended without one.

use crate::queue::Part;
use crate::script::{ByteStrings, Declared, JobKeys, WakeWaiters};
use crate::value::time::Millis;

/// How long the wake-up of a job that ended without a result stays: long enough for who is just about to wait.
const WAKE_LIFE: Millis = Millis::from_secs(3);

impl Part {
    /// Wakes those who wait for the results of jobs that were removed. Only a hint: whom it does not reach looks again within a second.
    pub(crate) async fn wake_waiters(&self, operation: &'static str, ids: &[String]) {
        let mut of_jobs = ByteStrings::default();
        for id in ids {
            of_jobs.push(id.as_bytes());
        }
        let wake = WakeWaiters { life_ms: WAKE_LIFE.get(), done_count: JobKeys(of_jobs) };
        let _ = tokio::time::timeout(WAKE_LIFE.to_duration(), self.run(wake.with([]).during(operation))).await;
    }
}
