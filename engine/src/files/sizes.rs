//! Sizes of files that grow, where the end of a process does not reach them.
//!
//! A write behind the end of a file makes it longer, and once the write is acknowledged the size
//! must survive even a kill of the engine in the next moment. A commit of the catalog makes it
//! permanent, but takes several times as long as the write. So a size that grows is first kept in
//! words that outlive the process ([`World::surviving_words`]), and stored in the catalog with the
//! times: once a second, by a sync, before the file is cut, and when the group is dismounted. As
//! with pending pieces, a loss of power loses it, and only a sync promises more.
//!
//! ```text
//!   word 0   the kind of these words
//!   1, 2     the boot of the host in which they were written
//!   3        the catalog's token, of the mount that writes them
//!   8 ...    a file and its size, two words each; file 0: free
//! ```
//!
//! Each mount gives the catalog another token. The words count for a mount if it finds their token
//! in the catalog: then no other mount can have changed a file since. The sizes in them become part
//! of the commit that changes the token.
//!
//! Invariants, at each instruction:
//!
//!   1. A file's size in the catalog or in its words, whichever is larger, is at least every size
//!      that was acknowledged.
//!   2. A file's words are free before a job that makes it shorter begins; they become so after a
//!      commit with its size.
//!   3. A size is stored before its file: no reader of the words finds a file with another file's
//!      size.

use super::{File, Result, Stored};
use crate::{
    catalog::tables::{self, counter, counter::Counter},
    extent::layout::FILE_SIZE_MAX,
    planted::{self, Bug},
    reached::{self, Mark},
    sync::lock::Mutex,
    world::{SurvivingWords, World},
};
use plinth_format::GroupId;
use rusqlite::Connection;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
};

/// "PLSIZES" and a version: words of another kind are ignored, and written anew.
const KIND: u64 = u64::from_be_bytes(*b"PLSIZES\x01");
const KIND_AT: usize = 0;
const BOOT_AT: usize = 1;
const TOKEN_AT: usize = 3;
const PLACES_AT: usize = 8;

/// Words that a group needs: room for 4,092 files that grow within a second. Others commit, as all
/// would without.
pub const WORDS: usize = 8192;

/// Where the size of a file is kept among the words, counted from 1; 0: nowhere.
#[derive(Debug, Default)]
pub(super) struct KeptSize(AtomicU32);

impl KeptSize {
    pub fn is_some(&self) -> bool {
        self.0.load(SeqCst) != 0
    }
}

/// See the module's description.
pub struct Sizes {
    words: Option<Arc<dyn SurvivingWords>>,
    /// The words as they were when this mount began.
    found: Vec<u64>,
    /// The token of this mount, never 0.
    token: u64,
    free: Mutex<Vec<u32>>,
    /// How many there are, used or free.
    places: AtomicUsize,
}

/// Where a place's file is; its size is behind it.
fn at(place: u32) -> usize {
    PLACES_AT + (place as usize - 1) * 2
}

impl Sizes {
    /// The sizes that this host keeps for a group. None is kept before [`Self::begun`].
    ///
    /// # Errors
    /// If something is kept and cannot be read: what was acknowledged may be in it.
    pub fn open(world: &dyn World, group: GroupId) -> io::Result<Self> {
        let words = world.surviving_words(&group.to_string(), WORDS)?;
        let mut token = [0; 8];
        world.random(&mut token);
        // The catalog's numbers have a sign.
        let token = (u64::from_ne_bytes(token) >> 1) | 1;
        let found = words.as_deref().map_or_else(|| Ok(Vec::new()), SurvivingWords::words)?;
        let mut sizes =
            Self { words, found, token, free: Mutex::default(), places: AtomicUsize::new(0) };
        let boot = world.boot_id();
        let (high, low) = boot.split_at(8);
        if sizes.found.len() < PLACES_AT + 2 || sizes.prepare([number(high), number(low)]).is_err()
        {
            sizes.words = None;
        }
        Ok(sizes)
    }

    /// Empties words of another kind, or of another boot.
    fn prepare(&mut self, boot: [u64; 2]) -> io::Result<()> {
        let Some(words) = self.words.clone() else { return Ok(()) };
        if self.found[KIND_AT] == KIND && self.found[BOOT_AT..BOOT_AT + 2] == boot {
            return Ok(());
        }
        words.store(TOKEN_AT, 0)?;
        for at in
            (PLACES_AT..self.found.len()).filter(|at| self.found[*at] != 0).collect::<Vec<_>>()
        {
            words.store(at, 0)?;
            self.found[at] = 0;
        }
        words.store(BOOT_AT, boot[0])?;
        words.store(BOOT_AT + 1, boot[1])?;
        self.found[TOKEN_AT] = 0;
        words.store(KIND_AT, KIND)
    }

    /// Inside a job, the first of a mount: gives files the sizes that were kept, if they
    /// `survived`, and the catalog another token. How many files were longer than in the catalog.
    ///
    /// # Errors
    /// If the catalog fails.
    pub fn restore(&self, connection: &Connection, survived: bool) -> Result<usize> {
        let token = counter::value(connection, Counter::SizesToken)?.unwrap_or(0);
        let mut restored = 0;
        if self.words.is_some() && survived && token != 0 && self.found[TOKEN_AT] == token {
            restored = tables::file::grow(connection, self.kept())?;
            if restored > 0 {
                reached::at(Mark::SizeRestored);
            }
        }
        counter::set(connection, Counter::SizesToken, self.token)?;
        Ok(restored)
    }

    /// Files and their sizes, as they were found.
    fn kept(&self) -> impl Iterator<Item = (u64, u64)> {
        let pairs = self.found[PLACES_AT..].chunks_exact(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(|(node, size)| *node != 0 && *size <= FILE_SIZE_MAX)
    }

    /// The job of [`Self::restore`] is committed: from here on sizes are kept.
    pub fn begun(&self) {
        let Some(words) = &self.words else { return };
        let count = (self.found.len() - PLACES_AT) / 2;
        let places = 1..=u32::try_from(count).unwrap_or(u32::MAX);
        // The commit has the sizes that are cleared here, and no word counts before the token does.
        // If that fails no size is kept.
        let mut used = places
            .clone()
            .filter(|place| self.found[at(*place)] != 0 && !planted::has(Bug::WordsStay));
        let is_begun = used
            .try_for_each(|place| words.store(at(place), 0))
            .and_then(|()| words.store(TOKEN_AT, self.token));
        if is_begun.is_ok() {
            self.free.lock().extend(places.rev());
            self.places.store(count, SeqCst);
        }
    }

    /// Whether some file may be longer than in the catalog.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.free.lock().len() < self.places.load(SeqCst)
    }

    /// Whether a file's size could be kept now.
    #[must_use]
    pub fn has_room(&self, file: &File) -> bool {
        file.kept.is_some() || !self.free.lock().is_empty()
    }

    /// A file's bytes up to `end` are on the disks: sets its size, which then survives unless the
    /// host loses its memory. False: the size cannot be kept here, and must be committed to the
    /// catalog.
    #[must_use]
    pub fn grow(&self, file: &File, end: u64) -> bool {
        let Some(words) = &self.words else { return false };
        let mut attributes = file.attributes();
        if end <= file.sure() {
            return true;
        }
        let place = file.kept.0.load(SeqCst);
        if place != 0 {
            if !planted::has(Bug::LaterGrowthNotKept) && words.store(at(place) + 1, end).is_err() {
                return false;
            }
        } else {
            let Some(place) = self.free.lock().pop() else {
                reached::at(Mark::SizeWithoutRoom);
                return false;
            };
            let stored =
                words.store(at(place) + 1, end).and_then(|()| words.store(at(place), file.node));
            if stored.is_err() {
                self.free.lock().push(place);
                return false;
            }
            file.kept.0.store(place, SeqCst);
        }
        reached::at(Mark::SizeKept);
        // A commit in progress may have made it longer already.
        attributes.size = attributes.size.max(end);
        file.record_durable_size(end);
        file.dirty.store(true, SeqCst);
        true
    }

    /// The size of a file is committed: its words are free, unless it has grown since, or was cut
    /// and perhaps grew again.
    pub(crate) fn let_go(&self, file: &File, stored: Stored) {
        let attributes = file.attributes();
        let is_stored = attributes.size <= stored.size || planted::has(Bug::GrownLetGo);
        if is_stored && (file.cuts.load(SeqCst) == stored.cuts || planted::has(Bug::CutNotSeen)) {
            file.record_durable_size(attributes.size);
            self.release(file);
        }
    }

    /// The deletion of a file is committed.
    pub(super) fn forget(&self, file: &File) {
        let _attributes = file.attributes();
        self.release(file);
    }

    /// With the attributes of the file locked.
    fn release(&self, file: &File) {
        let Some(words) = &self.words else { return };
        let place = file.kept.0.load(SeqCst);
        if place != 0 && words.store(at(place), 0).is_ok() {
            file.kept.0.store(0, SeqCst);
            self.free.lock().push(place);
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
