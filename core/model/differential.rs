//! The same random steps for the model and for the real scripts.
//!
//! `DULY_MODEL_CASES` sets how many sequences are run (default 400), `DULY_MODEL_SEED` which: the same ones each time, unless
//! `make soak` asks for others. A failing run prints its seed and the shortest sequence of steps that still fails, which belongs
//! into `regressions.rs`.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use super::generate;
use super::server::Server;
use super::world::{self, Seen};

const DEFAULT_CASES: u32 = 400;
const DEFAULT_SEED: u64 = 0x5eed;
const MOST_STEPS: usize = 60;

/// What a run must have come across, or it proves less than it claims.
const SOMETIMES: &[&str] = &[
    "a call was sent again",
    "a call was superseded",
    "a caller learnt of levels",
    "a caller learnt of the shape",
    "a claim had ended without a word",
    "a claim was given back",
    "a dead worker was forgotten",
    "a dead worker was left out",
    "a duplicate was kept",
    "a duplicate was refused",
    "a failed job was handed out",
    "a failed job was trimmed",
    "a job came back before parked ones",
    "a job failed by reclaim",
    "a job ran twice",
    "a job was heard of",
    "a job was kept from a cancel",
    "a job was parked",
    "a job was purged",
    "a job was replaced",
    "a job was requeued",
    "a job was rescheduled",
    "a late outcome was refused",
    "a lease was extended",
    "a lease that ended was not charged",
    "a lease that was over was extended",
    "a lease that was over was spared",
    "a lost lease left no result",
    "a lost lease woke no waiter",
    "a limit of a name was forgotten",
    "a newer format was refused",
    "a parked job ran",
    "a parked job was cancelled",
    "a paused queue gave nothing",
    "a place was missing",
    "a replay left out a job that was lost",
    "a replay returned jobs",
    "a reserve left jobs behind",
    "a reserve reached its promote cap",
    "a reserve reached its reclaim cap",
    "a reserved job was purged",
    "a result was kept",
    "a result went with the next job of its id",
    "a stale ack was refused",
    "a call named what was given up in other slots",
    "a call that was given up came late",
    "a start under an old lease was refused",
    "a start was noted",
    "a suspect was charged",
    "a waiter broke its promise",
    "a waiter found a result",
    "a waiter promised to come back",
    "a waiter promised to come back for the rate",
    "a waiter promised to come back for the rate of a name",
    "a waiter was told of a failure",
    "a worker was told of unheard jobs",
    "an answer was given again",
    "both limits of a name were met",
    "jobs of other names passed by",
    "leases were shortened when the clock was set back",
    "meta was lost",
    "progress of a lost lease was refused",
    "progress of an earlier lease was not shown",
    "progress was noted",
    "progress was shown",
    "running jobs were counted",
    "somebody may have waited for a cancelled job",
    "somebody may have waited for a purged job",
    "stale entries were passed",
    "the rate held a job back",
    "the rate of a name held a job back",
    "the rate of a name let several start at once",
    "the rate let several start at once",
    "what lost limits parked was found",
    "who waited for a failed job was woken",
];

pub(super) fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

/// Half of the sequences beside the other half, each with a seed of its own. A failure names its seed, with which the first half
/// shows it again.
#[test]
fn scripts_do_what_the_model_does() {
    let cases = number_from("DULY_MODEL_CASES").map_or(DEFAULT_CASES, |cases| u32::try_from(cases).unwrap());
    let seed = number_from("DULY_MODEL_SEED").unwrap_or(DEFAULT_SEED);
    println!("DULY_MODEL_SEED={seed} DULY_MODEL_CASES={cases}");
    let has_failed = &AtomicBool::new(false);
    let halves = std::thread::scope(|scope| {
        let half = |seed| scope.spawn(move || run_sequences(seed, cases.div_ceil(2), has_failed));
        [seed, seed.wrapping_add(1)].map(half).map(std::thread::ScopedJoinHandle::join)
    });
    let mut events = Seen::new();
    for half in halves {
        for (event, times) in half.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            *events.entry(event).or_default() += times;
        }
    }
    println!("{events:#?}");
    let missing: Vec<_> = SOMETIMES.iter().filter(|event| !events.contains_key(**event)).collect();
    assert!(missing.is_empty() || cases < DEFAULT_CASES, "never seen in {cases} cases (seed {seed}): {missing:?}");
}

/// What they came across. Stops when another run has failed.
fn run_sequences(seed: u64, cases: u32, has_failed: &AtomicBool) -> Seen {
    // A mutant only has to be caught.
    let is_mutant = std::env::var_os("DULY_MUTANT_FILE").is_some();
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: if is_mutant { 0 } else { 4000 },
        ..Config::default()
    };
    let real = RefCell::new(Server::start());
    let tally = RefCell::new(Seen::new());
    let (number, has_failed_here) = (Cell::new(0), Cell::new(false));
    let steps = generate::steps(MOST_STEPS);
    let result = TestRunner::new(config).run(&steps, |list| {
        if has_failed.load(Ordering::Relaxed) && !has_failed_here.get() {
            return Ok(());
        }
        number.set(number.get() + 1);
        world::run(&mut real.borrow_mut(), &mut tally.borrow_mut(), number.get(), &list).map_err(|why| {
            has_failed_here.set(true);
            has_failed.store(true, Ordering::Relaxed);
            TestCaseError::fail(why)
        })
    });
    match result {
        Ok(()) => tally.into_inner(),
        Err(TestError::Fail(why, steps)) => {
            panic!("DULY_MODEL_SEED={seed}, after {} cases\n{why}\nsteps: {steps:#?}", number.get())
        }
        Err(abort) => panic!("DULY_MODEL_SEED={seed}: {abort}"),
    }
}
