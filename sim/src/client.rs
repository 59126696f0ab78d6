//! A client does to its directory what a database does, and knows the contents that must be there.

mod directories;
mod wild;

use crate::{
    executor::Core,
    history::Failure,
    model::{Content, FileId, Model, Names, SECTOR, Seen, Turn, zeros},
    world::Host,
};
use plinth_engine::{
    api::{Allocate, Attributes, Caller, Changes, NewFile, Node, ROOT, RenameMode, Seek},
    error::FileError,
    extent::failed_flush::LOST_BEFORE,
    files::session::Session,
    sync::transfer::Source,
    testing::Numbers,
};
use plinth_workload::{
    lock,
    profile::{Act, Profile},
};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Shared by the clients of a group: what they are to do, and the errors that they may expect.
#[derive(Debug, Default)]
pub struct Expectations {
    /// Clients are to stop after their current operation.
    pub pause: AtomicBool,
    /// Errors may reach clients: a disk that cannot be spared is faulty.
    pub tolerates_errors: AtomicBool,
    /// A value that was read may change again: a flush has failed on a disk that cannot be spared,
    /// or too many disks are missing.
    pub reads_may_change: AtomicBool,
    /// Every request is sent twice.
    pub twice: AtomicBool,
    /// Blocks that cannot be read are lost, and clients write them anew.
    pub restores: AtomicBool,
    /// Clients overwrite blocks and sync nothing, so that nothing makes a disk flush.
    pub burst: AtomicBool,
    /// Clients remove files and write others, so that freed space is allocated again at once.
    pub churn: AtomicBool,
    /// Syncs that were acknowledged.
    pub synced: AtomicU64,
    /// Operations that the clients have done.
    pub done: AtomicU64,
    /// Operations after which the clients rest until they are allowed more.
    pub allowed: AtomicU64,
}

impl Expectations {
    /// Every disk can be relied on again.
    pub fn expect_all(&self) {
        self.tolerates_errors.store(false, Ordering::Relaxed);
        self.reads_may_change.store(false, Ordering::Relaxed);
        self.restores.store(false, Ordering::Relaxed);
    }

    fn is(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Relaxed)
    }
}

/// See the module's description.
pub struct Client {
    core: Arc<Core>,
    host: Arc<Host>,
    /// The group's name.
    group: Box<str>,
    number: u64,
    profile: &'static Profile,
    expectations: Arc<Expectations>,
    /// Decides what the client does, but not the order of events around it.
    numbers: Mutex<Numbers>,
    failure: Mutex<Option<Failure>>,
    idle: AtomicBool,
    model: Mutex<Model>,
}

const CALLER: Caller = Caller { uid: 0, gid: 0 };

type Result<T> = std::result::Result<T, FileError>;

impl Client {
    pub fn new(
        (core, host): (&Arc<Core>, &Arc<Host>),
        group: &str,
        number: u64,
        (profile, seed): (&'static Profile, u64),
        expectations: &Arc<Expectations>,
    ) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::clone(core),
            host: Arc::clone(host),
            group: group.into(),
            number,
            profile,
            expectations: Arc::clone(expectations),
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

    /// Whether it has no operation in flight.
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

    /// Looks at everything if the group was mounted since the last look, at once or after some
    /// work. Works until it is to pause, or dies with its process.
    pub async fn live(self: Arc<Self>, session: Session) {
        self.idle.store(false, Ordering::Relaxed);
        if let Err(failure) = self.look_and_work(&session).await {
            self.fail(failure);
        }
        self.idle.store(true, Ordering::Relaxed);
    }

    async fn look_and_work(&self, session: &Session) -> std::result::Result<(), Failure> {
        let mut before_a_look = 0;
        if self.model().is_unverified() {
            match self.list(session).await? {
                Listed::Files(_) if self.one_in(3) => before_a_look = self.below(60),
                Listed::Leave => return Ok(()),
                _ => {}
            }
        }
        while !Expectations::is(&self.expectations.pause) {
            let rests = self.expectations.done.load(Ordering::Relaxed)
                >= self.expectations.allowed.load(Ordering::Relaxed);
            let looks = self.model().is_unverified() && (rests || before_a_look == 0);
            if looks && let Next::Leave = self.verify(session).await? {
                return Ok(());
            }
            if looks && self.model().is_unverified() || rests {
                self.core.sleep(RESTING).await;
                continue;
            }
            before_a_look = before_a_look.saturating_sub(1);
            if self.one_in(3) {
                let pause = Duration::from_micros(self.below(3000));
                self.core.sleep(pause).await;
            }
            if let Next::Leave = self.act(session).await? {
                return Ok(());
            }
            self.expectations.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// One operation.
    async fn act(&self, session: &Session) -> std::result::Result<Next, Failure> {
        let names = self.model().names().clone();
        let pick = |below: u64| usize::try_from(self.below(below)).expect("small");
        let chosen = (!names.0.is_empty()).then(|| {
            let (name, (file, size)) =
                names.0.iter().nth(pick(names.0.len() as u64)).expect("below their number");
            (name.clone(), *file, *size)
        });
        let Some((name, file, size)) = chosen else { return self.create(session, &names).await };
        let sectors = self.profile.sectors;
        let act = if Expectations::is(&self.expectations.burst) && size > 0 {
            [Act::Read, Act::Together, Act::Page, Act::Page][pick(4)]
        } else if Expectations::is(&self.expectations.churn) {
            [Act::Unlink, Act::Extend, Act::Extend, Act::Truncate, Act::Create][pick(5)]
        } else {
            self.profile.act(|limit| self.below(limit))
        };
        match act {
            Act::Create if (names.0.len() as u64) < self.profile.files => {
                self.create(session, &names).await
            }
            Act::Create | Act::Unlink => self.unlink(session, &names, &name).await,
            Act::Rename => self.rename(session, &names, &name).await,
            Act::Truncate => self.truncate(session, &names, &name).await,
            Act::Punch => {
                let next = self.punch(session, &name, file, size).await?;
                if matches!(next, Next::GoOn) && self.one_in(3) {
                    self.sync(session, &name, file).await
                } else {
                    Ok(next)
                }
            }
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
            Act::Together => self.write_together(session, &name, file, size).await,
            Act::Exchange => self.exchange_names(session, &names, &name).await,
            Act::Link => self.link(session, &names, &name).await,
            Act::Zero => self.zero(session, &names, &name).await,
            Act::Cut => self.cut(session, &names, &name).await,
            Act::Odd => self.write_oddly(session, &names, &name).await,
            Act::Race => self.race(session, &name, file, size).await,
            Act::Directory => self.change_directory(session, &names).await,
            Act::WriteGone => self.write_what_goes(session, &names, &name).await,
        }
    }

    async fn node(&self, session: &Session, name: &str) -> Result<Node> {
        let (directory, name) = self.place(session, name).await?;
        session.lookup(directory, name.as_bytes()).await.map(|attributes| attributes.node)
    }

    async fn attributes(&self, session: &Session, name: &str) -> Result<Attributes> {
        let node = self.node(session, name).await?;
        session.attributes(node).await
    }

    /// A buffer of `count` sectors, and how many of its bytes were read.
    async fn read_sectors(
        &self,
        session: &Session,
        name: &str,
        first: u64,
        count: u64,
    ) -> Result<(Vec<u8>, usize)> {
        let mut bytes = vec![0xee; usize::try_from(count).expect("small") * SECTOR];
        let node = self.node(session, name).await?;
        let length = session.read(node, first * SECTOR as u64, &mut bytes).await?;
        Ok((bytes, length))
    }

    fn full(&self, name: &str) -> String {
        format!("c{}.{name}", self.number)
    }

    /// Whether an error means that the group is being dismounted, with the operation in flight: the
    /// process ends soon.
    fn is_sent_away(&self, error: &FileError) -> bool {
        match error {
            FileError::Dismounted => Expectations::is(&self.expectations.pause),
            FileError::CatalogStopped(_) => {
                Expectations::is(&self.expectations.pause)
                    || Expectations::is(&self.expectations.tolerates_errors)
            }
            FileError::Catalog(_) => Expectations::is(&self.expectations.tolerates_errors),
            _ => false,
        }
    }

    /// Whether an error may reach a program while a disk that cannot be spared fails.
    fn is_excused(&self, error: &FileError) -> bool {
        let of_a_disk = matches!(
            error,
            FileError::Disk(_)
                | FileError::Refused { .. }
                | FileError::ExtentLost { .. }
                | FileError::SnapshotTooOld
        );
        let is_unkept = matches!(error, FileError::SizeKept(_)) && self.core.fails_midway();
        // Reported by the file's next sync, whenever that is.
        let is_of_before = matches!(error, FileError::Refused { disk, .. } if disk == LOST_BEFORE);
        of_a_disk && Expectations::is(&self.expectations.tolerates_errors)
            || is_unkept
            || is_of_before
    }

    /// The consequence of an operation's end.
    fn end(&self, what: &str, ended: Result<()>) -> std::result::Result<Next, Failure> {
        match ended {
            Ok(()) => {
                self.model().acknowledge();
                Ok(Next::GoOn)
            }
            // Whether it happened is unknown; the next mount will show it.
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

    /// Sends a request once, or twice at the same time, as a client does that sends it again; then
    /// one of the two answers may be that nothing was left to do.
    async fn ask<F>(&self, ask: impl Fn() -> F, done_already: fn(&FileError) -> bool) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        if !Expectations::is(&self.expectations.twice) {
            return ask().await;
        }
        match futures::join!(ask(), ask()) {
            (Ok(()), Err(error)) | (Err(error), Ok(())) if done_already(&error) => Ok(()),
            // One got the last space, the other none.
            (Ok(()), Err(FileError::NoSpace)) | (Err(FileError::NoSpace), Ok(())) => Ok(()),
            (one, other) => one.and(other),
        }
    }

    /// The same for a request that changes something: if one of the two was carried out, the change
    /// was made, whatever the other returned.
    async fn ask_for_change<F>(
        &self,
        ask: impl Fn() -> F,
        done_already: fn(&FileError) -> bool,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let done = AtomicBool::new(false);
        let change = || async {
            ask().await?;
            done.store(true, Ordering::Relaxed);
            Ok(())
        };
        match self.ask(change, done_already).await {
            Err(error)
                if done.load(Ordering::Relaxed)
                    && self.is_excused(&error)
                    && !self.is_sent_away(&error) =>
            {
                Ok(())
            }
            ended => ended,
        }
    }

    async fn create(&self, session: &Session, names: &Names) -> std::result::Result<Next, Failure> {
        let name = self.some_name();
        if names.0.contains_key(&name) || !self.has_place(session, &name).await? {
            return Ok(Next::GoOn);
        }
        // Two names of a striped file would collide if the request is sent twice.
        let is_striped =
            self.profile.is_wild && self.one_in(4) && !Expectations::is(&self.expectations.twice);
        self.core.tell(|| {
            format!(
                "client {}: create {name}{}",
                self.number,
                if is_striped { ", striped" } else { "" }
            )
        });
        let mut next = names.clone();
        let file = {
            let mut model = self.model();
            let file = model.new_file();
            next.0.insert(name.clone(), (file, 0));
            model.begin(Some(next), None);
            file
        };
        if is_striped {
            return self.create_striped(session, file, &self.full(&name)).await;
        }
        let make = || async {
            let (directory, name) = self.place(session, &name).await?;
            let made = session
                .create(directory, name.as_bytes(), NewFile::Regular, mode_of(file), CALLER)
                .await?;
            self.model().note_name(file, made.node);
            Ok(())
        };
        self.end(
            "create",
            self.ask_for_change(make, |error| matches!(error, FileError::Exists)).await,
        )
    }

    async fn unlink(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        self.core.tell(|| format!("client {}: unlink {name}", self.number));
        let mut next = names.clone();
        next.0.remove(name);
        self.model().begin(Some(next), None);
        let remove = || self.remove(session, name);
        let removing = self.ask_for_change(remove, |error| matches!(error, FileError::NotFound));
        let Some((file, size)) = names.0.get(name).copied().filter(|_| self.one_in(3)) else {
            return self.end("unlink", removing.await);
        };
        // A request reads the file meanwhile that has nothing of it cached.
        let removing = async {
            self.core.sleep(Duration::from_micros(self.below(300))).await;
            removing.await
        };
        let (read, removed) =
            futures::join!(self.read_while_it_goes(session, name, file, size), removing);
        read?;
        self.end("unlink", removed)
    }

    async fn remove(&self, session: &Session, name: &str) -> Result<()> {
        let (directory, name) = self.place(session, name).await?;
        session.unlink(directory, name.as_bytes()).await
    }

    /// Reads some of a file that is being removed: the read returns the file's bytes, or zeros.
    async fn read_while_it_goes(
        &self,
        session: &Session,
        name: &str,
        file: FileId,
        size: u64,
    ) -> std::result::Result<(), Failure> {
        let first = self.below(size / SECTOR as u64 + 1);
        let mut bytes = vec![0xee; usize::try_from(1 + self.below(300)).expect("small") * SECTOR];
        let Ok(node) = self.node(session, name).await else { return Ok(()) };
        for _ in 0..1 + self.below(4) {
            // The file may be gone by now, or the disk.
            let Ok(length) = session.read(node, first * SECTOR as u64, &mut bytes).await else {
                return Ok(());
            };
            let when = self.seen();
            let model = self.model();
            for (sector, number) in bytes[..length].chunks(SECTOR).zip(first..) {
                if sector.iter().any(|byte| *byte != 0) {
                    let looked = model.read_beside(file, number, sector, when);
                    looked.map_err(|wrong| {
                        format!("{name} (#{file}) while it is removed: {wrong}")
                    })?;
                }
            }
        }
        Ok(())
    }

    async fn rename(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let to = self.some_name();
        if !self.has_place(session, &to).await? {
            return Ok(Next::GoOn);
        }
        self.core.tell(|| format!("client {}: rename {name} to {to}", self.number));
        let mut next = names.clone();
        let is_same = names
            .0
            .get(&to)
            .is_some_and(|(onto, _)| names.0.get(name).is_some_and(|(file, _)| file == onto));
        // If both names are of one file, both stay.
        if let Some(entry) = next.0.remove(name).filter(|_| !is_same) {
            next.0.insert(to.clone(), entry);
        } else {
            next = names.clone();
        }
        self.model().begin(Some(next), None);
        let rename = || self.move_name(session, name, &to, RenameMode::Replace);
        self.end(
            "rename",
            self.ask_for_change(rename, |error| matches!(error, FileError::NotFound)).await,
        )
    }

    async fn move_name(
        &self,
        session: &Session,
        from: &str,
        to: &str,
        mode: RenameMode,
    ) -> Result<()> {
        let (from, name) = self.place(session, from).await?;
        let (onto, as_name) = self.place(session, to).await?;
        session.rename((from, name.as_bytes()), (onto, as_name.as_bytes()), mode).await
    }

    async fn truncate(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let mut next = names.clone();
        let Some((file, old)) = next.0.get(name).copied() else { return Ok(Next::GoOn) };
        let limit = if self.one_in(2) { old / SECTOR as u64 + 1 } else { self.profile.sectors };
        let sectors = self.below(limit);
        let size = sectors * SECTOR as u64;
        self.core.tell(|| format!("client {}: truncate {name} from {old} to {size}", self.number));
        next.resize(file, size);
        {
            let mut model = self.model();
            let gone =
                (sectors..old.div_ceil(SECTOR as u64)).map(|sector| (sector, zeros())).collect();
            model.begin(Some(next), Some((file, gone)));
        }
        let cut = || async {
            let node = self.node(session, name).await?;
            session
                .change(node, Changes { size: Some(size), ..Changes::default() })
                .await
                .map(|_| ())
        };
        self.end("truncate", self.ask_for_change(cut, |_| false).await)
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
        self.core
            .tell(|| format!("client {}: punch {count} sectors of {name} at {first}", self.number));
        let gone = (first..first + count).map(|sector| (sector, zeros())).collect();
        self.model().begin(None, Some((file, gone)));
        let punch = || async {
            let node = self.node(session, name).await?;
            session
                .allocate(
                    node,
                    first * SECTOR as u64,
                    count * SECTOR as u64,
                    Allocate::PunchHole,
                    false,
                )
                .await
        };
        self.end("punch", self.ask_for_change(punch, |_| false).await)
    }

    async fn reserve(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let mut next = names.clone();
        let Some((file, old)) = next.0.get(name).copied() else { return Ok(Next::GoOn) };
        let size = old.max(self.below(self.profile.sectors) * SECTOR as u64);
        self.core.tell(|| format!("client {}: reserve {name} up to {size}", self.number));
        next.resize(file, size);
        self.model().begin(Some(next), None);
        let reserve = || async {
            let node = self.node(session, name).await?;
            session
                .allocate(node, 0, size.max(1), Allocate::Reserve { keep_size: size == 0 }, false)
                .await
        };
        self.end("reserve", self.ask_for_change(reserve, |_| false).await)
    }

    /// Appends to the file as to a log, and makes it durable.
    async fn append(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let Some((file, size)) = names.0.get(name).copied() else { return Ok(Next::GoOn) };
        if size / SECTOR as u64 >= self.profile.sectors {
            return Ok(Next::GoOn);
        }
        let next = self.write(session, names, name, size, 1 + self.below(32)).await?;
        let syncs = self.profile.sync.is_due(|limit| self.below(limit));
        if matches!(next, Next::GoOn) && syncs {
            self.sync(session, name, file).await
        } else {
            Ok(next)
        }
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
        let count = count.min(self.profile.sectors.saturating_sub(first)).max(1);
        let end = (first + count) * SECTOR as u64;
        let tag = lock(&self.numbers).draw();
        // Now and then not in whole sectors: the rest of the sector stays, so it must be known.
        let (offset, cut) =
            (first * SECTOR as u64, self.one_in(5) && self.model().is_certain(file, first));
        let skip = if cut { usize::try_from(self.below(SECTOR as u64)).expect("small") } else { 0 };
        self.core.tell(|| {
            let odd = if cut { " oddly" } else { "" };
            format!(
                "client {}: write {count} sectors of {name} (#{file}) at {first}{odd}: {tag:016x}",
                self.number
            )
        });
        let (bytes, sectors) = self.content(file, first..first + count, skip, tag);
        let grown = end > size;
        next.resize(file, size.max(end));
        self.model().begin(grown.then_some(next), Some((file, sectors)));
        // As a program does that has opened the file with O_DSYNC.
        let (turn, durably) = (self.model().turn(), self.one_in(8));
        let write = || async {
            let node = self.node(session, name).await?;
            let at = offset + skip as u64;
            if durably {
                session
                    .write_durably(node, at, Source::Bytes((&bytes).into()), false, self.one_in(2))
                    .await
            } else {
                session.write(node, at, &bytes, false).await
            }
        };
        let ended = self.ask_for_change(write, |_| false).await;
        let failed = ended.as_ref().is_err_and(|error| self.is_excused(error));
        let is_done = ended.is_ok();
        let next = self.end_of_write(session, name, ended, durably).await?;
        if durably && is_done {
            self.is_synced(Some(file), turn);
        } else if durably && failed {
            let mut model = self.model();
            // Before the model forgets which part of it is durable.
            model.lose(file, first..first + count, size.max(end));
            model.sync_failed(file);
        }
        if failed && matches!(next, Next::GoOn) {
            self.look_again(session, name, first, count).await
        } else {
            Ok(next)
        }
    }

    /// Handles the end of a write that may have made the file longer, with a sync of it if it was
    /// to be durable.
    async fn end_of_write(
        &self,
        session: &Session,
        name: &str,
        ended: Result<()>,
        durably: bool,
    ) -> std::result::Result<Next, Failure> {
        // There may have been no space for the sync alone.
        let may_hold = |error: &&FileError| {
            self.is_excused(error) || durably && matches!(error, FileError::NoSpace)
        };
        let Some(error) = ended.as_ref().err().filter(may_hold) else {
            return self.end("write", ended);
        };
        if self.has_next_size(session, name).await {
            self.core.tell(|| format!("client {}: write: {error}; the size holds", self.number));
            if session.sync_directory(ROOT).await.is_err() {
                // The size was seen before it was committed, and may never be committed.
                return Ok(Next::Leave);
            }
            self.model().refuse_but_named();
            Ok(Next::GoOn)
        } else {
            self.end("write", ended)
        }
    }

    /// Reads the range of a write that failed, twice: it does not change any more.
    async fn look_again(
        &self,
        session: &Session,
        name: &str,
        first: u64,
        count: u64,
    ) -> std::result::Result<Next, Failure> {
        let Some((file, size)) = self.model().names().0.get(name).copied() else {
            return Ok(Next::GoOn);
        };
        for _ in 0..self.below(4) {
            if let Next::Leave = self.read(session, name, file, size, first, count, false).await? {
                return Ok(Next::Leave);
            }
        }
        Ok(Next::GoOn)
    }

    /// The contents of these sectors after a write, but for the first `skip` bytes: as bytes, and
    /// sector by sector.
    fn content(
        &self,
        file: FileId,
        range: Range<u64>,
        skip: usize,
        tag: u64,
    ) -> (Vec<u8>, Vec<(u64, Content)>) {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).expect("small") * SECTOR];
        for (number, content) in range.clone().zip(bytes.chunks_mut(SECTOR)) {
            let from = if number == range.start { skip } else { 0 };
            content[..from].copy_from_slice(&self.model().sector(file, number)[..from]);
            pattern(tag, number, &mut content[from..]);
        }
        let sectors = range.zip(Content::split(&bytes)).collect();
        bytes.drain(..skip);
        (bytes, sectors)
    }

    /// Several writes at once, as from several backends, to neighbours that often share a block,
    /// with a read beside them.
    async fn write_together(
        &self,
        session: &Session,
        name: &str,
        file: FileId,
        size: u64,
    ) -> std::result::Result<Next, Failure> {
        let end = size / SECTOR as u64;
        let first = self.below(end.max(1));
        let (mut at, mut parts, mut all) = (first, Vec::new(), Vec::new());
        for _ in 0..2 + self.below(4) {
            let range = at..end.min(at + 1 + self.below(20));
            if range.is_empty() {
                break;
            }
            at = range.end + self.below(3);
            let tag = lock(&self.numbers).draw();
            self.core.tell(|| {
                format!(
                    "client {}: write sectors {range:?} of {name} (#{file}): {tag:016x}",
                    self.number
                )
            });
            let (bytes, sectors) = self.content(file, range.clone(), 0, tag);
            parts.push((range.start * SECTOR as u64, bytes));
            all.extend(sectors);
        }
        if parts.is_empty() {
            return Ok(Next::GoOn);
        }
        let node = match self.node(session, name).await {
            Ok(node) => node,
            Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
            Err(error) => return Err(format!("lookup of {name}: {error}")),
        };
        self.model().begin(None, Some((file, all)));
        let writes = parts.iter().map(|(offset, bytes)| {
            self.ask_for_change(|| session.write(node, *offset, bytes, false), |_| false)
        });
        let mut seen = vec![0xee; usize::try_from(at.min(end) - first).expect("small") * SECTOR];
        let read = session.read(node, first * SECTOR as u64, &mut seen);
        let (written, read) = futures::join!(futures::future::join_all(writes), read);
        match read {
            Ok(length) if length != seen.len() => {
                return Err(format!(
                    "read of {name} at {first} beside writes: {length} bytes, not {}",
                    seen.len()
                ));
            }
            Ok(_) => {
                let when = self.seen();
                let model = self.model();
                for (sector, number) in seen.chunks(SECTOR).zip(first..) {
                    let looked = model.read_beside(file, number, sector, when);
                    looked.map_err(|wrong| format!("{name} (#{file}) beside writes: {wrong}"))?;
                }
            }
            Err(error) if self.is_sent_away(&error) || self.is_excused(&error) => {}
            Err(error) => return Err(format!("read of {name} beside writes: {error}")),
        }
        let written: Result<()> = written.into_iter().collect();
        let failed = written.as_ref().is_err_and(|error| self.is_excused(error));
        let next = self.end("writes at once", written)?;
        if failed {
            self.look_again(session, name, first, at.min(end) - first).await
        } else {
            Ok(next)
        }
    }

    /// The states that a read may show now.
    fn seen(&self) -> Seen {
        match (Expectations::is(&self.expectations.reads_may_change), self.model().is_unverified())
        {
            (true, _) => Seen::InDoubt,
            (false, true) => Seen::AfterMount,
            (false, false) => Seen::Now,
        }
    }

    /// Whether a file is as large as the operation in flight would leave it.
    async fn has_next_size(&self, session: &Session, name: &str) -> bool {
        let wanted =
            self.model().next_names().and_then(|names| names.0.get(name).map(|(_, size)| *size));
        wanted.is_some()
            && self.attributes(session, name).await.ok().map(|attributes| attributes.size) == wanted
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
        if size < SECTOR as u64 {
            return self.append(session, names, name).await;
        }
        // As a database writes its files; or, now and then, as it reuses a log.
        let (rounds, most) = if self.one_in(3) { (3 + self.below(6), 2) } else { (1, 5) };
        for _ in 0..rounds {
            for _ in 0..1 + self.below(most) {
                let at = self.below(size / SECTOR as u64) / 16 * 16;
                let names = self.model().names().clone();
                if let Next::Leave =
                    self.write(session, &names, name, at * SECTOR as u64, 16).await?
                {
                    return Ok(Next::Leave);
                }
            }
            if let Next::Leave = self.sync(session, name, file).await? {
                return Ok(Next::Leave);
            }
        }
        Ok(Next::GoOn)
    }

    async fn sync(
        &self,
        session: &Session,
        name: &str,
        file: FileId,
    ) -> std::result::Result<Next, Failure> {
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

    /// A sync was acknowledged.
    fn is_synced(&self, file: Option<FileId>, turn: Turn) {
        self.model().synced(file, turn, Expectations::is(&self.expectations.tolerates_errors));
        self.expectations.synced.fetch_add(1, Ordering::Relaxed);
    }

    fn synced(
        &self,
        what: &str,
        ended: Result<()>,
        file: Option<FileId>,
        turn: Turn,
    ) -> std::result::Result<Next, Failure> {
        match ended {
            Ok(()) => self.is_synced(file, turn),
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
        let (bytes, length) = match self.read_sectors(session, name, first, count).await {
            Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
            Err(error) if self.is_excused(&error) => return Ok(Next::GoOn),
            read => read.map_err(|error| format!("read of {name}: {error}"))?,
        };
        let expected = size.saturating_sub(first * SECTOR as u64).min(bytes.len() as u64);
        if length as u64 != expected {
            return Err(format!("read of {name} at {first}: {length} bytes, not {expected}"));
        }
        if self.one_in(8)
            && let Next::Leave =
                self.seek_holes(session, name, first * SECTOR as u64, &bytes[..length]).await?
        {
            return Ok(Next::Leave);
        }
        let seen = if after_mount { Seen::AfterMount } else { self.seen() };
        let mut model = self.model();
        for (sector, number) in bytes[..length].chunks(SECTOR).zip(first..) {
            model
                .read(file, number, sector, seen)
                .map_err(|wrong| format!("{name} (#{file}): {wrong}"))?;
        }
        Ok(Next::GoOn)
    }

    /// Looks for the first holes behind an offset: the model must have zeros there.
    async fn seek_holes(
        &self,
        session: &Session,
        name: &str,
        from: u64,
        bytes: &[u8],
    ) -> std::result::Result<Next, Failure> {
        let mut at = from;
        for _ in 0..SEEKS_MAX {
            let sought = async {
                let node = self.node(session, name).await?;
                let data = match session.seek(node, at, Seek::Data).await {
                    Err(FileError::NoData) => return Ok((from + bytes.len() as u64, None)),
                    data => data?,
                };
                Ok((data, Some(session.seek(node, data, Seek::Hole).await?)))
            };
            let (data, hole) = match sought.await {
                Ok(found) => found,
                Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
                Err(error) if self.is_excused(&error) => return Ok(Next::GoOn),
                Err(error) => return Err(format!("seek in {name}: {error}")),
            };
            let inside =
                |at: u64| usize::try_from(at - from).expect("it lies behind").min(bytes.len());
            if bytes[inside(at)..inside(data)].iter().any(|byte| *byte != 0) {
                return Err(format!(
                    "{name} has a hole from {at} to {data}, and bytes that are no zeros are read there"
                ));
            }
            match hole {
                Some(hole) if hole > data && inside(hole) < bytes.len() => at = hole,
                Some(hole) if hole <= data => {
                    return Err(format!("{name}: no data from {data} to {hole}"));
                }
                _ => break,
            }
        }
        Ok(Next::GoOn)
    }

    /// The files that are there, and their sizes. The first listing after a mount settles which
    /// state is real.
    async fn list(&self, session: &Session) -> std::result::Result<Listed, Failure> {
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
                        let size = session.attributes(entry.node).await?.size;
                        found.insert(name.to_owned(), (entry.node, size));
                    }
                }
                if entries.len() < 64 {
                    self.list_directories(session, &mut found).await?;
                    return Ok::<_, FileError>(found);
                }
            }
        };
        let found = match found.await {
            Ok(found) => found,
            // The next mount will show it.
            Err(error) if self.is_sent_away(&error) => return Ok(Listed::Leave),
            Err(error) if self.is_excused(&error) => return Ok(Listed::Nothing),
            Err(error) => return Err(format!("listing: {error}")),
        };
        if !self.model().is_listed() {
            self.model().found(&found)?;
        }
        Ok(Listed::Files(found))
    }

    /// Everything is there, as the client left it.
    pub async fn verify(&self, session: &Session) -> std::result::Result<Next, Failure> {
        let found = match self.list(session).await? {
            Listed::Files(found) => found,
            Listed::Nothing => return Ok(Next::GoOn),
            Listed::Leave => return Ok(Next::Leave),
        };
        let (names, after_mount) = {
            let model = self.model();
            (model.names().clone(), model.is_unverified())
        };
        if let Some(name) = found.keys().find(|name| !names.0.contains_key(*name)) {
            return Err(format!("{name} is there, and was removed or never made"));
        }
        if let Next::Leave = self.verify_names(session, &names).await? {
            return Ok(Next::Leave);
        }
        let mut lost = Vec::new();
        for (name, (file, size)) in &names.0 {
            let there = found.get(name).map(|(_, size)| size);
            if there != Some(size) {
                return Err(format!("{name} has {there:?} bytes, not {size}"));
            }
            let all = size.div_ceil(SECTOR as u64).max(1);
            // In parts, so that an unreadable one hides no others.
            let mut first = 0;
            while first < all {
                let count = (all - first).min(VERIFY_SECTORS);
                if Expectations::is(&self.expectations.restores)
                    && self.is_lost(session, name, first, count).await
                {
                    lost.push((name, first, count));
                }
                if let Next::Leave =
                    self.read(session, name, *file, *size, first, count, after_mount).await?
                {
                    return Ok(Next::Leave);
                }
                first += count;
            }
        }
        for (name, first, count) in lost {
            if let Next::Leave = Box::pin(self.restore(session, name, first, count)).await? {
                return Ok(Next::Leave);
            }
            // A loss of power before that brings back the unreadable blocks.
            let file = self.model().names().0.get(name).map(|(file, _)| *file);
            if let Some(file) = file
                && let Next::Leave = self.sync(session, name, file).await?
            {
                return Ok(Next::Leave);
            }
        }
        if after_mount {
            self.model().verified();
        }
        Ok(Next::GoOn)
    }

    /// Whether some of these sectors are on no mirror any more.
    async fn is_lost(&self, session: &Session, name: &str, first: u64, count: u64) -> bool {
        matches!(
            self.read_sectors(session, name, first, count).await,
            Err(FileError::ExtentLost { .. })
        )
    }

    /// A whole block of one of its files, and its contents: no other block has the same bytes.
    pub fn some_block(&self) -> Option<(String, u64, Vec<u8>)> {
        let model = self.model();
        let blocks = model.names().0.iter().flat_map(|(name, (file, size))| {
            (0..size / (BLOCK_SECTORS * SECTOR as u64)).map(move |block| (name, *file, block))
        });
        let is_known = |(_, file, block): &(&String, FileId, u64)| {
            (block * BLOCK_SECTORS..(block + 1) * BLOCK_SECTORS).all(|number| {
                model.is_certain(*file, number)
                    && model.sector(*file, number).iter().any(|byte| *byte != 0)
            })
        };
        let known: Vec<_> = blocks.filter(is_known).collect();
        let (name, file, block) =
            known.get(usize::try_from(self.below(known.len().max(1) as u64)).expect("small"))?;
        let sectors = block * BLOCK_SECTORS..(block + 1) * BLOCK_SECTORS;
        let content = sectors.flat_map(|number| model.sector(*file, number).to_vec()).collect();
        Some(((*name).clone(), *block, content))
    }

    /// Writes a whole block anew and returns its new contents. `None`: there is no such block any
    /// more, or the write failed.
    pub async fn rewrite(
        &self,
        session: &Session,
        name: &str,
        block: u64,
    ) -> std::result::Result<Option<Vec<u8>>, Failure> {
        let names = self.model().names().clone();
        let sectors = block * BLOCK_SECTORS..(block + 1) * BLOCK_SECTORS;
        let Some((file, size)) = names.0.get(name).copied() else { return Ok(None) };
        if size < sectors.end * SECTOR as u64 {
            return Ok(None);
        }
        self.write(session, &names, name, sectors.start * SECTOR as u64, BLOCK_SECTORS).await?;
        let model = self.model();
        if !sectors.clone().all(|number| model.is_certain(file, number)) {
            return Ok(None);
        }
        Ok(Some(sectors.flat_map(|number| model.sector(file, number).to_vec()).collect()))
    }

    /// The file that has a name.
    pub fn file_of(&self, name: &str) -> Option<FileId> {
        self.model().names().0.get(name).map(|(file, _)| *file)
    }

    /// The name that a file has.
    pub fn name_of(&self, file: FileId) -> Option<String> {
        let model = self.model();
        let names = model.names();
        names.0.iter().find(|(_, (other, _))| *other == file).map(|(name, _)| name.clone())
    }

    /// A disk has lost the last write of a block, with its checksums: readers see that write, or
    /// this one.
    pub fn may_be(&self, name: &str, block: u64, old: &[u8]) {
        let mut model = self.model();
        let Some((file, _)) = model.names().0.get(name).copied() else { return };
        for (number, content) in (block * BLOCK_SECTORS..).zip(Content::split(old)) {
            model.may_be(file, number, content);
        }
    }

    /// Reads a lost block again and again, and writes it anew.
    pub async fn lose_and_restore(
        &self,
        session: &Session,
        name: &str,
        block: u64,
    ) -> std::result::Result<(), Failure> {
        for _ in 0..3 {
            if !self.is_lost(session, name, block * BLOCK_SECTORS, BLOCK_SECTORS).await {
                return Err(format!(
                    "block {block} of {name} is noise on every mirror, and can be read"
                ));
            }
        }
        Box::pin(self.restore(session, name, block * BLOCK_SECTORS, BLOCK_SECTORS))
            .await
            .map(|_| ())
    }

    /// Restores as an operator with a backup does: lost blocks are written anew, or the file is
    /// removed: the last block of a file that may not grow is never written whole.
    async fn restore(
        &self,
        session: &Session,
        name: &str,
        first: u64,
        count: u64,
    ) -> std::result::Result<Next, Failure> {
        for block in first / BLOCK_SECTORS..(first + count).div_ceil(BLOCK_SECTORS) {
            let mut tries = 0;
            while self.is_lost(session, name, block * BLOCK_SECTORS, BLOCK_SECTORS).await {
                let names = self.model().names().clone();
                let offset = block * BLOCK_SECTORS * SECTOR as u64;
                tries += 1;
                let ended = if tries <= RESTORE_TRIES {
                    self.write(session, &names, name, offset, BLOCK_SECTORS).await?
                } else {
                    self.unlink(session, &names, name).await?
                };
                if let Next::Leave = ended {
                    return Ok(Next::Leave);
                }
            }
        }
        Ok(Next::GoOn)
    }
}

/// Whether a client has more to do in this process.
pub enum Next {
    GoOn,
    Leave,
}

/// Holes that a client looks for in the range of one read.
const SEEKS_MAX: u32 = 4;

/// The result of listing a client's directory.
enum Listed {
    Files(BTreeMap<String, (Node, u64)>),
    /// It cannot be read for now.
    Nothing,
    Leave,
}

/// The mode that a file is made with.
fn mode_of(file: FileId) -> u32 {
    0o600 + u32::try_from(file % 64).expect("small")
}

/// How long a client rests before it checks whether it may go on.
const RESTING: Duration = Duration::from_millis(20);

/// Sectors of a block with its own checksum.
const BLOCK_SECTORS: u64 = 8;

/// How often a lost block is written.
const RESTORE_TRIES: u64 = 5;

/// Sectors that a look at everything reads at once.
const VERIFY_SECTORS: u64 = 2048;

/// Bytes that name the write and the sector they belong to.
fn pattern(tag: u64, sector: u64, into: &mut [u8]) {
    let seed = tag ^ sector.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Numbers::new(seed).fill(into);
    let length = into.len().min(8);
    into[..length].copy_from_slice(&tag.to_be_bytes()[..length]);
}
