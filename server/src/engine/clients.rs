//! The users of the group: `v$asm_client`.
//!
//! A row for each directory on which the group is mounted, and one for each database, or other
//! process, that has files open there or works in there. It is read from the links in `/proc/PID`,
//! which involves no request to the mount itself; processes that this one may not look at are not
//! shown.
//!
//! Of a database it shows what can be seen from outside: the program, the processes of one server
//! taken together, the directory it works in, and the version that is part of the program's path,
//! where there is one.

use plinth_engine::catalog::live_stats::LiveClient;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Known programs, and their kinds in the view.
const KNOWN: [(&str, &str); 8] = [
    ("postgres", "POSTGRESQL"),
    ("mysqld", "MYSQL"),
    ("mariadbd", "MARIADB"),
    ("mongod", "MONGODB"),
    ("sqlite3", "SQLITE"),
    ("redis-server", "REDIS"),
    ("clickhouse", "CLICKHOUSE"),
    ("oracle", "ORACLE"),
];

/// A process that uses a mount, as far as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
    program: Option<PathBuf>,
    directory: Option<PathBuf>,
    open_files: u64,
}

/// Rows for the mounts on these directories.
pub(super) fn clients(mount_points: &BTreeSet<PathBuf>) -> Vec<LiveClient> {
    let mut rows = Vec::new();
    for mount_point in mount_points {
        let processes = users(Path::new("/proc"), mount_point);
        let shown = mount_point.display().to_string();
        rows.push(LiveClient {
            instance: shown.clone(),
            kind: "MOUNT".to_owned(),
            mount_point: Some(shown),
            open_files: Some(processes.iter().map(|process| process.open_files).sum()),
            ..LiveClient::default()
        });
        rows.extend(together(processes, mount_point));
    }
    rows
}

/// The processes that use a mount, ascending.
fn users(table: &Path, mount_point: &Path) -> Vec<Process> {
    let entries = fs::read_dir(table).into_iter().flatten().flatten();
    let pids =
        entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    let mut users: Vec<Process> =
        pids.filter_map(|(pid, path)| user(pid, &path, mount_point)).collect();
    users.sort_by_key(|process| process.pid);
    users
}

fn user(pid: u32, process: &Path, mount_point: &Path) -> Option<Process> {
    let link = |name: &str| fs::read_link(process.join(name)).ok();
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let is_inside = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(mount_point))
    };
    let open_files = files.filter(is_inside).count() as u64;
    let directory = link("cwd");
    if open_files == 0
        && !directory.as_ref().is_some_and(|directory| directory.starts_with(mount_point))
    {
        return None;
    }
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default().trim_end().to_owned();
    Some(Process {
        pid,
        parent: parent(process).unwrap_or(0),
        name,
        program: link("exe"),
        directory,
        open_files,
    })
}

/// The fourth word of `stat`; the second, the name in parentheses, may hold anything.
fn parent(process: &Path) -> Option<u32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// A row for each server with all its processes, and for each other process.
fn together(processes: Vec<Process>, mount_point: &Path) -> Vec<LiveClient> {
    let mut servers: BTreeMap<(String, Option<PathBuf>, u32), Vec<Process>> = BTreeMap::new();
    for process in processes {
        let key = match kind_of(&process) {
            // Its processes work in its directory of data.
            Some(kind) => (kind.to_owned(), process.directory.clone(), 0),
            None => ("PROCESS".to_owned(), None, process.pid),
        };
        servers.entry(key).or_default().push(process);
    }
    let row =
        |((kind, directory, _), processes): (&(String, Option<PathBuf>, u32), &Vec<Process>)| {
            let is_own = |pid: u32| processes.iter().any(|process| process.pid == pid);
            let leader =
                processes.iter().find(|process| !is_own(process.parent)).or(processes.first())?;
            let database =
                directory.as_deref().filter(|directory| directory.starts_with(mount_point));
            Some(LiveClient {
                instance: leader.name.clone(),
                database: database
                    .and_then(Path::file_name)
                    .map(|name| name.to_string_lossy().into_owned()),
                software: leader.program.as_deref().and_then(version_of),
                kind: kind.clone(),
                pid: Some(leader.pid),
                mount_point: Some(mount_point.display().to_string()),
                open_files: Some(processes.iter().map(|process| process.open_files).sum()),
            })
        };
    servers.iter().filter_map(row).collect()
}

fn kind_of(process: &Process) -> Option<&'static str> {
    let program = process.program.as_deref().and_then(Path::file_name)?.to_str()?;
    KNOWN.iter().find(|(name, _)| *name == program).map(|(_, kind)| *kind)
}

/// A directory on the program's path that is a version, as in
/// `/usr/lib/postgresql/15/bin/postgres`.
fn version_of(program: &Path) -> Option<String> {
    let is_version = |part: &&str| {
        part.starts_with(|first: char| first.is_ascii_digit())
            && part.chars().all(|one| one.is_ascii_digit() || one == '.')
    };
    program.iter().filter_map(|part| part.to_str()).find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, program: &str, directory: &str, open_files: u64) -> Process {
        let name = Path::new(program).file_name().expect("a name").to_string_lossy().into_owned();
        Process {
            pid,
            parent,
            name,
            program: Some(program.into()),
            directory: Some(directory.into()),
            open_files,
        }
    }

    #[test]
    fn the_processes_of_a_server_are_one_client() {
        let server = "/usr/lib/postgresql/15/bin/postgres";
        let processes = vec![
            process(70, 90, server, "/mnt/data/pg", 3),
            process(90, 1, server, "/mnt/data/pg", 2),
            process(95, 90, server, "/mnt/data/pg", 4),
            process(99, 1, server, "/mnt/data/other", 1),
            process(100, 1, "/usr/bin/dd", "/root", 1),
            process(101, 1, "/usr/bin/dd", "/root", 1),
        ];
        let rows = together(processes, Path::new("/mnt/data"));
        let seen: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.kind.as_str(),
                    row.pid,
                    row.database.as_deref(),
                    row.open_files,
                    row.software.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("POSTGRESQL", Some(99), Some("other"), Some(1), Some("15")),
                ("POSTGRESQL", Some(90), Some("pg"), Some(9), Some("15")),
                ("PROCESS", Some(100), None, Some(1), None),
                ("PROCESS", Some(101), None, Some(1), None),
            ]
        );
    }

    #[test]
    fn processes_with_a_file_open_are_found() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path().canonicalize().expect("it is there");
        let file = fs::File::create(home.join("file")).expect("created");
        let own = std::process::id();
        let found = users(Path::new("/proc"), &home);
        let this = found.iter().find(|process| process.pid == own).expect("this process");
        assert_eq!(this.open_files, 1);
        assert_eq!(this.parent, std::os::unix::process::parent_id());
        drop(file);
        assert!(!users(Path::new("/proc"), &home).iter().any(|process| process.pid == own));
    }
}
