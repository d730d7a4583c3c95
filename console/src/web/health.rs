//! The server, as `duly doctor` finds it: what would lose, refuse or delay jobs, and what to do.

use maud::{Markup, html};

use super::request::link;
use super::text::{or_dash, shown};
use super::view::{Page, Shown, View};
use super::words::{Words, fill};
use crate::doctor::{Finding, Level, findings};

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let words = view.words;
    let mut findings = findings(view.client).await?;
    // The worst first, each kind in the order of the checks.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let counts = [Level::Problem, Level::Warning, Level::Note].map(count);
    let body = html! {
        h1 { (words.server) }
        p.hint { (fill(words.findings, &[&counts[0], &counts[1], &counts[2]])) }
        (table(words, &findings))
        p.hint { (words.not_live) " " a href=(link("server", &[])) { (words.check_again) } }
    };
    Ok(Page::new(words.server, body))
}

fn table(words: &Words, findings: &[Finding]) -> Markup {
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { (words.check) } th { (words.level) } th { (words.about) } th { (words.found) } th { (words.to_do) }
            } }
            tbody lang="en" { @for finding in findings { tr {
                td.title { (finding.check) }
                td data-name=(words.level) { span.badge.(class(finding.level)) { (name(finding.level, words)) } }
                td data-name=(words.about) { (or_dash(finding.about.as_deref())) }
                td data-name=(words.found) { span { (with_code(&finding.what)) } }
                td data-name=(words.to_do) { @if finding.advice.is_empty() { (or_dash(None)) } @else { span { (with_code(&finding.advice)) } } }
            } } }
        } }
    }
}

fn name(level: Level, words: &Words) -> &'static str {
    match level {
        Level::Ok => words.level_ok,
        Level::Note => words.level_note,
        Level::Warning => words.level_warning,
        Level::Problem => words.level_problem,
    }
}

/// Its colour.
fn class(level: Level) -> &'static str {
    match level {
        Level::Ok => "reserved",
        Level::Note => "ready",
        Level::Warning => "warn",
        Level::Problem => "bad",
    }
}

/// What stands between backticks is to be copied.
fn with_code(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 0 { (shown(part)) } @else { code { (shown(part)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_marked_and_nothing_is_executed() {
        let written = with_code("see `duly limits <b>`: it says more").into_string();
        assert_eq!(written, "see <code>duly limits &lt;b&gt;</code>: it says more");
    }
}
