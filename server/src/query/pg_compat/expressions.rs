//! Operators that SQLite evaluates otherwise than Oracle and PostgreSQL.
//!
//! - `a || b` binds tighter than `*` in SQLite, and is NULL if one is. Its operands are
//!   enclosed so that it has the precedence and the NULLs of the query's rules.
//! - `+ - * /` of decimals are computed with binary reals, and integers are divided without a
//!   remainder. `plinth_plus`, `plinth_over` ... compute with decimals.
//! - `+ -` of times are computed with the numbers that their texts begin with. `plinth_plus` and
//!   `plinth_minus` add and subtract days.
//! - A number is less than any text. A text that is compared with a number is converted to one
//!   here; it is an error if it is none. A text that is compared with a time is converted to a
//!   time.
//!
//! Sums and products of integers stay as they are: SQLite has these right, and engines can compute
//! them ([`plan`](super::super::plan)).
//!
//! This is a parser of sums, not of statements: it finds operands between keywords, and what it
//! does not know it leaves alone.

use super::{edits::Edits, operands};
use crate::{
    query::{
        functions, infer_types,
        views::{self, Type},
    },
    sql::{
        rules::Rules,
        tokens::{Kind, Token},
    },
    sql_error::{SqlError, state},
};
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of values that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Integer,
    Decimal,
    Text,
    Time,
    Unknown,
}

impl From<Type> for Class {
    fn from(kind: Type) -> Self {
        match kind {
            Type::Integer => Self::Integer,
            Type::Real => Self::Decimal,
            Type::Text => Self::Text,
            Type::Time => Self::Time,
            Type::Truth | Type::Letter => Self::Unknown,
        }
    }
}

impl Class {
    fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Decimal)
    }
}

/// An operand, or operators with their operands: tokens `start..end`.
#[derive(Debug, Clone, Copy)]
struct Node {
    start: usize,
    end: usize,
    class: Class,
}

/// Words at which no operand begins.
const NO_OPERANDS: [&str; 56] = [
    "SELECT",
    "DISTINCT",
    "ALL",
    "FROM",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "IN",
    "ON",
    "USING",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "BY",
    "HAVING",
    "AS",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "MATCH",
    "REGEXP",
    "GLOB",
    "EXISTS",
    "ANY",
    "SOME",
    "PRIOR",
    "IS",
    "ISNULL",
    "NOTNULL",
    "ESCAPE",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "GROUP",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "JOIN",
    "INNER",
    "OUTER",
    "CROSS",
    "NATURAL",
    "FULL",
    "WITH",
    "RECURSIVE",
    "VALUES",
    "ASC",
    "DESC",
    "NULLS",
    "PARTITION",
    "COLLATE",
    "OVER",
];
const COMPARISONS: [&str; 8] = ["=", "<>", "!=", "<", ">", "<=", ">=", "=="];
/// Functions of texts that do not know by which rules a decimal becomes one.
const OF_TEXTS: [&str; 19] = [
    "LENGTH",
    "LENGTHB",
    "UPPER",
    "LOWER",
    "INITCAP",
    "REVERSE",
    "INSTR",
    "TRIM",
    "LTRIM",
    "RTRIM",
    "TRANSLATE",
    "ASCII",
    "REGEXP_REPLACE",
    "REGEXP_SUBSTR",
    "REGEXP_INSTR",
    "REGEXP_COUNT",
    "REGEXP_LIKE",
    "GROUP_CONCAT",
    "PLINTH_LIST",
];
/// Digits of literals from which on a sum or a product of integers may be longer than 64 bits.
const LONG_TERM: usize = 18;
const LONG_FACTOR: usize = 10;
/// Most parentheses and CASEs around one expression; each is a level of recursion here.
const DEPTH_MAX: usize = 200;

/// Rewrites operators in a query.
///
/// # Errors
/// If it is nested too deeply.
pub(super) fn rewrite(tokens: &[Token], rules: Rules, edits: &mut Edits) -> Result<(), SqlError> {
    let mut depth = 0_usize;
    for token in tokens {
        if token.is_symbol("(") || token.is("CASE") {
            depth += 1;
        } else if token.is_symbol(")") || token.is("END") {
            depth = depth.saturating_sub(1);
        }
        if depth > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} parentheses within each other");
            return Err(SqlError::new(state::TOO_COMPLEX, message).at(token.start));
        }
    }
    for (at, token) in tokens.iter().enumerate() {
        let Kind::Number(digits) = &token.kind else { continue };
        // The least integer has one digit more than its literal may have.
        let is_negative =
            at.checked_sub(1).and_then(|at| tokens.get(at)).is_some_and(|one| one.is_symbol("-"));
        if let Some(why) = functions::lost_digits(digits)
            && !(is_negative && format!("-{digits}").parse::<i64>().is_ok())
        {
            return Err(SqlError::new(state::OUT_OF_RANGE, why)
                .hint("as a text, '...', it keeps all digits")
                .at(token.start));
        }
    }
    let columns = columns(tokens);
    let mut pass = Pass { tokens, rules, edits, columns, named: BTreeMap::new() };
    pass.named = pass.names();
    pass.walk(0, tokens.len());
    Ok(())
}

/// The columns of the views that a query names. Of two columns with one name and several classes,
/// the class is unknown.
fn columns(tokens: &[Token]) -> BTreeMap<&'static str, Class> {
    let named: BTreeSet<String> = tokens
        .iter()
        .filter_map(|token| match &token.kind {
            Kind::Word(name) | Kind::Quoted(name) if name.contains('$') => {
                Some(super::synonyms::local(name))
            }
            _ => None,
        })
        .collect();
    let mut columns = BTreeMap::new();
    for name in named {
        let view = views::of_relation(&name);
        for (column, kind) in view.into_iter().flat_map(|view| &view.columns) {
            let class = Class::from(*kind);
            let known = columns.entry(*column).or_insert(class);
            if *known != class {
                *known = Class::Unknown;
            }
        }
    }
    columns
}

struct Pass<'a, 'e> {
    tokens: &'a [Token],
    rules: Rules,
    edits: &'e mut Edits,
    /// The columns of the views that the query names.
    columns: BTreeMap<&'static str, Class>,
    /// The classes of the names that the query itself gives to columns.
    named: BTreeMap<String, Class>,
}

impl<'a> Pass<'a, '_> {
    fn get(&self, at: usize) -> Option<&'a Token> {
        self.tokens.get(at)
    }

    fn is_symbol(&self, at: usize, symbol: &str) -> bool {
        self.get(at).is_some_and(|token| token.is_symbol(symbol))
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.get(at).is_some_and(|token| token.is(word))
    }

    /// The classes of `expression AS name`, and of an expression with a name behind it. A name that
    /// stands for several classes is unknown.
    fn names(&self) -> BTreeMap<String, Class> {
        let mut named: BTreeMap<String, Class> = BTreeMap::new();
        for (at, _) in self.tokens.iter().enumerate().filter(|(_, token)| token.is("SELECT")) {
            for item in operands::items(self.tokens.get(at + 1..).unwrap_or_default()) {
                let value = infer_types::without_alias(item);
                let Some(Token { kind: Kind::Word(name) | Kind::Quoted(name), .. }) =
                    item.last().filter(|_| value.len() < item.len())
                else {
                    continue;
                };
                let mut class = self.class_of(value);
                // It may be the name of a column of a view as well.
                let of_view = item.last().map(|name| self.class_of(std::slice::from_ref(name)));
                if of_view.is_some_and(|other| other != Class::Unknown && other != class) {
                    class = Class::Unknown;
                }
                named
                    .entry(name.to_ascii_lowercase())
                    .and_modify(|known| {
                        if *known != class {
                            *known = Class::Unknown;
                        }
                    })
                    .or_insert(class);
            }
        }
        named
    }

    /// Rewrites the expressions in a range.
    fn walk(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            at = self.comparison(at, to).unwrap_or(at + 1).max(at + 1);
        }
    }

    /// `sum`, `sum = sum`, `sum BETWEEN sum AND sum`, `sum IN (sum, ...)`; the position after it.
    fn comparison(&mut self, at: usize, to: usize) -> Option<usize> {
        let left = self.sum(at, to)?;
        Some(self.compared_with(left, to))
    }

    /// The comparison that a sum begins, if it begins one; the position after it.
    fn compared_with(&mut self, left: Node, to: usize) -> usize {
        let mut next = left.end;
        if COMPARISONS.iter().any(|symbol| self.is_symbol(next, symbol)) {
            let Some(right) = self.sum(next + 1, to) else { return next + 1 };
            self.compared(left, &[right]);
            return right.end;
        }
        next += usize::from(self.is(next, "NOT"));
        if self.is(next, "BETWEEN") {
            let Some(low) = self.sum(next + 1, to) else { return next + 1 };
            if !self.is(low.end, "AND") {
                return low.end;
            }
            let Some(high) = self.sum(low.end + 1, to) else { return low.end + 1 };
            self.compared(left, &[low, high]);
            return high.end;
        }
        if self.is(next, "IN") && self.is_symbol(next + 1, "(") && !self.is(next + 2, "SELECT") {
            let Some(close) = operands::closing(self.tokens, next + 1) else { return next };
            let mut list = Vec::new();
            let mut at = next + 2;
            while let Some(one) = self.sum(at, close) {
                list.push(one);
                at = one.end + 1;
            }
            self.compared(left, &list);
            self.walk(at, close);
            return close + 1;
        }
        left.end
    }

    /// Makes both sides of a comparison the same.
    fn compared(&mut self, left: Node, others: &[Node]) {
        let function = |class: Class| match class {
            Class::Integer | Class::Decimal => Some("plinth_number"),
            Class::Time => Some("plinth_time"),
            Class::Text | Class::Unknown => None,
        };
        if left.class == Class::Text {
            if let Some(function) = others.iter().find_map(|right| function(right.class)) {
                self.converted(left, function);
            }
            return;
        }
        for right in others.iter().filter(|right| right.class == Class::Text) {
            if let Some(function) = function(left.class) {
                self.converted(*right, function);
            }
        }
    }

    /// A text as a number or a time: at once if it is a literal, otherwise when the query runs.
    fn converted(&mut self, node: Node, function: &str) {
        let (Some(first), Some(last)) = (self.get(node.start), self.get(node.end - 1)) else {
            return;
        };
        if let (Kind::String(text), 1) = (&first.kind, node.end - node.start) {
            let literal = if function == "plinth_number" {
                functions::number_literal(text)
            } else {
                functions::time_literal(text)
            };
            if let Some(literal) = literal {
                self.edits.replace(first.start, last.end, literal);
                return;
            }
        }
        self.edits.insert(first.start, format!("{function}("));
        self.edits.close(last.end, ")");
    }

    /// `product + product`, `product || product`. By Oracle's rules `||` binds as `+` does, by
    /// PostgreSQL's less.
    fn sum(&mut self, at: usize, to: usize) -> Option<Node> {
        if self.rules == Rules::Oracle {
            let first = self.product(at, to)?;
            return Some(self.chain(first, to, true, Self::product));
        }
        let first = self.additions(at, to)?;
        Some(self.chain(first, to, true, Self::additions))
    }

    fn additions(&mut self, at: usize, to: usize) -> Option<Node> {
        let first = self.product(at, to)?;
        Some(self.chain(first, to, false, Self::product))
    }

    /// Operators of one precedence, from the left. `joins`: with `||`; by PostgreSQL's rules with
    /// that alone.
    fn chain(
        &mut self,
        first: Node,
        to: usize,
        joins: bool,
        operand: fn(&mut Self, usize, usize) -> Option<Node>,
    ) -> Node {
        let adds = !joins || self.rules == Rules::Oracle;
        let mut left = first;
        // The operands of one run of `||`.
        let mut joined: Vec<Node> = Vec::new();
        while left.end < to {
            let at = left.end;
            let join = joins && self.is_symbol(at, "||");
            let add = adds && (self.is_symbol(at, "+") || self.is_symbol(at, "-"));
            if !join && !add {
                break;
            }
            let Some(right) = operand(self, at + 1, to) else { break };
            if join {
                if joined.is_empty() {
                    joined.push(left);
                }
                joined.push(right);
                left = Node { start: left.start, end: right.end, class: Class::Text };
            } else {
                self.join(&std::mem::take(&mut joined));
                left = self.added(left, at, right);
            }
        }
        self.join(&joined);
        left
    }

    /// Operands of `||`, in a form in which SQLite's `||` joins them by the query's rules.
    fn join(&mut self, operands: &[Node]) {
        let (Some(first), Some(last)) = (operands.first(), operands.last()) else { return };
        let is_null_nothing = self.rules == Rules::Oracle;
        let mut has_text = false;
        for operand in operands {
            let tokens = self.tokens.get(operand.start..operand.end).unwrap_or_default();
            let name = match tokens {
                [name] | [_, _, name] => {
                    matches!(name.kind, Kind::Word(_) | Kind::Quoted(_)) && !name.is("NULL")
                }
                _ => false,
            };
            match (tokens, operand.class) {
                ([Token { kind: Kind::String(text), .. }], Class::Text) => {
                    has_text |= !text.is_empty();
                }
                (_, Class::Text | Class::Integer | Class::Time) if is_null_nothing => {
                    self.enclose("coalesce((", *operand, "), '')");
                }
                (_, Class::Text | Class::Integer | Class::Time) => {
                    self.enclose("(", *operand, ")");
                }
                // It may be a real, whose text is not SQLite's.
                (_, Class::Unknown) if name => self.text_of_name(*operand),
                _ => self.enclose("plinth_text(", *operand, ")"),
            }
        }
        let run = Node { start: first.start, end: last.end, class: Class::Text };
        if is_null_nothing && !has_text {
            self.enclose("nullif((", run, "), '')");
        } else {
            self.enclose("(", run, ")");
        }
    }

    /// The text of a column whose type is not known: of a real by a function, of others as it is.
    fn text_of_name(&mut self, node: Node) {
        let tokens = self.tokens.get(node.start..node.end).unwrap_or_default();
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return };
        let name: String = tokens.iter().map(quoted).collect();
        let other = if self.rules == Rules::Oracle {
            format!("coalesce({name}, '')")
        } else {
            name.clone()
        };
        let text =
            format!("CASE typeof({name}) WHEN 'real' THEN plinth_text({name}) ELSE {other} END");
        self.edits.replace(first.start, last.end, text);
    }

    fn enclose(&mut self, open: &str, node: Node, close: &str) {
        if let (Some(first), Some(last)) = (self.get(node.start), self.get(node.end - 1)) {
            self.edits.insert(first.start, open);
            self.edits.close(last.end, close);
        }
    }

    fn added(&mut self, left: Node, operator: usize, right: Node) -> Node {
        let is_minus = self.is_symbol(operator, "-");
        let node = |class| Node { start: left.start, end: right.end, class };
        let class = match (left.class, right.class) {
            (Class::Integer, Class::Integer)
                if !self.is_long(left, LONG_TERM) && !self.is_long(right, LONG_TERM) =>
            {
                return node(Class::Integer);
            }
            (Class::Integer, Class::Integer) => Class::Integer,
            (Class::Time, Class::Time) if is_minus => Class::Decimal,
            (Class::Time, _) if right.class.is_number() => Class::Time,
            (_, Class::Time) if left.class.is_number() && !is_minus => Class::Time,
            (left, right) if left.is_number() && right.is_number() => Class::Decimal,
            _ => Class::Unknown,
        };
        self.separated(operator);
        self.call(if is_minus { "plinth_minus(" } else { "plinth_plus(" }, node(class));
        node(class)
    }

    /// Whether an operand is a literal of at least `digits` digits. SQLite's own arithmetic makes a
    /// real of an integer that is too long, and might lose some of them.
    fn is_long(&self, node: Node, digits: usize) -> bool {
        match self.tokens.get(node.start..node.end) {
            Some([Token { kind: Kind::Number(literal), .. }]) => literal.len() >= digits,
            _ => false,
        }
    }

    /// `factor * factor`, `factor / factor`
    fn product(&mut self, at: usize, to: usize) -> Option<Node> {
        let mut left = self.factor(at, to)?;
        while left.end < to {
            let at = left.end;
            let function = match self.get(at).map(|token| &token.kind) {
                Some(Kind::Symbol(symbol)) if symbol == "*" => "plinth_times(",
                Some(Kind::Symbol(symbol)) if symbol == "/" => "plinth_over(",
                Some(Kind::Symbol(symbol)) if symbol == "%" => "plinth_modulo(",
                _ => break,
            };
            let Some(right) = self.factor(at + 1, to) else { break };
            let integers = left.class == Class::Integer && right.class == Class::Integer;
            let class = if integers && function != "plinth_over(" {
                Class::Integer
            } else {
                Class::Decimal
            };
            let node = Node { start: left.start, end: right.end, class };
            let is_long = self.is_long(left, LONG_FACTOR) || self.is_long(right, LONG_FACTOR);
            if !integers || is_long || function != "plinth_times(" {
                self.separated(at);
                self.call(function, node);
            }
            left = node;
        }
        Some(left)
    }

    /// An operand with its sign.
    fn factor(&mut self, at: usize, to: usize) -> Option<Node> {
        let mut first = at;
        while ["-", "+", "~"].iter().any(|sign| self.is_symbol(first, sign)) {
            first += 1;
        }
        if first >= to {
            return None;
        }
        let operand = self.operand(first, to)?;
        if first == at {
            return Some(operand);
        }
        if operand.class == Class::Text {
            self.converted(operand, "plinth_number");
        }
        let class = if operand.class.is_number() { operand.class } else { Class::Unknown };
        Some(Node { start: at, class, ..operand })
    }

    fn operand(&mut self, at: usize, to: usize) -> Option<Node> {
        let token = self.get(at)?;
        let mut end = match &token.kind {
            Kind::Symbol(symbol) if symbol == "(" => {
                let close = operands::closing(self.tokens, at)?;
                let inside = self.inside(at + 1, close);
                let end = self.modifiers(close + 1, to);
                let class = if end == close + 1 { inside } else { Class::Unknown };
                return Some(Node { start: at, end, class });
            }
            Kind::Symbol(symbol) if symbol.starts_with('$') || symbol == "?" => at + 1,
            Kind::Symbol(_) | Kind::End => return None,
            // By Oracle's rules an empty text is NULL.
            Kind::String(text) if text.is_empty() && self.rules == Rules::Oracle => {
                self.edits.replace(token.start, token.end, "NULL");
                return Some(Node { start: at, end: at + 1, class: Class::Unknown });
            }
            Kind::String(_) | Kind::Number(_) => at + 1,
            Kind::Word(_) if token.is("CASE") => {
                let end = operands::end(self.tokens, at).min(to);
                self.walk(at + 1, end.saturating_sub(1));
                end
            }
            Kind::Word(_) if NO_OPERANDS.iter().any(|word| token.is(word)) => return None,
            Kind::Word(_) | Kind::Quoted(_) => self.name(at),
        };
        let value = end;
        end = self.modifiers(end, to);
        let class = if value == end {
            self.class_of(self.tokens.get(at..end).unwrap_or_default())
        } else {
            Class::Unknown
        };
        Some(Node { start: at, end, class })
    }

    /// Rewrites what is between parentheses; its class, if it is one value.
    fn inside(&mut self, from: usize, close: usize) -> Class {
        if !self.is(from, "SELECT") && !self.is(from, "WITH") {
            let Some(node) = self.sum(from, close) else {
                self.walk(from, close);
                return Class::Unknown;
            };
            if node.end == close {
                return node.class;
            }
            let after = self.compared_with(node, close);
            self.walk(after, close);
            return Class::Unknown;
        }
        self.walk(from, close);
        let inside = self.tokens.get(from - 1..=close).unwrap_or_default();
        self.class_of(inside)
    }

    /// The end of a name or a call, whose arguments are rewritten.
    fn name(&mut self, at: usize) -> usize {
        let mut end = at + 1;
        while self.is_symbol(end, ".") {
            end += 2;
        }
        if !self.is_symbol(end, "(") {
            return end.min(self.tokens.len());
        }
        let Some(close) = operands::closing(self.tokens, end) else { return self.tokens.len() };
        self.exact_aggregate(at, end, close);
        self.walk(end + 1, close);
        self.text_of_decimal(at, end, close);
        end = close + 1;
        loop {
            let open = if self.is(end, "OVER") || self.is(end, "FILTER") {
                end + 1
            } else if self.is(end, "WITHIN") && self.is(end + 1, "GROUP") {
                end + 2
            } else {
                return end;
            };
            // OVER may be followed by the name of a window.
            let close = operands::closing(self.tokens, open).filter(|_| self.is_symbol(open, "("));
            match close {
                Some(close) => {
                    self.walk(open + 1, close);
                    end = close + 1;
                }
                None => return open + 1,
            }
        }
    }

    /// The first argument of a function of texts, if it is a decimal: its text by Oracle's rules.
    fn text_of_decimal(&mut self, name: usize, open: usize, close: usize) {
        let is_of_texts =
            self.get(name).is_some_and(|token| OF_TEXTS.iter().any(|function| token.is(function)));
        if self.rules != Rules::Oracle || !is_of_texts {
            return;
        }
        let inside = self.tokens.get(open + 1..close).unwrap_or_default();
        let arguments = operands::split(inside, |token| token.is_symbol(","));
        let first = arguments.first().copied().unwrap_or_default();
        if self.class_of(first) == Class::Decimal {
            let end = open + 1 + first.len();
            self.enclose("to_char(", Node { start: open + 1, end, class: Class::Decimal }, ")");
        }
    }

    /// SUM and AVG of anything but integers are exact.
    fn exact_aggregate(&mut self, name: usize, open: usize, close: usize) {
        let Some(token) = self.get(name) else { return };
        let function = if token.is("SUM") {
            "plinth_sum"
        } else if token.is("AVG") {
            "plinth_avg"
        } else {
            return;
        };
        let argument = self.tokens.get(open + 1..close).unwrap_or_default();
        let is_distinct = argument.first().is_some_and(|first| first.is("DISTINCT"));
        let argument = argument.get(usize::from(is_distinct)..).unwrap_or_default();
        if self.class_of(argument) != Class::Integer || function == "plinth_avg" {
            self.edits.replace(token.start, token.end, function);
        }
    }

    /// `COLLATE name`, `-> 'x'`, which belong to the operand before them.
    fn modifiers(&mut self, mut end: usize, to: usize) -> usize {
        while end < to {
            let is_arrow = self.is_symbol(end, "->") || self.is_symbol(end, "->>");
            if !is_arrow && !self.is(end, "COLLATE") {
                break;
            }
            end += 2;
        }
        end.min(self.tokens.len())
    }

    /// The class of the value of these tokens.
    fn class_of(&self, tokens: &[Token]) -> Class {
        let last = match tokens {
            [name] => Some(name),
            [_, dot, name] if dot.is_symbol(".") => Some(name),
            _ => None,
        };
        if let Some(Token { kind: Kind::Word(name) | Kind::Quoted(name), .. }) = last
            && let Some(class) = self.named.get(&name.to_ascii_lowercase())
        {
            return *class;
        }
        if let Some(Token { kind: Kind::Word(name) | Kind::Quoted(name), .. }) = last
            && let Some(class) = self.columns.get(name.to_ascii_lowercase().as_str())
        {
            return *class;
        }
        infer_types::of(tokens).map_or(Class::Unknown, Class::from)
    }

    /// An operator becomes a comma between arguments.
    fn separated(&mut self, operator: usize) {
        if let Some(token) = self.get(operator) {
            self.edits.replace(token.start, token.end, ",");
        }
    }

    /// Encloses an expression.
    fn call(&mut self, open: &str, node: Node) {
        self.enclose(open, node, ")");
    }
}

/// A part of a name as it is written.
fn quoted(token: &Token) -> String {
    match &token.kind {
        Kind::Quoted(name) => format!("\"{}\"", name.replace('"', "\"\"")),
        Kind::Word(name) | Kind::Symbol(name) => name.clone(),
        _ => String::new(),
    }
}
