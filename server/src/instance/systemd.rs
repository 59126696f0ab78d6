//! The service manager, if there is one: it is notified when the instance is ready, and keeps
//! descriptors beyond its end.
//!
//! The protocol is systemd's (sd_notify(3), sd_listen_fds(3)); any manager may speak it. It gets
//! one datagram per message, at the socket that `NOTIFY_SOCKET` names, with a descriptor beside it
//! if one is to be kept. At the next start of the service the kept descriptors are open from number
//! 3 on, and `LISTEN_FDNAMES` has the names.
//!
//! Nothing here fails: without a manager, or with one that does not listen, mounts are made again
//! instead.
#![allow(unsafe_code)]

use rustix::{
    fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    io::FdFlags,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
        SocketFlags, SocketType, sendmsg_addr, socket_with,
    },
};
use std::{
    env,
    ffi::OsStr,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::unix::ffi::OsStrExt,
};

/// The socket on which the manager listens.
const SOCKET: &str = "NOTIFY_SOCKET";
/// Variables that are only for the process that the manager started.
pub(super) const OURS: [&str; 4] = [SOCKET, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];
/// The exit status with which `plinth shutdown` ends an instance that a manager has started. The
/// unit says that it is not started again then (`RestartPreventExitStatus`).
const SHUT_DOWN: i32 = 3;
/// The first descriptor that the manager passes.
const FIRST: RawFd = 3;
/// Most descriptors that are taken from the manager: more than the unit's `FileDescriptorStoreMax`.
const STORED_MAX: usize = 4096;

/// An address as the environment writes it: a path, or with `@` a name in no file system.
fn address(text: &OsStr) -> io::Result<SocketAddrUnix> {
    Ok(match text.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name)?,
        None => SocketAddrUnix::new(text)?,
    })
}

fn send_to(
    address: &SocketAddrUnix,
    text: &str,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    // It is queued, or refused: a manager that hangs does not block the instance.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg_addr(socket.as_fd(), address, &[IoSlice::new(text.as_bytes())], &mut control, flags)?;
    Ok(())
}

fn send(text: &str, descriptor: Option<BorrowedFd<'_>>) {
    if let Some(socket) = env::var_os(SOCKET) {
        let _ = address(&socket).and_then(|address| send_to(&address, text, descriptor));
    }
}

/// Notifies the manager that the instance is ready.
pub(crate) fn ready() {
    send("READY=1", None);
}

/// The exit status of an instance that was asked to shut down. Without a manager it is success.
pub(super) fn status_after_shutdown() -> i32 {
    if env::var_os(SOCKET).is_some() { SHUT_DOWN } else { 0 }
}

/// Has the manager keep a descriptor under a name. The manager drops it by itself when it is of no
/// use any more.
pub(super) fn store(name: &str, descriptor: BorrowedFd<'_>) {
    send(&format!("FDSTORE=1\nFDNAME={name}"), Some(descriptor));
}

/// Has the manager drop the descriptor of that name.
pub(super) fn remove(name: &str) {
    send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None);
}

/// How many descriptors these variables say that this process was passed, and their names.
fn passed(pid: Option<&str>, count: Option<&str>, names: Option<&str>) -> Vec<String> {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<usize>().ok());
    if number(pid) != Some(std::process::id() as usize) {
        return Vec::new();
    }
    let count = number(count).unwrap_or(0).min(STORED_MAX);
    let mut names = names.unwrap_or_default().split(':').map(str::to_owned);
    (0..count).map(|_| names.next().unwrap_or_default()).collect()
}

/// The descriptors that the manager kept for this process, with their names. To be called once,
/// before this process has opened anything.
pub(crate) fn stored() -> Vec<(String, OwnedFd)> {
    let variable = |name| env::var(name).ok();
    let (pid, count, names) =
        (variable("LISTEN_PID"), variable("LISTEN_FDS"), variable("LISTEN_FDNAMES"));
    let names = passed(pid.as_deref(), count.as_deref(), names.as_deref());
    let all = names.into_iter().zip(FIRST..).filter_map(|(name, number)| {
        // SAFETY: looks at the number only; if nothing is open there the call returns an error.
        let is_open =
            rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC)
                .is_ok();
        // SAFETY: the manager passed it to this process, and no other code here knows of it.
        is_open.then(|| (name, unsafe { OwnedFd::from_raw_fd(number) }))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn only_the_process_that_is_meant_takes_what_is_passed() {
        let me = std::process::id().to_string();
        assert_eq!(passed(Some(&me), Some("2"), Some("a:b")), ["a", "b"]);
        assert_eq!(passed(Some(&me), Some("2"), Some("a")), ["a", ""]);
        assert_eq!(passed(Some(&me), Some("1"), None), [""]);
        for (pid, count) in
            [(None, Some("2")), (Some("1"), Some("2")), (Some(&*me), None), (Some(&*me), Some("x"))]
        {
            assert!(passed(pid, count, Some("a:b")).is_empty());
        }
        assert_eq!(passed(Some(&me), Some("99999999"), None).len(), STORED_MAX);
    }

    #[test]
    fn a_message_and_its_descriptor_reach_the_socket() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("bound");
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        let to = address(path.as_os_str()).expect("an address");
        send_to(&to, "FDSTORE=1\nFDNAME=a", Some(null.as_fd())).expect("sent");
        let mut text = [0; 64];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut slices = [io::IoSliceMut::new(&mut text)];
        let flags = rustix::net::RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(manager.as_fd(), &mut slices, &mut control, flags)
            .expect("received");
        assert_eq!(&text[..received.bytes], b"FDSTORE=1\nFDNAME=a");
        assert_eq!(control.drain().count(), 1);
        assert!(address(OsStr::new("@plinth-test")).is_ok());
        assert!(address(OsStr::new(&"x".repeat(200))).is_err());
    }
}
