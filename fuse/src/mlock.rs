//! Memory that is never absent: every page is there before it is used, and stays.
#![allow(unsafe_code)]

use plinth_engine::sync::buffer::Buffer;
use std::{
    io,
    ops::{Deref, DerefMut},
};

/// A page-aligned buffer, locked in memory. Its memory stays locked for who has it next: that may be a request's, too.
pub(crate) struct Locked(Buffer);

impl Locked {
    /// # Errors
    /// If the system does not allow that much memory to be locked.
    pub fn new(length: usize) -> io::Result<Self> {
        let mut buffer = Buffer::zeroed(length);
        // Zeroed memory may be a promise; writing to it makes it real.
        for page in buffer.chunks_mut(4096) {
            page[0] = 1;
        }
        // SAFETY: the range is the buffer's own; locking changes no byte of it.
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

impl Deref for Locked {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
