//! Statements on names: directories, aliases, files under system names.
//!
//! A file that is made as `+DATA` or `+DATA(template)` gets a name from the system,
//! `+DATA/DB/TYPE/tag.number.incarnation`, in directories that are made for it. It may have more
//! names: aliases, which are hard links like all others, so that `stat` counts them. The entry of a
//! name records whether the system made it; statements neither rename nor drop such a name.
//! Dropping the file removes all its names, and the system's directories that are empty then.
//! Through a mount POSIX's rules hold, as for any other file: a name that is renamed there is not
//! the system's any more, and directories stay until they are removed.
//!
//! A statement is one job, whatever it lists: all of it is done, or nothing. Names are found in any
//! case first, in a snapshot (`paths.rs`); the job goes by the exact ones. A file that it removes
//! is an orphan when the job ends, and is released by jobs of its own, as if the last reference of
//! a front end had gone: a crash in between leaves an orphan for the next mount.

use super::{
    Files, Origin, Result,
    names::{Edits, GivenProperties, Made, Rename, check_name, type_after},
    paths::{Form, Spelled, exactly, number_pair, parse, written},
    statements::NewSystemFile,
    templates,
};
use crate::{
    admin::{AdminError, Code, NameOrder},
    api::{Attributes, Caller, Invalidation, Kind, LINK_MAX, NewFile, Node, ROOT, types::FileType},
    catalog::tables::{entry, template::TemplateRow},
    error::FileError,
    world::Timestamp,
};
use plinth_format::Redundancy;
use rusqlite::Connection;
use std::{collections::BTreeSet, sync::Arc};

/// Names that a statement removes at most: more would delay all other changes.
const REMOVED_MAX: usize = 10_000;
/// The longest tag of a system name, in bytes.
const TAG_MAX: usize = 30;
/// The database of files for which no database is given, as in ASM's own tools.
const NO_DATABASE: &str = "ASM";

/// The session that gives a statement, and its group.
#[derive(Debug, Clone)]
pub struct StatementContext {
    pub origin: Origin,
    pub group: String,
    pub redundancy: Redundancy,
    /// Those with data, on disks that stay in the group.
    pub failure_groups: usize,
    pub caller: Caller,
}

fn refused(code: Code, text: String, hint: &str) -> FileError {
    let error = AdminError::new(code, text);
    FileError::Order(Box::new(if hint.is_empty() { error } else { error.hint(hint) }))
}

/// The text of a name, for messages.
fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

/// A tag or the name of a database, of what may stand in a system name.
fn plain(wanted: &str) -> String {
    let keep = |character: char| {
        if character.is_ascii_alphanumeric() || "_$#-".contains(character) {
            character
        } else {
            '_'
        }
    };
    wanted.chars().map(keep).take(TAG_MAX).collect()
}

/// A statement inside its job.
struct Job<'a> {
    edits: Edits<'a>,
    group: &'a str,
    now: Timestamp,
    changes: Vec<Invalidation>,
    gone: Vec<Node>,
    removed: usize,
}

impl<'a> Job<'a> {
    fn new(files: &'a Files, connection: &'a Connection, group: &'a str) -> Self {
        let now = files.world.now();
        Self {
            edits: Edits::new(files, connection),
            group,
            now,
            changes: Vec::new(),
            gone: Vec::new(),
            removed: 0,
        }
    }

    fn connection(&self) -> &'a Connection {
        self.edits.connection
    }

    fn note_entry(&mut self, parent: Node, name: &[u8]) {
        self.changes.push(Invalidation::Entry { parent, name: name.to_vec() });
    }

    fn written(&self, parts: &[Vec<u8>]) -> String {
        written(self.group, parts)
    }

    /// The directory and the name of a path of which the last part may not exist.
    fn place<'p>(&self, parts: &'p [Vec<u8>]) -> Result<(Node, &'p [u8])> {
        let Some((name, above)) = parts.split_last() else {
            return Err(refused(
                Code::Invalid,
                format!("+{} is the root of the disk group", self.group),
                "",
            ));
        };
        match exactly(self.connection(), above)? {
            Some((node, Kind::Directory)) => Ok((node, name)),
            Some(_) => Err(refused(
                Code::Invalid,
                format!("{} is not a directory", self.written(above)),
                "",
            )),
            None => {
                let text = format!("there is no directory {}", self.written(above));
                Err(refused(Code::NoSuchFile, text, "ADD DIRECTORY makes it"))
            }
        }
    }

    /// The directory, the name and the file of a path that exists.
    fn existing<'p>(&self, parts: &'p [Vec<u8>]) -> Result<(Node, &'p [u8], Node, Kind)> {
        let missing =
            || refused(Code::NoSuchFile, format!("there is no {}", self.written(parts)), "");
        let (parent, name) = self.place(parts)?;
        let (node, kind) = entry::find(self.connection(), parent, name)?.ok_or_else(missing)?;
        Ok((parent, name, node, kind))
    }

    /// A place for a new name.
    fn free<'p>(&self, path: &'p Spelled) -> Result<(Node, &'p [u8])> {
        let (parent, name) = self.place(&path.parts)?;
        check_name(name)?;
        if path.found.is_some() || entry::find(self.connection(), parent, name)?.is_some() {
            return Err(refused(
                Code::NameExists,
                format!("there is {} already", self.written(&path.parts)),
                "",
            ));
        }
        Ok((parent, name))
    }

    fn free_for_alias<'p>(&self, path: &'p Spelled) -> Result<(Node, &'p [u8])> {
        let (parent, name) = self.free(path)?;
        if number_pair(&text(name)).is_some() {
            let text = format!(
                "{} cannot be an alias: it ends in two numbers, as system names do",
                self.written(&path.parts)
            );
            return Err(refused(
                Code::Invalid,
                text,
                "choose a name that does not end in '.number.number'",
            ));
        }
        Ok((parent, name))
    }

    fn refuse_system(
        &self,
        parent: Node,
        name: &[u8],
        parts: &[Vec<u8>],
        hint: &str,
    ) -> Result<()> {
        if entry::is_system(self.connection(), parent, name)? {
            let text = format!(
                "{} was made by the system and is neither renamed nor dropped",
                self.written(parts)
            );
            return Err(refused(Code::SystemName, text, hint));
        }
        Ok(())
    }

    fn make_directory(
        &mut self,
        parent: Node,
        name: &[u8],
        caller: Caller,
        system: bool,
    ) -> Result<Node> {
        let made = Made {
            new: NewFile::Directory,
            mode: 0o755,
            caller,
            now: self.now,
            given: None,
            system,
        };
        let node = self.edits.make(parent, name, made)?.node;
        self.note_entry(parent, name);
        Ok(node)
    }

    fn count(&mut self) -> Result<()> {
        self.removed += 1;
        if self.removed > REMOVED_MAX {
            let text = format!("the statement would remove more than {REMOVED_MAX} names");
            return Err(refused(
                Code::Invalid,
                text,
                "remove what is inside first, where the disk group is mounted: rm -r",
            ));
        }
        Ok(())
    }

    /// Takes one name from a file or directory.
    fn remove_name(&mut self, parent: Node, name: &[u8], node: Node) -> Result<()> {
        self.count()?;
        entry::delete(self.connection(), parent, name)?;
        self.edits.name(parent, name, None);
        self.note_entry(parent, name);
        self.changes.push(Invalidation::Node(node));
        if self.edits.unlink(node, self.now)? {
            self.gone.push(node);
        }
        Ok(())
    }

    /// A directory that is empty, or with all that is in it.
    fn remove_directory(&mut self, parent: Node, name: &[u8], node: Node) -> Result<()> {
        let mut inside = vec![node];
        while let Some(directory) = inside.pop() {
            for child in entry::children(self.connection(), directory, REMOVED_MAX + 1)? {
                if child.is_directory {
                    inside.push(child.node);
                }
                self.remove_name(directory, &child.name, child.node)?;
            }
        }
        self.remove_name(parent, name, node)?;
        self.edits.touch_directory(parent, self.now)?.links -= 1;
        Ok(())
    }

    /// All names of a file, and the system's directories that are empty then.
    fn remove_file(&mut self, node: Node) -> Result<()> {
        for (parent, name) in entry::names_of(self.connection(), node)? {
            let system = entry::is_system(self.connection(), parent, &name)?;
            self.edits.touch_directory(parent, self.now)?;
            self.remove_name(parent, &name, node)?;
            let mut at = parent;
            while system && at != ROOT && entry::is_empty(self.connection(), at)? {
                let ((above, name), system) = entry::name_and_system(self.connection(), at)?;
                if !system {
                    break;
                }
                self.remove_name(above, &name, at)?;
                self.edits.touch_directory(above, self.now)?.links -= 1;
                at = above;
            }
        }
        Ok(())
    }

    fn add_alias(&mut self, path: &Spelled, node: Node) -> Result<()> {
        let (parent, name) = self.free_for_alias(path)?;
        self.edits.touch_directory(parent, self.now)?;
        let now = self.now;
        let file = self.edits.edit(node)?;
        if file.links >= LINK_MAX {
            return Err(FileError::TooManyLinks);
        }
        file.links += 1;
        file.changed = now;
        let kind = file.kind;
        entry::insert(self.connection(), parent, name, node, kind)?;
        self.edits.name(parent, name, Some((node, kind)));
        self.note_entry(parent, name);
        self.changes.push(Invalidation::Node(node));
        Ok(())
    }

    fn rename(&mut self, old: &Spelled, new: &Spelled, directories: bool) -> Result<()> {
        let (parent, name, node, kind) = self.existing(&old.parts)?;
        if directories != (kind == Kind::Directory) {
            let what = if directories { "not a directory" } else { "a directory" };
            let hint = if directories { "RENAME ALIAS" } else { "RENAME DIRECTORY" };
            return Err(refused(
                Code::Invalid,
                format!("{} is {what}", self.written(&old.parts)),
                hint,
            ));
        }
        self.refuse_system(parent, name, &old.parts, "ADD ALIAS gives it one more name")?;
        let mut new = new.clone();
        if new.found == Some((node, kind)) && new.parts == old.parts && new.last != name {
            // Its own name in another case does not stand in its way.
            new.parts.pop();
            new.parts.push(std::mem::take(&mut new.last));
            new.found = None;
        }
        let to = if directories { self.free(&new)? } else { self.free_for_alias(&new)? };
        let connection = self.connection();
        if !directories {
            let file = self.edits.edit(node)?.clone();
            let file_type = type_after(connection, &file, (parent, name), to)?;
            self.edits.edit(node)?.file_type = file_type;
        }
        let change = Rename {
            from: (parent, name.to_vec()),
            to: (to.0, to.1.to_vec()),
            source: (node, kind),
            now: self.now,
        };
        change.move_to_free(&mut self.edits).map_err(|error| match error {
            FileError::Invalid(why) => {
                refused(Code::Invalid, format!("{}: {why}", written(self.group, &old.parts)), "")
            }
            other => other,
        })?;
        let now = self.now;
        self.edits.edit(node)?.changed = now;
        self.note_entry(parent, name);
        self.note_entry(to.0, to.1);
        self.changes.push(Invalidation::Node(node));
        Ok(())
    }

    fn add_directories(&mut self, paths: &[Spelled], caller: Caller) -> Result<()> {
        let mut earlier: Vec<Vec<Vec<u8>>> = Vec::new();
        for path in paths {
            // A directory that this statement made is found in any case, too.
            let mut path = path.clone();
            for made in &earlier {
                if is_above(made, &path.parts) {
                    path.parts[..made.len()].clone_from_slice(made);
                }
            }
            let (parent, name) = self.free(&path)?;
            self.make_directory(parent, name, caller, false)?;
            earlier.push(path.parts);
        }
        Ok(())
    }

    fn drop_directory(&mut self, path: &Spelled, force: bool) -> Result<()> {
        let (parent, name, node, kind) = self.existing(&path.parts)?;
        if kind != Kind::Directory {
            let text = format!("{} is not a directory", self.written(&path.parts));
            return Err(refused(Code::Invalid, text, "DROP ALIAS or DROP FILE"));
        }
        self.refuse_system(parent, name, &path.parts, "it goes with the last file in it")?;
        if !force && !entry::is_empty(self.connection(), node)? {
            let text = format!("{} is not empty", self.written(&path.parts));
            let hint = "DROP DIRECTORY ... FORCE removes all that is in it";
            return Err(refused(Code::NotEmpty, text, hint));
        }
        self.remove_directory(parent, name, node)
    }

    fn drop_alias(&mut self, path: &Spelled) -> Result<()> {
        let (parent, name, node, kind) = self.existing(&path.parts)?;
        if kind == Kind::Directory {
            let text = format!("{} is a directory", self.written(&path.parts));
            return Err(refused(Code::Invalid, text, "DROP DIRECTORY"));
        }
        self.refuse_system(parent, name, &path.parts, "DROP FILE removes the file")?;
        if self.edits.edit(node)?.links < 2 {
            let text = format!("{} is the only name of its file", self.written(&path.parts));
            return Err(refused(Code::Invalid, text, "DROP FILE removes the file"));
        }
        self.edits.touch_directory(parent, self.now)?;
        self.remove_name(parent, name, node)
    }

    fn drop_files(&mut self, paths: &[Spelled]) -> Result<()> {
        let mut seen = BTreeSet::new();
        for path in paths {
            let missing = |job: &Self| {
                let text = format!("there is no {}", job.written(&path.parts));
                refused(Code::NoSuchFile, text, "")
            };
            let (node, kind) = path.found.ok_or_else(|| missing(self))?;
            if kind == Kind::Directory {
                let text = format!("{} is a directory", self.written(&path.parts));
                return Err(refused(Code::Invalid, text, "DROP DIRECTORY"));
            }
            // Otherwise it is another name of a file that is removed already.
            if seen.insert(node) {
                let (.., now, _) = self.existing(&path.parts)?;
                if now != node {
                    return Err(missing(self));
                }
                self.remove_file(node)?;
            }
        }
        Ok(())
    }

    /// The job's last act.
    fn end(self) -> Result<Removed> {
        let Self { edits, changes, gone, .. } = self;
        edits.orphan(&gone)?;
        Ok(Removed { changes, gone })
    }
}

/// Work that is left when a statement is committed.
struct Removed {
    changes: Vec<Invalidation>,
    gone: Vec<Node>,
}

impl Files {
    /// Carries out a statement on names or templates.
    ///
    /// # Errors
    /// The statement's error; then nothing was changed.
    pub async fn order(&self, context: StatementContext, order: NameOrder) -> Result<()> {
        let paths: Vec<&String> = match &order {
            NameOrder::AddTemplates(_)
            | NameOrder::ModifyTemplates(_)
            | NameOrder::DropTemplates(_) => Vec::new(),
            NameOrder::AddDirectories(paths)
            | NameOrder::DropAliases(paths)
            | NameOrder::DropFiles(paths) => paths.iter().collect(),
            NameOrder::DropDirectories(paths) => paths.iter().map(|(path, _)| path).collect(),
            NameOrder::RenameDirectories(pairs)
            | NameOrder::AddAliases(pairs)
            | NameOrder::RenameAliases(pairs) => {
                pairs.iter().flat_map(|(one, other)| [one, other]).collect()
            }
        };
        let mut names = Vec::with_capacity(paths.len());
        for path in paths {
            names.push(self.name_of(&context.group, path).await?);
        }
        let spelled = self.spell(names).await?;
        let (files, origin) = (self.strong(), context.origin);
        let drops = matches!(
            order,
            NameOrder::DropTemplates(_)
                | NameOrder::DropDirectories(_)
                | NameOrder::DropAliases(_)
                | NameOrder::DropFiles(_)
        );
        let job = move |connection: &Connection| {
            carry_out(&files, connection, &context, &order, &spelled)
        };
        // Drops must be possible while the catalog is full.
        let done = if drops {
            self.catalog.release(false, job).await
        } else {
            self.catalog.write(false, job).await
        };
        self.follow(origin, done?.0).await
    }

    /// Reports the changes to other front ends, and releases files that are not in use any more.
    async fn follow(&self, origin: Origin, removed: Removed) -> Result<()> {
        let _release = self.data.begin_release();
        removed.changes.iter().for_each(|what| self.invalidate(origin, what));
        for node in removed.gone {
            self.let_go(node).await?;
        }
        Ok(())
    }

    /// The path that a name means; a number means a name of that file.
    async fn name_of(&self, group: &str, text: &str) -> Result<Vec<Vec<u8>>> {
        match parse(text, group)? {
            Form::Path(parts) => Ok(parts),
            Form::Number { node, incarnation } => {
                let missing = || refused(Code::NoSuchFile, format!("there is no {text}"), "");
                let node = self.numbered(node, incarnation).await.map_err(|_| missing())?;
                self.path_of(node).await?.ok_or_else(missing)
            }
            Form::New { .. } => {
                let text =
                    format!("'{text}' says where a new file goes, and names none that there is");
                Err(refused(Code::Invalid, text, ""))
            }
        }
    }

    /// A path of a file: one of the system's, if there is one.
    ///
    /// # Errors
    /// If the catalog fails.
    pub async fn path_of(&self, node: Node) -> Result<Option<Vec<Vec<u8>>>> {
        let look = move |connection: &Connection| {
            let (mut at, mut parts) = (node, Vec::new());
            while at != ROOT {
                let found = entry::system_name_first(connection, at)?;
                let Some((parent, name)) = found.filter(|_| parts.len() < REMOVED_MAX) else {
                    return Ok(None);
                };
                parts.push(name);
                at = parent;
            }
            parts.reverse();
            Ok(Some(parts))
        };
        self.catalog.read(look).await
    }

    /// Makes a file under a system name. Returns it and its path; `head` are the first bytes that
    /// will be written.
    ///
    /// # Errors
    /// If there is no such template, or the alias is taken or in no directory.
    pub async fn create_system(
        &self,
        context: StatementContext,
        new: NewSystemFile,
        head: &[u8],
        mode: u32,
    ) -> Result<(Attributes, String)> {
        let template = new.template.as_ref().map(|name| name.to_uppercase());
        let file_type = new
            .file_type
            .or_else(|| template.as_deref().and_then(templates::type_of))
            .or_else(|| new.source.as_deref().and_then(type_of_path))
            .or_else(|| FileType::of_bytes(head))
            .unwrap_or(FileType::Other);
        let source =
            new.source.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let stem = source.split('.').find(|part| !part.is_empty()).unwrap_or_default();
        let tag = new.tag.as_deref().filter(|tag| !tag.is_empty()).unwrap_or(stem);
        let tag = if tag.is_empty() { file_type.word().to_lowercase() } else { tag.to_owned() };
        let database =
            plain(new.database.as_deref().filter(|name| !name.is_empty()).unwrap_or(NO_DATABASE))
                .to_uppercase();
        let directory = vec![database.into_bytes(), plain(file_type.word()).into_bytes()];
        let mut paths = vec![directory];
        if let Some(alias) = &new.alias {
            paths.push(self.name_of(&context.group, alias).await?);
        }
        let mut spelled = self.spell(paths).await?;
        let alias = (spelled.len() > 1).then(|| spelled.pop()).flatten();
        let directory = spelled.pop().ok_or(FileError::Invalid("a path"))?;
        let (files, origin, group) = (self.strong(), context.origin, context.group.clone());
        let job = move |connection: &Connection| {
            let mut job = Job::new(&files, connection, &context.group);
            let name = template.as_deref().unwrap_or(file_type.word());
            let template = templates::find(connection, &context.group, name)?;
            let mut at = ROOT;
            for part in &directory.parts {
                at = match entry::find(connection, at, part)? {
                    Some((node, Kind::Directory)) => node,
                    Some(_) => {
                        let text = format!("{} is not a directory", job.written(&directory.parts));
                        return Err(refused(Code::Invalid, text, "rename what is in the way"));
                    }
                    None => job.make_directory(at, part, context.caller, true)?,
                };
            }
            let mirrors = mirrors_of(&context, name, template)?;
            let given = GivenProperties {
                file_type,
                mirrors,
                fine: template.fine,
                preformatted: template.preformatted,
                tag: plain(&tag),
            };
            let made = Made {
                new: NewFile::Regular,
                mode,
                caller: context.caller,
                now: job.now,
                given: Some(given),
                system: true,
            };
            let file = job.edits.make(at, b"", made)?;
            let name = format!("{}.{}.{}", plain(&tag), file.node, file.generation);
            job.note_entry(at, name.as_bytes());
            if let Some(alias) = &alias {
                job.add_alias(alias, file.node)?;
            }
            let file = job.edits.edit(file.node)?.clone();
            let mut path = directory.parts.clone();
            path.push(name.into_bytes());
            Ok((file, path, job.end()?))
        };
        let ((file, path, removed), _) = self.catalog.write(false, job).await?;
        self.follow(origin, removed).await?;
        Ok((file, written(&group, &path)))
    }
}

/// The mirrors of a file that is made through a template: only a NORMAL group has several
/// redundancies. Control files get theirs where they can; for others the template is followed, or
/// the file refused.
fn mirrors_of(context: &StatementContext, name: &str, template: TemplateRow) -> Result<u8> {
    if context.redundancy != Redundancy::Normal || template.mirrors == 0 {
        return Ok(0);
    }
    if context.failure_groups >= usize::from(template.mirrors) {
        return Ok(template.mirrors);
    }
    if name == FileType::Controlfile.word() {
        return Ok(0);
    }
    let text = format!(
        "template {name} has HIGH redundancy, which needs 3 failure groups with data; disk group {} has {}",
        context.group, context.failure_groups
    );
    Err(refused(
        Code::NotEnoughFailureGroups,
        text,
        "add disks in another failure group, or use another template",
    ))
}

/// The type that a path suggests.
fn type_of_path(path: &str) -> Option<FileType> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (name, above) = parts.split_last()?;
    let above = |level: usize| {
        let directory = above.len().checked_sub(level).and_then(|at| above.get(at));
        Ok::<_, ()>(directory.map(|name| name.as_bytes().to_vec()))
    };
    FileType::of_name(name.as_bytes(), above).ok().flatten()
}

/// Whether a path is another one, or begins with it, in any case.
fn is_above(above: &[Vec<u8>], path: &[Vec<u8>]) -> bool {
    above.len() <= path.len()
        && above.iter().zip(path).all(|(one, other)| one.eq_ignore_ascii_case(other))
}

/// Carries a statement out, inside its job.
fn carry_out(
    files: &Arc<Files>,
    connection: &Connection,
    context: &StatementContext,
    order: &NameOrder,
    paths: &[Spelled],
) -> Result<Removed> {
    let (group, redundancy) = (&context.group, context.redundancy);
    let mut job = Job::new(files, connection, group);
    match order {
        NameOrder::AddTemplates(all) => {
            all.iter().try_for_each(|one| templates::add(connection, group, redundancy, one))?;
        }
        NameOrder::ModifyTemplates(all) => {
            all.iter().try_for_each(|one| templates::modify(connection, group, redundancy, one))?;
        }
        NameOrder::DropTemplates(all) => {
            all.iter().try_for_each(|name| templates::drop(connection, group, name))?;
        }
        NameOrder::AddDirectories(_) => job.add_directories(paths, context.caller)?,
        NameOrder::DropDirectories(all) => {
            for (path, (_, force)) in paths.iter().zip(all) {
                job.drop_directory(path, *force)?;
            }
        }
        NameOrder::RenameDirectories(_) | NameOrder::RenameAliases(_) => {
            let directories = matches!(order, NameOrder::RenameDirectories(_));
            for pair in paths.chunks_exact(2) {
                job.rename(&pair[0], &pair[1], directories)?;
            }
        }
        NameOrder::AddAliases(_) => {
            for pair in paths.chunks_exact(2) {
                let (_, _, node, kind) = job.existing(&pair[1].parts)?;
                if kind == Kind::Directory {
                    let text = format!("{} is a directory", job.written(&pair[1].parts));
                    return Err(refused(Code::Invalid, text, "aliases are for files"));
                }
                job.add_alias(&pair[0], node)?;
            }
        }
        NameOrder::DropAliases(_) => {
            paths.iter().try_for_each(|path| job.drop_alias(path))?;
        }
        NameOrder::DropFiles(_) => job.drop_files(paths)?,
    }
    job.end()
}
