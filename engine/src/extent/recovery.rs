//! After an unclean stop: which mirrors may differ, and making them equal.
//!
//! Only extents whose region was listed in the activity log are suspect. They are compared on
//! demand, before their first read or write, and by a task in the background; until then their
//! regions stay listed, so a crash during recovery loses nothing of it.

use crate::{
    error::FileError,
    event::Severity,
    extent::Extent,
    extent::data::Data,
    planted::{self, Bug},
    reached::{self, Mark},
    space::extent_id::ExtentId,
    sync::lock::{Mutex, MutexGuard},
};
use plinth_format::activity::Region;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// How long it waits before it looks again at an extent that could not be compared.
const AGAIN: Duration = Duration::from_secs(1);

/// The extents that were not compared yet, and what was done so far. The set alone says what is
/// suspect: an extent may be in memory for other reasons than its data.
#[derive(Debug, Default)]
pub struct Suspects {
    left: Mutex<BTreeSet<ExtentId>>,
    /// Whether `left` has any: looked at by every read and write.
    any: AtomicBool,
    pub total: AtomicU64,
    pub bytes_compared: AtomicU64,
    pub bytes_copied: AtomicU64,
}

impl Suspects {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<ExtentId>> {
        self.left.lock()
    }

    /// Suspects every extent in `ids`.
    #[must_use]
    pub fn new(ids: BTreeSet<ExtentId>) -> Self {
        Self {
            total: AtomicU64::new(ids.len() as u64),
            any: AtomicBool::new(!ids.is_empty()),
            left: Mutex::new(ids),
            ..Self::default()
        }
    }

    fn remove(&self, id: ExtentId) {
        let mut left = self.lock();
        left.remove(&id);
        self.any.store(!left.is_empty(), Ordering::Release);
    }

    #[must_use]
    pub fn left(&self) -> u64 {
        self.lock().len() as u64
    }

    fn first(&self, from: ExtentId) -> Option<ExtentId> {
        self.lock().range(from..).next().copied()
    }
}

impl Data {
    pub(crate) fn is_suspect_extent(&self, id: ExtentId) -> bool {
        self.suspects.any.load(Ordering::Acquire) && self.suspects.lock().contains(&id)
    }

    pub(crate) fn is_suspect_region(&self, region: Region) -> bool {
        let count = u64::from(region.count) - u64::from(planted::has(Bug::LastNotSuspect));
        let end = region.first.saturating_add(count);
        self.suspects.lock().range(ExtentId(region.first)..ExtentId(end)).next().is_some()
    }

    /// Makes the mirrors of an extent equal if it is suspect.
    pub(crate) async fn recover_extent(&self, extent: &Extent) -> Result<(), FileError> {
        if !self.is_suspect_extent(extent.id) {
            return Ok(());
        }
        // Boxed: the rare path (`file_read.rs`).
        reached::at(Mark::RecoveredOnDemand);
        Box::pin(self.recover_suspect(extent)).await
    }

    async fn recover_suspect(&self, extent: &Extent) -> Result<(), FileError> {
        let _range = extent.ranges.hold(0..self.blocks_per_au(), true).await;
        if !self.is_suspect_extent(extent.id) {
            return Ok(());
        }
        if !extent.is_tombstone() {
            let active = self.activate(extent).await?;
            let compared = self.reconcile(extent, &active).await;
            if planted::has(Bug::SuspectForgotten) {
                self.suspects.remove(extent.id);
            }
            let compared = compared?;
            if compared.unseen > 0 && !planted::has(Bug::UnseenForgotten) {
                // The caller gets what is known to be right. The silent mirror is compared when it
                // answers.
                return Ok(());
            }
            self.suspects.bytes_compared.fetch_add(compared.bytes, Ordering::Relaxed);
            self.suspects.bytes_copied.fetch_add(compared.copied, Ordering::Relaxed);
        }
        self.suspects.remove(extent.id);
        Ok(())
    }

    /// Compares all that is suspect, and says how much that was.
    pub(crate) async fn recover_all(self: Arc<Self>) {
        let total = self.suspects.total.load(Ordering::Relaxed);
        let (mut told, mut from) = (false, ExtentId(0));
        loop {
            let Some(id) = self.suspects.first(from) else {
                if from == ExtentId(0) {
                    break;
                }
                // The remaining extents wait for disks that are silent.
                from = ExtentId(0);
                self.world.sleep(AGAIN).await;
                continue;
            };
            if self.is_stopping() {
                return;
            }
            match self.recover_one(id).await {
                Ok(()) if self.is_suspect_extent(id) => from = id.next(),
                Ok(()) => told = false,
                Err(FileError::Dismounted | FileError::CatalogStopped(_)) => return,
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        let text =
                            format!("recovery waits at extent {id}, and tries again: {error}");
                        self.tell(Severity::Alarm, None, text);
                    }
                    self.world.sleep(AGAIN).await;
                }
            }
        }
        let compared = self.suspects.bytes_compared.load(Ordering::Relaxed);
        let copied = self.suspects.bytes_copied.load(Ordering::Relaxed);
        self.tell(
            Severity::Note,
            None,
            format!("recovery ended: {total} active extents, {compared} bytes compared, {copied} bytes copied"),
        );
    }

    async fn recover_one(&self, id: ExtentId) -> Result<(), FileError> {
        let extent = match self.extents.get(id) {
            Some(extent) => Some(extent),
            None => self.alive(vec![id]).await?.pop(),
        };
        match extent {
            Some(extent) => self.recover_extent(&extent).await,
            None => {
                self.suspects.remove(id);
                Ok(())
            }
        }
    }
}
