//! Calls to the queues, in their order, and what their answers bring.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinError;

use super::lane::next_look;
use super::{Fetcher, SILENT};
use crate::queue::{Part, ReserveCall, Selection, weighted_order};
use crate::script::{self, ReserveReply};
use crate::value::error::{Error, ErrorKind};
use crate::worker::appetite::Appetite;
use crate::worker::desk::{Batch, Desk, Outage, Want};
use crate::worker::event::AboutJob;
use crate::worker::outlasts::Past;

/// For how long the last outcomes are sent again after the last run has ended, or the grace.
const FAREWELL: Duration = Duration::from_secs(2);
/// So many calls in a row that were sent and got no answer, while the server answers to new connections, are cut off for their size.
const MOST_CUTS: u32 = 5;
/// Those with less than this are not.
const LARGE: usize = 16 * 1024;
/// How often it is checked whether a call under way has become hopeless.
const CHECK_EACH: Duration = Duration::from_millis(200);

/// A call and its answer; no answer when the worker gave up meanwhile.
pub(super) struct Answered {
    index: usize,
    want: usize,
    promise: u64,
    batch: Arc<Batch>,
    took: Duration,
    reply: Result<Option<ReserveReply>, Error>,
}

impl Fetcher {
    /// One call to each queue that has outcomes, or from which jobs are wanted.
    pub(super) async fn round(&mut self, want: Want) -> Result<(), Error> {
        let mut order = match self.selection {
            Selection::Strict => (0..self.lanes.len()).collect(),
            Selection::Weighted => weighted_order(&self.lanes.iter().map(|lane| lane.weight).collect::<Vec<_>>())?,
        };
        order.retain(|&index| !self.lanes[index].is_silent());
        let mut left = want;
        let now = Instant::now();
        // Many queues may have the same silent node: a round waits for one of them.
        let patience = (self.selection == Selection::Weighted).then(|| now + SILENT);
        if self.selection == Selection::Weighted
            && want.free == 0
            && self.lanes.iter().any(|lane| lane.waits_for_executor(now))
        {
            // Otherwise the executors would have jobs of the others for as long as there are any.
            left = Want::default();
        }
        let mut weights: usize = order.iter().map(|&index| self.lanes[index].weight as usize).sum();
        for index in order {
            let lane = &self.lanes[index];
            let mut wanted = lane.wants(left);
            if self.selection == Selection::Weighted {
                // Each gets its share of a large fetch; what one does not fill, the next may.
                wanted = wanted.min((left.jobs * lane.weight as usize).div_ceil(weights));
            }
            weights -= lane.weight as usize;
            let looks = wanted > 0 && lane.look_at <= Instant::now();
            if looks || self.desk.has_outcomes(index) {
                left = left.less(self.call(index, wanted, patience).await?);
            }
            if self.selection == Selection::Strict {
                // The next one's turn comes when this one was found empty, and what it gave is here.
                if wanted > 0 && !self.lanes[index].has_plenty {
                    left = left.less(self.answers_of(index).await?);
                }
                if !self.lanes[index].lets_pass(Instant::now()) {
                    left = Want::default();
                }
            }
        }
        Ok(())
    }

    /// Settles and fetches in one call. Gives how many jobs came, or are to come. Nobody waits for the answer beyond `patience`.
    async fn call(&mut self, index: usize, want: usize, patience: Option<Instant>) -> Result<usize, Error> {
        let want = want.min(ReserveCall::MOST);
        if self.lanes[index].takes_a_call() {
            self.start(index, want);
            if self.lanes[index].takes_a_call() {
                return Ok(want);
            }
        }
        self.answer_of(index, patience).await
    }

    /// Waits for one of the calls to this queue, but not for one that says nothing. Gives how many jobs came.
    async fn answer_of(&mut self, index: usize, patience: Option<Instant>) -> Result<usize, Error> {
        // It may have fallen silent while another queue was waited for.
        while !self.lanes[index].is_silent() {
            let silent_at = self.silent_at(index);
            let answered = tokio::select! {
                answered = self.calls.join_next() => answered,
                () = at(silent_at) => {
                    self.note_silence(Instant::now());
                    continue;
                }
                () = at(patience) => return Ok(0),
            };
            let Some(answered) = answered else { return Ok(0) };
            let (of, granted) = self.take_answer(answered)?;
            if of == index {
                return Ok(granted);
            }
        }
        Ok(0)
    }

    /// Waits for all calls to this queue. Two answers may be unpacked in another order than they came.
    async fn answers_of(&mut self, index: usize) -> Result<usize, Error> {
        let mut came = 0;
        while self.lanes[index].calls > 0 && !self.lanes[index].is_silent() {
            came += self.answer_of(index, None).await?;
        }
        Ok(came)
    }

    pub(super) fn start(&mut self, index: usize, want: usize) {
        let lease = self.lease.saturating_add(self.lanes[index].appetite.lateness());
        let batch = self.desk.begin_call(index, want, Some(lease));
        let lane = &mut self.lanes[index];
        if lane.calls == 0 {
            lane.heard_at = Instant::now();
        }
        lane.calls += 1;
        lane.woken_at.take_if(|_| want > 0);
        let call = ReserveCall {
            want,
            lease,
            wait: if want > 0 { self.look_again.1 } else { Duration::ZERO },
            promise: lane.promise,
            max_bytes: lane.appetite.bytes(),
            ahead: true,
        };
        let (desk, queue, past) = (Arc::clone(&self.desk), lane.queue.clone(), Arc::clone(&lane.past));
        self.calls.spawn(async move {
            let asked_at = Mutex::new(Instant::now());
            let reply = ask(&desk, &queue, &past, &call, &batch, &asked_at).await;
            let took = asked_at.into_inner().unwrap_or_else(PoisonError::into_inner).elapsed();
            Answered { index, want, promise: call.promise, batch, took, reply }
        });
    }

    /// Gives the queue that was called and how many jobs came from it.
    pub(super) fn take_answer(&mut self, answered: Result<Answered, JoinError>) -> Result<(usize, usize), Error> {
        let Answered { index, want, promise, batch, took, reply } = answered
            .map_err(|error| Error::new(ErrorKind::Internal, "a call of the worker broke off").caused_by(error))?;
        let lane = &mut self.lanes[index];
        lane.calls -= 1;
        lane.last_call = took;
        lane.heard_at = Instant::now();
        if lane.silent_since.take().is_some() {
            self.desk.speaks_again(index);
        }
        let read = |reply: ReserveReply| {
            script::flags(&reply.settled).map(|flags| (reply, flags)).map_err(lane.queue.during("settle"))
        };
        let reply = match reply.and_then(|reply| reply.map(read).transpose()) {
            Ok(reply) => reply,
            Err(error) => {
                self.desk.refuse_call(index, want, &batch);
                self.desk.fails(error);
                return Ok((index, 0));
            }
        };
        let has_options = reply.as_ref().map(|(reply, _)| reply.has_options);
        self.desk.end_call(index, want, &batch, took, has_options);
        let Some((reply, flags)) = reply else { return Ok((index, 0)) };
        lane.limited = reply.limited;
        self.desk.answered(lane.queue.name(), &batch, &flags);
        for index in script::not_kept(&reply.settled) {
            self.desk.not_kept(lane.queue.name(), &batch, index);
        }
        for index in batch.outcomes.left_out().into_iter().filter(|&index| flags[index]) {
            self.desk.not_sent(lane.queue.name(), &batch, index);
        }
        if batch.has_unheard {
            self.desk.note_unheard(index);
        }
        if let Some(dropped) = &reply.dropped {
            let about = match dropped.first.of_queue(&lane.for_jobs, reply.token) {
                Ok(job) => AboutJob::of(&job),
                Err(_) => AboutJob::unreadable(lane.queue.name(), dropped.first.id.clone()),
            };
            self.desk.dropped(about, dropped.count);
        }
        let granted = reply.jobs.len();
        if want > 0 {
            lane.has_plenty = granted == want;
            lane.is_empty = granted == 0 && !reply.is_unfinished();
        }
        // Not if another call, sent at the same time, has made a promise of its own.
        if reply.promised > 0 || promise == lane.promise {
            if !reply.leaves_promise() {
                lane.promise = reply.promised;
            }
            if want > 0 {
                lane.look_at = Instant::now() + next_look(&reply, want, self.look_again, &mut lane.trust);
            }
        }
        if let Some(woken_at) = lane.woken_at.filter(|_| want > 0) {
            lane.look_at = woken_at;
        }
        if want > 0 {
            let bytes = reply.jobs.iter().map(|job| job.record.len()).sum();
            lane.appetite.learn(bytes, Appetite::part(took, bytes, batch.outcomes.payload_bytes()), self.lease);
        }
        if granted > 0 {
            let (mut jobs, mut unread) = (Vec::with_capacity(granted), Vec::new());
            for job in &reply.jobs {
                match job.of_queue(&lane.for_jobs, reply.token).map(|job| job.behind_token(reply.behind_token)) {
                    Ok(job) => jobs.push(job),
                    Err(why) => unread.push((job.id_bytes().to_vec(), reply.token, why)),
                }
            }
            self.desk.left_alone(index, lane.queue.name(), &unread);
            if self.desk.deliver(index, &batch, jobs, &unread) {
                lane.queue.note_expired_met();
            }
        }
        Ok((index, granted))
    }
}

/// Makes the call until it is answered, however long that takes; nothing when the worker gave up meanwhile. `asked_at` is moved
/// to the attempt that is answered: an outage says nothing of the line.
async fn ask(
    desk: &Arc<Desk>,
    queue: &Part,
    past: &Past,
    call: &ReserveCall,
    batch: &Batch,
    asked_at: &Mutex<Instant>,
) -> Result<Option<ReserveReply>, Error> {
    let outage = Outage::of_call(desk);
    let cuts = AtomicU32::new(0);
    let keep_trying = |error: &Error| {
        let goes_on = past.calls_again(error);
        if goes_on {
            outage.failed(error);
            note_cut(&cuts, error, batch);
            *asked_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        goes_on
    };
    let mut asked = std::pin::pin!(queue.reserve_call(call, &batch.outcomes, &keep_trying));
    loop {
        tokio::select! {
            reply = &mut asked => {
                return reply.map(|reply| {
                    past.has_called();
                    Some(reply)
                });
            }
            () = tokio::time::sleep(CHECK_EACH) => if desk.is_hopeless(batch, FAREWELL) {
                desk.abandon();
                return Ok(None);
            }
        }
    }
}

/// A server that is away is not reached, and says nothing to a new connection. A call that is sent over one that was answered, again and
/// again in vain, is too large for a device between, and all outcomes of its queue would wait behind it.
fn note_cut(cuts: &AtomicU32, error: &Error, batch: &Batch) {
    if error.kind() != ErrorKind::Timeout || batch.outcomes.payload_bytes() < LARGE {
        cuts.store(0, Ordering::Relaxed);
    } else if cuts.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_CUTS {
        batch.outcomes.leave_payload();
    }
}

/// Ready then; never, if there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Client;
    use crate::script::ReserveStatus;
    use crate::worker::WorkerSettings;

    /// The answer to a call for one job, which got none.
    fn got_none(fetcher: &mut Fetcher, promise: u64, (next_in, promised): (Option<Duration>, u64)) {
        let batch = fetcher.desk.begin_call(0, 1, None);
        fetcher.lanes[0].calls = 1;
        let reply = ReserveReply {
            status: if next_in == Some(Duration::ZERO) { ReserveStatus::Unfinished } else { ReserveStatus::None },
            settled: String::new(),
            token: 0,
            next_in,
            promised,
            behind_token: 0,
            limited: false,
            has_options: false,
            jobs: Vec::new(),
            awaited: Vec::new(),
            dropped: None,
        };
        let took = Duration::from_millis(1);
        fetcher.take_answer(Ok(Answered { index: 0, want: 1, promise, batch, took, reply: Ok(Some(reply)) })).unwrap();
    }

    #[tokio::test]
    async fn a_look_that_did_not_reach_what_is_ready_leaves_what_was_promised() {
        let mut fetcher = fetcher_of(1);
        let soon = Some(Duration::from_millis(300));
        got_none(&mut fetcher, 0, (soon, 7));
        got_none(&mut fetcher, 7, (Some(Duration::ZERO), 0));
        assert!(fetcher.lanes[0].promise == 7 && fetcher.lanes[0].look_at <= Instant::now());
        got_none(&mut fetcher, 7, (soon, 0));
        assert_eq!(fetcher.lanes[0].promise, 0);
    }

    #[tokio::test]
    async fn a_wake_up_that_comes_during_a_call_is_looked_after() {
        let mut fetcher = fetcher_of(1);
        for (is_woken, looks_again) in [(false, false), (true, true)] {
            if is_woken {
                fetcher.lanes[0].looks_anew(Instant::now());
            }
            got_none(&mut fetcher, 0, (None, 0));
            assert_eq!(fetcher.lanes[0].look_at <= Instant::now(), looks_again);
        }
        fetcher.start(0, 1);
        assert!(fetcher.lanes[0].woken_at.is_none(), "the next call sees for what");
    }

    /// Of queues whose server does not answer.
    fn fetcher_of(queues: usize) -> Fetcher {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let mut settings = WorkerSettings::new((0..queues).map(|n| (format!("q{n}"), 1)).collect());
        settings.selection = Selection::Weighted;
        Fetcher::new(&client, &settings, Arc::new(Desk::new(&settings))).unwrap()
    }

    #[tokio::test]
    async fn a_queue_that_fell_silent_meanwhile_is_not_waited_for() {
        let mut fetcher = fetcher_of(2);
        fetcher.calls.spawn(std::future::pending());
        fetcher.lanes[0].calls = 1;
        fetcher.lanes[0].silent_since = Some(Instant::now());
        let answer = tokio::time::timeout(Duration::from_secs(20), fetcher.answer_of(0, None)).await;
        assert_eq!(answer.expect("it waits").unwrap(), 0);
    }

    #[tokio::test]
    async fn a_round_over_many_queues_of_a_silent_node_waits_for_one_of_them() {
        let mut fetcher = fetcher_of(5);
        fetcher.round(Want { jobs: 10, free: 10 }).await.unwrap();
        assert!(fetcher.lanes.iter().all(|lane| lane.calls == 1), "each was called");
        assert!(fetcher.lanes.iter().filter(|lane| lane.is_silent()).count() <= 1);
    }
}
