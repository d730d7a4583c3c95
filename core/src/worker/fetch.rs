//! The fetch loop: one script call settles what ended, promotes what is due, takes back what dead workers held, and fetches
//! the next jobs. Between calls it sleeps until something is due, a push wakes it, or a handler ends.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};

use super::WorkerSettings;
use super::appetite::{self, Appetite};
use super::desk::{Batch, Desk, Outage, Step, Want};
use super::past::Past;
use super::wakes::Wakes;
use crate::process::alarm;
use crate::process::host;
use crate::queue::{Client, Queue, ReserveCall, Selection, Trust, weighted_order};
use crate::script::{self, ReserveReply, ReserveStatus};
use crate::value::error::{Error, ErrorKind};

/// Every waiter looks again after this long at the latest, whatever the reply said, because wake-ups are hints that can get
/// lost with whoever took them; and up to `SPREAD` earlier, so that waiters do not look all at once.
const LOOK_AGAIN: Duration = Duration::from_millis(3200);
const SPREAD: Duration = Duration::from_millis(600);
/// A worker of many queues leaves them so much time each, and up to the half of it less: some eleven looks a second at those
/// that are idle, however many they are.
const LOOK_OF_EACH: Duration = Duration::from_millis(120);
/// A queue that gave fewer jobs than asked is looked at again this much later: to learn when its next job is due, but in
/// the same call as the first outcome if that comes as soon.
const SECOND_LOOK: Duration = Duration::from_millis(1);
/// For how long the last outcomes are sent again after the last run has ended, or the grace.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often a call under way looks whether it has become hopeless.
const LOOK_UP: Duration = Duration::from_millis(200);
/// A queue that leaves a call without an answer for so long holds up the others no longer. In a cluster each may be elsewhere.
const SILENT: Duration = Duration::from_secs(1);
/// How many calls to a queue that has plenty are under way at once: the server works on one while we unpack the other.
const CALLS_AT_ONCE: usize = 2;

/// The loop's own state.
pub(super) struct Fetcher {
    desk: Arc<Desk>,
    lanes: Vec<Lane>,
    selection: Selection,
    lease: Duration,
    /// When to look again at a queue that is idle: at the earliest, and at the latest.
    look_again: (Duration, Duration),
    /// Calls under way: tasks of their own, so that none depends on what the loop waits for.
    calls: JoinSet<Answered>,
    wakes: Wakes,
}

/// A call and its answer; no answer when the worker gave up meanwhile.
struct Answered {
    index: usize,
    want: usize,
    promise: u64,
    batch: Arc<Batch>,
    took: Duration,
    reply: Result<Option<ReserveReply>, Error>,
}

/// One queue.
struct Lane {
    /// With the engine's own connections.
    queue: Queue,
    /// What jobs carry: the user's client.
    for_jobs: Queue,
    weight: u32,
    look_at: Instant,
    /// The server time at which we promised to come back; 0 for no promise.
    promise: u64,
    /// In the promises of others.
    trust: Trust,
    /// It has limits: a job that waited here for an executor would take a place from a worker that is idle.
    limited: bool,
    /// Its last call for jobs brought all that was asked for: the next may go out before it is answered.
    has_plenty: bool,
    /// How long its last call took: a second one beside a long one would only hold up the renewals behind both.
    last_call: Duration,
    /// Its last call for jobs brought none, and there was none to be had.
    is_empty: bool,
    calls: usize,
    /// When the first of these calls began, or one was answered since.
    heard_at: Instant,
    /// Since when it is passed over, because it was called and said nothing for too long.
    silent_since: Option<Instant>,
    appetite: Appetite,
    past: Arc<Past>,
    /// When it was woken, if it was not called since: a call that was under way may not have seen for what.
    woken_at: Option<Instant>,
}

impl Fetcher {
    pub(super) fn new(client: &Client, settings: &WorkerSettings, desk: Arc<Desk>) -> Result<Self, Error> {
        let own = client.for_worker()?;
        let now = Instant::now();
        let mut lanes = Vec::with_capacity(settings.queues.len());
        for (name, weight) in &settings.queues {
            lanes.push(Lane {
                queue: own.queue_or_part(name)?,
                for_jobs: client.queue_or_part(name)?,
                weight: *weight,
                look_at: now,
                promise: 0,
                trust: Trust::default(),
                limited: false,
                has_plenty: false,
                last_call: Duration::ZERO,
                is_empty: false,
                calls: 0,
                heard_at: now,
                silent_since: None,
                appetite: Appetite::default(),
                past: Arc::default(),
                woken_at: None,
            });
        }
        let wakes = Wakes::new(Arc::clone(&desk), lanes.len());
        let (selection, lease) = (settings.selection, settings.lease);
        let look_again = look_again(lanes.len());
        Ok(Self { desk, lanes, selection, lease, look_again, calls: JoinSet::new(), wakes })
    }

    pub(super) fn queues(&self) -> Vec<Queue> {
        self.lanes.iter().map(|lane| lane.queue.clone()).collect()
    }

    /// The same queues as jobs carry them.
    pub(super) fn queues_of_jobs(&self) -> Vec<Queue> {
        self.lanes.iter().map(|lane| lane.for_jobs.clone()).collect()
    }

    /// Runs until the desk says that it is over. Errors: those that waiting does not cure.
    pub(super) async fn run(mut self) -> Result<(), Error> {
        let ended = self.work().await;
        if ended.is_err() {
            // What runs may still end, and the server cannot be reached.
            self.desk.stop(Duration::ZERO);
        }
        ended
    }

    async fn work(&mut self) -> Result<(), Error> {
        loop {
            let now = Instant::now();
            self.note_silence(now);
            let due = self.is_due(now, self.desk.has_free_executor());
            match self.desk.next_step(due) {
                Step::Call { want } => self.round(want).await?,
                Step::Sleep { until, want } => {
                    self.give_up_promises(want);
                    self.sleep(now, until, want).await?;
                }
                Step::Over => {
                    self.give_up_promises(Want::default());
                    while let Some(answered) = self.calls.join_next().await {
                        self.take_answer(answered)?;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// May a queue be asked for jobs now? As [`Self::round`] would do it.
    fn is_due(&self, now: Instant, free: bool) -> bool {
        let is_due = |lane: &Lane| lane.look_at <= now && (free || !lane.limited) && lane.takes_a_call();
        match self.selection {
            Selection::Strict => {
                let held_back = self.lanes.iter().position(|lane| !lane.lets_pass(now));
                self.lanes[..held_back.map_or(self.lanes.len(), |index| index + 1)].iter().any(is_due)
            }
            Selection::Weighted => {
                self.lanes.iter().all(|lane| free || !lane.waits_for_executor(now)) && self.lanes.iter().any(is_due)
            }
        }
    }

    /// One call to each queue that has outcomes, or from which jobs are wanted.
    async fn round(&mut self, want: Want) -> Result<(), Error> {
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

    /// When the others go on without this queue, if it says nothing.
    fn silent_at(&self, index: usize) -> Option<Instant> {
        let lane = &self.lanes[index];
        (self.lanes.len() > 1 && lane.calls > 0 && !lane.is_silent()).then(|| lane.heard_at + SILENT)
    }

    fn note_silence(&mut self, now: Instant) {
        for index in 0..self.lanes.len() {
            if self.silent_at(index).is_some_and(|at| at <= now) {
                self.lanes[index].silent_since = Some(now);
                self.desk.falls_silent(index);
            }
        }
    }

    /// Waits for all calls to this queue. Two answers may be unpacked in another order than they came.
    async fn answers_of(&mut self, index: usize) -> Result<usize, Error> {
        let mut came = 0;
        while self.lanes[index].calls > 0 && !self.lanes[index].is_silent() {
            came += self.answer_of(index, None).await?;
        }
        Ok(came)
    }

    fn start(&mut self, index: usize, want: usize) {
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
    fn take_answer(&mut self, answered: Result<Answered, JoinError>) -> Result<(usize, usize), Error> {
        let Answered { index, want, promise, batch, took, reply } = answered
            .map_err(|error| Error::new(ErrorKind::Internal, "a call of the worker broke off").caused_by(error))?;
        self.desk.end_call(index, want, &batch, took);
        let lane = &mut self.lanes[index];
        lane.calls -= 1;
        lane.last_call = took;
        lane.heard_at = Instant::now();
        if lane.silent_since.take().is_some() {
            self.desk.speaks_again(index);
        }
        let Some(reply) = reply? else { return Ok((index, 0)) };
        lane.limited = reply.limited;
        let flags = script::flags(&reply.settled, batch.outcomes.len())
            .map_err(|error| error.during("settle").in_queue(lane.queue.name()))?;
        self.desk.answered(lane.queue.name(), &batch, &flags);
        for index in script::not_kept(&reply.settled) {
            self.desk.not_kept(lane.queue.name(), &batch, index);
        }
        if batch.has_unheard {
            self.desk.note_news(index);
        }
        let granted = reply.jobs.len();
        if want > 0 {
            lane.has_plenty = granted == want;
            lane.is_empty = granted == 0 && !is_unfinished(&reply);
        }
        // Not if another call, sent at the same time, has made a promise of its own.
        if reply.promised > 0 || promise == lane.promise {
            lane.promise = reply.promised;
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
            let (mut jobs, mut undecodable) = (Vec::with_capacity(granted), Vec::new());
            for job in &reply.jobs {
                match job.of_queue(&lane.for_jobs, reply.token) {
                    Ok(job) => jobs.push(job),
                    Err(reason) => undecodable.push((job.id_bytes().to_vec(), reply.token, reason)),
                }
            }
            self.desk.deliver(index, &batch, jobs, &undecodable);
        }
        Ok((index, granted))
    }

    /// A worker without a free executor does not come back in time: another must.
    fn give_up_promises(&mut self, want: Want) {
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if lane.promise > 0 && lane.wants(want) == 0 && lane.takes_a_call() {
                self.start(index, 0);
                self.lanes[index].promise = 0;
            }
        }
    }

    /// Until something happens. `looked`: when it was found that there is nothing to do.
    async fn sleep(&mut self, looked: Instant, until: Option<Instant>, want: Want) -> Result<(), Error> {
        // Even if a reason to wake were forgotten here, that would cost seconds and not for ever.
        let mut until = until.unwrap_or(looked + LOOK_AGAIN).min(looked + LOOK_AGAIN);
        for (index, lane) in self.lanes.iter().enumerate() {
            if lane.sleeps(want, looked) {
                until = until.min(lane.look_at);
            }
            until = self.silent_at(index).map_or(until, |at| until.min(at));
        }
        let lanes = &self.lanes;
        self.wakes.cover(|index| lanes[index].sleeps(want, looked), |index| (&lanes[index].queue, &lanes[index].past));
        let mut answered = None;
        let woken = tokio::select! {
            () = self.desk.called() => None,
            Some(answer) = self.calls.join_next() => {
                answered = Some(answer);
                None
            }
            wake = self.wakes.next() => Some(wake?),
            () = alarm::at(until) => None,
        };
        self.desk.awake();
        if let Some(answer) = answered {
            self.take_answer(answer)?;
        }
        let Some(wake) = woken else { return Ok(()) };
        for index in wake.indexes {
            self.lanes[index].look_at = Instant::now();
            self.lanes[index].woken_at = Some(self.lanes[index].look_at);
        }
        if let Some(index) = wake.took
            && self.lanes[index].wants(want) == 0
        {
            // Beside the loop, which has more to do than to wait for a server that does not answer.
            tokio::spawn(pass_on(self.lanes[index].queue.clone()));
        }
        Ok(())
    }
}

impl Lane {
    /// How many jobs to ask this queue for.
    fn wants(&self, want: Want) -> usize {
        if self.limited { want.free } else { want.jobs }
    }

    /// Under a strict order: may the queues behind it be asked?
    fn lets_pass(&self, now: Instant) -> bool {
        self.is_silent() || (self.is_empty && self.look_at > now)
    }

    /// It is to be looked at, as soon as an executor is free.
    fn waits_for_executor(&self, now: Instant) -> bool {
        self.limited && self.look_at <= now && !self.is_silent()
    }

    /// Is there nothing to do here until it is due or woken? What was due when the loop `looked` waits for a call to be answered,
    /// or for executors to want more. What has become due since has nobody else to wait for.
    fn sleeps(&self, want: Want, looked: Instant) -> bool {
        self.wants(want) > 0 && self.look_at > looked
    }

    fn is_silent(&self) -> bool {
        self.silent_since.is_some()
    }

    fn takes_a_call(&self) -> bool {
        let takes_two = self.has_plenty && self.last_call <= appetite::LONG;
        !self.is_silent() && (self.calls == 0 || (takes_two && self.calls < CALLS_AT_ONCE))
    }
}

/// Makes the call until it is answered, however long that takes; nothing when the worker gave up meanwhile. `asked_at` is moved
/// to the attempt that is answered: an outage says nothing of the line.
async fn ask(
    desk: &Arc<Desk>,
    queue: &Queue,
    past: &Past,
    call: &ReserveCall,
    batch: &Batch,
    asked_at: &Mutex<Instant>,
) -> Result<Option<ReserveReply>, Error> {
    let outage = Outage::of_call(desk);
    let keep_trying = |error: &Error| {
        let goes_on = past.calls_again(error);
        if goes_on {
            outage.failed(error);
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
            () = tokio::time::sleep(LOOK_UP) => if desk.is_hopeless(batch, FAREWELL) {
                desk.abandon();
                return Ok(None);
            }
        }
    }
}

/// Ready then; never, if there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// When a worker of so many queues looks again at one that is idle: at the earliest, and at the latest.
fn look_again(queues: usize) -> (Duration, Duration) {
    let of_all = LOOK_OF_EACH.saturating_mul(u32::try_from(queues).unwrap_or(u32::MAX));
    (LOOK_AGAIN.saturating_sub(SPREAD).max(of_all / 2), LOOK_AGAIN.max(of_all))
}

/// When to look at a queue again.
fn next_look(
    reply: &ReserveReply,
    want: usize,
    (earliest, latest): (Duration, Duration),
    trust: &mut Trust,
) -> Duration {
    let granted = reply.jobs.len();
    if granted > 0 {
        return if granted < want { SECOND_LOOK } else { Duration::ZERO };
    }
    let again = latest.saturating_sub(latest.saturating_sub(earliest).mul_f64(host::random_fraction()));
    if is_unfinished(reply) {
        return Duration::ZERO;
    }
    match (&reply.status, reply.next_in) {
        (ReserveStatus::None, Some(next)) if reply.promised > 0 => next.min(again),
        (ReserveStatus::None, Some(next)) => trust.pause(next, again),
        _ => again,
    }
}

/// Did it do a bounded amount of work, and not reach what is ready?
fn is_unfinished(reply: &ReserveReply) -> bool {
    matches!((&reply.status, reply.next_in), (ReserveStatus::None, Some(Duration::ZERO)))
}

/// A wake-up that came while no executor is free is for another worker.
async fn pass_on(queue: Queue) {
    // If it fails, all waiters still look again by themselves.
    let _ = queue.wake_another().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_idle_queues_are_looked_at_a_few_times_a_second_together() {
        let seconds = |queues| {
            let (earliest, latest) = look_again(queues);
            (earliest.as_secs_f64(), latest.as_secs_f64())
        };
        assert_eq!(seconds(1), (2.6, 3.2));
        assert_eq!(seconds(26), (2.6, 3.2));
        assert_eq!(seconds(50), (3.0, 6.0));
        assert_eq!(seconds(300), (18.0, 36.0));
    }

    #[tokio::test]
    async fn a_wake_up_that_comes_during_a_call_is_looked_after() {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        let mut fetcher = Fetcher::new(&client, &settings, Arc::new(Desk::new(&settings))).unwrap();
        for (is_woken, looks_again) in [(false, false), (true, true)] {
            let batch = fetcher.desk.begin_call(0, 1, None);
            fetcher.lanes[0].calls = 1;
            fetcher.lanes[0].woken_at = is_woken.then(Instant::now);
            let nothing = ReserveReply {
                status: ReserveStatus::None,
                settled: String::new(),
                token: 0,
                next_in: None,
                promised: 0,
                limited: false,
                jobs: Vec::new(),
                awaited: Vec::new(),
            };
            let took = Duration::from_millis(1);
            let answered = Answered { index: 0, want: 1, promise: 0, batch, took, reply: Ok(Some(nothing)) };
            fetcher.take_answer(Ok(answered)).unwrap();
            assert_eq!(fetcher.lanes[0].look_at <= Instant::now(), looks_again);
        }
        fetcher.start(0, 1);
        assert!(fetcher.lanes[0].woken_at.is_none(), "the next call sees for what");
    }

    #[tokio::test]
    async fn what_becomes_due_between_the_look_and_the_sleep_is_not_slept_over() {
        // Nothing is sent: the queue is due before a connection is.
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        let desk = Arc::new(Desk::new(&settings));
        let mut fetcher = Fetcher::new(&client, &settings, desk).unwrap();
        let looked = Instant::now();
        fetcher.lanes[0].look_at = looked + Duration::from_nanos(1);
        let slept = fetcher.sleep(looked, None, Want { jobs: 1, free: 1 });
        tokio::time::timeout(Duration::from_secs(1), slept).await.expect("it sleeps on").unwrap();
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
