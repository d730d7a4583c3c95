//! The log of actions: what was done by the page and the command; and how the page gets into it.

use duly::{Action, Client, ErrorKind, MAX_ACTIONS};
use maud::{Markup, html};

use super::act::{self, Done};
use super::request::link;
use super::text::{or_dash, shown, time};
use super::view::{A_PAGE, Failure, Page, Shown, View, empty};
use crate::actions::{note, outcome_of};

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let (words, offset) = (view.words, view.query.number("offset").min(MAX_ACTIONS));
    // One more says whether there is a next page.
    let mut actions = view.client.actions(A_PAGE + 1, offset).await?;
    let is_more = actions.len() > A_PAGE;
    actions.truncate(A_PAGE);
    let to = |offset: usize| link("actions", &[("offset", &offset.to_string())]);
    let body = html! {
        h1 { (words.actions) }
        p.hint { (words.actions_more) }
        @if actions.is_empty() { (empty(words.no_actions, words.no_actions_more)) } @else { (table(view, &actions)) }
        @if offset > 0 || is_more {
            nav.pager {
                @if offset > 0 { a href=(link("actions", &[])) { (words.first_page) } }
                @if is_more { a rel="next" href=(to(offset + A_PAGE)) { (words.next_page) } }
            }
        }
    };
    Ok(Page::new(words.actions, body))
}

fn table(view: &View<'_>, actions: &[Action]) -> Markup {
    let words = view.words;
    html! {
        div.scroll { table.cards {
            thead { tr { th { (words.at) } th { (words.by) } th { (words.what) } th { (words.outcome) } } }
            tbody { @for action in actions { tr {
                td.title { (time(Some(action.at))) }
                td data-name=(words.by) { (or_dash(Some(&action.who))) }
                td data-name=(words.what) { code { (shown(&action.what)) } }
                td data-name=(words.outcome) { (or_dash(Some(&action.outcome))) }
            } } }
        } }
    }
}

/// Puts an action of the page into the log. Gives why it is not there.
pub(crate) async fn keep(client: &Client, who: &str, what: &str, ended: &Result<Done, Failure>) -> Result<(), String> {
    // Where no call was executed there is nothing to note, and nowhere.
    if matches!(ended, Err(Failure::Error(error)) if error.kind() == ErrorKind::Unreachable) {
        return Ok(());
    }
    let outcome = match ended {
        Ok(Done { jobs: Some(jobs), .. }) => outcome_of(&act::outcome(ended), *jobs),
        _ => act::outcome(ended),
    };
    note(client, who, what, &outcome).await
}
