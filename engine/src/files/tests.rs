//! Names behave as ext4's, survive a kill, and leave nothing behind.
#![allow(clippy::unwrap_used)]

mod statements;

use super::*;
use crate::{
    api::{
        Caller, Changes, LINK_MAX, NAME_MAX, NewFile, ROOT, RenameMode, SetTime, SetXattr,
        XATTR_MAX,
    },
    catalog::{Store, memory_store::MemoryStore},
    sync::lock::Mutex,
    testing::{Numbers, TestWorld, block_on},
};
use futures::future::{Either, select};
use rusqlite::params;
use std::{pin::pin, time::Duration};

/// A data path that needs two jobs to release a file, and counts.
#[derive(Default)]
struct Counting {
    asked: Mutex<BTreeMap<Node, u32>>,
    released: Arc<AtomicU64>,
}

impl Releasing for Counting {
    fn release(
        &self,
        _connection: &Connection,
        node: Node,
        _file: Option<Arc<File>>,
    ) -> Result<Released> {
        let mut asked = self.asked.lock();
        let count = asked.entry(node).or_default();
        *count += 1;
        let (done, released) = (*count >= 2, Arc::clone(&self.released));
        let then = move |_| {
            released.fetch_add(u64::from(done), Ordering::SeqCst);
        };
        Ok(Released { done, then: Box::new(then) })
    }

    fn is_idle(&self, _file: &File) -> bool {
        true
    }
}

#[derive(Default)]
struct Listening(Mutex<Vec<Invalidation>>);

impl Watcher for Listening {
    fn invalidate(&self, what: &Invalidation) {
        self.0.lock().push(what.clone());
    }
}

struct Fixture {
    world: Arc<TestWorld>,
    store: Arc<MemoryStore>,
    catalog: Arc<Catalog>,
    files: Arc<Files>,
    released: Arc<AtomicU64>,
    origin: Origin,
}

const ME: Caller = Caller { uid: 10, gid: 20 };

impl Fixture {
    fn new() -> Self {
        let world = TestWorld::new();
        let store = MemoryStore::new(2, 4 << 20, 4 << 20, Some(3));
        let dynamic: Arc<dyn World> = Arc::clone(&world) as Arc<dyn World>;
        let catalog =
            block_on(Catalog::create(&dynamic, Arc::clone(&store) as Arc<dyn Store>)).unwrap();
        block_on(make_root(&catalog, world.now())).unwrap();
        Self::on(world, store, catalog)
    }

    fn on(world: Arc<TestWorld>, store: Arc<MemoryStore>, catalog: Arc<Catalog>) -> Self {
        let data = Counting::default();
        let released = Arc::clone(&data.released);
        let dynamic: Arc<dyn World> = Arc::clone(&world) as Arc<dyn World>;
        let sizes =
            Arc::new(sizes::Sizes::open(&*dynamic, plinth_format::GroupId([1; 16])).unwrap());
        let files =
            block_on(Files::open(dynamic, Arc::clone(&catalog), Arc::new(data), sizes)).unwrap();
        let origin = files.attach(None);
        Self { world, store, catalog, files, released, origin }
    }

    /// The engine is killed, and another one opens the catalog.
    fn kill(self) -> Self {
        let store = self.store.reconnect();
        let dynamic: Arc<dyn World> = Arc::clone(&self.world) as Arc<dyn World>;
        let (catalog, _) =
            block_on(Catalog::open(&dynamic, Arc::clone(&store) as Arc<dyn Store>, false)).unwrap();
        Self::on(self.world, store, catalog)
    }

    fn make(&self, parent: Node, name: &str, new: NewFile, mode: u32) -> Result<Attributes> {
        block_on(self.files.create(self.origin, parent, name.as_bytes(), new, mode, ME))
    }

    fn file(&self, parent: Node, name: &str) -> Node {
        self.make(parent, name, NewFile::Regular, 0o644).unwrap().node
    }

    fn directory(&self, parent: Node, name: &str) -> Node {
        self.make(parent, name, NewFile::Directory, 0o755).unwrap().node
    }

    fn stat(&self, node: Node) -> Attributes {
        block_on(self.files.attributes(node)).unwrap()
    }

    fn look(&self, parent: Node, name: &str) -> Result<Node> {
        block_on(self.files.lookup(parent, name.as_bytes())).map(|found| found.node)
    }

    fn rename(&self, from: (Node, &str), to: (Node, &str), mode: RenameMode) -> Result<()> {
        let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
        block_on(self.files.rename(self.origin, from, to, mode))
    }

    fn unlink(&self, parent: Node, name: &str) -> Result<()> {
        block_on(self.files.unlink(self.origin, parent, name.as_bytes()))
    }

    fn rmdir(&self, parent: Node, name: &str) -> Result<()> {
        block_on(self.files.remove_directory(self.origin, parent, name.as_bytes()))
    }

    fn names(&self, node: Node) -> Vec<String> {
        let entries = block_on(self.files.read_directory(node, 0, 1000)).unwrap();
        entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect()
    }

    fn pause(&self) {
        block_on(self.world.sleep(Duration::from_millis(2)));
    }

    /// Every link count matches the entries; no entry without a file.
    fn check(&self) {
        let wrong = block_on(self.catalog.read(|connection| {
            let sql = "SELECT number FROM file AS f WHERE links != CASE kind
                    WHEN 16384 THEN CASE WHEN number = 1 OR EXISTS (SELECT 1 FROM entry WHERE node = f.number)
                        THEN 2 + (SELECT count(*) FROM entry WHERE parent = f.number AND kind = 16384) ELSE 0 END
                    ELSE (SELECT count(*) FROM entry WHERE node = f.number) END
                UNION ALL SELECT node FROM entry WHERE node NOT IN (SELECT number FROM file)
                UNION ALL SELECT parent FROM entry WHERE parent NOT IN (SELECT number FROM file)";
            let mut select = connection.prepare(sql)?;
            let nodes = select.query_map([], |row| row.get::<_, i64>(0))?;
            Ok(nodes.collect::<rusqlite::Result<Vec<i64>>>()?)
        }));
        assert_eq!(wrong.unwrap(), Vec::<i64>::new());
        for file in self.files.all() {
            let node = file.node;
            let row = block_on(
                self.catalog.read(move |connection| Ok(tables::file::load(connection, node)?)),
            )
            .unwrap();
            let mut row = row.unwrap_or_else(|| panic!("file {node} is in memory, but has no row"));
            let memory = file.attributes().clone();
            (row.accessed, row.modified) = (memory.accessed, memory.modified);
            row.changed = memory.changed;
            assert_eq!(row, memory);
        }
    }
}

macro_rules! refused {
    ($result:expr, $error:pat) => {
        let result = $result;
        assert!(matches!(result, Err($error)), "{result:?}");
    };
}

mod takeover;

#[test]
fn files_are_made_found_and_removed() {
    let f = Fixture::new();
    let directory = f.directory(ROOT, "dir");
    let node = f.file(directory, "a");
    assert_eq!(f.look(directory, "a").unwrap(), node);
    assert_eq!((f.stat(ROOT).links, f.stat(directory).links, f.stat(node).links), (3, 2, 1));
    assert_eq!((f.stat(node).uid, f.stat(node).gid, f.stat(node).mode), (10, 20, 0o644));
    refused!(f.make(directory, "a", NewFile::Regular, 0), FileError::Exists);
    refused!(f.make(node, "x", NewFile::Regular, 0), FileError::NotADirectory);
    refused!(f.make(9999, "x", NewFile::Regular, 0), FileError::Stale(9999));
    refused!(
        f.make(directory, &"x".repeat(NAME_MAX + 1), NewFile::Regular, 0),
        FileError::NameTooLong
    );
    refused!(f.make(directory, "a/b", NewFile::Regular, 0), FileError::Invalid(_));
    refused!(f.look(node, "x"), FileError::NotADirectory);
    refused!(f.look(directory, "b"), FileError::NotFound);
    refused!(f.unlink(ROOT, "dir"), FileError::IsADirectory);
    refused!(f.rmdir(directory, "a"), FileError::NotADirectory);
    refused!(f.rmdir(ROOT, "dir"), FileError::NotEmpty);
    refused!(f.unlink(directory, "b"), FileError::NotFound);
    assert_eq!(block_on(f.files.parent(directory)).unwrap(), ROOT);
    f.unlink(directory, "a").unwrap();
    refused!(f.look(directory, "a"), FileError::NotFound);
    assert_eq!(f.released.load(Ordering::SeqCst), 1);
    f.rmdir(ROOT, "dir").unwrap();
    assert_eq!(f.stat(ROOT).links, 2);
    refused!(block_on(f.files.attributes(directory)), FileError::Stale(_));
    f.check();
}

#[test]
fn times_of_parents_and_files_move_as_they_should() {
    let f = Fixture::new();
    let node = f.file(ROOT, "a");
    let changed = |then: &Attributes, now: &Attributes| {
        (now.modified > then.modified, now.changed > then.changed)
    };
    let mut root = f.stat(ROOT);
    let mut file = f.stat(node);
    let mut expect = |what: &dyn Fn(), root_changes: (bool, bool), file_changes: (bool, bool)| {
        f.pause();
        what();
        let (root_now, file_now) = (f.stat(ROOT), f.stat(node));
        assert_eq!(changed(&root, &root_now), root_changes);
        assert_eq!(changed(&file, &file_now), file_changes);
        (root, file) = (root_now, file_now);
    };
    let link = || {
        block_on(f.files.link(f.origin, node, ROOT, b"b")).unwrap();
    };
    expect(&link, (true, true), (false, true));
    expect(
        &|| f.rename((ROOT, "b"), (ROOT, "c"), RenameMode::Replace).unwrap(),
        (true, true),
        (false, true),
    );
    expect(
        &|| f.rename((ROOT, "c"), (ROOT, "a"), RenameMode::Replace).unwrap(),
        (false, false),
        (false, false),
    );
    expect(&|| f.unlink(ROOT, "c").unwrap(), (true, true), (false, true));
    let chmod = Changes { mode: Some(0o600), ..Changes::default() };
    let change = || {
        block_on(f.files.change(f.origin, node, &chmod)).unwrap();
    };
    expect(&change, (false, false), (false, true));
    block_on(f.files.get(node)).unwrap().touch(f.world.now());
    assert!(f.stat(node).modified > file.modified);
    block_on(f.files.store_times(&f.catalog)).unwrap();
    let times = f.stat(node);
    let f = f.kill();
    assert_eq!(f.stat(node), times);
}

#[test]
fn set_group_id_directories_and_set_id_bits_behave_as_on_ext4() {
    let f = Fixture::new();
    let shared = f.directory(ROOT, "shared");
    let change =
        |node, changes: Changes| block_on(f.files.change(f.origin, node, &changes)).unwrap();
    change(shared, Changes { mode: Some(0o2770), gid: Some(99), ..Changes::default() });
    assert_eq!(f.stat(shared).mode, 0o2770, "a mode that is asked for with an owner counts");
    let file = f.stat(f.file(shared, "a"));
    assert_eq!((file.gid, file.mode), (99, 0o644));
    let below = f.stat(f.directory(shared, "below"));
    assert_eq!((below.gid, below.mode), (99, 0o2755));
    let program = f.make(ROOT, "program", NewFile::Regular, 0o6755).unwrap();
    assert_eq!(program.mode, 0o6755);
    assert_eq!(change(program.node, Changes { uid: Some(5), ..Changes::default() }).mode, 0o755);
    change(program.node, Changes { mode: Some(0o6745), ..Changes::default() });
    let killed = change(program.node, Changes { kill_set_id: true, ..Changes::default() });
    assert_eq!(killed.mode, 0o2745, "without group execute, set-group-id means locking");
    let at = Changes {
        accessed: Some(SetTime::At(-5)),
        modified: Some(SetTime::At(7)),
        ..Changes::default()
    };
    let times = change(program.node, at);
    assert_eq!((times.accessed, times.modified), (-5, 7));
    f.check();
}

#[test]
fn rename_behaves_as_posix_in_every_case() {
    let f = Fixture::new();
    let (d1, d2) = (f.directory(ROOT, "d1"), f.directory(ROOT, "d2"));
    let (a, b) = (f.file(d1, "a"), f.file(d2, "b"));
    use RenameMode::{Exchange, NoReplace, Replace};

    refused!(f.rename((d1, "none"), (d2, "x"), Replace), FileError::NotFound);
    refused!(f.rename((d1, "a"), (d2, "b"), NoReplace), FileError::Exists);
    refused!(f.rename((d1, "a"), (d2, "none"), Exchange), FileError::NotFound);
    refused!(f.rename((d1, "a"), (a, "x"), Replace), FileError::NotADirectory);
    f.rename((d1, "a"), (d2, "a"), NoReplace).unwrap();
    assert_eq!((f.look(d2, "a").unwrap(), f.names(d1).len()), (a, 0));
    refused!(f.look(d1, "a"), FileError::NotFound);
    f.rename((d2, "a"), (d2, "b"), Replace).unwrap();
    assert_eq!((f.look(d2, "b").unwrap(), f.names(d2)), (a, vec!["b".to_owned()]));
    refused!(block_on(f.files.attributes(b)), FileError::Stale(_));
    f.check();

    // Two names of one file: nothing happens.
    block_on(f.files.link(f.origin, a, d1, b"a2")).unwrap();
    f.rename((d1, "a2"), (d2, "b"), Replace).unwrap();
    assert_eq!((f.look(d1, "a2").unwrap(), f.look(d2, "b").unwrap(), f.stat(a).links), (a, a, 2));
    f.rename((d1, "a2"), (d2, "b"), Exchange).unwrap();
    f.check();

    // Directories: into others, over others, never into themselves.
    let inner = f.directory(d1, "inner");
    let deep = f.directory(inner, "deep");
    refused!(f.rename((ROOT, "d1"), (deep, "x"), Replace), FileError::Invalid(_));
    refused!(f.rename((d1, "inner"), (inner, "x"), Replace), FileError::Invalid(_));
    refused!(f.rename((inner, "deep"), (ROOT, "d1"), Replace), FileError::NotEmpty);
    refused!(f.rename((inner, "deep"), (ROOT, "d1"), Exchange), FileError::Invalid(_));
    refused!(f.rename((d1, "a2"), (ROOT, "d2"), Replace), FileError::IsADirectory);
    refused!(f.rename((d1, "a2"), (ROOT, "d1"), Replace), FileError::NotEmpty);
    refused!(f.rename((d1, "inner"), (d2, "b"), Replace), FileError::NotADirectory);
    f.rename((d1, "inner"), (d2, "inner"), Replace).unwrap();
    assert_eq!((f.stat(d1).links, f.stat(d2).links), (2, 3));
    assert_eq!(block_on(f.files.parent(inner)).unwrap(), d2);
    let empty = f.directory(d1, "empty");
    refused!(f.rename((d1, "empty"), (d2, "inner"), Replace), FileError::NotEmpty);
    f.rename((d2, "inner"), (d1, "empty"), Replace).unwrap();
    refused!(block_on(f.files.attributes(empty)), FileError::Stale(_));
    assert_eq!((f.look(d1, "empty").unwrap(), f.stat(d1).links, f.stat(d2).links), (inner, 3, 2));
    f.check();

    // A file and a directory change places.
    f.rename((d1, "empty"), (d2, "b"), Exchange).unwrap();
    assert_eq!((f.look(d1, "empty").unwrap(), f.look(d2, "b").unwrap()), (a, inner));
    assert_eq!((f.stat(d1).links, f.stat(d2).links), (2, 3));
    f.check();
    let f = f.kill();
    assert_eq!((f.look(d1, "empty").unwrap(), f.look(d2, "b").unwrap()), (a, inner));
    f.check();
}

#[test]
fn an_unlinked_file_stays_while_it_is_remembered() {
    let f = Fixture::new();
    let node = f.file(ROOT, "a");
    f.files.remember(node, 2);
    f.unlink(ROOT, "a").unwrap();
    assert_eq!(f.stat(node).links, 0);
    refused!(block_on(f.files.link(f.origin, node, ROOT, b"b")), FileError::NotFound);
    block_on(f.files.forget(node, 1));
    assert_eq!(f.stat(node).links, 0);
    block_on(f.files.forget(node, 1));
    refused!(block_on(f.files.attributes(node)), FileError::Stale(_));
    assert_eq!(f.released.load(Ordering::SeqCst), 1);

    let directory = f.directory(ROOT, "d");
    f.files.remember(directory, 1);
    f.rmdir(ROOT, "d").unwrap();
    refused!(f.make(directory, "x", NewFile::Regular, 0), FileError::NotFound);

    // The engine dies while files are held: they stay, until it is known that they are not held.
    let held = f.file(ROOT, "held");
    f.files.remember(held, 1);
    f.unlink(ROOT, "held").unwrap();
    let f = f.kill();
    assert_eq!(f.stat(held).links, 0);
    f.files.remember(held, 1);
    assert_eq!(block_on(f.files.reap_orphans()).unwrap(), 2);
    assert_eq!(f.stat(held).links, 0, "somebody holds it again");
    block_on(f.files.forget(held, 1));
    refused!(block_on(f.files.attributes(held)), FileError::Stale(_));
    refused!(block_on(f.files.attributes(directory)), FileError::Stale(_));
    f.check();
}

/// A damaged index lists an orphan that has no row. The commit that was to release it changes
/// nothing, and is one all the same: a lookup waits for it, and goes on without any other commit.
#[test]
fn an_orphan_without_a_row_is_released_at_once() {
    let f = Fixture::new();
    let node = f.file(ROOT, "a");
    let kept = f.file(ROOT, "b");
    f.files.remember(node, 1);
    f.unlink(ROOT, "a").unwrap();
    let f = f.kill();
    // The orphans that `Files::open` read by the index stay.
    let without_index = move |connection: &Connection| {
        Ok(connection.execute("DELETE FROM file WHERE number = ?1", [node.cast_signed()])?)
    };
    assert_eq!(block_on(f.catalog.write(true, without_index)).unwrap().0, 1);
    assert_eq!(block_on(f.files.reap_orphans()).unwrap(), 1);
    let (look, late) = (f.files.lookup(ROOT, b"b"), f.world.sleep(Duration::from_secs(10)));
    match block_on(select(pin!(look), late)) {
        Either::Left((found, _)) => assert_eq!(found.unwrap().node, kept),
        Either::Right(_) => panic!("it waits for a commit that never was"),
    }
    f.check();
}

#[test]
fn links_symlinks_and_special_files() {
    let f = Fixture::new();
    let node = f.file(ROOT, "a");
    let directory = f.directory(ROOT, "d");
    refused!(block_on(f.files.link(f.origin, directory, ROOT, b"e")), FileError::NotPermitted);
    refused!(block_on(f.files.link(f.origin, node, ROOT, b"a")), FileError::Exists);
    assert_eq!(block_on(f.files.link(f.origin, node, directory, b"b")).unwrap().links, 2);
    f.unlink(ROOT, "a").unwrap();
    assert_eq!((f.stat(node).links, f.look(directory, "b").unwrap()), (1, node));
    let full = move |connection: &Connection| {
        connection.execute(
            "UPDATE file SET links = ?1 WHERE number = ?2",
            params![LINK_MAX, node.cast_signed()],
        )?;
        Ok(())
    };
    block_on(f.catalog.write(false, full)).unwrap();
    block_on(f.files.get(node)).unwrap().attributes().links = LINK_MAX;
    refused!(block_on(f.files.link(f.origin, node, ROOT, b"c")), FileError::TooManyLinks);

    let target = b"/some/where".to_vec();
    let link = f.make(ROOT, "s", NewFile::Symlink { target: target.clone() }, 0).unwrap();
    assert_eq!((link.mode, link.size), (0o777, 11));
    assert_eq!(block_on(f.files.read_link(link.node)).unwrap(), target);
    refused!(block_on(f.files.read_link(node)), FileError::Invalid(_));
    refused!(
        f.make(ROOT, "t", NewFile::Symlink { target: vec![b'x'; 4096] }, 0),
        FileError::NameTooLong
    );
    refused!(f.make(ROOT, "t", NewFile::Symlink { target: vec![] }, 0), FileError::NotFound);
    for (name, kind) in
        [("p", Kind::Fifo), ("c", Kind::CharDevice), ("b", Kind::BlockDevice), ("k", Kind::Socket)]
    {
        let made = f.make(ROOT, name, NewFile::Special { kind, rdev: 0x103 }, 0o600).unwrap();
        assert_eq!((made.kind, made.rdev), (kind, 0x103));
    }
}

#[test]
fn a_directory_is_read_in_order_while_it_changes() {
    let f = Fixture::new();
    let directory = f.directory(ROOT, "d");
    for number in 0..100 {
        f.file(directory, &format!("{number}"));
    }
    let first = block_on(f.files.read_directory(directory, 0, 50)).unwrap();
    assert!(first.iter().all(|entry| entry.cookie != 0));
    for number in (0..100).step_by(3) {
        f.unlink(directory, &format!("{number}")).unwrap();
    }
    f.file(directory, "late");
    let mut seen: BTreeSet<Vec<u8>> = first.iter().map(|entry| entry.name.clone()).collect();
    let mut cookie = first.last().unwrap().cookie;
    loop {
        let more = block_on(f.files.read_directory(directory, cookie, 7)).unwrap();
        let Some(last) = more.last() else { break };
        cookie = last.cookie;
        for entry in more {
            assert!(seen.insert(entry.name), "nothing is shown twice");
        }
    }
    for number in (0..100).filter(|number| number % 3 != 0) {
        assert!(
            seen.contains(format!("{number}").as_bytes()),
            "what was there all the time is shown"
        );
    }
    refused!(block_on(f.files.read_directory(f.file(ROOT, "x"), 0, 1)), FileError::NotADirectory);
}

#[test]
fn extended_attributes() {
    let f = Fixture::new();
    let node = f.file(ROOT, "a");
    let set = |name: &[u8], value: &[u8], mode| {
        block_on(f.files.set_xattr(f.origin, node, name, value, mode))
    };
    let get = |name: &[u8]| block_on(f.files.xattr(node, name));
    refused!(get(b"user.a"), FileError::NoAttribute);
    refused!(set(b"user.a", b"1", SetXattr::Replace), FileError::NoAttribute);
    set(b"user.a", b"1", SetXattr::Create).unwrap();
    refused!(set(b"user.a", b"2", SetXattr::Create), FileError::Exists);
    set(b"user.a", b"2", SetXattr::Any).unwrap();
    set(b"security.capability", b"caps", SetXattr::Any).unwrap();
    set(b"user.large", &vec![7; XATTR_MAX], SetXattr::Any).unwrap();
    refused!(set(b"user.larger", &vec![7; XATTR_MAX + 1], SetXattr::Any), FileError::Range);
    refused!(set(b"system.posix_acl_access", b"x", SetXattr::Any), FileError::NotSupported);
    block_on(f.files.change(f.origin, node, &Changes { uid: Some(1), ..Changes::default() }))
        .unwrap();
    refused!(get(b"security.capability"), FileError::NoAttribute);
    block_on(f.files.remove_xattr(f.origin, node, b"user.large")).unwrap();
    refused!(block_on(f.files.remove_xattr(f.origin, node, b"user.large")), FileError::NoAttribute);
    let f = f.kill();
    assert_eq!(block_on(f.files.xattrs(node)).unwrap(), vec![b"user.a".to_vec()]);
    assert_eq!(block_on(f.files.xattr(node, b"user.a")).unwrap(), b"2");
}

#[test]
fn other_front_ends_are_notified_of_changes() {
    let f = Fixture::new();
    let listening = Arc::new(Listening::default());
    let other = f.files.attach(Some(Arc::clone(&listening) as Arc<dyn Watcher>));
    let node = f.file(ROOT, "a");
    f.unlink(ROOT, "a").unwrap();
    let entry = Invalidation::Entry { parent: ROOT, name: b"a".to_vec() };
    assert_eq!(*listening.0.lock(), vec![entry.clone(), entry, Invalidation::Node(node)]);
    listening.0.lock().clear();
    block_on(f.files.create(other, ROOT, b"b", NewFile::Regular, 0, ME)).unwrap();
    assert!(listening.0.lock().is_empty(), "who made the change knows");
    f.files.detach(other);
    f.file(ROOT, "c");
    assert!(listening.0.lock().is_empty());
}

/// Repeated `stat` and `open` calls cost no query.
#[test]
fn hot_names_are_answered_from_memory() {
    let f = Fixture::new().kill();
    f.file(ROOT, "a");
    let _ = f.look(ROOT, "missing");
    block_on(f.catalog.close()).unwrap();
    for _ in 0..3 {
        assert!(f.look(ROOT, "a").is_ok());
        refused!(f.look(ROOT, "missing"), FileError::NotFound);
    }
}

/// Threads rename, make and remove in a few directories while others look: the caches agree with
/// the catalog, in the end and after a kill.
#[test]
fn caches_and_catalog_agree_under_load() {
    let f = Fixture::new();
    let directories: Vec<Node> =
        (0..3).map(|number| f.directory(ROOT, &format!("d{number}"))).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (f, directories) = (&f, &directories);
            scope.spawn(move || {
                let mut numbers = Numbers::new(seed);
                let mut pick = |limit: usize| usize::try_from(numbers.below(limit as u64)).unwrap();
                for _ in 0..200 {
                    let (from, to) = (directories[pick(3)], directories[pick(3)]);
                    let (one, other) = (format!("n{}", pick(8)), format!("n{}", pick(8)));
                    match pick(6) {
                        0 => drop(f.make(from, &one, NewFile::Regular, 0o644)),
                        1 => drop(f.unlink(from, &one)),
                        2 => drop(f.rename((from, &one), (to, &other), RenameMode::Replace)),
                        3 => drop(f.rename((from, &one), (to, &other), RenameMode::Exchange)),
                        4 => drop(f.make(from, &one, NewFile::Directory, 0o755)),
                        _ => drop(f.look(from, &one)),
                    }
                }
            });
        }
    });
    f.check();
    let seen = |f: &Fixture| {
        let mut seen = Vec::new();
        for directory in &directories {
            for number in 0..8 {
                seen.push(f.look(*directory, &format!("n{number}")).ok());
            }
            seen.push(Some(f.names(*directory).len() as u64));
        }
        seen
    };
    let before = seen(&f);
    let f = f.kill();
    assert_eq!(seen(&f), before);
    f.check();
}
