//! Sequences that once failed, shortened, each with the name of what it taught.

use crate::script::{IfHeld, Verb};

use super::generate::{Deed, Ending, Endings, Knows, Names, NewRecord, Step, Token, When, Who};
use super::limits::Limits;
use super::server::Server;
use super::world::{self, Seen};

const ME: Who = Who { client: 0, slot: 0, renew: false, knows: Knows::Learnt };
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
    Step::Reserve { who, want, lease_ms: 10, wait_ms: 0, max_bytes, keeps_promise: false, endings }
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
    let cancel = Step::Cancel { who: ME, names: Names::LastPushed };
    let large = NewRecord { padding: 90, ..PLAIN };
    holds(&[push(1), cancel, Step::Push { who: ME, count: 1, record: large, when: When::Now }, reserve(2, 40)]);
}

#[test]
fn many_cancelled_jobs_do_not_send_the_worker_to_sleep() {
    let cancel = Step::Cancel { who: ME, names: Names::LastPushed };
    holds(&[push(150), cancel, push(1), reserve(1, MANY_BYTES), reserve(1, MANY_BYTES)]);
}

#[test]
fn a_page_behind_a_stale_entry_shows_the_job_that_came_again() {
    let a = Step::PushUnique { who: ME, if_held: IfHeld::Refuse, items: vec![(0, PLAIN, When::Now)] };
    let later = Step::Reschedule { who: ME, by_key: None, pick: 0, when: When::After(5) };
    let promote = Step::Promote { who: ME, cap: 9 };
    let peek = Step::Peek { state: "ready", offset: 1, limit: 5 };
    holds(&[a, push(1), later, Step::Advance(5), promote, peek]);
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
        Step::Reserve { who: ME, want, lease_ms, wait_ms, max_bytes, keeps_promise: false, endings },
    ]);
}

#[test]
fn a_purge_keeps_to_its_cap_across_levels() {
    let urgent = NewRecord { level: 0, ..PLAIN };
    let push_urgent = Step::Push { who: ME, count: 2, record: urgent, when: When::Now };
    holds(&[push_urgent, push(3), Step::Purge { who: ME, state: "ready", cap: 3 }]);
}

#[test]
fn a_late_copy_of_a_call_that_found_nothing_to_do_does_nothing() {
    let other = Who { client: 1, ..ME };
    let item = |who, id| Step::PushUnique {
        who,
        if_held: IfHeld::Keep,
        items: vec![(id, NewRecord { key: Some("k"), ..PLAIN }, When::Now)],
    };
    let fail = Deed::Back { verb: Verb::Failed, delay_ms: 0, error: "", rewrite: false };
    let fail = Step::Settle { who: other, endings: Endings::Some(vec![ending(0, fail)]) };
    let push = item(other, 0);
    holds(&[Step::Cancel { who: ME, names: Names::Keys(vec!["k"]) }, push.clone(), Step::Resend { back: 1 }]);
    holds(&[Step::Purge { who: ME, state: "ready", cap: 9 }, push.clone(), Step::Resend { back: 1 }]);
    let later = Step::Reschedule { who: ME, by_key: None, pick: 0, when: When::After(5) };
    holds(&[later, push.clone(), Step::Resend { back: 1 }]);
    let requeue = Step::Requeue { who: ME, picks: vec![0], all_failed: false };
    holds(&[requeue, push.clone(), reserve_as(other, 1, MANY_BYTES), fail, Step::Resend { back: 3 }]);
    let cancel = Step::Cancel { who: other, names: Names::Ids(vec![0]) };
    holds(&[push, item(ME, 1), cancel, Step::Resend { back: 1 }]);
}

fn limit(concurrency: u64, jobs: u64, per_us: u64) -> Step {
    Step::Limit { who: ME, limits: Some(Limits { concurrency, jobs, per_us }), names: Vec::new() }
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
    let a = Step::PushUnique { who: ME, if_held: IfHeld::Refuse, items: vec![(0, PLAIN, When::Now)] };
    let cancel = Step::Cancel { who: ME, names: Names::Ids(vec![0]) };
    holds(&[limit(1, 0, 0), a, push(1), reserve(1, MANY_BYTES), Step::TakeWakes, cancel]);
}
