//! A client: does to its directory what a database does, and knows what must be there.

use crate::{
    executor::{Core, lock},
    history::Failure,
    model::{Content, FileId, Model, Names, SECTOR, Seen, Turn},
};
use plinth_engine::{
    api::{Allocate, Caller, Changes, NewFile, Node, ROOT, RenameMode},
    error::FileError,
    session::Session,
    testing::Numbers,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// What kind of program a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Some of everything.
    Mixed,
    /// Appends and syncs.
    Log,
    /// Pages here and there, checkpoints.
    Pages,
    /// Many small files that come and go.
    Small,
}

impl Style {
    pub const ALL: [Self; 4] = [Self::Mixed, Self::Log, Self::Pages, Self::Small];

    /// Files at a time.
    fn files(self) -> u64 {
        match self {
            Self::Small => 30,
            Self::Log => 3,
            Self::Mixed | Self::Pages => 6,
        }
    }

    /// Largest file, in sectors.
    fn sectors(self) -> u64 {
        match self {
            Self::Small => 200,
            _ => 5 << 11,
        }
    }

    /// Weights of what it does, in the order of [`Act`].
    fn weights(self) -> [u64; 13] {
        match self {
            Self::Mixed => [8, 5, 4, 4, 3, 2, 5, 21, 20, 4, 8, 2, 14],
            Self::Log => [3, 2, 2, 2, 0, 3, 2, 60, 5, 0, 10, 0, 11],
            Self::Pages => [2, 1, 1, 2, 2, 2, 3, 5, 50, 6, 8, 6, 12],
            Self::Small => [28, 20, 8, 4, 2, 1, 0, 15, 8, 2, 4, 0, 8],
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Create,
    Unlink,
    Rename,
    Truncate,
    Punch,
    Reserve,
    Extend,
    Append,
    Page,
    Sparse,
    Sync,
    Checkpoint,
    Read,
}

const ACTS: [Act; 13] = [
    Act::Create,
    Act::Unlink,
    Act::Rename,
    Act::Truncate,
    Act::Punch,
    Act::Reserve,
    Act::Extend,
    Act::Append,
    Act::Page,
    Act::Sparse,
    Act::Sync,
    Act::Checkpoint,
    Act::Read,
];

/// What a client shares with the others of its group.
#[derive(Debug, Default)]
pub struct Mood {
    /// They are asked to do nothing more for now.
    pub pause: AtomicBool,
    /// An error may reach them: a disk that cannot be spared does not do what it should.
    pub lenient: AtomicBool,
    /// Every request is sent twice.
    pub twice: AtomicBool,
    /// Operations they did.
    pub done: AtomicU64,
    /// Operations after which they rest until they are given more.
    pub allowed: AtomicU64,
}

impl Mood {
    fn is(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Relaxed)
    }
}

/// See the module's description.
pub struct Client {
    core: Arc<Core>,
    number: u64,
    style: Style,
    mood: Arc<Mood>,
    /// Decides what it does: not the order in which things happen around it.
    numbers: Mutex<Numbers>,
    failure: Mutex<Option<Failure>>,
    idle: AtomicBool,
    model: Mutex<Model>,
}

const CALLER: Caller = Caller { uid: 0, gid: 0 };

type Result<T> = std::result::Result<T, FileError>;

impl Client {
    pub fn new(core: &Arc<Core>, number: u64, style: Style, seed: u64, mood: &Arc<Mood>) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::clone(core),
            number,
            style,
            mood: Arc::clone(mood),
            numbers: Mutex::new(Numbers::new(seed)),
            failure: Mutex::default(),
            idle: AtomicBool::new(true),
            model: Mutex::default(),
        })
    }

    fn below(&self, limit: u64) -> u64 {
        lock(&self.numbers).below(limit)
    }

    fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Whether it does nothing.
    pub fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
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

    /// Looks at everything if the group was mounted since; then works until it is asked to pause, or dies with its process.
    pub async fn live(self: Arc<Self>, session: Session) {
        self.idle.store(false, Ordering::Relaxed);
        if let Err(failure) = self.look_and_work(&session).await {
            self.fail(failure);
        }
        self.idle.store(true, Ordering::Relaxed);
    }

    async fn look_and_work(&self, session: &Session) -> std::result::Result<(), Failure> {
        if self.model().is_unverified() {
            self.verify(session, true).await?;
        }
        while !Mood::is(&self.mood.pause) {
            if self.one_in(3) {
                let pause = Duration::from_micros(self.below(3000));
                self.core.sleep(pause).await;
            }
            if self.mood.done.load(Ordering::Relaxed) >= self.mood.allowed.load(Ordering::Relaxed) {
                self.core.sleep(RESTING).await;
                continue;
            }
            if let Next::Leave = self.act(session).await? {
                return Ok(());
            }
            self.mood.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// One operation.
    async fn act(&self, session: &Session) -> std::result::Result<Next, Failure> {
        let names = self.model().names().clone();
        let pick = |below: u64| usize::try_from(self.below(below)).expect("small");
        let chosen = (!names.0.is_empty()).then(|| {
            let (name, (file, size)) = names.0.iter().nth(pick(names.0.len() as u64)).expect("there are so many");
            (name.clone(), *file, *size)
        });
        let Some((name, file, size)) = chosen else { return self.create(session, &names).await };
        let weights = self.style.weights();
        let mut drawn = self.below(weights.iter().sum());
        let index = weights.iter().position(|weight| {
            let here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        let sectors = self.style.sectors();
        match ACTS[index.expect("below the sum")] {
            Act::Create if (names.0.len() as u64) < self.style.files() => self.create(session, &names).await,
            Act::Create | Act::Unlink => self.unlink(session, &names, &name).await,
            Act::Rename => self.rename(session, &names, &name).await,
            Act::Truncate => self.truncate(session, &names, &name).await,
            Act::Punch => self.punch(session, &name, file, size).await,
            Act::Reserve => self.reserve(session, &names, &name).await,
            Act::Extend => self.write(session, &names, &name, size, 1 + self.below(2048)).await,
            Act::Append => self.append(session, &names, &name).await,
            Act::Page => {
                let at = self.below(size / SECTOR as u64 + 1) / 16 * 16;
                self.write(session, &names, &name, at * SECTOR as u64, 16).await
            }
            Act::Sparse => {
                let at = self.below(sectors);
                self.write(session, &names, &name, at * SECTOR as u64, 1 + self.below(40)).await
            }
            Act::Sync if self.one_in(3) => self.sync_names(session).await,
            Act::Sync => self.sync(session, &name, file).await,
            Act::Checkpoint => self.checkpoint(session, &names, &name, file, size).await,
            Act::Read => {
                let first = self.below(size / SECTOR as u64 + 1);
                self.read(session, &name, file, size, first, 1 + self.below(300), false).await
            }
        }
    }

    async fn node(&self, session: &Session, name: &str) -> Result<Node> {
        session.lookup(ROOT, self.full(name).as_bytes()).await.map(|attributes| attributes.node)
    }

    fn full(&self, name: &str) -> String {
        format!("c{}.{name}", self.number)
    }

    /// Whether an error says that the group is going, with whatever was under way: the process ends soon.
    fn is_sent_away(&self, error: &FileError) -> bool {
        match error {
            FileError::Dismounted => Mood::is(&self.mood.pause),
            FileError::CatalogStopped(_) => Mood::is(&self.mood.pause) || Mood::is(&self.mood.lenient),
            FileError::Catalog(_) => Mood::is(&self.mood.lenient),
            _ => false,
        }
    }

    /// Whether an error is one that may reach a program while a disk that cannot be spared fails.
    fn is_excused(&self, error: &FileError) -> bool {
        let of_a_disk = matches!(
            error,
            FileError::Disk(_) | FileError::Refused { .. } | FileError::ExtentLost { .. } | FileError::SnapshotTooOld
        );
        of_a_disk && Mood::is(&self.mood.lenient)
    }

    /// What an operation's end means.
    fn end(&self, what: &str, ended: Result<()>) -> std::result::Result<Next, Failure> {
        match ended {
            Ok(()) => {
                self.model().acknowledge();
                Ok(Next::GoOn)
            }
            // Whether it happened is not known, and the next mount will show it.
            Err(error) if self.is_sent_away(&error) => Ok(Next::Leave),
            // A full group refuses, and nothing has changed but perhaps bytes of the write.
            Err(FileError::NoSpace) => {
                self.model().refuse();
                Ok(Next::GoOn)
            }
            Err(error) if self.is_excused(&error) => {
                self.core.tell(|| format!("client {}: {what}: {error}", self.number));
                self.model().refuse();
                Ok(Next::GoOn)
            }
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    /// Asks once, or twice at the same time as after a request that was sent again; then one of the two answers may be
    /// that there is nothing left to do.
    async fn ask<F>(&self, ask: impl Fn() -> F, done_already: fn(&FileError) -> bool) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        if !Mood::is(&self.mood.twice) {
            return ask().await;
        }
        match futures::join!(ask(), ask()) {
            (Ok(()), Err(error)) | (Err(error), Ok(())) if done_already(&error) => Ok(()),
            // One found the last space, the other none.
            (Ok(()), Err(FileError::NoSpace)) | (Err(FileError::NoSpace), Ok(())) => Ok(()),
            (one, other) => one.and(other),
        }
    }

    async fn create(&self, session: &Session, names: &Names) -> std::result::Result<Next, Failure> {
        let name = format!("f{}", self.below(self.style.files() * 2));
        if names.0.contains_key(&name) {
            return Ok(Next::GoOn);
        }
        self.core.tell(|| format!("client {}: create {name}", self.number));
        let mut next = names.clone();
        {
            let mut model = self.model();
            next.0.insert(name.clone(), (model.new_file(), 0));
            model.begin(Some(next), None);
        }
        let full = self.full(&name);
        let make =
            || async { session.create(ROOT, full.as_bytes(), NewFile::Regular, 0o644, CALLER).await.map(|_| ()) };
        self.end("create", self.ask(make, |error| matches!(error, FileError::Exists)).await)
    }

    async fn unlink(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<Next, Failure> {
        self.core.tell(|| format!("client {}: unlink {name}", self.number));
        let mut next = names.clone();
        next.0.remove(name);
        self.model().begin(Some(next), None);
        let full = self.full(name);
        let remove = || session.unlink(ROOT, full.as_bytes());
        self.end("unlink", self.ask(remove, |error| matches!(error, FileError::NotFound)).await)
    }

    async fn rename(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<Next, Failure> {
        let to = format!("f{}", self.below(self.style.files() * 2));
        self.core.tell(|| format!("client {}: rename {name} to {to}", self.number));
        let mut next = names.clone();
        if let Some(entry) = next.0.remove(name) {
            next.0.insert(to.clone(), entry);
        }
        self.model().begin(Some(next), None);
        let (from, onto) = (self.full(name), self.full(&to));
        let rename = || session.rename((ROOT, from.as_bytes()), (ROOT, onto.as_bytes()), RenameMode::Replace);
        self.end("rename", self.ask(rename, |error| matches!(error, FileError::NotFound)).await)
    }

    async fn truncate(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<Next, Failure> {
        let mut next = names.clone();
        let Some((file, old)) = next.0.get(name).copied() else { return Ok(Next::GoOn) };
        let limit = if self.one_in(2) { old / SECTOR as u64 + 1 } else { self.style.sectors() };
        let sectors = self.below(limit);
        let size = sectors * SECTOR as u64;
        self.core.tell(|| format!("client {}: truncate {name} from {old} to {size}", self.number));
        next.0.insert(name.to_owned(), (file, size));
        {
            let mut model = self.model();
            let zeros: Content = Arc::new([0; SECTOR]);
            let gone = (sectors..old.div_ceil(SECTOR as u64)).map(|sector| (sector, Arc::clone(&zeros))).collect();
            model.begin(Some(next), Some((file, gone)));
        }
        let cut = || async {
            let node = self.node(session, name).await?;
            session.change(node, Changes { size: Some(size), ..Changes::default() }).await.map(|_| ())
        };
        self.end("truncate", self.ask(cut, |_| false).await)
    }

    async fn punch(
        &self,
        session: &Session,
        name: &str,
        file: FileId,
        size: u64,
    ) -> std::result::Result<Next, Failure> {
        let first = self.below(size / SECTOR as u64 + 1);
        let count = 1 + self.below(600);
        self.core.tell(|| format!("client {}: punch {count} sectors of {name} at {first}", self.number));
        let zeros: Content = Arc::new([0; SECTOR]);
        let gone = (first..first + count).map(|sector| (sector, Arc::clone(&zeros))).collect();
        self.model().begin(None, Some((file, gone)));
        let punch = || async {
            let node = self.node(session, name).await?;
            session.allocate(node, first * SECTOR as u64, count * SECTOR as u64, Allocate::PunchHole, false).await
        };
        self.end("punch", self.ask(punch, |_| false).await)
    }

    async fn reserve(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<Next, Failure> {
        let mut next = names.clone();
        let Some((file, old)) = next.0.get(name).copied() else { return Ok(Next::GoOn) };
        let size = old.max(self.below(self.style.sectors()) * SECTOR as u64);
        self.core.tell(|| format!("client {}: reserve {name} up to {size}", self.number));
        next.0.insert(name.to_owned(), (file, size));
        self.model().begin(Some(next), None);
        let reserve = || async {
            let node = self.node(session, name).await?;
            session.allocate(node, 0, size.max(1), Allocate::Reserve { keep_size: size == 0 }, false).await
        };
        self.end("reserve", self.ask(reserve, |_| false).await)
    }

    /// Appends to the file as to a log, and makes it durable.
    async fn append(&self, session: &Session, names: &Names, name: &str) -> std::result::Result<Next, Failure> {
        let Some((file, size)) = names.0.get(name).copied() else { return Ok(Next::GoOn) };
        if size / SECTOR as u64 >= self.style.sectors() {
            return Ok(Next::GoOn);
        }
        let next = self.write(session, names, name, size, 1 + self.below(32)).await?;
        if matches!(next, Next::GoOn) && self.one_in(2) { self.sync(session, name, file).await } else { Ok(next) }
    }

    async fn write(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
        offset: u64,
        count: u64,
    ) -> std::result::Result<Next, Failure> {
        let mut next = names.clone();
        let Some((file, size)) = next.0.get(name).copied() else { return Ok(Next::GoOn) };
        let first = offset / SECTOR as u64;
        let count = count.min(self.style.sectors().saturating_sub(first)).max(1);
        let end = (first + count) * SECTOR as u64;
        let tag = lock(&self.numbers).draw();
        // Now and then not in whole sectors: what is around stays, so it must be known.
        let (offset, cut) = (first * SECTOR as u64, self.one_in(5) && self.model().is_certain(file, first));
        let skip = if cut { usize::try_from(self.below(SECTOR as u64)).expect("small") } else { 0 };
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
        let write = || async {
            let node = self.node(session, name).await?;
            session.write(node, offset + skip as u64, &bytes, false).await
        };
        let ended = self.ask(write, |_| false).await;
        if let Err(error) = &ended
            && self.is_excused(error)
            && self.has_next_size(session, name).await
        {
            self.core.tell(|| format!("client {}: write: {error}; the size holds", self.number));
            self.model().refuse_but_named();
            return Ok(Next::GoOn);
        }
        self.end("write", ended)
    }

    /// Whether a file is as large as the operation under way would leave it.
    async fn has_next_size(&self, session: &Session, name: &str) -> bool {
        let wanted = self.model().next_names().and_then(|names| names.0.get(name).map(|(_, size)| *size));
        let found = async {
            let node = self.node(session, name).await?;
            session.attributes(node).await
        };
        wanted.is_some() && found.await.ok().map(|attributes| attributes.size) == wanted
    }

    /// Some pages, then a sync.
    async fn checkpoint(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
        file: FileId,
        size: u64,
    ) -> std::result::Result<Next, Failure> {
        if size == 0 {
            return self.append(session, names, name).await;
        }
        for _ in 0..1 + self.below(5) {
            let at = self.below(size / SECTOR as u64) / 16 * 16;
            let names = self.model().names().clone();
            if let Next::Leave = self.write(session, &names, name, at * SECTOR as u64, 16).await? {
                return Ok(Next::Leave);
            }
        }
        self.sync(session, name, file).await
    }

    async fn sync(&self, session: &Session, name: &str, file: FileId) -> std::result::Result<Next, Failure> {
        let turn = self.model().turn();
        let data_only = self.one_in(2);
        let sync = || async {
            let node = self.node(session, name).await?;
            session.sync(node, data_only).await
        };
        let synced = self.ask(sync, |_| false).await;
        if synced.is_ok() {
            self.core.tell(|| format!("client {}: synced {name} (#{file})", self.number));
        }
        self.synced("sync", synced, Some(file), turn)
    }

    async fn sync_names(&self, session: &Session) -> std::result::Result<Next, Failure> {
        let turn = self.model().turn();
        let synced = self.ask(|| session.sync_directory(ROOT), |_| false).await;
        if synced.is_ok() {
            self.core.tell(|| format!("client {}: synced the directory", self.number));
        }
        self.synced("sync of the directory", synced, None, turn)
    }

    fn synced(
        &self,
        what: &str,
        ended: Result<()>,
        file: Option<FileId>,
        turn: Turn,
    ) -> std::result::Result<Next, Failure> {
        match ended {
            Ok(()) => self.model().synced(file, turn, Mood::is(&self.mood.lenient)),
            Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
            Err(FileError::NoSpace) => {}
            Err(error) if self.is_excused(&error) => {
                self.core.tell(|| format!("client {}: {what} of {file:?}: {error}", self.number));
                file.into_iter().for_each(|file| self.model().sync_failed(file));
            }
            Err(error) => return Err(format!("{what}: {error}")),
        }
        Ok(Next::GoOn)
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
    ) -> std::result::Result<Next, Failure> {
        let mut bytes = vec![0xee; usize::try_from(count).expect("small") * SECTOR];
        let read = async {
            let node = self.node(session, name).await?;
            session.read(node, first * SECTOR as u64, &mut bytes).await
        };
        let length = match read.await {
            Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
            Err(error) if self.is_excused(&error) => return Ok(Next::GoOn),
            read => read.map_err(|error| format!("read of {name}: {error}"))?,
        };
        let expected = size.saturating_sub(first * SECTOR as u64).min(bytes.len() as u64);
        if length as u64 != expected {
            return Err(format!("read of {name} at {first}: {length} bytes, not {expected}"));
        }
        let seen = match (after_mount, Mood::is(&self.mood.lenient)) {
            (true, _) => Seen::AfterMount,
            (false, true) => Seen::InDoubt,
            (false, false) => Seen::Now,
        };
        let mut model = self.model();
        for (sector, number) in bytes[..length].chunks(SECTOR).zip(first..) {
            model.read(file, number, sector, seen).map_err(|wrong| format!("{name} (#{file}): {wrong}"))?;
        }
        Ok(Next::GoOn)
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
        let found = match found.await {
            Ok(found) => found,
            // Another mount will show it.
            Err(error) if self.is_sent_away(&error) || self.is_excused(&error) => return Ok(()),
            Err(error) => return Err(format!("listing: {error}")),
        };
        if after_mount {
            self.model().found(&found)?;
        }
        let names = self.model().names().clone();
        for (name, (file, size)) in &names.0 {
            if found.get(name) != Some(size) {
                return Err(format!("{name} has {:?} bytes, not {size}", found.get(name)));
            }
            let all = size.div_ceil(SECTOR as u64).max(1);
            // In parts: one that cannot be read hides no others.
            let mut first = 0;
            while first < all {
                let count = (all - first).min(VERIFY_SECTORS);
                if let Next::Leave = self.read(session, name, *file, *size, first, count, after_mount).await? {
                    return Ok(());
                }
                first += count;
            }
        }
        if after_mount {
            self.model().verified();
        }
        Ok(())
    }
}

/// Whether a client has more to do in this process.
enum Next {
    GoOn,
    Leave,
}

/// How long a client rests before it looks whether it may go on.
const RESTING: Duration = Duration::from_millis(20);

/// Sectors that a look at everything reads at once.
const VERIFY_SECTORS: u64 = 2048;

/// Bytes that say which write they are from, and for which sector.
fn pattern(tag: u64, sector: u64, into: &mut [u8]) {
    let seed = tag ^ sector.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Numbers::new(seed).fill(into);
    let length = into.len().min(8);
    into[..length].copy_from_slice(&tag.to_be_bytes()[..length]);
}
