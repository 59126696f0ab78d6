//! Locked memory: every page exists before it is used, and is never paged out.
#![allow(unsafe_code)]

use plinth_engine::sync::buffer::Buffer;
use std::{
    io,
    ops::{Deref, DerefMut},
};

/// A page-aligned buffer, locked in memory. The memory stays locked after it is freed: the next
/// buffer that gets it, perhaps a request's, is locked as well.
pub(crate) struct LockedMemory(Buffer);

impl LockedMemory {
    /// # Errors
    /// If the system does not allow that much memory to be locked.
    pub fn new(length: usize) -> io::Result<Self> {
        let mut buffer = Buffer::zeroed(length);
        // The kernel maps zeroed memory lazily: a write to each page makes it exist.
        for page in buffer.chunks_mut(4096) {
            page[0] = 1;
        }
        // SAFETY: the range is the buffer's; locking changes no byte of it.
        unsafe { rustix::mm::mlock(buffer.as_mut_ptr().cast(), buffer.len()) }.map_err(
            |errno| {
                io::Error::new(
                    io::Error::from(errno).kind(),
                    format!(
                        "locking {length} bytes of memory for file requests: {errno}; \
                     raise RLIMIT_MEMLOCK (systemd: LimitMEMLOCK=infinity)"
                    ),
                )
            },
        )?;
        Ok(Self(buffer))
    }
}

impl Deref for LockedMemory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for LockedMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
