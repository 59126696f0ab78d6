//! Times as in the views, `YYYY-MM-DD HH:MI:SS`, and Oracle's format models for them.

use super::{
    decimals::{Operator, computed},
    numbers::Number,
    spelled,
};

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

    /// Rounded to this many digits of a second.
    #[must_use]
    pub fn with_digits(self, digits: u32) -> Option<Self> {
        if digits > 9 {
            return None;
        }
        let unit = 10_i64.pow(6_u32.saturating_sub(digits));
        let later = self.plus(unit / 2)?;
        Some(Self { micros: later.micros / unit * unit, ..later })
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

    /// Truncates to a unit of Oracle's `TRUNC`: `CC`, `YYYY`, `IYYY`, `Q`, `MM`, `WW`, `IW`, `W`,
    /// `D`, `DD`, `HH24`, `MI`.
    #[must_use]
    pub fn truncated(self, unit: &str) -> Option<Self> {
        let (year, month, day) = self.date();
        let midnight = Self { micros: 0, ..self };
        let back = |days: i64| Some(Self { days: midnight.days - days, micros: 0 });
        match unit.to_ascii_uppercase().as_str() {
            "CC" | "SCC" => Self::of((year - 1) / 100 * 100 + 1, 1, 1),
            "YYYY" | "YEAR" | "YYY" | "YY" | "Y" | "SYYYY" | "SYEAR" => Self::of(year, 1, 1),
            "IYYY" | "IYY" | "IY" | "I" => Self::of(self.iso_year(), 1, 4)?.truncated("IW"),
            "Q" => Self::of(year, (month - 1) / 3 * 3 + 1, 1),
            "MM" | "MON" | "MONTH" | "RM" => Self::of(year, month, 1),
            "WW" => back((self.days - Self::of(year, 1, 1)?.days) % 7),
            "IW" => back((midnight.weekday() + 6) % 7),
            "W" => back((day - 1) % 7),
            "D" | "DY" | "DAY" => back(midnight.weekday()),
            "DD" | "DDD" | "J" => Some(midnight),
            "HH" | "HH12" | "HH24" | "HOUR" => {
                Some(Self { micros: self.micros / 3_600_000_000 * 3_600_000_000, ..self })
            }
            "MI" | "MINUTE" => Some(Self { micros: self.micros / 60_000_000 * 60_000_000, ..self }),
            _ => None,
        }
    }

    /// Rounds to a unit, as Oracle's `ROUND`: a month from its 16th day on to the next one, a year
    /// from July on, a quarter from the 16th of its second month on, a century from its 51st year
    /// on, anything else from its middle on.
    #[must_use]
    pub fn rounded(self, unit: &str) -> Option<Self> {
        let (year, month, day) = self.date();
        let first = self.truncated(unit)?;
        let middle_of_days =
            |days: i64| first.plus(days * DAY / 2).filter(|middle| self >= *middle);
        let later_days = |days: i64| match middle_of_days(days) {
            Some(_) => first.plus(days * DAY),
            None => Some(first),
        };
        let later = |is_later: bool, months: i64| {
            if is_later { first.plus_months(months) } else { Some(first) }
        };
        match unit.to_ascii_uppercase().as_str() {
            "CC" | "SCC" => later((year - 1) % 100 >= 50, 1200),
            "YYYY" | "YEAR" | "YYY" | "YY" | "Y" | "SYYYY" | "SYEAR" => later(month > 6, 12),
            "IYYY" | "IYY" | "IY" | "I" if month > 6 => {
                Self::of(self.iso_year() + 1, 1, 4)?.truncated("IW")
            }
            "Q" => later(month % 3 == 0 || month % 3 == 2 && day > 15, 3),
            "MM" | "MON" | "MONTH" | "RM" => later(day > 15, 1),
            "WW" | "IW" | "W" | "D" | "DY" | "DAY" => later_days(7),
            "DD" | "DDD" | "J" => later_days(1),
            "HH" | "HH12" | "HH24" | "HOUR" => self.plus(1_800_000_000)?.truncated("HH"),
            "MI" | "MINUTE" => self.plus(30_000_000)?.truncated("MI"),
            _ => Some(first),
        }
    }

    /// The next day of this name after it, at the same time of day. `None`: there is no such name.
    #[must_use]
    pub fn next_day(self, name: &str) -> Option<Self> {
        let name = name.trim();
        let wanted = DAYS.iter().position(|day| {
            after(name, part(day, 3)).is_some() || after(day, name).is_some() && name.len() > 2
        })?;
        let ahead = (i64::try_from(wanted).ok()? - self.weekday() + 6).rem_euclid(7) + 1;
        self.plus(ahead * DAY)
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

    /// `months` later, on the same day of the month; where there is none, on the last one, or
    /// `None`.
    #[must_use]
    pub fn months_later(self, months: i64, takes_last: bool) -> Option<Self> {
        let (year, month, day) = self.date();
        let total = (year * 12 + month - 1).checked_add(months)?;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        let day = if takes_last { day.min(days_of(year, month)) } else { day };
        Some(Self { micros: self.micros, ..Self::of(year, month, day)? })
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
        let mut out = String::new();
        let mut exact = false;
        for element in elements(model)? {
            match element {
                Element::Literal(text) => out.push_str(text),
                Element::Word(word, ending) => match word.to_ascii_uppercase().as_str() {
                    "FM" => exact = !exact,
                    "FX" => {}
                    upper => match self.numbered(upper) {
                        Some((number, width)) => {
                            out.push_str(&with_ending(number, width, exact, ending));
                        }
                        None => out.push_str(&self.named(upper, word, exact)),
                    },
                },
            }
        }
        Ok(out)
    }

    /// The number that an element of a model stands for, and its digits.
    fn numbered(self, element: &str) -> Option<(i64, usize)> {
        let (year, month, day) = self.date();
        let second = self.micros / 1_000_000;
        let hour = second / 3600;
        let new_year = Self::of(year, 1, 1).map_or(self.days, |first| first.days);
        let day_of_year = self.days - new_year + 1;
        Some(match element {
            "YYYY" | "RRRR" => (year, 4),
            "YYY" => (year % 1000, 3),
            "YY" | "RR" => (year % 100, 2),
            "Y" => (year % 10, 1),
            "IYYY" => (self.iso_year(), 4),
            "IYY" => (self.iso_year() % 1000, 3),
            "IY" => (self.iso_year() % 100, 2),
            "I" => (self.iso_year() % 10, 1),
            "CC" => ((year + 99) / 100, 2),
            "Q" => ((month + 2) / 3, 1),
            "MM" => (month, 2),
            "WW" => ((day_of_year + 6) / 7, 2),
            "W" => ((day + 6) / 7, 1),
            "IW" => (self.iso_week(), 2),
            "DDD" => (day_of_year, 3),
            "DD" => (day, 2),
            "D" => (self.weekday() + 1, 1),
            "J" => (self.days + JULIAN, 7),
            "HH24" => (hour, 2),
            "HH" | "HH12" => (if hour % 12 == 0 { 12 } else { hour % 12 }, 2),
            "MI" => (second / 60 % 60, 2),
            "SS" => (second % 60, 2),
            "SSSSS" => (second, 5),
            _ => return None,
        })
    }

    /// The text for any other element of a model, `word`.
    fn named(self, element: &str, word: &str, exact: bool) -> String {
        let (year, month, _) = self.date();
        let is_morning = self.micros < DAY / 2;
        let by = |model: &str| self.written(model).unwrap_or_default();
        let padded = |name: &str, width: usize| {
            let name = as_written(name, word);
            if exact { name } else { format!("{name:width$}") }
        };
        let signed = |digits: String| if exact { digits } else { format!(" {digits}") };
        let positive = |number: i64| u64::try_from(number).unwrap_or(0);
        match element {
            "SYYYY" => signed(format!("{year:04}")),
            "SCC" => signed(format!("{:02}", (year + 99) / 100)),
            "YEAR" => as_written(&spelled::year(positive(year)), word),
            "SYEAR" => signed(as_written(&spelled::year(positive(year)), word)),
            "Y,YYY" => format!("{},{:03}", year / 1000, year % 1000),
            "MON" => as_written(part(month_name(month), 3), word),
            "MONTH" => padded(month_name(month), 9),
            "RM" => padded(&spelled::roman(positive(month)).unwrap_or_default(), 4),
            "DY" => as_written(part(self.day_name(), 3), word),
            "DAY" => padded(self.day_name(), 9),
            "AM" | "PM" => as_written(if is_morning { "Am" } else { "Pm" }, word),
            "A.M." | "P.M." => as_written(if is_morning { "A.m." } else { "P.m." }, word),
            "AD" | "BC" => as_written("Ad", word),
            "A.D." | "B.C." => as_written("A.d.", word),
            "DL" => by("fmDay, Month fmDD, YYYY"),
            "DS" => by("fmMM/DD/YYYY"),
            "TS" => by("fmHHfm:MI:SS AM"),
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
        }
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
                Element::Word(word, None) => reading.word(word)?,
                Element::Word(word, Some(_)) => {
                    return Err(format!(
                        "'{word}' in words or as an ordinal cannot be read, only written"
                    ));
                }
            }
        }
        reading.time()
    }

    /// The Thursday of its week by ISO 8601, which decides the week's year.
    fn thursday(self) -> Self {
        Self { days: self.days - (self.weekday() + 6) % 7 + 3, micros: 0 }
    }

    fn iso_year(self) -> i64 {
        self.thursday().date().0
    }

    fn iso_week(self) -> i64 {
        let thursday = self.thursday();
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

/// The minutes that a time zone is ahead of UTC: `+02:00`, or a name of UTC.
///
/// # Errors
/// At another name: when its clocks change is not known here.
pub fn zone_minutes(zone: &str) -> Result<i64, String> {
    const NAMES: [&str; 7] =
        ["UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "DBTIMEZONE", "SESSIONTIMEZONE"];
    let zone = zone.trim();
    if NAMES.iter().any(|name| zone.eq_ignore_ascii_case(name)) {
        return Ok(0);
    }
    let minutes = || {
        let unsigned = zone.strip_prefix(['+', '-']).unwrap_or(zone);
        let (hours, minutes) = unsigned.split_once(':').unwrap_or((unsigned, "0"));
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        (hours <= 15 && minutes < 60).then_some(hours * 60 + minutes)
    };
    let found = minutes().map(|ahead| if zone.starts_with('-') { -ahead } else { ahead });
    found.ok_or_else(|| {
        format!("the time zone '{zone}' is not known here; write its offset, such as '+02:00'")
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
    julian: Option<i64>,
    /// Minutes that the text's time zone is ahead of UTC.
    zone: i64,
    is_behind: bool,
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
            julian: None,
            zone: 0,
            is_behind: false,
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
            "J" => self.julian = Some(self.take(7, word)?),
            "RM" => self.month = self.roman_month(word)?,
            "TZH" => {
                let unsigned = self.rest.trim_start_matches(['+', '-']);
                self.is_behind = self.rest.starts_with('-');
                self.rest = unsigned;
                self.zone += self.take(2, word)? * 60;
            }
            "TZM" => self.zone += self.take(2, word)?,
            "TZR" => {
                let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
                let (name, behind) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
                let minutes = zone_minutes(name)?;
                (self.zone, self.is_behind) = (minutes.abs(), minutes < 0);
                self.rest = behind;
            }
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

    /// The longest Roman numeral of a month at the start of the rest.
    fn roman_month(&mut self, word: &str) -> Result<i64, String> {
        let found = (1..=12_i64)
            .filter_map(|month| {
                let text = spelled::roman(u64::try_from(month).ok()?)?;
                Some((month, text.len(), after(self.rest, &text)?))
            })
            .max_by_key(|(_, length, _)| *length);
        let (month, _, behind) = found.ok_or_else(|| self.mismatch(word))?;
        self.rest = behind;
        Ok(month)
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
        let found = match (self.julian, self.day_of_year) {
            (Some(julian), _) => Time { days: 0, micros: 0 }.plus((julian - JULIAN) * DAY),
            (None, Some(number)) if (1..=366).contains(&number) => Time::of(year, 1, 1)
                .and_then(|first| first.plus((number - 1) * DAY))
                .filter(|found| found.date().0 == year),
            (None, Some(_)) => None,
            (None, None) => Time::of(year, month, day),
        };
        let ahead = self.zone * 60_000_000;
        found
            .and_then(|found| found.at(hour, minute, second, self.micros))
            .and_then(|found| found.plus(if self.is_behind { ahead } else { -ahead }))
            .ok_or_else(no_day)
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
            let mut begins = true;
            let capital = |letter: char| {
                let begins = std::mem::replace(&mut begins, letter == ' ' || letter == '-');
                if begins { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
            };
            name.chars().map(capital).collect()
        }
        (false, _) => name.to_lowercase(),
    }
}

/// The endings of an element that is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// `TH`: an ordinal in digits.
    Ordinal,
    /// `SP`: in words.
    Words,
    /// `SPTH`, `THSP`: an ordinal in words.
    OrdinalWords,
}

const ENDINGS: [(&str, Ending); 4] = [
    ("SPTH", Ending::OrdinalWords),
    ("THSP", Ending::OrdinalWords),
    ("SP", Ending::Words),
    ("TH", Ending::Ordinal),
];

/// A number of a time with its ending, in the case of the model's letters.
fn with_ending(number: i64, width: usize, exact: bool, ending: Option<(Ending, &str)>) -> String {
    let digits = if exact { number.to_string() } else { format!("{number:0width$}") };
    let positive = u64::try_from(number).unwrap_or(0);
    match ending {
        None => digits,
        Some((Ending::Words, word)) => as_written(&spelled::cardinal(positive), word),
        Some((Ending::OrdinalWords, word)) => as_written(&spelled::ordinal(positive), word),
        Some((Ending::Ordinal, word)) => {
            let suffix = spelled::suffix(positive);
            let mut letters = word.chars().filter(|letter| letter.is_alphabetic()).take(2);
            let is_upper = letters.all(char::is_uppercase);
            format!("{digits}{}", if is_upper { suffix.to_uppercase() } else { suffix.to_owned() })
        }
    }
}

enum Element<'a> {
    /// A word of the model, and its ending, with the letters of both.
    Word(&'a str, Option<(Ending, &'a str)>),
    Literal(&'a str),
}

/// Longer ones first: `DDD` is not `DD` and `D`.
const WORDS: [&str; 66] = [
    "SSSSS", "Y,YYY", "SYYYY", "SYEAR", "MONTH", "YEAR", "A.M.", "P.M.", "A.D.", "B.C.", "YYYY",
    "RRRR", "IYYY", "HH24", "HH12", "YYY", "IYY", "SCC", "MON", "DDD", "DAY", "TZH", "TZM", "TZR",
    "TZD", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FF7", "FF8", "FF9", "FM", "FX", "YY", "RR",
    "IY", "CC", "MM", "WW", "IW", "DD", "DY", "DL", "DS", "TS", "RM", "HH", "MI", "SS", "AM", "PM",
    "AD", "BC", "FF", "Y", "I", "Q", "W", "D", "J", "X", "E", "TH",
];
/// Of these, the ones that mean nothing here.
const UNSUPPORTED: [&str; 2] = ["E", "TH"];
/// Of these, the ones that are numbers.
const NUMBERED: [&str; 26] = [
    "YYYY", "RRRR", "YYY", "YY", "RR", "Y", "IYYY", "IYY", "IY", "I", "CC", "Q", "MM", "WW", "W",
    "IW", "DDD", "DD", "D", "J", "HH24", "HH12", "HH", "MI", "SS", "SSSSS",
];

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
        // The weekday in words, and not a short date.
        let is_spelled_weekday = after(rest, "DSP").is_some();
        let word = WORDS
            .into_iter()
            .find(|word| after(rest, word).is_some() && !(is_spelled_weekday && *word == "DS"));
        let length = word.map_or(first.len_utf8(), str::len);
        let remaining = rest;
        let (head, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = behind;
        match word {
            Some(word) if UNSUPPORTED.contains(&word) => {
                return Err(format!("'{head}' in the format '{model}' is not supported"));
            }
            Some(word) => {
                let is_number = NUMBERED.contains(&word);
                let ending = ENDINGS
                    .iter()
                    .filter(|_| is_number)
                    .find_map(|(text, ending)| Some((after(behind, text)?, *ending)));
                let whole = ending.and_then(|(left, ending)| {
                    let length = remaining.len() - left.len();
                    Some((ending, remaining.get(..length)?))
                });
                rest = ending.map_or(behind, |(left, _)| left);
                found.push(Element::Word(head, whole));
            }
            None if first.is_alphanumeric() => {
                return Err(format!("'{head}{behind}' in the format '{model}' means nothing"));
            }
            None => found.push(Element::Literal(head)),
        }
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
            ("fmDay, ddth Month YYYY", "Saturday, 7th March 2026"),
            ("ddth DDTH Ddth fmDDTH", "07th 07TH 07th 7TH"),
            ("Ddspth ddSP MMSP yyyysp", "Seventh seven THREE two thousand twenty-six"),
            ("DSP", "SEVEN"),
            ("YEAR Year", "TWENTY TWENTY-SIX Twenty Twenty-Six"),
            ("RM|fmRM|rm", "III |III|iii"),
            ("DL", "Saturday, March 07, 2026"),
            ("DS TS", "3/7/2026 3:04:09 PM"),
            ("IYYY IY SYYYY CC Y,YYY", "2026 26  2026 21 2,026"),
            ("B.C. ad", "A.D. ad"),
            ("TZH:TZM TZR", "+00:00 UTC"),
        ] {
            assert_eq!(moment.written(model).as_deref(), Ok(text), "{model}");
        }
        // The first days of a year may be of the last week of the year before.
        assert_eq!(time("2027-01-02").written("IYYY-IW").as_deref(), Ok("2026-53"));
        assert!(moment.written("DAYTH").is_err() && moment.written("E").is_err());
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
            ("2461107", "J", "2026-03-07 00:00:00"),
            ("07-iii-26", "DD-RM-RR", "2026-03-07 00:00:00"),
            ("2026-03-07 15:00 +02:30", "YYYY-MM-DD HH24:MI TZH:TZM", "2026-03-07 12:30:00"),
            ("2026-03-07 15:00 -05:00", "YYYY-MM-DD HH24:MI TZR", "2026-03-07 20:00:00"),
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
            ("7th", "DDTH"),
            ("2026-03-07 15:00 Europe/Paris", "YYYY-MM-DD HH24:MI TZR"),
        ] {
            assert!(Time::read(text, model).is_err(), "{text} {model}");
        }
    }

    #[test]
    fn times_are_cut_and_rounded_to_units() {
        let moment = time("2026-08-16 15:30:30");
        for (unit, cut, rounded) in [
            ("CC", "2001-01-01", "2001-01-01"),
            ("YYYY", "2026-01-01", "2027-01-01"),
            ("IYYY", "2025-12-29", "2027-01-04"),
            ("Q", "2026-07-01", "2026-10-01"),
            ("MM", "2026-08-01", "2026-09-01"),
            ("WW", "2026-08-13", "2026-08-20"),
            ("IW", "2026-08-10", "2026-08-17"),
            ("W", "2026-08-15", "2026-08-15"),
            ("D", "2026-08-16", "2026-08-16"),
            ("DD", "2026-08-16", "2026-08-17"),
            ("HH24", "2026-08-16 15:00", "2026-08-16 16:00"),
            ("MI", "2026-08-16 15:30", "2026-08-16 15:31"),
        ] {
            assert_eq!(moment.truncated(unit), Some(time(cut)), "{unit}");
            assert_eq!(moment.rounded(unit), Some(time(rounded)), "{unit}");
        }
        assert_eq!(time("2026-08-15").rounded("Q"), Some(time("2026-07-01")));
        assert_eq!(time("2051-01-01").rounded("CC"), Some(time("2101-01-01")));
        assert_eq!((moment.truncated("SS"), moment.rounded("x")), (None, None));
        for (day, next) in
            [("MONDAY", "2026-08-17"), ("sun", "2026-08-23"), ("Satur", "2026-08-22")]
        {
            assert_eq!(time("2026-08-16").next_day(day), Some(time(next)), "{day}");
        }
        assert_eq!(moment.next_day("MO"), None);
        assert_eq!(moment.next_day("March"), None);
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
