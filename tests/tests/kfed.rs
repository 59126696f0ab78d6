//! `plinth kfed` on real disks: records read and found, headers repaired, changed and given back.

use plinth_tests::{Blocks, Instance, MIB, bytes, header_places, noise, overwrite, shell};
use std::path::{Path, PathBuf};

const SIZE: u64 = 96 * MIB;

fn sum(disk: &Path) -> Vec<u8> {
    bytes(disk, 0, SIZE as usize)
}

fn kfed(instance: &Instance, words: &str, disk: &Path) -> plinth_tests::Finished {
    let words = words.split(' ').map(std::ffi::OsStr::new);
    let (first, rest) = (words.clone().take(1), words.skip(1));
    instance.plinth(
        [std::ffi::OsStr::new("kfed")]
            .into_iter()
            .chain(first)
            .chain([disk.as_os_str()])
            .chain(rest),
    )
}

/// The kinds of disks: files, and devices with sectors of either size.
const KINDS: [Option<u32>; 3] = [None, Some(512), Some(4096)];

/// A dismounted group of three disks with a file. `sector`: they are devices.
fn dismounted(sector: Option<u32>) -> (Instance, [PathBuf; 3]) {
    let mut instance = Instance::new();
    let names = ["f0d0", "f1d0", "f2d0"];
    for name in names {
        match sector {
            Some(sector) => instance.add_loop_disk(name, SIZE, sector),
            None => instance.add_disk(name, SIZE),
        };
    }
    instance.create_group("data", "NORMAL", &[&[SIZE], &[SIZE], &[SIZE]], "");
    let mount = instance.mount("DATA");
    let file = Blocks::new(mount.join("file"), 1, 1000);
    file.must_read_right();
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let disks = names.map(|name| instance.disk(name));
    (instance, disks)
}

fn undo(instance: &Instance, saved: &Path) -> plinth_tests::Finished {
    instance.plinth(["kfed".as_ref(), "repair".as_ref(), "--undo".as_ref(), saved.as_os_str()])
}

fn mounts_whole(instance: &Instance) {
    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.check("DATA");
    assert_eq!(instance.offline_disks("DATA"), 0.0);
}

/// Zeros are written over the first 4 MiB of a member. The copies of the header are found, the
/// first one is repaired, and undo brings every byte back; then the mount mends it by itself.
#[test]
fn a_zeroed_header_is_found_repaired_and_given_back() {
    KINDS.into_iter().for_each(zeroed_header);
}

fn zeroed_header(sector: Option<u32>) {
    let (instance, disks) = dismounted(sector);
    let disk = &disks[0];
    let places = header_places(disk);
    overwrite(disk, 0, &vec![0; 4 << 20]);
    let zeroed = sum(disk);

    let found = kfed(&instance, "find", disk).ok();
    for place in &places[1..] {
        let line = found.lines().find(|line| line.trim_start().starts_with(&format!("{place} ")));
        assert!(line.is_some_and(|line| line.contains("MEMBER")), "{place}: {found}");
    }
    assert!(kfed(&instance, "read", disk).ok().contains("# "), "zeros can be read");

    kfed(&instance, "repair", disk).ok();
    assert!(zeroed == sum(disk), "without --yes nothing is written");
    let saved = instance.path("before.json");
    let words = format!("repair --yes --save {}", saved.display());
    kfed(&instance, &words, disk).ok();
    let header = kfed(&instance, "read", disk).ok();
    assert!(header.contains("status           = MEMBER"), "{header}");
    let repaired = sum(disk);
    assert!(repaired[..4096] != zeroed[..4096] && repaired[4096..] == zeroed[4096..]);

    undo(&instance, &saved).ok();
    assert!(zeroed == sum(disk), "undo brings every byte back");

    kfed(&instance, &words, disk).refused();
    std::fs::remove_file(&saved).expect("removed");
    kfed(&instance, &words, disk).ok();
    noise(disk, 100, 10);
    let used = sum(disk);
    assert!(undo(&instance, &saved).refused().contains("was written since"));
    assert!(used == sum(disk), "a refused undo writes nothing");
    mounts_whole(&instance);
    assert!(instance.alert_log().contains("repaired the header copy"), "{}", instance.alert_log());
}

/// The label of a disk of no group: each copy is read and found, with its meaning, a shifted one
/// and a damaged one too.
#[test]
fn label_records_are_read_and_found() {
    let instance = Instance::new();
    let disk = instance.add_disk("f0d0", SIZE);
    let path = disk.to_str().expect("a path");
    instance.plinth(["afd_label", "shelf2", path]).ok();
    let read = kfed(&instance, "read", &disk).ok();
    assert!(read.starts_with(&format!("# label record at 0 of {path}\n")), "{read}");
    for part in ["label            = SHELF2 ", "its operator's name", "by  ", "PROVISIONED"] {
        assert!(read.contains(part), "{part} in {read}");
    }
    let all = kfed(&instance, "read --structure label", &disk).ok();
    assert_eq!(all.matches("# label record at ").count(), 3, "{all}");

    let record = bytes(&disk, 0, 4096);
    overwrite(&disk, 3 * MIB + 512, &record);
    overwrite(&disk, SIZE / 2 + 100, &[255]);
    let found = kfed(&instance, "find --step 512", &disk).ok();
    let line = |place: u64| {
        let begin = format!("{place} ");
        found.lines().find(|line| line.trim_start().starts_with(&begin)).unwrap_or_default()
    };
    for place in [0, SIZE - 4096] {
        let line = line(place);
        let all = ["label record", "SHELF2", "PROVISIONED", "right"];
        assert!(all.iter().all(|word| line.contains(word)), "{place}: {found}");
    }
    let shifted = line(3 * MIB + 512);
    assert!(shifted.contains("SHELF2") && !shifted.contains("right"), "{found}");
    let damaged = line(SIZE / 2);
    assert!(damaged.contains("label record") && !damaged.contains("SHELF2"), "{found}");
}

/// No copy of a disk's header is left: it is made again from the memberships on the disk and on the
/// others, as far as records on the disk say which one it is.
#[test]
fn a_header_of_which_no_copy_is_left_is_made_again() {
    for sector in KINDS {
        let (instance, [disk, second, third]) = dismounted(sector);
        let header = kfed(&instance, "read", &disk).ok();
        let places = header_places(&disk);
        places.iter().for_each(|place| noise(&disk, *place, 4096));
        let damaged = sum(&disk);
        let said = kfed(&instance, "repair --yes", &disk).refused();
        assert!(said.contains("--rebuild"), "{said}");
        let others = format!("--rebuild {} {}", second.display(), third.display());
        let saved = instance.path("before.json");
        let rebuild = format!("repair {others} --save {} --yes", saved.display());
        kfed(&instance, &format!("repair {others}"), &disk).ok();
        assert!(damaged == sum(&disk), "without --yes nothing is written");
        kfed(&instance, &rebuild, &disk).ok();
        undo(&instance, &saved).ok();
        assert!(damaged == sum(&disk), "undo brings every byte back");
        std::fs::remove_file(&saved).expect("removed");
        // The disk's own membership says it all.
        kfed(&instance, "repair --rebuild --yes", &disk).ok();
        let fields = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with("sequence"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(fields(&kfed(&instance, "read", &disk).ok()), fields(&header));
        mounts_whole(&instance);
        instance.sql("ALTER DISKGROUP data DISMOUNT");
        let said = kfed(&instance, &rebuild, &disk).refused();
        assert!(said.contains("has a header"), "{said}");

        // Records are left in the middle of the disk only.
        overwrite(&disk, 0, &vec![0; 4 << 20]);
        places.iter().for_each(|place| overwrite(&disk, *place, &[0; 4096]));
        kfed(&instance, &rebuild, &disk).ok();
        std::fs::remove_file(&saved).expect("removed");
        mounts_whole(&instance);
        instance.sql("ALTER DISKGROUP data DISMOUNT");

        // No record is left: the operator says which disk it is, and ONLINE copies it whole.
        overwrite(&disk, 0, &vec![0; SIZE as usize]);
        let said = kfed(&instance, &rebuild, &disk).refused();
        assert!(said.contains("--name"), "{said}");
        for (name, why) in [("data_0001", "which has its header"), ("data_0009", "has no disk")] {
            let said = kfed(&instance, &format!("{rebuild} --name {name}"), &disk).refused();
            assert!(said.contains(why), "{said}");
        }
        assert!(sum(&disk) == vec![0; SIZE as usize], "a refusal writes nothing");
        kfed(&instance, &format!("{rebuild} --name data_0000"), &disk).ok();
        instance.sql("ALTER DISKGROUP data MOUNT");
        assert_eq!(instance.offline_disks("DATA"), 1.0, "nothing on it counts");
        instance.sql("ALTER DISKGROUP data ONLINE DISK data_0000 WAIT");
        instance.wait_until_whole("DATA");
        instance.check("DATA");
    }
}

/// The directory for the former content is full, or is read-only: nothing is written.
#[test]
fn without_room_for_the_former_content_nothing_is_written() {
    let (instance, disks) = dismounted(None);
    overwrite(&disks[0], 0, &[0; 4096]);
    let before = sum(&disks[0]);
    let point = instance.path("small");
    std::fs::create_dir(&point).expect("a directory");
    for options in ["size=4k", "size=4k,ro"] {
        shell(&format!(r#"mount -t tmpfs -o {options} none "$1""#)).arg(&point).ok();
        let words = format!("repair --yes --save {}", point.join("before").display());
        let ended = kfed(&instance, &words, &disks[0]);
        let left = std::fs::read_dir(&point).expect("it can be read").count();
        shell(r#"umount "$1""#).arg(&point).ok();
        let said = ended.refused();
        assert!(said.contains("no disk was written"), "{said}");
        assert_eq!(left, 0);
        assert!(before == sum(&disks[0]), "{options}");
    }
}

/// While an engine has the disk it can be read, and is not written: the engine is named.
#[test]
fn a_disk_in_use_is_read_and_not_written() {
    let (instance, disks) = dismounted(Some(4096));
    instance.sql("ALTER DISKGROUP data MOUNT");
    overwrite(&disks[0], header_places(&disks[0])[1], &[0; 4096]);
    assert!(kfed(&instance, "read --structure membership", &disks[0]).ok().contains("generation"));
    kfed(&instance, "repair", &disks[0]).ok();
    let said = kfed(&instance, "repair --yes", &disks[0]).refused();
    assert!(said.contains("the engine of DATA"), "{said}");
    assert_eq!(bytes(&disks[0], header_places(&disks[0])[1], 4096), vec![0; 4096]);
}

/// A header is read to a text, the text is changed, and merged back.
#[test]
fn a_text_that_was_read_is_merged_back() {
    let (instance, disks) = dismounted(None);
    let text = instance.path("header.txt");
    let read = kfed(&instance, "read", &disks[0]).ok();
    std::fs::write(&text, &read).expect("written");
    let words = format!("merge --yes --text {}", text.display());
    let before = sum(&disks[0]);
    assert!(kfed(&instance, &words, &disks[0]).ok().contains("these values already"));
    assert!(before == sum(&disks[0]));
    std::fs::write(&text, read.replace("= MEMBER", "= FORMER")).expect("written");
    kfed(&instance, &words, &disks[0]).ok();
    let disk = instance.disk_row(&disks[0]);
    assert!(format!("{disk:?}").contains("FORMER"), "{disk:?}");
    std::fs::write(&text, "status = MEMBER").expect("written");
    kfed(&instance, &words, &disks[0]).ok();
    mounts_whole(&instance);
}

/// A group is dropped with all that it holds, by mistake; it comes back whole. A disk that was
/// dropped from it before stays a former one.
#[test]
fn a_dropped_group_comes_back() {
    for way in
        ["DROP DISKGROUP data INCLUDING CONTENTS", "DROP DISKGROUP data FORCE INCLUDING CONTENTS"]
    {
        let instance = Instance::new();
        instance.create_group("data", "NORMAL", &[&[SIZE, SIZE], &[SIZE]], "");
        let mount = instance.mount("DATA");
        let file = Blocks::new(mount.join("file"), 1, 1000);
        instance.sql("ALTER DISKGROUP data DROP DISK data_0001 REBALANCE WAIT");
        let disks = ["f0d0", "f0d1", "f1d0"].map(|name| instance.disk(name));
        instance.unmount(&mount);
        if way.contains("FORCE") {
            instance.sql("ALTER DISKGROUP data DISMOUNT");
        }
        instance.sql(way);
        let undrop = |yes: &[&str]| {
            let words = ["kfed", "undrop"].iter().chain(yes).map(std::ffi::OsStr::new);
            instance.plinth(words.chain(disks.iter().map(|disk| disk.as_os_str()))).ok()
        };
        let before = disks.each_ref().map(|disk| sum(disk));
        undrop(&[]);
        assert!(before == disks.each_ref().map(|disk| sum(disk)), "{way}");
        let saved = instance.path("before.json");
        let save = ["--yes", "--save", saved.to_str().expect("UTF-8")];
        assert!(undrop(&save).contains("no member any more"));
        undo(&instance, &saved).ok();
        assert!(before == disks.each_ref().map(|disk| sum(disk)), "{way}: undo");
        undrop(&["--yes"]);
        mounts_whole(&instance);
        instance.mount("DATA");
        file.must_read_right();
    }
}

/// Of two devices that are one disk of a dropped group neither is made a member again.
#[test]
fn a_disk_and_its_copy_do_not_both_come_back() {
    let (instance, disks) = dismounted(None);
    instance.sql("DROP DISKGROUP data FORCE INCLUDING CONTENTS");
    let copy = instance.path("copy");
    std::fs::copy(&disks[0], &copy).expect("copied");
    let all: Vec<&Path> = disks.iter().map(PathBuf::as_path).chain([copy.as_path()]).collect();
    let before: Vec<_> = all.iter().map(|disk| sum(disk)).collect();
    let words = ["kfed", "undrop", "--yes"].map(std::ffi::OsStr::new);
    let said =
        instance.plinth(words.into_iter().chain(all.iter().map(|disk| disk.as_os_str()))).refused();
    assert!(said.contains("are both disk DATA_0000"), "{said}");
    assert!(before == all.iter().map(|disk| sum(disk)).collect::<Vec<_>>());
}

/// Files without an end, pipes, directories, loops of links and other devices: each is refused, at
/// once and with its name; control characters in it do not reach the terminal.
#[test]
fn strange_files_are_refused() {
    let (instance, disks) = dismounted(None);
    let before = sum(&disks[0]);
    let [pipe, link] = ["pipe", "loop"].map(|name| instance.path(name));
    shell(r#"mkfifo "$1"; ln -s "$2" "$2""#).arg(&pipe).arg(&link).ok();
    let directory = instance.path("disks");
    let others = ["/dev/null", "/dev/zero", "/dev/full", "/nowhere/\u{1b}[2J"].map(PathBuf::from);
    for strange in others.iter().chain([&pipe, &link, &directory]) {
        let path = strange.to_str().expect("UTF-8");
        let refused = |words: &[&str]| {
            let said = instance.plinth(words).refused();
            assert!(!said.contains('\u{1b}'), "{words:?}: {said:?}");
            assert!(said.contains(path.split('\u{1b}').next().expect("a path")), "{said}");
        };
        refused(&["kfed", "repair", "--undo", path]);
        refused(&["kfed", "repair", path, "--yes"]);
        refused(&["kfed", "read", path]);
        refused(&["kfed", "undrop", path, "--yes"]);
        refused(&["amdu", "--list", path]);
    }
    for words in [
        "read 18446744073709551615",
        "read --offset 18446744073709551615",
        "read 18446744073709551615 --au 4294967295",
        "repair --yes --from 18446744073709551615",
        "merge --yes --text /dev/zero",
        "merge --yes --text /nowhere",
    ] {
        kfed(&instance, words, &disks[0]).refused();
    }
    assert!(before == sum(&disks[0]));
}

/// Whatever bytes are on a disk: they are shown, and nothing is written.
#[test]
fn any_bytes_can_be_read() {
    let instance = Instance::new();
    let disk = instance.add_disk("noise", SIZE);
    noise(&disk, 0, SIZE as usize);
    let before = sum(&disk);
    for words in ["read", "read 254", "read --offset 1M", "read --structure membership"] {
        kfed(&instance, words, &disk).ok();
    }
    for words in ["read --au 1", "find", "find --all --step 512", "repair --yes", "undrop --yes"] {
        kfed(&instance, words, &disk).refused();
    }
    assert!(before == sum(&disk));
    let short = instance.path("short");
    std::fs::write(&short, [1; 100]).expect("written");
    kfed(&instance, "read", &short).refused();
}
