//! `duly peek`, `duly find`, `duly why` and `duly push`.

use std::collections::HashSet;
use std::io::Read;
use std::time::Duration;

use clap::{Args, ValueEnum};
use duly::{Error, ErrorKind, Found, JobView, Millis, NewJob, OnDuplicate, State, Stop, Trace};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::confirm::wait_for_input;
use crate::matches::{EVERY, Matches, end_progress, in_their_order, progress};
use crate::show::{Shown, escaped, moment, most_failures, or_dash};
use crate::target::{By, One, Which};
use crate::trace::precise;
use crate::when::When;
use crate::{DONE, FAILED, Output, invalid};

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum JobState {
    /// It waits for its due time
    Delayed,
    /// It may run now
    Ready,
    /// A worker has it
    Reserved,
    /// It failed for good
    Failed,
}

impl From<JobState> for State {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Delayed => Self::Delayed,
            JobState::Ready => Self::Ready,
            JobState::Reserved => Self::Reserved,
            JobState::Failed => Self::Failed,
        }
    }
}

/// Show jobs of a queue without touching them
#[derive(Debug, Args)]
pub(crate) struct Peek {
    #[command(flatten)]
    one: One,
    /// In which state: failed ones in the order in which they failed, all others in that in which they come up; of a queue with
    /// partitions those of one after those of the other
    #[arg(value_enum, default_value = "ready")]
    state: JobState,
    /// Maximum number of jobs, 1 to 1,000
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Skip this many jobs
    #[arg(long, default_value_t = 0)]
    offset: usize,
    /// Show the data of each job, too
    #[arg(long)]
    data: bool,
    #[command(flatten)]
    shown: Shown,
}

impl Peek {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let jobs = self.one.open(&output).await?.peek(self.state.into(), self.offset, self.limit).await?;
        if self.shown.json {
            let jobs: Vec<_> = jobs.iter().map(|job| Job::of(job, None)).collect();
            output.json(&jobs)?;
            return Ok(DONE);
        }
        if jobs.is_empty() {
            output.line(&format!("no job of {} is {}", self.one.queue, State::from(self.state).as_str()));
            return Ok(DONE);
        }
        let at = match self.state {
            JobState::Delayed => "DUE (UTC)",
            JobState::Ready => "",
            JobState::Reserved => "LEASE ENDS (UTC)",
            JobState::Failed => "FAILED (UTC)",
        };
        let row = |job| [row_of(job), if self.data { vec![data_of(job)] } else { Vec::new() }].concat();
        let headings = ["ID", "NAME", "KEY", " PRIORITY", " FAILURES", at, "ERROR", "DATA"];
        output.table(&headings[..7 + usize::from(self.data)], jobs.iter().map(row).collect());
        Ok(DONE)
    }
}

/// A job in a table.
fn row_of(job: &JobView) -> Vec<String> {
    let envelope = &job.envelope;
    vec![
        envelope.id.clone(),
        or_dash(envelope.name.clone()),
        or_dash(envelope.key.clone()),
        envelope.priority.to_string(),
        format!("{}/{}", envelope.attempts, most_failures(envelope)),
        job.at.map(moment).unwrap_or_default(),
        job.undecodable.clone().unwrap_or_else(|| envelope.error.clone()),
    ]
}

fn data_of(job: &JobView) -> String {
    job.envelope.data.as_str().to_owned()
}

/// Show one job: where it is, why it waits, and all that it has; or all jobs that match
#[derive(Debug, Args)]
#[command(after_help = "\
examples:
  duly find orders --key close:42
  duly find mail --state failed --name mail.send --error 'timed out'")]
pub(crate) struct Find {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    which: Which,
    /// Jobs in this state; may be given more than once [default: all states]
    #[arg(long, value_enum, value_name = "STATE")]
    state: Vec<JobState>,
    /// Maximum number of jobs that match, 1 or more
    #[arg(long, default_value_t = 20, value_parser = at_least_one)]
    limit: usize,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    matches: Matches,
}

impl Find {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        if !self.which.is_given() {
            return self.search(output).await;
        }
        if self.matches.filter()?.is_some() || !self.state.is_empty() {
            return Err(invalid("either name the job or give a filter, not both"));
        }
        let queue = self.one.open(&output).await?;
        let by = self.which.by()?;
        let found = match by {
            By::Id(id) => queue.find(id).await?,
            By::Key(key) => queue.find_key(key).await?,
        };
        let Some(found) = found else {
            output.complain(&by.absence(&self.one.queue));
            return Ok(FAILED);
        };
        if self.shown.json {
            output.json(&Job::of(&found.job, Some(&found)))?;
            return Ok(DONE);
        }
        let Found { job, why, .. } = &found;
        let envelope = &job.envelope;
        let mut lines = vec![
            ("id", envelope.id.clone()),
            ("state", format!("{}: {why}", job.state.as_str())),
            ("name", or_dash(envelope.name.clone())),
            ("key", or_dash(envelope.key.clone())),
            ("priority", envelope.priority.to_string()),
            ("failures", format!("{} of at most {}", envelope.attempts, most_failures(envelope))),
            ("came back", job.returns.to_string()),
        ];
        lines.extend(job.at.map(|at| ("at", format!("{} UTC", moment(at)))));
        lines.extend(envelope.expires.map(|at| ("expires", format!("{} UTC", moment(at)))));
        lines.extend(envelope.timeout.map(|timeout| ("timeout", format!("{timeout} s"))));
        if let Some(progress) = &job.progress {
            lines.push(("progress", format!("{:.0} % {}", progress.fraction * 100.0, progress.text)));
        }
        lines.extend(envelope.headers.iter().map(|(name, value)| ("header", format!("{name}: {value}"))));
        lines.extend(job.undecodable.iter().map(|why| ("undecodable", why.clone())));
        for (name, text) in lines {
            output.line(&format!("{name:<12}{}", escaped(text.chars())));
        }
        // By lines: a traceback.
        for (at, line) in envelope.error.lines().enumerate() {
            output.line(&format!("{:<12}{}", if at == 0 { "error" } else { "" }, escaped(line.chars())));
        }
        output.line(&format!("{:<12}{}", "data", escaped(envelope.data.as_str().chars())));
        Ok(DONE)
    }
}

/// Say in a sentence why a job does not run, who runs it, or what became of it
#[derive(Debug, Args)]
#[command(after_help = "\
examples:
  duly why orders order-42
  duly why orders --key close:42")]
pub(crate) struct Why {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    shown: Shown,
}

impl Why {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let queue = self.one.open(&output).await?;
        let by = self.which.by()?;
        let (mut found, mut trace) = match by {
            By::Id(id) => (queue.find(id).await?, None),
            By::Key(key) => (queue.find_key(key).await?, None),
        };
        if let (None, By::Id(id)) = (&found, by) {
            trace = queue.trace(id).await?;
            if trace.is_some() {
                found = queue.find(id).await?; // it may have been pushed meanwhile
            }
        }
        let told = match &found {
            Some(found) => Some((found.job.state.as_str(), found.why.clone())),
            None => trace.as_ref().and_then(end_of),
        };
        let Some((state, why)) = told else {
            output.complain(&by.absence(&self.one.queue));
            return Ok(FAILED);
        };
        if self.shown.json {
            output.json(&serde_json::json!({"state": state, "why": why}))?;
        } else {
            output.line(&format!("{state}: {}", escaped(why.chars())));
        }
        Ok(DONE)
    }
}

/// How a job ended, as the history of its queue knows it.
fn end_of(trace: &Trace) -> Option<(&'static str, String)> {
    let last = trace.events.last()?;
    let said = format!("{} at {} UTC", last.what.as_str().replace('_', " "), precise(last.at));
    // The last that was noted: its end was by a client that knows of no history.
    Some(("gone", if last.what.ends_job() { said } else { format!("nobody noted how; it was {said}") }))
}

/// A number of rows.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "a number from 1 on".to_owned())
}

impl Find {
    /// All that match, state after state.
    async fn search(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let filter = self.matches.filter()?;
        if filter.is_none() && self.state.is_empty() {
            self.which.by()?;
        }
        let filter = filter.unwrap_or_default();
        let states = match self.state.is_empty() {
            // A ready job has no time to search by.
            true if self.matches.has_times() => vec![State::Delayed, State::Reserved, State::Failed],
            true => EVERY.to_vec(),
            false => in_their_order(&self.state.iter().map(|state| (*state).into()).collect::<Vec<_>>()),
        };
        let queue = self.one.open(&output).await?;
        let (mut jobs, mut looked_at, mut is_all) = (Vec::new(), 0, true);
        // One that was moved away and back, or runs meanwhile, may be in two pages. Jobs with one id in two partitions have two keys.
        let mut seen = HashSet::new();
        let mut is_new = |job: &JobView| {
            let job = &job.envelope;
            seen.insert((job.id.clone(), job.key.clone())) || job.id.contains('\u{fffd}')
        };
        for state in states {
            let mut cursor = None;
            loop {
                // One more says whether there are more.
                let left = self.limit.saturating_add(1).saturating_sub(jobs.len());
                if left == 0 {
                    is_all = false;
                    break;
                }
                let page = queue.search(state, &filter, cursor.as_deref(), left.min(duly::MAX_BATCH)).await?;
                looked_at += page.looked_at;
                jobs.extend(page.jobs.into_iter().filter(&mut is_new));
                cursor = page.cursor;
                if cursor.is_none() {
                    break;
                }
                progress(&format!("{} of {looked_at} jobs match", jobs.len()), &mut output);
            }
        }
        end_progress(&mut output);
        is_all &= jobs.len() <= self.limit;
        jobs.truncate(self.limit);
        if self.shown.json {
            let jobs: Vec<_> = jobs.iter().map(|job| Job::of(job, None)).collect();
            output.json(&jobs)?;
        } else if jobs.is_empty() {
            output.line(&format!("no job of {} matches ({looked_at} were looked at)", self.one.queue));
        } else {
            let row = |job: &JobView| [vec![job.state.as_str().to_owned()], row_of(job)].concat();
            let headings = ["STATE", "ID", "NAME", "KEY", " PRIORITY", " FAILURES", "AT (UTC)", "ERROR"];
            output.table(&headings, jobs.iter().map(row).collect());
        }
        if !is_all {
            output.complain(&format!(
                "these are the first {} ({looked_at} jobs were looked at): --limit shows more",
                jobs.len()
            ));
        }
        Ok(DONE)
    }
}

/// A job for programs. Times are in seconds since 1970.
#[derive(Serialize)]
struct Job<'a> {
    id: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    at: Option<f64>,
    returns: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undecodable: Option<&'a str>,
    /// The complete package; what is stored as a text, if it cannot be decoded.
    package: Box<RawValue>,
}

#[derive(Serialize)]
struct Progress<'a> {
    fraction: f64,
    text: &'a str,
}

impl<'a> Job<'a> {
    fn of(job: &'a JobView, found: Option<&'a Found>) -> Self {
        let package = String::from_utf8_lossy(&job.package()).into_owned();
        let as_text = |package: &str| RawValue::from_string(serde_json::json!(package).to_string());
        let raw = match &job.undecodable {
            None => RawValue::from_string(package.clone()).or_else(|_| as_text(&package)),
            Some(_) => as_text(&package),
        };
        Self {
            id: &job.envelope.id,
            state: job.state.as_str(),
            why: found.map(|found| found.why.as_str()),
            at: job.at.map(duly::Millis::as_seconds),
            returns: job.returns,
            token: found.and_then(|found| found.token),
            progress: job.progress.as_ref().map(|one| Progress { fraction: one.fraction, text: &one.text }),
            undecodable: job.undecodable.as_deref(),
            package: raw.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Duplicate {
    /// Push nothing, and fail
    #[value(alias = "reject")]
    Refuse,
    /// Push nothing, and print the id of the job that is there
    Keep,
    /// Push it in place of the job that is there
    Replace,
}

impl From<Duplicate> for OnDuplicate {
    fn from(duplicate: Duplicate) -> Self {
        match duplicate {
            Duplicate::Refuse => Self::Refuse,
            Duplicate::Keep => Self::Keep,
            Duplicate::Replace => Self::Replace,
        }
    }
}

/// Push a job
#[derive(Debug, Args)]
#[command(after_help = "\
examples:
  duly push orders '{\"order\": 42}' --name order.close --delay 30m
  duly push orders --name report.daily --at 2026-12-01T06:00:00Z < report.json")]
pub(crate) struct Push {
    #[command(flatten)]
    one: One,
    /// Its data, as JSON [default: what comes on the standard input]
    data: Option<String>,
    /// The name that selects its handler
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    when: When,
    /// Its id [default: a new one]
    #[arg(long)]
    id: Option<String>,
    /// Its business key: at most one job with it is in the queue
    #[arg(long)]
    key: Option<String>,
    /// 0 to 9; 0 goes first [default: 5]
    #[arg(long)]
    priority: Option<u8>,
    /// How often it runs again when it fails [default: 5]
    #[arg(long)]
    max_retries: Option<u32>,
    /// How long it may run, such as 90s
    #[arg(long, value_parser = crate::when::span)]
    timeout: Option<Duration>,
    /// When it is dropped unless it has started, such as 10m
    #[arg(long, value_name = "IN", value_parser = crate::when::span)]
    expires: Option<Duration>,
    /// A header, such as tenant=acme; once for each
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// What to do if there is a job with its id or key
    #[arg(long, value_enum, default_value = "refuse")]
    on_duplicate: Duplicate,
}

/// All of it. Errors: `Interrupted` if a signal comes before its end.
async fn standard_input(stop: &Stop) -> Result<Vec<u8>, Error> {
    let mut input = std::io::stdin();
    let mut data = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        wait_for_input(&input, || stop.is_set()).await;
        if stop.is_set() {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted; nothing was pushed"));
        }
        match input.read(&mut piece) {
            Ok(0) => return Ok(data),
            Ok(count) => data.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(invalid(format!("the standard input cannot be read: {error}"))),
        }
    }
}

impl Push {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        let data =
            if let Some(data) = &self.data { data.clone().into_bytes() } else { standard_input(&output.stop).await? };
        let mut job = NewJob::from_json(data)?.when(self.when.moment()?.unwrap_or_default());
        job = self.name.iter().fold(job, NewJob::name);
        job = self.id.iter().fold(job, NewJob::id);
        job = self.key.iter().fold(job, NewJob::key);
        job = self.priority.iter().fold(job, |job, priority| job.priority(*priority));
        job = self.max_retries.iter().fold(job, |job, retries| job.max_retries(*retries));
        job = self.timeout.iter().fold(job, |job, timeout| job.timeout(*timeout));
        if let Some(expires) = self.expires {
            job = job.expires(duly::When::After(Millis::from_duration(expires)?));
        }
        for header in &self.headers {
            let (name, value) =
                header.split_once('=').ok_or_else(|| invalid(format!("a header is NAME=VALUE, not '{header}'")))?;
            job = job.header(name, value);
        }
        job = job.on_duplicate(self.on_duplicate.into());
        let pushed = self.one.open(&output).await?.push(job).await?;
        output.line(pushed.id());
        Ok(DONE)
    }
}
