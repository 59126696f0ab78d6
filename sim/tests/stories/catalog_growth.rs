//! The catalog grows and gets missing mirrors: in a full group, and while a disk is lost.

use super::*;
use plinth_engine::catalog::CatalogFile;
use std::collections::BTreeSet;

/// A disk goes away, and the disk that takes its place has no room for the catalog's mirror. The
/// mirror is built when there is room, although no disk joins or leaves then. After that the disk
/// with the other mirror can be spared again.
#[test]
fn a_mirror_of_the_catalog_waits_for_room() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "A", "B", "B"]);
    let small = lab.create_file("small");
    lab.write(small, 0, &pattern(1, 300_000));
    lab.sync(small);
    let node = lab.create_file("big");
    let mut at = 0;
    while block_on(lab.session().write(node, at, &[1; MIB as usize], false)).is_ok() {
        at += MIB;
    }
    lab.sync(node);
    let runs = lab.world().newest_membership().catalog.clone();
    let away = usize::from(
        runs.iter()
            .find(|run| run.disk.0 > 1)
            .expect("it has a mirror in each failure group")
            .disk
            .0,
    );
    lab.silence(away);
    lab.write(small, 0, &pattern(2, 300_000));
    lab.sync(small);
    lab.wait_for("the loss", || lab.state(away) == DiskState::Offline);
    assert!(!lab.group().lacks_catalog_mirror(), "there is room already");
    let mirrored = |lab: &Lab, file| {
        let membership = lab.world().newest_membership();
        membership
            .catalog
            .iter()
            .filter(|run| run.file == file)
            .map(|run| run.disk)
            .collect::<BTreeSet<_>>()
            .len()
            == 2
    };
    assert!(!mirrored(&lab, CatalogFile::Database) || !mirrored(&lab, CatalogFile::Wal));
    block_on(lab.session().unlink(ROOT, b"big")).expect("it is removed");
    let both = || mirrored(&lab, CatalogFile::Database) && mirrored(&lab, CatalogFile::Wal);
    lab.wait_for("the catalog's mirror", both);
    lab.disk(away).heal();
    lab.check();
}
