//! Reading a whole queue in pages, and suspecting whatever does not fit.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::Audit;
use super::judge::{Entries, Subject};
use crate::format::record::Record;
use crate::script;
use crate::script::{Key, LEVELS, Levels};
use crate::value::error::{Error, ErrorKind};

/// Of the score of a parked job, so many bits are its turn; before them stands its level.
const TURN_BITS: u32 = 42;
/// How many values a page of a hash or sorted set has.
const PAGE: usize = 500;
/// How many entries of a ready list are read at once: a server needs about a millisecond for them.
const LIST_PAGE: usize = 10_000;
/// About this many bytes of records are read in one page.
const PAGE_BYTES: usize = 1024 * 1024;

/// How many entries each id has in each ready list. Ids are kept as hashes of 64 random-seeded bits: a queue may have millions.
#[derive(Default)]
pub(super) struct ListEntries {
    /// How many pages each list had.
    pages: [usize; LEVELS as usize],
    seen: [HashMap<u64, u32>; LEVELS as usize],
    hasher: RandomState,
}

impl ListEntries {
    fn add(&mut self, level: u8, id: &[u8]) {
        *self.seen[usize::from(level)].entry(self.hasher.hash_one(id)).or_default() += 1;
    }

    pub(super) fn of(&self, id: &[u8]) -> Entries {
        let hash = self.hasher.hash_one(id);
        std::array::from_fn(|level| self.seen[level].get(&hash).copied().unwrap_or(0))
    }
}

impl Audit {
    /// Reads everything once and fills the suspects. Gives the levels in which `delayed` and `parked` have jobs.
    pub(super) async fn walk(&mut self) -> Result<Levels, Error> {
        let lists = self.read_lists(None).await?;
        self.screen_lists(&lists).await?;
        let mut pages = Pages::default();
        while let Some(page) = self.scan(Key::Jobs, &mut pages).await? {
            self.report.jobs += page.len() as u64 / 2;
            for record in page.chunks_exact(2) {
                let id = String::from_utf8_lossy(&record[0]);
                if let Err(error) = Record::decode(&id, &record[1], None) {
                    self.undecodable.insert(record[0].clone(), error.to_string());
                }
            }
            self.screen(page.chunks_exact(2).map(|record| Subject::of(&record[0])).collect(), &lists).await?;
        }
        let mut levels = Levels::from_bits(0);
        let mut pages = Pages::default();
        while let Some(page) = self.scan(Key::Delayed, &mut pages).await? {
            let subjects: Vec<_> = page.chunks_exact(2).map(|entry| Subject::of_member(entry[0].clone())).collect();
            for level in subjects.iter().filter_map(Subject::member_level) {
                levels = levels.with(Levels::one(level));
            }
            self.screen(subjects, &lists).await?;
        }
        for key in
            [Key::Reserved, Key::Leases, Key::Failed, Key::Returned, Key::Keys, Key::Stale, Key::Parked, Key::Places]
        {
            let mut pages = Pages::default();
            while let Some(page) = self.scan(key, &mut pages).await? {
                if key == Key::Parked {
                    let parked = page.chunks_exact(2).filter_map(|pair| level_of_parked(&pair[1]));
                    levels = parked.fold(levels, |levels, level| levels.with(Levels::one(level)));
                }
                let subjects = page.chunks_exact(2).map(|pair| match key {
                    Key::Keys => Subject { id: pair[1].clone(), key: pair[0].clone(), member: Vec::new() },
                    // `<level>:<id>`
                    Key::Stale => Subject::of(pair[0].get(2..).unwrap_or_default()),
                    _ => Subject::of(&pair[0]),
                });
                self.screen(subjects.collect(), &lists).await?;
            }
        }
        Ok(levels)
    }

    async fn screen(&mut self, subjects: Vec<Subject>, lists: &ListEntries) -> Result<(), Error> {
        let looks = self.examine(&subjects).await?;
        for (subject, look) in subjects.into_iter().zip(looks) {
            if self.judge(&subject, &look, &lists.of(&subject.id)).is_empty() {
                // Not wrong; and what is not wrong need not be remembered.
                continue;
            }
            self.suspects.insert(subject);
        }
        Ok(())
    }

    /// How many entries each job has in the ready lists; or only these.
    ///
    /// From the end to the head: workers take from the head, and nothing moves an entry towards the end, so one that stays is
    /// never missed. What is pushed meanwhile moves entries away from the end, and some into the next page again.
    pub(super) async fn read_lists(&mut self, only: Option<&[Subject]>) -> Result<ListEntries, Error> {
        let only: Option<HashSet<&[u8]>> =
            only.map(|subjects| subjects.iter().map(|subject| subject.id.as_slice()).collect());
        let mut lists = ListEntries::default();
        for level in 0..LEVELS {
            for page_number in 0.. {
                let page = self.list_page(level, page_number * LIST_PAGE, LIST_PAGE).await?;
                lists.pages[usize::from(level)] = page_number + 1;
                for id in page.iter().filter(|id| only.as_ref().is_none_or(|only| only.contains(id.as_slice()))) {
                    lists.add(level, id);
                }
                if only.is_none() {
                    self.report.entries += page.len() as u64;
                }
                if page.len() < LIST_PAGE {
                    break;
                }
            }
        }
        Ok(lists)
    }

    /// Suspects entries that do not belong into the ready lists. Those that move meanwhile have records, and are met there. A list that
    /// grows more quickly than this looks at it is left at twice its length: else it might never end.
    async fn screen_lists(&mut self, lists: &ListEntries) -> Result<(), Error> {
        for level in 0..LEVELS {
            for page_number in 0..=2 * lists.pages[usize::from(level)] {
                let page = self.list_page(level, page_number * LIST_PAGE, LIST_PAGE).await?;
                self.screen(page.iter().map(|id| Subject::of(id)).collect(), lists).await?;
                if page.len() < LIST_PAGE {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn list_page(&mut self, level: u8, nearest: usize, count: usize) -> Result<Vec<Vec<u8>>, Error> {
        let look = script::ready_page(&self.queue.shared.keys, level, nearest, count);
        self.command(look).await.and_then(script::byte_strings)
    }

    /// The next page of a hash or sorted set: name, value, name, ... Everything that is there from the beginning to the end
    /// of the walk comes at least once.
    async fn scan(&mut self, key: Key, pages: &mut Pages) -> Result<Option<Vec<Vec<u8>>>, Error> {
        if pages.over {
            return Ok(None);
        }
        let cursor: &[u8] = if pages.cursor.is_empty() { b"0" } else { &pages.cursor };
        let look = script::scan(&self.queue.shared.keys, key, cursor, pages.count);
        let (cursor, page) = self.command(look).await.and_then(script::scanned)?;
        pages.over = cursor == b"0";
        pages.cursor = cursor;
        let bytes: usize = page.iter().map(Vec::len).sum();
        pages.count = (PAGE_BYTES * page.len().max(2) / 2 / bytes.max(1)).clamp(1, PAGE);
        Ok(Some(page))
    }

    async fn command(&mut self, command: script::Command) -> Result<script::Reply, Error> {
        self.report.pages += 1;
        match self.queue.command("audit", command).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => Err(self.queue.name_foreign_key(error).await),
            answer => answer,
        }
    }
}

/// Of a score as `limits/parked.lua` makes it.
fn level_of_parked(score: &[u8]) -> Option<u8> {
    let score: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 53 bits, and never below 0")]
    let score = score as u64;
    u8::try_from((score >> TURN_BITS) % u64::from(LEVELS)).ok()
}

/// Where a scan is.
struct Pages {
    cursor: Vec<u8>,
    over: bool,
    count: usize,
}

impl Default for Pages {
    fn default() -> Self {
        // The first page is small: records may have a megabyte each.
        Self { cursor: Vec::new(), over: false, count: 10 }
    }
}
