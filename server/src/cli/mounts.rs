//! `mount` and `umount`: of a disk group, as in `asmcmd`, and of its files on a directory.
//!
//! The arguments decide. A word with a `/` in it, `.` and `..` are directories; any other word is a
//! disk group, and so is `DATA/`, as listings write it, if no directory has that name:
//!
//! ```text
//! mount GROUP ... | -a          an engine takes the groups        umount GROUP | -a
//! mount GROUP /DIRECTORY        the files are on the directory    umount /DIRECTORY
//! ```

use super::{
    Result,
    context::{Context, Run, group_name},
    print,
};
use crate::{
    instance::control::Client,
    paths::{DEFAULT_DIR, Paths},
    sql_error::{SqlError, state},
};
use clap::Args;
use plinth_fuse::mount::{self, MountOptions};
use std::{
    ffi::OsString,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Mount disk groups, or a disk group's files on a directory.
#[derive(Debug, Args)]
pub(super) struct Mount {
    /// All disk groups.
    #[arg(short, conflicts_with = "what", required_unless_present = "what")]
    all: bool,
    /// With fewer disks than it takes: what only the others had is lost.
    #[arg(short)]
    force: bool,
    /// For whoever administers alone.
    #[arg(long)]
    restrict: bool,
    /// For a directory, as for mount(8): ro, nodev, ...
    #[arg(short, long, value_name = "LIST")]
    options: Option<String>,
    /// Disk groups; or one, and the directory for its files: a path with a / in it.
    #[arg(value_name = "GROUP|DIRECTORY")]
    what: Vec<PathBuf>,
}

/// Dismount disk groups, or unmount a directory.
#[derive(Debug, Args)]
pub(super) struct Umount {
    /// All disk groups.
    #[arg(short, conflicts_with = "what", required_unless_present = "what")]
    all: bool,
    /// Although files are open.
    #[arg(short, long)]
    force: bool,
    /// Disk groups; or a directory: a path with a / in it.
    #[arg(value_name = "GROUP|DIRECTORY")]
    what: Vec<PathBuf>,
}

/// Most links that are followed one after the other, as in Linux.
const LINKS_MAX: usize = 40;

fn is_directory(word: &Path) -> bool {
    let text = word.to_string_lossy();
    if text.ends_with('/') && group_name(&text).is_ok() {
        // A directory that cannot be inspected does exist.
        let is_nothing = |error: io::Error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        };
        return !text.starts_with('+') && !word.symlink_metadata().is_err_and(is_nothing);
    }
    text.contains('/') || text == "." || text == ".."
}

/// The groups that words name; one word may have several, with commas between.
fn groups(words: &[PathBuf]) -> Result<String> {
    let mut names = Vec::new();
    for word in words {
        for name in word.to_string_lossy().split(',').filter(|name| !name.is_empty()) {
            names.push(group_name(name)?);
        }
    }
    Ok(names.join(", "))
}

impl Run for Mount {
    fn run(&self, context: &mut Context) -> Result<()> {
        if let [group, directory] = &self.what[..]
            && is_directory(directory)
        {
            if self.force {
                return Err(SqlError::new(
                    state::SYNTAX,
                    "-f is for a disk group, not for a directory",
                ));
            }
            let options = self.options.as_deref().unwrap_or_default();
            return mount_group(&context.paths, &group.to_string_lossy(), directory, options);
        }
        if let Some(directory) = self.what.iter().find(|word| is_directory(word)) {
            return Err(SqlError::new(
                state::SYNTAX,
                format!("{} is a directory", directory.display()),
            )
            .hint("mount GROUP DIRECTORY; a disk group's name has no /"));
        }
        if self.options.is_some() {
            return Err(SqlError::new(
                state::SYNTAX,
                "-o is for the files of a disk group on a directory",
            )
            .hint("mount -o LIST GROUP DIRECTORY; a directory has a / in it"));
        }
        let groups = if self.all { "ALL".to_owned() } else { groups(&self.what)? };
        let restricted = if self.restrict { " RESTRICTED" } else { "" };
        let force = if self.force { " FORCE" } else { "" };
        let mounted =
            context.statement(&format!("ALTER DISKGROUP {groups} MOUNT{restricted}{force}"));
        mounted.map_err(|refusal| match &self.what[..] {
            [group, directory] if directory.is_dir() => refusal.hint(format!(
                "plinth mount {} ./{} is the directory",
                group.display(),
                directory.display()
            )),
            _ => refusal,
        })
    }
}

impl Run for Umount {
    fn run(&self, context: &mut Context) -> Result<()> {
        if let [directory] = &self.what[..]
            && is_directory(directory)
        {
            return context.instance()?.unmount(&mount_point(directory), self.force);
        }
        if let Some(directory) = self.what.iter().find(|word| is_directory(word)) {
            return Err(SqlError::new(
                state::SYNTAX,
                format!("{} is a directory", directory.display()),
            )
            .hint("unmount one directory at a time"));
        }
        let groups = if self.all { "ALL".to_owned() } else { groups(&self.what)? };
        let force = if self.force { " FORCE" } else { "" };
        context.statement(&format!("ALTER DISKGROUP {groups} DISMOUNT{force}"))
    }
}

/// The path under which the instance mounted a directory: links in it are resolved. The directory
/// itself is not accessed: if its engine is dead, the access may hang.
fn mount_point(directory: &Path) -> PathBuf {
    let mut path = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    for _ in 0..LINKS_MAX {
        let Ok(target) = path.read_link() else { break };
        path = path.parent().map_or(target.clone(), |parent| parent.join(target));
    }
    let parts = path.parent().zip(path.file_name());
    match parts.map(|(parent, name)| (parent.canonicalize(), name)) {
        Some((Ok(parent), name)) => parent.join(name),
        Some((Err(_), _)) => path,
        None => path.canonicalize().unwrap_or(path),
    }
}

fn mount_group(paths: &Paths, group: &str, directory: &Path, options: &str) -> Result<()> {
    // Links are followed here: the instance, which may have another working directory, gets the
    // real path.
    let real = directory.canonicalize().map_err(|error| {
        SqlError::new("22023", format!("mount point {}: {error}", directory.display()))
    })?;
    let words: Vec<&str> =
        options.split(',').filter(|word| word.trim() != mount::REMOUNT).collect();
    let others = words.join(",");
    MountOptions::parse(&others).map_err(SqlError::from)?;
    let group = group_name(group)?;
    let instance = Client::connect(paths)?;
    if words.len() < options.split(',').count() {
        return instance.remount(&real, &others);
    }
    instance.mount(&group, &real, options)
}

/// `mount -t fuse.plinth DATA /mnt` calls this program by another name.
pub(super) fn helper(arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let request = mount::parse_mount_helper_args(arguments).map_err(SqlError::from)?;
    if request.fake {
        return Ok(ExitCode::SUCCESS);
    }
    let given = std::env::var_os("PLINTH_DIR").filter(|dir| !dir.is_empty());
    let dir = given.map_or_else(|| PathBuf::from(DEFAULT_DIR), PathBuf::from);
    let mut options = options_text(request.options);
    if request.remount {
        options = format!("{},{options}", mount::REMOUNT);
    }
    mount_group(&Paths::new(&dir, None), &request.group, &request.directory, &options)?;
    if request.verbose {
        print(&format!("{} is mounted on {}\n", request.group, request.directory.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The list that `MountOptions::parse` understands.
fn options_text(options: MountOptions) -> String {
    let MountOptions { read_only, no_devices, no_set_id, no_programs, synchronous } = options;
    let words = [
        (read_only, "ro"),
        (no_devices, "nodev"),
        (no_set_id, "nosuid"),
        (no_programs, "noexec"),
        (synchronous, "sync"),
    ];
    words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect::<Vec<_>>().join(",")
}
