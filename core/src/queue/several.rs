//! One reserve from several queues.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::queue::client::Client;
use crate::queue::job::Job;
use crate::queue::reserve::{MAX_RESERVE_BYTES, MAX_RESERVED_A_CALL, ReserveOptions, wait_for_wakes};
use crate::queue::unclaimed::{Granted, Unclaimed};
use crate::queue::waiting::Waiting;
use crate::queue::{Part, Queue};
use crate::script::{Outcomes, ReserveStatus};
use crate::value::error::{Error, ErrorKind};
use crate::value::name::{MAX_HEADER_VALUE_BYTES, MAX_HEADERS};

/// How long a caller waits until what it took from others is passed on; the calls go on behind that.
const PASS_ON: Duration = Duration::from_millis(500);

/// The largest weight of a queue.
pub const MAX_WEIGHT: u32 = 1000;

/// A queue to reserve from, among others.
#[derive(Debug, Clone)]
pub struct QueueWeight {
    /// The queue.
    pub queue: Queue,
    /// How often it comes first under [`Selection::Weighted`], in proportion to the others: 1 to 1,000.
    pub weight: u32,
}

impl QueueWeight {
    /// This queue with this weight.
    pub fn new(queue: Queue, weight: u32) -> Self {
        Self { queue, weight }
    }
}

/// Which of several queues goes first.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Selection {
    /// As they are listed: a later queue gets a turn only when the earlier ones are empty.
    #[default]
    Strict,
    /// A new random order each time, in which a queue of weight 3 comes before one of weight 1 three times out of four. None
    /// starves, and none is left out: the next queues fill up what the first has not.
    Weighted,
}

impl Client {
    /// Leases jobs that are ready in any of these queues, up to `max` together, and waits for all of them at once.
    ///
    /// A split queue is asked part by part, in a new random order each time. One script call per queue or part that is looked
    /// at; while there is nothing to do, one blocked connection, in a cluster one per queue or part. If a queue cannot be read but another one returns jobs, the call returns the jobs, and the next call
    /// returns the error. Errors: those of [`Queue::reserve`]; `InvalidArgument` for no queue, a weight out of range, or
    /// another client's queue.
    ///
    /// ```no_run
    /// use duly::{QueueWeight, ReserveOptions, Selection};
    ///
    /// # async fn doc(client: duly::Client) -> Result<(), duly::Error> {
    /// let queues = [QueueWeight::new(client.queue("mail")?, 3), QueueWeight::new(client.queue("reports")?, 1)];
    /// let jobs = client.reserve_from(&queues, Selection::Weighted, &ReserveOptions::new().max(10)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve_from(
        &self,
        queues: &[QueueWeight],
        selection: Selection,
        options: &ReserveOptions,
    ) -> Result<Vec<Job>, Error> {
        let refused = |message: &'static str| Err(Error::invalid(message).during("reserve"));
        if queues.is_empty() {
            return refused("give at least one queue to reserve from");
        }
        if queues.iter().any(|one| one.weight == 0 || one.weight > MAX_WEIGHT) {
            return refused("the weight of a queue is 1 to 1000");
        }
        if queues.iter().any(|one| !Arc::ptr_eq(&one.queue.client().shared, &self.shared)) {
            return refused("all queues of one reserve must come from the client that reserves");
        }
        options.check().map_err(|error| error.during("reserve"))?;
        let queues: Vec<_> = queues.iter().map(|one| (one.queue.each_part(), one.weight)).collect();
        reserve_from_parts(&queues, selection, options).await
    }
}

/// One queue of a reserve under way.
struct Turn<'a> {
    queue: &'a Part,
    waiting: Waiting,
    /// How long to wait before looking at it again; none when the wait is over.
    pause: Option<Duration>,
    /// It took a wake-up and has not been looked at since.
    woken: bool,
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
        .map(|queue| Turn { queue, waiting: Waiting::new(began, options.wait_time()), pause: None, woken: false })
        .collect();
    loop {
        let order = order_of_turns(queues, selection)?;
        let round = look_at_all(&mut turns, &order, options).await;
        let (jobs, all_undecodable) = match round {
            Ok(round) => round,
            Err(error) => {
                pass_on(&mut turns).await;
                return Err(error);
            }
        };
        if !jobs.is_empty() {
            pass_on(&mut turns).await;
            return Ok(jobs.claim());
        }
        if all_undecodable {
            continue; // there may be more behind them
        }
        // All look again at the same moment, so that a wait rarely ends in the middle of another's.
        let Some(pause) = turns.iter().filter_map(|turn| turn.pause).min() else { return Ok(Vec::new()) };
        if let Err(error) = wait_for_any(&mut turns, pause).await {
            pass_on(&mut turns).await;
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

/// Asks each queue in turn until there are enough jobs. Whoever is asked once there are some is asked without waiting,
/// which also gives up a promise that is open there.
async fn look_at_all(
    turns: &mut [Turn<'_>],
    order: &[usize],
    options: &ReserveOptions,
) -> Result<(Unclaimed, bool), Error> {
    let mut jobs = Unclaimed::default();
    let mut had_entries = false;
    'turns: for &index in order {
        let mut more = true;
        while more {
            let left = options.most() - jobs.len();
            if left == 0 {
                break 'turns;
            }
            match look_at(&mut turns[index], &options.clone().max(left), !jobs.is_empty()).await {
                Ok(look) => {
                    had_entries |= look.had_entries;
                    more = look.more;
                    jobs.extend(look.jobs);
                }
                Err(error) if jobs.is_empty() => return Err(error),
                Err(_) => break 'turns, // what is leased must reach the caller
            }
        }
    }
    let all_undecodable = had_entries && jobs.is_empty();
    Ok((jobs, all_undecodable))
}

/// What one call to one queue gave.
struct Look {
    jobs: Vec<Job>,
    had_entries: bool,
    /// The call did not reach all that is ready: it is this queue's turn again.
    more: bool,
}

async fn look_at(turn: &mut Turn<'_>, options: &ReserveOptions, some_came: bool) -> Result<Look, Error> {
    if some_came {
        turn.waiting = turn.waiting.ended();
    }
    let (reply, granted) = turn.queue.reserve_round(options, &turn.waiting).await?;
    turn.woken = false;
    let (had_entries, cut) = (!granted.jobs.is_empty(), is_cut(turn.queue, &granted));
    turn.pause = turn.waiting.pause(reply.next_in, reply.promised, reply.status == ReserveStatus::Paused);
    if had_entries {
        // The script has taken back what was promised.
        turn.waiting.forget_promise();
    }
    let unreached = reply.status == ReserveStatus::None && reply.next_in == Some(Duration::ZERO);
    let jobs = turn.queue.decode_granted(granted).await?;
    let more = cut || unreached || (had_entries && jobs.is_empty());
    Ok(Look { jobs, had_entries, more })
}

/// May the script have stopped at one of its limits, and not for want of jobs?
fn is_cut(queue: &Part, granted: &Granted) -> bool {
    let bytes: usize = granted.jobs.iter().map(|job| job.record.len()).sum();
    // The next record may be as large as data, headers and retry policy together, and was then left behind.
    let largest = queue.client.shared.max_data_bytes.saturating_add(MAX_HEADERS * (MAX_HEADER_VALUE_BYTES + 256));
    granted.jobs.len() >= MAX_RESERVED_A_CALL || (bytes > 0 && bytes.saturating_add(largest) > MAX_RESERVE_BYTES)
}

/// Who got jobs elsewhere, or an error, does not come back in time for what it promised here, and has no use for a wake-up
/// that it took here: somebody else must have them. If that fails, all waiters still look again every second.
async fn pass_on(turns: &mut [Turn<'_>]) {
    // All at once: a server that does not answer must hold up neither the others nor the caller, whose leases run.
    let mut calls = JoinSet::new();
    for turn in turns {
        let queue = turn.queue.clone();
        let ended = turn.waiting.ended();
        if ended.promise() > 0 {
            calls.spawn(async move {
                let nothing = ReserveOptions::new().max(0);
                let _ = queue.reserve_once(&nothing, &ended, &Outcomes::default()).await;
            });
        } else if turn.woken {
            calls.spawn(async move {
                let _ = queue.wake_another().await;
            });
        }
    }
    let all = async { while calls.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(PASS_ON, all).await;
    calls.detach_all();
}

type Wait<'a> = Pin<Box<dyn Future<Output = Result<Option<usize>, Error>> + Send + 'a>>;

/// Waits until one of the queues is woken, at most `pause`.
async fn wait_for_any(turns: &mut [Turn<'_>], pause: Duration) -> Result<(), Error> {
    if pause.is_zero() {
        return Ok(());
    }
    let queues: Vec<&Part> = turns.iter().map(|turn| turn.queue).collect();
    if turns.len() > 1 && turns[0].queue.client.waits_together() {
        // One that is refused, be it by a proxy or because of one of the queues: each by itself says why.
        if let Ok(woken) = wait_for_wakes(&queues, pause, None).await {
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
            wait_for_wakes(queues, pause, Some(enough)).await.map_err(|error| error.in_queue(queues[0].name()))
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
