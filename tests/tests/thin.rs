//! What is freed goes back to the device below by itself: loop devices over sparse files, whose
//! blocks are counted.

use plinth_tests::{Instance, MIB, wait_for};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// How much more than expected a disk may keep: the catalog grows, and files share AUs.
const SLACK: u64 = 12 * MIB;

/// A group of loop devices over sparse files.
struct Thin {
    instance: Instance,
    mount: PathBuf,
    files: Vec<PathBuf>,
}

impl Thin {
    fn new(size: u64) -> Self {
        let mut instance = Instance::new();
        let disks = ["a0", "b0"].map(|name| instance.add_loop_disk(name, size, 512));
        let [a, b] = disks.each_ref().map(|disk| disk.display());
        instance.sql(&format!(
            "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP a DISK '{a}' FAILGROUP b DISK '{b}'"
        ));
        let mount = instance.mount("DATA");
        let files = ["a0", "b0"].map(|name| instance.path("parts").join(name)).to_vec();
        let thin = Self { instance, mount, files };
        thin.wait_until_nothing_waits();
        thin
    }

    /// Bytes of blocks that each file below a disk has.
    fn held(&self) -> Vec<u64> {
        let blocks = |file: &PathBuf| fs::metadata(file).expect("it is there").blocks() * 512;
        self.files.iter().map(blocks).collect()
    }

    fn wait_until_nothing_waits(&self) {
        wait_for("the queue to be empty", || {
            self.instance.number("SELECT sum(waiting + in_flight) FROM v$asm_disk_thin") == 0.0
        });
    }

    /// A file of random bytes, which every disk holds.
    fn write(&self, name: &str, bytes: u64) -> PathBuf {
        let (path, before) = (self.mount.join(name), self.held());
        let mut random = fs::File::open("/dev/urandom").expect("random bytes");
        let mut file = fs::File::create(&path).expect("create");
        std::io::copy(&mut std::io::Read::take(&mut random, bytes), &mut file).expect("write");
        file.sync_all().expect("sync");
        let grown = self.held().iter().zip(&before).all(|(now, before)| now - before >= bytes);
        assert!(grown, "{name}: {before:?} {:?}", self.held());
        path
    }

    /// Every disk holds what it held `before`, and `more` bytes of what was written since.
    fn goes_back(&self, what: &str, before: &[u64], more: u64) {
        wait_for(what, || {
            self.held().iter().zip(before).all(|(now, before)| *now <= before + more + SLACK)
        });
        self.wait_until_nothing_waits();
    }
}

fn sync(file: &Path) {
    fs::File::open(file).and_then(|file| file.sync_all()).expect("sync");
}

/// Deleted, truncated, punched, of a thousand small files: the files below the disks become smaller
/// by what was freed, without a statement and without a rebalance, and a view says so. With
/// `PLINTH_LONG=1` of 2 GB.
#[test]
fn deleted_space_goes_back_without_a_rebalance() {
    let is_long = std::env::var_os("PLINTH_LONG").is_some();
    let size = if is_long { 2 << 30 } else { 200 * MIB };
    let thin = Thin::new(size + 600 * MIB);
    let instance = &thin.instance;
    let before = thin.held();

    fs::remove_file(thin.write("table", size)).expect("remove");
    thin.goes_back("a deleted file", &before, 0);
    thin.wait_until_nothing_waits();
    for row in instance.query("SELECT * FROM v$asm_disk_thin") {
        let number = |column: &str| row[column].as_u64().expect("a number");
        let word = |column: &str| row[column].as_str().unwrap_or("").to_owned();
        assert_eq!((word("capable"), word("means")), ("Y".into(), "UNMAP".into()), "{row:?}");
        assert!(number("returned") >= size, "{row:?}");
        assert_eq!((number("not_returnable"), number("failures")), (0, 0), "{row:?}");
        assert_eq!((word("reason"), number("queue_age")), (String::new(), 0), "{row:?}");
        assert!(number("granularity") >= 512 && number("maximum") >= number("granularity"));
    }

    let cut = thin.write("cut", 64 * MIB);
    let file = fs::File::options().write(true).open(&cut).expect("open");
    file.set_len(MIB).expect("truncate");
    thin.goes_back("what a file was cut by", &before, MIB);

    let punched = thin.write("punched", 64 * MIB);
    let file = fs::File::options().write(true).open(&punched).expect("open");
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, flags, 0, 60 * MIB).expect("punch");
    thin.goes_back("a hole", &before, 5 * MIB);

    let small = |number: u32| thin.mount.join(format!("small.{number}"));
    for number in 0..1_000 {
        fs::write(small(number), [0xa5; 8192]).expect("write");
    }
    rustix::fs::syncfs(fs::File::open(&thin.mount).expect("the mount")).expect("sync");
    assert!(thin.held().iter().zip(&before).all(|(now, before)| now - before > 60 * MIB));
    (0..1_000).for_each(|number| fs::remove_file(small(number)).expect("remove"));
    thin.goes_back("a thousand small files", &before, 5 * MIB);

    let moves = "SELECT count(*) FROM v$asm_operation_ended WHERE operation = 'REBAL'";
    assert_eq!(instance.number(moves), 0.0);
    instance.check("DATA");
}

/// The disk that mirrors move away from gives their space back.
#[test]
fn a_moved_mirror_leaves_no_space_behind() {
    let mut thin = Thin::new(600 * MIB);
    let path = thin.write("table", 200 * MIB);
    let (bytes, before) = (fs::read(&path).expect("read"), thin.held());
    let disk = thin.instance.add_loop_disk("a1", 600 * MIB, 512);
    thin.instance.sql(&format!(
        "ALTER DISKGROUP data ADD FAILGROUP a DISK '{}' REBALANCE POWER 8 WAIT",
        disk.display()
    ));
    wait_for("half of the first disk to go back", || thin.held()[0] + 60 * MIB <= before[0]);
    sync(&path);
    assert_eq!(fs::read(&path).expect("read"), bytes);
    thin.instance.check("DATA");
}
