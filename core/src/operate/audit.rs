//! Checking the invariants of a queue while it is in use, and mending what is broken.
//!
//! An audit walks the queue in pages, so what it reads belongs to different moments and proves nothing. Whatever looks wrong is a
//! suspect. Most suspects are jobs on the move: a second walk through the ready lists clears them. Of the others all is looked
//! at in one script, with the entries that they have in the ready lists: what is wrong there is a finding. A mend makes the same
//! look, and does nothing if anything of it has changed.

mod judge;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use crate::queue::{Part, Queue};
use crate::script::{
    ByteStrings, Declared, Examine, ExamineWhole, Item, LEVELS, Levels, Repair, RepairReply, WholeReply,
};
use crate::value::error::{Error, ErrorKind};
use judge::{Defect, Entries, Look, Mend, Subject, judge};

/// `examine.lua` stops after this many bytes of records.
const MAX_EXAMINED_BYTES: usize = 4 * 1024 * 1024;
/// `examine.lua` and `repair.lua` take this many ids.
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
    /// Calls that were made. Most are short; one that looks at suspects, or mends, counts their entries in all ready lists.
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
    /// Read in pages; holds a few dozen bytes per ready job in memory. What looks wrong is looked at again in one script, 250 jobs or
    /// 4 MiB of records in a call, which walks through all ready lists: about 0.3 s for a million ready jobs. An orphan goes back to `ready`, or to `failed` if it
    /// cannot be decoded; a broken lease is reclaimed and counts as a failure; entries without a job go; a job in two
    /// states stays in the first of reserved, delayed, failed, ready; wrong counts and keys are put right. Errors: those of
    /// the connection; one behind the first mend says how many there were.
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
            let (report, ended) = part.audit(options).await;
            all.add(report);
            if let Err(error) = ended {
                let mended = all.findings.iter().filter(|finding| finding.repaired).count();
                return Err(match mended {
                    0 => error,
                    _ => error
                        .partly_done(&format!("{mended} of {} findings were mended before that", all.findings.len())),
                });
            }
        }
        Ok(all)
    }
}

impl Part {
    /// What it found, also if it did not come to its end.
    async fn audit(&self, options: AuditOptions) -> (AuditReport, Result<(), Error>) {
        let mut audit = Audit {
            queue: self.with_levels(Levels::ALL),
            options,
            report: AuditReport::default(),
            suspects: BTreeSet::new(),
            undecodable: BTreeMap::new(),
            reported: HashSet::new(),
        };
        let ended = audit.run().await.map_err(self.during("audit"));
        (audit.report, ended)
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
}

/// A suspect that is wrong, as it was seen at one moment.
struct Case {
    subject: Subject,
    look: Look,
    /// What is to be reported, and mended.
    defects: VecDeque<Defect>,
}

impl Audit {
    async fn run(&mut self) -> Result<(), Error> {
        let levels = self.walk().await?;
        self.report.suspects = self.suspects.len() as u64;
        let cases = self.prove().await?;
        self.close(cases).await?;
        self.judge_levels(levels).await?;
        self.judge_stale_total().await
    }

    /// Looks at subjects, each atomically; without the entries that they have in the ready lists.
    async fn examine(&mut self, subjects: &[Subject]) -> Result<Vec<Look>, Error> {
        self.examine_with(subjects, 0).await
    }

    /// And with these. A call walks through all ready lists.
    async fn examine_whole(&mut self, subjects: &[Subject]) -> Result<Vec<Look>, Error> {
        self.examine_with(subjects, 1).await
    }

    async fn examine_with(&mut self, subjects: &[Subject], counts_entries: usize) -> Result<Vec<Look>, Error> {
        let mut looks = Vec::with_capacity(subjects.len());
        while looks.len() < subjects.len() {
            let rest = &subjects[looks.len()..];
            let batch = &rest[..rest.len().min(MAX_EXAMINED)];
            let examine =
                Examine { max_bytes: MAX_EXAMINED_BYTES, counts_entries }.with(batch.iter().map(Subject::columns));
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

    /// The suspects that are wrong.
    async fn prove(&mut self) -> Result<Vec<Case>, Error> {
        let suspects = self.still_suspect().await?;
        let looks = self.examine_whole(&suspects).await?;
        let mut cases = Vec::new();
        for (subject, look) in suspects.into_iter().zip(looks) {
            let defects: VecDeque<_> = self.judge(&subject, &look, &look.entries()).into();
            if !defects.is_empty() {
                cases.push(Case { subject, look, defects });
            }
        }
        // A job that is delayed under a member not its own seems to be in no state when it is looked at without the member: what is
        // wrong with its states, its leases and its entries shows beside the member.
        let misnamed: BTreeSet<Vec<u8>> = cases
            .iter()
            .filter(|case| case.defects.iter().any(|defect| defect.invariant == Invariant::Member))
            .map(|case| case.subject.id.clone())
            .collect();
        for case in &mut cases {
            if case.subject.member.is_empty() && misnamed.contains(&case.subject.id) {
                case.defects.retain(|defect| matches!(defect.invariant, Invariant::Key | Invariant::Returned));
            }
        }
        Ok(cases)
    }

    /// Those of the suspects that look wrong also beside what another walk through the ready lists gives, and did not change meanwhile.
    async fn still_suspect(&mut self) -> Result<Vec<Subject>, Error> {
        let suspects: Vec<Subject> = std::mem::take(&mut self.suspects).into_iter().collect();
        if suspects.is_empty() {
            return Ok(suspects);
        }
        let before = self.examine(&suspects).await?;
        let lists = self.read_lists(Some(&suspects)).await?;
        let after = self.examine(&suspects).await?;
        let looks = before.into_iter().zip(after);
        let still = suspects.into_iter().zip(looks).filter(|(subject, (before, after))| {
            before == after && !self.judge(subject, after, &lists.of(&subject.id)).is_empty()
        });
        Ok(still.map(|(subject, _)| subject).collect())
    }

    /// Reports the cases, and mends them: of each job one defect in each round, and the next as a fresh look shows the job then.
    async fn close(&mut self, mut cases: Vec<Case>) -> Result<(), Error> {
        while !cases.is_empty() {
            let (mut mends, mut touched) = (Vec::new(), HashSet::new());
            for (number, case) in cases.iter_mut().enumerate() {
                // Another way may have led to this job, too.
                if !touched.contains(&case.subject.id)
                    && let Some((finding, mend)) = self.next_mend(case)
                {
                    touched.insert(case.subject.id.clone());
                    mends.push((number, finding, mend));
                }
            }
            for batch in batches(&mends, |(number, _, _)| cases[*number].look.record_bytes()) {
                let items: Vec<_> = batch.iter().map(|&(number, _, mend)| words_of(&cases[number], mend)).collect();
                let outcomes = self.repair("", &items).await?;
                for ((_, finding, _), outcome) in batch.iter().zip(outcomes) {
                    self.report.findings[*finding].repaired = outcome == RepairReply::Done;
                }
            }
            cases.retain(|case| !case.defects.is_empty());
            let subjects: Vec<_> = cases.iter().map(|case| case.subject.clone()).collect();
            let looks = self.examine_whole(&subjects).await?;
            cases.iter_mut().zip(looks).for_each(|(case, look)| case.look = look);
        }
        Ok(())
    }

    /// Reports the next defects of a case, up to one that is to be mended: which finding that is, and how.
    fn next_mend(&mut self, case: &mut Case) -> Option<(usize, Mend)> {
        while let Some(defect) = case.defects.pop_front() {
            let id = String::from_utf8_lossy(&case.subject.id).into_owned();
            // A job that was led to by its id and by its key is one suspect each.
            if !self.reported.insert((defect.invariant.as_str(), id.clone(), defect.detail.clone())) {
                continue;
            }
            let finding = self.report.findings.len();
            let (invariant, detail) = (defect.invariant, defect.detail.clone());
            self.report.findings.push(Finding { invariant, id, detail, repaired: false });
            if !self.options.repair {
                continue;
            }
            // What was mended before may have changed what is to be done about this one.
            let still = self.judge(&case.subject, &case.look, &case.look.entries());
            let same = still.iter().find(|one| one.detail == defect.detail).and_then(|one| one.mend);
            let known = || defect.mend.filter(|_| still.iter().any(|one| one.mend == defect.mend));
            if let Some(mend) = same.or_else(known) {
                return Some((finding, mend));
            }
        }
        None
    }

    async fn repair(&mut self, whole: &'static str, items: &[ByteStrings]) -> Result<Vec<RepairReply>, Error> {
        self.report.pages += 1;
        self.queue.run(Repair { whole }.with(items).during("audit")).await
    }

    async fn repair_whole(&mut self, whole: &'static str, used: Levels) -> Result<bool, Error> {
        let mut words = ByteStrings::default();
        words.push_display(used);
        Ok(self.repair(whole, &[words]).await? == [RepairReply::Done])
    }

    async fn look_at_whole(&mut self) -> Result<WholeReply, Error> {
        self.report.pages += 1;
        self.queue.run(ExamineWhole { max_bytes: MAX_EXAMINED_BYTES, counts_entries: 0 }.with([]).during("audit")).await
    }

    /// Levels only ever grow, and are written in the script that uses one first: one look at them after the use is proof.
    async fn judge_levels(&mut self, in_sets: Levels) -> Result<(), Error> {
        let whole = self.look_at_whole().await?;
        let (Some(noted), Some(used)) = (Levels::parse(&whole.levels), Levels::parse(&whole.used_levels)) else {
            return Ok(());
        };
        // A queue that does not say gets all levels passed, so that nothing is hidden.
        let used = used.with(in_sets);
        if whole.levels.is_empty() || used.with(noted) == noted {
            return Ok(());
        }
        let repaired = self.options.repair && self.repair_whole("levels", used).await?;
        let detail = format!("jobs wait in the levels {used}, but only {noted} are said to be in use");
        self.report.findings.push(Finding { invariant: Invariant::Levels, id: String::new(), detail, repaired });
        Ok(())
    }

    async fn judge_stale_total(&mut self) -> Result<(), Error> {
        let WholeReply { stale_noted: noted, stale_counted: counted, stale_foreign: foreign, .. } =
            self.look_at_whole().await?;
        if noted == Some(counted) && foreign == 0 {
            return Ok(());
        }
        let repaired = self.options.repair && self.repair_whole("stale_total", Levels::from_bits(0)).await?;
        let noted = noted.map_or_else(
            || "what is noted of stale entries is not a number".to_owned(),
            |noted| format!("{noted} stale entries are noted"),
        );
        let foreign = match foreign {
            0 => String::new(),
            _ => format!("; {foreign} of the fields that count them were not written by duly"),
        };
        let detail = format!("{noted}, and there are {counted}{foreign}");
        self.report.findings.push(Finding { invariant: Invariant::Stale, id: String::new(), detail, repaired });
        Ok(())
    }
}

/// As many at once as a call may take, whose records are read twice.
fn batches<T>(mends: &[T], bytes_of: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut batches, mut rest) = (Vec::new(), mends);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take(MAX_EXAMINED).take_while(|mend| {
            bytes += bytes_of(mend);
            bytes <= MAX_EXAMINED_BYTES / 2
        });
        let (batch, behind) = rest.split_at(fitting.count().max(1));
        batches.push(batch);
        rest = behind;
    }
    batches
}

/// What `repair.lua` takes of a case.
fn words_of(case: &Case, mend: Mend) -> ByteStrings {
    let (level, amount) = match mend {
        Mend::CountStale { level, amount } => (level, amount),
        _ => (0, 0),
    };
    let mut words = ByteStrings::default();
    case.subject.columns().append(&mut words);
    words.push(mend.as_str().as_bytes());
    words.push_display(level);
    words.push_display(amount);
    case.look.0.iter().for_each(|seen| words.push(seen));
    words
}

const _: () = assert!(LEVELS == 10, "examine.lua looks at ten levels");
