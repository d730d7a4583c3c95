//! Pushes jobs: one, or as many as one batch has.

use duly::{Error, ErrorKind, Millis, NewJob, Pushed, RetryPolicy, When};
use hyper::StatusCode;
use serde::Serialize;

use super::Call;
use super::fields::Object;
use super::reply::{Refusal, Reply};

/// What became of a job.
#[derive(Serialize)]
struct Stored<'a> {
    id: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<&'a str>,
}

impl<'a> Stored<'a> {
    fn of(pushed: &'a Pushed) -> Self {
        let (outcome, replaced) = match pushed {
            Pushed::Kept { .. } => ("kept", None),
            Pushed::Replaced { replaced, .. } => ("replaced", Some(replaced.as_str())),
            Pushed::Duplicate { .. } => ("duplicate", None),
            _ => ("created", None),
        };
        Self { id: pushed.id(), outcome, replaced }
    }
}

#[derive(Serialize)]
struct Outcomes<'a> {
    jobs: Vec<Stored<'a>>,
}

impl Call<'_> {
    pub(super) async fn push(&self, body: &[u8]) -> Result<Reply, Refusal> {
        self.query.only(&["partitions"])?;
        let mut object = Object::of_body(body)?.but_no_list()?;
        if object.has("jobs") {
            let jobs = object.list("jobs")?.unwrap_or_default();
            object.end()?;
            // Before any of them is read.
            if jobs.len() > duly::MAX_BATCH {
                let message = format!("`jobs` must have {} jobs or fewer: make several requests", duly::MAX_BATCH);
                return Err(Error::new(ErrorKind::TooLarge, message).into());
            }
            let read = |(index, job): (usize, &&serde_json::value::RawValue)| {
                new_job(Object::read(format!("jobs[{index}]."), job.get().as_bytes())?.but_no_list()?)
            };
            let jobs = jobs.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
            if jobs.is_empty() {
                return Err(Refusal::invalid("`jobs` must have 1 job or more"));
            }
            let pushed = self.queue().await?.push_batch(jobs).await?;
            return Reply::ok(&Outcomes { jobs: pushed.iter().map(Stored::of).collect() });
        }
        let job = new_job(object)?;
        let pushed = self.queue().await?.push(job).await?;
        let status = if matches!(pushed, Pushed::Kept { .. }) { StatusCode::OK } else { StatusCode::CREATED };
        Reply::of(status, &Stored::of(&pushed))
    }
}

fn new_job(mut object: Object<'_>) -> Result<NewJob, Refusal> {
    let data = object.raw("data").map_or("null", |data| data.get());
    // The whole says where it is wrong, and not that it is this field.
    let mut job = NewJob::from_json(data)
        .map_err(|_| object.wrong("data", "one JSON value in UTF-8, at most 512 levels deep"))?;
    if let Some(name) = object.text("name")? {
        job = job.name(name);
    }
    if let Some(id) = object.text("id")? {
        job = job.id(id);
    }
    if let Some(key) = object.text("key")? {
        job = job.key(key);
    }
    if let Some(when) = when(&mut object)? {
        job = job.when(when);
    }
    if let Some(priority) = object.whole("priority")? {
        job = job.priority(priority);
    }
    if let Some(max_retries) = object.whole("max_retries")? {
        job = job.max_retries(max_retries);
    }
    if let Some(retry) = retry(&mut object)? {
        job = job.retry(retry);
    }
    if let Some(timeout) = object.span("timeout")? {
        job = job.timeout(timeout);
    }
    if let Some(expires) = object.span("expires")? {
        job = job.expires(When::After(Millis::from_duration(expires)?));
    }
    if let Some(ttl) = object.span("result_ttl")? {
        job = job.result_ttl(ttl);
    }
    for (name, value) in object.headers("headers")?.unwrap_or_default() {
        job = job.header(name, value);
    }
    if let Some(word) = object.text("on_duplicate")? {
        job = job.on_duplicate(word.parse()?);
    }
    if let Some(word) = object.text("durability")? {
        job = job.durability(word.parse()?);
    }
    object.end()?;
    Ok(job)
}

/// When a job is due; nothing if neither is given.
pub(super) fn when(object: &mut Object<'_>) -> Result<Option<When>, Refusal> {
    match (object.number("delay")?, object.number("at")?) {
        (Some(_), Some(_)) => Err(Refusal::invalid("give `delay` or `at`, not both")),
        (Some(delay), None) => Ok(Some(When::after_seconds(delay)?)),
        (None, Some(at)) => Ok(Some(When::at_unix_seconds(at)?)),
        (None, None) => Ok(None),
    }
}

/// One policy by its name, such as `{"linear": {"step": 5}}`. What is left out is as in Python.
fn retry(object: &mut Object<'_>) -> Result<Option<RetryPolicy>, Refusal> {
    let Some(mut retry) = object.object("retry")? else { return Ok(None) };
    let policy = if let Some(mut linear) = retry.object("linear")? {
        let step = pause(&mut linear, "step")?;
        linear.end()?;
        RetryPolicy::Linear { step }
    } else if let Some(mut fixed) = retry.object("fixed")? {
        let delay = pause(&mut fixed, "delay")?;
        fixed.end()?;
        RetryPolicy::Fixed { delay }
    } else if let Some(mut exponential) = retry.object("exponential")? {
        let base = pause(&mut exponential, "base")?;
        let cap = exponential.span("cap")?.map(Millis::from_duration).transpose()?;
        let factor = exponential.number("factor")?.unwrap_or(2.0);
        let jitter = exponential.flag("jitter")?.unwrap_or(true);
        exponential.end()?;
        RetryPolicy::Exponential { base, factor, cap: cap.unwrap_or(RetryPolicy::DEFAULT_CAP), jitter }
    } else if let Some(mut list) = retry.object("list")? {
        let delays = list.numbers("delays")?.unwrap_or_default();
        list.end()?;
        RetryPolicy::List { delays: delays.into_iter().map(Millis::from_seconds).collect::<Result<_, _>>()? }
    } else {
        return Err(object.wrong("retry", "an object with linear, fixed, exponential or list"));
    };
    retry.end()?;
    Ok(Some(policy))
}

/// A span that a policy needs.
fn pause(policy: &mut Object<'_>, name: &'static str) -> Result<Millis, Refusal> {
    let span = policy.span(name)?.ok_or_else(|| policy.wrong(name, "a number of seconds"))?;
    Ok(Millis::from_duration(span)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<NewJob, String> {
        let job = Object::of_body(body.as_bytes()).and_then(new_job);
        job.map_err(|refusal| refusal.message().to_owned()).inspect(|job| job.check().unwrap())
    }

    #[test]
    fn a_job_has_the_options_of_every_language() {
        read(
            r#"{"data": {"order": 42}, "name": "close", "key": "close:42", "id": "42", "delay": 1.5, "priority": 0,
            "max_retries": 3, "timeout": 30, "expires": 60, "result_ttl": 60, "headers": {"tenant": "acme"}, "on_duplicate": "keep",
            "durability": "none", "retry": {"exponential": {"base": 1, "cap": 60, "factor": 2.0, "jitter": false}}}"#,
        )
        .unwrap();
        for body in ["{}", "", r#"{"data": null, "name": null, "delay": null, "retry": null}"#] {
            read(body).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, says) in [
            (r#"{"dat": 1}"#, "`dat` is not known here: `data`, `name`"),
            (r#"{"delay": 1, "at": 2}"#, "give `delay` or `at`, not both"),
            (r#"{"delay": "1"}"#, "`delay` must be a number of seconds"),
            (r#"{"priority": 256}"#, "`priority` must be a whole number"),
            (r#"{"headers": {"a": 1}}"#, "`headers` must be an object of strings"),
            (r#"{"on_duplicate": "reject"}"#, "on_duplicate must be"),
            (
                r#"{"retry": {"linear": {"step": 5, "cap": 60}}}"#,
                "`retry.linear.cap` is not known here: `step` may be given",
            ),
            (r#"{"retry": {"linear": {"step": -5}}}"#, "`retry.linear.step` must be 0 to"),
            (r#"{"retry": {"linear": {}}}"#, "`retry.linear.step` must be a number"),
            (r#"{"retry": {"fixed": {"delay": 1}, "list": {"delays": [1]}}}"#, "`retry.list` is not known here"),
            (r#"{"retry": {"list": {"delays": ["1"]}}}"#, "`retry.list.delays` must be a list of numbers"),
            (r#"{"retry": {}}"#, "`retry` must be an object with linear"),
            (r#"{"retry": "linear"}"#, "`retry` must be a JSON object of 64 fields or fewer"),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.starts_with(says), "{body}: {error}");
        }
        let deep = format!(r#"{{"data": {}{}}}"#, "[".repeat(513), "]".repeat(513));
        assert!(read(&deep).unwrap_err().starts_with("`data` must be one JSON value"));
    }
}
