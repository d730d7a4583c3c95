//! Pulling: one command for all topics of a slot, and one wait for them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;

use super::{MAX_PUBLISH, Message, Topic};
use crate::connection::WaitedBy;
use crate::process::host;
use crate::queue::{Client, MAX_LEASE};
use crate::script::{Declared, Digits, Key, Membership, Pull, PulledTopic, TopicKeys, unexpected};
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::time::{LONGEST_WAIT, whole_ms};

/// About so many bytes of messages come with one call.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// For so many topics is one command.
const MOST_TOPICS: usize = 200;
/// So many slots of a cluster are asked at once: each may give a message that is as large as can be.
const MOST_SLOTS: usize = 16;
/// Who waits looks again after this long at the latest: what others have pulled comes back without a wake-up, and a failover loses some.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a member has for its acks unless it says otherwise.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// How messages are pulled.
#[derive(Debug, Clone)]
pub struct PullOptions {
    max: usize,
    wait: Duration,
    lease: Duration,
}

impl PullOptions {
    /// 100 messages at most, without waiting, leased for 30 s.
    pub fn new() -> Self {
        Self { max: 100, wait: Duration::ZERO, lease: DEFAULT_LEASE }
    }

    /// How many messages at most, 1 to 1,000. About 4 MB come at once, so there may be fewer.
    #[must_use]
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// How long to wait if there are none (default: not at all).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long the member has for its acks, 1 ms to 24 h (default 30 s): behind it the messages are pulled anew. That of its last pull
    /// counts for all that it has pulled.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    fn check(&self) -> Result<(), Error> {
        if !(1..=MAX_PUBLISH).contains(&self.max) {
            return Err(Error::invalid(format!("a pull asks for 1 to {MAX_PUBLISH} messages, not {}", self.max)));
        }
        if !(Duration::from_millis(1)..=MAX_LEASE).contains(&self.lease) {
            return Err(Error::invalid("the lease of messages is 1 ms to 24 h"));
        }
        Ok(())
    }
}

impl Default for PullOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// Pulls from all topics of a member, `max` messages and about 4 MB together. One call for all topics, in a cluster one a slot; a wait
    /// ends with the first message in any of them. Each call begins with the topic behind the one that was served last, so none is left
    /// out. A topic of which the member has been cut off gives its error when no other has messages.
    ///
    /// Errors: as [`Topic::pull`]; `NotFound` for a member without topics.
    pub async fn pull(&self, member: &str, options: &PullOptions) -> Result<Vec<Message>, Error> {
        options.check().map_err(|error| error.during("pull"))?;
        let until = Instant::now() + options.wait.min(LONGEST_WAIT);
        loop {
            let mut noted = self.noted_topics(member).await?;
            noted.sort();
            self.take_turns(&mut noted);
            let topics = noted.iter().map(|(name, _)| self.topic(name)).collect::<Result<Vec<_>, _>>()?;
            let (mut messages, mut waits, mut failed) = (Vec::new(), Vec::new(), None);
            for (at, pulled) in self.pull_in_turn(member, &topics, options).await {
                let topic = &topics[at];
                match pulled {
                    Ok(Membership::Member(pulled)) => {
                        waits.push((topic, pulled.calls));
                        messages.extend(topic.messages(member, pulled)?);
                    }
                    Ok(Membership::CutOff(reply)) => {
                        failed = failed.or_else(|| Some(topic.cut_off(member, &reply, "pull")));
                    }
                    Ok(Membership::Stranger) => self.forget_topic(member, topic.name(), &noted[at].1).await?,
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(last) = messages.last() {
                last.topic().clone_into(&mut self.shared.last_topic.lock().unwrap_or_else(PoisonError::into_inner));
                return Ok(messages);
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if waits.is_empty() {
                let message = format!("the member '{member}' has no topics: subscribe to one first");
                return Err(Error::new(ErrorKind::NotFound, message).during("pull"));
            }
            if Instant::now() >= until {
                return Ok(Vec::new());
            }
            self.wait_for_messages(&waits, until).await?;
        }
    }

    /// Puts those first that come behind the topic that was served last. The first time chance decides: a program that pulls once must
    /// not always serve the same.
    fn take_turns(&self, noted: &mut [(String, String)]) {
        let last = self.shared.last_topic.lock().unwrap_or_else(PoisonError::into_inner);
        let first = if last.is_empty() {
            host::random_below(noted.len())
        } else {
            noted.partition_point(|(name, _)| *name <= *last)
        };
        noted.rotate_left(first.min(noted.len()));
    }

    /// What each topic gives, by its place among them. Who has more is asked again, as long as there is room.
    async fn pull_in_turn(&self, member: &str, topics: &[Topic], options: &PullOptions) -> Vec<(usize, Pulled)> {
        let mut groups: VecDeque<_> = self.together(topics).into();
        let (mut most, mut max_bytes) = (options.max, MOST_BYTES);
        let mut pulled = Vec::new();
        while !groups.is_empty() && most > 0 && max_bytes > 0 {
            let asked: Vec<_> = groups.drain(..groups.len().min(MOST_SLOTS).min(most)).collect();
            let room = Room { most: most / asked.len(), max_bytes: max_bytes / asked.len() };
            let answers = join_all(asked.iter().map(|group| pull_of(member, group, topics, options, room))).await;
            for (group, answer) in asked.into_iter().zip(answers) {
                let (mut given, mut has_more) = (0, false);
                for (at, of_topic) in group.iter().zip(answer) {
                    if let Ok(Membership::Member(of_topic)) = &of_topic {
                        given += of_topic.messages.len();
                        has_more |= of_topic.has_more;
                        let bytes: usize = of_topic.messages.iter().map(|message| message.data.len()).sum();
                        max_bytes = max_bytes.saturating_sub(bytes);
                    }
                    pulled.push((*at, of_topic));
                }
                most = most.saturating_sub(given);
                if has_more && given > 0 {
                    groups.push_back(group);
                }
            }
        }
        pulled
    }

    /// The places of the topics that one command can be about, in their order: those of a slot, or any where there is no cluster.
    pub(super) fn together(&self, topics: &[Topic]) -> Vec<Vec<usize>> {
        let is_cluster = !self.waits_together();
        let mut by_slot: BTreeMap<(usize, u16), Vec<usize>> = BTreeMap::new();
        let mut first_of = HashMap::new();
        for (at, topic) in topics.iter().enumerate() {
            let slot = if is_cluster { topic.part.shared.keys.slot() } else { 0 };
            by_slot.entry((*first_of.entry(slot).or_insert(at), slot)).or_default().push(at);
        }
        by_slot
            .into_values()
            .flat_map(|of_slot| of_slot.chunks(MOST_TOPICS).map(<[_]>::to_vec).collect::<Vec<_>>())
            .collect()
    }

    /// Ready when somebody may have published to one of these topics behind so many calls, and at the latest after a second.
    async fn wait_for_messages(&self, waits: &[(&Topic, u64)], until: Instant) -> Result<(), Error> {
        let topics: Vec<_> = waits.iter().map(|(topic, _)| (*topic).clone()).collect();
        let again = until.min(Instant::now() + LOOK_AGAIN);
        // The first wait that ends calls the others back: that keeps their connections.
        let (ended, enough) = watch::channel(false);
        let wait = |group: Vec<usize>| {
            let waits = group.iter().map(|&at| waits[at]).collect();
            self.wait_for_news_of(waits, again, &ended, &enough)
        };
        join_all(self.together(&topics).into_iter().map(wait)).await.into_iter().collect()
    }

    async fn wait_for_news_of(
        &self,
        waits: Vec<(&Topic, u64)>,
        again: Instant,
        ended: &watch::Sender<bool>,
        enough: &watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let Some((first, _)) = waits.first() else { return Ok(()) };
        let spelled: Vec<_> = waits.iter().map(|(topic, _)| topic.part.shared.keys.spell(Key::News)).collect();
        let streams: Vec<_> = spelled.iter().map(String::as_bytes).collect();
        let after: Vec<_> = waits.iter().map(|(_, calls)| *calls).collect();
        let (slot, pause) = (first.part.shared.keys.slot(), again.saturating_duration_since(Instant::now()));
        let woken = self.wait_for_news("pull", slot, &streams, &after, pause, Some(enough)).await;
        if woken.as_ref().is_err_and(|error| self.waits_again(WaitedBy::Reading, error)) {
            // The others go on waiting.
            let mut enough = enough.clone();
            let _ = tokio::time::timeout_at(again.into(), enough.wait_for(|is_enough| *is_enough)).await;
            return Ok(());
        }
        ended.send_replace(true);
        woken.map(drop).map_err(|error| first.error(error, "pull"))
    }
}

impl Topic {
    /// Messages for a member, oldest first: before all others those that were pulled and not acked within their lease. Who shares a
    /// subscription gets what the others have not got.
    ///
    /// Errors: `NotFound` for who has not subscribed; `CutOff` if messages went that this subscription had not read: the message says
    /// which, and [`Self::subscribe`] begins anew, [from the earliest](super::SubscribeOptions::from_earliest) with what is left.
    pub async fn pull(&self, member: &str, options: &PullOptions) -> Result<Vec<Message>, Error> {
        name::check_topic(member).and_then(|()| options.check()).map_err(|error| self.error(error, "pull"))?;
        let until = Instant::now() + options.wait.min(LONGEST_WAIT);
        let room = Room { most: options.max, max_bytes: MOST_BYTES };
        loop {
            let pulled = self.member_only(member, self.pull_once(member, options, room).await?, "pull")?;
            if !pulled.messages.is_empty() || Instant::now() >= until {
                return self.messages(member, pulled);
            }
            self.part.client.wait_for_messages(&[(self, pulled.calls)], until).await?;
        }
    }

    async fn pull_once(&self, member: &str, options: &PullOptions, room: Room) -> Pulled {
        pull_with_one_command(member, &[self], options, room).await?.pop().unwrap_or_else(|| Err(unexpected("a topic")))
    }

    fn messages(&self, member: &str, pulled: PulledTopic) -> Result<Vec<Message>, Error> {
        let read = |one| Message::of(self, member, one).map_err(|error| self.error(error, "pull"));
        pulled.messages.into_iter().map(read).collect()
    }
}

type Pulled = Result<Membership<PulledTopic>, Error>;

/// How much a command may bring.
#[derive(Debug, Clone, Copy)]
struct Room {
    most: usize,
    max_bytes: usize,
}

/// What each topic of a group gives.
async fn pull_of(member: &str, group: &[usize], topics: &[Topic], options: &PullOptions, room: Room) -> Vec<Pulled> {
    let of_group: Vec<_> = group.iter().map(|&at| &topics[at]).collect();
    let mut pulled = match pull_with_one_command(member, &of_group, options, room).await {
        Ok(pulled) => pulled,
        Err(error) => return vec![Err(error)],
    };
    for (topic, of_topic) in of_group.iter().zip(&mut pulled) {
        // Alone it gives the error itself.
        if of_topic.is_err() && group.len() > 1 {
            *of_topic = topic.pull_once(member, options, Room { most: 1, max_bytes: 1 }).await;
        }
    }
    pulled
}

async fn pull_with_one_command(
    member: &str,
    topics: &[&Topic],
    options: &PullOptions,
    room: Room,
) -> Result<Vec<Pulled>, Error> {
    let Some(first) = topics.first() else { return Ok(Vec::new()) };
    let pull = Pull {
        member: member.to_owned(),
        lease_ms: whole_ms(options.lease),
        again: Digits(0),
        call_id: host::random_id()?,
        most: room.most,
        max_bytes: room.max_bytes,
        topic_count: TopicKeys::of(topics.iter().map(|topic| topic.name())),
    };
    let reply = first.part.run(pull.with([])).await.map_err(|error| first.error(error, "pull"))?;
    if reply.0.len() != topics.len() {
        return Err(first.error(unexpected("one answer a topic"), "pull"));
    }
    let named = topics.iter().zip(reply.0);
    Ok(named.map(|(topic, pulled)| pulled.map_err(|error| topic.error(error, "pull"))).collect())
}
