//! Alarms reach a person: each ALARM of the alert log, and each WARNING if wanted, is handed to a
//! command, to sendmail, or to both.
//!
//! ```text
//!   engines ---+                      this thread, "alarm"
//!              +--> alert.log --> log.rs --> limiter.rs --> message.rs --> command.rs --> command
//!   instance --+       ^                                                             \--> sendmail
//!                      +------- "alarm: command /x: ended with exit status 1" ---<---+
//! ```
//!
//! The alert log is the queue. Every process of Plinth appends to it, engines while no instance
//! runs as well, so its lines are all there is. Twice a second the thread:
//!
//!   1. reads the lines that are new since it last looked (`log.rs`);
//!   2. leaves out those that were sent a short time ago, and puts the others into one message
//!      (`limiter.rs`);
//!   3. runs the command and sendmail with that message, beside each other, and waits for both, at
//!      most for the time limit (`command.rs`);
//!   4. notes how far the log has been read.
//!
//! If the instance ends before 4, the next one begins at the noted place: lines of the meantime
//! are sent then, and some may be sent twice. None is left out, unless it is older than a day, or
//! the log could not be written.
//!
//! Invariants:
//!
//!   1. A process that raises an alarm writes its line and waits for nothing here.
//!   2. One thread, and at most one process for the command and one for sendmail. Lines that
//!      arrive meanwhile wait in the log; in memory there are at most as many as the limiter holds.
//!   3. A failure of the command or of sendmail is one WARNING until it works again. Its line is
//!      about `alarm`, and lines about `alarm` are never sent.
//!   4. No text of a disk reaches a shell, and none has control characters.

mod command;
mod limiter;
mod log;
mod message;

use crate::{
    alert::{self, Alert},
    paths::Paths,
};
use command::{Job, Run};
use limiter::Limiter;
use log::{Entry, Follower};
use message::Message;
use plinth_engine::event::Severity;
use plinth_host::lock;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Between two looks at the log.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Lines of the log that are older are not sent: the instance has not run for long, and the mail
/// would be about what is over.
const AGE_NANOS_MAX: i64 = 86_400_000_000_000;
/// How much longer than the time limit of a run its caller waits: for the end of a message that
/// is on its way, and of processes that have to be killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The subject of lines about this module in the alert log (invariant 3).
const ABOUT: &str = "alarm";
/// Where mail is handed over unless the operator says otherwise.
pub const DEFAULT_SENDMAIL: &str = "/usr/sbin/sendmail";
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(600);
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// How alarms are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A program and its arguments; empty: none.
    pub command: Vec<String>,
    /// Addresses for mail, separated by commas, as `addresses` has checked them; empty: none.
    pub mail: String,
    pub sendmail: PathBuf,
    /// The least severity that is sent.
    pub severity: Severity,
    /// How long alike lines are held back after one was sent.
    pub interval: Duration,
    /// How long the command or sendmail may run.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            mail: String::new(),
            sendmail: DEFAULT_SENDMAIL.into(),
            severity: Severity::Alarm,
            interval: DEFAULT_INTERVAL,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

pub use message::addresses;

/// A way by which messages leave.
#[derive(Debug)]
struct Channel {
    /// As the alert log names it.
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// The input is a mail.
    is_mail: bool,
}

impl Settings {
    fn channels(&self) -> Vec<Channel> {
        let command = self.command.split_first().map(|(program, arguments)| Channel {
            name: format!("command {program}"),
            program: program.into(),
            arguments: arguments.to_vec(),
            is_mail: false,
        });
        let mail = (!self.mail.is_empty()).then(|| Channel {
            name: format!("mail to {} by {}", self.mail, self.sendmail.display()),
            program: self.sendmail.clone(),
            arguments: vec!["-t".to_owned()],
            is_mail: true,
        });
        command.into_iter().chain(mail).collect()
    }
}

/// The result of a test for one way: its name, and the reason if it failed.
pub type Tried = (String, Option<String>);

enum Order {
    /// Send this at once, and answer how that went.
    Test(Entry, SyncSender<Vec<Tried>>),
    /// End, and answer then.
    End(SyncSender<()>),
}

/// The ways whose last run failed, by their names, and the reasons. The alert log has a line about
/// each.
type Failing = Arc<Mutex<BTreeMap<String, String>>>;

/// The way to the thread that sends alarms.
pub struct Alarms {
    /// `None`: nothing is to be sent.
    orders: Option<SyncSender<Order>>,
    timeout: Duration,
    ending: Arc<AtomicBool>,
    failing: Failing,
}

impl Alarms {
    /// Starts the thread, if alarms are to be sent. Lines that are written from now on are sent,
    /// and those since the last instance ended.
    #[must_use]
    pub fn start(settings: &Settings, paths: &Paths, alert: &Alert) -> Self {
        let (ending, failing) = (Arc::<AtomicBool>::default(), Failing::default());
        let mut alarms = Self {
            orders: None,
            timeout: settings.timeout,
            ending: Arc::clone(&ending),
            failing: Arc::clone(&failing),
        };
        let channels = settings.channels();
        if channels.is_empty() {
            // Whoever switches it on later does not get old alarms.
            let _ = fs::remove_file(paths.alarm_place());
            return alarms;
        }
        let mut sender = Sender {
            follower: Follower::new(paths.alert(), paths.alarm_place()),
            limiter: Limiter::new(settings.interval),
            settings: settings.clone(),
            channels,
            dir: paths.dir().to_owned(),
            host: message::host(),
            alert: alert.clone(),
            ending,
            failing,
            began: Instant::now(),
        };
        let (orders, receiver) = sync_channel(1);
        let started = thread::Builder::new().name("alarm".into()).spawn(move || {
            sender.check_programs();
            sender.run(&receiver);
        });
        match started {
            Ok(_) => alarms.orders = Some(orders),
            Err(error) => {
                let text = format!("no alarm can be sent: {error}");
                alert.line(Severity::Warning, ABOUT, &text);
                lock(&alarms.failing).insert("alarms".to_owned(), error.to_string());
            }
        }
        alarms
    }

    /// Sends a test by every way, and waits for the results.
    ///
    /// # Errors
    /// With the reason, if there is no way, or the thread is occupied.
    pub fn test(&self, asker: &str) -> Result<Vec<Tried>, String> {
        let Some(orders) = &self.orders else {
            return Err("no alarm is sent: neither a command nor an address for mail is set; set \
                        alarm-command or alarm-mail in /etc/plinth/plinth.toml, and start the \
                        instance again"
                .to_owned());
        };
        let text = format!("this is a test that {asker} has asked for; nothing has failed");
        let time = alert::rfc3339(alert::now());
        let entry = Entry { time, severity: Severity::Alarm, about: "instance".to_owned(), text };
        let (tell, told) = sync_channel(1);
        match orders.try_send(Order::Test(entry, tell)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err("another test runs already".to_owned()),
            Err(TrySendError::Disconnected(_)) => return Err("the instance ends".to_owned()),
        }
        // A message may be on its way before it.
        told.recv_timeout(self.timeout.saturating_mul(2).saturating_add(PATIENCE))
            .map_err(|_| "the alert log cannot be read, or its disk does not answer".to_owned())
    }

    /// The ways by which alarms do not arrive at present, and the reasons.
    #[must_use]
    pub fn failing(&self) -> BTreeMap<String, String> {
        lock(&self.failing).clone()
    }

    /// Ends the thread. A command that runs has a moment to end by itself; what it had to send
    /// is sent again at the next start.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Release);
        let Some(orders) = &self.orders else { return };
        let (tell, told) = sync_channel(1);
        if orders.try_send(Order::End(tell)).is_ok() {
            let _ = told.recv_timeout(command::LAST_GRACE.saturating_mul(2));
        }
    }
}

/// The thread's state.
struct Sender {
    follower: Follower,
    limiter: Limiter,
    settings: Settings,
    channels: Vec<Channel>,
    dir: PathBuf,
    host: String,
    alert: Alert,
    ending: Arc<AtomicBool>,
    failing: Failing,
    began: Instant,
}

impl Sender {
    /// A program that is not there is reported now, not when it is needed.
    fn check_programs(&self) {
        for channel in &self.channels {
            if let Err(reason) = command::check(&channel.program) {
                self.note(channel, Some(&reason));
            }
        }
    }

    fn run(&mut self, orders: &Receiver<Order>) {
        let mut wait = BETWEEN_LOOKS;
        loop {
            match orders.recv_timeout(wait) {
                Ok(Order::Test(entry, answer)) => {
                    let message = Message::test(entry);
                    let _ = answer.send(self.send(&message).unwrap_or_default());
                }
                Ok(Order::End(answer)) => {
                    let _ = answer.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // An instance that ends leaves the rest to the next one.
            let has_more = !self.ending.load(Ordering::Acquire) && self.look();
            wait = if has_more { Duration::ZERO } else { BETWEEN_LOOKS };
        }
    }

    /// Sends what is new. Returns whether the log has more.
    fn look(&mut self) -> bool {
        let now = self.began.elapsed();
        // A log that cannot be read now is read at a later look.
        let (entries, has_more) = self.follower.read().unwrap_or_default();
        let oldest = alert::rfc3339(alert::now().saturating_sub(AGE_NANOS_MAX));
        for entry in entries {
            // Times of one form are in the order of their texts.
            let is_recent = entry.time >= oldest;
            if is_recent && entry.severity >= self.settings.severity && entry.about != ABOUT {
                self.limiter.offer(now, entry);
            }
        }
        if let Some(message) = self.limiter.take(now)
            && self.send(&message).is_none()
        {
            return false;
        }
        if !self.limiter.has_pending() {
            self.follower.keep();
        }
        has_more
    }

    /// Sends a message by every way. `None`: the instance ends, and has ended what ran.
    fn send(&self, message: &Message) -> Option<Vec<Tried>> {
        let environment = message.environment(&self.host, &self.dir);
        let (text, mail) = (message.text(), message.mail(&self.settings.mail, &self.host));
        let jobs = self.channels.iter().map(|channel| Job {
            program: &channel.program,
            arguments: &channel.arguments,
            environment: &environment,
            input: if channel.is_mail { &mail } else { &text },
        });
        let runs = command::run_all(jobs, self.settings.timeout, &self.ending);
        let mut tried = Vec::new();
        for (channel, run) in self.channels.iter().zip(runs) {
            let reason = match run {
                Run::Done => None,
                Run::Failed(reason) => Some(reason),
                Run::CutShort => return None,
            };
            self.note(channel, reason.as_deref());
            tried.push((channel.name.clone(), reason));
        }
        Some(tried)
    }

    /// Writes into the alert log that a way begins to fail, or works again.
    fn note(&self, channel: &Channel, reason: Option<&str>) {
        let name = message::harmless(&channel.name);
        let mut failing = lock(&self.failing);
        let was_failing = match reason {
            Some(reason) => failing.insert(name.clone(), message::harmless(reason)),
            None => failing.remove(&name),
        }
        .is_some();
        drop(failing);
        match reason {
            Some(reason) if !was_failing => {
                let text = format!(
                    "{name}: {reason}. Alarms do not arrive by it; repair it, then try it: plinth alarm test"
                );
                self.alert.line(Severity::Warning, ABOUT, &text);
            }
            None if was_failing => {
                self.alert.line(Severity::Note, ABOUT, &format!("{name}: it works again"));
            }
            _ => {}
        }
    }
}

/// Whether a text is a path that does not depend on where `plinth serve` is started.
#[must_use]
pub fn is_program(text: &str) -> bool {
    Path::new(text).is_absolute() && !text.contains('\0')
}

#[cfg(test)]
mod tests;
