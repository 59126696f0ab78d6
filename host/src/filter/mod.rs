//! The write filter: the device nodes of members cannot be opened for writing, not by root either,
//! but by the engine that claims the disk.
//!
//! A program in the kernel is asked at every open of a device node (`program.rs`). It is attached
//! to the root of the cgroup 2 hierarchy, so it is asked for every process of the host. It can
//! only forbid: an open that other programs there forbid (of the service manager, of containers)
//! stays forbidden.
//!
//! ```text
//!   Filter::load         finds the hierarchy, attaches the program once, pins it and its maps
//!   protect, release     a member's nodes, all of them (nodes.rs)
//!   claim                the engine's own open, for one process and a short time
//!   writers              programs that had the device open before (writers.rs)
//!   refusals             which process, program and user was refused, and when
//! ```
//!
//! The program and its maps have names in a bpf file system, and need no process: protection goes
//! on when the engine and the instance have died. The names have the version of the maps' layout,
//! so that another version of this program finds maps that it can read, or none.
//!
//! A device number may be given to another device. So each member is noted with the kernel's
//! sequence number of its device ([`nodes`]); [`Filter::forget_gone`] releases those that have
//! another one now.
//!
//! Limits: a descriptor that is open already goes on; a file under a loop device, and a disk that
//! is a regular file, are not device nodes; commands that are sent through a descriptor for reading
//! by a process with the right to raw I/O (`SG_IO`) are not opens for writing.

mod bpf;
mod events;
mod nodes;
mod program;
mod writers;

pub use events::DeviceEvents;
pub use nodes::Node;
pub use writers::Writer;

use crate::disk::Medium;
use program::{
    KEY, MEMBER, MEMBER_OWNER, MEMBER_REFUSED, MEMBER_SEQUENCE, Maps, REFUSAL, REFUSAL_NODE,
    REFUSAL_NUMBER, REFUSAL_PROCESS, REFUSAL_PROGRAM, REFUSAL_TIME, REFUSAL_USER, REFUSALS,
};
use rustix::{
    fs::{Mode, OFlags},
    mount::MountFlags,
    time::{ClockId, clock_gettime},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// The version of the maps' layout.
const VERSION: u32 = 1;
const LINK_PIN: &str = "link";
const SYSFS: &str = "/sys";
/// Where the kernel's bpf file system belongs.
const BPF_FILE_SYSTEM: &str = "/sys/fs/bpf";
/// `BPF_FS_MAGIC` and `CGROUP2_SUPER_MAGIC` of linux/magic.h.
const BPF_MAGIC: u64 = 0xcafe_4a11;
const CGROUP2_MAGIC: u64 = 0x6367_7270;
/// Where the cgroup 2 hierarchy is, on hosts that have it alone or beside the older ones.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Inodes of the first namespaces in /proc/self/ns: `PROC_PID_INIT_INO` of the kernel.
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;
/// How long a claim allows an open.
const CLAIM: Duration = Duration::from_secs(30);

/// Why the filter cannot be loaded, as a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct NotLoaded {
    pub reason: String,
    /// The way to one that can be loaded.
    pub remedy: &'static str,
}

/// A member that is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub device: Node,
    /// All of its nodes, its own first.
    pub nodes: Vec<Node>,
    /// Opens that were refused.
    pub refused: u64,
}

/// An open that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Counts from 1.
    pub number: u64,
    /// Before now.
    pub ago: Duration,
    /// `None` if the kernel does not tell it.
    pub process: Option<u32>,
    pub user: u32,
    /// Empty if the kernel does not tell it.
    pub program: String,
    pub node: Node,
}

/// The filter of this host.
pub struct Filter {
    maps: Maps,
}

/// While it lives, this process may open the device for writing.
pub(super) struct Claim {
    filter: Filter,
    /// For this process, and for kernels that do not tell the process.
    keys: [[u8; KEY]; 2],
}

impl Drop for Claim {
    fn drop(&mut self) {
        for key in &self.keys {
            // If this fails, the claim ends by itself.
            let _ = self.filter.maps.claims.remove(key);
        }
    }
}

/// Lets this process open a device for writing, if a filter protects it.
pub(super) fn claim(medium: Medium) -> Option<Claim> {
    let Medium::Block { major, minor } = medium else { return None };
    Filter::loaded().ok().flatten()?.claim(Node::block(major, minor))
}

/// Whether a filter protects the device at a path.
#[must_use]
pub fn protects(path: &str) -> bool {
    let (Some(node), Ok(Some(filter))) = (Node::at(path), Filter::loaded()) else { return false };
    filter.maps.members.get(&key(node, 0)).is_ok_and(|found| found.is_some())
}

/// Where the filter and its maps have their names; with `PLINTH_FILTER_DIR` elsewhere, in another
/// bpf file system, beside the host's own.
fn directory() -> PathBuf {
    let root = std::env::var_os("PLINTH_FILTER_DIR").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(BPF_FILE_SYSTEM).join("plinth"));
    root.join(format!("filter-{VERSION}"))
}

impl Filter {
    /// The filter, if it is loaded.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn loaded() -> io::Result<Option<Self>> {
        Self::loaded_at(&directory())
    }

    fn loaded_at(directory: &Path) -> io::Result<Option<Self>> {
        match bpf::pinned(&directory.join(LINK_PIN)) {
            Ok(_) => Ok(Some(Self { maps: Maps::pinned(directory)? })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // A directory that is in no bpf file system.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Loads the filter; one that is there gets this program's instructions, and keeps its members.
    ///
    /// # Errors
    /// With the reason, if this host cannot have one.
    pub fn load() -> Result<Self, NotLoaded> {
        Self::load_at(&directory())
    }

    fn load_at(directory: &Path) -> Result<Self, NotLoaded> {
        let fails = |what: &str, remedy| {
            let what = what.to_owned();
            move |error: io::Error| NotLoaded { reason: format!("{what}: {error}"), remedy }
        };
        let namespace =
            fs::metadata("/proc/self/ns/pid").map_err(fails("/proc/self/ns/pid", ON_THE_HOST))?;
        if namespace.ino() != FIRST_PID_NAMESPACE {
            let reason =
                "this process is in a container: the host's cgroups are not its own".into();
            return Err(NotLoaded { reason, remedy: ON_THE_HOST });
        }
        bpf_file_system(directory).map_err(fails("a bpf file system", AS_ROOT))?;
        fs::create_dir_all(directory).map_err(fails(&directory.display().to_string(), AS_ROOT))?;
        let maps = Maps::pinned_or_new(directory).map_err(fails("maps of the kernel", AS_ROOT))?;
        let program = maps.load().map_err(fails("the kernel refuses the filter", NEWER_KERNEL))?;
        let link = directory.join(LINK_PIN);
        match bpf::pinned(&link) {
            Ok(old) => bpf::replace(old.as_fd(), program.as_fd())
                .map_err(fails("the filter cannot be replaced", AS_ROOT))?,
            Err(_) => {
                let root = root_cgroup()?;
                let attached = bpf::attach(program.as_fd(), root.as_fd())
                    .map_err(fails("the filter cannot be attached to the root cgroup", AS_ROOT))?;
                bpf::pin(attached.as_fd(), &link)
                    .map_err(fails(&link.display().to_string(), AS_ROOT))?;
            }
        }
        Ok(Self { maps })
    }

    /// Takes the filter away, with its maps, and those of other versions. Without one there is
    /// nothing to do.
    ///
    /// # Errors
    /// If a name cannot be removed.
    pub fn unload() -> io::Result<()> {
        Self::unload_others()?;
        Self::unload_at(&directory())
    }

    /// Takes filters of other versions away: they would refuse the claims that are noted in this
    /// one. Until then members are protected by both, so this one is to know them first.
    ///
    /// # Errors
    /// If a name cannot be removed.
    pub fn unload_others() -> io::Result<()> {
        Self::unload_beside(&directory())
    }

    fn unload_beside(directory: &Path) -> io::Result<()> {
        let beside = directory.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
        let is_other = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            path != directory && name.starts_with(b"filter-")
        };
        let mut others = beside.map(|entry| entry.path()).filter(is_other);
        others.try_for_each(|other| Self::unload_at(&other))
    }

    fn unload_at(directory: &Path) -> io::Result<()> {
        // Without its name a link goes soon; this one goes now.
        if let Ok(link) = bpf::pinned(&directory.join(LINK_PIN)) {
            bpf::detach(link.as_fd())?;
        }
        let rest = fs::read_dir(directory).into_iter().flatten().flatten();
        for path in rest.map(|entry| entry.path()) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // They may be in use by another version, or never have been there.
        let _ = fs::remove_dir(directory);
        let _ = directory.parent().map(fs::remove_dir);
        Ok(())
    }

    /// Protects a member's nodes from now on. Returns the programs that have one of them open for
    /// writing already, without the processes in `but`.
    ///
    /// # Errors
    /// If the kernel refuses. Nothing may be protected then.
    pub fn protect(&self, device: Node, but: &BTreeSet<u32>) -> io::Result<Vec<Writer>> {
        let nodes = self.renew(device)?;
        Ok(writers::of(&nodes, but))
    }

    /// Protects a member's nodes, and keeps the counts of those that are protected: a disk may have
    /// got a partition, or a map another path.
    ///
    /// # Errors
    /// If the kernel refuses. Nothing may be protected then.
    pub fn renew(&self, device: Node) -> io::Result<Vec<Node>> {
        let sysfs = Path::new(SYSFS);
        let nodes = nodes::of_device(sysfs, device);
        // Of a device that is gone the number stays, or it would not be forgotten.
        let sequence = match self.maps.members.get(&key(device, 0))? {
            Some(value) => long(&value, MEMBER_SEQUENCE),
            None => nodes::sequence(sysfs, device).unwrap_or_default(),
        };
        for node in &nodes {
            let mut value = self.maps.members.get(&key(*node, 0))?.unwrap_or([0; MEMBER]);
            put(&mut value, MEMBER_SEQUENCE, sequence);
            put(&mut value, MEMBER_OWNER, u64::from(device.major) << 32 | u64::from(device.minor));
            self.maps.members.put(&key(*node, 0), &value)?;
        }
        Ok(nodes)
    }

    fn claim(self, node: Node) -> Option<Claim> {
        self.maps.members.get(&key(node, 0)).ok().flatten()?;
        let keys = [std::process::id(), 0].map(|process| key(node, process));
        let until = since_start().saturating_add(CLAIM).as_nanos();
        let until = u64::try_from(until).unwrap_or(u64::MAX);
        for key in &keys {
            self.maps.claims.put(key, &until.to_ne_bytes()).ok()?;
        }
        Some(Claim { filter: self, keys })
    }

    /// Releases a member's nodes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn release(&self, device: Node) -> io::Result<()> {
        let mut members = self.members()?;
        for node in members.remove(&device).into_iter().flat_map(|member| member.nodes) {
            self.maps.members.remove(&key(node, 0))?;
        }
        // Two partitions that are members share the node of their disk.
        members.into_keys().try_for_each(|other| self.renew(other).map(drop))
    }

    /// The members that are protected.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn members(&self) -> io::Result<BTreeMap<Node, Member>> {
        let mut members: BTreeMap<Node, Member> = BTreeMap::new();
        for key in self.maps.members.keys()? {
            // It may have been removed meanwhile.
            let Some(value) = self.maps.members.get(&key)? else { continue };
            let owner = long(&value, MEMBER_OWNER);
            let device = Node::block((owner >> 32) as u32, owner as u32);
            let member = members.entry(device).or_insert_with(|| Member {
                device,
                nodes: Vec::new(),
                refused: 0,
            });
            member.nodes.push(node_of(&key));
            member.refused += long(&value, MEMBER_REFUSED);
        }
        for member in members.values_mut() {
            member.nodes.sort_by_key(|node| (*node != member.device, *node));
        }
        Ok(members)
    }

    /// Releases the members whose device is gone, or has another medium now. Returns them.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn forget_gone(&self) -> io::Result<Vec<Node>> {
        let mut gone = Vec::new();
        for device in self.members()?.into_keys() {
            let Some(value) = self.maps.members.get(&key(device, 0))? else { continue };
            let noted = long(&value, MEMBER_SEQUENCE);
            if nodes::sequence(Path::new(SYSFS), device).unwrap_or_default() != noted {
                self.release(device)?;
                gone.push(device);
            }
        }
        Ok(gone)
    }

    /// How many opens were refused since the filter was loaded.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn refused(&self) -> io::Result<u64> {
        self.count(0)
    }

    /// How many of the refusals are in the alert log.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn reported(&self) -> io::Result<u64> {
        self.count(1)
    }

    /// Notes that the first `count` refusals are in the alert log.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_reported(&self, count: u64) -> io::Result<()> {
        self.maps.counts.put(&1_u32.to_ne_bytes(), &count.to_ne_bytes())
    }

    fn count(&self, which: u32) -> io::Result<u64> {
        Ok(self.maps.counts.get(&which.to_ne_bytes())?.map_or(0, u64::from_ne_bytes))
    }

    /// The last refusals, 1024 at most, by their numbers.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn refusals(&self) -> io::Result<Vec<Refusal>> {
        let now = since_start();
        let mut refusals = Vec::new();
        for slot in 0..REFUSALS.min(u32::try_from(self.refused()?).unwrap_or(u32::MAX)) {
            let record = self.maps.refusals.get(&slot.to_ne_bytes())?.unwrap_or([0; REFUSAL]);
            refusals.extend(refusal(&record, now));
        }
        refusals.sort_by_key(|refusal| refusal.number);
        Ok(refusals)
    }
}

/// `None` if it is being written.
fn refusal(record: &[u8; REFUSAL], now: Duration) -> Option<Refusal> {
    let number = long(record, REFUSAL_NUMBER);
    let program = &record[REFUSAL_PROGRAM..];
    let end = program.iter().position(|byte| *byte == 0).unwrap_or(program.len());
    (number > 0).then(|| Refusal {
        number,
        ago: now.saturating_sub(Duration::from_nanos(long(record, REFUSAL_TIME))),
        process: Some((long(record, REFUSAL_PROCESS) >> 32) as u32).filter(|process| *process > 0),
        user: long(record, REFUSAL_USER) as u32,
        program: String::from_utf8_lossy(&program[..end]).into_owned(),
        node: node_of(&record[REFUSAL_NODE..]),
    })
}

const AS_ROOT: &str = "it needs root, with CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN";
const ON_THE_HOST: &str = "run the instance on the host itself";
const NEWER_KERNEL: &str = "the kernel must be 5.12 or newer, with CONFIG_CGROUP_BPF";

/// The root of the cgroup 2 hierarchy. Where none is mounted, one is mounted for a moment.
fn root_cgroup() -> Result<rustix::fd::OwnedFd, NotLoaded> {
    let not = |reason: String| NotLoaded { reason, remedy: ON_THE_HOST };
    let open = |path: &Path| {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    let is_hierarchy = |path: &Path| {
        rustix::fs::statfs(path).is_ok_and(|about| about.f_type as u64 == CGROUP2_MAGIC)
    };
    let found = HIERARCHIES.iter().map(Path::new).find(|path| is_hierarchy(path));
    let root = match found {
        Some(path) => {
            // The real root has no state of its own; that of a container's view has.
            if path.join("cgroup.events").exists() {
                let text = format!("{} is not the root of the host's cgroups", path.display());
                return Err(not(text));
            }
            open(path)
        }
        None => {
            let name = format!("plinth-cgroup-{}-{}", std::process::id(), since_start().as_nanos());
            let place = std::env::temp_dir().join(name);
            fs::create_dir_all(&place).map_err(|error| not(error.to_string()))?;
            let mounted =
                rustix::mount::mount("cgroup2", &place, "cgroup2", MountFlags::empty(), None);
            let root = mounted.and_then(|()| {
                let root = open(&place);
                rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH)?;
                root
            });
            let _ = fs::remove_dir(&place);
            root
        }
    };
    root.map_err(|error| not(format!("no cgroup 2 hierarchy: {error}")))
}

/// Mounts a bpf file system at its place if none is there.
fn bpf_file_system(directory: &Path) -> io::Result<()> {
    let place = Path::new(BPF_FILE_SYSTEM);
    if !directory.starts_with(place) {
        return Ok(());
    }
    if rustix::fs::statfs(place)?.f_type as u64 == BPF_MAGIC {
        return Ok(());
    }
    rustix::mount::mount("bpf", place, "bpf", MountFlags::empty(), None).map_err(io::Error::from)
}

fn since_start() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn key(node: Node, process: u32) -> [u8; KEY] {
    let mut key = [0; KEY];
    for (word, place) in [node.major, node.minor, node.kind(), process].iter().zip((0..).step_by(4))
    {
        key[place..place + 4].copy_from_slice(&word.to_ne_bytes());
    }
    key
}

/// The node in the first three words of a key.
fn node_of(key: &[u8]) -> Node {
    let word = |at: usize| {
        key.get(at..at + 4)
            .map_or(0, |word| u32::from_ne_bytes(word.try_into().unwrap_or_default()))
    };
    Node { major: word(0), minor: word(4), is_character: word(8) == program::CHARACTER }
}

fn put(value: &mut [u8], at: usize, number: u64) {
    value[at..at + 8].copy_from_slice(&number.to_ne_bytes());
}

fn long(value: &[u8], at: usize) -> u64 {
    value.get(at..at + 8).map_or(0, |long| u64::from_ne_bytes(long.try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Loop;
    use std::{
        fs::OpenOptions,
        io::{BufRead, BufReader, ErrorKind, Write},
        os::fd::OwnedFd,
        process::Stdio,
    };

    /// A filter of this test alone, beside any others.
    struct Own(PathBuf);

    impl Own {
        fn new(name: &str) -> Self {
            let name = format!("plinth-{name}-{}", std::process::id());
            Self(Path::new(BPF_FILE_SYSTEM).join(name).join("filter-1"))
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            let _ = Filter::unload_at(&self.0);
        }
    }

    /// A loop device over a file of 1 MiB.
    fn device() -> (tempfile::NamedTempFile, Loop) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1 << 20).expect("a size");
        let disk = Loop::new(file.path().to_str().expect("UTF-8"), 512);
        (file, disk.expect("loop devices, as root"))
    }

    fn node(disk: &Loop) -> Node {
        Node::at(&disk.path).expect("the device")
    }

    fn writes(path: &str) -> Result<fs::File, ErrorKind> {
        OpenOptions::new().write(true).open(path).map_err(|error| error.kind())
    }

    #[test]
    fn only_a_claim_opens_a_member_for_writing() {
        let own = Own::new("claim");
        let (_file, disk) = device();
        let (_other_file, other) = device();
        let filter = Filter::load_at(&own.0).expect("a filter");
        let node = node(&disk);
        // A child that another test starts may have our descriptors for a moment.
        let has_own = || {
            let writers = filter.protect(node, &BTreeSet::new()).expect("protected");
            writers.iter().any(|one| (one.process, one.node) == (std::process::id(), node))
        };
        let before = writes(&disk.path).expect("nothing is protected yet");
        assert!(has_own());
        drop(before);
        assert!(!has_own());

        assert_eq!(writes(&disk.path).err(), Some(ErrorKind::PermissionDenied));
        fs::File::open(&disk.path).expect("for reading");
        writes(&other.path).expect("another device");
        let again = Filter::loaded_at(&own.0).expect("it tells").expect("it is loaded");
        let claim = again.claim(node).expect("a claim");
        writes(&disk.path).expect("the claim's process");
        let shell = format!("if (: >{}) 2>/dev/null; then exit 1; fi", disk.path);
        let refused = std::process::Command::new("sh").args(["-c", &shell]).status();
        assert!(refused.expect("a shell").success(), "a child of that process has no claim");
        drop(claim);
        assert_eq!(writes(&disk.path).err(), Some(ErrorKind::PermissionDenied));

        let members = filter.members().expect("members");
        assert_eq!(members.keys().collect::<Vec<_>>(), [&node]);
        assert_eq!((members[&node].refused, filter.refused().expect("a count")), (3, 3));
        let refusals = filter.refusals().expect("refusals");
        assert_eq!(refusals.iter().map(|one| one.number).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((refusals[0].process, refusals[0].node), (Some(std::process::id()), node));
        assert_eq!((refusals[1].program.as_str(), refusals[1].user), ("sh", 0));
        filter.release(node).expect("released");
        writes(&disk.path).expect("it is no member any more");
    }

    /// Kernels before 6.10 can carry out this program only.
    #[test]
    fn without_processes_a_claim_is_for_all() {
        let own = Own::new("older");
        let (_file, disk) = device();
        let node = node(&disk);
        let filter = Filter::load_at(&own.0).expect("a filter");
        let program = filter.maps.load_that(false).expect("a program");
        let link = bpf::pinned(&own.0.join(LINK_PIN)).expect("a link");
        bpf::replace(link.as_fd(), program.as_fd()).expect("replaced");
        filter.protect(node, &BTreeSet::new()).expect("protected");
        assert_eq!(writes(&disk.path).err(), Some(ErrorKind::PermissionDenied));
        let refusals = filter.refusals().expect("refusals");
        assert_eq!((refusals[0].process, refusals[0].program.as_str()), (None, ""));
        let claim = Filter::loaded_at(&own.0).expect("it tells").and_then(|one| one.claim(node));
        writes(&disk.path).expect("claimed");
        drop(claim);
        assert_eq!(writes(&disk.path).err(), Some(ErrorKind::PermissionDenied));
    }

    /// The cgroup 2 hierarchy; mounted for the test if the host has none.
    struct Hierarchy(PathBuf, Option<tempfile::TempDir>);

    impl Hierarchy {
        fn new() -> Self {
            let is_hierarchy = |path: &&Path| {
                rustix::fs::statfs(*path).is_ok_and(|about| about.f_type as u64 == CGROUP2_MAGIC)
            };
            if let Some(found) = HIERARCHIES.iter().map(Path::new).find(is_hierarchy) {
                return Self(found.to_owned(), None);
            }
            let place = tempfile::tempdir().expect("a directory");
            let flags = MountFlags::empty();
            rustix::mount::mount("cgroup2", place.path(), "cgroup2", flags, None)
                .expect("a cgroup 2 hierarchy");
            Self(place.path().to_owned(), Some(place))
        }
    }

    impl Drop for Hierarchy {
        fn drop(&mut self) {
            if let Some(mounted) = &self.1 {
                let _ = rustix::mount::unmount(mounted.path(), rustix::mount::UnmountFlags::DETACH);
            }
        }
    }

    /// A service in a cgroup of its own, with a device policy, as a service manager starts it: the
    /// policy first, then the process.
    struct Service {
        cgroup: PathBuf,
        /// A shell that opens what it is told, and answers whether it could.
        process: std::process::Child,
        answers: BufReader<std::process::ChildStdout>,
    }

    impl Service {
        fn start(all: &Hierarchy, name: &str, policy: &OwnedFd, mode: u32) -> Self {
            let cgroup = all.0.join(format!("plinth-test-{}-{mode}-{name}", std::process::id()));
            fs::create_dir(&cgroup).expect("a cgroup");
            let descriptor = fs::File::open(&cgroup).expect("a cgroup");
            bpf::attach_plainly(policy.as_fd(), descriptor.as_fd(), mode).expect("attached");
            let script = "echo $$ > \"$1\" || exit 1
                while read -r open; do
                    if (eval \": $open\") 2>/dev/null; then echo yes; else echo no; fi
                done";
            let mut process = std::process::Command::new("sh")
                .args(["-c", script, "service"])
                .arg(cgroup.join("cgroup.procs"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a shell");
            let answers = BufReader::new(process.stdout.take().expect("piped"));
            Self { cgroup, process, answers }
        }

        /// Whether it can open a device: `> PATH` for writing, `< PATH` for reading.
        fn opens(&mut self, redirection: &str, path: &str) -> bool {
            let input = self.process.stdin.as_mut().expect("piped");
            writeln!(input, "{redirection} {path}").expect("it runs");
            let mut answer = String::new();
            self.answers.read_line(&mut answer).expect("it runs");
            assert!(["yes\n", "no\n"].contains(&answer.as_str()), "{answer:?}");
            answer == "yes\n"
        }

        /// Ends it. Its cgroup can be removed, as a service manager does.
        fn stop(mut self) {
            drop(self.process.stdin.take());
            assert!(self.process.wait().expect("its end").success());
            fs::remove_dir(&self.cgroup).expect("nothing is left in it");
        }
    }

    impl Drop for Service {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
            let _ = fs::remove_dir(&self.cgroup);
        }
    }

    /// Services have device policies of their own, attached alone, with `BPF_F_ALLOW_OVERRIDE`, or
    /// with `BPF_F_ALLOW_MULTI` as systemd does. They start, run and stop before the filter comes,
    /// beside it, and when it has gone. Both the policy and the filter are asked.
    #[test]
    fn services_with_device_policies_start_run_and_stop() {
        let own = Own::new("beside");
        let (_file, disk) = device();
        let (_other_file, other) = device();
        let (node, other_node) = (node(&disk), node(&other));
        // The services' policy: no writing of the other device.
        let policy_maps = Own::new("policy");
        fs::create_dir_all(&policy_maps.0).expect("a directory");
        let maps = Maps::pinned_or_new(&policy_maps.0).expect("maps");
        maps.members.put(&key(other_node, 0), &[0; MEMBER]).expect("a member");
        let policy = maps.load().expect("a program");
        let all = Hierarchy::new();
        let check = |service: &mut Service, may_write: bool, case: &str| {
            assert_eq!(service.opens(">", &disk.path), may_write, "{case}");
            assert!(!service.opens(">", &other.path), "{case}: its own policy is gone");
            assert!(service.opens("<", &disk.path) && service.opens("<", &other.path), "{case}");
            assert!(service.opens(">", "/dev/null"), "{case}");
        };
        for mode in [0, 1, 2] {
            let start = |name| Service::start(&all, name, &policy, mode);
            let case = |when: &str| format!("flags {mode}, {when}");
            let [mut first, mut second] = ["first", "second"].map(start);
            check(&mut first, true, &case("before"));

            let filter = Filter::load_at(&own.0).expect("a filter");
            filter.protect(node, &BTreeSet::new()).expect("protected");
            check(&mut first, false, &case("it was there before"));
            first.stop();
            let [mut third, mut fourth] = ["third", "fourth"].map(start);
            check(&mut third, false, &case("it started beside the filter"));
            third.stop();
            // The next instance replaces the filter's program.
            Filter::load_at(&own.0).expect("the next one");
            check(&mut second, false, &case("behind the replacement"));
            check(&mut fourth, false, &case("behind the replacement"));

            Filter::unload_at(&own.0).expect("taken away");
            check(&mut second, true, &case("it is left from before the filter"));
            check(&mut fourth, true, &case("it is left from beside the filter"));
            let mut last = start("last");
            check(&mut last, true, &case("when the filter has gone"));
            [second, fourth, last].into_iter().for_each(Service::stop);
        }
    }

    #[test]
    fn a_number_that_another_medium_has_is_released() {
        let own = Own::new("gone");
        let (_file, disk) = device();
        let filter = Filter::load_at(&own.0).expect("a filter");
        let node = node(&disk);
        filter.protect(node, &BTreeSet::new()).expect("protected");
        assert_eq!(filter.forget_gone().expect("it tells"), []);
        let mut value =
            filter.maps.members.get(&key(node, 0)).expect("it tells").expect("a member");
        put(&mut value, MEMBER_SEQUENCE, 1);
        filter.maps.members.put(&key(node, 0), &value).expect("changed");
        assert_eq!(filter.forget_gone().expect("it tells"), [node]);
        writes(&disk.path).expect("another medium");
    }

    #[test]
    fn a_filter_is_replaced_in_place_and_taken_away() {
        let own = Own::new("replace");
        let (_file, disk) = device();
        let node = node(&disk);
        let filter = Filter::load_at(&own.0).expect("a filter");
        filter.protect(node, &BTreeSet::new()).expect("protected");
        drop(filter);
        let filter = Filter::load_at(&own.0).expect("the next one");
        assert_eq!(writes(&disk.path).err(), Some(ErrorKind::PermissionDenied));
        assert_eq!(filter.members().expect("members").len(), 1);
        drop(filter);
        let newer = own.0.with_file_name("filter-2");
        let filter = Filter::load_at(&newer).expect("another version's");
        let refused = Some(ErrorKind::PermissionDenied);
        assert_eq!(writes(&disk.path).err(), refused, "the former one goes on");
        filter.protect(node, &BTreeSet::new()).expect("protected");
        Filter::unload_beside(&newer).expect("taken away");
        assert!(!own.0.exists());
        assert_eq!(writes(&disk.path).err(), refused);
        Filter::unload_at(&newer).expect("taken away");
        Filter::unload_at(&own.0).expect("taken away");
        assert!(Filter::loaded_at(&own.0).expect("it tells").is_none());
        writes(&disk.path).expect("there is no filter");
    }
}
