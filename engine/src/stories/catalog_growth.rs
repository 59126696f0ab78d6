//! The catalog grows and gets missing mirrors: in a full group, and while a disk is lost.

use super::*;
use crate::{
    admin::{AccessChange, Exchange, NewDisk, Principal},
    api::SetXattr,
    catalog::{CatalogFile, Store},
};
use plinth_format::membership::CatalogRun;
use std::cell::Cell;

impl Lab {
    fn catalog_size(&self) -> u64 {
        self.group().store.capacity(CatalogFile::Database)
    }

    /// The catalog is full: statements that write to it are refused with NoSpace, not with a disk
    /// error.
    fn statements_say_that_there_is_no_space(&self) {
        let group = self.group();
        let attribute = block_on(group.set_attribute("disk_timeout", "30"));
        let user = Principal { number: Some(1001), name: "ann".to_owned() };
        let access = block_on(group.change_access(&AccessChange::AddUsers(vec![user])));
        for (what, answer) in [("SET ATTRIBUTE", attribute), ("ADD USER", access)] {
            let refused = answer.expect_err(what);
            assert_eq!(refused.code, Code::NoSpace, "{what}: {refused}");
            assert!(refused.message.contains("no space left in the disk group"), "{refused}");
        }
    }

    /// Makes another file, which takes some KiB of the catalog.
    fn add_weight(&self, index: usize) -> Result<(), FileError> {
        let name = format!("weight{index}");
        let made = block_on(self.session().create(
            ROOT,
            name.as_bytes(),
            NewFile::Regular,
            0o644,
            ROOT_CALLER,
        ))?;
        block_on(self.session().set_xattr(
            made.node,
            b"user.weight",
            &pattern(index as u64, 3000),
            SetXattr::Any,
        ))
    }
}

/// The disks are full of data when the catalog needs to grow. Calls that make files, and statements
/// that write to the catalog, are refused. All else works: acknowledged writes are synced, disks
/// leave and return, and the group mounts. No AU of a file is taken for the catalog. When data is
/// removed, the catalog grows.
#[test]
fn a_full_catalog_refuses_new_files_and_serves_existing_ones() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("big");
    let mut at = 0;
    while block_on(lab.session().write(node, at, &[1; MIB as usize], false)).is_ok() {
        at += MIB;
    }
    let size = lab.catalog_size();
    let mut count = 0;
    let refused = loop {
        match lab.add_weight(count) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, FileError::NoSpace), "{refused}");
    assert_eq!(lab.catalog_size(), size);
    assert!(lab.group().failure().is_none());
    assert!(count > 200, "{count} files only");
    lab.wait_for("the alert to the operator", || lab.told("KiB left and cannot grow"));
    lab.statements_say_that_there_is_no_space();
    // Acknowledged writes can be made durable, a disk may leave and return, and the group mounts.
    lab.sync(node);
    block_on(lab.group().offline(Selection::FailureGroups(vec!["B".to_owned()]), None))
        .expect("it can be spared");
    lab.write(node, 0, &pattern(5, 300_000));
    lab.sync(node);
    lab.kill();
    lab.mount();
    lab.online_all();
    lab.check();
    let node = lab.find("big");
    block_on(lab.session().change(node, Changes { size: Some(at / 2), ..Changes::default() }))
        .expect("it is cut");
    assert_eq!(lab.read(node, 0, 300_000), pattern(5, 300_000));
    lab.sync(node);
    block_on(lab.session().unlink(ROOT, b"big")).expect("removing works");
    let next = Cell::new(count + 1);
    // The catalog can use the freed space at once.
    for _ in 0..600 {
        lab.add_weight(next.replace(next.get() + 1)).expect("what was freed is waited for");
    }
    assert!(lab.catalog_size() > size);
    lab.check();
    lab.dismount();
    lab.mount();
    lab.check();
}

/// A disk with a mirror of the catalog fails while the catalog grows, at each of its writes in
/// turn. The catalog's own thread takes it offline, the catalog grows on the other disks, and no AU
/// is lost or owned twice.
#[test]
fn the_catalog_grows_although_one_of_its_disks_fails() {
    for left in 0..12 {
        let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
        let size = lab.catalog_size();
        let count = Cell::new(0);
        let add = || lab.add_weight(count.replace(count.get() + 1));
        // The catalog grows well before it is full.
        let nearly = || {
            let pages: i64 = block_on(lab.group().catalog.read(|connection| {
                Ok(connection.pragma_query_value(None, "page_count", |row| row.get(0))?)
            }))
            .expect("the catalog answers");
            pages.cast_unsigned() * 4096 + 270 * 4096 > size
        };
        while !nearly() {
            add().expect("there is room");
        }
        assert_eq!(lab.catalog_size(), size);
        lab.disks[2].faults(|faults| faults.fail_after = Some(left));
        while lab.catalog_size() == size {
            add().expect("the others take it");
        }
        lab.wait_for("the loss", || {
            add().expect("the others take it");
            lab.state(2) == DiskState::Offline
        });
        lab.disks[2].heal();
        lab.check();
        lab.online_all();
        lab.check();
        lab.kill();
        lab.mount();
        lab.find(&format!("weight{}", count.get() - 1));
        lab.check();
    }
}

/// Only one disk has space when the catalog needs to grow. One mirror may grow there, but not a
/// second one, or the loss of that disk would be the loss of the catalog.
#[test]
fn mirrors_of_the_catalog_never_grow_onto_one_disk() {
    for groups in [&["A", "B", "C"][..], &["A", "B"]] {
        let lab = &mut Lab::new(Redundancy::Normal, 64 * MIB, groups);
        let node = lab.create_file("big");
        let mut at = 0;
        while block_on(lab.session().write(node, at, &[1; MIB as usize], false)).is_ok() {
            at += MIB;
        }
        let disk = MemoryDisk::noisy("/disk9", 64 * MIB, 512, 4096, 9);
        lab.world.attach(&disk);
        let new = NewDisk {
            path: "/disk9".to_owned(),
            name: None,
            failure_group: Some("D".to_owned()),
            quorum: false,
            size: None,
            force: false,
        };
        block_on(lab.group().exchange(Exchange { add: vec![new], drop: Vec::new() }, Some(0)))
            .expect("it is added");
        let mut count = 0;
        while lab.add_weight(count).is_ok() && count < 5000 {
            count += 1;
        }
        let membership = lab.group().voters.current();
        for file in [CatalogFile::Database, CatalogFile::Wal] {
            let group = |run: &CatalogRun| {
                membership.disk(run.disk).expect("it is listed").failure_group.clone()
            };
            let runs: Vec<_> = membership.catalog.iter().filter(|run| run.file == file).collect();
            for run in &runs {
                let elsewhere = runs.iter().filter(|other| other.mirror != run.mirror);
                assert!(elsewhere.into_iter().all(|other| group(other) != group(run)), "{runs:?}");
            }
        }
        // That disk can be spared.
        block_on(lab.group().offline(Selection::FailureGroups(vec!["D".to_owned()]), None))
            .expect("it can be spared");
        lab.find(&format!("weight{}", count - 1));
        lab.check();
    }
}
