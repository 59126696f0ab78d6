//! Whose rules a SELECT follows where Oracle and PostgreSQL differ.
//!
//! | | Oracle | PostgreSQL |
//! | --- | --- | --- |
//! | `''` | is NULL | is an empty text |
//! | `'a' \|\| NULL` | `a` | NULL |
//! | `0.5` as text | `.5` | `0.5` |
//! | `LIKE` without ESCAPE | has no escape | has `\` |
//! | `SUBSTR(x, 0)` | from the first character | from the one before it |
//! | `REPLACE(x, 'a', NULL)` | removes | NULL |
//! | `REGEXP_REPLACE` | replaces all | the first, unless its flags have `g` |
//! | `a UNION b INTERSECT c` | from the left | INTERSECT binds first |
//! | `GREATEST(1, NULL)` | NULL | 1 |
//! | a month after January 31 | is an error | is the last day of February |
//! | `CAST(x AS DATE)`, `CURRENT_DATE` | with a time of day | a day |
//! | `TO_TIMESTAMP(5)` | is an error | seconds since 1970 |
//!
//! A session chooses with the setting [`SETTING`]. Without it, the way that the session came
//! decides: `plinth sql` is for Oracle's scripts. A client of PostgreSQL's protocol may be psql
//! with such a script, or a driver that reads PostgreSQL's catalog. So the statement decides: one
//! that reads the views of a disk group, or `dual`, follows Oracle's rules, and one that reads
//! PostgreSQL's catalog, or nothing, does not.

use super::{
    Query,
    tokens::{Kind, Token},
};

/// The name of the setting: `oracle`, `postgresql` or `auto`.
pub const SETTING: &str = "plinth.sql_rules";

/// The rules of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    Oracle,
    PostgreSql,
}

/// The choice of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    Always(Rules),
    /// Each statement's own.
    #[default]
    Auto,
}

impl Choice {
    /// The choice of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Always(Rules::Oracle), Self::Always(Rules::PostgreSql), Self::Auto]
            .into_iter()
            .find(|choice| choice.name().eq_ignore_ascii_case(name.trim()))
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Always(Rules::Oracle) => "oracle",
            Self::Always(Rules::PostgreSql) => "postgresql",
            Self::Auto => "auto",
        }
    }

    /// The rules for a query.
    #[must_use]
    pub fn of(self, query: &Query) -> Rules {
        match self {
            Self::Always(rules) => rules,
            Self::Auto => of_statement(&query.tokens),
        }
    }
}

/// The rules that the names in a statement tell.
#[must_use]
pub fn of_statement(tokens: &[Token]) -> Rules {
    let mut rules = Rules::PostgreSql;
    for (at, token) in tokens.iter().enumerate() {
        let (Kind::Word(name) | Kind::Quoted(name)) = &token.kind else { continue };
        let name = name.to_ascii_lowercase();
        let is_call = tokens.get(at + 1).is_some_and(|next| next.is_symbol("("));
        if name.starts_with("pg_") && !is_call || name == "information_schema" {
            return Rules::PostgreSql;
        }
        let bare = name.strip_prefix('g').unwrap_or(&name);
        if name == "dual" || ["v$", "v_$", "x$"].iter().any(|prefix| bare.starts_with(prefix)) {
            rules = Rules::Oracle;
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_tells_its_rules() {
        for (query, rules) in [
            ("SELECT '' FROM dual", Rules::Oracle),
            ("SELECT name FROM V$ASM_DISK", Rules::Oracle),
            ("SELECT 1 FROM (SELECT 1 FROM gv$asm_disk) x", Rules::Oracle),
            ("SELECT 1 FROM sys.v_$asm_disk", Rules::Oracle),
            ("SELECT 'v$asm_disk'", Rules::PostgreSql),
            ("SELECT '' || NULL", Rules::PostgreSql),
            ("SELECT relname FROM pg_class", Rules::PostgreSql),
            ("SELECT 1 FROM information_schema.tables, v$asm_disk", Rules::PostgreSql),
            ("SELECT pg_size_pretty(1) FROM v$asm_disk", Rules::Oracle),
        ] {
            let query = Query::new(query).expect(query);
            assert_eq!(Choice::Auto.of(&query), rules, "{}", query.text);
            assert_eq!(Choice::Always(Rules::Oracle).of(&query), Rules::Oracle);
        }
    }

    #[test]
    fn choices_have_names() {
        for name in ["oracle", "postgresql", "auto"] {
            assert_eq!(Choice::named(&name.to_uppercase()).map(Choice::name), Some(name));
        }
        assert_eq!(Choice::named("mysql"), None);
    }
}
