//! An engine takes mounts over: what was done is not done again, and what the kernel may hold
//! stays.

use super::*;
use crate::{
    api::ConnectionId,
    files::reply_cache::{Asked, DoneBefore, OpenRequest},
    sync::lock::Mutex,
};

const ONE: ConnectionId = ConnectionId(1 << 63 | 5);
const OTHER: ConnectionId = ConnectionId(7);

/// A front end that notes the questions it gets.
#[derive(Default)]
struct Kernel(Mutex<Vec<Node>>);

impl Kernel {
    fn was_asked(&self) -> Vec<Node> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Watcher for Kernel {
    fn invalidate(&self, _: &Invalidation) {}
    fn still_holds(&self, node: Node) {
        self.0.lock().push(node);
    }
}

impl Fixture {
    fn attached(&self, connection: ConnectionId) -> Arc<Kernel> {
        let kernel = Arc::new(Kernel::default());
        let _ = self.files.attach_mount(Arc::clone(&kernel) as Arc<dyn Watcher>, connection);
        kernel
    }

    fn begin(&self, connection: ConnectionId, number: u64) -> OpenRequest {
        self.files.begin(connection, number, false).unwrap()
    }

    /// The effect that a request that is sent again had in an engine before this one.
    fn before(&self, connection: ConnectionId, number: u64) -> Option<DoneBefore> {
        self.files.begin(connection, number, true).unwrap().done_before()
    }

    fn asked(&self, request: &OpenRequest) -> Asked {
        Asked { origin: self.origin, row: Some(request.row()) }
    }

    fn create_for(&self, request: &OpenRequest, name: &str) -> Result<Node> {
        let asked = self.asked(request);
        let made =
            block_on(self.files.create(asked, ROOT, name.as_bytes(), NewFile::Regular, 0o600, ME));
        made.map(|made| made.node)
    }

    /// The engine is killed, and the next one takes these mounts over.
    fn taken_over(self, connections: &[ConnectionId]) -> Self {
        let f = self.kill();
        block_on(f.files.resume(connections)).unwrap();
        block_on(f.files.reap_orphans()).unwrap();
        f
    }

    fn rows(&self) -> i64 {
        block_on(self.catalog.read(|sqlite| {
            Ok(sqlite.query_row("SELECT count(*) FROM reply", [], |row| row.get(0))?)
        }))
        .unwrap()
    }

    fn exists(&self, node: Node) -> bool {
        let sql = "SELECT count(*) FROM file WHERE number = ?1";
        let count = move |sqlite: &Connection| {
            Ok(sqlite.query_row(sql, [node.cast_signed()], |row| row.get::<_, i64>(0))?)
        };
        block_on(self.catalog.read(count)).unwrap() == 1
    }

    /// Tasks release files; fails after a time that shows a fault.
    fn wait_until_gone(&self, node: Node) {
        for _ in 0..30_000 {
            if !self.exists(node) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("file {node} is not released");
    }
}

/// An engine dies after it has done each kind of thing that cannot be done twice, and before it has
/// answered.
#[test]
fn the_next_engine_knows_the_requests_carried_out_before() {
    let f = Fixture::new();
    let _kernel = f.attached(ONE);
    let (a, b, c) = (f.file(ROOT, "a"), f.file(ROOT, "b"), f.file(ROOT, "c"));
    f.directory(ROOT, "d");
    block_on(f.files.set_xattr(f.origin, c, b"user.old", b"", SetXattr::Any)).unwrap();
    let requests: Vec<OpenRequest> = (1..=8).map(|number| f.begin(ONE, number)).collect();
    let by = |number: usize| f.asked(&requests[number - 1]);
    let made = f.create_for(&requests[0], "made").unwrap();
    block_on(f.files.link(by(2), a, ROOT, b"a2")).unwrap();
    block_on(f.files.unlink(by(3), ROOT, b"a")).unwrap();
    block_on(f.files.remove_directory(by(4), ROOT, b"d")).unwrap();
    block_on(f.files.rename(by(5), (ROOT, b"b"), (ROOT, b"b2"), RenameMode::NoReplace)).unwrap();
    block_on(f.files.set_xattr(by(6), c, b"user.new", b"1", SetXattr::Create)).unwrap();
    block_on(f.files.remove_xattr(by(7), c, b"user.old")).unwrap();
    // The last one fails: nothing of that is kept.
    refused!(f.create_for(&requests[7], "c"), FileError::Exists);
    assert_eq!(f.rows(), 7);

    let f = f.taken_over(&[ONE]);
    for (number, node) in
        [(1, Some(made)), (2, Some(a)), (3, None), (4, None), (5, None), (6, None), (7, None)]
    {
        assert_eq!(f.before(ONE, number), Some(DoneBefore { node }), "request {number}");
        // It was answered.
        assert_eq!(f.before(ONE, number), None, "request {number}");
    }
    assert_eq!((f.before(ONE, 8), f.before(ONE, 9)), (None, None));
    assert_eq!(f.look(ROOT, "b2").unwrap(), b);
    f.check();
}

/// Numbers of requests begin anew with each mount.
#[test]
fn requests_of_two_mounts_are_not_confused() {
    let f = Fixture::new();
    let _kernels = (f.attached(ONE), f.attached(OTHER));
    let (one, other) = (f.begin(ONE, 1), f.begin(OTHER, 1));
    let made = f.create_for(&one, "one").unwrap();
    refused!(f.create_for(&other, "one"), FileError::Exists);
    let f = f.taken_over(&[ONE, OTHER]);
    assert_eq!(f.before(OTHER, 1), None);
    assert_eq!(f.before(ONE, 1), Some(DoneBefore { node: Some(made) }));
    // One of them is not there the next time, and another one is new.
    let f = f.taken_over(&[OTHER]);
    assert_eq!(f.rows(), 0, "what nobody can ask again is deleted");
    assert!(f.files.begin(ONE, 1, true).is_none());
    drop(other);
}

/// However many requests there are: rows are as many as were in progress at one time.
#[test]
fn rows_are_bounded_by_the_requests_in_progress() {
    let f = Fixture::new();
    let _kernel = f.attached(ONE);
    for number in 0..300 {
        f.create_for(&f.begin(ONE, number), &format!("{number}")).unwrap();
    }
    assert_eq!(f.rows(), 1);
    let under_way: Vec<_> = (300..340).map(|number| (number, f.begin(ONE, number))).collect();
    for (number, request) in &under_way {
        f.create_for(request, &format!("{number}")).unwrap();
    }
    assert_eq!(f.rows(), 40);
    let f = f.taken_over(&[ONE]);
    assert!(under_way.iter().all(|(number, _)| f.before(ONE, *number).is_some()));
    assert_eq!(f.before(ONE, 299), None, "it was answered, and written over");
    block_on(f.files.end_mount(ONE)).unwrap();
    assert_eq!(f.rows(), 0);
}

/// Engine after engine dies before it has answered what it inherited, while it does new things.
#[test]
fn inherited_rows_are_not_overwritten_before_they_are_answered() {
    let mut f = Fixture::new();
    let mut open = Vec::new();
    for life in 0..5_u64 {
        let _kernel = f.attached(ONE);
        for number in life * 10..life * 10 + 10 {
            let request = f.begin(ONE, number);
            let made = f.create_for(&request, &format!("{number}")).unwrap();
            open.push((number, made));
            // Never answered.
            std::mem::forget(request);
        }
        f = f.taken_over(&[ONE]);
    }
    assert_eq!(f.rows(), 50);
    for (number, made) in open {
        assert_eq!(
            f.before(ONE, number),
            Some(DoneBefore { node: Some(made) }),
            "request {number}"
        );
    }
}

/// Of rows that engines leave of answered requests, which are never sent again, the oldest go.
#[test]
fn rows_inherited_again_and_again_are_bounded() {
    let f = Fixture::new();
    let _kernel = f.attached(ONE);
    let held: Vec<_> = (0..1100).map(|number| f.begin(ONE, number)).collect();
    for (number, request) in held.iter().enumerate() {
        f.create_for(request, &format!("{number}")).unwrap();
    }
    let f = f.taken_over(&[ONE]);
    assert_eq!(f.rows(), 1024);
    assert_eq!(f.before(ONE, 75), None);
    assert!(f.before(ONE, 76).is_some() && f.before(ONE, 1099).is_some());
}

/// A file without a name that the kernel may hold outlives its engine, until the kernel answers
/// that it has it no more.
#[test]
fn unlinked_files_survive_while_the_kernel_has_them() {
    let f = Fixture::new();
    let _kernel = f.attached(ONE);
    let (held, gone, named) = (f.file(ROOT, "held"), f.file(ROOT, "gone"), f.file(ROOT, "named"));
    for (node, name) in [(held, "held"), (gone, "gone")] {
        f.files.remember(node, 1);
        f.unlink(ROOT, name).unwrap();
    }
    let f = f.taken_over(&[ONE]);
    assert!(f.exists(held) && f.exists(gone), "its front end does not serve yet");
    let kernel = f.attached(ONE);
    assert_eq!(kernel.was_asked(), [held, gone]);
    f.files.release_reference(ONE, gone);
    f.wait_until_gone(gone);
    // It gives back references that were not counted here, and is asked again.
    block_on(f.files.forget(held, 0));
    assert_eq!(kernel.was_asked(), [held]);
    assert!(f.exists(held));

    // A file that had a name at the take-over: its references are not counted.
    f.unlink(ROOT, "named").unwrap();
    assert_eq!(kernel.was_asked(), [named]);
    assert!(f.exists(named));
    f.files.remember(named, 1);
    f.files.release_reference(ONE, named);
    assert!(f.exists(named), "it was given to the kernel meanwhile");
    block_on(f.files.forget(named, 1));
    f.wait_until_gone(named);

    // One of this engine's time is counted.
    let new = f.file(ROOT, "new");
    f.unlink(ROOT, "new").unwrap();
    assert!(!f.exists(new) && kernel.was_asked().is_empty());

    // The mount goes, and what only it held.
    block_on(f.files.end_mount(ONE)).unwrap();
    assert!(!f.exists(held));
    f.check();
}

/// Two mounts are taken over: both have to give it up. One that is given up does not count.
#[test]
fn every_mount_that_is_taken_over_is_asked() {
    let f = Fixture::new();
    let _kernels = (f.attached(ONE), f.attached(OTHER));
    let (a, b) = (f.file(ROOT, "a"), f.file(ROOT, "b"));
    for (node, name) in [(a, "a"), (b, "b")] {
        f.files.remember(node, 1);
        f.unlink(ROOT, name).unwrap();
    }
    let f = f.taken_over(&[ONE, OTHER]);
    let one = f.attached(ONE);
    assert_eq!(one.was_asked(), [a, b]);
    f.files.release_reference(ONE, a);
    f.files.release_reference(ONE, b);
    assert!(f.exists(a) && f.exists(b), "the other mount was not asked yet");
    let other = f.attached(OTHER);
    assert_eq!(other.was_asked(), [a, b]);
    f.files.release_reference(OTHER, a);
    f.wait_until_gone(a);
    block_on(f.files.end_mount(OTHER)).unwrap();
    assert!(!f.exists(b));
    f.check();
}
