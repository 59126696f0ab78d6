//! A fresh system for packages: a small Debian of its own, booted with systemd.
//!
//!   1. `debootstrap` makes the base once and keeps it beside the build: it takes minutes and needs
//!      Debian's archive. It is the release of this host, so that a program built here runs there.
//!      The packages that tests install in it are fetched at the same time, into apt's own cache: a
//!      fresh system has no network, and `apt install` works as if it had.
//!   2. Each test gets an overlay of the base: changes are its own and are gone with it.
//!   3. `systemd-nspawn` boots it, with `/dev/fuse` and its own network.
//!   4. Programs enter it by the namespaces of its first process.
//!
//! Dropped, the first process is killed, and the kernel ends all others with it; then the overlay
//! is unmounted and removed.

use crate::{Finished, Shell, beside_this_test, need_root, shell, wait_for};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// How long the base may take to be made.
const BASE: Duration = Duration::from_secs(1200);
/// The exit status of a `systemd-nspawn` whose system boots again.
const REBOOTS: i32 = 133;
/// Packages that can be installed: those that ours recommends, and a database.
const CACHED: &str = "logrotate postgresql-client udev postgresql";

/// A booted system.
pub struct FreshRoot {
    home: tempfile::TempDir,
    nspawn: Option<Child>,
    /// Its first process, as this host numbers it.
    leader: u32,
    /// Options of `systemd-nspawn` for devices of this host.
    devices: Vec<String>,
}

/// The base, made if it is not there.
fn base() -> PathBuf {
    let target = beside_this_test("plinth").ancestors().nth(2).expect("target/debug").to_owned();
    let base = target.join("package-root");
    // Tests that need it at the same time make it once.
    let script = r#"
        exec 9> "$1.lock"; flock 9
        [ "$(cat "$1/root/cached" 2>/dev/null)" != "$2" ] || exit 0
        . /etc/os-release
        rm -rf --one-file-system "$1" "$1.new"
        debootstrap --variant=minbase --include=systemd,systemd-sysv,procps \
            "$VERSION_CODENAME" "$1.new" \
            || { tail -5 "$1.new/debootstrap/debootstrap.log"; exit 1; }
        rm -rf "$1.new"/var/cache/apt/archives/*.deb
        cp /etc/resolv.conf "$1.new/etc/resolv.conf"
        root=$1.new
        apt() { DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get -q -y "$@"; }
        apt update
        apt install --download-only $2
        echo "$2" > "$1.new/root/cached"
        mv "$1.new" "$1"
    "#;
    shell(script).arg(&base).arg(CACHED).finish_within(BASE).ok();
    base
}

impl FreshRoot {
    /// Boots one.
    ///
    /// # Panics
    /// If the base cannot be made, or does not boot.
    #[must_use]
    pub fn boot() -> Self {
        Self::boot_with(&[])
    }

    /// Boots one with devices of this host, each with its path inside.
    ///
    /// # Panics
    /// If the base cannot be made, or does not boot.
    #[must_use]
    pub fn boot_with(devices: &[(&Path, &str)]) -> Self {
        need_root();
        let base = base();
        let home = tempfile::Builder::new().prefix("plinth-root.").tempdir().expect("a directory");
        for name in ["upper", "work", "root"] {
            fs::create_dir(home.path().join(name)).expect("own directory");
        }
        let script = r#"
            mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
        "#;
        let devices =
            devices.iter().map(|(path, name)| format!("--bind={}:{name}", path.display()));
        let devices = devices.collect();
        let mut system = Self { home, nspawn: None, leader: 0, devices };
        shell(script).arg(&base).arg(system.home.path()).ok();
        system.start();
        system
    }

    /// Boots it again, as an operator would. All processes end, and `/run` is empty.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn reboot(&mut self) {
        self.run("systemctl reboot");
        let mut ended = None;
        wait_for("the fresh system to shut down", || {
            let nspawn = self.nspawn.as_mut().expect("it runs");
            ended = nspawn.try_wait().expect("a child");
            ended.is_some()
        });
        self.leader = 0;
        // With --keep-unit systemd-nspawn has its caller start it again.
        assert_eq!(ended.and_then(|ended| ended.code()), Some(REBOOTS), "{}", self.log());
        self.start();
    }

    /// The text of its console.
    fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("boot.log")).unwrap_or_default()
    }

    fn start(&mut self) {
        let log = self.home.path().join("boot.log");
        let log = fs::File::options().create(true).append(true).open(log).expect("a log");
        let nspawn = Command::new("systemd-nspawn")
            .args(["--quiet", "--register=no", "--keep-unit", "--private-network", "--boot"])
            .args(["--bind=/dev/fuse", "--capability=all", "--console=pipe", "--resolv-conf=off"])
            .args(&self.devices)
            .arg(format!("--machine={}", self.name()))
            .arg("--directory")
            .arg(self.root())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn();
        let nspawn = nspawn.expect("systemd-nspawn; ./test installs it");
        let pid = nspawn.id();
        self.nspawn = Some(nspawn);
        wait_for("the fresh system to boot", || {
            let ended = self.nspawn.as_mut().expect("just started").try_wait();
            assert!(matches!(ended, Ok(None)), "it ended: {}", self.log());
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            let first = children.ok().and_then(|text| text.split(' ').next()?.parse().ok());
            self.leader = first.unwrap_or_default();
            // It ends with 1 if a unit of the base failed, which does not matter here.
            self.leader != 0
                && ["running", "degraded"].contains(
                    &self.enter("systemctl is-system-running || true").finish().out.trim(),
                )
        });
    }

    fn name(&self) -> String {
        let name = self.home.path().file_name().expect("a name").to_string_lossy();
        name.replace('.', "-")
    }

    /// Its files, as this host sees them.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    /// Copies a file into its `/root`.
    ///
    /// # Panics
    /// If that fails.
    pub fn give(&self, file: &Path) {
        let name = file.file_name().expect("a file has a name");
        fs::copy(file, self.root().join("root").join(name)).expect("a copy");
    }

    /// A script, to be run inside.
    #[must_use]
    pub fn enter(&self, script: &str) -> Shell {
        let enter = r#"exec nsenter --target "$1" --mount --uts --ipc --net --pid \
            env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 bash -euo pipefail -c "$2""#;
        shell(enter).arg(self.leader.to_string()).arg(script)
    }

    /// Runs a script inside, and returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn run(&self, script: &str) -> String {
        self.enter(script).ok()
    }

    /// Runs a script inside that may fail.
    #[must_use]
    pub fn attempt(&self, script: &str) -> Finished {
        self.enter(script).finish()
    }
}

impl Drop for FreshRoot {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.leader).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        if let Some(mut nspawn) = self.nspawn.take() {
            if self.leader == 0 {
                let _ = nspawn.kill();
            }
            let _ = nspawn.wait();
        }
        let script = r#"
            umount -R "$1/root" || umount -lR "$1/root"
            rmdir "/run/systemd/nspawn/propagate/$2" 2>/dev/null || true
            rmdir "/run/systemd/nspawn/unix-export/$2" 2>/dev/null || true
        "#;
        let ended = shell(script).arg(self.home.path()).arg(self.name()).finish();
        if ended.code != Some(0) {
            eprintln!("{ended}");
        }
    }
}
