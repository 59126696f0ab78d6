//! The file system of a mounted group: names and attributes ([`Files`]), and the bytes behind them
//! ([`Data`]).
//!
//! Front ends come in through [`Session`](crate::files::session::Session). It knows of no moves of
//! mirrors, and of no statements: those stand above it.

use crate::{
    admin::{AdminError, Code},
    api::{Attributes, FileSystemSpace},
    catalog::live_stats::LiveClient,
    error::FileError,
    extent::data::Data,
    files::{Files, clients::Clients, file_stats::FileStats, paths, volumes::Volumes},
};
use plinth_format::{BLOCK_SIZE, layout::PIECE_SIZE};
use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The file system of a group. See the module's description.
pub struct FileSystem {
    pub(crate) data: Arc<Data>,
    pub(crate) files: Arc<Files>,
    pub(crate) file_stats: Arc<FileStats>,
    pub(crate) volumes: Volumes,
    pub(crate) clients: Clients,
    /// No front end may serve directories.
    pub(crate) restricted: AtomicBool,
}

/// An owner of a file system, which keeps it mounted as long as it lives.
pub trait Mounted: Send + Sync {
    fn file_system(&self) -> &Arc<FileSystem>;
}

impl Deref for FileSystem {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.data
    }
}

impl std::fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileSystem of {}", self.name)
    }
}

impl FileSystem {
    pub(crate) fn new(data: Arc<Data>, files: Arc<Files>, file_stats: Arc<FileStats>) -> Arc<Self> {
        Arc::new(Self {
            data,
            files,
            file_stats,
            volumes: Volumes::default(),
            clients: Clients::default(),
            restricted: AtomicBool::new(false),
        })
    }

    #[must_use]
    pub fn is_restricted(&self) -> bool {
        self.restricted.load(Ordering::Acquire)
    }

    /// From now on `ask` returns the clients of the group. It is called for each statement that
    /// wants to know, and may take its time.
    pub fn set_clients(&self, ask: impl Fn() -> Vec<LiveClient> + Send + Sync + 'static) {
        self.clients.set(ask);
    }

    /// The file that a statement names.
    ///
    /// # Errors
    /// If there is none of this name.
    pub async fn file_named(&self, name: &str) -> Result<Attributes, AdminError> {
        let form = if name.starts_with('+') {
            paths::parse(name, &self.name)
        } else {
            paths::behind_group(name, name)
        };
        let refused = |error: FileError| match error {
            FileError::Order(refusal) => *refusal,
            error => error.while_doing(name),
        };
        let node = self.files.resolve(form?).await.map_err(refused)?;
        let Some(node) = node else {
            return Err(self.no_file(name, "there is nothing of this name"));
        };
        match self.files.attributes(node).await {
            Ok(found) => Ok(found),
            Err(FileError::Stale(_) | FileError::NotFound) => {
                Err(self.no_file(name, "it was removed just now"))
            }
            Err(error) => Err(refused(error)),
        }
    }

    pub(crate) fn no_file(&self, name: &str, why: impl std::fmt::Display) -> AdminError {
        AdminError::new(
            Code::NoSuchFile,
            format!("disk group {} has no file '{name}': {why}", self.name),
        )
        .hint("v$asm_alias has the names, v$asm_file the numbers")
    }

    /// Space as `statfs` tells it.
    pub(crate) fn file_system_space(&self) -> FileSystemSpace {
        let placement = self.placement();
        let (free, total) = {
            let space = self.space();
            (placement.allocatable(&space), placement.usable(&space).total)
        };
        let units = self.au_size / BLOCK_SIZE as u64;
        let slots = self.slots().free() as u64 * (PIECE_SIZE / BLOCK_SIZE as u64);
        let mirrors = placement.mirrors() as u64;
        FileSystemSpace {
            block_size: BLOCK_SIZE as u32,
            blocks: total * units / mirrors,
            blocks_free: free * units,
            files: u64::from(u32::MAX),
            files_free: u64::from(u32::MAX) - slots.min(1),
        }
    }
}
