//! A SELECT as the client sent it, cut into tokens once.

use super::{
    quoting,
    tokens::{Text, Token},
};
use crate::sql_error::SqlError;

/// The text of one query and its tokens. Rewriting, type inference and name lookup all work on
/// these tokens; the text is not tokenised again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub text: String,
    /// Their positions count from the start of `text`.
    pub tokens: Vec<Token>,
    /// Where `text` starts in the text that the client sent.
    pub at: usize,
}

impl Query {
    /// For a text that is a single query.
    ///
    /// # Errors
    /// If it cannot be tokenised.
    pub fn new(text: &str) -> Result<Self, SqlError> {
        let text = quoting::standard(text);
        let tokens = Text::new(&text)?.statements().flatten().cloned().collect();
        Ok(Self { text: text.into_owned(), tokens, at: 0 })
    }

    /// One statement of a text that has been tokenised.
    pub(super) fn of(text: &Text<'_>, tokens: &[Token]) -> Self {
        let start = tokens.first().map_or(0, |first| first.start);
        let end = tokens.last().map_or(start, |last| last.end);
        let moved = |token: &Token| Token {
            kind: token.kind.clone(),
            start: token.start - start,
            end: token.end - start,
        };
        Self {
            text: text.between(start, end).to_owned(),
            tokens: tokens.iter().map(moved).collect(),
            at: start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Statement, parse};

    /// A statement in a longer text has the tokens that it would have alone.
    #[test]
    fn a_query_keeps_the_tokens_of_its_text() {
        let text = "SELECT é::text; -- two\n\n SELECT E'a\\'b', \"x y\", 'it''s' FROM v$asm_disk d\n WHERE $1 <= .5 -- end\n;";
        for statement in parse(text).expect(text) {
            let Statement::Query(query) = statement else { panic!("a query") };
            let alone = Query::new(&query.text).expect("a query");
            assert_eq!(query, Query { at: query.at, ..alone });
            let behind: String = text.chars().skip(query.at).collect();
            assert!(behind.starts_with(&query.text), "{query:?}");
        }
    }
}
