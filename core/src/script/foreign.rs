//! Scripts about keys that are no queue's of ours: those of another queue, or of nobody. They have no number, levels or variants, and
//! name their keys and arguments as the others do.

use once_cell::race::OnceBox;

use super::call::{ByteStrings, Call, Script};
use super::crc16::crc16;
use super::declare::Clock;
use super::library::check_includes;
use super::text::Parts;

/// What the macro below writes down of such a script.
pub(super) struct Foreign {
    pub(super) name: &'static str,
    pub(super) body: &'static str,
    pub(super) keys: &'static [&'static str],
    /// Name, and whether it is a number.
    pub(super) arguments: &'static [(&'static str, bool)],
}

impl Foreign {
    pub(super) fn header(&self) -> String {
        let keys = self.keys.iter().enumerate().map(|(at, key)| format!("local {key} = KEYS[{}]\n", at + 1));
        let arguments = self.arguments.iter().enumerate().map(|(at, (name, is_number))| {
            let read = format!("ARGV[{}]", at + 1);
            format!("local {name} = {}\n", if *is_number { format!("tonumber({read})") } else { read })
        });
        let first_item = format!("local first_item = {}\n", self.arguments.len() + 1);
        [format!("-- duly: {}\n", self.name)].into_iter().chain(keys).chain(arguments).chain([first_item]).collect()
    }

    /// As the server gets it.
    pub(super) fn assemble(&self) -> Script {
        let mut text = self.header();
        Parts { clock: Clock::Server, is_plain: false, is_usual: false }.append(self.name, self.body, &mut text);
        Script::new(text)
    }

    /// A call about this key and others in its slot, which is right when it is sent twice. `keys` may lack the last ones.
    pub(super) fn call<'q>(
        script: &'static Script,
        source: &'q str,
        others: &[&str],
        append: impl FnOnce(&mut ByteStrings),
    ) -> Call<'q> {
        let (mut keys, mut args) = (ByteStrings::default(), ByteStrings::default());
        [source].iter().chain(others).for_each(|key| keys.push(key.as_bytes()));
        append(&mut args);
        Call::plain(script, source, slot(source), keys, args)
    }
}

/// Declares such scripts: of each its Lua file, its keys and its arguments, which are the fields of a struct.
macro_rules! foreign {
    ($(
        $name:ident = $file:literal,
        keys: [$($key:ident),*],
        arguments: { $($argument:ident: $type:ty),* $(,)? };
    )*) => {$(
        struct $name<'a> {
            $($argument: $type,)*
        }

        const _: () = $crate::script::library::check_includes(include_str!(concat!("../../lua/", $file, ".lua")));

        impl<'a> $name<'a> {
            const DECLARATION: $crate::script::foreign::Foreign = $crate::script::foreign::Foreign {
                name: $file,
                body: include_str!(concat!("../../lua/", $file, ".lua")),
                keys: &[$(stringify!($key)),*],
                arguments: &[$((stringify!($argument), <$type as $crate::script::argument::Argument>::IS_NUMBER)),*],
            };

            /// `items`: what stands behind the arguments.
            fn call<'q>(
                &self,
                source: &'q str,
                others: &[&str],
                items: impl FnOnce(&mut $crate::script::call::ByteStrings),
            ) -> $crate::script::call::Call<'q> {
                static SCRIPT: once_cell::race::OnceBox<$crate::script::call::Script> = once_cell::race::OnceBox::new();
                let script = SCRIPT.get_or_init(|| Box::new(Self::DECLARATION.assemble()));
                $crate::script::foreign::Foreign::call(script, source, others, |args| {
                    $($crate::script::argument::Argument::append(&self.$argument, args);)*
                    items(args);
                })
            }
        }
    )*

        /// All of this file.
        #[cfg(test)]
        pub(super) const FOREIGN: &[$crate::script::foreign::Foreign] = &[$($name::DECLARATION),*];
    };
}
pub(super) use foreign;

/// Names the commands of the scripts that a user may not run. Its key is no declared one.
pub(super) const PERMISSIONS: Foreign = Foreign {
    name: "permissions",
    body: include_str!("../../lua/permissions.lua"),
    keys: &[],
    arguments: &[("key", false)],
};
const _: () = check_includes(PERMISSIONS.body);

pub(crate) fn permission_check() -> &'static Script {
    static SCRIPT: OnceBox<Script> = OnceBox::new();
    SCRIPT.get_or_init(|| Box::new(PERMISSIONS.assemble()))
}

/// A key of the bridge in the same slot.
pub(super) fn beside(source: &str, own: &str) -> String {
    if tag(source).is_some() {
        return format!("{source}:duly:{own}");
    }
    if !source.contains('}') {
        return format!("{{{source}}}:duly:{own}");
    }
    // It is no tag itself: a number that has its slot is.
    let number = (0..1_000_000_u32).find(|number| slot(&number.to_string()) == slot(source)).unwrap_or_default();
    format!("{{{number}}}:{source}:duly:{own}")
}

/// What a cluster takes the slot from, where that is not the whole key.
fn tag(key: &str) -> Option<&str> {
    let (_, behind) = key.split_once('{')?;
    behind.split_once('}').map(|(tag, _)| tag).filter(|tag| !tag.is_empty())
}

pub(super) fn slot(key: &str) -> u16 {
    crc16(tag(key).unwrap_or(key).as_bytes()) % 16384
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::script::{bridge, depart};

    pub(in crate::script) fn all_foreign() -> impl Iterator<Item = &'static Foreign> {
        bridge::FOREIGN.iter().chain(depart::FOREIGN).chain([&PERMISSIONS])
    }

    #[test]
    fn keys_of_the_bridge_are_in_the_slot_of_the_key() {
        for key in ["orders", "{queues:orders}", "a{}b", "a}b", "{}", "}{", "a{b}c", "{a", "{a{}b}"] {
            assert_eq!(slot(&beside(key, "state")), slot(key), "{key}");
        }
        assert_eq!(beside("orders", "state"), "{orders}:duly:state");
        assert_eq!(beside("{queues:orders}", "state"), "{queues:orders}:duly:state");
    }

    #[test]
    fn a_header_names_keys_and_arguments() {
        let script = Foreign { name: "x", body: "", keys: &["a", "b"], arguments: &[("c", true), ("d", false)] };
        let expected = "-- duly: x\nlocal a = KEYS[1]\nlocal b = KEYS[2]\nlocal c = tonumber(ARGV[1])\nlocal d = ARGV[2]\n\
            local first_item = 3\n";
        assert_eq!(script.header(), expected);
    }
}
