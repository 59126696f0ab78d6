//! `nls_date_format` and `nls_timestamp_format`: how a session writes times, and reads them, where
//! its statements do not say it.
//!
//! Times are texts of one form everywhere inside (`YYYY-MM-DD HH:MI:SS`), and are compared as such.
//! A session that has set a format gets its times in that format, as texts, and what it writes is
//! read by that format:
//!
//! ```text
//!   result          a column of times            written by the format
//!   time to text    t || 'x', t LIKE 'x', upper(t), TO_CHAR(t)     plinth_shown(t)
//!   text to time    t > '01-JAN-26', TO_DATE('01-JAN-26')          plinth_read('01-JAN-26')
//! ```
//!
//! [`Formats::spelled_out`] writes these conversions into a query, before it is translated. It
//! knows the type of an operand from the text alone: columns of the views that hold times, names
//! that the query gives to times, functions that return times. Without a format nothing is written
//! into a query.

use super::{
    functions::Time,
    infer_types,
    pg_compat::{Edits, Rewritten, WORDS_MAX, operands},
    settings::{DATE_FORMAT, Settings, TIMESTAMP_FORMAT},
    views::Type,
};
use crate::{
    query::Table,
    sql::{
        Query,
        tokens::{Kind, Token},
    },
    sql_error::SqlError,
};
use plinth_engine::admin::Value;
use rusqlite::{Connection, Error, functions::FunctionFlags};
use std::collections::BTreeSet;

/// The formats that a session has set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Formats {
    /// Of times to the second.
    date: Option<String>,
    /// Of times with a fraction.
    timestamp: Option<String>,
}

/// Functions of texts: an argument that is a time is written as a text first.
const OF_TEXTS: [&str; 28] = [
    "concat",
    "concat_ws",
    "initcap",
    "instr",
    "left",
    "length",
    "lower",
    "lpad",
    "ltrim",
    "regexp_count",
    "regexp_like",
    "regexp_replace",
    "regexp_substr",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "strpos",
    "substr",
    "substring",
    "to_char",
    "translate",
    "trim",
    "upper",
    "listagg",
    "string_agg",
];
const COMPARISONS: [&str; 8] = ["=", "<", ">", "<=", ">=", "<>", "!=", "=="];

impl Formats {
    /// The formats among a session's settings. The form that times have anyway is none.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let set = |name: &str, default: &str| {
            settings.get(name).filter(|format| *format != default).map(ToOwned::to_owned)
        };
        let [(date, as_date), (timestamp, as_timestamp)] = [DATE_FORMAT, TIMESTAMP_FORMAT];
        Self { date: set(date, as_date), timestamp: set(timestamp, as_timestamp) }
    }

    #[must_use]
    pub fn are_set(&self) -> bool {
        self.date.is_some() || self.timestamp.is_some()
    }

    /// The format of a time with this text.
    fn of_text(&self, text: &str) -> Option<&String> {
        if text.contains('.') { self.timestamp.as_ref() } else { self.date.as_ref() }
    }

    /// A text as the session shows it, if it is a time.
    fn shown(&self, text: &str) -> Option<String> {
        let format = self.of_text(text)?;
        Time::parse(text)?.written(format).ok()
    }

    /// The time that the session means by a text.
    fn read(&self, text: &str) -> Result<Time, String> {
        let formats = [&self.date, &self.timestamp].into_iter().flatten();
        let mut why = None;
        for format in formats {
            match Time::read(text, format) {
                Ok(time) => return Ok(time),
                Err(error) => why = why.or(Some(error)),
            }
        }
        // A session that has set only the other format writes times as they are.
        let iso = self.date.is_none().then(|| Time::parse(text)).flatten();
        iso.ok_or_else(|| why.unwrap_or_else(|| format!("'{text}' is no time")))
    }

    /// The type with which a column is described to this session's client.
    #[must_use]
    pub fn kind(&self, kind: Type) -> Type {
        if kind == Type::Time && self.are_set() { Type::Text } else { kind }
    }

    /// The times of a result, as the session shows them.
    #[must_use]
    pub fn table(&self, mut table: Table) -> Table {
        for (at, column) in table.columns.iter_mut().enumerate() {
            if column.kind == self.kind(column.kind) {
                continue;
            }
            column.kind = Type::Text;
            for value in table.rows.iter_mut().filter_map(|row| row.get_mut(at)) {
                if let Value::Text(text) = value
                    && let Some(shown) = self.shown(text)
                {
                    *text = shown;
                }
            }
        }
        table
    }

    /// A query with its conversions written out; `None`: there are none.
    ///
    /// # Errors
    /// If the new text cannot be tokenised.
    pub(super) fn spelled_out(
        &self,
        query: &Query,
    ) -> Result<Option<(Query, Rewritten)>, SqlError> {
        if !self.are_set() || query.tokens.len() > WORDS_MAX {
            return Ok(None);
        }
        let edits = Spelling::of(&query.tokens).edits;
        if edits.is_empty() {
            return Ok(None);
        }
        let rewritten = edits.all(&query.text);
        Ok(Some((Query::new(&rewritten.sql)?, rewritten)))
    }

    /// The functions that the conversions call, and `TO_DATE` with one argument.
    pub(super) fn create_functions(&self, connection: &Connection) -> rusqlite::Result<()> {
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        let formats = self.clone();
        connection.create_scalar_function("plinth_shown", 1, flags, move |context| {
            let value = context.get::<rusqlite::types::Value>(0)?;
            Ok(match &value {
                rusqlite::types::Value::Text(text) => {
                    formats.shown(text).map_or(value, rusqlite::types::Value::Text)
                }
                _ => value,
            })
        })?;
        let formats = self.clone();
        connection.create_scalar_function("plinth_read", 1, flags, move |context| {
            let Some(text) = context.get::<Option<String>>(0)? else { return Ok(None) };
            let time =
                formats.read(&text).map_err(|error| Error::UserFunctionError(error.into()))?;
            Ok(Some(time.text()))
        })
    }
}

/// Functions whose arguments are of one type: a string beside a time is read.
const OF_ONE_TYPE: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];
/// Functions of times: a string is read.
const OF_TIMES: [&str; 3] = ["add_months", "last_day", "months_between"];

/// A query whose conversions are written out.
struct Spelling<'a> {
    tokens: &'a [Token],
    /// Names that the query itself gives to times, in lower case.
    times: BTreeSet<String>,
    edits: Edits,
}

/// Tokens of an operand: the first, and the one after the last.
type Part = (usize, usize);

impl<'a> Spelling<'a> {
    fn of(tokens: &'a [Token]) -> Self {
        let mut spelling = Self { tokens, times: BTreeSet::new(), edits: Edits::default() };
        // Inner queries come later in the text than the outer ones that use their names.
        for select in
            (0..tokens.len()).rev().filter(|at| tokens.get(*at).is_some_and(|t| t.is("SELECT")))
        {
            spelling.name_times(select);
        }
        (0..tokens.len()).for_each(|at| spelling.convert(at));
        spelling
    }

    /// The names of times in a list of columns: `mount_date AS m`, `sysdate now`.
    fn name_times(&mut self, select: usize) {
        let mut end = select + 1;
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(end) {
            depth += usize::from(token.is_symbol("("));
            if depth == 0 && (token.is("FROM") || token.is_symbol(")")) {
                break;
            }
            depth -= usize::from(token.is_symbol(")"));
            end += 1;
        }
        let mut from = select + 1;
        let list = self.tokens.get(from..end).unwrap_or_default();
        for item in operands::split(list, |token| token.is_symbol(",")) {
            let to = from + item.len();
            if let [.., before, last] = item
                && let Kind::Word(name) | Kind::Quoted(name) = &last.kind
                && !before.is_symbol(".")
                && self.is_time((from, to - 1 - usize::from(before.is("AS"))))
            {
                self.times.insert(name.to_lowercase());
            }
            from = to + 1;
        }
    }

    fn token(&self, at: usize) -> Option<&'a Token> {
        self.tokens.get(at)
    }

    fn is_symbol(&self, at: usize, symbol: &str) -> bool {
        self.token(at).is_some_and(|token| token.is_symbol(symbol))
    }

    fn wrap(&mut self, (from, to): Part, function: &str) {
        if let (Some(first), Some(last)) =
            (self.token(from), to.checked_sub(1).and_then(|last| self.token(last)))
        {
            self.edits.insert(first.start, format!("{function}("));
            self.edits.replace(last.end, last.end, ")");
        }
    }

    fn is_time(&self, (from, to): Part) -> bool {
        let part = self.tokens.get(from..to).unwrap_or_default();
        if let [Token { kind: Kind::Word(name) | Kind::Quoted(name), .. }]
        | [_, _, Token { kind: Kind::Word(name) | Kind::Quoted(name), .. }] = part
            && (part.len() == 1 || self.is_symbol(from + 1, "."))
            && self.times.contains(&name.to_lowercase())
        {
            return true;
        }
        infer_types::of(part) == Some(Type::Time)
    }

    fn is_string(&self, (from, to): Part) -> bool {
        to == from + 1 && matches!(self.token(from).map(|token| &token.kind), Some(Kind::String(_)))
    }

    fn is_operator(&self, at: usize) -> bool {
        ["+", "-", "*", "/"].iter().any(|symbol| self.is_symbol(at, symbol))
    }

    /// The sum that ends before a token, which may be `NOT`.
    fn before(&self, at: usize) -> Option<Part> {
        let is_not = at.checked_sub(1).filter(|not| self.token(*not).is_some_and(|t| t.is("NOT")));
        let end = is_not.unwrap_or(at);
        let mut start = operands::start(self.tokens, end)?;
        while let Some(operator) = start.checked_sub(1).filter(|at| self.is_operator(*at))
            && let Some(earlier) = operands::start(self.tokens, operator)
        {
            start = earlier;
        }
        Some((start, end))
    }

    /// The sum that begins at a token.
    fn after(&self, at: usize) -> Part {
        let mut end = operands::end(self.tokens, at);
        while self.is_operator(end) {
            end = operands::end(self.tokens, end + 1);
        }
        (at, end.min(self.tokens.len()))
    }

    /// Writes out the conversions of the operator or call at a token.
    fn convert(&mut self, at: usize) {
        let Some(token) = self.token(at) else { return };
        match &token.kind {
            Kind::Symbol(symbol) if symbol == "||" => self.joined(at),
            Kind::Symbol(symbol) if COMPARISONS.contains(&symbol.as_str()) => {
                if let Some(left) = self.before(at) {
                    self.compared(left, self.after(at + 1));
                }
            }
            Kind::Word(word) => match word.to_ascii_lowercase().as_str() {
                "between" => self.between(at),
                "in" if self.is_symbol(at + 1, "(") => self.listed(at),
                "like" | "ilike" => {
                    if let Some(part) = self.before(at).filter(|part| self.is_time(*part)) {
                        self.wrap(part, "plinth_shown");
                    }
                }
                name if self.is_symbol(at + 1, "(") => self.call(at, name),
                _ => {}
            },
            _ => {}
        }
    }

    /// `a || b`: in a chain the operand between two operators is the right one of the first.
    fn joined(&mut self, at: usize) {
        let left = operands::start(self.tokens, at).map(|start| (start, at));
        let is_first = |(from, _): &Part| {
            !from.checked_sub(1).is_some_and(|before| self.is_symbol(before, "||"))
        };
        let right = (at + 1, operands::end(self.tokens, at + 1));
        for part in left.filter(is_first).into_iter().chain([right]) {
            if self.is_time(part) {
                self.wrap(part, "plinth_shown");
            }
        }
    }

    /// A time that is compared with a string: the string is read.
    fn compared(&mut self, left: Part, right: Part) {
        for (time, string) in [(left, right), (right, left)] {
            if self.is_string(string) && self.is_time(time) {
                self.wrap(string, "plinth_read");
            }
        }
    }

    fn between(&mut self, at: usize) {
        let Some(left) = self.before(at) else { return };
        let low = self.after(at + 1);
        self.compared(left, low);
        if self.token(low.1).is_some_and(|and| and.is("AND")) {
            self.compared(left, self.after(low.1 + 1));
        }
    }

    fn listed(&mut self, at: usize) {
        let Some(left) = self.before(at) else { return };
        for one in self.arguments(at + 1).into_iter().flatten() {
            self.compared(left, one);
        }
    }

    /// The arguments in the parentheses that open at a token.
    fn arguments(&self, open: usize) -> Option<Vec<Part>> {
        let close = operands::closing(self.tokens, open)?;
        let mut from = open + 1;
        let inside = self.tokens.get(from..close)?;
        let part = |argument: &[Token]| {
            let part = (from, from + argument.len());
            from = part.1 + 1;
            part
        };
        Some(operands::split(inside, |t| t.is_symbol(",")).into_iter().map(part).collect())
    }

    /// `CAST('07/03/2026' AS DATE)`, `CAST(sysdate AS VARCHAR2(20))`
    fn cast(&mut self, argument: Option<Part>) {
        let Some((from, to)) = argument else { return };
        let Some(word) = (from..to).rev().find(|at| self.token(*at).is_some_and(|t| t.is("AS")))
        else {
            return;
        };
        let is = |names: &[&str]| {
            self.token(word + 1).is_some_and(|name| names.iter().any(|known| name.is(known)))
        };
        if is(&["DATE", "TIMESTAMP"]) && self.is_string((from, word)) {
            self.wrap((from, word), "plinth_read");
        } else if is(&["VARCHAR2", "VARCHAR", "CHAR", "TEXT"]) && self.is_time((from, word)) {
            self.wrap((from, word), "plinth_shown");
        }
    }

    fn call(&mut self, at: usize, name: &str) {
        let Some(arguments) = self.arguments(at + 1) else { return };
        let first_is_time = arguments.first().is_some_and(|first| self.is_time(*first));
        let reads: Vec<Part> = match name {
            "to_date" | "to_timestamp" if arguments.len() == 1 => arguments,
            // The values that are looked for, and no results.
            "decode" if first_is_time => {
                let pairs = arguments.get(1..).unwrap_or_default().chunks_exact(2);
                pairs.filter_map(|pair| pair.first().copied()).collect()
            }
            name if OF_ONE_TYPE.contains(&name) && first_is_time => arguments,
            name if OF_TIMES.contains(&name) => arguments,
            "next_day" => arguments.into_iter().take(1).collect(),
            "cast" => return self.cast(arguments.first().copied()),
            // TO_CHAR with a format writes the time by that.
            name if OF_TEXTS.contains(&name) && (name != "to_char" || arguments.len() == 1) => {
                for part in arguments {
                    if self.is_time(part) {
                        self.wrap(part, "plinth_shown");
                    }
                }
                return;
            }
            _ => return,
        };
        for part in reads {
            if self.is_string(part) {
                self.wrap(part, "plinth_read");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats(date: &str) -> Formats {
        Formats { date: Some(date.to_owned()), timestamp: None }
    }

    #[test]
    fn conversions_are_written_into_a_query() {
        for (text, expected) in [
            (
                "select 1 from x where mount_date > '01-JAN-26'",
                "select 1 from x where mount_date > plinth_read('01-JAN-26')",
            ),
            (
                "select cast('01-JAN-26' as date), cast(mount_date as varchar2(9)), cast(1 as number), next_day('01-JAN-26', 'FRI') from x",
                "select cast(plinth_read('01-JAN-26') as date), cast(plinth_shown(mount_date) as varchar2(9)), cast(1 as number), next_day(plinth_read('01-JAN-26'), 'FRI') from x",
            ),
            (
                "select 1 where '01-JAN-26' <= trunc(d.create_date) and name = 'x'",
                "select 1 where plinth_read('01-JAN-26') <= trunc(d.create_date) and name = 'x'",
            ),
            (
                "select 1 where sysdate not between '01-JAN-26' and '02-JAN-26'",
                "select 1 where sysdate not between plinth_read('01-JAN-26') and plinth_read('02-JAN-26')",
            ),
            (
                "select 1 where mount_date in ('01-JAN-26', sysdate)",
                "select 1 where mount_date in (plinth_read('01-JAN-26'), sysdate)",
            ),
            (
                "select name || mount_date || create_date || 'x'",
                "select name || plinth_shown(mount_date) || plinth_shown(create_date) || 'x'",
            ),
            ("select mount_date || name", "select plinth_shown(mount_date) || name"),
            (
                "select substr(mount_date, 1, 9), upper(name), to_char(sysdate), to_char(sysdate, 'YY')",
                "select substr(plinth_shown(mount_date), 1, 9), upper(name), to_char(plinth_shown(sysdate)), to_char(sysdate, 'YY')",
            ),
            (
                "select 1 where mount_date not like '%JAN%' and to_date('01-JAN-26') < sysdate",
                "select 1 where plinth_shown(mount_date) not like '%JAN%' and to_date(plinth_read('01-JAN-26')) < sysdate",
            ),
            (
                "select 1 where sysdate - 7 > '01-JAN-26' or '01-JAN-26' < mount_date + 1/24",
                "select 1 where sysdate - 7 > plinth_read('01-JAN-26') or plinth_read('01-JAN-26') < mount_date + 1/24",
            ),
            (
                "select m from (select mount_date m, name AS n from x) q where q.m > '01-JAN-26' and n > 'x'",
                "select m from (select mount_date m, name AS n from x) q where q.m > plinth_read('01-JAN-26') and n > 'x'",
            ),
            (
                "select nvl(mount_date, '01-JAN-26'), decode(mount_date, '01-JAN-26', 'x', 'y'), last_day('01-JAN-26')",
                "select nvl(mount_date, plinth_read('01-JAN-26')), decode(mount_date, plinth_read('01-JAN-26'), 'x', 'y'), last_day(plinth_read('01-JAN-26'))",
            ),
            (
                "select 1 where mount_date in (date '2026-01-01', '02-JAN-26')",
                "select 1 where mount_date in (date '2026-01-01', plinth_read('02-JAN-26'))",
            ),
        ] {
            let query = Query::new(text).expect(text);
            let spelled = formats("DD-MON-YY").spelled_out(&query).expect(text);
            assert_eq!(spelled.expect("conversions").0.text, expected);
            assert_eq!(Formats::default().spelled_out(&query).expect(text), None, "{text}");
        }
        let plain = Query::new("select mount_date, max(create_date) from x where name = 'y'");
        assert_eq!(formats("YY").spelled_out(&plain.expect("a query")).expect("none"), None);
    }

    #[test]
    fn times_are_shown_and_read_by_the_format_that_fits_them() {
        let both = Formats {
            date: Some("DD-MON-RR".to_owned()),
            timestamp: Some("DD-MON-RR HH24:MI:SS.FF3".to_owned()),
        };
        assert_eq!(both.shown("2026-03-07 15:04:09").as_deref(), Some("07-MAR-26"));
        assert_eq!(both.shown("2026-03-07 15:04:09.25").as_deref(), Some("07-MAR-26 15:04:09.250"));
        assert_eq!(both.shown("soon"), None);
        let read = |formats: &Formats, text: &str| formats.read(text).map(Time::text);
        assert_eq!(read(&both, "07-MAR-26").as_deref(), Ok("2026-03-07 00:00:00"));
        assert_eq!(read(&both, "07-MAR-26 15:04:09.25").as_deref(), Ok("2026-03-07 15:04:09.25"));
        assert!(read(&both, "2026-03-07").is_err());
        // An ambiguous text is read by the session's format.
        let days_first = formats("YYYY-DD-MM");
        assert_eq!(read(&days_first, "2026-03-07").as_deref(), Ok("2026-07-03 00:00:00"));
        assert!(read(&formats("YYYY"), "2026-03-07").is_err());
    }

    #[test]
    fn the_times_of_a_result_become_texts() {
        use crate::query::Column;
        let table = Table {
            columns: vec![
                Column { name: "t".to_owned(), kind: Type::Time },
                Column { name: "n".to_owned(), kind: Type::Text },
            ],
            rows: vec![
                vec![Value::Text("2026-03-07 15:04:09".into()), Value::Text("2026-03-07".into())],
                vec![Value::Null, Value::Null],
            ],
        };
        assert_eq!(Formats::default().table(table.clone()), table);
        let shown = formats("DD.MM.YYYY").table(table);
        assert_eq!(shown.columns[0].kind, Type::Text);
        assert_eq!(
            shown.rows,
            [
                vec![Value::Text("07.03.2026".into()), Value::Text("2026-03-07".into())],
                vec![Value::Null, Value::Null],
            ]
        );
    }
}
