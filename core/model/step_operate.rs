//! What operators do, and the scripts that only look.

use crate::script::{AliveReply, BeatReply, By, CountsReply, Due, FoundReply, Levels, PageReply, PeekedReply};

use super::command::{Answer, CallId, Passed, Refused};
use super::state::{JobState, Record, State, delayed_member};

/// The most bytes of records that one call reads.
pub(super) const MOST_BYTES: usize = 4 << 20;

impl State {
    /// Each beat also forgets the dead.
    pub(super) fn beat(&mut self, call: &CallId, worker: &str, life_ms: u64, info: &str) -> Result<Answer, Refused> {
        self.admit_format()?;
        if let Some(earlier) = self.earlier(call)? {
            let (unheard, trimmed) = earlier.split_once(' ').unwrap();
            let (unheard, trimmed) = (unheard.parse().unwrap(), trimmed.parse().unwrap());
            return Ok(Answer::Beat(BeatReply { unheard, trimmed, schedule_in: None }));
        }
        self.workers.remove(worker);
        if life_ms > 0 {
            self.workers.insert(worker.to_owned(), (self.clock + life_ms, info.to_owned()));
        }
        let now = self.clock;
        self.workers.retain(|_, (until, _)| *until > now);
        let trimmed = self.stats.get("trimmed").copied().unwrap_or(0);
        let reported = self.meta.trimmed_reported.unwrap_or(0);
        let is_news = life_ms > 0 && trimmed != reported;
        if is_news {
            self.meta.trimmed_reported = Some(trimmed);
        }
        let free = self.unheard.values().filter(|&&at| at <= now).count();
        let unheard = (free + self.meta.unheard.len()) as u64;
        let trimmed = if is_news { trimmed.saturating_sub(reported) } else { 0 };
        self.remember(call, format!("{unheard} {trimmed}"));
        Ok(Answer::Beat(BeatReply { unheard, trimmed, schedule_in: None }))
    }

    pub(super) fn alive(&self) -> Vec<AliveReply> {
        let alive = self.workers.iter().filter(|(_, (until, _))| *until > self.clock);
        let mut alive: Vec<_> = alive.map(|(id, (until, info))| (*until, id.clone(), info.clone())).collect();
        alive.sort();
        alive.into_iter().map(|(_, id, info)| AliveReply { id, info: info.into_bytes() }).collect()
    }

    pub(super) fn cancel(
        &mut self,
        passed: Passed,
        call: &CallId,
        by: By,
        only: &str,
        names: &[String],
    ) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit_shape(passed)?;
        let (mut cancelled, mut left_failed, mut bytes) = (0, 0, 0);
        let mut is_freed = false;
        let mut lines = Vec::new();
        for name in names {
            if bytes >= MOST_BYTES {
                lines.push("later".to_owned());
                continue;
            }
            let id = self.resolve(by, name);
            let is_there = id.as_ref().filter(|id| self.records.contains_key(*id));
            bytes += is_there.map_or(0, |id| self.size_of(id));
            if let Some(id) = is_there
                && !only.is_empty()
                && !only.split(' ').any(|state| state == self.state_of(id).name())
            {
                lines.push(format!("kept {} {id}", self.state_of(id).name()));
                continue;
            }
            let is_awaited = id.as_ref().and_then(|id| self.records.get(id)).is_some_and(Record::keeps_result);
            let found = id.and_then(|id| Some((self.remove(&id, None)?, id)));
            cancelled += usize::from(found.is_some());
            is_freed |= matches!(found, Some((JobState::Reserved, _)));
            left_failed += usize::from(matches!(found, Some((JobState::Failed, _))));
            let awaited = if is_awaited { "awaited " } else { "" };
            lines.push(found.map_or("absent".to_owned(), |(state, id)| format!("{awaited}{} {id}", state.name())));
        }
        self.count("cancelled", cancelled);
        self.shorten_line(left_failed);
        if is_freed {
            self.note_freed();
        }
        let reply = lines.join("\n");
        Ok(self.remember(call, reply))
    }

    fn resolve(&self, by: By, name: &str) -> Option<String> {
        match by {
            By::Id => Some(name.to_owned()),
            By::Key => self.keys.get(name).cloned(),
        }
    }

    pub(super) fn reschedule(
        &mut self,
        passed: Passed,
        call: &CallId,
        by: By,
        name: &str,
        due: Due,
    ) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit_shape(passed)?;
        let id = self.resolve(by, name).filter(|id| self.records.contains_key(id));
        let Some(id) = id else { return Ok(self.remember(call, "absent".to_owned())) };
        let level = self.records[&id].level;
        let state = self.state_of(&id);
        match (state, self.due_at(due)) {
            (JobState::Reserved | JobState::Failed, _) => {
                return Ok(self.remember(call, format!("{} {id}", state.name())));
            }
            (JobState::Ready, None) => {}
            (_, Some(at)) => {
                self.leave_state(&id, level, state, None);
                self.delayed.insert((id.clone(), level), at);
                self.wake_for(at);
            }
            (JobState::Delayed, None) => {
                self.leave_state(&id, level, state, None);
                self.put_at_tail(level, &id);
                self.wake_one();
            }
        }
        Ok(self.remember(call, format!("moved {id}")))
    }

    pub(super) fn requeue(&mut self, passed: Levels, call: &CallId, ids: &[String]) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit(passed)?;
        let limits = self.limits();
        let (mut requeued, mut bytes) = (0, 0);
        let mut lines = Vec::new();
        for id in ids {
            if bytes >= MOST_BYTES {
                lines.push("later".to_owned());
                continue;
            }
            let record = self.records.get(id).filter(|_| self.failed.contains_key(id)).cloned();
            let Some(record) = record else {
                lines.push("absent".to_owned());
                continue;
            };
            bytes += record.bytes().len();
            let holder = record.key.as_ref().and_then(|key| self.keys.get(key));
            if let Some(holder) = holder.filter(|holder| *holder != id) {
                lines.push(format!("duplicate {holder}"));
                continue;
            }
            if let Some(key) = record.key {
                self.keys.insert(key, id.clone());
            }
            self.failed.remove(id);
            self.returned.remove(id);
            self.put_at_tail(record.level, id);
            requeued += 1;
            lines.push("requeued".to_owned());
        }
        let reply = lines.join("\n");
        if requeued == 0 {
            return Ok(self.remember(call, reply));
        }
        self.count("requeued", requeued);
        self.shorten_line(requeued);
        self.note_use(passed, limits);
        self.wake_one();
        Ok(self.remember(call, reply))
    }

    pub(super) fn purge(
        &mut self,
        passed: Passed,
        call: &CallId,
        state: &str,
        cap: usize,
        latest: Option<u64>,
    ) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        let used = self.admit_shape(passed)?;
        let mut seen = 0;
        let mut ids = Vec::new();
        // Records are read.
        let (mut bytes_left, mut looked_at) = (MOST_BYTES, 0);
        let mut fitting = |state: &Self, ids: &[String]| {
            looked_at += ids.len();
            if state.meta.large || looked_at > 100 { state.fitting(ids, &mut bytes_left) } else { ids.len() }
        };
        match state {
            "ready" => {
                let mut is_cut = false;
                for level in used.iter() {
                    if is_cut || seen >= cap {
                        break;
                    }
                    let list = self.ready.get(&level).into_iter().flatten().take(cap - seen);
                    let all: Vec<_> = list.map(|entry| entry.id.clone()).collect();
                    let count = fitting(self, &all);
                    is_cut = count < all.len();
                    let entries: Vec<_> = self.ready.entry(level).or_default().drain(..count).collect();
                    seen += entries.len();
                    ids.extend(entries.into_iter().filter(|entry| entry.counts).map(|entry| entry.id));
                }
                let parked: Vec<_> = self.all_parked().into_iter().take(if is_cut { 0 } else { cap - seen }).collect();
                let count = fitting(self, &parked);
                for id in parked.into_iter().take(count) {
                    self.parked.remove(&id);
                    ids.push(id);
                    seen += 1;
                }
            }
            "delayed" => {
                let mut all: Vec<_> = self
                    .delayed
                    .iter()
                    .map(|((id, level), at)| (at, delayed_member(id, *level), (id, *level)))
                    .collect();
                all.sort();
                let mut first: Vec<_> =
                    all.into_iter().take(cap).map(|(_, _, (id, level))| (id.clone(), level)).collect();
                let all: Vec<_> = first.iter().map(|(id, _)| id.clone()).collect();
                first.truncate(fitting(self, &all));
                seen = first.len();
                for member in first {
                    self.delayed.remove(&member);
                    ids.push(member.0);
                }
            }
            "reserved" => {
                let mut all: Vec<_> = self.leases.iter().map(|(id, lease)| (lease.ends, id.clone())).collect();
                all.sort();
                all.truncate(cap);
                let first: Vec<_> = all.iter().map(|(_, id)| id.clone()).collect();
                all.truncate(fitting(self, &first));
                seen = all.len();
                for (_, id) in all {
                    self.leases.remove(&id);
                    self.places.remove(&id);
                    ids.push(id);
                }
            }
            _ => {
                let is_asked_for = |at: &u64| latest.is_none_or(|latest| *at <= latest);
                let failed = self.failed.iter().filter(|(_, at)| is_asked_for(at));
                let mut all: Vec<_> = failed.map(|(id, at)| (*at, id.clone())).collect();
                all.sort();
                all.truncate(cap);
                let first: Vec<_> = all.iter().map(|(_, id)| id.clone()).collect();
                all.truncate(fitting(self, &first));
                seen = all.len();
                for (_, id) in all {
                    self.failed.remove(&id);
                    ids.push(id);
                }
            }
        }
        let mut removed = 0;
        let mut awaited = String::new();
        for id in ids {
            if let Some(record) = self.records.remove(&id) {
                self.free_key(record.key.as_deref(), &id);
                removed += 1;
                if record.keeps_result() {
                    awaited = format!("{awaited}\n{id}");
                }
            }
            self.returned.remove(&id);
        }
        self.count("purged", removed);
        if state == "failed" {
            self.shorten_line(seen);
        }
        if state == "reserved" && removed > 0 {
            self.note_freed();
        }
        let reply = format!("{removed} {seen}{awaited}");
        Ok(self.remember(call, reply))
    }

    pub(super) fn pause(&mut self, passed: Levels, call: &CallId, pause: bool) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit(passed)?;
        let limits = self.limits();
        self.note_use(passed, limits);
        self.meta.paused = pause;
        if !pause {
            self.wake_one();
        }
        Ok(self.remember(call, "ok".to_owned()))
    }

    pub(super) fn configure(
        &mut self,
        passed: Levels,
        call: &CallId,
        failed_max: u64,
        failed_age_ms: u64,
    ) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit(passed)?;
        let limits = self.limits();
        self.note_use(passed, limits);
        self.meta.failed_max = Some(failed_max);
        self.meta.failed_age_ms = Some(failed_age_ms);
        Ok(self.remember(call, "ok".to_owned()))
    }

    pub(super) fn counts(&self) -> CountsReply {
        let number = |n: u64| i64::try_from(n).unwrap();
        let length = |n: usize| i64::try_from(n).unwrap();
        let lists = || Levels::ALL.iter().map(|level| self.ready.get(&level));
        let heads =
            lists().flatten().filter_map(|list| list.iter().find(|entry| entry.counts)).map(|entry| entry.id.clone());
        let bands = self.name_limits().flat_map(|limited| Levels::ALL.iter().map(|level| (limited.number, level)));
        let heads = heads.chain(bands.filter_map(|(number, level)| self.parked_of(number, level).into_iter().next()));
        CountsReply {
            now: number(self.clock),
            delayed: length(self.delayed.len()),
            ready: length(self.ready.values().flatten().filter(|entry| entry.counts).count() + self.parked.len()),
            reserved: length(self.leases.len()),
            failed: length(self.failed.len()),
            next_due: self.delayed.values().min().map(|&at| number(at)),
            next_lease_end: self.leases.values().map(|lease| number(lease.ends)).min(),
            paused: self.meta.paused,
            format: number(self.meta.format.unwrap_or(0)),
            entries_by_level: lists().map(|list| length(list.map_or(0, std::collections::VecDeque::len))).collect(),
            heads: heads.filter_map(|id| Some((id.clone(), self.records.get(&id)?.bytes()))).collect(),
            stats: self.stats.iter().map(|(name, &value)| (name.clone(), number(value))).collect(),
            limits: self.limits_reply(None),
        }
    }

    pub(super) fn peek(&self, state: &str, offset: usize, limit: usize) -> PageReply {
        let scored = |mut all: Vec<(u64, String, String)>| {
            all.sort();
            all.into_iter().map(|(at, _, id)| (id, Some(at), true)).collect::<Vec<_>>()
        };
        let all: Vec<(String, Option<u64>, bool)> = match state {
            "ready" => {
                let listed = self.ready.values().flatten().map(|entry| (entry.id.clone(), None, entry.counts));
                listed.chain(self.all_parked().into_iter().map(|id| (id, None, true))).collect()
            }
            "delayed" => scored(
                self.delayed.iter().map(|((id, level), &at)| (at, delayed_member(id, *level), id.clone())).collect(),
            ),
            "reserved" => scored(self.leases.iter().map(|(id, l)| (l.ends, id.clone(), id.clone())).collect()),
            _ => scored(self.failed.iter().map(|(id, &at)| (at, id.clone(), id.clone())).collect()),
        };
        let page = all.into_iter().filter(|(_, _, counts)| *counts).skip(offset).take(limit);
        let (mut jobs, mut bytes, mut ends_at) = (Vec::new(), 0, None);
        for (index, (id, at, _)) in page.enumerate() {
            jobs.extend(self.peeked(&id, at));
            bytes += self.size_of(&id);
            if bytes >= MOST_BYTES {
                ends_at = Some(index + 1);
                break;
            }
        }
        PageReply { jobs, ends_at, next: None }
    }

    fn peeked(&self, id: &str, at: Option<u64>) -> Option<PeekedReply> {
        Some(PeekedReply {
            id: id.to_owned(),
            score: at.map(|at| i64::try_from(at).unwrap()),
            record: self.records.get(id)?.bytes(),
            came_back: self.returned.get(id).map(|note| note.text().into_bytes()).unwrap_or_default(),
        })
    }

    pub(super) fn find(&self, by: By, name: &str) -> Option<FoundReply> {
        let id = self.resolve(by, name)?;
        let level = self.records.get(&id)?.level;
        let state = self.state_of(&id);
        let at = match state {
            JobState::Delayed => self.delayed.get(&(id.clone(), level)).copied(),
            JobState::Reserved => Some(self.leases[&id].ends),
            JobState::Failed => Some(self.failed[&id]),
            JobState::Ready => None,
        };
        Some(FoundReply {
            state: state.name().to_owned(),
            job: self.peeked(&id, at)?,
            token: self.leases.get(&id).map(|lease| lease.token),
            now: i64::try_from(self.clock).unwrap(),
            paused: self.meta.paused,
            limits: self.limits_reply(Some(&id)),
        })
    }
}
