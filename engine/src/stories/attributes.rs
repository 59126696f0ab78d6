//! What a group was told of itself.

use super::*;
use futures::FutureExt;
use std::pin::pin;

/// Two attributes are set at once, each before the catalog has the other: the group goes by both, and so does the
/// membership, which the next start reads before it has a catalog.
#[test]
fn attributes_that_are_set_at_once_all_count() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    // The catalog takes nothing until it may go on.
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let mut busy = pin!(group.catalog.release(false, move |_| {
        let _ = waits.recv();
        Ok(())
    }));
    assert!(busy.as_mut().now_or_never().is_none());
    lab.wait_for("the job", || group.catalog.jobs_waiting() == 0);
    let mut wait = pin!(group.set_attribute("mount_wait", "60"));
    let mut timeout = pin!(group.set_attribute("disk_timeout", "30"));
    // Each comes as far as it can.
    assert!(wait.as_mut().now_or_never().is_none() && timeout.as_mut().now_or_never().is_none());
    drop(go_on);
    block_on(busy).expect("it goes on");
    let (wait, timeout) = block_on(futures::future::join(wait, timeout));
    wait.and(timeout).expect("both are set");
    let known = group.attributes();
    let stored = block_on(group.catalog.read(crate::attributes::load)).expect("the catalog is read");
    assert_eq!(known, stored);
    assert_eq!(known.mount_wait, 60);
    assert_eq!(group.voters.current().mount_wait, Some(60));
    assert_eq!(group.voters.deadline(), known.disk_timeout_ticks);
}
