//! The outer join that Oracle writes in the WHERE clause, `a.x = b.y (+)`, as LEFT JOIN.
//!
//! ```text
//!   FROM a, b, c WHERE a.x = b.x (+) AND b.y = c.y (+) AND c.z (+) > 5 AND a.w = 1
//!   FROM a LEFT JOIN b ON (a.x = b.x) LEFT JOIN c ON (b.y = c.y) AND (c.z > 5) WHERE (a.w = 1)
//! ```
//!
//! A table with a column that is marked is *optional*. Each condition with a mark is a condition of
//! the join of that table; the others stay. An optional table is joined behind those that its
//! conditions name. Refused, as in Oracle: a mark within OR, marks of two tables in one condition,
//! tables that are optional to each other, JOIN beside a mark.

use super::{
    edits::{Draft, Edits, Given},
    operands,
    oracle::{Block, blocks, refused},
};
use crate::{
    query::views,
    sql::tokens::{Kind, Token},
    sql_error::{SqlError, state},
};

/// Most blocks with such joins in one statement.
const ROUNDS_MAX: usize = 50;
const HINT: &str = "write FROM a LEFT JOIN b ON a.x = b.x";

/// Rewrites the outer joins of all blocks.
///
/// # Errors
/// At a mark that has no meaning.
pub(super) fn rewrite(mut draft: Draft<'_>) -> Result<Draft<'_>, SqlError> {
    for _ in 0..ROUNDS_MAX {
        let tokens = &draft.tokens;
        // The innermost block first: the outer ones then include its rewritten form.
        let marked =
            blocks(tokens).into_iter().rev().find(|block| !own_marks(tokens, block).is_empty());
        let Some(block) = marked else { break };
        let edits = Joins::of(tokens, &block)
            .and_then(|joins| joins.edits(&draft.done.sql))
            .map_err(|refusal| draft.placed(refusal))?;
        draft = draft.changed(&edits)?;
    }
    let left = (0..draft.tokens.len()).find(|at| is_mark(&draft.tokens, *at));
    match left.and_then(|at| draft.tokens.get(at)) {
        Some(mark) => Err(draft.placed(refused(mark, "the outer join (+) in this place", HINT))),
        None => Ok(draft),
    }
}

/// Whether `(+)` is at a token.
fn is_mark(tokens: &[Token], at: usize) -> bool {
    let is = |at: usize, symbol: &str| tokens.get(at).is_some_and(|token| token.is_symbol(symbol));
    is(at, "(") && is(at + 1, "+") && is(at + 2, ")")
}

/// The marks in the WHERE clause of a block, without those of blocks within it.
fn own_marks(tokens: &[Token], block: &Block) -> Vec<usize> {
    let Some(filter) = block.filter else { return Vec::new() };
    let end = block.clause_end(filter);
    let (mut marks, mut at) = (Vec::new(), filter);
    while at < end {
        let is_query = tokens.get(at).is_some_and(|token| token.is_symbol("("))
            && tokens.get(at + 1).is_some_and(|next| next.is("SELECT") || next.is("WITH"));
        if is_query {
            at = operands::closing(tokens, at).unwrap_or(end);
        } else if is_mark(tokens, at) {
            marks.push(at);
        }
        at += 1;
    }
    marks
}

/// A table of the FROM clause: its tokens, its qualifier in lower case, and its columns if they are
/// known.
struct Joined<'a> {
    tokens: &'a [Token],
    qualifier: String,
    columns: Option<Vec<String>>,
}

/// A condition of the WHERE clause.
struct Condition {
    start: usize,
    end: usize,
    /// The table with a mark in it.
    of: Option<usize>,
    /// The other tables that it names.
    names: Vec<usize>,
}

struct Joins<'a> {
    tokens: &'a [Token],
    /// The columns that are selected.
    list: (usize, usize),
    from: (usize, usize),
    filter: (usize, usize),
    tables: Vec<Joined<'a>>,
    conditions: Vec<Condition>,
}

impl<'a> Joins<'a> {
    fn of(tokens: &'a [Token], block: &Block) -> Result<Self, SqlError> {
        let marks = own_marks(tokens, block);
        let (Some(filter), Some(first)) =
            (block.filter, marks.first().and_then(|mark| tokens.get(*mark)))
        else {
            return Err(SqlError::new(state::INTERNAL, "a mark without its block"));
        };
        let Some(from) = block.from else {
            return Err(refused(first, "the outer join (+) without FROM", HINT));
        };
        let list = (block.select + 1, from);
        let from = (from + 1, block.clause_end(from));
        let sources = tokens.get(from.0..from.1).unwrap_or_default();
        if operands::split(sources, |token| token.is("JOIN")).len() > 1 {
            return Err(refused(first, "the outer join (+) beside JOIN", HINT));
        }
        let tables = operands::split(sources, |token| token.is_symbol(","));
        let tables: Vec<Joined<'_>> = tables.into_iter().map(Joined::of).collect();
        let filter = (filter + 1, block.clause_end(filter));
        let mut joins = Self { tokens, list, from, filter, tables, conditions: Vec::new() };
        for (start, end) in conjuncts(tokens, filter.0, filter.1) {
            let condition = joins.condition(start, end, &marks)?;
            joins.conditions.push(condition);
        }
        // A table that is compared with constants alone is joined to nothing.
        for at in 0..joins.tables.len() {
            let mut own = joins.conditions.iter_mut().filter(|one| one.of == Some(at));
            if own.all(|one| one.names.is_empty()) {
                let own = joins.conditions.iter_mut().filter(|one| one.of == Some(at));
                own.for_each(|one| one.of = None);
            }
        }
        Ok(joins)
    }

    fn condition(&self, start: usize, end: usize, marks: &[usize]) -> Result<Condition, SqlError> {
        let mut condition = Condition { start, end, of: None, names: Vec::new() };
        let own: Vec<usize> =
            marks.iter().copied().filter(|mark| (start..end).contains(mark)).collect();
        for mark in &own {
            let Some(token) = self.tokens.get(*mark) else { continue };
            if self.tokens.get(start..end).unwrap_or_default().iter().any(|token| token.is("OR")) {
                return Err(refused(token, "the outer join (+) within OR", HINT));
            }
            let column = operands::start(self.tokens, *mark).unwrap_or(*mark);
            let Some(table) = self.table_of(column) else {
                return Err(refused(token, "the outer join (+) of an unknown table", HINT)
                    .hint("write the table in front of the column: b.x (+)"));
            };
            if condition.of.is_some_and(|other| other != table) {
                return Err(refused(
                    token,
                    "the outer join (+) of two tables in one condition",
                    HINT,
                ));
            }
            condition.of = Some(table);
        }
        let mut at = start;
        while at < end {
            let begins = at.checked_sub(1).is_none_or(|before| {
                !self.tokens.get(before).is_some_and(|token| token.is_symbol("."))
            });
            if begins
                && let Some(table) = self.table_of(at)
                && condition.of != Some(table)
                && !condition.names.contains(&table)
            {
                condition.names.push(table);
            }
            at += 1;
        }
        Ok(condition)
    }

    /// The table of the column whose name begins at a token.
    fn table_of(&self, at: usize) -> Option<usize> {
        let name = |at: usize| match self.tokens.get(at).map(|token| &token.kind) {
            Some(Kind::Word(name) | Kind::Quoted(name)) => Some(name.to_ascii_lowercase()),
            _ => None,
        };
        let is = |at: usize, symbol: &str| {
            self.tokens.get(at).is_some_and(|token| token.is_symbol(symbol))
        };
        let first = name(at)?;
        if is(at + 1, ".") {
            return self.tables.iter().position(|table| table.qualifier == first);
        }
        if is(at + 1, "(") && !is_mark(self.tokens, at + 1) {
            return None;
        }
        // A name alone belongs to the one table that has such a column.
        let mut having = self.tables.iter().enumerate().filter(|(_, table)| {
            table.columns.as_ref().is_some_and(|columns| columns.contains(&first))
        });
        match (having.next(), having.next()) {
            (Some((table, _)), None) => Some(table),
            _ => None,
        }
    }

    /// The optional tables, in an order in which each comes behind those that it is joined to.
    fn order(&self) -> Result<Vec<usize>, SqlError> {
        let is_optional = |table: usize| self.conditions.iter().any(|one| one.of == Some(table));
        let mut left: Vec<usize> = (0..self.tables.len()).filter(|at| is_optional(*at)).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            let waits = |table: usize| {
                self.conditions
                    .iter()
                    .filter(|one| one.of == Some(table))
                    .any(|one| one.names.iter().any(|other| left.contains(other)))
            };
            let Some(at) = left.iter().position(|table| !waits(*table)) else {
                let first = self.tokens.get(self.filter.0).cloned();
                let first = first.unwrap_or(Token { kind: Kind::End, start: 0, end: 0 });
                return Err(refused(&first, "the outer join (+) of tables to each other", HINT));
            };
            order.push(left.remove(at));
        }
        Ok(order)
    }

    fn edits(&self, text: &str) -> Result<Edits, SqlError> {
        let place = |at: usize| self.tokens.get(at).map_or(0, |token| token.start);
        let end = |at: usize| {
            at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |token| token.end)
        };
        let order = self.order()?;
        let origin = place(self.from.0);
        let table = |at: usize| {
            let tokens = self.tables.get(at).map(|table| table.tokens).unwrap_or_default();
            match (tokens.first(), tokens.last()) {
                (Some(first), Some(last)) => {
                    Edits::default().made(text, first.start, last.end).texts()
                }
                _ => Vec::new(),
            }
        };
        let condition = |one: &Condition| {
            let mut unmarked = Edits::default();
            for at in (one.start..one.end).filter(|at| is_mark(self.tokens, *at)) {
                unmarked.replace(place(at), end(at + 3), "");
            }
            unmarked.made(text, place(one.start), end(one.end)).texts()
        };
        let conditions = |of: Option<usize>, texts: &mut Vec<Given>| {
            let mut before = "(";
            for one in self.conditions.iter().filter(|one| one.of == of) {
                texts.push(Given::new(before, place(one.start)));
                texts.extend(condition(one));
                before = ") AND (";
            }
            if before == "(" {
                texts.push(Given::new("(1", origin));
            }
            texts.push(Given::new(")", origin));
        };
        let mut from = Vec::new();
        let kept = (0..self.tables.len()).filter(|at| !order.contains(at));
        for (number, at) in kept.enumerate() {
            if number > 0 {
                from.push(Given::new(", ", origin));
            }
            from.extend(table(at));
        }
        for at in &order {
            from.push(Given::new(" LEFT JOIN ", origin));
            from.extend(table(*at));
            from.push(Given::new(" ON ", origin));
            conditions(Some(*at), &mut from);
        }
        let mut filter = Vec::new();
        conditions(None, &mut filter);
        let mut edits = Edits::default();
        edits.pieces(place(self.from.0), end(self.from.1), from);
        edits.pieces(place(self.filter.0), end(self.filter.1), filter);
        // The tables have another order now, and `*` means their columns in the old one.
        for star in self.list.0..self.list.1 {
            let is_alone = [",", "SELECT", "DISTINCT", "UNIQUE", "ALL"].iter().any(|before| {
                let token = star.checked_sub(1).and_then(|at| self.tokens.get(at));
                token.is_some_and(|token| token.is_symbol(before) || token.is(before))
            });
            if let Some(token) = self.tokens.get(star).filter(|token| token.is_symbol("*"))
                && is_alone
            {
                let all = self.tables.iter().filter_map(|table| table.tokens.last());
                let all: Vec<String> = all.map(|name| format!("{}.*", quoted(name))).collect();
                edits.replace(token.start, token.end, all.join(", "));
            }
        }
        Ok(edits)
    }
}

impl<'a> Joined<'a> {
    fn of(tokens: &'a [Token]) -> Self {
        let name = |token: Option<&Token>| match token.map(|token| &token.kind) {
            Some(Kind::Word(name) | Kind::Quoted(name)) => name.to_ascii_lowercase(),
            _ => String::new(),
        };
        let qualifier = name(tokens.last());
        let columns = if tokens.first().is_some_and(|first| first.is_symbol("(")) {
            None
        } else {
            // The name of the view is the last one before an alias.
            let end = operands::end(tokens, 0);
            let view = name(end.checked_sub(1).and_then(|last| tokens.get(last)));
            let view = super::synonyms::local(&view);
            views::of_relation(&view)
                .map(|view| view.columns.iter().map(|(name, _)| (*name).to_owned()).collect())
        };
        Self { tokens, qualifier, columns }
    }
}

/// A name in double quotes.
fn quoted(name: &Token) -> String {
    match &name.kind {
        Kind::Word(name) | Kind::Quoted(name) => format!("\"{}\"", name.replace('"', "\"\"")),
        _ => String::new(),
    }
}

/// The conditions that AND joins; the AND of a BETWEEN is no such one.
pub(super) fn conjuncts(tokens: &[Token], from: usize, to: usize) -> Vec<(usize, usize)> {
    let (mut found, mut start) = (Vec::new(), from);
    let (mut depth, mut betweens) = (0_usize, 0_usize);
    for (at, token) in tokens.iter().enumerate().take(to).skip(from) {
        if token.is_symbol("(") || token.is("CASE") {
            depth += 1;
        } else if token.is_symbol(")") || token.is("END") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is("BETWEEN") {
            betweens += 1;
        } else if depth == 0 && token.is("AND") {
            if betweens > 0 {
                betweens -= 1;
            } else {
                found.push((start, at));
                start = at + 1;
            }
        }
    }
    found.push((start, to));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Query;

    fn rewritten(text: &str) -> Result<String, SqlError> {
        rewrite(Draft::of(&Query::new(text)?)).map(|draft| draft.done.sql)
    }

    #[test]
    fn marks_become_left_joins() {
        for (query, sql) in [
            (
                "SELECT 1 FROM a, b WHERE a.x = b.x(+) AND a.y = 2",
                "SELECT 1 FROM a LEFT JOIN b ON (a.x = b.x) WHERE (a.y = 2)",
            ),
            (
                "SELECT 1 FROM t1 b, t2 a, c WHERE b.x (+) = a.x AND c.y(+) = b.y AND c.z(+) BETWEEN 1 AND 5 AND a.w IS NULL",
                "SELECT 1 FROM t2 a LEFT JOIN t1 b ON (b.x  = a.x) LEFT JOIN c ON (c.y = b.y) AND (c.z BETWEEN 1 AND 5) WHERE (a.w IS NULL)",
            ),
            (
                "SELECT 1 FROM a, b, c WHERE a.x = b.x(+) AND a.x = c.x",
                "SELECT 1 FROM a, c LEFT JOIN b ON (a.x = b.x) WHERE (a.x = c.x)",
            ),
            // A column alone, of a view that is known.
            (
                "SELECT 1 FROM v$asm_disk d, v$asm_diskgroup WHERE d.group_number = v$asm_diskgroup.group_number(+) AND allocation_unit_size(+)=4 ORDER BY 1",
                "SELECT 1 FROM v$asm_disk d LEFT JOIN v$asm_diskgroup ON (d.group_number = v$asm_diskgroup.group_number) AND (allocation_unit_size=4) WHERE (1) ORDER BY 1",
            ),
            (
                "SELECT 1 FROM (SELECT 1 FROM a, b WHERE a.x = b.x(+)) p, q WHERE p.x = q.x(+)",
                "SELECT 1 FROM (SELECT 1 FROM a LEFT JOIN b ON (a.x = b.x) WHERE (1)) p LEFT JOIN q ON (p.x = q.x) WHERE (1)",
            ),
            (
                "SELECT * FROM b, a WHERE b.x(+) = a.x",
                r#"SELECT "b".*, "a".* FROM a LEFT JOIN b ON (b.x = a.x) WHERE (1)"#,
            ),
            ("SELECT 1 FROM a WHERE a.x(+) = 5", "SELECT 1 FROM a WHERE (a.x = 5)"),
            (
                "SELECT 1 FROM a, b WHERE upper(b.x(+)) = a.x",
                "SELECT 1 FROM a LEFT JOIN b ON (upper(b.x) = a.x) WHERE (1)",
            ),
        ] {
            assert_eq!(rewritten(query).expect(query), sql);
        }
        for refused in [
            "SELECT 1 FROM a, b WHERE a.x = b.x(+) OR a.y = 1",
            "SELECT 1 FROM a, b WHERE a.x(+) = b.x(+)",
            "SELECT 1 FROM a, b WHERE a.x(+) = b.x AND a.y = b.y(+)",
            "SELECT 1 FROM a JOIN b ON a.x = b.x, c WHERE a.x = c.x(+)",
            "SELECT 1 FROM a, b WHERE a.x = z(+)",
            "SELECT x(+) FROM a",
        ] {
            let refusal = rewritten(refused).expect_err(refused);
            assert!(refusal.at.is_some() && refusal.hint.is_some(), "{refused}: {refusal:?}");
        }
    }
}
