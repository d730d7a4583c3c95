//! Jobs whose start is reported to the server before they start, so that a worker that dies is charged to nobody else.
//!
//! - A *suspect* is a job that a worker died with. It may be what killed it, so its start is noted just before its run, when an
//!   executor is free for it, and no other suspect is started until that run has ended, or has gone on for a while. So when
//!   the worker dies now, the job that pays is the one that ran. A suspect that one more charge sends to `failed` runs
//!   with no other suspect beside it, from its start to its end: what kills slowly takes none with it.
//! - A job without retries must not run twice: its start is noted before its handler runs, from the first time on. Those that
//!   are next are noted together, as each would else cost a round trip.
//!
//! A queue whose server does not answer can note no start: its jobs wait, and those of other queues go on. If it has heard of a
//! suspect's start all the same, that one may run beside the suspect that took its turn meanwhile.
//!
//! All others have nothing noted, and are taken as they come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outcomes::Noted;
use super::{Desk, Leased, State};
use crate::queue::Job;
use crate::script::Verb;

/// A suspect that runs for as long as this lets the next one start beside it, or long runs would wait for each other.
const ALONE: Duration = Duration::from_millis(100);
/// When suspects come back that wait for others, at the earliest and at the latest.
const SOONEST_BACK: Duration = Duration::from_secs(1);
const LATEST_BACK: Duration = Duration::from_secs(30);
/// Jobs without retries are noted for as much work as this part of what is fetched ahead.
const PART_OF_AHEAD: usize = 4;

/// What the server must know before a job is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Nothing.
    Free,
    /// That it starts; it is not sent yet.
    Suspect,
    WithoutRetries,
    /// That it starts; it is on its way.
    Noting {
        suspect: bool,
    },
    /// It knows.
    Noted {
        suspect: bool,
    },
}

impl Start {
    pub(super) fn of(job: &Job) -> Self {
        if job.envelope.max_attempts == 0 || job.seems_expired() {
            Self::WithoutRetries
        } else if job.is_suspect() {
            Self::Suspect
        } else {
            Self::Free
        }
    }
}

/// The waiting jobs of which starts are noted.
#[derive(Debug, Default)]
pub(super) struct Starts {
    pub(super) suspects: usize,
    pub(super) without_retries: usize,
    /// Jobs without retries that are noted, or about to be.
    pub(super) noted: usize,
    /// The suspect whose turn it is, from the moment that its start is to be noted until its run has ended.
    turn: Option<(usize, Arc<Job>)>,
    /// Starts that wait for a call.
    pub(super) unsent: usize,
}

impl Starts {
    /// A job begins to wait.
    pub(super) fn waits(&mut self, start: Start) {
        match start {
            Start::Suspect => self.suspects += 1,
            Start::WithoutRetries => self.without_retries += 1,
            Start::Noting { suspect: false } | Start::Noted { suspect: false } => self.noted += 1,
            _ => {}
        }
    }

    /// It waits no more, or as another.
    pub(super) fn waits_no_more(&mut self, start: Start) {
        match start {
            Start::Suspect => self.suspects -= 1,
            Start::WithoutRetries => self.without_retries -= 1,
            Start::Noting { suspect: false } | Start::Noted { suspect: false } => self.noted -= 1,
            _ => {}
        }
    }
}

/// May an executor take it?
pub(super) enum Turn {
    Now,
    /// Not yet, and those behind it may go first.
    Later,
    /// Not yet, and those behind it wait with it.
    First,
}

impl State {
    /// May a waiting job be started now?
    pub(super) fn turn_of(&self, leased: &Leased, now: Instant) -> Turn {
        match leased.start {
            Start::Suspect | Start::Noting { suspect: true } => Turn::Later,
            Start::WithoutRetries | Start::Noting { suspect: false } if self.is_silent(leased) => Turn::Later,
            // They keep their turn among the others: a worker that runs one job at a time runs them in their order.
            Start::WithoutRetries | Start::Noting { suspect: false } => Turn::First,
            // The last free executor is for the suspect whose start is being noted.
            Start::Free if self.suspect_waits(now) && self.runs.running + 1 >= self.concurrency => Turn::Later,
            Start::Free | Start::Noted { .. } => Turn::Now,
        }
    }

    /// Does the suspect whose turn it is wait for the answer, or for an executor? Not if that may take long.
    fn suspect_waits(&self, now: Instant) -> bool {
        self.leased_in_turn().is_some_and(|leased| leased.run.is_none() && !self.is_stuck(leased, now))
    }

    /// May it be long until it starts? Its lease is unsure, or its queue gets no answer.
    fn is_stuck(&self, leased: &Leased, now: Instant) -> bool {
        leased.sure_until <= now || (self.is_silent(leased) && leased.start != Start::Noted { suspect: true })
    }

    /// Is the executor that asks to be left for this suspect, the first of those that wait? The others would take each one that
    /// is free before the fetch loop has seen that, for as long as there are any.
    pub(super) fn is_next_suspect(&self, leased: &Leased, now: Instant) -> bool {
        leased.start == Start::Suspect
            && self.runs.running + 1 == self.concurrency
            && self.trouble.calls == 0
            && self.may_be_noted(leased, now)
            && self.next_suspect_at(now).is_some_and(|at| at <= now)
    }

    fn leased_in_turn(&self) -> Option<&Leased> {
        let (index, job) = self.jobs.starts.turn.as_ref()?;
        self.jobs.leased[*index].as_ref().filter(|leased| Arc::ptr_eq(&leased.job, job))
    }

    /// From when on the next suspect may be started; none if that is when something else has happened.
    fn next_suspect_at(&self, now: Instant) -> Option<Instant> {
        if self.jobs.starts.suspects == 0 || self.runs.running >= self.concurrency {
            return None;
        }
        let in_turn = self.leased_in_turn();
        if in_turn.is_some_and(|leased| leased.run.is_none() && !self.is_stuck(leased, now)) {
            return None;
        }
        let mut beside = self.jobs.leased.iter().flatten().filter(|leased| leased.is_running_suspect()).peekable();
        if beside.peek().is_none() {
            return Some(now);
        }
        let mut waiting = self.jobs.fetched.iter().filter_map(|&index| self.jobs.leased[index].as_ref());
        let next = waiting.find(|leased| leased.start == Start::Suspect && self.may_be_noted(leased, now))?;
        if next.is_at_its_last_run() || beside.any(Leased::is_at_its_last_run) {
            return None;
        }
        Some(in_turn.and_then(|leased| leased.run.as_ref()).map_or(now, |run| run.started + ALONE))
    }

    /// Suspects that must run alone, and wait since then for others that run: another worker may have none. They come back when
    /// those have run for twice as long. This worker, too, would fetch them again at once, and leave executors free for them; and each
    /// time counts as a start where a limit counts these.
    pub(super) fn give_back_blocked(&mut self, since: Instant, now: Instant) {
        if self.jobs.starts.suspects == 0 {
            return;
        }
        let running = self.jobs.leased.iter().flatten().filter(|leased| leased.is_running_suspect());
        let Some(started) = running.filter_map(|leased| Some(leased.run.as_ref()?.started)).min() else { return };
        let is_blocked = |leased: &Leased| {
            leased.start == Start::Suspect
                && leased.is_at_its_last_run()
                && leased.fetched_at <= since
                && leased.sure_until > since
        };
        let blocked = |&index: &usize| self.jobs.leased[index].as_ref().is_some_and(is_blocked);
        let (back, fetched) = std::mem::take(&mut self.jobs.fetched).into_iter().partition(blocked);
        self.jobs.fetched = fetched;
        self.give_back(back, (now - started).clamp(SOONEST_BACK, LATEST_BACK));
    }

    /// When to look again whether starts are to be noted.
    pub(super) fn next_start_at(&self, now: Instant) -> Option<Instant> {
        self.next_suspect_at(now).filter(|&at| at > now)
    }

    /// Jobs without retries that are to be noted now.
    fn start_together(&self, now: Instant) -> usize {
        if self.jobs.starts.without_retries == 0 {
            return 0;
        }
        let most = self.concurrency + self.prefetch.ahead() / PART_OF_AHEAD;
        if 2 * self.jobs.starts.noted > most {
            // Those that are noted may wait behind it, or have leases that are unsure by now.
            if self.first_is_not_noted(now) { most.saturating_sub(self.noted_and_sure(now)).max(1) } else { 0 }
        } else {
            (most - self.jobs.starts.noted).min(self.jobs.starts.without_retries)
        }
    }

    fn noted_and_sure(&self, now: Instant) -> usize {
        let waiting = self.jobs.fetched.iter().filter_map(|&index| self.jobs.leased[index].as_ref());
        let noted = |leased: &&Leased| {
            let is_noted = matches!(leased.start, Start::Noting { suspect: false } | Start::Noted { suspect: false });
            is_noted && self.may_be_noted(leased, now)
        };
        waiting.filter(noted).count()
    }

    fn first_is_not_noted(&self, now: Instant) -> bool {
        let mut sure = self.jobs.fetched.iter().filter_map(|&index| self.jobs.leased[index].as_ref());
        sure.find(|leased| self.may_be_noted(leased, now)).is_some_and(|leased| leased.start == Start::WithoutRetries)
    }

    /// Must the fetch loop wake for a start, now or earlier than it does by itself?
    pub(super) fn has_starts(&self) -> bool {
        if self.jobs.starts.suspects + self.jobs.starts.without_retries == 0 {
            return false;
        }
        let now = Instant::now();
        let is_due = |at| at <= now || self.fetcher.wakes_at.is_none_or(|wakes_at| at < wakes_at);
        self.start_together(now) > 0 || self.next_suspect_at(now).is_some_and(is_due)
    }

    /// Notes the starts of those whose turn it is for the next call.
    pub(super) fn note_starts(&mut self, now: Instant) {
        let mut suspects = usize::from(self.next_suspect_at(now).is_some_and(|at| at <= now));
        let mut together = self.start_together(now);
        if suspects + together == 0 {
            return;
        }
        let mut next = Vec::new();
        for &index in &self.jobs.fetched {
            let Some(leased) = self.jobs.leased[index].as_ref().filter(|leased| self.may_be_noted(leased, now)) else {
                continue;
            };
            let left = match leased.start {
                Start::Suspect => &mut suspects,
                Start::WithoutRetries => &mut together,
                _ => continue,
            };
            if *left > 0 {
                *left -= 1;
                next.push(index);
            }
        }
        for index in next {
            let Some(leased) = self.jobs.leased[index].as_mut() else { continue };
            let suspect = leased.start == Start::Suspect;
            self.jobs.starts.waits_no_more(leased.start);
            leased.start = Start::Noting { suspect };
            self.jobs.starts.waits(leased.start);
            let (job, lane) = (Arc::clone(&leased.job), leased.lane);
            if suspect {
                self.jobs.starts.turn = Some((index, Arc::clone(&job)));
            }
            self.jobs.starts.unsent += 1;
            self.note_other(lane, &job, Verb::Start, Noted::Started(index), Duration::ZERO);
        }
    }

    /// The answer to a start: the server has noted it, or the lease is over. Says whether an executor may want to know.
    pub(super) fn start_noted(&mut self, index: usize, job: &Arc<Job>, noted: bool, desk: &Desk) -> bool {
        let Some(leased) = self.jobs.leased[index].as_mut().filter(|leased| Arc::ptr_eq(&leased.job, job)) else {
            return false;
        };
        let Start::Noting { suspect } = leased.start else { return false };
        if noted {
            leased.start = Start::Noted { suspect };
            return true;
        }
        // Perhaps nobody has taken the job yet: it waits for a renewal, which says whether it is ours.
        leased.sure_until = Instant::now();
        desk.for_queues[leased.lane].renewal.notify_one();
        self.jobs.starts.waits_no_more(leased.start);
        leased.start = Start::of(job);
        self.jobs.starts.waits(leased.start);
        self.jobs.starts.turn.take_if(|(_, in_turn)| Arc::ptr_eq(in_turn, job));
        true
    }
}

impl Leased {
    fn is_running_suspect(&self) -> bool {
        self.run.is_some() && !self.is_interrupted() && self.start == Start::Noted { suspect: true }
    }

    /// Does one more failure or crash send it to `failed`?
    fn is_at_its_last_run(&self) -> bool {
        self.job.envelope.attempts >= self.job.envelope.max_attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::envelope::Envelope;
    use crate::process::host;
    use crate::queue::{Client, Part};
    use crate::value::data::Data;
    use crate::value::error::{Error, ErrorKind};
    use crate::value::time::Millis;
    use crate::worker::WorkerSettings;
    use crate::worker::desk::{Batch, Outage, Step, Taken};
    use crate::worker::executor::{Ended, ExecutorShared};

    fn without_retries(queue: &Part, ids: &[&str]) -> Vec<Job> {
        let job = |id: &&str| {
            let mut envelope = Envelope::new(*id, Data::from_json("1", 10).unwrap());
            envelope.max_attempts = 0;
            Job::granted(envelope, 0, 16, queue, false)
        };
        ids.iter().map(job).collect()
    }

    fn named(queue: &Part, id: &str, is_suspect: bool) -> Job {
        Job::granted(Envelope::new(id, Data::from_json("1", 10).unwrap()), 0, 16, queue, is_suspect)
    }

    /// By the server's clock, which is ahead, the job had expired; by ours it has not.
    #[test]
    fn the_start_of_a_first_run_is_noted_where_the_server_believes_that_there_is_none() {
        let queue = queue();
        let start = |is_suspect, returns| {
            let mut envelope = Envelope::new("a", Data::from_json("1", 10).unwrap());
            let expires = host::now().saturating_add(Millis::from_secs(3600));
            envelope.expires = Some(expires);
            Start::of(&Job::granted(envelope, returns, expires.get() * 1000, &queue, is_suspect))
        };
        assert_eq!(start(false, 0), Start::WithoutRetries);
        assert_eq!(start(false, 1), Start::Free, "it has begun before");
        assert_eq!(start(true, 0), Start::Suspect, "one at a time");
    }

    fn queue() -> Part {
        // Nobody listens there.
        Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap()
    }

    fn desk_of(queues: &[&str], concurrency: usize) -> (Desk, Arc<ExecutorShared>) {
        let mut settings = WorkerSettings::new(queues.iter().map(|name| ((*name).to_owned(), 1)).collect());
        settings.concurrency = concurrency;
        (Desk::new(&settings), Arc::new(ExecutorShared::new(0)))
    }

    fn take(desk: &Desk, executor: &Arc<ExecutorShared>) -> Option<crate::worker::Run> {
        match desk.take_within(executor, Duration::ZERO) {
            Taken::Run(run) => Some(run),
            _ => None,
        }
    }

    /// A call that reports the starts that wait, and its answer; gives how many there were.
    fn report_starts(desk: &Desk, lane: usize) -> usize {
        let batch = desk.begin_call(lane, 0, None);
        desk.end_call(lane, 0, &batch, Duration::ZERO, None);
        desk.answered("orders", &batch, &vec![true; batch.outcomes.len()]);
        batch.starts()
    }

    /// Runs what may start, and reports what the server must know, until neither is possible.
    fn run_all(desk: &Desk, executor: &Arc<ExecutorShared>) -> Vec<String> {
        let mut ran = Vec::new();
        loop {
            let ran_before = ran.len();
            while let Taken::Run(run) = desk.take_within(executor, Duration::ZERO) {
                ran.push(run.job.id().to_owned());
                desk.finish(&run, Ended::DONE, true).unwrap();
            }
            let _ = desk.next_step(false);
            let batch = desk.begin_call(0, 0, None);
            desk.end_call(0, 0, &batch, Duration::ZERO, None);
            let flags = vec![true; batch.outcomes.len()];
            desk.answered("orders", &batch, &flags);
            if ran.len() == ran_before && flags.is_empty() {
                return ran;
            }
        }
    }

    #[tokio::test]
    async fn a_job_whose_lease_was_unsure_for_a_while_is_started_in_the_end() {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let queue = client.queue_or_part("orders").unwrap();
        let mut settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        settings.concurrency = 2;
        let desk = Desk::new(&settings);
        let executor = Arc::new(ExecutorShared::new(0));

        // The answer to a call that was sent before an outage of more than a lease; then a newer one.
        let long_ago = Instant::now().checked_sub(2 * settings.lease);
        let mut before_the_outage = Batch::default();
        before_the_outage.asked_at = long_ago;
        desk.deliver(0, &before_the_outage, without_retries(&queue, &["old"]), &[]);
        desk.deliver(0, &Batch::default(), without_retries(&queue, &["b1", "b2", "b3"]), &[]);
        let _ = desk.next_step(false); // notes the starts of the newer ones, and passes by the old one
        desk.renewed(0, &[("old".to_owned(), 16)], &[true], Instant::now(), desk.lease);

        let mut ran = run_all(&desk, &executor);
        ran.sort_unstable();
        assert_eq!(ran, ["b1", "b2", "b3", "old"]);
    }

    #[tokio::test]
    async fn a_suspect_is_noted_before_the_short_jobs_behind_it_take_every_executor() {
        let (queue, (desk, executor)) = (queue(), desk_of(&["orders"], 1));
        let jobs = [("p0", false), ("suspect", true), ("p1", false), ("p2", false)];
        desk.deliver(0, &Batch::default(), jobs.map(|(id, is_suspect)| named(&queue, id, is_suspect)).into(), &[]);
        let run = take(&desk, &executor).unwrap();
        assert_eq!(run.job.id(), "p0");
        let _ = desk.next_step(false); // no executor is free for it
        desk.finish(&run, Ended::DONE, true).unwrap();
        assert!(take(&desk, &executor).is_none(), "the executor is left for the suspect");
        assert!(matches!(desk.next_step(false), Step::Call { .. }));
        assert_eq!(report_starts(&desk, 0), 1, "the call that reports the first one's end says that it starts");
        for id in ["suspect", "p1", "p2"] {
            let run = take(&desk, &executor).unwrap();
            assert_eq!(run.job.id(), id);
            desk.finish(&run, Ended::DONE, true).unwrap();
        }
    }

    #[tokio::test]
    async fn no_executor_is_left_for_a_suspect_during_an_outage() {
        let (queue, (desk, executor)) = (queue(), desk_of(&["orders"], 1));
        let jobs = [("suspect", true), ("p1", false)];
        desk.deliver(0, &Batch::default(), jobs.map(|(id, is_suspect)| named(&queue, id, is_suspect)).into(), &[]);
        assert!(take(&desk, &executor).is_none());
        let outage = Outage::of_call(&desk);
        outage.failed(&Error::new(ErrorKind::Timeout, "no answer"));
        assert_eq!(take(&desk, &executor).unwrap().job.id(), "p1");
    }

    #[tokio::test]
    async fn starts_are_noted_together_beside_noted_ones_of_a_queue_whose_leases_are_unsure() {
        let (queue, (desk, executor)) = (queue(), desk_of(&["a", "b"], 8));
        let ids = |name: &str, count: usize| (0..count).map(|n| format!("{name}{n}")).collect::<Vec<_>>();
        let deliver = |lane, ids: &[String]| {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            desk.deliver(lane, &Batch::default(), without_retries(&queue, &ids), &[]);
            let _ = desk.next_step(false);
        };
        deliver(0, &ids("a", 8));
        assert_eq!(report_starts(&desk, 0), 8);
        for leased in desk.lock().jobs.leased.iter_mut().flatten() {
            leased.sure_until = Instant::now();
        }
        deliver(1, &ids("b", 16));
        let (mut ran, mut calls) = (Vec::new(), 0);
        while ran.len() < 16 {
            assert!(report_starts(&desk, 1) > 0, "{ran:?} have run, and no more can start");
            calls += 1;
            while let Some(run) = take(&desk, &executor) {
                ran.push(run.job.id().to_owned());
                desk.finish(&run, Ended::DONE, true).unwrap();
            }
            let _ = desk.next_step(false);
        }
        assert_eq!((ran, calls), (ids("b", 16), 2));
    }

    #[tokio::test]
    async fn a_silent_queue_holds_up_no_start_of_another() {
        let (queue, (desk, executor)) = (queue(), desk_of(&["a", "b"], 2));
        desk.deliver(0, &Batch::default(), without_retries(&queue, &["a1"]), &[]);
        desk.deliver(0, &Batch::default(), vec![named(&queue, "a2", true)], &[]);
        let _ = desk.next_step(false);
        let on_its_way = desk.begin_call(0, 0, None);
        assert_eq!(on_its_way.starts(), 2);
        desk.deliver(1, &Batch::default(), without_retries(&queue, &["b1"]), &[]);
        desk.deliver(1, &Batch::default(), vec![named(&queue, "b2", true), named(&queue, "b3", false)], &[]);
        assert!(take(&desk, &executor).is_none(), "the first one keeps its index");

        desk.falls_silent(0);
        assert!(matches!(desk.next_step(false), Step::Call { .. }));
        assert_eq!(report_starts(&desk, 1), 2);
        for id in ["b1", "b2", "b3"] {
            let run = take(&desk, &executor).unwrap();
            assert_eq!(run.job.id(), id);
            desk.finish(&run, Ended::DONE, true).unwrap();
        }

        desk.end_call(0, 0, &on_its_way, Duration::ZERO, None);
        desk.speaks_again(0);
        desk.answered("a", &on_its_way, &[true; 2]);
        assert_eq!(run_all(&desk, &executor), ["a1", "a2"]);
    }

    #[tokio::test]
    async fn who_waits_behind_a_queue_that_falls_silent_is_woken() {
        let queue = queue();
        let (desk, executor) = desk_of(&["a", "b"], 2);
        let desk = Arc::new(desk);
        desk.deliver(0, &Batch::default(), without_retries(&queue, &["a1"]), &[]);
        let _ = desk.next_step(false);
        let _on_its_way = desk.begin_call(0, 0, None);
        desk.deliver(1, &Batch::default(), vec![named(&queue, "b1", false)], &[]);
        let waiting = tokio::spawn({
            let (desk, executor) = (Arc::clone(&desk), Arc::clone(&executor));
            async move { desk.take_async(&executor).await }
        });
        while desk.lock().waiting.tasks == 0 {
            tokio::task::yield_now().await;
        }
        desk.falls_silent(0);
        let run = tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it is woken").unwrap();
        assert_eq!(run.unwrap().job.id(), "b1");
    }

    #[tokio::test]
    async fn who_waits_behind_a_job_without_retries_is_woken_when_its_start_is_noted() {
        let (queue, (desk, executor)) = (queue(), desk_of(&["orders"], 2));
        let desk = Arc::new(desk);
        let mut jobs = without_retries(&queue, &["first"]);
        jobs.push(named(&queue, "behind", false));
        desk.deliver(0, &Batch::default(), jobs, &[]);
        let _ = desk.next_step(false);
        let waiting = [(); 2].map(|()| {
            let (desk, executor) = (Arc::clone(&desk), Arc::clone(&executor));
            tokio::spawn(async move { desk.take_async(&executor).await })
        });
        while desk.lock().waiting.tasks < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(report_starts(&desk, 0), 1);
        for run in waiting {
            tokio::time::timeout(Duration::from_secs(20), run).await.expect("it is woken").unwrap().unwrap();
        }
    }
}
