use proptest::prelude::*;

use super::*;

fn seconds(list: &[u64]) -> Vec<Millis> {
    list.iter().map(|&s| Millis::from_secs(s)).collect()
}

fn waits(policy: &RetryPolicy, count: u32) -> Vec<Millis> {
    (1..=count).map(|failures| policy.delay(failures, 7)).collect()
}

#[test]
fn six_runs_by_default_after_5_10_15_20_25_seconds() {
    let policy = RetryPolicy::default();
    let mut runs = 1;
    let mut waited = Vec::new();
    while let Decision::RetryAfter(after) = decide(&policy, runs, DEFAULT_MAX_RETRIES, 0) {
        waited.push(after);
        runs += 1;
    }
    assert_eq!(runs, 6);
    assert_eq!(waited, seconds(&[5, 10, 15, 20, 25]));
}

#[test]
fn each_policy_waits_as_it_says() {
    let exponential = |base, factor, cap| RetryPolicy::Exponential {
        base: Millis::from_secs(base),
        factor,
        cap: Millis::from_secs(cap),
        jitter: false,
    };
    let list = RetryPolicy::List { delays: seconds(&[1, 60]) };
    for (policy, expected) in [
        (RetryPolicy::Fixed { delay: Millis::from_secs(3) }, [3, 3, 3, 3, 3]),
        (RetryPolicy::Linear { step: Millis::ZERO }, [0, 0, 0, 0, 0]),
        (exponential(1, 2.0, 10), [1, 2, 4, 8, 10]),
        (exponential(2, 3.0, 1000), [2, 6, 18, 54, 162]),
        (exponential(7, 1.0, 1000), [7, 7, 7, 7, 7]),
        (exponential(0, 2.0, 10), [0, 0, 0, 0, 0]),
        (list, [1, 60, 60, 60, 60]),
    ] {
        assert_eq!(waits(&policy, 5), seconds(&expected), "{policy:?}");
    }
}

#[test]
fn no_retries_means_one_run() {
    assert_eq!(decide(&RetryPolicy::default(), 1, 0, 0), Decision::Failed);
}

#[test]
fn huge_numbers_neither_overflow_nor_take_long() {
    let policies = [
        RetryPolicy::Linear { step: MAX_DELAY },
        RetryPolicy::Exponential { base: Millis::new(1), factor: 1.0, cap: MAX_DELAY, jitter: true },
        RetryPolicy::Exponential { base: Millis::new(1), factor: f64::NAN, cap: MAX_DELAY, jitter: false },
        RetryPolicy::Exponential { base: MAX_DELAY, factor: f64::INFINITY, cap: Millis::new(u64::MAX), jitter: false },
        RetryPolicy::List { delays: Vec::new() },
    ];
    for policy in policies {
        assert!(policy.delay(u32::MAX, u64::MAX) <= MAX_DELAY, "{policy:?}");
        assert!(policy.delay(0, 0) <= MAX_DELAY, "{policy:?}");
    }
}

#[test]
fn a_wait_takes_no_longer_to_compute_after_more_failures() {
    // One product a failure would be four thousand million of them, each far below the cap.
    let slow = RetryPolicy::Exponential {
        base: Millis::new(1),
        factor: 1.000_000_000_000_000_2,
        cap: MAX_DELAY,
        jitter: false,
    };
    assert!(slow.check().is_ok());
    for _ in 0..10_000 {
        assert_eq!(slow.delay(u32::MAX, 0), LEAST_PAUSE, "it has grown by a millionth");
    }
}

#[test]
fn many_failures_are_not_retried_without_a_pause() {
    let at_once = RetryPolicy::Fixed { delay: Millis::ZERO };
    assert_eq!(waits(&at_once, 10), vec![Millis::ZERO; 10]);
    assert_eq!(decide(&at_once, 11, u32::MAX, 0), Decision::RetryAfter(LEAST_PAUSE));
    let asked = Outcome::Retry { after: Some(Millis::ZERO), counted: true };
    let next = |attempts| asked.next(&RetryPolicy::default(), attempts, u32::MAX, 0);
    assert_eq!(next(9), Next::RetryAfter { after: Millis::ZERO, attempts: 10 });
    assert_eq!(next(10), Next::RetryAfter { after: LEAST_PAUSE, attempts: 11 });
    let drawn = RetryPolicy::Exponential { base: Millis::new(1), factor: 1.0, cap: Millis::new(1), jitter: true };
    assert_eq!(drawn.delay(11, 3), LEAST_PAUSE);
}

#[test]
fn handlers_overrule_the_policy() {
    let policy = RetryPolicy::default();
    let minute = Millis::from_secs(60);
    let next = |outcome: Outcome, attempts| outcome.next(&policy, attempts, 5, 0);
    assert_eq!(next(Outcome::Done, 3), Next::Ack);
    assert_eq!(next(Outcome::FailNow, 0), Next::Failed { attempts: 1 });
    assert_eq!(next(Outcome::Release { after: minute, counted: false }, 9), Next::ReleaseAfter(minute));
    let counted = Outcome::Release { after: minute, counted: true };
    assert_eq!(next(counted, 9), Next::RetryAfter { after: minute, attempts: 10 });
    assert_eq!(next(counted, u32::MAX), Next::RetryAfter { after: minute, attempts: u32::MAX });
    let at_once = Outcome::Release { after: Millis::ZERO, counted: true };
    assert_eq!(next(at_once, 9), Next::RetryAfter { after: Millis::ZERO, attempts: 10 });
    assert_eq!(next(at_once, 10), Next::RetryAfter { after: Millis::from_secs(1), attempts: 11 });
    let asked = Outcome::Retry { after: Some(minute), counted: true };
    assert_eq!(next(asked, 4), Next::RetryAfter { after: minute, attempts: 5 });
    assert_eq!(next(asked, 5), Next::Failed { attempts: 6 });
    let uncounted = Outcome::Retry { after: None, counted: false };
    assert_eq!(next(uncounted, 5), Next::RetryAfter { after: Millis::from_secs(30), attempts: 5 });
    assert_eq!(next(Outcome::FAILURE, 0), Next::RetryAfter { after: Millis::from_secs(5), attempts: 1 });
}

#[test]
fn the_wire_form_is_short_and_comes_back() {
    let half = Millis::new(500);
    for (policy, wire) in [
        (RetryPolicy::default(), r#"{"linear":{"step":5}}"#),
        (RetryPolicy::Fixed { delay: half }, r#"{"fixed":{"delay":0.5}}"#),
        (
            RetryPolicy::Exponential { base: half, factor: 2.0, cap: Millis::from_secs(60), jitter: false },
            r#"{"exponential":{"base":0.5,"cap":60}}"#,
        ),
        (
            RetryPolicy::Exponential { base: half, factor: 1.5, cap: Millis::from_secs(60), jitter: true },
            r#"{"exponential":{"base":0.5,"factor":1.5,"cap":60,"jitter":true}}"#,
        ),
        (RetryPolicy::List { delays: seconds(&[1, 60]) }, r#"{"list":{"delays":[1,60]}}"#),
    ] {
        assert_eq!(serde_json::to_string(&policy).unwrap(), wire);
        assert_eq!(serde_json::from_str::<RetryPolicy>(wire).unwrap(), policy);
    }
}

#[test]
fn senseless_policies_are_refused() {
    let second = Millis::from_secs(1);
    let exponential = |base, factor, cap| RetryPolicy::Exponential { base, factor, cap, jitter: false };
    for policy in [
        RetryPolicy::List { delays: Vec::new() },
        RetryPolicy::List { delays: vec![second; 101] },
        RetryPolicy::Fixed { delay: Millis::new(MAX_DELAY.get() + 1) },
        exponential(second, 0.5, second),
        exponential(second, f64::NAN, second),
        exponential(second, 2.0, Millis::ZERO),
    ] {
        assert!(policy.check().is_err(), "{policy:?}");
    }
    assert!(RetryPolicy::default().check().is_ok());
}

fn any_policy() -> impl Strategy<Value = RetryPolicy> {
    let span = || (0..=MAX_DELAY.get()).prop_map(Millis::new);
    prop_oneof![
        span().prop_map(|step| RetryPolicy::Linear { step }),
        span().prop_map(|delay| RetryPolicy::Fixed { delay }),
        (span(), 1.0..1000.0_f64, span(), any::<bool>()).prop_map(|(a, factor, b, jitter)| {
            RetryPolicy::Exponential { base: a.min(b), factor, cap: a.max(b), jitter }
        }),
        prop::collection::vec(span(), 1..5).prop_map(|delays| RetryPolicy::List { delays }),
    ]
}

proptest! {
    #[test]
    fn a_wait_never_exceeds_its_cap(policy in any_policy(), failures: u32, seed: u64) {
        prop_assert!(policy.check().is_ok());
        let wait = policy.delay(failures, seed);
        prop_assert!(wait <= MAX_DELAY);
        if let RetryPolicy::Exponential { base, cap, jitter, .. } = policy {
            prop_assert!(wait <= cap.max(least_pause(failures)));
            prop_assert!(jitter || wait >= base);
        }
    }

    #[test]
    fn jitter_stays_within_the_plain_wait_and_repeats(
        base in 0..100_000_u64, factor in 1.0..4.0_f64, failures in 1..50_u32, seed: u64,
    ) {
        let with = |jitter| RetryPolicy::Exponential {
            base: Millis::new(base), factor, cap: Millis::from_secs(3600), jitter,
        };
        let drawn = with(true).delay(failures, seed);
        prop_assert!(drawn <= with(false).delay(failures, seed));
        prop_assert_eq!(drawn, with(true).delay(failures, seed));
    }

    #[test]
    fn a_job_never_runs_more_often_than_allowed(policy in any_policy(), max_retries in 0..200_u32, seed: u64) {
        let mut runs = 1;
        while let Decision::RetryAfter(_) = decide(&policy, runs, max_retries, seed) {
            runs += 1;
        }
        prop_assert_eq!(runs, max_retries + 1);
    }

    #[test]
    fn the_wire_form_of_any_policy_comes_back(policy in any_policy()) {
        let wire = serde_json::to_string(&policy).unwrap();
        let back: RetryPolicy = serde_json::from_str(&wire).unwrap();
        let exactly_equal = back == policy;
        // serde_json reads the last bit of a long float only with `float_roundtrip`; factors are short in practice.
        let nearly = matches!((&back, &policy), (RetryPolicy::Exponential { .. }, RetryPolicy::Exponential { .. }));
        prop_assert!(exactly_equal || nearly);
    }
}

#[test]
fn jitter_is_spread_evenly() {
    let policy = RetryPolicy::Exponential {
        base: Millis::from_secs(100),
        factor: 2.0,
        cap: Millis::from_secs(100),
        jitter: true,
    };
    let mut buckets = [0_u32; 10];
    for seed in 0..10_000 {
        let index = usize::try_from(policy.delay(1, seed).get() * 10 / 100_001).unwrap();
        buckets[index] += 1;
    }
    assert!(buckets.iter().all(|&count| (850..1150).contains(&count)), "{buckets:?}");
}

#[test]
fn a_failure_is_what_its_handler_wants_unless_that_contradicts_itself() {
    let after = Some(Millis::from_secs(3));
    let table = [
        ((None, true, false), Ok(Outcome::FAILURE)),
        ((after, true, false), Ok(Outcome::Retry { after, counted: true })),
        ((after, false, false), Ok(Outcome::Retry { after, counted: false })),
        ((None, true, true), Ok(Outcome::FailNow)),
        ((after, true, true), Err(())),
        ((None, false, true), Err(())),
    ];
    for ((after, counted, is_final), wanted) in table {
        assert_eq!(Outcome::failure(after, counted, is_final).map_err(|_| ()), wanted);
    }
}

#[test]
fn only_a_failure_for_good_is_the_last_and_only_what_comes_back_has_a_wait() {
    let after = Millis::from_secs(3);
    let table = [
        (Next::Ack, false, None),
        (Next::RetryAfter { after, attempts: 2 }, false, Some(after)),
        (Next::Failed { attempts: 2 }, true, None),
        (Next::ReleaseAfter(after), false, Some(after)),
    ];
    for (next, is_last, wait) in table {
        assert_eq!((next.is_last(), next.wait()), (is_last, wait));
    }
}
