//! Access over the network: which users are admitted, how, and with which rights; and what happens
//! to clients that send nonsense.

use plinth_tests::{Authority, Finished, Instance, MIB, scaled, shell, wait_for};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

fn group() -> Instance {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    instance
}

/// psql over the network, with the other settings of the connection.
fn psql(instance: &Instance, port: u16, user: &str, more: &str, sql: &str) -> Finished {
    let root = instance.path("root.pem");
    let connection =
        format!("host=127.0.0.1 port={port} user={user} sslrootcert={} {more}", root.display());
    shell(r#"exec psql -X -At -v ON_ERROR_STOP=1 "$1" -c "$2""#)
        .arg(connection)
        .arg(sql)
        .env("PGPASSWORD", "secret")
        .finish_within(Duration::from_secs(60))
}

const VERIFIED: &str = "sslmode=verify-full";

#[track_caller]
fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
}

/// Each role has its rights, and gets a message where it has none; a change counts from the next
/// statement on.
#[test]
fn roles_are_kept() {
    let mut instance = group();
    let port = instance.listen_with_tls();
    let as_user = |user: &str, sql: &str| psql(&instance, port, user, VERIFIED, sql);
    for user in ["boss", "night", "viewer", "VIEWER"] {
        assert_eq!(as_user(user, "SELECT count(*) FROM v$asm_disk").ok().trim(), "2");
        assert_eq!(as_user(user, "SELECT current_user").ok().trim(), user.to_lowercase());
    }
    let moves = "ALTER DISKGROUP data REBALANCE POWER 2 WAIT";
    let checks = "ALTER DISKGROUP data CHECK NOREPAIR";
    let changes = "ALTER DISKGROUP data SET ATTRIBUTE 'disk_timeout' = '7'";
    let makes = "CREATE USER other PASSWORD 'x'";
    for (user, allowed, refused) in [
        ("viewer", &[][..], &[moves, checks, changes, makes, "DROP USER boss"][..]),
        (
            "night",
            &[moves, checks],
            &[
                changes,
                makes,
                "ALTER USER night ROLE ADMINISTER",
                "ALTER DISKGROUP data CHECK REPAIR",
            ],
        ),
        ("boss", &[moves, checks, changes, makes, "DROP USER other"], &[]),
    ] {
        for sql in allowed {
            as_user(user, sql).ok();
        }
        for sql in refused {
            says(
                &as_user(user, sql).refused(),
                &["may", "not administer", "ORA-01031", "ALTER USER"],
            );
        }
    }
    as_user("night", "ALTER DISKGROUP data OFFLINE DISK data_0001").ok();
    as_user("night", "ALTER DISKGROUP data ONLINE ALL WAIT").ok();
    as_user("night", "ALTER DISKGROUP data DISMOUNT").ok();
    as_user("night", "ALTER DISKGROUP data MOUNT").ok();

    let users = "SELECT username, sysdba, sysoper, sysasm, role FROM v$pwfile_users ORDER BY 1";
    assert_eq!(
        as_user("viewer", users).ok().trim(),
        "BOSS|TRUE|TRUE|TRUE|ADMINISTER\nNIGHT|FALSE|TRUE|FALSE|OPERATE\nVIEWER|FALSE|FALSE|FALSE|LOOK"
    );
    let listed = shell(r#"psql -X -h "$1" -c '\du'"#).arg(instance.dir()).ok();
    says(&listed, &["boss", "night", "viewer"]);

    // A session that is there already.
    let script = format!(
        "SELECT 1;\n\\! psql -X -q -h {dir} -c 'ALTER USER viewer ROLE OPERATE'\n{moves};\n\
         \\! psql -X -q -h {dir} -c 'DROP USER viewer'\nSELECT 2;",
        dir = instance.dir().display()
    );
    fs::write(instance.path("script"), script).expect("written");
    let connection = format!(
        "host=127.0.0.1 port={port} user=viewer {VERIFIED} sslrootcert={}",
        instance.path("root.pem").display()
    );
    let said = shell(r#"exec psql -X -At "$1" -f "$2" 2>&1"#)
        .arg(&connection)
        .arg(instance.path("script"))
        .env("PGPASSWORD", "secret")
        .ok();
    says(&said, &["1", "ALTER DISKGROUP", "user viewer was dropped"]);
    says(&as_user("viewer", "SELECT 1").refused(), &["password authentication failed"]);
    says(&instance.refused("ALTER USER viewer PASSWORD 'x'"), &["VIEWER", "v$pwfile_users"]);
    says(&instance.refused("CREATE USER boss PASSWORD 'x'"), &["BOSS", "already"]);
}

/// One statement of each kind is given by each role, of a group that does not exist: it is refused
/// for the role, or for another reason.
#[test]
fn each_statement_is_refused_below_its_role() {
    const OPERATE: &[&str] = &[
        "ALTER DISKGROUP nosuch MOUNT",
        "ALTER DISKGROUP nosuch DISMOUNT",
        "ALTER DISKGROUP nosuch OFFLINE DISK a",
        "ALTER DISKGROUP nosuch ONLINE ALL",
        "ALTER DISKGROUP nosuch REBALANCE POWER 4",
        "ALTER DISKGROUP nosuch CHECK NOREPAIR",
    ];
    const ADMINISTER: &[&str] = &[
        "CREATE DISKGROUP nosuch DISK '/nowhere'",
        "DROP DISKGROUP nosuch",
        "ALTER DISKGROUP nosuch DROP DISK a",
        "ALTER DISKGROUP nosuch UNDROP DISKS",
        "ALTER DISKGROUP nosuch REPLACE DISK a WITH '/x'",
        "ALTER DISKGROUP nosuch RENAME DISKS ALL",
        "ALTER DISKGROUP nosuch RESIZE ALL",
        "ALTER DISKGROUP nosuch CONVERT REDUNDANCY TO HIGH",
        "EXPLAIN WORK FOR ALTER DISKGROUP nosuch DROP DISK a",
        "ALTER DISKGROUP nosuch CHECK REPAIR",
        "ALTER DISKGROUP nosuch SCRUB",
        "ALTER DISKGROUP nosuch SCRUB STOP",
        "ALTER DISKGROUP nosuch ADD USER 'a'",
        "ALTER DISKGROUP nosuch ADD VOLUME v SIZE 1G",
        "ALTER DISKGROUP nosuch ENABLE VOLUME ALL",
        "ALTER DISKGROUP nosuch ADD DIRECTORY '+nosuch/x'",
        "ALTER DISKGROUP nosuch SET ATTRIBUTE 'disk_timeout' = '5'",
        "ALTER SYSTEM SET asm_diskstring = 'no/such'",
        "ALTER SYSTEM SET asm_preferred_read_failure_groups = 'nosuch'",
        "CREATE USER boss PASSWORD 'b'",
        "ALTER USER nosuch PASSWORD 'b'",
        "DROP USER nosuch",
    ];
    const LOOK: &[&str] = &[
        "SHOW timezone",
        "SHOW ALL",
        "SET timezone = 'UTC'",
        "DEALLOCATE ALL",
        "DISCARD ALL",
        "SAVEPOINT a",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SELECT 1",
    ];
    let mut instance = group();
    let port = instance.listen_with_tls();
    let all: Vec<&str> = [LOOK, OPERATE, ADMINISTER].concat();
    let script: String =
        all.iter().map(|statement| format!("{statement};\n\\echo @ :SQLSTATE\n")).collect();
    fs::write(instance.path("each"), script).expect("written");
    for (user, allowed) in
        [("viewer", LOOK.len()), ("night", LOOK.len() + OPERATE.len()), ("boss", all.len())]
    {
        let root = instance.path("root.pem");
        let said = shell(r#"exec psql -X -At "$1" -f "$2" 2>/dev/null"#)
            .arg(format!(
                "host=127.0.0.1 port={port} user={user} sslrootcert={} {VERIFIED}",
                root.display()
            ))
            .arg(instance.path("each"))
            .env("PGPASSWORD", "secret")
            .ok();
        let codes: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("@ ")).collect();
        assert_eq!(codes.len(), all.len(), "{user}: {said}");
        for (at, (statement, code)) in all.iter().zip(codes).enumerate() {
            assert_eq!(code == "42501", at >= allowed, "{user}: {statement}: {code}");
            assert!(at >= LOOK.len() || code == "00000", "{user}: {statement}: {code}");
            assert!(at < LOOK.len() || code != "00000", "{user}: {statement} is done");
        }
    }
}

/// Passwords are stored as verifiers only, survive a restart with all other settings, and can be
/// made by psql.
#[test]
fn users_and_the_listening_address_are_remembered() {
    let mut instance = group();
    instance.listen_with_tls();
    let state = instance.read("run/instance.json");
    assert!(state.contains("SCRAM-SHA-256$") && !state.contains(": \"secret\""), "{state}");
    // As psql's \password does it: the server never sees it.
    let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    instance.sql(&format!("CREATE USER rfc PASSWORD '{verifier}' ROLE LOOK"));
    let port = instance.listen_with(&[]);
    assert_eq!(psql(&instance, port, "boss", VERIFIED, "SELECT 1").ok().trim(), "1");
    let said = shell(r#"exec psql -X -At "$1" -c 'SELECT 2'"#)
        .arg(format!("host=127.0.0.1 port={port} user=rfc sslmode=require"))
        .env("PGPASSWORD", "pencil")
        .ok();
    assert_eq!(said.trim(), "2");
    // And no more.
    instance.kill_instance();
    instance.start_with(&["--listen", "off"]);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    instance.kill_instance();
    instance.start();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it was told off, and listens");
}

/// Without TLS no user is admitted where TLS is offered; clients that verify, verify; the exchange
/// can be bound to the certificate; a renewed certificate is taken without a restart, a broken one
/// is not.
#[test]
fn tls_is_the_only_way_in() {
    let mut instance = group();
    let port = instance.listen_with_tls();
    says(
        &psql(&instance, port, "boss", "sslmode=disable", "SELECT 1").refused(),
        &["with TLS only"],
    );
    psql(&instance, port, "boss", "sslmode=verify-full channel_binding=require", "SELECT 1").ok();
    psql(&instance, port, "boss", "sslmode=verify-full channel_binding=disable", "SELECT 1").ok();
    let other = Authority::new(&instance, "other");
    let more = format!("sslmode=verify-full sslrootcert={}", instance.path("other.pem").display());
    says(
        &psql(&instance, port, "boss", &more, "SELECT 1").refused(),
        &["certificate verify failed"],
    );
    // Renewed, by another authority.
    let _ = other.sign("server");
    psql(&instance, port, "boss", &more, "SELECT 1").ok();
    says(&instance.alert_log(), &["read again"]);
    fs::write(instance.path("server.pem"), "nonsense").expect("written");
    psql(&instance, port, "boss", &more, "SELECT 1").ok();
    says(&instance.alert_log(), &["cannot be used, the old one stays", "server.pem"]);

    // Settings that would allow eavesdropping are refused before the instance listens.
    let refused = |arguments: &[&str]| {
        let dir = instance.path("elsewhere");
        let mut script = String::from(r#"exec timeout 20 "$0" serve --dir "$1""#);
        arguments.iter().for_each(|argument| script.push_str(&format!(" {argument}")));
        shell(&format!("exec bash -c '{script}' \"$1\" \"$2\""))
            .arg(instance.program())
            .arg(dir)
            .finish()
            .refused()
    };
    says(&refused(&["--listen", "0.0.0.0:0"]), &["loopback", "--tls-cert", "--insecure"]);
    says(
        &refused(&["--listen", "127.0.0.1:0", "--tls-cert", "/nowhere", "--tls-key", "/nowhere"]),
        &["/nowhere"],
    );
    says(
        &refused(&["--listen", "nonsense"]),
        &["ADDR", "nonsense"].map(|word| if word == "ADDR" { "an address" } else { word }),
    );
    says(&refused(&["--listen", &format!("127.0.0.1:{port}")]), &["listening on"]);
}

/// With an authority for clients, a client without a certificate of it cannot even send its user's
/// name.
#[test]
fn clients_can_be_asked_for_certificates() {
    let mut instance = group();
    let authority = Authority::new(&instance, "root");
    let (certificate, key) = authority.sign("server");
    let (of_client, key_of_client) = authority.sign("client");
    shell(r#"chmod 600 "$1""#).arg(&key_of_client).ok();
    let root = instance.path("root.pem");
    let text = |path: &Path| path.display().to_string();
    let port = instance.listen_with(&[
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        &text(&certificate),
        "--tls-key",
        &text(&key),
        "--tls-client-ca",
        &text(&root),
    ]);
    instance.sql("CREATE USER boss PASSWORD 'secret' ROLE ADMINISTER");
    says(&psql(&instance, port, "boss", VERIFIED, "SELECT 1").refused(), &["certificate required"]);
    let with =
        format!("{VERIFIED} sslcert={} sslkey={}", of_client.display(), key_of_client.display());
    psql(&instance, port, "boss", &with, "SELECT 1").ok();
    let stranger = Authority::new(&instance, "stranger");
    let (foreign, foreign_key) = stranger.sign("foreign");
    shell(r#"chmod 600 "$1""#).arg(&foreign_key).ok();
    let with = format!("{VERIFIED} sslcert={} sslkey={}", foreign.display(), foreign_key.display());
    psql(&instance, port, "boss", &with, "SELECT 1").refused();
}

/// A name that no user has is answered like any other: the same messages, the same salt each time,
/// the same error.
#[test]
fn a_login_does_not_reveal_which_names_exist() {
    let mut instance = group();
    let port = instance.listen_with(&["--listen", "127.0.0.1:0"]);
    instance.sql("CREATE USER boss PASSWORD 'secret'");
    let first = |user: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        stream.write_all(&startup(user)).expect("sent");
        let offered = message(&mut stream).expect("an offer");
        let client = b"n,,n=,r=abcdefgh";
        let mut body = b"SCRAM-SHA-256\0".to_vec();
        body.extend(u32::try_from(client.len()).expect("short").to_be_bytes());
        body.extend(client);
        stream.write_all(&framed(b'p', &body)).expect("sent");
        let challenge = message(&mut stream).expect("a challenge");
        let text = String::from_utf8_lossy(&challenge.1).into_owned();
        let nonce = text
            .split_once("r=")
            .expect("a nonce")
            .1
            .split(',')
            .next()
            .expect("a nonce")
            .to_owned();
        let salt = text.split_once("s=").expect("a salt").1.to_owned();
        let last = format!("c=biws,r={nonce},p={}=", "A".repeat(43));
        stream.write_all(&framed(b'p', last.as_bytes())).expect("sent");
        let (kind, error) = message(&mut stream).expect("an error");
        assert_eq!(kind, b'E');
        (offered, salt, String::from_utf8_lossy(&error).replace(user, "USER"))
    };
    let (known, unknown) = (first("boss"), first("nobody"));
    assert_eq!((&known.0, &known.2), (&unknown.0, &unknown.2));
    assert_eq!((known.1.len(), first("boss").1), (unknown.1.len(), known.1.clone()));
    assert_eq!(first("nobody").1, unknown.1, "the salt of a name that no user has changes");
    assert_ne!(known.1, unknown.1);
    let log = instance.alert_log();
    says(
        &log,
        &["login of \"nobody\" from 127.0.0.1:", "login of \"boss\" from 127.0.0.1:", "failed"],
    );
}

fn startup(user: &str) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    body.extend(b"user\0");
    body.extend(user.as_bytes());
    body.extend(b"\0database\0plinth\0\0");
    let mut packet = u32::try_from(body.len() + 4).expect("short").to_be_bytes().to_vec();
    packet.extend(body);
    packet
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![kind];
    packet.extend(u32::try_from(body.len() + 4).expect("short").to_be_bytes());
    packet.extend(body);
    packet
}

fn message(stream: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let mut body = vec![0; usize::try_from(length).ok()?.checked_sub(4)?];
    stream.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// TLS as `sslnegotiation=direct` begins it: without being asked, and with the protocol's name.
#[test]
fn tls_can_begin_at_once() {
    let mut instance = group();
    let port = instance.listen_with_tls();
    let mut stream = tls(&instance, port, &[b"postgresql"]);
    stream.write_all(&startup("boss")).expect("sent");
    let (kind, body) = message(&mut stream).expect("an offer");
    assert!(
        kind == b'R' && String::from_utf8_lossy(&body).contains("SCRAM-SHA-256-PLUS"),
        "{body:?}"
    );
    // Without the name, as from a browser that was sent here.
    let mut stream = tls(&instance, port, &[]);
    let (kind, body) = message(&mut stream).expect("an error");
    assert!(kind == b'E' && String::from_utf8_lossy(&body).contains("ALPN"), "{body:?}");
}

fn tls(
    instance: &Instance,
    port: u16,
    protocols: &[&[u8]],
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(instance.path("root.pem")).expect("a certificate"))
        .expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    StreamOwned::new(session, socket)
}

/// Many clients that connect and send nothing: other clients are admitted, and administrators on
/// the host in any case; the silent ones are disconnected.
#[test]
fn silent_connections_keep_no_client_out() {
    let mut instance = group();
    let port = instance.listen_with_tls();
    let silent: Vec<_> =
        (0..200).filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok()).collect();
    assert_eq!(instance.text("SELECT 1"), "1");
    shell(r#"exec psql -X -At -h "$1" -c 'SELECT 1'"#).arg(instance.dir()).ok();
    wait_for("the strangers to be thrown out", || {
        psql(&instance, port, "boss", VERIFIED, "SELECT 1").code == Some(0)
    });
    drop(silent);
}

/// Ctrl-C over the network, by the key, while a statement waits for a disk that hangs: its client
/// gets an error soon, and its work goes on without the client.
#[test]
fn cancelled_statements_go_on_in_the_background() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f1d0", 256 * MIB);
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let port = instance.listen_with_tls();
    let extra = instance.add_disk("f1d1", 256 * MIB);
    instance.sql("ALTER DISKGROUP data SET ATTRIBUTE 'disk_timeout' = '3600'");
    instance.faulty("f1d0").hang();
    let root = instance.path("root.pem");
    let connection =
        format!("host=127.0.0.1 port={port} user=boss {VERIFIED} sslrootcert={}", root.display());
    let statement =
        format!("ALTER DISKGROUP data ADD FAILGROUP f1 DISK '{}' REBALANCE WAIT", extra.display());
    // The statement runs when the instance has a thread for it.
    let script = r#"psql -X -v ON_ERROR_STOP=1 "$1" -c "$2" & pid=$!
        until cat /proc/$3/task/*/comm 2>/dev/null | grep -qx statement; do sleep 0.05; done
        sleep 1; kill -INT $pid; wait $pid"#;
    let said = shell(script)
        .arg(connection)
        .arg(statement)
        .arg(instance.pid().to_string())
        .env("PGPASSWORD", "secret")
        .finish_within(Duration::from_secs(60));
    instance.faulty("f1d0").heal();
    assert!(said.code.is_some_and(|code| code != 0), "{said}");
    says(&said.err, &["cancelled on request", "ORA-01013", "goes on"]);
    wait_for("the disk to be added without its client", || {
        instance.disk_row(&extra)["mount_status"] == "CACHED"
            && instance
                .number("SELECT count(*) FROM v$asm_operation WHERE state IN ('RUN', 'WAIT')")
                == 0.0
    });
    instance.check("DATA");
}

/// A query that takes long disturbs no other program: the kernel runs it when no other thread wants
/// the processor. It ends with its client.
#[test]
fn long_queries_run_at_idle_priority() {
    let instance = group();
    let queries = || -> Vec<i32> {
        let tasks =
            fs::read_dir(format!("/proc/{}/task", instance.pid())).into_iter().flatten().flatten();
        let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        let policies = stats.filter_map(|stat| {
            let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
            // The policy is the 41st field, the third is the first behind the name.
            (name == "query").then(|| rest.split_whitespace().nth(38)?.parse().ok())?
        });
        policies.collect()
    };
    let endless =
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r";
    let mut psql = std::process::Command::new("psql")
        .args(["-X", "-h"])
        .arg(instance.dir())
        .args(["-c", endless])
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("psql");
    const IDLE: i32 = 5;
    wait_for("the query to go to idle priority", || queries() == [IDLE]);
    psql.kill().expect("killed");
    psql.wait().expect("ended");
    wait_for("the query to end with its client", || queries().is_empty());
    assert_eq!(instance.text("SELECT 1"), "1");
}

/// Whatever is sent, before a login and after it, with TLS and without: the instance lives, is not
/// slower for others, and keeps nothing. `PLINTH_LONG=1` goes on for minutes.
#[test]
fn random_bytes_do_no_harm() {
    let mut instance = group();
    let port = instance.listen_with_tls();
    let memory = |instance: &Instance| -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", instance.pid())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    };
    instance.sql("SELECT 1");
    let before = memory(&instance);
    let until = Instant::now() + Duration::from_secs(scaled(6, 300));
    let instance = &instance;
    thread::scope(|scope| {
        for worker in 0..4_u64 {
            scope.spawn(move || {
                let mut seed = worker;
                while Instant::now() < until {
                    seed += 4;
                    match worker {
                        0 => {
                            let stream = UnixStream::connect(instance.dir().join(".s.PGSQL.5432"))
                                .expect("connected");
                            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
                            abuse(stream, seed, true);
                        }
                        1 => {
                            let stream =
                                TcpStream::connect(("127.0.0.1", port)).expect("connected");
                            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
                            abuse(stream, seed, false);
                        }
                        2 => {
                            let stream = tls(instance, port, &[b"postgresql"]);
                            let _ = stream.sock.set_read_timeout(Some(Duration::from_millis(200)));
                            abuse(stream, seed, false);
                        }
                        _ => {
                            // A handshake that goes wrong in the middle.
                            let mut stream =
                                TcpStream::connect(("127.0.0.1", port)).expect("connected");
                            let mut hello = vec![0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
                            hello.extend(random(usize::try_from(seed % 300).expect("small"), seed));
                            let _ = stream.write_all(&hello);
                            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
                            let _ = stream.read(&mut [0; 1000]);
                        }
                    }
                }
            });
        }
    });
    assert_eq!(instance.text("SELECT 1"), "1");
    psql(instance, port, "boss", VERIFIED, "SELECT 1").ok();
    let log = instance.read("serve.log");
    assert!(!log.contains("panicked"), "{log}");
    let after = memory(instance);
    assert!(after < before + (200 << 10), "{before} KiB before, {after} KiB after");
}

/// One connection: perhaps a good beginning, then nonsense in all sorts of shapes.
fn abuse(mut stream: impl Read + Write, seed: u64, inside: bool) {
    let random = random(1 << 16, seed);
    let pick = |at: usize, of: usize| usize::from(random[at]) % of;
    let length = usize::from(random[1]) << pick(2, 8);
    if inside || pick(0, 3) > 0 {
        let _ = stream.write_all(&startup("boss"));
        let _ = stream.read(&mut [0; 2000]);
    }
    let kinds = b"PBDECSQXHdcfpF\0R";
    for step in 0..pick(3, 20) + 1 {
        let from = step * 64 + 4;
        let kind = kinds[pick(from, kinds.len())];
        let body = &random[from..(from + length / (step + 1)).min(random.len())];
        let mut packet = match pick(from + 1, 4) {
            // Names of statements, numbers that are too large, and valid statements among it.
            0 => framed(
                b'P',
                &[b"s\0SELECT $1::int FROM v$asm_disk\0", &body[..body.len().min(9)]].concat(),
            ),
            1 => framed(b'B', &[b"\0s\0", body].concat()),
            2 => framed(kind, body),
            _ => framed(b'Q', &[body, b"\0"].concat()),
        };
        if pick(from + 2, 8) == 0 {
            // A length that is a lie.
            packet[1..5].copy_from_slice(&random[from + 3..from + 7]);
        }
        if stream.write_all(&packet).is_err() {
            return;
        }
    }
    let _ = stream.write_all(&framed(b'S', b""));
    let _ = stream.flush();
    let _ = stream.read(&mut [0; 4000]);
}

/// Bytes that follow from a seed.
fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}
