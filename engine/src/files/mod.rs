//! stub
use crate::{api::{Attributes,Kind,Node}, catalog::{Catalog,CommitNumber}, error::FileError, extents::FileData};
use std::{collections::BTreeMap, sync::{Arc, Mutex, MutexGuard}};
pub struct File { pub node: Node, pub generation: u64, pub kind: Kind, pub data: FileData, attributes: Mutex<Attributes>, commit: Mutex<CommitNumber>, times: Mutex<bool> }
impl File {
    pub fn attributes(&self) -> MutexGuard<'_, Attributes> { self.attributes.lock().unwrap() }
    pub fn touch(&self, now: i64) { let mut a = self.attributes(); a.modified = now; a.changed = now; *self.times.lock().unwrap() = true; }
    pub fn take_times(&self) -> Option<(i64, i64, i64)> { let a = self.attributes(); std::mem::take(&mut *self.times.lock().unwrap()).then(|| (a.accessed, a.modified, a.changed)) }
    pub fn last_commit(&self) -> CommitNumber { *self.commit.lock().unwrap() }
    pub fn committed(&self, commit: CommitNumber) { *self.commit.lock().unwrap() = commit; }
}
#[derive(Default)]
pub struct Files { map: Mutex<BTreeMap<Node, Arc<File>>> }
impl Files {
    pub fn new() -> Self { Self::default() }
    pub fn all(&self) -> Vec<Arc<File>> { self.map.lock().unwrap().values().cloned().collect() }
    pub fn shed(&self) {}
    pub async fn reap_orphans(&self, _g: &crate::group::Group) {}
    pub async fn store_times(&self, _c: &Catalog) -> Result<(), FileError> { Ok(()) }
}
