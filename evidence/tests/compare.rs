//! `plinth load compare`, from files to text, JSON, page and charts.

mod articles;

use plinth_evidence::{compare::Comparison, model::Class, run::Run};
use serde_json::Value;
use std::{fs, process::ExitCode};

fn json(runs: &[Run], options: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
    let (code, out) = articles::compare(&articles::files(directory.path(), runs), &options);
    assert_eq!(code, ExitCode::SUCCESS, "{out}");
    serde_json::from_str(&out).expect("JSON")
}

/// Of a class, of each run but the first, rounded as a table has it.
fn changes(json: &Value, class: &str, key: &str) -> Vec<String> {
    let classes = json["classes"].as_array().expect("classes");
    let found = classes.iter().find(|found| found["name"] == class).expect("the class");
    let rows = found["rows"].as_array().expect("rows");
    let change = |row: &Value| row["figures"][key]["change_percent"].as_f64().expect("a change");
    rows[1..].iter().map(|row| format!("{:+.1}", change(row))).collect()
}

#[test]
fn the_bake_off_has_the_changes_of_its_printed_figures() {
    let json = json(&articles::bake_off(), &[]);
    assert_eq!(changes(&json, "all", "requests_per_second"), ["-25.5", "-30.9"]);
    assert_eq!(changes(&json, "all", "mib_per_second"), ["-25.5", "-30.8"]);
    assert_eq!(changes(&json, "random-read", "mean_ns"), ["+36.1", "+38.6"]);
}

/// Text and page say the same as the JSON does.
#[test]
fn text_and_page_have_the_figures_of_the_json() {
    let runs = articles::bake_off();
    let page = articles::page(&runs, &[]);
    let directory = tempfile::tempdir().expect("a directory");
    let (_, text) = articles::compare(&articles::files(directory.path(), &runs), &[]);
    for figure in ["232,431", "173,142", "-25.5 %", "-30.9 %", "+36.1 %", "438 us", "607 us"] {
        assert!(text.contains(figure), "{figure} is not in\n{text}");
        assert!(page.contains(figure), "{figure} is not on the page");
    }
}

#[test]
fn the_three_histograms_have_the_shares_of_their_tables() {
    let runs = articles::preferred_reads();
    let share =
        |run: &Run, border| format!("{:.1}", run.classes[0].latency.share_up_to(border) * 100.0);
    let shares = |border| runs.iter().map(|run| share(run, border)).collect::<Vec<_>>();
    assert_eq!(shares(512_000), ["38.4", "29.6", "59.7"]);
    assert_eq!(shares(1_024_000), ["53.7", "63.2", "62.6"]);
    // And so they stand beside the picture.
    let page = articles::page(&runs, &[]);
    let row = |border: &str| {
        let from = page.find(&format!("<th scope=\"row\">{border}</th>")).expect("the row");
        page[from..].split("</tr>").next().expect("its end").to_owned()
    };
    for (border, shares) in [
        ("512 us", ["5,461<span>38.4 %", "5,425<span>29.6 %", "9,465<span>59.7 %"]),
        ("1.02 ms", ["2,383<span>53.7 %", "6,165<span>63.2 %", "519<span>62.6 %"]),
    ] {
        for share in shares {
            assert!(row(border).contains(share), "{share} is not in {}", row(border));
        }
    }
}

#[test]
fn a_price_is_per_request_a_second_at_the_latency_of_a_percentile() {
    let runs = articles::preferred_reads();
    // Without a duration there is no rate, and so no price.
    assert_eq!(json(&runs, &["--price", "120000"])["prices"], serde_json::json!([]));
    let long = [articles::long("a", 60, &[Class::RandomRead], 1000.0, 0.0)];
    let json =
        json(&[long[0].clone(), long[0].clone()], &["--price", "120000,60000", "--at", "p99.9"]);
    let prices = json["prices"].as_array().expect("prices");
    let per = |index: usize| prices[index]["price_per_request_per_second"].as_f64().expect("one");
    assert!((per(0) - 120.0).abs() < 1e-6 && (per(1) - 60.0).abs() < 1e-6, "{prices:?}");
    let latency = long[0].classes[0].latency.percentile(0.999).expect("known") as f64;
    assert_eq!(prices[0]["latency_ns"]["value"].as_f64(), Some(latency));
}

#[test]
fn a_ragged_run_has_more_raggedness_than_an_even_one() {
    let kinds = [Class::RandomRead];
    let runs = [
        articles::long("even", 600, &kinds, 1000.0, 0.05),
        articles::long("ragged", 600, &kinds, 1000.0, 0.8),
    ];
    let json = json(&runs, &[]);
    let of = |row: usize| {
        let figures = &json["classes"][0]["rows"][row]["figures"];
        figures["raggedness_percent"]["value"].as_f64().expect("a line")
    };
    assert!(of(0) > 0.0 && of(1) > of(0) * 5.0, "{} {}", of(0), of(1));
}

#[test]
fn a_page_of_ten_runs_of_eight_hours_is_below_300_kb_and_well_formed() {
    for kinds in [&[Class::RandomRead][..], &Class::ALL[..]] {
        let runs: Vec<Run> = (0..10)
            .map(|index| {
                let ragged = f64::from(index) / 10.0;
                articles::long(&format!("storage {index}"), 28_800, kinds, 1000.0, ragged)
            })
            .collect();
        let page = plinth_evidence::compare::page(&Comparison::new(&runs, None), "ten runs");
        assert!(page.len() < 300_000, "{} bytes of {} classes", page.len(), kinds.len());
        assert_page(&page);
    }
}

/// Whether an XML parser takes the page, and whether it is one file without script.
fn assert_page(page: &str) {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let parsed = roxmltree::Document::parse_with_options(page, options);
    let document = parsed.unwrap_or_else(|error| panic!("{error}"));
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object", "use", "image"].contains(&name));
        for attribute in node.attributes() {
            let named = attribute.name();
            assert!(!named.starts_with("on") && !["src", "href", "style", "id"].contains(&named));
        }
        if name == "svg" {
            let has = |name| node.children().any(|child| child.tag_name().name() == name);
            assert!(node.attribute("role") == Some("img") && has("title") && has("desc"));
        }
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.replace("http://www.w3.org/1999/xhtml", "").contains("://"));
}

#[test]
fn names_of_a_hostile_report_are_text() {
    let hostile = "<script>alert(1)</script>\u{202e}\u{1b}[2J\"'&]]>-->";
    let mut runs = articles::bake_off();
    for run in &mut runs {
        hostile.clone_into(&mut run.label);
        hostile.clone_into(&mut run.source);
        run.targets = vec![hostile.to_owned()];
        run.notes = vec![hostile.to_owned()];
        run.classes[0].class = None;
        hostile.clone_into(&mut run.classes[0].name);
    }
    let page = articles::page(&runs, &["--title", hostile, "--price", "1"]);
    assert_page(&page);
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("\\u{202e}"));
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}'));
    let directory = tempfile::tempdir().expect("a directory");
    let (_, text) = articles::compare(&articles::files(directory.path(), &runs), &[]);
    assert!(!text.contains('\u{202e}') && !text.contains('\u{1b}'));
    // Charts as files are named by letters and digits only.
    let charts = directory.path().join("charts");
    let name = charts.to_str().expect("a name of ours");
    articles::compare(&articles::files(directory.path(), &runs), &["--svg", name]);
    for file in fs::read_dir(&charts).expect("the directory") {
        let name = file.expect("a file").file_name().into_string().expect("letters");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        assert!(name.chars().all(is_plain) && name.ends_with(".svg"), "{name}");
        let text = fs::read_to_string(charts.join(&name)).expect("text");
        roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn odd_figures_neither_stop_nor_break_a_page() {
    let mut runs = articles::bake_off();
    runs[0].seconds = 0.0;
    runs[1].classes.clear();
    let read = &mut runs[2].classes[0];
    read.requests = u64::MAX;
    read.bytes = u64::MAX;
    let point = plinth_evidence::run::Point {
        at: -1e300,
        length: 1e300,
        requests: u64::MAX,
        bytes: u64::MAX,
        mean: 1e300,
        deviation: 1e300,
        p99: -1.0,
        max: 1e308,
    };
    read.line = vec![point; 5];
    read.line.extend(vec![plinth_evidence::run::Point { at: 0.0, length: 0.0, ..point }; 5]);
    read.line.extend((0..5_u8).map(|at| plinth_evidence::run::Point {
        at: f64::from(at) * 1e17,
        length: 1e-300,
        mean: 1e17,
        ..point
    }));
    let empty = articles::run("", "", -1.0, Vec::new());
    runs.push(empty);
    assert_page(&articles::page(&runs, &["--price", "1e300"]));
}

#[test]
fn one_run_a_file_that_is_none_and_a_newer_version_are_refused_with_exit_code_2() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut runs = articles::bake_off();
    runs[2].version = 99;
    let mut files = articles::files(directory.path(), &runs);
    let usage = ExitCode::from(2);
    assert_eq!(articles::compare(&files[..1], &[]).0, usage);
    assert_eq!(articles::compare(&files, &[]).0, usage);
    assert_eq!(articles::compare(&files[..2], &[]).0, ExitCode::SUCCESS);
    assert_eq!(articles::compare(&files[..2], &["--price", "1,2,3"]).0, usage);
    assert_eq!(articles::compare(&files[..2], &["--price=-1"]).0, usage);
    files[1] = directory.path().join("none");
    assert_eq!(articles::compare(&files[..2], &[]).0, usage);
    fs::write(&files[1], "neither run nor report").expect("the directory is ours");
    assert_eq!(articles::compare(&files[..2], &[]).0, usage);
}

/// Every kind of chart, as a file. `PLINTH_GOLDEN=write cargo test` writes them anew.
#[test]
fn charts_are_those_in_golden() {
    let kinds = [Class::RandomRead];
    let lines = [
        articles::long("even", 3600, &kinds, 1000.0, 0.05),
        articles::long("ragged", 3600, &kinds, 900.0, 0.8),
    ];
    let mut charts = Comparison::new(&articles::preferred_reads(), None).charts();
    charts.retain(|chart| chart.name.ends_with("histogram") || chart.name.ends_with("cumulative"));
    assert_eq!(charts.len(), 2);
    let price = plinth_evidence::compare::Price { amounts: vec![120_000.0], percentile: 0.99 };
    let drawn = Comparison::new(&lines, Some(&price)).charts();
    charts.extend(
        drawn.into_iter().filter(|chart| {
            ["time", "price", "latency"].iter().any(|end| chart.name.ends_with(end))
        }),
    );
    let stacks = [("DATA_0000", vec![60.0, 30.0, 10.0]), ("DATA_0001", vec![20.0, 75.0, 0.0])].map(
        |(label, values)| plinth_evidence::draw::bars::Stack {
            label,
            values,
            text: "100 GiB".to_owned(),
        },
    );
    let parts = ["used", "free", "kept for a failure"];
    let about = "DATA_0000 is fuller.";
    charts.push(plinth_evidence::draw::bars::stacked("space", "Space", about, &parts, &stacks));
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for chart in charts {
        let path = golden.join(format!("{}.svg", chart.name));
        let text = chart.standalone();
        if std::env::var_os("PLINTH_GOLDEN").is_some_and(|value| value == "write") {
            fs::write(&path, &text).expect("golden files are written in the source tree");
        }
        let wanted = fs::read_to_string(&path).unwrap_or_default();
        assert!(text == wanted, "{} differs: PLINTH_GOLDEN=write writes it anew", path.display());
    }
}
