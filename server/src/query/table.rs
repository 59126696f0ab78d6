#![allow(unsafe_code)]
//! Fetched rows as a virtual table in a statement's SQLite.
//!
//! Each view is a module of that connection with exactly one table, of the module's own name:
//! nothing has to be created for views that a statement does not read. Unsafe, because `rusqlite`
//! requires the promise that the two structures begin with SQLite's own, which they do.

use super::{
    fetched::{Fetched, Index, Origin},
    views::Type,
};
use plinth_engine::catalog::rows::Seen;
use rusqlite::{
    Connection, Error, Result, ffi,
    types::{ToSqlOutput, ValueRef},
    vtab::{
        Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection,
        VTabCursor,
    },
};
use std::{
    borrow::Cow,
    ffi::{CStr, CString, c_int},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// A table that is declared first and filled later.
#[derive(Clone)]
pub struct Shared {
    columns: Arc<Vec<(String, Option<Type>)>>,
    rows: Arc<Mutex<Arc<Fetched>>>,
}

impl Shared {
    pub fn new(columns: Vec<(String, Option<Type>)>) -> Self {
        let empty = Fetched::new(0, vec![Origin::Nothing; columns.len()]);
        Self { columns: Arc::new(columns), rows: Arc::new(Mutex::new(Arc::new(empty))) }
    }

    pub fn fill(&self, rows: Fetched) {
        *self.rows.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rows);
    }

    fn rows(&self) -> Arc<Fetched> {
        Arc::clone(&self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers the table with a connection under this name.
    pub fn declare(&self, connection: &Connection, name: &str) -> Result<()> {
        const MODULE: Module<'_, Table> = Module::eponymous_only_module();
        connection.create_module(name, &MODULE, Some(self.clone()))
    }
}

#[repr(C)]
struct Table {
    base: ffi::sqlite3_vtab,
    shared: Shared,
}

#[repr(C)]
struct Cursor {
    base: ffi::sqlite3_vtab_cursor,
    rows: Arc<Fetched>,
    index: Option<Arc<Index>>,
    /// Positions in the index, or row numbers if there is no index.
    left: Range<usize>,
}

// SAFETY: it is `repr(C)` and begins with `sqlite3_vtab`.
unsafe impl VTab<'_> for Table {
    type Aux = Shared;
    type Cursor = Cursor;

    fn connect(
        connection: &mut VTabConnection,
        shared: Option<&Shared>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        connection.config(VTabConfig::Innocuous)?;
        let shared =
            shared.ok_or_else(|| Error::ModuleError("a table without columns".into()))?.clone();
        let columns = shared
            .columns
            .iter()
            .map(|(name, kind)| format!("\"{name}\" {}", kind.map_or("", Type::declaration)));
        let sql = format!("CREATE TABLE x ({})", columns.collect::<Vec<_>>().join(", "));
        let sql = CString::new(sql).map_err(|error| Error::ModuleError(error.to_string()))?;
        Ok((Cow::Owned(sql), Self { base: ffi::sqlite3_vtab::default(), shared }))
    }

    /// Uses the index of one column that is compared for equality; if there are several, of the
    /// column with the most distinct values.
    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let rows = self.shared.rows();
        let count = rows.len().max(1);
        let mut candidates = Vec::new();
        for (at, constraint) in info.constraints().enumerate() {
            let equal = constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ;
            if let (true, true, Ok(column)) =
                (constraint.is_usable(), equal, usize::try_from(constraint.column()))
            {
                candidates.push((at, column));
            }
        }
        candidates.retain(|(at, column)| {
            rows.is_sent(*column) && info.collation(*at).is_ok_and(|name| name == "BINARY")
        });
        let best = if candidates.len() > 1 {
            candidates.into_iter().max_by_key(|(_, column)| rows.index(*column).distinct)
        } else {
            candidates.pop()
        };
        let Some((at, column)) = best else {
            info.set_estimated_cost(count as f64);
            info.set_estimated_rows(i64::try_from(count).unwrap_or(i64::MAX));
            return Ok(true);
        };
        let each = rows
            .known_index(column)
            .map_or(4, |index| count / index.distinct.max(1))
            .clamp(1, count);
        let mut usage = info.constraint_usage(at);
        usage.set_argv_index(1);
        info.set_idx_num(c_int::try_from(column + 1).unwrap_or(0));
        info.set_estimated_cost((count as f64).log2() + each as f64);
        info.set_estimated_rows(i64::try_from(each).unwrap_or(i64::MAX));
        Ok(true)
    }

    fn open(&mut self) -> Result<Cursor> {
        Ok(Cursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            rows: self.shared.rows(),
            index: None,
            left: 0..0,
        })
    }
}

// SAFETY: it is `repr(C)` and begins with `sqlite3_vtab_cursor`.
unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, number: c_int, _: Option<&str>, wanted: &Filters<'_>) -> Result<()> {
        self.index = None;
        self.left = 0..self.rows.len();
        let Some(column) = usize::try_from(number).ok().and_then(|number| number.checked_sub(1))
        else {
            return Ok(());
        };
        let wanted = match wanted.iter().next() {
            Some(ValueRef::Integer(number)) => Seen::Integer(number),
            Some(ValueRef::Text(text)) => Seen::Text(text),
            Some(ValueRef::Null) => Seen::Null,
            // SQLite checks the rows of the cursor once more, so a full scan is correct, only
            // slower.
            _ => return Ok(()),
        };
        let index = self.rows.index(column);
        if let Some(found) = self.rows.find(&index, column, wanted) {
            self.left = found;
            self.index = Some(index);
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.left.start += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.left.start >= self.left.end
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let value = self.rows.value(self.row(), usize::try_from(column).unwrap_or(usize::MAX));
        context.set_result(ToSqlOutput::Borrowed(value.into()))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(i64::try_from(self.row()).unwrap_or(i64::MAX))
    }
}

impl Cursor {
    fn row(&self) -> usize {
        self.index.as_ref().map_or(self.left.start, |index| index.row(self.left.start))
    }
}
