//! Parses statements: from text to [`Statement`].
//!
//! ```text
//!   text --quoting--sqlplus--tokens--> tokens with places --split at ;--> parser --> Statement
//! ```
//!
//! Every error has a position: characters from the start of the whole text that the client sent,
//! counted from 0. Nothing here carries out a statement, or knows an instance.

mod dialect;
pub mod parser;
mod query;
mod quoting;
mod role;
pub mod rules;
pub mod sqlplus;
pub mod statement;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod variables;

pub use query::Query;
pub use role::Role;
pub use statement::{At, LabelOrder, Statement};

use crate::sql_error::SqlError;
use tokens::Text;

/// The longest text of statements that is accepted, in bytes.
pub const TEXT_MAX: usize = 1 << 20;

/// Splits a text at its semicolons and parses each statement; empty ones are left out.
///
/// # Errors
/// At the first position that cannot be parsed.
pub fn parse(text: &str) -> Result<Vec<Statement>, SqlError> {
    parse_with(text, true)
}

/// As [`parse`], of a text in which variables of SQL*Plus have no values: they are refused.
///
/// # Errors
/// At the first position that cannot be parsed, and at a variable.
pub fn parse_without_variables(text: &str) -> Result<Vec<Statement>, SqlError> {
    parse_with(text, false)
}

fn parse_with(text: &str, is_substituted: bool) -> Result<Vec<Statement>, SqlError> {
    let text = quoting::standard(text);
    let text = sqlplus::plain(&text)?;
    let text = Text::new(&text)?;
    if !is_substituted {
        variables::refuse(&text)?;
    }
    text.statements().map(|tokens| parser::statement(&text, tokens)).collect()
}
