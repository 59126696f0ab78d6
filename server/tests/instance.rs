//! A running instance, used by `psql`, by users without rights, and by clients that send noise.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

const PLINTH: &str = env!("CARGO_BIN_EXE_plinth");

/// A running instance in a directory of its own; dropping this ends and removes both.
struct Instance {
    child: Child,
    home: tempfile::TempDir,
}

impl Instance {
    fn start(more: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        fs::create_dir(home.path().join("disks")).expect("a directory");
        for name in ["a1", "a2", "b1"] {
            let disk = fs::File::create(home.path().join("disks").join(name)).expect("a disk");
            disk.set_len(128 << 20).expect("a size");
        }
        let child = Self::spawn(home.path(), more);
        let instance = Self { child, home };
        instance.wait_until_ready();
        instance
    }

    fn spawn(home: &Path, more: &[&str]) -> Child {
        let log = fs::File::create(home.join("log")).expect("a log");
        Command::new(PLINTH)
            .arg("--dir")
            .arg(home.join("run"))
            .args(["serve", "--diskstring"])
            .arg(home.join("disks/*"))
            .args(more)
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("plinth serve")
    }

    fn wait_until_ready(&self) {
        let began = Instant::now();
        while !self.log().contains("plinth: ready") {
            assert!(began.elapsed() < Duration::from_secs(30), "not ready: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("run")
    }

    fn socket(&self) -> UnixStream {
        UnixStream::connect(self.dir().join(".s.PGSQL.5432")).expect("a connection")
    }

    fn psql(&self, statements: &str) -> Output {
        Self::psql_as(&[], &self.dir(), statements)
    }

    fn psql_as(prefix: &[&str], dir: &Path, statements: &str) -> Output {
        let mut words = prefix.to_vec();
        words.extend([
            "psql",
            "-X",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-v",
            "VERBOSITY=verbose",
            "-d",
            "plinth",
        ]);
        let (program, arguments) = words.split_first().expect("a program");
        Command::new(program)
            .args(arguments)
            .arg("-h")
            .arg(dir)
            .args(["-c", statements])
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .expect("psql")
    }

    /// Runs statements that must succeed, and returns their output.
    fn ask(&self, statements: &str) -> String {
        let output = self.psql(statements);
        assert!(
            output.status.success(),
            "{statements}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs statements that must fail, and returns the error.
    fn refusal(&self, statements: &str) -> String {
        let output = self.psql(statements);
        assert!(!output.status.success(), "{statements} was carried out");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Engines outlive an instance; this ends them too.
        let _ = Command::new(PLINTH)
            .arg("--dir")
            .arg(self.dir())
            .args(["shutdown", "--force"])
            .output();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[test]
fn psql_sees_disks_views_and_itself() {
    let instance = Instance::start(&[]);
    assert_eq!(
        instance.ask("SELECT count(*) FROM V$ASM_DISK WHERE header_status = 'CANDIDATE'"),
        "3"
    );
    assert_eq!(instance.ask("select count(*)::int from v$asm_disk_stat"), "0");
    assert_eq!(
        instance.ask("select os_mb from v$asm_disk where path like '%/b1' and group_number = 0"),
        "128"
    );
    assert!(instance.ask("select version()").starts_with("PostgreSQL"));
    assert_eq!(instance.ask("select current_schema, current_database()"), "public|plinth");
    assert_eq!(instance.ask("select nvl(null, 'x'), mod(7, power(2, 2)) from dual"), "x|3");
    let listed = instance.ask("\\dv");
    for view in ["diskgroup", "disk", "file", "alias", "operation", "attribute"] {
        assert!(listed.contains(&format!("v$asm_{view}|view")), "{listed}");
    }
    assert!(instance.ask("\\d v$asm_operation").contains("est_work|bigint"));
    assert!(instance.ask("show asm_diskstring").ends_with("/disks/*"));
    assert_eq!(instance.ask("begin; select 1; commit"), "BEGIN\n1\nCOMMIT");
    assert_eq!(instance.ask(""), "");
}

#[test]
fn errors_have_a_place_a_code_and_a_hint() {
    let instance = Instance::start(&[]);
    let refusal = instance.refusal("CREATE DISKGROUP d NORML REDUNDANCY");
    assert!(
        refusal.contains("42601") && refusal.contains("LINE 1:") && refusal.contains('^'),
        "{refusal}"
    );
    let refusal = instance.refusal("select cout(*) from v$asm_disk");
    assert!(refusal.contains("42883") && refusal.contains('^'), "{refusal}");
    let refusal = instance.refusal("select * from v$asm_dsk");
    assert!(
        refusal.contains("42P01") && refusal.contains("v$asm_disk,") && refusal.contains('^'),
        "{refusal}"
    );
    let refusal = instance.refusal("CREATE DISKGROUP d EXTERNAL REDUNDANCY DISK '/dev/null'");
    assert!(refusal.contains("58P01") && refusal.contains("ORA-15014"), "{refusal}");
    assert!(refusal.contains("ALTER SYSTEM SET asm_diskstring"), "{refusal}");
    let refusal = instance.refusal("ALTER DISKGROUP nothing DISMOUNT");
    assert!(refusal.contains("ORA-15001"), "{refusal}");
    let refusal = instance.refusal("begin; alter system set asm_diskstring = '/x'");
    assert!(refusal.contains("25001"), "{refusal}");
    for forbidden in
        ["insert into v$asm_disk(name) values ('x')", "pragma user_version", "attach 'x' as y"]
    {
        instance.refusal(forbidden);
    }
    for hidden in ["select load_extension('x')", "select * from sqlite_master"] {
        assert!(instance.refusal(hidden).contains("42501"), "{hidden}");
    }
}

#[test]
fn statements_end_when_their_client_wants_it() {
    let instance = Instance::start(&[]);
    let mut psql = Command::new("psql")
        .args(["-X", "-d", "plinth", "-h"])
        .arg(instance.dir())
        .args(["-c", "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql");
    thread::sleep(Duration::from_millis(500));
    let interrupted =
        Command::new("kill").args(["-INT", &psql.id().to_string()]).status().expect("kill");
    assert!(interrupted.success());
    let mut said = String::new();
    psql.stderr.take().expect("a pipe").read_to_string(&mut said).expect("what psql says");
    assert!(!psql.wait().expect("psql").success());
    // psql prints either the server's error, or that it has sent the cancel request.
    assert!(said.contains("cancel") || said.contains("Cancel"), "{said}");
    assert_eq!(instance.ask("select 1"), "1");
}

#[test]
fn others_look_only_if_they_may() {
    if !is_root() {
        return;
    }
    let nobody = ["runuser", "-u", "nobody", "--"];
    let closed = Instance::start(&[]);
    assert!(!Instance::psql_as(&nobody, &closed.dir(), "select 1").status.success());
    let open = Instance::start(&["--look-all"]);
    let output = Instance::psql_as(&nobody, &open.dir(), "select count(*) from v$asm_disk");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "3",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = Instance::psql_as(&nobody, &open.dir(), "alter system set asm_diskstring = '/x'");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("42501") && said.contains("HINT"), "{said}");
    let output = Command::new("runuser")
        .args(["-u", "nobody", "--", PLINTH, "--dir"])
        .arg(open.dir())
        .args(["umount", "/tmp"])
        .current_dir("/")
        .output()
        .expect("runuser");
    assert!(!output.status.success());
}

/// Noise, giant lengths, half messages and floods of connections are refused or ignored, and the
/// instance goes on.
#[test]
fn strangers_do_no_harm() {
    let instance = Instance::start(&[]);
    let startup = |body: &[u8]| {
        let mut packet = u32::try_from(body.len() + 4).expect("short").to_be_bytes().to_vec();
        packet.extend_from_slice(body);
        packet
    };
    let hello = startup(b"\0\x03\0\0user\0x\0\0");
    let noise: Vec<u8> =
        (0..5000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    let mut messages: Vec<Vec<u8>> =
        vec![noise.clone(), vec![0xFF; 8], vec![0; 4000], startup(b"\0\x02\0\0"), startup(b"")];
    for tail in [
        &b"Q\x7F\xFF\xFF\xFF"[..],
        b"Q\0\0\0\0",
        b"Q\0\0\0\x05x",
        b"B\0\0\0\x04",
        b"B\0\0\0\x08\0\0\xFF\xFF",
        b"P\0\0\0\x07\0\0\0",
        b"P\0\0\0\x0A\0x\0\xFF\xFF\0",
        b"E\0\0\0\x05\0",
        b"D\0\0\0\x04",
        b"D\0\0\0\x06?\0",
        b"C\0\0\0\x06S\0",
        b"\0\0\0\0\x04",
        b"p\0\0\0\x04",
        b"d\0\0\0\x04",
        &noise[..],
    ] {
        let mut message = hello.clone();
        message.extend_from_slice(tail);
        messages.push(message);
    }
    let mut held = Vec::new();
    for message in &messages {
        let mut stream = instance.socket();
        let _ = stream.write_all(message);
        held.push(stream); // stops in the middle, and stays
    }
    for name in ["control.sock"] {
        for message in [&noise[..], &[0xFF; 16], b"\x02\0\0\0\0\0\0\0{}"] {
            let mut stream = UnixStream::connect(instance.dir().join(name)).expect("a connection");
            let _ = stream.write_all(message);
            held.push(stream);
        }
    }
    assert_eq!(instance.ask("select 1"), "1");
    drop(held);
    let flood: Vec<UnixStream> = (0..200).map(|_| instance.socket()).collect();
    drop(flood);
    let began = Instant::now();
    while !instance.psql("select 1").status.success() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "the flood is over and nobody is let in"
        );
    }
}

#[test]
fn one_instance_serves_a_directory_and_the_next_takes_it_over() {
    let mut instance = Instance::start(&[]);
    let second = Command::new(PLINTH)
        .arg("--dir")
        .arg(instance.dir())
        .arg("serve")
        .output()
        .expect("plinth");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("another instance"), "{said}");
    assert_eq!(instance.ask("select 1"), "1");
    instance.child.kill().expect("killed");
    instance.child.wait().expect("ended");
    assert!(instance.dir().join(".s.PGSQL.5432").exists(), "a killed instance leaves its socket");
    instance.child = Instance::spawn(instance.home.path(), &[]);
    instance.wait_until_ready();
    assert_eq!(instance.ask("select 1"), "1");
}

#[test]
fn the_command_line_prints_tables_and_json() {
    let instance = Instance::start(&[]);
    let plinth = |arguments: &[&str]| {
        Command::new(PLINTH)
            .arg("--dir")
            .arg(instance.dir())
            .args(arguments)
            .output()
            .expect("plinth")
    };
    let listed = plinth(&["lsdsk", "--json", "--candidate"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    let listed = plinth(&["lsdsk", "-k", "*/b1"]);
    assert!(String::from_utf8_lossy(&listed.stdout).starts_with("Total_MB"));
    let result = plinth(&["sql", "-c", "select 1 as one; select oops"]);
    let (out, said) =
        (String::from_utf8_lossy(&result.stdout), String::from_utf8_lossy(&result.stderr));
    assert!(
        !result.status.success() && out.contains("(1 row)") && said.contains("LINE 1:"),
        "{out}{said}"
    );
    let disk = instance.home.path().join("disks/a1");
    fs::write(&disk, vec![0xA5; 1 << 20]).expect("noise");
    let disk = disk.to_str().expect("a path");
    for place in
        [&[][..], &["header"], &["membership"], &["block", "512K"], &["block", "99999999999"]]
    {
        let mut arguments = vec!["dump", disk];
        arguments.extend(place);
        assert!(plinth(&arguments).status.success(), "{arguments:?}");
    }
    assert!(!plinth(&["dump", disk, "au", "1"]).status.success());
    assert_eq!(plinth(&["check", "nothing"]).status.code(), Some(2));
}

/// A group is made, its engine dies and is started again, the instance dies and the next one adopts
/// the engine.
#[test]
fn a_group_outlives_its_engine_and_its_instance() {
    let mut instance = Instance::start(&[]);
    let disks = instance.home.path().join("disks");
    let (a, b) = (disks.join("a*"), disks.join("b1"));
    instance.ask(&format!(
        "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP a DISK '{}' FAILGROUP b DISK '{}' ATTRIBUTE 'au_size'='1M'",
        a.display(),
        b.display()
    ));
    let state = "select group_number, name, state from v$asm_diskgroup";
    assert_eq!(instance.ask(state), "1|DATA|MOUNTED");
    let refusal = instance
        .refusal(&format!("CREATE DISKGROUP fra EXTERNAL REDUNDANCY DISK '{}'", b.display()));
    assert!(refusal.contains("ORA-15033"), "{refusal}");
    let local = instance.home.path().join("local");
    fs::write(&local, vec![7; 3 << 20]).expect("a file");
    let plinth = |arguments: &[&str]| {
        let output = Command::new(PLINTH)
            .arg("--dir")
            .arg(instance.dir())
            .args(arguments)
            .output()
            .expect("plinth");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    plinth(&["cp", local.to_str().expect("a path"), "+data/file"]);
    assert_eq!(plinth(&["ls", "+DATA"]), "file\n");
    assert!(plinth(&["check", "data"]).contains("clean"));

    let pid = || fs::read_to_string(instance.dir().join("engine.DATA.pid")).expect("a pid");
    let first = pid();
    assert!(Command::new("kill").args(["-9", first.trim()]).status().expect("kill").success());
    let began = Instant::now();
    while pid() == first || instance.ask(state) != "1|DATA|MOUNTED" {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the engine is not started again: {}",
            instance.log()
        );
        thread::sleep(Duration::from_millis(10));
    }
    let back = instance.home.path().join("back");
    plinth(&["cp", "+DATA/file", back.to_str().expect("a path")]);
    assert!(fs::read(&back).expect("a file") == fs::read(&local).expect("a file"));

    let second = pid();
    instance.child.kill().expect("killed");
    instance.child.wait().expect("ended");
    instance.child = Instance::spawn(instance.home.path(), &[]);
    instance.wait_until_ready();
    assert_eq!(instance.ask(state), "1|DATA|MOUNTED");
    assert_eq!(fs::read_to_string(instance.dir().join("engine.DATA.pid")).expect("a pid"), second);

    let refusal = instance.refusal("DROP DISKGROUP data");
    assert!(refusal.contains("INCLUDING CONTENTS"), "{refusal}");
    instance.ask("ALTER DISKGROUP data DISMOUNT");
    assert_eq!(instance.ask(state), "0|DATA|DISMOUNTED");
    instance.ask("ALTER DISKGROUP ALL MOUNT");
    instance.ask("DROP DISKGROUP data INCLUDING CONTENTS");
    assert_eq!(instance.ask("select count(*) from v$asm_disk where header_status = 'FORMER'"), "3");
}
