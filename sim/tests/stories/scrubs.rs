//! Rot is found before a client reads the block.

use super::*;
use plinth_engine::admin::{Operation, ScrubOrder, ScrubPower};

impl Lab {
    fn scrub_operation(&self) -> Operation {
        let operations = self.group().operations();
        operations
            .into_iter()
            .find(|one| one.pass == OperationPass::Scrubbing)
            .expect("a scrub was begun")
    }
}

fn with_a_table(redundancy: Redundancy, groups: &[&str]) -> (Lab, Vec<u8>) {
    let lab = Lab::new(redundancy, 64 * MIB, groups);
    let bytes = pattern(3, 6 << 20);
    let node = lab.create_file("table");
    lab.write(node, 0, &bytes);
    lab.sync(node);
    (lab, bytes)
}

/// STOP ends a scrub, a dismount does not wait for it, and another one can be started afterwards.
#[test]
fn a_scrub_can_be_stopped() {
    let (lab, _) = with_a_table(Redundancy::Normal, &["A", "B"]);
    let node = lab.create_file("more");
    lab.write(node, 0, &pattern(5, 20 << 20));
    lab.sync(node);
    let order = ScrubOrder { power: ScrubPower::Low, ..ScrubOrder::default() };
    block_on(lab.group().scrub(&order)).expect("it begins");
    lab.group().stop_scrub();
    lab.wait_for("its end", || lab.scrub_operation().state == OperationState::Done);
    let stopped = lab.scrub_operation();
    assert!(stopped.so_far < stopped.work && stopped.error.is_none(), "{stopped:?}");
    block_on(lab.group().scrub(&order)).expect("it begins again");
    lab.dismount();
    lab.mount();
    assert!(
        lab.group().operations().iter().all(|one| one.pass != OperationPass::Scrubbing),
        "it is not remembered"
    );
    lab.check();
}
