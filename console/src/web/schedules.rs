//! The schedules of all queues, and one of them.

use duly::{Error, Millis, QueueInfo, Schedule, ScheduleView};
use futures_util::future::join_all;
use hyper::StatusCode;
use maud::{Markup, html};

use super::named::Named;
use super::text::{or_dash, shown, shown_lines, time};
use super::view::{A_PAGE, Page, Shown, View, empty, unread};
use super::words::fill;
use crate::show::span;

/// How many of a queue are shown.
const MOST_OF_QUEUE: usize = 100;
const NEXT_SLOTS: usize = 5;

pub(crate) async fn show(view: &View<'_>) -> Shown {
    let page = view.client.queues(A_PAGE, view.query.given("after")).await?;
    let all = join_all(page.queues.iter().map(|queue| of_queue(view, queue))).await;
    let (all, unreadable) = view.readable(&page.queues, all)?;
    let words = view.words;
    let rows: Vec<_> =
        all.iter().flat_map(|(queue, of)| of.iter().take(MOST_OF_QUEUE).map(move |one| (*queue, one))).collect();
    let cut = all.iter().filter(|(_, of)| of.len() > MOST_OF_QUEUE);
    let body = html! {
        h1 { (words.schedules) }
        (unread(&unreadable))
        @if !rows.is_empty() { (table(view, &rows)) }
        @else if unreadable.is_empty() { (empty(words.no_schedules, words.no_schedules_more)) }
        @for (queue, _) in cut { p.hint { (fill(words.more_schedules, &[&queue.name, &MOST_OF_QUEUE])) } }
        (view.queue_pager("schedules", page.cursor.as_deref()))
    };
    Ok(Page::new(words.schedules, body))
}

async fn of_queue(view: &View<'_>, queue: &QueueInfo) -> Result<Vec<ScheduleView>, Error> {
    let Ok(opened) = Named::new(&queue.name, queue.partitions).open(view.client) else { return Ok(Vec::new()) };
    opened.schedules().list(0, MOST_OF_QUEUE + 1).await
}

fn table(view: &View<'_>, rows: &[(&QueueInfo, &ScheduleView)]) -> Markup {
    let words = view.words;
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { (words.schedule) } th { (words.queue) } th { (words.when) } th { (words.next) } th { (words.last) }
                th.number { (words.fired) } th { (words.owner) }
            } }
            tbody { @for (queue, schedule) in rows {
                @let named = Named::new(&queue.name, queue.partitions);
                tr {
                    td.title {
                        a href=(named.link("schedule", &[("name", &schedule.name)])) { (shown(&schedule.name)) }
                        @if schedule.is_paused { span.badge.warn { (words.paused) } }
                    }
                    td data-name=(words.queue) { a href=(named.link("queue", &[])) { (queue.name) } }
                    td data-name=(words.when) { (when(view, schedule)) }
                    td data-name=(words.next) { (time(schedule.next)) }
                    td data-name=(words.last) { (time(schedule.last)) }
                    td.number data-name=(words.fired) { (schedule.fired) }
                    td data-name=(words.owner) { (or_dash(schedule.owner.as_deref())) }
                }
            } }
        } }
    }
}

fn when(view: &View<'_>, schedule: &ScheduleView) -> Markup {
    let schedule = match &schedule.schedule {
        Ok(schedule) => schedule,
        Err(error) => return html! { span.error { (shown(&error.to_string())) } },
    };
    let every = schedule.interval().and_then(|(every, _)| Millis::from_duration(every).ok());
    html! {
        @match (schedule.pattern(), every) {
            (Some(pattern), _) => { code { (shown(pattern)) } " " span.none { (or_dash(schedule.tz_name())) } }
            (_, Some(every)) => { (fill(view.words.every, &[&span(every)])) }
            _ => { (or_dash(None)) }
        }
    }
}

pub(crate) async fn show_one(view: &View<'_>) -> Shown {
    let words = view.words;
    let named = Named::asked(view.client, view.query, words).await?;
    let name = view.query.get("name");
    let missing = || Page::refusal(StatusCode::NOT_FOUND, words.no_schedule, "");
    duly::name::check_schedule(name).map_err(|_| missing())?;
    let found = named.open(view.client)?.schedules().get(name).await?.ok_or_else(missing)?;
    let body = html! {
        h1 {
            (words.schedule) " " span.name { (shown(name)) }
            @if found.is_paused { " " span.badge.warn { (words.paused) } }
        }
        p.hint { (words.queue) ": " a href=(named.link("queue", &[])) { (named.name) } }
        (actions(view, &named, &found))
        (facts(view, &found))
        (slots(view, &found))
        (fires(view, &named, &found))
        @if let Ok(schedule) = &found.schedule { (template(view, schedule)) }
    };
    Ok(Page::new(name, body))
}

fn actions(view: &View<'_>, named: &Named, schedule: &ScheduleView) -> Markup {
    let words = view.words;
    let fields = [&named.fields()[..], &[("name", &schedule.name)]].concat();
    html! {
        div.actions {
            (view.button("schedule-run", &fields, words.run_now, "primary"))
            @if schedule.is_paused { (view.button("schedule-resume", &fields, words.resume, "")) }
            @else { (view.button("schedule-pause", &fields, words.pause, "")) }
            (view.asking("schedule-remove", &fields, words.remove))
        }
    }
}

fn facts(view: &View<'_>, schedule: &ScheduleView) -> Markup {
    let words = view.words;
    html! {
        dl.facts {
            div { dt { (words.when) } dd { (when(view, schedule)) } }
            div { dt { (words.next) } dd { (time(schedule.next)) } }
            div { dt { (words.last) } dd { (time(schedule.last)) } }
            div { dt { (words.fired) } dd { (schedule.fired) } }
            div { dt { (words.owner) } dd { (or_dash(schedule.owner.as_deref())) } }
            div { dt { (words.changed_at) } dd { (time(Some(schedule.changed_at))) } }
            @if let Ok(definition) = &schedule.schedule {
                div { dt { (words.overlap) } dd { (definition.overlap.as_str()) } }
                div { dt { (words.catch_up) } dd { (definition.catch_up) } }
            }
        }
    }
}

fn slots(view: &View<'_>, schedule: &ScheduleView) -> Markup {
    let next = schedule.next_slots(NEXT_SLOTS);
    html! {
        h2 { (view.words.next_slots) }
        @if next.is_empty() { p.none { (view.words.no_next_slots) } }
        ol.slots { @for slot in next { li { (time(Some(slot))) } } }
    }
}

fn fires(view: &View<'_>, named: &Named, schedule: &ScheduleView) -> Markup {
    let words = view.words;
    html! {
        h2 { (words.last_fires) }
        @if schedule.fires.is_empty() { p.none { (words.no_fires) } }
        @else { div.scroll { table.cards {
            thead { tr { th { (words.slot) } th { (words.at) } th { (words.outcome) } th { (words.job) } } }
            tbody { @for fire in schedule.fires.iter().rev() {
                tr {
                    td.title { (time(Some(fire.slot))) }
                    td data-name=(words.at) { (time(Some(fire.at))) }
                    td data-name=(words.outcome) { (fire.outcome.as_str()) }
                    td data-name=(words.job) { a.id href=(named.job(&fire.job_id)) { (shown(&fire.job_id)) } }
                }
            } }
        } } }
    }
}

/// What its jobs have.
fn template(view: &View<'_>, schedule: &Schedule) -> Markup {
    let (words, template) = (view.words, schedule.template());
    html! {
        h2 { (words.job) }
        dl.facts {
            div { dt { (words.name) } dd { (or_dash(template.name.as_deref())) } }
            div { dt { (words.key) } dd { (or_dash(template.key.as_deref())) } }
            div { dt { (words.priority) } dd { (template.priority) } }
        }
        @if view.hides_data { p.hint { (words.data_hidden) } }
        @else { pre tabindex="0" { (shown_lines(template.data.as_str())) } }
    }
}
