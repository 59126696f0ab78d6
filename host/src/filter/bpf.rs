#![allow(unsafe_code)]
//! bpf(2): maps, programs and links of the kernel, as far as the write filter needs them.
//!
//! The kernel's argument is a union; here it is [`Attributes`], 128 zero bytes into which fields
//! are put at the offsets of `union bpf_attr` in linux/bpf.h.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// Commands of bpf(2).
#[derive(Debug, Clone, Copy)]
enum Call {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgramLoad = 5,
    Pin = 6,
    Get = 7,
    #[cfg(test)]
    Attach = 8,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkDetach = 34,
}

/// `BPF_PROG_TYPE_CGROUP_DEVICE`
const CGROUP_DEVICE_PROGRAM: u32 = 15;
/// `BPF_CGROUP_DEVICE`, the place in a cgroup to which such a program is attached.
const CGROUP_DEVICE: u32 = 6;
/// Bytes that the kernel may use to say why it refuses a program.
const LOG_BYTES: usize = 64 << 10;

/// Kinds of maps.
#[derive(Debug, Clone, Copy)]
pub(super) enum MapKind {
    Hash = 1,
    Array = 2,
}

/// A `union bpf_attr`.
#[repr(C, align(8))]
struct Attributes([u8; 128]);

impl Attributes {
    const fn new() -> Self {
        Self([0; 128])
    }

    fn word(mut self, offset: usize, value: u32) -> Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn long(mut self, offset: usize, value: u64) -> Self {
        self.0[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn descriptor(self, offset: usize, descriptor: BorrowedFd<'_>) -> Self {
        self.word(offset, u32::try_from(descriptor.as_raw_fd()).unwrap_or(u32::MAX))
    }

    /// The address of bytes that the kernel reads, or writes if they are a map's value or a log.
    fn address<T: ?Sized>(self, offset: usize, place: *const T) -> Self {
        self.long(offset, place.cast::<u8>() as u64)
    }

    /// At most 15 letters, by which `bpftool` shows the object.
    fn name(mut self, offset: usize, name: &str) -> Self {
        let length = name.len().min(15);
        self.0[offset..offset + length].copy_from_slice(&name.as_bytes()[..length]);
        self
    }
}

/// # Safety
/// Each address in the attributes must be of memory that lives as long as the call, has the length
/// that the kernel takes it to have, and may be written where the kernel writes.
unsafe fn bpf(call: Call, attributes: &mut Attributes) -> io::Result<i32> {
    // SAFETY: the attributes outlive the call, and their addresses are the caller's promise.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            call as libc::c_int,
            attributes.0.as_mut_ptr(),
            size_of::<Attributes>(),
        )
    };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(i32::try_from(answer).unwrap_or(i32::MAX)),
    }
}

/// # Safety
/// As [`bpf`]; and the call must be one that returns a new descriptor.
unsafe fn bpf_descriptor(call: Call, attributes: &mut Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let descriptor = unsafe { bpf(call, attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A map with keys of `K` and values of `V` bytes.
pub(super) struct Map<const K: usize, const V: usize>(OwnedFd);

impl<const K: usize, const V: usize> Map<K, V> {
    pub(super) fn create(kind: MapKind, entries: u32, name: &str) -> io::Result<Self> {
        let mut attributes = Attributes::new()
            .word(0, kind as u32)
            .word(4, u32::try_from(K).map_err(io::Error::other)?)
            .word(8, u32::try_from(V).map_err(io::Error::other)?)
            .word(12, entries)
            .name(28, name);
        // SAFETY: no addresses.
        unsafe { bpf_descriptor(Call::MapCreate, &mut attributes) }.map(Self)
    }

    /// A map that is pinned; it must have been made with these sizes.
    pub(super) fn pinned(path: &Path) -> io::Result<Self> {
        pinned(path).map(Self)
    }

    pub(super) fn get(&self, key: &[u8; K]) -> io::Result<Option<[u8; V]>> {
        let mut value = [0; V];
        let mut attributes = Attributes::new()
            .descriptor(0, self.descriptor())
            .address(8, &raw const *key)
            .address(16, &raw mut value);
        // SAFETY: the key and the value have the lengths of the map's, and the value may be
        // written.
        found(unsafe { bpf(Call::MapLookup, &mut attributes) }, value)
    }

    pub(super) fn put(&self, key: &[u8; K], value: &[u8; V]) -> io::Result<()> {
        let mut attributes = Attributes::new()
            .descriptor(0, self.descriptor())
            .address(8, &raw const *key)
            .address(16, &raw const *value);
        // SAFETY: the key and the value have the lengths of the map's.
        unsafe { bpf(Call::MapUpdate, &mut attributes) }.map(drop)
    }

    /// A key that is not there is no error.
    pub(super) fn remove(&self, key: &[u8; K]) -> io::Result<()> {
        let mut attributes =
            Attributes::new().descriptor(0, self.descriptor()).address(8, &raw const *key);
        // SAFETY: the key has the length of the map's.
        found(unsafe { bpf(Call::MapDelete, &mut attributes) }, ()).map(drop)
    }

    pub(super) fn keys(&self) -> io::Result<Vec<[u8; K]>> {
        let mut keys = Vec::new();
        while let Some(next) = self.next_key(keys.last())? {
            keys.push(next);
        }
        Ok(keys)
    }

    fn next_key(&self, key: Option<&[u8; K]>) -> io::Result<Option<[u8; K]>> {
        let mut next = [0; K];
        let mut attributes =
            Attributes::new().descriptor(0, self.descriptor()).address(16, &raw mut next);
        if let Some(key) = key {
            attributes = attributes.address(8, &raw const *key);
        }
        // SAFETY: both have the length of the map's keys, and the next one may be written.
        found(unsafe { bpf(Call::MapNextKey, &mut attributes) }, next)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }

    pub(super) fn pin(&self, path: &Path) -> io::Result<()> {
        pin(self.descriptor(), path)
    }
}

fn found<T, A>(answer: io::Result<A>, value: T) -> io::Result<Option<T>> {
    match answer {
        Ok(_) => Ok(Some(value)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Loads a device program.
///
/// # Errors
/// With the last lines of the kernel's verifier, if it refuses the program.
pub(super) fn load_program(instructions: &[u64], name: &str) -> io::Result<OwnedFd> {
    let count = u32::try_from(instructions.len()).map_err(io::Error::other)?;
    let licence = c"Dual BSD/GPL";
    let attributes = || {
        Attributes::new()
            .word(0, CGROUP_DEVICE_PROGRAM)
            .word(4, count)
            .address(8, instructions.as_ptr())
            .address(16, licence.as_ptr())
            .name(48, name)
            .word(68, CGROUP_DEVICE)
    };
    // SAFETY: the instructions are `count` times 8 bytes, and the licence ends with a zero.
    match unsafe { bpf_descriptor(Call::ProgramLoad, &mut attributes()) } {
        Ok(program) => return Ok(program),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
        Err(_) => {}
    }
    let mut log = vec![0_u8; LOG_BYTES];
    let mut with_log =
        attributes().word(24, 1).word(28, LOG_BYTES as u32).address(32, log.as_mut_ptr());
    // SAFETY: as above, and the log has the length that is stated, and may be written.
    unsafe { bpf_descriptor(Call::ProgramLoad, &mut with_log) }.map_err(|error| {
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.trim_end_matches('\0').trim_end().lines().collect();
        let last = lines[lines.len().saturating_sub(3)..].join("; ");
        io::Error::new(error.kind(), format!("{error}: {last}"))
    })
}

/// Attaches a device program to a cgroup, beside those that are there: a link allows several
/// (`BPF_F_ALLOW_MULTI`), and an open is allowed if all of them allow it.
pub(super) fn attach(program: BorrowedFd<'_>, cgroup: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attributes =
        Attributes::new().descriptor(0, program).descriptor(4, cgroup).word(8, CGROUP_DEVICE);
    // SAFETY: no addresses.
    unsafe { bpf_descriptor(Call::LinkCreate, &mut attributes) }
}

/// Puts another program in the place of a link's, in one step.
pub(super) fn replace(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attributes = Attributes::new().descriptor(0, link).descriptor(4, program);
    // SAFETY: no addresses.
    unsafe { bpf(Call::LinkUpdate, &mut attributes) }.map(drop)
}

/// Detaches a link's program from its cgroup: it is asked no more when this returns.
pub(super) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut attributes = Attributes::new().descriptor(0, link);
    // SAFETY: no addresses.
    unsafe { bpf(Call::LinkDetach, &mut attributes) }.map(drop)
}

/// Attaches a program as container runtimes and service managers do, without a link.
#[cfg(test)]
pub(super) fn attach_plainly(
    program: BorrowedFd<'_>,
    cgroup: BorrowedFd<'_>,
    flags: u32,
) -> io::Result<()> {
    let mut attributes = Attributes::new()
        .descriptor(0, cgroup)
        .descriptor(4, program)
        .word(8, CGROUP_DEVICE)
        .word(12, flags);
    // SAFETY: no addresses.
    unsafe { bpf(Call::Attach, &mut attributes) }.map(drop)
}

/// Gives an object a name in a bpf file system: it then outlives this process.
pub(super) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = Attributes::new().address(0, path.as_ptr()).descriptor(8, object);
    // SAFETY: the path ends with a zero.
    unsafe { bpf(Call::Pin, &mut attributes) }.map(drop)
}

/// The object that has this name.
pub(super) fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = Attributes::new().address(0, path.as_ptr());
    // SAFETY: the path ends with a zero.
    unsafe { bpf_descriptor(Call::Get, &mut attributes) }
}
