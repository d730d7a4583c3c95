//! Texts that users write: URLs, names, ids, keys, cron patterns and the words of options.

use std::str::FromStr;

use super::{SECRET, Seen, note};
use crate::connection::{Secret, Settings};
use crate::script::{Key, Levels, QueueKeys, crc16};
use crate::value::error::{Error, ErrorKind};
use crate::value::recurrence::Recurrence;
use crate::value::time::Millis;
use crate::{CatchUp, JobId, Progress, Seconds, State, name};

/// `password`: of a URL that is written as it should be.
pub(crate) fn url(url: &str, password: Option<&str>, seen: &mut Seen) {
    let settings = Settings::new(url);
    let shown = format!("{settings:?} {settings:#?}");
    assert!(!shown.contains(SECRET), "{shown}");
    match settings.resolve() {
        Ok(parsed) => {
            note(seen, "it was read");
            if let Some(password) = password {
                note(seen, "its password was read");
                let is_unix_query = url.starts_with("unix") && url.ends_with("?password=s3cr3t");
                let expected = if is_unix_query { SECRET } else { password };
                assert_eq!(parsed.credentials.password, Some(Secret::new(expected)));
                assert!(!format!("{parsed:?}").contains(SECRET), "{parsed:?}");
            }
        }
        Err(error) => {
            note(seen, "it was refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
        }
    }
}

fn is_allowed(checked: &Result<(), Error>) -> bool {
    if let Err(error) = checked {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    checked.is_ok()
}

/// `text`: anything; `prefix`: of keys, perhaps.
pub(crate) fn names(prefix: &str, text: &str, seen: &mut Seen) {
    let is_plain =
        |text: &str| text.len() <= 128 && text.chars().all(|c| c.is_ascii_alphanumeric() || "._:-".contains(c));
    let is_name = is_plain(text) && !text.is_empty();
    for check in [name::check_queue, name::check_lock, name::check_topic] {
        assert_eq!(is_allowed(&check(text)), is_name, "{text:?}");
    }
    assert_eq!(is_allowed(&name::check_prefix(prefix)), is_plain(prefix), "{prefix:?}");
    let is_text = |most: usize| (1..=most).contains(&text.len()) && !text.contains(char::is_control);
    for (check, most) in [
        (name::check_id as fn(&str) -> Result<(), Error>, 128),
        (name::check_key, 256),
        (name::check_handler, 128),
        (name::check_worker, 128),
        (name::check_owner, 128),
        (name::check_schedule, 96),
    ] {
        assert_eq!(is_allowed(&check(text)), is_text(most), "{text:?}");
    }
    let id = JobId::new(text);
    assert_eq!(id.is_ok(), is_text(128));
    if let Some(made_at) = id.ok().and_then(|id| id.made_at()) {
        note(seen, "an id that tells its time");
        assert!(text.len() == 16 && made_at > Millis::from_secs(1_577_836_799), "{text}");
    }
    if is_name && is_plain(prefix) {
        note(seen, "a name");
        let keys = QueueKeys::new(prefix, text);
        for key in [keys.spell(Key::Jobs), keys.spell_ready(9), keys.spell_of_job(Key::Result, "}{")] {
            // The tag as a cluster finds it.
            let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
            assert_eq!((tag, crc16(text.as_bytes()) % 16_384), (Some(text), keys.slot()), "{key}");
        }
    }
    if let Some(levels) = Levels::parse(text) {
        assert_eq!(Levels::parse(&levels.to_string()), Some(levels));
    }
}

/// The words and numbers that options and fields have.
pub(crate) fn words(text: &str, seen: &mut Seen) {
    if let Ok(state) = State::parse(text) {
        note(seen, "a state");
        assert_eq!(state.as_str(), text);
    }
    if let Ok(catch_up) = CatchUp::from_str(text) {
        note(seen, "a word for slots that were missed");
        assert_eq!(CatchUp::from_str(&catch_up.to_string()).unwrap(), catch_up);
    }
    if let Some(seconds) = Seconds::from_text(text) {
        note(seen, "seconds");
        assert_eq!(Seconds::from_text(&seconds.to_string()), Some(seconds.clone()));
        assert!(seconds.to_millis() >= Millis::ZERO && !seconds.as_f64().is_nan());
        if let Ok(span) = Millis::from_seconds(seconds.as_f64()) {
            assert_eq!(Millis::from_seconds(span.as_seconds()).unwrap(), span);
        }
    }
    if let Some(progress) = Progress::read(text) {
        note(seen, "progress");
        assert!((0.0..=1.0).contains(&progress.fraction));
    }
}

/// Each slot is behind the moment, there is none between the two, and what is kept of the pattern has the same.
pub(crate) fn cron(pattern: &str, zone: &str, moment: Millis, seen: &mut Seen) {
    let recurrence = match Recurrence::cron(pattern, zone) {
        Ok(recurrence) => recurrence,
        Err(error) => {
            note(seen, "it was refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            return;
        }
    };
    let (kept, kept_zone) = recurrence.pattern().unwrap();
    let again = Recurrence::cron(kept, kept_zone).unwrap();
    assert_eq!(again, recurrence);
    let mut moment = moment;
    for _ in 0..3 {
        let slot = recurrence.next_after(moment);
        assert_eq!(again.next_after(moment), slot);
        let Some(slot) = slot else {
            note(seen, "no slot");
            return;
        };
        note(seen, "a slot");
        assert!(slot > moment, "{slot} after {moment}");
        assert_eq!(recurrence.next_after(Millis::new(slot.get() - 1)), Some(slot));
        moment = slot;
    }
}
