//! What orders are about: the jobs, who works on them, and what may happen.

/// A job, and what its handler makes of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) id: &'static str,
    pub(super) lane: usize,
    pub(super) max_retries: u32,
    pub(super) is_suspect: bool,
    pub(super) fails: bool,
}

impl Kind {
    pub(super) const fn done(id: &'static str) -> Self {
        Self { id, lane: 0, max_retries: 5, is_suspect: false, fails: false }
    }

    pub(super) const fn failing(id: &'static str) -> Self {
        Self { fails: true, ..Self::done(id) }
    }

    pub(super) const fn suspect(id: &'static str) -> Self {
        Self { is_suspect: true, ..Self::done(id) }
    }

    pub(super) const fn without_retries(id: &'static str) -> Self {
        Self { max_retries: 0, ..Self::done(id) }
    }

    pub(super) const fn that_fails(self) -> Self {
        Self { fails: true, ..self }
    }

    pub(super) const fn of(self, lane: usize) -> Self {
        Self { lane, ..self }
    }
}

/// What happens once in an order, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rare {
    /// The time of the first timeout is over, which may be that of a run that has ended.
    Ring,
    /// Another worker takes a job, or somebody cancels it.
    Lose,
    Stop,
    GraceEnds,
    /// A handler has failed, and its hooks are called.
    Decide,
    /// A handler acks its job itself.
    Says,
    /// What was fetched ahead has waited too long.
    Hoard,
    /// A queue says nothing.
    Silence,
    /// The worker stops, and its server does not answer.
    GiveUp,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario<'a> {
    pub(super) kinds: &'a [Kind],
    pub(super) lanes: usize,
    pub(super) concurrency: usize,
    /// Executors, or those who pull.
    pub(super) owners: usize,
    pub(super) calls_at_once: usize,
    pub(super) max_jobs: Option<u64>,
    pub(super) is_pulled: bool,
    pub(super) fetches_ahead: bool,
    pub(super) renewals: usize,
    pub(super) rare: &'a [Rare],
    /// So many events are what must come first.
    pub(super) before: usize,
    /// So many are drawn, then everything comes to rest.
    pub(super) events: usize,
}
