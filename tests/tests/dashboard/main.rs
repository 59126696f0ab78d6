//! The dashboard, as Chromium shows it: a failure group that goes and returns, a
//! rebalance to its end, an engine that hangs, hostile names, narrow and dark screens; and clients
//! that read nothing.

mod actions;

use plinth_tests::{
    Instance, MIB,
    chromium::Browser,
    http::{ask, connect, serve_http, token_file},
    limited, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    time::{Duration, Instant},
};

/// A disk or an engine that stops answering is shown within this time.
const SHOWN_MAX: Duration = Duration::from_secs(10);

/// The bytes that a program writes.
fn bytes(seed: u8, length: usize) -> Vec<u8> {
    vec![seed; length]
}

fn address(port: u16) -> String {
    format!("http://localhost:{port}/")
}

/// Opens the page and waits until it is live. None: there is no browser, or no page in the program.
fn open(port: u16, width: u32, scheme: &str) -> Option<Browser> {
    let (head, _) = ask(port, "GET /", "localhost", "");
    if !head.contains("text/html") {
        println!("not run: the dashboard was not built (npm ci && npm run build in dashboard/)");
        return None;
    }
    let mut browser = Browser::start()?;
    browser.open(&address(port), width, scheme);
    see(&mut browser, "the page to be live", "!!document.querySelector('[data-link=live]')");
    Some(browser)
}

/// Waits until an expression is true on the page.
#[track_caller]
fn see(browser: &mut Browser, what: &str, expression: &str) {
    wait_for(what, || browser.evaluate(expression) == Value::Bool(true));
}

/// Waits until an expression is true on the page, of something that happened at `began`.
#[track_caller]
fn see_in_time(browser: &mut Browser, began: Instant, what: &str, expression: &str) {
    see(browser, what, expression);
    limited(what, began.elapsed(), SHOWN_MAX);
}

/// Whether the page has this text, as text.
fn shows(text: &str) -> String {
    format!("document.querySelector('main').textContent.includes({})", Value::from(text))
}

/// Nothing was asked of others, and the browser complains about nothing.
fn is_clean(browser: &Browser, port: u16) {
    let own = format!("\"{}", address(port));
    let requests = browser.requests();
    assert!(requests.len() >= 4, "a page, a script, a style, a stream: {requests:?}");
    assert!(requests.iter().all(|url| url.starts_with(&own)), "{requests:?}");
    assert_eq!(browser.complaints(), [""; 0]);
}

fn pair(instance: &mut Instance) -> u16 {
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[512 * MIB]], "");
    serve_http(instance, &[])
}

/// The failure group of DATA_0001, which tests take away.
const AWAY: &str = "document.querySelector('[data-disk=DATA_0001]')?.dataset.mode";

#[test]
fn a_failure_group_goes_and_returns_on_the_page() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    let mount = instance.mount("data");
    fs::write(mount.join("file"), bytes(1, 8 << 20)).expect("written");
    let Some(mut browser) = open(port, 1440, "light") else { return };
    see(&mut browser, "both disks to be ONLINE", &format!("{AWAY} === 'ONLINE'"));
    see(&mut browser, "the findings", "!document.body.textContent.includes('Being looked for')");
    browser.keep_screenshot("dashboard-whole");
    instance.sql("ALTER DISKGROUP data OFFLINE DISK data_0001");
    see(&mut browser, "the disk to be OFFLINE", &format!("{AWAY} === 'OFFLINE'"));
    see(&mut browser, "the finding", &shows("DISK OFFLINE DATA_0001"));
    let remedy = "[...document.querySelectorAll('.findings .warning code')]\
                  .some(code => code.textContent.startsWith('ALTER DISKGROUP DATA ONLINE'))";
    see(&mut browser, "the statement that mends it", remedy);
    let said = "document.querySelector('[role=status]').textContent";
    see(&mut browser, "that it is said", &format!("{said}.includes('DISK OFFLINE DATA_0001')"));
    see(&mut browser, "the title to warn", "document.title.startsWith('WARNING')");
    let log = "document.querySelector('.log').textContent.includes('offline')";
    see(&mut browser, "the line of the alert log", log);
    browser.keep_screenshot("dashboard-offline");
    instance.sql("ALTER DISKGROUP data ONLINE DISK data_0001");
    see(&mut browser, "the disk to be back", &format!("{AWAY} === 'ONLINE'"));
    see(
        &mut browser,
        "that it is said",
        &format!("/Mended: .*DATA: DISK OFFLINE DATA_0001/.test({said})"),
    );
    assert_ne!(browser.evaluate(&shows("DISK OFFLINE DATA_0001")), Value::Bool(true));
    is_clean(&browser, port);
}

#[test]
fn a_rebalance_is_seen_to_its_end() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    let mount = instance.mount("data");
    for number in 0..6 {
        fs::write(mount.join(format!("file{number}")), bytes(number, 48 << 20)).expect("written");
    }
    let Some(mut browser) = open(port, 1440, "light") else { return };
    see(&mut browser, "nothing to move", &shows("Nothing moves."));
    let disk = instance.add_disk("more", 512 * MIB);
    // With power 0 it waits: so it is seen however fast the disks are.
    instance.sql(&format!(
        "ALTER DISKGROUP data ADD FAILGROUP third DISK '{}' REBALANCE POWER 0",
        disk.display()
    ));
    see(&mut browser, "the disk", "!!document.querySelector('[data-failgroup=THIRD]')");
    let waits = "document.querySelector('[data-pass=REBALANCE]')?.textContent.includes('waits')";
    see(&mut browser, "the rebalance to wait", waits);
    browser.keep_screenshot("dashboard-rebalance");
    instance.sql("ALTER DISKGROUP data REBALANCE POWER 8");
    let ended = "document.querySelector('.ended')?.textContent.includes('REBALANCE ended at')";
    see(&mut browser, "its end", ended);
    see(&mut browser, "nothing to move", &shows("Nothing moves."));
    is_clean(&browser, port);
}

/// A disk that does not answer is shown while it is ONLINE and its clients wait.
#[test]
fn a_disk_that_hangs_is_told_and_so_is_its_end() {
    let mut instance = Instance::new();
    instance.add_fault_disk("f0d0", 256 * MIB);
    instance.create_group("data", "EXTERNAL", &[&[256 * MIB]], "");
    let file = instance.mount("data").join("file");
    let port = serve_http(&mut instance, &[]);
    let Some(mut browser) = open(port, 1440, "light") else { return };
    let row = "document.querySelector('[data-disk=DATA_0000]')";
    see(&mut browser, "the disk", &format!("{row}?.dataset.mode === 'ONLINE'"));
    let began = Instant::now();
    instance.faulty("f0d0").hang();
    let writing = std::thread::spawn(move || fs::write(file, bytes(2, 1 << 20)));
    let hangs = format!("{row}.textContent.includes('ONLINE, HUNG')");
    see_in_time(&mut browser, began, "the silence of the disk", &hangs);
    see_in_time(&mut browser, began, "the finding", &shows("DISK HUNG DATA_0000"));
    browser.keep_screenshot("dashboard-hung");
    instance.faulty("f0d0").heal();
    writing.join().expect("the writer").expect("written in the end");
    see(&mut browser, "its end", &format!("!({hangs})"));
    see(&mut browser, "no finding", &format!("!({})", shows("DISK HUNG DATA_0000")));
    is_clean(&browser, port);
}

#[test]
fn an_engine_that_hangs_is_told_and_its_last_figures_stay() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    let Some(mut browser) = open(port, 1440, "light") else { return };
    see(&mut browser, "the disk", &format!("{AWAY} === 'ONLINE'"));
    let began = Instant::now();
    instance.signal_engine("data", Signal::STOP);
    see_in_time(&mut browser, began, "the silence", &shows("The engine does not answer."));
    let critical = "!!document.querySelector('[data-state=CRITICAL]')";
    see_in_time(&mut browser, began, "the state", critical);
    see_in_time(&mut browser, began, "the finding", &shows("ENGINE SILENT"));
    see(&mut browser, "the last figures", &format!("{AWAY} === 'ONLINE'"));
    browser.keep_screenshot("dashboard-silent");
    instance.signal_engine("data", Signal::CONT);
    let up = "document.querySelector('[data-group=DATA]').dataset.up === 'true'";
    see(&mut browser, "the engine", up);
    is_clean(&browser, port);
}

/// Names that come from disks and from programs are text, whatever they are.
#[test]
fn hostile_names_are_text() {
    const HOSTILE: &str = "<img src=x onerror=document.title='taken'>{{7*7}}";
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    let mount = instance.mount("data");
    fs::write(mount.join(HOSTILE), bytes(1, 8 << 20)).expect("written");
    // A disk that no group uses is a finding, by its path.
    let disk = instance.add_disk(&format!("disk{HOSTILE}"), 256 * MIB);
    assert!(disk.to_string_lossy().contains("<img"), "{}", disk.display());
    let Some(mut browser) = open(port, 390, "dark") else { return };
    see(&mut browser, "the file", &shows(&format!("/{HOSTILE}")));
    see(&mut browser, "the disk", &shows(&format!("disk{HOSTILE}")));
    assert_eq!(browser.evaluate("document.images.length"), 0);
    assert_ne!(browser.evaluate("document.title"), "taken");
    is_clean(&browser, port);
    narrow(&mut browser, "hostile names");
}

/// Nothing is wider than the screen, and no text is smaller than 11 pixels.
fn narrow(browser: &mut Browser, what: &str) {
    let flaws = browser.evaluate(
        "(() => {
          const flaws = [];
          const wide = document.documentElement.scrollWidth;
          if (wide > innerWidth) flaws.push(`the page is ${wide} wide`);
          for (const text of document.querySelectorAll('svg text')) {
            const svg = text.ownerSVGElement;
            const scale = svg.clientWidth / svg.viewBox.baseVal.width;
            const size = parseFloat(getComputedStyle(text).fontSize) * scale;
            if (size < 11) flaws.push(`${text.textContent}: ${size} pixels`);
          }
          return flaws;
        })()",
    );
    assert_eq!(flaws, serde_json::json!([]), "{what}");
}

/// On a wide and a narrow screen, in light and dark, by keyboard, and by the rules of axe.
#[test]
fn the_page_is_legible_on_every_screen_and_by_keyboard() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    let mount = instance.mount("data");
    fs::write(mount.join("file"), bytes(1, 8 << 20)).expect("written");
    let other = instance.add_disk("other", 256 * MIB);
    let other = other.display();
    instance.sql(&format!("CREATE DISKGROUP fra EXTERNAL REDUNDANCY DISK '{other}'"));
    let Some(mut browser) = open(port, 1440, "light") else { return };
    see(&mut browser, "both groups", "!!document.querySelector('[data-group=FRA]')");
    see(&mut browser, "a finding", "document.querySelectorAll('.findings li').length > 0");
    see(&mut browser, "the files", &shows("/file"));
    for (width, scheme) in [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")] {
        browser.show(width, scheme);
        see(&mut browser, "the width", &format!("innerWidth === {width}"));
        narrow(&mut browser, &format!("{width}, {scheme}"));
        let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor");
        assert_eq!(ground == "rgb(255, 255, 255)", scheme == "light", "{ground}");
        browser.keep_screenshot(&format!("dashboard-{width}-{scheme}"));
        by_axe(&mut browser, &format!("{width}, {scheme}"));
    }
    by_keyboard(&mut browser);
    is_clean(&browser, port);
}

/// By the rules of axe the page can be used by those who cannot see it well. Does nothing where npm
/// has not fetched axe.
fn by_axe(browser: &mut Browser, at: &str) {
    let axe =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboard/node_modules/axe-core/axe.min.js");
    let Ok(axe) = fs::read_to_string(axe) else { return };
    browser.evaluate(&axe);
    let found = browser.evaluate(
        "axe.run().then(found => found.violations.map(one => `${one.impact} ${one.id}: ${one.nodes[0].html}`))",
    );
    assert_eq!(found, serde_json::json!([]), "{at}");
}

/// Tab leads to the link over the head first, and then to everything that can be used.
fn by_keyboard(browser: &mut Browser) {
    browser.evaluate("document.activeElement.blur(); scrollTo(0, 0)");
    let mut reached = Vec::new();
    for _ in 0..60 {
        for kind in ["keyDown", "keyUp"] {
            let key = serde_json::json!({
                "type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9,
            });
            browser.ask("Input.dispatchKeyEvent", key);
        }
        let at = browser.evaluate(
            "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent).trim()",
        );
        reached.push(at.as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(reached[0], "To the findings");
    for wanted in ["DATA", "FRA", "The last lines, newest first, times in UTC"] {
        assert!(reached.iter().any(|one| one == wanted), "{wanted}: {reached:?}");
    }
}

/// With a token the page itself is shown, and nothing on it until the token is given.
#[test]
fn with_a_token_the_page_asks_for_it() {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let token = token_file(&instance, 0o600);
    let port = serve_http(&mut instance, &["--http-token", &token]);
    for path in ["/api/state", "/api/events", "/metrics"] {
        let (head, body) = ask(port, &format!("GET {path}"), "localhost", "");
        assert!(head.starts_with("HTTP/1.1 401 ") && !body.contains("DATA"), "{head}");
    }
    let shown = "Authorization: Bearer 0123456789abcdef0123\r\n";
    let (head, body) = ask(port, "GET /api/state", "localhost", shown);
    assert!(head.starts_with("HTTP/1.1 200 ") && body.contains("\"DATA\""), "{head}");
    let (head, _) = ask(port, "GET /", "localhost", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    if !head.contains("text/html") {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&address(port), 1440, "light");
    see(&mut browser, "the question", "!!document.querySelector('#token')");
    browser.evaluate("document.querySelector('#token').focus()");
    browser.ask("Input.insertText", serde_json::json!({ "text": "0123456789abcdef0123" }));
    browser.evaluate("document.querySelector('#token').form.requestSubmit()");
    see(&mut browser, "the disks", &format!("{AWAY} === 'ONLINE'"));
}

/// The headers of every answer, and what is refused.
#[test]
fn every_answer_forbids_scripts_of_others() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    for path in ["/", "/api/state", "/metrics", "/nothing", "/assets/../../etc/passwd"] {
        let (head, _) = ask(port, &format!("GET {path}"), "localhost", "");
        let head = head.to_lowercase();
        for wanted in [
            "content-security-policy: default-src 'none'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(wanted), "{path}: {wanted}: {head}");
        }
        assert!(!head.contains("unsafe-") && !head.contains("access-control-allow"), "{head}");
    }
    for (host, more) in [
        ("evil.example", ""),
        ("localhost", "Origin: http://evil.example\r\n"),
        ("localhost", "Origin: null\r\n"),
        ("localhost", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n"),
    ] {
        let (head, body) = ask(port, "GET /api/state", host, more);
        assert!(head.starts_with("HTTP/1.1 403 ") && !body.contains("DATA"), "{more}: {head}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        let (head, _) = ask(port, &format!("{method} /api/state"), "localhost", "");
        assert!(head.starts_with("HTTP/1.1 405 "), "{method}: {head}");
    }
}

/// A stream is one state after the other, each newer, also while an engine does not answer.
#[test]
fn a_stream_goes_on_while_an_engine_hangs() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    let mut socket = connect(port);
    let asked = socket.write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    asked.expect("sent");
    let mut lines = BufReader::new(socket).lines().map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some("HTTP/1.1 200 OK"));
    let mut states = lines.filter_map(|line| {
        let json = line.strip_prefix("data: ")?.to_owned();
        Some(serde_json::from_str::<Value>(&json).expect("a state in one line"))
    });
    let mut next = || states.next().expect("the stream goes on");
    let now = |state: &Value| state["now"].as_i64().expect("a time");
    // The first states of an instance that has just begun may have no group yet.
    let mut first = next();
    wait_for("the group", || {
        first = next();
        first["groups"][0]["name"] == "DATA"
    });
    assert!(now(&next()) >= now(&first));
    instance.signal_engine("data", Signal::STOP);
    wait_for("the silence", || next()["groups"][0]["up"] == false);
    let silent = next();
    assert_eq!(silent["groups"][0]["disks"].as_array().map(Vec::len), Some(2), "{silent}");
    assert!(now(&silent) > now(&first));
    instance.signal_engine("data", Signal::CONT);
    wait_for("the engine", || next()["groups"][0]["up"] == true);
}

fn memory_of(instance: &Instance) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", instance.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}

/// A thousand clients that ask for the stream and read nothing cost bounded memory and keep no
/// other client out.
#[test]
fn clients_that_read_nothing_do_not_make_anything_grow() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    ask(port, "GET /api/state", "localhost", "");
    let before = memory_of(&instance);
    let silent = |_| {
        let mut socket = connect(port);
        let _ = socket.write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        socket
    };
    let clients: Vec<_> = (0..1000).map(silent).collect();
    // Time for the texts of which they take none.
    for _ in 0..10 {
        let (head, body) = ask(port, "GET /api/state", "localhost", "");
        assert!(head.starts_with("HTTP/1.1 200 ") && body.contains("\"DATA\""), "{head}");
        let (head, _) = ask(port, "GET /metrics", "localhost", "");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let grown = memory_of(&instance).saturating_sub(before);
    // 128 seats of some 20 KiB, and threads of the instance that have run meanwhile.
    assert!(grown < 32 << 10, "{grown} KiB more");
    drop(clients);
}
