//! One message about one or several lines of the alert log: as text for a command, as variables of
//! its environment, as a mail.
//!
//! Names in it may come from hostile disks. Characters that control a terminal, break a line or
//! turn the direction of writing are replaced before anything else is done. A mail's headers have
//! ASCII only: other text is encoded there (RFC 2047). A line of the body begins with a time or
//! with a word of ours, never with a dot.

use super::log::Entry;
use plinth_engine::event::Severity;
use std::{fmt::Write, path::Path};

/// Characters of the text in a mail's subject.
const SUBJECT_MAX: usize = 120;
/// Bytes of a line of a mail: RFC 5322 allows 998.
const LINE_BYTES_MAX: usize = 900;
/// Characters of an encoded word: RFC 2047 allows 75, and 12 are its frame.
const ENCODED_MAX: usize = 60;

/// Text without characters that do more than show themselves.
pub(super) fn harmless(text: &str) -> String {
    let is_harmful = |letter: char| {
        letter.is_control()
            || matches!(letter,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().map(|letter| if is_harmful(letter) { '\u{FFFD}' } else { letter }).collect()
}

/// This host's name.
pub(super) fn host() -> String {
    harmless(&rustix::system::uname().nodename().to_string_lossy())
}

/// Checks addresses that are separated by commas, and writes them in one form.
///
/// # Errors
/// With the one that is none, and the reason.
pub fn addresses(list: &str) -> Result<String, String> {
    let mut found = Vec::new();
    for address in list.split(',').map(str::trim) {
        let is_plain = |letter: char| {
            letter.is_ascii_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-".contains(letter)
        };
        let (name, place) = address.split_once('@').unwrap_or((address, "localhost"));
        let is_address = [name, place]
            .iter()
            .all(|part| !part.is_empty() && !part.starts_with('-') && part.chars().all(is_plain));
        if !is_address {
            return Err(format!(
                "'{}' is no address for mail: give name@host or a user of this host, several with commas between",
                harmless(address)
            ));
        }
        found.push(address);
    }
    Ok(found.join(", "))
}

/// The lines of one message. The default has none.
#[derive(Debug, Default)]
pub(super) struct Message {
    lines: Vec<Entry>,
    /// Events that the lines stand for, and those that are left out.
    count: u64,
    /// Lines that are left out.
    left_out: u64,
    is_test: bool,
}

impl Message {
    pub fn test(entry: Entry) -> Self {
        Self { lines: vec![entry], count: 1, left_out: 0, is_test: true }
    }

    /// Adds a line that stands for `count` events.
    pub fn add(&mut self, entry: Entry, count: u64) {
        self.count = self.count.saturating_add(count);
        if self.lines.len() < super::limiter::LINES_MAX {
            self.lines.push(entry);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    #[cfg(test)]
    pub fn lines(&self) -> &[Entry] {
        &self.lines
    }

    /// How many events it is about.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The line that stands for all: the first of the gravest.
    fn first(&self) -> Option<&Entry> {
        let gravest = self.lines.iter().map(|entry| entry.severity).max()?;
        self.lines.iter().find(|entry| entry.severity == gravest)
    }

    /// The lines, each ended by a line break.
    pub fn text(&self) -> String {
        let mut text: String = self.lines.iter().map(|entry| entry.line() + "\n").collect();
        if self.left_out > 0 {
            let _ = writeln!(text, "{} more lines are in the alert log", self.left_out);
        }
        text
    }

    /// The variables of the command's environment that are about this message.
    pub fn environment(&self, host: &str, dir: &Path) -> Vec<(&'static str, String)> {
        let empty = || (Severity::Alarm, String::new(), String::new(), String::new());
        let (severity, about, text, time) = self.first().map_or_else(empty, |entry| {
            (entry.severity, entry.about.clone(), entry.text.clone(), entry.time.clone())
        });
        vec![
            ("PLINTH_SEVERITY", severity.to_string()),
            ("PLINTH_GROUP", about),
            ("PLINTH_TEXT", text),
            ("PLINTH_TIME", time),
            ("PLINTH_HOST", host.to_owned()),
            ("PLINTH_COUNT", self.count.to_string()),
            ("PLINTH_TEST", if self.is_test { "1" } else { "" }.to_owned()),
            // For commands of `plinth` in it.
            ("PLINTH_DIR", dir.display().to_string()),
        ]
    }

    /// A mail to these addresses.
    pub fn mail(&self, to: &str, host: &str) -> String {
        let mut subject = format!("[{host}] plinth");
        if let Some(Entry { severity, about, text, .. }) = self.first() {
            let kind = if self.is_test { "TEST" } else { "" };
            let kind = if kind.is_empty() { severity.to_string() } else { kind.to_owned() };
            let short: String = text.chars().take(SUBJECT_MAX).collect();
            let end = if short.len() < text.len() { "..." } else { "" };
            subject += &format!(" {kind} {about}: {short}{end}");
        }
        let more = self.count.saturating_sub(1);
        if more > 0 {
            subject += &format!(" (and {more} more)");
        }
        let mut body: String = self.text().lines().map(wrapped).collect();
        body += "\nThis is the alert log's text. What is the case now: plinth status\n";
        format!(
            "To: {to}\nSubject: {}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
             Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n{body}",
            header(&subject)
        )
    }
}

/// A line of a body, in pieces if it is too long for a mail.
fn wrapped(line: &str) -> String {
    let (mut text, mut length) = (String::new(), 0_usize);
    for letter in line.chars() {
        length = length.saturating_add(letter.len_utf8());
        if length > LINE_BYTES_MAX {
            text += "\n    ";
            length = letter.len_utf8().saturating_add(4);
        }
        text.push(letter);
    }
    text + "\n"
}

/// The value of a header. Text that is not plain becomes encoded words, each on a line.
fn header(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && !text.contains("=?")
        && text.len() < LINE_BYTES_MAX;
    if is_plain {
        return text.to_owned();
    }
    let mut words = vec![String::new()];
    for letter in text.chars() {
        let mut bytes = [0; 4];
        let coded = if letter.is_ascii_alphanumeric() {
            letter.to_string()
        } else {
            letter.encode_utf8(&mut bytes).bytes().map(|byte| format!("={byte:02X}")).collect()
        };
        match words.last_mut() {
            Some(word) if word.len().saturating_add(coded.len()) <= ENCODED_MAX => *word += &coded,
            _ => words.push(coded),
        }
    }
    let words: Vec<String> = words.iter().map(|word| format!("=?UTF-8?Q?{word}?=")).collect();
    words.join("\n ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry {
        let line = format!("2026-11-21T03:00:07.125Z ALARM DATA: {text}");
        Entry::parse(&line).expect("a line")
    }

    fn mail(text: &str) -> String {
        let mut message = Message::default();
        message.add(entry(text), 1);
        message.mail("dba@example.org", "storage1")
    }

    #[test]
    fn a_mail_has_the_line_in_subject_and_body() {
        let mail = mail("disk D is offline");
        assert!(mail.starts_with(
            "To: dba@example.org\nSubject: [storage1] plinth ALARM DATA: disk D is offline\n"
        ));
        assert!(
            mail.contains("\n\n2026-11-21T03:00:07.125Z ALARM DATA: disk D is offline\n"),
            "{mail}"
        );
    }

    /// Whatever a disk is called, the headers are those that are meant.
    #[test]
    fn no_text_becomes_a_header_or_ends_the_headers() {
        let headers = |mail: &str| -> Vec<String> {
            let (head, _) = mail.split_once("\n\n").expect("a body");
            head.lines()
                .filter(|line| !line.starts_with(' '))
                .map(|line| line.split(':').next().unwrap_or_default().to_owned())
                .collect()
        };
        let expected = headers(&mail("plain"));
        assert_eq!(expected.len(), 6);
        for text in [
            "a\r\nBcc: evil@example.org",
            "a\u{2028}Bcc: evil@example.org\u{85}\u{0}\u{7f}",
            "=?UTF-8?Q?=0ABcc:_evil?=",
            &"\u{e4}\u{1f600}".repeat(2000),
            &"x".repeat(4000),
            "\u{202e}gpj.\u{200b}",
        ] {
            let mail = mail(text);
            assert_eq!(headers(&mail), expected, "{mail}");
            let (head, body) = mail.split_once("\n\n").expect("a body");
            assert!(head.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
            let encoded = |line: &&str| line.starts_with(" =?") || line.contains(": =?");
            assert!(head.lines().filter(encoded).all(|line| line.len() <= 85), "{head}");
            assert!(body.lines().all(|line| line.len() <= 998 && !line.starts_with('.')));
            assert!(!mail.contains("\nBcc"), "{mail}");
        }
    }

    #[test]
    fn an_encoded_subject_is_what_it_was() {
        let text = "disk \u{e4}\u{1f600}_=? is offline, ".repeat(8);
        let mut bytes = Vec::new();
        for word in header(&text).split("\n ") {
            assert!(word.len() <= 75, "{word}");
            let inner = word.strip_prefix("=?UTF-8?Q?").and_then(|word| word.strip_suffix("?="));
            let mut letters = inner.expect("a word").bytes();
            while let Some(byte) = letters.next() {
                let mut digit = || letters.next().map(char::from).and_then(|c| c.to_digit(16));
                bytes.push(match byte {
                    b'=' => digit().zip(digit()).map(|(a, b)| (a * 16 + b) as u8).expect("two"),
                    byte => byte,
                });
            }
        }
        assert_eq!(String::from_utf8(bytes).expect("UTF-8"), text);
    }

    #[test]
    fn the_gravest_line_stands_for_all() {
        let mut message = Message::default();
        message.add(Entry { severity: Severity::Warning, ..entry("a warning") }, 1);
        message.add(entry("an alarm"), 5);
        let environment = message.environment("storage1", Path::new("/run/plinth"));
        let value = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        assert_eq!(value("PLINTH_SEVERITY"), "ALARM");
        assert_eq!(value("PLINTH_TEXT"), "an alarm");
        assert_eq!((value("PLINTH_COUNT"), value("PLINTH_GROUP")), ("6", "DATA"));
        assert_eq!(message.text().lines().count(), 2);
        assert!(message.mail("root", "h").contains("an alarm (and 5 more)\n"));
    }

    #[test]
    fn addresses_are_checked_before_they_are_used() {
        for (list, expected) in [
            ("dba@example.org", "dba@example.org"),
            ("root", "root"),
            (" a@b ,c+d@e.f ", "a@b, c+d@e.f"),
        ] {
            assert_eq!(addresses(list).as_deref(), Ok(expected));
        }
        for list in
            ["a b@c", "-oQ/tmp", "a@b\nBcc: c", "a@", "@b", "a,,b", "<a@b>", "a@b@c", "\u{e4}@b"]
        {
            assert!(addresses(list).is_err_and(|error| error.contains("no address")), "{list}");
        }
    }
}
