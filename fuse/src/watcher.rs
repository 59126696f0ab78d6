//! Tells the kernel to forget what it cached, when the group was changed by another way than this mount.
//!
//! The danger is a deadlock. To drop an entry the kernel takes the lock of its directory, and to drop pages the lock
//! of each page; both may be held by a program that waits for one of our answers. So:
//!
//!   1. Whoever changes the group only puts a word in a set, and goes on ([`Watcher::invalidate`] never waits).
//!   2. One thread of its own, which answers no request and holds nothing, tells the kernel, and waits if it must.
//!
//! The same locks make it exact: an answer with the old state that is under way while the kernel is told ends
//! first, and what it brought is dropped too.
//!
//! The same thread asks the kernel whether it has a file, where nobody can count ([`Watcher::still_holds`]): a notification that
//! drops nothing but attributes is refused for a file that the kernel does not have.
//!
//! A word that is already waiting is not put twice, so the set is bounded by what differs, not by how often it changed. What changes all the time
//! is told once in a [`PAUSE`]: whoever writes through another door, as often as the disks can, wakes nobody in between.

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

/// How long the thread rests when it has told everything.
const PAUSE: Duration = Duration::from_millis(1);

const INVAL_INODE: i32 = 2;
const INVAL_ENTRY: i32 = 3;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    /// Is there such a file? First, so that no stream of others keeps it waiting.
    Held(Node),
    Node(Node),
    Entry(Node, Vec<u8>),
}

/// Who hears that the kernel does not have a file.
type NotHeld = Box<dyn Fn(Node) + Send + Sync>;

#[derive(Default)]
struct Waiting {
    words: BTreeSet<Word>,
    /// The thread has to be woken.
    sleeps: bool,
    end: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    not_held: OnceLock<NotHeld>,
}

/// The thread that tells the kernel.
pub(crate) struct Notifier {
    queue: Arc<Queue>,
}

impl Notifier {
    pub fn start(device: Arc<OwnedFd>) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let ours = Arc::clone(&queue);
        thread::Builder::new().name("fuse-notify".into()).spawn(move || {
            while let Some(word) = ours.next(|| thread::sleep(PAUSE)) {
                match rustix::io::write(&*device, &message(&word)) {
                    Err(Errno::NOENT) if matches!(word, Word::Held(_)) => ours.tell_not_held(&word),
                    // ENOENT: the kernel does not have it cached.
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

    /// Whom to tell of files that the kernel does not have.
    pub fn tell(&self, not_held: NotHeld) {
        let _ = self.queue.not_held.set(not_held);
    }

    /// The thread ends when it is idle, or when its present notification does.
    pub fn stop(&self) {
        self.queue.stop();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next word. Rests when there is none, before it waits for one.
    fn next(&self, rest: impl FnOnce()) -> Option<Word> {
        let mut waiting = self.lock();
        if waiting.words.is_empty() && !waiting.end {
            drop(waiting);
            rest();
            waiting = self.lock();
        }
        loop {
            if waiting.end {
                return None;
            }
            if let Some(word) = waiting.words.pop_first() {
                return Some(word);
            }
            waiting.sleeps = true;
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.sleeps = false;
        }
    }

    /// There is something to tell.
    fn wake(&self, waiting: MutexGuard<'_, Waiting>) {
        let sleeps = waiting.sleeps;
        drop(waiting);
        if sleeps {
            self.changed.notify_all();
        }
    }

    fn tell_not_held(&self, word: &Word) {
        if let (Word::Held(node), Some(not_held)) = (word, self.not_held.get()) {
            not_held(*node);
        }
    }

    fn stop(&self) {
        let mut waiting = self.lock();
        waiting.end = true;
        waiting.words.clear();
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
                waiting.words.insert(Word::Node(*node));
            }
            Invalidation::Entry { parent, name } => {
                waiting.words.insert(Word::Entry(*parent, name.clone()));
                // Also the cached listing and the attributes, which the kernel drops with an entry only if it has that.
                waiting.words.insert(Word::Node(*parent));
            }
        }
        self.wake(waiting);
    }

    fn still_holds(&self, node: Node) {
        let mut waiting = self.lock();
        if !waiting.end {
            waiting.words.insert(Word::Held(node));
            self.wake(waiting);
        }
    }
}

/// `fuse_out_header`, whose error field holds the code of the notification, and what that takes.
fn message(word: &Word) -> Vec<u8> {
    let (code, body) = match word {
        // Node, offset and length; 0 and 0 mean attributes and all pages.
        Word::Node(node) => (INVAL_INODE, [node.to_ne_bytes(), [0; 8], [0; 8]].concat()),
        // No page is behind a negative offset.
        Word::Held(node) => {
            (INVAL_INODE, [node.to_ne_bytes(), (-1_i64).to_ne_bytes(), [0; 8]].concat())
        }
        Word::Entry(parent, name) => {
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
    fn what_already_waits_is_not_told_twice() {
        let queue = Queue::default();
        for _ in 0..1000 {
            queue.invalidate(&Invalidation::Node(5));
            queue.invalidate(&Invalidation::Entry { parent: 1, name: b"a".to_vec() });
        }
        let words: Vec<_> = (0..3).map(|_| queue.next(|| ()).unwrap()).collect();
        assert_eq!(words, [Word::Node(1), Word::Node(5), Word::Entry(1, b"a".to_vec())]);
        queue.stop();
        queue.invalidate(&Invalidation::Node(6));
        assert_eq!(queue.next(|| ()), None);
    }

    #[test]
    fn a_question_is_not_kept_waiting() {
        let queue = Queue::default();
        queue.invalidate(&Invalidation::Node(5));
        queue.still_holds(7);
        assert_eq!(queue.next(|| ()), Some(Word::Held(7)));
        assert_eq!(queue.next(|| ()), Some(Word::Node(5)));
    }

    #[test]
    fn messages_have_the_protocols_layout() {
        let node = message(&Word::Node(9));
        assert_eq!(node.len(), 40);
        assert_eq!(node[0..4], 40_u32.to_ne_bytes());
        assert_eq!(node[4..8], INVAL_INODE.to_ne_bytes());
        assert_eq!(node[16..24], 9_u64.to_ne_bytes());
        let held = message(&Word::Held(9));
        assert_eq!((held.len(), &held[24..32]), (40, &[255; 8][..]));
        let entry = message(&Word::Entry(1, b"ab".to_vec()));
        assert_eq!(entry.len(), 16 + 16 + 3);
        assert_eq!(entry[24..28], 2_u32.to_ne_bytes());
        assert_eq!(&entry[32..], b"ab\0");
    }
}
