//! `DROP DISK ... RECLAIM`: the space of a dropped disk goes back to its thin device.
//!
//!   1. The statement stores the wish in the catalog, durably, before the disk leaves: the engine
//!      that drops the disk in the end may be another one. UNDROP, and a DROP without the word,
//!      take it back.
//!   2. The disk is dropped as any other (`disks.rs`): it is empty, no member, and its header says
//!      FORMER, durably.
//!   3. Its AUs are discarded one run after the other, with a rest as long as each discard took.
//!      Headers and records stay: it is known as a FORMER disk of the group.
//!   4. It is released.
//!
//! Nothing on the disk counts any more in 3. A crash or a dismount there leaves it discarded in
//! part, and no engine goes on with it.

use crate::{
    admin::{AdminError, Code},
    catalog::attributes,
    disk::{counters::IoClient, disk_io::IoResult, member::Member},
    error::FileError,
    event::Severity,
    files::file_system::FileSystem,
    movement::Movement,
};
use plinth_format::Layout;
use std::{ops::Range, sync::Arc, time::Duration};

/// Longest rest after a discard.
const REST_MAX: Duration = Duration::from_secs(1);

impl Movement {
    /// Whether the space of a disk can go back.
    ///
    /// # Errors
    /// If its device cannot discard.
    pub(crate) fn check_can_discard(&self, member: &Member) -> Result<(), AdminError> {
        if member.can_discard() {
            return Ok(());
        }
        let text = format!("disk {} of disk group {} cannot discard", member.name(), self.name);
        Err(AdminError::new(Code::Invalid, text).hint("drop it without RECLAIM"))
    }

    /// Step 1: stores which of the disks that leave are to be discarded.
    pub(crate) async fn note_reclaims(
        &self,
        disks: impl Iterator<Item = (&Member, bool)>,
    ) -> Result<(), FileError> {
        let wishes: Vec<_> =
            disks.map(|(member, reclaim)| (member.number, reclaim.then(|| member.id()))).collect();
        let store = move |connection: &rusqlite::Connection| {
            wishes.iter().try_for_each(|(disk, wish)| {
                attributes::store_reclaim_at_drop(connection, *disk, *wish)
            })
        };
        self.catalog.write(true, store).await.map(|_| ())
    }

    /// Whether a disk is to be discarded when it is dropped.
    pub(crate) async fn is_to_reclaim(&self, member: &Member) -> Result<bool, FileError> {
        let (number, id) = (member.number, member.id());
        self.catalog
            .read(move |connection| attributes::is_to_reclaim_at_drop(connection, number, id))
            .await
    }

    /// Steps 3 and 4, in a task of its own.
    pub(crate) fn give_back(&self, member: Arc<Member>) {
        let group = Arc::clone(&self.file_system);
        self.world.spawn(
            "give back",
            Box::pin(async move {
                let (name, path) = (member.name(), member.path());
                let discarded = discard_all(&group, &member).await;
                member.release();
                let (severity, text) = match discarded {
                    Ok(bytes) => (
                        Severity::Note,
                        format!("{} MiB of disk {name} ({path}) were discarded: it can be removed", bytes >> 20),
                    ),
                    Err(reason) => (
                        Severity::Warning,
                        format!("disk {name} ({path}) was not discarded as a whole: {reason}. It can be removed; blkdiscard gives back the rest"),
                    ),
                };
                group.tell(severity, Some(member.number), text);
            }),
        );
    }
}

/// Discards the AUs of a disk that is dropped. Returns bytes.
async fn discard_all(group: &FileSystem, member: &Member) -> Result<u64, String> {
    let refused = || "the device refuses discards".to_owned();
    let limits = member.discard_limits().ok_or_else(refused)?;
    let mut bytes = 0;
    for request in runs_of(&member.layout()).into_iter().flat_map(|run| limits.requests(run)) {
        if group.is_stopping() || group.voters.is_closing() {
            return Err("the disk group is being dismounted".to_owned());
        }
        let began = group.world.monotonic();
        let length = request.end - request.start;
        let discard = member.start_discard(request.start, length).of(IoClient::Records);
        let ended = discard.result().await;
        if !matches!(ended, IoResult::Ok(_)) {
            return Err(ended.reason());
        }
        if !member.can_discard() {
            return Err(refused());
        }
        bytes += length;
        let took = group.world.monotonic().saturating_sub(began);
        group.world.sleep(took.min(REST_MAX)).await;
    }
    Ok(bytes)
}

/// The AUs of a disk that hold data, as ranges of bytes.
fn runs_of(layout: &Layout) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for au in layout.data_units() {
        let (start, end) = (layout.au_offset(au), layout.au_offset(au) + layout.au_size());
        match runs.last_mut() {
            Some(run) if run.end == start => run.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use plinth_format::layout::MIB;

    /// All data and no header, whatever the size of an AU.
    #[test]
    fn everything_but_headers_and_records_is_discarded() {
        for au_size in [MIB, 4 * MIB, 64 * MIB] {
            let layout = Layout::new(3000 * MIB, au_size).expect("large enough");
            let runs = runs_of(&layout);
            let total: u64 = runs.iter().map(|run| run.end - run.start).sum();
            assert_eq!(total, u64::from(layout.data_unit_count()) * au_size);
            for run in runs {
                assert!(!layout.header_places().iter().any(|place| run.contains(place)));
            }
        }
    }
}
