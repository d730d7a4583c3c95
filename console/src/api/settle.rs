//! Acks, fails, releases and extends reserved jobs, which are named by id and token; and waits for results.

use duly::{Data, ErrorKind, Job, Millis, Next, Outcome, lease_from_seconds};
use hyper::StatusCode;
use serde_json::json;
use serde_json::value::RawValue;

use super::Call;
use super::fields::Object;
use super::reply::{Refusal, Reply};
use super::reserve::wait;

impl Call<'_> {
    pub(super) async fn ack(&self, body: &[u8]) -> Result<Reply, Refusal> {
        let mut object = self.settling(body)?;
        let token = token(&mut object)?;
        let result = object.raw("result").map(|result| Data::from_json(result.get(), usize::MAX)).transpose()?;
        object.end()?;
        let job = self.held(token, "ack").await?;
        job.ack_with_data(result).await?;
        Reply::ok(&json!({ "outcome": "done" }))
    }

    pub(super) async fn fail(&self, body: &[u8]) -> Result<Reply, Refusal> {
        let mut object = self.settling(body)?;
        let token = token(&mut object)?;
        let error = object.text("error")?.unwrap_or_default();
        let after = object.span("retry_after")?.map(Millis::from_duration).transpose()?;
        let outcome = Outcome::failure(after, true, object.flag("final")?.unwrap_or_default())?;
        object.end()?;
        let job = self.held(token, "fail").await?;
        Self::said(job.settle(outcome, &error).await?)
    }

    pub(super) async fn release(&self, body: &[u8]) -> Result<Reply, Refusal> {
        let mut object = self.settling(body)?;
        let token = token(&mut object)?;
        let after = Millis::from_duration(object.span("after")?.unwrap_or_default())?;
        let outcome = Outcome::Release { after, counted: object.flag("counted")?.unwrap_or_default() };
        let reason = object.text("reason")?.unwrap_or_default();
        object.end()?;
        let job = self.held(token, "release").await?;
        Self::said(job.settle(outcome, &reason).await?)
    }

    pub(super) async fn extend(&self, body: &[u8]) -> Result<Reply, Refusal> {
        let mut object = self.settling(body)?;
        let token = token(&mut object)?;
        let lease = object.number("lease")?.map_or(Ok(duly::DEFAULT_LEASE), lease_from_seconds)?;
        object.end()?;
        self.held(token, "extend").await?.extend(lease).await?;
        Reply::ok(&json!({ "lease": lease.as_secs_f64() }))
    }

    fn settling<'b>(&self, body: &'b [u8]) -> Result<Object<'b>, Refusal> {
        self.query.only(&["partitions"])?;
        Object::of_body(body)
    }

    /// The job of the path, if it is reserved under this token. Of two queues of one name it is the one that has it: whoever has reserved a
    /// job need not know that a second queue has come meanwhile.
    async fn held(&self, token: u64, verb: &'static str) -> Result<Job, Refusal> {
        let mut refused = None;
        let partitions = self.query.whole("partitions")?;
        for queue in self.api.listed.open_all(&self.api.client, &self.queue, partitions).await? {
            match queue.held_for(verb, &self.job, token).await {
                Ok(job) => return Ok(job),
                // That one of them is away says more than that the other one has no such job.
                Err(error) if refused.is_none() || error.kind() != ErrorKind::LeaseLost => refused = Some(error),
                Err(_) => {}
            }
        }
        Err(refused.map_or_else(|| Refusal::no_job(false), Refusal::from))
    }

    /// What becomes of a job that is not done.
    fn said(next: Next) -> Result<Reply, Refusal> {
        match next {
            Next::RetryAfter { after, attempts } => {
                Reply::ok(&json!({ "outcome": "retry", "after": after.as_seconds(), "attempts": attempts }))
            }
            Next::ReleaseAfter(after) => Reply::ok(&json!({ "outcome": "released", "after": after.as_seconds() })),
            Next::Failed { attempts } => Reply::ok(&json!({ "outcome": "failed", "attempts": attempts })),
            _ => Reply::ok(&json!({ "outcome": "done" })),
        }
    }

    pub(super) async fn result(&self) -> Result<Reply, Refusal> {
        self.query.only(&["partitions", "wait"])?;
        let wait = wait(self.query.number("wait")?)?;
        let _waiting = self.may_wait(wait)?;
        let queue = self.queue().await?;
        let ends = async {
            self.api.ended().await;
            Err(duly::Error::new(duly::ErrorKind::Interrupted, "duly web ends now: ask again").in_queue(queue.name()))
        };
        let result = tokio::select! {
            biased;
            ended = ends => ended,
            result = queue.wait_result(&self.job, Some(wait)) => result,
        };
        let result = result?;
        let result: &RawValue = serde_json::from_str(result.as_str())
            .map_err(|_| duly::Error::new(duly::ErrorKind::Corrupt, "the result is no JSON"))?;
        Ok(Reply::json(StatusCode::OK, format!("{{\"result\":{}}}", result.get())))
    }
}

fn token(object: &mut Object<'_>) -> Result<u64, Refusal> {
    let missing = || Refusal::invalid("`token` is missing: it is the token with which the job was reserved");
    object.whole("token")?.ok_or_else(missing)
}
