//! One call of the reserve script to one part, and what it grants.

use std::time::Duration;

use crate::format::envelope::{Envelope, cut_error};
use crate::format::record::{CameBack, Record};
use crate::queue::Part;
use crate::queue::job::Job;
use crate::queue::reserve::ReserveOptions;
use crate::queue::settle::add_expired;
use crate::queue::unclaimed::{Granted, Outlive};
use crate::script::{Declared, GrantedJob, KeepTrying, Outcomes, Reserve, ReserveReply, Verb};
use crate::value::error::{Error, ErrorKind};
use crate::value::name::{MAX_HEADER_VALUE_BYTES, MAX_HEADERS};
use crate::value::time::whole_ms;

/// One script call leases at most this many jobs, so that none keeps the server busy for milliseconds; a reserve of
/// more takes several calls.
pub(crate) const MAX_RESERVED_A_CALL: usize = 250;
/// One reserve ends once it gives this many bytes of records; the last record may go beyond.
pub(crate) const MAX_RESERVE_BYTES: usize = 4 * 1024 * 1024;
/// How the error of a job begins whose record cannot be read.
pub(crate) const UNDECODABLE: &str = "undecodable record";

/// When a job that a later version of duly has written is there again for a worker that knows it.
const FOR_NEWER: Duration = Duration::from_secs(5);

/// Why no handler gets a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Its record cannot be read; the error text with which it fails.
    Undecodable(String),
    /// A later version of duly has written it: it is left to workers that know that.
    TooNew,
}

impl Unread {
    /// The error with which it fails; empty if it does not.
    pub(crate) fn error(&self) -> &str {
        match self {
            Self::Undecodable(error) => error,
            Self::TooNew => "",
        }
    }

    /// Writes down what becomes of it.
    pub(crate) fn add_to(&self, outcomes: &mut Outcomes, id: &[u8], token: u64) {
        match self {
            Self::Undecodable(error) => outcomes.other(Verb::Unheard, id, token, None, 0, error, None),
            Self::TooNew => outcomes.other(Verb::Unstarted, id, token, None, whole_ms(FOR_NEWER), "", None),
        }
    }
}

/// One call of the reserve script.
#[derive(Clone, Copy)]
pub(crate) struct ReserveCall {
    pub(crate) want: usize,
    pub(crate) lease: Duration,
    /// How long the caller waits for a job: until then it can promise to come back.
    pub(crate) wait: Duration,
    /// The server time at which it promised to come back, 0 for no promise.
    pub(crate) promise: u64,
    /// The most bytes of records; one job is given however large it is.
    pub(crate) max_bytes: usize,
    /// They are fetched ahead, and start later, if at all; else they have started as soon as the caller has them.
    pub(crate) ahead: bool,
}

impl ReserveCall {
    /// The most jobs that one call leases.
    pub(crate) const MOST: usize = MAX_RESERVED_A_CALL;

    /// Without waiting.
    pub(super) fn now(options: &ReserveOptions) -> Self {
        Self {
            want: options.most().min(Self::MOST),
            lease: options.lease_time(),
            wait: Duration::ZERO,
            promise: 0,
            max_bytes: MAX_RESERVE_BYTES,
            ahead: false,
        }
    }
}

impl Part {
    /// One call of a caller that does not wait, together with those of other tasks.
    pub(super) async fn reserve_with_others(&self, call: ReserveCall) -> Result<Granted, Error> {
        let part = self.clone();
        let send = move |calls: Vec<ReserveCall>| {
            let part = part.clone();
            Outlive::new(async move { part.reserve_for(&calls).await })
        };
        self.shared.reserves.call(call, send).await
    }

    /// One call for the first of these that want the same, handed out in the order in which they came.
    async fn reserve_for(&self, calls: &[ReserveCall]) -> Result<Vec<Granted>, Error> {
        let Some(first) = calls.first() else { return Ok(Vec::new()) };
        let mut want = 0;
        let together = calls.iter().take_while(|call| {
            want += call.want;
            let wants_the_same = (call.lease, call.max_bytes) == (first.lease, first.max_bytes);
            wants_the_same && (want <= ReserveCall::MOST || want == call.want)
        });
        let together = together.count();
        let all = ReserveCall { want: calls[..together].iter().map(|call| call.want).sum(), ..*first };
        let reply = self.reserve_once(all).await?;
        let stopped_early = reply.is_unfinished() || self.has_no_room(&reply.jobs, first.max_bytes);
        let mut jobs = reply.jobs.into_iter();
        let granted = calls.iter().enumerate().map(|(index, call)| Granted {
            token: reply.token,
            behind_token: reply.behind_token,
            jobs: jobs.by_ref().take(if index < together { call.want } else { 0 }).collect(),
            is_unfinished: stopped_early || index >= together,
            queue: self.clone(),
        });
        Ok(granted.collect())
    }

    /// One call for a caller of its own; what it grants is in the second part, not in the reply.
    pub(super) async fn reserve_alone(&self, call: ReserveCall) -> Result<(ReserveReply, Granted), Error> {
        let part = self.clone();
        let round = async move {
            let mut reply = part.reserve_once(call).await?;
            let granted = Granted {
                token: reply.token,
                behind_token: reply.behind_token,
                jobs: std::mem::take(&mut reply.jobs),
                is_unfinished: false,
                queue: part,
            };
            Ok((reply, granted))
        };
        Outlive::new(round).await
    }

    pub(super) async fn reserve_once(&self, call: ReserveCall) -> Result<ReserveReply, Error> {
        let reply = self.reserve_call(&call, &Outcomes::default(), &|_| false).await?;
        if let Some(dropped) = &reply.dropped {
            self.say_expired(dropped.count);
        }
        Ok(reply)
    }

    fn say_expired(&self, expired: usize) {
        tracing::info!(queue = self.name(), expired, "jobs expired before they were reserved, and are dropped");
    }

    /// One call of the reserve script, made as the same call again, behind a pause, after the errors of which `keep_trying`
    /// says so.
    pub(crate) async fn reserve_call(
        &self,
        reserve: &ReserveCall,
        outcomes: &Outcomes,
        keep_trying: KeepTrying<'_>,
    ) -> Result<ReserveReply, Error> {
        let reserve = Reserve {
            want: reserve.want,
            lease_ms: whole_ms(reserve.lease),
            wait_ms: whole_ms(reserve.wait),
            max_bytes: reserve.max_bytes,
            promise: reserve.promise,
            ahead: usize::from(reserve.ahead),
            ack_count: outcomes.ack_count(),
            keyed: outcomes.keyed(),
            result_count: outcomes.result_keys(),
        };
        let reply = self.run(reserve.with([outcomes]).keep_trying(keep_trying).sweeping(self.sweeps())).await?;
        self.note_options(reply.has_options);
        if reply.dropped.is_some() {
            self.note_expired_met();
        }
        if !reply.awaited.is_empty() {
            // On the heap: rare, and this future is moved about on every call.
            Box::pin(self.wake_waiters("reserve", &reply.awaited)).await;
        }
        Ok(reply)
    }

    /// May the script have stopped because the next record was too large, and not for want of jobs?
    pub(super) fn has_no_room(&self, jobs: &[GrantedJob], max_bytes: usize) -> bool {
        let bytes: usize = jobs.iter().map(|job| job.record.len()).sum();
        // The next record may be as large as data, headers and retry policy together, and was then left behind.
        let largest = self.client.shared.max_data_bytes.saturating_add(MAX_HEADERS * (MAX_HEADER_VALUE_BYTES + 256));
        bytes > 0 && bytes.saturating_add(largest) > max_bytes
    }

    /// Decodes what was granted. What cannot be decoded is settled as failed right away, with its bytes kept; what has expired goes.
    pub(super) async fn decode_granted(&self, mut granted: Granted) -> Result<Vec<Job>, Error> {
        let (token, behind_token) = (granted.token, granted.behind_token);
        let mut jobs = Vec::with_capacity(granted.jobs.len());
        let (mut others, mut expired) = (Outcomes::default(), 0_usize);
        for job in &granted.jobs {
            match job.of_queue(self, token).map(|job| job.behind_token(behind_token)) {
                Ok(job) if job.has_expired() => {
                    expired += 1;
                    add_expired(&mut others, &job);
                }
                Ok(job) => jobs.push(job),
                Err(why) => why.add_to(&mut others, job.id_bytes(), token),
            }
        }
        if others.len() > 0 {
            // On the heap, as above.
            Box::pin(self.settle_outcomes("reserve", &others)).await?;
        }
        if expired > 0 {
            self.note_expired_met();
            self.say_expired(expired);
        }
        granted.jobs.clear(); // nobody's any more but the caller's
        Ok(jobs)
    }
}

impl GrantedJob {
    /// The job for its worker, or why that does not get it.
    pub(crate) fn of_queue(&self, queue: &Part, token: u64) -> Result<Job, Unread> {
        if self.foreign_id.is_some() {
            return Err(Unread::Undecodable(format!("{UNDECODABLE}: its id is not UTF-8")));
        }
        let (envelope, returns) =
            decode(&self.id, &self.record, &self.came_back).map_err(|error| match error.kind() {
                ErrorKind::FormatTooNew => Unread::TooNew,
                _ => Unread::Undecodable(cut_error(&format!("{UNDECODABLE}: {error}")).to_owned()),
            })?;
        Ok(Job::granted(envelope, returns, token, queue, CameBack::is_suspect(&self.came_back)))
    }
}

pub(crate) fn decode(id: &str, record: &[u8], came_back: &[u8]) -> Result<(Envelope, u32), Error> {
    let came_back = if came_back.is_empty() { None } else { Some(CameBack::decode(came_back)?) };
    let envelope = Record::decode(id, record, came_back.as_ref())?;
    Ok((envelope, came_back.map_or(0, |came_back| came_back.returns)))
}
