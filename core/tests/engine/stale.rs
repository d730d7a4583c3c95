//! Entries of ready lists that no longer count cost the reserve that finds them little.

use std::collections::BTreeSet;

use crate::support::Server;
use crate::support::meter::Meter;
use duly::{AuditOptions, NewJob, OnDuplicate, ReserveOptions};

const KEYS: u64 = 300;
const PUSHES: u64 = 6;

/// Each replacement leaves the entry of the job before it, as the list has many others behind that.
#[tokio::test]
async fn the_entries_of_jobs_that_were_replaced_in_turn_are_skipped_together() {
    let server = Server::start();
    let queue = server.queue("orders");
    for round in 0..PUSHES {
        let job = |number| {
            let job = NewJob::new(&(number, round)).unwrap().key(format!("k{number}"));
            job.on_duplicate(OnDuplicate::Replace)
        };
        queue.push_many((0..KEYS).map(job), |_| ()).await.unwrap();
    }
    let mut meter = Meter::of(&server);
    let before = (meter.calls("evalsha"), meter.calls("ltrim") + meter.calls("hget"));
    let first = queue.reserve(&ReserveOptions::new()).await.unwrap();
    let (scripts, commands) =
        (meter.calls("evalsha") - before.0, meter.calls("ltrim") + meter.calls("hget") - before.1);
    // One by one they were 14 calls and some 6,000 commands of these two kinds.
    assert!(scripts <= 3, "{scripts} calls");
    assert!(commands <= 500, "{commands} commands");

    let mut data: BTreeSet<_> = first.iter().map(|job| job.envelope.data.as_str().to_owned()).collect();
    loop {
        let jobs = queue.reserve(&ReserveOptions::new().max(50)).await.unwrap();
        if jobs.is_empty() {
            break;
        }
        data.extend(jobs.iter().map(|job| job.envelope.data.as_str().to_owned()));
    }
    let last_ones: BTreeSet<_> = (0..KEYS).map(|number| format!("[{number},{}]", PUSHES - 1)).collect();
    assert_eq!(data, last_ones);
    assert!(queue.audit(AuditOptions::new()).await.unwrap().is_clean());
}
