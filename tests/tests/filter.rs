//! The write filter: programs other than the engine cannot open a member for writing.
//!
//! Each test has a bpf file system of its own, so a filter of its own beside any others.

use plinth_tests::{Blocks, FilterPins, Finished, Instance, MIB, scaled, shell, wait_for};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// A group of two loop devices, their paths, and the files under them.
fn group(instance: &mut Instance) -> [PathBuf; 2] {
    let disks = ["f0d0", "f1d0"].map(|disk| instance.add_loop_disk(disk, 256 * MIB, 512));
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    disks.map(|disk| fs::canonicalize(disk).expect("a device"))
}

fn contents(device: &Path) -> String {
    shell(&format!("sha256sum < {}", device.display())).ok()
}

/// Whether `dd` can open a device for writing; it writes nothing.
fn writes(device: &Path) -> bool {
    let command = format!("dd if=/dev/null of={} conv=notrunc", device.display());
    shell(&command).finish().code == Some(0)
}

fn filtering(instance: &Instance, name: &str) -> String {
    instance.text(&format!("SELECT filtering FROM v$asm_filter_disk WHERE name = '{name}'"))
}

/// Commands that write a device in the place of `DEV`.
const WRITERS: [&str; 9] = [
    "dd if=/dev/zero of=DEV bs=4096 count=1 conv=notrunc",
    "mkfs.ext4 -q -F DEV",
    "wipefs -a -f DEV",
    "blkdiscard -f DEV",
    "echo 'label: gpt' | sfdisk -q --force DEV",
    "parted -s DEV mklabel gpt",
    "qemu-io -f raw -c 'write 0 4096' DEV",
    "fio --name=w --filename=DEV --rw=write --ioengine=io_uring --size=4096 --bs=4096",
    "rm -f NODE && mknod NODE b $(stat -c '0x%t 0x%T' DEV) && dd if=/dev/zero of=NODE bs=4096 count=1",
];

#[test]
fn no_other_program_can_write_a_member() {
    let pins = FilterPins::new();
    let mut instance = pins.instance();
    let [first, second] = group(&mut instance);
    let refused = instance.plinth(["afd_state"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("ASMCMD-9520: AFD is not Loaded"), "{refused:?}");
    instance.plinth(["afd_configure"]).ok();
    let state = instance.plinth(["afd_state"]).ok();
    let host = shell("uname -n").ok();
    assert_eq!(
        state.trim(),
        format!(
            "ASMCMD-9526: The AFD state is 'LOADED' and filtering is 'ENABLED' on host '{}'",
            host.trim()
        )
    );
    assert_eq!(
        [filtering(&instance, "DATA_0000"), filtering(&instance, "DATA_0001")],
        ["ENABLED"; 2]
    );

    // The engine goes on, and another one begins.
    let mount = instance.mount("DATA");
    fs::write(mount.join("file"), vec![7; 1 << 20]).expect("write");
    instance.kill_engine("DATA");
    assert_eq!(fs::read(mount.join("file")).expect("read"), vec![7; 1 << 20]);
    instance.unmount(&mount);
    // Nothing changes the disks of a group that is not mounted: they are members all the same.
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let before = [contents(&first), contents(&second)];
    let node = instance.path("node");
    for (command, number) in WRITERS.iter().zip(1..) {
        let device = if number % 2 == 0 { &first } else { &second };
        let command = command
            .replace("DEV", &device.display().to_string())
            .replace("NODE", &node.display().to_string());
        let ended = shell(&command).finish();
        let said = format!("{}{}", ended.out, ended.err).to_lowercase();
        assert_ne!(ended.code, Some(0), "{command}: {said}");
        assert!(
            said.contains("not permitted") || said.contains("permission denied"),
            "{command}: {said}"
        );
    }
    shell(&format!("dd if={} of=/dev/null bs=1M", first.display())).ok();
    assert_eq!([contents(&first), contents(&second)], before);

    let refusals = instance.query(
        "SELECT pid, username, group_name, name FROM v$asm_filter_refusal WHERE program = 'dd' ORDER BY refusal",
    );
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert!(refusals[0]["pid"].as_i64().is_some_and(|pid| pid > 1), "{refusals:?}");
    assert_eq!(
        ["username", "group_name", "name"].map(|column| refusals[0][column].as_str()),
        [Some("root"), Some("DATA"), Some("DATA_0001")]
    );
    let pid = refusals[0]["pid"].to_string();
    wait_for("the alert log", || {
        let line = format!("refused to open for writing: process {pid} (dd), user root");
        instance.alert_log().contains(&line)
    });
    let counted = instance.number("SELECT refused FROM v$asm_filter");
    assert!(counted >= WRITERS.len() as f64, "{counted}");

    // No process of ours is needed for it.
    instance.sql("ALTER DISKGROUP data MOUNT");
    let engine = instance.engine("DATA").expect("an engine");
    instance.kill_instance();
    let pid = rustix::process::Pid::from_raw(engine).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    wait_for("the engine's end", || !Path::new(&format!("/proc/{engine}/cmdline")).exists());
    let zeros = format!("dd if=/dev/zero of={} bs=4096 count=1 conv=notrunc", first.display());
    assert_ne!(shell(&zeros).finish().code, Some(0));
    instance.start();
    instance.wait_until_whole("DATA");
    assert_ne!(shell(&zeros).finish().code, Some(0));

    instance.plinth(["afd_deconfigure"]).ok();
    assert!(pins.are_gone());
    assert_eq!(filtering(&instance, "DATA_0000"), "DISABLED");
    assert!(writes(&first));
}

/// Tries to write the devices while `story` runs: by opens of this process, one behind the other,
/// and by `dd` with the bytes of `foreign`. Each attempt must be refused.
fn under_attempts(devices: &[PathBuf; 2], foreign: &Path, story: impl FnOnce()) {
    struct Until<'a>(&'a AtomicBool);
    impl Drop for Until<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    let opens = || {
        let mut attempts = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            for device in devices {
                let opened = fs::OpenOptions::new().write(true).open(device);
                let refusal = opened.expect_err("a member was opened for writing");
                assert_eq!(refusal.raw_os_error(), Some(rustix::io::Errno::PERM.raw_os_error()));
                attempts += 1;
            }
        }
        attempts
    };
    let copies = || {
        let mut attempts = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            let device = &devices[(attempts % 2) as usize];
            let dd = shell(r#"dd if="$1" of="$2" bs=4096 seek=3 conv=notrunc"#);
            let ended = dd.arg(foreign).arg(device).finish();
            assert!(ended.err.contains("Operation not permitted"), "{ended:?}");
            attempts += 1;
        }
        attempts
    };
    thread::scope(|scope| {
        let until = Until(&is_over);
        let attempts = [scope.spawn(opens), scope.spawn(copies)];
        story();
        drop(until);
        let attempts = attempts.map(|one| one.join().expect("only refusals"));
        assert!(attempts.iter().all(|attempts| *attempts > 0), "{attempts:?}");
        println!("attempts: {attempts:?}");
    });
}

/// Engines are replaced and killed, and instances take over from others: no moment comes in which
/// another program can open a member for writing. Only the engine changes the disks.
#[test]
fn members_stay_protected_while_engines_and_instances_are_replaced() {
    let pins = FilterPins::new();
    let mut instance = pins.instance();
    let devices = group(&mut instance);
    let mount = instance.mount("DATA");
    let foreign = instance.path("foreign");
    let mark = b"written by another program; ".repeat(147);
    fs::write(&foreign, &mark[..4096]).expect("written");
    instance.sql("ALTER SYSTEM FILTER LOAD");
    let blocks = Blocks::new(mount.join("file"), 1, 300);
    under_attempts(&devices, &foreign, || {
        for round in 0..scaled(2, 20) {
            let before = instance.engine("DATA");
            instance.plinth(["upgrade", "data"]).ok();
            assert_ne!(instance.engine("DATA"), before);
            let before = instance.engine("DATA");
            instance.kill_instance();
            instance.start();
            assert_eq!(instance.engine("DATA"), before, "it is adopted");
            instance.kill_engine("DATA");
            wait_for("another engine", || {
                instance.engine("DATA").is_some_and(|pid| Some(pid) != before)
            });
            fs::write(mount.join(format!("file{round}")), vec![7; 1 << 20]).expect("written");
        }
    });
    blocks.must_read_right();
    instance.wait_until_whole("DATA");
    instance.check("DATA");
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let has_mark = |device: &PathBuf| {
        let search = shell(r#"grep -q --text "written by another program" "$1""#);
        search.arg(device).finish().code != Some(1)
    };
    assert!(has_mark(&foreign) && !devices.iter().any(has_mark));

    // Without an engine nothing at all changes them.
    let before = [contents(&devices[0]), contents(&devices[1])];
    under_attempts(&devices, &foreign, || {
        instance.kill_instance();
        instance.start();
        wait_for("the members", || filtering(&instance, "DATA_0000") == "ENABLED");
    });
    assert_eq!([contents(&devices[0]), contents(&devices[1])], before);
}

/// A later version of the program has another filter: the former one goes only when the members are
/// protected by the next.
#[test]
fn members_stay_protected_while_the_filter_of_another_version_is_replaced() {
    let pins = FilterPins::new();
    let mut instance = pins.instance();
    let devices = group(&mut instance);
    instance.sql("ALTER SYSTEM FILTER LOAD");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let foreign = instance.path("foreign");
    fs::write(&foreign, [1; 4096]).expect("written");
    let names = ["filter-0", "filter-1"].map(|name| pins.path().join(name));
    under_attempts(&devices, &foreign, || {
        instance.kill_instance();
        fs::rename(&names[1], &names[0]).expect("it is another version's");
        instance.start();
        wait_for("the next filter", || names[1].exists() && !names[0].exists());
        assert_eq!(filtering(&instance, "DATA_0001"), "ENABLED");
    });
    instance.sql("ALTER DISKGROUP data MOUNT");
    // Instance and engine of the other version are gone: the next engine can claim its disks.
    instance.kill_instance();
    instance.kill_engine("DATA");
    fs::rename(&names[1], &names[0]).expect("it is another version's");
    instance.start();
    instance.wait_until_whole("DATA");
    instance.check("DATA");
    instance.sql("ALTER SYSTEM FILTER UNLOAD");
    assert!(pins.are_gone() && writes(&devices[0]));
}

/// A program that holds a device open for writing.
struct Holder(Child);

impl Holder {
    fn of(device: &Path) -> Self {
        let script = format!("exec 3<>{}; exec sleep 1000", device.display());
        let child = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn();
        Self(child.expect("started"))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_that_had_a_member_open_is_named() {
    let pins = FilterPins::new();
    let mut instance = pins.instance();
    let [first, _] = group(&mut instance);
    let holder = Holder::of(&first);
    let pid = holder.0.id();
    wait_for("the program", || {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    let configured = instance.plinth(["afd_configure"]);
    assert_eq!(configured.code, Some(0));
    let named = format!("process {pid} (sleep)");
    assert!(configured.err.contains(&named), "{configured:?}");
    assert_eq!(
        [filtering(&instance, "DATA_0000"), filtering(&instance, "DATA_0001")],
        ["WRITERS", "ENABLED"]
    );
    let writers = instance.text("SELECT writers FROM v$asm_filter_disk WHERE name = 'DATA_0000'");
    assert!(writers.contains(&named), "{writers}");
    assert!(instance.alert_log().contains("is NOT protected yet"), "{}", instance.alert_log());
    // The next instance finds it again.
    instance.kill_instance();
    instance.start();
    wait_for("the next instance's look", || filtering(&instance, "DATA_0000") == "WRITERS");
    drop(holder);
    wait_for("protection", || {
        instance.sql("ALTER SYSTEM FILTER ENABLE");
        filtering(&instance, "DATA_0000") == "ENABLED"
    });
}

#[test]
fn disks_are_protected_as_long_as_they_are_members() {
    let pins = FilterPins::new();
    let mut instance = pins.instance();
    let [first, second] = group(&mut instance);
    instance.sql("ALTER SYSTEM FILTER LOAD");
    assert!(!writes(&first) && !writes(&second));
    let path = first.to_str().expect("UTF-8");
    instance.plinth(["afd_filter", "-d", path]).ok();
    assert!(writes(&first) && !writes(&second));
    instance.plinth(["afd_filter", "-e", path]).ok();
    assert!(!writes(&first));
    instance.plinth(["afd_filter", "-d"]).ok();
    assert!(writes(&first) && writes(&second));
    instance.plinth(["afd_filter", "-e"]).ok();
    assert!(!writes(&first) && !writes(&second));
    let refusal = instance.plinth(["afd_filter", "-e", "/dev/null"]);
    assert_eq!(refusal.code, Some(1));
    assert!(refusal.err.contains("/dev/null is no member"), "{refusal:?}");

    // One that comes is protected when the statement has ended, and one that goes is released.
    let third = fs::canonicalize(instance.add_loop_disk("f2d0", 256 * MIB, 512)).expect("a device");
    assert!(writes(&third));
    instance.sql(&format!(
        "ALTER DISKGROUP data ADD DISK '{}' REBALANCE WAIT",
        instance.disk("f2d0").display()
    ));
    assert!(!writes(&third));
    instance.sql("ALTER DISKGROUP data DROP DISK data_0000 REBALANCE WAIT");
    assert!(writes(&first) && !writes(&second));
    instance.sql("DROP DISKGROUP data INCLUDING CONTENTS");
    assert!(writes(&second) && writes(&third));
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_filter_disk"), 0.0);
}

/// A member that is a partition: its disk cannot be written as a whole, its neighbour can.
#[test]
fn a_partition_is_protected_with_its_disk() {
    let pins = FilterPins::new();
    let mut instance = pins.instance();
    let whole =
        fs::canonicalize(instance.add_loop_disk("whole", 600 * MIB, 512)).expect("a device");
    let disk = whole.display();
    shell(&format!("printf 'label: gpt\\nsize=256M\\nsize=256M\\n' | sfdisk -q {disk} && losetup -c {disk} && partx -u {disk}")).ok();
    let partition = |number: u32| PathBuf::from(format!("{disk}p{number}"));
    fs::remove_file(instance.disk("whole")).expect("its name");
    std::os::unix::fs::symlink(partition(1), instance.disk("f0d0")).expect("a name");
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    instance.sql("ALTER SYSTEM FILTER LOAD");
    assert!(!writes(&partition(1)) && !writes(&whole));
    assert!(writes(&partition(2)));
    let nodes = instance.text("SELECT nodes FROM v$asm_filter_disk");
    assert_eq!(nodes, format!("{}, {disk}", partition(1).display()));
    instance.sql("DROP DISKGROUP data INCLUDING CONTENTS");
    assert!(writes(&whole));
}

/// Container runtimes that can run here. crun sets its limit of locked memory to unlimited before
/// it loads its device policy, and ends if it may not.
fn runtimes() -> Vec<&'static str> {
    match shell("ulimit -l unlimited").finish().code {
        Some(0) => vec!["runc", "crun"],
        _ => vec!["runc"],
    }
}

/// A container that runs until it is stopped. Its device policy allows what every container may
/// use, and one block device.
struct Container {
    runtime: &'static str,
    bundle: tempfile::TempDir,
}

impl Container {
    /// Both devices have nodes in it; only the first one may be used.
    fn start(runtime: &'static str, allowed: &Path, forbidden: &Path) -> Self {
        let container = Self { runtime, bundle: tempfile::tempdir().expect("a directory") };
        let [allowed, forbidden] = [allowed, forbidden].map(|path| {
            let number = fs::metadata(path).expect("a device").rdev();
            (rustix::fs::major(number), rustix::fs::minor(number))
        });
        let node = |path, (major, minor)| json!({"path": path, "type": "b", "major": major, "minor": minor});
        let policy = [
            json!({"allow": false, "access": "rwm"}),
            json!({"allow": true, "type": "b", "major": allowed.0, "minor": allowed.1, "access": "rwm"}),
        ];
        let capabilities = ["bounding", "effective", "permitted"]
            .map(|set| (set.to_owned(), json!(["CAP_MKNOD"])));
        let namespaces = ["pid", "mount", "ipc", "uts", "cgroup"].map(|kind| json!({"type": kind}));
        let config = json!({
            "ociVersion": "1.0.2",
            "root": {"path": "root"},
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": ["/usr/bin/sleep", "1000"],
                "env": ["PATH=/usr/bin:/usr/sbin"],
                "cwd": "/",
                "capabilities": serde_json::Map::from_iter(capabilities),
            },
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
                {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
            ],
            "linux": {
                "cgroupsPath": format!("/{}", container.name()),
                "devices": [node("/dev/allowed", allowed), node("/dev/forbidden", forbidden)],
                "resources": {"devices": policy},
                "namespaces": namespaces,
            },
        });
        let root = container.bundle.path().join("root");
        fs::create_dir(&root).expect("a directory");
        for name in ["bin", "lib", "lib64", "sbin"] {
            std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name)).expect("a name");
        }
        let file = container.bundle.path().join("config.json");
        fs::write(file, config.to_string()).expect("written");
        let bundle = container.bundle.path().display();
        // The container keeps these, and the test would wait for their end.
        let detached = format!("</dev/null >{bundle}/said 2>&1");
        let run = format!("run --detach --bundle {bundle} {} {detached}", container.name());
        let ended = container.command(&run);
        let said = fs::read_to_string(container.bundle.path().join("said")).unwrap_or_default();
        assert_eq!(ended.code, Some(0), "{runtime}: {said}");
        container
    }

    /// Also that of its cgroup.
    fn name(&self) -> String {
        let directory = self.bundle.path().file_name().expect("a name").to_string_lossy();
        format!("plinth-test-{}", directory.trim_start_matches('.'))
    }

    /// Runs the runtime where /sys/fs/cgroup is the cgroup 2 hierarchy: on hosts with both versions
    /// a runtime would take the other one.
    fn command(&self, command: &str) -> Finished {
        let state = self.bundle.path().join("state");
        let script = format!(
            "mount -t cgroup2 cgroup2 /sys/fs/cgroup && {} --root {} {command}",
            self.runtime,
            state.display()
        );
        shell("exec unshare -m --propagation private sh -c \"$1\"").arg(&script).finish()
    }

    /// Whether a program in it can open a device for writing; it writes nothing.
    fn writes(&self, device: &str) -> bool {
        let dd = format!("dd if=/dev/null of=/dev/{device} conv=notrunc");
        self.command(&format!("exec {} {dd}", self.name())).code == Some(0)
    }

    fn reads(&self, device: &str) -> bool {
        let dd = format!("dd if=/dev/{device} of=/dev/null count=1");
        self.command(&format!("exec {} {dd}", self.name())).code == Some(0)
    }

    /// Stops and removes it; it leaves no cgroup.
    fn stop(self) {
        let ended = self.command(&format!("delete --force {}", self.name()));
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", self.runtime);
        let left = self.command(&format!("list | grep {}", self.name()));
        assert_ne!(left.code, Some(0), "{left:?}");
        let cgroup = format!("list >/dev/null; test -e /sys/fs/cgroup/{}", self.name());
        assert_ne!(self.command(&cgroup).code, Some(0));
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.command(&format!("delete --force {}", self.name()));
    }
}

/// Containers have device policies of their own: those that run when the filter comes, those that
/// start beside it, and those that are left when it goes all keep theirs.
#[test]
fn containers_start_run_and_stop_beside_the_filter() {
    for runtime in runtimes() {
        let pins = FilterPins::new();
        let mut instance = pins.instance();
        let [member, _] = group(&mut instance);
        let other = fs::canonicalize(instance.add_loop_disk("other", 64 * MIB, 512));
        let other = other.expect("a device");
        instance.sql("ALTER DISKGROUP data DISMOUNT");
        let before = contents(&member);
        let [first, second] = [(); 2].map(|()| Container::start(runtime, &member, &other));
        assert!(first.writes("allowed") && !first.writes("forbidden"), "{runtime}");

        instance.sql("ALTER SYSTEM FILTER LOAD");
        let third = Container::start(runtime, &member, &other);
        // A policy that would allow the other device allows it as before.
        let beside = Container::start(runtime, &other, &member);
        for container in [&first, &second, &third] {
            assert!(container.reads("allowed") && !container.reads("forbidden"), "{runtime}");
            assert!(!container.writes("allowed") && !container.writes("forbidden"), "{runtime}");
            assert!(container.writes("null"), "{runtime}");
        }
        assert!(beside.writes("allowed") && !beside.writes("forbidden"), "{runtime}");
        first.stop();
        assert_eq!(contents(&member), before);

        instance.sql("ALTER SYSTEM FILTER UNLOAD");
        assert!(pins.are_gone());
        for container in [&second, &third] {
            assert!(container.writes("allowed") && !container.writes("forbidden"), "{runtime}");
        }
        let last = Container::start(runtime, &member, &other);
        assert!(last.writes("allowed") && !last.writes("forbidden"), "{runtime}");
        for container in [second, third, beside, last] {
            container.stop();
        }
    }
}

/// A device number that another medium has meanwhile is not protected.
#[test]
fn another_medium_is_no_member() {
    let pins = FilterPins::new();
    let mut instance = pins.instance();
    let [first, _] = group(&mut instance);
    instance.sql("ALTER SYSTEM FILTER LOAD");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let empty = instance.path("empty");
    fs::File::create(&empty).and_then(|file| file.set_len(256 << 20)).expect("a file");
    let device = first.display();
    shell(&format!("losetup -d {device}")).ok();
    // It opens the device for writing. Another test may have the number for a while.
    wait_for("the number to be another device's", || {
        shell(&format!("losetup {device} {}", empty.display())).finish().code == Some(0)
    });
    assert!(writes(&first));
    // The second, if it has gone while its number was being looked up among the disks.
    let log = instance.alert_log();
    let is_said = ["the device is gone", "can be written by others again"];
    assert!(is_said.iter().any(|words| log.contains(words)), "{log}");
}
