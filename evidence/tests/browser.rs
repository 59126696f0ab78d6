//! A page as Chromium shows it: no request but for itself, nothing wider than the screen, text
//! that can be read and does not cover other text, in light and dark, on a wide and a narrow
//! screen.

mod articles;
mod chromium;

use chromium::{Browser, SCREENS};
use plinth_evidence::{
    draw::{
        Cell, Page, Table,
        bars::{Stack, stacked},
    },
    model::Class,
    run::Run,
};

fn pages() -> Vec<(&'static str, String)> {
    let long = |kinds: &[Class], count: usize| -> Vec<Run> {
        let of = |index: usize| {
            let label = ["bare metal", "a hypervisor with a long name", "array <script>"];
            let ragged = [0.05, 0.4, 0.9][index % 3];
            let rate = 1000.0 - 60.0 * index as f64;
            articles::long(label[index % 3], 28_800, kinds, rate, ragged)
        };
        (0..count).map(of).collect()
    };
    let price = ["--price", "120000", "--at", "p99.9"];
    let preferred = articles::preferred_reads();
    vec![
        ("preferred", articles::page(&preferred, &["--title", "Preferred reads"])),
        ("bake-off", articles::page(&articles::bake_off(), &price)),
        ("two", articles::page(&long(&Class::ALL[..3], 2), &price)),
        ("ten", articles::page(&long(&Class::ALL[..1], 10), &price)),
        ("group", group()),
    ]
}

/// A page that is no comparison.
fn group() -> String {
    let values = [("DATA_0000", [60.0, 30.0, 10.0]), ("DATA_0001", [1.0, 98.0, 1.0])];
    let mut table = Table::new(["disk", "used", "free", "kept", "state"]);
    for (disk, values) in &values {
        let cells = values.map(|value| Cell::from(format!("{value} GiB")).note("of 100 GiB"));
        table.row([Cell::from(*disk)].into_iter().chain(cells).chain([Cell::from("online")]));
    }
    let stacks = values.map(|(label, values)| Stack {
        label,
        values: values.to_vec(),
        text: "100 GiB".to_owned(),
    });
    let parts = ["used", "free", "kept for the failure of a disk"];
    let chart = stacked("space", "Space by disk", "DATA_0000 is fuller.", &parts, &stacks);
    let mut page = Page::new("Group DATA");
    page.paragraph("Two disks, normal redundancy.").section("Space").chart(&chart, &table);
    page.table("Disks", &table).section("Alert log");
    let line = "2026-11-29 15:05:24 group DATA: rebalance has moved 1,024 units in 12.3 s";
    page.lines("The alert log's last day", &[line, line]);
    page.finish()
}

#[test]
fn pages_make_no_request_and_are_legible_on_wide_and_narrow_screens_in_light_and_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut flaws = Vec::new();
    for (name, text) in pages() {
        let path = directory.path().join(format!("{name}.html"));
        std::fs::write(&path, text).expect("the directory is ours");
        for (width, scheme) in SCREENS {
            let found = browser.flaws(&path, width, scheme);
            flaws.extend(found.iter().map(|flaw| format!("{name} at {width}, {scheme}: {flaw}")));
            browser.keep_screenshot(&format!("{name}-{width}-{scheme}"));
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

/// The test above can fail: a page that asks for a picture is found out.
#[test]
fn a_request_would_be_counted() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("page.html");
    let text = articles::page(&articles::preferred_reads(), &[]);
    let text = text.replace("<main>", "<main><img src=\"other.png\" alt=\"\"/>");
    std::fs::write(&path, text.replace("default-src 'none'", "img-src *")).expect("ours");
    browser.open(&format!("file://{}", path.display()), 1280, "light");
    assert_eq!(browser.requests().len(), 2, "{:?}", browser.requests());
}
