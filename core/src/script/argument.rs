//! The values that a script takes.

use std::io::Write as _;

use super::call::{ByteStrings, KNOWN, UNKNOWN};
use super::keys::Levels;

/// A value that a script takes as one element of `ARGV`.
pub(crate) trait Argument {
    /// How the Lua header reads it.
    const IS_NUMBER: bool;
    fn append(&self, out: &mut ByteStrings);
    /// The jobs whose own keys go with the call.
    fn job_ids(&self) -> Option<&ByteStrings> {
        None
    }
}

macro_rules! number_arguments {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            const IS_NUMBER: bool = true;
            fn append(&self, out: &mut ByteStrings) {
                out.push_display(self);
            }
        }
    )*};
}
number_arguments!(u64, usize);

/// Nothing where there is none.
impl<A: Argument> Argument for Option<A> {
    const IS_NUMBER: bool = A::IS_NUMBER;
    fn append(&self, out: &mut ByteStrings) {
        match self {
            Some(argument) => argument.append(out),
            None => out.push(b""),
        }
    }
}

/// A number that the script only compares, so it stays text there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digits(pub(crate) u64);

impl Argument for Digits {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        out.push_display(self.0);
    }
}

/// What a numbered call says of the memory of its client's calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemoryRenewal {
    /// Nothing.
    No,
    /// Renew it, and keep the answer of this call whatever it is. The calls of these slots and numbers were given up
    /// before this one was made and must not be executed any more.
    Asked(Vec<(usize, u64)>),
}

/// [`MemoryRenewal`] as the scripts take it, with ` <slot>:<number>` for each call that was given up. With `0` and [`KNOWN`] the server must
/// have a memory of this client; if it has none, its data are gone.
struct CallRenew<'a> {
    renewal: &'a MemoryRenewal,
    is_known: bool,
}

impl Argument for CallRenew<'_> {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        let first = if self.is_known { KNOWN } else { UNKNOWN };
        match self.renewal {
            MemoryRenewal::No if self.is_known => out.push(b"0"),
            MemoryRenewal::No => out.push(first),
            MemoryRenewal::Asked(given_up) => {
                let mut text = first.to_vec();
                for (slot, number) in given_up {
                    // Writing to a Vec cannot fail.
                    let _ = write!(text, " {slot}:{number}");
                }
                out.push(&text);
            }
        }
    }
}

/// The jobs whose own keys are passed, behind all others. The script gets their number, and finds the key of the first one by
/// `<name of the key>(1, <that number>)`.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobKeys(pub(crate) ByteStrings);

impl JobKeys {
    pub(crate) fn one(id: &str) -> Self {
        let mut ids = ByteStrings::default();
        ids.push(id.as_bytes());
        Self(ids)
    }
}

impl Argument for JobKeys {
    const IS_NUMBER: bool = true;
    fn append(&self, out: &mut ByteStrings) {
        out.push_display(self.0.len());
    }
    fn job_ids(&self) -> Option<&ByteStrings> {
        Some(&self.0)
    }
}

/// The topics whose keys are passed. The script gets their number, and the keys of each by `topic_keys`.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopicKeys(pub(crate) ByteStrings);

impl TopicKeys {
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut keys = ByteStrings::default();
        names.into_iter().for_each(|name| keys.push(name.as_bytes()));
        Self(keys)
    }
}

impl Argument for TopicKeys {
    const IS_NUMBER: bool = true;
    fn append(&self, out: &mut ByteStrings) {
        out.push_display(self.0.len());
    }
    fn job_ids(&self) -> Option<&ByteStrings> {
        Some(&self.0)
    }
}

/// When a pushed or moved job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// Milliseconds from the moment at which the server runs the script.
    After(u64),
    /// Milliseconds since 1970 on the server's clock.
    At(u64),
}

impl Argument for Due {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        match self {
            Self::Now => out.push(b""),
            Self::After(ms) => out.push_display(format_args!("+{ms}")),
            Self::At(ms) => out.push_display(format_args!("@{ms}")),
        }
    }
}

impl Argument for Levels {
    const IS_NUMBER: bool = false;
    fn append(&self, out: &mut ByteStrings) {
        out.push_display(self);
    }
}

macro_rules! text_arguments {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            const IS_NUMBER: bool = false;
            fn append(&self, out: &mut ByteStrings) {
                out.push(self.as_ref());
            }
        }
    )*};
}
text_arguments!(&str, String, &[u8], Vec<u8>);

/// What makes a call one that is executed once however often it is sent: whose it is, its slot and its number there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbering<'a> {
    /// The client, by the name under which the server remembers its calls.
    pub(crate) client: &'a str,
    pub(crate) slot: usize,
    pub(crate) number: u64,
    pub(crate) renewal: &'a MemoryRenewal,
    /// Has the server said not long ago that it remembers this client?
    pub(crate) is_known: bool,
}

impl Numbering<'_> {
    /// The arguments that it puts before a script's own: name, and whether it is a number.
    pub(super) const ARGUMENTS: [(&'static str, bool); 3] =
        [("call_slot", usize::IS_NUMBER), ("call_number", Digits::IS_NUMBER), ("call_renew", CallRenew::IS_NUMBER)];

    pub(super) fn append(&self, out: &mut ByteStrings) {
        self.slot.append(out);
        Digits(self.number).append(out);
        CallRenew { renewal: self.renewal, is_known: self.is_known }.append(out);
    }
}
