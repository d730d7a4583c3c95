//! Jobs of gmq: a hash each, whose id lies in a bucket or in the ready list of its topic.

use std::collections::HashMap;

use super::old_queue::FALLBACK_QUEUE;
use super::package::{self, Job, Unread};
use crate::format::envelope::Envelope;
use crate::value::error::Error;
use crate::value::name;

/// What a script made of the hash: of each field its name and its value, each behind its length and a colon.
pub(super) fn job(entry: &[u8], id: &str) -> Result<Job, Unread> {
    let fields = fields(entry).ok_or_else(|| Error::invalid("it is no hash of gmq"))?;
    let text = |name: &[u8]| fields.get(name).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
    let body = fields.get(&b"body"[..]).ok_or_else(|| Error::invalid("it has no body"))?;
    let mut envelope = Envelope::new(text(b"id"), package::data(body)?);
    envelope.attempts = text(b"consume_num").parse().unwrap_or_default();
    let ttr = text(b"TTR");
    if !matches!(ttr, "" | "0") && ttr.len() <= 20 {
        envelope.headers.insert("ttr".to_owned(), ttr.to_owned());
    }
    let topic = text(b"topic");
    let queue = if name::check_queue(topic).is_ok() { topic } else { FALLBACK_QUEUE };
    Ok(Job { queue: Some(queue.to_owned()), ..Job::of(package::with_new_id(envelope, id)) })
}

fn fields(mut entry: &[u8]) -> Option<HashMap<&[u8], &[u8]>> {
    let mut fields = HashMap::new();
    while !entry.is_empty() {
        let name = text(&mut entry)?;
        fields.insert(name, text(&mut entry)?);
    }
    Some(fields)
}

fn text<'a>(entry: &mut &'a [u8]) -> Option<&'a [u8]> {
    let colon = entry.iter().position(|&byte| byte == b':')?;
    let length: usize = std::str::from_utf8(&entry[..colon]).ok()?.parse().ok()?;
    let (text, behind) = entry[colon + 1..].split_at_checked(length)?;
    *entry = behind;
    Some(text)
}
