//! Disks are renamed.

use super::*;
use crate::{
    admin::{AdminError, Renaming},
    disk::identify,
};

impl Lab {
    pub(super) fn rename(&self, pairs: &[(&str, &str)]) -> Result<(), AdminError> {
        let pairs = pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
        block_on(self.group().rename(&Renaming::Disks(pairs)))
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.group().members().into_iter().map(|(name, _)| name).collect()
    }

    pub(super) fn header_names(&self) -> Vec<String> {
        let name = |disk: &MemoryDisk| {
            let header = block_on(identify::read_header(&*self.world(), &*disk.open()))
                .expect("it has a header");
            assert!(header.wrong.is_empty(), "{:?}", header.wrong);
            header.best.name
        };
        self.disks.iter().map(name).collect()
    }
}

/// A voter that cannot be spared does not take a membership. As soon as it can be written again it
/// gets that membership, without another change.
#[test]
fn a_voter_gets_a_membership_that_it_missed_when_it_can_be_written_again() {
    let mut lab = Lab::new(Redundancy::External, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 10 << 20));
    lab.sync(node);
    lab.disks[1].faults(|faults| faults.fail_writes = true);
    lab.rename(&[("DATA_0000", "FIRST")]).expect("two of three voters took it");
    lab.disks[1].heal();
    lab.wait_for("its vote", || lab.group().voters.behind().is_empty());
    lab.check();
    lab.kill();
    // Either of the others is enough with it.
    lab.world.detach("/disk0");
    let refused = lab.try_mount(false).expect_err("it has extents that are nowhere else");
    assert!(refused.to_string().contains("FIRST"), "{refused}");
}

/// A check that runs during renames reports no problem.
#[test]
fn disks_are_renamed_during_checks() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    std::thread::scope(|scope| {
        let renaming = scope.spawn(|| {
            for _ in 0..100 {
                lab.rename(&[("DATA_0000", "DATA_0001"), ("DATA_0001", "DATA_0000")])
                    .expect("it is done");
            }
        });
        while !renaming.is_finished() {
            lab.check();
        }
    });
}
