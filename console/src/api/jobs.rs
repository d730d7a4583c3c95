//! Finds, lists, cancels, reschedules and requeues jobs.

use std::time::Duration;

use duly::{Cancelled, Filter, Millis, Requeued, State};
use serde::Serialize;
use serde_json::json;

use super::Call;
use super::fields::Object;
use super::push::when;
use super::reply::{Refusal, Reply};
use super::written::Viewed;
use crate::actions::outcome_of_some;

const DEFAULT_LIMIT: usize = 100;

#[derive(Serialize)]
struct Page<'a> {
    jobs: Vec<Viewed<'a>>,
    cursor: Option<&'a str>,
    looked_at: u64,
}

impl Call<'_> {
    pub(super) async fn find(&self, by_key: bool) -> Result<Reply, Refusal> {
        self.query.only(&["partitions"])?;
        let queue = self.queue().await?;
        let found = if by_key { queue.find_key(&self.job).await? } else { queue.find(&self.job).await? };
        let found = found.ok_or_else(|| Refusal::no_job(by_key))?;
        Reply::ok(&Viewed::found(&found)?)
    }

    pub(super) async fn list(&self) -> Result<Reply, Refusal> {
        let query = &self.query;
        query.only(&[
            "partitions",
            "state",
            "name",
            "unnamed",
            "key_prefix",
            "error",
            "group",
            "priority",
            "older_than",
            "since",
            "until",
            "limit",
            "cursor",
        ])?;
        let (state, filter) = (self.state()?, self.filter()?);
        let limit = query.whole("limit")?.unwrap_or(DEFAULT_LIMIT);
        let room = self.api.rooms.of_page().await?;
        let page = self.queue().await?.search(state, &filter, query.text("cursor"), limit).await?;
        let jobs = page.jobs.iter().map(Viewed::of).collect::<Result<_, _>>()?;
        let reply = Reply::ok(&Page { jobs, cursor: page.cursor.as_deref(), looked_at: page.looked_at })?;
        Ok(reply.holding(room))
    }

    fn state(&self) -> Result<State, Refusal> {
        let missing = || Refusal::invalid("say in which state: `state=` delayed, ready, reserved or failed");
        Ok(State::parse(self.query.text("state").ok_or_else(missing)?)?)
    }

    fn filter(&self) -> Result<Filter, Refusal> {
        let query = &self.query;
        let mut filter = Filter::new();
        if let Some(name) = query.text("name") {
            filter = filter.name(name);
        }
        match query.text("unnamed") {
            None | Some("false") => {}
            Some("true") => filter = filter.unnamed(),
            Some(_) => return Err(Refusal::invalid("`unnamed` of the query must be true or false")),
        }
        if let Some(prefix) = query.text("key_prefix") {
            filter = filter.key_prefix(prefix);
        }
        if let Some(error) = query.text("error") {
            filter = filter.error(error);
        }
        if let Some(kind) = query.text("group") {
            filter = filter.group(kind);
        }
        if let Some(priority) = query.whole("priority")? {
            filter = filter.priority(priority);
        }
        if let Some(age) = query.number("older_than")? {
            let age: Duration = Millis::from_seconds(age)?.to_duration();
            filter = filter.older_than(age);
        }
        if let Some(at) = query.number("since")? {
            filter = filter.since(Millis::from_unix_seconds(at)?);
        }
        if let Some(before) = query.number("until")? {
            filter = filter.until(Millis::from_unix_seconds(before)?);
        }
        Ok(filter)
    }

    pub(super) async fn cancel(&self, by_key: bool) -> Result<Reply, Refusal> {
        self.query.only(&["partitions", "only"])?;
        let only: Option<Vec<State>> =
            self.query.text("only").map(|states| states.split(',').map(State::parse).collect()).transpose()?;
        let (queue, job) = (self.queue().await?, &self.job);
        let cancelled = match (by_key, only) {
            (false, None) => queue.cancel(job).await?,
            (false, Some(only)) => queue.cancel_only(job, &only).await?,
            (true, None) => queue.cancel_key(job).await?,
            (true, Some(only)) => queue.cancel_key_only(job, &only).await?,
        };
        let Cancelled { id, was } = cancelled.ok_or_else(|| Refusal::no_job(by_key))?;
        Reply::ok(&json!({ "id": id, "was": was.as_str() }))
    }

    pub(super) async fn reschedule(&self, body: &[u8], by_key: bool) -> Result<Reply, Refusal> {
        self.query.only(&["partitions"])?;
        let mut object = Object::of_body(body)?;
        let when = when(&mut object)?.ok_or_else(|| Refusal::invalid("say when: `delay` or `at`, in seconds"))?;
        object.end()?;
        let queue = self.queue().await?;
        let id = if by_key {
            queue.reschedule_key(&self.job, when).await?
        } else {
            queue.reschedule(&self.job, when).await?
        };
        Reply::ok(&json!({ "id": id }))
    }

    pub(super) async fn requeue(&self, body: &[u8]) -> Result<Reply, Refusal> {
        self.query.only(&["partitions"])?;
        let mut object = Object::of_body(body)?;
        let ids = object.texts("ids")?.filter(|ids| (1..=duly::MAX_BATCH).contains(&ids.len()));
        let ids =
            ids.ok_or_else(|| Refusal::invalid(format!("`ids` must be 1 to {} ids of failed jobs", duly::MAX_BATCH)))?;
        object.end()?;
        let outcomes = self.queue().await?.requeue(&ids).await?;
        let done = outcomes.iter().filter(|outcome| matches!(outcome, Requeued::Ready)).count();
        let outcome = outcome_of_some(done as u64, ids.len() as u64);
        let said = |(id, outcome): (&String, &Requeued)| match outcome {
            Requeued::Duplicate { id: holder } => json!({ "id": id, "outcome": "duplicate", "holder": holder }),
            Requeued::Absent => json!({ "id": id, "outcome": "absent" }),
            _ => json!({ "id": id, "outcome": "ready" }),
        };
        let reply = Reply::ok(&json!({ "jobs": ids.iter().zip(&outcomes).map(said).collect::<Vec<_>>() }))?;
        Ok(reply.with_outcome(outcome))
    }
}
