//! The comparison as JSON: the figures of the table, each with its unit in its key.

use super::{Comparison, Figure, Is, Measure};
use crate::run::Loop;
use serde_json::{Map, Value, json};

pub(super) fn text(comparison: &Comparison) -> String {
    let runs: Vec<Value> = comparison
        .runs
        .iter()
        .map(|head| {
            let run = &head.run;
            json!({
                "label": head.label, "source": run.source, "targets": run.targets,
                "began": run.began, "seconds": run.seconds, "issued": run.issued,
                "notes": run.notes,
            })
        })
        .collect();
    let label = |index: usize| comparison.runs.get(index).map(|head| head.label.as_str());
    let mut classes = Vec::new();
    for class in &comparison.classes {
        let rows: Vec<Value> = class
            .rows
            .iter()
            .enumerate()
            .filter_map(|(index, row)| {
                let row = row.as_ref()?;
                let mut figures = Map::new();
                for measure in Measure::ALL {
                    if let Some(found) = row.figure(measure) {
                        let mut value = figure(found);
                        if let Some(change) = row.change(measure) {
                            value["change_percent"] = json!(change);
                        }
                        figures.insert(measure.key().to_owned(), value);
                    }
                }
                Some(json!({ "run": label(index), "errors": row.errors, "figures": figures }))
            })
            .collect();
        classes.push(json!({ "name": class.name, "title": class.title, "rows": rows }));
    }
    let costs: Vec<Value> = comparison
        .costs
        .iter()
        .map(|cost| {
            json!({
                "run": label(cost.run), "price": cost.price, "requests_per_second": cost.rate,
                "price_per_request_per_second": cost.per_request,
                "percentile": comparison.percentile * 100.0,
                "latency_ns": figure(cost.latency), "of": cost.of,
            })
        })
        .collect();
    let whole = json!({
        "version": 1, "runs": runs, "classes": classes, "prices": costs,
        "warnings": comparison.warnings,
    });
    format!("{whole:#}\n")
}

fn figure(figure: Figure) -> Value {
    let is = match figure.is {
        Is::Exact => "exact",
        Is::AtMost => "at-most",
        Is::Above => "above",
        Is::About => "about",
    };
    json!({ "value": figure.value, "is": is })
}

/// As a sentence has it.
pub(super) fn issued(issued: Loop) -> &'static str {
    match issued {
        Loop::Open => "open loop",
        Loop::Closed => "closed loop",
        Loop::Unknown => "in a way that is not known",
    }
}
