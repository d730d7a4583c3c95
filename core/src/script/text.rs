//! The text of a script, as the server gets it: its file with the files that it includes.

use super::declare::Clock;
use super::keys::FORMAT;
use super::library::{INCLUDE, library};

/// Which code is part of a text.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) clock: Clock,
    pub(super) is_plain: bool,
    pub(super) is_usual: bool,
}

impl Parts {
    /// Appends a file line by line, without comments and indentation, because the server keeps and a fallback sends every byte.
    /// An include stands for the files that it names, wherever it is, so that functions which only a rare path needs are made in that
    /// path and cost the others nothing. What is between `--- if plain` or `--- if limited` and `--- end` is only there in that shape,
    /// and what is behind `--- else` in the other; the same with `usual` and `full`. `FORMAT` is the number of ours.
    pub(super) fn append(self, file: &str, code: &str, text: &mut String) {
        for line in self.lines(&altered(file, code)) {
            if let Some(names) = line.strip_prefix(INCLUDE) {
                names.split(", ").for_each(|name| self.append(name, library(name, self.clock), text));
            } else if !line.is_empty() && !line.starts_with("--") {
                text.push_str(&line.replace("FORMAT", &FORMAT.to_string()));
                text.push('\n');
            }
        }
    }

    /// The lines of a file that are in this text.
    fn lines(self, code: &str) -> impl Iterator<Item = &str> {
        let mut is_part = true;
        code.lines().map(str::trim).filter(move |line| {
            match *line {
                "--- if plain" => is_part = self.is_plain,
                "--- if limited" => is_part = !self.is_plain,
                "--- if usual" => is_part = self.is_usual,
                "--- if full" => is_part = !self.is_usual,
                "--- else" => is_part = !is_part,
                "--- end" => is_part = true,
                _ => {}
            }
            is_part
        })
    }

    /// The files of the library that such a text has, each as often as it has it.
    #[cfg(test)]
    pub(super) fn files(self, code: &'static str) -> Vec<&'static str> {
        let included = self.lines(code).filter_map(|line| line.strip_prefix(INCLUDE));
        let names = included.flat_map(|names| names.split(", "));
        names.flat_map(|name| [name].into_iter().chain(self.files(library(name, self.clock)))).collect()
    }
}

#[cfg(not(test))]
fn altered<'a>(_file: &str, code: &'a str) -> std::borrow::Cow<'a, str> {
    code.into()
}

/// Lets `tools/mutants.py` take a guard out of a file without building anew: the file `DULY_MUTANT_FILE` has the text
/// `DULY_MUTANT_CODE`.
#[cfg(test)]
fn altered<'a>(file: &str, code: &'a str) -> std::borrow::Cow<'a, str> {
    if std::env::var("DULY_MUTANT_FILE").is_ok_and(|altered| altered == file) {
        return std::env::var("DULY_MUTANT_CODE").expect("`tools/mutants.py` sets both").into();
    }
    code.into()
}
