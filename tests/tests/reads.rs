//! The choice of the mirror that is read: the faster one, or the preferred one.
//!
//! Counters alone decide: a busy host makes reads slow, and no test of this may fail for that.
//! Where a mirror is avoided "soon", the test looks at one window of reads after the other until
//! one is as it should be.

use plinth_tests::{Instance, MIB, Row, scaled};
use std::{
    fs::File,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

const BLOCK: usize = 8192;
const BLOCKS: u64 = 32 * MIB / BLOCK as u64;
/// How long programs read between two looks at the counters.
const WINDOW: Duration = Duration::from_secs(1);
/// Windows until the expected change: it takes one or two where nothing else runs.
const WINDOWS: usize = 30;

/// Two mirrors that can be slow, and a file on them.
struct Pair {
    instance: Instance,
    file: PathBuf,
}

/// The counts of each of the two disks in the views.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Counts {
    /// By the policy: all reads of front ends, and probes.
    reads: u64,
    explorations: u64,
    faster: u64,
    preferred: u64,
    /// By `v$asm_disk_iostat`: front ends' reads.
    files: u64,
    /// By the histogram: reads of any kind that took 16 ms or more.
    long: u64,
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            explorations: self.explorations - before.explorations,
            faster: self.faster - before.faster,
            preferred: self.preferred - before.preferred,
            files: self.files - before.files,
            long: self.long - before.long,
        }
    }
}

fn content(block: u64) -> [u8; BLOCK] {
    let mut bytes = [u8::try_from(block % 251).expect("small"); BLOCK];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes
}

impl Pair {
    fn new() -> Self {
        let mut instance = Instance::new();
        instance.add_slow_disk("f0d0", 256 * MIB);
        instance.add_slow_disk("f1d0", 256 * MIB);
        instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
        let file = instance.mount("DATA").join("table");
        let table = File::create(&file).expect("a file");
        (0..BLOCKS).for_each(|block| {
            table.write_all_at(&content(block), block * BLOCK as u64).expect("written")
        });
        table.sync_all().expect("synced");
        Self { instance, file }
    }

    /// Makes one of the two slow.
    fn delay(&self, disk: usize, by: Duration) {
        self.instance.slow(&format!("f{disk}d0")).delay(by);
    }

    fn counts(&self) -> [Counts; 2] {
        let rows = self.instance.query(
            "SELECT p.*, i.reads AS files, (SELECT coalesce(sum(h.wait_count), 0) FROM v$asm_disk_histogram h
                WHERE h.group_number = p.group_number AND h.disk_number = p.disk_number AND h.io_class = 'READ'
                AND h.wait_time_micro > 16384) AS long
             FROM v$asm_read_policy p JOIN v$asm_disk_iostat i ON i.group_number = p.group_number
                AND i.disk_number = p.disk_number AND i.io_client = 'FILES' ORDER BY p.failgroup",
        );
        let of = |row: &Row| {
            let number = |column: &str| {
                row[column].as_u64().unwrap_or_else(|| panic!("{column} of {row:?}"))
            };
            let reasons =
                ["preferred_reads", "faster_reads", "equal_reads", "only_reads", "retry_reads"];
            Counts {
                reads: reasons.iter().map(|reason| number(reason)).sum(),
                explorations: number("exploration_reads"),
                faster: number("faster_reads"),
                preferred: number("preferred_reads"),
                files: number("files"),
                long: number("long"),
            }
        };
        assert_eq!(rows.len(), 2, "{rows:?}");
        [of(&rows[0]), of(&rows[1])]
    }

    /// Two programs read here and there for a while; the counts on each disk.
    fn window(&self) -> [Counts; 2] {
        let before = self.counts();
        let until = Instant::now() + WINDOW;
        thread::scope(|scope| {
            for program in 0..2 {
                let path = &self.file;
                scope.spawn(move || read_until(path, program, until));
            }
        });
        let after = self.counts();
        [after[0] - before[0], after[1] - before[1]]
    }

    /// Reads until a window is as it should be.
    #[track_caller]
    fn soon(&self, what: &str, is_so: impl Fn([Counts; 2]) -> bool) {
        let mut seen = Vec::new();
        for _ in 0..WINDOWS {
            let window = self.window();
            seen.push(window);
            if is_so(window) {
                // For measurements: `--nocapture`.
                println!("{what}, after {} windows: {window:?}", seen.len());
                return;
            }
        }
        panic!(
            "{what}: {:#?}\n{:?}",
            seen.last(),
            self.instance.query("SELECT * FROM v$asm_read_policy")
        );
    }
}

/// Past the kernel's cache: every read is the engine's.
fn read_until(path: &Path, program: u64, until: Instant) {
    let file =
        File::options().read(true).custom_flags(libc::O_DIRECT).open(path).expect("the file");
    let mut room = vec![0; 2 * BLOCK];
    let start = room.as_ptr().align_offset(BLOCK);
    let room = &mut room[start..start + BLOCK];
    let mut block = program * 977;
    while Instant::now() < until {
        block = (block * 48271 + 11) % BLOCKS;
        file.read_exact_at(room, block * BLOCK as u64).expect("a read");
        assert!(room[..] == content(block), "block {block}");
    }
}

fn all(counts: [Counts; 2]) -> u64 {
    counts.iter().map(|one| one.reads + one.explorations).sum()
}

/// Of all reads, in parts of a hundred, rounded up.
fn percent(counts: [Counts; 2], disk: usize) -> u64 {
    ((counts[disk].reads + counts[disk].explorations) * 100).div_ceil(all(counts))
}

/// One mirror becomes slow, a little and then much: it is avoided, probed now and then, and used
/// again when it is fast.
#[test]
fn a_slow_mirror_is_set_aside_until_it_is_fast_again() {
    let pair = Pair::new();
    pair.soon("both are read", |counts| (0..2).all(|disk| percent(counts, disk) >= 25));
    for (slow, by) in
        scaled(vec![(0, 300), (1, 20_000)], vec![(0, 300), (1, 300), (0, 20_000), (1, 20_000)])
    {
        pair.delay(slow, Duration::from_micros(by));
        let case = format!("{by} us more on disk {slow}");
        pair.soon(&format!("{case}: it is set aside"), |counts| {
            percent(counts, slow) <= 2
                && counts[1 - slow].faster * 2 > counts[1 - slow].reads
                && counts[slow].explorations > 0
                && (by < 16_384 || (1..=all(counts) / 50).contains(&counts[slow].long))
        });
        let estimate = |disk: usize| {
            pair.instance.number(&format!(
                "SELECT read_micro_16k FROM v$asm_read_policy WHERE failgroup = 'F{disk}'"
            ))
        };
        assert!(estimate(slow) > estimate(1 - slow), "{case}");
        pair.delay(slow, Duration::ZERO);
        pair.soon(&format!("{case}: it is used again"), |counts| percent(counts, slow) >= 25);
    }
    pair.instance.check("DATA");
}

/// The failure group that is near is read, and the other one never, however slow the near one is;
/// until the attribute changes. The engine's successor remembers that, and the instance's.
#[test]
fn a_preferred_failure_group_is_read_and_no_other() {
    let mut pair = Pair::new();
    let set = |pair: &Pair, list: &str| {
        pair.instance.sql(&format!("ALTER SYSTEM SET asm_preferred_read_failure_groups = {list}"));
    };
    let said = |pair: &Pair| {
        let columns = "string_agg(preferred_read, '' ORDER BY failgroup)";
        ["v$asm_disk", "v$asm_disk_stat", "v$asm_read_policy"].map(|view| {
            pair.instance.text(&format!("SELECT {columns} FROM {view} WHERE group_number > 0"))
        })
    };
    let shown = |pair: &Pair| pair.instance.text("SHOW asm_preferred_read_failure_groups");
    let only = |pair: &Pair, disk: usize| {
        let counts = pair.window();
        assert_eq!(
            counts[1 - disk],
            Counts { long: counts[1 - disk].long, ..Counts::default() },
            "{counts:?}"
        );
        assert!(
            counts[disk].reads > 10 && counts[disk].preferred == counts[disk].reads,
            "{counts:?}"
        );
        assert_eq!((counts[disk].files, counts[disk].explorations), (counts[disk].reads, 0));
    };
    assert_eq!((said(&pair), shown(&pair)), (["UU"; 3].map(str::to_owned), String::new()));
    set(&pair, "'data.f0, other.site'");
    assert_eq!(
        (said(&pair), shown(&pair)),
        (["YN"; 3].map(str::to_owned), "DATA.F0, OTHER.SITE".to_owned())
    );
    only(&pair, 0);
    pair.delay(0, Duration::from_millis(20));
    only(&pair, 0);
    set(&pair, "'DATA.F1'");
    only(&pair, 1);
    // A wrong value changes nothing.
    for (list, why) in [
        ("'DATA.F9'", "no failure group F9"),
        ("'F0'", "'F0' is not GROUP.FAILGROUP"),
        ("data.f0", "quotes"),
    ] {
        let refused = pair
            .instance
            .refused(&format!("ALTER SYSTEM SET asm_preferred_read_failure_groups = {list}"));
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(shown(&pair), "DATA.F1");
    pair.instance.kill_engine("DATA");
    pair.instance.mount_again("DATA");
    assert_eq!(said(&pair), ["NY"; 3].map(str::to_owned));
    only(&pair, 1);
    pair.instance.kill_instance();
    pair.instance.start();
    assert_eq!((said(&pair), shown(&pair)), (["NY"; 3].map(str::to_owned), "DATA.F1".to_owned()));
    pair.instance.quiesce("DATA");
    only(&pair, 1);
    // The preferred one is gone: the other one is all there is.
    pair.delay(0, Duration::ZERO);
    pair.instance.sql("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP f1");
    let counts = pair.window();
    assert!(counts[1].reads == 0 && counts[0].reads > 10 && counts[0].preferred == 0, "{counts:?}");
    pair.instance.sql("ALTER DISKGROUP data ONLINE ALL WAIT");
    only(&pair, 1);
    set(&pair, "''");
    assert_eq!((said(&pair), shown(&pair)), (["UU"; 3].map(str::to_owned), String::new()));
    pair.soon("both are read", |counts| (0..2).all(|disk| percent(counts, disk) >= 25));
    pair.instance.check("DATA");
}
