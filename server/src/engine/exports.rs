//! Files of the group as block devices for NBD clients (`nbd/`): which file is exported at which
//! address.
//!
//! Each address has a server of its own, started with its first export and stopped with its last.
//! All exports at one address must state the same demands on clients.
//!
//! Clients of the previous engine wait, as survivors, until the file that they used is exported
//! again; then they are served on. Their outstanding writes are ordered before all other changes of
//! the same bytes from the moment in which the clients are adopted: before that no client is
//! served.
//!
//! Permission to connect: over a unix socket, the users that the socket's file lets in. Over TCP,
//! NBD has no passwords: so a client needs a certificate, unless the operator says that whoever can
//! connect may read and write.

use super::{keeping::Keeping, this_thread::ThisThread};
use crate::{
    alert::Alert,
    login_failures::Failures,
    tls::{Certificates, Network},
};
use plinth_engine::{
    admin::{AdminError, Code, VolumeChange},
    catalog::live_stats::LiveClient,
    event::Severity,
    files::session::Session,
    group::Group,
};
use plinth_frontend::{Offer, OfferedFiles};
use plinth_nbd::{Address, Keeper, Limits, Server, Survivor, TlsRefused, TlsSource};
use rustix::fd::{AsFd, OwnedFd};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    os::unix::fs::{PermissionsExt, chown},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

type Result<T> = std::result::Result<T, AdminError>;

/// Where clients connect for an export, and what the address demands of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum At {
    Unix {
        path: PathBuf,
        /// The unix group whose members may connect, in addition to the user that the engine runs
        /// as.
        #[serde(default)]
        group: Option<u32>,
    },
    Tcp(Network),
}

/// A file that is exported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    pub at: At,
    /// The name by which clients ask for it.
    pub name: String,
    /// Relative to the root of the group.
    pub path: String,
    #[serde(default)]
    pub read_only: bool,
}

impl At {
    fn address(&self) -> Address {
        match self {
            Self::Unix { path, .. } => Address::Unix(path.clone()),
            Self::Tcp(network) => Address::Tcp(network.listen),
        }
    }

    /// Whether both are the same address, whatever they demand of clients.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        self.address() == other.address()
    }

    /// Whether the demands of this address are safe and usable.
    ///
    /// # Errors
    /// If strangers could connect, or a file cannot be used.
    pub fn check(&self) -> io::Result<()> {
        let Self::Tcp(network) = self else { return Ok(()) };
        if network.listen.port() == 0 {
            return Err(io::Error::other(format!(
                "{} has no port; 10809 is that of NBD",
                network.listen
            )));
        }
        let has_guard = network.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
        if !has_guard && !network.insecure {
            return Err(io::Error::other(format!(
                "NBD has no passwords: whoever can connect to {} could read and write. Give --tls-cert, --tls-key and \
                 --tls-client-ca, so that clients need a certificate; or say --insecure",
                network.listen
            )));
        }
        network.check()
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

/// Percent-encodes a text for a URI.
fn in_uri(text: &str, plain: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || plain.as_bytes().contains(&byte);
    text.bytes()
        .map(|byte| if kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.at)
    }
}

impl Export {
    /// The URI by which clients find the export.
    #[must_use]
    pub fn uri(&self) -> String {
        let name = in_uri(&self.name, "-._~/");
        match &self.at {
            At::Unix { path, .. } => {
                format!("nbd+unix:///{name}?socket={}", in_uri(&path.to_string_lossy(), "-._~/"))
            }
            At::Tcp(Network { listen, tls, .. }) => {
                format!("{}://{listen}/{name}", if tls.is_some() { "nbds" } else { "nbd" })
            }
        }
    }
}

/// An address, its server, and the files that are exported there.
struct Place {
    at: At,
    server: Server,
    files: Arc<OfferedFiles>,
}

/// All exports of an engine.
pub(super) struct Exporting {
    alert: Alert,
    group: String,
    limits: Arc<Limits>,
    this_thread: Arc<ThisThread>,
    keeping: Arc<Keeping>,
    places: Mutex<Vec<Place>>,
    /// Locked after `places`.
    survivors: Mutex<Vec<Survivor>>,
}

impl Exporting {
    pub fn new(
        alert: Alert,
        group: &str,
        this_thread: Arc<ThisThread>,
        keeping: Arc<Keeping>,
    ) -> Self {
        Self {
            alert,
            group: group.to_owned(),
            limits: Limits::new(),
            this_thread,
            keeping,
            places: Mutex::default(),
            survivors: Mutex::default(),
        }
    }

    fn survivors(&self) -> MutexGuard<'_, Vec<Survivor>> {
        self.survivors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a client of the previous engine: its memory and its socket. A client that is
    /// adopted already is left as it is. `NoSuchFile` if the client has disconnected.
    pub fn adopt(&self, descriptors: Vec<OwnedFd>) -> Result<()> {
        let refused = |why: &dyn fmt::Display| {
            AdminError::new(Code::Invalid, format!("an NBD client is cut: {why}"))
        };
        let mut descriptors = descriptors.into_iter();
        let (Some(memory), Some(socket)) = (descriptors.next(), descriptors.next()) else {
            return Err(refused(&"its descriptors did not come"));
        };
        // Looked up before the memory is validated as a survivor's: if the client is served
        // already, its thread changes that memory meanwhile.
        let id = Survivor::id_of(&memory).map_err(|error| refused(&error))?;
        if self.keeping.has(id) {
            return Ok(());
        }
        let kept = (memory.try_clone(), socket.try_clone());
        let survivor =
            Survivor::new(&self.limits, memory, socket).map_err(|error| match error.kind() {
                io::ErrorKind::NotConnected => AdminError::new(Code::NoSuchFile, error),
                _ => refused(&error),
            })?;
        if let (Ok(memory), Ok(socket)) = kept {
            self.keeping.keep(id, memory.as_fd(), socket.as_fd());
        }
        self.survivors().push(survivor);
        Ok(())
    }

    /// Cuts the survivors for which `is_meant` holds.
    pub fn cut_survivors(&self, is_meant: impl Fn(&Survivor) -> bool) {
        let survivors = std::mem::take(&mut *self.survivors());
        let (cut, stay): (Vec<_>, Vec<_>) = survivors.into_iter().partition(is_meant);
        self.survivors().extend(stay);
        for survivor in cut {
            let (id, text) = (
                survivor.id(),
                format!("an NBD client of {} at {} is cut", survivor.export(), survivor.place()),
            );
            survivor.cut();
            self.keeping.forget(id);
            self.alert.line(
                Severity::Warning,
                &self.group,
                &format!("{text}: it is not exported any more"),
            );
        }
    }

    /// Serves the survivors of an export again.
    fn resume(&self, server: &Server, place: &str, name: &str) {
        let survivors = std::mem::take(&mut *self.survivors());
        let (ours, others): (Vec<_>, Vec<_>) = survivors
            .into_iter()
            .partition(|survivor| survivor.place() == place && survivor.export() == name);
        self.survivors().extend(others);
        for survivor in ours {
            let id = survivor.id();
            if let Err(error) = server.resume(survivor) {
                self.keeping.forget(id);
                let text = format!("an NBD client of {name} at {place} is cut: {error}");
                self.alert.line(Severity::Warning, &self.group, &text);
            }
        }
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(at: &At, error: &io::Error) -> AdminError {
        AdminError::new(Code::Io, format!("exporting at {at}: {error}"))
    }

    /// Opens an address.
    fn open(&self, group: Arc<Group>, at: &At) -> io::Result<Place> {
        at.check()?;
        let tls = match at {
            At::Tcp(Network { tls: Some(files), .. }) => {
                Some((self.certificates(Certificates::new(files, None)?), self.refusals(at)))
            }
            _ => None,
        };
        let listener = at.address().bind()?;
        if let At::Unix { path, group: Some(members) } = at {
            chown(path, None, Some(*members))?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
        }
        let files = Arc::new(OfferedFiles::new(
            Session::new(group, None),
            Arc::clone(&self.this_thread) as _,
        ));
        let keeper = (Arc::clone(&self.keeping) as _, at.to_string());
        let server = Server::start(listener, files.clone(), &self.limits, tls, Some(keeper))?;
        self.alert.line(Severity::Note, &self.group, &format!("NBD clients are served at {at}"));
        Ok(Place { at: at.clone(), server, files })
    }

    fn certificates(&self, certificates: Certificates) -> TlsSource {
        let (alert, group) = (self.alert.clone(), self.group.clone());
        Arc::new(move || certificates.now(&alert, &group).config)
    }

    /// Logs each client whose TLS handshake fails, up to a limit per minute.
    fn refusals(&self, at: &At) -> TlsRefused {
        let (alert, group, at) = (self.alert.clone(), self.group.clone(), at.to_string());
        let failures = Failures::default();
        Arc::new(move |from, why| {
            let text = format!("NBD client {from} is refused at {at}: {why}");
            failures.warn(&alert, &group, &text, &format!("NBD clients were refused at {at}"));
        })
    }

    /// Exports a file. An identical export is left as it is.
    pub fn export(&self, group: Arc<Group>, export: &Export) -> Result<()> {
        let Export { at, name, path, read_only } = export;
        let offer = Offer { path: path.clone(), read_only: *read_only };
        let mut places = self.places();
        let place = match places.iter().position(|place| place.at.is_same_place(at)) {
            Some(index) => index,
            None => {
                places.push(self.open(group, at).map_err(|error| Self::failed(at, &error))?);
                places.len() - 1
            }
        };
        let Some(place) = places.get(place) else { return Ok(()) };
        let result = if place.at != *at {
            Err(AdminError::new(Code::Invalid, format!("{at} has other options already"))
                .hint("use them for this export, too, or another address"))
        } else {
            match place.files.offers().get(name) {
                Some(other) if *other == offer => Ok(()),
                Some(other) => {
                    let text = format!("{name} at {at} is +{}/{} already", self.group, other.path);
                    Err(AdminError::new(Code::NameExists, text)
                        .hint("--name gives it another name"))
                }
                None => place.files.offer(name, offer).map_err(|error| {
                    AdminError::new(Code::NoSuchFile, format!("+{}/{path}: {error}", self.group))
                }),
            }
        };
        if result.is_ok() {
            self.resume(&place.server, &at.to_string(), name);
        }
        Self::close_if_empty(&mut places, at);
        result
    }

    fn close_if_empty(places: &mut Vec<Place>, at: &At) {
        places.retain(|place| {
            let stays = !place.at.is_same_place(at) || !place.files.offers().is_empty();
            if !stays {
                place.server.stop();
            }
            stays
        });
    }

    /// Ends an export.
    pub fn withdraw(&self, at: &At, name: &str, cut: bool) -> Result<()> {
        let mut places = self.places();
        self.cut_survivors(|survivor| {
            survivor.place() == at.to_string() && survivor.export() == name
        });
        let place = places.iter().find(|place| place.at.is_same_place(at));
        let Some(place) = place.filter(|place| place.files.offers().contains_key(name)) else {
            return Err(AdminError::new(
                Code::NoSuchFile,
                format!("{name} is not exported at {at}"),
            ));
        };
        let clients = place.server.clients_of(name);
        if clients > 0 && !cut {
            return Err(AdminError::new(
                Code::Busy,
                format!("{name} at {at} is used by {}", clients_text(clients)),
            )
            .hint("end them, or give -f to cut them"));
        }
        place.files.withdraw(name);
        // Cuts even a client that has connected since the check above.
        place.server.cut(name);
        Self::close_if_empty(&mut places, at);
        Ok(())
    }

    /// All exports, and how many clients each has.
    pub fn list(&self) -> Vec<(Export, usize)> {
        let mut all = Vec::new();
        for place in self.places().iter() {
            for (name, offer) in place.files.offers() {
                let clients = place.server.clients_of(&name);
                let Offer { path, read_only } = offer;
                all.push((Export { at: place.at.clone(), name, path, read_only }, clients));
            }
        }
        all
    }

    /// Rows of `v$asm_client`: exports with a client.
    pub fn clients(&self) -> Vec<LiveClient> {
        let row = |(export, clients): (Export, usize)| LiveClient {
            instance: export.name,
            kind: "NBD".to_owned(),
            mount_point: Some(export.at.to_string()),
            open_files: Some(clients as u64),
            ..LiveClient::default()
        };
        self.list().into_iter().filter(|(_, clients)| *clients > 0).map(row).collect()
    }

    /// The command that ends an export: of a volume by its name, of a file by its path.
    fn end_of(&self, export: &Export) -> String {
        let meant = match export.path.strip_prefix(".volumes/") {
            Some(volume) => format!("-G {} {volume}", self.group),
            None => format!("'+{}/{}'", self.group, export.path.replace('\'', "'\\''")),
        };
        format!("plinth nbd --stop {meant}")
    }

    /// Refuses if anything is exported: such a group is not dropped.
    pub fn refuse_if_any(&self) -> Result<()> {
        match self.list().first() {
            None => Ok(()),
            Some((export, _)) => {
                let text = format!("disk group {} exports {export}", self.group);
                Err(AdminError::new(Code::Busy, text).hint(self.end_of(export)))
            }
        }
    }

    /// Refuses to drop a volume that is exported.
    pub fn refuse_loss(&self, change: &VolumeChange) -> Result<()> {
        let VolumeChange::Drop { name } = change else { return Ok(()) };
        let path = format!(".volumes/{name}");
        match self.list().into_iter().find(|(export, _)| export.path == path) {
            None => Ok(()),
            Some((export, _)) => Err(AdminError::new(
                Code::Busy,
                format!("volume {name} is exported at {}", export.at),
            )
            .hint(self.end_of(&export))),
        }
    }

    /// Refuses if clients are connected: such a group is dismounted by force only.
    pub fn refuse_if_used(&self) -> Result<()> {
        match self.list().into_iter().find(|(_, clients)| *clients > 0) {
            None => Ok(()),
            Some((export, clients)) => {
                let clients = clients_text(clients);
                let text = format!("disk group {}: {export} is used by {clients}", self.group);
                Err(AdminError::new(Code::Busy, text).hint(format!(
                    "end what uses it, or ALTER DISKGROUP {} DISMOUNT FORCE",
                    self.group
                )))
            }
        }
    }

    /// Accepts no more clients, and leaves to the next engine the clients that it can take over.
    pub fn freeze(&self) {
        self.places().iter().for_each(|place| place.server.freeze());
    }

    /// Stops all servers, and cuts their clients.
    pub fn stop(&self) {
        self.cut_survivors(|_| true);
        let places = std::mem::take(&mut *self.places());
        places.iter().for_each(|place| place.server.stop());
    }
}

fn clients_text(clients: usize) -> String {
    if clients == 1 { "an NBD client".to_owned() } else { format!("{clients} NBD clients") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(insecure: bool) -> At {
        At::Tcp(Network {
            listen: "127.0.0.1:10809".parse().expect("address"),
            tls: None,
            insecure,
        })
    }

    #[test]
    fn over_tcp_a_certificate_is_required_unless_the_operator_lifts_that() {
        let refused = tcp(false).check().expect_err("refused").to_string();
        assert!(refused.contains("--insecure") && refused.contains("--tls-client-ca"), "{refused}");
        assert!(tcp(true).check().is_ok());
    }

    #[test]
    fn uris_are_what_clients_take() {
        let path = "/run/a b/nbd.sock".into();
        let export =
            |at| Export { at, name: "db/d&k".into(), path: "db/d&k".into(), read_only: false };
        let unix = export(At::Unix { path, group: None }).uri();
        assert_eq!(unix, "nbd+unix:///db/d%26k?socket=/run/a%20b/nbd.sock");
        assert_eq!(export(tcp(true)).uri(), "nbd://127.0.0.1:10809/db/d%26k");
    }
}
