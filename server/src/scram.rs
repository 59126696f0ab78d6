//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: bytes in, bytes out, no I/O.
//!
//! ```text
//!   client: n,,n=,r=<nonce>                       first()
//!   server: r=<nonce+ours>,s=<salt>,i=<rounds>
//!   client: c=<binding>,r=<nonce+ours>,p=<proof>  last()
//!   server: v=<signature>
//! ```
//!
//! Only a [`Verifier`] of a password is stored: it can check that a client knows the password, and
//! it is not enough to log in. An unknown name gets a verifier too, derived from a secret of the
//! instance: the same name always gets the same salt, and the exchange is the same until its end,
//! so that a client cannot find out which names exist.
//!
//! With TLS the exchange can be bound to the server's certificate (SCRAM-SHA-256-PLUS,
//! `tls-server-end-point`): a man in the middle with another certificate then fails. A client that
//! supports binding and believes that the server does not (`y`) was deceived, and is refused.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ring::{digest, hmac, pbkdf2, rand::SecureRandom};
use std::{borrow::Cow, fmt, num::NonZeroU32};

pub(super) const PLAIN: &str = "SCRAM-SHA-256";
pub(super) const BOUND: &str = "SCRAM-SHA-256-PLUS";

/// Rounds of hashing for new passwords: a client spends some milliseconds, a guesser as much for
/// each guess. RFC 7677 asks for 4096 at least.
const ROUNDS: NonZeroU32 = NonZeroU32::new(15_000).expect("not zero");
/// Most rounds of a verifier that an operator supplies: each login costs the client that many.
const ROUNDS_MAX: u32 = 1_000_000;
const SALT: usize = 16;
const KEY: usize = digest::SHA256_OUTPUT_LEN;
/// Bytes of our part of the nonce.
const NONCE: usize = 18;

/// The stored form of a password, written as PostgreSQL writes it:
/// `SCRAM-SHA-256$rounds:salt$stored key:server key`.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    rounds: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; KEY],
    server_key: [u8; KEY],
}

/// Random bytes; `None` if the operating system has none: then the login or the change must fail.
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    ring::rand::SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; KEY] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    array(context.sign().as_ref())
}

fn hash(bytes: &[u8]) -> [u8; KEY] {
    array(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn array(bytes: &[u8]) -> [u8; KEY] {
    let mut array = [0; KEY];
    array.copy_from_slice(bytes);
    array
}

/// Compares all bytes, wherever the first difference is: constant time.
fn is_same(one: &[u8; KEY], other: &[u8; KEY]) -> bool {
    one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

impl Verifier {
    /// The verifier of a new password; `None` if there is no randomness.
    #[must_use]
    pub fn of(password: &str) -> Option<Self> {
        Some(Self::derived(password, &random::<SALT>()?, ROUNDS))
    }

    fn derived(password: &str, salt: &[u8], rounds: NonZeroU32) -> Self {
        // A password that SASLprep rejects is used unchanged, by the server and by clients alike.
        let prepared = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
        let mut salted = [0; KEY];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, prepared.as_bytes(), &mut salted);
        Self {
            rounds,
            salt: salt.to_vec(),
            stored_key: hash(&mac(&salted, &[b"Client Key"])),
            server_key: mac(&salted, &[b"Server Key"]),
        }
    }

    /// Whether this is its password. Takes as long as the rounds do, for a wrong one as for the
    /// right one.
    #[must_use]
    pub fn is_of(&self, password: &str) -> bool {
        let tried = Self::derived(password, &self.salt, self.rounds);
        is_same(&tried.stored_key, &self.stored_key)
    }

    /// The verifier for an unknown name: no password fits it.
    #[must_use]
    pub fn of_nobody(name: &str, secret: &[u8]) -> Self {
        let of = |what: &str| mac(secret, &[what.as_bytes(), b"\0", name.as_bytes()]);
        Self {
            rounds: ROUNDS,
            salt: of("salt").get(..SALT).unwrap_or_default().to_vec(),
            stored_key: of("stored key"),
            server_key: of("server key"),
        }
    }

    /// Parses the form that [`fmt::Display`] and PostgreSQL's programs write.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (rounds, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let key = |text: &str| <[u8; KEY]>::try_from(BASE64.decode(text).ok()?).ok();
        Some(Self {
            rounds: NonZeroU32::new(rounds.parse().ok().filter(|rounds| *rounds <= ROUNDS_MAX)?)?,
            salt: BASE64.decode(salt).ok().filter(|salt| !salt.is_empty() && salt.len() <= 1024)?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        write!(f, "{PLAIN}${}:{salt}${stored}:{server}", self.rounds)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

/// A new secret for [`Verifier::of_nobody`], as text.
#[must_use]
pub fn new_secret() -> Option<String> {
    random::<32>().map(|bytes| BASE64.encode(bytes))
}

/// Why an exchange fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The client does not speak SCRAM.
    Malformed(&'static str),
    /// A man in the middle, or a client that wrongly believes that the server cannot bind.
    Downgraded,
    WrongProof,
    NoRandomness,
}

/// The state between the client's two messages.
pub(super) struct Exchange {
    verifier: Verifier,
    /// The value that the client must repeat: the header of its first message, and the
    /// certificate's hash if the exchange is bound.
    binding: Vec<u8>,
    client_first: String,
    server_first: String,
    nonce: String,
}

impl Exchange {
    /// Reads the client's first message and makes the server's. `binding` is the hash of the
    /// certificate, if the exchange can be bound to one; `bound`: the client has chosen
    /// SCRAM-SHA-256-PLUS.
    pub fn first(
        verifier: Verifier,
        message: &[u8],
        binding: Option<&[u8]>,
        bound: bool,
    ) -> Result<(Self, String), Failure> {
        let ours = BASE64.encode(random::<NONCE>().ok_or(Failure::NoRandomness)?);
        Self::first_with(verifier, message, binding, bound, &ours)
    }

    fn first_with(
        verifier: Verifier,
        message: &[u8],
        binding: Option<&[u8]>,
        bound: bool,
        ours: &str,
    ) -> Result<(Self, String), Failure> {
        let message = std::str::from_utf8(message)
            .map_err(|_| Failure::Malformed("the first message is not UTF-8"))?;
        // The header: the kind of binding, and the user on whose behalf; then the rest.
        let mut parts = message.splitn(3, ',');
        let (Some(flag), Some(on_behalf), Some(bare)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Failure::Malformed("the first message has no header"));
        };
        if !on_behalf.is_empty() {
            return Err(Failure::Malformed("an authorization identity is not supported"));
        }
        let certificate = match (flag, bound, binding) {
            ("n", false, _) | ("y", false, None) => &[][..],
            ("y", false, Some(_)) => return Err(Failure::Downgraded),
            ("p=tls-server-end-point", true, Some(hash)) => hash,
            _ => {
                return Err(Failure::Malformed(
                    "the first message is bound in a way that was not offered",
                ));
            }
        };
        // The name here is not used: the startup packet has it.
        let mut fields = bare.split(',');
        let (Some(name), Some(nonce)) = (fields.next(), fields.next()) else {
            return Err(Failure::Malformed("the first message has no nonce"));
        };
        let nonce =
            nonce.strip_prefix("r=").filter(|nonce| !nonce.is_empty() && nonce.len() <= 256);
        let nonce = nonce.filter(|nonce| nonce.bytes().all(|byte| byte.is_ascii_graphic()));
        let (true, Some(nonce)) = (name.starts_with("n="), nonce) else {
            return Err(Failure::Malformed("the first message has no nonce"));
        };
        let nonce = format!("{nonce}{ours}");
        let server_first =
            format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.rounds);
        let binding = [flag.as_bytes(), b",,", certificate].concat();
        let exchange = Self {
            verifier,
            binding,
            client_first: bare.to_owned(),
            server_first: server_first.clone(),
            nonce,
        };
        Ok((exchange, server_first))
    }

    /// Reads the client's last message; a client that gets the server's last one has proved that it
    /// knows the password.
    pub fn last(self, message: &[u8]) -> Result<String, Failure> {
        let message = std::str::from_utf8(message)
            .map_err(|_| Failure::Malformed("the last message is not UTF-8"))?;
        let (unproven, proof) = message
            .rsplit_once(",p=")
            .ok_or(Failure::Malformed("the last message has no proof"))?;
        let mut fields = unproven.split(',');
        let binding = fields.next().and_then(|field| field.strip_prefix("c="));
        let binding = binding.and_then(|text| BASE64.decode(text).ok());
        let nonce = fields.next().and_then(|field| field.strip_prefix("r="));
        let (Some(binding), Some(nonce)) = (binding, nonce) else {
            return Err(Failure::Malformed("the last message is not complete"));
        };
        if nonce != self.nonce {
            return Err(Failure::Malformed("the last message has another nonce"));
        }
        if binding != self.binding {
            return Err(Failure::Downgraded);
        }
        let proof = BASE64.decode(proof).ok().and_then(|proof| <[u8; KEY]>::try_from(proof).ok());
        let proof = proof.ok_or(Failure::Malformed("the proof has another length"))?;
        let said: [&[u8]; 5] = [
            self.client_first.as_bytes(),
            b",",
            self.server_first.as_bytes(),
            b",",
            unproven.as_bytes(),
        ];
        let signature = mac(&self.verifier.stored_key, &said);
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, by)| *byte ^= by);
        if !is_same(&hash(&client_key), &self.verifier.stored_key) {
            return Err(Failure::WrongProof);
        }
        Ok(format!("v={}", BASE64.encode(mac(&self.verifier.server_key, &said))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT_64: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const CLIENT: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    fn pencil() -> Verifier {
        let salt = BASE64.decode(SALT_64).expect("base64");
        Verifier::derived("pencil", &salt, NonZeroU32::new(4096).expect("not zero"))
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc() {
        let first = format!("n,,n=user,r={CLIENT}");
        let (exchange, answer) =
            Exchange::first_with(pencil(), first.as_bytes(), None, false, SERVER)
                .expect("understood");
        assert_eq!(answer, format!("r={CLIENT}{SERVER},s={SALT_64},i=4096"));
        let last =
            format!("c=biws,r={CLIENT}{SERVER},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let answer = exchange.last(last.as_bytes()).expect("the proof is right");
        assert_eq!(answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_verifier_is_read_as_it_was_written_and_nonsense_is_not() {
        let verifier = Verifier::of("grün ").expect("randomness");
        assert_eq!(Verifier::parse(&verifier.to_string()), Some(verifier.clone()));
        assert!(verifier.is_of("grün ") && !verifier.is_of("grün") && !verifier.is_of(""));
        assert_ne!(Verifier::of("grün "), Some(verifier), "every password has a salt of its own");
        for nonsense in [
            "",
            "secret",
            "SCRAM-SHA-256$",
            "SCRAM-SHA-256$0:AAAA$AA==:AA==",
            "SCRAM-SHA-256$x:y$z",
        ] {
            assert_eq!(Verifier::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn wrong_proofs_and_other_messages_are_refused() {
        let first = format!("n,,n=,r={CLIENT}");
        let begin = || {
            let begun = Exchange::first_with(pencil(), first.as_bytes(), None, false, SERVER);
            begun.expect("understood").0
        };
        let zeros = BASE64.encode([0; 32]);
        let nonce = format!("{CLIENT}{SERVER}");
        for (last, failure) in [
            (format!("c=biws,r={nonce},p={zeros}"), Failure::WrongProof),
            (format!("c=eSws,r={nonce},p={zeros}"), Failure::Downgraded),
            (
                format!("c=biws,r=other,p={zeros}"),
                Failure::Malformed("the last message has another nonce"),
            ),
            (
                format!("c=biws,r={nonce},p=AAAA"),
                Failure::Malformed("the proof has another length"),
            ),
            (String::new(), Failure::Malformed("the last message has no proof")),
        ] {
            assert_eq!(begin().last(last.as_bytes()), Err(failure), "{last}");
        }
        for first in [
            "",
            "n",
            "n,,",
            "n,,n=",
            "n,,n=,r=",
            "x,,n=,r=a",
            "n,a=me,n=,r=a",
            "n,,m=,r=a",
            "p=x,,n=,r=a",
        ] {
            assert!(Exchange::first(pencil(), first.as_bytes(), None, false).is_err(), "{first}");
        }
    }

    /// A client that supports binding, and was made to believe that the server does not, is
    /// refused; a client that binds must bind to the server's certificate.
    #[test]
    fn a_man_in_the_middle_is_refused() {
        let first = |flag: &str, binding: Option<&[u8]>, bound| {
            Exchange::first(pencil(), format!("{flag},,n=,r=a").as_bytes(), binding, bound)
                .map(|(exchange, _)| exchange)
        };
        assert_eq!(first("y", Some(b"hash"), false).err(), Some(Failure::Downgraded));
        assert!(first("y", None, false).is_ok());
        assert!(first("p=tls-server-end-point", None, true).is_err());
        assert!(first("n", Some(b"hash"), true).is_err());
        let exchange = first("p=tls-server-end-point", Some(b"hash"), true).expect("bound");
        let nonce = exchange.nonce.clone();
        let other = BASE64.encode(b"p=tls-server-end-point,,other");
        let last = format!("c={other},r={nonce},p={}", BASE64.encode([0; 32]));
        assert_eq!(exchange.last(last.as_bytes()), Err(Failure::Downgraded));
    }

    #[test]
    fn an_unknown_name_looks_like_any_other() {
        let of = |name| Verifier::of_nobody(name, b"secret");
        assert_eq!(of("A"), of("A"));
        assert_ne!(of("A"), of("B"));
        let real = Verifier::of("x").expect("randomness");
        assert_eq!((of("A").salt.len(), of("A").rounds), (real.salt.len(), real.rounds));
    }
}
