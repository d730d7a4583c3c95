//! The part of a queue that is in one slot: how a call is made of it, and what its client knows of it.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use crate::connection::Backoff;
use crate::process::host;
use crate::queue::client::{self, Client};
use crate::queue::combine::Combiner;
use crate::queue::event::ClientEvent;
use crate::queue::new_job::Prepared;
use crate::queue::push::Pushed;
use crate::queue::registration::Registration;
use crate::queue::reserve_call::ReserveCall;
use crate::queue::session::CallNumber;
use crate::queue::settle::OneOutcome;
use crate::queue::unclaimed::Granted;
use crate::script::{
    self, Call, Clock, Command, Declared, Extent, Item, KeepTrying, Key, Levels, QueueKeys, Reply, Request, Shape,
    Upgrade, Variant, Wanted, found_type, key_type, wake,
};
use crate::value::durability::{Doubt, Durability};
use crate::value::error::{Error, ErrorKind};
use crate::value::name;

/// So long after a reserve met an expired job the others look for more.
const SWEEPS_FOR_MS: u64 = 60_000;

/// A queue that is not partitioned, or one part of one that is: its keys lie in one slot, so one call reads and changes all of it.
/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) client: Client,
    pub(crate) shared: Arc<PartShared>,
}

pub(crate) struct PartShared {
    pub(crate) name: String,
    clock: Clock,
    pub(crate) keys: QueueKeys,
    /// The priority levels that the queue is known to use, as bits.
    levels: AtomicU16,
    /// Is it known to have limits or a maximum length, or to keep a history?
    has_options: AtomicBool,
    /// When a reserve last met a job that had expired, in ms of this host's clock; 0 if none did.
    expired_met_at: AtomicU64,
    /// How it is put on the list of queues.
    pub(super) registration: Registration,
    pub(super) pushes: Arc<Combiner<Prepared, Result<Pushed, Error>>>,
    pub(super) durable_pushes: Arc<Combiner<Prepared, Result<Pushed, Error>>>,
    pub(crate) settles: Arc<Combiner<OneOutcome, bool>>,
    pub(crate) reserves: Arc<Combiner<ReserveCall, Granted>>,
}

impl PartShared {
    pub(crate) fn new(
        prefix: &str,
        name: String,
        clock: Clock,
        levels: Levels,
        registration: Registration,
    ) -> Arc<Self> {
        Arc::new(Self {
            keys: QueueKeys::new(prefix, &name),
            name,
            clock,
            levels: AtomicU16::new(levels.bits()),
            has_options: AtomicBool::new(false),
            expired_met_at: AtomicU64::new(0),
            registration,
            pushes: Combiner::new(),
            durable_pushes: Combiner::new(),
            settles: Combiner::new(),
            reserves: Combiner::new(),
        })
    }
}

/// A call as it was made.
struct Made<'a> {
    operation: &'static str,
    /// If it is to be executed once.
    number: Option<&'a CallNumber<'a>>,
    /// If it has its answer also where that is not confirmed.
    doubt: Option<&'a Doubt>,
}

impl Part {
    pub(crate) fn new(client: Client, name: &str, registration: Registration) -> Self {
        let (clock, levels) = (client.shared.clock, Levels::one(name::DEFAULT_PRIORITY));
        let make = || PartShared::new(&client.shared.prefix, name.to_owned(), clock, levels, registration);
        // Nothing that is done under the lock can panic, so a poisoned one is still whole.
        let shared = client.shared.queues.lock().unwrap_or_else(PoisonError::into_inner).get(name, make);
        Self { client, shared }
    }

    /// A topic. It follows the server's clock also where a test moves that of its queues.
    pub(crate) fn of_topic(client: Client, name: &str) -> Self {
        let levels = Levels::one(name::DEFAULT_PRIORITY);
        let registration = Registration::of_topic();
        let make = || PartShared::new(&client.shared.prefix, name.to_owned(), Clock::Server, levels, registration);
        let shared = client.shared.topics.lock().unwrap_or_else(PoisonError::into_inner).get(name, make);
        Self { client, shared }
    }

    /// Under whose name a lock is kept, or what a member of topics has. No queue is known by it: they may be many. They follow the server's clock also where
    /// a test moves that of its queues: locks are renewed while time stands still.
    pub(crate) fn beside_queues(client: Client, name: &str) -> Self {
        let levels = Levels::one(name::DEFAULT_PRIORITY);
        let none = Registration::none();
        let shared = PartShared::new(&client.shared.prefix, name.to_owned(), Clock::Server, levels, none);
        Self { client, shared }
    }

    /// The name of the queue, of a part with its number: `orders/3`.
    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    /// The same queue with these levels' lists passed, whatever is known to be in use.
    pub(crate) fn with_levels(&self, levels: Levels) -> Self {
        let PartShared { name, clock, .. } = &*self.shared;
        let none = Registration::none();
        let shared = PartShared::new(&self.client.shared.prefix, name.clone(), *clock, levels, none);
        Self { client: self.client.clone(), shared }
    }

    pub(crate) fn levels(&self) -> Levels {
        Levels::from_bits(self.shared.levels.load(Ordering::Relaxed))
    }

    pub(crate) fn note_levels(&self, levels: Levels) {
        self.shared.levels.fetch_or(levels.bits(), Ordering::Relaxed);
    }

    fn shape(&self) -> Shape {
        if self.shared.has_options.load(Ordering::Relaxed) { Shape::Limited } else { Shape::Plain }
    }

    /// What the answer to a reserve says: limits and histories come and go.
    pub(super) fn note_options(&self, has_options: bool) {
        if self.shared.has_options.load(Ordering::Relaxed) != has_options {
            self.shared.has_options.store(has_options, Ordering::Relaxed);
        }
    }

    /// A reserve has met a job that had expired: where one is there are often thousands, and the next ones drop them in the script, instead of
    /// leasing each.
    pub(crate) fn note_expired_met(&self) {
        self.shared.expired_met_at.store(host::now().get(), Ordering::Relaxed);
    }

    /// Has a reserve met one lately?
    pub(super) fn sweeps(&self) -> bool {
        let met_at = self.shared.expired_met_at.load(Ordering::Relaxed);
        met_at != 0 && host::now().get().saturating_sub(met_at) < SWEEPS_FOR_MS
    }

    /// Does what a script wants before it is called again.
    async fn meet(&self, made: &Made<'_>, wanted: Wanted) -> Result<(), Error> {
        match wanted {
            Wanted::Again | Wanted::Full => {}
            Wanted::Levels(levels) => self.note_levels(levels),
            Wanted::Shape(shape) => self.note_options(shape == Shape::Limited),
            Wanted::News => {
                if made.number.is_some_and(CallNumber::was_forgotten) {
                    self.shared.registration.forget();
                    self.note_use();
                    self.client.shared.listener.hear(&ClientEvent::DataLost { queue: self.name().to_owned() });
                }
            }
            Wanted::Upgrade => {
                let upgrade = Upgrade {}.with([]);
                let call =
                    upgrade.call(self.variant(Extent::Usual), self.name(), &self.shared.keys, self.levels(), None);
                upgrade.decode(self.client.run(made.operation, &call, Durability::None).await?)?;
            }
        }
        Ok(())
    }

    fn variant(&self, extent: Extent) -> Variant {
        Variant { clock: self.shared.clock, shape: self.shape(), extent }
    }

    /// Runs a script and gives its reply; numbers the call if it is to be executed once.
    #[allow(clippy::manual_async_fn)] // the future of an `async fn` keeps its arguments twice, and this one is on every call's path
    pub(crate) fn run<D, I>(&self, request: Request<'_, D, I>) -> impl Future<Output = Result<D::Reply, Error>>
    where
        D: Declared + Sync,
        I: Iterator<Item: Item> + Clone + Sync,
    {
        async move {
            let client = &self.client.shared;
            let request = request.in_language(client.language);
            let number =
                Request::<D, I>::is_numbered().then(|| client.session.next_call(self.name(), || self.note_use()));
            let call = |extent| {
                let (variant, keys) = (self.variant(extent), &self.shared.keys);
                let numbering = number.as_ref().map(CallNumber::numbering);
                request.call(variant, self.name(), keys, self.levels(), numbering.as_ref())
            };
            let made = Made { operation: request.operation, number: number.as_ref(), doubt: request.doubt };
            let reply = self.answer(&made, request.durability, request.keep_trying, &call).await;
            if let (Some(number), Ok(reply)) = (&number, &reply)
                && !script::is_refusal(reply)
            {
                number.was_answered();
            }
            reply.and_then(|reply| request.decode(reply)).map_err(self.during(request.operation))
        }
    }

    /// Makes a call until the script has all that it needs; and again, behind a pause, after the errors of which
    /// `keep_trying` says so.
    async fn answer<'c>(
        &self,
        made: &Made<'_>,
        durability: Durability,
        keep_trying: KeepTrying<'_>,
        call: &(dyn Fn(Extent) -> Call<'c> + Sync),
    ) -> Result<Reply, Error> {
        let (mut is_again, mut extent, mut durability) = (false, Extent::Usual, durability);
        let (mut backoff, mut is_in) = (Backoff::default(), false);
        loop {
            let mut call = call(extent);
            call.is_again = is_again;
            let reply = match self.client.run(made.operation, &call, durability).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => return Err(self.name_foreign_key(error).await),
                Err(error) if keep_trying(&error) => {
                    is_again = true;
                    // On the heap: rare, and this future is moved about on every call.
                    Box::pin(backoff.rest()).await;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::NotDurable && made.doubt.is_some() => {
                    if let Some(doubt) = made.doubt {
                        doubt.set(error);
                    }
                    // It was executed, and the server knows its answer.
                    (durability, is_again, is_in) = (Durability::None, true, true);
                    continue;
                }
                Err(error) if is_in => {
                    let why = "the server has executed this call, and could not be asked again what has become of it";
                    return Err(Error::new(ErrorKind::Timeout, why).caused_by(error));
                }
                Err(error) => return Err(error),
                Ok(reply) => reply,
            };
            match script::wanted(&reply) {
                // Levels only ever grow, and the script for a queue with limits serves one without too: this ends after some turns.
                Some(wanted) => {
                    // An attempt without an answer may have gone before this one, and must find one.
                    is_again = true;
                    if wanted == Wanted::Full {
                        extent = Extent::Full;
                    }
                    let met = async {
                        match self.meet(made, wanted).await {
                            Err(error) if keep_trying(&error) => backoff.rest().await,
                            met => met?,
                        }
                        Ok::<_, Error>(())
                    };
                    Box::pin(met).await?;
                }
                None => return Ok(reply),
            }
        }
    }

    /// Says of an error what was done, and to which queue.
    pub(crate) fn during(&self, operation: &'static str) -> impl Fn(Error) -> Error {
        move |error| error.during(operation).in_queue(self.name())
    }

    /// Sends a plain command to the server that has the queue.
    pub(crate) async fn command(&self, operation: &'static str, command: Command) -> Result<Reply, Error> {
        self.client.command(operation, self.shared.keys.slot(), command).await
    }

    /// Passes on a wake-up that this waiter has no use for.
    pub(crate) async fn wake_another(&self) -> Result<(), Error> {
        self.command("reserve", wake(&self.shared.keys)).await.map(|_| ())
    }

    /// The server says that a key has a wrong type but not which: looks.
    pub(crate) async fn name_foreign_key(&self, error: Error) -> Error {
        let keys = &self.shared.keys;
        let ready = Levels::ALL.iter().map(|level| (keys.spell_ready(level), Key::Ready));
        let call = (format!("{}:{}", keys.spell(Key::Call), self.client.shared.session.client()), Key::Call);
        let others = Key::FIXED.iter().map(|&key| (keys.spell(key), key));
        let beside =
            [Key::Lock, Key::LockWake, Key::Actions, Key::Queues, Key::QueuesUsed].map(|key| (keys.spell(key), key));
        for (spelled, key) in others.chain(ready).chain([call]).chain(beside) {
            let Ok(reply) = self.command("check", key_type(&spelled)).await else { continue };
            let Some(found) = found_type(reply) else { continue };
            if found != key.redis_type() {
                let named = client::foreign_key(&spelled, Some(&found), key.redis_type());
                return self.during(error.operation().unwrap_or("check"))(named);
            }
        }
        error
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
