//! Login over the network: a client names its user and proves the password by SCRAM-SHA-256,
//! whether or not the user exists.
//!
//! The client gets the same error for an unknown name and for a wrong password, after a pause, so
//! that guessing is slow. The alert log has a line for each failure, up to a limit per minute;
//! further ones are counted.

use super::{Connection, Door, End, LOGIN_MAX};
use crate::{
    login_failures::PAUSE,
    scram::{self, Exchange, Failure},
    sql::Role,
    sql_error::{SqlError, state},
};
use pgwire::messages::{PgWireBackendMessage as Message, startup::Authentication};
use std::{net::SocketAddr, thread, time::Instant};

impl Connection {
    /// Logs a user in by password, and returns its role.
    pub(super) fn log_in(
        &mut self,
        user: &str,
        from: SocketAddr,
        door: &Door,
        deadline: Instant,
    ) -> Result<Role, End> {
        match self.prove(user, door, deadline) {
            Ok(()) => {}
            Err(Some(failure)) => return Err(self.rejected(user, from, failure).into()),
            Err(None) => return Err(End::Gone),
        }
        // The user may have been dropped meanwhile.
        self.instance
            .role(user)
            .ok_or_else(|| self.rejected(user, from, Failure::WrongProof).into())
    }

    /// The SCRAM exchange. An error without a failure means that the client is gone.
    fn prove(&mut self, user: &str, door: &Door, deadline: Instant) -> Result<(), Option<Failure>> {
        let encrypted = self.stream.tls().is_some();
        let binding =
            door.tls.as_ref().and_then(|tls| tls.binding.as_deref()).filter(|_| encrypted);
        let mut offered = vec![scram::PLAIN.to_owned()];
        if binding.is_some() {
            offered.insert(0, scram::BOUND.to_owned());
        }
        self.say(Authentication::SASL(offered.clone()))?;
        let mut chosen = self.password_message(deadline)?;
        let malformed = |_| Some(Failure::Malformed("the client's answer is cut short"));
        let mechanism = chosen.string().map_err(malformed)?;
        if !offered.contains(&mechanism) {
            return Err(Some(Failure::Malformed(
                "the client wants a mechanism that was not offered",
            )));
        }
        let length = usize::try_from(chosen.i32().map_err(malformed)?).unwrap_or(usize::MAX);
        let first = chosen.take(length).map_err(malformed)?;
        let verifier = self.instance.verifier(user);
        let (exchange, answer) =
            Exchange::first(verifier, first, binding, mechanism == scram::BOUND)?;
        self.say(Authentication::SASLContinue(answer.into_bytes().into()))?;
        let last = self.password_message(deadline)?;
        let answer = exchange.last(&last.bytes)?;
        // Flushed together with the messages after it.
        self.send(&Message::Authentication(Authentication::SASLFinal(answer.into_bytes().into())))
            .map_err(|_| None)
    }

    fn say(&mut self, what: Authentication) -> Result<(), Option<Failure>> {
        self.send(&Message::Authentication(what)).and_then(|()| self.flush()).map_err(|_| None)
    }

    fn password_message(&mut self, deadline: Instant) -> Result<super::Body, Option<Failure>> {
        match self.message(Some(deadline), LOGIN_MAX) {
            Ok((b'p', body)) => Ok(body),
            Err(End::Gone) => Err(None),
            Ok(_) | Err(End::Refused(_)) => {
                Err(Some(Failure::Malformed("the client sends something else")))
            }
        }
    }

    /// Logs the reason of a failure, and returns the error without the reason for the client.
    fn rejected(&self, user: &str, from: SocketAddr, failure: Failure) -> SqlError {
        let user: String =
            user.chars().filter(|character| !character.is_control()).take(64).collect();
        let why = match failure {
            Failure::WrongProof => "no such user, or a wrong password",
            Failure::Downgraded => {
                "a host in between has another certificate, or the client believes that the server cannot bind"
            }
            Failure::NoRandomness => "the operating system gives no random bytes",
            Failure::Malformed(what) => what,
        };
        self.limits.failures.report(self.instance.alert(), &user, from, why);
        thread::sleep(PAUSE);
        match failure {
            Failure::Malformed(what) => SqlError::new(state::PROTOCOL, what),
            _ => SqlError::new(
                state::WRONG_PASSWORD,
                format!("password authentication failed for user \"{user}\""),
            ),
        }
    }
}
