//! TTITLE, BTITLE, REPHEADER and REPFOOTER: the lines above and below each page, and above and
//! below a whole report.
//!
//! A title is a list of texts, variables and places: `LEFT 'a' CENTER 'b' RIGHT SQL.PNO SKIP 2
//! 'c'`. The texts behind a place are one piece, which is put there whole. TTITLE and BTITLE with
//! nothing but a text are the old form: centered, TTITLE below a line with the date and the page.

use super::{
    numbers::Model,
    refusal::{Refusal, invalid, wrong},
    variables::Variables,
    words::Words,
};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A variable, or a word if there is none of this name; or one of `SQL.PNO`, `SQL.LNO`,
    /// `SQL.USER`, `SQL.RELEASE`, `SQL.SQLCODE`.
    Variable(String),
    Left,
    Center,
    Right,
    /// To this column, counted from 1.
    Column(usize),
    /// This number of columns on.
    Tab(usize),
    Skip(usize),
    Format(Option<Model>),
}

/// One of the four titles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Title {
    parts: Vec<Part>,
    is_old_form: bool,
    /// On a page of its own: for REPHEADER and REPFOOTER.
    pub page: bool,
    /// As it was written.
    text: String,
    off: bool,
}

/// The values that titles may name.
pub(super) struct Moment<'a> {
    pub variables: &'a Variables,
    pub page: usize,
    pub line: usize,
    pub user: &'a str,
    pub date: &'a str,
    pub linesize: usize,
}

impl Title {
    /// Carries out a command for this title; returns what it prints.
    ///
    /// # Errors
    /// If a clause is wrong; the title stays as it was.
    pub(super) fn set(&mut self, name: &str, rest: &str) -> Result<String, Refusal> {
        let rest = rest.trim();
        if rest.is_empty() {
            return Ok(self.show(name));
        }
        let mut words = Words::new(rest);
        if words.take("OFF", 3) && words.rest().is_empty() {
            self.off = true;
            return Ok(String::new());
        }
        let mut words = Words::new(rest);
        if words.take("ON", 2) && words.rest().is_empty() {
            self.off = false;
            return Ok(String::new());
        }
        let mut words = Words::new(rest);
        let page = words.take("PAGE", 4);
        let first = words.clone().option()?;
        let begins_with_text = first.is_some_and(|word| place(&word.text).is_none() || word.quoted);
        let is_title = matches!(name, "TTITLE" | "BTITLE");
        if is_title && begins_with_text {
            let parts = vec![Part::Text(old_text(rest)?)];
            *self = Self { parts, is_old_form: true, page, text: rest.to_owned(), off: false };
            return Ok(String::new());
        }
        let (parts, text) = (parts(name, &mut words)?, rest.to_owned());
        *self = Self { parts, is_old_form: false, page, text, off: false };
        Ok(String::new())
    }

    /// What SHOW prints about it.
    pub(super) fn show(&self, name: &str) -> String {
        let name = name.to_lowercase();
        let state = if self.off || self.parts.is_empty() { "OFF" } else { "ON" };
        if self.parts.is_empty() {
            return format!("{name} OFF and is NULL\n");
        }
        let count = self.text.chars().count();
        format!("{name} {state} and is the following {count} characters:\n{}\n", self.text)
    }

    pub(super) fn is_on(&self) -> bool {
        !self.off && !self.parts.is_empty()
    }

    /// Its lines; none if it is off.
    pub(super) fn lines(&self, is_top: bool, moment: &Moment<'_>) -> Vec<String> {
        if !self.is_on() {
            return Vec::new();
        }
        if self.is_old_form {
            return self.old_lines(is_top, moment);
        }
        let mut lines = Lines::new(moment.linesize);
        let mut model: Option<&Model> = None;
        for part in &self.parts {
            match part {
                Part::Text(text) => lines.piece.push_str(text),
                Part::Variable(name) => lines.piece.push_str(&moment.value(name, model)),
                Part::Format(other) => model = other.as_ref(),
                Part::Skip(count) => lines.skip(*count),
                Part::Left => lines.place(Align::At(0)),
                Part::Center => lines.place(Align::Center),
                Part::Right => lines.place(Align::Right),
                Part::Column(column) => lines.place(Align::At(column.saturating_sub(1))),
                Part::Tab(count) => {
                    let blanks = " ".repeat((*count).min(moment.linesize));
                    lines.piece.push_str(&blanks);
                }
            }
        }
        lines.end()
    }

    fn old_lines(&self, is_top: bool, moment: &Moment<'_>) -> Vec<String> {
        let text: String = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                _ => "",
            })
            .collect();
        let mut lines = Vec::new();
        if is_top {
            let page = format!("page {:>4}", moment.page);
            let width = moment.linesize.saturating_sub(page.len());
            lines.push(format!("{:<width$}{page}", moment.date));
        }
        for line in text.split('|') {
            let mut centered = Lines::new(moment.linesize);
            centered.place(Align::Center);
            centered.piece.push_str(line);
            lines.extend(centered.end());
        }
        if is_top {
            lines.push(String::new());
        }
        lines
    }
}

impl Moment<'_> {
    fn value(&self, name: &str, model: Option<&Model>) -> String {
        let upper = name.to_uppercase();
        let number = match upper.as_str() {
            "SQL.PNO" => Some(self.page),
            "SQL.LNO" => Some(self.line),
            "SQL.SQLCODE" => Some(0),
            _ => None,
        };
        if let Some(number) = number {
            let number = super::numbers::Number::Integer(number as i128);
            return model.map_or_else(
                || format!("{:>10}", super::numbers::whole(number)),
                |model| model.format(number),
            );
        }
        match upper.as_str() {
            "SQL.USER" => self.user.to_owned(),
            "SQL.RELEASE" => env!("CARGO_PKG_VERSION").to_owned(),
            _ => self.variables.get(name).unwrap_or(name).to_owned(),
        }
    }
}

/// The place that a word of a title means, if it means one.
fn place(word: &str) -> Option<&'static str> {
    let is = |keyword: &str, least: usize| crate::sql::sqlplus::abbreviates(word, keyword, least);
    [
        ("LEFT", 1),
        ("CENTER", 2),
        ("RIGHT", 1),
        ("COL", 3),
        ("SKIP", 1),
        ("TAB", 3),
        ("BOLD", 4),
        ("FORMAT", 6),
    ]
    .into_iter()
    .find(|(keyword, least)| is(keyword, *least))
    .map(|(keyword, _)| keyword)
}

/// The text of the old form: in quotation marks, or as it stands.
fn old_text(rest: &str) -> Result<String, Refusal> {
    let mut words = Words::new(rest);
    match words.value()? {
        Some(word) if word.quoted && words.rest().is_empty() => Ok(word.text),
        Some(word) if word.quoted => {
            // Several texts behind one another.
            let mut text = word.text;
            while let Some(more) = words.value()? {
                text.push_str(&more.text);
            }
            Ok(text)
        }
        _ => Ok(rest.to_owned()),
    }
}

fn parts(name: &str, words: &mut Words<'_>) -> Result<Vec<Part>, Refusal> {
    let mut parts = Vec::new();
    while let Some(word) = words.option()? {
        if word.quoted {
            parts.push(Part::Text(word.text));
            continue;
        }
        let part = match place(&word.text) {
            Some("LEFT") => Part::Left,
            Some("CENTER") => Part::Center,
            Some("RIGHT") => Part::Right,
            Some("COL") => Part::Column(words.number("col")?),
            Some("TAB") => Part::Tab(words.number("tab")?),
            Some("SKIP") => {
                let ahead = words.clone().option()?;
                let is_number = ahead.is_some_and(|word| word.text.parse::<usize>().is_ok());
                Part::Skip(if is_number { words.number("skip")? } else { 1 })
            }
            Some("BOLD") => continue,
            Some(_) => {
                let text = words.value()?.map(|word| word.text).unwrap_or_default();
                if text.starts_with(['a', 'A']) {
                    Part::Format(None)
                } else {
                    let illegal = || invalid(246, format!("Illegal FORMAT string \"{text}\""));
                    Part::Format(Some(Model::parse(&text).ok_or_else(illegal)?))
                }
            }
            None => Part::Variable(word.text),
        };
        parts.push(part);
    }
    if parts.is_empty() {
        return Err(wrong(format!("{name} has no text")));
    }
    Ok(parts)
}

#[derive(Debug, Clone, Copy)]
enum Align {
    At(usize),
    Center,
    Right,
}

/// Lines that are being put together.
struct Lines {
    width: usize,
    done: Vec<String>,
    line: Vec<char>,
    align: Align,
    piece: String,
}

impl Lines {
    fn new(width: usize) -> Self {
        Self {
            width,
            done: Vec::new(),
            line: Vec::new(),
            align: Align::At(0),
            piece: String::new(),
        }
    }

    /// Puts down the piece before, and begins another one.
    fn place(&mut self, align: Align) {
        self.put();
        self.align = align;
    }

    fn put(&mut self) {
        let piece: Vec<char> = std::mem::take(&mut self.piece).chars().collect();
        let free = self.width.saturating_sub(piece.len());
        let start = match self.align {
            Align::At(column) => column,
            Align::Center => free / 2,
            Align::Right => free,
        };
        for (column, character) in (start..self.width).zip(piece) {
            if self.line.len() <= column {
                self.line.resize(column + 1, ' ');
            }
            if let Some(place) = self.line.get_mut(column) {
                *place = character;
            }
        }
        self.align = Align::At(self.line.len());
    }

    fn skip(&mut self, count: usize) {
        self.put();
        self.align = Align::At(0);
        // SKIP 0 goes back to the start of the line.
        for _ in 0..count.min(1000) {
            self.done.push(std::mem::take(&mut self.line).into_iter().collect());
        }
    }

    fn end(mut self) -> Vec<String> {
        self.put();
        if !self.line.is_empty() || self.done.is_empty() {
            self.done.push(self.line.into_iter().collect());
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, rest: &str) -> Vec<String> {
        let mut variables = Variables::default();
        variables.set("DG", "DATA");
        let moment = Moment {
            variables: &variables,
            page: 2,
            line: 1,
            user: "root",
            date: "Sat Mar 07",
            linesize: 30,
        };
        let mut title = Title::default();
        title.set(name, rest).expect(rest);
        title.lines(name == "TTITLE", &moment)
    }

    #[test]
    fn pieces_stand_where_the_title_says() {
        assert_eq!(
            lines("TTITLE", "LEFT 'a' CENTER 'mid' dg RIGHT SQL.PNO SKIP 2 'b' COL 5 'c'"),
            ["a          midDATA           2", "", "b   c"]
        );
        assert_eq!(lines("TTITLE", "LEFT 'p ' FORMAT 99 SQL.PNO ' x' SKIP"), ["p   2 x"]);
        assert_eq!(lines("REPHEADER", "'Report' SKIP 1 dg"), ["Report", "DATA"]);
        // A single word needs no quotation marks.
        assert_eq!(lines("REPHEADER", "LEFT Disks SKIP sql.user"), ["Disks", "root"]);
    }

    #[test]
    fn a_text_alone_is_centered_below_date_and_page() {
        assert_eq!(
            lines("TTITLE", "'All disks|of all groups'"),
            ["Sat Mar 07           page    2", "          All disks", "        of all groups", ""]
        );
        assert_eq!(lines("BTITLE", "end"), ["             end"]);
    }

    #[test]
    fn titles_are_switched_off_and_on() {
        let mut title = Title::default();
        assert!(!title.is_on());
        title.set("TTITLE", "'x'").expect("a title");
        title.set("TTITLE", "OFF").expect("off");
        assert!(!title.is_on());
        let shown = "ttitle OFF and is the following 3 characters:\n'x'\n";
        assert_eq!(title.set("TTITLE", "").expect("shown"), shown);
        title.set("TTITLE", "ON").expect("on");
        assert!(title.is_on());
        for wrong in ["LEFT COL x", "LEFT 'x", "LEFT FORMAT zz SQL.PNO"] {
            assert!(title.set("TTITLE", wrong).is_err(), "{wrong}");
        }
    }
}
