//! An instance that listens on TCP with TLS, and the certificates for it.

use crate::{Instance, wait_for};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::{fs, path::PathBuf};

/// A private certificate authority, and the certificates that it has signed.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    /// A new one; its certificate is `NAME.pem` in the test's own directory.
    ///
    /// # Panics
    /// If there is no room.
    #[must_use]
    pub fn new(instance: &Instance, name: &str) -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let directory = instance.path("");
        fs::write(directory.join(format!("{name}.pem")), certificate.pem()).expect("written");
        Self { issuer: Issuer::new(parameters, key), directory }
    }

    /// Signs a certificate for this host: `NAME.pem`, and its key, `NAME.key`.
    ///
    /// # Panics
    /// If there is no room.
    #[must_use]
    pub fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let mut parameters =
            CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])
                .expect("names");
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        let (file, key_file) = (
            self.directory.join(format!("{name}.pem")),
            self.directory.join(format!("{name}.key")),
        );
        // Moved into place, as programs do that renew certificates.
        let beside = self.directory.join("beside");
        for (path, text) in [(&key_file, key.serialize_pem()), (&file, certificate.pem())] {
            fs::write(&beside, text).and_then(|()| fs::rename(&beside, path)).expect("written");
        }
        (file, key_file)
    }
}

impl Instance {
    /// Starts it again with more arguments, among them `--listen`; the port that it listens on.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn listen_with(&mut self, arguments: &[&str]) -> u16 {
        self.kill_instance();
        let before = self.alert_log().len();
        self.start_with(arguments);
        let port = |log: &str| {
            let (_, rest) = log.get(before..)?.split_once("listens on ")?;
            rest.split_once(',')?.0.rsplit_once(':')?.1.parse().ok()
        };
        wait_for("the instance to listen", || port(&self.alert_log()).is_some());
        port(&self.alert_log()).expect("just seen")
    }

    /// With TLS on a free port of loopback, with a certificate that `root.pem` vouches for, and the
    /// users `boss`, `night` and `viewer`, with the roles to administer, operate and look, all with
    /// the password `secret`.
    pub fn listen_with_tls(&mut self) -> u16 {
        let (certificate, key) = Authority::new(self, "root").sign("server");
        let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
        let port = self.listen_with(&[
            "--listen",
            "127.0.0.1:0",
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
        ]);
        self.sql(
            "CREATE USER boss WITH PASSWORD 'secret' ROLE ADMINISTER;
             CREATE USER night PASSWORD 'secret' OPERATE; CREATE USER viewer PASSWORD 'secret'",
        );
        port
    }
}
