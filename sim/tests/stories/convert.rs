//! Conversion of a group to another redundancy while it is used.

use super::*;
use plinth_engine::admin::{AdminError, Conversion, Work};

impl Lab {
    fn convert(&self, to: Redundancy) -> Result<(), AdminError> {
        block_on(self.group().convert(Conversion(to), Some(4)))
    }

    /// Fails the test unless all extents and all headers have this redundancy.
    fn is_of(&self, redundancy: Redundancy) {
        let counts = self.mirrors();
        let right = counts[redundancy.mirrors()];
        assert_eq!(counts.iter().sum::<u64>(), right, "{counts:?}");
        assert_eq!(self.group().redundancy(), redundancy);
        (0..self.disks().len())
            .for_each(|disk| assert_eq!(self.header(disk).redundancy, redundancy));
        self.check();
    }

    /// Small files, and a large one.
    fn fill(&self) -> Node {
        let node = self.create_file("table");
        self.write(node, 0, &pattern(1, 20 << 20));
        (0..30).for_each(|number| {
            self.write(self.create_file(&format!("small{number}")), 0, &pattern(number, 5000))
        });
        self.sync(node);
        node
    }

    fn has_small_files(&self) {
        for number in 0..30 {
            assert_eq!(
                self.read(self.find(&format!("small{number}")), 0, 9999),
                pattern(number, 5000)
            );
        }
    }
}

/// A conversion that does not fit is refused with the reason, and changes nothing. So is a drop
/// that the wanted redundancy does not allow.
#[test]
fn a_conversion_that_does_not_fit_is_refused() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 70 << 20));
    lab.sync(node);
    let membership = lab.world().newest_membership();
    let refused = lab.convert(Redundancy::High).expect_err("it does not fit");
    assert_eq!(
        (refused.code, refused.message.contains("AUs too few")),
        (Code::NoSpace, true),
        "{refused}"
    );
    assert!(block_on(lab.group().estimate(&Work::Convert(Conversion(Redundancy::High)))).is_err());
    assert_eq!(lab.world().newest_membership().id, membership.id, "nothing is recorded");
    lab.convert(Redundancy::Normal).expect("it is that already");
    assert!(lab.group().operations().iter().all(|one| one.pass != OperationPass::Rebalance));
    block_on(lab.session().unlink(ROOT, b"table")).expect("removed");
    lab.convert(Redundancy::High).expect("it fits now");
    let refused =
        lab.exchange(&[], &["DATA_0002"], false).expect_err("three failure groups are wanted");
    assert_eq!(refused.code, Code::NotEnoughFailureGroups);
    lab.rebalanced();
    lab.is_of(Redundancy::High);
    lab.convert(Redundancy::External).expect("it can be");
    lab.exchange(&[], &["DATA_0002"], false).expect("one is enough");
    lab.rebalanced();
    lab.exchange(&[], &["DATA_0001"], false).expect("one is enough");
    lab.rebalanced();
    let refused = lab.convert(Redundancy::Normal).expect_err("there is one");
    assert_eq!(refused.code, Code::NotEnoughFailureGroups);
    lab.disks().truncate(1);
    lab.is_of(Redundancy::External);
}

/// A conversion is reversed half way: mirrors that were made are removed again, mirrors that were
/// removed are made again.
#[test]
fn a_conversion_can_be_reversed_half_way() {
    for (from, to) in
        [(Redundancy::Normal, Redundancy::High), (Redundancy::High, Redundancy::Normal)]
    {
        let lab = Lab::new(from, 96 * MIB, &["A", "B", "C"]);
        let node = lab.fill();
        for _ in 0..3 {
            lab.convert(to).expect("it can be");
            lab.wait_for("the first", || {
                lab.rebalance().so_far > 3 || lab.rebalance().state != OperationState::Run
            });
            lab.convert(from).expect("it was that");
        }
        lab.rebalanced();
        lab.is_of(from);
        assert!(lab.read(node, 0, 20 << 20) == pattern(1, 20 << 20));
        lab.has_small_files();
    }
}

/// A conversion is paused. The same statement again, with a power, continues it; to report success
/// and leave it would pause it for ever.
#[test]
fn the_same_statement_continues_a_paused_conversion() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.fill();
    let high = || Conversion(Redundancy::High);
    block_on(lab.group().convert(high(), Some(0))).expect("it can be");
    assert_eq!(lab.rebalance().state, OperationState::Wait);
    lab.convert(Redundancy::High).expect("it goes on");
    lab.rebalanced();
    lab.is_of(Redundancy::High);
    assert!(lab.read(node, 0, 20 << 20) == pattern(1, 20 << 20));
}
