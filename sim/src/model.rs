//! The states that a reader may see.
//!
//! Each client has its own directory, and does one thing at a time; so its operations are a
//! sequence. The model keeps, for each sector of each file and for the client's names and sizes,
//! the states that a reader may still meet:
//!
//! ```text
//!   durable base, then one state after each acknowledged operation, then perhaps the one in flight
//!   |<------------- after a loss of power: any of these ------------------------------------>|
//!                                  after the engine's death: only the last, or the one in flight
//!                                  the engine lives: only the last
//! ```
//!
//! An acknowledged `sync` moves the base to where it began. A state that was read after a mount
//! stays. Sectors are independent: each may be old or new. Names are not: they are a prefix of the
//! operations. A size that only grew since it was last durable may lag behind its name.
//!
//! A write that returned an error may have happened or not, like one that was in flight, and may
//! still become either until the sector is read.

use plinth_engine::api::Node;
use plinth_format::BLOCK_SIZE;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

/// The unit in which writes are atomic for the model, in bytes.
pub const SECTOR: usize = 512;

/// The bytes of one sector. Sectors that were written together share memory, and so do clones.
#[derive(Debug, Clone)]
pub struct Content {
    written: Arc<[u8]>,
    /// Where the sector begins in it, in bytes.
    start: usize,
}

impl Content {
    /// The sectors of one write.
    pub fn split(written: &[u8]) -> impl Iterator<Item = Self> {
        let written: Arc<[u8]> = written.into();
        (0..written.len())
            .step_by(SECTOR)
            .map(move |start| Self { written: Arc::clone(&written), start })
    }

    /// The same up to `inside`, and zeros behind.
    pub fn cut_at(&self, inside: usize) -> Self {
        let mut bytes = [0; SECTOR];
        bytes[..inside].copy_from_slice(&self[..inside]);
        Self { written: Arc::new(bytes), start: 0 }
    }
}

impl std::ops::Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.written[self.start..self.start + SECTOR]
    }
}

/// A sector of zeros.
pub fn zeros() -> Content {
    static ZEROS: LazyLock<Content> =
        LazyLock::new(|| Content { written: Arc::new([0; SECTOR]), start: 0 });
    ZEROS.clone()
}

/// A file, whatever its name.
pub type FileId = u64;

/// A place in the sequence of a client's operations.
pub type Turn = u64;

/// The turn of a state that may never have been written: a sync does not make it the durable one.
const NEVER_SURE: Turn = Turn::MAX;

/// Names and sizes: what the catalog says of one client's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(pub BTreeMap<String, (FileId, u64)>);

#[derive(Debug, Clone)]
struct Sector {
    /// From the durable base on. Never empty.
    states: Vec<(Turn, Content)>,
    /// States that may also be seen from now on: of writes that failed.
    maybe: Vec<Content>,
    /// The turn of the last such write.
    failed: Turn,
    /// The state among these that was read: as long as the engine lives, the sector stays so.
    read: Option<Content>,
    /// It may be anything: see [`Model::lose`].
    lost: bool,
}

impl Sector {
    /// It has the state that was acknowledged last.
    fn be_the_last(&mut self) {
        let last = self.states.len() - 1;
        self.states.drain(..last);
        self.read = None;
    }

    /// Whether it was written since a turn.
    fn is_since(&self, turn: Turn) -> bool {
        self.states.last().is_some_and(|(last, _)| *last > turn)
    }

    /// The states that a read may show. `ended`: the turn at the last end of the engine.
    fn possible(&self, when: Seen, ended: Turn) -> Vec<&Content> {
        let only_the_last = match when {
            Seen::Now => true,
            Seen::AfterMount => self.is_since(ended),
            Seen::InDoubt => false,
        };
        let is_settled = only_the_last || (when == Seen::AfterMount && self.failed > ended);
        if let Some(read) = self.read.as_ref().filter(|_| is_settled) {
            return vec![read];
        }
        let from = if only_the_last { self.states.len() - 1 } else { 0 };
        self.states[from..].iter().map(|(_, content)| content).chain(&self.maybe).collect()
    }

    /// Whether a read shows the state that was acknowledged last, and no other is possible: the
    /// fast path of most reads.
    fn is_plain(&self, when: Seen, ended: Turn, bytes: &[u8]) -> bool {
        let is_certain = self.maybe.is_empty()
            && !self.lost
            && self.read.is_none()
            && (when == Seen::Now || self.is_since(ended));
        let last = self.states.last().filter(|_| is_certain && when != Seen::InDoubt);
        last.is_some_and(|(_, content)| content[..bytes.len()] == *bytes)
    }

    /// The file ends inside of it.
    fn end_at(&mut self, inside: usize) {
        let states = self.states.iter_mut().map(|(_, content)| content);
        for content in states.chain(&mut self.maybe).chain(&mut self.read) {
            *content = content.cut_at(inside);
        }
    }

    /// It has one of all states, and until it is read even a sync does not settle which.
    fn be_any(&mut self) {
        let last = self.states.len() - 1;
        self.maybe.extend(self.states.drain(..last).map(|(_, content)| content));
        self.read = None;
    }
}

/// One client's files. See the module's description.
#[derive(Debug)]
pub struct Model {
    zeros: Content,
    turn: Turn,
    next_file: FileId,
    /// From the durable base on. Never empty.
    names: Vec<(Turn, Names)>,
    /// The node of a file, from an acknowledgement: names and sizes alone may be those of another
    /// file.
    nodes: BTreeMap<FileId, Node>,
    /// Files that the system has named.
    named_by_system: BTreeSet<FileId>,
    /// The operation in flight.
    under_way: Option<Names>,
    /// Other names that it may leave, or that may be seen on the way.
    also: Vec<Names>,
    sectors: BTreeMap<FileId, BTreeMap<u64, Sector>>,
    writing: Option<(FileId, Vec<(u64, Content)>)>,
    /// Where that file ended before, in bytes.
    end: u64,
    /// When each file, its name and its size were changed last.
    touched: BTreeMap<FileId, Turn>,
    /// How long each file was since its size was last durable.
    lengths: BTreeMap<FileId, Vec<(Turn, u64)>>,
    /// Not everything has been looked at since the last mount.
    unverified: bool,
    /// The names have not been listed since the last mount.
    unlisted: bool,
    /// The turn at the last end of the engine: operations acknowledged since are certain.
    ended: Turn,
}

/// The time of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// While the engine lives.
    Now,
    /// For the first time since a mount: the state that is seen stays.
    AfterMount,
    /// A flush has failed on a disk that cannot be spared: bytes that were not synced may be old.
    InDoubt,
}

/// A state that a read must not have shown, in words.
pub type Wrong = String;

impl Default for Model {
    fn default() -> Self {
        Self {
            zeros: zeros(),
            turn: 0,
            next_file: 1,
            names: vec![(0, Names::default())],
            nodes: BTreeMap::new(),
            named_by_system: BTreeSet::new(),
            under_way: None,
            also: Vec::new(),
            sectors: BTreeMap::new(),
            writing: None,
            end: 0,
            touched: BTreeMap::new(),
            lengths: BTreeMap::new(),
            unverified: false,
            unlisted: false,
            ended: 0,
        }
    }
}

impl Model {
    /// The names as they are now.
    pub fn names(&self) -> &Names {
        &self.names.last().expect("never empty").1
    }

    pub fn new_file(&mut self) -> FileId {
        self.next_file += 1;
        self.next_file
    }

    /// The node of a file.
    pub fn note_name(&mut self, file: FileId, node: Node) {
        self.nodes.insert(file, node);
    }

    /// The system may have given it a name, too.
    pub fn has_more_names(&mut self, file: FileId) {
        self.named_by_system.insert(file);
    }

    pub fn may_have_more_names(&self, file: FileId) -> bool {
        self.named_by_system.contains(&file)
    }

    fn known(&self, file: FileId, number: u64) -> Option<&Sector> {
        self.sectors.get(&file)?.get(&number)
    }

    /// The sector as it is now, as far as that is known.
    pub fn sector(&self, file: FileId, number: u64) -> Content {
        self.known(file, number).map_or_else(
            || self.zeros.clone(),
            |sector| sector.states.last().expect("never empty").1.clone(),
        )
    }

    /// Whether exactly one state of a sector is possible.
    pub fn is_certain(&self, file: FileId, number: u64) -> bool {
        self.known(file, number).is_none_or(|sector| sector.maybe.is_empty() && !sector.lost)
    }

    /// An operation begins: it will leave these names, and these sectors of a file.
    pub fn begin(&mut self, names: Option<Names>, sectors: Option<(FileId, Vec<(u64, Content)>)>) {
        assert!(self.under_way.is_none() && self.writing.is_none(), "one thing at a time");
        self.turn += 1;
        let size_of = |file: &FileId| {
            self.names().0.values().find(|(other, _)| other == file).map(|(_, size)| *size)
        };
        self.end = sectors.as_ref().and_then(|(file, _)| size_of(file)).unwrap_or(0);
        self.under_way = names;
        self.writing = sectors;
    }

    /// Other names that the operation in flight may leave.
    pub fn may_also_be(&mut self, names: impl IntoIterator<Item = Names>) {
        self.also.extend(names);
    }

    /// Two operations ran together and were acknowledged: `names` is their result, `between` what
    /// was there between them. `writing` has the sectors of both.
    pub fn acknowledge_both(&mut self, between: Names, names: Names, sectors: Vec<(u64, Content)>) {
        let turn = self.turn;
        self.hold(turn, between);
        let Some((file, written)) = self.writing.take() else { return };
        for (number, content) in written {
            self.entry(file, number).states.push((turn, content));
        }
        (self.under_way, self.writing) = (Some(names), Some((file, sectors)));
        self.acknowledge();
    }

    /// The operation returned an error, and these are the names; its sectors may be written or not.
    pub fn refuse_but_are(&mut self, names: Names) {
        self.under_way = Some(names);
        self.refuse_but_named();
    }

    /// The operation was acknowledged.
    pub fn acknowledge(&mut self) {
        let turn = self.turn;
        self.also.clear();
        if let Some(names) = self.under_way.take() {
            self.hold(turn, names);
        }
        if let Some((file, sectors)) = self.writing.take() {
            for (number, content) in sectors {
                let sector = self.entry(file, number);
                // A loss of power may bring back a state below it.
                sector.states.extend(sector.maybe.drain(..).map(|below| (NEVER_SURE, below)));
                sector.states.push((turn, content));
                sector.read = None;
                sector.lost = false;
            }
        }
    }

    /// The operation was acknowledged and has left these sectors; each contested one has this
    /// contents or that of the request beside it.
    pub fn acknowledge_one_of(
        &mut self,
        sectors: Vec<(u64, Content)>,
        contested: Vec<(u64, Content)>,
    ) {
        let Some((file, _)) = self.writing.take() else { return };
        self.writing = Some((file, sectors));
        self.acknowledge();
        let turn = self.turn;
        for (number, content) in contested {
            let sector = self.entry(file, number);
            sector.maybe.push(content);
            sector.failed = turn;
        }
    }

    /// The operation returned an error, and the names did not change.
    pub fn refuse(&mut self) {
        self.under_way = None;
        self.also.clear();
        self.leave_writing_in_doubt();
    }

    /// The sectors of the operation may be written or not.
    fn leave_writing_in_doubt(&mut self) {
        let turn = self.turn;
        if let Some((file, sectors)) = self.writing.take() {
            let end = self.end;
            for (number, content) in sectors {
                let sector = self.entry(file, number);
                // Its bytes behind the end of the file become zeros if another operation makes the
                // file longer.
                let inside =
                    usize::try_from(end.saturating_sub(number * SECTOR as u64)).unwrap_or(SECTOR);
                if (1..SECTOR).contains(&inside) {
                    sector.maybe.push(content.cut_at(inside));
                }
                sector.maybe.push(content);
                sector.failed = turn;
                sector.read = None;
            }
        }
    }

    /// The operation returned an error, but its names are in force: a size that was committed
    /// beside bytes that failed.
    pub fn refuse_but_named(&mut self) {
        let turn = self.turn;
        if let Some(names) = self.under_way.take() {
            self.hold(turn, names);
        }
        self.refuse();
    }

    /// These are the names from now on.
    fn hold(&mut self, turn: Turn, names: Names) {
        let named = names.changed_since(self.names());
        self.touched.extend(named.into_iter().map(|file| (file, turn)));
        for (file, size) in names.0.values() {
            let lengths = self.lengths.entry(*file).or_default();
            if lengths.last().is_none_or(|(_, last)| last != size) {
                lengths.push((turn, *size));
            }
        }
        self.names.push((turn, names));
    }

    /// Whether a file may have this size after a loss of power, with the names of a turn: its size
    /// then, or one before it grew to that.
    fn may_lag(&self, file: FileId, turn: Turn, size: u64) -> bool {
        let before =
            self.lengths.get(&file).into_iter().flatten().rev().filter(|(since, _)| *since <= turn);
        let mut longest = u64::MAX;
        before
            .map_while(|(_, length)| {
                let grew = *length <= longest;
                longest = *length;
                grew.then_some(*length)
            })
            .any(|length| length == size)
    }

    /// Every file has exactly its last size, durably.
    fn settle_lengths(&mut self) {
        let turn = self.turn;
        self.lengths =
            self.names().0.values().map(|(file, size)| (*file, vec![(turn, *size)])).collect();
    }

    /// The names that the operation in flight would leave.
    pub fn next_names(&self) -> Option<&Names> {
        self.under_way.as_ref()
    }

    fn entry(&mut self, file: FileId, number: u64) -> &mut Sector {
        let zeros = &self.zeros;
        self.sectors.entry(file).or_default().entry(number).or_insert_with(|| Sector {
            states: vec![(0, zeros.clone())],
            maybe: Vec::new(),
            failed: 0,
            read: None,
            lost: false,
        })
    }

    /// The turn that a sync which begins now will make durable.
    pub fn turn(&self) -> Turn {
        self.turn
    }

    /// A sync of this file that began at `turn` was acknowledged: its sectors are durable, and all
    /// names up to there. Only those up to the file's last change if flushes fail: then operations
    /// on other files that were in flight are uncertain.
    pub fn synced(&mut self, file: Option<FileId>, turn: Turn, flushes_fail: bool) {
        let last = file.filter(|_| flushes_fail).and_then(|file| self.touched.get(&file));
        let upto = last.map_or(turn, |last| turn.min(*last));
        keep_from(&mut self.names, upto);
        if let Some(lengths) = file.and_then(|file| self.lengths.get_mut(&file)) {
            keep_from(lengths, upto);
        }
        if let Some(sectors) = file.and_then(|file| self.sectors.get_mut(&file)) {
            sectors.values_mut().for_each(|sector| keep_from(&mut sector.states, turn));
        }
    }

    /// A sync of this file returned an error: the bytes that it was to make durable may be lost,
    /// whatever a later sync returns.
    pub fn sync_failed(&mut self, file: FileId) {
        self.sectors.entry(file).or_default().values_mut().for_each(Sector::be_any);
    }

    /// The engine died, the host did not. `lossy`: a flush had failed on a disk that cannot be
    /// spared, so that bytes that were not synced are as after a loss of power.
    pub fn engine_died(&mut self, lossy: bool) {
        let certain = !lossy && !self.unverified;
        if certain {
            let last = self.names.len() - 1;
            self.names.drain(..last);
            self.settle_lengths();
        }
        self.end_under_way();
        for sector in self.sectors.values_mut().flat_map(BTreeMap::values_mut) {
            if certain {
                sector.be_the_last();
            } else {
                sector.be_any();
            }
        }
        self.forget_what_was_seen();
    }

    /// The power was cut.
    pub fn power_cut(&mut self) {
        self.end_under_way();
        self.sectors.values_mut().flat_map(BTreeMap::values_mut).for_each(Sector::be_any);
        self.forget_what_was_seen();
    }

    fn forget_what_was_seen(&mut self) {
        self.unverified = true;
        self.unlisted = true;
        self.ended = self.turn;
    }

    /// Whether the clients have not looked at everything since the last mount.
    pub fn is_unverified(&self) -> bool {
        self.unverified
    }

    /// Whether the names were not listed since the last mount.
    pub fn is_listed(&self) -> bool {
        !self.unlisted
    }

    /// Everything was looked at.
    pub fn verified(&mut self) {
        self.unverified = false;
    }

    /// All files are gone, with the group that had them.
    pub fn forget(&mut self) {
        let (turn, next_file) = (self.turn, self.next_file);
        *self = Self { turn, next_file, names: vec![(turn, Names::default())], ..Self::default() };
    }

    fn end_under_way(&mut self) {
        let turn = self.turn;
        let names = self.also.drain(..).chain(self.under_way.take());
        self.names.extend(names.map(|names| (turn, names)));
        self.leave_writing_in_doubt();
    }

    /// The group is mounted again, and a listing found these names and sizes. From now on they are
    /// certain.
    ///
    /// # Errors
    /// If they are none of the states that they may be in.
    pub fn found(&mut self, found: &BTreeMap<String, (Node, u64)>) -> Result<(), Wrong> {
        let is_there = |turn: Turn, name: &String, (file, size): &(FileId, u64)| {
            let called = self.nodes.get(file);
            let is_so_long = |there: u64| there == *size || self.may_lag(*file, turn, there);
            found.get(name).is_some_and(|(node, there)| {
                is_so_long(*there) && called.is_none_or(|called| called == node)
            })
        };
        let same = |turn: Turn, names: &Names| {
            names.0.len() == found.len()
                && names.0.iter().all(|(name, file)| is_there(turn, name, file))
        };
        let Some((_, names)) = self.names.iter().rev().find(|(turn, names)| same(*turn, names))
        else {
            let known: Vec<String> = self
                .names
                .iter()
                .map(|(turn, names)| format!("  turn {turn}: {}", names.show()))
                .collect();
            let shown: Vec<String> =
                found.iter().map(|(name, (_, size))| format!("{name} {size}")).collect();
            return Err(format!("found {}; possible were\n{}", shown.join(", "), known.join("\n")));
        };
        let mut names = names.clone();
        for (name, (_, size)) in &mut names.0 {
            *size = found.get(name).map_or(*size, |(_, there)| *there);
        }
        let alive: BTreeMap<FileId, u64> = names.0.values().copied().collect();
        self.nodes.retain(|file, _| alive.contains_key(file));
        self.sectors.retain(|file, _| alive.contains_key(file));
        // Bytes behind the end of a file are zeros, should it grow again.
        for (file, size) in alive {
            let sectors = self.sectors.entry(file).or_default();
            sectors.retain(|number, _| *number < size.div_ceil(SECTOR as u64));
            let inside = usize::try_from(size % SECTOR as u64).expect("below a sector");
            if let Some(last) = sectors.get_mut(&(size / SECTOR as u64)).filter(|_| inside > 0) {
                last.end_at(inside);
            }
        }
        self.names = vec![(self.turn, names)];
        self.settle_lengths();
        self.unlisted = false;
        Ok(())
    }

    /// A disk has lost the last write of a sector, with its checksum: readers see that write, or
    /// this one.
    pub fn may_be(&mut self, file: FileId, number: u64, content: Content) {
        if let Some(sector) =
            self.sectors.get_mut(&file).and_then(|sectors| sectors.get_mut(&number))
        {
            sector.maybe.push(content);
        }
    }

    /// A durable write of these sectors returned an error: its flush has failed, and may have lost
    /// bytes that were never durable, even the zeros around a first write. Sectors that no sync has
    /// covered may have any state: whatever the engine knew of them, they may have the bytes of
    /// this write. The same holds for their neighbours in its first and its last block, which share
    /// one checksum, up to the end of the file at `size`.
    pub fn lose(&mut self, file: FileId, sectors: std::ops::Range<u64>, size: u64) {
        const BLOCK: u64 = (BLOCK_SIZE / SECTOR) as u64;
        let end = sectors.end.next_multiple_of(BLOCK).min(size.div_ceil(SECTOR as u64));
        for number in sectors.start / BLOCK * BLOCK..end {
            let zeros = self.zeros.clone();
            let sector = self.entry(file, number);
            sector.lost |= sector.states.len() > 1 || sector.states[0].1[..] == zeros[..];
        }
    }

    /// A read of whole sectors showed these bytes. From now on they are certain.
    ///
    /// # Errors
    /// If it is none of the states that it may be in.
    pub fn read(
        &mut self,
        file: FileId,
        number: u64,
        bytes: &[u8],
        when: Seen,
    ) -> Result<(), Wrong> {
        let turn = self.turn;
        let Some(sector) = self.sectors.get_mut(&file).and_then(|sectors| sectors.get_mut(&number))
        else {
            let is_right = self.zeros[..bytes.len()] == *bytes;
            return if is_right { Ok(()) } else { Err(wrong(number, bytes, &[&self.zeros])) };
        };
        if sector.is_plain(when, self.ended, bytes) {
            return Ok(());
        }
        let possible = sector.possible(when, self.ended);
        let found = possible
            .iter()
            .find(|content| content[..bytes.len()] == *bytes)
            .map(|found| Content::clone(found));
        let Some(found) = found.or_else(|| {
            Content::split(bytes).next().filter(|_| sector.lost && bytes.len() == SECTOR)
        }) else {
            return if sector.lost { Ok(()) } else { Err(wrong(number, bytes, &possible)) };
        };
        if when == Seen::AfterMount && !sector.is_since(self.ended) && sector.failed <= self.ended {
            // Recovery has made it durable.
            sector.states = vec![(turn, found)];
            sector.maybe.clear();
        } else if when != Seen::InDoubt && (sector.lost || !sector.maybe.is_empty()) {
            sector.read = Some(found);
        }
        Ok(())
    }

    /// A read of a whole sector beside the write that is in flight showed these bytes, which
    /// decides nothing.
    ///
    /// # Errors
    /// If it is none of the states that it may be in, nor what is being written.
    pub fn read_beside(
        &self,
        file: FileId,
        number: u64,
        bytes: &[u8],
        when: Seen,
    ) -> Result<(), Wrong> {
        let sector = self.known(file, number);
        let mut possible =
            sector.map_or_else(|| vec![&self.zeros], |sector| sector.possible(when, self.ended));
        let writing = self.writing.iter().flat_map(|(_, sectors)| sectors);
        possible
            .extend(writing.filter(|(written, _)| *written == number).map(|(_, content)| content));
        let known = possible.iter().any(|content| content[..bytes.len()] == *bytes);
        if known || sector.is_some_and(|sector| sector.lost) {
            Ok(())
        } else {
            Err(wrong(number, bytes, &possible))
        }
    }
}

impl Names {
    /// The files whose names or sizes differ from those there.
    fn changed_since(&self, before: &Self) -> Vec<FileId> {
        // A file may have several names.
        let (mut one, mut other): (BTreeMap<_, Vec<_>>, BTreeMap<_, Vec<_>>) =
            (BTreeMap::new(), BTreeMap::new());
        self.0
            .iter()
            .for_each(|(name, (file, size))| one.entry(*file).or_default().push((name, size)));
        before
            .0
            .iter()
            .for_each(|(name, (file, size))| other.entry(*file).or_default().push((name, size)));
        one.keys()
            .chain(other.keys())
            .filter(|file| one.get(file) != other.get(file))
            .copied()
            .collect()
    }

    /// A file, whatever its names, has another size.
    pub fn resize(&mut self, file: FileId, size: u64) {
        self.0.values_mut().filter(|(other, _)| *other == file).for_each(|(_, old)| *old = size);
    }

    /// How many names a file has.
    pub fn links(&self, file: FileId) -> usize {
        self.0.values().filter(|(other, _)| *other == file).count()
    }

    pub fn show(&self) -> String {
        let all: Vec<String> =
            self.0.iter().map(|(name, (file, size))| format!("{name} {size} (#{file})")).collect();
        all.join(", ")
    }
}

/// Drops the states before the last one that is not younger than `turn`.
fn keep_from<T>(states: &mut Vec<(Turn, T)>, turn: Turn) {
    if let Some(last) = states.iter().rposition(|(since, _)| *since <= turn) {
        states.drain(..last);
    }
}

fn wrong(number: u64, bytes: &[u8], possible: &[&Content]) -> Wrong {
    let known = |content: &&Content| {
        let same = bytes.iter().zip(content.iter()).take_while(|(one, other)| one == other).count();
        format!("{} (the same up to byte {same})", show(content))
    };
    let known: Vec<String> = possible.iter().map(known).collect();
    format!("sector {number} reads {}; possible were {}", show(bytes), known.join(", "))
}

/// The first bytes name the write of a sector.
fn show(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| *byte == 0) {
        return "zeros".to_owned();
    }
    bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
