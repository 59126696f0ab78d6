//! A small file system that the space of sparse disks comes from, as from a thin pool: it can be
//! full, and have room again.

use crate::{need_root, shell};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

/// An ext4 file system in a file, mounted.
pub struct Pool {
    image: PathBuf,
    mount: PathBuf,
}

impl Pool {
    /// A file system of `size` bytes, mounted at `mount`.
    pub(crate) fn new(image: PathBuf, mount: PathBuf, size: u64) -> Self {
        need_root();
        fs::create_dir(&mount).expect("mount point");
        fs::File::create(&image).and_then(|file| file.set_len(size)).expect("file system's file");
        let pool = Self { image, mount };
        // No blocks are kept for root.
        shell(r#"mkfs.ext4 -q -m 0 "$1" && mount -o loop "$1" "$2""#)
            .arg(&pool.image)
            .arg(&pool.mount)
            .ok();
        pool
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mount
    }

    fn filler(&self) -> PathBuf {
        self.mount.join("filler")
    }

    /// Takes all the room that is left.
    ///
    /// # Panics
    /// If something else than the lack of room ends it.
    pub fn fill(&self) {
        let mut file = fs::File::create(self.filler()).expect("it holds one more file");
        for length in [1 << 20, 4096] {
            let bytes = vec![1; length];
            let error = loop {
                if let Err(error) = file.write_all(&bytes) {
                    break error;
                }
            };
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
        }
        file.sync_all().expect("what was taken stays taken");
    }

    /// Makes room again.
    ///
    /// # Panics
    /// If [`Self::fill`] was not called before.
    pub fn make_room(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = shell(r#"umount -l "$1""#).arg(&self.mount).finish();
        let _ = fs::remove_file(&self.image);
    }
}
