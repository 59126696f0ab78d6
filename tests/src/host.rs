//! A private host: mounts that other processes do not have, and its own boot id.
//!
//! A mount of a group treats unfinished writes differently if the host has booted since
//! (`/proc/sys/kernel/random/boot_id`). A test that cuts the power of recorded disks must therefore
//! show the engine another boot id. A thread can have its own mounts, which the programs that it
//! starts inherit; in them a file of the test lies over the kernel's. The mounts vanish with the
//! last process that has them.
#![allow(unsafe_code)]

use rustix::{
    mount::{MountFlags, MountPropagationFlags, UnmountFlags},
    thread::UnshareFlags,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// The host, for the thread that runs in it.
pub struct Host {
    boot: tempfile::NamedTempFile,
    /// Only for the thread and those started in it.
    _here: std::marker::PhantomData<*const ()>,
}

impl Host {
    /// Runs `work` on a thread with its own mounts. Threads and programs that it starts are on the
    /// same host.
    ///
    /// # Panics
    /// As `work` does, or if this is not root.
    pub fn run<T: Send>(work: impl FnOnce(&Self) -> T + Send) -> T {
        crate::need_root();
        thread::scope(|scope| {
            let host = scope.spawn(|| {
                // SAFETY: the table of file descriptors stays shared.
                unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
                    .expect("mounts of one's own");
                rustix::mount::mount_change(
                    "/",
                    MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
                )
                .expect("private mounts");
                let host = Self {
                    boot: tempfile::NamedTempFile::new().expect("a file"),
                    _here: std::marker::PhantomData,
                };
                host.boot();
                rustix::mount::mount_bind(host.boot.path(), "/proc/sys/kernel/random/boot_id")
                    .expect("a bind mount");
                work(&host)
            });
            host.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The host boots anew: the id of the new boot.
    pub fn boot(&self) -> String {
        static BOOTS: AtomicU64 = AtomicU64::new(1);
        let number = BOOTS.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id());
        self.boot_is(&id);
        id
    }

    /// The host is in the given boot from now on.
    ///
    /// # Panics
    /// If a small file cannot be written.
    pub fn boot_is(&self, id: &str) {
        fs::write(self.boot.path(), format!("{id}\n")).expect("the boot's id");
    }
}

/// A directory in memory. Dropped, it is gone, although programs may have files in it open.
pub struct Memory(PathBuf);

impl Memory {
    /// Mounts one on a directory.
    ///
    /// # Panics
    /// If the kernel refuses.
    #[must_use]
    pub fn mount(on: &Path) -> Self {
        rustix::mount::mount("memory", on, "tmpfs", MountFlags::empty(), None).expect("a tmpfs");
        Self(on.to_owned())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}
