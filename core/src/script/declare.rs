//! A script is declared once, here in Rust: what it takes and what it replies. The declaration makes the Lua header, so that a
//! script's body uses names, and the call: one with a missing or mistyped argument or item does not compile.

use super::argument::Numbering;
use super::call::{ByteStrings, Flags, Script};
use super::keys::Key;
use super::library;
use super::reply::FromReply;
use super::request::{Item, Request};
use super::text::Parts;

/// Which clock the scripts read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Clock {
    /// The server's `TIME`.
    #[default]
    Server,
    /// A clock that stands still until a test moves it; see [`crate::ClientBuilder::manual_clock`].
    Manual,
}

/// What a queue has beside the plain one: options that only some queues use. A script that looks after them is larger and passes more
/// keys, so it is there in both shapes: the plain one refuses a queue of the other shape before it writes (`shape limits`), and the
/// client, which learns the shape as it learns levels, sends the larger one from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shape {
    #[default]
    Plain,
    /// It has limits, of the queue or of names, or keeps a history.
    Limited,
}

/// How much of a script is in its text. What it does seldom can be most of it: the usual text then answers `full` before it has written
/// anything of the kind, and the same call is made with the full one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Extent {
    #[default]
    Usual,
    Full,
}

/// In what a script's text differs from itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Variant {
    pub(crate) clock: Clock,
    pub(crate) shape: Shape,
    pub(crate) extent: Extent,
}

impl Variant {
    pub(crate) const COUNT: usize = 8;

    pub(crate) fn index(self) -> usize {
        4 * (self.clock as usize) + 2 * (self.shape as usize) + self.extent as usize
    }
}

/// How a script is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With a number, so that it is executed once however often it is sent: see [`Numbering`].
    Numbered,
    /// Without: it is right when it is executed twice.
    Plain,
    /// Without, and with the ready lists of all levels: it only reads, so its reply never asks for levels.
    Reads,
}

/// What the macro below writes down of a script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Is it there in every shape? Others serve them all with one text.
    pub(crate) is_shaped: bool,
    /// Has it a usual and a full text?
    pub(crate) has_extents: bool,
    pub(crate) body: &'static str,
    pub(crate) keys: &'static [Key],
    /// Its own ones, behind those of a numbered call: name, and whether it is a number.
    pub(crate) arguments: &'static [(&'static str, bool)],
}

impl Declaration {
    /// Does its text in this variant note what happens to jobs, for the history of the queue? Then it takes who calls.
    pub(crate) fn notes_history(&self, variant: Variant) -> bool {
        !matches!(self.kind, Kind::Reads) && self.keys_in(variant).any(|key| key == Key::History)
    }

    /// Does it take outcomes, and with them how long the runs took?
    pub(crate) const fn settles(&self) -> bool {
        index_of("ack_count", self.arguments, 0).is_some()
    }

    /// Does it hand out jobs? Then its text that is not the plain one takes the time of the caller's clock, and whether to drop what has
    /// expired; where there are limits it does.
    pub(crate) const fn hands_out(&self) -> bool {
        index_of("ahead", self.arguments, 0).is_some()
    }

    /// What the text of a queue with options takes behind its own arguments.
    fn of_options(&self, variant: Variant) -> &'static [(&'static str, bool)] {
        match (self.notes_history(variant), self.settles(), self.hands_out()) {
            (false, ..) => &[],
            (true, false, _) => &[("origin", false)],
            (true, true, false) => &[("origin", false), ("took", false)],
            (true, true, true) => &[("origin", false), ("took", false), ("called_at", true), ("sweeps", true)],
        }
    }

    const fn numbering(&self) -> &'static [(&'static str, bool)] {
        if let Kind::Numbered = self.kind { &Numbering::ARGUMENTS } else { &[] }
    }

    /// What errors call it: its name without the folder.
    const fn verb(&self) -> &'static str {
        let name = self.name.as_bytes();
        let mut start = name.len();
        while start > 0 && name[start - 1] != b'/' {
            start -= 1;
        }
        self.name.split_at(start).1
    }

    /// What its calls need to know of it. The arguments that are sent otherwise than they are here are found by their names.
    const fn flags(&self) -> Flags {
        // Before the arguments, `ARGV` has the levels.
        let (of_numbering, own) = (1, 1 + self.numbering().len());
        Flags {
            again: match self.kind {
                Kind::Numbered => index_of("call_renew", self.numbering(), of_numbering),
                Kind::Plain | Kind::Reads => index_of("again", self.arguments, own),
            },
            ahead: index_of("ahead", self.arguments, own),
            is_of_queue: self.is_of_queue(),
            kinds_of_jobs: self.kinds_of_jobs(),
            waits_for_moves: self.waits_for_moves(),
        }
    }

    const fn is_of_queue(&self) -> bool {
        let mut at = 0;
        while at < self.keys.len() {
            if self.keys[at].is_of_queue() {
                return true;
            }
            at += 1;
        }
        false
    }

    const fn kinds_of_jobs(&self) -> u8 {
        let (mut at, mut kinds) = (0, 0);
        while at < self.keys.len() {
            if self.keys[at].is_of_one_job() {
                kinds += 1;
            }
            at += 1;
        }
        kinds
    }

    /// Not what only reads. Nor what is about a lock: its holder is to keep it, and its script empties no key that it touches again.
    const fn waits_for_moves(&self) -> bool {
        !matches!(self.kind, Kind::Reads) && !matches!(self.keys.first(), Some(Key::Lock))
    }

    /// The whole text: header, and body with the files that it includes.
    pub(crate) fn assemble(&self, variant: Variant) -> Script {
        let mut text = self.header(variant);
        self.shown_in(variant).append(self.name, self.body, &mut text);
        Script::new(text)
    }

    /// Which code of it is in this text.
    pub(super) fn shown_in(&self, variant: Variant) -> Parts {
        let is_plain = self.is_shaped && variant.shape == Shape::Plain;
        let is_usual = self.has_extents && variant.extent == Extent::Usual;
        Parts { clock: variant.clock, is_plain, is_usual }
    }

    /// Is this key only there where the queue has an option? A push looks at failed jobs for the sake of the queue's length.
    fn is_of_options(&self, key: Key) -> bool {
        key.is_of_options() || key == Key::Failed && library::is_same(self.name, "push")
    }

    /// What a call in this variant passes.
    pub(crate) fn keys_in(&self, variant: Variant) -> impl Iterator<Item = Key> + Clone + use<> {
        let has_options = !self.is_shaped || variant.shape == Shape::Limited;
        // The clock that a test moves is in `meta`, which a lock has no other use for.
        let clock = (variant.clock == Clock::Manual && !self.keys.contains(&Key::Meta)).then_some(Key::Meta);
        let declared = *self;
        let own = self.keys.iter().copied().filter(move |key| has_options || !declared.is_of_options(*key));
        clock.into_iter().chain(own)
    }

    /// The names that its header declares.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let arguments = self.numbering().iter().chain(self.arguments).map(|(name, _)| *name);
        let keys = self.keys.iter().map(|key| if *key == Key::Topics { "topic_keys" } else { key.name() });
        let of_options = ["origin", "took", "called_at", "sweeps"];
        ["passed_levels", "first_item"].into_iter().chain(of_options).chain(keys).chain(arguments)
    }

    pub(super) fn header(&self, variant: Variant) -> String {
        let mut lines = vec![format!("-- duly: {}", self.name), "local passed_levels = ARGV[1]".to_owned()];
        let of_jobs: Vec<_> = self.keys_in(variant).filter(|key| key.is_of_one_job()).collect();
        for (index, key) in of_jobs.iter().enumerate() {
            let groups = of_jobs.len() - index;
            let behind = if groups == 1 { "count".to_owned() } else { format!("{groups} * count") };
            lines.push(format!("local function {}(at, count) return KEYS[#KEYS - {behind} + at] end", key.name()));
        }
        for (i, key) in self.keys_in(variant).enumerate() {
            match key {
                key if key.is_of_one_job() => {}
                // One list a level that the caller passes, in the order of `passed_levels`. A record that somebody gave a
                // level which nobody uses goes to the default: it must not stop a script that has begun to move jobs.
                Key::Ready => lines.push(format!(
                    "local function ready(level) return KEYS[{i} + (string.find(passed_levels, level, 1, true) or \
                     string.find(passed_levels, '5', 1, true) or 1)] end"
                )),
                Key::Topics => lines.push(format!(
                    "local function topic_keys(at) return KEYS[{i} + 3 * at - 2], KEYS[{i} + 3 * at - 1], KEYS[{i} + 3 * at] end"
                )),
                key => lines.push(format!("local {} = KEYS[{}]", key.name(), i + 1)),
            }
        }
        let of_options = self.of_options(variant);
        let arguments = || self.numbering().iter().chain(self.arguments).chain(of_options);
        for (i, (name, is_number)) in arguments().enumerate() {
            let read = if *is_number { format!("tonumber(ARGV[{}])", i + 2) } else { format!("ARGV[{}]", i + 2) };
            lines.push(format!("local {name} = {read}"));
        }
        lines.push(format!("local first_item = {}\n", arguments().count() + 2));
        lines.join("\n")
    }
}

/// The index of the argument of this name, where the first of these has the index `first`.
const fn index_of(name: &str, arguments: &[(&str, bool)], first: usize) -> Option<usize> {
    let mut at = 0;
    while at < arguments.len() {
        if library::is_same(arguments[at].0, name) {
            return Some(first + at);
        }
        at += 1;
    }
    None
}

/// A declared script: a struct whose fields are its arguments.
pub(crate) trait Declared: Sized {
    const DECLARATION: Declaration;
    const FLAGS: Flags = Self::DECLARATION.flags();
    const VERB: &'static str = Self::DECLARATION.verb();
    /// What it takes behind its arguments, any number of them.
    type Item<'a>: Item;
    type Reply: FromReply;
    fn script(variant: Variant) -> &'static Script;
    fn append_arguments(&self, out: &mut ByteStrings);
    fn job_ids(&self) -> Option<&ByteStrings>;

    /// A request to run it with these items; `[]` where it takes none.
    fn with<'a, 'i, I>(self, items: I) -> Request<'a, Self, I::IntoIter>
    where
        I: IntoIterator<Item = Self::Item<'i>>,
        I::IntoIter: Clone,
    {
        Request::new(self, items.into_iter())
    }
}

/// Declares the scripts of a file. Of each: its Lua file, how it is called (`in shapes` if it is there in every shape, `and extents` if
/// also in every extent), its keys (`Ready` last, and behind it only what each job has of its own), its arguments (those that number a
/// call come by themselves), the columns of its items, and what its reply is read into.
macro_rules! scripts {
    ($(
        $(#[$doc:meta])*
        $name:ident = $file:literal,
        kind: $kind:ident $(in $shapes:ident $(and $extents:ident)?)?,
        keys: [$($key:ident),* $(,)?],
        $(arguments: { $($argument:ident: $type:ty),* $(,)? },)?
        $(items: ($($column:ident: $item:ty),* $(,)?),)?
        reply: $reply:ty;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            #[allow(clippy::struct_field_names)] // the fields are the names that the Lua code uses
            pub(crate) struct $name {
                $($(pub(crate) $argument: $type,)*)?
            }

            const _: () = $crate::script::library::check_includes(include_str!(concat!("../../lua/", $file, ".lua")));

            impl $crate::script::declare::Declared for $name {
                const DECLARATION: $crate::script::declare::Declaration = $crate::script::declare::Declaration {
                    name: $file,
                    kind: $crate::script::declare::Kind::$kind,
                    is_shaped: {
                        let shapes: &[&str] = &[$(stringify!($shapes))?];
                        !shapes.is_empty()
                    },
                    has_extents: {
                        let extents: &[&str] = &[$($(stringify!($extents))?)?];
                        !extents.is_empty()
                    },
                    body: include_str!(concat!("../../lua/", $file, ".lua")),
                    keys: &[$($crate::script::keys::Key::$key),*],
                    arguments: &[$($(
                        (stringify!($argument), <$type as $crate::script::argument::Argument>::IS_NUMBER),
                    )*)?],
                };
                #[allow(unused_parens)] // where there is one column
                type Item<'a> = ($($($item),*)?);
                type Reply = $reply;

                fn script(variant: $crate::script::declare::Variant) -> &'static $crate::script::call::Script {
                    use once_cell::race::OnceBox;
                    use $crate::script::declare::Variant;
                    // Not a cell that others wait for: a fork may happen while it is filled.
                    static ASSEMBLED: [OnceBox<$crate::script::call::Script>; Variant::COUNT] =
                        [const { OnceBox::new() }; Variant::COUNT];
                    ASSEMBLED[variant.index()].get_or_init(|| Box::new(Self::DECLARATION.assemble(variant)))
                }

                #[allow(unused_variables)] // a script may take no arguments
                fn append_arguments(&self, out: &mut $crate::script::call::ByteStrings) {
                    $($($crate::script::argument::Argument::append(&self.$argument, out);)*)?
                }

                fn job_ids(&self) -> Option<&$crate::script::call::ByteStrings> {
                    let ids = None;
                    $($(let ids = ids.or($crate::script::argument::Argument::job_ids(&self.$argument));)*)?
                    ids
                }
            }
        )*

        /// All of this file.
        #[cfg(test)]
        pub(super) const DECLARATIONS: &[$crate::script::declare::Declaration] =
            &[$(<$name as $crate::script::declare::Declared>::DECLARATION),*];
    };
}
pub(crate) use scripts;

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::script::foreign::tests::all_foreign;
    use crate::script::{
        actions, audit, bridge, depart, inspect, lock, operate, progress, push, queues, reserve, schedule, settle,
        topic, workers,
    };

    pub(in crate::script) fn all() -> Vec<Declaration> {
        let files = [
            push::DECLARATIONS,
            reserve::DECLARATIONS,
            settle::DECLARATIONS,
            operate::DECLARATIONS,
            inspect::DECLARATIONS,
            workers::DECLARATIONS,
            progress::DECLARATIONS,
            lock::DECLARATIONS,
            schedule::DECLARATIONS,
            bridge::DECLARATIONS,
            depart::DECLARATIONS,
            topic::DECLARATIONS,
            queues::DECLARATIONS,
            audit::DECLARATIONS,
            actions::DECLARATIONS,
        ];
        files.concat()
    }

    /// The names of the Lua files in `core/lua`.
    fn on_disk() -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
        let (mut folders, mut found) = (vec![root.clone()], BTreeSet::new());
        while let Some(folder) = folders.pop() {
            for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap().with_extension("");
                    found.insert(name.to_str().unwrap().replace('\\', "/"));
                }
            }
        }
        found
    }

    /// The scripts.
    pub(in crate::script) fn bodies() -> BTreeSet<String> {
        on_disk().into_iter().filter(|name| !name.starts_with("lib/")).collect()
    }

    /// The files that scripts share, by the names that their includes have.
    pub(in crate::script) fn parts() -> BTreeSet<String> {
        on_disk().iter().filter_map(|name| name.strip_prefix("lib/")).map(str::to_owned).collect()
    }

    /// The text of a Lua file.
    pub(in crate::script) fn lua(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua").join(name).with_extension("lua");
        std::fs::read_to_string(path).unwrap()
    }

    pub(in crate::script) fn variants() -> impl Iterator<Item = Variant> {
        let shapes = |clock| [Shape::Plain, Shape::Limited].map(|shape| (clock, shape));
        let both = [Clock::Server, Clock::Manual].into_iter().flat_map(shapes);
        both.flat_map(|(clock, shape)| [Extent::Usual, Extent::Full].map(|extent| Variant { clock, shape, extent }))
    }

    /// All that a script can do.
    const WHOLE: Variant = Variant { clock: Clock::Server, shape: Shape::Limited, extent: Extent::Full };

    #[test]
    fn bodies_use_names_and_no_data_parser() {
        for script in all() {
            let body = script.assemble(WHOLE).text;
            for forbidden in ["cjson", "cmsgpack", "SCAN", "'KEYS'", "redis.log"] {
                assert!(!body.contains(forbidden), "{} uses {forbidden}", script.name);
            }
        }
        let spells_a_number = |text: &str| {
            let of_lists = ["KEYS[", "ARGV[", "unpack(KEYS, ", "unpack(ARGV, "].into_iter();
            of_lists
                .flat_map(|list| text.split(list).skip(1))
                .any(|behind| behind.starts_with(|c: char| c.is_ascii_digit()))
        };
        for name in on_disk() {
            assert!(!spells_a_number(&lua(&name)), "{name} spells a key or an argument by its number");
        }
        assert!(spells_a_number("x = KEYS[1]") && spells_a_number("f(unpack(ARGV, 4))"));
        assert!(!spells_a_number("for at = first_item, #ARGV, 4 do x = ARGV[at + 1] end"));
    }

    #[test]
    fn a_plain_queues_reserve_is_a_short_text() {
        // The first one that was measured had 961 lines behind its header.
        let (script, variant) = (crate::script::Reserve::DECLARATION, Variant::default());
        let lines = script.assemble(variant).text.lines().count() - script.header(variant).lines().count();
        assert!(lines <= 480, "{lines} lines: what is rare belongs between `--- if full` and `--- end`");
    }

    #[test]
    fn flags_are_where_the_header_reads_them() {
        for script in all() {
            let header = script.header(WHOLE);
            let read = |name: &str| {
                let start = format!("local {name} = ");
                let line = header.lines().find_map(|line| line.strip_prefix(&start))?;
                let digits: String = line.chars().filter(char::is_ascii_digit).collect();
                Some(digits.parse::<usize>().unwrap() - 1)
            };
            let beside =
                ["queues/register", "queues/list", "queues/unregister", "lock", "renew_lock", "unlock", "note_action"];
            let is_of_queue = !script.name.starts_with("topic/") && !beside.contains(&script.name);
            let waits_for_moves = !matches!(script.kind, Kind::Reads) && !script.name.contains("lock");
            let again = read("call_renew").or(read("again"));
            let kinds_of_jobs = u8::try_from(header.matches("KEYS[#KEYS - ").count()).unwrap();
            let expected = Flags { again, ahead: read("ahead"), is_of_queue, kinds_of_jobs, waits_for_moves };
            assert_eq!(script.flags(), expected, "{}", script.name);
        }
        let later = Declaration {
            arguments: &[("want", true), ("new", true), ("ahead", true)],
            ..crate::script::Reserve::DECLARATION
        };
        assert_eq!(later.flags(), Flags { again: Some(3), ahead: Some(6), ..crate::script::Reserve::FLAGS });
    }

    #[test]
    fn errors_name_the_verb_and_not_the_folder() {
        for script in all() {
            let verb = script.name.rsplit('/').next().unwrap_or_default();
            assert_eq!(script.verb(), verb);
        }
        assert_eq!(crate::script::Pull::VERB, "pull");
        assert_eq!(crate::script::PushUnique::VERB, "push_unique");
    }

    #[test]
    fn numbered_calls_have_the_key_of_their_client() {
        for script in all() {
            assert_eq!(script.kind == Kind::Numbered, script.keys.contains(&Key::Call), "{}", script.name);
        }
    }

    #[test]
    fn the_permission_check_knows_every_command() {
        let check = include_str!("../../lua/permissions.lua");
        // Who has no topics need not permit streams: a script of a topic looks at its stream before it writes. Nor does anybody need what
        // lists and deletes queues, or switches a history off, but who does so.
        let is_for_few =
            |name: &str| name.starts_with("topic/") || ["queues/list", "queues/delete", "keep_history"].contains(&name);
        let declared = all().into_iter().filter(|script| !is_for_few(script.name));
        let declared = declared.map(|script| (script.name, script.assemble(WHOLE).text));
        let foreign = all_foreign().map(|script| (script.name, script.assemble().text));
        // A bridge that needs it tries it before its first batch: nobody else need permit it.
        let tried_by_a_bridge = [("bridge/take_batch", "LSET")];
        for (name, text) in declared.chain(foreign) {
            for call in text.split("call('").skip(1) {
                let command = call.split('\'').next().unwrap_or_default();
                let is_tried =
                    check.contains(&format!("try('{command}'")) || tried_by_a_bridge.contains(&(name, command));
                assert!(is_tried, "{name} calls {command}");
            }
        }
    }

    #[test]
    fn the_document_lists_every_script_as_it_is_declared() {
        let document = include_str!("../../../docs/keys-and-scripts.md");
        let declared = all().into_iter().map(|script| {
            let keys: Vec<&str> = script.keys.iter().map(|key| key.name()).collect();
            let numbering = (script.kind == Kind::Numbered).then_some(&("call*", false));
            (
                script.name,
                keys,
                numbering.into_iter().chain(script.arguments).map(|(name, _)| *name).collect::<Vec<_>>(),
            )
        });
        let foreign = all_foreign().map(|script| {
            (script.name, script.keys.to_vec(), script.arguments.iter().map(|(name, _)| *name).collect())
        });
        for (name, keys, arguments) in declared.chain(foreign) {
            let row = format!("| `{name}` | {} | {}", keys.join(" "), arguments.join(", "));
            let listed = document.lines().any(|line| {
                line.strip_prefix(&row)
                    .is_some_and(|rest| rest.starts_with(';') || rest.starts_with(" |") || arguments.is_empty())
            });
            assert!(listed, "docs/keys-and-scripts.md lacks the row {row}");
        }
    }

    #[test]
    fn every_script_says_what_it_moves_replies_and_costs() {
        for name in bodies() {
            for part in ["-- Moves:", "-- Replies:", "-- Cost:"] {
                assert!(lua(&name).contains(part), "{name} lacks {part}");
            }
        }
    }
}
