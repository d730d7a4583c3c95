//! The defects of one job, found in all that is kept about it. Pure: the same look gives the same judgement.

use super::Invariant;
use crate::format::record::CameBack;
use crate::script::{LEVELS, LookReply};
use crate::value::name::DEFAULT_PRIORITY;

/// How many entries an id has in each ready list.
pub(super) type Entries = [u32; LEVELS as usize];

/// What to look at: an id, perhaps with the member of `delayed` or the business key that led to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Subject {
    pub(super) id: Vec<u8>,
    pub(super) member: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl Subject {
    pub(super) fn of(id: &[u8]) -> Self {
        Self { id: id.to_vec(), ..Self::default() }
    }

    /// The job that a member of `delayed` means; the member is kept.
    pub(super) fn of_member(member: Vec<u8>) -> Self {
        let end = member.iter().position(|&byte| byte == b'\t').unwrap_or(member.len());
        Self { id: member[..end].to_vec(), member, key: Vec::new() }
    }

    /// As the scripts take it.
    pub(super) fn columns(&self) -> (&[u8], &[u8], &[u8]) {
        (&self.id, &self.member, &self.key)
    }

    /// The member of `delayed`, as a finding has it.
    fn shown_member(&self) -> String {
        format!("{:?}", String::from_utf8_lossy(&self.member))
    }

    /// The level that the member of `delayed` names, if it is one.
    pub(super) fn member_level(&self) -> Option<u8> {
        match self.member.get(self.id.len()..)? {
            [] => Some(DEFAULT_PRIORITY),
            [b'\t', digit @ b'0'..=b'9'] => Some(digit - b'0'),
            _ => None,
        }
    }
}

/// All that is kept about a subject, as `examine.lua` gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look(pub(super) LookReply);

impl Look {
    fn is(&self, at: usize) -> bool {
        !self.0[at].is_empty()
    }

    /// Of its record.
    pub(super) fn record_bytes(&self) -> usize {
        String::from_utf8_lossy(&self.0[0]).parse().unwrap_or(0)
    }

    fn has_record(&self) -> bool {
        self.is(0)
    }

    pub(super) fn level(&self) -> Option<u8> {
        self.0[1].first().map(|digit| digit.wrapping_sub(b'0')).filter(|&level| level < LEVELS)
    }

    fn own_key(&self) -> &[u8] {
        &self.0[2]
    }

    fn is_delayed(&self) -> bool {
        self.is(3)
    }

    fn in_reserved(&self) -> bool {
        self.is(4)
    }

    fn has_token(&self) -> bool {
        self.is(5)
    }

    fn is_failed(&self) -> bool {
        self.is(6)
    }

    fn note(&self) -> &[u8] {
        &self.0[7]
    }

    fn holder(&self) -> &[u8] {
        &self.0[8]
    }

    fn stale(&self, level: u8) -> i64 {
        by_level(&self.0[9])[usize::from(level)]
    }

    /// The entries in the ready lists, if they were counted.
    pub(super) fn entries(&self) -> Entries {
        by_level(&self.0[15]).map(|count| u32::try_from(count).unwrap_or(0))
    }

    fn member_is_there(&self) -> bool {
        self.is(10)
    }

    fn is_parked(&self) -> bool {
        self.is(12)
    }

    /// Parked where no reserve looks: under a number that no limit has.
    fn is_parked_away(&self) -> bool {
        self.0[12] == b"2"
    }

    fn place(&self) -> &[u8] {
        &self.0[13]
    }

    /// The number of its name, if that has a limit.
    fn number(&self) -> &[u8] {
        &self.0[14]
    }

    fn holder_of_given_key(&self) -> &[u8] {
        &self.0[11]
    }

    /// The member of `delayed` that this job has when it is delayed.
    fn right_member(&self, id: &[u8]) -> Vec<u8> {
        match self.level() {
            Some(level) if level != DEFAULT_PRIORITY => [id, b"\t", &[b'0' + level][..]].concat(),
            _ => id.to_vec(),
        }
    }
}

/// `<level>=<number>`, joined by commas.
fn by_level(text: &[u8]) -> [i64; LEVELS as usize] {
    let mut counts = [0; LEVELS as usize];
    for pair in String::from_utf8_lossy(text).split(',') {
        let pair =
            pair.split_once('=').and_then(|(level, count)| Some((level.parse::<usize>().ok()?, count.parse().ok()?)));
        if let Some((level, count)) = pair
            && level < counts.len()
        {
            counts[level] = count;
        }
    }
    counts
}

/// A step of `repair.lua`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mend {
    ToReady,
    ToFailed,
    Reclaim,
    DropLease,
    DropDelayed,
    DropMember,
    RenameDelayed,
    DropFailed,
    DropParked,
    Unpark,
    TakePlace,
    DropPlace,
    CountStale { level: u8, amount: i64 },
    TakeKey,
    DropKey,
    FreeKey,
    DropNote,
}

impl Mend {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ToReady => "to_ready",
            Self::ToFailed => "to_failed",
            Self::Reclaim => "reclaim",
            Self::DropLease => "drop_lease",
            Self::DropDelayed => "drop_delayed",
            Self::DropMember => "drop_member",
            Self::RenameDelayed => "rename_delayed",
            Self::DropFailed => "drop_failed",
            Self::DropParked => "drop_parked",
            Self::Unpark => "unpark",
            Self::TakePlace => "take_place",
            Self::DropPlace => "drop_place",
            Self::CountStale { .. } => "count_stale",
            Self::TakeKey => "take_key",
            Self::DropKey => "drop_key",
            Self::FreeKey => "free_key",
            Self::DropNote => "drop_note",
        }
    }
}

/// One thing that is wrong with a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Defect {
    pub(super) invariant: Invariant,
    pub(super) detail: String,
    pub(super) mend: Option<Mend>,
}

/// What is wrong with one job. `undecodable`: why its record cannot be decoded.
pub(super) fn judge(subject: &Subject, look: &Look, entries: &Entries, undecodable: Option<&str>) -> Vec<Defect> {
    let mut defects = Defects(Vec::new());
    if look.has_record() {
        judge_states(&mut defects, subject, look, entries, undecodable);
        judge_place(&mut defects, look);
        judge_key_of_job(&mut defects, subject, look);
        if look.is(7) && CameBack::decode(look.note()).is_err() {
            defects.add(Invariant::Returned, "what is kept beside it cannot be read", Some(Mend::DropNote));
        }
        if let Some(reason) = undecodable
            && !look.is_failed()
        {
            defects.add(Invariant::Decodable, reason, None);
        }
    } else {
        judge_leftovers(&mut defects, subject, look, entries);
    }
    let holds = look.holder_of_given_key() == subject.id;
    let carries = look.has_record() && look.own_key() == subject.key;
    if !subject.key.is_empty() && holds && !carries {
        let key = String::from_utf8_lossy(&subject.key);
        defects.add(
            Invariant::Key,
            format!("the key '{key}' points to a job that does not carry it"),
            Some(Mend::DropKey),
        );
    }
    defects.0
}

struct Defects(Vec<Defect>);

impl Defects {
    fn add(&mut self, invariant: Invariant, detail: impl Into<String>, mend: Option<Mend>) {
        self.0.push(Defect { invariant, detail: detail.into(), mend });
    }
}

/// A job is in one state; where it is in several, the one that can lose least stays: reserved, delayed, failed, ready.
fn judge_states(defects: &mut Defects, subject: &Subject, look: &Look, entries: &Entries, undecodable: Option<&str>) {
    let one = Invariant::OneState;
    let right_member = look.right_member(&subject.id);
    let odd_member = !subject.member.is_empty() && look.member_is_there() && subject.member != right_member;
    let reserved = look.in_reserved() && look.has_token();
    let half_lease = look.in_reserved() != look.has_token();
    let own = look.level().unwrap_or(DEFAULT_PRIORITY);
    let elsewhere = reserved || look.is_delayed() || look.is_failed() || odd_member;
    let has_live_entry = i64::from(entries[usize::from(own)]) > look.stale(own);

    if half_lease {
        let detail = if look.has_token() { "a lease without an end" } else { "the end of a lease without a token" };
        let mend = if elsewhere || has_live_entry || look.is_parked() { Mend::DropLease } else { Mend::Reclaim };
        defects.add(Invariant::Lease, detail, Some(mend));
    }
    if look.is_delayed() && reserved {
        defects.add(one, "delayed while it is reserved", Some(Mend::DropDelayed));
    }
    if odd_member {
        let mend = if reserved || look.is_delayed() { Mend::DropMember } else { Mend::RenameDelayed };
        let detail = format!("delayed under the member {}, which is not its own", subject.shown_member());
        defects.add(Invariant::Member, detail, Some(mend));
    }
    if look.is_failed() && (reserved || look.is_delayed() || odd_member) {
        defects.add(one, "failed and in another state", Some(Mend::DropFailed));
    }

    if look.is_parked() {
        if elsewhere || has_live_entry {
            defects.add(one, "held back by a limit of its name and in another state", Some(Mend::DropParked));
        } else if look.is_parked_away() {
            defects.add(Invariant::Place, "held back by a limit that there is not", Some(Mend::Unpark));
        }
    }

    for level in 0..LEVELS {
        let may_be_ready = level == own && !elsewhere && !half_lease && !look.is_parked();
        let (found, stale) = (i64::from(entries[usize::from(level)]), look.stale(level));
        let live = found - stale;
        let set_live = |live_now: i64| Some(Mend::CountStale { level, amount: live - live_now });
        if live < 0 || (may_be_ready && live == 0 && found > 0) {
            let detail = format!("{stale} entries are counted as stale of {found} in the ready list {level}");
            defects.add(Invariant::Stale, detail, set_live(i64::from(may_be_ready && found > 0)));
        }
        if may_be_ready && found == 0 {
            let mend = if undecodable.is_some() { Mend::ToFailed } else { Mend::ToReady };
            defects.add(one, "in no state", Some(mend));
        }
        let allowed = i64::from(level == own && !elsewhere);
        if live > allowed {
            let detail = if allowed == 0 {
                format!("an entry of the ready list {level} while it is in another state")
            } else {
                format!("{live} entries of the ready list {level}")
            };
            defects.add(one, detail, set_live(allowed));
        }
    }
}

/// A reserved job whose name has a limit has a place, and only such a job.
fn judge_place(defects: &mut Defects, look: &Look) {
    let reserved = look.in_reserved() && look.has_token();
    let half_lease = look.in_reserved() != look.has_token(); // whose mending gives the place back
    if !look.place().is_empty() && !reserved && !half_lease {
        defects.add(Invariant::Place, "holds a place of its name and is not reserved", Some(Mend::DropPlace));
    } else if reserved && !look.number().is_empty() && look.place() != look.number() {
        let detail = "is reserved and holds no place, though its name has a limit";
        defects.add(Invariant::Place, detail, Some(Mend::TakePlace));
    }
}

/// What is left of a job that is no more.
fn judge_leftovers(defects: &mut Defects, subject: &Subject, look: &Look, entries: &Entries) {
    if look.member_is_there() {
        let detail = format!("the entry {} of delayed without a record", subject.shown_member());
        defects.add(Invariant::Record, detail, Some(Mend::DropMember));
    }
    if look.in_reserved() || look.has_token() {
        defects.add(Invariant::Record, "a lease without a record", Some(Mend::DropLease));
    }
    if look.is_failed() {
        defects.add(Invariant::Record, "an entry of failed without a record", Some(Mend::DropFailed));
    }
    if look.is_parked() {
        defects.add(Invariant::Record, "held back by a limit, without a record", Some(Mend::DropParked));
    }
    if !look.place().is_empty() && !look.in_reserved() && !look.has_token() {
        defects.add(Invariant::Place, "a place without a record", Some(Mend::DropPlace));
    }
    if look.is(7) {
        defects.add(Invariant::Returned, "what came back is kept without a record", Some(Mend::DropNote));
    }
    for level in 0..LEVELS {
        let (found, stale) = (i64::from(entries[usize::from(level)]), look.stale(level));
        let mend = Some(Mend::CountStale { level, amount: found - stale });
        if found > stale {
            let detail = format!("an entry of the ready list {level} without a record");
            defects.add(Invariant::Record, detail, mend);
        } else if found < stale {
            let detail = format!("{stale} entries are counted as stale of {found} in the ready list {level}");
            defects.add(Invariant::Stale, detail, mend);
        }
    }
}

/// A live job that has a key holds it; a failed one has given it free.
fn judge_key_of_job(defects: &mut Defects, subject: &Subject, look: &Look) {
    let (holds, held) = (look.holder() == subject.id, !look.holder().is_empty());
    if look.own_key().is_empty() {
        return;
    }
    if look.is_failed() && !look.in_reserved() && !look.is_delayed() {
        if holds {
            defects.add(Invariant::Key, "failed, and still holds its key", Some(Mend::FreeKey));
        }
    } else if !held {
        defects.add(Invariant::Key, "does not hold its key", Some(Mend::TakeKey));
    } else if !holds {
        defects.add(Invariant::Key, "another job holds its key", None);
    }
}
