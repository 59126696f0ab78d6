//! `amdu --extract`: files out of a group that is not mounted.
//!
//! Holes stay holes. Every block is checked, and what is not whole is listed: a file never comes
//! out wrong without a line about it, and the exit code tells. Where a block is missing or damaged
//! the file has zeros. Nothing in the output directory is written over.

use super::{
    super::{
        Result,
        context::{Context, Headings},
        table::Cells,
        warn,
    },
    list::{number, status, table, text},
    open::{Copy, Opened, all_files, copy_catalog, find, of_sqlite, say_damage, shown},
};
use crate::{
    query::views::Type,
    sql_error::{SqlError, state},
};
use plinth_engine::{
    admin::{AdminError, Code, Value},
    api::{Attributes, Kind},
    group::offline::contents::{Contents, ListedFile, ReadError, Trouble, TroubledRange},
    words::counted,
};
use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

/// `amdu --extract-catalog`.
pub(super) fn catalog(
    context: &mut Context,
    opened: &Opened,
    at: usize,
    path: &Path,
) -> Result<()> {
    let copied = copy_catalog(&opened.world, &opened.groups[at], path)?;
    say_damage(&copied);
    let pages = counted(copied.pages, "page");
    if copied.damaged.is_empty() {
        context.say(format!("{}: {pages}", path.display()));
        return Ok(());
    }
    context.say(format!(
        "{}: {pages}, of which {} damaged on every mirror and zeros here",
        path.display(),
        copied.damaged.len()
    ));
    context.status = super::INCOMPLETE;
    Ok(())
}

/// The files that are extracted, and what was said of them.
struct Extraction<'a> {
    contents: &'a Contents<'a>,
    output: &'a Path,
    rows: Vec<Vec<Value>>,
    worst: Option<Trouble>,
    files: u64,
    bytes: u64,
}

pub(super) fn extract(
    context: &mut Context,
    opened: &Opened,
    at: usize,
    contents: &Contents<'_>,
    (wanted, output): (&str, &Path),
) -> Result<()> {
    let group = &opened.groups[at];
    let all = all_files(contents)?;
    // Each file with the path that it gets.
    let chosen = if wanted.eq_ignore_ascii_case("ALL") {
        all.iter()
            .flat_map(|file| file.paths.iter().map(move |path| (file, path.clone())))
            .collect()
    } else {
        below(&all, find(group, &all, wanted)?)
    };
    let mut extraction =
        Extraction { contents, output, rows: Vec::new(), worst: None, files: 0, bytes: 0 };
    make_directory(output)?;
    let mut done = extraction.run(&chosen);
    if group.is_in_use && done.is_ok() {
        done = extraction.note_moved(&chosen, opened, at);
    }
    let Extraction { rows, worst, files, bytes, .. } = extraction;
    if !rows.is_empty() {
        let columns = [
            ("File", Type::Text),
            ("Offset", Type::Integer),
            ("Bytes", Type::Integer),
            ("State", Type::Text),
            ("Disks", Type::Text),
        ];
        let cells = Cells { phrases: &["State"], ..Cells::default() };
        context.show_cells(&table(&columns, rows), Headings::default(), cells);
    }
    let size = crate::text::bytes_pretty(i64::try_from(bytes).unwrap_or(i64::MAX));
    let end = match worst {
        None => "all whole".to_owned(),
        Some(Trouble::Unverified) => "whole, and some of it could not be verified".to_owned(),
        Some(_) => "NOT ALL WHOLE: see the list".to_owned(),
    };
    context.say(format!("{} with {size} in {}: {end}", counted(files, "file"), output.display()));
    context.status = status(worst);
    done
}

/// A file, or a directory with all that is in it, each with its path from that name on.
fn below<'a>(all: &'a [ListedFile], top: &'a ListedFile) -> Vec<(&'a ListedFile, Vec<u8>)> {
    let Some(path) = top.paths.first() else { return Vec::new() };
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let inside = [path.as_slice(), b"/"].concat();
    let is_below = |one: &[u8]| one == path.as_slice() || one.starts_with(&inside);
    all.iter()
        .flat_map(|file| file.paths.iter().map(move |path| (file, path)))
        .filter(|(_, one)| is_below(one))
        .filter_map(|(file, one)| Some((file, one.get(start..)?.to_vec())))
        .collect()
}

fn cannot(path: &Path, error: &io::Error) -> SqlError {
    let refusal = AdminError::new(Code::Io, format!("{}: {error}", path.display()));
    let hint = match error.kind() {
        io::ErrorKind::StorageFull => "what is whole was kept; --output DIR with more room",
        io::ErrorKind::AlreadyExists => "nothing is written over: --output names a new directory",
        _ => return refusal.into(),
    };
    refusal.hint(hint).into()
}

fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| cannot(path, &error))
}

impl Extraction<'_> {
    fn target(&self, path: &[u8]) -> PathBuf {
        self.output.join(OsStr::from_bytes(path))
    }

    fn run(&mut self, chosen: &[(&ListedFile, Vec<u8>)]) -> Result<()> {
        let of_kind = |kind| chosen.iter().filter(move |(file, _)| file.attributes.kind == kind);
        for (_, path) in of_kind(Kind::Directory) {
            make_directory(&self.target(path))?;
        }
        let mut first: Vec<(u64, PathBuf, Vec<TroubledRange>)> = Vec::new();
        for (file, path) in of_kind(Kind::Regular) {
            let target = self.target(path);
            if let Some(parent) = target.parent() {
                make_directory(parent)?;
            }
            // Another name of a file that is there already.
            match first.binary_search_by_key(&file.node, |(node, ..)| *node) {
                Ok(at) => {
                    let (_, other, troubles) = &first[at];
                    fs::hard_link(other, &target).map_err(|error| cannot(&target, &error))?;
                    troubles.iter().for_each(|trouble| self.note(path, trouble));
                }
                Err(at) => {
                    let troubles = self.file(&file.attributes, path, &target)?;
                    troubles.iter().for_each(|trouble| self.note(path, trouble));
                    first.insert(at, (file.node, target, troubles));
                }
            }
        }
        // Links last: nothing is written through one.
        for (file, path) in of_kind(Kind::Symlink) {
            let target = self.target(path);
            let leads_to =
                self.contents.link_target(file.node).map_err(|error| of_sqlite(&error))?;
            let leads_to = leads_to.unwrap_or_default();
            symlink(OsStr::from_bytes(&leads_to), &target)
                .map_err(|error| cannot(&target, &error))?;
        }
        for (file, path) in chosen {
            if !matches!(file.attributes.kind, Kind::Directory | Kind::Regular | Kind::Symlink) {
                let kind = format!("{:?}", file.attributes.kind).to_lowercase();
                warn(&format!("note: {} is a {kind}, and is left out\n", shown(path)));
            }
        }
        for (file, path) in of_kind(Kind::Directory).collect::<Vec<_>>().into_iter().rev() {
            finish(&file.attributes, &self.target(path))?;
        }
        let directory = File::open(self.output).and_then(|file| Ok(rustix::fs::syncfs(file)?));
        directory.map_err(|error| cannot(self.output, &error))
    }

    /// Extracts one file; returns what is not whole.
    fn file(
        &mut self,
        attributes: &Attributes,
        path: &[u8],
        target: &Path,
    ) -> Result<Vec<TroubledRange>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
        let file = file.map_err(|error| cannot(target, &error))?;
        let mut written = 0;
        let read = file.set_len(attributes.size).map_err(ReadError::from).and_then(|()| {
            let mut put = |offset: u64, bytes: &[u8]| {
                written += bytes.len() as u64;
                file.write_all_at(bytes, offset)
            };
            self.contents.read(attributes, &mut put)
        });
        let troubles = match read {
            Ok(troubles) => troubles,
            Err(error) => {
                // A part of a file must not be taken for the whole.
                let _ = fs::remove_file(target);
                return Err(match error {
                    ReadError::Put(error) => cannot(target, &error),
                    ReadError::Catalog(error) => {
                        SqlError::new(state::BAD_DATA, format!("{}: {error}", shown(path)))
                    }
                });
            }
        };
        drop(file);
        finish(attributes, target)?;
        self.files += 1;
        self.bytes += written;
        Ok(troubles)
    }

    /// An engine may have moved or removed files while they were read. A file that lies elsewhere
    /// now was perhaps read from space that another file had got.
    fn note_moved(
        &mut self,
        chosen: &[(&ListedFile, Vec<u8>)],
        opened: &Opened,
        at: usize,
    ) -> Result<()> {
        let copy = Copy::of(opened, at)?;
        let now = copy.contents(opened, at)?;
        for (file, path) in chosen {
            let has_moved = now.has_moved(self.contents, file.node);
            if has_moved.map_err(|error| of_sqlite(&error))? {
                let range = 0..file.attributes.size;
                let disks = Vec::new();
                self.note(path, &TroubledRange { range, trouble: Trouble::Unverified, disks });
            }
        }
        Ok(())
    }

    fn note(&mut self, path: &[u8], trouble: &TroubledRange) {
        self.worst = self.worst.max(Some(trouble.trouble));
        let disks: Vec<String> = trouble.disks.iter().map(ToString::to_string).collect();
        self.rows.push(vec![
            text(shown(path)),
            number(trouble.range.start),
            number(trouble.range.end - trouble.range.start),
            text(trouble.trouble),
            text(disks.join(",")),
        ]);
    }
}

/// Gives a file its owner, its permissions and its time. Only root can give files away: others own
/// what they extract.
fn finish(attributes: &Attributes, target: &Path) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(target, Some(attributes.uid), Some(attributes.gid))
            .map_err(|error| cannot(target, &error))?;
    }
    let modified = u64::try_from(attributes.modified).unwrap_or(0);
    let times = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_nanos(modified));
    File::open(target)
        .and_then(|file| file.set_times(times))
        .and_then(|()| {
            fs::set_permissions(target, Permissions::from_mode(attributes.mode & 0o7777))
        })
        .map_err(|error| cannot(target, &error))
}
