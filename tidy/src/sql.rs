//! The engine's statements to SQLite stand in `catalog/`, and nowhere else.
//!
//! Whoever changes a table finds all that reads and writes it in one directory. A statement is a
//! string that begins as SQLite's do. Plinth's own statements, which messages name, begin
//! otherwise: `ALTER DISKGROUP` is none of SQLite's.

use crate::{Finding, rust, tree};
use proc_macro2::{Literal, TokenStream, TokenTree};
use regex::Regex;
use std::{path::Path, sync::LazyLock};
use syn::visit::{self, Visit};

/// Where statements may stand.
const CATALOG: &str = "engine/src/catalog/";

static STATEMENT: LazyLock<Regex> = LazyLock::new(|| {
    let begins = [
        "SELECT ",
        "INSERT (INTO|OR) ",
        "UPDATE ",
        "DELETE FROM ",
        "CREATE (TEMP |TEMPORARY |UNIQUE |VIRTUAL )?(TABLE|INDEX|VIEW|TRIGGER) ",
        "DROP (TABLE|INDEX|VIEW|TRIGGER) ",
        "ALTER TABLE ",
        "PRAGMA ",
        r"WITH (RECURSIVE )?[\w{}]+( ?\([^)]*\))? AS ",
    ];
    Regex::new(&format!(r"^\s*({})", begins.join("|"))).expect("a pattern")
});

struct Strings<'a> {
    file: &'a Path,
    findings: Vec<Finding>,
}

impl Strings<'_> {
    fn see(&mut self, text: &str, line: usize) {
        if STATEMENT.is_match(text) {
            let found = text.trim_start().chars().take(60).collect();
            let file = self.file.to_owned();
            self.findings.push(Finding { file, line, rule: "SQL outside of catalog/", found });
        }
    }

    fn see_literal(&mut self, literal: &Literal) {
        if let syn::Lit::Str(text) = syn::Lit::new(literal.clone()) {
            self.see(&text.value(), text.span().start().line);
        }
    }

    /// Macros, such as `format!`, are not parsed: their strings are tokens.
    fn see_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Literal(literal) => self.see_literal(&literal),
                TokenTree::Group(group) => self.see_tokens(group.stream()),
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Strings<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !rust::is_for_tests(rust::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !rust::is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    // Comments are attributes too, and may begin as a statement does.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.see(&text.value(), text.span().start().line);
    }

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        self.see_tokens(of.tokens.clone());
    }
}

/// The statements in one file.
pub fn check(file: &Path, text: &str) -> Vec<Finding> {
    if rust::is_test_file(file) || file.to_string_lossy().contains(CATALOG) {
        return Vec::new();
    }
    let Some(parsed) = rust::parse(file, text) else { return Vec::new() };
    let mut strings = Strings { file, findings: Vec::new() };
    strings.visit_file(&parsed);
    strings.findings
}

/// The findings in the engine.
pub fn check_tree() -> Vec<Finding> {
    tree::below("engine/src").iter().flat_map(|(path, text)| check(path, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_clean() {
        crate::expect_none(&check_tree());
    }

    fn found(file: &str, text: &str) -> usize {
        check(Path::new(file), text).len()
    }

    #[test]
    fn statements_are_found_in_strings_and_in_macros() {
        let statements = [
            "SELECT 1",
            "INSERT OR REPLACE INTO a VALUES (1)",
            "INSERT INTO a VALUES (1)",
            "UPDATE file SET a = 1",
            "DELETE FROM a",
            "CREATE TABLE a (b)",
            "CREATE UNIQUE INDEX a ON b (c)",
            "DROP TABLE a",
            "ALTER TABLE a ADD b",
            "PRAGMA user_version",
            "WITH a AS (SELECT 1) SELECT 2",
            "\\n    SELECT 1",
        ];
        for statement in statements {
            let uses = [
                format!("fn f() {{ g(\"{statement}\") }}"),
                format!("const A: &str = \"{statement}\";"),
                format!("impl A {{ fn f() {{ format!(\"{statement}{{}}\", {{ 1 }}) }} }}"),
            ];
            for source in uses {
                assert_eq!(found("engine/src/files/a.rs", &source), 1, "{source}");
                assert_eq!(found("engine/src/catalog/a.rs", &source), 0, "{source}");
                assert_eq!(found("engine/src/files/tests.rs", &source), 0, "{source}");
                let test = format!("#[cfg(test)]\nmod tests {{ {source} }}");
                assert_eq!(found("engine/src/files/a.rs", &test), 0, "{source}");
            }
        }
    }

    #[test]
    fn statements_of_plinth_are_not_found() {
        let texts = [
            "ALTER DISKGROUP data MOUNT",
            "DROP DISKGROUP data INCLUDING CONTENTS",
            "CREATE DISKGROUP data",
            "UPDATED",
            "SELECTED rows",
            "WITH FORCE it is mounted",
            "a SELECT 1",
        ];
        for text in texts {
            assert_eq!(found("engine/src/files/a.rs", &format!("const A: &str = \"{text}\";")), 0);
        }
        assert_eq!(found("engine/src/files/a.rs", "/// SELECT 1\nfn f() {}"), 0);
    }
}
