//! Which job, and which queues: arguments that can be given in two ways.

use duly::{Selection, blocking};
use ext_php_rs::types::ZendHashTable;
use ext_php_rs::types::array::Iter;

use crate::convert::{Text, text, whole};
use crate::error::Fault;

/// How a job is named: by its id, or by its key.
pub enum By {
    Id(String),
    Key(String),
}

pub fn by(id: Option<Text>, key: Option<Text>) -> Result<By, Fault> {
    match (id, key) {
        (Some(id), None) => Ok(By::Id(id.utf8("id")?)),
        (None, Some(key)) => Ok(By::Key(key.utf8("key")?)),
        _ => Err(Fault::invalid("name the job by its id or by key:, one of the two")),
    }
}

/// `['orders', 'mail']` is a strict order, `['orders' => 3, 'mail' => 1]` gives weights.
pub fn queues(
    client: &blocking::Client,
    given: &ZendHashTable,
) -> Result<(Vec<(blocking::Queue, u32)>, Selection), Fault> {
    let (names, selection) = names(given)?;
    let with_queue = |(name, weight): (String, u32)| Ok::<_, Fault>((client.queue(&name)?, weight));
    Ok((names.into_iter().map(with_queue).collect::<Result<_, _>>()?, selection))
}

/// The same as names, which are not checked.
pub fn names(given: &ZendHashTable) -> Result<(Vec<(String, u32)>, Selection), Fault> {
    let mut queues = Vec::new();
    let mut weighted = 0;
    // Not the table's own iterator: it panics at a key that is not UTF-8.
    let mut members = Iter::new(given);
    while let Some((key, value)) = members.next_zval() {
        let value = value.dereference();
        let (name, weight) = match value.long().filter(|_| value.is_long()) {
            Some(weight) => {
                weighted += 1;
                // PHP makes a number of the key '7'.
                let name = key.long().filter(|_| key.is_long()).map(|number| number.to_string());
                (name.map_or_else(|| text("a queue's name", &key), Ok)?, whole("weight", weight, u32::MAX.into())?)
            }
            None if value.is_string() => (text("a queue's name", value)?, 1),
            None => return Err(neither()),
        };
        queues.push((name, weight));
    }
    match weighted {
        0 => Ok((queues, Selection::Strict)),
        _ if weighted == queues.len() => Ok((queues, Selection::Weighted)),
        _ => Err(neither()),
    }
}

fn neither() -> Fault {
    Fault::invalid(
        "queues must be a list of names, such as ['orders'], or weights, such as ['orders' => 3, 'mail' => 1]",
    )
}
