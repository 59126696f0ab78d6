//! A client: does to its directory what a database does, and knows what must be there.

use crate::{
    executor::{Core, lock},
    history::{Counts, Failure},
    model::{Content, FileId, Model, Names, SECTOR},
};
use plinth_engine::{
    api::{Allocate, Caller, Changes, NewFile, Node, ROOT, RenameMode},
    error::FileError,
    session::Session,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What a client is to do.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub operations: u64,
}

/// See the module's description.
pub struct Client {
    core: Arc<Core>,
    number: u64,
    plan: Plan,
    counts: Arc<Counts>,
    done: Mutex<u64>,
    failure: Mutex<Option<Failure>>,
    /// It is asked to do nothing more, and does nothing.
    stop: AtomicBool,
    idle: AtomicBool,
    model: Mutex<Model>,
}

/// Files that a client may have at a time.
const FILES_MAX: u64 = 6;
/// Largest file, in sectors.
const FILE_SECTORS: u64 = 5 << 11;

const CALLER: Caller = Caller { uid: 0, gid: 0 };

type Result<T> = std::result::Result<T, FileError>;

impl Client {
    pub fn new(core: &Arc<Core>, number: u64, plan: Plan, counts: &Arc<Counts>) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::clone(core),
            number,
            plan,
            counts: Arc::clone(counts),
            done: Mutex::new(0),
            failure: Mutex::default(),
            stop: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            model: Mutex::default(),
        })
    }

    pub fn is_done(&self) -> bool {
        *lock(&self.done) >= self.plan.operations
    }

    /// Asks it to do nothing more for now.
    pub fn stop(&self, stop: bool) {
        self.stop.store(stop, Ordering::Relaxed);
    }

    /// Whether it does nothing.
    pub fn is_paused(&self) -> bool {
        self.is_done() || self.idle.load(Ordering::Relaxed)
    }

    pub fn failure(&self) -> Option<Failure> {
        lock(&self.failure).clone()
    }

    pub fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.model)
    }

    fn fail(&self, failure: Failure) {
        self.core.tell(|| format!("client {}: {failure}", self.number));
        lock(&self.failure).get_or_insert(format!("client {}: {failure}", self.number));
    }

    /// Works until it has done its plan, or dies with its process.
    pub async fn live(self: Arc<Self>, session: Session) {
        self.idle.store(false, Ordering::Relaxed);
        while !self.is_done() && self.failure().is_none() {
            if self.stop.load(Ordering::Relaxed) {
                self.idle.store(true, Ordering::Relaxed);
                return;
            }
            if self.core.one_in(3) {
                let pause = Duration::from_micros(self.core.below(3000));
                self.core.sleep(pause).await;
            }
            if let Err(failure) = self.act(&session).await {
                self.fail(failure);
                return;
            }
            *lock(&self.done) += 1;
            *lock(&self.counts.operations) += 1;
        }
    }

    /// One operation.
    async fn act(&self, session: &Session) -> std::result::Result<(), Failure> {
        let names = self.model().names().clone();
        let pick = |below: u64| usize::try_from(self.core.below(below)).expect("small");
        let chosen = (!names.0.is_empty()).then(|| {
            let (name, (file, size)) = names.0.iter().nth(pick(names.0.len() as u64)).expect("there are so many");
            (name.clone(), *file, *size)
        });
        let Some((name, file, size)) = chosen else { return self.create(session, &names).await };
        match self.core.below(100) {
            0..8 if (names.0.len() as u64) < FILES_MAX => self.create(session, &names).await,
            8..13 => self.unlink(session, &names, &name).await,
            13..17 => self.rename(session, &names, &name).await,
            17..21 => self.truncate(session, &names, &name).await,
            21..24 => self.punch(session, &name, file, size).await,
            24..26 => self.reserve(session, &names, &name).await,
            26..31 => self.write(session, &names, &name, size, 1 + self.core.below(2048)).await,
            31..52 => self.append(session, &names, &name).await,
            52..72 => {
                let at = self.core.below(size / SECTOR as u64 + 1) / 16 * 16;
                self.write(session, &names, &name, at * SECTOR as u64, 16).await
            }
            72..76 => {
                let at = self.core.below(FILE_SECTORS);
                self.write(session, &names, &name, at * SECTOR as u64, 1 + self.core.below(40)).await
            }
            76..84 => self.sync(session, &name, file).await,
            84..86 => self.sync_names(session).await,
            86..88 => self.read(session, &name, file, size, 0, FILE_SECTORS, false).await,
            _ => {
                let at = self.core.below(size / SECTOR as u64 + 1);
                self.read(session, &name, file, size, at, 1 + self.core.below(64), false).await
            }
        }
    }

    async fn node(&self, session: &Session, name: &str) -> Result<Node> {
        session.lookup(ROOT, self.full(name).as_bytes()).await.map(|attributes| attributes.node)
    }

    fn full(&self, name: &str) -> String {
        format!("c{}.{name}", self.number)
    }

    /// Whether an error is what a dismount does to who is at work.
    fn is_sent_away(&self, error: &FileError) -> bool {
        self.stop.load(Ordering::Relaxed) && matches!(error, FileError::Dismounted | FileError::CatalogStopped(_))
    }

    /// What an operation's end means.
    fn end(&self, what: &str, ended: Result<()>) -> std::result::Result<(), Failure> {
        match ended {
            Ok(()) => {
                self.model().acknowledge();
                Ok(())
            }
            // Sent away in the middle, by a dismount: whether it happened is not known. The process ends soon.
            Err(error) if self.is_sent_away(&error) => Ok(()),
            // A full group refuses, and nothing has changed but perhaps bytes of the write.
            Err(FileError::NoSpace) => {
                self.model().refuse();
                Ok(())
            }
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    async fn create(&self, session: &Session, names: &Names) -> std::result::Result<(), Failure> {
        let name = format!("f{}", self.core.below(FILES_MAX * 2));
        if names.0.contains_key(&name) {
            return Ok(());
        }
        self.core.tell(|| format!("client {}: create {name}", self.number));
        let mut next = names.clone();
        {
            let mut model = self.model();
            next.0.insert(name.clone(), (model.new_file(), 0));
            model.begin(Some(next), None);
        }
        let made = session.create(ROOT, self.full(&name).as_bytes(), NewFile::Regular, 0o644, CALLER).await;
        self.end("create", made.map(|_| ()))
    }

    async fn unlink(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<(), Failure> {
        self.core.tell(|| format!("client {}: unlink {name}", self.number));
        let mut next = names.clone();
        next.0.remove(name);
        self.model().begin(Some(next), None);
        self.end("unlink", session.unlink(ROOT, self.full(name).as_bytes()).await)
    }

    async fn rename(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<(), Failure> {
        let to = format!("f{}", self.core.below(FILES_MAX * 2));
        self.core.tell(|| format!("client {}: rename {name} to {to}", self.number));
        let mut next = names.clone();
        if let Some(entry) = next.0.remove(name) {
            next.0.insert(to.clone(), entry);
        }
        self.model().begin(Some(next), None);
        let (from, onto) = (self.full(name), self.full(&to));
        let renamed = session.rename((ROOT, from.as_bytes()), (ROOT, onto.as_bytes()), RenameMode::Replace).await;
        self.end("rename", renamed)
    }

    async fn truncate(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<(), Failure> {
        let mut next = names.clone();
        let Some((file, old)) = next.0.get(name).copied() else { return Ok(()) };
        let limit = if self.core.one_in(2) { old / SECTOR as u64 + 1 } else { FILE_SECTORS };
        let sectors = self.core.below(limit);
        let size = sectors * SECTOR as u64;
        self.core.tell(|| format!("client {}: truncate {name} from {old} to {size}", self.number));
        next.0.insert(name.to_owned(), (file, size));
        {
            let mut model = self.model();
            let zeros: Content = Arc::new([0; SECTOR]);
            let gone = (sectors..old.div_ceil(SECTOR as u64)).map(|sector| (sector, Arc::clone(&zeros))).collect();
            model.begin(Some(next), Some((file, gone)));
        }
        let cut = async {
            let node = self.node(session, name).await?;
            session.change(node, Changes { size: Some(size), ..Changes::default() }).await.map(|_| ())
        };
        self.end("truncate", cut.await)
    }

    async fn punch(&self, session: &Session, name: &str, file: FileId, size: u64) -> std::result::Result<(), Failure> {
        let first = self.core.below(size / SECTOR as u64 + 1);
        let count = 1 + self.core.below(600);
        self.core.tell(|| format!("client {}: punch {count} sectors of {name} at {first}", self.number));
        let zeros: Content = Arc::new([0; SECTOR]);
        let gone = (first..first + count).map(|sector| (sector, Arc::clone(&zeros))).collect();
        self.model().begin(None, Some((file, gone)));
        let punched = async {
            let node = self.node(session, name).await?;
            session.allocate(node, first * SECTOR as u64, count * SECTOR as u64, Allocate::PunchHole, false).await
        };
        self.end("punch", punched.await)
    }

    async fn reserve(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<(), Failure> {
        let mut next = names.clone();
        let Some((file, old)) = next.0.get(name).copied() else { return Ok(()) };
        let size = old.max(self.core.below(FILE_SECTORS) * SECTOR as u64);
        self.core.tell(|| format!("client {}: reserve {name} up to {size}", self.number));
        next.0.insert(name.to_owned(), (file, size));
        self.model().begin(Some(next), None);
        let reserved = async {
            let node = self.node(session, name).await?;
            session.allocate(node, 0, size.max(1), Allocate::Reserve { keep_size: size == 0 }, false).await
        };
        self.end("reserve", reserved.await)
    }

    /// Appends to the file as to a log, and makes it durable.
    async fn append(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<(), Failure> {
        let Some((file, size)) = names.0.get(name).copied() else { return Ok(()) };
        if size / SECTOR as u64 >= FILE_SECTORS {
            return Ok(());
        }
        self.write(session, names, name, size, 1 + self.core.below(32)).await?;
        if self.core.one_in(2) { self.sync(session, name, file).await } else { Ok(()) }
    }

    async fn write(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
        offset: u64,
        count: u64,
    ) -> std::result::Result<(), Failure> {
        let mut next = names.clone();
        let Some((file, size)) = next.0.get(name).copied() else { return Ok(()) };
        let first = offset / SECTOR as u64;
        let count = count.min(FILE_SECTORS.saturating_sub(first)).max(1);
        let end = (first + count) * SECTOR as u64;
        let tag = self.core.draw();
        let (offset, cut) = (first * SECTOR as u64, self.core.one_in(5));
        // Now and then not in whole sectors: what is around stays.
        let skip = if cut { usize::try_from(self.core.below(SECTOR as u64)).expect("small") } else { 0 };
        self.core.tell(|| {
            let odd = if cut { " oddly" } else { "" };
            format!("client {}: write {count} sectors of {name} (#{file}) at {first}{odd}: {tag:016x}", self.number)
        });
        let mut bytes = Vec::new();
        let mut sectors = Vec::new();
        {
            let model = self.model();
            for number in first..first + count {
                let mut content = *model.sector(file, number);
                let from = if number == first { skip } else { 0 };
                pattern(tag, number, &mut content[from..]);
                bytes.extend_from_slice(&content[from..]);
                sectors.push((number, Arc::new(content)));
            }
        }
        let grown = end > size;
        next.0.insert(name.to_owned(), (file, size.max(end)));
        self.model().begin(grown.then_some(next), Some((file, sectors)));
        let written = async {
            let node = self.node(session, name).await?;
            session.write(node, offset + skip as u64, &bytes, false).await
        };
        self.end("write", written.await)
    }

    async fn sync(&self, session: &Session, name: &str, file: FileId) -> std::result::Result<(), Failure> {
        let turn = self.model().turn();
        let synced = async {
            let node = self.node(session, name).await?;
            session.sync(node, self.core.one_in(2)).await
        };
        match synced.await {
            Ok(()) => {
                self.core.tell(|| format!("client {}: synced {name} (#{file})", self.number));
                self.model().synced(Some(file), turn);
                Ok(())
            }
            Err(error) if self.is_sent_away(&error) => Ok(()),
            Err(error) => Err(format!("sync: {error}")),
        }
    }

    async fn sync_names(&self, session: &Session) -> std::result::Result<(), Failure> {
        let turn = self.model().turn();
        match session.sync_directory(ROOT).await {
            Ok(()) => {
                self.model().synced(None, turn);
                Ok(())
            }
            Err(error) if self.is_sent_away(&error) => Ok(()),
            Err(error) => Err(format!("sync of the directory: {error}")),
        }
    }

    #[allow(clippy::too_many_arguments)]
    async fn read(
        &self,
        session: &Session,
        name: &str,
        file: FileId,
        size: u64,
        first: u64,
        count: u64,
        after_mount: bool,
    ) -> std::result::Result<(), Failure> {
        let mut bytes = vec![0xee; usize::try_from(count).expect("small") * SECTOR];
        let read = async {
            let node = self.node(session, name).await?;
            session.read(node, first * SECTOR as u64, &mut bytes).await
        };
        let length = match read.await {
            Err(error) if self.is_sent_away(&error) => return Ok(()),
            read => read.map_err(|error| format!("read of {name}: {error}"))?,
        };
        let expected = size.saturating_sub(first * SECTOR as u64).min(bytes.len() as u64);
        if length as u64 != expected {
            return Err(format!("read of {name} at {first}: {length} bytes, not {expected}"));
        }
        let mut model = self.model();
        for (sector, number) in bytes[..length].chunks(SECTOR).zip(first..) {
            model.read(file, number, sector, after_mount).map_err(|wrong| format!("{name} (#{file}): {wrong}"))?;
        }
        Ok(())
    }

    /// Everything is there, as the client left it.
    pub async fn verify(&self, session: &Session, after_mount: bool) -> std::result::Result<(), Failure> {
        let prefix = format!("c{}.", self.number);
        let found = async {
            let mut found = BTreeMap::new();
            let mut cookie = 0;
            loop {
                let entries = session.read_directory(ROOT, cookie, 64).await?;
                for entry in &entries {
                    cookie = entry.cookie;
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    if let Some(name) = name.strip_prefix(&prefix) {
                        found.insert(name.to_owned(), session.attributes(entry.node).await?.size);
                    }
                }
                if entries.len() < 64 {
                    return Ok::<_, FileError>(found);
                }
            }
        };
        let found = found.await.map_err(|error| format!("client {}: listing: {error}", self.number))?;
        if after_mount {
            self.model().found(&found).map_err(|wrong| format!("client {}: {wrong}", self.number))?;
        }
        let names = self.model().names().clone();
        for (name, (file, size)) in &names.0 {
            if found.get(name) != Some(size) {
                return Err(format!("client {}: {name} has {:?} bytes, not {size}", self.number, found.get(name)));
            }
            let all = size.div_ceil(SECTOR as u64).max(1);
            let read = self.read(session, name, *file, *size, 0, all, after_mount).await;
            read.map_err(|wrong| format!("client {}: {wrong}", self.number))?;
        }
        Ok(())
    }
}

/// Bytes that say which write they are from, and for which sector.
fn pattern(tag: u64, sector: u64, into: &mut [u8]) {
    let seed = tag ^ sector.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    plinth_engine::testing::Numbers::new(seed).fill(into);
    let length = into.len().min(8);
    into[..length].copy_from_slice(&tag.to_be_bytes()[..length]);
}
