//! `plinth serve`: whom alarms reach, and how. Each flag overrides its key of the configuration
//! file.
//!
//! A program that is not there, or a host that is no mail host, does not prevent a start: databases
//! wait for their storage. The alert log says so instead.

use super::configuration::Configuration;
use crate::{
    alarm::{DEFAULT_INTERVAL, DEFAULT_TIMEOUT, Settings, addresses, is_program},
    sql_error::SqlError,
};
use clap::Args;
use plinth_engine::event::Severity;
use std::{fmt::Display, path::PathBuf, time::Duration};

/// An interval that is longer makes alarms look as if they were over.
const INTERVAL_SECONDS_MAX: u64 = 86_400;
/// A program that takes longer does not send what it was given.
const TIMEOUT_SECONDS_MAX: u64 = 3600;

#[derive(Debug, Args)]
pub(super) struct AlarmArguments {
    /// Run this program for each ALARM in the alert log, with the facts in its environment; its
    /// arguments by further flags of this name. Empty: none.
    #[arg(long, value_name = "PROGRAM", allow_hyphen_values = true)]
    alarm_command: Vec<String>,
    /// Send a mail for each ALARM to these addresses, separated by commas. Empty: none.
    #[arg(long, value_name = "ADDRESSES")]
    alarm_mail: Option<String>,
    /// From which severity on a line is sent: ALARM or WARNING.
    #[arg(long, value_name = "SEVERITY")]
    alarm_severity: Option<String>,
    /// How long alike lines are held back after one was sent, such as 90s, 10m or 2h.
    #[arg(long, value_name = "TIME")]
    alarm_interval: Option<String>,
    /// How long the program may run before it is ended, such as 30s.
    #[arg(long, value_name = "TIME")]
    alarm_timeout: Option<String>,
    /// The program that takes mails, as sendmail -t does.
    #[arg(long, value_name = "PROGRAM")]
    alarm_sendmail: Option<PathBuf>,
}

fn refused(place: &str, why: impl Display) -> SqlError {
    SqlError::new("22023", format!("{place}: {why}"))
}

/// A command and its arguments; empty if the program is.
fn command(place: &str, words: Vec<String>) -> Result<Vec<String>, SqlError> {
    let Some(program) = words.first().filter(|program| !program.is_empty()) else {
        return match words.len() {
            0 | 1 => Ok(Vec::new()),
            _ => Err(refused(place, "there are arguments, and no program")
                .hint("the first word is the program's absolute path")),
        };
    };
    if !is_program(program) {
        return Err(refused(place, format!("{program} is no absolute path"))
            .hint("give the program by its whole path, and each argument as a word of its own"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(refused(place, "a word has a zero byte").hint("leave it out"));
    }
    Ok(words)
}

fn mail(place: &str, list: &str) -> Result<String, SqlError> {
    if list.trim().is_empty() {
        return Ok(String::new());
    }
    addresses(list).map_err(|why| refused(place, why))
}

fn severity(place: &str, word: &str) -> Result<Severity, SqlError> {
    match &*word.to_ascii_uppercase() {
        "ALARM" => Ok(Severity::Alarm),
        "WARNING" => Ok(Severity::Warning),
        _ => Err(refused(place, format!("{word} is no severity that is sent"))
            .hint("ALARM, or WARNING for alarms and warnings")),
    }
}

/// A time such as `90s`, `10m` or `2h`.
fn time(place: &str, text: &str, seconds_max: u64) -> Result<Duration, SqlError> {
    let unit = |letter| match letter {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        _ => None,
    };
    let seconds = text.chars().last().and_then(|letter| {
        let number = text.strip_suffix(letter)?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit(letter)?)
    });
    match seconds {
        Some(seconds @ 1..) if seconds <= seconds_max => Ok(Duration::from_secs(seconds)),
        Some(_) => Err(refused(place, format!("{text} is not from 1s to {seconds_max}s"))
            .hint("give a time within these limits")),
        None => Err(refused(place, format!("{text} is no time"))
            .hint("a number with s, m or h, such as 90s, 10m or 2h")),
    }
}

impl AlarmArguments {
    /// The settings, by flags and by the file.
    ///
    /// # Errors
    /// If a value cannot be used.
    pub fn settings(self, file: &Configuration) -> Result<Settings, SqlError> {
        let words = if self.alarm_command.is_empty() {
            file.words("alarm-command").map(|words| (file.place("alarm-command"), words.to_vec()))
        } else {
            Some(("--alarm-command".to_owned(), self.alarm_command))
        };
        let value = |flag: Option<String>, key: &str| match (flag, file.text(key)) {
            (Some(flag), _) => Some((format!("--{key}"), flag)),
            (None, Some(text)) => Some((file.place(key), text.to_owned())),
            (None, None) => None,
        };
        let sendmail = self.alarm_sendmail.map(|path| path.display().to_string());
        let default = Settings::default();
        let seconds = |given: Option<(String, String)>, max, default| {
            given.map_or(Ok(default), |(place, text)| time(&place, &text, max))
        };
        Ok(Settings {
            command: words.map_or(Ok(default.command), |(place, words)| command(&place, words))?,
            mail: value(self.alarm_mail, "alarm-mail")
                .map_or(Ok(default.mail), |(place, list)| mail(&place, &list))?,
            severity: value(self.alarm_severity, "alarm-severity")
                .map_or(Ok(default.severity), |(place, word)| severity(&place, &word))?,
            interval: seconds(
                value(self.alarm_interval, "alarm-interval"),
                INTERVAL_SECONDS_MAX,
                DEFAULT_INTERVAL,
            )?,
            timeout: seconds(
                value(self.alarm_timeout, "alarm-timeout"),
                TIMEOUT_SECONDS_MAX,
                DEFAULT_TIMEOUT,
            )?,
            sendmail: match value(sendmail, "alarm-sendmail") {
                Some((place, path)) => {
                    command(&place, vec![path])?.into_iter().next().ok_or_else(|| {
                        refused(&place, "it is empty").hint("leave it out for /usr/sbin/sendmail")
                    })?
                }
                .into(),
                None => default.sendmail,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_limits() {
        for (text, seconds) in [("1s", 1), ("90s", 90), ("10m", 600), ("24h", 86_400)] {
            assert_eq!(time("x", text, 86_400).expect(text), Duration::from_secs(seconds));
        }
        for text in
            ["", "s", "5", "10 m", "-1s", "+1s", "0s", "25h", "99999999999999999999h", "1\u{fc}"]
        {
            let refusal = time("--alarm-interval", text, 86_400).expect_err(text);
            assert!(refusal.message.starts_with("--alarm-interval: "), "{}", refusal.message);
            assert!(refusal.hint.is_some());
        }
        assert!(time("x", "18446744073709551615h", u64::MAX).is_err());
    }

    #[test]
    fn a_command_is_an_absolute_path_and_its_arguments() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(command("x", words(&[])).expect("none"), [""; 0]);
        assert_eq!(command("x", words(&[""])).expect("none"), [""; 0]);
        assert_eq!(command("x", words(&["/a", "-b", ""])).expect("one"), ["/a", "-b", ""]);
        for wrong in [&["a"][..], &["", "b"], &["/a\0"], &["/a", "\0"]] {
            assert!(command("x", words(wrong)).is_err(), "{wrong:?}");
        }
    }
}
