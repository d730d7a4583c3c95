//! What queues keep of their histories, and what a trace reads of them.

use redis::Value;

use super::options::Queue;
use crate::script::{Digits, Due, FromReply as _, Key, Outcomes, Push, Settle, Shape, Trace, TraceReply};

const RECORD: &[u8] = br#"5;5;0;0;{"data":1}"#;
/// As long as it may be kept.
const AGE: &str = "3153600000000";

fn push(queue: &mut Queue, ids: &[&str], number: u64) {
    let jobs: Vec<_> = ids.iter().map(|id| (id.as_bytes(), RECORD)).collect();
    let said = queue.run(Push { level: Digits(5), due: Due::Now }, jobs, Some(number));
    assert_eq!(said, Value::BulkString(b"created".to_vec()));
}

fn elements(queue: &mut Queue) -> Vec<String> {
    redis::from_redis_value(queue.command("LRANGE", Key::History, &["0", "-1"])).unwrap()
}

/// A queue whose history has these elements.
fn with_elements(elements: &[&str]) -> Queue {
    let mut queue = Queue::new();
    queue.set("limits", "");
    queue.set("history", &format!("100;{AGE};10;10"));
    queue.command("RPUSH", Key::History, elements);
    queue
}

fn trace(queue: &mut Queue, start: u64, stop: u64) -> TraceReply {
    TraceReply::decode(queue.run(Trace { job_id: "a".to_owned(), start, stop }, [], None)).unwrap()
}

fn letters(reply: &TraceReply) -> String {
    reply.events.iter().map(|[_, _, event]| &event[..1]).collect()
}

#[test]
fn a_history_keeps_about_as_many_events_as_it_may() {
    let mut queue = Queue::new();
    queue.keep(100, 1);
    queue.set("history", &format!("100;{AGE}"));
    for number in 0..300 {
        push(&mut queue, &[&number.to_string()], number + 2);
    }
    let kept = elements(&mut queue);
    assert!((200..450).contains(&kept.len()), "{}", kept.len());
    assert!(kept[0].starts_with(char::is_numeric), "it begins with a call: {}", kept[0]);
}

/// `meta` was lost, or a client that knows of no history has deleted the queue.
#[test]
fn a_history_that_begins_again_has_nothing_under_other_numbers() {
    let mut queue = Queue::new();
    queue.keep(100, 1);
    push(&mut queue, &["a"], 2);
    let first = elements(&mut queue).len();
    queue.set("history", &format!("100;{AGE}"));
    push(&mut queue, &["b"], 3);
    let kept = elements(&mut queue);
    assert_eq!((kept.len(), kept.contains(&"a".to_owned())), (first, false), "{kept:?}");
}

/// A client that knows of no history has taken away the limits, and with them the length.
#[test]
fn a_history_that_is_kept_is_noted_also_where_nothing_says_so() {
    let mut queue = Queue::new();
    queue.set("history", &format!("100;{AGE}"));
    queue.set("max_length", "5");
    push(&mut queue, &["a"], 1);
    assert_eq!((queue.has("limits").as_deref(), queue.has("max_length")), (Some(""), None));
}

#[test]
fn an_ack_that_is_there_twice_is_noted_once() {
    let mut queue = Queue::new();
    queue.keep(100, 1);
    push(&mut queue, &["a", "b"], 2);
    let token = queue.reserve(2, (Some(3), Shape::Limited)).token;
    let mut acks = Outcomes::default();
    for id in ["a", "b", "a"] {
        acks.ack(id, token, None, None);
    }
    let settle = Settle { ack_count: acks.ack_count(), keyed: acks.keyed(), result_count: acks.result_keys() };
    assert_eq!(queue.run(settle, [&acks], Some(4)), Value::BulkString(b"111".to_vec()));
    assert_eq!(elements(&mut queue).last().unwrap(), "a\nb");
}

#[test]
fn a_trace_passes_by_entries_of_other_programs() {
    let mut queue = with_elements(&["1;1;1790000000000;o\tP\t", "a", "\tR\tno list", "a", "\tX\t", "a"]);
    assert_eq!(letters(&trace(&mut queue, 1, 0)), "PX");
}

#[test]
fn a_trace_ends_before_the_call_that_was_read_already() {
    let mut queue = with_elements(&["1;1;1790000000000;o\tP\t", "a", "3;2;1790000000000;o\tX\t", "a"]);
    assert_eq!(letters(&trace(&mut queue, 1, 3)), "P");
    assert_eq!(letters(&trace(&mut queue, 1, 0)), "PX");
}

#[test]
fn a_trace_goes_on_behind_a_call_that_is_larger_than_a_page() {
    let large = format!("1;1;1790000000000;o\tP\t{}", "x".repeat(600_000));
    let mut queue = with_elements(&[&large, "a", "3;2;1790000000000;o\tX\t", "a"]);
    let first = trace(&mut queue, 1, 0);
    assert_eq!((letters(&first).as_str(), first.next), ("P", Some(3)));
    let second = trace(&mut queue, 3, 0);
    assert_eq!((letters(&second).as_str(), second.next), ("X", None));
}
