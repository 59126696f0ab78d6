//! `plinth serve`: where to listen beside the unix socket, and with which certificates. The options
//! are remembered together: `--listen`, or `listen` in the configuration file, replaces all of
//! them, and `--http` or `http` those for HTTP.

use super::configuration::Configuration;
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

/// In place of an address: nowhere.
const OFF: &str = "off";
/// The remedy if an address is none.
const ADDRESS: &str =
    "an address and a port, such as 0.0.0.0:5432, [::]:5432 or localhost:5432; or off";
const HTTP_ADDRESS: &str =
    "an address and a port, such as 127.0.0.1:9742 or localhost:9742; or off";

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
    /// Answer HTTP: the dashboard at /, metrics for Prometheus at /metrics. ADDR:PORT, or off.
    /// Remembered, with its options.
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
        if listen.eq_ignore_ascii_case(OFF) {
            return Ok(Some(None));
        }
        let listen = address("--http", &listen, HTTP_ADDRESS)?;
        let tls = tls_files(self.http_tls_cert, self.http_tls_key, self.http_tls_client_ca);
        Ok(Some(Some(HttpAddress { listen, tls, token: self.http_token.map(absolute) })))
    }
}

/// Where the command is given does not matter later.
pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// The files for TLS that flags name, if they do.
pub(super) fn tls_files(
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
) -> Option<TlsFiles> {
    let client_ca = client_ca.map(absolute);
    let (certificate, key) = certificate.zip(key)?;
    Some(TlsFiles { certificate: absolute(certificate), key: absolute(key), client_ca })
}

impl Arguments {
    /// The options that the instance shall use from now on; `None`: those that it remembers.
    pub fn network(self) -> Result<Option<Option<Network>>, SqlError> {
        let Some(listen) = self.listen else { return Ok(None) };
        if listen.eq_ignore_ascii_case(OFF) {
            return Ok(Some(None));
        }
        let listen = address("--listen", &listen, ADDRESS)?;
        let tls = tls_files(self.tls_cert, self.tls_key, self.tls_client_ca);
        Ok(Some(Some(Network { listen, tls, insecure: self.insecure })))
    }
}

/// As [`Arguments::network`], by the file.
///
/// # Errors
/// If a value cannot be used, or one needs another that is not there.
pub(super) fn of_file(file: &Configuration) -> Result<Option<Option<Network>>, SqlError> {
    let insecure = file.flag("insecure").unwrap_or_default();
    let more = insecure.then_some("insecure");
    let Some(found) = listening(file, "listen", "", more, ADDRESS)? else { return Ok(None) };
    let Some((listen, tls)) = found else { return Ok(Some(None)) };
    let network = Network { listen, tls, insecure };
    network.check().map_err(|error| file.refusal("listen", error))?;
    Ok(Some(Some(network)))
}

/// As [`HttpArguments::address`], by the file.
///
/// # Errors
/// As [`of_file`].
pub(super) fn http_of_file(file: &Configuration) -> Result<Option<Option<HttpAddress>>, SqlError> {
    let token = file.path("http-token");
    let more = token.is_some().then_some("http-token");
    let Some(found) = listening(file, "http", "http-", more, HTTP_ADDRESS)? else {
        return Ok(None);
    };
    let Some((listen, tls)) = found else { return Ok(Some(None)) };
    let http = HttpAddress { listen, tls, token };
    http.check().map_err(|error| file.refusal("http", error))?;
    Ok(Some(Some(http)))
}

/// An address, and how TLS is spoken there if it is.
type Listening = (SocketAddr, Option<TlsFiles>);

/// The value of the key `listen`, with the keys for TLS that begin with `prefix`. `more`: another
/// key of the file that says how to listen. `Some(None)`: nowhere.
fn listening(
    file: &Configuration,
    listen: &str,
    prefix: &str,
    more: Option<&str>,
    hint: &str,
) -> Result<Option<Option<Listening>>, SqlError> {
    let key = |name: &str| format!("{prefix}{name}");
    let [certificate, private, authority] = ["tls-cert", "tls-key", "tls-client-ca"].map(key);
    let value = file.text(listen);
    let Some(value) = value.filter(|value| !value.eq_ignore_ascii_case(OFF)) else {
        let lonely = [&certificate, &private, &authority];
        let lonely = lonely.into_iter().map(String::as_str).find(|key| file.text(key).is_some());
        if let Some(key) = lonely.or(more) {
            return Err(file
                .refusal(key, format!("it says how to listen, and {listen} says nowhere"))
                .hint(format!("give {listen} an address, or leave this key out")));
        }
        return Ok(value.map(|_| None));
    };
    let tls = match (file.path(&certificate), file.path(&private), file.path(&authority)) {
        (Some(certificate), Some(key), client_ca) => Some(TlsFiles { certificate, key, client_ca }),
        (None, None, None) => None,
        (has, other, _) => {
            let (there, missing) = match (has, other) {
                (Some(_), _) => (&certificate, &private),
                (None, Some(_)) => (&private, &certificate),
                (None, None) => (&authority, &certificate),
            };
            return Err(file
                .refusal(there, format!("there is no {missing}"))
                .hint("a certificate needs its key, and an authority for clients both"));
        }
    };
    Ok(Some(Some((address(&file.place(listen), value, hint)?, tls))))
}

/// The address in the value of an option.
pub(super) fn address(option: &str, listen: &str, hint: &str) -> Result<SocketAddr, SqlError> {
    let refused = |why: &dyn std::fmt::Display| {
        SqlError::new("22023", format!("{option} {listen}: {why}")).hint(hint)
    };
    let mut found = listen.to_socket_addrs().map_err(|error| refused(&error))?;
    found.next().ok_or_else(|| refused(&"no such host"))
}
