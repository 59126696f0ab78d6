//! `plinth serve`: where to listen beside the unix socket, and with which certificates. The options
//! are remembered together: `--listen` replaces all of them, and `--http` those for HTTP.

use crate::{
    http_address::HttpAddress,
    sql_error::SqlError,
    tls::{Network, TlsFiles},
};
use clap::Args;
use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Also listen on TCP, for users with a password: ADDR:PORT, or off. Remembered, with the
    /// options for TLS.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// The certificate for TLS, and those that lead to an authority, in PEM.
    #[arg(long, value_name = "FILE", requires = "listen", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate that one of these authorities signed, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Take connections without TLS from everywhere: others can read along.
    #[arg(long, requires = "listen")]
    insecure: bool,
}

#[derive(Debug, Args)]
pub(super) struct HttpArguments {
    /// Answer HTTP: metrics for Prometheus at /metrics. ADDR:PORT, or off. Remembered, with its
    /// options.
    #[arg(long, value_name = "ADDR:PORT")]
    http: Option<String>,
    /// The certificate for HTTPS, and those that lead to an authority, in PEM.
    #[arg(long, value_name = "FILE", requires = "http", requires = "http_tls_key")]
    http_tls_cert: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long, value_name = "FILE", requires = "http_tls_cert")]
    http_tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate that one of these authorities signed, in PEM.
    #[arg(long, value_name = "FILE", requires = "http_tls_cert")]
    http_tls_client_ca: Option<PathBuf>,
    /// The file with the token that clients show (Authorization: Bearer TOKEN). Needed, as is a
    /// certificate, on any address but loopback.
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token: Option<PathBuf>,
}

impl HttpArguments {
    /// The options that the instance shall use from now on; `None`: those that it remembers.
    pub fn address(self) -> Result<Option<Option<HttpAddress>>, SqlError> {
        let Some(listen) = self.http else { return Ok(None) };
        if listen.eq_ignore_ascii_case("off") {
            return Ok(Some(None));
        }
        let hint = "an address and a port, such as 127.0.0.1:9742 or localhost:9742; or off";
        let listen = address("--http", &listen, hint)?;
        let tls = self.http_tls_cert.zip(self.http_tls_key).map(|(certificate, key)| TlsFiles {
            certificate: absolute(certificate),
            key: absolute(key),
            client_ca: self.http_tls_client_ca.map(absolute),
        });
        Ok(Some(Some(HttpAddress { listen, tls, token: self.http_token.map(absolute) })))
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

impl Arguments {
    /// The options that the instance shall use from now on; `None`: those that it remembers.
    pub fn network(self) -> Result<Option<Option<Network>>, SqlError> {
        let Some(listen) = self.listen else { return Ok(None) };
        if listen.eq_ignore_ascii_case("off") {
            return Ok(Some(None));
        }
        let hint =
            "an address and a port, such as 0.0.0.0:5432, [::]:5432 or localhost:5432; or off";
        let listen = address("--listen", &listen, hint)?;
        let tls = self.tls_cert.zip(self.tls_key).map(|(certificate, key)| TlsFiles {
            certificate: absolute(certificate),
            key: absolute(key),
            client_ca: self.tls_client_ca.map(absolute),
        });
        Ok(Some(Some(Network { listen, tls, insecure: self.insecure })))
    }
}

/// The address in the value of an option.
pub(super) fn address(option: &str, listen: &str, hint: &str) -> Result<SocketAddr, SqlError> {
    let refused = |why: &dyn std::fmt::Display| {
        SqlError::new("22023", format!("{option} {listen}: {why}")).hint(hint)
    };
    let mut found = listen.to_socket_addrs().map_err(|error| refused(&error))?;
    found.next().ok_or_else(|| refused(&"no such host"))
}
