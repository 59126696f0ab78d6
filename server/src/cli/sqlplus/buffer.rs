//! The buffer: the last statement, and the commands that list and change it line by line.
//!
//! One of its lines is the *current* one: the last one of a statement that was just read, and then
//! the one that was listed or changed last. LIST and DEL take a range: `n`, `n m`, where `*` is the
//! current line and `LAST` the last one.

use super::refusal::{Refusal, invalid, wrong};

#[derive(Debug, Default)]
pub(super) struct Buffer {
    lines: Vec<String>,
    /// The place of the current line.
    current: usize,
}

/// The longest statement that is put together, in bytes: the server takes none that is longer.
const LENGTH_MAX: usize = 1 << 20;

impl Buffer {
    /// Takes a statement.
    pub(super) fn set(&mut self, text: &str) {
        self.lines = text.lines().map(str::to_owned).collect();
        self.current = self.lines.len().saturating_sub(1);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The statement, if there is one.
    pub(super) fn text(&self) -> Option<String> {
        (!self.lines.is_empty()).then(|| self.lines.join("\n"))
    }

    /// LIST: the lines of the range, of which the last becomes the current one.
    ///
    /// # Errors
    /// If there are no such lines.
    pub(super) fn list(&mut self, rest: &str) -> Result<String, Refusal> {
        let (from, to) = match rest.trim() {
            "" => (0, self.last()?),
            range => self.range(range)?,
        };
        self.current = to;
        Ok((from..=to).map(|at| self.shown(at)).collect())
    }

    /// APPEND: a text at the end of the current line.
    ///
    /// # Errors
    /// If there are no lines, or too many bytes.
    pub(super) fn append(&mut self, text: &str) -> Result<String, Refusal> {
        self.last()?;
        self.has_room(text.len())?;
        if let Some(line) = self.lines.get_mut(self.current) {
            line.push_str(text);
        }
        Ok(self.shown(self.current))
    }

    /// INPUT: a line behind the current one.
    ///
    /// # Errors
    /// If there is no text, or too many bytes.
    pub(super) fn input(&mut self, text: &str) -> Result<(), Refusal> {
        if text.is_empty() {
            return Err(
                wrong("INPUT without a text is not supported").hint("INPUT text, a line each")
            );
        }
        self.has_room(text.len())?;
        let at = if self.lines.is_empty() { 0 } else { self.current + 1 };
        self.lines.insert(at.min(self.lines.len()), text.to_owned());
        self.current = at;
        Ok(())
    }

    /// CHANGE: `/old/new/` in the current line, with any mark instead of `/`. Case does not matter.
    /// `...` at an end of `old` stands for all that is there, between two texts for all between.
    ///
    /// # Errors
    /// If the line does not have the text.
    pub(super) fn change(&mut self, rest: &str) -> Result<String, Refusal> {
        self.last()?;
        let Some(mark) = rest.chars().next().filter(|mark| !mark.is_alphanumeric()) else {
            return Err(wrong("CHANGE takes /old/new/"));
        };
        let mut parts = rest.split(mark).skip(1);
        let (old, new) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let line = self.lines.get(self.current).cloned().unwrap_or_default();
        let Some((from, to)) = found(&line, old) else {
            return Err(invalid(23, "String not found."));
        };
        let text = [line.get(..from), Some(new), line.get(to..)].into_iter().flatten().collect();
        self.has_room(new.len())?;
        if let Some(line) = self.lines.get_mut(self.current) {
            *line = text;
        }
        Ok(self.shown(self.current))
    }

    /// DEL: removes the range, or the current line. The one behind it becomes the current one.
    ///
    /// # Errors
    /// If there are no such lines.
    pub(super) fn delete(&mut self, rest: &str) -> Result<(), Refusal> {
        self.last()?;
        let (from, to) = self.range(if rest.trim().is_empty() { "*" } else { rest.trim() })?;
        self.lines.drain(from..=to);
        self.current = from.min(self.lines.len().saturating_sub(1));
        Ok(())
    }

    /// A number makes that line the current one; a text behind it becomes the line. `None`: this is
    /// not about a line.
    ///
    /// # Errors
    /// If there is no such line.
    pub(super) fn number(&mut self, text: &str) -> Option<Result<String, Refusal>> {
        let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
        let (number, behind) = text.split_at(end);
        let is_number = behind.is_empty() || behind.starts_with([' ', '\t']);
        let number: usize = number.parse().ok().filter(|_| is_number)?;
        if self.lines.is_empty() {
            return None;
        }
        let behind = behind.get(1..).unwrap_or_default();
        Some(self.line(number, behind))
    }

    fn line(&mut self, number: usize, text: &str) -> Result<String, Refusal> {
        if text.trim().is_empty() {
            self.current = self.at(number)?;
            return Ok(self.shown(self.current));
        }
        self.has_room(text.len())?;
        // 0 is a line before the first, and the next number one behind the last.
        if number == 0 {
            self.lines.insert(0, text.to_owned());
            self.current = 0;
        } else if number > self.lines.len() {
            self.lines.push(text.to_owned());
            self.current = self.lines.len() - 1;
        } else {
            self.current = number - 1;
            if let Some(line) = self.lines.get_mut(self.current) {
                text.clone_into(line);
            }
        }
        Ok(String::new())
    }

    fn has_room(&self, more: usize) -> Result<(), Refusal> {
        let length: usize = self.lines.iter().map(|line| line.len() + 1).sum();
        if length + more > LENGTH_MAX {
            return Err(wrong(format!("a statement has at most {LENGTH_MAX} bytes")));
        }
        Ok(())
    }

    /// The place of the last line.
    fn last(&self) -> Result<usize, Refusal> {
        self.lines.len().checked_sub(1).ok_or_else(|| invalid(223, "No lines in SQL buffer."))
    }

    /// The place of the line with this number.
    fn at(&self, number: usize) -> Result<usize, Refusal> {
        number
            .checked_sub(1)
            .filter(|at| *at < self.lines.len())
            .ok_or_else(|| invalid(226, "Invalid line number"))
    }

    /// The first and the last place of a range.
    fn range(&self, text: &str) -> Result<(usize, usize), Refusal> {
        let last = self.last()?;
        let place = |word: &str| match word {
            "*" => Ok(self.current),
            word if word.eq_ignore_ascii_case("LAST") => Ok(last),
            word => word
                .parse()
                .map_err(|_| invalid(224, "invalid starting line number"))
                .and_then(|number| self.at(number)),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (from, to) = match words.as_slice() {
            [one] => (place(one)?, place(one)?),
            [from, to] => (place(from)?, place(to)?),
            _ => return Err(invalid(224, "invalid starting line number")),
        };
        if from > to {
            return Err(invalid(226, "Invalid line number"));
        }
        Ok((from, to))
    }

    fn shown(&self, at: usize) -> String {
        let mark = if at == self.current { '*' } else { ' ' };
        let line = self.lines.get(at).map_or("", String::as_str);
        format!("{:>3}{mark} {line}\n", at + 1)
    }
}

/// Where CHANGE finds a text in a line: from which byte to which.
fn found(line: &str, old: &str) -> Option<(usize, usize)> {
    // Bytes stay where they are only if the case of ASCII letters alone is changed.
    let line = line.to_ascii_lowercase();
    let old = old.to_ascii_lowercase();
    if old.is_empty() {
        return Some((0, 0));
    }
    let of = |text: &str, from: usize| line.get(from..)?.find(text).map(|at| at + from);
    let Some((first, second)) = old.split_once("...") else {
        return of(&old, 0).map(|at| (at, at + old.len()));
    };
    let from = if first.is_empty() { 0 } else { of(first, 0)? };
    let behind = if first.is_empty() { 0 } else { from + first.len() };
    let to = if second.is_empty() { line.len() } else { of(second, behind)? + second.len() };
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> Buffer {
        let mut buffer = Buffer::default();
        buffer.set("select a,\n b\nfrom t");
        buffer
    }

    #[test]
    fn lines_are_listed_by_their_numbers() {
        for (range, listed) in [
            ("", "  1  select a,\n  2   b\n  3* from t\n"),
            ("2", "  2*  b\n"),
            ("1 2", "  1  select a,\n  2*  b\n"),
            ("2 last", "  2   b\n  3* from t\n"),
            ("*", "  3* from t\n"),
        ] {
            assert_eq!(buffer().list(range).expect(range), listed, "{range}");
        }
        for range in ["0", "4", "x", "3 1", "1 2 3"] {
            assert!(buffer().list(range).is_err(), "{range}");
        }
        assert!(Buffer::default().list("").is_err());
    }

    #[test]
    fn lines_are_changed() {
        let mut buffer = buffer();
        assert_eq!(buffer.append(" x").expect("appended"), "  3* from t x\n");
        assert_eq!(buffer.number("2").expect("a line").expect("a line"), "  2*  b\n");
        buffer.input(" , c").expect("a line");
        assert_eq!(buffer.change("/C/d").expect("changed"), "  3*  , d\n");
        assert_eq!(buffer.number("1 select é,").expect("a line").expect("a line"), "");
        assert_eq!(buffer.change("|SEL...,|with|").expect("changed"), "  1* with\n");
        assert_eq!(buffer.number("9 where 1").expect("a line").expect("a line"), "");
        assert_eq!(buffer.text().as_deref(), Some("with\n b\n , d\nfrom t x\nwhere 1"));
        buffer.delete("2 3").expect("deleted");
        buffer.delete("LAST").expect("deleted");
        assert_eq!(buffer.text().as_deref(), Some("with\nfrom t x"));
        for (from, change, to) in [
            ("a b c", "/b...", "a "),
            ("a b c", "/...b", " c"),
            ("a b c", "/a...c/x", "x"),
            ("a b", "/ b", "a"),
            ("a", "//x", "xa"),
        ] {
            buffer.set(from);
            buffer.change(change).expect(change);
            assert_eq!(buffer.text().as_deref(), Some(to), "{change}");
        }
        assert!(buffer.change("/zzz/").is_err() && buffer.change("zzz").is_err());
        assert!(buffer.number("x").is_none() && buffer.number("1x").is_none());
    }

    #[test]
    fn an_empty_buffer_has_nothing_to_change() {
        let mut buffer = Buffer::default();
        assert!(buffer.append("x").is_err() && buffer.delete("").is_err());
        assert!(buffer.change("/a/b/").is_err() && buffer.number("1").is_none());
        assert!(buffer.input("").is_err());
        buffer.input("select 1").expect("a line");
        assert_eq!(buffer.text().as_deref(), Some("select 1"));
    }
}
