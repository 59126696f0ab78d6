//! Tokens of a text, with their positions. The lexer is `sqlparser`'s, in a dialect in which
//! `v$asm_disk` and `serial#` are one word each.

use super::{TEXT_MAX, dialect::Plinth, quoting};
use crate::sql_error::{SqlError, state};
use sqlparser::tokenizer::{Location, Token as Raw, TokenWithSpan, Tokenizer};
use std::borrow::Cow;

/// The kinds of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A word without quotes, as written.
    Word(String),
    /// A word in double quotes.
    Quoted(String),
    /// A string in single quotes.
    String(String),
    /// Digits, perhaps with a point.
    Number(String),
    /// `;`, which never reaches a parser.
    End,
    /// Anything else, as written.
    Symbol(String),
}

/// One token and its position: characters from the start of the text, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

/// A text, cut into tokens.
pub struct Text<'a> {
    text: Cow<'a, str>,
    /// Byte offset of each character, and of the end.
    offsets: Vec<usize>,
    tokens: Vec<Token>,
}

impl<'a> Text<'a> {
    /// # Errors
    /// If the text is too long, or a string or comment in it is not closed.
    pub fn new(text: &'a str) -> Result<Self, SqlError> {
        if text.len() > TEXT_MAX {
            return Err(SqlError::new(
                state::TOO_COMPLEX,
                format!("the text has {} bytes, and at most {TEXT_MAX} are read", text.len()),
            ));
        }
        let standard = quoting::standard(text);
        let text = &*standard;
        let mut offsets: Vec<usize> = text.char_indices().map(|(offset, _)| offset).collect();
        let characters = offsets.len();
        offsets.push(text.len());
        let mut lines = vec![0];
        lines.extend(
            text.chars()
                .enumerate()
                .filter(|(_, character)| *character == '\n')
                .map(|(at, _)| at + 1),
        );
        let place = |location: Location| {
            let line = usize::try_from(location.line.saturating_sub(1)).unwrap_or(usize::MAX);
            let column = usize::try_from(location.column.saturating_sub(1)).unwrap_or(usize::MAX);
            lines.get(line).copied().unwrap_or(characters).saturating_add(column).min(characters)
        };
        let raw = Tokenizer::new(&Plinth, text).tokenize_with_location().map_err(|error| {
            SqlError::syntax(place(error.location), format!("syntax error: {}", error.message))
        })?;
        let mut tokens = Vec::new();
        for TokenWithSpan { token, span } in raw {
            let kind = match token {
                Raw::Whitespace(_) | Raw::EOF => continue,
                Raw::Word(word) if word.quote_style.is_some() => Kind::Quoted(word.value),
                Raw::Word(word) => Kind::Word(word.value),
                Raw::SingleQuotedString(string) | Raw::EscapedStringLiteral(string) => {
                    Kind::String(quoting::value(string))
                }
                Raw::Number(digits, _) => Kind::Number(digits),
                Raw::SemiColon => Kind::End,
                other => Kind::Symbol(other.to_string()),
            };
            let start = place(span.start);
            tokens.push(Token { kind, start, end: place(span.end).max(start) });
        }
        Ok(Self { offsets, tokens, text: standard })
    }

    /// The tokens of each non-empty statement.
    pub fn statements(&self) -> impl Iterator<Item = &[Token]> {
        self.tokens.split(|token| token.kind == Kind::End).filter(|tokens| !tokens.is_empty())
    }

    /// The text between two positions.
    #[must_use]
    pub fn between(&self, start: usize, end: usize) -> &str {
        let offset = |at: usize| self.offsets.get(at).copied().unwrap_or(self.text.len());
        let (start, end) = (offset(start), offset(end));
        self.text.get(start..end.max(start)).unwrap_or_default()
    }
}

impl Token {
    /// Whether this token is the keyword, which is given in upper case.
    #[must_use]
    pub fn is(&self, keyword: &str) -> bool {
        matches!(&self.kind, Kind::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Whether this token is the symbol.
    #[must_use]
    pub fn is_symbol(&self, symbol: &str) -> bool {
        matches!(&self.kind, Kind::Symbol(found) if found == symbol)
    }
}
