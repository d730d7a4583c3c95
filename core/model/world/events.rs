//! What a run of the model has met, by name: what must happen in all runs together is checked.

use super::super::command::{Answer, Became, CallId, Command, Outcome, ReserveCall, Sent};
use super::super::limits::{Limited, Limits};
use super::super::state::State;
use super::super::step_reserve::promote_cap;
use super::super::unheard;
use super::World;
use crate::script::{AwaitedReply, ReserveReply, ReserveStatus};

impl World<'_> {
    #[allow(clippy::too_many_lines)] // one line an event
    pub(super) fn see_events(&mut self, before: &State, sent: &Sent, answer: &Answer) {
        let after = &self.state;
        let grew = |name| after.stats.get(name) > before.stats.get(name);
        let is_earlier = |call: &CallId| before.earlier(call).ok().flatten().is_some();
        let was_answered = sent.command.call().is_some_and(is_earlier);
        let stale = |state: &State| state.stale_entries().values().sum::<usize>();
        let text = answer.text();
        let is_push = matches!(sent.command, Command::PushUnique { .. });
        let mut events = vec![
            ("a call was superseded", text == "superseded"),
            ("an answer was given again", was_answered),
            ("a duplicate was refused", text.contains("duplicate")),
            ("a duplicate was kept", is_push && text.contains("kept")),
            ("a job was replaced", text.contains("replaced")),
            ("a job was requeued", text.contains("requeued")),
            ("a job was rescheduled", text.contains("moved")),
            ("a job failed by reclaim", grew("failed") && grew("reclaimed")),
            ("a failed job was trimmed", grew("trimmed")),
            ("a job expired", grew("expired")),
            ("stale entries were passed", stale(after) < stale(before)),
            ("a job was purged", grew("purged")),
            ("a job was kept from a cancel", !is_push && text.contains("kept ")),
            ("a reserved job was purged", grew("purged") && after.leases.len() < before.leases.len()),
            ("a limit of a name was forgotten", before.name_limits().count() > after.name_limits().count()),
            ("a job was parked", after.parked.keys().any(|id| !before.parked.contains_key(id))),
            ("a job came back before parked ones", after.parked.values().any(|parked| parked.turn < 0)),
            ("running jobs were counted", text == "ok" && after.places.len() > before.places.len()),
            ("a parked job was cancelled", !text.is_empty() && after.parked.len() < before.parked.len()),
            ("a lease was extended", matches!(sent.command, Command::Extend { .. }) && text.contains('1')),
            (
                "a lease that was over was extended",
                matches!(sent.command, Command::Extend { .. })
                    && before.leases.iter().any(|(id, lease)| {
                        lease.ends <= before.clock && after.leases.get(id).is_some_and(|now| now.ends > before.clock)
                    }),
            ),
        ];
        let settled = match answer {
            Answer::Reserved(reply) => reply.settled.as_str(),
            _ => text,
        };
        let acks = sent.command.outcomes().iter().zip(settled.chars());
        let stale_ack = acks.clone().any(|(outcome, flag)| flag == '0' && matches!(outcome.became, Became::Done(_)));
        events.push(("a stale ack was refused", stale_ack));
        events.extend(events_of_starts(before, sent, settled, after));
        let gives = |outcome: &Outcome| matches!(outcome.became, Became::Done(Some(_)));
        let is_new = |of: &State, than: &State| of.results.iter().any(|(id, it)| than.results.get(id) != Some(it));
        events.push(("a result was kept", !was_answered && is_new(after, before)));
        events.push(("a result went with the next job of its id", after.results.len() < before.results.len()));
        events.extend(woken_waiters(sent, text, settled, was_answered));
        events.push(("a lost lease left no result", acks.clone().any(|(o, flag)| flag == '0' && gives(o))));
        events.extend(unheard::events(before, after, sent, answer));
        self.claims.extend(unheard::claims(answer));
        let is_progress = matches!(sent.command, Command::Progress { .. });
        events.push(("progress was noted", is_progress && text == "1"));
        events.push(("progress of a lost lease was refused", is_progress && text == "0"));
        if let (Command::ProgressOf { ids }, Answer::Progress(noted)) = (&sent.command, answer) {
            let old = |(id, noted): (&String, &String)| {
                noted.is_empty() && after.progress.contains_key(id) && after.leases.contains_key(id)
            };
            events.push(("progress was shown", noted.iter().any(|noted| !noted.is_empty())));
            events.push(("progress of an earlier lease was not shown", ids.iter().zip(noted).any(old)));
        }
        if let Answer::Alive(alive) = answer {
            events.push(("a dead worker was left out", alive.len() < after.workers.len()));
        }
        if let Answer::Awaited(reply) = answer {
            events.push(("a waiter found a result", matches!(reply, AwaitedReply::Done(_))));
            events.push(("a waiter was told of a failure", matches!(reply, AwaitedReply::Failed(_))));
        }
        events.push(("a late outcome was refused", acks.clone().any(|(_, flag)| flag == '0')));
        if let (Command::Reserve(reserve), Answer::Reserved(reply)) = (&sent.command, answer) {
            let some_ready = after.ready.values().any(|list| !list.is_empty());
            let gave_nothing =
                !was_answered && reserve.want > 0 && reply.jobs.is_empty() && some_ready && !after.meta.paused;
            if !was_answered {
                events.extend(events_of_name_rates(before, reserve, reply, after));
                events.extend(events_of_rounds(before, sent, reserve));
            }
            events.extend([
                ("a replay returned jobs", was_answered && !reply.jobs.is_empty()),
                ("a replay left out a job that was lost", was_answered && reply.token > 0 && reply.jobs.is_empty()),
                ("a job ran twice", !was_answered && reply.jobs.iter().any(|job| !job.came_back.is_empty())),
                ("a paused queue gave nothing", reply.status == ReserveStatus::Paused),
                ("a waiter promised to come back", reply.promised > 0),
                (
                    "a lease that was over was spared",
                    !was_answered
                        && reserve.spares
                        && before.leases.iter().any(|(id, lease)| {
                            lease.ends <= before.clock
                                && after.leases.get(id).is_some_and(|now| now.token == lease.token)
                        }),
                ),
                ("a parked job ran", reply.jobs.iter().any(|job| before.parked.contains_key(&job.id))),
                ("jobs of other names passed by", !reply.jobs.is_empty() && after.parked.len() > before.parked.len()),
                (
                    "what lost limits parked was found",
                    before.limits() == Some(Limits::Lost) && after.name_limits().any(|limited| limited.limit.is_none()),
                ),
                ("a place was missing", gave_nothing && after.room().places == Some(0)),
                ("the rate held a job back", gave_nothing && after.room().starts == Some(0)),
                (
                    "a waiter promised to come back for the rate",
                    gave_nothing && reply.promised > 0 && after.room().places != Some(0),
                ),
                ("the rate let several start at once", reply.jobs.len() > 1 && before.room().starts.is_some()),
                ("a waiter broke its promise", before.meta.timer.is_some() && after.meta.timer.is_none()),
                ("a reserve left jobs behind", !reply.jobs.is_empty() && after.indexed().len() > after.leases.len()),
            ]);
        }
        for (event, happened) in events {
            if happened {
                self.see(event);
            }
        }
    }
}

/// What a reserve that was executed did before it took jobs.
fn events_of_rounds(before: &State, sent: &Sent, reserve: &ReserveCall) -> [(&'static str, bool); 3] {
    let ended = before.leases.values().filter(|lease| lease.ends <= before.clock).count();
    let due = before.delayed.values().filter(|&&at| at <= before.clock).count();
    let used = before.admit(sent.passed.levels).unwrap_or(sent.passed.levels);
    let is_too_long = before.too_long_by() > 0 && !before.leases.is_empty();
    [
        ("a reserve reached its reclaim cap", ended > 100),
        ("a reserve reached its promote cap", due > promote_cap(used, reserve.want)),
        ("leases were shortened when the clock was set back", is_too_long),
    ]
}

/// What was said of starts, and who paid for leases that ended.
fn events_of_starts(before: &State, sent: &Sent, flags: &str, after: &State) -> [(&'static str, bool); 4] {
    let starts = || sent.command.outcomes().iter().zip(flags.chars()).filter(|(outcome, _)| outcome.is_start());
    let is_over = |outcome: &Outcome| {
        let lease = before.leases.get(&outcome.id);
        lease.is_some_and(|lease| lease.token == outcome.token && lease.ends <= before.clock)
    };
    let paid = |id: &String| {
        let note = |state: &State| state.returned.get(id).map(|note| (note.attempts, note.is_suspect));
        Some((note(before).unwrap_or_default(), note(after)?))
    };
    let reclaimed = after.stats.get("reclaimed") > before.stats.get("reclaimed");
    let ended = || after.returned.keys().filter(|_| reclaimed).filter_map(paid);
    [
        ("a start was noted", starts().any(|(_, flag)| flag == '1')),
        ("a start under an old lease was refused", starts().any(|(outcome, flag)| flag == '0' && is_over(outcome))),
        ("a lease that ended was not charged", ended().any(|(old, new)| old.0 == new.0 && !old.1 && new.1)),
        ("a suspect was charged", ended().any(|(old, new)| old.1 && old.0 < new.0)),
    ]
}

/// What rates of names did to a reserve that was executed.
fn events_of_name_rates(
    before: &State,
    reserve: &ReserveCall,
    reply: &ReserveReply,
    after: &State,
) -> [(&'static str, bool); 4] {
    let next_start = after.next_start_us().map(|at| at.div_ceil(1000));
    let waits_for_name = reserve.want > 0 && reply.jobs.is_empty() && next_start.is_some();
    let promised_for_name = reply.promised > 0 && Some(reply.promised) == next_start;
    let is_rated = |id: &str| {
        let number = after.number_of(id);
        number.is_some_and(|number| after.meta.rate_at.contains_key(&number))
    };
    let started_rated = reply.jobs.iter().filter(|job| is_rated(&job.id)).count();
    let is_met_twice = |limited: &Limited| {
        let running = after.places_of(limited.number);
        let seen = after.meta.rate_at.get(&limited.number).copied();
        let rate = limited.limit.rate(seen, after.now_us());
        limited.limit.concurrency > 0
            && running == limited.limit.concurrency
            && rate.is_some_and(|rate| rate.starts() == 0)
    };
    [
        ("the rate of a name held a job back", waits_for_name),
        ("a waiter promised to come back for the rate of a name", waits_for_name && promised_for_name),
        (
            "the rate of a name let several start at once",
            after.meta.rate_at != before.meta.rate_at && started_rated > 1,
        ),
        ("both limits of a name were met", after.name_limits().any(is_met_twice)),
    ]
}

/// Whom the ends of jobs without a result wake.
fn woken_waiters(sent: &Sent, text: &str, settled: &str, was_answered: bool) -> [(&'static str, bool); 4] {
    let outcomes = sent.command.outcomes().iter().zip(settled.chars());
    let awaited = |wanted: char| outcomes.clone().any(|(outcome, flag)| flag == wanted && outcome.is_awaited());
    let is_cancel = matches!(sent.command, Command::Cancel { .. });
    let is_purge = matches!(sent.command, Command::Purge { .. });
    [
        ("who waited for a failed job was woken", !was_answered && awaited('1')),
        ("a lost lease woke no waiter", awaited('0')),
        ("somebody may have waited for a cancelled job", is_cancel && text.contains("awaited ")),
        ("somebody may have waited for a purged job", is_purge && text.contains('\n')),
    ]
}
