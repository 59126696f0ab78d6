//! A login on the dashboard, and the statements that it runs: by mouse, by keyboard, and by clients
//! that are not the page.

use super::{AWAY, address, by_axe, is_clean, open, pair, see};
use plinth_tests::{
    Instance,
    chromium::Browser,
    http::{ask, post},
    wait_for,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const PASSWORD: &str = "it's \"not\" <a> secret ü";

fn make_user(instance: &Instance, name: &str, role: &str) {
    let password = PASSWORD.replace('\'', "''");
    instance.sql(&format!("CREATE USER {name} PASSWORD '{password}' ROLE {role}"));
}

/// Clicks where a person sees the element.
#[track_caller]
fn click(browser: &mut Browser, element: &str) {
    see(browser, element, &format!("!!{element}"));
    let place = browser.evaluate(&format!(
        "(() => {{ const found = {element}; found.scrollIntoView({{ block: 'center', behavior: 'instant' }});
           const at = found.getBoundingClientRect(); return [at.x + at.width / 2, at.y + at.height / 2]; }})()"
    ));
    for kind in ["mousePressed", "mouseReleased"] {
        let event = json!({
            "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
        });
        browser.ask("Input.dispatchMouseEvent", event);
    }
}

fn press(browser: &mut Browser, key: &str, code: u32) {
    let text = if key == "Enter" { "\r" } else { "" };
    for kind in ["keyDown", "keyUp"] {
        let event = json!({
            "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
        });
        browser.ask("Input.dispatchKeyEvent", event);
    }
}

/// Presses Tab until a text or label has the focus.
fn tab_to(browser: &mut Browser, wanted: &str) {
    for _ in 0..200 {
        let at = browser.evaluate(
            "(() => { const at = document.activeElement;
              return (at.labels?.[0]?.textContent ?? at.getAttribute('aria-label') ?? at.textContent).trim(); })()",
        );
        if at == wanted {
            return;
        }
        press(browser, "Tab", 9);
    }
    panic!("Tab does not lead to {wanted}");
}

fn write(browser: &mut Browser, text: &str) {
    browser.ask("Input.insertText", json!({ "text": text }));
}

/// The button with this text, in the part that a selector gives.
fn button(within: &str, text: &str) -> String {
    let text = Value::from(text);
    format!(
        "[...document.querySelectorAll('{within} button')].find(one => one.textContent.trim() === {text})"
    )
}

fn log_in(browser: &mut Browser, user: &str) {
    click(browser, &button(".login", "Log in"));
    click(browser, "document.querySelector('#login-user')");
    write(browser, user);
    click(browser, "document.querySelector('#login-password')");
    write(browser, PASSWORD);
    click(browser, &button("dialog[open]", "Log in"));
    let shown = format!("document.querySelector('.login').textContent.includes('{user} (')");
    see(browser, "the user", &shown);
}

const STATEMENT: &str = "document.querySelector('dialog[open] [data-statement]')?.textContent";

const ENDED: &str = "!!document.querySelector('dialog[open] [data-fate=done]')";

/// Runs the statement that is asked about, which must be this one.
fn run(browser: &mut Browser, statement: &str) {
    assert_eq!(browser.evaluate(STATEMENT), statement);
    click(browser, &button("dialog[open]", "Run"));
    see(browser, "its end", ENDED);
    click(browser, &button("dialog[open]", "Close"));
}

#[test]
fn a_disk_is_taken_offline_by_a_click_with_its_statement() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    make_user(&instance, "night", "OPERATE");
    let Some(mut browser) = open(port, 1440, "light") else { return };
    see(&mut browser, "the disk", &format!("{AWAY} === 'ONLINE'"));
    assert_eq!(browser.evaluate("!!document.querySelector('.disks button')"), false);
    log_in(&mut browser, "night");
    click(&mut browser, &button("[data-disk=DATA_0001]", "Offline DATA_0001"));
    browser.keep_screenshot("dashboard-ask");
    // It is shown, and has not been run; cancelled, it never is.
    click(&mut browser, &button("dialog[open]", "Cancel"));
    assert_eq!(browser.evaluate(AWAY), "ONLINE");
    click(&mut browser, &button("[data-disk=DATA_0001]", "Offline DATA_0001"));
    run(&mut browser, "ALTER DISKGROUP DATA OFFLINE DISK DATA_0001");
    see(&mut browser, "the disk to be OFFLINE", &format!("{AWAY} === 'OFFLINE'"));
    browser.keep_screenshot("dashboard-operator");
    let group = browser.evaluate(
        "document.querySelector('[data-disk=DATA_0001]').parentElement.dataset.failgroup",
    );
    let group = group.as_str().expect("a failure group").to_owned();
    let online = format!("Online failure group {group}");
    click(&mut browser, &button(&format!("[data-failgroup={group}]"), &online));
    run(&mut browser, &format!("ALTER DISKGROUP DATA ONLINE DISKS IN FAILGROUP {group}"));
    see(&mut browser, "the disk to be back", &format!("{AWAY} === 'ONLINE'"));
    let log = instance.alert_log();
    assert!(log.contains("runs on the dashboard: ALTER DISKGROUP DATA OFFLINE DISK"), "{log}");
    // An operator does not scrub.
    assert_eq!(browser.evaluate(&format!("!!{}", button(".act", "Scrub"))), false);
    click(&mut browser, &button(".login", "Log out"));
    see(&mut browser, "no buttons", "!document.querySelector('.disks button')");
    is_clean(&browser, port);
}

/// All of it without a mouse, on a narrow, dark screen, and by the rules of axe.
#[test]
fn the_power_is_set_and_a_scrub_begun_by_keyboard() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    make_user(&instance, "boss", "ADMINISTER");
    let Some(mut browser) = open(port, 390, "dark") else { return };
    tab_to(&mut browser, "Log in");
    press(&mut browser, "Enter", 13);
    see(&mut browser, "the question", "!!document.querySelector('dialog[open]')");
    by_axe(&mut browser, "the login");
    tab_to(&mut browser, "User");
    write(&mut browser, "boss");
    tab_to(&mut browser, "Password");
    write(&mut browser, "wrong");
    press(&mut browser, "Enter", 13);
    let refused = "document.querySelector('dialog[open] [role=alert]')?.textContent.includes('wrong password')";
    see(&mut browser, "the refusal", refused);
    tab_to(&mut browser, "Password");
    write(&mut browser, PASSWORD);
    press(&mut browser, "Enter", 13);
    see(&mut browser, "the buttons", &format!("!!{}", button(".act", "Scrub")));
    by_axe(&mut browser, "an administrator's page");
    super::narrow(&mut browser, "an administrator's page");
    tab_to(&mut browser, "Power of the rebalance, 0 to 1024");
    browser.evaluate("document.activeElement.select()");
    write(&mut browser, "7");
    press(&mut browser, "Enter", 13);
    is_asked(&mut browser, "ALTER DISKGROUP DATA REBALANCE POWER 7");
    by_axe(&mut browser, "a statement");
    run_by_keyboard(&mut browser);
    press(&mut browser, "Escape", 27);
    see(&mut browser, "no question", "!document.querySelector('dialog[open]')");
    tab_to(&mut browser, "Scrub");
    press(&mut browser, "Enter", 13);
    is_asked(&mut browser, "ALTER DISKGROUP DATA SCRUB REPAIR");
    run_by_keyboard(&mut browser);
    wait_for("the scrub", || instance.alert_log().contains("scrub"));
    // A refused login is a response that the browser counts as an error.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|one| one.contains("401")), "{complaints:?}");
    let own = format!("\"{}", address(port));
    assert!(browser.requests().iter().all(|url| url.starts_with(&own)));
}

/// Waits until the page asks whether to run this statement.
fn is_asked(browser: &mut Browser, statement: &str) {
    see(browser, "the statement", &format!("{STATEMENT} === '{statement}'"));
}

/// Runs the statement that is asked about, and waits for its end.
fn run_by_keyboard(browser: &mut Browser) {
    tab_to(browser, "Run");
    press(browser, "Enter", 13);
    see(browser, "its end", ENDED);
}

fn session(port: u16, user: &str) -> String {
    let login = json!({ "user": user, "password": PASSWORD }).to_string();
    let (head, body) = post(port, "/api/login", &login, "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head} {body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    format!("Plinth-Session: {}\r\n", body["session"].as_str().expect("a key"))
}

/// The status, and what has become of the statement.
fn run_by(port: u16, statement: &str, session: &str) -> (u16, Value) {
    let order = json!({ "statement": statement }).to_string();
    let (head, body) = post(port, "/api/statement", &order, session);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), serde_json::from_str(&body).unwrap_or(Value::Null))
}

#[test]
fn nothing_runs_without_a_login_or_beyond_its_role() {
    const OFFLINE: &str = "ALTER DISKGROUP data OFFLINE DISK data_0001";
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    for (name, role) in [("boss", "ADMINISTER"), ("night", "OPERATE"), ("viewer", "LOOK")] {
        make_user(&instance, name, role);
    }
    for session in ["", "Plinth-Session: x\r\n"] {
        assert_eq!(run_by(port, OFFLINE, session).0, 401);
    }
    for (user, password) in [("night", "x"), ("nobody", PASSWORD), ("", ""), ("night", "")] {
        let login = json!({ "user": user, "password": password }).to_string();
        let (head, body) = post(port, "/api/login", &login, "");
        assert!(
            head.starts_with("HTTP/1.1 401 ") && !body.contains(user) | user.is_empty(),
            "{head} {body}"
        );
    }
    let log = instance.alert_log();
    assert!(log.contains("login of \"nobody\" from 127.0.0.1:"), "{log}");
    let refused = |statement: &str, session: &str, word: &str| {
        let (status, fate) = run_by(port, statement, session);
        let error = fate["error"].as_str().unwrap_or_default();
        assert!(status == 200 && error.contains(word), "{statement}: {status} {fate}");
    };
    let (boss, night, viewer) =
        (session(port, "boss"), session(port, "NIGHT"), session(port, "viewer"));
    refused(OFFLINE, &viewer, "may look");
    refused("ALTER DISKGROUP data SCRUB REPAIR", &night, "may operate");
    for statement in [
        "DROP DISKGROUP data FORCE INCLUDING CONTENTS",
        "ALTER DISKGROUP data DROP DISK data_0001",
        "SELECT 1",
        "",
        "ALTER DISKGROUP data ONLINE ALL; ALTER DISKGROUP data ONLINE ALL",
    ] {
        refused(statement, &boss, "the dashboard runs");
    }
    refused("ALTER DISKGROUP data OFFLINE DISK nosuch", &boss, "NOSUCH");
    refused("ALTER DISKGROUP", &boss, "");
    // Questions that are none.
    for (json, more, status) in [
        ("{}", "", "400"),
        ("[[[[", "", "400"),
        ("{\"statement\":\"x\",\"more\":1}", "", "400"),
        (&*format!("{{\"statement\":\"{}\"}}", "x".repeat(9000)), "", "413"),
        ("{}", "Origin: http://evil.example\r\n", "403"),
        ("{}", "Sec-Fetch-Site: cross-site\r\n", "403"),
    ] {
        let (head, _) = post(port, "/api/statement", json, &format!("{boss}{more}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{json:.40} {more}: {head}");
    }
    let form = format!("{boss}Content-Type: text/plain\r\nContent-Length: 2\r\n");
    let (head, _) = ask(port, "POST /api/statement", "localhost", &form);
    assert!(head.starts_with("HTTP/1.1 415 "), "{head}");
    let (head, _) = ask(port, "GET /api/statement", "localhost", &boss);
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    assert!(!instance.sql("SELECT mode_status FROM v$asm_disk").contains("OFFLINE"));
    // A session ends with its password, its user, and by itself.
    assert_eq!(
        run_by(port, OFFLINE, &night),
        (200, json!({ "running": false, "notices": [], "error": null, "hint": null }))
    );
    instance.sql("ALTER USER night PASSWORD 'another'");
    assert_eq!(run_by(port, OFFLINE, &night).0, 401);
    instance.sql("DROP USER viewer");
    assert_eq!(run_by(port, OFFLINE, &viewer).0, 401);
    let (head, _) = post(port, "/api/logout", "{}", &boss);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(run_by(port, OFFLINE, &boss).0, 401);
}

/// A statement that waits for an engine keeps no client waiting, and does not keep others out.
#[test]
fn a_statement_in_a_hung_engine_keeps_no_other_client_out() {
    let mut instance = Instance::new();
    let port = pair(&mut instance);
    make_user(&instance, "boss", "ADMINISTER");
    let boss = session(port, "boss");
    instance.signal_engine("data", Signal::STOP);
    let ask_for_power = || run_by(port, "ALTER DISKGROUP data REBALANCE POWER 3", &boss);
    let (waiting, answers): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..12).map(|_| scope.spawn(ask_for_power)).collect();
        let (head, _) = ask(port, "GET /metrics", "localhost", "");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        session(port, "boss");
        asked.into_iter().map(|one| one.join().expect("an answer")).partition(|one| one.0 == 200)
    });
    assert!(waiting.iter().all(|(_, fate)| fate["running"] == true), "{waiting:?}");
    assert_eq!(waiting.len(), 8, "{waiting:?}");
    assert!(answers.iter().all(|(status, _)| *status == 503), "{answers:?}");
    instance.signal_engine("data", Signal::CONT);
    wait_for("a place", || ask_for_power().0 == 200);
}
