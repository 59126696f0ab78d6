//! Users with passwords: `CREATE USER`, `ALTER USER`; PostgreSQL's syntax, and Oracle's `IDENTIFIED
//! BY`.

use super::{Parser, Result};
use crate::sql::{
    Role,
    statement::{At, Password, Statement},
    tokens::Kind,
};

/// `name [WITH] PASSWORD '...' [[ROLE] role]`, in any order, after CREATE USER.
pub(super) fn create(parser: &mut Parser<'_>) -> Result<Statement> {
    let name = parser.name("the name of a user")?;
    let (password, role) = clauses(parser)?;
    let password = password.ok_or_else(|| parser.expected("PASSWORD '...'"))?;
    Ok(Statement::CreateUser { name, password, role: role.unwrap_or(Role::Look) })
}

/// `name [WITH] [PASSWORD '...'] [[ROLE] role]`, after ALTER USER.
pub(super) fn alter(parser: &mut Parser<'_>) -> Result<Statement> {
    let name = parser.name("the name of a user")?;
    let (password, role) = clauses(parser)?;
    if password.is_none() && role.is_none() {
        return Err(parser.expected("PASSWORD '...' or ROLE"));
    }
    Ok(Statement::AlterUser { name, password, role })
}

fn clauses(parser: &mut Parser<'_>) -> Result<(Option<Password>, Option<Role>)> {
    let (mut password, mut wanted) = (None, None);
    parser.take("WITH");
    while parser.peek().is_some() {
        // Ignored: every user may log in, and every password is stored as a verifier.
        if parser.take("LOGIN") || parser.take("ENCRYPTED") {
            continue;
        }
        if password.is_none() && parser.take("PASSWORD") {
            password = Some(Password(parser.string("a password in single quotes")?));
        } else if password.is_none() && parser.take("IDENTIFIED") {
            parser.need("BY")?;
            password = Some(Password(word_or_string(parser)?));
        } else if wanted.is_none() {
            let said = parser.take("ROLE");
            wanted = role(parser);
            if wanted.is_none() {
                let what = "ADMINISTER, OPERATE or LOOK";
                return Err(parser.expected(if said {
                    what
                } else {
                    "PASSWORD '...', ADMINISTER, OPERATE or LOOK"
                }));
            }
        } else {
            return Err(parser.expected("the end of the statement"));
        }
    }
    Ok((password, wanted))
}

fn role(parser: &mut Parser<'_>) -> Option<Role> {
    let roles =
        [("ADMINISTER", Role::Administer), ("OPERATE", Role::Operate), ("LOOK", Role::Look)];
    roles.into_iter().find(|(word, _)| parser.take(word)).map(|(_, role)| role)
}

fn word_or_string(parser: &mut Parser<'_>) -> Result<At<String>> {
    let at = parser.here();
    match parser.peek().map(|token| &token.kind) {
        Some(Kind::Word(value) | Kind::Quoted(value)) => {
            let value = value.clone();
            parser.next += 1;
            Ok(At { value, at })
        }
        _ => parser.string("a password"),
    }
}
