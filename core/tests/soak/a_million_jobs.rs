//! A queue of a million jobs, ready and delayed: each is handed out once, in order, and nothing is left behind.

use std::time::Duration;

use crate::support::Server;
use duly::{NewJob, ReserveOptions};

#[tokio::test]
async fn a_million_jobs_run_once_each_in_their_order() {
    let jobs = crate::number_from("DULY_SOAK_MANY", 1_000_000);
    let server = Server::start();
    let queue = server.queue("orders");
    let job = |n: usize| NewJob::new(&n).unwrap().id(&*n.to_string());
    // The second half is due long before it has been pushed.
    let delayed = |n: usize| if n < jobs / 2 { job(n) } else { job(n).delay(Duration::from_millis(1)) };
    queue.push_many((0..jobs).map(delayed), |_| ()).await.unwrap();
    let counts = queue.counts().await.unwrap();
    assert_eq!(counts.ready + counts.delayed, jobs as u64);

    let options = ReserveOptions::new().max(100).wait(Duration::from_secs(5));
    let mut next = 0;
    while next < jobs {
        let taken = queue.reserve(&options).await.unwrap();
        for (n, job) in taken.iter().enumerate() {
            // Jobs that are due in the same millisecond are ordered by their id.
            let (id, is_ordered) = (job.id().parse::<usize>().unwrap(), next + n < jobs / 2);
            assert!(if is_ordered { id == next + n } else { id >= jobs / 2 && id < jobs }, "{id} at {}", next + n);
        }
        next += taken.len();
        assert!(!taken.is_empty(), "only {next} of {jobs} came");
        assert_eq!(queue.ack_all(&taken).await.unwrap(), vec![true; taken.len()]);
    }
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.delayed, counts.ready, counts.reserved, counts.failed), (0, 0, 0, 0));
    assert!(counts.totals.contains(&("acked".to_owned(), jobs as u64)), "{:?}", counts.totals);
}
