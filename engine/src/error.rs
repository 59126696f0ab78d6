//! Errors of files and disks, in the words of the operator or the program that has to react.

use crate::admin::{AdminError, Code};
use plinth_format::DiskId;
use rusqlite::ErrorCode;
use std::{fmt, io};

/// How often a read is begun before it fails: the log cannot run full that often in the time of a
/// short read.
pub(crate) const READS_MAX: usize = 5;
/// The greatest size of the log, in bytes, while statements keep it from being restarted. All of it
/// is in memory.
pub(crate) const LOG_MAX: u64 = 64 << 20;

/// The reason why an operation on a file failed; a front end turns it into an `errno`.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("no such file or directory")]
    NotFound,
    #[error("file exists")]
    Exists,
    #[error("not a directory")]
    NotADirectory,
    #[error("is a directory")]
    IsADirectory,
    #[error("directory not empty")]
    NotEmpty,
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    #[error("name longer than {} bytes", crate::api::NAME_MAX)]
    NameTooLong,
    #[error("file too large")]
    TooLarge,
    #[error("too many links")]
    TooManyLinks,
    #[error("no space left in the disk group")]
    NoSpace,
    #[error("operation not permitted")]
    NotPermitted,
    #[error("operation not supported")]
    NotSupported,
    #[error("no data at or after this offset")]
    NoData,
    #[error("no such extended attribute")]
    NoAttribute,
    #[error("value does not fit")]
    Range,
    #[error("node {0} does not exist any more")]
    Stale(u64),
    /// A word for the engine's successor cannot be changed.
    #[error(
        "file {0} cannot be made shorter: its size is kept in the instance's directory, and cannot be changed there; see whether that file system is full or fails"
    )]
    SizeKept(u64),
    #[error("the disk group is being dismounted")]
    Dismounted,
    #[error(
        "file {file}: no good mirror of extent {extent} ({tried} tried); restore it from a backup"
    )]
    ExtentLost { file: u64, extent: u64, tried: usize },
    #[error("{0}")]
    Disk(#[from] DiskError),
    #[error("disk {disk}: {reason}; it stays online, because {why}")]
    Refused { disk: String, reason: String, why: String },
    /// A mirror is the only one that may be good.
    #[error(
        "a mirror on disk {disk} is not taken, because others are not as they should be: {problem}; restore that file, or bring all disks ONLINE"
    )]
    NotMended { disk: String, problem: String },
    #[error(
        "extent {extent} of file {file} has blocks of which two mirrors are right, each by its own checksum, and differ: until that is ended none of its mirrors moves; CHECK names them"
    )]
    Disputed { file: u64, extent: u64 },
    /// A disk fails to read a block that it may be able to read later.
    #[error(
        "extent {extent} of file {file} has blocks that no disk can read: until one can, or they are written anew, it stays where it is; CHECK names them"
    )]
    Unread { file: u64, extent: u64 },
    /// A statement of an operator cannot be carried out.
    #[error("{0}")]
    Order(Box<AdminError>),
    #[error("catalog: {0}")]
    Catalog(#[from] rusqlite::Error),
    #[error("the catalog has stopped: {0}; dismount the disk group and mount it again")]
    CatalogStopped(std::sync::Arc<str>),
    #[error(
        "snapshot too old: more was changed while the catalog was read than its log of {} MiB holds, {READS_MAX} times in a row",
        LOG_MAX >> 20
    )]
    SnapshotTooOld,
}

impl From<AdminError> for FileError {
    fn from(refusal: AdminError) -> Self {
        Self::Order(Box::new(refusal))
    }
}

impl From<FileError> for AdminError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Order(refusal) => *refusal,
            error => Self::new(error.code(), error),
        }
    }
}

impl FileError {
    /// The error as the answer to a statement: with its own code and hint, after a text that says
    /// what failed.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> AdminError {
        let mut refusal = AdminError::from(self);
        refusal.message = format!("{what}: {}", refusal.message);
        refusal
    }

    /// Whether it is about a disk whose thin pool is full.
    fn is_lack_of_room(&self) -> bool {
        match self {
            Self::Disk(error) => error.source.kind() == io::ErrorKind::StorageFull,
            Self::Refused { reason, .. } => is_lack_of_room(reason),
            _ => false,
        }
    }

    /// Its code in the answer to a statement.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Order(refusal) => refusal.code,
            Self::NoSpace => Code::NoSpace,
            _ if self.is_lack_of_room() => Code::NoSpace,
            Self::NotFound | Self::Stale(_) => Code::NoSuchFile,
            Self::Exists => Code::NameExists,
            Self::NotEmpty => Code::NotEmpty,
            Self::NotSupported => Code::NotSupported,
            Self::Dismounted => Code::NotMounted,
            Self::SnapshotTooOld => Code::Busy,
            Self::NotADirectory
            | Self::IsADirectory
            | Self::Invalid(_)
            | Self::NameTooLong
            | Self::TooLarge
            | Self::TooManyLinks
            | Self::NotPermitted
            | Self::NoData
            | Self::NoAttribute
            | Self::Range => Code::Invalid,
            // The engine ends, and the next one recovers the state on the disks.
            Self::CatalogStopped(_)
            | Self::Disk(_)
            | Self::Refused { .. }
            | Self::SizeKept(_)
            | Self::NotMended { .. }
            | Self::Disputed { .. }
            | Self::Unread { .. } => Code::Io,
            Self::ExtentLost { .. } => Code::Damaged,
            Self::Catalog(error) => match error.sqlite_error_code() {
                Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => Code::Io,
                Some(ErrorCode::DiskFull) => Code::NoSpace,
                _ => Code::Damaged,
            },
        }
    }

    /// Its `errno` for a program.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => libc::ENOENT,
            Self::Exists => libc::EEXIST,
            Self::NotADirectory => libc::ENOTDIR,
            Self::IsADirectory => libc::EISDIR,
            Self::NotEmpty => libc::ENOTEMPTY,
            Self::Invalid(_) | Self::Order(_) => libc::EINVAL,
            Self::NameTooLong => libc::ENAMETOOLONG,
            Self::TooLarge => libc::EFBIG,
            Self::TooManyLinks => libc::EMLINK,
            Self::NoSpace => libc::ENOSPC,
            _ if self.is_lack_of_room() => libc::ENOSPC,
            Self::NotPermitted => libc::EPERM,
            Self::NotSupported => libc::EOPNOTSUPP,
            Self::NoData => libc::ENXIO,
            Self::NoAttribute => libc::ENODATA,
            Self::Range => libc::ERANGE,
            Self::Stale(_) => libc::ESTALE,
            Self::SnapshotTooOld => libc::EAGAIN,
            Self::Dismounted
            | Self::SizeKept(_)
            | Self::ExtentLost { .. }
            | Self::Disk(_)
            | Self::Refused { .. }
            | Self::NotMended { .. }
            | Self::Disputed { .. }
            | Self::Unread { .. }
            | Self::Catalog(_)
            | Self::CatalogStopped(_) => libc::EIO,
        }
    }
}

/// How an error ends that is about room in a thin pool.
const MAKE_ROOM: &str = "make room there, or make it larger: then writes go on by themselves";

/// The error of a write that finds no room in the pool below a disk.
#[must_use]
pub fn no_room(pool: &str) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, format!("no room is left in {pool}; {MAKE_ROOM}"))
}

/// Whether a reason, perhaps with more text around it, is that there is no room.
#[must_use]
pub fn is_lack_of_room(reason: &str) -> bool {
    reason.contains(MAKE_ROOM)
}

/// An I/O on a disk that failed.
#[derive(Debug, thiserror::Error)]
#[error("disk {disk} ({path}): {doing} {length} bytes at {offset}: {source}")]
pub struct DiskError {
    pub disk: DiskId,
    pub path: String,
    pub doing: &'static str,
    pub offset: u64,
    pub length: usize,
    #[source]
    pub source: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn a_lack_of_room_is_recognised_wherever_it_stands_in_a_sentence() {
        let reason = format!("activity log: writing 4096 bytes at 0: {}.", no_room("the pool"));
        assert!(is_lack_of_room(&reason) && reason.contains("the pool"), "{reason}");
        assert!(!is_lack_of_room("writing 4096 bytes at 0: Input/output error"));
        let refused =
            FileError::Refused { disk: "D".to_owned(), reason, why: "it is needed".to_owned() };
        assert_eq!((refused.errno(), refused.code()), (libc::ENOSPC, Code::NoSpace));
    }

    fn of_sqlite(code: i32) -> FileError {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn a_statement_that_fails_on_a_file_or_the_catalog_says_why_with_its_own_code() {
        let refusal = AdminError::new(Code::UserInUse, "user A owns files").hint("CASCADE");
        let cases = [
            (FileError::Order(Box::new(refusal.clone())), Code::UserInUse),
            (FileError::NoSpace, Code::NoSpace),
            (of_sqlite(ffi::SQLITE_FULL), Code::NoSpace),
            (FileError::NotFound, Code::NoSuchFile),
            (FileError::Stale(7), Code::NoSuchFile),
            (FileError::Exists, Code::NameExists),
            (FileError::NotEmpty, Code::NotEmpty),
            (FileError::NotSupported, Code::NotSupported),
            (FileError::Dismounted, Code::NotMounted),
            (FileError::SnapshotTooOld, Code::Busy),
            (FileError::NameTooLong, Code::Invalid),
            (FileError::ExtentLost { file: 1, extent: 2, tried: 2 }, Code::Damaged),
            (of_sqlite(ffi::SQLITE_CORRUPT), Code::Damaged),
            (of_sqlite(ffi::SQLITE_IOERR_READ), Code::Io),
            (FileError::CatalogStopped("a flush failed".into()), Code::Io),
            (FileError::SizeKept(7), Code::Io),
        ];
        for (error, code) in cases {
            let text = error.to_string();
            assert_eq!(error.code(), code, "{text}");
            let answer = error.while_doing("disk group DATA");
            assert_eq!((answer.code, answer.message), (code, format!("disk group DATA: {text}")));
        }
        let answer = AdminError::from(FileError::from(refusal.clone()));
        assert_eq!(answer, refusal, "what was refused is answered as it is");
        assert!(FileError::from(refusal).while_doing("a").hint.is_some());
    }
}
