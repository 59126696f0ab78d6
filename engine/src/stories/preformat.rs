//! Files of PREFORMATTED templates: `files/preformat.rs`.

use super::*;
use crate::{
    admin::{NameOrder, Template},
    files::statements::NewSystemFile,
};

const RESERVE: Allocate = Allocate::Reserve { keep_size: false };

impl Lab {
    /// A file of a new PREFORMATTED template.
    fn preformatted(&self, alias: &str, fine: bool) -> Node {
        let template = Template {
            name: alias.to_uppercase(),
            mirrors: None,
            fine: Some(fine),
            preformatted: Some(true),
        };
        block_on(self.session().order(NameOrder::AddTemplates(vec![template]), ROOT_CALLER))
            .expect("it is added");
        let (template, alias) = (Some(alias.to_owned()), Some(format!("+DATA/{alias}")));
        let new = NewSystemFile { template, alias, ..NewSystemFile::default() };
        let (file, _) = block_on(self.session().create_system(new, b"", 0o644, ROOT_CALLER))
            .expect("it is made");
        file.node
    }

    /// The data of a file as `SEEK_DATA` and `SEEK_HOLE` show it: the first hole.
    fn first_hole(&self, node: Node) -> u64 {
        block_on(self.session().seek(node, 0, Seek::Hole)).expect("it is not empty")
    }
}

/// Whatever a file is given holds zeros on all mirrors before the request is answered, and holds
/// them after a sync and a loss of power; what a program has written there stays.
#[test]
fn what_a_preformatted_file_gets_is_written_with_zeros() {
    for fine in [false, true] {
        let mut lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
        let node = lab.preformatted("full", fine);
        let session = lab.session();
        lab.write(node, 10, b"first");
        block_on(session.allocate(node, 0, 10 * MIB, RESERVE, false)).expect("there is room");
        assert_eq!(lab.first_hole(node), 10 * MIB, "fine {fine}");
        let mut expected = vec![0; 10 << 20];
        expected[10..15].copy_from_slice(b"first");
        assert!(lab.read(node, 0, 10 << 20) == expected, "fine {fine}");
        lab.sync(node);
        lab.cut_power(1);
        lab.mount();
        assert_eq!(lab.first_hole(node), 10 * MIB, "fine {fine}");
        // A hole is one until it is allocated again.
        let session = lab.session();
        block_on(session.allocate(node, MIB, 2 * MIB, Allocate::PunchHole, false))
            .expect("punched");
        assert_eq!(lab.first_hole(node), MIB, "fine {fine}");
        block_on(session.allocate(node, MIB, 2 * MIB, RESERVE, false)).expect("there is room");
        assert_eq!(lab.first_hole(node), 10 * MIB, "fine {fine}");
        assert!(lab.read(node, 0, 10 << 20) == expected, "fine {fine}");
        lab.check();
    }
}

/// Programs write a file while it is being allocated: their bytes stay, however both meet.
#[test]
fn writes_during_an_allocation_stay() {
    let lab = Lab::new(Redundancy::Normal, 128 * MIB, &["A", "B"]);
    let node = lab.preformatted("full", false);
    let length = 12_usize << 20;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = lab.session();
            block_on(session.allocate(node, 0, length as u64, RESERVE, false)).expect("room");
        });
        for writer in 0..3_u64 {
            let lab = &lab;
            scope.spawn(move || {
                for at in (0..48).map(|step| step * 262_144 + writer * 70_001) {
                    lab.write(node, at, &pattern(writer + 1, 5_000));
                }
            });
        }
    });
    let found = lab.read(node, 0, length);
    let mut expected = vec![0; length];
    for writer in 0..3 {
        for at in (0..48).map(|step| step * 262_144 + writer * 70_001) {
            expected[at..at + 5_000].copy_from_slice(&pattern(writer as u64 + 1, 5_000));
        }
    }
    assert!(found == expected);
    assert_eq!(lab.first_hole(node), length as u64);
    lab.check();
}

/// There is no room for all zeros of an allocation: it fails, and the file and the group are as
/// before.
#[test]
fn an_allocation_that_finds_no_room_leaves_nothing_behind() {
    let lab = Lab::new(Redundancy::External, 128 * MIB, &["A"]);
    lab.set("disk_full_wait", "0");
    let node = lab.preformatted("full", false);
    lab.write(node, 0, b"first");
    lab.sync(node);
    let free = || block_on(lab.session().space()).expect("space").blocks_free;
    let before = free();
    // The first AUs behind the catalog have room, and it does not grow for some extents.
    let used = [CatalogFile::Database, CatalogFile::Wal].map(|file| lab.runs_of(file, 0));
    let first = used.iter().flatten().map(|run| run.end).max().expect("it is somewhere") + 4 * MIB;
    let layout = lab.member(0).layout();
    let places = layout.data_units().map(|au| layout.au_offset(au)).filter(|place| *place > first);
    let no_room = places.map(|place| place..place + MIB).collect();
    lab.disks[0].faults(|faults| faults.no_room = no_room);
    let length = 20 * MIB;
    let refused = block_on(lab.session().allocate(node, 0, length, RESERVE, false));
    let error = refused.expect_err("there is no room");
    assert_eq!(error.errno(), libc::ENOSPC, "{error}");
    lab.disks[0].heal();
    lab.wait_for("its space to be free again", || free() == before);
    assert_eq!(lab.read(node, 0, 100), b"first");
    block_on(lab.session().allocate(node, 0, length, RESERVE, false)).expect("there is room");
    assert_eq!(lab.first_hole(node), length);
    lab.check();
}
