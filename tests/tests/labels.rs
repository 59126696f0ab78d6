//! Labels of disks: given, found by, refused, and seen by other programs.

use plinth_tests::{Blocks, Finished, Instance, LoopDisk, MIB, bytes, overwrite, shell};
use std::{
    fs,
    path::{Path, PathBuf},
};

const SIZE: u64 = 256 * MIB;

/// Loop devices with links in a folder that only the scan for labels looks at.
struct Devices {
    folder: PathBuf,
    loops: Vec<LoopDisk>,
}

impl Devices {
    /// Labels are read of these devices, and no others are discovered.
    fn new(instance: &Instance) -> Self {
        let folder = instance.path("devices");
        fs::create_dir(&folder).expect("a folder");
        instance.plinth(["afd_dsset", &format!("{}/*", folder.display())]).ok();
        instance.sql("ALTER SYSTEM SET asm_diskstring = 'AFD:*'");
        Self { folder, loops: Vec::new() }
    }

    fn add(&mut self, name: &str, sector: u32) -> String {
        let disk = LoopDisk::new(&self.folder.with_file_name("parts").join(name), SIZE, sector);
        let link = self.folder.join(name);
        std::os::unix::fs::symlink(disk.path(), &link).expect("a link");
        self.loops.push(disk);
        link.to_str().expect("a path").to_owned()
    }

    /// Detaches all, and attaches their files in the opposite order: each gets another device, and
    /// a link of another name.
    fn attach_in_another_order(&mut self) {
        let links = fs::read_dir(&self.folder).expect("the folder").flatten();
        links.for_each(|link| fs::remove_file(link.path()).expect("a link"));
        let before: Vec<_> = self.loops.iter().map(|disk| disk.path().to_owned()).collect();
        self.loops.iter_mut().for_each(LoopDisk::detach);
        self.loops.reverse();
        for (number, disk) in self.loops.iter_mut().enumerate() {
            disk.attach();
            let link = self.folder.join(format!("again{number}"));
            std::os::unix::fs::symlink(disk.path(), link).expect("a link");
        }
        self.loops.reverse();
        let after: Vec<_> = self.loops.iter().map(|disk| disk.path().to_owned()).collect();
        assert_ne!(before, after, "each has its former device");
    }
}

fn blkid(device: &str, tag: &str) -> String {
    let script = r#"blkid --probe --output value --match-tag "$2" "$1" || true"#;
    shell(script).arg(device).arg(tag).ok().trim().to_owned()
}

fn hash(path: &Path) -> String {
    shell(r#"sha256sum < "$1""#).arg(path).ok()
}

fn label(instance: &Instance, words: &[&str]) -> Finished {
    instance.plinth([&["afd_label"], words].concat())
}

/// The row of one disk in `afd_lsdsk`.
fn row(label: &str, path: &str) -> String {
    format!("{label:<25} {:>9}   {path}\n", "DISABLED")
}

/// Disks of 512 and of 4096 bytes' sectors are labelled and listed as in ASM, a group is made of
/// them by their labels, and other programs see whose they are, before and after.
#[test]
fn labelled_disks_are_listed_taken_and_seen_by_other_programs() {
    for sector in [512, 4096] {
        let instance = Instance::new();
        let mut devices = Devices::new(&instance);
        let paths = [devices.add("b", sector), devices.add("a", sector)];
        assert_eq!(label(&instance, &["data1", &paths[0]]).ok(), "");
        instance.sql(&format!("ALTER SYSTEM LABEL SET 'data2' TO '{}'", paths[1]));
        let rules = ["-".repeat(80), "=".repeat(80)];
        let expected = format!(
            "{}\nLabel                     Filtering   Path\n{}\n{}{}",
            rules[0],
            rules[1],
            row("DATA1", &paths[0]),
            row("DATA2", &paths[1])
        );
        assert_eq!(instance.plinth(["afd_lsdsk"]).ok(), expected);
        let rows = instance.query("SELECT path, label, header_status FROM v$asm_disk ORDER BY 1");
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["path"], "AFD:DATA1");
        assert_eq!(rows[1]["label"], "DATA2");
        assert_eq!(rows[1]["header_status"], "PROVISIONED");
        let seen_from_outside = || {
            for (path, label) in paths.iter().zip(["DATA1", "DATA2"]) {
                assert_eq!(blkid(path, "TYPE"), "oracleasm");
                assert_eq!(blkid(path, "LABEL"), label);
                let listed = shell(r#"wipefs --noheadings "$1""#).arg(path).ok();
                assert!(listed.contains("oracleasm") && listed.contains(label), "{listed}");
            }
        };
        seen_from_outside();
        instance.sql(
            "CREATE DISKGROUP data NORMAL REDUNDANCY
             FAILGROUP a DISK 'AFD:DATA1' FAILGROUP b DISK 'AFD:DATA2'",
        );
        seen_from_outside();
        let rows = instance.query(
            "SELECT path, label FROM v$asm_disk_stat WHERE mount_status = 'CACHED' ORDER BY 1",
        );
        assert_eq!(rows[1]["path"], "AFD:DATA2");
        assert_eq!(rows[1]["label"], "DATA2");
        instance.check("DATA");
        instance.sql("DROP DISKGROUP data INCLUDING CONTENTS");
        let status = instance.text("SELECT header_status FROM v$asm_disk WHERE label = 'DATA1'");
        assert_eq!(status, "FORMER");
        instance.plinth(["afd_unlabel", "data1"]).ok();
        instance.plinth(["afd_unlabel", &paths[1]]).ok();
        assert_eq!(instance.number("SELECT count(*) FROM v$asm_disk"), 0.0);
    }
}

/// The devices of a group are attached in another order, with other names: it mounts, and its files
/// read right. A member's label is changed while it is mounted.
#[test]
fn a_group_is_found_by_labels_whatever_its_devices_are_called() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    for (name, text) in [("x", "ONE"), ("y", "TWO"), ("z", "THREE")] {
        let path = devices.add(name, 512);
        label(&instance, &[text, &path]).ok();
    }
    instance.sql("CREATE DISKGROUP data NORMAL REDUNDANCY DISK 'AFD:*'");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 1, 300);
    let said = instance.refused(&format!(
        "ALTER SYSTEM LABEL SET 'other' TO '{}'",
        devices.folder.join("z").display()
    ));
    assert!(said.contains("MIGRATE"), "{said}");
    let z = devices.folder.join("z");
    label(&instance, &["other", z.to_str().expect("a path"), "--rename"]).ok();
    let paths = "SELECT string_agg(path, ' ' ORDER BY path) FROM v$asm_disk";
    assert_eq!(instance.text(paths), "AFD:ONE AFD:OTHER AFD:TWO");
    blocks.must_read_right();
    let before = mount;
    instance.unmount(&before);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    devices.attach_in_another_order();
    instance.sql("ALTER DISKGROUP data MOUNT");
    let mount = instance.mount("DATA");
    assert_eq!(mount, before);
    assert_eq!(instance.text(paths), "AFD:ONE AFD:OTHER AFD:TWO");
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_disk WHERE name IS NOT NULL"), 3.0);
    blocks.must_read_right();
    instance.check("DATA");
}

/// The signature of another program is named, with its place, and no byte of the disk changes.
/// With --init the label is set, and nothing remains of it for other programs, at the end neither.
#[test]
fn a_disk_with_a_signature_is_refused_unchanged_or_taken_wholly() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    let path = devices.add("disk", 512);
    let file = devices.loops[0].file().to_owned();
    for (program, named) in [
        (r#"mkfs.ext4 -q -F -L pgdata "$1""#, &["ext4", "\"pgdata\"", "byte 1080"][..]),
        (r#"mkswap -q -L swapping "$1""#, &["swap", "\"swapping\"", "byte 4086"]),
        (r#"printf 'label: gpt\n,,L\n' | sfdisk -q "$1""#, &["GPT", "byte 512"]),
        (r#"printf 'label: dos\n,,L\n' | sfdisk -q "$1""#, &["MBR", "byte 510"]),
    ] {
        shell(r#"wipefs --all --quiet "$1""#).arg(&path).ok();
        shell(program).arg(&path).ok();
        let before = hash(&file);
        let said = label(&instance, &["data1", &path]).refused();
        assert!(said.starts_with("ASMCMD-9513: ASM disk label set operation failed."), "{said}");
        assert!(named.iter().all(|word| said.contains(word)), "{named:?} in {said}");
        assert_eq!(hash(&file), before, "{program}");
        label(&instance, &["data1", &path, "--init"]).ok();
        assert_eq!(blkid(&path, "TYPE"), "oracleasm");
        assert_eq!(blkid(&path, "PTTYPE"), "");
        let left = shell(r#"wipefs --noheadings --output TYPE "$1""#).arg(&path).ok();
        assert_eq!(left.trim(), "oracleasm", "{program}");
        instance.plinth(["afd_unlabel", "data1"]).ok();
        assert_eq!(blkid(&path, "TYPE"), "");
    }
}

/// Names that cannot be labels, labels that exist, devices in use and members of groups that are
/// not mounted are refused, each with its reason, and nothing is written.
#[test]
fn refusals_say_why_and_write_nothing() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    let paths = [devices.add("a", 512), devices.add("b", 512)];
    label(&instance, &["one", &paths[0]]).ok();
    let files: Vec<_> = devices.loops.iter().map(|disk| disk.file().to_owned()).collect();
    let before: Vec<String> = files.iter().map(|file| hash(file)).collect();
    let refused = |words: &[&str], reason: &str| {
        let said = label(&instance, words).refused();
        assert!(said.contains(reason), "{reason} in {said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
    };
    refused(&["a\u{1b}[2Jb", &paths[1]], r"\u{1b}");
    refused(&["1st", &paths[1]], "begins with a letter");
    refused(&["ABCDEFGHIJKLMNOPQRSTUVWXY", &paths[1]], "24 letters");
    refused(&["", &paths[1]], "cannot be a label");
    refused(&[&"L".repeat(100_000), &paths[1]], "LLL\" ... cannot be a label");
    refused(&["two", "/dev/\u{1b}[2J"], r"\u{1b}");
    refused(&["two", "/tmp"], "there is no disk");
    refused(&["one", &paths[1]], &paths[0]);
    refused(&["two", &paths[0]], "RENAME");
    refused(&["two", "/dev/null"], "/dev/null");
    shell(r#"mkfs.ext4 -q -F "$1""#).arg(&paths[1]).ok();
    let place = instance.path("mounted");
    fs::create_dir(&place).expect("a folder");
    shell(r#"mount "$1" "$2""#).arg(&paths[1]).arg(&place).ok();
    refused(&["two", &paths[1], "--init"], "mounted on");
    shell(r#"umount "$1"; wipefs --all --quiet "$2""#).arg(&place).arg(&paths[1]).ok();
    assert_eq!(hash(&files[0]), before[0]);
    instance.sql("CREATE DISKGROUP data EXTERNAL REDUNDANCY DISK 'AFD:ONE'");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let member = hash(&files[0]);
    refused(&["two", &paths[0], "--rename", "--migrate"], "not mounted");
    let said = instance.plinth(["afd_unlabel", "one"]).refused();
    assert!(said.contains("ASMCMD-9514") && said.contains("disk group DATA"), "{said}");
    assert_eq!(hash(&files[0]), member);
}

/// A label in a path is found in lower case too: in each statement, and in the shell.
#[test]
fn the_case_of_a_path_by_a_label_does_not_matter() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    for text in ["one", "two", "three", "four"] {
        let path = devices.add(text, 512);
        label(&instance, &[text, &path]).ok();
    }
    instance.sql("CREATE DISKGROUP data EXTERNAL REDUNDANCY DISK 'afd:o*' NAME a");
    instance.sql("ALTER DISKGROUP data ADD DISK 'Afd:two' NAME b REBALANCE WAIT");
    instance.sql("ALTER SYSTEM LABEL SET 'other' TO 'afd:Four' RENAME");
    assert_eq!(instance.plinth(["lsdsk", "--suppressheader", "afd:ot*"]).ok().trim(), "AFD:OTHER");
    instance.plinth(["afd_unlabel", "afd:three"]).ok();
    let paths = "SELECT string_agg(path, ' ' ORDER BY path) FROM v$asm_disk";
    assert_eq!(instance.text(paths), "AFD:ONE AFD:OTHER AFD:TWO");
    let said =
        instance.refused("ALTER DISKGROUP data ADD DISK 'afd:other', 'AFD:OTHER' REBALANCE WAIT");
    assert!(said.contains("twice"), "{said}");
    instance.check("DATA");
}

/// A scan of devices that match says what is wrong with their labels, and with no others; a pattern
/// that is none, or that matches nothing, is refused.
#[test]
fn a_scan_is_of_the_devices_that_match() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    let paths = ["a1", "b1", "b2"].map(|name| devices.add(name, 512));
    label(&instance, &["one", &paths[0]]).ok();
    label(&instance, &["two", &paths[2]]).ok();
    for place in [0, SIZE / 2, SIZE - 4096] {
        overwrite(Path::new(&paths[1]), place, &bytes(Path::new(&paths[0]), place, 4096));
    }
    let scan = |pattern: &str| instance.plinth(["afd_scan", pattern]);
    let folder = devices.folder.display();
    let all = instance.plinth(["afd_scan"]);
    assert_eq!((all.code, all.err.matches("the same label").count()), (Some(0), 2), "{all:?}");
    let some = scan(&format!("{folder}/%1"));
    assert_eq!((some.code, some.err.matches("the same label").count()), (Some(0), 2), "{some:?}");
    let one = scan(&format!("{folder}/b*,{folder}/x*"));
    assert_eq!((one.code, one.err.as_str()), (Some(0), ""), "{one:?}");
    let said = scan("[").refused();
    assert!(said.contains("\"[\"") && said.contains("pattern"), "{said}");
    let said = scan(&format!("{folder}/x*")).refused();
    assert!(said.contains("matches no disk"), "{said}");
}

/// A label is taken away by its name from a disk that only asm_diskstring shows: afd_label finds
/// it there, too, and refuses the label for another disk.
#[test]
fn a_label_outside_the_scan_is_taken_away_by_its_name() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    let other = devices.add("other", 512);
    let disk = instance.add_disk("f0d0", SIZE);
    let path = disk.to_str().expect("a path");
    instance.sql(&format!("ALTER SYSTEM SET asm_diskstring = 'AFD:*', '{path}'"));
    label(&instance, &["mem", path]).ok();
    let said = label(&instance, &["mem", &other]).refused();
    assert!(said.contains(path), "{said}");
    assert!(!instance.plinth(["afd_lslbl"]).ok().contains("MEM"));
    instance.plinth(["afd_unlabel", "mem"]).ok();
    let said = instance.plinth(["afd_unlabel", "mem"]).refused();
    assert!(said.contains("no disk has the label MEM") && said.contains("by its path"), "{said}");
    label(&instance, &["mem", &other]).ok();
}

/// A disk is replaced by one that the statement names in lower case.
#[test]
fn a_disk_is_replaced_by_a_label_in_lower_case() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    for text in ["one", "two", "three"] {
        let path = devices.add(text, 512);
        label(&instance, &[text, &path]).ok();
    }
    instance.sql("CREATE DISKGROUP data NORMAL REDUNDANCY DISK 'afd:one' NAME a, 'afd:two' NAME b");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK b");
    instance.sql("ALTER DISKGROUP data REPLACE DISK b WITH 'afd:three' POWER 4 WAIT");
    let path = instance.text("SELECT path FROM v$asm_disk WHERE name = 'B'");
    assert_eq!(path, "AFD:THREE");
    instance.check("DATA");
}

/// Two devices with one label: statements name both, and take neither, until one has another label.
#[test]
fn a_label_that_two_devices_have_means_neither() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    let paths = [devices.add("a", 512), devices.add("b", 512)];
    label(&instance, &["one", &paths[0]]).ok();
    // A snapshot of an array, presented to the same host.
    for place in [0, SIZE / 2, SIZE - 4096] {
        overwrite(Path::new(&paths[1]), place, &bytes(Path::new(&paths[0]), place, 4096));
    }
    for statement in [
        "CREATE DISKGROUP data EXTERNAL REDUNDANCY DISK 'AFD:ONE'",
        "ALTER SYSTEM LABEL CLEAR 'one'",
    ] {
        let said = instance.refused(statement);
        assert!(paths.iter().all(|path| said.contains(path.as_str())), "{said}");
    }
    let status = "SELECT count(*) FROM v$asm_disk WHERE header_status = 'CONFLICT'";
    assert_eq!(instance.number(status), 2.0);
    let listed = instance.plinth(["afd_lslbl"]).ok();
    assert_eq!(listed.matches("YES").count(), 2, "{listed}");
    label(&instance, &["other", &paths[1], "--rename"]).ok();
    instance.sql("CREATE DISKGROUP data EXTERNAL REDUNDANCY DISK 'AFD:ONE'");
    assert_eq!(instance.text("SELECT label FROM v$asm_disk WHERE name IS NULL"), "OTHER");
}

/// A labelled disk that loses its first block is found by another copy; one that gets a file system
/// is not.
#[test]
fn a_label_outlives_the_first_block_but_not_another_owner() {
    let instance = Instance::new();
    let mut devices = Devices::new(&instance);
    let path = devices.add("a", 512);
    label(&instance, &["one", &path]).ok();
    overwrite(Path::new(&path), 0, &[0; 4096]);
    assert_eq!(instance.text("SELECT path FROM v$asm_disk"), "AFD:ONE");
    shell(r#"mkfs.ext4 -q -F "$1""#).arg(&path).ok();
    assert_eq!(instance.number("SELECT count(*) FROM v$asm_disk"), 0.0);
}

/// A disk that is discovered by its label and by its path is one disk: the path is shown as one
/// that is not used. A mounted group's disks are labelled.
#[test]
fn a_device_with_a_label_and_a_path_is_one_disk() {
    let mut instance = Instance::new();
    let disk = instance.add_loop_disk("f0d0", SIZE, 512);
    let path = disk.to_str().expect("a path").to_owned();
    instance.create_group("data", "EXTERNAL", &[&[SIZE]], "");
    instance.sql(&format!("ALTER SYSTEM LABEL SET 'one' TO '{path}' MIGRATE"));
    instance.plinth(["afd_dsset", &path]).ok();
    assert_eq!(instance.text("SELECT path FROM v$asm_disk"), path);
    instance.sql(&format!("ALTER SYSTEM SET asm_diskstring = '{path}', 'AFD:*'"));
    let rows = instance.query("SELECT path, mount_status FROM v$asm_disk ORDER BY name IS NULL");
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["path"], &rows[0]["mount_status"]), (&"AFD:ONE".into(), &"CACHED".into()));
    assert_eq!(rows[1]["path"], path.as_str());
    assert_eq!(rows[1]["mount_status"], "IGNORED");
    instance.check("DATA");
}

/// Regular files get labels, if the scan names them. A statement that names a label which the
/// discovery string does not show is refused with the statement that makes it visible.
#[test]
fn a_file_gets_a_label_and_a_hint_makes_it_visible() {
    let instance = Instance::new();
    let file = instance.path("parts").join("file");
    fs::File::create(&file).and_then(|file| file.set_len(SIZE)).expect("a file");
    let path = file.to_str().expect("a path").to_owned();
    instance.plinth(["afd_dsset", &path]).ok();
    assert_eq!(instance.plinth(["afd_dsget"]).ok(), format!("AFD discovery string: {path}\n"));
    label(&instance, &["one", &path]).ok();
    let create = "CREATE DISKGROUP data EXTERNAL REDUNDANCY DISK 'AFD:ONE'";
    let said = instance.refused(create);
    let hint = said.lines().find(|line| line.contains("ALTER SYSTEM SET")).expect("a hint");
    instance.sql(hint.trim());
    instance.sql(create);
    assert_eq!(instance.text("SELECT path FROM v$asm_disk"), "AFD:ONE");
    instance.check("DATA");
}

/// The rules for udev: by udev's own verifier if it is installed; each line is a list of
/// comparisons and assignments, and each jump has its label.
#[test]
fn the_udev_rules_are_well_formed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../units/61-plinth.rules");
    let script = r#"
        command -v udevadm > /dev/null || exit 0
        udevadm verify --help > /dev/null 2>&1 || exit 0
        udevadm verify --no-style "$1"
    "#;
    shell(script).arg(&path).ok();
    let text = fs::read_to_string(&path).expect("the rules");
    let part = regex::Regex::new(r#"^([A-Z]+)(\{[A-Z_]+\})?(==|!=|\+=|=)"([^"]*)"$"#);
    let part = part.expect("an expression");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut values = Vec::new();
    for piece in lines.flat_map(|line| line.split(", ")) {
        let found =
            part.captures(piece).unwrap_or_else(|| panic!("{piece:?} is no part of a rule"));
        values.push((found[1].to_owned(), found[4].to_owned()));
    }
    let of = |key: &str| -> Vec<&String> {
        values.iter().filter(|(name, _)| name == key).map(|(_, value)| value).collect()
    };
    assert_eq!(of("SYMLINK"), ["plinth/$env{ID_FS_LABEL_ENC}"]);
    assert!(of("GOTO").len() > 3 && of("GOTO").iter().all(|name| of("LABEL").contains(name)));
}
