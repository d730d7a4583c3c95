//! Sequences that once failed, shortened, each with the name of what it taught.

use super::generate::{Deed, Ending, Endings, Knows, Names, NewRecord, Step, When, Who};
use super::server::Server;
use super::world::{self, Seen};

const ME: Who = Who { client: 0, slot: 0, renew: false, knows: Knows::Learnt };
const PLAIN: NewRecord = NewRecord { level: 5, max_retries: 5, key: None, padding: 0 };
const MANY_BYTES: usize = 1 << 20;

fn holds(steps: &[Step]) {
    let result = world::run(&mut Server::start(), &mut Seen::new(), 0, steps);
    assert_eq!(result, Ok(()));
}

fn push(count: usize) -> Step {
    Step::Push { who: ME, count, record: PLAIN, when: When::Now }
}

fn reserve(want: usize, max_bytes: usize) -> Step {
    let endings = Endings::Some(Vec::new());
    Step::Reserve { who: ME, want, lease_ms: 10, wait_ms: 0, max_bytes, keeps_promise: false, endings }
}

fn ending(lease: usize, deed: Deed) -> Ending {
    Ending { lease, wrong_token: false, deed }
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
