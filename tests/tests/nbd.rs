//! Files and volumes as block devices, used by clients that others have written.

use plinth_tests::{Authority, Instance, MIB, noise, shell, wait_for};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

/// What `plinth nbd` says where clients find it.
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

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// A volume and a file are copied in and out, mapped, trimmed and written by clients; the mount shows the same bytes.
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
    let file = export(&instance, &["+data/DISK.IMG", "--socket", &instance.path("sock").display().to_string()]);
    let said = shell(
        r#"export U="$1"; nbdinfo "$U"; nbdinfo --size "$U"; nbdinfo --map --totals "$U"; nbdinfo --list "${U/disk.img/}"
           for c in write flush fua trim zero cache df multi-conn structured; do nbdinfo --can $c "$U" || echo "cannot $c"; done
           qemu-io -f raw -c 'read -P 7 0 1M' -c 'read -P 0 1M 1M' -c 'discard 0 128k' -c 'write -P 9 3M 4k' \
               -c 'write -z 64k 4k' -c flush -c 'read -P 0 0 128k' -c 'read -P 7 128k 64k' "$U" | tee /dev/stderr | (! grep -i fail)"#,
    )
    .arg(&file)
    .ok();
    assert!(said.contains("16777216") && !said.contains("cannot"), "{said}");
    assert_eq!(fs::read(mount.join("disk.img")).expect("read")[3 << 20..][..4097], [vec![9; 4096], vec![0]].concat());
    // What the mount writes a client sees, too.
    shell(r#"printf hello | dd of="$1/disk.img" bs=1 seek=5000000 conv=notrunc status=none"#).arg(&mount).ok();
    copy(&file, instance.path("back"));
    assert_eq!(&fs::read(instance.path("back")).expect("read")[5_000_000..][..5], b"hello");

    let listed = instance.plinth(["nbd"]).ok();
    assert!(listed.contains("+DATA/.volumes/VOL1") && listed.contains("+DATA/disk.img"), "{listed}");
    let said = instance.refused("ALTER DISKGROUP data DROP VOLUME vol1");
    assert!(said.contains("nbd --stop"), "{said}");
    instance.plinth(["nbd", "--stop", "vol1"]).ok();
    shell(r#"! nbdinfo "$1""#).arg(&volume).ok();
    instance.plinth(["nbd", "--stop", "vol1"]).refused();
    instance.check("DATA");
}

/// What cannot be exported is refused with a reason; what clients use is not taken away unless that is said.
#[test]
fn what_is_used_stays_and_what_is_wrong_is_refused() {
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
    shell(r#"[ "$(nbdinfo --is read-only "$1" && echo yes)" = yes ]; ! nbdcopy /dev/null "$1""#).arg(&read_only).ok();

    instance.unmount(&mount);
    let mut client =
        shell(r#"exec qemu-io -f raw -c 'sleep 100000' "$1""#).arg(&uri).into_command().spawn().expect("a client");
    let clients = || instance.number("SELECT COUNT(*) FROM v$asm_client WHERE instance_name = 'a'");
    wait_for("the client to be there", || clients() == 1.0);
    for said in [
        instance.plinth(["nbd", "--stop", "+DATA/a", "--name", "a"]).refused(),
        instance.refused("ALTER DISKGROUP data DISMOUNT"),
        instance.refused("DROP DISKGROUP data INCLUDING CONTENTS"),
    ] {
        assert!(said.contains("NBD client") || said.contains("exports"), "{said}");
    }
    shell(r#"nbdinfo "$1""#).arg(&other).ok();
    instance.plinth(["nbd", "--stop", "+DATA/a", "-f"]).ok();
    wait_for("the client to be gone", || clients() == 0.0);
    let _ = client.kill();
    let _ = client.wait();
    // With the group goes what is exported; and it does not come back with it.
    instance.sql("ALTER DISKGROUP data DISMOUNT; ALTER DISKGROUP data MOUNT");
    shell(r#"! nbdinfo "$1""#).arg(&other).ok();
    assert_eq!(instance.plinth(["nbd", "-H"]).ok(), "");
}

/// The engine is killed while clients write, again and again: what connects anew finds everything it was told is written.
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

/// Over TCP a client needs a certificate; without one it is told nothing.
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
