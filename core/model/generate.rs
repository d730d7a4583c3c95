//! Random steps. A step says what somebody wants in terms that always make sense (the third job known, the lease granted
//! last); `world.rs` makes commands of it. So a shrunk sequence is as sensible as the one that failed.

use proptest::prelude::*;
use proptest::sample::select;

use crate::script::{IfDuplicate, Verb};

use super::limits::Limit;

/// Who calls: few, so that they meet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who {
    pub(super) client: usize,
    pub(super) fate: Fate,
    pub(super) renew: bool,
    pub(super) knows: Knows,
}

/// How a call ends for its client. Whatever it is, copies may still come ([`Step::Resend`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// Executed at once and answered some calls later, which go through other slots.
    Slow,
    /// Executed, and given up: its answer is lost.
    LostAnswer,
    /// Given up before it has reached the server.
    LostRequest,
}

/// The levels that a caller passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knows {
    /// What it used or was told.
    Learnt,
    All,
    /// Only what this call needs.
    Little,
}

/// A job: one of those that users name, or one that was pushed.
pub(super) type Pick = usize;

#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Now,
    After(u64),
    /// Milliseconds before (negative) or after the clock.
    At(i64),
}

#[derive(Debug, Clone)]
pub(super) struct NewRecord {
    pub(super) level: u8,
    pub(super) max_retries: u64,
    pub(super) key: Option<&'static str>,
    pub(super) name: Option<&'static str>,
    pub(super) padding: usize,
    /// How often it has failed, where an import says so.
    pub(super) failures: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) enum Deed {
    Ack,
    AckWith(&'static str),
    Back { verb: Verb, delay_ms: u64, error: &'static str, rewrite: bool },
}

/// The token that goes with an outcome. A wrong one is never one that the job may have later: with that the outcome would
/// be its holder's, yet say the key of an earlier job of this id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Granted,
    Smaller,
    Larger,
}

#[derive(Debug, Clone)]
pub(super) struct Ending {
    /// Counted back from the lease granted last.
    pub(super) lease: usize,
    pub(super) token: Token,
    pub(super) deed: Deed,
}

#[derive(Debug, Clone)]
pub(super) enum Endings {
    Some(Vec<Ending>),
    /// Of all jobs that the last reserve granted.
    OfLastBatch(Deed),
}

#[derive(Debug, Clone)]
pub(super) enum Names {
    Ids(Vec<Pick>),
    Keys(Vec<&'static str>),
    /// All jobs that were pushed last in one call.
    LastPushed,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Advance(u64),
    AdvanceMicros(u64),
    /// Waiting workers take what is in the wake list.
    TakeWakes,
    /// The server's clock is set back.
    SetBack(u64),
    Push {
        who: Who,
        count: usize,
        record: NewRecord,
        when: When,
    },
    PushUnique {
        who: Who,
        if_duplicate: IfDuplicate,
        items: Vec<(Pick, NewRecord, When)>,
    },
    Reserve {
        who: Who,
        want: usize,
        lease_ms: u64,
        wait_ms: u64,
        max_bytes: usize,
        keeps_promise: bool,
        ahead: bool,
        spares: bool,
        endings: Endings,
    },
    Settle {
        who: Who,
        endings: Endings,
    },
    Extend {
        lease_ms: u64,
        leases: Vec<(usize, Token)>,
    },
    Cancel {
        who: Who,
        only: &'static str,
        names: Names,
    },
    Reschedule {
        who: Who,
        by_key: Option<&'static str>,
        pick: Pick,
        when: When,
    },
    Requeue {
        who: Who,
        picks: Vec<Pick>,
        all_failed: bool,
    },
    Purge {
        who: Who,
        state: &'static str,
        cap: usize,
        /// Only those with a score up to so many milliseconds ago.
        asked_ago: Option<u64>,
    },
    Promote {
        who: Who,
        cap: usize,
    },
    Reclaim {
        who: Who,
        cap: usize,
    },
    Pause {
        who: Who,
        pause: bool,
    },
    Configure {
        who: Who,
        failed_max: u64,
        failed_age_ms: u64,
    },
    Limit {
        who: Who,
        limits: Option<Limit>,
        names: Vec<(&'static str, Limit)>,
    },
    Counts,
    Peek {
        state: &'static str,
        offset: usize,
        limit: usize,
    },
    Find {
        by_key: Option<&'static str>,
        pick: Pick,
    },
    Beat {
        who: Who,
        worker: usize,
        life_ms: u64,
    },
    /// Of the claims that were ever made, so also with old ones: which were heard of, which are kept, and which are
    /// given back.
    Hear {
        who: Who,
        most: usize,
        max_bytes: usize,
        heard: Vec<usize>,
        kept: Vec<usize>,
        given_back: Vec<usize>,
    },
    Alive,
    Progress {
        lease: usize,
        token: Token,
        fraction: &'static str,
        text: &'static str,
    },
    ProgressOf {
        leases: Vec<usize>,
    },
    /// Somebody waits for what a job leaves.
    Await {
        pick: Pick,
    },
    WakeWaiters {
        pick: Pick,
    },
    /// An earlier call, exactly as it was sent.
    Resend {
        back: usize,
    },
    /// The last call that its client gave up arrives.
    ResendGivenUp,
    /// The same request anew: another number, perhaps from another slot.
    Repeat {
        back: usize,
        who: Who,
    },
    /// The remembered calls of a client come near the end of their lifetime.
    AgeCalls {
        client: usize,
    },
    /// The worker forgets its leases, and so does not settle them.
    Crash {
        client: usize,
    },
    LoseMeta,
    /// Somebody wrote the queue in a newer format; nothing works until that is undone.
    NewerFormat {
        who: Who,
    },
}

fn who() -> impl Strategy<Value = Who> {
    let knows = prop_oneof![8 => Just(Knows::Learnt), 2 => Just(Knows::All), 1 => Just(Knows::Little)];
    let fate = prop_oneof![
        10 => Just(Fate::Answered),
        4 => Just(Fate::Slow),
        1 => Just(Fate::LostAnswer),
        1 => Just(Fate::LostRequest),
    ];
    (0..2_usize, fate, prop::bool::weighted(0.2), knows).prop_map(|(client, fate, renew, knows)| Who {
        client,
        fate,
        renew,
        knows,
    })
}

fn record() -> impl Strategy<Value = NewRecord> {
    let level = prop_oneof![5 => Just(5_u8), 1 => Just(0), 2 => Just(3), 1 => Just(9)];
    let max_retries = prop_oneof![2 => Just(5_u64), 2 => Just(0), 1 => Just(1)];
    let key = prop_oneof![4 => Just(None), 3 => Just(Some("k")), 1 => Just(Some("k;2{"))];
    let name = prop_oneof![3 => Just(None), 3 => Just(Some("mail")), 1 => Just(Some("n;2{")), 1 => Just(Some("other"))];
    let failures = prop::option::weighted(0.15, 0..3_u64);
    let all = (level, max_retries, key, name, select(vec![0_usize, 0, 40]), failures);
    all.prop_map(|(level, max_retries, key, name, padding, failures)| NewRecord {
        level,
        max_retries,
        key,
        name,
        padding,
        failures,
    })
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        4 => Just(When::Now),
        3 => select(vec![0, 1, 10, 100, 1000]).prop_map(When::After),
        2 => select(vec![-5, 0, 1, 10, 500]).prop_map(When::At),
    ]
}

fn key() -> impl Strategy<Value = &'static str> {
    select(vec!["k", "k", "k;2{", "none"])
}

fn by_key() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::weighted(0.3, key())
}

fn deed() -> impl Strategy<Value = Deed> {
    let verb = select(vec![
        Verb::Retry,
        Verb::Again,
        Verb::Release,
        Verb::Failed,
        Verb::Unheard,
        Verb::Unstarted,
        Verb::Expired,
        Verb::Start,
    ]);
    let delay_ms = select(vec![0, 0, 1, 10, 100]);
    let back = (verb, delay_ms, select(vec!["", "boom", "7;8;odd"]), prop::bool::weighted(0.2));
    prop_oneof![
        2 => Just(Deed::Ack),
        1 => select(vec!["null", "[1]"]).prop_map(Deed::AckWith),
        3 => back.prop_map(|(verb, delay_ms, error, rewrite)| Deed::Back { verb, delay_ms, error, rewrite }),
    ]
}

fn lease() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..2_usize, 1 => 0..8_usize]
}

fn token() -> impl Strategy<Value = Token> {
    prop_oneof![18 => Just(Token::Granted), 1 => Just(Token::Smaller), 1 => Just(Token::Larger)]
}

fn endings() -> impl Strategy<Value = Endings> {
    let one = (lease(), token(), deed()).prop_map(|(lease, token, deed)| Ending { lease, token, deed });
    prop_oneof![
        3 => prop::collection::vec(one, 1..4).prop_map(Endings::Some),
        1 => deed().prop_map(Endings::OfLastBatch),
    ]
}

fn reserve() -> impl Strategy<Value = Step> {
    let want = prop_oneof![6 => 1..4_usize, 1 => Just(0), 1 => Just(60), 1 => Just(300)];
    let lease_ms = select(vec![1_u64, 10, 100, 1000]);
    let wait_ms = select(vec![0_u64, 5, 200]);
    let max_bytes = prop_oneof![4 => Just(4 << 20), 1 => Just(1), 2 => Just(70)];
    let handed_along = prop_oneof![3 => Just(Endings::Some(Vec::new())), 2 => endings()];
    (
        who(),
        want,
        lease_ms,
        wait_ms,
        max_bytes,
        prop::bool::weighted(0.6),
        handed_along,
        (any::<bool>(), prop::bool::weighted(0.2)),
    )
        .prop_map(|(who, want, lease_ms, wait_ms, max_bytes, keeps_promise, endings, (ahead, spares))| {
            Step::Reserve { who, want, lease_ms, wait_ms, max_bytes, keeps_promise, ahead, spares, endings }
        })
}

fn names() -> impl Strategy<Value = Names> {
    prop_oneof![
        4 => prop::collection::vec(0..8_usize, 1..3).prop_map(Names::Ids),
        2 => prop::collection::vec(key(), 1..3).prop_map(Names::Keys),
        1 => Just(Names::LastPushed),
    ]
}

/// A worker that would wait a second for a job, and keeps its promise to come back.
fn wait(want: usize) -> Step {
    let who = Who { client: 0, fate: Fate::Answered, renew: false, knows: Knows::Learnt };
    Step::Reserve {
        who,
        want,
        lease_ms: 10,
        wait_ms: 1000,
        max_bytes: 1 << 20,
        keeps_promise: true,
        ahead: false,
        spares: false,
        endings: Endings::Some(Vec::new()),
    }
}

/// Steps that lead where single ones seldom come: jobs that run, and more jobs than one call may touch.
fn phrase() -> impl Strategy<Value = Vec<Step>> {
    let me = Who { client: 0, fate: Fate::Answered, renew: false, knows: Knows::Learnt };
    let plain = NewRecord { level: 5, max_retries: 0, key: None, name: None, padding: 0, failures: None };
    let take = move |want, lease_ms| Step::Reserve {
        who: me,
        want,
        lease_ms,
        wait_ms: 0,
        max_bytes: 4 << 20,
        keeps_promise: false,
        ahead: false,
        spares: false,
        endings: Endings::Some(Vec::new()),
    };
    let settle = |who, deed| Step::Settle { who, endings: Endings::OfLastBatch(deed) };
    let fail = Deed::Back { verb: Verb::Failed, delay_ms: 0, error: "", rewrite: false };
    let push = move |count, when| Step::Push { who: me, count, record: plain.clone(), when };
    let many = (105..230_usize, select(vec![0_usize, 1, 2, 3, 4]), 0..4_u64);
    let many = many.prop_map(move |(count, kind, limit)| match kind {
        0 => vec![push(count, When::Now), take(300, 10), Step::Advance(11), take(1, 10), Step::Advance(11)],
        // More than one reserve promotes, however many levels are in use.
        1 => vec![push(count + 900, When::After(10)), Step::Advance(11), take(1, 100)],
        2 => vec![
            push(count, When::Now),
            Step::Cancel { who: me, only: "", names: Names::LastPushed },
            push(1, When::Now),
            take(1, 10),
        ],
        3 => vec![
            Step::Configure { who: me, failed_max: limit, failed_age_ms: 1_000_000 },
            push(count, When::Now),
            take(300, 100),
            settle(me, fail.clone()),
        ],
        _ => vec![
            push(count, When::Now),
            take(300, 100),
            settle(me, fail.clone()),
            Step::Advance(100),
            Step::Configure { who: me, failed_max: 10_000, failed_age_ms: 50 },
            push(1, When::Now),
            take(1, 100),
            settle(me, fail.clone()),
        ],
    });
    let item = (0..4_usize, record(), when());
    let run = (who(), item, reserve(), endings(), 0..8_usize).prop_map(|(who, item, reserve, endings, pick)| {
        let (push, result) =
            (Step::PushUnique { who, if_duplicate: IfDuplicate::Keep, items: vec![item] }, Step::Await { pick });
        vec![push, result.clone(), reserve, Step::Settle { who, endings }, result]
    });
    let again = (reserve(), who(), deed(), 1..20_u64).prop_map(move |(reserve, who, deed, ms)| {
        vec![reserve.clone(), settle(who, deed), Step::Advance(ms), reserve, Step::Resend { back: 0 }]
    });
    let settled = (reserve(), deed(), 1..20_u64).prop_map(move |(reserve, deed, ms)| {
        let look = Step::ProgressOf { leases: vec![0] };
        let note = Step::Progress { lease: 0, token: Token::Granted, fraction: "0.5", text: "so far" };
        vec![reserve.clone(), note, look.clone(), settle(me, deed), Step::Advance(ms), reserve, look]
    });
    let limited = (limits(), record(), select(vec![3, 5, 150]), 1..20_u64, deed()).prop_map(
        move |(limits, record, count, ms, deed)| {
            vec![
                Step::Limit { who: me, limits, names: Vec::new() },
                Step::Push { who: me, count, record, when: When::Now },
                wait(2),
                wait(300),
                Step::TakeWakes,
                settle(me, deed.clone()),
                wait(0),
                Step::Advance(ms),
                wait(1),
                wait(1),
            ]
        },
    );
    let with_key = move |pick, max_retries| {
        let record = NewRecord { level: 5, max_retries, key: Some("k"), name: None, padding: 0, failures: None };
        Step::PushUnique { who: me, if_duplicate: IfDuplicate::Keep, items: vec![(pick, record, When::Now)] }
    };
    let fail_now = Deed::Back { verb: Verb::Failed, delay_ms: 0, error: "", rewrite: false };
    let last = prop_oneof![
        Just(Step::Cancel { who: me, only: "", names: Names::Ids(vec![0]) }),
        Just(Step::Purge { who: me, state: "failed", cap: 9, asked_ago: None }),
        Just(Step::Requeue { who: me, picks: vec![0], all_failed: false }),
    ];
    let two_of_one_key = last
        .prop_map(move |last| vec![with_key(0, 0), take(300, 100), settle(me, fail_now.clone()), with_key(1, 5), last]);
    let (run, again, settled, limited, by_name, died) =
        (run.boxed(), again.boxed(), settled.boxed(), limited.boxed(), by_name().boxed(), died().boxed()); // or the stack of a test thread is too small
    prop_oneof![1 => many, 8 => died, 12 => run, 12 => again, 6 => settled, 6 => limited, 8 => by_name, 2 => two_of_one_key]
}

/// Workers that fetch ahead, say what starts, and die.
fn died() -> impl Strategy<Value = Vec<Step>> {
    let me = Who { client: 0, fate: Fate::Answered, renew: false, knows: Knows::Learnt };
    let leases = || prop::collection::vec(0..4_usize, 0..4);
    let outage = || (any::<bool>(), leases());
    (0..3_u64, leases(), leases(), leases(), any::<bool>(), deed(), select(vec![9, 10]), outage()).prop_map(
        move |(max_retries, first, second, third, ahead, deed, ms, outage)| {
            let record = NewRecord { level: 5, max_retries, key: None, name: None, padding: 0, failures: None };
            let take_or_spare = |ahead, spares| Step::Reserve {
                who: me,
                want: 4,
                lease_ms: 10,
                wait_ms: 0,
                max_bytes: 4 << 20,
                keeps_promise: false,
                ahead,
                spares,
                endings: Endings::Some(Vec::new()),
            };
            let take = |ahead| take_or_spare(ahead, false);
            let start = |leases: &[usize]| {
                let deed = || Deed::Back { verb: Verb::Start, delay_ms: 0, error: "", rewrite: false };
                let start = |&lease: &usize| Ending { lease, token: Token::Granted, deed: deed() };
                Step::Settle { who: me, endings: Endings::Some(leases.iter().map(start).collect()) }
            };
            let dies = || Step::Advance(10);
            let hear = |most, heard: &[usize], kept: &[usize], given_back: &[usize]| {
                let (heard, kept, given_back) = (heard.to_vec(), kept.to_vec(), given_back.to_vec());
                Step::Hear { who: me, most, max_bytes: 4000, heard, kept, given_back }
            };
            vec![
                Step::Push { who: me, count: 3, record, when: When::Now },
                take(true),
                start(&first),
                dies(),
                take_or_spare(ahead, outage.0),
                Step::Extend { lease_ms: 10, leases: outage.1.iter().map(|&lease| (lease, Token::Granted)).collect() },
                take(ahead),
                start(&second),
                Step::Resend { back: 0 },
                Step::Settle {
                    who: me,
                    endings: Endings::Some(vec![Ending { lease: 0, token: Token::Granted, deed }]),
                },
                dies(),
                take(true),
                Step::Advance(ms),
                start(&third),
                Step::Reclaim { who: me, cap: 9 },
                // Who hears of those that failed now, and what becomes of his claims.
                hear(2, &[], &[], &[]),
                hear(0, &[], &[0], &[1]),
                hear(1, &[0], &[], &[1]),
            ]
        },
    )
}

/// Jobs of a name with a limit come and go, and the limits change.
fn by_name() -> impl Strategy<Value = Vec<Step>> {
    let me = Who { client: 0, fate: Fate::Answered, renew: false, knows: Knows::Learnt };
    let named = move |name, count| {
        let record = NewRecord { level: 5, max_retries: 5, key: None, name, padding: 0, failures: None };
        Step::Push { who: me, count, record, when: When::Now }
    };
    (names_limits(), names_limits(), select(vec![2, 5, 150]), reserve(), deed(), 0..5_usize).prop_map(
        move |(before, after, count, reserve, deed, last)| {
            let limit = |names| Step::Limit { who: me, limits: None, names };
            let last = match last {
                0 => Step::Cancel { who: me, only: "", names: Names::LastPushed },
                1 => Step::Purge { who: me, state: "ready", cap: 3, asked_ago: None },
                2 => Step::LoseMeta,
                3 => Step::Peek { state: "ready", offset: 1, limit: 5 },
                _ => Step::Advance(10),
            };
            vec![
                limit(before),
                named(Some("mail"), count),
                wait(3),
                named(Some("other"), 2),
                named(Some("mail"), 2),
                wait(3),
                Step::TakeWakes,
                Step::Settle { who: me, endings: Endings::OfLastBatch(deed) },
                last,
                limit(after),
                wait(2),
                Step::TakeWakes,
                wait(1),
                reserve,
            ]
        },
    )
}

/// Steps, each as often as it is interesting.
pub(super) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let some = prop_oneof![8 => step().prop_map(|step| vec![step]), 1 => phrase()];
    prop::collection::vec(some, 1..most).prop_map(|phrases| phrases.into_iter().flatten().collect())
}

/// A few jobs in about as much time as a step advances the clock.
const RATES: [(u64, u64); 5] = [(1, 10_000), (2, 7_000), (3, 100_000), (7, 1_000_000), (1, 86_400_000_000)];

/// Limit that are met: few places, and such rates.
fn limits() -> impl Strategy<Value = Option<Limit>> {
    let rate = prop_oneof![2 => Just((0, 0)), 5 => select(RATES.to_vec())];
    let some = limits_of(vec![0, 0, 1, 2, 5], rate);
    prop_oneof![3 => some.prop_map(|limits| Some(limits).filter(|limits| !limits.is_none())), 1 => Just(None)]
}

fn limits_of(most: Vec<u64>, rate: impl Strategy<Value = (u64, u64)>) -> impl Strategy<Value = Limit> {
    (select(most), rate).prop_map(|(concurrency, (jobs, per_us))| Limit { concurrency, jobs, per_us })
}

fn names_limits() -> impl Strategy<Value = Vec<(&'static str, Limit)>> {
    let one = |name, most: Vec<u64>| {
        let both = limits_of(most.clone(), select(RATES.to_vec()));
        let limits = prop_oneof![
            3 => limits_of(most, Just((0, 0))),
            2 => limits_of(vec![0], select(RATES.to_vec())),
            1 => both,
        ];
        prop::option::weighted(0.6, (Just(name), limits)).boxed()
    };
    (one("mail", vec![1, 1, 2, 3]), one("n;2{", vec![1, 2]), one("none", vec![1]), one("other", vec![1, 100]))
        .prop_map(|(first, second, third, fourth)| [first, second, third, fourth].into_iter().flatten().collect())
}

fn step() -> impl Strategy<Value = Step> {
    let count = prop_oneof![30 => 1..4_usize, 1 => 105..230_usize];
    let cap = prop_oneof![3 => 1..4_usize, 1 => Just(1000)];
    let if_duplicate = select(vec![IfDuplicate::Refuse, IfDuplicate::Keep, IfDuplicate::Replace, IfDuplicate::Replace]);
    let item = (0..4_usize, record(), when());
    let moving = prop_oneof![
        9 => prop_oneof![3 => Just(1), 3 => Just(10), 2 => Just(100), 1 => Just(1500)].prop_map(Step::Advance),
        4 => select(vec![1, 400, 999]).prop_map(Step::AdvanceMicros),
        8 => Just(Step::TakeWakes),
        1 => select(vec![1, 50, 50, 5000]).prop_map(Step::SetBack),
        10 => (who(), count, record(), when())
            .prop_map(|(who, count, record, when)| Step::Push { who, count, record, when }),
        16 => (who(), if_duplicate, prop::collection::vec(item, 1..4))
            .prop_map(|(who, if_duplicate, items)| Step::PushUnique { who, if_duplicate, items }),
        28 => reserve(),
        18 => (who(), endings()).prop_map(|(who, endings)| Step::Settle { who, endings }),
        4 => (lease(), token(), select(vec!["0", "0.25", "1"]), select(vec!["", "half; way"]))
            .prop_map(|(lease, token, fraction, text)| Step::Progress { lease, token, fraction, text }),
        4 => (select(vec![1, 100]), prop::collection::vec((lease(), token()), 1..4))
            .prop_map(|(lease_ms, leases)| Step::Extend { lease_ms, leases }),
    ];
    let picks = || prop::collection::vec(0..8_usize, 0..3);
    let operating = prop_oneof![
        7 => (who(), select(vec!["", "", "delayed", "delayed ready", "reserved", "failed"]), names())
            .prop_map(|(who, only, names)| Step::Cancel { who, only, names }),
        6 => (who(), by_key(), 0..8_usize, when())
            .prop_map(|(who, by_key, pick, when)| Step::Reschedule { who, by_key, pick, when }),
        4 => (who(), prop::collection::vec(0..8_usize, 1..3), any::<bool>())
            .prop_map(|(who, picks, all_failed)| Step::Requeue { who, picks, all_failed }),
        3 => (who(), select(vec!["ready", "delayed", "reserved", "failed"]), cap.clone(), select(vec![None, Some(0), Some(1)]))
            .prop_map(|(who, state, cap, ago)| Step::Purge { who, state, cap, asked_ago: ago.filter(|_| state == "failed") }),
        3 => (who(), cap.clone()).prop_map(|(who, cap)| Step::Promote { who, cap }),
        3 => (who(), cap).prop_map(|(who, cap)| Step::Reclaim { who, cap }),
        2 => (who(), prop::bool::weighted(0.4)).prop_map(|(who, pause)| Step::Pause { who, pause }),
        2 => (who(), select(vec![0, 1, 2, 10_000]), select(vec![20, 200, 1_000_000]))
            .prop_map(|(who, failed_max, failed_age_ms)| Step::Configure { who, failed_max, failed_age_ms }),
        4 => (who(), limits(), names_limits()).prop_map(|(who, limits, names)| Step::Limit { who, limits, names }),
        4 => (who(), names_limits()).prop_map(|(who, names)| Step::Limit { who, limits: None, names }),
        6 => (who(), select(vec![0, 1, 2, 100]), select(vec![1, 4000]), picks(), picks(), picks()).prop_map(
            |(who, most, max_bytes, heard, kept, given_back)| {
                Step::Hear { who, most, max_bytes, heard, kept, given_back }
            }),
        4 => (who(), 0..3_usize, select(vec![0, 1, 50, 1000]))
            .prop_map(|(who, worker, life_ms)| Step::Beat { who, worker, life_ms }),
    ];
    let looking = prop_oneof![
        Just(Step::Counts),
        (select(vec!["ready", "delayed", "reserved", "failed"]), 0..4_usize, select(vec![1, 2, 5, 300]))
            .prop_map(|(state, offset, limit)| Step::Peek { state, offset, limit }),
        (by_key(), 0..8_usize).prop_map(|(by_key, pick)| Step::Find { by_key, pick }),
        (0..8_usize).prop_map(|pick| Step::Await { pick }),
        (0..8_usize).prop_map(|pick| Step::WakeWaiters { pick }),
        Just(Step::Alive),
        prop::collection::vec(lease(), 1..4).prop_map(|leases| Step::ProgressOf { leases }),
    ];
    let failing = prop_oneof![
        12 => (0..6_usize).prop_map(|back| Step::Resend { back }),
        6 => (0..60_usize).prop_map(|back| Step::Resend { back }),
        4 => Just(Step::ResendGivenUp),
        8 => ((0..6_usize), who()).prop_map(|(back, who)| Step::Repeat { back, who }),
        2 => (0..2_usize).prop_map(|client| Step::AgeCalls { client }),
        1 => (0..2_usize).prop_map(|client| Step::Crash { client }),
        1 => Just(Step::LoseMeta),
        1 => who().prop_map(|who| Step::NewerFormat { who }),
    ];
    let (moving, operating) = (moving.boxed(), operating.boxed());
    prop_oneof![12 => moving, 4 => operating, 2 => looking, 4 => failing]
}
