//! The figures of a measurement, and the arithmetic: medians, and ratios of subjects measured side
//! by side.
//!
//! A line is `case subject round rate cpu latency`, separated by tabs; `-` stands for a figure that
//! was not measured.
//!
//! Rounds of one number ran one after the other, within seconds. Other load of the machine strikes
//! them alike, so a ratio is the median of the rounds' own ratios, not the ratio of two medians.

use std::{collections::BTreeMap, fmt};

/// One round of one subject.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// I/Os, or transactions, per second.
    pub rate: f64,
    /// Microseconds of processor time for each.
    pub cpu: Option<f64>,
    /// Microseconds each took.
    pub latency: Option<f64>,
}

/// The median of some rounds, and the ends of their range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Some(Self { low, median, high })
    }
}

/// A number of a round.
pub type Of = fn(&Round) -> Option<f64>;

/// All lines of a measurement.
#[derive(Debug, Default)]
pub struct Figures {
    /// In the order in which they came.
    cases: Vec<String>,
    rounds: BTreeMap<(String, String), BTreeMap<u32, Round>>,
}

impl Figures {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut figures = Self::default();
        for (number, line) in text.lines().enumerate() {
            figures.line(line).map_err(|error| format!("line {}: {error}: {line}", number + 1))?;
        }
        Ok(figures)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split('\t').collect();
        let [case, subject, round, rate, cpu, latency] = words[..] else {
            return Err("not six words with tabs between them".to_owned());
        };
        let number = |word: &str| match word.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(format!("{word} is no measurement")),
        };
        let maybe = |word: &str| if word == "-" { Ok(None) } else { number(word).map(Some) };
        let round = round.parse().map_err(|error| format!("round {round}: {error}"))?;
        let measured = Round { rate: number(rate)?, cpu: maybe(cpu)?, latency: maybe(latency)? };
        if !self.cases.iter().any(|known| known == case) {
            self.cases.push(case.to_owned());
        }
        let rounds = self.rounds.entry((case.to_owned(), subject.to_owned())).or_default();
        match rounds.insert(round, measured) {
            None => Ok(()),
            Some(_) => Err("the same round again".to_owned()),
        }
    }

    pub fn cases(&self) -> &[String] {
        &self.cases
    }

    pub fn rounds(&self, case: &str, subject: &str) -> Option<&BTreeMap<u32, Round>> {
        self.rounds.get(&(case.to_owned(), subject.to_owned()))
    }

    pub fn median(&self, case: &str, subject: &str, of: Of) -> Option<f64> {
        let values = self.rounds(case, subject)?.values().filter_map(of);
        Spread::of(values).map(|spread| spread.median)
    }

    /// Round by round, one figure made of two; of the rounds that both have.
    pub fn pairs(
        &self,
        one: (&str, &str),
        other: (&str, &str),
        of: Of,
        make: fn(f64, f64) -> f64,
    ) -> Option<Spread> {
        let (one, other) = (self.rounds(one.0, one.1)?, self.rounds(other.0, other.1)?);
        Spread::of(
            one.iter()
                .filter_map(|(round, measured)| Some(make(of(measured)?, of(other.get(round)?)?))),
        )
    }

    /// How many times as fast one is as another.
    pub fn ratio(&self, one: (&str, &str), other: (&str, &str)) -> Option<Spread> {
        self.pairs(one, other, |round| Some(round.rate), |one, other| one / other)
    }

    /// The fastest of some subjects, by their medians.
    pub fn best<'a>(&self, case: &str, subjects: &[&'a str]) -> Option<&'a str> {
        let rate = |subject: &str| self.median(case, subject, |round| Some(round.rate));
        let measured = subjects.iter().filter_map(|&subject| Some((subject, rate(subject)?)));
        measured.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(subject, _)| subject)
    }
}

/// The load of a case: `KIND:BYTES:DEPTH`, or `KIND:BYTES:DEPTH:JOBS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    pub kind: String,
    pub block: u64,
    pub depth: u64,
    pub jobs: u64,
}

impl Load {
    /// None for a load that is not of blocks, such as a transaction.
    pub fn parse(case: &str) -> Option<Self> {
        let words: Vec<&str> = case.split(':').collect();
        let (kind, block, depth, jobs) = match words[..] {
            [kind, block, depth] => (kind, block, depth, "1"),
            [kind, block, depth, jobs] => (kind, block, depth, jobs),
            _ => return None,
        };
        let [block, depth, jobs] = [block, depth, jobs].map(|word| word.parse().ok());
        Some(Self { kind: kind.to_owned(), block: block?, depth: depth?, jobs: jobs? })
    }

    /// Large blocks are shown in MiB per second.
    pub fn in_mib(&self) -> bool {
        self.block >= 1 << 20
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind.as_str() {
            "randread" => "random reads",
            "randwrite" => "random writes",
            "read" => "sequential reads",
            "write" => "sequential writes",
            "sync" => "log writes, each flushed",
            "dsync" => "log writes with O_DSYNC",
            other => other,
        };
        match self.block {
            block if block % (1 << 20) == 0 => write!(f, "{} MiB {kind}", block >> 20)?,
            block if block % 1024 == 0 => write!(f, "{} KiB {kind}", block >> 10)?,
            block => write!(f, "{block} byte {kind}")?,
        }
        match (self.depth, self.jobs) {
            (1, 1) => write!(f, ", one at a time"),
            (depth, 1) => write!(f, ", {depth} at a time"),
            (1, jobs) => write!(f, ", {jobs} jobs"),
            (depth, jobs) => write!(f, ", {jobs} jobs, {depth} at a time each"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(lines: &[&str]) -> Figures {
        Figures::parse(&lines.join("\n").replace(' ', "\t")).expect("what the script writes")
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { low: 1.0, median: 2.0, high: 3.0 }));
        assert_eq!(
            Spread::of([4.0, 1.0, 2.0, 3.0]),
            Some(Spread { low: 1.0, median: 2.5, high: 4.0 })
        );
        assert_eq!(Spread::of([]), None);
    }

    /// The machine is half as fast in the second round, for both. The ratio of the medians would
    /// say 1.5 or 0.75.
    #[test]
    fn a_ratio_compares_what_ran_in_the_same_round() {
        let figures = figures(&[
            "c a 1 200 - -",
            "c b 1 100 - -",
            "c b 2 50 - -",
            "c a 2 100 - -",
            "c a 3 150 - -",
        ]);
        let ratio = figures.ratio(("c", "a"), ("c", "b")).expect("two rounds in common");
        assert_eq!(ratio, Spread { low: 2.0, median: 2.0, high: 2.0 });
        assert_eq!(figures.median("c", "a", |round| Some(round.rate)), Some(150.0));
        assert_eq!(figures.ratio(("c", "a"), ("c", "nobody")), None);
    }

    #[test]
    fn the_better_peer_is_the_one_with_the_higher_median() {
        let figures = figures(&[
            "c a 1 900 - -",
            "c a 2 10 - -",
            "c a 3 10 - -",
            "c b 1 20 - -",
            "c b 2 20 - -",
            "c b 3 20 - -",
        ]);
        assert_eq!(figures.best("c", &["a", "b", "nobody"]), Some("b"));
        assert_eq!(figures.best("c", &["nobody"]), None);
    }

    #[test]
    fn missing_figures_are_not_zeros() {
        let figures = figures(&["c a 1 100 - 5", "c a 2 100 3 -"]);
        assert_eq!(figures.median("c", "a", |round| round.cpu), Some(3.0));
        assert_eq!(figures.median("c", "a", |round| round.latency), Some(5.0));
        assert_eq!(figures.median("d", "a", |round| round.cpu), None);
    }

    #[test]
    fn an_invalid_line_is_named() {
        for (line, named) in [
            ("c a 1 100 -", "six words"),
            ("c a one 100 - -", "round one"),
            ("c a 1 fast - -", "fast is no measurement"),
            ("c a 1 NaN - -", "NaN is no measurement"),
            ("c a 1 -1 - -", "-1 is no measurement"),
        ] {
            let error = Figures::parse(&line.replace(' ', "\t")).expect_err(line);
            assert!(error.starts_with("line 1: ") && error.contains(named), "{error}");
        }
        assert!(
            Figures::parse("c\ta\t1\t1\t-\t-\nc\ta\t1\t2\t-\t-")
                .expect_err("twice")
                .contains("line 2")
        );
    }

    #[test]
    fn cases_are_told_in_words() {
        let told = |case: &str| Load::parse(case).expect(case).to_string();
        assert_eq!(told("randread:8192:32"), "8 KiB random reads, 32 at a time");
        assert_eq!(told("randread:8192:1:8"), "8 KiB random reads, 8 jobs");
        assert_eq!(told("write:1048576:4"), "1 MiB sequential writes, 4 at a time");
        assert_eq!(told("sync:2048:1"), "2 KiB log writes, each flushed, one at a time");
        assert_eq!(told("dsync:2048:1"), "2 KiB log writes with O_DSYNC, one at a time");
        assert_eq!(Load::parse("tpcb"), None);
        assert_eq!(Load::parse("randread:8k:1"), None);
    }
}
