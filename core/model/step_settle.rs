//! `settle` and `extend`.

use crate::script::{AwaitedReply, Verb};

use super::command::{Answer, Became, CallId, Outcome, Passed, Refused};
use super::state::{DEFAULT_LEVEL, LARGE, Returned, State};

impl State {
    pub(super) fn settle(&mut self, passed: Passed, call: &CallId, outcomes: &[Outcome]) -> Result<Answer, Refused> {
        if let Some(earlier) = self.earlier(call)? {
            return Ok(Answer::Text(earlier));
        }
        self.admit_shape(passed)?;
        let flags = self.settle_outcomes(outcomes);
        if flags.contains('1') {
            self.note_freed();
        }
        Ok(self.remember(call, flags))
    }

    /// One flag an outcome. All acks of a call look at the leases as they were before it, so that an ack which is there
    /// twice is right twice and counted once; the others see what came before them.
    pub(super) fn settle_outcomes(&mut self, outcomes: &[Outcome]) -> String {
        let before = self.leases.clone();
        let mut flags = String::new();
        let mut failed = 0;
        let mut released = Vec::new();
        for outcome in outcomes {
            let leases = if matches!(outcome.became, Became::Done(_)) { &before } else { &self.leases };
            let is_held = leases.get(&outcome.id).is_some_and(|lease| lease.token == outcome.token);
            let starts = outcome.starts();
            // What is over is not started, also where nobody took it yet, unless it goes on with that.
            let is_over = leases.get(&outcome.id).is_some_and(|lease| lease.ends <= self.clock);
            let may_not_start = is_over && starts == Some(0);
            flags.push(if is_held && !may_not_start { '1' } else { '0' });
            if !is_held || may_not_start {
                continue;
            }
            if let Some(lease_ms) = starts {
                let ends = self.after(lease_ms);
                if is_over && let Some(lease) = self.leases.get_mut(&outcome.id) {
                    lease.ends = ends;
                }
                self.returned.entry(outcome.id.clone()).or_default().is_started = true;
                continue;
            }
            let was_there = self.leases.remove(&outcome.id).is_some();
            let place = self.places.remove(&outcome.id);
            match &outcome.became {
                Became::Done(result) => {
                    if let Some(result) = result {
                        self.results.insert(outcome.id.clone(), result.clone());
                        self.woken.insert(outcome.id.clone());
                    }
                    self.records.remove(&outcome.id);
                    self.returned.remove(&outcome.id);
                    self.free_key(outcome.key.as_deref(), &outcome.id);
                    self.count("acked", usize::from(was_there));
                }
                Became::Back { verb: Verb::Expired, rewritten, .. } => {
                    self.meta.large |= rewritten.as_ref().is_some_and(|(_, record)| record.bytes().len() > LARGE);
                    self.records.remove(&outcome.id);
                    self.returned.remove(&outcome.id);
                    self.free_key(outcome.key.as_deref(), &outcome.id);
                    if outcome.is_awaited() {
                        self.woken.insert(outcome.id.clone());
                    }
                    self.count("expired", 1);
                }
                Became::Back { verb, delay_ms, error, rewritten } => {
                    let level = self.records.get(&outcome.id).map_or(DEFAULT_LEVEL, |record| record.level);
                    if let Some((failures, record)) = rewritten {
                        // A failure hook may also set how often the job has failed.
                        self.records.insert(outcome.id.clone(), record.clone());
                        self.meta.large |= record.bytes().len() > LARGE;
                        if !matches!(verb, Verb::Unstarted) {
                            self.returned.entry(outcome.id.clone()).or_default().attempts = *failures;
                        }
                    }
                    let is_failure = matches!(verb, Verb::Retry | Verb::Failed | Verb::Unheard);
                    if matches!(verb, Verb::Unstarted) {
                        // It has not come back from anywhere.
                        if let Some(note) = self.returned.get_mut(&outcome.id) {
                            note.is_started = false;
                        }
                    } else {
                        self.came_back(&outcome.id, is_failure, error);
                    }
                    if matches!(verb, Verb::Failed | Verb::Unheard) {
                        let key = self.records.get(&outcome.id).and_then(|record| record.key.clone());
                        self.enter_failed(&outcome.id, key.as_deref());
                        if *verb == Verb::Unheard {
                            self.note_unheard(&outcome.id);
                        }
                        if outcome.is_awaited() {
                            self.woken.insert(outcome.id.clone());
                        }
                        failed += 1;
                    } else if *delay_ms > 0 {
                        let at = self.after(*delay_ms);
                        self.delayed.insert((outcome.id.clone(), level), at);
                        self.wake_for(at);
                    } else {
                        match verb {
                            Verb::Release | Verb::Unstarted => released.push((level, &outcome.id, place)),
                            _ => self.put_at_tail(level, &outcome.id),
                        }
                        self.wake_one();
                    }
                    let counter = match verb {
                        Verb::Retry => "retried",
                        Verb::Failed | Verb::Unheard => "failed",
                        Verb::Again | Verb::Release | Verb::Unstarted | Verb::Start | Verb::Expired => "released",
                    };
                    self.count(counter, 1);
                }
            }
        }
        // At the heads of their lists, in the order in which they were given back.
        for (level, id, place) in released.into_iter().rev() {
            self.put_back(id, level, place);
        }
        if failed > 0 {
            self.trim_failed(failed);
        }
        flags
    }

    pub(super) fn wake_waiters(&mut self, ids: &[String]) -> Result<Answer, Refused> {
        self.admit_format()?;
        self.woken.extend(ids.iter().cloned());
        Ok(Answer::Text("ok".to_owned()))
    }

    /// A job that is there is not done, whatever an earlier one of its id left.
    pub(super) fn awaited(&self, id: &str) -> AwaitedReply {
        if self.failed.contains_key(id) {
            let note = self.returned.get(id).map(Returned::text).unwrap_or_default();
            AwaitedReply::Failed(note.into_bytes())
        } else if self.records.contains_key(id) {
            AwaitedReply::Live
        } else {
            let result = self.results.get(id).map(|result| result.clone().into_bytes());
            result.map_or(AwaitedReply::Gone, AwaitedReply::Done)
        }
    }

    /// Only of a lease that is held, as `extend`.
    pub(super) fn note_progress(
        &mut self,
        id: &str,
        token: u64,
        fraction: &str,
        text: &str,
    ) -> Result<Answer, Refused> {
        self.admit_format()?;
        let held = self.leases.get(id).is_some_and(|lease| lease.token == token);
        if held {
            let noted = format!("{token};{fraction};{};{text}", self.clock);
            self.progress.insert(id.to_owned(), (token, noted));
        }
        Ok(Answer::Text(if held { "1" } else { "0" }.to_owned()))
    }

    /// What the holder of the lease noted, and nobody before him.
    pub(super) fn progress_of(&self, id: &str) -> String {
        let token = self.leases.get(id).map(|lease| lease.token);
        let noted = self.progress.get(id).filter(|(by, _)| Some(*by) == token);
        noted.map_or(String::new(), |(_, noted)| noted.clone())
    }

    pub(super) fn extend(&mut self, lease_ms: u64, leases: &[(String, u64)]) -> Result<Answer, Refused> {
        self.admit_format()?;
        self.note_set_back();
        let ends = self.after(lease_ms);
        let mut flags = String::new();
        for (id, token) in leases {
            // One that is over is held as long as nobody has taken the job.
            let held = self.leases.get_mut(id).filter(|lease| lease.token == *token);
            flags.push(if held.is_some() { '1' } else { '0' });
            if let Some(lease) = held {
                lease.ends = ends;
            }
        }
        Ok(Answer::Text(flags))
    }
}
