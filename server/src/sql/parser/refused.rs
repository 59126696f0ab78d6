//! Clauses of ASM's SQL that Plinth does not have, refused with the reason and a remedy.

use super::{Parser, Result, Statement};
use crate::{
    sql::At,
    sql_error::{SqlError, state},
};

/// The state of an instance without a database.
const NO_DATABASE: &str = "55000";
/// The words with which the kinds of a database's objects begin.
const OBJECTS: [&str; 28] = [
    "BIGFILE",
    "BITMAP",
    "CLUSTER",
    "CONTEXT",
    "CONTROLFILE",
    "DATABASE",
    "DIRECTORY",
    "FUNCTION",
    "GLOBAL",
    "INDEX",
    "LIBRARY",
    "MATERIALIZED",
    "OR",
    "PACKAGE",
    "PLUGGABLE",
    "PRIVATE",
    "PROCEDURE",
    "PROFILE",
    "PUBLIC",
    "SEQUENCE",
    "SYNONYM",
    "TABLE",
    "TABLESPACE",
    "TEMPORARY",
    "TRIGGER",
    "UNDO",
    "UNIQUE",
    "VIEW",
];

impl Parser<'_> {
    /// The clauses of `ALTER DISKGROUP group` that have files of their own; `None` if another
    /// clause comes next.
    pub(super) fn other_clause(&mut self, group: &At<String>) -> Result<Option<Statement>> {
        let words = |parser: &Self| -> (String, String) {
            let word = |index: usize| match parser.tokens.get(index).map(|token| &token.kind) {
                Some(super::Kind::Word(word)) => word.to_ascii_uppercase(),
                _ => String::new(),
            };
            (word(parser.next), word(parser.next + 1))
        };
        let (verb, what) = words(self);
        type Clause<'a> = fn(&mut Parser<'a>, At<String>) -> Result<Statement>;
        let clause: Clause<'_> = match (verb.as_str(), what.as_str()) {
            ("CHECK", _) => Self::check,
            ("ADD", "USER" | "USERGROUP") => Self::add_access,
            ("DROP", "USER" | "USERGROUP") => Self::drop_access,
            ("MODIFY", "USERGROUP") => Self::modify_access,
            ("REPLACE", "USER") => Self::replace_users,
            ("SET", "PERMISSION") => Self::set_permission,
            ("SET", "OWNERSHIP") => Self::set_ownership,
            ("ADD", "VOLUME") => Self::add_volume,
            ("MODIFY", "VOLUME") => Self::modify_volume,
            ("RESIZE", "VOLUME") => Self::resize_volume,
            ("DROP", "VOLUME") => Self::drop_volume,
            ("ADD" | "DROP" | "MODIFY" | "MOVE", "QUOTAGROUP") => {
                return Err(self.refuse(
                    "quota groups are not there",
                    "give what must not grow a disk group of its own: files have no quota within one",
                ));
            }
            ("ADD" | "DROP" | "MODIFY" | "MOVE", "FILEGROUP") => {
                return Err(self.refuse(
                    "file groups are not there: they belong to FLEX redundancy",
                    "files have that of their template (MODIFY TEMPLATE), a disk group its own (CONVERT REDUNDANCY)",
                ));
            }
            ("MOVE", "FILE") => {
                return Err(self.refuse(
                    "file groups are not there: they belong to FLEX redundancy",
                    "plinth cp copies a file to another disk group",
                ));
            }
            ("MODIFY", "FILE") => {
                return Err(self.refuse(
                    "regions of disks (HOT, COLD) are not there: Oracle gave them up, too",
                    "put what must be fast in a disk group on fast disks",
                ));
            }
            _ => return Ok(None),
        };
        self.next += 1;
        clause(self, group.clone()).map(Some)
    }

    /// Refuses clauses of `ALTER SYSTEM` and `ALTER DATABASE` that belong to Oracle's clusters and
    /// databases.
    pub(super) fn refuse_of_system(&self) -> Option<SqlError> {
        if self.is("START") || self.is("STOP") {
            return Some(self.refuse(
                "there is no rolling migration: each engine is its own, and none waits for another's version",
                "plinth shutdown, install the new version, plinth serve: engines and databases go on meanwhile",
            ));
        }
        if self.is("RELOCATE") {
            return Some(self.refuse(
                "clients belong to their host's engine and cannot go to another instance",
                "",
            ));
        }
        if self.is("FLUSH") {
            return Some(
                self.refuse("there is no password file", "who may connect is said where roles are"),
            );
        }
        let of_database = ["ARCHIVE", "CHECKPOINT", "SWITCH"].iter().any(|word| self.is(word));
        of_database.then(|| self.not_open())
    }

    pub(super) fn refuse_of_database(&self) -> SqlError {
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        if !rest.iter().any(|token| token.is("MIRROR")) {
            return SqlError::new(NO_DATABASE, "no database is mounted, and none can be here")
                .detail("NoDatabase, which Oracle calls ORA-01507")
                .hint("this instance has disk groups, as an ASM instance")
                .at(self.here());
        }
        self.refuse(
            "mirror copies of databases are not there",
            "a database is copied with its own tools, or as files where the disk group is mounted",
        )
    }

    /// The refusal of what CREATE, DROP and ALTER of a database are about; `None` at another word.
    pub(super) fn refuse_of_object(&self) -> Option<SqlError> {
        if self.is("PFILE") || self.is("SPFILE") {
            return Some(self.refuse(
                "the parameters are in one file, which is written by ALTER SYSTEM SET",
                "v$spparameter shows it",
            ));
        }
        OBJECTS.iter().any(|word| self.is(word)).then(|| self.not_open())
    }

    /// The refusal of a statement about what an open database has.
    pub(super) fn not_open(&self) -> SqlError {
        SqlError::new(NO_DATABASE, "no database is open: tables and the like are not here")
            .detail("NotOpen, which Oracle calls ORA-01109")
            .hint("this instance has disk groups, as an ASM instance")
            .at(self.here())
    }

    fn refuse(&self, why: &str, hint: &str) -> SqlError {
        let refusal = SqlError::new(state::NOT_SUPPORTED, why).at(self.here());
        if hint.is_empty() { refusal } else { refusal.hint(hint) }
    }
}
