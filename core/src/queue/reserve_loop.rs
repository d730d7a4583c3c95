//! The loop of a reserve: asks the parts of one queue or of several in turn, and waits for all of them at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::{Enough, WaitedBy, Woken};
use crate::queue::Part;
use crate::queue::job::Job;
use crate::queue::reserve::{ReserveOptions, Selection};
use crate::queue::reserve_call::{MAX_RESERVE_BYTES, ReserveCall};
use crate::queue::unclaimed::{Granted, Unclaimed};
use crate::queue::waiting::Waiting;
use crate::script::Key;
use crate::value::error::{Error, ErrorKind};

/// How long a caller waits until what it took from others is passed on; the calls go on behind that.
const PASS_ON: Duration = Duration::from_millis(500);

/// One queue of a reserve under way.
struct Turn<'a> {
    part: &'a Part,
    /// There is no other, and nobody waits: its calls go together with those of other tasks.
    is_alone: bool,
    waiting: Waiting,
    /// How long to wait before it is looked at again; none when the wait is over.
    next_look: Option<Duration>,
    /// It took a wake-up and has not been looked at since.
    woken: bool,
}

impl<'a> Turn<'a> {
    fn new(part: &'a Part, waiting: Waiting, is_alone: bool) -> Self {
        Self { part, is_alone, waiting, next_look: None, woken: false }
    }
}

/// From the one part of a queue, for a caller that does not wait.
pub(crate) async fn reserve_what_is_ready(part: &Part, options: &ReserveOptions) -> Result<Vec<Job>, Error> {
    let mut turns = [Turn::new(part, Waiting::new(Instant::now(), Duration::ZERO), true)];
    Ok(look_at_all(&mut turns, &[0], options).await?.claim())
}

/// From the parts of these queues with their weights.
pub(crate) async fn reserve_from_parts(
    queues: &[(&[Part], u32)],
    selection: Selection,
    options: &ReserveOptions,
) -> Result<Vec<Job>, Error> {
    let began = Instant::now();
    let mut turns: Vec<Turn<'_>> = queues
        .iter()
        .flat_map(|(parts, _)| *parts)
        .map(|part| Turn::new(part, Waiting::new(began, options.wait_time()), false))
        .collect();
    loop {
        let order = order_of_turns(queues, selection)?;
        let jobs = match look_at_all(&mut turns, &order, options).await {
            Ok(jobs) => jobs,
            Err(error) => {
                pass_on(&mut turns, Some(&error)).await;
                return Err(error);
            }
        };
        if !jobs.is_empty() {
            pass_on(&mut turns, None).await;
            return Ok(jobs.claim());
        }
        // All look again at the same moment, so that a wait rarely ends in the middle of another's.
        let Some(next_look) = turns.iter().filter_map(|turn| turn.next_look).min() else { return Ok(Vec::new()) };
        if let Err(error) = wait_for_any(&mut turns, next_look).await {
            pass_on(&mut turns, Some(&error)).await;
            return Err(error);
        }
    }
}

/// The queues as they are selected, and the parts of each in a new random order.
fn order_of_turns(queues: &[(&[Part], u32)], selection: Selection) -> Result<Vec<usize>, Error> {
    let by_queue = match selection {
        Selection::Strict => (0..queues.len()).collect(),
        Selection::Weighted => weighted_order(&queues.iter().map(|(_, weight)| *weight).collect::<Vec<_>>())?,
    };
    let mut order = Vec::new();
    for at in by_queue {
        let first: usize = queues[..at].iter().map(|(parts, _)| parts.len()).sum();
        match queues[at].0.len() {
            1 => order.push(first),
            count => order.extend(weighted_order(&vec![1; count])?.into_iter().map(|part| first + part)),
        }
    }
    Ok(order)
}

/// Asks each part in turn until there are enough jobs, or enough bytes; what cannot be decoded counts as neither. Whoever is asked once
/// there are some is asked without waiting, which also gives up a promise that is open there.
async fn look_at_all(turns: &mut [Turn<'_>], order: &[usize], options: &ReserveOptions) -> Result<Unclaimed, Error> {
    let mut jobs = Unclaimed::default();
    let mut bytes_left = MAX_RESERVE_BYTES;
    'turns: for (at, &index) in order.iter().enumerate() {
        let is_last = at + 1 == order.len();
        let mut has_given = false;
        loop {
            let left = options.most() - jobs.len();
            if left == 0 || bytes_left == 0 {
                break 'turns;
            }
            let call = ReserveCall { max_bytes: bytes_left, ..ReserveCall::now(&options.clone().max(left)) };
            let some_came = !jobs.is_empty();
            let look = match turns[index].look(call, some_came, is_last).await {
                Ok(look) => look,
                Err(error) if jobs.is_empty() => return Err(error),
                Err(_) => break 'turns, // what is leased must reach the caller
            };
            let gives = look.jobs.len();
            jobs.extend(look.jobs);
            if gives > 0 {
                bytes_left = bytes_left.saturating_sub(look.bytes);
            }
            if !look.is_unfinished {
                break;
            }
            // The leases of what came run, so it is not kept back for calls that give little; and no other part passes this one over.
            let gives_little = if gives > 0 { has_given && gives < ReserveCall::MOST } else { some_came };
            if gives_little {
                break 'turns;
            }
            has_given |= gives > 0;
        }
    }
    Ok(jobs)
}

/// What one call to one part gave.
struct Look {
    jobs: Vec<Job>,
    /// Of all records, also of those that cannot be decoded.
    bytes: usize,
    /// The call did not reach all that is ready: it is this part's turn again.
    is_unfinished: bool,
}

impl Turn<'_> {
    /// `is_last`: no other comes after this one, so jobs that the call has no more room for are passed over by nobody.
    async fn look(&mut self, call: ReserveCall, some_came: bool, is_last: bool) -> Result<Look, Error> {
        let (granted, mut is_unfinished) = self.call(call, some_came).await?;
        let entries = granted.jobs.len();
        let bytes = granted.jobs.iter().map(|job| job.record.len()).sum();
        let has_most = entries >= ReserveCall::MOST;
        is_unfinished |= has_most || (!is_last && self.part.has_no_room(&granted.jobs, call.max_bytes));
        let jobs = self.part.decode_granted(granted).await?;
        is_unfinished |= entries > 0 && jobs.is_empty();
        Ok(Look { jobs, bytes, is_unfinished })
    }

    /// Gives also whether the call did not reach this caller, or what is ready.
    async fn call(&mut self, mut call: ReserveCall, some_came: bool) -> Result<(Granted, bool), Error> {
        if self.is_alone {
            let granted = self.part.reserve_with_others(call).await?;
            // Who got something must have it at once.
            let is_unfinished = granted.is_unfinished && granted.jobs.is_empty();
            return Ok((granted, is_unfinished));
        }
        if some_came {
            self.waiting = self.waiting.ended();
        }
        (call.wait, call.promise) = (self.waiting.left(), self.waiting.promise());
        let (reply, granted) = self.part.reserve_alone(call).await?;
        self.woken = false;
        self.next_look = self.waiting.next_look(&reply);
        if !granted.jobs.is_empty() {
            // The script has taken back what was promised.
            self.waiting.forget_promise();
        }
        Ok((granted, reply.is_unfinished()))
    }
}

/// Who got jobs elsewhere, or an error, does not come back in time for what it promised here, and has no use for a wake-up
/// that it took here: somebody else must have them. If that fails, all waiters still look again every second. `after`: the error.
async fn pass_on(turns: &mut [Turn<'_>], after: Option<&Error>) {
    // A server that has just not answered is not asked for more: the promise ends by itself.
    let is_away = after.is_some_and(|error| matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout));
    if turns.iter().all(|turn| !turn.woken && turn.waiting.promise() == 0) || (is_away && turns.len() == 1) {
        return;
    }
    // All at once: a server that does not answer must hold up neither the others nor the caller, whose leases run.
    let mut calls = JoinSet::new();
    for turn in turns {
        let part = turn.part.clone();
        let ended = turn.waiting.ended();
        if ended.promise() > 0 {
            calls.spawn(async move {
                let nothing =
                    ReserveCall { want: 0, promise: ended.promise(), ..ReserveCall::now(&ReserveOptions::new()) };
                let _ = part.reserve_once(nothing).await;
            });
        } else if turn.woken {
            calls.spawn(async move {
                let _ = part.wake_another().await;
            });
        }
    }
    let all = async { while calls.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(PASS_ON, all).await;
    calls.detach_all();
}

type Wait<'a> = Pin<Box<dyn Future<Output = Result<Option<usize>, Error>> + Send + 'a>>;

/// Waits until one of the queues is woken, `longest` at most.
async fn wait_for_any(turns: &mut [Turn<'_>], longest: Duration) -> Result<(), Error> {
    if longest.is_zero() {
        return Ok(());
    }
    let queues: Vec<&Part> = turns.iter().map(|turn| turn.part).collect();
    if let [turn] = turns {
        let woken = wait_for_wakes(&queues, longest, None).await.map_err(|error| error.in_queue(turn.part.name()))?;
        turn.woken = woken.is_some();
        return Ok(());
    }
    if turns[0].part.client.waits_together() {
        // One that is refused, be it by a proxy or because of one of the queues: each by itself says why.
        if let Ok(woken) = wait_for_wakes(&queues, longest, None).await {
            if let Some(index) = woken {
                turns[index].woken = true;
            }
            return Ok(());
        }
    }
    let (has_enough, enough) = watch::channel(false);
    let mut waits: Vec<Option<Wait<'_>>> = Vec::with_capacity(turns.len());
    for at in 0..queues.len() {
        let (queues, enough) = (&queues[at..=at], &enough);
        waits.push(Some(Box::pin(async move {
            wait_for_wakes(queues, longest, Some(enough)).await.map_err(|error| error.in_queue(queues[0].name()))
        })));
    }
    let mut ended = Vec::new();
    poll_fn(|context| poll_each(&mut waits, context, &mut ended)).await;
    // The others end here and now, and keep their connections.
    has_enough.send_replace(true);
    poll_fn(|context| {
        let _ = poll_each(&mut waits, context, &mut ended);
        Poll::Ready(())
    })
    .await;
    drop(waits);
    // All of them before an error goes to the caller: a wake-up that came beside it must be passed on.
    let mut outcome = Ok(());
    for (index, result) in ended {
        match result {
            Ok(woken) => turns[index].woken |= woken.is_some(),
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

/// Polls what has not ended yet.
fn poll_each(
    waits: &mut [Option<Wait<'_>>],
    context: &mut Context<'_>,
    ended: &mut Vec<(usize, Result<Option<usize>, Error>)>,
) -> Poll<()> {
    for (index, wait) in waits.iter_mut().enumerate() {
        if let Some(Poll::Ready(result)) = wait.as_mut().map(|wait| wait.as_mut().poll(context)) {
            ended.push((index, result));
            *wait = None;
        }
    }
    if ended.is_empty() { Poll::Pending } else { Poll::Ready(()) }
}

/// A new order, in which each index goes to one of those left with a chance in proportion to its weight.
pub(crate) fn weighted_order(weights: &[u32]) -> Result<Vec<usize>, Error> {
    let mut random = getrandom::u64()
        .map_err(|error| Error::new(ErrorKind::Internal, format!("the system gives no random bytes: {error}")))?;
    let mut left: Vec<usize> = (0..weights.len()).collect();
    let mut order = Vec::with_capacity(weights.len());
    while !left.is_empty() {
        let total: u64 = left.iter().map(|&index| u64::from(weights[index])).sum();
        // The finalizer of splitmix64 (Steele, Lea, Flood 2014).
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn = (drawn ^ (drawn >> 31)) % total;
        let mut chosen = 0;
        for (at, &index) in left.iter().enumerate() {
            let weight = u64::from(weights[index]);
            if drawn < weight {
                chosen = at;
                break;
            }
            drawn -= weight;
        }
        order.push(left.remove(chosen));
    }
    Ok(order)
}

/// Waits for a wake-up in one of these queues, and for `longest` at most; in several at once where
/// [`Client::waits_together`](crate::Client) says that it is possible. Gives the index of the one that took a wake-up.
///
/// A wake-up is a hint: where waiting for it is not possible just now (a lost connection, a slot on the move), time alone ends the
/// wait, and the reserve that follows says what is wrong.
pub(crate) async fn wait_for_wakes(
    queues: &[&Part],
    longest: Duration,
    enough: Option<&Enough>,
) -> Result<Option<usize>, Error> {
    let Some(first) = queues.first() else { return Ok(None) };
    let until = tokio::time::Instant::now() + longest;
    let spelled: Vec<_> = queues.iter().map(|queue| queue.shared.keys.spell(Key::Wake)).collect();
    let keys: Vec<_> = spelled.iter().map(String::as_bytes).collect();
    match first.client.wait_for_wakes("reserve", first.shared.keys.slot(), &keys, longest, enough).await {
        Ok(Woken::Yes(sign)) => Ok(Some(sign.index)),
        Ok(_) => Ok(None),
        Err(error) if first.client.waits_again(WaitedBy::Taking, &error) => {
            tokio::time::sleep_until(until).await;
            Ok(None)
        }
        Err(error) => Err(error.during("reserve")),
    }
}
