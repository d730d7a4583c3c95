//! What a supervisor of worker processes does next: a state machine that knows no process, no clock and no language. Each language
//! starts the processes, passes on what they say, and sends the signals.

mod exit;
#[cfg(test)]
mod tests;
mod words;

use std::time::Duration;

#[cfg(test)]
pub(crate) use exit::MARGIN;
pub use exit::PATIENCE;
pub use exit::STOP_SIGNALS;
use exit::{AfterExit, Exit, LastWord, Others};
pub(crate) use exit::{STUCK, exit_code};
pub use words::{LogLevel, LogLine};

use crate::value::error::Error;

/// The most processes that one supervisor keeps.
pub const MAX_PROCESSES: usize = 10_000;
/// The longest time that jobs may go on after a signal.
pub(crate) const LONGEST_GRACE: Duration = Duration::from_secs(24 * 3600);

/// At these all processes are replaced, one by one: a fresh one has the new code, and opens its log files anew.
pub const RELOAD_SIGNALS: [i32; 2] = [libc::SIGHUP, libc::SIGUSR2];
/// The pause when the system gives no process.
const NO_PROCESS_PAUSE: Duration = Duration::from_secs(1);
/// A process that has been ready for so long has met the server, and no error at its start: a reload goes on to the next one.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// A time that never comes.
const NEVER: Duration = Duration::MAX;

/// What a supervisor is started with.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct SupervisorSettings {
    /// How many processes it keeps, 1 to [`MAX_PROCESSES`].
    pub processes: usize,
    /// How long the jobs that run may go on after a signal, at most 24 h. A process may say that it takes longer.
    pub grace: Duration,
    /// It was started in a terminal, which sends SIGHUP when it goes away.
    pub has_terminal: bool,
    /// It has loaded the program's code itself.
    pub has_loaded: bool,
    /// The program's code is being written: a change of it starts the processes again.
    pub await_changes: bool,
}

impl SupervisorSettings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=MAX_PROCESSES).contains(&self.processes) {
            return Err(Error::invalid(format!("a supervisor has 1 to {MAX_PROCESSES} processes")));
        }
        if self.grace > LONGEST_GRACE {
            return Err(Error::invalid("a supervisor's grace is at most 24 h"));
        }
        Ok(())
    }
}

/// The processes of a supervisor and what is to be done about them. Times are since its start.
#[derive(Debug)]
pub(crate) struct Supervised {
    settings: SupervisorSettings,
    slots: Vec<Slot>,
    one_ended_well: bool,
    one_was_ready: bool,
    /// When all were asked to end, and when a second time.
    asked: Option<(Duration, Option<Duration>)>,
    /// The signals that are to be sent, and to which slots.
    signals: Vec<(usize, i32)>,
    code: i32,
    /// For the log.
    lines: Vec<LogLine>,
}

/// A process slot: it has one process at a time, and counts those that died young in it.
#[derive(Debug, Default)]
struct Slot {
    process: Option<Process>,
    start_at: Duration,
    young_deaths: u32,
    /// Since the last reload a new process has run its jobs in it, and ended as it should.
    has_proved: bool,
}

#[derive(Debug, Default)]
struct Process {
    id: u32,
    since: Duration,
    ready_at: Option<Duration>,
    word: Option<LastWord>,
    /// It is to be replaced when its turn has come.
    is_old: bool,
    /// It was asked to end, so that another one follows in its slot.
    asked: Option<Duration>,
    is_killed: bool,
}

/// What a signal to the supervisor means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnSignal {
    /// All stop. It is passed on.
    Stop,
    /// All stop already, and this one ends their grace. It is passed on.
    StopAgain,
    /// All are replaced, one by one.
    Reload,
    /// Nothing.
    Ignore,
}

/// What the end of a process means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnExit {
    /// It was asked to.
    Stopped,
    /// Every other process would meet the same error: all stop.
    StopAll,
    /// It was asked to, so that another one follows in its slot.
    Reloaded,
    /// It has run its jobs, and another one goes on.
    Recycled,
    /// It died, and another one follows in its slot after this long.
    Replace(Duration),
    /// It died, and another one follows in its slot when the program's code has changed.
    Await,
}

impl Supervised {
    pub(crate) fn new(settings: SupervisorSettings) -> Self {
        let slots = std::iter::repeat_with(Slot::default).take(settings.processes).collect();
        let (one_ended_well, one_was_ready) = (false, false);
        let (signals, lines) = (Vec::new(), Vec::new());
        Self { settings, slots, one_ended_well, one_was_ready, asked: None, signals, code: 0, lines }
    }

    /// A slot whose process is to be started now. To be asked until there is none.
    pub(crate) fn start(&mut self, now: Duration) -> Option<usize> {
        if self.asked.is_some() {
            return None;
        }
        let slot = self.slots.iter().position(|slot| slot.process.is_none() && slot.start_at <= now)?;
        self.slots[slot].process = Some(Process { since: now, ..Process::default() });
        Some(slot)
    }

    /// The process of this slot has started; `id` is the system's.
    pub(crate) fn started(&mut self, slot: usize, id: u32) {
        if let Some(process) = self.process(slot) {
            process.id = id;
        }
    }

    /// The system gives no process for this slot, and says why, or nothing.
    pub(crate) fn not_started(&mut self, slot: usize, why: &str, now: Duration) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.process = None;
            slot.start_at = now + NO_PROCESS_PAUSE;
            self.lines.push(words::no_process(why));
        }
    }

    /// The process of this slot says that it is ready. True for the first one of all.
    pub(crate) fn ready(&mut self, slot: usize, grace: Duration, now: Duration) -> bool {
        let Some(process) = self.process(slot) else { return false };
        let is_new = process.ready_at.is_none();
        process.ready_at.get_or_insert(now);
        // Of two that were sent before it was known to be ready, the system may have made one: both were SIGTERM.
        if is_new && self.asked.is_some_and(|(_, second)| second.is_some()) {
            self.signals.push((slot, libc::SIGTERM));
        }
        self.settings.grace = self.settings.grace.max(grace);
        self.settings.has_loaded = true;
        !std::mem::replace(&mut self.one_was_ready, true) && self.asked.is_none()
    }

    /// The process of this slot says why it ends: `fatal` or `refused`. Another word says nothing.
    pub(crate) fn ends(&mut self, slot: usize, why: &str) {
        let word = match why {
            "fatal" => LastWord::Fatal,
            "refused" => LastWord::Refused,
            _ => return,
        };
        if let Some(process) = self.process(slot) {
            process.word = Some(word);
        }
    }

    /// The process of this slot has ended, with this exit code or by a signal, whose number is negative. `chance` is from 0 to 1.
    pub(crate) fn ended(&mut self, slot: usize, status: i32, now: Duration, chance: f64) -> OnExit {
        let SupervisorSettings { has_loaded: one_has_loaded, await_changes, .. } = self.settings;
        let stop = self.asked.is_some();
        let others = Others { one_has_loaded, one_ended_well: self.one_ended_well, stop, await_changes };
        let slot_number = slot;
        let Some(slot) = self.slots.get_mut(slot) else { return OnExit::Stopped };
        let Some(process) = slot.process.take() else { return OnExit::Stopped };
        let exit = Exit {
            status,
            word: process.word,
            was_ready: process.ready_at.is_some(),
            lived: now.saturating_sub(process.since),
            young_deaths: slot.young_deaths,
            began_after: process.since,
            others,
        };
        slot.has_proved |= exit.is_well() && !process.is_old;
        self.one_ended_well |= exit.is_well();
        let then = exit::after_exit(&exit, chance);
        let was_asked = process.asked.is_some();
        let on_exit = self.after_exit(slot_number, was_asked, &exit, then, now);
        self.lines.extend(words::ended(process.id, &exit, on_exit));
        on_exit
    }

    fn after_exit(&mut self, slot: usize, was_asked: bool, exit: &Exit, then: AfterExit, now: Duration) -> OnExit {
        let slot = &mut self.slots[slot];
        let stop = exit.others.stop;
        if let AfterExit::Stop { code } = then {
            self.code = self.code.max(code);
            if stop {
                return OnExit::Stopped;
            }
            self.stop(libc::SIGTERM, now);
            return OnExit::StopAll;
        }
        if was_asked {
            (slot.start_at, slot.young_deaths) = (now, 0);
            return OnExit::Reloaded;
        }
        match then {
            AfterExit::Await => {
                slot.start_at = NEVER;
                OnExit::Await
            }
            AfterExit::Replace { after, young_deaths } => {
                (slot.start_at, slot.young_deaths) = (now + after, young_deaths);
                if exit.is_well() { OnExit::Recycled } else { OnExit::Replace(after) }
            }
            AfterExit::Stop { .. } => OnExit::Stopped,
        }
    }

    /// The supervisor got this signal.
    pub(crate) fn signal(&mut self, signal: i32, now: Duration) -> OnSignal {
        // The programs of a terminal that goes away are to end.
        let is_hangup = signal == libc::SIGHUP && self.settings.has_terminal;
        if is_hangup || STOP_SIGNALS.contains(&signal) {
            let is_first = self.asked.is_none();
            self.stop(if is_hangup { libc::SIGTERM } else { signal }, now);
            if !is_first {
                return OnSignal::StopAgain;
            }
            if self.one_was_ready {
                self.lines.push(words::stopping(self.settings.grace));
            }
            return OnSignal::Stop;
        }
        if self.asked.is_some() || !RELOAD_SIGNALS.contains(&signal) {
            return OnSignal::Ignore;
        }
        self.lines.push(words::reloading());
        for slot in &mut self.slots {
            slot.wake(now);
            slot.has_proved = false;
            if let Some(process) = &mut slot.process {
                process.is_old = true;
            }
        }
        OnSignal::Reload
    }

    /// The program's code has changed: all start again, at once.
    pub(crate) fn code_changed(&mut self, now: Duration) {
        if self.asked.is_some() {
            return;
        }
        self.lines.push(words::code_changed());
        for (number, slot) in self.slots.iter_mut().enumerate() {
            slot.start_at = now;
            if let Some(process) = &mut slot.process
                && process.asked.is_none()
            {
                process.asked = Some(now);
                self.signals.push((number, libc::SIGTERM));
            }
        }
    }

    /// What is to be sent now: slots, and the numbers of signals to their processes.
    pub(crate) fn signals(&mut self, now: Duration) -> Vec<(usize, i32)> {
        self.replace_next(now);
        let mut signals = std::mem::take(&mut self.signals);
        signals.retain(|(slot, _)| self.slots.get(*slot).is_some_and(|slot| slot.process.is_some()));
        for slot in 0..self.slots.len() {
            if self.time_left(slot, now) == Some(Duration::ZERO)
                && let Some(process) = self.process(slot)
            {
                process.is_killed = true;
                let line = words::killed(process.id);
                self.lines.push(line);
                signals.push((slot, libc::SIGKILL));
            }
        }
        signals
    }

    /// What is to be logged: all since the last call of this.
    pub(crate) fn lines(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.lines)
    }

    /// How long until something is to be done that no signal and no process tells; `None` if there is nothing.
    pub(crate) fn wait(&self, now: Duration) -> Option<Duration> {
        if !self.signals.is_empty() {
            return Some(Duration::ZERO);
        }
        let next_old = self.next_old().map(|(_, at)| at.saturating_sub(now));
        let starts = self.slots.iter().filter(|slot| self.asked.is_none() && slot.process.is_none());
        let starts = starts.filter(|slot| slot.start_at < NEVER).map(|slot| slot.start_at.saturating_sub(now));
        starts.chain(next_old).chain((0..self.slots.len()).filter_map(|slot| self.time_left(slot, now))).min()
    }

    /// The code with which the supervisor ends, when it does.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        let is_over = self.asked.is_some() && self.slots.iter().all(|slot| slot.process.is_none());
        is_over.then_some(self.code)
    }

    fn stop(&mut self, signal: i32, now: Duration) {
        let is_first = self.asked.is_none();
        self.asked = match self.asked {
            None => Some((now, None)),
            Some((first, second)) => Some((first, second.or(Some(now)))),
        };
        for (number, slot) in self.slots.iter().enumerate() {
            if let Some(process) = &slot.process {
                // A process that a reload has asked to end would take it for the second signal, which ends its grace.
                if is_first && process.asked.is_some() {
                    continue;
                }
                // A process that is still starting handles none yet, and by SIGQUIT it would dump its core.
                self.signals.push((number, if process.ready_at.is_some() { signal } else { libc::SIGTERM }));
            }
        }
    }

    /// Replaces one process after the other: the next when all others have been ready for a moment, so that broken code stops nothing.
    fn replace_next(&mut self, now: Duration) {
        if let Some((slot, at)) = self.next_old()
            && at <= now
            && let Some(process) = self.process(slot)
        {
            process.asked = Some(now);
            self.signals.push((slot, libc::SIGTERM));
        }
    }

    /// The next one to be replaced, and when.
    fn next_old(&self) -> Option<(usize, Duration)> {
        let is_old = |slot: &Slot| slot.process.as_ref().is_some_and(|process| process.is_old);
        let next = self.slots.iter().position(is_old).filter(|_| self.asked.is_none())?;
        let may_leave_at = |slot: &Slot| {
            let process = slot.process.as_ref().filter(|process| process.asked.is_none())?;
            Some(process.ready_at? + if process.is_old || slot.has_proved { Duration::ZERO } else { SETTLED_AFTER })
        };
        let at = self.slots.iter().map(may_leave_at).try_fold(Duration::ZERO, |at, one| Some(at.max(one?)))?;
        Some((next, at))
    }

    /// Until a process that was asked to end is killed.
    fn time_left(&self, slot: usize, now: Duration) -> Option<Duration> {
        let process = self.slots.get(slot)?.process.as_ref().filter(|process| !process.is_killed)?;
        let (first, second) = self.asked.or(process.asked.map(|asked| (asked, None)))?;
        let since = |asked| now.saturating_sub(asked);
        Some(exit::time_left(self.settings.grace, since(first), second.map(since)))
    }

    fn process(&mut self, slot: usize) -> Option<&mut Process> {
        self.slots.get_mut(slot)?.process.as_mut()
    }
}

impl Slot {
    /// A process that waits for a change of the code starts.
    fn wake(&mut self, now: Duration) {
        if self.start_at == NEVER {
            self.start_at = now;
        }
    }
}
