//! The engine's own metadata is overwritten on disks of a mounted group.

use super::*;
use plinth_engine::admin::{Problem, ScrubOrder, ScrubPower};
use plinth_format::layout::{ACTIVITY_SLOT, FIRST_AREA, Layout, MEMBERSHIP_SLOT, RecordArea};

const SIZE: u64 = 64 * MIB;

fn layout() -> Layout {
    Layout::new(SIZE, MIB).expect("large enough")
}

/// The slots of one kind of record, in both areas.
fn slots(of: fn(&RecordArea) -> [u64; 2]) -> Vec<u64> {
    [FIRST_AREA, layout().middle_area()].iter().flat_map(of).collect()
}

fn stamps() -> Vec<u64> {
    slots(|area| area.stamps)
}

fn memberships() -> Vec<u64> {
    slots(|area| area.memberships)
}

/// Every kind of record, how the report of a look names it, and where it is.
fn kinds() -> Vec<(&'static str, Vec<u64>, usize)> {
    vec![
        ("header", layout().header_places().to_vec(), 4096),
        ("header copy", layout().header_places()[1..].to_vec(), 4096),
        ("stamp", stamps(), 4096),
        ("membership", memberships(), MEMBERSHIP_SLOT),
        ("membership", FIRST_AREA.memberships.to_vec(), MEMBERSHIP_SLOT),
        ("activity log", slots(|area| area.activity), ACTIVITY_SLOT),
    ]
}

impl Lab {
    fn problems(&self, repair: bool) -> Vec<Problem> {
        block_on(self.group().check(repair)).expect("the check runs").problems.to_vec()
    }

    /// Overwrites places of a disk with zeros, or with noise.
    fn overwrite(&self, disk: usize, places: &[u64], length: usize, noise: bool) {
        for place in places {
            let bytes = if noise { pattern(place + 7, length) } else { vec![0; length] };
            self.disk(disk).corrupt(*place, &bytes);
        }
    }

    fn is_offline(&self, disk: usize) -> bool {
        self.state(disk) == DiskState::Offline
    }
}

/// Two failure groups, whose disks both vote, and a file whose region is open.
fn with_an_open_region() -> (Lab, Vec<u8>) {
    let lab = Lab::new(Redundancy::Normal, SIZE, &["A", "B"]);
    let bytes = pattern(3, 700_000);
    let node = lab.create_file("table");
    lab.write(node, 0, &bytes);
    lab.sync(node);
    (lab, bytes)
}

/// After a clean dismount the disks mount, whatever was overwritten a moment before it.
#[test]
fn a_dismount_repairs_overwritten_metadata() {
    let (lab, bytes) = with_an_open_region();
    for (kind, places, length) in kinds() {
        lab.overwrite(0, &places, length, false);
        lab.overwrite(1, &places, length, true);
        lab.dismount();
        if let Err(error) = lab.try_mount(false) {
            panic!("{kind}: {error}");
        }
        assert!(!lab.is_offline(0) && !lab.is_offline(1), "{kind}");
        assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes, "{kind}");
        lab.check();
    }
}

/// One disk fails. The records of the other, the only one that is left, were overwritten, which was
/// not found yet: they are written again at once.
#[test]
fn the_metadata_of_the_remaining_disks_is_checked_when_a_disk_fails() {
    for (kind, places, length) in kinds() {
        let (lab, bytes) = with_an_open_region();
        lab.overwrite(0, &places, length, true);
        lab.silence(1);
        lab.write(lab.find("table"), 0, &bytes);
        assert!(lab.is_offline(1), "{kind}");
        lab.wait_for("a look", || lab.told("written again") && lab.problems(false).is_empty());
        lab.kill();
        lab.disk(1).heal();
        if let Err(error) = lab.try_mount(false) {
            panic!("{kind}: {error}");
        }
        assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes, "{kind}");
        lab.online_all();
        lab.check();
    }
}

/// CHECK and SCRUB name what is wrong and leave it. With REPAIR they write it again, and nothing
/// wrong is left.
#[test]
fn a_check_and_a_scrub_with_repair_write_overwritten_metadata_again() {
    let (lab, _) = with_an_open_region();
    for (kind, places, length) in kinds() {
        lab.overwrite(1, &places, length, true);
        let image = || lab.peek(1, places[0], length);
        let before = image();
        let named = lab.problems(false);
        assert!(
            named.len() == 1 && named[0].text.contains(kind) && !named[0].repaired,
            "{kind}: {named:?}"
        );
        assert!(image() == before, "{kind}: the check was without REPAIR");
        let mended = lab.problems(true);
        assert!(mended.len() == 1 && mended[0].repaired, "{kind}: {mended:?}");
        assert_eq!(lab.problems(true), [], "{kind}");
        lab.overwrite(1, &places, length, false);
        let order = ScrubOrder { repair: true, power: ScrubPower::High, ..ScrubOrder::default() };
        block_on(lab.group().scrub(&order)).expect("it begins");
        let is_over = || {
            lab.group().operations().iter().all(|one| {
                one.pass != OperationPass::Scrubbing || one.state == OperationState::Done
            })
        };
        lab.wait_for("the end of the scrub", is_over);
        let report = lab.group().scrubbed();
        assert!(report.problems.len() == 1 && report.is_good(), "{kind}: {report:?}");
        assert_eq!(lab.problems(false), [], "{kind}");
    }
    assert!(lab.told("1 problem found, 1 repaired, 0 left"));
}
