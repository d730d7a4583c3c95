//! A reader of JSON text that finds where values begin and end and changes nothing, so that data stays byte for byte.
//!
//! It does not recurse: nesting costs one bit a level, whatever a stranger sends. Its faults name a position, never text.

use std::borrow::Cow;

/// How deep arrays and objects of one value may be nested: as deep as PHP's `json_decode` reads by default.
pub(crate) const MAX_DEPTH: usize = 512;

/// What is wrong with the text, and at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: &'static str,
    pub(crate) at: usize,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// Which of the open brackets are objects, one bit each.
struct Open {
    objects: [u64; MAX_DEPTH / 64],
    depth: usize,
}

impl Open {
    fn push(&mut self, is_object: bool, at: usize) -> Result<(), Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault { what: "it is nested more than 512 levels deep", at });
        }
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        if is_object {
            self.objects[word] |= bit;
        } else {
            self.objects[word] &= !bit;
        }
        self.depth += 1;
        Ok(())
    }

    /// Is the innermost open bracket an object? None if none is open.
    fn innermost(&self) -> Option<bool> {
        let level = self.depth.checked_sub(1)?;
        Some(self.objects[level / 64] & (1 << (level % 64)) != 0)
    }
}

/// A position in a text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    pub(crate) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Steps over this byte if it comes next.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Fault> {
        if self.take(byte) { Ok(()) } else { Err(self.fault(what)) }
    }

    /// The fault `what` here; or, at the end of the text, that it ends too early.
    pub(crate) fn fault(&self, what: &'static str) -> Fault {
        let what = if self.at >= self.text.len() { "it ends too early" } else { what };
        Fault { what, at: self.at }
    }

    /// Nothing but white space may follow.
    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.fault("something follows after its end")) }
    }

    /// Steps over one value, without white space around it, and gives its exact text.
    pub(crate) fn value(&mut self) -> Result<&'a str, Fault> {
        let start = self.at;
        let mut open = Open { objects: [0; MAX_DEPTH / 64], depth: 0 };
        'value: loop {
            match self.peek() {
                Some(b'{') => {
                    open.push(true, self.at)?;
                    self.at += 1;
                    self.skip_space();
                    if self.peek() != Some(b'}') {
                        self.member_name()?;
                        continue 'value;
                    }
                }
                Some(b'[') => {
                    open.push(false, self.at)?;
                    self.at += 1;
                    self.skip_space();
                    if self.peek() != Some(b']') {
                        continue 'value;
                    }
                }
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                Some(b'n') => self.literal("null")?,
                _ => return Err(self.fault("no JSON value starts")),
            }
            loop {
                let Some(in_object) = open.innermost() else { return Ok(self.since(start)) };
                self.skip_space();
                match (in_object, self.peek()) {
                    (true, Some(b'}')) | (false, Some(b']')) => {
                        self.at += 1;
                        open.depth -= 1;
                    }
                    (_, Some(b',')) => {
                        self.at += 1;
                        self.skip_space();
                        if in_object {
                            self.member_name()?;
                        }
                        continue 'value;
                    }
                    _ => return Err(self.fault("a comma or a closing bracket is missing")),
                }
            }
        }
    }

    /// Steps over a name, its colon and the white space around that.
    fn member_name(&mut self) -> Result<(), Fault> {
        self.string()?;
        self.skip_space();
        self.expect(b':', "a colon is missing")?;
        self.skip_space();
        Ok(())
    }

    /// Steps over a string and gives the text between its quotes, escapes as they are.
    pub(crate) fn string(&mut self) -> Result<&'a str, Fault> {
        self.expect(b'"', "a string should start")?;
        let start = self.at;
        loop {
            self.at += plain_bytes(&self.text.as_bytes()[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(&self.text[start..self.at - 1]);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(self.fault("a control character stands unescaped in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.fault("a \\u escape needs four hexadecimal digits"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.fault("an unknown escape stands in a string")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _signed = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("a number is malformed")) } else { Ok(()) }
    }

    fn literal(&mut self, word: &str) -> Result<(), Fault> {
        let bytes = self.text.as_bytes();
        for byte in word.bytes() {
            if bytes.get(self.at) != Some(&byte) {
                return Err(self.fault("no JSON value starts"));
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// Is the text exactly one JSON number?
pub(crate) fn is_number(text: &str) -> bool {
    let mut cursor = Cursor::new(text);
    cursor.number().is_ok() && cursor.at == text.len()
}

/// How many bytes at the beginning are neither a quote, a backslash nor a control character: looks at eight at a time, so up to
/// seven more may follow at the end. (The tests for a byte in a word are of "Bit Twiddling Hacks", Sean Eron Anderson.)
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHEST: u64 = ONES * 0x80;
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let is_less = |word: u64, than: u64| word.wrapping_sub(ONES * than) & !word & HIGHEST;
        // Of each test the lowest byte found is right; above it there may be others that are not.
        let special = is_less(word, 0x20)
            | is_less(word ^ (ONES * u64::from(b'"')), 1)
            | is_less(word ^ (ONES * u64::from(b'\\')), 1);
        if special != 0 {
            return 8 * index + special.trailing_zeros() as usize / 8;
        }
    }
    8 * words.len()
}

/// The characters of a string whose quotes were taken off by [`Cursor::string`]; None if half a surrogate pair stands
/// in it, which no UTF-8 text can hold.
pub(crate) fn unescaped(raw: &str) -> Option<Cow<'_, str>> {
    unescape(raw, None)
}

/// The same with U+FFFD in place of half a surrogate pair.
pub(crate) fn unescaped_lossy(raw: &str) -> Cow<'_, str> {
    unescape(raw, Some(char::REPLACEMENT_CHARACTER)).unwrap_or_default()
}

fn unescape(raw: &str, in_place_of_half: Option<char>) -> Option<Cow<'_, str>> {
    if !raw.contains('\\') {
        return Some(Cow::Borrowed(raw));
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(slash) = rest.find('\\') {
        text.push_str(&rest[..slash]);
        let escape = rest.as_bytes().get(slash + 1).copied().unwrap_or(b'\\');
        rest = rest.get(slash + 2..).unwrap_or_default();
        match escape {
            b'b' => text.push('\u{8}'),
            b'f' => text.push('\u{c}'),
            b'n' => text.push('\n'),
            b'r' => text.push('\r'),
            b't' => text.push('\t'),
            b'u' => {
                let (char, used) = unicode_escape(rest);
                text.push(char.or(in_place_of_half)?);
                rest = rest.get(used..).unwrap_or_default();
            }
            other => text.push(char::from(other)),
        }
    }
    text.push_str(rest);
    Some(Cow::Owned(text))
}

/// The character of the escape whose `\u` was just read, and how many bytes of `rest` belong to it.
fn unicode_escape(rest: &str) -> (Option<char>, usize) {
    let unit = |digits: Option<&str>| digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let Some(first) = unit(rest.get(..4)) else { return (None, 4) };
    if (0xd800..0xdc00).contains(&first)
        && rest.get(4..6) == Some("\\u")
        && let Some(second @ 0xdc00..0xe000) = unit(rest.get(6..10))
    {
        return (char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)), 10);
    }
    (char::from_u32(first), 4)
}

/// Appends the text as a JSON string: quotes, backslashes and control characters escaped, everything else as it is.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const AROUND_THE_LIMITS: &[u8] = b" !\"#[\\]\x00\x01\x1f\x7f\x80\xa2\xdc\xff";

    fn whole(text: &str) -> Result<(), Fault> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        cursor.value()?;
        cursor.finish()
    }

    #[test]
    fn what_is_json_passes() {
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "-0.0",
            "1e400",
            "1E+5",
            "0.30000000000000004",
            "\"\"",
            "[]",
            "{}",
            " [ ] ",
            "[1,2,[3,{\"a\":[]}],\"x\"]",
            "{\"a\":{\"b\":1} , \"c\":null}",
            "\"\\u0000\\ud800\\/\\b\"",
            "\n\t\r 1 ",
        ] {
            assert_eq!(whole(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_a_fault() {
        for text in [
            "",
            " ",
            "nul",
            "nulll",
            "True",
            "NaN",
            "Infinity",
            "-",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "0x1",
            "'a'",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\n\"",
            "[",
            "]",
            "[1",
            "[1,",
            "[1,]",
            "[1 2]",
            "[1}",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\":1]",
            "1 2",
            "// c",
            "\u{feff}1",
        ] {
            assert!(whole(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn nesting_is_bounded_without_recursion() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(whole(&nested(MAX_DEPTH)), Ok(()));
        assert!(whole(&nested(MAX_DEPTH + 1)).is_err());
        assert!(whole(&"[".repeat(1_000_000)).is_err());
        let mixed = format!("{}1{}", "{\"a\":[".repeat(256), "]}".repeat(256));
        assert_eq!(whole(&mixed), Ok(()));
    }

    #[test]
    fn strings_come_back() {
        assert_eq!(unescaped("a\\u0041\\n\\/\\ud83d\\ude00\\\"").unwrap(), "aA\n/\u{1f600}\"");
        assert_eq!(unescaped("\\ud83d"), None);
        assert_eq!(unescaped("\\ude00x"), None);
        assert_eq!(unescaped_lossy("x\\ud83dy\\ud83d\\u0041"), "x\u{fffd}y\u{fffd}A");
    }

    proptest! {
        #[test]
        fn any_bytes_are_plain_up_to_the_first_that_is_not(bytes in vec(select(AROUND_THE_LIMITS), 0..40)) {
            let first = bytes.iter().position(|byte| *byte < 0x20 || b"\"\\".contains(byte)).unwrap_or(bytes.len());
            let plain = plain_bytes(&bytes);
            prop_assert!(plain == first || plain < first && first - plain < 8 && bytes.len() - plain < 8, "{plain} {first}");
        }

        #[test]
        fn it_agrees_with_serde_json(text in prop_oneof!["[\\[\\]{}\",:0-9.eE+\\-truefalsn \\\\]{0,24}", any::<String>()]) {
            crate::checks::reading::json(&text, &mut crate::checks::Seen::new());
        }
    }
}
