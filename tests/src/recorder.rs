//! Disks that record, in one order for all of them, their writes and flushes.
//!
//! A FUSE file system (`bin/plinth-recorder.rs`, a process of its own) shows each disk as a file.
//! The engine opens, locks, reads and writes these files as any others. Every write, discard and
//! flush is recorded when it ends, with the point of the recording at which it was submitted: from
//! that alone follows what each disk may hold if all of them lose power at once (`replay.rs`).
//! Between them stand the marks of the writers: "number 17 of mine was acknowledged".
//!
//! One behaviour of real disks cannot be seen through a file: the kernel holds a flush back until
//! the writes to the same file that are in flight have ended. Flushes that overtake writes are left
//! to the disks in memory of the stories.

use crate::{Image, beside_this_test};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
};

/// The file beside the disks that takes marks, and tells the length of the recording.
pub const MARKS: &str = "marks";

/// A write, discard or flush of a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Io {
    Write { offset: u64, bytes: Arc<[u8]> },
    Discard { offset: u64, length: u64 },
    Flush,
}

/// A line of the recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An I/O that ended; when it was submitted the recording had `began` lines.
    Io { disk: usize, began: usize, io: Io },
    /// The writer `stream` was told that its work up to `number` is durable.
    Mark { stream: usize, number: u64 },
}

/// The contents of the disks at first, and everything that has happened since.
#[derive(Clone)]
pub struct Recording {
    pub names: Vec<String>,
    pub base: Vec<Image>,
    pub events: Vec<Event>,
}

/// The file system. Dropped, it is unmounted.
pub struct Recorder {
    base: Vec<(String, Image)>,
    home: tempfile::TempDir,
    marks: File,
    server: Child,
    /// Its end ends the server.
    life: Option<ChildStdin>,
}

impl Recorder {
    /// Shows `disks` as files.
    ///
    /// # Panics
    /// If FUSE does not work here.
    #[must_use]
    pub fn new(disks: Vec<(String, Image)>) -> Self {
        crate::need_root();
        let home =
            tempfile::Builder::new().prefix("plinth-recorder.").tempdir().expect("a directory");
        let mount = home.path().join("disks");
        fs::create_dir(&mount).expect("mount point");
        let mut command = Command::new(beside_this_test("plinth-recorder"));
        command.arg(&mount).arg(home.path().join("log"));
        for (name, image) in &disks {
            let path = home.path().join(name);
            image.save(&path).expect("a disk's content");
            command.arg(format!("{name}={}", path.display()));
        }
        let mut server =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("plinth-recorder");
        let life = server.stdin.take();
        let mut ready = String::new();
        let said = BufReader::new(server.stdout.take().expect("piped")).read_line(&mut ready);
        assert!(said.is_ok() && ready == "ready\n", "the recorder did not come up");
        let marks = File::options().read(true).write(true).open(mount.join(MARKS)).expect("marks");
        Self { base: disks, home, marks, server, life }
    }

    /// The path of a disk.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("disks").join(name)
    }

    /// Notes that the writer `stream` was told that its work up to `number` is durable.
    ///
    /// # Panics
    /// If the recorder is gone.
    pub fn mark(&self, stream: usize, number: u64) {
        self.marks
            .write_all_at(format!("{stream} {number}").as_bytes(), 0)
            .expect("the recorder lives");
    }

    /// How long the recording is by now.
    ///
    /// # Panics
    /// If the recorder is gone.
    #[must_use]
    pub fn length(&self) -> usize {
        let mut text = [0; 20];
        let length = self.marks.read_at(&mut text, 0).expect("the recorder lives");
        String::from_utf8_lossy(&text[..length]).parse().expect("a number")
    }

    /// All that was recorded so far.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn recording(&self) -> Recording {
        let length = self.length();
        let mut log = BufReader::new(File::open(self.home.path().join("log")).expect("the log"));
        let events = (0..length).map(|_| Event::take(&mut log).expect("the log")).collect();
        let (names, base) = self.base.iter().cloned().unzip();
        Recording { names, base, events }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.life.take());
        let _ = self.server.wait();
    }
}

impl Event {
    /// Writes it to a log.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub fn put(&self, log: &mut impl Write) -> io::Result<()> {
        let (kind, words, bytes): (u8, [u64; 4], &[u8]) = match self {
            Self::Mark { stream, number } => (0, [*stream as u64, *number, 0, 0], &[]),
            Self::Io { disk, began, io } => {
                let (disk, began) = (*disk as u64, *began as u64);
                match io {
                    Io::Flush => (1, [disk, began, 0, 0], &[]),
                    Io::Discard { offset, length } => (2, [disk, began, *offset, *length], &[]),
                    Io::Write { offset, bytes } => {
                        (3, [disk, began, *offset, bytes.len() as u64], bytes)
                    }
                }
            }
        };
        log.write_all(&[kind])?;
        words.iter().try_for_each(|word| log.write_all(&word.to_le_bytes()))?;
        log.write_all(bytes)
    }

    /// Reads one from a log.
    fn take(log: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; 33];
        log.read_exact(&mut head)?;
        let word = |index: usize| {
            u64::from_le_bytes(head[1 + index * 8..][..8].try_into().expect("8 bytes"))
        };
        let size = |word: u64| usize::try_from(word).map_err(io::Error::other);
        let (disk, began, offset) = (size(word(0))?, size(word(1))?, word(2));
        let io = match head[0] {
            0 => return Ok(Self::Mark { stream: disk, number: word(1) }),
            1 => Io::Flush,
            2 => Io::Discard { offset, length: word(3) },
            _ => {
                let mut bytes = vec![0; size(word(3))?];
                log.read_exact(&mut bytes)?;
                Io::Write { offset, bytes: bytes.into() }
            }
        };
        Ok(Self::Io { disk, began, io })
    }
}

impl Recording {
    /// The events, in words: for people who look into a failure.
    #[must_use]
    pub fn describe(&self) -> String {
        let line = |(number, event): (usize, &Event)| match event {
            Event::Io { disk, began, io } => {
                let io = match io {
                    Io::Write { offset, bytes } => format!("write {offset} +{}", bytes.len()),
                    Io::Discard { offset, length } => format!("discard {offset} +{length}"),
                    Io::Flush => "flush".into(),
                };
                format!("{number}: {} {io} (submitted at {began})\n", self.names[*disk])
            }
            Event::Mark { stream, number: acknowledged } => {
                format!("{number}: stream {stream} acknowledged {acknowledged}\n")
            }
        };
        self.events.iter().enumerate().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let events = [
            Event::Mark { stream: 3, number: u64::MAX },
            Event::Io {
                disk: 1,
                began: 7,
                io: Io::Write { offset: 1 << 40, bytes: vec![5; 700].into() },
            },
            Event::Io { disk: 0, began: 0, io: Io::Flush },
            Event::Io { disk: 2, began: 9, io: Io::Discard { offset: 4096, length: 1 << 33 } },
        ];
        let mut log = Vec::new();
        events.iter().for_each(|event| event.put(&mut log).expect("memory"));
        let mut log = &log[..];
        assert!(events.iter().all(|event| Event::take(&mut log).is_ok_and(|read| read == *event)));
        assert!(log.is_empty());
    }
}
