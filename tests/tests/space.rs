//! Space: small files, uneven disks, and none left.

use plinth_tests::{Blocks, GIB, Instance, MIB, Postgres, Row, wait_for};
use std::{collections::BTreeMap, fs, io::Write, path::Path};

/// Bytes that the view says can still be stored.
fn usable(instance: &Instance) -> f64 {
    instance.number("SELECT usable_file_mb FROM v$asm_diskgroup") * MIB as f64
}

/// Bytes that `statfs` says can still be stored.
fn available(mount: &Path) -> f64 {
    let space = rustix::fs::statvfs(mount).expect("statfs");
    space.f_bavail as f64 * space.f_frsize as f64
}

/// Writes bytes that are not zeros until it is full; returns the bytes that were stored.
fn write_until_full(path: &Path) -> u64 {
    let mut file = fs::File::create(path).expect("create");
    let chunk = vec![0xa5; 1 << 20];
    let mut stored = 0;
    loop {
        match file.write(&chunk) {
            Ok(length) => stored += length as u64,
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            Err(error) => panic!("{}: {error} instead of ENOSPC", path.display()),
        }
    }
    file.sync_all().expect("what was accepted can be made durable");
    stored
}

/// A thousand files of 8 KiB, such as a database begins with, take 64 KiB and its mirror each, not
/// a thousand AUs.
#[test]
fn a_thousand_small_files_share_extents() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let free = || instance.number("SELECT free_mb FROM v$asm_diskgroup");
    let before = free();
    for number in 0..1_000 {
        fs::write(mount.join(format!("small.{number}")), [7; 8192]).expect("write");
    }
    let used = before - free();
    // One shared extent begun and not full, with its mirror.
    let limit = 1_000.0 * 2.0 * 64.0 / 1024.0 + 8.0;
    assert!(used <= limit, "a thousand files of 8 KiB took {used} MB, {limit} would do");
    let space = instance.number("SELECT MAX(space) FROM v$asm_file WHERE bytes = 8192");
    assert!(space <= 2.0 * 65_536.0, "a file of 8 KiB takes {space} bytes");
    for number in 0..1_000 {
        assert_eq!(fs::read(mount.join(format!("small.{number}"))).expect("read"), [7; 8192]);
        fs::remove_file(mount.join(format!("small.{number}"))).expect("remove");
    }
    wait_for("the space to be free again", || before - free() <= 16.0);
}

/// A small file that grows leaves its slot, and keeps its bytes.
#[test]
fn a_small_file_grows_out_of_its_slot() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    for number in 0..20_u8 {
        fs::write(mount.join(format!("small.{number}")), vec![number; 10_000]).expect("write");
    }
    for number in (0..20_u8).step_by(2) {
        let mut file = fs::File::options()
            .append(true)
            .open(mount.join(format!("small.{number}")))
            .expect("open");
        file.write_all(&vec![number; 300_000]).expect("grow");
        file.sync_all().expect("sync");
    }
    for number in 0..20_u8 {
        let length = if number % 2 == 0 { 310_000 } else { 10_000 };
        assert_eq!(
            fs::read(mount.join(format!("small.{number}"))).expect("read"),
            vec![number; length]
        );
    }
    instance.check("DATA");
}

/// Disks that differ 4:1 in each failure group fill evenly in percent.
#[test]
fn uneven_disks_fill_evenly() {
    let instance = Instance::new();
    let shape: &[&[u64]] = &[&[GIB, 256 * MIB], &[256 * MIB, GIB]];
    instance.create_group("data", "NORMAL", shape, "'au_size' = '1M'");
    let mount = instance.mount("DATA");
    for number in 0..4_u64 {
        let _ = Blocks::new(mount.join(format!("file.{number}")), number, 38_400);
        let rows = instance
            .query("SELECT name, failgroup, total_mb, free_mb FROM v$asm_disk ORDER BY name");
        let full = |disk: usize| {
            let field = |name: &str| rows[disk][name].as_f64().expect("a number");
            100.0 * (field("total_mb") - field("free_mb")) / field("total_mb")
        };
        for (one, other) in [(0, 1), (2, 3)] {
            let apart = (full(one) - full(other)).abs();
            assert!(
                apart <= 4.0,
                "after {} files: {:.1} % and {:.1} % full",
                number + 1,
                full(one),
                full(other)
            );
        }
    }
}

/// A group is filled to the last AU. Writers get the error at the write, the database on it
/// survives, freed space can be written again, and at every step the view and `statfs` say how much
/// can really be stored.
#[test]
fn a_full_group_says_so_and_recovers() {
    let instance = Instance::new();
    instance.create_group(
        "data",
        "NORMAL",
        &[&[384 * MIB, 384 * MIB], &[384 * MIB, 384 * MIB]],
        "",
    );
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.psql("CREATE TABLE t AS SELECT generate_series(1, 100000) AS n");
    // An AU begun on each disk, the catalog's growth, and space that files get in advance.
    let slack = 40.0 * MIB as f64;
    let near = |what: &str, one: f64, other: f64| {
        let mb = |bytes: f64| bytes / MIB as f64;
        assert!((one - other).abs() <= slack, "{what}: {:.0} MB and {:.0} MB", mb(one), mb(other));
    };
    near("usable_file_mb and statfs at first", usable(&instance), available(&mount));
    let promised = usable(&instance);
    let stored = write_until_full(&mount.join("fill"));
    near("what was promised, what was stored", promised, stored as f64);
    near("full", usable(&instance), 0.0);
    near("statfs when full", available(&mount), 0.0);
    let said = postgres.try_psql("INSERT INTO t SELECT generate_series(1, 20000000)");
    assert!(said.err.contains("No space left"), "{said}");
    assert_eq!(postgres.psql("SELECT count(*) FROM t"), "100000");
    assert!(write_until_full(&mount.join("more")) <= 40 * MIB);
    fs::remove_file(mount.join("more")).expect("remove while full");
    fs::remove_file(mount.join("fill")).expect("remove while full");
    wait_for("the space to be usable again", || usable(&instance) + slack > promised);
    let again = write_until_full(&mount.join("again"));
    near("stored first, stored again", stored as f64, again as f64);
    fs::File::options()
        .write(true)
        .open(mount.join("again"))
        .and_then(|file| file.set_len(MIB))
        .expect("truncate while full");
    postgres.psql("INSERT INTO t SELECT generate_series(1, 100000)");
    postgres.stop_and_verify_pages();
    instance.check("DATA");
}

/// One failure group is smaller than the other: both can hold what is promised.
#[test]
fn uneven_failure_groups_promise_what_they_can_keep() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let promised = available(&mount);
    assert!(promised <= 256.0 * MIB as f64, "{promised} bytes cannot be mirrored");
    let stored = write_until_full(&mount.join("fill")) as f64;
    assert!(stored + 24.0 * MIB as f64 >= promised, "promised {promised}, stored {stored}");
}

/// Blocks that a disk's file really takes, in bytes.
fn taken(disk: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(disk).expect("the disk").blocks() * 512
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let step = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..length).map(step).collect()
}

/// Disks that are files give back freed space, however it is freed: parts of extents, too; when the
/// engine dies at once; when the attribute that wants it is switched on later.
#[test]
fn freed_space_goes_back_to_thin_disks() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let paths: Vec<_> = instance.query("SELECT path FROM v$asm_disk ORDER BY name");
    let disks: Vec<_> = paths
        .iter()
        .map(|row| Path::new(row["path"].as_str().expect("a path")).to_owned())
        .collect();
    let now = || disks.iter().map(|disk| taken(disk)).collect::<Vec<_>>();
    let fell = |what: &str, before: &[u64], bytes: u64| {
        wait_for(what, || now().iter().zip(before).all(|(now, before)| now + bytes <= *before));
    };
    // Every other one of many small files.
    let small = |number: u32| mount.join(format!("small.{number}"));
    for number in 0..1_000 {
        fs::write(small(number), noise(number.into(), 8192)).expect("write");
    }
    rustix::fs::syncfs(fs::File::open(&mount).expect("the mount")).expect("sync");
    let before = now();
    (0..1_000).step_by(2).for_each(|number| fs::remove_file(small(number)).expect("remove"));
    fell("the slots to go back", &before, 400 * 64 * 1024);
    // Every other MiB.
    let table = mount.join("table");
    let bytes = noise(7, 64 << 20);
    fs::write(&table, &bytes).expect("write");
    let file = fs::File::options().read(true).write(true).open(&table).expect("open");
    file.sync_all().expect("sync");
    let before = now();
    for hole in (0..64).step_by(2) {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, hole * MIB, MIB).expect("punch");
    }
    fell("the holes to go back", &before, 30 * MIB);
    // The engine dies as soon as a file is removed.
    let before = now();
    fs::write(mount.join("gone"), noise(8, 64 << 20)).expect("write");
    fs::File::open(mount.join("gone")).and_then(|file| file.sync_all()).expect("sync");
    fs::remove_file(mount.join("gone")).expect("remove");
    instance.kill_engine("DATA");
    wait_for("what a dead engine freed to go back", || {
        now().iter().zip(&before).all(|(now, before)| *now <= before + 8 * MIB)
    });
    // The attribute is off for a while.
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'thin_provisioned' = 'false'");
    let before = now();
    fs::write(mount.join("gone"), noise(9, 64 << 20)).expect("write");
    fs::File::open(mount.join("gone")).and_then(|file| file.sync_all()).expect("sync");
    fs::remove_file(mount.join("gone")).expect("remove");
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'thin_provisioned' = 'true'");
    wait_for("what was freed before to go back", || {
        now().iter().zip(&before).all(|(now, before)| *now <= before + 8 * MIB)
    });
    let read = fs::read(&table).expect("read");
    for (number, piece) in read.chunks(1 << 20).enumerate() {
        let expected = &bytes[number << 20..(number + 1) << 20];
        assert!(
            if number % 2 == 0 { piece.iter().all(|byte| *byte == 0) } else { piece == expected },
            "MiB {number}"
        );
    }
    for number in (1..1_000).step_by(2) {
        assert_eq!(fs::read(small(number)).expect("read"), noise(number.into(), 8192));
    }
    instance.check("DATA");
}

/// A large file is removed and made again at once, over and over: there is always room for it.
#[test]
fn space_of_removed_files_is_free_at_once() {
    let instance = Instance::new();
    let shape: &[&[u64]] = &[&[24 * GIB, 24 * GIB], &[24 * GIB, 24 * GIB]];
    instance.create_group("data", "NORMAL", shape, "");
    let mount = instance.mount("DATA");
    for round in 0..30 {
        let path = mount.join("large");
        let file = fs::File::create(&path).expect("create");
        let flags = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, flags, 0, 30 * GIB)
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        drop(file);
        fs::remove_file(&path).expect("remove");
    }
    instance.check("DATA");
}

/// The numbers of one group, all from one query, as the reference says that they hang together.
struct Numbers {
    rows: Vec<Row>,
}

impl Numbers {
    fn of(instance: &Instance, groups: &str, disks: &str) -> Self {
        let rows = instance.query(&format!(
            "SELECT g.type, g.total_mb, g.free_mb, g.hot_used_mb, g.cold_used_mb,
                    g.required_mirror_free_mb, g.usable_file_mb,
                    d.name, d.failgroup, d.failgroup_type, d.state, d.total_mb AS of_disk,
                    d.free_mb AS free_on_disk, d.cold_used_mb AS used_on_disk,
                    d.hot_used_mb AS hot_on_disk
               FROM {groups} g, {disks} d
              WHERE d.group_number = g.group_number AND g.name = 'DATA' ORDER BY d.disk_number"
        ));
        Self { rows }
    }

    fn number(&self, at: usize, column: &str) -> i64 {
        self.rows[at][column].as_i64().unwrap_or_else(|| panic!("{column}: {:?}", self.rows[at]))
    }

    fn group(&self, column: &str) -> i64 {
        self.number(0, column)
    }

    fn text(&self, at: usize, column: &str) -> &str {
        self.rows[at][column].as_str().unwrap_or_default()
    }

    /// The places of the disks that count.
    fn counted(&self) -> Vec<usize> {
        let counts = |at: &usize| {
            self.text(*at, "failgroup_type") == "REGULAR"
                && !["DROPPING", "FORCING"].contains(&self.text(*at, "state"))
        };
        (0..self.rows.len()).filter(counts).collect()
    }

    fn regular(&self) -> usize {
        let is_regular = |at: &usize| self.text(*at, "failgroup_type") == "REGULAR";
        (0..self.rows.len()).filter(is_regular).count()
    }

    fn sum(&self, column: &str) -> i64 {
        self.counted().into_iter().map(|at| self.number(at, column)).sum()
    }

    fn mirrors(&self) -> usize {
        match self.text(0, "type") {
            "EXTERN" => 1,
            "NORMAL" => 2,
            "HIGH" => 3,
            other => panic!("{other}"),
        }
    }

    /// The reserve that the reference describes.
    fn required(&self) -> i64 {
        let mut groups: BTreeMap<&str, i64> = BTreeMap::new();
        for at in self.counted() {
            *groups.entry(self.text(at, "failgroup")).or_default() += self.number(at, "of_disk");
        }
        let mut sizes: Vec<i64> = groups.into_values().collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let restorable = (self.mirrors() - 1).min(sizes.len().saturating_sub(self.mirrors()));
        sizes.iter().take(restorable).sum()
    }

    fn by_formula(&self) -> i64 {
        let left = self.group("free_mb") - self.group("required_mirror_free_mb");
        left.div_euclid(self.mirrors() as i64)
    }

    /// The columns of each row agree, whatever moves meanwhile.
    #[track_caller]
    fn rows_agree(&self, when: &str) {
        let about = |what: &str| format!("{when}: {what}: {:#?}", self.rows);
        for at in 0..self.rows.len() {
            let parts = self.number(at, "free_on_disk") + self.number(at, "used_on_disk");
            assert_eq!(self.number(at, "of_disk"), parts, "{}", about("a disk's parts"));
            assert_eq!(self.number(at, "hot_on_disk"), 0, "{}", about("hot"));
        }
        let parts = self.group("free_mb") + self.group("cold_used_mb");
        assert_eq!(self.group("total_mb"), parts, "{}", about("the group's parts"));
        assert_eq!(self.group("hot_used_mb"), 0, "{}", about("hot"));
        assert!(self.group("usable_file_mb") <= self.by_formula(), "{}", about("usable"));
    }

    /// The group is the sum of its disks, too: where nothing moves.
    #[track_caller]
    fn agree(&self, when: &str) {
        self.rows_agree(when);
        let about = |what: &str| format!("{when}: {what}: {:#?}", self.rows);
        assert_eq!(self.group("total_mb"), self.sum("of_disk"), "{}", about("total"));
        assert_eq!(self.group("free_mb"), self.sum("free_on_disk"), "{}", about("free"));
        assert_eq!(self.group("cold_used_mb"), self.sum("used_on_disk"), "{}", about("used"));
        let required = self.group("required_mirror_free_mb");
        assert_eq!(required, self.required(), "{}", about("required"));
    }
}

/// The numbers while nothing moves: those of the views, of their twins and of the commands are the
/// same, and the space for files is exactly what the reference says.
#[track_caller]
fn numbers_agree(instance: &Instance, when: &str) -> Numbers {
    let table = |command: &str| -> Vec<Vec<String>> {
        let said = instance.plinth(command.split(' ')).ok();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        said.lines().skip(1).map(words).collect()
    };
    // The catalog may grow, or get a mirror, between two looks: then all of them are taken again.
    let mut looks = None;
    wait_for("nothing to change", || {
        let before = Numbers::of(instance, "v$asm_diskgroup", "v$asm_disk");
        before.rows_agree(when);
        let space = instance.query("SELECT * FROM v$asm_space WHERE name = 'DATA'").remove(0);
        let (groups, disks) = (table("lsdg data"), table("lsdsk -k -G data"));
        let after = Numbers::of(instance, "v$asm_diskgroup_stat", "v$asm_disk_stat");
        let is_still = before.rows == after.rows && space["pending_bytes"] == 0;
        looks = Some((after, space, groups, disks));
        is_still
    });
    let (numbers, space, groups, disks) = looks.expect("a look");
    numbers.agree(when);
    let mb = |column: &str| space[column].as_i64().expect("a number") / MIB as i64;
    let fits = numbers.by_formula().min(mb("writable_bytes"));
    assert_eq!(numbers.group("usable_file_mb"), fits, "{when}");
    // v$asm_space counts disks that are being dropped, too.
    if numbers.counted().len() == numbers.regular() {
        let of_group = (numbers.group("total_mb"), numbers.group("free_mb"));
        assert_eq!(of_group, (mb("total_bytes"), mb("free_bytes")), "{when}");
    }
    // Behind these four: Offline_disks, Voting_files, Name.
    let listed = &groups[0];
    let columns = ["total_mb", "free_mb", "required_mirror_free_mb", "usable_file_mb"];
    let shown: Vec<String> = columns.iter().map(|name| numbers.group(name).to_string()).collect();
    assert_eq!(listed[listed.len() - 7..listed.len() - 3], shown, "{when}: {listed:?}");
    let of_disk =
        |at| ["of_disk", "free_on_disk"].map(|name| numbers.number(at, name).to_string()).to_vec();
    let expected: Vec<Vec<String>> = (0..numbers.rows.len()).map(of_disk).collect();
    let listed: Vec<Vec<String>> = disks.into_iter().map(|words| words[..2].to_vec()).collect();
    assert_eq!(listed, expected, "{when}");
    numbers
}

/// Through the life of a NORMAL group: failure groups of unequal size, a disk that is offline,
/// comes back, is dropped, by force too, while data moves and behind it, and with a quorum disk.
#[test]
fn numbers_of_space_agree_whatever_happens() {
    let instance = Instance::new();
    let shape: &[&[u64]] = &[&[256 * MIB, 128 * MIB], &[320 * MIB], &[256 * MIB]];
    instance.create_group("data", "NORMAL", shape, "");
    let empty = numbers_agree(&instance, "empty");
    assert!(empty.group("usable_file_mb") > 0);
    let mount = instance.mount("DATA");
    let fill = |name: &str, mb: usize| {
        fs::write(mount.join(name), noise(mb as u64, mb << 20)).expect("write");
    };
    fill("table", 90);
    let full = numbers_agree(&instance, "with a file");
    assert!(full.group("cold_used_mb") >= empty.group("cold_used_mb") + 180);
    let sql = |statement: &str| drop(instance.sql(&format!("ALTER DISKGROUP data {statement}")));
    // A disk that is offline keeps its numbers, and is written for.
    sql("OFFLINE DISK data_0002");
    let offline = numbers_agree(&instance, "offline");
    assert_eq!(offline.number(2, "free_on_disk"), full.number(2, "free_on_disk"));
    assert_eq!(offline.group("total_mb"), full.group("total_mb"));
    fill("more", 20);
    numbers_agree(&instance, "written meanwhile");
    sql("ONLINE DISK data_0002 WAIT");
    let online = numbers_agree(&instance, "online again");
    assert!(online.number(2, "used_on_disk") >= full.number(2, "used_on_disk"));
    // Data moves, is about to move, and has moved.
    sql("DROP DISK data_0001 REBALANCE POWER 0");
    let dropping = numbers_agree(&instance, "dropping");
    assert_eq!(dropping.text(1, "state"), "DROPPING");
    assert_eq!(dropping.group("total_mb"), online.group("total_mb") - online.number(1, "of_disk"));
    sql("REBALANCE POWER 1");
    while instance.number("SELECT count(*) FROM v$asm_operation WHERE state IN ('RUN', 'WAIT')")
        > 0.0
    {
        Numbers::of(&instance, "v$asm_diskgroup", "v$asm_disk").rows_agree("moving");
    }
    let dropped = numbers_agree(&instance, "dropped");
    assert_eq!(dropped.rows.len(), 3);
    let (quorum, fourth) = (instance.add_disk("q", 256 * MIB), instance.add_disk("n", 200 * MIB));
    sql(&format!("ADD QUORUM FAILGROUP q DISK '{}' REBALANCE WAIT", quorum.display()));
    let with_quorum = numbers_agree(&instance, "with a quorum disk");
    assert_eq!(with_quorum.group("total_mb"), dropped.group("total_mb"));
    sql(&format!("ADD FAILGROUP f4 DISK '{}' REBALANCE WAIT", fourth.display()));
    numbers_agree(&instance, "a fourth failure group");
    sql("OFFLINE DISK data_0003");
    sql("DROP DISK data_0003 FORCE REBALANCE POWER 0");
    numbers_agree(&instance, "dropped by force");
    sql("REBALANCE WAIT");
    numbers_agree(&instance, "restored");
    instance.check("DATA");
}

/// Every redundancy, with few and with many failure groups.
#[test]
fn numbers_of_space_agree_in_every_redundancy() {
    for (redundancy, sizes, mirrors) in [
        ("EXTERNAL", &[256, 128][..], 1),
        ("NORMAL", &[256, 128], 2),
        ("HIGH", &[256, 128, 192], 3),
        ("HIGH", &[256, 128, 192, 256], 3),
        ("HIGH", &[192; 5], 3),
        ("NORMAL", &[192; 4], 2),
    ] {
        let instance = Instance::new();
        let sizes: Vec<[u64; 1]> = sizes.iter().map(|mb: &u64| [mb * MIB]).collect();
        let shape: Vec<&[u64]> = sizes.iter().map(|size| &size[..]).collect();
        instance.create_group("data", redundancy, &shape, "'au_size' = '1M'");
        let when = format!("{redundancy} with {} disks", shape.len());
        assert_eq!(numbers_agree(&instance, &when).mirrors(), mirrors, "{when}");
        let mount = instance.mount("DATA");
        fs::write(mount.join("table"), noise(3, 11 << 20)).expect("write");
        numbers_agree(&instance, &format!("{when} and a file"));
        if redundancy != "EXTERNAL" {
            instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
            fs::write(mount.join("more"), noise(4, 5 << 20)).expect("write");
            numbers_agree(&instance, &format!("{when}, one of them offline"));
            instance.sql("ALTER DISKGROUP data ONLINE DISK data_0001 WAIT");
            numbers_agree(&instance, &format!("{when}, all online again"));
        }
    }
}
