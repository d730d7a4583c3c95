//! Checking the invariants of a queue while it is in use, and mending what is broken.
//!
//! An audit walks the queue in pages, so what it reads belongs to different moments and proves nothing yet. Whatever looks
//! wrong is a suspect: it is looked at again in one atomic look, before and after its ready lists are read once more, twice
//! over; only what is wrong each time and has not changed in between is a finding.

mod judge;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::queue::{Part, Queue};
use crate::script::{
    ByteStrings, Declared, Examine, ExamineWhole, Item, LEVELS, Levels, Repair, RepairReply, WholeReply,
};
use crate::value::error::{Error, ErrorKind};
use judge::{Defect, Entries, Look, Mend, Subject, judge};
use walk::ListEntries;

/// How often a suspect must be found wrong, unchanged, after the walk.
const CONFIRMATIONS: usize = 2;
/// `examine.lua` stops after this many bytes of records.
const MAX_EXAMINED_BYTES: usize = 4 * 1024 * 1024;
/// `examine.lua` takes this many ids.
const MAX_EXAMINED: usize = 250;

/// Options of an audit.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditOptions {
    /// Mend what is found, each job atomically (default: only look).
    pub repair: bool,
}

impl AuditOptions {
    /// Only look.
    pub fn new() -> Self {
        Self::default()
    }

    /// Mend what is found, or not.
    #[must_use]
    pub fn repair(mut self, repair: bool) -> Self {
        self.repair = repair;
        self
    }
}

/// A rule that holds in a queue at every moment.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// Every id in a state has a record.
    Record,
    /// Every record is in exactly one state.
    OneState,
    /// Every lease has a token and an end.
    Lease,
    /// Entries of the ready lists that no longer count are counted, each and in all.
    Stale,
    /// A key points to the one live job that carries it.
    Key,
    /// Each entry in `returned` belongs to a job and can be read.
    Returned,
    /// The levels in use are written down.
    Levels,
    /// A reserved job whose name has a limit has a place of it, and no other job; what such a limit holds back is found again.
    Place,
    /// Members of `delayed` have their form.
    Member,
    /// Every record can be decoded, or its job has failed.
    Decodable,
}

impl Invariant {
    /// One word in `snake_case`, the same in every language.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::OneState => "one_state",
            Self::Lease => "lease",
            Self::Stale => "stale",
            Self::Key => "key",
            Self::Returned => "returned",
            Self::Levels => "levels",
            Self::Place => "place",
            Self::Member => "member",
            Self::Decodable => "decodable",
        }
    }
}

/// One broken invariant.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which one.
    pub invariant: Invariant,
    /// The job; empty when it is about the queue as a whole.
    pub id: String,
    /// The defect in words.
    pub detail: String,
    /// Was it mended? Never without [`AuditOptions::repair`]; with it, false means that the job changed meanwhile, or that
    /// there is nothing to be done about it without knowing more.
    pub repaired: bool,
}

/// The result of an audit.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// The rules that are broken.
    pub findings: Vec<Finding>,
    /// Records that were looked at.
    pub jobs: u64,
    /// Entries of ready lists that were looked at.
    pub entries: u64,
    /// Suspects of the walk, nearly all of them jobs that were on the move.
    pub suspects: u64,
    /// Calls that were made, none of more than 1,000 entries or about 4 MiB.
    pub pages: u64,
}

impl AuditReport {
    /// Nothing is broken.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Both together, for parts of one queue.
    pub(crate) fn add(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.jobs += other.jobs;
        self.entries += other.entries;
        self.suspects += other.suspects;
        self.pages += other.pages;
    }
}

impl Queue {
    /// Checks the invariants of the queue, also while it is in use, and mends what is broken if asked to.
    ///
    /// Read in pages; holds a few dozen bytes per ready job in memory. An orphan goes back to `ready`, or to `failed` if it
    /// cannot be decoded; a broken lease is reclaimed and counts as a failure; entries without a job go; a job in two
    /// states stays in the first of reserved, delayed, failed, ready; wrong counts and keys are put right. Errors: those of
    /// the connection; `Busy` if ready jobs come faster than they can be read, thousands between two reads: nothing was mended then.
    ///
    /// ```no_run
    /// # async fn doc(queue: duly::Queue) -> Result<(), duly::Error> {
    /// let report = queue.audit(duly::AuditOptions::new().repair(true)).await?;
    /// for finding in &report.findings {
    ///     println!("{} {}: {}", finding.invariant.as_str(), finding.id, finding.detail);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn audit(&self, options: AuditOptions) -> Result<AuditReport, Error> {
        let mut all = AuditReport::default();
        for part in self.each_part() {
            all.add(part.audit(options).await?);
        }
        Ok(all)
    }
}

impl Part {
    async fn audit(&self, options: AuditOptions) -> Result<AuditReport, Error> {
        let mut audit = Audit {
            queue: self.with_levels(Levels::ALL),
            options,
            report: AuditReport::default(),
            suspects: BTreeSet::new(),
            undecodable: BTreeMap::new(),
            reported: HashSet::new(),
            mended: HashSet::new(),
        };
        audit.run().await.map_err(self.during("audit"))?;
        Ok(audit.report)
    }
}

/// One audit under way.
struct Audit {
    /// With the lists of all levels.
    queue: Part,
    options: AuditOptions,
    report: AuditReport,
    suspects: BTreeSet<Subject>,
    /// Why the records of some suspects cannot be decoded.
    undecodable: BTreeMap<Vec<u8>, String>,
    /// What was found already: invariant, id and detail.
    reported: HashSet<(&'static str, String, String)>,
    /// Jobs of which something was mended.
    mended: HashSet<Vec<u8>>,
}

/// A suspect that stayed wrong.
struct Case {
    subject: Subject,
    look: Look,
    entries: Entries,
    defects: Vec<Defect>,
}

impl Audit {
    async fn run(&mut self) -> Result<(), Error> {
        let member_levels = self.walk().await?;
        self.report.suspects = self.suspects.len() as u64;
        let (cases, lists) = self.confirm().await?;
        for case in cases {
            self.close(case, &lists).await?;
        }
        self.judge_levels(member_levels).await?;
        self.judge_stale_total().await
    }

    /// Looks at subjects, each atomically.
    async fn examine(&mut self, subjects: &[Subject]) -> Result<Vec<Look>, Error> {
        let mut looks = Vec::with_capacity(subjects.len());
        while looks.len() < subjects.len() {
            let rest = &subjects[looks.len()..];
            let batch = &rest[..rest.len().min(MAX_EXAMINED)];
            let examine = Examine { max_bytes: MAX_EXAMINED_BYTES }.with(batch.iter().map(Subject::columns));
            let page = self.queue.run(examine.during("audit")).await?;
            self.report.pages += 1;
            if page.is_empty() {
                return Err(Error::new(ErrorKind::Protocol, "an audit's look at some jobs gave none"));
            }
            looks.extend(page.into_iter().map(Look));
        }
        Ok(looks)
    }

    fn judge(&self, subject: &Subject, look: &Look, entries: &Entries) -> Vec<Defect> {
        judge(subject, look, entries, self.undecodable.get(&subject.id).map(String::as_str))
    }

    /// The suspects that stay wrong, unchanged, and the lists as they were read for them last.
    async fn confirm(&mut self) -> Result<(Vec<Case>, ListEntries), Error> {
        let mut suspects: Vec<Subject> = std::mem::take(&mut self.suspects).into_iter().collect();
        let mut lists = ListEntries::default();
        let mut cases: Vec<Case> = Vec::new();
        for round in 0..CONFIRMATIONS {
            if suspects.is_empty() {
                return Ok((Vec::new(), lists));
            }
            let before = self.examine(&suspects).await?;
            lists = self.read_lists(Some(&suspects)).await?;
            let after = self.examine(&suspects).await?;
            let earlier = std::mem::take(&mut cases).into_iter().map(|case| (case.subject, case.defects));
            let earlier: BTreeMap<Subject, Vec<Defect>> = earlier.collect();
            for ((subject, before), look) in suspects.into_iter().zip(before).zip(after) {
                let entries = lists.of(&subject.id);
                let mut defects = self.judge(&subject, &look, &entries);
                if round > 0 {
                    let known = earlier.get(&subject);
                    defects.retain(|defect| known.is_some_and(|defects| defects.contains(defect)));
                }
                if before == look && !defects.is_empty() {
                    cases.push(Case { subject, look, entries, defects });
                }
            }
            suspects = cases.iter().map(|case| case.subject.clone()).collect();
        }
        // A job that is delayed under a member not its own seems to be in no state when it is looked at without the member.
        let misnamed: BTreeSet<Vec<u8>> = cases
            .iter()
            .filter(|case| case.defects.iter().any(|defect| defect.invariant == Invariant::Member))
            .map(|case| case.subject.id.clone())
            .collect();
        for case in &mut cases {
            if case.subject.member.is_empty() && misnamed.contains(&case.subject.id) {
                case.defects.retain(|defect| defect.invariant != Invariant::OneState);
            }
        }
        Ok((cases, lists))
    }

    /// Reports a case, and mends it: one defect after the other, each against a fresh look.
    async fn close(&mut self, case: Case, lists: &ListEntries) -> Result<(), Error> {
        let Case { subject, mut look, mut entries, defects } = case;
        if self.mended.contains(&subject.id) {
            // Another way led to this job too, and what was mended there has changed it.
            let fresh = self.examine(std::slice::from_ref(&subject)).await?;
            look = fresh.into_iter().next().unwrap_or(look);
        }
        for defect in defects {
            let id = String::from_utf8_lossy(&subject.id).into_owned();
            let finding = Finding { invariant: defect.invariant, id, detail: defect.detail.clone(), repaired: false };
            // A job that was led to by its id and by its key is one suspect each.
            if !self.reported.insert((defect.invariant.as_str(), finding.id.clone(), defect.detail.clone())) {
                continue;
            }
            let mut repaired = false;
            if let (Some(mend), true) = (defect.mend, self.options.repair) {
                let still = self.judge(&subject, &look, &entries);
                // What was mended before may have changed what is to be done about this one.
                let same = still.iter().find(|one| one.detail == defect.detail).and_then(|one| one.mend);
                if let Some(mend) = same.or_else(|| still.iter().any(|one| one.mend == Some(mend)).then_some(mend)) {
                    repaired = self.mend(mend, &subject, &look, lists).await?;
                }
                if repaired {
                    self.mended.insert(subject.id.clone());
                    if matches!(mend, Mend::ToReady | Mend::Reclaim | Mend::Unpark) {
                        entries[usize::from(look.level().unwrap_or_default())] += 1;
                    }
                    let fresh = self.examine(std::slice::from_ref(&subject)).await?;
                    look = fresh.into_iter().next().unwrap_or(look);
                }
            }
            self.report.findings.push(Finding { repaired, ..finding });
        }
        Ok(())
    }

    async fn mend(&mut self, mend: Mend, subject: &Subject, look: &Look, lists: &ListEntries) -> Result<bool, Error> {
        let (level, amount) = match mend {
            Mend::CountStale { level, amount } => (level, amount),
            _ => (look.level().unwrap_or_default(), 0),
        };
        let distance = lists.distance(level, &subject.id);
        let words = |out: &mut ByteStrings| {
            subject.columns().append(out);
            look.0.iter().for_each(|seen| out.push(seen));
            out.push_display(level);
            out.push_display(amount);
            out.push_display(distance);
        };
        self.repair(mend.as_str(), words).await
    }

    async fn repair(&mut self, mend: &'static str, append: impl FnOnce(&mut ByteStrings)) -> Result<bool, Error> {
        self.report.pages += 1;
        let mut words = ByteStrings::default();
        append(&mut words);
        let reply = self.queue.run(Repair { mend }.with([&words]).during("audit")).await?;
        Ok(reply == RepairReply::Done)
    }

    async fn look_at_whole(&mut self) -> Result<WholeReply, Error> {
        self.report.pages += 1;
        self.queue.run(ExamineWhole { max_bytes: MAX_EXAMINED_BYTES }.with([]).during("audit")).await
    }

    /// Levels only ever grow, and are written in the script that uses one first: one look at them after the use is proof.
    async fn judge_levels(&mut self, in_delayed: Levels) -> Result<(), Error> {
        let whole = self.look_at_whole().await?;
        let (Some(noted), Some(used)) = (Levels::parse(&whole.levels), Levels::parse(&whole.used_levels)) else {
            return Ok(());
        };
        // A queue that does not say gets all levels passed, so that nothing is hidden.
        let used = used.with(in_delayed);
        if whole.levels.is_empty() || used.with(noted) == noted {
            return Ok(());
        }
        let repaired = self.options.repair && self.repair("levels", |out| out.push_display(used)).await?;
        let detail = format!("jobs wait in the levels {used}, but only {noted} are said to be in use");
        self.report.findings.push(Finding { invariant: Invariant::Levels, id: String::new(), detail, repaired });
        Ok(())
    }

    async fn judge_stale_total(&mut self) -> Result<(), Error> {
        let whole = self.look_at_whole().await?;
        let noted = whole.stale_noted;
        let counted = if let Some(counted) = whole.stale_counted {
            counted
        } else {
            // Too many for one look: added up over pages, while the noted total stood still.
            let counted = self.add_up_stale().await?;
            if self.look_at_whole().await?.stale_noted != noted {
                return Ok(());
            }
            counted
        };
        if counted == noted {
            return Ok(());
        }
        let repaired = self.options.repair
            && self
                .repair("stale_total", |out| {
                    out.push_display(noted);
                    out.push_display(counted - noted);
                })
                .await?;
        let detail = format!("{noted} stale entries are noted, and there are {counted}");
        self.report.findings.push(Finding { invariant: Invariant::Stale, id: String::new(), detail, repaired });
        Ok(())
    }
}

const _: () = assert!(LEVELS == 10, "examine.lua looks at ten levels");
