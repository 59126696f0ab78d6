//! Attributes of a group, and the power of a rebalance, as statements set them.

use super::*;
use futures::FutureExt;
use std::pin::pin;

/// Two attributes are set at the same time, each before the catalog has the other. Both hold in the
/// group, and in the membership, which the next mount reads before it has a catalog.
#[test]
fn attributes_set_at_the_same_time_all_hold() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let group = lab.group();
    let (go_on, busy) = lab.keep_catalog_busy();
    let mut wait = pin!(group.set_attribute("mount_wait", "60"));
    let mut timeout = pin!(group.set_attribute("disk_timeout", "30"));
    // Each goes as far as it can without the catalog.
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

/// The power of a rebalance is changed while a statement without a power gives it more work. It
/// continues with the new power, and so does the next mount.
#[test]
fn a_statement_without_a_power_keeps_the_power_of_the_rebalance() {
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

/// Orders that name no power have the one that the operator has set. With 0 a rebalance waits until
/// an order gives it power. One that runs keeps its own.
#[test]
fn an_order_without_a_power_has_the_power_that_was_set() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let path = lab.spare(64 * MIB);
    lab.group().set_power_default(0);
    let wanted = lab.wanted(&[(&path, "A")], &[], false);
    block_on(lab.group().exchange(wanted, None)).expect("it joins");
    assert_eq!((lab.rebalance().power, lab.rebalance().state), (0, OperationState::Wait));
    block_on(lab.group().rebalance(None)).expect("it waits");
    assert_eq!((lab.rebalance().power, lab.rebalance().state), (0, OperationState::Wait));
    lab.group().set_power_default(11);
    assert_eq!(lab.rebalance().power, 0, "an order that was given holds");
    block_on(lab.group().rebalance(None)).expect("it goes on");
    assert_eq!(lab.rebalance().power, 11);
    lab.rebalanced();

    lab.world.hold_back("rebalance");
    block_on(lab.group().rebalance(Some(4))).expect("it begins");
    block_on(lab.group().rebalance(None)).expect("it goes on");
    assert_eq!(lab.rebalance().power, 4, "a rebalance that runs keeps its power");
    block_on(lab.world.take_task("rebalance").expect("it begins"));
    lab.check();
}
