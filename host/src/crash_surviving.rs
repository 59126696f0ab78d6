//! Words that survive an engine's process: a small file, written and never synced.
//!
//! The kernel has a write to a file at once, and the next process that opens the file reads it,
//! whatever ended this process. Whether and when it reaches a disk does not matter: after a boot
//! the words are not used. A word is written by one call of eight bytes in one page, so it is there
//! whole or not at all.

use plinth_engine::world::SurvivingWords;
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

const WORD: usize = size_of::<u64>();

/// See the module's description.
pub(super) struct WordsFile {
    file: File,
    words: usize,
}

impl WordsFile {
    /// The words of a file, which is made if it is not there.
    pub fn open(path: &Path, words: usize) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW);
        Ok(Self { file: options.open(path)?, words })
    }
}

impl SurvivingWords for WordsFile {
    /// Words behind the end of the file were never stored.
    fn words(&self) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; self.words * WORD];
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }

    fn store(&self, at: usize, word: u64) -> io::Result<()> {
        if at >= self.words {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.file.write_all_at(&word.to_ne_bytes(), (at * WORD) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_reads_the_stored_words() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("words");
        let one = WordsFile::open(&path, 100).expect("it is made");
        assert_eq!(one.words().expect("read"), vec![0; 100]);
        one.store(99, u64::MAX).expect("stored");
        one.store(3, 7).expect("stored");
        assert!(one.store(100, 1).is_err());
        let next = WordsFile::open(&path, 100).expect("it is there");
        let mut expected = vec![0; 100];
        (expected[3], expected[99]) = (7, u64::MAX);
        assert_eq!(next.words().expect("read"), expected);
        // Asked for fewer or more, it has them.
        assert_eq!(
            WordsFile::open(&path, 4).and_then(|kept| kept.words()).expect("read"),
            [0, 0, 0, 7]
        );
        assert_eq!(
            WordsFile::open(&path, 200).and_then(|kept| kept.words()).expect("read")[100..],
            [0; 100]
        );
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let (target, link) = (directory.path().join("target"), directory.path().join("words"));
        std::fs::write(&target, "somebody's").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        assert!(WordsFile::open(&link, 10).is_err());
        assert_eq!(std::fs::read(&target).expect("read"), b"somebody's");
    }
}
