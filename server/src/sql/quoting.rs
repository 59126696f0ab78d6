//! Oracle's literals `q'[it's]'`, which the lexer does not know, as literals in single quotes.
//!
//! Positions in the text stay the same: the quotes within such a literal become a character that
//! stands for one, and blanks behind it fill up what the brackets leave. [`value`] gives the quotes
//! back.

use std::borrow::Cow;

/// Stands for a quote; Unicode has it for no character.
const QUOTE: char = '\u{fdd0}';

/// The value of a literal.
#[must_use]
pub fn value(literal: String) -> String {
    if literal.contains(QUOTE) { literal.replace(QUOTE, "'") } else { literal }
}

/// The text with standard literals.
#[must_use]
pub fn standard(text: &str) -> Cow<'_, str> {
    if !text.contains("q'") && !text.contains("Q'") {
        return Cow::Borrowed(text);
    }
    let letters: Vec<char> = text.chars().collect();
    let get = |at: usize| letters.get(at).copied().unwrap_or('\0');
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < letters.len() {
        let end = match (get(at), get(at + 1)) {
            ('\'' | '"', _) => quoted_end(&letters, at),
            ('-', '-') => find(&letters, at, &['\n']).unwrap_or(letters.len()),
            ('/', '*') => comment_end(&letters, at),
            ('q' | 'Q', '\'') if !(at > 0 && is_of_word(get(at - 1))) => {
                match closing(&letters, at + 2) {
                    Some(close) => {
                        out.push('\'');
                        let inside = letters.get(at + 3..close).unwrap_or_default();
                        let unquoted =
                            |letter: &char| if *letter == '\'' { QUOTE } else { *letter };
                        out.extend(inside.iter().map(unquoted));
                        out.push_str("'   ");
                        at = close + 2;
                        continue;
                    }
                    None => at + 2,
                }
            }
            _ => at + 1,
        };
        out.extend(letters.get(at..end).unwrap_or_default());
        at = end;
    }
    Cow::Owned(out)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || "_$#".contains(letter)
}

/// The position behind a string or a name in quotes.
fn quoted_end(letters: &[char], open: usize) -> usize {
    let quote = letters.get(open).copied().unwrap_or_default();
    find(letters, open + 1, &[quote]).map_or(letters.len(), |close| close + 1)
}

/// The position behind a comment, in which others may be.
fn comment_end(letters: &[char], open: usize) -> usize {
    let (mut at, mut depth) = (open, 0_usize);
    while at < letters.len() {
        match letters.get(at..at + 2) {
            Some(['/', '*']) => (at, depth) = (at + 2, depth + 1),
            Some(['*', '/']) => {
                (at, depth) = (at + 2, depth.saturating_sub(1));
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    letters.len()
}

/// The position of the bracket that ends a literal whose opening bracket is at `open`.
fn closing(letters: &[char], open: usize) -> Option<usize> {
    let bracket = *letters.get(open)?;
    let close = match bracket {
        '[' => ']',
        '(' => ')',
        '{' => '}',
        '<' => '>',
        other if other.is_whitespace() => return None,
        other => other,
    };
    find(letters, open + 1, &[close, '\''])
}

/// The position of these characters at or after `from`.
fn find(letters: &[char], from: usize, wanted: &[char]) -> Option<usize> {
    let rest = letters.get(from..)?;
    rest.windows(wanted.len()).position(|window| window == wanted).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::tokens::{Kind, Text};

    #[test]
    fn literals_keep_their_quotes_and_places() {
        for (text, strings) in [
            ("SELECT q'[it's]' x", &["it's"][..]),
            ("SELECT Q'{a''b}', 'c', q'!d'!'", &["a''b", "c", "d'"]),
            ("SELECT q'<>' -- q'[x]'\n, 'q''[y]'", &["", "q'[y]"]),
            ("SELECT q'(\n')'", &["\n'"]),
            ("/* q'[ */ SELECT 'é' || q'[']'", &["é", "'"]),
            ("SELECT q'[a]b]'", &["a]b"]),
        ] {
            let plain = standard(text);
            assert_eq!(plain.chars().count(), text.chars().count(), "{text}");
            let text = Text::new(text).expect(text);
            let found: Vec<&str> = text
                .statements()
                .flatten()
                .filter_map(|token| match &token.kind {
                    Kind::String(value) => Some(value.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(found, strings);
        }
        // A literal that is not closed is left to the lexer.
        assert!(Text::new("SELECT q'[x").is_err());
        assert_eq!(standard("SELECT seq'[x]'"), "SELECT seq'[x]'");
    }
}
