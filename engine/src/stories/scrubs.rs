//! Rot is found before a client reads the block.

use super::*;
use crate::{
    admin::{Operation, Report, Scope, ScrubOrder, ScrubPower, Selection, findings::KEPT_MAX},
    check::scrub::TOLD_MAX,
    extent::data::Data,
};
use plinth_format::{BLOCK_SIZE, Block};

impl Lab {
    fn scrub_operation(&self) -> Operation {
        let operations = self.group().operations();
        operations
            .into_iter()
            .find(|one| one.pass == OperationPass::Scrubbing)
            .expect("a scrub was begun")
    }

    /// Scrubs to the end. Returns the report.
    pub(super) fn scrubbed(&self, order: &ScrubOrder) -> Report {
        block_on(self.group().scrub(order)).expect("it begins");
        self.wait_for("the end of the scrub", || {
            self.scrub_operation().state == OperationState::Done
        });
        self.group().scrubbed()
    }

    /// A block of each of the first extents of a file rots on one disk or another, at rest. Returns
    /// the places.
    fn rot(&mut self, count: usize) -> Vec<(usize, u64)> {
        let mut extents = block_on(self.group().some_alive(0))
            .expect("the catalog is read")
            .expect("there are some")
            .0;
        extents.retain(|extent| extent.file != 0);
        let mut places = Vec::new();
        for (index, extent) in extents.iter().take(count).enumerate() {
            let mirrors = extent.mirrors();
            let mirror = *mirrors.get(index % mirrors.len()).expect("it has mirrors");
            let offset =
                Data::offset(&self.group().members[&mirror.disk], mirror, Block(index % 16));
            places.push((usize::from(mirror.disk.0), offset));
        }
        self.dismount();
        for (disk, offset) in &places {
            self.disks[*disk].corrupt(*offset, &pattern(offset + 1, BLOCK_SIZE));
        }
        self.mount();
        places
    }

    fn blocks_at(&self, places: &[(usize, u64)]) -> Vec<Vec<u8>> {
        places.iter().map(|(disk, offset)| self.disks[*disk].peek(*offset, BLOCK_SIZE)).collect()
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

/// Blocks rot on one disk and the other. A scrub reports each of them and leaves it. A scrub with
/// REPAIR writes each again from the other mirror, and the next scrub finds nothing.
#[test]
fn a_scrub_finds_rot_and_repairs_it_with_repair() {
    let (mut lab, bytes) = with_a_table(Redundancy::Normal, &["A", "B"]);
    let good = lab.rot(5);
    let rotten = lab.blocks_at(&good);
    let found = lab.scrubbed(&ScrubOrder { power: ScrubPower::High, ..ScrubOrder::default() });
    assert_eq!(found.problems.len(), 5, "{found:?}");
    assert!(found.problems.iter().all(|problem| !problem.repaired));
    assert!(found.bytes_read >= 2 * bytes.len() as u64, "every mirror is read: {found:?}");
    assert!(lab.blocks_at(&good) == rotten, "the scrub was without REPAIR");
    let operation = lab.scrub_operation();
    assert!(operation.so_far >= 6 && operation.so_far == operation.work, "{operation:?}");
    let mended =
        lab.scrubbed(&ScrubOrder { repair: true, power: ScrubPower::Max, ..ScrubOrder::default() });
    assert!(mended.problems.len() == 5 && mended.is_good(), "{mended:?}");
    assert!(lab.blocks_at(&good).iter().zip(&rotten).all(|(now, was)| now != was));
    assert!(lab.scrubbed(&ScrubOrder::default()).problems.is_empty());
    let told: Vec<_> =
        lab.world.events().into_iter().filter(|event| event.text.starts_with("scrub")).collect();
    assert!(
        told.iter().any(|event| event.text.contains("5 problems found, 5 repaired, 0 left")),
        "{told:?}"
    );
    assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes);
    lab.check();
}

/// A disk has lost nearly everything. A check counts all of it and names some. While the check
/// reads, V$ASM_OPERATION shows its progress. The alert log has the result, and not a line for each
/// block.
#[test]
fn a_check_of_a_disk_that_lost_much_counts_all_problems_and_names_some() {
    let (mut lab, bytes) = with_a_table(Redundancy::Normal, &["A", "B"]);
    let extents = block_on(lab.group().some_alive(0))
        .expect("the catalog is read")
        .expect("there are some")
        .0;
    let mut places = Vec::new();
    for extent in extents.iter().filter(|extent| extent.file != 0) {
        let mirror =
            *extent.mirrors().iter().find(|mirror| mirror.disk.0 == 1).expect("it has one there");
        places.push(Data::offset(&lab.group().members[&mirror.disk], mirror, Block(0)));
    }
    lab.dismount();
    places.iter().for_each(|place| lab.disks[1].corrupt(*place, &vec![0; MIB as usize]));
    lab.mount();
    let lost = (bytes.len() / BLOCK_SIZE) as u64;
    lab.disks[0].faults(|faults| faults.slow_reads = Duration::from_millis(30));
    let group = Arc::clone(lab.group());
    let check = std::thread::spawn(move || block_on(group.check(false)).expect("the check runs"));
    let mut seen = Vec::new();
    while !check.is_finished() {
        seen.extend(lab.rows("SELECT operation, pass, state, est_work FROM v$asm_operation"));
    }
    let report = check.join().expect("no panic");
    lab.disks[0].heal();
    let count = report.extents_checked;
    let row = ["CHECK", "CHECKING", "RUN", &count.to_string()].map(str::to_owned).to_vec();
    assert!(seen.contains(&row), "{seen:?}");
    assert!(lab.rows("SELECT * FROM v$asm_operation").is_empty(), "it has ended");
    assert_eq!((report.problems.found(), report.problems.left()), (lost, lost));
    assert!(
        report.problems.len() == KEPT_MAX && lost > KEPT_MAX as u64,
        "{}",
        report.problems.len()
    );
    let repaired = block_on(lab.group().check(true)).expect("the check runs").problems;
    assert_eq!((repaired.found(), repaired.left()), (lost, 0));
    let told: Vec<_> =
        lab.world.events().into_iter().filter(|event| event.text.starts_with("check")).collect();
    assert!(told.len() <= 2 * (TOLD_MAX + 1), "{} lines", told.len());
    for verdict in [
        format!("{lost} problems found, 0 repaired, {lost} left"),
        format!("{lost} repaired, 0 left"),
    ] {
        assert!(told.iter().any(|event| event.text.contains(&verdict)), "{verdict}: {told:?}");
    }
    lab.check();
    assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes);
}

/// A scrub or check of a disk reads what has a mirror there; one of a file reads only that file.
#[test]
fn a_disk_or_a_file_is_scrubbed_and_checked_alone() {
    let (mut lab, _) = with_a_table(Redundancy::Normal, &["A", "B", "C"]);
    let other = lab.create_file("other");
    lab.write(other, 0, &pattern(4, 2 << 20));
    lab.sync(other);
    let places = lab.rot(6);
    let scope =
        |order| ScrubOrder { scope: order, power: ScrubPower::High, ..ScrubOrder::default() };
    let clean = lab.scrubbed(&scope(Scope::Files(vec!["+data/other".to_owned()])));
    assert_eq!((clean.extents_checked, clean.problems.len()), (2, 0), "{clean:?}");
    let incarnation =
        block_on(lab.session().attributes(lab.find("table"))).expect("it is there").generation;
    for name in [
        format!("+DATA.{}.{incarnation}", lab.find("table")),
        "+data/TABLE".to_owned(),
        "Table".to_owned(),
    ] {
        let table = lab.scrubbed(&scope(Scope::Files(vec![name])));
        assert_eq!((table.extents_checked, table.problems.len()), (6, 6), "{table:?}");
    }
    for disk in 0..3 {
        let which = Scope::Disks(Selection::Disks(vec![format!("DATA_000{disk}")]));
        let expected = places.iter().filter(|(on, _)| *on == disk).count();
        let held = lab.held()[disk];
        let report = block_on(lab.group().check_scope(&which, false)).expect("the check runs");
        assert_eq!(report.extents_checked, held, "extents with a mirror on disk {disk}");
        let there = report
            .problems
            .iter()
            .filter(|one| one.text.contains(&format!("DATA_000{disk}")))
            .count();
        assert_eq!(there, expected, "{report:?}");
    }
    for (name, code, says) in [
        ("nothing", Code::NoSuchFile, "no file 'nothing'"),
        ("+OTHER/table", Code::Invalid, "another disk group"),
        ("+DATA.9999.1", Code::NoSuchFile, "no file '+DATA.9999.1'"),
    ] {
        let error = block_on(lab.group().check_scope(&Scope::Files(vec![name.to_owned()]), false))
            .expect_err(name);
        assert!(error.code == code && error.message.contains(says), "{error}");
    }
}

/// A disk fails while a scrub reads it: the scrub goes on with the others, and ends.
#[test]
fn a_scrub_ends_although_a_disk_fails_during_it() {
    let (mut lab, bytes) = with_a_table(Redundancy::Normal, &["A", "B"]);
    lab.rot(1);
    let order = ScrubOrder { power: ScrubPower::Low, repair: true, ..ScrubOrder::default() };
    block_on(lab.group().scrub(&order)).expect("it begins");
    let error = block_on(lab.group().scrub(&order)).expect_err("one is running");
    assert_eq!(error.code, Code::Busy);
    lab.disks[1].faults(|faults| faults.fail_reads = true);
    lab.wait_for("the end of the scrub", || lab.scrub_operation().state == OperationState::Done);
    lab.disks[1].heal();
    assert!(lab.read(lab.find("table"), 0, bytes.len()) == bytes);
    lab.online_all();
    let _ = block_on(lab.group().check(true)).expect("the check runs");
    lab.check();
}

/// While files are written, extended, truncated and removed, no write in flight is taken for rot,
/// and no write is undone by a repair.
#[test]
fn a_scrub_of_a_group_in_use_finds_nothing() {
    let (lab, bytes) = with_a_table(Redundancy::Normal, &["A", "B", "C"]);
    let session = lab.session();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let over = || is_over.load(std::sync::atomic::Ordering::SeqCst);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut numbers = Numbers::new(17);
            let (table, mut bytes) = (lab.find("table"), bytes);
            let mut round = 0;
            while !over() || round < 20 {
                for _ in 0..20 {
                    let (at, length) = (numbers.below(6 << 20), 1 + numbers.below(20_000));
                    let end = (at + length).min(bytes.len() as u64);
                    let new = pattern(at + round, usize::try_from(end - at).expect("small"));
                    block_on(session.write(table, at, &new, false)).expect("written");
                    let place = usize::try_from(at).expect("small");
                    bytes[place..place + new.len()].copy_from_slice(&new);
                }
                let name = format!("passing{}", round % 3);
                let made = block_on(session.create(
                    ROOT,
                    name.as_bytes(),
                    NewFile::Regular,
                    0o644,
                    ROOT_CALLER,
                ));
                let node = made.expect("made").node;
                block_on(session.write(node, 0, &pattern(round, 1_500_000), false))
                    .expect("written");
                block_on(
                    session.change(node, Changes { size: Some(70_000), ..Changes::default() }),
                )
                .expect("cut");
                block_on(session.sync(table, true)).expect("synced");
                block_on(session.unlink(ROOT, name.as_bytes())).expect("removed");
                block_on(session.forget(node, 0));
                round += 1;
            }
            bytes
        });
        for power in [ScrubPower::High, ScrubPower::Max, ScrubPower::Auto, ScrubPower::Max] {
            let report = lab.scrubbed(&ScrubOrder { repair: true, power, ..ScrubOrder::default() });
            assert!(report.problems.is_empty(), "{report:?}");
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        writer.join().expect("no panic")
    });
    assert!(lab.read(lab.find("table"), 0, written.len()) == written);
    lab.check();
}

/// Without another mirror the scrub names the rotten blocks, and leaves them as they are.
#[test]
fn a_scrub_without_another_mirror_names_the_lost_blocks() {
    let (mut lab, _) = with_a_table(Redundancy::External, &["A", "B"]);
    lab.rot(2);
    let report = lab.scrubbed(&ScrubOrder {
        repair: true,
        power: ScrubPower::High,
        ..ScrubOrder::default()
    });
    assert!(
        report.problems.len() == 2 && report.problems.iter().all(|problem| !problem.repaired),
        "{report:?}"
    );
    let events = lab.world.events();
    let told = |event: &crate::event::Event| {
        event.severity == crate::event::Severity::Alarm && event.text.contains("0 repaired, 2 left")
    };
    assert!(events.iter().any(told), "{events:?}");
}

/// A scrub with REPAIR is cut short anywhere, by a kill or a loss of power: the block being
/// repaired is right or still rotten on its mirror, and the other mirror is unchanged.
#[test]
fn a_repairing_scrub_that_is_cut_short_damages_no_mirror() {
    let (mut lab, bytes) = with_a_table(Redundancy::Normal, &["A", "B"]);
    lab.rot(4);
    lab.dismount();
    super::kills::cut_short(
        &lab,
        3,
        |doomed| {
            if doomed.try_mount(false).is_ok() {
                let order =
                    ScrubOrder { repair: true, power: ScrubPower::High, ..ScrubOrder::default() };
                if block_on(doomed.group().scrub(&order)).is_ok() {
                    let is_over = || {
                        doomed
                            .group()
                            .operations()
                            .iter()
                            .all(|one| one.state == OperationState::Done)
                    };
                    let _ = (0..400).find(|_| {
                        is_over() || (std::thread::sleep(Duration::from_millis(5)), false).1
                    });
                }
            }
        },
        |heir, place| {
            heir.mount();
            assert!(heir.read(heir.find("table"), 0, bytes.len()) == bytes, "{place}");
            let report = block_on(heir.group().check(true)).expect("the check runs");
            assert!(report.is_good(), "{place}: {report:?}");
            heir.check();
            heir.dismount();
        },
    );
}

/// A scrub of the whole group ends early because the group is being dismounted, and the dismount
/// fails before the scrub has reported its end: the scrub counts as stopped all the same, and not
/// as one that has read everything.
#[test]
fn a_scrub_that_a_failed_dismount_ended_counts_as_stopped() {
    let (lab, node, plain) = Lab::with_a_plain_disk();
    lab.allow_silence();
    block_on(lab.group().set_attribute("scrub_metadata.enabled", "false")).expect("it is set");
    let extent = lab.extent_alone_on(plain, node);
    lab.close_regions();
    lab.write(node, extent.number * MIB, &pattern(2, 8192));
    lab.sync(node);
    lab.world.hold_back("scrub");
    block_on(lab.group().scrub(&ScrubOrder { repair: true, ..ScrubOrder::default() }))
        .expect("it begins");
    let mut scrub = lab.world.take_task("scrub").expect("it begins");
    let (zone, length) = lab.member(plain).layout().sums_of(extent.mirrors()[0].au);
    lab.disks[plain].faults(|faults| faults.hang_in.push(zone..zone + length as u64));
    let group = Arc::clone(lab.group());
    let dismounting = std::thread::spawn(move || block_on(group.dismount(false)));
    lab.wait_for("the checksums", || lab.group().is_stopping() && lab.disks[plain].hung() > 0);
    // A client still writes, elsewhere: a flush has something to do, and its disk takes its time.
    let slow = (plain + 1) % 5;
    let number = lab.member(slow).number.0;
    let far = |one: &Arc<Extent>| one.file == node && one.id.0.abs_diff(extent.id.0) > 4;
    let other = lab.extents_on(&[number]).into_iter().find(far).expect("every disk has some");
    lab.write(node, other.number * MIB, &pattern(3, 8192));
    lab.disks[slow].faults(|faults| faults.hang = true);
    assert!(run_until(scrub.as_mut(), || true).is_none(), "it flushes its possible repairs");
    lab.disks[slow].heal();
    lab.disks[plain].faults(|faults| faults.worn.push(zone..zone + length as u64));
    lab.disks[plain].answer();
    dismounting.join().expect("no panic").expect_err("its checksums cannot be written");
    lab.disks[plain].heal();
    block_on(scrub);
    assert!(lab.told("scrub stopped") && !lab.told("scrub ended"));
    let scrubbed = block_on(lab.group().catalog.read(crate::catalog::attributes::load_scrubbed))
        .expect("the catalog is read");
    assert!(scrubbed.is_none(), "it has read nothing");
    lab.check();
}
