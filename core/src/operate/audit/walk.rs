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
/// So many entries of a ready list are read again with the next page: as many as a replacement looks through at its end.
const OVERLAP: usize = 100;
/// So often a ready list is read anew that moves too far meanwhile.
const MOST_TRIES: u32 = 5;
/// About this many bytes of records are read in one page.
const PAGE_BYTES: usize = 1024 * 1024;

/// How many entries each id has in each ready list, and how far from the list's end the last one seen was. Ids are kept as
/// hashes of 64 random-seeded bits: a queue may have millions.
#[derive(Default)]
pub(super) struct ListEntries {
    seen: [HashMap<u64, (u32, u32)>; LEVELS as usize],
    hasher: RandomState,
}

impl ListEntries {
    fn add(&mut self, level: u8, id: &[u8], distance: usize) {
        let entry = self.seen[usize::from(level)].entry(self.hasher.hash_one(id)).or_default();
        *entry = (entry.0 + 1, u32::try_from(distance).unwrap_or(u32::MAX));
    }

    fn clear(&mut self, level: u8) {
        self.seen[usize::from(level)].clear();
    }

    pub(super) fn of(&self, id: &[u8]) -> Entries {
        let mut entries = Entries::default();
        let hash = self.hasher.hash_one(id);
        for (seen, count) in self.seen.iter().zip(&mut entries) {
            *count = seen.get(&hash).map_or(0, |entry| entry.0);
        }
        entries
    }

    pub(super) fn distance(&self, level: u8, id: &[u8]) -> u32 {
        self.seen[usize::from(level)].get(&self.hasher.hash_one(id)).map_or(1, |entry| entry.1)
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
    /// meanwhile moves entries away from the end, and so into the next page again; what a replacement takes out of the last hundred
    /// moves them towards it. So each page ends with the first hundred of the page before, and they say where it goes on. If they are
    /// not there, more has moved: then the list is read anew.
    pub(super) async fn read_lists(&mut self, only: Option<&[Subject]>) -> Result<ListEntries, Error> {
        let only: Option<HashSet<&[u8]>> =
            only.map(|subjects| subjects.iter().map(|subject| subject.id.as_slice()).collect());
        let mut lists = ListEntries::default();
        for level in 0..LEVELS {
            let mut tries = 0;
            while !self.read_list(level, only.as_ref(), &mut lists, tries == MOST_TRIES).await? {
                lists.clear(level);
                tries += 1;
            }
        }
        Ok(lists)
    }

    /// Says whether all of it was read: false if it moved too far meanwhile, unless that `is_enough`.
    async fn read_list(
        &mut self,
        level: u8,
        only: Option<&HashSet<&[u8]>>,
        lists: &mut ListEntries,
        is_enough: bool,
    ) -> Result<bool, Error> {
        let (mut before, mut entries) = (Vec::new(), 0);
        for page_number in 0.. {
            let overlap = if page_number == 0 { 0 } else { OVERLAP };
            let nearest = page_number * PAGE - overlap;
            let page = self.list_page(level, nearest, PAGE + overlap).await?;
            let again = seen_again(&page, &before);
            if again.is_none() && !before.is_empty() && !page.is_empty() && !is_enough {
                return Ok(false);
            }
            let new = &page[..page.len() - again.unwrap_or(0)];
            for (at, id) in new.iter().enumerate() {
                if only.is_none_or(|only| only.contains(id.as_slice())) {
                    lists.add(level, id, nearest + page.len() - at);
                }
            }
            if only.is_none() {
                entries += new.len() as u64;
                self.screen(new.iter().map(|id| Subject::of(id)).collect(), lists).await?;
            }
            if page.len() < PAGE + overlap {
                break;
            }
            before = page;
        }
        self.report.entries += entries;
        Ok(true)
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

/// How many entries at the end of this page the one before had: a page goes from the head of a list towards its end, as far as
/// the page before began, and the list may have grown or shrunk since. Nothing if none is known again.
fn seen_again(page: &[Vec<u8>], before: &[Vec<u8>]) -> Option<usize> {
    let has_again = |&count: &usize| {
        let both = count.min(page.len());
        both > 0 && page[page.len() - both..] == before[count - both..count]
    };
    (1..=before.len()).rev().find(has_again).map(|count| count.min(page.len()))
}
