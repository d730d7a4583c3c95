//! The definition of a schedule, as a user gives it.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::format::envelope::Envelope;
use crate::format::record::Record;
use crate::queue::NewJob;
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::recurrence::{CatchUp, Recurrence, jitter, written};
use crate::value::time::{Millis, When};

/// How old the newest missed slot may be under [`CatchUp::Skip`], unless the schedule says otherwise.
const DEFAULT_GRACE: Millis = Millis::from_secs(60);
/// A longer one would be a schedule of its own.
const LONGEST_JITTER: Duration = Duration::from_secs(24 * 3600);

/// Decides what happens at a slot while the job of an earlier one is still in the queue: delayed, ready or reserved.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overlap {
    /// Both run.
    #[default]
    Allow,
    /// No job is pushed for this slot.
    Skip,
    /// The earlier job is cancelled, also while it runs: then its worker loses the lease.
    Replace,
}

impl Overlap {
    /// The word that scripts and definitions use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Replace => "replace",
        }
    }
}

impl FromStr for Overlap {
    type Err = Error;

    /// `allow`, `skip` or `replace`. Errors: `InvalidArgument`.
    fn from_str(word: &str) -> Result<Self, Error> {
        [Self::Allow, Self::Skip, Self::Replace]
            .into_iter()
            .find(|overlap| overlap.as_str() == word)
            .ok_or_else(|| Error::invalid("overlap is 'allow', 'skip' or 'replace'"))
    }
}

/// A job, and when it is pushed again and again.
///
/// ```
/// use std::time::Duration;
/// use duly::{NewJob, Overlap, Schedule};
///
/// let report = NewJob::new(&serde_json::json!({"kind": "daily"}))?.name("report");
/// let nightly = Schedule::cron("0 3 * * *", report.clone())?.tz("Europe/Berlin")?.overlap(Overlap::Skip);
/// let often = Schedule::every(Duration::from_secs(30), report)?;
/// assert_eq!(nightly.tz_name(), Some("Europe/Berlin"));
/// # Ok::<(), duly::Error>(())
/// ```
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct Schedule {
    pub(super) recurrence: Recurrence,
    /// No slot is before it.
    pub start: Option<Millis>,
    /// No slot is behind it.
    pub until: Option<Millis>,
    /// The most slots that fire.
    pub count: Option<u64>,
    /// Up to how long behind its slot it fires.
    pub jitter: Millis,
    /// Which missed slots fire later.
    pub catch_up: CatchUp,
    /// How old a slot may be under [`CatchUp::Skip`].
    pub grace: Millis,
    /// The rule while an earlier job is still in the queue.
    pub overlap: Overlap,
    /// Of each job; without an id, a time and a due time.
    template: Envelope,
    /// A setter that cannot fail keeps its complaint for the put.
    fault: Option<Error>,
}

impl Schedule {
    /// At the times of a cron pattern, in UTC unless [`tz`](Self::tz) says otherwise.
    ///
    /// Five fields (minute, hour, day of the month, month, weekday) or six, with seconds in front; names (`MON`, `JAN`), lists,
    /// ranges, steps, `L` (last), `#` (the n-th weekday), `W` (the nearest working day); or `@hourly`, `@daily` or `@midnight`,
    /// `@weekly`, `@monthly`, `@yearly` or `@annually`. If both days are given, one of them is enough, as in Vixie cron.
    ///
    /// A fixed time that a clock leaves out runs at the first moment behind the gap, and once if a clock shows it twice. Patterns
    /// with `*`, ranges or steps in seconds, minutes or hours follow the clock. Errors: `InvalidArgument`.
    pub fn cron(pattern: &str, job: NewJob) -> Result<Self, Error> {
        Self::new(Recurrence::cron(pattern, "UTC")?, job)
    }

    /// Every so often (0.1 s to 100 years), counted from 1970-01-01 00:00 UTC unless [`anchor`](Self::anchor) says otherwise. Errors:
    /// `InvalidArgument`.
    pub fn every(interval: Duration, job: NewJob) -> Result<Self, Error> {
        Self::new(Recurrence::every(Millis::from_duration(interval)?, Millis::ZERO)?, job)
    }

    fn new(recurrence: Recurrence, job: NewJob) -> Result<Self, Error> {
        Ok(Self {
            recurrence,
            start: None,
            until: None,
            count: None,
            jitter: Millis::ZERO,
            catch_up: CatchUp::default(),
            grace: DEFAULT_GRACE,
            overlap: Overlap::default(),
            template: job.into_template()?,
            fault: None,
        })
    }

    /// The time zone of the pattern, by its name of the IANA, such as `Europe/Berlin`. Errors: `InvalidArgument`.
    pub fn tz(mut self, name: &str) -> Result<Self, Error> {
        let Some((pattern, _)) = self.recurrence.pattern() else {
            return Err(Error::invalid("an interval has no time zone: leave out tz, or give a cron pattern"));
        };
        self.recurrence = Recurrence::cron(pattern, name)?;
        Ok(self)
    }

    /// A moment from which the interval is counted, in both directions. Errors: `InvalidArgument`.
    pub fn anchor(mut self, at: Millis) -> Result<Self, Error> {
        let Some((every, _)) = self.recurrence.interval() else {
            return Err(Error::invalid("a cron pattern has no anchor: leave it out, or give an interval"));
        };
        self.recurrence = Recurrence::every(every, at)?;
        Ok(self)
    }

    /// No slot before this moment.
    #[must_use]
    pub fn start(mut self, at: Millis) -> Self {
        self.start = Some(at);
        self
    }

    /// No slot behind this moment.
    #[must_use]
    pub fn until(mut self, at: Millis) -> Self {
        self.until = Some(at);
        self
    }

    /// No more slots than this fire, those that an overlap skips included.
    #[must_use]
    pub fn count(mut self, most: u64) -> Self {
        if most == 0 {
            self.fault = Some(Error::invalid("the count of a schedule is 1 or more: remove the schedule instead"));
        }
        self.count = Some(most);
        self
    }

    /// Fires up to this long behind each slot (24 h at most, and always before the next slot): the same for every worker, and another
    /// span for each name and slot.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        match Millis::from_duration(most) {
            Ok(jitter) if most <= LONGEST_JITTER => self.jitter = jitter,
            _ => self.fault = Some(Error::invalid("the jitter of a schedule is at most 86400 s (24 h)")),
        }
        self
    }

    /// Sets which slots fire later if no worker was there (default: the newest).
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        if let Err(error) = catch_up.to_string().parse::<CatchUp>() {
            self.fault = Some(error);
        }
        self.catch_up = catch_up;
        self
    }

    /// How old a slot may be that still fires under [`CatchUp::Skip`] (default 60 s).
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        match Millis::from_duration(grace) {
            Ok(grace) => self.grace = grace,
            Err(error) => self.fault = Some(error),
        }
        self
    }

    /// Sets what happens while the job of an earlier slot is still in the queue (default: both run). `Skip` and `Replace` give the jobs
    /// their schedule's name as key, unless they have one.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// The pattern, if there is one, as it is kept.
    pub fn pattern(&self) -> Option<&str> {
        self.recurrence.pattern().map(|(pattern, _)| pattern)
    }

    /// The name of the time zone of the pattern.
    pub fn tz_name(&self) -> Option<&str> {
        self.recurrence.pattern().map(|(_, zone)| zone)
    }

    /// The interval and its anchor, if there is one.
    pub fn interval(&self) -> Option<(Duration, Millis)> {
        self.recurrence.interval().map(|(every, anchor)| (every.to_duration(), anchor))
    }

    /// The template of its jobs.
    pub fn template(&self) -> &Envelope {
        &self.template
    }

    /// The most slots of a preview.
    #[doc(hidden)] // for the skins
    pub const MOST_PREVIEWED: u32 = 1000;

    /// The next slots behind this moment, as a preview: without what is stored of it, so the count and a pause do not matter.
    pub fn next_slots(&self, moment: Millis, most: usize) -> Vec<Millis> {
        let mut slots = Vec::new();
        let mut moment = moment;
        while slots.len() < most
            && let Some(slot) = self.next_after(moment)
        {
            slots.push(slot);
            moment = slot;
        }
        slots
    }

    /// Is this moment between its start and its end?
    pub(super) fn spans(&self, slot: Millis) -> bool {
        self.start.is_none_or(|start| start <= slot) && self.until.is_none_or(|until| slot <= until)
    }

    /// Refuses at once what the setters have noted for the put. Errors: `InvalidArgument`.
    pub fn checked(self) -> Result<Self, Error> {
        self.fault.clone().map_or(Ok(self), Err)
    }

    /// Refuses what must not be put under this name. Errors: `InvalidArgument`, `TooLarge`.
    pub(super) fn check(&self, name: &str, max_data_bytes: usize) -> Result<(), Error> {
        name::check_schedule(name)?;
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        self.template.data.check_size(max_data_bytes)?;
        if self.start.zip(self.until).is_some_and(|(start, until)| until < start) {
            return Err(Error::invalid("a schedule ends behind its start: until is before start"));
        }
        if self.template.key.is_some() && self.overlap == Overlap::Allow {
            return Err(Error::invalid(
                "one live job has a key, and under the overlap 'allow' there may be two: leave out the key, or choose 'skip' or 'replace'",
            ));
        }
        Ok(())
    }

    /// The text that is stored: of equal schedules it is the same.
    pub(super) fn written(&self) -> Vec<u8> {
        let (pattern, interval) = (self.recurrence.pattern(), self.recurrence.interval());
        let job = String::from_utf8(self.template.encode_complete()).unwrap_or_default();
        let text = Text {
            cron: pattern.map(|(pattern, _)| pattern.to_owned()),
            tz: pattern.map(|(_, zone)| zone.to_owned()),
            every_ms: interval.map(|(every, _)| every.get()),
            anchor_ms: interval.map(|(_, anchor)| anchor.get()).filter(|&anchor| anchor > 0),
            start_ms: self.start.map(Millis::get),
            until_ms: self.until.map(Millis::get),
            count: self.count,
            jitter_ms: Some(self.jitter.get()).filter(|&jitter| jitter > 0),
            catch_up: Some(self.catch_up)
                .filter(|catch_up| *catch_up != CatchUp::default())
                .map(|word| word.to_string()),
            grace_ms: Some(self.grace.get()).filter(|&grace| grace != DEFAULT_GRACE.get()),
            overlap: Some(self.overlap).filter(|overlap| *overlap != Overlap::default()).map(|o| o.as_str().to_owned()),
            job: RawValue::from_string(job).ok(),
        };
        serde_json::to_vec(&text).unwrap_or_default()
    }

    /// Errors: `Corrupt` for a text that this version cannot read. A newer version may have written it: it is left alone.
    pub(super) fn read(text: &[u8]) -> Result<Self, Error> {
        let unreadable = |why: String| {
            Error::new(ErrorKind::Corrupt, format!("this schedule cannot be read ({why}): put it again, or remove it"))
        };
        let text: Text = serde_json::from_slice(text).map_err(|error| unreadable(error.to_string()))?;
        let anchor = Millis::new(text.anchor_ms.unwrap_or(0));
        let recurrence = match (&text.cron, text.every_ms) {
            (Some(pattern), None) => Recurrence::stored_cron(pattern, text.tz.as_deref().unwrap_or("UTC")),
            (None, Some(every)) => Recurrence::every(Millis::new(every), anchor),
            _ => Err(Error::invalid("it has not one of cron and every")),
        };
        let word = |error: Error| unreadable(error.to_string());
        let template = text.job.ok_or_else(|| unreadable("it has no job".to_owned()))?;
        Ok(Self {
            recurrence: recurrence.map_err(word)?,
            start: text.start_ms.map(Millis::new),
            until: text.until_ms.map(Millis::new),
            count: text.count,
            jitter: Millis::new(text.jitter_ms.unwrap_or(0)),
            catch_up: text.catch_up.map_or(Ok(CatchUp::default()), |catch_up| catch_up.parse()).map_err(word)?,
            grace: text.grace_ms.map_or(DEFAULT_GRACE, Millis::new),
            overlap: text.overlap.map_or(Ok(Overlap::default()), |overlap| overlap.parse()).map_err(word)?,
            template: Envelope::decode(template.get().as_bytes())?,
            fault: None,
        })
    }

    /// The first slot behind this moment.
    pub(super) fn next_after(&self, moment: Millis) -> Option<Millis> {
        let from = self.start.map_or(moment, |start| moment.max(Millis::new(start.get().saturating_sub(1))));
        self.recurrence.next_after(from).filter(|slot| self.until.is_none_or(|until| *slot <= until))
    }

    /// When this slot fires: at it, or less than the jitter behind it, and before the next one.
    pub(super) fn fires_at(&self, name: &str, slot: Millis) -> Millis {
        if self.jitter == Millis::ZERO {
            return slot;
        }
        let gap = self.recurrence.next_after(slot).map_or(self.jitter, |next| next.saturating_sub(slot));
        slot.saturating_add(jitter(name, slot, self.jitter.min(gap)))
    }

    /// The id and the record of a slot's job.
    pub(super) fn job_of(&self, name: &str, slot: Millis, now: Millis) -> (String, Vec<u8>) {
        let mut envelope = self.template.clone();
        envelope.id = format!("{name}@{}", written(slot));
        envelope.time = now.whole_seconds();
        envelope.key = self.key_of(name);
        let record = Record::encode(&envelope);
        (envelope.id, record)
    }

    /// The key of its jobs.
    pub(super) fn key_of(&self, name: &str) -> Option<String> {
        let by_name = (self.overlap != Overlap::Allow).then(|| name.to_owned());
        self.template.key.clone().or(by_name)
    }

    /// A job of no slot.
    pub(super) fn job_now(&self, name: &str, id: String) -> Result<NewJob, Error> {
        let mut envelope = self.template.clone();
        envelope.id = id;
        let job = NewJob::from_package(&envelope.encode_complete())?.when(When::Now);
        Ok(match self.key_of(name) {
            Some(key) => job.key(key),
            None => job,
        })
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.written() == other.written()
    }
}

/// As it is stored. What is not there is the default.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tz: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<String>,
    job: Option<Box<RawValue>>,
}
