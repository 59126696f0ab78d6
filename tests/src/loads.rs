//! Loads that write while power may go, and their verification afterwards.
//!
//! Every load does numbered operations, from 1 on; the bytes of an operation follow from its
//! number. As soon as one is durable by the rules of POSIX (or of the database), and not before,
//! the load reports its number. After a crash that came when number n had been reported, `verify`
//! wants the effects of operations up to n, bit by bit, and of later ones only what is allowed:
//! some of the bytes that they wrote, or the old ones.

use plinth_workload::{
    class::Sizes,
    pattern::{SECTOR, bytes, compare, ensure, sector, version_of},
    random::Random,
};
use rusqlite::Connection;
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    ops::RangeInclusive,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

pub use plinth_workload::pattern::Wrong;

pub trait Load: Send + Sync {
    /// Makes everything that is there before the first operation. Durable when it returns.
    fn prepare(&self, dir: &Path);

    /// Does some operations, and reports the number of each when it is durable.
    fn run(&self, dir: &Path, operations: RangeInclusive<u64>, durable: &dyn Fn(u64));

    /// Closes everything in the directory after the last operation.
    fn finish(&self) {}

    /// After a crash: operations up to `acknowledged` were durable; none after `last` was begun.
    ///
    /// # Errors
    /// The first difference.
    fn verify(&self, dir: &Path, acknowledged: u64, last: u64) -> Result<(), Wrong>;
}

/// All loads of the tests except PostgreSQL.
#[must_use]
pub fn all() -> Vec<Box<dyn Load>> {
    vec![
        Box::new(Appends),
        Box::new(Pages { way: Way::Cached }),
        Box::new(Pages { way: Way::Direct }),
        Box::new(Pages { way: Way::Synchronous }),
        Box::new(Renames),
        Box::new(Churn),
        Box::new(Sqlite { journal: "wal" }),
        Box::new(Sqlite { journal: "delete" }),
    ]
}

fn read(path: &Path) -> Result<Vec<u8>, Wrong> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn sync_dir(dir: &Path) {
    File::open(dir).and_then(|dir| dir.sync_all()).expect("fsync of a directory");
}

/// A stream for each kind of bytes, for [`bytes`].
const APPENDS: u64 = 1;
const PAGES_OF: u64 = 2;
const STATES: u64 = 3;
const CHURNS: u64 = 4;
const ROWS_OF: u64 = 5;

/// A log: records are appended to a file.
pub struct Appends;

impl Appends {
    fn record(number: u64) -> Vec<u8> {
        bytes(APPENDS, number, Sizes::Between(1, 20_000))
    }
}

impl Load for Appends {
    fn prepare(&self, dir: &Path) {
        File::create(dir.join("appends")).and_then(|file| file.sync_all()).expect("create");
        sync_dir(dir);
    }

    fn run(&self, dir: &Path, operations: RangeInclusive<u64>, durable: &dyn Fn(u64)) {
        let mut file = OpenOptions::new().append(true).open(dir.join("appends")).expect("open");
        for number in operations {
            file.write_all(&Self::record(number)).expect("append");
            file.sync_data().expect("fdatasync");
            durable(number);
        }
    }

    fn verify(&self, dir: &Path, acknowledged: u64, last: u64) -> Result<(), Wrong> {
        let mut written = Vec::new();
        let mut durable = 0;
        for number in 1..=last {
            written.extend(Self::record(number));
            if number == acknowledged {
                durable = written.len();
            }
        }
        compare("appends", &read(&dir.join("appends"))?, &written, durable)
    }
}

/// A database's pages: overwritten in place, several at a time. Every sector names its page and
/// version.
pub struct Pages {
    pub way: Way,
}

/// The way in which a database makes its pages durable.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    /// Through the page cache, and then `fdatasync`.
    Cached,
    /// `O_DIRECT` and `O_DSYNC`.
    Direct,
    /// `O_DSYNC` alone.
    Synchronous,
}

const PAGE: usize = 8192;
const PAGES: usize = 48;

impl Pages {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Cached => "pages",
            Way::Direct => "pages-direct",
            Way::Synchronous => "pages-synchronous",
        }
    }

    fn page(page: usize, version: u64) -> Vec<u8> {
        (0..PAGE / SECTOR).flat_map(|place| sector(page, version, place)).collect()
    }

    /// The pages that an operation writes.
    fn of(number: u64) -> Vec<usize> {
        let mut random = Random::new(PAGES_OF << 32 | number);
        (0..=random.below(4)).map(|_| random.below(PAGES)).collect()
    }
}

impl Load for Pages {
    fn prepare(&self, dir: &Path) {
        let all: Vec<u8> = (0..PAGES).flat_map(|page| Self::page(page, 0)).collect();
        let file = File::create(dir.join(self.name())).expect("create");
        file.write_all_at(&all, 0).and_then(|()| file.sync_all()).expect("write");
        sync_dir(dir);
    }

    fn run(&self, dir: &Path, operations: RangeInclusive<u64>, durable: &dyn Fn(u64)) {
        let flags = match self.way {
            Way::Cached => 0,
            Way::Direct => libc::O_DIRECT | libc::O_DSYNC,
            Way::Synchronous => libc::O_DSYNC,
        };
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(dir.join(self.name()))
            .expect("open");
        // Twice the room, to find an aligned part in it.
        let mut room = vec![0; 2 * PAGE];
        let skip = room.as_ptr().align_offset(4096);
        for number in operations {
            for page in Self::of(number) {
                let aligned = &mut room[skip..skip + PAGE];
                aligned.copy_from_slice(&Self::page(page, number));
                file.write_all_at(aligned, (page * PAGE) as u64).expect("write");
            }
            if self.way == Way::Cached {
                file.sync_data().expect("fdatasync");
            }
            durable(number);
        }
    }

    fn verify(&self, dir: &Path, acknowledged: u64, last: u64) -> Result<(), Wrong> {
        let mut durable = [0; PAGES];
        for number in 1..=acknowledged {
            Self::of(number).into_iter().for_each(|page| durable[page] = number);
        }
        let found = read(&dir.join(self.name()))?;
        ensure(found.len() == PAGES * PAGE, || format!("{}: {} bytes", self.name(), found.len()))?;
        for (index, found) in found.chunks(SECTOR).enumerate() {
            let (page, at) = (index / (PAGE / SECTOR), index % (PAGE / SECTOR));
            let version = version_of(found);
            let place = || format!("{}: page {page}, sector {at}", self.name());
            let right = version == 0 || version <= last && Self::of(version).contains(&page);
            ensure(right && found == sector(page, version, at), || {
                format!("{}: that was never written, {:02x?}", place(), &found[..16])
            })?;
            ensure(version >= durable[page], || {
                format!("{}: version {version}, and {} was durable", place(), durable[page])
            })?;
        }
        Ok(())
    }
}

/// A state that is replaced as a whole: written beside, synced, renamed.
pub struct Renames;

impl Renames {
    fn state(number: u64) -> Vec<u8> {
        let mut state = number.to_le_bytes().to_vec();
        state.extend(bytes(STATES, number, Sizes::Between(0, 9_000)));
        state
    }
}

impl Load for Renames {
    fn prepare(&self, dir: &Path) {
        self.run(dir, 0..=0, &|_| ());
    }

    fn run(&self, dir: &Path, operations: RangeInclusive<u64>, durable: &dyn Fn(u64)) {
        let (new, state) = (dir.join("state.new"), dir.join("state"));
        for number in operations {
            let mut file = File::create(&new).expect("create");
            file.write_all(&Self::state(number)).and_then(|()| file.sync_all()).expect("write");
            fs::rename(&new, &state).expect("rename");
            sync_dir(dir);
            durable(number);
        }
    }

    fn verify(&self, dir: &Path, acknowledged: u64, last: u64) -> Result<(), Wrong> {
        let found = read(&dir.join("state"))?;
        let number = found
            .get(0..8)
            .map_or(u64::MAX, |number| u64::from_le_bytes(number.try_into().expect("8 bytes")));
        ensure(number <= last && found == Self::state(number), || {
            format!("state: neither the old nor the new: {number}")
        })?;
        ensure(number >= acknowledged, || {
            format!("state: {number} is there, {acknowledged} was durable")
        })
    }
}

/// Files that come and go, so that space is used again: the file of each operation replaces one of
/// some operations ago.
pub struct Churn;

const KEPT: u64 = 6;

impl Churn {
    /// Small ones that share an extent, and large ones that have their own.
    fn content(number: u64) -> Vec<u8> {
        let most = [3_000, 40_000, 90_000, 400_000][usize::try_from(number % 4).expect("small")];
        bytes(CHURNS, number, Sizes::Between(1, most))
    }
}

impl Load for Churn {
    fn prepare(&self, dir: &Path) {
        fs::create_dir(dir.join("churn")).expect("create");
        sync_dir(dir);
    }

    fn run(&self, dir: &Path, operations: RangeInclusive<u64>, durable: &dyn Fn(u64)) {
        let dir = dir.join("churn");
        for number in operations {
            let mut file = File::create(dir.join(number.to_string())).expect("create");
            file.write_all(&Self::content(number)).and_then(|()| file.sync_all()).expect("write");
            if number > KEPT {
                fs::remove_file(dir.join((number - KEPT).to_string())).expect("remove");
            }
            sync_dir(&dir);
            durable(number);
        }
    }

    fn verify(&self, dir: &Path, acknowledged: u64, last: u64) -> Result<(), Wrong> {
        let dir = dir.join("churn");
        let mut there = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|error| format!("churn: {error}"))? {
            let name = entry.map_err(|error| format!("churn: {error}"))?.file_name();
            there.push(
                name.to_str()
                    .and_then(|name| name.parse().ok())
                    .ok_or_else(|| format!("churn: {name:?}"))?,
            );
        }
        // The next operation may have removed one more.
        let gone = acknowledged.saturating_sub(KEPT);
        for number in gone + 2..=acknowledged {
            ensure(there.contains(&number), || {
                format!("churn: {number} is gone, {acknowledged} was durable")
            })?;
        }
        for number in there {
            ensure(number > gone, || {
                format!("churn: {number} was removed, {acknowledged} was durable")
            })?;
            ensure(number <= last, || format!("churn: {number} was never made"))?;
            let written = Self::content(number);
            let durable = if number <= acknowledged { written.len() } else { 0 };
            compare(
                &format!("churn/{number}"),
                &read(&dir.join(number.to_string()))?,
                &written,
                durable,
            )?;
        }
        Ok(())
    }
}

/// Transactions of SQLite.
pub struct Sqlite {
    pub journal: &'static str,
}

/// Rows of each transaction, and the number of transactions that they stay.
const ROWS: u64 = 3;
const TRANSACTIONS: u64 = 20;

impl Sqlite {
    fn open(&self, dir: &Path) -> rusqlite::Result<Connection> {
        let connection = Connection::open(dir.join(format!("{}.db", self.journal)))?;
        connection.pragma_update(None, "journal_mode", self.journal)?;
        // With a rollback journal only EXTRA makes its removal durable, and with it the commit.
        connection.pragma_update(
            None,
            "synchronous",
            if self.journal == "wal" { "full" } else { "extra" },
        )?;
        connection.pragma_update(None, "wal_autocheckpoint", 30)?;
        Ok(connection)
    }

    fn row(number: u64) -> Vec<u8> {
        bytes(ROWS_OF, number, Sizes::Between(10, 3_000))
    }

    fn transaction(connection: &mut Connection, number: u64) -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for row in number * ROWS..(number + 1) * ROWS {
            transaction
                .execute("INSERT INTO rows VALUES (?1, ?2)", (signed(row), Self::row(row)))?;
        }
        transaction.execute(
            "DELETE FROM rows WHERE n < ?1",
            [signed(number.saturating_sub(TRANSACTIONS) * ROWS)],
        )?;
        transaction.execute("UPDATE last SET n = ?1", [signed(number)])?;
        transaction.commit()
    }

    fn look(
        &self,
        dir: &Path,
        acknowledged: u64,
        last: u64,
    ) -> rusqlite::Result<Result<(), Wrong>> {
        let connection = self.open(dir)?;
        let verdict: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
        let committed = unsigned(connection.query_row("SELECT n FROM last", [], |row| row.get(0))?);
        let mut select = connection.prepare("SELECT n, filler FROM rows ORDER BY n")?;
        let rows = select.query_map([], |row| Ok((unsigned(row.get(0)?), row.get(1)?)))?;
        let rows: Vec<(u64, Vec<u8>)> = rows.collect::<rusqlite::Result<_>>()?;
        let first = (committed.saturating_sub(TRANSACTIONS) * ROWS).max(ROWS);
        let wanted = (first..(committed + 1) * ROWS).map(|row| (row, Self::row(row)));
        Ok(ensure(verdict == "ok", || verdict)
            .and_then(|()| {
                ensure((acknowledged..=last).contains(&committed), || {
                    format!("transaction {committed} is the last, {acknowledged} was durable")
                })
            })
            .and_then(|()| {
                ensure(rows.into_iter().eq(wanted), || {
                    format!("transaction {committed} is not whole")
                })
            }))
    }
}

impl Load for Sqlite {
    fn prepare(&self, dir: &Path) {
        let connection = self.open(dir).expect("a database");
        let schema = "CREATE TABLE rows (n INTEGER PRIMARY KEY, filler BLOB); CREATE INDEX fillers ON rows (filler, n);
                      CREATE TABLE last (n INTEGER); INSERT INTO last VALUES (0)";
        connection.execute_batch(schema).expect("tables");
        drop(connection);
        sync_dir(dir);
    }

    fn run(&self, dir: &Path, operations: RangeInclusive<u64>, durable: &dyn Fn(u64)) {
        let mut connection = self.open(dir).expect("a database");
        for number in operations {
            Self::transaction(&mut connection, number).expect("a transaction");
            durable(number);
        }
    }

    fn verify(&self, dir: &Path, acknowledged: u64, last: u64) -> Result<(), Wrong> {
        let wrong =
            |wrong: &dyn std::fmt::Display| format!("SQLite with {}: {wrong}", self.journal);
        self.look(dir, acknowledged, last)
            .map_err(|error| wrong(&error))?
            .map_err(|text| wrong(&text))
    }
}
