//! `&name` and `&1`: variables of SQL*Plus, whose values a script's reader puts in.
//!
//! `plinth sql` does that. In a text that came another way there are no values, and a variable that
//! is taken literally finds nothing and says nothing. So it is refused: outside of strings always,
//! unless it is PostgreSQL's operator `a & b`; in strings of statements on disk groups, and of
//! queries by Oracle's rules. `SET plinth.define = off` takes it literally.

use super::{
    rules::{Rules, of_statement},
    tokens::{Kind, Text, Token},
};
use crate::sql_error::{SqlError, state};

/// The setting that says whether `&` begins a variable.
pub const SETTING: &str = "plinth.define";

/// Refuses variables.
///
/// # Errors
/// At the first one.
pub(super) fn refuse(text: &Text<'_>) -> Result<(), SqlError> {
    for statement in text.statements() {
        let of_group = statement.get(1).is_some_and(|word| word.is("DISKGROUP"));
        let in_strings = of_group || of_statement(statement) == Rules::Oracle;
        for (at, token) in statement.iter().enumerate() {
            let found = match &token.kind {
                Kind::Symbol(symbol) if symbol == "&" || symbol == "&&" => {
                    outside(statement, at, token)
                }
                Kind::String(string) if in_strings => within(string),
                _ => None,
            };
            if let Some(name) = found {
                let message = format!("the variable &{name} of SQL*Plus has no value here");
                return Err(SqlError::new(state::NOT_SUPPORTED, message)
                    .hint(format!(
                        "plinth sql asks for it, or takes it from DEFINE; SET {SETTING} = off takes it literally"
                    ))
                    .at(token.start));
            }
        }
    }
    Ok(())
}

/// The name behind `&`, if nothing is between them and no operand is before them.
fn outside(statement: &[Token], at: usize, mark: &Token) -> Option<String> {
    let next = statement.get(at + 1).filter(|next| next.start == mark.end)?;
    let is_operand = |before: &Token| {
        before.end == mark.start
            && (!matches!(before.kind, Kind::Symbol(_)) || before.is_symbol(")"))
    };
    if at.checked_sub(1).and_then(|before| statement.get(before)).is_some_and(is_operand) {
        return None;
    }
    match &next.kind {
        Kind::Word(name) | Kind::Number(name) => Some(name.clone()),
        _ => None,
    }
}

/// The name behind a `&` in a string.
fn within(string: &str) -> Option<String> {
    string.split('&').skip(1).find_map(|behind| {
        let name: String = behind
            .chars()
            .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
            .collect();
        (!name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_refused_where_they_would_be_taken_literally() {
        for text in [
            "SELECT * FROM v$asm_disk WHERE group_number = &1",
            "SELECT * FROM v$asm_disk WHERE name LIKE '%&name%'",
            "SELECT '&&name' FROM dual",
            "ALTER DISKGROUP data ADD DISK '/dev/&disk'",
            "ALTER DISKGROUP &group DISMOUNT",
            "ALTER DISKGROUP &&group MOUNT",
            "SELECT &1 + 1",
        ] {
            let refusal = refuse(&Text::new(text).expect(text)).expect_err(text);
            assert!(refusal.at.is_some() && refusal.hint.is_some());
        }
        for text in [
            "SELECT 5 & 3, 5&3, x & y",
            "SELECT 'R & D', 'a&' FROM dual",
            "SELECT 'R&D'",
            "CREATE USER u PASSWORD 'a&b'",
            "SELECT '&x' FROM pg_class",
        ] {
            refuse(&Text::new(text).expect(text)).expect(text);
        }
    }
}
