//! What the steps of a scenario say: their verbs and arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::{
    Error, Filter, Limits, LockOptions, Millis, NameLimits, NewJob, OnDuplicate, Rate, ReserveOptions, RetryPolicy,
    When,
};
use serde::Deserialize;
use serde_json::Value;

use super::schedules::ScheduleArgs;

/// `"expect": null` is an expectation too.
pub(super) fn even_null<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NameArguments {
    pub(super) concurrency: Option<u32>,
    pub(super) rate: Option<(u32, f64)>,
}

/// A step's verb and arguments, once its references are replaced. An unknown verb or argument does not decode.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Verb {
    Queue {
        name: String,
    },
    Push(PushArgs),
    PushMany {
        jobs: Vec<PushArgs>,
        times: Option<u32>,
    },
    Reserve {
        lease: Option<f64>,
    },
    ReserveMany {
        max: usize,
        lease: Option<f64>,
    },
    Ack {
        job: Value,
        #[serde(default, deserialize_with = "even_null")]
        result: Option<Value>,
    },
    AckMany {
        jobs: Vec<Value>,
    },
    Fail {
        job: Value,
        error: String,
        retry_after: Option<f64>,
        counted: Option<bool>,
        r#final: Option<bool>,
        attempts: Option<u32>,
        max_retries: Option<u32>,
        headers: Option<BTreeMap<String, String>>,
        name: Option<String>,
    },
    Release {
        job: Value,
        after: Option<f64>,
        reason: Option<String>,
        counted: Option<bool>,
    },
    NoteStart {
        job: Value,
    },
    Extend {
        job: Value,
        lease: f64,
    },
    Cancel {
        id: Option<String>,
        key: Option<String>,
        only: Option<Vec<String>>,
    },
    Reschedule {
        id: Option<String>,
        key: Option<String>,
        delay: Option<f64>,
        at: Option<f64>,
    },
    Requeue {
        ids: Vec<String>,
    },
    RequeueAll {},
    Purge {
        state: String,
    },
    Clear {},
    Pause {},
    Resume {},
    Promote {},
    Reclaim {},
    KeepFailed {
        max: u64,
        age: f64,
    },
    KeepHistory {
        jobs: Option<u64>,
        age: Option<f64>,
    },
    Trace {
        id: String,
    },
    SetLimits {
        concurrency: Option<u32>,
        rate: Option<(u32, f64)>,
        names: Option<BTreeMap<String, NameArguments>>,
        max_length: Option<u64>,
    },
    Limits {},
    Counts {},
    Peek {
        state: String,
        offset: Option<usize>,
        limit: Option<usize>,
    },
    Search(Search),
    Find(Target),
    Progress {
        job: Value,
        fraction: f64,
        text: Option<String>,
    },
    Lock {
        name: String,
        ttl: Option<f64>,
        wait: Option<f64>,
    },
    Unlock {
        lock: Value,
    },
    LockForJob {
        job: Value,
        name: String,
        retry_after: f64,
        ttl: Option<f64>,
        wait: Option<f64>,
    },
    Workers {},
    Rates {
        within: Option<f64>,
    },
    Queues {
        limit: Option<usize>,
        cursor: Option<String>,
    },
    Delete {
        #[serde(default)]
        jobs: u64,
    },
    WaitResult {
        id: String,
        timeout: Option<f64>,
    },
    PutSchedule {
        name: String,
        schedule: Box<ScheduleArgs>,
    },
    RemoveSchedule(Named),
    GetSchedule(Named),
    PauseSchedule(Named),
    ResumeSchedule(Named),
    RunSchedule(Named),
    NextSlots {
        name: String,
        count: usize,
    },
    ListSchedules {
        offset: Option<usize>,
        limit: Option<usize>,
    },
    SyncSchedules {
        owner: String,
        schedules: BTreeMap<String, ScheduleArgs>,
    },
    FireDue {},
    Advance {
        seconds: f64,
    },
    Redis {
        command: Vec<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    pub(super) state: String,
    pub(super) name: Option<String>,
    pub(super) key_prefix: Option<String>,
    pub(super) error: Option<String>,
    pub(super) priority: Option<u8>,
    pub(super) since: Option<f64>,
    pub(super) until: Option<f64>,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

impl Search {
    pub(super) fn filter(&self) -> Result<Filter, Error> {
        let mut filter = Filter::new();
        filter = self.name.iter().fold(filter, Filter::name);
        filter = self.key_prefix.iter().fold(filter, Filter::key_prefix);
        filter = self.error.iter().fold(filter, Filter::error);
        filter = self.priority.iter().fold(filter, |filter, priority| filter.priority(*priority));
        if let Some(since) = self.since {
            filter = filter.since(Millis::from_unix_seconds(since)?);
        }
        if let Some(until) = self.until {
            filter = filter.until(Millis::from_unix_seconds(until)?);
        }
        Ok(filter)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Target {
    Id(String),
    Key(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) name: String,
}

#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct PushArgs {
    pub(super) raw: Option<String>,
    pub(super) name: Option<String>,
    pub(super) delay: Option<f64>,
    pub(super) at: Option<f64>,
    pub(super) id: Option<String>,
    pub(super) key: Option<String>,
    pub(super) priority: Option<u8>,
    pub(super) max_retries: Option<u32>,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) timeout: Option<f64>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) expires: Option<f64>,
    pub(super) result_ttl: Option<f64>,
    pub(super) on_duplicate: Option<String>,
}

impl PushArgs {
    pub(super) fn made(self, round: &str) -> Result<NewJob, Error> {
        let numbered = |text: String| text.replace("{i}", round);
        let mut job = NewJob::from_json(numbered(self.raw.unwrap_or_else(|| "1".to_owned())))?;
        job = job.when(when(self.delay, self.at)?);
        if let Some(name) = self.name {
            job = job.name(name);
        }
        if let Some(id) = self.id {
            job = job.id(numbered(id));
        }
        if let Some(key) = self.key {
            job = job.key(numbered(key));
        }
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(max_retries) = self.max_retries {
            job = job.max_retries(max_retries);
        }
        if let Some(policy) = self.retry {
            job = job.retry(policy);
        }
        if let Some(timeout) = self.timeout {
            job = job.timeout(span(timeout)?);
        }
        if let Some(expires) = self.expires {
            job = job.expires(When::After(Millis::from_seconds(expires)?));
        }
        if let Some(ttl) = self.result_ttl {
            job = job.result_ttl(span(ttl)?);
        }
        for (name, value) in self.headers {
            job = job.header(name, value);
        }
        Ok(match self.on_duplicate.as_deref() {
            None => job,
            Some("refuse") => job.on_duplicate(OnDuplicate::Refuse),
            Some("keep") => job.on_duplicate(OnDuplicate::Keep),
            Some("replace") => job.on_duplicate(OnDuplicate::Replace),
            Some(other) => panic!("on_duplicate cannot be {other}"),
        })
    }
}

pub(super) fn when(delay: Option<f64>, at: Option<f64>) -> Result<When, Error> {
    Ok(match (delay, at) {
        (_, Some(at)) => When::At(Millis::from_unix_seconds(at)?),
        (Some(delay), None) => When::After(Millis::from_seconds(delay)?),
        (None, None) => When::Now,
    })
}

pub(super) fn span(seconds: f64) -> Result<Duration, Error> {
    Millis::from_seconds(seconds).map(Millis::to_duration)
}

pub(super) fn reserve_options(max: usize, lease: Option<f64>) -> Result<ReserveOptions, Error> {
    let options = ReserveOptions::new().max(max);
    Ok(match lease {
        Some(lease) => options.lease(span(lease)?),
        None => options,
    })
}

pub(super) fn lock_options(ttl: Option<f64>, wait: Option<f64>) -> Result<LockOptions, Error> {
    let mut options = LockOptions::new();
    if let Some(ttl) = ttl {
        options = options.ttl(span(ttl)?);
    }
    if let Some(wait) = wait {
        options = options.wait(span(wait)?);
    }
    Ok(options)
}

pub(super) fn new_limits(
    concurrency: Option<u32>,
    rate: Option<(u32, f64)>,
    names: BTreeMap<String, NameArguments>,
) -> Result<Limits, Error> {
    let mut limits = Limits::new();
    let new_rate = |(jobs, per)| Ok::<_, Error>(Rate { jobs, per: span(per)? });
    limits.concurrency = concurrency;
    limits.rate = rate.map(new_rate).transpose()?;
    for (name, NameArguments { concurrency, rate }) in names {
        let mut of_name = NameLimits::new();
        of_name.concurrency = concurrency;
        of_name.rate = rate.map(new_rate).transpose()?;
        limits = limits.name(name, of_name);
    }
    Ok(limits)
}
