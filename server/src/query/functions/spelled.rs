//! Numbers in words, `TWENTY-SIX`, as ordinals, `26th`, `TWENTY-SIXTH`, and as Roman numerals.

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const THOUSANDS: [(u64, &str); 3] =
    [(1_000_000_000, "billion"), (1_000_000, "million"), (1000, "thousand")];
const ROMAN: [(u64, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];
/// The ordinals that are not the number with `th` behind it.
const IRREGULAR: [(&str, &str); 8] = [
    ("one", "first"),
    ("two", "second"),
    ("three", "third"),
    ("five", "fifth"),
    ("eight", "eighth"),
    ("nine", "ninth"),
    ("twelve", "twelfth"),
    ("zero", "zeroeth"),
];

fn one_of(words: &[&'static str], number: u64) -> &'static str {
    usize::try_from(number).ok().and_then(|at| words.get(at)).copied().unwrap_or_default()
}

/// A number in words: `one hundred twenty-six`.
pub(super) fn cardinal(number: u64) -> String {
    for (unit, name) in THOUSANDS.into_iter().chain([(100, "hundred")]) {
        if number >= unit {
            let (units, rest) = (number / unit, number % unit);
            let behind = if rest == 0 { String::new() } else { format!(" {}", cardinal(rest)) };
            return format!("{} {name}{behind}", cardinal(units));
        }
    }
    match (number / 10, number % 10) {
        (0 | 1, _) => one_of(&ONES, number).to_owned(),
        (tens, 0) => one_of(&TENS, tens).to_owned(),
        (tens, ones) => format!("{}-{}", one_of(&TENS, tens), one_of(&ONES, ones)),
    }
}

/// A number as an ordinal in words: `twenty-sixth`.
pub(super) fn ordinal(number: u64) -> String {
    let words = cardinal(number);
    let last = words.rfind([' ', '-']).map_or(0, |before| before + 1);
    let (head, last) = words.split_at_checked(last).unwrap_or(("", &words));
    let irregular = IRREGULAR.iter().find(|(cardinal, _)| *cardinal == last);
    let last = match (irregular, last.strip_suffix('y')) {
        (Some((_, ordinal)), _) => (*ordinal).to_owned(),
        (None, Some(stem)) => format!("{stem}ieth"),
        (None, None) => format!("{last}th"),
    };
    format!("{head}{last}")
}

/// What makes an ordinal of a number in digits: `st`, `nd`, `rd`, `th`.
pub(super) fn suffix(number: u64) -> &'static str {
    match (number / 10 % 10, number % 10) {
        (1, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// A year in words, as people say it: `twenty twenty-six`.
pub(super) fn year(number: u64) -> String {
    match (number / 100, number % 100) {
        (0, _) => cardinal(number),
        (century, rest) if century % 10 == 0 && rest < 10 => cardinal(number),
        (century, 0) => format!("{} hundred", cardinal(century)),
        (century, rest) => format!("{} {}", cardinal(century), cardinal(rest)),
    }
}

/// The Roman numeral of a number; `None` if it has none.
pub(super) fn roman(number: u64) -> Option<String> {
    if !(1..=3999).contains(&number) {
        return None;
    }
    let mut rest = number;
    let mut text = String::new();
    for (value, letters) in ROMAN {
        while rest >= value {
            text.push_str(letters);
            rest -= value;
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_words() {
        for (number, cardinal_text, ordinal_text) in [
            (0, "zero", "zeroeth"),
            (1, "one", "first"),
            (12, "twelve", "twelfth"),
            (14, "fourteen", "fourteenth"),
            (20, "twenty", "twentieth"),
            (26, "twenty-six", "twenty-sixth"),
            (100, "one hundred", "one hundredth"),
            (2026, "two thousand twenty-six", "two thousand twenty-sixth"),
            (
                2_461_107,
                "two million four hundred sixty-one thousand one hundred seven",
                "two million four hundred sixty-one thousand one hundred seventh",
            ),
        ] {
            assert_eq!(cardinal(number), cardinal_text);
            assert_eq!(ordinal(number), ordinal_text);
        }
        for (number, ending) in
            [(1, "st"), (2, "nd"), (3, "rd"), (4, "th"), (11, "th"), (112, "th"), (21, "st")]
        {
            assert_eq!(suffix(number), ending, "{number}");
        }
        for (number, words) in [
            (2026, "twenty twenty-six"),
            (1900, "nineteen hundred"),
            (2000, "two thousand"),
            (2010, "twenty ten"),
        ] {
            assert_eq!(year(number), words);
        }
    }

    #[test]
    fn numbers_have_roman_numerals() {
        for (number, text) in [(1, "I"), (4, "IV"), (2026, "MMXXVI"), (3999, "MMMCMXCIX")] {
            assert_eq!(roman(number).as_deref(), Some(text));
        }
        assert_eq!((roman(0), roman(4000)), (None, None));
    }
}
