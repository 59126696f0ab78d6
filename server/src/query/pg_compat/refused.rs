//! Syntax and functions of Oracle and PostgreSQL that are not here, with what to write instead.
//! Without this file they would be syntax errors at a word that says nothing.

use super::oracle::refused;
use crate::{
    sql::tokens::{Kind, Token},
    sql_error::SqlError,
};

const NO_XML: &str = "there is no XML; LISTAGG joins texts, and JSON_OBJECT makes JSON";
const IN_QUERY: &str =
    "a row cannot refer to the tables before it; join with ON, or put a subquery into the list";
const NO_HASH: &str = "Oracle's hash is not known; GROUP BY the value itself";
const NO_JSON_PATH: &str = "x ->> '$.a' takes a value out of JSON, and json_each(x) its elements";
const NO_COLLECTION: &str =
    "there are no collections; LISTAGG joins texts, JSON_ARRAYAGG makes JSON";

/// Functions, and what to write instead.
const FUNCTIONS: [(&str, &str); 22] = [
    ("XMLAGG", NO_XML),
    ("XMLELEMENT", NO_XML),
    ("XMLFOREST", NO_XML),
    ("XMLCONCAT", NO_XML),
    ("XMLTYPE", NO_XML),
    ("XMLSERIALIZE", NO_XML),
    ("XMLTABLE", NO_XML),
    ("EXTRACTVALUE", NO_XML),
    ("XMLQUERY", NO_XML),
    ("XMLEXISTS", NO_XML),
    ("JSON_TABLE", NO_JSON_PATH),
    ("JSON_VALUE", NO_JSON_PATH),
    ("JSON_QUERY", NO_JSON_PATH),
    ("JSON_EXISTS", NO_JSON_PATH),
    ("ORA_HASH", NO_HASH),
    ("STANDARD_HASH", NO_HASH),
    ("COLLECT", NO_COLLECTION),
    ("MULTISET", NO_COLLECTION),
    ("CURSOR", "a subquery in the list gives one value; LISTAGG joins several"),
    ("DUMP", "RAWTOHEX shows the bytes of a text"),
    ("MATCH_RECOGNIZE", "LAG, LEAD and other functions with OVER compare rows"),
    ("VALIDATE_CONVERSION", "TO_NUMBER(x DEFAULT NULL ON CONVERSION ERROR) IS NULL tells"),
];

/// Refuses what is not here.
///
/// # Errors
/// At its first word.
pub(super) fn check(tokens: &[Token]) -> Result<(), SqlError> {
    for (at, token) in tokens.iter().enumerate() {
        let Kind::Word(word) = &token.kind else { continue };
        let next = tokens.get(at + 1);
        let is_next =
            |words: &[&str]| next.is_some_and(|next| words.iter().any(|word| next.is(word)));
        let follows = |words: &[&str]| {
            let before = at.checked_sub(1).and_then(|before| tokens.get(before));
            before.is_some_and(|before| words.iter().any(|word| before.is(word)))
        };
        let is_call = next.is_some_and(|next| next.is_symbol("("));
        let follows_dot = at
            .checked_sub(1)
            .and_then(|before| tokens.get(before))
            .is_some_and(|before| before.is_symbol("."));
        if is_call
            && !follows_dot
            && let Some((name, hint)) = FUNCTIONS.iter().find(|(name, _)| token.is(name))
        {
            return Err(refused(token, name, hint));
        }
        let package = ["DBMS_", "UTL_"].iter().any(|prefix| {
            word.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        });
        let (what, hint) = match () {
            () if token.is("LATERAL") && is_call => ("LATERAL", IN_QUERY),
            () if token.is("APPLY") && follows(&["CROSS", "OUTER"]) => ("APPLY", IN_QUERY),
            () if token.is("MODEL")
                && is_next(&[
                    "DIMENSION",
                    "PARTITION",
                    "IGNORE",
                    "KEEP",
                    "RETURN",
                    "UNIQUE",
                    "MAIN",
                ]) =>
            {
                ("MODEL", "functions with OVER, and recursive queries, compute from other rows")
            }
            () if token.is("SEARCH") && is_next(&["DEPTH", "BREADTH"]) => {
                ("SEARCH", "carry a path along in a column of the query, and ORDER BY it")
            }
            () if token.is("CYCLE")
                && tokens.iter().skip(at).take(8).any(|word| word.is("SET")) =>
            {
                ("CYCLE", "count a level along in a column of the query, and end at one")
            }
            () if token.is("FOR") && is_next(&["UPDATE", "SHARE"]) => {
                ("FOR UPDATE", "queries lock nothing; leave it out")
            }
            () if token.is("AS") && is_next(&["OF"]) => ("AS OF", "a query sees the present"),
            () if token.is("TABLE") && is_call && follows(&["FROM", "JOIN"]) => {
                ("TABLE", NO_COLLECTION)
            }
            () if package && next.is_some_and(|next| next.is_symbol(".")) => {
                (word.as_str(), "there are no packages of PL/SQL")
            }
            () => continue,
        };
        return Err(refused(token, what, hint));
    }
    Ok(())
}
