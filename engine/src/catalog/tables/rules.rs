//! The rules that tie names, files, extents and templates together: each is a query that finds
//! breaches of it.

use super::Result;
use plinth_format::layout::PIECE_SIZE;
use rusqlite::Connection;

/// A breach of a rule is two numbers. At most this many are found of each rule.
const FOUND_MAX: usize = 100;

/// A rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Finds breaches. In units of 512 bytes `:extent` is the size of an extent, `:slot` that of
    /// the slot of a small file.
    sql: &'static str,
    /// How that is reported, with the two numbers in `{0}` and `{1}`.
    broken: &'static str,
}

/// All rules, each with the SQL that finds breaches in a group with AUs of that size.
pub(crate) fn all(au_size: u64) -> impl Iterator<Item = (Rule, String)> {
    let (extent, slot) = ((au_size / 512).to_string(), (PIECE_SIZE / 512).to_string());
    RULES
        .into_iter()
        .map(move |rule| (rule, rule.sql.replace(":extent", &extent).replace(":slot", &slot)))
}

impl Rule {
    /// The sentence about a breach.
    pub(crate) fn report(&self, (first, second): (i64, i64)) -> String {
        self.broken.replace("{0}", &first.to_string()).replace("{1}", &second.to_string())
    }
}

/// The breaches that a rule's query finds.
pub(crate) fn find(connection: &Connection, sql: &str) -> Result<Vec<(i64, i64)>> {
    let mut select = connection.prepare(&format!("{sql} LIMIT {FOUND_MAX}"))?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

const RULES: [Rule; 13] = [
    Rule {
        sql: "SELECT e.parent, e.node FROM entry e LEFT JOIN file f ON f.number = e.node WHERE f.number IS NULL",
        broken: "directory {0} has an entry for file {1}, which does not exist",
    },
    Rule {
        sql: "SELECT e.parent, e.node FROM entry e LEFT JOIN file f ON f.number = e.parent \
         WHERE f.number IS NULL OR f.kind <> 16384",
        broken: "{0}, which is no directory, has an entry for file {1}",
    },
    Rule {
        sql: "SELECT f.number, f.links FROM file f WHERE f.kind <> 16384 AND f.links <> \
         (SELECT count(*) FROM entry e WHERE e.node = f.number)",
        broken: "file {0} has {1} links by its count, and another number of names",
    },
    Rule {
        sql: "SELECT f.number, f.links FROM file f WHERE f.kind = 16384 AND f.links > 0 AND f.links <> \
         2 + (SELECT count(*) FROM entry e WHERE e.parent = f.number AND e.kind = 16384)",
        broken: "directory {0} has {1} links by its count, and another number of subdirectories",
    },
    Rule {
        sql: "SELECT x.id, x.file FROM extent x LEFT JOIN file f ON f.number = x.file WHERE x.mirrors <> coalesce(f.mirrors, 0)",
        broken: "extent {0} has other mirrors than file {1} asks for, or they are shared",
    },
    Rule {
        sql: "SELECT x.id, x.file FROM extent x LEFT JOIN file f ON f.number = x.file WHERE x.file <> 0 AND f.number IS NULL",
        broken: "extent {0} belongs to file {1}, which does not exist",
    },
    Rule {
        sql: "SELECT f.number, f.shared_extent FROM file f LEFT JOIN extent x ON x.id = f.shared_extent AND x.file = 0 \
         WHERE f.shared_extent IS NOT NULL AND x.id IS NULL",
        broken: "file {0} lies in shared extent {1}, which does not exist",
    },
    Rule {
        sql: "SELECT f.number, f.blocks FROM file f WHERE f.links > 0 AND f.blocks <> \
         :extent * (SELECT count(*) FROM extent x WHERE x.file = f.number) + CASE WHEN f.shared_extent IS NULL THEN 0 ELSE :slot END",
        broken: "file {0} takes {1} blocks of 512 bytes by its count, and another number by its extents",
    },
    Rule {
        sql: "SELECT a.number, b.number FROM file a JOIN file b ON a.shared_extent = b.shared_extent AND a.slot = b.slot \
         AND a.number < b.number",
        broken: "files {0} and {1} share one slot",
    },
    Rule {
        sql: "SELECT number, mirrors FROM template WHERE mirrors NOT IN (0, 3) OR fine NOT IN (0, 1) OR system NOT IN (0, 1) OR preformatted NOT IN (0, 1)",
        broken: "template number {0} asks for what no file can have, {1} mirrors or something else",
    },
    Rule {
        sql: "SELECT count(*), 26 FROM template WHERE system = 1 HAVING count(*) <> 26",
        broken: "the system has {0} templates, and {1} types of files",
    },
    Rule {
        sql: "SELECT number, mirrors FROM file WHERE mirrors NOT IN (0, 3) OR fine NOT IN (0, 1) OR preformatted NOT IN (0, 1) \
         OR (kind <> 32768 AND (mirrors <> 0 OR fine <> 0 OR preformatted <> 0 OR type IS NOT NULL))",
        broken: "file {0} is said to have {1} mirrors, or a type or stripes that it cannot have",
    },
    Rule {
        sql: "SELECT parent, node FROM entry WHERE system <> 0 AND (system <> 1 OR kind NOT IN (16384, 32768))",
        broken: "directory {0} has a name of the system's for {1}, which is neither a file nor a directory",
    },
];
