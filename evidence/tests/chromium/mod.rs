//! Chromium, spoken to by the DevTools protocol over two pipes. Without it a test says so and ends.
//! `PLINTH_SCREENSHOTS=DIRECTORY` keeps what it has shown.
//!
//! The tests of the dashboard, in another crate, use this file too.

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

/// Widths in pixels and colour schemes in which a page has to be legible.
pub const SCREENS: [(u32, &str); 4] =
    [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")];

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

/// A browser with one page.
pub struct Browser {
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
    pub fn start() -> Option<Self> {
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
            // For reading too: so it is opened at once, even before the other end is.
            File::options().read(true).write(true).open(path).expect("a pipe")
        };
        let (to, from) = (pipe("to"), pipe("from"));
        let process = Command::new("sh")
            .current_dir(directory.path())
            .args(["-c", "exec \"$0\" \"$@\" 3<to 4>from", name])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg("--user-data-dir=profile")
            // It leaves directories there when it is killed.
            .env("TMPDIR", directory.path())
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

    /// The result of a command of the protocol.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
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

    /// Opens a page on a screen of that width, in light or dark.
    pub fn open(&mut self, url: &str, width: u32, scheme: &str) {
        self.show(width, scheme);
        self.events.clear();
        self.ask("Page.navigate", json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.events.push(self.from.recv_timeout(ANSWER).expect("the page is loaded"));
        }
    }

    /// Another screen for the page that is open.
    pub fn show(&mut self, width: u32, scheme: &str) {
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false }),
        );
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.ask("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// The value of an expression, or of its promise.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let wanted =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", wanted);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// The addresses of all requests since the page was opened.
    pub fn requests(&self) -> Vec<String> {
        let is_request = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        let requests = self.events.iter().filter(is_request);
        requests.map(|event| event["params"]["request"]["url"].to_string()).collect()
    }

    /// What the browser complains about: violations of the policy, errors.
    pub fn complaints(&self) -> Vec<String> {
        let is_complaint = |event: &&Value| {
            let is_error = event["method"] == "Runtime.consoleAPICalled"
                && matches!(event["params"]["type"].as_str(), Some("error" | "warning" | "assert"));
            let others = ["Log.entryAdded", "Runtime.exceptionThrown"];
            is_error || others.iter().any(|method| event["method"] == *method)
        };
        self.events.iter().filter(is_complaint).map(ToString::to_string).collect()
    }

    /// Opens a page that is one file, and returns where it is hard to read.
    ///
    /// # Panics
    /// If it has a script, another ground than the scheme's, asks for another file, or the browser
    /// complains.
    pub fn flaws(&mut self, path: &Path, width: u32, scheme: &str) -> Vec<String> {
        self.open(&format!("file://{}", path.display()), width, scheme);
        let found = self.evaluate(FLAWS);
        let ground = self.evaluate("getComputedStyle(document.body).backgroundColor");
        assert_eq!(ground == "rgb(255, 255, 255)", scheme == "light", "{ground}");
        assert_eq!(self.evaluate("document.scripts.length"), 0);
        assert_eq!(self.requests().len(), 1, "{:?}", self.requests());
        assert_eq!(self.complaints(), [""; 0]);
        let flaws = found.as_array().expect("a list").iter();
        flaws.map(|flaw| flaw.as_str().expect("a text").to_owned()).collect()
    }

    /// Keeps a picture of the page, if that is wanted.
    pub fn keep_screenshot(&mut self, name: &str) {
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
