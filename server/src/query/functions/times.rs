//! Times as in the views, `YYYY-MM-DD HH:MI:SS`, and Oracle's format models for them.

use super::{
    decimals::{Operator, computed},
    numbers::Number,
};
use std::fmt::Write;

/// A point in time, to the microsecond, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Days since 0000-03-01, in the Gregorian calendar.
    days: i64,
    /// Microseconds of the day.
    micros: i64,
}

pub const DAY: i64 = 86_400_000_000;
/// The first day of year 1, and the last day of year 9999.
const FIRST_DAY: i64 = 306;
const LAST_DAY: i64 = 3_652_364;
/// From 0000-03-01 to 1970-01-01.
const UNIX: i64 = 719_468;
/// From 0000-03-01 to 2000-01-01.
const EPOCH: i64 = 730_425;
/// From Julian day 0 to 0000-03-01.
const JULIAN: i64 = 1_721_120;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Time {
    /// Midnight of a day; `None` if the day does not exist.
    #[must_use]
    pub fn of(year: i64, month: i64, day: i64) -> Option<Self> {
        if !(1..=9999).contains(&year)
            || !(1..=12).contains(&month)
            || !(1..=days_of(year, month)).contains(&day)
        {
            return None;
        }
        // Years begin in March: the leap day is their last.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        Some(Self { days: days + (153 * month + 2) / 5 + day - 1, micros: 0 })
    }

    #[must_use]
    pub fn now() -> Self {
        Self::of_unix(crate::alert::now())
    }

    /// The time of a number of nanoseconds since 1970.
    #[must_use]
    pub fn of_unix(nanos: i64) -> Self {
        let micros = nanos.div_euclid(1000);
        Self { days: micros.div_euclid(DAY) + UNIX, micros: micros.rem_euclid(DAY) }
    }

    #[must_use]
    pub fn plus(self, micros: i64) -> Option<Self> {
        let total = self.micros.checked_add(micros)?;
        let days = self.days.checked_add(total.div_euclid(DAY))?;
        (FIRST_DAY..=LAST_DAY)
            .contains(&days)
            .then_some(Self { days, micros: total.rem_euclid(DAY) })
    }

    /// `days` later.
    #[must_use]
    pub fn plus_days(self, days: f64) -> Option<Self> {
        let micros = days * DAY as f64;
        (micros.abs() < 9e18).then(|| self.plus(micros.round() as i64)).flatten()
    }

    /// A part of the time, as EXTRACT names it.
    #[must_use]
    pub fn field(self, field: &str) -> Option<Number> {
        let (year, month, day) = self.date();
        let second = self.micros / 1_000_000;
        Some(Number::Whole(match field.to_ascii_uppercase().as_str() {
            "YEAR" => year,
            "QUARTER" => (month + 2) / 3,
            "MONTH" => month,
            "WEEK" => self.iso_week(),
            "DAY" => day,
            "DOY" => self.days - Self::of(year, 1, 1)?.days + 1,
            "DOW" => self.weekday(),
            "HOUR" => second / 3600,
            "MINUTE" => second / 60 % 60,
            "TIMEZONE_HOUR" | "TIMEZONE_MINUTE" => 0,
            "SECOND" => {
                let micros = Number::Whole(self.micros % 60_000_000);
                return computed(micros, Operator::Over, Number::Whole(1_000_000)).ok();
            }
            "EPOCH" => {
                let micros = Number::Whole((self.days - UNIX) * DAY + self.micros);
                return computed(micros, Operator::Over, Number::Whole(1_000_000)).ok();
            }
            _ => return None,
        }))
    }

    /// The months between two times, as Oracle counts them: in thirty-firsts of a month, and in
    /// microseconds of a day. Between equal days of a month, and between last days, there are whole
    /// months.
    #[must_use]
    pub fn days31_since(self, other: Self) -> i64 {
        let ((year, month, day), (year_2, month_2, day_2)) = (self.date(), other.date());
        let months = (year - year_2) * 12 + month - month_2;
        let are_last = day == days_of(year, month) && day_2 == days_of(year_2, month_2);
        let whole = months * 31 * DAY;
        if day == day_2 || are_last {
            return whole;
        }
        whole + (day - day_2) * DAY + self.micros - other.micros
    }

    /// Microseconds between two times.
    #[must_use]
    pub fn micros_since(self, other: Self) -> i64 {
        (self.days - other.days) * DAY + self.micros - other.micros
    }

    #[must_use]
    pub fn has_fraction(self) -> bool {
        self.micros % 1_000_000 != 0
    }

    /// The second in which the time is, as a DATE has it.
    #[must_use]
    pub fn in_second(self) -> Self {
        Self { micros: self.micros / 1_000_000 * 1_000_000, ..self }
    }

    /// The nearest full second.
    #[must_use]
    pub fn to_second(self) -> Option<Self> {
        self.plus(500_000).map(Self::in_second)
    }

    /// Year, month, day.
    #[must_use]
    pub fn date(self) -> (i64, i64, i64) {
        let (era, day) = (self.days.div_euclid(146_097), self.days.rem_euclid(146_097));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        (
            year + era * 400 + i64::from(month >= 10),
            if month < 10 { month + 3 } else { month - 9 },
            day,
        )
    }

    /// Parses the form of [`Self::text`], a date alone, and similar forms.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, ""));
        let mut parts = date.split('-').map(number);
        let found = Self::of(parts.next()??, parts.next()??, parts.next()??)?;
        if parts.next().is_some() {
            return None;
        }
        let time = time.trim_end_matches('Z').trim_end_matches("+00:00").trim_end_matches("+00");
        if time.is_empty() {
            return Some(found);
        }
        let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
        let mut parts = time.split(':').map(number);
        let (hour, minute) = (parts.next()??, parts.next()??);
        let second = parts.next().unwrap_or(Some(0))?;
        found.at(hour, minute, second, micros_of(fraction)?)
    }

    /// A time in the form of the views, or in that of Oracle's `NLS_DATE_FORMAT`, `DD-MON-RR`.
    #[must_use]
    pub fn understood(text: &str) -> Option<Self> {
        let by = |model: &str| Self::read(text, model).ok();
        Self::parse(text).or_else(|| {
            // A month by its name: digits in another order could be several dates.
            text.bytes().any(|byte| byte.is_ascii_alphabetic()).then_some(())?;
            ["DD-MON-RRRR", "DD-MON-RRRR HH24:MI:SS"].into_iter().find_map(by)
        })
    }

    fn at(self, hour: i64, minute: i64, second: i64, micros: i64) -> Option<Self> {
        let in_range =
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        in_range.then_some(Self {
            micros: ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros,
            ..self
        })
    }

    /// The date alone, in the form of the views.
    #[must_use]
    pub fn date_text(self) -> String {
        let (year, month, day) = self.date();
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// The form in the views, with a fraction of a second if there is one: so equal times have
    /// equal texts, and later times greater ones.
    #[must_use]
    pub fn text(self) -> String {
        let second = self.micros / 1_000_000;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let text = format!("{} {hour:02}:{minute:02}:{second:02}", self.date_text());
        if !self.has_fraction() {
            return text;
        }
        let fraction = format!("{:06}", self.micros % 1_000_000);
        format!("{text}.{}", fraction.trim_end_matches('0'))
    }

    /// Microseconds since PostgreSQL's epoch, the year 2000.
    #[must_use]
    pub fn since_epoch(self) -> i64 {
        (self.days - EPOCH) * DAY + self.micros
    }

    /// The time of a number of microseconds since PostgreSQL's epoch.
    #[must_use]
    pub fn of_epoch(micros: i64) -> Option<Self> {
        Self { days: EPOCH, micros: 0 }.plus(micros)
    }

    /// Parses what a client sends: the form in the views, ISO 8601, with a time zone at the end or
    /// without.
    #[must_use]
    pub fn of_client(text: &str) -> Option<Self> {
        let text = text.trim();
        // A sign before the eleventh character is within the date.
        let zone = text.rfind(['+', '-']).filter(|at| *at > 10);
        let Some((local, zone)) = zone.and_then(|at| text.split_at_checked(at)) else {
            return Self::parse(text);
        };
        let mut parts = zone.get(1..)?.split(':').map(number);
        let (hours, minutes) = (parts.next()??, parts.next().unwrap_or(Some(0))?);
        if hours > 15 || minutes > 59 || parts.next().is_some() {
            return None;
        }
        let ahead = (hours * 60 + minutes) * 60_000_000;
        Self::parse(local)?.plus(if zone.starts_with('-') { ahead } else { -ahead })
    }

    /// Truncates to a unit of Oracle's `TRUNC`: `YYYY`, `Q`, `MM`, `IW`, `D`, `DD`, `HH24`, `MI`.
    #[must_use]
    pub fn truncated(self, unit: &str) -> Option<Self> {
        let (year, month, _) = self.date();
        let midnight = Self { micros: 0, ..self };
        match unit.to_ascii_uppercase().as_str() {
            "YYYY" | "YEAR" | "YYY" | "YY" | "Y" | "SYYYY" | "SYEAR" => Self::of(year, 1, 1),
            "Q" => Self::of(year, (month - 1) / 3 * 3 + 1, 1),
            "MM" | "MON" | "MONTH" | "RM" => Self::of(year, month, 1),
            "IW" => Some(Self { days: midnight.days - (midnight.weekday() + 6) % 7, micros: 0 }),
            "D" | "DY" | "DAY" => {
                Some(Self { days: midnight.days - midnight.weekday(), micros: 0 })
            }
            "DD" | "DDD" | "J" => Some(midnight),
            "HH" | "HH12" | "HH24" | "HOUR" => {
                Some(Self { micros: self.micros / 3_600_000_000 * 3_600_000_000, ..self })
            }
            "MI" | "MINUTE" => Some(Self { micros: self.micros / 60_000_000 * 60_000_000, ..self }),
            _ => None,
        }
    }

    /// `months` later; the last day of a month becomes the last day of the other month.
    #[must_use]
    pub fn plus_months(self, months: i64) -> Option<Self> {
        let (year, month, day) = self.date();
        let total = (year * 12 + month - 1).checked_add(months)?;
        let (to_year, to_month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        if !(1..=9999).contains(&to_year) {
            return None;
        }
        let last = days_of(to_year, to_month);
        let day = if day == days_of(year, month) { last } else { day.min(last) };
        Some(Self { micros: self.micros, ..Self::of(to_year, to_month, day)? })
    }

    /// The last day of its month.
    #[must_use]
    pub fn last_of_month(self) -> Option<Self> {
        let (year, month, _) = self.date();
        Some(Self { micros: self.micros, ..Self::of(year, month, days_of(year, month))? })
    }

    /// 0: Sunday.
    fn weekday(self) -> i64 {
        // 0000-03-01 was a Wednesday.
        (self.days + 3).rem_euclid(7)
    }

    /// Formats the time by a model.
    ///
    /// # Errors
    /// At a word that is not an element of a model.
    pub fn written(self, model: &str) -> Result<String, String> {
        let (year, month, day) = self.date();
        let second_of_day = self.micros / 1_000_000;
        let (hour, minute, second) =
            (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let new_year = Self::of(year, 1, 1).map_or(self.days, |first| first.days);
        let day_of_year = self.days - new_year + 1;
        let hour_12 = if hour % 12 == 0 { 12 } else { hour % 12 };
        let mut out = String::new();
        let mut exact = false;
        for element in elements(model)? {
            let pad = |number: i64, width: usize| {
                if exact { number.to_string() } else { format!("{number:0width$}") }
            };
            let name = |name: &str, written: &str, width: usize| {
                let name = as_written(name, written);
                if exact { name } else { format!("{name:width$}") }
            };
            let text = match element {
                Element::Literal(text) => text.to_owned(),
                Element::Word(word) => match word.to_ascii_uppercase().as_str() {
                    "FM" => {
                        exact = !exact;
                        continue;
                    }
                    "FX" => continue,
                    "YYYY" | "RRRR" | "IYYY" | "SYYYY" => pad(year, 4),
                    "YYY" => pad(year % 1000, 3),
                    "YY" | "RR" => pad(year % 100, 2),
                    "Y" => pad(year % 10, 1),
                    "Y,YYY" => format!("{},{:03}", year / 1000, year % 1000),
                    "CC" => pad((year + 99) / 100, 2),
                    "Q" => ((month + 2) / 3).to_string(),
                    "MM" => pad(month, 2),
                    "MON" => as_written(part(month_name(month), 3), word),
                    "MONTH" => name(month_name(month), word, 9),
                    "WW" => pad((day_of_year + 6) / 7, 2),
                    "W" => ((day + 6) / 7).to_string(),
                    "IW" => pad(self.iso_week(), 2),
                    "DDD" => pad(day_of_year, 3),
                    "DD" => pad(day, 2),
                    "D" => (self.weekday() + 1).to_string(),
                    "DY" => as_written(part(self.day_name(), 3), word),
                    "DAY" => name(self.day_name(), word, 9),
                    "J" => (self.days + JULIAN).to_string(),
                    "HH24" => pad(hour, 2),
                    "HH" | "HH12" => pad(hour_12, 2),
                    "MI" => pad(minute, 2),
                    "SS" => pad(second, 2),
                    "SSSSS" => pad(second_of_day, 5),
                    "AM" | "PM" => as_written(if hour < 12 { "Am" } else { "Pm" }, word),
                    "A.M." | "P.M." => as_written(if hour < 12 { "A.m." } else { "P.m." }, word),
                    "AD" | "BC" => as_written("Ad", word),
                    "TZH" => "+00".to_owned(),
                    "TZM" => "00".to_owned(),
                    "TZR" | "TZD" => "UTC".to_owned(),
                    "X" => ".".to_owned(),
                    fraction => {
                        let digits: usize =
                            fraction.strip_prefix("FF").and_then(|n| n.parse().ok()).unwrap_or(6);
                        let nine = format!("{:06}000", self.micros % 1_000_000);
                        part(&nine, digits).to_owned()
                    }
                },
            };
            out.push_str(&text);
        }
        Ok(out)
    }

    /// Parses a text by a model. Fields that the model does not have are those of midnight on the
    /// first of this month.
    ///
    /// # Errors
    /// Where the text does not match the model.
    pub fn read(text: &str, model: &str) -> Result<Self, String> {
        let mut reading = Reading::new(text, model);
        for element in elements(model)? {
            match element {
                Element::Literal(literal) => reading.literal(literal)?,
                Element::Word(word) => reading.word(word)?,
            }
        }
        reading.time()
    }

    /// The year by ISO 8601: that of the week's Thursday.
    fn iso_week(self) -> i64 {
        let thursday = Self { days: self.days - (self.weekday() + 6) % 7 + 3, micros: 0 };
        let first = Self::of(thursday.date().0, 1, 1).map_or(thursday.days, |first| first.days);
        (thursday.days - first) / 7 + 1
    }

    fn day_name(self) -> &'static str {
        usize::try_from(self.weekday())
            .ok()
            .and_then(|at| DAYS.get(at))
            .copied()
            .unwrap_or_default()
    }
}

/// The seconds of a unit of an interval, `DAY` or `days`.
pub fn seconds_of(unit: &str) -> Option<i64> {
    let unit = unit.trim().to_ascii_lowercase();
    Some(match unit.strip_suffix('s').unwrap_or(&unit) {
        "second" | "sec" => 1,
        "minute" | "min" => 60,
        "hour" => 3600,
        "day" => 86_400,
        "week" => 604_800,
        _ => return None,
    })
}

fn month_name(month: i64) -> &'static str {
    usize::try_from(month - 1).ok().and_then(|at| MONTHS.get(at)).copied().unwrap_or_default()
}

/// A text that is being parsed by a model, and the fields found so far.
struct Reading<'a> {
    rest: &'a str,
    model: &'a str,
    this_year: i64,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    day_of_year: Option<i64>,
    second_of_day: Option<i64>,
}

impl<'a> Reading<'a> {
    fn new(text: &'a str, model: &'a str) -> Self {
        let (year, month, _) = Time::now().date();
        Self {
            rest: text.trim(),
            model,
            this_year: year,
            year,
            month,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0,
            micros: 0,
            afternoon: None,
            day_of_year: None,
            second_of_day: None,
        }
    }

    fn mismatch(&self, element: &str) -> String {
        format!("'{}' does not fit '{element}' of the format '{}'", self.rest, self.model)
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        // Any punctuation matches any other, as in Oracle.
        for expected in literal.chars() {
            let mut characters = self.rest.chars();
            match characters.next() {
                Some(found)
                    if found == expected
                        || !found.is_alphanumeric() && !expected.is_alphanumeric() =>
                {
                    self.rest = characters.as_str();
                }
                None => {}
                Some(_) if !expected.is_alphanumeric() => {}
                Some(_) => return Err(self.mismatch(literal)),
            }
        }
        Ok(())
    }

    /// A number of at most `width` digits.
    fn take(&mut self, width: usize, word: &str) -> Result<i64, String> {
        let digits = self.rest.bytes().take(width).take_while(u8::is_ascii_digit).count();
        let (number, behind) = self.rest.split_at(digits);
        let number = number.parse().map_err(|_| self.mismatch(word))?;
        self.rest = behind;
        Ok(number)
    }

    /// Takes a whole name or its first three letters; returns its index.
    fn take_name(&mut self, names: &[&str], word: &str) -> Result<usize, String> {
        let found = names.iter().enumerate().find_map(|(at, name)| {
            let behind = after(self.rest, name).or_else(|| after(self.rest, part(name, 3)));
            behind.map(|behind| (at, behind))
        });
        let (at, behind) = found.ok_or_else(|| self.mismatch(word))?;
        self.rest = behind;
        Ok(at)
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        let upper = word.to_ascii_uppercase();
        match upper.as_str() {
            "FM" | "FX" => {}
            "YYYY" | "SYYYY" | "IYYY" => self.year = self.take(4, word)?,
            "RRRR" | "RR" => {
                let number = self.take(if upper == "RR" { 2 } else { 4 }, word)?;
                // Two digits: the nearest such year.
                self.year = match number {
                    0..50 => 2000 + number,
                    50..100 => 1900 + number,
                    full => full,
                };
            }
            "YYY" => self.year = self.this_year / 1000 * 1000 + self.take(3, word)?,
            "YY" => self.year = self.this_year / 100 * 100 + self.take(2, word)?,
            "Y" => self.year = self.this_year / 10 * 10 + self.take(1, word)?,
            "MM" => self.month = self.take(2, word)?,
            "MON" | "MONTH" => self.month = self.take_name(&MONTHS, word)? as i64 + 1,
            "DD" => self.day = self.take(2, word)?,
            "DDD" => self.day_of_year = Some(self.take(3, word)?),
            "DAY" | "DY" => _ = self.take_name(&DAYS, word)?,
            "HH24" => self.hour = self.take(2, word)?,
            "HH" | "HH12" => {
                self.hour = self.take(2, word)?;
                if !(1..=12).contains(&self.hour) {
                    return Err(format!("an hour of {upper} is from 1 to 12"));
                }
                self.afternoon = self.afternoon.or(Some(false));
            }
            "AM" | "PM" | "A.M." | "P.M." => {
                let is_after = after(self.rest, "PM").or_else(|| after(self.rest, "P.M."));
                let is_before = after(self.rest, "AM").or_else(|| after(self.rest, "A.M."));
                self.afternoon = Some(is_after.is_some());
                self.rest = is_after.or(is_before).ok_or_else(|| self.mismatch(word))?;
            }
            "MI" => self.minute = self.take(2, word)?,
            "SS" => self.second = self.take(2, word)?,
            "SSSSS" => self.second_of_day = Some(self.take(5, word)?),
            fraction if fraction.starts_with("FF") => {
                let digits = self.rest.bytes().take(9).take_while(u8::is_ascii_digit).count();
                let (number, behind) = self.rest.split_at(digits);
                self.micros = micros_of(number).ok_or_else(|| self.mismatch(word))?;
                self.rest = behind;
            }
            _ => return Err(format!("'{word}' cannot be read, only written")),
        }
        Ok(())
    }

    /// The time for these fields.
    fn time(self) -> Result<Time, String> {
        let Self { rest, model, year, month, day, mut hour, mut minute, mut second, .. } = self;
        if !rest.trim().is_empty() {
            return Err(format!("'{rest}' is more than the format '{model}' has"));
        }
        if let Some(afternoon) = self.afternoon
            && hour <= 12
        {
            hour = hour % 12 + if afternoon { 12 } else { 0 };
        }
        if let Some(of_day) = self.second_of_day {
            (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        }
        let no_day = || {
            format!("there is no {year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
        };
        let found = match self.day_of_year {
            Some(number) if (1..=366).contains(&number) => Time::of(year, 1, 1)
                .and_then(|first| first.plus((number - 1) * DAY))
                .filter(|found| found.date().0 == year),
            Some(_) => None,
            None => Time::of(year, month, day),
        };
        found.and_then(|found| found.at(hour, minute, second, self.micros)).ok_or_else(no_day)
    }
}

fn part(text: &str, length: usize) -> &str {
    text.get(..length).unwrap_or(text)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn number(text: &str) -> Option<i64> {
    let digits =
        text.len() <= 9 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Microseconds, from the digits after the decimal point of a second.
fn micros_of(fraction: &str) -> Option<i64> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut six = part(fraction, 6).to_owned();
    while six.len() < 6 {
        six.push('0');
    }
    six.parse().ok()
}

/// The rest of a text after a word, in any case.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(rest)
}

/// A name in the case of the model's word: `MONTH`, `Month`, `month`.
fn as_written(name: &str, model: &str) -> String {
    let mut letters = model.chars().filter(|letter| letter.is_alphabetic());
    match (
        letters.next().is_some_and(char::is_uppercase),
        letters.next().is_some_and(char::is_uppercase),
    ) {
        (true, true) => name.to_uppercase(),
        (true, false) => {
            let mut out = String::new();
            for (at, letter) in name.chars().enumerate() {
                let _ = write!(
                    out,
                    "{}",
                    if at == 0 { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
                );
            }
            out
        }
        (false, _) => name.to_lowercase(),
    }
}

enum Element<'a> {
    Word(&'a str),
    Literal(&'a str),
}

/// Longer ones first: `DDD` is not `DD` and `D`.
const WORDS: [&str; 56] = [
    "SSSSS", "Y,YYY", "SYYYY", "MONTH", "A.M.", "P.M.", "YYYY", "RRRR", "IYYY", "HH24", "HH12",
    "YYY", "MON", "DDD", "DAY", "TZH", "TZM", "TZR", "TZD", "FF1", "FF2", "FF3", "FF4", "FF5",
    "FF6", "FF7", "FF8", "FF9", "FM", "FX", "YY", "RR", "CC", "MM", "WW", "IW", "DD", "DY", "HH",
    "MI", "SS", "AM", "PM", "AD", "BC", "FF", "Y", "Q", "W", "D", "J", "X", "TH", "SP", "RM", "DL",
];
/// Of these, the ones that are recognised and not supported.
const UNSUPPORTED: [&str; 4] = ["TH", "SP", "RM", "DL"];

fn elements(model: &str) -> Result<Vec<Element<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = model;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let inside = rest.get(1..).unwrap_or_default();
            let end = inside
                .find('"')
                .ok_or_else(|| format!("a quote of the format '{model}' does not end"))?;
            found.push(Element::Literal(inside.get(..end).unwrap_or_default()));
            rest = inside.get(end + 1..).unwrap_or_default();
            continue;
        }
        let word = WORDS.iter().find(|word| after(rest, word).is_some());
        let length = word.map_or(first.len_utf8(), |word| word.len());
        let (head, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        match word {
            Some(word) if UNSUPPORTED.contains(word) => {
                return Err(format!("'{head}' in the format '{model}' is not supported"));
            }
            Some(_) => found.push(Element::Word(head)),
            None if first.is_alphanumeric() => {
                return Err(format!("'{rest}' in the format '{model}' means nothing"));
            }
            None => found.push(Element::Literal(head)),
        }
        rest = behind;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        Time::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn times_are_written_by_models() {
        let moment = time("2026-03-07 15:04:09.25");
        for (model, text) in [
            ("YYYY-MM-DD HH24:MI:SS", "2026-03-07 15:04:09"),
            ("DD-MON-YYYY", "07-MAR-2026"),
            ("dd-mon-yy", "07-mar-26"),
            ("Day, DD Month YYYY", "Saturday , 07 March     2026"),
            ("FMDay, DD Month YYYY", "Saturday, 7 March 2026"),
            ("HH:MI:SS AM", "03:04:09 PM"),
            ("HH12:MI p.m.", "03:04 p.m."),
            ("HH24:MI:SS.FF3", "15:04:09.250"),
            ("DDD J Q D", "066 2461107 1 7"),
            ("IW WW W", "10 10 1"),
            ("\"am\" DD.MM.", "am 07.03."),
            ("SSSSS", "54249"),
        ] {
            assert_eq!(moment.written(model).as_deref(), Ok(text), "{model}");
        }
        assert!(moment.written("nonsense").is_err() && moment.written("\"open").is_err());
    }

    #[test]
    fn times_are_read_by_models() {
        for (text, model, expected) in [
            ("2026-03-07 15:04:09", "YYYY-MM-DD HH24:MI:SS", "2026-03-07 15:04:09"),
            ("07-MAR-2026", "DD-MON-YYYY", "2026-03-07 00:00:00"),
            ("7/march/26", "dd-month-rr", "2026-03-07 00:00:00"),
            ("12:30 AM 01.01.2000", "HH:MI AM DD.MM.YYYY", "2000-01-01 00:30:00"),
            ("2024 366", "YYYY DDD", "2024-12-31 00:00:00"),
            ("20260307", "YYYYMMDD", "2026-03-07 00:00:00"),
        ] {
            assert_eq!(
                Time::read(text, model).map(Time::text).as_deref(),
                Ok(expected),
                "{text} {model}"
            );
        }
        for (text, model) in [
            ("2026-02-29", "YYYY-MM-DD"),
            ("2026-13-01", "YYYY-MM-DD"),
            ("x", "YYYY"),
            ("2026-01-01 25", "YYYY-MM-DD HH24"),
            ("2026 rest", "YYYY"),
            ("2025 366", "YYYY DDD"),
            ("grün", "MON"),
        ] {
            assert!(Time::read(text, model).is_err(), "{text} {model}");
        }
    }

    #[test]
    fn times_are_counted_with() {
        let moment = time("2024-02-28 23:00:00");
        assert_eq!(
            moment.plus_days(1.0 / 24.0).map(Time::text).as_deref(),
            Some("2024-02-29 00:00:00")
        );
        let hours = time("2024-03-01").micros_since(moment);
        assert_eq!(hours, DAY + DAY / 24);
        assert_eq!(
            time("2024-02-29").plus_months(12).map(Time::text).as_deref(),
            Some("2025-02-28 00:00:00")
        );
        assert_eq!(
            time("2025-02-28").plus_months(1).map(Time::text).as_deref(),
            Some("2025-03-31 00:00:00")
        );
        assert_eq!(moment.truncated("MM").map(Time::text).as_deref(), Some("2024-02-01 00:00:00"));
        assert_eq!(moment.truncated("IW").map(Time::text).as_deref(), Some("2024-02-26 00:00:00"));
        assert_eq!(moment.plus_days(1e300), None);
        assert_eq!(moment.plus_days(1e9), None);
        assert_eq!(time("9999-12-31").plus(DAY), None);
        assert_eq!(time("0001-01-01").plus(-DAY), None);
        // Converts every day of some years and back.
        let mut day = time("1999-12-31");
        for _ in 0..2000 {
            let (year, month, of_month) = day.date();
            assert_eq!(Time::of(year, month, of_month), Some(day));
            day = day.plus(DAY).expect("a next day");
        }
        for nonsense in
            ["", "2026", "2026-1", "x-y-z", "2026-02-30", "2026-01-01 24:00", "2026-01-01-01"]
        {
            assert_eq!(Time::parse(nonsense), None, "{nonsense}");
        }
    }
}
