//! A disk group in memory, for tests: what the engine's `Session` promises, without disks.
//!
//! With it the real kernel and the front end can be tried against each other alone. It behaves as ext4 does where
//! the group is to decide (filesystem.rs says where that is).
#![allow(clippy::unused_async)]

use plinth_engine::{
    api::{
        Allocate, Attributes, Caller, Changes, Entry, FileSystemSpace, Kind, LINK_MAX, NewFile,
        Node, ROOT, RenameMode, Seek, SetTime, SetXattr,
    },
    error::FileError,
    files::reply_cache::DoneBefore,
    sync::{
        buffer::Buffer,
        transfer::{Found, Source},
    },
    world::Timestamp,
};
use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard},
    task::Poll,
    time::SystemTime,
};

type Result<T> = std::result::Result<T, FileError>;

const PAGE: u64 = 4096;
const SIZE_MAX: u64 = 16 << 40;

struct File {
    attributes: Attributes,
    pages: BTreeMap<u64, Box<[u8]>>,
    entries: BTreeMap<Vec<u8>, (Node, u64)>,
    parent: Node,
    target: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    references: u64,
}

#[derive(Default)]
pub struct State {
    files: BTreeMap<Node, File>,
    next: u64,
    /// Calls of `sync`.
    pub syncs: u64,
    /// Calls of `read`.
    pub reads: u64,
    /// Writes that were asked for.
    pub writes: u64,
    /// Writes wait while a test holds this.
    pub gate: Arc<Mutex<()>>,
    /// What was done for requests.
    pub done: BTreeMap<u64, DoneBefore>,
    /// Files that the kernel was said not to have.
    pub not_held: Vec<Node>,
    /// The mount is gone.
    pub ended: bool,
}

#[derive(Clone)]
pub struct Session(Arc<Mutex<State>>, Option<u64>);

/// A request under way.
pub struct Request {
    number: u64,
    before: Option<DoneBefore>,
}

impl Request {
    pub fn done_before(&self) -> Option<DoneBefore> {
        self.before
    }
}

pub(crate) fn some_attributes() -> Attributes {
    let time = now();
    Attributes {
        node: ROOT,
        generation: 1,
        kind: Kind::Directory,
        mode: 0o755,
        links: 2,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        accessed: time,
        modified: time,
        changed: time,
        created: time,
        file_type: None,
        mirrors: 0,
        fine: false,
    }
}

fn now() -> Timestamp {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64
}

fn without_set_id(mode: u32) -> u32 {
    let mode = mode & !0o4000;
    if mode & 0o010 == 0 { mode } else { mode & !0o2000 }
}

impl File {
    fn new(attributes: Attributes, parent: Node) -> Self {
        Self {
            attributes,
            pages: BTreeMap::new(),
            entries: BTreeMap::new(),
            parent,
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            references: 0,
        }
    }

    fn touch(&mut self) {
        self.attributes.modified = now();
        self.attributes.changed = now();
        self.attributes.blocks = self.pages.len() as u64 * (PAGE / 512);
    }

    fn is_directory(&self) -> bool {
        self.attributes.kind == Kind::Directory
    }

    fn zero(&mut self, from: u64, to: u64, keep: bool) {
        let mut at = from;
        while at < to {
            let (page, start) = (at / PAGE, at % PAGE);
            let end = PAGE.min(start + (to - at));
            if start == 0 && end == PAGE && !keep {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page) {
                bytes[start as usize..end as usize].fill(0);
            } else if keep {
                self.pages.insert(page, vec![0; PAGE as usize].into());
            }
            at += end - start;
        }
    }

    fn resize(&mut self, size: u64) -> Result<()> {
        if size > SIZE_MAX {
            return Err(FileError::TooLarge);
        }
        let old = self.attributes.size;
        if size < old {
            self.pages.retain(|page, _| *page < size.div_ceil(PAGE));
            self.zero(size, size.next_multiple_of(PAGE), false);
        }
        self.attributes.size = size;
        self.touch();
        Ok(())
    }
}

impl State {
    fn file(&mut self, node: Node) -> Result<&mut File> {
        self.files.get_mut(&node).ok_or(FileError::Stale(node))
    }

    fn directory(&mut self, node: Node) -> Result<&mut File> {
        let file = self.file(node)?;
        if file.is_directory() { Ok(file) } else { Err(FileError::NotADirectory) }
    }

    fn find(&mut self, parent: Node, name: &[u8]) -> Result<Node> {
        self.directory(parent)?.entries.get(name).map(|(node, _)| *node).ok_or(FileError::NotFound)
    }

    fn enter(&mut self, parent: Node, name: &[u8], node: Node) -> Result<()> {
        self.next += 1;
        let cookie = self.next;
        let directory = self.directory(parent)?;
        directory.entries.insert(name.to_vec(), (node, cookie));
        directory.touch();
        if self.file(node)?.is_directory() {
            self.file(node)?.parent = parent;
            self.directory(parent)?.attributes.links += 1;
        }
        Ok(())
    }

    fn leave(&mut self, parent: Node, name: &[u8]) -> Result<()> {
        let (node, _) = self.directory(parent)?.entries.remove(name).ok_or(FileError::NotFound)?;
        if self.file(node)?.is_directory() {
            self.directory(parent)?.attributes.links -= 1;
        }
        self.directory(parent)?.touch();
        Ok(())
    }

    /// One name fewer.
    fn drop_link(&mut self, node: Node) -> Result<()> {
        let file = self.file(node)?;
        file.attributes.links = if file.is_directory() { 0 } else { file.attributes.links - 1 };
        file.attributes.changed = now();
        self.free(node);
        Ok(())
    }

    fn free(&mut self, node: Node) {
        if self
            .files
            .get(&node)
            .is_some_and(|file| file.attributes.links == 0 && file.references == 0)
        {
            self.files.remove(&node);
        }
    }

    fn is_inside(&mut self, node: Node, above: Node) -> Result<bool> {
        let mut at = node;
        loop {
            if at == above {
                return Ok(true);
            }
            let parent = self.directory(at)?.parent;
            if parent == at {
                return Ok(false);
            }
            at = parent;
        }
    }
}

impl Session {
    pub fn new() -> Self {
        let mut state = State { next: ROOT + 1, ..State::default() };
        state.files.insert(ROOT, File::new(some_attributes(), ROOT));
        Self(Arc::new(Mutex::new(state)), None)
    }
    pub fn begin(&self, number: u64, resent: bool) -> Option<Request> {
        let before = if resent { self.state().done.get(&number).copied() } else { None };
        Some(Request { number, before })
    }
    pub fn on_behalf_of(&self, request: &Request) -> Self {
        Self(Arc::clone(&self.0), Some(request.number))
    }
    pub fn release_reference(&self, node: Node) {
        self.state().not_held.push(node);
    }
    pub async fn end(&self) {
        self.state().ended = true;
    }
    /// What is done for a request is known from now on.
    fn note(&self, state: &mut State, node: Option<Node>) {
        self.1.map(|number| state.done.insert(number, DoneBefore { node }));
    }
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
    pub fn count(&self) -> usize {
        self.state().files.len()
    }
    pub async fn lookup(&self, parent: Node, name: &[u8]) -> Result<Attributes> {
        let mut state = self.state();
        let node = state.find(parent, name)?;
        Ok(state.file(node)?.attributes.clone())
    }
    pub async fn parent(&self, node: Node) -> Result<Node> {
        Ok(self.state().directory(node)?.parent)
    }
    pub async fn attributes(&self, node: Node) -> Result<Attributes> {
        Ok(self.state().file(node)?.attributes.clone())
    }
    pub async fn change(&self, node: Node, changes: Changes) -> Result<Attributes> {
        let mut state = self.state();
        let file = state.file(node)?;
        if let Some(size) = changes.size {
            file.resize(size)?;
        }
        let regular = !file.is_directory();
        let attributes = &mut file.attributes;
        let owner = changes.uid.is_some() || changes.gid.is_some();
        if changes.kill_set_id || owner && regular {
            attributes.mode = without_set_id(attributes.mode);
        }
        attributes.uid = changes.uid.unwrap_or(attributes.uid);
        attributes.gid = changes.gid.unwrap_or(attributes.gid);
        attributes.mode = changes.mode.unwrap_or(attributes.mode);
        let time = |set| match set {
            SetTime::Now => now(),
            SetTime::At(time) => time,
        };
        attributes.accessed = changes.accessed.map_or(attributes.accessed, time);
        attributes.modified = changes.modified.map_or(attributes.modified, time);
        attributes.changed = now();
        Ok(attributes.clone())
    }
    pub async fn create(
        &self,
        parent: Node,
        name: &[u8],
        new: NewFile,
        mode: u32,
        caller: Caller,
    ) -> Result<Attributes> {
        let mut state = self.state();
        match state.find(parent, name) {
            Err(FileError::NotFound) => {}
            Ok(_) => return Err(FileError::Exists),
            Err(error) => return Err(error),
        }
        if state.directory(parent)?.attributes.links == 0 {
            return Err(FileError::NotFound);
        }
        state.next += 1;
        let above = state.directory(parent)?.attributes.clone();
        let mut attributes = Attributes {
            node: state.next,
            mode,
            uid: caller.uid,
            gid: caller.gid,
            links: 1,
            ..some_attributes()
        };
        let mut target = Vec::new();
        attributes.kind = match new {
            NewFile::Regular => Kind::Regular,
            NewFile::Directory => Kind::Directory,
            NewFile::Symlink { target: path } => {
                attributes.size = path.len() as u64;
                target = path;
                Kind::Symlink
            }
            NewFile::Special { kind, rdev } => {
                attributes.rdev = rdev;
                kind
            }
        };
        if above.mode & 0o2000 != 0 {
            attributes.gid = above.gid;
        }
        if attributes.kind == Kind::Directory {
            attributes.links = 2;
            attributes.mode |= above.mode & 0o2000;
        }
        let node = attributes.node;
        state.files.insert(node, File { target, ..File::new(attributes.clone(), parent) });
        state.enter(parent, name, node)?;
        self.note(&mut state, Some(node));
        Ok(attributes)
    }
    pub async fn link(&self, node: Node, parent: Node, name: &[u8]) -> Result<Attributes> {
        let mut state = self.state();
        if state.find(parent, name).is_ok() {
            return Err(FileError::Exists);
        }
        let attributes = &mut state.file(node)?.attributes;
        if attributes.links >= LINK_MAX {
            return Err(FileError::TooManyLinks);
        }
        attributes.links += 1;
        attributes.changed = now();
        let attributes = attributes.clone();
        state.enter(parent, name, node)?;
        self.note(&mut state, Some(node));
        Ok(attributes)
    }
    pub async fn unlink(&self, parent: Node, name: &[u8]) -> Result<()> {
        let mut state = self.state();
        let node = state.find(parent, name)?;
        if state.file(node)?.is_directory() {
            return Err(FileError::IsADirectory);
        }
        state.leave(parent, name)?;
        self.note(&mut state, None);
        state.drop_link(node)
    }
    pub async fn remove_directory(&self, parent: Node, name: &[u8]) -> Result<()> {
        let mut state = self.state();
        let node = state.find(parent, name)?;
        if !state.directory(node)?.entries.is_empty() {
            return Err(FileError::NotEmpty);
        }
        state.leave(parent, name)?;
        self.note(&mut state, None);
        state.drop_link(node)
    }
    pub async fn rename(
        &self,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let mut state = self.state();
        let node = state.find(from.0, from.1)?;
        let other = state.find(to.0, to.1).ok();
        if mode == RenameMode::Exchange && other.is_none() {
            return Err(FileError::NotFound);
        }
        if mode == RenameMode::NoReplace && other.is_some() {
            return Err(FileError::Exists);
        }
        if other == Some(node) {
            return Ok(());
        }
        let is_directory = state.file(node)?.is_directory();
        if is_directory && state.is_inside(to.0, node)? {
            return Err(FileError::Invalid("a directory cannot move into itself"));
        }
        if let Some(other) = other {
            if mode == RenameMode::Replace {
                match (is_directory, state.file(other)?.is_directory()) {
                    (true, false) => return Err(FileError::NotADirectory),
                    (false, true) => return Err(FileError::IsADirectory),
                    _ => {}
                }
                if !state.file(other)?.entries.is_empty() {
                    return Err(FileError::NotEmpty);
                }
            }
            state.leave(to.0, to.1)?;
        }
        state.leave(from.0, from.1)?;
        state.enter(to.0, to.1, node)?;
        state.file(node)?.attributes.changed = now();
        match other {
            Some(other) if mode == RenameMode::Exchange => {
                state.enter(from.0, from.1, other)?;
                state.file(other)?.attributes.changed = now();
            }
            Some(other) => state.drop_link(other)?,
            None => {}
        }
        Ok(())
    }
    pub async fn read_link(&self, node: Node) -> Result<Vec<u8>> {
        Ok(self.state().file(node)?.target.clone())
    }
    pub async fn read_directory(
        &self,
        node: Node,
        cookie: u64,
        count: usize,
    ) -> Result<Vec<Entry>> {
        let mut state = self.state();
        let found = state.directory(node)?.entries.clone();
        let mut entries = Vec::new();
        for (name, (node, at)) in found.into_iter().filter(|(_, (_, at))| *at > cookie) {
            entries.push(Entry { name, node, kind: state.file(node)?.attributes.kind, cookie: at });
        }
        entries.sort_by_key(|entry| entry.cookie);
        entries.truncate(count);
        Ok(entries)
    }
    pub async fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Result<usize> {
        let mut state = self.state();
        state.reads += 1;
        let file = state.file(node)?;
        let length = file.attributes.size.saturating_sub(offset).min(into.len() as u64);
        for (index, byte) in into[..length as usize].iter_mut().enumerate() {
            let at = offset + index as u64;
            *byte = file.pages.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE) as usize]);
        }
        Ok(length as usize)
    }
    pub async fn find(&self, node: Node, offset: u64, length: usize) -> Result<Found> {
        let mut buffer = Buffer::zeroed(length);
        let length = self.read(node, offset, &mut buffer).await?;
        let mut found = Found::default();
        found.push(buffer.share().part(0..length));
        Ok(found)
    }
    pub async fn write_from(
        &self,
        node: Node,
        offset: u64,
        bytes: Source<'_>,
        kill_set_id: bool,
    ) -> Result<()> {
        self.write(node, offset, &bytes, kill_set_id).await
    }
    pub async fn write(
        &self,
        node: Node,
        offset: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Result<()> {
        let end = offset + bytes.len() as u64;
        if end > SIZE_MAX {
            return Err(FileError::TooLarge);
        }
        let gate = {
            let mut state = self.state();
            state.writes += 1;
            Arc::clone(&state.gate)
        };
        poll_fn(|context| match gate.try_lock() {
            Ok(_) => Poll::Ready(()),
            Err(_) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
        let mut state = self.state();
        let file = state.file(node)?;
        for (index, byte) in bytes.iter().enumerate() {
            let at = offset + index as u64;
            file.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize].into())
                [(at % PAGE) as usize] = *byte;
        }
        file.attributes.size = file.attributes.size.max(end);
        if kill_set_id {
            file.attributes.mode = without_set_id(file.attributes.mode);
        }
        file.touch();
        Ok(())
    }
    pub async fn write_durably(
        &self,
        node: Node,
        offset: u64,
        bytes: Source<'_>,
        kill_set_id: bool,
        data_only: bool,
    ) -> Result<()> {
        self.write(node, offset, &bytes, kill_set_id).await?;
        self.sync(node, data_only).await
    }

    pub async fn sync(&self, node: Node, _data_only: bool) -> Result<()> {
        let mut state = self.state();
        state.syncs += 1;
        state.file(node).map(drop)
    }
    pub async fn sync_directory(&self, node: Node) -> Result<()> {
        self.state().directory(node).map(drop)
    }
    pub async fn allocate(
        &self,
        node: Node,
        offset: u64,
        length: u64,
        mode: Allocate,
        kill_set_id: bool,
    ) -> Result<()> {
        let end =
            offset.checked_add(length).filter(|end| *end <= SIZE_MAX).ok_or(FileError::TooLarge)?;
        let mut state = self.state();
        let file = state.file(node)?;
        let keep_size = match mode {
            Allocate::Reserve { keep_size } => keep_size,
            Allocate::PunchHole => {
                file.zero(offset, end, false);
                true
            }
            Allocate::ZeroRange { keep_size } => {
                file.zero(offset, end, true);
                keep_size
            }
        };
        if !keep_size {
            file.attributes.size = file.attributes.size.max(end);
        }
        if kill_set_id {
            file.attributes.mode = without_set_id(file.attributes.mode);
        }
        file.touch();
        Ok(())
    }
    pub async fn seek(&self, node: Node, offset: u64, what: Seek) -> Result<u64> {
        let mut state = self.state();
        let file = state.file(node)?;
        let size = file.attributes.size;
        if offset >= size {
            return Err(FileError::NoData);
        }
        let mut at = offset;
        while at < size {
            if file.pages.contains_key(&(at / PAGE)) == (what == Seek::Data) {
                return Ok(at);
            }
            at = (at / PAGE + 1) * PAGE;
        }
        if what == Seek::Hole { Ok(size) } else { Err(FileError::NoData) }
    }
    pub async fn xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.state().file(node)?.xattrs.get(name).cloned().ok_or(FileError::NoAttribute)
    }
    pub async fn xattrs(&self, node: Node) -> Result<Vec<Vec<u8>>> {
        Ok(self.state().file(node)?.xattrs.keys().cloned().collect())
    }
    pub async fn set_xattr(
        &self,
        node: Node,
        name: &[u8],
        value: &[u8],
        mode: SetXattr,
    ) -> Result<()> {
        let mut state = self.state();
        let file = state.file(node)?;
        match (mode, file.xattrs.contains_key(name)) {
            (SetXattr::Create, true) => return Err(FileError::Exists),
            (SetXattr::Replace, false) => return Err(FileError::NoAttribute),
            _ => {}
        }
        file.xattrs.insert(name.to_vec(), value.to_vec());
        file.attributes.changed = now();
        Ok(())
    }
    pub async fn remove_xattr(&self, node: Node, name: &[u8]) -> Result<()> {
        let mut state = self.state();
        let file = state.file(node)?;
        file.attributes.changed = now();
        file.xattrs.remove(name).map(drop).ok_or(FileError::NoAttribute)
    }
    pub async fn space(&self) -> Result<FileSystemSpace> {
        Ok(FileSystemSpace {
            block_size: 4096,
            blocks: 1 << 20,
            blocks_free: 1 << 19,
            files: 1 << 20,
            files_free: 1 << 19,
        })
    }
    pub fn remember(&self, node: Node, count: u64) {
        if let Ok(file) = self.state().file(node) {
            file.references += count;
        }
    }
    pub async fn forget(&self, node: Node, count: u64) {
        let mut state = self.state();
        if let Ok(file) = state.file(node) {
            file.references = file.references.saturating_sub(count);
        }
        state.free(node);
    }
}
