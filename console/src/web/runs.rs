//! What the runs of a queue came to in the last hour: a chart by the minute, and how long jobs of each name wait and run.

use duly::{DEFAULT_RATES_WITHIN, NameRates, Rates, RunCounts, Spread};
use maud::{Markup, html};

use super::text::{number, shown};
use super::words::{Words, fill};
use crate::rates::time;

/// So many of the busiest names are shown.
const MOST_NAMES: usize = 20;
/// The height of the chart, in its own units.
const HEIGHT: u64 = 100;

/// Nothing if no run ended.
pub(crate) fn show(words: &Words, rates: &Rates) -> Markup {
    if rates.total.runs() == 0 {
        return html! {};
    }
    html! {
        h2 { (words.runs_of_hour) }
        (chart(words, rates))
        div.scroll { table {
            thead { tr {
                th { (words.name) } th.number { (words.runs_done) } th.number { (words.failed) } th.number { (words.runs_retried) }
                th.number { (words.wait_times) } th.number { (words.run_times) }
            } }
            tbody {
                @for of_name in rates.names.iter().take(MOST_NAMES) { (line(&name(words, of_name), &of_name.counts)) }
                (line(&html! { b { (words.all_names) } }, &rates.total))
            }
        } }
    }
}

fn name(words: &Words, of_name: &NameRates) -> Markup {
    match &of_name.name {
        Some(name) => shown(name),
        None if of_name.others => html! { i { (words.other_names) } },
        None => html! { "-" },
    }
}

fn line(name: &Markup, counts: &RunCounts) -> Markup {
    html! {
        tr {
            td { (name) }
            td.number { (number(counts.done)) } td.number { (number(counts.failed)) } td.number { (number(counts.retried)) }
            td.number { (both(&counts.wait)) } td.number { (both(&counts.run)) }
        }
    }
}

fn both(times: &Spread) -> String {
    format!("{} / {}", time(times, 0.5), time(times, 0.95))
}

/// A bar a minute: done below, failed and retried above.
fn chart(words: &Words, rates: &Rates) -> Markup {
    let bad = |counts: &RunCounts| counts.failed.saturating_add(counts.retried);
    let most =
        rates.windows.iter().map(|one| one.counts.done.saturating_add(bad(&one.counts))).max().unwrap_or(0).max(1);
    // What is there is seen.
    let height = |count: u64| if count == 0 { 0 } else { (count.saturating_mul(HEIGHT) / most).max(2) };
    let minute = |one: &duly::RateWindow| one.start.saturating_sub(rates.since).get() / rates.step.get().max(1);
    let minutes = u64::try_from(DEFAULT_RATES_WITHIN.as_millis()).unwrap_or(0) / rates.step.get().max(1);
    let label = fill(words.runs_chart, &[&rates.total.done, &bad(&rates.total), &most]);
    html! {
        svg.chart role="img" viewBox=(format!("0 0 {} {HEIGHT}", minutes * 10)) preserveAspectRatio="none" {
            title { (label) }
            @for one in &rates.windows {
                @let (done, failed) = (height(one.counts.done), height(bad(&one.counts)).min(HEIGHT));
                rect.reserved x=(minute(one) * 10) y=(HEIGHT.saturating_sub(done)) width="8" height=(done) {}
                rect.failed x=(minute(one) * 10) y=(HEIGHT.saturating_sub(done + failed)) width="8" height=(failed) {}
            }
        }
        p.hint { (label) }
    }
}
