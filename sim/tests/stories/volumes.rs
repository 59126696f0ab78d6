//! Volumes are made, grown, shrunk and dropped, even if the engine dies meanwhile.

use super::{lab::cut_short, *};
use plinth_engine::admin::{AdminError, VolumeChange};
use std::cell::RefCell;

impl Lab {
    fn volume(&self, change: &VolumeChange) -> Result<(), AdminError> {
        block_on(self.group().change_volume(change))
    }

    fn add(&self, name: &str, size: u64) -> Result<(), AdminError> {
        let (stripe_width, stripe_columns) = (128 << 10, 4);
        self.volume(&VolumeChange::Add {
            name: name.to_owned(),
            size,
            mirrors: None,
            stripe_width,
            stripe_columns,
        })
    }

    /// Names and sizes in MiB.
    fn volumes(&self) -> Vec<String> {
        let rows = block_on(
            self.group().query("SELECT volume_name || ' ' || size_mb FROM v$asm_volume ORDER BY 1"),
        );
        rows.expect("a query").rows.iter().map(|row| format!("{:?}", row[0])).collect()
    }

    /// The number of entries in the directory of the volumes.
    fn volume_files(&self) -> usize {
        let Ok(directory) = block_on(self.session().lookup(ROOT, b".volumes")) else { return 0 };
        block_on(self.session().read_directory(directory.node, 0, 100)).expect("a directory").len()
    }
}

fn drop_volume(name: &str) -> VolumeChange {
    VolumeChange::Drop { name: name.to_owned() }
}

fn resize(name: &str, size: u64) -> VolumeChange {
    VolumeChange::Resize { name: name.to_owned(), size }
}

/// All of a volume's space is allocated from the beginning, in whole AUs. A volume that does not
/// fit is refused and leaves nothing.
#[test]
fn a_volume_has_all_of_its_space_from_the_beginning() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let before = lab.free();
    lab.add("V1", 10 * MIB + 1).expect("it fits");
    assert_eq!(lab.volumes(), [r#"Text("V1 11")"#]);
    assert_eq!(before - lab.free(), 22, "two mirrors of 11 AUs");
    assert_eq!(lab.add("V1", MIB).expect_err("it is there").code, Code::VolumeExists);
    let full = lab.add("V2", 200 * MIB).expect_err("it does not fit");
    assert_eq!(full.code, Code::NoSpace, "{full}");
    assert_eq!((lab.volume_files(), before - lab.free()), (1, 22), "nothing is left of it");
    assert_eq!(
        lab.volume(&resize("V1", 300 * MIB)).expect_err("it does not fit").code,
        Code::NoSpace
    );
    assert_eq!(before - lab.free(), 22);
    lab.volume(&resize("V1", 4 * MIB)).expect("smaller");
    lab.volume(&resize("V1", 6 * MIB)).expect("larger");
    assert_eq!(lab.volumes(), [r#"Text("V1 6")"#]);
    let high = VolumeChange::Add {
        name: "V3".into(),
        size: MIB,
        mirrors: Some(3),
        stripe_width: 4096,
        stripe_columns: 1,
    };
    assert_eq!(lab.volume(&high).expect_err("it is the group's").code, Code::NotSupported);
    lab.volume(&VolumeChange::Modify {
        name: "V1".into(),
        mount_path: Some("/v".into()),
        usage: Some("ext4".into()),
    })
    .expect("noted");
    lab.volume(&VolumeChange::Enable { volumes: None, enable: false }).expect("disabled");
    lab.kill();
    lab.mount();
    let row = "SELECT state, usage, mountpath, redundancy, stripe_width_k FROM v$asm_volume";
    let rows = format!("{:?}", block_on(lab.group().query(row)).expect("a query").rows);
    assert_eq!(
        rows,
        r#"[[Text("DISABLED"), Text("ext4"), Text("/v"), Text("MIRROR"), Integer(128)]]"#
    );
    lab.volume(&drop_volume("V1")).expect("dropped");
    assert_eq!(lab.volume(&drop_volume("V1")).expect_err("it is gone").code, Code::NoSuchVolume);
    lab.check();
    lab.wait_for("its space", || lab.free() >= before - 2);
    // A client removes a volume's file in a mount of the group.
    lab.add("V4", MIB).expect("it fits");
    let directory = block_on(lab.session().lookup(ROOT, b".volumes")).expect("it is there").node;
    block_on(lab.session().unlink(directory, b"V4")).expect("removed");
    assert!(lab.volumes().is_empty());
    lab.add("V4", MIB).expect("it can be made again");
    lab.check();
}

/// Whenever the engine dies, a volume exists with all its space or not at all, and no space is left
/// allocated for one that does not exist.
#[test]
fn a_volume_whose_making_is_cut_short_exists_whole_or_not_at_all() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.add("OLD", 3 * MIB).expect("it fits");
    let free = lab.free();
    lab.dismount();
    let met = RefCell::new([0; 3]);
    cut_short(
        &lab,
        7,
        |doomed| {
            if doomed.try_mount(false).is_ok() {
                let _ = doomed.add("NEW", 5 * MIB);
                let _ = doomed.volume(&drop_volume("OLD"));
            }
        },
        |heir, place| {
            heir.mount();
            let volumes = heir.volumes();
            let all = [
                &[r#"Text("OLD 3")"#][..],
                &[r#"Text("NEW 5")"#, r#"Text("OLD 3")"#],
                &[r#"Text("NEW 5")"#],
            ];
            let case = all.iter().position(|names| volumes == *names);
            let case = case.unwrap_or_else(|| panic!("{place}: {volumes:?}"));
            met.borrow_mut()[case] += 1;
            assert_eq!(heir.volume_files(), volumes.len(), "{place}");
            let taken = [0, 10, 4][case];
            heir.wait_for("what is not a volume's to be free", || heir.free() + taken >= free);
            heir.check();
            heir.dismount();
        },
    );
    let met = met.into_inner();
    assert!(met.iter().all(|times| *times > 0), "{met:?}");
}
