//! Which job, and which queues: arguments that can be given in two ways.

use duly::Selection;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMapping, PyString, PyTuple};

use crate::convert::{self, Id, Key, QueueName, Text};
use crate::error::{Failure, invalid};

/// How a job is named: by its id, or by its key.
pub(crate) enum By {
    Id(Text<Id>),
    Key(Text<Key>),
}

pub(crate) fn by(id: Option<Text<Id>>, key: Option<Text<Key>>) -> Result<By, Failure> {
    match (id, key) {
        (Some(id), None) => Ok(By::Id(id)),
        (None, Some(key)) => Ok(By::Key(key)),
        _ => Err(invalid("name the job by its id or by key=, one of the two").into()),
    }
}

/// Names with weights, and who goes first: a mapping gives weights; the order of anything else is strict.
pub(crate) fn names(given: &Bound<'_, PyAny>) -> Result<(Vec<(String, u32)>, Selection), Failure> {
    // Whether something else is a mapping is a question to code of Python, in which Ctrl-C would be lost.
    let is_list = given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>();
    if !is_list && let Ok(weights) = given.cast::<PyMapping>() {
        let weighted = |item: Bound<'_, PyAny>| {
            let (name, weight): (Text<QueueName>, Bound<'_, PyAny>) = item.extract()?;
            Ok((name.into_string(), convert::whole("weight", &weight, 1..=duly::MAX_WEIGHT.into())?))
        };
        let queues: Result<_, Failure> = weights.items()?.iter().map(weighted).collect();
        return Ok((queues?, Selection::Weighted));
    }
    if given.is_instance_of::<PyString>() {
        return Err(invalid("queues must be a list of names, such as ['orders'], or a dict of weights").into());
    }
    let strict = |name: PyResult<Bound<'_, PyAny>>| Ok((name?.extract::<Text<QueueName>>()?.into_string(), 1));
    let names = given
        .try_iter()
        .map_err(|_| convert::of_wrong_type("queues", "a list of names or a dict of weights", given))?;
    let queues: Result<_, Failure> = names.map(strict).collect();
    Ok((queues?, Selection::Strict))
}
