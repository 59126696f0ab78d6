//! SQLite's interface to the catalog's storage: a VFS, registered for each open catalog.
//!
//! It is thin on purpose: [`super::image`] decides which bytes reach the disks, and when. Here are
//! only the C interface, the locks that connections of one process take against each other, and the
//! shared memory of the WAL-index, which is ordinary memory: one process serves a group.
//!
//! ```text
//!   "catalog"      the database: Image, pages   locks: NONE, SHARED, RESERVED, PENDING, EXCLUSIVE
//!   "catalog-wal"  its log: Image, log          locks: eight WAL locks, on the database's file
//!   anything else  journals and temporary files: memory, gone when closed
//! ```
//!
//! It does not claim that a write leaves the bytes beside it alone (`POWERSAFE_OVERWRITE`), nor
//! that writes are in order (`SEQUENTIAL`): R7 depends on that.
//!
//! Invariants:
//!
//!   1. No panic crosses into C: each call is guarded.
//!   2. A [`Vfs`] outlives every connection that uses it: [`Link`] keeps both.
#![allow(unsafe_code)]

use super::{image::Image, store::StoreError};
use crate::sync::lock::Mutex;
use crate::world::{World, wait_for};
use plinth_format::membership::CatalogFile;
use rusqlite::{Connection, OpenFlags, ffi};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering, fence},
    },
    time::Duration,
};

const DATABASE: &str = "catalog";
const LOG: &str = "catalog-wal";
/// Bytes of a region of the WAL-index.
const REGION: usize = 32 << 10;
const WAL_LOCKS: usize = 8;
/// Milliseconds from noon of 24 November 4714 BC, where SQLite starts to count, to 1970.
const JULIAN_1970_MS: i64 = 210_866_760_000_000;

/// The state that all files of one VFS share.
struct Shared {
    image: Arc<Image>,
    world: Arc<dyn World>,
    locks: Mutex<Locks>,
    index: Mutex<Index>,
}

#[derive(Default)]
struct Locks {
    readers: u32,
    /// The file that holds each lock, by its id.
    reserved: Option<u64>,
    pending: Option<u64>,
    exclusive: Option<u64>,
    ids: u64,
}

/// The WAL-index: memory, and its eight locks.
#[derive(Default)]
struct Index {
    /// Zeroed regions of `REGION` bytes; freed when the VFS goes.
    regions: Vec<*mut u64>,
    shared: [u32; WAL_LOCKS],
    exclusive: [bool; WAL_LOCKS],
}

// SAFETY: the regions are plain memory that SQLite accesses from any thread by its own
// protocol of locks and barriers; here they are only allocated and freed.
unsafe impl Send for Index {}

impl Drop for Index {
    fn drop(&mut self) {
        for region in self.regions.drain(..) {
            // SAFETY: made by `Box::into_raw` of a boxed slice of this length in `shm_map`;
            // invariant 2: no connection is left to use it.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(region, REGION / 8)) });
        }
    }
}

enum Role {
    Database { id: u64, level: c_int, shared: u8, exclusive: u8 },
    Log,
    Memory(Vec<u8>),
}

struct Inner {
    shared: Arc<Shared>,
    role: Role,
}

/// SQLite allocates this for an open file (`szOsFile`).
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    inner: *mut Inner,
}

/// A registered VFS.
pub(super) struct Vfs {
    vfs: *mut ffi::sqlite3_vfs,
    name: CString,
    shared: Arc<Shared>,
}

// SAFETY: `vfs` is written only when it is made and freed; SQLite guards its list of VFSs
// by a mutex, and everything it refers to (`Shared`) is behind mutexes.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

impl Vfs {
    /// Registers a VFS under a name of its own: a group can be opened again while its previous
    /// connections are still closing.
    pub(super) fn register(image: Arc<Image>, world: Arc<dyn World>) -> Arc<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("plinth-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).expect("no zero byte");
        let shared =
            Arc::new(Shared { image, world, locks: Mutex::default(), index: Mutex::default() });
        let vfs = Box::new(ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: c_int::try_from(size_of::<File>()).expect("small"),
            mxPathname: 64,
            pNext: ptr::null_mut(),
            zName: name.as_ptr(),
            pAppData: Box::into_raw(Box::new(Arc::clone(&shared))).cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: Some(dl_open),
            xDlError: Some(dl_error),
            xDlSym: Some(dl_sym),
            xDlClose: Some(dl_close),
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: Some(last_error),
            xCurrentTimeInt64: Some(current_time_ms),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        });
        let vfs = Box::into_raw(vfs);
        // SAFETY: `vfs` and all it points to live until `drop` unregisters it.
        let result = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
        assert_eq!(
            result,
            ffi::SQLITE_OK,
            "SQLite refuses a VFS only if it has no memory to start"
        );
        Arc::new(Self { vfs, name, shared })
    }

    pub(super) fn image(&self) -> &Arc<Image> {
        &self.shared.image
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        // SAFETY: registered in `register`; invariant 2: no connection uses it any more.
        unsafe {
            ffi::sqlite3_vfs_unregister(self.vfs);
            drop(Box::from_raw((*self.vfs).pAppData.cast::<Arc<Shared>>()));
            drop(Box::from_raw(self.vfs));
        }
    }
}

/// A connection to the catalog, and the VFS it needs.
pub(super) struct Link {
    // Dropped in this order: invariant 2.
    pub(super) connection: Connection,
    vfs: Arc<Vfs>,
}

impl Link {
    /// `new`: the database is empty, and gets the page format with reserved bytes.
    pub(super) fn open(vfs: &Arc<Vfs>, new: bool) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(DATABASE, flags, vfs.name.as_c_str())?;
        if new {
            let mut reserved = c_int::try_from(plinth_format::page::RESERVED).expect("16");
            // SAFETY: the connection is open, and `reserved` is the int this operation reads and
            // writes.
            let result = unsafe {
                let pointer = ptr::from_mut(&mut reserved).cast();
                ffi::sqlite3_file_control(
                    connection.handle(),
                    c"main".as_ptr(),
                    FCNTL_RESERVE_BYTES,
                    pointer,
                )
            };
            if result != ffi::SQLITE_OK {
                return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(result), None));
            }
        }
        Ok(Self { connection, vfs: Arc::clone(vfs) })
    }

    pub(super) fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }
}

const FCNTL_RESERVE_BYTES: c_int = 38;

/// Runs one call of SQLite's; a panic in it becomes `failed` (invariant 1).
fn guarded(failed: c_int, call: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(failed)
}

/// The code that SQLite gets for a storage error; the text is in `Image::error`.
fn code(error: &StoreError, otherwise: c_int) -> c_int {
    match error {
        StoreError::NoSpace => ffi::SQLITE_FULL,
        StoreError::NoGoodMirror { .. } => ffi::SQLITE_IOERR_DATA,
        StoreError::Failed { .. } | StoreError::Stopped(_) => otherwise,
    }
}

/// # Safety
/// `vfs` is one that `Vfs::register` made and that is still registered.
unsafe fn shared_of<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Arc<Shared> {
    // SAFETY: by the caller: `pAppData` is the boxed `Arc` that `Vfs` owns.
    unsafe { &*(*vfs).pAppData.cast::<Arc<Shared>>() }
}

/// # Safety
/// `file` was opened by `open` and is not closed.
unsafe fn inner_of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Inner {
    // SAFETY: `open` set `inner` to a live box; SQLite uses a file from one thread at a time.
    unsafe { &mut *(*file.cast::<File>()).inner }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock_file),
    xUnlock: Some(unlock_file),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// # Safety
/// `name` is null or a C string.
unsafe fn text<'a>(name: *const c_char) -> &'a [u8] {
    if name.is_null() {
        return b"";
    }
    // SAFETY: by the caller.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives `szOsFile` bytes; a null `pMethods` says that there is nothing to close.
    unsafe { (*file).pMethods = ptr::null() };
    guarded(ffi::SQLITE_CANTOPEN, || {
        // SAFETY: SQLite passes the VFS that was registered, and a C string or null.
        let (shared, name) = unsafe { (shared_of(vfs), text(name)) };
        let role = if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            if name != DATABASE.as_bytes() {
                return ffi::SQLITE_CANTOPEN;
            }
            let mut locks = shared.locks.lock();
            locks.ids += 1;
            Role::Database { id: locks.ids, level: ffi::SQLITE_LOCK_NONE, shared: 0, exclusive: 0 }
        } else if flags & ffi::SQLITE_OPEN_WAL != 0 {
            Role::Log
        } else {
            Role::Memory(Vec::new())
        };
        let inner = Box::into_raw(Box::new(Inner { shared: Arc::clone(shared), role }));
        // SAFETY: `file` has room for a `File`; `flags_out` may be null.
        unsafe {
            (*file.cast::<File>()).inner = inner;
            (*file).pMethods = &raw const METHODS;
            if !flags_out.is_null() {
                *flags_out = flags;
            }
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _sync: c_int,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_DELETE, || {
        // SAFETY: SQLite passes the VFS that was registered, and a C string.
        let (shared, name) = unsafe { (shared_of(vfs), text(name)) };
        if name == LOG.as_bytes() {
            shared.image.truncate_log(0);
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _flags: c_int,
    out: *mut c_int,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_ACCESS, || {
        // SAFETY: SQLite passes the VFS that was registered, a C string and a place for the answer.
        let (shared, name) = unsafe { (shared_of(vfs), text(name)) };
        let exists = if name == DATABASE.as_bytes() {
            shared.image.database_size() > 0
        } else {
            name == LOG.as_bytes() && shared.image.log_size() > 0
        };
        // SAFETY: as above.
        unsafe { *out = c_int::from(exists) };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    guarded(ffi::SQLITE_CANTOPEN, || {
        // SAFETY: SQLite passes a C string and room for `length` bytes.
        let name = unsafe { text(name) };
        if name.len() + 1 > usize::try_from(length).unwrap_or(0) {
            return ffi::SQLITE_CANTOPEN;
        }
        // SAFETY: the room was checked; source and target do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len());
            *out.add(name.len()) = 0;
        }
        ffi::SQLITE_OK
    })
}

// Extensions are never loaded.
unsafe extern "C" fn dl_open(_vfs: *mut ffi::sqlite3_vfs, _name: *const c_char) -> *mut c_void {
    ptr::null_mut()
}

unsafe extern "C" fn dl_error(_vfs: *mut ffi::sqlite3_vfs, length: c_int, out: *mut c_char) {
    if length > 0 {
        // SAFETY: SQLite gives room for `length` bytes.
        unsafe { *out = 0 };
    }
}

type Symbol = unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *mut c_void, *const c_char);

unsafe extern "C" fn dl_sym(
    _: *mut ffi::sqlite3_vfs,
    _: *mut c_void,
    _: *const c_char,
) -> Option<Symbol> {
    None
}

unsafe extern "C" fn dl_close(_vfs: *mut ffi::sqlite3_vfs, _library: *mut c_void) {}

unsafe extern "C" fn randomness(
    vfs: *mut ffi::sqlite3_vfs,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    guarded(0, || {
        let count = usize::try_from(length).unwrap_or(0);
        let mut bytes = vec![0; count];
        // SAFETY: SQLite passes the VFS that was registered.
        unsafe { shared_of(vfs) }.world.random(&mut bytes);
        // SAFETY: SQLite gives room for `length` bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, count) };
        length
    })
}

unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    guarded(0, || {
        // SAFETY: SQLite passes the VFS that was registered.
        let world = unsafe { &shared_of(vfs).world };
        let pause = Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
        wait_for(&**world, world.sleep(pause));
        microseconds
    })
}

unsafe extern "C" fn current_time_ms(
    vfs: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    guarded(ffi::SQLITE_ERROR, || {
        // SAFETY: SQLite passes the VFS that was registered, and a place for the answer.
        unsafe { *out = shared_of(vfs).world.now() / 1_000_000 + JULIAN_1970_MS };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    let mut ms = 0;
    // SAFETY: what SQLite passed, and a place for the answer.
    let result = unsafe { current_time_ms(vfs, &raw mut ms) };
    // SAFETY: SQLite gives a place for the answer.
    #[allow(clippy::cast_precision_loss)]
    unsafe {
        *out = ms as f64 / 86_400_000.0;
    }
    result
}

unsafe extern "C" fn last_error(
    _vfs: *mut ffi::sqlite3_vfs,
    _length: c_int,
    _out: *mut c_char,
) -> c_int {
    0
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    guarded(ffi::SQLITE_IOERR_CLOSE, || {
        // SAFETY: an open file of ours, whose box is not used after this.
        let mut inner = unsafe { Box::from_raw((*file.cast::<File>()).inner) };
        inner.unlock(ffi::SQLITE_LOCK_NONE);
        inner.shm_release();
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_READ, || {
        let (Ok(length), Ok(offset)) = (usize::try_from(length), u64::try_from(offset)) else {
            return ffi::SQLITE_IOERR_READ;
        };
        // SAFETY: an open file of ours, and a buffer of `length` bytes of SQLite's.
        let (inner, into) =
            unsafe { (inner_of(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), length)) };
        let done = match &inner.role {
            Role::Database { .. } => match inner.shared.image.read_database(offset, into) {
                Ok(done) => done,
                Err(error) => return code(&error, ffi::SQLITE_IOERR_READ),
            },
            Role::Log => inner.shared.image.read_log(offset, into),
            Role::Memory(bytes) => {
                let start =
                    usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
                let done = length.min(bytes.len() - start);
                into[..done].copy_from_slice(&bytes[start..start + done]);
                done
            }
        };
        into[done..].fill(0);
        if done < length { ffi::SQLITE_IOERR_SHORT_READ } else { ffi::SQLITE_OK }
    })
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_WRITE, || {
        let (Ok(length), Ok(offset)) = (usize::try_from(length), u64::try_from(offset)) else {
            return ffi::SQLITE_IOERR_WRITE;
        };
        // SAFETY: an open file of ours, and `length` bytes of SQLite's.
        let (inner, from) =
            unsafe { (inner_of(file), std::slice::from_raw_parts(from.cast::<u8>(), length)) };
        let page = plinth_format::page::PAGE_SIZE;
        let result = match &mut inner.role {
            Role::Database { .. } if length % page != 0 || offset % page as u64 != 0 => {
                return ffi::SQLITE_IOERR_WRITE;
            }
            Role::Database { .. } => inner.shared.image.write_database(offset, from),
            Role::Log => inner.shared.image.write_log(offset, from),
            Role::Memory(bytes) => {
                let start = usize::try_from(offset).expect("64-bit");
                bytes.resize(bytes.len().max(start + length), 0);
                bytes[start..start + length].copy_from_slice(from);
                Ok(())
            }
        };
        result.map_or_else(|error| code(&error, ffi::SQLITE_IOERR_WRITE), |()| ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    guarded(ffi::SQLITE_IOERR_TRUNCATE, || {
        let size = u64::try_from(size).unwrap_or(0);
        // SAFETY: an open file of ours.
        let inner = unsafe { inner_of(file) };
        match &mut inner.role {
            Role::Database { .. } => inner.shared.image.truncate_database(size),
            Role::Log => inner.shared.image.truncate_log(size),
            Role::Memory(bytes) => bytes.truncate(usize::try_from(size).expect("64-bit")),
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_FSYNC, || {
        // SAFETY: an open file of ours.
        let inner = unsafe { inner_of(file) };
        let result = match inner.role {
            Role::Database { .. } => inner.shared.image.sync(CatalogFile::Database),
            Role::Log => inner.shared.image.sync(CatalogFile::Wal),
            Role::Memory(_) => Ok(()),
        };
        result.map_or_else(|error| code(&error, ffi::SQLITE_IOERR_FSYNC), |()| ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_FSTAT, || {
        // SAFETY: an open file of ours.
        let inner = unsafe { inner_of(file) };
        let size = match &inner.role {
            Role::Database { .. } => inner.shared.image.database_size(),
            Role::Log => inner.shared.image.log_size(),
            Role::Memory(bytes) => bytes.len() as u64,
        };
        // SAFETY: SQLite gives a place for the answer.
        unsafe { *out = i64::try_from(size).unwrap_or(i64::MAX) };
        ffi::SQLITE_OK
    })
}

impl Inner {
    fn lock(&mut self, wanted: c_int) -> c_int {
        let Role::Database { id, level, .. } = &mut self.role else { return ffi::SQLITE_OK };
        if *level >= wanted {
            return ffi::SQLITE_OK;
        }
        let mut locks = self.shared.locks.lock();
        let other = |holder: Option<u64>| holder.is_some_and(|holder| holder != *id);
        if wanted == ffi::SQLITE_LOCK_SHARED {
            if other(locks.pending) || other(locks.exclusive) {
                return ffi::SQLITE_BUSY;
            }
            locks.readers += 1;
            *level = ffi::SQLITE_LOCK_SHARED;
            return ffi::SQLITE_OK;
        }
        if other(locks.reserved) || other(locks.pending) {
            return ffi::SQLITE_BUSY;
        }
        if wanted == ffi::SQLITE_LOCK_RESERVED {
            locks.reserved = Some(*id);
            *level = wanted;
            return ffi::SQLITE_OK;
        }
        locks.pending = Some(*id);
        *level = ffi::SQLITE_LOCK_PENDING;
        if locks.readers > 1 {
            return ffi::SQLITE_BUSY;
        }
        locks.exclusive = Some(*id);
        *level = ffi::SQLITE_LOCK_EXCLUSIVE;
        ffi::SQLITE_OK
    }

    fn unlock(&mut self, wanted: c_int) {
        let Role::Database { id, level, .. } = &mut self.role else { return };
        if *level <= wanted {
            return;
        }
        let mut locks = self.shared.locks.lock();
        let Locks { reserved, pending, exclusive, .. } = &mut *locks;
        for holder in [reserved, pending, exclusive] {
            if *holder == Some(*id) {
                *holder = None;
            }
        }
        if wanted == ffi::SQLITE_LOCK_NONE {
            locks.readers -= 1;
        }
        *level = wanted;
    }

    fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> c_int {
        let Role::Database { shared, exclusive, .. } = &mut self.role else {
            return ffi::SQLITE_IOERR_SHMLOCK;
        };
        if first + count > WAL_LOCKS {
            return ffi::SQLITE_IOERR_SHMLOCK;
        }
        let mut index = self.shared.index.lock();
        let range = first..first + count;
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            for slot in range {
                let bit = 1_u8 << slot;
                if *shared & bit != 0 {
                    index.shared[slot] -= 1;
                }
                if *exclusive & bit != 0 {
                    index.exclusive[slot] = false;
                }
                *shared &= !bit;
                *exclusive &= !bit;
            }
            return ffi::SQLITE_OK;
        }
        let wants_all = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        let taken = range.clone().any(|slot| {
            let bit = 1_u8 << slot;
            let others = index.shared[slot] - u32::from(*shared & bit != 0);
            (index.exclusive[slot] && *exclusive & bit == 0) || (wants_all && others > 0)
        });
        if taken {
            return ffi::SQLITE_BUSY;
        }
        for slot in range {
            let bit = 1_u8 << slot;
            if wants_all {
                index.exclusive[slot] = true;
                *exclusive |= bit;
            } else if *shared & bit == 0 {
                index.shared[slot] += 1;
                *shared |= bit;
            }
        }
        ffi::SQLITE_OK
    }

    /// Releases all WAL locks.
    fn shm_release(&mut self) {
        if matches!(self.role, Role::Database { .. }) {
            self.shm_lock(0, WAL_LOCKS, ffi::SQLITE_SHM_UNLOCK);
        }
    }
}

unsafe extern "C" fn lock_file(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file of ours.
    guarded(ffi::SQLITE_IOERR_LOCK, || unsafe { inner_of(file) }.lock(level))
}

unsafe extern "C" fn unlock_file(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_UNLOCK, || {
        // SAFETY: an open file of ours.
        unsafe { inner_of(file) }.unlock(level);
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn check_reserved(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    guarded(ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, || {
        // SAFETY: an open file of ours, and a place for the answer.
        unsafe { *out = c_int::from(inner_of(file).shared.locks.lock().reserved.is_some()) };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn file_control(
    _file: *mut ffi::sqlite3_file,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    4096
}

unsafe extern "C" fn characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    0
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_SHMMAP, || {
        let Ok(region) = usize::try_from(region) else { return ffi::SQLITE_IOERR_SHMMAP };
        if usize::try_from(size) != Ok(REGION) {
            return ffi::SQLITE_IOERR_SHMMAP;
        }
        // SAFETY: an open file of ours.
        let mut index = unsafe { inner_of(file) }.shared.index.lock();
        while extend != 0 && index.regions.len() <= region {
            let fresh = vec![0_u64; REGION / 8].into_boxed_slice();
            index.regions.push(Box::into_raw(fresh).cast());
        }
        // SAFETY: SQLite gives a place for the answer.
        unsafe { *out = index.regions.get(region).map_or(ptr::null_mut(), |region| region.cast()) };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    guarded(ffi::SQLITE_IOERR_SHMLOCK, || {
        let (Ok(first), Ok(count)) = (usize::try_from(first), usize::try_from(count)) else {
            return ffi::SQLITE_IOERR_SHMLOCK;
        };
        // SAFETY: an open file of ours.
        unsafe { inner_of(file) }.shm_lock(first, count, flags)
    })
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
    // A mutex as well, as SQLite's own VFSs do: it orders what the compiler sees.
    // SAFETY: an open file of ours.
    guarded(0, || c_int::from(unsafe { inner_of(file) }.shared.index.lock().regions.is_empty()));
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // The memory stays while the catalog is open: the next connection finds a valid index.
    guarded(ffi::SQLITE_IOERR_SHMMAP, || {
        // SAFETY: an open file of ours.
        unsafe { inner_of(file) }.shm_release();
        ffi::SQLITE_OK
    })
}
