//! `/metrics`: its figures beside the views and beside what the kernel counts; engines that stop or
//! die; clients that may not ask, and clients that only occupy.

use plinth_tests::{
    Authority, Instance, MIB,
    http::{ask, ask_on, connect, request, serve_http, token_file},
    limited, wait_for,
};
use rustix::process::Signal;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

/// A text with every sample: the name with its labels, and the value.
type Samples = BTreeMap<String, f64>;

/// Bytes that differ from place to place.
fn bytes(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 4096) as u8 ^ at as u8 ^ seed).collect()
}

/// How long a scrape may take, whatever hangs.
const SCRAPE_MAX: Duration = Duration::from_millis(100);

/// The text of a scrape.
fn scrape_text(port: u16) -> String {
    let began = Instant::now();
    let (head, body) = ask(port, "GET /metrics", "localhost", "");
    limited("a scrape", began.elapsed(), SCRAPE_MAX);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body
}

fn scrape(port: u16) -> Samples {
    let text = scrape_text(port);
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

#[track_caller]
fn value(samples: &Samples, name: &str) -> f64 {
    *samples.get(name).unwrap_or_else(|| panic!("no {name} in {samples:#?}"))
}

/// The sum of all samples of this name with these labels.
fn sum(samples: &Samples, name: &str, labels: &[&str]) -> f64 {
    let is_it = |series: &str| {
        series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label))
    };
    samples.iter().filter(|(series, _)| is_it(series)).map(|(_, value)| value).sum()
}

/// A fresh text: one that was read after this call.
fn fresh(port: u16) -> Samples {
    let before = value(&scrape(port), "plinth_http_requests_total");
    let mut now = scrape(port);
    wait_for("a fresh text", || {
        now = scrape(port);
        value(&now, "plinth_http_requests_total") > before
    });
    now
}

/// Bytes that the kernel has read from a loop device, and written to it.
fn kernel_counts(disk: &Path) -> (u64, u64) {
    let device = fs::canonicalize(disk).expect("the device");
    let name = device.file_name().expect("its name").to_string_lossy().into_owned();
    let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("its counters");
    let numbers: Vec<u64> = stat.split_whitespace().map(|word| word.parse().expect("n")).collect();
    (numbers[2] * 512, numbers[6] * 512)
}

/// Bytes of the metrics and of the kernel for a disk, at a moment at which nothing was in flight.
fn at_rest(port: u16, disk: &Path, name: &str) -> ((u64, u64), (u64, u64)) {
    let mut found = None;
    wait_for("a moment without I/O", || {
        let before = kernel_counts(disk);
        let samples = fresh(port);
        let labels = [format!("disk=\"{name}\"")];
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let of = |metric| sum(&samples, metric, &labels) as u64;
        let counted = (of("plinth_disk_read_bytes_total"), of("plinth_disk_written_bytes_total"));
        let is_quiet = kernel_counts(disk) == before;
        found = is_quiet.then_some((counted, before));
        is_quiet
    });
    found.expect("just seen")
}

/// The metrics say the same as the views, and as the kernel has counted.
#[test]
fn figures_agree_with_the_views_and_with_the_kernel() {
    let mut instance = Instance::new();
    let disks: Vec<PathBuf> =
        ["a", "b"].map(|name| instance.add_loop_disk(name, 512 * MIB, 512)).into();
    instance.sql(&format!(
        "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP one DISK '{}' NAME d1 FAILGROUP two DISK '{}' NAME d2",
        disks[0].display(),
        disks[1].display()
    ));
    let mount = instance.mount("data");
    let port = serve_http(&mut instance, &[]);
    fs::write(mount.join("file"), bytes(1, 32 << 20)).expect("written");
    let before: Vec<_> =
        disks.iter().zip(["D1", "D2"]).map(|(disk, name)| at_rest(port, disk, name)).collect();
    fs::write(mount.join("more"), bytes(2, 48 << 20)).expect("written");
    fs::File::open(mount.join("more")).and_then(|file| file.sync_all()).expect("synced");
    for ((disk, name), (counted_before, kernel_before)) in
        disks.iter().zip(["D1", "D2"]).zip(&before)
    {
        let (counted, kernel) = at_rest(port, disk, name);
        let written = counted.1 - counted_before.1;
        assert!(written >= 48 << 20, "{name}: {written}");
        assert_eq!(written, kernel.1 - kernel_before.1, "{name}: written");
        let read = kernel.0 - kernel_before.0;
        assert!(counted.0 - counted_before.0 <= read, "{name}: more was read than there was");
    }
    agree_with_the_views(&instance, port);
    promtool_is_content(&scrape_text(port));
}

fn agree_with_the_views(instance: &Instance, port: u16) {
    // The views first, then the metrics, then the views: what has not changed meanwhile agrees.
    let columns = "SELECT d.name, d.failgroup, d.total_mb, d.free_mb, d.reads, d.writes, d.bytes_read, \
                   d.bytes_written, d.voting_file, d.blocks_repaired, g.total_mb AS g_total_mb, g.free_mb AS g_free_mb, \
                   g.usable_file_mb, g.required_mirror_free_mb, g.offline_disks, s.safe_bytes, s.writable_bytes \
                   FROM v$asm_disk d, v$asm_diskgroup g, v$asm_space s \
                   WHERE d.group_number = g.group_number AND s.group_number = g.group_number ORDER BY d.name";
    let mut found = None;
    wait_for("a moment without I/O", || {
        let before = instance.query(columns);
        let samples = fresh(port);
        let is_quiet = instance.query(columns) == before;
        found = is_quiet.then_some((before, samples));
        is_quiet
    });
    let (rows, samples) = found.expect("just seen");
    assert_eq!(rows.len(), 2);
    let mib = MIB as f64;
    for row in &rows {
        let number = |column: &str| {
            let value = &row[column];
            value.as_f64().or_else(|| value.as_str()?.parse().ok()).expect("a number")
        };
        let text = |column: &str| row[column].as_str().expect("a text").to_owned();
        let (disk, failure_group) = (text("name"), text("failgroup"));
        let labels = format!("{{group=\"DATA\",disk=\"{disk}\",failgroup=\"{failure_group}\"}}");
        let own = [format!("disk=\"{disk}\"")];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        for (metric, meant) in [
            ("plinth_disk_size_bytes", number("total_mb") * mib),
            ("plinth_disk_free_bytes", number("free_mb") * mib),
            ("plinth_disk_voter", f64::from(u8::from(text("voting_file") == "Y"))),
            ("plinth_disk_repaired_blocks_total", number("blocks_repaired")),
        ] {
            assert_eq!(value(&samples, &format!("{metric}{labels}")), meant, "{metric} of {disk}");
        }
        for (metric, column) in [
            ("plinth_disk_reads_total", "reads"),
            ("plinth_disk_writes_total", "writes"),
            ("plinth_disk_read_bytes_total", "bytes_read"),
            ("plinth_disk_written_bytes_total", "bytes_written"),
        ] {
            assert_eq!(sum(&samples, metric, &own), number(column), "{metric} of {disk}");
        }
        for (metric, column, unit) in [
            ("size_bytes", "g_total_mb", mib),
            ("free_bytes", "g_free_mb", mib),
            ("usable_file_bytes", "usable_file_mb", mib),
            ("required_mirror_free_bytes", "required_mirror_free_mb", mib),
            ("safe_bytes", "safe_bytes", 1.0),
            ("writable_bytes", "writable_bytes", 1.0),
        ] {
            let found = value(&samples, &format!("plinth_diskgroup_{metric}{{group=\"DATA\"}}"));
            assert!((found - number(column) * unit).abs() < unit, "{metric}: {found}");
        }
    }
    let histogram = "SELECT sum(wait_count) AS n FROM v$asm_file_histogram WHERE io_class = 'SYNC'";
    let syncs = instance.number(histogram);
    assert!(syncs > 0.0);
    let counted = "plinth_request_duration_seconds_count{group=\"DATA\",class=\"sync\"}";
    assert_eq!(value(&samples, counted), syncs);
}

/// `promtool check metrics`, where there is one.
fn promtool_is_content(text: &str) {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut tool) = tool else { return };
    let mut stdin = tool.stdin.take().expect("piped");
    stdin.write_all(text.as_bytes()).expect("read");
    drop(stdin);
    let ended = tool.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success() && said.trim().is_empty(), "{said}");
}

const UP: &str = "plinth_engine_up{group=\"DATA\"}";

/// An engine that is stopped answers nothing: a scrape is answered all the same, with its last
/// figures. One that is killed is counted, and its successor is up.
#[test]
fn an_engine_that_stops_or_dies_is_down_and_its_figures_stay() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let port = serve_http(&mut instance, &[]);
    wait_for("the engine to be up", || value(&fresh(port), UP) == 1.0);
    let size = "plinth_diskgroup_size_bytes{group=\"DATA\"}";
    let before = value(&scrape(port), size);
    assert!(before > 0.0);

    instance.signal_engine("data", Signal::STOP);
    for _ in 0..3 {
        let samples = fresh(port);
        assert_eq!((value(&samples, UP), value(&samples, size)), (0.0, before));
        assert!(value(&samples, "plinth_engine_figures_age_seconds{group=\"DATA\"}") > 0.0);
        let broken = "plinth_diskgroup_state{group=\"DATA\",state=\"broken\"}";
        assert_eq!(value(&samples, broken), 1.0);
    }
    instance.signal_engine("data", Signal::CONT);
    wait_for("the engine to be up again", || value(&fresh(port), UP) == 1.0);

    instance.kill_engine("data");
    let restarts = "plinth_engine_restarts_total{group=\"DATA\"}";
    wait_for("the next engine", || {
        let samples = fresh(port);
        value(&samples, restarts) == 1.0 && value(&samples, UP) == 1.0
    });
    instance.sql("ALTER DISKGROUP data DISMOUNT");
    assert!(!fresh(port).contains_key(UP), "a group that shall not be mounted is not down");
    instance.sql("ALTER DISKGROUP data MOUNT");
    wait_for("the group to be there again", || fresh(port).get(UP) == Some(&1.0));
}

/// A disk that hangs does not stop the figures; they say that it hangs, and what that costs.
#[test]
fn a_disk_that_hangs_is_told() {
    let mut instance = Instance::new();
    let steady = [instance.add_disk("a", 256 * MIB), instance.add_disk("b", 256 * MIB)];
    let hanging = instance.add_fault_disk("c", 256 * MIB);
    instance.sql(&format!(
        "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP f1 DISK '{}' FAILGROUP f2 DISK '{}' FAILGROUP f3 DISK '{}' NAME lame \
         ATTRIBUTE 'disk_timeout' = '2'",
        steady[0].display(),
        steady[1].display(),
        hanging.display()
    ));
    let mount = instance.mount("data");
    fs::write(mount.join("file"), bytes(3, 8 << 20)).expect("written");
    let port = serve_http(&mut instance, &[]);
    let of = |metric: &str, more: &str| {
        format!("{metric}{{group=\"DATA\",disk=\"LAME\",failgroup=\"F3\"{more}}}")
    };
    assert_eq!(fresh(port).get(&of("plinth_disk_mode", ",mode=\"online\"")), Some(&1.0));
    instance.faulty("c").hang();
    wait_for("the disk to be offline", || {
        let samples = fresh(port);
        assert_eq!(value(&samples, UP), 1.0, "the engine answers all the while");
        samples.contains_key(&of("plinth_disk_mode", ",mode=\"offline\""))
    });
    let samples = fresh(port);
    assert_eq!(value(&samples, "plinth_diskgroup_disks{group=\"DATA\",mode=\"offline\"}"), 1.0);
    assert!(value(&samples, &of("plinth_disk_repair_timer_seconds", "")) > 0.0);
    assert!(sum(&samples, "plinth_disk_timeouts_total", &["disk=\"LAME\""]) > 0.0);
    let left = |number| {
        format!(
            "plinth_diskgroup_extents_lacking_mirrors{{group=\"DATA\",mirrors_left=\"{number}\"}}"
        )
    };
    assert!(value(&samples, &left(1)) > 0.0);
    assert_eq!(value(&samples, &left(0)), 0.0);
    instance.faulty("c").heal();
}

#[test]
fn only_reading_by_a_name_of_loopback_is_answered() {
    let mut instance = Instance::new();
    let port = serve_http(&mut instance, &[]);
    for host in ["localhost", "127.0.0.1", "[::1]:9742", &format!("localhost:{port}")] {
        assert!(ask(port, "GET /metrics", host, "").0.starts_with("HTTP/1.1 200 "), "{host}");
    }
    for (line, host, status, word) in [
        ("GET /metrics", "evil.example", "403", "localhost"),
        ("GET /metrics", "", "403", "localhost"),
        ("GET http://evil.example/metrics", "localhost", "403", "localhost"),
        ("GET /etc/passwd", "localhost", "404", "/metrics"),
        ("GET /metrics/../x", "localhost", "404", "/metrics"),
        ("POST /metrics", "localhost", "405", "GET"),
        ("DELETE /metrics", "localhost", "405", "GET"),
    ] {
        let (head, body) = ask(port, line, host, "Content-Length: 0\r\n");
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{line} {host}: {head}");
        assert!(body.contains(word), "{line} {host}: {body}");
    }
    let (head, body) = ask(port, "HEAD /metrics", "localhost", "");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head}");
    let open = "Accept: application/openmetrics-text; version=1.0.0\r\n";
    let (head, body) = ask(port, "GET /metrics", "localhost", open);
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n") && body.contains("# UNIT "), "{body}");
    // Nonsense, and a head without end, cost their own connection.
    let endless = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(64 << 10));
    for nonsense in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", endless.as_str()] {
        let mut socket = connect(port);
        let _ = socket.write_all(nonsense.as_bytes());
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));
    }
    scrape(port);
    // The address is remembered, and so is that there is none.
    let starts = |instance: &Instance| instance.alert_log().matches("answers HTTP on").count();
    for (arguments, count) in [(&[][..], 2), (&["--http", "off"], 2), (&[], 2)] {
        instance.kill_instance();
        instance.start_with(arguments);
        instance.sql("SELECT 1");
        if count > starts(&instance) {
            wait_for("the remembered address", || starts(&instance) == count);
        }
        assert_eq!(starts(&instance), count, "{arguments:?}");
    }
}

fn tls(port: u16, root: &Path) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(root).expect("a certificate")).expect("a root");
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(client, connect(port))
}

/// Without TLS and a token only loopback is listened on; with them a client needs both.
#[test]
fn elsewhere_tls_and_a_token_are_needed() {
    let mut instance = Instance::new();
    let (certificate, key) = Authority::new(&instance, "root").sign("server");
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let token = token_file(&instance, 0o600);
    instance.kill_instance();
    let run = instance.dir().display().to_string();
    let refused = |arguments: &[&str]| {
        instance.plinth([&["serve", "--dir", &run], arguments].concat()).refused()
    };
    let with_tls = ["--http-tls-cert", &certificate, "--http-tls-key", &key];
    let everywhere = ["--http", "0.0.0.0:0"];
    for (more, words) in [
        (&[][..], &["--http-tls-cert", "--http-token", "loopback"][..]),
        (&["--http-token", &token], &["--http-tls-cert"]),
        (&with_tls, &["--http-token"]),
        (
            &["--http-token", &token, "--http-tls-cert", "/nowhere", "--http-tls-key", &key],
            &["/nowhere"],
        ),
    ] {
        let said = refused(&[&everywhere, more].concat());
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    token_file(&instance, 0o644);
    let said = refused(&["--http", "127.0.0.1:0", "--http-token", &token]);
    assert!(said.contains("every user") && said.contains(&token), "{said}");
    token_file(&instance, 0o600);
    instance.start();

    let port = serve_http(&mut instance, &[&with_tls[..], &["--http-token", &token]].concat());
    let ask = |more: &str| {
        ask_on(tls(port, &instance.path("root.pem")), &request("GET /metrics", "localhost", more))
    };
    for wrong in [
        "",
        "Authorization: Bearer 0123456789abcdef0124\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: Basic 0123456789abcdef0123\r\n",
    ] {
        let (head, body) = ask(wrong);
        assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
        assert!(head.to_lowercase().contains("www-authenticate: bearer"), "{head}");
        assert!(body.contains("--http-token") && !body.contains("plinth_"), "{body}");
    }
    let (head, body) = ask("Authorization: Bearer 0123456789abcdef0123\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.contains("plinth_build_info"), "{head}");
    let mut plain = connect(port);
    plain.write_all(request("GET /metrics", "localhost", "").as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("plinth_"), "without TLS nothing is told");
}

/// A thousand clients that send half a request, or read no answer, keep no other client out.
#[test]
fn a_thousand_silent_clients_harm_nobody() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let port = serve_http(&mut instance, &[]);
    let silent = |number: usize| {
        let mut socket = connect(port);
        let half: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET /metr",
            2 => b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ",
            // Asks, and reads nothing.
            _ => b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        };
        let _ = socket.write_all(half);
        socket
    };
    let mut clients = Vec::new();
    for number in 0..1000 {
        clients.push(silent(number));
        if number % 100 == 99 {
            assert_eq!(value(&fresh(port), UP), 1.0);
            assert_eq!(instance.number("SELECT count(*) FROM v$asm_disk"), 2.0);
        }
    }
    let samples = fresh(port);
    assert!(value(&samples, "plinth_http_connections") <= 128.0);
    assert!(value(&samples, "plinth_http_connections_cut_total") > 500.0);
    drop(clients);
    wait_for("the seats to be free", || value(&fresh(port), "plinth_http_connections") < 5.0);
}
