//! How PHP spells what the engine's messages name as Rust and Python do.

/// Options, and verbs that messages advise.
const NAMES: [&str; 15] = [
    "on_duplicate",
    "max_data_bytes",
    "allow_eviction",
    "max_retries",
    "max_attempts",
    "retry_after",
    "push_many",
    "connect_timeout",
    "command_timeout",
    "result_ttl",
    "wait_result",
    "set_limits",
    "fail_fast",
    "set_bounds",
    "catch_up",
];
/// What does not follow the rule.
const OTHERS: [(&str, &str); 3] =
    [("max_attempts", "maxRetries"), ("run_schedule", "schedules->runNow"), ("next_slots", "schedules->next")];
/// Before the error that the last attempt of several came to.
const LAST: &str = "(last: ";

/// The message of an error of this operation.
pub(super) fn in_php_words(message: &str, operation: Option<&str>) -> String {
    let mut spelled = String::with_capacity(message.len());
    // A word, and what is between it and the next one, if only a character.
    for piece in message.split_inclusive(|c: char| c != '_' && !c.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        let is_operation = spelled.is_empty() && operation == Some(word) || spelled.ends_with(LAST);
        // Behind a question mark it is an option of the URL, whose spelling is one for all languages.
        let is_name = NAMES.contains(&word) && !spelled.ends_with(['?', '&']);
        spelled += &if is_operation || is_name { in_php(word) } else { word.to_owned() };
        spelled += &piece[word.len()..];
    }
    spelled
}

/// A verb or an option, such as `push_many` or `put_schedule`.
pub(super) fn in_php(word: &str) -> String {
    if let Some((_, ours)) = OTHERS.iter().find(|(theirs, _)| *theirs == word) {
        return (*ours).to_owned();
    }
    if let Some(verb) = word.strip_suffix("_schedule").or(word.strip_suffix("_schedules")) {
        return format!("schedules->{verb}");
    }
    let mut parts = word.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |spelled, part| {
        let (initial, rest) = part.split_at(part.len().min(1));
        spelled + &initial.to_ascii_uppercase() + rest
    })
}
