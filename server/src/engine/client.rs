//! The client side of an engine's socket.

use super::{
    exports::Export,
    protocol::{
        Answer, EngineFigures, FileInfo, FileRequest, How, ListEntry, NAME, Notice, ProcessRequest,
        Request, Status,
    },
};
use crate::paths::Paths;
use plinth_engine::{
    admin::{
        AdminError, Code, Command, Estimate, Operation, Outcome, Reclaimable, Report, Scope,
        Selection, Value,
    },
    api::ConnectionId,
    catalog::rows::decode_rows,
    files::statements::NewSystemFile,
};
use plinth_host::ipc::{Frames, TooLong};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

type Result<T> = std::result::Result<T, AdminError>;

/// How long an engine may take to answer a request about its own state.
const SOON: Duration = Duration::from_secs(30);

/// Whether no process listens on the socket.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Whether the other side closed the connection.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// A connection to an engine: one request at a time.
#[derive(Debug)]
pub struct Client {
    group: String,
    frames: Frames,
}

impl Client {
    /// # Errors
    /// `NotMounted` if no engine of the group runs.
    pub fn connect(paths: &Paths, group: &str) -> Result<Self> {
        Self::connect_to(&paths.engine(group), group)
    }

    /// # Errors
    /// `NotMounted` if no engine listens there, or it ends before it greets; `Invalid` if an engine
    /// of another version listens.
    pub fn connect_to(socket: &Path, group: &str) -> Result<Self> {
        match Frames::connect(socket, NAME) {
            Ok(frames) => Ok(Self { group: group.to_owned(), frames }),
            // The socket of an engine that is being killed still accepts connections.
            Err(error) if is_absent(&error) || is_end(&error) => {
                Err(AdminError::new(Code::NotMounted, format!("disk group {group} is not mounted"))
                    .hint(format!("ALTER DISKGROUP {group} MOUNT")))
            }
            Err(error) => {
                let code = if error.kind() == io::ErrorKind::InvalidData {
                    Code::Invalid
                } else {
                    Code::Io
                };
                Err(AdminError::new(
                    code,
                    format!("engine of {group}: {}: {error}", socket.display()),
                ))
            }
        }
    }

    fn lost(&self, error: &io::Error) -> AdminError {
        let group = &self.group;
        if let Some(long) = TooLong::of(error) {
            return AdminError::new(
                Code::NotSupported,
                format!("the engine of {group} is not asked: {long}"),
            )
            .hint("ask for less at once");
        }
        let what = match error.kind() {
            _ if is_end(error) => format!("the engine of {group} ended before it answered"),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the engine of {group} does not answer")
            }
            _ => format!("the engine of {group}: {error}"),
        };
        AdminError::new(Code::Io, what).hint("the alert log and the engine's log tell more")
    }

    fn send(
        &self,
        request: impl Into<Request>,
        body: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<()> {
        self.frames.send(&request.into(), body, descriptor).map_err(|error| self.lost(&error))
    }

    fn next(&self) -> Result<(Answer, Vec<u8>)> {
        match self.frames.receive() {
            Ok(Some(received)) => match received.head {
                Answer::Refused(error) => Err(error),
                answer => Ok((answer, received.body)),
            },
            Ok(None) => Err(self.lost(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn call(&self, request: impl Into<Request>, timeout: Option<Duration>) -> Result<Answer> {
        self.frames.set_timeout(timeout).map_err(|error| self.lost(&error))?;
        self.send(request, &[], None)?;
        Ok(self.next()?.0)
    }

    fn strange(&self) -> AdminError {
        AdminError::new(
            Code::Io,
            format!("the engine of {} answered something else than was asked", self.group),
        )
    }

    /// Sends a request that is answered with `Done`. There is no time limit.
    ///
    /// # Errors
    /// If the engine refuses the request, or ends before it answers.
    pub fn ask(&self, request: impl Into<Request>) -> Result<()> {
        match self.call(request, None)? {
            Answer::Done => Ok(()),
            _ => Err(self.strange()),
        }
    }

    /// # Errors
    /// If the engine does not answer.
    pub fn status(&self) -> Result<Status> {
        match self.call(ProcessRequest::Status, Some(SOON))? {
            Answer::Status(status) => Ok(status),
            _ => Err(self.strange()),
        }
    }

    /// Has the engine carry out a statement. There is no time limit.
    ///
    /// # Errors
    /// If the engine refuses the statement, or ends before it answers.
    pub fn carry_out(&self, command: Command) -> Result<Outcome> {
        match self.call(command, None)? {
            Answer::Done => Ok(Outcome::Done),
            Answer::Report(report) => Ok(Outcome::Report(report)),
            Answer::Estimate(estimate) => Ok(Outcome::Estimate(estimate)),
            Answer::Reclaimable(disks) => Ok(Outcome::Reclaimable(disks)),
            _ => Err(self.strange()),
        }
    }

    /// # Errors
    /// If the engine refuses the check, or ends before it answers.
    pub fn check(&self, scope: &Scope, repair: bool) -> Result<Report> {
        match self.carry_out(Command::Check { repair, scope: scope.clone() })? {
            Outcome::Report(report) => Ok(report),
            _ => Err(self.strange()),
        }
    }

    /// The estimate that `EXPLAIN WORK` shows.
    ///
    /// # Errors
    /// If the engine would refuse the statement itself, or ends before it answers.
    pub fn estimate(&self, command: Command) -> Result<Estimate> {
        match self.carry_out(command)? {
            Outcome::Estimate(estimate) => Ok(estimate),
            _ => Err(self.strange()),
        }
    }

    /// How much the disks hold, and would hold after a RECLAIM.
    ///
    /// # Errors
    /// If there is no such disk, or the engine ends before it answers.
    pub fn reclaimable(&self, which: &Selection) -> Result<Vec<Reclaimable>> {
        match self.carry_out(Command::Reclaimable(which.clone()))? {
            Outcome::Reclaimable(disks) => Ok(disks),
            _ => Err(self.strange()),
        }
    }

    /// # Errors
    /// If the engine does not answer, or has no group.
    pub fn scrubbed(&self) -> Result<Report> {
        match self.call(ProcessRequest::Scrubbed, Some(SOON))? {
            Answer::Report(report) => Ok(report),
            _ => Err(self.strange()),
        }
    }

    /// # Errors
    /// If the engine does not answer, or has no group.
    pub fn operations(&self) -> Result<Vec<Operation>> {
        match self.call(ProcessRequest::Operations, Some(SOON))? {
            Answer::Operations(operations) => Ok(operations),
            _ => Err(self.strange()),
        }
    }

    /// The figures for monitoring systems. There is no time limit: the caller has a thread
    /// for it, and a connection that is left behind would wait in the engine all the same.
    ///
    /// # Errors
    /// If the engine has no group, or ends before it answers.
    pub fn figures(&self) -> Result<EngineFigures> {
        match self.call(ProcessRequest::Figures, None)? {
            Answer::Figures(figures) => Ok(*figures),
            _ => Err(self.strange()),
        }
    }

    /// Whether the engine answers and has mounted its group. There is no time limit.
    ///
    /// # Errors
    /// If the engine ends before it answers.
    pub fn is_mounted(&self) -> Result<bool> {
        match self.call(ProcessRequest::Status, None)? {
            Answer::Status(status) => Ok(status.mounted),
            _ => Err(self.strange()),
        }
    }

    /// Runs a SELECT in the engine and passes on the rows in parts: the number of rows and their
    /// bytes (engine's `rows.rs`).
    ///
    /// # Errors
    /// If the engine refuses the query or ends, or `part` fails.
    pub fn query(
        &self,
        sql: &str,
        mut part: impl FnMut(usize, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let Answer::Rows { .. } = self.call(ProcessRequest::Query(sql.to_owned()), Some(SOON))?
        else {
            return Err(self.strange());
        };
        loop {
            match self.next()? {
                (Answer::Done, _) => return Ok(()),
                (Answer::Part { rows }, body) => part(rows, body)?,
                _ => return Err(self.strange()),
            }
        }
    }

    /// Like `query`, for a result that is known to be small.
    ///
    /// # Errors
    /// If the engine refuses the query, or ends before it answers.
    pub fn rows(&self, sql: &str) -> Result<Vec<Vec<Value>>> {
        let mut all = Vec::new();
        self.query(sql, |rows, bytes| {
            all.extend(decode_rows(rows, &bytes).ok_or_else(|| self.strange())?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Hands the engine the device of a mount: of a new mount, or of one that the engine takes
    /// over.
    ///
    /// # Errors
    /// If the engine refuses the mount, or ends before it answers.
    pub fn serve(
        &self,
        mount_point: PathBuf,
        connection: ConnectionId,
        device: BorrowedFd<'_>,
        how: How,
    ) -> Result<()> {
        self.frames.set_timeout(Some(SOON)).map_err(|error| self.lost(&error))?;
        self.send(ProcessRequest::Serve { mount_point, connection, how }, &[], Some(device))?;
        match self.next()?.0 {
            Answer::Done => Ok(()),
            _ => Err(self.strange()),
        }
    }

    /// The mounts that the engine serves, with duplicates of their devices.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub fn devices(&self) -> Result<Vec<(PathBuf, ConnectionId, OwnedFd)>> {
        self.frames.set_timeout(Some(SOON)).map_err(|error| self.lost(&error))?;
        self.send(ProcessRequest::Devices, &[], None)?;
        let mut devices = Vec::new();
        loop {
            let received = self.frames.receive().map_err(|error| self.lost(&error))?;
            let received =
                received.ok_or_else(|| self.lost(&io::ErrorKind::UnexpectedEof.into()))?;
            match (received.head, received.descriptors.into_iter().next()) {
                (Answer::Device { mount_point, connection }, Some(device)) => {
                    devices.push((mount_point, connection, device));
                }
                (Answer::Done, _) => return Ok(devices),
                (Answer::Refused(error), _) => return Err(error),
                _ => return Err(self.strange()),
            }
        }
    }

    /// Reports connections of NBD clients until the engine ends: each present and each new
    /// connection with its memory and its socket, and the end of each connection.
    ///
    /// # Errors
    /// The connection's failure, unless the engine ends in good order.
    pub fn keep(self, mut heard: impl FnMut(u64, Option<(OwnedFd, OwnedFd)>)) -> Result<()> {
        self.frames.set_timeout(None).map_err(|error| self.lost(&error))?;
        self.send(ProcessRequest::Keep, &[], None)?;
        while let Some(received) = self.frames.receive().map_err(|error| self.lost(&error))? {
            let mut descriptors = received.descriptors.into_iter();
            match (received.head, descriptors.next(), descriptors.next()) {
                (Answer::Kept { id }, Some(memory), Some(socket)) => {
                    heard(id, Some((memory, socket)))
                }
                (Answer::Ended { id }, ..) => heard(id, None),
                (Answer::Refused(error), ..) => return Err(error),
                _ => return Err(self.strange()),
            }
        }
        Ok(())
    }

    /// Hands the engine the connection of an NBD client: its memory and its socket.
    ///
    /// # Errors
    /// If the engine refuses the client, or ends before it answers.
    pub fn resume(&self, memory: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> Result<()> {
        self.frames.set_timeout(Some(SOON)).map_err(|error| self.lost(&error))?;
        let sent =
            self.frames.send_with(&Request::from(ProcessRequest::Resume), &[], &[memory, socket]);
        sent.map_err(|error| self.lost(&error))?;
        match self.next()?.0 {
            Answer::Done => Ok(()),
            _ => Err(self.strange()),
        }
    }

    /// The exports of the engine, and the number of clients of each.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub fn exports(&self) -> Result<Vec<(Export, usize)>> {
        match self.call(ProcessRequest::Exports, Some(SOON))? {
            Answer::Exports(exports) => Ok(exports),
            _ => Err(self.strange()),
        }
    }

    /// Passes on notices until the engine ends.
    ///
    /// # Errors
    /// If the engine refuses to be watched, or does not answer.
    pub fn watch(self, mut notice: impl FnMut(Notice)) -> Result<()> {
        match self.call(ProcessRequest::Watch, Some(SOON))? {
            Answer::Done => {}
            _ => return Err(self.strange()),
        }
        self.frames.set_timeout(None).map_err(|error| self.lost(&error))?;
        while let Ok((Answer::Notice(heard), _)) = self.next() {
            notice(heard);
        }
        Ok(())
    }

    /// # Errors
    /// If there is no such file, or the engine does not answer.
    pub fn look(&self, path: &str) -> Result<FileInfo> {
        match self.call(FileRequest::Look { path: path.to_owned() }, None)? {
            Answer::File(info) => Ok(info),
            _ => Err(self.strange()),
        }
    }

    /// Resolves a path, with names in any case: the real path as far as it exists, the attributes
    /// of the file or directory there, and the remaining names, which do not exist.
    ///
    /// # Errors
    /// If a name is ambiguous, or the engine does not answer.
    pub fn find(&self, path: &str) -> Result<(Vec<String>, FileInfo, Vec<String>)> {
        match self.call(FileRequest::Find { path: path.to_owned() }, None)? {
            Answer::Found { path, file, missing } => Ok((path, file, missing)),
            _ => Err(self.strange()),
        }
    }

    /// All entries of a directory.
    ///
    /// # Errors
    /// If there is no such directory, or the engine does not answer.
    pub fn list(&self, path: &str) -> Result<Vec<ListEntry>> {
        let mut all: Vec<ListEntry> = Vec::new();
        loop {
            let after = all.last().map_or(0, |entry| entry.cookie);
            match self.call(FileRequest::List { path: path.to_owned(), after }, None)? {
                Answer::Entries(entries) if entries.is_empty() => return Ok(all),
                Answer::Entries(entries) => all.extend(entries),
                _ => return Err(self.strange()),
            }
        }
    }

    /// Creates a file, or empties an existing one.
    ///
    /// # Errors
    /// If the engine refuses the request, or ends before it answers.
    pub fn make(&self, path: &str, mode: u32, uid: u32, gid: u32) -> Result<FileInfo> {
        match self.call(FileRequest::Make { path: path.to_owned(), mode, uid, gid }, None)? {
            Answer::File(info) => Ok(info),
            _ => Err(self.strange()),
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// If the engine refuses the request, or ends before it answers.
    pub fn make_directory(&self, path: &str, mode: u32, uid: u32, gid: u32) -> Result<FileInfo> {
        match self
            .call(FileRequest::MakeDirectory { path: path.to_owned(), mode, uid, gid }, None)?
        {
            Answer::File(info) => Ok(info),
            _ => Err(self.strange()),
        }
    }

    /// Creates a file under a system name, and returns its path. `head`: the first bytes that will
    /// be written to it, from which the engine infers the type; they are not written here.
    ///
    /// # Errors
    /// If the engine refuses the request, or ends before it answers.
    pub fn make_system(
        &self,
        new: NewSystemFile,
        head: &[u8],
        mode: u32,
        (uid, gid): (u32, u32),
    ) -> Result<(FileInfo, String)> {
        self.frames.set_timeout(None).map_err(|error| self.lost(&error))?;
        self.send(FileRequest::MakeSystem { new, mode, uid, gid }, head, None)?;
        match self.next()?.0 {
            Answer::Made { file, path } => Ok((file, path)),
            _ => Err(self.strange()),
        }
    }

    /// # Errors
    /// If the engine refuses the request, or ends before it answers.
    pub fn read(&self, node: u64, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.send(FileRequest::Read { node, offset, length }, &[], None)?;
        match self.next()? {
            (Answer::Bytes, bytes) => Ok(bytes),
            _ => Err(self.strange()),
        }
    }

    /// # Errors
    /// If the engine refuses the request, or ends before it answers.
    pub fn write(&self, node: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        self.send(FileRequest::Write { node, offset }, bytes, None)?;
        match self.next()?.0 {
            Answer::Done => Ok(()),
            _ => Err(self.strange()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, os::unix::net::UnixListener, thread};

    /// The engine is killed before it has read our greeting, or after.
    #[test]
    fn an_engine_that_ends_before_its_greeting_is_no_engine() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("engine");
        let listener = UnixListener::bind(&socket).expect("a socket");
        for reads in [false, true] {
            let client = thread::spawn({
                let socket = socket.clone();
                move || Client::connect_to(&socket, "DATA").expect_err("it ended").code
            });
            let (mut engine, _) = listener.accept().expect("a connection");
            // Bytes can be left unread only once they have arrived.
            while rustix::io::ioctl_fionread(&engine).expect("FIONREAD") == 0 {
                thread::yield_now();
            }
            if reads {
                let unread = rustix::io::ioctl_fionread(&engine).expect("FIONREAD");
                engine.read_exact(&mut vec![0; unread as usize]).expect("read");
            }
            drop(engine);
            assert_eq!(client.join().expect("no panic"), Code::NotMounted, "reads: {reads}");
        }
    }

    /// The report of an engine that runs on through an upgrade of the instance.
    #[test]
    fn reports_of_engines_of_before_have_no_counts() {
        let text = r#"{"problems":[{"text":"a","repaired":true},{"text":"b","repaired":false}],"extents_checked":7,"bytes_read":8}"#;
        let report: Report = serde_json::from_str(text).expect("it is read");
        let findings = &report.problems;
        assert_eq!(
            (findings.found(), findings.repaired(), findings.left(), findings.untold()),
            (2, 1, 1, 0)
        );
        let text = serde_json::to_string(&report).expect("it is written");
        assert!(text.contains(r#""problems":[{"text":"a""#), "{text}");
        assert_eq!(serde_json::from_str::<Report>(&text).expect("it is read"), report);
    }
}
