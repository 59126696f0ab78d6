//! `plinth serve`: from its flags and the configuration file to the options of an instance.
//!
//! A flag, or its environment variable, overrides the key of that name. Flags that belong together
//! replace the keys together: `--listen` all keys of the network, `--http` all of HTTP,
//! `--look-group` and `--look-all` both of these.

use super::{
    Result, alarm_settings,
    configuration::{Configuration, DEFAULT_FILE},
    network::{self, absolute},
};
use crate::{
    instance::{Looking, start::Options},
    paths::{DEFAULT_DIR, Paths},
    sql_error::SqlError,
    users,
};
use clap::Args;
use plinth_host::IoChoice;
use std::path::{Path, PathBuf};

/// Run the instance, in the foreground.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Read these options from a file; flags override it [default: /etc/plinth/plinth.toml, if
    /// it is there and DIR is /run/plinth].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where instance.json and alert.log are [default: DIR; /var/lib/plinth if DIR is
    /// /run/plinth].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Where to look for disks: patterns separated by commas. Remembered.
    #[arg(long, value_name = "PATTERNS")]
    diskstring: Option<String>,
    /// Let the members of this unix group look (SELECT, and nothing else).
    #[arg(long, value_name = "GROUP")]
    look_group: Option<String>,
    /// Let every user of this host look.
    #[arg(long, conflicts_with = "look_group")]
    look_all: bool,
    #[command(flatten)]
    network: network::Arguments,
    #[command(flatten)]
    http: network::HttpArguments,
    #[command(flatten)]
    alarm: alarm_settings::AlarmArguments,
    /// How to do I/O: auto, uring or threads.
    #[arg(long, env = "PLINTH_IO", value_name = "ENGINE")]
    io: Option<IoChoice>,
}

impl Serve {
    /// The options of the instance. `dir`: `--dir`, or the environment's.
    ///
    /// # Errors
    /// If the configuration file, or a value, cannot be used.
    pub fn options(self, dir: Option<PathBuf>) -> Result<Options> {
        let is_default = dir.as_deref().is_none_or(|dir| dir == Path::new(DEFAULT_DIR));
        let file = match &self.config {
            Some(path) => Configuration::read(path)?,
            None if is_default => Configuration::read_if_there(Path::new(DEFAULT_FILE))?,
            None => Configuration::default(),
        };
        let dir = dir.or_else(|| file.path("dir")).unwrap_or_else(|| DEFAULT_DIR.into());
        let state = self.state.map(absolute).or_else(|| file.path("state"));
        let io = match (self.io, file.text("io")) {
            (Some(io), _) => io,
            (None, Some(word)) => word.parse().map_err(|error| file.refusal("io", error))?,
            (None, None) => IoChoice::default(),
        };
        let looking = if self.look_all {
            Looking::Everybody
        } else if let Some(name) = self.look_group {
            of_group(&name, "--look-group")?
        } else {
            looking(&file)?
        };
        let network = match self.network.network()? {
            Some(network) => Some(network),
            None => network::of_file(&file)?,
        };
        let http = match self.http.address()? {
            Some(http) => Some(http),
            None => network::http_of_file(&file)?,
        };
        let alarm = self.alarm.settings(&file)?;
        let diskstring = match (self.diskstring, file.text("diskstring")) {
            (Some(flag), _) => Some(("--diskstring".to_owned(), flag)),
            (None, Some(key)) => Some((file.place("diskstring"), key.to_owned())),
            (None, None) => None,
        };
        Ok(Options {
            paths: Paths::new(&absolute(dir), state.as_deref()),
            diskstring: diskstring.map(not_empty).transpose()?,
            looking,
            network,
            http,
            alarm,
            io,
        })
    }
}

/// A discovery string, and where it was given.
fn not_empty((place, diskstring): (String, String)) -> Result<String> {
    if diskstring.trim().is_empty() {
        return Err(SqlError::new(
            "22023",
            format!("{place}: it is empty, so no disk would be found"),
        )
        .hint("give it patterns separated by commas, or leave it out: then it stays as it is"));
    }
    Ok(diskstring)
}

/// The users who may look, by the file.
fn looking(file: &Configuration) -> Result<Looking> {
    let group = file.text("look-group").unwrap_or_default();
    match (file.flag("look-all").unwrap_or_default(), group) {
        (true, "") => Ok(Looking::Everybody),
        (true, _) => Err(file
            .refusal("look-all", "it is true, and look-group names a group")
            .hint("leave out one of them: look-all lets every user look")),
        (false, name) => of_group(name, &file.place("look-group")),
    }
}

/// The members of a group; of none if it has no name. `place`: where the name was given.
fn of_group(name: &str, place: &str) -> Result<Looking> {
    if name.is_empty() {
        return Ok(Looking::Nobody);
    }
    users::group(name).map(Looking::Group).ok_or_else(|| {
        SqlError::new("22023", format!("{place}: there is no unix group {name}"))
            .hint("groupadd makes one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Arguments, Command};
    use clap::Parser;
    use plinth_engine::event::Severity;

    /// The options that `plinth serve` runs with, given a file and flags.
    fn options(file: &str, flags: &[&str]) -> Result<Options> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("plinth.toml");
        std::fs::write(&path, file).expect("written");
        let path = path.to_str().expect("a path in words");
        let words = ["plinth", "serve", "--config", path];
        let arguments = Arguments::try_parse_from(words.iter().chain(flags)).expect("understood");
        match arguments.command {
            Some(Command::Serve(serve)) => serve.options(arguments.dir),
            other => panic!("{other:?} is not serve"),
        }
    }

    const FILE: &str = r#"
dir = "/run/other"
state = "/srv/state"
diskstring = "/srv/disks/*"
look-group = "root"
listen = "127.0.0.1:6543"
http = "127.0.0.1:9743"
alarm-command = ["/srv/page", "--to", "dba"]
alarm-mail = "dba@example.org,root"
alarm-severity = "warning"
alarm-interval = "1h"
alarm-timeout = "5s"
alarm-sendmail = "/srv/sendmail"
io = "threads"
"#;

    #[test]
    fn a_file_alone_is_enough() {
        let found = options(FILE, &[]).expect("usable");
        assert_eq!(found.paths, Paths::new("/run/other".as_ref(), Some("/srv/state".as_ref())));
        assert_eq!(found.diskstring.as_deref(), Some("/srv/disks/*"));
        assert_eq!(found.looking, Looking::Group(0));
        assert_eq!(found.io, IoChoice::Threads);
        let network = found.network.flatten().expect("an address");
        assert_eq!(network.listen.to_string(), "127.0.0.1:6543");
        assert!(!network.insecure && network.tls.is_none());
        let http = found.http.flatten().expect("an address");
        assert_eq!(http.listen.to_string(), "127.0.0.1:9743");
        let alarm = found.alarm;
        assert_eq!(alarm.command, ["/srv/page", "--to", "dba"]);
        assert_eq!((&*alarm.mail, alarm.severity), ("dba@example.org, root", Severity::Warning));
        assert_eq!((alarm.interval.as_secs(), alarm.timeout.as_secs()), (3600, 5));
        assert_eq!(alarm.sendmail, Path::new("/srv/sendmail"));
    }

    #[test]
    fn flags_override_the_file() {
        let flags = [
            "--dir=/run/mine",
            "--state=/srv/mine",
            "--diskstring=/dev/mine*",
            "--look-all",
            "--listen=[::1]:7654",
            "--http=[::1]:9744",
            "--alarm-command=/srv/mine",
            "--alarm-command=--quick",
            "--alarm-mail=",
            "--alarm-severity=ALARM",
            "--alarm-interval=2m",
            "--alarm-timeout=6s",
            "--alarm-sendmail=/srv/mine",
            "--io=auto",
        ];
        let file = FILE.to_owned() + "insecure = true\nhttp-token = \"/srv/token\"\n";
        let found = options(&file, &flags).expect("usable");
        assert_eq!(found.paths, Paths::new("/run/mine".as_ref(), Some("/srv/mine".as_ref())));
        assert_eq!(found.diskstring.as_deref(), Some("/dev/mine*"));
        assert_eq!(found.looking, Looking::Everybody);
        assert_eq!(found.io, IoChoice::Auto);
        let network = found.network.flatten().expect("an address");
        assert_eq!(network.listen.to_string(), "[::1]:7654");
        assert!(!network.insecure, "of the network nothing of the file is left");
        let http = found.http.flatten().expect("an address");
        assert_eq!(http.listen.to_string(), "[::1]:9744");
        assert!(http.token.is_none(), "of HTTP nothing of the file is left");
        let alarm = found.alarm;
        assert_eq!(alarm.command, ["/srv/mine", "--quick"]);
        assert_eq!((&*alarm.mail, alarm.severity), ("", Severity::Alarm));
        assert_eq!((alarm.interval.as_secs(), alarm.timeout.as_secs()), (120, 6));
        assert_eq!(alarm.sendmail, Path::new("/srv/mine"));
        let nobody = options(FILE, &["--look-group="]).expect("usable");
        assert_eq!(nobody.looking, Looking::Nobody);
        assert!(matches!(
            options(FILE, &["--listen=off"]),
            Ok(Options { network: Some(None), .. })
        ));
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        let found = options("", &["--dir=/run/mine"]).expect("usable");
        assert_eq!(found.paths, Paths::new("/run/mine".as_ref(), None));
        assert!(found.diskstring.is_none() && found.network.is_none() && found.http.is_none());
        assert_eq!(found.looking, Looking::Nobody);
        assert_eq!(found.alarm, crate::alarm::Settings::default());
    }

    #[test]
    fn values_that_cannot_be_used_are_refused_with_their_line() {
        for (file, line, words) in [
            ("\nio = \"fast\"", 2, "io: "),
            ("look-group = \"no such group\"", 1, "look-group: there is no unix group"),
            ("look-group = \"root\"\nlook-all = true", 2, "look-all: it is true"),
            ("\ndiskstring = \" \"", 2, "diskstring: it is empty"),
            ("listen = \"5432\"", 1, "listen 5432: "),
            ("\nlisten = \"192.0.2.1:5432\"", 2, "listen: without TLS only a loopback address"),
            ("insecure = true", 1, "insecure: it says how to listen, and listen says nowhere"),
            ("tls-cert = \"/a\"\ntls-key = \"/b\"", 1, "tls-cert: it says how to listen"),
            ("listen = \"off\"\ninsecure = true", 2, "insecure: it says how to listen"),
            ("listen = \"[::1]:1\"\ntls-key = \"/b\"", 2, "tls-key: there is no tls-cert"),
            ("listen = \"[::1]:1\"\ntls-cert = \"/a\"", 2, "tls-cert: there is no tls-key"),
            ("listen = \"[::1]:1\"\ntls-client-ca = \"/a\"", 2, "tls-client-ca: there is no tls-"),
            ("listen = \"[::1]:1\"\ntls-cert = \"/a\"\ntls-key = \"/b\"", 1, "/a: "),
            ("http = \"9742\"", 1, "http 9742: "),
            (
                "\nhttp-token = \"/a\"",
                2,
                "http-token: it says how to listen, and http says nowhere",
            ),
            ("http = \"off\"\nhttp-tls-cert = \"/a\"", 2, "http-tls-cert: it says how to listen"),
            (
                "http = \"[::1]:1\"\nhttp-tls-key = \"/b\"",
                2,
                "http-tls-key: there is no http-tls-cert",
            ),
            ("\nhttp = \"192.0.2.1:9742\"", 2, "http: "),
            ("alarm-command = [\"page\"]", 1, "alarm-command: page is no absolute path"),
            ("\nalarm-command = [\"\", \"x\"]", 2, "alarm-command: there are arguments, and no"),
            ("alarm-mail = \"a@b\\nBcc: c\"", 1, "alarm-mail: 'a@b\u{fffd}Bcc: c' is no address"),
            ("alarm-severity = \"NOTE\"", 1, "alarm-severity: NOTE is no severity that is sent"),
            ("\nalarm-interval = \"10\"", 2, "alarm-interval: 10 is no time"),
            ("alarm-timeout = \"2h\"", 1, "alarm-timeout: 2h is not from 1s to 3600s"),
        ] {
            let refusal = options(file, &[]).expect_err(file).message;
            let place = format!("plinth.toml, line {line}: ");
            assert!(refusal.contains(&place) && refusal.contains(words), "{file}: {refusal}");
        }
    }
}
