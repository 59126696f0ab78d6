//! What the library has no maker for, and what it does not know of the kernel.
#![allow(unsafe_code)]

use fuse_backend_rs::{abi::fuse_abi::statvfs64, api::filesystem::OpenOptions};
use std::sync::LazyLock;

/// Linux has `FUSE_DIRECT_IO_ALLOW_MMAP` since then.
const MAPS_DIRECT_FILES: (u32, u32) = (6, 6);

/// Writes through this open may run side by side.
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// Whether the kernel lets programs share a mapping of a file that [`direct_open`] opens.
///
/// It says so when it makes a mount, but not to a successor that takes the mount over, so its version is asked.
pub(crate) fn direct_files_can_be_mapped() -> bool {
    static ANSWER: LazyLock<bool> = LazyLock::new(|| {
        let release = rustix::system::uname();
        version(&release.release().to_string_lossy()).is_some_and(|version| version >= MAPS_DIRECT_FILES)
    });
    *ANSWER
}

/// The first two numbers of a release such as `6.12.41+deb13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// How the kernel moves data past the page cache: straight to us, several writes at a time.
pub(crate) fn direct_open() -> OpenOptions {
    let bits = OpenOptions::DIRECT_IO.bits() | OpenOptions::KEEP_CACHE.bits() | PARALLEL_DIRECT_WRITES;
    // SAFETY: any bits are a valid value of a type that is a `u32`; the library passes them on as they are.
    unsafe { OpenOptions::from_bits_unchecked(bits) }
}

/// A zeroed answer to `statfs`: the type has no other maker.
pub(crate) fn no_space() -> statvfs64 {
    // SAFETY: it is plain old data, for which all zeroes is a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_begins_with_its_version() {
        assert_eq!(version("6.6.0"), Some((6, 6)));
        assert_eq!(version("6.12.41+deb13-amd64"), Some((6, 12)));
        assert_eq!(version("5.14.0-503.el9"), Some((5, 14)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        for unknown in ["", "linux", "6", "6.x", "99999999999.1"] {
            assert_eq!(version(unknown), None, "{unknown}");
        }
    }
}
