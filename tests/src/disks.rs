//! Disks that fail, and disks with sectors of a chosen size.
//!
//! A fault disk is a file served by nbdkit and shown as a file again by nbdfuse. Its I/O fails
//! while a certain other file exists (nbdkit's error filter), and hangs while nbdkit is stopped.
//! Nothing of it is simulated: the engine gets `EIO`, or no answer, from a disk that it opened. An
//! I/O that hangs stays in the kernel although its process was killed, as with a real disk.

use crate::{command, wait_for};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A file that can fail.
pub struct FaultDisk {
    /// The path of the disk.
    path: PathBuf,
    /// The file below, which never fails.
    data: PathBuf,
    /// I/O fails while this exists.
    switch: PathBuf,
    mount: PathBuf,
    server: Child,
    front: Child,
}

impl FaultDisk {
    /// A disk of `size` bytes named `name`; `link` is its path, `home` the directory of its parts.
    pub(crate) fn new(home: &Path, link: &Path, name: &str, size: u64) -> Self {
        let part = |suffix: &str| home.join(format!("{name}.{suffix}"));
        let (data, switch, socket, mount) = (part("data"), part("fail"), part("sock"), part("d"));
        let file = fs::File::create(&data).expect("disk file");
        file.set_len(size).expect("disk file's size");
        fs::create_dir(&mount).expect("mount point");
        let quiet = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap_or_else(|error| {
                panic!("{command:?}: {error}; Debian's packages nbdkit and libnbd-bin have it, ./test installs them")
            })
        };
        let server = quiet(
            Command::new("nbdkit")
                .args(["--foreground", "--threads=16", "--filter=error", "-U"])
                .arg(&socket)
                .args(["file", &format!("file={}", data.display())])
                .args([
                    "error=EIO",
                    "error-rate=100%",
                    &format!("error-file={}", switch.display()),
                ]),
        );
        wait_for("nbdkit's socket", || socket.exists());
        let seen = mount.join("disk");
        let front = quiet(
            Command::new("nbdfuse")
                .arg(&seen)
                .arg(format!("nbd+unix:///?socket={}", socket.display())),
        );
        wait_for("nbdfuse's file", || seen.exists());
        std::os::unix::fs::symlink(&seen, link).expect("link to the disk");
        Self { path: link.to_owned(), data, switch, mount, server, front }
    }

    /// A disk of no instance, with all of its parts in `home`.
    #[must_use]
    pub fn alone(home: &Path, name: &str, size: u64) -> Self {
        Self::new(home, &home.join(name), name, size)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the disk, past its faults.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// From now on every I/O fails.
    pub fn fail(&self) {
        fs::write(&self.switch, "").expect("error switch");
    }

    /// From now on every I/O hangs, including those in flight.
    pub fn hang(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// I/O works again; hung I/O goes on.
    pub fn heal(&self) {
        let _ = fs::remove_file(&self.switch);
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let _ =
            rustix::process::kill_process(rustix::process::Pid::from_child(&self.server), signal);
    }
}

impl Drop for FaultDisk {
    fn drop(&mut self) {
        self.heal();
        let _ = command::finish(Command::new("fusermount3").arg("-uz").arg(&self.mount));
        for child in [&mut self.front, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A loop device over a file.
pub struct LoopDisk {
    /// `None` while it is detached.
    device: Option<PathBuf>,
    file: PathBuf,
    sector: u32,
}

impl LoopDisk {
    /// A block device of `size` bytes with sectors of 512 or 4096 bytes over a new file.
    ///
    /// # Panics
    /// If the kernel gives none.
    #[must_use]
    pub fn new(file: &Path, size: u64, sector: u32) -> Self {
        crate::need_root();
        fs::File::create(file)
            .and_then(|file| file.set_len(size))
            .expect("file under a loop device");
        let mut disk = Self { device: None, file: file.to_owned(), sector };
        disk.attach();
        disk
    }

    /// A block device over a disk that can fail: its I/O fails with the disk's.
    ///
    /// # Panics
    /// If the kernel gives none.
    #[must_use]
    pub fn over(disk: &FaultDisk) -> Self {
        crate::need_root();
        let file = fs::canonicalize(disk.path()).expect("the disk is there");
        let mut disk = Self { device: None, file, sector: 512 };
        disk.attach();
        disk
    }

    /// Attaches the file to a device that is free now.
    ///
    /// # Panics
    /// If the kernel gives none.
    pub fn attach(&mut self) {
        let mut command = Command::new("losetup");
        command
            .args(["--find", "--show", "--direct-io=on", "--sector-size", &self.sector.to_string()])
            .arg(&self.file);
        let device = command::finish(&mut command).ok();
        // An earlier user of that device may have made it read-only, and that stays.
        command::finish(Command::new("blockdev").args(["--setrw", device.trim()])).ok();
        self.device = Some(PathBuf::from(device.trim()));
    }

    /// Detaches the device: another file may get it.
    ///
    /// # Panics
    /// If it is in use.
    pub fn detach(&mut self) {
        if let Some(device) = self.device.take() {
            command::finish(Command::new("losetup").arg("--detach").arg(device)).ok();
        }
    }

    /// The device.
    ///
    /// # Panics
    /// While it is detached.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.device.as_deref().expect("it is attached")
    }

    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            let _ = command::finish(Command::new("losetup").arg("--detach").arg(device));
        }
        let _ = fs::remove_file(&self.file);
    }
}
