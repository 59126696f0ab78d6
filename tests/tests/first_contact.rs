//! First contact: from the package to a PostgreSQL on a mirrored disk group, on a fresh system with
//! systemd and two empty disks, by the commands that the guide for operators lists.
//!
//! The database stays there while a disk fails and comes back, while the package is upgraded, and
//! when the system boots again.

use plinth_tests::{FaultDisk, FreshRoot, GIB, LoopDisk, build_package, limited, wait_for};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// Most commands that a newcomer shall need.
const COMMANDS_MAX: usize = 6;
/// The longest that a newcomer shall need.
const MINUTES_MAX: u64 = 10;
/// Where a document lists the commands. Tests of documents do not run these: they need a system of
/// their own.
const FENCE: &str = "```console first contact\n";

/// The commands that a document lists.
fn commands(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document);
    let text = fs::read_to_string(path).expect(document);
    let (_, after) = text.split_once(FENCE).unwrap_or_else(|| panic!("{document} has no list"));
    let (block, _) = after.split_once("```").expect("a fence ends");
    block.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// Transactions again and again, until `/root/enough` is there. It ends with the first run that
/// fails, or of which a transaction fails.
const BENCH: &str = r#"
cat > /root/bench <<'END'
cd /tmp
while [ ! -e /root/enough ]; do
    runuser -u postgres -- pgbench -n -c 4 -j 2 -T 5 > /root/report 2>&1 || break
    ! grep -q '^number of failed transactions: [1-9]' /root/report || break
    ! grep -qi aborted /root/report || break
done
[ -e /root/enough ] || cp /root/report /root/failed
END
rm -f /root/enough
setsid bash /root/bench < /dev/null > /root/bench.log 2>&1 &
"#;

struct Host {
    system: FreshRoot,
}

impl Host {
    #[track_caller]
    fn psql(&self, sql: &str) -> String {
        let script = format!("cd /tmp; runuser -u postgres -- psql -XqAt -c \"{sql}\"");
        self.system.run(&script).trim().to_owned()
    }

    fn transactions(&self) -> u64 {
        self.psql("SELECT COUNT(*) FROM pgbench_history").parse().expect("a number")
    }

    /// More transactions have ended, and none has failed.
    #[track_caller]
    fn the_database_goes_on(&self) {
        let before = self.transactions();
        wait_for("transactions", || {
            let failed = self.system.attempt("cat /root/failed /root/bench.log");
            assert!(failed.out.is_empty(), "a transaction failed: {failed}");
            self.transactions() > before
        });
    }

    #[track_caller]
    fn bench_ends(&self) -> u64 {
        self.system
            .run("touch /root/enough; while pgrep -f '^bash /root/bench'; do sleep 0.1; done");
        let failed = self.system.attempt("cat /root/failed");
        assert!(failed.out.is_empty(), "a transaction failed: {failed}");
        self.transactions()
    }

    fn engine(&self) -> String {
        self.system.run("cat /run/plinth/engine.DATA.pid")
    }

    /// The output of `plinth status`, which has to end with this code.
    #[track_caller]
    fn status(&self, code: i32) -> String {
        let said = self.system.attempt("plinth status");
        assert_eq!(said.code, Some(code), "{said}");
        said.out
    }
}

/// A newcomer has the package and two empty disks. At most six commands, within ten minutes, make a
/// PostgreSQL on a mirrored group. Under pgbench a disk fails: the database goes on, and the status
/// names the disk and the statement that brings it back. The package is upgraded under pgbench, and
/// the engine stays the same; both processes are killed at once. After a boot the database runs by
/// itself, with every transaction. The package cannot be removed under it.
#[test]
fn a_newcomer_has_a_mirrored_postgresql_by_the_commands_of_the_guide() {
    let files = tempfile::tempdir().expect("a directory");
    let (first, second) =
        (build_package("deb", "0.0.9", files.path()), build_package("deb", "0.1.0", files.path()));
    let failing = FaultDisk::alone(files.path(), "failing", GIB);
    let one = LoopDisk::new(&files.path().join("sound"), GIB, 512);
    let other = LoopDisk::over(&failing);
    let system = FreshRoot::boot_with(&[(one.path(), "/dev/vdb"), (other.path(), "/dev/vdc")]);
    system.give(&first);
    let mut host = Host { system };
    follows_the_guide(&host);
    host.system.run("cd /tmp; runuser -u postgres -- pgbench -iq -s 5 2>&1");
    host.system.run(BENCH);
    host.the_database_goes_on();
    a_disk_fails_and_comes_back(&host, &failing);
    host.system.give(&second);
    is_upgraded(&host);
    boots_again(&mut host);
    let refused = host.system.attempt("apt-get -y remove plinth 2>&1").refused();
    assert!(refused.contains("it stays installed"), "{refused}");
    host.psql("SELECT 1");
    host.system.run("systemctl stop postgresql && apt-get -y purge plinth");
    drop(host);
}

fn follows_the_guide(host: &Host) {
    let commands = commands("docs/operating.md");
    assert_eq!(commands, self::commands("README.md"), "both documents have the same list");
    assert!((2..=COMMANDS_MAX).contains(&commands.len()), "{commands:?}");
    let began = Instant::now();
    for command in &commands {
        let from = Instant::now();
        // The answers to questions: each default, and then `yes`.
        let said = host.system.run(&format!("cd /root; {command} <<< $'\\n\\n\\nyes'"));
        println!("{:>6.1} s  {command}\n{said}", from.elapsed().as_secs_f64());
    }
    let took = began.elapsed();
    let all = format!("{} commands", commands.len());
    limited(&all, took, Duration::from_secs(MINUTES_MAX * 60));
    let directory = host.psql("SHOW data_directory");
    let mount = host.system.run(&format!("findmnt -nT {directory} -o FSTYPE,TARGET"));
    assert!(mount.starts_with("fuse.plinth"), "{directory}: {mount}");
    let group = "plinth sql -c 'SELECT type, state FROM v$asm_diskgroup'";
    let group = host.system.run(group);
    assert!(group.contains("NORMAL") && group.contains("MOUNTED"), "{group}");
    let sets = "plinth sql -c 'SELECT COUNT(DISTINCT failgroup) AS n FROM v$asm_disk' --json";
    let sets = host.system.run(sets);
    assert!(sets.contains('2'), "{sets}");
    host.status(0);
}

fn a_disk_fails_and_comes_back(host: &Host, failing: &FaultDisk) {
    failing.fail();
    wait_for("the disk to be noticed", || host.system.attempt("plinth status").code == Some(1));
    host.the_database_goes_on();
    let broken = host.status(1);
    assert!(broken.contains("OFFLINE"), "{broken}");
    failing.heal();
    // As a newcomer does: each statement that the status names, until all is well.
    let mut followed = BTreeSet::new();
    wait_for("all to be well", || {
        let said = host.system.attempt("plinth status");
        let lines = said.out.lines().map(str::trim);
        for statement in lines.filter(|line| line.starts_with("ALTER DISKGROUP DATA ")) {
            // One that is refused, as the one before it still works, is tried again.
            let follow = || host.system.attempt(&format!("plinth sql -c \"{statement}\""));
            if !followed.contains(statement) && follow().code == Some(0) {
                println!("{statement}");
                followed.insert(statement.to_owned());
            }
        }
        said.code == Some(0)
    });
    host.the_database_goes_on();
}

fn is_upgraded(host: &Host) {
    let engine = host.engine();
    let said = host.system.run("cd /root && apt-get -y install ./plinth_0.1.0_*.deb 2>&1");
    assert!(said.contains("plinth upgrade GROUP"), "{said}");
    host.the_database_goes_on();
    assert_eq!(host.engine(), engine, "the engine is the former one");
    host.system.run("plinth upgrade DATA");
    host.the_database_goes_on();
    assert_ne!(host.engine(), engine, "another engine has taken over");
    host.system.run("systemctl kill --kill-who=all --signal=KILL plinth");
    host.the_database_goes_on();
    wait_for("all to be well", || host.system.attempt("plinth status").code == Some(0));
}

/// A second cluster is on a directory of which systemd does not know that the cluster needs it. And
/// a directory that no program uses is unmounted first when the system shuts down, while the
/// instance still waits for the end of the clusters.
fn boots_again(host: &mut Host) {
    let transactions = host.bench_ends();
    host.system.run("mkdir -m 0 /data /idle && plinth mount DATA /data");
    host.system.run("plinth mount DATA /idle");
    host.system.run("pg_createcluster $(ls /usr/lib/postgresql) fast -d /data/fast --start");
    host.system.reboot();
    let ordered = host.system.run("systemctl show -P After 'postgresql@*.service'");
    let is_after = |line: &&str| line.split(' ').any(|unit| unit == "plinth.service");
    assert_eq!(ordered.lines().filter(is_after).count(), 2, "{ordered}");
    let unit = "systemctl list-units --state=active --plain --no-legend 'postgresql@*.service'";
    let active = host.system.run(unit);
    assert_eq!(active.lines().count(), 2, "{active}");
    assert_eq!(host.transactions(), transactions);
    host.system.run("mountpoint /idle");
    host.status(0);
}
