//! Scripts: every state change of a queue is one of them.

mod call;

pub(crate) use call::{ByteStrings, Call, Script};
