//! The thread beside a worker's engine that needs no GIL: while a handler's C code holds that, no thread of Python runs, so
//! nobody there can handle a signal or end a process whose handler does not end.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use duly::Error;
use duly::blocking::Engine;
use duly::blocking::process::{self, StopOnSignal};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(100);

pub(super) struct Watchdog {
    /// Signals are handled by both sides, each once.
    on_signal: Option<StopOnSignal>,
    /// Since when a wait that is over is on its way back to a thread of Python.
    handing_over: Mutex<Option<Instant>>,
}

impl Watchdog {
    /// `patience`: how long Python may take to hear of a run that must end, before the process ends; for ever if none.
    /// `signals_seen`: how many signals had come when the worker began to listen, if it does.
    pub(super) fn start(
        engine: &Arc<Engine>,
        patience: Option<Duration>,
        signals_seen: Option<u64>,
    ) -> Result<Arc<Self>, Error> {
        let watchdog =
            Arc::new(Self { on_signal: signals_seen.map(StopOnSignal::since), handing_over: Mutex::default() });
        if patience.is_some() || signals_seen.is_some() {
            let (of_thread, engine) = (Arc::clone(&watchdog), Arc::downgrade(engine));
            process::start_watchdog(move || of_thread.run(&engine, patience))?;
        }
        Ok(watchdog)
    }

    /// Handles the signals that have come.
    pub(super) fn handle_signals(&self, engine: &Engine) {
        if let Some(on_signal) = &self.on_signal {
            on_signal.check(engine);
        }
    }

    /// A wait is over and on its way back to Python, or has arrived there.
    pub(super) fn handing_over(&self, is_under_way: bool) {
        *self.handing_over.lock().unwrap_or_else(PoisonError::into_inner) = is_under_way.then(Instant::now);
    }

    fn run(&self, engine: &Weak<Engine>, patience: Option<Duration>) {
        while let Some(engine) = engine.upgrade() {
            self.handle_signals(&engine);
            if patience.is_some_and(|patience| self.is_stuck(&engine, patience)) {
                process::end_stuck(&engine);
            }
            drop(engine);
            std::thread::sleep(EVERY);
        }
    }

    /// Must a run end, or has the worker ended, and Python has not heard of it for so long?
    fn is_stuck(&self, engine: &Engine, patience: Duration) -> bool {
        let handing_over = *self.handing_over.lock().unwrap_or_else(PoisonError::into_inner);
        let is_deaf = handing_over.is_some_and(|since| since.elapsed() >= patience);
        let must_hear = engine.is_over() || engine.overdue_for() >= patience;
        must_hear && (is_deaf || engine.unread_for() >= patience)
    }
}
