//! An instance of its own for each test: directory, disks, `plinth serve`, mounts.

use crate::{
    FaultDisk, Finished, LoopDisk, Manager, Pool, SlowDisk, binary, command, manager::Starter,
    need_root, wait_for,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A row of a query: column names in lower case.
pub type Row = BTreeMap<String, Value>;

/// A running instance. The crate's description says what happens when it is dropped.
pub struct Instance {
    home: tempfile::TempDir,
    program: PathBuf,
    environment: Vec<(String, String)>,
    server: Option<Child>,
    starter: Option<Starter>,
    faulty: Vec<FaultDisk>,
    loops: Vec<LoopDisk>,
    pools: Vec<Pool>,
    slow: Vec<SlowDisk>,
}

impl Instance {
    /// Starts an instance that discovers the disks in its `disks` folder.
    #[must_use]
    pub fn new() -> Self {
        Self::of(binary(), &[])
    }

    /// With `io` as I/O engine: `uring`, `threads`, or `auto` for the product's choice.
    #[must_use]
    pub fn with_io(io: &'static str) -> Self {
        let environment = [("PLINTH_IO", io)];
        Self::of(binary(), if io == "auto" { &[] } else { &environment })
    }

    /// As a service of a manager that keeps descriptors.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn under(manager: &Manager) -> Self {
        Self::started(binary(), &[], Some(manager.wrap()))
    }

    /// An instance of another build, or with something in its environment.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn of(program: PathBuf, environment: &[(&str, &str)]) -> Self {
        Self::started(program, environment, None)
    }

    fn started(program: PathBuf, environment: &[(&str, &str)], starter: Option<Starter>) -> Self {
        need_root();
        let mut builder = tempfile::Builder::new();
        builder.prefix("plinth-test.");
        let home = match std::env::var_os("PLINTH_TEST_DIR") {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        let home = home.expect("a directory of one's own");
        // Databases run as another user and must be able to pass.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        for folder in ["disks", "parts", "run", "mnt"] {
            fs::create_dir(home.path().join(folder)).expect("own directory");
        }
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let (faulty, loops, pools, slow) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut instance =
            Self { home, program, environment, server: None, starter, faulty, loops, pools, slow };
        instance.start();
        instance
    }

    /// Starts the instance again after [`Self::kill_instance`].
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    /// Starts it again with more arguments.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_with(&mut self, arguments: &[&str]) {
        assert!(self.server.is_none(), "the instance runs already");
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("serve.log"))
            .expect("log");
        let (mut command, _passed) = match &self.starter {
            Some(starter) => starter.command(&self.program),
            None => (Command::new(&self.program), Vec::new()),
        };
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(["serve", "--dir"])
            .arg(self.dir())
            .arg("--diskstring")
            .arg(format!("{}/*", self.path("disks").display()))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("log"))
            .stderr(log);
        self.server = Some(command.spawn().expect("plinth serve"));
        wait_for("the instance to answer", || {
            let server = self.server.as_mut().expect("just started");
            if let Ok(Some(status)) = server.try_wait() {
                self.server = None;
                panic!("plinth serve ended with {status}:\n{}", self.read("serve.log"));
            }
            self.plinth(["sql", "-c", "SELECT 1"]).code == Some(0)
        });
    }

    /// The program under test.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The instance's directory: `--dir`.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.path("run")
    }

    /// A path in the test's own directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// The text of a file in the test's own directory; empty if there is none.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    #[must_use]
    pub fn alert_log(&self) -> String {
        self.read("run/alert.log")
    }

    /// The path of a disk of this name, whether it exists or not.
    #[must_use]
    pub fn disk(&self, name: &str) -> PathBuf {
        self.path("disks").join(name)
    }

    /// A new disk: a file of `size` bytes.
    ///
    /// # Panics
    /// If there is no room.
    pub fn add_disk(&self, name: &str, size: u64) -> PathBuf {
        let path = self.disk(name);
        fs::File::create(&path).and_then(|file| file.set_len(size)).expect("disk file");
        path
    }

    /// A new disk that can be made to fail: its index for [`Self::faulty`].
    pub fn add_fault_disk(&mut self, name: &str, size: u64) -> PathBuf {
        let link = self.disk(name);
        self.faulty.push(FaultDisk::new(&self.path("parts"), &link, name, size));
        link
    }

    /// The fault disk of this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn faulty(&self, name: &str) -> &FaultDisk {
        let path = self.disk(name);
        self.faulty.iter().find(|disk| disk.path() == path).expect("a fault disk of this name")
    }

    /// A new disk that can be made slow, for [`Self::slow`].
    pub fn add_slow_disk(&mut self, name: &str, size: u64) -> PathBuf {
        let link = self.disk(name);
        self.slow.push(SlowDisk::new(&self.path("parts"), &link, name, size));
        link
    }

    /// The slow disk of this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn slow(&self, name: &str) -> &SlowDisk {
        let path = self.disk(name);
        self.slow.iter().find(|disk| disk.path() == path).expect("a slow disk of this name")
    }

    /// A new block device with the given sector size, linked from the `disks` folder.
    ///
    /// # Panics
    /// If the kernel gives none.
    pub fn add_loop_disk(&mut self, name: &str, size: u64, sector: u32) -> PathBuf {
        self.add_loop_disk_over(&self.path("parts").join(name), name, size, sector)
    }

    fn add_loop_disk_over(&mut self, file: &Path, name: &str, size: u64, sector: u32) -> PathBuf {
        let disk = LoopDisk::new(file, size, sector);
        let link = self.disk(name);
        std::os::unix::fs::symlink(disk.path(), &link).expect("link to the device");
        self.loops.push(disk);
        link
    }

    /// A new small file system, for disks that take their space from it.
    pub fn add_pool(&mut self, name: &str, size: u64) {
        let image = self.path("parts").join(format!("{name}.image"));
        self.pools.push(Pool::new(image, self.path("parts").join(name), size));
    }

    /// The pool of this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn pool(&self, name: &str) -> &Pool {
        let path = self.path("parts").join(name);
        self.pools.iter().find(|pool| pool.path() == path).expect("a pool of this name")
    }

    /// A new block device that takes its space from a pool, linked from the `disks` folder.
    ///
    /// # Panics
    /// If the kernel gives none.
    pub fn add_loop_disk_in(&mut self, pool: &str, name: &str, size: u64) -> PathBuf {
        let file = self.pool(pool).path().join(name);
        self.add_loop_disk_over(&file, name, size, 512)
    }

    /// A new disk: a file of `size` bytes that takes its space from a pool.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn add_disk_in(&self, pool: &str, name: &str, size: u64) -> PathBuf {
        let file = self.pool(pool).path().join(name);
        fs::File::create(&file).and_then(|file| file.set_len(size)).expect("disk file");
        let link = self.disk(name);
        std::os::unix::fs::symlink(&file, &link).expect("link to the file");
        link
    }

    /// Runs a `plinth` command against this instance.
    pub fn plinth<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Finished {
        command::finish(Command::new(&self.program).env("PLINTH_DIR", self.dir()).args(args))
    }

    /// Runs a statement.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn sql(&self, statement: &str) -> String {
        self.plinth(["sql", "-c", statement]).ok()
    }

    /// The message of a statement that is refused.
    ///
    /// # Panics
    /// If it is not, or if the instance does not answer afterwards.
    #[track_caller]
    pub fn refused(&self, statement: &str) -> String {
        let said = self.plinth(["sql", "-c", statement]).refused();
        self.plinth(["sql", "-c", "SELECT 1"]).ok();
        said
    }

    /// A query's rows.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn query(&self, select: &str) -> Vec<Row> {
        rows(&self.plinth(["sql", "--json", "-c", select]).ok())
    }

    /// A query's rows; `None` if it is refused, as while an engine is being replaced.
    #[must_use]
    pub fn try_query(&self, select: &str) -> Option<Vec<Row>> {
        let answer = self.plinth(["sql", "--json", "-c", select]);
        (answer.code == Some(0)).then(|| rows(&answer.out))
    }

    /// A query's only value, as a number.
    ///
    /// # Panics
    /// If it is not one.
    #[track_caller]
    pub fn number(&self, select: &str) -> f64 {
        let rows = self.query(select);
        let value =
            rows.first().and_then(|row| row.values().next()).expect("one row with one column");
        as_number(value).unwrap_or_else(|| panic!("{select}: {value} is not a number"))
    }

    /// A query's only value, as text.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn text(&self, select: &str) -> String {
        let rows = self.query(select);
        let value =
            rows.first().and_then(|row| row.values().next()).expect("one row with one column");
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }

    /// Makes a group of file disks: `shape` has the sizes of the disks of each failure group.
    /// Disks are named `f0d0`, `f0d1`, `f1d0` ..., failure groups `F0`, `F1` ...
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn create_group(&self, name: &str, redundancy: &str, shape: &[&[u64]], attributes: &str) {
        let mut statement = format!("CREATE DISKGROUP {name} {redundancy} REDUNDANCY");
        for (group, sizes) in shape.iter().enumerate() {
            let disks: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(disk, size)| {
                    let path = self.disk(&format!("f{group}d{disk}"));
                    if !path.exists() {
                        self.add_disk(&format!("f{group}d{disk}"), *size);
                    }
                    format!("'{}'", path.display())
                })
                .collect();
            let failure_group = if redundancy == "EXTERNAL" {
                String::new()
            } else {
                format!(" FAILGROUP f{group}")
            };
            statement += &format!("{failure_group} DISK {}", disks.join(", "));
        }
        if !attributes.is_empty() {
            statement += &format!(" ATTRIBUTE {attributes}");
        }
        self.sql(&statement);
    }

    /// Mounts a group's files on a folder of the test's own.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn mount(&self, group: &str) -> PathBuf {
        let point = self.path("mnt").join(group);
        fs::create_dir_all(&point).expect("mount point");
        self.plinth(["mount".as_ref(), group.as_ref(), point.as_os_str()]).ok();
        assert!(
            is_mounted(&point),
            "`plinth mount` returned, but nothing is mounted on {}",
            point.display()
        );
        point
    }

    /// The folder on which [`Self::mount`] mounted the group, after the instance brought the mount
    /// back.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn mount_again(&self, group: &str) -> PathBuf {
        let point = self.path("mnt").join(group);
        // Attributes and folders of a dead mount may be answered from the kernel's cache, its space
        // never.
        let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
        let outside = device(&self.path("mnt"));
        wait_for("the mount to be back", || {
            rustix::fs::statvfs(&point).is_ok()
                && device(&point).is_some_and(|own| Some(own) != outside)
        });
        point
    }

    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn unmount(&self, point: &Path) {
        self.plinth(["umount".as_ref(), point.as_os_str()]).ok();
    }

    /// The process id of the instance.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.server.as_ref().expect("the instance runs").id()).expect("a process id")
    }

    /// The process id of the engine of a group, if one runs.
    #[must_use]
    pub fn engine(&self, group: &str) -> Option<i32> {
        let pid =
            self.read(&format!("run/engine.{}.pid", group.to_uppercase())).trim().parse().ok()?;
        self.processes().contains(&pid).then_some(pid)
    }

    /// `kill -9` to the engine of a group.
    ///
    /// # Panics
    /// If none runs.
    #[track_caller]
    pub fn kill_engine(&self, group: &str) {
        kill(self.engine(group).unwrap_or_else(|| panic!("no engine of {group} runs")));
    }

    /// Sends a signal to the engine of a group.
    ///
    /// # Panics
    /// If none runs.
    #[track_caller]
    pub fn signal_engine(&self, group: &str, signal: rustix::process::Signal) {
        let pid = self.engine(group).unwrap_or_else(|| panic!("no engine of {group} runs"));
        let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("a signal");
    }

    /// `kill -9` to the instance, and to nothing else.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill_instance(&mut self) {
        let mut server = self.server.take().expect("the instance runs");
        server.kill().expect("kill");
        let _ = server.wait();
    }

    /// Waits for the end of an instance that is shutting down.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stopped(&mut self) {
        let mut server = self.server.take().expect("the instance ran");
        wait_for("the instance to end", || server.try_wait().is_ok_and(|status| status.is_some()));
    }

    /// Waits until no operation runs, and every disk of the group is online.
    #[track_caller]
    pub fn wait_until_whole(&self, group: &str) {
        wait_for("every disk online and no operation running", || {
            let answer = self.plinth(["sql", "--json", "-c", "SELECT * FROM v$asm_operation"]);
            let busy = answer.code != Some(0)
                || rows(&answer.out).iter().any(|row| {
                    row.get("state")
                        .and_then(Value::as_str)
                        .is_some_and(|state| !["DONE", "ERRS"].contains(&state))
                });
            !busy && self.offline_disks(group) == 0.0
        });
    }

    /// Disks of a mounted group that are not online.
    #[track_caller]
    pub fn offline_disks(&self, group: &str) -> f64 {
        self.number(&format!(
            "SELECT COUNT(*) FROM v$asm_disk d, v$asm_diskgroup g \
             WHERE d.group_number = g.group_number AND g.name = '{}' AND d.mode_status <> 'ONLINE'",
            group.to_uppercase()
        ))
    }

    /// Waits until no write is in flight any more: the group is dismounted and mounted again, as
    /// are its files.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn quiesce(&self, group: &str) {
        let point = self.path("mnt").join(group);
        self.unmount(&point);
        self.sql(&format!("ALTER DISKGROUP {group} DISMOUNT"));
        self.sql(&format!("ALTER DISKGROUP {group} MOUNT"));
        self.mount(group);
    }

    /// Every mirror of every extent is equal and right.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn check(&self, group: &str) {
        let finished = self.plinth(["check", group]);
        // 3: nothing is wrong, but disks are away.
        if finished.code != Some(3) {
            finished.ok();
        }
    }

    /// Discovery's row of a disk.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn disk_row(&self, path: &Path) -> Row {
        let rows =
            self.query(&format!("SELECT * FROM v$asm_disk WHERE path = '{}'", path.display()));
        rows.into_iter()
            .next()
            .unwrap_or_else(|| panic!("v$asm_disk does not show {}", path.display()))
    }

    /// All processes that work for this instance: `plinth` with its directory among the arguments
    /// or in the environment.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let dir = self.dir().display().to_string();
        let ours = |process: &Path| {
            let words = |file: &str| fs::read(process.join(file)).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&words("cmdline")).into_owned();
            arguments.split('\0').next().is_some_and(|program| program.ends_with("plinth"))
                && (arguments.contains(&dir)
                    || String::from_utf8_lossy(&words("environ")).contains(&dir))
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            ours(&entry.path()).then_some(pid)
        })
        .collect()
    }
}

impl Default for Instance {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        for disk in &self.faulty {
            disk.heal();
        }
        if std::thread::panicking() {
            let engines = fs::read_dir(self.dir()).into_iter().flatten().flatten();
            let engines =
                engines.map(|entry| format!("run/{}", entry.file_name().to_string_lossy()));
            let engines =
                engines.filter(|name| name.starts_with("run/engine.") && name.ends_with(".log"));
            for log in
                ["serve.log".to_owned(), "run/alert.log".to_owned()].into_iter().chain(engines)
            {
                let text = self.read(&log);
                let tail = text.lines().rev().take(40).collect::<Vec<_>>();
                eprintln!("--- {log}\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
            }
        }
        let mut shutdown = Command::new(&self.program);
        shutdown.env("PLINTH_DIR", self.dir()).arg("shutdown");
        if self.server.is_some() {
            let _ = command::finish_within(&mut shutdown, Duration::from_secs(20));
        }
        for point in mounts_below(self.home.path()) {
            if point.starts_with(self.path("mnt")) {
                let _ = command::finish(Command::new("umount").arg("-l").arg(&point));
            }
        }
        for _ in 0..100 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(kill);
            std::thread::sleep(Duration::from_millis(50));
        }
        if let Some(mut server) = self.server.take() {
            let _ = server.wait();
        }
        self.faulty.clear();
        self.loops.clear();
        self.pools.clear();
        self.slow.clear();
    }
}

fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(PathBuf::from)
        .filter(|point| point.starts_with(path))
        .collect()
}

fn is_mounted(point: &Path) -> bool {
    mounts_below(point).iter().any(|mounted| mounted == point)
}

fn as_number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// The rows of a table printed as JSON: an array of objects.
#[track_caller]
fn rows(json: &str) -> Vec<Row> {
    let value: Value =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"));
    let rows = value.as_array().unwrap_or_else(|| panic!("not a list of rows: {json}"));
    rows.iter()
        .map(|row| {
            let row = row.as_object().unwrap_or_else(|| panic!("not a row: {json}"));
            row.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect()
        })
        .collect()
}
