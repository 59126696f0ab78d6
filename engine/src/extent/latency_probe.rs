//! Latency probes of slow disks that reads avoid: whether a disk that was slow still is.
//!
//! For a probe that `read_policy.rs` asks for, a task of the group repeats a front end's read on
//! the slow disk. The front end waits for its own read alone. The bytes that the task reads are
//! dropped, so it does no harm if they are of an AU that was freed or moved meanwhile.
//!
//! A disk has one probe in flight at most, even if it does not answer: an overdue one is waited
//! for, however long it takes. A probe takes no disk offline: client I/O that needs the disk finds
//! it silent.

use crate::{
    disk::{
        counters::IoClient,
        member::Member,
        read_policy::{ReadGauge, ReadReason},
    },
    extent::data::Data,
    world::World,
};
use event_listener::Event;
use futures::{
    StreamExt,
    future::{Either, pending, select},
    stream::FuturesUnordered,
};
use std::{pin::pin, sync::Arc, time::Duration};

/// How often the task looks whether the group is still mounted.
const LOOK: Duration = Duration::from_secs(1);

/// The queue of probes that front ends ask for.
#[derive(Debug, Default)]
pub struct LatencyProber(Event);

impl LatencyProber {
    /// A read is to be made on the disk of a gauge, which
    /// [`read_policy::choose`](crate::disk::read_policy::choose) has named.
    pub fn send(&self, gauge: &ReadGauge, offset: u64, length: usize) {
        gauge.set_probe(offset, length);
        self.0.notify(1);
    }
}

impl Data {
    pub(crate) fn spawn_latency_prober(self: &Arc<Self>) {
        let (latency_prober, world) = (Arc::clone(&self.latency_prober), Arc::clone(&self.world));
        self.spawn_while_mounted("latency probe", |group| async move {
            let mut under_way = FuturesUnordered::new();
            let mut nap = world.sleep(LOOK);
            loop {
                let mut woken = pin!(latency_prober.0.listen());
                {
                    let group = group.upgrade().filter(|group| !group.voters.is_closing())?;
                    let wanted = group
                        .members
                        .values()
                        .filter_map(|member| Some((member, member.gauge.take_probe()?)));
                    under_way.extend(wanted.map(|(member, place)| {
                        probe(Arc::clone(&world), Arc::clone(member), place)
                    }));
                }
                let ended = async {
                    if under_way.is_empty() { pending().await } else { under_way.next().await }
                };
                if let Either::Right((Either::Left(_), _)) =
                    select(&mut woken, select(&mut nap, pin!(ended))).await
                {
                    nap = world.sleep(LOOK);
                }
            }
        });
    }
}

async fn probe(world: Arc<dyn World>, member: Arc<Member>, (offset, length): (u64, usize)) {
    if member.is_readable() {
        let reading = member.gauge.begin(length, world.monotonic(), ReadReason::Exploration);
        let mut disk_io = member.start_read(offset, length).of(IoClient::Exploration);
        let ended = disk_io.result_in_time().await;
        if let Some(reading) = reading.record(ended.as_ref(), disk_io.took(), world.as_ref()) {
            let ended = disk_io.wait().await;
            let _ = reading.record(Some(&ended), disk_io.took(), world.as_ref());
        }
    }
    member.gauge.end_probe(length, world.monotonic());
}
