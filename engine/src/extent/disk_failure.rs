//! A disk stops being used: what the data path does when I/O on a disk fails or is overdue.
//!
//! The states of a member, and the functions that make the transitions:
//!
//! ```text
//!             expel: its I/O failed or is overdue
//!             take_offline: by a statement
//!   ONLINE ------------------------------------------> OFFLINE, what it misses is not on record
//!     ^                                                   |
//!     | promote_disk                                      | went_offline: it is on record (R4)
//!     |                                                   v
//!   SYNCING <----------------------------------------- OFFLINE, what it misses is on record
//!             start_resync
//!
//!   SYNCING -- expel, take_offline --> OFFLINE, as above
//!
//!   any state -- record_exchange (DROP) --> leaving -- undrop --> as before
//!                                           leaving -- dismiss_disk --> no member
//! ```
//!
//! The words: a disk is *expelled* for an error and *taken offline* by a statement; a disk that
//! leaves is *dismissed* from the membership when it is empty, and *retired* when its header says
//! FORMER; its device is *released* when the engine closes it. Stale marks that can never be
//! durable are *abandoned*: the catalog has stopped, and the group with it. The catalog's mirrors
//! on a disk are *struck* from the membership's list when it goes offline.
//!
//! Here is the data path's part:
//!
//! ```text
//!   an I/O failed, or is overdue  expel, expel_in_background  the voters record it OFFLINE
//!   it may not go offline (R5)    expel_or_wait, not_expelled it stays: wait, or an error
//!   a flush failed                flush_disks, flush_or_expel offline, or uncertain writes
//!   the record is in force        went_offline                stale marks are put on record
//!   they are on record            wait_for_marks                writes may be acknowledged (R4)
//! ```
//!
//! Which disk may go offline, and how that is recorded, is `membership/voters.rs`; uncertain writes
//! are in `failed_flush.rs`; how a disk comes back is in `movement/resync.rs`, how one is dropped
//! in `movement/disks.rs`.

use crate::{
    disk::{disk_errors::Trouble, disk_io::IoResult, member::Member},
    error::FileError,
    event::Severity,
    extent::data::Data,
    extent::{own_metadata::MetadataLook, scope::ExtentScope},
    membership::voters::Refusal,
};
use plinth_format::DiskNumber;
use std::{sync::Arc, time::Duration};

impl Data {
    /// A disk failed an I/O that the group cannot do without: it goes offline, or the caller gets
    /// the error.
    pub(crate) async fn expel(
        &self,
        member: &Arc<Member>,
        ended: &IoResult,
    ) -> Result<(), FileError> {
        self.expel_because(member, &ended.reason()).await
    }

    /// As [`Self::expel`], for a reason in words.
    pub(crate) async fn expel_because(
        &self,
        member: &Arc<Member>,
        reason: &str,
    ) -> Result<(), FileError> {
        match self.voters.expel(member.number, reason, false).await {
            Ok(()) => self.wait_for_marks(member).await,
            Err(refusal) => Err(self.not_expelled(member, reason, refusal)),
        }
    }

    /// The voters refused to expel a disk: the caller's error. The disk's error log notes it.
    pub(crate) fn not_expelled(
        &self,
        member: &Member,
        reason: &str,
        refusal: Refusal,
    ) -> FileError {
        if refusal == Refusal::Closing {
            return FileError::Dismounted;
        }
        let why = refusal.to_string();
        member.note(Trouble::Refused, None, format!("{reason}: {why}"));
        FileError::Refused { disk: member.name().to_string(), reason: reason.to_owned(), why }
    }

    /// Takes a disk offline without waiting: the caller has what it needs from another.
    pub(crate) fn expel_in_background(&self, member: &Arc<Member>, reason: String) {
        let (voters, number) = (Arc::clone(&self.voters), member.number);
        self.world.spawn(
            "expel",
            Box::pin(async move {
                let _ = voters.expel(number, &reason, false).await;
            }),
        );
    }

    /// Makes everything written durable on every writable disk that has something to flush.
    pub(crate) async fn flush_disks(&self) -> Result<(), FileError> {
        let flush_epoch = self.failed_flushes.begin_flush();
        loop {
            let members: Vec<_> =
                self.members.values().filter(|member| member.is_writable()).collect();
            let flushes =
                futures::future::join_all(members.iter().map(|member| member.flush())).await;
            let bad: Vec<_> =
                members.iter().zip(&flushes).filter(|(_, ended)| !ended.is_ok()).collect();
            let data = members.iter().filter(|member| !member.quorum).count();
            let silent = bad
                .iter()
                .filter(|(member, ended)| !member.quorum && matches!(ended, IoResult::Overdue))
                .count();
            // R2: when every disk is silent the cause is more likely this host than the disks: none
            // is expelled.
            let mut again = silent == data && data > 0;
            for (member, ended) in bad {
                if again {
                    self.wait_while_hung(member).await?;
                } else if matches!(ended, IoResult::Overdue)
                    && !self.expel_or_wait(member, ended).await?
                {
                    again = true;
                }
            }
            // Whether the flush was this one, the catalog's or that of a voters' record: no other
            // flush makes up for one that failed.
            for (member, ended) in members.iter().zip(&flushes) {
                let reason = match ended {
                    IoResult::Failed(_) => ended.reason(),
                    _ if member.is_broken() => "a flush failed".to_owned(),
                    _ => continue,
                };
                if let Err(error) = self.expel_because(member, &reason).await {
                    if matches!(error, FileError::Refused { .. }) {
                        self.note_failed_flush(member, &reason);
                    }
                    return Err(error);
                }
            }
            if !again {
                break;
            }
        }
        self.failed_flushes.flushed(flush_epoch);
        for member in self.members.values() {
            self.wait_for_marks(member).await?;
        }
        Ok(())
    }

    /// Makes everything written to a disk durable. False: that failed, and the disk was expelled.
    pub(crate) async fn flush_or_expel(&self, member: &Arc<Member>) -> Result<bool, FileError> {
        loop {
            let ended = member.flush().await;
            if ended.is_ok() {
                return Ok(true);
            }
            let is_gone = match ended {
                IoResult::Overdue => self.expel_or_wait(member, &ended).await?,
                _ => self.expel(member, &ended).await.map(|()| true)?,
            };
            if is_gone {
                return Ok(false);
            }
        }
    }

    /// As [`Self::expel`], but a disk that cannot be spared is waited for if it is silent (R2) or
    /// its pool is full. False: the I/O is to be tried again.
    pub(crate) async fn expel_or_wait(
        &self,
        member: &Arc<Member>,
        ended: &IoResult,
    ) -> Result<bool, FileError> {
        loop {
            match self.expel(member, ended).await {
                Ok(()) => return Ok(true),
                // As long as there is no room, it is tried again.
                Err(FileError::Refused { .. }) if ended.lacks_room() && !self.is_stopping() => {
                    self.world.sleep(Duration::from_secs(1)).await;
                    return Ok(false);
                }
                Err(FileError::Refused { .. }) if matches!(ended, IoResult::Overdue) => {
                    // Disks that were silent with it may have answered meanwhile: then it is
                    // spared.
                    if self.wait_while_hung(member).await? {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a second at most. Whether the disk has answered.
    pub(crate) async fn wait_while_hung(&self, member: &Member) -> Result<bool, FileError> {
        let answers = member.answers_soon(|| self.is_stopping()).await;
        if self.voters.is_closing() || self.is_stopping() && member.is_hung() {
            // Or the disks were released by force: none of them answers any more.
            return Err(FileError::Dismounted);
        }
        Ok(answers)
    }

    /// Waits until what an offline disk misses is on record; an error if it never will be,
    /// because the catalog has stopped: then nothing may be acknowledged (R4).
    pub(crate) async fn wait_for_marks(&self, member: &Member) -> Result<(), FileError> {
        if member.wait_for_marks().await {
            return Ok(());
        }
        Err(self.catalog.failure().map_or(FileError::Dismounted, FileError::CatalogStopped))
    }

    /// A recorded membership took disks offline: the regions that they miss are put on record (R4).
    pub(crate) async fn went_offline(&self, disks: &[DiskNumber]) {
        self.store.free_struck();
        let data: Vec<_> = disks
            .iter()
            .copied()
            .filter(|disk| self.members.get(disk).is_some_and(|member| !member.quorum))
            .collect();
        let regions = self.activity.regions();
        let mut members = disks.iter().filter_map(|disk| self.members.get(disk));
        while let Err(error) = self.mark_stale(&data, &regions).await {
            if self.is_stopping() || self.catalog.failure().is_some() {
                // No write that depends on it is acknowledged: the waiters get the catalog's error.
                members.for_each(|member| member.abandon());
                return;
            }
            self.tell(
                Severity::Alarm,
                None,
                format!("writes wait: stale marks cannot be stored: {error}"),
            );
            self.world.sleep(Duration::from_secs(1)).await;
        }
        members.by_ref().for_each(|member| member.note_marks_durable());
        // The remaining mirrors have to be right from now on.
        if !self.is_stopping() {
            self.look_at_own_metadata(&ExtentScope::All, MetadataLook::PASSING).await;
        }
        // The catalog may have lost a mirror with the disk.
        self.rebuild_catalog().await;
    }
}
