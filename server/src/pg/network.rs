//! PostgreSQL's protocol over TCP: off unless the operator gives an address.
//!
//!   - With a certificate every connection must use TLS, either on request (SSLRequest) or from the
//!     first byte (`sslnegotiation=direct`).
//!   - Without one, proofs of passwords and results could be read on the network: only a loopback
//!     address is accepted.
//!   - `--insecure` lifts both, for networks that are trusted otherwise.
//!
//! With `--tls-client-ca` a client needs a certificate of that authority as well as its password.
//!
//! The files are read again when they have changed (`kept.rs`).
//!
//! A client that has not logged in costs a thread and some KiB, for [`super::STARTUP`] at most, and
//! there are never more than [`super::UNAUTHENTICATED_MAX`] of them.

use super::{
    ALPN, CONNECTIONS_MAX, Connection, ConnectionLimits, Door, RESERVED, refuse, stream::Stream,
};
use crate::{
    instance::Instance,
    listening,
    sql_error::{SqlError, state},
    tls::{Certificates, Network},
};
use plinth_engine::event::Severity;
use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

/// Listens on TCP from now on, or, on a remembered address, later (`listening.rs`).
pub(crate) fn listen(
    instance: &Arc<Instance>,
    network: &Network,
    is_new: bool,
    limits: &Arc<ConnectionLimits>,
) -> io::Result<()> {
    let alert = instance.alert().clone();
    let (instance, network, limits) = (Arc::clone(instance), network.clone(), Arc::clone(limits));
    let open = move || Listening::open(&network);
    let start = move |listening: Listening| listening.start(&instance, &limits);
    let loss = "clients cannot connect over the network";
    listening::now_or_later(&alert, is_new, "network", loss, open, start)
}

/// A listening socket, and its configuration.
struct Listening {
    listener: TcpListener,
    certificates: Option<Certificates>,
    insecure: bool,
}

impl Listening {
    fn open(network: &Network) -> io::Result<Self> {
        network.check()?;
        let certificates = network.tls.as_ref().map(|files| Certificates::new(files, Some(ALPN)));
        let certificates = certificates.transpose()?;
        let listener = TcpListener::bind(network.listen).map_err(|error| {
            io::Error::new(error.kind(), format!("listening on {}: {error}", network.listen))
        })?;
        Ok(Self { listener, certificates, insecure: network.insecure })
    }

    fn start(self, instance: &Arc<Instance>, limits: &Arc<ConnectionLimits>) -> io::Result<()> {
        let address = self.listener.local_addr()?;
        let how = match &self.certificates {
            Some(certificates) if certificates.ask_clients() => {
                "with TLS and certificates of clients"
            }
            Some(_) => "with TLS",
            None => "without TLS",
        };
        let (instance, limits) = (Arc::clone(instance), Arc::clone(limits));
        instance.alert().line(Severity::Note, "instance", &format!("listens on {address}, {how}"));
        thread::Builder::new().name("network".into()).spawn(move || {
            loop {
                match self.listener.accept() {
                    Ok((socket, from)) => self.admit(&instance, &limits, socket, from),
                    // Descriptors have run out, or the client had disconnected at once.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        })?;
        Ok(())
    }

    fn admit(
        &self,
        instance: &Arc<Instance>,
        limits: &Arc<ConnectionLimits>,
        socket: TcpStream,
        from: SocketAddr,
    ) {
        let Ok(stream) = Stream::tcp(socket) else { return };
        let (Some(permit), Some(stranger)) =
            (limits.enter(CONNECTIONS_MAX - RESERVED), limits.enter_unauthenticated())
        else {
            return refuse(
                stream,
                &SqlError::new(state::TOO_MANY_CONNECTIONS, "too many connections"),
            );
        };
        let tls = self
            .certificates
            .as_ref()
            .map(|certificates| certificates.now(instance.alert(), "instance"));
        let connection = Connection::new(instance, stream, limits);
        let door = Door { tls, insecure: self.insecure };
        // Without a thread the permits are dropped, and the client's connection is closed.
        let _ = thread::Builder::new().name("client".into()).spawn(move || {
            let _ = connection.talk_to_stranger(from, &door, stranger);
            drop(permit);
        });
    }
}
