//! Conversion of a group to another redundancy while it is used.

use super::*;
use crate::{
    admin::{AdminError, Conversion, Work},
    extent::data::Data,
};
use plinth_format::{Block, header::DiskHeader};

const KINDS: [Redundancy; 3] = [Redundancy::External, Redundancy::Normal, Redundancy::High];

impl Lab {
    fn convert(&self, to: Redundancy) -> Result<(), AdminError> {
        block_on(self.group().convert(Conversion(to), Some(4)))
    }

    fn estimate_conversion(&self, to: Redundancy) -> u64 {
        block_on(self.group().estimate(&Work::Convert(Conversion(to))))
            .expect("it can be converted")
            .work
    }

    /// The number of extents with no, one, two and three mirrors.
    fn mirrors(&self) -> [u64; 4] {
        let mut counts = [0; 4];
        self.group()
            .mirror_sets
            .counts()
            .iter()
            .for_each(|(set, count)| counts[set.len()] += count);
        counts
    }

    fn header(&self, disk: usize) -> DiskHeader {
        block_on(crate::disk::identify::read_header(&*self.world(), &*self.disks[disk].open()))
            .expect("it has one")
            .best
    }

    /// Fails the test unless all extents and all headers have this redundancy.
    fn is_of(&self, redundancy: Redundancy) {
        let counts = self.mirrors();
        let right = counts[redundancy.mirrors()];
        assert_eq!(counts.iter().sum::<u64>(), right, "{counts:?}");
        assert_eq!(self.group().redundancy(), redundancy);
        (0..self.disks.len()).for_each(|disk| assert_eq!(self.header(disk).redundancy, redundancy));
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

/// Each redundancy is converted to each other one while files are written and made. The work is as
/// estimated, the disks are balanced at the end, and files made during the conversion have as many
/// mirrors as the others.
#[test]
fn every_redundancy_converts_to_every_other() {
    for from in KINDS {
        for to in KINDS.into_iter().filter(|to| *to != from) {
            let mut lab = Lab::new(from, 128 * MIB, &["A", "B", "C", "D"]);
            let node = lab.fill();
            let estimate = lab.estimate_conversion(to);
            let extents: u64 = lab.mirrors().iter().sum();
            assert_eq!(estimate, to.mirrors().saturating_sub(from.mirrors()) as u64 * extents);
            lab.convert(to).expect("it can be");
            let session = lab.session();
            let writer = std::thread::spawn(move || {
                for round in 0..20 {
                    block_on(session.write(
                        node,
                        round << 20,
                        &pattern(100 + round, 1 << 20),
                        false,
                    ))
                    .expect("written");
                }
                let made =
                    session.create(ROOT, b"made meanwhile", NewFile::Regular, 0o644, ROOT_CALLER);
                let made = block_on(made).expect("made").node;
                block_on(session.write(made, 0, &pattern(7, 3 << 20), false)).expect("written");
                block_on(session.sync(node, true)).expect("synced");
            });
            let changed = lab.rebalanced();
            writer.join().expect("no panic");
            let most = from.mirrors().abs_diff(to.mirrors()) as u64 * (extents + 4);
            assert!(
                (most.saturating_sub(8)..=most + 8).contains(&changed),
                "{from} to {to}: {changed} of {most}"
            );
            lab.is_of(to);
            let held = lab.held();
            assert!(
                held.iter().max().expect("4") - held.iter().min().expect("4") <= 2 + 24,
                "{held:?}"
            );
            lab.kill();
            lab.mount();
            lab.is_of(to);
            for round in 0..20 {
                assert!(lab.read(node, round << 20, 1 << 20) == pattern(100 + round, 1 << 20));
            }
            assert!(lab.read(lab.find("made meanwhile"), 0, 3 << 20) == pattern(7, 3 << 20));
            lab.has_small_files();
        }
    }
}

/// The engine is killed, or the power is cut, again and again while the redundancy is changed there
/// and back. Each mount continues the conversion.
#[test]
fn conversions_survive_kills_and_power_cuts() {
    let mut lab = Lab::new(Redundancy::Normal, 160 * MIB, &["A", "B", "C"]);
    let node = lab.fill();
    lab.write(lab.create_file("much"), 0, &pattern(2, 80 << 20));
    let goals = [
        Redundancy::High,
        Redundancy::External,
        Redundancy::Normal,
        Redundancy::High,
        Redundancy::Normal,
    ];
    let mut kills = 0;
    // On a busy host much of it is done before the next kill: then all goals are repeated.
    for (turn, to) in goals.into_iter().cycle().take(8 * goals.len()).enumerate() {
        if turn % goals.len() == 0 && kills > 20 {
            break;
        }
        // A conversion in flight is given up for this one.
        block_on(lab.group().convert(Conversion(to), Some(1))).expect("it can be");
        for round in 0..40 {
            let fuse = lab.light_fuse(6 + kills * 7 % 25);
            lab.wait_for("a kill or the end", || fuse.is_blown() || lab.nothing_moves());
            let is_blown = fuse.is_blown();
            if is_blown {
                if kills % 2 == 0 {
                    lab.kill()
                } else {
                    lab.cut_power(kills)
                }
                kills += 1;
            }
            lab.no_fuse();
            if is_blown {
                lab.mount();
                assert!(lab.read(lab.find("table"), 0, 20 << 20) == pattern(1, 20 << 20));
            }
            if !is_blown || round == 7 {
                break;
            }
        }
    }
    // The last mount may have found nothing left to do.
    lab.wait_for("the end", || !lab.group().is_converting() && lab.nothing_moves());
    lab.is_of(Redundancy::Normal);
    assert!(kills > 20, "{kills}");
    assert!(lab.read(node, 0, 20 << 20) == pattern(1, 20 << 20));
    lab.has_small_files();
}

/// One mirror has rotted since it was last read, and the good one is to be removed. The rotten one
/// is repaired first, and the repair is durable before the removal.
#[test]
fn a_rotten_mirror_is_repaired_before_the_good_one_is_removed() {
    for damaged in 0..2 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
        let node = lab.create_file("table");
        let bytes = pattern(1, 8 << 20);
        lab.write(node, 0, &bytes);
        lab.sync(node);
        lab.dismount();
        lab.mount();
        for extent in block_on(lab.group().some_alive(0)).expect("read").expect("some").0 {
            let mirror = extent.mirrors()[damaged];
            let member = lab.group().members.get(&mirror.disk).expect("it is there");
            let offset = Data::offset(member, mirror, Block(17));
            lab.disks[usize::from(mirror.disk.0)].corrupt(offset, &[0xbd; 4096]);
        }
        lab.convert(Redundancy::External).expect("it can be");
        lab.rebalanced();
        lab.cut_power(damaged as u64);
        lab.mount();
        assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes, "mirror {damaged}");
        lab.is_of(Redundancy::External);
    }
}

/// A disk that has become the only one of some extents fails, and has to stay. No mirror on the
/// good disk is removed in favour of one on that disk.
#[test]
fn no_mirror_on_a_good_disk_is_removed_for_one_on_a_failing_disk() {
    let mut lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    let bytes = pattern(1, 40 << 20);
    lab.write(node, 0, &bytes);
    lab.sync(node);
    lab.dismount();
    lab.mount();
    lab.read(lab.find("table"), 0, bytes.len());
    {
        // The conversion waits at an extent in the middle.
        let middle = lab
            .group()
            .extents
            .all()
            .into_iter()
            .find(|extent| extent.number == 20)
            .expect("it was read");
        let _held = block_on(middle.ranges.hold(0..256, true));
        block_on(lab.group().convert(Conversion(Redundancy::External), Some(1)))
            .expect("it can be");
        lab.wait_for("some that are on one disk", || lab.mirrors()[1] > 3);
        block_on(lab.group().rebalance(Some(0))).expect("it is paused");
    }
    lab.wait_for("the pause", || lab.rebalance().state == OperationState::Wait);
    std::thread::sleep(Duration::from_millis(300));
    let [_, alone, both, _] = lab.mirrors();
    assert!(both > 5, "{alone} {both}");
    // The disk's data can no longer be read, whichever mirror reads prefer.
    lab.disks[0].faults(|faults| faults.bad.push(20 * MIB..96 * MIB));
    block_on(lab.group().rebalance(Some(1))).expect("it goes on");
    lab.wait_for_the_end();
    lab.disks[0].heal();
    lab.kill();
    lab.mount();
    assert!(
        lab.read(lab.find("table"), 0, bytes.len()) == bytes,
        "extents on the other disk alone read back"
    );
    lab.wait_for("the rest", || !lab.group().is_converting());
    lab.wait_for_the_end();
    lab.is_of(Redundancy::External);
}

/// A disk is offline. A conversion to fewer mirrors removes the mirrors on that disk, and a
/// conversion to more mirrors waits until the disk is back.
#[test]
fn conversions_complete_although_disks_go_offline_and_return() {
    let lab = Lab::new(Redundancy::High, 64 * MIB, &["A", "B", "C"]);
    let node = lab.fill();
    lab.silence(1);
    lab.write(node, 5000, b"notices that it is away");
    lab.wait_for("its end", || lab.state(1) == DiskState::Offline);
    let missed = lab.read(node, 0, 20 << 20);
    lab.convert(Redundancy::Normal).expect("it can be");
    lab.rebalanced();
    assert_eq!(lab.held()[1], 0, "the mirrors on the offline disk are removed");
    let refused = lab.convert(Redundancy::High).expect_err("too few failure groups are there");
    assert_eq!(refused.code, Code::NotEnoughFailureGroups);
    lab.disks[1].heal();
    lab.online_all();
    lab.is_of(Redundancy::Normal);
    lab.convert(Redundancy::High).expect("it is back");
    lab.silence(2);
    lab.write(node, 5000, b"notices that another one is");
    lab.wait_for_the_end();
    if lab.rebalance().state == OperationState::Errs {
        assert!(lab.rebalance().error.expect("a reason").contains("not ONLINE: DATA_0002"));
    }
    lab.disks[2].heal();
    lab.online_all();
    lab.wait_for("the rest", || !lab.group().is_converting());
    lab.wait_for_the_end();
    lab.is_of(Redundancy::High);
    let now = lab.read(node, 0, 20 << 20);
    assert!(now[..5000] == missed[..5000] && now[5100..] == missed[5100..]);
}

/// A conversion stops because the only disk for its new mirrors is offline. When the disk is back,
/// the conversion continues without a statement.
#[test]
fn a_conversion_that_stopped_goes_on_when_its_disk_is_back() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    lab.fill();
    lab.world.hold_back("rebalance");
    lab.convert(Redundancy::High).expect("it can be");
    let conversion = lab.world.take_task("rebalance").expect("it begins");
    lab.offline(2);
    block_on(conversion);
    assert_eq!(lab.rebalance().state, OperationState::Errs);
    block_on(lab.group().online(Selection::All)).expect("it comes back");
    lab.wait_for("its return", || lab.state(2) == DiskState::Online);
    let resynced = || {
        lab.group()
            .operations()
            .iter()
            .all(|one| one.pass != OperationPass::Resync || one.state == OperationState::Done)
    };
    lab.wait_for("the end of its resync", resynced);
    let next = std::cell::RefCell::new(None);
    lab.wait_for("the rebalance", || {
        *next.borrow_mut() = lab.world.take_task("rebalance");
        next.borrow().is_some()
    });
    block_on(next.into_inner().expect("it begins"));
    lab.is_of(Redundancy::High);
}
