//! The packages: installed, upgraded under a writing program, refused to go, removed and purged, on
//! a fresh system with systemd.
//!
//! The packages are made of the program under test, once with a lower version number.

use plinth_tests::{FreshRoot, Instance, MIB, binary, build_package as build, shell, wait_for};
use std::{collections::BTreeSet, fs, path::Path};

fn has(tool: &str) -> bool {
    let found = shell("command -v \"$1\"").arg(tool).finish().code == Some(0);
    if !found {
        println!("left out: {tool} is not installed here; ./test installs it");
    }
    found
}

/// The disks, and a file that is a disk in the directory of the instance's state.
const DISKS: &str = r#"
    mkdir -p /srv/disks /data
    truncate -s 256M /srv/disks/a /srv/disks/b /srv/disks/unused
    head -c 1M /dev/urandom > /var/lib/plinth/disks.img
    sed -i 's,^#diskstring = .*,diskstring = "/srv/disks/*",' /etc/plinth/plinth.toml
    systemctl restart plinth
    plinth sql -c "CREATE DISKGROUP data NORMAL REDUNDANCY
        FAILGROUP f1 DISK '/srv/disks/a' FAILGROUP f2 DISK '/srv/disks/b'"
    plinth mount DATA /data
"#;

/// A program that holds one file open, and appends a number to it and syncs it again and again. It
/// ends with its first error.
const WRITER: &str = r#"
cat > /root/writer <<'END'
exec 3>> /data/numbers
n=0
while [ ! -e /root/enough ]; do
    n=$((n + 1))
    echo $n >&3 && sync -d /data/numbers || { echo "at $n" > /root/failed; exit 1; }
    echo $n > /root/written
done
END
setsid bash /root/writer < /dev/null > /root/writer.log 2>&1 &
"#;

/// A story on a fresh system, in the order in which an operator meets its parts.
struct Story {
    system: FreshRoot,
}

impl Story {
    /// The process ids of the instance and of the group's engine.
    fn processes(&self) -> (String, String) {
        let instance = self.system.run("cat /run/plinth/plinth.pid");
        (instance, self.system.run("cat /run/plinth/engine.DATA.pid"))
    }

    /// The writer has written more, without an error.
    #[track_caller]
    fn the_writer_goes_on(&self) {
        let count = || -> u64 {
            let failed = self.system.attempt("cat /root/failed /root/writer.log");
            assert!(failed.out.is_empty(), "the writer failed: {failed}");
            let text = self.system.attempt("cat /root/written").out;
            text.trim().parse().unwrap_or_default()
        };
        let before = count();
        wait_for("the writer to write", || count() > before + 2);
    }

    /// The sums of all disks.
    fn sums(&self) -> String {
        self.system.run("sha256sum /srv/disks/* /var/lib/plinth/disks.img")
    }

    fn is_installed(&self) -> String {
        self.system.run("dpkg-query -W -f '${db:Status-Status} ${Version}' plinth")
    }
}

/// A package is installed and the instance runs; the members of its group may look, and no more. A
/// new version is installed while a program writes: the engine goes on, and another takes over when
/// it is asked to. Both processes die at once, and the program still goes on. The package cannot be
/// removed while files are open. Removed, it leaves no mount and no process; purged, no
/// configuration and no state. The disks are as they were, and the group is there again after the
/// next installation.
#[test]
fn a_package_is_installed_upgraded_removed_and_purged_and_disks_stay() {
    let packages = tempfile::tempdir().expect("a directory");
    let (old, new) =
        (build("deb", "0.0.9", packages.path()), build("deb", "0.1.0", packages.path()));
    let story = Story { system: FreshRoot::boot() };
    story.system.give(&old);
    story.system.give(&new);
    installs_and_runs(&story);
    the_configuration_is_checked(&story);
    upgrades_under_a_writer(&story);
    is_removed_when_nothing_is_open(&story);
    is_purged_and_disks_stay(&story);
}

fn installs_and_runs(story: &Story) {
    let system = &story.system;
    system.run("dpkg -i /root/plinth_0.0.9_*.deb");
    assert_eq!(story.is_installed(), "installed 0.0.9");
    system.run("systemctl is-active plinth.service plinth-scrub.timer");
    system.run("systemctl is-enabled plinth.service plinth-scrub.timer");
    let version = system.run("plinth --version");
    assert!(version.starts_with("plinth "), "{version}");
    // The helper for mount(8), the manual page, completion, the links.
    system.run("test -x /sbin/mount.fuse.plinth && gzip -t /usr/share/man/man1/plinth.1.gz");
    system.run("bash -n /usr/share/bash-completion/completions/plinth");
    system.run("/usr/lib/plinth/bin/asmcmd -V | grep asmcmd");
    system.run(DISKS);
    let look = "runuser -u plinth -- plinth sql -c";
    let seen = system.run(&format!("{look} 'SELECT name, state FROM v$asm_diskgroup'"));
    assert!(seen.contains("DATA") && seen.contains("MOUNTED"), "{seen}");
    let refused = system.attempt(&format!("{look} 'ALTER DISKGROUP data DISMOUNT'")).refused();
    assert!(refused.contains("plinth"), "{refused}");
    // The helper, by the instance's default directory.
    system.run("umount /data && mount -t fuse.plinth DATA /data && mountpoint /data");
}

fn the_configuration_is_checked(story: &Story) {
    let system = &story.system;
    let engine = story.processes().1;
    system.run("echo 'diskstrin = 1' >> /etc/plinth/plinth.toml");
    let said = system.attempt("plinth serve; exit $?");
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("/etc/plinth/plinth.toml, line "), "{said}");
    assert!(said.err.contains("diskstrin: there is no such key"), "{said}");
    system.attempt("systemctl restart plinth").refused();
    let shown = system.run("systemctl show -P NRestarts -P ExecMainStatus plinth");
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["0", "2"], "it is not tried again");
    system.run("sed -i '/^diskstrin /d' /etc/plinth/plinth.toml && systemctl start plinth");
    assert_eq!(story.processes().1, engine, "the engine went on");
    system.run("mountpoint /data");
}

fn upgrades_under_a_writer(story: &Story) {
    let system = &story.system;
    system.run(WRITER);
    story.the_writer_goes_on();
    let before = story.processes();
    let said = system.run("dpkg -i /root/plinth_0.1.0_*.deb 2>&1");
    assert!(said.contains("plinth upgrade GROUP"), "{said}");
    assert_eq!(story.is_installed(), "installed 0.1.0");
    system.run("grep '^diskstring = ' /etc/plinth/plinth.toml && systemctl is-active plinth");
    story.the_writer_goes_on();
    let after = story.processes();
    assert_ne!(after.0, before.0, "the instance is the new one");
    assert_eq!(after.1, before.1, "the engine is the former one");
    let program = system.run("readlink /proc/$(cat /run/plinth/engine.DATA.pid)/exe");
    assert!(program.contains("(deleted)"), "{program}");
    system.run("plinth upgrade DATA");
    story.the_writer_goes_on();
    let program = system.run("readlink /proc/$(cat /run/plinth/engine.DATA.pid)/exe");
    assert_eq!(program.trim(), "/usr/bin/plinth");
    // systemd has the descriptors of the mount: both processes may die at once.
    system.run("systemctl kill --kill-who=all --signal=KILL plinth");
    story.the_writer_goes_on();
    assert_ne!(story.processes(), after);
}

fn is_removed_when_nothing_is_open(story: &Story) {
    let system = &story.system;
    let refused = system.attempt("dpkg -r plinth 2>&1").refused();
    assert!(refused.contains("it stays installed"), "{refused}");
    assert_eq!(story.is_installed(), "installed 0.1.0");
    story.the_writer_goes_on();
    system.run("systemctl is-active plinth");
    system.run("touch /root/enough; while pgrep -f '^bash /root/writer'; do sleep 0.1; done");
    system.run("cp /data/numbers /root/numbers; seq $(cat /root/written) | cmp - /root/numbers");
    system.run("dpkg -r plinth");
    assert!(!system.run("cat /proc/self/mounts").contains(" fuse.plinth "));
    assert_eq!(system.attempt("pgrep -x plinth").out, "", "no process is left");
    let left = system.run(
        "dpkg -L plinth | while read -r f; do [ -d \"$f\" ] || [ ! -e \"$f\" ] || echo $f; done",
    );
    let left: BTreeSet<&str> = left.lines().collect();
    assert_eq!(left, ["/etc/logrotate.d/plinth", "/etc/plinth/plinth.toml"].into());
    assert_eq!(system.attempt("systemctl is-active plinth.service").out.trim(), "inactive");
}

fn is_purged_and_disks_stay(story: &Story) {
    let system = &story.system;
    let before = story.sums();
    let unused = system.run("cmp -n 268435456 /srv/disks/unused /dev/zero && echo untouched");
    assert_eq!(unused.trim(), "untouched");
    let said = system.run("dpkg -P plinth 2>&1");
    assert!(said.contains("/var/lib/plinth has files"), "{said}");
    assert_eq!(story.sums(), before);
    assert_eq!(system.run("ls -A /var/lib/plinth").trim(), "disks.img");
    system
        .run("test ! -e /etc/plinth && test ! -e /etc/logrotate.d/plinth && test ! -e /run/plinth");
    // The next installation finds the group.
    system.run("dpkg -i /root/plinth_0.1.0_*.deb");
    system
        .run("sed -i 's,^#diskstring = .*,diskstring = \"/srv/disks/*\",' /etc/plinth/plinth.toml");
    system.run("systemctl restart plinth && plinth sql -c 'ALTER DISKGROUP data MOUNT'");
    system.run("plinth mount DATA /data && cmp /data/numbers /root/numbers && plinth check DATA");
    system.run("dpkg -P plinth");
}

/// A newcomer has a package and two empty disks, and a third with something on it: `setup` lists
/// them, does nothing when the answer is no or when answers end, and then makes and mounts a group
/// whose disks are two failure groups. The third disk is taken only after the word `lose`.
#[test]
fn setup_makes_and_mounts_a_group_by_four_questions() {
    let instance = Instance::new();
    for name in ["a", "b", "c"] {
        instance.add_disk(name, 256 * MIB);
    }
    shell(r#"mkfs.ext4 -q -L precious "$1""#).arg(instance.disk("c")).ok();
    let before = shell(r#"sha256sum "$1"/*"#).arg(instance.path("disks")).ok();
    let directory = instance.path("mnt").join("own");
    let setup = |answers: &str, flags: &str| {
        shell(r#"printf "$1" | "$2" setup $3"#)
            .arg(answers)
            .arg(instance.program())
            .arg(flags)
            .env("PLINTH_DIR", instance.dir())
            .finish()
    };
    let answers = format!("1 2\n\nown\n{}\n", directory.display());
    let said = setup(&(answers.clone() + "no\n"), "");
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("precious") && said.out.contains("Nothing was done"), "{said}");
    assert!(said.out.contains("CREATE DISKGROUP OWN NORMAL REDUNDANCY"), "{said}");
    let refused = setup(&answers, "").refused();
    assert!(refused.contains("there is no answer, and nothing was done"), "{refused}");
    let lose = format!("all of it\n{}", instance.disk("c").display());
    let refused = setup(&lose, "").refused();
    assert!(refused.contains("is no disk of the list"), "{refused}");
    let files = format!("--disks 1 --group own --mount {}", instance.path("disks").display());
    let refused = setup("yes\n", &files).refused();
    assert!(refused.contains("is no empty directory"), "{refused}");
    let third = format!("--disks {} --group lost --mount none", instance.disk("c").display());
    let said = setup("yes\n", &(third.clone() + " --yes"));
    assert!(said.out.contains("LOST: ") && said.out.contains("Nothing was done"), "{said}");
    assert_eq!(shell(r#"sha256sum "$1"/*"#).arg(instance.path("disks")).ok(), before);

    let said = setup(&(answers + "yes\n"), "").ok();
    // It ends with the status of the group.
    let (_, end) = said.split_once("\nPLINTH ").expect("a status");
    let head = "\nOWN: MOUNTED, NORMAL redundancy, 2 disks in 2 failure groups\n";
    assert!(end.contains(head) && end.contains("can be written safely"), "{said}");
    assert!(end.lines().any(|line| line.starts_with("  FG2  ")), "{said}");
    assert_eq!(
        instance.text("SELECT COUNT(DISTINCT failgroup) FROM v$asm_disk WHERE name IS NOT NULL"),
        "2"
    );
    fs::write(directory.join("x"), "x").expect("the group is mounted");
    instance.unmount(&directory);
    // Done, although its status is not fine: nothing is mirrored.
    let said = setup("lose\nyes\n", &third).ok();
    assert!(said.contains("\nPLINTH WARNING: LOST: "), "{said}");
    assert_eq!(instance.text("SELECT type FROM v$asm_diskgroup WHERE name = 'LOST'"), "EXTERN");
}

/// The guide says where each file of the package is.
#[test]
fn the_guide_names_each_place_of_the_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| fs::read_to_string(root.join(name)).expect("in the source tree");
    let guide = read("docs/operating.md");
    let list = read("packaging/files.list");
    let places = list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let place = line.split_whitespace().nth(3)?;
        // Where the system has completions differs.
        Some(place.trim_start_matches("{zsh}/").trim_start_matches("{fish}/").to_owned())
    });
    let missing: Vec<String> = places
        .filter(|place| {
            let (folder, name) = place.rsplit_once('/').unwrap_or(("", place));
            let is_whole = guide.contains(place.as_str());
            // Of several files in one directory the others are named alone.
            let is_beside = guide.contains(&format!("`{folder}/"))
                && (guide.contains(&format!("`{name}`"))
                    || name
                        .split_once('.')
                        .is_some_and(|(_, end)| guide.contains(&format!("`.{end}`"))));
            !is_whole && !is_beside
        })
        .collect();
    assert!(missing.is_empty(), "docs/operating.md does not name {missing:?}");
}

/// Debian's checker finds no errors in the package.
#[test]
fn lintian_finds_no_errors() {
    if !has("lintian") {
        return;
    }
    let packages = tempfile::tempdir().expect("a directory");
    let package = build("deb", "0.1.0", packages.path());
    shell(r#"lintian --no-cfg --fail-on error --tag-display-limit 0 "$1""#).arg(&package).ok();
}

/// The .rpm has the files of the .deb, where its systems look for them, and the same scripts.
#[test]
fn the_rpm_has_the_files_of_the_deb() {
    if !has("rpmbuild") {
        return;
    }
    let packages = tempfile::tempdir().expect("a directory");
    let (deb, rpm) =
        (build("deb", "0.1.0", packages.path()), build("rpm", "0.1.0", packages.path()));
    let lines = |script: &str, file: &Path| -> BTreeSet<String> {
        shell(script).arg(file).ok().lines().map(str::to_owned).collect()
    };
    let in_deb =
        lines(r#"dpkg-deb --fsys-tarfile "$1" | tar -t | sed 's,^\.,,' | grep -v '/$'"#, &deb);
    let in_rpm = lines(
        r#"rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$1" | grep -v ^d | cut -d' ' -f2"#,
        &rpm,
    );
    let only_debian = ["changelog.gz", "CHANGELOG.md.gz", "copyright"];
    let expected: BTreeSet<String> = in_deb
        .into_iter()
        .filter(|name| {
            !only_debian.iter().any(|end| name == &format!("/usr/share/doc/plinth/{end}"))
        })
        .map(|name| name.replace("/zsh/vendor-completions/", "/zsh/site-functions/"))
        .collect();
    assert!(
        expected.contains("/usr/bin/plinth") && expected.contains("/usr/sbin/mount.fuse.plinth")
    );
    assert_eq!(in_rpm, expected);
    let configuration = lines(r#"rpm -qpc "$1""#, &rpm);
    assert_eq!(configuration.len(), 2, "{configuration:?}");
    let scripts = lines(r#"rpm -qp --scripts "$1""#, &rpm);
    for name in ["postinst", "prerm", "postrm"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/scripts").join(name);
        let text = fs::read_to_string(path).expect("a script");
        for line in text.lines().skip(1) {
            assert!(scripts.contains(line), "{name}: {line}");
        }
    }
}

/// What a package needs: the names of Debian, and those of systems with rpm. `*` is a version.
const NEEDS: [(&str, &str); 3] = [
    ("libc6 (>= *)", "libc.so.6(GLIBC_*)(64bit)"),
    ("libgcc-s1", "libgcc_s.so.1()(64bit)"),
    ("passwd", "shadow-utils"),
];
const RECOMMENDS: [(&str, &str); 3] =
    [("logrotate", "logrotate"), ("postgresql-client", "postgresql"), ("udev", "systemd-udev")];

/// The .rpm is installed into a root with `rpm --root`, without a warning, and needs the same as
/// the .deb. Its instance runs there. Removed, it leaves none of its files and directories.
#[test]
fn the_rpm_needs_what_the_deb_needs_and_is_installed_and_removed_in_a_root() {
    if !has("rpmbuild") {
        return;
    }
    let packages = tempfile::tempdir().expect("a directory");
    let (deb, rpm) =
        (build("deb", "0.1.0", packages.path()), build("rpm", "0.1.0", packages.path()));
    let field = |name: &str| shell(r#"dpkg-deb -f "$1" "$2""#).arg(&deb).arg(name).ok();
    let query = |what: &str| shell(r#"rpm -qp "$2" "$1" | sort -u"#).arg(&rpm).arg(what).ok();
    let own = |line: &&str| !line.starts_with("rpmlib(") && *line != "/bin/sh";
    for (name, what, table) in
        [("Depends", "--requires", NEEDS), ("Recommends", "--recommends", RECOMMENDS)]
    {
        let (in_deb, in_rpm) = (field(name), query(what));
        let version = in_deb
            .split_once("libc6 (>= ")
            .map_or("", |(_, rest)| rest.split(')').next().expect("the parenthesis ends"));
        let expected: BTreeSet<String> = in_deb
            .trim()
            .split(", ")
            .map(|need| {
                let known = table.iter().find(|(deb, _)| deb.replace('*', version) == need);
                known
                    .unwrap_or_else(|| panic!("{need} has no name for rpm"))
                    .1
                    .replace('*', version)
            })
            .collect();
        let in_rpm: BTreeSet<String> = in_rpm.lines().filter(own).map(str::to_owned).collect();
        assert_eq!(in_rpm, expected, "{name}");
    }
    let system = FreshRoot::boot();
    // Debian's rpm warns of itself. The database of the root knows no libc.
    let rpm_in_root = |words: &str| {
        let script = format!(
            r#"rpm --root "$1" --dbpath /var/lib/rpm {words} 2>&1 | grep -v '^rpm: ' || true"#
        );
        shell(&script).arg(system.root()).arg(&rpm).ok()
    };
    assert_eq!(rpm_in_root("--initdb"), "");
    assert_eq!(rpm_in_root(r#"--nodeps -i "$2""#), "");
    assert_eq!(rpm_in_root("--nodeps -V plinth"), "");
    let owned = rpm_in_root("-ql plinth");
    assert!(owned.lines().count() > 30 && owned.contains("\n/usr/share/plinth\n"), "{owned}");
    system.run("getent passwd plinth && getent group plinth");
    system.run("systemctl daemon-reload && systemctl start plinth && plinth lsdg");
    system.run("systemctl stop plinth");
    assert_eq!(rpm_in_root("-e plinth"), "");
    for path in owned.lines() {
        let left = system.root().join(path.trim_start_matches('/'));
        assert!(fs::symlink_metadata(&left).is_err(), "{path} is left");
    }
}

/// The program of a package has the dashboard that npm has built. Without npm there is none, and
/// the script that makes packages says so.
#[test]
fn the_package_has_the_dashboard() {
    let packages = tempfile::tempdir().expect("a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let script = r#""$1/packaging/build" --fast --program "$2" --output "$3" deb"#;
    let made = shell(script).arg(&root).arg(binary()).arg(packages.path()).finish();
    assert_eq!(made.code, Some(0), "{made}");
    let Ok(page) = fs::read_to_string(root.join("dashboard/dist/index.html")) else {
        assert!(made.err.contains("the dashboard is not in"), "{made}");
        return;
    };
    assert!(!made.err.contains("dashboard"), "{made}");
    // The name of its script has a sum of the contents.
    let script = page.split('"').find(|word| word.ends_with(".js")).expect("it has a script");
    let unpack = r#"dpkg-deb -x "$1" "$2" && grep -qaF "$3" "$2/usr/bin/plinth""#;
    let into = packages.path().join("unpacked");
    shell(unpack).arg(made.out.trim()).arg(into).arg(script).ok();
}

/// The script names the word that it does not know, or the program that is missing.
#[test]
fn the_build_of_packages_refuses_unknown_words_and_missing_programs() {
    for (words, code, said) in [
        ("--verbose", 2, "--verbose is not understood"),
        ("deb --version", 2, "--version needs a value"),
        ("deb --program /nowhere/plinth", 1, "/nowhere/plinth is not there"),
        ("deb --version ../x", 1, "../x is no version"),
    ] {
        let script = r#"p=$1 b=$2; shift 2; "$p/../packaging/build" --program "$b" $*"#;
        let build = shell(script).arg(env!("CARGO_MANIFEST_DIR")).arg(binary()).arg(words).finish();
        assert_eq!(build.code, Some(code), "{words}: {build}");
        assert!(build.err.contains(said), "{words}: {build}");
    }
}
