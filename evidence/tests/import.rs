//! Reports that the generator writes give back their figures, damaged ones do no harm, and real
//! ones (where they are beside the source) give the values that were computed by hand.

mod generator;

use generator::{Figures, Random, Release, Style};
use plinth_evidence::{
    import::{read_model, read_run},
    model::{Class, Model},
};
use std::{fs, path::PathBuf};

fn close(found: f64, right: f64, share: f64) -> bool {
    (found - right).abs() <= right.abs() * share
}

#[track_caller]
fn check(text: &str, figures: &Figures, what: &str) -> Model {
    let model =
        read_model(text.as_bytes(), what).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
    let totals = model.totals;
    for (name, found, right) in [
        ("elapsed", model.elapsed, figures.elapsed),
        ("reads", totals.reads, figures.reads / figures.elapsed),
        ("read bytes", totals.read_bytes, figures.read_bytes / figures.elapsed),
        ("writes", totals.writes, figures.writes / figures.elapsed),
        ("write bytes", totals.write_bytes, figures.write_bytes / figures.elapsed),
    ] {
        assert!(close(found, right, 0.002), "{what}: {name} {found} for {right}\n{text}");
    }
    assert_eq!(model.block_size, Some(figures.block), "{what}");
    consistent(&model);
    model
}

/// Requests and bytes add up, sizes are possible.
fn consistent(model: &Model) {
    let (sums, totals) = (model.sums(), model.totals);
    let is_said = model.assumed.iter().any(|text| {
        text.contains("more requests than it has") || text.contains("more bytes than it has")
    });
    if !is_said {
        assert!(close(sums.reads, totals.reads, 0.005), "{model:?}");
        assert!(close(sums.read_bytes, totals.read_bytes, 0.005), "{model:?}");
        assert!(close(sums.writes, totals.writes, 0.005), "{model:?}");
        assert!(close(sums.write_bytes, totals.write_bytes, 0.005), "{model:?}");
    }
    for stream in &model.streams {
        assert!((512..=1 << 20).contains(&stream.size) && stream.size % 512 == 0, "{model:?}");
        assert!(stream.rate.is_finite() && stream.rate > 0.0, "{model:?}");
    }
}

#[track_caller]
fn check_redo(model: &Model, figures: &Figures) {
    let log = model.stream(Class::LogWrite).expect("redo is written");
    let right = figures.redo_writes * figures.members / figures.elapsed;
    assert!(close(log.rate, right, 0.05), "{log:?} for {right}, {} members", figures.members);
    let bytes = figures.redo_blocks * 512.0 * figures.members / figures.elapsed;
    assert!(close(log.rate * log.mean(), bytes, 0.02), "{log:?} for {bytes} bytes");
}

#[test]
fn every_release_and_form_gives_back_its_figures() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let figures = Figures::random(&mut random);
        let release = Release::ALL[seed as usize % 6];
        let style = Style::random(&mut random);
        let what = format!("seed {seed} {release:?} {style:?}");
        let html = check(&generator::awr_html(&figures, release, style), &figures, &what);
        let text = generator::awr_text(&figures, release, style.is_crlf);
        let text = check(&text, &figures, &format!("{what} text"));
        if release != Release::V10 {
            check_redo(&html, &figures);
            check_redo(&text, &figures);
            let waits = html.waits.iter().find(|waits| waits.event == "db file sequential read");
            let buckets = &waits.expect("waits").buckets;
            assert!(close(buckets.share_up_to(1_000_000), 0.7, 0.01), "{buckets:?}");
        }
        assert!(close(html.streams[0].latency.expect("a latency"), 1.52e6, 0.01), "{html:?}");
        check_redo(
            &check(&generator::statspack(&figures, style.is_crlf), &figures, &what),
            &figures,
        );
        check(&generator::awr_global(&figures, style), &figures, &format!("{what} global"));
    }
}

#[test]
fn another_notation_of_numbers_is_the_same_report() {
    let figures = Figures::random(&mut Random(7));
    let style = Style { is_closed: true, is_crlf: false, space: "" };
    let text = generator::awr_html(&figures, Release::V11, style);
    let (before, rest) = text.split_once("<h3 class=\"awr\">Foreground").expect("waits");
    let swapped: String = rest
        .chars()
        .map(|letter| match letter {
            ',' => '.',
            '.' => ',',
            other => other,
        })
        .collect();
    check(&format!("{before}<h3 class=\"awr\">Foreground{swapped}"), &figures, "commas");
}

#[test]
fn a_report_without_a_part_names_it_or_is_refused() {
    let figures = Figures::random(&mut Random(3));
    let style = Style { is_closed: true, is_crlf: false, space: "" };
    let text = generator::awr_html(&figures, Release::V19, style);
    let without = |name: &str| text.replace(name, "something else");
    let model = read_model(without("physical read total multi block requests").as_bytes(), "")
        .expect("one class of reads");
    assert!(model.missing.iter().any(|text| text.contains("read total multi block")), "{model:?}");
    assert!(model.stream(Class::LargeRead).is_none());
    let model = read_model(without(">  LGWR").as_bytes(), "").expect("redo without members");
    assert!(model.missing.iter().any(|text| text.contains("LGWR")), "{model:?}");
    let error = read_model(without(">  physical read total bytes<").as_bytes(), "r.html")
        .expect_err("no bytes, no profile");
    assert!(error.to_string().contains("physical read total bytes"), "{error}");
    let model = read_model(without(">Total<").as_bytes(), "").expect("the rates are left");
    assert!(model.missing.iter().any(|text| text.contains("column Total")), "{model:?}");
    assert!(close(model.totals.reads, figures.reads / figures.elapsed, 0.005));
    let overflow = text.replacen(&format!(">  {}<", grouped(figures.reads)), ">  ########<", 1);
    assert_ne!(overflow, text);
    let model = read_model(overflow.as_bytes(), "").expect("the rate is left");
    assert!(close(model.totals.reads, figures.reads / figures.elapsed, 0.005));
}

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The extract that the article on thin provisioning prints has no header.
#[test]
fn an_extract_of_the_article_is_a_model() {
    let article = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared/reference/articles/flashdba-asm-thin-poc-asmfd-slob-rebalance.txt");
    let Ok(article) = fs::read_to_string(article) else { return };
    let from = article.find("Statistic  ").expect("the extract");
    let to = from + article[from..].find("Of course").expect("its end");
    let model = read_model(&article.as_bytes()[from..to], "extract").expect("a model");
    assert_eq!(model.block_size, Some(16_384));
    for (class, rate, size) in [
        (Class::RandomRead, 4991.0, 16_384.0),
        (Class::LargeRead, 2716.3, 961_418.0),
        (Class::RandomWrite, 4390.9, 16_384.0),
        (Class::LargeWrite, 765.7, 792_540.0),
        (Class::LogWrite, 47.4, 65_536.0),
    ] {
        let stream = model.stream(class).expect("the class");
        assert!(close(stream.rate, rate, 0.002) && close(stream.mean(), size, 0.002), "{stream:?}");
    }
    assert!(model.missing.iter().any(|text| text == "redo blocks written"));
    consistent(&model);
}

#[test]
fn a_total_that_contradicts_its_rate_is_no_figure() {
    let figures = Figures::random(&mut Random(11));
    let style = Style { is_closed: true, is_crlf: false, space: "" };
    let text = generator::awr_html(&figures, Release::V19, style);
    let damaged = text.replace(
        &format!(">  {}<", grouped(figures.writes)),
        &format!(">  {}<", grouped(figures.writes * 10.0)),
    );
    assert_ne!(damaged, text);
    let error = read_model(damaged.as_bytes(), "").expect_err("writes are not known");
    assert!(error.to_string().contains("physical write total IO requests"), "{error}");
}

#[test]
fn files_that_are_no_report_are_refused_in_one_sentence() {
    let figures = Figures::random(&mut Random(5));
    let style = Style { is_closed: true, is_crlf: false, space: "" };
    let report = generator::awr_html(&figures, Release::V19, style);
    let text = generator::awr_text(&figures, Release::V11, false);
    for (bytes, word) in [
        (String::new(), "empty"),
        ("hello\n".to_owned(), "no report"),
        ("<html><body><table><tr><td>1</table></body></html>".to_owned(), "page"),
        (format!("{report}{report}"), "2 reports"),
        (format!("{text}{text}"), "2 reports"),
        (
            report
                .replace("WORKLOAD REPOSITORY report for", "ASH Report For GENDB/gendb1")
                .replace("AWR Report for", "ASH Report -"),
            "ASH",
        ),
        (
            report.replace(
                "WORKLOAD REPOSITORY report for",
                "WORKLOAD REPOSITORY COMPARE PERIOD REPORT",
            ),
            "comparison",
        ),
        ("{\"a\": 1}".to_owned(), "JSON"),
        ("PK\u{3}\u{4}xxxx".to_owned(), "zip"),
    ] {
        let error = read_model(bytes.as_bytes(), "file").expect_err(word).to_string();
        assert!(error.starts_with("file ") && error.contains(word), "{word}: {error}");
        assert!(!error.contains('\n'));
    }
}

/// A report that is cut has all of a statistic, or none of it.
#[test]
fn a_report_that_is_cut_anywhere_has_right_figures_or_none() {
    let figures = Figures::random(&mut Random(13));
    let style = Style { is_closed: false, is_crlf: true, space: "&nbsp;" };
    for report in [
        generator::awr_html(&figures, Release::V122, style),
        generator::awr_text(&figures, Release::V11, false),
        generator::statspack(&figures, true),
    ] {
        let mut end = report.len();
        while end > 0 {
            end = end.saturating_sub(1 + end % 29);
            while !report.is_char_boundary(end) {
                end -= 1;
            }
            if let Ok(model) = read_model(&report.as_bytes()[..end], "cut") {
                assert!(close(model.totals.reads, figures.reads / figures.elapsed, 0.005), "{end}");
                assert!(
                    close(model.totals.writes, figures.writes / figures.elapsed, 0.005),
                    "{end}"
                );
                assert!(
                    close(model.totals.write_bytes, figures.write_bytes / figures.elapsed, 0.005),
                    "{end}"
                );
                consistent(&model);
            }
        }
    }
}

fn inputs() -> Vec<String> {
    let mut random = Random(99);
    let figures = Figures::random(&mut random);
    let style = Style { is_closed: false, is_crlf: false, space: "&nbsp;" };
    vec![
        generator::awr_html(&figures, Release::V19, style),
        generator::awr_text(&figures, Release::V11, true),
        generator::statspack(&figures, false),
        generator::awr_global(&figures, style),
        include_str!("generator/pg_stat_io.txt").to_owned(),
        include_str!("generator/status.txt").to_owned(),
        include_str!("generator/iostat.txt").to_owned(),
        include_str!("generator/fio.json").to_owned(),
        include_str!("generator/flatfile.txt").to_owned(),
        include_str!("generator/parameters.txt").to_owned(),
        include_str!("generator/pgbench.txt").to_owned(),
    ]
}

fn mutated(input: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = input.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let from = bytes[..at].iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
                let line = bytes[from..at].to_vec();
                bytes.splice(at..at, line);
            }
            4 => {
                let to = bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(1);
                bytes.drain(at..at + to);
            }
            _ => {
                let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit) else { continue };
                let from = at + from;
                let is_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',');
                let to = bytes[from..].iter().position(|byte| !is_number(byte)).unwrap_or(0);
                let numbers = [
                    "NaN",
                    "-1",
                    "1e308",
                    "99999999999999999999",
                    "0",
                    "inf",
                    "######",
                    "1E+400",
                    "",
                ];
                let number = numbers[random.below(numbers.len())];
                bytes.splice(from..from + to, number.bytes());
            }
        }
    }
    bytes
}

/// As many as `PLINTH_MUTATIONS` says.
#[test]
fn damaged_reports_do_no_harm() {
    let count =
        std::env::var("PLINTH_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000);
    let inputs = inputs();
    for seed in 0..count {
        let mut random = Random(seed);
        let input = &inputs[random.below(inputs.len())];
        let bytes = mutated(input, &mut random);
        let outcome = std::panic::catch_unwind(|| {
            if let Ok(model) = read_model(&bytes, "") {
                consistent(&model);
            }
            let _ = read_run(&bytes, "");
        });
        assert!(outcome.is_ok(), "seed {seed}: {}", String::from_utf8_lossy(&bytes));
    }
}

fn samples() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/samples/awr");
    folder.is_dir().then_some(folder)
}

struct Right {
    file: &'static str,
    elapsed: f64,
    reads: (f64, f64),
    writes: (f64, f64),
    /// Class, rate, size.
    classes: &'static [(Class, f64, f64)],
}

const RIGHT: [Right; 9] = [
    Right {
        file: "awr-11.2-rac-idle.html",
        elapsed: 3613.0,
        reads: (2.500, 0.0389),
        writes: (0.951, 0.01645),
        classes: &[(Class::RandomRead, 2.5, 16_321.0)],
    },
    Right {
        file: "awr-11.2-rac-idle.txt",
        elapsed: 3613.0,
        reads: (2.500, 0.0389),
        writes: (0.951, 0.01645),
        classes: &[(Class::RandomRead, 2.5, 16_321.0)],
    },
    Right {
        file: "awr-11.2-scan.html",
        elapsed: 3605.7,
        reads: (1140.38, 563.44),
        writes: (295.42, 14.951),
        classes: &[
            (Class::RandomRead, 560.95, 8192.0),
            (Class::LargeRead, 579.44, 1_011_699.0),
            (Class::RandomWrite, 246.94, 8192.0),
            (Class::LargeWrite, 17.87, 462_256.0),
            (Class::LogWrite, 30.61, 176_205.0),
        ],
    },
    Right {
        file: "awr-19c-rac.html",
        elapsed: 3596.4,
        reads: (23.84, 0.658),
        writes: (53.67, 0.862),
        classes: &[
            (Class::RandomRead, 23.17, 8192.0),
            (Class::LargeRead, 0.670, 746_873.0),
            (Class::RandomWrite, 16.25, 8192.0),
            (Class::LargeWrite, 1.260, 345_518.0),
            (Class::LogWrite, 36.16, 9273.0),
        ],
    },
    Right {
        file: "awr-11.2-aix.html",
        elapsed: 3616.3,
        reads: (1140.46, 418.848),
        writes: (140.59, 1.034),
        classes: &[
            (Class::RandomRead, 713.93, 8192.0),
            (Class::LargeRead, 426.53, 1_015_972.0),
            (Class::RandomWrite, 65.50, 8192.0),
            (Class::LargeWrite, 0.669, 338_066.0),
            (Class::LogWrite, 74.42, 4320.0),
        ],
    },
    Right {
        file: "awr-19c-16k.html",
        elapsed: 1801.1,
        reads: (1802.00, 40.716),
        writes: (1091.66, 17.500),
        classes: &[
            (Class::RandomRead, 1785.31, 16_384.0),
            (Class::LargeRead, 16.70, 805_204.0),
            (Class::RandomWrite, 336.52, 16_384.0),
            (Class::LargeWrite, 16.71, 418_573.0),
            (Class::LogWrite, 738.43, 7915.0),
        ],
    },
    Right {
        file: "awr-12.2-64k-reads.html",
        elapsed: 1309.1,
        reads: (8051.28, 500.670),
        writes: (1.89, 0.0254),
        classes: &[
            (Class::RandomRead, 8051.28, 65_206.0),
            (Class::RandomWrite, 1.38, 8192.0),
            (Class::LargeWrite, 0.0313, 335_749.0),
            (Class::LogWrite, 0.48, 9972.0),
        ],
    },
    Right {
        file: "statspack-11.2.txt",
        elapsed: 86399.0,
        reads: (7.423, 0.2817),
        writes: (5.101, 0.1131),
        classes: &[
            (Class::RandomRead, 6.61, 8192.0),
            (Class::LargeRead, 0.811, 297_447.0),
            (Class::RandomWrite, 2.39, 8192.0),
            (Class::LargeWrite, 0.1135, 552_454.0),
            (Class::LogWrite, 2.6, 13_956.0),
        ],
    },
    Right {
        file: "awr-12.2-idle.html",
        elapsed: 3614.8,
        reads: (4.53, 0.0797),
        writes: (5.12, 0.0745),
        classes: &[
            (Class::RandomRead, 4.52, 16_099.0),
            (Class::LargeRead, 0.0102, 1_048_576.0),
            (Class::RandomWrite, 2.48, 8192.0),
            (Class::LargeWrite, 0.0775, 376_134.0),
            (Class::LogWrite, 2.56, 11_192.0),
        ],
    },
];

#[test]
fn real_reports_have_the_values_that_were_computed_by_hand() {
    const MIB: f64 = 1_048_576.0;
    let Some(folder) = samples() else { return };
    for right in &RIGHT {
        let bytes = fs::read(folder.join(right.file)).expect("the sample");
        let model = read_model(&bytes, right.file).unwrap_or_else(|error| panic!("{error}"));
        consistent(&model);
        let totals = model.totals;
        for (name, found, right_value) in [
            ("elapsed", model.elapsed, right.elapsed),
            ("reads", totals.reads, right.reads.0),
            ("read MiB", totals.read_bytes / MIB, right.reads.1),
            ("writes", totals.writes, right.writes.0),
            ("write MiB", totals.write_bytes / MIB, right.writes.1),
        ] {
            assert!(close(found, right_value, 0.005), "{}: {name} {found}", right.file);
        }
        for (class, rate, size) in right.classes {
            let stream =
                model.stream(*class).unwrap_or_else(|| panic!("{}: no {class}", right.file));
            assert!(close(stream.mean(), *size, 0.02), "{}: {stream:?}", right.file);
            assert!(close(stream.rate, *rate, 0.02), "{}: {stream:?}", right.file);
        }
    }
}

#[test]
fn html_and_text_of_one_report_are_one_model() {
    let Some(folder) = samples() else { return };
    let of = |file: &str| {
        let bytes = fs::read(folder.join(file)).expect("the sample");
        read_model(&bytes, "").expect("a model")
    };
    let (html, text) = (of("awr-11.2-rac-idle.html"), of("awr-11.2-rac-idle.txt"));
    assert!(close(html.elapsed, text.elapsed, 0.0005));
    assert_eq!(html.streams.len(), text.streams.len());
    for (a, b) in html.streams.iter().zip(&text.streams) {
        assert!(close(a.rate, b.rate, 0.001) && close(a.mean(), b.mean(), 0.001), "{a:?} {b:?}");
        assert_eq!((a.class, &a.latency_from), (b.class, &b.latency_from));
    }
    let events =
        |model: &Model| model.waits.iter().map(|waits| waits.event.clone()).collect::<Vec<_>>();
    assert_eq!(events(&html), events(&text));
    for (a, b) in html.waits.iter().zip(&text.waits) {
        assert_eq!(a.buckets, b.buckets, "{}", a.event);
    }
}

#[test]
fn histograms_of_real_reports_have_their_shares() {
    let Some(folder) = samples() else { return };
    for (file, mean_us, shares) in [
        ("awr-11.2-scan.html", 21.0, &[(1_000_000, 0.999)][..]),
        (
            "awr-11.2-aix.html",
            1500.0,
            &[(1_000_000, 0.693), (2_000_000, 0.827), (32_000_000, 0.997)][..],
        ),
        (
            "awr-19c-16k.html",
            1517.0,
            &[(256_000, 0.009), (512_000, 0.063), (1_024_000, 0.506), (2_048_000, 0.910)][..],
        ),
        (
            "awr-12.2-idle.html",
            1700.0,
            &[(8000, 0.012), (32_000, 0.621), (64_000, 0.864), (512_000, 0.881)][..],
        ),
    ] {
        let bytes = fs::read(folder.join(file)).expect("the sample");
        let run = read_run(&bytes, file).expect("a run");
        let class =
            run.classes.iter().find(|class| class.class == Some(Class::RandomRead)).expect("reads");
        assert!(
            close(class.mean.expect("a mean") / 1000.0, mean_us, 0.01),
            "{file}: {:?}",
            class.mean
        );
        for (border, share) in shares {
            let found = class.latency.share_up_to(*border);
            assert!((found - share).abs() < 0.003, "{file}: {found} up to {border}");
        }
    }
}

#[test]
fn real_samples_of_systems_have_their_figures() {
    let Some(folder) = samples() else { return };
    let of = |file: &str| {
        read_model(&fs::read(folder.join(file)).expect("the sample"), file).expect(file)
    };
    let iostat = of("iostat-old-kb.txt");
    let reads = iostat.stream(Class::RandomRead).expect("reads");
    assert!(close(reads.rate, 0.13, 1e-6) && close(reads.mean(), 40.5 * 1024.0, 0.01), "{reads:?}");
    let coarse = of("iostat-old-mb.txt");
    assert!(close(coarse.streams[0].mean(), 52.53 * 512.0, 0.01), "{coarse:?}");
    let mysql = of("mysql-status.txt");
    assert!(close(mysql.sums().writes * 2511.0, 1067.0, 0.005));
    assert!(close(mysql.sums().write_bytes * 2511.0, 36_013_056.0, 0.005));
    assert!(close(mysql.stream(Class::LargeWrite).expect("doublewrite").mean(), 715_113.0, 0.001));
    let (text, json) = (of("iostat-12.6-kb.txt"), of("iostat-12.6.json"));
    assert!(close(text.totals.reads, 568.0, 1e-6) && close(json.totals.reads, 444.0, 1e-6));
}
