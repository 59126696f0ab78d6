//! Words that a reader whose first language is not the writer's has to translate.
//!
//! Each rule is a pattern over the sentences of comments and documents, with the usual words in
//! its name. Strings of programs are not read: messages are checked by their own tests.

use crate::{
    Finding,
    prose::{Kind, Paragraph, lines_with_comments, paragraphs},
    tree::{self, Language},
};
use regex::Regex;
use std::{path::Path, sync::LazyLock};

/// The widest line with a comment, in characters.
const WIDTH_MAX: usize = 100;

/// Where the words of a rule stay: a file, words of the paragraph, the reason.
const KEPT: &[(&str, &str, &str)] = &[
    ("schema.sql", "freed when nobody holds it any more", STORED),
    ("schema_1.sql", "freed when nobody holds it any more", STORED),
];

const STORED: &str =
    "SQLite stores the text of a CREATE statement, with its comments, on the disks";

struct Rule {
    /// The words that are wrong, and the usual ones.
    name: &'static str,
    pattern: &'static str,
    exempt: fn(&Sentence<'_>) -> bool,
}

/// Where a pattern was found.
struct Sentence<'a> {
    kind: Kind,
    /// The paragraph up to these words.
    before: &'a str,
    /// The sentence from the words on.
    rest: &'a str,
}

impl Sentence<'_> {
    fn is_question(&self) -> bool {
        self.rest.ends_with('?')
    }

    /// A title in a link or in quotes, in bold letters before a paragraph, or a heading.
    fn is_title(&self) -> bool {
        self.kind == Kind::Heading || self.before.ends_with(['[', '"', '“', '*'])
    }
}

fn never(_: &Sentence<'_>) -> bool {
    false
}

const RULES: [Rule; 11] = [
    Rule {
        name: "\"Who\" as a subject (whoever, a thread that, callers that)",
        pattern: r"\bWho [a-z]",
        exempt: |sentence| sentence.is_question() || sentence.is_title(),
    },
    Rule {
        name: "\"who\" as an object (for callers that)",
        pattern: r"\b(?:[Ff]or|of|to|by|from|with|than) who\b",
        exempt: never,
    },
    Rule {
        name: "he (it, the thread)",
        pattern: r"\b(?:[Hh]e|[Hh]im|[Hh]is|[Hh]imself)\b",
        exempt: never,
    },
    Rule {
        name: "\"What ...\" as a noun (name the thing)",
        pattern: r"\bWhat [a-z`]",
        exempt: |sentence| {
            sentence.is_question() || sentence.is_title() || sentence.rest.ends_with(':')
        },
    },
    Rule {
        name: "nobody, somebody (name the subject)",
        pattern: r"\b(?:[Nn]o|[Ss]ome|[Ee]very|[Aa]ny)body\b",
        exempt: never,
    },
    Rule {
        name: "sight (visible, discovered, missing)",
        pattern: r"\b(?:[Ii]n|[Oo]ut of) sight\b",
        exempt: never,
    },
    Rule { name: "so many (N, the given number)", pattern: r"\b[Ss]o many\b", exempt: never },
    Rule { name: "under way (in flight, running)", pattern: r"\b[Uu]nder way\b", exempt: never },
    Rule { name: "also when (even when)", pattern: r", also when\b", exempt: never },
    Rule { name: "also by (even by, and by)", pattern: r", also by\b", exempt: never },
    Rule {
        name: "memory of its own (boxed, heap-allocated)",
        pattern: r"\bin memory of (?:its|their|our) own\b|\bof (?:its|their) own memory\b",
        exempt: never,
    },
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    RULES.iter().map(|rule| Regex::new(rule.pattern).expect("a pattern")).collect()
});

/// Where a sentence ends.
static END: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"[.!?:][)\]"”*_]*(?:\s|$)"#).expect("a pattern"));

/// The findings in one file, in the order of its lines.
pub fn check(path: &Path, text: &str) -> Vec<Finding> {
    let Some(language) = Language::of(path, text) else { return Vec::new() };
    let mut findings = Vec::new();
    for paragraph in paragraphs(language, text) {
        for (rule, pattern) in RULES.iter().zip(PATTERNS.iter()) {
            find(path, &paragraph, rule, pattern, &mut findings);
        }
    }
    if language == Language::Rust {
        let lines: Vec<&str> = text.lines().collect();
        for line in lines_with_comments(language, text) {
            let width = lines[line - 1].chars().count();
            if width > WIDTH_MAX {
                let found = format!("{width} characters");
                findings.push(Finding { file: path.to_owned(), line, rule: "too wide", found });
            }
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

fn find(
    path: &Path,
    paragraph: &Paragraph,
    rule: &Rule,
    pattern: &Regex,
    findings: &mut Vec<Finding>,
) {
    let text = paragraph.text.as_str();
    for found in pattern.find_iter(text) {
        let rest = &text[found.start()..];
        let end = END.find(rest).map_or(rest.len(), |end| end.end());
        let rest = rest[..end].trim_end_matches(|letter: char| {
            letter.is_whitespace() || matches!(letter, ')' | ']' | '"' | '”' | '*' | '_')
        });
        let sentence = Sentence { kind: paragraph.kind, before: &text[..found.start()], rest };
        let is_kept =
            |(file, words, _): &&(&str, &str, &str)| path.ends_with(file) && text.contains(words);
        if (rule.exempt)(&sentence) || KEPT.iter().find(is_kept).is_some() {
            continue;
        }
        findings.push(Finding {
            file: path.to_owned(),
            line: paragraph.line(found.start()),
            rule: rule.name,
            found: rest.chars().take(60).collect(),
        });
    }
}

/// The findings in the whole tree.
pub fn check_tree() -> Vec<Finding> {
    tree::below("").iter().flat_map(|(path, text)| check(path, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_clean() {
        crate::expect_none(&check_tree());
    }

    /// The rules that a document breaks, by the first words of their names.
    fn broken(file: &str, text: &str) -> Vec<&'static str> {
        check(Path::new(file), text).into_iter().map(|finding| finding.rule).collect()
    }

    /// Each pair: a sentence that must be found, by that rule and no other, and one that must not.
    #[track_caller]
    fn finds(rule: usize, bad: &[&str], good: &[&str]) {
        for sentence in bad {
            assert_eq!(broken("a.md", sentence), [RULES[rule].name], "{sentence}");
            let comment = format!("// {}", sentence.replace('\n', "\n// "));
            assert_eq!(broken("a.rs", &comment), [RULES[rule].name], "{sentence}");
            assert_eq!(broken("a.rs", &format!("f(\"{sentence}\")")), [""; 0], "{sentence}");
        }
        for sentence in good {
            assert_eq!(broken("a.md", sentence), [""; 0], "{sentence}");
        }
    }

    #[test]
    fn who_as_a_subject_is_found() {
        let bad = ["It is free. Who waits is woken.", "Who has\nit waits. Why?"];
        finds(0, &bad, &["Who waits here?", "# Who checks it", "Whoever waits is woken."]);
    }

    #[test]
    fn who_as_an_object_is_found() {
        finds(1, &["A list for who asks.", "Held by who\nhas it."], &["For a user who asks."]);
    }

    #[test]
    fn he_is_found() {
        let bad = ["The thread has his lock.", "The thread and what he\nholds."];
        finds(2, &bad, &["The head of this.", "`he` is a name."]);
    }

    #[test]
    fn what_as_a_noun_is_found() {
        let bad =
            ["What is written is durable.", "It ends. What the\ndisk said. Why?", "(What it is.)"];
        let good = ["What is it?", "What it does:", "# What it costs", "It knows what it does."];
        finds(3, &bad, &good);
        finds(
            3,
            &[],
            &["**What it costs.** Nothing.", "See [What it costs](#what).", "| What is |\n|---|"],
        );
        finds(3, &["| what |\n|---|\n| What is read |"], &[]);
    }

    #[test]
    fn nobody_is_found() {
        finds(
            4,
            &["Nobody\nwaits for it.", "It is everybody's."],
            &["No thread waits for a body."],
        );
    }

    #[test]
    fn sight_is_found() {
        finds(5, &["All disks in\nsight.", "One is out of sight."], &["The sight of it."]);
    }

    #[test]
    fn so_many_is_found() {
        finds(6, &["So many words are kept."], &["As many words as fit."]);
    }

    #[test]
    fn under_way_is_found() {
        finds(7, &["A write is under way."], &["A write is in flight, by a way under it."]);
    }

    #[test]
    fn also_when_is_found() {
        finds(8, &["It waits, also when the disk is new."], &["It waits, and also once more."]);
        finds(9, &["It is woken, also by a write."], &["It is woken by a write also."]);
    }

    #[test]
    fn memory_of_its_own_is_found() {
        finds(
            10,
            &["It lies in memory of its own.", "A part of its own memory."],
            &["A thread of its own."],
        );
    }

    #[test]
    fn wide_comments_are_found() {
        let wide = format!("// {}", "a ".repeat(49));
        assert_eq!(broken("a.rs", &wide), ["too wide"; 1]);
        assert_eq!(broken("a.rs", wide.trim_end()), [""; 0]);
        assert_eq!(broken("a.md", &wide), [""; 0]);
        assert_eq!(broken("a.rs", &format!("let a = \"{wide}\";")), [""; 0]);
    }

    #[test]
    fn a_finding_names_the_line_of_its_words() {
        let found = check(Path::new("a.rs"), "fn f() {}\n// One. It\n// is so\n// many.\n");
        let expected = "a.rs:3: so many (N, the given number): so many.";
        assert_eq!(found.iter().map(Finding::to_string).collect::<Vec<_>>(), [expected]);
    }
}
