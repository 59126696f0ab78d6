//! Processes that are killed: ours, and the database's.

use plinth_tests::{
    Blocks, GIB, Instance, MIB, Manager, Postgres, in_turns, scaled, shell, wait_for,
};
use std::{
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, SystemTime},
};

/// A fraction of a second that differs from round to round, and not from run to run.
fn moment(round: u32) -> Duration {
    Duration::from_millis(u64::from(round.wrapping_mul(2_654_435_761) >> 20) % 1500)
}

/// Ends a thread's loop even when the test fails meanwhile.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The figures that each recovery reported at its end: bytes compared, bytes copied.
fn recoveries(instance: &Instance) -> Vec<(u64, u64)> {
    let log = instance.alert_log();
    let lines = log.lines().filter(|line| line.contains("recovery ended: "));
    lines
        .map(|line| {
            let bytes = |label: &str| -> u64 {
                let before = line.split(label).next().unwrap_or_default();
                let number = before.trim_end().rsplit(' ').next().unwrap_or_default();
                number.parse().unwrap_or_else(|_| panic!("no number before {label:?} in: {line}"))
            };
            (bytes("bytes compared"), bytes("bytes copied"))
        })
        .collect()
}

/// Prints the figures of the recoveries; none may have compared as much as `limit` bytes.
fn only_active_regions_were_compared(instance: &Instance, limit: u64) {
    let recoveries = recoveries(instance);
    assert!(
        !recoveries.is_empty(),
        "the alert log does not speak of recoveries:\n{}",
        instance.alert_log()
    );
    for (number, (compared, copied)) in recoveries.into_iter().enumerate() {
        println!("recovery {}: {compared} bytes compared, {copied} bytes copied", number + 1);
        assert!(
            compared < limit && copied <= compared,
            "{compared} bytes compared, {copied} copied; limit {limit}"
        );
    }
}

/// Engine, instance and PostgreSQL are killed at an arbitrary moment, again and again. Each time
/// the group mounts, PostgreSQL recovers, and all transactions are there whose commit was
/// acknowledged to a client outside. At the end every mirror is equal.
#[test]
fn everything_is_killed_under_pgbench() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(2);
    postgres.psql("CREATE TABLE told (n bigint PRIMARY KEY)");
    let next = AtomicU64::new(0);
    let mut acknowledged_before = BTreeSet::new();
    for round in 0..scaled(5, 50) {
        let bench = postgres.bench(4, 10);
        let going = AtomicBool::new(true);
        let acknowledged = thread::scope(|scope| {
            let until = Until(&going);
            let client = scope.spawn(|| {
                let mut told = Vec::new();
                while going.load(Ordering::Relaxed) {
                    let next = next.fetch_add(1, Ordering::Relaxed);
                    if postgres.try_psql(&format!("INSERT INTO told VALUES ({next})")).code
                        == Some(0)
                    {
                        told.push(next);
                    }
                }
                told
            });
            thread::sleep(Duration::from_millis(500) + moment(round));
            instance.kill_engine("DATA");
            instance.kill_instance();
            postgres.crash();
            drop(until);
            client.join().expect("client")
        });
        let _ = bench.finish();
        instance.start();
        wait_for("the group to be mounted", || {
            instance
                .query("SELECT state FROM v$asm_diskgroup")
                .iter()
                .any(|row| row["state"] == "MOUNTED")
        });
        instance.mount_again("DATA");
        postgres.start();
        let there = postgres.psql("SELECT n FROM told");
        let there: BTreeSet<u64> = there.lines().filter_map(|line| line.parse().ok()).collect();
        acknowledged_before.extend(acknowledged);
        let gone: Vec<_> = acknowledged_before.difference(&there).collect();
        assert!(gone.is_empty(), "round {round}: commits {gone:?} were acknowledged and are gone");
    }
    assert!(!acknowledged_before.is_empty(), "nothing was committed between the kills");
    postgres.verify();
    postgres.stop_and_verify_pages();
    instance.check("DATA");
    only_active_regions_were_compared(&instance, GIB);
}

/// PostgreSQL is not killed, but its storage: the engine every 10 s, the instance every 7 s. No
/// transaction fails.
#[test]
fn pgbench_does_not_notice_the_death_of_engines_and_instances() {
    let manager = Manager::new();
    let mut instance = Instance::under(&manager);
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    wait_for("the mount in the store", || manager.stored().len() == 1);
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(scaled(2, 10));
    let seconds = scaled(12, 300);
    let bench = postgres.bench(8, seconds);
    let periods = scaled([3000, 2100], [10_000, 7000]).map(Duration::from_millis);
    let deaths = instance.die_in_turns("DATA", Duration::from_secs(seconds.into()), periods);
    let bench = bench.finish();
    bench.tell_stalls(deaths.iter().map(|death| (death.whose, death.at, death.replaced)));
    bench.must_not_have_noticed();
    for whose in ["engine", "instance"] {
        assert!(deaths.iter().filter(|death| death.whose == whose).count() > 2, "{deaths:?}");
    }
    postgres.verify();
    postgres.stop_and_verify_pages();
    instance.wait_until_whole("DATA");
    instance.check("DATA");
}

/// An engine takes over from another one on purpose, every few seconds. No transaction fails.
#[test]
fn pgbench_does_not_notice_upgrades() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(scaled(2, 10));
    let seconds = scaled(8, 60);
    let bench = postgres.bench(8, seconds);
    let mut moments = Vec::new();
    in_turns(
        Duration::from_secs((seconds - 1).into()),
        [2000, 3000].map(Duration::from_millis),
        |which| {
            let (engine, began) = (instance.engine("DATA"), SystemTime::now());
            if which == 0 {
                print!("{}", instance.plinth(["upgrade", "data"]).ok());
                assert_ne!(instance.engine("DATA"), engine);
                moments.push(("upgrade", began, SystemTime::now()));
            } else {
                // The time of transactions when nothing happens, to compare with.
                moments.push(("nothing", began, began + Duration::from_millis(300)));
                thread::sleep(Duration::from_millis(300));
            }
        },
    );
    let bench = bench.finish();
    bench.tell_stalls(moments);
    bench.must_not_have_noticed();
    postgres.verify();
    postgres.stop_and_verify_pages();
    instance.check("DATA");
}

/// The engine alone is killed. The instance starts another, the files are back where they were, and
/// only active regions had to be compared.
#[test]
fn an_engine_is_replaced() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let old = Blocks::new(mount.join("old"), 1, 20_000);
    instance.quiesce("DATA");
    for round in 0..scaled(5, 30) {
        let killed = instance.engine("DATA");
        let writer =
            shell(r#"exec dd if=/dev/urandom of="$1" bs=64k count=160 conv=fsync status=none"#);
        let writer = writer.arg(mount.join("new"));
        thread::scope(|scope| {
            scope.spawn(|| writer.finish_within(Duration::from_secs(20)));
            thread::sleep(Duration::from_millis(200) + moment(round) / 3);
            instance.kill_engine("DATA");
        });
        wait_for("another engine", || {
            instance.engine("DATA").is_some_and(|pid| Some(pid) != killed)
        });
        instance.mount_again("DATA");
    }
    old.must_read_right();
    instance.wait_until_whole("DATA");
    instance.check("DATA");
    only_active_regions_were_compared(&instance, old.count() * 4096);
}

/// The instance alone is killed: pgbench does not notice, files are made and grow, and a new
/// instance finds the engine and shows its real state.
#[test]
fn an_instance_is_killed_and_another_adopts() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(2);
    let engine = instance.engine("DATA");
    assert!(engine.is_some());
    let bench = postgres.bench(4, scaled(8, 60));
    thread::sleep(Duration::from_secs(2));
    instance.kill_instance();
    let blocks = Blocks::new(mount.join("made-alone"), 1, 2_000);
    postgres.psql("CREATE TABLE grown AS SELECT generate_series(1, 200000) AS n");
    bench.finish().must_not_have_noticed();
    instance.start();
    assert_eq!(
        instance.engine("DATA"),
        engine,
        "the new instance did not adopt the running engine"
    );
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup WHERE name = 'DATA'"), "MOUNTED");
    assert_eq!(instance.offline_disks("DATA"), 0.0);
    let shown = instance.number(
        "SELECT f.bytes FROM v$asm_file f, v$asm_alias a \
         WHERE a.file_number = f.file_number AND a.group_number = f.group_number AND a.name = 'made-alone'",
    );
    assert_eq!(shown, 2_000.0 * 4096.0);
    blocks.must_read_right();
    postgres.verify();
    postgres.stop_and_verify_pages();
    instance.check("DATA");
}

/// An independent test of PostgreSQL on unreliable storage, with a hook that kills our engine in
/// each round.
#[test]
fn the_crash_bench_loses_nothing_while_engines_die() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    // The test's hook requests the kill, as it does not run as root, and waits until the files are
    // back.
    let wish = instance.path("wish");
    fs::create_dir(&wish).expect("create");
    shell(r#"chmod 777 "$1""#).arg(&wish).ok();
    let bench = crash_bench(&instance, &mount.join("pg"), &wish);
    let going = AtomicBool::new(true);
    let kills = thread::scope(|scope| {
        let hook = scope.spawn(|| {
            let mut kills = 0;
            while going.load(Ordering::Relaxed) {
                if wish.join("kill").exists() {
                    let killed = instance.engine("DATA");
                    instance.kill_engine("DATA");
                    wait_for("another engine", || {
                        instance.engine("DATA").is_some_and(|pid| Some(pid) != killed)
                    });
                    instance.mount_again("DATA");
                    kills += 1;
                    fs::remove_file(wish.join("kill")).expect("remove");
                }
                thread::sleep(Duration::from_millis(10));
            }
            kills
        });
        let said = {
            let _until = Until(&going);
            bench.finish()
        };
        let kills = hook.join().expect("hook");
        let said = said.ok();
        assert!(said.contains("0 lost, 0 failed checks"), "{said}");
        println!("{said}");
        kills
    });
    assert_eq!(kills, scaled(3, 25));
    instance.check("DATA");
}

/// Rounds of pgbench, the hook, `kill -9` of PostgreSQL, recovery, and a check of what was
/// acknowledged.
fn crash_bench(
    instance: &Instance,
    dir: &std::path::Path,
    wish: &std::path::Path,
) -> plinth_tests::Shell {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/crash_loop.sh");
    let copy = instance.path("crash_loop.sh");
    fs::copy(script, &copy).expect("script");
    shell(
        r#"mkdir "$2"; chown postgres "$2"; bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
           exec runuser -u postgres -- env PGBIN="$bin" HOOK="touch $4/kill; while [ -e $4/kill ]; do sleep 0.02; done" \
               bash "$1" "$2" "$3" 3"#,
    )
    .arg(copy)
    .arg(dir)
    .arg(scaled("3", "25"))
    .arg(wish)
}

/// A file system that was being written when all processes were killed has each file either whole
/// or not at all after a rename, and never a name without its file.
#[test]
fn renames_are_atomic_across_kills() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[512 * MIB]], "");
    let mut mount = instance.mount("DATA");
    for round in 0..scaled(4, 30) {
        let path = mount.join("state");
        let writer = shell(
            r#"n=0; while :; do n=$((n + 1)); echo "$n $n $n $n" > "$1.new"; sync "$1.new"; mv "$1.new" "$1"; echo $n > "$2"; done"#,
        )
        .arg(&path)
        .arg(instance.path("told"));
        thread::scope(|scope| {
            let writer = scope.spawn(|| writer.finish_within(Duration::from_secs(3)));
            thread::sleep(Duration::from_millis(700) + moment(round));
            instance.kill_engine("DATA");
            instance.kill_instance();
            let _ = writer.join();
        });
        instance.start();
        mount = instance.mount_again("DATA");
        let told: u64 = instance.read("told").trim().parse().unwrap_or(0);
        let text = match fs::read_to_string(mount.join("state")) {
            Ok(text) => text,
            Err(error) => format!("an error: {error}"),
        };
        let numbers: Vec<u64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(
            told == 0
                || (numbers.len() == 4 && numbers.iter().all(|n| *n == numbers[0] && *n >= told)),
            "round {round}: {told} was renamed into place, {text:?} is there"
        );
    }
    instance.check("DATA");
}
