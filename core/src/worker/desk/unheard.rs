//! Jobs that failed while no hook was there to be called: what this worker hears of them, and how far its owner is with that.

use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use super::between_runs::BetweenRuns;
use super::slow_hooks::InHooks;
use super::{Desk, Phase, State};
use crate::queue::{Claim, Part, Standing};
use crate::script::{BeatReply, HearReply};
use crate::worker::event::{AboutJob, FailedJob, WorkerEvent};

/// A job that this worker is to report.
pub(super) struct Claimed {
    pub(super) lane: usize,
    claim: Claim,
    pub(super) since: Instant,
    /// If its owner is about to call its hooks, or does.
    pub(super) begun: Option<InHooks>,
}

impl Desk {
    /// What to say of those that are claimed, and how many more may be. A worker that stops claims no more, and neither does one that has
    /// hooks to call: what it claims would wait for them, while other workers may be idle.
    pub(in crate::worker) fn claims(&self, lane: usize) -> (Vec<Claim>, usize) {
        let state = self.lock();
        let all: Vec<_> = state.claimed_of(lane).map(|one| &one.claim).collect();
        // The server keeps one claim of each job: of two the later one counts.
        let is_last = |(at, claim): &(usize, &Claim)| all[at + 1..].iter().all(|later| later.id != claim.id);
        let claims: Vec<_> = all.iter().copied().enumerate().filter(is_last).map(|(_, claim)| claim.clone()).collect();
        let most = state.between_runs.as_ref().map_or(usize::MAX, BetweenRuns::most).min(state.hooks.most());
        (claims, if state.hears() && !state.has_hooks_to_call() { most } else { 0 })
    }

    /// Is there something to say, or to claim anew?
    pub(in crate::worker) fn has_claims(&self, lane: usize) -> bool {
        self.lock().claimed_of(lane).next().is_some()
    }

    /// The answer to these claims. Reports those that are new; what comes too late for hooks to be called soon goes back.
    pub(in crate::worker) fn heard_of(&self, lane: usize, sent: &[Claim], queue: &Part, reply: &HearReply) {
        let mut state = self.lock();
        let is_done = |one: &Claimed| {
            let is_said = |sent: &Claim| sent.standing != Standing::Claimed && *sent == one.claim;
            one.lane == lane && !one.goes_on() && sent.iter().any(is_said)
        };
        state.claimed.retain(|one| !is_done(one));
        for one in state.claimed.iter_mut().filter(|one| one.lane == lane) {
            one.claim.until = reply.claimed_until;
        }
        let is_late = !state.hears();
        state.note_may_hear(lane, reply.more > 0 || is_late && !reply.jobs.is_empty());
        if let Some(between) = state.between_runs.as_mut().filter(|_| !reply.jobs.is_empty()) {
            between.learn(is_late);
        }
        for id in &reply.given_up {
            let job = AboutJob::unreadable(queue.name(), String::from_utf8_lossy(id).into_owned());
            state.report(WorkerEvent::HooksGivenUp { job }, self);
            let claim = Claim { id: id.clone(), until: reply.claimed_until, standing: Standing::Heard };
            state.forget_heard(lane, id);
            state.claimed.push(Claimed::new(lane, claim));
        }
        for job in &reply.jobs {
            let mut claim =
                Claim { id: job.id_bytes().to_vec(), until: reply.claimed_until, standing: Standing::Claimed };
            state.forget_heard(lane, &claim.id);
            if is_late {
                claim.standing = Standing::GivenBack;
                state.claimed.push(Claimed::new(lane, claim));
                continue;
            }
            let of_queue = job.failed_of_queue(queue);
            let failed = of_queue.map(|job| FailedJob { job: Arc::new(job), lane, stored_id: claim.id.clone() });
            let failed = failed.map(Arc::new);
            let about = match &failed {
                Some(failed) => AboutJob::of(&failed.job),
                None => AboutJob::unreadable(queue.name(), job.id.clone()),
            };
            // Of a record that cannot be read there is only this event.
            if failed.is_none() {
                claim.standing = Standing::Heard;
            }
            state.claimed.push(Claimed::new(lane, claim));
            state.report(WorkerEvent::Failed { job: about, failed }, self);
        }
        let is_new = !reply.jobs.is_empty() || !reply.given_up.is_empty();
        if is_new && state.claimed_of(lane).any(|one| one.claim.standing != Standing::Claimed) {
            self.note_news(lane);
        }
        self.wake_hearers(state);
    }

    /// The server did not answer to claims: the next beat shows whether there is something to hear.
    pub(in crate::worker) fn not_heard(&self, lane: usize) {
        let mut state = self.lock();
        state.note_may_hear(lane, false);
        self.wake_hearers(state);
    }

    /// The owner is about to call its hooks. False if it must not: they are another worker's to call.
    pub(in crate::worker) fn begins_hooks(&self, failed: &FailedJob) -> bool {
        let mut state = self.lock();
        self.give_back_late(&mut state);
        if state.phase.is_over() {
            return false;
        }
        let Some(one) = state.claim_of(failed, false) else { return false };
        one.begun = Some(InHooks::of(&failed.job));
        // It has the grace from now on.
        let is_stopping = state.phase != Phase::Working;
        let wake = state.wake_if(is_stopping);
        drop(state);
        if wake {
            self.for_fetcher.notify_one();
        }
        true
    }

    /// The jobs whose hooks the owner calls just now, as far as that is known.
    pub(in crate::worker) fn in_hooks(&self) -> Vec<AboutJob> {
        let state = self.lock();
        let begun = state.claimed.iter().filter(|one| one.is_begun() || one.goes_on());
        begun.filter_map(|one| one.begun.as_ref()).map(|begun| begun.job.clone()).collect()
    }

    /// The owner has called its hooks. False if another worker calls them, too.
    pub(in crate::worker) fn heard(&self, failed: &FailedJob) -> bool {
        let mut state = self.lock();
        let id = &*failed.stored_id;
        if let Some(at) =
            state.claimed.iter().position(|one| one.goes_on() && one.is_of(failed.lane, id, Standing::GivenBack))
        {
            state.claimed[at].begun = None;
            return false;
        }
        let one = state.claim_of(failed, true);
        let counts = one.is_some();
        if let Some(one) = one {
            one.claim.standing = Standing::Heard;
            let took = one.begun.as_ref().map(|begun| begun.since.elapsed());
            state.hooks.learn(took.unwrap_or_default());
        }
        if state.claimed_of(failed.lane).any(|one| one.claim.id == id && one.claim.standing != Standing::Heard) {
            state.forget_heard(failed.lane, id);
        }
        self.go_on_behind_hooks(state, failed.lane);
        counts
    }

    /// See [`State::unclaim`], of an event that was read.
    pub(in crate::worker) fn leave_unread(&self, event: &WorkerEvent) {
        self.lock().unclaim(event);
    }

    /// The owner has begun to call its hooks, and does not go on with them: another worker is to call them.
    pub(in crate::worker) fn leave_hooks(&self, failed: &FailedJob) {
        let mut state = self.lock();
        let Some(one) = state.claim_of(failed, true) else { return };
        one.give_back();
        one.begun = None;
        self.go_on_behind_hooks(state, failed.lane);
    }

    /// What has waited for hooks that are called no more.
    fn go_on_behind_hooks(&self, mut state: MutexGuard<'_, State>, lane: usize) {
        // The end of the worker may wait for that alone.
        let is_stopping = state.phase != Phase::Working;
        let wake = state.wake_if(is_stopping);
        let may_hear = if state.has_hooks_to_call() { Vec::new() } else { state.hooks.lanes_with_more() };
        drop(state);
        if wake {
            self.for_fetcher.notify_one();
        }
        self.claim_settled.notify_waiters();
        self.note_news(lane);
        // They were not asked while there were hooks to call, of whatever queue.
        for lane in may_hear {
            self.note_news(lane);
        }
    }

    /// Ready when the owner has called the hooks of all that are claimed.
    pub(in crate::worker) async fn all_heard(&self, lane: usize) {
        loop {
            let mut settled = std::pin::pin!(self.claim_settled.notified());
            settled.as_mut().enable();
            if !self.lock().claimed_of(lane).any(|one| one.claim.standing == Standing::Claimed) {
                return;
            }
            settled.await;
        }
    }

    /// The worker ends: another one is to call the hooks that its owner has not called to their end. It says so, that the job does
    /// not count as one whose hooks end their workers.
    pub(in crate::worker) fn give_claims_back(&self, lane: usize) {
        let mut state = self.lock();
        let is_left = |one: &&mut Claimed| one.lane == lane && one.claim.standing == Standing::Claimed;
        for one in state.claimed.iter_mut().filter(is_left) {
            one.give_back();
        }
    }

    /// There may be something to hear before the next beat.
    pub(in crate::worker) fn note_news(&self, lane: usize) {
        self.for_queues[lane].news.notify_one();
    }

    /// Ready when there may be something to say or to hear before the next beat.
    pub(in crate::worker) async fn has_news(&self, lane: usize) {
        self.for_queues[lane].news.notified().await;
    }

    /// What the server answered to the report that this worker is alive. Is there something to say, or to hear of?
    pub(in crate::worker) fn beat_answered(&self, lane: usize, queue: &Part, reply: BeatReply) -> bool {
        let mut state = self.lock();
        if reply.trimmed > 0 {
            let queue = queue.name().to_owned();
            state.report(WorkerEvent::Trimmed { queue, jobs: reply.trimmed }, self);
        }
        self.schedule_fires_in(lane, reply.schedule_in);
        let has_unheard = reply.unheard > 0;
        state.note_may_hear(lane, has_unheard);
        // What is claimed is claimed anew.
        let is_news = has_unheard && state.hears() || state.claimed_of(lane).next().is_some();
        self.wake_hearers(state);
        is_news
    }

    /// One of this worker's own jobs has failed unheard.
    pub(in crate::worker) fn note_unheard(&self, lane: usize) {
        self.lock().note_may_hear(lane, true);
        self.note_news(lane);
    }
}

impl State {
    /// May it claim jobs? Also while the last of its `max_jobs` runs, as long as nobody has asked it to stop: a fleet of workers with
    /// few runs each would else never hear of any. (One that calls hooks between runs hears of them before it.)
    fn hears(&self) -> bool {
        let is_busy = |between: &BetweenRuns| {
            self.runs.running > 0 || self.claimed.iter().any(Claimed::is_begun) || between.is_over()
        };
        if self.pulls.is_some() {
            return false; // who pulls has no hooks: other workers call theirs
        }
        match self.phase {
            Phase::Working => !self.between_runs.as_ref().is_some_and(is_busy),
            Phase::Stopping { .. } => self.between_runs.is_none() && self.runs.running > 0 && self.is_last_run(),
            _ => false,
        }
    }

    /// Does the owner call a hook, or is it to call one?
    fn has_hooks_to_call(&self) -> bool {
        self.claimed.iter().any(|one| one.claim.standing == Standing::Claimed)
    }

    pub(super) fn claimed_of(&self, lane: usize) -> impl Iterator<Item = &Claimed> {
        self.claimed.iter().filter(move |one| one.lane == lane)
    }

    /// The claim whose hooks are to be called, or are called. A job that was requeued and has failed once more while its hooks run has
    /// two: of these the one that is begun, or not.
    fn claim_of(&mut self, failed: &FailedJob, is_begun: bool) -> Option<&mut Claimed> {
        let index = self.claim_at(failed, is_begun)?;
        self.claimed.get_mut(index)
    }

    fn claim_at(&self, failed: &FailedJob, is_begun: bool) -> Option<usize> {
        let is_it = |one: &Claimed| one.is_of(failed.lane, &failed.stored_id, Standing::Claimed);
        let all = self.claimed.iter().enumerate().filter(|(_, one)| is_it(one));
        all.min_by_key(|(_, one)| one.begun.is_some() != is_begun).map(|(index, _)| index)
    }

    /// It has failed once more. The server keeps one claim of each job, and that is the new one by now: to say that the first was
    /// heard of would take it away.
    fn forget_heard(&mut self, lane: usize, id: &[u8]) {
        self.claimed.retain(|one| !one.is_of(lane, id, Standing::Heard));
    }

    /// Nobody reads this worker's events: another one is to report it, when the claim is over. To give it back at once would be to claim it
    /// again and again.
    pub(super) fn unclaim(&mut self, event: &WorkerEvent) {
        if let WorkerEvent::Failed { failed: Some(failed), .. } = event
            && let Some(index) = self.claim_at(failed, false).filter(|&index| self.claimed[index].begun.is_none())
        {
            self.claimed.remove(index);
        }
    }
}

impl Claimed {
    fn new(lane: usize, claim: Claim) -> Self {
        Self { lane, claim, since: Instant::now(), begun: None }
    }

    /// Its hooks are called just now.
    pub(super) fn is_begun(&self) -> bool {
        self.claim.standing == Standing::Claimed && self.begun.is_some()
    }

    /// Its hooks are called yet, though another worker is to do it by now: the grace has ended before them.
    fn goes_on(&self) -> bool {
        self.claim.standing == Standing::GivenBack && self.begun.is_some()
    }

    /// Its hooks are to be called.
    pub(super) fn is_due(&self) -> bool {
        self.claim.standing == Standing::Claimed && self.begun.is_none()
    }

    /// Another worker is to call its hooks. Says of which queue it is.
    pub(super) fn give_back(&mut self) -> usize {
        self.claim.standing = Standing::GivenBack;
        self.lane
    }

    fn is_of(&self, lane: usize, id: &[u8], standing: Standing) -> bool {
        self.lane == lane && self.claim.id == id && self.claim.standing == standing
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::format::envelope::Envelope;
    use crate::queue::{Client, Job};
    use crate::script::GrantedJob;
    use crate::value::data::Data;
    use crate::worker::WorkerSettings;
    use crate::worker::desk::between_runs::{LONGEST_HEARING, MOST_BETWEEN_RUNS};
    use crate::worker::desk::{Batch, Taken};
    use crate::worker::event::EventLevel;
    use crate::worker::executor::{Ended, ExecutorShared};

    const UNTIL: u64 = 30_000;

    struct Owner {
        desk: Desk,
        queue: Part,
    }

    impl Owner {
        fn new() -> Self {
            Self::with(&WorkerSettings::new(vec![("orders".to_owned(), 1)]))
        }

        fn with(settings: &WorkerSettings) -> Self {
            let queue = Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap();
            Self { desk: Desk::new(settings), queue }
        }

        /// Says what it has to say, and hears of these jobs.
        fn hears_of(&self, ids: &[&str]) -> Vec<Arc<FailedJob>> {
            let said = self.desk.claims(0).0;
            self.is_answered(&said, ids)
        }

        fn is_answered(&self, said: &[Claim], ids: &[&str]) -> Vec<Arc<FailedJob>> {
            self.is_answered_with(said, ids.iter().map(|id| id.as_bytes()))
        }

        fn is_answered_with<'a>(&self, said: &[Claim], ids: impl Iterator<Item = &'a [u8]>) -> Vec<Arc<FailedJob>> {
            let record = |id: &[u8]| GrantedJob::new(id.to_vec(), b"5;0;0;0;{\"data\":1}".to_vec(), Vec::new());
            let reply =
                HearReply { claimed_until: UNTIL, more: 0, given_up: Vec::new(), jobs: ids.map(record).collect() };
            self.desk.heard_of(0, said, &self.queue, &reply);
            let events = std::iter::from_fn(|| self.desk.event_within(std::time::Duration::ZERO));
            let failed = |event| if let WorkerEvent::Failed { failed, .. } = event { failed } else { None };
            events.filter_map(failed).collect()
        }

        fn standings(&self) -> Vec<Standing> {
            self.desk.claims(0).0.iter().map(|claim| claim.standing).collect()
        }
    }

    /// It was requeued meanwhile, and the hooks of its first failure run.
    #[tokio::test]
    async fn a_job_that_fails_once_more_while_its_hooks_run_is_heard_of_once_more() {
        for ends_before_the_answer in [false, true] {
            let owner = Owner::new();
            let first = owner.hears_of(&["a"]).remove(0);
            assert!(owner.desk.begins_hooks(&first));
            let said = owner.desk.claims(0).0;
            if ends_before_the_answer {
                owner.desk.heard(&first);
            }
            let second = owner.is_answered(&said, &["a"]).remove(0);
            if !ends_before_the_answer {
                owner.desk.heard(&first);
            }
            // What the server keeps is the second claim: that the first was heard of must not remove it.
            assert_eq!(owner.standings(), [Standing::Claimed], "{ends_before_the_answer}");
            assert!(owner.desk.begins_hooks(&second), "its hooks are called as well");
            owner.desk.heard(&second);
            assert_eq!(owner.standings(), [Standing::Heard]);
            owner.hears_of(&[]);
            assert!(!owner.desk.has_claims(0));
        }
    }

    /// Another program put them in. For people both have the same id.
    #[tokio::test]
    async fn jobs_whose_ids_are_not_utf8_are_heard_of_each_by_its_own() {
        let owner = Owner::new();
        let ids: [&[u8]; 3] = [b"\xff1", b"\xfe1", b"\xfd1"];
        let failed = owner.is_answered_with(&[], ids.into_iter());
        assert_eq!(failed.iter().map(|failed| failed.job.id()).collect::<Vec<_>>(), ["\u{fffd}1"; 3]);
        let job = AboutJob::of(&failed[2].job);
        owner.desk.leave_unread(&WorkerEvent::Failed { job, failed: Some(Arc::clone(&failed[2])) });
        assert!(owner.desk.begins_hooks(&failed[1]) && owner.desk.heard(&failed[1]));
        assert!(!owner.desk.begins_hooks(&failed[1]) && owner.desk.begins_hooks(&failed[0]));
        let claims = owner.desk.claims(0).0;
        let claims: Vec<_> = claims.iter().map(|claim| (&*claim.id, claim.standing)).collect();
        assert_eq!(claims, [(ids[0], Standing::Claimed), (ids[1], Standing::Heard)]);
    }

    #[tokio::test]
    async fn of_a_job_that_failed_twice_a_dropped_event_gives_up_one_claim() {
        let owner = Owner::new();
        let first = owner.hears_of(&["a"]).remove(0);
        assert!(owner.desk.begins_hooks(&first));
        let second = owner.hears_of(&["a"]).remove(0);
        let job = AboutJob::of(&second.job);
        owner.desk.lock().unclaim(&WorkerEvent::Failed { job, failed: Some(second) });
        owner.desk.heard(&first);
        assert_eq!(owner.standings(), [Standing::Heard]);
    }

    #[tokio::test]
    async fn hooks_that_are_left_half_way_are_another_workers_and_keep_nobody_from_others() {
        let owner = Owner::new();
        let failed = owner.hears_of(&["a"]).remove(0);
        assert!(owner.desk.begins_hooks(&failed));
        assert_eq!(owner.desk.claims(0).1, 0, "it hears of others");
        owner.desk.leave_hooks(&failed);
        assert_eq!((owner.standings(), owner.desk.in_hooks().len()), (vec![Standing::GivenBack], 0));
        assert!(owner.desk.claims(0).1 > 0, "it hears of no others any more");
        // It was not called to its end: that is no word that it was heard of.
        owner.desk.heard(&failed);
        assert_eq!(owner.standings(), [Standing::GivenBack]);
        owner.hears_of(&[]);
        assert!(!owner.desk.has_claims(0));
        // There is nothing to leave.
        owner.desk.leave_hooks(&failed);
        assert!(!owner.desk.has_claims(0));
    }

    #[tokio::test]
    async fn a_read_event_that_nobody_handles_gives_up_its_claim() {
        let owner = Owner::new();
        let failed = owner.hears_of(&["a"]).remove(0);
        let job = AboutJob::of(&failed.job);
        owner.desk.leave_unread(&WorkerEvent::Failed { job, failed: Some(failed) });
        assert!(!owner.desk.has_claims(0));
    }

    /// Whose event is lost, and who asks a server that does not answer.
    #[tokio::test]
    async fn hooks_that_are_not_called_hold_up_a_run_for_a_moment_and_go_to_another_worker() {
        let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        settings.hooks_between_runs = true;
        let owner = Owner::with(&settings);
        let job = Job::granted(Envelope::new("b", Data::from_json("1", 10).unwrap()), 0, 16, &owner.queue, false);
        owner.desk.deliver(0, &Batch::default(), vec![job], &[]);
        let executor = Arc::new(ExecutorShared::new(0));
        let take = || owner.desk.take_within(&executor, Duration::from_millis(10));
        assert!(matches!(take(), Taken::None), "what there is to hear is not known");
        owner.hears_of(&["a"]);
        let until = Instant::now() + 10 * LONGEST_HEARING;
        let run = loop {
            assert!(Instant::now() < until);
            if let Taken::Run(run) = take() {
                break run;
            }
            assert_eq!(owner.standings(), [Standing::Claimed]);
        };
        assert_eq!(owner.standings(), [Standing::GivenBack]);
        // What is answered late goes back, too.
        owner.hears_of(&["c"]);
        assert_eq!(owner.standings(), [Standing::GivenBack]);
        assert_eq!(owner.desk.claims(0).1, 0, "it claims nothing while it runs a job");
        owner.desk.finish(&run, Ended::DONE, true).unwrap();
        owner.hears_of(&[]);
        for most in [1, 2, 4, 8, MOST_BETWEEN_RUNS, MOST_BETWEEN_RUNS] {
            assert_eq!(owner.desk.claims(0).1, most, "fewer after an answer that was late");
            let failed = owner.hears_of(&["d"]).remove(0);
            assert!(owner.desk.begins_hooks(&failed));
            assert_eq!(owner.desk.claims(0).1, 0, "it claims nothing while it calls a hook");
            owner.desk.heard(&failed);
            owner.hears_of(&[]);
        }
    }

    impl Owner {
        /// As if so much time had passed.
        fn is_later(&self, by: Duration) {
            for one in &mut self.desk.lock().claimed {
                one.since = one.since.checked_sub(by).unwrap();
                if let Some(begun) = &mut one.begun {
                    begun.since = begun.since.checked_sub(by).unwrap();
                }
            }
        }
    }

    #[tokio::test]
    async fn who_calls_a_slow_hook_claims_no_more_and_what_waits_for_it_goes_to_other_workers() {
        for between_runs in [false, true] {
            let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1), ("mail".to_owned(), 1)]);
            settings.hooks_between_runs = between_runs;
            let owner = Owner::with(&settings);
            assert_eq!(owner.desk.claims(0).1, 10);
            let failed = owner.hears_of(&["a", "b"]);
            assert_eq!([owner.desk.claims(0).1, owner.desk.claims(1).1], [0, 0], "these come first");
            assert!(owner.desk.begins_hooks(&failed[0]));
            assert!(!owner.desk.look_at_hooks(0) && owner.desk.looks_at_hooks_at(0).is_some());
            owner.is_later(Duration::from_secs(4));
            assert!(owner.desk.look_at_hooks(0), "there is something to say");
            assert_eq!(owner.standings(), [Standing::Claimed, Standing::GivenBack]);
            assert!(!owner.desk.begins_hooks(&failed[1]), "it is another worker's");
            let said = owner.desk.claims(0).0;
            owner.is_answered(&said, &[]);
            assert_eq!(owner.standings(), [Standing::Claimed], "what has begun is kept");
            assert_eq!([owner.desk.claims(0).1, owner.desk.claims(1).1], [0, 0]);
            owner.desk.heard(&failed[0]);
            assert_eq!([owner.desk.claims(0).1, owner.desk.claims(1).1], [1, 1], "the next one may be as slow");
        }
    }

    #[tokio::test]
    async fn a_hook_that_takes_long_is_reported_once() {
        let owner = Owner::new();
        let failed = owner.hears_of(&["a"]).remove(0);
        assert!(owner.desk.begins_hooks(&failed));
        for (seconds, is_reported) in [(5, false), (6, true), (60, false)] {
            owner.is_later(Duration::from_secs(seconds));
            assert!(!owner.desk.look_at_hooks(0), "its claim stays");
            let event = owner.desk.event_within(Duration::ZERO);
            assert_eq!(event.is_some(), is_reported, "{event:?}");
            if let Some(event) = event {
                assert!(
                    matches!(&event, WorkerEvent::SlowHook { job, .. } if job.id == "a")
                        && event.level() == EventLevel::Warning
                );
            }
        }
    }

    /// Nobody asked for them while there were hooks to call.
    #[tokio::test]
    async fn queues_with_more_are_asked_when_the_hooks_of_another_one_have_run() {
        let owner = Owner::with(&WorkerSettings::new(vec![("orders".to_owned(), 1), ("mail".to_owned(), 1)]));
        let failed = owner.hears_of(&["a"]).remove(0);
        assert!(owner.desk.begins_hooks(&failed));
        let has_news = || async { tokio::time::timeout(Duration::ZERO, owner.desk.has_news(1)).await.is_ok() };
        for (unheard, is_asked) in [(1, true), (0, false)] {
            let reply = BeatReply { trimmed: 0, unheard, schedule_in: None };
            owner.desk.beat_answered(1, &owner.queue, reply);
            assert!(!has_news().await);
            owner.desk.heard(&failed);
            assert_eq!(has_news().await, is_asked);
        }
    }

    /// Its hooks run when it fails once more, so what is heard of that comes late.
    #[tokio::test]
    async fn of_two_claims_of_one_job_the_later_one_is_said() {
        let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        settings.hooks_between_runs = true;
        for ends_before_the_answer in [false, true] {
            let owner = Owner::with(&settings);
            let first = owner.hears_of(&["a"]).remove(0);
            assert!(owner.desk.begins_hooks(&first));
            owner.hears_of(&["a"]);
            let said = owner.desk.claims(0).0;
            assert_eq!(said.iter().map(|claim| claim.standing).collect::<Vec<_>>(), [Standing::GivenBack]);
            if ends_before_the_answer {
                owner.desk.heard(&first);
                assert_eq!(owner.standings(), [Standing::GivenBack], "that it was heard of would take the second away");
            }
            owner.is_answered(&said, &[]);
            if !ends_before_the_answer {
                owner.desk.heard(&first);
            }
            assert!(!owner.standings().contains(&Standing::GivenBack), "it is given back once");
        }
    }

    /// However many there are, and however long they take.
    #[tokio::test]
    async fn hooks_make_room_for_the_next_run_in_time() {
        let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        settings.hooks_between_runs = true;
        let owner = Owner::with(&settings);
        let failed = owner.hears_of(&["a", "b"]);
        let job = Job::granted(Envelope::new("c", Data::from_json("1", 10).unwrap()), 0, 16, &owner.queue, false);
        owner.desk.deliver(0, &Batch::default(), vec![job], &[]);
        assert!(owner.desk.begins_hooks(&failed[0]));
        std::thread::sleep(LONGEST_HEARING); // as long as the hook takes
        owner.desk.heard(&failed[0]);
        assert_eq!(owner.desk.claims(0).1, 0, "a job waits");
        assert!(!owner.desk.begins_hooks(&failed[1]), "it is another worker's");
        let taken = owner.desk.take_within(&Arc::new(ExecutorShared::new(0)), Duration::ZERO);
        assert!(matches!(taken, Taken::Run(_)));
    }
}
