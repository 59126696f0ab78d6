//! The columns of the view that a SELECT is planned for, and expressions over them that engines
//! evaluate as SQLite does here.

use crate::query::{
    fetch::OURS,
    views::{COMPOUND, GROUP, Type, View},
};
use crate::text::quoted;
use plinth_engine::admin::Value;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    LimitClause, OrderBy, OrderByKind, OrderBySort, Select, SelectItem, UnaryOperator,
    Value as Literal, VisitMut, VisitorMut,
};
use std::{collections::BTreeMap, ops::ControlFlow};

/// A SELECT's tables by their qualifiers; `None` if the columns of a table are not known.
pub(super) type Scope = BTreeMap<String, Option<&'static View>>;

/// The table that a column in an expression belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Ours(&'static str, Type),
    Others,
}

/// The SELECT cannot be planned safely.
pub(super) struct Unsure;

/// The class of a literal, a column or an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Number,
    Text,
    /// A boolean.
    Condition,
    Null,
}

/// The columns of the view that the plan is for.
pub(super) struct Columns<'a> {
    pub scope: &'a Scope,
    pub qualifier: &'a str,
    pub view: &'static View,
}

impl Columns<'_> {
    /// Which table a column belongs to.
    pub(super) fn whose(&self, expr: &Expr) -> Result<Whose, Unsure> {
        let of_view = |view: &'static View, name: &str| {
            view.columns.iter().find(|(column, _)| *column == name)
        };
        match expr {
            Expr::Identifier(name) => {
                let name = name.value.to_ascii_lowercase();
                let Some((column, kind)) = of_view(self.view, &name) else {
                    return Ok(Whose::Others);
                };
                let others =
                    self.scope.iter().filter(|(qualifier, _)| *qualifier != self.qualifier);
                for (_, view) in others {
                    if view.is_none_or(|view| of_view(view, &name).is_some()) {
                        return Err(Unsure);
                    }
                }
                Ok(Whose::Ours(column, *kind))
            }
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [qualifier, name] if qualifier.value.eq_ignore_ascii_case(self.qualifier) => {
                    let found =
                        of_view(self.view, &name.value.to_ascii_lowercase()).ok_or(Unsure)?;
                    Ok(Whose::Ours(found.0, found.1))
                }
                [_, _] => Ok(Whose::Others),
                _ => Err(Unsure),
            },
            _ => Ok(Whose::Others),
        }
    }

    /// The group to which a condition restricts the rows.
    pub(super) fn only_group(&self, condition: &Expr, parameters: &[Value]) -> Option<i64> {
        let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return None };
        for (column, value) in [(left, right), (right, left)] {
            if let Ok(Whose::Ours(name, _)) = self.whose(column)
                && GROUP.contains(&name)
            {
                return literal(value, parameters)?.0.parse().ok();
            }
        }
        None
    }

    /// An expression over the view's columns in SQL for the engines, and its class. `None` if
    /// engines might evaluate it differently.
    pub(super) fn typed(&self, expr: &Expr, parameters: &[Value]) -> Option<(String, Class)> {
        if let Some(literal) = literal(expr, parameters) {
            return Some(literal);
        }
        let of = |expr: &Expr| self.typed(expr, parameters);
        let not = |negated: bool| if negated { "NOT " } else { "" };
        match expr {
            Expr::Nested(inner) => of(inner).map(|(sql, class)| (format!("({sql})"), class)),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.own_column(expr),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                let (sql, class) = of(expr)?;
                (class == Class::Condition).then(|| (format!("(NOT ({sql}))"), class))
            }
            Expr::BinaryOp { left, op, right } => operation(of(left)?, op, of(right)?),
            Expr::IsNull(expr) => {
                of(expr).map(|(sql, _)| (format!("({sql} IS NULL)"), Class::Condition))
            }
            Expr::IsNotNull(expr) => {
                of(expr).map(|(sql, _)| (format!("({sql} IS NOT NULL)"), Class::Condition))
            }
            Expr::InList { expr, list, negated } => {
                let (sql, class) = of(expr)?;
                let list: Option<Vec<String>> = list
                    .iter()
                    .map(|one| of(one).filter(|(_, each)| *each == class).map(|(sql, _)| sql))
                    .collect();
                Some((
                    format!("({sql} {}IN ({}))", not(*negated), list?.join(", ")),
                    Class::Condition,
                ))
            }
            Expr::Between { expr, negated, low, high } => {
                let ((sql, class), (low, low_class), (high, high_class)) =
                    (of(expr)?, of(low)?, of(high)?);
                let alike = class == low_class && class == high_class && class != Class::Condition;
                alike.then(|| {
                    (format!("({sql} {}BETWEEN {low} AND {high})", not(*negated)), Class::Condition)
                })
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                let ((sql, class), (pattern, pattern_class)) = (of(expr)?, of(pattern)?);
                let texts = class == Class::Text && pattern_class == Class::Text;
                // LIKE is case sensitive here; in the engines' SQLite only GLOB is.
                let pattern = texts.then(|| as_glob(&pattern)).flatten()?;
                Some((format!("({sql} {}GLOB {pattern})", not(*negated)), Class::Condition))
            }
            Expr::Function(function) => self.call(function, parameters),
            _ => None,
        }
    }

    /// A column of the view itself that engines store as it is shown.
    fn own_column(&self, expr: &Expr) -> Option<(String, Class)> {
        match self.whose(expr).ok()? {
            Whose::Ours(name, kind)
                if !GROUP.contains(&name) && !COMPOUND.contains(&name) && !OURS.contains(&name) =>
            {
                let class = match kind {
                    Type::Integer | Type::Real | Type::Truth => Class::Number,
                    Type::Text | Type::Time | Type::Letter => Class::Text,
                };
                Some((name.to_owned(), class))
            }
            _ => None,
        }
    }

    fn call(&self, function: &Function, parameters: &[Value]) -> Option<(String, Class)> {
        let name = function.name.to_string().to_ascii_lowercase();
        let [argument] = &arguments(function)?[..] else { return None };
        let (sql, class) = self.typed(argument, parameters)?;
        let plain = function.over.is_none() && function.filter.is_none();
        let class = match &*name {
            "upper" | "lower" if class == Class::Text && plain => Class::Text,
            "length" if class == Class::Text && plain => Class::Number,
            "abs" if class == Class::Number && plain => Class::Number,
            _ => return None,
        };
        Some((format!("{name}({sql})"), class))
    }

    /// `ORDER BY ... LIMIT n` of a SELECT without aggregates.
    pub(super) fn first(
        &self,
        select: &Select,
        order_by: Option<&OrderBy>,
        limit: Option<&LimitClause>,
        parameters: &[Value],
    ) -> Option<String> {
        let grouped =
            !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
        if grouped || select.distinct.is_some() || select.having.is_some() {
            return None;
        }
        let Some(LimitClause::LimitOffset { limit: Some(limit), offset, limit_by }) = limit else {
            return None;
        };
        let count = |expr: &Expr| literal(expr, parameters)?.0.parse::<u64>().ok();
        let skipped = match offset {
            Some(offset) => count(&offset.value)?,
            None => 0,
        };
        let limit = format!("LIMIT {}", count(limit)?.checked_add(skipped)?);
        let mut aliases = BTreeMap::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => is_scalar(expr).then_some(())?,
                SelectItem::ExprWithAlias { expr, alias } => {
                    is_scalar(expr).then_some(())?;
                    aliases.insert(alias.value.to_ascii_lowercase(), expr);
                }
                SelectItem::Wildcard(_) => {}
                _ => return None,
            }
        }
        if !limit_by.is_empty() {
            return None;
        }
        let Some(order_by) = order_by else { return Some(limit) };
        let OrderByKind::Expressions(keys) = &order_by.kind else { return None };
        let mut order = Vec::new();
        for key in keys {
            // The name may also be that of a result's column, which takes precedence.
            let key_expr = match &key.expr {
                Expr::Identifier(name) => {
                    aliases.get(&name.value.to_ascii_lowercase()).copied().unwrap_or(&key.expr)
                }
                other => other,
            };
            let (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) = key_expr else {
                return None;
            };
            let (name, _) = self.typed(key_expr, parameters)?;
            let descends = match key.options.sort {
                None | Some(OrderBySort::Asc) => false,
                Some(OrderBySort::Desc) => true,
                Some(OrderBySort::Using(_)) => return None,
            };
            let nulls = match key.options.nulls_first {
                None => "",
                Some(true) => " NULLS FIRST",
                Some(false) => " NULLS LAST",
            };
            order.push(format!("{name}{}{nulls}", if descends { " DESC" } else { "" }));
        }
        Some(format!("ORDER BY {} {limit}", order.join(", ")))
    }
}

/// Whether an expression is certainly no aggregate, and depends on its row alone.
pub(super) fn is_scalar(expr: &Expr) -> bool {
    struct Looks(bool);
    impl VisitorMut for Looks {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let scalar = match expr {
                Expr::Function(function) => {
                    let name = function.name.to_string().to_ascii_lowercase();
                    let one = arguments(function).is_some_and(|arguments| arguments.len() == 1);
                    let aggregate = WHOLE.contains(&&*name)
                        || ["count", "sum", "avg", "total", "plinth_sum", "plinth_avg"]
                            .contains(&&*name)
                        || (["min", "max"].contains(&&*name) && one);
                    function.over.is_none() && !aggregate
                }
                Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => false,
                _ => true,
            };
            if scalar {
                return ControlFlow::Continue(());
            }
            self.0 = false;
            ControlFlow::Break(())
        }
    }
    let mut looks = Looks(true);
    let _ = VisitMut::visit(&mut expr.clone(), &mut looks);
    looks.0
}

/// A literal pattern of LIKE as a pattern of GLOB; `None` if it has an escape.
fn as_glob(literal: &str) -> Option<String> {
    if !literal.starts_with('\'') || literal.contains('\\') {
        return None;
    }
    let mut glob = String::with_capacity(literal.len() + 8);
    for character in literal.chars() {
        match character {
            '%' => glob.push('*'),
            '_' => glob.push('?'),
            '*' | '?' | '[' => glob.extend(['[', character, ']']),
            other => glob.push(other),
        }
    }
    Some(glob)
}

/// A literal, or a parameter's value, as text.
pub(super) fn literal(expr: &Expr, parameters: &[Value]) -> Option<(String, Class)> {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let (number, class) = literal(expr, parameters)?;
            (class == Class::Number && !number.starts_with('-'))
                .then(|| (format!("-{number}"), class))
        }
        Expr::Value(value) => match &value.value {
            Literal::Number(number, false) => number
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| (number.clone(), Class::Number)),
            Literal::SingleQuotedString(text) if !text.contains('\0') => {
                Some((quoted(text), Class::Text))
            }
            Literal::Null => Some(("NULL".to_owned(), Class::Null)),
            Literal::Placeholder(name) => {
                let at: usize = name.trim_start_matches(['$', '?']).parse().ok()?;
                match parameters.get(at.checked_sub(1)?)? {
                    Value::Integer(number) if *number >= 0 => {
                        Some((number.to_string(), Class::Number))
                    }
                    Value::Text(text) if !text.contains('\0') => Some((quoted(text), Class::Text)),
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    }
}

/// The arguments of a plain call; none for `*`.
pub(super) fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    if !list.clauses.is_empty() {
        return None;
    }
    let mut found = Vec::new();
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => found.push(expr),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if list.args.len() == 1 => {}
            _ => return None,
        }
    }
    Some(found)
}

/// Aggregates that cannot be computed from partial counts and sums.
pub(super) const WHOLE: [&str; 20] = [
    "group_concat",
    "string_agg",
    "listagg",
    "wm_concat",
    "array_agg",
    "json_agg",
    "jsonb_agg",
    "json_group_array",
    "json_group_object",
    "jsonb_group_array",
    "jsonb_group_object",
    "median",
    "percentile",
    "percentile_cont",
    "percentile_disc",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "variance",
    "corr",
];

/// An operator with two operands of the same class.
fn operation(
    (a, a_class): (String, Class),
    op: &BinaryOperator,
    (b, b_class): (String, Class),
) -> Option<(String, Class)> {
    use BinaryOperator as Op;
    if a_class != b_class || a_class == Class::Null {
        return None;
    }
    let class = match op {
        Op::And | Op::Or if a_class == Class::Condition => Class::Condition,
        Op::Plus | Op::Minus | Op::Multiply if a_class == Class::Number => Class::Number,
        Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq
            if a_class != Class::Condition =>
        {
            Class::Condition
        }
        _ => return None,
    };
    Some((format!("({a} {op} {b})"), class))
}
