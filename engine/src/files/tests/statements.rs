//! What DBAs order of names: in any case, all of it or nothing, and what remains is whole.

use super::*;
use crate::{
    admin::{Code, NameOrder, Template},
    api::types::{FileType, TYPES},
    catalog::tables::rules,
    files::{aliases::StatementContext, statements::NewSystemFile},
};
use plinth_format::Redundancy;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn pairs(texts: &[(&str, &str)]) -> Vec<(String, String)> {
    texts.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

impl Fixture {
    fn place(&self, redundancy: Redundancy) -> StatementContext {
        StatementContext {
            origin: self.origin,
            group: "DATA".to_owned(),
            redundancy,
            failure_groups: 2,
            caller: ME,
        }
    }

    fn try_order(
        &self,
        redundancy: Redundancy,
        order: NameOrder,
    ) -> std::result::Result<(), (Code, String)> {
        let done = block_on(self.files.order(self.place(redundancy), order));
        done.map_err(|error| match error {
            FileError::Order(error) => (error.code, error.message),
            other => panic!("{other}"),
        })
    }

    fn order(&self, order: NameOrder) {
        self.try_order(Redundancy::Normal, order).unwrap();
    }

    fn refused(&self, order: NameOrder, code: Code) {
        let before = self.all_names();
        let (found, text) = self.try_order(Redundancy::Normal, order.clone()).unwrap_err();
        assert_eq!(found, code, "{order:?}: {text}");
        assert_eq!(self.all_names(), before, "{order:?} changed something");
    }

    fn system(&self, new: NewSystemFile) -> (Attributes, String) {
        block_on(self.files.create_system(self.place(Redundancy::Normal), new, b"", 0o640)).unwrap()
    }

    /// Every name, the system's with an asterisk.
    fn all_names(&self) -> Vec<String> {
        let sql = "WITH RECURSIVE a(path, node, system) AS (
                SELECT CAST(name AS TEXT), node, system FROM entry WHERE parent = 1
                UNION ALL SELECT path || '/' || CAST(e.name AS TEXT), e.node, e.system FROM a JOIN entry e ON e.parent = a.node)
            SELECT path || iif(system, '*', '') FROM a ORDER BY 1";
        let look = move |connection: &Connection| {
            let mut select = connection.prepare(sql)?;
            let rows = select.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<Vec<String>>>()?)
        };
        block_on(self.catalog.read(look)).unwrap()
    }

    fn type_of(&self, node: Node) -> Option<FileType> {
        self.stat(node).file_type
    }

    /// Checks the rules of names, and that memory and catalog agree.
    fn whole(&self) {
        let look = |connection: &Connection| {
            for (rule, sql) in rules::all(1 << 20) {
                assert_eq!(rules::find(connection, &sql)?, [], "{rule:?}");
            }
            Ok(())
        };
        block_on(self.catalog.read(look)).unwrap();
    }
}

/// Directories and aliases are made, renamed and dropped, in any case; what cannot be is refused,
/// and nothing of its statement is done.
#[test]
fn directories_and_aliases() {
    let fixture = Fixture::new();
    fixture.order(NameOrder::AddDirectories(strings(&["+DATA/Dir", "+data/dir/sub"])));
    let file = fixture.file(fixture.look(ROOT, "Dir").unwrap(), "users01.dbf");
    fixture.order(NameOrder::AddAliases(pairs(&[(
        "+DATA/DIR/SUB/Alias.dbf",
        "+data/dir/USERS01.dbf",
    )])));
    assert_eq!(fixture.all_names(), ["Dir", "Dir/sub", "Dir/sub/Alias.dbf", "Dir/users01.dbf"]);
    assert_eq!(fixture.stat(file).links, 2);
    for (order, code) in [
        (NameOrder::AddDirectories(strings(&["+DATA/new", "+DATA/dir"])), Code::NameExists),
        (NameOrder::AddDirectories(strings(&["+DATA/new", "+DATA/NEW"])), Code::NameExists),
        (NameOrder::AddDirectories(strings(&["+DATA/no/such"])), Code::NoSuchFile),
        (NameOrder::AddDirectories(strings(&["+FRA/x"])), Code::Invalid),
        (NameOrder::AddAliases(pairs(&[("+DATA/a", "+DATA/nothing")])), Code::NoSuchFile),
        (NameOrder::AddAliases(pairs(&[("+DATA/a.1.2", "+DATA/dir/users01.dbf")])), Code::Invalid),
        (NameOrder::AddAliases(pairs(&[("+DATA/a", "+DATA/dir")])), Code::Invalid),
        (
            NameOrder::AddAliases(pairs(&[("+DATA/dir/users01.DBF", "+DATA/dir/users01.dbf")])),
            Code::NameExists,
        ),
        (NameOrder::DropAliases(strings(&["+DATA/dir/sub"])), Code::Invalid),
        (NameOrder::DropDirectories(vec![("+DATA/dir".into(), false)]), Code::NotEmpty),
        (NameOrder::DropDirectories(vec![("+DATA/dir/users01.dbf".into(), true)]), Code::Invalid),
        (NameOrder::RenameDirectories(pairs(&[("+DATA/dir", "+DATA/dir/sub")])), Code::NameExists),
        (NameOrder::RenameAliases(pairs(&[("+DATA/dir", "+DATA/x")])), Code::Invalid),
        (NameOrder::DropFiles(strings(&["+DATA/dir"])), Code::Invalid),
        (NameOrder::DropFiles(strings(&["+DATA.999.1"])), Code::NoSuchFile),
    ] {
        fixture.refused(order, code);
    }
    let inside = fixture.try_order(
        Redundancy::Normal,
        NameOrder::RenameDirectories(pairs(&[("+DATA/dir", "+DATA/dir/sub/in")])),
    );
    assert!(matches!(inside, Err((Code::Invalid, _))), "{inside:?}");
    fixture.order(NameOrder::RenameDirectories(pairs(&[("+DATA/DIR", "+DATA/other")])));
    fixture.order(NameOrder::RenameDirectories(pairs(&[("+DATA/other", "+data/OTHER")])));
    assert!(fixture.look(ROOT, "OTHER").is_ok() && fixture.look(ROOT, "other").is_err());
    fixture.refused(
        NameOrder::RenameDirectories(pairs(&[("+DATA/other", "+data/OTHER")])),
        Code::NameExists,
    );
    fixture.order(NameOrder::RenameDirectories(pairs(&[("+DATA/OTHER", "+data/other")])));
    fixture.order(NameOrder::RenameAliases(pairs(&[(
        "+DATA/other/sub/ALIAS.dbf",
        "+DATA/t.sqlite-wal",
    )])));
    assert_eq!(fixture.all_names(), ["other", "other/sub", "other/users01.dbf", "t.sqlite-wal"]);
    assert_eq!(fixture.type_of(file), Some(FileType::Onlinelog), "its new name says so");
    fixture.order(NameOrder::DropAliases(strings(&["+DATA/other/users01.dbf"])));
    fixture.refused(NameOrder::DropAliases(strings(&["+DATA/t.sqlite-wal"])), Code::Invalid);
    fixture.whole();
    let fixture = fixture.kill();
    assert_eq!(fixture.all_names(), ["other", "other/sub", "t.sqlite-wal"]);
    fixture.order(NameOrder::DropDirectories(vec![("+DATA/other".into(), true)]));
    fixture.order(NameOrder::DropFiles(strings(&["+DATA/T.SQLITE-WAL"])));
    assert_eq!(fixture.all_names(), [""; 0]);
    assert_eq!(fixture.stat(ROOT).links, 2);
    assert_eq!(fixture.released.load(Ordering::SeqCst), 3);
    fixture.whole();
}

/// Names that differ in case only can be made through a mount: the exact one is meant, others are
/// ambiguous.
#[test]
fn an_exact_name_wins_and_an_ambiguous_one_is_refused() {
    let fixture = Fixture::new();
    let nodes = ["table", "TABLE"].map(|name| fixture.file(ROOT, name));
    fixture.order(NameOrder::AddAliases(pairs(&[("+DATA/a", "+DATA/TABLE")])));
    assert_eq!(nodes.map(|node| fixture.stat(node).links), [1, 2]);
    fixture.refused(NameOrder::DropFiles(strings(&["+DATA/Table"])), Code::Invalid);
    fixture.order(NameOrder::DropFiles(strings(&["+DATA/table"])));
    assert_eq!(fixture.all_names(), ["TABLE", "a"]);
}

/// A tree goes with FORCE; a file that has another name elsewhere stays there.
#[test]
fn a_directory_goes_with_all_that_is_in_it() {
    let fixture = Fixture::new();
    let top = fixture.directory(ROOT, "top");
    for name in 0..5 {
        let inner = fixture.directory(top, &format!("d{name}"));
        (0..5).for_each(|file| _ = fixture.file(inner, &format!("f{file}")));
    }
    let kept = fixture.look(fixture.look(top, "d3").unwrap(), "f3").unwrap();
    block_on(fixture.files.link(fixture.origin, kept, ROOT, b"kept")).unwrap();
    fixture.order(NameOrder::DropDirectories(vec![("+DATA/TOP".into(), true)]));
    assert_eq!(fixture.all_names(), ["kept"]);
    assert_eq!((fixture.stat(kept).links, fixture.stat(ROOT).links), (1, 2));
    assert!(fixture.look(ROOT, "top").is_err());
    fixture.whole();
}

/// A file gets a system name, in directories that come with the first file and go with the last; an
/// alias is one more name; SQL leaves the system's names alone; with the file all its names go.
#[test]
fn system_names() {
    let fixture = Fixture::new();
    let new = |alias: Option<&str>| NewSystemFile {
        alias: alias.map(str::to_owned),
        source: Some("/backup/users01.dbf".to_owned()),
        database: Some("orcl".to_owned()),
        ..NewSystemFile::default()
    };
    let (file, path) = fixture.system(new(None));
    assert_eq!(path, format!("+DATA/ORCL/DATAFILE/users01.{}.{}", file.node, file.generation));
    assert_eq!((file.file_type, file.links, file.generation & 1), (Some(FileType::Datafile), 1, 1));
    fixture.order(NameOrder::AddDirectories(strings(&["+DATA/my"])));
    let (other, _) = fixture.system(new(Some("+DATA/my/alias.ctl")));
    assert_eq!((other.links, fixture.type_of(other.node)), (2, Some(FileType::Datafile)));
    let names = fixture.all_names();
    assert_eq!(names[..2], ["ORCL*", "ORCL/DATAFILE*"]);
    assert_eq!(names.iter().filter(|name| name.ends_with('*')).count(), 4, "{names:?}");
    // A given type is not recognised anew.
    fixture
        .order(NameOrder::RenameAliases(pairs(&[("+DATA/my/alias.ctl", "+DATA/my/redo01.log")])));
    assert_eq!(fixture.type_of(other.node), Some(FileType::Datafile));
    for order in [
        NameOrder::DropDirectories(vec![("+DATA/orcl".into(), true)]),
        NameOrder::RenameDirectories(pairs(&[("+DATA/orcl/datafile", "+DATA/x")])),
        NameOrder::RenameAliases(pairs(&[(&path, "+DATA/x")])),
        NameOrder::DropAliases(vec![path.clone()]),
    ] {
        fixture.refused(order, Code::SystemName);
    }
    let fixture = fixture.kill();
    assert_eq!(fixture.type_of(other.node), Some(FileType::Datafile));
    fixture.order(NameOrder::DropFiles(vec![format!("+DATA.{}.{}", file.node, file.generation)]));
    fixture.order(NameOrder::DropFiles(strings(&["+DATA/my/REDO01.log"])));
    assert_eq!(fixture.all_names(), ["my"]);
    assert_eq!(fixture.stat(ROOT).links, 3);
    fixture.whole();
    let (_, path) = fixture
        .system(NewSystemFile { template: Some("archivelog".into()), ..NewSystemFile::default() });
    assert!(path.starts_with("+DATA/ASM/ARCHIVELOG/archivelog."), "{path}");
}

/// Templates: the system's are there and stay, others come and go; what the group cannot have is
/// refused.
#[test]
fn templates() {
    let fixture = Fixture::new();
    let system = |connection: &Connection| {
        let mut select =
            connection.prepare("SELECT name FROM template WHERE system = 1 ORDER BY number")?;
        Ok(select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?)
    };
    assert_eq!(
        block_on(fixture.catalog.read(system)).unwrap(),
        TYPES.map(|(_, word)| word),
        "one for each type"
    );
    let template = |name: &str, mirrors: Option<u8>| {
        vec![Template { name: name.to_owned(), mirrors, fine: None, preformatted: None }]
    };
    fixture.order(NameOrder::AddTemplates(template("FAST", Some(2))));
    fixture.order(NameOrder::ModifyTemplates(template("DATAFILE", None)));
    for (order, code) in [
        (NameOrder::AddTemplates(template("FAST", None)), Code::TemplateExists),
        (NameOrder::AddTemplates(template("DATAFILE", None)), Code::TemplateExists),
        (NameOrder::AddTemplates(template("A B", None)), Code::Invalid),
        (NameOrder::AddTemplates(template("BARE", Some(1))), Code::Invalid),
        (NameOrder::ModifyTemplates(template("NONE", None)), Code::NoSuchTemplate),
        (NameOrder::DropTemplates(strings(&["FAST", "DATAFILE"])), Code::SystemTemplate),
        (NameOrder::DropTemplates(strings(&["NONE"])), Code::NoSuchTemplate),
    ] {
        fixture.refused(order, code);
    }
    for (redundancy, mirrors) in [
        (Redundancy::External, 2),
        (Redundancy::External, 3),
        (Redundancy::High, 2),
        (Redundancy::High, 1),
    ] {
        let refused = fixture
            .try_order(redundancy, NameOrder::AddTemplates(template("T", Some(mirrors))))
            .unwrap_err();
        assert_eq!(refused.0, Code::Invalid, "{redundancy} {mirrors}: {}", refused.1);
    }
    fixture.order(NameOrder::DropTemplates(strings(&["FAST"])));
    let new = NewSystemFile { template: Some("fast".into()), ..NewSystemFile::default() };
    let made =
        block_on(fixture.files.create_system(fixture.place(Redundancy::Normal), new, b"", 0o640));
    assert!(matches!(made, Err(FileError::Order(error)) if error.code == Code::NoSuchTemplate));
    assert_eq!(fixture.all_names(), [""; 0]);
    fixture.whole();
}

/// Other front ends are notified of every name that comes or goes.
#[test]
fn mounts_are_notified_of_statements() {
    let fixture = Fixture::new();
    let watcher = Arc::new(Listening::default());
    let _mount = fixture.files.attach(Some(Arc::clone(&watcher) as Arc<dyn Watcher>));
    let directory = fixture.directory(ROOT, "d");
    fixture.file(directory, "f");
    watcher.0.lock().clear();
    fixture.order(NameOrder::DropDirectories(vec![("+DATA/d".into(), true)]));
    let heard = std::mem::take(&mut *watcher.0.lock());
    for (parent, name) in [(ROOT, "d"), (directory, "f")] {
        let entry = Invalidation::Entry { parent, name: name.into() };
        assert!(heard.contains(&entry), "{heard:?}");
    }
}

/// The type of a file follows its name, and where that suggests none its first bytes; a name that
/// suggests none does not change the type.
#[test]
fn types_follow_names() {
    let fixture = Fixture::new();
    let wal = fixture.directory(ROOT, "pg_wal");
    let file = fixture.file(wal, "xlogtemp.12");
    let name = "000000010000000000000001";
    fixture.rename((wal, "xlogtemp.12"), (wal, name), RenameMode::Replace).unwrap();
    assert_eq!(fixture.type_of(file), Some(FileType::Onlinelog));
    fixture.rename((wal, name), (ROOT, name), RenameMode::Replace).unwrap();
    assert_eq!(fixture.type_of(file), Some(FileType::Archivelog));
    fixture.rename((ROOT, name), (ROOT, "plain"), RenameMode::Replace).unwrap();
    assert_eq!(fixture.type_of(file), Some(FileType::Archivelog), "the name says nothing");
    let temporary = fixture.file(ROOT, "x.tmp");
    assert_eq!(fixture.type_of(temporary), Some(FileType::Tempfile));
    fixture.rename((ROOT, "x.tmp"), (ROOT, "x"), RenameMode::Replace).unwrap();
    assert_eq!(fixture.type_of(temporary), Some(FileType::Other));
    fixture.file(ROOT, "y.dmp");
    fixture.rename((ROOT, "x"), (ROOT, "y.dmp"), RenameMode::Exchange).unwrap();
    assert_eq!(fixture.type_of(temporary), Some(FileType::Dumpset));
    assert_eq!(fixture.type_of(fixture.directory(ROOT, "a.dbf")), None);
    let before = fixture.stat(file);
    let fixture = fixture.kill();
    assert_eq!(fixture.stat(file), before);
    fixture.whole();
}

/// The power goes at any moment while a statement is carried out: all of it was done, or nothing.
#[test]
fn a_statement_is_done_as_a_whole_or_not_at_all() {
    let orders = [
        NameOrder::AddDirectories(strings(&["+DATA/n", "+DATA/n/m"])),
        NameOrder::RenameAliases(pairs(&[("+DATA/top/a", "+DATA/x"), ("+DATA/top/b", "+DATA/y")])),
        NameOrder::DropFiles(strings(&["+DATA/top/a", "+DATA/top/b"])),
        NameOrder::DropDirectories(vec![("+DATA/top".into(), true)]),
    ];
    for order in orders {
        let (mut undone, mut done) = (0, 0);
        for cut in 0..14 {
            let fixture = Fixture::new();
            let top = fixture.directory(ROOT, "top");
            ["a", "b", "c"].iter().for_each(|name| _ = fixture.file(top, name));
            let system =
                NewSystemFile { alias: Some("+DATA/top/s".into()), ..NewSystemFile::default() };
            fixture.system(system);
            block_on(fixture.catalog.durable_point()).unwrap();
            let before = fixture.all_names();
            fixture.store.fail_after(cut, cut);
            let _ = block_on(fixture.files.order(fixture.place(Redundancy::Normal), order.clone()));
            let store = fixture.store.restart(cut);
            let dynamic: Arc<dyn World> = Arc::clone(&fixture.world) as Arc<dyn World>;
            let (catalog, _) =
                block_on(Catalog::open(&dynamic, Arc::clone(&store) as Arc<dyn Store>, false))
                    .unwrap();
            let fixture = Fixture::on(Arc::clone(&fixture.world), store, catalog);
            block_on(fixture.files.reap_orphans()).unwrap();
            fixture.whole();
            let after = fixture.all_names();
            if after == before {
                undone += 1;
                fixture.order(order.clone());
                fixture.whole();
            } else {
                done += 1;
                let (code, text) =
                    fixture.try_order(Redundancy::Normal, order.clone()).unwrap_err();
                assert!(
                    [Code::NoSuchFile, Code::NameExists].contains(&code),
                    "cut {cut}: {text}: {after:?}"
                );
            }
        }
        assert!(undone > 0, "{order:?} was done {done} times of {done}");
    }
}
