//! Leases of what waits and what runs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{Batch, Desk, Leased};
use crate::operate::RunningJob;
use crate::value::time::Millis;
use crate::worker::event::Interruption;

/// No job is started in the last part of its lease: the machine may stand still between the look at the lease and the first step
/// of the handler, and another worker may have the job by then.
const TOO_LATE: u32 = 20;

/// Until when a lease that was asked for at this moment is surely ours, and a job under it may be started.
pub(super) fn sure_until(asked_at: Instant, lease: Duration) -> Instant {
    asked_at + lease / TOO_LATE * (TOO_LATE - 1)
}

/// A job of whose lease less is left when it arrives is renewed at once: there are three renewals a lease, and a slow line makes
/// the next one later still.
pub(super) fn late_below(lease: Duration) -> Duration {
    lease / 3 * 2
}

impl Desk {
    /// The leases of a queue that are to be renewed, for so long: (id, token) of what waits, of what runs, and of what has ended,
    /// until the server has answered to its outcome: a lease that ends before would be a crash to everybody else. One that a
    /// handler settled and works on is over.
    ///
    /// From the moment at which that is asked for, none is surely ours for longer than the renewal makes it: one that was granted for
    /// longer, because its job took long to arrive, is shortened by it, and the answer may take long to arrive, too.
    pub(in crate::worker) fn begin_renewal(
        &self,
        lane: usize,
        asked_at: Instant,
        lease: Duration,
    ) -> Vec<(String, u64)> {
        let mut state = self.lock();
        let sure_until = sure_until(asked_at, lease);
        for leased in state.jobs.leased.iter_mut().flatten().filter(|leased| leased.lane == lane) {
            leased.sure_until = leased.sure_until.min(sure_until);
        }
        let of_lane = state.jobs.leased.iter().flatten().filter(|leased| leased.lane == lane);
        let ours =
            of_lane.filter(|leased| !leased.is_interrupted() && !leased.job.is_settled()).map(|leased| &leased.job);
        let queue = &state.lanes.each[lane];
        let ended = queue
            .under_way
            .iter()
            .map(|batch| &**batch)
            .chain(&queue.batches)
            .flat_map(Batch::settled_jobs)
            .filter(|job| !job.is_settled());
        ours.chain(ended).map(|job| (job.id().to_owned(), job.token())).collect()
    }

    /// The runs of a queue's jobs, at most so many; `now` is this moment by the host's clock.
    pub(in crate::worker) fn running(&self, lane: usize, most: usize, now: Millis) -> Vec<RunningJob> {
        let state = self.lock();
        let of_lane =
            state.jobs.leased.iter().flatten().filter(|leased| leased.lane == lane && !leased.is_interrupted());
        let running = |leased: &Leased| {
            let ago = Millis::from_duration(leased.run.as_ref()?.started.elapsed()).ok()?;
            let id = leased.job.id().to_owned();
            Some(RunningJob { id, name: leased.job.envelope.name.clone(), started_at: now.saturating_sub(ago) })
        };
        of_lane.filter_map(running).take(most).collect()
    }

    /// Ready when a lease of this queue should be renewed before its turn.
    pub(in crate::worker) async fn needs_renewal(&self, lane: usize) {
        self.for_queues[lane].renewal.notified().await;
    }

    /// The answer to a renewal for so long that was asked for at this moment: these leases of a queue were kept, or lost.
    pub(in crate::worker) fn renewed(
        &self,
        lane: usize,
        renewals: &[(String, u64)],
        kept: &[bool],
        asked_at: Instant,
        lease: Duration,
    ) {
        let now = Instant::now();
        let sure_until = sure_until(asked_at, lease);
        // By both: a worker that has taken back its own job holds two leases of it, until it hears that one is lost.
        let answers: HashMap<_, _> =
            renewals.iter().zip(kept).map(|((id, token), kept)| ((&**id, *token), *kept)).collect();
        let mut state = self.lock();
        let (mut sure_again, mut lost) = (0, 0);
        for index in 0..state.jobs.leased.len() {
            let Some(leased) = state.jobs.leased[index].as_mut().filter(|leased| leased.lane == lane) else { continue };
            match answers.get(&(leased.job.id(), leased.job.token())) {
                Some(true) => {
                    sure_again += usize::from(leased.sure_until <= now);
                    leased.sure_until = sure_until;
                }
                Some(false) if !leased.job.is_being_settled() => {
                    lost += 1;
                    state.interrupt(index, Interruption::LeaseLost, self);
                }
                _ => {}
            }
        }
        // Executors may be free by now because what waited for them was lost, or starts be noted because it was not.
        let frees = lost > 0 && state.pulls.is_some();
        if lost + sure_again > 0 && (state.wake_to_refill() || frees && state.wake_if(true)) {
            self.for_fetcher.notify_one();
        }
        let may_start = if sure_again + lost > 0 { state.jobs.fetched.len() } else { 0 };
        self.wake_executors(state, may_start);
        if sure_again > 0 && sure_until <= now {
            self.for_queues[lane].renewal.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::envelope::Envelope;
    use crate::queue::{Client, DEFAULT_LEASE, Job};
    use crate::value::data::Data;
    use crate::worker::WorkerSettings;
    use crate::worker::desk::Taken;
    use crate::worker::executor::{Ended, Executor, ExecutorShared};

    fn desk_that_asked_for(lease: Duration, ids: &[&str], ago: Duration) -> Desk {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let queue = client.queue_or_part("orders").unwrap();
        let job = |id: &&str| {
            let mut envelope = Envelope::new(*id, Data::from_json("1", 10).unwrap());
            envelope.result_ttl = Some(Millis::from_duration(Duration::from_secs(60)).unwrap());
            Job::granted(envelope, 0, 16, &queue, false)
        };
        let desk = Desk::new(&WorkerSettings::new(vec![("orders".to_owned(), 1)]));
        let mut of = Batch::default();
        of.asked_at = Instant::now().checked_sub(ago);
        of.lease = Some(lease);
        desk.deliver(0, &of, ids.iter().map(job).collect(), &[]);
        desk
    }

    fn desk_with(ids: &[&str]) -> Desk {
        desk_that_asked_for(DEFAULT_LEASE, ids, Duration::ZERO)
    }

    fn run_one(desk: &Desk, result: &str) {
        let executor = Arc::new(ExecutorShared::new(0));
        let Taken::Run(run) = desk.take_within(&executor, Duration::ZERO) else { panic!("there is none") };
        let result = Some(Data::from_json(format!("\"{result}\""), usize::MAX).unwrap());
        desk.finish(&run, Ended::done(result), true).unwrap();
    }

    #[tokio::test]
    async fn a_renewal_that_is_under_way_shortens_a_longer_lease() {
        let executor = Arc::new(ExecutorShared::new(0));
        for (renewed_ago, starts) in [(0.5, true), (0.96, false)] {
            let desk = desk_that_asked_for(DEFAULT_LEASE * 3, &["a"], DEFAULT_LEASE);
            let asked_at = Instant::now().checked_sub(DEFAULT_LEASE.mul_f64(renewed_ago)).unwrap();
            let ours = desk.begin_renewal(0, asked_at, DEFAULT_LEASE);
            let takes_one = || matches!(desk.take_within(&executor, Duration::ZERO), Taken::Run(_));
            assert_eq!(takes_one(), starts, "the renewal was sent {renewed_ago} of a lease ago");
            desk.renewed(0, &ours, &[true], Instant::now(), DEFAULT_LEASE);
            assert_eq!(takes_one(), !starts, "it was answered");
        }
    }

    #[tokio::test]
    async fn no_job_is_started_in_the_last_part_of_its_lease() {
        let executor = Arc::new(ExecutorShared::new(0));
        // From half of it on the renewal may take longer than the rest of the lease.
        for (part, starts) in [(0.4, true), (0.5, false), (0.96, false), (2.0, false)] {
            let desk = desk_that_asked_for(DEFAULT_LEASE, &["a"], DEFAULT_LEASE.mul_f64(part));
            let takes_one = || matches!(desk.take_within(&executor, Duration::ZERO), Taken::Run(_));
            assert_eq!(takes_one(), starts, "after {part} of the lease");
            desk.renewed(
                0,
                &desk.begin_renewal(0, Instant::now(), DEFAULT_LEASE),
                &[true],
                Instant::now(),
                DEFAULT_LEASE,
            );
            assert_eq!(takes_one(), !starts, "it was renewed after {part} of the lease");
        }
    }

    /// Its call may have waited through an outage, and nobody may have taken the job.
    #[tokio::test]
    async fn a_job_whose_start_met_a_lease_that_is_over_waits_for_a_renewal_that_says_whether_it_is_ours() {
        let queue = Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap();
        let executor = Arc::new(ExecutorShared::new(0));
        for (is_suspect, max_retries) in [(false, 0), (true, 5)] {
            for is_ours in [true, false] {
                let desk = Desk::new(&WorkerSettings::new(vec![("orders".to_owned(), 1)]));
                let mut envelope = Envelope::new("a", Data::from_json("1", 10).unwrap());
                envelope.max_attempts = max_retries;
                desk.deliver(0, &Batch::default(), vec![Job::granted(envelope, 0, 16, &queue, is_suspect)], &[]);
                let report_start = |is_noted: bool| {
                    let _ = desk.next_step(false);
                    let batch = desk.begin_call(0, 0, None);
                    desk.end_call(0, 0, &batch, Duration::ZERO, None);
                    desk.answered("orders", &batch, &vec![is_noted; batch.outcomes.len()]);
                    batch.outcomes.len()
                };
                let starts = || matches!(desk.take_within(&executor, Duration::ZERO), Taken::Run(_));
                assert_eq!((report_start(false), starts()), (1, false));
                assert_eq!((report_start(true), starts()), (0, false), "nobody knows whether it is ours");
                desk.renewed(
                    0,
                    &desk.begin_renewal(0, Instant::now(), DEFAULT_LEASE),
                    &[is_ours],
                    Instant::now(),
                    DEFAULT_LEASE,
                );
                assert_eq!((report_start(true), starts()), (usize::from(is_ours), is_ours), "{is_suspect}");
            }
        }
    }

    #[tokio::test]
    async fn a_lease_is_renewed_until_the_server_has_answered_to_the_outcome() {
        let desk = desk_with(&["a"]);
        let ours = vec![("a".to_owned(), 16)];
        assert_eq!(desk.begin_renewal(0, Instant::now(), DEFAULT_LEASE), ours);
        run_one(&desk, "");
        assert_eq!(desk.begin_renewal(0, Instant::now(), DEFAULT_LEASE), ours, "its outcome waits for a call");
        let batch = desk.begin_call(0, 0, None);
        assert_eq!(desk.begin_renewal(0, Instant::now(), DEFAULT_LEASE), ours, "its outcome is under way");
        desk.end_call(0, 0, &batch, Duration::ZERO, None);
        desk.answered("orders", &batch, &[true]);
        assert_eq!(desk.begin_renewal(0, Instant::now(), DEFAULT_LEASE), []);
    }

    /// A worker may take back its own job, whose lease is over, and get it once more.
    #[tokio::test]
    async fn of_two_leases_of_one_job_only_the_lost_one_ends() {
        let queue = Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap();
        for held in ["waits", "runs", "has ended"] {
            let desk = Arc::new(Desk::new(&WorkerSettings::new(vec![("orders".to_owned(), 1)])));
            let executor = Executor { desk: Arc::clone(&desk), shared: Arc::new(ExecutorShared::new(0)) };
            let deliver = |token| {
                let envelope = Envelope::new("a", Data::from_json("1", 10).unwrap());
                desk.deliver(0, &Batch::default(), vec![Job::granted(envelope, 0, token, &queue, false)], &[]);
            };
            let take = || match desk.take_within(&executor.shared, Duration::ZERO) {
                Taken::Run(run) => run,
                _ => panic!("there is none"),
            };
            deliver(16);
            let first = (held != "waits").then(take);
            if held == "has ended" {
                desk.finish(first.as_ref().unwrap(), Ended::DONE, true).unwrap();
            }
            deliver(32);
            let mut ours = desk.begin_renewal(0, Instant::now(), DEFAULT_LEASE);
            ours.sort();
            assert_eq!(ours.iter().map(|(_, token)| *token).collect::<Vec<_>>(), [16, 32]);
            desk.renewed(0, &ours, &[false, true], Instant::now(), DEFAULT_LEASE);
            if let Some(first) = first.filter(|_| held == "runs") {
                assert_eq!(executor.was_interrupted(&first), Some(Interruption::LeaseLost));
                desk.finish(&first, Ended::DONE, true).unwrap();
            }
            let second = take();
            assert_eq!((second.job.token(), executor.was_interrupted(&second)), (32, None), "{held}");
            desk.renewed(0, &[ours[1].clone(), ours[0].clone()], &[false, false], Instant::now(), DEFAULT_LEASE);
            assert_eq!(executor.was_interrupted(&second), Some(Interruption::LeaseLost), "{held}");
            desk.finish(&second, Ended::DONE, true).unwrap();
            assert!(matches!(desk.take_within(&executor.shared, Duration::ZERO), Taken::None), "{held}");
        }
    }

    #[tokio::test]
    async fn a_call_carries_no_more_results_than_the_line_is_good_for() {
        let large = "r".repeat(40_000);
        for (took, then) in [(Duration::from_millis(1), [3, 0]), (Duration::from_secs(3), [1, 1])] {
            let desk = desk_with(&["a", "b", "c", "d", "e"]);
            (0..2).for_each(|_| run_one(&desk, &large));
            let call = desk.begin_call(0, 0, None);
            assert_eq!(call.outcomes.len(), 1, "64 KiB at most, before anything is known");
            desk.end_call(0, 0, &call, took, None);
            (0..2).for_each(|_| run_one(&desk, &large));
            assert_eq!([0, 1].map(|_| desk.begin_call(0, 0, None).outcomes.len()), then, "the first took {took:?}");
        }
    }

    #[tokio::test]
    async fn a_job_that_arrives_late_in_its_lease_is_renewed_at_once() {
        for (part, is_asked_for) in [(0.0, false), (0.2, false), (0.5, true), (0.9, true), (2.0, true)] {
            let desk = desk_that_asked_for(DEFAULT_LEASE, &["a"], DEFAULT_LEASE.mul_f64(part));
            let asked = tokio::time::timeout(Duration::ZERO, desk.needs_renewal(0)).await.is_ok();
            assert_eq!(asked, is_asked_for, "after {part} of the lease");
        }
        // Over a line that is known to be slow the lease is longer.
        let desk = desk_that_asked_for(DEFAULT_LEASE * 3, &["a"], DEFAULT_LEASE);
        assert!(tokio::time::timeout(Duration::ZERO, desk.needs_renewal(0)).await.is_err());
    }

    /// Its lease may end before the renewal arrives, and then it would pay for a worker that lives.
    #[tokio::test]
    async fn the_start_of_a_job_that_arrived_late_in_its_lease_is_noted_when_that_is_renewed() {
        let queue = Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap();
        for (is_suspect, max_retries) in [(false, 0), (true, 5)] {
            for (part, waits) in [(0.2, false), (0.5, true)] {
                let desk = Desk::new(&WorkerSettings::new(vec![("orders".to_owned(), 1)]));
                let mut envelope = Envelope::new("a", Data::from_json("1", 10).unwrap());
                envelope.max_attempts = max_retries;
                let mut of = Batch::default();
                of.asked_at = Instant::now().checked_sub(DEFAULT_LEASE.mul_f64(part));
                desk.deliver(0, &of, vec![Job::granted(envelope, 0, 16, &queue, is_suspect)], &[]);
                let starts = || {
                    let _ = desk.next_step(false);
                    desk.begin_call(0, 0, None).starts()
                };
                assert_eq!(starts(), usize::from(!waits), "{is_suspect}, after {part} of the lease");
                desk.renewed(
                    0,
                    &desk.begin_renewal(0, Instant::now(), DEFAULT_LEASE),
                    &[true],
                    Instant::now(),
                    DEFAULT_LEASE,
                );
                assert_eq!(starts(), usize::from(waits), "{is_suspect}, it was renewed after {part} of the lease");
            }
        }
    }
}
