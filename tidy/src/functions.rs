//! Functions that can be read without scrolling: at most 80 lines, from `fn` to the last brace.
//!
//! Tests are exempt, and so are functions that are a table: a `match` or a list whose arms need no
//! knowledge of each other. Tables are named in `TABLES`, each with its reason.

use crate::{Finding, rust, tree};
use std::path::Path;
use syn::visit::{self, Visit};

const LINES_MAX: usize = 80;

/// Functions that are tables: file, name, and the reason.
const TABLES: &[(&str, &str, &str)] = &[(
    "engine/src/api/types.rs",
    "by_name",
    "names of files and the types they give: three lists, and the few rules that no list can say",
)];

struct Functions<'a> {
    file: &'a Path,
    findings: Vec<Finding>,
}

impl Functions<'_> {
    fn measure(&mut self, name: &syn::Ident, first: usize, last: usize) {
        let length = last + 1 - first;
        if length > LINES_MAX {
            self.findings.push(Finding {
                file: self.file.to_owned(),
                line: first,
                rule: "function too long",
                found: format!("{name}: {length} lines"),
            });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !rust::is_for_tests(rust::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig.ident, rust::lines(&item.sig).0, rust::lines(&item.block).1);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !rust::is_for_tests(&item.attrs) {
            self.measure(&item.sig.ident, rust::lines(&item.sig).0, rust::lines(&item.block).1);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig.ident, rust::lines(&item.sig).0, rust::lines(block).1);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// The functions of one file that are too long, tables as well.
fn long_functions(file: &Path, text: &str) -> Vec<Finding> {
    if rust::is_test_file(file) {
        return Vec::new();
    }
    let Some(parsed) = rust::parse(file, text) else { return Vec::new() };
    let mut functions = Functions { file, findings: Vec::new() };
    functions.visit_file(&parsed);
    functions.findings
}

fn is_named((file, name, _): &(&str, &str, &str), finding: &Finding) -> bool {
    finding.file.ends_with(file) && finding.found.starts_with(&format!("{name}:"))
}

/// The functions of one file that are too long.
pub fn check(file: &Path, text: &str) -> Vec<Finding> {
    let mut findings = long_functions(file, text);
    findings.retain(|finding| !TABLES.iter().any(|table| is_named(table, finding)));
    findings
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

    /// A table that became short, or went, is listed no longer.
    #[test]
    fn each_table_is_a_long_function() {
        let all = tree::below("");
        let long: Vec<_> = all.iter().flat_map(|(path, text)| long_functions(path, text)).collect();
        for table in TABLES {
            assert!(long.iter().any(|finding| is_named(table, finding)), "{table:?}");
        }
    }

    fn function(lines: usize) -> String {
        format!("/// Text.\nfn long() {{\n{}}}\n", "    f();\n".repeat(lines - 2))
    }

    fn found(file: &str, text: &str) -> Vec<String> {
        check(Path::new(file), text).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_function_of_81_lines_is_found() {
        let long = function(LINES_MAX + 1);
        let expected = ["a/src/b.rs:2: function too long: long: 81 lines"];
        assert_eq!(found("a/src/b.rs", &long), expected);
        assert_eq!(found("tests/src/b.rs", &long).len(), 1);
        let inside = [format!("impl A {{\n{long}}}"), format!("mod a {{\n{long}}}")];
        for source in inside.iter().chain([&format!("trait A {{\n{long}}}")]) {
            assert_eq!(found("b.rs", source), ["b.rs:3: function too long: long: 81 lines"]);
        }
    }

    #[test]
    fn a_function_of_80_lines_and_tests_are_not_found() {
        assert_eq!(found("b.rs", &function(LINES_MAX)), [""; 0]);
        let long = function(LINES_MAX + 1);
        for file in [
            "a/tests/b.rs",
            "tests/tests/b.rs",
            "a/stories/b.rs",
            "a/testing.rs",
            "tests.rs",
            "b.txt",
        ] {
            assert_eq!(found(file, &long), [""; 0], "{file}");
        }
        let tests = ["#[cfg(test)]", "#[cfg(any(test, feature = \"testing\"))]"];
        for attribute in tests {
            assert_eq!(found("b.rs", &format!("{attribute}\nmod a {{\n{long}}}")), [""; 0]);
        }
        assert_eq!(found("b.rs", &format!("#[cfg(not(test))]\nmod a {{\n{long}}}")).len(), 1);
    }
}
