//! The decisions of a supervisor of worker processes: whether and when a process that has ended is replaced, when one that does not
//! end is killed, and with which code the supervisor and a worker end. Pure; each language starts the processes and waits.

use std::time::Duration;

/// The pause before a process that died young is replaced. It doubles with each further one that dies young in its place, and half
/// of it is drawn, so that those that died together do not start together.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A process that has lived so long was all right: it is replaced at once, whatever it died of.
const LONG_LIFE: Duration = Duration::from_secs(10);
/// Processes that end as they should, after so many jobs, follow each other no faster than this.
const RECYCLED_AFTER: Duration = Duration::from_millis(100);
/// The pause when the system gives no process.
const NO_PROCESS_PAUSE: Duration = Duration::from_secs(1);
/// How long a handler may go on after it was interrupted, before its process ends.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// What a process has beyond its grace: large results get up to 12 s over a slow line, and its last words 1.5; one whose handler hangs
/// ends by itself, [`PATIENCE`] and its farewell later.
pub(crate) const MARGIN: Duration = Duration::from_secs(15);

const STOP_SIGNALS: [i32; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT];
const BY_SIGNAL: i32 = 128;
/// The exit code of a worker with a handler that had to end and could not be interrupted.
pub(crate) const STUCK: i32 = 124;
/// The exit code of a worker whose grace ended before its handlers: as if SIGALRM had ended it.
const OUT_OF_GRACE: i32 = BY_SIGNAL + libc::SIGALRM;

/// How a worker process has ended.
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// Its exit code, or the number of the signal that killed it, negative.
    pub status: i32,
    /// It said that any other process would meet the same error.
    pub is_fatal: bool,
    /// It had begun to work: it was ready for jobs.
    pub was_ready: bool,
    /// For how long it lived.
    pub lived: Duration,
    /// How many processes in its place have died young before it, one after the other.
    pub young_deaths: u32,
    /// For how long its supervisor had run when this process began.
    pub began_after: Duration,
    /// Another process of its supervisor has run its jobs, and ended as it should.
    pub one_ended_well: bool,
}

impl Exit {
    /// Would every process meet that error, from the start? Where others have worked before, it is an outage, which those wait out that
    /// are connected: somebody changes a password just now, or a permission.
    fn stops_all(&self) -> bool {
        self.is_fatal && !self.one_ended_well && self.began_after < LONG_LIFE
    }
}

/// The supervisor's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterExit {
    /// Nothing: all others stop, too, and the supervisor ends with this code, or a larger one of theirs.
    Stop {
        /// Of this process.
        code: i32,
    },
    /// Another process takes its place.
    Replace {
        /// After this long.
        after: Duration,
        /// For the exit of that process.
        young_deaths: u32,
    },
}

/// What to do about a process that has ended. `chance` is from 0 to 1.
pub(crate) fn after_exit(exit: &Exit, is_stopping: bool, chance: f64) -> AfterExit {
    let Exit { status, was_ready, lived, young_deaths, .. } = *exit;
    if is_stopping || exit.stops_all() {
        return AfterExit::Stop { code: code_of(status) };
    }
    if status == 0 && was_ready {
        return AfterExit::Replace { after: RECYCLED_AFTER.saturating_sub(lived), young_deaths: 0 };
    }
    if lived >= LONG_LIFE && !exit.is_fatal {
        return AfterExit::Replace { after: Duration::ZERO, young_deaths: 0 };
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

/// How long to wait before another attempt when the system gives no process.
pub fn after_no_process() -> Duration {
    NO_PROCESS_PAUSE
}

/// How long it is until processes are killed that were asked to end so long ago, and a second time so long ago.
pub fn time_left(grace: Duration, asked: Duration, asked_again: Option<Duration>) -> Duration {
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

    fn exit(status: i32, lived: f64, young_deaths: u32) -> Exit {
        let (lived, began_after) = (seconds(lived), Duration::ZERO);
        Exit { status, is_fatal: false, was_ready: true, lived, young_deaths, began_after, one_ended_well: false }
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
                let then = after_exit(&exit(status, lived, before), false, chance);
                assert_eq!(then, AfterExit::Replace { after, young_deaths }, "{status} {lived} {before} {chance}");
            }
        }
    }

    #[test]
    fn what_ended_well_or_lived_long_is_replaced_without_a_pause() {
        for (status, lived, after) in
            [(0, 0.0, 0.1), (0, 0.03, 0.07), (0, 5.0, 0.0), (1, 10.0, 0.0), (-KILL, 3600.0, 0.0)]
        {
            let then = after_exit(&exit(status, lived, 5), false, 1.0);
            assert_eq!(then, AfterExit::Replace { after: seconds(after), young_deaths: 0 }, "{status} {lived}");
        }
    }

    #[test]
    fn what_ended_well_before_it_was_ready_has_died() {
        for (lived, before, longest, young_deaths) in
            [(0.0, 0, 0.1, 1), (0.0, 1, 0.2, 2), (9.9, 7, 10.0, 8), (10.0, 8, 0.0, 0)]
        {
            let unready = Exit { was_ready: false, ..exit(0, lived, before) };
            let after = seconds(longest);
            assert_eq!(
                after_exit(&unready, false, 1.0),
                AfterExit::Replace { after, young_deaths },
                "{lived} {before}"
            );
            assert_eq!(after_exit(&unready, true, 1.0), AfterExit::Stop { code: 0 });
        }
    }

    #[test]
    fn nothing_is_replaced_while_all_stop_or_when_all_would_meet_the_same_error() {
        let table = [(0, 0), (1, 1), (124, 124), (-KILL, 137), (-TERM, 0), (-libc::SIGQUIT, 0), (-libc::SIGINT, 0)];
        for (status, code) in table {
            assert_eq!(after_exit(&exit(status, 60.0, 0), true, 0.0), AfterExit::Stop { code }, "{status}");
            let fatal = Exit { is_fatal: true, ..exit(status, 0.0, 0) };
            assert_eq!(after_exit(&fatal, false, 0.0), AfterExit::Stop { code }, "{status}");
        }
    }

    #[test]
    fn an_error_that_all_would_meet_stops_none_that_have_worked() {
        let fatal = Exit { is_fatal: true, ..exit(1, 0.3, 0) };
        assert_eq!(after_exit(&fatal, false, 1.0), AfterExit::Stop { code: 1 });
        // However long its start takes.
        let slow = Exit { is_fatal: true, ..exit(1, 60.0, 0) };
        assert_eq!(after_exit(&slow, false, 1.0), AfterExit::Stop { code: 1 });
        let later = Exit { began_after: seconds(60.0), ..slow };
        assert_eq!(after_exit(&later, false, 1.0), AfterExit::Replace { after: seconds(0.1), young_deaths: 1 });
        let replaced = AfterExit::Replace { after: seconds(0.1), young_deaths: 1 };
        for has_worked in [Exit { began_after: seconds(10.0), ..fatal }, Exit { one_ended_well: true, ..fatal }] {
            assert_eq!(after_exit(&has_worked, false, 1.0), replaced);
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
