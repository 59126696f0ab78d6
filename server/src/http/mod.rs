//! HTTP: `/metrics` for Prometheus, and the dashboard. Off unless the operator gives an address
//! (`serve --http`).
//!
//! One thread, `http`, runs hyper on a runtime of its own; no other thread of the instance knows a
//! runtime, and an engine has none. A request goes through these steps, and each can end it:
//!
//!   1. the connection gets a seat (`connections.rs`); with TLS, the handshake;
//!   2. the head: 16 KiB and 10 s at most;
//!   3. the `Host` header, the token (`guard.rs`);
//!   4. the path, then the method (`routes.rs`);
//!   5. the answer, made by threads of their own (`metrics/mod.rs`, `dashboard/mod.rs`), which
//!      never wait for an engine longer than [`readings::WAIT_MAX`]; statements of the dashboard
//!      have a few threads more.
//!
//! Clients that are slow, or connect and send nothing, cost a seat for 30 s at most. When all seats
//! are taken, one of theirs goes to the next client: so 1,000 of them keep no other out.
//!
//! Invariants:
//!
//!   1. Memory is bounded: by the seats, the limits of a head, and one text for all that ask or
//!      listen within the same second.
//!   2. Nothing here waits for a disk, or for an engine that has stopped.
//!   3. Nothing can be changed by HTTP but by a user who has logged in on the dashboard, with the
//!      role that the statement needs over PostgreSQL's protocol (`dashboard/actions.rs`).

mod connections;
pub mod dashboard;
mod guard;
pub mod metrics;
mod readings;
mod routes;

use crate::{
    http_address::{HttpAddress, PROTOCOL, Token},
    instance::Instance,
    listening,
    tls::Certificates,
};
use connections::{Connections, Seat};
use dashboard::{
    Dashboard,
    actions::{self, Actions},
};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::Metrics;
use plinth_engine::event::Severity;
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Builder,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

/// How long a client may take for the TLS handshake, and for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The largest head. Of a client no more is read before it is understood.
const HEAD_BYTES: usize = 16 << 10;
/// Most lines of a head.
const HEADERS_MAX: usize = 64;
/// The buffer of the kernel for bytes to a client that does not read them (it takes twice as much):
/// so that a stream soon notices, and a thousand such clients cost little.
const SEND_BYTES: usize = 64 << 10;

/// All that a request needs.
pub(crate) struct Site {
    instance: Arc<Instance>,
    address: HttpAddress,
    certificates: Option<Certificates>,
    token: Option<Token>,
    connections: Arc<Connections>,
    metrics: Arc<Metrics>,
    dashboard: Dashboard,
    actions: Actions,
}

/// Listens from now on, or, on a remembered address, later (`listening.rs`).
pub(crate) fn listen(
    instance: &Arc<Instance>,
    address: &HttpAddress,
    is_new: bool,
) -> io::Result<()> {
    let alert = instance.alert().clone();
    let (instance, address) = (Arc::clone(instance), address.clone());
    let start = move || start(&instance, &address);
    let loss = "nothing is answered over HTTP";
    listening::now_or_later(&alert, is_new, "http", loss, start, |()| Ok(()))
}

fn start(instance: &Arc<Instance>, address: &HttpAddress) -> io::Result<()> {
    address.check()?;
    let certificates = address.tls.as_ref().map(|files| Certificates::new(files, PROTOCOL));
    let certificates = certificates.transpose()?;
    let token = address.token.as_deref().map(Token::new).transpose()?;
    let listener = TcpListener::bind(address.listen).map_err(|error| {
        io::Error::new(error.kind(), format!("listening for HTTP on {}: {error}", address.listen))
    })?;
    listener.set_nonblocking(true)?;
    let own = listener.local_addr()?;
    let how = if certificates.is_some() { "with TLS" } else { "without TLS" };
    let connections = Arc::<Connections>::default();
    let metrics = Arc::new(Metrics::start(instance, &connections)?);
    let site = Arc::new(Site {
        instance: Arc::clone(instance),
        address: address.clone(),
        certificates,
        token,
        dashboard: Dashboard::start(instance, &metrics)?,
        actions: Actions::new(instance),
        metrics,
        connections,
    });
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(actions::THREADS_MAX)
        .build()?;
    thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(accept(listener, &site));
    })?;
    let text = format!("answers HTTP on {own}, {how}");
    instance.alert().line(Severity::Note, "instance", &text);
    Ok(())
}

async fn accept(listener: TcpListener, site: &Arc<Site>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            let text = format!("nothing is answered over HTTP: {error}");
            site.instance.alert().line(Severity::Alarm, "instance", &text);
            return;
        }
    };
    let connections = Arc::clone(&site.connections);
    tokio::spawn(async move { connections.tend().await });
    loop {
        match listener.accept().await {
            Ok((socket, from)) => {
                let _ = socket.set_nodelay(true);
                let _ = set_socket_send_buffer_size(&socket, SEND_BYTES);
                let seat = site.connections.take_seat();
                let number = seat.number();
                let served = tokio::spawn(serve(Arc::clone(site), socket, seat, from));
                site.connections.occupy(number, served.abort_handle());
                // A connection whose seat was taken is dropped before the next is accepted.
                tokio::task::yield_now().await;
            }
            // Descriptors have run out, or the client had disconnected at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve(site: Arc<Site>, socket: tokio::net::TcpStream, seat: Seat, from: SocketAddr) {
    let Some(certificates) = &site.certificates else {
        return answer(&site, socket, seat, from).await;
    };
    let tls = certificates.now(site.instance.alert(), "instance");
    let handshake = TlsAcceptor::from(tls.config).accept(socket);
    if let Ok(Ok(stream)) = timeout(HEAD_TIME, handshake).await {
        answer(&site, stream, seat, from).await;
    }
}

/// Answers the requests of a connection until it ends. Its errors concern its client alone.
async fn answer(
    site: &Arc<Site>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    seat: Seat,
    from: SocketAddr,
) {
    let seat = Arc::new(seat);
    let service = service_fn(|request: Request<Incoming>| {
        let (site, seat) = (Arc::clone(site), Arc::clone(&seat));
        async move {
            seat.note_request();
            Ok::<_, Infallible>(routes::answer(&site, &seat, request, from).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}
