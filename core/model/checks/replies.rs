//! Replies of a server that is not what it should be: each reader gives an error or a value, and never panics.

use redis::Value;

use super::{Seen, note};
use crate::operate::held_back;
use crate::queue::decode;
use crate::script::{
    AdoptReply, AliveReply, AwaitedReply, BeatReply, CancelReply, CountsReply, FoundReply, FromReply, HearReply,
    LimitReply, LookReply, Membership, Order, PageReply, PublishReply, PullReply, PulledTopic, PurgeReply,
    PushUniqueReply, ReclaimReply, RepairReply, RequeueReply, RescheduleReply, ReserveReply, SettleReply, Stored,
    SubscribeReply, Taken, TopicReply, UnsubscribeReply, WholeReply, byte_strings, flags, is_refusal, not_kept,
    noted_topics, scanned, wanted,
};
use crate::value::error::{Error, ErrorKind};

/// Notes that it was read; a refusal is one of those that callers know.
fn sound<T>(read: Result<T, Error>, what: &'static str, seen: &mut Seen) -> Option<T> {
    match read {
        Ok(value) => {
            note(seen, what);
            Some(value)
        }
        Err(error) => {
            let known = matches!(error.kind(), ErrorKind::Protocol | ErrorKind::Timeout | ErrorKind::FormatTooNew);
            assert!(known, "{what}: {error:?}");
            None
        }
    }
}

fn reads<T: FromReply>(reply: &Value, what: &'static str, seen: &mut Seen) {
    let read = sound(T::decode(reply.clone()), what, seen);
    let _ = read.is_some_and(|read| read.fits(2));
}

pub(crate) fn reply(reply: &Value, seen: &mut Seen) {
    if let Some(read) = sound(ReserveReply::decode(reply.clone()), "reserve", seen) {
        read.fits(2);
        sound(flags(&read.settled), "flags", seen);
        not_kept(&read.settled).for_each(drop);
        for job in read.jobs {
            if decode(&job.id, &job.record, &job.came_back).is_ok() {
                note(seen, "a job was decoded");
            }
        }
    }
    if let Some(read) = sound(CountsReply::decode(reply.clone()), "counts", seen)
        && held_back(&read.limits, read.now).is_some()
    {
        note(seen, "held back");
    }
    if let Some(Some(read)) = sound(Option::<FoundReply>::decode(reply.clone()), "find", seen)
        && held_back(&read.limits, read.now).is_some_and(|said| said.contains("of the name"))
    {
        note(seen, "a name held back");
    }
    reads::<PageReply>(reply, "peek", seen);
    reads::<AwaitedReply>(reply, "result", seen);
    reads::<Stored>(reply, "push", seen);
    reads::<PushUniqueReply>(reply, "push_unique", seen);
    reads::<SettleReply>(reply, "settle", seen);
    reads::<Vec<bool>>(reply, "leases", seen);
    reads::<Vec<CancelReply>>(reply, "cancel", seen);
    reads::<PurgeReply>(reply, "purge", seen);
    reads::<ReclaimReply>(reply, "reclaim", seen);
    reads::<RescheduleReply>(reply, "reschedule", seen);
    reads::<Vec<RequeueReply>>(reply, "requeue", seen);
    reads::<LimitReply>(reply, "set_limits", seen);
    reads::<Vec<String>>(reply, "notes", seen);
    reads::<Vec<AliveReply>>(reply, "workers", seen);
    reads::<BeatReply>(reply, "beat", seen);
    reads::<HearReply>(reply, "hear", seen);
    reads::<AdoptReply>(reply, "adopt", seen);
    sound(Taken::decode(reply.clone(), Order::Score), "taken", seen);
    reads::<Vec<LookReply>>(reply, "looks", seen);
    reads::<Vec<RepairReply>>(reply, "repair", seen);
    reads::<WholeReply>(reply, "whole", seen);
    reads::<u64>(reply, "count", seen);
    sound(byte_strings(reply.clone()), "texts", seen);
    sound(scanned(reply.clone()), "page", seen);
    if wanted(reply).is_some() {
        note(seen, "levels");
    }
    // What is a refusal is no answer: `levels` alone is text to a reader.
    if is_refusal(reply) && sound(<()>::decode(reply.clone()), "text", seen).is_none() {
        note(seen, "a refusal");
    }
    reads::<()>(reply, "text", seen);
}

pub(crate) fn topic_reply(reply: &Value, seen: &mut Seen) {
    reads::<PublishReply>(reply, "publish", seen);
    reads::<SubscribeReply>(reply, "subscribe", seen);
    reads::<UnsubscribeReply>(reply, "unsubscribe", seen);
    reads::<PullReply>(reply, "pulls", seen);
    reads::<Membership<PulledTopic>>(reply, "pull", seen);
    reads::<Membership<u64>>(reply, "read", seen);
    reads::<TopicReply>(reply, "topic", seen);
    sound(noted_topics(reply.clone()), "topics", seen);
}
