//! What a client keeps of its pulls from many topics: the answers of servers that are slower than others, and what the next pull gives.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::script::{Membership, PulledMessage, PulledTopic};
use crate::value::error::{Error, ErrorKind};

/// What one topic gives.
pub(crate) type Pulled = Result<Membership<PulledTopic>, Error>;

/// By member.
#[derive(Default)]
pub(crate) struct HeldPulls {
    /// The topic that was served last in a pull from several.
    served_last: Mutex<String>,
    members: Mutex<HashMap<String, OfMember>>,
}

#[derive(Default)]
struct OfMember {
    /// The topics with their tags, when they were last known.
    topics: Option<Vec<(String, String)>>,
    late: Vec<LatePull>,
    kept: Vec<KeptMessage>,
    failures: Vec<KeptFailure>,
    /// By topic, which subscription has pulled last.
    tags: HashMap<String, Arc<str>>,
}

impl OfMember {
    fn is_empty(&self) -> bool {
        let Self { topics, late, kept, failures, tags } = self;
        topics.is_none() && late.is_empty() && kept.is_empty() && failures.is_empty() && tags.is_empty()
    }
}

/// A pull from topics of one slot that is under way.
pub(crate) struct LatePull {
    pub(crate) slot: u16,
    pub(crate) topics: Vec<String>,
    pub(crate) lease: Duration,
    /// When the answer was last known not to be here: what it gives may have been leased from then on.
    missing_at: Instant,
    answer: Answer,
}

enum Answer {
    Awaited(JoinHandle<Vec<Pulled>>),
    Here(Vec<Pulled>),
}

impl LatePull {
    pub(crate) fn new(slot: u16, topics: Vec<String>, lease: Duration, call: JoinHandle<Vec<Pulled>>) -> Self {
        Self { slot, topics, lease, missing_at: Instant::now(), answer: Answer::Awaited(call) }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Answer::Awaited(call) = &mut self.answer else { return Poll::Ready(()) };
        let Poll::Ready(ended) = Pin::new(call).poll(context) else {
            self.missing_at = Instant::now();
            return Poll::Pending;
        };
        let broke_off = |error| {
            vec![Err(Error::new(ErrorKind::Internal, "the call of a pull broke off").caused_by(error).during("pull"))]
        };
        self.answer = Answer::Here(ended.unwrap_or_else(broke_off));
        Poll::Ready(())
    }

    /// Until when what it gives is the member's.
    pub(crate) fn leased_until(&self) -> Instant {
        self.missing_at + self.lease
    }

    /// Ready when `enough` of these have answered.
    pub(crate) async fn answered(late: &mut [Self], enough: impl Fn(usize) -> bool) {
        poll_fn(|context| {
            let here = late.iter_mut().map(|one| one.poll(context)).filter(Poll::is_ready).count();
            if enough(here) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes out those that have answered, with what they gave.
    pub(crate) fn take_answered(late: &mut Vec<Self>) -> Vec<(Self, Vec<Pulled>)> {
        let (mut here, mut awaited) = (Vec::new(), Vec::new());
        for mut one in late.drain(..) {
            match &mut one.answer {
                Answer::Here(pulled) => {
                    let pulled = std::mem::take(pulled);
                    here.push((one, pulled));
                }
                Answer::Awaited(_) => awaited.push(one),
            }
        }
        *late = awaited;
        here
    }
}

/// A message that was pulled, and that the caller had not asked for.
pub(crate) struct KeptMessage {
    pub(crate) topic: String,
    pub(crate) message: PulledMessage,
    /// Behind that it is pulled anew.
    pub(crate) until: Instant,
}

/// What a pull that gave messages could not say.
pub(crate) struct KeptFailure {
    pub(crate) topic: String,
    /// The topic goes from the member's list when it is said.
    pub(crate) leaves: Option<String>,
    /// The ids of messages that cannot be read, if it is that; the error names the first one.
    unreadable: Vec<String>,
    error: Error,
}

impl KeptFailure {
    /// The topic goes from the member's list.
    pub(crate) fn of_leaving(topic: &str, tag: &str, error: Error) -> Self {
        Self { topic: topic.to_owned(), leaves: Some(tag.to_owned()), unreadable: Vec::new(), error }
    }

    /// A message that cannot be read.
    pub(crate) fn of_unreadable(topic: &str, id: String, error: Error) -> Self {
        Self { topic: topic.to_owned(), leaves: None, unreadable: vec![id], error }
    }

    /// Takes in what another pull of this topic, or another part of one, could not say, if one error can say both.
    pub(crate) fn take_in(&mut self, other: Self) -> Option<Self> {
        if self.topic != other.topic || self.leaves.is_some() != other.leaves.is_some() {
            return Some(other);
        }
        if self.leaves.is_some() {
            *self = other;
            return None;
        }
        for id in other.unreadable {
            if !self.unreadable.contains(&id) {
                self.unreadable.push(id);
            }
        }
        None
    }

    /// With the ids of all messages.
    pub(crate) fn into_error(self) -> Error {
        match &self.unreadable[..] {
            [] | [_] => self.error,
            [_, others @ ..] => self.error.adding(&format!("so it is with {}", others.join(", "))),
        }
    }

    /// Adds one to those that are kept.
    pub(crate) fn add(failures: &mut Vec<Self>, failure: Self) {
        let mut rest = Some(failure);
        for kept in failures.iter_mut() {
            rest = rest.and_then(|failure| kept.take_in(failure));
        }
        failures.extend(rest);
    }
}

impl HeldPulls {
    fn members(&self) -> MutexGuard<'_, HashMap<String, OfMember>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn served_last(&self) -> MutexGuard<'_, String> {
        self.served_last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was known of a member before; nothing is left here of one of which nothing is kept.
    fn take<T: Default>(&self, member: &str, take: impl FnOnce(&mut OfMember) -> T) -> T {
        let mut members = self.members();
        let Some(of_member) = members.get_mut(member) else { return T::default() };
        let taken = take(of_member);
        if of_member.is_empty() {
            members.remove(member);
        }
        taken
    }

    fn keep(&self, member: &str, keep: impl FnOnce(&mut OfMember)) {
        let mut members = self.members();
        if let Some(of_member) = members.get_mut(member) {
            return keep(of_member);
        }
        keep(members.entry(member.to_owned()).or_default());
    }

    /// That of one topic, or of any.
    pub(crate) fn take_failure(&self, member: &str, topic: Option<&str>) -> Option<KeptFailure> {
        self.take(member, |of_member| {
            let is_it = |one: &KeptFailure| topic.is_none_or(|topic| one.topic == topic);
            let at = of_member.failures.iter().position(is_it)?;
            Some(of_member.failures.remove(at))
        })
    }

    /// With what other pulls of this member could not say of the topic.
    pub(crate) fn keep_failure(&self, member: &str, failure: KeptFailure) {
        self.keep(member, |of_member| KeptFailure::add(&mut of_member.failures, failure));
    }

    /// The calls that were under way when the last pull of this member ended.
    pub(crate) fn take_late(&self, member: &str) -> Vec<LatePull> {
        self.take(member, |of_member| std::mem::take(&mut of_member.late))
    }

    pub(crate) fn keep_late(&self, member: &str, late: Vec<LatePull>) {
        if !late.is_empty() {
            self.keep(member, |of_member| of_member.late.extend(late));
        }
    }

    /// At most so many messages, of those whose lease goes on.
    pub(crate) fn take_kept(&self, member: &str, most: usize) -> Vec<KeptMessage> {
        self.take(member, |of_member| {
            let now = Instant::now();
            of_member.kept.retain(|one| one.until > now);
            of_member.kept.drain(..most.min(of_member.kept.len())).collect()
        })
    }

    pub(crate) fn keep_messages(&self, member: &str, messages: Vec<KeptMessage>) {
        if !messages.is_empty() {
            self.keep(member, |of_member| of_member.kept.extend(messages));
        }
    }

    /// Which subscription of its name this member has pulled from last.
    pub(crate) fn tag(&self, member: &str, topic: &str) -> Option<Arc<str>> {
        self.members().get(member)?.tags.get(topic).cloned()
    }

    pub(crate) fn note_tag(&self, member: &str, topic: &str, tag: &Arc<str>) {
        self.keep(member, |of_member| match of_member.tags.get_mut(topic) {
            Some(noted) => noted.clone_from(tag),
            None => drop(of_member.tags.insert(topic.to_owned(), Arc::clone(tag))),
        });
    }

    pub(crate) fn forget_tag(&self, member: &str, topic: &str) {
        self.take(member, |of_member| drop(of_member.tags.remove(topic)));
    }

    pub(crate) fn topics(&self, member: &str) -> Option<Vec<(String, String)>> {
        self.members().get(member)?.topics.clone()
    }

    pub(crate) fn note_topics(&self, member: &str, topics: &[(String, String)]) {
        if self.members().get(member).and_then(|of_member| of_member.topics.as_deref()) != Some(topics) {
            self.keep(member, |of_member| of_member.topics = Some(topics.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreadable(topic: &str, id: &str) -> KeptFailure {
        KeptFailure::of_unreadable(topic, id.to_owned(), Error::new(ErrorKind::Corrupt, format!("{id} is not JSON")))
    }

    fn left(topic: &str, tag: &str) -> KeptFailure {
        KeptFailure::of_leaving(topic, tag, Error::new(ErrorKind::NotFound, format!("no member of {topic}")))
    }

    /// Two pulls that are open at once, or one that asks a topic several times.
    #[test]
    fn an_error_names_all_messages_that_pulls_could_not_read() {
        let held = HeldPulls::default();
        for failure in [unreadable("a", "1-1"), unreadable("b", "9-9"), unreadable("a", "2-2"), unreadable("a", "1-1")]
        {
            held.keep_failure("m", failure);
        }
        held.keep_failure("m", left("a", "old"));
        held.keep_failure("m", left("a", "new"));
        held.keep_failure("other", unreadable("a", "7-7"));
        let said = |topic| held.take_failure("m", topic).map(|failure| (failure.leaves.clone(), failure.into_error()));
        let (leaves, error) = said(Some("a")).unwrap();
        assert_eq!((leaves, error.kind()), (None, ErrorKind::Corrupt));
        assert!(error.to_string().contains("1-1 is not JSON; so it is with 2-2"), "{error}");
        assert_eq!(
            said(Some("a")).map(|(leaves, error)| (leaves, error.kind())),
            Some((Some("new".to_owned()), ErrorKind::NotFound))
        );
        assert!(said(Some("a")).is_none());
        assert!(said(None).unwrap().1.to_string().contains("9-9 is not JSON"));
        assert!(said(None).is_none());
    }
}
