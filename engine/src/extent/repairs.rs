//! Blocks that a read found wrong on one mirror and right on another: rewritten soon after.
//!
//! The reader has its bytes already. The list is bounded: blocks that do not fit are found again by
//! the next read. Where a disk that cannot be spared does not take the right bytes, they are
//! written again a second later.

use crate::{
    error::FileError, event::Severity, extent::Extent, extent::data::Data, limits::Limit,
    space::extent_id::ExtentId, sync::lock::Mutex,
};
use plinth_format::Block;
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
};

/// Ranges kept: more than readers find between two looks, unless a whole disk is bad.
const WAITING_MAX: Limit = Limit::new(4096, 3);

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<(ExtentId, Block)>,
    ranges: BTreeMap<(ExtentId, Block), (Arc<Extent>, Range<usize>)>,
    /// To be tried again, not at once.
    again: BTreeMap<(ExtentId, Block), (Arc<Extent>, Range<usize>)>,
}

/// The list. See the module's description.
#[derive(Debug, Default)]
pub struct Repairs(Mutex<Waiting>);

impl Repairs {
    /// Blocks of an extent are to be repaired.
    pub fn add(&self, extent: &Arc<Extent>, blocks: Range<usize>) {
        let mut waiting = self.0.lock();
        let key = (extent.id, Block(blocks.start));
        if waiting.ranges.len() < WAITING_MAX.get()
            && waiting.ranges.insert(key, (Arc::clone(extent), blocks)).is_none()
        {
            waiting.order.push_back(key);
        }
    }

    /// A block of an extent stays wrong on a disk that is still ONLINE.
    pub fn add_later(&self, extent: &Arc<Extent>, block: Block) {
        let mut waiting = self.0.lock();
        if waiting.again.len() < WAITING_MAX.get() {
            waiting.again.insert((extent.id, block), (Arc::clone(extent), block.range()));
        }
    }

    /// Blocks that were put off are due, where `is_due`: to be called now and then.
    pub fn try_again(&self, is_due: impl Fn(&Extent) -> bool) {
        let again = {
            let mut waiting = self.0.lock();
            let (due, later): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut waiting.again)
                .into_iter()
                .partition(|(_, (extent, _))| is_due(extent));
            waiting.again = later;
            due
        };
        again.into_values().for_each(|(extent, blocks)| self.add(&extent, blocks));
    }

    fn next(&self) -> Option<(Arc<Extent>, Range<usize>)> {
        let mut waiting = self.0.lock();
        let key = waiting.order.pop_front()?;
        waiting.ranges.remove(&key)
    }
}

impl Data {
    pub(crate) async fn make_repairs(&self) {
        while let Some((extent, blocks)) = self.repairs.next() {
            if self.is_stopping() {
                return;
            }
            if let Err(error) = self.repair_later(&extent, blocks).await {
                let text = format!(
                    "extent {} of file {} is not repaired: {error}",
                    extent.number, extent.file
                );
                self.tell(Severity::Warning, None, text);
            }
        }
    }

    async fn repair_later(&self, extent: &Extent, blocks: Range<usize>) -> Result<(), FileError> {
        let _range = extent.ranges.hold(blocks.clone(), true).await;
        if extent.is_tombstone() {
            return Ok(());
        }
        let active = self.activate(extent).await?;
        self.load_sums(extent).await?;
        // A wrong block may be a hole by now.
        for run in extent.data_in(&blocks) {
            self.repair(extent, run, &active).await?;
        }
        Ok(())
    }
}
