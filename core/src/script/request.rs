//! One script with its arguments and items, and how to run it.

use super::argument::{Argument, Numbering};
use super::call::{ByteStrings, Call};
use super::declare::{Declared, Extent, Kind, Shape, Variant};
use super::keys::{Levels, QueueKeys};
use super::reply::{FromReply, unexpected};
use crate::process::host;
use crate::value::durability::{Doubt, Durability};
use crate::value::error::Error;

/// What a script takes any number of, behind its arguments.
pub(crate) trait Item {
    fn append(&self, out: &mut ByteStrings);
    /// How many jobs it is about.
    fn jobs(&self) -> usize {
        1
    }
    /// How long the run of each outcome took, as a history notes it.
    fn took(&self) -> String {
        String::new()
    }
    /// Does only the full text take it, of a script that has two?
    fn needs_full_text(&self) -> bool {
        false
    }
}

impl Item for () {
    fn append(&self, _: &mut ByteStrings) {}
}

impl<A: Argument> Item for A {
    fn append(&self, out: &mut ByteStrings) {
        Argument::append(self, out);
    }
}

/// Words as they are.
impl Item for &ByteStrings {
    fn append(&self, out: &mut ByteStrings) {
        out.extend(self);
    }
}

macro_rules! items_of_columns {
    ($(($($column:ident $at:tt),+)),*) => {$(
        impl<$($column: Argument),+> Item for ($($column),+) {
            fn append(&self, out: &mut ByteStrings) {
                $(Argument::append(&self.$at, out);)+
            }
        }
    )*};
}
items_of_columns!((A 0, B 1), (A 0, B 1, C 2), (A 0, B 1, C 2, D 3), (A 0, B 1, C 2, D 3, E 4));

/// After which errors is the same call made again?
pub(crate) type KeepTrying<'a> = &'a (dyn Fn(&Error) -> bool + Sync);

/// A script with its arguments and items, and how to run it.
pub(crate) struct Request<'a, D, I> {
    script: D,
    items: I,
    pub(crate) operation: &'static str,
    pub(crate) durability: Durability,
    /// Takes the error of a call that was not confirmed, which then has its answer.
    pub(crate) doubt: Option<&'a Doubt>,
    pub(crate) keep_trying: KeepTrying<'a>,
    language: &'static str,
    sweeps: bool,
}

impl<'a, D: Declared, I: Iterator<Item: Item> + Clone> Request<'a, D, I> {
    pub(super) fn new(script: D, items: I) -> Self {
        Self {
            script,
            items,
            operation: D::VERB,
            durability: Durability::None,
            doubt: None,
            keep_trying: &|_| false,
            language: "rust",
            sweeps: false,
        }
    }

    /// The verb that errors name, where that is not the script's name.
    pub(crate) fn during(self, operation: &'static str) -> Self {
        Self { operation, ..self }
    }

    /// As safely as that.
    pub(crate) fn durably(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// The same; where that is not confirmed, the call has its answer all the same, and `doubt` the error.
    pub(crate) fn durably_or(self, durability: Durability, doubt: &'a Doubt) -> Self {
        Self { durability, doubt: Some(doubt), ..self }
    }

    /// Makes the call again under its number, behind a pause, after the errors of which this says so.
    pub(crate) fn keep_trying(self, keep_trying: KeepTrying<'a>) -> Self {
        Self { keep_trying, ..self }
    }

    /// As a history notes it: by a client in this language.
    pub(crate) fn in_language(self, language: &'static str) -> Self {
        Self { language, ..self }
    }

    /// Lets a reserve drop jobs that have expired, whatever options the queue has. Only the text of a queue with options can do that, and it is
    /// right for all others, too.
    pub(crate) fn sweeping(self, sweeps: bool) -> Self {
        Self { sweeps, ..self }
    }

    pub(crate) fn is_numbered() -> bool {
        D::DECLARATION.kind == Kind::Numbered
    }

    fn extent(&self, asked: Extent) -> Extent {
        let needs_full = || D::DECLARATION.has_extents && self.items.clone().any(|item| item.needs_full_text());
        if asked == Extent::Full || needs_full() { Extent::Full } else { Extent::Usual }
    }

    /// The call on this queue. `levels`: whose ready lists are passed, where there is a choice.
    pub(crate) fn call<'q>(
        &self,
        variant: Variant,
        queue: &'q str,
        keys: &QueueKeys,
        levels: Levels,
        number: Option<&Numbering<'_>>,
    ) -> Call<'q> {
        debug_assert_eq!(number.is_some(), Self::is_numbered());
        let shape = if self.sweeps { Shape::Limited } else { variant.shape };
        let variant = Variant { extent: self.extent(variant.extent), shape, ..variant };
        let levels = if D::DECLARATION.kind == Kind::Reads { Levels::ALL } else { levels };
        let mut spelled = ByteStrings::default();
        let client = number.map_or("", |number| number.client);
        keys.append(D::DECLARATION.keys_in(variant), client, levels, self.script.job_ids(), &mut spelled);
        let mut args = ByteStrings::default();
        Argument::append(&levels, &mut args);
        if let Some(number) = number {
            number.append(&mut args);
        }
        self.script.append_arguments(&mut args);
        if D::DECLARATION.notes_history(variant) {
            args.push(host::origin(self.language).as_bytes());
            if D::DECLARATION.settles() {
                args.push(self.items.clone().map(|item| item.took()).collect::<String>().as_bytes());
            }
            if D::DECLARATION.hands_out() {
                Argument::append(&host::now().get(), &mut args);
                Argument::append(&usize::from(self.sweeps), &mut args);
            }
        }
        self.items.clone().for_each(|item| item.append(&mut args));
        let keys_of_jobs = usize::from(D::FLAGS.kinds_of_jobs) * self.script.job_ids().map_or(0, ByteStrings::len);
        // A call has a few thousand at most.
        let keys_of_jobs = u32::try_from(keys_of_jobs).unwrap_or(u32::MAX);
        Call {
            script: D::script(variant),
            queue,
            slot: keys.slot(),
            keys: spelled,
            keys_of_jobs,
            args,
            is_numbered: number.is_some(),
            flags: D::FLAGS,
            is_again: false,
        }
    }

    pub(crate) fn decode(&self, reply: redis::Value) -> Result<D::Reply, Error> {
        let reply = D::Reply::decode(reply)?;
        if reply.fits(self.items.clone().map(|item| item.jobs()).sum()) {
            Ok(reply)
        } else {
            Err(unexpected("one answer a job"))
        }
    }
}
