//! An audit looks up what it has found before, and compares no finding with all earlier ones.

use std::time::Duration;

use crate::support::Server;
use duly::AuditOptions;

/// What this thread has worked, whatever else the machine does.
fn worked() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is given a place for the time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// How many calls an audit of so many entries without a record makes, and how long the client works for it.
async fn audit_of(broken: u32) -> (u64, Duration) {
    let server = Server::start();
    let text =
        "for n = 1, ARGV[1] do redis.call('RPUSH', 'duly:{orders}:ready:5', 'a job that is gone, ' .. n) end return {}";
    server.eval(text, &[&broken.to_string()]);
    let (queue, before) = (server.queue("orders"), worked());
    let report = queue.audit(AuditOptions::new()).await.unwrap();
    let took = worked().checked_sub(before).unwrap();
    assert_eq!(report.findings.len(), usize::try_from(broken).unwrap());
    (report.pages, took)
}

/// On the thread of the test, so that nothing else is measured.
#[tokio::test]
async fn an_audit_of_eight_times_as_many_findings_takes_little_more_than_eight_times_as_long() {
    let ((few_calls, few), (many_calls, many)) = (audit_of(2_000).await, audit_of(16_000).await);
    println!("{few_calls} calls, {few:?}; {many_calls} calls, {many:?}");
    assert!(many_calls <= 9 * few_calls, "{few_calls}, {many_calls} calls");
    assert!(many < 12 * few, "{few:?}, {many:?}");
}
