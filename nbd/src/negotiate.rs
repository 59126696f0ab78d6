//! From a connection to an agreement: which export, and how replies look.
//!
//! ```text
//!   greeting --> client's flags --> options, one at a time --GO, EXPORT_NAME--> transmission
//!                                     |  ^                \--ABORT, anything that is no option--> the end
//!                                     STARTTLS: all that was agreed before is void
//! ```
//!
//! Where there is TLS it is the only way: before it, a client is told of nothing else, not even the names of exports. Each option is answered,
//! also one that is refused; the text says why. Who is one client too many gets that said, to whatever he asks.
//!
//! Bounded: the time of it all, the number of options, the length of an option that is read; a longer one is skipped, up to [`SKIPPED_MAX`].

use crate::{
    export::{Export, Exports, NotOpened},
    protocol::{
        ALLOCATION, ALLOCATION_ID, FIXED_NEWSTYLE, GREETING, NO_ZEROES, OPTION_HEADER, STRING_MAX,
        answer, can, info, option, option_reply, parse_contexts, parse_go, parse_option,
    },
    stream::{Incoming, Stream},
};
use rustls::ServerConfig;
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long it may take until a client has agreed to something.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(20);
/// Options of one client: a list of hundreds of exports and a look at each is fine.
const OPTIONS_MAX: usize = 2048;
/// The longest option that is read.
const OPTION_MAX: u32 = 32 << 10;
/// The longest option that is skipped.
const SKIPPED_MAX: u32 = 1 << 20;
/// Queries for contexts in one option.
const QUERIES_MAX: usize = 64;

/// Smallest, preferred and largest request, in bytes.
pub(crate) const BLOCK_MIN: u32 = 1;
const BLOCK_PREFERRED: u32 = 4096;
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;

/// What a listener demands.
pub(crate) struct Entrance<'a> {
    /// Only with TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Hears why TLS did not come about.
    pub refused: &'a (dyn Fn(&str) + Sync),
    /// Nobody comes in, for this reason.
    pub closed: Option<&'a str>,
    /// For all of the handshake.
    pub patience: Duration,
}

/// What both sides have agreed on.
pub(crate) struct Agreed {
    pub export: Arc<dyn Export>,
    /// Its own name, also where the client said none.
    pub export_name: String,
    /// Bytes, as the client was told.
    pub size: u64,
    /// Replies to reads, and errors, are structured.
    pub structured: bool,
    /// `base:allocation` may be asked for.
    pub allocation: bool,
}

/// The handshake with one client.
struct Handshake<'a> {
    stream: &'a Stream,
    exports: &'a dyn Exports,
    door: &'a Entrance<'a>,
    deadline: Instant,
    structured: bool,
    /// The export for which `base:allocation` was agreed on.
    allocation: Option<String>,
}

/// What comes after an option.
enum Next {
    Option,
    Transmission(Agreed),
    End,
}

/// What an export can.
pub(crate) fn transmission_flags(export: &dyn Export, structured: bool) -> u16 {
    // A flush makes durable what any connection was told is written: several may be used as one.
    let mut flags = can::HAS_FLAGS | can::FLUSH | can::FUA | can::MULTI_CONN | can::CACHE;
    flags |= if export.is_read_only() {
        can::READ_ONLY
    } else {
        can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO
    };
    flags | if structured { can::DF } else { 0 }
}

/// Leads a client to an agreement. `None`: it has left, or was shown the door.
pub(crate) fn negotiate(
    incoming: &mut Incoming,
    stream: &Stream,
    exports: &dyn Exports,
    door: &Entrance<'_>,
) -> io::Result<Option<Agreed>> {
    let deadline = Instant::now() + door.patience;
    stream.send(&[&GREETING], deadline)?;
    let mut flags = [0; 4];
    if incoming.read_exact(&mut flags, Some(deadline))?.is_none() {
        return Ok(None);
    }
    let flags = u32::from_be_bytes(flags);
    if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        // It means something that we do not know: nothing that follows can be understood.
        return Ok(None);
    }
    let mut handshake =
        Handshake { stream, exports, door, deadline, structured: false, allocation: None };
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

    /// Answers an option with a word and a text.
    fn say(&self, option: u32, kind: u32, text: &str) -> io::Result<Next> {
        let text = text.get(..text.floor_char_boundary(STRING_MAX)).unwrap_or_default();
        self.reply(option, kind, &[text.as_bytes()])?;
        Ok(Next::Option)
    }

    fn must_encrypt(&self) -> bool {
        self.door.tls.is_some() && !self.stream.is_encrypted()
    }

    fn start_tls(&mut self, incoming: &mut Incoming, data: &[u8]) -> io::Result<Next> {
        let Some(config) = &self.door.tls else {
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
                    (self.door.refused)("it ended the connection while TLS began")
                }
                io::ErrorKind::TimedOut => (self.door.refused)("TLS did not come about in time"),
                _ => (self.door.refused)(&error.to_string()),
            }
        })?;
        self.structured = false;
        self.allocation = None;
        Ok(Next::Option)
    }

    /// The old way in, which has no word for a refusal.
    fn export_name(&self, data: &[u8], with_zeroes: bool) -> io::Result<Next> {
        let name = std::str::from_utf8(data).ok().filter(|name| name.len() <= STRING_MAX);
        let Some(name) = name.filter(|_| !self.must_encrypt() && self.door.closed.is_none()) else {
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

    fn agreed(&self, name: &str, export: Arc<dyn Export>) -> Agreed {
        // Contexts go with the export that they were agreed on for.
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
        if let Some(reason) = self.door.closed {
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

    /// Opens an export; if that is refused, says so.
    fn open(&self, option: u32, name: &str) -> io::Result<Option<Arc<dyn Export>>> {
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
            // Whatever comes of it: what was agreed before is void.
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
