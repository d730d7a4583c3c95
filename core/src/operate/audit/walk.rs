//! Reading a whole queue in pages, and suspecting whatever does not fit.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::Audit;
use super::judge::{Entries, Subject};
use crate::format::record::Record;
use crate::script;
use crate::script::{Key, LEVELS, Levels};
use crate::value::error::{Error, ErrorKind};

/// How many entries a page has.
const PAGE: usize = 500;
/// About this many bytes of records are read in one page.
const PAGE_BYTES: usize = 1024 * 1024;

/// How many entries each id has in each ready list, and how far from the list's end the last one seen was. Ids are kept as
/// hashes of 64 random-seeded bits: a queue may have millions.
#[derive(Default)]
pub(super) struct ListEntries {
    seen: HashMap<u64, (u32, u32)>,
    hasher: RandomState,
}

impl ListEntries {
    fn add(&mut self, level: u8, id: &[u8], distance: usize) {
        let entry = self.seen.entry(self.hasher.hash_one((level, id))).or_default();
        *entry = (entry.0 + 1, u32::try_from(distance).unwrap_or(u32::MAX));
    }

    pub(super) fn of(&self, id: &[u8]) -> Entries {
        let mut entries = Entries::default();
        if !self.seen.is_empty() {
            for (level, count) in (0..LEVELS).zip(&mut entries) {
                *count = self.seen.get(&self.hasher.hash_one((level, id))).map_or(0, |entry| entry.0);
            }
        }
        entries
    }

    pub(super) fn distance(&self, level: u8, id: &[u8]) -> u32 {
        self.seen.get(&self.hasher.hash_one((level, id))).map_or(1, |entry| entry.1)
    }
}

impl Audit {
    /// Reads everything once and fills the suspects. Gives the levels that members of `delayed` name.
    pub(super) async fn walk(&mut self) -> Result<Levels, Error> {
        let lists = self.read_lists(None).await?;
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
        let mut member_levels = Levels::from_bits(0);
        let mut pages = Pages::default();
        while let Some(page) = self.scan(Key::Delayed, &mut pages).await? {
            let subjects: Vec<_> = page.chunks_exact(2).map(|entry| Subject::of_member(entry[0].clone())).collect();
            for level in subjects.iter().filter_map(Subject::member_level) {
                member_levels = member_levels.with(Levels::one(level));
            }
            self.screen(subjects, &lists).await?;
        }
        for key in
            [Key::Reserved, Key::Leases, Key::Failed, Key::Returned, Key::Keys, Key::Stale, Key::Parked, Key::Places]
        {
            let mut pages = Pages::default();
            while let Some(page) = self.scan(key, &mut pages).await? {
                let subjects = page.chunks_exact(2).map(|pair| match key {
                    Key::Keys => Subject { id: pair[1].clone(), key: pair[0].clone(), member: Vec::new() },
                    // `<level>:<id>`
                    Key::Stale => Subject::of(pair[0].get(2..).unwrap_or_default()),
                    _ => Subject::of(&pair[0]),
                });
                self.screen(subjects.collect(), &lists).await?;
            }
        }
        Ok(member_levels)
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

    /// Reads the ready lists; all of them and suspecting entries that do not belong there, or only what concerns some.
    ///
    /// From the end to the head: workers take from the head, so an entry that stays is never missed. What is pushed
    /// meanwhile moves entries away from the end, and so into the next page again: where a page ends as the page before
    /// began, that is left out.
    pub(super) async fn read_lists(&mut self, only: Option<&[Subject]>) -> Result<ListEntries, Error> {
        let only: Option<HashSet<&[u8]>> =
            only.map(|subjects| subjects.iter().map(|subject| subject.id.as_slice()).collect());
        let mut lists = ListEntries::default();
        for level in 0..LEVELS {
            let mut before: Vec<Vec<u8>> = Vec::new();
            for page_number in 0.. {
                let start = page_number * PAGE;
                let page = self.list_page(level, start).await?;
                let again = (1..=page.len().min(before.len()))
                    .rev()
                    .find(|&count| page[page.len() - count..] == before[..count])
                    .unwrap_or(0);
                let new = &page[..page.len() - again];
                for (at, id) in new.iter().enumerate() {
                    if only.as_ref().is_none_or(|only| only.contains(id.as_slice())) {
                        lists.add(level, id, start + page.len() - at);
                    }
                }
                if only.is_none() {
                    self.report.entries += new.len() as u64;
                    self.screen(new.iter().map(|id| Subject::of(id)).collect(), &lists).await?;
                }
                if page.len() < PAGE {
                    break;
                }
                before = page;
            }
        }
        Ok(lists)
    }

    async fn list_page(&mut self, level: u8, start: usize) -> Result<Vec<Vec<u8>>, Error> {
        let look = script::ready_page(&self.queue.shared.keys, level, start, PAGE);
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

    pub(super) async fn add_up_stale(&mut self) -> Result<i64, Error> {
        let mut counts: HashMap<Vec<u8>, i64> = HashMap::new();
        let mut pages = Pages::default();
        while let Some(page) = self.scan(Key::Stale, &mut pages).await? {
            for pair in page.chunks_exact(2) {
                let count = String::from_utf8_lossy(&pair[1]).parse().unwrap_or(0);
                counts.insert(pair[0].clone(), count);
            }
        }
        Ok(counts.values().sum())
    }

    async fn command(&mut self, command: script::Command) -> Result<script::Reply, Error> {
        self.report.pages += 1;
        match self.queue.command("audit", command).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => Err(self.queue.name_foreign_key(error).await),
            answer => answer,
        }
    }
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
