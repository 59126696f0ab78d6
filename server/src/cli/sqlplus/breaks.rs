//! BREAK and COMPUTE: where groups of rows end in a report, and the sums that are printed there.
//!
//! BREAK names columns from the outermost to the innermost, and ROW and REPORT. A group ends where
//! the value of its column, or of one further out, changes; then the actions are taken from the
//! innermost break to that one: first the lines of COMPUTE, then the blank lines of SKIP. A new
//! BREAK replaces the one before; COMPUTEs add up.

use super::{
    numbers::Number,
    refusal::{Refusal, wrong},
    words::{Word, Words},
};
use plinth_engine::admin::Value;
use std::cmp::Ordering;

/// The subject of a break or a sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum On {
    Column(String),
    Row,
    Report,
}

impl On {
    fn of(word: &Word) -> Self {
        if word.is("ROW", 3) {
            Self::Row
        } else if word.is("REPORT", 6) {
            Self::Report
        } else {
            Self::Column(word.text.to_uppercase())
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Column(name) => name,
            Self::Row => "row",
            Self::Report => "report",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skip {
    Lines(usize),
    Page,
}

/// One `ON` of BREAK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Break {
    pub on: On,
    pub skip: Skip,
    /// Repeated values are printed.
    pub duplicates: bool,
}

/// The functions of COMPUTE, in the order in which their lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Function {
    Avg,
    Count,
    Minimum,
    Maximum,
    Number,
    Sum,
    Std,
    Variance,
}

/// Function, its name as a label, letters of its shortest abbreviation.
const FUNCTIONS: [(Function, &str, usize); 8] = [
    (Function::Avg, "avg", 3),
    (Function::Count, "count", 3),
    (Function::Minimum, "minimum", 3),
    (Function::Maximum, "maximum", 3),
    (Function::Number, "number", 3),
    (Function::Sum, "sum", 3),
    (Function::Std, "std", 3),
    (Function::Variance, "variance", 3),
];

/// One function of one column at one break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compute {
    pub function: Function,
    pub label: String,
    pub of: String,
    pub on: On,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Breaks {
    pub breaks: Vec<Break>,
    pub computes: Vec<Compute>,
}

/// The most blank lines of one SKIP.
const SKIP_MAX: usize = 9999;

impl Breaks {
    /// Carries out BREAK; returns what it prints.
    ///
    /// # Errors
    /// If a clause is wrong; the breaks stay as they were.
    pub(super) fn break_on(&mut self, rest: &str) -> Result<String, Refusal> {
        let mut words = Words::new(rest);
        let mut breaks: Vec<Break> = Vec::new();
        while let Some(word) = words.option()? {
            if word.is("ON", 2) {
                let on = words.option()?.ok_or_else(|| wrong("BREAK ON has no column"))?;
                let skip = Skip::Lines(0);
                breaks.push(Break { on: On::of(&on), skip, duplicates: false });
                continue;
            }
            let Some(last) = breaks.last_mut() else {
                return Err(wrong(format!("BREAK begins with ON, not with {}", word.text)));
            };
            if word.is("SKIP", 3) && words.take("PAGE", 3) || word.is("PAGE", 3) {
                last.skip = Skip::Page;
            } else if word.is("SKIP", 3) {
                let ahead = words.clone().option()?;
                let is_number =
                    ahead.is_some_and(|word| word.text.chars().all(|char| char.is_ascii_digit()));
                let lines = if is_number { words.number("skip")? } else { 1 };
                last.skip = Skip::Lines(lines.min(SKIP_MAX));
            } else if word.is("NODUPLICATES", 5) {
                last.duplicates = false;
            } else if word.is("DUPLICATES", 3) {
                last.duplicates = true;
            } else {
                return Err(wrong(format!("unknown BREAK option \"{}\"", word.text)));
            }
        }
        if breaks.is_empty() {
            return Ok(self.list_breaks());
        }
        self.breaks = breaks;
        Ok(String::new())
    }

    /// Carries out COMPUTE; returns what it prints.
    ///
    /// # Errors
    /// If a clause is wrong; nothing is computed then.
    pub(super) fn compute(&mut self, rest: &str) -> Result<String, Refusal> {
        let mut words = Words::new(rest);
        let mut functions: Vec<(Function, String)> = Vec::new();
        let (mut of, mut on) = (Vec::new(), Vec::new());
        while let Some(word) = words.option()? {
            if word.is("OF", 2) {
                of = names(&mut words, &["ON"])?;
            } else if word.is("ON", 2) {
                on = names(&mut words, &["OF"])?.iter().map(On::of).collect();
            } else if word.is("LABEL", 3) {
                let label = words.value()?.ok_or_else(|| wrong("COMPUTE ... LABEL has no text"))?;
                let Some((_, last)) = functions.last_mut() else {
                    return Err(wrong("COMPUTE ... LABEL stands behind a function"));
                };
                *last = label.text;
            } else {
                let found =
                    FUNCTIONS.iter().find(|(_, name, least)| word.is(&name.to_uppercase(), *least));
                let Some((function, name, _)) = found else {
                    let text = format!("COMPUTE has no function \"{}\"", word.text);
                    return Err(wrong(text).hint("AVG COUNT MIN MAX NUM SUM STD VAR"));
                };
                functions.push((*function, (*name).to_owned()));
            }
        }
        if functions.is_empty() && of.is_empty() && on.is_empty() {
            return Ok(self.list_computes());
        }
        if functions.is_empty() || of.is_empty() || on.is_empty() {
            return Err(wrong("COMPUTE needs a function, OF columns and ON a break")
                .hint("COMPUTE SUM OF total_mb ON REPORT"));
        }
        for on in &on {
            for of in of.iter().map(|word| word.text.to_uppercase()) {
                for (function, label) in &functions {
                    self.add(Compute {
                        function: *function,
                        label: label.clone(),
                        of: of.clone(),
                        on: on.clone(),
                    });
                }
            }
        }
        Ok(String::new())
    }

    fn add(&mut self, new: Compute) {
        let same =
            |old: &Compute| old.function == new.function && old.of == new.of && old.on == new.on;
        self.computes.retain(|old| !same(old));
        self.computes.push(new);
    }

    fn list_breaks(&self) -> String {
        let line = |one: &Break| {
            let skip = match one.skip {
                Skip::Page => " page".to_owned(),
                Skip::Lines(0) => String::new(),
                Skip::Lines(lines) => format!(" skip {lines}"),
            };
            let duplicates = if one.duplicates { "dup" } else { "nodup" };
            format!("break on {}{skip} {duplicates}\n", one.on.text())
        };
        match &self.breaks[..] {
            [] => "no break(s) defined\n".to_owned(),
            breaks => breaks.iter().map(line).collect(),
        }
    }

    fn list_computes(&self) -> String {
        let line = |one: &Compute| {
            let name = FUNCTIONS.iter().find(|(function, ..)| *function == one.function);
            let name = name.map_or("", |(_, name, _)| *name);
            format!("COMPUTE {name} LABEL '{}' OF {} ON {}\n", one.label, one.of, one.on.text())
        };
        match &self.computes[..] {
            [] => "no computes currently defined\n".to_owned(),
            computes => computes.iter().map(line).collect(),
        }
    }
}

/// Names up to one of the keywords; commas may stand between them.
fn names(words: &mut Words<'_>, until: &[&str]) -> Result<Vec<Word>, Refusal> {
    let mut found = Vec::new();
    loop {
        let ahead = words.clone().option()?;
        let Some(word) = ahead.filter(|word| !until.iter().any(|end| word.is(end, end.len())))
        else {
            return Ok(found);
        };
        words.option()?;
        if word.quoted || word.text.contains('(') {
            found.push(word);
        } else {
            let parts = word.text.split(',').filter(|part| !part.is_empty());
            found.extend(parts.map(|part| Word { text: part.to_owned(), quoted: false }));
        }
    }
}

/// The values of one column since its group began.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    rows: i128,
    values: i128,
    sum: Option<Number>,
    squares: f64,
    least: Option<Value>,
    most: Option<Value>,
}

impl Group {
    pub(super) fn add(&mut self, value: &Value) {
        self.rows += 1;
        if *value == Value::Null {
            return;
        }
        self.values += 1;
        if let Some(number) = Number::of(value) {
            self.sum = Some(self.sum.map_or(number, |sum| sum.plus(number)));
            self.squares += number.real() * number.real();
        }
        let replaces = |held: &Option<Value>, wanted: Ordering| match held {
            None => true,
            Some(held) => order(value, held) == wanted,
        };
        if replaces(&self.least, Ordering::Less) {
            self.least = Some(value.clone());
        }
        if replaces(&self.most, Ordering::Greater) {
            self.most = Some(value.clone());
        }
    }

    /// The value of a function over the group; NULL where it has none.
    pub(super) fn value(&self, function: Function) -> Value {
        let number = |number: Number| match number {
            Number::Integer(whole) => {
                i64::try_from(whole).map_or(Value::Real(whole as f64), Value::Integer)
            }
            Number::Real(real) => Value::Real(real),
        };
        let count = self.values as f64;
        match function {
            Function::Count => number(Number::Integer(self.values)),
            Function::Number => number(Number::Integer(self.rows)),
            Function::Sum => self.sum.map_or(Value::Null, number),
            Function::Minimum => self.least.clone().unwrap_or(Value::Null),
            Function::Maximum => self.most.clone().unwrap_or(Value::Null),
            Function::Avg => self.sum.map_or(Value::Null, |sum| Value::Real(sum.real() / count)),
            Function::Variance => self.variance().map_or(Value::Null, Value::Real),
            Function::Std => self.variance().map_or(Value::Null, |one| Value::Real(one.sqrt())),
        }
    }

    /// The variance of a sample; 0 for a single value, as Oracle has it.
    fn variance(&self) -> Option<f64> {
        let sum = self.sum?.real();
        let count = self.values as f64;
        if self.values < 2 {
            return Some(0.0);
        }
        Some(((self.squares - sum * sum / count) / (count - 1.0)).max(0.0))
    }
}

fn order(one: &Value, other: &Value) -> Ordering {
    match (Number::of(one), Number::of(other)) {
        (Some(Number::Integer(one)), Some(Number::Integer(other))) => one.cmp(&other),
        (Some(one), Some(other)) => one.real().total_cmp(&other.real()),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => match (one, other) {
            (Value::Text(one), Value::Text(other)) => one.cmp(other),
            _ => Ordering::Equal,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_and_computes_are_read() {
        let mut breaks = Breaks::default();
        breaks
            .break_on("ON report ON a SKIP 1 ON b SKIP PAGE DUP ON c SKI NODUP ON ROW")
            .expect("breaks");
        let of = |on: On, skip, duplicates| Break { on, skip, duplicates };
        let column = |name: &str| On::Column(name.to_owned());
        assert_eq!(
            breaks.breaks,
            [
                of(On::Report, Skip::Lines(0), false),
                of(column("A"), Skip::Lines(1), false),
                of(column("B"), Skip::Page, true),
                of(column("C"), Skip::Lines(1), false),
                of(On::Row, Skip::Lines(0), false),
            ]
        );
        breaks.compute("sum LABEL \"Grand total: \" avg OF x,y z ON report a").expect("computes");
        assert_eq!(breaks.computes.len(), 12);
        breaks.compute("sum LABEL t OF x ON report").expect("computes");
        assert_eq!(breaks.computes.len(), 12);
        assert_eq!(breaks.computes.last().map(|last| last.label.as_str()), Some("t"));
        breaks.break_on("on a").expect("breaks");
        assert_eq!(breaks.break_on("").expect("listed"), "break on A nodup\n");
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let mut breaks = Breaks::default();
        for line in ["a", "ON", "ON a FOO"] {
            assert!(breaks.break_on(line).is_err(), "{line}");
        }
        for line in ["foo OF a ON b", "sum OF a", "sum ON b", "OF a ON b", "LABEL x OF a ON b"] {
            assert!(breaks.compute(line).is_err(), "{line}");
        }
        assert!(breaks.breaks.is_empty() && breaks.computes.is_empty());
    }

    #[test]
    fn a_group_has_every_function() {
        let mut group = Group::default();
        for value in [Value::Integer(2), Value::Null, Value::Integer(4), Value::Real(4.5)] {
            group.add(&value);
        }
        assert_eq!(group.value(Function::Sum), Value::Real(10.5));
        assert_eq!(group.value(Function::Avg), Value::Real(3.5));
        assert_eq!(group.value(Function::Count), Value::Integer(3));
        assert_eq!(group.value(Function::Number), Value::Integer(4));
        assert_eq!(group.value(Function::Minimum), Value::Integer(2));
        assert_eq!(group.value(Function::Maximum), Value::Real(4.5));
        assert_eq!(group.value(Function::Variance), Value::Real(1.75));
        let empty = Group::default();
        assert_eq!(
            (empty.value(Function::Sum), empty.value(Function::Count)),
            (Value::Null, Value::Integer(0))
        );
    }
}
