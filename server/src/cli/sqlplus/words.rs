//! The words of a client command, as SQL*Plus reads them.
//!
//! Words are separated by white space. A word that begins with a quotation mark, `'` or `"`, goes
//! to the next one like it; two in a row stand for one. `--` where an option could stand begins a
//! comment, although SQL*Plus itself refuses it: it cannot be anything else.

use super::refusal::{Refusal, invalid, wrong};
use crate::sql::sqlplus::abbreviates;

/// A word, without its quotation marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    pub quoted: bool,
}

impl Word {
    /// Whether this is the keyword, given in upper case, or an abbreviation of it with at least
    /// `least` letters.
    pub(super) fn is(&self, keyword: &str, least: usize) -> bool {
        !self.quoted && abbreviates(&self.text, keyword, least)
    }

    pub(super) fn is_comment(&self) -> bool {
        !self.quoted && (self.text.starts_with("--") || self.text.starts_with("/*"))
    }
}

/// The words of a text, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.trim() }
    }

    /// All that has not been read, as it stands.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// The next word, if there is one before a comment.
    ///
    /// # Errors
    /// If a quotation mark has no second one.
    pub(super) fn option(&mut self) -> Result<Option<Word>, Refusal> {
        match self.clone().value()? {
            Some(word) if word.is_comment() => {
                self.rest = "";
                Ok(None)
            }
            _ => self.value(),
        }
    }

    /// The next word, whatever it is.
    ///
    /// # Errors
    /// If a quotation mark has no second one.
    pub(super) fn value(&mut self) -> Result<Option<Word>, Refusal> {
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        if first == '\'' || first == '"' {
            return self.quoted(first).map(Some);
        }
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        Ok(Some(Word { text: word.to_owned(), quoted: false }))
    }

    /// Takes the next word if it is this keyword.
    pub(super) fn take(&mut self, keyword: &str, least: usize) -> bool {
        let mut ahead = self.clone();
        let found = matches!(ahead.option(), Ok(Some(word)) if word.is(keyword, least));
        if found {
            *self = ahead;
        }
        found
    }

    /// The next word as a whole number.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn number(&mut self, what: &str) -> Result<usize, Refusal> {
        let word = self.value()?;
        let text = word.map(|word| word.text).unwrap_or_default();
        text.parse().map_err(|_| invalid(268, format!("{what} option not a valid number")))
    }

    fn quoted(&mut self, mark: char) -> Result<Word, Refusal> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1).peekable();
        while let Some((at, character)) = characters.next() {
            if character != mark {
                text.push(character);
            } else if characters.peek().is_some_and(|(_, next)| *next == mark) {
                text.push(mark);
                characters.next();
            } else {
                let behind = at + mark.len_utf8();
                self.rest = self.rest.get(behind..).unwrap_or_default().trim_start();
                return Ok(Word { text, quoted: true });
            }
        }
        Err(wrong(format!("a quotation mark has no second one: {}", self.rest)))
    }
}

/// Where the first `;` outside of quotation marks is that has something behind it but blanks. The
/// text up to there is a command of its own.
pub(super) fn separator(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match quote {
            Some(mark) if character == mark => quote = None,
            Some(_) => {}
            None if character == '\'' || character == '"' => quote = Some(character),
            None if character == ';' => {
                let behind = text.get(at..).unwrap_or_default();
                return behind.trim_start_matches([';', ' ', '\t']).chars().next().map(|_| at);
            }
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut words = Words::new(text);
        let mut found = Vec::new();
        while let Some(word) = words.option().expect(text) {
            found.push(if word.quoted { format!("<{}>", word.text) } else { word.text });
        }
        found
    }

    #[test]
    fn quotation_marks_keep_blanks() {
        assert_eq!(
            all("a  HEADING 'it''s a' \"b|c\" d'e"),
            ["a", "HEADING", "<it's a>", "<b|c>", "d'e"]
        );
        assert_eq!(all("off -- not now"), ["off"]);
        assert_eq!(all("off /* not now */"), ["off"]);
        assert!(Words::new("'open").value().is_err());
    }

    #[test]
    fn a_word_is_abbreviated_down_to_its_least_length() {
        let word = |text: &str| Word { text: text.to_owned(), quoted: false };
        assert!(word("lin").is("LINESIZE", 3) && word("LineSize").is("LINESIZE", 3));
        assert!(!word("li").is("LINESIZE", 3) && !word("linesizes").is("LINESIZE", 3));
        assert!(!word("linus").is("LINESIZE", 3) && !word("lé").is("LINESIZE", 2));
    }

    #[test]
    fn a_separator_has_something_behind_it() {
        assert_eq!(separator("set a b; select 1"), Some(7));
        assert_eq!(separator("set a b; ;"), None);
        assert_eq!(separator("set a ';' on"), None);
        assert_eq!(separator("a;;b"), Some(1));
    }
}
