//! What a scenario sees of jobs, workers, limits and counts.

use std::collections::{BTreeMap, HashMap};

use duly::{Envelope, Error, Found, JobView, Millis, NameLimits, Queue, Rate, Rates, Requeued, Trace, WorkerInfo};
use serde_json::{Value, json};

pub(crate) fn shown(envelope: &Envelope) -> Value {
    json!({
        "id": envelope.id, "raw": envelope.data.as_str(), "name": envelope.name, "key": envelope.key,
        "priority": envelope.priority, "attempts": envelope.attempts, "max_retries": envelope.max_attempts,
        "error": envelope.error, "headers": envelope.headers, "timeout": envelope.timeout,
        "expires": envelope.expires,
        "extra": envelope.unknown.iter().map(|field| {
            let value = envelope.extra(&field.name).unwrap().deserialize().unwrap();
            (field.name.clone(), value)
        }).collect::<BTreeMap<String, Value>>(),
    })
}

pub(crate) fn view(job: &JobView) -> Value {
    let mut shown = shown(&job.envelope);
    shown["state"] = json!(job.state.as_str());
    shown["at"] = json!(job.at);
    shown["undecodable"] = json!(job.undecodable);
    let progress = job.progress.as_ref();
    shown["progress"] = json!(progress.map(|it| json!({ "fraction": it.fraction, "text": it.text, "at": it.at })));
    shown
}

pub(crate) fn worker(worker: &WorkerInfo) -> Value {
    let mut shown = json!(worker);
    shown["id"] = json!(worker.id);
    shown
}

pub(crate) fn trace(trace: &Trace) -> Value {
    let seconds = |at: Option<Millis>| at.map(Millis::as_seconds);
    let event = |event: &duly::TraceEvent| {
        json!({
            "at": event.at.as_seconds(), "what": event.what.as_str(), "language": event.language, "pid": event.pid,
            "host": event.host, "due": seconds(event.due), "token": event.token, "attempt": event.attempt,
            "took": event.took.map(|took| took.as_secs_f64()), "error": event.error, "detail": event.detail,
        })
    };
    let run = |run: &duly::TraceRun| {
        json!({
            "attempt": run.attempt, "token": run.token, "language": run.language, "pid": run.pid, "host": run.host,
            "reserved_at": seconds(run.reserved_at), "started_at": seconds(run.started_at),
            "ended_at": seconds(run.ended_at), "outcome": run.outcome.map(duly::Happening::as_str), "error": run.error,
            "error_class": run.error_class(),
        })
    };
    json!({
        "id": trace.id, "kept": trace.is_kept, "complete": trace.is_complete, "job": trace.job.as_ref().map(view),
        "events": trace.events.iter().map(event).collect::<Vec<_>>(),
        "runs": trace.runs().iter().map(run).collect::<Vec<_>>(),
    })
}

/// Times to three digits.
pub(crate) fn rates(rates: &Rates) -> Value {
    fn rounded(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                *value = json!((number.as_f64().unwrap_or_default() * 1000.0).round() / 1000.0);
            }
            Value::Object(fields) => fields.values_mut().for_each(rounded),
            Value::Array(items) => items.iter_mut().for_each(rounded),
            _ => {}
        }
    }
    let mut shown = json!(rates);
    rounded(&mut shown);
    shown
}

pub(crate) fn found_view(found: &Found) -> Value {
    let mut shown = view(&found.job);
    shown["token"] = json!(found.token);
    shown["why"] = json!(found.why);
    shown
}

pub(crate) fn requeued(outcome: &Requeued) -> Value {
    json!(match outcome {
        Requeued::Ready => "ready",
        Requeued::Duplicate { .. } => "duplicate",
        Requeued::Absent => "absent",
        _ => "unknown",
    })
}

pub(crate) async fn limits(queue: &Queue) -> Result<Value, Error> {
    let limits = queue.limits().await?;
    let shown = |rate: Rate| json!([rate.jobs, rate.per.as_secs_f64()]);
    let rate = limits.rate.map(shown);
    let of = |limits: &NameLimits| {
        let concurrency = limits.concurrency.map(|most| ("concurrency", json!(most)));
        let limits = concurrency.into_iter().chain(limits.rate.map(|rate| ("rate", shown(rate))));
        limits.collect::<HashMap<_, _>>()
    };
    let names: serde_json::Map<_, _> =
        limits.names.iter().map(|(name, limits)| (name.clone(), json!(of(limits)))).collect();
    Ok(json!({ "concurrency": limits.concurrency, "rate": rate, "names": names, "max_length": limits.max_length }))
}

pub(crate) async fn counts(queue: &Queue) -> Result<Value, Error> {
    let counts = queue.counts().await?;
    let totals = ["pushed", "acked", "retried", "released", "failed", "reclaimed", "cancelled", "requeued", "purged"];
    let mut shown: HashMap<&str, u64> =
        totals.into_iter().chain(["trimmed", "expired"]).map(|name| (name, 0)).collect();
    shown.extend(counts.totals.iter().map(|(name, total)| (name.as_str(), *total)));
    Ok(json!({
        "delayed": counts.delayed, "ready": counts.ready, "reserved": counts.reserved, "failed": counts.failed,
        "paused": counts.paused, "next_due_in": counts.next_due_in, "overdue": counts.overdue,
        "next_lease_end_in": counts.next_lease_end_in, "totals": shown, "held": counts.held,
    }))
}
