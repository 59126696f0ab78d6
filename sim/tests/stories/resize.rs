//! Disks are resized while the group is used.

use super::*;
use plinth_engine::admin::{AdminError, Resize};

impl Lab {
    pub fn resize(&self, disk: Option<&str>, size: Option<u64>) -> Result<(), AdminError> {
        let which = disk.map_or(Selection::All, |disk| Selection::Disks(vec![disk.to_owned()]));
        block_on(self.group().resize_disks(&[Resize { which, size }], Some(4)))
    }
}

/// A disk that is offline keeps its size until it is back.
#[test]
fn a_disk_that_is_offline_is_resized_when_it_is_back() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 40 << 20));
    lab.sync(node);
    lab.resize(None, Some(40 * MIB)).expect("it may be");
    block_on(lab.group().rebalance(Some(0))).expect("it waits");
    let which = Selection::Disks(vec!["DATA_0002".to_owned()]);
    block_on(lab.group().offline(which.clone(), None)).expect("it goes");
    assert!(lab.resize(Some("DATA_0002"), Some(50 * MIB)).is_err(), "its header cannot be written");
    block_on(lab.group().rebalance(Some(4))).expect("it goes on");
    lab.rebalanced();
    let sizes = || -> Vec<u64> {
        lab.world().newest_membership().disks.iter().map(|disk| disk.size).collect()
    };
    assert_eq!(sizes(), [40 * MIB, 40 * MIB, 64 * MIB]);
    lab.write(node, 0, &pattern(2, 40 << 20));
    lab.online_all();
    lab.wait_for("its new size", || sizes() == [40 * MIB; 3]);
    lab.rebalanced();
    assert!(lab.read(node, 0, 40 << 20) == pattern(2, 40 << 20));
    lab.check();
}
