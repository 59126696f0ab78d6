//! Statements: from text to what they ask for.
//!
//! ```text
//!   text --sqlplus--tokens--> tokens with places --split at ;--> parser --> Statement
//! ```
//!
//! Every error points at its place: characters from the start of the whole text that the client
//! sent, counted from 0. Nothing here acts, or knows an instance.

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

/// The longest text of statements that is looked at, in bytes.
pub const TEXT_MAX: usize = 1 << 20;

/// Splits a text at its semicolons and parses each statement; empty ones are left out.
///
/// # Errors
/// At the first place that cannot be understood.
pub fn parse(text: &str) -> Result<Vec<Statement>, SqlError> {
    let text = sqlplus::plain(text);
    let text = Text::new(&text)?;
    text.statements().map(|tokens| parser::statement(&text, tokens)).collect()
}
