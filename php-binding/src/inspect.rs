//! What looking at a queue gives: `Duly\Counts`, `Duly\Progress`, `Duly\JobView` and `Duly\Found`.
//!
//! PHP finds all methods of a class in one block, and has no class for what `JobView`, `Found` and `Duly\Job` have in common: each
//! has its own line of a property.

use std::collections::BTreeMap;

use duly::Millis;
use ext_php_rs::binary::Binary;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;

use crate::convert;
use crate::record::{record, signed};

record! {
    /// How many jobs are where, and what comes next. Spans are seconds.
    Counts = "Duly\\Counts" {
        /// Jobs that wait for their due time.
        delayed: i64,
        /// Jobs that may be reserved now.
        ready: i64,
        /// Jobs that a worker has.
        reserved: i64,
        /// Jobs that failed for good.
        failed: i64,
        /// Is the queue paused? One with partitions is if some of them are: their jobs are not handed out.
        paused: bool,
        /// How long ago the oldest ready job was pushed, by the pushing host's clock.
        oldest_ready_age: Option<f64>,
        /// How long until the next delayed job is due; 0 if it is overdue.
        next_due_in: Option<f64>,
        /// For how long the first delayed job is due that no reserve has made ready, because no worker asks or the queue is paused; null
        /// while none is due.
        overdue: Option<f64>,
        /// How long until the next lease ends; 0 if it is over.
        next_lease_end_in: Option<f64>,
        /// Totals over the queue's life, by name. They inform; nothing relies on them.
        totals: BTreeMap<String, i64>,
        /// Which limit holds jobs back just now, of the queue or of names; null while none does.
        held: Option<String>,
    }
}

impl From<duly::Counts> for Counts {
    fn from(counts: duly::Counts) -> Self {
        Self {
            delayed: signed(counts.delayed),
            ready: signed(counts.ready),
            reserved: signed(counts.reserved),
            failed: signed(counts.failed),
            paused: counts.paused,
            oldest_ready_age: counts.oldest_ready_age.map(Millis::as_seconds),
            next_due_in: counts.next_due_in.map(Millis::as_seconds),
            overdue: counts.overdue.map(Millis::as_seconds),
            next_lease_end_in: counts.next_lease_end_in.map(Millis::as_seconds),
            totals: counts.totals.into_iter().map(|(name, total)| (name, signed(total))).collect(),
            held: counts.held,
        }
    }
}

record! {
    /// How far a run has come.
    Progress = "Duly\\Progress" {
        /// From 0 to 1.
        fraction: f64,
        /// What its handler says of it; perhaps nothing.
        text: String,
        /// When it said so, in unix seconds by the server's clock.
        at: f64,
    }
}

impl From<duly::Progress> for Progress {
    fn from(progress: duly::Progress) -> Self {
        Self { fraction: progress.fraction, text: progress.text, at: progress.at.as_seconds() }
    }
}

/// A job as somebody who looks at it sees it.
#[php_class]
#[php(name = "Duly\\JobView")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone, Debug)]
pub struct JobView(duly::JobView);

impl JobView {
    pub fn new(view: duly::JobView) -> Self {
        Self(view)
    }
}

#[php_impl]
impl JobView {
    /// The job's id.
    #[php(getter)]
    pub fn id(&self) -> String {
        self.0.envelope.id.clone()
    }

    /// The data exactly as it was pushed, as JSON.
    #[php(getter)]
    pub fn raw(&self) -> String {
        self.0.envelope.data.as_str().to_owned()
    }

    /// Which handler runs it.
    #[php(getter)]
    pub fn name(&self) -> Option<String> {
        self.0.envelope.name.clone()
    }

    /// The business key.
    #[php(getter)]
    pub fn key(&self) -> Option<String> {
        self.0.envelope.key.clone()
    }

    /// 0 (first) to 9 (last).
    #[php(getter)]
    pub fn priority(&self) -> i64 {
        self.0.envelope.priority.into()
    }

    /// Failures so far.
    #[php(getter)]
    pub fn attempts(&self) -> i64 {
        self.0.envelope.attempts.into()
    }

    /// How many retries it may have.
    #[php(getter)]
    pub fn max_retries(&self) -> i64 {
        self.0.envelope.max_attempts.into()
    }

    /// The text of the last failure, or the empty string.
    #[php(getter)]
    pub fn error(&self) -> String {
        self.0.envelope.error.clone()
    }

    /// The headers that travel with the job.
    #[php(getter)]
    pub fn headers(&self) -> BTreeMap<String, String> {
        self.0.envelope.headers.clone()
    }

    /// How often it came back from a worker: failed, released, or its lease ended.
    #[php(getter)]
    pub fn returns(&self) -> i64 {
        self.0.returns.into()
    }

    /// The longest run in seconds, if one is set.
    #[php(getter)]
    pub fn timeout(&self) -> Option<f64> {
        self.0.envelope.timeout.map(Millis::as_seconds)
    }

    /// When it is dropped unless a run of it has started, in unix seconds; null if never.
    #[php(getter)]
    pub fn expires(&self) -> Option<f64> {
        self.0.envelope.expires.map(Millis::as_seconds)
    }

    /// For how many seconds its result is kept; null when none is.
    #[php(getter)]
    pub fn result_ttl(&self) -> Option<f64> {
        self.0.envelope.result_ttl.map(Millis::as_seconds)
    }

    /// When it was pushed, in unix seconds by the producer's clock.
    #[php(getter)]
    pub fn pushed_at(&self) -> i64 {
        signed(self.0.envelope.time)
    }

    /// The data as `json_decode` gives it: arrays, or objects with `assoc: false`.
    #[php(defaults(assoc = true))]
    pub fn data(&self, assoc: bool) -> PhpResult<Zval> {
        Ok(convert::decode(self.0.envelope.data.as_str(), assoc)?)
    }

    /// The fields of its package that duly does not know, each as `json_decode` gives it: another program, or another queue, has written
    /// them.
    #[php(defaults(assoc = true))]
    pub fn extra(&self, assoc: bool) -> PhpResult<BTreeMap<String, Zval>> {
        Ok(convert::extra(&self.0.envelope, assoc)?)
    }

    /// The complete JSON package, as an export or an older consumer reads it; the stored bytes if it is `undecodable`.
    #[php(getter)]
    pub fn package(&self) -> Binary<u8> {
        self.0.package().into_iter().collect()
    }

    /// `delayed`, `ready`, `reserved` or `failed`.
    #[php(getter)]
    pub fn state(&self) -> String {
        self.0.state.as_str().to_owned()
    }

    /// Due time, end of the lease, or time of failure, in unix seconds of the server; null for a ready job.
    #[php(getter)]
    pub fn at(&self) -> Option<f64> {
        self.0.at.map(Millis::as_seconds)
    }

    /// How far its run has come, if it is reserved and its handler noted it.
    #[php(getter)]
    pub fn progress(&self) -> Option<Progress> {
        self.0.progress.clone().map(Progress::from)
    }

    /// Why the record could not be decoded, if so; the data is null then.
    #[php(getter)]
    pub fn undecodable(&self) -> Option<String> {
        self.0.undecodable.clone()
    }
}

/// Where one job is and why it is not running.
#[php_class]
#[php(name = "Duly\\Found")]
#[php(flags = ClassFlags::Final)]
#[derive(Clone)]
pub struct Found(duly::Found);

impl Found {
    pub fn new(found: duly::Found) -> Self {
        Self(found)
    }
}

#[php_impl]
impl Found {
    /// The job's id.
    #[php(getter)]
    pub fn id(&self) -> String {
        self.0.job.envelope.id.clone()
    }

    /// The data exactly as it was pushed, as JSON.
    #[php(getter)]
    pub fn raw(&self) -> String {
        self.0.job.envelope.data.as_str().to_owned()
    }

    /// Which handler runs it.
    #[php(getter)]
    pub fn name(&self) -> Option<String> {
        self.0.job.envelope.name.clone()
    }

    /// The business key.
    #[php(getter)]
    pub fn key(&self) -> Option<String> {
        self.0.job.envelope.key.clone()
    }

    /// 0 (first) to 9 (last).
    #[php(getter)]
    pub fn priority(&self) -> i64 {
        self.0.job.envelope.priority.into()
    }

    /// Failures so far.
    #[php(getter)]
    pub fn attempts(&self) -> i64 {
        self.0.job.envelope.attempts.into()
    }

    /// How many retries it may have.
    #[php(getter)]
    pub fn max_retries(&self) -> i64 {
        self.0.job.envelope.max_attempts.into()
    }

    /// The text of the last failure, or the empty string.
    #[php(getter)]
    pub fn error(&self) -> String {
        self.0.job.envelope.error.clone()
    }

    /// The headers that travel with the job.
    #[php(getter)]
    pub fn headers(&self) -> BTreeMap<String, String> {
        self.0.job.envelope.headers.clone()
    }

    /// How often it came back from a worker: failed, released, or its lease ended.
    #[php(getter)]
    pub fn returns(&self) -> i64 {
        self.0.job.returns.into()
    }

    /// The longest run in seconds, if one is set.
    #[php(getter)]
    pub fn timeout(&self) -> Option<f64> {
        self.0.job.envelope.timeout.map(Millis::as_seconds)
    }

    /// When it is dropped unless a run of it has started, in unix seconds; null if never.
    #[php(getter)]
    pub fn expires(&self) -> Option<f64> {
        self.0.job.envelope.expires.map(Millis::as_seconds)
    }

    /// For how many seconds its result is kept; null when none is.
    #[php(getter)]
    pub fn result_ttl(&self) -> Option<f64> {
        self.0.job.envelope.result_ttl.map(Millis::as_seconds)
    }

    /// When it was pushed, in unix seconds by the producer's clock.
    #[php(getter)]
    pub fn pushed_at(&self) -> i64 {
        signed(self.0.job.envelope.time)
    }

    /// The data as `json_decode` gives it: arrays, or objects with `assoc: false`.
    #[php(defaults(assoc = true))]
    pub fn data(&self, assoc: bool) -> PhpResult<Zval> {
        Ok(convert::decode(self.0.job.envelope.data.as_str(), assoc)?)
    }

    /// The fields of its package that duly does not know, each as `json_decode` gives it: another program, or another queue, has written
    /// them.
    #[php(defaults(assoc = true))]
    pub fn extra(&self, assoc: bool) -> PhpResult<BTreeMap<String, Zval>> {
        Ok(convert::extra(&self.0.job.envelope, assoc)?)
    }

    /// The complete JSON package, as an export or an older consumer reads it; the stored bytes if it is `undecodable`.
    #[php(getter)]
    pub fn package(&self) -> Binary<u8> {
        self.0.job.package().into_iter().collect()
    }

    /// `delayed`, `ready`, `reserved` or `failed`.
    #[php(getter)]
    pub fn state(&self) -> String {
        self.0.job.state.as_str().to_owned()
    }

    /// Due time, end of the lease, or time of failure, in unix seconds of the server; null for a ready job.
    #[php(getter)]
    pub fn at(&self) -> Option<f64> {
        self.0.job.at.map(Millis::as_seconds)
    }

    /// How far its run has come, if it is reserved and its handler noted it.
    #[php(getter)]
    pub fn progress(&self) -> Option<Progress> {
        self.0.job.progress.clone().map(Progress::from)
    }

    /// Why the record could not be decoded, if so; the data is null then.
    #[php(getter)]
    pub fn undecodable(&self) -> Option<String> {
        self.0.job.undecodable.clone()
    }

    /// The token of its lease, when it is reserved.
    #[php(getter)]
    pub fn token(&self) -> Option<i64> {
        self.0.token.map(signed)
    }

    /// The server's time of this answer, in unix seconds.
    #[php(getter)]
    pub fn now(&self) -> f64 {
        self.0.now.as_seconds()
    }

    /// One sentence: why it waits, or who has it.
    #[php(getter)]
    pub fn why(&self) -> String {
        self.0.why.clone()
    }
}
