//! The kernel's messages about devices that come, change and go (uevents).

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    net::{
        AddressFamily, RecvFlags, SocketFlags, SocketType, bind,
        netlink::{self, SocketAddrNetlink},
        recv, socket_with,
    },
};
use std::{io, time::Duration};

/// The kernel's own messages; group 2 has those of the device manager.
const FROM_THE_KERNEL: u32 = 1;

/// A socket with the kernel's messages about devices.
pub struct DeviceEvents(OwnedFd);

impl DeviceEvents {
    /// # Errors
    /// If the kernel has no such socket for this process.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::KOBJECT_UEVENT);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, FROM_THE_KERNEL))?;
        Ok(Self(socket))
    }

    /// Waits for a message about a block device, for a limited time: whether there was one.
    pub fn wait(&self, limit: Duration) -> bool {
        let limit = Timespec {
            tv_sec: limit.as_secs().cast_signed(),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut wanted = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut wanted, Some(&limit)).is_err() {
            return false;
        }
        let mut is_block = false;
        let mut message = [0_u8; 4096];
        loop {
            match recv(&self.0, &mut message[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) => {
                    let message = &message[..length.min(4096)];
                    is_block |=
                        message.split(|byte| *byte == 0).any(|field| field == b"SUBSYSTEM=block");
                }
                // Some were lost: one of them may have been about a disk.
                Err(rustix::io::Errno::NOBUFS) => is_block = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return is_block,
            }
        }
    }
}
