//! Files that differ from the rest of their group: made through templates, with more mirrors, or in
//! stripes.

use super::*;
use crate::{
    admin::{NameOrder, Template},
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

    /// The number of extents with two mirrors, and with three.
    fn twos_and_threes(&self) -> (u64, u64) {
        let counts = self.group().mirror_sets.counts();
        let with = |mirrors: usize| {
            counts.iter().filter(|(set, _)| set.len() == mirrors).map(|(_, count)| count).sum()
        };
        (with(2), with(3))
    }
}

const LENGTH: usize = 6 << 20;

/// A file of three mirrors in a NORMAL group has them from the first byte on, after a kill and a
/// loss of power, and when disks come and go, and it is read when two of three failure groups are
/// lost. Other files keep their two mirrors.
#[test]
fn a_file_in_a_normal_group_keeps_three_mirrors() {
    let mut lab = Lab::new(Redundancy::Normal, 96 * MIB, &["A", "B", "C", "D"]);
    let high = lab.make("CONTROLFILE", "control01.ctl");
    lab.add_template("SAFE", Some(3), None);
    let small = lab.make("safe", "small");
    lab.write(high, 0, &pattern(1, LENGTH));
    lab.write(small, 0, b"small, and no slot of a shared extent");
    let plain = lab.create_file("plain");
    lab.write(plain, 0, &pattern(2, LENGTH));
    lab.write(lab.create_file("slot"), 0, b"in a slot");
    lab.sync(high);
    lab.sync(plain);
    assert_eq!(lab.twos_and_threes(), (7, 9));
    lab.check();
    lab.kill();
    lab.mount();
    assert_eq!(lab.twos_and_threes(), (7, 9));
    lab.cut_power(3);
    lab.mount();
    assert_eq!(lab.twos_and_threes(), (7, 9));
    // A disk gets back what it lost with the power; until then it takes no new mirror.
    lab.online_all();
    let path = lab.spare(96 * MIB);
    lab.exchange(&[(&path, "E")], &[], false).expect("it is added");
    lab.rebalanced();
    lab.exchange(&[], &["DATA_0000"], false).expect("it can go");
    lab.rebalanced();
    assert_eq!(lab.twos_and_threes(), (7, 9));
    assert!(!lab.group().is_converting());
    lab.check();
    let [high, plain] = ["control01.ctl", "plain"].map(|name| lab.find(name));
    assert!(lab.read(high, 0, LENGTH) == pattern(1, LENGTH));
    assert!(lab.read(plain, 0, LENGTH) == pattern(2, LENGTH));
    // The failure groups that stay are just enough: no more may be dropped.
    lab.exchange(&[], &["DATA_0001"], false).expect("three stay");
    lab.rebalanced();
    let refused = lab.exchange(&[], &["DATA_0002"], false).expect_err("it has mirrors of three");
    assert_eq!(refused.code, Code::NotEnoughFailureGroups, "{refused}");
    assert!(refused.message.contains("HIGH redundancy"), "{refused}");
    for name in ["control01.ctl", "small"] {
        block_on(
            lab.session().order(NameOrder::DropFiles(vec![format!("+DATA/{name}")]), ROOT_CALLER),
        )
        .expect("gone");
    }
    lab.exchange(&[], &["DATA_0002"], false).expect("two are enough for what is left");
    lab.rebalanced();
    assert_eq!(lab.twos_and_threes(), (7, 0));
    assert!(lab.read(plain, 0, LENGTH) == pattern(2, LENGTH));
    lab.check();
}

/// Several threads write and read one striped file while mirrors move: threads that wait for
/// several extents do not deadlock.
#[test]
fn writers_of_a_striped_file_do_not_deadlock() {
    let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B", "C"]);
    lab.add_template("STRIPED", None, Some(true));
    let node = lab.make("STRIPED", "file");
    const SHARE: usize = 3 << 20;
    lab.write(node, 0, &pattern(0, 4 * SHARE));
    let path = lab.spare(128 * MIB);
    lab.exchange(&[(&path, "D")], &["DATA_0000"], false).expect("it begins");
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let lab = &lab;
            scope.spawn(move || {
                for round in 0..6 {
                    let bytes = pattern(writer * 100 + round, SHARE);
                    lab.write(node, writer * SHARE as u64, &bytes);
                    assert!(
                        lab.read(node, writer * SHARE as u64, SHARE) == bytes,
                        "writer {writer}, round {round}"
                    );
                    lab.sync(node);
                }
            });
        }
    });
    lab.rebalanced();
    for writer in 0..4_u64 {
        assert!(lab.read(node, writer * SHARE as u64, SHARE) == pattern(writer * 100 + 5, SHARE));
    }
    lab.check();
}

/// A group whose catalog an earlier version made: a check reports nothing and changes nothing, a
/// mount upgrades the catalog, and the files are as they were.
#[test]
fn a_group_of_an_earlier_version_is_upgraded_by_a_mount() {
    for power in [false, true] {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
        let node = lab.create_file("table");
        lab.write(node, 0, &pattern(1, 3 << 20));
        lab.write(lab.create_file("small"), 0, b"small");
        block_on(lab.session().sync_all()).expect("synced");
        let back = |connection: &rusqlite::Connection| Ok(connection.execute_batch(FIRST_VERSION)?);
        block_on(lab.group().catalog.write(true, back)).expect("as an earlier version made it");
        if power {
            lab.cut_power(7);
        } else {
            lab.kill();
        }
        let report = block_on(Group::check_files(&lab.world(), false)).expect("the check runs");
        assert!(report.problems.is_empty(), "{report:?}");
        lab.mount();
        let found =
            block_on(lab.group().query("SELECT type, redundancy, striped FROM v$asm_file LIMIT 1"))
                .expect("rows");
        assert_eq!(
            format!("{:?}", found.rows),
            "[[Text(\"DATAFILE\"), Text(\"MIRROR\"), Text(\"COARSE\")]]"
        );
        assert!(lab.read(lab.find("table"), 0, 3 << 20) == pattern(1, 3 << 20));
        assert_eq!(lab.read(lab.find("small"), 0, 9), b"small");
        lab.make("CONTROLFILE", "control");
        lab.check();
        lab.dismount();
        lab.mount();
        lab.check();
    }
}
