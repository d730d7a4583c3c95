//! The packages of other queues, and the jobs that duly makes of them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::old_queue::{FALLBACK_QUEUE, Lane, OldQueue, OldState};
use super::{celery, gmq};
use crate::format::envelope::Envelope;
use crate::format::record::{CameBack, Record};
use crate::script::Target;
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::json;
use crate::value::name::{self, DEFAULT_PRIORITY};
use crate::value::time::{MAX_DELAY, Millis};

/// Of a job that was taken over: its id in the old queue.
pub(super) const OLD_ID: &str = "old-id";

/// How a job is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// The package of seven fields.
    Package,
    /// The same, and its queue.
    PackageWithQueue,
    /// A JSON object with `job` and `attempts`, which is kept whole.
    Payload,
    /// Its data.
    Data,
    /// A message of Celery, or what `unacked` has of one.
    Celery,
    /// A hash of gmq.
    Gmq,
}

/// A job as it was read.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) envelope: Envelope,
    /// The queue that it names itself.
    pub(super) queue: Option<String>,
    /// When it is due, if it says so itself, in ms since 1970.
    pub(super) due: Option<u64>,
    /// When it is too late to run it, and what is said of it then.
    pub(super) expires: Option<(u64, String)>,
    /// Does it go to `failed`?
    pub(super) has_failed: bool,
}

impl Job {
    pub(super) fn of(envelope: Envelope) -> Self {
        Self { envelope, queue: None, due: None, expires: None, has_failed: false }
    }
}

/// As many retries as a job can have: some hundred years of them, at one a second.
pub(super) const WITHOUT_END: u32 = u32::MAX;

/// Why a job could not be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// Nobody can: it goes to `failed` as it is.
    Fault(Error),
    /// duly cannot do what it asks for, and workers of the old queue can: it stays there. What is said here depends on nothing but
    /// the job's bytes and the options, because a batch may be read again.
    Stays(String),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Fault(error)
    }
}

/// What becomes of a job.
#[derive(Debug)]
pub(super) enum Fate {
    Moves(Moved),
    /// It stays in the old queue, for this reason.
    Stays(String),
}

/// A job on its way.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) queue: String,
    pub(super) record: Vec<u8>,
    pub(super) came_back: Vec<u8>,
    pub(super) target: Target,
    /// Does it go to `failed`, or may it, by the clock? That depends on nothing but its bytes, the key and the options: it decides in which
    /// part of its batch a job is, also when the batch is read again later.
    pub(super) may_fail: bool,
    /// Was it due when it was read? The server decides, when it is stored.
    pub(super) is_due: bool,
    /// Why it cannot be read; it goes to `failed` as it is.
    pub(super) fault: Option<String>,
}

impl Fate {
    /// `id`: its new one. Old ids are no identity: some queues give the same one twice. `now`: of the server that gets it.
    pub(super) fn read(old: &OldQueue, lane: &Lane, entry: Vec<u8>, score: Option<f64>, id: &str, now: Millis) -> Self {
        let (due, fault) = match lane.due(score) {
            Ok(due) => (due, None),
            Err(error) => (None, Some(format!("the bridge cannot tell when it is due: {error}"))),
        };
        let read = read(old, lane, &entry, id).and_then(|mut job| {
            job.due = job.due.or(due);
            job.has_failed |= lane.state == OldState::Failed || fault.is_some();
            let may_fail = job.has_failed || job.expires.is_some();
            let envelope = &mut job.envelope;
            if let Some((_, error)) = job.expires.take().filter(|(at, _)| *at <= now.get()) {
                (envelope.error, job.has_failed) = (error, true);
            }
            if let Some(fault) = &fault {
                envelope.error.clone_from(fault);
            }
            if envelope.name.is_none() {
                envelope.name.clone_from(&old.name);
            }
            if job.has_failed && envelope.error.is_empty() {
                "it had failed in the old queue, which did not say why".clone_into(&mut envelope.error);
            }
            envelope.check()?;
            Ok((job, may_fail))
        });
        match read {
            Ok((Job { mut envelope, queue, due, has_failed, .. }, may_fail)) => {
                let target = match due {
                    _ if has_failed => Target::Failed,
                    Some(due) => Target::Due(due),
                    None => Target::Ready,
                };
                let is_due = due.is_none_or(|due| due <= now.get());
                let came_back = CameBack::of(&envelope).map(|beside| beside.encode()).unwrap_or_default();
                (envelope.attempts, envelope.error) = (0, String::new());
                // A package of seven fields says both itself.
                let has_delay = envelope.time > 0 && matches!(old.format, Format::Package | Format::PackageWithQueue);
                if !has_delay {
                    note_first_due(&mut envelope, due, now);
                }
                let queue = queue.unwrap_or_else(|| lane.queue.clone());
                Self::Moves(Moved {
                    queue,
                    record: Record::encode(&envelope),
                    came_back,
                    target,
                    may_fail,
                    is_due,
                    fault,
                })
            }
            Err(Unread::Stays(reason)) => Self::Stays(reason),
            Err(Unread::Fault(error)) if old.format == Format::Celery => Self::Stays(error.to_string()),
            Err(Unread::Fault(error)) => {
                let fault = format!("the bridge could not read it: {error}");
                let came_back = CameBack { error: fault.clone(), ..CameBack::default() }.encode();
                let (queue, target) = (lane.queue.clone(), Target::Failed);
                Self::Moves(Moved {
                    queue,
                    record: entry,
                    came_back,
                    target,
                    may_fail: true,
                    is_due: true,
                    fault: Some(fault),
                })
            }
        }
    }
}

fn read(old: &OldQueue, lane: &Lane, entry: &[u8], id: &str) -> Result<Job, Unread> {
    match old.format {
        Format::Package => Ok(Job::of(with_new_id(Envelope::decode(entry)?, id))),
        Format::PackageWithQueue => {
            let envelope = Envelope::decode(entry)?;
            let named = envelope.unknown.iter().find(|field| field.name == "queue");
            let named = named.and_then(|field| field.value.deserialize::<String>().ok());
            let queue = named.filter(|queue| name::check_queue(queue).is_ok());
            let queue = Some(queue.unwrap_or_else(|| FALLBACK_QUEUE.to_owned()));
            Ok(Job { queue, ..Job::of(with_new_id(envelope, id)) })
        }
        Format::Payload => Ok(Job::of(payload(entry, id)?)),
        Format::Data => Ok(Job::of(Envelope::new(id, data(entry)?))),
        Format::Celery if lane.state == OldState::Reserved => celery::unacked(entry, &old.queues, id),
        Format::Celery => celery::message_of(entry, id),
        Format::Gmq => gmq::job(entry, id),
    }
}

/// JSON as it is, and other text as a JSON string.
pub(super) fn data(bytes: &[u8]) -> Result<Data, Error> {
    Data::from_json(bytes, usize::MAX).or_else(|_| match std::str::from_utf8(bytes) {
        Ok(text) => Data::from_serialize(text, usize::MAX),
        Err(error) => Err(Error::invalid(format!("it is not UTF-8 at byte {}", error.valid_up_to()))),
    })
}

/// The old one is kept as a header.
pub(super) fn with_new_id(mut envelope: Envelope, id: &str) -> Envelope {
    let old = std::mem::replace(&mut envelope.id, id.to_owned());
    if !old.is_empty() && old.len() <= 4096 {
        envelope.headers.insert(OLD_ID.to_owned(), old);
    }
    // The key and the priority of another queue's job mean nothing here.
    (envelope.key, envelope.priority) = (None, DEFAULT_PRIORITY);
    envelope
}

/// A job has waited since it was pushed, less its delay. Where nobody knows when that was, it counts from when the job was due, or else
/// from when it comes over.
fn note_first_due(envelope: &mut Envelope, due: Option<u64>, now: Millis) {
    if envelope.time == 0 {
        envelope.time = due.map_or(now, |due| now.min(Millis::new(due))).whole_seconds();
    }
    if let Some(due) = due {
        let delay = Millis::new(due.saturating_sub(envelope.time.saturating_mul(1000)));
        envelope.delay = delay.min(MAX_DELAY).into();
    }
}

/// A worker of theirs that runs the job ends it by an alarm of its own, and says why: that is to come first.
const BEHIND_THE_ALARM_S: f64 = 5.0;

/// What think-queue and Laravel write. Their numbers may be text, and any field may be missing but `job`.
#[derive(Deserialize)]
struct Payload<'a> {
    job: String,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    uuid: Option<&'a RawValue>,
    #[serde(borrow)]
    attempts: Option<&'a RawValue>,
    #[serde(borrow, rename = "maxTries")]
    max_tries: Option<&'a RawValue>,
    /// In seconds; 0 is no limit.
    #[serde(borrow)]
    timeout: Option<&'a RawValue>,
    /// Of Laravel, in seconds since 1970.
    #[serde(borrow, rename = "createdAt")]
    created_at: Option<&'a RawValue>,
    /// Of Horizon, with decimals.
    #[serde(borrow, rename = "pushedAt")]
    pushed_at: Option<&'a RawValue>,
}

fn payload(entry: &[u8], id: &str) -> Result<Envelope, Error> {
    let data = Data::from_json(entry, usize::MAX)?;
    let payload: Payload<'_> = serde_json::from_slice(data.as_bytes())
        .map_err(|error| Error::invalid(format!("it is no payload with a field 'job': {error}")))?;
    let text = |value: Option<&RawValue>| {
        let value = value?.get().trim();
        let text = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let text = text.map_or_else(|| value.to_owned(), |text| json::unescaped_lossy(text).into_owned());
        (value != "null" && !text.is_empty()).then_some(text)
    };
    let number = |value| text(value)?.parse::<u32>().ok();
    let old_id = text(payload.uuid).or_else(|| text(payload.id)).unwrap_or_default();
    let (attempts, tries) = (number(payload.attempts), number(payload.max_tries));
    let mut envelope = Envelope::new(old_id, data.clone());
    envelope.name = Some(payload.job);
    envelope.attempts = attempts.unwrap_or_default();
    let pushed = text(payload.created_at).or_else(|| text(payload.pushed_at)).unwrap_or_default();
    if let Some(seconds) = pushed.split('.').next().and_then(|seconds| seconds.parse().ok()) {
        envelope.time = seconds;
    }
    // What their worker says counts if the payload says nothing.
    if let Some(seconds) = text(payload.timeout).and_then(|seconds| seconds.parse::<f64>().ok()) {
        let limit = seconds > 0.0;
        let time = limit.then(|| Millis::from_seconds(seconds + BEHIND_THE_ALARM_S).ok()).flatten();
        envelope.timeout = Some(time.map_or(MAX_DELAY, |time| time.min(MAX_DELAY)));
    }
    // They count runs. 0 means without end; null means what `--tries` of the worker says, which no payload holds.
    if let Some(tries) = tries {
        envelope.max_attempts = tries.checked_sub(1).unwrap_or(WITHOUT_END);
    }
    Ok(with_new_id(envelope, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(old: &OldQueue, state: OldState, entry: &str, score: Option<f64>, now: u64) -> Moved {
        let lane = old.lanes.iter().find(|lane| lane.state == state).unwrap();
        match Fate::read(old, lane, entry.into(), score, "1", Millis::new(now)) {
            Fate::Moves(moved) => moved,
            Fate::Stays(reason) => panic!("{reason}"),
        }
    }

    /// The clock of this machine may be minutes off: only the server that gets a job decides that it is due.
    #[test]
    fn a_job_keeps_its_due_time_whatever_clock_the_bridge_has() {
        let old = OldQueue::thinkphp("orders").unwrap();
        let entry = r#"{"id":"1","time":1,"delay":0,"attempts":0,"queue":"","data":1}"#;
        for (now, is_due) in [(1_000, false), (2_000, true), (2_000_000_000_000, true)] {
            let moved = moved(&old, OldState::Delayed, entry, Some(2.0), now);
            assert_eq!((moved.target, moved.is_due), (Target::Due(2_000), is_due));
        }
    }

    #[test]
    fn how_long_a_job_waits_is_known_though_it_does_not_say_when_it_was_pushed() {
        let old = OldQueue::think_queue(&["orders"]).unwrap();
        let timed = |state, entry, score| {
            let job = Record::decode("1", &moved(&old, state, entry, score, 50_500).record, None).unwrap();
            (job.time, job.delay.to_millis().get())
        };
        let (without, with) = (r#"{"job":"close","data":1}"#, r#"{"job":"close","createdAt":20,"data":1}"#);
        assert_eq!(timed(OldState::Ready, without, None), (50, 0));
        assert_eq!(timed(OldState::Delayed, without, Some(30.0)), (30, 0));
        assert_eq!(timed(OldState::Delayed, without, Some(90.0)), (50, 40_000));
        assert_eq!(timed(OldState::Ready, with, None), (20, 0));
        assert_eq!(timed(OldState::Delayed, with, Some(90.0)), (20, 70_000));
    }

    #[test]
    fn a_payload_keeps_its_timeout() {
        let old = OldQueue::think_queue(&["orders"]).unwrap();
        let kept = |timeout: &str| {
            let entry = format!(r#"{{"job":"close","timeout":{timeout},"data":1}}"#);
            let moved = moved(&old, OldState::Ready, &entry, None, 1000);
            Record::decode("1", &moved.record, None).unwrap().timeout
        };
        let seconds = |seconds| Some(Millis::from_secs(seconds));
        for (timeout, there) in [
            ("60", seconds(65)),
            ("\"60\"", seconds(65)),
            ("0", Some(MAX_DELAY)),
            ("1e300", Some(MAX_DELAY)),
            ("null", None),
            ("\"soon\"", None),
        ] {
            assert_eq!(kept(timeout), there, "{timeout}");
        }
    }

    #[test]
    fn a_task_has_expired_by_the_clock_of_the_server_that_gets_it() {
        let old = OldQueue::celery("", &["orders"], std::time::Duration::from_secs(3600)).unwrap();
        let task = r#"{"body":"W1tdLCB7fSwgeyJjYWxsYmFja3MiOiBudWxsfV0=","content-encoding":"utf-8","content-type":"application/json","headers":{"task":"t",
            "id":"a","expires":"1970-01-01T00:00:10+00:00"},"properties":{"body_encoding":"base64",
            "delivery_info":{"exchange":"","routing_key":"orders"}}}"#;
        for (now, target) in [(9_999, Target::Ready), (10_000, Target::Failed)] {
            assert_eq!(moved(&old, OldState::Ready, task, None, now).target, target);
        }
    }
}
