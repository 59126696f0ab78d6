//! Operations that few programs use: several names for a file, file sizes that are not whole
//! sectors, and several requests at once for the same bytes.

use super::{CALLER, Client, Expectations, FileError, Next, Result, mode_of, pattern};
use crate::{
    history::Failure,
    model::{Content, FileId, Names, SECTOR, zeros},
};
use plinth_engine::{
    admin::Code,
    api::{Allocate, Changes, Node, ROOT, RenameMode},
    files::{session::Session, statements::NewSystemFile},
    world::Timestamp,
};
use plinth_workload::lock;
use std::ops::Range;

/// Names that do not exist, looked up in one look.
const ABSENT: u64 = 3;

/// A request that is in flight together with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rival {
    Punch,
    Zero,
    Write,
    /// A sync, which need not cover the write.
    Sync,
}

fn bytes_of(sectors: u64) -> u64 {
    sectors * SECTOR as u64
}

impl Client {
    /// A file that is striped finely and has more mirrors than others, where the group can have
    /// them.
    pub(super) async fn create_striped(
        &self,
        session: &Session,
        file: FileId,
        full: &str,
    ) -> std::result::Result<Next, Failure> {
        let new = NewSystemFile {
            template: Some("CONTROLFILE".to_owned()),
            alias: Some(format!("+{}/{full}", self.group)),
            ..NewSystemFile::default()
        };
        self.model().has_more_names(file);
        let made = match session.create_system(new, b"", mode_of(file), CALLER).await {
            Err(FileError::Order(error)) if error.code == Code::NotEnoughFailureGroups => {
                self.model().refuse();
                return Ok(Next::GoOn);
            }
            made => made,
        };
        let path = made.as_ref().map(|(_, path)| path.clone()).unwrap_or_default();
        if let Ok((made, _)) = &made {
            self.model().note_name(file, made.node);
        }
        let next = self.end("create", made.map(|_| ()))?;
        // The name that the system gave the file does not keep it when the other one is removed. It
        // stays where that cannot be done now.
        let mut parts: Vec<&str> = path.split('/').skip(1).collect();
        if let Some(last) = parts.pop() {
            let mut directory = Ok(ROOT);
            for part in parts {
                if let Ok(at) = directory {
                    directory = session.lookup(at, part.as_bytes()).await.map(|found| found.node);
                }
            }
            if let Ok(at) = directory {
                let _ = session.unlink(at, last.as_bytes()).await;
            }
        }
        Ok(next)
    }

    /// Two files change names.
    pub(super) async fn exchange_names(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let at = usize::try_from(self.below(names.0.len() as u64)).expect("small");
        let other = names.0.keys().nth(at).expect("below their number").clone();
        // Sent twice it would be undone.
        if other == name || Expectations::is(&self.expectations.twice) {
            return Ok(Next::GoOn);
        }
        self.core.tell(|| format!("client {}: exchange {name} and {other}", self.number));
        let mut next = names.clone();
        let (one, two) = (names.0[name], names.0[&other]);
        next.0.insert(name.to_owned(), two);
        next.0.insert(other.clone(), one);
        self.model().begin(Some(next), None);
        self.end("exchange", self.move_name(session, name, &other, RenameMode::Exchange).await)
    }

    /// Another name for a file.
    pub(super) async fn link(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let to = self.some_name();
        if names.0.contains_key(&to) || !self.has_place(session, &to).await? {
            return Ok(Next::GoOn);
        }
        self.core.tell(|| format!("client {}: link {name} as {to}", self.number));
        let mut next = names.clone();
        next.0.insert(to.clone(), names.0[name]);
        self.model().begin(Some(next), None);
        let link = || async {
            let node = self.node(session, name).await?;
            let (directory, to) = self.place(session, &to).await?;
            session.link(node, directory, to.as_bytes()).await.map(|_| ())
        };
        self.end(
            "link",
            self.ask_for_change(link, |error| matches!(error, FileError::Exists)).await,
        )
    }

    /// Zeros are written without bytes.
    pub(super) async fn zero(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let (file, size) = names.0[name];
        let first = self.below(size / SECTOR as u64 + 2);
        let count = (1 + self.below(600)).min(self.profile.sectors.saturating_sub(first)).max(1);
        let keep_size = self.one_in(2);
        self.core
            .tell(|| format!("client {}: zero {count} sectors of {name} at {first}", self.number));
        let end = bytes_of(first + count);
        let size = if keep_size { size } else { size.max(end) };
        let mut next = names.clone();
        next.resize(file, size);
        let gone = (first..(first + count).min(size.div_ceil(SECTOR as u64)))
            .map(|sector| (sector, zeros()))
            .collect();
        let is_new = next != *names;
        self.model().begin(is_new.then_some(next), Some((file, gone)));
        let zero = || async {
            let node = self.node(session, name).await?;
            session
                .allocate(
                    node,
                    bytes_of(first),
                    bytes_of(count),
                    Allocate::ZeroRange { keep_size },
                    false,
                )
                .await
        };
        self.end("zero", self.ask_for_change(zero, |_| false).await)
    }

    /// The file ends in the middle of a sector.
    pub(super) async fn cut(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let (file, old) = names.0[name];
        let limit = if self.one_in(2) { old + 1 } else { bytes_of(self.profile.sectors) };
        let size = self.below(limit);
        let last = size / SECTOR as u64;
        if !self.model().is_certain(file, last) {
            return Ok(Next::GoOn);
        }
        self.core.tell(|| format!("client {}: cut {name} from {old} to {size}", self.number));
        let mut next = names.clone();
        next.resize(file, size);
        {
            let mut model = self.model();
            let gone = self.cut_off(&model.sector(file, last), size, old);
            model.begin(Some(next), Some((file, gone)));
        }
        let cut = || async {
            let node = self.node(session, name).await?;
            session
                .change(node, Changes { size: Some(size), ..Changes::default() })
                .await
                .map(|_| ())
        };
        self.end("cut", self.ask_for_change(cut, |_| false).await)
    }

    /// The sectors of a file after it is cut at a size: `last` was the one in which it ends then.
    fn cut_off(&self, last: &Content, size: u64, old: u64) -> Vec<(u64, Content)> {
        let inside = usize::try_from(size % SECTOR as u64).expect("below a sector");
        let number = size / SECTOR as u64;
        let mut gone: Vec<_> = (size.div_ceil(SECTOR as u64)..old.div_ceil(SECTOR as u64))
            .map(|sector| (sector, zeros()))
            .collect();
        if inside > 0 && number < old.div_ceil(SECTOR as u64) {
            gone.push((number, last.cut_at(inside)));
        }
        gone
    }

    /// A write that begins or ends in the middle of a sector, or both in the same one.
    pub(super) async fn write_oddly(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let (file, size) = names.0[name];
        let start = if self.one_in(3) { size } else { self.below(size + 1) };
        let most = if self.one_in(2) { 64 } else { 20_000 };
        let end = (start + 1 + self.below(most)).min(bytes_of(self.profile.sectors).max(start + 1));
        let range = start / SECTOR as u64..end.div_ceil(SECTOR as u64);
        let is_certain = |number| self.model().is_certain(file, number);
        if !is_certain(range.start) || !is_certain(range.end - 1) {
            return Ok(Next::GoOn);
        }
        let tag = lock(&self.numbers).draw();
        self.core.tell(|| {
            format!(
                "client {}: write bytes {start}..{end} of {name} (#{file}): {tag:016x}",
                self.number
            )
        });
        let begin = bytes_of(range.start);
        let mut bytes = Vec::new();
        for number in range.clone() {
            let mut content = self.model().sector(file, number).to_vec();
            let inside = |at: u64| {
                usize::try_from(at.saturating_sub(bytes_of(number)).min(SECTOR as u64))
                    .expect("small")
            };
            pattern(tag, number, &mut content[inside(start)..inside(end)]);
            bytes.extend(content);
        }
        let sectors = range.zip(Content::split(&bytes)).collect();
        let inside = |at: u64| usize::try_from(at - begin).expect("small");
        let bytes = &bytes[inside(start)..inside(end)];
        let mut next = names.clone();
        next.resize(file, size.max(end));
        self.model().begin((end > size).then_some(next), Some((file, sectors)));
        let write = || async {
            let node = self.node(session, name).await?;
            session.write(node, start, bytes, false).await
        };
        let (began, shift) = (self.host.now(), self.host.shift());
        let written = self.ask_for_change(write, |_| false).await;
        let is_dated = written.is_ok() && self.host.shift() == shift;
        match self.end_of_write(session, name, written, false).await? {
            Next::GoOn if is_dated => self.verify_times(session, name, began).await,
            next => Ok(next),
        }
    }

    /// A file that was written since has a newer time of modification.
    async fn verify_times(
        &self,
        session: &Session,
        name: &str,
        since: Timestamp,
    ) -> std::result::Result<Next, Failure> {
        match self.attributes(session, name).await {
            Ok(found) if found.modified < since || found.changed < since => Err(format!(
                "{name} was written at {since}, and is said to be modified at {} and changed at {}",
                found.modified, found.changed
            )),
            Ok(_) => Ok(Next::GoOn),
            Err(error) if self.is_sent_away(&error) => Ok(Next::Leave),
            Err(error) if self.is_excused(&error) => Ok(Next::GoOn),
            Err(error) => Err(format!("attributes of {name}: {error}")),
        }
    }

    /// The node of a file, or the client's next step because it cannot be found now.
    async fn find(
        &self,
        session: &Session,
        name: &str,
    ) -> std::result::Result<std::result::Result<Node, Next>, Failure> {
        match self.node(session, name).await {
            Ok(node) => Ok(Ok(node)),
            Err(error) if self.is_sent_away(&error) => Ok(Err(Next::Leave)),
            Err(error) if self.is_excused(&error) => Ok(Err(Next::GoOn)),
            Err(error) => Err(format!("lookup of {name}: {error}")),
        }
    }

    /// A range is written while it is punched, zeroed, or written by another request: each sector
    /// has the result of one or the other.
    pub(super) async fn race(
        &self,
        session: &Session,
        name: &str,
        file: FileId,
        size: u64,
    ) -> std::result::Result<Next, Failure> {
        let end = size / SECTOR as u64;
        let first = self.below(end.max(1));
        let part = |from: u64| from..end.min(from + 1 + self.below(60));
        let (one, other) = (part(first), part((first + self.below(20)).min(end.saturating_sub(1))));
        if one.is_empty() || other.is_empty() {
            return Ok(Next::GoOn);
        }
        let rivals = [Rival::Punch, Rival::Zero, Rival::Write, Rival::Sync];
        let rival = rivals[usize::try_from(self.below(4)).expect("small")];
        let node = match self.find(session, name).await? {
            Ok(node) => node,
            Err(next) => return Ok(next),
        };
        let tag = lock(&self.numbers).draw();
        let tag_of_rival = lock(&self.numbers).draw();
        self.core.tell(|| {
            format!(
                "client {}: write {one:?} of {name} (#{file}): {tag:016x}; beside {rival:?} of {other:?}",
                self.number
            )
        });
        let (bytes, sectors) = self.content(file, one.clone(), 0, tag);
        let (bytes_of_rival, mut of_rival) = self.content(file, other.clone(), 0, tag_of_rival);
        if rival == Rival::Sync {
            of_rival.clear();
        } else if rival != Rival::Write {
            of_rival.iter_mut().for_each(|(_, content)| *content = zeros());
        }
        let (contested, mut all): (Vec<_>, Vec<_>) =
            of_rival.into_iter().partition(|(number, _)| one.contains(number));
        all.extend(sectors);
        // If the engine dies meanwhile, a sector has the one, the other, or its old contents.
        self.model().begin(None, Some((file, all.iter().chain(&contested).cloned().collect())));
        let write = self
            .ask_for_change(|| session.write(node, bytes_of(one.start), &bytes, false), |_| false);
        let meet = async {
            let (at, length) = (bytes_of(other.start), bytes_of(other.end - other.start));
            match rival {
                Rival::Write => session.write(node, at, &bytes_of_rival, false).await,
                Rival::Punch => {
                    session.allocate(node, at, length, Allocate::PunchHole, false).await
                }
                Rival::Zero => {
                    session
                        .allocate(node, at, length, Allocate::ZeroRange { keep_size: true }, false)
                        .await
                }
                Rival::Sync => session.sync(node, self.one_in(2)).await,
            }
        };
        match futures::join!(write, meet) {
            (Ok(()), Ok(())) => {
                self.model().acknowledge_one_of(all, contested);
                // The next sync covers the writes that this one does not.
                if self.one_in(2) { self.sync(session, name, file).await } else { Ok(Next::GoOn) }
            }
            (written, met) => {
                let failed = written.and(met);
                let next = self.end("writes that meet", failed)?;
                if rival == Rival::Sync {
                    self.model().sync_failed(file);
                }
                if matches!(next, Next::Leave) {
                    return Ok(Next::Leave);
                }
                let all = one.start.min(other.start)..one.end.max(other.end);
                self.look_again(session, name, all.start, all.end - all.start).await
            }
        }
    }

    /// A file is written while it is cut or removed.
    pub(super) async fn write_what_goes(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
    ) -> std::result::Result<Next, Failure> {
        let (file, size) = names.0[name];
        let end = size / SECTOR as u64;
        let first = self.below(end.max(1));
        let range = first..(first + 1 + self.below(200)).min(self.profile.sectors);
        if range.is_empty() {
            return Ok(Next::GoOn);
        }
        let node = match self.find(session, name).await? {
            Ok(node) => node,
            Err(next) => return Ok(next),
        };
        let tag = lock(&self.numbers).draw();
        let (bytes, sectors) = self.content(file, range.clone(), 0, tag);
        if names.links(file) == 1 && self.one_in(2) {
            self.core.tell(|| {
                format!(
                    "client {}: write {range:?} of {name} (#{file}), which is removed",
                    self.number
                )
            });
            let (mut next, mut longer) = (names.clone(), names.clone());
            next.0.remove(name);
            longer.resize(file, size.max(bytes_of(range.end)));
            {
                let mut model = self.model();
                model.begin(Some(next), Some((file, sectors)));
                model.may_also_be([longer]);
            }
            let is_held = self.one_in(2);
            if is_held {
                session.remember(node, 1);
            }
            let write = session.write(node, bytes_of(range.start), &bytes, false);
            let next = match futures::join!(write, self.remove(session, name)) {
                (_, Err(error)) if self.is_excused(&error) && !self.is_sent_away(&error) => {
                    self.end_as_seen(session, names, name, error).await
                }
                (Ok(()), Ok(())) if is_held => {
                    self.model().acknowledge();
                    self.use_what_has_no_name(session, node, bytes_of(range.start), bytes).await
                }
                (_, removed) => self.end("unlink of what is written", removed),
            };
            if is_held {
                session.forget(node, 1).await;
            }
            return next;
        }
        self.write_what_is_cut(session, names, name, node, range, (bytes, sectors)).await
    }

    /// A program has a file open that has no name any more: it reads it back, writes and punches,
    /// until it closes the file.
    async fn use_what_has_no_name(
        &self,
        session: &Session,
        node: Node,
        at: u64,
        mut bytes: Vec<u8>,
    ) -> std::result::Result<Next, Failure> {
        // Until the removal is durable a loss of power may bring the name back, with the bytes that
        // are written now.
        let turn = self.model().turn();
        let synced = session.sync_directory(ROOT).await;
        let is_gone = synced.is_ok() && !Expectations::is(&self.expectations.tolerates_errors);
        let next = self.synced("sync of a name that is removed", synced, None, turn)?;
        if !is_gone {
            return Ok(next);
        }
        for _ in 0..self.below(4) {
            let inside = bytes_of(self.below((bytes.len() / SECTOR) as u64));
            let part = usize::try_from(inside).expect("small")..bytes.len();
            let result = async {
                if self.one_in(3) {
                    bytes[part].fill(0);
                    let length = bytes.len() as u64 - inside;
                    session.allocate(node, at + inside, length, Allocate::PunchHole, false).await?;
                } else {
                    pattern(lock(&self.numbers).draw(), 0, &mut bytes[part.clone()]);
                    session.write(node, at + inside, &bytes[part], false).await?;
                }
                if self.one_in(3) {
                    session.sync(node, true).await?;
                }
                let mut there = vec![0xee; bytes.len()];
                let length = session.read(node, at, &mut there).await?;
                Ok((length, there))
            };
            match result.await {
                Ok((length, there)) if length != bytes.len() || there != bytes => {
                    let first = bytes.iter().zip(&there).position(|(one, other)| one != other);
                    return Err(format!(
                        "node {node} has no name and is open: {length} bytes are read at {at}, wrong from {first:?} on"
                    ));
                }
                Ok(_) => {}
                Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
                Err(FileError::NoSpace) => break,
                Err(error) if self.is_excused(&error) => break,
                Err(error) => {
                    return Err(format!("node {node}, which has no name and is open: {error}"));
                }
            }
        }
        Ok(Next::GoOn)
    }

    /// The file is cut where it is written, or before: either may come first.
    async fn write_what_is_cut(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
        node: Node,
        range: Range<u64>,
        (bytes, sectors): (Vec<u8>, Vec<(u64, Content)>),
    ) -> std::result::Result<Next, Failure> {
        let (file, size) = names.0[name];
        let cut = self.below(range.end.min(size / SECTOR as u64) + 1);
        self.core.tell(|| {
            format!(
                "client {}: write {range:?} of {name} (#{file}), which is cut at {cut}",
                self.number
            )
        });
        let named = |size: u64| {
            let mut names = names.clone();
            names.resize(file, size);
            names
        };
        let first_written = named(bytes_of(cut));
        let first_cut = named(bytes_of(cut.max(range.end)));
        let end = size.div_ceil(SECTOR as u64).max(range.end);
        let gone: Vec<_> = (cut..end).map(|sector| (sector, zeros())).collect();
        {
            let mut model = self.model();
            model.begin(
                Some(first_written.clone()),
                Some((file, gone.iter().chain(&sectors).cloned().collect())),
            );
            // Before it is cut it is as long as the write makes it.
            model.may_also_be([first_cut.clone(), named(size.max(bytes_of(range.end)))]);
        }
        let write = session.write(node, bytes_of(range.start), &bytes, false);
        let change =
            session.change(node, Changes { size: Some(bytes_of(cut)), ..Changes::default() });
        let both: Result<()> = match futures::join!(write, change) {
            (Ok(()), Ok(_)) => Ok(()),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        if let Err(error) = both {
            return if self.is_sent_away(&error) {
                Ok(Next::Leave)
            } else if matches!(error, FileError::NoSpace) || self.is_excused(&error) {
                self.end_as_seen(session, names, name, error).await
            } else {
                Err(format!("write of what is cut: {error}"))
            };
        }
        let there = match session.attributes(node).await {
            Ok(attributes) => attributes.size,
            Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
            Err(error) => return Err(format!("size of {name}: {error}")),
        };
        let mut model = self.model();
        let (between, names, content) = if there == bytes_of(cut) {
            let kept = sectors.into_iter().filter(|(number, _)| *number < cut);
            (
                named(size.max(bytes_of(range.end))),
                first_written,
                gone.into_iter().chain(kept).collect(),
            )
        } else {
            let cut_off = gone.into_iter().filter(|(number, _)| !range.contains(number));
            (first_written, first_cut, cut_off.chain(sectors).collect())
        };
        if names.0[name].1 != there {
            return Err(format!(
                "{name} has {there} bytes after a write of {range:?} and a cut at {cut}"
            ));
        }
        model.acknowledge_both(between, names, content);
        Ok(Next::GoOn)
    }

    /// One of two requests that change a file's size has failed: its length is the one that is
    /// seen, and its bytes are those of the write or the old ones.
    async fn end_as_seen(
        &self,
        session: &Session,
        names: &Names,
        name: &str,
        error: FileError,
    ) -> std::result::Result<Next, Failure> {
        self.core.tell(|| format!("client {}: write of what is cut: {error}", self.number));
        let (file, _) = names.0[name];
        // The size is seen, and committed: otherwise another mount might show another.
        let seen = async {
            let node = self.node(session, name).await?;
            let size = session.attributes(node).await?.size;
            session.sync_directory(ROOT).await?;
            Ok::<_, FileError>(size)
        };
        let Ok(size) = seen.await else { return Ok(Next::Leave) };
        let mut next = names.clone();
        next.resize(file, size);
        self.model().refuse_but_are(next);
        Ok(Next::GoOn)
    }

    /// Whether a file may have `links` links. The system may have given it a name that the client
    /// does not know.
    fn has_links(&self, names: &Names, file: FileId, links: u32) -> bool {
        let known = names.links(file);
        let most = known + usize::from(self.model().may_have_more_names(file));
        (known..=most).contains(&(links as usize))
    }

    /// Names that do not exist are not found, and the others lead to the files that were made.
    pub(super) async fn verify_names(
        &self,
        session: &Session,
        names: &Names,
    ) -> std::result::Result<Next, Failure> {
        if !self.profile.is_wild {
            return Ok(Next::GoOn);
        }
        for _ in 0..ABSENT {
            let name = self.some_name();
            if names.0.contains_key(&name) {
                continue;
            }
            match self.node(session, &name).await {
                Err(FileError::NotFound) => {}
                Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
                Err(error) if self.is_excused(&error) => {}
                Err(error) => return Err(format!("lookup of {name}, which is not there: {error}")),
                Ok(_) => return Err(format!("{name} is found, and was removed or never made")),
            }
        }
        for (name, (file, _)) in &names.0 {
            match self.attributes(session, name).await {
                Ok(found)
                    if found.mode != mode_of(*file)
                        || !self.has_links(names, *file, found.links) =>
                {
                    let (mode, links) = (mode_of(*file), names.links(*file));
                    return Err(format!(
                        "{name} (#{file}) has mode {:o} and {} names, not {mode:o} and {links}",
                        found.mode, found.links
                    ));
                }
                Ok(_) => {}
                Err(error) if self.is_sent_away(&error) => return Ok(Next::Leave),
                Err(error) if self.is_excused(&error) => {}
                Err(error) => return Err(format!("attributes of {name}: {error}")),
            }
        }
        Ok(Next::GoOn)
    }
}
