//! The names under which Oracle knows a view: `v$asm_disk` is a synonym of `v_$asm_disk`, which
//! belongs to SYS. Scripts and tools write any of these, in quotes or without:
//!
//! ```text
//!   v$asm_disk  v_$asm_disk  sys.v_$asm_disk  sys.v$asm_disk  "SYS"."V_$ASM_DISK"  system.dual
//! ```
//!
//! Each becomes the name that is declared. `gv$` and `gv_$` are the same of all instances.

use super::edits::Edits;
use crate::sql::tokens::{Kind, Token};

/// Owners of views in Oracle. They are taken for owners only before the name of a view, because an
/// alias of a table may have such a name. `public` is a schema.
const OWNERS: [&str; 2] = ["SYS", "SYSTEM"];
/// Other relations that an owner may stand before.
const OTHERS: [&str; 2] = ["dual", "product_component_version"];

/// The declared form of a view's name, in lower case: `V_$ASM_DISK` is `v$asm_disk`. Any other name
/// stays as it is.
#[must_use]
pub fn declared(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    for (synonym, prefix) in [("v_$", "v$"), ("gv_$", "gv$")] {
        if let Some(rest) = name.strip_prefix(synonym) {
            return format!("{prefix}{rest}");
        }
    }
    name
}

/// The view of one instance that a name means, even if it is written `gv$...`.
#[must_use]
pub fn local(name: &str) -> String {
    let name = declared(name);
    match name.strip_prefix('g') {
        Some(rest) if rest.starts_with("v$") => rest.to_owned(),
        _ => name,
    }
}

fn is_view(declared: &str) -> bool {
    ["v$", "gv$", "x$"].iter().any(|prefix| declared.starts_with(prefix))
}

/// The name in a token.
fn name(token: Option<&Token>) -> Option<&str> {
    match token.map(|token| &token.kind) {
        Some(Kind::Word(name) | Kind::Quoted(name)) => Some(name),
        _ => None,
    }
}

/// Replaces a synonym at a token by the declared name; returns the number of tokens covered, 0 if
/// there is none.
pub fn replace(tokens: &[Token], at: usize, edits: &mut Edits) -> usize {
    let Some(first) = name(tokens.get(at)) else { return 0 };
    let follows_dot = at.checked_sub(1).and_then(|before| tokens.get(before));
    let is_dot = |token: Option<&Token>| token.is_some_and(|token| token.is_symbol("."));
    let owns = OWNERS.iter().any(|owner| first.eq_ignore_ascii_case(owner));
    let (count, written) = if owns && is_dot(tokens.get(at + 1)) && !is_dot(follows_dot) {
        let Some(owned) = name(tokens.get(at + 2)) else { return 0 };
        (3, owned)
    } else {
        (1, first)
    };
    let declared = declared(written);
    let is_known = is_view(&declared) || count > 1 && OTHERS.contains(&declared.as_str());
    let changes = count > 1 || !declared.eq_ignore_ascii_case(written);
    let (Some(start), Some(end)) = (tokens.get(at), tokens.get(at + count - 1)) else { return 0 };
    if !is_known || !changes {
        return 0;
    }
    edits.replace(start.start, end.end, declared);
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Query;

    fn rewritten(text: &str) -> String {
        let query = Query::new(text).expect(text);
        let mut edits = Edits::default();
        let mut at = 0;
        while at < query.tokens.len() {
            at += replace(&query.tokens, at, &mut edits).max(1);
        }
        edits.all(text).sql
    }

    #[test]
    fn synonyms_are_the_declared_names() {
        for (text, expected) in [
            ("select 1 from V_$ASM_DISK d", "select 1 from v$asm_disk d"),
            ("select 1 from sys.v_$asm_disk", "select 1 from v$asm_disk"),
            ("select 1 from sys.v$asm_disk, SYSTEM.dual", "select 1 from v$asm_disk, dual"),
            ("select 1 from \"SYS\".\"GV_$ASM_DISK\"", "select 1 from gv$asm_disk"),
            ("select v_$session.sid from v_$session", "select v$session.sid from v$session"),
            ("select 1 from sys.x$kffxp", "select 1 from x$kffxp"),
            (
                "select 1 from sys.product_component_version",
                "select 1 from product_component_version",
            ),
        ] {
            assert_eq!(rewritten(text), expected);
        }
        for unchanged in [
            "select sys.name from V$ASM_DISK sys",
            "select 'v_$asm_disk' from sys.pg_class",
            "select a.system.v$x, public.t",
        ] {
            assert_eq!(rewritten(unchanged), unchanged);
        }
        assert_eq!((local("GV_$Asm_Disk").as_str(), local("gv").as_str()), ("v$asm_disk", "gv"));
    }
}
