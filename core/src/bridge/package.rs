//! What other queues keep of a job, and what duly makes of it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::old_queue::{FALLBACK_QUEUE, Lane, OldState};
use crate::format::envelope::Envelope;
use crate::format::record::{CameBack, Record};
use crate::process::host;
use crate::script::Place;
use crate::value::data::Data;
use crate::value::error::Error;
use crate::value::json;
use crate::value::name;

/// Of a job that was taken over: its id in the old queue.
const OLD_ID: &str = "old-id";

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
}

/// A job on its way.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) queue: String,
    pub(super) record: Vec<u8>,
    pub(super) came_back: Vec<u8>,
    pub(super) place: Place,
    /// Why it cannot be read; it goes to `failed` as it is.
    pub(super) fault: Option<String>,
}

impl Moved {
    /// `id`: its new one. Old ids are no identity: some queues give the same one twice.
    pub(super) fn read(
        format: Format,
        lane: &Lane,
        name: Option<&str>,
        entry: Vec<u8>,
        score: Option<f64>,
        id: &str,
    ) -> Self {
        let due = lane.due(score);
        let place = match lane.state {
            OldState::Failed => Place::Failed,
            // What is due by this clock and not yet by the server's is a moment early; the server looks as well.
            _ => due.filter(|&due| due > host::now().get()).map_or(Place::Ready, Place::Due),
        };
        match read(format, &entry, id).and_then(|(mut envelope, queue)| {
            if envelope.name.is_none() {
                envelope.name = name.map(str::to_owned);
            }
            if place == Place::Failed && envelope.error.is_empty() {
                "it had failed in the old queue, which did not say why".clone_into(&mut envelope.error);
            }
            envelope.check()?;
            Ok((envelope, queue))
        }) {
            Ok((mut envelope, queue)) => {
                let came_back = CameBack::of(&envelope).map(|beside| beside.encode()).unwrap_or_default();
                (envelope.attempts, envelope.error) = (0, String::new());
                let queue = queue.unwrap_or_else(|| lane.queue.clone());
                Self { queue, record: Record::encode(&envelope), came_back, place, fault: None }
            }
            Err(error) => {
                let fault = format!("the bridge could not read it: {error}");
                let came_back = CameBack { error: fault.clone(), ..CameBack::default() }.encode();
                Self { queue: lane.queue.clone(), record: entry, came_back, place: Place::Failed, fault: Some(fault) }
            }
        }
    }
}

/// The job, and the queue that it names itself.
fn read(format: Format, entry: &[u8], id: &str) -> Result<(Envelope, Option<String>), Error> {
    match format {
        Format::Package => Ok((with_new_id(Envelope::decode(entry)?, id), None)),
        Format::PackageWithQueue => {
            let envelope = Envelope::decode(entry)?;
            let named = envelope.unknown.iter().find(|field| field.name == "queue");
            let named = named.and_then(|field| field.value.deserialize::<String>().ok());
            let queue = named.filter(|queue| name::check_queue(queue).is_ok());
            Ok((with_new_id(envelope, id), Some(queue.unwrap_or_else(|| FALLBACK_QUEUE.to_owned()))))
        }
        Format::Payload => Ok((payload(entry, id)?, None)),
        Format::Data => {
            let data = Data::from_json(entry, usize::MAX).or_else(|_| match std::str::from_utf8(entry) {
                Ok(text) => Data::from_serialize(text, usize::MAX),
                Err(error) => Err(Error::invalid(format!("it is not UTF-8 at byte {}", error.valid_up_to()))),
            })?;
            Ok((Envelope::new(id, data), None))
        }
    }
}

/// The old one is kept as a header.
fn with_new_id(mut envelope: Envelope, id: &str) -> Envelope {
    let old = std::mem::replace(&mut envelope.id, id.to_owned());
    if !old.is_empty() && old.len() <= 4096 {
        envelope.headers.insert(OLD_ID.to_owned(), old);
    }
    // The key of another queue's job means nothing here.
    envelope.key = None;
    envelope
}

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
    // They count runs, and 0 means without end.
    if let Some(tries) = tries.filter(|&tries| tries > 0) {
        envelope.max_attempts = tries - 1;
    }
    Ok(with_new_id(envelope, id))
}
