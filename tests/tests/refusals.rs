//! Refusals: each has a message that names the object and the remedy, and does no harm.

use plinth_tests::{Blocks, GIB, Instance, MIB, bytes, header_places, overwrite, shell, wait_for};
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

fn group() -> Instance {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance
}

/// The message has all of the words.
#[track_caller]
fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.to_lowercase().contains(&word.to_lowercase()), "no {word:?} in: {message}");
    }
}

fn create(paths: &[&Path]) -> String {
    let list: Vec<_> = paths.iter().map(|path| format!("'{}'", path.display())).collect();
    format!("CREATE DISKGROUP other EXTERNAL REDUNDANCY DISK {}", list.join(", "))
}

/// Statements that are not quite right are marked at the place of the error.
#[test]
fn a_syntax_error_points_at_its_place() {
    let instance = group();
    for (statement, word) in [
        ("ALTER DISKGROUP data OFFLIN DISK x", "OFFLIN"),
        ("CREATE DISKGROUP x NORML REDUNDANCY DISK '/x'", "NORML"),
        ("SELECT name FRM v$asm_disk WHERE", "WHERE"),
        ("CREATE DISKGROUP x NORMAL REDUNDANCY DISK '/unfinished", "unfinished"),
        ("DROP DISKGROUP", ""),
        ("ALTER DISKGROUP data ONLINE DISKS IN FAILGROUP", ""),
        ("FROBNICATE", "FROBNICATE"),
    ] {
        let said = shell(r#"psql -X -h "$1" -v ON_ERROR_STOP=1 -c "$2""#)
            .arg(instance.dir())
            .arg(statement)
            .finish();
        let said = said.refused();
        assert!(
            said.contains("LINE 1:") && said.contains('^') && said.contains(word),
            "{statement}: {said}"
        );
    }
}

/// Names of objects that do not exist.
#[test]
fn objects_that_do_not_exist_are_named() {
    let instance = group();
    says(&instance.refused(&create(&["/nowhere/at/all".as_ref()])), &["/nowhere/at/all"]);
    says(&instance.refused("ALTER DISKGROUP nix MOUNT"), &["NIX"]);
    says(&instance.refused("ALTER DISKGROUP data OFFLINE DISK nix"), &["NIX"]);
    says(&instance.refused("ALTER DISKGROUP data OFFLINE DISKS IN FAILGROUP nix"), &["NIX"]);
    says(&instance.refused("DROP DISKGROUP nix"), &["NIX"]);
    says(&instance.refused("SELECT * FROM v$asm_nix"), &["v$asm_nix"]);
    says(&instance.plinth(["mount", "NIX", "/tmp"]).refused(), &["NIX"]);
}

/// A discovery string that hides a disk of a mounted group is refused and changes nothing: the next
/// mount would miss the disk.
#[test]
fn a_string_that_hides_a_mounted_disk_is_refused() {
    let instance = group();
    let shown = || instance.text("SELECT count(*) FROM v$asm_disk WHERE mode_status = 'ONLINE'");
    let (before, string) = (shown(), instance.query("SHOW asm_diskstring"));
    let nowhere = "ALTER SYSTEM SET asm_diskstring = '/nosuch/*'";
    let refused = instance.refused(nowhere);
    says(&refused, &["/nosuch/*", "does not show", "DATA", "ORA-15014", "are mounted"]);
    // All of them, in the refused pattern and in the one that would do.
    for disk in ["f0d0", "f1d0"].map(|name| instance.disk(name).display().to_string()) {
        assert_eq!(refused.matches(&disk).count(), 2, "{disk}: {refused}");
    }
    let one = format!("ALTER SYSTEM SET asm_diskstring = '{}'", instance.disk("f0d0").display());
    says(&instance.refused(&one), &["does not show", "DATA"]);
    assert_eq!((shown(), instance.query("SHOW asm_diskstring")), (before, string));
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    instance.sql(nowhere);
}

/// Disks that are in use, or no use: a member of a mounted group, one of a dismounted group, an
/// ext4, an LVM volume, one that is too small, one that is open elsewhere.
#[test]
fn disks_in_use_are_not_taken() {
    let mut instance = group();
    let member = instance.disk("f0d0");
    says(&instance.refused(&create(&[&member])), &["f0d0", "DATA"]);
    says(&instance.refused(&format!("{} FORCE", create(&[&member]))), &["f0d0", "DATA"]);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    says(&instance.refused(&create(&[&member])), &["f0d0", "DATA", "FORCE"]);
    instance.sql("ALTER DISKGROUP data MOUNT");

    let ext4 = instance.add_disk("ext4", 256 * MIB);
    shell(r#"mkfs.ext4 -q "$1""#).arg(&ext4).ok();
    says(&instance.refused(&create(&[&ext4])), &["ext4", "FORCE"]);
    assert_eq!(instance.disk_row(&ext4)["header_status"], "FOREIGN");

    let lvm = instance.add_loop_disk("lvm", 256 * MIB, 512);
    shell(r#"pvcreate -q -y --config 'devices { use_devicesfile = 0 }' "$1" >/dev/null"#)
        .arg(fs::read_link(&lvm).expect("link"))
        .ok();
    says(&instance.refused(&create(&[&lvm])), &["lvm", "FORCE"]);

    let mounted = instance.add_loop_disk("mounted", 256 * MIB, 512);
    let point = instance.path("mnt").join("ext4");
    fs::create_dir(&point).expect("mkdir");
    shell(r#"mkfs.ext4 -q "$1"; mount "$1" "$2""#).arg(&mounted).arg(&point).ok();
    let said = instance.refused(&format!("{} FORCE", create(&[&mounted])));
    shell(r#"umount "$1"; fsck.ext4 -n -f "$2" >/dev/null"#).arg(&point).arg(&mounted).ok();
    says(&said, &["mounted"]);

    // The file behind a loop device is refused as that device is.
    let back = instance.path("parts").join("mounted");
    std::os::unix::fs::symlink(&back, instance.disk("back")).expect("link");
    says(
        &instance.refused(&format!("{} FORCE", create(&[&instance.disk("back")]))),
        &["back", "/dev/loop"],
    );

    let small = instance.add_disk("small", 3 * MIB);
    says(&instance.refused(&create(&[&small])), &["small", "MB"]);
    let twice = instance.add_disk("twice", 256 * MIB);
    says(&instance.refused(&create(&[&twice, &twice])), &["twice"]);
}

/// With FORCE a disk with something else on it is taken.
#[test]
fn force_takes_what_is_not_in_use() {
    let instance = Instance::new();
    let ext4 = instance.add_disk("ext4", 256 * MIB);
    shell(r#"mkfs.ext4 -q "$1""#).arg(&ext4).ok();
    instance.sql(&format!("{} FORCE", create(&[&ext4])));
    assert_eq!(instance.disk_row(&ext4)["header_status"], "MEMBER");
}

/// A disk that was used whole once and is now used in part: records of the first group that are
/// left on it are not believed.
#[test]
fn a_part_of_a_disk_that_was_used_whole() {
    let instance = Instance::new();
    let disk = instance.add_disk("reused", 256 * MIB);
    let whole = create(&[&disk]);
    for size in ["", " SIZE 128M", " SIZE 200M", "", " SIZE 100M"] {
        instance.sql(&format!("{whole}{size}"));
        let row = instance.disk_row(&disk);
        assert_eq!(
            (&row["header_status"], &row["mode_status"]),
            (&"MEMBER".into(), &"ONLINE".into()),
            "{size}: {row:?}"
        );
        instance.sql("ALTER DISKGROUP other DISMOUNT");
        instance.sql("ALTER DISKGROUP other MOUNT");
        instance.sql("DROP DISKGROUP other");
        assert_eq!(instance.disk_row(&disk)["header_status"], "FORMER", "{size}");
    }
}

/// Too few failure groups, names twice, redundancy that does not fit.
#[test]
fn groups_of_an_impossible_shape_are_refused() {
    let instance = Instance::new();
    let (a, b) = (instance.add_disk("a", 256 * MIB), instance.add_disk("b", 256 * MIB));
    let (a, b) = (a.display(), b.display());
    for (statement, words) in [
        (
            format!("CREATE DISKGROUP x NORMAL REDUNDANCY FAILGROUP f DISK '{a}', '{b}'"),
            &["failure group", "2"][..],
        ),
        (format!("CREATE DISKGROUP x HIGH REDUNDANCY DISK '{a}', '{b}'"), &["failure group", "3"]),
        (format!("CREATE DISKGROUP x NORMAL REDUNDANCY DISK '{a}' NAME n, '{b}' NAME n"), &["N"]),
        (format!("CREATE DISKGROUP x EXTERNAL REDUNDANCY FAILGROUP f DISK '{a}'"), &["failgroup"]),
        (
            format!(
                "CREATE DISKGROUP x NORMAL REDUNDANCY DISK '{a}', '{b}' ATTRIBUTE 'au_size' = '3M'"
            ),
            &["au_size"],
        ),
        (
            format!("CREATE DISKGROUP x NORMAL REDUNDANCY DISK '{a}', '{b}' ATTRIBUTE 'nix' = '3'"),
            &["nix"],
        ),
        (format!("CREATE DISKGROUP x NORMAL REDUNDANCY DISK '{a}' SIZE 900G, '{b}'"), &["a"]),
    ] {
        says(&instance.refused(&statement), words);
    }
    instance.sql(&format!("CREATE DISKGROUP x NORMAL REDUNDANCY DISK '{a}', '{b}'"));
    let c = instance.add_disk("c", 256 * MIB);
    says(
        &instance
            .refused(&format!("CREATE DISKGROUP x EXTERNAL REDUNDANCY DISK '{}'", c.display())),
        &["X"],
    );
}

/// The programs that keep a mount busy are named; where there are none, the unmount waits for a
/// moment, as for a program that is just ending.
#[test]
fn a_mount_in_use_is_not_unmounted() {
    let instance = Instance::new();
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    let mount = instance.mount("DATA");
    let inner = mount.join("inner");
    std::fs::create_dir(&inner).expect("made");
    let umount = || instance.plinth(["umount".as_ref(), mount.as_os_str()]);
    let file = std::fs::File::create(mount.join("file")).expect("made");
    let refused = umount();
    let own = format!("(pid {})", std::process::id());
    assert!(refused.code == Some(1) && refused.err.contains(&own), "{refused}");
    drop(file);
    shell(r#"mount -t tmpfs none "$1""#).arg(&inner).ok();
    let refused = umount();
    assert!(
        refused.code == Some(1) && refused.err.contains("cannot be seen from here"),
        "{refused}"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            shell(r#"umount "$1""#).arg(&inner).ok();
        });
        umount().ok();
    });
}

/// Disk files that have changed: no disk at all, cut short, of another group, of a later version,
/// copied. Discovery says what each is, the group mounts if it can do without, and foreign bytes
/// are not touched.
#[test]
fn strange_disks_are_recognised() {
    /// Of the block of a header.
    const VERSION: u32 = 2;
    let instance = Instance::new();
    let shape: &[&[u64]] = &[&[256 * MIB], &[256 * MIB], &[256 * MIB]];
    instance.create_group("data", "NORMAL", shape, "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 1, 500);
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let disk = instance.disk("f2d0");
    let keep = instance.path("keep");
    shell(r#"cp --sparse=always "$1" "$2""#).arg(&disk).arg(&keep).ok();
    let restore = || shell(r#"cp --sparse=always "$1" "$2""#).arg(&keep).arg(&disk).ok();
    let mounts_without = |what: &str| {
        let answer = instance.plinth(["sql", "-c", "ALTER DISKGROUP data MOUNT"]);
        assert!(answer.code == Some(0), "{what}: {answer}");
        let mount = instance.mount("DATA");
        blocks.must_read_right();
        instance.unmount(&mount);
        instance.sql("ALTER DISKGROUP data DISMOUNT");
    };

    // Not a disk: a picture of a cat.
    fs::write(instance.disk("cat.jpg"), vec![0x5a; 12_345]).expect("write");
    mounts_without("a file that is no disk");
    assert_ne!(instance.disk_row(&instance.disk("cat.jpg"))["header_status"], "MEMBER");
    fs::create_dir(instance.disk("folder")).expect("mkdir");
    shell(r#"mkfifo "$1""#).arg(instance.disk("fifo")).ok();
    mounts_without("a folder and a FIFO among the disks");

    // Every header of a later version.
    for place in header_places(&disk) {
        overwrite(&disk, place + 8, &99_u32.to_le_bytes());
    }
    assert_eq!(instance.disk_row(&disk)["header_status"], "INCOMPATIBLE");
    mounts_without("a header of a later version");
    // One more is too many; the refusal names the visible disks, and why they are no use.
    for place in header_places(&instance.disk("f1d0")) {
        overwrite(&instance.disk("f1d0"), place + 8, &(VERSION + 1).to_le_bytes());
    }
    says(
        &instance.refused("ALTER DISKGROUP data MOUNT"),
        &["DATA_0001", "f1d0", "INCOMPATIBLE", "format version 3"],
    );
    for place in header_places(&instance.disk("f0d0")) {
        overwrite(&instance.disk("f0d0"), place + 8, &(VERSION + 1).to_le_bytes());
    }
    says(
        &instance.refused("ALTER DISKGROUP data MOUNT"),
        &["DATA", "f0d0", "format version 3", "use a newer"],
    );
    for name in ["f0d0", "f1d0"] {
        for place in header_places(&instance.disk(name)) {
            overwrite(&instance.disk(name), place + 8, &VERSION.to_le_bytes());
        }
    }
    restore();

    // Cut short.
    fs::File::options()
        .write(true)
        .open(&disk)
        .and_then(|file| file.set_len(100 * MIB))
        .expect("truncate");
    mounts_without("a truncated disk");
    assert_eq!(fs::metadata(&disk).expect("stat").len(), 100 * MIB);
    restore();

    // A clone: two devices with one identity. Neither is used.
    shell(r#"cp --sparse=always "$1" "$2""#).arg(&disk).arg(instance.disk("clone")).ok();
    mounts_without("a clone of a disk");
    fs::remove_file(instance.disk("clone")).expect("remove");
    instance.sql("ALTER DISKGROUP data MOUNT");
    instance.plinth(["sql", "-c", "ALTER DISKGROUP data ONLINE ALL"]);
    instance.wait_until_whole("DATA");
    let mount = instance.mount("DATA");
    blocks.must_read_right();
    instance.check("DATA");
    instance.unmount(&mount);
}

/// A disk of another group that has the place of ours is not written.
#[test]
fn another_groups_disk_is_left_alone() {
    let instance = group();
    instance.add_disk("other", 256 * MIB);
    instance.sql(&create(&[&instance.disk("other")]));
    instance.sql("ALTER DISKGROUP other DISMOUNT");
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    let image = |path: &Path| shell(r#"sha256sum < "$1""#).arg(path).ok();
    fs::rename(instance.disk("f1d0"), instance.path("away")).expect("hide");
    fs::rename(instance.disk("other"), instance.disk("f1d0")).expect("swap");
    let before = image(&instance.disk("f1d0"));
    let answer = instance.plinth(["sql", "-c", "ALTER DISKGROUP data MOUNT FORCE"]);
    if answer.code == Some(0) {
        instance.sql("ALTER DISKGROUP data DISMOUNT");
    }
    assert_eq!(before, image(&instance.disk("f1d0")), "another group's disk was written");
}

/// The catalog is noise on every disk: an error that says so, and nothing written.
#[test]
fn a_catalog_without_a_good_page_is_reported() {
    let instance = group();
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    for name in ["f0d0", "f1d0"] {
        let disk = instance.disk(name);
        let header_au = 128 / 4;
        for au in (2..63).filter(|au| *au != header_au) {
            plinth_tests::noise(&disk, au * 4 * MIB, 256 << 10);
        }
    }
    let said = instance.refused("ALTER DISKGROUP data MOUNT");
    says(&said, &["catalog"]);
    let disks = [instance.disk("f0d0"), instance.disk("f1d0")];
    let checked = instance.plinth(["check".as_ref(), disks[0].as_os_str(), disks[1].as_os_str()]);
    assert_eq!(checked.code, Some(2), "{checked}");
    instance.plinth(["dump".as_ref(), disks[0].as_os_str()]).ok();
}

/// A mount that was refused is refused again at once, for the same reason: no engine that is ending
/// answers.
#[test]
fn a_refused_mount_is_refused_for_its_reason_each_time() {
    let instance = group();
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    fs::rename(instance.disk("f0d0"), instance.path("away")).expect("hide");
    let said = shell(
        r#"for i in {1..200}; do echo 'ALTER DISKGROUP data MOUNT;'; done | psql -X -h "$1" 2>&1"#,
    )
    .arg(instance.dir())
    .ok();
    let reasons = said.lines().filter(|line| line.contains("ERROR")).collect::<Vec<_>>();
    assert_eq!(reasons.len(), 200, "{said}");
    let other: Vec<_> = reasons.iter().filter(|reason| !reason.contains("1 of 2 voters")).collect();
    assert!(other.is_empty(), "{} of 200 have another reason: {}", other.len(), other[0]);
}

/// Noise over both areas of records of all disks: no group, no panic.
#[test]
fn noise_in_the_system_areas_ends_in_a_refusal() {
    let instance = group();
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    for name in ["f0d0", "f1d0"] {
        let disk = instance.disk(name);
        for header in [0, header_places(&disk)[1]] {
            plinth_tests::noise(&disk, header + 4096, (1 << 20) - 4096);
        }
    }
    says(&instance.refused("ALTER DISKGROUP data MOUNT"), &["DATA"]);
    for name in ["f0d0", "f1d0"] {
        instance.plinth(["dump".as_ref(), instance.disk(name).as_os_str()]);
        assert!(bytes(&instance.disk(name), 0, 8) == b"PLINTHDK");
    }
}

/// Clients that send garbage, stop in the middle, promise a gigabyte, or only hold the connection:
/// each is disconnected or waits alone, and others are served.
#[test]
fn a_client_that_sends_garbage_disturbs_no_other() {
    let instance = group();
    let mut held = Vec::new();
    for entry in fs::read_dir(instance.dir()).expect("list").flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !(name.ends_with(".sock") || name.starts_with(".s.PGSQL")) || name.ends_with(".lock") {
            continue;
        }
        let sayings: Vec<Vec<u8>> = vec![
            vec![],
            vec![0],
            vec![0xff; 4096],
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            1_u32.to_be_bytes().to_vec(),
            0x4000_0000_u32.to_be_bytes().to_vec(),
            0x7fff_ffff_u32.to_le_bytes().to_vec(),
            [&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()[..]].concat(),
            [&9_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes()[..], b"u"].concat(),
            [&8_u32.to_be_bytes()[..], &99_999_u32.to_be_bytes()[..], b"x"].concat(),
        ];
        for saying in sayings {
            let mut client =
                UnixStream::connect(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            let _ = client.write_all(&saying);
            client.set_read_timeout(Some(Duration::from_millis(100))).expect("timeout");
            let _ = client.read(&mut [0; 64]);
            held.push(client);
        }
        assert_eq!(
            instance.text("SELECT state FROM v$asm_diskgroup"),
            "MOUNTED",
            "after nonsense on {name}"
        );
    }
    assert!(!held.is_empty());
    drop(held);
    instance.sql("SELECT 1");
    assert!(!instance.read("serve.log").contains("panicked"), "{}", instance.read("serve.log"));
}

/// A message on a socket between our own processes.
fn say(client: &mut UnixStream, head: &serde_json::Value, body: &[u8]) {
    let head = head.to_string();
    let lengths =
        [head.len(), body.len()].map(|length| u32::try_from(length).expect("short").to_le_bytes());
    client
        .write_all(&[&lengths.concat(), head.as_bytes(), body].concat())
        .unwrap_or_else(|error| panic!("{head}: {error}"));
}

/// The head of the answer; `None` if the other side has ended the connection.
fn hear(client: &mut UnixStream) -> Option<serde_json::Value> {
    let mut lengths = [0; 8];
    client.read_exact(&mut lengths).ok()?;
    let [a, b, c, d, e, f, g, h] = lengths;
    let mut head = vec![0; u32::from_le_bytes([a, b, c, d]) as usize];
    client.read_exact(&mut head).ok()?;
    client.read_exact(&mut vec![0; u32::from_le_bytes([e, f, g, h]) as usize]).ok()?;
    Some(serde_json::from_slice(&head).expect("JSON"))
}

/// Messages on an engine's socket that are right but for numbers, of which each is tried as large
/// and as small as it can be, and beyond: each is answered, or ends its connection, and the engine
/// goes on.
#[test]
fn an_engine_survives_any_numbers() {
    let instance = group();
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 1, 500);
    let node = fs::metadata(mount.join("file"))
        .map(|file| std::os::unix::fs::MetadataExt::ino(&file))
        .expect("a file");
    let engine = instance.engine("DATA");
    let numbers = [
        "0",
        "1",
        "4095",
        "2147483648",
        "4294967295",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "-1",
        "1.5",
    ];
    let requests = [
        (r#"{"Read":{"node":@,"offset":#,"length":4096}}"#, &[][..]),
        (r#"{"Read":{"node":@,"offset":4096,"length":#}}"#, &[]),
        (r#"{"Read":{"node":#,"offset":0,"length":4096}}"#, &[]),
        (r#"{"Write":{"node":#,"offset":0}}"#, &[7; 100]),
        (r#"{"Sync":{"node":#}}"#, &[]),
        (r#"{"List":{"path":"/","after":#}}"#, &[]),
        (r#"{"Make":{"path":"/made","mode":#,"uid":0,"gid":0}}"#, &[]),
        (r#"{"Make":{"path":"/made","mode":384,"uid":#,"gid":#}}"#, &[]),
        (r#"{"MakeDirectory":{"path":"/directory","mode":#,"uid":#,"gid":#}}"#, &[]),
        (r#"{"Rebalance":{"power":#,"phases":null}}"#, &[]),
        (r#"{"Online":{"which":"All","power":#}}"#, &[]),
        (r#"{"Offline":{"which":{"Disks":["nosuch"]},"drop_after":#}}"#, &[]),
        (
            r##"{"Volume":{"Add":{"name":"V#","size":#,"mirrors":null,"stripe_width":131072,"stripe_columns":8}}}"##,
            &[],
        ),
        (
            r##"{"Volume":{"Add":{"name":"W#","size":16777216,"mirrors":#,"stripe_width":131072,"stripe_columns":8}}}"##,
            &[],
        ),
        (
            r##"{"Volume":{"Add":{"name":"X#","size":16777216,"mirrors":null,"stripe_width":#,"stripe_columns":#}}}"##,
            &[],
        ),
        (r#"{"Volume":{"Resize":{"name":"V1","size":#}}}"#, &[]),
        (r##"{"SetAttribute":{"name":"disk_repair_time","value":"#"}}"##, &[]),
        (r#"{"GiveUp":#}"#, &[]),
        (r#"{"Serve":{"mount_point":"/nosuch","connection":#,"how":"New"}}"#, &[]),
    ];
    let (mut answered, mut ended) = (0, 0);
    for (request, body) in requests {
        for number in numbers {
            let request = request.replace('@', &node.to_string()).replace('#', number);
            let Ok(request) = serde_json::from_str(&request) else { panic!("{request}") };
            let mut client = UnixStream::connect(instance.dir().join("engine.DATA.sock"))
                .expect("the engine listens");
            client.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            let greeting = hear(&mut client).expect("a greeting");
            say(&mut client, &greeting, &[]);
            say(&mut client, &request, body);
            match hear(&mut client) {
                Some(_) => answered += 1,
                None => ended += 1,
            }
            assert_eq!(
                instance.engine("DATA"),
                engine,
                "after {request}:\n{}",
                instance.alert_log()
            );
        }
    }
    println!("{answered} answered, {ended} ended");
    assert!(answered > 100, "{answered} answered, {ended} ended");
    blocks.must_read_right();
    instance.wait_until_whole("DATA");
    instance.check("DATA");
}

/// Subscribers to an engine's events, such as instances that end, are forgotten when they are gone:
/// the next has a place.
#[test]
fn a_subscriber_that_is_gone_holds_no_place() {
    let instance = group();
    let socket = instance.dir().join("engine.DATA.sock");
    for number in 0..200 {
        wait_for(&format!("a place for watcher {number}"), || {
            let mut client = UnixStream::connect(&socket).expect("the engine listens");
            client.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            let Some(greeting) = hear(&mut client) else { return false };
            say(&mut client, &greeting, &[]);
            say(&mut client, &serde_json::json!("Watch"), &[]);
            hear(&mut client).is_some()
        });
    }
    instance.sql("ALTER DISKGROUP data CHECK");
}

/// Clients that are connected and idle, as connection pools hold them, keep no other client out.
#[test]
fn hundreds_of_idle_clients_disturb_no_other() {
    let instance = group();
    let startup =
        [&16_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes()[..], b"user\0x\0\0"].concat();
    let socket = instance.dir().join(".s.PGSQL.5432");
    let mut held = Vec::new();
    for at in 0..250 {
        let mut client =
            UnixStream::connect(&socket).unwrap_or_else(|error| panic!("client {at}: {error}"));
        client.write_all(&startup).expect("write");
        let mut first = [0];
        client.read_exact(&mut first).expect("read");
        assert_eq!(first, *b"R", "client {at} is let in");
        held.push(client);
    }
    shell(r#"psql -X -h "$1" -c 'SELECT 1'"#).arg(instance.dir()).ok();
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup"), "MOUNTED");
}

/// Users other than root and the instance's own do not administer, and do not look unless they have
/// the right.
#[test]
fn other_users_do_not_administer() {
    let instance = group();
    let said = shell(r#"runuser -u nobody -- psql -X -h "$1" -c "ALTER DISKGROUP data DISMOUNT""#)
        .arg(instance.dir())
        .finish()
        .refused();
    assert!(said.to_lowercase().contains("permi"), "{said}");
    assert_eq!(instance.text("SELECT state FROM v$asm_diskgroup"), "MOUNTED");
}

/// Mount points that cannot be used.
#[test]
fn a_mount_point_must_be_an_empty_folder() {
    let instance = group();
    let full = instance.path("full");
    fs::create_dir(&full).expect("mkdir");
    fs::write(full.join("something"), "x").expect("write");
    let mount =
        |point: &Path| instance.plinth(["mount".as_ref(), "DATA".as_ref(), point.as_os_str()]);
    says(&mount(&full).refused(), &["full", "empty"]);
    says(&mount(&full.join("something")).refused(), &["something"]);
    says(&mount(&full.join("missing")).refused(), &["missing"]);
    assert!(full.join("something").exists());
    let point = instance.mount("DATA");
    mount(&point).refused();
    // A group whose files are in use stays; one that is only mounted goes, and its mount with it.
    let held = fs::File::create(point.join("held")).expect("create");
    says(&instance.refused("ALTER DISKGROUP data DISMOUNT"), &["DATA", "FORCE"]);
    assert!(point.join("held").exists());
    drop(held);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    assert!(!point.join("held").exists());
}

/// Two instances find the same disks. The first holds them; the second is refused, and can
/// neither mount, drop nor overwrite.
#[test]
fn two_engines_on_the_same_disks() {
    let instance = group();
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 1, 200);
    let second = Instance::new();
    for name in ["f0d0", "f1d0"] {
        std::os::unix::fs::symlink(instance.disk(name), second.disk(name)).expect("link");
    }
    // The holder is reported, once.
    let refused = second.refused("ALTER DISKGROUP data MOUNT");
    let engine = instance.engine("DATA").expect("it runs");
    says(
        &refused,
        &[
            "DATA",
            &format!("process {engine}, the engine of DATA"),
            &instance.dir().display().to_string(),
        ],
    );
    assert_eq!(refused.matches("is held by").count(), 1, "{refused}");
    says(&second.refused("ALTER DISKGROUP data MOUNT FORCE"), &["DATA"]);
    let state = |instance: &Instance| {
        instance.text("SELECT state FROM v$asm_diskgroup WHERE name = 'DATA'")
    };
    assert_eq!((state(&instance), state(&second)), ("MOUNTED".to_owned(), "ELSEWHERE".to_owned()));
    second.refused("DROP DISKGROUP data INCLUDING CONTENTS");
    second.refused(&format!("{} FORCE", create(&[&second.disk("f0d0")])));
    let said =
        second.plinth(["check".as_ref(), "--repair".as_ref(), second.disk("f0d0").as_os_str()]);
    assert_ne!(said.code, Some(0), "{said}");
    blocks.must_read_right();
    instance.check("DATA");
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    assert_eq!(
        (state(&instance), state(&second)),
        ("DISMOUNTED".to_owned(), "DISMOUNTED".to_owned())
    );
    // A second instance in the same directory is refused too.
    let same = instance.plinth(["serve"]).refused();
    says(&same, &["run"]);
}

/// A disk that is given back too small, after the group used it whole.
#[test]
fn a_disk_that_shrank_is_not_trusted() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[GIB], &[GIB]], "");
    let mount = instance.mount("DATA");
    let blocks = Blocks::new(mount.join("file"), 1, 2_000);
    instance.unmount(&mount);
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    fs::File::options()
        .write(true)
        .open(instance.disk("f1d0"))
        .and_then(|file| file.set_len(GIB / 2))
        .expect("cut");
    let answer = instance.plinth(["sql", "-c", "ALTER DISKGROUP data MOUNT"]);
    if answer.code != Some(0) {
        assert!(answer.refused().contains("FORCE"));
        instance.sql("ALTER DISKGROUP data MOUNT FORCE");
    }
    assert_eq!(instance.offline_disks("DATA"), 1.0);
    instance.mount("DATA");
    blocks.must_read_right();
}
