//! Volumes are made, grown, shrunk and dropped, even if the engine dies meanwhile.

use super::*;
use crate::admin::{AdminError, VolumeChange};

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

    fn free(&self) -> u64 {
        let space = self.group().space();
        space.disks().map(|disk| u64::from(space.unowned(disk))).sum()
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

/// Whenever the engine dies, a volume exists with all its space or not at all, and no space is left
/// allocated for one that does not exist.
#[test]
fn a_volume_whose_making_is_cut_short_exists_whole_or_not_at_all() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.add("OLD", 3 * MIB).expect("it fits");
    let free = lab.free();
    lab.dismount();
    super::kills::cut_short(
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
            super::kills::met(case);
            assert_eq!(heir.volume_files(), volumes.len(), "{place}");
            let taken = [0, 10, 4][case];
            heir.wait_for("what is not a volume's to be free", || heir.free() + taken >= free);
            heir.check();
            heir.dismount();
        },
    );
    super::kills::each_was_met(3, 0);
}
