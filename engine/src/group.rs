//! A mounted disk group, as its front ends see it.

use crate::{
    admin::{AdminError, NewGroup, Operation, Report, Rows, Selection, Survey},
    api::{
        Allocate, Attributes, Caller, Changes, Entry, FileSystemSpace, NewFile, Node, RenameMode, Seek, SetXattr,
        Watcher,
    },
    error::FileError,
    world::World,
};
use std::sync::Arc;

/// A mounted disk group.
pub struct Group {}

#[allow(unused_variables, clippy::todo, clippy::unused_async)]
impl Group {
    /// Looks at every disk that discovery shows, without mounting anything.
    pub async fn survey(world: &Arc<dyn World>) -> Vec<Survey> {
        todo!()
    }
    /// Makes a group and leaves it dismounted.
    pub async fn create(world: &Arc<dyn World>, new: NewGroup) -> AdminResult<()> {
        todo!()
    }
    /// Mounts a group. `force`: with fewer than half of its voters, or from the newer of two histories.
    pub async fn mount(world: Arc<dyn World>, name: &str, force: bool) -> AdminResult<Arc<Self>> {
        todo!()
    }
    /// Ends the use of the group in good order and lets the disks go. `force`: although front ends hold files.
    pub async fn dismount(&self, force: bool) -> AdminResult<()> {
        todo!()
    }
    /// Frees the disks of a mounted group and dismounts it. Refused unless `contents` when it holds files.
    pub async fn drop_group(&self, contents: bool) -> AdminResult<()> {
        todo!()
    }
    pub async fn offline(&self, selection: Selection) -> AdminResult<()> {
        todo!()
    }
    /// Starts the resync of the disks and returns; `operations` shows it.
    pub async fn online(self: &Arc<Self>, selection: Selection) -> AdminResult<()> {
        todo!()
    }
    pub async fn check(&self, repair: bool) -> AdminResult<Report> {
        todo!()
    }
    pub async fn set_attribute(&self, name: &str, value: &str) -> AdminResult<()> {
        todo!()
    }
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        todo!()
    }
    /// Runs a SELECT over the views of `views.sql` on a snapshot. GROUP_NUMBER is 0 there: the instance numbers groups.
    pub async fn query(&self, sql: &str) -> AdminResult<Rows> {
        todo!()
    }
}

/// One front end's way into a group. Clones share the same identity.
///
/// Changes made through one session are told to the watchers of all others.
#[derive(Clone)]
pub struct Session {
    #[allow(dead_code)]
    group: Arc<Group>,
}

type Result<T> = std::result::Result<T, FileError>;
type AdminResult<T> = std::result::Result<T, AdminError>;

#[allow(unused_variables, clippy::todo, clippy::unused_async)]
impl Session {
    #[must_use]
    pub fn new(group: Arc<Group>, watcher: Option<Arc<dyn Watcher>>) -> Self {
        todo!()
    }
    /// Name of the disk group, upper case.
    #[must_use]
    pub fn group_name(&self) -> &str {
        todo!()
    }
    /// Resolves one name. `NotFound` if there is none. Handles neither `.` nor `..`.
    pub async fn lookup(&self, parent: Node, name: &[u8]) -> Result<Attributes> {
        todo!()
    }
    /// The directory that holds directory `node`; the root's is the root.
    pub async fn parent(&self, node: Node) -> Result<Node> {
        todo!()
    }
    pub async fn attributes(&self, node: Node) -> Result<Attributes> {
        todo!()
    }
    pub async fn change(&self, node: Node, changes: Changes) -> Result<Attributes> {
        todo!()
    }
    /// Makes a file. `mode` has the permission bits after the umask; the group
    /// and set-group-id bit follow the directory's as on ext4. `Exists` if the name is taken.
    pub async fn create(
        &self,
        parent: Node,
        name: &[u8],
        new: NewFile,
        mode: u32,
        caller: Caller,
    ) -> Result<Attributes> {
        todo!()
    }
    pub async fn link(&self, node: Node, parent: Node, name: &[u8]) -> Result<Attributes> {
        todo!()
    }
    /// Removes a name that is not a directory's. The file stays while it is
    /// remembered (`remember`), and goes with its last `forget`.
    pub async fn unlink(&self, parent: Node, name: &[u8]) -> Result<()> {
        todo!()
    }
    pub async fn remove_directory(&self, parent: Node, name: &[u8]) -> Result<()> {
        todo!()
    }
    pub async fn rename(&self, from: (Node, &[u8]), to: (Node, &[u8]), mode: RenameMode) -> Result<()> {
        todo!()
    }
    pub async fn read_link(&self, node: Node) -> Result<Vec<u8>> {
        todo!()
    }
    /// Up to `count` entries after `cookie` (0: from the start), in a stable order.
    pub async fn read_directory(&self, node: Node, cookie: u64, count: usize) -> Result<Vec<Entry>> {
        todo!()
    }
    /// Fills `into` from `offset`; fewer bytes only at the end of the file.
    pub async fn read(&self, node: Node, offset: u64, into: &mut [u8]) -> Result<usize> {
        todo!()
    }
    /// Writes all of `bytes`, or fails. `kill_set_id`: the kernel asks that set-id bits go.
    pub async fn write(&self, node: Node, offset: u64, bytes: &[u8], kill_set_id: bool) -> Result<()> {
        todo!()
    }
    /// Makes what was written and acknowledged durable; with `data_only`, times may stay behind.
    pub async fn sync(&self, node: Node, data_only: bool) -> Result<()> {
        todo!()
    }
    /// Makes all acknowledged changes of names durable.
    pub async fn sync_directory(&self, node: Node) -> Result<()> {
        todo!()
    }
    /// Makes everything acknowledged durable.
    pub async fn sync_all(&self) -> Result<()> {
        todo!()
    }
    pub async fn allocate(&self, node: Node, offset: u64, length: u64, mode: Allocate) -> Result<()> {
        todo!()
    }
    /// The next data or hole at or after `offset`; `NoData` past the end.
    pub async fn seek(&self, node: Node, offset: u64, what: Seek) -> Result<u64> {
        todo!()
    }
    pub async fn xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        todo!()
    }
    pub async fn xattrs(&self, node: Node) -> Result<Vec<Vec<u8>>> {
        todo!()
    }
    pub async fn set_xattr(&self, node: Node, name: &[u8], value: &[u8], mode: SetXattr) -> Result<()> {
        todo!()
    }
    pub async fn remove_xattr(&self, node: Node, name: &[u8]) -> Result<()> {
        todo!()
    }
    pub async fn space(&self) -> Result<FileSystemSpace> {
        todo!()
    }
    /// The front end holds `count` more references to the file: it outlives its last name.
    pub fn remember(&self, node: Node, count: u64) {
        todo!()
    }
    /// The front end gives references back; a file without names and references is freed.
    pub async fn forget(&self, node: Node, count: u64) {
        todo!()
    }
}
