//! The sentences of a file: its comments, or all the text of a document.
//!
//! A comment or a document is cut into paragraphs: an empty line, a heading, an item of a list
//! and a cell of a table begin a new one. The lines of a paragraph are joined, so that words on
//! two lines are found together, and each byte knows its line. Code between backticks is blanked,
//! fenced code is left out.

use crate::tree::Language;

/// The kinds of paragraphs that rules tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A heading or a cell in the head of a table, which may be no sentence.
    Heading,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Paragraph {
    pub kind: Kind,
    pub text: String,
    /// For each line: where it begins in `text`, and its number in the file.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    fn new(kind: Kind, line: usize, text: &str) -> Paragraph {
        Paragraph { kind, text: text.to_owned(), lines: vec![(0, line)] }
    }

    fn push(&mut self, line: usize, text: &str) {
        self.text.push(' ');
        self.lines.push((self.text.len(), line));
        self.text.push_str(text);
    }

    /// The number of the line with this byte of the text.
    pub fn line(&self, at: usize) -> usize {
        let index = self.lines.partition_point(|(begin, _)| *begin <= at);
        self.lines[index - 1].1
    }
}

/// A line of a comment, without its marks. Lines of one block follow each other.
struct CommentLine {
    number: usize,
    text: String,
    /// Nothing but the comment is on the line, so that it can go on with the line before.
    is_alone: bool,
}

/// The paragraphs of a file.
pub fn paragraphs(language: Language, text: &str) -> Vec<Paragraph> {
    let numbered = |line: usize, text: &str| (line + 1, text.to_owned());
    if language == Language::Markdown {
        let lines: Vec<_> = text.lines().enumerate().map(|(at, text)| numbered(at, text)).collect();
        return cut(&lines);
    }
    let mut all = Vec::new();
    let mut block: Vec<(usize, String)> = Vec::new();
    for line in comment_lines(language, text) {
        let goes_on = line.is_alone && block.last().is_some_and(|last| last.0 + 1 == line.number);
        if !goes_on {
            all.extend(cut(&std::mem::take(&mut block)));
        }
        block.push((line.number, line.text));
    }
    all.extend(cut(&block));
    all
}

/// The numbers of the lines that hold a comment.
pub fn lines_with_comments(language: Language, text: &str) -> Vec<usize> {
    comment_lines(language, text).into_iter().map(|line| line.number).collect()
}

/// Cuts lines of text into paragraphs.
fn cut(lines: &[(usize, String)]) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let (mut is_fenced, mut is_new) = (false, true);
    for (index, (number, line)) in lines.iter().enumerate() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            (is_fenced, is_new) = (!is_fenced, true);
            continue;
        }
        if is_fenced || line.is_empty() {
            is_new = true;
            continue;
        }
        if line.starts_with('|') {
            let is_head = |line: &str| line.trim().starts_with("|") && line.contains("---");
            if !is_head(line) {
                let below = lines.get(index + 1).is_some_and(|(_, below)| is_head(below));
                let kind = if below { Kind::Heading } else { Kind::Text };
                let cells = cells(line).into_iter();
                paragraphs.extend(cells.map(|cell| Paragraph::new(kind, *number, &cell)));
            }
            is_new = true;
            continue;
        }
        if line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') {
            let title = line.trim_start_matches('#').trim();
            paragraphs.push(Paragraph::new(Kind::Heading, *number, title));
            is_new = true;
            continue;
        }
        let item = item(line);
        match paragraphs.last_mut() {
            Some(paragraph) if !is_new && item.is_none() => paragraph.push(*number, line),
            _ => paragraphs.push(Paragraph::new(Kind::Text, *number, item.unwrap_or(line))),
        }
        is_new = false;
    }
    for paragraph in &mut paragraphs {
        paragraph.text = without_code(&paragraph.text);
    }
    paragraphs
}

/// The cells of a table's row. A bar inside of code or behind a backslash separates nothing.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_code, mut last) = (Vec::new(), String::new(), false, ' ');
    for letter in line.chars() {
        is_code ^= letter == '`';
        match letter {
            '|' if !is_code && last != '\\' => cells.push(std::mem::take(&mut cell)),
            _ => cell.push(letter),
        }
        last = letter;
    }
    cells.push(cell);
    cells.into_iter().map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
}

/// The text of an item of a list, if the line begins one.
fn item(line: &str) -> Option<&str> {
    if let Some(text) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some(text.trim_start());
    }
    let text = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    (text.len() < line.len()).then(|| text.strip_prefix(". ")).flatten()
}

/// The text with underscores where code stands between backticks.
fn without_code(text: &str) -> String {
    let mut is_code = false;
    let blank = |letter: char| {
        if letter == '`' {
            is_code = !is_code;
            return "`".to_owned();
        }
        if is_code { "_".repeat(letter.len_utf8()) } else { letter.to_string() }
    };
    text.chars().map(blank).collect()
}

fn comment_lines(language: Language, text: &str) -> Vec<CommentLine> {
    match language {
        Language::Rust => rust_comments(text),
        Language::Sql => marked(text, |line| line.find("--"), "-"),
        Language::Shell | Language::Python => marked(text, shell_comment, "#"),
        Language::Settings => {
            let at_start = |line: &str| line.trim_start().starts_with('#').then(|| line.find('#'));
            marked(text, |line| at_start(line).flatten(), "#")
        }
        Language::Markdown => Vec::new(),
    }
}

/// Where the comment of a line of a script begins: at a `#` outside of quotes and after a space.
fn shell_comment(line: &str) -> Option<usize> {
    let (mut quote, mut last) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') if last.is_whitespace() => {
                return (!line.starts_with("#!")).then_some(at);
            }
            (None, '"' | '\'') if last != '\\' => quote = Some(letter),
            (Some(open), _) if open == letter && last != '\\' => quote = None,
            _ => {}
        }
        last = letter;
    }
    None
}

/// The comments of a language in which one ends with its line.
fn marked(text: &str, begin: impl Fn(&str) -> Option<usize>, mark: &str) -> Vec<CommentLine> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(at) = begin(line) else { continue };
        let text = line[at..].trim_start_matches(mark).to_owned();
        lines.push(CommentLine { number: index + 1, text, is_alone: line[..at].trim().is_empty() });
    }
    lines
}

/// The comments of Rust. Strings and characters are passed over, since they may hold slashes.
fn rust_comments(text: &str) -> Vec<CommentLine> {
    let bytes = text.as_bytes();
    let (mut lines, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        at += match rest {
            [b'/', b'/', ..] => {
                let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                push_comment(text, at, at + length, &mut lines);
                length
            }
            [b'/', b'*', ..] => {
                let length = block_comment(rest);
                push_comment(text, at, at + length, &mut lines);
                length
            }
            [b'"', ..] => string(rest),
            [b'r', ..] if at == 0 || !is_of_name(bytes[at - 1]) || bytes[at - 1] == b'b' => {
                raw_string(rest).unwrap_or(1)
            }
            [b'\'', b'\\', ..] => 3 + rest[3..].iter().position(|byte| *byte == b'\'').unwrap_or(0),
            [b'\'', _, b'\'', ..] => 3,
            _ => 1,
        };
    }
    lines
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of a comment between `/*` and `*/`; such comments nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a string in double quotes.
fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a raw string, if one begins here.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    let begin = 1 + hashes + 1;
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), "#".repeat(hashes).as_bytes()].concat();
    let length = rest[begin..].windows(end.len()).position(|window| window == end)?;
    Some(begin + length + end.len())
}

/// Adds the lines of the comment in `text[from..to]`, without slashes and stars.
fn push_comment(text: &str, from: usize, to: usize, lines: &mut Vec<CommentLine>) {
    let first = text[..from].matches('\n').count() + 1;
    let before = &text[text[..from].rfind('\n').map_or(0, |at| at + 1)..from];
    for (index, line) in text[from..to].lines().enumerate() {
        let marks = |letter| letter == '/' || letter == '!' || letter == '*';
        let line = line.trim_start().trim_start_matches(marks).trim_end_matches("*/");
        lines.push(CommentLine {
            number: first + index,
            text: line.to_owned(),
            is_alone: index > 0 || before.trim().is_empty(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(language: Language, text: &str) -> Vec<(usize, String)> {
        let pair = |paragraph: Paragraph| (paragraph.line(0), paragraph.text);
        paragraphs(language, text).into_iter().map(pair).collect()
    }

    #[test]
    fn comments_of_rust_are_found_outside_of_strings_only() {
        let source = "
/// One, with `code` in
/// two lines.
///
/// Another.
let a = \"// none\"; // at the end
let b = r#\"\" // none\"#;
let c = '\"'; // after a quote
let d = '\\''; /* within */
fn e<'a>(f: &'a str) {} // after a lifetime
";
        let expected = [
            (2, "One, with `____` in two lines."),
            (5, "Another."),
            (6, "at the end"),
            (8, "after a quote"),
            (9, "within"),
            (10, "after a lifetime"),
        ];
        assert_eq!(
            texts(Language::Rust, source),
            expected.map(|(line, text)| (line, text.to_owned()))
        );
    }

    #[test]
    fn a_document_is_cut_at_headings_items_and_cells() {
        let source = "# Title\ntext\n- item\n  goes on\n1. first\n\n| head |\n| --- |\n| a | `b|c` |\n```\nno\n```\nend";
        let found = paragraphs(Language::Markdown, source);
        let expected = ["Title", "text", "item goes on", "first", "head", "a", "`___`", "end"];
        assert_eq!(found.iter().map(|found| found.text.as_str()).collect::<Vec<_>>(), expected);
        let headings = found.iter().filter(|found| found.kind == Kind::Heading);
        assert_eq!(headings.map(|found| found.line(0)).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(found[2].line(6), 4);
    }

    #[test]
    fn comments_of_scripts_are_found_outside_of_quotes_only() {
        let source = "#!/bin/bash\n# one\na=${b#c} d='# none' # two\n";
        let expected = [(2, "one".to_owned()), (3, "two".to_owned())];
        assert_eq!(texts(Language::Shell, source), expected);
    }
}
