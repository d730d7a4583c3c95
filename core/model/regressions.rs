//! Sequences that once failed, shortened, each with the name of what it taught.

use crate::script::{IfDuplicate, Verb};

use super::generate::{Deed, Ending, Endings, Fate, Knows, Names, NewRecord, Step, Token, When, Who};
use super::limits::Limit;
use super::server::Server;
use super::world::{self, Seen};

const ME: Who = Who { client: 0, fate: Fate::Answered, renew: false, knows: Knows::Learnt };
const PLAIN: NewRecord = NewRecord { level: 5, max_retries: 5, key: None, name: None, padding: 0, failures: None };
const MANY_BYTES: usize = 1 << 20;

fn holds(steps: &[Step]) {
    let result = world::run(&mut Server::start(), &mut Seen::new(), 0, steps);
    assert_eq!(result, Ok(()));
}

fn push(count: usize) -> Step {
    Step::Push { who: ME, count, record: PLAIN, when: When::Now }
}

fn reserve(want: usize, max_bytes: usize) -> Step {
    reserve_as(ME, want, max_bytes)
}

fn reserve_as(who: Who, want: usize, max_bytes: usize) -> Step {
    let endings = Endings::Some(Vec::new());
    Step::Reserve {
        who,
        want,
        lease_ms: 10,
        wait_ms: 0,
        max_bytes,
        keeps_promise: false,
        ahead: false,
        spares: false,
        endings,
    }
}

fn ending(lease: usize, deed: Deed) -> Ending {
    Ending { lease, token: Token::Granted, deed }
}

#[test]
fn an_ack_twice_in_one_call_is_counted_once() {
    let twice = Endings::Some(vec![ending(0, Deed::Ack), ending(0, Deed::Ack)]);
    holds(&[push(1), reserve(1, MANY_BYTES), Step::Settle { who: ME, endings: twice }]);
}

#[test]
fn a_cancelled_entry_does_not_hold_back_the_job_behind_it() {
    let cancel = Step::Cancel { who: ME, only: "", names: Names::LastPushed };
    let large = NewRecord { padding: 90, ..PLAIN };
    holds(&[push(1), cancel, Step::Push { who: ME, count: 1, record: large, when: When::Now }, reserve(2, 40)]);
}

#[test]
fn many_cancelled_jobs_do_not_send_the_worker_to_sleep() {
    let cancel = Step::Cancel { who: ME, only: "", names: Names::LastPushed };
    holds(&[push(150), cancel, push(1), reserve(1, MANY_BYTES), reserve(1, MANY_BYTES)]);
}

/// More than go in one call.
#[test]
fn very_many_cancelled_jobs_cost_a_few_calls() {
    let cancel = Step::Cancel { who: ME, only: "", names: Names::LastPushed };
    holds(&[push(1300), cancel, push(1), reserve(1, MANY_BYTES), reserve(1, MANY_BYTES), reserve(1, MANY_BYTES)]);
}

/// One of its entries goes with the head of the list, and the other one still does not count.
#[test]
fn a_job_that_came_again_twice_is_behind_both_its_entries() {
    let a = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Refuse, items: vec![(0, PLAIN, When::Now)] };
    let again = [
        Step::Reschedule { who: ME, by_key: None, pick: 0, when: When::After(5) },
        Step::Advance(5),
        Step::Promote { who: ME, cap: 9 },
    ];
    let steps = [vec![a, push(1)], again.to_vec(), again.to_vec(), vec![reserve(1, MANY_BYTES); 3]];
    holds(&steps.concat());
}

#[test]
fn a_page_behind_a_stale_entry_shows_the_job_that_came_again() {
    let a = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Refuse, items: vec![(0, PLAIN, When::Now)] };
    let later = Step::Reschedule { who: ME, by_key: None, pick: 0, when: When::After(5) };
    let promote = Step::Promote { who: ME, cap: 9 };
    let peek = Step::Peek { state: "ready", offset: 1, limit: 5 };
    holds(&[a, push(1), later, Step::Advance(5), promote, peek]);
}

#[test]
fn one_reserve_promotes_a_thousand_where_some_are_more_urgent() {
    let urgent = Step::Push { who: ME, count: 1, record: NewRecord { level: 0, ..PLAIN }, when: When::After(6) };
    let others = Step::Push { who: ME, count: 1100, record: PLAIN, when: When::After(5) };
    holds(&[others, urgent, Step::Advance(6), reserve(1, MANY_BYTES), reserve(1, MANY_BYTES)]);
}

#[test]
fn whoever_gives_back_its_promise_for_the_end_of_a_lease_wakes_one() {
    let other = Who { client: 1, ..ME };
    let wait = |lease_ms| Step::Reserve {
        who: ME,
        want: 1,
        lease_ms,
        wait_ms: 1000,
        max_bytes: MANY_BYTES,
        keeps_promise: true,
        ahead: false,
        spares: false,
        endings: Endings::Some(Vec::new()),
    };
    for lease_ms in [5, 10, 100] {
        let all = [push(1), reserve_as(other, 1, MANY_BYTES), wait(lease_ms), push(1), Step::TakeWakes, wait(lease_ms)];
        holds(&all);
    }
}

#[test]
fn leases_end_in_time_when_the_clock_is_set_back() {
    let long = |lease_ms| Step::Reserve {
        who: ME,
        want: 1,
        lease_ms,
        wait_ms: 0,
        max_bytes: MANY_BYTES,
        keeps_promise: false,
        ahead: false,
        spares: false,
        endings: Endings::Some(Vec::new()),
    };
    let extend = Step::Extend { lease_ms: 100, leases: vec![(0, Token::Granted)] };
    let start = [push(3), long(2000), long(3000), Step::SetBack(5000)];
    let later = [Step::Advance(2000), long(10), Step::SetBack(3000), long(10), Step::Advance(2000), long(10)];
    holds(&[&start[..], &later].concat());
    holds(&[&start[..], &[extend], &later].concat());
    holds(&[&start[..], &[Step::Reclaim { who: ME, cap: 9 }], &later].concat());
    // The clock comes up with the tokens, and is set back again.
    holds(&[&start[..], &[long(10), Step::Advance(4500), long(10), Step::Advance(600)], &start, &later].concat());
    // The same, and nobody looked while it did: a further step back, smaller than the first one, is seen.
    let up = |ms| [long(10), Step::Advance(ms), push(1), long(3000), Step::SetBack(4000), long(10)];
    holds(&[&start[..], &up(9000), &later].concat());
    // It is set back again while it comes up.
    let again = [Step::Advance(2500), long(10), Step::SetBack(1500), long(10), Step::SetBack(1200), long(10)];
    holds(&[&start[..], &[long(10)], &again, &later].concat());
}

/// Two workers claimed a failed job one after the other: what the first one says late is nothing to the second.
#[test]
fn an_old_claim_of_a_failed_job_changes_nothing() {
    let fail = Deed::Back { verb: Verb::Unheard, delay_ms: 0, error: "", rewrite: false };
    let settle = Step::Settle { who: ME, endings: Endings::Some(vec![ending(0, fail)]) };
    let say = |heard: Vec<usize>, kept: Vec<usize>, given_back: Vec<usize>| {
        let (most, max_bytes) = (100, MANY_BYTES);
        Step::Hear { who: ME, most, max_bytes, heard, kept, given_back }
    };
    let hear = |heard: Vec<usize>, kept: Vec<usize>| say(heard, kept, vec![]);
    let claimed_twice =
        [push(1), reserve(1, MANY_BYTES), settle, hear(vec![], vec![]), Step::Advance(50), hear(vec![], vec![])];
    // The claims from the newest on: 0 is the second worker's, 1 the first one's.
    holds(&[&claimed_twice[..], &[hear(vec![1], vec![]), hear(vec![0], vec![])]].concat());
    holds(&[&claimed_twice[..], &[Step::Advance(10), hear(vec![], vec![1]), hear(vec![], vec![0])]].concat());
    // Given back by the first one: nothing. By the second one: free at once, and once only.
    holds(&[&claimed_twice[..], &[say(vec![], vec![], vec![1])]].concat());
    holds(&[&claimed_twice[..], &[say(vec![], vec![], vec![0]), say(vec![], vec![], vec![1])]].concat());
}

/// Claims that end without a word: each job is then claimed alone, and the third time by nobody.
#[test]
fn hooks_whose_workers_die_are_given_up() {
    let fail = Deed::Back { verb: Verb::Unheard, delay_ms: 0, error: "", rewrite: false };
    let hear = |heard: Vec<usize>, kept: Vec<usize>| {
        let (most, max_bytes) = (100, MANY_BYTES);
        Step::Hear { who: ME, most, max_bytes, heard, kept, given_back: vec![] }
    };
    let settle = Step::Settle { who: ME, endings: Endings::OfLastBatch(fail) };
    let failed = |count| [push(count), reserve(count, MANY_BYTES), settle.clone()];
    let next = [Step::Advance(50), hear(vec![], vec![])];
    let on = vec![next.clone(); 9].concat();
    let first = [&failed(3)[..], &[hear(vec![], vec![])], &next].concat();
    let all = [&first[..], &on].concat();
    holds(&all);
    // They come before new ones. One that is heard of is forgotten.
    holds(&[&first[..], &failed(2), &next, &[hear(vec![0], vec![])]].concat());
    // Nobody who has a claim gets one that ended, unless it has waited for long.
    holds(&[&first[..], &[hear(vec![], vec![0])], &next].concat());
    let keeps = |ms| [Step::Advance(ms), hear(vec![], vec![0])];
    holds(&[&first[..], &keeps(300), &failed(1), &keeps(10)].concat());
    holds(&[&first[..], &keeps(420), &failed(1), &keeps(10)].concat());
    // The word that hooks are given up is said again until a worker has said it.
    holds(&[&all[..], &next, &[hear(vec![0, 1, 2], vec![])], &on].concat());
    holds(&[&first[..], &[hear(vec![0], vec![])], &on].concat());
    // The answer to a call that is sent again: its claims, as far as nobody else has them by then.
    let again = [Step::Resend { back: 0 }];
    holds(&[&failed(3)[..], &[hear(vec![], vec![])], &again, &next, &again].concat());
    holds(&[&all[..], &next, &again, &next, &again].concat());
    let other = Who { client: 1, ..ME };
    let (most, max_bytes, picks) = (100, MANY_BYTES, || vec![]);
    let others = Step::Hear { who: other, most, max_bytes, heard: picks(), kept: picks(), given_back: picks() };
    let theirs = [Step::Advance(50), others, Step::Resend { back: 1 }];
    holds(&[&failed(1)[..], &[hear(vec![], vec![])], &theirs].concat());
    // Who stops claims nothing, whatever has ended.
    let stops = Step::Hear { who: ME, most: 0, max_bytes: 1, heard: picks(), kept: picks(), given_back: picks() };
    holds(&[&failed(1)[..], &[hear(vec![], vec![]), Step::Advance(50), stops]].concat());
    // It left `failed` meanwhile, and comes back.
    let requeue = Step::Requeue { who: ME, picks: vec![], all_failed: true };
    holds(&[&first[..], &[requeue], &next, &[reserve(3, MANY_BYTES), settle.clone()], &on].concat());
}

/// One small job stands before large ones, of which a few fit into a reply.
#[test]
fn of_large_jobs_only_those_are_read_that_fit() {
    let item = |pick, padding, key| (pick, NewRecord { key, padding, ..PLAIN }, When::Now);
    let (few, keyed) = (120_000, [(0, Some("k")), (50_000, None), (50_000, None), (50_000, None)]);
    let items: Vec<_> = keyed.into_iter().map(|(padding, key)| item(9, padding, key)).collect();
    let all = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Refuse, items };
    let purge = |state| Step::Purge { who: ME, state, cap: 9, asked_ago: None };
    let fail = Deed::Back { verb: Verb::Failed, delay_ms: 0, error: "", rewrite: false };
    let failed = Step::Settle { who: ME, endings: Endings::OfLastBatch(fail) };
    holds(&[all.clone(), reserve(9, few), reserve(9, few), reserve(9, few), reserve(9, few)]);
    holds(&[all.clone(), purge("ready"), reserve(1, few), push(1), reserve(1, few)]);
    holds(&[all.clone(), reserve(9, few), failed, purge("failed"), purge("ready"), reserve(9, few)]);
    // More than one call reads: of leases that are over, and of a page.
    let items: Vec<_> = (0..45).map(|_| item(9, 100_000, None)).collect();
    let more = [Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Refuse, items }, reserve(45, MANY_BYTES << 3)];
    let peek = |state, offset| Step::Peek { state, offset, limit: 100 };
    holds(&[&more[..], &[peek("reserved", 0), peek("reserved", 3), peek("reserved", 4)]].concat());
    let over = [&more[..], &[Step::Advance(20)]].concat();
    holds(&[&over[..], &[reserve(0, few), peek("ready", 0), reserve(0, few), peek("ready", 0)]].concat());
    let reclaim = Step::Reclaim { who: ME, cap: 100 };
    holds(&[&over[..], &[reclaim.clone(), reclaim]].concat());
    // Where none is left nobody asks any more.
    holds(&[all, Step::LoseMeta, reserve(9, few), reserve(9, few)]);
}

#[test]
fn a_token_is_smaller_only_where_the_last_one_was_lost_and_the_clock_was_set_back() {
    let back = Endings::Some(vec![ending(0, Deed::Back { verb: Verb::Retry, delay_ms: 0, error: "", rewrite: false })]);
    let settle = Step::Settle { who: ME, endings: back };
    holds(&[push(2), reserve(2, MANY_BYTES), Step::LoseMeta, settle, Step::SetBack(5000), reserve(1, MANY_BYTES)]);
}

#[test]
fn one_call_reads_four_mebibytes_of_failed_records() {
    let large = NewRecord { padding: 1_000_000, max_retries: 0, key: Some("k"), ..PLAIN };
    let keyless = NewRecord { key: None, ..large.clone() };
    let items = std::iter::once(large).chain(std::iter::repeat_n(keyless, 6)).map(|record| (9, record, When::Now));
    let all = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Refuse, items: items.collect() };
    let behind = Step::Push { who: ME, count: 1, record: NewRecord { level: 9, ..PLAIN }, when: When::Now };
    let purge = |state| Step::Purge { who: ME, state, cap: 9, asked_ago: None };
    let requeue = Step::Requeue { who: ME, picks: vec![], all_failed: true };
    holds(&[all.clone(), behind, purge("ready"), purge("ready"), purge("ready")]);
    // One call takes four mebibytes back, too: two of them.
    let reclaim = Step::Reclaim { who: ME, cap: 100 };
    let over = [reserve(9, 1 << 30), Step::Advance(20), reclaim.clone(), reclaim];
    holds(&[&[all][..], &over, &[requeue.clone(), requeue, purge("failed"), purge("ready")]].concat());
}

#[test]
fn one_call_cancels_four_mebibytes_of_records() {
    let all = Step::Push { who: ME, count: 7, record: NewRecord { padding: 1_000_000, ..PLAIN }, when: When::Now };
    for only in ["", "ready", "failed", "delayed ready"] {
        let cancel = Step::Cancel { who: ME, only, names: Names::LastPushed };
        holds(&[all.clone(), cancel.clone(), Step::Resend { back: 0 }, cancel]);
    }
}

#[test]
fn jobs_given_back_together_keep_their_order() {
    let release = |lease| ending(lease, Deed::Back { verb: Verb::Release, delay_ms: 0, error: "", rewrite: false });
    holds(&[
        push(3),
        reserve(2, MANY_BYTES),
        Step::Settle { who: ME, endings: Endings::Some(vec![release(0), release(1)]) },
        reserve(3, MANY_BYTES),
    ]);
}

#[test]
fn a_promise_is_never_for_a_moment_that_is_over() {
    let endings = Endings::Some(Vec::new());
    let (want, lease_ms, wait_ms, max_bytes) = (0, 10, 1000, MANY_BYTES);
    holds(&[
        Step::Push { who: ME, count: 150, record: PLAIN, when: When::After(5) },
        Step::Advance(5),
        // More are due than one call promotes.
        Step::Reserve {
            who: ME,
            want,
            lease_ms,
            wait_ms,
            max_bytes,
            keeps_promise: false,
            ahead: false,
            spares: false,
            endings,
        },
    ]);
}

#[test]
fn a_purge_keeps_to_its_cap_across_levels() {
    let urgent = NewRecord { level: 0, ..PLAIN };
    let push_urgent = Step::Push { who: ME, count: 2, record: urgent, when: When::Now };
    holds(&[push_urgent, push(3), Step::Purge { who: ME, state: "ready", cap: 3, asked_ago: None }]);
}

#[test]
fn a_purge_keeps_to_its_cap_across_what_a_limit_of_a_name_holds_back() {
    let purge = Step::Purge { who: ME, state: "ready", cap: 3, asked_ago: None };
    // One runs, and what was read behind it is put aside.
    holds(&[of_mail(1, 0, 0), push_mail(4), reserve(4, MANY_BYTES), push(2), purge.clone(), purge]);
}

#[test]
fn a_purge_of_failed_jobs_leaves_those_that_failed_since_it_was_asked_for() {
    let fail = Deed::Back { verb: Verb::Failed, delay_ms: 0, error: "", rewrite: false };
    let failed = Step::Settle { who: ME, endings: Endings::OfLastBatch(fail) };
    let purge = Step::Purge { who: ME, state: "failed", cap: 9, asked_ago: Some(5) };
    let earlier = [push(2), reserve(2, MANY_BYTES), failed.clone(), Step::Advance(9)];
    holds(&[&earlier[..], &[push(2), reserve(2, MANY_BYTES), failed, purge.clone(), purge]].concat());
}

#[test]
fn a_purge_of_ready_jobs_leaves_one_that_was_rescheduled() {
    let item = |id| (id, PLAIN, When::Now);
    let two = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Refuse, items: vec![item(0), item(1)] };
    let later = Step::Reschedule { who: ME, by_key: None, pick: 0, when: When::After(5) };
    let purge = Step::Purge { who: ME, state: "ready", cap: 9, asked_ago: None };
    holds(&[two, later, purge, Step::Advance(5), reserve(2, MANY_BYTES)]);
}

#[test]
fn a_late_copy_of_a_call_that_found_nothing_to_do_does_nothing() {
    let other = Who { client: 1, ..ME };
    let item = |who, id| Step::PushUnique {
        who,
        if_duplicate: IfDuplicate::Keep,
        items: vec![(id, NewRecord { key: Some("k"), ..PLAIN }, When::Now)],
    };
    let fail = Deed::Back { verb: Verb::Failed, delay_ms: 0, error: "", rewrite: false };
    let fail = Step::Settle { who: other, endings: Endings::Some(vec![ending(0, fail)]) };
    let push = item(other, 0);
    holds(&[Step::Cancel { who: ME, only: "", names: Names::Keys(vec!["k"]) }, push.clone(), Step::Resend { back: 1 }]);
    holds(&[Step::Purge { who: ME, state: "ready", cap: 9, asked_ago: None }, push.clone(), Step::Resend { back: 1 }]);
    let later = Step::Reschedule { who: ME, by_key: None, pick: 0, when: When::After(5) };
    holds(&[later, push.clone(), Step::Resend { back: 1 }]);
    let requeue = Step::Requeue { who: ME, picks: vec![0], all_failed: false };
    holds(&[requeue, push.clone(), reserve_as(other, 1, MANY_BYTES), fail, Step::Resend { back: 3 }]);
    let cancel = Step::Cancel { who: other, only: "", names: Names::Ids(vec![0]) };
    holds(&[push, item(ME, 1), cancel, Step::Resend { back: 1 }]);
}

fn limit(concurrency: u64, jobs: u64, per_us: u64) -> Step {
    Step::Limit { who: ME, limits: Some(Limit { concurrency, jobs, per_us }), names: Vec::new() }
}

#[test]
fn who_waits_for_a_place_is_not_told_of_what_is_due() {
    let later = Step::Push { who: ME, count: 300, record: PLAIN, when: When::After(1) };
    let look = || wait(false, Vec::new());
    // More than two reserves promote.
    holds(&[limit(1, 0, 0), later, Step::Advance(1), look(), look()]);
}

#[test]
fn a_rate_takes_over_what_another_one_left() {
    let (finer, other) = (limit(0, 7, 1_000_000), limit(0, 3, 1_000_000));
    holds(&[finer, push(9), reserve(3, MANY_BYTES), other, reserve(1, MANY_BYTES), reserve(1, MANY_BYTES)]);
}

#[test]
fn a_place_that_is_given_back_in_a_paused_queue_wakes_nobody() {
    let ack = Step::Settle { who: ME, endings: Endings::Some(vec![ending(0, Deed::Ack)]) };
    let pause = Step::Pause { who: ME, pause: true };
    holds(&[limit(1, 0, 0), push(2), reserve(1, MANY_BYTES), Step::TakeWakes, pause, ack]);
}

#[test]
fn the_place_of_a_cancelled_job_goes_to_a_waiter() {
    let a = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Refuse, items: vec![(0, PLAIN, When::Now)] };
    let cancel = Step::Cancel { who: ME, only: "", names: Names::Ids(vec![0]) };
    holds(&[limit(1, 0, 0), a, push(1), reserve(1, MANY_BYTES), Step::TakeWakes, cancel]);
}

/// The one who waits has promised to come back for the end of the lease, which is before the new job is due.
#[test]
fn the_place_of_a_job_that_was_replaced_goes_to_a_waiter() {
    let put = |if_duplicate, when| Step::PushUnique { who: ME, if_duplicate, items: vec![(0, PLAIN, when)] };
    let (first, later) = (put(IfDuplicate::Refuse, When::Now), put(IfDuplicate::Replace, When::After(1000)));
    let waits = wait(false, Vec::new());
    holds(&[limit(1, 0, 0), first, push(1), reserve(1, MANY_BYTES), waits, Step::TakeWakes, later]);
}

/// Also for a job of a level that the same call is the first to use.
#[test]
fn the_place_of_a_job_that_was_replaced_goes_to_a_waiter_whatever_the_level_of_the_next_job() {
    let put = |if_duplicate, items| Step::PushUnique { who: ME, if_duplicate, items };
    let first = put(IfDuplicate::Refuse, vec![(0, PLAIN, When::Now)]);
    let other = NewRecord { level: 0, ..PLAIN };
    let both = put(IfDuplicate::Replace, vec![(0, PLAIN, When::After(1000)), (1, other, When::Now)]);
    let waits = wait(true, Vec::new());
    holds(&[limit(1, 0, 0), first, reserve(1, MANY_BYTES), waits, Step::TakeWakes, both]);
}

#[test]
fn a_job_that_is_settled_after_its_lease_is_not_taken_back_by_the_same_call() {
    let later = || Deed::Back { verb: Verb::Retry, delay_ms: 1000, error: "", rewrite: false };
    holds(&[
        push(3),
        reserve(3, MANY_BYTES),
        Step::Advance(1000),
        wait(false, vec![ending(0, later()), ending(1, later())]),
    ]);
}

#[test]
fn a_worker_is_told_of_jobs_that_were_trimmed_since_one_was_told() {
    let fail = || Deed::Back { verb: Verb::Failed, delay_ms: 0, error: "", rewrite: false };
    let fails = || Step::Settle { who: ME, endings: Endings::OfLastBatch(fail()) };
    let beat = || Step::Beat { who: ME, worker: 0, life_ms: 1000 };
    let round = || [push(2), reserve(2, MANY_BYTES), fails(), beat(), beat()];
    let keep_one = Step::Configure { who: ME, failed_max: 1, failed_age_ms: 1_000_000 };
    holds(&[&[keep_one.clone()][..], &round(), &round()].concat());
    let again = [Step::Resend { back: 1 }, Step::Resend { back: 0 }];
    holds(&[&[keep_one][..], &round(), &again].concat());
}

fn of_mail(concurrency: u64, jobs: u64, per_us: u64) -> Step {
    Step::Limit { who: ME, limits: None, names: vec![("mail", Limit { concurrency, jobs, per_us })] }
}

fn push_mail(count: usize) -> Step {
    Step::Push { who: ME, count, record: NewRecord { name: Some("mail"), ..PLAIN }, when: When::Now }
}

fn wait(keeps_promise: bool, handed_along: Vec<Ending>) -> Step {
    let (want, endings) = (1, Endings::Some(handed_along));
    Step::Reserve {
        who: ME,
        want,
        lease_ms: 500,
        wait_ms: 1000,
        max_bytes: MANY_BYTES,
        keeps_promise,
        ahead: false,
        spares: false,
        endings,
    }
}

#[test]
fn a_job_without_a_name_is_not_of_the_limits_whose_names_were_lost() {
    let look = || wait(false, Vec::new());
    // Such a record has a routing prefix, in which the name is empty.
    let record = NewRecord { max_retries: 0, ..PLAIN };
    let nameless = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Refuse, items: vec![(0, record, When::Now)] };
    let find = Step::Find { by_key: None, pick: 0 };
    holds(&[of_mail(1, 0, 0), push_mail(3), look(), look(), Step::LoseMeta, look(), nameless, find]);
}

#[test]
fn a_slower_rate_of_a_name_is_forgotten_in_the_time_of_the_new_one() {
    let (slow, fast) = (of_mail(0, 1, 86_400_000_000), of_mail(0, 1, 10_000));
    let look = || wait(false, Vec::new());
    holds(&[slow, push_mail(3), look(), fast, look(), Step::Advance(9), look(), Step::Advance(1), look()]);
    let finer = [of_mail(0, 7, 1_000_000), push_mail(9), reserve(3, MANY_BYTES), of_mail(0, 3, 1_000_000), look()];
    holds(&finer);
}

#[test]
fn a_rate_of_a_name_that_was_taken_away_has_seen_nothing_when_it_comes_again() {
    let rate = || of_mail(1, 1, 86_400_000_000);
    let ack = || Step::Settle { who: ME, endings: Endings::OfLastBatch(Deed::Ack) };
    let look = || wait(false, Vec::new());
    holds(&[rate(), push_mail(4), look(), ack(), of_mail(1, 0, 0), look(), ack(), rate(), look(), ack(), look()]);
}

#[test]
fn somebody_is_there_when_the_rate_lets_a_job_start_whose_place_was_freed_before() {
    let start = || [of_mail(1, 2, 100_000), push_mail(4), wait(false, Vec::new()), wait(false, Vec::new())];
    let ack = || Step::Settle { who: ME, endings: Endings::OfLastBatch(Deed::Ack) };
    let take_two = || [ack(), wait(false, Vec::new()), wait(false, Vec::new()), Step::TakeWakes];
    // Freed by an ack alone, by one that goes along, and by a cancel; then once more after somebody has promised.
    let along = Step::Reserve {
        who: ME,
        want: 0,
        lease_ms: 10,
        wait_ms: 0,
        max_bytes: MANY_BYTES,
        keeps_promise: false,
        ahead: false,
        spares: false,
        endings: Endings::OfLastBatch(Deed::Ack),
    };
    let cancel = Step::Cancel { who: ME, only: "", names: Names::LastPushed };
    for free in [ack(), along, cancel] {
        let promise = [free.clone(), wait(false, Vec::new()), Step::TakeWakes, free];
        let rest = [Step::Advance(50), wait(true, Vec::new()), Step::TakeWakes, wait(true, Vec::new())];
        holds(&start().into_iter().chain(take_two()).chain(promise).chain(rest).collect::<Vec<_>>());
    }
}

#[test]
fn who_takes_the_last_start_of_a_name_wakes_one_for_the_next_unless_one_has_promised() {
    let push = push_mail(4);
    let take = |want| [reserve(want, MANY_BYTES), Step::TakeWakes];
    let rate = of_mail(0, 2, 10_000);
    holds(
        &[
            &[rate.clone(), push.clone()][..],
            &take(1),
            &take(9),
            &[wait(false, Vec::new()), Step::Advance(5)],
            &take(9),
        ]
        .concat(),
    );
    // All that is left is parked: under a number that lost limits had, and then under that of the name.
    let lost = [of_mail(1, 0, 0), push, wait(false, Vec::new()), wait(false, Vec::new()), Step::LoseMeta, rate];
    holds(&[&lost[..], &take(9), &take(9)].concat());
}

#[test]
fn a_waiter_is_told_of_the_first_of_several_rates() {
    let rate = |name, per_us| (name, Limit { concurrency: 0, jobs: 1, per_us });
    let named =
        |name| Step::Push { who: ME, count: 2, record: NewRecord { name: Some(name), ..PLAIN }, when: When::Now };
    for names in
        [[rate("mail", 10_000), rate("other", 86_400_000_000)], [rate("mail", 86_400_000_000), rate("other", 10_000)]]
    {
        let limit = Step::Limit { who: ME, limits: None, names: names.to_vec() };
        let look = || wait(false, Vec::new());
        holds(&[limit, named("mail"), named("other"), look(), look(), look(), Step::Advance(10), look(), look()]);
    }
}

#[test]
fn a_waiter_is_told_when_the_rate_of_the_queue_lets_a_parked_job_start() {
    let (queues, of_mail) =
        (Limit { concurrency: 0, jobs: 2, per_us: 10_000 }, Limit { concurrency: 1, ..Limit::default() });
    let limit = Step::Limit { who: ME, limits: Some(queues), names: vec![("mail", of_mail)] };
    // The second of the name is parked, and another job takes the second start; then the place of the name is free.
    let ack = wait(false, vec![ending(1, Deed::Ack)]);
    holds(&[
        limit,
        push_mail(2),
        reserve(2, MANY_BYTES),
        push(1),
        reserve(1, MANY_BYTES),
        ack,
        Step::Advance(5),
        reserve(1, MANY_BYTES),
    ]);
}

#[test]
fn nobody_comes_back_to_a_paused_queue_for_the_rate_of_a_name() {
    let pause = Step::Pause { who: ME, pause: true };
    let look = || wait(false, Vec::new());
    holds(&[of_mail(0, 1, 10_000), push_mail(2), look(), reserve(1, MANY_BYTES), pause, look()]);
}

#[test]
fn what_was_fetched_ahead_is_sent_again_until_its_lease_is_over() {
    for ahead in [true, false] {
        let (endings, wait_ms) = (Endings::Some(Vec::new()), 0);
        let reserve = Step::Reserve {
            who: ME,
            want: 2,
            lease_ms: 10,
            wait_ms,
            max_bytes: MANY_BYTES,
            keeps_promise: false,
            ahead,
            spares: false,
            endings,
        };
        holds(&[
            push(2),
            reserve,
            Step::Advance(5),
            Step::Resend { back: 0 },
            Step::Advance(20),
            Step::Resend { back: 0 },
        ]);
    }
}

#[test]
fn what_is_spared_is_looked_after_again_in_a_second_and_its_worker_may_go_on() {
    let look = |who, wait_ms, spares, keeps_promise| {
        let (endings, ahead) = (Endings::Some(Vec::new()), true);
        Step::Reserve {
            who,
            want: 1,
            lease_ms: 10,
            wait_ms,
            max_bytes: MANY_BYTES,
            keeps_promise,
            ahead,
            spares,
            endings,
        }
    };
    let spare = || look(ME, 5000, true, true);
    let extend = Step::Extend { lease_ms: 10, leases: vec![(0, Token::Granted)] };
    let note = Step::Progress { lease: 0, token: Token::Granted, fraction: "0.5", text: "so far" };
    let start = ending(0, Deed::Back { verb: Verb::Start, delay_ms: 0, error: "", rewrite: false });
    let start = Step::Settle { who: ME, endings: Endings::Some(vec![start]) };
    let begin = [push(2), look(ME, 0, false, false), look(ME, 0, false, false), Step::Advance(20), spare()];
    holds(&[&begin[..], &[Step::Advance(1000), spare(), Step::Advance(1), look(ME, 5000, false, true)]].concat());
    holds(
        &[&begin[..], &[note, extend, start, spare(), Step::Advance(9), spare(), Step::Advance(1), spare()]].concat(),
    );
    let ack = Step::Settle { who: ME, endings: Endings::Some(vec![ending(0, Deed::Ack)]) };
    holds(&[&begin[..], &[ack, spare(), Step::Resend { back: 0 }, look(ME, 0, true, true)]].concat());
    // What it grants was fetched ahead as ever.
    holds(&[&begin[..], &[push(1), spare(), Step::Advance(20), look(ME, 0, false, false)]].concat());
}

/// Neither a copy of the push that is answered from memory, nor one that finds its job, nor one that is superseded.
#[test]
fn a_push_that_is_sent_again_leaves_the_result_that_its_job_has_left() {
    let a = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Keep, items: vec![(0, PLAIN, When::Now)] };
    let done = |gives| Step::Settle { who: ME, endings: Endings::Some(vec![ending(0, Deed::AckWith(gives))]) };
    let look = Step::Await { pick: 0 };
    let again = Step::Resend { back: 0 };
    let ran = || [reserve(1, MANY_BYTES), done("[1]"), Step::Resend { back: 2 }, look.clone()];
    holds(&[&[a.clone(), again.clone()], &ran()[..], &[a.clone(), again, look.clone()], &ran()[..]].concat());
    // Of jobs without ids of their own no key is passed.
    let keyed = NewRecord { key: Some("k"), ..PLAIN };
    let fresh = Step::PushUnique { who: ME, if_duplicate: IfDuplicate::Keep, items: vec![(9, keyed, When::Now)] };
    holds(&[&[fresh][..], &ran()[..]].concat());
}
