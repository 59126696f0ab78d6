//! Parses statements: from text to [`Statement`].
//!
//! ```text
//!   text --sqlplus--tokens--> tokens with places --split at ;--> parser --> Statement
//! ```
//!
//! Every error has a position: characters from the start of the whole text that the client sent,
//! counted from 0. Nothing here carries out a statement, or knows an instance.

mod dialect;
pub mod parser;
mod query;
mod role;
pub mod sqlplus;
pub mod statement;
#[cfg(test)]
mod tests;
pub mod tokens;

pub use query::Query;
pub use role::Role;
pub use statement::{At, Statement};

use crate::sql_error::SqlError;
use tokens::Text;

/// The longest text of statements that is accepted, in bytes.
pub const TEXT_MAX: usize = 1 << 20;

/// Splits a text at its semicolons and parses each statement; empty ones are left out.
///
/// # Errors
/// At the first position that cannot be parsed.
pub fn parse(text: &str) -> Result<Vec<Statement>, SqlError> {
    let text = sqlplus::plain(text);
    let text = Text::new(&text)?;
    text.statements().map(|tokens| parser::statement(&text, tokens)).collect()
}
