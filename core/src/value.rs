//! Values that every layer uses: times, names, ids, JSON, errors. They know nothing of Redis and read no clock but for stamps.

pub(crate) mod data;
pub(crate) mod durability;
pub(crate) mod error;
pub(crate) mod finite;
pub(crate) mod histogram;
pub(crate) mod id;
pub(crate) mod json;
pub mod name;
pub(crate) mod plural;
pub(crate) mod rate;
pub(crate) mod recurrence;
pub(crate) mod retry;
pub(crate) mod seconds;
pub(crate) mod state;
pub(crate) mod tally;
pub(crate) mod time;
