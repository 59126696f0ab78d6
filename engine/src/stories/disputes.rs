//! A disk loses a write and the checksums that go with it: the old bytes that it has match their
//! checksums.

use super::{
    kills::{End, cut_short_by},
    *,
};
use crate::{
    admin::{Report, ScrubOrder, ScrubPower},
    api::Allocate,
    disk::member::Member,
    extent::{Mirror, data::Data},
};
use plinth_format::{BLOCK_SIZE, Block};

const LENGTH: usize = 6 << 20;
/// File offsets of the disputed block, and of another block in the same extent.
const PLACE: u64 = (2 << 20) + 5 * BLOCK_SIZE as u64;
const NEIGHBOUR: u64 = PLACE + 100 * BLOCK_SIZE as u64;

/// A table with one block of which two mirrors differ, each right by its own checksum.
struct Court {
    lab: Lab,
    /// The versions that readers may get: the one that the disk kept, and the one written last.
    old: Vec<u8>,
    new: Vec<u8>,
    bytes: Vec<u8>,
    /// For each mirror: the disk's index, and the offsets there of that block and of its AU's
    /// checksums.
    places: Vec<(usize, u64, u64)>,
    /// The bytes of the block on each disk.
    versions: Vec<Vec<u8>>,
}

impl Court {
    /// The disk of mirror number `liar` of the extent has lost the last write.
    fn new(redundancy: Redundancy, groups: &[&str], liar: usize) -> Self {
        let mut lab = Lab::new(redundancy, 64 * MIB, groups);
        let (bytes, new) = (pattern(3, LENGTH), pattern(4, BLOCK_SIZE));
        let node = lab.create_file("table");
        lab.write(node, 0, &bytes);
        lab.sync(node);
        let extents = block_on(lab.group().some_alive(0))
            .expect("the catalog is read")
            .expect("there are some")
            .0;
        let extent = extents
            .iter()
            .find(|extent| extent.file == node && extent.number == 2)
            .expect("it is there");
        let places: Vec<_> = extent
            .mirrors()
            .iter()
            .map(|mirror| {
                let (data, sums) = Self::place(&lab.group().members[&mirror.disk], *mirror);
                (usize::from(mirror.disk.0), data, sums)
            })
            .collect();
        lab.dismount();
        let (disk, data, sums) = places[liar];
        let kept = [data, sums].map(|offset| lab.disks[disk].peek(offset, BLOCK_SIZE));
        let old = kept[0].clone();
        lab.mount();
        lab.write(lab.find("table"), PLACE, &new);
        lab.sync(lab.find("table"));
        lab.dismount();
        [data, sums]
            .iter()
            .zip(&kept)
            .for_each(|(offset, kept)| lab.disks[disk].corrupt(*offset, kept));
        lab.mount();
        let mut court = Self { lab, old, new, bytes, places, versions: Vec::new() };
        court.versions = court.found();
        assert!(court.versions.contains(&court.old) && court.versions.contains(&court.new));
        court
    }

    fn place(member: &Member, mirror: Mirror) -> (u64, u64) {
        let block = usize::try_from(PLACE % MIB).expect("small") / BLOCK_SIZE;
        (Data::offset(member, mirror, Block(block)), member.layout().sums_of(mirror.au).0)
    }

    fn found(&self) -> Vec<Vec<u8>> {
        self.places
            .iter()
            .map(|(disk, data, _)| self.lab.disks[*disk].peek(*data, BLOCK_SIZE))
            .collect()
    }

    /// Reads return one version of the block, always the same, and all other bytes as they were
    /// written.
    fn look(&self) -> Vec<u8> {
        let node = self.lab.find("table");
        let place = usize::try_from(PLACE).expect("small");
        let first = self.lab.read(node, PLACE, BLOCK_SIZE);
        assert!(first == self.old || first == self.new);
        for _ in 0..6 {
            let mut found = self.lab.read(node, 0, LENGTH);
            assert!(found[place..place + BLOCK_SIZE] == first, "readers get the same each time");
            found[place..place + BLOCK_SIZE]
                .copy_from_slice(&self.bytes[place..place + BLOCK_SIZE]);
            assert!(found == self.bytes, "all else is as it was");
        }
        first
    }

    /// The report has one problem, which is not repaired, and each disk has its version unchanged.
    fn assert_disputed(&self, report: &Report, when: &str) {
        let [problem] = &report.problems[..] else { panic!("{when}: {report:?}") };
        assert!(!problem.repaired && problem.text.contains("disputed"), "{when}: {}", problem.text);
        let node = self.lab.find("table");
        for (disk, data, _) in &self.places {
            let name = format!("disk DATA_{disk:04} (/disk{disk})");
            assert!(
                problem.text.contains(&name) && problem.text.contains(&format!("offset {data}")),
                "{}",
                problem.text
            );
        }
        assert!(
            problem.text.contains(&format!("extent 2 of file {node}: 4 KiB at 20480")),
            "{}",
            problem.text
        );
        assert!(self.found() == self.versions, "{when}: a disk was overwritten");
    }

    fn check(&self, when: &str) {
        for repair in [false, true] {
            let report = block_on(self.lab.group().check(repair)).expect("the check runs");
            self.assert_disputed(&report, when);
        }
    }

    /// Begins to drop the disk that lost the write.
    fn drop_liar(&self) {
        let name = format!("DATA_{:04}", self.places[1].0);
        self.lab.exchange(&[], &[&name], false).expect("it begins");
    }

    fn write_beside(&mut self, seed: u64) {
        let (node, other) = (self.lab.find("table"), pattern(seed, BLOCK_SIZE));
        self.lab.write(node, NEIGHBOUR, &other);
        self.lab.sync(node);
        let at = usize::try_from(NEIGHBOUR).expect("small");
        self.bytes[at..at + BLOCK_SIZE].copy_from_slice(&other);
    }
}

/// Whichever disk lost the write: reads return one of the two versions, always the same, and an
/// ALARM names the place and both candidates. No repair overwrites either of them; neither do
/// writes of a neighbouring block, with its checksums, nor the recovery after a kill. A write of
/// the block ends the dispute.
#[test]
fn a_disputed_block_is_reported_and_neither_version_is_overwritten() {
    for liar in 0..2 {
        let mut court = Court::new(Redundancy::Normal, &["A", "B"], liar);
        let first = court.look();
        court.lab.wait_for("the alarm", || court.lab.told("are disputed"));
        court.check("as it was found");
        let order = ScrubOrder { repair: true, power: ScrubPower::High, ..ScrubOrder::default() };
        let report = court.lab.scrubbed(&order);
        court.assert_disputed(&report, "scrubbed");
        for seed in 10..13 {
            court.write_beside(seed);
            if seed == 11 {
                court.lab.kill();
            } else {
                court.lab.dismount();
            }
            court.lab.mount();
            court.check("its checksums were written with a neighbour's");
            assert!(court.look() == first, "readers get the same after each mount");
        }
        let alarms = court
            .lab
            .world
            .events()
            .into_iter()
            .filter(|event| event.text.contains("are disputed"));
        assert!(alarms.count() >= 4, "each mount raises the alarm");
        // A write of the block ends the dispute.
        let node = court.lab.find("table");
        court.lab.write(node, PLACE, &court.new);
        court.lab.sync(node);
        assert!(court.look() == court.new);
        court.lab.dismount();
        court.lab.mount();
        court.lab.check();
        assert!(court.look() == court.new);
    }
}

/// A dispute that is not yet noticed stays on the disks when a neighbour is written: the checksum
/// block that is written does not take over the other mirror's checksum.
#[test]
fn an_unnoticed_dispute_survives_writes_of_its_neighbour() {
    for liar in 0..2 {
        let mut court = Court::new(Redundancy::Normal, &["A", "B"], liar);
        for seed in 10..12 {
            court.write_beside(seed);
            court.lab.dismount();
            court.lab.mount();
            assert!(court.found() == court.versions, "a disk was overwritten");
        }
        court.check("written beside, and never read");
    }
}

/// Of three mirrors two agree, and readers get their version. Nothing is overwritten: a resync may
/// have copied the wrong one.
#[test]
fn reads_return_the_version_that_two_of_three_mirrors_have() {
    for liar in 0..3 {
        let court = Court::new(Redundancy::High, &["A", "B", "C"], liar);
        // Before the check, reads return the version of the mirror whose checksums were loaded.
        court.check("of three");
        assert!(court.look() == court.new);
    }
}

/// The move of a mirror with a disputed block would decide the dispute: it is refused, and the
/// refusal is reported. The disk with the wrong version can be dropped by force, which decides it.
#[test]
fn a_mirror_with_a_disputed_block_does_not_move() {
    let court = Court::new(Redundancy::Normal, &["A", "B", "C"], 1);
    court.drop_liar();
    let ended =
        || {
            court.lab.group().operations().iter().any(|one| {
                one.pass == OperationPass::Rebalance && one.state == OperationState::Errs
            })
        };
    court.lab.wait_for("the refusal", ended);
    assert!(court.lab.told("until that is ended none of its mirrors moves"));
    assert!(court.found() == court.versions, "a disk was overwritten");
    court.look();
}

/// A disputed block is removed, or written: its mirrors move as others do.
#[test]
fn a_mirror_moves_when_its_disputed_block_is_gone() {
    let is_over: [fn(&Lab, Node); 2] = [
        |lab, node| {
            block_on(lab.session().allocate(node, 2 << 20, 64 << 10, Allocate::PunchHole, false))
                .expect("it is punched");
        },
        |lab, node| lab.write(node, PLACE, &pattern(5, BLOCK_SIZE)),
    ];
    for end in is_over {
        let court = Court::new(Redundancy::Normal, &["A", "B", "C"], 1);
        court.check("before its end");
        end(&court.lab, court.lab.find("table"));
        court.drop_liar();
        court.lab.rebalanced();
        court.lab.check();
    }
}

/// The power is cut while a region is released: a disk has the data and the checksums that its
/// cache had written. That is no dispute.
#[test]
fn a_power_cut_leaves_no_disputed_block() {
    const ROUNDS: u64 = 12;
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(0, 200_000));
    lab.sync(node);
    lab.dismount();
    let work = |lab: &mut Lab| {
        lab.mount();
        let node = lab.find("table");
        for round in 1..=ROUNDS {
            lab.write(node, 0, &pattern(round, 200_000));
            block_on(lab.group().close_idle(true)).expect("it is closed");
        }
    };
    cut_short_by(&[End::PowerCut], &lab, 3, work, |heir, place| {
        heir.mount();
        let report = block_on(heir.group().check(false)).expect("the check runs");
        assert!(report.is_good() && !heir.told("disputed"), "{place}: {:?}", report.problems);
        heir.dismount();
    });
}

/// The checksum block of one disk rots at rest, and the data is right on both disks. No mismatch is
/// counted for a disk: the checksum block is reported, with its disk, and written again.
#[test]
fn a_rotten_checksum_block_is_reported_and_written_again() {
    for liar in 0..2 {
        for by_read in [true, false] {
            let mut court = Court::new(Redundancy::Normal, &["A", "B"], 0);
            let node = court.lab.find("table");
            court.lab.write(node, PLACE, &court.new);
            court.lab.sync(node);
            court.lab.dismount();
            let (disk, _, sums) = court.places[liar];
            let right = court.lab.disks[disk].peek(sums, BLOCK_SIZE);
            court.lab.disks[disk].corrupt(sums, &pattern(9, BLOCK_SIZE));
            court.lab.mount();
            let named = |text: &str| {
                text.contains(&format!("disk DATA_{disk:04}")) && text.contains("checksum block")
            };
            if by_read {
                court.look();
                court.look();
            } else {
                let report = block_on(court.lab.group().check(false)).expect("the check runs");
                let [problem] = &report.problems[..] else { panic!("{report:?}") };
                assert!(named(&problem.text), "{}", problem.text);
            }
            let report = block_on(court.lab.group().check(true)).expect("the check runs");
            assert!(
                report.problems.iter().all(|problem| named(&problem.text) && problem.repaired),
                "{report:?}"
            );
            for member in court.lab.group().members.values() {
                assert_eq!(
                    member.counters.mismatches.load(std::sync::atomic::Ordering::Relaxed),
                    0,
                    "{}",
                    member.name()
                );
            }
            court.lab.dismount();
            // Compares the part for which there is data.
            let has = court.lab.disks[disk].peek(sums, BLOCK_SIZE);
            assert!(has[..1024] == right[..1024], "it is written again");
            court.lab.mount();
            court.lab.check();
        }
    }
}
