//! What follows the end of a worker process, as a table: whether and when another one follows in its slot, when one that does not end is
//! killed, and with which code the supervisor and a worker end.

use std::time::Duration;

/// The pause before a process that died young is replaced. It doubles with each further one that dies young in its slot, and half
/// of it is drawn, so that those that died together do not start together.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A process that has lived so long was all right: it is replaced at once, whatever it died of.
const LONG_LIFE: Duration = Duration::from_secs(10);
/// Processes that end as they should, after so many jobs, follow each other no faster than this.
const RECYCLED_AFTER: Duration = Duration::from_millis(100);
/// How long a handler may go on after it was interrupted, before its process ends.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// What a process has beyond its grace: large results get up to 12 s over a slow line, and its last words 1.5; one whose handler hangs
/// ends by itself, [`PATIENCE`] and its farewell later.
pub(crate) const MARGIN: Duration = Duration::from_secs(15);

/// At these a worker stops.
pub const STOP_SIGNALS: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT];
const BY_SIGNAL: i32 = 128;
/// The exit code of a worker with a handler that had to end and could not be interrupted.
pub(crate) const STUCK: i32 = 124;
/// The exit code of a worker whose grace ended before its handlers: as if SIGALRM had ended it.
const OUT_OF_GRACE: i32 = BY_SIGNAL + libc::SIGALRM;

/// Why a worker process ends, in its own word: its exit code may be a handler's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastWord {
    /// It met an error that waiting does not cure, such as a wrong password.
    Fatal,
    /// The program's code gave it no worker to run.
    Refused,
}

/// How a worker process has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exit {
    /// Its exit code, or the number of the signal that killed it, negative.
    pub(super) status: i32,
    /// What it said last, if it said anything.
    pub(super) word: Option<LastWord>,
    /// It had begun to work: it was ready for jobs.
    pub(super) was_ready: bool,
    /// For how long it lived.
    pub(super) lived: Duration,
    /// How many processes in its slot have died young before it, one after the other.
    pub(super) young_deaths: u32,
    /// For how long its supervisor had run when this process began.
    pub(super) began_after: Duration,
    /// What others have done before.
    pub(super) others: Others,
}

/// What the supervisor knows of its other processes.
#[allow(clippy::struct_excessive_bools)] // facts that are independent of each other
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    /// The program's code gave another process a worker, or the supervisor itself.
    pub(super) one_has_loaded: bool,
    /// Another process has run its jobs, and ended as it should.
    pub(super) one_ended_well: bool,
    /// All are to end.
    pub(super) stop: bool,
    /// The program's code is being written: a change of it starts them again.
    pub(super) await_changes: bool,
}

impl Exit {
    /// Would any other process meet the same error? Code that another one could load is a deployment that is half-way, or a module
    /// that asks a database.
    fn is_fatal(&self) -> bool {
        match self.word {
            None => false,
            Some(LastWord::Fatal) => !self.others.await_changes,
            Some(LastWord::Refused) => !self.others.one_has_loaded,
        }
    }

    /// Would every process meet that error, from the start? Where others have worked before, it is an outage, which those wait out that
    /// are connected: somebody changes a password just now, or a permission.
    fn stops_all(&self) -> bool {
        self.is_fatal() && !self.others.one_ended_well && self.began_after < LONG_LIFE
    }

    /// It ran its jobs, and ended as it should.
    pub(super) fn is_well(&self) -> bool {
        self.status == 0 && self.was_ready
    }
}

/// The supervisor's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterExit {
    /// Nothing: all others stop, too, and the supervisor ends with this code, or a larger one of theirs.
    Stop {
        /// Of this process.
        code: i32,
    },
    /// Another process follows in its slot.
    Replace {
        /// After this long.
        after: Duration,
        /// For the exit of that process.
        young_deaths: u32,
    },
    /// Another process follows in its slot when the program's code has changed.
    Await,
}

/// What to do about a process that has ended. `chance` is from 0 to 1.
pub(super) fn after_exit(exit: &Exit, chance: f64) -> AfterExit {
    let Exit { status, lived, young_deaths, others, .. } = *exit;
    if others.stop || exit.stops_all() {
        return AfterExit::Stop { code: code_of(status) };
    }
    if exit.is_well() {
        return AfterExit::Replace { after: RECYCLED_AFTER.saturating_sub(lived), young_deaths: 0 };
    }
    if lived >= LONG_LIFE && !exit.is_fatal() {
        return AfterExit::Replace { after: Duration::ZERO, young_deaths: 0 };
    }
    if others.await_changes && status >= 0 {
        return AfterExit::Await;
    }
    let pause = FIRST_PAUSE.saturating_mul(1 << young_deaths.min(10)).min(LONGEST_PAUSE);
    AfterExit::Replace { after: pause.mul_f64(0.5 + chance / 2.0), young_deaths: young_deaths.saturating_add(1) }
}

/// The code of a process that has ended while all stop. Only one that was not ready yet, and so had no job, ends by such a signal.
fn code_of(status: i32) -> i32 {
    match status {
        code if code >= 0 => code,
        signal if STOP_SIGNALS.contains(&-signal) => 0,
        signal => BY_SIGNAL - signal,
    }
}

/// How long it is until processes are killed that were asked to end so long ago, and a second time so long ago.
pub(super) fn time_left(grace: Duration, asked: Duration, asked_again: Option<Duration>) -> Duration {
    let by_first = grace.saturating_add(MARGIN).saturating_sub(asked);
    asked_again.map_or(by_first, |again| by_first.min(MARGIN.saturating_sub(again)))
}

/// The exit code of a worker that has stopped, after these signals: was a handler cut short, and did one not end at all?
pub(crate) fn exit_code(was_cut_short: bool, is_stuck: bool, signals: &[i32]) -> i32 {
    match (is_stuck, was_cut_short, signals) {
        (true, ..) => STUCK,
        (_, false, _) => 0,
        (_, true, [_, second, ..]) => BY_SIGNAL + second,
        (_, true, _) => OUT_OF_GRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: i32 = libc::SIGTERM;
    const KILL: i32 = libc::SIGKILL;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    const LOADED: Others = Others { one_has_loaded: true, one_ended_well: false, stop: false, await_changes: false };
    const STOP: Others = Others { stop: true, ..LOADED };
    const AWAIT: Others = Others { await_changes: true, ..LOADED };

    fn exit(status: i32, lived: f64, young_deaths: u32) -> Exit {
        let (lived, began_after) = (seconds(lived), Duration::ZERO);
        Exit { status, word: None, was_ready: true, lived, young_deaths, began_after, others: LOADED }
    }

    #[test]
    fn what_died_young_is_replaced_after_a_pause_that_doubles_up_to_ten_seconds() {
        let table = [
            // status, lived, young deaths before: the longest pause, young deaths then
            ((1, 0.0, 0), 0.1, 1),
            ((-KILL, 9.9, 0), 0.1, 1),
            ((1, 0.0, 1), 0.2, 2),
            ((-TERM, 0.0, 5), 3.2, 6),
            ((255, 0.0, 6), 6.4, 7),
            ((1, 0.0, 7), 10.0, 8),
            ((1, 0.0, u32::MAX), 10.0, u32::MAX),
        ];
        for ((status, lived, before), longest, young_deaths) in table {
            for chance in [0.0, 0.5, 1.0] {
                let after = seconds(longest * (0.5 + chance / 2.0));
                let then = after_exit(&exit(status, lived, before), chance);
                assert_eq!(then, AfterExit::Replace { after, young_deaths }, "{status} {lived} {before} {chance}");
            }
        }
    }

    #[test]
    fn what_ended_well_or_lived_long_is_replaced_without_a_pause() {
        for (status, lived, after) in
            [(0, 0.0, 0.1), (0, 0.03, 0.07), (0, 5.0, 0.0), (1, 10.0, 0.0), (-KILL, 3600.0, 0.0)]
        {
            for others in [LOADED, AWAIT] {
                let then = after_exit(&Exit { others, ..exit(status, lived, 5) }, 1.0);
                assert_eq!(then, AfterExit::Replace { after: seconds(after), young_deaths: 0 }, "{status} {lived}");
            }
        }
    }

    #[test]
    fn what_ended_well_before_it_was_ready_has_died() {
        for (lived, before, longest, young_deaths) in
            [(0.0, 0, 0.1, 1), (0.0, 1, 0.2, 2), (9.9, 7, 10.0, 8), (10.0, 8, 0.0, 0)]
        {
            let unready = Exit { was_ready: false, ..exit(0, lived, before) };
            let after = seconds(longest);
            assert_eq!(after_exit(&unready, 1.0), AfterExit::Replace { after, young_deaths }, "{lived} {before}");
            assert_eq!(after_exit(&Exit { others: STOP, ..unready }, 1.0), AfterExit::Stop { code: 0 });
        }
    }

    #[test]
    fn nothing_is_replaced_while_all_stop_or_when_all_would_meet_the_same_error() {
        let table = [(0, 0), (1, 1), (124, 124), (-KILL, 137), (-TERM, 0), (-libc::SIGQUIT, 0), (-libc::SIGINT, 0)];
        for (status, code) in table {
            let asked = Exit { others: STOP, ..exit(status, 60.0, 0) };
            assert_eq!(after_exit(&asked, 0.0), AfterExit::Stop { code }, "{status}");
            let fatal = Exit { word: Some(LastWord::Fatal), ..exit(status, 0.0, 0) };
            assert_eq!(after_exit(&fatal, 0.0), AfterExit::Stop { code }, "{status}");
        }
    }

    #[test]
    fn a_word_stops_all_if_every_other_process_would_say_the_same() {
        use LastWord::{Fatal, Refused};
        let nothing = Others { one_has_loaded: false, ..LOADED };
        let table = [
            // word, what the others did: do all stop?
            (None, nothing, false),
            (None, LOADED, false),
            (Some(Fatal), nothing, true),
            (Some(Fatal), LOADED, true),
            (Some(Fatal), Others { one_ended_well: true, ..LOADED }, false),
            (Some(Fatal), AWAIT, false),
            (Some(Refused), nothing, true),
            (Some(Refused), LOADED, false),
            (Some(Refused), Others { one_ended_well: true, ..LOADED }, false),
            (Some(Refused), AWAIT, false),
        ];
        for (word, others, stops) in table {
            let then = after_exit(&Exit { word, others, ..exit(1, 0.3, 0) }, 1.0);
            assert_eq!(then == AfterExit::Stop { code: 1 }, stops, "{word:?} {others:?}");
        }
    }

    #[test]
    fn an_error_that_all_would_meet_stops_none_that_have_worked() {
        let fatal = Exit { word: Some(LastWord::Fatal), ..exit(1, 0.3, 0) };
        assert_eq!(after_exit(&fatal, 1.0), AfterExit::Stop { code: 1 });
        // However long its start takes.
        let slow = Exit { lived: seconds(60.0), ..fatal };
        assert_eq!(after_exit(&slow, 1.0), AfterExit::Stop { code: 1 });
        let later = Exit { began_after: seconds(60.0), ..slow };
        assert_eq!(after_exit(&later, 1.0), AfterExit::Replace { after: seconds(0.1), young_deaths: 1 });
        let replaced = AfterExit::Replace { after: seconds(0.1), young_deaths: 1 };
        let one_ended_well = Others { one_ended_well: true, ..LOADED };
        for has_worked in [Exit { began_after: seconds(10.0), ..fatal }, Exit { others: one_ended_well, ..fatal }] {
            assert_eq!(after_exit(&has_worked, 1.0), replaced);
        }
    }

    #[test]
    fn code_that_is_being_written_is_waited_for_unless_a_signal_killed_it() {
        let replaced = AfterExit::Replace { after: seconds(0.1), young_deaths: 1 };
        let table = [((1, true), AfterExit::Await), ((0, false), AfterExit::Await), ((-KILL, true), replaced)];
        for ((status, was_ready), then) in table {
            let ended = Exit { was_ready, others: AWAIT, ..exit(status, 1.0, 0) };
            assert_eq!(after_exit(&ended, 1.0), then, "{status}");
        }
    }

    #[test]
    fn what_does_not_end_is_killed_fifteen_seconds_after_the_grace_or_after_the_second_signal() {
        let table = [
            // grace, asked, asked again: left
            (30.0, 0.0, None, 45.0),
            (30.0, 44.0, None, 1.0),
            (30.0, 50.0, None, 0.0),
            (30.0, 5.0, Some(0.0), 15.0),
            (30.0, 20.0, Some(15.5), 0.0),
            (0.0, 11.0, Some(6.0), 4.0),
        ];
        for (grace, asked, again, left) in table {
            let again = again.map(seconds);
            assert_eq!(time_left(seconds(grace), seconds(asked), again), seconds(left), "{grace} {asked} {again:?}");
        }
        assert_eq!(time_left(Duration::MAX, Duration::ZERO, None), Duration::MAX);
    }

    #[test]
    fn a_worker_says_by_its_code_what_ended_its_handlers() {
        let (int, quit) = (libc::SIGINT, libc::SIGQUIT);
        let table: [(bool, bool, &[i32], i32); 7] = [
            (false, false, &[], 0),
            (false, false, &[TERM, TERM], 0),
            (true, false, &[TERM], 142),
            (true, false, &[], 142),
            (true, false, &[TERM, int], 130),
            (true, false, &[TERM, quit, int], 131),
            (true, true, &[TERM, TERM], 124),
        ];
        for (was_cut_short, is_stuck, signals, code) in table {
            assert_eq!(exit_code(was_cut_short, is_stuck, signals), code, "{was_cut_short} {is_stuck} {signals:?}");
        }
    }
}
