//! `hear`: failed jobs of which no hook has heard.

use crate::queue::{Claim, Standing};
use crate::script::{GrantedJob, HearReply};

use super::command::{Answer, CallId, Command, Refused, Sent};
use super::state::State;

/// The moment of what nobody has claimed.
const FREE: u64 = 0;
/// So many claims of a job may end without a word before no hook is called for it any more.
const MOST_ENDS: u64 = 3;
/// So many times as long as a claim lasts one that has ended waits for a worker that calls no other hook.
const CLAIMS_IT_WAITS: u64 = 10;

impl State {
    /// Jobs have left `failed`, so many: what waits of them at the head of the line goes.
    pub(super) fn shorten_line(&mut self, left: usize) {
        let Some(last) = self.meta.unheard_last.filter(|_| left > 0) else { return };
        let from = self.meta.heard_to.unwrap_or(0);
        let to = last.min(from + 2 * left as u64 + 100);
        let waits = |number: &u64| self.meta.unheard.get(number).is_some_and(|id| self.failed.contains_key(id));
        let first = (from + 1..=to).find(waits).unwrap_or(to + 1);
        self.meta.unheard = self.meta.unheard.split_off(&first);
        if first > last {
            (self.meta.unheard_last, self.meta.heard_to) = (None, None);
        } else if first > from + 1 {
            self.meta.heard_to = Some(first - 1);
        }
    }

    /// A worker says what it has heard of, and is told of more.
    pub(super) fn hear(
        &mut self,
        call: &CallId,
        claim_ms: u64,
        most: usize,
        max_bytes: usize,
        claims: &[Claim],
    ) -> Result<Answer, Refused> {
        self.admit_format()?;
        if let Some(earlier) = self.earlier(call)? {
            return Ok(self.still_claimed(&earlier));
        }
        let claimed_until = self.clock + claim_ms;
        let mut claimed = vec![claimed_until.to_string()];
        for claim in claims {
            let id = String::from_utf8(claim.id.clone()).unwrap();
            match self.unheard.get_mut(&id) {
                Some(until) if *until != claim.until => {}
                None => {}
                Some(_) if claim.standing == Standing::Heard => self.forget_unheard(&id),
                Some(until) if claim.standing == Standing::GivenBack => *until = FREE,
                Some(until) => *until = claimed_until,
            }
        }
        if let Some(last) = self.meta.unheard_last {
            let from = self.meta.heard_to.unwrap_or(0);
            let to = last.min(from + 100);
            for number in from + 1..=to {
                if let Some(id) = self.meta.unheard.remove(&number) {
                    self.unheard.insert(id, FREE);
                }
            }
            let is_empty = to == last;
            self.meta.unheard_last = Some(last).filter(|_| !is_empty);
            self.meta.heard_to = Some(to).filter(|_| !is_empty);
        }
        let (mut jobs, mut given_up) = (Vec::new(), Vec::new());
        let is_busy = claims.iter().any(|claim| claim.standing == Standing::Claimed);
        let over = if is_busy { self.clock.saturating_sub(CLAIMS_IT_WAITS * claim_ms) } else { self.clock };
        let mut ended: Vec<_> = self.unheard.iter().filter(|&(_, &at)| at != FREE && at <= over).collect();
        ended.sort_by_key(|&(id, at)| (*at, id.clone()));
        let ended: Vec<String> = ended.into_iter().take(100).map(|(id, _)| id.clone()).collect();
        for id in ended.into_iter().take_while(|_| most > 0) {
            let Some(record) = self.failed_record(&id) else {
                self.forget_unheard(&id);
                continue;
            };
            claimed.push(id.clone());
            let ends = self.meta.ended.entry(id.clone()).or_default();
            *ends += 1;
            if *ends < MOST_ENDS {
                jobs.push(self.claim_unheard(id, record, claimed_until));
                break;
            }
            self.unheard.insert(id.clone(), claimed_until);
            given_up.push(id.into_bytes());
        }
        let free = self.unheard.iter().filter(|&(_, &at)| at == FREE);
        let free: Vec<String> = free.take(if jobs.is_empty() { most } else { 0 }).map(|(id, _)| id.clone()).collect();
        let mut bytes = 0;
        for id in free {
            let Some(record) = self.failed_record(&id) else {
                self.forget_unheard(&id);
                continue;
            };
            bytes += record.len();
            if bytes > max_bytes && !jobs.is_empty() {
                break;
            }
            claimed.push(id.clone());
            jobs.push(self.claim_unheard(id, record, claimed_until));
        }
        self.remember(call, claimed.join("\n"));
        Ok(Answer::Heard(HearReply { claimed_until, more: self.more_unheard(), given_up, jobs }))
    }

    /// The same call again: what it claimed then, and has still.
    fn still_claimed(&self, earlier: &str) -> Answer {
        let mut lines = earlier.lines();
        let claimed_until = lines.next().unwrap().parse().unwrap();
        let (mut jobs, mut given_up) = (Vec::new(), Vec::new());
        for id in lines.filter(|id| self.unheard.get(*id) == Some(&claimed_until)) {
            let Some(record) = self.failed_record(id) else { continue };
            if self.meta.ended.get(id).is_some_and(|ends| *ends >= MOST_ENDS) {
                given_up.push(id.as_bytes().to_vec());
            } else {
                jobs.push(self.unheard_job(id.to_owned(), record));
            }
        }
        Answer::Heard(HearReply { claimed_until, more: self.more_unheard(), given_up, jobs })
    }

    fn more_unheard(&self) -> u64 {
        let free = self.unheard.values().filter(|&&at| at == FREE).count();
        (free + self.meta.unheard.len()) as u64
    }

    fn claim_unheard(&mut self, id: String, record: Vec<u8>, until: u64) -> GrantedJob {
        self.unheard.insert(id.clone(), until);
        self.unheard_job(id, record)
    }

    fn unheard_job(&self, id: String, record: Vec<u8>) -> GrantedJob {
        let came_back = self.returned.get(&id).map(|note| note.text().into_bytes()).unwrap_or_default();
        GrantedJob { id, foreign_id: None, record, came_back }
    }

    fn failed_record(&self, id: &str) -> Option<Vec<u8>> {
        self.records.get(id).filter(|_| self.failed.contains_key(id)).map(super::state::Record::bytes)
    }

    fn forget_unheard(&mut self, id: &str) {
        self.unheard.remove(id);
        self.meta.ended.remove(id);
    }
}

/// The claims of this kind that a step picked among all that were ever made, so also old ones.
pub(super) fn picked(claims: &[Claim], heard: &[usize], kept: &[usize], given_back: &[usize]) -> Vec<Claim> {
    let pick = |at: &usize, standing| {
        let claim = claims.len().checked_sub(1 + at).map(|index| claims[index].clone());
        claim.map(|claim| Claim { standing, ..claim })
    };
    let heard = heard.iter().filter_map(|at| pick(at, Standing::Heard));
    let kept = kept.iter().filter_map(|at| pick(at, Standing::Claimed));
    heard.chain(kept).chain(given_back.iter().filter_map(|at| pick(at, Standing::GivenBack))).collect()
}

/// What an answer claims.
pub(super) fn claims(answer: &Answer) -> Vec<Claim> {
    let Answer::Heard(reply) = answer else { return Vec::new() };
    let ids = reply.jobs.iter().map(|job| job.id.clone().into_bytes()).chain(reply.given_up.iter().cloned());
    ids.map(|id| Claim { id, until: reply.claimed_until, standing: Standing::Claimed }).collect()
}

/// What is worth seeing.
pub(super) fn events(before: &State, after: &State, sent: &Sent, answer: &Answer) -> Vec<(&'static str, bool)> {
    match (&sent.command, answer) {
        (Command::Hear { claims, .. }, Answer::Heard(reply)) => {
            let until = |claim: &Claim| before.unheard.get(std::str::from_utf8(&claim.id).unwrap()).copied();
            let is_ours = |claim: &Claim, standing| claim.standing == standing && until(claim) == Some(claim.until);
            let is_others = |claim: &Claim| until(claim).is_some_and(|until| until != claim.until);
            let is_gone = |id: &String| !after.unheard.contains_key(id) && !after.failed.contains_key(id);
            vec![
                ("a failed job was handed out", !reply.jobs.is_empty()),
                ("more failed jobs were left than handed out", reply.more > 0),
                (
                    "a claim had ended without a word",
                    after.meta.ended.values().sum::<u64>() > before.meta.ended.values().sum(),
                ),
                ("hooks were given up", !reply.given_up.is_empty()),
                (
                    "a claim that had ended long ago was made beside others",
                    claims.iter().any(|claim| claim.standing == Standing::Claimed)
                        && after.meta.ended.values().sum::<u64>() > before.meta.ended.values().sum(),
                ),
                ("a job was heard of", claims.iter().any(|claim| is_ours(claim, Standing::Heard))),
                ("a claim was made anew", claims.iter().any(|claim| is_ours(claim, Standing::Claimed))),
                ("a claim was given back", claims.iter().any(|claim| is_ours(claim, Standing::GivenBack))),
                ("a claim that another worker has was refused", claims.iter().any(is_others)),
                ("an unheard job had left failed", before.unheard.keys().any(is_gone)),
            ]
        }
        (Command::Beat { worker, .. }, Answer::Beat(reply)) => {
            let mut left = before.workers.keys().filter(|known| !after.workers.contains_key(*known));
            vec![
                ("a dead worker was forgotten", left.any(|known| known != worker)),
                ("a worker was told of unheard jobs", reply.unheard > 0),
                ("a worker was told of trimmed jobs", reply.trimmed > 0),
            ]
        }
        _ => Vec::new(),
    }
}
