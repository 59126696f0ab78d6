//! The views that SQL shows, declared once: name, type, source and meaning of each column.
//!
//! Everything else follows from these tables: the temporary tables and views of the connections
//! that answer queries, how they are filled (by name), what a statement may read, and the
//! instance's lists of columns. A test compares `docs/sql.md` with them. A new column needs two
//! changes: its declaration here, and the code that provides its value (`views/`). Columns that ASM
//! does not have are the last of their view.
//!
//! The views select from the catalog's tables (`main.`) and from temporary tables of the present
//! state (`temp.live_...`), which are filled before each query. Times are UTC. Sizes in `_mb` are
//! MiB.

mod empty;
mod group;
mod instance;
#[cfg(test)]
mod sql_md;
mod stats;
mod tables;

use std::{collections::BTreeSet, sync::LazyLock};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Integer,
    Real,
    Text,
    /// A point in time in UTC: `YYYY-MM-DD HH:MI:SS`, which drivers are told is a timestamp.
    Time,
}

impl Type {
    const fn declaration(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text | Self::Time => "TEXT",
        }
    }
}

/// The source of a column's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The column of the same name in the view's live table; the rows are made in `views/`.
    Live,
    /// An expression over the tables of the view's `FROM`.
    Sql(&'static str),
    /// The instance provides it, not an engine.
    Instance,
}

/// A column of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Type,
    pub source: Source,
    /// The text of its row in `docs/sql.md`.
    pub meaning: &'static str,
}

const fn column(name: &'static str, kind: Type, source: Source, meaning: &'static str) -> Column {
    Column { name, kind, source, meaning }
}

/// A view.
#[derive(Debug)]
pub struct View {
    pub name: &'static str,
    /// Whether there is a twin, `..._stat`, for which the instance does not run discovery.
    pub has_twin: bool,
    /// The table of its live columns, and its alias in the `FROM`.
    live: Option<(&'static str, &'static str)>,
    /// `WITH ...`, or nothing.
    with: &'static str,
    /// Empty if the instance makes the rows.
    from: &'static str,
    pub columns: &'static [Column],
}

/// A temporary table, with those of its columns that are not shown unchanged by a view.
#[derive(Debug)]
struct Table {
    name: &'static str,
    columns: &'static [(&'static str, &'static str)],
}

/// All views.
pub fn all() -> impl Iterator<Item = &'static View> {
    [group::VIEWS, stats::VIEWS, instance::VIEWS, empty::VIEWS].into_iter().flatten()
}

/// The columns of a temporary table, with their types for `CREATE TABLE`.
fn columns_of(table: &Table) -> Vec<(&'static str, &'static str)> {
    let live = all()
        .filter(|view| view.live.is_some_and(|(name, _)| name == table.name))
        .flat_map(|view| view.columns)
        .filter(|column| column.source == Source::Live)
        .map(|column| (column.name, column.kind.declaration()));
    let mut columns = table.columns.to_vec();
    for column in live {
        if !columns.iter().any(|(name, _)| *name == column.0) {
            columns.push(column);
        }
    }
    columns
}

/// The names of the columns of a temporary table.
#[cfg(test)]
pub(crate) fn names_of(table: &str) -> BTreeSet<&'static str> {
    let table = tables::TABLES.iter().find(|other| other.name == table).expect("a table");
    columns_of(table).into_iter().map(|(name, _)| name).collect()
}

/// The tables that are filled before each query.
pub(crate) fn live_tables() -> impl Iterator<Item = &'static str> {
    tables::TABLES.iter().map(|table| table.name).filter(|name| name.starts_with("live_"))
}

impl View {
    /// Whether the instance makes the rows, and engines do not have the view.
    #[must_use]
    pub fn is_of_instance(&self) -> bool {
        self.from.is_empty()
    }

    /// Whether the view is about something that Plinth does not have.
    #[must_use]
    pub fn is_without_rows(&self) -> bool {
        empty::VIEWS.iter().any(|view| view.name == self.name)
    }

    fn create(&self) -> String {
        let select = self.columns.iter().filter_map(|column| {
            let source = match (column.source, self.live) {
                (Source::Sql(source), _) => source.to_owned(),
                (Source::Live, Some((_, table))) => format!("{table}.{}", column.name),
                (Source::Live, None) | (Source::Instance, _) => return None,
            };
            Some(format!("{source} AS {}", column.name))
        });
        let select = select.collect::<Vec<_>>().join(", ");
        format!(
            "CREATE TEMP VIEW {} AS {} SELECT {select} FROM {};",
            self.name, self.with, self.from
        )
    }

    /// The names of the tables that its `WITH` defines.
    fn named_parts(&self) -> impl Iterator<Item = &'static str> {
        let pieces: Vec<&'static str> = self.with.split(") AS (").collect();
        let heads = pieces.len().saturating_sub(1);
        pieces.into_iter().take(heads).filter_map(|piece| {
            piece.rsplit_once('(').and_then(|(before, _)| before.split_whitespace().next_back())
        })
    }
}

/// Views between the catalog's tables and the declared views; they are for internal use.
const BETWEEN: &str = include_str!("../views.sql");

/// Creates the temporary tables and the views in a connection.
pub(super) static CREATE: LazyLock<String> = LazyLock::new(|| {
    let mut sql = String::new();
    for table in tables::TABLES {
        let columns = columns_of(table).into_iter().map(|(name, kind)| format!("{name} {kind}"));
        let columns = columns.collect::<Vec<_>>().join(", ");
        sql += &format!("CREATE TEMP TABLE {} ({columns});\n", table.name);
    }
    sql += BETWEEN;
    for view in all().filter(|view| !view.from.is_empty()) {
        sql += &view.create();
        sql.push('\n');
    }
    sql
});

/// Tables of the catalog that statements may read.
const READABLE: [&str; 16] = [
    "file",
    "entry",
    "xattr",
    "extent",
    "stale",
    "attribute",
    "counter",
    "template",
    "access_user",
    "access_group",
    "access_member",
    "volume",
    "json_each",
    "json_tree",
    "sqlite_master",
    "sqlite_schema",
];

/// Whether a statement may read a table or view of this name, in lower case.
pub(super) fn is_readable(name: &str) -> bool {
    static DECLARED: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let between = BETWEEN.lines().filter_map(|line| line.strip_prefix("CREATE TEMP VIEW "));
        let between = between.filter_map(|rest| rest.split_whitespace().next());
        let views = all().filter(|view| !view.from.is_empty());
        let parts = all().flat_map(View::named_parts);
        let tables = tables::TABLES.iter().map(|table| table.name);
        tables.chain(views.map(|view| view.name)).chain(parts).chain(between).collect()
    });
    READABLE.contains(&name) || DECLARED.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_of_a_view_is_declared_once_and_each_live_one_has_a_table() {
        for view in all() {
            let names: BTreeSet<&str> = view.columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), view.columns.len(), "{}", view.name);
            let is_live = |column: &Column| column.source == Source::Live;
            assert!(view.live.is_some() || !view.columns.iter().any(is_live), "{}", view.name);
            if let Some((table, _)) = view.live {
                assert!(live_tables().any(|name| name == table), "{}: {table}", view.name);
            }
        }
    }

    #[test]
    fn whatever_a_view_reads_may_be_read() {
        for name in ["v$asm_disk", "x$kfdat", "bound", "free", "event", "extent_mirror", "entries"]
        {
            assert!(is_readable(name), "{name}");
        }
        for name in ["reply", "sqlite_temp_master", "v$asm_estimate", "with", "disk"] {
            assert!(!is_readable(name), "{name}");
        }
    }
}
