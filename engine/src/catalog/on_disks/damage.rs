//! Mirrors of the catalog that differ: which page is right, which are repaired, and which are lost.

use super::DiskStore;
use crate::{
    admin::{AdminError, Code, Problem},
    catalog::{
        database_pages,
        store::{CatalogFile, FileName, Store, StoreError},
    },
    event::{Event, Severity},
    planted::{self, Bug},
    reached::{self, Mark},
    sync::buffer::Buffer,
    world::wait_for,
};
use plinth_format::page::{self, PAGE_SIZE};

/// Bytes compared at once.
const STEP: u64 = 1 << 20;
/// Most sentences kept about mended pages, and about lost ones.
const MENDED_MAX: usize = 1000;

impl DiskStore {
    /// The disk that holds a byte of a mirror, in words.
    fn place(&self, file: CatalogFile, mirror: u8, offset: u64) -> String {
        let parts = self.parts(file, mirror, offset, 1).unwrap_or_default();
        parts.first().map_or_else(
            || format!("mirror {mirror}"),
            |part| {
                format!(
                    "disk {} ({}), offset {}",
                    part.member.name(),
                    part.member.path(),
                    part.offset
                )
            },
        )
    }

    fn tell_mended(&self, file: CatalogFile, mirror: u8, offset: u64) {
        let place = self.place(file, mirror, offset);
        let text = format!(
            "{place}: catalog: offset {offset} of the {} was damaged; rewritten from another mirror",
            FileName(file)
        );
        let group = self.voters.current().group_name.clone();
        self.world.event(Event {
            group,
            severity: Severity::Warning,
            disk: None,
            text: text.clone(),
        });
        let mut mended = self.mended.lock();
        if mended.len() < MENDED_MAX {
            mended.push(text);
        }
    }

    /// Records that a page of the database is damaged on each of these mirrors.
    pub(super) fn tell_lost(&self, mirrors: &[u8], offset: u64) {
        let mut lost = self.lost.lock();
        if lost.len() >= MENDED_MAX || lost.contains_key(&offset) {
            return;
        }
        let places: Vec<_> = mirrors
            .iter()
            .map(|mirror| self.place(CatalogFile::Database, *mirror, offset))
            .collect();
        let text = format!(
            "catalog: page {} is damaged on every mirror ({}); restore what does not answer from a backup",
            offset / PAGE_SIZE as u64 + 1,
            places.join("; ")
        );
        lost.insert(offset, text.clone());
        let group = self.voters.current().group_name.clone();
        self.world.event(Event { group, severity: Severity::Alarm, disk: None, text });
    }

    /// Adds to an error the pages of the catalog that were found lost so far: most likely its
    /// cause.
    #[must_use]
    pub fn explain(&self, error: AdminError) -> AdminError {
        let lost = self.lost.lock();
        let Some(first) = lost.values().next() else { return error };
        let more = if lost.len() > 1 {
            format!(", and {} pages more", lost.len() - 1)
        } else {
            String::new()
        };
        AdminError::new(Code::Damaged, format!("{}: {first}{more}", error.message)).hint(
            "attach the disk that has a good mirror, if there is one; if not, make the group again and restore it from a backup",
        )
    }

    /// Takes the sentences about pages that reads found damaged and rewrote since the last call.
    pub fn take_mended(&self) -> Vec<String> {
        std::mem::take(&mut self.mended.lock())
    }

    /// Compares the mirrors of some pages of the database, from `offset` on. Returns the offset of
    /// the next pages. Runs on the catalog's writer thread. Other threads only mend pages.
    ///
    /// A page that is good on no mirror is not used by the database, or the database's own check
    /// finds it. If good copies of a page differ, the catalog uses the one that was written last.
    pub fn compare_mirrors(&self, offset: u64, repair: bool) -> (Vec<Problem>, Option<u64>) {
        let file = CatalogFile::Database;
        let pages = match database_pages(self) {
            Ok(pages) => pages,
            Err(error) => {
                return (
                    vec![Problem { text: format!("catalog: {error}"), repaired: false }],
                    None,
                );
            }
        };
        let end = u64::from(pages) * PAGE_SIZE as u64;
        let length = usize::try_from(end.saturating_sub(offset).min(STEP)).unwrap_or(0);
        if length == 0 {
            return (Vec::new(), None);
        }
        let before = self.current_mirrors(file);
        let read = |mirror: &u8| {
            let copy = self.read_mirror(file, *mirror, offset, length);
            (
                *mirror,
                copy.map_err(|error| format!("{}: {error}", self.place(file, *mirror, offset))),
            )
        };
        let mut copies: Vec<_> = before.keys().map(read).collect();
        // A disk may have been dropped, or gone OFFLINE, and its mirror with it.
        let after = self.current_mirrors(file);
        copies.retain(|(mirror, _)| before.get(mirror) == after.get(mirror));
        let unread = copies.iter().filter_map(|(_, copy)| copy.as_ref().err().cloned());
        let mut problems: Vec<_> = unread.map(|text| Problem { text, repaired: false }).collect();
        for (at, number) in (0..length).step_by(PAGE_SIZE).zip(offset / PAGE_SIZE as u64 + 1..) {
            let range = at..at + PAGE_SIZE;
            let age = |page: &[u8]| {
                u32::try_from(number).ok().and_then(|number| page::written(page, number))
            };
            let page = |copy: &Result<Buffer, String>| {
                copy.as_ref().ok().map(|copy| copy[range.clone()].to_vec())
            };
            let good = copies
                .iter()
                .filter_map(|(_, copy)| page(copy).and_then(|page| Some((age(&page)?, page))));
            let Some((_, source)) =
                good.reduce(|best, other| if other.0 > best.0 { other } else { best })
            else {
                continue;
            };
            for (mirror, copy) in &copies {
                let Some(found) = page(copy).filter(|found| *found != source) else { continue };
                let at = offset + at as u64;
                let what = match age(&found) {
                    Some(_) => "is older than on the other mirror",
                    None => "does not match its checksum",
                };
                let text = format!(
                    "{}: page {number} of the catalog {what}",
                    self.place(file, *mirror, at)
                );
                let is_there = || {
                    self.read_mirror(file, *mirror, at, PAGE_SIZE)
                        .is_ok_and(|found| found[..] == source[..])
                };
                let repaired = repair
                    && self
                        .write_mirror(file, *mirror, at, Buffer::copy_of(&source).share())
                        .is_ok()
                    && is_there();
                problems.push(Problem { text, repaired });
            }
        }
        if repair && problems.iter().any(|problem| problem.repaired) && self.flush().is_err() {
            problems.iter_mut().for_each(|problem| problem.repaired = false);
        }
        (problems, Some(offset + length as u64))
    }

    /// Reads the content of a new mirror: for each page of the database its newest good copy, if
    /// there is one.
    pub(super) async fn read_best(
        &self,
        file: CatalogFile,
        offset: u64,
        length: usize,
    ) -> Result<Buffer, StoreError> {
        let _reading = self.begin_reading();
        let mut best: Option<Buffer> = None;
        let mut tried = 0;
        for mirror in self.mirrors(file) {
            let Some(parts) = self.parts(file, mirror, offset, length) else { continue };
            tried += 1;
            let Ok(buffer) = self.read_parts(&parts, length).await else { continue };
            let Some(best) = &mut best else {
                best = Some(buffer);
                continue;
            };
            if file != CatalogFile::Database {
                continue;
            }
            for (at, number) in (0..length).step_by(PAGE_SIZE).zip(offset / PAGE_SIZE as u64 + 1..)
            {
                let range = at..at + PAGE_SIZE;
                let Ok(number) = u32::try_from(number) else { break };
                if page::written(&buffer[range.clone()], number)
                    > page::written(&best[range.clone()], number)
                {
                    best[range.clone()].copy_from_slice(&buffer[range]);
                }
            }
        }
        best.ok_or(StoreError::NoGoodMirror { file: FileName(file), offset, length, tried })
    }

    /// Rewrites the mirrors that returned wrong bytes to a read. It reads them again under the lock
    /// `turn`, because the catalog may have written there meanwhile. `right`: the bytes that the
    /// first read found.
    pub(super) fn mend(
        &self,
        file: CatalogFile,
        wrong: &[u8],
        offset: u64,
        age: &dyn Fn(&[u8]) -> Option<u64>,
        right: Buffer,
    ) -> Buffer {
        let (_turn, right, wrong) = if planted::has(Bug::PageMendedLate) {
            (None, right, wrong.to_vec())
        } else {
            let turn = wait_for(&*self.world, self.turn.lock());
            let looked = self.look(file, offset, right.len(), age);
            // No copy may be right any more, and `right` may be out of date: nothing is rewritten.
            let Some(now) = looked.right else { return right };
            (Some(turn), now, looked.wrong)
        };
        if wrong.is_empty() {
            return right;
        }
        reached::at(Mark::PageMended);
        let slice = right.share();
        // The caller gets the right bytes even if the rewrite fails: the mirror may be gone by now.
        if wait_for(&*self.world, self.write_to(file, &wrong, &[(offset, slice.clone())])).is_ok() {
            // The other mirror may be the next to be lost.
            let _ = wait_for(&*self.world, self.flush_all());
            let current = self.mirrors(file);
            // A page that cannot be read back is not mended: the next read finds it again, and too
            // many take the disk OFFLINE (`health.rs`).
            let is_there = |mirror: &&u8| {
                let found = self.read_mirror(file, **mirror, offset, slice.len());
                found.is_ok_and(|found| found[..] == slice[..])
            };
            wrong
                .iter()
                .filter(|mirror| current.contains(mirror))
                .filter(is_there)
                .for_each(|mirror| self.tell_mended(file, *mirror, offset));
        }
        Buffer::copy_of(&slice)
    }
}
