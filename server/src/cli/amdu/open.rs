//! The disks that `amdu` is given, their groups, and a copy of a group's catalog.

use super::{
    super::{Result, raw_disk::world, warn},
    dump_file::DumpedDisk,
};
use crate::sql_error::{SqlError, state};
use plinth_engine::{
    admin::{AdminError, Code},
    catalog::{CatalogError, copied::CopiedTables},
    group::offline::{
        self, OfflineGroup,
        catalog::CopiedCatalog,
        contents::{Contents, ListedFile},
    },
    words::counted,
    world::{Disk, Found, World},
};
use plinth_format::page::PAGE_SIZE;
use plinth_host::{RealWorld, one_pattern, pattern_of};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// The groups of the disks that were given.
pub(super) struct Opened {
    pub world: RealWorld,
    pub groups: Vec<OfflineGroup>,
    /// Disks of none of them: path and reason.
    pub others: Vec<(String, String)>,
}

impl Opened {
    /// Opens what the arguments name.
    ///
    /// # Errors
    /// If one of them is no disk, no dump and no pattern of one.
    pub(super) fn open(arguments: &[String]) -> Result<Self> {
        let world = world()?;
        let (mut dumps, mut patterns) = (Vec::new(), Vec::new());
        for argument in arguments {
            // Disks are looked for by another process, elsewhere.
            let path = std::path::absolute(argument).unwrap_or_else(|_| argument.into());
            let pattern = path.to_string_lossy().into_owned();
            let path = path.as_path();
            if path.is_dir() {
                dumps.extend(DumpedDisk::all_in(path)?);
            } else if DumpedDisk::is_one(path) {
                dumps.push(DumpedDisk::open(path)?);
            } else if fs::metadata(path).is_ok_and(|about| !is_disk(&about)) {
                let text = format!("{argument} is neither a block device nor a regular file");
                return Err(AdminError::new(Code::CannotOpen, text).into());
            } else if path.exists() {
                patterns.push(pattern_of(&pattern));
            } else if argument.contains(['*', '?', '[']) {
                patterns.push(one_pattern(&pattern));
            } else {
                let text = format!("{argument}: there is no such disk, image or directory");
                return Err(AdminError::new(Code::CannotOpen, text).into());
            }
        }
        world.set_diskstring(&patterns.join(",")).map_err(|error| SqlError::new("22023", error))?;
        let mut found =
            if patterns.is_empty() { Vec::new() } else { plinth_host::block_on(world.discover()) };
        found.extend(dumps.into_iter().map(|dump| Found {
            path: dump.path().to_owned(),
            identity: dump.identity(),
            disk: Ok(Arc::new(dump)),
        }));
        if found.is_empty() {
            let text = "no disk was found".to_owned();
            return Err(AdminError::new(Code::NoGroup, text).hint("name the disks").into());
        }
        let offline::Looked { groups, others } = offline::look(&world, found);
        Ok(Self { world, groups, others })
    }

    /// The group that is meant.
    pub(super) fn choose(&self, name: Option<&str>) -> Result<usize> {
        let mut wanted = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| name.is_none_or(|name| name == group.name));
        let names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        match (wanted.next(), wanted.next()) {
            (Some((at, _)), None) => Ok(at),
            (Some(_), Some(_)) => {
                let text = format!("the disks are of several disk groups: {}", names.join(", "));
                let hint = "--group NAME says which; name the disks of one where both have a name";
                Err(AdminError::new(Code::Invalid, text).hint(hint).into())
            }
            (None, _) => {
                let reasons = self.others.iter().map(|(path, why)| format!("{path}: {why}"));
                let known = names.into_iter().map(|name| format!("disk group {name} is there"));
                let all: Vec<String> = reasons.chain(known).collect();
                let text = format!("no disk group that can be read: {}", all.join("; "));
                Err(AdminError::new(Code::NoGroup, text).into())
            }
        }
    }

    /// Says what a mount would warn of.
    pub(super) fn disks_that_could_not_be_read(&self, at: usize) {
        for (path, why) in &self.others {
            warn(&format!("note: {path}: {why}\n"));
        }
        let Some(group) = self.groups.get(at) else { return };
        for remark in &group.remarks {
            warn(&format!("note: {remark}\n"));
        }
        if group.is_in_use {
            warn("note: an engine uses the group: what it writes meanwhile may be missing\n");
        } else if group.membership.mounted {
            warn(
                "note: the group was not dismounted in good order: files that grew last may be \
                 longer than the catalog says; a mount on its own host would know\n",
            );
        }
    }
}

fn is_disk(about: &fs::Metadata) -> bool {
    about.file_type().is_block_device() || about.is_file()
}

/// Removes a file that was made for the time of the command.
struct Temporary(PathBuf);

impl Temporary {
    fn new(what: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plinth-amdu-{what}-{}-{count}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A copy of a group's catalog in files.
pub(super) struct Copy {
    catalog: Temporary,
    rows: Temporary,
    copied: CopiedCatalog,
}

/// Copies the catalog of a group to a new file.
///
/// # Errors
/// If no mirror of it is there, or the file cannot be written: then it is removed again.
pub(super) fn copy_catalog(
    world: &dyn World,
    group: &OfflineGroup,
    path: &Path,
) -> Result<CopiedCatalog> {
    let cannot = |error: &std::io::Error| {
        SqlError::from(AdminError::new(Code::Io, format!("{}: {error}", path.display())))
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| cannot(&error))?;
    let copied = write_pages(world, group, &file, &cannot);
    if copied.is_err() {
        let _ = fs::remove_file(path);
    }
    copied
}

fn write_pages(
    world: &dyn World,
    group: &OfflineGroup,
    file: &File,
    cannot: &dyn Fn(&std::io::Error) -> SqlError,
) -> Result<CopiedCatalog> {
    let size = PAGE_SIZE as u64;
    let place = |number: u32| u64::from(number.saturating_sub(1)) * size;
    let mut failed = None;
    let mut put = |number: u32, page: &[u8]| {
        file.write_all_at(page, place(number)).map_err(|error| {
            let text = error.to_string();
            failed = Some(error);
            CatalogError::Damaged(text)
        })
    };
    let copied = offline::catalog::copy(world, group, &mut put);
    if let Some(error) = failed {
        return Err(cannot(&error));
    }
    let copied = copied.map_err(|error| {
        SqlError::from(
            AdminError::new(
                Code::Damaged,
                format!("disk group {}: its catalog cannot be read: {error}", group.name),
            )
            .hint("amdu --report says what is on the disks; name more of them"),
        )
    })?;
    let blank = [0; PAGE_SIZE];
    copied
        .damaged
        .iter()
        .try_for_each(|number| file.write_all_at(&blank, place(*number)))
        .and_then(|()| file.set_len(u64::from(copied.pages) * size))
        .and_then(|()| file.sync_all())
        .map_err(|error| cannot(&error))?;
    Ok(copied)
}

/// Says what is wrong with the mirrors of a catalog.
pub(super) fn say_damage(copied: &CopiedCatalog) {
    for (mirror, pages) in &copied.wrong {
        warn(&format!(
            "note: mirror {mirror} of the catalog: {} damaged, old or not there\n",
            counted(*pages, "page")
        ));
    }
    for remark in &copied.remarks {
        warn(&format!("note: {remark}\n"));
    }
}

impl Copy {
    /// Copies the catalog of a group.
    ///
    /// # Errors
    /// As [`copy_catalog`].
    pub(super) fn of(opened: &Opened, at: usize) -> Result<Self> {
        let (catalog, rows) = (Temporary::new("catalog"), Temporary::new("rows"));
        let copied = copy_catalog(&opened.world, &opened.groups[at], &catalog.0)?;
        say_damage(&copied);
        Ok(Self { catalog, rows, copied })
    }

    /// Its files; of a damaged one, those whose rows can be read.
    ///
    /// # Errors
    /// If the copy is no catalog.
    pub(super) fn contents<'a>(&self, opened: &'a Opened, at: usize) -> Result<Contents<'a>> {
        let refuse = |error: &dyn std::fmt::Display| {
            SqlError::from(AdminError::new(Code::Damaged, format!("the copied catalog: {error}")))
        };
        let is_damaged = !self.copied.damaged.is_empty();
        let tables = match is_damaged {
            true => None,
            false => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = Connection::open_with_flags(&self.catalog.0, flags)
                    .map_err(|error| refuse(&error))?;
                CopiedTables::new(connection).map_err(|error| refuse(&error))?
            }
        };
        let tables = match tables {
            Some(tables) => tables,
            None => self.salvage().map_err(|error| refuse(&error))?,
        };
        Contents::new(&opened.world, &opened.groups[at], tables, is_damaged)
            .map_err(|error| refuse(&error))
    }

    fn salvage(&self) -> std::result::Result<CopiedTables, CatalogError> {
        let copy = File::open(&self.catalog.0);
        let page = |number: u32| {
            if self.copied.damaged.binary_search(&number).is_ok() {
                return None;
            }
            let mut page = vec![0; PAGE_SIZE];
            let offset = u64::from(number.checked_sub(1)?) * PAGE_SIZE as u64;
            copy.as_ref().ok()?.read_exact_at(&mut page, offset).ok()?;
            Some(page)
        };
        // A file that another program put there is not used.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.rows.0);
        made.map_err(|error| CatalogError::Damaged(format!("{}: {error}", self.rows.0.display())))?;
        let new = Connection::open(&self.rows.0)?;
        let (tables, salvaged) = CopiedTables::salvage(new, &page, self.copied.pages)?;
        if !self.copied.damaged.is_empty() {
            let lost = counted(self.copied.damaged.len(), "page");
            warn(&format!(
                "note: {lost} of the catalog damaged on every mirror: files and parts of files are missing\n"
            ));
        }
        if salvaged.strays > 0 {
            warn(&format!(
                "note: {} of the catalog found where no page leads any more: some may be of \
                 deleted files\n",
                counted(salvaged.strays, "row")
            ));
        }
        Ok(tables)
    }
}

/// All files.
pub(super) fn all_files(contents: &Contents<'_>) -> Result<Vec<ListedFile>> {
    contents.list().map_err(|error| of_sqlite(&error))
}

/// The refusal for a copy that SQLite cannot read.
pub(super) fn of_sqlite(error: &rusqlite::Error) -> SqlError {
    SqlError::new(state::BAD_DATA, format!("the copied catalog: {error}"))
}

/// The file or directory that a name means: a path in the group, or the number of a file, with the
/// group's name before it or not.
pub(super) fn find<'a>(
    group: &OfflineGroup,
    files: &'a [ListedFile],
    name: &str,
) -> Result<&'a ListedFile> {
    let bare = name.trim_start_matches('+');
    let own = format!("{}/", group.name);
    let path = match bare.get(..own.len()) {
        Some(begin) if name.starts_with('+') && begin.eq_ignore_ascii_case(&own) => {
            bare.get(own.len()..).unwrap_or_default()
        }
        _ => bare.trim_start_matches('/'),
    };
    let path = path.trim_end_matches('/');
    let number = bare.strip_prefix(&format!("{}.", group.name)).unwrap_or(bare).parse();
    let by_path = files.iter().find(|file| file.paths.iter().any(|one| one == path.as_bytes()));
    by_path.or_else(|| files.iter().find(|file| number == Ok(file.node))).ok_or_else(|| {
        let text = format!("disk group {} has no file '{name}' that can be found", group.name);
        SqlError::new("22023", text).hint("amdu --list lists what can be found")
    })
}

/// A path as people read it.
pub(super) fn shown(path: &[u8]) -> String {
    crate::text::clean(&String::from_utf8_lossy(path))
}
