//! Files that differ from the rest of their group: made through templates, with more mirrors, or in
//! stripes.

use super::*;
use plinth_engine::{
    admin::{Conversion, NameOrder, Template},
    files::statements::NewSystemFile,
};

impl Lab {
    fn add_template(&self, name: &str, mirrors: Option<u8>, fine: Option<bool>) {
        let template = Template { name: name.to_owned(), mirrors, fine, preformatted: None };
        block_on(self.session().order(NameOrder::AddTemplates(vec![template]), ROOT_CALLER))
            .expect("it is added");
    }

    fn try_make(&self, template: &str, alias: &str) -> Result<Node, FileError> {
        let (template, alias) = (Some(template.to_owned()), Some(format!("+DATA/{alias}")));
        let new = NewSystemFile { template, alias, ..NewSystemFile::default() };
        block_on(self.session().create_system(new, b"", 0o644, ROOT_CALLER))
            .map(|(file, _)| file.node)
    }

    fn make(&self, template: &str, alias: &str) -> Node {
        self.try_make(template, alias).expect("it is made")
    }
}

const LENGTH: usize = 6 << 20;

/// Two of three failure groups are lost, one after the other: the file of three mirrors is read and
/// written all the same.
#[test]
fn a_file_of_three_mirrors_survives_two_losses() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let file = lab.make("CONTROLFILE", "control");
    lab.write(file, 0, &pattern(1, 500_000));
    lab.sync(file);
    lab.silence(0);
    lab.write(file, 0, &pattern(2, 500_000));
    lab.sync(file);
    lab.silence(1);
    lab.write(file, 0, &pattern(3, 500_000));
    lab.sync(file);
    assert!(lab.read(file, 0, 500_000) == pattern(3, 500_000));
    let missing =
        block_on(lab.group().query("SELECT redundancy, mirrors_left FROM v$asm_missing_mirror"))
            .expect("rows");
    assert_eq!(missing.rows.len(), 1, "{missing:?}");
    assert_eq!(format!("{:?}", missing.rows[0]), "[Text(\"HIGH\"), Integer(1)]");
    lab.disks().iter().for_each(SimDisk::heal);
    lab.online_all();
    lab.check();
    assert_eq!(lab.twos_and_threes(), (0, 4));
}

/// One of three failure groups is lost for good: its mirrors are rebuilt all the same. The file of
/// three mirrors has only two, which is reported, until there is a third failure group again.
#[test]
fn a_file_of_three_mirrors_does_not_prevent_a_rebuild_on_two_failure_groups() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let file = lab.make("CONTROLFILE", "control");
    lab.write(file, 0, &pattern(1, 500_000));
    let plain = lab.create_file("plain");
    lab.write(plain, 0, &pattern(2, LENGTH));
    lab.sync(file);
    lab.sync(plain);
    let lowered = |lab: &Lab| {
        let sql =
            "SELECT redundancy || ' ' || redundancy_lowered FROM v$asm_file ORDER BY file_number";
        format!("{:?}", block_on(lab.group().query(sql)).expect("rows").rows)
    };
    lab.exchange(&[], &["DATA_0002"], false).expect_err("it is dropped without FORCE");
    lab.silence(2);
    lab.exchange(&[], &["DATA_0002"], true).expect("it is gone");
    lab.rebalanced();
    assert_eq!(lab.twos_and_threes(), (10, 0));
    assert_eq!(lowered(&lab), "[[Text(\"HIGH Y\")], [Text(\"MIRROR N\")]]");
    let missing = block_on(lab.group().missing_mirrors()).expect("it is said");
    assert!(missing.len() == 1 && missing[0].contains("too few failure groups"), "{missing:?}");
    lab.write(file, 500_000, &pattern(3, 500_000));
    assert_eq!(lab.twos_and_threes().1, 0, "more of it has two, too");
    lab.check();
    lab.kill();
    lab.detach("/disk2");
    lab.mount();
    lab.check();
    let path = lab.spare(64 * MIB);
    lab.exchange(&[(&path, "D")], &[], false).expect("it is added");
    lab.rebalanced();
    assert_eq!(lab.twos_and_threes(), (6, 8));
    assert_eq!(lowered(&lab), "[[Text(\"HIGH N\")], [Text(\"MIRROR N\")]]");
    lab.check();
    let [file, plain] = ["control", "plain"].map(|name| lab.find(name));
    assert!(
        lab.read(file, 0, 500_000) == pattern(1, 500_000)
            && lab.read(plain, 0, LENGTH) == pattern(2, LENGTH)
    );
    assert!(lab.read(file, 500_000, 500_000) == pattern(3, 500_000));
}

/// In a group of two failure groups a control file has two mirrors like all others, and a template
/// of a DBA with three mirrors is refused.
#[test]
fn three_mirrors_are_refused_in_a_group_of_two_failure_groups() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let file = lab.make("CONTROLFILE", "control");
    lab.write(file, 0, &pattern(1, 500_000));
    assert_eq!(lab.twos_and_threes(), (4, 0));
    lab.add_template("SAFE", Some(3), None);
    let refused = lab.try_make("SAFE", "file").expect_err("two failure groups");
    assert!(
        matches!(refused, FileError::Order(error) if error.code == Code::NotEnoughFailureGroups)
    );
    lab.check();
}

/// The group's redundancy is converted there and back: with other redundancies a file that has
/// three mirrors in NORMAL has as many as the others, and it has three when the group is NORMAL
/// again.
#[test]
fn a_file_of_three_mirrors_has_them_again_after_conversions_of_the_group() {
    let lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C"]);
    let file = lab.make("CONTROLFILE", "control");
    lab.write(file, 0, &pattern(1, LENGTH));
    let plain = lab.create_file("plain");
    lab.write(plain, 0, &pattern(2, LENGTH));
    for (to, expected) in [
        (Redundancy::High, (0, 14)),
        (Redundancy::Normal, (6, 8)),
        (Redundancy::External, (0, 0)),
        (Redundancy::Normal, (6, 8)),
    ] {
        block_on(lab.group().convert(Conversion(to), Some(4))).expect("it can be");
        lab.rebalanced();
        assert_eq!(lab.twos_and_threes(), expected, "{to}");
        lab.check();
        lab.dismount();
        lab.mount();
    }
    let [file, plain] = ["control", "plain"].map(|name| lab.find(name));
    assert!(
        lab.read(file, 0, LENGTH) == pattern(1, LENGTH)
            && lab.read(plain, 0, LENGTH) == pattern(2, LENGTH)
    );
}

/// The expected contents of a file.
struct Model {
    bytes: Vec<u8>,
}

impl Model {
    fn resize(&mut self, size: usize) {
        self.bytes.resize(size, 0);
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes.resize(self.bytes.len().max(offset + bytes.len()), 0);
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn zero(&mut self, offset: usize, end: usize) {
        let end = end.min(self.bytes.len());
        self.bytes[offset.min(end)..end].fill(0);
    }
}

/// Every operation on a striped file, at random, compared with a model. The engine is killed, the
/// power fails after a sync, mirrors move and a disk comes back meanwhile. Reported holes hold
/// zeros, and all data is found.
#[test]
fn a_striped_file_behaves_like_any_other() {
    const MOST: u64 = 18 << 20;
    for seed in 0..4 {
        let mut numbers = Numbers::new(seed + 50);
        let redundancy = [Redundancy::Normal, Redundancy::External][numbers.below(2) as usize];
        let lab = Lab::new(redundancy, 96 * MIB, &["A", "B", "C"]);
        lab.add_template("STRIPED", None, Some(true));
        let node = lab.make("STRIPED", "file");
        let mut model = Model { bytes: Vec::new() };
        for step in 0..50 {
            let place = format!("seed {seed}, step {step}");
            let offset = numbers.below(MOST);
            let longest = [100, 70_000, 3 << 20][numbers.below(3) as usize];
            let length = 1 + numbers.below(longest);
            let (start, end) = (offset as usize, (offset + length) as usize);
            match numbers.below(12) {
                0..=4 => {
                    let bytes = pattern(seed * 1000 + step, length as usize);
                    lab.write(node, offset, &bytes);
                    model.write(start, &bytes);
                }
                5 => {
                    let changes = Changes { size: Some(offset), ..Changes::default() };
                    block_on(lab.session().change(node, changes)).expect("it is cut or grows");
                    model.resize(start);
                }
                6 => {
                    let punched = lab.session();
                    block_on(punched.allocate(node, offset, length, Allocate::PunchHole, false))
                        .expect("punched");
                    model.zero(start, end);
                }
                7 => {
                    let mode = Allocate::ZeroRange { keep_size: true };
                    block_on(lab.session().allocate(node, offset, length, mode, false))
                        .expect("zeroed");
                    model.zero(start, end);
                }
                8 => {
                    let mode = Allocate::Reserve { keep_size: false };
                    block_on(lab.session().allocate(node, offset, length, mode, false))
                        .expect("reserved");
                    model.resize(model.bytes.len().max(end));
                }
                9 => {
                    lab.kill();
                    lab.mount();
                }
                10 => {
                    lab.sync(node);
                    block_on(lab.session().sync_all()).expect("synced");
                    lab.cut_power();
                    lab.mount();
                }
                _ => {
                    block_on(lab.group().rebalance(Some(4))).expect("it begins");
                }
            }
            let read = lab.read(node, 0, MOST as usize * 2);
            assert!(
                read == model.bytes,
                "{place}: {} bytes, should be {}",
                read.len(),
                model.bytes.len()
            );
            let (at, length) = (numbers.below(MOST), 1 + numbers.below(400_000) as usize);
            let expected = model.bytes.get(at as usize..).unwrap_or_default();
            let expected = &expected[..expected.len().min(length)];
            assert!(lab.read(node, at, length) == expected, "{place}: {length} bytes at {at}");
            // Data and holes, from end to end.
            let mut at = 0;
            let size = model.bytes.len() as u64;
            let mut ranges = Vec::new();
            while at < size {
                let Ok(data) = block_on(lab.session().seek(node, at, Seek::Data)) else {
                    assert!(
                        model.bytes[at as usize..].iter().all(|byte| *byte == 0),
                        "{place}: data behind {at}"
                    );
                    ranges.push((size - at, false));
                    break;
                };
                assert!(
                    model.bytes[at as usize..data as usize].iter().all(|byte| *byte == 0),
                    "{place}: a hole at {at}"
                );
                if data > at {
                    ranges.push((data - at, false));
                }
                at = block_on(lab.session().seek(node, data, Seek::Hole))
                    .expect("there is one at the end");
                assert!(at > data, "{place}");
                ranges.push((at - data, true));
            }
            // In one call, from the start and from the middle of the first range.
            let map = |offset, most| {
                block_on(lab.session().map(node, offset, 1 << 40, most)).expect("a map")
            };
            assert_eq!(map(0, usize::MAX), ranges, "{place}");
            if let Some((length, data)) = ranges.first() {
                assert_eq!(map(length / 2, 1), [(length - length / 2, *data)], "{place}");
            }
        }
        lab.wait_for("the rebalance", || {
            lab.group().operations().iter().all(|one| one.state != OperationState::Run)
        });
        lab.check();
    }
}

/// A striped file of a million bytes lies on eight extents, which go round the disks; a file that
/// is not striped lies on one.
#[test]
fn stripes_go_round_the_disks() {
    let lab = Lab::new(Redundancy::External, 96 * MIB, &["A", "B", "C", "D"]);
    lab.add_template("STRIPED", None, Some(true));
    let count = |alias: &str, template: &str| {
        let node = lab.make(template, alias);
        lab.write(node, 0, &pattern(7, 1_000_000));
        assert!(lab.read(node, 0, 1_000_000) == pattern(7, 1_000_000));
        let sql =
            format!("SELECT count(*), count(DISTINCT d0) > 2 FROM extent WHERE file = {node}");
        format!("{:?}", block_on(lab.group().query(&sql)).expect("rows").rows)
    };
    assert_eq!(count("fine", "STRIPED"), "[[Integer(8), Integer(1)]]");
    assert_eq!(count("coarse", "DATAFILE"), "[[Integer(1), Integer(0)]]");
    let striped =
        block_on(lab.group().query("SELECT striped FROM v$asm_file ORDER BY file_number"))
            .expect("rows");
    assert_eq!(format!("{:?}", striped.rows), "[[Text(\"FINE\")], [Text(\"COARSE\")]]");
    lab.check();
}
