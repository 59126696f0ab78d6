//! Which discards a device or a file honours, as the kernel knows it.
//!
//! | | block device | file |
//! | --- | --- | --- |
//! | means | BLKDISCARD | a hole, by fallocate(2) |
//! | granularity | `queue/discard_granularity` | a block of the file system |
//! | alignment | `discard_alignment` of the device or partition | none |
//! | maximum | `queue/discard_max_bytes` | none |
//!
//! The kernel's `discard_alignment` of a partition is the offset in the partition at which a unit
//! begins: where the partition begins on the disk is in it.

use super::disk::Medium;
use plinth_engine::world::{
    Sectors,
    discard_limits::{DiscardLimits, DiscardMeans, NoDiscards, ProvisioningMode},
};
use std::{
    fs::{self, File},
    path::Path,
};

/// Larger blocks of a file system are how it likes to be read, not how it allocates.
const FILE_BLOCK_MAX: u64 = 1 << 20;

/// The discards that an open disk honours. May hang as long as the disk does.
pub(super) fn of(
    medium: Medium,
    file: &File,
    sectors: Sectors,
) -> Result<DiscardLimits, NoDiscards> {
    match medium.sysfs() {
        Some(sysfs) => {
            of_device(&|leaf| medium.queue(leaf), Path::new(&sysfs), u64::from(sectors.logical))
        }
        None => {
            let block = rustix::fs::fstatvfs(file).map_or(0, |about| about.f_frsize);
            Ok(of_file(block, u64::from(sectors.logical)))
        }
    }
}

fn of_file(block: u64, sector: u64) -> DiscardLimits {
    let is_block = block.is_multiple_of(sector) && (1..=FILE_BLOCK_MAX).contains(&block);
    DiscardLimits {
        means: DiscardMeans::Punch,
        granularity: if is_block { block } else { sector.max(4096) },
        alignment: 0,
        maximum: u64::MAX,
    }
}

fn of_device(
    queue: &dyn Fn(&str) -> Option<String>,
    sysfs: &Path,
    sector: u64,
) -> Result<DiscardLimits, NoDiscards> {
    let number = |leaf| queue(leaf).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let maximum = number("discard_max_bytes");
    if maximum < sector {
        return Err(match provisioning_mode(sysfs) {
            Some(mode) => NoDiscards::NotThin(mode),
            None if number("discard_max_hw_bytes") > 0 => NoDiscards::SwitchedOff,
            None => NoDiscards::Unsupported,
        });
    }
    let of_sectors = |bytes: u64| bytes - bytes % sector;
    let granularity = of_sectors(number("discard_granularity")).max(sector);
    let alignment = fs::read_to_string(sysfs.join("discard_alignment"))
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .unwrap_or(0);
    Ok(DiscardLimits {
        means: DiscardMeans::Unmap,
        granularity,
        alignment: of_sectors(alignment % granularity),
        maximum: of_sectors(maximum),
    })
}

/// The mode of a SCSI disk in which the kernel sends it no discards.
fn provisioning_mode(sysfs: &Path) -> Option<ProvisioningMode> {
    // Of a partition, the directory of its disk is the one above.
    ["device/scsi_disk", "../device/scsi_disk"].iter().find_map(|disks| {
        let disk = fs::read_dir(sysfs.join(disks)).ok()?.next()?.ok()?;
        match fs::read_to_string(disk.path().join("provisioning_mode")).ok()?.trim() {
            "full" => Some(ProvisioningMode::Full),
            "disabled" => Some(ProvisioningMode::Disabled),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of a device with these attributes in sysfs.
    fn limits(attributes: &[(&str, &str)]) -> Result<DiscardLimits, NoDiscards> {
        let sysfs = tempfile::tempdir().expect("a directory");
        for (path, text) in attributes {
            let path = sysfs.path().join(path);
            fs::create_dir_all(path.parent().expect("inside")).expect("it is made");
            fs::write(path, format!("{text}\n")).expect("it is written");
        }
        let queue = |leaf: &str| {
            let text = fs::read_to_string(sysfs.path().join("queue").join(leaf)).ok()?;
            Some(text.trim().to_owned())
        };
        of_device(&queue, sysfs.path(), 512)
    }

    #[test]
    fn a_device_says_what_it_honours() {
        let attributes = [
            ("queue/discard_max_bytes", "4294966784"),
            ("queue/discard_granularity", "1048576"),
            ("discard_alignment", "524288"),
        ];
        assert_eq!(
            limits(&attributes),
            Ok(DiscardLimits {
                means: DiscardMeans::Unmap,
                granularity: 1 << 20,
                alignment: 1 << 19,
                maximum: 4_294_966_784
            })
        );
        // As old kernels write "unknown": nothing is divided by zero, and all are whole sectors.
        let attributes = [
            ("queue/discard_max_bytes", "1000000"),
            ("queue/discard_granularity", "0"),
            ("discard_alignment", "4294967295"),
        ];
        let limits = limits(&attributes).expect("it can");
        assert_eq!((limits.granularity, limits.alignment), (512, 0));
        assert_eq!(limits.maximum, 999_936);
    }

    #[test]
    fn a_device_says_why_it_honours_none() {
        let none = ("queue/discard_max_bytes", "0");
        assert_eq!(limits(&[]), Err(NoDiscards::Unsupported));
        assert_eq!(limits(&[none]), Err(NoDiscards::Unsupported));
        let could = ("queue/discard_max_hw_bytes", "1048576");
        assert_eq!(limits(&[none, could]), Err(NoDiscards::SwitchedOff));
        let mode = |word| ("device/scsi_disk/0:0:0:0/provisioning_mode", word);
        let full = Err(NoDiscards::NotThin(ProvisioningMode::Full));
        assert_eq!(limits(&[none, mode("full")]), full);
        assert_eq!(limits(&[none, mode("unmap")]), Err(NoDiscards::Unsupported));
    }

    #[test]
    fn a_file_gives_blocks_of_its_file_system_back() {
        assert_eq!(of_file(4096, 512).granularity, 4096);
        assert_eq!(of_file(0, 512).granularity, 4096);
        assert_eq!(of_file(64 << 20, 4096).granularity, 4096);
    }
}
