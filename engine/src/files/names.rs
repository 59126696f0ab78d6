//! Names: lookup, create, link, unlink, rename, and the attributes they change.
//!
//! Where POSIX speaks, this behaves as ext4: link counts of directories, times
//! of parents, set-group-id directories, set-id bits that go with the owner.
//! Permissions are the kernel's business.
//!
//! Every change is one job: read the rows, check, write rows, update the caches. [`Edits`] collects
//! the attributes that a job changes, so that nothing in memory changes unless all of it does.

mod owners;

use super::{File, Files, Released, Result, reply_cache::Asked, xattrs::delete_capability};
use crate::{
    api::{
        Attributes, Caller, Changes, Entry, Invalidation, Kind, LINK_MAX, NAME_MAX, NewFile, Node,
        ROOT, RenameMode, SET_GID, SYMLINK_MAX, SetTime,
        types::{FileType, LEVELS},
        without_set_id,
    },
    catalog::{
        CommitNumber,
        tables::{self, counter, counter::Counter, entry},
    },
    error::FileError,
    planted::{self, Bug},
    world::Timestamp,
};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// The size of a directory in `stat`, as of the smallest of ext4.
pub(super) const DIRECTORY_SIZE: u64 = 4096;
const MODE_BITS: u32 = 0o7777;

pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(FileError::NameTooLong);
    }
    if name.is_empty()
        || name == b"."
        || name == b".."
        || name.iter().any(|byte| *byte == b'/' || *byte == 0)
    {
        return Err(FileError::Invalid("not a name"));
    }
    Ok(())
}

/// The type that a new name gives a file.
pub(super) fn type_of_name(
    connection: &Connection,
    parent: Node,
    name: &[u8],
) -> Result<Option<FileType>> {
    let mut above: Vec<Option<(Node, Vec<u8>)>> = Vec::new();
    FileType::of_name(name, |level| -> Result<Option<Vec<u8>>> {
        while above.len() < level.min(LEVELS) {
            let at = above.last().map_or(Some(parent), |last| last.as_ref().map(|(node, _)| *node));
            above.push(match at.filter(|at| *at != ROOT) {
                Some(at) => entry::name_of(connection, at)?,
                None => None,
            });
        }
        Ok(above.get(level - 1).cloned().flatten().map(|(_, name)| name))
    })
}

/// The type of a file that gets another name.
pub(super) fn type_after(
    connection: &Connection,
    file: &Attributes,
    from: (Node, &[u8]),
    to: (Node, &[u8]),
) -> Result<Option<FileType>> {
    if file.kind != Kind::Regular {
        return Ok(None);
    }
    if tables::file::has_given_type(connection, file.node)? == Some(true) {
        return Ok(file.file_type);
    }
    if let Some(found) = type_of_name(connection, to.0, to.1)? {
        return Ok(Some(found));
    }
    let was_temporary = file.file_type == Some(FileType::Tempfile)
        && type_of_name(connection, from.0, from.1)? == file.file_type;
    Ok(if was_temporary { Some(FileType::Other) } else { file.file_type })
}

/// Whether `directory` is `below` or holds it, at whatever depth.
fn holds(connection: &Connection, directory: Node, below: Node) -> Result<bool> {
    let mut at = below;
    // No tree is deeper than it has directories; a damaged one must not hang the writer.
    for _ in 0..1_000_000 {
        if at == directory {
            return Ok(true);
        }
        match entry::parent_of(connection, at)? {
            Some(parent) if at != ROOT => at = parent,
            _ => return Ok(false),
        }
    }
    Err(FileError::Invalid("a directory that holds itself"))
}

/// A directory, a name in it, and what it means now.
type NameChange = (Node, Vec<u8>, Option<(Node, Kind)>);

/// A file that a job makes.
pub(super) struct Made {
    pub new: NewFile,
    pub mode: u32,
    pub caller: Caller,
    pub now: Timestamp,
    pub given: Option<GivenProperties>,
    /// Its name is the system's; a file's own is made of its tag, its number and its incarnation.
    pub system: bool,
}

/// Properties that were given for a file when it was made.
#[derive(Debug, Clone)]
pub(super) struct GivenProperties {
    pub file_type: FileType,
    /// 0: as the group.
    pub mirrors: u8,
    pub fine: bool,
    pub preformatted: bool,
    pub tag: String,
}

/// The attributes that a job changes: as they were, and as they will be.
pub(super) struct Edits<'a> {
    files: &'a Files,
    pub(super) connection: &'a Connection,
    changed: BTreeMap<Node, (Attributes, Attributes)>,
    names: Vec<NameChange>,
    /// Files that the job makes.
    fresh: Vec<Attributes>,
}

impl<'a> Edits<'a> {
    pub(super) fn new(files: &'a Files, connection: &'a Connection) -> Self {
        Self { files, connection, changed: BTreeMap::new(), names: Vec::new(), fresh: Vec::new() }
    }

    /// A file's attributes, to be changed.
    pub(super) fn edit(&mut self, node: Node) -> Result<&mut Attributes> {
        if !self.changed.contains_key(&node) {
            let cached =
                self.files.cache.lock().files.get(&node).map(|file| file.attributes().clone());
            let now = match cached {
                Some(attributes) => attributes,
                None => tables::file::load(self.connection, node)?.ok_or(FileError::Stale(node))?,
            };
            self.changed.insert(node, (now.clone(), now));
        }
        self.changed.get_mut(&node).map(|(_, new)| new).ok_or(FileError::Stale(node))
    }

    /// A directory that can take or lose names.
    pub(super) fn directory(&mut self, node: Node) -> Result<&mut Attributes> {
        let attributes = self.edit(node)?;
        if attributes.kind != Kind::Directory {
            return Err(FileError::NotADirectory);
        }
        if attributes.links == 0 {
            return Err(FileError::NotFound);
        }
        Ok(attributes)
    }

    /// A directory whose entries change now.
    pub(super) fn touch_directory(
        &mut self,
        node: Node,
        now: Timestamp,
    ) -> Result<&mut Attributes> {
        let attributes = self.directory(node)?;
        attributes.modified = now;
        attributes.changed = now;
        Ok(attributes)
    }

    pub(super) fn name(&mut self, parent: Node, name: &[u8], means: Option<(Node, Kind)>) {
        self.names.push((parent, name.to_vec(), means));
    }

    /// Takes one name from a file; a directory loses both its links. Whether it was the last.
    pub(super) fn unlink(&mut self, node: Node, now: Timestamp) -> Result<bool> {
        let attributes = self.edit(node)?;
        attributes.links =
            if attributes.kind == Kind::Directory { 0 } else { attributes.links.saturating_sub(1) };
        attributes.changed = now;
        Ok(attributes.links == 0)
    }

    /// Makes a file: its row, and one name for it. `given`: its type is given, and not recognised
    /// from its name.
    pub(super) fn make(&mut self, parent: Node, name: &[u8], made: Made) -> Result<Attributes> {
        let Made { new, mode, caller, now, given, system } = made;
        let directory = self.touch_directory(parent, now)?;
        let (kind, rdev, target) = match new {
            NewFile::Regular => (Kind::Regular, 0, None),
            NewFile::Directory => (Kind::Directory, 0, None),
            NewFile::Symlink { target } => (Kind::Symlink, 0, Some(target)),
            NewFile::Special { kind, rdev } => (kind, rdev, None),
        };
        let inherits = directory.mode & SET_GID != 0;
        let gid = if inherits { directory.gid } else { caller.gid };
        let is_directory = kind == Kind::Directory;
        if is_directory {
            if directory.links >= LINK_MAX {
                return Err(FileError::TooManyLinks);
            }
            directory.links += 1;
        }
        let connection = self.connection;
        if entry::find(connection, parent, name)?.is_some() {
            return Err(FileError::Exists);
        }
        let mode = match kind {
            Kind::Symlink => 0o777,
            Kind::Directory if inherits => (mode & MODE_BITS) | SET_GID,
            Kind::Regular => mode & MODE_BITS & !self.files.creation_mask(),
            _ => mode & MODE_BITS,
        };
        let size = match (&target, is_directory) {
            (Some(target), _) => target.len() as u64,
            (None, true) => DIRECTORY_SIZE,
            (None, false) => 0,
        };
        let file_type = match (kind, &given) {
            (Kind::Regular, Some(given)) => Some(given.file_type),
            (Kind::Regular, None) => {
                Some(type_of_name(connection, parent, name)?.unwrap_or(FileType::Other))
            }
            _ => None,
        };
        let attributes = Attributes {
            node: counter::next(connection, Counter::Node)?,
            // Odd, and from the time, as ASM's incarnations; node numbers are not reused anyway.
            generation: (now / 1_000_000_000).cast_unsigned() & 0xffff_ffff | 1,
            kind,
            mode,
            links: if is_directory { 2 } else { 1 },
            uid: caller.uid,
            gid,
            rdev,
            size,
            blocks: 0,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            file_type,
            mirrors: given.as_ref().map_or(0, |given| given.mirrors),
            fine: given.as_ref().is_some_and(|given| given.fine),
            preformatted: given.as_ref().is_some_and(|given| given.preformatted),
        };
        let node = attributes.node;
        tables::file::insert(connection, &attributes, target.as_deref(), given.is_some())?;
        let system_name;
        let name = match (&given, system) {
            (Some(given), true) => {
                system_name =
                    format!("{}.{node}.{}", given.tag, attributes.generation).into_bytes();
                &system_name[..]
            }
            _ => name,
        };
        entry::insert(connection, parent, name, node, kind)?;
        if system {
            entry::mark_system(connection, parent, name)?;
        }
        self.name(parent, name, Some((node, kind)));
        self.fresh.push(attributes.clone());
        Ok(attributes)
    }

    /// As [`Self::apply`]; files that have lost their last name are orphans then, and released by
    /// jobs of their own.
    pub(super) fn orphan(self, gone: &[Node]) -> Result<()> {
        let files = self.files;
        {
            let mut cache = files.cache.lock();
            cache.orphans.extend(gone);
            cache.parted = Some(files.world.monotonic());
        }
        self.apply(None).map(|_| ()).inspect_err(|_| {
            let mut cache = files.cache.lock();
            gone.iter().for_each(|node| _ = cache.orphans.remove(node));
        })
    }

    /// Writes the rows, then updates the caches, then releases `gone` if no front end holds it. The
    /// job's last act.
    pub(super) fn apply(self, gone: Option<Node>) -> Result<Option<(Node, Released)>> {
        for (node, (old, new)) in &self.changed {
            if old != new {
                tables::file::set_owner_and_times(self.connection, new)?;
            }
            // It is in an index, and hardly ever changes.
            if old.file_type != new.file_type {
                tables::file::set_type(self.connection, *node, new.file_type)?;
            }
        }
        // From here on a `forget` finds an orphan, and its own job comes after this one.
        let remembered = gone.is_some_and(|node| {
            let mut cache = self.files.cache.lock();
            cache.orphans.insert(node);
            let remembered = cache.may_be_held(node);
            if remembered {
                cache.parted = Some(self.files.world.monotonic());
            }
            remembered
        });
        let released = match gone {
            Some(node) if !remembered => match self.files.release_in(self.connection, node) {
                Ok(released) => Some((node, released)),
                Err(error) => {
                    self.files.cache.lock().orphans.remove(&node);
                    return Err(error);
                }
            },
            _ => None,
        };
        let commit = self.files.next_commit();
        let mut cache = self.files.cache.lock();
        for attributes in self.fresh {
            let now = self.changed.get(&attributes.node).map_or(attributes, |(_, new)| new.clone());
            let file = File::new(now, CommitNumber(commit));
            *file.xattrs.lock() = Some(BTreeMap::new());
            self.files.insert(&mut cache, file);
        }
        for (node, (old, new)) in self.changed.iter().filter(|(_, (old, new))| old != new) {
            if released.as_ref().is_some_and(|(gone, released)| gone == node && released.done) {
                continue;
            }
            match cache.files.get(node) {
                Some(file) => {
                    merge(&mut file.attributes(), old, new);
                    file.committed(CommitNumber(commit));
                }
                // In memory from now on: a snapshot from before this commit must not bring the old
                // state in.
                None => self.files.insert(&mut cache, File::new(new.clone(), CommitNumber(commit))),
            }
        }
        for (parent, name, means) in &self.names {
            cache.change_name(*parent, name, *means, commit);
        }
        Ok(released)
    }
}

/// Takes over what a job changed. Times that the data path has set meanwhile stay.
fn merge(into: &mut Attributes, old: &Attributes, new: &Attributes) {
    into.mode = new.mode;
    into.links = new.links;
    into.uid = new.uid;
    into.gid = new.gid;
    if new.file_type != old.file_type {
        into.file_type = new.file_type;
    }
    if new.accessed != old.accessed {
        into.accessed = new.accessed;
    }
    if new.modified != old.modified {
        into.modified = new.modified;
    }
    if new.changed != old.changed {
        into.changed = new.changed;
    }
}

impl Files {
    /// Resolves one name.
    ///
    /// # Errors
    /// `NotFound` if there is none; `NotADirectory`.
    pub async fn lookup(&self, parent: Node, name: &[u8]) -> Result<Attributes> {
        if name.len() > NAME_MAX {
            return Err(FileError::NameTooLong);
        }
        // The name may go, and come back, between the two steps; an entry without a file is damage.
        for _ in 0..10 {
            let known = self.cache.lock().name(parent, name);
            let found = match known {
                Some(known) => known,
                None => {
                    let directory = self.get(parent).await?;
                    if directory.kind != Kind::Directory {
                        return Err(FileError::NotADirectory);
                    }
                    let seen = self.catalog.committed();
                    let wanted = name.to_vec();
                    let found = self
                        .catalog
                        .read(move |connection| Ok(entry::find(connection, parent, &wanted)?))
                        .await?;
                    self.cache.lock().learn(parent, name, found, seen);
                    found
                }
            };
            let (node, _) = found.ok_or(FileError::NotFound)?;
            match self.get(node).await {
                Ok(file) => return Ok(file.attributes().clone()),
                Err(FileError::Stale(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(FileError::NotFound)
    }

    /// The directory that holds a directory; the root's is the root.
    ///
    /// # Errors
    /// `NotADirectory`, or `NotFound` for one that was removed.
    pub async fn parent(&self, node: Node) -> Result<Node> {
        if self.get(node).await?.kind != Kind::Directory {
            return Err(FileError::NotADirectory);
        }
        if node == ROOT {
            return Ok(ROOT);
        }
        self.catalog
            .read(move |connection| Ok(entry::parent_of(connection, node)?))
            .await?
            .ok_or(FileError::NotFound)
    }

    /// The attributes that `stat` returns.
    ///
    /// # Errors
    /// `Stale` if there is no such file.
    pub async fn attributes(&self, node: Node) -> Result<Attributes> {
        Ok(self.get(node).await?.attributes().clone())
    }

    /// Makes a file.
    ///
    /// # Errors
    /// `Exists`, `NotADirectory`, `NotFound` for a removed directory, `TooManyLinks`,
    /// `NoSpace`, or a bad name.
    pub async fn create(
        &self,
        asked: impl Into<Asked>,
        parent: Node,
        name: &[u8],
        new: NewFile,
        mode: u32,
        caller: Caller,
    ) -> Result<Attributes> {
        let asked = asked.into();
        check_name(name)?;
        match &new {
            NewFile::Symlink { target } if target.is_empty() => return Err(FileError::NotFound),
            NewFile::Symlink { target } if target.len() > SYMLINK_MAX => {
                return Err(FileError::NameTooLong);
            }
            NewFile::Special { kind: Kind::Directory | Kind::Symlink, .. } => {
                return Err(FileError::Invalid("not a special file"));
            }
            _ => {}
        }
        let (files, name) = (self.strong(), name.to_vec());
        let entry = Invalidation::Entry { parent, name: name.clone() };
        let job = move |connection: &Connection| {
            let now = files.world.now();
            let mut edits = Edits::new(&files, connection);
            let made = Made { new, mode, caller, now, given: None, system: false };
            let attributes = edits.make(parent, &name, made)?;
            asked.record(connection, Some(attributes.node))?;
            edits.apply(None)?;
            Ok(attributes)
        };
        let (attributes, _) = self.catalog.write(false, job).await?;
        self.invalidate(asked.origin, &entry);
        Ok(attributes)
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// `NotPermitted` for a directory, `Exists`, `TooManyLinks`, `NotFound` for a file
    /// without names.
    pub async fn link(
        &self,
        asked: impl Into<Asked>,
        node: Node,
        parent: Node,
        name: &[u8],
    ) -> Result<Attributes> {
        let asked = asked.into();
        check_name(name)?;
        let (files, name) = (self.strong(), name.to_vec());
        let entry = Invalidation::Entry { parent, name: name.clone() };
        let job = move |connection: &Connection| {
            let now = files.world.now();
            let mut edits = Edits::new(&files, connection);
            edits.touch_directory(parent, now)?;
            let file = edits.edit(node)?;
            match file.links {
                _ if file.kind == Kind::Directory => return Err(FileError::NotPermitted),
                0 if !planted::has(Bug::OrphanLinked) => return Err(FileError::NotFound),
                LINK_MAX.. => return Err(FileError::TooManyLinks),
                _ => file.links += 1,
            }
            file.changed = now;
            let after = file.clone();
            if entry::find(connection, parent, &name)?.is_some() {
                return Err(FileError::Exists);
            }
            entry::insert(connection, parent, &name, node, after.kind)?;
            edits.name(parent, &name, Some((node, after.kind)));
            asked.record(connection, Some(node))?;
            edits.apply(None)?;
            Ok(after)
        };
        let (attributes, _) = self.catalog.write(false, job).await?;
        self.invalidate(asked.origin, &entry);
        self.invalidate(asked.origin, &Invalidation::Node(node));
        Ok(attributes)
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`, `NotADirectory`.
    pub async fn unlink(&self, asked: impl Into<Asked>, parent: Node, name: &[u8]) -> Result<()> {
        self.remove(asked.into(), parent, name, false).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `NotEmpty`.
    pub async fn remove_directory(
        &self,
        asked: impl Into<Asked>,
        parent: Node,
        name: &[u8],
    ) -> Result<()> {
        self.remove(asked.into(), parent, name, true).await
    }

    async fn remove(&self, asked: Asked, parent: Node, name: &[u8], directory: bool) -> Result<()> {
        if name.len() > NAME_MAX {
            return Err(FileError::NameTooLong);
        }
        let (files, name) = (self.strong(), name.to_vec());
        let entry = Invalidation::Entry { parent, name: name.clone() };
        let job = move |connection: &Connection| {
            let now = files.world.now();
            let mut edits = Edits::new(&files, connection);
            edits.touch_directory(parent, now)?;
            let (node, kind) =
                entry::find(connection, parent, &name)?.ok_or(FileError::NotFound)?;
            match (directory, kind == Kind::Directory) {
                (true, false) => return Err(FileError::NotADirectory),
                (false, true) => return Err(FileError::IsADirectory),
                (true, true) if !entry::is_empty(connection, node)? => {
                    return Err(FileError::NotEmpty);
                }
                (true, true) => edits.edit(parent)?.links -= 1,
                (false, false) => {}
            }
            entry::delete(connection, parent, &name)?;
            edits.name(parent, &name, None);
            let last = edits.unlink(node, now)?;
            asked.record(connection, None)?;
            let released = edits.apply(last.then_some(node))?;
            Ok((node, last, released))
        };
        let ((node, last, released), commit) = self.catalog.release(false, job).await?;
        self.invalidate(asked.origin, &entry);
        self.invalidate(asked.origin, &Invalidation::Node(node));
        self.finish(released, last.then_some(node), commit).await
    }

    /// After a commit that took the last name of `gone`, and released it or a part of it, unless a
    /// front end may hold it.
    async fn finish(
        &self,
        released: Option<(Node, Released)>,
        gone: Option<Node>,
        commit: CommitNumber,
    ) -> Result<()> {
        let _release = self.data.begin_release();
        match (released, gone) {
            (Some((node, released)), _) => {
                (released.then)(commit);
                if !released.done {
                    self.reap(node).await?;
                }
            }
            (None, Some(node)) if self.is_uncounted(node) => self.let_go(node).await?,
            (None, _) => {}
        }
        Ok(())
    }

    /// Renames, replaces or exchanges.
    ///
    /// # Errors
    /// As `renameat2`: `NotFound`, `Exists`, `NotEmpty`, `IsADirectory`, `NotADirectory`,
    /// `Invalid`, `TooManyLinks`.
    pub async fn rename(
        &self,
        asked: impl Into<Asked>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let asked = asked.into();
        check_name(from.1)?;
        check_name(to.1)?;
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        let entries = [&from, &to]
            .map(|(parent, name)| Invalidation::Entry { parent: *parent, name: name.clone() });
        let files = self.strong();
        let job = move |connection: &Connection| {
            let now = files.world.now();
            let mut edits = Edits::new(&files, connection);
            edits.directory(from.0)?;
            edits.directory(to.0)?;
            let source = entry::find(connection, from.0, &from.1)?.ok_or(FileError::NotFound)?;
            let target = entry::find(connection, to.0, &to.1)?;
            let named = (from.clone(), to.clone());
            let change = Rename { from, to, source, now };
            let (nodes, gone) = match (mode, target) {
                (RenameMode::NoReplace, Some(_)) => return Err(FileError::Exists),
                (RenameMode::Exchange, None) => return Err(FileError::NotFound),
                (_, Some(target)) if target.0 == source.0 => return Ok((Vec::new(), None, None)),
                (RenameMode::Exchange, Some(target)) => {
                    change.exchange(&mut edits, target)?;
                    (vec![source.0, target.0], None)
                }
                (_, Some(target)) => {
                    let last = change.replace(&mut edits, target)?;
                    (vec![source.0, target.0], last.then_some(target.0))
                }
                (_, None) => {
                    change.move_to_free(&mut edits)?;
                    (vec![source.0], None)
                }
            };
            let (from, to) = ((named.0.0, &named.0.1[..]), (named.1.0, &named.1.1[..]));
            let mut moved = vec![(source.0, from, to)];
            moved.extend(
                target.filter(|_| mode == RenameMode::Exchange).map(|target| (target.0, to, from)),
            );
            for (node, from, to) in moved {
                let file_type = type_after(connection, edits.edit(node)?, from, to)?;
                edits.edit(node)?.file_type = file_type;
            }
            edits.edit(source.0)?.changed = now;
            asked.record(connection, None)?;
            let released = edits.apply(gone)?;
            Ok((nodes, gone, released))
        };
        let ((nodes, gone, released), commit) = self.catalog.write(false, job).await?;
        entries.iter().for_each(|entry| self.invalidate(asked.origin, entry));
        nodes.into_iter().for_each(|node| self.invalidate(asked.origin, &Invalidation::Node(node)));
        self.finish(released, gone, commit).await
    }

    /// Changes attributes other than the size. Returns them all.
    ///
    /// # Errors
    /// `Stale`, or if the catalog fails.
    pub async fn change(
        &self,
        origin: super::Origin,
        node: Node,
        changes: &Changes,
    ) -> Result<Attributes> {
        let (files, changes) = (self.strong(), changes.clone());
        let job = move |connection: &Connection| {
            let now = files.world.now();
            let mut edits = Edits::new(&files, connection);
            let file = edits.edit(node)?;
            let owner = changes.uid.is_some() || changes.gid.is_some();
            if (owner || changes.kill_set_id) && file.kind != Kind::Directory {
                file.mode = without_set_id(file.mode);
            }
            file.uid = changes.uid.unwrap_or(file.uid);
            file.gid = changes.gid.unwrap_or(file.gid);
            if let Some(mode) = changes.mode {
                file.mode = mode & MODE_BITS;
            }
            let time = |set: SetTime| match set {
                SetTime::Now => now,
                SetTime::At(time) => time,
            };
            file.accessed = changes.accessed.map_or(file.accessed, time);
            file.modified = changes.modified.map_or(file.modified, time);
            file.changed = now;
            let after = file.clone();
            let mut lost = false;
            if owner || changes.kill_set_id {
                // Capabilities go with the owner, as set-id bits do.
                lost = delete_capability(connection, node)?;
            }
            edits.apply(None)?;
            if lost && let Some(file) = files.cache.lock().files.get(&node) {
                *file.xattrs.lock() = None;
            }
            Ok(after)
        };
        // It makes no row larger: owner and mode can be changed on a full group.
        let (attributes, _) = self.catalog.release(false, job).await?;
        self.invalidate(origin, &Invalidation::Node(node));
        Ok(attributes)
    }

    /// Where a symbolic link points.
    ///
    /// # Errors
    /// `Invalid` if it is none.
    pub async fn read_link(&self, node: Node) -> Result<Vec<u8>> {
        let file = self.get(node).await?;
        if file.kind != Kind::Symlink {
            return Err(FileError::Invalid("not a symbolic link"));
        }
        let read = move |connection: &Connection| {
            tables::file::link_target(connection, node)?.ok_or(FileError::Stale(node))
        };
        self.catalog.read(read).await
    }

    /// Up to `count` entries after `cookie`, in the order in which they were made.
    ///
    /// # Errors
    /// `NotADirectory`.
    pub async fn read_directory(
        &self,
        node: Node,
        cookie: u64,
        count: usize,
    ) -> Result<Vec<Entry>> {
        let directory = self.get(node).await?;
        if directory.kind != Kind::Directory {
            return Err(FileError::NotADirectory);
        }
        directory.note_access(self.world.now());
        let read = move |connection: &Connection| Ok(entry::list(connection, node, cookie, count)?);
        self.catalog.read(read).await
    }

    /// Makes all acknowledged changes of names durable.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn sync_directory(&self, _node: Node) -> Result<()> {
        self.catalog.durable_point().await.map(|_| ())
    }
}

/// One rename inside its job; what it would replace is the caller's to look up.
pub(super) struct Rename {
    pub from: (Node, Vec<u8>),
    pub to: (Node, Vec<u8>),
    pub source: (Node, Kind),
    pub now: Timestamp,
}

impl Rename {
    fn is_directory(kind: Kind) -> bool {
        kind == Kind::Directory
    }

    /// A directory cannot move into itself.
    fn check_loop(edits: &Edits<'_>, moved: (Node, Kind), into: Node) -> Result<()> {
        if Self::is_directory(moved.1) && holds(edits.connection, moved.0, into)? {
            return Err(FileError::Invalid("a directory cannot be moved into itself"));
        }
        Ok(())
    }

    fn touch_parents(&self, edits: &mut Edits<'_>) -> Result<()> {
        edits.touch_directory(self.from.0, self.now)?;
        edits.touch_directory(self.to.0, self.now)?;
        Ok(())
    }

    /// `..` of a directory that moves counts for its new parent.
    fn move_link(edits: &mut Edits<'_>, from: Node, to: Node) -> Result<()> {
        if from != to {
            let parent = edits.directory(to)?;
            if parent.links >= LINK_MAX {
                return Err(FileError::TooManyLinks);
            }
            parent.links += 1;
            edits.directory(from)?.links -= 1;
        }
        Ok(())
    }

    pub(super) fn move_to_free(&self, edits: &mut Edits<'_>) -> Result<()> {
        Self::check_loop(edits, self.source, self.to.0)?;
        self.touch_parents(edits)?;
        if Self::is_directory(self.source.1) {
            Self::move_link(edits, self.from.0, self.to.0)?;
        }
        entry::delete(edits.connection, self.from.0, &self.from.1)?;
        entry::insert(edits.connection, self.to.0, &self.to.1, self.source.0, self.source.1)?;
        edits.name(self.from.0, &self.from.1, None);
        edits.name(self.to.0, &self.to.1, Some(self.source));
        Ok(())
    }

    /// Whether the target lost its last name.
    fn replace(&self, edits: &mut Edits<'_>, target: (Node, Kind)) -> Result<bool> {
        Self::check_loop(edits, self.source, self.to.0)?;
        match (Self::is_directory(self.source.1), Self::is_directory(target.1)) {
            (true, false) => return Err(FileError::NotADirectory),
            (false, true) => {
                // An ancestor of the source is not empty, whatever else it is.
                let above = holds(edits.connection, target.0, self.from.0)?;
                return Err(if above { FileError::NotEmpty } else { FileError::IsADirectory });
            }
            (true, true) if !entry::is_empty(edits.connection, target.0)? => {
                return Err(FileError::NotEmpty);
            }
            (true, true) => {
                // The target's `..` goes, the source's comes.
                edits.directory(self.to.0)?.links -= 1;
                Self::move_link(edits, self.from.0, self.to.0)?;
            }
            (false, false) => {}
        }
        self.touch_parents(edits)?;
        entry::delete(edits.connection, self.from.0, &self.from.1)?;
        entry::point(edits.connection, self.to.0, &self.to.1, self.source.0, self.source.1)?;
        edits.name(self.from.0, &self.from.1, None);
        edits.name(self.to.0, &self.to.1, Some(self.source));
        edits.unlink(target.0, self.now)
    }

    fn exchange(&self, edits: &mut Edits<'_>, target: (Node, Kind)) -> Result<()> {
        Self::check_loop(edits, self.source, self.to.0)?;
        if !planted::has(Bug::ExchangedIntoItself) {
            Self::check_loop(edits, target, self.from.0)?;
        }
        self.touch_parents(edits)?;
        match (Self::is_directory(self.source.1), Self::is_directory(target.1)) {
            (true, false) => Self::move_link(edits, self.from.0, self.to.0)?,
            (false, true) => Self::move_link(edits, self.to.0, self.from.0)?,
            _ => {}
        }
        entry::point(edits.connection, self.from.0, &self.from.1, target.0, target.1)?;
        entry::point(edits.connection, self.to.0, &self.to.1, self.source.0, self.source.1)?;
        edits.name(self.from.0, &self.from.1, Some(target));
        edits.name(self.to.0, &self.to.1, Some(self.source));
        edits.edit(target.0)?.changed = self.now;
        Ok(())
    }
}
