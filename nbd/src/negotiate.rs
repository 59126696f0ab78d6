//! The handshake: which export the client uses, and the format of replies.
//!
//! ```text
//!   greeting --> client's flags --> options, one at a time --GO, EXPORT_NAME--> transmission
//!                                     |  ^                \--ABORT, or malformed bytes--> end
//!                                     STARTTLS: drops all earlier agreements
//! ```
//!
//! If the server has a certificate, it requires TLS: before STARTTLS it refuses every other option,
//! and does not send the names of exports. Each option is answered, even a refused one; the text
//! says why. If there are too many clients, every option is refused with that reason.
//!
//! Limits: the duration of the handshake, the number of options, the length of an option. A longer
//! option is skipped, up to [`SKIPPED_MAX`].

use crate::{
    protocol::{
        ALLOCATION, ALLOCATION_ID, FIXED_NEWSTYLE, GREETING, NO_ZEROES, OPTION_HEADER, STRING_MAX,
        answer, can, info, option, option_reply, parse_contexts, parse_go, parse_option,
    },
    stream::{Incoming, Stream},
};
use plinth_frontend::{BlockDevice, Exports, NotOpened};
use rustls::ServerConfig;
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long the handshake may take.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// Options of one client, at most: it can list hundreds of exports and query each.
const OPTIONS_MAX: usize = 2048;
/// The length of an option that is read, at most.
const OPTION_MAX: u32 = 32 << 10;
/// The length of an option that is skipped, at most.
const SKIPPED_MAX: u32 = 1 << 20;
/// Queries for contexts in one option, at most.
const QUERIES_MAX: usize = 64;

/// Smallest, preferred and largest request, in bytes.
pub(crate) const BLOCK_MIN: u32 = 1;
const BLOCK_PREFERRED: u32 = 4096;
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;

/// The conditions of a handshake.
pub(crate) struct HandshakeOptions<'a> {
    /// TLS is required.
    pub tls: Option<Arc<ServerConfig>>,
    /// Is called with the reason when TLS fails.
    pub refused: &'a (dyn Fn(&str) + Sync),
    /// No client is accepted, for this reason.
    pub closed: Option<&'a str>,
    /// For the whole handshake.
    pub timeout: Duration,
}

/// The result of a handshake.
pub(crate) struct Agreed {
    pub export: Arc<dyn BlockDevice>,
    /// The name of the export, even if the client sent an empty name.
    pub export_name: String,
    /// Bytes, as sent to the client.
    pub size: u64,
    /// Replies to reads, and errors, are structured replies.
    pub structured: bool,
    /// BLOCK_STATUS for `base:allocation` is allowed.
    pub allocation: bool,
}

/// The handshake with one client.
struct Handshake<'a> {
    stream: &'a Stream,
    exports: &'a dyn Exports,
    options: &'a HandshakeOptions<'a>,
    deadline: Instant,
    structured: bool,
    /// The export for which `base:allocation` was agreed on.
    allocation: Option<String>,
}

/// The phase after an option.
enum Next {
    Option,
    Transmission(Agreed),
    End,
}

/// The transmission flags of an export.
pub(crate) fn transmission_flags(export: &dyn BlockDevice, structured: bool) -> u16 {
    // A flush makes the acknowledged writes of all connections durable: hence MULTI_CONN.
    let mut flags = can::HAS_FLAGS | can::FLUSH | can::FUA | can::MULTI_CONN | can::CACHE;
    flags |= if export.is_read_only() {
        can::READ_ONLY
    } else {
        can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO
    };
    flags | if structured { can::DF } else { 0 }
}

/// Carries out the handshake with a client. `None`: the client has left, or is to be disconnected.
pub(crate) fn negotiate(
    incoming: &mut Incoming,
    stream: &Stream,
    exports: &dyn Exports,
    options: &HandshakeOptions<'_>,
) -> io::Result<Option<Agreed>> {
    let deadline = Instant::now() + options.timeout;
    stream.send(&[&GREETING], deadline)?;
    let mut flags = [0; 4];
    if incoming.read_exact(&mut flags, Some(deadline))?.is_none() {
        return Ok(None);
    }
    let flags = u32::from_be_bytes(flags);
    if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        // An unknown flag changes the meaning of everything that follows.
        return Ok(None);
    }
    let mut handshake =
        Handshake { stream, exports, options, deadline, structured: false, allocation: None };
    let mut options = 0;
    loop {
        let mut header = [0; OPTION_HEADER];
        if incoming.read_exact(&mut header, Some(deadline))?.is_none() {
            return Ok(None);
        }
        let Some((option, length)) = parse_option(&header) else { return Ok(None) };
        options += 1;
        let is_fixed = flags & FIXED_NEWSTYLE != 0;
        if options > OPTIONS_MAX
            || length > SKIPPED_MAX
            || !is_fixed && option != option::EXPORT_NAME
        {
            return Ok(None);
        }
        if length > OPTION_MAX {
            incoming.skip(length.into(), Some(deadline))?;
            if option == option::EXPORT_NAME {
                return Ok(None);
            }
            handshake.say(
                option,
                answer::TOO_BIG,
                &format!("an option has {OPTION_MAX} bytes at most"),
            )?;
            continue;
        }
        let mut data = vec![0; usize::try_from(length).unwrap_or(0)];
        if incoming.read_exact(&mut data, Some(deadline))?.is_none() {
            return Ok(None);
        }
        let next = match option {
            option::STARTTLS => handshake.start_tls(incoming, &data)?,
            option::EXPORT_NAME => handshake.export_name(&data, flags & NO_ZEROES == 0)?,
            _ => handshake.answer(option, &data)?,
        };
        match next {
            Next::Option => {}
            Next::Transmission(agreed) => return Ok(Some(agreed)),
            Next::End => return Ok(None),
        }
    }
}

impl Handshake<'_> {
    fn reply(&self, option: u32, kind: u32, data: &[&[u8]]) -> io::Result<()> {
        self.stream.send(&[&option_reply(option, kind, data)], self.deadline)
    }

    /// Answers an option with a kind of reply and a text.
    fn say(&self, option: u32, kind: u32, text: &str) -> io::Result<Next> {
        let text = text.get(..text.floor_char_boundary(STRING_MAX)).unwrap_or_default();
        self.reply(option, kind, &[text.as_bytes()])?;
        Ok(Next::Option)
    }

    fn must_encrypt(&self) -> bool {
        self.options.tls.is_some() && !self.stream.is_encrypted()
    }

    fn start_tls(&mut self, incoming: &mut Incoming, data: &[u8]) -> io::Result<Next> {
        let Some(config) = &self.options.tls else {
            return self.say(
                option::STARTTLS,
                answer::POLICY,
                "this server has no certificate for TLS",
            );
        };
        if !data.is_empty() || self.stream.is_encrypted() {
            return self.say(
                option::STARTTLS,
                answer::INVALID,
                "STARTTLS comes once, and without data",
            );
        }
        self.reply(option::STARTTLS, answer::ACK, &[])?;
        incoming.encrypt(Arc::clone(config), self.deadline).inspect_err(|error| {
            match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    (self.options.refused)("it ended the connection while TLS began")
                }
                io::ErrorKind::TimedOut => (self.options.refused)("TLS did not come about in time"),
                _ => (self.options.refused)(&error.to_string()),
            }
        })?;
        self.structured = false;
        self.allocation = None;
        Ok(Next::Option)
    }

    /// EXPORT_NAME, an older option, which cannot be refused but by ending the connection.
    fn export_name(&self, data: &[u8], with_zeroes: bool) -> io::Result<Next> {
        let name = std::str::from_utf8(data).ok().filter(|name| name.len() <= STRING_MAX);
        let Some(name) = name.filter(|_| !self.must_encrypt() && self.options.closed.is_none())
        else {
            return Ok(Next::End);
        };
        let Ok(export) = self.exports.open(name) else { return Ok(Next::End) };
        let agreed = self.agreed(name, export);
        let flags = transmission_flags(&*agreed.export, self.structured);
        let zeroes = [0; 124];
        let zeroes = if with_zeroes { &zeroes[..] } else { &[] };
        let size = agreed.export.size().to_be_bytes();
        self.stream.send(&[&size, &flags.to_be_bytes(), zeroes], self.deadline)?;
        Ok(Next::Transmission(agreed))
    }

    fn agreed(&self, name: &str, export: Arc<dyn BlockDevice>) -> Agreed {
        // A context was negotiated for one export.
        let allocation = self.allocation.as_deref() == Some(name);
        Agreed {
            export_name: export.name(),
            size: export.size(),
            export,
            structured: self.structured,
            allocation,
        }
    }

    fn answer(&mut self, option: u32, data: &[u8]) -> io::Result<Next> {
        if option == option::ABORT {
            self.reply(option, answer::ACK, &[])?;
            return Ok(Next::End);
        }
        if self.must_encrypt() {
            return self.say(
                option,
                answer::TLS_REQUIRED,
                "this server wants TLS: STARTTLS comes first",
            );
        }
        if let Some(reason) = self.options.closed {
            return self.say(option, answer::POLICY, reason);
        }
        match option {
            option::LIST => self.list(data),
            option::INFO | option::GO => self.go(option, data),
            option::STRUCTURED_REPLY => {
                if !data.is_empty() {
                    return self.say(
                        option,
                        answer::INVALID,
                        "STRUCTURED_REPLY comes without data",
                    );
                }
                self.structured = true;
                self.say(option, answer::ACK, "")
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, data),
            _ => self.say(option, answer::UNSUPPORTED, "this server does not know the option"),
        }
    }

    fn list(&self, data: &[u8]) -> io::Result<Next> {
        if !data.is_empty() {
            return self.say(option::LIST, answer::INVALID, "LIST comes without data");
        }
        for name in self.exports.list() {
            let length = u32::try_from(name.len()).unwrap_or(0).to_be_bytes();
            self.reply(option::LIST, answer::SERVER, &[&length, name.as_bytes()])?;
        }
        self.say(option::LIST, answer::ACK, "")
    }

    /// Opens an export; if that fails, answers the option.
    fn open(&self, option: u32, name: &str) -> io::Result<Option<Arc<dyn BlockDevice>>> {
        match self.exports.open(name) {
            Ok(export) => Ok(Some(export)),
            Err(NotOpened::Unknown) => {
                self.say(option, answer::UNKNOWN, &format!("there is no export '{name}'"))?;
                Ok(None)
            }
            Err(NotOpened::Refused(why)) => {
                self.say(option, answer::UNKNOWN, &why)?;
                Ok(None)
            }
        }
    }

    fn go(&self, option: u32, data: &[u8]) -> io::Result<Next> {
        let Some((name, wanted)) = parse_go(data) else {
            return self.say(
                option,
                answer::INVALID,
                "the option's data are not what they should be",
            );
        };
        let Some(export) = self.open(option, name)? else { return Ok(Next::Option) };
        let flags = transmission_flags(&*export, self.structured).to_be_bytes();
        self.reply(
            option,
            answer::INFO,
            &[&info::EXPORT.to_be_bytes(), &export.size().to_be_bytes(), &flags],
        )?;
        if wanted.contains(&info::NAME) {
            self.reply(option, answer::INFO, &[&info::NAME.to_be_bytes(), name.as_bytes()])?;
        }
        if wanted.contains(&info::DESCRIPTION) {
            let text = export.description();
            self.reply(option, answer::INFO, &[&info::DESCRIPTION.to_be_bytes(), text.as_bytes()])?;
        }
        let sizes = [BLOCK_MIN, BLOCK_PREFERRED, PAYLOAD_MAX].map(u32::to_be_bytes);
        self.reply(option, answer::INFO, &[&info::BLOCK_SIZE.to_be_bytes(), &sizes.concat()])?;
        self.reply(option, answer::ACK, &[])?;
        Ok(if option == option::GO {
            Next::Transmission(self.agreed(name, export))
        } else {
            Next::Option
        })
    }

    fn contexts(&mut self, option: u32, data: &[u8]) -> io::Result<Next> {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            // The option replaces earlier contexts, even if it fails.
            self.allocation = None;
        }
        if !self.structured {
            return self.say(option, answer::INVALID, "contexts come after STRUCTURED_REPLY");
        }
        let parsed = parse_contexts(data).filter(|(_, queries)| queries.len() <= QUERIES_MAX);
        let Some((name, queries)) = parsed else {
            return self.say(
                option,
                answer::INVALID,
                "the option's data are not what they should be",
            );
        };
        if self.open(option, name)?.is_none() {
            return Ok(Next::Option);
        }
        let is_meant = |query: &&str| *query == ALLOCATION || !is_set && *query == "base:";
        if queries.iter().any(is_meant) || !is_set && queries.is_empty() {
            if is_set {
                self.allocation = Some(name.to_owned());
            }
            let id = if is_set { ALLOCATION_ID } else { 0 };
            self.reply(option, answer::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION.as_bytes()])?;
        }
        self.say(option, answer::ACK, "")
    }
}
