//! Texts, counts and times, as pages show them.

use duly::Millis;
use maud::{Markup, PreEscaped, html};

use crate::show::{is_invisible, moment};

/// A text of somebody else's: what would be invisible, or change what stands beside it, is shown as a symbol.
pub(crate) fn shown(text: &str) -> Markup {
    visible(text, false)
}

/// The same on several lines.
pub(crate) fn shown_lines(text: &str) -> Markup {
    visible(text, true)
}

fn visible(text: &str, has_lines: bool) -> Markup {
    let mut plain = String::new();
    let mut written = String::new();
    let flush = |plain: &mut String, written: &mut String| {
        written.push_str(&html! { (plain) }.into_string());
        plain.clear();
    };
    for character in text.chars() {
        if has_lines && matches!(character, '\n' | '\t') {
            plain.push(character);
        } else if let Some(symbol) = symbol(character) {
            flush(&mut plain, &mut written);
            let name = format!("U+{:04X}", u32::from(character));
            written.push_str(&html! { span.symbol title=(name) { (symbol) } }.into_string());
        } else {
            plain.push(character);
        }
    }
    flush(&mut plain, &mut written);
    PreEscaped(written)
}

fn symbol(character: char) -> Option<String> {
    let code = u32::from(character);
    match code {
        0..0x20 => char::from_u32(0x2400 + code).map(String::from),
        0x7f => Some("\u{2421}".to_owned()),
        _ if character.is_control() || is_invisible(character) => Some(format!("⟨{code:X}⟩")),
        _ => None,
    }
}

/// The beginning of a text, for a row of a table.
pub(crate) fn beginning(text: &str) -> String {
    const MOST: usize = 120;
    let first = text.lines().next().unwrap_or("");
    let mut beginning: String = first.chars().take(MOST).collect();
    if beginning.len() < text.trim_end().len() {
        beginning.push('…');
    }
    beginning
}

/// With a comma before every three digits.
pub(crate) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut written = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

/// A time of the server, in UTC.
pub(crate) fn time(at: Option<Millis>) -> Markup {
    html! {
        @match at {
            Some(at) => { (time_of(&moment(at))) }
            None => { span.none { "–" } }
        }
    }
}

/// The same, as precise as this text of it is.
pub(crate) fn time_of(text: &str) -> Markup {
    html! { time datetime=(format!("{}Z", text.replace(' ', "T"))) { (text) } }
}

/// A text of somebody else's, or a dash.
pub(crate) fn or_dash(text: Option<&str>) -> Markup {
    html! {
        @match text.filter(|text| !text.is_empty()) {
            Some(text) => { (shown(text)) }
            None => { span.none { "–" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_does_nothing_and_hides_nothing() {
        assert_eq!(shown("<script>alert(1)</script>\"").into_string(), "&lt;script&gt;alert(1)&lt;/script&gt;&quot;");
        let escape = r#"a<span class="symbol" title="U+001B">␛</span>[2J"#;
        assert_eq!(shown("a\u{1b}[2J").into_string(), escape);
        assert!(shown("a\u{202e}b").into_string().contains("⟨202E⟩"));
        assert!(shown("a\nb").into_string().contains('␊'));
        assert_eq!(shown_lines("a\n\tb").into_string(), "a\n\tb");
        assert_eq!(shown("订单").into_string(), "订单");
    }

    #[test]
    fn numbers_and_beginnings_are_read_at_a_glance() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(beginning("one\ntwo"), "one…");
        assert_eq!(beginning("one\n"), "one");
        assert_eq!(beginning(&"x".repeat(500)).chars().count(), 121);
        assert_eq!(beginning(""), "");
    }
}
