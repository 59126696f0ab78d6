//! A page as Chromium shows it: no request but for itself, nothing wider than the screen, text
//! that can be read and does not cover other text, in light and dark, on a wide and a narrow
//! screen.
//!
//! Chromium is spoken to by the DevTools protocol over two pipes. Without it the tests say so and
//! end. `PLINTH_SCREENSHOTS=DIRECTORY` keeps what it has shown.

mod articles;

use plinth_evidence::{
    draw::{
        Cell, Page, Table,
        bars::{Stack, stacked},
    },
    model::Class,
    run::Run,
};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};
use tempfile::TempDir;

/// How long an answer may take before the browser counts as gone.
const ANSWER: Duration = Duration::from_secs(120);

struct Browser {
    process: Child,
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    asked: u64,
    events: Vec<Value>,
    /// Its profile and its pipes.
    _directory: TempDir,
}

impl Browser {
    /// None if this machine has no Chromium.
    fn start() -> Option<Self> {
        let is_there = |name: &&&str| {
            let found = Command::new("sh").args(["-c", "command -v \"$0\"", *name]).output();
            found.is_ok_and(|found| found.status.success())
        };
        let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
        let Some(name) = names.iter().find(is_there) else {
            println!("not run: no Chromium here (apt-get install chromium)");
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = |name: &str| {
            let path = directory.path().join(name);
            let made = Command::new("mkfifo").arg(&path).status().expect("coreutils");
            assert!(made.success());
            // For reading too: so it is opened at once, whoever is on the other end.
            File::options().read(true).write(true).open(path).expect("a pipe")
        };
        let (to, from) = (pipe("to"), pipe("from"));
        let process = Command::new("sh")
            .current_dir(directory.path())
            .args(["-c", "exec \"$0\" \"$@\" 3<to 4>from", name])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg("--user-data-dir=profile")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let (send, receive) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(from).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("JSON");
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            process,
            to,
            from: receive,
            session: None,
            asked: 0,
            events: Vec::new(),
            _directory: directory,
        };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.ask(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Network.enable", "Page.enable", "Runtime.enable", "Log.enable"] {
            browser.ask(domain, json!({}));
        }
        Some(browser)
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the pipe takes it");
        loop {
            let answer = self.from.recv_timeout(ANSWER);
            let answer = answer.unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.asked {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn open(&mut self, page: &Path, width: u32, scheme: &str) {
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false }),
        );
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.ask("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
        self.events.clear();
        self.ask("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.events.push(self.from.recv_timeout(ANSWER).expect("the page is loaded"));
        }
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self
            .ask("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// The addresses of all requests since the page was opened.
    fn requests(&self) -> Vec<String> {
        let is_request = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        let requests = self.events.iter().filter(is_request);
        requests.map(|event| event["params"]["request"]["url"].to_string()).collect()
    }

    /// What the browser complains about: violations of the policy, errors.
    fn complaints(&self) -> Vec<String> {
        let is_complaint = |event: &&Value| {
            event["method"] == "Log.entryAdded" || event["method"] == "Runtime.exceptionThrown"
        };
        self.events.iter().filter(is_complaint).map(ToString::to_string).collect()
    }

    fn keep_screenshot(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("PLINTH_SCREENSHOTS") else { return };
        let options = json!({ "captureBeyondViewport": true });
        let shot = self.ask("Page.captureScreenshot", options);
        let path = Path::new(&directory).join(format!("{name}.png.base64"));
        std::fs::write(path, shot["data"].as_str().expect("base64")).expect("the directory");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its own children end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Texts of charts that cover each other by more than a hair, that leave their chart, that are
/// smaller than 9.5 pixels, and elements that are wider than the page.
const FLAWS: &str = r"(() => {
  const flaws = [];
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) flaws.push(`the page is ${wide} wide`);
  for (const svg of document.querySelectorAll('svg')) {
    const title = svg.querySelector('title').textContent;
    const scale = svg.clientWidth / svg.viewBox.baseVal.width;
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map(text => {
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < 9.5) flaws.push(`${title}: ${text.textContent}: ${size} pixels`);
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 3 || box.bottom > frame.bottom + 3)
        flaws.push(`${title}: ${text.textContent} leaves the chart`);
      return [box, text.textContent];
    });
    boxes.forEach(([a, one], index) => boxes.slice(index + 1).forEach(([b, other]) => {
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > 1 && y > 4) flaws.push(`${title}: ${one} covers ${other}`);
    }));
  }
  return flaws;
})()";

fn pages() -> Vec<(&'static str, String)> {
    let long = |kinds: &[Class], count: usize| -> Vec<Run> {
        let of = |index: usize| {
            let label = ["bare metal", "a hypervisor with a long name", "array <script>"];
            let ragged = [0.05, 0.4, 0.9][index % 3];
            let rate = 1000.0 - 60.0 * index as f64;
            articles::long(label[index % 3], 28_800, kinds, rate, ragged)
        };
        (0..count).map(of).collect()
    };
    let price = ["--price", "120000", "--at", "p99.9"];
    let preferred = articles::preferred_reads();
    vec![
        ("preferred", articles::page(&preferred, &["--title", "Preferred reads"])),
        ("bake-off", articles::page(&articles::bake_off(), &price)),
        ("two", articles::page(&long(&Class::ALL[..3], 2), &price)),
        ("ten", articles::page(&long(&Class::ALL[..1], 10), &price)),
        ("group", group()),
    ]
}

/// A page that is no comparison.
fn group() -> String {
    let values = [("DATA_0000", [60.0, 30.0, 10.0]), ("DATA_0001", [1.0, 98.0, 1.0])];
    let mut table = Table::new(["disk", "used", "free", "kept", "state"]);
    for (disk, values) in &values {
        let cells = values.map(|value| Cell::from(format!("{value} GiB")).note("of 100 GiB"));
        table.row([Cell::from(*disk)].into_iter().chain(cells).chain([Cell::from("online")]));
    }
    let stacks = values.map(|(label, values)| Stack {
        label,
        values: values.to_vec(),
        text: "100 GiB".to_owned(),
    });
    let parts = ["used", "free", "kept for the failure of a disk"];
    let chart = stacked("space", "Space by disk", "DATA_0000 is fuller.", &parts, &stacks);
    let mut page = Page::new("Group DATA");
    page.paragraph("Two disks, normal redundancy.").section("Space").chart(&chart, &table);
    page.table("Disks", &table).section("Alert log");
    let line = "2026-11-29 15:05:24 group DATA: rebalance has moved 1,024 units in 12.3 s";
    page.lines("The alert log's last day", &[line, line]);
    page.finish()
}

#[test]
fn pages_make_no_request_and_are_legible_on_wide_and_narrow_screens_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut flaws = Vec::new();
    for (name, text) in pages() {
        let path = directory.path().join(format!("{name}.html"));
        std::fs::write(&path, text).expect("the directory is ours");
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
            browser.open(&path, width, scheme);
            let found = browser.evaluate(FLAWS);
            for flaw in found.as_array().expect("a list") {
                flaws.push(format!("{name} at {width}, {scheme}: {flaw}"));
            }
            let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor");
            assert_eq!(ground == "rgb(255, 255, 255)", scheme == "light", "{ground}");
            assert_eq!(browser.evaluate("document.scripts.length"), 0);
            assert_eq!(browser.requests().len(), 1, "{:?}", browser.requests());
            assert_eq!(browser.complaints(), [""; 0]);
            browser.keep_screenshot(&format!("{name}-{width}-{scheme}"));
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

/// The test above can fail: a page that asks for a picture is found out.
#[test]
fn a_request_would_be_counted() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page.html");
    let text = articles::page(&articles::preferred_reads(), &[]);
    let text = text.replace("<main>", "<main><img src=\"other.png\" alt=\"\"/>");
    std::fs::write(&path, text.replace("default-src 'none'", "img-src *")).expect("ours");
    browser.open(&path, 1280, "light");
    assert_eq!(browser.requests().len(), 2, "{:?}", browser.requests());
}
