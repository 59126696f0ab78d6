//! Names in directories: they move with their directory, and go with it.

use super::{CALLER, Client, Expectations, FileError, Next, Result};
use crate::{history::Failure, model::Names};
use plinth_engine::{
    api::{NewFile, Node, ROOT, RenameMode},
    files::session::Session,
};
use std::collections::BTreeMap;

/// Directories that a client may have.
const DIRECTORIES: u64 = 3;

/// How many names are in a directory.
fn within(names: &Names, directory: &str) -> usize {
    names
        .0
        .keys()
        .filter(|name| name.split_once('/').is_some_and(|(at, _)| at == directory))
        .count()
}

impl Client {
    /// A name that a file may have.
    pub(super) fn some_name(&self) -> String {
        let name = format!("f{}", self.below(self.profile.files * 2));
        if self.profile.is_wild && self.one_in(3) {
            format!("{}/{name}", self.some_directory())
        } else {
            name
        }
    }

    fn some_directory(&self) -> String {
        format!("d{}", self.below(DIRECTORIES))
    }

    /// The directory of a name, and the name in it.
    pub(super) async fn place(&self, session: &Session, name: &str) -> Result<(Node, String)> {
        let Some((directory, rest)) = name.split_once('/') else {
            return Ok((ROOT, self.full(name)));
        };
        let directory = session.lookup(ROOT, self.full(directory).as_bytes()).await?.node;
        Ok((directory, rest.to_owned()))
    }

    /// Makes the directory of a name unless it exists. False: it cannot be made now.
    pub(super) async fn has_place(
        &self,
        session: &Session,
        name: &str,
    ) -> std::result::Result<bool, Failure> {
        let Some((directory, _)) = name.split_once('/') else { return Ok(true) };
        let full = self.full(directory);
        match session.create(ROOT, full.as_bytes(), NewFile::Directory, 0o755, CALLER).await {
            Ok(_) | Err(FileError::Exists) => Ok(true),
            Err(FileError::NoSpace) => Ok(false),
            Err(error) if self.is_sent_away(&error) || self.is_excused(&error) => Ok(false),
            Err(error) => Err(format!("making directory {directory}: {error}")),
        }
    }

    /// Adds the entries of the directories that a listing has found.
    pub(super) async fn list_directories(
        &self,
        session: &Session,
        found: &mut BTreeMap<String, (Node, u64)>,
    ) -> Result<()> {
        for number in 0..DIRECTORIES {
            let directory = format!("d{number}");
            let Some((node, _)) = found.remove(&directory) else { continue };
            let mut cookie = 0;
            loop {
                let entries = session.read_directory(node, cookie, 3).await?;
                for entry in &entries {
                    cookie = entry.cookie;
                    let size = session.attributes(entry.node).await?.size;
                    found.insert(
                        format!("{directory}/{}", String::from_utf8_lossy(&entry.name)),
                        (entry.node, size),
                    );
                }
                if entries.len() < 3 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A directory gets another name, exchanges names with another one, or is removed if it is
    /// empty.
    pub(super) async fn change_directory(
        &self,
        session: &Session,
        names: &Names,
    ) -> std::result::Result<Next, Failure> {
        let (one, other) = (self.some_directory(), self.some_directory());
        let (are_in_one, are_in_other) = (within(names, &one), within(names, &other));
        if one == other || are_in_one == 0 {
            return self.remove_directory(session, &one, are_in_one).await;
        }
        let exchanges = are_in_other > 0;
        // Sent twice it would be undone.
        if exchanges && Expectations::is(&self.expectations.twice) {
            return Ok(Next::GoOn);
        }
        let what = if exchanges { "and" } else { "is" };
        self.core.tell(|| format!("client {}: directory {one} {what} {other}", self.number));
        let moved = |name: &String| match name.split_once('/') {
            Some((directory, rest)) if directory == one => format!("{other}/{rest}"),
            Some((directory, rest)) if directory == other => format!("{one}/{rest}"),
            _ => name.clone(),
        };
        let next = names.0.iter().map(|(name, entry)| (moved(name), *entry)).collect();
        self.model().begin(Some(Names(next)), None);
        let mode = if exchanges { RenameMode::Exchange } else { RenameMode::Replace };
        let (from, onto) = (self.full(&one), self.full(&other));
        let rename = || session.rename((ROOT, from.as_bytes()), (ROOT, onto.as_bytes()), mode);
        self.end(
            "rename of a directory",
            self.ask_for_change(rename, |error| matches!(error, FileError::NotFound)).await,
        )
    }

    async fn remove_directory(
        &self,
        session: &Session,
        directory: &str,
        holds: usize,
    ) -> std::result::Result<Next, Failure> {
        self.core.tell(|| {
            format!("client {}: remove directory {directory}, which has {holds} names", self.number)
        });
        let full = self.full(directory);
        match session.remove_directory(ROOT, full.as_bytes()).await {
            Ok(()) if holds > 0 => {
                Err(format!("directory {directory} is removed, and has {holds} names"))
            }
            Err(FileError::NotEmpty) if holds == 0 => {
                Err(format!("directory {directory} has no names, and is not empty"))
            }
            Ok(()) | Err(FileError::NotEmpty | FileError::NotFound | FileError::NoSpace) => {
                Ok(Next::GoOn)
            }
            Err(error) if self.is_sent_away(&error) => Ok(Next::Leave),
            Err(error) if self.is_excused(&error) => Ok(Next::GoOn),
            Err(error) => Err(format!("removing directory {directory}: {error}")),
        }
    }
}
