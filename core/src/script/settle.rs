//! `settle.lua` and `extend.lua`: what became of reserved jobs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Value;

use super::argument::JobKeys;
use super::call::ByteStrings;
use super::declare::scripts;
use super::reply::{FromReply, text, unexpected};
use super::request::Item;
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::time::whole_ms;

scripts! {
    /// Settles outcomes.
    Settle = "settle",
    kind: Numbered in shapes,
    keys: [Call, Meta, Jobs, Delayed, Reserved, Leases, Failed, Returned, Keys, Parked, Places, Wake, Stats, History, Ready, Result, Done],
    arguments: { ack_count: usize, keyed: usize, result_count: JobKeys },
    items: (outcomes: &'a Outcomes),
    reply: SettleReply;

    /// Sets the end of leases.
    Extend = "extend",
    kind: Plain,
    keys: [Meta, Reserved, Leases],
    arguments: { lease_ms: u64 },
    items: (id: &'a [u8], token: u64),
    reply: Vec<bool>;
}

/// A row of the outcomes that are no acks: verb, id, token, key, delay, error, new record.
const COLUMNS: usize = 7;
const RECORD: usize = 6;
/// Which column is the delay. Of a job that fails for good, or has expired, it says which of the jobs with own keys it is.
const DELAY: usize = 4;

/// What becomes of a job that is not simply done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Counts a failure; due again after the delay.
    Retry,
    /// Due again after the delay, without counting.
    Again,
    /// Given back: to the head of its ready list, or due after the delay; not counted.
    Release,
    /// The same of a job that was only fetched ahead: it has not come back from a run.
    Unstarted,
    /// No outcome yet: it stays reserved, and its run is about to start.
    Start,
    /// Counts a failure and is retried no more; the hooks of its worker were called.
    Failed,
    /// The same, and no hook was called: some worker is to hear of it.
    Unheard,
    /// It expired before a run of it began, and goes.
    Expired,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Again => "again",
            Self::Release => "release",
            Self::Unstarted => "unstarted",
            Self::Start => "start",
            Self::Failed => "failed",
            Self::Unheard => "unheard",
            Self::Expired => "expired",
        }
    }
}

/// Outcomes in the order in which the scripts take them: acks first, then the others.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    ids: ByteStrings,
    tokens: ByteStrings,
    keys: ByteStrings,
    keyed: bool,
    results: Vec<KeptResult>,
    payload_bytes: usize,
    others: ByteStrings,
    /// The indexes among the others of jobs that fail for good, or have expired, while somebody may wait for their results.
    awaited: Vec<usize>,
    /// How many ms the runs took of which that is known: is it an ack, and its index among these or the others.
    took: Vec<(bool, usize, u64)>,
    /// Results and changed records are left out from now on: they do not get through.
    leaves_payload: AtomicBool,
}

/// What an acked job gave.
#[derive(Debug, Clone)]
struct KeptResult {
    /// Its index among the acks, from 0.
    index: usize,
    ttl_ms: u64,
    value: Data,
}

impl Outcomes {
    /// `result`: what is kept of it, and for how many milliseconds.
    pub(crate) fn ack(&mut self, id: &str, token: u64, key: Option<&str>, result: Option<(u64, Data)>) {
        if let Some((ttl_ms, value)) = result {
            self.payload_bytes += value.as_bytes().len();
            self.results.push(KeptResult { index: self.ids.len(), ttl_ms, value });
        }
        self.ids.push(id.as_bytes());
        self.tokens.push_display(token);
        self.keys.push(key.unwrap_or("").as_bytes());
        self.keyed |= key.is_some();
    }

    /// `rewritten`: the record that replaces the stored one, when a failure hook changed it, and the failures that it
    /// says there were before this one.
    #[allow(clippy::too_many_arguments)] // the columns of one row
    pub(crate) fn other(
        &mut self,
        verb: Verb,
        id: impl AsRef<[u8]>,
        token: u64,
        key: Option<&str>,
        delay_ms: u64,
        error: &str,
        rewritten: Option<(u32, &[u8])>,
    ) {
        self.others.push(verb.as_str().as_bytes());
        self.others.push(id.as_ref());
        self.others.push_display(token);
        self.others.push(key.unwrap_or("").as_bytes());
        self.others.push_display(delay_ms);
        self.others.push(error.as_bytes());
        self.payload_bytes += error.len() + rewritten.map_or(0, |(_, record)| record.len());
        match rewritten {
            Some((failures, record)) => self.others.push(&[format!("{failures};").as_bytes(), record].concat()),
            None => self.others.push(b""),
        }
    }

    /// Somebody may wait for the result of the job that was added last, which fails for good, or has expired.
    pub(crate) fn note_awaited(&mut self) {
        self.awaited.push(self.others.len() / COLUMNS - 1);
    }

    /// How long the run took whose outcome was added last. Only a history wants to know.
    pub(crate) fn note_took(&mut self, is_ack: bool, took: Duration) {
        let index = if is_ack { self.ids.len() } else { self.others.len() / COLUMNS };
        self.took.push((is_ack, index - 1, whole_ms(took)));
    }

    /// Adds somebody else's outcomes.
    pub(crate) fn take(&mut self, other: &Self) {
        let acks = self.ids.len();
        self.results.extend(other.results.iter().map(|kept| KeptResult { index: acks + kept.index, ..kept.clone() }));
        self.payload_bytes += other.payload_bytes;
        self.ids.extend(&other.ids);
        self.tokens.extend(&other.tokens);
        self.keys.extend(&other.keys);
        self.keyed |= other.keyed;
        let others = self.others.len() / COLUMNS;
        self.awaited.extend(other.awaited.iter().map(|index| others + index));
        let moved = |&(is_ack, index, ms)| (is_ack, index + if is_ack { acks } else { others }, ms);
        self.took.extend(other.took.iter().map(moved));
        self.others.extend(&other.others);
    }

    pub(crate) fn ack_count(&self) -> usize {
        self.ids.len()
    }

    /// The id of the outcome at this index, acks first; empty when there is none.
    pub(crate) fn id_at(&self, index: usize) -> String {
        let id = match index.checked_sub(self.ack_count()) {
            None => self.ids.iter().nth(index),
            Some(other) => self.others.iter().nth(COLUMNS * other + 1),
        };
        String::from_utf8_lossy(id.unwrap_or_default()).into_owned()
    }

    /// 1 when an acked job has a key, so that the keys are sent too.
    pub(crate) fn keyed(&self) -> usize {
        usize::from(self.keyed)
    }

    /// The jobs that leave a result, and then those that fail while somebody may wait for one.
    pub(crate) fn result_keys(&self) -> JobKeys {
        let mut ids = ByteStrings::default();
        let mut kept = self.results.iter().map(|kept| kept.index).peekable();
        for (index, id) in self.ids.iter().enumerate() {
            if kept.next_if_eq(&index).is_some() {
                ids.push(id);
            }
        }
        for index in &self.awaited {
            ids.push(self.others.iter().nth(COLUMNS * index + 1).unwrap_or_default());
        }
        JobKeys(ids)
    }

    /// How large results, error texts and rewritten records are together.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Settles without the results, as a server without memory does, and with the records as they were. Under the same call number: if an
    /// attempt that had them was executed, its answer holds.
    pub(crate) fn leave_payload(&self) {
        self.leaves_payload.store(true, Ordering::Relaxed);
    }

    fn leaves_payload(&self) -> bool {
        self.leaves_payload.load(Ordering::Relaxed)
    }

    /// The indexes, acks first, of those of which something is left out.
    pub(crate) fn left_out(&self) -> Vec<usize> {
        if !self.leaves_payload() {
            return Vec::new();
        }
        let rows = self.others.iter().enumerate().filter(|(at, column)| at % COLUMNS == RECORD && !column.is_empty());
        let records = rows.map(|(at, _)| self.ack_count() + at / COLUMNS);
        self.results.iter().map(|kept| kept.index).chain(records).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.ack_count() + self.others.len() / COLUMNS
    }

    /// Of each, acks first: what is said (`ack`, or the verb), id and token.
    #[cfg(test)]
    pub(crate) fn said(&self) -> Vec<(String, String, u64)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let acks = self.ids.iter().zip(self.tokens.iter()).map(|(id, token)| ("ack".to_owned(), text(id), token));
        let others: Vec<_> = self.others.iter().collect();
        let others = others.chunks(COLUMNS).map(|row| (text(row[0]), text(row[1]), row[2]));
        acks.chain(others).map(|(verb, id, token)| (verb, id, text(token).parse().unwrap_or_default())).collect()
    }
}

impl Item for &Outcomes {
    fn jobs(&self) -> usize {
        self.len()
    }

    fn took(&self) -> String {
        if self.took.is_empty() {
            return String::new();
        }
        let mut all = vec![None; self.len()];
        for &(is_ack, index, ms) in &self.took {
            all[if is_ack { index } else { self.ack_count() + index }] = Some(ms);
        }
        let texts = all.into_iter().map(|ms| ms.map_or_else(|| "-".to_owned(), |ms| ms.to_string()));
        texts.collect::<Vec<_>>().join(",")
    }

    fn needs_full_text(&self) -> bool {
        self.others.len() > 0
    }

    fn append(&self, out: &mut ByteStrings) {
        let parts = [Some(&self.ids), Some(&self.tokens), self.keyed.then_some(&self.keys)];
        parts.into_iter().flatten().flat_map(ByteStrings::iter).for_each(|item| out.push(item));
        let leaves_payload = self.leaves_payload();
        for kept in &self.results {
            out.push_display(kept.index + 1);
            out.push_display(kept.ttl_ms);
            out.push(if leaves_payload { b"" } else { kept.value.as_bytes() });
        }
        if self.awaited.is_empty() && !leaves_payload {
            out.extend(&self.others);
            return;
        }
        for _ in &self.awaited {
            for column in [b"0".as_slice(), b"", b""] {
                out.push(column);
            }
        }
        let mut awaited = self.awaited.iter().enumerate().peekable();
        for (at, column) in self.others.iter().enumerate() {
            match awaited.next_if(|(_, index)| at == COLUMNS * *index + DELAY) {
                Some((number, _)) => out.push_display(self.results.len() + number + 1),
                None if leaves_payload && at % COLUMNS == RECORD => out.push(b""),
                None => out.push(column),
            }
        }
    }
}

/// What became of outcomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettleReply {
    /// One an outcome: was it settled, or was the lease lost?
    pub(crate) settled: Vec<bool>,
    /// See [`not_kept`].
    pub(crate) not_kept: Vec<usize>,
}

impl FromReply for SettleReply {
    fn decode(reply: Value) -> Result<Self, Error> {
        let text = text(reply)?;
        Ok(Self { settled: flags(&text)?, not_kept: not_kept(&text).collect() })
    }

    fn fits(&self, outcomes: usize) -> bool {
        self.settled.len() == outcomes
    }
}

/// One a lease: is it still ours?
impl FromReply for Vec<bool> {
    fn decode(reply: Value) -> Result<Self, Error> {
        flags(&text(reply)?)
    }

    fn fits(&self, leases: usize) -> bool {
        self.len() == leases
    }
}

/// One bool an outcome: was it settled, or was the lease lost?
pub(crate) fn flags(text: &str) -> Result<Vec<bool>, Error> {
    if text.bytes().any(|flag| !matches!(flag, b'0'..=b'2')) {
        return Err(unexpected("one flag an outcome"));
    }
    Ok(text.bytes().map(|flag| flag != b'0').collect())
}

/// The indexes of those that were settled without their result, or with the record that they had before, because the server is full.
pub(crate) fn not_kept(text: &str) -> impl Iterator<Item = usize> {
    text.bytes().enumerate().filter(|(_, flag)| *flag == b'2').map(|(index, _)| index)
}
