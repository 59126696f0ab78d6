//! Edits of a statement's text that keep track of the origin of each byte.

use crate::{
    sql::{
        Query,
        tokens::{Text, Token},
    },
    sql_error::SqlError,
};
use std::borrow::Cow;

/// A statement rewritten for SQLite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    pub sql: String,
    pieces: Vec<Piece>,
}

/// A part of the new text, up to the start of the next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// Byte offset in the new text.
    byte: usize,
    /// Character offset in the original.
    origin: usize,
    /// Whether the piece is copied from the original; otherwise it was inserted.
    is_copy: bool,
}

impl Rewritten {
    /// A text without changes.
    #[must_use]
    pub fn unchanged(text: &str) -> Self {
        Self { sql: text.to_owned(), pieces: vec![Piece { byte: 0, origin: 0, is_copy: true }] }
    }

    /// The character of the original that a byte of `sql` comes from.
    #[must_use]
    pub fn origin(&self, byte: usize) -> usize {
        let after = self.pieces.partition_point(|piece| piece.byte <= byte);
        let Some(piece) = after.checked_sub(1).and_then(|index| self.pieces.get(index)) else {
            return 0;
        };
        if !piece.is_copy {
            return piece.origin;
        }
        let between = self
            .sql
            .get(piece.byte..byte.min(self.sql.len()))
            .map_or(0, |text| text.chars().count());
        piece.origin + between
    }

    /// The result of two rewritings: this one, and `next`, which was made from its text.
    #[must_use]
    pub fn then(&self, next: Self) -> Self {
        let mut bytes: Vec<usize> = self.sql.char_indices().map(|(byte, _)| byte).collect();
        bytes.push(self.sql.len());
        let ends = next.pieces.iter().skip(1).map(|piece| piece.byte).chain([next.sql.len()]);
        let mut pieces = Vec::new();
        for (piece, end) in next.pieces.iter().zip(ends) {
            let from = bytes.get(piece.origin).copied().unwrap_or(self.sql.len());
            // Pieces are in the order of their bytes.
            let after = self.pieces.partition_point(|earlier| earlier.byte <= from);
            let within = after.checked_sub(1).and_then(|at| self.pieces.get(at));
            let is_copy = piece.is_copy && within.is_none_or(|earlier| earlier.is_copy);
            pieces.push(Piece { byte: piece.byte, origin: self.origin(from), is_copy });
            if piece.is_copy {
                // The copied part may itself consist of several pieces.
                let to = from + (end - piece.byte);
                let rest = self.pieces.get(after..).unwrap_or_default();
                let inside = rest.iter().take_while(|earlier| earlier.byte < to);
                pieces.extend(
                    inside.map(|earlier| Piece {
                        byte: piece.byte + (earlier.byte - from),
                        ..*earlier
                    }),
                );
            }
        }
        Self { sql: next.sql, pieces }
    }

    /// The pieces with their origins, and whether they are copies.
    #[must_use]
    pub fn texts(&self) -> Vec<Given> {
        let ends = self.pieces.iter().skip(1).map(|piece| piece.byte).chain([self.sql.len()]);
        let pieces = self.pieces.iter().zip(ends);
        pieces
            .filter_map(|(piece, end)| {
                let text = self.sql.get(piece.byte..end)?.to_owned();
                Some(Given { text, origin: piece.origin, is_copy: piece.is_copy })
            })
            .filter(|given| !given.text.is_empty())
            .collect()
    }
}

/// A text to insert, and its origin.
#[derive(Debug, Clone)]
pub struct Given {
    pub text: String,
    origin: usize,
    is_copy: bool,
}

impl Given {
    /// A new text whose origin is a position in the original.
    #[must_use]
    pub fn new(text: impl Into<String>, origin: usize) -> Self {
        Self { text: text.into(), origin, is_copy: false }
    }
}

/// The replacement of a range of characters: texts with their origins.
#[derive(Debug)]
struct Edit {
    start: usize,
    end: usize,
    texts: Vec<Given>,
    kind: EditKind,
}

/// The order of edits at one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EditKind {
    /// Ends an expression before the position; the first of several is the innermost.
    Close,
    /// Begins an expression at the position; the last of several is the outermost.
    Open,
    Replace,
}

/// Edits that have not been made yet. Positions are characters of the text.
#[derive(Debug, Default)]
pub struct Edits(Vec<Edit>);

impl Edits {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn replace(&mut self, start: usize, end: usize, text: impl Into<String>) {
        self.pieces(start, end, vec![Given::new(text, start)]);
    }

    /// Inserts a text before a position; of several texts at one position the last comes first.
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at, at, text);
    }

    /// Inserts the end of what encloses an expression that ends at a position. Of several the first
    /// comes first.
    pub fn close(&mut self, at: usize, text: impl Into<String>) {
        let texts = vec![Given::new(text, at)];
        self.0.push(Edit { start: at, end: at, texts, kind: EditKind::Close });
    }

    /// Replaces a range by texts that come from other parts of the statement.
    pub fn pieces(&mut self, start: usize, end: usize, texts: Vec<Given>) {
        let kind = if start == end { EditKind::Open } else { EditKind::Replace };
        self.0.push(Edit { start, end, texts, kind });
    }

    /// Makes the edits in a part of the text; if edits overlap, the first one is made.
    #[must_use]
    pub fn made(&self, text: &str, from: usize, to: usize) -> Rewritten {
        // Of a text of plain letters, a character is a byte.
        let is_ascii = text.is_ascii();
        let mut offsets: Vec<usize> = Vec::new();
        if !is_ascii {
            offsets.extend(text.char_indices().map(|(byte, _)| byte));
        }
        let byte = |at: usize| {
            if is_ascii {
                at.min(text.len())
            } else {
                offsets.get(at).copied().unwrap_or(text.len())
            }
        };
        let between = |start: usize, end: usize| {
            text.get(byte(start)..byte(end).max(byte(start))).unwrap_or_default()
        };
        let mut order: Vec<(usize, &Edit)> = self
            .0
            .iter()
            .enumerate()
            .filter(|(_, edit)| edit.start >= from && edit.end <= to)
            .collect();
        order.sort_by_key(|(number, edit)| {
            let number = if edit.kind == EditKind::Open { usize::MAX - number } else { *number };
            (edit.start, edit.kind, number)
        });
        let begin = Piece { byte: 0, origin: from, is_copy: true };
        let mut out =
            Rewritten { sql: String::with_capacity(text.len() + 64), pieces: vec![begin] };
        let mut copied = from;
        for (_, edit) in order {
            if edit.start < copied {
                continue;
            }
            out.sql.push_str(between(copied, edit.start));
            for Given { text, origin, is_copy } in &edit.texts {
                out.pieces.push(Piece { byte: out.sql.len(), origin: *origin, is_copy: *is_copy });
                out.sql.push_str(text);
            }
            copied = edit.end;
            out.pieces.push(Piece { byte: out.sql.len(), origin: copied, is_copy: true });
        }
        out.sql.push_str(between(copied, to));
        out
    }

    /// Makes the edits in the whole text.
    #[must_use]
    pub fn all(&self, text: &str) -> Rewritten {
        self.made(text, 0, text.chars().count())
    }
}

/// A query that is being rewritten: its text so far, and the tokens of that text.
pub struct Draft<'a> {
    pub done: Rewritten,
    pub tokens: Cow<'a, [Token]>,
}

impl<'a> Draft<'a> {
    #[must_use]
    pub fn of(query: &'a Query) -> Self {
        Self { done: Rewritten::unchanged(&query.text), tokens: Cow::Borrowed(&query.tokens) }
    }

    /// Applies edits, and tokenises the new text.
    ///
    /// # Errors
    /// If the new text is too long.
    pub fn changed(self, edits: &Edits) -> Result<Self, SqlError> {
        if edits.is_empty() {
            return Ok(self);
        }
        let done = self.done.then(edits.all(&self.done.sql));
        let tokens = Text::new(&done.sql)?.statements().flatten().cloned().collect();
        Ok(Self { done, tokens: Cow::Owned(tokens) })
    }

    /// Moves a refusal's position to that in the text that the client sent.
    #[must_use]
    pub fn placed(&self, mut refusal: SqlError) -> SqlError {
        let sql = &self.done.sql;
        let byte = |at: usize| sql.char_indices().nth(at).map_or(sql.len(), |(byte, _)| byte);
        refusal.at = refusal.at.map(|at| self.done.origin(byte(at)));
        refusal
    }
}
