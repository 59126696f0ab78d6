//! How files are copied: several at once, each in pieces, checked, and resumable.
//!
//! A file is copied under a temporary name beside its target, and gets its name when every byte is
//! known to be there:
//!
//!   1. Each piece is read from the source, and its checksum taken. A piece that the target has
//!      from an earlier, interrupted copy is read back, and stays if it is the same; else the piece
//!      is written.
//!   2. The target is made durable.
//!   3. Each piece is read back from the target, and its checksum compared.
//!   4. The file gets its name, which is made durable.
//!
//! A copy that ends before 4 leaves the temporary file, `.NAME.HASH.part`, and at NAME the file
//! that was there before. The hash is that of the source's path, size and time: the same copy finds
//! the file again and resumes; a copy of another source does not use it.
//!
//! A file to which the system gives a name (`+GROUP`) is made first, since its name has its file
//! type, and written in place; a copy that fails removes it.
//!
//! Workers take work from one list: pieces of the files in progress first, then the next file.

use super::{Result, context::engine_in_service};
use crate::{
    engine::{client::Client, protocol::FileRequest},
    paths::Paths,
    sql_error::{SqlError, state},
};
use crc_fast::{CrcAlgorithm, checksum};
use indicatif::{ProgressBar, ProgressStyle};
use plinth_engine::{admin::Code, api::Kind};
use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Bytes that are read, written and compared in one go; not more than a message holds.
const PIECE: usize = 4 << 20;
/// More at once do not make a copy faster: an engine has each request on a thread of its own.
const WORKERS: usize = 4;

/// One end of a copy.
#[derive(Debug, Clone)]
pub(super) enum End {
    Local(PathBuf),
    /// A group, and a path in it.
    Group(String, String),
}

impl End {
    /// The path as users write it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Local(path) => path.display().to_string(),
            Self::Group(group, path) => format!("+{group}/{path}"),
        }
    }
}

/// One file to be copied.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub from: End,
    pub to: End,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// The file was made for the copy under a name of the system: it is written there, and removed
    /// if that fails.
    pub in_place: bool,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The result of a copy.
#[derive(Debug, Clone)]
pub(super) struct Copied {
    /// CRC-64/NVME of the pieces' checksums, in order.
    pub checksum: u64,
    /// Bytes that an earlier copy had written.
    pub resumed: u64,
}

fn local(path: &Path, error: &io::Error) -> SqlError {
    SqlError::new("58030", format!("{}: {error}", path.display()))
}

fn sum(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// The refusal for a file that has the name of an interrupted copy and cannot be one.
fn strange(what: &str) -> SqlError {
    SqlError::new("58030", format!("{what} has the name of an interrupted copy, and is none"))
        .hint("remove it")
}

impl Job {
    /// The name under which the copy is made.
    fn temporary(&self) -> End {
        if self.in_place {
            return self.to.clone();
        }
        let identity = format!("{}\n{}\n{}", self.from.text(), self.size, self.modified);
        let hash = format!("{:016x}", sum(identity.as_bytes()));
        let beside = |name: &str| {
            // The longest name, less the characters that are added to it.
            let mut end = name.len().min(220);
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            format!(".{}.{hash}.part", name.get(..end).unwrap_or_default())
        };
        match &self.to {
            End::Local(path) => {
                let name = path
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default();
                End::Local(path.with_file_name(beside(&name)))
            }
            End::Group(group, path) => {
                let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
                let slash = if directory.is_empty() { "" } else { "/" };
                End::Group(group.clone(), format!("{directory}{slash}{}", beside(name)))
            }
        }
    }

    fn pieces(&self) -> u64 {
        self.size.div_ceil(PIECE as u64)
    }

    /// The offset and the length of a piece.
    fn piece(&self, number: u64) -> (u64, usize) {
        let offset = number * PIECE as u64;
        (offset, usize::try_from((self.size - offset).min(PIECE as u64)).unwrap_or(PIECE))
    }
}

/// One end of a copy, open in a worker.
enum Open {
    Local(File, PathBuf),
    Group(Client, u64),
}

impl Open {
    fn source(paths: &Paths, end: &End) -> Result<Self> {
        match end {
            End::Local(path) => Ok(Self::Local(
                File::open(path).map_err(|error| local(path, &error))?,
                path.clone(),
            )),
            End::Group(group, path) => {
                let engine = engine_in_service(paths, group)?;
                let node = engine.look(path)?.node;
                Ok(Self::Group(engine, node))
            }
        }
    }

    /// Opens the target under its temporary name; returns also how many bytes it has from an
    /// earlier copy.
    fn target(paths: &Paths, job: &Job) -> Result<(Self, u64)> {
        match job.temporary() {
            End::Local(path) => {
                let mut options = OpenOptions::new();
                options.create(true).truncate(false).read(true).write(true).mode(job.mode & 0o777);
                // In a directory like /tmp another user may have put a link there.
                options.custom_flags(libc::O_NOFOLLOW);
                let file = options.open(&path).map_err(|error| local(&path, &error))?;
                let found = file.metadata().map_err(|error| local(&path, &error))?;
                if !found.is_file()
                    || found.nlink() != 1
                    || found.uid() != rustix::process::geteuid().as_raw()
                {
                    return Err(strange(&path.display().to_string()));
                }
                let size = found.len();
                Ok((Self::Local(file, path), size))
            }
            End::Group(group, path) => {
                let engine = engine_in_service(paths, &group)?;
                let info = match engine.look(&path) {
                    Ok(info) => info,
                    Err(_) => engine.make(&path, job.mode & 0o777, job.uid, job.gid)?,
                };
                if info.kind != Kind::Regular {
                    return Err(strange(&format!("+{group}/{path}")));
                }
                Ok((Self::Group(engine, info.node), info.size))
            }
        }
    }

    /// Reads up to `length` bytes: fewer only at the end of the file.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        match self {
            Self::Local(file, path) => {
                let mut bytes = vec![0; length];
                let mut filled = 0;
                while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                    match file.read_at(rest, offset + filled as u64) {
                        Ok(0) => break,
                        Ok(count) => filled += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(local(path, &error)),
                    }
                }
                bytes.truncate(filled);
                Ok(bytes)
            }
            Self::Group(engine, node) => Ok(engine.read(*node, offset, length)?),
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Local(file, path) => {
                file.write_all_at(bytes, offset).map_err(|error| local(path, &error))
            }
            Self::Group(engine, node) => Ok(engine.write(*node, offset, bytes)?),
        }
    }

    /// Makes the written bytes durable. For a local file it also makes later reads come from the
    /// device.
    fn sync(&self) -> Result<()> {
        match self {
            Self::Local(file, path) => {
                file.sync_all().map_err(|error| local(path, &error))?;
                let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
                Ok(())
            }
            Self::Group(engine, node) => Ok(engine.ask(FileRequest::Sync { node: *node })?),
        }
    }
}

/// Gives the copy its name, durably.
fn name(paths: &Paths, job: &Job) -> Result<()> {
    match (job.temporary(), &job.to) {
        (End::Local(beside), End::Local(path)) => {
            fs::rename(&beside, path).map_err(|error| local(path, &error))?;
            let directory = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            File::open(directory)
                .and_then(|directory| directory.sync_all())
                .map_err(|error| local(path, &error))
        }
        (End::Group(group, beside), End::Group(_, path)) => {
            let engine = engine_in_service(paths, &group)?;
            if !job.in_place {
                engine.ask(FileRequest::Move { from: beside, to: path.clone() })?;
            }
            let node = engine.look(path)?.node;
            Ok(engine.ask(FileRequest::Sync { node })?)
        }
        _ => Err(SqlError::new(state::INTERNAL, "a copy changed its side")),
    }
}

/// Removes the target of a copy that cannot be resumed.
fn give_up(paths: &Paths, job: &Job) {
    match job.temporary() {
        End::Local(path) => drop(fs::remove_file(path)),
        End::Group(group, path) => {
            if let Ok(engine) = Client::connect(paths, &group) {
                let _ = engine.ask(FileRequest::Remove { path });
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Copy(u64),
    Verify(u64),
}

/// A file in progress.
struct Progress {
    sums: Vec<u64>,
    /// All pieces are written, and are being read back.
    verifying: bool,
    /// Pieces of the current step that are not done.
    left: u64,
    resumed: u64,
    /// Bytes that the target had before.
    old: u64,
}

/// The work that is left, and the results.
struct Work {
    steps: VecDeque<(usize, Step)>,
    /// The next file to begin.
    next: usize,
    under_way: Vec<Option<Progress>>,
    done: Vec<Option<Result<Copied>>>,
}

struct Copying<'a> {
    paths: &'a Paths,
    jobs: &'a [Job],
    interrupted: &'a AtomicBool,
    begun: &'a (dyn Fn(&Job) + Sync),
    work: Mutex<Work>,
    changed: Condvar,
    bar: ProgressBar,
}

/// Copies all files; the result of each. `begun` is called when one begins.
pub(super) fn copy_all(
    paths: &Paths,
    jobs: &[Job],
    interrupted: &AtomicBool,
    begun: &(dyn Fn(&Job) + Sync),
) -> Vec<Result<Copied>> {
    let work = Work {
        steps: VecDeque::new(),
        next: 0,
        under_way: jobs.iter().map(|_| None).collect(),
        done: jobs.iter().map(|_| None).collect(),
    };
    // Each byte passes twice: written, and read back.
    let bytes = jobs.iter().map(|job| job.size * 2).sum();
    let copying = Copying {
        paths,
        jobs,
        interrupted,
        begun,
        work: Mutex::new(work),
        changed: Condvar::new(),
        bar: bar(bytes),
    };
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| copying.work());
        }
    });
    copying.bar.finish_and_clear();
    let work = copying.work.into_inner().unwrap_or_else(PoisonError::into_inner);
    let stuck = || Err(SqlError::new(state::INTERNAL, "a copy was begun and not ended"));
    work.done.into_iter().map(|done| done.unwrap_or_else(stuck)).collect()
}

fn bar(bytes: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {percent}% {binary_bytes_per_sec} {eta}");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Copying<'_> {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker's loop, until there is nothing left to do.
    fn work(&self) {
        // The open ends of the file that this worker worked on last.
        let mut ends: Option<(usize, Open, Open)> = None;
        let mut work = self.lock();
        loop {
            if let Some((file, step)) = work.steps.pop_front() {
                drop(work);
                let result = self.step(file, step, &mut ends);
                work = self.lock();
                match result {
                    Ok(()) => work = self.passed(work, file),
                    Err(refusal) => self.failed(&mut work, file, refusal),
                }
            } else if work.next < self.jobs.len() {
                let file = work.next;
                work.next += 1;
                if let Some(job) = self.jobs.get(file) {
                    (self.begun)(job);
                }
                drop(work);
                let begun = self.begin(file);
                work = self.lock();
                match begun {
                    Ok(progress) => {
                        let pieces = progress.left;
                        if let Some(place) = work.under_way.get_mut(file) {
                            *place = Some(progress);
                        }
                        work.steps.extend((0..pieces).map(|piece| (file, Step::Copy(piece))));
                        if pieces == 0 {
                            work = self.complete(work, file);
                        }
                    }
                    Err(refusal) => self.failed(&mut work, file, refusal),
                }
            } else if work.under_way.iter().all(Option::is_none)
                && work.done.iter().all(Option::is_some)
            {
                self.changed.notify_all();
                return;
            } else {
                work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            self.changed.notify_all();
        }
    }

    fn may_go_on(&self) -> Result<()> {
        if !self.interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(SqlError::new(state::CANCELED, "interrupted")
            .hint("the same command goes on where it was"))
    }

    fn begin(&self, file: usize) -> Result<Progress> {
        let Some(job) = self.jobs.get(file) else {
            return Err(SqlError::new(state::INTERNAL, "no such copy"));
        };
        self.may_go_on()?;
        let (_, old) = Open::target(self.paths, job)?;
        let pieces = job.pieces();
        let sums = vec![0; usize::try_from(pieces).unwrap_or(0)];
        Ok(Progress { sums, verifying: false, left: pieces, resumed: 0, old })
    }

    /// Copies or verifies one piece.
    fn step(&self, file: usize, step: Step, ends: &mut Option<(usize, Open, Open)>) -> Result<()> {
        let Some(job) = self.jobs.get(file) else { return Ok(()) };
        self.may_go_on()?;
        // If the file has failed meanwhile, its other steps are skipped.
        let Some((old, expected)) = self.known(file, step) else { return Ok(()) };
        if ends.as_ref().is_none_or(|(held, ..)| *held != file) {
            *ends = Some((
                file,
                Open::source(self.paths, &job.from)?,
                Open::target(self.paths, job)?.0,
            ));
        }
        let Some((_, source, target)) = ends else { return Ok(()) };
        match step {
            Step::Copy(piece) => {
                let (offset, length) = job.piece(piece);
                let bytes = source.read(offset, length)?;
                if bytes.len() != length {
                    return Err(SqlError::new(
                        "58030",
                        format!("{} became shorter while it was copied", job.from.text()),
                    ));
                }
                let read = sum(&bytes);
                let there = offset < old && target.read(offset, length)? == bytes;
                if !there {
                    target.write(offset, &bytes)?;
                }
                let mut work = self.lock();
                if let Some(Some(progress)) = work.under_way.get_mut(file) {
                    progress.resumed += if there { length as u64 } else { 0 };
                    if let Some(sum) =
                        usize::try_from(piece).ok().and_then(|piece| progress.sums.get_mut(piece))
                    {
                        *sum = read;
                    }
                }
                drop(work);
                self.bar.inc(length as u64);
            }
            Step::Verify(piece) => {
                let (offset, length) = job.piece(piece);
                let bytes = target.read(offset, length)?;
                if bytes.len() != length || sum(&bytes) != expected {
                    return Err(SqlError::new(
                        "58030",
                        format!("{} reads back otherwise than it was written, at byte {offset}", job.to.text()),
                    )
                    .hint("it did not get its name; the same command writes the piece again, and the alert log may tell more"));
                }
                self.bar.inc(length as u64);
            }
        }
        Ok(())
    }

    /// The state of its file that a step needs: the bytes that the target had before, and the
    /// piece's checksum.
    fn known(&self, file: usize, step: Step) -> Option<(u64, u64)> {
        let work = self.lock();
        let progress = work.under_way.get(file)?.as_ref()?;
        let (Step::Copy(piece) | Step::Verify(piece)) = step;
        Some((progress.old, progress.sums.get(usize::try_from(piece).ok()?).copied().unwrap_or(0)))
    }

    /// One step of a file is done. After its last one this starts what comes next.
    fn passed<'a>(&'a self, mut work: MutexGuard<'a, Work>, file: usize) -> MutexGuard<'a, Work> {
        let Some(Some(progress)) = work.under_way.get_mut(file) else { return work };
        progress.left = progress.left.saturating_sub(1);
        if progress.left > 0 {
            return work;
        }
        self.complete(work, file)
    }

    /// All pieces of a file are copied, or verified.
    fn complete<'a>(&'a self, mut work: MutexGuard<'a, Work>, file: usize) -> MutexGuard<'a, Work> {
        let (Some(job), Some(Some(progress))) = (self.jobs.get(file), work.under_way.get_mut(file))
        else {
            return work;
        };
        let pieces = job.pieces();
        if !progress.verifying {
            progress.verifying = true;
            progress.left = pieces;
            drop(work);
            let synced = Open::target(self.paths, job).and_then(|(target, _)| target.sync());
            work = self.lock();
            match synced {
                Ok(()) if pieces > 0 => {
                    work.steps.extend((0..pieces).map(|piece| (file, Step::Verify(piece))));
                    return work;
                }
                Ok(()) => {}
                Err(refusal) => {
                    self.failed(&mut work, file, refusal);
                    return work;
                }
            }
        }
        let Some(Some(progress)) = work.under_way.get(file) else { return work };
        let sums: Vec<u8> = progress.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        let copied = Copied { checksum: sum(&sums), resumed: progress.resumed };
        drop(work);
        let named = name(self.paths, job);
        work = self.lock();
        match named {
            Ok(()) => {
                if let Some(place) = work.under_way.get_mut(file) {
                    *place = None;
                }
                if let Some(done) = work.done.get_mut(file) {
                    *done = Some(Ok(copied));
                }
            }
            Err(refusal) => self.failed(&mut work, file, refusal),
        }
        work
    }

    fn failed(&self, work: &mut Work, file: usize, refusal: SqlError) {
        if let Some(place) = work.under_way.get_mut(file) {
            *place = None;
        }
        work.steps.retain(|(other, _)| *other != file);
        // A full group or disk shall have its space back.
        let full = refusal.code == Some(Code::NoSpace) || refusal.message.contains("No space left");
        if let Some(job) = self.jobs.get(file).filter(|job| full || job.in_place) {
            give_up(self.paths, job);
        }
        if let Some(slot) = work.done.get_mut(file)
            && slot.is_none()
        {
            *slot = Some(Err(refusal));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copying<'a>(
        paths: &'a Paths,
        jobs: &'a [Job],
        interrupted: &'a AtomicBool,
        begun: &'a (dyn Fn(&Job) + Sync),
    ) -> Copying<'a> {
        let work = Work {
            steps: VecDeque::new(),
            next: 0,
            under_way: jobs.iter().map(|_| None).collect(),
            done: jobs.iter().map(|_| None).collect(),
        };
        Copying {
            paths,
            jobs,
            interrupted,
            begun,
            work: Mutex::new(work),
            changed: Condvar::new(),
            bar: ProgressBar::hidden(),
        }
    }

    fn job(folder: &Path, bytes: &[u8]) -> io::Result<Job> {
        let from = folder.join("from");
        fs::write(&from, bytes)?;
        let to = End::Local(folder.join("to"));
        let size = bytes.len() as u64;
        Ok(Job {
            from: End::Local(from),
            to,
            size,
            modified: 1,
            in_place: false,
            mode: 0o600,
            uid: 0,
            gid: 0,
        })
    }

    /// The target returns another byte than was written: the piece is refused, and the file does
    /// not get its name.
    #[test]
    fn what_reads_back_otherwise_is_refused() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let jobs = [job(folder.path(), &vec![5; PIECE + 10])?];
        let paths = Paths::new(folder.path(), None);
        let never = AtomicBool::new(false);
        let copying = copying(&paths, &jobs, &never, &|_| {});
        let progress = copying.begin(0).map_err(io::Error::other)?;
        copying.lock().under_way = vec![Some(progress)];
        let mut ends = None;
        for piece in 0..2 {
            copying.step(0, Step::Copy(piece), &mut ends).map_err(io::Error::other)?;
        }
        let End::Local(beside) = jobs[0].temporary() else {
            return Err(io::ErrorKind::Other.into());
        };
        let file = OpenOptions::new().write(true).open(&beside)?;
        file.write_all_at(&[6], PIECE as u64 + 3)?;
        copying.step(0, Step::Verify(0), &mut ends).map_err(io::Error::other)?;
        let refused = copying.step(0, Step::Verify(1), &mut ends);
        let message = refused.err().map(|refusal| refusal.message).unwrap_or_default();
        assert!(
            message.contains("reads back otherwise") && message.contains(&PIECE.to_string()),
            "{message}"
        );
        assert!(!folder.path().join("to").exists());
        Ok(())
    }

    /// Another source, or the same one after a change, has another temporary name: no copy resumes
    /// one of another source.
    #[test]
    fn an_interrupted_copy_is_found_by_its_source() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let job = job(folder.path(), b"x")?;
        let name = |job: &Job| job.temporary().text();
        assert_eq!(name(&job), name(&job.clone()));
        assert_ne!(name(&job), name(&Job { modified: 2, ..job.clone() }));
        assert_ne!(name(&job), name(&Job { size: 2, ..job.clone() }));
        assert_ne!(
            name(&job),
            name(&Job { from: End::Group("DATA".into(), "from".into()), ..job.clone() })
        );
        let long =
            Job { to: End::Group("DATA".into(), format!("dir/{}", "\u{e9}".repeat(125))), ..job };
        let name = name(&long);
        assert!(
            name.starts_with("+DATA/dir/.\u{e9}")
                && name.rsplit('/').next().is_some_and(|name| name.len() <= 255)
        );
        Ok(())
    }

    /// If the temporary name is a link, or another user's file, nothing is written through it.
    #[test]
    fn a_link_in_the_place_of_a_part_is_refused() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let jobs = [job(folder.path(), b"secret")?];
        let victim = folder.path().join("victim");
        fs::write(&victim, "mine")?;
        let End::Local(beside) = jobs[0].temporary() else {
            return Err(io::ErrorKind::Other.into());
        };
        let paths = Paths::new(folder.path(), None);
        let never = AtomicBool::new(false);
        std::os::unix::fs::symlink(&victim, &beside)?;
        assert!(copy_all(&paths, &jobs, &never, &|_| {}).iter().all(Result::is_err));
        fs::remove_file(&beside)?;
        fs::hard_link(&victim, &beside)?;
        assert!(copy_all(&paths, &jobs, &never, &|_| {}).iter().all(Result::is_err));
        assert_eq!(fs::read(&victim)?, b"mine");
        fs::remove_file(&beside)?;
        assert!(copy_all(&paths, &jobs, &never, &|_| {}).iter().all(Result::is_ok));
        assert_eq!(fs::read(folder.path().join("to"))?, b"secret");
        Ok(())
    }

    /// After an interrupted copy the old file is unchanged, and beside it is the part that was
    /// copied.
    #[test]
    fn an_interrupted_copy_changes_nothing() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let jobs = [job(folder.path(), &vec![5; 3 * PIECE])?];
        fs::write(folder.path().join("to"), "before")?;
        let paths = Paths::new(folder.path(), None);
        let interrupted = AtomicBool::new(true);
        let done = copy_all(&paths, &jobs, &interrupted, &|_| {});
        assert!(
            done.iter()
                .all(|done| done.as_ref().is_err_and(|refusal| refusal.state == state::CANCELED))
        );
        assert_eq!(fs::read(folder.path().join("to"))?, b"before");
        interrupted.store(false, Ordering::Relaxed);
        assert!(copy_all(&paths, &jobs, &interrupted, &|_| {}).iter().all(Result::is_ok));
        assert_eq!(fs::read(folder.path().join("to"))?, vec![5; 3 * PIECE]);
        Ok(())
    }
}
