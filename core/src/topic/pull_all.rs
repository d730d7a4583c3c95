//! Pulling from all topics of a member: one command for those of a slot, and one wait. In a cluster no server waits for another one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{timeout, timeout_at};

use super::pull::{MOST_BYTES, PullOptions, Room, pull_of};
use super::{Message, ON_THE_WAY, Topic, cut_off, stranger};
use crate::connection::WaitedBy;
use crate::process::host;
use crate::queue::{Client, HeldPulls, KeptFailure, KeptMessage, LatePull, Pulled};
use crate::script::{Key, Membership, PulledMessage};
use crate::value::error::{Error, ErrorKind};
use crate::value::time::LONGEST_WAIT;

/// For so many topics is one command.
const MOST_TOPICS: usize = 200;
/// So many slots of a cluster are asked at once: each may give a message that is as large as can be.
const MOST_SLOTS: usize = 16;
/// Who waits looks again after this long at the latest: what others have pulled comes back without a wake-up, and a failover loses some.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// So long a server of a cluster holds up what others gave.
const GRACE: Duration = Duration::from_millis(200);

impl Client {
    /// Pulls from all topics of a member, `max` messages and about 4 MB together. One call for all topics, in a cluster one a slot; a wait
    /// ends with the first message in any of them. Each call begins with the topic behind the one that was served last, so none is left
    /// out. A topic of which the member has been cut off gives its error when no other has messages; so does a server of a cluster that
    /// does not answer. It holds up no other: its answer is waited for while these give messages, and what it gives comes with a later call
    /// of this client.
    ///
    /// Errors: as [`Topic::pull`]; `NotFound` for a member without topics, and once for each topic of which it is no member any more
    /// though it did not unsubscribe: somebody has deleted the topic, the server has lost it, or the member was silent for too long.
    pub async fn pull(&self, member: &str, options: &PullOptions) -> Result<Vec<Message>, Error> {
        options.check().map_err(|error| error.during("pull"))?;
        let until = Instant::now() + options.wait.min(LONGEST_WAIT);
        if let Some(failure) = self.held_pulls().take_failure(member, None) {
            return Err(self.say(member, failure).await?);
        }
        let mut round = Round::new(self, member, options);
        loop {
            let (noted, is_known) = self.known_topics(member).await?;
            round.begin(noted, is_known)?;
            round.take_kept();
            round.take_late().await;
            round.ask().await;
            round.take_late().await;
            if let Some(ended) = round.end().await? {
                return Ok(ended);
            }
            let is_late = !round.late.is_empty();
            if !is_late && Instant::now() >= until {
                return Ok(Vec::new());
            }
            let again = if is_late { Instant::now() + LOOK_AGAIN } else { until };
            let Round { late, waits, .. } = &mut round;
            tokio::select! {
                () = LatePull::answered(late, |here| here > 0), if is_late => {}
                waited = self.wait_for_messages(waits, again), if !waits.is_empty() => waited?,
            }
        }
    }

    fn held_pulls(&self) -> &HeldPulls {
        &self.shared.pulls
    }

    /// The error to give to the caller.
    async fn say(&self, member: &str, failure: KeptFailure) -> Result<Error, Error> {
        if let Some(tag) = &failure.leaves {
            self.forget_topic(member, &failure.topic, tag).await?;
        }
        Ok(failure.into_error())
    }

    /// The topics of a member with their tags, and whether they are those of now: of a cluster the server that has the list may not answer,
    /// and must not hold up the others.
    async fn known_topics(&self, member: &str) -> Result<(Vec<(String, String)>, bool), Error> {
        let mut asking = pin!(self.noted_topics(member));
        if self.waits_together() {
            return Ok((asking.await?, true));
        }
        let held = self.held_pulls();
        let noted = match (timeout(GRACE, asking.as_mut()).await, held.topics(member)) {
            (Ok(Err(error)), Some(topics)) if error.is_transient() => return Ok((topics, false)),
            (Err(_), Some(topics)) => return Ok((topics, false)),
            (Ok(noted), _) => noted?,
            (Err(_), None) => asking.await?,
        };
        if !self.waits_together() {
            held.note_topics(member, &noted);
        }
        Ok((noted, true))
    }

    /// Puts those first that come behind the topic that was served last. The first time chance decides: a program that pulls once must
    /// not always serve the same.
    fn take_turns(&self, noted: &mut [(String, String)]) {
        let last = self.held_pulls().served_last();
        let first = if last.is_empty() {
            host::random_below(noted.len())
        } else {
            noted.partition_point(|(name, _)| *name <= *last)
        };
        noted.rotate_left(first.min(noted.len()));
    }

    /// The indexes of the topics that one command can be about, in their order: those of a slot, or any where there is no cluster.
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
    pub(super) async fn wait_for_messages(&self, waits: &[(Topic, u64)], until: Instant) -> Result<(), Error> {
        let topics: Vec<_> = waits.iter().map(|(topic, _)| topic.clone()).collect();
        let again = until.min(Instant::now() + LOOK_AGAIN);
        // The first wait that ends calls the others back: that keeps their connections.
        let (ended, enough) = watch::channel(false);
        let wait = |group: Vec<usize>| {
            let waits = group.iter().map(|&at| (&waits[at].0, waits[at].1)).collect();
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
        woken.map(drop).map_err(first.during("pull"))
    }
}

/// What a pull has got so far. What is under way when it ends is kept for the next one of this member.
struct Round<'a> {
    client: &'a Client,
    member: &'a str,
    options: &'a PullOptions,
    /// In their order, and each with its tag.
    topics: Vec<Topic>,
    tags: HashMap<String, String>,
    is_known: bool,
    late: Vec<LatePull>,
    messages: Vec<Message>,
    waits: Vec<(Topic, u64)>,
    /// What comes again if it is not said.
    passing: Option<Error>,
    failures: Vec<KeptFailure>,
    /// With their tags.
    left: Vec<(String, String)>,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.client.held_pulls().keep_late(self.member, std::mem::take(&mut self.late));
    }
}

impl<'a> Round<'a> {
    fn new(client: &'a Client, member: &'a str, options: &'a PullOptions) -> Self {
        Self {
            client,
            member,
            options,
            topics: Vec::new(),
            tags: HashMap::new(),
            is_known: true,
            late: client.held_pulls().take_late(member),
            messages: Vec::new(),
            waits: Vec::new(),
            passing: None,
            failures: Vec::new(),
            left: Vec::new(),
        }
    }

    fn begin(&mut self, mut noted: Vec<(String, String)>, is_known: bool) -> Result<(), Error> {
        noted.sort();
        self.client.take_turns(&mut noted);
        self.topics = noted.iter().map(|(name, _)| self.client.topic(name)).collect::<Result<_, _>>()?;
        self.tags = noted.into_iter().collect();
        self.is_known = is_known;
        self.waits.clear();
        Ok(())
    }

    fn topic(&self, name: &str) -> Option<Topic> {
        self.tags.contains_key(name).then(|| self.client.topic(name).ok()).flatten()
    }

    fn take_kept(&mut self) {
        for KeptMessage { topic, message, .. } in self.client.held_pulls().take_kept(self.member, self.options.max) {
            // Whoever has unsubscribed has given it to others.
            if let Some(topic) = self.topic(&topic) {
                self.read(&topic, vec![message]);
            }
        }
    }

    /// Takes what has come of the calls that were late.
    async fn take_late(&mut self) {
        LatePull::answered(&mut self.late, |_| true).await;
        for (late, pulled) in LatePull::take_answered(&mut self.late) {
            let until = late.leased_until();
            let is_over = Instant::now() >= until;
            for (name, pulled) in late.topics.iter().zip(pulled) {
                let Some(topic) = self.topic(name) else { continue };
                match pulled {
                    // It may be another member's by now.
                    Ok(Membership::Member(_)) if is_over => {}
                    pulled => self.take_in(&topic, pulled, until),
                }
            }
        }
    }

    /// Asks each topic of which no answer is late. Who has more is asked again, as long as there is room.
    async fn ask(&mut self) {
        let is_asked = |slot: u16| self.late.iter().any(|late| late.slot == slot);
        let topics: Vec<_> = self.topics.iter().filter(|topic| !is_asked(topic.slot())).cloned().collect();
        let groups = self.client.together(&topics);
        let mut groups: VecDeque<Vec<Topic>> =
            groups.into_iter().map(|group| group.into_iter().map(|at| topics[at].clone()).collect()).collect();
        let mut max_bytes = MOST_BYTES;
        loop {
            let most = self.options.max.saturating_sub(self.messages.len());
            if groups.is_empty() || most == 0 || max_bytes == 0 {
                return;
            }
            let asked: Vec<_> = groups.drain(..groups.len().min(MOST_SLOTS).min(most)).collect();
            let room = Room { most: most / asked.len(), max_bytes: max_bytes / asked.len() };
            for (group, answer) in self.answers(asked, room).await {
                let (mut given, mut has_more) = (0, false);
                let until = Instant::now() + self.options.lease;
                for (topic, of_topic) in group.iter().zip(answer) {
                    if let Ok(Membership::Member(of_topic)) = &of_topic {
                        given += of_topic.messages.len();
                        has_more |= of_topic.has_more;
                        let bytes: usize = of_topic.messages.iter().map(|message| message.data.len()).sum();
                        max_bytes = max_bytes.saturating_sub(bytes);
                    }
                    self.take_in(topic, of_topic, until);
                }
                if has_more && given > 0 {
                    groups.push_back(group);
                }
            }
        }
    }

    /// What each group gives. In a cluster those that take longer than others are late.
    async fn answers(&mut self, asked: Vec<Vec<Topic>>, room: Room) -> Vec<(Vec<Topic>, Vec<Pulled>)> {
        let (member, options) = (self.member, self.options);
        if self.client.waits_together() {
            let answers = join_all(asked.iter().map(|group| pull_of(member, group, options, room))).await;
            return asked.into_iter().zip(answers).collect();
        }
        let mut calls: Vec<_> = asked
            .iter()
            .map(|group| {
                let names = group.iter().map(|topic| topic.name().to_owned()).collect();
                let (member, group, options) = (member.to_owned(), group.clone(), options.clone());
                let slot = group[0].slot();
                let call = tokio::spawn(async move { pull_of(&member, &group, &options, room).await });
                LatePull::new(slot, names, self.options.lease, call)
            })
            .collect();
        let before = self.late.len();
        // Here already, so that nothing is lost if the caller goes away.
        self.late.append(&mut calls);
        let all = asked.len();
        let grace = tokio::time::Instant::now() + GRACE;
        let _ = timeout_at(grace, LatePull::answered(&mut self.late[before..], |here| here == all)).await;
        let mut new = self.late.split_off(before);
        let here = LatePull::take_answered(&mut new);
        self.late.append(&mut new);
        let by_name: HashMap<_, _> = asked.iter().flatten().map(|topic| (topic.name(), topic)).collect();
        let group_of =
            |late: &LatePull| late.topics.iter().filter_map(|name| by_name.get(&**name).copied().cloned()).collect();
        here.into_iter().map(|(late, pulled)| (group_of(&late), pulled)).collect()
    }

    fn take_in(&mut self, topic: &Topic, pulled: Pulled, until: Instant) {
        match pulled {
            Ok(Membership::Member(mut pulled)) => {
                self.waits.retain(|(other, _)| other.name() != topic.name());
                self.waits.push((topic.clone(), pulled.calls));
                let room = self.options.max.saturating_sub(self.messages.len());
                let rest = pulled.messages.split_off(room.min(pulled.messages.len()));
                let keep = |message| KeptMessage { topic: topic.name().to_owned(), message, until };
                self.client.held_pulls().keep_messages(self.member, rest.into_iter().map(keep).collect());
                self.read(topic, pulled.messages);
            }
            Ok(Membership::CutOff(reply)) => {
                let error = topic.during("pull")(cut_off(self.member, &reply));
                self.passing.get_or_insert(error);
            }
            Ok(Membership::Stranger) => self.take_stranger(topic),
            Err(error) => {
                self.passing.get_or_insert(error);
            }
        }
    }

    fn take_stranger(&mut self, topic: &Topic) {
        let Some(tag) = self.tags.get(topic.name()).filter(|_| self.is_known) else { return };
        if tag.starts_with(ON_THE_WAY) {
            self.left.push((topic.name().to_owned(), tag.clone()));
            return;
        }
        let error = topic.during("pull")(stranger(self.member));
        let failure = KeptFailure::of_leaving(topic.name(), tag, error);
        KeptFailure::add(&mut self.failures, failure);
    }

    fn read(&mut self, topic: &Topic, messages: Vec<PulledMessage>) {
        let (mut messages, failed) = topic.messages(self.member, messages);
        self.messages.append(&mut messages);
        if let Some(failure) = failed {
            KeptFailure::add(&mut self.failures, failure);
        }
    }

    /// What the caller gets, if it gets anything.
    async fn end(&mut self) -> Result<Option<Vec<Message>>, Error> {
        let held = self.client.held_pulls();
        let mut failures = std::mem::take(&mut self.failures).into_iter();
        if let Some(last) = self.messages.last() {
            last.topic().clone_into(&mut held.served_last());
            failures.for_each(|failure| held.keep_failure(self.member, failure));
            return Ok(Some(std::mem::take(&mut self.messages)));
        }
        for (topic, tag) in std::mem::take(&mut self.left) {
            self.client.forget_topic(self.member, &topic, &tag).await?;
        }
        if let Some(failure) = failures.next() {
            failures.for_each(|failure| held.keep_failure(self.member, failure));
            return Err(self.client.say(self.member, failure).await?);
        }
        if let Some(error) = self.passing.take() {
            return Err(error);
        }
        if self.waits.is_empty() && self.late.is_empty() {
            let message = format!("the member '{}' has no topics: subscribe to one first", self.member);
            return Err(Error::new(ErrorKind::NotFound, message).during("pull"));
        }
        Ok(None)
    }
}
