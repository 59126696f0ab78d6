//! Pages of answers that are written here: hostile ones, very many, none.

use super::{
    facts::{Facts, Group, Rows, rows},
    *,
};

const NOW: i64 = 1_800_000_000_000_000_000;

fn facts(state: &str) -> Facts {
    let group = Group { name: "DATA".to_owned(), number: Some(1), state: state.to_owned() };
    let mut facts = Facts::new(group, NOW);
    facts.log = Ok(alert_log::Log::default());
    facts
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Disks in two failure groups, with labels.
fn disks(count: i64, label: &str) -> Rows {
    let columns = [
        "disk_number",
        "name",
        "failgroup",
        "failgroup_type",
        "mode_status",
        "state",
        "path",
        "label",
        "os_mb",
        "total_mb",
        "free_mb",
        "cold_used_mb",
        "reads",
        "read_time",
    ];
    let row = |number: i64| {
        vec![
            Value::Integer(number),
            text(&format!("DATA_{number:04}")),
            text(&format!("F{}", number % 2)),
            text("REGULAR"),
            text(if number == 1 { "OFFLINE" } else { "ONLINE" }),
            text("NORMAL"),
            text(&format!("/dev/mapper/{label}{number}")),
            text(label),
            Value::Integer(1_024),
            Value::Integer(1_000),
            Value::Integer(600),
            Value::Integer(400),
            Value::Integer(1_000),
            Value::Real(0.5),
        ]
    };
    rows(&columns, (0..count).map(row).collect())
}

/// Parses a page as XML.
fn parsed(page: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let parsed = roxmltree::Document::parse_with_options(page, options);
    parsed.unwrap_or_else(|error| panic!("{error}\n{page}"))
}

fn has_element(page: &str, name: &str) -> bool {
    parsed(page).descendants().any(|node| node.tag_name().name() == name)
}

#[test]
fn names_from_outside_are_text() {
    let evil = "</td><script>alert(1)</script>&\u{202e}\u{1b}[2J\"'";
    let mut facts = facts(evil);
    facts.put("v$asm_disk_stat", Ok(disks(3, evil)));
    let error = ["name", "kind", "count", "last_text"];
    let row = vec![text(evil), text(evil), Value::Integer(3), text(evil)];
    facts.put("v$asm_error", Ok(rows(&error, vec![row])));
    let client = ["instance_name", "client_type", "mount_point"];
    facts.put("v$asm_client", Ok(rows(&client, vec![vec![text(evil), text(evil), text(evil)]])));
    facts.put("v$asm_attribute", Err(evil.to_owned()));
    let page = page(&facts);
    assert!(!has_element(&page, "script"));
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}'));
    assert!(page.matches("&lt;script&gt;alert(1)").count() >= 8, "{page}");
}

#[test]
fn a_page_of_thousands_of_disks_is_small_and_says_what_is_left_out() {
    let mut facts = facts("MOUNTED");
    facts.put("v$asm_disk_stat", Ok(disks(5_000, &"long".repeat(100))));
    let bucket = |number: i64| {
        let counts = [number / 20, 1 << (number % 20), number].map(Value::Integer);
        let class = text(["READ", "WRITE"][usize::from(number % 3 == 0)]);
        counts.into_iter().chain([class]).collect()
    };
    let columns = ["disk_number", "wait_time_micro", "wait_count", "io_class"];
    facts.put("v$asm_disk_histogram", Ok(rows(&columns, (0..100_000).map(bucket).collect())));
    let page = page(&facts);
    assert!(page.len() <= PAGE_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("Left out of this table, to keep the page small: "));
    // The one that is not ONLINE comes first.
    let first = page.find("<th scope=\"row\">DATA_").map(|at| &page[at..at + 30]);
    assert!(first.is_some_and(|first| first.contains("DATA_0001")), "{first:?}");
    parsed(&page);
}

#[test]
fn a_question_without_an_answer_becomes_a_sentence_in_its_section() {
    let views: Vec<&str> = questions().map(|question| question.view).collect();
    for view in views {
        let mut facts = facts("MOUNTED");
        facts.put(view, Err("the engine does not answer".to_owned()));
        let page = page(&facts);
        let sentence = format!("{view} could not be asked: the engine does not answer.");
        // In the list at the top, and where its figures would stand.
        let has_section = !matches!(view, "v$instance" | "v$asm_alias" | "v$diag_info");
        assert_eq!(page.matches(&sentence).count(), 1 + usize::from(has_section), "{view}");
        assert!(!page.contains("Nothing needs attention"), "{view}");
        parsed(&page);
    }
}

#[test]
fn nothing_needs_attention_where_everything_is_well() {
    let mut facts = facts("MOUNTED");
    facts.put("v$asm_disk_stat", Ok(disks(1, "")));
    assert!(page(&facts).contains("Nothing needs attention"));
    facts.put("v$asm_disk_stat", Ok(disks(2, "")));
    let page = page(&facts);
    assert!(!page.contains("Nothing needs attention"));
    assert!(page.contains("Not ONLINE: 1 disk (DATA_0001)."));
}

#[test]
fn the_bar_of_a_disk_is_its_device() {
    let sums =
        |rows: &Rows| -> Vec<[i64; 3]> { rows.iter().map(|row| space::parts(&row)).collect() };
    assert_eq!(sums(&disks(2, "")), [[400, 600, 24], [400, 0, 624]]);
}
