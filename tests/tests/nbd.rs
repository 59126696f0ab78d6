//! Files and volumes as block devices, used by clients of other projects.

use plinth_tests::{Authority, Instance, MIB, Manager, noise, scaled, shell, wait_for};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::{fs::FileExt, net::UnixStream},
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::Duration,
};

/// The line of `plinth nbd` that says where clients find it.
#[track_caller]
fn export(instance: &Instance, arguments: &[&str]) -> String {
    instance.plinth(["nbd"].iter().chain(arguments)).ok().trim().to_owned()
}

fn group(instance: &Instance) {
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[512 * MIB]], "");
}

/// A file of noise in the test's own directory.
fn random(instance: &Instance, name: &str, length: usize) -> PathBuf {
    let path = instance.path(name);
    fs::write(&path, []).expect("a file");
    noise(&path, 0, length);
    path
}

#[track_caller]
fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    shell(r#"nbdcopy "$1" "$2""#).arg(from.as_ref()).arg(to.as_ref()).ok();
}

/// A port that no program listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port()
}

/// A volume and a file are copied in and out, mapped, trimmed and written by clients; the mount
/// shows the same bytes.
#[test]
fn clients_read_what_they_and_others_wrote() {
    let instance = Instance::new();
    group(&instance);
    let mount = instance.mount("DATA");
    instance.plinth(["volcreate", "-G", "data", "-s", "32M", "vol1"]).ok();
    let volume = export(&instance, &["vol1"]);
    let source = random(&instance, "source", 32 << 20);
    copy(&source, &volume);
    copy(&volume, instance.path("back"));
    assert!(fs::read(&source).expect("read") == fs::read(instance.path("back")).expect("read"));
    let shown = mount.join(".volumes/VOL1");
    assert!(fs::read(&source).expect("read") == fs::read(shown).expect("read"));

    fs::write(mount.join("disk.img"), vec![7; 1 << 20]).expect("write");
    shell(r#"truncate -s 16M "$1/disk.img""#).arg(&mount).ok();
    let file = export(
        &instance,
        &["+data/DISK.IMG", "--socket", &instance.path("sock").display().to_string()],
    );
    let said = shell(
        r#"export U="$1"; nbdinfo "$U"; nbdinfo --size "$U"; nbdinfo --map --totals "$U"; nbdinfo --list "${U/disk.img/}"
           for c in write flush fua trim zero cache df multi-conn structured; do nbdinfo --can $c "$U" || echo "cannot $c"; done
           qemu-io -f raw -c 'read -P 7 0 1M' -c 'read -P 0 1M 1M' -c 'discard 0 128k' -c 'write -P 9 3M 4k' \
               -c 'write -z 64k 4k' -c flush -c 'read -P 0 0 128k' -c 'read -P 7 128k 64k' "$U" | tee /dev/stderr | (! grep -i fail)"#,
    )
    .arg(&file)
    .ok();
    assert!(said.contains("16777216") && !said.contains("cannot"), "{said}");
    assert_eq!(
        fs::read(mount.join("disk.img")).expect("read")[3 << 20..][..4097],
        [vec![9; 4096], vec![0]].concat()
    );
    // Writes of the mount are seen by a client, too.
    shell(r#"printf hello | dd of="$1/disk.img" bs=1 seek=5000000 conv=notrunc status=none"#)
        .arg(&mount)
        .ok();
    copy(&file, instance.path("back"));
    assert_eq!(&fs::read(instance.path("back")).expect("read")[5_000_000..][..5], b"hello");

    let listed = instance.plinth(["nbd"]).ok();
    assert!(
        listed.contains("+DATA/.volumes/VOL1") && listed.contains("+DATA/disk.img"),
        "{listed}"
    );
    let said = instance.refused("ALTER DISKGROUP data DROP VOLUME vol1");
    assert!(said.contains("nbd --stop"), "{said}");
    instance.plinth(["nbd", "--stop", "vol1"]).ok();
    shell(r#"! nbdinfo "$1""#).arg(&volume).ok();
    instance.plinth(["nbd", "--stop", "vol1"]).refused();
    instance.check("DATA");
}

/// An export that cannot be made is refused with a reason; a file or export that clients use is not
/// taken away without FORCE.
#[test]
fn exports_in_use_stay_and_invalid_ones_are_refused() {
    let instance = Instance::new();
    group(&instance);
    let mount = instance.mount("DATA");
    fs::create_dir(mount.join("dir")).expect("mkdir");
    for name in ["a", "dir/a"] {
        fs::write(mount.join(name), vec![1; 8 << 20]).expect("write");
    }
    for (arguments, reason) in [
        (&["+DATA/nothing"][..], "does not exist"),
        (&["+DATA/dir"], "no regular file"),
        (&["novolume"], "no volume NOVOLUME"),
        (&["+DATA/a", "--tcp", "127.0.0.1:10809"], "--insecure"),
        (&["+DATA/a", "--socket", "/no/such/directory/sock"], "No such file"),
        (&["+DATA/a", "--tcp", "127.0.0.1:0", "--insecure"], "port"),
    ] {
        let said = instance.plinth(["nbd"].iter().chain(arguments)).refused();
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    let uri = export(&instance, &["+DATA/a"]);
    assert_eq!(export(&instance, &["+DATA/a"]), uri, "once more is the same");
    let said = instance.plinth(["nbd", "+DATA/dir/a"]).refused();
    assert!(said.contains("--name"), "{said}");
    let other = export(&instance, &["+DATA/dir/a", "--name", "other"]);
    let read_only = export(&instance, &["+DATA/a", "--name", "look", "--read-only"]);
    shell(r#"[ "$(nbdinfo --is read-only "$1" && echo yes)" = yes ]; ! nbdcopy /dev/null "$1""#)
        .arg(&read_only)
        .ok();

    instance.unmount(&mount);
    let mut client = shell(r#"exec qemu-io -f raw -c 'sleep 100000' "$1""#)
        .arg(&uri)
        .into_command()
        .spawn()
        .expect("a client");
    let clients = || instance.number("SELECT COUNT(*) FROM v$asm_client WHERE instance_name = 'a'");
    wait_for("the client to be there", || clients() == 1.0);
    let refusals: [&dyn Fn() -> String; 3] = [
        &|| instance.plinth(["nbd", "--stop", "+DATA/a", "--name", "a"]).refused(),
        &|| instance.refused("ALTER DISKGROUP data DISMOUNT"),
        &|| instance.refused("DROP DISKGROUP data INCLUDING CONTENTS"),
    ];
    // Even while there is no engine: the next one has the same clients.
    for dies in [false, true] {
        for refusal in refusals {
            let engine = instance.engine("data");
            if dies {
                instance.kill_engine("data");
                wait_for("its death", || instance.engine("data") != engine);
            }
            let said = refusal();
            assert!(said.contains("NBD client") || said.contains("exports"), "{said}");
        }
    }
    shell(r#"nbdinfo "$1""#).arg(&other).ok();
    instance.plinth(["nbd", "--stop", "+DATA/a", "-f"]).ok();
    wait_for("the client to be gone", || clients() == 0.0);
    let _ = client.kill();
    let _ = client.wait();
    // Exports go with the group, and do not come back with it.
    instance.sql("ALTER DISKGROUP data DISMOUNT; ALTER DISKGROUP data MOUNT");
    shell(r#"! nbdinfo "$1""#).arg(&other).ok();
    assert_eq!(instance.plinth(["nbd", "-H"]).ok(), "");
}

/// Clients of two exports, over a unix socket and TCP, two connections each, that write, read and
/// verify requests of all sizes, and never connect again: none of them may see an error, while
/// `story` runs.
fn under_load(instance: &Instance, story: impl FnOnce(&Instance)) {
    let exports = under_load_of(instance);
    story(instance);
    loaded(exports);
}

const LOAD: &str = "fio --name=load --ioengine=nbd --rw=randrw --size=24M --bssplit=512/10:4k/40:8k/20:64k/10:100k/10:1m/10 --iodepth=16 \
                        --numjobs=2 --offset_increment=24M --fsync=50 --verify=crc32c --verify_fatal=1 --verify_backlog=64 \
                        --verify_state_save=0 --time_based --runtime=3600 --group_reporting";

struct Load {
    fio: Child,
    stop: PathBuf,
}

fn under_load_of(instance: &Instance) -> Vec<Load> {
    let listen = format!("127.0.0.1:{}", free_port());
    let mut loads = Vec::new();
    for (volume, arguments) in [("vol1", &[][..]), ("vol2", &["--tcp", &listen, "--insecure"])] {
        instance.plinth(["volcreate", "-G", "data", "-s", "64M", volume]).ok();
        let uri = export(instance, &[&[volume], arguments].concat());
        let stop = instance.path(&format!("{volume}.out"));
        let script = format!(r#"exec {LOAD} --uri="$1" >"$2" 2>&1"#);
        let fio = shell(&script).arg(&uri).arg(&stop).into_command().spawn().expect("fio");
        loads.push(Load { fio, stop });
    }
    wait_for("the clients", || {
        instance.number("SELECT TOTAL(open_files) FROM v$asm_client WHERE client_type = 'NBD'")
            == 4.0
    });
    loads
}

/// Ends the load, which has met no error.
fn loaded(loads: Vec<Load>) {
    for Load { mut fio, stop } in loads {
        let pid = rustix::process::Pid::from_child(&fio);
        // fio completes its requests then.
        let alive = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let status = fio.wait().expect("fio ends");
        let said = fs::read_to_string(&stop).expect("what fio said");
        println!("{said}");
        assert!(
            alive.is_ok() && status.success() || said.contains("terminating on signal 2"),
            "{status}: {said}"
        );
        assert!(
            said.contains("err= 0") && said.contains("READ:") && said.contains("WRITE:"),
            "{status}: {said}"
        );
    }
}

/// A fraction of a second that differs from round to round, and not from run to run.
fn moment(round: u32) -> Duration {
    Duration::from_millis(350 + u64::from(round.wrapping_mul(2_654_435_761) >> 20) % 500)
}

/// The engine is killed again and again, and no client notices: all go on on the connections that
/// they have.
#[test]
fn clients_do_not_notice_the_death_of_engines() {
    let instance = Instance::new();
    group(&instance);
    under_load(&instance, |instance| {
        for round in 0..scaled(15, 90) {
            thread::sleep(moment(round));
            instance.replace_engine("DATA");
        }
        let clients = "SELECT CAST(TOTAL(open_files) AS INTEGER) AS n FROM v$asm_client WHERE client_type = 'NBD'";
        let count = || instance.try_query(clients).map(|rows| rows[0]["n"].to_string());
        // The exports are there a moment after the group.
        wait_for("all to go on on the connections that they have", || {
            count().is_some_and(|count| count.trim_matches('"') == "4")
        });
    });
    instance.check("DATA");
}

/// Engines are replaced on purpose, the instance is killed, and engines are adopted by a later
/// instance: no client notices.
#[test]
fn clients_do_not_notice_upgrades_and_instances_that_die() {
    let mut instance = Instance::new();
    group(&instance);
    let loads = under_load_of(&instance);
    for round in 0..scaled(3, 40) {
        thread::sleep(moment(round));
        instance.plinth(["upgrade", "data"]).ok();
        thread::sleep(moment(round + 100));
        instance.kill_instance();
        instance.start();
        thread::sleep(moment(round + 200));
        instance.replace_engine("DATA");
    }
    loaded(loads);
    instance.check("DATA");
}

/// With a service manager that keeps descriptors, the engine and the instance may both die.
#[test]
fn clients_do_not_notice_engines_and_instances_that_die_in_turns() {
    let manager = Manager::new();
    let mut instance = Instance::under(&manager);
    group(&instance);
    let loads = under_load_of(&instance);
    wait_for("four clients in the store", || manager.stored().len() == 8);
    let deaths = instance.die_in_turns(
        "DATA",
        Duration::from_secs(scaled(9, 300)),
        [3000, 2100].map(Duration::from_millis),
    );
    assert!(deaths.len() > 4, "{deaths:?}");
    loaded(loads);
    wait_for("an empty store", || manager.stored().is_empty());
    instance.check("DATA");
}

/// The engine is killed while clients write, again and again: a client that connects anew finds
/// everything that was acknowledged.
#[test]
fn engines_are_killed_under_clients() {
    let instance = Instance::new();
    group(&instance);
    instance.plinth(["volcreate", "-G", "data", "-s", "128M", "vol1"]).ok();
    let uri = export(&instance, &["vol1"]);
    let source = random(&instance, "source", 100 << 20);
    for round in 0..3 {
        let copying = shell(
            r#"SOURCE="$2" nbdkit -U - --filter=retry nbd uri="$1" retry=20 retries=20 retry-delay=1 retry-exponential=no \
                   --run 'nbdcopy --request-size=65536 --flush "$SOURCE" "$uri" && nbdcopy "$uri" "$SOURCE.back"'
               cmp -n $((100 << 20)) "$2" "$2.back""#,
        );
        let copying = copying.arg(&uri).arg(&source);
        let thread = std::thread::spawn(move || copying.finish());
        std::thread::sleep(std::time::Duration::from_millis(100 + 110 * round));
        instance.kill_engine("DATA");
        thread.join().expect("it ended").ok();
    }
    instance.check("DATA");
}

/// Exports outlive the instance, and come back after a shutdown.
#[test]
fn exports_are_remembered() {
    let mut instance = Instance::new();
    group(&instance);
    instance.plinth(["volcreate", "-G", "data", "-s", "16M", "vol1"]).ok();
    let uri = export(&instance, &["vol1"]);
    let size = |uri: &str| shell(r#"nbdinfo --size "$1""#).arg(uri).finish().out.trim().to_owned();
    instance.kill_instance();
    assert_eq!(size(&uri), "16777216", "no instance is needed");
    instance.start();
    instance.kill_engine("DATA");
    wait_for("the export to be back", || size(&uri) == "16777216");
    instance.plinth(["shutdown"]).ok();
    instance.stopped();
    assert_eq!(size(&uri), "");
    instance.start();
    wait_for("the export to be back", || size(&uri) == "16777216");
}

/// Over TCP a client needs a certificate; without one it learns nothing.
#[test]
fn over_tcp_clients_have_certificates() {
    let instance = Instance::new();
    group(&instance);
    let source = random(&instance, "source", 20 << 20);
    instance.plinth(["cp".as_ref(), source.as_os_str(), "+DATA/file".as_ref()]).ok();
    let authority = Authority::new(&instance, "root");
    let (certificate, key) = authority.sign("server");
    let (of_client, key_of_client) = authority.sign("client");
    let root = instance.path("root.pem");
    let listen = format!("127.0.0.1:{}", free_port());
    let text = |path: &Path| path.display().to_string();
    let uri = export(
        &instance,
        &[
            "+DATA/file",
            "--tcp",
            &listen,
            "--tls-cert",
            &text(&certificate),
            "--tls-key",
            &text(&key),
            "--tls-client-ca",
        ]
        .into_iter()
        .chain([text(&root).as_str()])
        .collect::<Vec<_>>(),
    );
    assert_eq!(uri, format!("nbds://{listen}/file"));
    let pki = instance.path("pki");
    fs::create_dir(&pki).expect("mkdir");
    fs::copy(&root, pki.join("ca-cert.pem")).expect("copy");
    let with = format!("{uri}?tls-certificates={}", pki.display());
    shell(r#"! nbdinfo "$1"; ! nbdinfo "${1/nbds:/nbd:}""#).arg(&with).ok();
    let refused = format!("is refused at {listen}: peer sent no certificates");
    wait_for("a line that says why", || instance.alert_log().contains(&refused));
    fs::copy(&of_client, pki.join("client-cert.pem")).expect("copy");
    fs::copy(&key_of_client, pki.join("client-key.pem")).expect("copy");
    copy(&with, instance.path("back"));
    assert!(fs::read(&source).expect("read") == fs::read(instance.path("back")).expect("read"));
    copy(&source, &with);
    let insecure = format!("127.0.0.1:{}", free_port());
    let uri = export(&instance, &["+DATA/file", "--tcp", &insecure, "--insecure"]);
    copy(&uri, instance.path("back"));
    assert!(fs::read(&source).expect("read") == fs::read(instance.path("back")).expect("read"));
}

/// The directory of an export's socket comes, and then the export.
fn comes(directory: &Path, uri: &str) {
    fs::create_dir(directory).expect("mkdir");
    wait_for("the export", || shell(r#"nbdinfo "$1""#).arg(uri).finish().code == Some(0));
}

/// An address that does not exist when the group's engine starts is tried again until it does, even
/// by an instance that adopts the engine; an export that waits for one is listed, and can be ended.
/// Another file of the same name is another one.
#[test]
fn an_export_comes_when_its_address_does() {
    let mut instance = Instance::new();
    group(&instance);
    let source = random(&instance, "source", 8 << 20);
    instance.plinth(["mkdir", "+DATA/a", "+DATA/b"]).ok();
    for file in ["+DATA/a/file", "+DATA/b/file"] {
        instance.plinth(["cp".as_ref(), source.as_os_str(), file.as_ref()]).ok();
    }
    let at = |name: &str| instance.path(name).join("sock").display().to_string();
    let (first, second, third) = (at("first"), at("second"), at("third"));
    for name in ["first", "second", "third"] {
        fs::create_dir(instance.path(name)).expect("mkdir");
    }
    let uri = export(&instance, &["+DATA/a/file", "--socket", &first]);
    let uri_of_second = export(&instance, &["+DATA/a/file", "--socket", &second]);
    export(&instance, &["+DATA/a/file", "--name", "other", "--socket", &third]);
    instance.plinth(["nbd", "--stop", "+DATA/b/file"]).refused();
    let take_away = || {
        for name in ["first", "second", "third"] {
            let _ = fs::remove_dir_all(instance.path(name));
        }
        let before = instance.engine("DATA");
        instance.kill_engine("DATA");
        wait_for("another engine", || {
            instance.engine("DATA").is_some_and(|pid| Some(pid) != before)
        });
    };
    let told = |text: &str| instance.alert_log().matches(text).count();
    take_away();
    wait_for("the alarms", || told("is not exported again") >= 3);
    comes(&instance.path("first"), &uri);
    copy(&uri, instance.path("back"));
    assert!(fs::read(&source).expect("read") == fs::read(instance.path("back")).expect("read"));
    wait_for("the note", || told(&format!("file at {first} is exported again")) == 1);
    // The next instance learns from the engine what is exported, and from its own notes what should
    // be.
    instance.kill_instance();
    instance.start();
    comes(&instance.path("second"), &uri_of_second);
    let listed = || instance.plinth(["nbd", "-H"]).ok();
    assert_eq!(listed().lines().count(), 3, "{}", listed());
    // The last was never there again, and is given up.
    instance.plinth(["nbd", "--stop", "+DATA/a/file", "--name", "other"]).ok();
    assert!(listed().lines().count() == 2 && !listed().contains("other"), "{}", listed());
    instance.plinth(["nbd", "--stop", "+DATA/a/file"]).ok();
    assert_eq!(listed(), "");
}

/// A boot sector that reads sector 100,000 with the BIOS, writes it to the next one, prints its
/// text on the serial port, and ends the machine: with 1 if all went well.
fn boot_sector() -> [u8; 512] {
    const CODE: [u8; 62] = [
        0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, 0x8e, 0xd0, // segments are 0
        0xbc, 0x00, 0x7c, 0xfc, // stack below, strings upwards
        0xbe, 0x3e, 0x7c, 0xb4, 0x42, 0xcd, 0x13, 0x72, 0x20, // read
        0xff, 0x06, 0x46, 0x7c, // the next sector
        0xbe, 0x3e, 0x7c, 0xb8, 0x00, 0x43, 0xcd, 0x13, 0x72, 0x12, // write
        0xbe, 0x00, 0x7e, 0xba, 0xf8, 0x03, // from the buffer to the serial port
        0xac, 0x84, 0xc0, 0x74, 0x03, 0xee, 0xeb, 0xf8, // byte after byte, up to a zero
        0x30, 0xc0, 0xeb, 0x02, // 0: good
        0xb0, 0x01, // 1: an error of the disk
        0xba, 0xf4, 0x00, 0xee, 0xf4, 0xeb, 0xfd, // the end
    ];
    // One sector to 0:7e00, from sector 100,000.
    const PACKET: [u8; 16] = [16, 0, 1, 0, 0x00, 0x7e, 0, 0, 0xa0, 0x86, 0x01, 0, 0, 0, 0, 0];
    let mut sector = [0; 512];
    sector[..62].copy_from_slice(&CODE);
    sector[62..78].copy_from_slice(&PACKET);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// A machine boots from an export, reads and writes.
#[test]
fn a_guest_boots_from_an_export() {
    const TEXT: &[u8] = b"this came from a disk group\n\0";
    let instance = Instance::new();
    group(&instance);
    instance.plinth(["volcreate", "-G", "data", "-s", "64M", "vol1"]).ok();
    let uri = export(&instance, &["vol1"]);
    let image = random(&instance, "image", 64 << 20);
    let file = fs::File::options().write(true).open(&image).expect("open");
    file.write_all_at(&boot_sector(), 0).expect("write");
    file.write_all_at(TEXT, 100_000 * 512).expect("write");
    copy(&image, &uri);
    let machine = shell(
        r#"exec qemu-system-x86_64 -accel tcg -m 32 -nodefaults -display none -monitor none -serial stdio \
               -device isa-debug-exit,iobase=0xf4,iosize=1 -drive "if=ide,format=raw,file=$1""#,
    );
    let said = machine.arg(&uri).finish();
    assert!(said.code == Some(1) && said.out.as_bytes() == &TEXT[..TEXT.len() - 1], "{said}");
    copy(&uri, instance.path("back"));
    let back = fs::read(instance.path("back")).expect("read");
    assert!(
        back[100_001 * 512..][..512] == back[100_000 * 512..][..512],
        "what the guest wrote is not there"
    );
    instance.check("DATA");
}

/// A hostile client; `agree`: it first agrees on an export.
fn hostile(socket: &Path, agree: Option<&str>) -> Option<UnixStream> {
    let mut client = UnixStream::connect(socket).ok()?;
    client.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    client.set_write_timeout(Some(Duration::from_millis(50))).ok()?;
    let Some(name) = agree else { return Some(client) };
    let length = |length: usize| u32::try_from(length).expect("short").to_be_bytes();
    client.read_exact(&mut [0; 18]).ok()?;
    let go = [
        b"\0\0\0\x03IHAVEOPT\0\0\0\x07",
        &length(name.len() + 6)[..],
        &length(name.len()),
        name.as_bytes(),
        &[0, 0],
    ];
    client.write_all(&go.concat()).ok()?;
    // Four answers: the export, its block sizes, and the end.
    for _ in 0..3 {
        let mut header = [0; 20];
        client.read_exact(&mut header).ok()?;
        let [.., a, b, c, d] = header;
        client.read_exact(&mut vec![0; u32::from_be_bytes([a, b, c, d]) as usize]).ok()?;
    }
    Some(client)
}

fn request(kind: u16, offset: u64, length: u32) -> Vec<u8> {
    let parts: [&[u8]; 5] = [
        b"\x25\x60\x95\x13\0\0",
        &kind.to_be_bytes(),
        &[7; 8],
        &offset.to_be_bytes(),
        &length.to_be_bytes(),
    ];
    parts.concat()
}

/// A thousand clients at one time that send nothing, send nonsense, begin requests as large as can
/// be, or take no replies: the engine is there afterwards, its memory is bounded, and a client that
/// came in the middle of it all finds what it wrote.
#[test]
fn a_thousand_hostile_clients_do_no_harm() {
    let instance = Instance::new();
    group(&instance);
    for name in ["vol1", "vol2"] {
        instance.plinth(["volcreate", "-G", "data", "-s", "64M", name]).ok();
    }
    let (uri, _) = (export(&instance, &["vol1"]), export(&instance, &["vol2"]));
    let socket = instance.dir().join("nbd.DATA.sock");
    let engine = instance.engine("DATA").expect("an engine");
    let memory = || -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{engine}/status")).expect("the engine is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    let before = memory();
    let mut held = Vec::new();
    for number in 0..1000_u32 {
        // Fewer than an engine has room for beside hostile ones: every client that comes is to be
        // served.
        let agreed = (number % 8 == 0).then_some("VOL2");
        let Some(mut client) = hostile(&socket, agreed) else { continue };
        let _ = match (number / 5 % 4, agreed.is_some()) {
            (0 | 1, true) => client.write_all(&[request(1, 0, 32 << 20), vec![1; 5000]].concat()),
            (2, true) => (0..50).try_for_each(|_| client.write_all(&request(0, 0, 32 << 20))),
            (_, true) => client.write_all(&request(number as u16, u64::MAX - 5, u32::MAX)),
            (0, false) => client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff"),
            (1, false) => client.write_all(&[0xff; 4096]),
            (2, false) => client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x7f"),
            (_, false) => Ok(()),
        };
        held.push(client);
    }
    assert!(held.len() > 900, "only {} of 1000 were let in at all", held.len());
    let good = thread::spawn({
        let script = "exec fio --name=good --size=48M --rw=randrw --bsrange=512-128k --verify=crc32c --verify_fatal=1 --verify_backlog=512 \
                          --verify_state_save=0 --time_based --runtime=$2 --ioengine=nbd --iodepth=4 --uri=\"$1\"";
        let fio = shell(script).arg(&uri).arg(scaled("6", "60"));
        move || fio.finish()
    });
    // Meanwhile others come and go.
    while !good.is_finished() {
        let mut noise = hostile(&socket, None);
        let _ = noise.as_mut().map(|client| client.write_all(&[0x49; 300]));
        thread::sleep(Duration::from_millis(5));
    }
    let said = good.join().expect("fio").ok();
    assert!(said.contains("err= 0"), "{said}");
    let grown = memory() - before;
    println!(
        "{} hostile clients; the engine's memory grew from {before} to {} KiB at most",
        held.len(),
        before + grown
    );
    assert!(grown < 700 << 10, "the engine took {grown} KiB more for its clients");
    drop(held);
    assert_eq!(instance.engine("DATA"), Some(engine), "{}", instance.alert_log());
    copy(&uri, instance.path("back"));
    instance.check("DATA");
}

/// Clients end in the middle of a request, wherever that is: they are not counted any more, and the
/// export can be ended.
#[test]
fn clients_that_end_in_the_middle_of_a_request_are_gone() {
    let instance = Instance::new();
    group(&instance);
    instance.plinth(["volcreate", "-G", "data", "-s", "16M", "vol1"]).ok();
    export(&instance, &["vol1"]);
    let socket = instance.dir().join("nbd.DATA.sock");
    let write = [request(1, 0, 4096), vec![1; 4096]].concat();
    for cut in [1, 10, 27, 28, 29, 128, 4123] {
        let mut client = hostile(&socket, Some("VOL1")).expect("a client");
        client.write_all(&write[..cut]).expect("sent");
    }
    let clients =
        || instance.number("SELECT COUNT(*) FROM v$asm_client WHERE instance_name = 'VOL1'");
    wait_for("the clients to be gone", || clients() == 0.0);
    instance.plinth(["nbd", "--stop", "vol1"]).ok();
    instance.check("DATA");
}

/// A volume is made smaller while a client has it: behind the new end the client reads zeros and
/// cannot write, before it nothing has changed. A client that comes later sees the new size; made
/// larger again, the volume has none of the lost bytes.
#[test]
fn a_volume_is_made_smaller_under_a_client() {
    let instance = Instance::new();
    group(&instance);
    instance.plinth(["volcreate", "-G", "data", "-s", "64M", "vol1"]).ok();
    let uri = export(&instance, &["vol1"]);
    let mut client =
        hostile(&instance.dir().join("nbd.DATA.sock"), Some("VOL1")).expect("a client");
    client.set_write_timeout(None).expect("no timeout");
    let write = |client: &mut UnixStream, offset: u64, byte: u8| -> u32 {
        client.write_all(&[request(1, offset, 4096), vec![byte; 4096]].concat()).expect("sent");
        let mut reply = [0; 16];
        client.read_exact(&mut reply).expect("a reply");
        u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]])
    };
    let read = |client: &mut UnixStream, offset: u64| -> (u32, Vec<u8>) {
        client.write_all(&request(0, offset, 4096)).expect("sent");
        let (mut reply, mut bytes) = ([0; 16], vec![0xee; 4096]);
        client.read_exact(&mut reply).expect("a reply");
        let error = u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]);
        if error == 0 {
            client.read_exact(&mut bytes).expect("bytes");
        }
        (error, bytes)
    };
    for offset in [0, 48 * MIB] {
        assert_eq!(write(&mut client, offset, 7), 0);
    }
    instance.sql("ALTER DISKGROUP data RESIZE VOLUME vol1 SIZE 16M");
    assert_eq!(read(&mut client, 48 * MIB), (0, vec![0; 4096]), "what was behind the end is lost");
    assert_eq!(read(&mut client, 0), (0, vec![7; 4096]));
    const NO_SPACE: u32 = 28;
    assert_eq!(write(&mut client, 48 * MIB, 9), NO_SPACE);
    assert_eq!(write(&mut client, 4096, 9), 0);
    let size = || shell(r#"nbdinfo --size "$1""#).arg(&uri).ok().trim().to_owned();
    assert_eq!(size(), (16 * MIB).to_string());
    instance.sql("ALTER DISKGROUP data RESIZE VOLUME vol1 SIZE 64M");
    assert_eq!(size(), (64 * MIB).to_string());
    assert_eq!(read(&mut client, 48 * MIB), (0, vec![0; 4096]), "the old bytes are back");
    assert_eq!(write(&mut client, 48 * MIB, 5), 0);
    assert_eq!(read(&mut client, 48 * MIB), (0, vec![5; 4096]));
    assert_eq!(read(&mut client, 4096), (0, vec![9; 4096]));
    drop(client);
    instance.check("DATA");
}
