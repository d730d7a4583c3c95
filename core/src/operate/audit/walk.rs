//! Reading a whole queue in pages, and suspecting whatever does not fit.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::Audit;
use super::judge::{Entries, Subject};
use crate::format::record::Record;
use crate::script;
use crate::script::{Key, LEVELS, Levels};
use crate::value::error::{Error, ErrorKind};

/// How many values a page of a hash or sorted set has.
const PAGE: usize = 500;
/// How many entries of a ready list are read at once: a server needs about a millisecond for them.
const LIST_PAGE: usize = 10_000;
/// So many entries of a ready list are read again with the next page.
const OVERLAP: usize = 1000;
/// Fewer are not enough to know where a page goes on.
const LEAST_AGAIN: usize = 100;
/// So often a ready list is read that moves too far meanwhile.
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

    /// How many entries each job has in the ready lists; or only these.
    ///
    /// From the end to the head: workers take from the head, so an entry that stays is never missed. What is pushed
    /// meanwhile moves entries away from the end, and so into the next page again; what a replacement takes out of the last hundred
    /// moves them towards it. So each page ends with the first thousand of the page before, and they say where it goes on. If they are
    /// not there, the list is read anew.
    ///
    /// Errors: `Busy` if it moves too fast. What was not read whole is not judged: a mend would make jobs run twice.
    pub(super) async fn read_lists(&mut self, only: Option<&[Subject]>) -> Result<ListEntries, Error> {
        let only: Option<HashSet<&[u8]>> =
            only.map(|subjects| subjects.iter().map(|subject| subject.id.as_slice()).collect());
        let mut lists = ListEntries::default();
        for level in 0..LEVELS {
            let mut tries = 1;
            while !self.read_list(level, only.as_ref(), &mut lists).await? {
                if tries == MOST_TRIES {
                    let why = format!(
                        "the ready jobs of priority {level} move too fast to be read: nothing of them was judged or mended; \
                         audit again when less is pushed"
                    );
                    return Err(Error::new(ErrorKind::Busy, why));
                }
                lists.clear(level);
                tries += 1;
            }
        }
        Ok(lists)
    }

    /// Says whether all of it was read: false if it moved too far meanwhile.
    async fn read_list(
        &mut self,
        level: u8,
        only: Option<&HashSet<&[u8]>>,
        lists: &mut ListEntries,
    ) -> Result<bool, Error> {
        let (mut before, mut entries) = (Vec::new(), 0);
        for page_number in 0.. {
            let overlap = if page_number == 0 { 0 } else { OVERLAP };
            let nearest = page_number * LIST_PAGE - overlap;
            let page = self.list_page(level, nearest, LIST_PAGE + overlap).await?;
            let again = if page_number == 0 || page.is_empty() { Some(0) } else { seen_again(&page, &before) };
            let Some(again) = again else { return Ok(false) };
            let new = &page[..page.len() - again];
            for (at, id) in new.iter().enumerate() {
                if only.is_none_or(|only| only.contains(id.as_slice())) {
                    lists.add(level, id, nearest + page.len() - at);
                }
            }
            entries += new.len() as u64;
            if page.len() < LIST_PAGE + overlap {
                break;
            }
            before = page;
        }
        if only.is_none() {
            self.report.entries += entries;
        }
        Ok(true)
    }

    /// Suspects entries that do not belong into the ready lists. Those that move meanwhile have records, and are met there.
    async fn screen_lists(&mut self, lists: &ListEntries) -> Result<(), Error> {
        for level in 0..LEVELS {
            for page_number in 0.. {
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
/// the page before began, and the list may have grown or shrunk since. Nothing if that is not known.
///
/// Ids may repeat: of jobs that were replaced in turn each has an entry a round. So it is known only if nothing seems to have moved,
/// or if one answer alone fits.
fn seen_again(page: &[Vec<u8>], before: &[Vec<u8>]) -> Option<usize> {
    let both = |count: usize| count.min(page.len());
    let fits = |&count: &usize| page[page.len() - both(count)..] == before[count - both(count)..count];
    if fits(&OVERLAP.min(before.len())) {
        return Some(both(OVERLAP));
    }
    let least = LEAST_AGAIN.min(page.len());
    let mut fitting = (least..=before.len()).filter(fits);
    let count = fitting.next()?;
    fitting.next().is_none().then(|| both(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
        numbers.map(|number| number.to_string().into_bytes()).collect()
    }

    /// A list of this many entries, the last of which is at its end, as the first two pages read it when so many came at the end
    /// between them, or went.
    fn again(period: usize, moved: isize) -> Option<usize> {
        let entry = |distance: usize| ids(std::iter::once((100_000 - distance) % period)).remove(0);
        let before: Vec<_> = (1..=LIST_PAGE).rev().map(entry).collect();
        let nearest = LIST_PAGE - OVERLAP;
        let old = |distance: usize| distance.saturating_add_signed(-moved);
        let page: Vec<_> = (nearest + 1..=2 * LIST_PAGE).rev().map(|distance| entry(old(distance))).collect();
        seen_again(&page, &before)
    }

    #[test]
    fn a_page_goes_on_where_the_one_before_ended_though_the_list_has_moved() {
        for moved in [0, 1, 900, 8999, -1, -900] {
            assert_eq!(again(1_000_000, moved), Some(OVERLAP.saturating_add_signed(moved)), "{moved}");
        }
        // What is not known is not guessed.
        assert_eq!(again(1_000_000, 9001), None);
        assert_eq!(again(1_000_000, -901), None);
    }

    #[test]
    fn ids_that_repeat_are_not_taken_for_entries_that_were_read() {
        for period in [1, 101, 250, 1500] {
            assert_eq!(again(period, 0), Some(OVERLAP), "{period}");
        }
        assert_eq!(again(250, 7), None, "there is more than one answer");
        let page = ids(0..50);
        let before = ids((0..50).chain(100..10_950));
        assert_eq!(seen_again(&page, &before), Some(50), "workers have taken what was before");
    }
}
