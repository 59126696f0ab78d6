//! Where in a text strings, quoted names and comments are, and so where a statement ends.
//!
//! The text comes line by line, so the state at the end of a line is kept. Strings are those that
//! the server reads: `'it''s'`, `E'it\'s'`, `$$it's$$`, `$tag$it's$tag$`, and Oracle's `q'[it's]'`.
//! Comments are `--` up to the end of the line, and `/* */`, which nest as in PostgreSQL.

/// Where a place of the text is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum State {
    #[default]
    Plain,
    /// `'...'`, `"..."`; whether `\` escapes.
    Quoted(char, bool),
    /// `q'[...]'`: up to this character and a quotation mark.
    Delimited(char),
    /// `$tag$...$tag$`, with its dollars.
    Dollars(String),
    /// `/* */`, and how deep.
    Comment(usize),
    /// `--`, up to the end of the line.
    Line,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Scan {
    state: State,
    /// The letters and digits just before this place: `$` within a word begins no string.
    word: String,
}

/// The part of the text that a character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Plain,
    String,
    Comment,
}

impl Scan {
    /// Whether this place is outside of strings, quoted names and comments.
    pub(super) fn is_plain(&self) -> bool {
        self.state == State::Plain
    }

    /// Whether it is in a comment.
    pub(super) fn is_comment(&self) -> bool {
        matches!(self.state, State::Comment(_) | State::Line)
    }

    /// Goes on to the first place at which `stop` says yes, and says where that is. `stop` is asked
    /// for each character that is not a part of a mark of two or more.
    pub(super) fn find(
        &mut self,
        text: &str,
        mut stop: impl FnMut(Part, &str) -> bool,
    ) -> Option<usize> {
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let part = match self.state {
                State::Plain => Part::Plain,
                State::Comment(_) | State::Line => Part::Comment,
                _ => Part::String,
            };
            let (state, taken) = self.step(rest);
            if state.is_none() && stop(part, rest) {
                return Some(at);
            }
            if let Some(state) = state {
                self.state = state;
                self.word.clear();
            } else if rest.starts_with(is_word) {
                self.word.extend(rest.chars().next());
            } else {
                self.word.clear();
            }
            at += taken;
        }
        None
    }

    /// The end of a line.
    pub(super) fn end_line(&mut self) {
        self.word.clear();
        if self.state == State::Line {
            self.state = State::Plain;
        }
    }

    /// The state behind the next mark, if one begins here, and how many bytes it or the next
    /// character has.
    fn step(&self, rest: &str) -> (Option<State>, usize) {
        let one = rest.chars().next().map_or(1, char::len_utf8);
        match &self.state {
            State::Plain => {
                self.open(rest).map_or((None, one), |(state, taken)| (Some(state), taken))
            }
            State::Quoted(_, true) if rest.starts_with('\\') => {
                let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
                (Some(self.state.clone()), 1 + escaped)
            }
            State::Quoted(mark, _) if rest.starts_with(*mark) => (Some(State::Plain), 1),
            State::Delimited(mark)
                if rest.strip_prefix(*mark).is_some_and(|rest| rest.starts_with('\'')) =>
            {
                (Some(State::Plain), mark.len_utf8() + 1)
            }
            State::Dollars(tag) if rest.starts_with(tag.as_str()) => {
                (Some(State::Plain), tag.len())
            }
            State::Comment(depth) if rest.starts_with("*/") => {
                let state = if *depth > 1 { State::Comment(depth - 1) } else { State::Plain };
                (Some(state), 2)
            }
            State::Comment(depth) if rest.starts_with("/*") => (Some(State::Comment(depth + 1)), 2),
            State::Line if rest.starts_with('\n') => (Some(State::Plain), 1),
            _ => (None, one),
        }
    }

    /// The state that begins at a plain place, and the bytes of its mark.
    fn open(&self, rest: &str) -> Option<(State, usize)> {
        if rest.starts_with("--") {
            return Some((State::Line, 2));
        }
        if rest.starts_with("/*") {
            return Some((State::Comment(1), 2));
        }
        if rest.starts_with('"') {
            return Some((State::Quoted('"', false), 1));
        }
        if let Some(inner) = rest.strip_prefix('\'') {
            if matches!(self.word.as_str(), "q" | "Q" | "nq" | "nQ" | "Nq" | "NQ") {
                let open = inner.chars().next().filter(|char| !char.is_whitespace())?;
                let close = match open {
                    '[' => ']',
                    '(' => ')',
                    '{' => '}',
                    '<' => '>',
                    other => other,
                };
                return Some((State::Delimited(close), 1 + open.len_utf8()));
            }
            let escapes = matches!(self.word.as_str(), "e" | "E");
            return Some((State::Quoted('\'', escapes), 1));
        }
        if self.word.is_empty()
            && let Some(inner) = rest.strip_prefix('$')
            && let Some((tag, _)) = inner.split_once('$')
            && tag.chars().all(|char| char.is_alphanumeric() || char == '_')
            && !tag.starts_with(|char: char| char.is_ascii_digit())
        {
            let tag = format!("${tag}$");
            let taken = tag.len();
            return Some((State::Dollars(tag), taken));
        }
        None
    }
}

/// Whether a character belongs to a word of SQL. `$` does: `v$asm_disk` is one.
pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$' | '#')
}

/// The words and symbols of a text outside of comments; strings are left out.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    // Where the last word ends.
    let mut end = usize::MAX;
    let mut scan = Scan::default();
    scan.find(text, |part, rest| {
        let character = rest.chars().next().unwrap_or(' ');
        if part != Part::Plain || character.is_whitespace() {
            return false;
        }
        let at = text.len() - rest.len();
        match found.last_mut() {
            Some(last) if at == end && is_word(character) => last.push(character),
            _ => found.push(character.to_string()),
        }
        end = if is_word(character) { at + character.len_utf8() } else { usize::MAX };
        false
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the first `;` is that ends a statement, in a text of several lines.
    fn end(text: &str) -> Option<usize> {
        let mut scan = Scan::default();
        let mut before = 0;
        for line in text.split_inclusive('\n') {
            let found = scan.find(line, |part, rest| part == Part::Plain && rest.starts_with(';'));
            if let Some(at) = found {
                return Some(before + at);
            }
            scan.end_line();
            before += line.len();
        }
        None
    }

    #[test]
    fn only_a_plain_semicolon_ends_a_statement() {
        for text in [
            "select 1|;",
            "select ';' |;",
            "select 'it''s;' |;",
            "select E'it\\';' |;",
            "select 'a\\' |; b'",
            "select \"a;b\" |;",
            "select 1 -- ; it's\n|;",
            "select /* ; ' /* ; */ ; */ 1 |;",
            "select $$ ; ' $$ |;",
            "select $a$ ; $$ ; $a$ |;",
            "select * from v$asm_disk, x$kffxp |;",
            "select q'[it's;]' |;",
            "select nq'!it's;!' |;",
            "select $1, $2 |;",
            "select 'a\n;\n' |;",
            "select é |;",
        ] {
            let expected = text.find('|');
            assert_eq!(end(&text.replacen('|', "", 1)), expected, "{text}");
        }
        assert_eq!(end("select '; ; "), None);
    }

    #[test]
    fn tokens_leave_out_comments_and_strings() {
        assert_eq!(tokens("begin -- x\n null; 'a' end;"), ["begin", "null", ";", "end", ";"]);
        assert_eq!(tokens("/* c */ SET a='b' v$x"), ["SET", "a", "=", "v$x"]);
        assert_eq!(tokens("begin/**/null"), ["begin", "null"]);
    }
}
