//! Executors, or those who pull.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::oneshot;

use super::clock::FAR;
use super::server::Lease;
use super::{Fate, Kind, World, is_ready};
use crate::queue::{Decided, Settlement};
use crate::worker::desk::outcomes::failure;
use crate::worker::desk::{Run, Taken};
use crate::worker::event::Interruption;
use crate::worker::executor::{Ended, Executor};

pub(super) struct Owner {
    pub(super) executor: Executor,
    pub(super) doing: Doing,
}

pub(super) enum Doing {
    Asks { run: Pin<Box<dyn Future<Output = Option<Run>>>>, woken: Arc<Woken> },
    Runs(Running),
    Over,
}

pub(super) struct Running {
    pub(super) run: Run,
    pub(super) lease: usize,
    /// By the desk.
    pub(super) interrupted: Option<Interruption>,
    pub(super) is_decided: bool,
    /// It was decided before the interruption.
    pub(super) is_kept: bool,
    /// And is sent when the run ends.
    pub(super) is_held_back: bool,
    pub(super) says: Says,
}

/// How far the handler's own verb is.
pub(super) enum Says {
    Nothing,
    UnderWay { verb: Pin<Box<dyn Future<Output = ()>>>, answer: oneshot::Sender<bool>, is_taken: bool },
    Taken,
    Refused,
}

pub(super) struct Woken(pub(super) AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn asks(executor: &Executor, is_pulled: bool) -> Doing {
    let (desk, shared) = (Arc::clone(&executor.desk), Arc::clone(&executor.shared));
    let run = async move {
        if !is_pulled {
            return desk.take_async(&shared).await;
        }
        match desk.pull(&shared, FAR).await {
            Taken::Run(run) => Some(run),
            _ => None,
        }
    };
    Doing::Asks { run: Box::pin(run), woken: Arc::new(Woken(AtomicBool::new(true))) }
}

impl World<'_> {
    pub(super) fn ask(&mut self, at: usize) -> Result<(), String> {
        let owner = &mut self.owners[at];
        let Doing::Asks { run, woken } = &mut owner.doing else { return Ok(()) };
        woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(woken));
        let Poll::Ready(run) = run.as_mut().poll(&mut Context::from_waker(&waker)) else { return Ok(()) };
        let Some(run) = run else {
            owner.doing = Doing::Over;
            return Ok(());
        };
        let is_it = |lease: &Lease| lease.token == run.job.token() && lease.kind.id == run.job.id();
        let lease = self.leases.iter().position(is_it).ok_or("a run of no lease")?;
        self.may_start(lease)?;
        self.leases[lease].is_started = true;
        self.owners[at].doing = Doing::Runs(Running {
            run,
            lease,
            interrupted: None,
            is_decided: false,
            is_kept: false,
            is_held_back: false,
            says: Says::Nothing,
        });
        Ok(())
    }

    pub(super) fn may_start(&self, at: usize) -> Result<(), String> {
        let lease = &self.leases[at];
        let Kind { id, max_retries, is_suspect, .. } = lease.kind;
        let is_alone = |kind: &Kind| kind.is_suspect && kind.max_retries > 0;
        let runs_a_suspect = |owner: &Owner| match &owner.doing {
            Doing::Runs(running) => running.interrupted.is_none() && is_alone(&self.leases[running.lease].kind),
            _ => false,
        };
        let started = self.leases.iter().filter(|lease| lease.is_started).count() as u64;
        let wrong = if self.is_stopped || self.scenario.max_jobs.is_some_and(|most| started >= most) {
            "starts after the stop"
        } else if lease.is_started {
            "starts twice"
        } else if lease.is_known_as_lost || lease.is_sent {
            "starts though it is another's"
        } else if (max_retries == 0 || is_suspect) && !lease.start_is_noted {
            "starts before its start is noted"
        } else if is_alone(&lease.kind) && self.owners.iter().any(runs_a_suspect) {
            "starts beside another suspect"
        } else {
            return Ok(());
        };
        Err(format!("{id} {wrong}"))
    }

    pub(super) fn running(&mut self, at: usize) -> Option<(&mut Running, &mut Lease)> {
        let Doing::Runs(running) = &mut self.owners[at].doing else { return None };
        let lease = &mut self.leases[running.lease];
        Some((running, lease))
    }

    pub(super) fn finish(&mut self, at: usize) -> Result<(), String> {
        let owner = &mut self.owners[at];
        let next = asks(&owner.executor, self.scenario.is_pulled);
        let Doing::Runs(running) = std::mem::replace(&mut owner.doing, next) else { return Ok(()) };
        let (run, lease) = (&running.run, &mut self.leases[running.lease]);
        let (is_said, fails) = (matches!(running.says, Says::Taken | Says::Refused), lease.kind.fails);
        let becomes = if self.scenario.is_pulled {
            let decided = Decided::of(&if fails { failure(&run.job, "no") } else { Settlement::done(&run.job) });
            self.desk.settle(run, decided.map_err(|error| error.to_string())?)
        } else {
            let ended = if is_said {
                Ended::SettledByHandler
            } else if fails {
                Ended::failed("no")
            } else {
                Ended::DONE
            };
            self.desk.finish(run, ended, true).map_err(|error| error.to_string())?
        };
        let fate = if fails { Fate::Failed } else { Fate::Done };
        let expected = match running.interrupted {
            _ if is_said => None,
            Some(_) => running.is_kept.then_some(Fate::Failed),
            None => Some(*lease.decided_as.get_or_insert(fate)),
        };
        let becomes = becomes.map(Fate::of_next);
        if becomes == expected { Ok(()) } else { Err(format!("its owner hears {becomes:?} and not {expected:?}")) }
    }

    pub(super) fn decide(&mut self, at: usize) -> Result<(), String> {
        let desk = Arc::clone(&self.desk);
        let Some((running, lease)) = self.running(at) else { return Ok(()) };
        let decided = Decided::of(&failure(&running.run.job, "no")).map_err(|error| error.to_string())?;
        let counts = desk.decide(&running.run, decided);
        if counts != running.interrupted.is_none() {
            return Err(format!("what is decided counts: {counts}"));
        }
        if counts {
            running.is_decided = true;
            lease.decided_as = Some(Fate::Failed);
        }
        Ok(())
    }

    pub(super) fn say(&mut self, at: usize) {
        let Some((running, lease)) = self.running(at) else { return };
        let is_taken = lease.is_held && lease.settled_as.is_none();
        if is_taken {
            (lease.settled_as, lease.is_settled_by_handler) = (Some(Fate::Done), true);
        }
        let (answer, answered) = oneshot::channel();
        let job = Arc::clone(&running.run.job);
        let mut verb: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
            let settling = job.settling();
            match answered.await {
                Ok(true) => settling.acked(),
                Ok(false) => settling.lost(),
                Err(_) => {}
            }
        });
        let _ = is_ready(verb.as_mut());
        running.says = Says::UnderWay { verb, answer, is_taken };
    }

    pub(super) fn tell(&mut self, at: usize) -> Result<(), String> {
        let Some((running, _)) = self.running(at) else { return Ok(()) };
        let said = std::mem::replace(&mut running.says, Says::Nothing);
        let Says::UnderWay { mut verb, answer, is_taken } = said else { return Ok(()) };
        let _ = answer.send(is_taken);
        running.says = if is_taken { Says::Taken } else { Says::Refused };
        if is_ready(verb.as_mut()) { Ok(()) } else { Err("a verb never ends".to_owned()) }
    }

    /// The desk has interrupted the run of this owner.
    pub(super) fn interrupted(&mut self, at: usize, why: Interruption) {
        let Some((running, lease)) = self.running(at) else { return };
        if why == Interruption::LeaseLost && matches!(running.says, Says::UnderWay { .. } | Says::Taken) {
            return; // its own verb was the reason, or may have been
        }
        if running.interrupted.is_some() {
            if why == Interruption::LeaseLost && running.is_held_back {
                running.is_kept = false;
            }
            running.is_held_back &= why == Interruption::TimedOut;
            return;
        }
        let why = if matches!(running.says, Says::Refused) { Interruption::LeaseLost } else { why };
        running.interrupted = Some(why);
        let is_said = matches!(running.says, Says::Taken);
        running.is_kept = running.is_decided && why != Interruption::LeaseLost && !is_said;
        running.is_held_back = running.is_kept && why == Interruption::TimedOut && lease.kind.max_retries == 0;
        if !is_said && lease.decided_as.is_none() {
            lease.decided_as = match why {
                Interruption::TimedOut => Some(Fate::Failed),
                Interruption::Stopped => Some(Fate::Back),
                Interruption::LeaseLost => None,
            };
        }
    }

    pub(super) fn all_stop(&mut self) {
        (0..self.owners.len()).for_each(|owner| self.interrupted(owner, Interruption::Stopped));
    }
}
