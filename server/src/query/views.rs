//! The views, as the engine declares them (`catalog/columns`), with their columns and types.
//!
//! Rows come from the engines and, for disks and groups that are not mounted, from discovery.

use plinth_engine::catalog::columns;
use std::{collections::BTreeSet, sync::LazyLock};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Integer,
    Real,
    Text,
    /// A point in time: a text `YYYY-MM-DD HH:MI:SS`, with microseconds or without; for drivers a
    /// timestamp.
    Time,
    /// These two only occur in PostgreSQL's own catalog: none of our views has such a column.
    Truth,
    /// PostgreSQL's type `"char"`.
    Letter,
}

impl Type {
    /// The name of the type in SQLite's declarations.
    #[must_use]
    pub fn declaration(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            // To SQLite it is a text, because the word has TEXT in it.
            Self::Time => "TIMETEXT",
            Self::Truth => "BOOLEAN",
            Self::Letter => "CHARCODE",
        }
    }

    /// The type that a declaration names.
    #[must_use]
    pub fn declared(declaration: &str) -> Option<Self> {
        [Self::Integer, Self::Real, Self::Text, Self::Time, Self::Truth, Self::Letter]
            .into_iter()
            .find(|kind| kind.declaration() == declaration)
    }
}

impl From<columns::Type> for Type {
    fn from(kind: columns::Type) -> Self {
        match kind {
            columns::Type::Integer => Self::Integer,
            columns::Type::Real => Self::Real,
            columns::Type::Text => Self::Text,
            columns::Type::Time => Self::Time,
        }
    }
}

/// One view.
#[derive(Debug)]
pub struct View {
    pub name: &'static str,
    pub columns: Vec<(&'static str, Type)>,
    /// Whether there is a twin, `..._stat`, that triggers no discovery.
    pub has_twin: bool,
    /// Whether the instance has the rows, and engines do not know the view.
    pub is_of_instance: bool,
    /// Whether it is about something that Plinth does not have.
    pub is_without_rows: bool,
}

/// Columns with the group's number.
pub const GROUP: [&str; 4] = ["group_number", "group_kffxp", "group_kfdat", "grp"];
/// Columns whose numbers have the group's number in their high bits.
pub const COMPOUND: [&str; 6] = [
    "compound_index",
    "parent_index",
    "reference_index",
    "compound_kffxp",
    "compound_kfdat",
    "compound",
];

/// All views.
pub fn all() -> impl Iterator<Item = &'static View> {
    static VIEWS: LazyLock<Vec<View>> = LazyLock::new(|| {
        let columns = |view: &columns::View| {
            view.columns.iter().map(|column| (column.name, column.kind.into())).collect()
        };
        let view = |view: &columns::View| View {
            name: view.name,
            columns: columns(view),
            has_twin: view.has_twin,
            is_of_instance: view.is_of_instance(),
            is_without_rows: view.is_without_rows(),
        };
        columns::all().map(view).collect()
    });
    VIEWS.iter()
}

/// The view of this name, in any case.
#[must_use]
pub fn find(name: &str) -> Option<&'static View> {
    all().find(|view| view.name.eq_ignore_ascii_case(name))
}

/// The suffix of views that do not trigger discovery.
pub const TWIN: &str = "_stat";

/// The view that a relation's name means: the one of this name, or the one whose twin it is.
#[must_use]
pub fn of_relation(name: &str) -> Option<&'static View> {
    let twins_view = || {
        let view = name.len().checked_sub(TWIN.len()).and_then(|end| {
            let (name, suffix) = name.split_at_checked(end)?;
            suffix.eq_ignore_ascii_case(TWIN).then(|| find(name)).flatten()
        });
        view.filter(|view| view.has_twin)
    };
    find(name).or_else(twins_view)
}

/// Whether columns of this name hold times.
#[must_use]
pub fn is_time(column: &str) -> bool {
    static TIMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let columns = all().flat_map(|view| &view.columns);
        columns.filter(|(_, kind)| *kind == Type::Time).map(|(name, _)| *name).collect()
    });
    TIMES.contains(column.to_ascii_lowercase().as_str())
}
