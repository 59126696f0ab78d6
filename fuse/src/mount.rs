//! Mounting and unmounting, and the arguments of `mount -t fuse.plinth DATA /mnt`.
//!
//! A mount may have no process that answers, so nothing here accesses a path on one. Mounts are
//! read from `/proc/self/mountinfo`, and the processes that use them from the links in `/proc/PID`.
//!
//! The type of a mount is `fuse.plinth` and its source is the name of the group, so that `findmnt`,
//! `df` and a line in `/etc/fstab` agree.

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    mount::{MountFlags, UnmountFlags},
};
use std::{
    ffi::{CString, OsStr, OsString},
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Component, Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// The type as `mount -t` knows it.
pub const TYPE: &str = "fuse.plinth";

/// Why a mount could not be made, undone or understood.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("mount point {path} does not exist; make it with 'mkdir {path}'", path = .0.display())]
    Missing(PathBuf),
    #[error("mount point {path} is not a directory", path = .0.display())]
    NotADirectory(PathBuf),
    #[error("mount point {path} is not empty; what is in it would be hidden: move it away or mount elsewhere", path = .0.display())]
    NotEmpty(PathBuf),
    #[error("{path} is already a mount point (of {1}); 'umount {path}' first or mount elsewhere", path = .0.display())]
    AlreadyMounted(PathBuf, String),
    #[error("nothing is mounted on {path}", path = .0.display())]
    NotMounted(PathBuf),
    #[error("{path} is a mount of {1}, not of a disk group", path = .0.display())]
    NotOurs(PathBuf, String),
    #[error("{path} is in use by {users}; end that, or unmount by force: then they keep it until they close it", path = .0.display(), users = join(.1))]
    Busy(PathBuf, Vec<User>),
    #[error(
        "/dev/fuse: {0}; FUSE is missing in this kernel or container: 'modprobe fuse', or give the container the device"
    )]
    NoFuse(#[source] io::Error),
    #[error("mounting on {path}: {1}{hint}", path = .0.display(), hint = hint(.1))]
    Mount(PathBuf, #[source] io::Error),
    #[error("mounting {path} with other options: {1}", path = .0.display())]
    Remount(PathBuf, #[source] io::Error),
    #[error("unmounting {path}: {1}{hint}", path = .0.display(), hint = hint(.1))]
    Unmount(PathBuf, #[source] io::Error),
    #[error("{path}: {1}", path = .0.display())]
    Path(PathBuf, #[source] io::Error),
    #[error("unknown mount option '{0}'")]
    Option(String),
    #[error("usage: mount -t {TYPE} GROUP DIRECTORY [-o OPTION,...]: {0}")]
    Usage(String),
}

type Result<T> = std::result::Result<T, MountError>;

fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied { "; only root may do this" } else { "" }
}

/// A process that keeps a mount busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub pid: u32,
    pub name: String,
}

fn join(users: &[User]) -> String {
    const SHOWN: usize = 10;
    if users.is_empty() {
        return "a process that cannot be seen from here (another mount under it, or another namespace)".into();
    }
    let mut text: Vec<String> =
        users.iter().take(SHOWN).map(|user| format!("{} (pid {})", user.name, user.pid)).collect();
    if users.len() > SHOWN {
        text.push(format!("and {} more", users.len() - SHOWN));
    }
    text.join(", ")
}

/// Options of a mount. The defaults are ext4's: devices, set-id bits and programs work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountOptions {
    pub read_only: bool,
    pub no_devices: bool,
    pub no_set_id: bool,
    pub no_programs: bool,
    /// Every write is durable before it returns. Changes of names are not: `fsync` the directory.
    pub synchronous: bool,
}

impl MountOptions {
    /// Parses the list of `mount -o`. `dirsync` is refused, because Linux does not pass it on.
    /// Options about access times, and options for the tools around `mount`, are accepted and have
    /// no effect.
    ///
    /// # Errors
    /// If an option is unknown.
    pub fn parse(list: &str) -> Result<Self> {
        let mut options = Self::default();
        for option in list.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            options.set(option)?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str) -> Result<()> {
        match option {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "nodev" => self.no_devices = true,
            "dev" => self.no_devices = false,
            "nosuid" => self.no_set_id = true,
            "suid" => self.no_set_id = false,
            "noexec" => self.no_programs = true,
            "exec" => self.no_programs = false,
            "sync" => self.synchronous = true,
            "async" => self.synchronous = false,
            "defaults" => *self = Self { read_only: self.read_only, ..Self::default() },
            "noatime"
            | "atime"
            | "relatime"
            | "norelatime"
            | "strictatime"
            | "nostrictatime"
            | "nodiratime"
            | "diratime"
            | "lazytime"
            | "nolazytime"
            | "allow_other"
            | "default_permissions"
            | "auto"
            | "noauto"
            | "nofail"
            | "_netdev"
            | "nouser"
            | "silent"
            | "loud"
            | "mand"
            | "nomand"
            | "iversion"
            | "noiversion" => {}
            // The kernel shows these of a mount, and `mount -o remount` passes them.
            _ if option.starts_with("user_id=") || option.starts_with("group_id=") => {}
            _ if option.starts_with("x-")
                || option.starts_with("X-")
                || option.starts_with("comment=") => {}
            _ => return Err(MountError::Option(option.to_owned())),
        }
        Ok(())
    }

    fn flags(self) -> MountFlags {
        let mut flags = MountFlags::NOATIME;
        flags.set(MountFlags::RDONLY, self.read_only);
        flags.set(MountFlags::NODEV, self.no_devices);
        flags.set(MountFlags::NOSUID, self.no_set_id);
        flags.set(MountFlags::NOEXEC, self.no_programs);
        flags.set(MountFlags::SYNCHRONOUS, self.synchronous);
        flags
    }
}

/// Mounts the group `name` on `directory`, and returns the device that serves it. The mount lives
/// while the device, or a duplicate of it, is open; programs that use it wait until it is served.
/// When the last one is closed without an unmount, a dead mount is left: [`unmount`] removes it.
///
/// # Errors
/// If the directory cannot be a mount point, or the kernel refuses.
pub fn mount(name: &str, directory: &Path, options: MountOptions) -> Result<OwnedFd> {
    let directory = absolute(directory)?;
    check_free(&directory)?;
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| MountError::NoFuse(errno.into()))?;
    // The root directory's mode is 40000 here; its permissions come with its attributes.
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let data = CString::new(data).map_err(|error| MountError::Usage(error.to_string()))?;
    rustix::mount::mount(name, &directory, TYPE, options.flags(), Some(data.as_c_str()))
        .map_err(|errno| MountError::Mount(directory, errno.into()))?;
    Ok(device)
}

/// How long an unmount is tried again while a mount is busy and no process is seen to use it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The option with which a mounted directory gets other options.
pub const REMOUNT: &str = "remount";

/// Gives a mount of a disk group other options, while it is in use.
///
/// # Errors
/// If it is not a mount of a disk group, or would be read-only and has files open for writing.
pub fn remount(directory: &Path, options: MountOptions) -> Result<()> {
    let directory = absolute(directory)?;
    match mounted_on(&directory)? {
        None => return Err(MountError::NotMounted(directory)),
        Some(mount) if mount.kind != TYPE => {
            return Err(MountError::NotOurs(directory, mount.source));
        }
        Some(_) => {}
    }
    let ended =
        when_unused(&directory, || rustix::mount::mount_remount(&directory, options.flags(), c""));
    ended?.map_err(|errno| MountError::Remount(directory, errno.into()))
}

/// Unmounts a mount of a disk group. `force`: even while it is in use; programs keep the files that
/// they have open.
///
/// # Errors
/// If no disk group is mounted there, or it is in use and `force` is not given.
pub fn unmount(directory: &Path, force: bool) -> Result<()> {
    let directory = absolute(directory)?;
    match mounted_on(&directory)? {
        None => return Err(MountError::NotMounted(directory)),
        Some(mount) if mount.kind != TYPE => {
            return Err(MountError::NotOurs(directory, mount.source));
        }
        Some(_) => {}
    }
    let flags =
        UnmountFlags::NOFOLLOW | if force { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    let ended = when_unused(&directory, || rustix::mount::unmount(&directory, flags));
    ended?.map_err(|errno| MountError::Unmount(directory, errno.into()))
}

/// Calls `act`, which fails with `EBUSY` while the mount is in use.
fn when_unused(
    directory: &Path,
    act: impl Fn() -> rustix::io::Result<()>,
) -> Result<rustix::io::Result<()>> {
    let began = Instant::now();
    loop {
        let ended = act();
        if ended != Err(Errno::BUSY) {
            return Ok(ended);
        }
        let users = users_of(directory);
        // `/proc` does not show a process that is ending, or a child before its `exec`; it is gone
        // in a moment.
        if !users.is_empty() || began.elapsed() > PATIENCE {
            return Err(MountError::Busy(directory.to_owned(), users));
        }
        thread::sleep(PATIENCE / 20);
    }
}

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    pub directory: PathBuf,
    pub kind: String,
    pub source: String,
}

/// Every mount of a disk group on this host.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn mounts() -> Result<Vec<Mounted>> {
    Ok(all_mounts()?.into_iter().filter(|mount| mount.kind == TYPE).collect())
}

fn all_mounts() -> Result<Vec<Mounted>> {
    const TABLE: &str = "/proc/self/mountinfo";
    let table = fs::read(TABLE).map_err(|error| MountError::Path(TABLE.into(), error))?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
}

/// The last mount made there: it hides earlier ones.
fn mounted_on(directory: &Path) -> Result<Option<Mounted>> {
    Ok(all_mounts()?.into_iter().rev().find(|mount| mount.directory == directory))
}

/// `36 35 98:0 /root /dir options tags - type source super-options`
fn parse_line(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let directory = OsString::from_vec(unescaped(fields.nth(4)?)).into();
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(&unescaped(fields.next()?)).into_owned();
    let source = String::from_utf8_lossy(&unescaped(fields.next()?)).into_owned();
    Some(Mounted { directory, kind, source })
}

/// `\040` is a space: three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        if let Some(digits) = digits {
            bytes.push(
                digits
                    .iter()
                    .fold(0_u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')),
            );
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    bytes
}

/// The path as the kernel shows it, found without an access to a mount at its end.
fn absolute(directory: &Path) -> Result<PathBuf> {
    let plain: PathBuf = directory.components().collect();
    let fail = |error| MountError::Path(directory.to_path_buf(), error);
    let Some(Component::Normal(last)) = plain.components().next_back() else {
        return fs::canonicalize(directory).map_err(fail);
    };
    let above =
        plain.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let path = match fs::canonicalize(above) {
        Ok(above) => above.join(last),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(MountError::Missing(directory.to_path_buf()));
        }
        Err(error) => return Err(fail(error)),
    };
    // The last component may be a symbolic link, which is never a mount point: it is safe to
    // resolve.
    match mounted_on(&path)? {
        None if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) => {
            fs::canonicalize(&path).map_err(fail)
        }
        _ => Ok(path),
    }
}

fn check_free(directory: &Path) -> Result<()> {
    if let Some(mount) = mounted_on(directory)? {
        return Err(MountError::AlreadyMounted(directory.to_path_buf(), mount.source));
    }
    let metadata = fs::metadata(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing(directory.to_path_buf()),
        _ => MountError::Path(directory.to_path_buf(), error),
    })?;
    if !metadata.is_dir() {
        return Err(MountError::NotADirectory(directory.to_path_buf()));
    }
    let mut entries = fs::read_dir(directory)
        .map_err(|error| MountError::Path(directory.to_path_buf(), error))?;
    if entries.next().is_some() {
        return Err(MountError::NotEmpty(directory.to_path_buf()));
    }
    Ok(())
}

/// The processes with a directory, a file or a mapping under `directory`, as far as `/proc` shows
/// them.
fn users_of(directory: &Path) -> Vec<User> {
    let mut users: Vec<User> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter(|(_, process)| uses(process, directory))
        .map(|(pid, process)| {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            User { pid, name: name.trim_end().to_owned() }
        })
        .collect();
    users.sort_by_key(|user| user.pid);
    users
}

fn uses(process: &Path, directory: &Path) -> bool {
    let inside =
        |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(directory));
    if ["cwd", "root", "exe"].iter().any(|link| inside(&process.join(link))) {
        return true;
    }
    if fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| inside(&entry.path()))
    {
        return true;
    }
    let maps = fs::read(process.join("maps")).unwrap_or_default();
    maps.split(|byte| *byte == b'\n').any(|line| {
        line.iter()
            .position(|byte| *byte == b'/')
            .is_some_and(|at| Path::new(OsStr::from_bytes(&line[at..])).starts_with(directory))
    })
}

/// The arguments of a mount helper: a group, a directory, options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRequest {
    pub group: String,
    pub directory: PathBuf,
    pub options: MountOptions,
    /// The directory is mounted, and gets these options.
    pub remount: bool,
    /// `-f`: do everything but mount.
    pub fake: bool,
    pub verbose: bool,
}

/// Reads the arguments, without the program's name, with which `mount` calls `mount.fuse.plinth`:
/// `GROUP DIRECTORY [-sfnv] [-N namespace] [-o options] [-t type]`. GROUP may be written `DATA`,
/// `+DATA` or `plinth:DATA`, in any case.
///
/// # Errors
/// If they make no sense, or an option is unknown and `-s` is not given.
pub fn parse_mount_helper_args(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<MountRequest> {
    let mut plain = Vec::new();
    let mut lists = Vec::new();
    let (mut sloppy, mut fake, mut verbose) = (false, false, false);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            plain.extend(arguments.by_ref());
        } else if let Some(letters) = bytes.strip_prefix(b"-").filter(|letters| !letters.is_empty())
        {
            for (at, letter) in letters.iter().enumerate() {
                match letter {
                    b's' => sloppy = true,
                    b'f' => fake = true,
                    b'v' => verbose = true,
                    b'n' => {} // "do not write /etc/mtab", which is history
                    b'r' => lists.push("ro".to_owned()),
                    b'w' => lists.push("rw".to_owned()),
                    b'o' | b't' | b'N' => {
                        let rest = &letters[at + 1..];
                        let value = if rest.is_empty() {
                            let missing = || {
                                MountError::Usage(format!("-{} needs a value", char::from(*letter)))
                            };
                            arguments.next().ok_or_else(missing)?
                        } else {
                            OsStr::from_bytes(rest).to_owned()
                        };
                        if *letter == b'o' {
                            lists.push(value.to_string_lossy().into_owned());
                        }
                        break;
                    }
                    other => {
                        return Err(MountError::Usage(format!(
                            "unknown flag '-{}'",
                            char::from(*other)
                        )));
                    }
                }
            }
        } else {
            plain.push(argument);
        }
    }
    let [group, directory] = <[OsString; 2]>::try_from(plain)
        .map_err(|plain| MountError::Usage(format!("{} arguments instead of two", plain.len())))?;
    let group = group.to_string_lossy();
    let group = group.strip_prefix("plinth:").unwrap_or(&group);
    let group = group.strip_prefix('+').unwrap_or(group).to_uppercase();
    if group.is_empty() {
        return Err(MountError::Usage("the group's name is empty".into()));
    }
    let (mut options, mut remount) = (MountOptions::default(), false);
    for option in lists
        .iter()
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .filter(|option| !option.is_empty())
    {
        match options.set(option) {
            Err(_) if option == REMOUNT => remount = true,
            Err(_) if sloppy => {}
            other => other?,
        }
    }
    Ok(MountRequest { group, directory: directory.into(), options, remount, fake, verbose })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(line: &str) -> Result<MountRequest> {
        parse_mount_helper_args(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_helper_parses_the_arguments_of_util_linux() {
        let plain = helper("DATA /mnt -o rw,dev,suid").unwrap();
        let expected = MountRequest {
            remount: false,
            group: "DATA".into(),
            directory: "/mnt".into(),
            options: MountOptions::default(),
            fake: false,
            verbose: false,
        };
        assert_eq!(plain, expected);
        let full =
            helper("plinth:data /mnt -sfnv -N /proc/1/ns/mnt -o ro,nodev,what -t fuse.plinth")
                .unwrap();
        assert_eq!((full.group.as_str(), full.fake, full.verbose), ("DATA", true, true));
        assert_eq!(
            full.options,
            MountOptions { read_only: true, no_devices: true, ..MountOptions::default() }
        );
        assert!(helper("+DATA /mnt -oro").unwrap().options.read_only);
        assert!(helper("-r DATA -- /mnt").unwrap().options.read_only);
    }

    #[test]
    fn the_helper_names_the_argument_that_it_refuses() {
        for (line, text) in [
            ("DATA", "1 arguments"),
            ("DATA /a /b", "3 arguments"),
            ("DATA /mnt -o", "-o needs a value"),
            ("DATA /mnt -z", "unknown flag '-z'"),
            ("DATA /mnt -o ro,colour=red", "unknown mount option 'colour=red'"),
            ("+ /mnt", "name is empty"),
        ] {
            let said = helper(line).unwrap_err().to_string();
            assert!(said.contains(text), "{line}: {said}");
        }
    }

    #[test]
    fn mount_tables_are_read_with_their_escapes() {
        let line =
            br"98 28 0:51 / /mnt/with\040space rw,noatime shared:1 - fuse.plinth DATA rw,user_id=0";
        let mount = parse_line(line).unwrap();
        assert_eq!(mount.directory, Path::new("/mnt/with space"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), (TYPE, "DATA"));
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"1 2 3:4 / /mnt rw"), None);
        assert_eq!(unescaped(br"a\134b\04"), br"a\b\04");
    }

    #[test]
    fn a_bad_mount_point_is_refused_with_its_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let said = |path: &Path| {
            mount("DATA", path, MountOptions::default()).map(drop).unwrap_err().to_string()
        };
        let path = directory.path().join("missing");
        assert!(said(&path).contains("mkdir"));
        assert!(said(&path.join("deeper")).contains("does not exist"));
        fs::write(&path, "").unwrap();
        assert!(said(&path).contains("not a directory"));
        assert!(said(directory.path()).contains("not empty"));
        assert!(said(Path::new("/proc")).contains("already a mount point"));
        assert!(
            unmount(directory.path(), false)
                .unwrap_err()
                .to_string()
                .contains("nothing is mounted")
        );
        assert!(
            unmount(Path::new("/proc"), true)
                .unwrap_err()
                .to_string()
                .contains("not of a disk group")
        );
    }
}
