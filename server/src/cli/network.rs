//! `plinth serve`: where to listen beside the unix socket, and with which certificates. The options
//! are remembered together: `--listen`, or `listen` in the configuration file, replaces all.

use super::configuration::Configuration;
use crate::{
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

impl Arguments {
    /// The options that the instance shall use from now on; `None`: those that it remembers.
    pub fn network(self) -> Result<Option<Option<Network>>, SqlError> {
        let Some(listen) = self.listen else { return Ok(None) };
        if listen.eq_ignore_ascii_case(OFF) {
            return Ok(Some(None));
        }
        let listen = address("--listen", &listen, ADDRESS)?;
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let tls = self.tls_cert.zip(self.tls_key).map(|(certificate, key)| TlsFiles {
            certificate: absolute(certificate),
            key: absolute(key),
            client_ca: self.tls_client_ca.map(absolute),
        });
        Ok(Some(Some(Network { listen, tls, insecure: self.insecure })))
    }
}

/// As [`Arguments::network`], by the file.
///
/// # Errors
/// If a value cannot be used, or one needs another that is not there.
pub(super) fn of_file(file: &Configuration) -> Result<Option<Option<Network>>, SqlError> {
    let listen = file.text("listen");
    let (certificate, key) = (file.path("tls-cert"), file.path("tls-key"));
    let client_ca = file.path("tls-client-ca");
    let insecure = file.flag("insecure").unwrap_or_default();
    let Some(listen) = listen.filter(|listen| !listen.eq_ignore_ascii_case(OFF)) else {
        let paths = ["tls-cert", "tls-key", "tls-client-ca"];
        let lonely = paths.into_iter().find(|key| file.text(key).is_some());
        if let Some(key) = lonely.or(insecure.then_some("insecure")) {
            return Err(file
                .refusal(key, "it says how to listen, and listen says nowhere")
                .hint("give listen an address, or leave this key out"));
        }
        return Ok(listen.map(|_| None));
    };
    let tls = match (certificate, key, client_ca) {
        (Some(certificate), Some(key), client_ca) => Some(TlsFiles { certificate, key, client_ca }),
        (None, None, None) => None,
        (has, other, _) => {
            let (there, missing) = match (has, other) {
                (Some(_), _) => ("tls-cert", "tls-key"),
                (None, Some(_)) => ("tls-key", "tls-cert"),
                (None, None) => ("tls-client-ca", "tls-cert"),
            };
            return Err(file
                .refusal(there, format!("there is no {missing}"))
                .hint("a certificate needs its key, and an authority for clients both"));
        }
    };
    let listen = address(&file.place("listen"), listen, ADDRESS)?;
    let network = Network { listen, tls, insecure };
    network.check().map_err(|error| file.refusal("listen", error))?;
    Ok(Some(Some(network)))
}

/// The address in the value of an option.
pub(super) fn address(option: &str, listen: &str, hint: &str) -> Result<SocketAddr, SqlError> {
    let refused = |why: &dyn std::fmt::Display| {
        SqlError::new("22023", format!("{option} {listen}: {why}")).hint(hint)
    };
    let mut found = listen.to_socket_addrs().map_err(|error| refused(&error))?;
    found.next().ok_or_else(|| refused(&"no such host"))
}
