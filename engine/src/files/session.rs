//! One front end's way into a group: every call that a file system needs.
//!
//! The watchers of all other sessions are notified of changes made through one session. Calls that
//! name a node need no `open`: handles carry nothing.

use crate::{
    admin::NameOrder,
    api::{
        Allocate, Attributes, Caller, Changes, ConnectionId, Entry, FileSystemSpace, Invalidation,
        Kind, NewFile, Node, RenameMode, Seek, SetXattr, Watcher,
    },
    error::FileError,
    files::{
        File, Origin,
        aliases::StatementContext,
        file_stats::FileClass,
        file_system::{FileSystem, Mounted},
        paths,
        reply_cache::{Asked, OpenRequest, Row},
        statements::NewSystemFile,
    },
    space::mirror_sets::failure_groups,
    sync::transfer::{Found, Source},
};
use std::{pin::pin, sync::Arc};

type Result<T> = std::result::Result<T, FileError>;

/// A front end of a group. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub struct Session {
    attached: Arc<Attached>,
    /// On behalf of a request that may be sent again.
    row: Option<Row>,
}

struct Attached {
    file_system: Arc<FileSystem>,
    /// Keeps the group mounted.
    _mounted: Arc<dyn Mounted>,
    origin: Origin,
    /// Of a mount.
    connection: Option<ConnectionId>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.file_system.files.detach(self.origin);
    }
}

impl Session {
    /// A new front end; `watcher` is called for changes by others.
    #[must_use]
    pub fn new(group: Arc<impl Mounted + 'static>, watcher: Option<Arc<dyn Watcher>>) -> Self {
        let file_system = Arc::clone(group.file_system());
        let origin = file_system.files.attach(watcher);
        Self {
            attached: Arc::new(Attached { file_system, _mounted: group, origin, connection: None }),
            row: None,
        }
    }

    /// The front end of a mount: of a new one, or of one that the group was mounted to take over
    /// (`Group::resume`).
    #[must_use]
    pub fn of_mount(
        group: Arc<impl Mounted + 'static>,
        watcher: Arc<dyn Watcher>,
        connection: ConnectionId,
    ) -> Self {
        let file_system = Arc::clone(group.file_system());
        let origin = file_system.files.attach_mount(watcher, connection);
        let connection = Some(connection);
        Self {
            attached: Arc::new(Attached { file_system, _mounted: group, origin, connection }),
            row: None,
        }
    }

    /// Begins a request of the mount's that must not be carried out twice (R12), to be kept until
    /// it was answered. `number`: the kernel's for it; `resent`: an engine before this one may have
    /// carried it out.
    #[must_use]
    pub fn begin(&self, number: u64, resent: bool) -> Option<OpenRequest> {
        self.file_system().files.begin(self.attached.connection?, number, resent)
    }

    /// This session, on behalf of a request: what it changes first leaves the request's row.
    #[must_use]
    pub fn on_behalf_of(&self, request: &OpenRequest) -> Self {
        Self { attached: Arc::clone(&self.attached), row: Some(request.row()) }
    }

    /// The kernel does not have a file that it was asked for ([`Watcher::still_holds`]).
    pub fn release_reference(&self, node: Node) {
        if let Some(connection) = self.attached.connection {
            self.file_system().files.release_reference(connection, node);
        }
    }

    /// The mount is gone.
    pub async fn end(&self) {
        if let Some(connection) = self.attached.connection {
            // Rows that are left are deleted by the next mount of the group.
            let _ = self.file_system().files.end_mount(connection).await;
        }
    }

    fn asked(&self) -> Asked {
        Asked { origin: self.attached.origin, row: self.row }
    }

    /// The group's name, upper case.
    #[must_use]
    pub fn group_name(&self) -> &str {
        &self.attached.file_system.name
    }

    pub(crate) fn origin(&self) -> Origin {
        self.attached.origin
    }

    fn file_system(&self) -> &FileSystem {
        &self.attached.file_system
    }

    /// The file, if it has bytes.
    async fn regular(&self, node: Node) -> Result<Arc<File>> {
        let file = self.file_system().files.get(node).await?;
        match file.kind {
            Kind::Regular => Ok(file),
            Kind::Directory => Err(FileError::IsADirectory),
            _ => Err(FileError::Invalid("not a regular file")),
        }
    }

    /// A volume has the size that statements gave it.
    fn check_size(&self, file: &File, end: u64) -> Result<()> {
        let is_larger = self.file_system().volumes.has(file.node) && end > file.size();
        if is_larger { Err(FileError::NoSpace) } else { Ok(()) }
    }

    /// Another session has changed a file on its behalf.
    pub(crate) fn tell_others(&self, node: Node) {
        self.changed(node);
    }

    /// Others must not go on showing what they cached of a file.
    fn changed(&self, node: Node) {
        self.file_system().files.invalidate(self.attached.origin, &Invalidation::Node(node));
    }

    /// Resolves one name. Handles neither `.` nor `..`.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    pub async fn lookup(&self, parent: Node, name: &[u8]) -> Result<Attributes> {
        self.file_system().files.lookup(parent, name).await
    }

    /// The directory that holds directory `node`; the root's is the root.
    ///
    /// # Errors
    /// `Stale`, `NotADirectory`.
    pub async fn parent(&self, node: Node) -> Result<Node> {
        self.file_system().files.parent(node).await
    }

    /// # Errors
    /// `Stale`.
    pub async fn attributes(&self, node: Node) -> Result<Attributes> {
        self.file_system().files.attributes(node).await
    }

    /// Changes mode, owner, size and times.
    ///
    /// # Errors
    /// `TooLarge`, `Stale`, `NoSpace`.
    pub async fn change(&self, node: Node, mut changes: Changes) -> Result<Attributes> {
        if changes.size.is_some() {
            let file = self.regular(node).await?;
            if self.file_system().volumes.has(node) {
                return Err(FileError::NotPermitted);
            }
            self.file_system().resize(&file, &changes).await?;
            self.changed(node);
            changes.size = None;
            if changes == Changes::default() {
                return self.attributes(node).await;
            }
        }
        self.file_system().files.change(self.attached.origin, node, &changes).await
    }

    /// Makes a file. `mode` has the permission bits after the umask; group and
    /// set-group-id bit follow the directory's as on ext4.
    ///
    /// # Errors
    /// `Exists`, `NotFound` in a removed directory, `NameTooLong`, `NoSpace`.
    pub async fn create(
        &self,
        parent: Node,
        name: &[u8],
        new: NewFile,
        mode: u32,
        caller: Caller,
    ) -> Result<Attributes> {
        self.file_system().files.create(self.asked(), parent, name, new, mode, caller).await
    }

    /// # Errors
    /// `Exists`, `TooManyLinks`, `NotPermitted` for a directory.
    pub async fn link(&self, node: Node, parent: Node, name: &[u8]) -> Result<Attributes> {
        self.file_system().files.link(self.asked(), node, parent, name).await
    }

    /// Removes a name that is not a directory's. The file stays while it is
    /// remembered, and goes with its last `forget`.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`.
    pub async fn unlink(&self, parent: Node, name: &[u8]) -> Result<()> {
        self.file_system().files.unlink(self.asked(), parent, name).await
    }

    /// # Errors
    /// `NotFound`, `NotADirectory`, `NotEmpty`.
    pub async fn remove_directory(&self, parent: Node, name: &[u8]) -> Result<()> {
        self.file_system().files.remove_directory(self.asked(), parent, name).await
    }

    /// # Errors
    /// As `rename(2)`.
    pub async fn rename(
        &self,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        self.file_system().files.rename(self.asked(), from, to, mode).await
    }

    /// # Errors
    /// `Invalid` if it is no symbolic link.
    pub async fn read_link(&self, node: Node) -> Result<Vec<u8>> {
        self.file_system().files.read_link(node).await
    }

    /// Up to `count` entries after `cookie` (0: from the start), in a stable order.
    ///
    /// # Errors
    /// `NotADirectory`.
    pub async fn read_directory(
        &self,
        node: Node,
        cookie: u64,
        count: usize,
    ) -> Result<Vec<Entry>> {
        self.file_system().files.read_directory(node, cookie, count).await
    }

    /// Fills `into` from `offset`; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// `ExtentLost` if no mirror has the right bytes.
    pub async fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Result<usize> {
        let found = self.find(node, offset, into.len()).await?;
        found.copy_to(into);
        Ok(found.len())
    }

    /// The same, without a copy: the bytes stay where the disks put them.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn find(&self, node: Node, offset: u64, length: usize) -> Result<Found> {
        let file = self.regular(node).await?;
        let file_system = self.file_system();
        let began = file_system.world.monotonic();
        let found = pin!(file_system.read_file(began, &file, offset, length)).await?;
        let length = found.len() as u64;
        file_system.note_request(&file, FileClass::read(length), length, began);
        Ok(found)
    }

    /// Writes all of `bytes`, or fails. `kill_set_id`: set-id bits are to be cleared.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`; a disk's error where redundancy does not cover it.
    pub async fn write(
        &self,
        node: Node,
        offset: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Result<()> {
        self.write_from(node, offset, bytes.into(), kill_set_id).await
    }

    /// The same, without a copy where `bytes` are shared and whole blocks.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_from(
        &self,
        node: Node,
        offset: u64,
        bytes: Source<'_>,
        kill_set_id: bool,
    ) -> impl Future<Output = Result<()>> {
        self.write_as(node, offset, bytes, kill_set_id, false)
    }

    async fn write_as(
        &self,
        node: Node,
        offset: u64,
        bytes: Source<'_>,
        kill_set_id: bool,
        durably: bool,
    ) -> Result<()> {
        let file = self.regular(node).await?;
        self.check_size(&file, offset.saturating_add(bytes.len() as u64))?;
        let file_system = self.file_system();
        // Linux sees to that where the write comes through its page cache only.
        if file.is_program() {
            Box::pin(file_system.files.drop_capability(self.attached.origin, node)).await?;
        }
        let began = file_system.world.monotonic();
        let result =
            pin!(file_system.write_file(began, &file, offset, &bytes, kill_set_id, durably)).await;
        if result.is_ok() {
            file_system.note_request(
                &file,
                FileClass::write(bytes.len() as u64),
                bytes.len() as u64,
                began,
            );
        }
        self.changed(node);
        result
    }

    /// Writes, and makes the file durable as [`Self::sync`] does: where nothing but these bytes
    /// changes, in one trip to the disks.
    ///
    /// # Errors
    /// As [`Self::write`] and [`Self::sync`].
    pub async fn write_durably(
        &self,
        node: Node,
        offset: u64,
        bytes: Source<'_>,
        kill_set_id: bool,
        data_only: bool,
    ) -> Result<()> {
        pin!(self.write_as(node, offset, bytes, kill_set_id, true)).await?;
        pin!(self.sync(node, data_only)).await
    }

    /// Makes what was written and acknowledged durable; with `data_only`, times may stay behind.
    ///
    /// # Errors
    /// If a disk that cannot be spared does not flush.
    pub async fn sync(&self, node: Node, data_only: bool) -> Result<()> {
        let file = self.file_system().files.get(node).await?;
        let file_system = self.file_system();
        let began = file_system.world.monotonic();
        // In memory of its own: a front end's request is as large as the largest that it may be,
        // and most are none of these.
        Box::pin(file_system.sync_file(&file, data_only)).await?;
        file_system.note_request(&file, FileClass::Sync, 0, began);
        Ok(())
    }

    /// Makes all acknowledged changes of names durable.
    ///
    /// # Errors
    /// If the catalog cannot be flushed.
    pub async fn sync_directory(&self, node: Node) -> Result<()> {
        self.file_system().files.sync_directory(node).await
    }

    /// Makes everything acknowledged durable.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub async fn sync_all(&self) -> Result<()> {
        self.file_system().sync_everything().await
    }

    /// `fallocate`, all or nothing where space is missing. `kill_set_id`: on behalf of a program
    /// that is not privileged.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`, `Invalid`.
    pub async fn allocate(
        &self,
        node: Node,
        offset: u64,
        length: u64,
        mode: Allocate,
        kill_set_id: bool,
    ) -> Result<()> {
        let file = self.regular(node).await?;
        self.check_size(&file, offset.saturating_add(length))?;
        let result =
            self.file_system().allocate_file(&file, offset, length, mode, kill_set_id).await;
        self.changed(node);
        result
    }

    /// The next data or hole at or after `offset`.
    ///
    /// # Errors
    /// `NoData` past the end.
    pub async fn seek(&self, node: Node, offset: u64, what: Seek) -> Result<u64> {
        let file = self.regular(node).await?;
        self.file_system().seek_file(&file, offset, what).await
    }

    /// Where a part of a file has data and where holes, in one look: lengths from `offset` on,
    /// `most` at most, to the end of the part or of the file.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn map(
        &self,
        node: Node,
        offset: u64,
        length: u64,
        most: usize,
    ) -> Result<Vec<(u64, bool)>> {
        let file = self.regular(node).await?;
        self.file_system().map_file(&file, offset, length, most).await
    }

    /// # Errors
    /// `NoAttribute`.
    pub async fn xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.file_system().files.xattr(node, name).await
    }

    /// # Errors
    /// `Stale`.
    pub async fn xattrs(&self, node: Node) -> Result<Vec<Vec<u8>>> {
        self.file_system().files.xattrs(node).await
    }

    /// # Errors
    /// `Exists`, `NoAttribute`, `Range`.
    pub async fn set_xattr(
        &self,
        node: Node,
        name: &[u8],
        value: &[u8],
        mode: SetXattr,
    ) -> Result<()> {
        self.file_system().files.set_xattr(self.asked(), node, name, value, mode).await
    }

    /// # Errors
    /// `NoAttribute`.
    pub async fn remove_xattr(&self, node: Node, name: &[u8]) -> Result<()> {
        self.file_system().files.remove_xattr(self.asked(), node, name).await
    }

    fn names(&self, caller: Caller) -> StatementContext {
        let file_system = self.file_system();
        let membership = file_system.voters.current();
        let failure_groups = failure_groups(&membership);
        let (redundancy, group) = (membership.wanted, file_system.name.clone());
        StatementContext { origin: self.attached.origin, group, redundancy, failure_groups, caller }
    }

    /// Carries out a DBA's statement on names or templates, all of it or nothing.
    ///
    /// # Errors
    /// The statement's error.
    pub async fn order(&self, order: NameOrder, caller: Caller) -> Result<()> {
        self.file_system().files.order(self.names(caller), order).await
    }

    /// Makes a file under a system name; returns it and its path. `head`: what will be written
    /// first, if that is known.
    ///
    /// # Errors
    /// If there is no such template, or its alias is taken or in no directory.
    pub async fn create_system(
        &self,
        new: NewSystemFile,
        head: &[u8],
        mode: u32,
        caller: Caller,
    ) -> Result<(Attributes, String)> {
        self.file_system().files.create_system(self.names(caller), new, head, mode).await
    }

    /// What a DBA's name means, in any case: `dir/file`, or `.number.incarnation`, behind the
    /// group's name. `None`: there is nothing.
    ///
    /// # Errors
    /// If it is ambiguous, or no name of a file that there is.
    pub async fn resolve(&self, path: &str) -> Result<Option<Attributes>> {
        let form = paths::behind_group(path, path)?;
        match self.file_system().files.resolve(form).await? {
            Some(node) => self.attributes(node).await.map(Some),
            None => Ok(None),
        }
    }

    /// A path of a file, behind the group's name: the system's, if it has one.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn path_of(&self, node: Node) -> Result<Option<String>> {
        let parts = self.file_system().files.path_of(node).await?;
        Ok(parts.map(|parts| paths::written(self.group_name(), &parts)))
    }

    /// # Errors
    /// None today.
    pub async fn space(&self) -> Result<FileSystemSpace> {
        Ok(self.file_system().file_system_space())
    }

    /// The front end holds `count` more references to the file: it outlives its last name.
    pub fn remember(&self, node: Node, count: u64) {
        self.file_system().files.remember(node, count);
    }

    /// The front end gives references back; a file without names and references is freed.
    pub async fn forget(&self, node: Node, count: u64) {
        self.file_system().files.forget(node, count).await;
    }
}
