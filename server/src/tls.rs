//! Listening over TCP: the address, the files for TLS, and the configuration read from them, which
//! is kept current with them (`kept.rs`).

use crate::{alert::Alert, kept::Kept};
use ring::digest;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use serde::{Deserialize, Serialize};
use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

/// The name (ALPN) of the protocol that is spoken over TLS at an address. Without one the names
/// that a client gives do not matter.
pub(crate) type Protocol = Option<&'static [u8]>;

/// Where to listen, and how; remembered in `instance.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub listen: SocketAddr,
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Accept connections without TLS from every address.
    #[serde(default)]
    pub insecure: bool,
}

/// Files in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The authority whose certificates clients need.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// The configuration read from the files.
#[derive(Clone)]
pub(crate) struct Tls {
    pub config: Arc<ServerConfig>,
    /// The certificate's hash, for SCRAM-SHA-256-PLUS; `None` if the certificate's signature
    /// algorithm is one for which RFC 5929 defines no hash.
    pub binding: Option<Vec<u8>>,
}

/// The configuration of TLS, kept current with the files.
pub(crate) struct Certificates {
    files: TlsFiles,
    protocol: Protocol,
    kept: Kept<Tls>,
}

impl Network {
    /// # Errors
    /// If others could read the traffic, or a file cannot be used.
    pub fn check(&self) -> io::Result<()> {
        if self.tls.is_none() && !self.insecure && !self.listen.ip().is_loopback() {
            return Err(io::Error::other(format!(
                "without TLS only a loopback address is listened on, and {} is none; give --tls-cert and --tls-key, or \
                 say --insecure",
                self.listen
            )));
        }
        self.tls.as_ref().map_or(Ok(()), |files| files.load(None).map(drop))
    }
}

impl TlsFiles {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_ca)
    }

    fn load(&self, protocol: Protocol) -> io::Result<Tls> {
        let place = |path: &PathBuf, error: &dyn std::fmt::Display| {
            io::Error::other(format!("{}: {error}", path.display()))
        };
        let certificates = |path: &PathBuf| -> io::Result<Vec<CertificateDer<'static>>> {
            let all = CertificateDer::pem_file_iter(path).map_err(|error| place(path, &error))?;
            let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| place(path, &error))?;
            if all.is_empty() {
                Err(place(path, &"there is no certificate in it"))
            } else {
                Ok(all)
            }
        };
        let chain = certificates(&self.certificate)?;
        let binding = chain.first().and_then(|own| end_point(own));
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| place(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let building = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let building = match &self.client_ca {
            None => building.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(path)? {
                    roots.add(root).map_err(|error| place(path, &error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| place(path, &error))?;
                building.with_client_cert_verifier(verifier)
            }
        };
        let mut config = building
            .with_single_cert(chain, key)
            .map_err(|error| place(&self.certificate, &error))?;
        config.alpn_protocols = protocol.iter().map(|name| name.to_vec()).collect();
        Ok(Tls { config: Arc::new(config), binding })
    }
}

impl Certificates {
    pub(crate) fn new(files: &TlsFiles, protocol: Protocol) -> io::Result<Self> {
        let all = files.all().cloned().collect();
        let kept = Kept::new("the certificate for TLS", all, || files.load(protocol))?;
        Ok(Self { files: files.clone(), protocol, kept })
    }

    /// Whether a client needs a certificate as well.
    pub(crate) fn ask_clients(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// The current certificates. If they have changed, the alert log gets a line, under `whose`
    /// name.
    pub(crate) fn now(&self, alert: &Alert, whose: &str) -> Tls {
        self.kept.now(|| self.files.load(self.protocol), alert, whose)
    }
}

/// The hash of a certificate that RFC 5929 calls `tls-server-end-point`: by the algorithm of its
/// signature, SHA-256 in place of older ones.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    // Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OBJECT
    // IDENTIFIER ... } ... }
    let (_, inside, _) = element(certificate)?;
    let (_, _, behind) = element(inside)?;
    let (_, algorithm, _) = element(behind)?;
    let (tag, identifier, _) = element(algorithm)?;
    const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    let by = match (tag, identifier.strip_prefix(&RSA), identifier.strip_prefix(&ECDSA)) {
        // MD5, SHA-1, SHA-256.
        (6, Some([4 | 5 | 11]), _) | (6, _, Some([2])) => &digest::SHA256,
        (6, Some([12]), _) | (6, _, Some([3])) => &digest::SHA384,
        (6, Some([13]), _) | (6, _, Some([4])) => &digest::SHA512,
        _ => return None,
    };
    Some(digest::digest(by, certificate).as_ref().to_vec())
}

/// The first element of DER: its tag, its content, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x83 => {
            let (long, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (long.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (inside, behind) = rest.split_at_checked(length)?;
    Some((tag, inside, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_only_loopback_is_listened_on() {
        let network = |listen: &str, insecure| Network {
            listen: listen.parse().expect("address"),
            tls: None,
            insecure,
        };
        assert!(network("127.0.0.1:5432", false).check().is_ok());
        assert!(network("[::1]:5432", false).check().is_ok());
        let refused = network("0.0.0.0:5432", false).check().expect_err("refused");
        assert!(refused.to_string().contains("--insecure"), "{refused}");
        assert!(network("0.0.0.0:5432", true).check().is_ok());
    }

    #[test]
    fn cut_certificates_have_no_hash() {
        let certificate =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("made").cert;
        let whole = certificate.der();
        let expected = digest::digest(&digest::SHA256, whole);
        assert_eq!(end_point(whole).expect("signed with ECDSA and SHA-256"), expected.as_ref());
        for length in 0..40 {
            assert_eq!(end_point(&whole[..length]), None);
        }
    }
}
