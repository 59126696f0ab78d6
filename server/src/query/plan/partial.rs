//! Partial results: the columns that engines group by, the aggregates that they compute, and how a
//! SELECT combines them.
//!
//! An aggregate whose argument uses the view alone is computed by the engines, for each combination
//! of the columns that are outside of aggregates, and then aggregated again over the rows that they
//! send. An aggregate over other columns counts each row of partial results as often as `plinth_n`
//! says. DISTINCT aggregates are unchanged: all distinct values are among the rows.

use super::{
    COUNT, MARK,
    columns::{Columns, Unsure, WHOLE, Whose, arguments},
};
use crate::query::{
    fetch::OURS,
    views::{COMPOUND, GROUP},
};
use sqlparser::{
    ast::{
        BinaryOperator, Distinct, DuplicateTreatment, Expr, Function, FunctionArguments,
        GroupByExpr, Ident, OrderBy, Select, SelectItem, Value as Literal, VisitMut, VisitorMut,
    },
    dialect::PostgreSqlDialect,
    parser::Parser,
};
use std::{collections::BTreeSet, ops::ControlFlow};

/// The aggregates that can be computed from partial results.
const AGGREGATES: [&str; 8] =
    ["count", "sum", "avg", "total", "min", "max", "plinth_sum", "plinth_avg"];

/// Columns in which nearly every row has another value: grouping by them gains nothing.
const KEYS: [&str; 10] = [
    "file_number",
    "compound_index",
    "name",
    "alias_index",
    "number_kffxp",
    "compound_kffxp",
    "au_kffxp",
    "xnum_kffxp",
    "pxn_kffxp",
    "aunum_kfdat",
];

/// The columns that engines group by, and the aggregates that they send.
#[derive(Default)]
pub(super) struct Partial {
    pub columns: BTreeSet<&'static str>,
    pub aggregates: Vec<String>,
}

pub(super) fn aggregate(at: usize) -> String {
    format!("{MARK}{at}")
}

/// Rewrites a SELECT that groups, counts or sums for partial results, if that gains anything. On an
/// error the SELECT may be half rewritten.
pub(super) fn partial(
    select: &mut Select,
    order_by: Option<&mut OrderBy>,
    columns: &Columns<'_>,
) -> Result<Partial, Unsure> {
    let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return Err(Unsure) };
    if !modifiers.is_empty()
        || select.qualify.is_some()
        || !select.named_window.is_empty()
        || select.top.is_some()
    {
        return Err(Unsure);
    }
    let groups = !keys.is_empty() || matches!(select.distinct, Some(Distinct::Distinct));
    if select.distinct.is_some() && !groups {
        return Err(Unsure);
    }
    let mut split = Split { columns, partial: Partial::default(), found: 0, unsure: false };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                split.visit(expr)
            }
            _ => return Err(Unsure),
        }
    }
    split.visit(&mut select.group_by);
    split.visit(&mut select.having);
    split.visit(&mut select.selection);
    for from in &mut select.from {
        for join in &mut from.joins {
            split.visit(&mut join.join_operator);
        }
    }
    if let Some(order_by) = order_by {
        split.visit(order_by);
    }
    let gains = split.partial.columns.iter().all(|column| !KEYS.contains(column));
    match split {
        Split { unsure: true, .. } => Err(Unsure),
        Split { found, partial, .. } if gains && (groups || found > 0) => Ok(partial),
        _ => Err(Unsure),
    }
}

/// Replaces aggregates, and collects the columns outside of them.
struct Split<'a> {
    columns: &'a Columns<'a>,
    partial: Partial,
    /// Number of aggregates.
    found: usize,
    unsure: bool,
}

impl Split<'_> {
    fn visit(&mut self, node: &mut impl VisitMut) {
        if node.visit(self).is_break() {
            self.unsure = true;
        }
    }

    /// Whether engines can compute an expression.
    fn belongs(&self, expr: &Expr) -> Result<bool, Unsure> {
        struct Names<'a> {
            columns: &'a Columns<'a>,
            strange: bool,
            unsure: bool,
        }
        impl VisitorMut for Names<'_> {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                match expr {
                    Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                        match self.columns.whose(expr) {
                            // Engines have neither the group's number nor the columns that are
                            // added here.
                            Ok(Whose::Ours(name, _)) => {
                                self.strange |= GROUP.contains(&name)
                                    || COMPOUND.contains(&name)
                                    || OURS.contains(&name);
                            }
                            Ok(Whose::Others) => self.strange = true,
                            Err(Unsure) => self.unsure = true,
                        }
                    }
                    // Other functions exist only here, or mean something else there.
                    Expr::Function(function) => {
                        let name = function.name.to_string().to_ascii_lowercase();
                        self.strange |= !["abs", "upper", "lower", "length"].contains(&&*name)
                            && native(function).is_none();
                    }
                    Expr::Value(value) => {
                        self.strange |= matches!(value.value, Literal::Placeholder(_))
                    }
                    Expr::Nested(_) | Expr::UnaryOp { .. } => {}
                    Expr::BinaryOp { op, .. } => {
                        use BinaryOperator as Op;
                        self.strange |=
                            !matches!(op, Op::Plus | Op::Minus | Op::Multiply | Op::Divide);
                    }
                    _ => self.strange = true,
                }
                ControlFlow::Continue(())
            }
        }
        let mut names = Names { columns: self.columns, strange: false, unsure: false };
        let _ = expr.clone().visit(&mut names);
        if names.unsure { Err(Unsure) } else { Ok(!names.strange) }
    }

    /// A column for an aggregate that engines compute.
    fn sent(&mut self, sql: String) -> String {
        let known = self.partial.aggregates.iter().position(|known| *known == sql);
        aggregate(known.unwrap_or_else(|| {
            self.partial.aggregates.push(sql);
            self.partial.aggregates.len() - 1
        }))
    }

    /// The replacement for an aggregate. `None` if it stays unchanged.
    fn replaced(&mut self, name: &str, function: &Function) -> Result<Option<String>, Unsure> {
        let FunctionArguments::List(list) = &function.args else { return Err(Unsure) };
        let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
        let arguments = arguments(function).ok_or(Unsure)?;
        // Sums of anything but integers are exact here, and noise that an engine's sum of reals has
        // is removed. A product with a count is exact, too.
        let (name, sum, times) = match name {
            "plinth_sum" => ("sum", "plinth_sum", true),
            "plinth_avg" => ("avg", "plinth_sum", true),
            "total" => ("total", "total", false),
            name => (name, "sum", false),
        };
        let counted = |argument: &Expr| {
            if times {
                format!("plinth_times({argument}, {COUNT})")
            } else {
                format!("(({argument}) * {COUNT})")
            }
        };
        let argument = match (name, &arguments[..]) {
            ("count", []) => {
                self.found += 1;
                return Ok(Some(format!("coalesce(sum({COUNT}), 0)")));
            }
            ("min" | "max", [_, _, ..]) => return Ok(None),
            (_, [argument]) => *argument,
            _ => return Err(Unsure),
        };
        self.found += 1;
        // All distinct values are among the rows.
        if distinct {
            return Ok(None);
        }
        // The engines' query has no qualifiers for columns.
        let bare = bare(argument);
        if self.belongs(argument)? {
            return Ok(Some(match name {
                "count" => format!("coalesce(sum({}), 0)", self.sent(format!("count({bare})"))),
                "avg" => {
                    let (of, count) =
                        (self.sent(format!("sum({bare})")), self.sent(format!("count({bare})")));
                    format!("plinth_over({sum}({of}), sum({count}))")
                }
                // `total` of partial sums, of which one may be NULL.
                "total" => format!("total({})", self.sent(format!("total({bare})"))),
                "sum" => format!("{sum}({})", self.sent(format!("sum({bare})"))),
                _ => format!("{name}({})", self.sent(format!("{name}({bare})"))),
            }));
        }
        Ok(match name {
            "count" => Some(format!(
                "coalesce(sum(CASE WHEN ({argument}) IS NOT NULL THEN {COUNT} END), 0)"
            )),
            "sum" | "total" => Some(format!("{sum}({})", counted(argument))),
            "avg" => Some(format!(
                "plinth_over({sum}({}), sum(CASE WHEN ({argument}) IS NOT NULL THEN {COUNT} END))",
                counted(argument)
            )),
            // `min` and `max` do not change if a value occurs more than once.
            _ => None,
        })
    }
}

/// Arithmetic of decimals as engines compute it, with reals: a product, or a division by a number
/// that is not zero.
fn native(function: &Function) -> Option<Expr> {
    let arguments = arguments(function)?;
    let [a, b] = &arguments[..] else { return None };
    let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    let product = |a: Box<Expr>, b: Box<Expr>, op| Expr::BinaryOp { left: a, op, right: b };
    match &*function.name.to_string().to_ascii_lowercase() {
        "plinth_times" => {
            Some(Expr::Nested(Box::new(product(nested(a), nested(b), BinaryOperator::Multiply))))
        }
        "plinth_over" => {
            let Expr::Value(value) = b else { return None };
            let Literal::Number(digits, _) = &value.value else { return None };
            digits.parse().ok().filter(|number: &f64| *number != 0.0)?;
            let one = Expr::Value(Literal::Number("1.0".to_owned(), false).into());
            let real = product(nested(a), Box::new(one), BinaryOperator::Multiply);
            let over = product(Box::new(real), nested(b), BinaryOperator::Divide);
            Some(Expr::Nested(Box::new(over)))
        }
        _ => None,
    }
}

/// Whether an expression has a column of partial results.
fn is_partial(expr: &Expr) -> bool {
    struct Looks(bool);
    impl VisitorMut for Looks {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            self.0 |= matches!(expr, Expr::Identifier(name) if is_column(&name.value));
            ControlFlow::Continue(())
        }
    }
    let mut looks = Looks(false);
    let _ = expr.clone().visit(&mut looks);
    looks.0
}

/// Whether a name is that of a column of partial results.
fn is_column(name: &str) -> bool {
    let number = name.strip_prefix(MARK);
    name == COUNT || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// An expression without the qualifiers of its columns.
fn bare(expr: &Expr) -> String {
    struct Bare;
    impl VisitorMut for Bare {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr
                && let Some(name) = parts.last()
            {
                *expr = Expr::Identifier(Ident::new(name.value.to_ascii_lowercase()));
            }
            if let Expr::Function(function) = expr
                && let Some(native) = native(function)
            {
                *expr = native;
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = expr.visit(&mut Bare);
    expr.to_string()
}

impl VisitorMut for Split<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) if is_column(&name.value) => {}
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => match self.columns.whose(expr) {
                Ok(Whose::Ours(column, _)) => {
                    self.partial.columns.insert(column);
                }
                Ok(Whose::Others) => {}
                Err(Unsure) => return ControlFlow::Break(()),
            },
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                return ControlFlow::Break(());
            }
            Expr::Function(function) => {
                let name = function.name.to_string().to_ascii_lowercase();
                let plain = function.over.is_none()
                    && function.filter.is_none()
                    && function.within_group.is_empty();
                if !plain || WHOLE.contains(&&*name) {
                    return ControlFlow::Break(());
                }
                if !AGGREGATES.contains(&&*name) || is_partial(&Expr::Function(function.clone())) {
                    return ControlFlow::Continue(());
                }
                match self.replaced(&name, function) {
                    Ok(None) => {}
                    Ok(Some(sql)) => {
                        let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(&sql);
                        match parsed.and_then(|mut parser| parser.parse_expr()) {
                            Ok(parsed) => *expr = parsed,
                            Err(_) => return ControlFlow::Break(()),
                        }
                    }
                    Err(Unsure) => return ControlFlow::Break(()),
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
