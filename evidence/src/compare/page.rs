//! The comparison as one HTML page: the findings first, then all requests, then class by class.

use super::{Comparison, gather, json, pictures, table};
use crate::draw::{Cell, Page, Table, units};
use crate::run::Loop;

/// The page.
#[must_use]
pub fn page(comparison: &Comparison, title: &str) -> String {
    let mut page = Page::new(title);
    // A number stays on one line with its sign.
    let findings = comparison.findings();
    let findings: Vec<String> =
        findings.iter().map(|finding| finding.replace(" %", "\u{a0}%")).collect();
    page.list(&findings);
    let pictures = pictures::all(comparison);
    for (place, class) in comparison.classes.iter().enumerate() {
        page.section(&capital(&class.title));
        let measures = Comparison::measures(class);
        let mut table =
            Table::new(["run"].into_iter().chain(measures.iter().map(|measure| measure.title())));
        for (index, (head, row)) in comparison.runs.iter().zip(&class.rows).enumerate() {
            let Some(row) = row else { continue };
            let cells = measures.iter().map(|measure| {
                let text = row.figure(*measure).map(|figure| measure.shown(figure));
                let change = row.change(*measure).filter(|_| index > 0);
                Cell::from(text.unwrap_or_else(|| "-".to_owned()))
                    .note(change.map_or_else(String::new, units::change))
            });
            table.row(std::iter::once(Cell::from(head.label.as_str())).chain(cells));
        }
        let first = comparison.runs.first().map_or("", |head| head.label.as_str());
        let caption = match class.name.as_str() {
            gather::ALL => format!("All classes together, and the change against {first}"),
            _ => format!("The class {}, and the change against {first}", class.title),
        };
        page.table(&caption, &table);
        for picture in pictures.iter().filter(|picture| picture.class == place) {
            page.chart(&picture.chart, &picture.table);
        }
    }
    page.section("The runs");
    let mut runs = Table::new(["run", "source", "targets", "began", "took", "issued"]);
    for head in &comparison.runs {
        let run = &head.run;
        runs.row([
            head.label.clone(),
            run.source.clone(),
            targets(&run.targets),
            run.began.map_or_else(|| "-".to_owned(), date),
            if run.seconds > 0.0 { units::duration(run.seconds) } else { "-".to_owned() },
            match run.issued {
                Loop::Unknown => "-".to_owned(),
                known => json::issued(known).to_owned(),
            },
        ]);
    }
    page.table("Where the figures come from", &runs);
    let notes = comparison
        .runs
        .iter()
        .flat_map(|head| head.run.notes.iter().map(|note| format!("{}: {note}", head.label)));
    let beware: Vec<String> = comparison.warnings.iter().cloned().chain(notes).take(200).collect();
    if !beware.is_empty() {
        page.section("Beware").list(&beware);
    }
    page.section("How to read this").list(&table::LEGEND).paragraph(
        "In the time lines the line goes through the least and the largest value of each \
         stretch, and the band is the mean, give or take the standard deviation.",
    );
    page.finish()
}

fn targets(targets: &[String]) -> String {
    match targets {
        [] => "-".to_owned(),
        several => crate::draw::text::shortened(&several.join(", "), 200),
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

/// `2026-11-29 15:05 UTC`, of seconds since 1970.
fn date(seconds: u64) -> String {
    // The civil calendar from days, with years that begin in March.
    let days = (seconds / 86_400).min(100_000_000) + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let minutes = seconds % 86_400 / 60;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_796_000_000), "2026-11-30 00:53 UTC");
    }
}
