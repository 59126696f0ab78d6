//! What a group is told: attributes, and how a rebalance goes.

use super::*;
use futures::FutureExt;
use std::pin::pin;

/// Two attributes are set at once, each before the catalog has the other: the group goes by both, and so does the
/// membership, which the next start reads before it has a catalog.
#[test]
fn attributes_that_are_set_at_once_all_count() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    let (go_on, busy) = lab.keep_catalog_busy();
    let mut wait = pin!(group.set_attribute("mount_wait", "60"));
    let mut timeout = pin!(group.set_attribute("disk_timeout", "30"));
    // Each comes as far as it can.
    assert!(wait.as_mut().now_or_never().is_none() && timeout.as_mut().now_or_never().is_none());
    drop(go_on);
    block_on(busy).expect("it goes on");
    let (wait, timeout) = block_on(futures::future::join(wait, timeout));
    wait.and(timeout).expect("both are set");
    let known = group.attributes();
    let stored = block_on(group.catalog.read(crate::catalog::attributes::load))
        .expect("the catalog is read");
    assert_eq!(known, stored);
    assert_eq!(known.mount_wait, 60);
    assert_eq!(group.voters.current().mount_wait, Some(60));
    assert_eq!(group.voters.deadline(), known.disk_timeout_ticks);
}

/// A rebalance gets another power while a statement that names none gives it more to do: it goes on with that power,
/// and so does the next mount.
#[test]
fn another_power_of_a_rebalance_outlives_a_statement_without_one() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    lab.world.hold_back("rebalance");
    block_on(group.rebalance(Some(4))).expect("it begins");
    let (go_on, busy) = lab.keep_catalog_busy();
    let mut slower = pin!(group.rebalance(Some(2)));
    let mut more = pin!(group.rebalance(None));
    assert!(slower.as_mut().now_or_never().is_none() && more.as_mut().now_or_never().is_none());
    drop(go_on);
    block_on(busy).expect("it goes on");
    let (slower, more) = block_on(futures::future::join(slower, more));
    slower.and(more).expect("both hold");
    assert_eq!(lab.rebalance().power, 2);
    let stored = block_on(group.catalog.read(crate::catalog::attributes::load_rebalance))
        .expect("the catalog is read");
    assert_eq!(stored.map(|(power, _)| power), Some(2));
}
