//! `reserve`, and the rounds that it makes on the way: `promote` and `reclaim`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::script::{GrantedJob, Levels, MemoryRenewal, ReserveReply, ReserveStatus};

use super::command::{Answer, Passed, Refused, ReserveCall};
use super::limits::Room;
use super::state::{Entry, Lease, State, delayed_member};
use super::step_operate::MOST_BYTES;

const WORKER_LOST: &str = "lease ended: the worker died, hung or lost the server";
const NOT_COUNTED: &str =
    "lease ended: the worker died, hung or lost the server; not counted, because the job may not have started";
const UNKNOWN: &str = "lease ended: worker died, outcome unknown";
/// Leases of what is fetched ahead have multiples of this as tokens, and no others have.
pub(super) const AHEAD: u64 = 16;
/// How long a reserve leaves alone what is over and was spared.
const SPARED_MS: u64 = 1000;
/// The most leases that one reserve takes back.
const RECLAIM_CAP: usize = 100;
/// The most due jobs that one reserve promotes above four times what it wants, and in all where some are more urgent than others.
const PROMOTE_CAP: usize = 100;
const PROMOTE_CAP_OF_LEVELS: usize = 1000;
/// A ready list is read in chunks of at most this many entries.
const CHUNK: usize = 100;
/// So many entries that no longer count go in one call, and up to as many more as are looked at together.
pub(super) const STALE_RUN: usize = 1000;

/// How many at the head of a list no longer count, as far as a call takes them away together.
pub(super) fn stale_run(list: &VecDeque<Entry>, left: &mut usize) -> usize {
    let leading = list.iter().take_while(|entry| !entry.counts).count();
    let (mut run, mut chunk) = (0, 10);
    while *left > 0 {
        let more = chunk.min(leading - run);
        run += more;
        *left = left.saturating_sub(more);
        if more < chunk {
            break;
        }
        chunk = CHUNK;
    }
    run
}

struct Reclaimed {
    count: usize,
    is_cut: bool,
    /// Who failed, and may have been waited for.
    awaited: Vec<String>,
}

pub(super) fn promote_cap(used: Levels, want: usize) -> usize {
    let cap = 4 * want + PROMOTE_CAP;
    if used.iter().count() > 1 { cap.max(PROMOTE_CAP_OF_LEVELS) } else { cap }
}

impl State {
    pub(super) fn reserve(&mut self, passed: Passed, reserve: &ReserveCall) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(&reserve.call)? {
            return Ok(Answer::Reserved(self.granted_again(&earlier, reserve.ahead)));
        }
        let used = self.admit_shape(passed)?;
        let limits = self.limits();
        self.meta.large &= !self.records.is_empty();
        let was_large = self.meta.large;
        self.note_set_back();
        let settled = self.settle_outcomes(&reserve.outcomes);
        let awaited = if reserve.spares { Vec::new() } else { self.reclaim_ended(RECLAIM_CAP, was_large).awaited };
        self.promote_due(promote_cap(used, reserve.want));
        self.forget_limits(passed.levels, limits);
        self.forget_other_rates();
        let room = self.room();
        let want = reserve.want.min(room.total().unwrap_or(usize::MAX));
        let (ids, is_stopped) =
            if self.meta.paused { (Vec::new(), false) } else { self.take_ready(used, reserve, want, was_large) };
        if ids.is_empty() {
            let reply = self.reserve_nothing(reserve, settled, is_stopped, room);
            return Ok(Answer::Reserved(ReserveReply { awaited, ..reply }));
        }
        let reply = self.grant(used, reserve, settled, &ids, room);
        Ok(Answer::Reserved(ReserveReply { awaited, ..reply }))
    }

    /// What the first sending was answered, as far as it is still true: the jobs that are still held under that token, and of
    /// those that were fetched ahead the ones whose lease is not over.
    fn granted_again(&self, earlier: &str, ahead: bool) -> ReserveReply {
        let mut parts = earlier.splitn(3, ' ');
        let settled = parts.next().unwrap().to_owned();
        let token = parts.next().unwrap().parse().unwrap_or(0);
        let is_held = |lease: &Lease| lease.token == token && (!ahead || lease.ends > self.clock);
        let ids = parts.next().unwrap().split('\n').filter(|id| self.leases.get(*id).is_some_and(is_held));
        let jobs: Vec<_> = ids.map(|id| self.granted_job(id)).collect();
        let status = if jobs.is_empty() { ReserveStatus::None } else { ReserveStatus::Jobs };
        let is_behind = !jobs.is_empty() && token > self.now_us();
        ReserveReply {
            status,
            settled,
            token,
            next_in: None,
            promised: 0,
            behind_token: if is_behind { self.clock } else { 0 },
            limited: self.is_limited(),
            has_options: self.is_limited(),
            jobs,
            awaited: Vec::new(),
            dropped: None,
        }
    }

    fn is_limited(&self) -> bool {
        self.meta.limits.is_some()
    }

    fn granted_job(&self, id: &str) -> GrantedJob {
        GrantedJob {
            id: id.to_owned(),
            foreign_id: None,
            record: self.records[id].bytes(),
            came_back: self.returned.get(id).map(|note| note.text().into_bytes()).unwrap_or_default(),
        }
    }

    /// Takes what limits of names held back and let run now, and then entries from the heads of the ready lists, level 0
    /// first: skips what no longer counts, parks what limits of names hold back, stops at `want` jobs (what the limits leave
    /// of what is asked for), before the job that would make more than `max_bytes` (but always takes one), and when it has
    /// looked at many entries of a list; says whether this last thing stopped it.
    fn take_ready(
        &mut self,
        used: Levels,
        reserve: &ReserveCall,
        want: usize,
        some_large: bool,
    ) -> (Vec<String>, bool) {
        let mut taken = Vec::new();
        let mut bytes = 0;
        let mut stale_left = STALE_RUN;
        let mut rooms = self.rooms();
        let numbers: Vec<u64> = self.name_limits().map(|limited| limited.number).collect();
        for level in used.iter() {
            let is_too_much =
                |looked_at: usize, bytes: usize| looked_at >= 10 * want + 100 || bytes > reserve.max_bytes;
            for &number in &numbers {
                let (mut looked_at, mut parked_bytes) = (0, 0);
                loop {
                    let waiting = self.parked_of(number, level);
                    let room = usize::try_from(rooms[&number]).unwrap_or(usize::MAX);
                    if waiting.is_empty() {
                        break;
                    }
                    let fitting = self.fitting_of(&waiting, reserve.max_bytes.saturating_sub(bytes), some_large);
                    let chunk = waiting.len().min(CHUNK).min(want - taken.len()).min(room).min(fitting.max(1));
                    if chunk == 0 {
                        break;
                    }
                    looked_at += chunk;
                    for id in &waiting[..chunk] {
                        let more = self.records[id].bytes().len();
                        // What lost limits parked counts by its name again.
                        let own = self.number_of(id).unwrap_or(number);
                        let room = rooms.get_mut(&own).unwrap();
                        if *room == 0 {
                            parked_bytes += more;
                            self.park(id, own, level);
                            continue;
                        }
                        if !taken.is_empty() && bytes + more > reserve.max_bytes {
                            return (taken, false);
                        }
                        self.parked.remove(id);
                        *room -= 1;
                        bytes += more;
                        taken.push(id.clone());
                    }
                    if waiting.len() > chunk && is_too_much(looked_at, parked_bytes) {
                        return (taken, true);
                    }
                }
            }
            let (mut looked_at, mut parked_bytes) = (0, 0);
            while taken.len() < want {
                let list = self.ready.entry(level).or_default();
                if !list.is_empty() && is_too_much(looked_at, parked_bytes) {
                    return (taken, true);
                }
                let run = stale_run(list, &mut stale_left);
                list.drain(..run);
                let ids: Vec<_> =
                    list.iter().take(CHUNK.min(want - taken.len())).map(|entry| entry.id.clone()).collect();
                if ids.is_empty() {
                    break;
                }
                let fitting = self.fitting_of(&ids, reserve.max_bytes.saturating_sub(bytes), some_large);
                let list = self.ready.entry(level).or_default();
                let chunk = list.len().min(CHUNK).min(want - taken.len()).min(fitting.max(1));
                looked_at += chunk;
                for _ in 0..chunk {
                    let list = self.ready.entry(level).or_default();
                    let entry = list.front().unwrap().clone();
                    if let Some(record) = self.records.get(&entry.id).filter(|_| entry.counts) {
                        let more = record.bytes().len();
                        let number = self.number_of(&entry.id);
                        if let Some(number) = number.filter(|number| rooms[number] == 0) {
                            parked_bytes += more;
                            self.park(&entry.id, number, level);
                        } else {
                            if !taken.is_empty() && bytes + more > reserve.max_bytes {
                                return (taken, false);
                            }
                            bytes += more;
                            taken.push(entry.id.clone());
                            if let Some(room) = number.and_then(|number| rooms.get_mut(&number)) {
                                *room -= 1;
                            }
                        }
                    }
                    self.ready.entry(level).or_default().pop_front();
                }
            }
        }
        (taken, false)
    }

    /// Of how many the records are read at once: each is asked for its size where there may be large ones, else the first
    /// one stands for all.
    fn fitting_of(&self, ids: &[String], most: usize, some_large: bool) -> usize {
        if some_large { self.fitting(ids, &mut most.clone()) } else { most / self.size_of(&ids[0]).max(1) }
    }

    fn grant(
        &mut self,
        used: Levels,
        reserve: &ReserveCall,
        settled: String,
        ids: &[String],
        room: Room,
    ) -> ReserveReply {
        // Larger than every token before, and following the clock.
        let last = self.meta.token.unwrap_or(0);
        let behind_token = if last >= self.now_us() { self.clock } else { 0 };
        let after_last = self.now_us().max(last + 1);
        let token = if reserve.ahead {
            after_last.next_multiple_of(AHEAD)
        } else {
            after_last + u64::from(after_last.is_multiple_of(AHEAD))
        };
        self.meta.token = Some(token);
        let lease = Lease { ends: self.after(reserve.lease_ms), token };
        for id in ids {
            self.leases.insert(id.clone(), lease);
            self.take_place(id);
        }
        // Whoever promised to come back is busy now.
        let gave_back = reserve.promise > 0 && self.meta.timer == Some(reserve.promise);
        if gave_back {
            self.meta.timer = None;
        }
        self.charge_rates(ids);
        let some_ready = used.iter().any(|level| self.ready.get(&level).is_some_and(|list| !list.is_empty()));
        let left_behind = some_ready || self.is_some_takeable();
        let next_due = self.delayed.values().min().copied();
        // Of the leases only those of others, that end before these.
        let some_ends = gave_back && self.leases.values().any(|other| other.ends < lease.ends);
        let unawaited = reserve.wait_ms > 0 && (some_ends || next_due.is_some_and(|due| !self.is_awaited(due)));
        // What a limit holds back nobody can take, but somebody must be there when a rate lets the next one start.
        let is_at_limit = room.total() == Some(ids.len());
        let opens = if left_behind { Some(self.now_us()) } else { self.next_start_us() };
        let opens = match opens {
            Some(opens) if is_at_limit => room.waits_for_rate(ids.len()).then(|| opens.max(self.opens_us())),
            opens => opens,
        };
        let is_open = |opens| opens <= self.now_us();
        let takeable = opens.is_some_and(|opens| is_open(opens) || !self.is_awaited(opens.div_ceil(1000)));
        if takeable || unawaited {
            self.wake_one();
        }
        let jobs = ids.iter().map(|id| self.granted_job(id)).collect();
        self.remember(&reserve.call, format!("{settled} {token} {}", ids.join("\n")));
        let limited = self.is_limited();
        ReserveReply {
            status: ReserveStatus::Jobs,
            settled,
            token,
            next_in: None,
            promised: 0,
            behind_token,
            limited,
            has_options: limited,
            jobs,
            awaited: Vec::new(),
            dropped: None,
        }
    }

    fn reserve_nothing(
        &mut self,
        reserve: &ReserveCall,
        settled: String,
        is_stopped: bool,
        room: Room,
    ) -> ReserveReply {
        let next_end = self.leases.values().map(|lease| lease.ends).min();
        // Whoever spares what is over looks again in a second.
        let next_end = next_end.map(|ends| if reserve.spares { ends.max(self.clock + SPARED_MS) } else { ends });
        let mut next_due = self.delayed.values().min().copied();
        let mut opens = None;
        if reserve.want > 0 && !self.meta.paused {
            opens = self.next_start_us();
        }
        if reserve.want > 0 && room.is_none() && !self.meta.paused {
            // What is due waits as what is ready does.
            let some_ready = self.ready.values().any(|list| !list.is_empty()) || self.is_some_takeable();
            let some_due = next_due.is_some_and(|due| due <= self.clock);
            next_due = next_due.filter(|_| !some_due);
            opens = if some_ready || some_due { Some(self.now_us()) } else { opens };
            opens = opens.filter(|_| room.waits_for_rate(0)).map(|opens| opens.max(self.opens_us()));
        }
        let next_us = next_due.into_iter().chain(next_end).min().map(|next| next * 1000).into_iter().chain(opens).min();
        let next = next_us.map(|next| next.div_ceil(1000));
        let mut promised = 0;
        let ours = reserve.promise > 0 && self.meta.timer == Some(reserve.promise);
        if is_stopped {
            self.wake_one();
        } else if let Some(next) = next.filter(|&next| reserve.wait_ms > 0 && (ours || !self.is_awaited(next))) {
            // The first waiter that sees the next moment promises to be back for it.
            promised = next.min(self.clock + reserve.wait_ms).max(self.clock + 1);
            self.meta.timer = Some(promised);
        }
        if !is_stopped && promised == 0 && ours {
            // It leaves, or has nothing to come back for: nobody must count on it.
            self.meta.timer = None;
            if reserve.wait_ms == 0 {
                self.wake_one();
            }
        }
        if !is_stopped && reserve.want == 0 && settled.contains('1') {
            self.note_freed();
        }
        if !settled.is_empty() || reserve.call.renewal != MemoryRenewal::No {
            self.remember(&reserve.call, format!("{settled}  "));
        }
        let next_us = next_us.filter(|_| !is_stopped);
        let next_in = next_us.map(|next| Duration::from_micros(next.saturating_sub(self.now_us())));
        let status = match next_in {
            _ if self.meta.paused => ReserveStatus::Paused,
            Some(Duration::ZERO) => ReserveStatus::Unfinished,
            _ if is_stopped => ReserveStatus::Unfinished,
            _ => ReserveStatus::None,
        };
        let limited = self.is_limited();
        ReserveReply {
            status,
            settled,
            token: 0,
            next_in,
            promised,
            behind_token: 0,
            limited,
            has_options: limited,
            jobs: Vec::new(),
            awaited: Vec::new(),
            dropped: None,
        }
    }

    pub(super) fn promote(&mut self, passed: Levels, cap: usize) -> Result<Answer, Refused> {
        self.admit(passed)?;
        let promoted = self.promote_due(cap);
        if promoted > 0 {
            self.wake_one();
        }
        Ok(Answer::Count(promoted as u64))
    }

    /// Due jobs to the tails of their ready lists, the oldest due first.
    fn promote_due(&mut self, cap: usize) -> usize {
        let due = self.delayed.iter().filter(|&(_, &at)| at <= self.clock);
        let mut due: Vec<_> =
            due.map(|((id, level), &at)| (at, delayed_member(id, *level), id.clone(), *level)).collect();
        due.sort();
        due.truncate(cap);
        for (_, _, id, level) in &due {
            self.delayed.remove(&(id.clone(), *level));
            self.put_at_tail(*level, id);
        }
        due.len()
    }

    pub(super) fn reclaim(&mut self, passed: Passed, cap: usize) -> Result<Answer, Refused> {
        self.admit_shape(passed)?;
        self.note_set_back();
        let reclaimed = self.reclaim_ended(cap, self.meta.large);
        if reclaimed.count > 0 {
            self.wake_one();
        }
        let mut lines = vec![format!("{} {}", reclaimed.count, u8::from(reclaimed.is_cut))];
        lines.extend(reclaimed.awaited);
        Ok(Answer::Text(lines.join("\n")))
    }

    /// Leases that are over, the oldest first, back to the heads of their lists in that order; a job with no retries left has
    /// failed. `some_large`: not more than so many bytes of records.
    fn reclaim_ended(&mut self, cap: usize, some_large: bool) -> Reclaimed {
        let ended = self.leases.iter().filter(|(_, lease)| lease.ends <= self.clock);
        let mut ended: Vec<_> = ended.map(|(id, lease)| (lease.ends, id.clone())).collect();
        ended.sort();
        ended.truncate(cap);
        let found = ended.len();
        if some_large {
            let ids: Vec<_> = ended.iter().map(|(_, id)| id.clone()).collect();
            ended.truncate(self.fitting(&ids, &mut MOST_BYTES.clone()));
        }
        let mut awaited = Vec::new();
        let mut gave_up = 0;
        for (_, id) in ended.iter().rev() {
            let lease = self.leases.remove(id).unwrap();
            let place = self.places.remove(id);
            let Some(record) = self.records.get(id).cloned() else { continue };
            if self.lease_ended(id, lease.token, record.max_retries) {
                self.enter_failed(id, record.key.as_deref());
                self.note_unheard(id);
                gave_up += 1;
                awaited.extend(record.keeps_result().then(|| id.clone()));
            } else {
                self.put_back(id, record.level, place);
            }
        }
        self.count("reclaimed", ended.len());
        self.count("failed", gave_up);
        if gave_up > 0 {
            self.trim_failed(gave_up);
        }
        Reclaimed { count: ended.len(), is_cut: ended.len() < found, awaited }
    }

    /// Counts as a failure what had started: by hand at once, else where its worker said so. Says whether that was the last.
    fn lease_ended(&mut self, id: &str, token: u64, max_retries: u64) -> bool {
        let note = self.returned.entry(id.to_owned()).or_default();
        let has_started = !token.is_multiple_of(AHEAD) || note.is_started;
        if !has_started && !note.is_suspect && max_retries > 0 {
            NOT_COUNTED.clone_into(&mut note.error);
        }
        note.is_suspect = true;
        let lost = if max_retries == 0 { UNKNOWN } else { WORKER_LOST };
        has_started && self.came_back(id, true, lost) > max_retries
    }
}
