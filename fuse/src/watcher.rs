//! Notifies the kernel to drop what it has cached, when another session has changed the group.
//!
//! The danger is a deadlock. To drop an entry the kernel locks its directory, and to drop pages it
//! locks each page. A program may hold either lock while it waits for an answer of this front end.
//! So:
//!
//!   1. A thread that changes the group only puts a notice into a set, and goes on
//!      ([`Watcher::invalidate`] never waits).
//!   2. One thread, which answers no request and holds no lock, sends the notices to the kernel. It
//!      may wait there.
//!
//! The same locks make invalidation exact: an answer with the old state that is in flight ends
//! before the kernel drops, and so the state that it brought is dropped too.
//!
//! The same thread asks the kernel whether it has a file, where references cannot be counted
//! ([`Watcher::still_holds`]): it sends a notification that drops only attributes, and the kernel
//! refuses it with ENOENT if it does not have the file.
//!
//! The set has each notice once, so its size is bounded by the number of different notices, not by
//! the number of changes. After the set was empty the thread sleeps for a [`PAUSE`]: changes that
//! come all the time are sent once in a pause, and do not wake the thread for each.

use plinth_engine::api::{Invalidation, Node, Watcher};
use rustix::io::Errno;
use std::{
    collections::BTreeSet,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

/// How long the thread sleeps when the set is empty, before it waits for a notice.
const PAUSE: Duration = Duration::from_millis(1);

const INVAL_INODE: i32 = 2;
const INVAL_ENTRY: i32 = 3;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Notice {
    /// Asks whether the kernel has the file. It sorts first, so that no stream of other notices
    /// delays it.
    Held(Node),
    Node(Node),
    Entry(Node, Vec<u8>),
}

/// Is called with a file that the kernel does not have.
type NotHeld = Box<dyn Fn(Node) + Send + Sync>;

#[derive(Default)]
struct Waiting {
    notices: BTreeSet<Notice>,
    /// The thread waits on `changed`, and has to be woken.
    sleeps: bool,
    end: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    not_held: OnceLock<NotHeld>,
}

/// The thread that notifies the kernel.
pub(crate) struct Notifier {
    queue: Arc<Queue>,
}

impl Notifier {
    pub fn start(device: Arc<OwnedFd>) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let ours = Arc::clone(&queue);
        thread::Builder::new().name("fuse-notify".into()).spawn(move || {
            while let Some(notice) = ours.next(|| thread::sleep(PAUSE)) {
                match rustix::io::write(&*device, &message(&notice)) {
                    Err(Errno::NOENT) if matches!(notice, Notice::Held(_)) => {
                        ours.report_not_held(&notice)
                    }
                    // ENOENT: the kernel has not cached it.
                    Ok(_)
                    | Err(
                        Errno::NOENT | Errno::INTR | Errno::AGAIN | Errno::NOTDIR | Errno::NOTEMPTY,
                    ) => {}
                    // ENODEV: unmounted.
                    Err(_) => break,
                }
            }
            ours.stop();
        })?;
        Ok(Self { queue })
    }

    pub fn watcher(&self) -> Arc<dyn Watcher> {
        Arc::clone(&self.queue) as Arc<dyn Watcher>
    }

    /// Sets the function that is called with files that the kernel does not have.
    pub fn on_not_held(&self, not_held: NotHeld) {
        let _ = self.queue.not_held.set(not_held);
    }

    /// Ends the thread, after the notification that it is sending.
    pub fn stop(&self) {
        self.queue.stop();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next notice, and calls `rest` first if there is none. `None`: the end.
    fn next(&self, rest: impl FnOnce()) -> Option<Notice> {
        let mut waiting = self.lock();
        if waiting.notices.is_empty() && !waiting.end {
            drop(waiting);
            rest();
            waiting = self.lock();
        }
        loop {
            if waiting.end {
                return None;
            }
            if let Some(notice) = waiting.notices.pop_first() {
                return Some(notice);
            }
            waiting.sleeps = true;
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.sleeps = false;
        }
    }

    /// Wakes the thread if it waits.
    fn wake(&self, waiting: MutexGuard<'_, Waiting>) {
        let sleeps = waiting.sleeps;
        drop(waiting);
        if sleeps {
            self.changed.notify_all();
        }
    }

    fn report_not_held(&self, notice: &Notice) {
        if let (Notice::Held(node), Some(not_held)) = (notice, self.not_held.get()) {
            not_held(*node);
        }
    }

    fn stop(&self) {
        let mut waiting = self.lock();
        waiting.end = true;
        waiting.notices.clear();
        self.changed.notify_all();
    }
}

impl Watcher for Queue {
    fn invalidate(&self, what: &Invalidation) {
        let mut waiting = self.lock();
        if waiting.end {
            return;
        }
        match what {
            Invalidation::Node(node) => {
                waiting.notices.insert(Notice::Node(*node));
            }
            Invalidation::Entry { parent, name } => {
                waiting.notices.insert(Notice::Entry(*parent, name.clone()));
                // The directory's cached listing and attributes too: the kernel drops them with an
                // entry only if it has cached the entry.
                waiting.notices.insert(Notice::Node(*parent));
            }
        }
        self.wake(waiting);
    }

    fn still_holds(&self, node: Node) {
        let mut waiting = self.lock();
        if !waiting.end {
            waiting.notices.insert(Notice::Held(node));
            self.wake(waiting);
        }
    }
}

/// `struct fuse_out_header`, with the code of the notification as its error, and the body.
fn message(notice: &Notice) -> Vec<u8> {
    let (code, body) = match notice {
        // Node, offset and length; 0 and 0 mean all pages, and the attributes.
        Notice::Node(node) => (INVAL_INODE, [node.to_ne_bytes(), [0; 8], [0; 8]].concat()),
        // A negative offset means no page.
        Notice::Held(node) => {
            (INVAL_INODE, [node.to_ne_bytes(), (-1_i64).to_ne_bytes(), [0; 8]].concat())
        }
        Notice::Entry(parent, name) => {
            let mut body = parent.to_ne_bytes().to_vec();
            body.extend((name.len() as u32).to_ne_bytes());
            body.extend([0; 4]);
            body.extend(name);
            body.push(0);
            (INVAL_ENTRY, body)
        }
    };
    let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(code.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_that_waits_is_not_sent_twice() {
        let queue = Queue::default();
        for _ in 0..1000 {
            queue.invalidate(&Invalidation::Node(5));
            queue.invalidate(&Invalidation::Entry { parent: 1, name: b"a".to_vec() });
        }
        let notices: Vec<_> = (0..3).map(|_| queue.next(|| ()).unwrap()).collect();
        assert_eq!(notices, [Notice::Node(1), Notice::Node(5), Notice::Entry(1, b"a".to_vec())]);
        queue.stop();
        queue.invalidate(&Invalidation::Node(6));
        assert_eq!(queue.next(|| ()), None);
    }

    #[test]
    fn a_question_is_sent_before_invalidations() {
        let queue = Queue::default();
        queue.invalidate(&Invalidation::Node(5));
        queue.still_holds(7);
        assert_eq!(queue.next(|| ()), Some(Notice::Held(7)));
        assert_eq!(queue.next(|| ()), Some(Notice::Node(5)));
    }

    #[test]
    fn messages_have_the_layout_of_the_protocol() {
        let node = message(&Notice::Node(9));
        assert_eq!(node.len(), 40);
        assert_eq!(node[0..4], 40_u32.to_ne_bytes());
        assert_eq!(node[4..8], INVAL_INODE.to_ne_bytes());
        assert_eq!(node[16..24], 9_u64.to_ne_bytes());
        let held = message(&Notice::Held(9));
        assert_eq!((held.len(), &held[24..32]), (40, &[255; 8][..]));
        let entry = message(&Notice::Entry(1, b"ab".to_vec()));
        assert_eq!(entry.len(), 16 + 16 + 3);
        assert_eq!(entry[24..28], 2_u32.to_ne_bytes());
        assert_eq!(&entry[32..], b"ab\0");
    }
}
