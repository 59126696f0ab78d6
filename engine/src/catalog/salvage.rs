//! The rows of a catalog of which pages are damaged on every mirror.
//!
//! SQLite stops at the first damaged page. Here the pages of each table are visited from its root
//! down, and a damaged one costs only what is on it or can be reached through it alone. The rows go
//! into a new database with the same schema:
//!
//!   1. Walk each table from its root, which the first page names. If the first page is damaged,
//!      the roots are those of a catalog that was made just now.
//!   2. If a page that leads to others is damaged, look at all pages that were not visited: leaves
//!      whose rows can only be those of `file`, `extent` or `entry` are taken. Some may be of files
//!      that were deleted: a free page keeps its content. So rows of step 1 come first.
//!
//! The format is SQLite's (<https://sqlite.org/fileformat2.html>). The pages may hold any bytes: a
//! cell that makes no sense is left out and counted.

use super::{CatalogError, SCHEMA};
use plinth_format::page::{PAGE_SIZE, RESERVED};
use rusqlite::{Connection, params_from_iter, types::Value};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a page that SQLite uses.
const USABLE: usize = PAGE_SIZE - RESERVED;
/// The deepest tree: more levels than a database of 2^32 pages can have.
const DEPTH_MAX: usize = 32;
/// The longest row: a catalog has none that is longer.
const ROW_MAX: usize = 1 << 20;

/// The types of pages with cells.
const TABLE_LEAF: u8 = 0x0d;
const TABLE_INTERIOR: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const INDEX_INTERIOR: u8 = 0x02;

/// The result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Rows of each table.
    pub rows: BTreeMap<String, u64>,
    /// Rows that were found on pages to which no page leads any more: perhaps deleted ones.
    pub strays: u64,
    /// Pages that are damaged or make no sense.
    pub pages: BTreeSet<u32>,
}

/// A table of the schema.
struct Table {
    name: String,
    root: u32,
    columns: usize,
    /// Its first column is the row's number, which the row itself does not have.
    has_row_number: bool,
}

type Page<'a> = &'a dyn Fn(u32) -> Option<Vec<u8>>;

/// Fills a new, empty database.
pub(super) fn salvage(
    new: &Connection,
    page: Page<'_>,
    pages: u32,
) -> Result<Salvaged, CatalogError> {
    new.execute_batch(SCHEMA)?;
    let mut salvaged = Salvaged::default();
    let mut walk =
        Walk { page, pages, visited: BTreeSet::new(), bad: BTreeSet::new(), lost_tree: false };
    let tables = tables(new, &mut walk)?;
    new.execute_batch("BEGIN")?;
    for table in &tables {
        // The rows that a new catalog begins with are not those of this one.
        new.execute(&format!("DELETE FROM {}", table.name), [])?;
        let mut rows = Vec::new();
        walk.tree(table.root, 0, &mut rows);
        let count = insert(new, table, rows)?;
        salvaged.rows.insert(table.name.clone(), count);
    }
    if walk.lost_tree {
        for number in 1..=pages {
            if walk.visited.contains(&number) || walk.bad.contains(&number) {
                continue;
            }
            let Some((kind, rows)) = walk.leaf(number) else { continue };
            for row in rows {
                if let Some(table) = stray(&tables, kind, &row) {
                    salvaged.strays += insert(new, table, vec![row])?;
                }
            }
        }
    }
    new.execute_batch("COMMIT")?;
    salvaged.pages = walk.bad;
    Ok(salvaged)
}

/// The tables with their roots in the damaged database.
fn tables(new: &Connection, walk: &mut Walk<'_>) -> Result<Vec<Table>, CatalogError> {
    let mut schema = Vec::new();
    walk.tree(1, 0, &mut schema);
    let roots: BTreeMap<String, u32> = schema
        .into_iter()
        .filter_map(|row| match row.values.get(..4)? {
            [Value::Text(kind), Value::Text(name), _, Value::Integer(root)] if kind == "table" => {
                Some((name.clone(), u32::try_from(*root).ok()?))
            }
            _ => None,
        })
        .collect();
    let sql = "SELECT s.name, s.rootpage, (SELECT count(*) FROM pragma_table_info(s.name)), \
               s.sql LIKE '%INTEGER PRIMARY KEY%' \
               FROM sqlite_schema s WHERE s.type = 'table' ORDER BY s.rootpage";
    let mut select = new.prepare(sql)?;
    let tables = select.query_map([], |row| {
        let name: String = row.get(0)?;
        Ok(Table {
            root: roots.get(&name).copied().unwrap_or(row.get(1)?),
            columns: usize::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
            has_row_number: row.get(3)?,
            name,
        })
    })?;
    Ok(tables.collect::<Result<_, _>>()?)
}

/// The table whose row this can only be.
fn stray<'a>(tables: &'a [Table], kind: u8, row: &RowOf) -> Option<&'a Table> {
    let table = |name: &str| tables.iter().find(|table| table.name == name);
    let (file, extent, entry) = (table("file")?, table("extent")?, table("entry")?);
    let is_blob = |at: usize| matches!(row.values.get(at), Some(Value::Blob(_)));
    match (kind, row.values.len()) {
        (TABLE_LEAF, count) if count == file.columns => Some(file),
        (TABLE_LEAF, count) if count == extent.columns => Some(extent),
        (INDEX_LEAF, count) if count == entry.columns && is_blob(1) => Some(entry),
        _ => None,
    }
}

/// Rows that a constraint refuses are left out: another row with their key was there before.
fn insert(new: &Connection, table: &Table, rows: Vec<RowOf>) -> Result<u64, CatalogError> {
    let mut count = 0;
    for mut row in rows {
        if row.values.len() > table.columns || row.values.is_empty() {
            continue;
        }
        if table.has_row_number {
            row.values[0] = Value::Integer(row.number);
        }
        // A row of an earlier version lacks the last columns, which have the default.
        let sql =
            "SELECT group_concat(name) FROM (SELECT name FROM pragma_table_info(?1) LIMIT ?2)";
        let count_of = i64::try_from(row.values.len()).unwrap_or(i64::MAX);
        let mut select = new.prepare_cached(sql)?;
        let columns: String = select.query_row((&table.name, count_of), |row| row.get(0))?;
        let marks = vec!["?"; row.values.len()].join(",");
        let sql = format!("INSERT OR IGNORE INTO {} ({columns}) VALUES ({marks})", table.name);
        count += new.prepare_cached(&sql)?.execute(params_from_iter(row.values))? as u64;
    }
    Ok(count)
}

/// A row as its page has it.
#[derive(Debug, Clone, PartialEq)]
struct RowOf {
    number: i64,
    values: Vec<Value>,
}

/// The visit of a tree's pages.
struct Walk<'a> {
    page: Page<'a>,
    pages: u32,
    visited: BTreeSet<u32>,
    bad: BTreeSet<u32>,
    /// A page that leads to others cannot be read.
    lost_tree: bool,
}

impl Walk<'_> {
    fn read(&mut self, number: u32) -> Option<Vec<u8>> {
        if number == 0 || number > self.pages || !self.visited.insert(number) {
            return None;
        }
        let found = (self.page)(number).filter(|page| page.len() == PAGE_SIZE);
        if found.is_none() {
            self.bad.insert(number);
        }
        found
    }

    /// Adds the rows below a page.
    fn tree(&mut self, number: u32, depth: usize, rows: &mut Vec<RowOf>) {
        let Some(page) = (depth < DEPTH_MAX).then(|| self.read(number)).flatten() else {
            // A leaf or not: that cannot be told any more.
            self.lost_tree = true;
            return;
        };
        let Some(cells) = Cells::of(&page, number) else {
            self.bad.insert(number);
            self.lost_tree = true;
            return;
        };
        for at in 0..cells.count {
            let Some(cell) = cells.cell(at) else {
                self.bad.insert(number);
                continue;
            };
            if let Some(child) = cells.child(cell) {
                self.tree(child, depth + 1, rows);
            }
            if cells.kind != TABLE_INTERIOR {
                match self.row(&cells, cell) {
                    Some(row) => rows.push(row),
                    None => drop(self.bad.insert(number)),
                }
            }
        }
        if let Some(child) = cells.last_child() {
            self.tree(child, depth + 1, rows);
        }
    }

    /// The rows of a leaf that no page leads to.
    fn leaf(&mut self, number: u32) -> Option<(u8, Vec<RowOf>)> {
        let page = (self.page)(number).filter(|page| page.len() == PAGE_SIZE)?;
        let cells = Cells::of(&page, number)?;
        if !matches!(cells.kind, TABLE_LEAF | INDEX_LEAF) {
            return None;
        }
        let rows = (0..cells.count).map(|at| {
            let cell = cells.cell(at)?;
            self.row(&cells, cell)
        });
        // A page of something else does not happen to hold nothing but rows.
        Some((cells.kind, rows.collect::<Option<Vec<_>>>()?))
    }

    /// The row of a cell, from its own page and the pages that it overflows to.
    fn row(&mut self, cells: &Cells<'_>, mut cell: &[u8]) -> Option<RowOf> {
        if cells.kind == INDEX_INTERIOR {
            cell = cell.get(4..)?;
        }
        let (length, rest) = varint(cell)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= ROW_MAX)?;
        let (number, rest) = match cells.kind {
            TABLE_LEAF => varint(rest)?,
            _ => (0, rest),
        };
        let most = match cells.kind {
            TABLE_LEAF => USABLE - 35,
            _ => (USABLE - 12) * 64 / 255 - 23,
        };
        let mut payload = Vec::new();
        if length <= most {
            payload.extend_from_slice(rest.get(..length)?);
        } else {
            let least = (USABLE - 12) * 32 / 255 - 23;
            let wanted = least + (length - least) % (USABLE - 4);
            let here = if wanted <= most { wanted } else { least };
            payload.extend_from_slice(rest.get(..here)?);
            let mut next = be32(rest, here)?;
            while payload.len() < length {
                let page = self.read(next)?;
                next = be32(&page, 0)?;
                let take = (length - payload.len()).min(USABLE - 4);
                payload.extend_from_slice(page.get(4..4 + take)?);
            }
        }
        Some(RowOf { number, values: record(&payload)? })
    }
}

/// The cells of a page.
struct Cells<'a> {
    page: &'a [u8],
    kind: u8,
    count: usize,
    /// Where the page's header begins: the first page has the database's header before it.
    header: usize,
}

impl<'a> Cells<'a> {
    fn of(page: &'a [u8], number: u32) -> Option<Self> {
        let header = if number == 1 { 100 } else { 0 };
        let kind = *page.get(header)?;
        let is_known = matches!(kind, TABLE_LEAF | TABLE_INTERIOR | INDEX_LEAF | INDEX_INTERIOR);
        let count = usize::from(be16(page, header + 3)?);
        (is_known && count <= USABLE / 2).then_some(Self { page, kind, count, header })
    }

    fn is_interior(&self) -> bool {
        matches!(self.kind, TABLE_INTERIOR | INDEX_INTERIOR)
    }

    fn cell(&self, at: usize) -> Option<&'a [u8]> {
        let pointers = self.header + if self.is_interior() { 12 } else { 8 };
        let start = usize::from(be16(self.page, pointers + at * 2)?);
        self.page.get(start..USABLE)
    }

    fn child(&self, cell: &[u8]) -> Option<u32> {
        if self.is_interior() { be32(cell, 0) } else { None }
    }

    fn last_child(&self) -> Option<u32> {
        if self.is_interior() { be32(self.page, self.header + 8) } else { None }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// SQLite's number of variable length, and what follows it.
fn varint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value: u64 = 0;
    for at in 0..8 {
        let byte = *bytes.get(at)?;
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value.cast_signed(), bytes.get(at + 1..)?));
        }
    }
    value = value << 8 | u64::from(*bytes.get(8)?);
    Some((value.cast_signed(), bytes.get(9..)?))
}

/// The values of a record.
fn record(payload: &[u8]) -> Option<Vec<Value>> {
    let (header, mut types) = varint(payload)?;
    let header = usize::try_from(header).ok()?;
    let after = payload.len() - types.len();
    types = types.get(..header.checked_sub(after)?)?;
    let mut body = payload.get(header..)?;
    let mut values = Vec::new();
    while !types.is_empty() {
        let (kind, rest) = varint(types)?;
        types = rest;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((kind - 12) / 2).ok()?,
            _ => return None,
        };
        let bytes = body.get(..length)?;
        body = body.get(length..)?;
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => {
                let sign = if bytes.first()? & 0x80 == 0 { 0_i64 } else { -1 };
                Value::Integer(bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
            }
            7 => Value::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
            text if text % 2 == 1 => Value::Text(String::from_utf8(bytes.to_vec()).ok()?),
            _ => Value::Blob(bytes.to_vec()),
        });
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalog::{
            Catalog,
            memory_store::MemoryStore,
            store::{CatalogFile, Store},
        },
        testing::{Numbers, TestWorld, block_on},
        world::World,
    };
    use std::sync::Arc;

    /// A catalog with some rows in every kind of tree, as pages.
    fn pages(rows: i64) -> Vec<Vec<u8>> {
        let world: Arc<dyn World> = TestWorld::new();
        let store = MemoryStore::new(1, 16 << 20, 16 << 20, None);
        let disks = Arc::clone(&store) as Arc<dyn Store>;
        let catalog = block_on(Catalog::create(&world, disks)).expect("a catalog");
        let fill = move |connection: &Connection| {
            for number in 0..rows {
                let file = "INSERT INTO file (number, generation, kind, mode, links, uid, gid, \
                            accessed, modified, changed, created, type) \
                            VALUES (?1, 1, 32768, 420, 1, 0, 0, -1, 2, 3, 4, 'DATAFILE')";
                connection.execute(file, [number + 256])?;
                let entry = "INSERT INTO entry (parent, name, node, kind, cookie) \
                             VALUES (1, CAST(?1 AS BLOB), ?2, 32768, ?2)";
                let name = match number {
                    7 => "x".repeat(9000),
                    _ => format!("name{number}"),
                };
                connection.execute(entry, (name, number + 256))?;
                let extent = "INSERT INTO extent (id, file, number, d0, a0, written) \
                              VALUES (?1, ?2, 0, 1, ?1, x'ff01')";
                connection.execute(extent, (number + 1, number + 256))?;
            }
            Ok(())
        };
        block_on(catalog.write(true, fill)).expect("filled");
        block_on(catalog.close()).expect("closed");
        let file = CatalogFile::Database;
        let count = be32(&store.peek(file, 0, 0, PAGE_SIZE), 28).expect("a size");
        let page = |at| store.peek(file, 0, u64::from(at) * PAGE_SIZE as u64, PAGE_SIZE);
        (0..count).map(page).collect()
    }

    fn salvaged(pages: &[Vec<u8>], bad: &[u32]) -> (Connection, Salvaged) {
        let new = Connection::open_in_memory().expect("a database");
        let page = |number: u32| {
            if bad.contains(&number) { None } else { pages.get(number as usize - 1).cloned() }
        };
        let found = salvage(&new, &page, pages.len() as u32).expect("salvaged");
        (new, found)
    }

    fn count(connection: &Connection, table: &str) -> i64 {
        connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .expect("counted")
    }

    /// Of a whole catalog every row comes over; without any one page at most the rows of that page
    /// are lost.
    #[test]
    fn a_damaged_page_costs_only_its_rows() {
        const ROWS: i64 = 700;
        let pages = pages(ROWS);
        let (new, found) = salvaged(&pages, &[]);
        assert_eq!((found.strays, found.pages.len()), (0, 0));
        for table in ["file", "entry", "extent"] {
            assert_eq!(count(&new, table), ROWS, "{table}");
        }
        let right: Vec<String> = dump(&new);
        for bad in 1..=pages.len() as u32 {
            let (new, _) = salvaged(&pages, &[bad]);
            let lost: i64 =
                ["file", "entry", "extent"].iter().map(|table| ROWS - count(&new, table)).sum();
            assert!((0..200).contains(&lost), "page {bad}: {lost} rows lost");
            if bad % 5 == 0 {
                assert!(dump(&new).iter().all(|row| right.contains(row)), "page {bad}");
            }
        }
    }

    fn dump(connection: &Connection) -> Vec<String> {
        let sql = "SELECT hex(name) || node || cookie FROM entry";
        let mut select = connection.prepare(sql).expect("prepared");
        let rows = select.query_map([], |row| row.get(0)).expect("rows");
        rows.map(|row| row.expect("a row")).collect()
    }

    /// Any bytes on any page: no panic, no endless loop.
    #[test]
    fn any_bytes_are_survived() {
        let pages = pages(300);
        let mut numbers = Numbers::new(5);
        for _ in 0..200 {
            let mut pages = pages.clone();
            for _ in 0..20 {
                let mut draw = [0; 16];
                numbers.fill(&mut draw);
                let at = usize::from(draw[0]) * 256 + usize::from(draw[1]);
                let count = pages.len();
                let page = &mut pages[at % count];
                let start = (usize::from(draw[2]) * 256 + usize::from(draw[3])) % (PAGE_SIZE - 8);
                let start = if draw[4] < 128 { start % 120 } else { start };
                page[start..start + 8].copy_from_slice(&draw[5..13]);
            }
            salvaged(&pages, &[]);
        }
    }
}
