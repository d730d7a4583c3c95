//! What must hold whatever strangers have written, tried with random texts: records, packages, replies, URLs.
//!
//! Each property is tried on 2,000 cases, the same ones each time. `PROPTEST_CASES` sets how many, `PROPTEST_RNG_SEED` which:
//! `make soak` asks for a million new ones. A failing run prints its seed and the smallest value that still fails.

#[path = "properties/reading.rs"]
mod reading;
#[path = "properties/replies.rs"]
mod replies;
#[path = "properties/seeds.rs"]
mod seeds;

use std::cell::{Cell, RefCell};
use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

pub(crate) use crate::checks::{Seen, note};

const DEFAULT_CASES: u32 = 2000;
const DEFAULT_SEED: u64 = 24301;

/// Tries the property on so many cases. What it must come across `sometimes`, or it proves less than it claims, is checked
/// when it has run through.
pub(crate) fn holds<S: Strategy<Value: Debug>>(
    values: &S,
    sometimes: &[&str],
    check: impl Fn(S::Value, &mut Seen) -> Result<(), TestCaseError>,
) {
    holds_in_batches(1, values, sometimes, check);
}

/// The same where a value has at least so many cases in it.
pub(crate) fn holds_in_batches<S: Strategy<Value: Debug>>(
    batch: u32,
    values: &S,
    sometimes: &[&str],
    check: impl Fn(S::Value, &mut Seen) -> Result<(), TestCaseError>,
) {
    let is_set = |variable| std::env::var_os(variable).is_some();
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if !is_set("PROPTEST_CASES") {
        config.cases = DEFAULT_CASES;
    }
    if !is_set("PROPTEST_RNG_SEED") {
        config.rng_seed = RngSeed::Fixed(DEFAULT_SEED);
    }
    let RngSeed::Fixed(seed) = config.rng_seed else { panic!("PROPTEST_RNG_SEED is no number") };
    let cases = config.cases;
    config.cases = cases.div_ceil(batch);
    let (all_seen, tried) = (RefCell::new(Seen::new()), Cell::new(0_u64));
    let result = TestRunner::new(config).run(values, |value| {
        tried.set(tried.get() + 1);
        // A panic is caught in the runner, and the next case needs the same cell.
        let mut news = Seen::new();
        check(value, &mut news)?;
        let mut all_seen = all_seen.borrow_mut();
        for (what, times) in news {
            *all_seen.entry(what).or_default() += times;
        }
        Ok(())
    });
    let events = all_seen.into_inner();
    println!("{} cases, PROPTEST_RNG_SEED={seed}: {events:?}", tried.get() * u64::from(batch));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, value)) => {
            panic!("PROPTEST_RNG_SEED={seed}, after {} values\n{why}\nsmallest: {value:#?}", tried.get())
        }
        Err(abort) => panic!("PROPTEST_RNG_SEED={seed}: {abort}"),
    }
    let missing: Vec<_> = sometimes.iter().filter(|what| !events.contains_key(**what)).collect();
    assert!(missing.is_empty() || cases < DEFAULT_CASES, "never seen in {cases} cases (seed {seed}): {missing:?}");
}

/// Words of a grammar in any order, and now and then a few bytes of anything.
pub(crate) fn soup(words: &'static [&'static str], most: usize) -> BoxedStrategy<Vec<u8>> {
    let word = prop_oneof![
        9 => select(words).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..4),
    ];
    vec(word, 0..=most).prop_map(|parts| parts.concat()).boxed()
}

/// The same bytes, or with a few spots cut out, overwritten or filled in.
pub(crate) fn damaged(
    whole: impl Strategy<Value = Vec<u8>> + 'static,
    words: &'static [&'static str],
) -> BoxedStrategy<Vec<u8>> {
    let edit = (any::<Index>(), 0..4_usize, soup(words, 1));
    let edits = prop_oneof![Just(Vec::new()), vec(edit, 1..4)];
    (whole, edits)
        .prop_map(|(mut bytes, edits)| {
            for (spot, cut, filling) in edits {
                let start = spot.index(bytes.len() + 1);
                let end = bytes.len().min(start + cut);
                bytes.splice(start..end, filling);
            }
            bytes
        })
        .boxed()
}
