//! Disks whose reads take longer for as long as the test wants, and which can lose writes.
//!
//! A FUSE file system in its own process (`bin/plinth-slow.rs`) shows a file as a disk, and waits
//! before it answers a read. For the engine the disk is far away; how far can be changed while it
//! is used.

use crate::{beside_this_test, command};
use plinth_workload::lock;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

/// A disk that can be slow. Dropped, it is unmounted.
pub struct SlowDisk {
    path: PathBuf,
    /// The file below.
    data: PathBuf,
    mount: PathBuf,
    server: Child,
    /// Its standard input and output. The end of its input ends it.
    words: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl SlowDisk {
    /// A disk of `size` bytes named `name`; `link` is its path, `home` the directory of its parts.
    pub(crate) fn new(home: &Path, link: &Path, name: &str, size: u64) -> Self {
        let (data, mount) = (home.join(format!("{name}.data")), home.join(format!("{name}.d")));
        fs::File::create(&data).and_then(|file| file.set_len(size)).expect("disk file");
        fs::create_dir(&mount).expect("mount point");
        let mut command = Command::new(beside_this_test("plinth-slow"));
        command.arg(&mount).arg(&data).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("plinth-slow");
        let input = server.stdin.take().expect("piped");
        let mut output = BufReader::new(server.stdout.take().expect("piped"));
        let mut ready = String::new();
        let said = output.read_line(&mut ready);
        assert!(said.is_ok() && ready == "ready\n", "the slow disk did not come up");
        std::os::unix::fs::symlink(mount.join("disk"), link).expect("link to the disk");
        Self {
            path: link.to_owned(),
            data,
            mount,
            server,
            words: Mutex::new(Some((input, output))),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the disk, past its delays and losses.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// From now on every read takes that much longer.
    ///
    /// # Panics
    /// If the disk is gone.
    pub fn delay(&self, by: Duration) {
        self.say(&by.as_micros().to_string());
    }

    /// From now on writes to the 4 KiB at `offset` are acknowledged and lost.
    ///
    /// # Panics
    /// If the disk is gone.
    pub fn lose_writes_at(&self, offset: u64) {
        self.say(&format!("loses {offset}"));
    }

    fn say(&self, order: &str) {
        let mut words = lock(&self.words);
        let (input, output) = words.as_mut().expect("until it is dropped");
        writeln!(input, "{order}").and_then(|()| input.flush()).expect("the slow disk lives");
        let mut heard = String::new();
        let said = output.read_line(&mut heard);
        assert!(said.is_ok() && heard.trim() == order, "the slow disk says {heard:?}");
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        if let Ok(mut words) = self.words.lock() {
            words.take();
        }
        let _ = command::finish(Command::new("umount").arg("-l").arg(&self.mount));
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
