//! `cp`: files into a disk group, out of it, and between groups.
//!
//! `+GROUP/path` is in a group, `/path` on the host. Any other name is in the shell's current
//! directory, or on the host if that is `+`, as it always is for `plinth cp`. If the target is
//! `+GROUP`, `+GROUP(template)` or `+GROUP(template)/alias`, the system names the file.
//! `copying.rs` copies the bytes.

use super::{
    Result, asm_path, complain,
    context::{Context, Headings, Run, asmcmd},
    copying::{End, Job, copy_all},
    files, print,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
};
use clap::Args;
use plinth_engine::{admin::Value, api::Kind, files::statements::NewSystemFile};
use std::{
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Bytes from which the system recognises the type of a file.
const HEAD: u64 = 1 << 20;

/// Copy files: +GROUP/path on at least one side.
#[derive(Debug, Args)]
pub(super) struct Cp {
    /// Directories too, with all that is in them.
    #[arg(short)]
    recursive: bool,
    /// Replace files without asking, as it always does without a terminal.
    #[arg(short, conflicts_with = "interactive")]
    force: bool,
    /// Ask before something is replaced.
    #[arg(short)]
    interactive: bool,
    /// Changes nothing: every copy is made by this host.
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    foreign: Foreign,
    /// What to copy, and then where to: * and % are wildcards in groups.
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<String>,
}

/// Flags of `asmcmd` for what is not there: they are known, so that the refusal says why.
#[derive(Debug, Default, Args)]
struct Foreign {
    #[arg(long, hide = true)]
    target: Option<String>,
    #[arg(long = "service_name", hide = true)]
    service_name: Option<String>,
    #[arg(long, hide = true)]
    port: Option<String>,
    #[arg(long = "dest_dbname", hide = true)]
    dest_dbname: Option<String>,
    #[arg(long, hide = true)]
    sparse: bool,
    #[arg(long = "sparse_merge_begin", hide = true)]
    sparse_merge_begin: Option<String>,
    #[arg(long = "sparse_merge_end", hide = true)]
    sparse_merge_end: Option<String>,
}

/// The source or the target of a copy.
#[derive(Debug, Clone)]
enum Side {
    Local(PathBuf),
    Group(asm_path::AsmPath),
}

fn side(context: &Context, text: &str) -> Result<Side> {
    let is_local = text.starts_with('/') || context.here.group.is_none() && !text.starts_with('+');
    if is_local && text.split('/').next().is_some_and(|start| start.contains(':')) {
        return Err(SqlError::new("0A000", format!("{text}: files are not copied to other hosts"))
            .hint("copy to a file of this host, and from there; ./NAME is a file with a colon in its name"));
    }
    Ok(if is_local { Side::Local(PathBuf::from(text)) } else { Side::Group(context.place(text)) })
}

impl Side {
    fn child(&self, name: &str) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.join(name)),
            Self::Group(place) => Self::Group(place.child(name)),
        }
    }

    fn end(&self) -> Result<End> {
        Ok(match self {
            Self::Local(path) => End::Local(path.clone()),
            Self::Group(place) => End::Group(place.group()?.to_owned(), place.inside()),
        })
    }

    fn is_directory(&self, context: &Context) -> bool {
        match self {
            Self::Local(path) => path.is_dir(),
            Self::Group(place) => context
                .engine(place.group.as_deref().unwrap_or_default())
                .and_then(|engine| asm_path::find(&engine, place))
                .is_ok_and(|found| found.is_directory()),
        }
    }

    /// Makes a directory unless it is there.
    fn make_directory(&self, context: &Context) -> Result<()> {
        if self.is_directory(context) {
            return Ok(());
        }
        match self {
            Self::Local(path) => fs::create_dir(path).map_err(|error| local(path, &error)),
            Self::Group(place) => files::make_directory(&context.engine(place.group()?)?, place),
        }
    }
}

fn local(path: &Path, error: &std::io::Error) -> SqlError {
    SqlError::new("58030", format!("{}: {error}", path.display()))
}

/// A file or directory to be copied.
struct Source {
    side: Side,
    name: String,
    is_directory: bool,
    size: u64,
    /// Nanoseconds since 1970.
    modified: i64,
    mode: u32,
    owner: Option<(u32, u32)>,
    node: u64,
}

fn of_host(path: &Path) -> Result<Source> {
    let found = fs::metadata(path).map_err(|error| local(path, &error))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !found.is_dir() && !found.is_file() {
        return Err(SqlError::new("22023", format!("{} is no regular file", path.display())));
    }
    Ok(Source {
        side: Side::Local(path.to_owned()),
        name,
        is_directory: found.is_dir(),
        size: found.len(),
        modified: found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec()),
        mode: found.mode() & 0o777,
        owner: None,
        node: 0,
    })
}

fn of_group(found: asm_path::Found) -> Result<Source> {
    let is_directory = found.is_directory();
    if !is_directory && found.info.kind != Kind::Regular {
        return Err(SqlError::new("22023", format!("{} is no regular file", found.place))
            .hint("mount the group and use cp of the system"));
    }
    Ok(Source {
        name: found.place.parts.last().cloned().unwrap_or_default(),
        is_directory,
        size: found.info.size,
        modified: found.info.modified,
        mode: found.info.mode & 0o777,
        owner: Some((found.info.uid, found.info.gid)),
        node: found.info.node,
        side: Side::Group(found.place),
    })
}

/// All files and directories that one of the source arguments names.
fn sources(context: &Context, text: &str) -> Result<Vec<Source>> {
    match side(context, text)? {
        Side::Local(path) => Ok(vec![of_host(&path)?]),
        Side::Group(place) => {
            asm_path::expand(context, &place)?.into_iter().map(of_group).collect()
        }
    }
}

/// The entries of a directory.
fn within(context: &Context, source: &Source) -> Result<Vec<Source>> {
    match &source.side {
        Side::Local(path) => {
            let failed = |error: std::io::Error| local(path, &error);
            let mut paths = Vec::new();
            for entry in fs::read_dir(path).map_err(failed)? {
                paths.push(entry.map_err(failed)?.path());
            }
            paths.sort();
            paths.iter().map(|path| of_host(path)).collect()
        }
        Side::Group(place) => {
            let engine = context.engine(place.group()?)?;
            asm_path::entries(&engine, place)?.into_iter().map(of_group).collect()
        }
    }
}

/// `+DATA`, `+DATA(template)`, `+DATA(template)/alias`: the group, and the file that the system is
/// to name there.
fn system_target(text: &str) -> Option<(String, NewSystemFile)> {
    let rest = text.strip_prefix('+')?;
    let (group, rest) = rest.split_at(rest.find(['/', '.', '(']).unwrap_or(rest.len()));
    let group = Some(group.to_uppercase()).filter(|group| !group.is_empty())?;
    let (template, alias) = match rest {
        "" => (None, None),
        rest => {
            let (template, alias) = rest.strip_prefix('(')?.split_once(')')?;
            (Some(template.to_owned()), Some(alias).filter(|alias| !alias.is_empty()))
        }
    };
    let alias = alias.map(|alias| format!("+{group}{alias}"));
    Some((group, NewSystemFile { template, alias, ..NewSystemFile::default() }))
}

/// Makes the file under a system name. The source's name and its first bytes tell the system the
/// type.
fn make_system(
    context: &Context,
    source: &Source,
    group: &str,
    new: &NewSystemFile,
) -> Result<Job> {
    let from = source.side.end()?;
    let head = match &source.side {
        Side::Local(path) => {
            let mut head = Vec::new();
            let file = fs::File::open(path).map_err(|error| local(path, &error))?;
            file.take(HEAD).read_to_end(&mut head).map_err(|error| local(path, &error))?;
            head
        }
        Side::Group(place) => {
            context.engine(place.group()?)?.read(source.node, 0, HEAD as usize)?
        }
    };
    let new = NewSystemFile { source: Some(from.text()), ..new.clone() };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (_, path) = context.engine(group)?.make_system(new, &head, source.mode, (uid, gid))?;
    let to = Side::Group(context.place(&path)).end()?;
    let (size, modified, mode) = (source.size, source.modified, source.mode);
    Ok(Job { from, to, size, modified, in_place: true, mode, uid, gid })
}

impl Cp {
    /// Adds the jobs that copy one source to one place.
    fn plan(
        &self,
        context: &Context,
        source: &Source,
        to: &Side,
        jobs: &mut Vec<Job>,
    ) -> Result<()> {
        if source.is_directory {
            if !self.recursive {
                let what = source.side.end()?.text();
                return Err(SqlError::new("22023", format!("{what} is a directory"))
                    .hint("-r copies it with all that is in it"));
            }
            to.make_directory(context)?;
            for inner in within(context, source)? {
                self.plan(context, &inner, &to.child(&inner.name), jobs)?;
            }
            return Ok(());
        }
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let (mut mode, mut owner) = (source.mode, source.owner.unwrap_or(own));
        let mut to = to.clone();
        let mut is_there = false;
        match &to {
            Side::Group(place) => {
                let engine = context.engine(place.group()?)?;
                if let Ok(there) = asm_path::find(&engine, place) {
                    let same =
                        matches!(&source.side, Side::Group(from) if from.group == place.group);
                    if same && there.info.node == source.node {
                        return Err(SqlError::new("22023", "both names are the same file"));
                    }
                    if there.info.kind != Kind::Regular || there.info.links > 1 {
                        return Err(SqlError::new(
                            "22023",
                            format!("{} is there, and cannot be replaced", there.place),
                        )
                        .hint(if there.info.links > 1 {
                            "it has other names; remove it first"
                        } else {
                            "remove it first"
                        }));
                    }
                    (mode, owner) = (there.info.mode & 0o777, (there.info.uid, there.info.gid));
                    is_there = true;
                    to = Side::Group(there.place);
                } else {
                    to = Side::Group(asm_path::new_name(&engine, place)?);
                }
            }
            Side::Local(path) => {
                if let Ok(there) = fs::metadata(path) {
                    if !there.is_file() {
                        return Err(SqlError::new(
                            "22023",
                            format!("{} is no regular file", path.display()),
                        ));
                    }
                    mode = there.mode() & 0o777;
                    is_there = true;
                    // The file is replaced, not a link to it.
                    to = Side::Local(path.canonicalize().map_err(|error| local(path, &error))?);
                }
            }
        }
        let to = to.end()?;
        if is_there
            && self.interactive
            && !context.sure(&format!("{} is there. Replace it?", to.text()))?
        {
            return Ok(());
        }
        let from = source.side.end()?;
        let (size, modified, in_place) = (source.size, source.modified, false);
        jobs.push(Job { from, to, size, modified, in_place, mode, uid: owner.0, gid: owner.1 });
        Ok(())
    }
}

impl Foreign {
    /// Refuses the first of these flags that is given, by its name.
    fn refuse(&self) -> Result<()> {
        let hosts = "files are not copied to other hosts and instances";
        let sparse = "there are no sparse files of other files";
        let given = [
            (self.target.is_some(), "--target", hosts),
            (self.service_name.is_some(), "--service_name", hosts),
            (self.port.is_some(), "--port", hosts),
            (self.dest_dbname.is_some(), "--dest_dbname", "files have no database in their names"),
            (self.sparse, "--sparse", sparse),
            (self.sparse_merge_begin.is_some(), "--sparse_merge_begin", sparse),
            (self.sparse_merge_end.is_some(), "--sparse_merge_end", sparse),
        ];
        match given.into_iter().find(|(is_given, ..)| *is_given) {
            Some((_, flag, why)) => {
                Err(SqlError::new(state::NOT_SUPPORTED, format!("{flag}: {why}"))
                    .hint("leave it out to copy within this instance and its host"))
            }
            None => Ok(()),
        }
    }
}

/// Copies one file of the host into a group, as `cp FROM TO` does.
pub(super) fn copy(context: &mut Context, from: &Path, to: &str) -> Result<()> {
    let paths = vec![from.display().to_string(), to.to_owned()];
    let cp = Cp {
        recursive: false,
        force: false,
        interactive: false,
        local: true,
        foreign: Foreign::default(),
        paths,
    };
    cp.run(context)
}

impl Run for Cp {
    fn run(&self, context: &mut Context) -> Result<()> {
        self.foreign.refuse()?;
        let Some((last, first)) = self.paths.split_last() else { return Ok(()) };
        let mut all = Vec::new();
        for text in first {
            all.extend(sources(context, text)?);
        }
        if let Some((group, new)) =
            system_target(last).filter(|_| all.iter().all(|source| !source.is_directory))
        {
            context.engine(&group)?;
            let made = |source| make_system(context, source, &group, &new);
            let jobs = all.iter().map(made).collect::<Result<Vec<_>>>()?;
            return carry_out(context, &jobs);
        }
        let target = side(context, last)?;
        if matches!(target, Side::Local(_))
            && all.iter().any(|source| matches!(source.side, Side::Local(_)))
        {
            return Err(SqlError::new("22023", "neither side is in a disk group")
                .hint("write +GROUP/path for one"));
        }
        if let Side::Group(place) = &target {
            context.engine(place.group()?)?;
        }
        let into = target.is_directory(context);
        if all.len() > 1 && !into {
            return Err(asmcmd(
                8006,
                format!("entry '{last}' does not refer to a valid directory"),
            )
            .hint("several files are copied into a directory"));
        }
        let mut jobs = Vec::new();
        for source in &all {
            let to = if into { target.child(&source.name) } else { target.clone() };
            self.plan(context, source, &to, &mut jobs)?;
        }
        carry_out(context, &jobs)
    }
}

/// Copies, and reports the results.
fn carry_out(context: &mut Context, jobs: &[Job]) -> Result<()> {
    let json = context.json;
    let begun = move |job: &Job| {
        if !json {
            let line = format!("copying {} -> {}", job.from.text(), job.to.text());
            print(&format!("{}\n", crate::text::clean(&line)));
        }
    };
    let done = copy_all(&context.paths, jobs, &context.interrupted, &begun);
    let mut rows = Vec::new();
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    for (job, copied) in jobs.iter().zip(done) {
        let (from, to) = (job.from.text(), job.to.text());
        match copied {
            Ok(copied) => rows.push(vec![
                Value::Text(from),
                Value::Text(to),
                number(job.size),
                Value::Text(format!("{:016x}", copied.checksum)),
                number(copied.resumed),
            ]),
            Err(refusal) => {
                let text =
                    format!("copy source '{from}' and target '{to}' failed: {}", refusal.message);
                complain(&SqlError { message: asmcmd(8016, text).message, ..refusal });
                context.status = 1;
            }
        }
    }
    if json {
        let columns = [("From", Type::Text), ("To", Type::Text), ("Bytes", Type::Integer)];
        let more = [("Checksum", Type::Text), ("Resumed", Type::Integer)];
        let columns = columns
            .into_iter()
            .chain(more)
            .map(|(name, kind)| Column { name: name.to_owned(), kind });
        context.show(&Table { columns: columns.collect(), rows }, Headings::default());
    }
    Ok(())
}
