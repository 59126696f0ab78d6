//! The watchdog of a group: whether its disks answer, and whether any of them does (R2).
//!
//! It ticks, and a disk on which an I/O is in flight for `deadline` ticks is silent: all I/O on it
//! is overdue.
//!
//! A disk is quiet when an I/O on it is in flight for [`PROBE_TICKS`], or for a part of the
//! deadline where that is short, and none has ended for as long. If all disks with data are quiet,
//! the cause is more likely on the host's side of the cable, or an array fails over: no I/O becomes
//! overdue, callers go on waiting, and no disk is expelled. When one disk answers, the others have
//! a whole deadline from then on.
//!
//! Only for a group that is mounted: a mount, and the creation of a group, report that a disk does
//! not answer.

use super::{Member, TICK_MS};
use crate::{
    disk::{
        counters::{IoClass, IoClient},
        members::Members,
    },
    event::{Event, Severity},
    planted::{self, Bug},
    world::World,
};
use plinth_format::DiskNumber;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// One group's.
#[derive(Debug)]
pub struct Watch {
    pub group: String,
    pub serves: AtomicBool,
}

/// One disk: the number of I/Os that had ended at the last tick, and the ticks since that number
/// changed.
type Heard = (u64, u64);

impl Watch {
    #[must_use]
    pub fn new(group: &str) -> Arc<Self> {
        Arc::new(Self { group: group.to_owned(), serves: AtomicBool::new(false) })
    }

    /// Whether all disks with data are silent.
    fn all_are_silent(
        &self,
        members: &Members,
        (probe, deadline): (u64, u64),
        heard: &mut BTreeMap<DiskNumber, Heard>,
    ) -> bool {
        let (mut count, mut all) = (0, true);
        for member in members.values().filter(|member| member.is_writable() && !member.quorum) {
            let (ended, since) = heard.entry(member.number).or_default();
            let now = member.ended();
            (*ended, *since) = (now, if now == *ended { *since + 1 } else { 0 });
            let is_asked = member.oldest().is_some_and(|ticks| ticks >= probe) || member.is_hung();
            let is_quiet = is_asked && *since >= probe;
            member.is_quiet_for(is_quiet.then_some(*since), deadline);
            count += 1;
            all &= is_quiet;
        }
        let are_silent = all && count > 0 && self.serves.load(Ordering::Relaxed);
        members.values().for_each(|member| {
            member.silent.store(are_silent && !member.quorum, Ordering::Relaxed)
        });
        are_silent
    }

    fn tell(&self, clock: &Arc<dyn World>, severity: Severity, text: String) {
        clock.event(Event { group: self.group.clone(), severity, disk: None, text });
    }
}

/// When a disk has not answered for this many ticks, and again after as many, idle disks are
/// probed: disks of one failure group fall silent together, and their deadlines should not add up.
pub(crate) const PROBE_TICKS: u64 = 10;
/// Starts the watchdog over `members`; it ends with them. `deadline` is in ticks.
pub fn watch(
    world: &Arc<dyn World>,
    members: &Arc<Members>,
    deadline: &Arc<AtomicU64>,
    watch: &Arc<Watch>,
) {
    let (clock, members, deadline) =
        (Arc::clone(world), Arc::downgrade(members), Arc::clone(deadline));
    let watch = Arc::clone(watch);
    world.spawn(
        "watchdog",
        Box::pin(async move {
            let mut heard = BTreeMap::new();
            // Ticks for which all have been silent, and ticks since they were; whether that was
            // reported.
            let (mut silent, mut since, mut is_told) = (0_u64, u64::MAX, false);
            loop {
                let began = clock.monotonic();
                clock.sleep(Duration::from_millis(TICK_MS)).await;
                let Some(members) = members.upgrade() else { return };
                let deadline = deadline.load(Ordering::Relaxed);
                let probe = PROBE_TICKS.min(deadline / 4).max(1);
                if watch.all_are_silent(&members, (probe, deadline), &mut heard) {
                    (silent, since) = (silent + 1, 0);
                    if silent >= deadline && !is_told {
                        is_told = true;
                        let text = "no disk answers: I/O waits, and none goes offline for that. It goes on when one answers. Look \
                                    at what they have in common: the array, its controller, the cable, the network";
                        watch.tell(&clock, Severity::Alarm, text.to_owned());
                    }
                } else {
                    if std::mem::take(&mut is_told) {
                        let seconds = silent * TICK_MS / 1000;
                        let text = format!("disks answer again: none did for {seconds} s, and I/O goes on");
                        watch.tell(&clock, Severity::Note, text);
                    }
                    (silent, since) = (0, since.saturating_add(1));
                }
                let waits = since <= deadline;
                members.with_former().for_each(|member| member.tick(deadline, waits));
                if planted::has(Bug::DeadlineRunsOn) {
                    let missed = (clock.monotonic() - began).as_millis() / u128::from(TICK_MS);
                    (1..missed).for_each(|_| members.values().for_each(|member| member.tick(deadline, false)));
                }
                if members.values().any(|member| member.oldest().is_some_and(|ticks| ticks >= probe && ticks % probe == 0)) {
                    let idle = members.values().filter(|member| {
                        member.is_writable() && member.oldest().is_none() && !member.is_hung()
                    });
                    idle.for_each(|member| member.probe());
                }
            }
        }),
    );
}

impl Member {
    /// Notes whether I/O is in flight and none has ended for `since` ticks.
    fn is_quiet_for(&self, since: Option<u64>, deadline: u64) {
        self.quiet_for.store(since.unwrap_or(0), Ordering::Relaxed);
        if let Some(since) = since {
            let until = self.ticks.load(Ordering::Relaxed) + 1 + since.min(deadline);
            self.quiet_until.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// One tick of the watchdog. If an I/O that began `deadline` ticks ago has not ended, the disk
    /// is silent, and everything in flight on it is overdue; but not if `waits`.
    fn tick(&self, deadline: u64, waits: bool) {
        let now = self.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        self.room.set_patience(deadline * TICK_MS);
        let late =
            self.outstanding.oldest().is_some_and(|began| now.saturating_sub(began) > deadline);
        if late && !waits {
            self.expire_all();
        }
        // Called at every tick, so that the last tick of a hang is known.
        let _ = self.is_hung();
    }

    /// Number of I/Os that have ended, well or not.
    fn ended(&self) -> u64 {
        let of_class =
            IoClass::ALL.iter().map(|class| self.counters.timings(*class).count()).sum::<u64>();
        let errors = [&self.counters.read_errors, &self.counters.write_errors];
        of_class + errors.iter().map(|errors| errors.load(Ordering::Relaxed)).sum::<u64>()
    }

    /// Reads a block of an idle disk, so that its silence is noticed before the disk is needed.
    fn probe(&self) {
        drop(self.start_read(0, plinth_format::BLOCK_SIZE).of(IoClient::Records));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::member, *};
    use crate::{
        disk::disk_io::IoResult,
        sync::buffer::Buffer,
        testing::{MemoryDisk, TestWorld, block_on},
    };
    use plinth_format::layout::MIB;
    use std::{
        pin::pin,
        task::{Context, Wake, Waker},
    };

    /// A disk that falls silent in the moment in which it is dropped has the same deadline as any
    /// other.
    #[test]
    fn a_disk_that_was_dropped_is_still_watched() {
        let disk = MemoryDisk::new("/disk", 64 * MIB, 512, 4096);
        let members = Arc::new(Members::new());
        members.join(Arc::new(member(&disk)));
        let world: Arc<dyn World> = TestWorld::new();
        watch(&world, &members, &Arc::new(AtomicU64::new(2)), &Watch::new("DATA"));
        let member = Arc::clone(&members[&DiskNumber(0)]);
        member.leave();
        disk.faults(|faults| faults.hang = true);
        let disk_io = member.start_write(MIB, Buffer::zeroed(4096).share());
        let result = pin!(disk_io.result());
        let ended = block_on(futures::future::select(result, world.sleep(Duration::from_secs(20))));
        let is_overdue = matches!(ended, futures::future::Either::Left((IoResult::Overdue, _)));
        assert!(is_overdue, "it is waited for without end");
    }

    /// A caller that learns that an I/O is overdue asks at once whether the disk hangs.
    #[test]
    fn a_disk_hangs_before_its_io_is_reported_overdue() {
        struct Asks(Arc<Member>, AtomicBool);
        impl Wake for Asks {
            fn wake(self: Arc<Self>) {
                self.1.store(self.0.is_hung(), Ordering::Relaxed);
            }
        }
        let disk = MemoryDisk::new("/disk", 64 * MIB, 512, 4096);
        let member = Arc::new(member(&disk));
        disk.faults(|faults| faults.hang = true);
        let asks = Arc::new(Asks(Arc::clone(&member), AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&asks));
        let mut result = pin!(member.start_write(MIB, Buffer::zeroed(4096).share()).result());
        assert!(result.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        member.tick(0, false);
        assert!(asks.1.load(Ordering::Relaxed), "it was told first");
        assert!(matches!(block_on(result), IoResult::Overdue));
    }
}
