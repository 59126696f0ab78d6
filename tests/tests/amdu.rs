//! `plinth amdu` on real disks: files come out of groups that no mount would take.

use plinth_tests::{
    Blocks, Finished, Instance, MIB, Postgres, Row, bytes, header_places, noise, overwrite, shell,
};
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

const SIZE: u64 = 128 * MIB;

/// `plinth amdu WORDS DISKS`.
fn amdu(instance: &Instance, words: &[&dyn AsRef<OsStr>], disks: &[PathBuf]) -> Finished {
    let words = words.iter().map(|word| word.as_ref().to_owned());
    let disks = disks.iter().map(|disk| disk.clone().into_os_string());
    instance.plinth([OsString::from("amdu")].into_iter().chain(words).chain(disks))
}

/// Files and directories with their sums, as `sha256sum` prints them.
fn sums(directory: &Path) -> String {
    shell(r#"cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum"#).arg(directory).ok()
}

/// A group of two failure groups with two disks each: large, small and sparse files in directories.
/// It is dismounted. Returns the disks, and the sums of the files.
fn group() -> (Instance, [PathBuf; 4], String) {
    group_on(None)
}

/// The kinds of disks: files, and devices with sectors of either size.
const KINDS: [Option<u32>; 3] = [None, Some(512), Some(4096)];

/// `sector`: the disks are devices.
fn group_on(sector: Option<u32>) -> (Instance, [PathBuf; 4], String) {
    let mut instance = Instance::new();
    let names = ["f0d0", "f0d1", "f1d0", "f1d1"];
    if let Some(sector) = sector {
        names.iter().for_each(|name| _ = instance.add_loop_disk(name, SIZE, sector));
    }
    instance.create_group("data", "NORMAL", &[&[SIZE, SIZE], &[SIZE, SIZE]], "");
    let mount = instance.mount("DATA");
    shell(
        r#"cd "$1"; mkdir -p a/b
        head -c 20000000 /dev/urandom > a/large
        for at in $(seq 200); do head -c $((at * 37)) /dev/urandom > a/b/small$at; done
        truncate -s 100M a/sparse; printf x | dd of=a/sparse bs=1 seek=50000000 conv=notrunc status=none
        ln a/large a/b/linked; ln -s ../large a/b/symbolic; chmod 640 a/large; sync"#,
    )
    .arg(&mount)
    .ok();
    let right = sums(&mount);
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let disks = names.map(|name| instance.disk(name));
    (instance, disks, right)
}

/// Half of the disks, which no mount would take without FORCE: everything comes out, with its
/// holes, links and permissions, and the disks are not written.
#[test]
fn half_of_the_disks_have_everything() {
    KINDS.into_iter().for_each(half_of_the_disks);
}

fn half_of_the_disks(sector: Option<u32>) {
    let (instance, disks, right) = group_on(sector);
    for half in [&disks[..2], &disks[2..]] {
        let before: Vec<Vec<u8>> = half.iter().map(|disk| bytes(disk, 0, SIZE as usize)).collect();
        let listed = amdu(&instance, &[&"--list"], half).ok();
        assert!(listed.contains("complete") && listed.contains("a/b/small200"), "{listed}");
        let output = instance.path("output");
        amdu(&instance, &[&"--extract", &"ALL", &"--output", &output], half).ok();
        assert_eq!(sums(&output), right);
        let file = |name: &str| fs::symlink_metadata(output.join(name)).expect("it is there");
        assert!(file("a/sparse").blocks() * 512 < MIB, "the holes are holes");
        assert_eq!((file("a/large").mode() & 0o777, file("a/large").nlink()), (0o640, 2));
        assert_eq!(
            fs::read_link(output.join("a/b/symbolic")).expect("a link"),
            Path::new("../large")
        );
        let now: Vec<Vec<u8>> = half.iter().map(|disk| bytes(disk, 0, SIZE as usize)).collect();
        assert!(before == now, "amdu writes no disk");
        amdu(&instance, &[&"--extract", &"ALL", &"--output", &output], half).refused();
        assert_eq!(sums(&output), right, "nothing is written over");
        fs::remove_dir_all(&output).expect("removed");
    }
    let words = r#"cd "$1" && "$2" amdu --list f0d? 'f1d[0-9]'"#;
    let listed = shell(words).arg(instance.path("disks")).arg(instance.program()).ok();
    assert!(listed.contains("a/b/small200"), "paths may be relative: {listed}");
    let output = instance.path("one");
    amdu(&instance, &[&"--extract", &"+data/a/b", &"--output", &output], &disks).ok();
    assert_eq!(fs::read_dir(output.join("b")).expect("a directory").count(), 202);
}

/// One disk of each failure group: what has no mirror there is missing, and is said; the rest comes
/// out right.
/// Disks, a directory and patterns with the letters that separate patterns elsewhere: `amdu`,
/// `kfed` and `check` take the path that is written.
#[test]
fn paths_may_contain_separators() {
    let (instance, disks, right) = group();
    let folder = instance.path("x, y's");
    fs::create_dir(&folder).expect("a directory");
    let names = ["a,b", "[c],d", "e ", "'f'"];
    let moved: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    for (disk, new) in disks.iter().zip(&moved) {
        fs::rename(disk, new).expect("renamed");
        let read = instance.plinth(["kfed".as_ref(), "read".as_ref(), new.as_os_str()]).ok();
        assert!(read.contains("status           = MEMBER"), "{read}");
    }
    let listed = amdu(&instance, &[&"--list"], &moved).ok();
    assert!(names.iter().all(|name| listed.contains(name)), "{listed}");
    let output = instance.path("out");
    let pattern = [folder.join("*,*"), folder.join("[!a,[]*")];
    amdu(&instance, &[&"--extract", &"ALL", &"--output", &output], &pattern).ok();
    assert_eq!(sums(&output), right);
    let words = [OsStr::new("check")].into_iter();
    let checked = instance.plinth(words.chain(moved.iter().map(|disk| disk.as_os_str())));
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn what_is_missing_is_said() {
    let (instance, disks, right) = group();
    let half = [disks[0].clone(), disks[2].clone()];
    let output = instance.path("output");
    let done = amdu(&instance, &[&"--extract", &"ALL", &"--output", &output], &half);
    if done.code == Some(1) {
        // Both mirrors of the catalog may be on the other two.
        return assert!(done.refused().contains("catalog"));
    }
    let said = done.refused();
    let sums = sums(&output);
    for line in sums.lines() {
        let name = line.split_once("  ./").expect("a sum").1;
        let is_right = right.contains(line);
        assert!(is_right || said.contains(name), "{name} is wrong, and that is not said: {said}");
    }
    assert!(said.contains("missing"), "{said}");
}

/// Each mirror of the catalog is damaged at another place: page by page the good one is taken. Then
/// all are damaged at one place: what can still be read comes out, and the rest is said.
#[test]
fn a_damaged_catalog_is_read_page_by_page() {
    let (instance, disks, right) = group();
    let runs = runs(&instance, &disks);
    assert!(runs.len() > 1, "{runs:?}");
    // The 30th page and all that follow of one mirror, all before it of the others.
    for (at, (disk, offset)) in runs.iter().enumerate() {
        if at == 0 {
            noise(disk, offset + 30 * 4096, 400 << 10)
        } else {
            noise(disk, *offset, 30 * 4096)
        }
    }
    let output = instance.path("output");
    amdu(&instance, &[&"--extract", &"ALL", &"--output", &output], &disks).ok();
    assert_eq!(sums(&output), right);
    fs::remove_dir_all(&output).expect("removed");
    let copy = instance.path("catalog");
    amdu(&instance, &[&"--extract-catalog", &copy], &disks).ok();
    assert_eq!(shell(r#"sqlite3 "$1" 'PRAGMA integrity_check'"#).arg(&copy).ok().trim(), "ok");

    for (disk, offset) in &runs {
        noise(disk, offset + 20 * 4096, 10 * 4096);
    }
    let done = amdu(&instance, &[&"--extract", &"ALL", &"--output", &output], &disks);
    assert_eq!(done.code, Some(2));
    let said = done.refused();
    let sums = sums(&output);
    assert!(sums.lines().count() > 20, "{sums}");
    let whole: Vec<&str> =
        right.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ./").expect("a sum");
        assert!(whole.contains(&sum) || said.contains(name), "{name}: {said}");
    }
    amdu(&instance, &[&"--report"], &disks).refused();
}

/// Where each mirror of the catalog's database begins.
fn runs(instance: &Instance, disks: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    let dump = instance.plinth(["dump".as_ref(), disks[0].as_os_str(), "membership".as_ref()]).ok();
    let mut runs: Vec<(PathBuf, u64)> = Vec::new();
    for line in
        dump.lines().filter(|line| line.contains("Database mirror") && line.contains(" AUs 0 to "))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after =
            |word: &str| words.iter().skip_while(|one| **one != word).nth(1).expect("a word");
        let disk: usize = after("disk").parse().expect("a number");
        let au: u64 = words.last().expect("a word").parse().expect("a number");
        let run = (disks[disk].clone(), au * 4 * MIB);
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    runs
}

/// A mirror of a block is damaged: the other is read. Both are: the range is listed, and nothing is
/// taken for right. `--compare` finds them, `--block` and `--file` lead there and back.
#[test]
fn damaged_blocks_are_found_and_named() {
    KINDS.into_iter().for_each(damaged_blocks);
}

fn damaged_blocks(sector: Option<u32>) {
    let (instance, disks, right) = group_on(sector);
    let json = |words: &[&dyn AsRef<OsStr>]| -> Vec<Row> {
        let words: Vec<&dyn AsRef<OsStr>> =
            [&"--json" as &dyn AsRef<OsStr>].into_iter().chain(words.iter().copied()).collect();
        serde_json::from_str(&amdu(&instance, &words, &disks).ok()).expect("JSON")
    };
    let places = json(&[&"--file", &"a/large", &"--offset", &"8M"]);
    assert_eq!(places.len(), 2);
    let place = |at: usize| {
        let offset = places[at]["Disk_Offset"].as_u64().expect("a number");
        (PathBuf::from(places[at]["Path"].as_str().expect("a path")), offset)
    };
    let (disk, offset) = place(0);
    let back = json(&[&"--block", &format!("{}:{offset}", disk.display())]);
    assert_eq!((&back[0]["Name"], &back[0]["Offset"]), (&"a/large".into(), &(8 * MIB).into()));

    let compare = || amdu(&instance, &[&"--compare"], &disks);
    compare().ok();
    noise(&disk, offset, 4096);
    assert!(compare().refused().contains("does not match its checksum"));
    let output = instance.path("output");
    let extract = || amdu(&instance, &[&"--extract", &"ALL", &"--output", &output], &disks);
    extract().ok();
    assert_eq!(sums(&output), right);
    fs::remove_dir_all(&output).expect("removed");

    let (disk, offset) = place(1);
    noise(&disk, offset, 4096);
    let done = extract();
    assert_eq!(done.code, Some(2));
    let said = done.refused();
    let is_named = |line: &str| {
        line.contains("a/b/linked") && line.contains("8388608") && line.contains("damaged")
    };
    assert!(said.lines().any(is_named), "{said}");
}

/// The metadata in a directory is enough to list the group, and to read its records, when the disks
/// are not there. A dump that was cut short is refused.
#[test]
fn a_dump_is_taken_for_the_disks() {
    KINDS.into_iter().for_each(dump_for_the_disks);
}

fn dump_for_the_disks(sector: Option<u32>) {
    let (instance, disks, _) = group_on(sector);
    let dump = instance.path("dump");
    amdu(&instance, &[&"--dump", &dump], &disks).ok();
    let listed = amdu(&instance, &[&"--list"], &disks).ok();
    for disk in &disks {
        fs::remove_file(disk).expect("removed");
    }
    let directory = [dump.clone()];
    let of_dump = amdu(&instance, &[&"--list"], &directory).ok();
    let files = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("complete")).map(str::to_owned).collect()
    };
    assert_eq!(files(&listed), files(&of_dump));
    amdu(&instance, &[&"--report"], &directory).ok();
    let one = dump.join("DATA_0000.dump");
    let kfed = |words: &[&str]| {
        let words = words.iter().map(OsStr::new).chain([one.as_os_str()]);
        instance.plinth([OsStr::new("kfed")].into_iter().chain(words))
    };
    assert!(kfed(&["read"]).ok().contains("DATA_0000"));
    assert!(kfed(&["repair", "--yes"]).refused().contains("is a dump"));
    let output = instance.path("output");
    let done = amdu(&instance, &[&"--extract", &"a/large", &"--output", &output], &directory);
    assert_eq!(done.code, Some(2), "the files are not in the dump");
    let whole = fs::read(&one).expect("the dump");
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for other in [&whole[..whole.len() - 1], &changed] {
        fs::write(&one, other).expect("written");
        for refused in [amdu(&instance, &[&"--list"], &directory), kfed(&["read"])] {
            assert!(refused.refused().contains("no whole dump"));
        }
    }
}

/// The directory for the files is full: a clear error, and no part of a file is left.
#[test]
fn a_full_directory_is_an_error() {
    let (instance, disks, right) = group();
    let point = instance.path("small");
    fs::create_dir(&point).expect("a directory");
    shell(r#"mount -t tmpfs -o size=10M none "$1""#).arg(&point).ok();
    let output = point.join("output");
    let done = amdu(&instance, &[&"--extract", &"ALL", &"--output", &output], &disks);
    let there = sums(&output);
    let dump = point.join("dump");
    let dumped = amdu(&instance, &[&"--dump", &dump], &disks);
    let is_left = dump.exists();
    shell(r#"umount "$1""#).arg(&point).ok();
    assert!(dumped.refused().contains("No space left") && !is_left, "half a dump is none");
    assert_eq!(done.code, Some(1));
    let said = done.refused();
    assert!(said.contains("No space left"), "{said}");
    assert!(there.lines().all(|line| right.contains(line)), "{there}");
}

/// The group is in use: its files that were synced come out, the engine does not notice.
#[test]
fn a_group_in_use_is_read() {
    let (instance, disks, right) = group();
    instance.sql("ALTER DISKGROUP data MOUNT");
    let mount = instance.mount("DATA");
    let busy = Blocks::new(mount.join("busy"), 1, 1000);
    let output = instance.path("output");
    let done = amdu(&instance, &[&"--extract", &"a", &"--output", &output], &disks);
    assert!(matches!(done.code, Some(0 | 3)), "{:?}", done.code);
    assert_eq!(sums(&output.join("a")).replace("./", "./a/"), right);
    busy.must_read_right();
    instance.unmount(&mount);
    instance.check("DATA");
}

/// A PostgreSQL cluster from half of the disks of a dropped group, of which the first 4 MiB of a
/// disk were zeroed, starts and is sound.
#[test]
fn a_postgresql_cluster_comes_out_sound() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[4 * SIZE], &[4 * SIZE]], "");
    let mount = instance.mount("DATA");
    let postgres = Postgres::new(&mount, "pg");
    postgres.fill(2);
    postgres.stop();
    instance.unmount(&mount);
    instance.sql("DROP DISKGROUP data INCLUDING CONTENTS");
    let disk = instance.disk("f1d0");
    overwrite(&disk, 0, &vec![0; 4 << 20]);
    let output = instance.path("output");
    amdu(&instance, &[&"--extract", &"pg", &"--output", &output], &[disk]).ok();
    shell(r#"chmod 755 "$1""#).arg(&output).ok();
    let copy = Postgres::existing(&output, "pg");
    copy.verify();
    copy.stop_and_verify_pages();
}

/// Whatever bytes are on a disk: a clear error.
#[test]
fn any_bytes_are_refused() {
    let (instance, disks, _) = group();
    let other = instance.add_disk("noise", SIZE);
    noise(&other, 0, SIZE as usize);
    amdu(&instance, &[&"--list"], std::slice::from_ref(&other)).refused();
    amdu(&instance, &[&"--list"], &[PathBuf::from("/nowhere")]).refused();
    // The records of one disk are noise, and its copies of the header are not.
    noise(&disks[0], 4096, 1 << 20);
    noise(&disks[0], header_places(&disks[0])[1] + 4096, 1 << 20);
    let report = amdu(&instance, &[&"--report"], &[disks.to_vec(), vec![other]].concat()).refused();
    assert!(report.contains("no membership can be read"), "{report}");
    amdu(&instance, &[&"--list"], &disks).ok();
}
