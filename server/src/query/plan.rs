//! The parts of a statement that engines carry out themselves.
//!
//! Fetching a million rows only to count them takes seconds; an engine counts them in an index in a
//! few hundredths of a second. So, for a SELECT that names a view of the engines once among its
//! tables:
//!
//! - conditions on that view alone go to the engines (*filter*);
//! - if it groups, counts or sums, engines group by the view's columns that the SELECT mentions
//! - if it groups, counts or sums, engines group by the view's columns that the SELECT mentions
//!   outside its aggregates, and send for each such group its number of rows and its aggregates
//!   (*partial*); the SELECT combines these: `count(*)` becomes the sum of the counts, and so on;
//! - if it only lists rows, and all its conditions went to the engines, its order and limit go
//!   there, too.
//!
//! The statement is parsed with `sqlparser` after
//! [`pg_compat::rewrite`](super::super::pg_compat::rewrite). A statement that `sqlparser` cannot
//! parse, or for which this file cannot prove the plan right, runs unplanned: everything that it
//! reads is fetched. A plan never changes a result, except for the order of rows of a statement
//! without ORDER BY.
//!
//! A filter consists of expressions that SQLite evaluates alike in both places: columns, literals
//! and parameters of the same type, compared with the usual operators.

mod columns;
mod partial;

use super::{
    fetch::{OURS, origins_of, relation},
    fetched::Origin,
    views::{self, GROUP, Type, View},
};
use columns::{Columns, Scope, Unsure};
use partial::{Partial, aggregate, partial};
use plinth_engine::admin::Value;
use sqlparser::{
    ast::{
        BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, LimitClause, ObjectName,
        OrderBy, Query, Select, SetExpr, Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
    },
    dialect::PostgreSqlDialect,
    parser::Parser,
};
use std::{collections::BTreeSet, ops::ControlFlow};

/// The prefix of names of tables and columns that this file adds.
const MARK: &str = "plinth_";
/// The number of rows that a row of partial results stands for.
const COUNT: &str = "plinth_n";

/// Functions that a plan calls and the statement may not name.
pub(super) const FUNCTIONS: [&str; 3] = ["plinth_over", "plinth_sum", "plinth_times"];

/// A statement, without the parts that engines do.
pub(super) struct Plan {
    pub sql: String,
    pub tables: Vec<Planned>,
}

/// A table that stands for a view in a planned statement.
pub(super) struct Planned {
    /// In lower case.
    pub name: String,
    view: &'static View,
    /// Rows of this group only.
    group: Option<i64>,
    filter: Vec<String>,
    partial: Option<Partial>,
    /// `ORDER BY ... LIMIT n`
    first: Option<String>,
}

impl Planned {
    /// The table's columns.
    pub(super) fn columns(&self) -> Vec<(String, Option<Type>)> {
        let of_view = |name: &&str| self.view.columns.iter().find(|(column, _)| column == name);
        let owned = |(name, kind): &(&str, Type)| ((*name).to_owned(), Some(*kind));
        match &self.partial {
            None => self.view.columns.iter().map(owned).collect(),
            Some(partial) => {
                let plain = partial.columns.iter().filter_map(of_view).map(owned);
                let ours = std::iter::once((COUNT.to_owned(), Some(Type::Integer)));
                // Without a type: aggregates of text are text.
                let sums = (0..partial.aggregates.len()).map(|at| (aggregate(at), None));
                plain.chain(ours).chain(sums).collect()
            }
        }
    }

    /// Whether rows of this group are needed.
    pub(super) fn concerns(&self, group: u32) -> bool {
        self.group.is_none_or(|only| only == i64::from(group))
    }

    /// The query for each engine, the number of values in its rows, and the origins of the table's
    /// columns in them.
    pub(super) fn ask(&self, wanted: &BTreeSet<String>) -> (String, usize, Vec<Origin>) {
        let is_asked = |name: &str| !GROUP.contains(&name) && !OURS.contains(&name);
        let mut sent: Vec<&str> = match &self.partial {
            Some(partial) => {
                partial.columns.iter().copied().filter(|name| is_asked(name)).collect()
            }
            None => wanted.iter().map(String::as_str).filter(|name| is_asked(name)).collect(),
        };
        let plain = sent.len();
        let mut columns: Vec<String> = sent.iter().map(|name| (*name).to_owned()).collect();
        let ours: Vec<String>;
        let mut rest = String::new();
        if let Some(partial) = &self.partial {
            columns.push("count(*)".to_owned());
            columns.extend(partial.aggregates.iter().cloned());
            ours = std::iter::once(COUNT.to_owned())
                .chain((0..partial.aggregates.len()).map(aggregate))
                .collect();
            sent.extend(ours.iter().map(String::as_str));
            // Otherwise an engine without such rows would send one row, for an empty group.
            rest = if plain == 0 {
                " HAVING count(*) > 0".to_owned()
            } else {
                format!(" GROUP BY {}", columns.get(..plain).unwrap_or_default().join(", "))
            };
        } else if let Some(first) = &self.first {
            rest = format!(" {first}");
        }
        if columns.is_empty() {
            columns.push("NULL".to_owned());
        }
        let filter = if self.filter.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", self.filter.join(" AND "))
        };
        let names = self.columns();
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        let columns_asked = columns.join(", ");
        let from = relation(self.view, &format!("{columns_asked}{filter}{rest}"));
        let sql = format!("SELECT {columns_asked} FROM {from}{filter}{rest}");
        (sql, columns.len(), origins_of(&names, &sent))
    }
}

/// The plan for a statement; `None` if engines can do nothing for it. `parameters` are `$1`, `$2`
/// ...
pub(super) fn plan(sql: &str, parameters: &[Value]) -> Option<Plan> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok()?;
    let (Some(Statement::Query(mut query)), true) = (statements.pop(), statements.is_empty())
    else {
        return None;
    };
    let mut planner = Planner { parameters, hidden: BTreeSet::new(), tables: Vec::new() };
    let _ = VisitMut::visit(&mut query, &mut Hidden(&mut planner.hidden));
    let _ = VisitMut::visit(&mut query, &mut planner);
    (!planner.tables.is_empty()).then(|| Plan { sql: query.to_string(), tables: planner.tables })
}

/// Collects the names that common table expressions define.
struct Hidden<'a>(&'a mut BTreeSet<String>);

impl VisitorMut for Hidden<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(tables.map(|table| table.alias.name.value.to_ascii_lowercase()));
        ControlFlow::Continue(())
    }
}

struct Planner<'a> {
    parameters: &'a [Value],
    hidden: BTreeSet<String>,
    tables: Vec<Planned>,
}

impl VisitorMut for Planner<'_> {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let alone = query.fetch.is_none() && query.locks.is_empty();
        let Query { body, order_by, limit_clause, .. } = query;
        match &mut **body {
            SetExpr::Select(select) if alone => {
                self.select(select, order_by.as_mut(), limit_clause.as_ref())
            }
            body => self.branches(body),
        }
        ControlFlow::Continue(())
    }
}

impl Planner<'_> {
    fn branches(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.select(select, None, None),
            SetExpr::SetOperation { left, right, .. } => {
                self.branches(left);
                self.branches(right);
            }
            _ => {}
        }
    }

    /// The view that a name in a FROM refers to, if its rows come from engines only.
    fn view(&self, name: &ObjectName) -> Option<&'static View> {
        let [part] = &name.0[..] else { return None };
        let name = part.as_ident()?.value.to_ascii_lowercase();
        let view = views::of_relation(&name)?;
        (!self.hidden.contains(&name)).then_some(view)
    }

    fn select(
        &mut self,
        select: &mut Select,
        mut order_by: Option<&mut OrderBy>,
        limit: Option<&LimitClause>,
    ) {
        let Some((scope, mut candidates)) = self.scope(select) else { return };
        // Partial results come from one view, the one that can be largest; filters go to all.
        candidates.sort_by_key(|(_, view)| std::cmp::Reverse(view.columns.len()));
        let mut tables = Vec::new();
        for (at, (qualifier, view)) in candidates.iter().enumerate() {
            let columns = Columns { scope: &scope, qualifier, view };
            let (mut planned, stay, all_went) =
                self.filtered(select, &columns, self.tables.len() + at + 1);
            if at == 0 {
                let before = (select.clone(), order_by.as_deref().cloned());
                select.selection = stay;
                match partial(select, order_by.as_deref_mut(), &columns) {
                    Ok(partial) => planned.partial = Some(partial),
                    Err(Unsure) => {
                        *select = before.0;
                        if let (Some(order_by), Some(before)) = (order_by.as_deref_mut(), before.1)
                        {
                            *order_by = before;
                        }
                    }
                }
            }
            if all_went && scope.len() == 1 && planned.partial.is_none() {
                planned.first = columns.first(select, order_by.as_deref(), limit, self.parameters);
            }
            tables.push((qualifier, planned));
        }
        for (qualifier, planned) in tables {
            let Planned { group, filter, partial, first, .. } = &planned;
            let gains =
                group.is_some() || !filter.is_empty() || partial.is_some() || first.is_some();
            if gains && rename(select, qualifier, &planned.name) {
                self.tables.push(planned);
            }
        }
    }

    /// A table for a view with the conditions that engines can evaluate; the rest of WHERE; and
    /// whether all conditions went to the engines.
    fn filtered(
        &self,
        select: &Select,
        columns: &Columns<'_>,
        number: usize,
    ) -> (Planned, Option<Expr>, bool) {
        let (view, name) = (columns.view, format!("{MARK}{number}"));
        let mut planned =
            Planned { name, view, group: None, filter: Vec::new(), partial: None, first: None };
        let mut conditions = Vec::new();
        conjuncts(select.selection.as_ref(), &mut conditions);
        let of_where = conditions.len();
        for join in select.from.iter().flat_map(|from| &from.joins) {
            if let JoinOperator::Join(JoinConstraint::On(on))
            | JoinOperator::Inner(JoinConstraint::On(on)) = &join.join_operator
            {
                conjuncts(Some(on), &mut conditions);
            }
        }
        let (mut stay, mut all_went) = (None, true);
        for (at, condition) in conditions.into_iter().enumerate() {
            if let Some(group) = columns.only_group(condition, self.parameters) {
                // Two different groups: no group has such rows, and the statement itself returns
                // none.
                planned.group = planned.group.or(Some(group));
            } else if let Some((sql, _)) = columns.typed(condition, self.parameters) {
                planned.filter.push(sql);
                continue;
            } else {
                all_went = false;
            }
            if at < of_where {
                let condition = Expr::Nested(Box::new(condition.clone()));
                stay = Some(match stay {
                    None => condition,
                    Some(left) => Expr::BinaryOp {
                        left: Box::new(left),
                        op: BinaryOperator::And,
                        right: Box::new(condition),
                    },
                });
            }
        }
        (planned, stay, all_went)
    }

    /// The tables of a SELECT, and the views among them for which engines could do something.
    fn scope(&self, select: &Select) -> Option<(Scope, Vec<(String, &'static View)>)> {
        let mut scope = Scope::new();
        let mut candidates = Vec::new();
        let mut add = |factor: &TableFactor, may: bool| -> Option<()> {
            let (qualifier, view) = match factor {
                TableFactor::Table { name, alias, args: None, .. } => {
                    let own = name.0.last()?.as_ident()?;
                    if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                        return None;
                    }
                    (alias.as_ref().map_or(own, |alias| &alias.name), self.view(name))
                }
                TableFactor::Derived { alias: Some(alias), lateral: false, .. } => {
                    (&alias.name, None)
                }
                _ => return None,
            };
            let qualifier = qualifier.value.to_ascii_lowercase();
            if let (Some(view), true) = (view, may)
                && !view.has_twin
                && !view.is_of_instance
            {
                candidates.push((qualifier.clone(), view));
            }
            scope.insert(qualifier, view).is_none().then_some(())
        };
        for from in &select.from {
            // The first table of an outer join keeps its rows; rows of the following ones may be
            // NULLs that the join adds.
            let inner = |join: &sqlparser::ast::Join| {
                matches!(
                    join.join_operator,
                    JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
                )
            };
            let left = |join: &sqlparser::ast::Join| {
                matches!(join.join_operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_))
            };
            if !from.joins.iter().all(|join| inner(join) || left(join)) {
                return None;
            }
            add(&from.relation, true)?;
            for join in &from.joins {
                add(&join.relation, from.joins.iter().all(inner))?;
            }
        }
        Some((scope, candidates))
    }
}

/// The terms of a condition that is joined by AND.
fn conjuncts<'a>(condition: Option<&'a Expr>, found: &mut Vec<&'a Expr>) {
    match condition {
        Some(Expr::BinaryOp { left, op: BinaryOperator::And, right }) => {
            conjuncts(Some(left), found);
            conjuncts(Some(right), found);
        }
        Some(Expr::Nested(inner)) => conjuncts(Some(inner), found),
        Some(other) => found.push(other),
        None => {}
    }
}

/// Gives the table with this qualifier another table's name, and keeps the qualifier as its alias.
fn rename(select: &mut Select, qualifier: &str, to: &str) -> bool {
    let factors = select.from.iter_mut().flat_map(|from| {
        std::iter::once(&mut from.relation)
            .chain(from.joins.iter_mut().map(|join| &mut join.relation))
    });
    for factor in factors {
        let TableFactor::Table { name, alias, .. } = factor else { continue };
        let Some(own) = name.0.last().and_then(|part| part.as_ident()).cloned() else { continue };
        let called = alias.as_ref().map_or(&own, |alias| &alias.name);
        if called.value.eq_ignore_ascii_case(qualifier) {
            if alias.is_none() {
                *alias =
                    Some(TableAlias { explicit: true, name: own, columns: Vec::new(), at: None });
            }
            *name = ObjectName::from(vec![Ident::new(to)]);
            return true;
        }
    }
    false
}
