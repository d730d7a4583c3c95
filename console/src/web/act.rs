//! What can be done from the page, and the pages that ask first.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duly::{Client, Data, Error, ErrorKind, Extent, Millis, Queue, Requeued, State, When};
use hyper::StatusCode;
use maud::html;

use super::matches::Acted;
use super::named::Named;
use super::queue::{state_name, state_of};
use super::request::Fields;
use super::rights::Role;
use super::sessions::Sessions;
use super::text::{number, shown};
use super::view::{Failure, Page, Shown, View};
use super::words::{Words, fill};
use super::{delete, limits, matches};
use crate::show::escaped;

/// One verb of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Cancel,
    RunNow,
    Reschedule,
    Requeue,
    RequeueWith,
    RequeueAll,
    RequeueMatching,
    CancelMatching,
    Purge,
    Pause,
    Resume,
    SchedulePause,
    ScheduleResume,
    ScheduleRun,
    ScheduleRemove,
    KeepHistory,
    Limits,
    Delete,
}

const ALL: [(&str, Act); 18] = [
    ("cancel", Act::Cancel),
    ("run-now", Act::RunNow),
    ("reschedule", Act::Reschedule),
    ("requeue", Act::Requeue),
    ("requeue-with", Act::RequeueWith),
    ("requeue-all", Act::RequeueAll),
    ("requeue-matching", Act::RequeueMatching),
    ("cancel-matching", Act::CancelMatching),
    ("purge", Act::Purge),
    ("pause", Act::Pause),
    ("resume", Act::Resume),
    ("schedule-pause", Act::SchedulePause),
    ("schedule-resume", Act::ScheduleResume),
    ("schedule-run", Act::ScheduleRun),
    ("schedule-remove", Act::ScheduleRemove),
    ("keep-history", Act::KeepHistory),
    ("limits", Act::Limits),
    ("delete", Act::Delete),
];

/// What was done.
pub(crate) struct Done {
    pub(crate) notice: String,
    /// The page that shows it.
    pub(crate) location: String,
    /// To how many jobs, of what is done to many.
    pub(crate) jobs: Option<u64>,
    /// How many jobs nothing was done to yet.
    left: usize,
    /// What has ended it before these.
    error: Option<String>,
}

impl Done {
    pub(crate) fn new(notice: String, location: String) -> Self {
        Self { notice, location, jobs: None, left: 0, error: None }
    }

    /// It was done to so many.
    fn with_jobs(self, jobs: u64) -> Self {
        Self { jobs: Some(jobs), ..self }
    }
}

/// What the log says of an action that did not end.
pub(crate) const CUT_OFF: &str = "cut off, as the page ended or failed: see what is left, and do it again";

/// What is asked before something is done.
struct Question {
    /// Of the jobs, or schedules, that it is about.
    count: u64,
    text: String,
    /// What it means; without jobs, what to do then.
    more: String,
    /// What the form holds of them.
    asked: String,
    /// Of jobs that match?
    of_matching: bool,
    /// How many of them were looked at, if that are not all.
    looked_at: Option<u64>,
    /// The page for those who say no.
    back: String,
}

/// What one act is about.
struct Subject<'a> {
    words: &'static Words,
    named: Named,
    queue: Queue,
    sessions: &'a Sessions,
    is_ending: &'a AtomicBool,
    form: &'a Fields,
}

impl Act {
    pub(crate) fn of(name: &str) -> Option<Self> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, act)| *act)
    }

    fn name(self) -> &'static str {
        ALL.iter().find(|(_, act)| *act == self).map_or("", |(name, _)| name)
    }

    /// What it takes of those who do it.
    pub(crate) fn role(self) -> Role {
        match self {
            Self::Cancel | Self::CancelMatching | Self::Purge | Self::ScheduleRemove | Self::Delete => Role::Admin,
            Self::RunNow
            | Self::Reschedule
            | Self::Requeue
            | Self::RequeueWith
            | Self::RequeueAll
            | Self::RequeueMatching
            | Self::Pause
            | Self::Resume
            | Self::SchedulePause
            | Self::ScheduleResume
            | Self::ScheduleRun
            | Self::KeepHistory
            | Self::Limits => Role::Operate,
        }
    }

    /// What the log says of it: never the data of a job.
    pub(crate) fn described(self, form: &Fields) -> String {
        let known = ["queue", "parts", "id", "name", "state", "delay", "at", "jobs"];
        let is_known = |name| known.contains(&name) || matches::FIELDS.contains(&name);
        let given = form.iter().filter(|(name, value)| is_known(*name) && !value.is_empty());
        let written = |name, value: &str| format!("{name}={}", escaped(value.chars().take(256)));
        let mut fields: Vec<_> = given.map(|(name, value)| written(name, value)).collect();
        if self == Self::Limits {
            fields.extend(["concurrency", "rate"].map(|name| written(name, limits::as_none(form.get(name)))));
            if form.given("name").is_none() {
                fields.push(written("max_length", limits::as_none(form.get("max_length"))));
            }
        }
        format!("{} {}", self.name(), fields.join(" "))
    }

    pub(crate) async fn run(
        self,
        client: &Client,
        sessions: &Sessions,
        is_ending: &AtomicBool,
        words: &'static Words,
        form: &Fields,
    ) -> Result<Done, Failure> {
        // It was there when the question was asked.
        let gone = if self == Self::Delete { words.deleted_before } else { words.no_queue_more };
        let named = Named::asked_or(client, form, words, gone).await?;
        let queue = named.open(client)?;
        let subject = Subject { words, named, queue, sessions, is_ending, form };
        match self {
            Self::Cancel => subject.cancel().await,
            Self::RunNow => subject.reschedule(When::Now).await,
            Self::Reschedule => subject.reschedule(when(form, words)?).await,
            Self::Requeue => subject.requeue().await,
            Self::RequeueWith => subject.requeue_with().await,
            Self::RequeueAll => subject.requeue_all().await,
            Self::RequeueMatching | Self::CancelMatching => subject.act_on_matching(self).await,
            Self::Purge => subject.purge().await,
            Self::Pause => subject.set_paused(true).await,
            Self::Resume => subject.set_paused(false).await,
            Self::SchedulePause | Self::ScheduleResume | Self::ScheduleRemove => subject.change_schedule(self).await,
            Self::ScheduleRun => subject.run_schedule().await,
            Self::KeepHistory => subject.keep_history().await,
            Self::Limits => limits::save(words, &subject.named, &subject.queue, form).await,
            Self::Delete => delete::delete(words, &subject.named, &subject.queue, form).await,
        }
    }

    /// Asks, with the number of jobs that it is about.
    pub(crate) async fn ask(self, view: &View<'_>) -> Shown {
        match self {
            Self::Limits => return limits::ask(view).await,
            Self::Delete => return delete::ask(view).await,
            _ => {}
        }
        let (words, query) = (view.words, view.query);
        let named = Named::asked(view.client, query, words).await?;
        let Some(Question { count, text, more, asked: about, of_matching, looked_at, back }) =
            self.question(view, &named).await?
        else {
            return Ok(Page::refusal(StatusCode::NOT_FOUND, words.not_found, ""));
        };
        let asked = ["id", "name", "state", "from"].map(|name| (name, query.get(name)));
        let of_filter = matches::given(query).into_iter().filter(|(name, _)| *name != "name").collect::<Vec<_>>();
        let fields = [&named.fields()[..], &asked[..], &of_filter, &[("asked", &*about)]].concat();
        let class = if self.role() == Role::Admin { "danger" } else { "primary" };
        let body = html! {
            section.ask {
                h1 { (shown(&text)) }
                @if of_matching { (matches::described(query, words)) }
                @if let Some(looked_at) = looked_at && count > 0 { p { (fill(words.asked_some, &[&number(looked_at)])) } }
                @if self == Self::Cancel { p.name { (shown(query.get("id"))) } }
                p { (more) }
                div.actions {
                    @if count > 0 { (view.button(self.name(), &fields, words.yes, class)) }
                    a.button href=(back) { (words.back) }
                }
            }
        };
        Ok(Page::new(text, body))
    }

    /// Nothing for what does not ask.
    async fn question(self, view: &View<'_>, named: &Named) -> Result<Option<Question>, Failure> {
        let (words, query, queue) = (view.words, view.query, named.open(view.client)?);
        let state = state_of(query.get("state")).unwrap_or(State::Failed);
        let of_queue = named.link("queue", &[("state", state.as_str())]);
        let asked = |count, asked: String, text, more: &str, back| {
            let more = if count == 0 { words.none_left } else { more }.to_owned();
            Ok(Some(Question { count, text, more, asked, of_matching: false, looked_at: None, back }))
        };
        match self {
            Self::Cancel => {
                let back = named.job(query.get("id"));
                asked(1, String::new(), words.ask_cancel.to_owned(), words.ask_cancel_more, back)
            }
            Self::RequeueAll => {
                let extent = queue.extent(State::Failed).await?;
                let question = fill(words.ask_requeue_all, &[&number(extent.jobs()), &named.name]);
                asked(extent.jobs(), extent.to_text(), question, words.ask_requeue_all_more, of_queue)
            }
            Self::RequeueMatching if state != State::Failed => Ok(None),
            Self::RequeueMatching | Self::CancelMatching => {
                let is_requeue = self == Self::RequeueMatching;
                let filter = matches::filter_of(query, words)?;
                let found = matches::find(&queue, state, filter, view.sessions.most_jobs()).await?;
                let found = view.sessions.askable(found);
                let count = found.jobs.len() as u64;
                let looked_at = (!found.is_all).then_some(found.jobs.looked_at());
                let counted = if found.is_all { number(count) } else { fill(words.at_least, &[&number(count)]) };
                let of_state = state_name(state, words).to_lowercase();
                let question = if is_requeue { words.ask_requeue_matching } else { words.ask_cancel_matching };
                let more = if is_requeue { words.ask_requeue_all_more } else { words.ask_cancel_matching_more };
                let (text, more) = match (count, looked_at) {
                    (0, None) => (words.ask_none_match, words.ask_none_match_more.to_owned()),
                    (0, Some(looked_at)) => {
                        (words.ask_none_match_yet, fill(words.ask_none_match_yet_more, &[&number(looked_at)]))
                    }
                    _ => (question, more.to_owned()),
                };
                let text = fill(text, &[&counted, &named.name, &of_state]);
                let secret = match count {
                    0 => String::new(),
                    _ => view.sessions.ask(about(self, named, state, query), found),
                };
                let back = matching_page(query, named, state);
                Ok(Some(Question { count, text, more, asked: secret, of_matching: true, looked_at, back }))
            }
            Self::Purge => {
                let extent = queue.extent(state).await?;
                let of_state = state_name(state, words).to_lowercase();
                let question = fill(words.ask_purge, &[&number(extent.jobs()), &named.name, &of_state]);
                let more = if state == State::Failed { words.ask_purge_failed_more } else { words.ask_purge_more };
                asked(extent.jobs(), extent.to_text(), question, more, of_queue)
            }
            Self::ScheduleRemove => {
                let name = query.get("name");
                let back = named.link("schedule", &[("name", name)]);
                asked(1, String::new(), fill(words.ask_remove, &[&name]), words.ask_remove_more, back)
            }
            _ => Ok(None),
        }
    }
}

/// Which jobs a question is about: its answer must be about the same.
fn about(act: Act, named: &Named, state: State, fields: &Fields) -> String {
    named.link(act.name(), &[&[("state", state.as_str())][..], &matches::given(fields)].concat())
}

/// Where the jobs that match are shown.
fn matching_page(fields: &Fields, named: &Named, state: State) -> String {
    match fields.get("from") {
        "groups" => named.link("groups", &[]),
        _ => named.link("jobs", &[&[("state", state.as_str())][..], &matches::given(fields)].concat()),
    }
}

impl Subject<'_> {
    fn id(&self) -> &str {
        self.form.get("id")
    }

    fn to_queue(&self) -> String {
        match self.form.get("from") {
            "failed" => "failed".to_owned(),
            _ => self.named.link("queue", &[("state", self.form.get("state"))]),
        }
    }

    fn missing_job(&self) -> Page {
        Page::refusal(StatusCode::NOT_FOUND, self.words.no_job, self.words.no_job_more)
    }

    async fn cancel(self) -> Result<Done, Failure> {
        let cancelled = self.queue.cancel(self.id()).await?.ok_or_else(|| self.missing_job())?;
        let location = self.named.link("queue", &[("state", cancelled.was.as_str())]);
        Ok(Done::new(fill(self.words.done_cancel, &[&cancelled.id]), location))
    }

    async fn reschedule(self, when: When) -> Result<Done, Failure> {
        let id = self.queue.reschedule(self.id(), when).await?;
        Ok(Done::new(fill(self.words.done_reschedule, &[&id]), self.named.job(&id)))
    }

    async fn requeue(self) -> Result<Done, Failure> {
        let requeued = self.queue.requeue(&[self.id().to_owned()]).await?.pop();
        self.requeued(requeued)
    }

    /// With the data of the form.
    async fn requeue_with(self) -> Result<Done, Failure> {
        let data = Data::from_json(self.form.get("data"), usize::MAX)?;
        let requeued = self.queue.requeue_with(self.id(), data).await?;
        self.requeued(Some(requeued))
    }

    fn requeued(self, requeued: Option<Requeued>) -> Result<Done, Failure> {
        let words = self.words;
        match requeued {
            Some(Requeued::Ready) => {
                let is_from_list = self.form.get("from") == "queue";
                let failed = || self.named.link("queue", &[("state", State::Failed.as_str())]);
                let location = if is_from_list { failed() } else { self.named.job(self.id()) };
                Ok(Done::new(fill(words.done_requeue, &[&self.id()]), location))
            }
            Some(Requeued::Duplicate { id }) => {
                Err(Page::refusal(StatusCode::CONFLICT, words.refused, &fill(words.key_taken, &[&id])).into())
            }
            _ => Err(Page::refusal(StatusCode::NOT_FOUND, words.no_failed_job, "").into()),
        }
    }

    async fn requeue_all(self) -> Result<Done, Failure> {
        let asked = self.extent(State::Failed)?;
        let requeued = self.queue.requeue_extent(&asked).await?;
        let failed = self.queue.counts().await.map(|counts| counts.failed);
        let left = asked.jobs().saturating_sub(requeued);
        let notice = match left {
            // Somebody else was first, with all of them.
            1.. if requeued == 0 && failed.as_ref().is_ok_and(|failed| *failed == 0) => {
                self.words.done_requeue_none.to_owned()
            }
            0 => fill(self.words.done_requeue_all, &[&number(requeued)]),
            _ => fill(self.words.done_requeue_some, &[&number(requeued), &number(left)]),
        };
        Ok(Done::new(self.with_what_is_left(notice, failed.unwrap_or(0)), self.to_queue()).with_jobs(requeued))
    }

    /// How many jobs the question was about.
    fn extent(&self, state: State) -> Result<Extent, Page> {
        let words = self.words;
        let unknown = || Page::refusal(StatusCode::CONFLICT, words.asked_long_ago, words.asked_long_ago_more);
        Extent::parse(state, self.form.get("asked")).ok_or_else(unknown)
    }

    /// `left`: how many jobs are in the state now.
    fn with_what_is_left(&self, notice: String, left: u64) -> String {
        match left {
            0 => notice,
            _ => format!("{notice} {}", fill(self.words.done_left, &[&number(left)])),
        }
    }

    async fn act_on_matching(self, act: Act) -> Result<Done, Failure> {
        let words = self.words;
        let unknown = || Page::refusal(StatusCode::BAD_REQUEST, words.refused, "");
        let state = state_of(self.form.get("state")).ok_or_else(unknown)?;
        let (secret, about) = (self.form.get("asked"), about(act, &self.named, state, self.form));
        // Others may match by now, and nobody was asked about those.
        let Some(mut found) = self.sessions.answered(secret, &about, &self.queue, state) else {
            return Err(Page::refusal(StatusCode::CONFLICT, words.asked_long_ago, words.asked_long_ago_more).into());
        };
        let is_requeue = act == Act::RequeueMatching;
        let total = found.jobs.len();
        let Acted { done, error } = matches::act(&mut found.jobs, is_requeue, self.is_ending).await;
        let left = found.jobs.len();
        let error = match error {
            Some(error) if done == 0 && left == total => {
                self.sessions.put_back(secret, about, found);
                return Err(error.into());
            }
            // What was done stays done, and is said.
            error => error.map(Failure::Error),
        };
        let stayed = total - left - usize::try_from(done).unwrap_or(0);
        let mut notice = match (is_requeue, stayed) {
            (false, 1..) if done == 0 && left == 0 => words.done_cancel_none.to_owned(),
            (false, _) => fill(words.done_cancel_matching, &[&number(done)]),
            (true, 0) => fill(words.done_requeue_all, &[&number(done)]),
            (true, _) => fill(words.done_requeue_some, &[&number(done), &number(stayed as u64)]),
        };
        if !is_requeue && stayed > 0 && (done > 0 || left > 0) {
            notice = format!("{notice} {}", fill(words.done_cancel_others, &[&number(stayed as u64)]));
        }
        if left > 0 {
            notice = format!("{notice} {}", fill(words.done_matching_left, &[&number(left as u64)]));
        }
        if !found.is_all {
            let looked_at = number(found.jobs.looked_at());
            notice = format!("{notice} {}", fill(words.done_matching_some, &[&looked_at]));
        }
        if let Some(error) = &error {
            notice = format!("{notice} {}", fill(words.done_matching_ended, &[&reason(error)]));
            if Doubt::of(error) != Doubt::None {
                notice = format!("{notice} {}", words.done_matching_doubt);
            }
        }
        let error = error.as_ref().map(reason);
        let jobs = Some(done);
        Ok(Done { notice, location: matching_page(self.form, &self.named, state), jobs, left, error })
    }

    async fn purge(self) -> Result<Done, Failure> {
        let words = self.words;
        let unknown = || Page::refusal(StatusCode::BAD_REQUEST, words.refused, "");
        let state = state_of(self.form.get("state")).ok_or_else(unknown)?;
        let removed = self.queue.purge_extent(&self.extent(state)?).await?;
        let left = self.queue.counts().await.map_or(0, |counts| counts.of(state));
        let notice = match removed {
            0 => words.done_purge_none.to_owned(),
            _ => fill(words.done_purge, &[&number(removed)]),
        };
        Ok(Done::new(self.with_what_is_left(notice, left), self.to_queue()).with_jobs(removed))
    }

    async fn keep_history(self) -> Result<Done, Failure> {
        // One that is kept already stays as it is.
        if self.queue.history().await?.is_none() {
            self.queue.keep_history(duly::DEFAULT_HISTORY_JOBS, duly::DEFAULT_HISTORY_AGE).await?;
        }
        Ok(Done::new(self.words.done_keep_history.to_owned(), self.to_queue()))
    }

    async fn set_paused(self, is_paused: bool) -> Result<Done, Failure> {
        let notice = if is_paused {
            self.queue.pause().await?;
            self.words.done_pause
        } else {
            self.queue.resume().await?;
            self.words.done_resume
        };
        Ok(Done::new(notice.to_owned(), self.to_queue()))
    }

    async fn change_schedule(self, act: Act) -> Result<Done, Failure> {
        let (words, name, schedules) = (self.words, self.form.get("name"), self.queue.schedules());
        let (is_there, notice) = match act {
            Act::SchedulePause => (schedules.pause(name).await?, words.done_schedule_pause),
            Act::ScheduleResume => (schedules.resume(name).await?, words.done_schedule_resume),
            _ => (schedules.remove(name).await?, words.done_schedule_remove),
        };
        if !is_there {
            return Err(Page::refusal(StatusCode::NOT_FOUND, words.no_schedule, "").into());
        }
        let of_one = self.named.link("schedule", &[("name", name)]);
        let location = if act == Act::ScheduleRemove { "schedules".to_owned() } else { of_one };
        Ok(Done::new(notice.to_owned(), location))
    }

    async fn run_schedule(self) -> Result<Done, Failure> {
        let name = self.form.get("name");
        let id = self.queue.schedules().run_now(name).await?;
        let location = self.named.link("schedule", &[("name", name)]);
        Ok(Done::new(fill(self.words.done_schedule_run, &[&id]), location))
    }
}

/// When a job shall be due: in a span, or at a time.
fn when(form: &Fields, words: &Words) -> Result<When, Failure> {
    let wrong = || Page::refusal(StatusCode::BAD_REQUEST, words.bad_time, "");
    match (form.given("delay"), form.given("at")) {
        (Some(delay), None) => {
            let span: Duration = crate::when::span(delay.trim()).map_err(|_| wrong())?;
            Ok(When::After(Millis::from_duration(span)?))
        }
        (None, Some(at)) => moment(at).map(When::At).ok_or_else(|| wrong().into()),
        _ => Err(wrong().into()),
    }
}

/// A time as browsers write it, in UTC: `2026-12-01T06:00`, with seconds or without.
fn moment(text: &str) -> Option<Millis> {
    let time: jiff::civil::DateTime = text.parse().ok()?;
    let at = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    u64::try_from(at.as_millisecond()).ok().map(Millis::new)
}

/// What may have been done by an act that failed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Nothing.
    None,
    /// All of it.
    All,
    /// A part, which its error says.
    Part,
}

impl Doubt {
    pub(crate) fn of(failure: &Failure) -> Self {
        match failure {
            Failure::Error(error) if error.is_partly_done() => Self::Part,
            Failure::Error(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Interrupted) => Self::All,
            _ => Self::None,
        }
    }
}

/// Why it was not done.
pub(crate) fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Page(page) => page.title.clone(),
        Failure::Error(error) => error.to_string(),
    }
}

/// For the log.
pub(crate) fn outcome(ended: &Result<Done, Failure>) -> String {
    match ended {
        Ok(Done { left: 0, .. }) => "done".to_owned(),
        Ok(Done { left, error: None, .. }) => format!("done in part, and not yet to {left} of the jobs"),
        Ok(Done { left, error: Some(error), .. }) => {
            format!("done in part, and not yet to {left} of the jobs: {}", escaped(error.chars()))
        }
        Err(Failure::Page(page)) => format!("refused, status {}", page.status.as_u16()),
        Err(Failure::Error(error)) => escaped(Error::to_string(error).chars()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_browsers_are_in_utc() {
        let at = |text| moment(text).map(Millis::get);
        assert_eq!(at("2026-12-01T06:00"), Some(1_796_104_800_000));
        assert_eq!(at("2026-12-01T06:00:30"), Some(1_796_104_830_000));
        for wrong in ["", "tomorrow", "2026-13-01T06:00", "1960-01-01T00:00"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_log_has_one_line_an_act() {
        let form = Fields::parse(b"queue=q&id=a%0Ab%1B&form_token=secret&once=x&state=");
        assert_eq!(Act::Cancel.described(&form), "cancel queue=q id=a\\nb\\u{1b}");
        let form = Fields::parse(b"queue=q&name=n&rate=5%2F1m&was=x&concurrency=");
        assert_eq!(Act::Limits.described(&form), "limits queue=q name=n concurrency=none rate=5/1m");
        let form = Fields::parse(b"queue=q&parts=0&form_token=secret&once=x");
        assert_eq!(Act::Pause.described(&form), "pause queue=q parts=0");
        assert!(ALL.iter().all(|(name, act)| Act::of(name) == Some(*act) && act.name() == *name));
    }
}
