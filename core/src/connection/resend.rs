//! The deadline loop: the same call is sent until it is answered, refused, or out of time.
//!
//! Sending again is safe because every script answers a repeated call as the first time. A timeout never means "not
//! executed": a call sent to a frozen server runs when it thaws, even if we have hung up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::address::Address;
use super::backoff::Backoff;
use super::breaker::Pass;
use super::durability::Durability;
use super::link::{Dialer, Link, Request};
use super::outages::Outages;
use super::patience::Patience;
use super::server::Server;
use super::topology::Topology;
use super::trouble::{Away, Next, Trouble};
use super::wake::HasWaited;
use crate::value::error::{Error, ErrorKind};
use crate::value::time::whole_ms;

/// An answer that comes byte by byte is waited for by a worker for so long: the largest one, over a very slow line.
const LONGEST_ANSWER: Duration = Duration::from_secs(120);

/// Redirections followed at once; a cluster that sends us round in circles is met with patience instead.
const QUICK_REDIRECTS: u32 = 5;

/// Everything that the calls of one client share.
pub(super) struct Shared {
    pub(super) dialer: Arc<Dialer>,
    pub(super) topology: Topology,
    /// Has anything ever been answered? Until then a plain "connection refused" is a wrong address, not an outage.
    pub(super) has_worked: Arc<AtomicBool>,
    /// Which waits for a wake-up have ever been permitted?
    pub(super) has_waited: HasWaited,
    /// How many waits for a wake-up lost their connection since one went well.
    pub(super) lost_waits: AtomicU32,
    pub(super) outages: Outages,
}

/// Who gave up after as long has waited for nothing, if not for the whole deadline.
const IN_VAIN: Duration = Duration::from_millis(500);

/// Why a call got no answer that its caller wanted.
struct GaveUp {
    error: Error,
    /// It was tried until it was out of time.
    out_of_time: bool,
}

impl GaveUp {
    fn at_once(error: Error) -> Self {
        Self { error, out_of_time: false }
    }
}

impl Shared {
    pub(super) async fn send(&self, slot: u16, request: Request<'_>) -> Result<Value, Error> {
        if !self.dialer.settings.fails_fast() {
            return self.try_to_send(slot, request, u32::MAX).await.map_err(|gave_up| gave_up.error);
        }
        let breaker = self.topology.breaker(slot);
        let pass = breaker.admit(Instant::now())?;
        let sent = self.try_to_send(slot, request, pass.attempts()).await;
        self.note(pass, sent.as_ref().err());
        sent.map_err(|gave_up| gave_up.error)
    }

    /// What the end of a call says about the server.
    fn note(&self, pass: Pass<'_>, gave_up: Option<&GaveUp>) {
        let now = Instant::now();
        let Some(GaveUp { error, out_of_time }) = gave_up else { return pass.answered(now) };
        let no_answer = matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout);
        // A slot on the move is not the whole server.
        let whole_server = error.kind() != ErrorKind::Busy || self.topology.as_cluster().is_none();
        if (*out_of_time && whole_server) || (no_answer && pass.is_probe()) {
            pass.failed(error, now);
        } else if !no_answer {
            pass.answered(now);
        }
    }

    async fn try_to_send(&self, slot: u16, mut request: Request<'_>, attempts: u32) -> Result<Value, GaveUp> {
        let started = Instant::now();
        let patience = self.dialer.settings.deadline;
        let deadline = started + patience;
        let mut backoff = Backoff::default();
        let mut may_have_run = false;
        let mut redirects = 0;
        let mut tried = 0;
        let mut ask = None;
        let mut server_said = None;
        loop {
            let mut trouble = match self.attempt(slot, request, ask.take(), deadline).await {
                Ok(value) => {
                    if !self.has_worked.load(Ordering::Relaxed) {
                        self.has_worked.store(true, Ordering::Relaxed);
                    }
                    return Ok(value);
                }
                Err(trouble) => trouble,
            };
            // What is refused to the list of queues, a lock or a topic says nothing of leases.
            let is_of_leases = trouble.next != Next::GiveUp || request.is_of_queue();
            if let Some(away) = trouble.outage.filter(|_| is_of_leases) {
                self.outages.failed(self.outage_slot(slot), away, Instant::now());
            }
            may_have_run |= trouble.may_have_run;
            if may_have_run {
                request = request.again();
            }
            match &trouble.next {
                Next::Ask { to } => ask.clone_from(to),
                Next::GiveUp if may_have_run && request.changes_once() => {
                    return Err(GaveUp::at_once(behind_doubt(*trouble.error)));
                }
                Next::GiveUp => return Err(GaveUp::at_once(*trouble.error)),
                _ => {}
            }
            if !may_have_run && self.is_final(&trouble) {
                // A host that swallows what is sent to it is found out by waiting; one that refuses says so at once.
                let out_of_time = trouble.error.kind() == ErrorKind::Unreachable && started.elapsed() >= IN_VAIN;
                return Err(GaveUp { error: *trouble.error, out_of_time });
            }
            let redirected = matches!(&trouble.next, Next::Moved { to: Some(_), .. } | Next::Ask { to: Some(_) });
            redirects += u32::from(redirected);
            tried += u32::from(!redirected);
            let pause = if redirected && redirects <= QUICK_REDIRECTS { Duration::ZERO } else { backoff.next() };
            if Instant::now() + pause >= deadline || tried >= attempts {
                // The last attempt may have been cut short by the deadline itself: what the server said before says more.
                if trouble.error.kind() == ErrorKind::Unreachable
                    && Instant::now() >= deadline
                    && let Some(error) = server_said
                {
                    trouble.error = error;
                }
                let probed_for = Duration::from_millis(whole_ms(started.elapsed()));
                // A confirmation by replicas may have been waited for behind the deadline.
                let waited_for = patience.max(Duration::from_secs(started.elapsed().as_secs()));
                let tried_for = if tried >= attempts { probed_for.min(patience) } else { waited_for };
                return Err(GaveUp { error: out_of_time(trouble, may_have_run, tried_for), out_of_time: true });
            }
            if !matches!(trouble.error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout) {
                server_said = Some(trouble.error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(
        &self,
        slot: u16,
        request: Request<'_>,
        ask: Option<Address>,
        deadline: Instant,
    ) -> Result<Value, Trouble> {
        let asking = ask.is_some();
        let server = match (self.topology.as_cluster(), ask) {
            (Some(cluster), Some(address)) => cluster.server_at(address),
            _ => self.topology.server_for(slot, &self.dialer, deadline).await?,
        };
        let result = self.attempt_at(&server, slot, request, asking, deadline).await;
        if let Err(trouble) = &result {
            self.learn(trouble, &server);
        }
        result.map_err(|trouble| self.explain_redirect(trouble))
    }

    async fn attempt_at(
        &self,
        server: &Arc<Server>,
        slot: u16,
        request: Request<'_>,
        asking: bool,
        deadline: Instant,
    ) -> Result<Value, Trouble> {
        let command_timeout = self.dialer.settings.command_timeout;
        if let Request::Durable { durability, .. } = request
            && durability != Durability::None
        {
            // Alone on its connection: WAIT would hold up everybody behind it.
            let link = server.spare_link(&self.dialer, deadline).await?;
            let result = link.send(request, asking, self.patience(command_timeout, deadline)).await;
            match &result {
                Err(trouble) if trouble.next == Next::Reconnect => server.drop_spares(),
                _ => server.keep_spare(link),
            }
            return result;
        }
        let link = self.link_to(server, slot, deadline).await?;
        let is_spared = || self.outages.any() && self.outages.spares(self.outage_slot(slot), Instant::now());
        let spared = request.reclaims().then(is_spared);
        let request = request.sparing(spared == Some(true));
        let result = link.send(request, asking, self.patience(command_timeout, deadline)).await;
        match &result {
            Ok(_) if self.outages.any() => {
                self.outages.answered(self.outage_slot(slot), spared, request.has_written(), Instant::now());
            }
            Err(trouble) if trouble.next == Next::Reconnect => server.discard(&link),
            Ok(_) | Err(_) => {}
        }
        result
    }

    /// The shared link to this server. One whose link ended while nobody called may have been away for any time. So may one that has just
    /// started, if this client is new: others knew it before.
    pub(super) async fn link_to(
        &self,
        server: &Arc<Server>,
        slot: u16,
        deadline: Instant,
    ) -> Result<Arc<Link>, Trouble> {
        if let Some(link) = server.open_link() {
            return Ok(link);
        }
        if server.may_have_been_away() {
            self.outages.failed(self.outage_slot(slot), Away::ForAll, Instant::now());
        }
        let link = server.shared_link(&self.dialer, deadline).await?;
        if link.is_just_back {
            self.outages.was_away(self.outage_slot(slot), Instant::now());
        }
        Ok(link)
    }

    /// What is known of outages is of one server, or in a cluster of the slots that one server has, whichever that is.
    fn outage_slot(&self, slot: u16) -> u16 {
        let Some(cluster) = self.topology.as_cluster() else { return 0 };
        self.outages.noted_at(slot, Instant::now(), |noted| cluster.are_together(noted, slot))
    }

    fn patience(&self, silence: Duration, deadline: Instant) -> Patience {
        let until = if self.dialer.settings.patient { deadline + LONGEST_ANSWER } else { deadline };
        Patience { silence, until }
    }

    /// What the failure says about where the next attempt must go.
    pub(super) fn learn(&self, trouble: &Trouble, server: &Arc<Server>) {
        match &trouble.next {
            Next::Reconnect | Next::AskAgain => self.topology.doubt(server, trouble.next == Next::AskAgain),
            Next::Moved { slot, to } => {
                if let Some(cluster) = self.topology.as_cluster() {
                    match to {
                        Some(to) => cluster.moved(*slot, to.clone()),
                        None => cluster.outdated(),
                    }
                }
            }
            _ => {}
        }
    }

    /// A redirection outside of a cluster URL cannot be followed: the URL is the wrong kind.
    pub(super) fn explain_redirect(&self, trouble: Trouble) -> Trouble {
        if self.topology.as_cluster().is_none() && matches!(trouble.next, Next::Moved { .. } | Next::Ask { .. }) {
            return Trouble::refused(Error::new(
                ErrorKind::WrongServer,
                "the server is part of a cluster: use a cluster URL, redis+cluster://host:port",
            ));
        }
        trouble
    }

    /// A new client with a wrong address, password or server must hear so now, not at the deadline. The exception:
    /// behind sentinels or in a cluster a server may be down just while we start, and another will take over.
    pub(super) fn is_final(&self, trouble: &Trouble) -> bool {
        let may_heal = matches!(trouble.error.kind(), ErrorKind::Unreachable | ErrorKind::ReadOnly);
        trouble.final_when_new
            && !self.has_worked.load(Ordering::Relaxed)
            && (self.topology.is_single() || !may_heal || !self.topology.has_been_found())
    }
}

/// A refusal speaks of its own attempt only: that nothing was stored is not known of the one before, which may still arrive.
fn behind_doubt(refusal: Error) -> Error {
    if refusal.kind() == ErrorKind::NotDurable {
        return refusal; // it is in
    }
    Error::new(
        ErrorKind::Timeout,
        "an attempt got no answer and may have been executed, and the next one was refused (a push with an id or a key can \
         be repeated safely)",
    )
    .caused_by(refusal)
}

fn out_of_time(trouble: Trouble, may_have_run: bool, deadline: Duration) -> Error {
    let seconds = deadline.as_secs_f64();
    if may_have_run {
        return Error::new(
            ErrorKind::Timeout,
            format!(
                "no answer within {seconds} s; the call may have been executed (a push with an id or a key can be repeated safely)"
            ),
        )
        .caused_by(*trouble.error);
    }
    trouble.error.adding(&format!("tried for {seconds} s, nothing was executed"))
}
