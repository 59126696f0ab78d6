//! The type of a file for its database: `v$asm_file.type`.
//!
//! Oracle tells ASM the type. Other databases do not, so it is recognised:
//!
//!   1. A file made through a template, or under a system name, has the type that was given.
//!      Nothing changes it.
//!   2. Otherwise its name gives it, with the names of the directories above: when it is made, and
//!      when it is renamed.
//!   3. If the name is not conclusive the type is OTHER, until the first bytes written at its
//!      beginning are recognised.
//!
//! A name that is not conclusive takes nothing away: a file that is renamed to one keeps its type,
//! unless that was TEMPFILE. The type is for views; nothing in the engine depends on it, and
//! nothing is read for it: names are known when a name is made, bytes when they are written, and
//! the type is stored by the commit that is made anyway.

use serde::{Deserialize, Serialize};

/// A type, as ASM has it; at the end, types that ASM does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FileType {
    Controlfile,
    Datafile,
    Onlinelog,
    Archivelog,
    Tempfile,
    Backupset,
    Parameterfile,
    Dataguardconfig,
    Flashback,
    Changetracking,
    Dumpset,
    Xtransport,
    Autobackup,
    Asmparameterfile,
    Ocrfile,
    Flashfile,
    AuditSpillfiles,
    IncrXtransportBackupset,
    KeyStore,
    AutologinKeyStore,
    Password,
    Votingfile,
    /// A log of changes that replicas read: MySQL's.
    Binlog,
    /// Former pages, or copies of pages in flight: rollback journals, double-write buffers.
    Journal,
    /// Undo data apart from the data: InnoDB's.
    Undofile,
    /// Unknown.
    Other,
}

use FileType::*;

/// Every type and its word.
pub const TYPES: [(FileType, &str); 26] = [
    (Controlfile, "CONTROLFILE"),
    (Datafile, "DATAFILE"),
    (Onlinelog, "ONLINELOG"),
    (Archivelog, "ARCHIVELOG"),
    (Tempfile, "TEMPFILE"),
    (Backupset, "BACKUPSET"),
    (Parameterfile, "PARAMETERFILE"),
    (Dataguardconfig, "DATAGUARDCONFIG"),
    (Flashback, "FLASHBACK"),
    (Changetracking, "CHANGETRACKING"),
    (Dumpset, "DUMPSET"),
    (Xtransport, "XTRANSPORT"),
    (Autobackup, "AUTOBACKUP"),
    (Asmparameterfile, "ASMPARAMETERFILE"),
    (Ocrfile, "OCRFILE"),
    (Flashfile, "FLASHFILE"),
    (AuditSpillfiles, "AUDIT_SPILLFILES"),
    (IncrXtransportBackupset, "INCR XTRANSPORT BACKUPSET"),
    (KeyStore, "KEY_STORE"),
    (AutologinKeyStore, "AUTOLOGIN_KEY_STORE"),
    (Password, "PASSWORD"),
    (Votingfile, "VOTINGFILE"),
    (Binlog, "BINLOG"),
    (Journal, "JOURNAL"),
    (Undofile, "UNDOFILE"),
    (Other, "OTHER"),
];

/// The most directories above a file whose names are read.
pub const LEVELS: usize = 2;

impl FileType {
    /// As SQL shows it and the catalog keeps it.
    #[must_use]
    pub fn word(self) -> &'static str {
        TYPES.iter().find(|(one, _)| *one == self).map_or("OTHER", |(_, word)| word)
    }

    /// The type of a word, in any case.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        TYPES.iter().find(|(_, known)| known.eq_ignore_ascii_case(word)).map(|(one, _)| *one)
    }

    /// The type that a name gives. `above(1)` is the name of the directory it is in, `above(2)` of
    /// the one above; it is called only if needed.
    pub fn of_name<E>(
        name: &[u8],
        mut above: impl FnMut(usize) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Self>, E> {
        let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
        let name = name.to_ascii_lowercase();
        if let Some(found) = by_name(&name) {
            return Ok(Some(found));
        }
        let mut directory = |level| {
            let found = above(level)?.and_then(|name| String::from_utf8(name).ok());
            Ok(found.unwrap_or_default().to_ascii_lowercase())
        };
        // A segment of PostgreSQL's log, or a copy of one.
        let segment = name.split_once('.').map_or(name.as_str(), |(stem, _)| stem);
        if is_all(segment, 24, |byte| byte.is_ascii_hexdigit()) {
            let live = matches!(directory(1)?.as_str(), "pg_wal" | "pg_xlog") && name.len() == 24;
            return Ok(Some(if live { Onlinelog } else { Archivelog }));
        }
        let is_short_hex = (4..=15).contains(&name.len())
            && is_all(&name, name.len(), |byte| byte.is_ascii_hexdigit());
        if is_relation(&name) || is_temporary_relation(&name) || is_short_hex {
            let parent = directory(1)?;
            let found = match parent.as_str() {
                "global" => Some(Datafile),
                "pg_xact" | "pg_clog" | "pg_commit_ts" | "pg_twophase" => Some(Datafile),
                "pg_subtrans" | "pg_notify" | "pg_serial" => Some(Tempfile),
                _ => match directory(2)?.as_str() {
                    "base" => Some(Datafile),
                    "pg_multixact" => Some(Datafile),
                    above
                        if above.starts_with("pg_1")
                            || above.starts_with("pg_9")
                            || above.starts_with("pg_2") =>
                    {
                        Some(Datafile)
                    }
                    _ => None,
                },
            };
            if found.is_some() {
                let temporary = found == Some(Datafile) && is_temporary_relation(&name);
                return Ok(if temporary { Some(Tempfile) } else { found });
            }
        }
        if matches!(name.as_str(), "pg_filenode.map" | "pg_internal.init") {
            return Ok(Some(if name.ends_with("map") { Datafile } else { Tempfile }));
        }
        if name.contains('.') {
            return Ok(None);
        }
        let parent = directory(1)?;
        let temporary = parent.starts_with("pgsql_tmp")
            || matches!(parent.as_str(), "#innodb_temp" | "pg_stat_tmp");
        Ok(temporary.then_some(Tempfile))
    }

    /// The type that the first bytes of a file give.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        const STARTS: [(&[u8], FileType); 10] = [
            (b"SQLite format 3\0", Datafile),
            (&[0x37, 0x7f, 0x06, 0x82], Onlinelog),
            (&[0x37, 0x7f, 0x06, 0x83], Onlinelog),
            (&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7], Journal),
            (&[0xfe, b'b', b'i', b'n'], Binlog),
            (b"PGDMP", Dumpset),
            (b"--\n-- PostgreSQL database", Dumpset),
            (b"-- MySQL dump", Dumpset),
            (b"-- MariaDB dump", Dumpset),
            (b"XBSTCK01", Backupset),
        ];
        if let Some((_, found)) = STARTS.iter().find(|(start, _)| bytes.starts_with(start)) {
            return Some(*found);
        }
        let short = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let big = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        // The long header of a segment of PostgreSQL's log: the magic, a flag, the sizes of segment
        // and page.
        if short(0)? >> 8 & 0xfe == 0xd0 && short(2)? & 2 != 0 {
            let (segment, page) = (word(32)?, word(36)?);
            if segment.is_power_of_two()
                && segment >= 1 << 20
                && page.is_power_of_two()
                && page <= 1 << 16
            {
                return Some(Archivelog);
            }
        }
        // The first page of an InnoDB tablespace: page 0, of the type that starts one, of one space
        // twice.
        if big(4)? == 0 && bytes.get(24..26)? == [0, 8] && big(34)? == big(38)? {
            return Some(Datafile);
        }
        // A page of PostgreSQL: its size, and its free space, in order.
        let (lower, upper, special, size) = (short(12)?, short(14)?, short(16)?, short(18)?);
        let size_of_page = size & 0xff00;
        let is_page = size_of_page.is_power_of_two()
            && (1024..=32768).contains(&size_of_page)
            && (1..=5).contains(&(size & 0xff))
            && (24..=upper).contains(&lower)
            && upper <= special
            && special <= size_of_page;
        is_page.then_some(Datafile)
    }
}

fn is_all(text: &str, length: usize, of: impl Fn(u8) -> bool) -> bool {
    text.len() == length && text.bytes().all(of)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `16384`, `16384.1`, `16384_fsm.1`: a relation's file in PostgreSQL.
fn is_relation(name: &str) -> bool {
    let (stem, segment) =
        name.split_once('.').map_or((name, "0"), |(stem, segment)| (stem, segment));
    let number =
        ["_fsm", "_vm", "_init"].iter().find_map(|fork| stem.strip_suffix(fork)).unwrap_or(stem);
    is_digits(number) && is_digits(segment)
}

/// `t3_16384`: a temporary relation's file in PostgreSQL.
fn is_temporary_relation(name: &str) -> bool {
    let parts = name.strip_prefix('t').and_then(|rest| rest.split_once('_'));
    parts.is_some_and(|(backend, rest)| is_digits(backend) && is_relation(rest))
}

/// Splits a name that ends in a dot and digits.
fn numbered(name: &str) -> Option<&str> {
    name.rsplit_once('.')
        .filter(|(_, number)| number.len() >= 6 && is_digits(number))
        .map(|(stem, _)| stem)
}

/// The type that a name in lower case gives by itself.
fn by_name(name: &str) -> Option<FileType> {
    const WHOLE: [(&str, FileType); 25] = [
        ("pg_control", Controlfile),
        ("aria_log_control", Controlfile),
        ("pg_version", Parameterfile),
        ("postgresql.conf", Parameterfile),
        ("postgresql.auto.conf", Parameterfile),
        ("pg_hba.conf", Parameterfile),
        ("pg_ident.conf", Parameterfile),
        ("recovery.conf", Parameterfile),
        ("postmaster.opts", Parameterfile),
        ("postmaster.pid", Tempfile),
        ("backup_manifest", Backupset),
        ("base.tar", Backupset),
        ("base.tar.gz", Backupset),
        ("pg_wal.tar", Backupset),
        ("pg_wal.tar.gz", Backupset),
        ("xtrabackup_checkpoints", Backupset),
        ("xtrabackup_info", Backupset),
        ("xtrabackup_logfile", Backupset),
        ("my.cnf", Parameterfile),
        ("auto.cnf", Parameterfile),
        ("mysqld-auto.cnf", Parameterfile),
        ("binlog.index", Binlog),
        ("ewallet.p12", KeyStore),
        ("cwallet.sso", AutologinKeyStore),
        ("tablespace_map", Backupset),
    ];
    const STARTS: [(&str, FileType); 10] = [
        ("xlogtemp.", Onlinelog),
        ("pgsql_tmp", Tempfile),
        ("ib_logfile", Onlinelog),
        ("#ib_redo", Onlinelog),
        ("ibdata", Datafile),
        ("ibtmp", Tempfile),
        ("undo_", Undofile),
        ("#sql", Tempfile),
        ("orapw", Password),
        ("aria_log.", Onlinelog),
    ];
    const ENDS: [(&str, FileType); 42] = [
        ("-wal", Onlinelog),
        ("-journal", Journal),
        ("-shm", Tempfile),
        (".dblwr", Journal),
        (".sqlite", Datafile),
        (".sqlite3", Datafile),
        (".db", Datafile),
        (".db3", Datafile),
        (".ibd", Datafile),
        (".ibu", Undofile),
        (".ibt", Tempfile),
        (".myd", Datafile),
        (".myi", Datafile),
        (".mad", Datafile),
        (".mai", Datafile),
        (".sdi", Datafile),
        (".ctl", Controlfile),
        (".rdo", Onlinelog),
        (".arc", Archivelog),
        (".arch", Archivelog),
        (".flb", Flashback),
        (".ctf", Changetracking),
        (".chg", Changetracking),
        (".bkp", Backupset),
        (".bak", Backupset),
        (".xbstream", Backupset),
        (".dmp", Dumpset),
        (".dump", Dumpset),
        (".sql", Dumpset),
        (".sql.gz", Dumpset),
        (".sql.zst", Dumpset),
        ("-bin.index", Binlog),
        ("-relay-bin.index", Binlog),
        (".backup", Archivelog),
        (".history", Archivelog),
        (".mdf", Datafile),
        (".ndf", Datafile),
        (".ldf", Onlinelog),
        (".fdb", Datafile),
        (".tmp", Tempfile),
        (".temp", Tempfile),
        (".cnf", Parameterfile),
    ];
    if let Some((_, found)) = WHOLE.iter().find(|(whole, _)| *whole == name) {
        return Some(*found);
    }
    // Oracle's, whose endings are less conclusive than their beginnings.
    if let Some(stem) = name.strip_suffix(".dbf") {
        let archived = stem.split('_').count() == 3 && stem.split('_').all(is_digits);
        return Some(match stem {
            _ if archived => Archivelog,
            _ if stem.starts_with("temp") => Tempfile,
            _ => Datafile,
        });
    }
    if let Some(stem) = name.strip_suffix(".ora") {
        return (stem.starts_with("spfile") || stem.starts_with("init")).then_some(Parameterfile);
    }
    if let Some(stem) = name.strip_suffix(".log") {
        return (stem.starts_with("redo") && is_digits(stem.trim_start_matches("redo")))
            .then_some(Onlinelog);
    }
    if name.ends_with(".dat") && name.starts_with("dr") {
        return Some(Dataguardconfig);
    }
    if let Some(stem) = numbered(name)
        && (stem == "binlog" || stem.ends_with("-bin"))
    {
        return Some(Binlog);
    }
    let starts = STARTS.iter().find(|(start, _)| name.starts_with(start));
    starts
        .or_else(|| ENDS.iter().find(|(end, _)| name.len() > end.len() && name.ends_with(end)))
        .map(|(_, found)| *found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<FileType> {
        let mut parts: Vec<&str> = path.split('/').collect();
        let name = parts.pop().expect("a name");
        let above = |level: usize| {
            Ok::<_, ()>(parts.len().checked_sub(level).map(|at| parts[at].as_bytes().to_vec()))
        };
        FileType::of_name(name.as_bytes(), above).expect("no error")
    }

    #[test]
    fn names_say_what_files_are() {
        let cases = [
            ("pg/pg_wal/000000010000000000000001", Some(Onlinelog)),
            ("pg/pg_wal/xlogtemp.1234", Some(Onlinelog)),
            ("pg/pg_wal/000000010000000000000001.partial", Some(Archivelog)),
            ("archive/000000010000000000000001", Some(Archivelog)),
            ("archive/000000010000000000000001.gz", Some(Archivelog)),
            ("pg/pg_wal/00000002.history", Some(Archivelog)),
            ("pg/base/5/16384", Some(Datafile)),
            ("pg/base/5/16384.1", Some(Datafile)),
            ("pg/base/5/16384_fsm", Some(Datafile)),
            ("pg/base/5/16384_vm.2", Some(Datafile)),
            ("pg/base/5/t3_16384", Some(Tempfile)),
            ("pg/base/5/pg_filenode.map", Some(Datafile)),
            ("pg/base/5/pg_internal.init", Some(Tempfile)),
            ("pg/base/pgsql_tmp/pgsql_tmp12.0", Some(Tempfile)),
            ("space/PG_15_202209061/5/16384", Some(Datafile)),
            ("pg/global/1262", Some(Datafile)),
            ("pg/global/pg_control", Some(Controlfile)),
            ("pg/pg_xact/0000", Some(Datafile)),
            ("pg/pg_multixact/members/0000", Some(Datafile)),
            ("pg/pg_subtrans/0000", Some(Tempfile)),
            ("pg/PG_VERSION", Some(Parameterfile)),
            ("pg/postgresql.auto.conf.tmp", Some(Tempfile)),
            ("my/ibdata1", Some(Datafile)),
            ("my/db/t1.ibd", Some(Datafile)),
            ("my/ib_logfile0", Some(Onlinelog)),
            ("my/#innodb_redo/#ib_redo12_tmp", Some(Onlinelog)),
            ("my/#innodb_temp/temp_1.ibt", Some(Tempfile)),
            ("my/#ib_16384_0.dblwr", Some(Journal)),
            ("my/undo_001", Some(Undofile)),
            ("my/ibtmp1", Some(Tempfile)),
            ("my/binlog.000012", Some(Binlog)),
            ("my/host-bin.000001", Some(Binlog)),
            ("app/data.sqlite3", Some(Datafile)),
            ("app/data.db-wal", Some(Onlinelog)),
            ("app/data.db-journal", Some(Journal)),
            ("app/data.db-shm", Some(Tempfile)),
            ("ora/users01.dbf", Some(Datafile)),
            ("ora/TEMP01.DBF", Some(Tempfile)),
            ("ora/1_17_100200300.dbf", Some(Archivelog)),
            ("ora/redo01.log", Some(Onlinelog)),
            ("ora/control01.ctl", Some(Controlfile)),
            ("ora/spfileorcl.ora", Some(Parameterfile)),
            ("dumps/full.dmp", Some(Dumpset)),
            // These are not conclusive.
            ("5/16384", None),
            ("pg/log/postgresql.log", None),
            ("my/mysqld.err", None),
            ("notes", None),
            ("x/deadbeef", None),
            ("-wal", None),
        ];
        for (path, expected) in cases {
            assert_eq!(of(path), expected, "{path}");
        }
        assert_eq!(FileType::of_name(b"\xff\xfe", |_| Ok::<_, ()>(None)), Ok(None));
    }

    #[test]
    fn first_bytes_say_what_files_are() {
        let mut page = vec![0; 8192];
        page[12..20].copy_from_slice(&[28, 0, 0, 0x1f, 0, 0x20, 4, 0x20]);
        let mut segment = vec![0; 8192];
        segment[..4].copy_from_slice(&[0x10, 0xd1, 2, 0]);
        segment[32..40].copy_from_slice(&[0, 0, 0, 1, 0, 0x20, 0, 0]);
        let mut space = vec![0; 16384];
        space[25] = 8;
        space[37] = 7;
        space[41] = 7;
        let cases: [(&[u8], Option<FileType>); 9] = [
            (b"SQLite format 3\0\x10\0", Some(Datafile)),
            (b"PGDMP\x01", Some(Dumpset)),
            (&[0xfe, b'b', b'i', b'n', 1], Some(Binlog)),
            (&page, Some(Datafile)),
            (&segment, Some(Archivelog)),
            (&space, Some(Datafile)),
            (b"hello", None),
            (&[0; 8192], None),
            (&[], None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(FileType::of_bytes(bytes), expected, "{:?}", &bytes[..bytes.len().min(20)]);
        }
        // No bytes cause a panic.
        let mut numbers = crate::testing::Numbers::new(7);
        for length in 0..200 {
            let mut noise = vec![0; length];
            numbers.fill(&mut noise);
            let _ = FileType::of_bytes(&noise);
        }
    }

    #[test]
    fn every_type_has_one_word() {
        for (one, word) in TYPES {
            assert_eq!((one.word(), FileType::of_word(word)), (word, Some(one)));
        }
    }
}
