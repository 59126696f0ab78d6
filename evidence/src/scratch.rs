//! A file without a name: made in a directory for a measurement, and gone with its last descriptor.
//!
//! No signal, not even SIGKILL, and no crash of the host leaves anything of it: it never has a name
//! (O_TMPFILE), or, where the file system knows no such files, has one for a moment only.

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{fs::File, io, path::Path};

/// Names that are tried until one is free.
const NAMES: u32 = 1_000;

/// Opens one for reading and writing, with flags such as `O_DIRECT`.
///
/// # Errors
/// Those of the file system: EINVAL if it has no direct I/O.
pub fn open(directory: &Path, flags: OFlags) -> io::Result<File> {
    let nameless = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    match rustix::fs::open(directory, nameless, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // An old kernel takes it for the opening of a directory; others say what they lack.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::NOSYS) => {
            named_for_a_moment(directory, flags)
        }
        Err(error) => Err(error.into()),
    }
}

fn named_for_a_moment(directory: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    for number in 0..NAMES {
        let path = directory.join(format!(".plinth-load.{}.{number}", std::process::id()));
        let opened = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        if matches!(opened, Err(Errno::EXIST)) {
            continue;
        }
        // The file may be there although it could not be opened: EINVAL comes after its making.
        let removed = rustix::fs::unlink(&path);
        let file = opened?;
        removed?;
        return Ok(file.into());
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is full of files of earlier runs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn either_way_a_file_has_no_name_and_keeps_bytes() {
        let directory = tempfile::tempdir().expect("a directory");
        for way in [open, named_for_a_moment] {
            let files = [(); 2].map(|()| way(directory.path(), OFlags::empty()).expect("a file"));
            for (file, byte) in files.iter().zip([1, 2]) {
                file.write_all_at(&[byte; 100], 1_000).expect("written");
            }
            for (file, byte) in files.iter().zip([1, 2]) {
                let mut bytes = [0; 100];
                file.read_exact_at(&mut bytes, 1_000).expect("read");
                assert_eq!(bytes, [byte; 100]);
            }
            assert_eq!(std::fs::read_dir(directory.path()).expect("read").count(), 0);
        }
        assert!(open(&directory.path().join("none"), OFlags::empty()).is_err());
    }
}
