//! Notes that outlive the host's memory: small files, replaced whole (written beside, synced,
//! renamed).

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// More than any note has: a thousand disks with long names.
const SIZE_MAX: u64 = 4 << 20;

fn at(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

pub(super) fn recall(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Ok(found) if found.len() > SIZE_MAX => Err(at(path)(io::ErrorKind::FileTooLarge.into())),
        Ok(_) => fs::read_to_string(path).map(Some).map_err(at(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

pub(super) fn memorise(path: &Path, text: &str) -> io::Result<()> {
    let sync_directory = || match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    };
    if text.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| sync_directory()).map_err(at(path)),
        };
    }
    let beside = path.with_added_extension("new");
    // A file that a crash left there is not used, and no link is followed.
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&beside)
        .map_err(at(&beside))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(at(&beside))?;
    fs::rename(&beside, path).and_then(|()| sync_directory()).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_note_is_recalled_and_an_empty_one_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disks.1");
        assert_eq!(recall(&path).expect("none"), None);
        memorise(&path, "").expect("none is none");
        memorise(&path, "one\n").expect("stored");
        memorise(&path, "two\n").expect("stored");
        assert_eq!(recall(&path).expect("read").as_deref(), Some("two\n"));
        assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 1);
        memorise(&path, "").expect("removed");
        assert_eq!(recall(&path).expect("none"), None);
        memorise(&directory.path().join("no/such"), "x").expect_err("there is no directory");
    }
}
