#![allow(unsafe_code)]
//! Memory for large buffers: one huge page each, where the system has some.
//!
//! A megabyte of ordinary pages is 256 segments for a device: the kernel pins each page, and splits
//! the request if the device takes fewer segments (a loop device 128, many NVMe drives 127), which
//! blocks a kernel worker. A huge page is one segment.

use std::{
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
};

/// The size of a huge page of x86-64, and of others with pages of 4 KiB.
pub(super) const SIZE: usize = 2 << 20;

#[repr(C, align(2_097_152))]
struct HugePage([u8; SIZE]);

/// Memory of [`SIZE`] bytes, aligned to as many.
pub(super) struct Large(Box<HugePage>);

impl Large {
    pub(super) fn zeroed() -> Self {
        let mut page: Box<MaybeUninit<HugePage>> = Box::new_uninit();
        let start = page.as_mut_ptr();
        // SAFETY: the box owns these bytes; the advice does not change their content. If it is
        // refused the pages stay ordinary.
        unsafe { libc::madvise(start.cast(), SIZE, libc::MADV_HUGEPAGE) };
        // SAFETY: every byte of the page is written, and every pattern of bytes is a `HugePage`.
        let page = unsafe {
            start.write_bytes(0, 1);
            page.assume_init()
        };
        Self(page)
    }
}

impl Deref for Large {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0.0
    }
}

impl DerefMut for Large {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0.0
    }
}
