//! A disk stops being used: what the data path does when I/O on a disk fails or is not answered.
//!
//! ```text
//!   an I/O failed, or is overdue       give_up, expel_in_background     the voters record the disk OFFLINE
//!   it may not go offline (R5)         give_up_or_wait                  it stays: wait, or return the error
//!   a flush failed                     flush_disks, flush_or_give_up    offline, or its writes are in doubt
//!   the record is in force             went_offline                     what the disk misses is put on record
//!   that is on record                  wait_settled                     now writes may be acknowledged (R4)
//! ```
//!
//! The voters' part (who may go, and how that is recorded) is `membership/voters.rs`; what is in doubt
//! is `failed_flushes.rs`; how a disk comes back is `movement/resync.rs`.

use crate::{
    disk::{disk_errors::Trouble, disk_io::Settled, member::Member},
    error::FileError,
    event::Severity,
    extent::data::Data,
    extent::{own_metadata::Look, scope::ExtentScope},
    membership::voters::Refusal,
};
use plinth_format::DiskNumber;
use std::{sync::Arc, time::Duration};

impl Data {
    /// A disk failed an I/O that the group cannot do without: it goes offline, or the caller gets the error.
    pub(crate) async fn give_up(
        &self,
        member: &Arc<Member>,
        settled: &Settled,
    ) -> Result<(), FileError> {
        self.give_up_because(member, &settled.reason()).await
    }

    pub(crate) async fn give_up_because(
        &self,
        member: &Arc<Member>,
        reason: &str,
    ) -> Result<(), FileError> {
        match self.voters.expel(member.number, reason, false).await {
            Ok(()) => self.wait_settled(member).await,
            Err(Refusal::Closing) => Err(FileError::Dismounted),
            Err(refusal) => {
                let why = refusal.to_string();
                member.note(Trouble::Refused, None, format!("{reason}: {why}"));
                Err(FileError::Refused {
                    disk: member.name().to_string(),
                    reason: reason.to_owned(),
                    why,
                })
            }
        }
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
                members.iter().zip(&flushes).filter(|(_, settled)| !settled.is_ok()).collect();
            let data = members.iter().filter(|member| !member.quorum).count();
            let silent = bad
                .iter()
                .filter(|(member, settled)| !member.quorum && matches!(settled, Settled::Overdue))
                .count();
            // R2: when every disk is silent it is more likely us than them; nobody is expelled.
            let mut again = silent == data && data > 0;
            for (member, settled) in bad {
                if again {
                    self.wait_while_hung(member).await?;
                } else if matches!(settled, Settled::Overdue)
                    && !self.give_up_or_wait(member, settled).await?
                {
                    again = true;
                }
            }
            // Whoever began it, here or for the catalog or a record of the voters: no other flush makes up for one that failed.
            for (member, settled) in members.iter().zip(&flushes) {
                let reason = match settled {
                    Settled::Failed(_) => settled.reason(),
                    _ if member.is_broken() => "a flush failed".to_owned(),
                    _ => continue,
                };
                if let Err(error) = self.give_up_because(member, &reason).await {
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
            self.wait_settled(member).await?;
        }
        Ok(())
    }

    /// Makes everything written to a disk durable. False: it could not, and was let go.
    pub(crate) async fn flush_or_give_up(&self, member: &Arc<Member>) -> Result<bool, FileError> {
        loop {
            let settled = member.flush().await;
            if settled.is_ok() {
                return Ok(true);
            }
            let gone = match settled {
                Settled::Overdue => self.give_up_or_wait(member, &settled).await?,
                _ => self.give_up(member, &settled).await.map(|()| true)?,
            };
            if gone {
                return Ok(false);
            }
        }
    }

    /// As `give_up`, but a silent disk that cannot be spared is waited for (R2). False: try again.
    pub(crate) async fn give_up_or_wait(
        &self,
        member: &Arc<Member>,
        settled: &Settled,
    ) -> Result<bool, FileError> {
        loop {
            match self.give_up(member, settled).await {
                Ok(()) => return Ok(true),
                Err(FileError::Refused { .. }) if matches!(settled, Settled::Overdue) => {
                    // Those that were silent with it may have answered meanwhile: then it is spared.
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
            // Or the disks were let go by force: none of them answers any more.
            return Err(FileError::Dismounted);
        }
        Ok(answers)
    }

    /// Waits until what an offline disk misses is on record; an error if it never will be,
    /// because the catalog has stopped: then nothing may be acknowledged (R4).
    pub(crate) async fn wait_settled(&self, member: &Member) -> Result<(), FileError> {
        if member.wait_settled().await {
            return Ok(());
        }
        Err(self.catalog.failure().map_or(FileError::Dismounted, FileError::CatalogStopped))
    }

    /// A recorded membership took disks offline: what they miss is put on record (R4).
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
                // Nothing that depends on it will be acknowledged; who waits hears why.
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
        members.by_ref().for_each(|member| member.settle());
        // What is left has to be right from now on.
        if !self.is_stopping() {
            self.look_at_own_metadata(&ExtentScope::All, Look::PASSING).await;
        }
        // The catalog may have lost a mirror with the disk.
        self.rebuild_catalog().await;
    }
}
