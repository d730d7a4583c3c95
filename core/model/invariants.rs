//! What must be true of a queue after every step, and of every step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::script::{GrantedJob, MemoryRenewal, ReserveReply, ReserveStatus};

use super::command::{Answer, Became, Command, Outcome, Sent};
use super::limits::{Limit, Limited, Limits};
use super::state::{JobState, Lease, State};
use super::step_reserve::promote_cap;
use super::world::USERS_IDS;

/// What only the past can tell.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The largest token that a job was ever granted.
    tokens: BTreeMap<String, u64>,
    /// Larger ones were granted since `meta`, which has the last one, was lost.
    forgotten: u64,
    /// Jobs that were acked, and not pushed again since.
    acked: BTreeSet<String>,
    /// Jobs that another one replaced.
    replaced: u64,
    /// Calls that had their answer: client, slot and number.
    answered: BTreeSet<(String, usize, u64)>,
    /// When jobs started under each rate that is set, by the number of the limit, in us.
    starts: BTreeMap<u64, Vec<u64>>,
    limits: Vec<Limited>,
    /// Leases, by job and token, under which a job has started.
    started: BTreeSet<(String, u64)>,
    /// In us.
    clock: u64,
}

macro_rules! ensure {
    ($condition:expr, $($why:tt)*) => {
        if !$condition {
            return Err(format!($($why)*));
        }
    };
}

impl History {
    /// `meta` was lost, and with it the last token.
    pub(super) fn lose_meta(&mut self) {
        self.forgotten = self.tokens.values().copied().max().unwrap_or(0);
    }

    /// One step took the queue from `before` to `after`.
    pub(super) fn check(&mut self, before: &State, sent: &Sent, answer: &Answer, after: &State) -> Result<(), String> {
        check_states(after)?;
        check_keys(after)?;
        check_names(after)?;
        check_remains(after)?;
        check_counts_of_failures(before, sent, after)?;
        check_bounds(before, sent, after)?;
        check_order(before, sent, answer, after)?;
        check_twice(sent, answer, after)?;
        check_results(before, sent, answer, after)?;
        check_progress(before, sent, after)?;
        self.check_late(before, sent, answer, after)?;
        self.check_charges(before, sent, after)?;
        self.note_starts(before, sent, answer);
        if let Command::PushUnique { items, .. } = &sent.command {
            let pushed = after.stats.get("pushed").unwrap_or(&0) - before.stats.get("pushed").unwrap_or(&0);
            self.replaced += before.records.len() as u64 + pushed - after.records.len() as u64;
            for (id, _, _, _) in items.iter().filter(|(id, _, _, _)| after.records.contains_key(id)) {
                self.acked.remove(id);
            }
        }
        self.check_conservation(after)?;
        // An answer that is given again may be about a job that was pushed anew since.
        if sent.command.call().is_some_and(|call| matches!(before.earlier(call), Ok(None))) {
            self.note_acks(sent, answer);
        }
        ensure!(
            !after.records.keys().any(|id| self.acked.contains(id)),
            "I4: a job that was acked is still there: {:?}",
            self.acked
        );
        for limits in [before.known_limits(), after.known_limits()] {
            if limits != self.limits || before.now_us() < self.clock {
                let known = &self.limits;
                self.starts.retain(|number, _| {
                    let of = |limits: &[Limited]| limits.iter().find(|limit| limit.number == *number).cloned();
                    of(limits) == of(known) && before.now_us() >= self.clock
                });
                self.limits = limits.to_vec();
            }
        }
        self.clock = after.now_us();
        if let Answer::Reserved(reply) = answer {
            self.check_grants(before, sent, reply, after)?;
        }
        Ok(())
    }

    /// I6: a late copy of a call changes nothing once the call had its answer, whatever happened in between, not even where
    /// there had been nothing to do. An empty reserve is remembered only if it asks for that.
    fn check_late(&mut self, before: &State, sent: &Sent, answer: &Answer, after: &State) -> Result<(), String> {
        let Some(call) = sent.command.call() else { return Ok(()) };
        let was_refused = ["levels ", "shape ", "format "].iter().any(|word| answer.text().starts_with(word));
        let was_empty = matches!(answer, Answer::Reserved(reply) if reply.jobs.is_empty() && reply.settled.is_empty());
        let name = (call.client.clone(), call.slot, call.number);
        let did_nothing = || {
            // It may keep the answers alive.
            let mut before = before.clone();
            for (client, calls) in &mut before.calls {
                calls.is_fresh |= after.calls.get(client).is_some_and(|calls| calls.is_fresh);
            }
            before == *after
        };
        ensure!(!self.answered.contains(&name) || did_nothing(), "I6: a late copy of an answered call did something");
        if !was_refused && (!was_empty || call.renewal != MemoryRenewal::No) {
            self.answered.insert(name);
        }
        Ok(())
    }

    /// I10: a lease that ends is charged to a job that had started, and to no other; one without retries does not start again.
    fn check_charges(&self, before: &State, sent: &Sent, after: &State) -> Result<(), String> {
        let marked = after.returned.iter().filter(|(_, note)| note.is_started);
        for (id, _) in marked {
            ensure!(after.leases.contains_key(id), "I10: the mark of a start outlived the lease of {id}");
        }
        if !matches!(sent.command, Command::Reserve(_) | Command::Reclaim { .. }) {
            return Ok(());
        }
        let is_over = |lease: &Lease| lease.ends.saturating_sub(before.too_long_by()) <= before.clock;
        for (id, lease) in before.leases.iter().filter(|(_, lease)| is_over(lease)) {
            let settles = |outcome: &Outcome| outcome.id == *id && outcome.token == lease.token && !outcome.is_start();
            let is_taken_back = after.leases.get(id).is_none_or(|now| now.token != lease.token);
            let Some(record) = after.records.get(id).filter(|_| is_taken_back) else { continue };
            if sent.command.outcomes().iter().any(settles) {
                continue;
            }
            let spares = matches!(&sent.command, Command::Reserve(reserve) if reserve.spares);
            ensure!(!spares, "I11: {id} was taken back by a reserve that spares leases");
            let failures = |state: &State| state.returned.get(id).map_or(0, |note| note.attempts);
            let has_started = self.started.contains(&(id.clone(), lease.token));
            let charged = failures(after) - failures(before);
            ensure!(charged == u64::from(has_started), "I10: {id} paid {charged} for a lease; started: {has_started}");
            let has_failed = after.failed.contains_key(id);
            ensure!(!has_failed || has_started, "I10: {id} has failed and had not started");
            ensure!(
                !has_started || has_failed || failures(after) <= record.max_retries,
                "I10: {id} has no retries left and runs again"
            );
            ensure!(after.returned[id].is_suspect, "I10: the next worker is not told that {id} may end it");
        }
        Ok(())
    }

    fn note_starts(&mut self, before: &State, sent: &Sent, answer: &Answer) {
        let is_again = sent.command.call().is_some_and(|call| !matches!(before.earlier(call), Ok(None)));
        if let (Command::Reserve(reserve), Answer::Reserved(reply)) = (&sent.command, answer)
            && !reserve.ahead
        {
            self.started.extend(reply.jobs.iter().map(|job| (job.id.clone(), reply.token)));
        }
        let flags = match answer {
            Answer::Reserved(reply) => reply.settled.as_str(),
            answer => answer.text(),
        };
        if is_again || flags.chars().any(|flag| flag != '0' && flag != '1') {
            return;
        }
        for (outcome, flag) in sent.command.outcomes().iter().zip(flags.chars()) {
            if flag == '1' && outcome.is_start() {
                self.started.insert((outcome.id.clone(), outcome.token));
            }
        }
    }

    fn note_acks(&mut self, sent: &Sent, answer: &Answer) {
        let flags = match answer {
            Answer::Reserved(reply) => reply.settled.as_str(),
            answer => answer.text(),
        };
        if flags.chars().any(|flag| flag != '0' && flag != '1') {
            return; // refused
        }
        for (outcome, flag) in sent.command.outcomes().iter().zip(flags.chars()) {
            if flag == '1' && matches!(outcome.became, Became::Done(_)) {
                self.acked.insert(outcome.id.clone());
            }
        }
    }

    fn check_grants(&mut self, before: &State, sent: &Sent, reply: &ReserveReply, after: &State) -> Result<(), String> {
        let Command::Reserve(reserve) = &sent.command else { return Ok(()) };
        let is_again = before.earlier(&reserve.call).ok().flatten().is_some();
        let mut levels = Vec::new();
        for job in &reply.jobs {
            let id = &job.id;
            let lease = after.leases.get(id).ok_or_else(|| format!("{id} was granted and has no lease"))?;
            ensure!(lease.token == reply.token, "{id} was granted under another token");
            ensure!(!self.acked.contains(id), "I4: {id} was acked and runs again");
            if is_again {
                continue;
            }
            let highest = self.tokens.insert(id.clone(), reply.token).unwrap_or(0);
            // What `meta` has lost only the clock knows, and not when that is set back as well.
            let is_unknown = highest <= self.forgotten && before.now_us() <= highest;
            ensure!(reply.token > highest || is_unknown, "I2: {id} had token {highest} and now {}", reply.token);
            let held = before.leases.get(id).filter(|lease| lease.ends - before.too_long_by() > before.clock);
            let mut settled = reserve.outcomes.iter().filter(|outcome| !outcome.is_start());
            let let_go = settled.any(|o| &o.id == id && held.is_some_and(|l| l.token == o.token));
            ensure!(held.is_none() || let_go, "I3: {id} was under a lease");
            let due = before.delayed.iter().find(|((delayed, _), _)| delayed == id).map(|(_, &due)| due);
            ensure!(due.is_none_or(|due| due <= before.clock), "{id} runs before it is due");
            levels.push(after.records[id].level);
        }
        ensure!(levels.is_sorted(), "I7: {levels:?} is not the order of the levels");
        let is_parked = |id: &str| after.parked.contains_key(id) && !after.is_some_takeable();
        let is_ready = after.indexed().iter().any(|(id, state)| *state == JobState::Ready && !is_parked(id));
        if !is_again {
            self.check_limits(before, reply, after)?;
        }
        let is_at_limit = after.room().is_none();
        let next_start =
            after.next_start_us().filter(|_| !is_again && !is_at_limit && reply.status == ReserveStatus::None);
        let next_start = next_start.filter(|_| reserve.want > 0).map(|at| Duration::from_micros(at - after.now_us()));
        ensure!(
            next_start.is_none_or(|next| reply.next_in.is_some_and(|wait| wait <= next)),
            "a worker is not told when the rate of a name lets the next job start: {reply:?}"
        );
        let is_idle = !is_at_limit && reply.status == ReserveStatus::None && reserve.want > 0 && !is_again;
        ensure!(!is_idle || !is_ready, "a worker is told to wait while a job is ready");
        Ok(())
    }

    /// No limit is ever exceeded: not the places, and in no span of time the rate and its burst.
    fn check_limits(&mut self, before: &State, reply: &ReserveReply, after: &State) -> Result<(), String> {
        for limited in after.known_limits() {
            let is_of_queue = limited.number == 0;
            let is_its = |job: &&GrantedJob| is_of_queue || after.number_of(&job.id) == Some(limited.number);
            let has_place = |job: &GrantedJob| is_of_queue || after.places.get(&job.id) == Some(&limited.number);
            let (running, most) = (after.places_of(limited.number), limited.limit.concurrency);
            let is_within = most == 0 || running <= most || !reply.jobs.iter().any(has_place);
            ensure!(is_within, "{running} jobs run at once under {limited:?}");
            let starts = self.starts.entry(limited.number).or_default();
            starts.extend(reply.jobs.iter().filter(is_its).map(|_| before.now_us()));
            check_rate(limited.limit, starts, after.now_us())?;
        }
        Ok(())
    }

    /// Every job that was pushed is there, or left in one of the ways to leave.
    fn check_conservation(&self, after: &State) -> Result<(), String> {
        let stat = |name| after.stats.get(name).copied().unwrap_or(0);
        let ways = ["acked", "cancelled", "purged", "trimmed", "expired"];
        let gone = ways.into_iter().map(stat).sum::<u64>() + self.replaced;
        let live = after.records.len() as u64;
        ensure!(stat("pushed") == live + gone, "{} were pushed, {live} are there, {gone} have left", stat("pushed"));
        Ok(())
    }
}

/// In no span of time more than the rate and its burst.
fn check_rate(limits: Limit, starts: &[u64], now_us: u64) -> Result<(), String> {
    for (first, since) in starts.iter().enumerate().filter(|_| limits.jobs > 0) {
        let started = (starts.len() - first) as u64;
        let most = limits.jobs + limits.jobs * (now_us - since) / limits.per_us;
        ensure!(started <= most, "{started} jobs started in {} us under {limits:?}", now_us - since);
    }
    Ok(())
}

/// I1: every job is in exactly one state, and every entry that counts has a job.
fn check_states(after: &State) -> Result<(), String> {
    let indexed = after.indexed();
    let mut ids = BTreeSet::new();
    for (id, state) in &indexed {
        ensure!(after.records.contains_key(*id), "I1: {id} is {state:?} and has no record");
        ensure!(ids.insert(id), "I1: {id} is {state:?}, and something else, too");
    }
    ensure!(indexed.len() == after.records.len(), "I1: {} entries, {} jobs", indexed.len(), after.records.len());
    for (id, level) in after.delayed.keys() {
        ensure!(after.records[id].level == *level, "{id} is delayed under another level");
    }
    Ok(())
}

/// A place belongs to a lease, and every lease of a name with a limit has one; what is parked is found again.
fn check_names(after: &State) -> Result<(), String> {
    ensure!(after.places.keys().all(|id| after.leases.contains_key(id)), "a place without a lease: {:?}", after.places);
    for id in after.leases.keys() {
        let Some(number) = after.number_of(id) else { continue };
        let is_limited = after.name_limits().any(|limited| limited.number == number && !limited.limit.is_none());
        let has_place = after.places.get(id) == Some(&number);
        ensure!(!is_limited || has_place, "{id} runs and has no place of its name {number}");
    }
    let is_listed = |number: &u64| after.name_limits().any(|limited| limited.number == *number);
    let is_lost = after.limits() == Some(Limits::Lost);
    let mut numbers = after.parked.values().map(|parked| &parked.number).chain(after.places.values());
    ensure!(is_lost || numbers.all(is_listed), "the limit of a parked or running job was forgotten");
    let is_rated = |number: &u64| after.known_limits().iter().any(|l| l.number == *number && l.limit.jobs > 0);
    ensure!(after.meta.rate_at.keys().all(is_rated), "what a rate has seen outlived it: {:?}", after.meta.rate_at);
    Ok(())
}

/// A key means one live job: held by the job that has it, unless that has failed.
fn check_keys(after: &State) -> Result<(), String> {
    for (key, id) in &after.keys {
        let record = after.records.get(id).ok_or_else(|| format!("the key {key} is held by {id}, which is gone"))?;
        ensure!(record.key.as_ref() == Some(key), "{id} holds the key {key}, which is not its own");
        ensure!(!after.failed.contains_key(id), "{id} has failed and holds the key {key}");
    }
    for (id, record) in after.records.iter().filter(|(id, _)| !after.failed.contains_key(*id)) {
        let Some(key) = &record.key else { continue };
        ensure!(after.keys.get(key) == Some(id), "{id} is live and does not hold its key {key}");
    }
    Ok(())
}

/// I9: nothing stays behind of a job that is gone.
fn check_remains(after: &State) -> Result<(), String> {
    ensure!(after.returned.keys().all(|id| after.records.contains_key(id)), "I9: a note of a job that is gone");
    ensure!(after.wakes <= 2, "I9: {} wake-ups", after.wakes);
    Ok(())
}

/// I5: failures are only forgotten by requeue, or with the job.
fn check_counts_of_failures(before: &State, sent: &Sent, after: &State) -> Result<(), String> {
    if matches!(sent.command, Command::Requeue { .. } | Command::PushUnique { .. }) {
        return Ok(());
    }
    // A failure hook may set them.
    let is_set = |id: &String| {
        let rewrites = |o: &Outcome| &o.id == id && matches!(o.became, Became::Back { rewritten: Some(_), .. });
        sent.command.outcomes().iter().any(rewrites)
    };
    for (id, note) in
        before.returned.iter().filter(|(id, _)| !is_set(id)).filter(|(id, _)| after.records.contains_key(*id))
    {
        let now = after.returned.get(id).map_or(0, |note| note.attempts);
        ensure!(now >= note.attempts, "I5: {id} had failed {} times and now {now} times", note.attempts);
    }
    Ok(())
}

/// I7: of one level, what a call promotes is granted, or stands in the ready list, in the order in which it was due; and
/// what was due before stays behind only where a limit of its name holds it back.
fn check_order(before: &State, sent: &Sent, answer: &Answer, after: &State) -> Result<(), String> {
    // Others move jobs one by one, as they are named.
    if !matches!(sent.command, Command::Reserve(_) | Command::Promote { .. }) {
        return Ok(());
    }
    let granted = if let Answer::Reserved(reply) = answer { reply.jobs.as_slice() } else { &[] };
    for (&level, list) in &after.ready {
        let ready = list.iter().filter(|entry| entry.counts).map(|entry| &entry.id);
        let due = |id: &String| before.delayed.get(&(id.clone(), level)).copied();
        let still = after.delayed.iter().filter(|((_, of), _)| *of == level).map(|(_, &due)| due).min();
        let dues: Vec<_> = granted.iter().map(|job| &job.id).chain(ready).filter_map(due).chain(still).collect();
        ensure!(dues.is_sorted(), "I7: jobs of level {level} that are due at {dues:?} come in this order");
    }
    Ok(())
}

/// I8: the work of one call is bounded, whatever the backlog.
fn check_bounds(before: &State, sent: &Sent, after: &State) -> Result<(), String> {
    let Command::Reserve(reserve) = &sent.command else { return Ok(()) };
    let settled = reserve.outcomes.len();
    let promoted = before.delayed.keys().filter(|member| !after.delayed.contains_key(*member)).count();
    ensure!(promoted <= promote_cap(sent.passed.levels, reserve.want), "I8: one reserve promoted {promoted}");
    let ended =
        before.leases.iter().filter(|(id, old)| after.leases.get(*id).map(|new| new.token) != Some(old.token)).count();
    ensure!(ended <= 100 + settled, "I8: one reserve ended {ended} leases");
    let entries = |state: &State| state.ready.values().map(std::collections::VecDeque::len).sum::<usize>();
    let popped = (entries(before) + promoted + ended).saturating_sub(entries(after));
    // Those that no longer count go together from the heads of the lists, 1,000 and up to a chunk more.
    ensure!(popped <= 10 * (11 * reserve.want + 100) + 1100, "I8: one reserve took {popped} entries");
    Ok(())
}

/// Progress is noted by who holds the lease, and by nobody else.
fn check_progress(before: &State, sent: &Sent, after: &State) -> Result<(), String> {
    for (id, (token, _)) in after.progress.iter().filter(|(id, noted)| before.progress.get(*id) != Some(noted)) {
        let is_his = matches!(&sent.command, Command::Progress { id: of, token: by, .. } if of == id && by == token);
        let held = before.leases.get(id).is_some_and(|lease| lease.token == *token);
        ensure!(is_his && held, "progress of {id} was noted without its lease");
    }
    Ok(())
}

/// A result is left by who acked his job under its lease, and by nobody else; and no job finds that of an earlier one.
fn check_results(before: &State, sent: &Sent, answer: &Answer, after: &State) -> Result<(), String> {
    let earlier = |id: &&&str| after.results.contains_key(**id) && after.records.contains_key(**id);
    if let Some(id) = USERS_IDS.iter().find(earlier) {
        return Err(format!("{id} finds the result of an earlier job"));
    }
    let flags = match answer {
        Answer::Reserved(reply) => reply.settled.as_str(),
        answer => answer.text(),
    };
    for (id, result) in after.results.iter().filter(|(id, result)| before.results.get(*id) != Some(result)) {
        let held = before.leases.get(id);
        let is_his = |(outcome, flag): (&Outcome, char)| {
            let gave = Became::Done(Some(result.clone()));
            flag == '1'
                && outcome.id == *id
                && held.is_some_and(|lease| lease.token == outcome.token)
                && outcome.became == gave
        };
        ensure!(sent.command.outcomes().iter().zip(flags.chars()).any(is_his), "{id} has a result that nobody left");
    }
    Ok(())
}

/// I6: the same call sent twice changes nothing the second time, and is answered as the first was.
fn check_twice(sent: &Sent, answer: &Answer, after: &State) -> Result<(), String> {
    let Some(call) = sent.command.call() else { return Ok(()) };
    let Ok(Some(_)) = after.earlier(call) else { return Ok(()) };
    let mut twice = after.clone();
    let again = twice.step(sent);
    ensure!(&twice == after, "I6: the second sending changed something");
    match (answer, &again) {
        (Answer::Reserved(first), Answer::Reserved(second)) => {
            ensure!(first.jobs == second.jobs && first.settled == second.settled, "I6: {first:?}, then {second:?}");
        }
        (first, second) => ensure!(first == second, "I6: {first:?}, then {second:?}"),
    }
    Ok(())
}
