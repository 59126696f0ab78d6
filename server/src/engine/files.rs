//! Files of a mounted group for `plinth ls` and `plinth cp`, through a session like any front
//! end's.
//!
//! Paths start at the group's root; `.` is ignored, `..` is refused, links are not followed. A name
//! that does not exist as written is looked up in any case; `.259.1234` is a file by its number and
//! incarnation.

use super::protocol::{Answer, FileInfo, FileRequest, ListEntry};
use plinth_engine::{
    admin::{AdminError, Code},
    api::{Attributes, Caller, Changes, Kind, NewFile, Node, ROOT, RenameMode},
    error::FileError,
    files::session::Session,
    group::Group,
};
use plinth_host::{block_on, ipc::BODY_MAX};
use std::sync::Arc;

type Result<T> = std::result::Result<T, AdminError>;

/// Entries in one answer.
const ENTRIES: usize = 1000;

pub(super) fn answer(
    group: Arc<Group>,
    request: FileRequest,
    bytes: &[u8],
) -> Result<(Answer, Vec<u8>)> {
    let session = Session::new(group, None);
    block_on(async {
        let answer = match request {
            FileRequest::Look { path } => Answer::File(info(&find(&session, &path).await?)),
            FileRequest::List { path, after } => {
                Answer::Entries(list(&session, &path, after).await?)
            }
            FileRequest::Make { path, mode, uid, gid } => {
                Answer::File(make(&session, &path, mode, Caller { uid, gid }).await?)
            }
            FileRequest::MakeDirectory { path, mode, uid, gid } => {
                Answer::File(make_directory(&session, &path, mode, Caller { uid, gid }).await?)
            }
            FileRequest::MakeSystem { new, mode, uid, gid } => {
                let made =
                    session.create_system(new, bytes, mode & 0o7777, Caller { uid, gid }).await;
                let (file, path) = made.map_err(|error| ordered(&session, &error))?;
                Answer::Made { file: info(&file), path }
            }
            FileRequest::Find { path } => {
                let failed = |error: &FileError| at_path(&session, &path, error);
                super::find::find(&session, &components(&path)?, info, failed).await?
            }
            FileRequest::Remove { path } => {
                remove(&session, &path).await?;
                Answer::Done
            }
            FileRequest::Move { from, to } => {
                rename(&session, &from, &to).await?;
                Answer::Done
            }
            FileRequest::Read { node, offset, length } => {
                let mut body = vec![0; length.min(BODY_MAX)];
                let read = session
                    .read(node, offset, &mut body)
                    .await
                    .map_err(|error| at_node(node, error))?;
                body.truncate(read);
                return Ok((Answer::Bytes, body));
            }
            FileRequest::Write { node, offset } => {
                session
                    .write(node, offset, bytes, false)
                    .await
                    .map_err(|error| at_node(node, error))?;
                Answer::Done
            }
            FileRequest::Sync { node } => {
                session.sync(node, false).await.map_err(|error| at_node(node, error))?;
                session.sync_directory(ROOT).await.map_err(|error| at_node(node, error))?;
                Answer::Done
            }
        };
        Ok((answer, Vec::new()))
    })
}

async fn make_directory(
    session: &Session,
    path: &str,
    mode: u32,
    caller: Caller,
) -> Result<FileInfo> {
    let (directory, name) = place(session, path).await?;
    let made = session.create(directory, &name, NewFile::Directory, mode & 0o7777, caller).await;
    Ok(info(&made.map_err(|error| at_path(session, path, &error))?))
}

async fn remove(session: &Session, path: &str) -> Result<()> {
    let (directory, name) = place(session, path).await?;
    let failed = |error: FileError| at_path(session, path, &error);
    match session.lookup(directory, &name).await.map_err(failed)?.kind {
        Kind::Directory => session.remove_directory(directory, &name).await.map_err(failed),
        _ => session.unlink(directory, &name).await.map_err(failed),
    }
}

async fn rename(session: &Session, from: &str, to: &str) -> Result<()> {
    let (source, name) = place(session, from).await?;
    let (target, new) = place(session, to).await?;
    let moved = session.rename((source, &name), (target, &new), RenameMode::Replace).await;
    moved.map_err(|error| at_path(session, to, &error))
}

fn refused(error: &FileError, thing: String) -> AdminError {
    AdminError::new(error.code(), format!("{thing}: {error}"))
}

/// The refusal of a statement: the statement's own error, or that of the group.
fn ordered(session: &Session, error: &FileError) -> AdminError {
    match error {
        FileError::Order(error) => (**error).clone(),
        error => refused(error, format!("disk group {}", session.group_name())),
    }
}

fn at_node(node: Node, error: FileError) -> AdminError {
    refused(&error, format!("file {node}"))
}

fn components(path: &str) -> Result<Vec<&[u8]>> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(AdminError::new(Code::Invalid, format!("{path}: '..' is not followed here")));
    }
    Ok(parts.into_iter().map(str::as_bytes).collect())
}

async fn walk(session: &Session, path: &str, parts: &[&[u8]]) -> Result<Attributes> {
    let at_path = |error: FileError| refused(&error, format!("+{}/{path}", session.group_name()));
    let mut attributes = session.attributes(ROOT).await.map_err(at_path)?;
    for part in parts {
        attributes = match session.lookup(attributes.node, part).await {
            Ok(found) => found,
            Err(FileError::NotFound) => return in_any_case(session, path, parts).await,
            Err(error) => return Err(at_path(error)),
        };
    }
    Ok(attributes)
}

fn at_path(session: &Session, path: &str, error: &FileError) -> AdminError {
    refused(error, format!("+{}/{path}", session.group_name()))
}

/// The directory that a path's last name is in, and that name.
async fn place(session: &Session, path: &str) -> Result<(Node, Vec<u8>)> {
    let parts = components(path)?;
    let Some((name, directory)) = parts.split_last() else {
        return Err(AdminError::new(
            Code::Invalid,
            format!("+{} is a disk group", session.group_name()),
        ));
    };
    Ok((walk(session, path, directory).await?.node, name.to_vec()))
}

/// Resolves a path, of which a name does not exist as written, with names in any case.
async fn in_any_case(session: &Session, path: &str, parts: &[&[u8]]) -> Result<Attributes> {
    let written =
        parts.iter().map(|part| String::from_utf8_lossy(part)).collect::<Vec<_>>().join("/");
    let found = session.resolve(&written).await.map_err(|error| ordered(session, &error))?;
    found.ok_or_else(|| {
        let text = format!("+{}/{path}: {}", session.group_name(), FileError::NotFound);
        AdminError::new(Code::NoSuchFile, text)
    })
}

async fn find(session: &Session, path: &str) -> Result<Attributes> {
    walk(session, path, &components(path)?).await
}

fn info(attributes: &Attributes) -> FileInfo {
    FileInfo {
        node: attributes.node,
        kind: attributes.kind,
        mode: attributes.mode,
        uid: attributes.uid,
        gid: attributes.gid,
        links: attributes.links,
        size: attributes.size,
        blocks: attributes.blocks,
        modified: attributes.modified,
        file_type: attributes.file_type.map(|found| found.word().to_owned()),
        incarnation: attributes.generation,
    }
}

async fn list(session: &Session, path: &str, after: u64) -> Result<Vec<ListEntry>> {
    let directory = find(session, path).await?;
    if directory.kind != Kind::Directory {
        return Err(AdminError::new(
            Code::Invalid,
            format!("+{}/{path} is not a directory", session.group_name()),
        ));
    }
    let entries = session
        .read_directory(directory.node, after, ENTRIES)
        .await
        .map_err(|error| at_node(directory.node, error))?;
    let mut listed = Vec::with_capacity(entries.len());
    for entry in entries {
        // An entry that has been removed since is left out.
        if let Ok(attributes) = session.attributes(entry.node).await {
            listed.push(ListEntry {
                name: String::from_utf8_lossy(&entry.name).into_owned(),
                cookie: entry.cookie,
                info: info(&attributes),
            });
        }
    }
    Ok(listed)
}

async fn make(session: &Session, path: &str, mode: u32, caller: Caller) -> Result<FileInfo> {
    let at_path = |error: FileError| refused(&error, format!("+{}/{path}", session.group_name()));
    let parts = components(path)?;
    let Some((name, directory)) = parts.split_last() else {
        return Err(AdminError::new(
            Code::Invalid,
            format!("+{}/{path} is a directory", session.group_name()),
        ));
    };
    let directory = walk(session, path, directory).await?;
    let made = session.create(directory.node, name, NewFile::Regular, mode & 0o7777, caller).await;
    let attributes = match made {
        Ok(attributes) => attributes,
        Err(FileError::Exists) => {
            let there = session.lookup(directory.node, name).await.map_err(at_path)?;
            if there.kind != Kind::Regular {
                return Err(AdminError::new(
                    Code::Invalid,
                    format!("+{}/{path} is not a regular file", session.group_name()),
                ));
            }
            let empty = Changes { size: Some(0), ..Changes::default() };
            session.change(there.node, empty).await.map_err(at_path)?
        }
        Err(error) => return Err(at_path(error)),
    };
    Ok(info(&attributes))
}
