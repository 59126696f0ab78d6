//! The dialect of the lexer: `sqlparser`'s for PostgreSQL, in which `#` is a letter of names as in
//! Oracle.
//!
//! `v$session` has a column `serial#`, and names of disks may have a `#`. So `serial#` is one word
//! wherever it stands, and `serial#>5` compares. PostgreSQL's operators that begin with `#` need a
//! blank before them. A name does not begin with `#`.
//!
//! The lexer asks a dialect many questions. Those that PostgreSQL's dialect answers other than the
//! default are passed on here, and a test compares the tokens of both.

use sqlparser::dialect::{Dialect, PostgreSqlDialect};
use std::any::TypeId;

#[derive(Debug)]
pub struct Plinth;

const POSTGRESQL: PostgreSqlDialect = PostgreSqlDialect {};

impl Dialect for Plinth {
    fn dialect(&self) -> TypeId {
        POSTGRESQL.dialect()
    }

    fn is_identifier_part(&self, character: char) -> bool {
        character == '#' || POSTGRESQL.is_identifier_part(character)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        POSTGRESQL.is_identifier_start(character)
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        POSTGRESQL.is_delimited_identifier_start(character)
    }

    fn is_custom_operator_part(&self, character: char) -> bool {
        POSTGRESQL.is_custom_operator_part(character)
    }

    fn supports_unicode_string_literal(&self) -> bool {
        POSTGRESQL.supports_unicode_string_literal()
    }

    fn supports_nested_comments(&self) -> bool {
        POSTGRESQL.supports_nested_comments()
    }

    fn supports_string_escape_constant(&self) -> bool {
        POSTGRESQL.supports_string_escape_constant()
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        POSTGRESQL.supports_numeric_literal_underscores()
    }

    fn supports_geometric_types(&self) -> bool {
        POSTGRESQL.supports_geometric_types()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::tokenizer::{Token, Tokenizer};

    fn tokens(dialect: &dyn Dialect, text: &str) -> Vec<Token> {
        let tokens = Tokenizer::new(dialect, text).tokenize().expect(text);
        tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect()
    }

    /// A text without `#` in names has PostgreSQL's tokens, whatever else is in it.
    #[test]
    fn all_else_is_as_in_postgresql() {
        for text in [
            r#"SELECT "a""b", 'it''s', E'a\'b\n', U&'\0061', B'01', X'ff', N'x' /* a /* b */ c */ -- d"#,
            "select a::int[1], $1, $2::text, $$it's$$, $x$ a $$ b $x$, 1_000.5e-3, .5, 0x1f",
            "select a #> b, a #>> b, a # b, a ## b, a #- b, # 5, a @-@ b, a <-> b, a ?| b, a !~* b, a |/ b",
            "select v$asm_disk.é, x_1$, a&b, a|b, a^b, a<<b, a>>b, @ -5, a <=> b, a := b, a => b",
            "select '\\', `x` ; select a--b\n+c\r+d",
        ] {
            assert_eq!(tokens(&Plinth, text), tokens(&POSTGRESQL, text), "{text}");
        }
    }

    #[test]
    fn a_hash_is_a_letter_within_a_name() {
        for (text, words) in [
            ("serial#", &["serial#"][..]),
            ("s.serial#=5", &["s", ".", "serial#", "=", "5"]),
            ("serial#>5", &["serial#", ">", "5"]),
            ("a#b#c##", &["a#b#c##"]),
            ("thread# # sid#", &["thread#", "#", "sid#"]),
            ("d$1#", &["d$1#"]),
        ] {
            let found = tokens(&Plinth, text);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, words, "{text}");
        }
    }
}
