//! Warnings that an operator gets before a limit is reached.

use super::*;
use crate::admin::{Scope, ScrubOrder, ScrubPower};

/// A scrub of the whole group that was stopped has not read all of it: the group counts as never
/// scrubbed, and its reminder is not put off.
#[test]
fn a_stopped_scrub_does_not_put_off_the_reminder() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 20 << 20));
    lab.sync(node);
    let all = ScrubOrder { scope: Scope::All, repair: false, power: ScrubPower::Low, force: true };
    block_on(lab.group().scrub(&all)).expect("it begins");
    lab.group().stop_scrub();
    lab.wait_for("its end", || lab.told("scrub stopped"));
    let scrubbed = block_on(lab.group().catalog.read(crate::catalog::attributes::load_scrubbed))
        .expect("the catalog is read");
    assert!(scrubbed.is_none(), "it was stopped");
}
