//! Shared by the rules of code: which code is a test, and where an item stands.

use std::path::Path;
use syn::{Attribute, Meta, spanned::Spanned};

/// The syntax tree of a source file; `None` if the file is no Rust or cannot be parsed.
pub fn parse(path: &Path, text: &str) -> Option<syn::File> {
    (path.extension()? == "rs").then(|| syn::parse_file(text).ok()).flatten()
}

/// Files that hold tests, or tools that only tests use. The crate `tests` has tools in its `src`.
pub fn is_test_file(path: &Path) -> bool {
    let path = path.with_extension("");
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let is_test = |(index, name): (usize, &&str)| match *name {
        "tests" => parts.get(index + 1) != Some(&"src"),
        name => matches!(name, "stories" | "testing"),
    };
    parts.iter().enumerate().any(is_test)
}

/// Whether an item is compiled for tests only.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
        let condition = list.tokens.to_string();
        let names =
            |name| condition.split(|letter: char| !letter.is_alphanumeric()).any(|n| n == name);
        list.path.is_ident("cfg") && names("test") && !names("not")
    })
}

/// The attributes of an item.
pub fn attributes(item: &syn::Item) -> &[Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The first and the last line of a piece of code.
pub fn lines(code: &impl Spanned) -> (usize, usize) {
    let span = code.span();
    (span.start().line, span.end().line)
}
