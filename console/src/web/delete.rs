//! Deletes a queue, after a question that says what is lost.

use duly::{Counts, ErrorKind, Queue, ScheduleView};
use hyper::StatusCode;
use maud::{Markup, html};

use super::act::Done;
use super::named::Named;
use super::queue::{STATES, state_name};
use super::request::{Fields, HOME};
use super::text::{number, shown};
use super::view::{Failure, Page, Shown, View};
use super::words::{Words, fill};

/// How many schedules are named that are in the way.
const MOST_SCHEDULES: usize = 100;

pub(crate) async fn ask(view: &View<'_>) -> Shown {
    let words = view.words;
    let named = Named::asked(view.client, view.query, words).await?;
    let queue = named.open(view.client)?;
    let schedules = queue.schedules();
    let (counts, schedules) = tokio::join!(queue.counts(), schedules.list(0, MOST_SCHEDULES));
    let (counts, schedules) = (counts?, schedules?);
    let (jobs, title) = (total(&counts), fill(words.ask_delete, &[&named.name]));
    let expected = jobs.to_string();
    let fields = [&named.fields()[..], &[("jobs", &expected)]].concat();
    let body = html! {
        section.ask {
            h1 { (shown(&title)) }
            @if jobs > 0 { ul.facts { @for state in STATES {
                li { (state_name(state, words)) ": " b { (number(counts.of(state))) } }
            } } }
            @if !schedules.is_empty() { (in_the_way(&named, &schedules, words)) }
            @else if jobs == 0 { p { (words.ask_delete_empty) } }
            @else { p { (fill(words.ask_delete_jobs, &[&number(jobs)])) } }
            div.actions {
                @if schedules.is_empty() { (view.button("delete", &fields, words.yes, "danger")) }
                a.button href=(named.link("queue", &[])) { (words.back) }
            }
        }
    };
    Ok(Page::new(title, body))
}

fn in_the_way(named: &Named, schedules: &[ScheduleView], words: &Words) -> Markup {
    html! {
        p { (fill(words.delete_schedules, &[&schedules.len()])) }
        ul.found { @for schedule in schedules {
            li { a href=(named.link("schedule", &[("name", &schedule.name)])) { (shown(&schedule.name)) } }
        } }
    }
}

/// The number of jobs that the question was about is the confirmation: where it is another one by now, nothing is deleted.
pub(crate) async fn delete(words: &Words, named: &Named, queue: &Queue, form: &Fields) -> Result<Done, Failure> {
    let asked = form.get("jobs").parse::<u64>().ok();
    let asked = asked.ok_or_else(|| Page::refusal(StatusCode::BAD_REQUEST, words.refused, ""))?;
    match queue.delete(asked).await {
        Ok(()) => Ok(Done::new(fill(words.done_delete, &[&named.name, &number(asked)]), HOME.to_owned())),
        Err(error) if error.kind() == ErrorKind::InvalidArgument && !error.is_partly_done() => {
            let (now, schedules) = (total(&queue.counts().await?), queue.schedules().list(0, MOST_SCHEDULES).await?);
            let mut page = Page::refusal(StatusCode::CONFLICT, words.not_deleted, "");
            let to = named.link("ask-delete", &[]);
            page.body = html! {
                section.ask {
                    h1 { (words.not_deleted) }
                    @if schedules.is_empty() { p { (fill(words.not_deleted_more, &[&number(asked), &number(now)])) } }
                    @else { (in_the_way(named, &schedules, words)) }
                    p.hint { (shown(&error.to_string())) }
                    div.actions { a.button href=(to) { (words.ask_again) } }
                }
            };
            Err(page.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn total(counts: &Counts) -> u64 {
    STATES.into_iter().map(|state| counts.of(state)).sum()
}
