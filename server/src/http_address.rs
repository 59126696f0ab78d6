//! Listening for HTTP: the address, the files for TLS, and the token that clients show.
//!
//! On a loopback address neither is needed. On any other both are: without TLS others could read
//! the token, and without a token every user could read the metrics.
//!
//! The token's file is checked before each request and read again when it has changed. If the new
//! one cannot be used, the old one stays, with a line in the alert log.

use crate::{
    alert::Alert,
    tls::{Certificates, TlsFiles},
};
use plinth_engine::event::Severity;
use plinth_host::lock;
use ring::digest::{Digest, SHA256, digest};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read},
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Mutex,
    time::SystemTime,
};

/// A shorter token could be guessed, and a longer one does not fit into a request's head.
const TOKEN_MIN: usize = 16;
const TOKEN_MAX: usize = 1024;
/// Permissions that let every user of the host read or write the token.
const FOR_ALL: u32 = 0o006;

/// Where to listen, and how; remembered in `instance.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAddress {
    pub listen: SocketAddr,
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// The file with the token.
    #[serde(default)]
    pub token: Option<PathBuf>,
}

impl HttpAddress {
    /// # Errors
    /// If others could read the traffic or ask, or a file cannot be used.
    pub fn check(&self) -> io::Result<()> {
        if !self.listen.ip().is_loopback() && (self.tls.is_none() || self.token.is_none()) {
            return Err(io::Error::other(format!(
                "HTTP on {}, which is no loopback address, needs TLS and a token: give --http-tls-cert, --http-tls-key and \
                 --http-token, or listen on 127.0.0.1",
                self.listen
            )));
        }
        self.tls.as_ref().map_or(Ok(()), |files| Certificates::new(files).map(drop))?;
        self.token.as_deref().map_or(Ok(()), |path| Token::new(path).map(drop))
    }
}

/// The time of a file's last change, and its inode.
type Stamp = Option<(SystemTime, u64)>;

/// The token, kept current with its file.
pub(crate) struct Token {
    path: PathBuf,
    /// What is kept of the token is its hash: comparing hashes takes the same time for all guesses.
    read: Mutex<(Stamp, Digest)>,
}

impl Token {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let stamp = stamp(path);
        Ok(Self { path: path.to_owned(), read: Mutex::new((stamp, load(path)?)) })
    }

    /// Whether this is the token.
    pub(crate) fn is(&self, shown: &[u8], alert: &Alert) -> bool {
        let mut read = lock(&self.read);
        let stamp = stamp(&self.path);
        if read.0 != stamp {
            // Logged once for each change.
            read.0 = stamp;
            match load(&self.path) {
                Ok(token) => {
                    read.1 = token;
                    alert.line(Severity::Note, "instance", "the token for HTTP was read again");
                }
                Err(error) => {
                    let text = format!(
                        "the token for HTTP has changed and cannot be used, the old one stays: {error}"
                    );
                    alert.line(Severity::Warning, "instance", &text);
                }
            }
        }
        digest(&SHA256, shown).as_ref() == read.1.as_ref()
    }
}

fn stamp(path: &Path) -> Stamp {
    fs::metadata(path).ok().and_then(|found| Some((found.modified().ok()?, found.ino())))
}

/// The hash of the token in a file.
fn load(path: &Path) -> io::Result<Digest> {
    let place =
        |why: &dyn std::fmt::Display| io::Error::other(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| place(&error))?;
    let found = file.metadata().map_err(|error| place(&error))?;
    if found.mode() & FOR_ALL != 0 {
        return Err(place(&"every user of this host may read or write it; chmod o= it"));
    }
    let mut text = Vec::new();
    let most = TOKEN_MAX as u64 + 2;
    file.take(most).read_to_end(&mut text).map_err(|error| place(&error))?;
    let token = text.trim_ascii();
    if !(TOKEN_MIN..=TOKEN_MAX).contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
        let text = format!(
            "a token is {TOKEN_MIN} to {TOKEN_MAX} letters and digits on one line; openssl rand -hex 32 makes one"
        );
        return Err(place(&text));
    }
    Ok(digest(&SHA256, token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn address(listen: &str, token: Option<PathBuf>) -> HttpAddress {
        HttpAddress { listen: listen.parse().expect("address"), tls: None, token }
    }

    fn token(dir: &Path, text: &str, mode: u32) -> PathBuf {
        let path = dir.join("token");
        let beside = dir.join("beside");
        fs::write(&beside, text).expect("written");
        fs::set_permissions(&beside, fs::Permissions::from_mode(mode)).expect("its mode");
        fs::rename(beside, &path).expect("moved into place");
        path
    }

    #[test]
    fn only_loopback_needs_neither_tls_nor_token() {
        assert!(address("127.0.0.1:9187", None).check().is_ok());
        assert!(address("[::1]:9187", None).check().is_ok());
        let dir = tempfile::tempdir().expect("a directory");
        let token = token(dir.path(), "0123456789abcdef", 0o600);
        for token in [None, Some(token)] {
            let refused = address("0.0.0.0:9187", token).check().expect_err("no TLS").to_string();
            assert!(refused.contains("--http-tls-cert"), "{refused}");
        }
    }

    #[test]
    fn tokens_that_can_be_guessed_or_read_by_all_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        for (text, mode, word) in [
            ("0123456789abcdef", 0o644, "every user"),
            ("0123456789abcde", 0o600, "16 to"),
            ("0123456789abcdef\nmore", 0o600, "one line"),
        ] {
            let path = token(dir.path(), text, mode);
            let refused = Token::new(&path).err().expect("refused").to_string();
            assert!(refused.contains(word) && refused.contains("token"), "{refused}");
        }
    }

    #[test]
    fn a_token_that_has_changed_is_read_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let alert = Alert::new(dir.path().join("alert.log"), false);
        let path = token(dir.path(), "0123456789abcdef\n", 0o600);
        let current = Token::new(&path).expect("a token");
        assert!(current.is(b"0123456789abcdef", &alert));
        assert!(!current.is(b"0123456789abcdeF", &alert) && !current.is(b"", &alert));
        token(dir.path(), "fedcba9876543210", 0o600);
        assert!(current.is(b"fedcba9876543210", &alert));
        assert!(!current.is(b"0123456789abcdef", &alert));
        token(dir.path(), "short", 0o600);
        assert!(current.is(b"fedcba9876543210", &alert), "the old one stays");
    }
}
