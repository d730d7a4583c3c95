//! Jobs that entered `failed` while no hook was there to be called: their worker died, their time was over, or whoever held them
//! said so with the job's own verbs. Workers of the queue hear of them.

use crate::format::record::CameBack;
use crate::queue::Part;
use crate::queue::reserve_call::decode;
use crate::script::{Declared, GrantedJob, Hear, HearReply};
use crate::value::error::Error;

/// How long one worker has to report such a job. Renewed with each beat, which is every eleven seconds at the latest.
const CLAIM_MS: u64 = 30_000;
/// A token that no lease has.
const NO_LEASE: u64 = 0;

/// What a worker says of a job that it hears of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The id as it is stored.
    pub(crate) id: Vec<u8>,
    pub(crate) until: u64,
    pub(crate) standing: Standing,
}

/// How far a worker is with a job that it has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its hooks are to be called, or run.
    Claimed,
    /// They were called.
    Heard,
    /// They will not be called here: another worker is to do that, at once.
    GivenBack,
}

impl Standing {
    pub(crate) fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Claimed => b"0",
            Self::Heard => b"1",
            Self::GivenBack => b"-",
        }
    }
}

impl Part {
    /// Says how far this worker is with each of its claims, and claims up to `most` more, with so many bytes of records, or one.
    pub(crate) async fn hear(&self, claims: &[Claim], most: usize, max_bytes: usize) -> Result<HearReply, Error> {
        let hear = Hear { claim_ms: CLAIM_MS, most, max_bytes };
        let claims = claims.iter().map(|claim| (&*claim.id, claim.until, claim.standing.as_bytes()));
        self.run(hear.with(claims)).await
    }
}

impl GrantedJob {
    /// The failed job as its last run had it: its failures are those before that one. Nothing if it cannot be decoded.
    pub(crate) fn failed_of_queue(&self, queue: &Part) -> Option<crate::queue::job::Job> {
        let (mut envelope, returns) = decode(&self.id, &self.record, &self.came_back).ok()?;
        envelope.attempts = envelope.attempts.saturating_sub(1);
        let is_suspect = CameBack::is_suspect(&self.came_back);
        Some(crate::queue::job::Job::granted(envelope, returns, NO_LEASE, queue, is_suspect))
    }
}
