use super::*;
use crate::value::error::ErrorKind;

const TERM: i32 = libc::SIGTERM;
const KILL: i32 = libc::SIGKILL;
const HUP: i32 = libc::SIGHUP;

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn settings(processes: usize) -> SupervisorSettings {
    SupervisorSettings { processes, grace: at(30.0), ..SupervisorSettings::default() }
}

/// Two processes that are ready.
fn two() -> Supervised {
    of_two(settings(2))
}

fn of_two(settings: SupervisorSettings) -> Supervised {
    let mut supervised = Supervised::new(settings);
    for slot in 0..2 {
        start(&mut supervised, slot, 0.0);
    }
    assert_eq!(supervised.start(at(0.0)), None);
    assert!(supervised.ready(0, Duration::ZERO, at(0.0)));
    assert!(!supervised.ready(1, Duration::ZERO, at(0.0)));
    supervised
}

fn start(supervised: &mut Supervised, slot: usize, now: f64) {
    assert_eq!(supervised.start(at(now)), Some(slot), "at {now}");
}

#[test]
fn a_process_that_died_is_started_again_after_its_pause() {
    let mut all = two();
    assert_eq!(all.ended(1, -KILL, at(1.0), 1.0), OnExit::Replace(at(0.1)));
    assert_eq!((all.start(at(1.05)), all.wait(at(1.05))), (None, Some(at(0.05))));
    start(&mut all, 1, 1.1);
    assert_eq!(all.wait(at(1.1)), None);
    assert_eq!(all.ended(1, 1, at(1.2), 1.0), OnExit::Replace(at(0.2)));
    assert_eq!(all.ended(0, 0, at(1.2), 1.0), OnExit::Recycled);
    start(&mut all, 0, 1.2);
    assert_eq!((all.exit_code(), all.signals(at(1.2))), (None, vec![]));
}

#[test]
fn a_system_that_gives_no_process_is_asked_again_after_a_second() {
    let mut all = Supervised::new(settings(1));
    start(&mut all, 0, 0.0);
    all.not_started(0, "", at(0.0));
    assert_eq!((all.start(at(0.5)), all.wait(at(0.5))), (None, Some(at(0.5))));
    start(&mut all, 0, 1.0);
}

#[test]
fn a_signal_is_passed_on_and_nothing_is_started_behind_it() {
    let mut all = two();
    assert_eq!(all.ended(1, 1, at(1.0), 1.0), OnExit::Replace(at(0.1)));
    start(&mut all, 1, 1.5);
    assert_eq!(all.signal(libc::SIGQUIT, at(2.0)), OnSignal::Stop);
    // What is still starting handles none yet.
    assert_eq!(all.signals(at(2.0)), [(0, libc::SIGQUIT), (1, TERM)]);
    assert_eq!(all.ended(1, -TERM, at(2.1), 1.0), OnExit::Stopped);
    assert_eq!((all.start(at(60.0)), all.exit_code()), (None, None));
    assert_eq!(all.ended(0, 143, at(3.0), 1.0), OnExit::Stopped);
    assert_eq!(all.exit_code(), Some(143));
}

#[test]
fn what_does_not_end_is_killed_once_after_the_longest_grace_that_a_process_has() {
    let mut all = two();
    all.ready(1, at(60.0), at(0.0));
    assert_eq!(all.settings.grace, at(60.0));
    assert_eq!(all.signal(TERM, at(0.0)), OnSignal::Stop);
    assert_eq!(all.signals(at(0.0)), [(0, TERM), (1, TERM)]);
    assert_eq!((all.wait(at(70.0)), all.signals(at(70.0))), (Some(at(5.0)), vec![]));
    assert_eq!(all.signals(at(75.0)), [(0, KILL), (1, KILL)]);
    assert_eq!((all.wait(at(75.0)), all.signals(at(76.0))), (None, vec![]));
    assert_eq!(
        (all.ended(0, -KILL, at(76.0), 1.0), all.ended(1, 0, at(76.0), 1.0)),
        (OnExit::Stopped, OnExit::Stopped)
    );
    assert_eq!(all.exit_code(), Some(137));
}

#[test]
fn a_second_signal_ends_the_grace_and_a_third_does_not_begin_it_again() {
    let mut all = two();
    assert_eq!(all.signal(TERM, at(0.0)), OnSignal::Stop);
    assert_eq!(all.signal(libc::SIGINT, at(5.0)), OnSignal::StopAgain);
    assert_eq!(all.signal(TERM, at(10.0)), OnSignal::StopAgain);
    assert_eq!(all.signals(at(10.0)).len(), 6);
    assert_eq!(all.wait(at(10.0)), Some(at(10.0)));
    assert_eq!(all.signals(at(20.0)), [(0, KILL), (1, KILL)]);
}

#[test]
fn a_process_that_says_that_it_is_ready_behind_a_second_signal_hears_of_that_again() {
    let mut all = Supervised::new(settings(2));
    for slot in 0..2 {
        start(&mut all, slot, 0.0);
    }
    assert_eq!((all.signal(TERM, at(1.0)), all.signal(libc::SIGINT, at(1.0))), (OnSignal::Stop, OnSignal::StopAgain));
    assert_eq!(all.signals(at(1.0)), [(0, TERM), (1, TERM), (0, TERM), (1, TERM)]);
    all.ready(0, Duration::ZERO, at(2.0));
    all.ready(0, Duration::ZERO, at(2.0));
    assert_eq!(all.signals(at(2.0)), [(0, TERM)]);
}

#[test]
fn an_error_that_every_process_would_meet_stops_all() {
    let mut all = two();
    all.ends(1, "fatal");
    all.ends(1, "hello");
    assert_eq!(all.ended(1, 1, at(1.0), 1.0), OnExit::StopAll);
    assert_eq!((all.signals(at(1.0)), all.start(at(1.0))), (vec![(0, TERM)], None));
    // A signal behind it is the second one.
    assert_eq!(all.signal(TERM, at(2.0)), OnSignal::StopAgain);
    assert_eq!(all.ended(0, 0, at(3.0), 1.0), OnExit::Stopped);
    assert_eq!(all.exit_code(), Some(1));
}

#[test]
fn code_that_gives_no_worker_stops_all_unless_it_gave_one_before() {
    let refused = |settings, first_is_ready: bool| {
        let mut all = Supervised::new(settings);
        start(&mut all, 0, 0.0);
        start(&mut all, 1, 0.0);
        if first_is_ready {
            all.ready(0, Duration::ZERO, at(0.0));
        }
        all.ends(1, "refused");
        all.ended(1, 2, at(1.0), 1.0)
    };
    let replaced = OnExit::Replace(at(0.1));
    let loaded = SupervisorSettings { has_loaded: true, ..settings(2) };
    let table = [
        (settings(2), false, OnExit::StopAll),
        (settings(2), true, replaced),
        (loaded, false, replaced),
        (loaded, true, replaced),
    ];
    for (settings, first_is_ready, then) in table {
        assert_eq!(refused(settings, first_is_ready), then, "{settings:?} {first_is_ready}");
    }
}

#[test]
fn a_reload_replaces_one_process_after_the_other() {
    for signal in RELOAD_SIGNALS {
        let mut all = two();
        assert_eq!(all.signal(signal, at(60.0)), OnSignal::Reload);
        assert_eq!(all.wait(at(60.0)), Some(Duration::ZERO));
        assert_eq!(all.signals(at(60.0)), [(0, TERM)]);
        // The other goes on until its successor is ready.
        assert_eq!((all.signals(at(61.0)), all.wait(at(61.0))), (vec![], Some(at(44.0))));
        assert_eq!(all.ended(0, 0, at(62.0), 1.0), OnExit::Reloaded);
        start(&mut all, 0, 62.0);
        assert_eq!(all.signals(at(62.0)), []);
        all.ready(0, Duration::ZERO, at(62.5));
        assert_eq!((all.signals(at(63.0)), all.wait(at(63.0))), (vec![], Some(at(0.5))));
        assert_eq!(all.signals(at(63.5)), [(1, TERM)]);
        assert_eq!(all.ended(1, 142, at(93.0), 1.0), OnExit::Reloaded);
        start(&mut all, 1, 93.0);
        all.ready(1, Duration::ZERO, at(93.0));
        assert_eq!((all.signals(at(94.0)), all.wait(at(94.0))), (vec![], None));
        assert_eq!(all.exit_code(), None);
    }
}

#[test]
fn a_process_that_does_not_leave_at_a_reload_is_killed_and_the_next_one_follows() {
    let mut all = two();
    assert_eq!(all.signal(HUP, at(60.0)), OnSignal::Reload);
    assert_eq!(all.signals(at(60.0)), [(0, TERM)]);
    assert_eq!(all.signals(at(105.0)), [(0, KILL)]);
    assert_eq!(all.ended(0, -KILL, at(105.0), 1.0), OnExit::Reloaded);
    start(&mut all, 0, 105.0);
    all.ready(0, Duration::ZERO, at(105.0));
    assert_eq!(all.signals(at(106.0)), [(1, TERM)]);
}

#[test]
fn a_reload_with_broken_code_leaves_the_others_alone() {
    let mut all = two();
    assert_eq!(all.signal(HUP, at(5.0)), OnSignal::Reload);
    assert_eq!(all.signals(at(5.0)), [(0, TERM)]);
    assert_eq!(all.ended(0, 0, at(5.0), 1.0), OnExit::Reloaded);
    for (now, pause) in [(5.0, 0.1), (6.0, 0.2), (7.0, 0.4)] {
        start(&mut all, 0, now);
        all.ends(0, "refused");
        assert_eq!(all.ended(0, 2, at(now), 1.0), OnExit::Replace(at(pause)));
        assert_eq!(all.signals(at(now)), []);
    }
    // It says that it is ready, and then meets an error, such as a wrong password.
    for (now, pause) in [(8.0, 0.8), (10.0, 1.6)] {
        start(&mut all, 0, now);
        all.ready(0, Duration::ZERO, at(now));
        assert_eq!(all.signals(at(now + 0.3)), []);
        assert_eq!(all.ended(0, 1, at(now + 0.3), 1.0), OnExit::Replace(at(pause)));
        assert_eq!(all.signals(at(now + 0.5)), []);
    }
    start(&mut all, 0, 12.0);
    all.ready(0, Duration::ZERO, at(13.0));
    assert_eq!(all.signals(at(13.9)), []);
    assert_eq!(all.signals(at(14.0)), [(1, TERM)]);
}

#[test]
fn processes_that_end_well_all_the_time_do_not_hold_up_a_reload() {
    let mut all = two();
    assert_eq!(all.signal(HUP, at(5.0)), OnSignal::Reload);
    assert_eq!(all.signals(at(5.0)), [(0, TERM)]);
    assert_eq!(all.ended(0, 0, at(5.0), 1.0), OnExit::Reloaded);
    start(&mut all, 0, 5.0);
    all.ready(0, Duration::ZERO, at(5.1));
    assert_eq!(all.signals(at(5.2)), []);
    assert_eq!(all.ended(0, 0, at(5.4), 1.0), OnExit::Recycled);
    start(&mut all, 0, 5.4);
    assert_eq!(all.signals(at(5.4)), []);
    all.ready(0, Duration::ZERO, at(5.5));
    assert_eq!(all.signals(at(5.5)), [(1, TERM)]);
}

#[test]
fn a_stop_ends_a_reload() {
    let mut all = two();
    assert_eq!(all.signal(HUP, at(60.0)), OnSignal::Reload);
    assert_eq!(all.signals(at(60.0)), [(0, TERM)]);
    assert_eq!(all.signal(TERM, at(61.0)), OnSignal::Stop);
    assert_eq!(all.signals(at(61.0)), [(1, TERM)], "the first has its grace from the reload on");
    assert_eq!(all.signal(HUP, at(62.0)), OnSignal::Ignore);
    all.code_changed(at(62.0));
    assert_eq!(all.signals(at(62.0)), []);
    assert_eq!(all.ended(0, 0, at(62.0), 1.0), OnExit::Stopped);
    assert_eq!(all.start(at(62.0)), None);
}

#[test]
fn a_terminal_that_goes_away_stops_all() {
    let mut all = of_two(SupervisorSettings { has_terminal: true, ..settings(2) });
    assert_eq!(all.signal(libc::SIGUSR2, at(60.0)), OnSignal::Reload);
    assert_eq!(all.signals(at(60.0)), [(0, TERM)]);
    assert_eq!(all.signal(HUP, at(60.0)), OnSignal::Stop);
    assert_eq!(all.signals(at(60.0)), [(1, TERM)]);
    assert_eq!(all.signal(TERM, at(61.0)), OnSignal::StopAgain);
    assert_eq!(all.signals(at(61.0)), [(0, TERM), (1, TERM)]);
}

#[test]
fn code_that_has_changed_starts_all_again_at_once() {
    let mut all = of_two(SupervisorSettings { await_changes: true, ..settings(2) });
    assert_eq!(all.ended(1, 2, at(1.0), 1.0), OnExit::Await);
    assert_eq!((all.start(at(3600.0)), all.wait(at(3600.0))), (None, None));
    all.code_changed(at(3600.0));
    assert_eq!(all.signals(at(3600.0)), [(0, TERM)]);
    start(&mut all, 1, 3600.0);
    assert_eq!(all.ended(0, 0, at(3601.0), 1.0), OnExit::Reloaded);
    start(&mut all, 0, 3601.0);
    // So does a reload.
    assert_eq!(all.ended(0, 2, at(3602.0), 1.0), OnExit::Await);
    assert_eq!(all.signal(HUP, at(3603.0)), OnSignal::Reload);
    start(&mut all, 0, 3603.0);
}

#[test]
fn a_supervisor_has_one_to_ten_thousand_processes_and_at_most_a_day_of_grace() {
    let check = |processes, grace| SupervisorSettings { grace: at(grace), ..settings(processes) }.check();
    assert!(check(1, 0.0).is_ok() && check(10_000, 86_400.0).is_ok());
    for (processes, grace) in [(0, 1.0), (10_001, 1.0), (1, 86_400.1)] {
        assert_eq!(check(processes, grace).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

/// The same in every language, and nothing that a process has said itself.
#[test]
fn what_happens_is_logged_once() {
    let lines = |all: &mut Supervised| -> Vec<(LogLevel, String)> {
        all.lines().into_iter().map(|line| (line.level, line.text)).collect()
    };
    let mut all = Supervised::new(settings(2));
    for (slot, id) in [(0, 100), (1, 101)] {
        start(&mut all, slot, 0.0);
        all.started(slot, id);
    }
    assert_eq!(lines(&mut all), []);
    let word = |level, text: &str| vec![(level, text.to_owned())];
    all.ended(0, 3, at(0.5), 1.0);
    let text = "worker process 100 ended with exit code 3 after 0.5 s; another one starts in 0.1 s";
    assert_eq!(lines(&mut all), word(LogLevel::Warning, text));
    all.ended(1, -KILL, at(1.0), 1.0);
    let text = "worker process 101 was killed by signal 9 after 1.0 s; another one starts in 0.1 s";
    assert_eq!(lines(&mut all), word(LogLevel::Warning, text));
    start(&mut all, 0, 2.0);
    all.not_started(0, "too many files", at(2.0));
    let text = "the system gives no process; trying again in 1 s: too many files";
    assert_eq!(lines(&mut all), word(LogLevel::Error, text));
    start(&mut all, 1, 2.0);
    all.started(1, 102);
    all.ended(1, 0, at(2.5), 1.0);
    let text = "worker process 102 ended before it was ready after 0.5 s; another one starts in 0.2 s";
    assert_eq!(lines(&mut all), word(LogLevel::Warning, text));
    start(&mut all, 0, 3.0);
    start(&mut all, 1, 3.0);
    all.started(0, 103);
    all.ready(0, at(5.0), at(2.0));
    all.ready(1, at(5.0), at(2.0));
    all.signal(HUP, at(4.0));
    assert_eq!(lines(&mut all)[0].0, LogLevel::Info);
    all.ended(0, 0, at(5.0), 1.0);
    assert_eq!(lines(&mut all), word(LogLevel::Debug, "worker process 103 has run its jobs; another one starts"));
    let mut all = Supervised::new(settings(1));
    start(&mut all, 0, 0.0);
    all.started(0, 104);
    all.ends(0, "fatal");
    all.ended(0, 1, at(6.0), 1.0);
    let text = "worker process 104 met a permanent error, which every other one would meet, too: all stop";
    assert_eq!(lines(&mut all), word(LogLevel::Error, text));
    all.signal(TERM, at(6.5));
    assert_eq!(lines(&mut all), []);
}
