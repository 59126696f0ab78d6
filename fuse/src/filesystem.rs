//! The meaning of each request: the kernel's requests as calls of the engine's [`Session`], and the
//! results as answers.
//!
//! Which layer checks what:
//!
//! - The kernel: permissions, sticky bits, read-only mounts, `ETXTBSY`, `ELOOP`, path lengths and
//!   locks (`default_permissions`). It also clears the set-group-id bit when a user outside of the
//!   file's group calls `chmod`.
//! - The engine ([`Session`]): names, links, kinds of file, times, set-id bits after a write,
//!   space.
//! - This file: lengths of names, flags, namespaces of extended attributes, `.` and `..`.
//!
//! Caching: the kernel may cache entries (negative ones too) and attributes until it is notified,
//! because every change comes through the kernel or is notified by the watcher. Pages stay cached
//! over close and open.
//!
//! OPEN asks nothing of the engine. Its answer says how the kernel moves data:
//!
//! - without `O_DIRECT`: through the page cache, as write-through. The kernel sends FSYNC after a
//!   synchronous write;
//! - with `O_DIRECT`: past the page cache; writes inside the file are parallel. The kernel sends no
//!   FSYNC after a synchronous write, so the write itself is made durable before it is answered
//!   ([`DIRECT`] marks such a handle).
//!
//! A request that must not be carried out twice is carried out on behalf of its number
//! ([`GroupFileSystem::once`]): creating, linking, unlinking, renaming, and extended attributes
//! that must not exist or must exist. The engine then recognises a request that is sent again. Any
//! other request is simply carried out again; the engine's `files/reply_cache.rs` says why that
//! does no harm.
//!
//! Of ext4, these are missing: access times that follow reads (they change by `utimensat` only),
//! POSIX ACLs, `O_TMPFILE`, `RENAME_WHITEOUT`, collapse and insert in `fallocate`, `FS_IOC_*`, and
//! `syncfs`, which Linux does not pass on to a FUSE file system: it returns at once, so use
//! `fsync`.

use crate::{
    handshake::Header,
    options::{direct_open, no_space},
    references::References,
};
use fuse_backend_rs::{
    abi::fuse_abi::{Attr, CreateIn, stat64, statvfs64},
    api::filesystem::{
        Context, DirEntry, Entry, FileSystem, GetxattrReply, IoctlData, ListxattrReply,
        OpenOptions, SetattrValid,
    },
};
use plinth_engine::{
    api::{
        Allocate, Attributes, Caller, Changes, Kind, NAME_MAX, NewFile, Node, RenameMode, Seek,
        SetTime, SetXattr,
    },
    error::FileError,
    files::{reply_cache::OpenRequest, session::Session},
    sync::{
        buffer::Slice,
        transfer::{Found, Source},
    },
    world::Timestamp,
};
use plinth_frontend::{Runner, run};
use std::{
    cell::RefCell,
    ffi::CStr,
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::Arc,
    time::Duration,
};

/// How long the kernel may cache entries and attributes. Notifications keep its cache right; this
/// bounds the harm if one is lost.
const VALID: Duration = Duration::from_secs(3600);

/// The handle of a file opened with `O_DIRECT`. All others are 0.
const DIRECT: u64 = 1;

/// Directory offsets: 1 follows `.`, 2 follows `..`; then come the engine's cookies, plus this.
const COOKIE_BASE: u64 = 2;

/// Bytes in `st_blksize` and the unit of `st_blocks`, as on ext4.
const BLOCK_SIZE: i64 = 4096;

const NANOSECONDS: i64 = 1_000_000_000;

/// Is called before a thread waits for the engine.
pub(crate) type BeforeWait = Box<dyn FnOnce()>;

thread_local! {
    /// The request that this worker carries out, which the library does not pass on, and the
    /// engine's record of it, which is kept until the request is answered.
    static CURRENT: RefCell<Option<(Header, Option<OpenRequest>)>> = const { RefCell::new(None) };
    static BEFORE_WAIT: RefCell<Option<BeforeWait>> = const { RefCell::new(None) };
}

/// While this exists, the thread carries out this request. To be dropped after the answer.
pub(crate) struct Current;

impl Current {
    /// `before_wait` is called once, before the request first waits, if it waits.
    pub fn new(header: Header, before_wait: Option<BeforeWait>) -> Self {
        CURRENT.set(Some((header, None)));
        BEFORE_WAIT.set(before_wait);
        Self
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        BEFORE_WAIT.take();
        let _answered = CURRENT.take();
    }
}

/// A group as the file system that the kernel's requests ask for.
pub(crate) struct GroupFileSystem {
    session: Session,
    runner: Arc<dyn Runner>,
    references: References,
}

type Result<T> = std::result::Result<T, FileError>;

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

fn reply(error: &FileError) -> io::Error {
    errno(error.errno())
}

impl GroupFileSystem {
    pub fn new(session: Session, runner: Arc<dyn Runner>) -> Self {
        Self { session, runner, references: References::default() }
    }

    /// Reads; fewer bytes only at the file's end.
    pub async fn find(&self, node: Node, offset: u64, length: usize) -> io::Result<Found> {
        pin!(self.session.find(node, offset, length)).await.map_err(|error| reply(&error))
    }

    /// Writes bytes without copying those that are whole blocks; `durably` as [`durable`] returns
    /// it.
    pub async fn write_shared(
        &self,
        node: Node,
        offset: u64,
        bytes: Slice,
        kill_set_id: bool,
        durably: Option<bool>,
    ) -> io::Result<()> {
        let bytes = Source::Shared(bytes);
        let written = match durably {
            Some(data_only) => {
                pin!(self.session.write_durably(node, offset, bytes, kill_set_id, data_only)).await
            }
            None => pin!(self.session.write_from(node, offset, bytes, kill_set_id)).await,
        };
        written.map_err(|error| reply(&error))
    }

    pub async fn sync(&self, node: Node, data_only: bool) -> io::Result<()> {
        pin!(self.session.sync(node, data_only)).await.map_err(|error| reply(&error))
    }

    /// `struct fuse_attr_out`.
    pub async fn attributes(&self, node: Node) -> io::Result<Vec<u8>> {
        let attributes = self.session.attributes(node).await.map_err(|error| reply(&error))?;
        let attr = Attr::from(stat_of(&attributes));
        let mut answer = Vec::with_capacity(16 + 88);
        answer.extend(VALID.as_secs().to_ne_bytes());
        answer.extend([0; 8]);
        for number in [attr.ino, attr.size, attr.blocks, attr.atime, attr.mtime, attr.ctime] {
            answer.extend(number.to_ne_bytes());
        }
        let nanoseconds = [attr.atimensec, attr.mtimensec, attr.ctimensec];
        let rest = [attr.mode, attr.nlink, attr.uid, attr.gid, attr.rdev, attr.blksize, attr.flags];
        for number in nanoseconds.into_iter().chain(rest) {
            answer.extend(number.to_ne_bytes());
        }
        Ok(answer)
    }

    /// The value of an extended attribute; or its length, if the caller gives no room.
    pub async fn xattr(
        &self,
        node: Node,
        name: &CStr,
        room: u32,
    ) -> io::Result<std::result::Result<Vec<u8>, u32>> {
        let name = checked_xattr(name)?;
        let value = self.session.xattr(node, name).await.map_err(|error| reply(&error))?;
        Ok(match fit(value.len(), room)? {
            Fit::Value => Ok(value),
            Fit::Count(count) => Err(count),
        })
    }

    /// The mount is gone: gives back the references that the kernel held.
    pub fn end(&self) {
        self.give_back(self.references.take_all().into_iter().collect());
        run(&*self.runner, self.session.end());
    }

    /// The kernel has answered that it does not have this file.
    pub fn release_reference(&self, node: Node) {
        self.session.release_reference(node);
    }

    /// Carries out the request, unless a predecessor has carried it out: then `before` makes the
    /// answer, from the file that was made or that got a name.
    fn once<T>(
        &self,
        carry_out: impl FnOnce(&Session) -> io::Result<T>,
        before: impl FnOnce(Option<Node>) -> io::Result<T>,
    ) -> io::Result<T> {
        let header = CURRENT.with_borrow(|current| current.as_ref().map(|(header, _)| *header));
        let begun =
            header.and_then(|header| self.session.begin(header.number(), header.is_resent()));
        let Some(request) = begun else { return carry_out(&self.session) };
        let done = request.done_before();
        let session = self.session.on_behalf_of(&request);
        // `Current` keeps it until the request is answered.
        CURRENT
            .with_borrow_mut(|current| _ = current.as_mut().map(|(_, kept)| kept.replace(request)));
        match done {
            None => carry_out(&session),
            Some(done) => before(done.node),
        }
    }

    /// As [`Self::once`], for an answer with which the kernel gets a reference to a file.
    fn entry_once(
        &self,
        carry_out: impl FnOnce(&Session) -> io::Result<Attributes>,
    ) -> io::Result<Entry> {
        // If the file is gone meanwhile, this is an error, and the kernel looks up the name again.
        let before =
            |node: Option<Node>| self.run(self.session.attributes(node.unwrap_or_default()));
        Ok(self.entry(&self.once(carry_out, before)?))
    }

    /// As [`Self::once`], for an answer without content.
    fn done_once(&self, carry_out: impl FnOnce(&Session) -> io::Result<()>) -> io::Result<()> {
        self.once(carry_out, |_| Ok(()))
    }

    fn give_back(&self, references: Vec<(Node, u64)>) {
        run(&*self.runner, async {
            for (node, count) in references {
                self.session.forget(node, count).await;
            }
        });
    }

    fn run<T: Send>(&self, task: impl Future<Output = Result<T>> + Send) -> io::Result<T> {
        self.wait_for(task).map_err(|error| reply(&error))
    }

    /// Runs a future of this thread's request to its end.
    pub fn wait_for<T: Send>(&self, task: impl Future<Output = T> + Send) -> T {
        let mut task = pin!(task);
        let task = poll_fn(|context| {
            let polled = task.as_mut().poll(context);
            if polled.is_pending() {
                BEFORE_WAIT.take().into_iter().for_each(|before| before());
            }
            polled
        });
        run(&*self.runner, task)
    }

    /// An answer with which the kernel gets one more reference.
    fn entry(&self, attributes: &Attributes) -> Entry {
        self.session.remember(attributes.node, 1);
        self.references.add(attributes.node);
        known(attributes)
    }

    fn make(
        &self,
        context: &Context,
        parent: Node,
        name: &CStr,
        new: NewFile,
        mode: u32,
    ) -> io::Result<Entry> {
        let name = checked(name)?;
        let caller = Caller { uid: context.uid, gid: context.gid };
        self.entry_once(|session| {
            self.run(session.create(parent, name, new, mode & 0o7777, caller))
        })
    }

    /// Calls `add` with each entry after `offset`, `.` and `..` included, until it returns `false`.
    /// Entries are read `count` at a time. With `plus` they have attributes, except `.`, `..` and
    /// files that were removed meanwhile.
    fn list(
        &self,
        directory: Node,
        offset: u64,
        count: usize,
        plus: bool,
        add: &mut dyn FnMut(DirEntry<'_>, Option<&Attributes>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let type_ = directory_type(Kind::Directory);
        if offset == 0 && !add(DirEntry { ino: directory, offset: 1, type_, name: b"." }, None)? {
            return Ok(());
        }
        if offset <= 1 {
            let ino = self.run(self.session.parent(directory))?;
            if !add(DirEntry { ino, offset: COOKIE_BASE, type_, name: b".." }, None)? {
                return Ok(());
            }
        }
        let mut cookie = offset.saturating_sub(COOKIE_BASE);
        loop {
            let entries = self.run(async {
                let mut entries = Vec::with_capacity(count);
                for entry in self.session.read_directory(directory, cookie, count).await? {
                    let attributes =
                        if plus { self.session.attributes(entry.node).await.ok() } else { None };
                    entries.push((entry, attributes));
                }
                Ok(entries)
            })?;
            for (entry, attributes) in &entries {
                cookie = entry.cookie;
                let offset = cookie + COOKIE_BASE;
                let shown = DirEntry {
                    ino: entry.node,
                    offset,
                    type_: directory_type(entry.kind),
                    name: &entry.name,
                };
                if !add(shown, attributes.as_ref())? {
                    return Ok(());
                }
            }
            if entries.len() < count {
                return Ok(());
            }
        }
    }
}

/// `DT_DIR` and the others are the upper bits of the mode.
fn directory_type(kind: Kind) -> u32 {
    kind as u32 >> 12
}

/// A name of a directory entry, if the engine can have it.
fn checked(name: &CStr) -> io::Result<&[u8]> {
    match name.to_bytes() {
        [] => Err(errno(libc::ENOENT)),
        name if name.len() > NAME_MAX => Err(errno(libc::ENAMETOOLONG)),
        name => Ok(name),
    }
}

/// The name of an extended attribute, if it is in a namespace that the engine stores.
fn checked_xattr(name: &CStr) -> io::Result<&[u8]> {
    let name = name.to_bytes();
    for namespace in [b"user.".as_slice(), b"trusted.", b"security."] {
        if let Some(rest) = name.strip_prefix(namespace) {
            return if rest.is_empty() { Err(errno(libc::EINVAL)) } else { Ok(name) };
        }
    }
    Err(errno(libc::EOPNOTSUPP))
}

fn known(attributes: &Attributes) -> Entry {
    Entry {
        inode: attributes.node,
        generation: attributes.generation,
        attr: stat_of(attributes),
        attr_flags: 0,
        attr_timeout: VALID,
        entry_timeout: VALID,
    }
}

/// The answer for a name that does not exist, which the kernel may cache.
fn nothing() -> Entry {
    Entry { entry_timeout: VALID, ..Entry::default() }
}

fn stat_of(attributes: &Attributes) -> stat64 {
    // The library's conversion makes a zeroed `stat64`.
    let mut stat = stat64::from(fuse_backend_rs::abi::fuse_abi::Attr::default());
    stat.st_ino = attributes.node;
    stat.st_mode = attributes.kind as u32 | (attributes.mode & 0o7777);
    stat.st_nlink = attributes.links.into();
    stat.st_uid = attributes.uid;
    stat.st_gid = attributes.gid;
    stat.st_rdev = attributes.rdev.into();
    stat.st_size = i64::try_from(attributes.size).unwrap_or(i64::MAX);
    stat.st_blksize = BLOCK_SIZE;
    stat.st_blocks = i64::try_from(attributes.blocks).unwrap_or(i64::MAX);
    (stat.st_atime, stat.st_atime_nsec) = split(attributes.accessed);
    (stat.st_mtime, stat.st_mtime_nsec) = split(attributes.modified);
    (stat.st_ctime, stat.st_ctime_nsec) = split(attributes.changed);
    stat
}

fn split(time: Timestamp) -> (i64, i64) {
    (time.div_euclid(NANOSECONDS), time.rem_euclid(NANOSECONDS))
}

/// A time outside of 1677 to 2262, which 64 bits of nanoseconds cannot hold, becomes the nearest
/// one that they can.
fn joined(seconds: i64, nanoseconds: i64) -> Timestamp {
    seconds.saturating_mul(NANOSECONDS).saturating_add(nanoseconds)
}

fn changes_of(stat: &stat64, valid: SetattrValid) -> Changes {
    let time = |set: SetattrValid, now: SetattrValid, seconds, nanoseconds| {
        if valid.contains(now) {
            Some(SetTime::Now)
        } else if valid.contains(set) {
            Some(SetTime::At(joined(seconds, nanoseconds)))
        } else {
            None
        }
    };
    Changes {
        mode: valid.contains(SetattrValid::MODE).then_some(stat.st_mode & 0o7777),
        uid: valid.contains(SetattrValid::UID).then_some(stat.st_uid),
        gid: valid.contains(SetattrValid::GID).then_some(stat.st_gid),
        size: valid.contains(SetattrValid::SIZE).then_some(stat.st_size.cast_unsigned()),
        accessed: time(
            SetattrValid::ATIME,
            SetattrValid::ATIME_NOW,
            stat.st_atime,
            stat.st_atime_nsec,
        ),
        modified: time(
            SetattrValid::MTIME,
            SetattrValid::MTIME_NOW,
            stat.st_mtime,
            stat.st_mtime_nsec,
        ),
        kill_set_id: valid.contains(SetattrValid::KILL_SUIDGID),
    }
}

fn allocate_of(mode: u32) -> Option<Allocate> {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    let mode = mode.cast_signed();
    let keep_size = mode & KEEP != 0;
    match mode & !KEEP {
        0 => Some(Allocate::Reserve { keep_size }),
        libc::FALLOC_FL_PUNCH_HOLE if keep_size => Some(Allocate::PunchHole),
        libc::FALLOC_FL_ZERO_RANGE => Some(Allocate::ZeroRange { keep_size }),
        _ => None,
    }
}

fn rename_of(flags: u32) -> Option<RenameMode> {
    match flags {
        0 => Some(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        _ => None,
    }
}

/// Whether a write with these open flags must be durable before it is answered. `Some(true)`: its
/// data; `Some(false)`: its data and times.
pub(crate) fn durable(handle: u64, flags: u32) -> Option<bool> {
    let flags = flags.cast_signed();
    let ours = handle == DIRECT || flags & libc::O_DIRECT != 0;
    (ours && flags & libc::O_DSYNC != 0).then_some(flags & libc::O_SYNC != libc::O_SYNC)
}

fn open_answer(flags: u32) -> (Option<u64>, OpenOptions) {
    if flags.cast_signed() & libc::O_DIRECT != 0 {
        (Some(DIRECT), direct_open())
    } else {
        (None, OpenOptions::KEEP_CACHE)
    }
}

impl FileSystem for GroupFileSystem {
    type Inode = Node;
    type Handle = u64;

    fn lookup(&self, _: &Context, parent: Node, name: &CStr) -> io::Result<Entry> {
        let name = checked(name)?;
        self.run(async {
            match self.session.lookup(parent, name).await {
                Ok(attributes) => Ok(self.entry(&attributes)),
                Err(FileError::NotFound) => Ok(nothing()),
                Err(error) => Err(error),
            }
        })
    }

    fn forget(&self, context: &Context, node: Node, count: u64) {
        self.batch_forget(context, vec![(node, count)]);
    }

    fn batch_forget(&self, _: &Context, requests: Vec<(Node, u64)>) {
        let counted = |(node, count): (Node, u64)| (node, self.references.remove(node, count));
        self.give_back(requests.into_iter().map(counted).collect());
    }

    fn getattr(&self, _: &Context, node: Node, _: Option<u64>) -> io::Result<(stat64, Duration)> {
        let attributes = self.run(self.session.attributes(node))?;
        Ok((stat_of(&attributes), VALID))
    }

    fn setattr(
        &self,
        _: &Context,
        node: Node,
        stat: stat64,
        _: Option<u64>,
        valid: SetattrValid,
    ) -> io::Result<(stat64, Duration)> {
        let attributes = self.run(self.session.change(node, changes_of(&stat, valid)))?;
        Ok((stat_of(&attributes), VALID))
    }

    fn readlink(&self, _: &Context, node: Node) -> io::Result<Vec<u8>> {
        self.run(self.session.read_link(node))
    }

    fn symlink(
        &self,
        context: &Context,
        target: &CStr,
        parent: Node,
        name: &CStr,
    ) -> io::Result<Entry> {
        self.make(
            context,
            parent,
            name,
            NewFile::Symlink { target: target.to_bytes().to_vec() },
            0o777,
        )
    }

    fn mknod(
        &self,
        context: &Context,
        parent: Node,
        name: &CStr,
        mode: u32,
        rdev: u32,
        _: u32,
    ) -> io::Result<Entry> {
        let new = match Kind::of_mode(mode) {
            Some(Kind::Regular) => NewFile::Regular,
            Some(Kind::Directory | Kind::Symlink) | None => return Err(errno(libc::EINVAL)),
            Some(kind @ (Kind::CharDevice | Kind::BlockDevice)) => NewFile::Special { kind, rdev },
            Some(kind @ (Kind::Fifo | Kind::Socket)) => NewFile::Special { kind, rdev: 0 },
        };
        self.make(context, parent, name, new, mode)
    }

    fn mkdir(
        &self,
        context: &Context,
        parent: Node,
        name: &CStr,
        mode: u32,
        _: u32,
    ) -> io::Result<Entry> {
        self.make(context, parent, name, NewFile::Directory, mode)
    }

    fn unlink(&self, _: &Context, parent: Node, name: &CStr) -> io::Result<()> {
        let name = checked(name)?;
        self.done_once(|session| self.run(session.unlink(parent, name)))
    }

    fn rmdir(&self, _: &Context, parent: Node, name: &CStr) -> io::Result<()> {
        let name = checked(name)?;
        self.done_once(|session| self.run(session.remove_directory(parent, name)))
    }

    fn rename(
        &self,
        _: &Context,
        from: Node,
        from_name: &CStr,
        to: Node,
        to_name: &CStr,
        flags: u32,
    ) -> io::Result<()> {
        let mode = rename_of(flags).ok_or_else(|| errno(libc::EINVAL))?;
        let (from_name, to_name) = (checked(from_name)?, checked(to_name)?);
        self.done_once(|session| self.run(session.rename((from, from_name), (to, to_name), mode)))
    }

    fn link(&self, _: &Context, node: Node, parent: Node, name: &CStr) -> io::Result<Entry> {
        let name = checked(name)?;
        self.entry_once(|session| self.run(session.link(node, parent, name)))
    }

    fn open(
        &self,
        _: &Context,
        _: Node,
        flags: u32,
        _: u32,
    ) -> io::Result<(Option<u64>, OpenOptions, Option<u32>)> {
        let (handle, options) = open_answer(flags);
        Ok((handle, options, None))
    }

    fn create(
        &self,
        context: &Context,
        parent: Node,
        name: &CStr,
        arguments: CreateIn,
    ) -> io::Result<(Entry, Option<u64>, OpenOptions, Option<u32>)> {
        // The kernel assumes that the file returned here is new, and checks no permission on it. If
        // another session has made a file of this name, the kernel must look it up (ESTALE) and
        // open it.
        let taken = if arguments.flags.cast_signed() & libc::O_EXCL != 0 {
            libc::EEXIST
        } else {
            libc::ESTALE
        };
        let made = self.make(context, parent, name, NewFile::Regular, arguments.mode).map_err(
            |error| if error.raw_os_error() == Some(libc::EEXIST) { errno(taken) } else { error },
        )?;
        let (handle, options) = open_answer(arguments.flags);
        Ok((made, handle, options, None))
    }

    fn release(
        &self,
        _: &Context,
        _: Node,
        _: u32,
        _: u64,
        _: bool,
        _: bool,
        _: Option<u64>,
    ) -> io::Result<()> {
        Ok(())
    }

    fn fsync(&self, _: &Context, node: Node, data_only: bool, _: u64) -> io::Result<()> {
        self.run(self.session.sync(node, data_only))
    }

    fn fsyncdir(&self, _: &Context, node: Node, _: bool, _: u64) -> io::Result<()> {
        self.run(self.session.sync_directory(node))
    }

    fn fallocate(
        &self,
        caller: &Context,
        node: Node,
        _: u64,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> io::Result<()> {
        let mode = allocate_of(mode).ok_or_else(|| errno(libc::EOPNOTSUPP))?;
        // A write says whether set-id bits have to be cleared; FALLOCATE does not.
        self.run(self.session.allocate(node, offset, length, mode, caller.uid != 0))
    }

    fn lseek(&self, _: &Context, node: Node, _: u64, offset: u64, whence: u32) -> io::Result<u64> {
        let what = match whence.cast_signed() {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return Err(errno(libc::EINVAL)),
        };
        self.run(self.session.seek(node, offset, what))
    }

    fn statfs(&self, _: &Context, _: Node) -> io::Result<statvfs64> {
        let space = self.run(self.session.space())?;
        let mut answer = no_space();
        answer.f_bsize = space.block_size.into();
        answer.f_frsize = space.block_size.into();
        answer.f_blocks = space.blocks;
        answer.f_bfree = space.blocks_free;
        answer.f_bavail = space.blocks_free;
        answer.f_files = space.files;
        answer.f_ffree = space.files_free;
        answer.f_favail = space.files_free;
        answer.f_namemax = NAME_MAX as u64;
        Ok(answer)
    }

    fn setxattr(
        &self,
        _: &Context,
        node: Node,
        name: &CStr,
        value: &[u8],
        flags: u32,
    ) -> io::Result<()> {
        let name = checked_xattr(name)?;
        let mode = match flags.cast_signed() {
            0 => SetXattr::Any,
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            _ => return Err(errno(libc::EINVAL)),
        };
        if mode == SetXattr::Any {
            return self.run(self.session.set_xattr(node, name, value, mode));
        }
        self.done_once(|session| self.run(session.set_xattr(node, name, value, mode)))
    }

    fn getxattr(
        &self,
        _: &Context,
        node: Node,
        name: &CStr,
        size: u32,
    ) -> io::Result<GetxattrReply> {
        let name = checked_xattr(name)?;
        let value = self.run(self.session.xattr(node, name))?;
        match fit(value.len(), size)? {
            Fit::Value => Ok(GetxattrReply::Value(value)),
            Fit::Count(count) => Ok(GetxattrReply::Count(count)),
        }
    }

    fn listxattr(&self, context: &Context, node: Node, size: u32) -> io::Result<ListxattrReply> {
        let mut list = Vec::new();
        for name in self.run(self.session.xattrs(node))? {
            // As on ext4, only root sees these names. A request does not have the caller's
            // capabilities.
            if context.uid == 0 || !name.starts_with(b"trusted.") {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        match fit(list.len(), size)? {
            Fit::Value => Ok(ListxattrReply::Names(list)),
            Fit::Count(count) => Ok(ListxattrReply::Count(count)),
        }
    }

    fn removexattr(&self, _: &Context, node: Node, name: &CStr) -> io::Result<()> {
        let name = checked_xattr(name)?;
        self.done_once(|session| self.run(session.remove_xattr(node, name)))
    }

    /// After this answer the kernel opens directories itself.
    fn opendir(&self, _: &Context, _: Node, _: u32) -> io::Result<(Option<u64>, OpenOptions)> {
        Err(errno(libc::ENOSYS))
    }

    fn readdir(
        &self,
        _: &Context,
        node: Node,
        _: u64,
        size: u32,
        offset: u64,
        add_entry: &mut dyn FnMut(DirEntry<'_>) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.list(node, offset, likely_entries(size, 0), false, &mut |entry, _| {
            Ok(add_entry(entry)? > 0)
        })
    }

    fn readdirplus(
        &self,
        _: &Context,
        node: Node,
        _: u64,
        size: u32,
        offset: u64,
        add_entry: &mut dyn FnMut(DirEntry<'_>, Entry) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.list(node, offset, likely_entries(size, PLUS), true, &mut |entry, attributes| {
            // Node 0: the entry has no attributes.
            if add_entry(entry, attributes.map_or_else(Entry::default, known))? == 0 {
                return Ok(false);
            }
            if let Some(attributes) = attributes {
                self.entry(attributes);
            }
            Ok(true)
        })
    }

    fn ioctl(
        &self,
        _: &Context,
        _: Node,
        _: u64,
        _: u32,
        _: u32,
        _: IoctlData<'_>,
        _: u32,
    ) -> io::Result<IoctlData<'_>> {
        Err(errno(libc::ENOTTY))
    }
}

/// Bytes that attributes add to an entry of a listing.
const PLUS: usize = 128;

/// How many entries probably fit in an answer of `size` bytes: names of about 16 bytes.
fn likely_entries(size: u32, extra: usize) -> usize {
    (size as usize / (24 + 16 + extra)).clamp(8, 4096)
}

enum Fit {
    Value,
    Count(u32),
}

/// A caller that gives no room wants the length.
fn fit(length: usize, room: u32) -> io::Result<Fit> {
    let length = u32::try_from(length).map_err(|_| errno(libc::E2BIG))?;
    match room {
        0 => Ok(Fit::Count(length)),
        room if length > room => Err(errno(libc::ERANGE)),
        _ => Ok(Fit::Value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_far_away_survive() {
        for time in [
            0,
            1,
            -1,
            -NANOSECONDS,
            4_294_967_296 * NANOSECONDS + 5,
            i64::MAX,
            i64::MIN + NANOSECONDS,
        ] {
            let (seconds, nanoseconds) = split(time);
            assert!((0..NANOSECONDS).contains(&nanoseconds));
            assert_eq!(joined(seconds, nanoseconds), time);
        }
        assert_eq!(joined(i64::MAX, 0), i64::MAX);
        assert_eq!(joined(i64::MIN, 0), i64::MIN);
    }

    #[test]
    fn unknown_fallocate_modes_are_refused() {
        let mode = |flags: i32| allocate_of(flags.cast_unsigned());
        assert_eq!(mode(0), Some(Allocate::Reserve { keep_size: false }));
        assert_eq!(mode(libc::FALLOC_FL_KEEP_SIZE), Some(Allocate::Reserve { keep_size: true }));
        assert_eq!(
            mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            Some(Allocate::PunchHole)
        );
        assert_eq!(mode(libc::FALLOC_FL_PUNCH_HOLE), None);
        assert_eq!(
            mode(libc::FALLOC_FL_ZERO_RANGE),
            Some(Allocate::ZeroRange { keep_size: false })
        );
        for other in [
            libc::FALLOC_FL_COLLAPSE_RANGE,
            libc::FALLOC_FL_INSERT_RANGE,
            libc::FALLOC_FL_UNSHARE_RANGE,
        ] {
            assert_eq!(mode(other), None);
            assert_eq!(mode(other | libc::FALLOC_FL_KEEP_SIZE), None);
        }
    }

    #[test]
    fn a_direct_synchronous_write_is_made_durable_here_and_a_cached_one_by_the_kernel() {
        let flags = |flags: i32| flags.cast_unsigned();
        assert_eq!(durable(DIRECT, flags(libc::O_DSYNC)), Some(true));
        assert_eq!(durable(DIRECT, flags(libc::O_SYNC)), Some(false));
        assert_eq!(durable(0, flags(libc::O_DSYNC | libc::O_DIRECT)), Some(true));
        assert_eq!(durable(0, flags(libc::O_SYNC)), None);
        assert_eq!(durable(DIRECT, flags(libc::O_DIRECT)), None);
    }

    #[test]
    fn names_and_namespaces_are_checked() {
        let code = |result: io::Result<&[u8]>| {
            result.map(<[u8]>::len).map_err(|error| error.raw_os_error())
        };
        let long = std::ffi::CString::new(vec![b'x'; 256]).unwrap();
        assert_eq!(code(checked(&long)), Err(Some(libc::ENAMETOOLONG)));
        assert_eq!(code(checked(c"")), Err(Some(libc::ENOENT)));
        assert_eq!(code(checked(c"name")), Ok(4));
        assert_eq!(code(checked_xattr(c"user.")), Err(Some(libc::EINVAL)));
        assert_eq!(code(checked_xattr(c"user.a")), Ok(6));
        for other in [c"system.posix_acl_access", c"system.posix_acl_default", c"nothing", c"os2.x"]
        {
            assert_eq!(code(checked_xattr(other)), Err(Some(libc::EOPNOTSUPP)));
        }
    }

    #[test]
    fn a_caller_without_room_gets_the_length() {
        assert!(matches!(fit(5, 0), Ok(Fit::Count(5))));
        assert!(matches!(fit(5, 5), Ok(Fit::Value)));
        assert_eq!(fit(5, 4).err().and_then(|error| error.raw_os_error()), Some(libc::ERANGE));
    }

    fn root_attributes() -> Attributes {
        Attributes {
            node: plinth_engine::api::ROOT,
            generation: 1,
            kind: Kind::Directory,
            mode: 0o755,
            links: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            accessed: 1,
            modified: 2,
            changed: 3,
            created: 4,
            file_type: None,
            mirrors: 0,
            fine: false,
            preformatted: false,
        }
    }

    #[test]
    fn setattr_changes_what_its_flags_name() {
        let mut stat = stat_of(&root_attributes());
        (stat.st_mode, stat.st_size, stat.st_mtime, stat.st_mtime_nsec) = (0o104_755, 9, -2, 7);
        let changes = changes_of(
            &stat,
            SetattrValid::MODE
                | SetattrValid::SIZE
                | SetattrValid::MTIME
                | SetattrValid::KILL_SUIDGID,
        );
        let expected = Changes {
            mode: Some(0o4755),
            size: Some(9),
            modified: Some(SetTime::At(-2 * NANOSECONDS + 7)),
            kill_set_id: true,
            ..Changes::default()
        };
        assert_eq!(changes, expected);
        let now = changes_of(&stat, SetattrValid::ATIME | SetattrValid::ATIME_NOW);
        assert_eq!(now, Changes { accessed: Some(SetTime::Now), ..Changes::default() });
    }
}
