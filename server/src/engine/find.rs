//! Looks up a path as a user writes it, with names in any case.
//!
//! Each name is looked up as it is written. A name that does not exist is compared with all names
//! of its directory without regard to case, and found if exactly one matches. So only a name in
//! another case than the stored one costs a scan of its directory.

use super::protocol::{Answer, FileInfo};
use plinth_engine::{
    admin::{AdminError, Code},
    api::{Attributes, Kind, Node, ROOT},
    error::FileError,
    files::session::Session,
};

/// Entries that are read at a time.
const ENTRIES: usize = 1000;

/// Follows a path as far as it exists: the real path up to there, the attributes of the file or
/// directory there, and the remaining names, which do not exist.
pub(super) async fn find(
    session: &Session,
    parts: &[&[u8]],
    info: impl Fn(&Attributes) -> FileInfo,
    refused: impl Fn(&FileError) -> AdminError,
) -> Result<Answer, AdminError> {
    let mut found = session.attributes(ROOT).await.map_err(|error| refused(&error))?;
    let mut path: Vec<String> = Vec::new();
    let mut rest = parts.iter();
    let mut missing = Vec::new();
    while let Some(part) = rest.next() {
        let written = String::from_utf8_lossy(part).into_owned();
        let next = match session.lookup(found.node, part).await {
            Ok(next) => Some((next, written.clone())),
            Err(FileError::NotFound) => alike(session, found.node, &written, &refused).await?,
            Err(FileError::NotADirectory) => None,
            Err(error) => return Err(refused(&error)),
        };
        let Some((next, name)) = next else {
            missing.push(written);
            missing.extend(rest.by_ref().map(|part| String::from_utf8_lossy(part).into_owned()));
            break;
        };
        found = next;
        path.push(name);
    }
    Ok(Answer::Found { path, file: info(&found), missing })
}

/// The only entry whose name differs from the given one in case alone.
async fn alike(
    session: &Session,
    directory: Node,
    written: &str,
    refused: impl Fn(&FileError) -> AdminError,
) -> Result<Option<(Attributes, String)>, AdminError> {
    if session.attributes(directory).await.map_err(|error| refused(&error))?.kind != Kind::Directory
    {
        return Ok(None);
    }
    let lower = written.to_lowercase();
    let mut found: Option<(Node, String)> = None;
    let mut after = 0;
    loop {
        let entries = session
            .read_directory(directory, after, ENTRIES)
            .await
            .map_err(|error| refused(&error))?;
        let Some(last) = entries.last() else { break };
        after = last.cookie;
        for entry in entries {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            if name.to_lowercase() != lower {
                continue;
            }
            if let Some((_, other)) = &found {
                let text = format!("'{written}' may be '{other}' or '{name}'");
                return Err(AdminError::new(Code::Invalid, text)
                    .hint("write it in the case in which it is kept"));
            }
            found = Some((entry.node, name));
        }
    }
    let Some((node, name)) = found else { return Ok(None) };
    match session.attributes(node).await {
        Ok(attributes) => Ok(Some((attributes, name))),
        Err(FileError::Stale(_)) => Ok(None),
        Err(error) => Err(refused(&error)),
    }
}
