//! The stored and sent form of a job: the envelope, and the record that Redis keeps. Pure functions of bytes.

pub(crate) mod envelope;
pub(crate) mod record;
