//! `Duly\Consumer`: gives jobs to a framework's own worker.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use duly::blocking::{self, Delivery, Interrupt, Uninterrupted, process};
use duly::worker::{Interruption, WorkerEvent, WorkerSettings};
use duly::{Error, ErrorKind};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendCallable, Zval};

use crate::call::{self, Guarded, guarded};
use crate::client::Client;
use crate::convert::{Text, given, span, span_or_interval, type_name, utf8};
use crate::error::Fault;
use crate::job::Job;
use crate::record::of_report;
use crate::select;
use crate::settings::default_deadline;
use crate::waiting::Signals;
use crate::worker::events::fields_of;

/// How long the end of the last object waits for the server to know what became of the jobs: 1 s more than outcomes are sent again; in a
/// request no longer than a call.
const FAREWELL: Duration = Duration::from_secs(9);
/// Events that nobody reads are dropped, the oldest first.
const MOST_EVENTS: usize = 1000;

/// Gives jobs of some queues to a program that runs them as it likes, several at once if it likes.
#[php_class]
#[php(name = "Duly\\Consumer")]
#[php(flags = ClassFlags::Final)]
pub struct Consumer {
    owner: Rc<Owner>,
}

/// What the consumer and the jobs that are out hold.
struct Owner {
    pid: u32,
    /// Left alone in a forked child: the thread is the parent's, and may have held any lock at the fork.
    consumer: ManuallyDrop<blocking::Consumer>,
    /// Let go of at the end: it may lead to the consumer, and PHP does not see that circle.
    on_interrupt: RefCell<Option<Guarded>>,
    events: RefCell<VecDeque<WorkerEvent>>,
    /// Runs for which `onInterrupt` is still to be called.
    interrupted: RefCell<VecDeque<(u64, Interruption)>>,
    out: RefCell<Vec<Weak<Out>>>,
}

/// A job that is out. When nobody holds it any more, it goes back.
pub struct Out {
    delivery: ManuallyDrop<Delivery>,
    owner: Rc<Owner>,
}

impl Out {
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if self.owner.pid == process::id() {
            // SAFETY: dropped here only, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.delivery) };
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.owner.consumer.stop();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.pid == process::id() {
            // Nothing is out. If the server does not answer in time, the ends of leases tell it.
            let _ = self
                .consumer
                .close(Some(Duration::ZERO), &mut Until(Instant::now() + default_deadline().min(FAREWELL)));
            // SAFETY: dropped here only, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.consumer) };
        }
    }
}

/// Ends a wait at a moment.
struct Until(Instant);

impl Interrupt for Until {
    type Error = Error;

    fn check(&mut self) -> Result<(), Error> {
        if Instant::now() < self.0 {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Interrupted, "the process goes on"))
    }
}

/// Lets PHP's handlers of signals run while it waits, and calls `onInterrupt`.
struct Waits<'a>(&'a Rc<Owner>);

impl Interrupt for Waits<'_> {
    type Error = Fault;

    fn check(&mut self) -> Result<(), Fault> {
        Signals.check()?;
        self.0.hear()
    }
}

impl Owner {
    fn next(self: &Rc<Self>, wait: Duration) -> Result<Option<Job>, Fault> {
        if self.on_interrupt.borrow().is_some() {
            self.hear()?;
        }
        let Some(delivery) = self.consumer.next(wait, &mut Waits(self))? else { return Ok(None) };
        let out = Rc::new(Out { delivery: ManuallyDrop::new(delivery), owner: Rc::clone(self) });
        let mut all = self.out.borrow_mut();
        all.retain(|out| out.strong_count() > 0);
        all.push(Rc::downgrade(&out));
        Ok(Some(Job::out(out)))
    }

    /// Takes what has happened, and calls `onInterrupt` for jobs that are out. Nothing is borrowed meanwhile: PHP may come back here.
    fn hear(&self) -> Result<(), Fault> {
        while let Some(event) = self.consumer.event(Duration::ZERO, &mut Uninterrupted)? {
            if let WorkerEvent::Interrupted { run, why, .. } = &event {
                self.interrupted.borrow_mut().push_back((*run, *why));
            }
            let mut events = self.events.borrow_mut();
            if events.len() == MOST_EVENTS {
                events.pop_front();
            }
            events.push_back(event);
        }
        // If it throws for one of them, it is called for the others when this is called again.
        let next = || self.interrupted.borrow_mut().pop_front();
        while let Some((run, why)) = next() {
            self.interrupt(run, why)?;
        }
        Ok(())
    }

    fn interrupt(&self, run: u64, why: Interruption) -> Result<(), Fault> {
        // Its own, as PHP may close the consumer meanwhile.
        let Some(on_interrupt) = self.on_interrupt.borrow().as_ref().map(|known| Guarded::of(known)) else {
            return Ok(());
        };
        let of_run = |out: &Weak<Out>| out.upgrade().filter(|out| out.delivery.number() == run);
        let Some(out) = self.out.borrow().iter().find_map(of_run) else { return Ok(()) };
        let why = call::function("Duly\\Interruption::from", vec![&why.as_str()])?;
        let job = Job::out(out).into_zval(false).map_err(|error| Fault::invalid(error.to_string()))?;
        let callable = ZendCallable::new(&on_interrupt).map_err(|error| Fault::invalid(error.to_string()))?;
        guarded(|| callable.try_call(vec![&job, &why]).map(drop)).map(drop)
    }
}

fn settings(
    queues: &Zval,
    concurrency: i64,
    lease: Option<&Zval>,
    grace: Option<&Zval>,
    timeout: Option<&Zval>,
    name: Option<Text>,
    prefetch: Option<i64>,
) -> Result<WorkerSettings, Fault> {
    let queues = queues.dereference();
    let (names, selection) = match queues.array() {
        Some(queues) => select::names(queues)?,
        None => (vec![(crate::convert::text("queues", queues)?, 1)], duly::Selection::Strict),
    };
    let number = |name: &str, value: i64| {
        usize::try_from(value).map_err(|_| Fault::invalid(format!("{name} must be 0 or more, not {value}")))
    };
    let mut settings = WorkerSettings::new(names);
    settings.selection = selection;
    settings.concurrency = number("concurrency", concurrency)?;
    settings.prefetch = prefetch.map(|prefetch| number("prefetch", prefetch)).transpose()?;
    if let Some(lease) = given(lease) {
        settings.lease = span_or_interval("lease", lease)?;
    }
    if let Some(grace) = given(grace) {
        settings.grace = span_or_interval("grace", grace)?;
    }
    settings.timeout = given(timeout).map(|timeout| span_or_interval("timeout", timeout)).transpose()?;
    settings.name = utf8("name", name)?;
    settings.language = "php";
    Ok(settings)
}

/// What is called later; refused where it is given.
fn callable(name: &str, value: Option<&Zval>) -> Result<Option<Guarded>, Fault> {
    let Some(value) = given(value) else { return Ok(None) };
    if !value.dereference().is_callable() {
        let found = type_name(value);
        return Err(Fault::invalid(format!("{name} must be a callable, not {found}")));
    }
    Ok(Some(Guarded::of(value)))
}

#[php_impl]
impl Consumer {
    /// Starts a native thread, which fetches when somebody asks for a job.
    #[php(defaults(concurrency = 1))]
    #[allow(clippy::too_many_arguments)] // they have names
    pub fn __construct(
        client: &Client,
        queues: &Zval,
        concurrency: i64,
        lease: Option<&Zval>,
        grace: Option<&Zval>,
        timeout: Option<&Zval>,
        name: Option<Text>,
        prefetch: Option<i64>,
        onInterrupt: Option<&Zval>,
    ) -> PhpResult<Self> {
        let start = || -> Result<Self, Fault> {
            let on_interrupt = RefCell::new(callable("onInterrupt", onInterrupt)?);
            let settings = settings(queues, concurrency, lease, grace, timeout, name, prefetch)?;
            let consumer = ManuallyDrop::new(blocking::Consumer::start(&*client.blocking()?, settings)?);
            let (pid, events, out) = (process::id(), RefCell::default(), RefCell::default());
            let interrupted = RefCell::default();
            Ok(Self { owner: Rc::new(Owner { pid, consumer, on_interrupt, events, interrupted, out }) })
        };
        Ok(start()?)
    }

    /// The next job, waited for so many seconds; null when there is none, and for ever once it was stopped.
    #[php(optional = wait)]
    pub fn next(&self, wait: Option<&Zval>) -> PhpResult<Option<Job>> {
        let next = || self.owner.next(span("wait", wait, Duration::ZERO)?);
        Ok(next()?)
    }

    /// A stream that is readable when a job can be taken or something has happened: for `stream_select` and event loops.
    pub fn stream(&self) -> PhpResult<Zval> {
        let open = || -> Result<Zval, Fault> {
            let sign = self.owner.consumer.sign()?;
            duly::occupy_standard_streams();
            let stream = call::function("fopen", vec![&format!("php://fd/{sign}"), &"r"])?;
            if stream.is_resource() {
                Ok(stream)
            } else {
                Err(Fault::invalid("PHP gives streams of descriptors on the command line only"))
            }
        };
        Ok(open()?)
    }

    /// What happened since the last call: `level` of a log, `text`, and if it is about a job `queue`, `id`, `name` and `attempt`.
    pub fn events(&self) -> PhpResult<Vec<BTreeMap<&'static str, Zval>>> {
        let owner = &self.owner;
        owner.hear()?;
        let events = owner.events.take();
        events.iter().map(|event| Ok(fields_of(event)?)).collect()
    }

    /// Gives nothing more, and gives back what was fetched ahead. What is out may be settled within the grace.
    pub fn stop(&self) {
        self.owner.consumer.stop();
    }

    /// Stops it, waits so many seconds for what is out, gives back the rest, and waits until the server knows all that.
    #[php(optional = within)]
    pub fn close(&self, within: Option<&Zval>) -> PhpResult<()> {
        let close = || -> Result<(), Fault> {
            let within = span("within", within, Duration::ZERO)?;
            self.owner.consumer.close(Some(within), &mut Waits(&self.owner))?;
            // Not under the borrow: what it leads to may have a destructor.
            let on_interrupt = self.owner.on_interrupt.take();
            drop(on_interrupt);
            Ok(())
        };
        Ok(close()?)
    }

    /// How many jobs are done (`acked`), `failed`, `released`, `lost` and `expired` so far.
    pub fn report(&self) -> BTreeMap<&'static str, i64> {
        of_report(self.owner.consumer.report())
    }
}
